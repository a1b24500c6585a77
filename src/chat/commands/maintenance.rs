//! `maintenance`: lists the windows in which alerts call nobody, begins one, or ends one.

use std::time::Duration;

use jiff::Timestamp;
use tracing::error;

use crate::acts::NOTE_CHARS;
use crate::authority::Power;
use crate::command::{MaintenanceArguments, MaintenanceOperation};
use crate::replies::Caller;
use crate::reply::Reply;
use crate::wording::{sentence, with};
use knowledge::alert::Labels;
use knowledge::clock::{TimeArgument, after, unix_ms};
use knowledge::incident::{MaintenanceWindow, short_id};
use message::{Block, Line, Message, TextSpan, Tone};
use notify::{LONGEST_MAINTENANCE, Notifier};
use render::cut;
use store::{AuditResult, StoreError};

/// The name of the act in the audit log.
const ACT: &str = "maintenance";
/// Maximum number of windows in a list.
const LISTED: usize = 20;
const DAY: Duration = Duration::from_secs(86_400);

/// Executes the command and answers.
pub(super) async fn run(caller: Caller<'_>, reply: &Reply<'_>, arguments: &MaintenanceArguments) {
    let (notifier, now) = (caller.notifier, caller.log.store.now());
    let words = &notifier.words;
    let operation = match arguments.operation() {
        Ok(MaintenanceOperation::List) => return reply.send_message(&list(notifier)).await,
        Ok(MaintenanceOperation::Begin(_, lasts)) if lasts > LONGEST_MAINTENANCE => {
            return reply.send_message(&sentence(Tone::Unknown, words.line("maintenance-long", &[]))).await;
        }
        Ok(operation) => operation,
        Err(why) => return reply.send_message(&sentence(Tone::Unknown, Line::of(&why))).await,
    };
    if !caller.permit(ACT, None, Power::Act).await {
        return;
    }
    let Ok(attempt) = caller.log.begin(caller.actor(), ACT, None).await else {
        return caller.tell_phrase("act-store").await;
    };
    let changed = match operation {
        MaintenanceOperation::Begin(labels, lasts) => {
            let who = caller.user().to_owned();
            let window = begun(notifier, arguments, (labels, lasts), (attempt.id(), who), now);
            if window.until <= now {
                attempt.end(caller.log, AuditResult::Failed, "", "it is over already").await;
                return reply.send_message(&sentence(Tone::Unknown, words.line("maintenance-past", &[]))).await;
            }
            let written = caller.log.store.begin_maintenance(std::slice::from_ref(&window)).await;
            written.map(|()| Some(("maintenance-begun", window)))
        }
        MaintenanceOperation::End(id) => {
            let ended = caller.log.store.end_maintenance(&id, now).await;
            ended.map(|window| window.map(|window| ("maintenance-ended", window)))
        }
        MaintenanceOperation::List => Ok(None),
    };
    let (result, message) = match &changed {
        Ok(Some((key, window))) => {
            let line = words.line(key, &[("window", described(notifier, window).into())]);
            (AuditResult::Done, sentence(Tone::Unknown, line))
        }
        Ok(None) => (AuditResult::Failed, sentence(Tone::Unknown, words.line("maintenance-unknown", &[]))),
        Err(error) => {
            error!(%error, "cannot change the maintenance windows");
            (AuditResult::Failed, sentence(Tone::Unknown, words.line("act-store", &[])))
        }
    };
    let window = changed.iter().flatten().next();
    let target = window.map(|(key, window)| format!("{key} {}", window.id)).unwrap_or_default();
    let detail = window.map(|(_, window)| described(notifier, window).text()).unwrap_or_default();
    attempt.end(caller.log, result, &target, &detail).await;
    renew(notifier, now).await;
    reply.send_message(&message).await;
}

/// Makes the change hold here at once; other replicas follow within seconds.
async fn renew(notifier: &Notifier, now: Timestamp) {
    let renewed: Result<_, StoreError> = notifier.renew_maintenance(now).await;
    if let Err(error) = renewed {
        error!(%error, "cannot read the maintenance windows: the change holds within seconds");
    }
}

/// Returns the window that somebody asks for; its reason has no secrets.
fn begun(
    notifier: &Notifier,
    arguments: &MaintenanceArguments,
    (labels, lasts): (Labels, Duration),
    (id, who): (&str, String),
    now: Timestamp,
) -> MaintenanceWindow {
    let since = match arguments.at {
        None => now,
        // A time of day that has passed is that of tomorrow.
        Some(at @ TimeArgument::Of(_)) => match at.resolve(now) {
            past if unix_ms(past) < unix_ms(now) => after(past, DAY),
            since => since,
        },
        Some(at) => at.resolve(now),
    };
    let reason = arguments.because.as_deref().unwrap_or_default();
    // Cleaned before it is cut: half a secret has no pattern.
    let reason = cut(&notifier.redactor_of([]).text("message", reason.trim()), NOTE_CHARS);
    MaintenanceWindow { id: id.to_owned(), labels, since, until: after(since, lasts), who, reason }
}

fn list(notifier: &Notifier) -> Message {
    let (windows, words) = (notifier.maintenance.windows(), &notifier.words);
    let headline = words.line("maintenance-list", &[("n", windows.len().into())]);
    let lines = windows.iter().take(LISTED).map(|window| Block::Paragraph(described(notifier, window)));
    lines.fold(sentence(Tone::Unknown, headline), with)
}

/// Describes a window: labels, times, who made it, why.
fn described(notifier: &Notifier, window: &MaintenanceWindow) -> Line {
    let words = &notifier.words;
    let labels = notifier.clean_labels(&window.labels);
    let labels = labels.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(", ");
    let pieces = [
        ("labels", Line::default().code(cut(&labels, NOTE_CHARS)).into()),
        ("since", TextSpan::Time(window.since).into()),
        ("until", TextSpan::Time(window.until).into()),
    ];
    let line = words.line("maintenance-one", &pieces);
    let line = match window.who.as_str() {
        "" => words.line("maintenance-configured", &[("line", line.into())]),
        who => {
            let id = Line::default().code(short_id(&window.id));
            let who = TextSpan::User(who.to_owned());
            words.line("maintenance-by", &[("line", line.into()), ("who", who.into()), ("id", id.into())])
        }
    };
    match window.reason.as_str() {
        "" => line,
        reason => words.line("note-detail", &[("note", line.into()), ("detail", reason.into())]),
    }
}

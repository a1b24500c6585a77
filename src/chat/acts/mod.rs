//! Acts of people on an incident, the same from chat and from the incident's page: audited, carried out, and told to
//! the incident's message and thread. Who may act is decided before, by [`crate::authorise`] or
//! [`crate::authorise_visitor`].

mod attempt;
pub mod silence;

use tokio::sync::Notify;

use knowledge::incident::Act;
use message::{Block, TextSpan, Tone};
use notify::Notifier;
use render::cut;
use store::{AuditEntry, AuditResult, Incident, StoreError};

pub use attempt::{Attempt, AuditLog, find_incident};

/// The longest text of a note, in UTF-16 units.
pub const NOTE_CHARS: usize = 500;

/// The person who acts, as the audit log names them.
#[derive(Debug, Clone, Copy)]
pub struct Actor<'a> {
    /// A Slack user's id, or `page:<user>`.
    pub who: &'a str,
    /// A channel's id, or `http`.
    pub place: &'a str,
}

/// The end of an act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActEnd {
    /// It was carried out.
    Done,
    /// The incident has ended.
    Over,
    /// There was nothing to change.
    Nothing,
    /// The store failed.
    NoStore,
}

impl ActEnd {
    /// Returns the key of the phrase that says why it was not carried out; `nothing` where there was nothing to change.
    pub fn problem(self, nothing: &'static str) -> Option<&'static str> {
        match self {
            Self::Done => None,
            Self::Over => Some("act-over"),
            Self::Nothing => Some(nothing),
            Self::NoStore => Some("act-store"),
        }
    }
}

/// Records that the person takes care of the incident.
pub async fn acknowledge(log: AuditLog<'_>, actor: Actor<'_>, incident: &Incident) -> ActEnd {
    let store = log.store;
    on_open(log, actor, Act::Acknowledge, incident, store.acknowledge(&incident.id, actor.who, store.now())).await
}

/// Snoozes the incident until it gets worse, or ends that.
pub async fn snooze(log: AuditLog<'_>, actor: Actor<'_>, act: Act, incident: &Incident) -> ActEnd {
    let store = log.store;
    let change = async {
        match act {
            Act::Unsnooze => store.unsnooze(&incident.id).await,
            _ => store.snooze(&incident.id).await,
        }
    };
    on_open(log, actor, act, incident, change).await
}

/// Makes the next diagnosis of the incident due now, and wakes `diagnoses`.
pub async fn again(log: AuditLog<'_>, diagnoses: &Notify, actor: Actor<'_>, incident: &Incident) -> ActEnd {
    let store = log.store;
    let end = on_open(log, actor, Act::Again, incident, store.diagnose_now(&incident.id, store.now())).await;
    if end == ActEnd::Done {
        diagnoses.notify_one();
    }
    end
}

/// Changes the store for an incident that is open.
async fn on_open(
    log: AuditLog<'_>,
    actor: Actor<'_>,
    act: Act,
    incident: &Incident,
    change: impl Future<Output = Result<bool, StoreError>>,
) -> ActEnd {
    if !incident.open {
        log.count_failure(act.as_str());
        return ActEnd::Over;
    }
    match log.begin(actor, act.as_str(), Some(&incident.id)).await {
        Ok(attempt) => attempt.end_with(log, change.await).await,
        Err(_) => ActEnd::NoStore,
    }
}

/// Adds a text to the incident: in its message, its thread and its timeline.
pub async fn note(log: AuditLog<'_>, notifier: &Notifier, actor: Actor<'_>, incident: &Incident, text: &str) -> ActEnd {
    let words = &notifier.words;
    // Cleaned before it is cut: half a secret has no pattern.
    let text = cut(&notifier.redactor_of([incident]).text("message", text.trim()), NOTE_CHARS);
    let headline = words.line("noted", &[("who", TextSpan::User(actor.who.to_owned()).into())]);
    let comment = Block::Paragraph(words.line("said-comment", &[("comment", text.as_str().into())]));
    let post = render::slack_with_blocks(&headline, Tone::Unknown, &[comment]);
    let (action, id) = (Act::Note.as_str(), Some(incident.id.as_str()));
    let entry = AuditEntry::new_attempt(actor.who, actor.place, action, id, log.store.now());
    log.write_note(&AuditEntry { result: AuditResult::Done, detail: text, ..entry }, &post).await
}

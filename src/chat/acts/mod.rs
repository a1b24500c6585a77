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
use store::{AuditEntry, AuditResult, Incident};

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
    /// Returns the key of the phrase that says why the act was not carried out.
    pub fn problem(self, act: Act) -> Option<&'static str> {
        match self {
            Self::Done => None,
            Self::Over => Some("act-over"),
            Self::NoStore => Some("act-store"),
            Self::Nothing => Some(match act {
                Act::Acknowledge => "acknowledged-already",
                Act::Unsnooze => "unsnoozed-already",
                Act::Snooze => "act-over",
                _ => "again-no-playbook",
            }),
        }
    }
}

/// Carries out an act that changes only the incident, if it is open: acknowledges it, snoozes it until it gets worse, ends
/// that, or makes its next diagnosis due now and wakes `diagnoses`.
pub async fn simple(log: AuditLog<'_>, diagnoses: &Notify, actor: Actor<'_>, act: Act, incident: &Incident) -> ActEnd {
    if !incident.open {
        log.count_failure(act.as_str());
        return ActEnd::Over;
    }
    let (store, id) = (log.store, incident.id.as_str());
    let Ok(attempt) = log.begin(actor, act.as_str(), Some(id)).await else { return ActEnd::NoStore };
    let change = match act {
        Act::Acknowledge => store.acknowledge(id, actor.who, store.now()).await,
        Act::Snooze => store.snooze(id).await,
        Act::Unsnooze => store.unsnooze(id).await,
        _ => store.diagnose_now(id, store.now()).await,
    };
    let end = attempt.end_with(log, change).await;
    if act == Act::Again && end == ActEnd::Done {
        diagnoses.notify_one();
    }
    end
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

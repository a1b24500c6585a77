//! Acts of people on an incident, the same from chat and from the incident's page: audited, carried out, and told to
//! the incident's message and thread. Who may act is decided before, by [`crate::authorise`] or
//! [`crate::authorise_visitor`].

mod attempt;
pub mod silence;

use knowledge::incident::Act;
use message::{Block, SlackMessage, TextSpan, Tone};
use render::cut;
use service::Service;
use store::{AuditEntry, AuditResult, Incident, StoreError};

pub use attempt::{Attempt, find_incident, write_refusal};

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
pub async fn acknowledge(service: &Service, actor: Actor<'_>, incident: &Incident) -> ActEnd {
    on_open(service, actor, Act::Acknowledge, incident, async || {
        service.store.acknowledge(&incident.id, actor.who, service.store.now()).await
    })
    .await
}

/// Makes the next diagnosis of the incident due now.
pub async fn again(service: &Service, actor: Actor<'_>, incident: &Incident) -> ActEnd {
    let end = on_open(service, actor, Act::Again, incident, async || {
        service.store.diagnose_now(&incident.id, service.store.now()).await
    })
    .await;
    if end == ActEnd::Done {
        service.diagnoses.notify_one();
    }
    end
}

/// Changes the store for an incident that is open.
async fn on_open(
    service: &Service,
    actor: Actor<'_>,
    act: Act,
    incident: &Incident,
    change: impl AsyncFnOnce() -> Result<bool, StoreError>,
) -> ActEnd {
    if !incident.open {
        service.metrics.act(act.as_str(), AuditResult::Failed.as_str());
        return ActEnd::Over;
    }
    match Attempt::begin(service, actor, act.as_str(), Some(&incident.id)).await {
        Ok(attempt) => attempt.end_with(service, change().await).await,
        Err(_) => ActEnd::NoStore,
    }
}

/// Adds a text to the incident: in its message, its thread and its timeline.
pub async fn note(service: &Service, actor: Actor<'_>, incident: &Incident, text: &str) -> ActEnd {
    // Cleaned before it is cut: half a secret has no pattern.
    let text = cut(&service.notifier.redactor_of([incident]).text("message", text.trim()), NOTE_CHARS);
    let headline = service.words.line("noted", &[("who", TextSpan::User(actor.who.to_owned()).into())]);
    let comment = Block::Paragraph(service.words.line("said-comment", &[("comment", text.as_str().into())]));
    let post = render::slack_with_blocks(&headline, Tone::Unknown, &[comment]);
    let entry =
        AuditEntry::new_attempt(actor.who, actor.place, Act::Note.as_str(), Some(&incident.id), service.store.now());
    let entry = AuditEntry { result: AuditResult::Done, detail: text, ..entry };
    attempt::write_note(service, &entry, &post).await
}

/// Queues a post in the incident's thread, if it has one.
pub async fn tell_thread(service: &Service, incident: &Incident, body: &SlackMessage) {
    match service.store.queue_answer(&incident.id, body, service.store.now()).await {
        Ok(true) => service.deliveries.notify_one(),
        Ok(false) => {}
        Err(error) => {
            tracing::warn!(%error, incident.id = incident.id, "cannot keep what the thread is to be told");
        }
    }
}

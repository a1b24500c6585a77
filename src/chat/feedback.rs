//! Feedback: users rate the named cause as right or wrong; stored for `llm-diagnose feedback`.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::OwnedSemaphorePermit;
use tracing::error;

use super::Desk;
use super::attempt::{self, begin_act, open_incident_form};
use super::forms::{self, OPTIONS, input, option, text_box};
use super::intent::IncidentForm;
use super::replies::send_ephemeral_phrase;
use knowledge::incident::Act;
use knowledge::playbook::Node;
use slack::{Ack, SlackRequest};
use store::{AuditResult, Feedback, Incident};

/// The option for a cause that no playbook has.
const OTHER: &str = "other";
/// The longest comment, in characters.
const COMMENT_CHARS: usize = 1_000;

/// Handles "Right": the named cause is correct.
pub(super) async fn right(desk: &Desk, inbound: &SlackRequest, id: &str) {
    let Some(incident) = &begin_act(desk, inbound, Act::Right, id).await else { return };
    let Some(root) = incident.diagnosis.as_ref().and_then(|d| d.root()) else {
        desk.metrics.act(Act::Right.as_str(), AuditResult::Failed.as_str());
        return send_ephemeral_phrase(desk, inbound, "feedback-no-cause").await;
    };
    let feedback = Feedback {
        incident: incident.id.clone(),
        who: inbound.who.user.clone(),
        at: desk.store.now(),
        is_right: true,
        named: root.id.clone(),
        cause: root.id.clone(),
        comment: String::new(),
    };
    save_feedback(desk, inbound, &feedback, &root.title).await;
}

/// Handles "Wrong": opens the form that asks for the actual cause.
pub(super) async fn open_form(desk: &Desk, inbound: &SlackRequest, id: &str) {
    let Some(incident) = &begin_act(desk, inbound, Act::Wrong, id).await else { return };
    let words = &desk.words;
    let mut options: Vec<Value> = causes(desk, incident)
        .into_iter()
        .filter(|node| Some(node.id) != named(incident).as_deref())
        .take(OPTIONS - 1)
        .map(|node| option(node.title, node.id))
        .collect();
    options.push(option(&words.text("wrong-other", &[]), OTHER));
    let menu = json!({
        "type": "static_select", "action_id": "cause", "options": options,
        "placeholder": forms::plain(&words.text("wrong-which", &[]), 150),
    });
    let blocks = vec![
        input("cause", &words.text("wrong-cause", &[]), false, menu),
        input("comment", &words.text("form-comment", &[]), true, text_box("comment", true, COMMENT_CHARS, "")),
    ];
    open_incident_form(desk, inbound, &incident.id, IncidentForm::Wrong, ["wrong-title", "form-send"], blocks).await;
}

/// Handles the submitted form of [`open_form`].
pub(super) fn wrong(
    desk: &Arc<Desk>,
    inbound: SlackRequest,
    incident: Incident,
    values: BTreeMap<String, String>,
    slot: OwnedSemaphorePermit,
) -> Ack {
    let cause = values.get("cause").map(String::as_str).unwrap_or_default();
    let title = causes(desk, &incident).iter().find(|node| node.id == cause).map(|node| node.title.to_owned());
    let title = match (title, cause) {
        (Some(title), _) => title,
        (None, OTHER) => desk.words.text("wrong-other", &[]),
        (None, _) => {
            return Ack::Errors([("cause".to_owned(), desk.words.text("wrong-unknown", &[]))].into());
        }
    };
    let feedback = Feedback {
        incident: incident.id.clone(),
        who: inbound.who.user.clone(),
        at: desk.store.now(),
        is_right: false,
        named: named(&incident).unwrap_or_default(),
        cause: cause.to_owned(),
        comment: comment_of(desk, &incident, values.get("comment").map(String::as_str).unwrap_or_default()),
    };
    let shared = Arc::clone(desk);
    desk.tasks.spawn(async move {
        save_feedback(&shared, &inbound, &feedback, &title).await;
        drop(slot);
    });
    Ack::Received
}

/// Returns a comment cleaned, and then cut: half a secret has no pattern.
fn comment_of(desk: &Desk, incident: &Incident, text: &str) -> String {
    render::cut(&desk.notifier.redactor_of([incident]).text("message", text.trim()), COMMENT_CHARS)
}

async fn save_feedback(desk: &Desk, inbound: &SlackRequest, feedback: &Feedback, title: &str) {
    let act = if feedback.is_right { Act::Right } else { Act::Wrong };
    let Some(attempt) = attempt::begin(desk, inbound, act.as_str(), Some(&feedback.incident)).await else { return };
    if let Err(error) = desk.store.give_feedback(feedback).await {
        error!(%error, "cannot keep feedback");
        attempt.end(desk, AuditResult::Failed, &feedback.cause, "the store failed").await;
        return send_ephemeral_phrase(desk, inbound, "act-store").await;
    }
    let detail = match (feedback.is_right, feedback.comment.trim()) {
        (true, _) => title.to_owned(),
        (false, "") => desk.words.text("wrong-note", &[("cause", title.into())]),
        (false, comment) => {
            desk.words.text("wrong-note-comment", &[("cause", title.into()), ("comment", comment.into())])
        }
    };
    attempt.end(desk, AuditResult::Done, &feedback.cause, &detail).await;
    send_ephemeral_phrase(desk, inbound, "feedback-thanks").await;
}

fn named(incident: &Incident) -> Option<String> {
    incident.diagnosis.as_ref().and_then(|d| d.root()).map(|root| root.id.clone())
}

/// Returns all causes that the playbooks link to the diagnosed symptom.
fn causes<'a>(desk: &'a Desk, incident: &Incident) -> Vec<Node<'a>> {
    let playbook = incident.entered().unwrap_or_default();
    desk.library.reachable(playbook).into_iter().skip(1).collect()
}

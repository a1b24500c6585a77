//! Feedback: users rate the named cause as right or wrong; stored for `llm-diagnose feedback`.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::OwnedSemaphorePermit;
use tracing::error;

use super::Desk;
use super::attempt::{self, not_done, open_incident_form};
use super::forms::{self, OPTIONS, input, option, text_box};
use super::replies::Caller;
use knowledge::incident::Act;
use knowledge::playbook::{Library, Node};
use notify::Notifier;
use service::Service;
use slack::{Ack, SlackRequest};
use store::{AuditResult, Feedback, Incident};

/// The option for a cause that no playbook has.
const OTHER: &str = "other";
/// The longest comment, in characters.
const COMMENT_CHARS: usize = 1_000;

/// Handles "Right": the named cause is correct.
pub(super) async fn right(caller: Caller<'_>, id: &str) {
    let Some(incident) = &caller.begin_act(Act::Right, id).await else { return };
    let Some(root) = incident.diagnosis.as_ref().and_then(|d| d.root()) else {
        return not_done(caller, Act::Right, "feedback-no-cause").await;
    };
    let feedback = Feedback {
        incident: incident.id.clone(),
        who: caller.user().to_owned(),
        at: caller.log.store.now(),
        is_right: true,
        named: root.id.clone(),
        cause: root.id.clone(),
        comment: String::new(),
    };
    save_feedback(caller, &feedback, &root.title).await;
}

/// Handles "Wrong": opens the form that asks for the actual cause.
pub(super) async fn open_form(caller: Caller<'_>, library: &Library, id: &str) {
    let Some(incident) = &caller.begin_act(Act::Wrong, id).await else { return };
    let words = &caller.notifier.words;
    let mut options: Vec<Value> = causes(library, incident)
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
    open_incident_form(caller, &incident.id, Act::Wrong, ["wrong-title", "form-send"], blocks).await;
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
    let Service { library, store, words, notifier, .. } = &*desk.service;
    let title = causes(library, &incident).iter().find(|node| node.id == cause).map(|node| node.title.to_owned());
    let title = match (title, cause) {
        (Some(title), _) => title,
        (None, OTHER) => words.text("wrong-other", &[]),
        (None, _) => {
            return Ack::Errors([("cause".to_owned(), words.text("wrong-unknown", &[]))].into());
        }
    };
    let feedback = Feedback {
        incident: incident.id.clone(),
        who: inbound.who.user.clone(),
        at: store.now(),
        is_right: false,
        named: named(&incident).unwrap_or_default(),
        cause: cause.to_owned(),
        comment: comment_of(notifier, &incident, values.get("comment").map(String::as_str).unwrap_or_default()),
    };
    let shared = Arc::clone(desk);
    desk.tasks.spawn(async move {
        save_feedback(shared.caller(&inbound), &feedback, &title).await;
        drop(slot);
    });
    Ack::Received
}

/// Returns a comment cleaned, and then cut: half a secret has no pattern.
fn comment_of(notifier: &Notifier, incident: &Incident, text: &str) -> String {
    render::cut(&notifier.redactor_of([incident]).text("message", text.trim()), COMMENT_CHARS)
}

async fn save_feedback(caller: Caller<'_>, feedback: &Feedback, title: &str) {
    let act = if feedback.is_right { Act::Right } else { Act::Wrong };
    let Some(attempt) = attempt::begin(caller, act, Some(&feedback.incident)).await else { return };
    if let Err(error) = caller.log.store.give_feedback(feedback).await {
        error!(%error, "cannot keep feedback");
        attempt.end(caller.log, AuditResult::Failed, &feedback.cause, "the store failed").await;
        return caller.tell_phrase("act-store").await;
    }
    let words = &caller.notifier.words;
    let detail = match (feedback.is_right, feedback.comment.trim()) {
        (true, _) => title.to_owned(),
        (false, "") => words.text("wrong-note", &[("cause", title.into())]),
        (false, comment) => words.text("wrong-note-comment", &[("cause", title.into()), ("comment", comment.into())]),
    };
    attempt.end(caller.log, AuditResult::Done, &feedback.cause, &detail).await;
    caller.tell_phrase("feedback-thanks").await;
}

fn named(incident: &Incident) -> Option<String> {
    incident.diagnosis.as_ref().and_then(|d| d.root()).map(|root| root.id.clone())
}

/// Returns all causes that the playbooks link to the diagnosed symptom.
fn causes<'a>(library: &'a Library, incident: &Incident) -> Vec<Node<'a>> {
    let playbook = incident.entered().unwrap_or_default();
    library.reachable(playbook).into_iter().skip(1).collect()
}

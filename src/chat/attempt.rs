//! Acts from Slack: authorised, audited, carried out by [`crate::acts`]; with the replies when that fails.

use tracing::warn;

use super::authority::{Denial, Power, authorise};
use super::forms::{self, ModalMetadata};
use super::replies::Caller;
use crate::acts::{Attempt, find_incident};
use knowledge::incident::Act;
use store::{Incident, StoreError};

impl Caller<'_> {
    /// Checks that the user has this power.
    pub(super) async fn decide(self, power: Power) -> Result<(), Denial> {
        let facts = self.people.facts(self.slack, self.request, &self.powers.groups).await;
        authorise(&self.request.who, &facts, &self.request.place, power, self.powers)
    }

    /// Returns true if the user has this power; otherwise replies with the refusal, audits and counts it.
    pub(super) async fn permit(self, action: &str, incident: Option<&str>, power: Power) -> bool {
        let Err(refusal) = self.check(action, incident, power).await else { return true };
        if refusal != Denial::Bot {
            self.tell_phrase(refusal.key()).await;
        }
        false
    }

    /// Checks that the user has this power; the reason why not is audited and counted.
    pub(super) async fn check(self, action: &str, incident: Option<&str>, power: Power) -> Result<(), Denial> {
        let decision = self.decide(power).await;
        if let Err(refusal) = decision {
            self.log.write_refusal(self.actor(), action, incident, refusal.as_str()).await;
        }
        decision
    }

    /// Begins an act on an incident: returns the incident if the user may act on it and it exists; otherwise replies.
    pub(super) async fn begin_act(self, act: Act, id: &str) -> Option<Incident> {
        if !self.permit(act.as_str(), Some(id), Power::of(act)).await {
            return None;
        }
        match find_incident(self.log.store, id).await {
            Ok(incident) => Some(incident),
            Err(key) => {
                not_done(self, act, key).await;
                None
            }
        }
    }
}

/// Counts an act that cannot be done, and replies with the phrase that says why.
pub(super) async fn not_done(caller: Caller<'_>, act: Act, key: &str) {
    caller.log.count_failure(act.as_str());
    caller.tell_phrase(key).await;
}

/// Writes the audit entry of an act. `None` if that fails: the act is not carried out, and the user gets a message.
pub(super) async fn begin(caller: Caller<'_>, act: Act, incident: Option<&str>) -> Option<Attempt> {
    begun(caller, caller.log.begin(caller.actor(), act.as_str(), incident).await).await
}

/// Returns the attempt; tells the user if its audit entry could not be written.
pub(super) async fn begun(caller: Caller<'_>, attempt: Result<Attempt, StoreError>) -> Option<Attempt> {
    if attempt.is_err() {
        caller.tell_phrase("act-store").await;
    }
    attempt.ok()
}

/// Opens a form about an incident; its title and its button are phrases.
pub(super) async fn open_incident_form(
    caller: Caller<'_>,
    incident: &str,
    act: Act,
    [title, send]: [&str; 2],
    blocks: Vec<serde_json::Value>,
) {
    let words = &caller.notifier.words;
    let [title, send] = [title, send].map(|key| words.text(key, &[]));
    let about = ModalMetadata::of(incident, caller.request);
    let view = forms::modal(words, &title, Some(&send), act.as_str(), &about, blocks);
    open_modal(caller, act.as_str(), &view).await;
}

/// Opens a modal; tells the user if that fails, mostly because Slack's trigger has expired. Returns true if it is open.
pub(super) async fn open_modal(caller: Caller<'_>, action: &str, view: &serde_json::Value) -> bool {
    let answer = match &caller.request.place.trigger {
        Some(trigger) => caller.slack.open_view(trigger, view).await.map_err(|error| error.to_string()),
        None => Err("Slack gave no trigger".to_owned()),
    };
    if let Err(error) = answer {
        warn!(error, what = action, "cannot open a modal");
        caller.log.count_failure(action);
        caller.tell_phrase("form-late").await;
        return false;
    }
    true
}

//! The border of messages: alerts, notes and diagnoses lose their secrets before they are rendered.
//!
//! Not after it: escaping hides secrets, and links that we sign ourselves must stay.

use serde::Serialize;
use serde::de::DeserializeOwned;
use tracing::error;

use super::Notifier;
use knowledge::alert::{Alert, Labels};
use knowledge::incident::Note;
use redact::Redactor;
use render::{DigestEntry, ThreadState};
use store::Incident;

/// The labels that remain of an alert that cannot be cleaned.
const HARMLESS: [&str; 2] = ["alertname", "severity"];

impl Notifier {
    /// Creates a redactor for texts about incidents; it learns the values of labels whose names indicate a secret.
    pub fn redactor_of<'a>(&self, incidents: impl IntoIterator<Item = &'a Incident>) -> Redactor {
        let redactor = self.redactor.another(&self.library.redaction, false);
        incidents.into_iter().for_each(|incident| learn(&redactor, incident));
        redactor
    }

    /// Returns labels without secrets; without any that cannot be cleaned.
    pub fn clean_labels(&self, labels: &Labels) -> Labels {
        clean(&self.redactor_of([]), labels).unwrap_or_default()
    }

    /// Returns an incident without secrets, as [`cleaned_incident`] does.
    pub async fn cleaned(&self, incident: &Incident) -> Incident {
        cleaned_incident(&self.redactor_of([]), incident).await
    }

    /// Returns the line of an incident in a digest without secrets; with the alert's name alone if it cannot be cleaned.
    /// `of_digest` numbers the users of all its lines.
    pub(super) fn digest_entry(&self, incident: &Incident, of_digest: &Redactor) -> DigestEntry {
        let redactor = of_digest.with_same_numbers();
        learn(&redactor, incident);
        let view = self.view(incident);
        let entry = DigestEntry { page: None, ..DigestEntry::of(&view) };
        let cleaned = clean(&redactor, &entry).unwrap_or_else(|| DigestEntry {
            what: incident.alerts.first().map(|alert| alert.name().to_owned()).unwrap_or_default(),
            cause: None,
            pool: Labels::new(),
            ..entry
        });
        DigestEntry { page: view.page, ..cleaned }
    }

    /// Returns a diagnosis or a health without secrets, for an answer; `None` if it cannot be cleaned.
    pub fn cleaned_answer<T: Serialize + DeserializeOwned>(&self, answer: &T) -> Option<T> {
        let redactor = self.redactor_of([]);
        redactor.learn_from(answer);
        clean(&redactor, answer)
    }

    /// Returns what a thread's posts compare, without secrets.
    pub(super) async fn thread_state(&self, incident: &Incident) -> ThreadState {
        ThreadState::of(&self.view(&self.cleaned(incident).await))
    }

    /// Returns a function that removes secrets from the texts of an answer in Slack.
    pub fn text_cleaner(&self) -> impl Fn(String) -> String + use<> {
        let redactor = self.redactor_of([]);
        move |text| redactor.text("answer", &text).into_owned()
    }
}

/// Returns an incident whose alerts, notes, related incidents and diagnosis have no secrets. What cannot be cleaned is left out. Other tasks
/// run between two alerts, of which there may be thousands. Not on a blocking thread: each thread that searches needs
/// tens of MiB for the caches of the patterns.
pub async fn cleaned_incident(redactor: &Redactor, incident: &Incident) -> Incident {
    learn(redactor, incident);
    let note = |note: &Note| Note { detail: redactor.text("message", &note.detail).into_owned(), ..note.clone() };
    let mut alerts = Vec::with_capacity(incident.alerts.len());
    for alert in &incident.alerts {
        alerts.push(clean(redactor, alert).unwrap_or_else(|| harmless(alert)));
        tokio::task::yield_now().await;
    }
    Incident {
        notes: incident.notes.iter().map(note).collect(),
        related: clean(redactor, &incident.related).unwrap_or_default(),
        alerts,
        diagnosis: incident.diagnosis.as_ref().and_then(|diagnosis| clean(redactor, diagnosis)),
        ..incident.clone()
    }
}

/// Returns what remains of an alert that cannot be cleaned.
fn harmless(alert: &Alert) -> Alert {
    let labels = alert.labels.iter().filter(|(name, _)| HARMLESS.contains(&name.as_str()));
    let labels = labels.map(|(name, value)| (name.clone(), value.clone())).collect();
    Alert { labels, annotations: Default::default(), generator_url: String::new(), ..alert.clone() }
}

/// Learns the values of an incident's labels whose names indicate a secret.
pub fn learn(redactor: &Redactor, incident: &Incident) {
    let of_alerts = incident.alerts.iter().flat_map(|alert| alert.labels.iter().chain(&alert.annotations));
    let of_pool = incident.diagnosis.iter().flat_map(|diagnosis| &diagnosis.scope.labels);
    of_alerts.chain(of_pool).for_each(|(name, value)| redactor.learn_label(name, value));
}

fn clean<T: Serialize + DeserializeOwned>(redactor: &Redactor, value: &T) -> Option<T> {
    let cleaned = redactor.cleaned("message", value);
    cleaned.inspect_err(|error| error!(%error, "cannot clean a part of a message of secrets: left out")).ok()
}

//! The raw files of the archive beside the report: the sources' answers, redacted.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Value, json};

use super::BundleError;
use super::archive::Archive;
use super::progress::MissingItem;
use super::queries::queries;
use findings::endpoint::AnswerBody;
use report::SourceFindings;
use service::Subject;

use logs::Log;
use redact::Redactor;

/// Writes redacted files into the archive.
#[derive(Debug)]
pub(super) struct Files<'a> {
    /// The target archive.
    pub(super) archive: &'a Archive,
    /// The redactor.
    pub(super) redactor: &'a Redactor,
}

impl Files<'_> {
    /// Adds a value as JSON.
    ///
    /// # Errors
    /// If the archive cannot be written any more; the same holds for the other methods.
    pub(super) async fn json(&self, name: &str, value: &impl Serialize) -> Result<u64, BundleError> {
        let mut value = serde_json::to_value(value).unwrap_or(Value::Null);
        let name = self.archive.free(&self.redactor.path(name));
        self.redactor.json(&name, &mut value);
        let text = serde_json::to_vec_pretty(&value).unwrap_or_default();
        self.archive.add(&name, text).await
    }

    /// Adds a text; returns its name in the archive and its bytes. Redacts in a blocking thread, since the text may
    /// be long.
    pub(super) async fn text(&self, name: &str, text: String) -> Result<(String, u64), BundleError> {
        let name = self.archive.free(&self.redactor.path(name));
        let (redactor, place) = (self.redactor.clone(), name.clone());
        let clean = tokio::task::spawn_blocking(move || match redactor.text(&place, &text) {
            Cow::Borrowed(_) => text,
            Cow::Owned(clean) => clean,
        });
        let bytes = self.archive.add(&name, clean.await.map_err(|_| BundleError::Stopped)?).await?;
        Ok((name, bytes))
    }

    /// Adds the list of everything that is missing.
    pub(super) async fn missing(&self, missing: &[MissingItem]) -> Result<(), BundleError> {
        if !missing.is_empty() {
            self.json("raw/missing.json", &missing).await?;
        }
        Ok(())
    }

    /// Adds everything that the sources returned, one file each.
    pub(super) async fn raw(
        &self,
        subject: &Subject,
        payload: Option<&Value>,
        findings: &SourceFindings,
    ) -> Result<(), BundleError> {
        if !subject.alerts.is_empty() {
            self.json("raw/alerts.json", &subject.alerts).await?;
        }
        if let Some(payload) = payload {
            self.json("raw/alert-payload.json", payload).await?;
        }
        if subject.incident.is_some() {
            self.json("raw/incident.json", &incident_json(subject)).await?;
        }
        let queries = queries(subject.diagnosis.as_ref(), findings);
        if !queries.is_empty() {
            self.json("raw/queries.json", &queries).await?;
        }
        if let Some(facts) = &findings.facts {
            self.json("raw/prometheus.json", facts).await?;
        }
        for (answer, _) in &findings.endpoints {
            let path = answer.path.trim_matches('/').replace(['/', '?', '='], "-");
            let name = format!("endpoints/{}/{}-{path}", answer.target.replace('/', "_"), answer.engine);
            match &answer.said {
                AnswerBody::Json(value) => self.json(&format!("{name}.json"), value).await?,
                AnswerBody::Text(text) => self.text(&format!("{name}.txt"), text.clone()).await?.1,
                AnswerBody::Nothing(_) => 0,
            };
        }
        if let Some(kubernetes) = &findings.kubernetes {
            self.json("kubernetes/pods.json", &kubernetes.pods).await?;
            self.json("kubernetes/nodes.json", &kubernetes.nodes).await?;
            self.json("kubernetes/events.json", &kubernetes.events).await?;
            for object in &kubernetes.objects {
                let own = object.name.replace('/', "_");
                let kind = object.kind.rsplit('/').next().unwrap_or(&object.kind);
                let name = format!("kubernetes/objects/{kind}/{}/{own}.json", object.namespace);
                self.json(&name, &object.value).await?;
            }
        }
        Ok(())
    }

    /// Adds the logs and frees their text; returns the name of each and the total bytes.
    pub(super) async fn logs(&self, logs: &mut [(Log, logs::LogAnalysis)]) -> Result<(Vec<String>, u64), BundleError> {
        let (mut names, mut bytes) = (Vec::new(), 0);
        for (n, (log, _)) in logs.iter_mut().enumerate() {
            // Names from outside may be equal after redaction; the number keeps them apart.
            let own = log.name().replace(['/', ' '], "-").replace(['(', ')'], "");
            let own = own.strip_suffix(".log").unwrap_or(&own);
            let name = format!("logs/{:03}-{own}.log", n + 1);
            let (name, length) = self.text(&name, std::mem::take(&mut log.text)).await?;
            bytes += length;
            names.push(name);
        }
        Ok((names, bytes))
    }
}

/// Builds the document of everything that the store holds about an incident, with every query of its diagnosis; `None`
/// for a pool without one. Readers may rely on the field names. None of its values can fail to be serialised: maps have
/// strings as keys.
fn incident_json(subject: &Subject) -> Option<Value> {
    let incident = subject.incident.as_ref()?;
    Some(json!({
        "schema": "llm-diagnose/incident/v1",
        "incident": {
            "id": incident.id,
            "group_key": incident.group_key,
            "open": incident.open,
            "playbook": incident.playbook,
            "because": incident.because,
            "reason": incident.reason.as_str(),
            "started_at": incident.started_at,
            "opened_at": incident.opened_at,
            "resolved_at": incident.resolved_at,
            "refired": incident.refired,
            "truncated": incident.truncated,
        },
        "alerts": incident.alerts,
        "diagnosis": subject.diagnosis,
        "notes": incident.notes,
        "happened": subject.happened,
    }))
}

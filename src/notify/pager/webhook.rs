//! The generic webhook: our own JSON, versioned, signed as Standard Webhooks has it, so that receivers need no code of ours.
//!
//! Source: <https://github.com/standard-webhooks/standard-webhooks>, specification 1.0.0: `webhook-id`,
//! `webhook-timestamp` and `webhook-signature: v1,base64(HMAC-SHA256(secret, id.timestamp.body))`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use ring::hmac;
use schemars::JsonSchema;
use serde::Serialize;

use super::client::{Call, News};
use crate::alert::Labels;
use crate::alert::{active, common_labels};
use crate::diagnose::Diagnosis;
use crate::render::Tone;

/// The version of the body; a change that breaks readers gives it another name.
const SCHEMA: &str = "llm-diagnose/webhook/v1";

/// What a webhook is told.
#[derive(Debug, Serialize, JsonSchema)]
struct Body<'a> {
    /// Always `llm-diagnose/webhook/v1`.
    schema: &'static str,
    /// What happened: Standard Webhooks' `type`.
    r#type: Event,
    /// When this was said.
    #[schemars(with = "String")]
    timestamp: Timestamp,
    /// The incident as it stands.
    data: Data<'a>,
}

/// What happened.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
enum Event {
    /// It is open: told first, and with everything that changes.
    #[serde(rename = "incident.open")]
    Open,
    /// Somebody asks for help with it.
    #[serde(rename = "incident.escalated")]
    Escalated,
    /// It is over.
    #[serde(rename = "incident.resolved")]
    Resolved,
}

/// The incident.
#[derive(Debug, Serialize, JsonSchema)]
struct Data<'a> {
    /// Its id; the same in all calls about it.
    id: &'a str,
    /// Grows with every change: a call with a lower one is out of date.
    revision: i64,
    /// Alertmanager's group key.
    group_key: &'a str,
    /// The entry playbook, when one matched.
    playbook: Option<&'a str>,
    /// One line: what, who is hurt, why.
    headline: &'a str,
    /// How bad.
    severity: Severity,
    /// The labels on which all its alerts agree.
    labels: Labels,
    /// When the first alert began to fire.
    #[schemars(with = "String")]
    started_at: Timestamp,
    /// When it was over.
    #[schemars(with = "Option<String>")]
    resolved_at: Option<Timestamp>,
    /// Its page.
    url: Option<&'a str>,
    /// The diagnosis, once there is one: the schema of `diagnose --output json`.
    diagnosis: Option<&'a Diagnosis>,
}

/// How bad it is.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Severity {
    Critical,
    Warning,
    Resolved,
    Unknown,
}

/// The JSON schema of a body.
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(Body<'_>).to_value()
}

pub(super) fn call(secret: &str, news: &News<'_>, now: Timestamp) -> Call {
    let News { incident, message, page, .. } = *news;
    let body = Body {
        schema: SCHEMA,
        r#type: match (incident.open, news.escalation) {
            (true, None) => Event::Open,
            (true, Some(_)) => Event::Escalated,
            (false, _) => Event::Resolved,
        },
        timestamp: now,
        data: Data {
            id: &incident.id,
            revision: incident.revision,
            group_key: &incident.group_key,
            playbook: incident.playbook.as_deref(),
            headline: &message.headline,
            severity: match message.tone {
                _ if !incident.open => Severity::Resolved,
                Tone::Critical => Severity::Critical,
                Tone::Warning => Severity::Warning,
                Tone::Firing | Tone::Good | Tone::Unknown => Severity::Unknown,
            },
            labels: common_labels(&active(&incident.alerts)),
            started_at: incident.started_at,
            resolved_at: incident.resolved_at,
            url: page,
            diagnosis: incident.diagnosis.as_ref(),
        },
    };
    // Numbers that JSON cannot hold become null; there is nothing else that can fail.
    let body = serde_json::to_string(&body).unwrap_or_default();
    // The same for every retry of one revision or escalation, so that a receiver can drop repetitions.
    let id = match news.escalation {
        Some(escalation) => format!("{}-{escalation}", incident.id),
        None => format!("{}-{}", incident.id, incident.revision),
    };
    let at = now.as_second().to_string();
    let signature = sign(secret, &id, &at, &body);
    let headers = vec![("webhook-id", id), ("webhook-timestamp", at), ("webhook-signature", signature)];
    Call::new(incident.id.clone(), incident.revision.to_string(), body, headers)
}

/// `v1,…`; a secret that begins with `whsec_` is base64, any other is taken as it is.
fn sign(secret: &str, id: &str, at: &str, body: &str) -> String {
    let key = secret.strip_prefix("whsec_").and_then(|text| STANDARD.decode(text).ok());
    let key = hmac::Key::new(hmac::HMAC_SHA256, key.as_deref().unwrap_or(secret.as_bytes()));
    let tag = hmac::sign(&key, format!("{id}.{at}.{body}").as_bytes());
    format!("v1,{}", STANDARD.encode(tag.as_ref()))
}

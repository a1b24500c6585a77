//! The generic webhook: our own versioned JSON, signed according to Standard Webhooks, so receivers can use
//! existing libraries.
//!
//! Source: <https://github.com/standard-webhooks/standard-webhooks>, specification 1.0.0: `webhook-id`,
//! `webhook-timestamp` and `webhook-signature: v1,base64(HMAC-SHA256(secret, id.timestamp.body))`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use ring::hmac;
use schemars::JsonSchema;
use serde::Serialize;

use super::{Call, PagerUpdate};
use findings::Diagnosis;
use knowledge::alert::{Labels, active, common_labels};
use message::Tone;

/// The version of the body; an incompatible change gets a new name.
const SCHEMA: &str = "llm-diagnose/webhook/v1";

/// The body of a webhook call.
#[derive(Debug, Serialize, JsonSchema)]
struct Body<'a> {
    /// Always `llm-diagnose/webhook/v1`.
    schema: &'static str,
    /// The kind of event: the `type` of Standard Webhooks.
    r#type: Event,
    /// The time of this call.
    timestamp: Timestamp,
    /// The current state of the incident.
    data: Data<'a>,
}

/// The kind of event.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
enum Event {
    /// The incident is open: the first call, and every later change.
    #[serde(rename = "incident.open")]
    Open,
    /// A user asks for help with the incident.
    #[serde(rename = "incident.escalated")]
    Escalated,
    /// The incident is resolved.
    #[serde(rename = "incident.resolved")]
    Resolved,
}

/// The incident.
#[derive(Debug, Serialize, JsonSchema)]
struct Data<'a> {
    /// The incident's id; the same in all calls about it.
    id: &'a str,
    /// The revision, which grows with every change: a call with a lower one is out of date.
    revision: i64,
    /// Alertmanager's group key; values of labels named as secrets are redacted.
    group_key: &'a str,
    /// The id of the entry playbook, if one matched.
    playbook: Option<&'a str>,
    /// One line: the symptom, the affected pool and the cause.
    headline: &'a str,
    /// The message below the headline as CommonMark: symptom, chain, steps, alerts.
    text: String,
    /// The severity.
    severity: Severity,
    /// The labels that all alerts of the incident share.
    labels: Labels,
    /// The time at which the first alert began to fire.
    started_at: Timestamp,
    /// The time at which the incident was resolved.
    resolved_at: Option<Timestamp>,
    /// The person who acknowledged the incident, as Slack's user id.
    acknowledged_by: Option<&'a str>,
    /// The address of the incident's page.
    url: Option<&'a str>,
    /// The diagnosis, if there is one: the schema of `diagnose --output json`.
    diagnosis: Option<&'a Diagnosis>,
}

/// The severity of the incident.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Severity {
    Critical,
    Warning,
    Resolved,
    Unknown,
}

/// Returns the JSON schema of a body.
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(Body<'_>).to_value()
}

pub(super) fn call(secret: &str, news: &PagerUpdate<'_>, now: Timestamp) -> Call {
    let PagerUpdate { incident, group_key, message, page, words, .. } = *news;
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
            group_key,
            playbook: incident.playbook.as_deref(),
            headline: &message.headline,
            text: render::message_markdown(message, words),
            severity: match message.tone {
                _ if !incident.open => Severity::Resolved,
                Tone::Critical => Severity::Critical,
                Tone::Warning => Severity::Warning,
                Tone::Firing | Tone::Good | Tone::Unknown => Severity::Unknown,
            },
            labels: common_labels(&active(&incident.alerts)),
            started_at: incident.started_at,
            resolved_at: incident.resolved_at,
            acknowledged_by: incident.acknowledged.as_ref().map(|by| by.who.as_str()),
            url: page,
            diagnosis: incident.diagnosis.as_ref(),
        },
    };
    // Numbers that JSON cannot represent become null; nothing else can fail.
    let body = serde_json::to_string(&body).unwrap_or_default();
    // All retries of one revision or escalation have the same id, so a receiver can drop duplicates.
    let id = match news.escalation {
        Some(escalation) => format!("{}-{escalation}", incident.id),
        None => format!("{}-{}", incident.id, incident.revision),
    };
    let at = now.as_second().to_string();
    let signature = sign(secret, &id, &at, &body);
    let headers = vec![("webhook-id", id), ("webhook-timestamp", at), ("webhook-signature", signature)];
    Call { key: incident.id.clone(), summary: incident.revision.to_string(), body, headers }
}

/// Signs the body: `v1,…`. A secret that begins with `whsec_` is base64, any other is used as it is.
fn sign(secret: &str, id: &str, at: &str, body: &str) -> String {
    let key = secret.strip_prefix("whsec_").and_then(|text| STANDARD.decode(text).ok());
    let key = hmac::Key::new(hmac::HMAC_SHA256, key.as_deref().unwrap_or(secret.as_bytes()));
    let tag = hmac::sign(&key, format!("{id}.{at}.{body}").as_bytes());
    format!("v1,{}", STANDARD.encode(tag.as_ref()))
}

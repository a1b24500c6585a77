//! Links of an incident: incident page, runbook, dashboard, silence, Prometheus.

use std::time::Duration;

use jiff::Timestamp;

use super::{IncidentView, Phrases};
use findings::silence::{SilenceMatcher, preselected};
use findings::{Diagnosis, Outcome, Scope};
use knowledge::alert::{Alert, PANEL_ANNOTATION, SILENCE_ANNOTATION, active};
use knowledge::clock;
use redact::is_redacted;

/// Maximum characters of all URLs together, of the 3,000 that a text in Slack may have.
const ADDRESSES: usize = 2_400;
/// Time shown before the start of an incident.
const BEFORE: Duration = Duration::from_secs(30 * 60);
/// Time shown after its end, or after the diagnosis.
const AFTER: Duration = Duration::from_secs(5 * 60);

/// Returns the links of an incident, label and URL, as many as fit.
pub fn links_of(view: &IncidentView<'_>, words: &Phrases) -> Vec<(String, String)> {
    let annotated = |name| active(view.alerts).iter().find_map(|a| a.annotations.get(name).cloned());
    let runbook = annotated("runbook_url");
    let configured = view.dashboard.filter(|url| !url.is_empty()).map(|url| dashboard(url, view));
    let graph = view.diagnosis.and_then(|diagnosis| graph(diagnosis, view.prometheus, Some(span(view))));
    let silence = view
        .alertmanager
        .filter(|_| view.resolved_at.is_none() && !(view.interactive && view.can_silence))
        .and_then(|url| silence(url, view.alerts));
    let all = [
        ("link-incident", view.page.clone()),
        ("link-runbook", runbook),
        ("link-dashboard", configured.or_else(|| annotated(PANEL_ANNOTATION))),
        ("link-silence", silence),
        ("link-prometheus", graph),
    ];
    let mut left = ADDRESSES;
    let mut out = Vec::new();
    for (key, url) in all {
        let Some(url) = url.filter(|url| !url.is_empty() && url.len() <= left) else { continue };
        left -= url.len();
        out.push((words.text(key, &[]), url));
    }
    out
}

/// Returns the time range to show: from before the incident began until after it ended.
fn span(view: &IncidentView<'_>) -> (Timestamp, Timestamp) {
    let end = view.resolved_at.or(view.diagnosis.map(|d| d.at)).unwrap_or(view.started_at);
    (clock::before(view.started_at, BEFORE), clock::after(end, AFTER))
}

/// Returns the Prometheus graph URL of the symptom's query and the deciding one; the hour before the diagnosis if no
/// range is given.
pub fn graph(diagnosis: &Diagnosis, prometheus: Option<&str>, span: Option<(Timestamp, Timestamp)>) -> Option<String> {
    let symptom = diagnosis.symptom.evidence.iter().find_map(|e| e.query.as_deref());
    let met = diagnosis.root().map(|root| root.evidence.iter().filter(|e| e.outcome == Outcome::Met));
    let decided = met.into_iter().flatten().find_map(|e| e.query.as_deref()).filter(|query| Some(*query) != symptom);
    let queries: Vec<&str> = symptom.into_iter().chain(decided).collect();
    let both = graph_of(&queries, prometheus?, diagnosis.at, span)?;
    if both.len() <= ADDRESSES / 2 { Some(both) } else { graph_of(queries.get(..1)?, prometheus?, diagnosis.at, span) }
}

fn graph_of(queries: &[&str], prometheus: &str, at: Timestamp, span: Option<(Timestamp, Timestamp)>) -> Option<String> {
    let minute = Duration::from_secs(60);
    let (from, to) = span.unwrap_or((clock::before(at, 60 * minute), clock::after(at, minute)));
    let minutes = clock::between(from, to).as_secs().div_ceil(60).clamp(1, 7 * 24 * 60);
    let mut url = url::Url::parse(prometheus).ok()?;
    url.path_segments_mut().ok()?.pop_if_empty().push("graph");
    if queries.is_empty() {
        return None;
    }
    for (i, query) in queries.iter().enumerate() {
        url.query_pairs_mut()
            .append_pair(&format!("g{i}.expr"), query)
            .append_pair(&format!("g{i}.tab"), "0")
            .append_pair(&format!("g{i}.range_input"), &format!("{minutes}m"))
            .append_pair(&format!("g{i}.end_input"), &to.strftime("%Y-%m-%d %H:%M:%S").to_string());
    }
    Some(url.to_string())
}

/// Fills in the placeholders of the dashboard URL; an unknown value becomes empty.
fn dashboard(template: &str, view: &IncidentView<'_>) -> String {
    let (from, to) = span(view);
    let labels = match view.diagnosis {
        Some(diagnosis) => diagnosis.scope.labels.clone(),
        None => Scope::of_alerts(view.alerts).dimensions,
    };
    let mut url =
        template.replace("{from}", &clock::unix_ms(from).to_string()).replace("{to}", &clock::unix_ms(to).to_string());
    for name in ["namespace", "model", "cluster"] {
        url = url.replace(&format!("{{{name}}}"), &encoded(labels.get(name).map_or("", String::as_str)));
    }
    url
}

/// Returns the URL of Alertmanager's silence form, with the labels that all firing alerts share; `None` if these only
/// name the pool, or one is hidden: with a placeholder it would silence nothing, without that label more than is meant.
/// Grafana links a form of its own for each alert, which is right only if there is one.
fn silence(alertmanager: &str, alerts: &[Alert]) -> Option<String> {
    let active = active(alerts);
    if active.iter().any(|alert| alert.annotations.contains_key(SILENCE_ANNOTATION)) {
        let only = active.first().filter(|_| active.len() == 1);
        let form = only.and_then(|alert| alert.annotations.get(SILENCE_ANNOTATION));
        return form.filter(|form| !is_redacted(form)).cloned();
    }
    let shared = preselected(alerts).ok()?;
    let base = alertmanager.trim_end_matches('/');
    let hidden = shared.iter().any(|matcher| is_redacted(&matcher.name) || is_redacted(&matcher.value));
    let filters: Vec<String> = shared.iter().map(SilenceMatcher::filter).collect();
    let filter = encoded(&format!("{{{}}}", filters.join(", ")));
    (!shared.is_empty() && !hidden).then(|| format!("{base}/#/silences/new?filter={filter}"))
}

/// Percent-encodes a text for any position in a URL.
fn encoded(text: &str) -> String {
    // Form encoding writes a space as `+`, which means a space in query strings only.
    url::form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>().replace('+', "%20")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::silence;
    use knowledge::alert::Alert;

    #[test]
    fn the_silence_form_never_holds_a_whole_pool() {
        let firing = |n: usize| -> Vec<Alert> {
            let alert = |i: usize| {
                json!({
                    "status": "firing", "labels": { "alertname": format!("A{i}"), "namespace": "llm" },
                    "startsAt": "2026-11-20T03:00:00Z",
                })
            };
            (0..n).map(|i| serde_json::from_value(alert(i)).unwrap()).collect()
        };
        assert!(silence("http://am", &firing(2)).unwrap().contains("alertname"));
        assert_eq!(silence("http://am", &firing(9)), None);
    }
}

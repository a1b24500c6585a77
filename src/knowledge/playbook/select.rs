//! The stage `select`: chooses the playbook that an alert group enters.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::expression::by_metrics;
use super::{Library, PlaybookKind};
use crate::alert::{Alert, active};

/// Maximum number of rules that are queried from Prometheus.
const RULES: usize = 10;

/// The chosen playbook and the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// The playbook's id.
    pub playbook: String,
    /// A clause: `label playbook`, `alert LLMHighTTFT`, `name matches *ttft*`, `its expression reads vllm:…`.
    pub because: String,
}

/// Chooses the playbook for a group: a `playbook` label, an exact alert name, a pattern, the metrics that the rule's
/// expression reads, then the name of a service level objective.
///
/// A group with several alert names takes the worst severity's, then the most frequent. Returns `None` if nothing
/// matches; the message then says so.
pub fn select(library: &Library, alerts: &[Alert]) -> Option<Selection> {
    let mut votes: BTreeMap<String, (usize, usize, String)> = BTreeMap::new();
    for alert in active(alerts) {
        let Some(selection) = select_one(library, alert) else { continue };
        let severity = match alert.labels.get("severity").map(String::as_str) {
            Some("critical" | "page") => 2,
            Some("warning") => 1,
            _ => 0,
        };
        let vote = votes.entry(selection.playbook).or_insert((0, 0, selection.because));
        vote.0 = vote.0.max(severity);
        vote.1 += 1;
    }
    votes
        .into_iter()
        .max_by(|a, b| (a.1.0, a.1.1, &b.0).cmp(&(b.1.0, b.1.1, &a.0)))
        .map(|(playbook, (_, _, because))| Selection { playbook, because })
}

fn select_one(library: &Library, alert: &Alert) -> Option<Selection> {
    let chosen = |id: &str, because: String| {
        library.playbook(id).map(|playbook| Selection { playbook: playbook.playbook.clone(), because })
    };
    if let Some(selection) = alert.labels.get("playbook").and_then(|id| chosen(id, "label playbook".into())) {
        return Some(selection);
    }
    let name = rule_name(alert);
    let exact = library
        .playbooks
        .values()
        .find(|p| p.alerts.iter().any(|rule| rule.alert == name) || p.matches.iter().any(|m| m == name));
    if let Some(playbook) = exact {
        return chosen(&playbook.playbook, format!("alert {name}"));
    }
    let by_name = by_pattern(library, name).map(|(id, pattern)| (id.to_owned(), format!("name matches {pattern}")));
    let by_expression = || {
        let selection = of_expression(library, &expression(&alert.generator_url)?)?;
        Some((selection.playbook, selection.because))
    };
    let by_objective = || {
        let slo_label = OBJECTIVE_LABELS.iter().find_map(|label| Some((label, alert.labels.get(*label)?)));
        let (label, value) = slo_label?;
        let (id, pattern) = by_pattern(library, value)?;
        Some((id.to_owned(), format!("{label} matches {pattern}")))
    };
    let (id, because) = by_name.or_else(by_expression).or_else(by_objective)?;
    chosen(&id, because)
}

/// Names of Grafana's own alerts about a rule that has no data or fails; the rule's name is in another label.
/// Source: <https://grafana.com/docs/grafana/latest/alerting/fundamentals/alert-rule-evaluation/nodata-and-error-states/>.
const ABOUT_A_RULE: [&str; 2] = ["DatasourceNoData", "DatasourceError"];

/// Returns the name of the alert's rule.
fn rule_name(alert: &Alert) -> &str {
    let label = |name: &str| alert.labels.get(name).map(String::as_str).filter(|value| !value.is_empty());
    let name = label("alertname").unwrap_or_default();
    label("rulename").filter(|_| ABOUT_A_RULE.contains(&name)).unwrap_or(name)
}

/// Labels with the objective's name in alerts on the burn rate of an error budget: of Sloth, Pyrra and OpenSLO's tools.
/// Sources: <https://sloth.dev/usage/getting-started/>, <https://github.com/pyrra-dev/pyrra>.
const OBJECTIVE_LABELS: [&str; 4] = ["sloth_slo", "slo", "slo_name", "objective_name"];

/// Returns the playbook of the pattern that matches a name, with the pattern.
fn by_pattern<'a>(library: &'a Library, name: &str) -> Option<(&'a str, &'a str)> {
    // Symptoms come first: foreign names describe the symptom more often than the mechanism.
    library
        .of_kind(PlaybookKind::Symptom)
        .chain(library.of_kind(PlaybookKind::Mechanism))
        .flat_map(|p| p.matches.iter().map(move |pattern| (p, pattern)))
        .filter(|(_, pattern)| glob(&pattern.to_lowercase(), &name.to_lowercase()))
        // The longest pattern is the most specific.
        .max_by_key(|(p, pattern)| (pattern.len(), Reverse(&p.playbook)))
        .map(|(p, pattern)| (p.playbook.as_str(), pattern.as_str()))
}

/// Returns the names of alerts whose link contains no expression: Prometheus may have their rules. At most [`RULES`].
pub fn without_expression(alerts: &[Alert]) -> Vec<String> {
    let without_expression = active(alerts).into_iter().filter(|alert| expression(&alert.generator_url).is_none());
    let names = without_expression.map(rule_name).filter(|name| !name.is_empty());
    names.collect::<BTreeSet<_>>().into_iter().take(RULES).map(str::to_owned).collect()
}

/// Returns the playbook whose symptom reads the metrics of an expression.
pub fn of_expression(library: &Library, expression: &str) -> Option<Selection> {
    let (id, metric) = by_metrics(library, expression)?;
    Some(Selection { playbook: id.to_owned(), because: format!("its expression reads {metric}") })
}

/// Returns the rule's expression in an alert's link: Prometheus, Thanos and Mimir link to their graphs, VictoriaMetrics
/// to `vmui`, after the `#`, and servers configured to link to Grafana Explore have it in JSON.
/// Sources: <https://prometheus.io/docs/alerting/latest/clients/>,
/// <https://docs.victoriametrics.com/vmalert/#link-to-alert-source>.
pub fn expression(generator_url: &str) -> Option<String> {
    let url = url::Url::parse(generator_url).ok()?;
    let behind = url.fragment().and_then(|fragment| fragment.split_once('?')).map_or("", |(_, query)| query);
    let pairs = || url.query_pairs().chain(url::form_urlencoded::parse(behind.as_bytes()));
    let plain = pairs().find(|(name, _)| name == "g0.expr").map(|(_, expression)| expression.into_owned());
    plain.or_else(|| {
        let explored = pairs().filter(|(name, _)| matches!(name.as_ref(), "left" | "panes"));
        explored.filter_map(|(_, json)| serde_json::from_str(&json).ok()).find_map(|json| inner(&json))
    })
}

/// Returns the first text under the key `expr`.
fn inner(json: &Value) -> Option<String> {
    match json {
        Value::Object(map) => match map.get("expr") {
            Some(Value::String(expression)) => Some(expression.clone()),
            _ => map.values().find_map(inner),
        },
        Value::Array(list) => list.iter().find_map(inner),
        _ => None,
    }
}

/// Returns true if `text` matches `pattern`, in which `*` stands for any text.
fn glob(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut last = None;
    for part in parts {
        if let Some(previous) = last.replace(part) {
            let Some(at) = rest.find(previous) else { return false };
            rest = &rest[at + previous.len()..];
        }
    }
    match last {
        None => rest.is_empty(),
        Some(last) => rest.len() >= last.len() && rest.ends_with(last),
    }
}

#[cfg(test)]
mod tests {
    use super::{by_metrics, expression, glob, select};
    use crate::alert::Alert;
    use crate::playbook::load;

    #[test]
    fn an_expression_tells_the_symptom_whose_signal_it_reads() {
        let url = "http://prometheus:9090/graph?g0.expr=histogram_quantile%280.95%2C+sum+by+%28le%29+%28rate%28\
            vllm%3Atime_to_first_token_seconds_bucket%5B5m%5D%29%29%29+%3E+3&g0.tab=1";
        let library = load(None).unwrap();
        let expression = expression(url).unwrap();
        let (playbook, metric) = by_metrics(&library, &expression).unwrap();
        assert_eq!((playbook, metric.as_str()), ("high-ttft", "vllm:time_to_first_token_seconds_bucket"));
        let playbook_of = |expression: &str| by_metrics(&library, expression).map(|(playbook, _)| playbook.to_owned());
        assert_eq!(playbook_of("vllm:num_requests_waiting > 10").as_deref(), Some("queue-buildup"));
        assert_eq!(playbook_of("slo:sli_error:ratio_rate1h{sloth_slo=\"chat\"} > 0.05"), None);
        // A busy GPU is no idle one, and no fault because the Xid's query looks at its work too.
        assert_eq!(playbook_of("DCGM_FI_DEV_GPU_UTIL > 95"), None);
        assert_eq!(playbook_of("avg_over_time(DCGM_FI_DEV_GPU_UTIL[30m]) < 20").as_deref(), Some("gpu-underutilized"));
        assert_eq!(playbook_of("DCGM_FI_DEV_XID_ERRORS > 0").as_deref(), Some("gpu-fault"));
        // Availability is turned round: low where failures are many.
        let served = "1 - rate(litellm_proxy_failed_requests_metric_total[5m]) / rate(litellm_proxy_total_requests_metric_total[5m]) < 0.99";
        assert!(playbook_of(served).is_some());
        assert_eq!(playbook_of("10 < vllm:num_requests_waiting").as_deref(), Some("queue-buildup"));
        let guarded = "max(vllm:num_requests_waiting) > 9 and sum(rate(vllm:request_success_total[1h])) > 0";
        assert_eq!(playbook_of(guarded).as_deref(), Some("queue-buildup"));
        let small = "max(vllm:kv_cache_usage_perc) < 0.01 and sum(rate(vllm:request_success_total[1h])) > 0";
        assert_ne!(playbook_of(small).as_deref(), Some("corrupted-outputs"), "its denominator is a guard here");
        let guard_first = "sum(rate(unknown_total[5m])) > 1 and on () max(vllm:num_requests_waiting) > 9";
        assert_eq!(playbook_of(guard_first).as_deref(), Some("queue-buildup"));
    }

    #[test]
    fn grafanas_alert_about_a_rule_is_known_by_that_rule() {
        let alert = |labels: &str| -> Alert {
            serde_json::from_str(&format!(
                r#"{{"status":"firing","labels":{labels},"startsAt":"2026-01-01T00:00:00Z"}}"#
            ))
            .unwrap()
        };
        let library = load(None).unwrap();
        let no_data = alert(r#"{"alertname":"DatasourceNoData","rulename":"LLMHighTTFT"}"#);
        assert_eq!(select(&library, &[no_data]).unwrap().playbook, "high-ttft");
        let other = alert(r#"{"alertname":"LLMQueueBuildup","rulename":"LLMHighTTFT"}"#);
        assert_eq!(select(&library, &[other]).unwrap().playbook, "queue-buildup");
    }

    #[test]
    fn links_of_other_programs_tell_the_expression_as_well() {
        for link in [
            "http://thanos:10902/graph?g0.expr=vllm%3Anum_requests_waiting+%3E+10&g0.tab=1",
            "http://vm:8428/vmui/#/?g0.expr=vllm%3Anum_requests_waiting%20%3E%2010&g0.range_input=1h",
            "http://grafana/explore?left=%7B%22queries%22%3A%5B%7B%22expr%22%3A%22vllm%3Anum_requests_waiting%20%3E%2010%22%7D%5D%7D",
            "http://grafana/explore?left=%5B%22now-1h%22%2C%22now%22%2C%22VM%22%2C%7B%22expr%22%3A%22vllm%3Anum_requests_waiting%20%3E%2010%22%7D%5D",
        ] {
            assert_eq!(expression(link).as_deref(), Some("vllm:num_requests_waiting > 10"), "{link}");
        }
        for link in [
            "",
            "no link",
            "http://vmalert:8880/vmalert/alert?group_id=1&alert_id=2",
            "http://g/alerting/grafana/x/view",
        ] {
            assert_eq!(expression(link), None, "{link}");
        }
    }

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, text, expected) in [
            ("*ttft*", "vllmhighttftp99", true),
            ("llm*ttft", "llmhighttft", true),
            ("llm*ttft", "llmttfthigh", false),
            ("abc", "abc", true),
            ("abc", "abcd", false),
            ("a*b*b", "ab", false),
            ("*", "", true),
        ] {
            assert_eq!(glob(pattern, text), expected, "{pattern} on {text}");
        }
    }
}

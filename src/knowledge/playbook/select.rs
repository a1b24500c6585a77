//! The stage `select`: chooses the playbook that an alert group enters.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use promql_parser::parser::value::ValueType;
use promql_parser::parser::{Expr, token};
use promql_parser::util::{ExprVisitor, walk_expr};
use serde_json::Value;

use super::{Condition, Evidence, Library, Op, Playbook, PlaybookKind};
use crate::alert::{Alert, active};
use crate::promql::parse;
use crate::signal::Engine;

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

/// Returns every word of the alerts' expressions that may be a metric's name.
pub fn words_of_expressions(alerts: &[Alert]) -> BTreeSet<String> {
    let expressions = active(alerts).into_iter().filter_map(|alert| expression(&alert.generator_url));
    expressions.flat_map(|text| words(&text).map(str::to_owned).collect::<Vec<_>>()).collect()
}

/// Returns the names of the engines and gateways whose signals read one of these metrics; what Prometheus writes itself
/// (`up`, `scrape_*`) belongs to none.
pub fn engines_of<'a>(library: &'a Library, metrics: &BTreeSet<String>) -> BTreeSet<&'a str> {
    if metrics.is_empty() {
        return BTreeSet::new();
    }
    let own = |name: &String| name != "up" && !name.starts_with("scrape_") && metrics.contains(name);
    let reads = |engine: &&Engine| {
        let of_signals = engine.signals.values().filter_map(|entry| entry.query.as_deref()).flat_map(metrics_of);
        of_signals.flat_map(|metric| engine.spellings(&metric)).any(|(_, name)| own(&name))
    };
    let engines = library.engines.values().filter(|engine| engine.kind.is_pool());
    engines.filter(reads).map(|engine| engine.engine.as_str()).collect()
}

/// Returns the rule's expression in an alert's link: Prometheus, Thanos and Mimir link to their graphs, VictoriaMetrics
/// to `vmui`, after the `#`, and servers configured to link to Grafana Explore have it in JSON.
/// Sources: <https://prometheus.io/docs/alerting/latest/clients/>,
/// <https://docs.victoriametrics.com/vmalert/#link-to-alert-source>.
fn expression(generator_url: &str) -> Option<String> {
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

/// Returns the playbook whose symptom reads most of an expression's metrics, with one of them. That one is no mere guard,
/// such as `and rate(requests[5m]) > 0`, if any playbook reads the other part. Ties: the one whose signal reads the fewest
/// other metrics, then the playbook whose symptom reads them earliest. A symptom of low values is not meant by an expression
/// that asks for high ones.
fn by_metrics<'a>(library: &'a Library, expression: &str) -> Option<(&'a str, String)> {
    let words_of_expression: BTreeSet<&str> = words(expression).collect();
    let judged = parse(expression).map_or_else(|_| expression.to_owned(), |parsed| judged_part(&parsed).to_string());
    let judged: BTreeSet<&str> = words(&judged).collect();
    let read = library.metrics.get_or_init(|| by_signal(library));
    let asked = asked_direction(expression);
    let fitting = |playbook: &'a Playbook, judged: &BTreeSet<&str>| {
        let checks = playbook.symptom.iter().flat_map(Evidence::checks);
        let of = |(place, (signal, when)): (usize, (&str, &Condition))| {
            let opposite = asked.zip(direction(when)).is_some_and(|(asked, own)| asked != own);
            let metrics = read.get(signal).filter(|_| !opposite)?;
            let common = metrics.iter().find(|metric| judged.contains(metric.as_str())).cloned()?;
            let n = metrics.iter().filter(|metric| words_of_expression.contains(metric.as_str())).count();
            Some(((n, Reverse(metrics.len()), Reverse(place)), common))
        };
        checks.enumerate().filter_map(of).max().map(|best| (best, playbook))
    };
    let best = |judged: &BTreeSet<&str>| {
        let symptoms = library.of_kind(PlaybookKind::Symptom).filter_map(|playbook| fitting(playbook, judged));
        // Ties go to the first id.
        let best = symptoms.max_by_key(|((fit, _), playbook)| (*fit, Reverse(&playbook.playbook)));
        best.map(|((_, metric), playbook)| (playbook.playbook.as_str(), metric))
    };
    best(&judged).or_else(|| best(&words_of_expression))
}

/// Returns the part of an expression that its guards limit.
fn judged_part(expr: &Expr) -> &Expr {
    match expr {
        Expr::Paren(of) => judged_part(&of.expr),
        Expr::Binary(of) if matches!(of.op.id(), token::T_LAND | token::T_LUNLESS) => judged_part(&of.lhs),
        _ => expr,
    }
}

/// Returns for each signal the metrics that its queries read, of all engines.
fn by_signal(library: &Library) -> BTreeMap<String, BTreeSet<String>> {
    let mut read: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (signal, entry) in library.engines.values().flat_map(|engine| &engine.signals) {
        read.entry(signal.clone()).or_default().extend(entry.query.as_deref().into_iter().flat_map(metrics_of));
    }
    read
}

/// Returns every word of a PromQL text that may be a metric's name.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | ':'))).filter(|word| !word.is_empty())
}

/// Returns the metrics that a signal's query is made of: the names before its selectors. What only limits or joins other
/// series (after `and`, `unless` or `0 *`, up to the end of its brackets or an `or`) is left out.
fn metrics_of(query: &str) -> Vec<String> {
    let own = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':');
    let (mut out, mut word, mut depth, mut limits) = (Vec::new(), String::new(), 0_usize, None::<usize>);
    let mut braces = false;
    let mut chars = query.chars().peekable();
    let mut quoted = false;
    while let Some(c) = chars.next() {
        quoted ^= c == '"';
        if quoted || c == '"' {
            word.clear();
            continue;
        }
        if own(c) {
            word.push(c);
            continue;
        }
        match (word.as_str(), c) {
            ("and" | "unless", _) if limits.is_none() && !braces => limits = Some(depth),
            ("or", _) if limits.is_some_and(|at| at >= depth) && !braces => limits = None,
            ("0", ' ') if limits.is_none() && !braces && chars.peek() == Some(&'*') => limits = Some(depth),
            (name, '{') if !name.is_empty() && limits.is_none() => out.push(name.to_owned()),
            _ => {}
        }
        match c {
            '{' => braces = true,
            '}' => braces = false,
            '(' if !braces => depth += 1,
            ')' if !braces => {
                depth = depth.saturating_sub(1);
                limits = limits.filter(|at| *at <= depth);
            }
            _ => {}
        }
        word.clear();
    }
    out
}

/// The values that a condition asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    High,
    Low,
}

/// Returns the direction of a condition; `None` if it has several, or compares nothing.
fn direction(when: &Condition) -> Option<Direction> {
    let Condition::All(comparisons) = when else { return None };
    let of = |op: Op| match op {
        Op::Above | Op::AtLeast => Direction::High,
        Op::Below | Op::AtMost => Direction::Low,
    };
    let first = of(comparisons.first()?.op);
    comparisons.iter().all(|comparison| of(comparison.op) == first).then_some(first)
}

/// Returns the direction in which an expression compares; `None` if in both or none, or if it is no PromQL.
fn asked_direction(expression: &str) -> Option<Direction> {
    let mut asked = Asked::default();
    let Ok(_) = walk_expr(&mut asked, &parse(expression).ok()?);
    let first = *asked.0.first()?;
    asked.0.iter().all(|direction| *direction == first).then_some(first)
}

/// The directions of an expression; both where a series is taken from something, or divides it: high turns into low.
#[derive(Default)]
struct Asked(Vec<Direction>);

impl ExprVisitor for Asked {
    type Error = std::convert::Infallible;

    fn pre_visit(&mut self, expr: &Expr) -> Result<bool, Self::Error> {
        let has_series = |side: &Expr| side.value_type() != ValueType::Scalar;
        let (op, left, right) = match expr {
            Expr::Unary(of) => (token::T_SUB, false, has_series(&of.expr)),
            Expr::Binary(of) => (of.op.id(), has_series(&of.lhs), has_series(&of.rhs)),
            _ => return Ok(true),
        };
        match op {
            token::T_SUB | token::T_DIV if right && (op == token::T_SUB || !left) => {
                self.0.extend([Direction::High, Direction::Low]);
            }
            token::T_GTR | token::T_GTE => self.0.push(if left { Direction::High } else { Direction::Low }),
            token::T_LSS | token::T_LTE => self.0.push(if left { Direction::Low } else { Direction::High }),
            _ => {}
        }
        Ok(true)
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
    use super::{Direction, asked_direction, by_metrics, expression, glob, metrics_of, select};
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
    fn only_what_turns_its_value_round_leaves_an_expressions_direction_open() {
        for (expression, expected) in [
            ("util{gpu='a-b'} < 20", Some(Direction::Low)),
            ("util{gpu=\"it's - \\\" > -\"} < 20", Some(Direction::Low)),
            ("temperature offset -5m > -10", Some(Direction::High)),
            ("util - 5 >= 20 # - and < 5", Some(Direction::High)),
            ("10 < waiting", Some(Direction::High)),
            ("1 - failed / all < 0.99", None),
            ("-util < 5", None),
            ("1 / tokens > 0.1", None),
            ("a > 1 and b < 2", None),
        ] {
            assert_eq!(asked_direction(expression), expected, "{expression}");
        }
    }

    #[test]
    fn what_limits_or_joins_other_series_is_not_what_a_query_is_made_of() {
        assert_eq!(metrics_of("sum(a{x=\"{2}\"} > 0 and b{}) or 0 * c{}"), ["a"]);
        assert_eq!(metrics_of("max(a{} unless on (x) (b{} or c{})) / d{}"), ["a", "d"]);
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

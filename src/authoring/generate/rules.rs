//! `generate rules`: recorded series, and the playbooks' `alerts:` as Prometheus alerting rules on them.
//!
//! Each alert carries the label `playbook`, which selects its playbook when it arrives by webhook.

use std::time::Duration;

use anyhow::{Context, Result, anyhow};

use super::budget;
use super::comparison::{ComparedSeries, PLAIN, part, whole};
use super::pool_kinds;
use super::recording::{self, RecordingRule};
use super::rule_options::{RuleOptions, RuleText, pool_matchers};
use super::yaml::{RuleGroup, indented};
use knowledge::playbook::{AlertRule, AlertScope, Condition, Evidence, Library, Playbook, PoolObjectives};
use knowledge::signal::{Engine, EngineKind, Signal, Unit, matchers};

/// The comment above the groups.
const HEAD: &str =
    "# Rules for LLM serving fleets. Made by `llm-diagnose generate rules`; change the playbooks instead.
# First engine-neutral series, `llm:<signal>`, then alerts on them. Groups of engines that you do not run cost
# little and can be left out. Warnings are for chat, critical ones page: only where users are hurt now.
";

/// The time that a replica may take to load its model for the first time: an alert that waits as long also counts pools
/// that never served.
const LONGEST_START: Duration = Duration::from_secs(900);
/// The pods that ask for a GPU, without those of batch jobs (Job, PyTorchJob, Argo's Workflow), which wait for one on purpose.
/// Source: <https://github.com/kubernetes/kube-state-metrics/blob/main/docs/metrics/workload/pod-metrics.md>
const GPU_REQUESTS: &str = r#"(kube_pod_container_resource_requests{resource=~"nvidia_com_.+|amd_com_gpu"} unless on (cluster, namespace, pod) kube_pod_owner{owner_kind=~".*Job|Workflow"})"#;

/// Renders the rules as `PrometheusRule`s for prometheus-operator: one with the recorded series of each engine, one with
/// the alerts. `kubectl apply` takes no more than 256 KiB at once, the operator 512 KiB.
pub fn prometheus_rule(library: &Library, options: &RuleOptions) -> Result<String> {
    let groups = groups(library, options)?;
    let object = |groups: &[RuleGroup]| {
        let name = groups.first().map_or("", |group| &group.object);
        let spec: String = groups.iter().map(|group| indented(&group.yaml()) + "\n").collect();
        format!(
            "---\napiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\nmetadata:\n  name: {name}\n  labels:\n    \
             app.kubernetes.io/name: llm-diagnose\n    app.kubernetes.io/instance: llm-diagnose\nspec:\n  groups:\n{spec}"
        )
    };
    let objects = groups.chunk_by(|one, next| one.object == next.object);
    Ok(format!("{HEAD}{}", objects.map(object).collect::<String>()))
}

/// Renders the rule file.
///
/// # Errors
/// Returns the first alert or kind of pools whose condition Prometheus alone cannot evaluate.
pub fn rules(library: &Library, options: &RuleOptions) -> Result<String> {
    let groups = groups(library, options)?;
    Ok(format!("{HEAD}groups:\n{}", groups.iter().map(RuleGroup::yaml).collect::<String>()))
}

fn groups(library: &Library, options: &RuleOptions) -> Result<Vec<RuleGroup>> {
    let mut groups = recording::groups(library, options.window);
    groups.push(pool_kinds::group(library)?);
    groups.extend(budget::groups(library, options));
    for playbook in library.playbooks.values().filter(|p| !p.alerts.is_empty()) {
        let mut group = RuleGroup::alerting(&playbook.playbook);
        for alert in &playbook.alerts {
            let what = || format!("alert `{}` of playbook `{}` cannot become a rule", alert.alert, playbook.playbook);
            let rule = rule_text(library, playbook, alert, options).with_context(what)?;
            rule.write(&mut group.rules, &playbook.playbook, &options.runbook_base);
        }
        groups.push(group);
    }
    Ok(groups)
}

fn rule_text<'a>(
    library: &Library,
    playbook: &Playbook,
    alert: &'a AlertRule,
    options: &RuleOptions,
) -> Result<RuleText<'a>> {
    let own_hold =
        || humantime::parse_duration(&alert.hold).map_err(|_| anyhow!("`for: {}` is no duration", alert.hold));
    let burns = |signal: &str| library.signals.get(signal).is_some_and(|signal| signal.burn.is_some());
    // The alert's value is its first check's; with alternatives it is unknown which one.
    let first = alert.when.first().and_then(|e| e.signal.as_deref());
    let signal = first.and_then(|name| library.signals.get(name));
    let what = signal.map(|s| format!(" ({} {})", s.title, humanized(s))).unwrap_or_default();
    let pod = "{{ with $labels.pod }} {{ . }}{{ end }}{{ with $labels.workload }} {{ . }}{{ end }}";
    Ok(RuleText {
        alert: &alert.alert,
        expr: expressions(library, playbook, alert)?.join("\nor\n"),
        hold: Some(options.hold.map_or_else(own_hold, Ok)?),
        keeps_firing: alert.when.iter().flat_map(Evidence::checks).any(|(signal, _)| burns(signal)),
        severity: alert.severity,
        long_window: alert.over.as_deref(),
        summary: format!("{pod}: {}{what}", literal(&playbook.title)),
        description: format!("{} {}", one_line(&playbook.meaning), one_line(&playbook.impact)),
    })
}

fn one_line(text: &str) -> String {
    literal(&text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Escapes a playbook's own braces: annotations are templates.
fn literal(text: &str) -> String {
    text.replace("{{", "{{ \"{{\" }}")
}

fn humanized(signal: &Signal) -> &'static str {
    match signal.unit {
        Unit::Ratio => "{{ $value | humanizePercentage }}",
        Unit::Seconds => "{{ $value | humanizeDuration }}",
        Unit::Bytes => "{{ $value | humanize1024 }}B",
        Unit::BytesPerSecond => "{{ $value | humanize1024 }}B/s",
        Unit::Tokens => "{{ $value | humanize }}",
        Unit::TokensPerSecond => "{{ $value | humanize }}/s",
        // `humanize` gives 150m for 0.15, which reads as minutes or millions.
        Unit::Requests | Unit::Count => "{{ $value | printf \"%.0f\" }}",
        Unit::RequestsPerSecond | Unit::PerSecond => "{{ $value | printf \"%.2f\" }}/s",
        Unit::Factor => "{{ $value | printf \"%.1f\" }}x",
        Unit::Celsius => "{{ $value | printf \"%.0f\" }} °C",
        Unit::Hertz => "{{ $value | humanize }}Hz",
        Unit::Watts => "{{ $value | printf \"%.0f\" }} W",
    }
}

/// Returns the alert's expression, and one more for each promise with other thresholds; about no pool in common.
fn expressions(library: &Library, playbook: &Playbook, alert: &AlertRule) -> Result<Vec<String>> {
    let kinds = |recorded: RecordingRule<'_>, when: &Condition| pool_kinds::within_limit(library, recorded, when);
    let compared = |series: &ComparedSeries<'_>| expression(library, alert, series);
    let mut general_expr = match &alert.over {
        None => compared(&ComparedSeries { without: &kinds, ..PLAIN })?,
        Some(over) => {
            let long = compared(&ComparedSeries {
                name: &|recorded| recording::long_name(&recorded.name(), over),
                without: &kinds,
            })?;
            let hour = compared(&ComparedSeries { name: &|recorded| format!("{}:hour", recorded.name()), ..PLAIN })?;
            format!("{long}\nand {hour}")
        }
    };
    let mut exprs = Vec::new();
    let mut before = String::new();
    let place = playbook.alerts.iter().position(|own| own == alert).unwrap_or_default();
    for (i, promised) in library.promised.iter().enumerate() {
        // The rule of the general entry leaves these pools out, so an exception needs its own rule even with the
        // default thresholds.
        let excepts = library.promised.iter().any(|general| {
            let is_other = general.is_silent(&playbook.playbook, place)
                || general.changed(&playbook.playbook, place, alert).is_some();
            promised.slo.is_exception_of(&general.slo) && is_other
        });
        let unchanged = || promised.library.playbooks.get(&playbook.playbook)?.alerts.get(place).filter(|_| excepts);
        let pools = pools_of(promised, alert);
        // A promise has an error budget, with slow burns of its own.
        if promised.is_silent(&playbook.playbook, place) || (alert.over.is_some() && promised.slo.promises_something())
        {
            before.push_str(&format!("\nunless {pools}"));
            continue;
        }
        let Some(own) = promised.changed(&playbook.playbook, place, alert).or_else(unchanged) else { continue };
        let series = |recorded: RecordingRule<'_>| match promised.is_moved(recorded.signal) {
            true => recording::promised_name(&recorded.name(), i),
            false => recorded.name(),
        };
        let mut expr =
            format!("{}\nand {pools}", expression(&promised.library, own, &ComparedSeries { name: &series, ..PLAIN })?);
        for exception in library.promised.iter().filter(|other| other.slo.is_exception_of(&promised.slo)) {
            expr.push_str(&format!("\nunless {}", pools_of(exception, alert)));
        }
        exprs.push(expr);
        before.push_str(&format!("\nunless {pools}"));
    }
    general_expr.push_str(&before);
    general_expr.push_str(&pool_kinds::harmless(library, &playbook.playbook, alert));
    exprs.insert(0, general_expr);
    Ok(exprs)
}

/// Returns the selector of a promise's pools, on the series of the alert that any of them has.
fn pools_of(promised: &PoolObjectives, alert: &AlertRule) -> String {
    let own = pool_matchers(promised);
    let on: Vec<&str> = own.iter().map(|matcher| matcher.label.as_str()).collect();
    // An engine may lack the first of several alternatives.
    let first = alert.when.first().map(Evidence::checks).unwrap_or_default();
    let mut series: Vec<String> = Vec::new();
    for (signal, _) in first {
        let one = format!("{}{{{}}}", RecordingRule { signal, each: alert.each }.name(), matchers(&own));
        if !series.contains(&one) {
            series.push(one);
        }
    }
    match series.as_slice() {
        [one] => format!("on ({}) {one}", on.join(", ")),
        all => format!("on ({}) ({})", on.join(", "), all.join(" or ")),
    }
}

/// Joins the alert's checks over the recorded series on their common labels; those without data are taken away.
fn expression(library: &Library, alert: &AlertRule, series: &ComparedSeries<'_>) -> Result<String> {
    let mut checks = alert.when.iter();
    let first = checks.next().context("`when` is empty")?;
    let mut joined = part(library, first, alert.each, series)?;
    for evidence in checks {
        let absent = evidence.signal.as_deref().filter(|_| evidence.when == Some(Condition::NoData));
        let next = match absent {
            None => part(library, evidence, alert.each, series)?,
            Some(signal) => whole(library, RecordingRule { signal, each: alert.each }, series)?,
        };
        let operator = if absent.is_some() { "unless" } else { "and" };
        let on: Vec<&str> = joined
            .labels
            .iter()
            .filter(|label| next.labels.contains(label))
            // Series of one kind never carry the name of an engine of another kind.
            .filter(|label| *label != "engine" || joined.kinds.iter().any(|kind| next.kinds.contains(kind)))
            .map(String::as_str)
            .collect();
        joined.expr = format!("{}\n{operator} on ({})\n{}", joined.expr, on.join(", "), next.expr);
    }
    if !joined.orchestrator {
        return Ok(joined.expr);
    }
    let waits_for_a_start = humantime::parse_duration(&alert.hold).is_ok_and(|hold| hold >= LONGEST_START);
    Ok(models_only(library, &joined.expr, alert.each, waits_for_a_start))
}

/// Restricts the orchestrator's rows to those of models, by the names of their replicas.
///
/// Pools that served within the last day count, so that the alert lasts as long as the outage; with `starting`, so do pods
/// that ask for a GPU and may never have served. For single replicas, the workload itself must serve a model: gateways and
/// caches are in the same namespace. A pool here is the whole namespace. Pods are named
/// `<deployment>-<hash>-<5 characters>` and `<statefulset>-<ordinal>`.
/// Source: Kubernetes, generated names of ReplicaSets and StatefulSets.
fn models_only(library: &Library, expr: &str, each: AlertScope, starting: bool) -> String {
    let serving = library.engines.values().filter(|e| e.kind == EngineKind::Serving);
    let detect: Vec<String> = serving.flat_map(Engine::detected_by).collect();
    let mut recent = format!("last_over_time({{__name__=~\"{}\"}}[1d])", detect.join("|"));
    if starting {
        recent = format!("({recent} or {GPU_REQUESTS})");
    }
    let by_pod = r#""workload", "$1", "pod", "(.+?)(-[a-z0-9]{6,10}-[a-z0-9]{5}|-[0-9]+)""#;
    match each {
        AlertScope::Pool => format!("{expr}\nand on (cluster, namespace)\ngroup by (cluster, namespace) ({recent})"),
        AlertScope::Replica => format!(
            "label_replace(label_replace(label_replace(\n{},\n  {by_pod}),\n  \
             \"workload\", \"$1\", \"deployment\", \"(.+)\"),\n  \
             \"workload\", \"$1\", \"statefulset\", \"(.+)\")\n\
             and on (cluster, namespace, workload)\n\
             group by (cluster, namespace, workload) (label_replace(\n  {recent},\n  {by_pod}))",
            indented(expr)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use knowledge::playbook::load;

    fn with_alert(hold: &str, when: Option<&str>) -> Result<String> {
        let mut library = load(None).unwrap();
        library.playbooks.retain(|id, _| id == "high-ttft");
        let playbook = library.playbooks.get_mut("high-ttft").unwrap();
        playbook.title = "a {{ brace }}".to_owned();
        playbook.alerts.truncate(1);
        playbook.alerts[0].hold = hold.to_owned();
        let mut check = playbook.alerts[0].when.remove(0);
        playbook.alerts[0].when.extend(when.map(|when| {
            check.when = Some(when.parse().unwrap());
            check
        }));
        let runbook_base = "https://r/".to_owned();
        rules(&library, &RuleOptions { window: Duration::from_secs(300), hold: None, runbook_base })
    }

    #[test]
    fn a_rule_is_written_as_prometheus_reads_it() {
        let rule = with_alert("90min", Some("> 2 and < 9")).unwrap();
        assert!(
            rule.contains("for: 90m\n        keep_firing_for: 10m\n") && rule.contains("(llm:ttft_burn > 2) < 9\n"),
            "{rule}"
        );
        assert!(rule.contains(r#"a {{ \"{{\" }} brace }}"#) && rule.contains("https://r/high-ttft.md"), "{rule}");
        let relative = with_alert("5m", Some("> 2x baseline")).unwrap();
        assert!(relative.contains("llm:ttft_burn > 2 * (llm:ttft_burn offset 1d)\n"), "{relative}");
        assert_eq!(
            [0, 90, 300, 86_400].map(|s| super::super::rule_options::held(Duration::from_secs(s))),
            ["0s", "90s", "5m", "24h"]
        );
    }

    #[test]
    fn what_prometheus_cannot_judge_by_itself_becomes_no_rule() {
        let why = |hold, when| with_alert(hold, when).unwrap_err().root_cause().to_string();
        assert_eq!(why("5m", Some("absent")), "`ttft_burn absent` compares with no number");
        assert_eq!(why("5m", Some("> 2x peers")), "`ttft_burn > 2x peers` compares replicas with each other");
        assert_eq!(why("5m", None), "`when` is empty");
        assert_eq!(why("soon", Some("> 2")), "`for: soon` is no duration");
    }

    #[test]
    fn checks_that_engines_of_different_kinds_tell_are_not_joined_on_the_engine() {
        let library = load(None).unwrap();
        let joined = |first: &str, second: &str| {
            let mut alert = library.playbooks["low-throughput"].alerts[0].clone();
            let check = alert.when[1].clone();
            alert.when = vec![check.clone(), check];
            alert.when[0].signal = Some(first.to_owned());
            alert.when[1].signal = Some(second.to_owned());
            let expr = expression(&library, &alert, &PLAIN).unwrap();
            expr.lines().find(|line| line.starts_with("and on")).unwrap().contains("engine")
        };
        assert!(joined("requests_queued", "generation_token_rate"));
        assert!(joined("gpu_utilization", "gpu_memory_used_ratio"));
        assert!(!joined("gpu_memory_used_ratio", "pod_restarts"));
        assert!(!joined("requests_queued", "gpu_utilization"));
        assert!(!joined("requests_queued", "replicas_ready"));
    }

    #[test]
    fn a_gateways_alert_asks_every_gateway_that_tells_it_and_needs_no_engine_beside() {
        let mut library = load(None).unwrap();
        let mut gateway = library.engines["vllm"].clone();
        gateway.kind = EngineKind::Gateway;
        let query = gateway.signals.remove("error_ratio");
        gateway.signals.clear();
        for (name, tells) in [("one", true), ("other", true), ("silent", false)] {
            let mut engine = Engine { engine: name.to_owned(), ..gateway.clone() };
            let mut entry = query.clone().unwrap();
            entry.query = tells.then(|| format!("max by ($by) ({name}_errors{{$scope}})"));
            engine.signals.insert("gateway_error_burn".to_owned(), entry);
            library.engines.insert(name.to_owned(), engine);
        }
        library.playbooks.retain(|id, _| id == "gateway-errors");
        let window = Duration::from_secs(300);
        let options = RuleOptions { window, hold: None, runbook_base: "https://r/".to_owned() };
        let critical = rules(&library, &options).unwrap();
        assert!(critical.contains("one_errors{") && critical.contains("other_errors{"), "{critical}");
        assert!(!critical.contains("silent_errors"), "{critical}");
        let mut alerts = critical.split("- alert: ").skip(1);
        assert!(alerts.all(|alert| !alert.contains("last_over_time")), "{critical}");
    }
}

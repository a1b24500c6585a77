//! `generate rules`: the playbooks' `alerts:` as Prometheus alerting rules.
//!
//! Each alert carries the label `playbook`, which leads back to its playbook when it comes in by webhook.

use std::time::Duration;

use super::yaml::{block, text};
use crate::playbook::{AlertRule, Condition, Each, Evidence, Library, Playbook, Reference};
use crate::signal::{Engine, EngineKind, Fill, Signal, Unit, fill};

/// How the rules are made.
#[derive(Debug, Clone, PartialEq)]
pub struct RuleOptions {
    /// The rate window.
    pub window: Duration,
    /// Instead of each alert's own `for`.
    pub hold: Option<Duration>,
    /// Where the runbook pages stand; `/<playbook>.md` follows.
    pub runbook_base: String,
}

/// Why an alert cannot become a rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("alert `{alert}` of playbook `{playbook}` cannot become a rule: {why}")]
pub struct RuleError {
    /// The alert's name.
    pub alert: String,
    /// Its playbook.
    pub playbook: String,
    /// What is in the way.
    pub why: String,
}

/// The rule file's text.
///
/// # Errors
/// The first alert whose condition cannot be asked of Prometheus by itself.
pub fn rules(library: &Library, options: &RuleOptions) -> Result<String, RuleError> {
    let mut out = String::from(
        "# Alerting rules for LLM serving fleets. Made by `llm-diagnose generate rules`; change the playbooks instead.\n\
         # Warnings are for chat, critical ones page: only where users are hurt now.\ngroups:\n",
    );
    for playbook in library.playbooks.values().filter(|p| !p.alerts.is_empty()) {
        out.push_str(&format!("  - name: llm-diagnose/{}\n    rules:\n", playbook.playbook));
        for alert in &playbook.alerts {
            let expr = expression(library, alert, options).map_err(|why| RuleError {
                alert: alert.alert.clone(),
                playbook: playbook.playbook.clone(),
                why,
            })?;
            write_rule(&mut out, library, playbook, alert, &expr, options);
        }
    }
    Ok(out)
}

fn write_rule(
    out: &mut String,
    library: &Library,
    playbook: &Playbook,
    alert: &AlertRule,
    expr: &str,
    options: &RuleOptions,
) {
    let hold = options.hold.map_or_else(|| alert.hold.clone(), |d| humantime::format_duration(d).to_string());
    out.push_str(&format!("      - alert: {}\n", alert.alert));
    block(out, 8, "expr", expr);
    out.push_str(&format!("        for: {hold}\n        labels:\n"));
    text(out, 10, "severity", &alert.severity.to_string());
    text(out, 10, "playbook", &playbook.playbook);
    out.push_str("        annotations:\n");
    let first = alert.when.first().and_then(|e| e.checks().first().map(|(signal, _)| *signal));
    let signal = first.and_then(|name| library.signals.get(name));
    let what = signal.map(|s| format!(" ({} {})", s.title, humanized(s))).unwrap_or_default();
    let whom = "{{ with $labels.namespace }}{{ . }}{{ end }}{{ with $labels.model_name }}/{{ . }}{{ end }}";
    let pod = "{{ with $labels.pod }} {{ . }}{{ end }}{{ with $labels.deployment }} {{ . }}{{ end }}";
    text(out, 10, "summary", &format!("{whom}{pod}: {}{what}", playbook.title));
    let told = format!(
        "{} {} What it can come from and what to do: `llm-diagnose explain {}`.",
        one_line(&playbook.meaning),
        one_line(&playbook.impact),
        playbook.playbook
    );
    text(out, 10, "description", &told);
    let base = options.runbook_base.trim_end_matches('/');
    text(out, 10, "runbook_url", &format!("{base}/{}.md", playbook.playbook));
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn humanized(signal: &Signal) -> &'static str {
    match signal.unit {
        Unit::Ratio => "{{ $value | humanizePercentage }}",
        Unit::Seconds => "{{ $value | humanizeDuration }}",
        Unit::Bytes | Unit::BytesPerSecond => "{{ $value | humanize1024 }}B",
        Unit::Tokens
        | Unit::Requests
        | Unit::TokensPerSecond
        | Unit::RequestsPerSecond
        | Unit::PerSecond
        | Unit::Factor
        | Unit::Count
        | Unit::Celsius
        | Unit::Hertz
        | Unit::Watts => "{{ $value | humanize }}",
    }
}

/// One variant per serving engine that tells all of the alert's serving signals, joined by `or`.
fn expression(library: &Library, alert: &AlertRule, options: &RuleOptions) -> Result<String, String> {
    let signals: Vec<&str> = alert.when.iter().flat_map(Evidence::checks).map(|(signal, _)| signal).collect();
    let serving: Vec<&Engine> = library.engines.values().filter(|e| e.kind == EngineKind::Serving).collect();
    let told_by_serving: Vec<&str> = signals.iter().copied().filter(|s| serving.iter().any(|e| tells(e, s))).collect();
    let mut variants = Vec::new();
    if told_by_serving.is_empty() {
        variants.push(joined(library, None, alert, options)?);
    }
    for engine in serving.into_iter().filter(|_| !told_by_serving.is_empty()) {
        if told_by_serving.iter().all(|signal| tells(engine, signal)) {
            variants.push(joined(library, Some(engine), alert, options)?);
        }
    }
    match variants.is_empty() {
        true => Err("no engine tells all of its signals".to_owned()),
        false => Ok(variants.join("\nor\n")),
    }
}

fn tells(engine: &Engine, signal: &str) -> bool {
    engine.signals.get(signal).is_some_and(|s| s.query.is_some())
}

/// An expression and the labels that its result has.
struct Part {
    expr: String,
    labels: Vec<String>,
}

fn joined(
    library: &Library,
    serving: Option<&Engine>,
    alert: &AlertRule,
    options: &RuleOptions,
) -> Result<String, String> {
    let mut parts = Vec::new();
    for evidence in &alert.when {
        parts.push(part(library, serving, evidence, alert.each, options)?);
    }
    let mut whole = parts.remove(0);
    for next in parts {
        let on: Vec<&str> = whole.labels.iter().filter(|l| next.labels.contains(l)).map(String::as_str).collect();
        whole.expr = format!("{}\nand on ({})\n{}", whole.expr, on.join(", "), next.expr);
    }
    if serving.is_none() {
        // An orchestrator knows many workloads; only namespaces that serve models concern us.
        let detect: Vec<&str> =
            library.engines.values().filter(|e| e.kind == EngineKind::Serving).map(|e| e.detect.as_str()).collect();
        let names = detect.join("|");
        whole.expr = format!(
            "{}\nand on (namespace)\ngroup by (namespace) (last_over_time({{__name__=~\"{names}\"}}[1h]))",
            whole.expr
        );
    }
    Ok(whole.expr)
}

fn part(
    library: &Library,
    serving: Option<&Engine>,
    evidence: &Evidence,
    each: Each,
    options: &RuleOptions,
) -> Result<Part, String> {
    if let (Some(signal), Some(when)) = (&evidence.signal, &evidence.when) {
        return compared(library, serving, signal, when, each, options);
    }
    let alternatives =
        evidence.any.iter().map(|e| part(library, serving, e, each, options)).collect::<Result<Vec<_>, _>>()?;
    let labels = alternatives.first().map(|p| p.labels.clone()).unwrap_or_default();
    let either: Vec<String> = alternatives.into_iter().map(|p| indented(&p.expr)).collect();
    Ok(Part { expr: format!("(\n{}\n)", either.join("\n  or\n")), labels })
}

fn compared(
    library: &Library,
    serving: Option<&Engine>,
    signal: &str,
    when: &Condition,
    each: Each,
    options: &RuleOptions,
) -> Result<Part, String> {
    let engine = serving
        .filter(|e| tells(e, signal))
        .or_else(|| library.engines.values().find(|e| e.kind != EngineKind::Serving && tells(e, signal)))
        .ok_or_else(|| format!("no engine tells `{signal}`"))?;
    let entry = engine.signals.get(signal).ok_or_else(|| format!("no engine tells `{signal}`"))?;
    if !entry.from_labels.is_empty() {
        return Err(format!("`{signal}` is read from labels, which PromQL cannot compare"));
    }
    let Some(query) = &entry.query else { return Err(format!("{} cannot tell `{signal}`", engine.engine)) };
    let mut by =
        if engine.pool.is_empty() { vec!["cluster".to_owned(), "namespace".to_owned()] } else { engine.pool.clone() };
    if each == Each::Replica {
        by.extend(engine.replica.iter().cloned());
    }
    let window = entry.window.as_deref().and_then(|w| humantime::parse_duration(w).ok()).unwrap_or(options.window);
    let filled = fill(query, &Fill { scope: "", workload: "", window, by: &by, prefix: None });
    let mut expr = format!("(\n{}\n)", indented(&filled));
    for comparison in when.comparisons() {
        let Reference::Number(limit) = comparison.to else {
            return Err(format!("`{signal} {when}` compares with the past or with peers"));
        };
        expr = format!("{expr} {} {limit}", comparison.op.symbol());
    }
    Ok(Part { expr, labels: by })
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}

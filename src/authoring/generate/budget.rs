//! The error budgets of `slo:` in `generate rules`: requests and violations by pool, burn rates, and alerts on them.
//!
//! Violations are counted by the smallest bucket bound that is not below the promised time, so between two bounds too
//! few are counted and never too many. Series and alerts have the labels `sli` and `slo`: the indicator, and the objective
//! as a text. Windows and factors: Google, The Site Reliability Workbook, chapter 5, table 5-8, for 30 days.

use std::collections::BTreeSet;

use super::recording::{RecordingRule, by_pool, record, tells};
use super::rule_options::{RuleOptions, RuleText, pool_matchers};
use super::yaml::RuleGroup;
use knowledge::playbook::{AlertScope, Library, PoolObjectives, Promise, Severity};
use knowledge::signal::{Engine, Matcher, RECORDED_POOL, RequestCounts, budget, matchers};

/// Windows of burn rates, each with the step at which samples are added up, in minutes: coarser where it costs much.
const WINDOWS: [(&str, u32); 7] = [("5m", 5), ("30m", 1), ("1h", 1), ("2h", 1), ("6h", 1), ("1d", 5), ("3d", 5)];
/// Minimum violations in the long window: one bad request of a quiet pool is no burn.
const LEAST: u32 = 5;
/// The series of all pools, by engine, before each pool's objective is known.
const BY_ENGINE: [&str; 2] = ["llm:slo_requests:by_engine", "llm:slo_violations:by_engine"];

/// The alerts: while a long and a short window burn the budget faster than the factor.
pub(super) const ALERTS: [(&str, &str, f64, Severity); 4] = [
    ("1h", "5m", 14.4, Severity::Critical),
    ("6h", "30m", 6.0, Severity::Critical),
    ("1d", "2h", 3.0, Severity::Warning),
    ("3d", "6h", 1.0, Severity::Warning),
];

/// Returns the rule groups of all error budgets; nothing without `slo:`.
pub(super) fn groups(library: &Library, options: &RuleOptions) -> Vec<RuleGroup> {
    let mut groups = Vec::new();
    let budgets: Vec<Budget<'_>> = library.promised.iter().flat_map(budgets).collect();
    for engine in library.engines.values() {
        let mut written = BTreeSet::new();
        let counted = budgets.iter().filter_map(|own| Some((own, own.counts(engine)?)));
        let own: Vec<_> = counted.filter(|(own, _)| written.insert((own.signal, own.promise.text()))).collect();
        if own.is_empty() {
            continue;
        }
        let mut group = RuleGroup::recording(&format!("budget.{}", engine.engine));
        for (own, RequestCounts { failures, requests }) in own {
            let slo = own.promise.text();
            let labels =
                [("engine", engine.engine.as_str()), (budget::SLI, budget::sli(own.signal)), (budget::SLO, &slo)];
            for (name, query) in BY_ENGINE.into_iter().zip([&requests, &failures]) {
                let rule = RecordingRule { signal: own.signal, each: AlertScope::Pool };
                record(&mut group.rules, name, &by_pool(library, engine, &rule, query, budget::STEP), &labels);
            }
        }
        groups.push(group);
    }
    let told = budgets.iter().filter(|own| library.engines.values().any(|engine| own.counts(engine).is_some()));
    let told: Vec<&Budget<'_>> = told.collect();
    if told.is_empty() {
        return groups;
    }
    let mut group = RuleGroup::alerting("budget");
    counts(&mut group.rules, &told, library);
    burn_rates(&mut group.rules);
    let signals: BTreeSet<&str> = told.iter().map(|own| own.signal).collect();
    for signal in signals {
        let Some(playbook) = library.symptom_of(signal) else { continue };
        for alert in ALERTS {
            burn_alert(signal, alert, options).write(&mut group.rules, &playbook.playbook, &options.runbook_base);
        }
    }
    groups.push(group);
    groups
}

/// The error budget of an indicator, for the pools of an entry.
struct Budget<'a> {
    promised: &'a PoolObjectives,
    signal: &'a str,
    promise: Promise,
}

/// Returns the error budgets of an entry.
fn budgets(promised: &PoolObjectives) -> impl Iterator<Item = Budget<'_>> {
    promised.library.signals.iter().filter_map(move |(signal, definition)| {
        let promise = promised.slo.promise(definition.burn.as_ref()?.term?)?;
        Some(Budget { promised, signal, promise })
    })
}

impl Budget<'_> {
    /// Returns the queries that an engine's requests are counted with.
    fn counts(&self, engine: &Engine) -> Option<RequestCounts> {
        let burn = self.promised.library.signals.get(self.signal)?.burn.as_ref()?;
        let query = engine.signals.get(&burn.of)?.query.as_deref().filter(|_| tells(engine, self.signal))?;
        burn.counts(query)
    }

    /// Returns the matchers of its series, in the pools of an entry.
    fn matchers(&self, promised: &PoolObjectives) -> String {
        let slo = self.promise.text();
        let own = [Matcher::one(budget::SLI, budget::sli(self.signal)), Matcher::one(budget::SLO, &slo)];
        matchers(&[&own[..], &pool_matchers(promised)].concat())
    }

    /// Builds the selector of its series, without the pools of exceptions.
    fn series(&self, from: &str, library: &Library) -> String {
        let mut series = format!("{from}{{{}}}", self.matchers(self.promised));
        for exception in library.promised.iter().filter(|other| other.slo.is_exception_of(&self.promised.slo)) {
            series.push_str(&format!("\n    unless {from}{{{}}}", self.matchers(exception)));
        }
        series
    }
}

/// Writes the series of all budgets, whichever engine tells them: one rule each, because Prometheus warns of rules of one
/// name.
fn counts(out: &mut String, budgets: &[&Budget<'_>], library: &Library) {
    let by: Vec<&str> = RECORDED_POOL.iter().map(|(_, label)| *label).chain([budget::SLI, budget::SLO]).collect();
    let by = by.join(", ");
    for (name, from) in [budget::REQUESTS, budget::VIOLATIONS].into_iter().zip(BY_ENGINE) {
        let series: Vec<String> = budgets.iter().map(|own| own.series(from, library)).collect();
        record(out, name, &format!("sum by ({by}) (\n  {}\n)", series.join("\n  or ")), &[]);
    }
    let allowed = budgets
        .iter()
        .map(|own| format!("0 * {}{{{}}} + {}", budget::REQUESTS, own.matchers(own.promised), own.promise.allowed()));
    record(out, budget::ALLOWED, &allowed.collect::<Vec<_>>().join("\nor "), &[]);
}

/// Writes the burn rates of all budgets: 1 spends a budget in exactly its time.
fn burn_rates(out: &mut String) {
    let (requests, violations) = (budget::REQUESTS, budget::VIOLATIONS);
    for (window, step) in WINDOWS {
        let over = |series: &str| match window {
            "5m" => series.to_owned(),
            _ => format!("sum_over_time({series}[{window}:{step}m])"),
        };
        let share = format!("{}\n/ ({} > 0)", over(violations), over(requests));
        let allowed = format!("last_over_time({}[1h])", budget::ALLOWED);
        record(out, &budget::burn_rate(window), &format!("{share}\n/ {allowed}"), &[]);
    }
}

fn burn_alert(
    signal: &str,
    (long, short, factor, severity): (&'static str, &str, f64, Severity),
    options: &RuleOptions,
) -> RuleText<'static> {
    let own = matchers(&[Matcher::one(budget::SLI, budget::sli(signal))]);
    let burns = |window: &str| format!("{}{{{own}}} > {factor}", budget::burn_rate(window));
    let step = WINDOWS.iter().find(|(window, _)| *window == long).map_or(1, |(_, step)| *step);
    // Each sample counts five minutes.
    let least = LEAST * 5 / step;
    let over = |series: &str| format!("{series}{{{own}}}[{long}:{step}m]");
    let enough = format!("sum_over_time({}) >= {least}", over(budget::VIOLATIONS));
    let short_minutes = humantime::parse_duration(short).unwrap_or_default().as_secs() / 60;
    // Of younger series both windows are the same.
    let old = format!("count_over_time({}) >= {}", over(budget::REQUESTS), short_minutes / u64::from(step));
    let burn = "{{ $value | printf \"%.1f\" }}";
    let often =
        if factor > 1.0 { format!("more than {factor} times as often as") } else { "more often than".to_owned() };
    RuleText {
        alert: "LLMErrorBudgetBurn",
        expr: format!("{}\nand {}\nand {enough}\nand {old}", burns(long), burns(short)),
        hold: options.hold,
        keeps_firing: true,
        severity,
        long_window: Some(long),
        summary: format!(": the error budget of \"{{{{ $labels.slo }}}}\" burns at {burn} times the allowed pace"),
        description: format!(
            "Promised: {{{{ $labels.slo }}}}. In the last {}, and still in the last {}, requests missed that {often} it \
             allows. At this pace an error budget of 30 days is spent within {:.0} days.",
            in_words(long),
            in_words(short),
            30.0 / factor
        ),
    }
}

/// Spells a window: `hour`, `5 minutes`.
fn in_words(window: &str) -> String {
    let (number, unit) = window.split_at(window.len() - 1);
    let unit = [("m", "minute"), ("h", "hour"), ("d", "day")].into_iter().find(|(short, _)| *short == unit);
    let unit = unit.map_or("", |(_, unit)| unit);
    if number == "1" { unit.to_owned() } else { format!("{number} {unit}s") }
}

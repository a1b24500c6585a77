//! The error budgets of `slo:` in `generate rules`: requests and violations by pool, burn rates, and alerts on them.
//!
//! Violations are counted by the smallest bucket bound that is not below the promised time, so between two bounds too
//! few are counted and never too many. Series and alerts have the labels `sli` and `slo`: the indicator, and the objective
//! as a text. Windows and factors: Google, The Site Reliability Workbook, chapter 5, table 5-8, for 30 days.

use std::collections::BTreeSet;

use super::recording::{RecordingRule, by_pool, record, tells};
use super::rule_options::{KEEP_FIRING_FOR, RuleOptions, held, pool_matchers};
use super::yaml::{RuleGroup, block, text};
use knowledge::playbook::{AlertScope, Library, PoolObjectives, Promise, Severity};
use knowledge::signal::{Engine, Matcher, RECORDED_POOL, RequestCounts, budget, matchers};

/// Windows of burn rates, each with the step at which samples are added up, in minutes: coarser where it costs much.
pub(super) const WINDOWS: [(&str, u32); 7] =
    [("5m", 5), ("30m", 1), ("1h", 1), ("2h", 1), ("6h", 1), ("1d", 5), ("3d", 5)];
/// Minimum violations in the long window: one bad request of a quiet pool is no burn.
const LEAST: u32 = 5;
/// The series of all pools, by engine, before each pool's objective is known.
const BY_ENGINE: [&str; 2] = ["llm:slo_requests:by_engine", "llm:slo_violations:by_engine"];

/// An alert: while both windows burn the budget faster than the factor.
struct BurnAlert {
    long: &'static str,
    short: &'static str,
    short_minutes: u32,
    factor: f64,
    severity: Severity,
    /// The windows in words.
    in_words: (&'static str, &'static str),
    /// The time in which all of the budget would be spent at this factor.
    spent_within: &'static str,
}

const ALERTS: [BurnAlert; 4] = [
    BurnAlert {
        long: "1h",
        short: "5m",
        short_minutes: 5,
        factor: 14.4,
        severity: Severity::Critical,
        in_words: ("hour", "5 minutes"),
        spent_within: "2 days",
    },
    BurnAlert {
        long: "6h",
        short: "30m",
        short_minutes: 30,
        factor: 6.0,
        severity: Severity::Critical,
        in_words: ("6 hours", "30 minutes"),
        spent_within: "5 days",
    },
    BurnAlert {
        long: "1d",
        short: "2h",
        short_minutes: 120,
        factor: 3.0,
        severity: Severity::Warning,
        in_words: ("day", "2 hours"),
        spent_within: "10 days",
    },
    BurnAlert {
        long: "3d",
        short: "6h",
        short_minutes: 360,
        factor: 1.0,
        severity: Severity::Warning,
        in_words: ("3 days", "6 hours"),
        spent_within: "30 days",
    },
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
        ALERTS.iter().for_each(|alert| alert.write(&mut group.rules, library, signal, options));
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

impl BurnAlert {
    fn write(&self, out: &mut String, library: &Library, signal: &str, options: &RuleOptions) {
        let Self { long, short, factor, severity, in_words: (long_text, short_text), spent_within, .. } = self;
        let Some(playbook) = library.symptom_of(signal) else { return };
        let own = matchers(&[Matcher::one(budget::SLI, budget::sli(signal))]);
        let burns = |window: &str| format!("{}{{{own}}} > {factor}", budget::burn_rate(window));
        let step = WINDOWS.iter().find(|(window, _)| window == long).map_or(1, |(_, step)| *step);
        // Each sample counts five minutes.
        let least = LEAST * 5 / step;
        let over = |series: &str| format!("{series}{{{own}}}[{long}:{step}m]");
        let enough = format!("sum_over_time({}) >= {least}", over(budget::VIOLATIONS));
        // Of younger series both windows are the same.
        let old = format!("count_over_time({}) >= {}", over(budget::REQUESTS), self.short_minutes / step);
        out.push_str("      - alert: LLMErrorBudgetBurn\n");
        block(out, 8, "expr", &format!("{}\nand {}\nand {enough}\nand {old}", burns(long), burns(short)));
        if let Some(hold) = options.hold {
            out.push_str(&format!("        for: {}\n", held(hold)));
        }
        out.push_str(&format!("        keep_firing_for: {KEEP_FIRING_FOR}\n        labels:\n"));
        text(out, 10, "severity", &severity.to_string());
        text(out, 10, "playbook", &playbook.playbook);
        text(out, 10, "long_window", long);
        out.push_str("        annotations:\n");
        let whom = "{{ with $labels.namespace }}{{ . }}{{ end }}{{ with $labels.model_name }}/{{ . }}{{ end }}";
        let burn = "{{ $value | printf \"%.1f\" }}";
        text(
            out,
            10,
            "summary",
            &format!("{whom}: the error budget of \"{{{{ $labels.slo }}}}\" burns at {burn} times the allowed pace"),
        );
        let often =
            if *factor > 1.0 { format!("more than {factor} times as often as") } else { "more often than".to_owned() };
        let description = format!(
            "Promised: {{{{ $labels.slo }}}}. In the last {long_text}, and still in the last {short_text}, requests missed that \
             {often} it allows. At this pace an error budget of 30 days is spent within {spent_within}. Causes and steps: `llm-diagnose explain {}`.",
            playbook.playbook
        );
        text(out, 10, "description", &description);
        let base = options.runbook_base.trim_end_matches('/');
        text(out, 10, "runbook_url", &format!("{base}/{}.md", playbook.playbook));
    }
}

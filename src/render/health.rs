//! Fleet health ─▶ terminal: one screen of at most 100 columns, aligned, readable without colour.

use anstyle::{AnsiColor, Style};

use super::text::clean;
use crate::alert::Labels;
use crate::diagnose::EngineFound;
use crate::health::{Answer, Check, Coverage, Eyes, Health, Pool, SignalCoverage, State, Threshold};
use crate::playbook::{Condition, Reference, Severity};
use crate::signal::{Unit, format_value};

/// The widest line.
const COLUMNS: usize = 100;
/// The headings' column.
const HEADING: usize = 10;
/// The signals' titles; longer ones go on below.
const TITLE: usize = 31;
/// Where titles begin: indent, heading, state, and the gaps between.
const BEFORE: usize = 2 + HEADING + 1 + 4 + 1;
/// Of several pools, how many have more than a line.
const SCREENFUL: usize = 5;
/// Signals that are named together.
const FEW: usize = 3;

/// The whole look as terminal text with ANSI styles; `anstream` strips them where they do not belong.
///
/// A pool alone is shown whole; of several, what is wrong, and what cannot be seen once for all.
pub fn health(health: &Health) -> String {
    let tone = style(health.state);
    let mut out = format!("{tone}▌ {}{tone:#}\n", clean(&headline(health)));
    for line in health.notes.iter().chain(&health.problems) {
        wrap(&clean(line), COLUMNS - 2).iter().for_each(|line| out.push_str(&format!("  {line}\n")));
    }
    let mut pools: Vec<&Pool> = health.pools.iter().collect();
    pools.sort_by_key(|pool| match pool.state {
        State::Critical => 0,
        State::Warning => 1,
        State::Unknown => 2,
        State::Healthy => 3,
    });
    let alone = pools.len() == 1;
    let brief = pools.len() > SCREENFUL;
    let mut sick = 0;
    let mut line = false;
    for pool in &pools {
        let wrong = matches!(pool.state, State::Critical | State::Warning);
        let in_short = !(alone || wrong && sick < SCREENFUL);
        sick += usize::from(wrong);
        // Single lines stand together.
        if !(line && in_short) {
            out.push('\n');
        }
        line = in_short;
        if in_short { self::in_short(&mut out, pool, brief) } else { whole(&mut out, pool, alone) }
    }
    if !alone {
        unseen(&mut out, &pools);
    }
    if health.left_out > 0 {
        let text = format!("{} more pools were left out: narrow with --scope namespace=…,model=…", health.left_out);
        out.push_str(&format!("\n{text}\n"));
    }
    if !pools.is_empty() {
        out.push_str(&foot(&pools));
    }
    out
}

fn word(state: State) -> &'static str {
    match state {
        State::Healthy => "healthy",
        State::Warning => "WARNING",
        State::Critical => "CRITICAL",
        State::Unknown => "unknown",
    }
}

fn style(state: State) -> Style {
    let colour = match state {
        State::Healthy => AnsiColor::Green,
        State::Warning => AnsiColor::Yellow,
        State::Critical => AnsiColor::Red,
        State::Unknown => AnsiColor::BrightBlack,
    };
    Style::new().bold().fg_color(Some(colour.into()))
}

/// `CRITICAL · 3 pools: 1 critical, 2 healthy · 2026-11-20 22:48:55 UTC`.
fn headline(health: &Health) -> String {
    let count = |state: State| health.pools.iter().filter(|pool| pool.state == state).count();
    let pools = match health.pools.len() {
        0 => "no pool".to_owned(),
        1 => "1 pool".to_owned(),
        n => {
            let states = [State::Critical, State::Warning, State::Unknown, State::Healthy];
            let counted = states.map(|state| (count(state), word(state).to_lowercase()));
            let said: Vec<String> =
                counted.into_iter().filter(|(n, _)| *n > 0).map(|(n, word)| format!("{n} {word}")).collect();
            format!("{n} pools: {}", said.join(", "))
        }
    };
    format!("{} · {pools} · {}", word(health.state), health.at.strftime("%Y-%m-%d %H:%M:%S UTC"))
}

fn name(labels: &Labels) -> String {
    let named: Vec<&str> =
        ["cluster", "namespace", "model"].iter().filter_map(|d| labels.get(*d)).map(String::as_str).collect();
    if named.is_empty() { "pool without labels".to_owned() } else { named.join(" / ") }
}

fn replicas(pool: &Pool) -> String {
    match pool.replicas {
        0 => "no replica for an hour".to_owned(),
        1 => "1 replica".to_owned(),
        n => format!("{n} replicas"),
    }
}

/// The pool's name in its tone, then what follows, both kept to the width.
fn title(out: &mut String, pool: &Pool, rest: &str) {
    let tone = style(pool.state);
    let line = format!("{:<9} {}", word(pool.state), clean(&name(&pool.labels)));
    let gap = " ".repeat(BEFORE - 8);
    match line.chars().count() + rest.chars().count() + 3 <= COLUMNS {
        true => out.push_str(&format!("{tone}{line}{tone:#} · {rest}\n")),
        false => {
            out.push_str(&format!("{tone}{line}{tone:#}\n"));
            wrap(rest, COLUMNS - gap.len()).iter().for_each(|line| out.push_str(&format!("{gap}{line}\n")));
        }
    }
}

fn whole(out: &mut String, pool: &Pool, all: bool) {
    let engines: Vec<String> = pool.engines.iter().map(engine).collect();
    title(out, pool, &format!("{} · {}", replicas(pool), engines.join(", ")));
    let shown: Vec<&Check> = pool
        .checks
        .iter()
        // What an exporter would bring stands under coverage, each by its name.
        .filter(|check| match check.state {
            Some(State::Warning | State::Critical) => true,
            _ => all && (check.value.is_some() || check.enable.is_none() || pool.idle),
        })
        .collect();
    if !shown.is_empty() {
        let dim = Style::new().dimmed();
        let head = row(["", "", "", "now", "warning", "critical", "playbook"]);
        out.push_str(&format!("{dim}{head}{dim:#}\n"));
    }
    let mut heading = "";
    for check in shown {
        let repeated = heading == check.heading;
        heading = &check.heading;
        lines(out, pool, check, if repeated { "" } else { heading });
    }
    if all {
        seen(out, pool);
    }
    next(out, pool);
}

/// A line of the table: heading, state, title, value, warning, critical, playbook; a long id stands below.
fn row(cells: [&str; 7]) -> String {
    let [heading, state, title, value, warning, critical, playbook] = cells;
    // A long value takes of its title's room.
    let room = (TITLE + 11).saturating_sub(title.chars().count());
    let line =
        format!("  {heading:<HEADING$} {state:<4} {title}{value:>room$}  {warning:>8}  {critical:>8} {playbook}");
    if line.trim_end().chars().count() <= COLUMNS {
        return line.trim_end().to_owned();
    }
    // An id is there to be copied, so it goes below whole.
    format!("{}\n{playbook:>COLUMNS$}", line.trim_end_matches(playbook).trim_end())
}

fn lines(out: &mut String, pool: &Pool, check: &Check, heading: &str) {
    let state = match check.state {
        Some(State::Healthy) => "ok",
        Some(State::Warning) => "WARN",
        Some(State::Critical) => "CRIT",
        Some(State::Unknown) if !pool.idle => "?",
        Some(State::Unknown) | None => "",
    };
    let value = match check.value {
        Some(value) => format_value(value, check.unit),
        None if pool.idle => "–".to_owned(),
        None => "no data".to_owned(),
    };
    let limit = |severity: Severity| {
        let of = check.thresholds.iter().find(|t| t.severity == severity);
        of.map(|t| said(&t.when, check.unit)).unwrap_or_default()
    };
    let titles = wrap(&clean(&check.title), TITLE);
    let playbook = match (check.playbook.as_deref(), check.thresholds.first()) {
        (Some(id), Some(threshold)) if threshold.source.starts_with("alert ") => id.to_owned(),
        (Some(id), Some(_)) => format!("{id}*"),
        _ => String::new(),
    };
    let first = titles.first().map_or("", String::as_str);
    let line = row([heading, state, first, &value, &limit(Severity::Warning), &limit(Severity::Critical), &playbook]);
    match check.state {
        Some(state @ (State::Warning | State::Critical)) => {
            let tone = style(state);
            out.push_str(&format!("{tone}{line}{tone:#}\n"));
        }
        _ => out.push_str(&format!("{line}\n")),
    }
    let gap = " ".repeat(BEFORE);
    for more in titles.iter().skip(1).chain(&wrap(&company(check), COLUMNS - BEFORE)) {
        out.push_str(&format!("{gap}{more}\n"));
    }
}

/// What else must hold, where the check's own number is beyond its limit already.
fn company(check: &Check) -> String {
    let beyond = |threshold: &&Threshold| {
        let condition: Option<Condition> = threshold.when.parse().ok();
        condition.is_some_and(|when| {
            when.comparisons().iter().all(|c| match (c.to, check.value) {
                (Reference::Number(limit), Some(value)) => c.op.holds(value, limit),
                _ => false,
            })
        })
    };
    let Some(threshold) = check.thresholds.iter().rev().find(beyond) else { return String::new() };
    let mut groups: Vec<(usize, Vec<String>)> = Vec::new();
    for with in &threshold.with {
        let told = format!("{} {}", clean(&with.title), said(&with.when, with.unit));
        match groups.last_mut() {
            Some((group, list)) if *group == with.group => list.push(told),
            _ => groups.push((with.group, vec![told])),
        }
    }
    let all: Vec<String> = groups.into_iter().map(|(_, list)| list.join(" or ")).collect();
    if all.is_empty() { String::new() } else { format!("counts together with {}", all.join(" and ")) }
}

/// A condition in its signal's unit: `> 95 %`.
fn said(when: &str, unit: Unit) -> String {
    let Ok(condition) = when.parse::<Condition>() else { return when.to_owned() };
    let parts: Vec<String> = condition
        .comparisons()
        .iter()
        .map(|c| match c.to {
            Reference::Number(limit) => format!("{} {}", c.op.symbol(), format_value(limit, unit)),
            Reference::Baseline(_) | Reference::Peers(_) => c.to_string(),
        })
        .collect();
    parts.join(" and ")
}

/// How much is seen, and for what is not: why, and the line that changes it.
fn seen(out: &mut String, pool: &Pool) {
    let gap = " ".repeat(BEFORE - 5);
    let counted = pool.coverage;
    let idle = if pool.idle { "; nothing is asked of it now, so latencies and shares have no value" } else { "" };
    let text = format!("{} of {} checks have data{idle}", counted.with_data, counted.of);
    for (i, line) in wrap(&text, COLUMNS - 2 - HEADING - 1).iter().enumerate() {
        out.push_str(&format!("  {:<HEADING$} {line}\n", if i == 0 { "coverage" } else { "" }));
    }
    let missing = pool.checks.iter().filter(|c| is_missing(pool, c));
    let missing = missing.map(|c| (c.title.as_str(), c.why.as_deref().unwrap_or_default(), c.enable.as_deref()));
    gaps(out, &gap, "?", usize::MAX, missing);
}

/// Whether a check lacks data that something would bring; of an idle pool what was asked has its reason.
fn is_missing(pool: &Pool, check: &Check) -> bool {
    check.value.is_none() && !(pool.idle && (check.enable.is_none() || check.query.is_some()))
}

/// What cannot be seen of several pools.
fn unseen(out: &mut String, pools: &[&Pool]) {
    let mut missing: Vec<(&str, &str, Option<&str>)> = Vec::new();
    for pool in pools {
        for check in pool.checks.iter().filter(|c| is_missing(pool, c)) {
            let gap = (check.title.as_str(), check.why.as_deref().unwrap_or_default(), check.enable.as_deref());
            if !missing.contains(&gap) {
                missing.push(gap);
            }
        }
    }
    if !missing.is_empty() {
        let bold = Style::new().bold();
        out.push_str(&format!("\n{bold}What cannot be seen of some pools{bold:#}\n"));
        gaps(out, "  ", "?", FEW, missing.into_iter());
    }
}

/// What has no data, with what brings it; what shares both is named together.
fn gaps<'a>(
    out: &mut String,
    gap: &str,
    mark: &str,
    most: usize,
    missing: impl Iterator<Item = (&'a str, &'a str, Option<&'a str>)>,
) {
    let mut grouped: Vec<(&str, Option<&str>, Vec<&str>)> = Vec::new();
    for (title, why, enable) in missing {
        match grouped.iter_mut().find(|(w, e, _)| *w == why && *e == enable) {
            Some((_, _, titles)) => titles.push(title),
            None => grouped.push((why, enable, vec![title])),
        }
    }
    for (why, enable, titles) in grouped {
        hang(out, gap, &format!("{mark} "), &format!("{}: {why}", few(&titles, most)));
        if let Some(enable) = enable {
            hang(out, gap, "  → ", enable);
        }
    }
}

fn few(names: &[&str], most: usize) -> String {
    let named = names.iter().take(most).copied().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(most) {
        0 => named,
        n => format!("{named} and {n} more"),
    }
}

/// What a Prometheus lets the playbooks see, as terminal text.
pub fn coverage(coverage: &Coverage) -> String {
    let bold = Style::new().bold();
    let mut out = String::new();
    let of = |answer: Answer| coverage.signals.iter().filter(move |s| s.answer == answer);
    let count = |answer: Answer| of(answer).count();
    let engines: Vec<String> = coverage.engines.iter().map(engine).collect();
    let found = if engines.is_empty() { "no engine and no exporter found".to_owned() } else { engines.join(", ") };
    out.push_str(&format!("\n{bold}Signals in Prometheus `{}`{bold:#}\n", clean(&coverage.prometheus)));
    let text = format!(
        "{found}; {} of {} signals answer, {} tell of features that are not in use, {} are missing",
        count(Answer::Answers),
        coverage.signals.len(),
        count(Answer::Unused),
        count(Answer::Missing),
    );
    hang(&mut out, "  ", "", &text);
    fn shown(s: &SignalCoverage) -> (&str, &str, Option<&str>) {
        (&s.title, s.why.as_deref().unwrap_or_default(), s.enable.as_deref())
    }
    gaps(&mut out, "  ", "?", FEW, of(Answer::Missing).map(shown));
    gaps(&mut out, "  ", "–", FEW, of(Answer::Unused).map(shown).map(|(title, why, _)| (title, why, None)));
    coverage.problems.iter().for_each(|problem| hang(&mut out, "  ", "! ", problem));
    if !coverage.playbooks.is_empty() {
        out.push_str(&format!("\n{bold}Playbooks that do not see everything{bold:#}\n"));
    }
    let title = |name: &String| coverage.signals.iter().find(|s| s.signal == *name).map_or("", |s| s.title.as_str());
    for sight in &coverage.playbooks {
        let eyes = match sight.eyes {
            Eyes::Blind => "blind",
            Eyes::HalfBlind => "half-blind",
        };
        let missing: Vec<&str> = sight.missing.iter().map(title).collect();
        let mark = format!("{eyes:<HEADING$} {:<26} ", clean(&sight.playbook));
        hang(&mut out, "  ", &mark, &format!("lacks {}", few(&missing, FEW)));
    }
    out
}

fn engine(engine: &EngineFound) -> String {
    engine.at_least.as_ref().map_or_else(|| engine.engine.clone(), |version| format!("{} ≥ {version}", engine.engine))
}

/// A text behind a mark, its further lines below its first.
fn hang(out: &mut String, gap: &str, mark: &str, text: &str) {
    let width = mark.chars().count();
    for (i, line) in wrap(&clean(text), COLUMNS - gap.len() - width).iter().enumerate() {
        let before = if i == 0 { mark.to_owned() } else { " ".repeat(width) };
        out.push_str(&format!("{gap}{before}{line}\n"));
    }
}

/// The command that goes on from the worst check.
fn next(out: &mut String, pool: &Pool) {
    let worst = |state: State| pool.checks.iter().find(|check| check.state == Some(state));
    let Some(check) = worst(State::Critical).or_else(|| worst(State::Warning)) else { return };
    let Some(playbook) = &check.playbook else { return };
    let labels: String = pool.labels.iter().map(|(n, v)| format!(" --label={}", quoted(&format!("{n}={v}")))).collect();
    let command = format!("llm-diagnose diagnose --playbook {playbook}{labels}");
    let lines = wrap(&clean(&command), COLUMNS - BEFORE);
    for (i, line) in lines.iter().enumerate() {
        let (heading, end) = (if i == 0 { "next" } else { "" }, if i + 1 < lines.len() { " \\" } else { "" });
        let indent = if i == 0 { "" } else { "  " };
        out.push_str(&format!("  {heading:<HEADING$} {indent}{line}{end}\n"));
    }
}

/// As a shell takes it for one word.
fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "=._/:-".contains(c);
    if text.chars().all(plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

/// A pool among several: its name and, unless there are many, the first number of each heading.
fn in_short(out: &mut String, pool: &Pool, brief: bool) {
    let seen = pool.coverage;
    title(out, pool, &format!("{} · {} of {} checks have data", replicas(pool), seen.with_data, seen.of));
    if brief {
        return;
    }
    let mut heading = "";
    let mut numbers = Vec::new();
    for check in pool.checks.iter().filter(|check| check.value.is_some()) {
        if heading != check.heading {
            heading = &check.heading;
            let value = check.value.map(|value| format_value(value, check.unit)).unwrap_or_default();
            numbers.push(format!("{} {value}", clean(&check.title)));
        }
    }
    let gap = " ".repeat(BEFORE - 8);
    let dim = Style::new().dimmed();
    for line in wrap(&numbers.join(" · "), COLUMNS - gap.len()) {
        out.push_str(&format!("{gap}{dim}{line}{dim:#}\n"));
    }
}

fn foot(pools: &[&Pool]) -> String {
    let dim = Style::new().dimmed();
    let mut checks = pools.iter().flat_map(|pool| &pool.checks).flat_map(|check| &check.thresholds);
    let borrowed = checks.any(|threshold| !threshold.source.starts_with("alert "));
    let star = if borrowed { "; *: of the playbook's symptom, without an alert" } else { "" };
    let text = format!("Thresholds: the alert rules of the playbooks, which fire when one holds for minutes{star}");
    format!("\n{dim}{}{dim:#}\n", wrap(&text, COLUMNS).join("\n"))
}

/// Lines of at most `width` characters, broken between words; a longer word has a line of its own.
pub(super) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

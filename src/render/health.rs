//! Fleet health ─▶ terminal: one screen of at most 100 columns, aligned, readable without colour.

use std::cmp::Reverse;

use anstyle::Style;

use super::Phrases;
use super::facts::{FEW, group_by_key, join_limited, joined};
use super::text::{clean, tone_style, wrap};
use findings::health::{Health, HealthCheck, HealthState, PoolHealth, Threshold};
use findings::{EngineFound, Outcome};
use knowledge::playbook::{Condition, Reference, Severity, condition_text};
use knowledge::signal::format_value;
use message::Tone;

/// Maximum width of a line.
const COLUMNS: usize = 100;
/// Width of the column of headings.
pub(super) const HEADING: usize = 10;
/// Width of the column of titles; longer titles wrap.
const TITLE: usize = 31;
/// Width of the columns before the titles: indent, heading, state, and the gaps between them.
const BEFORE: usize = 2 + HEADING + 1 + 4 + 1;
/// Maximum number of pools with details, if there are several.
const SCREENFUL: usize = 5;

/// Renders fleet health as terminal text with ANSI styles; `anstream` strips them where they are not supported.
///
/// A single pool is shown completely. Of several pools, the problems are shown per pool and missing data once for all.
/// `flags` are the flags, by name, that the suggested next command needs too.
pub fn health(health: &Health, flags: &[(&str, String)], words: &Phrases) -> String {
    let tone = style(health.state);
    let mut out = format!("{tone}▌ {}{tone:#}\n", clean(&headline(health, words)));
    for line in health.problems.iter().chain(&health.notes) {
        wrap(&clean(line), COLUMNS - 2).iter().for_each(|line| out.push_str(&format!("  {line}\n")));
    }
    let pools = worst_first(health);
    let alone = pools.len() == 1;
    let brief = pools.len() > SCREENFUL;
    let mut sick = 0;
    let mut line = false;
    for pool in &pools {
        let wrong = pool.state.is_wrong();
        let in_short = !(alone || wrong && sick < SCREENFUL);
        sick += usize::from(wrong);
        // No blank line between two pools of one line each.
        if !(line && in_short) {
            out.push('\n');
        }
        line = in_short;
        if in_short {
            self::in_short(&mut out, &name(health, pool, words), pool, brief, words);
        } else {
            whole(&mut out, &name(health, pool, words), pool, alone, words);
            next(&mut out, pool, flags, words);
        }
    }
    if !alone {
        unseen(&mut out, &pools, words);
    }
    if health.left_out > 0 {
        let text = words.text("health-left-out", &[("n", health.left_out.into())]);
        out.push_str(&format!("\n{text}\n"));
    }
    if !pools.is_empty() {
        out.push_str(&foot(&pools, words));
    }
    out
}

/// Returns the pools, those that need attention first.
pub(super) fn worst_first(health: &Health) -> Vec<&PoolHealth> {
    let mut pools: Vec<&PoolHealth> = health.pools.iter().collect();
    pools.sort_by_key(|pool| Reverse(pool.state.weight()));
    pools
}

/// Returns the word for a state.
pub(super) fn word(state: HealthState, words: &Phrases) -> String {
    let key = match state {
        HealthState::Healthy => "health-healthy",
        HealthState::Warning => "health-warning",
        HealthState::Critical => "health-critical",
        HealthState::Unknown => "health-unknown",
    };
    words.text(key, &[])
}

/// Returns the tone of a state.
pub(super) fn tone(state: HealthState) -> Tone {
    match state {
        HealthState::Healthy => Tone::Good,
        HealthState::Warning => Tone::Warning,
        HealthState::Critical => Tone::Critical,
        HealthState::Unknown => Tone::Unknown,
    }
}

fn style(state: HealthState) -> Style {
    tone_style(tone(state))
}

/// The first line: `CRITICAL · 3 pools: 1 critical, 2 healthy · 2026-11-20 22:48:55 UTC`.
fn headline(health: &Health, words: &Phrases) -> String {
    let count = |state: HealthState| health.pools.iter().filter(|pool| pool.state == state).count();
    let pools = match health.pools.len() {
        0 => words.text("health-no-pool", &[]),
        1 => words.text("health-one-pool", &[]),
        n => {
            let states = [HealthState::Critical, HealthState::Warning, HealthState::Unknown, HealthState::Healthy];
            let counted = states.map(|state| (count(state), word(state, words).to_lowercase()));
            let states: Vec<String> =
                counted.into_iter().filter(|(n, _)| *n > 0).map(|(n, word)| format!("{n} {word}")).collect();
            words.text("health-pools", &[("n", n.into()), ("states", states.join(", ").into())])
        }
    };
    format!("{} · {pools} · {}", word(health.state, words), health.at.strftime("%Y-%m-%d %H:%M:%S UTC"))
}

fn name(health: &Health, pool: &PoolHealth, words: &Phrases) -> String {
    let named: Vec<&str> =
        ["cluster", "namespace", "model"].iter().filter_map(|d| pool.labels.get(*d)).map(String::as_str).collect();
    with_server(named.join(" / "), health, pool, words)
}

/// Returns the name of a pool, with its Prometheus where a pool of another one has the same labels.
pub fn with_server(name: String, health: &Health, pool: &PoolHealth, words: &Phrases) -> String {
    let name = if name.is_empty() { words.text("health-no-name", &[]) } else { name };
    match health.distinguishing_server(pool) {
        Some(server) => words.text("health-of-server", &[("pool", name.into()), ("server", server.into())]),
        None => name,
    }
}

fn replicas(pool: &PoolHealth, words: &Phrases) -> String {
    words.text("health-replicas", &[("n", pool.replicas.into())])
}

/// Writes the pool's name in the colour of its state, then `rest`, within the width.
fn title(out: &mut String, name: &str, pool: &PoolHealth, rest: &str, words: &Phrases) {
    let tone = style(pool.state);
    let line = format!("{:<9} {}", word(pool.state, words), clean(name));
    let gap = " ".repeat(BEFORE - 8);
    match line.chars().count() + rest.chars().count() + 3 <= COLUMNS {
        true => out.push_str(&format!("{tone}{line}{tone:#} · {rest}\n")),
        false => {
            out.push_str(&format!("{tone}{line}{tone:#}\n"));
            wrap(rest, COLUMNS - gap.len()).iter().for_each(|line| out.push_str(&format!("{gap}{line}\n")));
        }
    }
}

fn whole(out: &mut String, name: &str, pool: &PoolHealth, all: bool, words: &Phrases) {
    let engines: Vec<String> = pool.engines.iter().map(engine).collect();
    let about = [replicas(pool, words), engines.join(", "), pool.kinds.join(", ")];
    let about: Vec<String> = about.into_iter().filter(|text| !text.is_empty()).collect();
    title(out, name, pool, &about.join(" · "), words);
    let shown: Vec<&HealthCheck> = pool
        .checks
        .iter()
        // Signals that a missing exporter would bring are named under coverage.
        .filter(|check| match check.state {
            Some(state) if state.is_wrong() => true,
            _ => all && (check.value.is_some() || check.enable.is_none() || pool.idle),
        })
        .collect();
    if !shown.is_empty() {
        let dim = Style::new().dimmed();
        let keys = ["health-column-now", "health-column-warning", "health-column-critical", "health-column-playbook"];
        let [now, warning, critical, playbook] = keys.map(|key| words.text(key, &[]));
        let head = row(["", "", "", &now, &warning, &critical, &playbook]);
        out.push_str(&format!("{dim}{head}{dim:#}\n"));
    }
    let mut heading = "";
    for check in shown {
        let repeated = heading == check.heading;
        heading = &check.heading;
        lines(out, pool, check, if repeated { "" } else { heading }, words);
    }
    if all {
        write_coverage(out, pool, words);
    }
}

/// Renders a row of the table: heading, state, title, value, warning, critical, playbook; a long id goes to its own
/// line.
fn row(cells: [&str; 7]) -> String {
    let [heading, state, title, value, warning, critical, playbook] = cells;
    // A long value uses space of its title.
    let room = (TITLE + 11).saturating_sub(title.chars().count());
    let line =
        format!("  {heading:<HEADING$} {state:<4} {title}{value:>room$}  {warning:>8}  {critical:>8} {playbook}");
    if line.trim_end().chars().count() <= COLUMNS {
        return line.trim_end().to_owned();
    }
    // An id must be complete to be copied.
    format!("{}\n{playbook:>COLUMNS$}", line.trim_end_matches(playbook).trim_end())
}

fn lines(out: &mut String, pool: &PoolHealth, check: &HealthCheck, heading: &str, words: &Phrases) {
    let state = match check.state {
        Some(HealthState::Healthy) => words.text("health-ok", &[]),
        Some(HealthState::Warning) => words.text("health-warn", &[]),
        Some(HealthState::Critical) => words.text("health-crit", &[]),
        Some(HealthState::Unknown) if !pool.idle => "?".to_owned(),
        Some(HealthState::Unknown) | None => String::new(),
    };
    let value = match check.value {
        Some(value) => format_value(value, check.unit),
        None if pool.idle => "–".to_owned(),
        None => words.text("health-no-data", &[]),
    };
    let limit = |severity: Severity| {
        let of = check.thresholds.iter().find(|t| t.severity == severity);
        of.map(|t| condition_text(&t.when, check.unit)).unwrap_or_default()
    };
    let titles = wrap(&clean(&check.title), TITLE);
    let playbook = match (check.playbook.as_deref(), check.thresholds.first()) {
        (Some(id), Some(threshold)) if threshold.source.starts_with("alert ") => id.to_owned(),
        (Some(id), Some(_)) => format!("{id}*"),
        _ => String::new(),
    };
    let first = titles.first().map_or("", String::as_str);
    let line = row([heading, &state, first, &value, &limit(Severity::Warning), &limit(Severity::Critical), &playbook]);
    match check.state {
        Some(state) if state.is_wrong() => {
            let tone = style(state);
            out.push_str(&format!("{tone}{line}{tone:#}\n"));
        }
        _ => out.push_str(&format!("{line}\n")),
    }
    let gap = " ".repeat(BEFORE);
    for more in titles.iter().skip(1).chain(&wrap(&company(check, words), COLUMNS - BEFORE)) {
        out.push_str(&format!("{gap}{more}\n"));
    }
}

/// Returns the further conditions of a threshold that the check's own value exceeds and that does not hold for want of
/// them.
fn company(check: &HealthCheck, words: &Phrases) -> String {
    let beyond = |threshold: &&Threshold| {
        let condition: Option<Condition> = threshold.when.parse().ok();
        condition.is_some_and(|when| {
            when.comparisons().iter().all(|c| match (c.to, check.value) {
                (Reference::Number(limit), Some(value)) => c.op.holds(value, limit),
                _ => false,
            })
        })
    };
    let beyond = check.thresholds.iter().rev().find(beyond);
    let Some(threshold) = beyond.filter(|threshold| threshold.outcome != Outcome::Met) else { return String::new() };
    let mut groups: Vec<(usize, Vec<String>)> = Vec::new();
    // A threshold for pools of which nothing else is known needs no list of it.
    for with in threshold.with.iter().filter(|with| with.when != Condition::NoData.to_string()) {
        let condition = format!("{} {}", clean(&with.title), condition_text(&with.when, with.unit));
        match groups.last_mut() {
            Some((group, list)) if *group == with.group => list.push(condition),
            _ => groups.push((with.group, vec![condition])),
        }
    }
    // The screen has a line for them: of many alternatives the first stands for all.
    let either = |mut list: Vec<String>| match list.len() {
        0..=2 => joined("health-or", list, words),
        n => words.text("health-or-more", &[("first", list.swap_remove(0).into()), ("n", (n - 1).into())]),
    };
    let all = groups.into_iter().map(|(_, list)| either(list)).collect();
    match joined("health-and", all, words) {
        all if all.is_empty() => all,
        all => words.text("health-together", &[("all", all.into())]),
    }
}

/// Writes the coverage of a pool: the number of checks with data, and for the others the reason and the setting that
/// enables them.
fn write_coverage(out: &mut String, pool: &PoolHealth, words: &Phrases) {
    let gap = " ".repeat(BEFORE - 5);
    let counted = pool.coverage;
    let counts = [("n", counted.with_data.into()), ("of", counted.of.into())];
    let text = words.text(if pool.idle { "health-have-data-idle" } else { "health-have-data" }, &counts);
    let heading = words.text("health-coverage", &[]);
    for (i, line) in wrap(&text, COLUMNS - 2 - HEADING - 1).iter().enumerate() {
        out.push_str(&format!("  {:<HEADING$} {line}\n", if i == 0 { heading.as_str() } else { "" }));
    }
    let missing = pool.checks.iter().filter(|c| is_missing(pool, c));
    let missing = missing.map(|c| (c.title.as_str(), c.why.as_deref().unwrap_or_default(), c.enable.as_deref()));
    gaps(out, &gap, "?", usize::MAX, missing, words);
}

/// Returns true if a check lacks data that a change of the setup would bring; in an idle pool, a query without data is
/// normal.
fn is_missing(pool: &PoolHealth, check: &HealthCheck) -> bool {
    check.value.is_none() && !(pool.idle && (check.enable.is_none() || check.query.is_some()))
}

/// Writes the missing data of several pools.
fn unseen(out: &mut String, pools: &[&PoolHealth], words: &Phrases) {
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
        out.push_str(&format!("\n{bold}{}{bold:#}\n", words.text("health-unseen", &[])));
        gaps(out, "  ", "?", FEW, missing.into_iter(), words);
    }
}

/// Writes signals without data, with the reason and the setting that enables them; signals that share both are named
/// together.
pub(super) fn gaps<'a>(
    out: &mut String,
    gap: &str,
    mark: &str,
    most: usize,
    missing: impl Iterator<Item = (&'a str, &'a str, Option<&'a str>)>,
    words: &Phrases,
) {
    for ((why, enable), titles) in group_by_key(missing.map(|(title, why, enable)| ((why, enable), title))) {
        hang(out, gap, &format!("{mark} "), &format!("{}: {}", join_limited(&titles, most, ", ", words), why));
        if let Some(enable) = enable {
            hang(out, gap, "  → ", enable);
        }
    }
}

pub(super) fn engine(engine: &EngineFound) -> String {
    engine.at_least.as_ref().map_or_else(|| engine.engine.clone(), |version| format!("{} ≥ {version}", engine.engine))
}

/// Writes a text behind a mark, with a hanging indent.
pub(super) fn hang(out: &mut String, gap: &str, mark: &str, text: &str) {
    let width = mark.chars().count();
    for (i, line) in wrap(&clean(text), COLUMNS - gap.len() - width).iter().enumerate() {
        let before = if i == 0 { mark.to_owned() } else { " ".repeat(width) };
        out.push_str(&format!("{gap}{before}{line}\n"));
    }
}

/// Writes the command that diagnoses the worst check.
fn next(out: &mut String, pool: &PoolHealth, flags: &[(&str, String)], words: &Phrases) {
    let worst = |state: HealthState| pool.checks.iter().find(|check| check.state == Some(state));
    let Some(check) = worst(HealthState::Critical).or_else(|| worst(HealthState::Warning)) else { return };
    let Some(playbook) = &check.playbook else { return };
    let labels = pool.labels.iter().map(|(name, value)| ("label", format!("{name}={value}")));
    let kept = flags.iter().filter(|(name, value)| *name != "label" || !known(pool, value)).cloned();
    let flags: String = labels.chain(kept).map(|(name, value)| format!(" --{name}={}", quoted(&value))).collect();
    let command = format!("llm-diagnose diagnose --playbook {playbook}{flags}");
    let lines = wrap(&clean(&command), COLUMNS - BEFORE);
    let next = words.text("health-next", &[]);
    for (i, line) in lines.iter().enumerate() {
        let (heading, end) = (if i == 0 { next.as_str() } else { "" }, if i + 1 < lines.len() { " \\" } else { "" });
        let indent = if i == 0 { "" } else { "  " };
        out.push_str(&format!("  {heading:<HEADING$} {indent}{line}{end}\n"));
    }
}

/// Returns true if the pool's labels already contain the name of this `name=value`.
fn known(pool: &PoolHealth, label: &str) -> bool {
    label.split_once('=').is_some_and(|(name, _)| pool.labels.contains_key(name))
}

/// Quotes a text as one word for a shell.
fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "=._/:-".contains(c);
    if text.chars().all(plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

/// Writes a pool in short: its name and, unless there are many pools, the first value of each heading.
fn in_short(out: &mut String, name: &str, pool: &PoolHealth, brief: bool, words: &Phrases) {
    let counts = [("n", pool.coverage.with_data.into()), ("of", pool.coverage.of.into())];
    let seen = words.text("health-have-data", &counts);
    title(out, name, pool, &format!("{} · {seen}", replicas(pool, words)), words);
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

fn foot(pools: &[&PoolHealth], words: &Phrases) -> String {
    let dim = Style::new().dimmed();
    let mut checks = pools.iter().flat_map(|pool| &pool.checks).flat_map(|check| &check.thresholds);
    let borrowed = checks.any(|threshold| !threshold.source.starts_with("alert "));
    let text = words.text(if borrowed { "health-foot-star" } else { "health-foot" }, &[]);
    format!("\n{dim}{}{dim:#}\n", wrap(&text, COLUMNS).join("\n"))
}

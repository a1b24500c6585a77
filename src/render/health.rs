//! Fleet health in words, once for every medium, and its message for chats.

use std::cmp::Reverse;

use super::Phrases;
use super::facts::{FEW, few, few_values, group_by_key, join_limited, join_non_empty, joined};
use findings::health::{ExtraCondition, Health, HealthCheck, HealthState, PoolHealth, Threshold};
use findings::scope::pool_name;
use findings::{EngineFound, Outcome};
use knowledge::playbook::{Condition, Reference, Severity, condition_text};
use knowledge::signal::format_value;
use message::{Block, DocumentBlock, Line, Message, StateStyle, Tone};

/// Maximum number of pools in a message.
const POOLS: usize = 20;
/// Maximum number of failing checks in a message for each of several pools, and of notes.
const MOST_LISTED: usize = 4;

/// The health of a fleet in words.
pub(super) struct HealthWords<'a> {
    /// The state and the number of pools: `CRITICAL · 3 pools: 1 critical, 2 healthy`.
    pub(super) headline: String,
    /// The number of pools: `3 pools: 1 critical, 2 healthy`.
    pub(super) counted: String,
    /// The problems and notes.
    pub(super) notes: Vec<Line>,
    /// The pools, those that need attention first.
    pub(super) pools: Vec<PoolWords<'a>>,
    /// The meaning of the thresholds; empty without pools.
    pub(super) foot: Line,
}

/// The health of a pool in words.
pub(super) struct PoolWords<'a> {
    pub(super) health: &'a PoolHealth,
    pub(super) name: String,
    /// The replicas, engines and kinds, and the number of checks with data.
    pub(super) about: String,
    /// The checks at warning or critical, the worst first.
    pub(super) wrong: Vec<&'a HealthCheck>,
    /// The other checks with a value.
    pub(super) seen: Vec<&'a HealthCheck>,
    /// The checks without data that a change of the setup would bring; in an idle pool, a query without data is normal.
    pub(super) missing: Vec<&'a HealthCheck>,
}

impl<'a> HealthWords<'a> {
    pub(super) fn new(health: &'a Health, words: &Phrases) -> Self {
        let states = [HealthState::Critical, HealthState::Warning, HealthState::Unknown, HealthState::Healthy];
        let counted = states.map(|state| (health.pools.iter().filter(|pool| pool.state == state).count(), state));
        let counted = counted.iter().filter(|(n, _)| *n > 0);
        let counted = counted.map(|(n, state)| format!("{n} {}", word(*state, words).to_lowercase()));
        let states = counted.collect::<Vec<_>>().join(", ");
        let key = match health.pools.is_empty() {
            false => "health-pools",
            true if health.incomplete.is_some() => "targets-in-part",
            true if !health.problems.is_empty() => "prometheus-away",
            true => "targets-none",
        };
        let counted = words.text(key, &[("n", health.pools.len().into()), ("states", states.into())]);
        let mut thresholds = health.pools.iter().flat_map(|pool| &pool.checks).flat_map(|check| &check.thresholds);
        let foot = match thresholds.any(is_borrowed) {
            _ if health.pools.is_empty() => Line::default(),
            true => words.line("health-foot-star", &[]),
            false => words.line("health-foot", &[]),
        };
        let left_out = words.line("health-left-out", &[("n", health.left_out.into())]);
        let left_out = (health.left_out > 0).then_some(left_out).into_iter();
        Self {
            headline: format!("{} · {counted}", word(health.state, words)),
            counted,
            notes: health.problems.iter().chain(&health.notes).map(|note| Line::of(note)).chain(left_out).collect(),
            pools: health.worst_first().into_iter().map(|pool| PoolWords::new(health, pool, words)).collect(),
            foot,
        }
    }

    /// Returns a table with a row for each pool; the page leads to the pool's details.
    pub(super) fn summary(&self, words: &Phrases) -> Block {
        let row = |(i, pool): (usize, &PoolWords<'_>)| {
            let failing: Vec<String> = pool.wrong.iter().map(|check| value(check).text()).collect();
            let values = match failing.is_empty() {
                true => pool.first_values().into_iter().take(FEW).collect::<Vec<_>>().join(", "),
                false => few(&failing, words),
            };
            vec![
                state(pool.health.state, words),
                Line::default().link(&pool.name, format!("#pool-{i}")),
                Line::default().plain(pool.health.replicas.to_string()),
                Line::default().plain(values),
            ]
        };
        let heads = ["column-state", "column-pool", "page-replicas", "column-values"];
        table("pools", "pools", &heads, self.pools.iter().enumerate().map(row).collect(), words)
    }
}

impl<'a> PoolWords<'a> {
    fn new(health: &Health, pool: &'a PoolHealth, words: &Phrases) -> Self {
        let name = match pool_name(&pool.labels) {
            name if name.is_empty() => words.text("health-no-name", &[]),
            name => name,
        };
        let name = match health.distinguishing_server(pool) {
            Some(server) => words.text("health-of-server", &[("pool", name.into()), ("server", server.into())]),
            None => name,
        };
        let engines = pool.engines.iter().map(engine).collect::<Vec<_>>().join(", ");
        let counts = [("n", pool.coverage.with_data.into()), ("of", pool.coverage.of.into())];
        let counted = words.text(if pool.idle { "health-have-data-idle" } else { "health-have-data" }, &counts);
        let replicas = words.text("health-replicas", &[("n", pool.replicas.into())]);
        let (mut wrong, rest): (Vec<&HealthCheck>, Vec<_>) =
            pool.checks.iter().partition(|check| check.state.is_some_and(HealthState::is_wrong));
        wrong.sort_by_key(|check| Reverse(check.state.map(HealthState::weight)));
        let (seen, unseen): (Vec<_>, Vec<_>) = rest.into_iter().partition(|check| check.value.is_some());
        let is_missing = |check: &&HealthCheck| !pool.idle || check.enable.is_some() && check.query.is_none();
        Self {
            health: pool,
            name,
            about: join_non_empty(&[replicas, engines, pool.kinds.join(", "), counted]),
            wrong,
            seen,
            missing: unseen.into_iter().filter(is_missing).collect(),
        }
    }

    /// Returns the first other value of each heading. Zeros are left out, because most count events that must not happen.
    fn first_values(&self) -> Vec<String> {
        let mut first = self.seen.clone();
        first.retain(|check| check.value != Some(0.0));
        first.dedup_by_key(|check| &check.heading);
        first.into_iter().map(|check| value(check).text()).collect()
    }
}

/// Renders fleet health as a message for a chat: a section for each pool with its failing checks; of a single pool also
/// its other values.
pub fn health_message(health: &Health, words: &Phrases) -> Message {
    let HealthWords { headline, notes, pools, .. } = HealthWords::new(health, words);
    let alone = pools.len() == 1;
    let most = if alone { usize::MAX } else { MOST_LISTED };
    let section = |pool: &PoolWords<'_>| {
        let failing = pool.wrong.iter().take(most).map(|check| value(check).small(replicas(check, words)));
        let mut lines: Vec<Line> = failing.collect();
        if pool.wrong.len() > most {
            lines.push(words.line("and-others", &[("n", (pool.wrong.len() - most).into())]));
        }
        let others = if alone { join_non_empty(&pool.first_values()) } else { String::new() };
        let texts = [others, pool.about.clone()].into_iter().filter(|text| !text.is_empty());
        lines.extend(texts.map(|text| Line::default().plain(text)));
        Block::Section(format!("{} · {}", word(pool.health.state, words), pool.name), lines)
    };
    let mut parts: Vec<Block> = pools.iter().take(POOLS).map(section).collect();
    if pools.len() > POOLS {
        parts.push(Block::Note(words.line("and-others", &[("n", (pools.len() - POOLS).into())])));
    }
    parts.extend(notes.into_iter().take(MOST_LISTED).map(Block::Note));
    Message { tone: tone(health.state), headline, parts }
}

/// Returns a table of checks; its key is unique among those of the pool.
pub(super) fn checks(key: &str, pool: &str, checks: &[&HealthCheck], words: &Phrases) -> Block {
    let row = |check: &&HealthCheck| {
        let limit = |severity: Severity| {
            let of = check.thresholds.iter().find(|threshold| threshold.severity == severity);
            Line::default().plain(of.map(|of| condition_text(&of.when, check.unit)).unwrap_or_default())
        };
        let now = Line::default().plain(check.value.map(|now| format_value(now, check.unit)).unwrap_or_default());
        let now = match check.state {
            None | Some(HealthState::Healthy) => now,
            Some(of) => now.plain(" ").then(state(of, words)),
        };
        let id = check.playbook.iter().filter(|_| !check.thresholds.is_empty());
        let playbook = id.fold(Line::default(), |line, id| line.link(id, format!("/playbooks/{id}")));
        vec![
            Line::default().plain(&check.title).small(Line::default().plain(company(check, words))),
            now.small(replicas(check, words)),
            limit(Severity::Warning),
            limit(Severity::Critical),
            playbook.plain(if check.thresholds.first().is_some_and(is_borrowed) { "*" } else { "" }),
        ]
    };
    let heads = ["page-check", "page-now-value", "column-warning", "column-critical", "column-playbook"];
    let rows = checks.iter().map(row).collect();
    table(&format!("{pool}/{key}"), pool, &heads, rows, words)
}

fn table(key: &str, name: &str, heads: &[&str], rows: Vec<Vec<Line>>, words: &Phrases) -> Block {
    let heads = heads.iter().map(|head| words.text(head, &[])).collect();
    Block::Document(DocumentBlock::Table { key: key.to_owned(), name: name.to_owned(), folds: true, heads, rows })
}

/// Returns a check with its value.
fn value(check: &HealthCheck) -> Line {
    let value = check.value.map(|value| format_value(value, check.unit)).unwrap_or_default();
    Line::default().plain(&check.title).plain(" ").bold(value)
}

fn replicas(check: &HealthCheck, words: &Phrases) -> Line {
    Line::default().plain(few_values(&check.replicas, check.unit, words))
}

/// Returns true if a threshold is that of a playbook's symptom, without an alert.
fn is_borrowed(threshold: &Threshold) -> bool {
    !threshold.source.starts_with("alert ")
}

/// Returns the checks of pools that lack data, as lines: those with the same reason and the same setting that enables
/// them share one.
pub(super) fn missing<'a>(pools: &[PoolWords<'a>], most: usize, words: &Phrases) -> Vec<Line> {
    let checks = pools.iter().flat_map(|pool| &pool.missing);
    let gap = |c: &&'a HealthCheck| (c.title.as_str(), c.why.as_deref().unwrap_or_default(), c.enable.as_deref());
    gaps(most, checks.map(gap), words)
}

/// Returns lines of signals without data: title, reason, and the setting that enables them.
pub(super) fn gaps<'a>(
    most: usize,
    missing: impl Iterator<Item = (&'a str, &'a str, Option<&'a str>)>,
    words: &Phrases,
) -> Vec<Line> {
    // Several pools may lack the same.
    let missing = group_by_key(missing.map(|gap| (gap, ()))).into_iter().map(|(gap, _)| gap);
    let groups = group_by_key(missing.map(|(title, why, enable)| ((why, enable), title)));
    let line = |((why, enable), titles): ((&str, Option<&str>), Vec<&str>)| {
        let titles = Line::default().plain(join_limited(&titles, most, ", ", words));
        titles.plain(": ").then(Line::of(why)).small(enable.map(Line::of).unwrap_or_default())
    };
    groups.into_iter().map(line).collect()
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
    // A threshold for pools of which nothing else is known needs no list of it.
    let with = threshold.with.iter().filter(|with| with.when != Condition::NoData.to_string());
    let condition = |with: &ExtraCondition| format!("{} {}", with.title, condition_text(&with.when, with.unit));
    let groups = group_by_key(with.map(|with| (with.group, condition(with))));
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

/// Returns an engine with the lowest version that its series imply.
pub(super) fn engine(engine: &EngineFound) -> String {
    engine.at_least.as_ref().map_or_else(|| engine.engine.clone(), |version| format!("{} ≥ {version}", engine.engine))
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

/// Returns a state with its word, in colour where there is one.
pub(super) fn state(state: HealthState, words: &Phrases) -> Line {
    Line::default().state(StateStyle::of(tone(state)), word(state, words))
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

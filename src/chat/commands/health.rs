//! Fleet health as an answer.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::super::command::HealthOf;
use super::target::{build_no_pools_message, clients, find_targets};
use crate::reply::Reply;
use crate::wording::{command_button, dated, quoted, sentence, uncleaned};
use detect::FleetPool;
use diagnose::health::{DIMENSIONS, HealthQuery, HealthSource, evaluate_fleet};
use findings::health::{Health, HealthState, PoolHealth};
use knowledge::clock;
use knowledge::signal::{Unit, format_value};
use message::{Block, Line, Message, Tone};
use notify::Notifier;
use render::{Phrases, with_server};
use service::questions::Fleet;

/// Maximum number of pools in an overview.
const POOLS: usize = 20;
/// Maximum number of failing checks listed per pool, and of notes.
const MOST_LISTED: usize = 4;
/// Maximum number of healthy values of a pool that is shown alone.
const HEALTHY_VALUES: usize = 10;
/// Maximum number of pools with a button for their diagnosis.
const DIAGNOSE_BUTTONS: usize = 4;

/// Replies with the health of all pools, or of those that match a name.
pub(super) async fn overview(fleet: &Fleet<'_>, notifier: &Notifier, reply: &Reply<'_>, command: &HealthOf) {
    let now = clock::now();
    let at = command.at.map_or(now, |at| at.resolve(now));
    let targets = match &command.target {
        Some(typed) => match find_targets(fleet, reply, typed, at).await {
            Ok(targets) => Some(targets),
            Err(message) => return reply.send_message(&message).await,
        },
        None => None,
    };
    let mut scope = BTreeMap::new();
    if let Some([only]) = targets.as_deref() {
        scope = only.place.dimensions.clone();
        scope.retain(|dimension, _| DIMENSIONS.contains(&dimension.as_str()));
    }
    let query = HealthQuery { scope, at, window: fleet.diagnosing.window, deadline: fleet.diagnosing.deadline };
    let clients = clients(fleet, reply);
    let sources: Vec<HealthSource<'_>> =
        clients.iter().zip(fleet.prometheus.iter().map(|(_, labels)| labels)).collect();
    let mut health = evaluate_fleet(fleet.library, &sources, &query).await;
    if let Some(targets) = targets {
        health.pools.retain(|pool| targets.iter().any(|target| target.place.dimensions == pool.labels));
        health.state = HealthState::worst(health.pools.iter().map(|pool| pool.state)).unwrap_or(HealthState::Unknown);
    }
    if command.at.is_some() && health.pools.is_empty() && health.problems.is_empty() {
        return reply.send_message(&build_no_pools_message(fleet, reply, at).await).await;
    }
    let asked_at = command.at.map(|_| at);
    let message = message(notifier, &health, asked_at);
    reply.send_message(&dated(fleet.words, message, asked_at)).await;
}

/// Renders the health of the fleet, now or at `at`: a section per pool with its failing checks, and buttons that
/// diagnose the pools that are not healthy.
pub(super) fn message(notifier: &Notifier, health: &Health, at: Option<Timestamp>) -> Message {
    let words = &notifier.words;
    let Some(health) = &notifier.cleaned_answer(health) else { return uncleaned(words) };
    let count = |state: HealthState| health.pools.iter().filter(|pool| pool.state == state).count();
    let counts = [
        ("critical", count(HealthState::Critical).into()),
        ("warning", count(HealthState::Warning).into()),
        ("healthy", count(HealthState::Healthy).into()),
        ("unknown", count(HealthState::Unknown).into()),
        ("n", health.pools.len().into()),
    ];
    let (tone, key) = match health.state {
        _ if health.pools.is_empty() && health.incomplete.is_some() => (Tone::Unknown, "targets-in-part"),
        _ if health.pools.is_empty() && !health.problems.is_empty() => (Tone::Unknown, "prometheus-away"),
        _ if health.pools.is_empty() => (Tone::Unknown, "targets-none"),
        HealthState::Critical => (Tone::Critical, "health-wrong"),
        HealthState::Warning => (Tone::Warning, "health-wrong"),
        HealthState::Healthy => (Tone::Good, "health-well"),
        HealthState::Unknown => (Tone::Unknown, "health-unjudged"),
    };
    let mut message = sentence(tone, words.line(key, &counts));
    let mut pools: Vec<&PoolHealth> = health.pools.iter().collect();
    pools.sort_by_key(|pool| std::cmp::Reverse(pool.state.weight()));
    let alone = pools.len() == 1;
    for pool in pools.iter().take(POOLS) {
        message.parts.push(Block::Section(
            format!("{} · {}", words.text(state_key(pool.state), &[]), with_server(named(pool), health, pool, words)),
            pool_lines(words, pool, alone),
        ));
    }
    if pools.len() > POOLS {
        message
            .parts
            .push(Block::Note(words.line("health-more", &[("n", (pools.len() - POOLS + health.left_out).into())])));
    }
    for line in health.problems.iter().chain(&health.notes).take(MOST_LISTED) {
        message.parts.push(Block::Note(Line::of(line)));
    }
    let at = at.map(|at| format!(" at {at}")).unwrap_or_default();
    let sick = pools.iter().filter(|pool| pool.state.is_wrong()).take(DIAGNOSE_BUTTONS);
    let buttons: Vec<message::Button> = sick
        .enumerate()
        .map(|(i, pool)| {
            let label = words.text("health-why", &[("target", named(pool).into())]);
            command_button(i, &label, &format!("diagnose {}{at}", quoted(&named(pool))))
        })
        .collect();
    if !buttons.is_empty() {
        message.parts.push(Block::Buttons(buttons));
    }
    message
}

fn state_key(state: HealthState) -> &'static str {
    match state {
        HealthState::Healthy => "pool-healthy",
        HealthState::Warning => "pool-warning",
        HealthState::Critical => "pool-critical",
        HealthState::Unknown => "pool-unknown",
    }
}

fn named(pool: &PoolHealth) -> String {
    FleetPool { dimensions: pool.labels.clone(), ..FleetPool::default() }.name()
}

/// Lists the failing checks of a pool; if it is shown alone, also its other numbers.
fn pool_lines(words: &Phrases, pool: &PoolHealth, alone: bool) -> Vec<Line> {
    let value = |value: f64, unit: Unit| Line::default().bold(format_value(value, unit));
    let mut lines = Vec::new();
    let sick = |state: Option<HealthState>| state.is_some_and(HealthState::is_wrong);
    let mut failing: Vec<_> = pool.checks.iter().filter(|check| sick(check.state)).collect();
    failing.sort_by_key(|check| check.state.map(|state| std::cmp::Reverse(state.weight())));
    for check in failing.iter().take(if alone { usize::MAX } else { MOST_LISTED }) {
        let now = check.value.map(|v| value(v, check.unit)).unwrap_or_default();
        let mut line = Line::default().plain(&*check.title).plain(" ").then(now);
        if let Some(first) = check.replicas.first() {
            line = line.plain(" · ").code(&*first.name);
            if check.replicas.len() > 1 {
                line = line.plain(format!(" +{}", check.replicas.len() - 1));
            }
        }
        lines.push(line);
    }
    if failing.len() > MOST_LISTED && !alone {
        lines.push(words.line("health-checks-more", &[("n", (failing.len() - MOST_LISTED).into())]));
    }
    if alone {
        // Zeros are left out, because most count events that must not happen; each signal appears once.
        let mut listed: BTreeSet<&String> = failing.iter().map(|check| &check.signal).collect();
        let healthy =
            pool.checks.iter().filter(|check| !sick(check.state) && check.value.is_some_and(|value| value != 0.0));
        let healthy = healthy.filter(|check| listed.insert(&check.signal)).take(HEALTHY_VALUES);
        lines.extend(healthy.filter_map(|check| {
            Some(Line::default().plain(&*check.title).plain(" ").then(value(check.value?, check.unit)))
        }));
    }
    let pieces =
        [("n", pool.replicas.into()), ("seen", pool.coverage.with_data.into()), ("of", pool.coverage.of.into())];
    let key = if pool.idle { "pool-idle" } else { "pool-seen" };
    lines.push(words.line(key, &pieces));
    lines
}

//! Fleet health as an answer.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::super::command::HealthOf;
use super::target::{build_no_pools_message, clients, find_targets};
use crate::reply::Reply;
use crate::wording::{command_button, dated, quoted, uncleaned, with};
use diagnose::health::{DIMENSIONS, HealthQuery, HealthSource, evaluate_fleet};
use findings::health::{Health, HealthState};
use findings::scope::pool_name;
use knowledge::clock;
use message::{Block, Message};
use notify::Notifier;
use service::questions::Fleet;

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

/// Renders the health of the fleet, now or at `at`, with buttons that diagnose the pools that are not healthy.
pub(super) fn message(notifier: &Notifier, health: &Health, at: Option<Timestamp>) -> Message {
    let words = &notifier.words;
    let Some(health) = &notifier.cleaned_answer(health) else { return uncleaned(words) };
    let message = render::health_message(health, words);
    let at = at.map(|at| format!(" at {at}")).unwrap_or_default();
    let sick = health.worst_first().into_iter().filter(|pool| pool.state.is_wrong()).take(DIAGNOSE_BUTTONS);
    let buttons: Vec<message::Button> = sick
        .enumerate()
        .map(|(i, pool)| {
            let name = pool_name(&pool.labels);
            let label = words.text("health-why", &[("target", name.as_str().into())]);
            command_button(i, &label, &format!("diagnose {}{at}", quoted(&name)))
        })
        .collect();
    if buttons.is_empty() { message } else { with(message, Block::Buttons(buttons)) }
}

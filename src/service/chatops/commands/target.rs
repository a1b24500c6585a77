//! The target of a command: the pool or pod that a typed name selects, or the answer that says why there is none.

use std::time::Duration;

use futures::future::join_all;
use jiff::Timestamp;

use crate::chatops::pools::{PoolList, list_pools};
use crate::chatops::reply::Reply;
use crate::chatops::wording::{command_button, full_time, sentence, with};
use crate::chatops::{Desk, target_form};
use diagnose::{DataSpan, FleetPool, PoolMatch, Scope, data_elsewhere, find_pools, typed_label};
use knowledge::clock;
use knowledge::playbook::nearest;
use message::{Block, Line, Message, Tone};
use sources::prom::Prometheus;

/// Timeout for the list of pools.
const LIST_WITHIN: Duration = Duration::from_secs(5);
/// Maximum number of targets with a button.
const MOST_BUTTONS: usize = 4;

/// Returns a client per Prometheus; its queries count towards the progress of this reply.
pub(super) fn clients(desk: &Desk, reply: &Reply<'_>) -> Vec<Prometheus> {
    desk.prometheus.iter().map(|(prometheus, _)| reply.watch(prometheus)).collect()
}

/// A target that matches a typed name: the index of its Prometheus, the pool, and the pod if one was named.
pub(super) struct MatchedTarget {
    pub(super) source: usize,
    pub(super) place: FleetPool,
    pub(super) pod: Option<String>,
}

impl MatchedTarget {
    pub(super) fn name(&self) -> String {
        self.pod.as_deref().map_or_else(|| self.place.name(), |pod| self.place.pod_name(pod))
    }
}

/// Finds the targets that match a typed name; the error is the answer that none matches.
pub(super) async fn find_targets(
    desk: &Desk,
    reply: &Reply<'_>,
    typed: &str,
    at: Timestamp,
) -> Result<Vec<MatchedTarget>, Message> {
    let words = &desk.words;
    let PoolList { places, problems, incomplete } =
        list_pools(desk, &clients(desk, reply), at, LIST_WITHIN.min(desk.config.diagnose.deadline)).await;
    let pools: Vec<FleetPool> = places.iter().map(|(_, place)| place.clone()).collect();
    let matches = find_pools(&pools, typed);
    if matches.is_empty() {
        let typed = match typed_label(typed) {
            Ok(label) => label.map_or(typed, |(_, value)| value),
            Err(why) => return Err(sentence(Tone::Unknown, Line::of(&why))),
        };
        if pools.is_empty() && problems.is_empty() {
            return Err(build_no_pools_message(desk, reply, at).await);
        }
        let names: Vec<String> = pools.iter().map(FleetPool::name).filter(|name| !name.is_empty()).collect();
        let names = nearest(typed, names.iter().map(String::as_str));
        let line = match names.first() {
            None if problems.is_empty() => words.line("targets-none", &[]),
            None if incomplete => words.line("targets-in-part", &[]),
            None => words.line("prometheus-away", &[]),
            Some(near) => {
                let near = Line::default().code(*near);
                words.line("target-unknown", &[("target", Line::default().code(typed).into()), ("near", near.into())])
            }
        };
        let mut message = sentence(Tone::Unknown, line);
        message.parts.extend(problems.into_iter().map(|problem| Block::Note(Line::of(&problem))));
        message
            .parts
            .push(Block::Buttons(pool_buttons(desk, names.into_iter().map(str::to_owned), |name| name.to_owned())));
        return Err(message);
    }
    let targets = matches.into_iter().map(|PoolMatch { place, pod }| {
        let (source, place) = places[place].clone();
        MatchedTarget { source, place, pod }
    });
    Ok(targets.collect())
}

/// Builds the message that there are no pools, with the period that has data and, for a past moment, the pools of now.
pub(super) async fn build_no_pools_message(desk: &Desk, reply: &Reply<'_>, at: Timestamp) -> Message {
    let words = &desk.words;
    let deadline = LIST_WITHIN.min(desk.config.diagnose.deadline);
    let (clients, whole_scope) = (clients(desk, reply), Scope::default());
    let spans = clients.iter().map(|prometheus| data_elsewhere(&desk.library, prometheus, &whole_scope, at, deadline));
    let data = join_all(spans).await.into_iter().flatten().next().map(|DataSpan { from, to }| {
        Block::Note(words.line("targets-data", &[("from", full_time(from).into()), ("to", full_time(to).into())]))
    });
    let now = clock::now();
    let places = if at < now { list_pools(desk, &clients, now, deadline).await.places } else { Vec::new() };
    let names: Vec<String> = places.iter().map(|(_, place)| place.name()).collect();
    let mut message = match names.len() {
        0 => sentence(Tone::Unknown, words.line("targets-none", &[])),
        n => {
            sentence(Tone::Unknown, words.line("targets-none-then", &[("time", full_time(at).into()), ("n", n.into())]))
        }
    };
    message.parts.extend(data);
    match names.is_empty() {
        true => message,
        false => with(message, Block::Buttons(pool_buttons(desk, names.into_iter(), str::to_owned))),
    }
}

/// Builds buttons for names; if there are too many or none, one more opens the form.
fn pool_buttons(
    desk: &Desk,
    names: impl Iterator<Item = String>,
    line: impl Fn(&str) -> String,
) -> Vec<message::Button> {
    let mut names: Vec<String> = names.filter(|name| !name.is_empty()).collect();
    names.sort();
    names.dedup();
    let many = names.len() > MOST_BUTTONS;
    names.truncate(MOST_BUTTONS);
    let mut buttons: Vec<message::Button> =
        names.iter().enumerate().map(|(i, name)| command_button(i, name, &line(name))).collect();
    if many || buttons.is_empty() {
        buttons.push(target_form::button(desk));
    }
    buttons
}

/// Returns the only match; the error is the answer that lists several.
pub(super) fn only(
    desk: &Desk,
    mut targets: Vec<MatchedTarget>,
    typed: &str,
    line: impl Fn(&str) -> String,
) -> Result<MatchedTarget, Message> {
    if targets.len() == 1 {
        return Ok(targets.remove(0));
    }
    let pieces = [("target", Line::default().code(typed).into()), ("n", targets.len().into())];
    let message = sentence(Tone::Unknown, desk.words.line("target-several", &pieces));
    Err(with(message, Block::Buttons(pool_buttons(desk, targets.iter().map(MatchedTarget::name), line))))
}

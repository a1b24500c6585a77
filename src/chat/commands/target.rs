//! The target of a command: the pool or pod that a typed name selects, or the answer that says why there is none.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use futures::future::join_all;
use jiff::Timestamp;

use crate::reply::Reply;
use crate::target_form;
use crate::wording::{command_button, full_time, sentence, with};
use detect::data;
use findings::{DataSpan, Scope};
use knowledge::clock;
use message::{Block, Line, Message, Tone};
use prom::Prometheus;
use render::Phrases;
use service::questions::Fleet;
use service::questions::pools::{NoTarget, PoolList, TargetMatch};

/// Timeout for the list of pools.
const LIST_WITHIN: Duration = Duration::from_secs(5);
/// Maximum number of targets with a button.
const MOST_BUTTONS: usize = 4;

/// Returns a client per Prometheus; its queries count towards the progress of this reply.
pub(super) fn clients(fleet: &Fleet<'_>, reply: &Reply<'_>) -> Vec<Prometheus> {
    fleet.prometheus.iter().map(|(prometheus, _)| reply.watch(prometheus)).collect()
}

/// Lists the pools of every Prometheus.
async fn pools(fleet: &Fleet<'_>, reply: &Reply<'_>, at: Timestamp) -> PoolList {
    let clients = clients(fleet, reply);
    let until = Instant::now() + LIST_WITHIN.min(fleet.diagnosing.deadline);
    PoolList::of(fleet.library, &clients.iter().collect::<Vec<_>>(), at, until).await
}

/// Finds the targets that match a typed name; the error is the answer that none matches.
pub(super) async fn find_targets(
    fleet: &Fleet<'_>,
    reply: &Reply<'_>,
    typed: &str,
    at: Timestamp,
) -> Result<Vec<TargetMatch>, Message> {
    let words = fleet.words;
    let list = pools(fleet, reply, at).await;
    let (typed, names) = match list.find(typed) {
        Ok(targets) => return Ok(targets),
        Err(NoTarget::Label(why)) => return Err(sentence(Tone::Unknown, Line::of(&why))),
        Err(NoTarget::Name { typed, nearest }) => (typed, nearest),
    };
    if list.places.is_empty() && list.unanswered.is_empty() {
        return Err(build_no_pools_message(fleet, reply, at).await);
    }
    let line = match names.first() {
        None if list.unanswered.is_empty() => {
            words.line("target-unnamed", &[("target", Line::default().code(typed.as_str()).into())])
        }
        None if list.is_partial() => words.line("targets-in-part", &[]),
        None => words.line("prometheus-away", &[]),
        Some(near) => {
            let [target, near] = [&typed, near].map(|name| Line::default().code(name.as_str()).into());
            words.line("target-unknown", &[("target", target), ("near", near)])
        }
    };
    let mut message = sentence(Tone::Unknown, line);
    let problems = list.unanswered.iter().map(|(server, error)| Line::of(&format!("{server}: {error}")));
    message.parts.extend(problems.map(Block::Note));
    message.parts.push(Block::Buttons(pool_buttons(words, names.into_iter(), str::to_owned)));
    Err(message)
}

/// Builds the message that there are no pools, with the period that has data and, for a past moment, the pools of now.
pub(super) async fn build_no_pools_message(fleet: &Fleet<'_>, reply: &Reply<'_>, at: Timestamp) -> Message {
    let words = fleet.words;
    let deadline = Instant::now() + LIST_WITHIN.min(fleet.diagnosing.deadline);
    let (clients, whole_scope) = (clients(fleet, reply), Scope::default());
    let spans = clients.iter().map(|prometheus| data(fleet.library, prometheus, &whole_scope, at, deadline));
    let data = join_all(spans).await.into_iter().find_map(|(span, _)| span).map(|DataSpan { from, to }| {
        Block::Note(words.line("targets-data", &[("from", full_time(from).into()), ("to", full_time(to).into())]))
    });
    let now = clock::now();
    let places = if at < now { pools(fleet, reply, now).await.places } else { Vec::new() };
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
        false => with(message, Block::Buttons(pool_buttons(words, names.into_iter(), str::to_owned))),
    }
}

/// Builds buttons for names; if there are too many or none, one more opens the form.
fn pool_buttons(
    words: &Phrases,
    names: impl Iterator<Item = String>,
    line: impl Fn(&str) -> String,
) -> Vec<message::Button> {
    let mut seen = BTreeSet::new();
    let mut names: Vec<String> = names.filter(|name| !name.is_empty() && seen.insert(name.clone())).collect();
    let many = names.len() > MOST_BUTTONS;
    names.truncate(MOST_BUTTONS);
    let mut buttons: Vec<message::Button> =
        names.iter().enumerate().map(|(i, name)| command_button(i, name, &line(name))).collect();
    if many || buttons.is_empty() {
        buttons.push(target_form::button(words));
    }
    buttons
}

/// Returns the only match; the error is the answer that lists several.
pub(super) fn only(
    words: &Phrases,
    mut targets: Vec<TargetMatch>,
    typed: &str,
    line: impl Fn(&str) -> String,
) -> Result<TargetMatch, Message> {
    if targets.len() == 1 {
        return Ok(targets.remove(0));
    }
    let pieces = [("target", Line::default().code(typed).into()), ("n", targets.len().into())];
    let message = sentence(Tone::Unknown, words.line("target-several", &pieces));
    Err(with(message, Block::Buttons(pool_buttons(words, targets.iter().map(TargetMatch::name), line))))
}

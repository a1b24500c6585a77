//! `capacity`: the resources of a pool beside their use.

use super::super::command::CapacityOf;
use super::target::{find_targets, only};
use crate::reply::Reply;
use crate::wording::{quoted, sentence};

use diagnose::observe_signals;
use knowledge::clock;
use knowledge::signal::{Unit, format_value};
use message::{Block, Line, Tone};
use service::questions::Fleet;

/// Compares the resources of a pool with their use.
pub(super) async fn capacity(fleet: &Fleet<'_>, reply: &Reply<'_>, command: &CapacityOf) {
    let now = clock::now();
    let typed = command.target.as_deref().unwrap_or_default();
    let line = |name: &str| format!("capacity {}", quoted(name));
    let target = match find_targets(fleet, reply, typed, now)
        .await
        .and_then(|targets| only(fleet.words, targets, typed, line))
    {
        Ok(target) => target,
        Err(message) => return reply.send_message(&message).await,
    };
    let Some((prometheus, _)) = fleet.prometheus.get(target.source) else { return };
    let scope = target.place.scope(None);
    let (window, deadline) = (fleet.diagnosing.window, fleet.diagnosing.deadline);
    let signals = &::capacity::SIGNALS;
    let observed =
        observe_signals(fleet.library, &reply.watch(prometheus), &scope, signals, now, window, deadline).await;
    let report = ::capacity::compare(None, &scope, &observed.observations, observed.remarks(), observed.degraded);
    let Some(live) = &report.live else { return };
    let words = fleet.words;
    let tokens = |value: f64| Line::default().bold(format_value(value, Unit::Tokens));
    let number = |value: f64| Line::default().bold(format!("{value:.1}"));
    let rows = [
        ("capacity-cache", live.kv_capacity_tokens.map(tokens)),
        ("capacity-prompt", live.prompt_tokens_mean.map(tokens)),
        ("capacity-output", live.generation_tokens_mean.map(tokens)),
        ("capacity-fits", live.mean_requests_per_replica.map(number)),
        ("capacity-running", live.running_per_replica.map(number)),
    ];
    let rows: Vec<Line> =
        rows.into_iter().filter_map(|(key, value)| Some(words.line(key, &[("value", value?.into())]))).collect();
    let pieces = [("target", target.name().into()), ("n", live.replicas.into())];
    let tone = if report.warnings.is_empty() { Tone::Good } else { Tone::Warning };
    let tone = if rows.is_empty() { Tone::Unknown } else { tone };
    let mut message = sentence(tone, words.line("capacity-headline", &pieces));
    if !rows.is_empty() {
        message.parts.push(Block::Section(words.text("capacity-live", &[]), rows));
    }
    message.parts.extend(report.warnings.iter().map(|warning| Block::Paragraph(Line::of(warning))));
    let missing = live
        .missing
        .iter()
        .map(|(signal, why)| Block::Note(Line::default().code(&**signal).plain(": ").then(Line::of(why))));
    message.parts.extend(missing.chain(live.problems.iter().map(|problem| Block::Note(Line::of(problem)))));
    let shell = Line::default().code("llm-diagnose capacity config.json --gpu H100");
    message.parts.push(Block::Note(words.line("capacity-more", &[("command", shell.into())])));
    reply.send_message(&message).await;
}

//! `doctor`: everything that the service needs, and the signals that are missing.

use std::sync::Arc;

use futures::future::{join_all, join3};

use super::target::clients;
use crate::reply::Reply;
use diagnose::health::coverage;
use findings::health::{CoverageLimit, SignalAvailability};
use knowledge::clock;
use message::{Block, Line, Message, Tone};
use render::Phrases;
use service::Service;
use service::check::{Level, ServiceCheck};
use service::questions::Fleet;
use service::readiness;
use service::readiness::{Examine, Readiness, SlackProbe};
use slack::Slack;

/// Maximum number of missing signals that are listed.
const MOST_SIGNALS: usize = 4;

/// Merges the checks of `doctor` with the live ones: one per name, the more severe wins.
fn merged(mut checks: Vec<ServiceCheck>, live: Readiness) -> Vec<ServiceCheck> {
    for probed in std::iter::once(live.store).chain(live.others) {
        match checks.iter_mut().find(|check| check.name == probed.name) {
            Some(check) if check.level < probed.level => *check = probed,
            Some(_) => {}
            None => checks.push(probed),
        }
    }
    checks
}

fn failing_line(words: &Phrases, check: &ServiceCheck) -> Line {
    let key = if check.level == Level::Fail { "doctor-fails" } else { "doctor-warns" };
    let name = Line::default().code(&*check.name);
    let line = words.line(key, &[("name", name.into()), ("detail", Line::of(&check.found).into())]);
    match &check.todo {
        Some(todo) => line.plain(" → ").then(Line::of(todo)),
        None => line,
    }
}

/// Checks everything that the service needs, and lists the missing signals.
pub(super) async fn doctor(service: &Service, slack: &Slack, examine: Examine, reply: &Reply<'_>) {
    let Service { config, words, .. } = service;
    let fleet = &Fleet::of(service, None);
    let now = clock::now();
    let (window, deadline) = (fleet.diagnosing.window, fleet.diagnosing.deadline);
    let clients = clients(fleet, reply);
    let slack = SlackProbe::new(slack.clone());
    let live = readiness::checks(service, Some(&slack), None);
    let coverages = join_all(clients.iter().map(|p| coverage(fleet.library, p, now, window, deadline)));
    let (checks, live, coverages) = join3(examine(Arc::new(config.clone())), live, coverages).await;
    let checks = merged(checks, live);
    let mut parts = Vec::new();
    let (passing, failing): (Vec<_>, Vec<_>) = checks.iter().partition(|check| check.is_ok());
    let failed = failing.len();
    let mut lines: Vec<Line> = failing.iter().map(|check| failing_line(words, check)).collect();
    let passing: Vec<&str> = passing.iter().map(|check| check.name.as_str()).collect();
    lines.push(words.line("doctor-fine", &[("names", passing.join(", ").into())]));
    parts.push(Block::Section(words.text("doctor-parts", &[]), lines));
    for coverage in coverages {
        let missing: Vec<_> = coverage.signals.iter().filter(|s| s.answer == SignalAvailability::Missing).collect();
        let blind = coverage.playbooks.iter().filter(|playbook| playbook.eyes == CoverageLimit::Blind).count();
        let counts =
            [("missing", missing.len().into()), ("of", coverage.signals.len().into()), ("blind", blind.into())];
        let mut lines = vec![words.line("doctor-signals", &counts)];
        let mut enables: Vec<(&str, Vec<&str>)> = Vec::new();
        for signal in &missing {
            let Some(enable) = signal.enable.as_deref() else { continue };
            match enables.iter_mut().find(|(listed, _)| *listed == enable) {
                Some((_, titles)) => titles.push(&signal.title),
                None => enables.push((enable, vec![&signal.title])),
            }
        }
        enables.sort_by_key(|(_, titles)| std::cmp::Reverse(titles.len()));
        lines.extend(enables.iter().take(MOST_SIGNALS).map(|(enable, titles)| {
            let more = if titles.len() > 2 { format!(" +{}", titles.len() - 2) } else { String::new() };
            let titles = titles.iter().take(2).copied().collect::<Vec<_>>().join(", ");
            Line::default().plain(format!("{titles}{more} → ")).then(Line::of(enable))
        }));
        parts.push(Block::Section(coverage.prometheus, lines));
        parts.extend(coverage.problems.into_iter().map(|problem| Block::Note(Line::of(&problem))));
    }
    let shell = Line::default().code("llm-diagnose doctor --signals");
    parts.push(Block::Note(words.line("doctor-more", &[("command", shell.into())])));
    let (tone, key) = if failed == 0 { (Tone::Good, "doctor-well") } else { (Tone::Warning, "doctor-wrong") };
    let headline = words.text(key, &[("n", failed.into())]);
    reply.send_message(&Message { tone, headline, parts }).await;
}

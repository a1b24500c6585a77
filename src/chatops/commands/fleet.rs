//! Commands that query Prometheus: diagnoses, health, capacity and `doctor`.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures::future::{join_all, join3};
use jiff::Timestamp;

use super::super::command::{CapacityOf, Diagnose, HealthOf, OfIncident};
use super::super::targets;
use super::{Reply, command_button, health, incidents, sentence, with};
use crate::capacity;
use crate::chatops::Desk;
use crate::clock;
use crate::diagnose::{
    DataSpan, Diagnosis, Exporters, ExtraSources, FleetPool, PoolMatch, Request, Scope, data_elsewhere, diagnose_with,
    find_pools, moment, observe_signals, typed_label,
};
use crate::health::{
    DIMENSIONS, HealthQuery, HealthSource, HealthState, SignalAvailability, Triage, coverage, evaluate_fleet, places,
    triage,
};
use crate::playbook::{nearest, suggestion};
use crate::prom::{Prometheus, choose};
use crate::readiness::{self, Finding, Level, ServiceCheck};
use crate::render::{self, Line, Message, MessagePart, Phrases, Tone};
use crate::signal::{Unit, format_value};
use crate::store::Incident;

/// Timeout for the list of pools.
const LIST_WITHIN: Duration = Duration::from_secs(5);
/// Maximum number of missing signals that are listed.
const FEW: usize = 4;
/// Maximum number of targets with a button.
const MOST_BUTTONS: usize = 4;

/// The pools in Prometheus, with the errors of the servers that did not answer.
pub(in crate::chatops) struct PoolList {
    /// The index of the Prometheus, and the pool.
    pub(in crate::chatops) places: Vec<(usize, FleetPool)>,
    /// The errors, as sentences.
    pub(in crate::chatops) problems: Vec<String>,
}

/// Lists the pools of every Prometheus.
pub(in crate::chatops) async fn list_pools(
    desk: &Desk,
    clients: &[Prometheus],
    at: Timestamp,
    within: Duration,
) -> PoolList {
    let until = Instant::now() + within;
    let asked = clients.iter().map(|prometheus| places(&desk.library, prometheus, at, until));
    let mut list = PoolList { places: Vec::new(), problems: Vec::new() };
    for (i, (answer, prometheus)) in join_all(asked).await.into_iter().zip(clients).enumerate() {
        match answer {
            Ok(places) => list.places.extend(places.into_iter().map(|place| (i, place))),
            Err(error) => list.problems.push(format!("{}: {error}", prometheus.name)),
        }
    }
    list
}

/// Returns a client per Prometheus; its queries count towards the progress of this reply.
fn clients(desk: &Desk, reply: &Reply<'_>) -> Vec<Prometheus> {
    desk.prometheus.iter().map(|(prometheus, _)| reply.watch(prometheus)).collect()
}

/// A target that matches a typed name: the index of its Prometheus, the pool, and the pod if one was named.
struct MatchedTarget {
    source: usize,
    place: FleetPool,
    pod: Option<String>,
}

impl MatchedTarget {
    fn name(&self) -> String {
        self.pod.as_deref().map_or_else(|| self.place.name(), |pod| self.place.pod_name(pod))
    }
}

/// Finds the targets that match a typed name; the error is the answer that none matches.
async fn find_targets(
    desk: &Desk,
    reply: &Reply<'_>,
    typed: &str,
    at: Timestamp,
) -> Result<Vec<MatchedTarget>, Message> {
    let words = &desk.words;
    let PoolList { places, problems } =
        list_pools(desk, &clients(desk, reply), at, LIST_WITHIN.min(desk.diagnosing.deadline)).await;
    let all: Vec<FleetPool> = places.iter().map(|(_, place)| place.clone()).collect();
    let fitting = find_pools(&all, typed);
    if fitting.is_empty() {
        let typed = match typed_label(typed) {
            Ok(label) => label.map_or(typed, |(_, value)| value),
            Err(why) => return Err(sentence(Tone::Unknown, Line::of(&why))),
        };
        if all.is_empty() && problems.is_empty() {
            return Err(build_no_pools_message(desk, reply, at).await);
        }
        let names: Vec<String> = all.iter().map(FleetPool::name).filter(|name| !name.is_empty()).collect();
        let names = nearest(typed, names.iter().map(String::as_str));
        let line = match names.first() {
            None if problems.is_empty() => words.line("targets-none", &[]),
            None => words.line("prometheus-away", &[]),
            Some(near) => {
                let near = Line::default().code(*near);
                words.line("target-unknown", &[("target", Line::default().code(typed).into()), ("near", near.into())])
            }
        };
        let mut message = sentence(Tone::Unknown, line);
        message.parts.extend(problems.into_iter().map(|problem| MessagePart::Note(Line::of(&problem))));
        message.parts.push(MessagePart::Buttons(pool_buttons(desk, names.into_iter().map(str::to_owned), |name| {
            name.to_owned()
        })));
        return Err(message);
    }
    let found = fitting.into_iter().map(|PoolMatch { place, pod }| {
        let (source, place) = places[place].clone();
        MatchedTarget { source, place, pod }
    });
    Ok(found.collect())
}

/// Builds the message that there are no pools, with the period that has data and, for a past moment, the pools of now.
async fn build_no_pools_message(desk: &Desk, reply: &Reply<'_>, at: Timestamp) -> Message {
    let words = &desk.words;
    let within = LIST_WITHIN.min(desk.diagnosing.deadline);
    let (watched, every) = (clients(desk, reply), Scope::default());
    let spans = watched.iter().map(|prometheus| data_elsewhere(&desk.library, prometheus, &every, at, within));
    let data = join_all(spans).await.into_iter().flatten().next().map(|DataSpan { from, to }| {
        MessagePart::Note(words.line("targets-data", &[("from", shown(from).into()), ("to", shown(to).into())]))
    });
    let now = clock::now();
    let places = if at < now { list_pools(desk, &watched, now, within).await.places } else { Vec::new() };
    let names: Vec<String> = places.iter().map(|(_, place)| place.name()).collect();
    let mut message = match names.len() {
        0 => sentence(Tone::Unknown, words.line("targets-none", &[])),
        n => sentence(Tone::Unknown, words.line("targets-none-then", &[("time", shown(at).into()), ("n", n.into())])),
    };
    message.parts.extend(data);
    match names.is_empty() {
        true => message,
        false => with(message, MessagePart::Buttons(pool_buttons(desk, names.into_iter(), str::to_owned))),
    }
}

/// Builds buttons for names; if there are too many or none, one more opens the form.
fn pool_buttons(
    desk: &Desk,
    names: impl Iterator<Item = String>,
    line: impl Fn(&str) -> String,
) -> Vec<render::Button> {
    let mut names: Vec<String> = names.filter(|name| !name.is_empty()).collect();
    names.sort();
    names.dedup();
    let many = names.len() > MOST_BUTTONS;
    names.truncate(MOST_BUTTONS);
    let mut buttons: Vec<render::Button> =
        names.iter().enumerate().map(|(i, name)| command_button(i, name, &line(name))).collect();
    if many || buttons.is_empty() {
        buttons.push(targets::button(desk));
    }
    buttons
}

/// Returns the only match; the error is the answer that lists several.
fn only(
    desk: &Desk,
    mut found: Vec<MatchedTarget>,
    typed: &str,
    line: impl Fn(&str) -> String,
) -> Result<MatchedTarget, Message> {
    if found.len() == 1 {
        return Ok(found.remove(0));
    }
    let pieces = [("target", Line::default().code(typed).into()), ("n", found.len().into())];
    let message = sentence(Tone::Unknown, desk.words.line("target-several", &pieces));
    Err(with(message, MessagePart::Buttons(pool_buttons(desk, found.iter().map(MatchedTarget::name), line))))
}

/// Quotes a name, so that it is one word of a line.
pub(super) fn quoted(name: &str) -> String {
    shlex::try_quote(name).map_or_else(|_| name.to_owned(), std::borrow::Cow::into_owned)
}

/// Diagnoses a target and replies with the causes and steps.
pub(super) async fn diagnose(desk: &Desk, reply: &Reply<'_>, what: &Diagnose) {
    let words = &desk.words;
    let now = clock::now();
    let at = what.when.at.map_or(now, |at| at.resolve(now));
    if at > now {
        let line = words.line("time-ahead", &[("time", shown(at).into())]);
        return reply.send_message(&sentence(Tone::Unknown, line)).await;
    }
    if let Some(id) = what.playbook.as_deref().filter(|id| !desk.library.playbooks.contains_key(*id)) {
        let hint = suggestion(id, desk.library.playbooks.keys().map(String::as_str)).unwrap_or_default();
        let pieces = [("id", Line::default().code(id).into()), ("hint", Line::of(&hint).into())];
        let message = sentence(Tone::Unknown, words.line("playbook-unknown", &pieces));
        return reply
            .send_message(&with(message, MessagePart::Buttons(vec![command_button(0, "playbooks", "playbooks")])))
            .await;
    }
    let Some(typed) = what.target.as_deref() else {
        // Diagnosing all pools as one is allowed only with an explicit playbook.
        return match &what.playbook {
            Some(_) => Box::pin(run_diagnosis(desk, reply, what, at, None)).await,
            None => targets::offer(desk, reply).await,
        };
    };
    let of = OfIncident { incident: Some(typed.to_owned()) };
    if typed.len() >= 20
        && let Ok(incident) = incidents::find(desk, reply, &of).await
    {
        return Box::pin(again(desk, reply, &incident)).await;
    }
    let line = |name: &str| {
        let at = what.when.at.map(|_| format!(" at {at}")).unwrap_or_default();
        let last = what
            .when
            .last
            .map(|last| format!(" last {}", humantime::format_duration(last).to_string().replace(' ', "")));
        let playbook = what.playbook.as_ref().map(|id| format!(" playbook {id}")).unwrap_or_default();
        format!("diagnose {}{at}{}{playbook}", quoted(name), last.unwrap_or_default())
    };
    match find_targets(desk, reply, typed, at).await.and_then(|found| only(desk, found, typed, line)) {
        Ok(found) => Box::pin(run_diagnosis(desk, reply, what, at, Some(found))).await,
        Err(message) => reply.send_message(&message).await,
    }
}

async fn run_diagnosis(desk: &Desk, reply: &Reply<'_>, what: &Diagnose, at: Timestamp, found: Option<MatchedTarget>) {
    let name = found.as_ref().map(MatchedTarget::name).unwrap_or_default();
    let Some((prometheus, labels)) = desk.prometheus.get(found.as_ref().map_or(0, |found| found.source)) else {
        return;
    };
    let request = Request {
        playbook: what.playbook.clone().unwrap_or_default(),
        screen: what.playbook.is_none(),
        rules: Vec::new(),
        scope: found.as_ref().map(|found| found.place.scope(found.pod.as_deref())).unwrap_or_default(),
        at,
        since: what.when.last.map(|last| clock::before(at, last)),
        window: what.when.last.unwrap_or(desk.diagnosing.window),
        baseline: desk.diagnosing.baseline,
        deadline: desk.diagnosing.deadline,
    };
    let watched = reply.watch(prometheus);
    let exporters = exporters(desk, prometheus).await;
    // Exporter pages hold current values only.
    let beside =
        ExtraSources { exporters: exporters.as_ref().filter(|_| what.when.at.is_none()), logs: Some(&desk.logs) };
    let answer = match what.playbook.is_some() {
        false => Box::pin(triage(&desk.library, (&watched, labels), &request, beside)).await,
        true => {
            let diagnosis = Box::pin(diagnose_with(&desk.library, &watched, &request, beside)).await;
            Triage::Found(Box::new(diagnosis))
        }
    };
    let asked_at = what.when.at.map(|_| at);
    let message = match answer {
        Triage::Found(diagnosis) => diagnosis_message(desk, &diagnosis, Some(prometheus)),
        Triage::Quiet(health) => {
            let mut message = health::message(desk, &health, asked_at);
            let example = format!("{} playbook high-ttft", quoted(&name));
            let example = Line::default().code(example);
            message.parts.push(MessagePart::Note(desk.words.line("diagnosis-quiet", &[("example", example.into())])));
            message
        }
    };
    reply.send_message(&dated(desk, message, asked_at)).await;
}

/// Adds the judged moment to an answer that is not about now.
fn dated(desk: &Desk, message: Message, at: Option<Timestamp>) -> Message {
    match at {
        Some(at) => with(message, MessagePart::Note(desk.words.line("answer-at", &[("time", shown(at).into())]))),
        None => message,
    }
}

/// Formats a time as `14:05 (2026-11-20 14:05 UTC)`, the first in the reader's time zone.
fn shown(at: Timestamp) -> Line {
    Line::default().time(at).plain(format!(" ({})", at.strftime("%Y-%m-%d %H:%M UTC")))
}

/// Diagnoses an incident again: now while it is open, else at the moment of its last diagnosis.
pub(super) async fn again(desk: &Desk, reply: &Reply<'_>, incident: &Incident) {
    let prometheus = prometheus_of(desk, incident).filter(|_| incident.because.is_some());
    let Some(prometheus) = prometheus else {
        return reply.send_message(&sentence(Tone::Unknown, desk.words.line("incident-undiagnosed", &[]))).await;
    };
    let playbook = incident.playbook.as_deref().unwrap_or_default();
    let now = clock::now();
    let over = (!incident.open).then(|| match &incident.diagnosis {
        Some(diagnosis) => diagnosis.at,
        None => moment(incident.started_at, incident.resolved_at, now),
    });
    let at = over.unwrap_or(now);
    let request = desk.diagnosing.request(playbook, &incident.alerts, incident.started_at, at);
    let watched = reply.watch(prometheus);
    // Exporter pages hold current values only.
    let exporters = if incident.open { exporters(desk, prometheus).await } else { None };
    let beside = ExtraSources { exporters: exporters.as_ref(), logs: Some(&desk.logs) };
    let diagnosis = diagnose_with(&desk.library, &watched, &request, beside).await;
    reply.send_message(&dated(desk, diagnosis_message(desk, &diagnosis, Some(prometheus)), over)).await;
}

pub(super) fn diagnosis_message(desk: &Desk, diagnosis: &Diagnosis, prometheus: Option<&Prometheus>) -> Message {
    render::diagnosis_message(diagnosis, prometheus.map(|prometheus| prometheus.url.as_str()), &desk.words)
}

/// Returns the Prometheus that an incident's diagnosis queries.
pub(super) fn prometheus_of<'a>(desk: &'a Desk, incident: &Incident) -> Option<&'a Prometheus> {
    choose(&desk.prometheus, &incident.alerts)
}

/// Returns the configured exporters and those last discovered through this Prometheus.
async fn exporters(desk: &Desk, prometheus: &Prometheus) -> Option<Exporters> {
    let mut targets: Vec<_> = desk.exporters.given().collect();
    if desk.exporters.learn {
        targets.extend(desk.store.exporters(&prometheus.url).await.unwrap_or_default());
    }
    Some(Exporters { reader: desk.reader.clone(), targets, learn: false, fresh: false })
}

/// Replies with the health of all pools, or of those that match a name.
pub(super) async fn overview(desk: &Desk, reply: &Reply<'_>, what: &HealthOf) {
    let now = clock::now();
    let at = what.at.map_or(now, |at| at.resolve(now));
    let fitting = match &what.target {
        Some(typed) => match find_targets(desk, reply, typed, at).await {
            Ok(found) => Some(found),
            Err(message) => return reply.send_message(&message).await,
        },
        None => None,
    };
    let mut scope = BTreeMap::new();
    if let Some([only]) = fitting.as_deref() {
        scope = only.place.dimensions.clone();
        scope.retain(|dimension, _| DIMENSIONS.contains(&dimension.as_str()));
    }
    let look_at = HealthQuery { scope, at, window: desk.diagnosing.window, deadline: desk.diagnosing.deadline };
    let watched = clients(desk, reply);
    let sources: Vec<HealthSource<'_>> = watched.iter().zip(desk.prometheus.iter().map(|(_, labels)| labels)).collect();
    let mut health = evaluate_fleet(&desk.library, &sources, &look_at).await;
    if let Some(fitting) = fitting {
        health.pools.retain(|pool| fitting.iter().any(|found| found.place.dimensions == pool.labels));
        health.state = HealthState::worst(health.pools.iter().map(|pool| pool.state)).unwrap_or(HealthState::Unknown);
    }
    if what.at.is_some() && health.pools.is_empty() && health.problems.is_empty() {
        return reply.send_message(&build_no_pools_message(desk, reply, at).await).await;
    }
    let asked_at = what.at.map(|_| at);
    let message = health::message(desk, &health, asked_at);
    reply.send_message(&dated(desk, message, asked_at)).await;
}

/// Compares the resources of a pool with their use.
pub(super) async fn capacity(desk: &Desk, reply: &Reply<'_>, what: &CapacityOf) {
    let now = clock::now();
    let typed = what.target.as_deref().unwrap_or_default();
    let line = |name: &str| format!("capacity {}", quoted(name));
    let found = match find_targets(desk, reply, typed, now).await.and_then(|found| only(desk, found, typed, line)) {
        Ok(found) => found,
        Err(message) => return reply.send_message(&message).await,
    };
    let Some((prometheus, _)) = desk.prometheus.get(found.source) else { return };
    let scope = found.place.scope(None);
    let (window, deadline) = (desk.diagnosing.window, desk.diagnosing.deadline);
    let signals = &capacity::SIGNALS;
    let observed =
        observe_signals(&desk.library, &reply.watch(prometheus), &scope, signals, now, window, deadline).await;
    let report = capacity::compare(None, &scope, &observed);
    let Some(live) = &report.live else { return };
    let words = &desk.words;
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
    let pieces = [("target", found.name().into()), ("n", live.replicas.into())];
    let tone = if report.warnings.is_empty() { Tone::Good } else { Tone::Warning };
    let tone = if rows.is_empty() { Tone::Unknown } else { tone };
    let mut message = sentence(tone, words.line("capacity-headline", &pieces));
    if !rows.is_empty() {
        message.parts.push(MessagePart::Section(words.text("capacity-live", &[]), rows));
    }
    message.parts.extend(report.warnings.iter().map(|warning| MessagePart::Paragraph(Line::of(warning))));
    let missing = live
        .missing
        .iter()
        .map(|(signal, why)| MessagePart::Note(Line::default().code(&**signal).plain(": ").then(Line::of(why))));
    message.parts.extend(missing.chain(live.problems.iter().map(|problem| MessagePart::Note(Line::of(problem)))));
    let shell = Line::default().code("llm-diagnose capacity config.json --gpu H100");
    message.parts.push(MessagePart::Note(words.line("capacity-more", &[("command", shell.into())])));
    reply.send_message(&message).await;
}

/// Merges the findings of `doctor` with the live checks: one per name, the more severe wins.
fn merged(mut findings: Vec<Finding>, checks: Vec<ServiceCheck>) -> Vec<Finding> {
    for ServiceCheck { name, ok, detail, .. } in checks {
        let level = if ok { Level::Ok } else { Level::Fail };
        let live = Finding { name, level, found: detail.unwrap_or_default(), todo: None };
        match findings.iter_mut().find(|finding| finding.name == live.name) {
            Some(known) if known.level < live.level => *known = live,
            Some(_) => {}
            None => findings.push(live),
        }
    }
    findings
}

fn wrong_line(words: &Phrases, finding: &Finding) -> Line {
    let key = if finding.level == Level::Fail { "doctor-fails" } else { "doctor-warns" };
    let name = Line::default().code(&*finding.name);
    let line = words.line(key, &[("name", name.into()), ("detail", Line::of(&finding.found).into())]);
    match &finding.todo {
        Some(todo) => line.plain(" → ").then(Line::of(todo)),
        None => line,
    }
}

/// Checks everything that the service needs, and lists the missing signals.
pub(super) async fn doctor(desk: &Desk, reply: &Reply<'_>) {
    let words = &desk.words;
    let now = clock::now();
    let (window, deadline) = (desk.diagnosing.window, desk.diagnosing.deadline);
    let watched = clients(desk, reply);
    let asked: Vec<&Prometheus> = watched.iter().collect();
    let checks = readiness::checks(&desk.store, &asked, Some(&desk.slack), &desk.config, None, &desk.logs);
    let seen = join_all(watched.iter().map(|p| coverage(&desk.library, p, now, window, deadline)));
    let (findings, checks, seen) = join3(desk.examination.findings(), checks, seen).await;
    let findings = merged(findings, checks);
    let failed = findings.iter().filter(|finding| finding.level > Level::Ok).count();
    let mut parts = Vec::new();
    let (fine, wrong): (Vec<&Finding>, Vec<&Finding>) = findings.iter().partition(|finding| finding.level == Level::Ok);
    let mut lines: Vec<Line> = wrong.iter().map(|finding| wrong_line(words, finding)).collect();
    let fine: Vec<&str> = fine.iter().map(|finding| finding.name.as_str()).collect();
    lines.push(words.line("doctor-fine", &[("names", fine.join(", ").into())]));
    parts.push(MessagePart::Section(words.text("doctor-parts", &[]), lines));
    for one in seen {
        let missing: Vec<_> = one.signals.iter().filter(|s| s.answer == SignalAvailability::Missing).collect();
        let blind = one.playbooks.iter().filter(|sight| sight.eyes == crate::health::CoverageLimit::Blind).count();
        let mut lines = vec![words.line(
            "doctor-signals",
            &[("missing", missing.len().into()), ("of", one.signals.len().into()), ("blind", blind.into())],
        )];
        let mut enables: Vec<(&str, Vec<&str>)> = Vec::new();
        for signal in &missing {
            let Some(enable) = signal.enable.as_deref() else { continue };
            match enables.iter_mut().find(|(known, _)| *known == enable) {
                Some((_, titles)) => titles.push(&signal.title),
                None => enables.push((enable, vec![&signal.title])),
            }
        }
        enables.sort_by_key(|(_, titles)| std::cmp::Reverse(titles.len()));
        lines.extend(enables.iter().take(FEW).map(|(enable, titles)| {
            let more = if titles.len() > 2 { format!(" +{}", titles.len() - 2) } else { String::new() };
            let titles = titles.iter().take(2).copied().collect::<Vec<_>>().join(", ");
            Line::default().plain(format!("{titles}{more} → ")).then(Line::of(enable))
        }));
        parts.push(MessagePart::Section(one.prometheus, lines));
        parts.extend(one.problems.into_iter().map(|problem| MessagePart::Note(Line::of(&problem))));
    }
    let shell = Line::default().code("llm-diagnose doctor --signals");
    parts.push(MessagePart::Note(words.line("doctor-more", &[("command", shell.into())])));
    let (tone, key) = if failed == 0 { (Tone::Good, "doctor-well") } else { (Tone::Warning, "doctor-wrong") };
    let headline = words.text(key, &[("n", failed.into())]);
    reply.send_message(&Message { tone, headline, parts }).await;
}

//! `diagnose`: a target, or an incident again.

use jiff::Timestamp;

use super::super::command::{Diagnose, OfIncident};
use super::health;
use super::target::{find_targets, only};
use crate::replies::Caller;
use crate::reply::Reply;
use crate::wording::{command_button, dated, diagnosis_message, full_time, quoted, sentence, with};
use crate::{incidents, target_form};
use diagnose::health::{Triage, answer};
use diagnose::{ExtraSources, diagnose_with, moment};
use knowledge::clock;
use knowledge::playbook::suggestion;
use message::{Block, Line, Tone};
use notify::Notifier;
use prom::{assigned, choose};
use service::questions::Fleet;
use service::questions::pools::TargetMatch;
use store::{Incident, Store};

/// Diagnoses a target and replies with the causes and steps.
pub(super) async fn diagnose(
    fleet: &Fleet<'_>,
    store: &Store,
    caller: Caller<'_>,
    reply: &Reply<'_>,
    command: &Diagnose,
) {
    let (words, notifier) = (fleet.words, caller.notifier);
    let now = clock::now();
    let at = command.when.at.map_or(now, |at| at.resolve(now));
    if at > now {
        let line = words.line("time-ahead", &[("time", full_time(at).into())]);
        return reply.send_message(&sentence(Tone::Unknown, line)).await;
    }
    if let Some(id) = command.playbook.as_deref().filter(|id| fleet.library.playbook(id).is_none()) {
        let hint = suggestion(id, fleet.library.playbooks.keys().map(String::as_str)).unwrap_or_default();
        let pieces = [("id", Line::default().code(id).into()), ("hint", Line::of(&hint).into())];
        let message = sentence(Tone::Unknown, words.line("playbook-unknown", &pieces));
        return reply
            .send_message(&with(message, Block::Buttons(vec![command_button(0, "playbooks", "playbooks")])))
            .await;
    }
    let Some(typed) = command.target.as_deref() else {
        // Without a pool an explicit playbook is needed; each pool is then judged by it.
        return match &command.playbook {
            Some(_) => Box::pin(run_diagnosis(fleet, notifier, reply, command, at, None)).await,
            None => target_form::offer(caller.slack, words, reply).await,
        };
    };
    let query = OfIncident { incident: Some(typed.to_owned()) };
    if typed.len() >= 20
        && let Ok(incident) = incidents::find(store, words, reply.place, &query).await
    {
        return Box::pin(again(fleet, notifier, reply, &incident)).await;
    }
    let line = |name: &str| {
        let at = command.when.at.map(|_| format!(" at {at}")).unwrap_or_default();
        let last = command
            .when
            .last
            .map(|last| format!(" last {}", humantime::format_duration(last).to_string().replace(' ', "")));
        let playbook = command.playbook.as_ref().map(|id| format!(" playbook {id}")).unwrap_or_default();
        format!("diagnose {}{at}{}{playbook}", quoted(name), last.unwrap_or_default())
    };
    match find_targets(fleet, reply, typed, at).await.and_then(|targets| only(words, targets, typed, line)) {
        Ok(target) => Box::pin(run_diagnosis(fleet, notifier, reply, command, at, Some(target))).await,
        Err(message) => reply.send_message(&message).await,
    }
}

async fn run_diagnosis(
    fleet: &Fleet<'_>,
    notifier: &Notifier,
    reply: &Reply<'_>,
    command: &Diagnose,
    at: Timestamp,
    target: Option<TargetMatch>,
) {
    let name = target.as_ref().map(TargetMatch::name).unwrap_or_default();
    let Some((prometheus, labels)) = fleet.prometheus.get(target.as_ref().map_or(0, |target| target.source)) else {
        return;
    };
    let scope = target.as_ref().map(TargetMatch::scope).unwrap_or_default();
    let request = fleet.diagnosing.asked(command.playbook.as_deref(), scope, at, command.when.last);
    let client = reply.watch(prometheus);
    let exporters = fleet.exporters(prometheus).await;
    // Exporter pages hold current values only.
    let exporters = Some(&exporters).filter(|_| command.when.at.is_none());
    let extra = ExtraSources { exporters, logs: Some(fleet.logs) };
    let asked_at = command.when.at.map(|_| at);
    let message = match answer(fleet.library, (&client, labels), &request, extra).await {
        Triage::Found(diagnosis) => diagnosis_message(notifier, &diagnosis, Some(prometheus)),
        Triage::Quiet(health) => {
            let mut message = health::message(notifier, &health, asked_at);
            let example = format!("{} playbook high-ttft", quoted(&name));
            let example = Line::default().code(example);
            message.parts.push(Block::Note(fleet.words.line("diagnosis-quiet", &[("example", example.into())])));
            message
        }
    };
    reply.send_message(&dated(fleet.words, message, asked_at)).await;
}

/// Diagnoses an incident again: now while it is open, else at the moment of its last diagnosis.
pub(super) async fn again(fleet: &Fleet<'_>, notifier: &Notifier, reply: &Reply<'_>, incident: &Incident) {
    let prometheus = assigned(fleet.prometheus, &incident.alerts).filter(|_| incident.because.is_some());
    let Some(prometheus) = prometheus else {
        return reply.send_message(&sentence(Tone::Unknown, fleet.words.line("incident-undiagnosed", &[]))).await;
    };
    let playbook = incident.playbook.as_deref().unwrap_or_default();
    let now = clock::now();
    let over = (!incident.open).then(|| match &incident.diagnosis {
        Some(diagnosis) => diagnosis.at,
        None => moment(incident.started_at, incident.resolved_at, now),
    });
    let at = over.unwrap_or(now);
    let request = fleet.diagnosing.request(playbook, &incident.alerts, incident.started_at, at);
    let client = reply.watch(&prometheus);
    // Exporter pages hold current values only.
    let exporters = fleet.exporters(&prometheus).await;
    let extra = ExtraSources { exporters: Some(&exporters).filter(|_| incident.open), logs: Some(fleet.logs) };
    let diagnosis = diagnose_with(fleet.library, &client, &request, extra).await;
    let message = diagnosis_message(notifier, &diagnosis, choose(fleet.prometheus, &incident.alerts));
    reply.send_message(&dated(fleet.words, message, over)).await;
}

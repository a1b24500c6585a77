//! Sections around the diagnosis: timeline, logs, topology, alerts, rules, bundle parts, redactions, tickets.

use std::collections::{BTreeMap, BTreeSet};

use maud::{Markup, html};

use super::ReportPageContext;
use crate::alert::{Alert, AlertStatus};
use crate::clip::clip;
use crate::diagnose::Diagnosis;
use crate::logs::LogMatch;
use crate::playbook::LogRank;
use crate::render::page::html::{StateStyle, fold, line, link, moment, pill, table};
use crate::render::{Line, Phrases, logs::unknown as unknown_errors};
use crate::report::{AnalyzedLog, HappenedKind, ReplicaInfo, Report, ReportPart, Stage, TimelineEvent};
use crate::signal::{Unit, format_value};

/// Maximum number of timeline entries shown open; the middle of a longer timeline is folded.
const EVENTS: usize = 40;
/// Maximum number of alerts and of rules listed.
const ALERTS: usize = 60;
/// Maximum number of replicas drawn.
const REPLICAS: usize = 300;
/// Maximum number of nodes shown open, besides those with affected replicas.
const NODES: usize = 12;
/// Maximum number of findings shown of one log.
const FINDINGS: usize = 12;

/// Renders the timeline, oldest first.
pub(super) fn timeline(report: &Report, words: &Phrases) -> Option<Markup> {
    let all = &report.timeline;
    let (first, rest) = all.split_at(all.len().min(EVENTS / 2));
    let (middle, last) = rest.split_at(rest.len().saturating_sub(EVENTS / 2));
    let day = |one: &TimelineEvent| one.at.strftime("%Y-%m-%d").to_string();
    // The date is shown only if it is not the same for all entries.
    let form = match (all.first().map(day), all.last().map(day)) {
        (Some(first), Some(last)) if first != last => "%m-%d %H:%M:%S",
        _ => "%H:%M:%S",
    };
    let list = |entries: &[TimelineEvent]| html! { ol.time { @for one in entries { (happened(one, form, words)) } } };
    (!all.is_empty()).then(|| {
        html! {
            (list(first))
            @if !middle.is_empty() {
                @let n = middle.len();
                (fold("timeline/middle", &html! { (words.text("report-between", &[("n", n.into())])) }, false, &list(middle.get(..n.min(400)).unwrap_or_default())))
            }
            (list(last))
        }
    })
}

fn happened(one: &TimelineEvent, form: &str, words: &Phrases) -> Markup {
    let key = match one.kind {
        HappenedKind::Alert => "report-kind-alert",
        HappenedKind::Onset => "report-kind-onset",
        HappenedKind::Restart => "report-kind-restart",
        HappenedKind::Presence => "report-kind-presence",
        HappenedKind::Rollout => "report-kind-rollout",
        HappenedKind::Silence => "report-kind-silence",
        HappenedKind::Message => "report-kind-message",
        HappenedKind::Act => "report-kind-act",
        HappenedKind::Log => "report-kind-log",
        HappenedKind::Event => "report-kind-event",
    };
    html! {
        li {
            time datetime=(one.at) { (one.at.strftime(form)) }
            div { (line(&Line::of(&one.what))) " " small { (words.text(key, &[])) " · " (one.source) } }
        }
    }
}

/// Renders the findings of logs, those with a root error first.
pub(super) fn logs(report: &Report, words: &Phrases) -> Option<Markup> {
    let mut logs: Vec<&AnalyzedLog> = report.logs.iter().collect();
    logs.sort_by_key(|log| (log.report.first_root.is_none(), log.report.findings.is_empty()));
    // Replicas fail alike, so each step is shown only once.
    let fix = report.diagnosis.iter().flat_map(|diagnosis| diagnosis.fix.now.iter().chain(&diagnosis.fix.lasting));
    let mut said: BTreeSet<&str> = fix.map(|fix| fix.action.trim()).collect();
    (!logs.is_empty()).then(|| {
        html! { @for (i, log) in logs.iter().enumerate() {
            @let root = log.report.findings.iter().find(|found| Some(&found.id) == log.report.first_root.as_ref());
            @let title = html! {
                code { (log.name) }
                @if let Some(root) = root { (pill(StateStyle::Bad, &root.title)) }
                @else if log.report.findings.is_empty() && log.report.unknown.count == 0 { (pill(StateStyle::Mute, &words.text("report-log-silent", &[]))) }
            };
            (fold(&format!("log/{}", log.name), &title, i == 0, &log_of(log, root, &mut said, words)))
        } }
    })
}

fn log_of<'a>(
    log: &'a AnalyzedLog,
    root: Option<&'a LogMatch>,
    said: &mut BTreeSet<&'a str>,
    words: &Phrases,
) -> Markup {
    let say = |key: &str| words.text(key, &[]);
    let others = log.report.findings.iter().filter(|found| !root.is_some_and(|root| std::ptr::eq(root, *found)));
    let shown: Vec<&LogMatch> = root.into_iter().chain(others).take(FINDINGS).collect();
    let unknown = &log.report.unknown;
    html! {
        @if !log.file.is_empty() { p.dim { code { (log.file) } } }
        @if unknown.count > 0 { ul { @for text in unknown_errors(unknown, words) { li { (line(&text)) } } } }
        @for found in shown {
            h3 { (found.title) " " (rank(found.rank, words)) }
            p { (line(&Line::of(found.meaning.trim()))) }
            @if let Some(action) = found.action.as_deref().filter(|action| said.insert(action.trim())) { p { b { (say("report-log-do")) " " } (line(&Line::of(action.trim()))) } }
            pre tabindex="0" { code { (found.text) } }
            p.dim {
                (words.text("report-log-line", &[("line", found.line.to_string().into()), ("n", usize::try_from(found.count).unwrap_or(usize::MAX).into())]))
                @if let Some(first) = &found.first { " · " (first) }
            }
        }
    }
}

fn rank(rank: LogRank, words: &Phrases) -> Markup {
    let (look, key) = match rank {
        LogRank::Root => (StateStyle::Bad, "report-rank-root"),
        LogRank::Sign => (StateStyle::Warn, "report-rank-sign"),
        LogRank::Secondary => (StateStyle::Mute, "report-rank-secondary"),
        LogRank::Benign => (StateStyle::Good, "report-rank-benign"),
    };
    pill(look, &words.text(key, &[]))
}

/// Renders replicas by node: nodes with affected replicas first, these marked; many other nodes are folded.
pub(super) fn topology(report: &Report, words: &Phrases) -> Option<Markup> {
    let hit: BTreeSet<&str> = report
        .diagnosis
        .as_ref()
        .map(|d| d.root().filter(|root| !root.replicas.affected.is_empty()).map_or(&d.replicas, |root| &root.replicas))
        .map(|radius| radius.affected.iter().map(String::as_str).collect())
        .unwrap_or_default();
    let known = told_by_diagnosis(report.diagnosis.as_ref());
    let replicas: &[ReplicaInfo] = if report.topology.is_empty() { &known } else { &report.topology };
    let is_hit = |replica: &ReplicaInfo| hit.contains(replica.name.as_str());
    let mut nodes: BTreeMap<Option<&str>, Vec<&ReplicaInfo>> = BTreeMap::new();
    for replica in replicas.iter().filter(|r| is_hit(r)).chain(replicas.iter().filter(|r| !is_hit(r))).take(REPLICAS) {
        nodes.entry(replica.node.as_deref()).or_default().push(replica);
    }
    let (with, without): (Vec<_>, Vec<_>) = nodes.into_iter().partition(|(_, on_it)| on_it.iter().any(|r| is_hit(r)));
    let drawn = |nodes: &[(Option<&str>, Vec<&ReplicaInfo>)]| {
        html! {
            div.nodes { @for (node, replicas) in nodes {
                div.node {
                    h3 { @if let Some(node) = node { (node) } @else { (words.text("report-no-node", &[])) } }
                    ul { @for replica in replicas { (one_replica(replica, is_hit(replica), words)) } }
                }
            } }
        }
    };
    let few = with.len() + without.len() <= NODES;
    let left = replicas.len().saturating_sub(REPLICAS);
    (!replicas.is_empty()).then(|| {
        html! {
            @if !with.is_empty() { (drawn(&with)) }
            @if few && !without.is_empty() { (drawn(&without)) }
            @else if !without.is_empty() {
                @let n = without.iter().map(|(_, on_it)| on_it.len()).sum::<usize>();
                (fold("topology/rest", &html! { (words.text("report-not-hit", &[("n", n.into())])) }, false, &drawn(&without)))
            }
            @if left > 0 { p.dim { (words.text("and-others", &[("n", left.into())])) } }
        }
    })
}

/// Returns the replicas that the diagnosis locates, which are few.
fn told_by_diagnosis(diagnosis: Option<&Diagnosis>) -> Vec<ReplicaInfo> {
    let places = diagnosis.and_then(Diagnosis::root).into_iter().flat_map(|root| &root.replicas.places);
    let one = |(name, places): (&String, &Vec<String>)| {
        let (gpus, nodes): (Vec<String>, Vec<String>) = places.iter().cloned().partition(|p| p.starts_with("GPU"));
        ReplicaInfo { name: name.clone(), node: nodes.into_iter().next(), gpus, ..ReplicaInfo::default() }
    };
    places.map(one).collect()
}

fn one_replica(replica: &ReplicaInfo, hit: bool, words: &Phrases) -> Markup {
    let more: Vec<&str> = [replica.role.as_str(), replica.state.as_str()]
        .into_iter()
        .chain(replica.gpus.iter().map(String::as_str))
        .filter(|text| !text.is_empty())
        .collect();
    html! {
        li.hit[hit] {
            @if hit { span.mark.bad { span aria-hidden="true" { "● " } } }
            (replica.name)
            @if hit { " " small { (words.text("report-affected", &[])) } }
            @if !more.is_empty() { " " small { (more.join(" · ")) } }
        }
    }
}

/// Renders the alerts with their labels.
pub(super) fn alerts(report: &Report, words: &Phrases) -> Option<Markup> {
    let say = |key: &str| words.text(key, &[]);
    let left = report.alerts.len().saturating_sub(ALERTS);
    (!report.alerts.is_empty()).then(|| {
        html! {
            @for (i, alert) in report.alerts.iter().take(ALERTS).enumerate() {
                @let title = html! {
                    (clip(alert.name(), 120))
                    @if alert.status == AlertStatus::Firing { (pill(StateStyle::Bad, &say("report-fires"))) } @else { (pill(StateStyle::Good, &say("report-ended"))) }
                };
                (fold(&format!("alert/{i}"), &title, i == 0, &one_alert(alert, words)))
            }
            @if left > 0 { p.dim { (words.text("and-others", &[("n", left.into())])) } }
        }
    })
}

fn one_alert(alert: &Alert, words: &Phrases) -> Markup {
    let ended = alert.status == AlertStatus::Resolved && alert.ends_at > alert.starts_at;
    html! {
        dl.kv {
            dt { (words.text("report-from", &[])) }
            dd { (moment(alert.starts_at)) @if ended { " – " (moment(alert.ends_at)) } }
            @for (name, value) in &alert.annotations {
                dt { (name) }
                @let shown = clip(value, 1_000);
                dd { @if value.contains('`') { (line(&Line::of(&shown))) } @else { (link(&shown, value)) } }
            }
        }
        p { @for (name, value) in &alert.labels { code { (clip(name, 80)) "=" (clip(value, 300)) } " " } }
    }
}

/// Renders the alert rules.
pub(super) fn rules(report: &Report, words: &Phrases) -> Option<Markup> {
    (!report.rules.is_empty()).then(|| {
        html! { @for (i, rule) in report.rules.iter().take(ALERTS).enumerate() {
            @let look = match rule.state.as_str() { "firing" => StateStyle::Bad, "pending" => StateStyle::Warn, _ => StateStyle::Mute };
            (fold(&format!("rule/{i}"), &html! { (rule.name) (pill(look, &rule.state)) }, false, &html! {
                pre tabindex="0" { code { (rule.query) } }
                p.dim { (words.text("report-rule-for", &[("time", format_value(rule.for_seconds, Unit::Seconds).into())])) " " @for (name, value) in &rule.labels { code { (name) "=" (value) } " " } }
                @if let Some(error) = &rule.error { p.none { (error) } }
            }))
        } }
    })
}

/// Renders the parts of the bundle and their stages.
pub(super) fn parts(report: &Report, words: &Phrases) -> Option<Markup> {
    let say = |key: &str| words.text(key, &[]);
    let heads = ["report-part", "report-stage", "report-note", "report-size"].map(say);
    let row = |part: &ReportPart| {
        let (look, key) = match part.stage {
            Stage::Waiting => (StateStyle::Mute, "report-stage-waiting"),
            Stage::Running => (StateStyle::Mute, "report-stage-running"),
            Stage::Done => (StateStyle::Good, "report-stage-done"),
            Stage::Partial => (StateStyle::Warn, "report-stage-partial"),
            Stage::Failed => (StateStyle::Bad, "report-stage-failed"),
            Stage::Skipped => (StateStyle::Mute, "report-stage-skipped"),
        };
        let size = if part.bytes > 0 { format_value(part.bytes as f64, Unit::Bytes) } else { String::new() };
        vec![html! { (part.name) }, pill(look, &say(key)), line(&Line::of(&part.note)), html! { span.num { (size) } }]
    };
    (!report.parts.is_empty()).then(|| {
        html! {
            @if !report.complete { p.none { (say("report-incomplete-why")) } }
            (table(&say("report-parts"), &heads, &report.parts.iter().map(row).collect::<Vec<_>>()))
        }
    })
}

/// Renders the redactions by file and rule.
pub(super) fn redacted(report: &Report, words: &Phrases) -> Option<Markup> {
    let heads = ["report-file", "report-rule", "report-count"].map(|key| words.text(key, &[]));
    let rows: Vec<Vec<Markup>> = report
        .redacted
        .iter()
        .map(|one| vec![html! { code { (one.place) } }, html! { (one.rule) }, html! { span.num { (one.count) } }])
        .collect();
    (!rows.is_empty()).then(|| table(&words.text("report-redacted", &[]), &heads, &rows))
}

/// Renders the tickets, or the links to them.
pub(super) fn tickets(around: &ReportPageContext<'_>, words: &Phrases) -> Option<Markup> {
    (!around.tickets.is_empty() || !around.ticket_pages.is_empty()).then(|| {
        html! {
            p.dim { (words.text("report-tickets-lead", &[])) }
            @for (whom, text) in around.tickets {
                (fold(&format!("ticket/{whom}"), &html! { (whom) }, false, &html! { pre.copy tabindex="0" { code { (text) } } }))
            }
            ul { @for (whom, address) in around.ticket_pages { li { (link(whom, address)) } } }
        }
    })
}

/// Renders the existing bundles of the incident, and how to create one.
pub(super) fn bundles(report: &Report, around: &ReportPageContext<'_>, words: &Phrases) -> Option<Markup> {
    let incident = report.incident.as_ref().filter(|_| around.live)?;
    Some(html! {
        p { (line(&words.line("report-bundles-how", &[("incident", incident.id.as_str().into())]))) }
        @if around.bundles.is_empty() { p.none { (words.text("report-no-bundles", &[])) } }
        ul { @for (name, address) in around.bundles { li { (link(name, address)) } } }
    })
}

//! Sections around the diagnosis: pictures, timeline, logs, topology, alerts, rules, bundle parts, redactions, tickets.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::{
    Medium, ReportPageContext, code, code_block, group, left_out, list, pairs, paragraph, plain, table, unfolded_table,
};
use crate::{IncidentView, Phrases, logs as log_lines, related as related_incidents};
use findings::Diagnosis;
use findings::facts::{HappenedKind, ReplicaInfo, Rule, TimelineEvent};
use knowledge::alert::{Alert, AlertStatus};
use knowledge::clip::clip;
use knowledge::signal::{Unit, format_value};
use logs::{LogAnalysis, LogMatch};
use message::{Block, DocumentBlock, Folding, Line, StateStyle};
use redact::RedactionCount;
use report::{AnalyzedLog, Report, ReportPart, Stage};

/// Maximum number of logs, of alerts and of rules listed.
const MAX_LISTED: usize = 60;
/// Maximum number of affected replicas listed.
const MAX_AFFECTED: usize = 500;
/// Maximum number of findings shown of one log.
const FINDINGS: usize = 20;

/// Returns the maximum number of logs, and of findings of each. GitHub takes 65,536 characters of a ticket.
fn most_of_logs(medium: Medium) -> (usize, usize) {
    match medium {
        Medium::Page => (MAX_LISTED, FINDINGS),
        Medium::Text => (20, FINDINGS),
        Medium::Ticket => (8, 8),
    }
}

/// Builds the pictures, or the reason why there are none.
pub(super) fn pictures(around: &ReportPageContext<'_>, words: &Phrases) -> Vec<Block> {
    let drawn = around.pictures.iter();
    let drawn = drawn.map(|(alt, svg)| Block::Document(DocumentBlock::Chart { alt: alt.clone(), svg: svg.clone() }));
    let missing = around.no_picture.filter(|_| around.pictures.is_empty());
    let zooms = ["link-dashboard", "link-prometheus"].map(|key| words.text(key, &[]));
    let zoom = around.actions.iter().filter(|(label, _)| zooms.contains(label));
    let zoom = zoom.map(|(label, url)| Line::default().link(label, url)).reduce(|all, one| all.plain(" · ").then(one));
    let zoom = zoom.filter(|_| !around.pictures.is_empty());
    let zoom = zoom.map(|links| Block::Note(words.line("report-zoom", &[("links", links.into())])));
    drawn.chain(missing.map(|why| Block::Gap(words.line(why, &[])))).chain(zoom).collect()
}

/// Builds the timeline, oldest first.
pub(super) fn timeline(report: &Report, medium: Medium, words: &Phrases) -> Vec<Block> {
    // On a page the day stands at the start of the incident, so times here are short, if all are of one day.
    let day = |one: &TimelineEvent| one.at.strftime("%Y-%m-%d").to_string();
    let one_day = report.timeline.iter().all(|one| report.timeline.first().map(day) == Some(day(one)));
    let time = |at: Timestamp| match (medium, one_day) {
        (Medium::Page, true) => plain(at.strftime("%H:%M:%S").to_string()),
        (Medium::Page, false) => plain(at.strftime("%b %-d %H:%M:%S").to_string()),
        (Medium::Text | Medium::Ticket, _) => Line::default().moment(at),
    };
    let row = |one: &TimelineEvent| {
        let key = match one.kind {
            HappenedKind::Alert => "report-kind-alert",
            HappenedKind::Onset => "report-kind-onset",
            HappenedKind::Restart => "report-kind-restart",
            HappenedKind::Presence => "report-kind-presence",
            HappenedKind::Rollout => "report-kind-rollout",
            HappenedKind::Silence => "report-kind-silence",
            HappenedKind::Message => "report-kind-message",
            HappenedKind::Act => "report-kind-act",
            HappenedKind::Note => "report-kind-note",
            HappenedKind::Log => "report-kind-log",
            HappenedKind::Event => "report-kind-event",
        };
        // A chat's id of a person does not leave the organisation.
        let is_of_people = matches!(one.kind, HappenedKind::Act | HappenedKind::Note | HappenedKind::Silence);
        let source = if is_of_people && medium == Medium::Ticket { "–" } else { one.source.as_str() };
        vec![time(one.at), words.line(key, &[]), Line::of(&one.what), plain(source)]
    };
    let heads = ["report-when", "report-kind", "report-what", "report-source"];
    // Nor does what colleagues write for each other.
    let leaves = |one: &&TimelineEvent| medium != Medium::Ticket || one.kind != HappenedKind::Note;
    vec![table("report-timeline", &heads, report.timeline.iter().filter(leaves).map(row), words)]
}

/// Builds the findings of logs, those with a root error first; logs without findings are named at the end.
pub(super) fn logs(report: &Report, medium: Medium, words: &Phrases) -> Vec<Block> {
    let silent = |log: &&AnalyzedLog| log.report.findings.is_empty() && log.report.unknown.count == 0;
    let (silent, mut logs): (Vec<&AnalyzedLog>, Vec<&AnalyzedLog>) = report.logs.iter().partition(silent);
    logs.sort_by_key(|log| (log.report.first_root.is_none(), log.report.findings.is_empty()));
    // Replicas fail alike, so each step is shown only once.
    let fix = report.diagnosis.iter().flat_map(|diagnosis| diagnosis.fix.now.iter().chain(&diagnosis.fix.lasting));
    let mut shown = Shown { medium, actions: fix.map(|fix| fix.action.trim()).collect(), findings: BTreeSet::new() };
    let most = most_of_logs(medium).0;
    let mut parts: Vec<Block> = Vec::new();
    let all = logs.len();
    for (i, log) in logs.into_iter().take(most).enumerate() {
        let root = log.report.findings.iter().find(|found| Some(&found.id) == log.report.first_root.as_ref());
        let state = root.map(|root| plain(" ").state(StateStyle::Bad, &root.title)).unwrap_or_default();
        let folding = if i == 0 { Folding::Open } else { Folding::Closed };
        let inside = findings(log, root, &mut shown, words);
        parts.push(group(format!("log/{}", log.name), code(&log.name).then(state), folding, inside));
    }
    parts.push(left_out(all, most, words));
    let named = silent.iter().take(most).map(|log| code(&log.name).small(code(&log.file)));
    parts.push(Block::Section(words.text("report-log-silent", &[]), named.collect()));
    parts.push(left_out(silent.len(), most, words));
    parts
}

/// The steps and findings that are shown already.
struct Shown<'a> {
    medium: Medium,
    actions: BTreeSet<&'a str>,
    findings: BTreeSet<&'a str>,
}

impl Shown<'_> {
    /// Returns true if a finding that is no root error is to be explained; a text, which does not fold, does it once.
    fn explains(&self, is_new: bool) -> bool {
        self.medium == Medium::Page || is_new
    }
}

fn findings<'a>(
    log: &'a AnalyzedLog,
    root: Option<&'a LogMatch>,
    shown: &mut Shown<'a>,
    words: &Phrases,
) -> Vec<Block> {
    let LogAnalysis { findings, unknown, .. } = &log.report;
    let unknown = if unknown.count > 0 { log_lines::unknown(unknown, words) } else { Vec::new() };
    let mut parts = vec![Block::Note(code(&log.file)), list(unknown)];
    let is_root = |found: &LogMatch| root.is_some_and(|root| std::ptr::eq(root, found));
    let others = findings.iter().filter(|found| !is_root(found));
    let most = most_of_logs(shown.medium).1;
    for found in root.into_iter().chain(others).take(most) {
        let (style, rank) = log_lines::rank(found.rank);
        let title = plain(&found.title).plain(" ").state(style, words.text(rank, &[]));
        let action = found.action.as_deref().map(str::trim).filter(|action| shown.actions.insert(action));
        let action = action.map(|action| words.line("report-log-do", &[("action", Line::of(action).into())]));
        let place =
            words.line("report-log-line", &[("line", found.line.to_string().into()), ("n", found.count.into())]);
        let place = found.first.iter().fold(place, |place, first| place.plain(" · ").plain(first));
        let is_new = shown.findings.insert(&found.id);
        let explains = is_root(found) || shown.explains(is_new);
        let (meaning, text) = if explains { (found.meaning.trim(), found.text.as_str()) } else { ("", "") };
        let meaning = paragraph(Line::of(meaning));
        let inside = vec![meaning, paragraph(action), code_block(text), Block::Note(place)];
        parts.push(group(&found.id, title, Folding::Never, inside));
    }
    parts.push(left_out(findings.len(), most, words));
    parts
}

/// Returns the names of the affected replicas.
fn affected_names(report: &Report) -> BTreeSet<&str> {
    let root = report.diagnosis.as_ref().and_then(Diagnosis::root).map(|root| &root.replicas);
    let radius = root.filter(|radius| !radius.affected.is_empty()).or(report.diagnosis.as_ref().map(|d| &d.replicas));
    radius.into_iter().flat_map(|radius| &radius.affected).map(String::as_str).collect()
}

/// Returns true if some replicas are affected and others are not: then a page shows at once which.
pub(super) fn affects_some(report: &Report) -> bool {
    let names = affected_names(report);
    !names.is_empty() && report.topology.iter().any(|replica| !names.contains(replica.name.as_str()))
}

/// Builds the replicas, the affected ones first, of which none is folded away.
pub(super) fn topology(report: &Report, words: &Phrases) -> Vec<Block> {
    let names = affected_names(report);
    let affected = |replica: &ReplicaInfo| names.contains(replica.name.as_str());
    let known = located_by_diagnosis(report.diagnosis.as_ref());
    let mut replicas: Vec<&ReplicaInfo> =
        if report.topology.is_empty() { known.iter().collect() } else { report.topology.iter().collect() };
    replicas.sort_by_key(|replica| &replica.node);
    let (hurt, others): (Vec<&ReplicaInfo>, Vec<&ReplicaInfo>) =
        replicas.into_iter().partition(|replica| affected(replica));
    let row = |replica: &&ReplicaInfo| {
        let name = code(&replica.name);
        let name = match affected(replica) {
            true => name.plain(" ").state(StateStyle::Bad, words.text("report-affected", &[])),
            false => name,
        };
        let node = replica.node.as_deref().map_or_else(|| words.line("expected-unknown", &[]), plain);
        vec![name, node, plain(replica.gpus.join(", ")), plain(&replica.role), plain(&replica.state)]
    };
    let heads = ["report-replica", "report-node", "report-gpus", "report-role", "report-state"];
    let more = left_out(hurt.len(), MAX_AFFECTED, words);
    let hurt = unfolded_table("report-hurt-replicas", &heads, hurt.iter().take(MAX_AFFECTED).map(row), words);
    vec![hurt, more, table("page-replicas", &heads, others.iter().map(row), words)]
}

/// Returns the replicas that the diagnosis locates, which are few.
fn located_by_diagnosis(diagnosis: Option<&Diagnosis>) -> Vec<ReplicaInfo> {
    let places = diagnosis.and_then(Diagnosis::root).into_iter().flat_map(|root| &root.replicas.places);
    let one = |(name, places): (&String, &Vec<String>)| {
        let (gpus, nodes): (Vec<String>, Vec<String>) = places.iter().cloned().partition(|p| p.starts_with("GPU"));
        ReplicaInfo { name: name.clone(), node: nodes.into_iter().next(), gpus, ..ReplicaInfo::default() }
    };
    places.map(one).collect()
}

/// Builds the alerts with their labels.
pub(super) fn alerts(report: &Report, words: &Phrases) -> Vec<Block> {
    let one = |(i, alert): (usize, &Alert)| {
        let (style, key) = match alert.status {
            AlertStatus::Firing => (StateStyle::Bad, "report-fires"),
            AlertStatus::Resolved => (StateStyle::Good, "report-ended"),
        };
        let title = plain(clip(alert.name(), 120)).plain(" ").state(style, words.text(key, &[]));
        let ended = alert.status == AlertStatus::Resolved && alert.ends_at > alert.starts_at;
        let since = Line::default().moment(alert.starts_at);
        let since = if ended { since.plain(" – ").moment(alert.ends_at) } else { since };
        let annotation = |(name, value): (&String, &String)| {
            let shown = clip(value, 1_000);
            (plain(name), if value.contains('`') { Line::of(&shown) } else { Line::default().link(shown, value) })
        };
        let since = (words.line("report-from", &[]), since);
        let about = pairs([since].into_iter().chain(alert.annotations.iter().map(annotation)));
        let folding = if i == 0 { Folding::Open } else { Folding::Closed };
        group(format!("alert/{i}"), title, folding, vec![about, paragraph(labels(&alert.labels))])
    };
    let shown = report.alerts.iter().take(MAX_LISTED).enumerate().map(one);
    shown.chain([left_out(report.alerts.len(), MAX_LISTED, words)]).collect()
}

/// Lists labels as code.
fn labels<'a>(labels: impl IntoIterator<Item = (&'a String, &'a String)>) -> Line {
    let one = |line: Line, (name, value): (&String, &String)| {
        line.code(format!("{}={}", clip(name, 80), clip(value, 300))).plain(" ")
    };
    labels.into_iter().fold(Line::default(), one)
}

/// Builds the alert rules.
pub(super) fn rules(report: &Report, words: &Phrases) -> Vec<Block> {
    let one = |(i, rule): (usize, &Rule)| {
        let style = match rule.state.as_str() {
            "firing" => StateStyle::Bad,
            "pending" => StateStyle::Warn,
            _ => StateStyle::Mute,
        };
        let hold = words.line("report-rule-for", &[("time", format_value(rule.for_seconds, Unit::Seconds).into())]);
        let error = Block::Gap(plain(rule.error.as_deref().unwrap_or_default()));
        let inside = vec![code_block(&rule.query), Block::Note(hold.plain(" ").then(labels(&rule.labels))), error];
        let title = plain(&rule.name).plain(" ").state(style, &rule.state);
        group(format!("rule/{i}"), title, Folding::Closed, inside)
    };
    let shown = report.rules.iter().take(MAX_LISTED).enumerate().map(one);
    shown.chain([left_out(report.rules.len(), MAX_LISTED, words)]).collect()
}

/// Builds the parts of the bundle and their stages.
pub(super) fn parts(report: &Report, words: &Phrases) -> Vec<Block> {
    let row = |part: &ReportPart| {
        let (style, key) = match part.stage {
            Stage::Waiting => (StateStyle::Mute, "report-stage-waiting"),
            Stage::Running => (StateStyle::Mute, "report-stage-running"),
            Stage::Done => (StateStyle::Good, "report-stage-done"),
            Stage::Partial => (StateStyle::Warn, "report-stage-partial"),
            Stage::Failed => (StateStyle::Bad, "report-stage-failed"),
            Stage::Skipped => (StateStyle::Mute, "report-stage-skipped"),
        };
        let size = if part.bytes > 0 { format_value(part.bytes as f64, Unit::Bytes) } else { String::new() };
        let took = format_value(part.took_seconds, Unit::Seconds);
        let state = Line::default().state(style, words.text(key, &[]));
        vec![plain(&part.name), state, Line::of(&part.note), plain(size), plain(took)]
    };
    let heads = ["report-part", "report-state", "report-note", "report-size", "report-took"];
    vec![table("report-parts", &heads, report.parts.iter().map(row), words)]
}

/// Builds the redactions by file and rule.
pub(super) fn redacted(report: &Report, words: &Phrases) -> Vec<Block> {
    let row = |one: &RedactionCount| vec![code(&one.place), plain(&one.rule), plain(one.count.to_string())];
    let heads = ["report-file", "report-rule", "report-count"];
    vec![table("report-redacted", &heads, report.redacted.iter().map(row), words)]
}

/// Builds the last time that the cause hit the pool, and the other open incidents; not for other organisations.
pub(super) fn related(view: &IncidentView<'_>, medium: Medium, words: &Phrases) -> Vec<Block> {
    if medium == Medium::Ticket {
        return Vec::new();
    }
    let open = related_incidents::open_here(view, words);
    let mut parts = related_incidents::last_time_blocks(view, words);
    if !open.is_empty() {
        parts.push(Block::Section(words.text("open-others", &[]), open));
    }
    parts
}

/// Builds the tickets, or the links to them.
pub(super) fn tickets(around: &ReportPageContext<'_>, words: &Phrases) -> Vec<Block> {
    if around.tickets.is_empty() && around.ticket_pages.is_empty() {
        return Vec::new();
    }
    let one = |(whom, form): &(String, String)| {
        group(format!("ticket/{whom}"), plain(whom), Folding::Closed, vec![code_block(form)])
    };
    let lead = Block::Note(words.line("report-tickets-lead", &[]));
    [lead].into_iter().chain(around.tickets.iter().map(one)).chain([links(around.ticket_pages)]).collect()
}

/// Builds the existing bundles of the incident, and how to create one.
pub(super) fn bundles(report: &Report, around: &ReportPageContext<'_>, words: &Phrases) -> Vec<Block> {
    let Some(incident) = report.incident.as_ref().filter(|_| around.live) else { return Vec::new() };
    let how = words.line("report-bundles-how", &[("incident", incident.id.as_str().into())]);
    let none = around.bundles.is_empty().then(|| words.line("report-no-bundles", &[]));
    vec![paragraph(how), Block::Gap(none.unwrap_or_default()), links(around.bundles)]
}

fn links(links: &[(String, String)]) -> Block {
    list(links.iter().map(|(label, url)| Line::default().link(label, url)))
}

//! The message of an incident, readable in 10 seconds on a phone. Details are behind "Show evidence".

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::facts::{
    FEW, affected_replicas_line, bullet, chain_summary, confidence, facts, join_limited, join_non_empty, misfit,
    no_data, radius,
};
use super::full_diagnosis::{diagnosis_notes, explain_no_root_cause, other_causes, step, unknown};
use super::promise::{burnt, promise};
use super::{
    IncidentView, PhraseArgument, Phrases, buttons, compared, latency, links_of, notes, own_alert, related, restart,
    rollout, screened,
};
use findings::scope::pool_name;
use findings::{
    CauseFound, Diagnosis, EvidenceResult, Fix, NOTICED_LATE, Outcome, Scope, SymptomFound, SymptomVerdict,
};
use knowledge::alert::{Alert, AlertStatus, Labels, active, common_labels};
use knowledge::clip::clip;
use knowledge::clock;
use knowledge::incident::{AdmitReason, ChangeReason, Impact};
use knowledge::signal::{Unit, format_value};
use message::{Block, Line, Message, TextSpan, Tone};

/// Maximum number of fix steps shown.
const STEPS: usize = 3;
/// Maximum number of preventive steps shown.
const LASTING: usize = 2;
/// Labels of alerts that other lines of the message already show.
const SHOWN_LABELS: [&str; 6] = ["alertname", "playbook", "severity", "cluster", "namespace", "model"];
/// Minimum number of earlier incidents in a day to call it flapping.
const SEEN_OFTEN: u32 = 3;
/// Minimum number of re-fires to call it flapping.
pub(super) const FLAPS: u32 = 2;

/// Builds the message of an incident.
pub fn incident_message(view: &IncidentView<'_>, words: &Phrases) -> Message {
    let mut parts: Vec<Block> = own_alert::self_test(view, words).into_iter().collect();
    let mut first = Vec::new();
    match (view.diagnosis, view.because) {
        (Some(diagnosis), _) => {
            let impact = first_sentence(&diagnosis.symptom.impact);
            first.extend(symptom(diagnosis, &impact, view.resolved_at.is_some(), words));
            first.extend(latency::parts(diagnosis, view.resolved_at.is_some(), words));
            first.extend(view.impact.and_then(|impact| meanwhile(&impact, words)));
            first.extend(flapping(view, words));
        }
        (None, Some(_)) => {
            first.push(words.line("looking", &[]));
            first.extend(flapping(view, words));
        }
        (None, None) => {
            let (title, lines) = own_alert::undiagnosed(view, words);
            parts.push(Block::Section(title, lines));
            first.extend(flapping(view, words));
        }
    }
    parts.push(Block::Section(String::new(), first));
    if let Some(diagnosis) = view.diagnosis {
        parts.extend(diagnosed(diagnosis, view, words));
    }
    parts.push(alerts(view, words));
    parts.extend(notes::others(view, words).into_iter().map(Block::Note));
    parts.extend(view.maintenance.as_ref().map(|window| Block::Note(notes::maintenance(window, words))));
    parts.push(Block::Note(foot(view, words)));
    if view.interactive {
        parts.push(buttons::of_incident(view, words));
    }
    Message { tone: tone(view), headline: headline(view, words), parts }
}

/// Returns the severity of an incident.
pub(super) fn tone(view: &IncidentView<'_>) -> Tone {
    if view.resolved_at.is_some() {
        return Tone::Good;
    }
    match view.diagnosis.map(|d| d.symptom.verdict) {
        Some(SymptomVerdict::Absent) => Tone::Unknown,
        _ if is_critical(view) => Tone::Critical,
        _ if is_warning(view) => Tone::Warning,
        _ => Tone::Firing,
    }
}

/// Returns true if an active alert has the severity `warning`. A severity of `info`, an unknown one or none does not
/// count.
pub(super) fn is_warning(view: &IncidentView<'_>) -> bool {
    let warns = |alert: &&Alert| matches!(alert.labels.get("severity").map(String::as_str), Some("warning" | "warn"));
    active(view.alerts).iter().any(warns)
}

/// Returns true if an active alert is critical.
pub(super) fn is_critical(view: &IncidentView<'_>) -> bool {
    active(view.alerts).iter().any(|alert| alert.is_critical())
}

/// Builds the headline, shown in the notification: state, symptom, pool and cause.
fn headline(view: &IncidentView<'_>, words: &Phrases) -> String {
    let why = view.diagnosis.map(|diagnosis| chain_summary(diagnosis, words)).unwrap_or_default();
    join_non_empty(&[state(view, words), symptom_or_alert_name(view), affected_pool(view), why])
}

/// Returns the word for the state: resolved after a duration, critical, warning, or firing.
pub(super) fn state(view: &IncidentView<'_>, words: &Phrases) -> String {
    match (view.resolved_at, tone(view)) {
        (Some(at), _) => {
            let duration = clock::human_duration(clock::between(view.started_at, at)).into();
            words.text("state-resolved", &[("duration", duration)])
        }
        (None, Tone::Critical) => words.text("state-critical", &[]),
        (None, Tone::Warning) => words.text("state-warning", &[]),
        (None, Tone::Firing | Tone::Good | Tone::Unknown) => words.text("state-firing", &[]),
    }
}

/// Returns the title of the symptom; the alert's name if the symptom is unknown or absent.
pub(super) fn symptom_or_alert_name(view: &IncidentView<'_>) -> String {
    let there = |symptom: &&SymptomFound| symptom.verdict != SymptomVerdict::Absent && !symptom.playbook.is_empty();
    match view.diagnosis.map(|diagnosis| &diagnosis.symptom).filter(there) {
        Some(symptom) => symptom.title.clone(),
        None => active(view.alerts).first().map(|a| clip(a.name(), 80)).unwrap_or_default(),
    }
}

/// Returns the name of the affected pool.
pub(super) fn affected_pool(view: &IncidentView<'_>) -> String {
    clip(&pool_name(&pool_labels(view)), 120)
}

/// Returns the labels of the affected pool.
pub(super) fn pool_labels(view: &IncidentView<'_>) -> Labels {
    match view.diagnosis {
        Some(diagnosis) => diagnosis.scope.labels.clone(),
        None => Scope::of_alerts(view.alerts).dimensions,
    }
}

/// Says that the incident is flapping; `None` if it is not.
pub(super) fn flapping(view: &IncidentView<'_>, words: &Phrases) -> Option<Line> {
    let refired = (view.refired > 0).then(|| words.text("flapping-refired", &[("n", view.refired.into())]));
    let seen = (view.seen_before >= SEEN_OFTEN).then(|| {
        // The text counts the current incident too.
        words.text("flapping-seen", &[("n", view.seen_before.saturating_add(1).into())])
    });
    if view.refired < FLAPS && view.seen_before < SEEN_OFTEN {
        return None;
    }
    let what = refired.into_iter().chain(seen).collect::<Vec<_>>().join(", ");
    Some(words.line("flapping", &[("what", what.into())]))
}

/// Says if the symptom is confirmed, its impact on users, and on which replicas: a line for each number.
pub(super) fn symptom(diagnosis: &Diagnosis, impact: &str, resolved: bool, words: &Phrases) -> Vec<Line> {
    let symptom = &diagnosis.symptom;
    let of = |outcome| facts(&symptom.evidence, outcome, words);
    let lines = match symptom.verdict {
        SymptomVerdict::Confirmed => {
            // The cause names the affected replicas more precisely.
            let affected = diagnosis.root().and_then(|root| affected_replicas_line(&shortened(root), words));
            let radius = if affected.is_some() { String::new() } else { radius(&diagnosis.replicas, words) };
            let key = if resolved { "symptom-was" } else { "symptom-confirmed" };
            let mut met = of(Outcome::Met).into_iter().take(FEW);
            let first = format!("{}{radius}", met.next().unwrap_or_default());
            let mut lines = vec![words.line(key, &[("facts", first.into())])];
            lines.extend(met.map(|fact| Line::default().plain(fact)));
            lines.extend((!impact.is_empty()).then(|| Line::default().plain(impact)));
            lines.extend(promise(diagnosis, words));
            lines.extend(affected);
            lines
        }
        SymptomVerdict::Absent => {
            let facts = join_limited(&of(Outcome::NotMet), FEW, ", ", words);
            let mut lines = vec![words.line("symptom-absent", &[("facts", facts.into())])];
            lines.extend(burnt(diagnosis, words));
            lines
        }
        SymptomVerdict::NoData => vec![no_data(diagnosis, words)],
    };
    screened::before(diagnosis, lines, words)
}

/// Returns the first sentence of a text.
fn first_sentence(text: &str) -> String {
    let text = text.trim();
    text.split_once(". ").map_or(text.to_owned(), |(first, _)| format!("{first}."))
}

/// Shortens the UUIDs of GPUs: beside the node's name, the first part is enough.
fn shortened(root: &CauseFound) -> CauseFound {
    let mut root = root.clone();
    for place in root.replicas.places.values_mut().flatten().filter(|place| place.starts_with("GPU-")) {
        *place = place.split('-').take(2).collect::<Vec<_>>().join("-");
    }
    root
}

/// Summarises the impact: failed and slow requests.
pub(super) fn meanwhile(impact: &Impact, words: &Phrases) -> Option<Line> {
    let count = |n: f64| PhraseArgument::from(format_value(n.round(), Unit::Requests));
    let Some(requests) = impact.requests.filter(|n| n.round() >= 1.0) else {
        let failed = impact.failed.filter(|n| n.round() >= 1.0)?;
        return Some(words.line("meanwhile-failures", &[("n", count(failed))]));
    };
    let bad = |key, n: Option<f64>| {
        let n = n.filter(|n| n.round() >= 1.0)?;
        let share = format_value((n / requests).min(1.0), Unit::Ratio).into();
        Some(words.text(key, &[("n", count(n)), ("share", share)]))
    };
    let shares: String =
        bad("meanwhile-failed", impact.failed).into_iter().chain(bad("meanwhile-slow", impact.slow)).collect();
    Some(words.line("meanwhile", &[("requests", count(requests)), ("bad", shares.into())]))
}

fn diagnosed(diagnosis: &Diagnosis, view: &IncidentView<'_>, words: &Phrases) -> Vec<Block> {
    let resolved = view.resolved_at.is_some();
    let (mut parts, mut details) = (Vec::new(), Vec::new());
    match diagnosis.root() {
        Some(root) => {
            let judged = notes::judgement(view, words);
            let changed = rollout::in_short(diagnosis, words);
            let lines = judged.into_iter().chain(chain(diagnosis, root, words)).chain(changed).collect();
            parts.push(Block::Section(words.text("why", &[]), lines));
            details = reservations(diagnosis, root, words);
        }
        None if diagnosis.symptom.verdict == SymptomVerdict::Confirmed => {
            parts.push(Block::Section(words.text("why", &[]), explain_no_root_cause(diagnosis, words)));
        }
        None => {}
    }
    // While the incident is open only the steps to do now; the rest is behind "Show evidence".
    match resolved {
        false => parts.extend(steps(diagnosis, view, words)),
        true => parts.extend(lasting(diagnosis, words)),
    }
    parts.extend(related::last_time(view, words).map(Block::Paragraph));
    if !details.is_empty() {
        parts.push(Block::Section(words.text("why-sure", &[]), details));
    }
    let mut odd = diagnosis_notes(diagnosis, words);
    if !odd.is_empty() {
        odd.truncate(FEW);
        parts.push(Block::Section(words.text("while-looking", &[]), odd));
    }
    let open = related::open_here(view, words);
    if !open.is_empty() {
        parts.push(Block::Section(words.text("open-others", &[]), open));
    }
    if !resolved {
        parts.extend(screened::other_symptoms(diagnosis, words));
    }
    parts
}

/// Renders the steps to do now: with a button beside each if clicks are received, else with the check that verifies it.
fn steps(diagnosis: &Diagnosis, view: &IncidentView<'_>, words: &Phrases) -> Vec<Block> {
    let now = &diagnosis.fix.now;
    let title = match now.len() {
        0 => return Vec::new(),
        n if n > STEPS => words.text("do-now-some", &[("shown", STEPS.into()), ("n", n.into())]),
        _ => words.text("do-now", &[]),
    };
    let shown = now.iter().take(STEPS);
    if !view.interactive {
        let brief = |fix: &Fix| step(&Fix { source: None, ..fix.clone() }, words);
        return vec![Block::Steps(title, shown.map(brief).collect())];
    }
    let one = |(i, fix): (usize, &Fix)| {
        let mark = if notes::is_done(fix, view.notes) { "✓ " } else { "" };
        let line = Line::default().plain(format!("{}. {mark}", i + 1)).then(Line::of(&fix.action.replace('\n', " ")));
        let step = match buttons::of_step(view, i, fix, words) {
            Some(button) => Block::Beside(line, button),
            None => Block::Paragraph(line),
        };
        std::iter::once(step).chain(restart::cost(fix, words).map(Block::Note))
    };
    std::iter::once(Block::Section(title, Vec::new())).chain(shown.enumerate().flat_map(one)).collect()
}

/// Renders the steps that prevent a recurrence.
fn lasting(diagnosis: &Diagnosis, words: &Phrases) -> Option<Block> {
    let steps = diagnosis.fix.lasting.iter().take(LASTING);
    let steps: Vec<Line> = steps.map(|fix| bullet(Line::of(&fix.action.replace('\n', " ")))).collect();
    (!steps.is_empty()).then(|| Block::Section(words.text("lasting", &[]), steps))
}

/// Renders the chain with its times, and the evidence for it.
fn chain(diagnosis: &Diagnosis, root: &CauseFound, words: &Phrases) -> Vec<Line> {
    let since = |id: &str| diagnosis.timeline.iter().find(|onset| onset.id == id).map(|onset| TextSpan::Time(onset.at));
    let mut lines: Vec<Line> = root
        .via
        .iter()
        .map(|link| {
            let title = ("title", link.title.as_str().into());
            match since(&link.id) {
                Some(at) => words.line("chain-short-since", &[title, ("at", at.into())]),
                None => words.line("chain-short", &[title]),
            }
        })
        .collect();
    let pieces = [("title", root.title.as_str().into()), ("verdict", confidence(root, words).into())];
    lines.push(match since(&root.id) {
        Some(at) => {
            let [title, verdict] = pieces;
            words.line("chain-root-since", &[title, verdict, ("at", at.into())])
        }
        None => words.line("chain-root", &pieces),
    });
    if let Some(first) = lines.first_mut() {
        *first = latency::explained(std::mem::take(first), root, words);
    }
    lines.push(evidence_for(root, words));
    lines
}

/// Returns the checks of a cause and of its chain.
fn checks(root: &CauseFound) -> impl Iterator<Item = &EvidenceResult> + Clone {
    root.evidence.iter().chain(root.via.iter().rev().flat_map(|link| &link.evidence))
}

/// Renders the most telling fact for a cause, and the number of checks that agree.
fn evidence_for(root: &CauseFound, words: &Phrases) -> Line {
    let agree = checks(root).filter(|e| e.outcome == Outcome::Met).count();
    let known = checks(root).filter(|e| e.outcome != Outcome::NoData).count();
    let met = facts(checks(root), Outcome::Met, words).into_iter().next().unwrap_or_default();
    words.line("evidence-for", &[("facts", met.into()), ("agree", agree.into()), ("known", known.into())])
}

/// Renders what speaks against a cause or was not seen, what it was compared with, and the causes beside it.
fn reservations(diagnosis: &Diagnosis, root: &CauseFound, words: &Phrases) -> Vec<Line> {
    let of = |outcome| facts(checks(root), outcome, words);
    // Two checks of one number may differ: one fact is not for and against at the same time.
    let met = of(Outcome::Met);
    let against: Vec<String> = of(Outcome::NotMet).into_iter().filter(|fact| !met.contains(fact)).collect();
    let mut lines = Vec::new();
    if !against.is_empty() {
        lines.push(words.line("evidence-against", &[("facts", join_limited(&against, 2, ", ", words).into())]));
    }
    if let Some(titles) = unknown(checks(root), words) {
        lines.push(words.line("evidence-unknown", &[("titles", titles.into())]));
    }
    // Signals that count finished requests show an onset later; only larger contradictions are reported.
    lines.extend(misfit(diagnosis, NOTICED_LATE, words));
    lines.extend(compared::of_chain(diagnosis, words));
    let not: Vec<String> = diagnosis.ruled_out.iter().map(|cause| cause.title.clone()).collect();
    if !not.is_empty() {
        lines.push(words.line("not-those", &[("titles", join_limited(&not, 2, "; ", words).into())]));
    }
    lines.extend(other_causes(diagnosis, words));
    lines
}

fn alerts(view: &IncidentView<'_>, words: &Phrases) -> Block {
    let firing = view.alerts.iter().filter(|a| a.status == AlertStatus::Firing).count();
    let active = active(view.alerts);
    let mut names: Vec<String> = active.iter().map(|a| clip(a.name(), 80)).collect();
    names.sort();
    names.dedup();
    let names = ("names", super::facts::few(&names, words).into());
    // An alert that came back, or whose start was corrected, is one alert with several episodes.
    let all: BTreeSet<&Labels> = view.alerts.iter().map(|a| &a.labels).collect();
    let mut lines = vec![match view.resolved_at.is_some() {
        true => words.line("alerts-resolved", &[("n", all.len().into()), names]),
        false => words.line("alerts-firing", &[("n", firing.into()), names]),
    }];
    if view.truncated > 0 {
        lines.push(words.line("alerts-left-out", &[("n", view.truncated.into())]));
    }
    let summaries = active.iter().filter_map(|a| a.annotations.get("summary"));
    if let Some(summary) = summaries.into_iter().find(|s| !s.trim().is_empty()) {
        lines.push(Line::default().plain(clip(summary.trim(), 160)));
    }
    let whose: Vec<&String> = view.diagnosis.map(|d| d.scope.labels.values().collect()).unwrap_or_default();
    let labels: Vec<String> = common_labels(&active)
        .iter()
        .filter(|(name, value)| !SHOWN_LABELS.contains(&name.as_str()) && !whose.contains(value))
        .map(|(name, value)| format!("{}={}", clip(name, 40), clip(value, 60)))
        .collect();
    if !labels.is_empty() {
        lines.push(Line::default().code(clip(&labels.join(" "), 160)));
    }
    Block::Section(words.text("alerts", &[]), lines)
}

/// Builds the last line: id, start, reason of the last update, and links.
fn foot(view: &IncidentView<'_>, words: &Phrases) -> Line {
    let since: Timestamp = view.started_at;
    let mut reason = reason(view.reason, words);
    if view.refired > 0 {
        reason = format!("{reason}, {}", words.text("refired", &[("n", view.refired.into())]));
    }
    let mut line = words.line(
        "since-reason",
        &[("id", view.id.into()), ("since", TextSpan::Time(since).into()), ("reason", reason.into())],
    );
    for (label, url) in links_of(view, words) {
        line = line.plain(" · ").link(label, url);
    }
    line
}

/// Returns the text for the reason of the last change.
fn reason(reason: Option<&ChangeReason>, words: &Phrases) -> String {
    let Some(reason) = reason else { return String::new() };
    let key = match reason {
        ChangeReason::Notification(AdmitReason::First) => "reason-first",
        ChangeReason::Notification(AdmitReason::NewAlerts) => "reason-new-alerts",
        ChangeReason::Notification(AdmitReason::FewerAlerts) => "reason-fewer-alerts",
        ChangeReason::Notification(AdmitReason::StillFiring) => "reason-still-firing",
        ChangeReason::Notification(AdmitReason::Resolved) => "reason-resolved",
        ChangeReason::Notification(AdmitReason::Refired) => "reason-refired",
        ChangeReason::Stale => "reason-stale",
        ChangeReason::Unreadable => "reason-unreadable",
        ChangeReason::ReadableAgain => "reason-readable-again",
        // These change nothing that a message shows, and the words of another version are its own.
        ChangeReason::Notification(AdmitReason::Duplicate | AdmitReason::Late | AdmitReason::ResolvedUnseen)
        | ChangeReason::Other(_) => return reason.as_str().replace('_', " "),
    };
    words.text(key, &[])
}

/// Returns the number of affected replicas and of all, as the thread and the digest show them.
pub(super) fn hit(diagnosis: &Diagnosis) -> (usize, usize) {
    let of = diagnosis.root().map_or(&diagnosis.replicas, |root| &root.replicas);
    match (of.affected.len(), diagnosis.replicas.affected.len()) {
        (0, n) => (n, diagnosis.replicas.total),
        (n, _) => (n, of.total),
    }
}

//! The first section of a report, readable in thirty seconds by a person who did not follow the incident.

use super::{Medium, ReportPageContext, list, pairs, paragraph, plain};
use crate::{IncidentView, Phrases, facts, full_diagnosis, headline, latency, own_alert, symptom};
use findings::{Diagnosis, Outcome, SymptomVerdict};
use knowledge::clock;
use message::{Block, Line, StateStyle, TextSpan};
use report::Report;

/// Returns the pieces of the line above the title: the state, the incident's id, and the time zone.
pub(super) fn above(report: &Report, view: &IncidentView<'_>, words: &Phrases) -> Vec<Line> {
    let (tone, state) = match view.diagnosis.filter(|_| report.incident.is_none() && report.alerts.is_empty()) {
        // Nothing is firing: a user requested the diagnosis.
        Some(diagnosis) => {
            let (tone, key) = full_diagnosis::verdict_tone(diagnosis);
            (tone, words.text(key, &[]))
        }
        None => (headline::tone(view), headline::state(view, words)),
    };
    let id = (!view.id.is_empty()).then(|| Line::default().code(view.id));
    let state = Line::default().state(StateStyle::of(tone), state);
    [state].into_iter().chain(id).chain([words.line("report-utc", &[])]).collect()
}

/// Summarises the affected pool, the symptom, the start, the cause and who is on it.
pub(super) fn summary(
    report: &Report,
    view: &IncidentView<'_>,
    around: &ReportPageContext<'_>,
    medium: Medium,
    words: &Phrases,
) -> Vec<Block> {
    let pool = match view.diagnosis {
        Some(diagnosis) => {
            let labels = diagnosis.scope.labels.iter().map(|(name, value)| TextSpan::Code(format!("{name}={value}")));
            Line(labels.flat_map(|label| [label, TextSpan::Plain(" ".to_owned())]).collect())
        }
        None => plain(headline::affected_pool(view)),
    };
    let failed = report.parts.iter().filter(|part| part.stage.is_trouble());
    let failed: Vec<&str> = failed.map(|part| part.name.as_str()).collect();
    let failed = (!failed.is_empty()).then(|| {
        let incomplete = words.line("report-incomplete", &[("parts", failed.join(", ").into())]);
        match medium {
            Medium::Page | Medium::Text => incomplete.plain(" ").then(words.line("report-incomplete-why", &[])),
            // A ticket holds no parts of a bundle.
            Medium::Ticket => incomplete,
        }
    });
    let mut parts = vec![paragraph(pool)];
    parts.extend(lead(report, view, words).into_iter().map(paragraph));
    parts.extend([
        pairs(facts_of(report, view, around.live, medium, words)),
        Block::Gap(failed.unwrap_or_default()),
        list(around.actions.iter().map(|(label, url)| Line::default().link(label, url))),
    ]);
    parts
}

/// Describes the symptom, a line for each number, else the reason why there is none.
fn lead(report: &Report, view: &IncidentView<'_>, words: &Phrases) -> Vec<Line> {
    let resolved = view.resolved_at.is_some();
    let mut lines = match (view.diagnosis, view.because) {
        (Some(diagnosis), _) => symptom::lines(diagnosis, diagnosis.symptom.impact.trim(), resolved, words),
        (None, Some(_)) if resolved => vec![words.line("report-not-diagnosed", &[])],
        (None, Some(_)) => vec![words.line("looking", &[])],
        (None, None) => own_alert::undiagnosed(view, words).1.into_iter().take(1).collect(),
    };
    let latency = view.diagnosis.and_then(|diagnosis| latency::parts_with_share(diagnosis, resolved, words));
    let cost = report.incident.as_ref().and_then(|incident| symptom::meanwhile(&incident.impact?, words));
    lines.extend(latency.into_iter().chain(cost).chain(symptom::flapping(view, words)));
    lines
}

fn facts_of(
    report: &Report,
    view: &IncidentView<'_>,
    live: bool,
    medium: Medium,
    words: &Phrases,
) -> Vec<(Line, Line)> {
    let mut facts = vec![match &report.incident {
        Some(incident) => {
            let ended = view.resolved_at;
            let lasted = clock::between(incident.started_at, ended.unwrap_or(report.made_at));
            let key = match (ended, live) {
                (Some(_), _) => "report-lasted",
                (None, true) => "report-lasts",
                (None, false) => "report-lasted-then",
            };
            let since = Line::default().moment(incident.started_at);
            let since = ended.into_iter().fold(since, |since, at| since.plain(" – ").moment(at));
            let lasted = words.line(key, &[("time", clock::human_duration(lasted).into())]);
            ("report-since", since.small(lasted))
        }
        None => {
            ("report-at", Line::default().moment(view.diagnosis.map_or(report.window.to, |diagnosis| diagnosis.at)))
        }
    }];
    facts.extend(facts::alerted(&report.alerts, words).map(|alerts| ("report-alerted", plain(alerts))));
    facts.push(("report-hurt", affected_replicas(view.diagnosis, words)));
    facts.push(("report-root", cause(view.diagnosis, words)));
    // On a page the steps stand below the first screen.
    let is_open = report.incident.as_ref().is_some_and(|incident| incident.open);
    let steps = view.diagnosis.map_or(0, |diagnosis| diagnosis.fix.now.len());
    if is_open && steps > 0 && medium == Medium::Page {
        let steps = words.text("report-steps", &[("n", steps.into())]);
        facts.push(("report-fixes", Line::default().link(steps, "#do")));
    }
    // A chat's id of a person is of no use outside of the organisation, and does not leave it.
    if let Some(incident) = report.incident.as_ref().filter(|_| medium != Medium::Ticket) {
        let who = match &incident.acknowledged {
            Some(by) => Line(vec![TextSpan::User(by.who.clone())]).small(Line::default().time(by.at)),
            None if incident.open => words.line("report-nobody", &[]),
            None => plain("–"),
        };
        facts.push(("report-on-it", who));
    }
    facts.into_iter().map(|(key, value)| (words.line(key, &[]), value)).collect()
}

/// Names the cause, with its probability and the number of checks that agree.
fn cause(diagnosis: Option<&Diagnosis>, words: &Phrases) -> Line {
    let Some(root) = diagnosis.and_then(Diagnosis::root) else {
        let is_calm = |diagnosis: &Diagnosis| {
            diagnosis.screening.as_ref().is_some_and(|screened| screened.also.is_empty() && screened.slight.is_empty())
        };
        let key = match diagnosis.map(|diagnosis| (diagnosis.symptom.verdict, is_calm(diagnosis))) {
            Some((SymptomVerdict::Absent, true)) => "report-nothing",
            Some((SymptomVerdict::Absent, false)) => "report-absent",
            Some((SymptomVerdict::Confirmed, _)) => "why-nothing",
            Some((SymptomVerdict::NoData, _)) | None => "report-no-cause",
        };
        return words.line(key, &[]);
    };
    let all = || root.evidence.iter().chain(root.via.iter().flat_map(|link| &link.evidence));
    let agree = all().filter(|e| e.outcome == Outcome::Met).count();
    let known = all().filter(|e| e.outcome != Outcome::NoData).count();
    let sure = facts::confidence(root, words);
    let pieces = [("sure", sure.into()), ("agree", agree.into()), ("known", known.into())];
    plain(&root.title).small(words.line("report-agree", &pieces))
}

/// Counts the affected replicas and all, and names some.
fn affected_replicas(diagnosis: Option<&Diagnosis>, words: &Phrases) -> Line {
    let Some(diagnosis) = diagnosis else { return words.line("report-unknown", &[]) };
    let radius = match diagnosis.root() {
        Some(root) if !root.replicas.affected.is_empty() => &root.replicas,
        _ => &diagnosis.replicas,
    };
    match (radius.affected.len(), radius.total) {
        (0, 0) => words.line("report-whole-pool", &[]),
        (n, total) if n == 0 || n >= total => words.line("report-all", &[("total", total.max(n).into())]),
        (n, total) => {
            let some = words.line("report-some", &[("n", n.into()), ("total", total.into())]);
            some.small(plain(facts::few(&radius.affected, words)))
        }
    }
}

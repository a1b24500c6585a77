//! Every sentence we say about an incident or a diagnosis. A reviewer can read all of it here.

mod direct;

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;

use super::{Line, Message, Part, Tone};
use crate::alert::{Alert, AlertStatus, Labels, active, common_labels};
use crate::clock;
use crate::diagnose::{
    CauseFound, Diagnosis, EvidenceResult, Fix, NO_PAST, Outcome, RuledOut, Source, SymptomVerdict, Verdict,
};
use crate::signal::{Unit, format_change, format_value};

/// How many items of a list are said before "and N more".
const FEW: usize = 3;

/// What is known of an incident besides its diagnosis.
#[derive(Debug, Clone, PartialEq)]
pub struct IncidentView<'a> {
    /// The incident's id.
    pub id: &'a str,
    /// Every alert seen, resolved ones included.
    pub alerts: &'a [Alert],
    /// Alerts that Alertmanager left out.
    pub truncated: u64,
    /// Resolved.
    pub resolved_at: Option<Timestamp>,
    /// When the first alert began to fire.
    pub started_at: Timestamp,
    /// Why this message changed last: `new alerts`, `still firing`.
    pub reason: &'a str,
    /// Why the playbook was chosen; none when nothing matched.
    pub because: Option<&'a str>,
    /// How often it re-fired.
    pub refired: u32,
    /// The page of this incident.
    pub page: Option<String>,
    /// The Prometheus that was asked.
    pub prometheus: Option<&'a str>,
    /// The diagnosis, once there is one.
    pub diagnosis: Option<&'a Diagnosis>,
}

/// The message of an incident.
pub fn incident_message(view: &IncidentView<'_>) -> Message {
    let tone = tone(view);
    let mut parts = Vec::new();
    match (view.diagnosis, view.because) {
        (Some(diagnosis), _) => parts.extend(diagnosis_parts(diagnosis, view.resolved_at.is_some())),
        (None, Some(_)) => parts.push(Part::Paragraph(Line::default().bold("Looking at the evidence …"))),
        (None, None) => parts.push(Part::Section("No playbook for this alert".into(), vec![
            Line::of("Nothing was diagnosed. Add the alert's name to a playbook's `matches`, or give the alert the label `playbook`."),
        ])),
    }
    parts.push(alerts_part(view));
    parts.push(Part::Note(links(view)));
    Message { tone, headline: headline(view, tone), parts }
}

/// The message of a diagnosis that somebody asked for.
pub fn diagnosis_message(diagnosis: &Diagnosis, prometheus: Option<&str>) -> Message {
    let tone = match diagnosis.symptom.verdict {
        SymptomVerdict::Confirmed => Tone::Critical,
        SymptomVerdict::Absent => Tone::Good,
        SymptomVerdict::NoData => Tone::Unknown,
    };
    let mut parts = diagnosis_parts(diagnosis, false);
    let mut foot = Line::default().plain(foot(diagnosis));
    if let Some(link) = graph(diagnosis, prometheus) {
        foot = foot.plain(" · ").link("Prometheus", link);
    }
    parts.push(Part::Note(foot));
    let headline =
        [word(diagnosis).to_owned(), diagnosis.symptom.title.clone(), whom(&diagnosis.scope.labels), why(diagnosis)];
    Message { tone, headline: said(&headline), parts }
}

fn said(parts: &[String]) -> String {
    parts.iter().filter(|p| !p.is_empty()).map(String::as_str).collect::<Vec<_>>().join(" · ")
}

fn word(diagnosis: &Diagnosis) -> &'static str {
    match diagnosis.symptom.verdict {
        SymptomVerdict::Confirmed => "Confirmed",
        SymptomVerdict::Absent => "Not confirmed",
        SymptomVerdict::NoData => "Cannot tell",
    }
}

fn tone(view: &IncidentView<'_>) -> Tone {
    if view.resolved_at.is_some() {
        return Tone::Good;
    }
    let critical = active(view.alerts)
        .iter()
        .any(|a| matches!(a.labels.get("severity").map(String::as_str), Some("critical" | "page")));
    match (critical, view.diagnosis.map(|d| d.symptom.verdict)) {
        (_, Some(SymptomVerdict::Absent)) => Tone::Unknown,
        (true, _) => Tone::Critical,
        (false, _) => Tone::Warning,
    }
}

/// What, who is hurt, why: the line that shows in the notification.
fn headline(view: &IncidentView<'_>, tone: Tone) -> String {
    let active = active(view.alerts);
    let state = match (view.resolved_at, tone) {
        (Some(at), _) => format!("RESOLVED after {}", clock::spoken(clock::between(view.started_at, at))),
        (None, Tone::Critical) => "CRITICAL".to_owned(),
        (None, Tone::Warning) => "WARNING".to_owned(),
        (None, Tone::Good | Tone::Unknown) => "FIRING, not confirmed".to_owned(),
    };
    let what = match view.diagnosis {
        Some(diagnosis) => diagnosis.symptom.title.clone(),
        None => active.first().map(|a| a.name().to_owned()).unwrap_or_default(),
    };
    let whom = match view.diagnosis {
        Some(diagnosis) => whom(&diagnosis.scope.labels),
        None => whom(&crate::diagnose::Scope::of_alerts(view.alerts).dimensions),
    };
    said(&[state, what, whom, view.diagnosis.map(why).unwrap_or_default()])
}

fn whom(labels: &Labels) -> String {
    ["cluster", "namespace", "model"].iter().filter_map(|name| labels.get(*name)).cloned().collect::<Vec<_>>().join("/")
}

/// The best chain in a few words: `KV cache is exhausted ← prompts became longer`.
fn why(diagnosis: &Diagnosis) -> String {
    match (diagnosis.root(), diagnosis.symptom.verdict) {
        (Some(cause), _) => {
            let maybe = if cause.verdict == Verdict::Likely { "" } else { "possibly " };
            let links: Vec<&str> = cause.via.iter().map(|j| j.title.as_str()).chain([cause.title.as_str()]).collect();
            format!("{maybe}{}", links.join(" ← "))
        }
        (None, SymptomVerdict::Confirmed) => "no cause stands out".to_owned(),
        (None, SymptomVerdict::Absent) => "nothing wrong to be seen now".to_owned(),
        (None, SymptomVerdict::NoData) => "the evidence is missing".to_owned(),
    }
}

fn diagnosis_parts(diagnosis: &Diagnosis, resolved: bool) -> Vec<Part> {
    let mut parts = vec![symptom_part(diagnosis, resolved)];
    if let Some(part) = chain_part(diagnosis) {
        parts.push(part);
    }
    if !resolved && !diagnosis.fix.now.is_empty() {
        parts.push(Part::Steps("Do now".into(), diagnosis.fix.now.iter().map(step).collect()));
    }
    if !diagnosis.fix.lasting.is_empty() {
        parts.push(Part::Section(
            "So that it does not come back".into(),
            diagnosis.fix.lasting.iter().map(|f| bullet(step(f))).collect(),
        ));
    }
    if !diagnosis.ruled_out.is_empty() {
        parts.push(ruled_out_part(&diagnosis.ruled_out));
    }
    if !diagnosis.unchecked.is_empty() {
        parts.push(unchecked_part(diagnosis));
    }
    let direct = diagnosis.direct.as_ref().map(direct::read_directly).unwrap_or_default();
    let mut lines = direct.iter().chain(&diagnosis.problems).chain(&diagnosis.scope.notes).peekable();
    if lines.peek().is_some() {
        let lines = lines.map(|p| bullet(Line::default().plain(p.clone())));
        parts.push(Part::Section("While looking".into(), lines.collect()));
    }
    parts
}

fn symptom_part(diagnosis: &Diagnosis, resolved: bool) -> Part {
    let symptom = &diagnosis.symptom;
    let radius = match (diagnosis.replicas.affected.len(), diagnosis.replicas.total) {
        (_, 0) => String::new(),
        (0, total) => format!(" in a pool of {}", replicas(total)),
        (n, total) if n >= total => format!(" on all {}", replicas(total)),
        (n, total) => format!(" on {n} of {}: {}", replicas(total), few(&diagnosis.replicas.affected)),
    };
    let line = Line::default().bold(match symptom.verdict {
        SymptomVerdict::Confirmed if resolved => "It was",
        SymptomVerdict::Confirmed => "Confirmed",
        SymptomVerdict::Absent => "Not confirmed",
        SymptomVerdict::NoData => "Cannot tell",
    });
    let of = |outcome: Outcome| -> Vec<String> {
        symptom.evidence.iter().filter(|e| e.outcome == outcome).map(fact).collect()
    };
    let line = match symptom.verdict {
        SymptomVerdict::Confirmed => {
            line.plain(format!(": {}{radius}. {}", of(Outcome::Met).join(", "), symptom.impact.trim()))
        }
        SymptomVerdict::Absent => line.plain(format!(
            ": {} — it may be over, or the alert is stricter than this check.",
            of(Outcome::NotMet).join(", ")
        )),
        SymptomVerdict::NoData => line.plain(format!(": no data for {}.", of(Outcome::NoData).join(", "))),
    };
    Part::Paragraph(line)
}

fn replicas(n: usize) -> String {
    if n == 1 { "1 replica".to_owned() } else { format!("{n} replicas") }
}

fn few(names: &[String]) -> String {
    let shown = names.iter().take(FEW).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(FEW) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// One check as a fact: `KV cache peak 99 %`, `prompt length 3.9k tokens (2.2x, was 1.8k tokens)`.
fn fact(e: &EvidenceResult) -> String {
    let fact = value(e);
    if e.source == Source::Exporter { format!("{fact} (read directly)") } else { fact }
}

fn value(e: &EvidenceResult) -> String {
    match (e.value, e.baseline) {
        (Some(value), Some(baseline)) => format!("{} {}", e.title, format_change(value, baseline, e.unit)),
        (Some(value), None) => format!("{} {}", e.title, format_value(value, e.unit)),
        (None, _) if e.outcome == Outcome::NoData => e.title.clone(),
        (None, _) => format!("{}: none", e.title),
    }
}

fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Likely => "likely",
        Verdict::Possible => "possible",
        Verdict::Unlikely => "unlikely",
        Verdict::Undetermined => "cannot tell",
        Verdict::RuledOut => "ruled out",
    }
}

fn chain_part(diagnosis: &Diagnosis) -> Option<Part> {
    let Some(best) = diagnosis.root() else {
        let text = match diagnosis.symptom.verdict {
            SymptomVerdict::Confirmed => {
                "No cause stands out: everything that could be checked speaks against the known causes."
            }
            SymptomVerdict::Absent | SymptomVerdict::NoData => return None,
        };
        return Some(Part::Section("Why".into(), vec![Line::default().plain(text)]));
    };
    let mut lines: Vec<Line> = best.via.iter().map(|j| link_line(&j.title, j.verdict, &j.evidence)).collect();
    lines.push(link_line(&best.title, best.verdict, &best.evidence));
    if let Some(line) = who(best) {
        lines.push(line);
    }
    lines.extend(story(diagnosis));
    let meaning = best.meaning.trim();
    if !meaning.is_empty() {
        lines.push(Line::default().plain(meaning.replace('\n', " ")));
    }
    let others: Vec<String> =
        diagnosis.causes.iter().skip(1).take(FEW).map(|c| format!("{} ({})", c.title, verdict(c.verdict))).collect();
    if !others.is_empty() {
        lines.push(Line::default().plain(format!("Also to be considered: {}", others.join("; "))));
    }
    Some(Part::Section("Why".into(), lines))
}

fn link_line(title: &str, sure: Verdict, evidence: &[EvidenceResult]) -> Line {
    let agree = evidence.iter().filter(|e| e.outcome == Outcome::Met).count();
    let mut met: Vec<String> = Vec::new();
    for fact in evidence.iter().filter(|e| e.outcome == Outcome::Met).map(fact) {
        // Two checks on one number are one fact.
        if !met.contains(&fact) {
            met.push(fact);
        }
    }
    let known = evidence.iter().filter(|e| e.outcome != Outcome::NoData).count();
    let unknown = evidence.len() - known;
    let blind = if unknown > 0 { format!(", {unknown} without data") } else { String::new() };
    Line::default().plain("← ").bold(title).plain(format!(
        " — {}: {} ({} of {known} checks agree{blind})",
        verdict(sure),
        met.join(", "),
        agree
    ))
}

/// What began when, the cause first: `prompt length 2.2x 14:02 → KV cache peak 99 % 14:05 → TTFT p99 8.2 s 14:06`.
fn story(diagnosis: &Diagnosis) -> Option<Line> {
    if diagnosis.timeline.len() < 2 {
        return None;
    }
    let mut line = Line::default().plain("Began: ");
    for (i, onset) in diagnosis.timeline.iter().enumerate() {
        let e = &onset.evidence;
        let much = match (e.value, e.baseline) {
            (Some(value), Some(baseline)) if baseline.abs() > 1e-9 => format_value(value / baseline, Unit::Factor),
            (Some(value), _) => format_value(value, e.unit),
            (None, _) => String::new(),
        };
        line = line.plain(format!("{}{} {much} ", if i == 0 { "" } else { " → " }, e.title)).time(onset.at);
    }
    Some(line)
}

fn who(cause: &CauseFound) -> Option<Line> {
    let radius = &cause.replicas;
    let (n, total) = (radius.affected.len(), radius.total);
    match n {
        0 => None,
        n if n >= total => Some(Line::default().plain(format!("Hits all {}.", replicas(total)))),
        n => {
            let mut line =
                Line::default().plain(format!("Hits {n} of {}: ", replicas(total))).bold(few(&radius.affected));
            let places: BTreeSet<&str> = radius.places.values().flatten().map(String::as_str).collect();
            if !places.is_empty() {
                line = line.plain(format!(" on {}", places.into_iter().collect::<Vec<_>>().join(", ")));
            }
            let share = radius.traffic.map(|share| format!(", {} of the traffic", format_value(share, Unit::Ratio)));
            Some(line.plain(share.unwrap_or_default()))
        }
    }
}

fn step(fix: &Fix) -> Line {
    let mut line = Line::of(&fix.action.replace('\n', " "));
    if let Some(check) = &fix.verify {
        line = line.plain(format!(" — worked when {} {}", check.title, check.when));
    }
    match &fix.source {
        Some(url) => line.plain(" (").link("source", url).plain(")"),
        None => line,
    }
}

fn bullet(line: Line) -> Line {
    Line::default().plain("• ").then(line)
}

/// The nearest misses in words, the rest by name: everything is in the JSON.
fn ruled_out_part(list: &[RuledOut]) -> Part {
    let mut lines: Vec<Line> = list
        .iter()
        .take(FEW)
        .map(|r| {
            let because =
                r.because.as_ref().map(|e| format!(" — {} (would need {})", fact(e), e.when)).unwrap_or_default();
            bullet(Line::default().plain(format!("{}{because}", r.title)))
        })
        .collect();
    let rest: Vec<&str> = list.iter().skip(FEW).map(|r| r.title.as_str()).collect();
    if !rest.is_empty() {
        let shown = rest.iter().take(2 * FEW).copied().collect::<Vec<_>>().join("; ");
        let more = match rest.len().saturating_sub(2 * FEW) {
            0 => String::new(),
            n => format!("; and {n} more"),
        };
        lines.push(bullet(Line::default().plain(format!("nor: {shown}{more}"))));
    }
    Part::Section("What it is not".into(), lines)
}

/// One line per reason, because one missing exporter blinds many signals.
fn unchecked_part(diagnosis: &Diagnosis) -> Part {
    struct Reason<'a> {
        why: &'a str,
        enable: Option<&'a str>,
        titles: Vec<String>,
    }
    let mut reasons: Vec<Reason<'_>> = Vec::new();
    for u in &diagnosis.unchecked {
        let (why, enable) = (u.why.as_str(), u.enable.as_deref().filter(|_| u.why != NO_PAST));
        match reasons.iter_mut().find(|r| r.why == why && r.enable == enable) {
            Some(reason) => reason.titles.push(u.title.clone()),
            None => reasons.push(Reason { why, enable, titles: vec![u.title.clone()] }),
        }
    }
    let mut lines: Vec<Line> = reasons
        .iter()
        .take(2 * FEW)
        .map(|Reason { why, enable, titles }| {
            let line = Line::default().plain(format!("• {}: {why}", few(titles)));
            match enable {
                Some(enable) => line.plain(" → ").then(Line::of(enable)),
                None => line,
            }
        })
        .collect();
    if reasons.len() > 2 * FEW {
        lines.push(bullet(Line::default().plain(format!("and {} more", reasons.len() - 2 * FEW))));
    }
    Part::Section("What could not be checked".into(), lines)
}

fn alerts_part(view: &IncidentView<'_>) -> Part {
    let firing = view.alerts.iter().filter(|a| a.status == AlertStatus::Firing).count();
    let active = active(view.alerts);
    let common = common_labels(&active);
    let mut names: Vec<String> = active.iter().map(|a| a.name().to_owned()).collect();
    names.sort();
    names.dedup();
    let count = match (view.resolved_at.is_some(), firing) {
        (true, _) => format!("{} resolved", view.alerts.len()),
        (false, n) => format!("{n} firing"),
    };
    let mut lines = vec![Line::default().plain(format!("{count}: ")).bold(few(&names))];
    if view.truncated > 0 {
        lines.push(Line::default().plain(format!("Alertmanager left out {} more (max_alerts)", view.truncated)));
    }
    let summaries = active.iter().filter_map(|a| a.annotations.get("summary"));
    if let Some(summary) = summaries.into_iter().find(|s| !s.trim().is_empty()) {
        lines.push(Line::default().plain(clip(summary.trim(), 300)));
    }
    let labels: Vec<String> = common
        .iter()
        .filter(|(name, _)| *name != "alertname" && *name != "playbook")
        .map(|(name, value)| format!("{name}={}", clip(value, 80)))
        .collect();
    if !labels.is_empty() {
        lines.push(Line::default().code(clip(&labels.join(" "), 600)));
    }
    Part::Section("Alerts".into(), lines)
}

fn clip(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some((at, _)) => format!("{}…", &text[..at]),
    }
}

fn links(view: &IncidentView<'_>) -> Line {
    let mut line = Line::default().plain(format!(
        "{} · since {} · {}",
        view.id,
        shown_time(view.started_at),
        match view.refired {
            0 => view.reason.to_owned(),
            n => format!("{}, re-fired {n} times", view.reason),
        }
    ));
    if let Some(diagnosis) = view.diagnosis {
        line = line.plain(format!(" · {}", foot(diagnosis)));
        if let Some(url) = graph(diagnosis, view.prometheus) {
            line = line.plain(" · ").link("Prometheus", url);
        }
    }
    let runbook = active(view.alerts).iter().find_map(|a| a.annotations.get("runbook_url").cloned());
    if let Some(url) = runbook {
        line = line.plain(" · ").link("Runbook", url);
    }
    if let Some(url) = &view.page {
        line = line.plain(" · ").link("Incident", url.clone());
    }
    line
}

fn foot(diagnosis: &Diagnosis) -> String {
    let engines: Vec<String> = diagnosis
        .engines
        .iter()
        .map(|e| match &e.at_least {
            Some(version) => format!("{} ≥ {version}", e.engine),
            None => e.engine.clone(),
        })
        .collect();
    format!(
        "{} at {}, {} in {}{}",
        diagnosis.symptom.playbook,
        shown_time(diagnosis.at),
        if diagnosis.queries == 1 { "1 query".to_owned() } else { format!("{} queries", diagnosis.queries) },
        format_value(diagnosis.took_seconds, crate::signal::Unit::Seconds),
        if engines.is_empty() { String::new() } else { format!(", {}", engines.join(", ")) },
    )
}

fn shown_time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// The symptom's query in Prometheus' own page, over the last hour before the diagnosis.
fn graph(diagnosis: &Diagnosis, prometheus: Option<&str>) -> Option<String> {
    let query = diagnosis.symptom.evidence.iter().find_map(|e| e.query.as_deref())?;
    let end = diagnosis.at.checked_add(jiff::SignedDuration::from_secs(60)).ok()?;
    let mut url = url::Url::parse(prometheus?).ok()?;
    url.path_segments_mut().ok()?.pop_if_empty().push("graph");
    url.query_pairs_mut()
        .append_pair("g0.expr", query)
        .append_pair("g0.tab", "0")
        .append_pair("g0.range_input", &humantime::format_duration(Duration::from_secs(3_600)).to_string())
        .append_pair("g0.end_input", &end.strftime("%Y-%m-%d %H:%M:%S").to_string());
    Some(url.to_string())
}

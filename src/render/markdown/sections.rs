//! All sections of a report, and `report.md`.

use std::time::Duration;

use super::super::evidence::checked_parts;
use super::super::facts::{affected_replicas_line, alerted, confidence, facts, misfit};
use super::super::full_diagnosis::{explain_no_root_cause, fixes};
use super::super::logs::unknown as logs_unknown;
use super::super::{Phrases, latency};
use super::{answers, code, fence, line, parts, plain, tables};
use crate::clock;
use crate::diagnose::{Diagnosis, Outcome, SymptomVerdict};
use crate::playbook::{LogRank, Section};
use crate::report::{AnalyzedLog, Report, failed};

/// The order of the sections in `report.md`, the most important first.
const ORDER: [Section; 18] = [
    Section::Summary,
    Section::Chain,
    Section::Fixes,
    Section::Goal,
    Section::Metrics,
    Section::Timeline,
    Section::Logs,
    Section::Model,
    Section::Hardware,
    Section::Workload,
    Section::Deployment,
    Section::Versions,
    Section::Open,
    Section::Topology,
    Section::Alerts,
    Section::Evidence,
    Section::Parts,
    Section::Redacted,
];
/// Maximum number of findings listed of a log.
const FINDINGS: usize = 20;
/// Maximum number of logs listed.
const LOGS: usize = 20;

/// Renders the whole report.
pub fn report_markdown(report: &Report, words: &Phrases) -> String {
    let mut out = format!("# {}\n\n", plain(&report.headline));
    for which in ORDER {
        let body = section(which, report, words);
        if body.trim().is_empty() {
            continue;
        }
        if which != Section::Summary {
            out.push_str(&format!("## {}\n\n", title(which, words)));
        }
        out.push_str(&body);
    }
    let foot = words.line(
        "doc-foot",
        &[
            ("version", report.version.as_str().into()),
            ("at", report.made_at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string().into()),
        ],
    );
    out.push_str(&format!("---\n{}\n", line(&foot)));
    out
}

/// Returns the heading of a section.
pub(super) fn title(which: Section, words: &Phrases) -> String {
    let key = match which {
        Section::Summary => "doc-summary",
        Section::Chain => "doc-chain",
        Section::Evidence => "doc-evidence",
        Section::Fixes => "doc-fixes",
        Section::Goal => "doc-goal",
        Section::Model => "doc-model",
        Section::Hardware => "doc-hardware",
        Section::Metrics => "doc-metrics",
        Section::Workload => "doc-workload",
        Section::Deployment => "doc-deployment",
        Section::Versions => "doc-versions",
        Section::Timeline => "doc-timeline",
        Section::Logs => "doc-logs",
        Section::Topology => "doc-topology",
        Section::Alerts => "doc-alerts",
        Section::Open => "doc-open",
        Section::Parts => "doc-parts",
        Section::Redacted => "doc-redacted",
    };
    words.text(key, &[])
}

/// Renders a section without its heading; empty if it has no content.
pub(super) fn section(which: Section, report: &Report, words: &Phrases) -> String {
    let diagnosis = report.diagnosis.as_ref();
    match which {
        Section::Summary => summary(report, words),
        Section::Chain => diagnosis.map(|diagnosis| chain(diagnosis, words)).unwrap_or_default(),
        Section::Evidence => diagnosis.map(|d| parts(&checked_parts(d, words), 3)).unwrap_or_default(),
        Section::Fixes => diagnosis.map(|d| parts(&fixes(d, words), 3)).unwrap_or_default(),
        Section::Goal => answers::goal(&report.answers.goal, words),
        Section::Model => answers::model(&report.answers.model, words),
        Section::Hardware => answers::hardware(&report.answers.hardware, words),
        Section::Metrics => tables::metrics(&report.answers.metrics, words),
        Section::Workload => answers::workload(&report.answers.workload, words),
        Section::Deployment => answers::deployment(&report.answers.deployment, words),
        Section::Versions => tables::versions(&report.answers.versions, words),
        Section::Timeline => tables::timeline(&report.timeline, words),
        Section::Logs => logs(&report.logs, words),
        Section::Topology => tables::topology(report, words),
        Section::Alerts => tables::alerts(report, words),
        Section::Open => answers::open(&report.answers.open),
        Section::Parts => tables::parts(report, words),
        Section::Redacted => tables::redacted(&report.redacted, words),
    }
}

/// Renders the summary: duration, alerts, impact and root cause.
fn summary(report: &Report, words: &Phrases) -> String {
    let mut lines = Vec::new();
    if let Some(incident) = &report.incident {
        let state = match incident.resolved_at {
            Some(at) => words.text("doc-resolved", &[("at", at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string().into())]),
            None => words.text("doc-still-open", &[]),
        };
        let since = incident.started_at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string();
        let until = incident.resolved_at.unwrap_or(report.made_at);
        let long = clock::human_duration(clock::between(incident.started_at, until));
        let pieces = [("since", since.into()), ("long", long.into()), ("state", state.into())];
        lines.push(line(&words.line("doc-since", &pieces)));
    }
    if let Some(alerts) = alerted(&report.alerts, words) {
        lines.push(line(&words.line("doc-alerted", &[("alerts", alerts.into())])));
    }
    if let Some(diagnosis) = &report.diagnosis {
        let pool = diagnosis.scope.labels.iter().map(|(name, value)| code(&format!("{name}={value}")));
        lines.push(pool.collect::<Vec<_>>().join(" "));
        if diagnosis.symptom.verdict == SymptomVerdict::Confirmed {
            lines.push(plain(diagnosis.symptom.impact.trim()));
        }
        let resolved = report.incident.as_ref().is_some_and(|incident| incident.resolved_at.is_some());
        lines.extend(latency::parts_with_share(diagnosis, resolved, words).map(|told| line(&told)));
        if let Some(root) = diagnosis.root() {
            let sure = confidence(root, words);
            let pieces = [("cause", root.title.as_str().into()), ("verdict", sure.into())];
            lines.push(line(&words.line("doc-cause", &pieces)));
            lines.extend(affected_replicas_line(root, words).map(|affected| line(&affected)));
            lines.push(plain(root.meaning.trim()));
            if let Some(whom) = &root.escalate {
                lines.push(line(&words.line("doc-hand-to", &[("whom", whom.as_str().into())])));
            }
        }
    }
    let failed = failed(&report.parts);
    if !failed.is_empty() {
        let names: Vec<&str> = failed.iter().map(|part| part.name.as_str()).collect();
        lines.push(line(&words.line("doc-incomplete", &[("parts", names.join(", ").into())])));
    }
    let lines: Vec<String> = lines.into_iter().filter(|line| !line.trim().is_empty()).collect();
    format!("{}\n\n", lines.join("\n\n"))
}

/// Renders the links from the symptom to the root cause, each with the checks that were met.
fn chain(diagnosis: &Diagnosis, words: &Phrases) -> String {
    let Some(root) = diagnosis.root() else {
        return explain_no_root_cause(diagnosis, words).iter().map(|said| format!("{}\n\n", line(said))).collect();
    };
    let misfit = misfit(diagnosis, Duration::ZERO, words);
    let since = |id: &str| diagnosis.timeline.iter().find(|onset| onset.id == id).map(|onset| onset.at);
    let symptom = &diagnosis.symptom;
    let felt = (&symptom.playbook, &symptom.title, &symptom.evidence);
    let via = root.via.iter().map(|link| (&link.id, &link.title, &link.evidence));
    let alone = root.id == symptom.playbook;
    let mut links: Vec<_> = [felt].into_iter().chain(via).collect();
    links.extend((!alone).then_some((&root.id, &root.title, &root.evidence)));
    // An order that contradicts the times is not shown.
    let mark = if misfit.is_some() { "-" } else { "1." };
    if misfit.is_some() {
        links.sort_by_key(|(id, ..)| (since(id).is_none(), since(id)));
    }
    let mut out = String::new();
    for (_, title, evidence) in links {
        let met: Vec<String> = facts(evidence, Outcome::Met, words).iter().map(|fact| plain(fact)).collect();
        out.push_str(&format!("{mark} **{}**: {}\n", plain(title), met.join("; ")));
    }
    out.push('\n');
    if let Some(misfit) = misfit {
        out.push_str(&format!("{}\n\n", line(&misfit)));
    }
    let mut onsets: Vec<_> = diagnosis.timeline.iter().collect();
    onsets.sort_by_key(|onset| onset.at);
    for onset in onsets {
        let at = onset.at.strftime("%H:%M:%S UTC");
        out.push_str(&format!("- {at} {}\n", plain(&onset.evidence.title)));
    }
    out.push('\n');
    out
}

fn logs(logs: &[AnalyzedLog], words: &Phrases) -> String {
    let mut out = String::new();
    for log in logs.iter().take(LOGS) {
        let report = &log.report;
        if report.findings.is_empty() && report.unknown.count == 0 {
            continue;
        }
        out.push_str(&format!("**{}**\n\n", code(&log.name)));
        if let Some(root) = report.findings.iter().find(|found| Some(&found.id) == report.first_root.as_ref()) {
            let pieces = [("title", root.title.as_str().into()), ("meaning", root.meaning.as_str().into())];
            out.push_str(&format!("{}\n\n", line(&words.line("doc-first-root", &pieces))));
            out.push_str(&fence(&root.text));
            out.push('\n');
        }
        for found in report.findings.iter().take(FINDINGS) {
            let rank = match found.rank {
                LogRank::Root => "logs-rank-root",
                LogRank::Sign => "logs-rank-sign",
                LogRank::Secondary => "logs-rank-secondary",
                LogRank::Benign => "logs-rank-benign",
            };
            let when = found.first.as_deref().map(code).unwrap_or_default();
            let rank = words.text(rank, &[]);
            out.push_str(&format!("- {when} {} ({rank}, {}×)\n", plain(&found.title), found.count));
        }
        if report.unknown.count > 0 {
            logs_unknown(&report.unknown, words).iter().for_each(|text| out.push_str(&format!("- {}\n", line(text))));
        }
        out.push('\n');
    }
    if logs.len() > LOGS {
        out.push_str(&format!("{}\n\n", line(&words.line("and-others", &[("n", (logs.len() - LOGS).into())]))));
    }
    out
}

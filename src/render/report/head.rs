//! The first screen of a report, readable in thirty seconds by a person who did not follow the incident.

use maud::{Markup, html};

use std::time::Duration;

use super::{ReportPageContext, view};
use crate::clip::clip;
use crate::clock;
use crate::diagnose::{CauseFound, Diagnosis, EvidenceResult, Fix, Judgement, Outcome};
use crate::render::page::html::{StateStyle, clock as clock_of, fold, line, link, moment, pill, sureness};
use crate::render::{Line, Phrases, TextSpan, facts, full_diagnosis, latency, message};
use crate::report::Report;

/// Maximum number of steps shown open.
const STEPS: usize = 3;
/// Maximum number of values in a box of the chain.
const NUMBERS: usize = 2;

/// Renders symptom, affected pool, start, cause and steps.
pub(super) fn head(report: &Report, around: &ReportPageContext<'_>, words: &Phrases) -> Markup {
    let view = view(report);
    let diagnosis = report.diagnosis.as_ref();
    let whom = message::affected_pool(&view);
    let what = message::symptom_or_alert_name(&view);
    let (tone, state) = match diagnosis.filter(|_| report.incident.is_none() && report.alerts.is_empty()) {
        // Nothing is firing: a user requested the diagnosis.
        Some(diagnosis) => {
            let (tone, key) = full_diagnosis::verdict_tone(diagnosis);
            (tone, words.text(key, &[]))
        }
        None => (message::tone(&view), message::state(&view, words)),
    };
    let title = if what.is_empty() { report.headline.clone() } else { what };
    html! {
        header.card #head data-part {
            p.above {
                (pill(StateStyle::of(tone), &state))
                @if let Some(incident) = &report.incident { code { (incident.id) } }
                @if !report.complete { (pill(StateStyle::Warn, &words.text("report-incomplete", &[]))) }
                span { (words.text("report-utc", &[])) }
            }
            h1 { (title) }
            @if !whom.is_empty() { p.whom { (whom) } }
            p.lead { (lead(report, words)) }
            (facts_of(report, around.live, words))
            @if !around.actions.is_empty() {
                ul.acts { @for (label, url) in around.actions { li { (link(label, url)) } } }
            }
        }
        @if let Some(diagnosis) = diagnosis {
            section.card #why data-part aria-labelledby="h-why" {
                h2 #h-why { (words.text("why", &[])) }
                (why(diagnosis, words))
                (logged(report, words))
            }
            @if !diagnosis.fix.now.is_empty() || !diagnosis.fix.lasting.is_empty() {
                section.card #do data-part aria-labelledby="h-do" { (steps(diagnosis, words)) }
            }
        }
    }
}

/// Renders the symptom in a sentence, else the reason why there is none.
fn lead(report: &Report, words: &Phrases) -> Markup {
    let view = view(report);
    let said = match (&report.diagnosis, view.because) {
        (Some(diagnosis), _) => message::symptom(diagnosis, view.resolved_at.is_some(), words),
        (None, Some(_)) if view.resolved_at.is_some() => words.line("report-not-diagnosed", &[]),
        (None, Some(_)) => words.line("looking", &[]),
        (None, None) => words.line("no-playbook-why", &[]),
    };
    let cost =
        report.incident.as_ref().and_then(|incident| incident.impact).and_then(|i| message::meanwhile(&i, words));
    let flaps = message::flapping(&view, words);
    let latency = report
        .diagnosis
        .as_ref()
        .and_then(|diagnosis| latency::parts_with_share(diagnosis, view.resolved_at.is_some(), words));
    html! { (line(&said)) @for more in latency.iter().chain(&cost).chain(&flaps) { " " (line(more)) } }
}

fn facts_of(report: &Report, live: bool, words: &Phrases) -> Markup {
    let say = |key: &str| words.text(key, &[]);
    let fact = |key: &str, value: Markup| html! { div { dt { (say(key)) } dd { (value) } } };
    let root = report.diagnosis.as_ref().and_then(Diagnosis::root);
    html! {
        dl.facts {
            @if let Some(incident) = &report.incident {
                @let ended = incident.resolved_at.filter(|_| !incident.open);
                @let lasted = clock::human_duration(clock::between(incident.started_at, ended.unwrap_or(report.made_at)));
                (fact("report-since", html! {
                    (moment(incident.started_at))
                    @let how = match (ended, live) {
                        (Some(_), _) => "report-lasted",
                        (None, true) => "report-lasts",
                        (None, false) => "report-lasted-then",
                    };
                    small { (words.text(how, &[("time", lasted.into())])) }
                }))
            } @else {
                (fact("report-at", html! {
                    (moment(report.diagnosis.as_ref().map_or(report.window.to, |diagnosis| diagnosis.at)))
                }))
            }
            @if let Some(alerts) = facts::alerted(&report.alerts, words) { (fact("report-alerted", html! { (alerts) })) }
            (fact("report-hurt", affected_replicas(report, words)))
            (fact("report-sure", match root {
                Some(root) => {
                    let (agree, known) = agreeing(root);
                    html! {
                        (facts::confidence(root, words))
                        small { (words.text("report-agree", &[("agree", agree.into()), ("known", known.into())])) }
                    }
                }
                None => html! { (say("report-no-cause")) },
            }))
            @if let Some(incident) = &report.incident {
                (fact("report-on-it", match &incident.acknowledged {
                    Some(who) => html! { (TextSpan::User(who.who.clone()).text()) small { (clock_of(who.at)) } },
                    None if incident.open => html! { (say("report-nobody")) },
                    None => html! { "–" },
                }))
            }
        }
    }
}

/// Renders the affected replicas and their total.
fn affected_replicas(report: &Report, words: &Phrases) -> Markup {
    let Some(diagnosis) = &report.diagnosis else { return html! { (words.text("report-unknown", &[])) } };
    let radius = match diagnosis.root() {
        Some(root) if !root.replicas.affected.is_empty() => &root.replicas,
        _ => &diagnosis.replicas,
    };
    let of = |n: usize| [("n", n.into()), ("total", radius.total.into())];
    html! {
        @match (radius.affected.len(), radius.total) {
            (0, 0) => (words.text("report-whole-pool", &[])),
            (0, total) => { (words.text("report-all", &[("total", total.into())])) },
            (n, total) if n >= total => { (words.text("report-all", &[("total", total.max(n).into())])) },
            (n, _) => { (words.text("report-some", &of(n))) small { (facts::few(&radius.affected, words)) } },
        }
    }
}

/// Counts the checks of a chain that were met, and those with data.
fn agreeing(root: &CauseFound) -> (usize, usize) {
    let all = || root.evidence.iter().chain(root.via.iter().flat_map(|link| &link.evidence));
    let agree = all().filter(|e| e.outcome == Outcome::Met).count();
    (agree, all().filter(|e| e.outcome != Outcome::NoData).count())
}

/// Renders the chain as boxes, the root cause first; without arrows and in order of time if the times contradict it.
fn why(diagnosis: &Diagnosis, words: &Phrases) -> Markup {
    let since = |id: &str| diagnosis.timeline.iter().find(|onset| onset.id == id).map(|onset| onset.at);
    let drawn =
        |class: Option<&str>, kind: &str, title: &str, id: &str, evidence: &[EvidenceResult], sure: Option<Markup>| {
            let numbers = facts::facts(evidence, Outcome::Met, words);
            html! {
                li { div.box.(class.unwrap_or("step")).bad[class.is_some()] {
                    p.kind { (words.text(kind, &[])) @if let Some(sure) = sure { " " (sure) } }
                    p.name { (title) }
                    ul { @for number in numbers.iter().take(NUMBERS) { li { (number) } } }
                    @if let Some(at) = since(id) { p.since { (words.text("report-from", &[])) " " (clock_of(at)) } }
                } }
            }
        };
    let Some(root) = diagnosis.root() else {
        return html! { @for said in full_diagnosis::explain_no_root_cause(diagnosis, words) { p { (line(&said)) } } };
    };
    let also = full_diagnosis::other_causes(diagnosis, words);
    let misfit = facts::misfit(diagnosis, Duration::ZERO, words);
    let symptom = &diagnosis.symptom;
    let sure = Some(sureness(root.verdict, words));
    let mut boxes =
        vec![(since(&root.id), drawn(Some("root"), "report-root", &root.title, &root.id, &root.evidence, sure))];
    if root.id != symptom.playbook {
        let link = |link: &Judgement| {
            (since(&link.id), drawn(None, "report-mechanism", &link.title, &link.id, &link.evidence, None))
        };
        boxes.extend(root.via.iter().rev().map(link));
        let felt = drawn(None, "report-symptom", &symptom.title, &symptom.playbook, &symptom.evidence, None);
        boxes.push((since(&symptom.playbook), felt));
    }
    if misfit.is_some() {
        boxes.sort_by_key(|(at, _)| (at.is_none(), *at));
    }
    html! {
        ol.chain.apart[misfit.is_some()] { @for (_, drawn) in &boxes { (drawn) } }
        @if let Some(misfit) = &misfit { p.none { (line(misfit)) } }
        @if !root.meaning.trim().is_empty() { p.also { (line(&Line::of(root.meaning.trim()))) } }
        @if let Some(affected) = facts::affected_replicas_line(root, words) { p { (line(&affected)) } }
        @if let Some(also) = also { p.dim { (line(&also)) } }
        @if let Some(whom) = &root.escalate { p { (words.text("report-escalate", &[("whom", whom.as_str().into())])) } }
    }
}

/// Renders the first root error of the logs, if any: the fastest way to many causes.
fn logged(report: &Report, words: &Phrases) -> Markup {
    let roots = report.logs.iter().filter_map(|log| {
        let root = log.report.first_root.as_ref()?;
        let found = log.report.findings.iter().find(|found| found.id == *root)?;
        Some((log, found))
    });
    let first = roots.min_by_key(|(_, found)| (found.first.is_none(), found.first.clone()));
    html! {
        @if let Some((log, found)) = first {
            p {
                (link(&words.text("report-log-first", &[]), "#logs")) " " b { (found.title) } " "
                small { code { (clip(&log.name, 120)) } @if let Some(at) = &found.first { " " (at) } }
            }
        }
    }
}

/// Renders the steps: a few open, the others folded.
fn steps(diagnosis: &Diagnosis, words: &Phrases) -> Markup {
    let fix = &diagnosis.fix;
    let more = fix.now.len().saturating_sub(STEPS);
    html! {
        h2 #h-do { (words.text("do-now", &[])) }
        @if fix.now.is_empty() { p { (words.text("report-nothing-now", &[])) } }
        ol.steps { @for fix in fix.now.iter().take(STEPS) { li { (step(fix, words)) } } }
        @if more > 0 {
            (fold("do/more", &html! { (words.text("report-more-steps", &[("n", more.into())])) }, false, &html! {
                ol start=(STEPS + 1) { @for fix in fix.now.iter().skip(STEPS) { li { (step(fix, words)) } } }
            }))
        }
        @if !fix.lasting.is_empty() {
            (fold("do/lasting", &html! { (words.text("lasting", &[])) }, false, &html! {
                ul { @for fix in &fix.lasting { li { (step(fix, words)) } } }
            }))
        }
    }
}

fn step(fix: &Fix, words: &Phrases) -> Markup {
    html! {
        (line(&Line::of(fix.action.trim())))
        @if fix.verify.is_some() || fix.source.is_some() {
            small {
                @if let Some(check) = &fix.verify {
                    (line(&words.line("report-worked", &[("check", format!("{} {}", check.title, check.when).into())]))) " "
                }
                @if let Some(source) = &fix.source { (link(&words.text("source", &[]), source)) }
            }
        }
    }
}

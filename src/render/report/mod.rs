//! [`Report`] ─▶ HTML: the page of an incident, live or as a file.
//!
//! The first screen is for a person who did not follow the incident: symptom, affected pool, start, cause, steps,
//! confidence, and who acknowledged it. The other sections follow in the order of usual questions.

mod answers;
mod evidence;
mod head;
mod sections;
mod workload;

use jiff::Timestamp;
use maud::{Markup, PreEscaped, html};

use super::page::html::{line, moment};
use super::page::{Page, UpdateMode};
use super::{IncidentView, Line, Phrases};
use crate::alert::{Alert, AlertStatus};
use crate::report::Report;

/// Seconds between two polls while the incident is open.
const OPEN: u32 = 5;
/// Seconds between two polls after that; it may fire again.
const OVER: u32 = 30;

/// The content of the page besides the report.
#[derive(Debug, Clone, Default)]
pub struct ReportPageContext<'a> {
    /// The title of each chart, and its `<svg>` from [`crate::chart::svg`].
    pub pictures: &'a [(String, String)],
    /// The name of the phrase that says why there is no chart; `None` if none is needed.
    pub no_picture: Option<&'static str>,
    /// The name of the phrase that says why there are no numbers beyond the diagnosis.
    pub no_numbers: Option<&'static str>,
    /// Links to further pages: label and URL.
    pub actions: &'a [(String, String)],
    /// Existing bundles: label and URL.
    pub bundles: &'a [(String, String)],
    /// Tickets: receiver and text.
    pub tickets: &'a [(String, String)],
    /// Pages with tickets: receiver and URL.
    pub ticket_pages: &'a [(String, String)],
    /// True for a page of the service; false for a file.
    pub live: bool,
}

/// A section of the page with its anchor; empty sections are left out.
struct Section {
    id: &'static str,
    title: String,
    body: Markup,
}

impl Section {
    fn new(id: &'static str, title: &str, words: &Phrases, body: Option<Markup>) -> Option<Self> {
        Some(Self { id, title: words.text(title, &[]), body: body? })
    }
}

/// Renders the whole page.
pub fn report_page(report: &Report, around: &ReportPageContext<'_>, words: &Phrases) -> String {
    let say = |key: &str| words.text(key, &[]);
    let section = |id, title, body| Section::new(id, title, words, body);
    let diagnosis = report.diagnosis.as_ref();
    let sections: Vec<Section> = [
        section("picture", "report-picture", pictures(around, words)),
        section("evidence", "report-evidence", diagnosis.map(|d| evidence::checked(d, words))),
        section("not", "report-not", diagnosis.and_then(|d| evidence::ruled_out(d, words))),
        section("unchecked", "report-unchecked", diagnosis.and_then(|d| evidence::unchecked(d, words))),
        section("timeline", "report-timeline", sections::timeline(report, words)),
        section("answers", "report-answers", Some(answers::answers(report, around, words))),
        section("logs", "report-logs", sections::logs(report, words)),
        section("topology", "report-topology", sections::topology(report, words)),
        section("alerts", "report-alerts", sections::alerts(report, words)),
        section("rules", "report-rules", sections::rules(report, words)),
        section("parts", "report-parts", sections::parts(report, words)),
        section("redacted", "report-redacted", sections::redacted(report, words)),
        section("tickets", "report-tickets", sections::tickets(around, words)),
        section("bundles", "report-bundles", sections::bundles(report, around, words)),
    ]
    .into_iter()
    .flatten()
    .collect();
    let body = html! {
        article.report {
            (head::head(report, around, words))
            nav.toc #toc data-part aria-label=(say("report-contents")) {
                h2 { (say("report-contents")) }
                ul { @for part in &sections { li { a href={ "#" (part.id) } { (part.title) } } } }
            }
            @for part in &sections {
                section.part id=(part.id) data-part aria-labelledby={ "h-" (part.id) } {
                    h2 id={ "h-" (part.id) } { (part.title) }
                    (part.body)
                }
            }
            footer.foot #foot data-part { (foot(report, around.live, words)) }
        }
    };
    let kept = match (around.live, report.incident.as_ref().is_some_and(|incident| incident.open)) {
        (false, _) => UpdateMode::File,
        (true, open) => UpdateMode::Live { every: if open { OPEN } else { OVER }, alone: open },
    };
    Page { title: &report.headline, place: "/incidents", kept, body }.html(words)
}

/// Builds the view of the incident from the data of the report.
fn view(report: &Report) -> IncidentView<'_> {
    let incident = report.incident.as_ref();
    let first = report.alerts.iter().map(|alert| alert.starts_at).min();
    IncidentView {
        id: incident.map_or("", |incident| &incident.id),
        alerts: &report.alerts,
        truncated: incident.map_or(0, |incident| incident.truncated),
        resolved_at: match incident {
            Some(incident) => incident.resolved_at.filter(|_| !incident.open),
            None => over(&report.alerts),
        },
        started_at: incident.map_or_else(|| first.unwrap_or(report.window.from), |incident| incident.started_at),
        // A report of an older version has no reason beside its playbook.
        because: incident.and_then(|incident| incident.because.as_deref().or(incident.playbook.as_deref())),
        refired: incident.map_or(0, |incident| incident.refired),
        seen_before: incident.map_or(0, |incident| incident.seen_before),
        diagnosis: report.diagnosis.as_ref(),
        ..IncidentView::default()
    }
}

/// Returns the end of the last alert if all are resolved.
fn over(alerts: &[Alert]) -> Option<Timestamp> {
    let all = alerts.iter().all(|alert| alert.status == AlertStatus::Resolved);
    alerts.iter().map(|alert| alert.ends_at).max().filter(|_| all)
}

fn pictures(around: &ReportPageContext<'_>, words: &Phrases) -> Option<Markup> {
    match (around.pictures, around.no_picture) {
        ([], None) => None,
        ([], Some(why)) => Some(html! { p.none { (words.text(why, &[])) } }),
        (pictures, _) => Some(html! {
            div.pictures {
                @for (title, svg) in pictures {
                    // The SVG renderer wrote and escaped it.
                    figure aria-label=(title) { (PreEscaped(svg)) }
                }
            }
        }),
    }
}

/// Renders the origin of the report; on a live page only the parts that do not change by themselves.
fn foot(report: &Report, live: bool, words: &Phrases) -> Markup {
    let made = super::TextSpan::Plain(report.made_at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string());
    html! {
        @if let Some(diagnosis) = &report.diagnosis { p { (super::full_diagnosis::foot(diagnosis, words)) } }
        @if !live {
            p { (line(&words.line("report-made", &[("at", Line(vec![made]).into()), ("version", report.version.as_str().into())]))) }
            p { (words.text("report-window", &[])) " " (moment(report.window.from)) " – " (moment(report.window.to)) }
        }
    }
}

//! The HTML pages: incidents, an incident's report, playbooks, the fleet's health.

use std::sync::Arc;

use axum::extract::{Extension, Path, Query, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{Html, IntoResponse, Response};
use serde::Deserialize;

use super::auth::Visitor;
use super::etag::unless_current;
use super::page_parts::{back_to, lost, not_there, problem_line, with_security_headers, words};
use super::state::Shared;
use super::{page_acts, page_forms, page_queries};
use knowledge::clock;
use knowledge::incident::{Act, IncidentState};
use redact::Redactor;
use service::Subject;
use service::questions::{IncidentPage, IncidentSearch, search};

use notify::cleaned_incident;
use render::{self, FormSeal, IncidentFilter, IncidentList, IncidentRow, PageActs, Phrases, ReportPageContext};
use report::{self, Report, SourceFindings};
use store::{Incident, IncidentQuery, StoreError};

/// Incidents per page.
const SHOWN: usize = 40;
/// Maximum number of open incidents listed before the others; more of them are a storm, listed by `state=open`.
const OPEN: u32 = 60;
/// Maximum number of log entries on an incident's page.
const EVENTS: u32 = 500;

pub(super) async fn incidents(
    State(shared): State<Shared>,
    Query(find): Query<IncidentFilter>,
    headers: HeaderMap,
) -> Response {
    let list = match find.is_set() {
        true => search_incidents(&shared, &find).await,
        false => newest(&shared, &find.before).await,
    };
    match list {
        Ok(list) => live(&headers, render::incidents_page(&list, &find, words(&shared))),
        Err(error) => unavailable(&shared, &error),
    }
}

/// Lists the open incidents, then the resolved ones.
async fn newest(shared: &Shared, before: &str) -> Result<IncidentList, StoreError> {
    let store = &shared.service.store;
    let counts = store.counts().await?;
    let open = match before {
        "" => store.listed(&IncidentQuery::of_state(IncidentState::Open), OPEN).await?,
        _ => Vec::new(),
    };
    // Open incidents beyond the limit are listed among the others, so that none is missing.
    let state = (counts.0 <= u64::from(OPEN)).then_some(IncidentState::Resolved);
    let query = IncidentQuery { state, before: before.to_owned(), ..IncidentQuery::default() };
    let mut recent = store.listed(&query, SHOWN as u32 + 1).await?;
    let older = (recent.len() > SHOWN).then(|| recent.truncate(SHOWN)).and_then(|()| Some(recent.last()?.id.clone()));
    let rows = |list: &[Incident]| list.iter().map(|incident| row(shared, incident)).collect();
    Ok(IncidentList { open: rows(&open), recent: rows(&recent), counts, looked_at: 0, older })
}

/// Searches incidents from the filter's cursor on.
async fn search_incidents(shared: &Shared, find: &IncidentFilter) -> Result<IncidentList, StoreError> {
    let store = &shared.service.store;
    let state = [IncidentState::Open, IncidentState::Resolved].into_iter().find(|state| state.as_str() == find.state);
    let query = IncidentQuery { state, before: find.before.clone(), ..IncidentQuery::default() };
    let wanted = IncidentSearch { query, filter: find.clone(), most: SHOWN as u32, ..IncidentSearch::default() };
    let IncidentPage { incidents, looked_at, next } =
        search(store, words(shared), &shared.service.notifier.redactor_of([]), &wanted).await?;
    let open = incidents.iter().map(|incident| row(shared, incident)).collect();
    let counts = store.counts().await?;
    Ok(IncidentList { open, counts, looked_at, older: next, ..IncidentList::default() })
}

fn row(shared: &Shared, incident: &Incident) -> IncidentRow {
    let row = IncidentRow::of(&shared.service.notifier.view(incident), clock::now(), words(shared));
    row.cleaned(&redactor_of(shared, [incident]))
}

/// Creates a redactor for pages about incidents.
pub(super) fn redactor_of<'a>(shared: &Shared, incidents: impl IntoIterator<Item = &'a Incident>) -> Redactor {
    shared.service.notifier.redactor_of(incidents)
}

/// The parameter that says which act the visitor did just now.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Did {
    did: String,
}

impl Did {
    fn line(&self, shared: &Shared, visitor: &Visitor, incident: &str) -> Option<message::Line> {
        let key = match page_forms::has_done(&shared.signer, visitor, incident, &self.did, clock::now())? {
            "acknowledge" => "page-did-acknowledge",
            "again" => "again-begun",
            "note" => "page-did-note",
            "silence" => "page-did-silence",
            "bundle" => "page-did-bundle",
            "repeated" => "page-did-repeated",
            _ => return None,
        };
        Some(words(shared).line(key, &[]))
    }
}

pub(super) async fn incident(
    State(shared): State<Shared>,
    Path(id): Path<String>,
    Query(did): Query<Did>,
    Extension(visitor): Extension<Visitor>,
    headers: HeaderMap,
) -> Response {
    let subject = match subject(&shared, &id).await {
        Ok(subject) => subject,
        Err(answer) => return *answer,
    };
    let Some(incident) = &subject.incident else { return missing(&shared) };
    let drawing = super::page_pictures::begin(&shared, incident);
    let facts = page_queries::numbers(&shared, &subject).await;
    let is_assigned = prom::choose(&shared.service.prometheus, &incident.alerts).is_some();
    let away = is_assigned
        && facts.as_ref().is_none_or(|facts| {
            facts.measured.iter().all(|quantity| quantity.during.is_none()) && !facts.failed().is_empty()
        });
    let findings = SourceFindings { facts: facts.map(Arc::unwrap_or_clone), ..SourceFindings::default() };
    // More people see a page than the labels in Prometheus, so it is redacted too.
    let (redactor, report) = match cleaned(&shared, &subject, findings) {
        Ok(cleaned) => cleaned,
        Err(error) => return uncleaned(&error),
    };
    let pictures = super::page_pictures::end(drawing, &report, &redactor).await;
    let (offered, refused) = page_acts::offered(&shared, &visitor, incident);
    let token = page_forms::token(&shared.signer, &visitor, &incident.id, clock::now());
    let acts = PageActs {
        seal: FormSeal { incident: &incident.id, token: &token, once: &incident.revision.to_string() },
        offered: &offered,
        refused: refused.map(|denial| words(&shared).line(denial.page_key(), &[])),
        done: did.line(&shared, &visitor, &incident.id),
    };
    let around = ReportPageContext {
        acts: Some(&acts),
        pictures: &pictures,
        // A diagnosis with a cause has data for a chart.
        no_picture: (pictures.is_empty() && incident.diagnosis.as_ref().is_some_and(|d| d.root().is_some()))
            .then_some("report-no-picture"),
        no_numbers: away.then_some("report-no-numbers"),
        actions: &actions(&shared, incident, offered.contains(&Act::Silence), &redactor).await,
        bundles: &super::page_bundles::listed(&shared, &id),
        ticket_pages: &tickets(&shared, &report),
        tickets: &[],
        live: true,
    };
    live(&headers, render::report_page(&report, &around, words(&shared)))
}

/// Reads an incident with its log; the error is the page with the reason.
async fn subject(shared: &Shared, id: &str) -> Result<Subject, Box<Response>> {
    let store = &shared.service.store;
    let read = async { Ok::<_, StoreError>((store.incident_with_related(id).await?, store.events(id, EVENTS).await?)) };
    let (incident, events) = match read.await {
        Ok((Some(incident), events)) => (incident, events),
        Ok((None, _)) => return Err(Box::new(missing(shared))),
        Err(error) => return Err(Box::new(unavailable(shared, &error))),
    };
    let config = &shared.service.config;
    let headline = shared.service.notifier.message(&incident).await.headline;
    Ok(Subject::of_incident(
        &shared.service.library,
        incident,
        headline,
        &events,
        &config.diagnose,
        config.bundle.margin,
        clock::now(),
    ))
}

fn missing(shared: &Shared) -> Response {
    not_there(shared, "page-no-incident", "page-no-incident-why")
}

/// Returns the titles and addresses of an incident's tickets.
fn tickets(shared: &Shared, report: &Report) -> Vec<(String, String)> {
    let Some(incident) = &report.incident else { return Vec::new() };
    let internal = shared.service.library.tickets.values().filter(|form| form.internal);
    let forms = render::tickets_for(&shared.service.library, report, &[]).chain(internal);
    forms.map(|form| (form.title.clone(), format!("/incidents/{}/tickets/{}", incident.id, form.ticket))).collect()
}

/// Returns a ticket's text for pasting; redacted, because it goes to other parties.
pub(super) async fn ticket(State(shared): State<Shared>, Path((id, ticket)): Path<(String, String)>) -> Response {
    let Some(form) = shared.service.library.tickets.get(&ticket) else {
        return lost(&shared);
    };
    let subject = match subject(&shared, &id).await {
        Ok(subject) => subject,
        Err(answer) => return *answer,
    };
    let facts = page_queries::numbers(&shared, &subject).await;
    let findings = SourceFindings { facts: facts.map(Arc::unwrap_or_clone), ..SourceFindings::default() };
    match cleaned(&shared, &subject, findings) {
        Ok((_, report)) => render::ticket(form, &report, &Phrases::english()).into_response(),
        Err(error) => uncleaned(&error),
    }
}

/// Builds the redacted report and its redactor. Redacted before it is rendered, because escaping in HTML and Markdown
/// hides secrets from the redactor.
fn cleaned(shared: &Shared, subject: &Subject, findings: SourceFindings) -> serde_json::Result<(Redactor, Report)> {
    let redactor = redactor_of(shared, &subject.incident);
    let report = report::build(subject.about(), findings, clock::now());
    redactor.learn_from(&report);
    let report = redactor.cleaned("summary.json", &report)?;
    Ok((redactor, report))
}

pub(super) fn uncleaned(error: &dyn std::fmt::Display) -> Response {
    tracing::error!(%error, "cannot clean an answer of secrets");
    let why = "The answer cannot be cleaned of secrets: see the log of llm-diagnose.\n";
    (StatusCode::INTERNAL_SERVER_ERROR, why).into_response()
}

/// Returns the label and address of each link to further data; without Alertmanager's own form where ours is offered.
async fn actions(shared: &Shared, incident: &Incident, silences: bool, redactor: &Redactor) -> Vec<(String, String)> {
    // Cleaned before they are encoded.
    let cleaned = cleaned_incident(redactor, incident).await;
    let mut view = shared.service.notifier.view(&cleaned);
    view.page = None;
    if silences {
        (view.interactive, view.can_silence) = (true, true);
    }
    let mut all = render::links_of(&view, words(shared));
    // The addresses of other programs may contain their passwords.
    all.iter_mut().for_each(|(_, address)| *address = redactor.text("page", address).into_owned());
    if let Some(playbook) = incident.entered() {
        let label = words(shared).text("page-playbook-now", &[]);
        all.push((label, format!("/playbooks/{playbook}?incident={}", incident.id)));
    }
    all
}

/// The parameter that selects the incident whose findings the tree shows.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Met {
    incident: String,
}

pub(super) async fn playbooks(State(shared): State<Shared>) -> Response {
    Html(render::playbooks_page(&shared.service.library, words(&shared))).into_response()
}

pub(super) async fn playbook(State(shared): State<Shared>, Path(id): Path<String>, Query(met): Query<Met>) -> Response {
    let Some(playbook) = shared.service.library.playbook(&id) else {
        return not_there(&shared, "page-no-playbook", "page-no-playbook-why");
    };
    let incident = match met.incident.as_str() {
        "" => None,
        id => match shared.service.store.incident(id).await {
            Ok(incident) => incident,
            Err(error) => return unavailable(&shared, &error),
        },
    };
    let met = incident.as_ref().and_then(|incident| Some((incident, incident.diagnosis.as_ref()?)));
    let met = met.map(|(incident, diagnosis)| {
        let cleaned = redactor_of(&shared, [incident]).cleaned("page", diagnosis);
        cleaned.map(|diagnosis| (incident.id.as_str(), diagnosis))
    });
    let met = match met.transpose() {
        Ok(met) => met,
        Err(error) => return uncleaned(&error),
    };
    let met = met.as_ref().map(|(id, diagnosis)| (*id, diagnosis));
    Html(render::playbook_page(&shared.service.library, playbook, met, words(&shared))).into_response()
}

pub(super) async fn health(State(shared): State<Shared>, headers: HeaderMap) -> Response {
    match page_queries::health(&shared, Default::default()).await {
        Ok(health) => live(&headers, render::health_page(&health, words(&shared))),
        // Logged where it was cleaned.
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}

pub(super) async fn nowhere(State(shared): State<Shared>) -> Response {
    lost(&shared)
}

/// Answers with a page that polls for updates: 304 if the client has the current version.
fn live(headers: &HeaderMap, page: String) -> Response {
    let (page, tag) = render::tagged(page);
    unless_current(headers, tag, || Html(page))
}

/// Builds the page that states a problem, for whoever may read no page.
pub(super) fn problem(shared: &Shared, status: StatusCode, title: &str, why: &str) -> Response {
    problem_line(shared, status, title, &words(shared).line(why, &[]), &[])
}

fn unavailable(shared: &Shared, error: &StoreError) -> Response {
    tracing::error!(%error, "cannot read incidents");
    let why = words(shared).line("page-no-store-why", &[]);
    let status = StatusCode::SERVICE_UNAVAILABLE;
    let mut page = problem_line(shared, status, "page-no-store", &why, &back_to(shared, ""));
    page.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("5"));
    page
}

/// Adds the security headers to every answer of the pages.
pub(super) async fn add_security_headers(request: Request, next: Next) -> Response {
    with_security_headers(next.run(request).await)
}

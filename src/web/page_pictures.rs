//! The chart on an incident's page. It has a deadline and is cached, so reloading a page does not load Prometheus.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::task::JoinHandle;

use super::pages_state::Drawn;
use super::state::Shared;
use diagnose::{HistoryRequest, evidence_history};
use knowledge::clock;
use prom::choose;
use redact::Redactor;
use render::diagnosis_chart;
use report::Report;
use store::Incident;

/// The timeout of a chart.
const PICTURE_WITHIN: Duration = Duration::from_secs(2);
/// The time after the end of an incident that its chart shows.
const AFTER_END: Duration = Duration::from_secs(600);
/// The steps in which a chart goes on.
const PICTURE_STEP: Duration = Duration::from_secs(60);

/// Begins to draw the chart of the deciding evidence, while the numbers of the page are queried.
pub(super) fn begin(shared: &Shared, incident: &Incident) -> JoinHandle<Drawn> {
    // It goes on to now, or until a while after the end; a step of a minute lets viewers share it.
    let end = incident.resolved_at.filter(|_| !incident.open).map(|at| clock::after(at, AFTER_END));
    let until = clock::floor(end.map_or(clock::now(), |end| end.min(clock::now())), PICTURE_STEP);
    let key = (incident.id.clone(), incident.revision, until);
    let (own, incident) = (shared.clone(), incident.clone());
    shared.tasks.spawn(async move { own.pages.pictures.get_with(key, draw(&own, &incident, until)).await })
}

/// Returns the redacted chart with the report's events: its text and its `<svg>`; none if there is nothing to draw, or
/// Prometheus missed the deadline.
pub(super) async fn end(drawing: JoinHandle<Drawn>, report: &Report, redactor: &Redactor) -> Vec<(String, String)> {
    let clean = |text: &str| redactor.text("page", text).into_owned();
    let marked = |drawn: Arc<chart::Chart>| {
        let mut chart = Arc::unwrap_or_clone(drawn);
        render::mark_events(&mut chart, &report.timeline);
        (clean(&chart::alt(&chart)), clean(&chart::svg(&chart)))
    };
    drawing.await.ok().flatten().into_iter().map(marked).collect()
}

async fn draw(shared: &Shared, incident: &Incident, until: Timestamp) -> Drawn {
    let service = &shared.service;
    let diagnosis = incident.diagnosis.as_ref()?;
    let prometheus = choose(&service.prometheus, &incident.alerts)?;
    let request = HistoryRequest {
        since: incident.started_at,
        until: Some(until),
        baseline: service.config.diagnose.baseline,
        deadline: PICTURE_WITHIN.min(service.config.diagnose.deadline),
    };
    let words = &service.notifier.words;
    let history = evidence_history(&service.library, prometheus, diagnosis, &request);
    let history = tokio::time::timeout(PICTURE_WITHIN, history).await.ok().flatten()?;
    diagnosis_chart(&service.library, diagnosis, &history, request.since, words).map(Arc::new)
}

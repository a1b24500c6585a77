//! The chart of the deciding signal in the report's page.

use std::time::Instant;

use super::Sources;
use diagnose::{HistoryRequest, evidence_history};
use redact::Redactor;
use render::diagnosis_chart;
use service::Subject;

/// Draws the chart, redacted: its text and its `<svg>`; none if Prometheus has no data.
pub(super) async fn drawn(
    sources: &Sources,
    subject: &Subject,
    redactor: &Redactor,
    until: Instant,
) -> Vec<(String, String)> {
    let (Some(prometheus), Some(diagnosis)) = (&sources.prometheus, &subject.diagnosis) else { return Vec::new() };
    let request = HistoryRequest {
        since: subject.request.since.unwrap_or(subject.request.at),
        until: Some(subject.window.to),
        baseline: subject.request.baseline,
        deadline: until.saturating_duration_since(Instant::now()).min(sources.diagnosing.deadline),
    };
    let history = evidence_history(&sources.library, prometheus, diagnosis, &request).await;
    let chart = history.and_then(|h| diagnosis_chart(&sources.library, diagnosis, &h, request.since, &sources.words));
    let clean = |text: String| redactor.text("report.html", &text).into_owned();
    chart.iter().map(|chart| (clean(chart::alt(chart)), clean(chart::svg(chart)))).collect()
}

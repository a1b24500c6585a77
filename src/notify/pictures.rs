//! Pictures in the thread of an incident: a chart of the evidence, drawn when it is posted.

use tracing::warn;

use super::Notifier;
use super::posts::PostOutcome;
use chart::Chart;
use diagnose::{HistoryRequest, evidence_history};
use prom::choose;
use slack::{Destination, Slack, SlackError, marked_name};
use store::{Incident, Post};

impl Notifier {
    /// Uploads a picture, for which Slack returns no timestamp.
    pub(super) async fn post_picture(
        &self,
        slack: &Slack,
        thread: Destination<'_>,
        post: &Post,
        incident: &Incident,
    ) -> Result<PostOutcome, SlackError> {
        let Some((png, title, alt)) = self.draw(incident).await else {
            return Ok(PostOutcome::Needless("there is nothing to draw"));
        };
        let name = marked_name(&incident.id, &post.id);
        slack.upload(&name, [&title, &alt], png, Some(thread)).await?;
        Ok(PostOutcome::Posted(None, None))
    }

    /// Draws a chart of the evidence for the cause, with its title and alternative text; `None` if there is nothing to
    /// draw.
    async fn draw(&self, incident: &Incident) -> Option<(Vec<u8>, String, String)> {
        let diagnosis = incident.diagnosis.as_ref()?;
        let prometheus = choose(&self.prometheus, &incident.alerts)?;
        let (baseline, deadline) = (self.diagnosing.baseline, self.diagnosing.deadline);
        let request = HistoryRequest { since: incident.started_at, until: None, baseline, deadline };
        let history = evidence_history(&self.library, prometheus, diagnosis, &request).await?;
        let mut chart = render::diagnosis_chart(&self.library, diagnosis, &history, request.since, &self.words)?;
        self.clean_chart(incident, &mut chart);
        // Drawing takes about ten milliseconds of CPU time, so it must not block the runtime.
        let drawn = tokio::task::spawn_blocking(move || {
            (chart::png(&chart), format!("{} · {}", chart.title, chart.subtitle), chart::alt(&chart))
        })
        .await;
        drawn.inspect_err(|error| warn!(incident.id = incident.id, %error, "cannot draw the picture")).ok()
    }

    /// Removes secrets from a chart of the incident.
    fn clean_chart(&self, incident: &Incident, chart: &mut Chart) {
        let redactor = self.redactor_of([incident]);
        let lines = chart.panels.iter_mut().flat_map(|panel| {
            let names = panel.series.iter_mut().map(|series| &mut series.name);
            names.chain([&mut panel.title, &mut panel.says])
        });
        let marks = chart.marks.iter_mut().map(|mark| &mut mark.label);
        for text in lines.chain(marks).chain([&mut chart.title, &mut chart.subtitle]) {
            *text = redactor.text("message", text).into_owned();
        }
    }
}

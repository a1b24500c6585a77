//! Bundles on an incident's page: their list, and the act that makes one.

use axum::http::StatusCode;
use axum::response::Response;

use super::page_acts::Visit;
use super::page_parts::{back_to, problem_line};
use super::state::Shared;
use bundle::{NoBundle, StoredBundle};
use chat::acts::AuditLog;
use knowledge::incident::Act;
use knowledge::signal::{Unit, format_value};
use message::Line;
use store::AuditResult;

/// Maximum number of bundles on an incident's page.
const LISTED: usize = 10;

/// Returns the bundles on this replica, newest first: name with size, and address.
pub(super) fn listed(shared: &Shared, id: &str) -> Vec<(String, String)> {
    let bundles = shared.bundles.directory.list(Some(id)).unwrap_or_else(|error| {
        tracing::error!(%error, "cannot list bundles");
        Vec::new()
    });
    let label = |bundle: &StoredBundle| format!("{} ({})", bundle.name, format_value(bundle.bytes as f64, Unit::Bytes));
    bundles.iter().rev().take(LISTED).map(|bundle| (label(bundle), format!("/bundles/{}", bundle.name))).collect()
}

impl Visit<'_> {
    /// Starts a bundle, or joins one that is being made; the audit log has its end.
    pub(super) async fn bundle(&self) -> Response {
        let (shared, id) = (self.shared, self.incident.id.as_str());
        let Ok(attempt) = self.log().begin(self.actor(), Act::Bundle.as_str(), Some(id)).await else {
            return self.not_done("act-store");
        };
        match shared.bundles.get_or_start(id) {
            Ok(job) => {
                let service = shared.service.clone();
                shared.tasks.spawn(async move {
                    let log = AuditLog::of(&service);
                    match job.done().await {
                        Ok(bundle) => attempt.end(log, AuditResult::Done, &bundle.name.to_string(), "").await,
                        Err(error) => attempt.end(log, AuditResult::Failed, "", &error.to_string()).await,
                    }
                });
                self.back(Act::Bundle.as_str())
            }
            Err(error) => {
                attempt.end(self.log(), AuditResult::Failed, "", &error.to_string()).await;
                let line = match error {
                    NoBundle::Busy => shared.service.words.line("bundle-busy", &[]),
                    other => {
                        Line::of(&shared.service.notifier.redactor_of([self.incident]).text("page", &other.to_string()))
                    }
                };
                problem_line(shared, StatusCode::SERVICE_UNAVAILABLE, "page-not-done", &line, &back_to(shared, id))
            }
        }
    }
}

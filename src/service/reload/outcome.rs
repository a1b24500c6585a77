//! The outcome of the last reload, for `/readyz`, `doctor` and the metrics.

use std::sync::{Mutex, PoisonError};

use knowledge::clip::format_error;
use knowledge::clock;
use knowledge::playbook::Library;
use sources::redact::Redactor;
use telemetry::Metrics;

/// The outcome of the last reload.
#[derive(Debug, Default)]
pub struct Reloads {
    failure: Mutex<Option<String>>,
}

impl Reloads {
    /// Returns the last reload in words if it failed. Everybody may read `/readyz`, and an error may contain a secret
    /// that stands in the wrong place, so the reason is only in the log.
    pub fn failure(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Records that a configuration is in force.
    pub(super) fn succeeded(&self, metrics: &Metrics) {
        metrics.reloaded(Some(clock::now()));
        self.set(None);
    }

    /// Records that a configuration cannot be used; returns the error cleaned of secrets, for the log.
    pub(super) fn failed(&self, error: &anyhow::Error, library: &Library, metrics: &Metrics) -> String {
        metrics.reloaded(None);
        let at = clock::now().strftime("%Y-%m-%d %H:%M UTC");
        self.set(Some(format!(
            "the change of {at} was refused, the previous configuration stays in force: the service's log has the reason"
        )));
        match Redactor::new(&report::redaction(library), false) {
            Ok(redactor) => redactor.text("configuration", &format_error(error)).into_owned(),
            Err(error) => format!("the reason cannot be cleaned of secrets: {error}"),
        }
    }

    fn set(&self, failure: Option<String>) {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = failure;
    }
}

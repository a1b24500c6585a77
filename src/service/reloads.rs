//! The outcome of the last reload, for `/readyz`, `doctor` and the metrics: refused, or taken over in part.

use std::path::Path;

use std::sync::{Mutex, PoisonError};

use knowledge::clip::{format_count, format_error};
use knowledge::clock;
use knowledge::playbook::{Library, Problem};
use redact::Redactor;
use telemetry::Metrics;

/// The outcome of the last reload.
#[derive(Debug, Default)]
pub struct Reloads {
    failure: Mutex<Option<String>>,
    unused: Mutex<Option<String>>,
}

impl Reloads {
    /// Returns the last reload in words if it failed. Everybody may read `/readyz`, and an error may contain a secret
    /// that is in the wrong place, so the reason is only in the log.
    pub fn failure(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns what of the playbooks in force is not used, in words; the reasons are only in the log, as above.
    pub fn unused(&self) -> Option<String> {
        self.unused.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Records what of the user's directory is not used in the configuration in force.
    pub fn set_unused(&self, unused: &[Problem], dir: Option<&Path>) {
        let told = unused.first().zip(dir).map(|(first, dir)| {
            let (count, place) = (format_count(unused.len(), "problem"), dir.display());
            let Problem { file, line, lint, .. } = first;
            format!(
                "{count}, first {file}:{line} ({lint}): their entries are ignored, all others are used; run `llm-diagnose check {place}`"
            )
        });
        *self.unused.lock().unwrap_or_else(PoisonError::into_inner) = told;
    }

    /// Records that a configuration is in force.
    pub fn succeeded(&self, metrics: &Metrics) {
        metrics.reloaded(Some(clock::now()));
        self.set(None);
    }

    /// Records that a configuration cannot be used; returns the error cleaned of secrets, for the log.
    pub fn failed(&self, error: &anyhow::Error, library: &Library, metrics: &Metrics) -> String {
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

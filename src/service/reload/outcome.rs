//! The outcome of the last reload, for `/readyz`, `doctor` and the metrics.

use std::sync::{Mutex, PoisonError};

use knowledge::clip::{clip, format_error};
use knowledge::clock;
use knowledge::playbook::Library;
use sources::redact::Redactor;
use store::{Store, StoreClock};
use telemetry::Metrics;

/// Maximum characters of a reason; the log has the whole of it.
const REASON_CHARS: usize = 300;

/// The outcome of the last reload, and what goes on over reloads.
#[derive(Debug, Default)]
pub struct Reloads {
    failure: Mutex<Option<String>>,
    clock: Mutex<Option<StoreClock>>,
}

impl Reloads {
    /// Returns the time and reason of the last reload if it failed.
    pub fn failure(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Records that a configuration is in force.
    pub(super) fn succeeded(&self, metrics: &Metrics) {
        metrics.reloaded(Some(clock::now()));
        self.set(None);
    }

    /// Records that a configuration cannot be used; returns the error cleaned of secrets, for the log. Everybody may
    /// read `/readyz`, so the reason there goes without the lines of the file.
    pub(super) fn failed(&self, error: &anyhow::Error, library: &Library, metrics: &Metrics) -> String {
        metrics.reloaded(None);
        let text = match Redactor::new(&report::redaction(library), false) {
            Ok(redactor) => redactor.text("configuration", &format_error(error)).into_owned(),
            Err(error) => format!("the reason cannot be cleaned of secrets: {error}"),
        };
        let at = clock::now().strftime("%Y-%m-%d %H:%M UTC");
        let reason = clip(text.lines().next().unwrap_or_default(), REASON_CHARS);
        self.set(Some(format!("the change of {at} is not in force, the configuration before it goes on: {reason}")));
        text
    }

    /// Continues the clock of the store that was closed last; otherwise what needs an hour without a clock step would
    /// not be done where files change every hour.
    pub(crate) fn continue_clock(&self, store: &Store) {
        let earlier = *self.clock.lock().unwrap_or_else(PoisonError::into_inner);
        earlier.into_iter().for_each(|earlier| store.continue_clock(earlier));
    }

    /// Keeps the clock of a store that is closed.
    pub(crate) fn keep_clock(&self, store: &Store) {
        *self.clock.lock().unwrap_or_else(PoisonError::into_inner) = Some(store.clock());
    }

    fn set(&self, failure: Option<String>) {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = failure;
    }
}

//! Captured metrics pages as history: each page stamped with a time and with its target's labels.

use llm_diagnose_lab::stack::backfill::{Series, openmetrics};
use llm_diagnose_lab::stack::stamp_exposition;

/// The target of a page, and the time of its scrape.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stamp {
    /// Label `job`.
    pub(crate) job: &'static str,
    /// Label `instance`.
    pub(crate) instance: &'static str,
    /// Label `namespace`.
    pub(crate) namespace: &'static str,
    /// Label `pod`.
    pub(crate) pod: &'static str,
    /// Unix seconds.
    pub(crate) time: i64,
}

/// One scrape.
pub(crate) struct Page {
    /// The body.
    pub(crate) text: String,
    /// Where and when.
    pub(crate) stamp: Stamp,
}

impl Page {
    /// A page of a target at a time.
    pub(crate) fn new(text: impl Into<String>, stamp: Stamp) -> Self {
        Self { text: text.into(), stamp }
    }
}

/// The samples of the pages, each with the `up` that a scrape adds, as OpenMetrics text.
pub(crate) fn pages(pages: &[Page]) -> String {
    let series = pages.iter().flat_map(|Page { text, stamp }| {
        let Stamp { job, instance, namespace, pod, time } = *stamp;
        let labels = [("job", job), ("instance", instance), ("namespace", namespace), ("pod", pod)];
        let mut series = stamp_exposition(text, &labels, time).unwrap();
        series.push(Series::new("up", &labels).at(time, 1.0));
        series
    });
    openmetrics(series)
}

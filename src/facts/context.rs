//! The context that all queries for facts share, and the reasons of their gaps.

use std::time::Instant;

use super::FAILED;
use findings::Request;
use findings::facts::Windows;
use knowledge::gap::GapReason;
use knowledge::playbook::Library;
use prom::{PromError, Prometheus};

/// The parameters shared by all queries.
#[derive(Debug, Clone, Copy)]
pub(super) struct FactQueryContext<'a> {
    pub(super) library: &'a Library,
    pub(super) prometheus: &'a Prometheus,
    pub(super) request: &'a Request,
    pub(super) windows: &'a Windows,
    pub(super) deadline: Instant,
}

/// Returns the reason for an error, with a remedy.
pub(super) fn why(error: &PromError) -> GapReason {
    match error {
        PromError::Lacking(_) => GapReason::Absent(format!(
            "{error}: the API of Prometheus has it, Thanos, Mimir and VictoriaMetrics only in part; name the Prometheus \
             behind it under `prometheus:`"
        )),
        error => GapReason::Failed(format!("{FAILED}{error}")),
    }
}

/// Joins the reason why something is missing with the way to enable it.
pub(super) fn sentence(why: &str, enable: Option<&str>) -> String {
    match enable {
        Some(enable) => format!("{why}; to have it: {enable}"),
        None => why.to_owned(),
    }
}

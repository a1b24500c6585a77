//! The subject of a report.

use findings::Diagnosis;
use knowledge::alert::Alert;

use super::{DiagnosisParameters, ReportIncident};
use findings::facts::{TimelineEvent, Window};

/// The subject of a report.
#[derive(Debug, Clone)]
pub struct ReportSubject<'a> {
    /// The first sentence of the report.
    pub headline: &'a str,
    /// The incident.
    pub incident: Option<ReportIncident>,
    /// Its alerts.
    pub alerts: &'a [Alert],
    /// The diagnosis.
    pub diagnosis: Option<&'a Diagnosis>,
    /// The parameters of the diagnosis request.
    pub asked: DiagnosisParameters,
    /// The time window.
    pub window: Window,
    /// Events known from the store.
    pub happened: &'a [TimelineEvent],
}

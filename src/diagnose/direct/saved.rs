//! Pages of metrics that were saved before, one or two of an engine.

use std::time::Duration;

use super::pages::MetricsPages;
use sources::exporter::{ExporterError, ExporterTarget, parse};

/// One or two saved pages of one engine, as its `/metrics` sent them.
#[derive(Debug, Clone)]
pub struct SavedPages {
    /// The name of the first page's file, which stands for the address of its target.
    pub name: String,
    /// The text of the first page.
    pub first: String,
    /// The text of the second page, and the time between both.
    pub second: Option<(String, Duration)>,
}

impl SavedPages {
    /// Parses the samples that are needed, with the labels of the target.
    ///
    /// # Errors
    /// If a text is no page of metrics.
    pub(super) fn pages(
        &self,
        target: &ExporterTarget,
        is_needed: impl Fn(&str) -> bool,
    ) -> Result<MetricsPages, ExporterError> {
        let samples = |text: &str| {
            let samples = parse(text, &is_needed)?;
            Ok::<_, ExporterError>(samples.into_iter().map(|sample| target.attach(sample)).collect())
        };
        let second = self.second.as_ref().map(|(text, apart)| Ok((samples(text)?, apart.as_secs_f64()))).transpose()?;
        Ok(MetricsPages { first: samples(&self.first)?, second })
    }
}

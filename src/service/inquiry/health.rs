//! The fleet's health.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{Fleet, InquiryError};
use diagnose::health::{Health, HealthQuery, evaluate_fleet};

impl Fleet<'_> {
    /// Returns the health of the fleet, or of the part with these labels: `cluster`, `namespace`, `model`.
    ///
    /// # Errors
    /// When it cannot be cleaned of secrets.
    pub async fn health(&self, scope: &BTreeMap<String, String>, at: Timestamp) -> Result<Health, InquiryError> {
        let (window, deadline) = (self.diagnosing.window, self.diagnosing.deadline);
        let query = HealthQuery { scope: scope.clone(), at, window, deadline };
        self.cleaned(&evaluate_fleet(self.library, &self.sources(), &query).await)
    }
}

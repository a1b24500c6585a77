//! Prometheus queries of the pages: numbers and the fleet's health. They have a deadline, and their results are cached
//! for seconds, so reloading a page does not load Prometheus.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::state::Shared;
use findings::health::Health;
use knowledge::clock;
use loops::SHARED_STEP;
use prom::choose;
use service::Subject;
use service::questions::{Fleet, QuestionError};

/// The timeout of the numbers.
const NUMBERS_WITHIN: Duration = Duration::from_secs(3);

/// Returns the facts from Prometheus beyond the diagnosis; `None` if it missed the deadline, or none covers these
/// alerts.
pub(super) async fn numbers(shared: &Shared, subject: &Subject) -> Option<Arc<findings::facts::PrometheusFacts>> {
    let incident = subject.incident.as_ref()?;
    let collect = async {
        let service = &shared.service;
        let prometheus = choose(&service.prometheus, &incident.alerts)?;
        let (diagnosis, windows) = (subject.diagnosis.as_ref(), subject.windows());
        let until = Instant::now() + NUMBERS_WITHIN;
        // The future of all these queries is too large for a thread's stack.
        let query =
            Box::pin(facts::collect_facts(&service.library, prometheus, &subject.request, diagnosis, &windows, until));
        // A single slow query must not delay the page.
        let facts = tokio::time::timeout_at(until.into(), query).await.ok()?;
        Some(Arc::new(facts))
    };
    // The end of an incident changes its windows.
    let key = (incident.id.clone(), incident.resolved_at.is_some());
    shared.pages.numbers.get_with(key, Box::pin(collect)).await
}

/// Returns the redacted health of the fleet or a part of it. Each part takes a turn; the whole fleet does not, because
/// it is evaluated once for everybody.
///
/// # Errors
/// When it cannot be redacted, or no turn is left.
pub(super) async fn health(
    shared: &Shared,
    scope: BTreeMap<String, String>,
) -> Result<Arc<Health>, Arc<QuestionError>> {
    let turns = Some(&shared.turns).filter(|_| !scope.is_empty());
    let evaluate = async {
        let at = clock::floor(clock::now(), SHARED_STEP);
        Fleet::of(&shared.service, turns).health(scope.clone(), at).await.map(Arc::new)
    };
    shared.pages.healths.try_get_with(scope.clone(), evaluate).await
}

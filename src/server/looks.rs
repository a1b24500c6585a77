//! What pages ask Prometheus for: pictures, numbers and the fleet's health. Asked with a deadline, and kept for some seconds, so
//! that reloading a page does not load Prometheus.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use moka::future::Cache;

use super::Shared;
use super::auth::Access;
use crate::bundle::Subject;
use crate::chart;
use crate::clock;
use crate::diagnose::{Frame, picture};
use crate::facts;
use crate::health::{Health, Look, Source, look};
use crate::pipeline::SHARED_STEP;
use crate::prom::choose;
use crate::redact::Redactor;
use crate::store::Incident;

/// How long a page waits for its picture.
const PICTURE_WITHIN: Duration = Duration::from_secs(2);
/// How long a picture is kept; of one revision it stays the same.
const PICTURE_KEPT: Duration = Duration::from_secs(20);
/// Pictures that are kept at once: some ten kilobytes each.
const PICTURES: u64 = 64;
/// How long a page waits for its numbers.
const NUMBERS_WITHIN: Duration = Duration::from_secs(3);
/// How long they are kept, and how long none are asked for anew where none came.
const NUMBERS_KEPT: Duration = Duration::from_secs(30);
/// Incidents whose numbers are kept at once: with many replicas some hundred kilobytes each.
const NUMBERS: u64 = 32;
/// How long a look at the fleet is kept.
const HEALTH_KEPT: Duration = Duration::from_secs(5);
/// Looks that are kept at once.
const HEALTHS: u64 = 16;

/// A picture's words and its `<svg>`.
pub(super) type Drawn = Option<Arc<(String, String)>>;

/// Who may open the pages, and what is kept for them.
#[derive(Debug)]
pub struct Pages {
    pub(super) access: Access,
    /// Cleans what is made to be given to others.
    pub(super) redactor: Redactor,
    numbers: Cache<(String, bool), Option<Arc<facts::Seen>>>,
    pictures: Cache<(String, i64), Drawn>,
    healths: Cache<BTreeMap<String, String>, Result<Arc<Health>, String>>,
}

impl Pages {
    /// Nothing is kept yet.
    pub fn new(access: Access, redactor: Redactor) -> Self {
        Self {
            access,
            redactor,
            numbers: Cache::builder().max_capacity(NUMBERS).time_to_live(NUMBERS_KEPT).build(),
            pictures: Cache::builder().max_capacity(PICTURES).time_to_live(PICTURE_KEPT).build(),
            healths: Cache::builder().max_capacity(HEALTHS).time_to_live(HEALTH_KEPT).build(),
        }
    }
}

/// The picture of what decided; none when nothing did, or Prometheus did not answer in time.
pub(super) async fn drawn(shared: &Shared, incident: &Incident) -> Drawn {
    let key = (incident.id.clone(), incident.revision);
    shared.pages.pictures.get_with(key, draw(shared, incident)).await
}

async fn draw(shared: &Shared, incident: &Incident) -> Drawn {
    let pipeline = &shared.pipeline;
    let diagnosis = incident.diagnosis.as_ref()?;
    let prometheus = choose(&pipeline.prometheus, &incident.alerts)?;
    let frame = Frame {
        since: incident.started_at,
        baseline: pipeline.config.diagnose.baseline,
        deadline: PICTURE_WITHIN.min(pipeline.config.diagnose.deadline),
    };
    let words = &pipeline.notifier.words;
    let chart = picture(&pipeline.library, prometheus, diagnosis, &frame, words);
    let chart = tokio::time::timeout(PICTURE_WITHIN, chart).await.ok().flatten()?;
    Some(Arc::new((chart::alt(&chart), chart::svg(&chart))))
}

/// What Prometheus tells beyond the diagnosis; none when it did not answer in time, or there is none for these alerts.
pub(super) async fn numbers(shared: &Shared, subject: &Subject) -> Option<Arc<facts::Seen>> {
    let incident = subject.incident.as_ref()?;
    let asked = async {
        let pipeline = &shared.pipeline;
        let prometheus = choose(&pipeline.prometheus, &incident.alerts)?;
        let (diagnosis, windows) = (subject.diagnosis.as_ref(), subject.windows());
        let until = Instant::now() + NUMBERS_WITHIN;
        // It asks so much at once that it is too large for a thread's stack.
        let looked = Box::pin(facts::look(&pipeline.library, prometheus, &subject.request, diagnosis, &windows, until));
        // What one question hangs on must not hold the page.
        let seen = tokio::time::timeout_at(until.into(), looked).await.ok()?;
        Some(Arc::new(seen))
    };
    // How it ended changes which windows there are.
    let key = (incident.id.clone(), incident.resolved_at.is_some());
    shared.pages.numbers.get_with(key, Box::pin(asked)).await
}

/// How the fleet stands, or a part of it, without what must not leave; else why it cannot be cleaned.
pub(super) async fn health(shared: &Shared, scope: BTreeMap<String, String>) -> Result<Arc<Health>, String> {
    let asked = async {
        let config = &shared.pipeline.config.diagnose;
        let at = clock::floor(clock::now(), SHARED_STEP);
        let what = Look { scope: scope.clone(), at, window: config.window, deadline: config.deadline };
        let sources: Vec<Source<'_>> = shared.pipeline.prometheus.iter().map(|(p, labels)| (p, labels)).collect();
        let health = look(&shared.pipeline.library, &sources, &what).await;
        let redactor = shared.pages.redactor.another(&shared.pipeline.library.redaction, false);
        redactor.learn_from(&health);
        redactor.cleaned("health", &health).map(Arc::new).map_err(|error| error.to_string())
    };
    shared.pages.healths.get_with(scope.clone(), asked).await
}

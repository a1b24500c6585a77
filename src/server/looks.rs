//! What pages ask Prometheus for: pictures and the fleet's health. Asked with a deadline, and kept for some seconds, so
//! that whoever reloads does not hammer it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use moka::future::Cache;

use super::Shared;
use super::auth::Access;
use crate::chart;
use crate::clock;
use crate::diagnose::{Frame, picture};
use crate::health::{Health, Look, Source, look};
use crate::pipeline::SHARED_STEP;
use crate::prom::choose;
use crate::store::Incident;

/// How long a page waits for its picture.
const PICTURE_WITHIN: Duration = Duration::from_secs(2);
/// How long a picture is kept; of one revision it stays the same.
const PICTURE_KEPT: Duration = Duration::from_secs(20);
/// Pictures that are kept at once: some ten kilobytes each.
const PICTURES: u64 = 64;
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
    pictures: Cache<(String, i64), Drawn>,
    healths: Cache<BTreeMap<String, String>, Arc<Health>>,
}

impl Pages {
    /// Nothing is kept yet.
    pub fn new(access: Access) -> Self {
        Self {
            access,
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

/// How the fleet stands, or a part of it.
pub(super) async fn health(shared: &Shared, scope: BTreeMap<String, String>) -> Arc<Health> {
    let asked = async {
        let config = &shared.pipeline.config.diagnose;
        let at = clock::floor(clock::now(), SHARED_STEP);
        let what = Look { scope: scope.clone(), at, window: config.window, deadline: config.deadline };
        let sources: Vec<Source<'_>> = shared.pipeline.prometheus.iter().map(|(p, labels)| (p, labels)).collect();
        Arc::new(look(&shared.pipeline.library, &sources, &what).await)
    };
    shared.pages.healths.get_with(scope.clone(), asked).await
}

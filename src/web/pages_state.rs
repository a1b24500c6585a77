//! The access to the pages and the API, and what their answers share.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use moka::future::Cache;

use super::auth::Access;
use chart::Chart;
use findings::health::Health;
use service::RequestLimits;

use sources::alertmanager::Alertmanager;

/// The time to live of a chart; its key includes the incident's revision and the end of the chart.
const PICTURE_KEPT: Duration = Duration::from_secs(60);
/// Maximum number of charts in the cache: some ten kilobytes each.
const PICTURES: u64 = 64;
/// The time to live of the numbers, and of their absence.
const NUMBERS_KEPT: Duration = Duration::from_secs(30);
/// Maximum number of incidents with cached numbers: with many replicas some hundred kilobytes each.
const NUMBERS: u64 = 32;
/// The time to live of the fleet's health.
const HEALTH_KEPT: Duration = Duration::from_secs(5);
/// Maximum number of health results in the cache.
const HEALTHS: u64 = 16;

/// A chart, without the marks that the timeline adds.
pub(super) type Drawn = Option<Arc<Chart>>;

/// The access to the pages and the API, and their caches.
#[derive(Debug)]
pub struct Pages {
    pub(super) access: Access,
    /// The Alertmanagers in which visitors create silences.
    pub(super) alertmanagers: Vec<Alertmanager>,
    forms: RequestLimits<1>,
    pub(super) numbers: Cache<(String, bool), Option<Arc<findings::facts::PrometheusFacts>>>,
    pub(super) pictures: Cache<(String, i64, Timestamp), Drawn>,
    pub(super) healths: Cache<BTreeMap<String, String>, Arc<Health>>,
}

impl Pages {
    /// Creates empty caches, with the rate limits of forms: `slack.commands_per_minute` of each visitor, and of all.
    pub fn new(access: Access, alertmanagers: Vec<Alertmanager>, per_minute: [u32; 3]) -> Self {
        let [visitor, _, everybody] = per_minute;
        Self {
            access,
            alertmanagers,
            forms: RequestLimits::new([visitor], everybody),
            numbers: Cache::builder().max_capacity(NUMBERS).time_to_live(NUMBERS_KEPT).build(),
            pictures: Cache::builder().max_capacity(PICTURES).time_to_live(PICTURE_KEPT).build(),
            healths: Cache::builder().max_capacity(HEALTHS).time_to_live(HEALTH_KEPT).build(),
        }
    }

    /// Counts a form against the rate limits; false if it is over one.
    pub(super) fn admits_form(&self, who: &str) -> bool {
        self.forms.admit([Some(who)])
    }
}

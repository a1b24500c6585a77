//! Maintenance: the windows of the configuration, those that people made, and the one that keeps an incident quiet.
//!
//! An incident in a window keeps its message; only its mentions, reminders and pager calls wait until the window's end.

use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use schemars::JsonSchema;
use serde::Deserialize;

use knowledge::alert::Labels;
use knowledge::clock::{after, duration, unix_ms};
use knowledge::incident::MaintenanceWindow;
use knowledge::weekday::Weekday;
use store::{Incident, StoreError};

use super::Notifier;

/// The longest window.
pub const LONGEST: Duration = Duration::from_secs(7 * 86_400);

/// One entry of the key `maintenance:`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MaintenanceConfig {
    /// Labels that all firing alerts of an incident have; at least one.
    pub labels: Labels,
    /// The date of a single window, such as 2026-12-24; not set, it returns.
    #[serde(default)]
    pub date: Option<Date>,
    /// The days of the week on which it returns; each day if empty.
    #[serde(default)]
    pub days: Vec<Weekday>,
    /// The time of day at which it starts, with hours and minutes.
    pub at: Time,
    /// Its length: at most 7d.
    #[serde(deserialize_with = "duration")]
    #[schemars(with = "String")]
    pub lasts: Duration,
    /// The time zone of `date`, `days` and `at`, by its IANA name; defaults to UTC.
    #[serde(default)]
    pub timezone: Option<String>,
    /// The reason that messages show.
    #[serde(default)]
    pub reason: String,
}

impl MaintenanceConfig {
    /// Checks the rules that the types cannot express.
    ///
    /// # Errors
    /// With the expected value.
    pub fn validate(&self) -> Result<(), String> {
        if self.labels.is_empty() {
            return Err("`maintenance:` needs labels: without any, nothing at all would call anybody".to_owned());
        }
        if self.lasts.is_zero() || self.lasts > LONGEST {
            return Err("`maintenance: lasts` is at most 7d, and longer than 0s".to_owned());
        }
        if self.date.is_some() && !self.days.is_empty() {
            return Err("`maintenance:` has a `date`, or `days` on which it returns, not both".to_owned());
        }
        self.zone().map(drop)
    }

    fn zone(&self) -> Result<TimeZone, String> {
        let name = self.timezone.as_deref().unwrap_or("UTC");
        TimeZone::get(name).map_err(|_| format!("`maintenance: timezone: {name}` is no time zone of this system"))
    }

    /// Returns its windows that last at `now`.
    fn windows(&self, now: Timestamp) -> Vec<MaintenanceWindow> {
        let Ok(zone) = self.zone() else { return Vec::new() };
        let back = i64::try_from(self.lasts.as_secs().div_ceil(86_400)).unwrap_or(0) + 1;
        let today = zone.to_datetime(now).date();
        let dates = (-back..=0).filter_map(|days| today.checked_add(days.days()).ok());
        dates
            .filter(|date| self.is_on(*date))
            .filter_map(|date| self.window(date, &zone))
            .filter(|w| w.since <= now && now < w.until)
            .collect()
    }

    fn is_on(&self, date: Date) -> bool {
        match self.date {
            Some(single) => single == date,
            None => {
                self.days.is_empty() || self.days.iter().any(|day| jiff::civil::Weekday::from(*day) == date.weekday())
            }
        }
    }

    fn window(&self, date: Date, zone: &TimeZone) -> Option<MaintenanceWindow> {
        let since = zone.to_timestamp(date.to_datetime(self.at)).ok()?;
        let labels = serde_json::to_string(&self.labels).unwrap_or_default();
        Some(MaintenanceWindow {
            id: format!("configured {labels} {} {}", unix_ms(since), self.lasts.as_secs()),
            labels: self.labels.clone(),
            since,
            until: after(since, self.lasts),
            who: String::new(),
            reason: self.reason.clone(),
        })
    }
}

/// The windows that are not over.
#[derive(Debug, Default)]
pub struct Maintenance {
    configured: Vec<MaintenanceConfig>,
    windows: RwLock<Vec<MaintenanceWindow>>,
}

impl Maintenance {
    /// Creates it with the windows of the configuration; none is known before the first update.
    pub fn new(configured: Vec<MaintenanceConfig>) -> Self {
        Self { configured, windows: RwLock::default() }
    }

    /// Returns the configured windows that last at `now`.
    fn lasting(&self, now: Timestamp) -> Vec<MaintenanceWindow> {
        self.configured.iter().flat_map(|entry| entry.windows(now)).collect()
    }

    /// Returns all windows that are not over.
    pub fn windows(&self) -> Vec<MaintenanceWindow> {
        self.windows.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Notifier {
    /// Reads the windows that are not over, so that they hold from now on; writes the configured ones that have begun, so that
    /// their end is seen whatever the configuration says then.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn renew_maintenance(&self, now: Timestamp) -> Result<(), StoreError> {
        let mut known = self.store.maintenance(now).await?;
        let mut new = self.maintenance.lasting(now);
        new.retain(|window| known.iter().all(|one| one.id != window.id));
        self.store.begin_maintenance(&new).await?;
        known.extend(new);
        *self.maintenance.windows.write().unwrap_or_else(PoisonError::into_inner) = known;
        Ok(())
    }

    /// Returns the window that keeps an open incident quiet now; of several the one that ends last.
    pub fn maintenance_of(&self, incident: &Incident) -> Option<MaintenanceWindow> {
        let (firing, now) = (incident.firing(), self.store.now());
        let windows = self.maintenance.windows.read().unwrap_or_else(PoisonError::into_inner);
        let covering = windows.iter().filter(|window| incident.open && window.covers(&firing, now));
        covering.max_by_key(|window| window.until).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(text: &str) -> MaintenanceConfig {
        let config: MaintenanceConfig = serde_json::from_str(text).unwrap();
        config.validate().unwrap();
        config
    }

    #[test]
    fn a_window_returns_on_its_days_at_the_clock_of_its_zone() {
        let config = r#"{"labels": {"namespace": "llm"}, "days": ["saturday"], "at": "23:00", "lasts": "2h",
                         "timezone": "Asia/Seoul", "reason": "upgrade"}"#;
        let maintenance = Maintenance::new(vec![entry(config)]);
        let at = |now: &str| maintenance.lasting(now.parse().unwrap()).len();
        // 2026-11-28 is a Saturday; 23:00 in Seoul is 14:00 UTC.
        assert_eq!(at("2026-11-28T13:59:59Z"), 0);
        assert_eq!(at("2026-11-28T14:00:00Z"), 1);
        assert_eq!(at("2026-11-28T15:59:59Z"), 1, "over midnight in Seoul");
        assert_eq!(at("2026-11-28T16:00:00Z"), 0);
    }

    #[test]
    fn a_single_window_does_not_return_and_wrong_ones_are_refused() {
        let config = entry(r#"{"labels": {"a": "b"}, "date": "2026-12-24", "at": "18:00", "lasts": "3d"}"#);
        let lasts =
            |now: &str| config.windows(now.parse().unwrap()).iter().filter(|w| w.until > now.parse().unwrap()).count();
        assert_eq!(
            (lasts("2026-12-24T18:00:00Z"), lasts("2026-12-27T17:00:00Z"), lasts("2026-12-31T18:30:00Z")),
            (1, 1, 0)
        );
        for (text, why) in [
            (r#"{"labels": {}, "at": "18:00", "lasts": "1h"}"#, "needs labels"),
            (r#"{"labels": {"a": "b"}, "at": "18:00", "lasts": "8d"}"#, "at most 7d"),
            (r#"{"labels": {"a": "b"}, "at": "18:00", "lasts": "1h", "timezone": "Mars"}"#, "no time zone"),
            (
                r#"{"labels": {"a": "b"}, "at": "18:00", "lasts": "1h", "date": "2026-12-24", "days": ["monday"]}"#,
                "not both",
            ),
        ] {
            let config: MaintenanceConfig = serde_json::from_str(text).unwrap();
            assert!(config.validate().unwrap_err().contains(why), "{text}");
        }
    }
}

//! The key `watchdog:`.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::is_source;
use knowledge::alert::AlertGroup;
use knowledge::clock::{duration, human_duration};

/// The key `watchdog:`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WatchdogConfig {
    /// The name of the alert that always fires; its notifications open no incident. If empty, no alert is treated so.
    pub alert: String,
    /// The sources that are expected to send it, by the name in the webhook's path or of `webhook.sources`.
    pub sources: Vec<String>,
    /// Time without the alert after which its source counts as silent; must exceed the `repeat_interval` of its route.
    #[serde(deserialize_with = "duration")]
    #[schemars(with = "String")]
    pub within: Duration,
}

impl Default for WatchdogConfig {
    fn default() -> Self {
        Self { alert: "Watchdog".to_owned(), sources: Vec::new(), within: Duration::from_secs(15 * 60) }
    }
}

impl WatchdogConfig {
    /// Checks the rules that the types cannot express.
    ///
    /// # Errors
    /// With the key, the expected value and what to do.
    pub fn validate(&self, stale_after: Duration) -> Result<(), String> {
        if let Some(source) = self.sources.iter().find(|source| !is_source(source)) {
            return Err(format!(
                "`watchdog.sources`: `{source}` is no name of a source: 1 to 100 letters, digits, `.`, `_`, `-`, as in \
                 the webhook's path /webhook/alertmanager/<name>"
            ));
        }
        if !self.sources.is_empty() && self.alert.is_empty() {
            return Err("`watchdog.alert` is empty: name the alert that `watchdog.sources` send".to_owned());
        }
        if self.within < Duration::from_secs(1) {
            return Err("`watchdog.within` is at least 1s, and longer than the route's `repeat_interval`".to_owned());
        }
        // After a start nothing is repeated for `within`, and open incidents are closed as stale after half of `stale_after`.
        if !self.sources.is_empty() && self.within >= stale_after / 2 {
            return Err(format!(
                "`watchdog.within` is less than half of `incident.stale_after`, which is {}: an open silence would end as \
                 stale before it is told again",
                human_duration(stale_after)
            ));
        }
        Ok(())
    }

    /// Returns true if the group is the one that reports an expected source. Names come from callers, so others do not count.
    pub fn reports(&self, group: &AlertGroup) -> bool {
        group.group_key == AlertGroup::SILENT_KEY && self.sources.contains(&group.source())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WITHIN: Duration = Duration::from_secs(900);

    #[test]
    fn a_name_that_no_webhook_can_have_is_refused_with_the_way_out() {
        let config = WatchdogConfig { sources: vec!["a/b".to_owned()], ..WatchdogConfig::default() };
        assert!(config.validate(Duration::MAX).unwrap_err().contains("/webhook/alertmanager/<name>"));
    }

    #[test]
    fn a_silence_is_told_again_before_it_is_stale() {
        let config = WatchdogConfig { sources: vec!["main".to_owned()], within: WITHIN, ..WatchdogConfig::default() };
        assert!(config.validate(2 * WITHIN).unwrap_err().contains("`incident.stale_after`, which is 30 min"));
        assert_eq!(config.validate(2 * WITHIN + Duration::from_secs(1)), Ok(()));
    }
}

//! Configuration of the weekly and daily summaries, and the moments at which they are due.

use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use schemars::JsonSchema;
use serde::Deserialize;

use knowledge::weekday::Weekday;

/// The key `slack.weekly:`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WeeklyConfig {
    /// The day of the week on which it is posted; defaults to monday.
    pub day: Weekday,
    /// The time of day at which it is posted, with hours and minutes; defaults to 09:00.
    pub at: Time,
    /// The time zone of `day` and `at`, by its IANA name, such as Asia/Seoul; defaults to UTC.
    pub timezone: String,
    /// The channels that get one, as they are configured; if empty, all.
    pub channels: Vec<String>,
}

impl Default for WeeklyConfig {
    fn default() -> Self {
        Self { day: Weekday::Monday, at: Time::constant(9, 0, 0, 0), timezone: "UTC".to_owned(), channels: Vec::new() }
    }
}

/// The key `slack.daily:`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DailyConfig {
    /// The time of day at which it is posted, with hours and minutes; defaults to 09:00.
    pub at: Time,
    /// The time zone of `at`, by its IANA name, such as Asia/Seoul; defaults to UTC.
    pub timezone: String,
}

impl Default for DailyConfig {
    fn default() -> Self {
        Self { at: Time::constant(9, 0, 0, 0), timezone: "UTC".to_owned() }
    }
}

/// The moments of the summaries around a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SummaryMoments {
    /// The start of the last period that has ended.
    pub since: Timestamp,
    /// The end of that period: the last moment of a summary.
    pub until: Timestamp,
    /// The next moment.
    pub next: Timestamp,
}

impl WeeklyConfig {
    /// Returns the moments around `now`. The clock in the zone counts: across a change of daylight saving time a week is
    /// an hour shorter or longer.
    ///
    /// # Errors
    /// With the key and what to do, if the system does not know the time zone.
    pub fn moments(&self, now: Timestamp) -> Result<SummaryMoments, String> {
        let zone = zone_named(&self.timezone, "slack.weekly")?;
        let last = |today: Date| today.checked_sub(i64::from(today.weekday().since(self.day.into())).days());
        moments(&zone, self.at, 7, last, now).map_err(|error| format!("`slack.weekly`: {error}"))
    }

    /// Checks the rules that the types cannot express; `known` are the configured channels.
    ///
    /// # Errors
    /// With the key, the expected value and what to do.
    pub fn validate<'a>(&self, mut known: impl Iterator<Item = &'a str> + Clone) -> Result<(), String> {
        self.moments(Timestamp::UNIX_EPOCH)?;
        let unknown = |channel: &&String| !known.clone().any(|known| known == channel.as_str());
        if let Some(channel) = self.channels.iter().find(unknown) {
            return Err(format!(
                "`slack.weekly.channels`: `{channel}` gets no incidents: write a channel as `slack.channel` or one of \
                 `slack.routes` has it"
            ));
        }
        match known.next() {
            Some(_) => Ok(()),
            None => Err("`slack.weekly` needs a channel: set `slack.channel`".to_owned()),
        }
    }
}

impl DailyConfig {
    /// Returns the moments around `now`, as [`WeeklyConfig::moments`] does.
    ///
    /// # Errors
    /// With the key and what to do, if the system does not know the time zone.
    pub fn moments(&self, now: Timestamp) -> Result<SummaryMoments, String> {
        let zone = zone_named(&self.timezone, "slack.daily")?;
        moments(&zone, self.at, 1, Ok, now).map_err(|error| format!("`slack.daily`: {error}"))
    }
}

fn zone_named(name: &str, key: &str) -> Result<TimeZone, String> {
    TimeZone::get(name).map_err(|_| {
        format!(
            "`{key}.timezone: {name}` is no time zone of this system: write an IANA name such as Asia/Seoul or UTC, and \
             install tzdata if it is missing"
        )
    })
}

/// Returns the moments of periods of so many days that end at a time of day; `last` returns the last day of an end, up to
/// today.
fn moments(
    zone: &TimeZone,
    time: Time,
    days: i64,
    last: impl Fn(Date) -> Result<Date, jiff::Error>,
    now: Timestamp,
) -> Result<SummaryMoments, jiff::Error> {
    let at = |date: Date| zone.to_timestamp(date.to_datetime(time));
    let mut day = last(zone.to_datetime(now).date())?;
    if at(day)? > now {
        day = day.checked_sub(days.days())?;
    }
    Ok(SummaryMoments {
        since: at(day.checked_sub(days.days())?)?,
        until: at(day)?,
        next: at(day.checked_add(days.days())?)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn moments(config: &WeeklyConfig, now: &str) -> [String; 3] {
        let SummaryMoments { since, until, next } = config.moments(at(now)).unwrap();
        [since, until, next].map(|at| at.to_string())
    }

    #[test]
    fn the_last_moment_is_the_configured_day_and_time() {
        let monday = WeeklyConfig::default();
        let week = ["2026-11-16T09:00:00Z", "2026-11-23T09:00:00Z", "2026-11-30T09:00:00Z"];
        for now in ["2026-11-23T09:00:00Z", "2026-11-24T01:00:00Z", "2026-11-30T08:59:59Z"] {
            assert_eq!(moments(&monday, now), week, "{now}");
        }
        assert_eq!(moments(&monday, "2026-11-23T08:59:59Z")[1], week[0]);
    }

    #[test]
    fn the_clock_of_the_zone_counts_across_daylight_saving_time() {
        let berlin = WeeklyConfig { timezone: "Europe/Berlin".to_owned(), ..WeeklyConfig::default() };
        // Summer time ended on 2026-10-25, a Sunday.
        let week = ["2026-10-19T07:00:00Z", "2026-10-26T08:00:00Z", "2026-11-02T08:00:00Z"];
        assert_eq!(moments(&berlin, "2026-10-26T08:00:00Z"), week);
        assert_eq!(moments(&berlin, "2026-10-26T07:59:59Z")[1], week[0]);
        // 02:30 does not exist on 2026-03-29: the moment comes at 03:30.
        let gap = WeeklyConfig { day: Weekday::Sunday, at: Time::constant(2, 30, 0, 0), ..berlin };
        assert_eq!(moments(&gap, "2026-03-29T12:00:00Z")[1], "2026-03-29T01:30:00Z");
        // Sunday evening in UTC is Monday morning in Seoul.
        let seoul = WeeklyConfig { timezone: "Asia/Seoul".to_owned(), ..WeeklyConfig::default() };
        assert_eq!(moments(&seoul, "2026-11-23T00:00:00Z")[1], "2026-11-23T00:00:00Z");
    }

    #[test]
    fn what_cannot_be_is_refused_with_the_way_out() {
        let known = ["#llm-alerts"];
        let refused = |config: WeeklyConfig| config.validate(known.into_iter()).unwrap_err();
        let wrong = WeeklyConfig { timezone: "Mars/Base".to_owned(), ..WeeklyConfig::default() };
        assert!(refused(wrong).contains("IANA name"));
        let wrong = WeeklyConfig { channels: vec!["#other".to_owned()], ..WeeklyConfig::default() };
        assert!(refused(wrong).contains("`#other` gets no incidents"));
        assert!(WeeklyConfig::default().validate(std::iter::empty()).unwrap_err().contains("slack.channel"));
        assert_eq!(WeeklyConfig::default().validate(known.into_iter()), Ok(()));
    }
}

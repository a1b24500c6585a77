//! The only place that reads the time; everything else takes it as an argument.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer};

/// The current time.
#[expect(clippy::disallowed_methods, reason = "this is the one place that may read the clock")]
pub fn now() -> Timestamp {
    Timestamp::now()
}

/// Unix time in milliseconds, as the store keeps it.
pub fn unix_ms(at: Timestamp) -> i64 {
    at.as_millisecond()
}

/// The time of a stored unix millisecond; out of jiff's range (year 9999) it is clamped.
pub fn from_unix_ms(ms: i64) -> Timestamp {
    Timestamp::from_millisecond(ms).unwrap_or(Timestamp::MAX)
}

/// `at` minus `by`, stopping at the earliest time that can be represented.
pub fn before(at: Timestamp, by: Duration) -> Timestamp {
    let seconds = i64::try_from(by.as_secs()).unwrap_or(i64::MAX);
    at.checked_sub(jiff::SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MIN)
}

/// `at` plus `by`, stopping at the latest time that can be represented.
pub fn after(at: Timestamp, by: Duration) -> Timestamp {
    jiff::SignedDuration::try_from(by).ok().and_then(|by| at.checked_add(by).ok()).unwrap_or(Timestamp::MAX)
}

/// The last multiple of `step` (whole seconds, at least one) that is not after `at`.
pub fn floor(at: Timestamp, step: Duration) -> Timestamp {
    let step = i64::try_from(step.as_secs().max(1)).unwrap_or(1);
    Timestamp::from_second(at.as_second().div_euclid(step) * step).unwrap_or(at)
}

/// The time from `from` to `to`, zero when `to` is earlier.
pub fn between(from: Timestamp, to: Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or_default()
}

/// A duration as people say it: `45 s`, `3 min`, `2 h 10 min`, `3 d 4 h`.
pub fn spoken(duration: Duration) -> String {
    let s = duration.as_secs();
    let (major, minor) = match s {
        0..=119 => return format!("{s} s"),
        120..=7_199 => return format!("{} min", s / 60),
        7_200..=172_799 => ((s / 3_600, "h"), (s % 3_600 / 60, "min")),
        _ => ((s / 86_400, "d"), (s % 86_400 / 3_600, "h")),
    };
    match minor.0 {
        0 => format!("{} {}", major.0, major.1),
        _ => format!("{} {} {} {}", major.0, major.1, minor.0, minor.1),
    }
}

/// Reads a duration of a configuration file.
///
/// # Errors
/// With the text and how to write it.
pub(crate) fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    humantime::parse_duration(&text)
        .map_err(|_| serde::de::Error::custom(format!("`{text}` is no duration: write it like 30s, 5m, 1d")))
}

/// Reads a time as people pass it: RFC 3339, or unix seconds with or without a fraction.
///
/// # Errors
/// A sentence that says what was expected.
pub fn parse_time(text: &str) -> Result<Timestamp, String> {
    if let Ok(at) = text.parse::<Timestamp>() {
        return Ok(at);
    }
    text.parse::<f64>()
        .ok()
        .filter(|seconds| seconds.is_finite())
        .and_then(|seconds| Timestamp::from_millisecond((seconds * 1_000.0) as i64).ok())
        .ok_or_else(|| format!("`{text}` is no time: expected RFC 3339 such as 2026-11-20T14:05:00Z, or unix seconds"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_spoken_in_two_units_at_most() {
        let say = |s| spoken(Duration::from_secs(s));
        assert_eq!([say(45), say(180), say(7_800), say(200_000)], ["45 s", "3 min", "2 h 10 min", "2 d 7 h"]);
    }

    #[test]
    fn a_time_is_rfc_3339_or_unix_seconds() {
        assert_eq!(parse_time("1700000000.5").unwrap().as_millisecond(), 1_700_000_000_500);
        assert_eq!(parse_time("2026-11-20T14:05:00Z").unwrap(), parse_time("1795183500").unwrap());
        assert!(parse_time("yesterday").unwrap_err().contains("RFC 3339"));
    }
}

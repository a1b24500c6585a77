//! Reads and calculates times. No other module reads the clock; everything else takes the time as an argument.

use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Deserializer};

/// Returns the current time.
#[expect(clippy::disallowed_methods, reason = "this is the one place that may read the clock")]
pub fn now() -> Timestamp {
    Timestamp::now()
}

/// The smallest difference that counts as a clock step or a suspended machine. Smaller differences are clock drift or a
/// delayed answer.
pub const STEP: SignedDuration = SignedDuration::from_secs(1);

/// A monotonic clock that follows a reference clock. When the reference is set, it continues evenly until
/// [`Self::follow`] accepts the new time.
#[derive(Debug, Clone, Copy)]
pub struct MonotonicClock {
    read: Instant,
    showed: Timestamp,
    steady_since: Instant,
}

impl MonotonicClock {
    /// Creates a clock that shows `reference` at the moment `at`.
    pub fn new(reference: Timestamp, at: Instant) -> Self {
        Self { read: at, showed: reference, steady_since: at }
    }

    /// Returns the time that the clock shows at the moment `at`.
    pub fn at(&self, at: Instant) -> Timestamp {
        after(self.showed, at.saturating_duration_since(self.read))
    }

    /// Returns the clock step of the reference, negative for a step back; `None` below [`STEP`].
    pub fn step(&self, reference: Timestamp, at: Instant) -> Option<SignedDuration> {
        let ahead = reference.duration_since(self.at(at));
        (ahead.abs() >= STEP).then_some(ahead)
    }

    /// Sets the clock to `reference` at the moment `at`.
    pub fn follow(&mut self, reference: Timestamp, at: Instant) {
        let steady_since = if self.step(reference, at).is_some() { at } else { self.steady_since };
        *self = Self { read: at, showed: reference, steady_since };
    }

    /// Returns the time since the last step of the reference.
    pub fn steady_for(&self, at: Instant) -> Duration {
        at.saturating_duration_since(self.steady_since)
    }
}

/// Returns the Unix time in milliseconds, the store's format.
pub fn unix_ms(at: Timestamp) -> i64 {
    at.as_millisecond()
}

/// Converts stored unix milliseconds to a time; a value outside jiff's range becomes its latest time (year 9999).
pub fn from_unix_ms(ms: i64) -> Timestamp {
    Timestamp::from_millisecond(ms).unwrap_or(Timestamp::MAX)
}

/// Returns `at` minus `by`, or the earliest representable time if the result is before it.
pub fn before(at: Timestamp, by: Duration) -> Timestamp {
    let seconds = i64::try_from(by.as_secs()).unwrap_or(i64::MAX);
    at.checked_sub(jiff::SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MIN)
}

/// Returns `at` plus `by`, or the latest representable time if the result is after it.
pub fn after(at: Timestamp, by: Duration) -> Timestamp {
    jiff::SignedDuration::try_from(by).ok().and_then(|by| at.checked_add(by).ok()).unwrap_or(Timestamp::MAX)
}

/// Rounds `at` down to a multiple of `step` (whole seconds, at least one).
pub fn floor(at: Timestamp, step: Duration) -> Timestamp {
    let step = i64::try_from(step.as_secs().max(1)).unwrap_or(1);
    Timestamp::from_second(at.as_second().div_euclid(step) * step).unwrap_or(at)
}

/// Returns the time from `from` to `to`; zero if `to` is earlier.
pub fn between(from: Timestamp, to: Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or_default()
}

/// The pauses between tries: each is twice the one before it, up to the longest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// The pause after the first failure.
    pub first: Duration,
    /// The longest pause.
    pub longest: Duration,
}

impl Backoff {
    /// Returns the pause after a failure, by the number of failures in a row before it.
    pub fn pause(self, earlier: u32) -> Duration {
        self.first.saturating_mul(1 << earlier.min(16)).min(self.longest)
    }
}

/// Parses the length of a time that somebody asks about: between one second and 31 days.
///
/// # Errors
/// With what was expected.
pub fn span(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(d) if d >= Duration::from_secs(1) && d <= Duration::from_secs(31 * 86_400) => Ok(d),
        Ok(_) => Err("expected between 1s and 31d".to_owned()),
        Err(_) => Err("expected a duration such as 30s, 5m, 1d".to_owned()),
    }
}

/// Formats a duration for people: `45 s`, `3 min`, `2 h 10 min`, `3 d 4 h`.
pub fn human_duration(duration: Duration) -> String {
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

/// Parses a duration in a configuration file.
///
/// # Errors
/// With the text and an example of the format.
pub fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    humantime::parse_duration(&text)
        .map_err(|_| serde::de::Error::custom(format!("`{text}` is no duration: write it like 30s, 5m, 1d")))
}

/// Parses a time: RFC 3339, unix seconds with or without a fraction, or the format of our own output, `2026-11-20
/// 22:48:55 UTC`, in which the zone and the seconds may be missing.
///
/// # Errors
/// A sentence that names the expected formats.
pub fn parse_time(text: &str) -> Result<Timestamp, String> {
    if let Ok(at) = text.parse::<Timestamp>() {
        return Ok(at);
    }
    if let Some(Ok(at)) = without_zone(text).parse().ok().map(in_utc) {
        return Ok(at);
    }
    text.parse::<f64>()
        .ok()
        .filter(|seconds| seconds.is_finite())
        .and_then(|seconds| Timestamp::from_millisecond((seconds * 1_000.0) as i64).ok())
        .ok_or_else(|| format!("`{text}` is no time: expected RFC 3339 such as 2026-11-20T14:05:00Z, or unix seconds"))
}

/// Removes the trailing `UTC` or `Z`.
fn without_zone(text: &str) -> &str {
    text.strip_suffix("UTC").or_else(|| text.strip_suffix(['Z', 'z'])).unwrap_or(text).trim_end()
}

fn in_utc(at: jiff::civil::DateTime) -> Result<Timestamp, jiff::Error> {
    at.to_zoned(jiff::tz::TimeZone::UTC).map(|at| at.timestamp())
}

/// A point in time as entered by a user; [`TimeArgument::resolve`] turns it into a timestamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeArgument {
    /// This exact time.
    At(Timestamp),
    /// The last occurrence of this time of day, in UTC.
    Of(jiff::civil::Time),
    /// The last occurrence of this day and time of a year, in UTC; the year in the value is ignored.
    On(jiff::civil::DateTime),
    /// This long before now.
    Ago(Duration),
}

impl TimeArgument {
    /// Parses `14:05`, `14:05:30 UTC`, `11-20 14:05:30`, `10m ago`, or any format of [`parse_time`].
    ///
    /// # Errors
    /// A sentence that names the expected formats.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let hours = text.split(':').next().unwrap_or_default();
        if text.contains(':') && matches!(hours.len(), 1 | 2) {
            let padded = if hours.len() == 1 { format!("0{text}") } else { text.to_owned() };
            if let Ok(time) = without_zone(&padded).parse() {
                return Ok(Self::Of(time));
            }
        }
        // The format of reports without a year. 2024 is a leap year, so every day is valid.
        let is_day = text.len() > 6 && text.as_bytes()[2] == b'-' && text.as_bytes()[5] == b' ';
        if is_day && let Ok(at) = format!("2024-{}", without_zone(text)).parse() {
            return Ok(Self::On(at));
        }
        if let Some(ago) = text.strip_suffix("ago").map(str::trim) {
            let ago = humantime::parse_duration(ago).ok().filter(|ago| ago.as_secs() <= 366 * 86_400);
            return ago.map(Self::Ago).ok_or_else(|| format!("`{text}` is no time: write it like 10m ago, 2h ago"));
        }
        match text {
            "now" => Ok(Self::Ago(Duration::ZERO)),
            text => parse_time(text).map(Self::At).map_err(|error| format!("{error}, 14:05 (UTC), 10m ago")),
        }
    }

    /// Returns the timestamp, relative to `now`; a time of day is never in the future.
    pub fn resolve(self, now: Timestamp) -> Timestamp {
        match self {
            Self::At(at) => at,
            Self::Ago(ago) => before(now, ago),
            Self::On(day) => {
                let year = now.to_zoned(jiff::tz::TimeZone::UTC).year();
                // The last 29 February is at most eight years ago.
                let years = (0..=8).filter_map(|back| day.with().year(year - back).build().ok());
                years.filter_map(|at| in_utc(at).ok()).find(|at| *at <= now).unwrap_or(now)
            }
            Self::Of(time) => {
                let today = now.to_zoned(jiff::tz::TimeZone::UTC).date();
                let at = in_utc(today.to_datetime(time)).unwrap_or(now);
                if at > now { before(at, Duration::from_secs(86_400)) } else { at }
            }
        }
    }
}

/// The time range and the step of a range query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Range {
    /// The start, included.
    pub from: Timestamp,
    /// The end, included.
    pub to: Timestamp,
    /// Seconds between two samples, at least 1.
    pub step_seconds: i64,
}

impl Range {
    /// Returns the times of all steps.
    pub fn steps(&self) -> impl Iterator<Item = Timestamp> + use<> {
        let (from, to, step) = (self.from.as_second(), self.to.as_second(), self.step_seconds.max(1));
        (0..)
            .map(move |i| from + i * step)
            .take_while(move |at| *at <= to)
            .filter_map(|seconds| Timestamp::from_second(seconds).ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_clock_follows_what_is_slow_and_reports_what_was_set() {
        let (start, begin): (Timestamp, _) = ("2026-11-20T14:00:00Z".parse().unwrap(), Instant::now());
        let later = |s: u64| (after(start, Duration::from_secs(s)), begin + Duration::from_secs(s));
        let mut clock = MonotonicClock::new(start, begin);
        let (shown, at) = later(10);
        assert_eq!((clock.at(at), clock.step(shown, at)), (shown, None));
        let slewed = after(shown, Duration::from_millis(900));
        assert_eq!(clock.step(slewed, at), None);
        clock.follow(slewed, at);
        assert_eq!((clock.at(at), clock.steady_for(at)), (slewed, Duration::from_secs(10)));
        // The reference is set back by an hour, five seconds later; until the step is accepted, time continues.
        let (_, at) = later(15);
        let set = before(start, Duration::from_secs(3_600));
        assert!(clock.step(set, at).is_some_and(|step| step < SignedDuration::from_secs(-3_600)));
        assert_eq!(clock.at(at), after(slewed, Duration::from_secs(5)));
        clock.follow(set, at);
        assert_eq!((clock.at(at), clock.steady_for(later(16).1)), (set, Duration::from_secs(1)));
    }

    #[test]
    fn a_time_of_day_is_the_last_such_in_utc() {
        let now: Timestamp = "2026-11-20T14:00:00Z".parse().unwrap();
        let at = |text: &str| TimeArgument::parse(text).unwrap().resolve(now).to_string();
        assert_eq!(at("13:59"), "2026-11-20T13:59:00Z");
        assert_eq!(at("14:05"), "2026-11-19T14:05:00Z");
        assert_eq!(at("9:05"), "2026-11-20T09:05:00Z");
        assert_eq!(at("90m ago"), "2026-11-20T12:30:00Z");
        assert_eq!(at("2026-11-20T03:00:00+02:00"), "2026-11-20T01:00:00Z");
        for wrong in ["13-20 14:05", "11-20 25:05", "25:00", "14:5x", "soon ago", "", ":", "9999999999h ago"] {
            assert!(TimeArgument::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn every_form_that_our_output_has_is_taken_again() {
        let now: Timestamp = "2026-11-21T14:00:00Z".parse().unwrap();
        let at: Timestamp = "2026-11-20T22:48:55Z".parse().unwrap();
        let minute: Timestamp = "2026-11-20T22:48:00Z".parse().unwrap();
        for (form, same) in [
            ("%Y-%m-%d %H:%M:%S UTC", at),
            ("%Y-%m-%d %H:%M:%S", at),
            ("%Y-%m-%d %H:%M UTC", minute),
            ("%m-%d %H:%M:%S", at),
            ("%H:%M:%S UTC", at),
            ("%H:%M:%S", at),
            ("%H:%M UTC", minute),
            ("%Y%m%dT%H%M%SZ", at),
            ("%Y-%m-%dT%H:%M:%SZ", at),
        ] {
            let text = at.strftime(form).to_string();
            assert_eq!(TimeArgument::parse(&text).map(|moment| moment.resolve(now)), Ok(same), "{text}");
        }
        let day = TimeArgument::parse("2026-11-20").unwrap().resolve(now);
        assert_eq!(day.to_string(), "2026-11-20T00:00:00Z");
        assert_eq!(TimeArgument::parse("02-29 01:00").unwrap().resolve(now).to_string(), "2024-02-29T01:00:00Z");
    }

    #[test]
    fn pauses_double_up_to_the_longest() {
        let backoff = Backoff { first: Duration::from_secs(1), longest: Duration::from_secs(60) };
        let pauses = [0, 1, 2, 5, 6, u32::MAX].map(|earlier| backoff.pause(earlier).as_secs());
        assert_eq!(pauses, [1, 2, 4, 32, 60, 60]);
    }

    #[test]
    fn durations_are_spoken_in_two_units_at_most() {
        let say = |s| human_duration(Duration::from_secs(s));
        assert_eq!([say(45), say(180), say(7_800), say(200_000)], ["45 s", "3 min", "2 h 10 min", "2 d 7 h"]);
    }

    #[test]
    fn a_time_is_rfc_3339_or_unix_seconds() {
        assert_eq!(parse_time("1700000000.5").unwrap().as_millisecond(), 1_700_000_000_500);
        assert_eq!(parse_time("2026-11-20T14:05:00Z").unwrap(), parse_time("1795183500").unwrap());
        assert!(parse_time("yesterday").unwrap_err().contains("RFC 3339"));
    }
}

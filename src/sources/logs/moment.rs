//! Timestamps of log lines.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};

/// The time of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LogTime {
    /// The text as written.
    pub(super) text: String,
    /// The parsed time. Without a zone it counts as UTC, the usual zone of containers; without a year, the year
    /// nearest to `near` is taken.
    pub(super) at: Option<Timestamp>,
}

/// Bytes of a line in which a time is searched; a prefix such as `(EngineCore_DP0 pid=77352) WARNING ` or a
/// container's name may precede it.
const PREFIX_BYTES: usize = 120;
/// The year for a time without one if `near` is unknown: then only differences matter.
const SOME_YEAR: i16 = 2000;

/// Returns the first time in a line: `2026-11-20T03:02:11.123Z`, `2026-11-20 03:02:11+0100`, `11-20 03:02:11`.
pub(super) fn of(line: &str, near: Option<Timestamp>) -> Option<LogTime> {
    let bytes = line.as_bytes();
    let digit = |i: usize| bytes.get(i).is_some_and(u8::is_ascii_digit);
    // Matches hh:mm:ss; a date must precede it.
    let colon = (2..bytes.len().min(PREFIX_BYTES)).find(|i| {
        bytes[*i] == b':'
            && bytes.get(*i + 3) == Some(&b':')
            && [i - 2, i - 1, i + 1, i + 2, i + 4, i + 5].into_iter().all(digit)
    })?;
    let clock = colon - 2;
    let date = clock.checked_sub(6).filter(|d| {
        matches!(bytes[clock - 1], b' ' | b'T')
            && bytes[d + 2] == b'-'
            && [*d, d + 1, d + 3, d + 4].into_iter().all(digit)
    })?;
    let year = date.checked_sub(5).filter(|y| bytes[date - 1] == b'-' && (*y..y + 4).all(digit));
    let (from, to) = (year.unwrap_or(date), clock + 8);
    let text = line.get(from..to)?.to_owned();
    let zone = offset(&bytes[to..]);
    let civil = |written: String| written.parse::<DateTime>().ok();
    let at = |civil: DateTime| civil.to_zoned(TimeZone::fixed(zone)).ok().map(|zoned| zoned.timestamp());
    let at = match (year, near) {
        (Some(_), _) => civil(text.replacen(' ', "T", 1)).and_then(at),
        (None, None) => civil(format!("{SOME_YEAR}-{}", text.replacen(' ', "T", 1))).and_then(at),
        (None, Some(near)) => {
            let year = near.to_zoned(TimeZone::UTC).year();
            let years = [year - 1, year, year + 1];
            let possible = years.into_iter().filter_map(|y| civil(format!("{y:04}-{}", text.replacen(' ', "T", 1))));
            possible.filter_map(at).min_by_key(|at| at.as_second().abs_diff(near.as_second()))
        }
    };
    Some(LogTime { text, at })
}

/// Returns the zone after seconds and fraction: `.123Z`, `,5+01:00`, `-0530`; UTC if there is none.
fn offset(rest: &[u8]) -> Offset {
    let fraction = match rest.first() {
        Some(b'.' | b',') => 1 + rest[1..].iter().take_while(|b| b.is_ascii_digit()).count(),
        _ => 0,
    };
    let rest = &rest[fraction..];
    let sign = match rest.first() {
        Some(b'+') => 1,
        Some(b'-') => -1,
        _ => return Offset::UTC,
    };
    let digits: Vec<i32> = rest[1..]
        .iter()
        .enumerate()
        .filter(|(i, b)| !(*i == 2 && **b == b':'))
        .map_while(|(_, b)| b.is_ascii_digit().then(|| i32::from(b - b'0')))
        .take(4)
        .collect();
    match digits.as_slice() {
        [h, i, m, s] => Offset::from_seconds(sign * ((h * 10 + i) * 3_600 + (m * 10 + s) * 60)).unwrap_or(Offset::UTC),
        _ => Offset::UTC,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_engine_s_way_to_write_a_time_is_read() {
        let lines = [
            ("(EngineCore_DP0 pid=77352) INFO 10-22 09:33:49 [kv_cache_utils.py:1087] x", "10-22 09:33:49"),
            ("[2026-11-20 03:02:11 TP0] Decode batch", "2026-11-20 03:02:11"),
            ("2026-11-20T03:02:11.123456789Z stdout F x", "2026-11-20T03:02:11"),
        ];
        for (line, text) in lines {
            let moment = of(line, None).unwrap();
            assert_eq!(moment.text, text);
            assert!(moment.at.is_some(), "{line}");
        }
        assert_eq!(of("ü 12:34", None), None);
        assert_eq!(of("at 12:34:56", None), None);
        assert_eq!(of(":::::::", None), None);
    }

    #[test]
    fn zones_count_and_a_missing_year_is_the_nearest_one() {
        let near: Timestamp = "2027-01-01T00:10:00Z".parse().unwrap();
        let at = |line: &str| of(line, Some(near)).unwrap().at.unwrap().to_string();
        assert_eq!(at("2026-11-20T03:02:11.5+01:00 x"), "2026-11-20T02:02:11Z");
        assert_eq!(at("2026-11-20T03:02:11-0530 x"), "2026-11-20T08:32:11Z");
        assert_eq!(at("2026-11-20 03:02:11+9 x"), "2026-11-20T03:02:11Z");
        assert_eq!(at("INFO 12-31 23:59:00 [x] y"), "2026-12-31T23:59:00Z");
        assert_eq!(at("INFO 01-01 00:01:00 [x] y"), "2027-01-01T00:01:00Z");
        // 29 February is valid only in a leap year.
        let near = Some("2026-06-01T00:00:00Z".parse().unwrap());
        assert_eq!(of("INFO 02-29 00:01:00 [x] y", near).unwrap().at, None);
        assert_eq!(of("INFO 99-99 00:01:00 [x] y", near).unwrap().at, None);
    }
}

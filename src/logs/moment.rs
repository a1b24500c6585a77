//! When a line was written, as far as it tells.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

/// A line's time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Moment {
    /// As it is written.
    pub(super) text: String,
    /// As a time, for distances within this log: without a zone it counts as UTC, without a year as 2000.
    pub(super) at: Option<Timestamp>,
}

/// How far into a line a time may begin: behind `(EngineCore_DP0 pid=77352) WARNING `, or a container's name.
const WITHIN: usize = 120;

/// The first time in a line: `2026-11-20T03:02:11.123Z`, `2026-11-20 03:02:11`, `11-20 03:02:11`.
pub(super) fn of(line: &str) -> Option<Moment> {
    let bytes = line.as_bytes();
    let digit = |i: usize| bytes.get(i).is_some_and(u8::is_ascii_digit);
    // hh:mm:ss with a date before it.
    let colon = (2..bytes.len().min(WITHIN)).find(|i| {
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
    let full = match year {
        Some(_) => text.replacen(' ', "T", 1),
        None => format!("2000-{}", text.replacen(' ', "T", 1)),
    };
    let at = full.parse::<DateTime>().ok().and_then(|civil| civil.to_zoned(TimeZone::UTC).ok()).map(|z| z.timestamp());
    Some(Moment { text, at })
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
            let moment = of(line).unwrap();
            assert_eq!(moment.text, text);
            assert!(moment.at.is_some(), "{line}");
        }
        assert_eq!(of("ü 12:34"), None);
        assert_eq!(of("at 12:34:56"), None);
        assert_eq!(of(":::::::"), None);
    }
}

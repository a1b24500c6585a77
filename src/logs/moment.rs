//! Timestamps of log lines.

use std::sync::LazyLock;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};
use regex::Regex;

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

/// Returns the time of a line that counts the seconds since 1970: `{"ts":1763654546.12`, `[1763654546.12]`.
pub(super) fn epoch(line: &str) -> Option<LogTime> {
    let head = line.get(..line.len().min(PREFIX_BYTES)).unwrap_or(line);
    let rest = head.split_once("\"ts\":").map(|(_, rest)| rest.trim_start()).or_else(|| head.strip_prefix('['))?;
    let seconds = rest.get(..10).filter(|text| text.bytes().all(|b| b.is_ascii_digit()))?;
    let follows = rest.as_bytes().get(10)?;
    let at = Timestamp::from_second(seconds.parse().ok()?).ok().filter(|_| !follows.is_ascii_digit())?;
    Some(LogTime { text: at.strftime("%Y-%m-%d %H:%M:%S").to_string(), at: Some(at) })
}

/// A time with its date: ISO, vLLM's without the year, glog's, TensorRT-LLM's, syslog's, `dmesg -T` and Kibana's.
static WRITTEN: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let dates = [
        r"(?P<y1>\d{4})[-/](?P<m1>\d\d)[-/](?P<d1>\d\d)[T ]",
        r"(?P<m2>\d\d)-(?P<d2>\d\d)[T ]",
        // PyTorch's has no zero before the month.
        r"\b[IWEF](?P<m3>\d?\d)(?P<d3>\d\d) ",
        r"(?P<m4>\d\d)/(?P<d4>\d\d)/(?P<y4>\d{4})-",
        r"(?P<month>Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) (?P<d5>[ \d]?\d)(?:, (?P<y2>\d{4}) @)? ",
    ];
    Regex::new(&format!(r"(?:^|(?:{}))(?P<time>\d\d:\d\d:\d\d)(?: (?P<y5>\d{{4}})\])?", dates.join("|"))).ok()
});

/// Returns the first time in a line; of a line that begins with a clock only the text.
pub(super) fn of(line: &str, near: Option<Timestamp>) -> Option<LogTime> {
    let head = &line[..line.floor_char_boundary(PREFIX_BYTES)];
    let parts = WRITTEN.as_ref()?.captures(head)?;
    let group = |name: &str| parts.name(name).map(|group| group.as_str().trim());
    let any = |letter: char| (1..=5).find_map(|n| group(&format!("{letter}{n}")));
    let time = parts.name("time")?;
    let month = any('m').and_then(|month| month.parse().ok()).or_else(|| {
        const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
        Some(MONTHS.find(group("month")?)? / 3 + 1)
    });
    let Some((month, day)) = month.zip(any('d')) else {
        return Some(LogTime { text: time.as_str().to_owned(), at: None });
    };
    let text = match group("m3") {
        Some(_) => format!("{month:02}-{day} {}", time.as_str()),
        None => head[parts.get(0)?.start()..time.end()].to_owned(),
    };
    let zone = TimeZone::fixed(offset(&line.as_bytes()[time.end()..]));
    let at = |year: i16| {
        let civil: DateTime = format!("{year:04}-{month:02}-{day:0>2}T{}", time.as_str()).parse().ok()?;
        civil.to_zoned(zone.clone()).ok().map(|zoned| zoned.timestamp())
    };
    let at = match (any('y').and_then(|year| year.parse().ok()), near) {
        (Some(year), _) => at(year),
        (None, None) => at(SOME_YEAR),
        (None, Some(near)) => {
            let year = near.to_zoned(TimeZone::UTC).year();
            let possible = [year - 1, year, year + 1].into_iter().filter_map(at);
            possible.min_by_key(|at| at.as_second().abs_diff(near.as_second()))
        }
    };
    Some(LogTime { text, at })
}

/// Returns a time with the year of times that are written without one, so that both can be compared.
pub(super) fn without_year(at: Timestamp) -> Timestamp {
    let civil = at.to_zoned(TimeZone::UTC).datetime();
    let same = civil.with().year(SOME_YEAR).build().ok().and_then(|civil| civil.to_zoned(TimeZone::UTC).ok());
    same.map_or(at, |zoned| zoned.timestamp())
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
            ("[rank0]:[E1120 03:02:11.131931664 ProcessGroupNCCL.cpp:632] x", "11-20 03:02:11"),
            ("[rank1]:[E220 03:02:11.131931664 ProcessGroupNCCL.cpp:632] x", "02-20 03:02:11"),
            ("[11/20/2026-03:02:11] [TRT-LLM] [E] x", "11/20/2026-03:02:11"),
            ("2026/11/20 03:02:11 [error] x", "2026/11/20 03:02:11"),
            ("Nov  2 03:02:11 node-a kernel: x", "Nov  2 03:02:11"),
            ("[Fri Nov 20 03:02:11 2026] NVRM: x", "Nov 20 03:02:11"),
            ("Nov 2, 2026 @ 03:02:11.892    [rank8]:[W1102 03:02:11.4 x.cpp:1] x", "Nov 2, 2026 @ 03:02:11"),
        ];
        for (line, text) in lines {
            let moment = of(line, None).unwrap();
            assert_eq!(moment.text, text);
            assert!(moment.at.is_some(), "{line}");
        }
        assert_eq!(of("ü 12:34", None), None);
        assert_eq!(of("at 12:34:56", None), None);
        assert_eq!(of("12:34:56 - x", None).unwrap().at, None, "a clock without a date");
        let kernel = of("[Fri Nov 20 03:02:11 2026] x", None).unwrap().at.unwrap();
        assert_eq!(kernel.to_string(), "2026-11-20T03:02:11Z");
        assert_eq!(without_year(kernel), of("INFO 11-20 03:02:11 x", None).unwrap().at.unwrap());
        assert_eq!(of(":::::::", None), None);
        for line in ["{\"level\":\"error\",\"ts\":1763654546.12,\"msg\":\"x\"}", "[1763654546.1] [h:1 :0] UCX  ERROR x"]
        {
            assert_eq!(epoch(line).unwrap().text, "2025-11-20 16:02:26");
        }
        assert_eq!(epoch("[373860.201440] NVRM: x"), None, "seconds since the start of the node");
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

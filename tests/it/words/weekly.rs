//! The weekly summary as people read it: short, inside Slack's limits, each line with a link, harmless whatever labels hold.

use jiff::{SignedDuration, Timestamp};
use knowledge::alert::Labels;
use message::{Block, Line, Message, TextSpan};
use render::{Phrases, terminal, weekly_message};
use report::MissingData;
use report::weekly::{SCHEMA, WeeklyCause, WeeklyCount, WeeklyGap, WeeklyOpen, WeeklySummary, WeeklyTimes};

use super::blocks;
use crate::adverse::HOSTILE;

const PAGES: &str = "https://triage.example/incidents";

fn at() -> Timestamp {
    "2026-11-23T09:00:00Z".parse().unwrap()
}

fn times(incidents: u64, median_seconds: u64, longest_seconds: u64) -> Option<WeeklyTimes> {
    let longest = "01KA8QW0E5Z6V7TBNB1M8CHF2D".to_owned();
    Some(WeeklyTimes { incidents, median_seconds, longest_seconds, longest })
}

fn count(incidents: u64) -> WeeklyCount {
    WeeklyCount { incidents, newest: "01KA8QW0E5Z6V7TBNB1M8CHF2D".to_owned() }
}

/// A summary with `many` of each kind, whose titles hold `text`.
fn summary(text: &str, many: usize) -> WeeklySummary {
    let pool = || Labels::from([("namespace".to_owned(), "prod".to_owned()), ("model".to_owned(), text.to_owned())]);
    let cause = |n: usize| WeeklyCause {
        cause: "gpu-clock-bound".to_owned(),
        title: format!("GPU clocks are pulled down {text}"),
        pool: pool(),
        count: count(n as u64),
        before: 3,
        last_before: Some(at() - SignedDuration::from_hours(400)),
        done: (n > 1).then(|| format!("Scale out {text}")),
        verified: (n > 2).then(|| format!("fixed: 2 {text}")),
    };
    let open = WeeklyOpen {
        incident: "01KA8QW0E5Z6V7TBNB1M8CHF2D".to_owned(),
        title: text.to_owned(),
        pool: pool(),
        since: at() - SignedDuration::from_hours(9),
    };
    let gap = |enable: Option<&str>| WeeklyGap {
        missing: MissingData {
            what: format!("queue length {text}"),
            why: "no series".to_owned(),
            enable: enable.map(|enable| format!("{enable} {text}")),
        },
        count: count(4),
    };
    WeeklySummary {
        schema: SCHEMA.to_owned(),
        channel: "#llm-alerts".to_owned(),
        since: at() - SignedDuration::from_hours(168),
        until: at(),
        incidents: 14,
        before: 9,
        read: 14,
        critical: 3,
        refired: 1,
        stale: 1,
        open: many as u64,
        still_open: vec![open; many],
        first_message: times(14, 4, 21),
        acknowledged: times(11, 180, 2_400),
        resolved: times(12, 1_080, 7_500),
        causes: (1..=many).rev().map(cause).collect(),
        more_causes: 2,
        unexplained: Some(count(4)),
        blind: vec![gap(Some("set `--enable-metrics`")); many],
    }
}

/// All lines but the last, which tells the time.
fn lines(message: &Message) -> Vec<&Line> {
    let sections = message.parts.iter().filter_map(|block| match block {
        Block::Section(_, lines) => Some(lines),
        _ => None,
    });
    sections.flatten().collect()
}

#[test]
fn a_week_is_read_at_a_glance_and_each_line_leads_to_an_incident() {
    let words = Phrases::english();
    let told = weekly_message(&summary("llama-70b", 3), Some(PAGES), &words);
    let text = terminal(&told);
    for said in [
        "Week in #llm-alerts: 14 incidents (9 the week before), 3 still open",
        "First message: median 4 s, at most 21 s:",
        "Acknowledged: 11 of 14, median 3 min, at most 40 min:",
        "Over: 12 of 14, median 18 min, at most 2 h 5 min:",
        "… and 2 more causes",
        "4 × no cause named:",
        "4 incidents without a cause lack queue length llama-70b:",
        "3 times this week, 3 before, last on 2026-11-06. Done last: \"Scale out llama-70b\"; verified: fixed: 2 llama-70b",
        "once this week, 3 before, last on 2026-11-06. No step was marked as done",
    ] {
        assert!(text.contains(said), "{said} is not in\n{text}");
    }
    let counts = ["… and", "Fired again", "Closed because"];
    for line in lines(&told).iter().filter(|line| !counts.iter().any(|start| line.text().starts_with(start))) {
        let has_link = line.0.iter().any(|span| matches!(span, TextSpan::Link(_, url) if url.starts_with(PAGES)));
        assert!(has_link, "{line:?}");
    }
    // Without pages the short id stands there, which commands understand.
    let bare = terminal(&weekly_message(&summary("llama-70b", 3), None, &words));
    assert!(bare.contains("HF2D") && !bare.contains("http"), "{bare}");
}

#[test]
fn a_quiet_week_is_one_line() {
    let quiet = WeeklySummary {
        incidents: 0,
        read: 0,
        refired: 0,
        stale: 0,
        first_message: None,
        acknowledged: None,
        resolved: None,
        more_causes: 0,
        unexplained: None,
        ..summary("", 0)
    };
    let told = weekly_message(&quiet, Some(PAGES), &Phrases::english());
    assert_eq!(told.headline, "Week in #llm-alerts: no incident (9 the week before)");
    assert_eq!(told.parts.len(), 1, "the time: {:?}", told.parts);
    blocks(&told);
}

#[test]
fn no_label_breaks_the_summary_or_calls_anybody() {
    let words = Phrases::english();
    for text in [HOSTILE.to_owned(), HOSTILE.repeat(50), "\u{202e}".repeat(300), String::new()] {
        let hostile = WeeklySummary { channel: text.clone(), ..summary(&text, 10) };
        for pages in [Some(PAGES), None] {
            let body = blocks(&weekly_message(&hostile, pages, &words)).to_string();
            assert!(!body.contains("<!channel>") && !body.contains("<@U0ANN>"), "{body}");
        }
    }
}

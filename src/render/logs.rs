//! Log reports of engines ─▶ [`Message`].

use super::Phrases;
use super::document::drop_empty;
use super::facts::few;
use findings::LogsRead;
use knowledge::playbook::{LogRank, LogStage};
use knowledge::signal::format_value;
use logs::{LogAnalysis, LogEvent, LogMatch, LogValueSummary, NamedLogAnalysis, UnclassifiedErrors, in_order};
use message::{Block, Line, Message, StateStyle, Tone};

/// Maximum number of findings shown of one log.
const FINDINGS: usize = 20;
/// Maximum number of logs shown beside a diagnosis.
const LOGS: usize = 4;
/// Maximum characters of an unknown error in a headline.
const SAID: usize = 200;

/// Builds the message of log reports; `known` lists the engines whose logs can be parsed.
pub fn logs(logs: &[NamedLogAnalysis], known: &[&str], words: &Phrases) -> Message {
    let several = logs.len() > 1;
    let order = in_order(logs);
    let (tone, headline) = match (order.first(), logs) {
        (_, [log]) => log_headline(&log.report, words),
        (Some((log, _)), _) => {
            let pieces = [("name", log.name.as_str().into()), ("root", story(&log.report, words).into())];
            (Tone::Critical, words.text("logs-root-of", &pieces))
        }
        _ => {
            let worst = logs.iter().map(|log| log_headline(&log.report, words).0).min_by_key(|tone| match tone {
                Tone::Critical => 0,
                Tone::Warning => 1,
                Tone::Firing | Tone::Unknown => 2,
                Tone::Good => 3,
            });
            let tone = worst.unwrap_or(Tone::Unknown);
            let key = if tone == Tone::Good { "logs-all-clean" } else { "logs-no-root" };
            (tone, words.text(key, &[("n", logs.len().into())]))
        }
    };
    let mut parts = Vec::new();
    if several {
        let pieces = [("n", logs.len().into()), ("rooted", order.len().into())];
        parts.push(Block::Paragraph(words.line("logs-several", &pieces)));
        if order.len() > 1 {
            let lines = order.iter().map(|(log, event)| in_turn(log, event, words));
            parts.push(Block::Section(words.text("logs-order", &[]), lines.collect()));
        }
    }
    logs.iter().for_each(|log| add_log_parts(log, several, words, &mut parts));
    drop_empty(&mut parts);
    if logs.iter().all(|log| log.report.engine.is_none()) {
        parts.push(Block::Note(words.line("logs-learn", &[("engines", known.join(", ").into())])));
    }
    Message { tone, headline, parts }
}

/// Returns the headline of one log.
fn log_headline(report: &LogAnalysis, words: &Phrases) -> (Tone, String) {
    let secondary = report.findings.iter().any(|f| f.rank == LogRank::Secondary);
    let engine = || report.engine.clone().unwrap_or_else(|| words.text("logs-any-engine", &[])).into();
    let told = story(report, words);
    let held = report.standing_still();
    let key = match (told.is_empty(), secondary, &report.engine) {
        (false, ..) => {
            let tone = if report.root().is_some() { Tone::Critical } else { Tone::Warning };
            return (tone, words.text("logs-root", &[("engine", engine()), ("root", told.into())]));
        }
        (true, true, _) => (Tone::Warning, "logs-secondary-only"),
        (true, false, Some(_)) => match (report.stage, held) {
            (Some(LogStage::Stopping | LogStage::Ending), _) => (Tone::Good, "logs-shut-down"),
            (_, Some(_)) => (Tone::Warning, "logs-still"),
            (Some(LogStage::Starting), None) => (Tone::Warning, "logs-not-ready"),
            (Some(LogStage::Serving) | None, None) => (Tone::Good, "logs-clean"),
        },
        (true, false, None) => (Tone::Unknown, "logs-unknown"),
    };
    (key.0, words.text(key.1, &[("engine", engine()), ("n", held.unwrap_or_default().into())]))
}

/// Tells the first error and what it led to, each as a clause; empty if there is none.
fn story(report: &LogAnalysis, words: &Phrases) -> String {
    let clauses = report.story().into_iter().map(|event| clause(&event, words));
    clauses
        .reduce(|first, then| words.text("logs-then", &[("first", first.into()), ("then", then.into())]))
        .unwrap_or_default()
}

fn clause(event: &LogEvent<'_>, words: &Phrases) -> String {
    match event {
        LogEvent::Known(found) if found.rank == LogRank::Sign => {
            words.text("logs-sign", &[("title", title(found, words).into()), ("n", found.count.into())])
        }
        LogEvent::Known(found) => title(found, words),
        LogEvent::Unknown(unknown) => {
            let said = unknown.said.chars().take(SAID).collect::<String>();
            let place = unknown.place.clone().unwrap_or_default();
            let pieces = [("said", said.into()), ("placed", place.len().into()), ("place", place.into())];
            words.text("logs-unknown-said", &pieces)
        }
    }
}

/// Returns the title of a finding, with the exception whose text nothing explains.
fn title(found: &LogMatch, words: &Phrases) -> String {
    let Some(raised) = &found.raised else { return found.title.clone() };
    let said = raised.said.trim_end_matches(['.', ':']).chars().take(SAID).collect::<String>();
    let place = raised.place.clone().unwrap_or_default();
    let pieces = [("title", found.title.as_str().into()), ("said", said.into())];
    words.text("logs-by-place", &[&pieces[..], &[("placed", place.len().into()), ("place", place.into())]].concat())
}

/// Tells the first error of one of several logs.
fn in_turn(log: &NamedLogAnalysis, event: &LogEvent<'_>, words: &Phrases) -> Line {
    let when = event.when().unwrap_or_default();
    let pieces = [
        ("timed", when.len().into()),
        ("when", when.into()),
        ("name", log.name.as_str().into()),
        ("root", clause(event, words).into()),
    ];
    words.line("logs-in-turn", &pieces)
}

/// Summarises the error lines that match no finding: their number, the most frequent ones and the first.
pub(super) fn unknown(unknown: &UnclassifiedErrors, words: &Phrases) -> Vec<Line> {
    let pieces = [("n", unknown.count.into()), ("harmless", usize::from(unknown.harmless).into())];
    let mut lines = vec![words.line("logs-unknown-count", &pieces)];
    lines.extend(unknown.lines.iter().map(|one| {
        let text = message::TextSpan::Code(one.text.clone());
        words.line(
            "logs-unknown-line",
            &[("line", one.line.to_string().into()), ("n", one.count.into()), ("text", text.into())],
        )
    }));
    lines
}

fn add_log_parts(log: &NamedLogAnalysis, several: bool, words: &Phrases, parts: &mut Vec<Block>) {
    let report = &log.report;
    let title = |key: &str| match several {
        true => format!("{} · {}", log.name, words.text(key, &[])),
        false => words.text(key, &[]),
    };
    let mut about = vec![match (&report.from, &report.to) {
        (Some(from), Some(to)) => {
            let pieces = [("lines", report.lines.into()), ("from", from.as_str().into()), ("to", to.as_str().into())];
            words.line("logs-span", &pieces)
        }
        _ => words.line("logs-span-untimed", &[("lines", report.lines.into())]),
    }];
    if let Some(pod) = &log.pod {
        about.push(words.line("logs-of-pod", &[("pod", pod.as_str().into())]));
    }
    if log.cut {
        about.push(words.line("logs-cut", &[]));
    }
    if several {
        about.insert(0, Line::default().plain(log_headline(report, words).1));
        parts.push(Block::Section(log.name.clone(), about));
    } else {
        parts.extend(about.into_iter().map(Block::Paragraph));
    }
    let story = report.story();
    let has_ended = report.stage.is_some_and(|stage| stage >= LogStage::Stopping)
        || report.findings.iter().any(|found| found.rank == LogRank::Secondary);
    let began = story.iter().flat_map(|event| {
        let (line, first, text, unexplained) = match event {
            LogEvent::Unknown(one) => (one.line, &one.first, &one.text, Some(*one)),
            LogEvent::Known(one) => (one.line, &one.first, &one.text, one.raised.as_ref()),
        };
        let meaning = match event {
            LogEvent::Unknown(one) => {
                one.place.as_ref().map(|place| words.line("logs-raised", &[("place", place.as_str().into())]))
            }
            LogEvent::Known(one) => Some(Line::default().plain(one.meaning.clone())),
        };
        let is_last = report.unknown.lines.iter().all(|one| one.line <= line);
        let is_alive = !has_ended && is_last && unexplained.is_some_and(|one| one.of_thread);
        let of_thread = is_alive.then(|| words.line("logs-thread-ended", &[]));
        [Some(place(line, first.as_deref(), text, words)), meaning, of_thread].into_iter().flatten()
    });
    parts.push(Block::Section(title("logs-first-root"), began.collect()));
    let action = |event: &LogEvent<'_>| match event {
        LogEvent::Known(found) => found.action.as_ref().map(|action| Line::of(action)),
        LogEvent::Unknown(_) => None,
    };
    parts.push(Block::Steps(title("do-now"), story.iter().filter_map(action).collect()));
    let mut found: Vec<&LogMatch> = report.findings.iter().collect();
    // Harmless findings come last; the others stay in order.
    found.sort_by_key(|found| found.rank == LogRank::Benign);
    let mut lines: Vec<Line> = found.iter().take(FINDINGS).map(|found| finding(found, words)).collect();
    if found.len() > FINDINGS {
        lines.push(words.line("and-others", &[("n", (found.len() - FINDINGS).into())]));
    }
    parts.push(Block::Section(title("logs-findings"), lines));
    if report.unknown.count > 0 {
        parts.push(Block::Section(title("logs-unknown-title"), unknown(&report.unknown, words)));
    }
    let row = |n: &LogValueSummary| match n.max > n.min {
        true => [n.title.clone(), shown(n.last, n), format!("({} … {})", shown(n.min, n), shown(n.max, n))],
        false => [n.title.clone(), shown(n.last, n), String::new()],
    };
    parts.push(Block::Section(title("logs-startup"), table(report.startup.iter().map(row))));
    if !report.statistics.is_empty() {
        let column = |key: &str| words.text(key, &[]);
        let named = ["logs-column-lowest", "logs-column-middle", "logs-column-highest", "logs-column-last"].map(column);
        let [lowest, middle, highest, last] = named;
        let head = [String::new(), lowest, middle, highest, last];
        let row = |n: &LogValueSummary| {
            [n.title.clone(), shown(n.min, n), shown(n.median, n), shown(n.max, n), shown(n.last, n)]
        };
        let rows = std::iter::once(head).chain(report.statistics.iter().map(row));
        parts.push(Block::Section(title("logs-statistics"), table(rows)));
    }
}

fn shown(value: f64, of: &LogValueSummary) -> String {
    format_value(value, of.unit)
}

/// Aligns the columns of rows: the first to the left, the others to the right.
fn table<const N: usize>(rows: impl Iterator<Item = [String; N]>) -> Vec<Line> {
    let rows: Vec<[String; N]> = rows.collect();
    let width = |i: usize| rows.iter().map(|row| row[i].chars().count()).max().unwrap_or_default();
    let widths: Vec<usize> = (0..N).map(width).collect();
    let cell = |(i, text): (usize, &String)| match i {
        0 => format!("{text:<width$}", width = widths[i]),
        _ => format!("  {text:>width$}", width = widths[i]),
    };
    let line = |row: &[String; N]| row.iter().enumerate().map(cell).collect::<String>().trim_end().to_owned();
    rows.iter().map(|row| Line::default().plain(line(row))).collect()
}

/// Summarises what logs show of the incident: the first error of each, and the logs that could not be read.
pub(super) fn read(read: &LogsRead, words: &Phrases) -> Vec<Line> {
    let named = read.logs.iter().filter_map(|log| Some((log, log.root.as_ref()?)));
    let mut lines: Vec<Line> = named
        .take(LOGS)
        .map(|(log, root)| {
            let when = root.when.clone().unwrap_or_default();
            let pieces = [
                ("name", log.name.as_str().into()),
                ("root", root.title.as_str().into()),
                ("named", root.title.len().into()),
                ("line", root.line.to_string().into()),
                ("timed", usize::from(root.when.is_some()).into()),
                ("when", when.into()),
            ];
            words.line(if root.known { "logs-began" } else { "logs-began-unknown" }, &pieces)
        })
        .collect();
    if lines.is_empty() && !read.logs.is_empty() {
        let names: Vec<String> = read.logs.iter().map(|log| log.name.clone()).collect();
        lines.push(words.line("logs-say-nothing", &[("names", few(&names, words).into())]));
    }
    if let Some(gap) = read.missing.first() {
        let pieces = [
            ("what", gap.what.as_str().into()),
            ("why", Line::of(gap.reason.as_str()).into()),
            ("more", (read.missing.len() - 1).into()),
        ];
        lines.push(words.line("logs-missing", &pieces));
    }
    lines
}

fn place(line: u64, when: Option<&str>, text: &str, words: &Phrases) -> Line {
    let (line, text) = (line.to_string(), message::TextSpan::Code(text.to_owned()));
    match when {
        Some(when) => words.line("logs-line", &[("line", line.into()), ("when", when.into()), ("text", text.into())]),
        None => words.line("logs-line-untimed", &[("line", line.into()), ("text", text.into())]),
    }
}

/// Returns the style of a rank, and its phrase.
pub(super) fn rank(rank: LogRank) -> (StateStyle, &'static str) {
    match rank {
        LogRank::Root => (StateStyle::Bad, "logs-rank-root"),
        LogRank::Sign => (StateStyle::Warn, "logs-rank-sign"),
        LogRank::Secondary => (StateStyle::Mute, "logs-rank-secondary"),
        LogRank::Benign => (StateStyle::Good, "logs-rank-benign"),
    }
}

fn finding(found: &LogMatch, words: &Phrases) -> Line {
    let (_, rank) = rank(found.rank);
    let when = match (&found.first, &found.last) {
        (Some(first), Some(last)) if first != last => format!("{first} … {}", clock(first, last)),
        (Some(first), _) => first.clone(),
        _ => String::new(),
    };
    let pieces = [
        ("timed", usize::from(!when.is_empty()).into()),
        ("when", when.into()),
        ("title", title(found, words).into()),
        ("rank", words.text(rank, &[]).into()),
        ("count", found.count.into()),
        ("line", found.line.to_string().into()),
    ];
    words.line("logs-finding", &pieces)
}

/// Returns the later time without its date if both have the same.
fn clock<'a>(first: &str, last: &'a str) -> &'a str {
    let date = |time: &str| time.rfind([' ', 'T']).map(|at| at + 1);
    match (date(first), date(last)) {
        (Some(a), Some(b)) if first[..a] == last[..b] => &last[b..],
        _ => last,
    }
}

//! The page of a backtest: a file with pictures, without links to the service.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::text::{
    alerted_times, causes, duration, foot, found, headline, ladder_title, left_out, noise_mark, notes, occurring,
    outcome_key, outcome_style, outcome_word, range, remarks, shares, shipped_alerts, shown, steps, threshold, tone,
    unalerted_pieces,
};
use super::{Backtest, OutcomeCounts, ThresholdLadder};
use chart::{Chart, ChartSeries, ChartThreshold, Panel, Role, ThresholdSide};
use knowledge::clock;
use knowledge::signal::format_threshold;
use message::{Block, BlockGroup, DocumentBlock, Folding, Line, StateStyle, Tone};
use render::{Document, Phrases, document_page};
use report::FiringOutcome;

/// Maximum number of pictures.
const PICTURES: usize = 12;
/// Maximum number of bars of the histogram.
const BARS: u64 = 31;

/// Renders the page of a backtest.
pub fn page(backtest: &Backtest, words: &Phrases) -> String {
    let stopped = backtest.stopped.as_deref().map(|why| words.line("backtest-stopped", &[("why", why.into())]));
    let head = [outcomes(&backtest.counts, words), conclusion(backtest, words)].into_iter().chain(stopped);
    let sections = [
        ("head", "backtest-title", head.map(Block::Paragraph).collect()),
        ("limits", "backtest-limits", listed(&backtest.limits)),
        ("rules", "backtest-rules", rules(backtest, words)),
        ("pools", "backtest-pools", pools(backtest, words)),
        ("unalerted", "backtest-unalerted", unalerted(backtest, words)),
        ("thresholds", "backtest-thresholds", thresholds(backtest, words)),
        ("accuracy", "backtest-accuracy", accuracy(backtest, words)),
        ("firings", "backtest-firings", firings(backtest, words)),
        ("left-out", "backtest-left-out", listed(&left_out(backtest, words))),
        ("problems", "backtest-problems", listed(&backtest.problems)),
    ];
    let section = |(key, title, parts): (&str, &str, Vec<Block>)| BlockGroup {
        key: key.to_owned(),
        title: words.line(title, &[]),
        folding: Folding::Never,
        parts,
    };
    let document = Document {
        headline: headline(backtest, words),
        above: vec![words.line("backtest-title", &[]), plain(range(backtest, words))],
        title: words.text("backtest-headline", &[("firings", backtest.counts.total().into())]),
        sections: sections.into_iter().map(section).collect(),
        foot: vec![plain(foot(backtest, words))],
    };
    document_page(&document.without_empty_parts(), words)
}

fn outcomes(counts: &OutcomeCounts, words: &Phrases) -> Line {
    let some = FiringOutcome::ALL.iter().filter(|outcome| counts.get(**outcome) > 0);
    some.fold(Line::default(), |line, outcome| {
        let n = counts.get(*outcome).to_string();
        let pieces = [("n", n.into()), ("outcome", outcome_word(*outcome, words).into())];
        line.state(outcome_style(*outcome), words.text("backtest-counted", &pieces)).plain(" ")
    })
}

/// Says what there is to change.
fn conclusion(backtest: &Backtest, words: &Phrases) -> Line {
    let style = match tone(backtest) {
        Tone::Good => StateStyle::Good,
        Tone::Unknown => StateStyle::Mute,
        Tone::Critical | Tone::Warning | Tone::Firing => StateStyle::Warn,
    };
    found(backtest, words).into_iter().fold(Line::default(), |line, text| line.state(style, text).plain(" "))
}

fn plain(text: impl Into<String>) -> Line {
    Line::default().plain(text)
}

fn table(key: &str, name: String, heads: &[&str], rows: Vec<Vec<Line>>, words: &Phrases) -> Block {
    let heads = heads.iter().map(|head| words.text(head, &[])).collect();
    Block::Document(DocumentBlock::Table { key: key.to_owned(), name, folds: true, heads, rows })
}

/// Returns the heads of the columns with the number of firings, in all and by outcome.
fn counted_heads(shown: &[FiringOutcome]) -> Vec<&'static str> {
    std::iter::once("backtest-total").chain(shown.iter().map(|outcome| outcome_key(*outcome))).collect()
}

fn counted(counts: &OutcomeCounts, shown: &[FiringOutcome]) -> Vec<Line> {
    let outcomes = shown.iter().map(|outcome| counts.get(*outcome));
    std::iter::once(counts.total()).chain(outcomes).map(|n| plain(n.to_string())).collect()
}

fn rules(backtest: &Backtest, words: &Phrases) -> Vec<Block> {
    let shown = occurring(backtest.rules.iter().map(|rule| rule.counts));
    let row = |rule: &super::RuleOutcomes| {
        let mut name = plain(&rule.rule);
        if let Some(mark) = noise_mark(rule, words) {
            name = name.plain(" ").state(StateStyle::Warn, mark);
        }
        let after = plain(rule.median_after_seconds.map(duration).unwrap_or_default());
        let rest = [after, plain(causes(&rule.causes, words))];
        std::iter::once(name).chain(counted(&rule.counts, &shown)).chain(rest).collect()
    };
    let heads = [&["backtest-rule"][..], &counted_heads(&shown), &["backtest-after", "backtest-named"]].concat();
    let rows = backtest.rules.iter().map(row).collect();
    let table = table("rules", words.text("backtest-rules", &[]), &heads, rows, words);
    std::iter::once(table).chain(notes(backtest).map(|note| Block::Note(words.line(note, &[])))).collect()
}

fn pools(backtest: &Backtest, words: &Phrases) -> Vec<Block> {
    let shown = occurring(backtest.pools.iter().map(|pool| pool.counts));
    let row = |pool: &super::PoolOutcomes| {
        let name = if pool.pool.is_empty() { words.line("backtest-no-pool", &[]) } else { plain(&pool.pool) };
        std::iter::once(name).chain(counted(&pool.counts, &shown)).chain([plain(causes(&pool.causes, words))]).collect()
    };
    let heads = [&["backtest-pool"][..], &counted_heads(&shown), &["backtest-named"]].concat();
    vec![table("pools", words.text("backtest-pools", &[]), &heads, backtest.pools.iter().map(row).collect(), words)]
}

fn unalerted(backtest: &Backtest, words: &Phrases) -> Vec<Block> {
    let mut parts = Vec::new();
    for symptom in &backtest.unalerted {
        parts.push(Block::Paragraph(words.line("backtest-unalerted-line", &unalerted_pieces(symptom))));
        let episode = |episode: &super::UnalertedEpisode| {
            let at = Line::default().moment(episode.from).into();
            let lasted = duration(clock::between(episode.from, episode.to).as_secs()).into();
            let headline = episode.headline.as_str().into();
            words.line("backtest-episode", &[("at", at), ("duration", lasted), ("headline", headline)])
        };
        let lines = std::iter::once(plain(shipped_alerts(symptom, words))).chain(symptom.episodes.iter().map(episode));
        parts.push(Block::Section(String::new(), lines.collect()));
    }
    parts.extend(alerted_times(backtest, words).map(|more| Block::Note(plain(more))));
    parts
}

fn thresholds(backtest: &Backtest, words: &Phrases) -> Vec<Block> {
    let mut parts = Vec::new();
    for (i, ladder) in shown(&backtest.ladders).into_iter().enumerate() {
        if i == 0 {
            parts.push(Block::Note(plain(steps(backtest, words))));
        }
        let title = ladder_title(ladder, backtest, words);
        let row = |rung: &super::ThresholdRung| {
            vec![
                plain(threshold(ladder, rung.threshold)),
                plain(rung.times.to_string()),
                plain(if rung.times > 0 { duration(rung.seconds) } else { String::new() }),
                plain(rung.shipped.join(", ")),
            ]
        };
        let heads = ["backtest-threshold", "backtest-times", "backtest-lasted", "backtest-shipped"];
        let key = format!("ladder/{}{}{}/{i}", ladder.signal, ladder.op, ladder.hold_seconds);
        let rows = ladder.rungs.iter().map(row).collect();
        let mut inside = vec![table(&key, title.clone(), &heads, rows, words)];
        if i < PICTURES && !ladder.values.is_empty() {
            let chart = chart(ladder, backtest, words);
            let (alt, svg) = (chart::alt(&chart), chart::svg(&chart));
            inside.insert(0, Block::Document(DocumentBlock::Chart { alt, svg }));
        }
        let group = BlockGroup { key, title: plain(title), folding: Folding::Never, parts: inside };
        parts.push(Block::Document(DocumentBlock::Group(group)));
    }
    parts
}

/// Draws a signal with its shipped threshold, the one that fires most rarely.
fn chart(ladder: &ThresholdLadder, backtest: &Backtest, words: &Phrases) -> Chart {
    let bad = if ladder.op.starts_with('>') { ThresholdSide::Above } else { ThresholdSide::Below };
    let limit = ladder.rungs.iter().rfind(|rung| !rung.shipped.is_empty()).map(|rung| {
        let value = format_threshold(rung.threshold, ladder.unit).into();
        ChartThreshold { value: rung.threshold, bad, label: words.text("chart-limit", &[("value", value)]) }
    });
    let says = words.text("backtest-picture", &[("title", ladder.title.as_str().into())]);
    let series = ChartSeries { name: ladder.title.clone(), points: ladder.values.clone(), role: Role::Pool };
    Chart {
        title: says.clone(),
        subtitle: range(backtest, words),
        panels: vec![Panel {
            title: ladder.title.clone(),
            unit: ladder.unit,
            series: vec![series],
            threshold: limit,
            band: None,
            others: String::new(),
            says,
        }],
        from: backtest.from,
        to: backtest.to,
        marks: Vec::new(),
    }
}

fn accuracy(backtest: &Backtest, words: &Phrases) -> Vec<Block> {
    let row = |row: &super::CauseAccuracy| {
        let [precision, recall] = shares(row, words);
        vec![Line::default().code(&row.cause), plain(precision), plain(recall)]
    };
    let heads = ["backtest-cause", "backtest-precision", "backtest-recall"];
    let rows = backtest.accuracy.iter().map(row).collect();
    vec![table("accuracy", words.text("backtest-accuracy", &[]), &heads, rows, words)]
}

fn firings(backtest: &Backtest, words: &Phrases) -> Vec<Block> {
    if backtest.firings.is_empty() {
        return Vec::new();
    }
    let row = |firing: &super::DiagnosedFiring| {
        let remarks = remarks(firing, words).iter().fold(Line::default(), |line, remark| line.small(plain(remark)));
        vec![
            Line::default().moment(firing.starts_at),
            plain(&firing.rule),
            Line::default().state(outcome_style(firing.outcome), outcome_word(firing.outcome, words)),
            plain(duration(firing.after_seconds)),
            plain(&firing.headline).then(remarks),
            Line::default().code(&firing.id),
        ]
    };
    let heads =
        ["backtest-started", "backtest-rule", "backtest-outcome", "backtest-after", "backtest-message", "backtest-id"];
    let rows = backtest.firings.iter().rev().map(row).collect();
    vec![per_day(backtest, words), table("firings", words.text("backtest-firings", &[]), &heads, rows, words)]
}

/// Draws the number of firings per day, or per some days of a long range.
fn per_day(backtest: &Backtest, words: &Phrases) -> Block {
    let day = std::time::Duration::from_secs(86_400);
    let days = clock::between(backtest.from, backtest.to).as_secs().div_ceil(86_400);
    let per_bar = usize::try_from(days.div_ceil(BARS).max(1)).unwrap_or(1);
    let bar = day * u32::try_from(per_bar).unwrap_or(1);
    let mut counts: BTreeMap<Timestamp, usize> = BTreeMap::new();
    let mut at = clock::floor(backtest.from, bar);
    while at < backtest.to {
        counts.insert(at, 0);
        at = clock::after(at, bar);
    }
    for firing in &backtest.firings {
        *counts.entry(clock::floor(firing.starts_at, bar)).or_default() += 1;
    }
    let most = counts.values().copied().max().unwrap_or_default().max(1);
    let height = |n: usize| u16::try_from(n * 1_000 / most).unwrap_or(1_000);
    let bars = counts.into_iter().map(|(at, n)| (at.strftime("%m-%d").to_string(), height(n))).collect();
    Block::Document(DocumentBlock::Histogram { alt: words.text("backtest-per-day", &[("days", per_bar.into())]), bars })
}

fn listed(lines: &[String]) -> Vec<Block> {
    vec![Block::Section(String::new(), lines.iter().map(|line| Line::of(line)).collect())]
}

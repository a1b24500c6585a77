//! A backtest as text for a terminal; the page shares its facts.

use std::collections::BTreeMap;
use std::time::Duration;

use anstyle::Style;

use super::Phrases;
use super::text::{clean, tone_style, wrap};
use knowledge::clock;
use knowledge::signal::format_threshold;
use message::{StateStyle, Tone};
use report::backtest::{
    Backtest, CauseAccuracy, DiagnosedFiring, FiringOutcome, OutcomeCounts, ThresholdLadder, UnalertedSymptom,
};

/// Maximum width of wrapped lines.
const COLUMNS: usize = 118;
/// Maximum width of a name in a table.
const NAME: usize = 44;
/// Maximum number of firings that are listed.
const FIRINGS: usize = 20;
/// Maximum number of ladders that are listed.
const LADDERS: usize = 12;
/// Maximum number of names of an enumeration.
const NAMES: usize = 8;

/// Renders a backtest as terminal text with ANSI styles; `anstream` strips them where they are not supported.
pub fn backtest(backtest: &Backtest, words: &Phrases) -> String {
    let say = |key: &str| words.text(key, &[]);
    let tone = tone_style(if backtest.has_findings() { Tone::Warning } else { Tone::Good });
    let mut out = format!("{tone}▌ {}{tone:#}\n", clean(&headline(backtest, words)));
    if let Some(why) = &backtest.stopped {
        paragraph(&mut out, "", &words.text("backtest-stopped", &[("why", why.as_str().into())]));
    }
    let rules = backtest.rules.iter().map(|rule| {
        let mark = if rule.is_noise { say("backtest-noise") } else { String::new() };
        let after = rule.median_after_seconds.map(duration).unwrap_or_default();
        (rule.rule.as_str(), rule.counts, vec![after, mark])
    });
    counts(&mut out, "backtest-rules", &["backtest-after"], rules.collect(), words);
    if backtest.rules.iter().any(|rule| rule.is_noise) {
        paragraph(&mut out, "  ", &say("backtest-noise-note"));
    }
    let no_pool = say("backtest-no-pool");
    let pools = backtest.pools.iter().map(|pool| {
        let name = if pool.pool.is_empty() { no_pool.as_str() } else { pool.pool.as_str() };
        (name, pool.counts, vec![causes(&pool.causes, words)])
    });
    counts(&mut out, "backtest-pools", &["backtest-named"], pools.collect(), words);
    if !backtest.unalerted.is_empty() {
        heading(&mut out, &say("backtest-unalerted"));
        backtest.unalerted.iter().for_each(|symptom| unalerted(&mut out, symptom, words));
    }
    let firing: Vec<&ThresholdLadder> = shown(&backtest.ladders).into_iter().take(LADDERS).collect();
    if !firing.is_empty() {
        heading(&mut out, &say("backtest-thresholds"));
        for ladder in firing {
            rungs(&mut out, ladder, words);
        }
    }
    if !backtest.accuracy.is_empty() {
        heading(&mut out, &say("backtest-accuracy"));
        for row in &backtest.accuracy {
            let [precision, recall] = shares(row, words);
            let (of, found) = (say("backtest-precision"), say("backtest-recall"));
            out.push_str(&clean(&format!("  {:<NAME$} {of} {precision:<18} {found} {recall}", row.cause)));
            out.push('\n');
        }
    }
    firings(&mut out, backtest, words);
    for (title, lines) in
        [("backtest-left-out", left_out(backtest, words)), ("backtest-problems", backtest.problems.clone())]
    {
        if !lines.is_empty() {
            heading(&mut out, &say(title));
            lines.iter().for_each(|line| paragraph(&mut out, "  ", line));
        }
    }
    let dim = Style::new().dimmed();
    out.push_str(&format!("\n{dim}{}{dim:#}\n", foot(backtest, words)));
    out
}

fn heading(out: &mut String, title: &str) {
    let bold = Style::new().bold();
    out.push_str(&format!("\n{bold}{}{bold:#}\n", clean(title)));
}

/// Appends wrapped lines; further lines are indented.
fn paragraph(out: &mut String, indent: &str, text: &str) {
    for (i, line) in wrap(&clean(text), COLUMNS).iter().enumerate() {
        let more = if i == 0 { "" } else { "  " };
        out.push_str(&format!("{indent}{more}{line}\n"));
    }
}

/// Appends a table of outcomes; `more` are the heads of further columns.
fn counts(
    out: &mut String,
    title: &str,
    more: &[&str],
    rows: Vec<(&str, OutcomeCounts, Vec<String>)>,
    words: &Phrases,
) {
    if rows.is_empty() {
        return;
    }
    let heads: Vec<String> = FiringOutcome::ALL.iter().map(|outcome| outcome_word(*outcome, words)).collect();
    let total = words.text("backtest-total", &[]);
    let longest = rows.iter().map(|(name, ..)| name.chars().count()).max().unwrap_or_default();
    let width = longest.max(words.text(title, &[]).chars().count()).min(NAME);
    let bold = Style::new().bold();
    let mut line = format!("{:<width$}", words.text(title, &[]));
    line.extend([&total].into_iter().chain(&heads).map(|head| format!("  {head}")));
    line.extend(more.iter().map(|head| format!("  {}", words.text(head, &[]))));
    out.push_str(&format!("\n{bold}{}{bold:#}\n", clean(&line)));
    for (name, counts, rest) in rows {
        let name: String = clean(name).chars().take(NAME).collect();
        let mut line = format!("{name:<width$}  {:>1$}", counts.total(), total.chars().count());
        for (outcome, head) in FiringOutcome::ALL.iter().zip(&heads) {
            line.push_str(&format!("  {:>1$}", counts.get(*outcome), head.chars().count()));
        }
        for text in rest {
            line.push_str(&format!("  {text:<7}"));
        }
        out.push_str(&format!("{}\n", clean(line.trim_end())));
    }
}

fn unalerted(out: &mut String, symptom: &UnalertedSymptom, words: &Phrases) {
    paragraph(out, "  ", &words.text("backtest-unalerted-line", &unalerted_pieces(symptom)));
    paragraph(out, "    ", &shipped_alerts(symptom, words));
    for episode in &symptom.episodes {
        let pieces = [
            ("at", episode.from.strftime("%Y-%m-%d %H:%M UTC").to_string().into()),
            ("duration", duration(clock::between(episode.from, episode.to).as_secs()).into()),
            ("headline", episode.headline.as_str().into()),
        ];
        paragraph(out, "    ", &words.text("backtest-episode", &pieces));
    }
}

fn firings(out: &mut String, backtest: &Backtest, words: &Phrases) {
    let all = &backtest.firings;
    if all.is_empty() {
        return;
    }
    let newest = words.text("backtest-firings-newest", &[("n", FIRINGS.into())]);
    let is_cut = all.len() > FIRINGS;
    heading(out, &if is_cut { newest } else { words.text("backtest-firings", &[]) });
    for firing in all.iter().rev().take(FIRINGS) {
        let at = firing.starts_at.strftime("%Y-%m-%d %H:%M UTC");
        let outcome = outcome_word(firing.outcome, words);
        out.push_str(&clean(&format!("  {}  {at}  {outcome}  {}", firing.id, firing.rule)));
        out.push('\n');
        paragraph(out, "      ", &firing.headline);
        remarks(firing, words).iter().for_each(|remark| paragraph(out, "      ", remark));
    }
    if is_cut {
        paragraph(out, "  ", &words.text("backtest-all", &[("n", all.len().into())]));
    }
}

/// Returns the first line: `200 firings: 96 confirmed, 41 nothing abnormal · 1 rule is noise · 2026-10-21 to 2026-11-20`.
pub(super) fn headline(backtest: &Backtest, words: &Phrases) -> String {
    let firings = words.text("backtest-headline", &[("firings", backtest.counts.total().into())]);
    let counted = FiringOutcome::ALL.iter().map(|outcome| (backtest.counts.get(*outcome), *outcome));
    let counted: Vec<String> =
        counted.filter(|(n, _)| *n > 0).map(|(n, outcome)| format!("{n} {}", outcome_word(outcome, words))).collect();
    let first = if counted.is_empty() { firings } else { format!("{firings}: {}", counted.join(", ")) };
    let noise = backtest.rules.iter().filter(|rule| rule.is_noise).count();
    let found = [("backtest-noise-found", noise), ("backtest-unalerted-found", backtest.unalerted.len())];
    let found = found.into_iter().filter(|(_, n)| *n > 0).map(|(key, n)| words.text(key, &[("n", n.into())]));
    std::iter::once(first).chain(found).chain([range(backtest, words)]).collect::<Vec<_>>().join(" · ")
}

/// Returns the range as dates.
pub(super) fn range(backtest: &Backtest, words: &Phrases) -> String {
    let date = |at: jiff::Timestamp| at.strftime("%Y-%m-%d %H:%M UTC").to_string();
    words.text("backtest-range", &[("from", date(backtest.from).into()), ("to", date(backtest.to).into())])
}

/// Returns the word for an outcome.
pub(super) fn outcome_word(outcome: FiringOutcome, words: &Phrases) -> String {
    let key = match outcome {
        FiringOutcome::Confirmed => "backtest-confirmed",
        FiringOutcome::NoCause => "backtest-no-cause",
        FiringOutcome::NothingAbnormal => "backtest-nothing-abnormal",
        FiringOutcome::Blind => "backtest-blind",
    };
    words.text(key, &[])
}

/// Returns the style of an outcome.
pub(super) fn outcome_style(outcome: FiringOutcome) -> StateStyle {
    match outcome {
        FiringOutcome::Confirmed => StateStyle::Bad,
        FiringOutcome::NoCause => StateStyle::Warn,
        FiringOutcome::NothingAbnormal => StateStyle::Good,
        FiringOutcome::Blind => StateStyle::Mute,
    }
}

/// Formats seconds for people.
pub(super) fn duration(seconds: u64) -> String {
    clock::human_duration(Duration::from_secs(seconds))
}

/// Names causes with the number of their firings.
pub(super) fn causes(causes: &BTreeMap<String, usize>, words: &Phrases) -> String {
    let mut all: Vec<(&String, &usize)> = causes.iter().collect();
    all.sort_by(|a, b| b.1.cmp(a.1).then_with(|| a.0.cmp(b.0)));
    let name = |(name, n): (&String, &usize)| {
        words.text("backtest-count", &[("name", name.as_str().into()), ("n", (*n).into())])
    };
    all.into_iter().take(NAMES).map(name).collect::<Vec<_>>().join(", ")
}

/// Returns the pieces of the sentence about a symptom without an alert.
pub(super) fn unalerted_pieces(symptom: &UnalertedSymptom) -> [(&'static str, super::PhraseArgument); 4] {
    [
        ("title", symptom.title.as_str().into()),
        ("pool", symptom.pool.as_str().into()),
        ("times", symptom.times.into()),
        ("duration", duration(symptom.seconds).into()),
    ]
}

/// Names the shipped alerts of a symptom.
pub(super) fn shipped_alerts(symptom: &UnalertedSymptom, words: &Phrases) -> String {
    match symptom.alerts.as_slice() {
        [] => words.text("backtest-no-shipped-alert", &[]),
        alerts => words.text("backtest-shipped-alerts", &[("alerts", alerts.join(", ").into())]),
    }
}

/// Returns the ladders of which a threshold would have fired: those that fired most often at a shipped one first.
pub(super) fn shown(ladders: &[ThresholdLadder]) -> Vec<&ThresholdLadder> {
    let mut shown: Vec<&ThresholdLadder> =
        ladders.iter().filter(|ladder| ladder.rungs.iter().any(|rung| rung.times > 0)).collect();
    let of_shipped = |ladder: &ThresholdLadder| {
        let shipped = ladder.rungs.iter().filter(|rung| !rung.shipped.is_empty());
        shipped.map(|rung| rung.times).max().unwrap_or_default()
    };
    shown.sort_by_key(|ladder| std::cmp::Reverse(of_shipped(ladder)));
    shown
}

/// Returns the title of a ladder: `TTFT p99 for 5 min`.
pub(super) fn ladder_title(ladder: &ThresholdLadder, words: &Phrases) -> String {
    let hold = duration(ladder.hold_seconds).into();
    words.text("backtest-ladder", &[("title", ladder.title.as_str().into()), ("hold", hold)])
}

/// Formats a threshold: `> 2 s`.
pub(super) fn threshold(ladder: &ThresholdLadder, threshold: f64) -> String {
    format!("{} {}", ladder.op, format_threshold(threshold, ladder.unit))
}

/// Appends a line for a ladder; a threshold is not split between two lines.
fn rungs(out: &mut String, ladder: &ThresholdLadder, words: &Phrases) {
    let mut line = format!("  {}:", ladder_title(ladder, words));
    for (i, rung) in ladder.rungs.iter().enumerate() {
        let key = if rung.shipped.is_empty() { "backtest-rung" } else { "backtest-rung-shipped" };
        let threshold = threshold(ladder, rung.threshold).into();
        let text = words.text(key, &[("threshold", threshold), ("times", rung.times.into())]);
        line.push_str(if i == 0 { "" } else { "," });
        if line.chars().count() + 1 + text.chars().count() > COLUMNS {
            out.push_str(&format!("{}\n", clean(&line)));
            line = "   ".to_owned();
        }
        line.push_str(&format!(" {text}"));
    }
    out.push_str(&format!("{}\n", clean(&line)));
}

/// Returns precision and recall; empty without a value.
pub(super) fn shares(row: &CauseAccuracy, words: &Phrases) -> [String; 2] {
    let share = |share: Option<f64>, of: usize| {
        let Some(share) = share else { return "–".to_owned() };
        let percent = format!("{:.0}", share * 100.0).into();
        words.text("backtest-share", &[("percent", percent), ("right", row.right.into()), ("of", of.into())])
    };
    [share(row.precision, row.named), share(row.recall, row.actual)]
}

/// Returns the remarks on a firing: the missing data, and the known cause.
pub(super) fn remarks(firing: &DiagnosedFiring, words: &Phrases) -> Vec<String> {
    let what: Vec<String> = firing.missing.iter().map(|missing| format!("{}: {}", missing.what, missing.why)).collect();
    let missing = (!what.is_empty()).then(|| words.text("backtest-missing", &[("what", what.join("; ").into())]));
    let truth = firing.truth.as_deref().map(|cause| words.text("backtest-truth", &[("cause", cause.into())]));
    missing.into_iter().chain(truth).collect()
}

/// Names the firings that were not diagnosed.
pub(super) fn left_out(backtest: &Backtest, words: &Phrases) -> Vec<String> {
    let left = &backtest.left_out;
    let lists = [("backtest-elsewhere", &left.elsewhere), ("backtest-over", &left.over_maximum)];
    let named = lists.into_iter().filter(|(_, rules)| !rules.is_empty());
    named.map(|(key, rules)| words.text(key, &[("rules", causes(rules, words).into())])).collect()
}

/// Returns the load of the run.
pub(super) fn foot(backtest: &Backtest, words: &Phrases) -> String {
    let load = &backtest.load;
    let pieces = [
        ("queries", load.queries.to_string().into()),
        ("most", load.most_queries.to_string().into()),
        ("took", duration(load.took_seconds.ceil() as u64).into()),
        ("resumed", load.resumed.to_string().into()),
    ];
    words.text(if load.resumed > 0 { "backtest-foot-resumed" } else { "backtest-foot" }, &pieces)
}

//! A backtest as text for a terminal; the page shares its facts.

use std::time::Duration;

use anstyle::Style;

use super::{
    Backtest, CauseAccuracy, CauseCount, DiagnosedFiring, OutcomeCounts, RuleCount, RuleOutcomes, ThresholdLadder,
    UnalertedSymptom,
};
use knowledge::clock;
use knowledge::signal::format_threshold;
use message::{StateStyle, Tone};
use render::{PhraseArgument, Phrases, clean, tone_style, wrap};
use report::FiringOutcome;

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
pub fn text(backtest: &Backtest, words: &Phrases) -> String {
    let say = |key: &str| words.text(key, &[]);
    let tone = tone_style(tone(backtest));
    let mut out = format!("{tone}▌ {}{tone:#}\n", clean(&headline(backtest, words)));
    if let Some(why) = &backtest.stopped {
        paragraph(&mut out, "", &words.text("backtest-stopped", &[("why", why.as_str().into())]));
    }
    list(&mut out, &say("backtest-limits"), &backtest.limits);
    let rules = backtest.rules.iter().map(|rule| {
        let mark = noise_mark(rule, words).unwrap_or_default();
        let after = rule.median_after_seconds.map(duration).unwrap_or_default();
        (rule.rule.as_str(), rule.counts, vec![after, mark])
    });
    counts(&mut out, "backtest-rules", &["backtest-after"], rules.collect(), words);
    notes(backtest).for_each(|note| paragraph(&mut out, "  ", &say(note)));
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
    if let Some(more) = alerted_times(backtest, words) {
        paragraph(&mut out, "  ", &more);
    }
    let firing: Vec<&ThresholdLadder> = shown(&backtest.ladders).into_iter().take(LADDERS).collect();
    if !firing.is_empty() {
        heading(&mut out, &say("backtest-thresholds"));
        for ladder in firing {
            rungs(&mut out, ladder, backtest, words);
        }
        paragraph(&mut out, "  ", &steps(backtest, words));
    }
    if !backtest.accuracy.is_empty() {
        heading(&mut out, &say("backtest-accuracy"));
        for row in &backtest.accuracy {
            let [precision, recall] = shares(row, words);
            let pieces = [("precision", precision.into()), ("recall", recall.into())];
            let shares = words.text("backtest-shares", &pieces);
            out.push_str(&clean(&format!("  {:<NAME$} {shares}", row.cause)));
            out.push('\n');
        }
    }
    firings(&mut out, backtest, words);
    list(&mut out, &say("backtest-left-out"), &left_out(backtest, words));
    list(&mut out, &say("backtest-problems"), &backtest.problems);
    let dim = Style::new().dimmed();
    out.push_str(&format!("\n{dim}{}{dim:#}\n", foot(backtest, words)));
    out
}

fn heading(out: &mut String, title: &str) {
    let bold = Style::new().bold();
    out.push_str(&format!("\n{bold}{}{bold:#}\n", clean(title)));
}

/// Appends a heading with lines, if there are any.
fn list(out: &mut String, title: &str, lines: &[String]) {
    if !lines.is_empty() {
        heading(out, title);
        lines.iter().for_each(|line| paragraph(out, "  ", line));
    }
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
    let shown: Vec<FiringOutcome> = occurring(rows.iter().map(|(_, counts, _)| *counts));
    let heads: Vec<String> = shown.iter().map(|outcome| outcome_word(*outcome, words)).collect();
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
        for (outcome, head) in shown.iter().zip(&heads) {
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

/// Returns the outcomes that occur.
pub(super) fn occurring(counts: impl Iterator<Item = OutcomeCounts>) -> Vec<FiringOutcome> {
    let counts: Vec<OutcomeCounts> = counts.collect();
    FiringOutcome::ALL.into_iter().filter(|outcome| counts.iter().any(|counts| counts.get(*outcome) > 0)).collect()
}

/// Returns the tone: without findings it is good only if everything was seen.
pub(super) fn tone(backtest: &Backtest) -> Tone {
    match backtest.has_findings() {
        true => Tone::Warning,
        false if backtest.is_complete() => Tone::Good,
        false => Tone::Unknown,
    }
}

/// Returns the mark of a rule that is noise.
pub(super) fn noise_mark(rule: &RuleOutcomes, words: &Phrases) -> Option<String> {
    let nothing = rule.counts.nothing_abnormal.to_string();
    let all = (rule.counts.total() + rule.not_diagnosed).to_string();
    let pieces = [("n", nothing.into()), ("judged", rule.judged.to_string().into()), ("all", all.into())];
    let key = if rule.not_diagnosed > 0 { "backtest-noise-of" } else { "backtest-noise" };
    rule.is_noise.then(|| words.text(key, &pieces))
}

/// Returns the phrases that explain the marks of the rules.
pub(super) fn notes(backtest: &Backtest) -> impl Iterator<Item = &'static str> {
    let has_noise = backtest.rules.iter().any(|rule| rule.is_noise);
    let notes = [("backtest-noise-note", has_noise), ("backtest-not-judged-note", backtest.counts.not_judged > 0)];
    notes.into_iter().filter(|(_, is_said)| *is_said).map(|(key, _)| key)
}

/// Says how often symptoms held while an alert fired.
pub(super) fn alerted_times(backtest: &Backtest, words: &Phrases) -> Option<String> {
    let n = backtest.alerted_times;
    (n > 0).then(|| words.text("backtest-alerted-times", &[("n", n.into())]))
}

/// Says how fine the counts of the thresholds are.
pub(super) fn steps(backtest: &Backtest, words: &Phrases) -> String {
    words.text("backtest-steps", &[("step", duration(backtest.step_seconds).into())])
}

/// Returns the first line: `200 firings: 96 confirmed, 41 nothing abnormal · 1 rule is noise · 2026-10-21 to 2026-11-20`.
pub(super) fn headline(backtest: &Backtest, words: &Phrases) -> String {
    let firings = words.text("backtest-headline", &[("firings", backtest.counts.total().into())]);
    let counted = FiringOutcome::ALL.iter().map(|outcome| (backtest.counts.get(*outcome), *outcome));
    let say = |(n, outcome): (usize, FiringOutcome)| {
        let pieces = [("n", n.to_string().into()), ("outcome", outcome_word(outcome, words).into())];
        words.text("backtest-counted", &pieces)
    };
    let counted: Vec<String> = counted.filter(|(n, _)| *n > 0).map(say).collect();
    let first = if counted.is_empty() { firings } else { format!("{firings}: {}", counted.join(", ")) };
    let found = found(backtest, words);
    std::iter::once(first).chain(found).chain([range(backtest, words)]).collect::<Vec<_>>().join(" · ")
}

/// Says what there is to change: `1 rule is noise`.
pub(super) fn found(backtest: &Backtest, words: &Phrases) -> Vec<String> {
    let noise = backtest.rules.iter().filter(|rule| rule.is_noise).count();
    let found = [("backtest-noise-found", noise), ("backtest-unalerted-found", backtest.unalerted.len())];
    let found = found.into_iter().filter(|(_, n)| *n > 0).map(|(key, n)| words.text(key, &[("n", n.into())]));
    let nothing = match tone(backtest) {
        Tone::Good => Some(words.text("backtest-nothing-found", &[])),
        Tone::Unknown => Some(words.text("backtest-nothing-known", &[])),
        Tone::Critical | Tone::Warning | Tone::Firing => None,
    };
    found.chain(nothing).collect()
}

/// Returns the range as dates.
pub(super) fn range(backtest: &Backtest, words: &Phrases) -> String {
    let date = |at: jiff::Timestamp| at.strftime("%Y-%m-%d %H:%M UTC").to_string();
    words.text("backtest-range", &[("from", date(backtest.from).into()), ("to", date(backtest.to).into())])
}

/// Returns the word for an outcome.
pub(super) fn outcome_word(outcome: FiringOutcome, words: &Phrases) -> String {
    words.text(outcome_key(outcome), &[])
}

/// Returns the phrase of the word for an outcome.
pub(super) fn outcome_key(outcome: FiringOutcome) -> &'static str {
    match outcome {
        FiringOutcome::Confirmed => "backtest-confirmed",
        FiringOutcome::NoCause => "backtest-no-cause",
        FiringOutcome::OtherSymptom => "backtest-other-symptom",
        FiringOutcome::NothingAbnormal => "backtest-nothing-abnormal",
        FiringOutcome::NotJudged => "backtest-not-judged",
        FiringOutcome::Blind => "backtest-blind",
    }
}

/// Returns the style of an outcome.
pub(super) fn outcome_style(outcome: FiringOutcome) -> StateStyle {
    match outcome {
        FiringOutcome::Confirmed => StateStyle::Bad,
        FiringOutcome::NoCause | FiringOutcome::OtherSymptom => StateStyle::Warn,
        FiringOutcome::NothingAbnormal => StateStyle::Good,
        FiringOutcome::NotJudged | FiringOutcome::Blind => StateStyle::Mute,
    }
}

/// Formats seconds for people.
pub(super) fn duration(seconds: u64) -> String {
    clock::human_duration(Duration::from_secs(seconds))
}

/// Names causes with the number of their firings.
pub(super) fn causes(causes: &[CauseCount], words: &Phrases) -> String {
    counted(causes.iter().map(|count| (count.cause.as_str(), count.firings)), words)
}

fn counted<'a>(counts: impl Iterator<Item = (&'a str, usize)>, words: &Phrases) -> String {
    let name = |(name, n): (&str, usize)| words.text("backtest-count", &[("name", name.into()), ("n", n.into())]);
    counts.take(NAMES).map(name).collect::<Vec<_>>().join(", ")
}

/// Returns the pieces of the sentence about a symptom without an alert.
pub(super) fn unalerted_pieces(symptom: &UnalertedSymptom) -> [(&'static str, PhraseArgument); 6] {
    [
        ("title", symptom.title.as_str().into()),
        ("pool", symptom.pool.as_str().into()),
        ("times", symptom.times.into()),
        ("duration", duration(symptom.seconds).into()),
        ("confirmed", symptom.episodes.len().to_string().into()),
        ("looked", symptom.looked_at.to_string().into()),
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

/// Returns the title of a ladder: `TTFT p99 for 5 min`; with its pools where others have other thresholds.
pub(super) fn ladder_title(ladder: &ThresholdLadder, backtest: &Backtest, words: &Phrases) -> String {
    let hold = duration(ladder.hold_seconds).into();
    let pools = ladder.pools.iter().take(NAMES).cloned().collect::<Vec<_>>().join(", ");
    let pieces = [("title", ladder.title.as_str().into()), ("hold", hold), ("pools", pools.into())];
    let is_one_of = backtest.ladders.iter().filter(|other| other.has_signal_of(ladder)).count() > 1;
    words.text(if is_one_of { "backtest-ladder-of" } else { "backtest-ladder" }, &pieces)
}

/// Formats a threshold: `> 2 s`.
pub(super) fn threshold(ladder: &ThresholdLadder, threshold: f64) -> String {
    format!("{} {}", ladder.op, format_threshold(threshold, ladder.unit))
}

/// Appends a line for a ladder; a threshold is not split between two lines.
fn rungs(out: &mut String, ladder: &ThresholdLadder, backtest: &Backtest, words: &Phrases) {
    let mut line = format!("  {}:", ladder_title(ladder, backtest, words));
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
    let share = |share: Option<f64>, right: usize, of: usize| {
        let Some(share) = share else { return "–".to_owned() };
        let percent = format!("{:.0}", share * 100.0).into();
        words.text(
            "backtest-share",
            &[("percent", percent), ("right", right.to_string().into()), ("of", of.to_string().into())],
        )
    };
    [share(row.precision, row.right, row.named), share(row.recall, row.found, row.actual)]
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
    let lists = [
        ("backtest-elsewhere", &left.elsewhere),
        ("backtest-outside", &left.outside),
        ("backtest-before", &left.before),
        ("backtest-over", &left.over_maximum),
    ];
    let named = lists.into_iter().filter(|(_, rules)| !rules.is_empty());
    let say = |rules: &[RuleCount]| counted(rules.iter().map(|count| (count.rule.as_str(), count.firings)), words);
    named.map(|(key, rules)| words.text(key, &[("rules", say(rules).into())])).collect()
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

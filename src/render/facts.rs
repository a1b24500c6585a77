//! Clauses that the sentences are built from.

use std::collections::BTreeSet;
use std::time::Duration;

use super::Phrases;
use findings::facts::{Distribution, Measured, QuantileBucket, bucket};
use findings::request::USUAL_WINDOW;
use findings::{
    BlastRadius, CauseFound, Diagnosis, EvidenceResult, Outcome, ReplicaValue, SymptomVerdict, ValueSource, Verdict,
    first_sign,
};
use knowledge::alert::{Alert, active};
use knowledge::clip::clip;
use knowledge::clock;
use knowledge::gap::missing_part;
use knowledge::signal::{Unit, format_value};
use message::{Line, StateStyle, TextSpan};
use report::{changed, moved};

/// Maximum number of items in a list before "and N more".
pub(super) const FEW: usize = 3;

/// Joins the first names of a list, and the number of further ones.
pub(super) fn few(names: &[impl AsRef<str>], words: &Phrases) -> String {
    join_limited(names, FEW, ", ", words)
}

/// Joins as [`few`] does, with another maximum and another separator.
pub(super) fn join_limited(names: &[impl AsRef<str>], most: usize, between: &str, words: &Phrases) -> String {
    let shown = names.iter().take(most).map(AsRef::as_ref).collect::<Vec<_>>().join(between);
    match names.len().saturating_sub(most) {
        0 => shown,
        more => words.text("and-more", &[("shown", shown.into()), ("n", more.into())]),
    }
}

/// Groups values with the same key, in the order of first occurrence.
pub(super) fn group_by_key<K: PartialEq, V>(all: impl Iterator<Item = (K, V)>) -> Vec<(K, Vec<V>)> {
    let mut groups: Vec<(K, Vec<V>)> = Vec::new();
    for (key, value) in all {
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, values)) => values.push(value),
            None => groups.push((key, vec![value])),
        }
    }
    groups
}

/// Lists replicas with their values: `vllm-1 98 %, vllm-2 97 % and 3 more`.
pub(super) fn few_values(replicas: &[ReplicaValue], unit: Unit, words: &Phrases) -> String {
    let values: Vec<String> = replicas.iter().map(|r| format!("{} {}", r.name, format_value(r.value, unit))).collect();
    few(&values, words)
}

/// Renders a check as a fact: `KV cache peak 99 %`, `prompt length 3.9k tokens (2.2x, was 1.8k tokens)`.
pub(super) fn fact(e: &EvidenceResult, words: &Phrases) -> String {
    let fact = match (e.value, e.baseline) {
        (Some(value), Some(others)) if e.is_of_peers() => {
            let (now, others) = (format_value(value, e.unit).into(), format_value(others, e.unit).into());
            format!("{} {}", e.title, words.text("change-of-peers", &[("now", now), ("others", others)]))
        }
        (Some(value), Some(baseline)) => format!("{} {}", e.title, change(value, baseline, e.unit, words)),
        (Some(value), None) => format!("{} {}", e.title, format_value(value, e.unit)),
        (None, _) if e.outcome == Outcome::NoData => e.title.clone(),
        (None, _) => words.text("fact-none", &[("title", e.title.as_str().into())]),
    };
    let fact = match e.as_before {
        true => words.text("fact-as-before", &[("fact", fact.into())]),
        false => fact,
    };
    match e.source {
        ValueSource::Exporter => words.text("fact-direct", &[("fact", fact.into())]),
        ValueSource::Log => {
            let names: Vec<String> = e.replicas.iter().map(|r| r.name.clone()).collect();
            let pieces = [("fact", fact.into()), ("n", names.len().into()), ("names", few(&names, words).into())];
            words.text("fact-log", &pieces)
        }
        ValueSource::Prometheus => fact,
    }
}

fn change(value: f64, baseline: f64, unit: Unit, words: &Phrases) -> String {
    let (now, was) = (format_value(value, unit).into(), format_value(baseline, unit).into());
    if baseline.abs() < 1e-12 {
        return words.text("change-from-nothing", &[("now", now), ("was", was)]);
    }
    if changed(baseline, value).is_none() {
        return words.text("change-none", &[("now", now)]);
    }
    let factor = format_value(value / baseline, Unit::Factor).into();
    words.text("change", &[("now", now), ("factor", factor), ("was", was)])
}

/// Renders the bucket of a quantile: `between 250 ms and 500 ms`; `None` if its bounds are displayed alike.
pub(super) fn within(bucket: QuantileBucket, unit: Unit, words: &Phrases) -> Option<String> {
    let shown = |value| format_value(value, unit);
    match bucket {
        QuantileBucket::Between(low, high) if shown(low) == shown(high) => None,
        QuantileBucket::Between(low, high) => {
            Some(words.text("between", &[("low", shown(low).into()), ("high", shown(high).into())]))
        }
        QuantileBucket::Beyond(low) => Some(words.text("or-more", &[("low", shown(low).into())])),
    }
}

/// Renders a value of a table; a quantile with the bucket that contains it.
pub(super) fn measured(m: &Measured, value: Option<f64>, words: &Phrases) -> String {
    let Some(value) = value else { return "–".to_owned() };
    let shown = format_value(value, m.unit);
    match bucket(value, &m.bounds).and_then(|bucket| Some((bucket, within(bucket, m.unit, words)?))) {
        Some((QuantileBucket::Between(..), range)) => {
            words.text("value-within", &[("value", shown.into()), ("range", range.into())])
        }
        Some((QuantileBucket::Beyond(_), range)) => range,
        None => shown,
    }
}

/// Renders a quantile of prompt or answer lengths, of which only the bucket is known.
pub(super) fn length(d: &Distribution, quantile: f64, words: &Phrases) -> String {
    let range = d.bucket(quantile).and_then(|bucket| within(bucket, Unit::Tokens, words));
    range.unwrap_or_else(|| format_value(quantile, Unit::Tokens))
}

/// Renders the change of a value, as the same factor that messages show: `▲ 2.2x`, `▼ 0.5x`, `≈`.
pub(super) fn moved_by(m: &Measured) -> String {
    let (Some(before), Some(during)) = (m.before, m.during) else { return String::new() };
    match moved(m) {
        None => "≈".to_owned(),
        Some(by) => {
            let factor = if by.is_finite() { format_value(during / before, Unit::Factor) } else { String::new() };
            format!("{} {factor}", if by > 0.0 { "▲" } else { "▼" }).trim_end().to_owned()
        }
    }
}

/// Returns the facts of one outcome; two checks on the same number give one fact.
pub(super) fn facts<'a>(
    evidence: impl IntoIterator<Item = &'a EvidenceResult>,
    outcome: Outcome,
    words: &Phrases,
) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for e in evidence.into_iter().filter(|e| e.outcome == outcome) {
        let fact = fact(e, words);
        if !out.contains(&fact) {
            out.push(fact);
        }
    }
    out
}

/// Returns the word for a verdict.
pub(super) fn verdict(verdict: Verdict, words: &Phrases) -> String {
    let key = match verdict {
        Verdict::Likely => "verdict-likely",
        Verdict::Possible => "verdict-possible",
        Verdict::Unlikely => "verdict-unlikely",
        Verdict::Undetermined => "verdict-undetermined",
        Verdict::RuledOut => "verdict-ruled-out",
    };
    words.text(key, &[])
}

/// Returns a verdict as a state, shown with this word.
pub(super) fn verdict_state(verdict: Verdict, word: String) -> TextSpan {
    let style = match verdict {
        Verdict::Likely => StateStyle::Bad,
        Verdict::Possible => StateStyle::Warn,
        Verdict::Unlikely | Verdict::Undetermined | Verdict::RuledOut => StateStyle::Mute,
    };
    TextSpan::State(style, word)
}

/// Returns the outcome of a check as a state; `None` is a check that was not made.
pub(super) fn outcome_state(outcome: Outcome, words: &Phrases) -> TextSpan {
    let (style, key) = match outcome {
        Outcome::Met => (StateStyle::Met, "page-met"),
        Outcome::NotMet => (StateStyle::NotMet, "page-not-met"),
        Outcome::NoData => (StateStyle::NoData, "page-no-data"),
    };
    TextSpan::State(style, words.text(key, &[]))
}

/// Returns the confidence in a cause, as a word and a probability: `likely, 92 %`.
pub(super) fn confidence(cause: &CauseFound, words: &Phrases) -> String {
    let verdict = match verdict(cause.verdict, words) {
        verdict if cause.so_far => words.text("verdict-so-far", &[("verdict", verdict.into())]),
        verdict => verdict,
    };
    let percent = format_value((cause.probability * 100.0).round() / 100.0, Unit::Ratio);
    words.text("verdict-sure", &[("verdict", verdict.into()), ("percent", percent.into())])
}

/// Names the firing alerts, or all if none is firing, each with its severity: `LLMHighTTFT (severity info)`.
pub(super) fn alerted(alerts: &[Alert], words: &Phrases) -> Option<String> {
    let one = |alert: &&Alert| {
        let name = ("name", clip(alert.name(), 80).into());
        match alert.labels.get("severity").map(String::as_str) {
            None | Some("") => words.text("alert-ungraded", &[name]),
            Some(severity) => words.text("alert-graded", &[name, ("severity", clip(severity, 40).into())]),
        }
    };
    let named: BTreeSet<String> = active(alerts).iter().map(one).collect();
    (!named.is_empty()).then(|| few(&named.into_iter().collect::<Vec<_>>(), words))
}

/// Says that a link of the best chain began after its effect, and when; `None` if the times fit, or differ by no more
/// than `late` or the window of the rates, or by less than two of the steps at which they were looked for.
pub(super) fn misfit(diagnosis: &Diagnosis, late: Duration, words: &Phrases) -> Option<Line> {
    let root = diagnosis.root()?;
    let step = diagnosis.timeline.iter().map(|onset| onset.step_seconds).max().unwrap_or(0);
    let apart = u64::try_from(step.saturating_mul(2).saturating_sub(1)).unwrap_or(0);
    let window = Duration::from_secs(diagnosis.window_seconds).min(USUAL_WINDOW);
    let late = late.max(Duration::from_secs(apart)).max(window);
    let symptom = (diagnosis.symptom.playbook.as_str(), &diagnosis.symptom.title);
    let via = root.via.iter().rev().map(|link| (link.id.as_str(), &link.title));
    let since = |id: &str| diagnosis.timeline.iter().find(|onset| onset.id == id).map(|onset| onset.at);
    // What a cause changes first need not be what completes it.
    let sign = |id: &str| {
        let links = root.via.iter().map(|link| (link.id.as_str(), &link.evidence));
        let mut all = [(root.id.as_str(), &root.evidence)].into_iter().chain(links);
        all.find(|(link, _)| *link == id).and_then(|(_, evidence)| first_sign(evidence))
    };
    let begun: Vec<_> = [(root.id.as_str(), &root.title)]
        .into_iter()
        .chain(via)
        .chain([symptom])
        .filter_map(|(id, title)| Some((since(id)?, sign(id), title)))
        .collect();
    let mut pairs = begun.windows(2).map(|pair| {
        let [(at, sign, cause), (effect_at, _, effect)] = [pair[0], pair[1]];
        ((sign.unwrap_or(at), cause), (effect_at, effect))
    });
    let (cause, effect) = pairs.find(|(cause, effect)| cause.0 > clock::after(effect.0, late))?;
    let pieces = [
        ("cause", cause.1.as_str().into()),
        ("at", TextSpan::Time(cause.0).into()),
        ("effect", effect.1.as_str().into()),
        ("before", TextSpan::Time(effect.0).into()),
    ];
    Some(words.line("times-misfit", &pieces))
}

/// Renders the best chain in a few words: `KV cache is exhausted ← prompts became longer`.
pub(super) fn chain_summary(diagnosis: &Diagnosis, words: &Phrases) -> String {
    match (diagnosis.root(), diagnosis.symptom.verdict) {
        (Some(cause), _) => {
            let links: Vec<&str> = cause.via.iter().map(|j| j.title.as_str()).chain([cause.title.as_str()]).collect();
            let chain = links.join(" ← ");
            match cause.verdict {
                Verdict::Likely => chain,
                _ => words.text("why-possibly", &[("chain", chain.into())]),
            }
        }
        (None, SymptomVerdict::Confirmed) => words.text("why-nothing", &[]),
        (None, SymptomVerdict::Absent) => {
            let seen = join_limited(&facts(&diagnosis.symptom.evidence, Outcome::NotMet, words), 1, ", ", words);
            match seen.is_empty() {
                true => words.text("why-absent-alone", &[]),
                false => words.text("why-absent", &[("facts", seen.into())]),
            }
        }
        (None, SymptomVerdict::NoData) if is_in_missing_part(diagnosis) => words.text("why-in-part", &[]),
        (None, SymptomVerdict::NoData) if diagnosis.scope.data.is_some() => words.text("why-no-data-then", &[]),
        (None, SymptomVerdict::NoData) if diagnosis.scope.unknown.is_some() => words.text("why-nowhere", &[]),
        (None, SymptomVerdict::NoData) => {
            match symptom_no_data_reason(diagnosis).map(|why| why.split(": ").next().unwrap_or(why)) {
                Some(why) => clip(why, 80),
                None => words.text("why-no-data", &[]),
            }
        }
    }
}

/// Returns the reason why the symptom could not be checked.
pub(super) fn symptom_no_data_reason(diagnosis: &Diagnosis) -> Option<&str> {
    let mut whys = diagnosis.symptom.evidence.iter().filter_map(|e| e.why.as_deref());
    whys.next().or(diagnosis.problems.first().map(String::as_str)).filter(|why| !why.is_empty())
}

/// Returns true if what the symptom lacks may be in a part of the data that is missing, and not only that of others.
fn is_in_missing_part(diagnosis: &Diagnosis) -> bool {
    let evidence = &diagnosis.symptom.evidence;
    diagnosis.incomplete.is_some() && (evidence.is_empty() || evidence.iter().any(|e| e.incomplete))
}

/// Says that the symptom could not be checked, and why. The reason must not be repeated among the other problems.
pub(super) fn no_data(diagnosis: &Diagnosis, words: &Phrases) -> Line {
    if is_in_missing_part(diagnosis) {
        let seen = diagnosis.symptom.evidence.iter().filter(|e| e.incomplete && e.value.is_some());
        let seen = join_limited(&facts(seen, Outcome::NoData, words), FEW, ", ", words);
        return match seen.is_empty() {
            true => words.line("symptom-in-part", &[]),
            false => words.line("symptom-in-part-seen", &[("facts", seen.into())]),
        };
    }
    let facts = join_limited(&facts(&diagnosis.symptom.evidence, Outcome::NoData, words), FEW, ", ", words).into();
    match symptom_no_data_reason(diagnosis) {
        Some(why) => words.line("symptom-no-data-why", &[("facts", facts), ("why", Line::of(why).into())]),
        None => words.line("symptom-no-data", &[("facts", facts)]),
    }
}

/// Returns true if a problem is the reason that [`no_data`] shows, or the note on a missing part of the data.
pub(super) fn is_said(diagnosis: &Diagnosis, problem: &str) -> bool {
    if diagnosis.incomplete.as_deref().is_some_and(|said| problem == missing_part(said)) {
        return true;
    }
    diagnosis.symptom.verdict == SymptomVerdict::NoData
        && symptom_no_data_reason(diagnosis)
            .is_some_and(|why| problem == why || problem.starts_with(&format!("{why} (")))
}

/// Names the replicas with the symptom: ` on 2 of 8 replicas: a, b`; empty if unknown.
pub(super) fn radius(radius: &BlastRadius, words: &Phrases) -> String {
    let total = ("total", radius.total.into());
    let affected = match (radius.affected.len(), radius.total) {
        (_, 0) => return String::new(),
        (0, _) => words.text("radius-pool", &[total]),
        (n, all) if n >= all => words.text("radius-all", &[total]),
        (n, _) => {
            let names = few(&radius.affected, words).into();
            words.text("radius-some", &[("n", n.into()), total, ("names", names)])
        }
    };
    format!(" {affected}")
}

/// Names the replicas that a cause affects, their places, and their share of the traffic.
pub(super) fn affected_replicas_line(cause: &CauseFound, words: &Phrases) -> Option<Line> {
    let radius = &cause.replicas;
    let total = ("total", radius.total.into());
    match radius.affected.len() {
        0 => None,
        n if n >= radius.total => Some(words.line("hits-all", &[total])),
        n => {
            let names = few(&radius.affected, words).into();
            let mut line = words.line("hits-some", &[("n", n.into()), total, ("names", names)]);
            let places: BTreeSet<&str> = radius.places.values().flatten().map(String::as_str).collect();
            // More of them say nothing that the names of the replicas do not.
            if (1..=FEW).contains(&places.len()) {
                let places = places.into_iter().collect::<Vec<_>>().join(", ");
                line = words.line("hits-on", &[("hits", line.into()), ("places", places.into())]);
            }
            if let Some(share) = radius.traffic {
                let share = format_value(share, Unit::Ratio).into();
                line = words.line("hits-share", &[("hits", line.into()), ("share", share)]);
            }
            Some(line)
        }
    }
}

/// Renders a line as a list item.
pub(super) fn bullet(line: Line) -> Line {
    Line::default().plain("• ").then(line)
}

/// Joins the parts of a headline that are not empty.
pub(super) fn join_non_empty(parts: &[String]) -> String {
    parts.iter().filter(|p| !p.is_empty()).map(String::as_str).collect::<Vec<_>>().join(" · ")
}

/// Joins texts by a phrase for two: `a or b or c`.
pub(super) fn joined(key: &str, all: Vec<String>, words: &Phrases) -> String {
    let both = |one: String, other: String| words.text(key, &[("one", one.into()), ("other", other.into())]);
    all.into_iter().reduce(both).unwrap_or_default()
}

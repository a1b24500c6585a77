//! Sentences about a pool that was screened, because the alert's own playbook is unknown or explains nothing.

use std::iter;

use jiff::Timestamp;

use super::Phrases;
use super::facts::{FEW, few, symptom_no_data_reason};
use findings::scope::pool_name;
use findings::{ConditionFound, DataSpan, Diagnosis, PoolInTrouble, Screening, SymptomVerdict, Unmeasured};
use knowledge::gap::store_named;
use knowledge::signal::{Unit, format_threshold, format_value};
use message::{Block, Line};

/// Prepends to the lines about the symptom how the diagnosis found it, and first of all if a part of the data is missing.
pub(super) fn before(diagnosis: &Diagnosis, symptom: Vec<Line>, words: &Phrases) -> Vec<Line> {
    let said = match (no_pool_data(diagnosis, words), symptom_origin(diagnosis, words)) {
        (Some(line), _) => vec![line],
        // Without a symptom there is nothing more to say.
        (None, Some(line)) if diagnosis.symptom.playbook.is_empty() => vec![line],
        (None, origin) => origin.into_iter().chain(symptom).collect(),
    };
    [missing_part(diagnosis, words), pools_in_trouble(diagnosis, words), said].concat()
}

/// Says whether the alert's own expression holds, where the diagnosis does not already show that it does.
pub(super) fn condition(diagnosis: &Diagnosis, words: &Phrases) -> Option<Line> {
    let symptom = &diagnosis.symptom;
    let is_own = |screening: &Screening| screening.asked.as_ref() == Some(&symptom.playbook);
    let shows = symptom.verdict == SymptomVerdict::Confirmed && diagnosis.screening.as_ref().is_none_or(is_own);
    match diagnosis.condition? {
        ConditionFound { holds: true, .. } if shows => None,
        ConditionFound { holds: true, value: Some(value), usual, .. } => {
            let text = |value| format_threshold(value, Unit::Count);
            let usual = usual.map(text).unwrap_or_default();
            let pieces = [("value", text(value).into()), ("known", usual.len().into()), ("usual", usual.into())];
            Some(words.line("condition-value", &pieces))
        }
        ConditionFound { holds: true, value: None, .. } => Some(words.line("condition-holds", &[])),
        ConditionFound { holds: false, .. } => Some(words.line("condition-gone", &[])),
    }
}

/// Lists the pools in trouble, each with its own cause, for an alert that names no pool.
fn pools_in_trouble(diagnosis: &Diagnosis, words: &Phrases) -> Vec<Line> {
    let Some(first) = diagnosis.pools.first() else { return Vec::new() };
    let of_one = |pool: &PoolInTrouble| {
        let name = ("pool", Line::default().code(pool_name(&pool.labels)).into());
        let chain: Vec<&str> = iter::once(&pool.symptom).chain(&pool.causes).map(String::as_str).collect();
        let chain = ("chain", chain.join(" ← ").into());
        match pool.causes.is_empty() {
            true => words.line("pools-one-unexplained", &[name, chain]),
            false => words.line(
                "pools-one",
                &[name, chain, ("share", format_value((pool.probability * 100.0).round() / 100.0, Unit::Ratio).into())],
            ),
        }
    };
    let name = ("pool", Line::default().code(pool_name(&first.labels)).into());
    let head = words.line("pools-unnamed", &[("n", diagnosis.pools.len().into()), name]);
    iter::once(head).chain(diagnosis.pools.iter().map(of_one)).collect()
}

/// Says that no pool has the alert's labels, or that the pool has no data at the judged moment: then there is no
/// diagnosis.
fn no_pool_data(diagnosis: &Diagnosis, words: &Phrases) -> Option<Line> {
    if diagnosis.symptom.verdict != SymptomVerdict::NoData {
        return None;
    }
    let unknown = match then(diagnosis, "nowhere-then", words) {
        Some(line) => return Some(line),
        None => diagnosis.scope.unknown.as_ref()?,
    };
    let what = ("what", unknown.dimension.as_str().into());
    let value = ("value", Line::default().code(unknown.value.as_str()).into());
    let mut near = Line::default();
    for (i, value) in unknown.nearest.iter().enumerate() {
        near = near.plain(if i == 0 { "" } else { ", " }).code(value.as_str());
    }
    if unknown.more > 0 {
        near = words.line("nowhere-more", &[("near", near.into()), ("n", unknown.more.into())]);
    }
    Some(words.line("nowhere", &[what, value, ("near", near.into())]))
}

/// Says when the pool has data, if it has none at the judged moment but the symptom was judged from other sources.
pub(super) fn data(diagnosis: &Diagnosis, words: &Phrases) -> Option<Line> {
    then(diagnosis, "data-then", words).filter(|_| diagnosis.symptom.verdict != SymptomVerdict::NoData)
}

fn then(diagnosis: &Diagnosis, key: &str, words: &Phrases) -> Option<Line> {
    let DataSpan { from, to } = diagnosis.scope.data?;
    let [from, to] = [from, to].map(|at| moment(at).into());
    Some(words.line(key, &[("at", moment(diagnosis.at).into()), ("from", from), ("to", to)]))
}

/// Formats a time with its date, because it may be long ago.
fn moment(at: Timestamp) -> Line {
    Line::default().time(at).plain(format!(" ({})", at.strftime("%Y-%m-%d %H:%M UTC")))
}

/// Says how the diagnosis found its symptom, if that is not the alert's own; or how many symptoms were checked, if
/// none is confirmed.
fn symptom_origin(diagnosis: &Diagnosis, words: &Phrases) -> Option<Line> {
    let symptom = &diagnosis.symptom;
    let Some(screening) = &diagnosis.screening else {
        // There was no screening, because the alert names no pool.
        return symptom.playbook.is_empty().then(|| words.line("no-playbook-why", &[]));
    };
    if screening.asked.as_ref() == Some(&symptom.playbook) && symptom.verdict == SymptomVerdict::Confirmed {
        return None;
    }
    if symptom.verdict != SymptomVerdict::Confirmed {
        let why = symptom_no_data_reason(diagnosis).or(diagnosis.scope.notes.first().map(String::as_str));
        let because = |key: &str| why.map(|why| words.line(key, &[("why", Line::of(why).into())]));
        return match screening.looked_at.len() {
            // Nothing is known of the symptoms in the missing part.
            _ if diagnosis.incomplete.is_some() => {
                Some(words.line("screened-in-part", &[])).filter(|_| symptom.playbook.is_empty())
            }
            0 => because("screened-blind-why").or_else(|| Some(words.line("screened-blind", &[]))),
            // A symptom that was not checked may be the actual one.
            _ if diagnosis.degraded => because("screened-part-why").filter(|_| symptom.playbook.is_empty()),
            n if !screening.unmeasured.is_empty() => {
                let one = |open: &Unmeasured| {
                    Line::default().plain(format!("{} (", open.title)).then(Line::of(&open.why)).plain(")")
                };
                let what = screening.unmeasured.iter().take(FEW).map(one);
                let what = what.reduce(|all, one| all.plain("; ").then(one)).unwrap_or_default();
                let more = screening.unmeasured.len().saturating_sub(FEW);
                Some(
                    words.line("screened-unmeasured", &[("n", n.into()), ("what", what.into()), ("more", more.into())]),
                )
            }
            n if screening.also.is_empty() && screening.slight.is_empty() => {
                let is_new = diagnosis.condition.is_some_and(|found| found.is_new);
                Some(words.line(if is_new { "screened-unknown-change" } else { "screened-quiet" }, &[("n", n.into())]))
            }
            n if screening.also.is_empty() => Some(words.line("screened-unclear", &[("n", n.into())])),
            _ => None,
        };
    }
    let title = ("title", symptom.title.as_str().into());
    let asked = ("asked", screening.asked_title.as_deref().unwrap_or_default().into());
    Some(match screening.asked_verdict {
        None => words.line("screened-unknown", &[title]),
        Some(SymptomVerdict::Absent) => words.line("screened-absent", &[asked, title]),
        Some(SymptomVerdict::NoData) => words.line("screened-no-data", &[asked, title]),
        Some(SymptomVerdict::Confirmed) => words.line("screened-unexplained", &[asked, title]),
    })
}

/// Names the other abnormal symptoms of the pool, and those just beyond a threshold.
pub(super) fn other_symptoms(diagnosis: &Diagnosis, words: &Phrases) -> Option<Block> {
    let screening = diagnosis.screening.as_ref()?;
    let named = |key: &str, name: &'static str, titles: &[String]| {
        (!titles.is_empty()).then(|| words.line(key, &[(name, few(titles, words).into())]))
    };
    let also = named("screened-also", "also", &screening.also);
    let slight = named("screened-slight", "slight", &screening.slight);
    let line = match (also, slight) {
        (Some(also), Some(slight)) => also.plain(" ").then(slight),
        (one, other) => one.or(other)?,
    };
    Some(Block::Note(line))
}

/// Returns the note that a part of the data is missing, with the server's words, and the first thing to check; it comes before
/// everything else.
fn missing_part(diagnosis: &Diagnosis, words: &Phrases) -> Vec<Line> {
    let Some(said) = diagnosis.incomplete.as_deref() else { return Vec::new() };
    let look = match store_named(said) {
        Some(store) => words.line("part-missing-store", &[("store", Line::default().code(store).into())]),
        None => words.line("part-missing-stores", &[]),
    };
    vec![words.line("part-missing", &[("said", said.into())]), look]
}

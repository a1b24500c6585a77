//! The outcome of a diagnosis of the past.

use findings::{Diagnosis, Screening, SymptomVerdict};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Maximum number of missing signals that are named.
const MISSING: usize = 5;

/// The outcome of a firing's diagnosis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FiringOutcome {
    /// The alert's symptom is confirmed, and a cause is at least possible.
    Confirmed,
    /// The symptom is confirmed, but no cause stands out.
    NoCause,
    /// The alert's own symptom is not confirmed, or it selects no playbook; but another symptom of its pool holds.
    OtherSymptom,
    /// The alert's own symptom could be judged and does not hold, nor does another one.
    NothingAbnormal,
    /// The alert selects no playbook, and no symptom of its pool holds: what it is about was not judged.
    NotJudged,
    /// The data is missing.
    Blind,
}

impl FiringOutcome {
    /// All outcomes, in the order in which they are shown.
    pub const ALL: [Self; 6] =
        [Self::Confirmed, Self::NoCause, Self::OtherSymptom, Self::NothingAbnormal, Self::NotJudged, Self::Blind];
}

/// Something without data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MissingData {
    /// The title of the signal; `pool` if there is no data about the pool at all.
    pub what: String,
    /// The reason, as a sentence.
    pub why: String,
    /// The setting that makes it available.
    pub enable: Option<String>,
}

/// Returns the outcome of a firing's diagnosis.
pub fn outcome(diagnosis: &Diagnosis) -> FiringOutcome {
    let symptom = &diagnosis.symptom;
    let is_named = named_cause(diagnosis).is_some();
    let none = Screening::default();
    let screening = diagnosis.screening.as_ref().unwrap_or(&none);
    let entered = (!symptom.playbook.is_empty()).then_some(symptom.verdict);
    let own = if diagnosis.screening.is_some() { screening.asked_verdict } else { entered };
    let is_confirmed = symptom.verdict == SymptomVerdict::Confirmed;
    let holds_beside = !screening.also.is_empty() || !screening.slight.is_empty();
    match own {
        // Without a playbook nothing here knows what the alert is about, so that no symptom is its own.
        None | Some(SymptomVerdict::Absent | SymptomVerdict::NoData) if is_confirmed || holds_beside => {
            FiringOutcome::OtherSymptom
        }
        _ if is_confirmed && is_named => FiringOutcome::Confirmed,
        _ if is_confirmed => FiringOutcome::NoCause,
        _ if diagnosis.degraded || diagnosis.incomplete.is_some() => FiringOutcome::Blind,
        None if !screening.looked_at.is_empty() => FiringOutcome::NotJudged,
        Some(SymptomVerdict::Absent) => FiringOutcome::NothingAbnormal,
        // The alert's symptom held at first, and another playbook was entered that has gone.
        Some(SymptomVerdict::Confirmed) => FiringOutcome::NoCause,
        Some(SymptomVerdict::NoData) | None => FiringOutcome::Blind,
    }
}

/// The cause that a message names.
#[derive(Debug, Clone, PartialEq)]
pub struct NamedCause<'a> {
    /// Its title.
    pub title: &'a str,
    /// The ids from the symptom to it.
    pub chain: &'a [String],
    /// The probability of a root cause, 0..1; `None` for a mechanism.
    pub probability: Option<f64>,
}

/// Returns the cause that a diagnosis names: the root, or the mechanism above a root that only says that nothing else was
/// found. `None` if none is at least possible.
pub fn named_cause(diagnosis: &Diagnosis) -> Option<NamedCause<'_>> {
    let root = diagnosis.root().filter(|_| diagnosis.symptom.verdict == SymptomVerdict::Confirmed)?;
    if !root.fallback {
        return Some(NamedCause { title: &root.title, chain: &root.chain, probability: Some(root.probability) });
    }
    let (_, chain) = root.chain.split_last()?;
    Some(NamedCause { title: &root.via.last()?.title, chain, probability: None })
}

/// Returns the missing data that a diagnosis names: of a blind one why it is blind, of the others the open checks.
pub fn missing(diagnosis: &Diagnosis) -> Vec<MissingData> {
    let pool = |why: String| MissingData { what: "pool".to_owned(), why, enable: None };
    let mut all: Vec<MissingData> = Vec::new();
    if let Some(unknown) = &diagnosis.scope.unknown {
        all.push(pool(format!("no series has {} `{}`", unknown.dimension, unknown.value)));
    }
    if let Some(span) = &diagnosis.scope.data {
        all.push(pool(format!("it has data only from {:.0} to {:.0}", span.from, span.to)));
    }
    if !all.is_empty() {
        // What a pool's signals lack says nothing where the pool is not there.
        return all;
    }
    if diagnosis.degraded || diagnosis.incomplete.is_some() {
        all.extend(diagnosis.problems.iter().take(1).cloned().map(pool));
    }
    // The symptom's own signals say why nothing could be judged.
    let (symptom, causes): (Vec<_>, Vec<_>) = diagnosis.unchecked.iter().partition(|signal| signal.causes.is_empty());
    all.extend(symptom.into_iter().chain(causes).map(|signal| MissingData {
        what: signal.title.clone(),
        why: signal.why.clone(),
        enable: signal.enable.clone(),
    }));
    all.truncate(MISSING);
    all
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A diagnosis with the verdict on the entered symptom, this screening and this root cause.
    fn diagnosis(symptom: (&str, &str), screening: Value, root: Option<(&[&str], bool)>) -> Diagnosis {
        let cause = |(chain, fallback): (&[&str], bool)| {
            let via: Vec<Value> = chain[1..chain.len() - 1]
                .iter()
                .map(|id| json!({ "id": id, "title": id, "verdict": "likely", "score": 1.0, "evidence": [] }))
                .collect();
            let last = chain.last();
            json!({ "id": last, "title": last, "meaning": "", "chain": chain, "verdict": "likely", "score": 1.0,
                "probability": 0.9, "evidence": [], "replicas": { "affected": [], "total": 0 }, "via": via,
                "fallback": fallback })
        };
        serde_json::from_value(json!({
            "schema": "", "at": "2026-11-20T00:00:00Z", "window_seconds": 300,
            "scope": { "labels": {}, "matchers": "", "named": [], "notes": [] }, "engines": [],
            "symptom": { "playbook": symptom.0, "title": "", "impact": "", "verdict": symptom.1, "evidence": [] },
            "replicas": { "affected": [], "total": 0 }, "causes": root.map(cause).into_iter().collect::<Vec<_>>(),
            "ruled_out": [], "unchecked": [], "fix": { "now": [], "lasting": [] }, "problems": [], "degraded": false,
            "queries": 0, "took_seconds": 0.0, "screening": screening, "timeline": [], "unknown": 0.1,
        }))
        .unwrap()
    }

    #[test]
    fn an_outcome_is_about_the_alerts_own_symptom() {
        let root = Some((&["high-ttft", "kv-cache-full", "longer-prompts"][..], false));
        let of = |symptom, screening, root| outcome(&diagnosis(symptom, screening, root));
        let asked =
            |verdict: &str| json!({ "asked": "high-itl", "asked_verdict": verdict, "looked_at": ["a"], "also": [] });
        let (held, absent, none) = (("high-ttft", "confirmed"), ("high-ttft", "absent"), Value::Null);
        assert_eq!(of(held, none.clone(), root), FiringOutcome::Confirmed);
        assert_eq!(of(held, asked("confirmed"), root), FiringOutcome::Confirmed);
        assert_eq!(of(held, asked("absent"), root), FiringOutcome::OtherSymptom, "what was found is another symptom");
        assert_eq!(of(held, none.clone(), None), FiringOutcome::NoCause);
        assert_eq!(of(absent, asked("absent"), None), FiringOutcome::NothingAbnormal);
        let slight = json!({ "asked_verdict": "absent", "looked_at": [], "also": [], "slight": ["b"] });
        assert_eq!(of(absent, slight, None), FiringOutcome::OtherSymptom);
        assert_eq!(of(("high-ttft", "no_data"), asked("no_data"), None), FiringOutcome::Blind);
        let no_playbook = |looked_at: &[&str]| json!({ "looked_at": looked_at, "also": [] });
        assert_eq!(of(("", "no_data"), no_playbook(&["a"]), None), FiringOutcome::NotJudged, "a full disk, say");
        assert_eq!(of(("", "no_data"), no_playbook(&[]), None), FiringOutcome::Blind);
        assert_eq!(of(held, no_playbook(&["a"]), root), FiringOutcome::OtherSymptom, "a full disk during a surge");
        let slight = json!({ "looked_at": ["a"], "also": [], "slight": ["b"] });
        assert_eq!(of(("", "no_data"), slight, None), FiringOutcome::OtherSymptom);
    }

    #[test]
    fn that_nothing_else_was_found_is_no_cause() {
        let of = |chain: &[&str]| diagnosis(("high-ttft", "confirmed"), Value::Null, Some((chain, true)));
        let below = of(&["high-ttft", "kv-cache-full", "unchanged"]);
        let named = named_cause(&below).unwrap();
        assert_eq!((named.title, named.chain.len(), named.probability), ("kv-cache-full", 2, None));
        assert_eq!(outcome(&below), FiringOutcome::Confirmed);
        let alone = of(&["high-ttft", "unchanged"]);
        assert_eq!((named_cause(&alone), outcome(&alone)), (None, FiringOutcome::NoCause));
    }
}

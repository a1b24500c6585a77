//! Asks the product for a diagnosis of each fleet and compares it with the truth.

use std::sync::Arc;
use std::time::Duration;

use diagnose::{FEATURES, diagnose, features};
use findings::{Baseline, Diagnosis, Request, Scope, SymptomVerdict, Verdict};
use futures::stream::{self, StreamExt};
use jiff::Timestamp;
use knowledge::playbook::{Library, PlaybookKind};
use prom::Prometheus;

use crate::world::Situation;

/// How many diagnoses run at once.
const AT_ONCE: usize = 3;

/// A diagnosis beside the truth.
#[derive(Debug, Clone)]
pub(crate) struct Outcome {
    pub(crate) scenario: String,
    pub(crate) held_out: bool,
    pub(crate) entry: String,
    pub(crate) healthy: bool,
    pub(crate) expected: String,
    pub(crate) expected_mechanism: String,
    pub(crate) found_mechanism: String,
    pub(crate) chain: Vec<String>,
    pub(crate) symptom: SymptomVerdict,
    pub(crate) verdict: Option<Verdict>,
    pub(crate) fallback: bool,
    pub(crate) probability: Option<f64>,
    /// What tells how probable each named cause is, and whether it is right.
    pub(crate) weighed: Vec<([f64; FEATURES], bool)>,
    pub(crate) mechanism_right: bool,
    pub(crate) root_right: bool,
    /// The first cause is a right root or mechanism.
    pub(crate) holds: bool,
    pub(crate) top3: bool,
    pub(crate) seconds: f64,
    pub(crate) queries: usize,
    pub(crate) diagnosis: Arc<Diagnosis>,
}

impl Outcome {
    /// A likely cause is named; that a deliberate change was deliberate is no story.
    pub(crate) fn confident(&self) -> bool {
        self.verdict == Some(Verdict::Likely) && !self.fallback && !(self.healthy && self.root_right)
    }

    /// The truth was found, or nothing was claimed where nothing was wrong.
    pub(crate) fn right(&self) -> bool {
        if self.healthy { !self.confident() } else { self.mechanism_right && self.root_right }
    }

    /// The best chain in words.
    pub(crate) fn found(&self) -> String {
        match (self.symptom, self.chain.as_slice()) {
            (SymptomVerdict::Absent, _) => "symptom absent".to_owned(),
            (_, []) => "no cause".to_owned(),
            (_, chain) => chain[1.min(chain.len() - 1)..].join(" ← "),
        }
    }
}

/// How the product is handicapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Handicap {
    None,
    NoGpuExporter,
    NoKubernetes,
    NoYesterday,
}

impl Handicap {
    fn library(self, library: &Library) -> Library {
        let mut library = library.clone();
        use knowledge::signal::EngineKind;
        library.engines.retain(|_, engine| match self {
            Self::NoGpuExporter => engine.kind != EngineKind::Gpu,
            Self::NoKubernetes => engine.kind != EngineKind::Platform,
            Self::None | Self::NoYesterday => true,
        });
        library
    }

    fn baseline(self) -> Baseline {
        // Three days ago there was no fleet yet.
        Baseline::Earlier(Duration::from_secs(if self == Self::NoYesterday { 3 } else { 1 } * 86_400))
    }
}

/// Diagnoses every situation from every playbook that its alerts enter.
pub(crate) async fn outcomes(
    library: &Library,
    prometheus: &Prometheus,
    situations: &[Situation],
    handicap: Handicap,
) -> Vec<Outcome> {
    let library = &handicap.library(library);
    let all = situations.iter().flat_map(|s| s.scenario.enter.iter().map(move |entry| (s, entry.as_str())));
    let asked = all.map(|(situation, entry)| async move {
        let request = Request {
            playbook: entry.to_owned(),
            screen: true,
            rules: Vec::new(),
            conditions: Vec::new(),
            scope: Scope::of_labels(&situation.labels()),
            at: Timestamp::from_second(situation.at).unwrap(),
            since: Some(Timestamp::from_second(situation.at - 30).unwrap()),
            window: Duration::from_secs(300),
            is_young: false,
            baseline: handicap.baseline(),
            deadline: Duration::from_secs(20),
        };
        let diagnosis = diagnose(library, prometheus, &request).await;
        assert!(!diagnosis.degraded, "{}: {:?}", situation.scenario.name, diagnosis.problems);
        compare(library, situation, entry, diagnosis)
    });
    stream::iter(asked.collect::<Vec<_>>()).buffered(AT_ONCE).collect().await
}

fn compare(library: &Library, situation: &Situation, entry: &str, diagnosis: Diagnosis) -> Outcome {
    let expect = &situation.scenario.expect;
    let best = diagnosis.root();
    let chain = best.map(|root| root.chain.clone()).unwrap_or_default();
    let mechanism = |id: &str| library.playbooks.get(id).is_some_and(|p| p.kind == PlaybookKind::Mechanism);
    let among = |list: &[String], id: &str| list.iter().any(|one| one == id);
    // Where a scenario names no root, the mechanism is as deep as anybody can tell.
    let roots = if expect.root.is_empty() { &expect.mechanism } else { &expect.root };
    let claims = |verdict: Verdict| verdict >= Verdict::Possible;
    let right = |cause: &findings::CauseFound| claims(cause.verdict) && among(roots, &cause.id);
    // A chain that ends at the mechanism is right as far as it goes.
    let holds = |cause: &findings::CauseFound| right(cause) || among(&expect.mechanism, &cause.id);
    Outcome {
        scenario: situation.scenario.name.clone(),
        held_out: situation.held_out,
        entry: entry.to_owned(),
        healthy: expect.healthy,
        expected: if expect.healthy {
            "healthy".to_owned()
        } else {
            [expect.mechanism.join("/"), expect.root.join("/")]
                .iter()
                .filter(|s| !s.is_empty())
                .cloned()
                .collect::<Vec<_>>()
                .join(" ← ")
        },
        expected_mechanism: if expect.healthy {
            "healthy".to_owned()
        } else {
            expect.mechanism.first().or(expect.root.first()).cloned().unwrap_or_default()
        },
        found_mechanism: match (
            diagnosis.symptom.verdict,
            chain.iter().skip(1).find(|id| mechanism(id)).or(chain.last()),
        ) {
            (SymptomVerdict::Absent, _) => "symptom absent".to_owned(),
            (_, Some(id)) => id.clone(),
            (_, None) => "nothing".to_owned(),
        },
        symptom: diagnosis.symptom.verdict,
        verdict: best.map(|root| root.verdict),
        fallback: best.is_some_and(|root| root.fallback),
        probability: best.map(|root| root.probability),
        weighed: (0..diagnosis.causes.len()).map(|i| (features(&diagnosis, i), holds(&diagnosis.causes[i]))).collect(),
        mechanism_right: if expect.mechanism.is_empty() {
            best.is_some_and(right)
        } else {
            chain.iter().any(|id| among(&expect.mechanism, id))
        },
        root_right: best.is_some_and(right),
        holds: best.is_some_and(holds),
        top3: diagnosis.causes.iter().take(3).any(right),
        seconds: diagnosis.took_seconds,
        queries: diagnosis.queries,
        chain,
        diagnosis: Arc::new(diagnosis),
    }
}

//! Stretches captures into a real Prometheus and asks the product for a diagnosis of each.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;
use diagnose::health::{Triage, places, triage};
use diagnose::{ExtraSources, FEATURES, diagnose, features};
use findings::{Baseline, Diagnosis, Request, Scope, SymptomVerdict, Verdict};
use futures::stream::{self, StreamExt};
use jiff::Timestamp;
use knowledge::alert::Labels;
use knowledge::playbook::{Library, select};
use llm_diagnose_lab::calibration::Weighed;
use llm_diagnose_lab::stack;
use prom::Prometheus;
use serde::Deserialize;

use crate::names::Names;
use crate::recording::Capture;
use crate::stretch::{self, Scrapes};

/// How many diagnoses run at once.
const AT_ONCE: usize = 2;
/// The first fault begins here, in Unix seconds; each case lies two days after the one before it.
const EPOCH: i64 = 1_769_954_400;
const APART: i64 = 2 * 86_400;
/// The age of a young fault, in seconds.
const YOUNG: i64 = 120;
/// Healthy captures that stand beside a case, under other names: three pools, and a gateway of others.
const COMPANY: [&str; 4] = ["vllm.a_healthy", "sglang.sglang_healthy", "dynamo.healthy", "litellm.ll_healthy"];

/// A capture with its truth.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    /// The file's name without its end; the engine stands before the first dot.
    pub(crate) id: String,
    /// What was done to the server.
    pub(crate) what: String,
    /// The alert that would fire.
    pub(crate) alert: String,
    /// The labels of that alert, beside its name.
    pub(crate) labels: Labels,
    /// The root causes that are right; none for a healthy server.
    pub(crate) right: Vec<String>,
    /// Why the metrics cannot tell it, if they cannot: a known gap, which counts as missed and is held as it is.
    #[serde(default)]
    pub(crate) gap: Option<String>,
    /// Its place in the list, from 0.
    #[serde(skip)]
    place: i64,
    /// All cases have one time.
    #[serde(skip)]
    at_once: bool,
    /// Where `data/` is.
    #[serde(skip)]
    directory: PathBuf,
}

impl Case {
    pub(crate) fn engine(&self) -> &str {
        self.id.split('.').next().unwrap_or_default()
    }

    pub(crate) fn is_healthy(&self) -> bool {
        self.right.is_empty()
    }

    fn started(&self) -> i64 {
        if self.at_once { EPOCH - APART } else { EPOCH + self.place * APART }
    }

    /// The judged moment, in Unix seconds.
    pub(crate) fn at(&self) -> i64 {
        self.started() + stretch::FAULT
    }

    /// The last scrapes before the fault, in Unix seconds.
    pub(crate) fn before(&self) -> i64 {
        self.started() - 30
    }

    /// The case as it stands in these histories: when, and with what labels on its alert.
    pub(crate) fn among(&self, histories: Histories) -> Self {
        let Some(place) = histories.place(self) else { return self.clone() };
        let mut labels = self.labels.clone();
        labels.extend(place.into_iter().map(|(name, value)| (name.to_owned(), value)));
        Self { labels, at_once: true, ..self.clone() }
    }

    /// A question about its pool at a moment, compared with the day before; it names no playbook.
    pub(crate) fn request(&self, at: i64) -> Request {
        Request {
            playbook: String::new(),
            screen: true,
            rules: Vec::new(),
            conditions: Vec::new(),
            scope: Scope::of_labels(&self.labels),
            at: Timestamp::from_second(at).unwrap(),
            since: None,
            window: Duration::from_secs(300),
            is_young: false,
            baseline: Baseline::Earlier(Duration::from_secs(86_400)),
            deadline: Duration::from_secs(20),
        }
    }
}

/// Which histories a way needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Histories {
    Alone,
    SlowScrapes,
    InCompany,
    /// All captures at one time, each in a namespace of its own; addresses as they were.
    Together,
    /// All captures at one time, two of them in each namespace: one in each of two clusters.
    TwoClusters,
}

impl Histories {
    pub(crate) const ALL: [Self; 5] =
        [Self::Alone, Self::SlowScrapes, Self::InCompany, Self::Together, Self::TwoClusters];

    /// Where a case stands among the others; `None` if it stands alone.
    fn place(self, case: &Case) -> Option<Vec<(&'static str, String)>> {
        let namespace = |number: i64| ("namespace", format!("team-{number}"));
        match self {
            Self::Alone | Self::SlowScrapes | Self::InCompany => None,
            Self::Together => Some(vec![namespace(case.place)]),
            Self::TwoClusters => {
                let cluster = if case.place % 2 == 0 { "east" } else { "west" };
                Some(vec![("cluster", cluster.to_owned()), namespace(case.place / 2)])
            }
        }
    }
}

/// How a capture is diagnosed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    OwnName,
    UnknownName,
    NoPast,
    Young,
    SlowScrapes,
    InCompany,
    NoAlert,
    Together,
    TwoClusters,
}

impl Way {
    pub(crate) const ALL: [Self; 9] = [
        Self::OwnName,
        Self::UnknownName,
        Self::NoPast,
        Self::Young,
        Self::SlowScrapes,
        Self::InCompany,
        Self::NoAlert,
        Self::Together,
        Self::TwoClusters,
    ];

    pub(crate) fn histories(self) -> Histories {
        match self {
            Self::OwnName | Self::UnknownName | Self::NoPast | Self::Young | Self::NoAlert => Histories::Alone,
            Self::SlowScrapes => Histories::SlowScrapes,
            Self::InCompany => Histories::InCompany,
            Self::Together => Histories::Together,
            Self::TwoClusters => Histories::TwoClusters,
        }
    }

    /// Others stand in the same Prometheus: the answer is to be that of each alone.
    pub(crate) fn is_in_company(self) -> bool {
        matches!(self, Self::InCompany | Self::Together | Self::TwoClusters)
    }

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::OwnName => "the alert's own name",
            Self::UnknownName => "a name that no playbook knows",
            Self::NoPast => "no past",
            Self::Young => "two minutes after the fault began",
            Self::SlowScrapes => "60 s between scrapes",
            Self::InCompany => "beside three pools and a gateway of others",
            Self::NoAlert => "no alert: `diagnose POOL`",
            Self::Together => "all at one time, each in its namespace",
            Self::TwoClusters => "all at one time, in two clusters with equal namespaces",
        }
    }

    /// Whether the case at a place is diagnosed so in every test run: all under both names, without a past and without an
    /// alert, a third with slow scrapes and soon after the fault, a sixth in company.
    pub(crate) fn is_in_every_run(self, place: usize) -> bool {
        match self {
            Self::OwnName | Self::UnknownName | Self::NoPast | Self::NoAlert | Self::Together => true,
            Self::TwoClusters | Self::SlowScrapes | Self::Young => place.is_multiple_of(3),
            Self::InCompany => place % 6 == 1,
        }
    }
}

/// What the product said.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) case: Case,
    pub(crate) way: Way,
    pub(crate) diagnosis: Option<Diagnosis>,
}

impl Answer {
    /// The causes that the best chain names, from the symptom to the root; a symptom only where it is there.
    fn chain(&self) -> Vec<&str> {
        let Some(diagnosis) = &self.diagnosis else { return Vec::new() };
        let confirmed = diagnosis.symptom.verdict == SymptomVerdict::Confirmed;
        let symptom = confirmed.then_some(diagnosis.symptom.playbook.as_str());
        let links = diagnosis.root().into_iter().flat_map(|root| &root.chain).map(String::as_str);
        symptom.into_iter().chain(links).collect()
    }

    /// The root that is named.
    pub(crate) fn root(&self) -> Option<&str> {
        self.diagnosis.as_ref()?.root().map(|root| root.id.as_str())
    }

    /// Each cause's features, and whether its chain names a right one.
    pub(crate) fn weighed(&self) -> Vec<Weighed<FEATURES>> {
        let Some(diagnosis) = self.diagnosis.as_ref().filter(|_| !self.case.is_healthy()) else { return Vec::new() };
        let is_right = |link: &String| self.case.right.contains(link);
        let causes = diagnosis.causes.iter().enumerate();
        causes.map(|(place, cause)| (features(diagnosis, place), cause.chain.iter().any(is_right))).collect()
    }

    /// A cause is likely.
    pub(crate) fn is_confident(&self) -> bool {
        let root = self.diagnosis.as_ref().and_then(Diagnosis::root);
        root.is_some_and(|root| root.verdict == Verdict::Likely && !root.fallback)
    }

    pub(crate) fn is_right(&self) -> bool {
        match self.case.is_healthy() {
            true => !self.is_confident(),
            false => self.chain().iter().any(|link| self.case.right.iter().any(|right| right == link)),
        }
    }

    /// Neither a symptom nor a cause is told.
    pub(crate) fn is_quiet(&self) -> bool {
        let there = |diagnosis: &Diagnosis| diagnosis.symptom.verdict == SymptomVerdict::Confirmed;
        self.root().is_none() && !self.diagnosis.as_ref().is_some_and(there)
    }

    pub(crate) fn is_confidently_wrong(&self) -> bool {
        self.is_confident() && !self.is_right()
    }
}

/// The captures of the project.
pub(crate) fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/captures")
}

pub(crate) fn capture(directory: &Path, id: &str, names: Option<&Names>) -> anyhow::Result<Capture> {
    Capture::read(&directory.join("data").join(format!("{id}.om.gz")), names)
}

/// All cases of a directory, in the order of its `cases.yaml`.
pub(crate) fn cases(directory: &Path) -> anyhow::Result<Vec<Case>> {
    #[derive(Deserialize)]
    struct File {
        cases: Vec<Case>,
    }
    let path = directory.join("cases.yaml");
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let file: File = serde_saphyr::from_str(&text).with_context(|| format!("in {}", path.display()))?;
    let placed = |(case, place)| Case { place, directory: directory.to_owned(), ..case };
    Ok(file.cases.into_iter().zip(0..).map(placed).collect())
}

/// A Prometheus with the history of these cases: all their series, or only those of these names.
pub(crate) async fn serve(
    cases: &[Case],
    histories: Histories,
    names: Option<&Names>,
) -> anyhow::Result<stack::Prometheus> {
    let scratch = tempfile::tempdir()?;
    let mut company = Vec::new();
    if histories == Histories::InCompany {
        for id in COMPANY {
            company.push(capture(&directory(), id, names)?.renamed("others-"));
        }
    }
    let step = if histories == Histories::SlowScrapes { 60 } else { 15 };
    let write = |case: &Case| -> anyhow::Result<PathBuf> {
        let when = Scrapes { started: case.started(), step };
        let mut text = String::new();
        let mut capture_of_case = capture(&case.directory, &case.id, names)?;
        if let Some(place) = histories.place(case) {
            let place: Vec<(&str, &str)> = place.iter().map(|(name, value)| (*name, value.as_str())).collect();
            capture_of_case = capture_of_case.placed(&place);
        }
        stretch::incident(&capture_of_case, when, &mut text);
        for others in &company {
            stretch::neighbour(others, when, &mut text);
        }
        text.push_str("# EOF\n");
        let file = scratch.path().join(format!("{}.om", case.id));
        std::fs::write(&file, text)?;
        Ok(file)
    };
    let files: Vec<PathBuf> = std::thread::scope(|scope| {
        let write = &write;
        let parts = cases.chunks(cases.len().div_ceil(AT_ONCE).max(1));
        let threads: Vec<_> =
            parts.map(|part| scope.spawn(move || part.iter().map(write).collect::<Vec<_>>())).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<anyhow::Result<_>>()
    })?;
    let builder = files.into_iter().fold(stack::Prometheus::builder(), stack::PrometheusBuilder::backfill);
    builder.start().await
}

/// Diagnoses every case in one way.
pub(crate) async fn answers(library: &Library, prometheus: &Prometheus, cases: &[Case], way: Way) -> Vec<Answer> {
    let asked = cases.iter().map(|case| async move {
        let diagnosis = ask(library, prometheus, case, way).await;
        Answer { case: case.clone(), way, diagnosis }
    });
    stream::iter(asked.collect::<Vec<_>>()).buffered(AT_ONCE).collect().await
}

async fn ask(library: &Library, prometheus: &Prometheus, case: &Case, way: Way) -> Option<Diagnosis> {
    let name = if way == Way::UnknownName { "CheckoutSLOBurn" } else { case.alert.as_str() };
    let mut labels = case.labels.clone();
    labels.insert("alertname".to_owned(), name.to_owned());
    let alert = knowledge::alert::Alert {
        labels,
        ..serde_json::from_value(serde_json::json!({
            "status": "firing", "labels": {}, "annotations": {}, "startsAt": "2026-01-01T00:00:00Z",
        }))
        .unwrap()
    };
    let playbook = select(library, &[alert]).map(|selection| selection.playbook).unwrap_or_default();
    let at = if way == Way::Young { case.at() - stretch::FAULT + YOUNG } else { case.at() };
    let asked = case.request(at);
    let request = Request {
        playbook,
        since: Some(Timestamp::from_second(at - 60).unwrap()),
        baseline: if way == Way::NoPast { Baseline::Off } else { asked.baseline },
        ..asked
    };
    let diagnosis = match way {
        Way::NoAlert => {
            let places = places(library, prometheus, request.at, Instant::now() + request.deadline).await.unwrap();
            // Of a gateway with several models the alert's labels say which gateway is meant.
            let scope = if let [place] = places.0.as_slice() { place.scope(None) } else { request.scope.clone() };
            let request = Request { playbook: String::new(), since: None, scope, ..request };
            match triage(library, (prometheus, &BTreeMap::new()), &request, ExtraSources::default()).await {
                Triage::Found(diagnosis) => *diagnosis,
                Triage::Quiet(_) => return None,
            }
        }
        _ => diagnose(library, prometheus, &request).await,
    };
    assert!(!diagnosis.degraded, "{}: {:?}", case.id, diagnosis.problems);
    Some(diagnosis)
}

/// How many of each kind there are, by engine.
pub(crate) fn by_engine(answers: &[&Answer]) -> BTreeMap<String, (usize, usize)> {
    let mut out: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for answer in answers.iter().filter(|answer| !answer.case.is_healthy()) {
        let (right, all) = out.entry(answer.case.engine().to_owned()).or_default();
        *right += usize::from(answer.is_right());
        *all += 1;
    }
    out
}

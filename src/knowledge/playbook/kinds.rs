//! `kinds.yaml`: kinds of pools, how data tells them, and the limits that they move.
//!
//! A pool that writes long answers, reads long prompts or works through a batch is slow on purpose. Its kinds are inferred
//! from its data, or declared under `pools:` of the configuration. A pool of a kind has its own library.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use schemars::JsonSchema;
use serde::Deserialize;

use super::{Comparison, Condition, Evidence, Library, Op, Reference, suggestion};

/// The labels that identify a pool, as under `slo:`.
const POOL: [&str; 3] = ["cluster", "namespace", "model"];
/// The multiple of its own past from which a value is more than what such a pool shows as ever.
const BEYOND_ITS_PAST: f64 = 2.0;

/// The shape of `kinds.yaml`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PoolKinds {
    /// The format's version: 1.
    pub schema: u32,
    /// The kinds, each with a name of its own.
    pub kinds: Vec<PoolKind>,
}

/// One kind of pool.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PoolKind {
    /// The name, as under `pools:`.
    pub kind: String,
    /// A clause about the pool: `writes long answers`.
    pub title: String,
    /// The evidence for it in the pool's data: all of it holds.
    pub when: Vec<Evidence>,
    /// The factors by which the limits of signals grow; a limit that is promised under `slo:` stays.
    #[serde(default)]
    pub factors: BTreeMap<String, f64>,
    /// The playbooks whose limits are no harm here: only a value far beyond the pool's own past counts, and no alert rule.
    #[serde(default)]
    pub by_past: Vec<String>,
}

/// One entry of `pools:`.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeclaredPool {
    /// `cluster`, `namespace`, `model` of the pools.
    pub labels: BTreeMap<String, String>,
    /// Their kind, instead of what their data tells.
    pub kind: String,
}

impl PoolKinds {
    /// Returns the kinds whose pools have limits of their own.
    pub fn moving(&self) -> impl Iterator<Item = &PoolKind> {
        self.kinds.iter().filter(|kind| kind.moves_limits())
    }
}

impl PoolKind {
    /// Returns true if limits differ for its pools.
    pub fn moves_limits(&self) -> bool {
        !self.factors.is_empty() || !self.by_past.is_empty()
    }
}

impl DeclaredPool {
    /// Checks that its labels identify pools, and that it is a known kind.
    pub(super) fn validate(&self, kinds: &PoolKinds) -> Result<(), String> {
        if self.labels.is_empty() {
            return Err(format!("`labels` is empty: expected some of {}", POOL.join(", ")));
        }
        if let Some(unknown) = self.labels.keys().find(|name| !POOL.contains(&name.as_str())) {
            return Err(format!("`labels` has no `{unknown}`: expected some of {}", POOL.join(", ")));
        }
        let names = || kinds.kinds.iter().map(|kind| kind.kind.as_str());
        if names().any(|name| name == self.kind) {
            return Ok(());
        }
        let known: Vec<&str> = names().collect();
        let hint = suggestion(&self.kind, names()).unwrap_or_default();
        Err(format!("there is no kind `{}`: expected one of {} {hint}", self.kind, known.join(", "))
            .trim_end()
            .to_owned())
    }
}

/// The libraries for pools of each kind, made at the first use.
#[derive(Default)]
pub(super) struct KindLibraries(Vec<OnceLock<Box<Library>>>);

impl Clone for KindLibraries {
    /// A changed library makes its own.
    fn clone(&self) -> Self {
        Self(self.0.iter().map(|_| OnceLock::new()).collect())
    }
}

impl std::fmt::Debug for KindLibraries {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "KindLibraries({})", self.0.len())
    }
}

impl Library {
    /// Returns the kind that the configuration declares for a pool: the entry with the most labels.
    pub fn declared_kind(&self, pool: &BTreeMap<String, String>) -> Option<&str> {
        let own = if self.slo.is_some() { self } else { self.for_pool(pool) };
        own.slo.as_ref()?.kind.as_deref()
    }

    /// Returns the library for a pool of these kinds, by their places in `kinds.yaml`; itself if they move no limit, or if it
    /// is a library of kinds already.
    pub fn of_kinds(&self, kinds: &[usize]) -> &Self {
        let moving = |place: &&usize| self.kinds.kinds.get(**place).is_some_and(PoolKind::moves_limits);
        let start = if self.is_of_kinds { &[] } else { kinds };
        start.iter().filter(moving).fold(self, |library, place| match library.of_kind.0.get(*place) {
            Some(made) => made.get_or_init(|| Box::new(library.moved_by(*place))),
            None => library,
        })
    }

    /// Makes room for the libraries of all kinds.
    pub(super) fn expect_kinds(&mut self) {
        self.of_kind = KindLibraries(self.kinds.kinds.iter().map(|_| OnceLock::new()).collect());
    }

    /// Builds the library for pools of one more kind.
    fn moved_by(&self, place: usize) -> Self {
        let mut library = self.clone();
        library.is_of_kinds = true;
        library.promised.clear();
        if let Some(kind) = self.kinds.kinds.get(place) {
            library.grow(&kind.factors);
            // What is promised is judged by the promise.
            let meant = |id: &String| kind.by_past.contains(id) && self.promise_of(id).is_none();
            let meant = library.playbooks.values_mut().filter(|playbook| meant(&playbook.playbook));
            for playbook in meant {
                playbook.alerts.clear();
                playbook.symptom.iter_mut().for_each(beyond_its_past);
            }
        }
        library
    }
}

/// Lets a check that compares with numbers only hold no more unless the value is far beyond its own past.
fn beyond_its_past(evidence: &mut Evidence) {
    evidence.any.iter_mut().for_each(beyond_its_past);
    let Some(Condition::All(list)) = evidence.when.as_mut().filter(|_| !evidence.without_past) else { return };
    let is_past = |c: &Comparison| matches!(c.to, Reference::Baseline(_) | Reference::Peers(_));
    if !list.iter().any(is_past) {
        let factor = |op| if matches!(op, Op::Above | Op::AtLeast) { BEYOND_ITS_PAST } else { 1.0 / BEYOND_ITS_PAST };
        let beyond = list.first().map(|c| Comparison { op: c.op, to: Reference::Baseline(factor(c.op)) });
        list.splice(0..0, beyond);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::playbook::{Slo, SourceFile, load, parse};

    fn pools(text: &str) -> Vec<DeclaredPool> {
        parse(&SourceFile::new("pools".to_owned(), text.to_owned())).unwrap()
    }

    fn place(library: &Library, kind: &str) -> usize {
        library.kinds.kinds.iter().position(|own| own.kind == kind).unwrap()
    }

    fn limit(library: &Library, playbook: &str, signal: &str) -> String {
        library.playbooks[playbook].threshold(signal).map(ToString::to_string).unwrap_or_default()
    }

    fn in_namespace(namespace: &str) -> BTreeMap<String, String> {
        BTreeMap::from([("namespace".to_owned(), namespace.to_owned())])
    }

    #[test]
    fn long_prompts_and_answers_raise_the_limits_of_what_they_prolong_alone() {
        let library = load(None).unwrap();
        let both = library.of_kinds(&[place(&library, "long reasoning"), place(&library, "very long context")]);
        assert_eq!(limit(both, "high-ttft", "ttft_p99"), "> 30");
        assert_eq!(limit(both, "high-itl", "itl_p99"), limit(&library, "high-itl", "itl_p99"));
        let burn = |library: &Library, signal: &str| library.signals[signal].burn.as_ref().unwrap().limit.unwrap();
        assert_eq!((burn(both, "ttft_burn"), burn(both, "e2e_burn")), (30.0, 1_800.0));
        let query = |library: &Library| library.engines["vllm"].signals["ttft_burn"].query.clone().unwrap();
        assert_ne!(query(both), query(&library));
        assert!(std::ptr::eq(library.of_kinds(&[place(&library, "chat")]), &library), "chat is what limits are for");
        assert!(std::ptr::eq(both.of_kinds(&[place(&library, "long context")]), both), "once");
    }

    #[test]
    fn the_queue_of_a_batch_is_judged_by_its_past_and_pages_nobody() {
        let mut library = load(None).unwrap();
        library.promise(&[], &pools("- { labels: { namespace: batch }, kind: batch }")).unwrap();
        let own = library.for_pool(&in_namespace("batch"));
        let queue = &own.playbooks["queue-buildup"];
        assert!(queue.alerts.is_empty() && !library.playbooks["queue-buildup"].alerts.is_empty());
        let checks = queue.symptom.iter().flat_map(Evidence::alternatives);
        assert!(checks.into_iter().all(|(_, when, without_past)| when.needs_baseline() || without_past), "{queue:?}");
        assert_eq!(own.declared_kind(&in_namespace("batch")), Some("batch"));
        assert_eq!(library.declared_kind(&in_namespace("batch")), Some("batch"));
        assert_eq!(library.declared_kind(&in_namespace("chat")), None);
    }

    #[test]
    fn what_is_promised_stays_whatever_the_kind() {
        let mut library = load(None).unwrap();
        let slo = "{ pools: { namespace: docs }, ttft: { share: 0.99, within: 1s } }";
        let slo = parse(&SourceFile::new("slo".to_owned(), slo.to_owned())).unwrap();
        let slo: Vec<Slo> = vec![slo];
        library.promise(&slo, &pools("- { labels: { namespace: docs }, kind: batch }")).unwrap();
        let batch = library.for_pool(&in_namespace("docs"));
        assert!(!batch.playbooks["high-ttft"].alerts.is_empty() && batch.playbooks["queue-buildup"].alerts.is_empty());
        library.promise(&slo, &pools("- { labels: { namespace: docs }, kind: long context }")).unwrap();
        let own = library.for_pool(&in_namespace("docs"));
        assert_eq!(limit(own, "high-ttft", "ttft_p99"), "> 1");
        assert_eq!(limit(own, "high-e2e-latency", "e2e_p99"), "> 60");
        assert!(library.promised[0].is_moved("e2e_burn") && !library.promised[0].is_moved("itl_burn"));
    }

    #[test]
    fn a_declared_kind_that_nobody_knows_is_refused_with_the_nearest() {
        let error = |text: &str| load(None).unwrap().promise(&[], &pools(text)).unwrap_err();
        let said = error("- { labels: { namespace: a }, kind: batsh }");
        assert!(said.starts_with("`pools:` entry 1: there is no kind `batsh`: expected one of asleep, "), "{said}");
        assert!(said.ends_with("did you mean `batch`?"), "{said}");
        assert!(error("- { labels: { pod: a }, kind: batch }").contains("`labels` has no `pod`"));
        assert!(error("- { labels: {}, kind: batch }").contains("`labels` is empty"));
    }
}

//! Service level objectives of pools, the key `slo:`: they set the limits of burn rates and of conditions on them.
//!
//! A pool with its own objectives has its own library (`promised_library.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AlertRule, Evidence, Library};
use crate::clock::duration;
use crate::signal::Term;

/// The smallest error budget that an objective may have; below it, no fleet has enough requests.
const TIGHTEST: f64 = 1e-6;
/// The largest error budget that an objective may have; above it, limits of shares have no room.
const LOOSEST: f64 = 0.2;
/// The labels that identify a pool.
const POOL: [&str; 3] = ["cluster", "namespace", "model"];

/// One entry of `slo:`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Slo {
    /// `cluster`, `namespace`, `model` of the pools that it applies to; all pools if empty. Of two entries for the same
    /// pool one must have all labels of the other and more: it is the exception and inherits what it does not set.
    pub pools: BTreeMap<String, String>,
    /// The time to the first token.
    pub ttft: Option<LatencyObjective>,
    /// The time between two tokens.
    pub inter_token: Option<LatencyObjective>,
    /// The time of a whole request.
    pub request: Option<LatencyObjective>,
    /// The share of requests that may fail, 0..1.
    pub errors: Option<f64>,
    /// The kind of these pools, if `pools:` declares it.
    #[serde(skip)]
    pub kind: Option<String>,
}

/// The share of requests that must finish within a time.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LatencyObjective {
    /// The share, 0..1.
    pub share: f64,
    /// The maximum time.
    #[serde(deserialize_with = "duration")]
    #[schemars(with = "String")]
    pub within: Duration,
}

/// An objective of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Promise {
    /// The indicator.
    pub term: Term,
    /// The share of requests that must meet the objective, 0..1.
    pub share: f64,
    /// For a latency: the maximum seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within_seconds: Option<f64>,
}

impl Promise {
    /// Returns the objective as a text, such as `99 % of first tokens within 1 s`. It is a label of recorded series: in
    /// other words, an error budget begins anew.
    pub fn text(&self) -> String {
        let whom = match self.term {
            Term::Ttft => "first tokens",
            Term::InterToken => "tokens",
            Term::Request => "requests",
            Term::Errors => "requests without a server error",
        };
        // Not rounded: 99.95 % is not 100 %.
        let share = (self.share * 1e6).round() / 1e4;
        let within = self.within_seconds.map(|seconds| match seconds {
            s if s < 1.0 => format!(" within {} ms", (s * 1e6).round() / 1e3),
            s => format!(" within {s} s"),
        });
        format!("{share} % of {whom}{}", within.unwrap_or_default())
    }

    /// Returns the share of requests that may miss the objective, 0..1.
    pub fn allowed(&self) -> f64 {
        // Without the rounding 1 - 0.999 is 0.0010000000000000009.
        ((1.0 - self.share) * 1e9).round() / 1e9
    }
}

/// Pools with their own objectives, and the library for them.
#[derive(Debug, Clone)]
pub struct PoolObjectives {
    /// The objectives.
    pub slo: Slo,
    /// The library with the limits of these objectives.
    pub library: Box<Library>,
    /// The burn rates whose limit is set by the objectives, or by the pools' kind.
    pub(super) moved: BTreeSet<String>,
}

impl PoolObjectives {
    /// Returns true if its limit of a burn rate differs from the default.
    pub fn is_moved(&self, signal: &str) -> bool {
        self.moved.contains(signal)
    }

    /// Returns true if the playbook's alert at this index is none for these pools: what it is about is as ever there.
    pub fn is_silent(&self, playbook: &str, place: usize) -> bool {
        self.library.playbooks.get(playbook).is_none_or(|own| own.alerts.get(place).is_none())
    }

    /// Returns its own version of the alert at this index of the playbook, if its numbers differ from the default.
    pub fn changed(&self, playbook: &str, place: usize, alert: &AlertRule) -> Option<&AlertRule> {
        let own = self.library.playbooks.get(playbook)?.alerts.get(place)?;
        let mut checks = own.when.iter().flat_map(Evidence::checks);
        (own != alert || checks.any(|(signal, _)| self.is_moved(signal))).then_some(own)
    }
}

impl Slo {
    /// Returns the objective for an indicator; `None` if it is not set.
    pub fn promise(&self, term: Term) -> Option<Promise> {
        let timed = |within: &LatencyObjective| Promise {
            term,
            share: within.share,
            within_seconds: Some(within.within.as_secs_f64()),
        };
        match term {
            Term::Ttft => self.ttft.as_ref().map(timed),
            Term::InterToken => self.inter_token.as_ref().map(timed),
            Term::Request => self.request.as_ref().map(timed),
            Term::Errors => self.errors.map(|errors| Promise { term, share: 1.0 - errors, within_seconds: None }),
        }
    }

    /// Returns true if it sets an objective, not a kind alone.
    pub fn promises_something(&self) -> bool {
        [&self.ttft, &self.inter_token, &self.request].iter().any(|within| within.is_some()) || self.errors.is_some()
    }

    /// Returns true if it applies to a pool.
    pub(super) fn fits(&self, pool: &BTreeMap<String, String>) -> bool {
        self.pools.iter().all(|(name, value)| pool.get(name) == Some(value))
    }

    /// Returns true if it applies to a subset of the other's pools, so that it takes precedence for them.
    pub fn is_exception_of(&self, other: &Self) -> bool {
        self.pools.len() > other.pools.len() && other.fits(&self.pools)
    }

    /// Returns its objectives, completed by those of the other.
    pub(super) fn or(self, other: &Self) -> Self {
        Self {
            pools: self.pools,
            ttft: self.ttft.or(other.ttft),
            inter_token: self.inter_token.or(other.inter_token),
            request: self.request.or(other.request),
            errors: self.errors.or(other.errors),
            kind: self.kind.or_else(|| other.kind.clone()),
        }
    }

    /// Returns true if one pool may match both.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        self.pools.iter().all(|(name, value)| other.pools.get(name).is_none_or(|own| own == value))
    }

    /// Checks the values of the entry.
    ///
    /// # Errors
    /// The invalid key, with the reason.
    pub fn validate(&self) -> Result<(), String> {
        if let Some(unknown) = self.pools.keys().find(|name| !POOL.contains(&name.as_str())) {
            return Err(format!("`pools` has no `{unknown}`: expected one of {}", POOL.join(", ")));
        }
        let timed = [("ttft", &self.ttft), ("inter_token", &self.inter_token), ("request", &self.request)];
        for (key, within) in timed.iter().filter_map(|(key, within)| Some((key, within.as_ref()?))) {
            if !(within.share >= 1.0 - LOOSEST && within.share < 1.0) {
                let least = 1.0 - LOOSEST;
                return Err(format!(
                    "`{key}.share: {}` is no share from {least} to below 1, such as 0.99",
                    within.share
                ));
            }
            if within.within.is_zero() {
                return Err(format!("`{key}.within` is no time: write it like 2s or 80ms"));
            }
        }
        match self.errors {
            Some(errors) if !(TIGHTEST..=LOOSEST).contains(&errors) => {
                Err(format!("`errors: {errors}` is no share from {TIGHTEST} up to {LOOSEST}, such as 0.01"))
            }
            None if self.kind.is_none() && !self.promises_something() => {
                Err("it promises nothing: expected one of `ttft`, `inter_token`, `request`, `errors`".to_owned())
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::promised_library::{MOST, share};
    use super::*;
    use crate::playbook::{SourceFile, load, parse};

    fn slo(text: &str) -> Slo {
        parse(&SourceFile::new("slo".to_owned(), text.to_owned())).unwrap()
    }

    fn pool(namespace: &str) -> BTreeMap<String, String> {
        BTreeMap::from([("namespace".to_owned(), namespace.to_owned())])
    }

    #[test]
    fn a_promise_moves_the_limits_of_its_pools_and_of_no_other() {
        let mut library = load(None).unwrap();
        let chat = "pools: { namespace: chat }\nttft: { share: 0.95, within: 1s }\nerrors: 0.001";
        library.promise(&[slo(chat)], &[]).unwrap();
        let own = library.for_pool(&pool("chat"));
        let number = |library: &Library, playbook: &str, signal: &str| {
            library.playbooks[playbook].threshold(signal).map(ToString::to_string)
        };
        assert_eq!(number(&library, "high-ttft", "ttft_p99").as_deref(), Some("> 2"));
        assert_eq!(number(own, "high-error-rate", "error_ratio").as_deref(), Some("> 0.001"));
        assert_eq!(number(own, "high-itl", "itl_p99"), number(&library, "high-itl", "itl_p99"));
        let query = |library: &Library| library.engines["vllm"].signals["ttft_burn"].query.clone().unwrap();
        assert_ne!(query(own), query(&library));
        let critical = |library: &Library| library.playbooks["high-ttft"].alerts[0].when[0].when.clone().unwrap();
        // Five times as many may be slow; a page never waits for more than 30 % of slow requests.
        assert_eq!(critical(&library).to_string(), "> 0.144");
        assert_eq!(critical(own).to_string(), "> 0.3");
        assert_eq!(own.playbooks["high-ttft"].alerts[1].when[0].when.clone().unwrap().to_string(), "> 0.125");
        // With 5 % slow requests allowed the 99th percentile has no meaning; the minimum of the jump moves with the
        // time.
        let symptom: Vec<String> = own.playbooks["high-ttft"].symptom[0]
            .checks()
            .iter()
            .map(|(signal, when)| format!("{signal} {when}"))
            .filter(|check| check.starts_with("ttft_"))
            .collect();
        assert_eq!(symptom, ["ttft_burn > 0.05", "ttft_p99 > 2x baseline and > 0.25"]);
        assert!(std::ptr::eq(library.for_pool(&pool("other")), &library));
        let promise = own.promise_of("high-ttft").unwrap();
        assert_eq!((promise.term, promise.share, promise.within_seconds), (Term::Ttft, 0.95, Some(1.0)));
        assert_eq!(library.promise_of("high-ttft"), None);
    }

    #[test]
    fn a_loose_promise_warns_before_it_pages_and_not_while_it_is_kept() {
        for budget in [0.001, 0.01, 0.02, 0.05, 0.1, 0.2] {
            for (warning, critical) in [(0.06, 0.144), (0.01, 0.05)] {
                let (low, high) = (share(warning, budget, critical), share(critical, budget, critical));
                assert!(budget <= low + 1e-9 && low < 0.7 * high && high <= MOST, "{budget}: {low}, {high}");
            }
        }
    }

    #[test]
    fn every_alert_that_a_promise_judges_by_other_numbers_is_known() {
        let mut library = load(None).unwrap();
        library.promise(&[slo("pools: { namespace: chat }\nttft: { share: 0.99, within: 1s }")], &[]).unwrap();
        let promised = &library.promised[0];
        let alerts = library.playbooks.values().flat_map(|own| own.alerts.iter().enumerate().map(move |at| (own, at)));
        let changed: Vec<&str> = alerts
            .filter(|(own, (place, alert))| promised.changed(&own.playbook, *place, alert).is_some())
            .map(|(_, (_, alert))| alert.alert.as_str())
            .collect();
        let reads = |alert: &AlertRule| {
            alert.when.iter().flat_map(Evidence::checks).any(|(signal, _)| ["ttft_p99", "ttft_burn"].contains(&signal))
        };
        let alerts = library.playbooks.values().flat_map(|own| &own.alerts);
        let expected: Vec<&str> = alerts.filter(|alert| reads(alert)).map(|alert| alert.alert.as_str()).collect();
        assert_eq!(changed, expected);
        assert!(expected.contains(&"LLMPrefixCacheHitRateLow"), "{expected:?}");
    }

    #[test]
    fn an_exception_decides_for_its_pools_and_takes_the_rest_from_the_entry_that_it_excepts() {
        let mut library = load(None).unwrap();
        let general = slo("ttft: { share: 0.99, within: 1s }\nerrors: 0.001");
        let own = slo("pools: { namespace: chat }\nttft: { share: 0.95, within: 5s }");
        let finer = slo("pools: { namespace: chat, model: m }\ninter_token: { share: 0.99, within: 80ms }");
        library.promise(&[finer, general, own], &[]).unwrap();
        let ttft = |library: &Library| library.promise_of("high-ttft").unwrap().within_seconds.unwrap();
        let errors = |library: &Library| library.promise_of("high-error-rate").unwrap().share;
        let of = |namespace: &str, model: &str| {
            let mut pool = pool(namespace);
            pool.insert("model".to_owned(), model.to_owned());
            let own = library.for_pool(&pool);
            (ttft(own), errors(own), own.promise_of("high-itl").is_some())
        };
        assert_eq!(of("other", "m"), (1.0, 0.999, false));
        assert_eq!(of("chat", "other"), (5.0, 0.999, false));
        assert_eq!(of("chat", "m"), (5.0, 0.999, true));
    }

    #[test]
    fn no_pool_has_two_promises_of_which_none_is_the_exception() {
        let promise = |pools: [&str; 2]| {
            let slos = pools.map(|pools| slo(&format!("pools: {{ {pools} }}\nerrors: 0.02")));
            load(None).unwrap().promise(&slos, &[])
        };
        let error = promise(["namespace: chat", "model: m"]).unwrap_err();
        let said = "`slo:` or `pools:`, the entries of { namespace: chat } and { model: m }: one pool may be in both";
        assert!(error.starts_with(said), "{error}");
        assert!(promise(["namespace: chat", "namespace: chat"]).is_err());
        assert_eq!(promise(["namespace: chat, model: a", "namespace: chat"]), Ok(()));
        assert_eq!(promise(["namespace: chat, model: a", "namespace: chat, model: b"]), Ok(()));
    }

    #[test]
    fn a_wrong_promise_says_what_was_expected() {
        let error = |text: &str| load(None).unwrap().promise(&[slo(text)], &[]).unwrap_err();
        assert_eq!(
            error("pools: { pod: a }"),
            "`slo:` entry 1: `pools` has no `pod`: expected one of cluster, namespace, model"
        );
        assert!(error("ttft: { share: 99, within: 2s }").contains("`ttft.share: 99` is no share"));
        assert!(error("ttft: { share: 0.9, within: 0s }").contains("`ttft.within` is no time"));
        assert!(error("errors: 1").contains("`errors: 1` is no share"));
        assert!(error("{}").contains("it promises nothing"));
    }
}

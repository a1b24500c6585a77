//! What is promised of pools, the key `slo:`: it sets the limits of burn rates and of the conditions that tell a breach.
//!
//! The shipped data holds for the defaults of the catalog: a limit, and [`BUDGET`] of the requests that may miss it. A pool
//! with a promise of its own has a library of its own, in which both are moved.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AlertRule, Comparison, Condition, Evidence, Library, Reference, Step};
use crate::clock::duration;
use crate::signal::{Burn, SignalQuery, Term, Unit};

/// The share of requests that may break a promise where nothing else is promised.
const BUDGET: f64 = 0.01;
/// A share above which a promise is broken whatever it allows.
const MOST: f64 = 0.5;
/// The labels that tell a pool.
const POOL: [&str; 3] = ["cluster", "namespace", "model"];

/// One entry of `slo:`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Slo {
    /// `cluster`, `namespace`, `model` of the pools it is about; the first entry that fits a pool counts.
    pub pools: BTreeMap<String, String>,
    /// The time to the first token.
    pub ttft: Option<Within>,
    /// The time between two tokens.
    pub inter_token: Option<Within>,
    /// The time of a whole request.
    pub request: Option<Within>,
    /// The share of requests that may fail, 0..1.
    pub errors: Option<f64>,
}

/// A share of the requests, and the time that they take at most.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Within {
    /// The share, 0..1.
    pub share: f64,
    /// The time.
    #[serde(deserialize_with = "duration")]
    #[schemars(with = "String")]
    pub within: Duration,
}

/// What is promised of a pool about one thing.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Promise {
    /// About what.
    pub term: Term,
    /// The share of the requests that keep it, 0..1.
    pub share: f64,
    /// Of a latency: the seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within_seconds: Option<f64>,
}

/// Pools with a promise of their own, and the library that judges them.
#[derive(Debug, Clone)]
pub struct Promised {
    /// What is promised.
    pub slo: Slo,
    /// The same library with the limits of that promise.
    pub library: Box<Library>,
}

impl Promised {
    /// Whether its limit of a burn rate is another one than everybody's.
    pub fn is_moved(&self, signal: &str) -> bool {
        let burn = self.library.signals.get(signal).and_then(|signal| signal.burn.as_ref());
        burn.is_some_and(|burn| burn.limit.is_some() && burn.term.is_some_and(|term| self.slo.promise(term).is_some()))
    }

    /// Whether it judges an alert by other numbers than everybody's.
    pub fn changes(&self, alert: &AlertRule) -> bool {
        let terms = |signal: &str| self.library.signals.get(signal)?.burn.as_ref()?.term;
        let mut checks = alert.when.iter().flat_map(Evidence::checks);
        checks.any(|(signal, _)| terms(signal).is_some_and(|term| self.slo.promise(term).is_some()))
    }
}

impl Slo {
    /// What is promised about a term.
    pub fn promise(&self, term: Term) -> Option<Promise> {
        let timed =
            |within: &Within| Promise { term, share: within.share, within_seconds: Some(within.within.as_secs_f64()) };
        match term {
            Term::Ttft => self.ttft.as_ref().map(timed),
            Term::InterToken => self.inter_token.as_ref().map(timed),
            Term::Request => self.request.as_ref().map(timed),
            Term::Errors => self.errors.map(|errors| Promise { term, share: 1.0 - errors, within_seconds: None }),
        }
    }

    /// Whether it is about a pool.
    fn fits(&self, pool: &BTreeMap<String, String>) -> bool {
        self.pools.iter().all(|(name, value)| pool.get(name) == Some(value))
    }

    /// # Errors
    /// What is wrong, with the key.
    pub fn validate(&self) -> Result<(), String> {
        if let Some(unknown) = self.pools.keys().find(|name| !POOL.contains(&name.as_str())) {
            return Err(format!("`pools` has no `{unknown}`: expected one of {}", POOL.join(", ")));
        }
        let timed = [("ttft", &self.ttft), ("inter_token", &self.inter_token), ("request", &self.request)];
        for (key, within) in timed.iter().filter_map(|(key, within)| Some((key, within.as_ref()?))) {
            if !(within.share > 0.0 && within.share < 1.0) {
                return Err(format!("`{key}.share: {}` is no share between 0 and 1, such as 0.99", within.share));
            }
            if within.within.is_zero() {
                return Err(format!("`{key}.within` is no time: write it like 2s or 80ms"));
            }
        }
        match self.errors {
            Some(errors) if !(errors > 0.0 && errors < 1.0) => {
                Err(format!("`errors: {errors}` is no share between 0 and 1, such as 0.01"))
            }
            None if timed.iter().all(|(_, within)| within.is_none()) => {
                Err("it promises nothing: expected one of `ttft`, `inter_token`, `request`, `errors`".to_owned())
            }
            _ => Ok(()),
        }
    }
}

impl Library {
    /// Makes every engine tell the burn rates of what it tells.
    pub(super) fn derive_burns(&mut self) {
        let burns: Vec<(String, Burn)> =
            self.signals.iter().filter_map(|(name, signal)| Some((name.clone(), signal.burn.clone()?))).collect();
        for engine in self.engines.values_mut() {
            for (name, burn) in &burns {
                let Some(of) = engine.signals.get(&burn.of).cloned() else { continue };
                let query = of.query.as_deref().and_then(|query| burn.query(query));
                let why = "it tells quantiles and no counts, of which shares could be made".to_owned();
                let unsupported = query.is_none().then(|| of.unsupported.clone().unwrap_or(why));
                let derived = SignalQuery { query, unsupported, direct: None, since: None, ..of };
                engine.signals.insert(name.clone(), derived);
            }
        }
    }

    /// Takes what is promised of pools.
    ///
    /// # Errors
    /// The first entry that cannot be, with its number.
    pub fn promise(&mut self, slos: &[Slo]) -> Result<(), String> {
        self.promised.clear();
        let mut promised = Vec::new();
        for (i, slo) in slos.iter().enumerate() {
            slo.validate().map_err(|error| format!("`slo:` entry {}: {error}", i + 1))?;
            promised.push(Promised { slo: slo.clone(), library: Box::new(self.promising(slo)) });
        }
        self.promised = promised;
        Ok(())
    }

    /// The library that judges a pool.
    pub fn for_pool(&self, pool: &BTreeMap<String, String>) -> &Self {
        self.promised.iter().find(|promised| promised.slo.fits(pool)).map_or(self, |promised| &promised.library)
    }

    /// What is promised about what a playbook's symptom reads, where this is the library of a promise.
    pub fn promise_of(&self, playbook: &str) -> Option<Promise> {
        let slo = self.slo.as_ref()?;
        let symptom = &self.playbooks.get(playbook)?.symptom;
        let signals = symptom.iter().flat_map(Evidence::checks).filter_map(|(signal, _)| self.signals.get(signal));
        let terms = signals.filter_map(|signal| signal.burn.as_ref()?.term);
        terms.filter_map(|term| slo.promise(term)).next()
    }

    /// The same with the limits of a promise.
    fn promising(&self, slo: &Slo) -> Self {
        let mut library = self.clone();
        library.slo = Some(slo.clone());
        // Signal to the factor by which the numbers move with which it is compared.
        let mut factors: BTreeMap<String, f64> = BTreeMap::new();
        for (name, signal) in &mut library.signals {
            let Some(burn) = &mut signal.burn else { continue };
            let Some(promise) = burn.term.and_then(|term| slo.promise(term)) else { continue };
            let budget = (1.0 - promise.share) / BUDGET;
            factors.insert(name.clone(), budget);
            match (burn.limit, promise.within_seconds) {
                (Some(limit), Some(within)) => {
                    factors.insert(burn.of.clone(), within / limit);
                    burn.limit = Some(within);
                }
                _ => drop(factors.insert(burn.of.clone(), budget)),
            }
        }
        library.derive_burns();
        let signals = &library.signals;
        let moved = |signal: &str, when: &mut Condition| {
            let Some(factor) = factors.get(signal).filter(|_| !when.needs_baseline()) else { return };
            let ratio = signals.get(signal).is_some_and(|signal| signal.unit == Unit::Ratio);
            *when = scaled(when, *factor, if ratio { MOST } else { f64::INFINITY });
        };
        for playbook in library.playbooks.values_mut() {
            let alerts = playbook.alerts.iter_mut().flat_map(|alert| &mut alert.when);
            playbook.symptom.iter_mut().chain(alerts).for_each(|evidence| each(evidence, &moved));
            verified(&mut playbook.now, &mut playbook.lasting, &moved);
            for cause in &mut playbook.causes {
                cause.evidence.iter_mut().for_each(|evidence| each(evidence, &moved));
                verified(&mut cause.now, &mut cause.lasting, &moved);
            }
        }
        for leaf in library.causes.values_mut() {
            leaf.evidence.iter_mut().for_each(|evidence| each(evidence, &moved));
            verified(&mut leaf.now, &mut leaf.lasting, &moved);
        }
        library
    }
}

fn each(evidence: &mut Evidence, apply: &impl Fn(&str, &mut Condition)) {
    if let (Some(signal), Some(when)) = (&evidence.signal, &mut evidence.when) {
        apply(signal, when);
    }
    evidence.any.iter_mut().for_each(|inner| each(inner, apply));
}

fn verified(now: &mut [Step], lasting: &mut [Step], apply: &impl Fn(&str, &mut Condition)) {
    let checks = now.iter_mut().chain(lasting).filter_map(|step| step.verify.as_mut());
    checks.for_each(|verify| apply(&verify.signal, &mut verify.when));
}

/// The same condition with its numbers multiplied.
fn scaled(when: &Condition, factor: f64, most: f64) -> Condition {
    let number = |n: f64| {
        let moved = (n * factor * 1e6).round() / 1e6;
        if n <= most { moved.min(most) } else { moved }
    };
    let moved = |c: &Comparison| match c.to {
        Reference::Number(n) => Comparison { to: Reference::Number(number(n)), ..*c },
        _ => *c,
    };
    match when {
        Condition::All(list) => Condition::All(list.iter().map(moved).collect()),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
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
        library.promise(&[slo(chat)]).unwrap();
        let own = library.for_pool(&pool("chat"));
        let number = |library: &Library, playbook: &str, signal: &str| {
            library.playbooks[playbook].threshold(signal).map(ToString::to_string)
        };
        assert_eq!(number(own, "high-ttft", "ttft_p99").as_deref(), Some("> 1"));
        assert_eq!(number(&library, "high-ttft", "ttft_p99").as_deref(), Some("> 2"));
        assert_eq!(number(own, "high-error-rate", "error_ratio").as_deref(), Some("> 0.001"));
        assert_eq!(number(own, "high-itl", "itl_p99"), number(&library, "high-itl", "itl_p99"));
        let query = |library: &Library| library.engines["vllm"].signals["ttft_burn"].query.clone().unwrap();
        assert_ne!(query(own), query(&library));
        let critical = |library: &Library| library.playbooks["high-ttft"].alerts[0].when[0].when.clone().unwrap();
        // Five times as many may be late; more than half of them never.
        assert_eq!(critical(&library).to_string(), "> 0.144");
        assert_eq!(critical(own).to_string(), "> 0.5");
        assert!(std::ptr::eq(library.for_pool(&pool("other")), &library));
        let promise = own.promise_of("high-ttft").unwrap();
        assert_eq!((promise.term, promise.share, promise.within_seconds), (Term::Ttft, 0.95, Some(1.0)));
        assert_eq!(library.promise_of("high-ttft"), None);
    }

    #[test]
    fn a_wrong_promise_says_what_was_expected() {
        let error = |text: &str| load(None).unwrap().promise(&[slo(text)]).unwrap_err();
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

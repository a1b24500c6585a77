//! The result of the detection: the engines of a scope and what else is known about its pool.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Past, RecordedSeries};
use findings::UnknownLabelValue;
use findings::scope::{Scope, fits};
use knowledge::playbook::Library;
use knowledge::signal::{Engine, EngineVersion, Matcher};
use prom::{MetricNames, Row};

/// A detected engine that has series for the scope.
#[derive(Debug, Clone, PartialEq)]
pub struct EngineSeen {
    /// Its name.
    pub engine: String,
    /// The lowest version that its series allow.
    pub version: Option<EngineVersion>,
    /// The prefixes of its series here.
    pub prefixes: Vec<String>,
    /// The scope as matchers on its labels.
    pub matchers: Vec<Matcher>,
    /// The labels that identify one of its targets here, as in `on (…)`: `job`, `instance`, and what its series have of
    /// [`Engine::places`].
    pub target: String,
}

/// The result of the detection.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DetectionResult {
    /// The detected engines and exporters.
    pub engines: Vec<EngineSeen>,
    /// The past to compare with, if the pool existed then.
    pub past: Option<Past>,
    /// The window before `past`, if the pool existed then as well.
    pub past_before: Option<Past>,
    /// The recorded series that may be used.
    pub recorded: RecordedSeries,
    /// The metrics that Prometheus has.
    pub names: MetricNames,
    /// The number of series that show the pool's engines, about one for each replica.
    pub replicas: usize,
    /// The Services through which Prometheus scrapes the pool's engines.
    pub services: BTreeSet<String>,
    /// The pool's engines as a gateway writes their addresses: URLs, `host:port`.
    pub backends: BTreeSet<String>,
    /// The server's words about a part of the data in which more engines and pools may be.
    pub incomplete: Option<String>,
    /// The same about the past, if none was found in the part that answered.
    pub past_incomplete: Option<String>,
    /// Gateways that do not name the pool, each with a sentence that says so; they are not used as evidence.
    pub apart: BTreeMap<String, String>,
    /// Sentences about alert labels that could not be used.
    pub notes: Vec<String>,
    /// The value of the scope that no pool has.
    pub unknown: Option<UnknownLabelValue>,
    /// True if no series has any of the scope's labels: without narrowing, the scope would mean all pools.
    pub no_label_fits: bool,
    /// The pools that are there, if they are several and the alert names none of them: there is no verdict on all at once.
    pub pools: BTreeSet<BTreeMap<String, String>>,
}

impl DetectionResult {
    /// Returns the engines whose replicas are the pool: serving engines, or gateways if there are only gateways.
    pub fn pool<'a>(&'a self, library: &'a Library) -> impl Iterator<Item = (&'a Engine, &'a EngineSeen)> {
        let engines = || self.engines.iter().filter_map(|seen| Some((library.engines.get(&seen.engine)?, seen)));
        let rank = |engine: &Engine| (engine.kind, engine.stand_in);
        let best = engines().map(|(engine, _)| rank(engine)).filter(|(kind, _)| kind.is_pool()).min();
        engines().filter(move |(engine, _)| Some(rank(engine)) == best)
    }

    /// Counts the series in the rows of [`detection`](crate::detection()) that show the pool's engines.
    pub fn replicas_in(&self, library: &Library, rows: &[Row]) -> usize {
        let shows = |row: &&Row| {
            self.pool(library).any(|(engine, seen)| {
                let is_its = |name: &String| engine.spellings(&engine.detect).iter().any(|(_, own)| own == name);
                row.labels.get("__name__").is_some_and(is_its) && fits(&seen.matchers, &row.labels)
            })
        };
        rows.iter().filter(shows).map(|row| row.value.max(0.0) as usize).sum()
    }

    /// Returns true if the scope has only a `job`, and no serving engine has it or a replica of the scope: the alert
    /// is then about another program.
    pub fn is_of_another_job(&self, library: &Library, scope: &Scope) -> bool {
        let is_nobodys = self.no_label_fits || self.pool(library).next().is_none();
        is_nobodys && scope.dimensions.keys().eq(["job"])
    }
}

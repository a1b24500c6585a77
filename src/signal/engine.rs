//! How one engine or exporter tells the signals.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::facts::{Change, Info, Length};
use super::query::{Matcher, is_identifier};
use super::{Direct, Endpoint};

/// What an engine file describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EngineKind {
    /// A serving engine: its replicas are the pool.
    Serving,
    /// What stands before the engines and routes to them.
    Gateway,
    /// GPUs seen through an exporter.
    Gpu,
    /// The orchestrator.
    Platform,
    /// What programs write: told by `logs/`, never by a query.
    Log,
}

impl EngineKind {
    /// Whether its replicas can be the pool that an alert is about.
    pub fn is_pool(self) -> bool {
        match self {
            Self::Serving | Self::Gateway => true,
            Self::Gpu | Self::Platform | Self::Log => false,
        }
    }
}

/// Who made GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum GpuVendor {
    /// AMD.
    Amd,
    /// NVIDIA.
    Nvidia,
}

/// One way an engine answers a signal.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SignalQuery {
    /// PromQL with `$scope`, `$workload`, `$window` and `$by`.
    pub query: Option<String>,
    /// Why this engine cannot tell the signal.
    pub unsupported: Option<String>,
    /// What to turn on where the query finds nothing.
    pub enable: Option<String>,
    /// The feature that it tells of, where there is no data without it: then nothing is missing.
    pub feature: Option<String>,
    /// The versions it holds for, in words.
    pub since: Option<String>,
    /// Read the value from labels instead of the sample: the product of the named labels, first entry that has them all.
    #[serde(default)]
    pub from_labels: Vec<String>,
    /// Fixed range instead of the diagnosis' window, for slow series: `30m`.
    pub window: Option<String>,
    /// How to read it from the exporter's own page when Prometheus cannot tell.
    pub direct: Option<Direct>,
}

/// A metric whose presence tells the lowest version that runs.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VersionProbe {
    /// The exposed name of a series.
    pub metric: String,
    /// The first version that has it.
    pub at_least: String,
}

/// Series of a gateway whose labels name the engines behind it.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Backends {
    /// The series.
    pub series: Vec<String>,
    /// Labels that hold the model as the engines call it.
    #[serde(default)]
    pub model: Vec<String>,
    /// Labels that hold an engine's URL, address or pod.
    #[serde(default)]
    pub address: Vec<String>,
}

/// The shape of `signals/<engine>.yaml`.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Engine {
    /// Same as the file name.
    pub engine: String,
    /// The format's version: 1.
    pub schema: u32,
    /// What the file describes.
    pub kind: EngineKind,
    /// Of a GPU exporter: whose GPUs it tells of, where it is one vendor's.
    pub gpu: Option<GpuVendor>,
    /// Where the names were read.
    pub source: Vec<String>,
    /// The series that shows that the engine is there.
    pub detect: String,
    /// What to do where none of its series is there.
    pub enable: Option<String>,
    /// Series that show it too, where not every page has the same.
    #[serde(default)]
    pub detect_also: Vec<String>,
    /// How the names of its series may begin; queries are written with the first, asked with what Prometheus holds.
    #[serde(default)]
    pub prefixes: Vec<String>,
    /// Prefixes of copies of the same series; asked only where none of `prefixes` is there, for a sum would count twice.
    #[serde(default)]
    pub copies: Vec<String>,
    /// Labels by which another program's series of the same names are known; series that have one are left out.
    #[serde(default)]
    pub foreign: Vec<String>,
    /// Counts only where no other engine of its kind answers the signal.
    #[serde(default)]
    pub stand_in: bool,
    /// Newest first; the first present metric tells the version.
    #[serde(default)]
    pub versions: Vec<VersionProbe>,
    /// The labels by which a row is one replica; the first that is not empty names it.
    pub replica: Vec<String>,
    /// The labels by which replicas form a pool, for the generated rules.
    #[serde(default)]
    pub pool: Vec<String>,
    /// The scope's dimension (`cluster`, `namespace`, `model`, …) to the label names it may have here.
    pub scope: BTreeMap<String, Vec<String>>,
    /// Values of its model labels that name no model.
    #[serde(default)]
    pub no_model: Vec<String>,
    /// Of a gateway: the series whose labels name the engines behind it.
    #[serde(default)]
    pub backends: Vec<Backends>,
    /// What it tells over HTTP beside its metrics; nothing else is ever asked of it.
    #[serde(default)]
    pub endpoints: Vec<Endpoint>,
    /// Signal name to how this engine tells it.
    pub signals: BTreeMap<String, SignalQuery>,
    /// Histograms of requests' lengths: names without `_bucket`, newest first.
    #[serde(default)]
    pub histograms: BTreeMap<Length, Vec<String>>,
    /// Series whose labels tell something.
    #[serde(default)]
    pub info: Vec<Info>,
    /// What is followed over time to tell what happened: PromQL with `$scope`, `$workload` and `$by`.
    #[serde(default)]
    pub changes: BTreeMap<Change, String>,
}

/// Labels of a site's own that come before an engine's: the key `engines:` of the configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct OwnLabels {
    /// Labels by which a row is one replica.
    pub replica: Vec<String>,
    /// The scope's dimension (`cluster`, `namespace`, `model`, `job`) to its label names.
    pub scope: BTreeMap<String, Vec<String>>,
}

impl Engine {
    /// The series that show that the engine is there; one suffices.
    pub fn tell_tales(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.detect).chain(&self.detect_also).map(String::as_str)
    }

    /// Every spelling of the series that shows that the engine is there.
    pub fn detected_by(&self) -> Vec<String> {
        self.tell_tales().flat_map(|metric| self.spellings(metric)).map(|(_, name)| name).collect()
    }

    /// Every spelling of a metric with the prefix it has: as written, with the other prefixes, and its copies.
    pub fn spellings(&self, metric: &str) -> Vec<(Option<String>, String)> {
        match self.prefixes.first().and_then(|written| metric.strip_prefix(written.as_str())) {
            None => vec![(None, metric.to_owned())],
            Some(bare) => {
                let all = self.prefixes.iter().chain(&self.copies);
                all.map(|prefix| (Some(prefix.clone()), format!("{prefix}{bare}"))).collect()
            }
        }
    }

    /// Matchers that leave out another program's series of the same names.
    pub fn own_series(&self) -> impl Iterator<Item = Matcher> {
        self.foreign.iter().map(|label| Matcher::one(label, ""))
    }

    /// What a row says of a scope's dimension; none where its label is absent, empty, or a word that names no model.
    pub fn told<'a>(&self, dimension: &str, row: &'a BTreeMap<String, String>) -> Option<&'a String> {
        let says = |value: &&String| !(value.is_empty() || dimension == "model" && self.no_model.contains(value));
        self.scope.get(dimension)?.iter().find_map(|label| row.get(label).filter(says))
    }

    /// Puts a site's own labels before those of the file.
    ///
    /// # Errors
    /// When a name cannot stand in PromQL, or the engine's series are not narrowed by such a dimension.
    pub fn put_first(&mut self, own: &OwnLabels) -> Result<(), String> {
        let OwnLabels { replica, scope } = own;
        if let Some(label) = replica.iter().chain(scope.values().flatten()).find(|label| !is_identifier(label)) {
            return Err(format!("`{label}` is no label name: expected letters, digits and `_`, no digit first"));
        }
        if let Some(unknown) = scope.keys().find(|dimension| !self.scope.contains_key(*dimension)) {
            let known: Vec<&str> = self.scope.keys().map(String::as_str).collect();
            return Err(format!("`scope` has no `{unknown}`: expected one of {}", known.join(", ")));
        }
        put_first(&mut self.replica, replica);
        for (dimension, labels) in scope {
            put_first(self.scope.entry(dimension.clone()).or_default(), labels);
        }
        self.foreign.retain(|label| !replica.contains(label));
        Ok(())
    }
}

fn put_first(into: &mut Vec<String>, own: &[String]) {
    into.retain(|label| !own.contains(label));
    into.splice(0..0, own.iter().cloned());
}

/// A version as engines number themselves: dot-separated numbers.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct EngineVersion(Vec<u32>);

impl FromStr for EngineVersion {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.split('.')
            .map(|part| {
                part.parse().map_err(|_| format!("`{text}` is no version: expected numbers and dots, such as 0.8.3"))
            })
            .collect::<Result<Vec<u32>, String>>()
            .map(Self)
    }
}

impl TryFrom<String> for EngineVersion {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<EngineVersion> for String {
    fn from(version: EngineVersion) -> Self {
        version.to_string()
    }
}

impl fmt::Display for EngineVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, part) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str(".")?;
            }
            write!(f, "{part}")?;
        }
        Ok(())
    }
}

/// For which engine and versions a fix step holds: `vllm`, `vllm >= 0.8`, `vllm >= 0.8 < 0.20`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionReq {
    /// The engine's name.
    pub engine: String,
    /// The lowest version, inclusive.
    pub at_least: Option<EngineVersion>,
    /// The first version it no longer holds for.
    pub below: Option<EngineVersion>,
}

impl FromStr for VersionReq {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut words = text.split_whitespace();
        let engine = words.next().ok_or("empty engine requirement")?.to_owned();
        let mut req = Self { engine, at_least: None, below: None };
        while let Some(op) = words.next() {
            let version = words.next().ok_or_else(|| format!("`{text}`: a version must follow `{op}`"))?.parse()?;
            match op {
                ">=" => req.at_least = Some(version),
                "<" => req.below = Some(version),
                _ => return Err(format!("`{text}`: expected `>=` or `<`, found `{op}`")),
            }
        }
        Ok(req)
    }
}

impl VersionReq {
    /// Whether a step with this requirement may be shown when `version` is the lowest version seen.
    /// An unknown version shows it: the text names the requirement.
    pub fn allows(&self, engine: &str, version: Option<&EngineVersion>) -> bool {
        if self.engine != engine {
            return false;
        }
        let Some(version) = version else { return true };
        self.at_least.as_ref().is_none_or(|least| version >= least)
            && self.below.as_ref().is_none_or(|below| version < below)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_requirement_compares_numbers_not_text() {
        let req: VersionReq = "vllm >= 0.8 < 0.20".parse().unwrap();
        let allows = |v: &str| req.allows("vllm", Some(&v.parse().unwrap()));
        assert_eq!([allows("0.7.3"), allows("0.8"), allows("0.19"), allows("0.20")], [false, true, true, false]);
        assert!(req.allows("vllm", None) && !req.allows("sglang", None));
        assert!("vllm ~> 1".parse::<VersionReq>().unwrap_err().contains("found `~>`"));
    }
}

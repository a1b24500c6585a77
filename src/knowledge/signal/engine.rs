//! The signal file of one engine or exporter.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Endpoint;
use super::facts::{Change, Info, Length};
use super::query::{Matcher, is_identifier};

/// The kind of program that an engine file describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EngineKind {
    /// A serving engine: its replicas are the pool.
    Serving,
    /// A gateway in front of the engines, which routes to them.
    Gateway,
    /// GPUs seen through an exporter.
    Gpu,
    /// The orchestrator.
    Platform,
    /// Log lines: values come from `logs/`, never from a query.
    Log,
}

impl EngineKind {
    /// Returns true if its replicas can be the pool that an alert is about.
    pub fn is_pool(self) -> bool {
        match self {
            Self::Serving | Self::Gateway => true,
            Self::Gpu | Self::Platform | Self::Log => false,
        }
    }
}

/// The vendor of GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum GpuVendor {
    /// AMD.
    Amd,
    /// NVIDIA.
    Nvidia,
}

/// The definition of a signal for one engine.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SignalQuery {
    /// PromQL with `$scope`, `$workload`, `$window`, `$by`, `$target` and `$remote`.
    pub query: Option<String>,
    /// The reason why this engine does not expose the signal.
    pub unsupported: Option<String>,
    /// The setting to enable if the query returns nothing.
    pub enable: Option<String>,
    /// The feature that it measures, if it has no data without it: then nothing is missing.
    pub feature: Option<String>,
    /// The versions it holds for, in words.
    pub since: Option<String>,
    /// Read the value from labels instead of the sample: the product of the named labels, first entry with all of them.
    #[serde(default)]
    pub from_labels: Vec<String>,
    /// Fixed range instead of the diagnosis' window, for slow series: `30m`. One below 5m shrinks with the window of a young
    /// incident.
    pub window: Option<String>,
}

impl SignalQuery {
    /// Returns the fixed range of `window`; `None` for the diagnosis' own.
    pub fn own_window(&self) -> Option<Duration> {
        humantime::parse_duration(self.window.as_deref()?).ok()
    }

    /// Returns the entry that a user puts in the place of a shipped one. One that has a query alone keeps what does not
    /// depend on the query.
    #[must_use]
    pub fn instead_of(self, shipped: &Self) -> Self {
        let is_query = self == Self { query: self.query.clone(), ..Self::default() };
        if !is_query || self.query.is_none() {
            return self;
        }
        let (enable, feature) = (shipped.enable.clone(), shipped.feature.clone());
        Self { enable, feature, ..self }
    }

    /// Returns the keys of a shipped entry that this one lacks and that change what is read.
    pub fn lacking(&self, shipped: &Self) -> impl Iterator<Item = &'static str> {
        let keys = [
            ("window", self.window.is_none() && shipped.window.is_some()),
            ("from_labels", self.from_labels.is_empty() && !shipped.from_labels.is_empty()),
            ("enable", self.enable.is_none() && shipped.enable.is_some()),
            ("feature", self.feature.is_none() && shipped.feature.is_some()),
        ];
        keys.into_iter().filter(|(_, gone)| *gone).map(|(key, _)| key)
    }
}

/// A metric whose presence shows the lowest running version.
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
    /// The kind of program that the file describes.
    pub kind: EngineKind,
    /// The vendor of the GPUs that a GPU exporter reports, if it is always the same.
    pub gpu: Option<GpuVendor>,
    /// Sources of the names.
    pub source: Vec<String>,
    /// The series that shows that the engine is present.
    pub detect: String,
    /// The action if none of its series exists.
    pub enable: Option<String>,
    /// Alternative series that show it, if not every page has the same.
    #[serde(default)]
    pub detect_also: Vec<String>,
    /// Possible prefixes of its metric names; queries are written with the first and sent with those in use.
    #[serde(default)]
    pub prefixes: Vec<String>,
    /// Prefixes of copies of the same series; queried only without series of `prefixes`: a sum would count twice.
    #[serde(default)]
    pub copies: Vec<String>,
    /// Labels that identify another program's series of the same names; series with one of them are excluded.
    #[serde(default)]
    pub foreign: Vec<String>,
    /// True if it counts only where no other engine of its kind has data for the signal.
    #[serde(default)]
    pub stand_in: bool,
    /// Newest first; the first present metric determines the version.
    #[serde(default)]
    pub versions: Vec<VersionProbe>,
    /// The labels that identify a replica; the first that is not empty is its name.
    pub replica: Vec<String>,
    /// The labels by which replicas form a pool, for the generated rules.
    #[serde(default)]
    pub pool: Vec<String>,
    /// The scope's dimension (`cluster`, `namespace`, `model`, …) to the label names it may have here.
    pub scope: BTreeMap<String, Vec<String>>,
    /// Values of its model labels that are not the name of a model.
    #[serde(default)]
    pub no_model: Vec<String>,
    /// For a gateway: the series whose labels name the engines behind it.
    #[serde(default)]
    pub backends: Vec<Backends>,
    /// HTTP paths beside its metrics; no other path is ever requested.
    #[serde(default)]
    pub endpoints: Vec<Endpoint>,
    /// Signal name to its definition for this engine.
    pub signals: BTreeMap<String, SignalQuery>,
    /// Histograms of requests' lengths: names without `_bucket`, newest first.
    #[serde(default)]
    pub histograms: BTreeMap<Length, Vec<String>>,
    /// Series that tell its tenants apart.
    #[serde(default)]
    pub tenants: Option<TenantSeries>,
    /// Series whose labels carry information.
    #[serde(default)]
    pub info: Vec<Info>,
    /// Series that are followed over time to detect changes: PromQL with `$scope`, `$workload`, `$by` and `$target`.
    #[serde(default)]
    pub changes: BTreeMap<Change, String>,
    /// Names of metrics that newer versions no longer have, for users' rules and dashboards.
    #[serde(default)]
    pub renamed: Vec<RenamedMetric>,
}

/// The series of an engine that tell its tenants apart.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TenantSeries {
    /// The labels that name a tenant, the largest group first: a team, then a key.
    pub labels: Vec<String>,
    /// The counter of its requests, with `$scope`.
    pub requests: String,
    /// The counter of its failed requests, with `$scope`.
    pub failed: String,
    /// The counters of its tokens, which are added.
    pub tokens: Vec<String>,
    /// The buckets of its times to the first token.
    pub first_token: String,
}

/// A metric that newer versions of an engine no longer have.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RenamedMetric {
    /// The name that goes, of a histogram without `_bucket`.
    pub old: String,
    /// The name that newer versions have instead; none if no metric has its place.
    pub new: Option<String>,
    /// The expression that has the old meaning, where the new name alone has not.
    pub write: Option<String>,
    /// The first version that does not write it unless asked to.
    pub gone: String,
}

/// Further signals of an engine that has a file: a user's `signals/<engine>.yaml` without `kind` and `detect`.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EngineSignals {
    /// Same as the file name.
    pub engine: String,
    /// The format's version: 1.
    pub schema: u32,
    /// Signal name to its definition for this engine; it replaces one of the same name.
    pub signals: BTreeMap<String, SignalQuery>,
}

/// Labels of a site's own that come before an engine's: the key `engines:` of the configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct OwnLabels {
    /// Labels that identify a replica.
    pub replica: Vec<String>,
    /// The scope's dimension (`cluster`, `namespace`, `model`, `job`) to its label names.
    pub scope: BTreeMap<String, Vec<String>>,
}

impl Engine {
    /// Returns the series that show that the engine is present; one suffices.
    pub fn detection_series(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.detect).chain(&self.detect_also).map(String::as_str)
    }

    /// Returns every spelling of the series that show that the engine is present.
    pub fn detected_by(&self) -> Vec<String> {
        self.detection_series().flat_map(|metric| self.spellings(metric)).map(|(_, name)| name).collect()
    }

    /// Returns every spelling of a metric with its prefix: as written, with the other prefixes, and its copies.
    pub fn spellings(&self, metric: &str) -> Vec<(Option<String>, String)> {
        match self.prefixes.first().and_then(|written| metric.strip_prefix(written.as_str())) {
            None => vec![(None, metric.to_owned())],
            Some(bare) => {
                let all = self.prefixes.iter().chain(&self.copies);
                all.map(|prefix| (Some(prefix.clone()), format!("{prefix}{bare}"))).collect()
            }
        }
    }

    /// Builds matchers that exclude another program's series of the same names.
    pub fn own_series(&self) -> impl Iterator<Item = Matcher> {
        self.foreign.iter().map(|label| Matcher::one(label, ""))
    }

    /// Returns a row's value of a scope's dimension; `None` if its label is absent, empty, or not the name of a model.
    pub fn dimension_value<'a>(&self, dimension: &str, row: &'a BTreeMap<String, String>) -> Option<&'a String> {
        let is_usable = |value: &&String| !(value.is_empty() || dimension == "model" && self.no_model.contains(value));
        self.scope.get(dimension)?.iter().find_map(|label| row.get(label).filter(is_usable))
    }

    /// Returns the dimensions that tell two of its targets with the same `job` and `instance` apart: two clusters behind
    /// one Thanos, or two namespaces, may have them. The `namespace` of an exporter's series may be that of the pod that it
    /// reports on, which its `up` does not have.
    pub fn places(&self) -> &'static [&'static str] {
        if self.kind.is_pool() { &["cluster", "namespace"] } else { &["cluster"] }
    }

    /// Returns the labels that identify one of its targets in rules, as in `on (…)`.
    pub fn target(&self) -> String {
        [self.places(), &["job", "instance"]].concat().join(", ")
    }

    /// Inserts a site's own labels before those of the file.
    ///
    /// # Errors
    /// If a name is not a PromQL identifier, or the engine's series have no such dimension.
    pub fn put_first(&mut self, own: &OwnLabels) -> Result<(), String> {
        let OwnLabels { replica, scope } = own;
        if let Some(label) = replica.iter().chain(scope.values().flatten()).find(|label| !is_identifier(label)) {
            return Err(format!("`{label}` is no label name: expected letters, digits and `_`, no digit first"));
        }
        if let Some(unknown) = scope.keys().find(|dimension| !self.scope.contains_key(*dimension)) {
            let dimensions: Vec<&str> = self.scope.keys().map(String::as_str).collect();
            return Err(format!("`scope` has no `{unknown}`: expected one of {}", dimensions.join(", ")));
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

/// A version of an engine: dot-separated numbers.
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

/// The engine and versions that a fix step is valid for: `vllm`, `vllm >= 0.8`, `vllm >= 0.8 < 0.20`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionReq {
    /// The engine's name.
    pub engine: String,
    /// The lowest version, inclusive.
    pub at_least: Option<EngineVersion>,
    /// The first version that it is no longer valid for.
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
    /// Returns true if a step with this requirement may be shown when `version` is the lowest version found. An unknown
    /// version shows it: the text names the requirement.
    pub fn allows(&self, engine: &str, version: Option<&EngineVersion>) -> bool {
        if self.engine != engine {
            return false;
        }
        let Some(version) = version else { return true };
        self.at_least.as_ref().is_none_or(|least| version >= least)
            && self.below.as_ref().is_none_or(|below| version < below)
    }

    /// Returns the version that a step of this engine needs, if it is above the lowest version found: the engine may be
    /// as new, or not.
    pub fn needs(&self, engine: &str, version: Option<&EngineVersion>) -> Option<&EngineVersion> {
        self.at_least.as_ref().filter(|least| self.engine == engine && version.is_some_and(|version| version < least))
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

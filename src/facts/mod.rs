//! What Prometheus tells of a pool beyond a diagnosis: its numbers before, during and after, what it serves and on what,
//! where its replicas stand, and what changed.

mod bounds;
mod changes;
mod happened;
mod info;
mod lengths;
mod look;
mod measured;
mod rules;
mod targets;

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::alert::Labels;
use crate::clock;
use crate::report::{Distribution, Gpu, Happened, Measured, Replica, Version, Window};
pub use look::look;

/// The shortest window that a rate is asked for: two scrapes of the slowest usual interval.
const SHORTEST: Duration = Duration::from_secs(120);

/// The times that are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Windows {
    /// Before it began.
    pub before: Window,
    /// While it lasted, or lasts.
    pub during: Window,
    /// After it was over; none while it is not.
    pub after: Option<Window>,
}

impl Windows {
    /// The whole time, from the first moment to the last.
    pub fn whole(&self) -> Window {
        let ends = [Some(self.before), Some(self.during), self.after].into_iter().flatten();
        let to = ends.map(|window| window.to).max().unwrap_or(self.during.to);
        Window { from: self.before.from.min(self.during.from), to }
    }
}

/// A window as it is asked: its end and its length, at least [`SHORTEST`].
fn asked(window: Window) -> (Timestamp, Duration) {
    (window.to, clock::between(window.from, window.to).max(SHORTEST))
}

/// Everything that was seen; what could not be is in `missing`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Seen {
    /// What users feel and what the engine does, over three windows.
    pub measured: Vec<Measured>,
    /// What is asked of the engine, over three windows.
    #[serde(default)]
    pub load: Vec<Measured>,
    /// Prompt tokens per request, during the window.
    pub input: Option<Distribution>,
    /// Generated tokens per request, during the window.
    pub output: Option<Distribution>,
    /// GPUs by kind.
    pub gpus: Vec<Gpu>,
    /// The pool's machines with what metrics tell of each: type, zone.
    #[serde(default)]
    pub nodes: BTreeMap<String, Vec<String>>,
    /// What connects them, where an exporter tells: `NVLink`.
    pub interconnect: Option<String>,
    /// Versions that metrics tell: engines, exporters, driver, CUDA, Prometheus itself.
    pub versions: Vec<Version>,
    /// The replicas and where they run.
    pub replicas: Vec<Replica>,
    /// Restarts, rollouts and scaling that metrics show, oldest first.
    pub happened: Vec<Happened>,
    /// Labels of info metrics, by metric: `vllm:cache_config_info` ─▶ `{block_size: "16", …}`; one row for each that differs.
    pub info: BTreeMap<String, Vec<Labels>>,
    /// The alerting rules that fire for the pool, or would.
    pub rules: Vec<Rule>,
    /// How the pool's scrape targets stand.
    pub targets: Vec<Target>,
    /// What could not be seen: what, and why, in a sentence.
    pub missing: Vec<(String, String)>,
}

/// How the reason begins of what is missing because a question failed, rather than because nobody exports it.
const FAILED: &str = "Prometheus did not tell: ";

impl Seen {
    /// What is missing because a question failed.
    pub fn failed(&self) -> Vec<(String, String)> {
        self.missing.iter().filter(|(_, why)| why.starts_with(FAILED)).cloned().collect()
    }
}

/// An alerting rule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Rule {
    /// The alert's name.
    pub name: String,
    /// Its PromQL.
    pub query: String,
    /// How long it must hold, seconds.
    pub for_seconds: f64,
    /// `firing`, `pending`, `inactive`.
    pub state: String,
    /// Labels that it sets.
    pub labels: Labels,
    /// The last evaluation's error.
    pub error: Option<String>,
}

/// A scrape target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Target {
    /// Host and port.
    pub place: String,
    /// Its labels.
    pub labels: Labels,
    /// `up`, `down`, `unknown`.
    pub health: String,
    /// The last scrape's error.
    pub error: Option<String>,
}

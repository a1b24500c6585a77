//! Playbooks and causes: the diagnosis as data.
//!
//! The types here are the format: a reader of the YAML finds every key with its meaning. Nothing here judges
//! ([`crate::diagnose`]) and nothing here talks to Prometheus.

mod condition;
mod health;
mod library;
mod load;
mod logs;
mod promise;
mod redaction;
mod report;
mod select;
mod tables;
mod tickets;

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::signal::GpuVendor;

pub use condition::{Comparison, Condition, Op, Reference};
pub use health::{Heading, QuickCheck, QuickLook};
pub use library::{Children, Library, Node, NodeKind};
pub use load::{CATALOG, Problem, REDACTION, SourceFile, load, nearest, parse, phrases, shipped, suggestion};
pub use logs::{
    Known, LogExample, LogFact, LogFile, LogFinding, LogNumbers, LogRank, LogTells, LogValue, MemoryLine, known,
    matched as pattern_matched,
};
pub use promise::{Promise, Promised, Slo, Within};
pub use redaction::{NameKind, Redaction, RedactionRule};
pub use report::ReportSignals;
pub use select::{Selection, of_expression, select, without_expression};
pub use tables::{CodeRow, Direction, EngineFlag, FlagRow, Heading as TableHeading, Table, Tables, XidCounts, XidRow};
pub use tickets::{Section, Ticket, TicketField};

/// The format version that this program reads.
pub const SCHEMA: u32 = 1;

/// Whether alerts enter at a playbook, or other playbooks descend into it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// What a user of the fleet feels; alerts enter here.
    Symptom,
    /// How the fleet produces it; playbooks descend into it, alerts may enter too.
    Mechanism,
}

/// One symptom or mechanism: `playbooks/<id>.yaml`.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Playbook {
    /// The id, same as the file name; never renamed, never reused.
    pub playbook: String,
    /// The format's version: 1.
    pub schema: u32,
    /// Symptom or mechanism.
    pub kind: Kind,
    /// A clause that stands in a chain: `KV cache is exhausted`.
    pub title: String,
    /// The alerts we generate for it.
    #[serde(default)]
    pub alerts: Vec<AlertRule>,
    /// Other people's alert names that enter here; `*` matches any text, case does not matter.
    #[serde(default)]
    pub matches: Vec<String>,
    /// What happens, for somebody who has not met it.
    pub meaning: String,
    /// Whom it hurts and how.
    pub impact: String,
    /// When it is true: the symptom's confirmation, or the mechanism's tells.
    pub symptom: Vec<Evidence>,
    /// Of which parts the latency is the sum that the symptom is about: the first one counts of which the whole and a part
    /// are told.
    #[serde(default)]
    pub latency: Vec<Latency>,
    /// What may explain it, most frequent first: ties keep this order.
    #[serde(default)]
    pub causes: Vec<CauseEntry>,
    /// What to do at once, whatever the cause below it.
    #[serde(default)]
    pub now: Vec<Step>,
    /// What keeps it from coming back.
    #[serde(default)]
    pub lasting: Vec<Step>,
    /// Who takes over.
    pub escalate: Option<String>,
    /// What this playbook is known to get wrong.
    #[serde(default)]
    pub known_gaps: Vec<String>,
    /// Where its facts were read.
    #[serde(default)]
    pub references: Vec<String>,
}

impl Playbook {
    /// The condition by which the symptom compares a signal with numbers alone; none when it does not.
    pub fn threshold(&self, signal: &str) -> Option<&Condition> {
        let numbers = |when: &Condition| {
            let compared = when.comparisons();
            !compared.is_empty() && compared.iter().all(|c| matches!(c.to, Reference::Number(_)))
        };
        let mut checks = self.symptom.iter().flat_map(Evidence::checks);
        checks.find(|(name, when)| *name == signal && numbers(when)).map(|(_, when)| when)
    }
}

/// A mean latency and the signals that are its parts, all in seconds; what the parts leave is the rest.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Latency {
    /// The signal of the whole.
    pub signal: String,
    /// What takes so long, in the plural, to begin a sentence: `First tokens`.
    pub title: String,
    /// In the order of time; they do not overlap.
    pub parts: Vec<LatencyPart>,
}

/// A part of a latency.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LatencyPart {
    /// Its signal.
    pub signal: String,
    /// Where the time goes, to follow a number: `in the queue`.
    pub title: String,
}

/// In `explains:`, the part of a latency that no signal tells.
pub const REST: &str = "rest";

/// A leaf cause that several playbooks share: `playbooks/causes/<id>.yaml`.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cause {
    /// The id, same as the file name.
    pub cause: String,
    /// The format's version: 1.
    pub schema: u32,
    /// A clause that stands in a chain: `prompts became longer`.
    pub title: String,
    /// What happened, for somebody who has not met it.
    pub meaning: String,
    /// When it is true.
    pub evidence: Vec<Evidence>,
    /// What to do at once.
    #[serde(default)]
    pub now: Vec<Step>,
    /// What keeps it from coming back.
    #[serde(default)]
    pub lasting: Vec<Step>,
    /// Who takes over.
    pub escalate: Option<String>,
    /// What this cause is known to be confused with.
    #[serde(default)]
    pub known_gaps: Vec<String>,
    /// Where its facts were read.
    #[serde(default)]
    pub references: Vec<String>,
}

/// One entry under `causes:`; exactly one of `cause`, `playbook` and `id` is set.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CauseEntry {
    /// A shared leaf in `causes/`.
    pub cause: Option<String>,
    /// A mechanism with causes of its own.
    pub playbook: Option<String>,
    /// A leaf that is written right here.
    pub id: Option<String>,
    /// Only considered when none of its siblings is at least possible.
    #[serde(default)]
    pub fallback: bool,
    /// The parts of the playbook's `latency` that it makes long: their signals, or `rest`.
    #[serde(default)]
    pub explains: Vec<String>,
    /// Of a leaf written here: a clause that stands in a chain.
    pub title: Option<String>,
    /// Of a leaf written here: what happened.
    pub meaning: Option<String>,
    /// Of a leaf written here: when it is true.
    #[serde(default)]
    pub evidence: Vec<Evidence>,
    /// Of a leaf written here: what to do at once.
    #[serde(default)]
    pub now: Vec<Step>,
    /// Of a leaf written here: what keeps it from coming back.
    #[serde(default)]
    pub lasting: Vec<Step>,
}

impl CauseEntry {
    /// The id that this entry refers to or defines.
    pub fn target(&self) -> &str {
        [&self.cause, &self.playbook, &self.id].into_iter().find_map(|id| id.as_deref()).unwrap_or("")
    }
}

/// One check: a signal with a condition, or several of which one suffices.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Evidence {
    /// A name from the catalog.
    pub signal: Option<String>,
    /// The condition; see the forms in CONTRIBUTING.md.
    pub when: Option<Condition>,
    /// Alternatives of which one suffices.
    #[serde(default)]
    pub any: Vec<Evidence>,
    /// Of an alternative: used only when an alternative that compares with the past has no past value.
    #[serde(default)]
    pub without_past: bool,
    /// Of an alternative: left out when it has no data and another alternative has; not every engine tells it.
    #[serde(default)]
    pub optional: bool,
    /// Not met rules the cause out; no data leaves it undetermined.
    #[serde(default)]
    pub required: bool,
    /// How much it counts; 1 unless told.
    #[serde(default = "one")]
    pub weight: f64,
}

fn one() -> f64 {
    1.0
}

impl Evidence {
    /// The signal checks inside: itself, or its alternatives'.
    pub fn checks(&self) -> Vec<(&str, &Condition)> {
        self.alternatives().into_iter().map(|(signal, when, _)| (signal, when)).collect()
    }

    /// As [`Self::checks`], with whether each is used only where there is no past.
    pub fn alternatives(&self) -> Vec<(&str, &Condition, bool)> {
        match (&self.signal, &self.when) {
            (Some(signal), Some(when)) => vec![(signal, when, self.without_past)],
            _ => self.any.iter().flat_map(Self::alternatives).collect(),
        }
    }
}

/// A fix: something a person does.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// The instruction, with its exact flag or command in back-ticks.
    #[serde(rename = "do")]
    pub action: String,
    /// For which engine and versions: `vllm >= 0.8`; all when not set.
    pub engine: Option<String>,
    /// Only where the replicas run as this, or nobody tells; everywhere when not set.
    pub runs_on: Option<RunsOn>,
    /// Only where GPUs of this vendor are told of, or none; everywhere when not set.
    pub gpu: Option<GpuVendor>,
    /// The check that shows it worked.
    pub verify: Option<Verify>,
    /// Why it has no check of its own.
    pub no_verify: Option<NoVerify>,
    /// Where the instruction comes from.
    pub source: Option<String>,
}

impl Step {
    /// Where it holds, where that is not everywhere: `vllm >= 0.8`, `pods`.
    pub fn holds_for(&self) -> Option<String> {
        let on = self.runs_on.map(|on| match on {
            RunsOn::Pods => "pods",
            RunsOn::Hosts => "hosts",
        });
        let gpu = self.gpu.map(|gpu| match gpu {
            GpuVendor::Amd => "AMD GPUs",
            GpuVendor::Nvidia => "NVIDIA GPUs",
        });
        let told: Vec<&str> = self.engine.as_deref().into_iter().chain(on).chain(gpu).collect();
        (!told.is_empty()).then(|| told.join(", "))
    }
}

/// What the replicas of a pool are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RunsOn {
    /// Pods of Kubernetes: the engines' series name them.
    Pods,
    /// Processes, containers or jobs of machines: no series of the engines names a pod.
    Hosts,
}

/// Why a step has no check of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NoVerify {
    /// The check of the symptom that the alert is about shows it, turned round.
    Symptom,
    /// It only looks, and changes nothing.
    Looks,
    /// It keeps the next one away, and changes nothing today.
    Prevents,
    /// No signal tells.
    Unseen,
}

/// A check that shows whether a fix worked.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Verify {
    /// A name from the catalog.
    pub signal: String,
    /// The condition that holds once it worked.
    pub when: Condition,
    /// Others, each looked at where those before it hold already or have no value: a fault that shows in several ways.
    #[serde(default)]
    pub or: Vec<Self>,
}

impl Verify {
    /// It and the others, in their order.
    pub fn checks(&self) -> Vec<&Self> {
        std::iter::once(self).chain(self.or.iter().flat_map(Self::checks)).collect()
    }
}

/// Severity of a generated alert: page only when users are hurt now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Page.
    Critical,
    /// Chat.
    Warning,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Critical => "critical",
            Self::Warning => "warning",
        })
    }
}

/// An alert that we generate for a playbook.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AlertRule {
    /// Its name.
    pub alert: String,
    /// Page or chat.
    pub severity: Severity,
    /// How long it must hold: `5m`.
    #[serde(rename = "for")]
    pub hold: String,
    /// All of these hold. Only comparisons with numbers and with the past can become a rule.
    pub when: Vec<Evidence>,
    /// One alert for the pool, or one for each replica.
    #[serde(default)]
    pub each: Each,
}

/// What one alert stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Each {
    /// A pool of replicas that serve one model.
    #[default]
    Pool,
    /// One replica.
    Replica,
}

//! Playbooks and causes: the diagnosis as data.
//!
//! The types here are the format: the schema of the YAML documents every key. Nothing here evaluates evidence
//! ([`diagnose`]) or queries Prometheus.

mod change;
mod condition;
mod directory;
mod expression;
mod health;
mod healthy_fleet;
mod kinds;
mod library;
mod lints;
mod load;
mod logs;
mod overrides;
mod problem;
mod promise;
mod promised_library;
mod redaction;
mod report;
mod select;
mod tables;
mod tickets;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::Display;

use crate::signal::GpuVendor;

pub use change::StepChange;
pub use condition::{Comparison, Condition, Op, Reference, condition_text};
pub use directory::{CATALOG, FOLDERS, HEALTHY_FLEET, KINDS, REDACTION, data_files};
pub use expression::{metrics_of, words};
pub use health::{HealthHeading, QuickCheck, QuickLook};
pub use healthy_fleet::HealthyFleet;
pub use kinds::{DeclaredPool, PoolKind, PoolKinds};
pub use library::{Children, Library, Node, NodeKind};
pub use lints::{Lint, LintEffect, LintEntry};
pub use load::{lint_entries, load, phrases, shipped};
pub use logs::{
    LogExample, LogFact, LogFile, LogFinding, LogLineMatch, LogNumbers, LogRank, LogStage, LogStageMarks, LogTells,
    LogValue, MemoryLine, match_log_line, matched as pattern_matched,
};
pub use overrides::{ConditionChange, Override, Replacement, StepChanges, StepReplacement};
pub use problem::{Problem, SourceFile, is_unfinished, nearest, parse, suggestion};
pub use promise::{LatencyObjective, PoolObjectives, Promise, Slo};
pub use redaction::{NameKind, Redaction, RedactionRule, ValueCheck};
pub use report::ReportSignals;
pub use select::{Selection, expression, of_expression, select, without_expression};
pub use tables::IncidentClass;
pub use tables::{CodeRow, Direction, EngineFlag, FlagRow, Table, TableHeading, Tables, XidCounts, XidRow};
pub use tickets::{Section, Ticket, TicketField};

/// The format version that this program supports.
pub const SCHEMA: u32 = 1;

/// The kind of a playbook: symptom or mechanism.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PlaybookKind {
    /// A problem that users notice; alerts enter here.
    Symptom,
    /// The way in which the fleet produces it; playbooks descend into it, alerts may enter too.
    Mechanism,
}

impl PlaybookKind {
    /// Both kinds.
    pub const ALL: [Self; 2] = [Self::Symptom, Self::Mechanism];

    /// Returns the folder of its playbooks and their verdict tests.
    pub fn folder(self) -> &'static str {
        match self {
            Self::Symptom => "symptoms",
            Self::Mechanism => "mechanisms",
        }
    }
}

/// One symptom or mechanism: `symptoms/<id>.yaml` or `mechanisms/<id>.yaml`.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Playbook {
    /// The id, same as the file name; never reused.
    pub playbook: String,
    /// The format's version: 1.
    pub schema: u32,
    /// Symptom or mechanism.
    pub kind: PlaybookKind,
    /// A clause for the causal chain: `KV cache is exhausted`.
    pub title: String,
    /// The alerts that are generated for it.
    #[serde(default)]
    pub alerts: Vec<AlertRule>,
    /// Names of foreign alerts that enter here; `*` matches any text, case does not matter.
    #[serde(default)]
    pub matches: Vec<String>,
    /// An explanation for a reader who is new to it.
    pub meaning: String,
    /// The impact: who is affected, and how.
    pub impact: String,
    /// The evidence for it: the symptom's confirmation, or the mechanism's signs.
    pub symptom: Vec<Evidence>,
    /// The parts that add up to the symptom's latency: the first entry counts whose whole and at least one part have
    /// data.
    #[serde(default)]
    pub latency: Vec<Latency>,
    /// Its possible causes, most frequent first: ties keep this order.
    #[serde(default)]
    pub causes: Vec<CauseEntry>,
    /// Immediate steps, whatever the cause below it.
    #[serde(default)]
    pub now: Vec<Step>,
    /// Steps that prevent it from coming back.
    #[serde(default)]
    pub lasting: Vec<Step>,
    /// The team to escalate to.
    pub escalate: Option<String>,
    /// Known errors of this playbook.
    #[serde(default)]
    pub known_gaps: Vec<String>,
    /// Sources of its facts.
    #[serde(default)]
    pub references: Vec<String>,
}

impl Playbook {
    /// Returns the condition by which the symptom compares a signal with numbers only; `None` if there is none.
    pub fn threshold(&self, signal: &str) -> Option<&Condition> {
        let numbers = |when: &Condition| {
            let compared = when.comparisons();
            !compared.is_empty() && compared.iter().all(|c| matches!(c.to, Reference::Number(_)))
        };
        let mut checks = self.symptom.iter().flat_map(Evidence::checks);
        checks.find(|(name, when)| *name == signal && numbers(when)).map(|(_, when)| when)
    }
}

/// A mean latency and the signals that are its parts, all in seconds; the difference is the rest.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Latency {
    /// The signal of the whole latency.
    pub signal: String,
    /// The subject of a sentence about it, in the plural: `First tokens`.
    pub title: String,
    /// The parts in the order of time; they do not overlap.
    pub parts: Vec<LatencyPartSpec>,
}

/// A part of a latency.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LatencyPartSpec {
    /// The signal of the part.
    pub signal: String,
    /// The place where the time is spent, to follow a number: `in the queue`.
    pub title: String,
}

/// The value in `explains:` for the part of a latency that no signal measures.
pub const REST: &str = "rest";

/// A leaf cause that several playbooks share: `causes/<id>.yaml`.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cause {
    /// The id, same as the file name.
    pub cause: String,
    /// The format's version: 1.
    pub schema: u32,
    /// A clause for the causal chain: `prompts became longer`.
    pub title: String,
    /// An explanation for a reader who is new to it.
    pub meaning: String,
    /// The evidence for it.
    pub evidence: Vec<Evidence>,
    /// Immediate steps.
    #[serde(default)]
    pub now: Vec<Step>,
    /// Steps that prevent it from coming back.
    #[serde(default)]
    pub lasting: Vec<Step>,
    /// The team to escalate to.
    pub escalate: Option<String>,
    /// Causes that it is known to be confused with.
    #[serde(default)]
    pub known_gaps: Vec<String>,
    /// Sources of its facts.
    #[serde(default)]
    pub references: Vec<String>,
}

/// One entry under `causes:`; exactly one of `cause`, `playbook` and `id` is set.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CauseEntry {
    /// A shared leaf in `causes/`.
    pub cause: Option<String>,
    /// A mechanism with its own causes.
    pub playbook: Option<String>,
    /// The id of a leaf that is defined inline.
    pub id: Option<String>,
    /// True if it is considered only when none of its siblings is at least possible.
    #[serde(default)]
    pub fallback: bool,
    /// The parts of the playbook's `latency` that it increases: their signals, or `rest`.
    #[serde(default)]
    pub explains: Vec<String>,
    /// For an inline leaf: a clause for the causal chain.
    pub title: Option<String>,
    /// For an inline leaf: an explanation.
    pub meaning: Option<String>,
    /// For an inline leaf: the evidence for it.
    #[serde(default)]
    pub evidence: Vec<Evidence>,
    /// For an inline leaf: immediate steps.
    #[serde(default)]
    pub now: Vec<Step>,
    /// For an inline leaf: steps that prevent it from coming back.
    #[serde(default)]
    pub lasting: Vec<Step>,
}

impl CauseEntry {
    /// Returns the id that this entry refers to or defines.
    pub fn target(&self) -> &str {
        [&self.cause, &self.playbook, &self.id].into_iter().find_map(|id| id.as_deref()).unwrap_or("")
    }
}

/// One check: a signal with a condition, or alternatives of which one suffices.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Evidence {
    /// A name from the catalog.
    pub signal: Option<String>,
    /// The condition.
    pub when: Option<Condition>,
    /// Alternatives, one of which suffices.
    #[serde(default)]
    pub any: Vec<Evidence>,
    /// For an alternative: used only if an alternative that compares with the past has no past value.
    #[serde(default)]
    pub without_past: bool,
    /// For an alternative: left out if it has no data and another alternative has; not every engine exposes it.
    #[serde(default)]
    pub optional: bool,
    /// For a symptom's check: it is a trace that harms nobody, so that by it alone no symptom takes the place of another.
    #[serde(default)]
    pub harmless: bool,
    /// True if a failed check rules the cause out; no data leaves it undetermined.
    #[serde(default)]
    pub required: bool,
    /// The weight of the check; defaults to 1.
    #[serde(default = "one")]
    pub weight: f64,
}

fn one() -> f64 {
    1.0
}

impl Evidence {
    /// Returns the checks of single signals: its own, or those of its alternatives.
    pub fn checks(&self) -> Vec<(&str, &Condition)> {
        self.alternatives().into_iter().map(|(signal, when, _)| (signal, when)).collect()
    }

    /// Returns the signals of the checks that harm nobody.
    pub fn harmless_signals(&self) -> Vec<&str> {
        let own = self.signal.as_deref().filter(|_| self.harmless);
        own.into_iter().chain(self.any.iter().flat_map(Self::harmless_signals)).collect()
    }

    /// As [`Self::checks`]; the `bool` is true if the check is used only without a past value.
    pub fn alternatives(&self) -> Vec<(&str, &Condition, bool)> {
        match (&self.signal, &self.when) {
            (Some(signal), Some(when)) => vec![(signal, when, self.without_past)],
            _ => self.any.iter().flat_map(Self::alternatives).collect(),
        }
    }
}

/// A fix that a person applies.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// The instruction, with its exact flag or command in back-ticks.
    #[serde(rename = "do")]
    pub action: String,
    /// The engine and versions that it is valid for: `vllm >= 0.8`; all if unset.
    pub engine: Option<String>,
    /// The platform that the replicas must run on, if it is known; any if unset.
    pub runs_on: Option<RunsOn>,
    /// The vendor whose GPUs the pool must have, if it is known; any if unset.
    pub gpu: Option<GpuVendor>,
    /// The causes and mechanisms below it that it serves, one of which must be in the chain; any if empty.
    #[serde(default)]
    pub only_for: Vec<String>,
    /// The step is shown only if one of these checks holds; always if unset. Without data a check does not hold.
    pub only_if: Option<Verify>,
    /// The kind of change that it makes to the pool; the diagnosis adds how it is done, and its cost.
    pub changes: Option<StepChange>,
    /// The check that confirms the fix.
    pub verify: Option<Verify>,
    /// The reason why it has no check of its own.
    pub no_verify: Option<NoVerify>,
    /// The source of the instruction.
    pub source: Option<String>,
    /// The place in an override that puts it into a shipped playbook or cause; `None` for a step of the playbook's own file.
    #[serde(skip)]
    pub origin: Option<StepOrigin>,
}

/// The place of a step in a file of `overrides/`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepOrigin {
    /// The path, as in [`Library::files`].
    pub file: String,
    /// 1-based line.
    pub line: usize,
}

impl Step {
    /// Returns the engine versions, platform and GPUs that it is valid for, and the signs that ask for it, if limited:
    /// `vllm >= 0.8, pods, if error_ratio > 0.01`.
    pub fn holds_for(&self) -> Option<String> {
        let on = self.runs_on.map(|on| match on {
            RunsOn::Pods => "pods",
            RunsOn::Hosts => "hosts",
        });
        let gpu = self.gpu.map(|gpu| match gpu {
            GpuVendor::Amd => "AMD GPUs",
            GpuVendor::Nvidia => "NVIDIA GPUs",
        });
        let signs = self.only_if.as_ref().map(|sign| {
            let all: Vec<String> = sign.checks().into_iter().map(|c| format!("{} {}", c.signal, c.when)).collect();
            format!("if {}", all.join(" or "))
        });
        let limits = [self.engine.as_deref(), on, gpu, signs.as_deref()];
        let limits: Vec<&str> = limits.into_iter().flatten().collect();
        (!limits.is_empty()).then(|| limits.join(", "))
    }
}

/// The platform that the replicas of a pool run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RunsOn {
    /// Pods of Kubernetes: the engines' series have a pod label.
    Pods,
    /// Processes, containers or jobs on hosts: no series of the engines has a pod label.
    Hosts,
}

/// The reason why a step has no check of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NoVerify {
    /// The symptom's check of the alert, inverted, confirms it.
    Symptom,
    /// It only inspects and changes nothing.
    Looks,
    /// It prevents the next incident and changes nothing today.
    Prevents,
    /// No signal shows the effect.
    Unseen,
}

/// A check of a step: `verify` confirms it, `only_if` asks for it.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Verify {
    /// A name from the catalog.
    pub signal: String,
    /// The condition: of `verify` what holds after the fix, of `only_if` what holds before it.
    pub when: Condition,
    /// Further checks. Of `verify` each is used if those before it hold already or have no value, for a fault with several
    /// signs; of `only_if` one of all suffices.
    #[serde(default)]
    pub or: Vec<Self>,
}

impl Verify {
    /// Returns this check and the further ones, in order.
    pub fn checks(&self) -> Vec<&Self> {
        std::iter::once(self).chain(self.or.iter().flat_map(Self::checks)).collect()
    }
}

/// The severity of a generated alert: a page only if users are affected now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Display)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Severity {
    /// Pages the on-call.
    Critical,
    /// Posts to chat.
    Warning,
}

/// An alert rule that is generated for a playbook.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AlertRule {
    /// The name of the alert.
    pub alert: String,
    /// The severity: page or chat.
    pub severity: Severity,
    /// The rule's `for`: `5m`.
    #[serde(rename = "for")]
    pub hold: String,
    /// The conditions, all of which must hold. Only comparisons with numbers and with the past, and `no data` after the
    /// first condition, can become a rule.
    pub when: Vec<Evidence>,
    /// A burn that is too slow for the last minutes to tell: the share of the last hour and that of this long time, in hours
    /// or days (`1d`), must both meet the condition. Only for a single condition on a burn rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over: Option<String>,
    /// The scope of one alert: the pool, or each replica.
    #[serde(default)]
    pub each: AlertScope,
}

/// The scope of one alert.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AlertScope {
    /// A pool of replicas that serve one model.
    #[default]
    Pool,
    /// One replica.
    Replica,
}

//! The lints: the kinds of problems that the data can have, by name, and their descriptions in `playbooks/lints/`.

use std::collections::BTreeMap;

use serde::Deserialize;
use strum::{Display, EnumString, VariantNames};

/// The effect of a problem on the part of the data that has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LintEffect {
    /// The part is used, or loading refuses all data.
    Used,
    /// The part is in no diagnosis, message or report.
    Unused,
    /// As [`Self::Unused`] in a user's own file; a shipped file may lose its use by what a user replaces.
    UnusedIfOwn,
}

/// Defines the lints, each with its name and the effect of its problems.
macro_rules! lints {
    ($($lint:ident = $name:literal => $effect:ident,)*) => {
        /// A kind of problem in the data; it is printed as its name, such as `playbook/unknown-signal`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, Display, EnumString, VariantNames)]
        pub enum Lint {
            $(
                #[doc = concat!("The lint `", $name, "`.")]
                #[serde(rename = $name)]
                #[strum(serialize = $name)]
                $lint,
            )*
        }

        impl Lint {
            /// Returns the effect of its problems.
            pub fn effect(self) -> LintEffect {
                match self {
                    $(Self::$lint => LintEffect::$effect,)*
                }
            }
        }
    };
}

lints! {
    AlertCondition = "alert/condition" => Unused,
    AlertFor = "alert/for" => Unused,
    AlertLogSignal = "alert/log-signal" => Unused,
    CauseUnused = "cause/unused" => UnusedIfOwn,
    EndpointForbidden = "endpoint/forbidden" => Unused,
    EndpointMeaning = "endpoint/meaning" => Used,
    EndpointPointer = "endpoint/pointer" => Unused,
    EndpointTwice = "endpoint/twice" => Used,
    EvidenceOptional = "evidence/optional" => Used,
    EvidenceShape = "evidence/shape" => Unused,
    EvidenceThin = "evidence/thin" => Used,
    EvidenceUnit = "evidence/unit" => Unused,
    EvidenceWeight = "evidence/weight" => Used,
    EvidenceWithoutPast = "evidence/without-past" => Used,
    FilesPlace = "files/place" => Used,
    FilesTodo = "files/todo" => Used,
    FilesTwice = "files/twice" => Used,
    FilesUnread = "files/unread" => Unused,
    FilesUnreadable = "files/unreadable" => Used,
    HealthLogSignal = "health/log-signal" => Unused,
    HealthNoThreshold = "health/no-threshold" => Unused,
    HealthUnknownPlaybook = "health/unknown-playbook" => Unused,
    HealthUnknownSignal = "health/unknown-signal" => Unused,
    HealthyFleetTaken = "healthy-fleet/taken" => Used,
    HealthyFleetUnknownSignal = "healthy-fleet/unknown-signal" => Used,
    HistogramName = "histogram/name" => Used,
    InfoIdle = "info/idle" => Used,
    JsonShape = "json/shape" => Used,
    KindsFactor = "kinds/factor" => Unused,
    KindsNoCondition = "kinds/no-condition" => Unused,
    KindsNoRule = "kinds/no-rule" => Used,
    KindsTwice = "kinds/twice" => Unused,
    KindsUnknownPlaybook = "kinds/unknown-playbook" => Unused,
    KindsUnknownSignal = "kinds/unknown-signal" => Unused,
    LogCause = "log/cause" => UnusedIfOwn,
    LogDirection = "log/direction" => Unused,
    LogDo = "log/do" => Used,
    LogEngine = "log/engine" => Unused,
    LogExample = "log/example" => Used,
    LogFact = "log/fact" => Used,
    LogFollows = "log/follows" => Unused,
    LogNumbers = "log/numbers" => Used,
    LogPattern = "log/pattern" => Used,
    LogSource = "log/source" => Used,
    LogTells = "log/tells" => Unused,
    LogTwice = "log/twice" => Used,
    OverrideIdle = "override/idle" => Used,
    OverrideUnfit = "override/unfit" => Used,
    OverrideVerify = "override/verify" => Used,
    PhraseRead = "phrase/read" => Unused,
    PhraseShape = "phrase/shape" => Unused,
    PhraseTwice = "phrase/twice" => Used,
    PhraseUnknown = "phrase/unknown" => Unused,
    PhraseVariable = "phrase/variable" => Unused,
    PlaybookCycle = "playbook/cycle" => Unused,
    PlaybookEntry = "playbook/entry" => Unused,
    PlaybookExplains = "playbook/explains" => Unused,
    PlaybookFewCauses = "playbook/few-causes" => Used,
    PlaybookFolder = "playbook/folder" => Used,
    PlaybookLatency = "playbook/latency" => Used,
    PlaybookMissingTest = "playbook/missing-test" => Used,
    PlaybookNoSymptom = "playbook/no-symptom" => Unused,
    PlaybookUnknownCause = "playbook/unknown-cause" => Unused,
    PlaybookUnknownPlaybook = "playbook/unknown-playbook" => Unused,
    PlaybookUnknownSignal = "playbook/unknown-signal" => Unused,
    RedactionEmpty = "redaction/empty" => Used,
    RedactionExample = "redaction/example" => Used,
    RedactionId = "redaction/id" => Used,
    RedactionKey = "redaction/key" => Used,
    RedactionNearMiss = "redaction/near-miss" => Used,
    RedactionPattern = "redaction/pattern" => Used,
    RedactionTwice = "redaction/twice" => Used,
    RedactionWord = "redaction/word" => Used,
    ReportUnknownSignal = "report/unknown-signal" => Unused,
    SignalKind = "signal/kind" => Unused,
    SignalMixedPools = "signal/mixed-pools" => Used,
    SignalOrOutsideAggregation = "signal/or-outside-aggregation" => Used,
    SignalPlaceholder = "signal/placeholder" => Unused,
    SignalPool = "signal/pool" => Used,
    SignalPromql = "signal/promql" => Unused,
    SignalShape = "signal/shape" => Unused,
    SignalUnanswered = "signal/unanswered" => Used,
    SignalUnknown = "signal/unknown" => Unused,
    SignalUntold = "signal/untold" => UnusedIfOwn,
    SignalVersion = "signal/version" => Used,
    SignalWindow = "signal/window" => Used,
    SignalsEngine = "signals/engine" => Used,
    StepAct = "step/act" => Used,
    StepDeadFlag = "step/dead-flag" => Used,
    StepEngine = "step/engine" => Unused,
    StepNewFlag = "step/new-flag" => Used,
    StepNoVerify = "step/no-verify" => Used,
    StepOnlyFor = "step/only-for" => Used,
    TableBucket = "table/bucket" => Used,
    TableCode = "table/code" => Used,
    TableCounts = "table/counts" => Used,
    TableEngine = "table/engine" => Unused,
    TableFlag = "table/flag" => Used,
    TableGone = "table/gone" => Used,
    TableSource = "table/source" => Used,
    TableTwice = "table/twice" => Used,
    TableUnknownCause = "table/unknown-cause" => Unused,
    TableUnknownPlaybook = "table/unknown-playbook" => Unused,
    TestPlaybook = "test/playbook" => Used,
    TestUnknownPart = "test/unknown-part" => Used,
    TestUnknownSignal = "test/unknown-signal" => Used,
    TestVerdict = "test/verdict" => Used,
    TestVerify = "test/verify" => Used,
    TicketCause = "ticket/cause" => UnusedIfOwn,
    TicketEmpty = "ticket/empty" => Used,
    TicketEngine = "ticket/engine" => Unused,
    TicketSource = "ticket/source" => Used,
    TicketTwice = "ticket/twice" => Used,
    YamlId = "yaml/id" => Used,
    YamlSchema = "yaml/schema" => Used,
    YamlShape = "yaml/shape" => Used,
}

/// The description of a lint, for people.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LintEntry {
    /// The problem, a sentence.
    pub finds: String,
    /// The way to mend it, a sentence.
    pub mend: String,
    /// Files with the problem, by path in a directory of data; of a YAML file only the keys that matter.
    pub bad: BTreeMap<String, String>,
    /// The same files after they are mended.
    pub good: BTreeMap<String, String>,
    /// The reason why no test can try the examples; `None` if one does.
    pub untested: Option<String>,
}

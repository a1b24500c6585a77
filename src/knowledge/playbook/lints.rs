//! The lints: the kinds of problems that the data can have, by name, and their descriptions in `playbooks/lints/`.

use std::collections::BTreeMap;

use serde::Deserialize;
use strum::{Display, EnumString, VariantNames};

/// Defines the lints, each with its name.
macro_rules! lints {
    ($($lint:ident = $name:literal,)*) => {
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
    };
}

lints! {
    AlertCondition = "alert/condition",
    AlertFor = "alert/for",
    AlertLogSignal = "alert/log-signal",
    CauseUnused = "cause/unused",
    EndpointForbidden = "endpoint/forbidden",
    EndpointMeaning = "endpoint/meaning",
    EndpointPointer = "endpoint/pointer",
    EndpointTwice = "endpoint/twice",
    EvidenceOptional = "evidence/optional",
    EvidenceShape = "evidence/shape",
    EvidenceThin = "evidence/thin",
    EvidenceUnit = "evidence/unit",
    EvidenceWeight = "evidence/weight",
    EvidenceWithoutPast = "evidence/without-past",
    FilesPlace = "files/place",
    FilesTodo = "files/todo",
    FilesTwice = "files/twice",
    FilesUnread = "files/unread",
    FilesUnreadable = "files/unreadable",
    HealthLogSignal = "health/log-signal",
    HealthNoThreshold = "health/no-threshold",
    HealthUnknownPlaybook = "health/unknown-playbook",
    HealthUnknownSignal = "health/unknown-signal",
    HealthyFleetTaken = "healthy-fleet/taken",
    HealthyFleetUnknownSignal = "healthy-fleet/unknown-signal",
    HistogramName = "histogram/name",
    InfoIdle = "info/idle",
    JsonShape = "json/shape",
    KindsFactor = "kinds/factor",
    KindsNoCondition = "kinds/no-condition",
    KindsNoRule = "kinds/no-rule",
    KindsTwice = "kinds/twice",
    KindsUnknownPlaybook = "kinds/unknown-playbook",
    KindsUnknownSignal = "kinds/unknown-signal",
    LogCause = "log/cause",
    LogDirection = "log/direction",
    LogDo = "log/do",
    LogEngine = "log/engine",
    LogExample = "log/example",
    LogFact = "log/fact",
    LogNumbers = "log/numbers",
    LogPattern = "log/pattern",
    LogSource = "log/source",
    LogTells = "log/tells",
    LogTwice = "log/twice",
    OverrideIdle = "override/idle",
    OverrideUnfit = "override/unfit",
    OverrideVerify = "override/verify",
    PhraseRead = "phrase/read",
    PhraseShape = "phrase/shape",
    PhraseTwice = "phrase/twice",
    PhraseUnknown = "phrase/unknown",
    PhraseVariable = "phrase/variable",
    PlaybookCycle = "playbook/cycle",
    PlaybookEntry = "playbook/entry",
    PlaybookExplains = "playbook/explains",
    PlaybookFewCauses = "playbook/few-causes",
    PlaybookFolder = "playbook/folder",
    PlaybookLatency = "playbook/latency",
    PlaybookMissingTest = "playbook/missing-test",
    PlaybookNoSymptom = "playbook/no-symptom",
    PlaybookUnknownCause = "playbook/unknown-cause",
    PlaybookUnknownPlaybook = "playbook/unknown-playbook",
    PlaybookUnknownSignal = "playbook/unknown-signal",
    RedactionEmpty = "redaction/empty",
    RedactionExample = "redaction/example",
    RedactionId = "redaction/id",
    RedactionKey = "redaction/key",
    RedactionNearMiss = "redaction/near-miss",
    RedactionPattern = "redaction/pattern",
    RedactionTwice = "redaction/twice",
    RedactionWord = "redaction/word",
    ReportUnknownSignal = "report/unknown-signal",
    SignalKind = "signal/kind",
    SignalMixedPools = "signal/mixed-pools",
    SignalOrOutsideAggregation = "signal/or-outside-aggregation",
    SignalPlaceholder = "signal/placeholder",
    SignalPool = "signal/pool",
    SignalPromql = "signal/promql",
    SignalShape = "signal/shape",
    SignalUnanswered = "signal/unanswered",
    SignalUnknown = "signal/unknown",
    SignalUntold = "signal/untold",
    SignalVersion = "signal/version",
    SignalWindow = "signal/window",
    SignalsEngine = "signals/engine",
    StepDeadFlag = "step/dead-flag",
    StepEngine = "step/engine",
    StepNewFlag = "step/new-flag",
    StepNoVerify = "step/no-verify",
    TableBucket = "table/bucket",
    TableCode = "table/code",
    TableCounts = "table/counts",
    TableEngine = "table/engine",
    TableFlag = "table/flag",
    TableGone = "table/gone",
    TableSource = "table/source",
    TableTwice = "table/twice",
    TableUnknownPlaybook = "table/unknown-playbook",
    TestPlaybook = "test/playbook",
    TestUnknownPart = "test/unknown-part",
    TestUnknownSignal = "test/unknown-signal",
    TestVerdict = "test/verdict",
    TestVerify = "test/verify",
    TicketCause = "ticket/cause",
    TicketEmpty = "ticket/empty",
    TicketEngine = "ticket/engine",
    TicketSource = "ticket/source",
    TicketTwice = "ticket/twice",
    YamlId = "yaml/id",
    YamlSchema = "yaml/schema",
    YamlShape = "yaml/shape",
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

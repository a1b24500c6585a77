//! What must not leave, as data: `redaction.yaml`. [`crate::redact`] carries it out.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The shape of `redaction.yaml`; a site's own file adds rules, or replaces those with the same id.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Redaction {
    /// The format's version: 1.
    pub schema: u32,
    /// Parts of patterns by name; `{name}` in a pattern, or in a later word, stands for one.
    #[serde(default)]
    pub words: BTreeMap<String, String>,
    /// What is taken out. Where two overlap, the first one's id is told.
    #[serde(default)]
    pub rules: Vec<RedactionRule>,
    /// Fields and labels that hold names, for `--anonymize`.
    #[serde(default)]
    pub named_by: BTreeMap<NameKind, Vec<String>>,
    /// Fields and labels that hold models, whose names are kept.
    #[serde(default)]
    pub models: Vec<String>,
    /// Names that are words of the trade: replaced in fields and labels, left alone in free text.
    #[serde(default)]
    pub common: Vec<String>,
}

/// One kind of secret.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RedactionRule {
    /// What stands in its place: `[redacted: hf-token]`.
    pub id: String,
    /// What it is, in a few words.
    pub title: String,
    /// Patterns in free text; of a match the groups whose names begin with `secret` go, else all of it.
    #[serde(default)]
    pub text: Vec<String>,
    /// Names of fields, labels and arguments, matched from end to end, whose values go whole.
    #[serde(default)]
    pub keys: Vec<String>,
    /// Of `keys`: only in objects that also have one of these.
    #[serde(default)]
    pub beside: Vec<String>,
    /// Of `keys`: texts and lists go, single numbers stay.
    #[serde(default)]
    pub texts_only: bool,
    /// Names that `keys` or the group `name` match and that are none.
    pub unless_name: Option<String>,
    /// Values that are none: `None`, `${HF_TOKEN}`.
    pub unless_value: Option<String>,
    /// Texts with `⟦…⟧` around exactly what must go.
    #[serde(default)]
    pub examples: Vec<String>,
    /// Texts that no rule may touch.
    #[serde(default)]
    pub near_misses: Vec<String>,
    /// Names that `keys` must match.
    #[serde(default)]
    pub key_examples: Vec<String>,
    /// Names that no rule's `keys` may match.
    #[serde(default)]
    pub key_near_misses: Vec<String>,
}

/// What a name names, for pseudonyms: `pod-1`, `node-2`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum NameKind {
    /// A pod, container instance or replica.
    Pod,
    /// What makes pods: a Deployment, StatefulSet, ReplicaSet.
    Workload,
    /// A machine.
    Node,
    /// A namespace.
    Namespace,
    /// A host or address of the network.
    Host,
    /// A cluster.
    Cluster,
}

impl NameKind {
    /// What pseudonyms begin with.
    pub fn word(self) -> &'static str {
        match self {
            Self::Pod => "pod",
            Self::Workload => "workload",
            Self::Node => "node",
            Self::Namespace => "namespace",
            Self::Host => "host",
            Self::Cluster => "cluster",
        }
    }
}

impl Redaction {
    /// Puts a site's own file on top: the same word or id replaces, another adds; lists are joined.
    pub fn join(&mut self, own: Self) {
        self.schema = own.schema;
        self.words.extend(own.words);
        for rule in own.rules {
            match self.rules.iter_mut().find(|known| known.id == rule.id) {
                Some(known) => *known = rule,
                None => self.rules.push(rule),
            }
        }
        for (kind, fields) in own.named_by {
            self.named_by.entry(kind).or_default().extend(fields);
        }
        self.models.extend(own.models);
        self.common.extend(own.common);
    }
}

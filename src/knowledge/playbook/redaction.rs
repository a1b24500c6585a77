//! The redaction rules as data: `redaction.yaml`. `redact` applies them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

/// The shape of `redaction.yaml`; a site's own file adds rules, or replaces those with the same id.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Redaction {
    /// The format's version: 1.
    pub schema: u32,
    /// Named parts of patterns; `{name}` in a pattern, or in a later word, is replaced by one. A site's words have names that
    /// no shipped one has.
    #[serde(default)]
    pub words: BTreeMap<String, String>,
    /// The rules. If two overlap, the id of the first one is shown.
    #[serde(default)]
    pub rules: Vec<RedactionRule>,
    /// Fields and labels that contain names, for `--anonymize`.
    #[serde(default)]
    pub named_by: BTreeMap<NameKind, Vec<String>>,
    /// Patterns of names in free text, for `--anonymize`: the groups `pod`, `workload`, `node`, `namespace` and `host`.
    #[serde(default)]
    pub named_in_text: Vec<String>,
    /// Fields and labels that contain models, whose names are not replaced.
    #[serde(default)]
    pub models: Vec<String>,
    /// Common terms. A name or a secret that is one is replaced in its own field or label, not in other texts.
    #[serde(default)]
    pub common: Vec<String>,
    /// True if a site's own file is a part of it, so that its patterns may be wrong.
    #[serde(skip)]
    pub has_own: bool,
}

/// One kind of secret.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RedactionRule {
    /// The id in the replacement: `[redacted: hf-token]`.
    pub id: String,
    /// A description in a few words.
    pub title: String,
    /// Patterns in free text; of a match the groups whose names begin with `secret` are removed, else all of it.
    #[serde(default)]
    pub text: Vec<String>,
    /// Names of fields, labels and arguments, matched from end to end, whose whole values are removed.
    #[serde(default)]
    pub keys: Vec<String>,
    /// For `keys`: only in objects that also have one of these.
    #[serde(default)]
    pub beside: Vec<String>,
    /// Not in objects, nor on lines of JSON, that also have one of these.
    #[serde(default)]
    pub unless_beside: Vec<String>,
    /// For `keys`: true if texts and lists are removed but single numbers remain.
    #[serde(default)]
    pub texts_only: bool,
    /// For `keys`: true if they are names of environment variables. They count in lists and maps of an environment
    /// only, and the values are not searched for in other texts.
    #[serde(default)]
    pub environment: bool,
    /// A check that a value must pass, where a pattern alone finds too much.
    pub valid: Option<ValueCheck>,
    /// True if equal values get the same number and others another one: `[redacted: user-1]`. So series and log lines of
    /// several users stay apart. The values are not searched for in other texts.
    #[serde(default)]
    pub numbered: bool,
    /// Exceptions: names that `keys` or the group `name` match and that are not secret.
    pub unless_name: Option<String>,
    /// Exceptions: values that are not secret, such as `None`, `${HF_TOKEN}`.
    pub unless_value: Option<String>,
    /// Texts with `⟦…⟧` around exactly the parts to remove.
    #[serde(default)]
    pub examples: Vec<String>,
    /// Texts that no rule may change.
    #[serde(default)]
    pub near_misses: Vec<String>,
    /// Names that `keys` must match.
    #[serde(default)]
    pub key_examples: Vec<String>,
    /// Names that no rule's `keys` may match.
    #[serde(default)]
    pub key_near_misses: Vec<String>,
}

/// A check of a value that a pattern cannot do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ValueCheck {
    /// A card number: the check digit of ISO/IEC 7812 is right.
    Luhn,
    /// An IBAN: the remainder by 97 is 1, as in ISO 13616.
    Iban,
    /// A token without words: small and capital letters mixed with digits.
    Random,
    /// An IP address that is not of a private network, so hardly one of a pod or a node.
    PublicAddress,
}

/// The kind of a named thing, for pseudonyms: `pod-1`, `node-2`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema, IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum NameKind {
    /// A pod, container instance or replica.
    Pod,
    /// A controller of pods: a Deployment, StatefulSet, ReplicaSet.
    Workload,
    /// A node.
    Node,
    /// A namespace.
    Namespace,
    /// A host or network address.
    Host,
    /// A cluster.
    Cluster,
    /// A team.
    Team,
    /// A customer or tenant.
    Customer,
    /// A zone or region.
    Zone,
    /// A container.
    Container,
    /// A release of Helm.
    Release,
    /// The unique id of a Kubernetes object.
    Uid,
}

impl NameKind {
    /// Returns the prefix of the pseudonyms.
    pub fn word(self) -> &'static str {
        self.into()
    }
}

impl Redaction {
    /// Merges a site's own file: the same id replaces, another one adds, as other words do; lists are joined.
    pub fn join(&mut self, own: Self) {
        self.schema = own.schema;
        self.words.extend(own.words);
        for rule in own.rules {
            match self.rules.iter_mut().find(|existing| existing.id == rule.id) {
                Some(existing) => *existing = rule,
                None => self.rules.push(rule),
            }
        }
        for (kind, fields) in own.named_by {
            self.named_by.entry(kind).or_default().extend(fields);
        }
        self.named_in_text.extend(own.named_in_text);
        self.models.extend(own.models);
        self.common.extend(own.common);
    }
}

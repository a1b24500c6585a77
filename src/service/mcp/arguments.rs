//! The arguments of tools that no other edge has.

use schemars::JsonSchema;
use serde::Deserialize;

use knowledge::incident::IncidentState;

/// The part of the fleet.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct FleetArguments {
    /// Only pools of this cluster.
    #[schemars(with = "String")]
    pub(super) cluster: Option<String>,
    /// Only pools of this namespace.
    #[schemars(with = "String")]
    pub(super) namespace: Option<String>,
    /// Only pools of this model.
    #[schemars(with = "String")]
    pub(super) model: Option<String>,
}

/// The thing to explain.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ExplainArguments {
    /// The id of a playbook, cause, signal or engine; or a kind: xid, litellm, flag, log, signal, engine.
    pub(super) id: String,
    /// The name within a kind: 79, 429, --swap-space, a line of a log, kv_cache_usage, sglang.
    #[serde(default)]
    #[schemars(with = "String")]
    pub(super) name: Option<String>,
}

/// The incidents of a list.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ListArguments {
    /// Maximum number of incidents, 1 to 50; 10 without it.
    #[schemars(with = "u32", range(min = 1, max = 50))]
    pub(super) limit: Option<u32>,
    /// The `next` of an answer, for the incidents after it; with the same filters.
    #[schemars(with = "String")]
    pub(super) cursor: Option<String>,
    /// A part of the headline or of a label's value of an alert; in any case.
    #[schemars(with = "String")]
    pub(super) q: Option<String>,
    /// Only open or only resolved incidents.
    #[schemars(with = "IncidentState")]
    pub(super) state: Option<IncidentState>,
    /// A value of the label `severity` of an alert: critical.
    #[schemars(with = "String")]
    pub(super) severity: Option<String>,
    /// Only incidents opened at this time or later: RFC 3339, or a duration before now such as 24h.
    #[schemars(with = "String")]
    pub(super) since: Option<String>,
}

/// The incident in question.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct IncidentArguments {
    /// The incident's id, or at least four characters of its end.
    pub(super) incident: String,
}

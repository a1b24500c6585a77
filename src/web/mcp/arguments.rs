//! The arguments of tools that no other edge has.

use schemars::JsonSchema;
use serde::Deserialize;

use service::questions::ShortText;

/// Maximum number of characters of a line of a log.
const LINE_CHARS: usize = 2_000;

/// The thing to explain.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ExplainArguments {
    /// The id of a playbook, cause, signal or engine; or a kind: xid, litellm, flag, log, signal, engine.
    pub(super) id: ShortText,
    /// The name within a kind: 79, 429, --swap-space, a line of a log, kv_cache_usage, sglang.
    #[serde(default)]
    #[schemars(with = "ShortText<LINE_CHARS>")]
    pub(super) name: Option<ShortText<LINE_CHARS>>,
}

/// The incident in question.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct IncidentArguments {
    /// The incident's id, or at least four characters of its end.
    pub(super) incident: ShortText,
}

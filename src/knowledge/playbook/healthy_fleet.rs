//! `healthy-fleet.yaml`: the values from which verdict tests start.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

/// The shape of `healthy-fleet.yaml`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HealthyFleet {
    /// The format's version: 1.
    pub schema: u32,
    /// Name, as in a verdict test's `healthy:`, to the healthy value of each of its signals.
    pub parts: BTreeMap<String, BTreeMap<String, f64>>,
}

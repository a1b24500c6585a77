//! Coverage weighted by published studies of incidents: how many of theirs this fleet's signals could name.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The incidents of all studies that one Prometheus could name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StudiesCoverage {
    /// The configured name of the Prometheus.
    pub prometheus: String,
    /// Each study, in the order of the table.
    pub studies: Vec<StudyCoverage>,
}

/// The incidents of one study that a fleet could name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StudyCoverage {
    /// The study.
    pub study: String,
    /// The number of incidents.
    pub incidents: u32,
    /// The incidents of classes that a cause names whose checks have data: an upper bound, for a class may look different here.
    pub named: u32,
    /// Line to turn a signal on, to the number of further incidents that it alone lets one name.
    pub additions: BTreeMap<String, u32>,
    /// The classes, as in the table.
    pub classes: Vec<ClassCoverage>,
}

/// A class of incidents.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClassCoverage {
    /// The class, in the study's words.
    pub class: String,
    /// The number of its incidents.
    pub incidents: u32,
    /// The causes that name it; none if nothing does.
    pub causes: Vec<String>,
    /// The cause among them whose checks have data here.
    pub named_by: Option<String>,
    /// The reason why nothing names it.
    pub note: Option<String>,
    /// The source of its number.
    pub source: String,
}

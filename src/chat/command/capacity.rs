//! The arguments of `capacity`.

use clap::Args;

/// The arguments of `capacity`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct CapacityOf {
    /// A model, namespace, namespace/workload or pod, or an unambiguous part of its name.
    #[arg(value_name = "TARGET")]
    pub target: Option<String>,
}

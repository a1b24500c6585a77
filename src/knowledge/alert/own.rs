//! The alerts that llm-diagnose itself makes.

use super::Alert;
use super::watchdog::ALERTMANAGER_SILENT;

/// The name of the synthetic alert of `llm-diagnose selftest`.
pub const SELF_TEST: &str = "LLMDiagnoseSelfTest";
/// The label of that alert with the channel for its message; it counts only if the configuration has this channel.
pub const SELF_TEST_CHANNEL: &str = "channel";
/// The namespace of that alert: a pool that does not exist.
pub const SELF_TEST_POOL: &str = "llm-diagnose-selftest";

/// The kind of an alert that llm-diagnose itself makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnAlert {
    /// An expected Alertmanager does not send its always-firing alert.
    AlertmanagerSilent,
    /// A self test: nobody is called for it.
    SelfTest,
}

impl OwnAlert {
    /// Returns the kind that all `alerts` have, if it is one of ours.
    pub fn of(alerts: &[Alert]) -> Option<Self> {
        let name = alerts.first()?.name();
        let kind = match name {
            ALERTMANAGER_SILENT => Self::AlertmanagerSilent,
            SELF_TEST => Self::SelfTest,
            _ => return None,
        };
        // A group with any other alert is a real one.
        alerts.iter().all(|alert| alert.name() == name).then_some(kind)
    }
}

//! Questions that follow a verdict, or come before one: the alert's rule, other symptoms, onsets, affected replicas, checks of steps.

pub(crate) mod evidence_history;
pub(crate) mod impact;
pub(crate) mod onset;
pub(crate) mod ranges;
pub(crate) mod replica_values;
pub(crate) mod rule;
pub(crate) mod screen;
pub(crate) mod signals;

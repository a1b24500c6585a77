//! Knowledge that needs no query: alerts, incidents, signals, playbooks, time. No network, no async.

pub mod alert;
pub mod clip;
pub mod clock;
pub mod gap;
pub mod incident;
pub mod playbook;
pub mod promql;
pub mod signal;
pub mod weekday;

//! The documented result, `--output json`: plain values that are stored, printed and put into messages.

pub(crate) mod compared_with;
pub(crate) mod diagnosis;
pub(crate) mod direct_read;
pub(crate) mod excluded;
pub(crate) mod judgement;
pub(crate) mod latency_parts;
pub(crate) mod logs_read;
pub(crate) mod scope_found;
pub(crate) mod screening;

//! The documented result, `--output json`: plain values that are stored, printed and put into messages.

pub(crate) mod diagnosis;
pub(crate) mod direct_read;
pub(crate) mod excluded;
pub(crate) mod former_ids;
pub(crate) mod judgement;
pub(crate) mod logs_read;

//! The engines, gateways and pools that Prometheus has data of.

pub(crate) mod baseline_windows;
pub(crate) mod data_span;
pub(crate) mod detection;
pub(crate) mod detection_result;
pub(crate) mod fleet;
pub(crate) mod gateway;
pub(crate) mod gateway_pools;
pub(crate) mod narrow;
pub(crate) mod read_detection;
pub(crate) mod recorded_series;
pub(crate) mod unknown_labels;
pub(crate) mod visible_pools;

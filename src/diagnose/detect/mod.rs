//! The engines, gateways and pools that Prometheus has data of.

pub(crate) mod detection;
pub(crate) mod detection_result;
pub(crate) mod fleet;
pub(crate) mod gateway;
pub(crate) mod gateway_pools;
pub(crate) mod pool;
pub(crate) mod read_detection;
pub(crate) mod visible_pools;

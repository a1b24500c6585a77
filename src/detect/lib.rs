//! The engines, gateways and pools that Prometheus has data of, and the past that a pool has.

mod alert_condition;
mod baseline_windows;
mod data_span;
mod detection;
mod detection_result;
mod engine_rows;
mod fleet;
mod gateway;
mod gateway_pools;
mod names;
mod narrow;
mod planned_query;
mod read_detection;
mod recorded_series;
mod unknown_labels;
mod visible_pools;
mod workload;

pub use alert_condition::{condition, with_selected_pool};
pub use baseline_windows::{MARGIN, Past, compared_with, ladder};
pub use data_span::data;
pub use detection::{detection, detection_within, last_day, names_behind, newest, presence, was_present};
pub use detection_result::{DetectionResult, EngineSeen};
pub use fleet::{FleetPool, PoolMatch, find_pools, fleet, places};
pub use gateway_pools::{gateway_pools, pools_of_namespace};
pub use names::host;
pub use narrow::narrow;
pub use planned_query::{PlannedQuery, QueryPurpose};
pub use read_detection::{orchestrated, read_detection, read_detection_of};
pub use recorded_series::{PoolSeries, RecordedSeries};
pub use unknown_labels::{known_names, known_values, typed_label};
pub use visible_pools::{meant, pools};
pub use workload::with_pool_of_workload;

//! The names and labels of the series that the generated rules record: `llm:<signal>`, and `llm:<signal>:replica`.

use std::time::Duration;

/// The rate window that the shipped rules are recorded with.
pub const RECORDED_WINDOW: Duration = Duration::from_secs(300);

/// The labels of a pool, as the scope's dimension and the name that every recorded series has for it.
pub const RECORDED_POOL: [(&str, &str); 3] =
    [("cluster", "cluster"), ("namespace", "namespace"), ("model", "model_name")];

/// The name under which a signal of a pool, or of each of its replicas, is recorded.
pub fn recorded_name(signal: &str, by_replica: bool) -> String {
    if by_replica { format!("llm:{signal}:replica") } else { format!("llm:{signal}") }
}

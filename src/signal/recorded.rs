//! The names and labels of the series that the generated rules record: `llm:<signal>`, and `llm:<signal>:replica`.

/// The series that tells, for each engine, the rate window of what is recorded, in seconds.
pub const RECORDED_WINDOW: &str = "llm:rate_window_seconds";

/// The labels of a pool, as the scope's dimension and the name that every recorded series has for it.
pub const RECORDED_POOL: [(&str, &str); 3] =
    [("cluster", "cluster"), ("namespace", "namespace"), ("model", "model_name")];

/// The name under which a signal of a pool, or of each of its replicas, is recorded.
pub fn recorded_name(signal: &str, by_replica: bool) -> String {
    if by_replica { format!("llm:{signal}:replica") } else { format!("llm:{signal}") }
}

//! The names and labels of the series that the generated rules record: `llm:<signal>`, and `llm:<signal>:replica`.

/// The series with the rate window of the recorded series of each engine, in seconds.
pub const RECORDED_WINDOW: &str = "llm:rate_window_seconds";

/// The labels of a pool: the scope's dimension, and its label name in every recorded series.
pub const RECORDED_POOL: [(&str, &str); 3] =
    [("cluster", "cluster"), ("namespace", "namespace"), ("model", "model_name")];

/// Returns the name of a recorded signal of a pool, or of each of its replicas.
pub fn recorded_name(signal: &str, by_replica: bool) -> String {
    if by_replica { format!("llm:{signal}:replica") } else { format!("llm:{signal}") }
}

//! A log as it was fetched.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The text of one log, from whichever source.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Log {
    /// Where it was read: `kubernetes`, `loki`, or the file's name.
    pub source: String,
    /// The pod; none when the source does not tell.
    pub pod: Option<String>,
    /// The container.
    pub container: Option<String>,
    /// Of the container before the one that runs.
    pub previous: bool,
    /// Its lines, oldest first.
    pub text: String,
    /// There was more than was taken: of a file the middle is missing, where a line of the text says so, else the beginning.
    pub cut: bool,
}

impl Log {
    /// What it is called where several are: `llama-0/vllm (previous)`.
    pub fn name(&self) -> String {
        let mut name = self.pod.clone().unwrap_or_else(|| self.source.clone());
        if let Some(container) = &self.container {
            name = format!("{name}/{container}");
        }
        if self.previous { format!("{name} (previous)") } else { name }
    }
}

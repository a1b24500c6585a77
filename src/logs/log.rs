//! A fetched log.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The text of one log, from any source.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Log {
    /// The source: `kubernetes`, `loki`, or the file's name.
    pub source: String,
    /// The pod; `null` if unknown.
    pub pod: Option<String>,
    /// The container.
    pub container: Option<String>,
    /// True if this is the log of the container's previous instance.
    pub previous: bool,
    /// Its lines, oldest first.
    pub text: String,
    /// True if a part is missing: the beginning, or of a file the middle, where a line of the text marks the gap.
    pub cut: bool,
}

impl Log {
    /// Returns the display name: `llama-0/vllm (previous)`.
    pub fn name(&self) -> String {
        let mut name = self.pod.clone().unwrap_or_else(|| self.source.clone());
        if let Some(container) = &self.container {
            name = format!("{name}/{container}");
        }
        if self.previous { format!("{name} (previous)") } else { name }
    }
}

/// Bytes of a log's start that are fetched beside its end: it holds versions, arguments and capacity.
pub const HEAD_BYTES: u64 = 64 << 10;

/// Joins the start and the end of a log; true if nothing between them is missing, else a line marks the gap. The end is
/// truncated if the result would exceed `bytes`.
pub fn joined(head: &str, tail: &str, bytes: u64) -> (String, bool) {
    // The last line of the start may be incomplete.
    let head = &head[..head.rfind('\n').map_or(0, |at| at + 1)];
    let first = tail.lines().next().unwrap_or_default();
    // They overlap where the rest of the start is the beginning of the end; one equal line is not enough, since lines
    // repeat.
    let meets = |at: usize| {
        let (before, rest) = head.split_at(at);
        let whole_line = before.is_empty() || before.ends_with('\n');
        whole_line && !rest.is_empty() && (tail.starts_with(rest) || rest.starts_with(tail))
    };
    let most = usize::try_from(bytes).unwrap_or(usize::MAX);
    if let Some((at, _)) = head.match_indices(first).find(|(at, _)| meets(*at))
        && at + tail.len() <= most
    {
        return (format!("{}{tail}", &head[..at]), true);
    }
    if head.is_empty() {
        return (tail.to_owned(), false);
    }
    let over = (head.len() + LEFT_OUT.len() + tail.len()).saturating_sub(most);
    let line_end = tail.as_bytes().get(over..).and_then(|rest| rest.iter().position(|byte| *byte == b'\n'));
    let from = if over == 0 { 0 } else { line_end.map_or(tail.len(), |end| over + end + 1) };
    (format!("{head}{LEFT_OUT}{}", &tail[from..]), false)
}

/// The line that marks a gap.
const LEFT_OUT: &str = "[llm-diagnose: a part of this log is left out here]\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_and_the_end_of_a_log_meet_or_say_that_something_is_missing() {
        assert_eq!(joined("a\nb\nc\nd", "c\nd\ne\n", 100), ("a\nb\nc\nd\ne\n".to_owned(), true));
        let (text, whole) = joined("a\nb\nc", "x\ny\n", 100);
        assert!(!whole && text == format!("a\nb\n{LEFT_OUT}x\ny\n"), "{text}");
        // Neither a partial line nor a repeated line counts as an overlap.
        assert!(!joined("a\nb\na\nc\n", "a\nd\n", 100).1);
        assert!(!joined("xc\nd\n", "c\nd\n", 100).1);
        assert_eq!(joined("", "x\n", 100), ("x\n".to_owned(), false));
        // An overlap is limited to the size as well: no line is repeated, and the newest lines are retained.
        let all: String = (0..100).map(|i| format!("line {i:02}\n")).collect();
        let (text, whole) = joined(&all[..160], &all[80..], 400);
        assert!(!whole && text.len() <= 400 && text.matches("line 15\n").count() == 1, "{text}");
        assert!(text.starts_with("line 00\n") && text.ends_with("line 99\n"), "{text}");
        let long = "ü line\n".repeat(100);
        let (text, whole) = joined("start\n", &long, 200);
        assert!(!whole && text.len() <= 200 && text.starts_with("start\n") && text.ends_with("ü line\n"), "{text}");
    }
}

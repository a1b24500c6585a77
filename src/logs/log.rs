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

/// Bytes of a log's start that are kept beside its end: versions, arguments and capacity stand there.
pub const HEAD_BYTES: u64 = 64 << 10;

/// The start of a log put before its end, and whether nothing between them is left out; else a line there says so. Of both
/// together the end gives way to stay within `bytes`.
pub fn joined(head: &str, tail: &str, bytes: u64) -> (String, bool) {
    // The last line of the start may be a piece.
    let head = &head[..head.rfind('\n').map_or(0, |at| at + 1)];
    let first = tail.lines().next().unwrap_or_default();
    // They meet where all that follows in the start is the end's beginning: one line may be said many times.
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
    let whole = tail.as_bytes().get(over..).and_then(|rest| rest.iter().position(|byte| *byte == b'\n'));
    let from = if over == 0 { 0 } else { whole.map_or(tail.len(), |end| over + end + 1) };
    (format!("{head}{LEFT_OUT}{}", &tail[from..]), false)
}

/// Stands where a part of a log is missing.
const LEFT_OUT: &str = "[llm-diagnose: a part of this log is left out here]\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_and_the_end_of_a_log_meet_or_say_that_something_is_missing() {
        assert_eq!(joined("a\nb\nc\nd", "c\nd\ne\n", 100), ("a\nb\nc\nd\ne\n".to_owned(), true));
        let (text, whole) = joined("a\nb\nc", "x\ny\n", 100);
        assert!(!whole && text == format!("a\nb\n{LEFT_OUT}x\ny\n"), "{text}");
        // Neither a piece of another line nor one that is said again is where they meet.
        assert!(!joined("a\nb\na\nc\n", "a\nd\n", 100).1);
        assert!(!joined("xc\nd\n", "c\nd\n", 100).1);
        assert_eq!(joined("", "x\n", 100), ("x\n".to_owned(), false));
        // What meets is held to the bound as well: nothing is said twice, and the newest lines stay.
        let all: String = (0..100).map(|i| format!("line {i:02}\n")).collect();
        let (text, whole) = joined(&all[..160], &all[80..], 400);
        assert!(!whole && text.len() <= 400 && text.matches("line 15\n").count() == 1, "{text}");
        assert!(text.starts_with("line 00\n") && text.ends_with("line 99\n"), "{text}");
        let long = "ü line\n".repeat(100);
        let (text, whole) = joined("start\n", &long, 200);
        assert!(!whole && text.len() <= 200 && text.starts_with("start\n") && text.ends_with("ü line\n"), "{text}");
    }
}

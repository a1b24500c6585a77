//! Short texts: cut to a limit with `…` where something is left out; errors with their causes; numbers of things.

/// Maximum characters of one cause in an error: parsers repeat their input.
const CAUSE_CHARS: usize = 1_000;

/// Truncates a text to `most` characters, the `…` included.
pub fn clip(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some(_) => text.chars().take(most.saturating_sub(1)).chain(['…']).collect(),
    }
}

/// Truncates a text to `most` UTF-16 units, the `…` included. Slack counts its limits in these units.
pub fn clip_utf16(text: &str, most: usize) -> String {
    match utf16_units(text) <= most {
        true => text.to_owned(),
        false => format!("{}…", utf16_start(text, most.saturating_sub(1))),
    }
}

/// Returns the longest start of a text that has at most `most` UTF-16 units.
pub fn utf16_start(text: &str, most: usize) -> &str {
    let mut units = 0;
    let end = text.char_indices().find_map(|(at, c)| {
        units += c.len_utf16();
        (units > most).then_some(at)
    });
    &text[..end.unwrap_or(text.len())]
}

/// Returns the length of a text in UTF-16 units.
pub fn utf16_units(text: &str) -> usize {
    text.encode_utf16().count()
}

/// Formats an error with its causes; a cause that is already in the text is not repeated.
pub fn format_error(error: &anyhow::Error) -> String {
    let (mut joined, mut causes) = (String::new(), Vec::new());
    for cause in error.chain().map(ToString::to_string) {
        if !joined.contains(&cause) {
            causes.push(clip(&cause, CAUSE_CHARS));
            joined.push_str(&cause);
        }
    }
    causes.join(": ")
}

/// Formats a number of things, whose plural ends in s: `1 problem`, `2 problems`.
pub fn format_count(n: usize, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;
    use crate::alert::AlertGroup;

    #[test]
    fn a_text_within_the_limit_stays_and_a_longer_one_says_that_it_is_cut() {
        assert_eq!([clip("", 0), clip("añb", 3), clip("añb", 2)], ["", "añb", "a…"]);
        assert_eq!([clip_utf16("abc", 3), clip_utf16("abcd", 3), clip_utf16("abcd", 0)], ["abc", "ab…", "…"]);
    }

    #[test]
    fn a_character_of_two_units_is_never_cut_in_half() {
        let faces = "😀".repeat(50);
        assert_eq!(clip_utf16(&faces, 75), format!("{}…", "😀".repeat(37)));
        assert_eq!(utf16_units(&clip_utf16(&faces, 75)), 75);
    }

    #[test]
    fn an_error_says_each_cause_once_and_cuts_what_a_parser_repeats() {
        let said = |json: &str| {
            format_error(&AlertGroup::from_file(json.as_bytes()).context("a.json holds no alert").unwrap_err())
        };
        let unreadable = said("nonsense");
        assert_eq!(unreadable.matches("expected ident").count(), 1, "{unreadable}");
        let long = said(&format!("{{\"status\": \"{}\"}}", "x".repeat(100_000)));
        assert!(long.starts_with("a.json holds no alert: ") && long.chars().count() < 1_100, "{}", long.len());
    }
}

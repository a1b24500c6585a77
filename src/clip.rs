//! Shortens texts to a limit, with `…` where something is left out.

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

#[cfg(test)]
mod tests {
    use super::*;

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
}

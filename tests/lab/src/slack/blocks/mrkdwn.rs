//! Slack's `mrkdwn`: what of a text is an entity, what is a live mention, and what was left unescaped.
//!
//! Formatting (`*bold*`, code) is not interpreted. Source: <https://docs.slack.dev/messaging/formatting-message-text/>.

/// One stretch of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Piece<'a> {
    /// Plain characters.
    Text(&'a str),
    /// `&amp;`, `&lt;` or `&gt;`, decoded.
    Escaped(char),
    /// A link to an address, with the words shown in its place.
    Link { url: &'a str, label: Option<&'a str> },
    /// A reference that notifies nobody: a channel or a date, with the words shown in its place.
    Reference(&'a str),
    /// Something that notifies people, as between its angle brackets.
    Mention(&'a str),
    /// A control character that forms nothing, with what follows it up to 30 characters.
    Stray(&'a str),
}

/// Cuts a text into its pieces.
pub(crate) fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut found = Vec::new();
    let (mut plain_from, mut at) = (0, 0);
    while let Some(offset) = text[at..].find(['<', '>', '&']) {
        at += offset;
        let (piece, length) = control(text, at);
        if let Some(piece) = piece {
            if plain_from < at {
                found.push(Piece::Text(&text[plain_from..at]));
            }
            found.push(piece);
            plain_from = at + length;
        }
        at += length;
    }
    if plain_from < text.len() {
        found.push(Piece::Text(&text[plain_from..]));
    }
    found
}

/// The piece that the control character at `at` opens, and its length; no piece if it is plain text.
fn control(text: &str, at: usize) -> (Option<Piece<'_>>, usize) {
    let rest = &text[at..];
    match rest.as_bytes()[0] {
        b'&' => match [("&amp;", '&'), ("&lt;", '<'), ("&gt;", '>')].iter().find(|(name, _)| rest.starts_with(name)) {
            Some((name, character)) => (Some(Piece::Escaped(*character)), name.len()),
            None => (Some(stray(rest)), 1),
        },
        b'>' if quotes(&text[..at]) => (None, 1),
        b'<' => match rest[1..].find(['<', '>', '\n']) {
            Some(end) if rest[1 + end..].starts_with('>') => match entity(&rest[1..=end]) {
                Some(piece) => (Some(piece), end + 2),
                None => (Some(stray(rest)), 1),
            },
            _ => (Some(stray(rest)), 1),
        },
        _ => (Some(stray(rest)), 1),
    }
}

/// Whether a `>` after this text opens a quotation: it stands at the start of its line.
fn quotes(before: &str) -> bool {
    let line = before.rsplit('\n').next().unwrap_or_default();
    line.chars().all(|c| c == '>' || c == ' ')
}

fn stray(rest: &str) -> Piece<'_> {
    let end = rest.char_indices().nth(30).map_or(rest.len(), |(index, _)| index);
    Piece::Stray(&rest[..end])
}

/// What stands between angle brackets, if it is something Slack knows.
fn entity(inside: &str) -> Option<Piece<'_>> {
    let (target, label) = match inside.split_once('|') {
        Some((target, label)) => (target, Some(label)),
        None => (inside, None),
    };
    let is_id = |id: &str, kinds: &[char]| {
        id.starts_with(kinds) && id.len() > 1 && id.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit())
    };
    if let Some(id) = target.strip_prefix('@') {
        return is_id(id, &['U', 'W']).then_some(Piece::Mention(inside));
    }
    if let Some(id) = target.strip_prefix('#') {
        return is_id(id, &['C', 'G']).then_some(Piece::Reference(label.unwrap_or(target)));
    }
    if let Some(command) = target.strip_prefix('!') {
        return match command.split('^').collect::<Vec<_>>()[..] {
            ["here" | "channel" | "everyone"] => Some(Piece::Mention(inside)),
            ["subteam", id] if is_id(id, &['S']) => Some(Piece::Mention(inside)),
            ["date", seconds, _format, ..] if seconds.parse::<i64>().is_ok() => label.map(Piece::Reference),
            _ => None,
        };
    }
    let is_link =
        ["http://", "https://", "mailto:", "tel:", "slack://"].iter().any(|scheme| target.starts_with(scheme));
    (is_link && !target.contains(' ')).then_some(Piece::Link { url: target, label })
}

/// The text as a person reads it: entities replaced by their words, escapes decoded; a link ends in `↗`.
pub(crate) fn readable(text: &str) -> String {
    let mut shown = String::new();
    for piece in pieces(text) {
        match piece {
            Piece::Text(text) => shown.push_str(text),
            Piece::Escaped(character) => shown.push(character),
            Piece::Link { url, label } => {
                shown.push_str(&label.map_or_else(|| url.to_owned(), readable));
                shown.push('↗');
            }
            Piece::Reference(label) => shown.push_str(label),
            Piece::Mention(name) => {
                let (target, label) = name.split_once('|').unwrap_or((name, ""));
                let bare = target.trim_start_matches(['@', '!']).trim_start_matches("subteam^");
                shown.push('@');
                shown.push_str(if label.is_empty() { bare } else { label.trim_start_matches('@') });
            }
            Piece::Stray(rest) => shown.push_str(&rest[..1]),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strays(text: &str) -> Vec<&str> {
        pieces(text)
            .into_iter()
            .filter_map(|piece| if let Piece::Stray(rest) = piece { Some(rest) } else { None })
            .collect()
    }

    #[test]
    fn entities_and_escapes_are_not_strays() {
        let text =
            "*x* <https://a.b/?c=1&d=2|c> &lt;ok&gt; &amp; <#C012AB3CD> <!date^1700000000^{time}|noon> <mailto:a@b.c>";
        assert!(strays(text).is_empty(), "{:?}", strays(text));
    }

    #[test]
    fn a_bare_control_character_is_a_stray() {
        assert_eq!(strays("a < b"), ["< b"]);
        assert_eq!(strays("a -> b"), ["> b"]);
        assert_eq!(strays("R&D &nbsp;"), ["&D &nbsp;", "&nbsp;"]);
        assert_eq!(strays("<script>"), ["<script>", ">"]);
        assert_eq!(strays("<@nobody>"), ["<@nobody>", ">"]);
        assert_eq!(strays("<https://a.b\n>"), ["<https://a.b\n>"]);
    }

    #[test]
    fn a_greater_than_sign_at_the_start_of_a_line_is_a_quotation() {
        assert!(strays("> quoted\n>>> more").is_empty());
    }

    #[test]
    fn whatever_notifies_people_is_a_mention() {
        for text in
            ["<!here>", "<!channel|channel>", "<!everyone>", "<@U012AB3CD>", "<@W012AB3CD|ann>", "<!subteam^S01>"]
        {
            assert!(matches!(pieces(text)[..], [Piece::Mention(_)]), "{text}");
        }
    }

    #[test]
    fn a_person_reads_words_instead_of_entities() {
        let text = "&lt;pod&gt; <https://a.b|A &amp; B> <!here> <@U1|@ann> <!date^1^{time}|noon> <#C1|ops>";
        assert_eq!(readable(text), "<pod> A & B↗ @here @ann noon ops");
    }
}

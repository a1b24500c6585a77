//! Text as Slack sends it: markup, invisible characters, the typography of editors.

/// Removes Slack's markup and undoes the typography of editors; invisible characters become spaces.
pub(super) fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        out.push_str(&rest[..at]);
        let inside = &rest[at + 1..];
        let Some(end) = inside.find('>') else {
            out.push_str(&rest[at..]);
            rest = "";
            break;
        };
        out.push_str(&display_text(&inside[..end]));
        rest = &inside[end + 1..];
    }
    out.push_str(rest);
    let out = out.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    let typed = out.chars().map(|c| match c {
        '\u{201c}' | '\u{201d}' | '\u{201e}' | '\u{ab}' | '\u{bb}' => '"',
        '\u{2018}' | '\u{2019}' | '\u{201a}' => '\'',
        c if c.is_control() || c.is_whitespace() || is_unseen(c) => ' ',
        c => c,
    });
    // Editors replace two dashes with one long dash.
    typed.collect::<String>().replace(['\u{2014}', '\u{2013}'], "--").replace(['`', '*'], "")
}

/// Returns true for invisible characters: direction marks, zero width, private use.
fn is_unseen(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}' | '\u{e000}'..='\u{f8ff}')
}

/// Returns the visible text of Slack's markup `<…>`.
fn display_text(inside: &str) -> String {
    let (target, label) = match inside.split_once('|') {
        Some((target, label)) => (target, Some(label)),
        None => (inside, None),
    };
    match (target.chars().next(), label) {
        // A mention is not part of the command.
        (Some('@' | '!'), _) => String::new(),
        (_, Some(label)) => label.to_owned(),
        (Some('#'), None) => target[1..].to_owned(),
        (_, None) => target.to_owned(),
    }
}

//! Modals: their layout, their private metadata, and the pages of evidence.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use findings::Diagnosis;
use knowledge::incident::Act;
use message::{Block, Line};
use render::{self, Phrases, cut};
use slack::SlackRequest;

/// The longest title or button label of a modal, in characters.
const TITLE_CHARS: usize = 24;
/// The longest text or value of a menu option, in characters.
pub(super) const OPTION_CHARS: usize = 75;
/// Maximum number of options of a menu; Slack accepts 100.
pub(super) const OPTIONS: usize = 99;
/// Maximum number of bytes of blocks on a page of evidence, below Slack's limit for all blocks together.
const PAGE_BYTES: usize = 9_000;
/// Maximum number of blocks on a page of evidence; Slack accepts 100, [`render::slack_blocks`] emits at most 40.
const PAGE_BLOCKS: usize = 36;
/// Maximum number of bytes of lines under one title.
const SECTION_BYTES: usize = 2_000;

/// The private metadata of a modal. Slack stores it while the user fills in the form; it is untrusted input.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct ModalMetadata {
    pub(super) incident: String,
    /// The channel of the answer.
    pub(super) channel: String,
    pub(super) thread: Option<String>,
    /// Another place of the answer, of the form for a target.
    pub(super) response_url: Option<String>,
    /// The index of the next page of evidence.
    pub(super) page: usize,
}

impl ModalMetadata {
    pub(super) fn of(incident: &str, inbound: &SlackRequest) -> Self {
        let place = &inbound.place;
        let (channel, thread) = (place.channel.clone(), place.thread.clone());
        Self { incident: incident.to_owned(), channel, thread, ..Self::default() }
    }

    pub(super) fn read(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok().filter(|about: &Self| !about.incident.is_empty())
    }
}

/// Builds a modal; without `submit` it has no submit button.
pub(super) fn modal(
    words: &Phrases,
    title: &str,
    submit: Option<&str>,
    form: &str,
    about: &ModalMetadata,
    blocks: Vec<Value>,
) -> Value {
    let mut view = json!({
        "type": "modal", "callback_id": form, "title": plain(title, TITLE_CHARS),
        "close": plain(&words.text("form-close", &[]), TITLE_CHARS), "blocks": blocks,
        // Ids, timestamps and one address of Slack: far below its limit of 3,000 characters.
        "private_metadata": serde_json::to_string(about).unwrap_or_default(),
    });
    if let Some(submit) = submit {
        view["submit"] = plain(submit, TITLE_CHARS);
    }
    view
}

/// Builds a modal that shows one sentence.
pub(super) fn notice(words: &Phrases, line: Line) -> Value {
    let blocks = render::slack_blocks(&[Block::Paragraph(line)]);
    modal(words, &words.text("form-notice", &[]), None, "notice", &ModalMetadata::default(), blocks)
}

/// Builds a plain text object, truncated to `most` characters.
pub(super) fn plain(text: &str, most: usize) -> Value {
    json!({ "type": "plain_text", "text": cut(text, most), "emoji": false })
}

/// Builds an input block with its label.
pub(super) fn input(id: &str, label: &str, optional: bool, element: Value) -> Value {
    json!({ "type": "input", "block_id": id, "label": plain(label, 2_000), "optional": optional, "element": element })
}

pub(super) fn text_box(id: &str, lines: bool, most: usize, hint: &str) -> Value {
    let mut element = json!({ "type": "plain_text_input", "action_id": id, "multiline": lines, "max_length": most });
    if !hint.is_empty() {
        element["placeholder"] = plain(hint, 150);
    }
    element
}

pub(super) fn option(label: &str, value: &str) -> Value {
    json!({ "text": plain(label, OPTION_CHARS), "value": value })
}

/// Builds one page of all evidence; the submit button opens the next page.
pub(super) fn evidence(diagnosis: &Diagnosis, words: &Phrases, about: &ModalMetadata) -> Value {
    let parts: Vec<Block> = render::evidence_parts(diagnosis, words).into_iter().flat_map(divided).collect();
    let pages = paged(&parts);
    let at = about.page.min(pages.len().saturating_sub(1));
    let blocks = pages.get(at).map(|parts| render::slack_blocks(parts)).unwrap_or_default();
    let more = at + 1 < pages.len();
    let pieces = [("n", (at + 1).into()), ("all", pages.len().into())];
    let next = words.text("evidence-next", &pieces);
    let title = match pages.len() {
        0 | 1 => words.text("evidence-title", &[]),
        _ => words.text("evidence-title-page", &pieces),
    };
    let about = ModalMetadata { page: at + 1, ..about.clone() };
    modal(words, &title, more.then_some(&next), Act::Evidence.as_str(), &about, blocks)
}

/// Splits a section whose lines exceed [`SECTION_BYTES`] into several with the same title.
fn divided(part: Block) -> Vec<Block> {
    let (title, lines) = match part {
        Block::Section(title, lines) => (title, lines),
        other => return vec![other],
    };
    let mut out: Vec<(Vec<Line>, usize)> = vec![(Vec::new(), 0)];
    for line in lines {
        let bytes = line.text().len();
        match out.last_mut() {
            Some((some, held)) if some.is_empty() || *held + bytes <= SECTION_BYTES => {
                *held += bytes;
                some.push(line);
            }
            _ => out.push((vec![line], bytes)),
        }
    }
    out.into_iter().map(|(lines, _)| Block::Section(title.clone(), lines)).collect()
}

fn paged(parts: &[Block]) -> Vec<Vec<Block>> {
    let mut pages: Vec<(Vec<Block>, usize)> = Vec::new();
    for part in parts {
        let blocks = render::slack_blocks(std::slice::from_ref(part));
        let bytes: usize = blocks.iter().map(|block| block.to_string().len()).sum();
        match pages.last_mut() {
            Some((page, held)) if *held + bytes <= PAGE_BYTES && page.len() < PAGE_BLOCKS => {
                *held += bytes;
                page.push(part.clone());
            }
            _ => pages.push((vec![part.clone()], bytes)),
        }
    }
    pages.into_iter().map(|(page, _)| page).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evidence_that_is_too_long_for_one_page_is_on_several_and_none_is_lost() {
        let lines: Vec<Line> = (0..400).map(|i| Line::of(&format!("check {i} {}", "x".repeat(80)))).collect();
        let parts: Vec<Block> = divided(Block::Section("all".into(), lines));
        let pages = paged(&parts);
        assert!(pages.len() > 2);
        let shown: String =
            pages.iter().map(|page| serde_json::to_string(&render::slack_blocks(page)).unwrap()).collect();
        assert!((0..400).all(|i| shown.contains(&format!("check {i} "))), "{shown}");
    }

    #[test]
    fn what_is_cut_ends_with_a_mark_and_fits() {
        assert_eq!(cut("a\u{202e}b\n\u{2066}\u{200f}", 75), "a b   ");
        assert_eq!(cut(&"😀".repeat(50), 75).encode_utf16().count(), 75);
    }
}

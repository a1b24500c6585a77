//! Diagnosis and incident ─▶ [`message::Message`] ─▶ Slack blocks, terminal text, or a page. Pure.
//!
//! A message is independent of the medium, and so is the document of a report. The phrases are in
//! `playbooks/phrases`, the formatting is in one file per medium, and each medium escapes untrusted text itself.

mod blocks;
mod buttons;
mod compared;
mod coverage;
mod diagnosis_chart;
mod digest;
mod direct;
mod document;
mod evidence;
mod facts;
mod foot;
mod full_diagnosis;
mod headline;
mod health;
mod health_screen;
mod incident_message;
mod incident_studies;
mod latency;
mod links;
mod logs;
mod markdown;
mod notes;
mod own_alert;
mod page;
mod phrases;
mod promise;
mod related;
mod report_document;
mod restart;
mod rollout;
mod root_cause;
mod screened;
mod short;
mod steps;
mod symptom;
mod text;
mod thread;
mod view;
mod weekly;

pub use blocks::{MENU, slack, slack_blocks, slack_line, slack_with_blocks, with_mentions};
pub use buttons::button;
pub use coverage::coverage;
pub use diagnosis_chart::{diagnosis_chart, mark_events};
pub use digest::{DigestEntry, DigestView, digest_message};
pub use document::Document;
pub use evidence::evidence_parts;
pub use full_diagnosis::diagnosis_message;
pub use health::health_message;
pub use health_screen::health;
pub use incident_message::incident_message;
pub use incident_studies::studies;
pub use links::{graph, links_of};
pub use logs::logs;
pub use markdown::{message_markdown, report_markdown, ticket, tickets_for};
pub use notes::{is_done, note, step_id, step_text};
pub use page::{
    FormSeal, IncidentFilter, IncidentList, IncidentRow, PAGE_ACTS, PageActs, SilenceFields, document_page,
    health_page, incidents_page, note_page, playbook_page, playbooks_page, policy, problem_page, report_page,
    silence_page, tagged,
};
pub use phrases::{ENGLISH, OwnPhrases, PhraseArgument, Phrases, own_phrases};
pub use report_document::ReportPageContext;
pub use short::short;
pub use text::{Commands, clean, terminal, terminal_with, tone_style, wrap};
pub use thread::{ThreadState, changes};
pub use view::IncidentView;
pub use weekly::{daily_message, weekly_message};

use knowledge::clip::clip_utf16;

/// Truncates text to `most` UTF-16 units; control and direction characters become spaces.
pub fn cut(text: &str, most: usize) -> String {
    let clean = |c: char| if is_unseen(c) { ' ' } else { c };
    clip_utf16(&text.chars().map(clean).collect::<String>(), most)
}

/// Returns true if a character only moves the cursor, breaks the line, or changes the text direction.
pub fn is_unseen(c: char) -> bool {
    let turns = matches!(c, '\u{200e}' | '\u{200f}' | '\u{061c}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || turns || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}')
}

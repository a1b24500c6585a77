//! The draft of an incident's post-mortem, in Markdown, from what the store knows.

use anyhow::{Context, anyhow};
use jiff::Timestamp;

use crate::Subject;
use knowledge::playbook::Library;
use redact::Redactor;
use render::Phrases;
use report::SourceFindings;

/// The form among those of tickets.
const FORM: &str = "postmortem";

/// Writes the draft of a subject without secrets, as of `now`.
///
/// # Errors
/// With the reason, if it cannot be cleaned of secrets or the user's playbooks have no such form.
pub fn postmortem(
    library: &Library,
    redactor: &Redactor,
    words: &Phrases,
    subject: &Subject,
    now: Timestamp,
) -> anyhow::Result<String> {
    let form = library.tickets.get(FORM).context("the playbooks have no form `tickets/postmortem.yaml`")?;
    let report = report::build(subject.about(), SourceFindings::default(), now);
    redactor.learn_from(&report);
    let report =
        redactor.cleaned("summary.json", &report).map_err(|e| anyhow!("it cannot be cleaned of secrets: {e}"))?;
    Ok(render::ticket(form, &report, words))
}

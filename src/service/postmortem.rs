//! The draft of an incident's post-mortem, in Markdown, from what the store knows.

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
) -> Result<String, NoPostmortem> {
    let form = library.tickets.get(FORM).ok_or(NoPostmortem::NoForm)?;
    let report = report::build(subject.about(), SourceFindings::default(), now);
    redactor.learn_from(&report);
    let report = redactor.cleaned("summary.json", &report).map_err(NoPostmortem::Unclean)?;
    Ok(render::ticket(form, &report, words))
}

/// The reason why there is no draft.
#[derive(Debug, thiserror::Error)]
pub enum NoPostmortem {
    /// The form was taken out of the playbooks.
    #[error("the playbooks have no form `tickets/postmortem.yaml`")]
    NoForm,
    /// The report cannot be cleaned of secrets.
    #[error("it cannot be cleaned of secrets: {0}")]
    Unclean(serde_json::Error),
}

//! A call to a pager, and the data for it.

use message::Message;
use render::Phrases;
use store::Incident;

/// The data for a call.
pub(super) struct PagerUpdate<'a> {
    /// The incident without secrets, but with its own group key, which is part of PagerDuty's key.
    pub(super) incident: &'a Incident,
    /// The group key without secrets.
    pub(super) group_key: &'a str,
    pub(super) message: &'a Message,
    pub(super) words: &'a Phrases,
    /// The incident's page.
    pub(super) page: Option<&'a str>,
    /// The key and summary of the last call.
    pub(super) posted: Option<&'a (String, String)>,
    /// The id of the audit entry if a user escalates; the call is then made even if nothing has changed.
    pub(super) escalation: Option<&'a str>,
}

/// A prepared call.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Call {
    /// The incident's key at the pager.
    pub(super) key: String,
    /// The summary of this call: a call with the same summary is not repeated.
    pub(super) summary: String,
    pub(super) body: String,
    pub(super) headers: Vec<(&'static str, String)>,
}

//! Escalations: reports their result to the user who requested them.

use std::time::Duration;

use jiff::Timestamp;

use super::Notifier;
use knowledge::clock;
use knowledge::incident::Act;
use message::{Block, Line, Message, TextSpan, Tone};
use store::{AuditEntry, AuditResult, Post, PostKind, StoreError};

/// The oldest escalation whose result is still looked up: posts are given up, found or retried within days.
const OLDEST: Duration = Duration::from_secs(7 * 86_400);

/// The age from which an escalation counts as lost that no post and no pager calls for: longer than a direct post takes.
const LOST: Duration = Duration::from_secs(60);

/// The target of an escalation.
#[derive(Clone, Copy)]
pub(super) enum Callee<'a> {
    /// A pager, by its name.
    Pager(&'a str),
    /// A user or user group, mentioned in the incident's thread.
    Person(&'a str),
}

impl Notifier {
    /// Records the result of an escalation in its audit entry, where the waiting answer reads it, and in the incident's
    /// threads; a successful mention is itself a post there. Returns false if another replica has already recorded it.
    pub(super) async fn escalation_ended(
        &self,
        incident: &str,
        escalation: &str,
        callee: Callee<'_>,
        result: Result<(), &str>,
    ) -> Result<bool, StoreError> {
        let now = self.store.now();
        let attempt = AuditEntry::new_attempt("", "", Act::Escalate.as_str(), Some(incident), now);
        let attempt = self.store.audit_entry(escalation).await?.unwrap_or(attempt);
        let headline = match (callee, result) {
            (Callee::Pager(pager), Ok(())) => Some(self.words.text("escalation-called", &[("pager", pager.into())])),
            (Callee::Pager(pager), Err(error)) => {
                let error = Line::of(error).into();
                Some(self.words.text("escalation-failed", &[("pager", pager.into()), ("error", error)]))
            }
            (Callee::Person(_), Ok(())) => None,
            (Callee::Person(_), Err(error)) => {
                Some(self.words.text("escalate-failed", &[("error", Line::of(error).into())]))
            }
        };
        let (target, detail) = match (callee, result) {
            (Callee::Pager(pager), Ok(())) => (pager, pager),
            // The id is not readable; the post in the thread mentions them.
            (Callee::Person(person), Ok(())) => (person, ""),
            (Callee::Pager(target) | Callee::Person(target), Err(error)) => (target, error),
        };
        let result = if result.is_ok() { AuditResult::Done } else { AuditResult::Failed };
        let person = [("who", TextSpan::User(attempt.who.clone()).into())];
        let entry = AuditEntry { target: target.to_owned(), result, detail: detail.to_owned(), ..attempt };
        let post = headline.map(|headline| {
            let parts = vec![Block::Note(self.words.line("escalation-asked", &person))];
            Message { tone: Tone::Unknown, headline, parts }
        });
        let is_news = self.store.end_escalation(&entry, post.as_ref(), now).await?;
        if is_news {
            self.metrics.act(&entry.what, result.as_str());
        }
        Ok(is_news)
    }

    /// Records the results of escalations that their delivery could not record: the post was found later, had no thread,
    /// is unreadable, or the process stopped meanwhile. Returns their number.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn end_escalations(&self, now: Timestamp) -> Result<usize, StoreError> {
        let callee = self.config.escalate.as_deref().unwrap_or_default();
        let ended = self.store.ended_calls(clock::before(now, OLDEST), clock::before(now, LOST)).await?;
        let mut recorded = 0;
        for call in &ended {
            let result = call.failed.as_deref().map_or(Ok(()), Err);
            recorded +=
                usize::from(self.escalation_ended(&call.incident, &call.line, Callee::Person(callee), result).await?);
        }
        Ok(recorded)
    }

    /// Records the result of a post that escalates; other posts are ignored.
    pub(super) async fn post_ended(&self, post: &Post, result: Result<(), &str>) -> Result<(), StoreError> {
        match (post.kind, &post.about) {
            (PostKind::Answer, Some(escalation)) => {
                let callee = self.config.escalate.as_deref().unwrap_or_default();
                self.escalation_ended(&post.incident, escalation, Callee::Person(callee), result).await.map(drop)
            }
            _ => Ok(()),
        }
    }
}

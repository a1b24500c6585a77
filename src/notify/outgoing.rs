//! Messages on their way to Slack, a pager or the console: one search for a message that is posted already, and one policy
//! of retries.

use std::time::Duration;

use jiff::Timestamp;
use tracing::{debug, warn};

use super::history_search::SearchOutcome;
use super::refused_channels::REFUSED;
use super::{Lane, Notifier, PAUSES};
use knowledge::clock;
use slack::{Slack, SlackError};
use store::{DuplicateCheck, PendingWork, PostponeReason, StoreError};

/// One message on its way: where to, and how often it was tried.
pub(super) struct Outgoing<'a> {
    pub(super) work: &'a PendingWork,
    /// The receiver's name in the metrics.
    pub(super) sink: &'static str,
    /// The id in the message's mark.
    id: &'a str,
    pub(super) channel: &'a str,
    /// The channel and the message of the thread that it is for.
    thread: Option<&'a (String, String)>,
    pub(super) tries: u32,
    /// True if it is to be posted, false if a posted message is to be edited.
    pub(super) is_new: bool,
    /// The time since which it may be in Slack, because the answer to its post was lost.
    since: Option<Timestamp>,
}

impl<'a> Outgoing<'a> {
    pub(super) fn of(work: &'a PendingWork) -> Self {
        let (sink, id, channel, thread, tries, is_new, since) = match work {
            PendingWork::Message(it) => {
                (it.sink.as_str(), &it.incident, &it.channel, None, it.tries, it.posted.is_none(), it.began)
            }
            PendingWork::Digest(it) => ("digest", &it.id, &it.channel, None, it.tries, it.posted.is_none(), it.began),
            PendingWork::Post(it) => ("thread", &it.id, &it.channel, Some(&it.thread), it.tries, true, it.began),
            // Searched for before every post: a store restored from a backup does not know what was posted after that.
            PendingWork::SummaryPost(it) => ("weekly", &it.id, &it.channel, None, it.tries, true, Some(it.until)),
            PendingWork::DuplicateCheck(it) => ("look", &it.subject, &it.channel, None, it.checks_done, false, None),
        };
        Self { work, sink, id, channel, thread, tries, is_new, since: since.filter(|_| is_new) }
    }
}

/// The kind of a failure, which decides about another try.
pub(super) enum Trouble {
    /// Slack demands this pause.
    RateLimited(Duration),
    /// The channel or the token is refused: a person must act.
    Refused,
    /// It passes; with the pause that the receiver asks for.
    Passing(Option<Duration>),
    /// Another try cannot help.
    Lasting,
}

/// The failure of a message on its way.
pub(super) struct SendFailure {
    pub(super) trouble: Trouble,
    pub(super) note: String,
    /// True if it may have gone out all the same.
    pub(super) is_lost: bool,
    pub(super) took: Option<Duration>,
}

impl SendFailure {
    /// Creates a failure that passes, of something that has not gone out.
    pub(super) fn passing(note: String) -> Self {
        Self { trouble: Trouble::Passing(None), note, is_lost: false, took: None }
    }

    pub(super) fn of(error: &SlackError, took: Duration) -> Self {
        let trouble = match error {
            SlackError::RateLimited(wait) => Trouble::RateLimited(*wait),
            _ if error.is_about_channel() || error.is_about_token() => Trouble::Refused,
            _ if error.is_retryable() => Trouble::Passing(None),
            _ => Trouble::Lasting,
        };
        Self { trouble, note: error.to_string(), is_lost: error.is_unknown(), took: Some(took) }
    }
}

impl Notifier {
    /// Looks in Slack for a message whose answer was lost: it is posted again only if it is missing. If Slack does not
    /// answer now, it is postponed.
    pub(super) async fn look_for(&self, slack: &Slack, out: &Outgoing<'_>) -> Result<SearchOutcome, StoreError> {
        let Some(since) = out.since else { return Ok(SearchOutcome::Missing) };
        let (channel, thread) = out.thread.map_or((out.channel, None), |(channel, ts)| (channel, Some(ts.clone())));
        let (subject, channel) = (out.id.to_owned(), channel.to_owned());
        let check = DuplicateCheck { subject, channel, thread, since, checks_done: 0 };
        let outcome = self.search_history(slack, &check).await?;
        if let SearchOutcome::Later(due, why) = &outcome {
            self.metrics.delivery(out.sink, "retried", None);
            self.store.postpone(out.work, *due, PostponeReason::Unknown, why).await?;
        }
        Ok(outcome)
    }

    /// Stores the next try of what did not go out. Returns false if there is none: another try cannot help, or it is not
    /// to be `kept`. What Slack limits is always tried again.
    pub(super) async fn try_again(
        &self,
        out: &Outgoing<'_>,
        kept: bool,
        failed: &SendFailure,
    ) -> Result<bool, StoreError> {
        let (result, pause) = match failed.trouble {
            Trouble::RateLimited(wait) => {
                let lane = if out.is_new { Lane::Post(out.channel.to_owned()) } else { Lane::Favoured };
                self.rates.close(&lane, wait);
                self.metrics.rate_limit_wait("slack");
                ("rate_limited", wait)
            }
            Trouble::Refused if kept => ("refused", REFUSED.pause(out.tries)),
            Trouble::Passing(asked) if kept => {
                ("retried", asked.unwrap_or(PAUSES.pause(out.tries)).min(PAUSES.longest))
            }
            Trouble::Refused | Trouble::Passing(_) | Trouble::Lasting => return Ok(false),
        };
        let reason = match failed.trouble {
            // The few tries of a post are for errors.
            Trouble::RateLimited(_) if out.thread.is_some() => PostponeReason::Waits,
            _ => PostponeReason::failed(out.is_new && failed.is_lost),
        };
        self.metrics.delivery(out.sink, result, failed.took);
        let Outgoing { work, sink, id, channel, .. } = out;
        let incident = work.incident();
        match failed.trouble {
            // In a storm it is the rule, and a metric counts it.
            Trouble::RateLimited(_) => {
                debug!(incident.id = incident, sink, id, channel, "has to wait for Slack's limit")
            }
            _ => warn!(
                incident.id = incident,
                sink,
                id,
                channel,
                result,
                try = out.tries + 1,
                reason = failed.note,
                "cannot deliver: trying again"
            ),
        }
        self.store.postpone(out.work, clock::after(self.store.now(), pause), reason, &failed.note).await?;
        Ok(true)
    }
}

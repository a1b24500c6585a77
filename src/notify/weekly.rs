//! The weekly summary of a channel: posted once, never edited. It mentions nobody, and no other channel stands in.

use std::time::Duration;

use jiff::Timestamp;
use tracing::{error, info, warn};

use super::history_search::SearchOutcome;
use super::refused_channels::REFUSED;
use super::{Lane, Notifier, PAUSES, To};
use crate::week::summary;
use knowledge::clock;
use knowledge::failpoint::failpoint;
use slack::{Destination, MessageMark, Slack, SlackError};
use store::{DuplicateCheck, PostponeReason, StoreError, Weekly, WeeklyEnd};

/// The timeout for reading the week from the store; less than the lease.
const READ_WITHIN: Duration = Duration::from_secs(30);

impl Notifier {
    pub(super) async fn deliver_weekly(&self, weekly: &Weekly) -> Result<(), StoreError> {
        let is_wanted = self.config.weekly_channels().contains(weekly.channel.as_str());
        let Some(slack) = self.slack.as_ref().filter(|_| is_wanted) else {
            let why = "`slack.weekly` asks for it no longer";
            return self.store.weekly_ended(weekly, WeeklyEnd::Skipped, why).await;
        };
        if weekly.is_late(self.store.now()) {
            return self.weekly_given_up(weekly, "a day has passed since its week").await;
        }
        if !self.may_post_weekly(slack, weekly).await? {
            return Ok(());
        }
        let Ok(summary) = tokio::time::timeout(READ_WITHIN, summary(&self.store, &self.library, weekly)).await else {
            let due = clock::after(self.store.now(), PAUSES.pause(weekly.tries));
            let note = format!("the store has not told the week within {} s", READ_WITHIN.as_secs());
            warn!(weekly.channel, try = weekly.tries + 1, reason = note, "cannot post a weekly summary: trying again");
            return self.store.weekly_postponed(weekly, due, PostponeReason::Failed, &note).await;
        };
        let Some(summary) = self.cleaned_answer(&summary?) else {
            return self.weekly_given_up(weekly, "it cannot be cleaned of secrets").await;
        };
        let message = render::weekly_message(&summary, self.incidents_page().as_deref(), &self.words);
        let to = To::New(Destination::channel(&weekly.channel), MessageMark::new(&weekly.id));
        let (answer, took) = self.send(slack, to, &message, &[]).await;
        let now = self.store.now();
        let posted = match answer {
            Ok(posted) => (posted.channel, posted.ts),
            Err(error) => return self.weekly_failed(slack, weekly, &error, took, now).await,
        };
        failpoint("weekly posted");
        self.metrics.delivery("weekly", "posted", Some(took));
        info!(weekly.channel, incidents = summary.incidents, "posted the weekly summary");
        self.store.weekly_posted(&weekly.id, &weekly.channel, &posted, now).await.map(drop)
    }

    /// Returns true if the summary is not in the channel yet. It is searched for before every post: a store that was
    /// restored from a backup does not know what was posted after that.
    async fn may_post_weekly(&self, slack: &Slack, weekly: &Weekly) -> Result<bool, StoreError> {
        let (subject, channel) = (weekly.id.clone(), weekly.channel.clone());
        let check = DuplicateCheck { subject, channel, thread: None, since: weekly.until, checks_done: 0 };
        match self.search_history(slack, &check).await? {
            SearchOutcome::Missing => Ok(true),
            SearchOutcome::Found => Ok(false),
            SearchOutcome::Later(due, why) => {
                self.metrics.delivery("weekly", "retried", None);
                self.store.weekly_postponed(weekly, due, PostponeReason::Unknown, &why).await?;
                Ok(false)
            }
        }
    }

    async fn weekly_failed(
        &self,
        slack: &Slack,
        weekly: &Weekly,
        error: &SlackError,
        took: Duration,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let note = error.to_string();
        let refused = error.is_about_channel() || error.is_about_token();
        let (result, wait) = match error {
            SlackError::RateLimited(wait) => {
                self.rates.close(&Lane::Post(weekly.channel.clone()), *wait);
                self.metrics.rate_limit_wait("slack");
                ("rate_limited", *wait)
            }
            _ if refused => {
                self.report_refused_channel(slack, &weekly.channel, error, now).await?;
                ("refused", REFUSED.pause(weekly.tries))
            }
            error if error.is_retryable() => ("retried", PAUSES.pause(weekly.tries)),
            _ => return self.weekly_given_up(weekly, &note).await,
        };
        self.metrics.delivery("weekly", result, Some(took));
        warn!(weekly.channel, try = weekly.tries + 1, reason = note, "cannot post a weekly summary: trying again");
        let reason = PostponeReason::failed(error.is_unknown());
        self.store.weekly_postponed(weekly, clock::after(now, wait), reason, &note).await
    }

    async fn weekly_given_up(&self, weekly: &Weekly, why: &str) -> Result<(), StoreError> {
        self.metrics.delivery("weekly", "failed", None);
        error!(weekly.channel, reason = why, "gave up posting a weekly summary");
        self.store.weekly_ended(weekly, WeeklyEnd::Failed, why).await
    }
}

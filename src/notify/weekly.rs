//! The weekly summary of a channel: posted once, never edited. It mentions nobody, and another channel never replaces this one.

use std::time::Duration;

use tracing::{error, info};

use super::history_search::SearchOutcome;
use super::outgoing::{Outgoing, SendFailure, Trouble};
use super::{Notifier, To};
use crate::week::summary;
use knowledge::failpoint::failpoint;
use slack::{Destination, MessageMark};
use store::{StoreError, Weekly, WeeklyEnd};

/// The timeout for reading the week from the store; less than the lease.
const READ_WITHIN: Duration = Duration::from_secs(30);

impl Notifier {
    pub(super) async fn deliver_weekly(&self, out: &Outgoing<'_>, weekly: &Weekly) -> Result<(), StoreError> {
        let is_wanted = self.config.weekly_channels().contains(weekly.channel.as_str());
        let Some(slack) = self.slack.as_ref().filter(|_| is_wanted) else {
            let why = "`slack.weekly` asks for it no longer";
            return self.store.weekly_ended(weekly, WeeklyEnd::Skipped, why).await;
        };
        if weekly.is_late(self.store.now()) {
            return self.weekly_given_up(weekly, "a day has passed since its week").await;
        }
        if !matches!(self.look_for(slack, out).await?, SearchOutcome::Missing) {
            return Ok(());
        }
        let Ok(summary) = tokio::time::timeout(READ_WITHIN, summary(&self.store, &self.library, weekly)).await else {
            let note = format!("the store has not told the week within {} s", READ_WITHIN.as_secs());
            return self.try_again(out, true, &SendFailure::passing(note)).await.map(drop);
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
            Err(error) => {
                let failed = SendFailure::of(&error, took);
                if let Trouble::Refused = failed.trouble {
                    self.report_refused_channel(slack, out.channel, &error, now).await?;
                }
                // It ends a day after its week.
                return match self.try_again(out, true, &failed).await? {
                    true => Ok(()),
                    false => self.weekly_given_up(weekly, &failed.note).await,
                };
            }
        };
        failpoint("weekly posted");
        self.metrics.delivery("weekly", "posted", Some(took));
        info!(weekly.channel, incidents = summary.incidents, "posted the weekly summary");
        self.store.weekly_posted(&weekly.id, &weekly.channel, &posted, now).await.map(drop)
    }

    async fn weekly_given_up(&self, weekly: &Weekly, why: &str) -> Result<(), StoreError> {
        self.metrics.delivery("weekly", "failed", None);
        error!(weekly.channel, reason = why, "gave up posting a weekly summary");
        self.store.weekly_ended(weekly, WeeklyEnd::Failed, why).await
    }
}

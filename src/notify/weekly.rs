//! The weekly and the daily summary of each channel: its due time, its contents and its delivery. It is posted once and
//! never edited, mentions nobody, and another channel never replaces this one.
//!
//! Housekeeping writes a row for each channel and period; the deliver loop posts it. The store is read when it is posted, so
//! that a late one is right too.

use std::time::Duration;

use jiff::Timestamp;
use tracing::{error, info};

use super::history_search::SearchOutcome;
use super::outgoing::{Outgoing, SendFailure, Trouble};
use super::{Notifier, To};
use knowledge::playbook::Library;
use report::weekly::{CAUSES, WeeklySummary, causes, read, summarise};
use slack::{Destination, MessageMark};
use store::failpoint;
use store::{Store, StoreError, SummaryPeriod, SummaryPost, WeeklyEnd};

/// The timeout for reading the week from the store; less than the lease.
const READ_WITHIN: Duration = Duration::from_secs(30);
/// Maximum number of diagnoses that are read, of incidents whose cause is not known otherwise.
const DIAGNOSES: usize = 200;

/// Writes the summaries of these channels' period that ended at or before `now`, unless they are known. Returns the number
/// of those that are due now.
///
/// # Errors
/// When the store fails.
pub async fn schedule(
    store: &Store,
    period: SummaryPeriod,
    channels: impl Iterator<Item = &str>,
    [since, until]: [Timestamp; 2],
    now: Timestamp,
) -> Result<u64, StoreError> {
    // It comes every few seconds, and mostly there is nothing to write.
    let known = store.newest_weeklies(period).await?;
    let mut due = 0;
    for channel in channels.filter(|channel| known.get(*channel).is_none_or(|newest| *newest < until)) {
        due += u64::from(store.schedule_weekly(&SummaryPost::new(period, channel, [since, until]), now).await?);
    }
    Ok(due)
}

/// Summarises a channel's week or day from the store; with secrets.
///
/// # Errors
/// When the store fails.
pub async fn summary(store: &Store, library: &Library, weekly: &SummaryPost) -> Result<WeeklySummary, StoreError> {
    let SummaryPost { channel, since, until, .. } = weekly;
    let mut week = store.week(weekly).await?;
    let mut gaps = Vec::new();
    for incident in week.incidents.iter_mut().filter(|incident| incident.cause.is_none()).take(DIAGNOSES) {
        let Some((source, diagnosis)) = store.diagnosis_of(&incident.id).await? else { continue };
        let reading = read(&source, &diagnosis);
        incident.cause = reading.cause;
        gaps.push((incident.id.clone(), reading.missing));
    }
    let mut history = Vec::new();
    for (cause, incidents) in causes(&week).into_iter().take(CAUSES) {
        let over: Vec<&str> = incidents.iter().filter(|i| !i.open).map(|i| i.id.as_str()).collect();
        history.push(store.cause_history(cause, &over, *since).await?);
    }
    let title = |id: &str| library.node_by_id(id).map_or_else(|| id.to_owned(), |(node, _)| node.title.to_owned());
    Ok(summarise(channel, [*since, *until], &week, &gaps, &history, title))
}

impl Notifier {
    pub(super) async fn deliver_weekly(&self, out: &Outgoing<'_>, weekly: &SummaryPost) -> Result<(), StoreError> {
        let is_wanted = match weekly.period {
            SummaryPeriod::Week => self.config.weekly_channels().contains(weekly.channel.as_str()),
            SummaryPeriod::Day => self.config.daily_channels().contains(weekly.channel.as_str()),
        };
        let Some(slack) = self.slack.as_ref().filter(|_| is_wanted) else {
            let why = "the configuration asks for it no longer";
            return self.store.weekly_ended(weekly, WeeklyEnd::Skipped, why).await;
        };
        if weekly.is_late(self.store.now()) {
            return self
                .weekly_given_up(
                    weekly,
                    "its time has passed: a summary is posted within a day of its week, or twenty hours of its day",
                )
                .await;
        }
        if !matches!(self.look_for(slack, out).await?, SearchOutcome::Missing) {
            return Ok(());
        }
        let Ok(summary) = tokio::time::timeout(READ_WITHIN, summary(&self.store, &self.library, weekly)).await else {
            let note = format!("the store has not answered within {} s", READ_WITHIN.as_secs());
            return self.try_again(out, true, &SendFailure::passing(note)).await.map(drop);
        };
        let Some(summary) = self.cleaned_answer(&summary?) else {
            return self.weekly_given_up(weekly, "it cannot be cleaned of secrets").await;
        };
        let pages = self.incidents_page();
        let message = match weekly.period {
            SummaryPeriod::Day if summary.incidents == 0 => {
                return self.store.weekly_ended(weekly, WeeklyEnd::Skipped, "nothing happened").await;
            }
            SummaryPeriod::Day => render::daily_message(&summary, pages.as_deref(), &self.words),
            SummaryPeriod::Week => render::weekly_message(&summary, pages.as_deref(), &self.words),
        };
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
                // It ends some time after its period.
                return match self.try_again(out, true, &failed).await? {
                    true => Ok(()),
                    false => self.weekly_given_up(weekly, &failed.note).await,
                };
            }
        };
        failpoint("weekly posted");
        self.metrics.delivery("weekly", "posted", Some(took));
        info!(weekly.channel, incidents = summary.incidents, "posted the summary of a {}", weekly.period.as_str());
        self.store.weekly_posted(&weekly.id, &weekly.channel, &posted, now).await.map(drop)
    }

    async fn weekly_given_up(&self, weekly: &SummaryPost, why: &str) -> Result<(), StoreError> {
        self.metrics.delivery("weekly", "failed", None);
        error!(weekly.channel, reason = why, "gave up posting a summary");
        self.store.weekly_ended(weekly, WeeklyEnd::Failed, why).await
    }
}

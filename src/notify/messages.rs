//! The living message of an incident: posted once, edited, posted anew where it is gone.

use std::time::Duration;

use jiff::Timestamp;
use tracing::{error, info, warn};

use super::{Lane, MOST_REPOSTS, MOST_TRIES, Notifier, To, pause};
use crate::clock;
use crate::render::{self, Told};
use crate::slack::{Slack, SlackError};
use crate::store::{Delivery, Incident, Said, Sink, StoreError};

impl Notifier {
    pub(super) async fn deliver_message(&self, delivery: &Delivery) -> Result<(), StoreError> {
        let Some(incident) = self.store.incident(&delivery.incident).await? else { return Ok(()) };
        match (delivery.sink, &self.slack) {
            (Sink::Console, _) => {
                anstream::println!("{}", render::terminal(&self.message(&incident)));
                self.metrics.delivery("console", "posted", None);
                let place = ("stdout".to_owned(), "-".to_owned());
                let said = Said::default();
                self.store.delivered(delivery, Some(&place), incident.revision, &said, clock::now()).await
            }
            (Sink::Pager, _) => self.to_pager(delivery, &incident, &self.message(&incident)).await,
            (Sink::Slack, Some(slack)) => self.message_to_slack(slack, delivery, &incident).await,
            (Sink::Slack, None) => {
                self.metrics.delivery("slack", "failed", None);
                self.store.give_up(delivery, incident.revision, "Slack is no longer configured", clock::now()).await
            }
        }
    }

    async fn message_to_slack(
        &self,
        slack: &Slack,
        delivery: &Delivery,
        incident: &Incident,
    ) -> Result<(), StoreError> {
        let first = delivery.posted.is_none();
        // A new message calls somebody once. Its edits keep the mention, or it would vanish from where people find it.
        let calls = self.whom(incident, &delivery.channel);
        let whom = calls.filter(|_| first != delivery.mentioned);
        let to = To::of(&delivery.channel, delivery.posted.as_ref());
        let (answer, took) = self.send(slack, to, &self.message(incident), whom).await;
        let now = clock::now();
        let posted = match answer {
            Ok(posted) => posted,
            Err(error) => return self.message_failed(delivery, incident, &error, took, now).await,
        };
        let done = if first { "posted" } else { "updated" };
        self.metrics.delivery("slack", done, Some(took));
        info!(incident.id = delivery.incident, channel = posted.channel, "{done} the incident's message");
        let knows = Told::of(&self.view(incident));
        let since = incident.critical_at.unwrap_or(now);
        let mention = whom.filter(|_| first).map(|_| since);
        let said = Said { mention, told: serde_json::to_string(&knows).ok() };
        let place = (posted.channel, posted.ts);
        self.store.delivered(delivery, Some(&place), incident.revision, &said, now).await?;
        if let Some(whom) = calls.filter(|_| !first && !delivery.mentioned) {
            self.store.queue_mention(&incident.id, &delivery.channel, [whom, ""], now).await?;
            self.store.mentioned(&incident.id, &delivery.channel, since).await?;
        }
        let told: Option<Told> = delivery.told.as_deref().and_then(|told| serde_json::from_str(told).ok());
        match told.and_then(|told| render::changes(&told, &knows, &self.words)) {
            Some(_) => self.store.queue_change(&incident.id, &delivery.channel, now).await,
            None => Ok(()),
        }
    }

    async fn message_failed(
        &self,
        delivery: &Delivery,
        incident: &Incident,
        error: &SlackError,
        took: Duration,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let note = error.to_string();
        let count = |result| self.metrics.delivery("slack", result, Some(took));
        if let SlackError::RateLimited(wait) = error {
            let lane = if delivery.posted.is_none() { Lane::Post(delivery.channel.clone()) } else { Lane::Favoured };
            self.rates.close(&lane, *wait);
            self.metrics.rate_limit_wait("slack");
            count("rate_limited");
            return self.store.postpone(delivery, clock::after(now, *wait), true, &note).await;
        }
        if let Some((_, ts)) = delivery.posted.as_ref().filter(|_| error.is_gone())
            && self.store.forget_message(&delivery.incident, ts, MOST_REPOSTS, now).await?
        {
            warn!(incident.id = delivery.incident, reason = note, "the message is gone: posting it anew");
            count("reposted");
            return Ok(());
        }
        let fallback = &self.config.channel;
        if error.is_about_channel() && delivery.channel != *fallback && !fallback.is_empty() {
            warn!(
                incident.id = delivery.incident,
                channel = delivery.channel,
                reason = note,
                "the channel does not take the message: using the default channel"
            );
            count("rerouted");
            if !self.store.reroute(delivery, fallback, now).await? {
                self.call_instead(incident, &delivery.channel, fallback, now).await?;
            }
            return Ok(());
        }
        if error.is_retryable() && delivery.tries + 1 < MOST_TRIES {
            count("retried");
            warn!(incident.id = delivery.incident, try = delivery.tries + 1, reason = note, "cannot deliver: trying again");
            return self.store.postpone(delivery, clock::after(now, pause(delivery.tries)), true, &note).await;
        }
        count("failed");
        error!(
            incident.id = delivery.incident,
            channel = delivery.channel,
            reason = note,
            "gave up delivering the message"
        );
        self.store.give_up(delivery, incident.revision, &note, now).await
    }

    /// Calls in the thread of the message that stands in `channel` whom `closed` would have called, once since the incident
    /// became critical.
    async fn call_instead(
        &self,
        incident: &Incident,
        closed: &str,
        channel: &str,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let since = incident.critical_at.unwrap_or(now);
        match self.whom(incident, closed) {
            Some(whom) if !self.store.is_mentioned(&incident.id, channel).await? => {
                self.store.queue_mention(&incident.id, channel, [whom, ""], now).await?;
                self.store.mentioned(&incident.id, channel, since).await
            }
            _ => Ok(()),
        }
    }
}

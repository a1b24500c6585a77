//! The message of an incident: posted once, then edited, and posted again if it was deleted.

use std::io::Write;
use std::time::Duration;

use jiff::Timestamp;
use tracing::{error, info, warn};

use super::history_search::SearchOutcome;
use super::{Lane, MOST_REPOSTS, MOST_TRIES, Notifier, PAUSES, To, mention_mark};
use knowledge::clock;
use knowledge::failpoint::failpoint;
use render::{self, Commands, ThreadState};
use slack::{MessageMark, Slack, SlackError};
use store::{Delivery, DuplicateCheck, Incident, Mention, MessageEffects, PostponeReason, Sink, StoreError};

impl Notifier {
    pub(super) async fn deliver_message(&self, delivery: &Delivery) -> Result<(), StoreError> {
        let incident = match delivery.sink {
            // Pagers may be other organisations'.
            Sink::Pager => self.store.incident(&delivery.incident).await?,
            Sink::Slack | Sink::Console => self.store.incident_with_related(&delivery.incident).await?,
        };
        let Some(incident) = incident else { return Ok(()) };
        match (delivery.sink, &self.slack) {
            (Sink::Console, _) => {
                let message = self.message(&incident).await;
                let text = render::terminal_with(&message, &Commands::of_incident(&incident.id));
                let printed = writeln!(anstream::stdout(), "{text}");
                if let Err(error) = printed {
                    error!(incident.id = delivery.incident, %error, "cannot print the incident's message");
                    self.metrics.delivery("console", "failed", None);
                    let (due, note) = (clock::after(self.store.now(), PAUSES.pause(delivery.tries)), error.to_string());
                    return self.store.postpone(delivery, due, PostponeReason::Failed, &note).await;
                }
                self.metrics.delivery("console", "posted", None);
                let place = ("stdout".to_owned(), "-".to_owned());
                let effects = MessageEffects::default();
                self.store.delivered(delivery, Some(&place), incident.revision, &effects, self.store.now()).await
            }
            (Sink::Pager, _) => self.to_pager(delivery, &incident).await,
            (Sink::Slack, Some(slack)) => self.message_to_slack(slack, delivery, &incident).await,
            (Sink::Slack, None) => {
                self.metrics.delivery("slack", "failed", None);
                self.store.give_up(delivery, incident.revision, "Slack is no longer configured", self.store.now()).await
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
        if let (true, Some(since)) = (first, delivery.began)
            && !self.may_post_message(slack, delivery, since).await?
        {
            return Ok(());
        }
        let people = self.people_to_mention(incident, &delivery.channel);
        let (called, calls): (Vec<&str>, Vec<&str>) = people.into_iter().partition(|id| delivery.called.includes(id));
        let since = incident.critical_at.unwrap_or(self.store.now());
        let mention = Mention { since, called: delivery.called.and(&calls) };
        // Edits keep the mentions, which would otherwise disappear from the message.
        let mentions = if first { &calls } else { &called };
        let cleaned = self.cleaned(incident).await;
        let view = self.view(&cleaned);
        let state = ThreadState::of(&view);
        let state_json = serde_json::to_string(&state).ok();
        let mark = MessageMark { told: state_json.clone(), ..mention_mark(&incident.id, &calls, &mention.called) };
        let to = To::of(&delivery.channel, delivery.posted.as_ref(), mark);
        let (answer, took) = self.send(slack, to, &render::incident_message(&view, &self.words), mentions).await;
        let now = self.store.now();
        let posted = match answer {
            Ok(posted) => posted,
            Err(error) if error.is_about_channel() || error.is_about_token() => {
                return self.handle_refused_message(slack, delivery, incident, &error, now).await;
            }
            Err(error) => return self.message_failed(delivery, incident, &error, took, now).await,
        };
        failpoint(if first { "message posted" } else { "message edited" });
        let result = if first { "posted" } else { "updated" };
        self.metrics.delivery("slack", result, Some(took));
        info!(incident.id = delivery.incident, channel = posted.channel, "{result} the incident's message");
        let effects = MessageEffects {
            mention: (!calls.is_empty()).then_some(mention),
            thread_state: state_json,
            calls: calls.iter().filter(|_| !first).map(|id| (*id).to_owned()).collect(),
            changed: delivery.thread_state.as_ref().is_some_and(|reported| self.has_changed(reported, &state)),
        };
        let place = (posted.channel, posted.ts);
        self.store.delivered(delivery, Some(&place), incident.revision, &effects, now).await?;
        failpoint(if first { "post recorded" } else { "edit recorded" });
        Ok(())
    }

    /// Returns true if there are changes for a thread that described the state `reported` (JSON) last.
    pub(super) fn has_changed(&self, reported: &str, state: &ThreadState) -> bool {
        let reported: Option<ThreadState> = serde_json::from_str(reported).ok();
        reported.is_some_and(|reported| render::changes(&reported, state, &self.words).is_some())
    }

    /// Mentions users in the thread of the incident's message in this channel, because an edit notifies nobody.
    pub(super) async fn call_in_thread(
        &self,
        incident: &str,
        channel: &str,
        calls: &[&str],
        mention: &Mention,
    ) -> Result<(), StoreError> {
        if calls.is_empty() {
            return Ok(());
        }
        self.store.queue_mentions(incident, channel, calls, mention, self.store.now()).await
    }

    /// Returns true if a message whose first post has an unknown result is to be posted again: only if it does not
    /// exist.
    async fn may_post_message(&self, slack: &Slack, delivery: &Delivery, since: Timestamp) -> Result<bool, StoreError> {
        let check = DuplicateCheck {
            subject: delivery.incident.clone(),
            channel: delivery.channel.clone(),
            thread: None,
            since,
            checks_done: 0,
        };
        match self.search_history(slack, &check).await? {
            SearchOutcome::Missing => Ok(true),
            SearchOutcome::Found => Ok(false),
            SearchOutcome::Later(due, why) => {
                self.metrics.delivery("slack", "retried", None);
                self.store.postpone(delivery, due, PostponeReason::Unknown, &why).await?;
                Ok(false)
            }
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
            return self.store.postpone(delivery, clock::after(now, *wait), PostponeReason::Failed, &note).await;
        }
        if let Some((_, ts)) = delivery.posted.as_ref().filter(|_| error.is_gone())
            && self.store.forget_message(&delivery.incident, ts, MOST_REPOSTS, now).await?
        {
            warn!(incident.id = delivery.incident, reason = note, "the message is gone: posting it anew");
            count("reposted");
            return Ok(());
        }
        if error.is_retryable() && (incident.open || delivery.tries + 1 < MOST_TRIES) {
            count("retried");
            warn!(incident.id = delivery.incident, try = delivery.tries + 1, reason = note, "cannot deliver: trying again");
            let reason = PostponeReason::failed(delivery.posted.is_none() && error.is_unknown());
            return self.store.postpone(delivery, clock::after(now, PAUSES.pause(delivery.tries)), reason, &note).await;
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
}

//! The message of an incident: posted once, then edited, and posted again if it was deleted.

use std::io::Write;
use std::time::Duration;

use tracing::{error, info, warn};

use super::history_search::SearchOutcome;
use super::outgoing::{Outgoing, SendFailure, Trouble};
use super::{MOST_REPOSTS, MOST_TRIES, Notifier, To, mention_mark};
use render::{self, Commands, ThreadState};
use slack::{MessageMark, Slack, SlackError};
use store::failpoint;
use store::{Delivery, Incident, Mention, MessageEffects, Sink, StoreError};

impl Notifier {
    pub(super) async fn deliver_message(&self, out: &Outgoing<'_>, delivery: &Delivery) -> Result<(), StoreError> {
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
                    return self.try_again(out, true, &SendFailure::passing(error.to_string())).await.map(drop);
                }
                self.metrics.delivery("console", "posted", None);
                let place = ("stdout".to_owned(), "-".to_owned());
                let effects = MessageEffects::default();
                self.store.delivered(delivery, Some(&place), incident.revision, &effects, self.store.now()).await
            }
            (Sink::Pager, _) => self.to_pager(out, delivery, &incident).await,
            (Sink::Slack, Some(slack)) => self.message_to_slack(slack, out, delivery, &incident).await,
            (Sink::Slack, None) => {
                self.metrics.delivery("slack", "failed", None);
                self.store.give_up(delivery, incident.revision, "Slack is no longer configured", self.store.now()).await
            }
        }
    }

    async fn message_to_slack(
        &self,
        slack: &Slack,
        out: &Outgoing<'_>,
        delivery: &Delivery,
        incident: &Incident,
    ) -> Result<(), StoreError> {
        let first = out.is_new;
        if !matches!(self.look_for(slack, out).await?, SearchOutcome::Missing) {
            return Ok(());
        }
        let people = self.people_to_mention(incident, &delivery.channel);
        let (called, calls): (Vec<&str>, Vec<&str>) = people.into_iter().partition(|id| delivery.called.includes(id));
        let since = incident.critical_at.unwrap_or(self.store.now());
        let mention = Mention { since, called: delivery.called.and(&calls) };
        // Edits keep the mentions, which would otherwise disappear from the message.
        let mentions = if first { &calls } else { &called };
        let cleaned = self.cleaned(incident).await;
        let mut view = self.view(&cleaned);
        view.maintenance = self.maintenance_of(incident);
        let state = ThreadState::of(&view);
        let state_json = serde_json::to_string(&state).ok();
        let mark = MessageMark { told: state_json.clone(), ..mention_mark(&incident.id, &calls, &mention.called) };
        let to = To::of(&delivery.channel, delivery.posted.as_ref(), mark);
        let (answer, took) = self.send(slack, to, &render::incident_message(&view, &self.words), mentions).await;
        let now = self.store.now();
        let posted = match answer {
            Ok(posted) => posted,
            Err(error) => return self.message_failed(slack, out, delivery, incident, (&error, took)).await,
        };
        failpoint(if first { "message posted" } else { "message edited" });
        let result = if first { "posted" } else { "updated" };
        self.metrics.delivery("slack", result, Some(took));
        info!(incident.id = delivery.incident, channel = posted.channel, "{result} the incident's message");
        let effects = MessageEffects {
            mention: (!calls.is_empty()).then_some(mention),
            thread_state: state_json,
            calls: calls.iter().filter(|_| !first).map(|id| (*id).to_owned()).collect(),
            changed: delivery.thread_state.as_ref().is_some_and(|told| self.has_changed(incident, told, &state)),
        };
        let place = (posted.channel, posted.ts);
        self.store.delivered(delivery, Some(&place), incident.revision, &effects, now).await?;
        failpoint(if first { "post recorded" } else { "edit recorded" });
        Ok(())
    }

    /// Returns true if there are changes for a thread that described the state `reported` (JSON) last, and people want to
    /// hear of them.
    pub(super) fn has_changed(&self, incident: &Incident, reported: &str, state: &ThreadState) -> bool {
        let reported: Option<ThreadState> = serde_json::from_str(reported).ok();
        if incident.snoozed {
            return false;
        }
        reported.is_some_and(|reported| render::changes(&reported, state, &self.words).is_some())
    }

    /// Tries again, or posts anew what was deleted; gives up after the end of the incident, sooner if it is posted elsewhere.
    async fn message_failed(
        &self,
        slack: &Slack,
        out: &Outgoing<'_>,
        delivery: &Delivery,
        incident: &Incident,
        (error, took): (&SlackError, Duration),
    ) -> Result<(), StoreError> {
        let (now, failed) = (self.store.now(), SendFailure::of(error, took));
        let reason = &failed.note;
        if let Some((_, ts)) = delivery.posted.as_ref().filter(|_| error.is_gone())
            && self.store.forget_message(&delivery.incident, ts, MOST_REPOSTS, now).await?
        {
            warn!(incident.id = delivery.incident, reason, "the message is gone: posting it anew");
            self.metrics.delivery(out.sink, "reposted", failed.took);
            return Ok(());
        }
        let mut kept = incident.open || out.tries + 1 < MOST_TRIES;
        if let Trouble::Refused = failed.trouble {
            let people = self.people_to_mention(incident, out.channel);
            let calls = people.into_iter().filter(|id| !delivery.called.includes(id)).collect();
            self.make_up(slack, incident, [out.channel; 2], error, calls, now).await?;
            let place = self.store.place_of(&incident.id).await?;
            kept &= incident.open || place.is_none_or(|place| Some(&place) == delivery.posted.as_ref());
        }
        if self.try_again(out, kept, &failed).await? {
            return Ok(());
        }
        self.metrics.delivery(out.sink, "failed", failed.took);
        error!(incident.id = delivery.incident, channel = out.channel, reason, "gave up delivering the message");
        self.store.give_up(delivery, incident.revision, reason, now).await
    }
}

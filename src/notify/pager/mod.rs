//! Pagers: the triage lands on the page that woke somebody, and on signed webhooks of other tools.
//!
//! One delivery per incident and pager, worked off like Slack's. PagerDuty hears when the verdict changes, a webhook of
//! every revision.

mod client;
mod config;
mod pagerduty;
mod webhook;

use std::time::Duration;

use tracing::{error, info, warn};

pub use client::PagerClient;
pub use config::{Pager, PagerKind, PagerOn};
pub use webhook::schema;

use super::{FIRST_PAUSE, LONGEST_PAUSE, MOST_TRIES, Notifier};
use crate::clock;
use crate::render::Message;
use crate::store::{Delivery, Held, Incident, Said, Sink, StoreError};

/// How long a page waits for the first diagnosis.
const DIAGNOSIS_WITHIN: Duration = Duration::from_secs(60);
/// How often it looks.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

impl Notifier {
    /// Brings one pager up to date, or says in the store when to try again.
    pub(super) async fn to_pager(
        &self,
        delivery: &Delivery,
        incident: &Incident,
        message: &Message,
    ) -> Result<(), StoreError> {
        let now = self.store.now();
        let Some(pager) = self.pagers.iter().find(|pager| pager.name() == delivery.channel) else {
            self.metrics.delivery(Sink::Pager.as_str(), "failed", None);
            return self.store.give_up(delivery, incident.revision, "this pager is no longer configured", now).await;
        };
        let young = clock::between(incident.opened_at, now) < DIAGNOSIS_WITHIN;
        if incident.open && incident.diagnosis.is_none() && incident.playbook.is_some() && young {
            let due = clock::after(now, LOOK_AGAIN);
            return self.store.postpone(delivery, due, Held::Waits, "waiting for the diagnosis").await;
        }
        let page = (!self.public_url.is_empty()).then(|| format!("{}/incidents/{}", self.public_url, incident.id));
        let said = delivery.posted.as_ref().map(|(_, said)| said.as_str());
        let Some(call) = pager.call(incident, message, page.as_deref(), said, clock::now()) else {
            // Nothing that this pager should hear; the revision counts as told.
            return self
                .store
                .delivered(delivery, delivery.posted.as_ref(), incident.revision, &Said::default(), now)
                .await;
        };
        let started = std::time::Instant::now();
        let answer = pager.send(&call).await;
        let took = Some(started.elapsed());
        match answer {
            Ok(()) => {
                self.metrics.delivery(Sink::Pager.as_str(), "posted", took);
                info!(incident.id = delivery.incident, pager = pager.name(), "told the pager");
                let place = (call.key, call.said);
                self.store.delivered(delivery, Some(&place), incident.revision, &Said::default(), now).await
            }
            Err(error) if error.retry && delivery.tries + 1 < MOST_TRIES => {
                self.metrics.delivery(Sink::Pager.as_str(), "retried", took);
                let pause = FIRST_PAUSE.saturating_mul(1 << delivery.tries.min(16)).min(LONGEST_PAUSE);
                let pause = error.after.unwrap_or(pause).min(LONGEST_PAUSE);
                warn!(incident.id = delivery.incident, pager = pager.name(), %error, "cannot tell the pager: trying again");
                self.store.postpone(delivery, clock::after(now, pause), Held::Failed, &error.to_string()).await
            }
            Err(error) => {
                self.metrics.delivery(Sink::Pager.as_str(), "failed", took);
                error!(incident.id = delivery.incident, pager = pager.name(), %error, "gave up telling the pager");
                self.store.give_up(delivery, incident.revision, &error.to_string(), now).await
            }
        }
    }
}

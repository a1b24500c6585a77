//! The outcome of the kills: what was acknowledged, compared with what Slack and the pagers show.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use llm_diagnose_lab::pager::Call;
use llm_diagnose_lab::slack::Message;
use ring::digest::{SHA256, digest};
use serde_json::Value;

use super::proxy::Recorded;
use super::site::name;
use crate::running::whole;

/// What a message shows of an incident that is over.
pub(super) const OVER: &str = "RESOLVED";

/// An incident of the store: its group key, its id, and the id of its digest, unless it has a message of its own.
pub(super) type Stored = (String, String, Option<String>);

/// The counts at one moment.
#[derive(Default)]
pub(super) struct Outcome {
    pub(super) acknowledged: usize,
    pub(super) groups: usize,
    /// Incidents, alerts and ends of incidents that were acknowledged and are not shown.
    pub(super) lost: usize,
    /// Messages, incidents and posts in threads that are shown once too often.
    pub(super) duplicates: usize,
    /// Messages that do not say that their incidents are over, and work that waits in the store or was given up.
    pub(super) stuck: usize,
    /// Groups without a page at the webhook.
    pub(super) lost_pages: usize,
    /// Pages of the webhook beyond one for each group, and events of PagerDuty on no group's page; both drop a repeated key.
    pub(super) duplicate_pages: usize,
    /// Groups whose page at the webhook is still open.
    pub(super) stuck_pages: usize,
    /// Calls of pagers that a repeated key makes harmless.
    pub(super) repeated_calls: usize,
}

impl Outcome {
    /// Compares what was acknowledged with the messages of the channel, the calls of the webhook and of PagerDuty, and
    /// the number of rows of the store that wait or were given up. Which incidents a digest counts, only the store tells.
    pub(super) fn of(
        recorded: &Recorded,
        stored: &[Stored],
        messages: &[Message],
        webhooks: &[Call],
        events: &[Call],
        rows: usize,
    ) -> Self {
        let mut outcome =
            Self { acknowledged: recorded.acknowledged, groups: recorded.groups(), stuck: rows, ..Self::default() };
        outcome.count_messages(recorded, stored, messages);
        outcome.count_webhooks(webhooks);
        outcome.count_events(recorded, events);
        outcome
    }

    /// Number of whatever must not be.
    pub(super) fn wrong(&self) -> usize {
        self.lost + self.duplicates + self.stuck + self.lost_pages + self.duplicate_pages + self.stuck_pages
    }

    fn count_messages(&mut self, recorded: &Recorded, stored: &[Stored], messages: &[Message]) {
        let (replies, tops): (Vec<&Message>, Vec<&Message>) =
            messages.iter().partition(|message| message.thread_ts.is_some());
        // Each message is marked with the id of its incident or digest.
        let by_id: BTreeMap<&str, &Message> = tops.iter().map(|message| (mark(message), *message)).collect();
        // How often each group is shown: in messages of its own and in digests.
        for group_key in &recorded.group_keys {
            let incidents = stored.iter().filter(|(key, ..)| key == group_key);
            let ids = incidents.flat_map(|(_, id, digest)| [Some(id), digest.as_ref()].into_iter().flatten());
            let times = ids.filter(|id| by_id.contains_key(id.as_str())).count();
            self.lost += usize::from(times == 0);
            self.duplicates += times.saturating_sub(1);
        }
        // And what a message counts that should be of so many.
        for (id, message) in &by_id {
            let meant = stored.iter().filter(|(_, own, digest)| own == id || digest.as_deref() == Some(id)).count();
            let counted = storm(message).unwrap_or(1);
            self.lost += meant.saturating_sub(counted);
            self.duplicates += counted.saturating_sub(meant);
        }
        self.duplicates += tops.len() - by_id.len();
        self.stuck += by_id.values().filter(|message| !whole(message).contains(OVER)).count();

        // A digest of several incidents does not name all of their alerts.
        let own: Vec<String> =
            tops.iter().filter(|message| storm(message).is_none()).map(|message| whole(message)).collect();
        for (group, alert) in &recorded.alerts {
            let own = own.iter().find(|text| text.contains(&name(group, 'A')));
            self.lost += usize::from(own.is_some_and(|text| !text.contains(alert.as_str())));
        }
        let mut said: BTreeMap<(&str, String), usize> = BTreeMap::new();
        for reply in &replies {
            // How long something took is no difference.
            let text = reply.content.text.replace(|c: char| c.is_ascii_digit(), "");
            *said.entry((reply.thread_ts.as_deref().unwrap_or_default(), text)).or_default() += 1;
        }
        self.duplicates += said.values().map(|times| times - 1).sum::<usize>();
        self.lost += tops.iter().filter(|message| ends_in_thread(message) && !has_end(message, &replies)).count();
    }

    /// The webhook's receiver drops a repeated `webhook-id`, and shows the highest revision of each incident.
    fn count_webhooks(&mut self, calls: &[Call]) {
        let distinct: BTreeMap<&str, &Value> = calls.iter().map(|call| (call.id.as_str(), &call.body)).collect();
        self.repeated_calls += calls.len() - distinct.len();
        let mut pages: BTreeMap<&str, BTreeMap<&str, BTreeMap<i64, &str>>> = BTreeMap::new();
        for body in distinct.values() {
            let text = |path: &str| body.pointer(path).and_then(Value::as_str).unwrap_or_default();
            let revision = body["data"]["revision"].as_i64().unwrap_or_default();
            let page = pages.entry(text("/data/labels/group")).or_default().entry(text("/data/id")).or_default();
            let same_before = page.insert(revision, text("/type")).is_some();
            self.duplicate_pages += usize::from(same_before);
        }
        self.lost_pages += self.groups.saturating_sub(pages.len());
        self.duplicate_pages += pages.values().map(|incidents| incidents.len() - 1).sum::<usize>();
        let last = pages.values().flat_map(BTreeMap::values).filter_map(BTreeMap::last_key_value);
        self.stuck_pages += last.filter(|(_, kind)| **kind != "incident.resolved").count();
    }

    /// PagerDuty joins events of one dedup key; Alertmanager's own page has the hash of the group key. A lost event is no
    /// lost page: that one is Alertmanager's.
    fn count_events(&mut self, recorded: &Recorded, events: &[Call]) {
        let known: BTreeSet<String> = recorded.group_keys.iter().map(|key| hash(key)).collect();
        let keys: BTreeSet<&str> = events.iter().filter_map(|event| event.body["dedup_key"].as_str()).collect();
        self.duplicate_pages += keys.iter().filter(|key| !known.contains(**key)).count();
        self.repeated_calls += events.len() - keys.len();
    }
}

/// The id in a message's mark.
fn mark(message: &Message) -> &str {
    let id = message.metadata.as_ref().and_then(|metadata| metadata["event_payload"]["id"].as_str());
    id.unwrap_or_else(|| panic!("a message without a mark: {}", whole(message)))
}

/// Number of incidents in a digest; `None` for the message of a single incident.
fn storm(message: &Message) -> Option<usize> {
    message.content.text.split_once("storm of ")?.1.split(' ').next()?.parse().ok()
}

/// Returns true if the message of a single incident was posted before the end, so that its thread reports the end.
fn ends_in_thread(message: &Message) -> bool {
    let is_own = message.metadata.as_ref().is_some_and(|metadata| metadata["event_payload"]["told"].is_string());
    let first = message.history.first().unwrap_or(&message.content);
    is_own && !first.text.contains(OVER) && message.content.text.contains(OVER)
}

fn has_end(message: &Message, replies: &[&Message]) -> bool {
    let mut thread = replies.iter().filter(|reply| reply.thread_ts.as_ref() == Some(&message.ts));
    thread.any(|reply| reply.content.text.to_uppercase().contains(OVER))
}

fn hash(group_key: &str) -> String {
    digest(&SHA256, group_key.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} notifications of {} groups acknowledged; messages: {} lost, {} visible duplicates, {} stuck; \
             pages: {} lost, {} duplicates, {} stuck, {} calls repeated with the same key",
            self.acknowledged,
            self.groups,
            self.lost,
            self.duplicates,
            self.stuck,
            self.lost_pages,
            self.duplicate_pages,
            self.stuck_pages,
            self.repeated_calls
        )
    }
}

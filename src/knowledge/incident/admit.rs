//! Decides how a notification changes the known state of an incident.
//!
//! Pitfalls of Alertmanager, all observed on 0.25 to 0.33: a resolved alert is sent once and then leaves the group; an
//! alert may arrive only as resolved; with truncated alerts the group's `status` is unreliable; HA pairs send twice,
//! and the second notification may be older than the first.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr, VariantArray};

use super::{IncidentState, KnownIncident};
use crate::alert::{AlertGroup, AlertStatus};
use crate::clock;

/// Alertmanager's notification reason, from 0.32 on, if really all alerts of a group are resolved.
const ALL_RESOLVED: &str = "all alerts resolved";

/// The reason why a notification changed an incident or left it unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, EnumString, IntoStaticStr, VariantArray)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum AdmitReason {
    /// The group fires for the first time.
    First,
    /// More alerts fire than before.
    NewAlerts,
    /// Some alerts ended, others still fire.
    FewerAlerts,
    /// Alertmanager's repeated notification: nothing changed.
    StillFiring,
    /// The last alert ended.
    Resolved,
    /// The group fires again soon after it was resolved.
    Refired,
    /// The same notification again: from the other Alertmanager of a pair, or a retry.
    Duplicate,
    /// The notification reports alerts as firing that ended a moment ago: the other Alertmanager of a pair is behind.
    /// The incident is not changed and the sender is asked to retry: if the alerts still fire at the next
    /// `group_interval`, they fire again.
    Late,
    /// Only resolved alerts, none of them known: no message is sent.
    ResolvedUnseen,
}

impl AdmitReason {
    /// Returns the name in metric labels and in the store.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

impl fmt::Display for AdmitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.as_str().replace('_', " "))
    }
}

/// The time limits of admission.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdmissionRules {
    /// Within this time the same content is a duplicate, afterwards a repeated notification. An episode that is
    /// reported as firing within this time of its end is late, afterwards it fires again.
    pub duplicate_within: Duration,
    /// Within this time an incident that fires again is reopened, afterwards a new one is opened.
    pub reopen_within: Duration,
}

/// The result of admission, to be stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Admission {
    /// The reason.
    pub reason: AdmitReason,
    /// The state after the notification.
    pub state: IncidentState,
    /// The incident that the group belongs to; `None` opens a new one.
    pub incident: Option<String>,
    /// Episodes that ended without an alert in this notification: they left the group, or were not stored in full.
    pub gone: Vec<(String, Timestamp)>,
    /// Number of alerts that are not stored: the firing ones, or all if none fires.
    pub left_out: u64,
}

/// Decides how to admit a notification, given the incident with its deduplication key: the open one, else the last
/// resolved one.
pub fn admit(
    open_or_last: Option<&KnownIncident>,
    group: &AlertGroup,
    now: Timestamp,
    rules: &AdmissionRules,
) -> Admission {
    let left_out = group.left_out.iter().map(|other| (other.episode.clone(), other.status));
    let statuses: BTreeMap<(String, Timestamp), AlertStatus> =
        left_out.chain(group.alerts.iter().map(|a| (a.episode(), a.status))).collect();
    let fires = statuses.values().any(|s| *s == AlertStatus::Firing);
    let left_out = not_kept(open_or_last, group, fires);
    let decided = |reason, state, incident| Admission { reason, state, incident, gone: Vec::new(), left_out };
    // A new incident stores only what this notification has; the alerts of the earlier one are not its own.
    let opens = |reason, state| Admission { left_out: not_kept(None, group, fires), ..decided(reason, state, None) };
    match open_or_last {
        Some(open_or_last) if is_late(open_or_last, group, &statuses, now, rules) => {
            decided(AdmitReason::Late, open_or_last.state, Some(open_or_last.id.clone()))
        }
        Some(open_or_last) if open_or_last.state == IncidentState::Open => {
            Admission { left_out, ..on_open(open_or_last, group, &statuses, now, rules) }
        }
        Some(open_or_last) if fires && recently(open_or_last, now, rules) => {
            decided(AdmitReason::Refired, IncidentState::Open, Some(open_or_last.id.clone()))
        }
        Some(open_or_last)
            if !fires && group.alerts.iter().all(|alert| open_or_last.episodes.contains_key(&alert.episode())) =>
        {
            decided(AdmitReason::Duplicate, IncidentState::Resolved, Some(open_or_last.id.clone()))
        }
        _ if fires => opens(AdmitReason::First, IncidentState::Open),
        _ => opens(AdmitReason::ResolvedUnseen, IncidentState::Resolved),
    }
}

/// Counts the alerts of the group that are not stored, neither from this notification nor from an earlier one.
fn not_kept(incident: Option<&KnownIncident>, group: &AlertGroup, fires: bool) -> u64 {
    let counts = |status| status == AlertStatus::Firing || !fires;
    let stored = |episode| incident.is_some_and(|incident| incident.episodes.contains_key(episode));
    let others = group.left_out.iter().filter(|other| counts(other.status) && !stored(&other.episode)).count();
    group.truncated_alerts.saturating_add(others as u64)
}

/// Returns true if the notification is older than the stored state: it adds nothing, but reports ended episodes as
/// firing. An alert that fires again gets a new start time from Alertmanager, unless Alertmanager had only lost it for
/// a while. For a group that is too large to store, as many episodes may be unknown as were left out before.
fn is_late(
    incident: &KnownIncident,
    group: &AlertGroup,
    statuses: &BTreeMap<(String, Timestamp), AlertStatus>,
    now: Timestamp,
    rules: &AdmissionRules,
) -> bool {
    use AlertStatus::{Firing, Resolved};
    let steps: Vec<_> = statuses.iter().map(|(episode, status)| (incident.episodes.get(episode), status)).collect();
    let unknown = steps.iter().filter(|(before, _)| before.is_none()).count() as u64;
    let left_out = if group.left_out.is_empty() { 0 } else { incident.left_out_most };
    let changed = incident.resolved_at.unwrap_or(incident.notified_at);
    clock::between(changed, now) <= rules.duplicate_within
        && unknown <= left_out
        && !steps.contains(&(Some(&Firing), &Resolved))
        && steps.contains(&(Some(&Resolved), &Firing))
}

fn recently(incident: &KnownIncident, now: Timestamp, rules: &AdmissionRules) -> bool {
    incident.resolved_at.is_some_and(|at| clock::between(at, now) <= rules.reopen_within)
}

fn on_open(
    open_incident: &KnownIncident,
    group: &AlertGroup,
    statuses: &BTreeMap<(String, Timestamp), AlertStatus>,
    now: Timestamp,
    rules: &AdmissionRules,
) -> Admission {
    let all_over = group.notification_reason.as_deref() == Some(ALL_RESOLVED);
    let (added, ended) = change(open_incident, group, statuses);
    let stored_episodes: BTreeSet<(String, Timestamp)> = group.alerts.iter().map(|alert| alert.episode()).collect();
    // A complete notification lists every firing alert, so an alert that it does not list has ended.
    let is_over = |episode: &(String, Timestamp)| match statuses.get(episode) {
        Some(status) => *status == AlertStatus::Resolved,
        None => group.truncated_alerts == 0 || all_over,
    };
    let fired = |status: &AlertStatus| *status == AlertStatus::Firing;
    let left_group = open_incident
        .episodes
        .iter()
        .filter(|(e, status)| fired(status) && !stored_episodes.contains(*e) && is_over(e));
    let left_group: Vec<(String, Timestamp)> = left_group.map(|(episode, _)| episode.clone()).collect();
    let fires = statuses.values().any(|s| *s == AlertStatus::Firing) || (group.truncated_alerts > 0 && !all_over);
    let reason = if !fires {
        AdmitReason::Resolved
    } else if added {
        AdmitReason::NewAlerts
    } else if ended || !left_group.is_empty() {
        AdmitReason::FewerAlerts
    } else if clock::between(open_incident.notified_at, now) <= rules.duplicate_within {
        AdmitReason::Duplicate
    } else {
        AdmitReason::StillFiring
    };
    Admission {
        reason,
        state: if fires { IncidentState::Open } else { IncidentState::Resolved },
        incident: Some(open_incident.id.clone()),
        gone: left_group,
        left_out: 0,
    }
}

/// Returns whether alerts began to fire, and whether alerts ended.
fn change(
    incident: &KnownIncident,
    group: &AlertGroup,
    statuses: &BTreeMap<(String, Timestamp), AlertStatus>,
) -> (bool, bool) {
    let fires = |status: &AlertStatus| *status == AlertStatus::Firing;
    if group.truncated_alerts == 0 && (incident.left_out > 0 || !group.left_out.is_empty()) {
        // Alerts that were left out before are not stored, only their number.
        let before = incident.episodes.values().filter(|status| fires(status)).count() as u64;
        let (before, now) =
            (before.saturating_add(incident.left_out), statuses.values().filter(|s| fires(s)).count() as u64);
        return (now > before, now < before);
    }
    let firing_before = |episode| incident.episodes.get(episode).is_some_and(fires);
    let added = statuses.iter().any(|(episode, status)| fires(status) && !firing_before(episode));
    let ended = statuses.iter().any(|(episode, status)| !fires(status) && firing_before(episode));
    (added, ended)
}

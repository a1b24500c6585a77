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

use super::{IncidentState, KnownIncident};
use crate::alert::{AlertGroup, AlertStatus};
use crate::clock;

/// Alertmanager's notification reason, from 0.32 on, if really all alerts of a group are resolved.
const ALL_RESOLVED: &str = "all alerts resolved";

/// The reason why a notification changed an incident or left it unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
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
    /// All reasons.
    pub const ALL: [Self; 9] = [
        Self::First,
        Self::NewAlerts,
        Self::FewerAlerts,
        Self::StillFiring,
        Self::Resolved,
        Self::Refired,
        Self::Duplicate,
        Self::Late,
        Self::ResolvedUnseen,
    ];

    /// Returns the name in metric labels and in the store.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::NewAlerts => "new_alerts",
            Self::FewerAlerts => "fewer_alerts",
            Self::StillFiring => "still_firing",
            Self::Resolved => "resolved",
            Self::Refired => "refired",
            Self::Duplicate => "duplicate",
            Self::Late => "late",
            Self::ResolvedUnseen => "resolved_unseen",
        }
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

/// Decides what a group means, given the known incident with its key: the open one, or else the last resolved one.
pub fn admit(known: Option<&KnownIncident>, group: &AlertGroup, now: Timestamp, rules: &AdmissionRules) -> Admission {
    let left_out = group.left_out.iter().map(|other| (other.episode.clone(), other.status));
    let said: BTreeMap<(String, Timestamp), AlertStatus> =
        left_out.chain(group.alerts.iter().map(|a| (a.episode(), a.status))).collect();
    let fires = said.values().any(|s| *s == AlertStatus::Firing);
    let left_out = not_kept(known, group, fires);
    let decided = |reason, state, incident| Admission { reason, state, incident, gone: Vec::new(), left_out };
    match known {
        Some(known) if is_late(known, group, &said, now, rules) => {
            decided(AdmitReason::Late, known.state, Some(known.id.clone()))
        }
        Some(known) if known.state == IncidentState::Open => {
            Admission { left_out, ..on_open(known, group, &said, now, rules) }
        }
        Some(known) if fires && recently(known, now, rules) => {
            decided(AdmitReason::Refired, IncidentState::Open, Some(known.id.clone()))
        }
        Some(known) if !fires && group.alerts.iter().all(|alert| known.episodes.contains_key(&alert.episode())) => {
            decided(AdmitReason::Duplicate, IncidentState::Resolved, Some(known.id.clone()))
        }
        _ if fires => decided(AdmitReason::First, IncidentState::Open, None),
        _ => decided(AdmitReason::ResolvedUnseen, IncidentState::Resolved, None),
    }
}

/// Counts the alerts of the group that are not stored, neither from this notification nor from an earlier one.
fn not_kept(known: Option<&KnownIncident>, group: &AlertGroup, fires: bool) -> u64 {
    let counts = |status| status == AlertStatus::Firing || !fires;
    let stored = |episode| known.is_some_and(|known| known.episodes.contains_key(episode));
    let others = group.left_out.iter().filter(|other| counts(other.status) && !stored(&other.episode)).count();
    group.truncated_alerts.saturating_add(others as u64)
}

/// Returns true if the notification is older than the stored state: it adds nothing, but reports ended episodes as
/// firing. An alert that fires again gets a new start time from Alertmanager, unless Alertmanager had only lost it for
/// a while. For a group that is too large to store, as many episodes may be unknown as were left out before.
fn is_late(
    known: &KnownIncident,
    group: &AlertGroup,
    said: &BTreeMap<(String, Timestamp), AlertStatus>,
    now: Timestamp,
    rules: &AdmissionRules,
) -> bool {
    use AlertStatus::{Firing, Resolved};
    let steps: Vec<_> = said.iter().map(|(episode, status)| (known.episodes.get(episode), status)).collect();
    let unknown = steps.iter().filter(|(before, _)| before.is_none()).count() as u64;
    let left_out = if group.left_out.is_empty() { 0 } else { known.left_out_most };
    let changed = known.resolved_at.unwrap_or(known.notified_at);
    clock::between(changed, now) <= rules.duplicate_within
        && unknown <= left_out
        && !steps.contains(&(Some(&Firing), &Resolved))
        && steps.contains(&(Some(&Resolved), &Firing))
}

fn recently(known: &KnownIncident, now: Timestamp, rules: &AdmissionRules) -> bool {
    known.resolved_at.is_some_and(|at| clock::between(at, now) <= rules.reopen_within)
}

fn on_open(
    known: &KnownIncident,
    group: &AlertGroup,
    said: &BTreeMap<(String, Timestamp), AlertStatus>,
    now: Timestamp,
    rules: &AdmissionRules,
) -> Admission {
    let all_over = group.notification_reason.as_deref() == Some(ALL_RESOLVED);
    let (added, ended) = change(known, group, said);
    let kept: BTreeSet<(String, Timestamp)> = group.alerts.iter().map(|alert| alert.episode()).collect();
    // A complete notification lists every firing alert, so an alert that it does not list has ended.
    let is_over = |episode: &(String, Timestamp)| match said.get(episode) {
        Some(status) => *status == AlertStatus::Resolved,
        None => group.truncated_alerts == 0 || all_over,
    };
    let fired = |status: &AlertStatus| *status == AlertStatus::Firing;
    let gone = known.episodes.iter().filter(|(e, status)| fired(status) && !kept.contains(*e) && is_over(e));
    let gone: Vec<(String, Timestamp)> = gone.map(|(episode, _)| episode.clone()).collect();
    let fires = said.values().any(|s| *s == AlertStatus::Firing) || (group.truncated_alerts > 0 && !all_over);
    let reason = if !fires {
        AdmitReason::Resolved
    } else if added {
        AdmitReason::NewAlerts
    } else if ended || !gone.is_empty() {
        AdmitReason::FewerAlerts
    } else if clock::between(known.notified_at, now) <= rules.duplicate_within {
        AdmitReason::Duplicate
    } else {
        AdmitReason::StillFiring
    };
    Admission {
        reason,
        state: if fires { IncidentState::Open } else { IncidentState::Resolved },
        incident: Some(known.id.clone()),
        gone,
        left_out: 0,
    }
}

/// Returns whether alerts began to fire, and whether alerts ended.
fn change(
    known: &KnownIncident,
    group: &AlertGroup,
    said: &BTreeMap<(String, Timestamp), AlertStatus>,
) -> (bool, bool) {
    let fires = |status: &AlertStatus| *status == AlertStatus::Firing;
    if group.truncated_alerts == 0 && (known.left_out > 0 || !group.left_out.is_empty()) {
        // Alerts that were left out before are not stored, only their number.
        let before = known.episodes.values().filter(|status| fires(status)).count() as u64;
        let (before, now) = (before.saturating_add(known.left_out), said.values().filter(|s| fires(s)).count() as u64);
        return (now > before, now < before);
    }
    let firing_before = |episode| known.episodes.get(episode).is_some_and(fires);
    let added = said.iter().any(|(episode, status)| fires(status) && !firing_before(episode));
    let ended = said.iter().any(|(episode, status)| !fires(status) && firing_before(episode));
    (added, ended)
}

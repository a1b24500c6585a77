//! admit: what a notification means for what is known.
//!
//! Alertmanager's traps, all seen on 0.25 to 0.33: a resolved alert is sent once and then leaves the group; an alert
//! may arrive only as resolved; with truncated alerts the group's `status` says nothing; HA pairs send twice, and the
//! second may be older than what the first has said.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Known, State};
use crate::alert::{AlertGroup, AlertStatus};
use crate::clock;

/// What Alertmanager says, from 0.32 on, when really all alerts of a group are over.
const ALL_RESOLVED: &str = "all alerts resolved";

/// Why a notification changed an incident, or did not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AdmitReason {
    /// The group fires for the first time.
    First,
    /// More alerts fire than before.
    NewAlerts,
    /// Some alerts ended, others fire on.
    FewerAlerts,
    /// Alertmanager's reminder: nothing changed.
    StillFiring,
    /// The last alert ended.
    Resolved,
    /// It fires again soon after it was resolved.
    Refired,
    /// The same notification once more: another Alertmanager of a pair, or a retry.
    Duplicate,
    /// It says that alerts fire whose end was told a moment ago: the other Alertmanager of a pair is late. Nothing is
    /// stored and the sender is asked to come again: if they still fire at the next `group_interval`, they fire anew.
    Late,
    /// Only ended alerts, and nothing was known of them: nobody is told.
    ResolvedUnseen,
}

impl AdmitReason {
    /// As labels of metrics and in the store.
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

/// The times that decide.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rules {
    /// The same content within this time is a duplicate, later a reminder; an ended episode that is said to fire within
    /// this time of its end is late, later it fires anew.
    pub duplicate_within: Duration,
    /// Firing again within this time reopens the incident, later it is a new one.
    pub reopen_within: Duration,
}

/// What is to be stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Admission {
    /// Why.
    pub reason: AdmitReason,
    /// The state afterwards.
    pub state: State,
    /// The incident that it belongs to; none makes a new one.
    pub incident: Option<String>,
    /// Episodes that ended and whose alert is not in this notification: they left the group, or were left out.
    pub gone: Vec<(String, Timestamp)>,
    /// Alerts of which nothing is kept: those that fire, or all when none does.
    pub left_out: u64,
}

/// Decides for a group on what is known of its key: the open incident, else the last resolved one.
pub fn admit(known: Option<&Known>, group: &AlertGroup, now: Timestamp, rules: &Rules) -> Admission {
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
        Some(known) if known.state == State::Open => Admission { left_out, ..on_open(known, group, &said, now, rules) },
        Some(known) if fires && recently(known, now, rules) => {
            decided(AdmitReason::Refired, State::Open, Some(known.id.clone()))
        }
        Some(known) if !fires && group.alerts.iter().all(|alert| known.episodes.contains_key(&alert.episode())) => {
            decided(AdmitReason::Duplicate, State::Resolved, Some(known.id.clone()))
        }
        _ if fires => decided(AdmitReason::First, State::Open, None),
        _ => decided(AdmitReason::ResolvedUnseen, State::Resolved, None),
    }
}

/// How many alerts of the group have no alert in the store, neither from this notification nor from an earlier one.
fn not_kept(known: Option<&Known>, group: &AlertGroup, fires: bool) -> u64 {
    let counts = |status| status == AlertStatus::Firing || !fires;
    let stored = |episode| known.is_some_and(|known| known.episodes.contains_key(episode));
    let others = group.left_out.iter().filter(|other| counts(other.status) && !stored(&other.episode)).count();
    group.truncated_alerts.saturating_add(others as u64)
}

/// Whether it repeats the past: it brings no news, but says that ended episodes fire. Alertmanager gives an alert that
/// fires again another start, unless it had only lost sight of it. Of a group that is too large to be kept, as many episodes
/// may be unknown as were left out before.
fn is_late(
    known: &Known,
    group: &AlertGroup,
    said: &BTreeMap<(String, Timestamp), AlertStatus>,
    now: Timestamp,
    rules: &Rules,
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

fn recently(known: &Known, now: Timestamp, rules: &Rules) -> bool {
    known.resolved_at.is_some_and(|at| clock::between(at, now) <= rules.reopen_within)
}

fn on_open(
    known: &Known,
    group: &AlertGroup,
    said: &BTreeMap<(String, Timestamp), AlertStatus>,
    now: Timestamp,
    rules: &Rules,
) -> Admission {
    let all_over = group.notification_reason.as_deref() == Some(ALL_RESOLVED);
    let (added, ended) = change(known, group, said);
    let kept: BTreeSet<(String, Timestamp)> = group.alerts.iter().map(|alert| alert.episode()).collect();
    // A complete notification lists everything that fires, so what it does not list has ended.
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
        state: if fires { State::Open } else { State::Resolved },
        incident: Some(known.id.clone()),
        gone,
        left_out: 0,
    }
}

/// Whether alerts began to fire, and whether some ended.
fn change(known: &Known, group: &AlertGroup, said: &BTreeMap<(String, Timestamp), AlertStatus>) -> (bool, bool) {
    let fires = |status: &AlertStatus| *status == AlertStatus::Firing;
    if group.truncated_alerts == 0 && (known.left_out > 0 || !group.left_out.is_empty()) {
        // Who was left out before is not stored, but how many were.
        let before = known.episodes.values().filter(|status| fires(status)).count() as u64;
        let (before, now) = (before.saturating_add(known.left_out), said.values().filter(|s| fires(s)).count() as u64);
        return (now > before, now < before);
    }
    let firing_before = |episode| known.episodes.get(episode).is_some_and(fires);
    let added = said.iter().any(|(episode, status)| fires(status) && !firing_before(episode));
    let ended = said.iter().any(|(episode, status)| !fires(status) && firing_before(episode));
    (added, ended)
}

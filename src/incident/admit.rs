//! admit: what a notification means for what is known.
//!
//! Alertmanager's traps, all seen on 0.25 to 0.33: a resolved alert is sent once and then leaves the group; an alert
//! may arrive only as resolved; with truncated alerts the group's `status` says nothing; HA pairs send twice, and the
//! second may be older than what the first has said.

use std::collections::BTreeMap;
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
    /// Episodes that ended without the payload saying so: they left the group.
    pub gone: Vec<(String, Timestamp)>,
}

/// Decides for a group on what is known of its key: the open incident, else the last resolved one.
pub fn admit(known: Option<&Known>, group: &AlertGroup, now: Timestamp, rules: &Rules) -> Admission {
    let said: BTreeMap<(String, Timestamp), AlertStatus> =
        group.alerts.iter().map(|a| (a.episode(), a.status)).collect();
    let fires = said.values().any(|s| *s == AlertStatus::Firing);
    match known {
        Some(known) if is_late(known, &said, now, rules) => Admission {
            reason: AdmitReason::Late,
            state: known.state,
            incident: Some(known.id.clone()),
            gone: Vec::new(),
        },
        Some(known) if known.state == State::Open => on_open(known, group, &said, now, rules),
        Some(known) if fires && recently(known, now, rules) => Admission {
            reason: AdmitReason::Refired,
            state: State::Open,
            incident: Some(known.id.clone()),
            gone: Vec::new(),
        },
        Some(known) if !fires && said.keys().all(|episode| known.episodes.contains_key(episode)) => Admission {
            reason: AdmitReason::Duplicate,
            state: State::Resolved,
            incident: Some(known.id.clone()),
            gone: Vec::new(),
        },
        _ => Admission {
            reason: if fires { AdmitReason::First } else { AdmitReason::ResolvedUnseen },
            state: if fires { State::Open } else { State::Resolved },
            incident: None,
            gone: Vec::new(),
        },
    }
}

/// Whether it repeats the past: it brings no news, but says that ended episodes fire. Alertmanager gives an alert that
/// fires again another start, unless it had only lost sight of it.
fn is_late(known: &Known, said: &BTreeMap<(String, Timestamp), AlertStatus>, now: Timestamp, rules: &Rules) -> bool {
    use AlertStatus::{Firing, Resolved};
    let steps: Vec<_> = said.iter().map(|(episode, status)| (known.episodes.get(episode), status)).collect();
    let news = |step: &(Option<&AlertStatus>, &AlertStatus)| matches!(step, (None, _) | (Some(Firing), Resolved));
    let changed = known.resolved_at.unwrap_or(known.notified_at);
    clock::between(changed, now) <= rules.duplicate_within
        && !steps.iter().any(news)
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
    let firing_before = |episode| known.episodes.get(episode) == Some(&AlertStatus::Firing);
    let added = said.iter().any(|(e, status)| *status == AlertStatus::Firing && !firing_before(e));
    let ended = said.iter().any(|(e, status)| *status == AlertStatus::Resolved && firing_before(e));
    // A complete notification lists everything that fires, so what it does not list has ended.
    let gone: Vec<(String, Timestamp)> = match group.truncated_alerts {
        0 => known
            .episodes
            .iter()
            .filter(|(e, status)| **status == AlertStatus::Firing && !said.contains_key(*e))
            .map(|(e, _)| e.clone())
            .collect(),
        _ => Vec::new(),
    };
    let all_over = group.notification_reason.as_deref() == Some(ALL_RESOLVED);
    let fires = said.values().any(|s| *s == AlertStatus::Firing)
        || (group.truncated_alerts > 0 && !all_over)
        || known
            .episodes
            .iter()
            .any(|(e, s)| *s == AlertStatus::Firing && !said.contains_key(e) && !gone.contains(e) && !all_over);
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
        gone: if all_over {
            known.episodes.keys().filter(|e| firing_before(e) && !said.contains_key(*e)).cloned().collect()
        } else {
            gone
        },
    }
}

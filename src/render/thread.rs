//! What the thread of an incident is told: only what changed since it was told last.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{IncidentView, Line, Words};
use crate::alert::AlertStatus;
use crate::diagnose::Verdict;

/// What a thread knows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Told {
    /// The likely cause's clause.
    pub cause: Option<String>,
    /// Replicas that are hit.
    pub replicas: BTreeSet<String>,
    /// Alerts that fire.
    pub firing: usize,
}

impl Told {
    /// What the message says now.
    pub fn of(view: &IncidentView<'_>) -> Self {
        let root = view.diagnosis.and_then(|d| d.root()).filter(|root| root.verdict == Verdict::Likely);
        Self {
            cause: root.map(|root| root.title.clone()),
            replicas: root.map(|root| root.replicas.affected.iter().cloned().collect()).unwrap_or_default(),
            firing: view.alerts.iter().filter(|a| a.status == AlertStatus::Firing).count(),
        }
    }
}

/// What somebody who knows `old` learns from `new`; none when that is nothing.
pub fn changes(old: &Told, new: &Told, words: &Words) -> Option<Line> {
    let mut said: Vec<Line> = Vec::new();
    if new.firing == 0 && old.firing > 0 {
        said.push(words.line("thread-over", &[]));
    } else if new.firing > old.firing {
        said.push(words.line("thread-more-alerts", &[("count", (new.firing - old.firing).into())]));
    }
    let more = new.replicas.difference(&old.replicas).count();
    if more > 0 && old.cause == new.cause {
        said.push(words.line("thread-more-replicas", &[("count", more.into())]));
    }
    if let Some(cause) = new.cause.as_ref().filter(|_| old.cause != new.cause) {
        said.push(words.line("thread-cause", &[("cause", cause.as_str().into())]));
    }
    said.into_iter().reduce(|line, next| line.plain(" · ").then(next))
}

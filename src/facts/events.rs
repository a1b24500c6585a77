//! Events as sentences; equal events of many replicas at about the same time become one sentence.

use jiff::Timestamp;

use findings::facts::{HappenedKind, TimelineEvent};

/// Maximum sentences.
const MAX_SENTENCES: usize = 50;
/// Maximum replicas named in a sentence.
const MAX_NAMED_REPLICAS: usize = 3;
/// Seconds within which equal events are merged; the next value is used if too many sentences are left.
const MERGE_SECONDS: [i64; 4] = [120, 600, 3_600, i64::MAX];

/// An event of one replica or workload.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ReplicaEvent {
    pub(super) at: Timestamp,
    pub(super) what: ReplicaEventKind,
    pub(super) who: String,
}

/// The kind of event.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ReplicaEventKind {
    /// A replica's first sample.
    Came,
    /// A replica's last sample.
    Went,
    /// A gap without samples.
    Silent { seconds: f64 },
    /// A restart of the process or container.
    Restarted,
    /// Any other event, as a complete sentence.
    Told(String),
}

impl ReplicaEventKind {
    fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Told(a), Self::Told(b)) => a == b,
            (a, b) => std::mem::discriminant(a) == std::mem::discriminant(b),
        }
    }

    fn kind(&self) -> HappenedKind {
        match self {
            Self::Came | Self::Went | Self::Silent { .. } => HappenedKind::Presence,
            Self::Restarted => HappenedKind::Restart,
            Self::Told(_) => HappenedKind::Rollout,
        }
    }
}

/// Returns the events as sentences, oldest first, and the number of omitted ones.
pub(super) fn sentences(mut events: Vec<ReplicaEvent>) -> (Vec<TimelineEvent>, usize) {
    events.sort_by(|a, b| a.at.cmp(&b.at).then_with(|| a.who.cmp(&b.who)));
    let merged = |within: i64| {
        let mut groups: Vec<Vec<&ReplicaEvent>> = Vec::new();
        for event in &events {
            let near = |first: &ReplicaEvent| event.at.as_second() - first.at.as_second() <= within;
            let fits =
                |group: &&mut Vec<&ReplicaEvent>| group.first().is_some_and(|f| f.what.is_like(&event.what) && near(f));
            match groups.iter_mut().rev().find(fits) {
                Some(group) => group.push(event),
                None => groups.push(vec![event]),
            }
        }
        groups
    };
    let mut groups = Vec::new();
    for within in MERGE_SECONDS {
        groups = merged(within);
        if groups.len() <= MAX_SENTENCES {
            break;
        }
    }
    let left_out = groups.len().saturating_sub(MAX_SENTENCES);
    (groups.iter().take(MAX_SENTENCES).filter_map(|group| sentence(group)).collect(), left_out)
}

fn sentence(group: &[&ReplicaEvent]) -> Option<TimelineEvent> {
    let first = group.first()?;
    let mut names: Vec<&str> = group.iter().map(|event| event.who.as_str()).collect();
    let times = names.len();
    names.sort_unstable();
    names.dedup();
    let who = match names.as_slice() {
        [one] => format!("replica {one}"),
        all => {
            let more = all.len().saturating_sub(MAX_NAMED_REPLICAS);
            let named = all.iter().take(MAX_NAMED_REPLICAS).copied().collect::<Vec<_>>().join(", ");
            let more = if more == 0 { String::new() } else { format!(" and {more} more") };
            format!("{} replicas ({named}{more})", all.len())
        }
    };
    let what = match &first.what {
        ReplicaEventKind::Came => format!("{who} began to export metrics"),
        ReplicaEventKind::Went => format!("{who} stopped exporting metrics"),
        ReplicaEventKind::Silent { seconds } if names.len() == 1 && times == 1 => {
            format!("{who} exported no metrics for {} min", (seconds / 60.0).round().max(1.0))
        }
        ReplicaEventKind::Silent { .. } => format!("{who} exported no metrics for some minutes"),
        ReplicaEventKind::Restarted if times > names.len() => format!("{who} restarted, {times} times in all"),
        ReplicaEventKind::Restarted => format!("{who} restarted"),
        ReplicaEventKind::Told(sentence) => sentence.clone(),
    };
    Some(TimelineEvent { at: first.at, kind: first.what.kind(), what, source: "prometheus".to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(at: i64, what: ReplicaEventKind, who: &str) -> ReplicaEvent {
        ReplicaEvent { at: Timestamp::from_second(at).unwrap(), what, who: who.to_owned() }
    }

    fn sentences_of(events: Vec<ReplicaEvent>) -> Vec<String> {
        sentences(events).0.into_iter().map(|happened| happened.what).collect()
    }

    #[test]
    fn the_same_of_many_at_once_is_one_sentence_and_later_is_another() {
        let many = (0..12).map(|i| event(1_000 + i, ReplicaEventKind::Restarted, &format!("llama-{i:02}")));
        let later = event(5_000, ReplicaEventKind::Restarted, "llama-00");
        let texts = sentences_of(many.chain([later]).collect());
        let all = "12 replicas (llama-00, llama-01, llama-02 and 9 more) restarted";
        assert_eq!(texts, [all, "replica llama-00 restarted"]);
    }

    #[test]
    fn a_crash_loop_is_counted_and_never_fills_the_page() {
        let twice = vec![event(10, ReplicaEventKind::Restarted, "a"), event(20, ReplicaEventKind::Restarted, "a")];
        assert_eq!(sentences_of(twice), ["replica a restarted, 2 times in all"]);
        let endless = (0..500).map(|i| event(i * 130, ReplicaEventKind::Restarted, "a")).collect();
        assert!(sentences_of(endless).len() <= MAX_SENTENCES);
    }
}

//! The weekly summary of a channel: what happened, how fast it was told, taken and over, what returns, and what nobody could
//! check. Pure.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{FiringOutcome, MissingData, missing, named_cause, outcome};
use findings::Diagnosis;
use knowledge::alert::Labels;
use knowledge::clock::between;
use knowledge::incident::{CauseHistory, PoolCause, Week, WeekIncident};

/// The version of the JSON output; an incompatible change gets a new name.
pub const SCHEMA: &str = "llm-diagnose/weekly/v1";
/// Maximum number of causes.
pub const CAUSES: usize = 10;
/// Maximum number of open incidents.
const OPEN: usize = 5;
/// Maximum number of missing signals.
const GAPS: usize = 5;

/// The summary of a channel's week.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WeeklySummary {
    /// [`SCHEMA`].
    pub schema: String,
    /// The channel as configured.
    pub channel: String,
    /// The start of the week.
    pub since: Timestamp,
    /// The end of the week.
    pub until: Timestamp,
    /// Number of incidents that began in it.
    pub incidents: u64,
    /// Number of incidents that began in the week before.
    pub before: u64,
    /// Number of incidents that were read; only the newest are, where there are more.
    pub read: u64,
    /// Number of critical ones.
    pub critical: u64,
    /// Number of ones that fired again after their end.
    pub refired: u64,
    /// Number of ones that were closed because Alertmanager fell silent.
    pub stale: u64,
    /// Number of ones that are still open.
    pub open: u64,
    /// Open ones, the oldest first; a few.
    pub still_open: Vec<WeeklyOpen>,
    /// The time to the first message; `null` if none is known.
    pub first_message: Option<WeeklyTimes>,
    /// The time to the first acknowledgement; `null` if nobody took one.
    pub acknowledged: Option<WeeklyTimes>,
    /// The time from the first alert to the end; `null` if none is over.
    pub resolved: Option<WeeklyTimes>,
    /// The causes in their pools, the most frequent first; a few.
    pub causes: Vec<WeeklyCause>,
    /// Number of further causes.
    pub more_causes: u64,
    /// The incidents whose diagnosis names no cause; `null` if there are none.
    pub unexplained: Option<WeeklyCount>,
    /// The checks that diagnoses without a cause could not make, the most frequent first; a few.
    pub blind: Vec<WeeklyGap>,
}

/// Times that incidents took.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WeeklyTimes {
    /// Number of incidents.
    pub incidents: u64,
    /// The median, in seconds.
    pub median_seconds: u64,
    /// The longest, in seconds.
    pub longest_seconds: u64,
    /// The incident that took the longest.
    pub longest: String,
}

/// A number of incidents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WeeklyCount {
    /// The number.
    pub incidents: u64,
    /// The newest of them.
    pub newest: String,
}

/// An open incident.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WeeklyOpen {
    /// Its id.
    pub incident: String,
    /// The title of its cause, else of its playbook; empty if neither is known.
    pub title: String,
    /// The labels of its pool; empty if it is not known.
    pub pool: Labels,
    /// The start of its first alert.
    pub since: Timestamp,
}

/// A cause in a pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WeeklyCause {
    /// The id of the cause.
    pub cause: String,
    /// Its title.
    pub title: String,
    /// The labels of the pool.
    pub pool: Labels,
    /// Number of incidents of the week, and the newest.
    #[serde(flatten)]
    pub count: WeeklyCount,
    /// Number of earlier incidents with this cause in this pool.
    pub before: u64,
    /// The time of the last earlier one.
    pub last_before: Option<Timestamp>,
    /// The last step that was marked as done; `null` if none was.
    pub done: Option<String>,
    /// The result of its last verification.
    pub verified: Option<String>,
}

impl WeeklyCause {
    /// Returns true if the cause has hit the pool more than once.
    pub fn returns(&self) -> bool {
        self.count.incidents + self.before > 1
    }
}

/// Something that could not be checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WeeklyGap {
    /// The missing data, and the reason.
    #[serde(flatten)]
    pub missing: MissingData,
    /// Number of incidents without a cause for which it is missing, and the newest.
    #[serde(flatten)]
    pub count: WeeklyCount,
}

/// The findings of a diagnosis, for an incident whose row names no cause.
#[derive(Debug, Clone, PartialEq)]
pub struct DiagnosisReading {
    /// The cause that it names after all: the last link of its chain.
    pub cause: Option<PoolCause>,
    /// The missing data, if that may be why it names none.
    pub missing: Vec<MissingData>,
}

/// Reads a diagnosis for the summary.
pub fn read(source: &str, diagnosis: &Diagnosis) -> DiagnosisReading {
    let named = named_cause(diagnosis).and_then(|named| named.chain.last().cloned());
    let pool = &diagnosis.scope.labels;
    let is_blind = matches!(outcome(diagnosis), FiringOutcome::Blind | FiringOutcome::NoCause);
    DiagnosisReading {
        cause: named.map(|id| PoolCause { source: source.to_owned(), pool: pool.clone(), id }),
        missing: if is_blind { missing(diagnosis) } else { Vec::new() },
    }
}

/// Returns the causes of a week in their pools, the most frequent first, each with its incidents, newest first.
pub fn causes(week: &Week) -> Vec<(&PoolCause, Vec<&WeekIncident>)> {
    let mut causes: BTreeMap<&PoolCause, Vec<&WeekIncident>> = BTreeMap::new();
    for incident in &week.incidents {
        if let Some(cause) = &incident.cause {
            causes.entry(cause).or_default().push(incident);
        }
    }
    let mut causes: Vec<_> = causes.into_iter().collect();
    causes.sort_by_key(|(_, incidents)| Reverse(incidents.len()));
    causes
}

/// Summarises a channel's week. `gaps` is the missing data by incident, newest first; `history` that of the first
/// [`CAUSES`] of [`causes`]; `title` returns the title of a cause or a playbook.
pub fn summarise(
    channel: &str,
    [since, until]: [Timestamp; 2],
    week: &Week,
    gaps: &[(String, Vec<MissingData>)],
    history: &[CauseHistory],
    title: impl Fn(&str) -> String,
) -> WeeklySummary {
    let count = |is: fn(&WeekIncident) -> bool| week.incidents.iter().filter(|i| is(i)).count() as u64;
    let all = causes(week);
    let lines = all.iter().zip(history).map(|((cause, incidents), history)| WeeklyCause {
        cause: cause.id.clone(),
        title: title(&cause.id),
        pool: cause.pool.clone(),
        count: counted(incidents.iter().map(|incident| incident.id.as_str())),
        before: history.before,
        last_before: history.last_before,
        done: history.done.clone(),
        verified: history.verified.clone(),
    });
    let lines: Vec<WeeklyCause> = lines.take(CAUSES).collect();
    let unexplained: Vec<&str> =
        week.incidents.iter().filter(|i| i.cause.is_none()).map(|incident| incident.id.as_str()).collect();
    let open = |incident: &WeekIncident| WeeklyOpen {
        incident: incident.id.clone(),
        title: incident
            .cause
            .as_ref()
            .map(|cause| &cause.id)
            .or(incident.playbook.as_ref())
            .map_or_else(String::new, |id| title(id)),
        pool: incident.cause.as_ref().map(|cause| cause.pool.clone()).unwrap_or_default(),
        since: incident.started_at,
    };
    WeeklySummary {
        schema: SCHEMA.to_owned(),
        channel: channel.to_owned(),
        since,
        until,
        incidents: week.count,
        before: week.before,
        read: week.incidents.len() as u64,
        critical: count(|i| i.critical),
        refired: count(|i| i.refired > 0),
        stale: count(|i| i.stale),
        open: count(|i| i.open),
        still_open: week.incidents.iter().rev().filter(|i| i.open).take(OPEN).map(open).collect(),
        first_message: times(week, |i| Some((i.opened_at, i.first_message_at?))),
        acknowledged: times(week, |i| Some((i.opened_at, i.acknowledged_at?))),
        resolved: times(week, |i| Some((i.started_at, i.resolved_at.filter(|_| !i.open && !i.stale)?))),
        more_causes: all.len().saturating_sub(lines.len()) as u64,
        causes: lines,
        unexplained: (!unexplained.is_empty()).then(|| counted(unexplained.into_iter())),
        blind: blind(gaps),
    }
}

/// Counts incidents, of which the first is the newest.
fn counted<'a>(mut ids: impl Iterator<Item = &'a str>) -> WeeklyCount {
    let newest = ids.next().unwrap_or_default().to_owned();
    WeeklyCount { incidents: 1 + ids.count() as u64, newest }
}

/// Returns the times of the incidents that have both ends; `None` if there are none.
fn times(week: &Week, ends: impl Fn(&WeekIncident) -> Option<(Timestamp, Timestamp)>) -> Option<WeeklyTimes> {
    let took = |incident: &'_ WeekIncident| ends(incident).map(|(from, to)| between(from, to).as_secs());
    let mut all: Vec<(u64, &str)> =
        week.incidents.iter().filter_map(|incident| Some((took(incident)?, incident.id.as_str()))).collect();
    all.sort_unstable();
    let (longest_seconds, longest) = all.last().map(|(seconds, id)| (*seconds, (*id).to_owned()))?;
    let median_seconds = all[(all.len() - 1) / 2].0;
    Some(WeeklyTimes { incidents: all.len() as u64, median_seconds, longest_seconds, longest })
}

/// Groups missing data by what is missing and what turns it on.
fn blind(gaps: &[(String, Vec<MissingData>)]) -> Vec<WeeklyGap> {
    let mut lines: Vec<WeeklyGap> = Vec::new();
    for (incident, missing) in gaps {
        for missing in missing {
            let same = |line: &&mut WeeklyGap| {
                (&line.missing.what, &line.missing.enable) == (&missing.what, &missing.enable)
                    && (missing.enable.is_some() || line.missing.why == missing.why)
            };
            match lines.iter_mut().find(same) {
                Some(line) => line.count.incidents += 1,
                None => {
                    let count = WeeklyCount { incidents: 1, newest: incident.clone() };
                    lines.push(WeeklyGap { missing: missing.clone(), count });
                }
            }
        }
    }
    lines.sort_by_key(|line| Reverse(line.count.incidents));
    lines.truncate(GAPS);
    lines
}

#[cfg(test)]
mod tests {
    use knowledge::clock::from_unix_ms;

    use super::*;

    /// An incident that began at that second; first message, acknowledgement and end are seconds after it.
    fn incident(id: &str, at: i64, cause: Option<&str>, times: [Option<i64>; 3]) -> WeekIncident {
        let after = |seconds: i64| from_unix_ms((at + seconds) * 1_000);
        let [first, taken, over] = times.map(|seconds| seconds.map(after));
        let pool = || Labels::from([("namespace".to_owned(), "prod".to_owned())]);
        WeekIncident {
            id: id.to_owned(),
            open: over.is_none(),
            stale: false,
            critical: false,
            refired: 0,
            playbook: Some("high-ttft".to_owned()),
            started_at: after(0),
            opened_at: after(0),
            resolved_at: over,
            first_message_at: first,
            acknowledged_at: taken,
            cause: cause.map(|id| PoolCause { source: String::new(), pool: pool(), id: id.to_owned() }),
        }
    }

    fn summary(
        incidents: Vec<WeekIncident>,
        gaps: &[(String, Vec<MissingData>)],
        history: &[CauseHistory],
    ) -> WeeklySummary {
        let week = Week { count: incidents.len() as u64, incidents, before: 9 };
        let span = [from_unix_ms(0), from_unix_ms(604_800_000)];
        summarise("#a", span, &week, gaps, history, |id| format!("title of {id}"))
    }

    #[test]
    fn times_are_the_middle_and_the_longest_of_those_that_have_both_ends() {
        let mut silent = incident("d", 40, None, [Some(2), None, Some(9_000)]);
        silent.stale = true;
        let told = summary(
            vec![
                silent,
                incident("c", 30, None, [Some(4), None, None]),
                incident("b", 20, Some("x"), [Some(21), Some(60), Some(600)]),
                incident("a", 10, Some("x"), [None, Some(180), Some(60)]),
            ],
            &[],
            &[CauseHistory::default()],
        );
        let times = |incidents, median_seconds, longest_seconds, longest: &str| {
            Some(WeeklyTimes { incidents, median_seconds, longest_seconds, longest: longest.to_owned() })
        };
        assert_eq!(told.first_message, times(3, 4, 21, "b"));
        assert_eq!(told.acknowledged, times(2, 60, 180, "a"));
        assert_eq!(told.resolved, times(2, 60, 600, "b"), "the end of a silent one is a guess");
        assert_eq!(
            (told.open, told.still_open[0].incident.as_str(), told.still_open[0].title.as_str()),
            (1, "c", "title of high-ttft")
        );
        assert_eq!(told.unexplained, Some(WeeklyCount { incidents: 2, newest: "d".to_owned() }));
        assert_eq!(summary(Vec::new(), &[], &[]).first_message, None);
    }

    #[test]
    fn a_cause_returns_that_hit_its_pool_twice_in_the_week_or_before_it() {
        let over = [None, None, Some(1)];
        let told = summary(
            vec![
                incident("e", 50, Some("once"), over),
                incident("d", 40, Some("before"), over),
                incident("c", 30, Some("twice"), over),
                incident("b", 20, Some("twice"), over),
            ],
            &[],
            // In the order of `causes`: the most frequent, then by id.
            &[CauseHistory::default(), CauseHistory { before: 3, ..CauseHistory::default() }, CauseHistory::default()],
        );
        let causes: Vec<_> = told
            .causes
            .iter()
            .map(|c| (c.cause.as_str(), c.count.incidents, c.count.newest.as_str(), c.returns()))
            .collect();
        assert_eq!(causes, [("twice", 2, "c", true), ("before", 1, "d", true), ("once", 1, "e", false)]);
    }

    #[test]
    fn missing_data_is_grouped_by_what_turns_it_on() {
        let missing = |what: &str, why: &str, enable: Option<&str>| MissingData {
            what: what.to_owned(),
            why: why.to_owned(),
            enable: enable.map(str::to_owned),
        };
        let gaps = [
            ("b".to_owned(), vec![missing("pool", "no answer", None), missing("queue", "no series", Some("--x"))]),
            ("a".to_owned(), vec![missing("pool", "no such pool", None), missing("queue", "too old", Some("--x"))]),
        ];
        let told = summary(Vec::new(), &gaps, &[]);
        let lines: Vec<_> =
            told.blind.iter().map(|l| (l.missing.why.as_str(), l.count.incidents, l.count.newest.as_str())).collect();
        assert_eq!(lines, [("no series", 2, "b"), ("no answer", 1, "b"), ("no such pool", 1, "a")]);
    }
}

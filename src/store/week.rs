//! The incidents of a channel's week, in few columns, for the weekly summary.

use jiff::Timestamp;
use sqlx::Row;
use sqlx::any::AnyRow;

use super::values::BindValues;
use super::{Store, StoreError, SummaryPeriod, SummaryPost};
use findings::Diagnosis;
use knowledge::alert::Labels;
use knowledge::clock::{before, between, from_unix_ms, parse_time, unix_ms};
use knowledge::incident::{Act, CauseHistory, ChangeReason, PoolCause, Week, WeekIncident};

/// Maximum number of incidents of a week that are read.
const INCIDENTS: i64 = 2_000;
/// Number of the newest incidents with a cause that count as its history.
const HISTORY: i64 = 1_000;
/// Maximum number of incidents with a cause that are looked through for a step that was done.
const LOOKED_THROUGH: usize = 5;

/// Selects what a channel shows of a week. An incident whose row another one replaced is not counted twice, a channel that
/// only stands in for another one shows nothing of its own, and a self test is no incident.
macro_rules! of_week {
    ($columns:literal, $rest:literal) => {
        concat!(
            "SELECT ",
            $columns,
            " FROM incidents i JOIN deliveries d ON d.incident_id = i.id AND d.sink = 'slack' AND d.channel = $1
                AND d.stands_in_for IS NULL AND (d.state = $4 OR ($4 = '' AND d.state <> 'suppressed'))
                LEFT JOIN digests g ON g.id = d.digest_id
              WHERE i.opened_ms >= $2 AND i.opened_ms < $3 AND i.reason NOT IN ('unreadable', 'readable_again')
                AND i.group_key NOT LIKE 'llm-diagnose: self test %'",
            $rest
        )
    };
}

impl Store {
    /// Returns the incidents of a summary: those that began in its period.
    pub async fn week(&self, summary: &SummaryPost) -> Result<Week, StoreError> {
        let SummaryPost { channel, since, until, .. } = summary;
        let state = match summary.period {
            SummaryPeriod::Week => "",
            SummaryPeriod::Day => "filtered",
        };
        let rows = sqlx::query(of_week!(
            "i.id, i.state, i.reason, i.critical, i.refired, i.playbook, i.started_ms, i.opened_ms, i.resolved_ms,
             COALESCE(d.posted_ts, g.posted_ts) AS posted_ts,
             (SELECT COUNT(*) FROM events e WHERE e.incident_id = i.id AND e.what = 'message gone') AS gone,
             (SELECT MIN(a.at_ms) FROM audit a WHERE a.incident_id = i.id AND a.what = $5 AND a.result = 'done') AS taken_ms,
             (SELECT MIN(t.trait) FROM traits t WHERE t.incident_id = i.id AND t.trait LIKE '[\"cause\",%') AS cause",
            " ORDER BY i.opened_ms DESC, i.id DESC LIMIT $6"
        ))
        .binds((channel, unix_ms(*since), unix_ms(*until), state, Act::Acknowledge.as_str(), INCIDENTS))
        .fetch_all(&self.read)
        .await?;
        let incidents = self.unreadable.read_all("incident", &rows, week_incident);
        let count = self.count_of_week(channel, [*since, *until], state).await?;
        let earlier = [before(*since, between(*since, *until)), *since];
        Ok(Week { incidents, count, before: self.count_of_week(channel, earlier, state).await? })
    }

    async fn count_of_week(
        &self,
        channel: &str,
        [since, until]: [Timestamp; 2],
        state: &str,
    ) -> Result<u64, StoreError> {
        let count: i64 = sqlx::query_scalar(of_week!("COUNT(*)", ""))
            .binds((channel, unix_ms(since), unix_ms(until), state))
            .fetch_one(&self.read)
            .await?;
        Ok(u64::try_from(count).unwrap_or_default())
    }

    /// Returns the diagnosis of an incident and its source; `None` if there is none, or it cannot be read.
    pub async fn diagnosis_of(&self, incident: &str) -> Result<Option<(String, Diagnosis)>, StoreError> {
        let row = sqlx::query("SELECT source, diagnosis FROM incidents WHERE id = $1").bind(incident);
        let Some(row) = row.fetch_optional(&self.read).await? else { return Ok(None) };
        let Some(diagnosis) = self.unreadable.json::<Diagnosis>(&row, "diagnosis", incident) else {
            return Ok(None);
        };
        Ok(Some((row.try_get("source")?, diagnosis)))
    }

    /// Returns the incidents before a time that had a cause in a pool, and what was done at the last one of all that are
    /// over; `over` are the newest ones since that time, newest first.
    pub async fn cause_history(
        &self,
        cause: &PoolCause,
        over: &[&str],
        since: Timestamp,
    ) -> Result<CauseHistory, StoreError> {
        let rows = sqlx::query(
            "SELECT i.id, i.opened_ms, i.state FROM traits t JOIN incidents i ON i.id = t.incident_id
             WHERE t.trait = $1 AND i.opened_ms < $2 AND i.reason NOT IN ('unreadable', 'readable_again')
             ORDER BY t.incident_id DESC LIMIT $3",
        )
        .binds((trait_of(cause), unix_ms(since), HISTORY))
        .fetch_all(&self.read)
        .await?;
        let earlier: Vec<(String, Timestamp, bool)> = self.unreadable.read_all("incident", &rows, |row| {
            let is_open = row.try_get::<&str, _>("state")? == "open";
            Ok((row.try_get("id")?, from_unix_ms(row.try_get("opened_ms")?), is_open))
        });
        let history = CauseHistory {
            before: earlier.len() as u64,
            last_before: earlier.iter().map(|(_, at, _)| *at).max(),
            ..CauseHistory::default()
        };
        let closed = earlier.iter().filter(|(.., open)| !open).map(|(id, ..)| id.as_str());
        for id in over.iter().copied().chain(closed).take(LOOKED_THROUGH) {
            let notes = self.notes(id).await?;
            let last = |act: Act| notes.iter().rfind(|note| note.act == act).map(|note| note.detail.clone());
            if let Some(done) = last(Act::Done) {
                return Ok(CauseHistory { done: Some(done), verified: last(Act::Verify), ..history });
            }
        }
        Ok(history)
    }
}

fn week_incident(row: &AnyRow) -> Result<WeekIncident, StoreError> {
    let refired: i64 = row.try_get("refired")?;
    let playbook = row.try_get::<Option<String>, _>("playbook")?.filter(|id| !id.is_empty());
    let cause = row.try_get::<Option<&str>, _>("cause")?.and_then(cause_of);
    // The time of a message in Slack is its id. After a deletion the next message is not the first one.
    let posted: Option<String> = row.try_get("posted_ts")?;
    let first = posted.filter(|_| row.try_get::<i64, _>("gone").is_ok_and(|gone| gone == 0));
    Ok(WeekIncident {
        id: row.try_get("id")?,
        open: row.try_get::<&str, _>("state")? == "open",
        stale: row.try_get::<&str, _>("reason")? == ChangeReason::Stale.as_str(),
        critical: row.try_get::<i64, _>("critical")? == 1,
        refired: u32::try_from(refired).unwrap_or(u32::MAX),
        playbook,
        started_at: from_unix_ms(row.try_get("started_ms")?),
        opened_at: from_unix_ms(row.try_get("opened_ms")?),
        resolved_at: row.try_get::<Option<i64>, _>("resolved_ms")?.map(from_unix_ms),
        first_message_at: first.and_then(|ts| parse_time(&ts).ok()),
        acknowledged_at: row.try_get::<Option<i64>, _>("taken_ms")?.map(from_unix_ms),
        cause,
    })
}

/// The trait of a cause in a pool, as `related.rs` writes it.
const CAUSE: &str = "cause";

fn trait_of(cause: &PoolCause) -> String {
    serde_json::to_string(&(CAUSE, &cause.source, (&cause.pool, &cause.id))).unwrap_or_default()
}

/// Reads such a trait.
fn cause_of(text: &str) -> Option<PoolCause> {
    let (kind, source, (pool, id)): (String, String, (Labels, String)) = serde_json::from_str(text).ok()?;
    (kind == CAUSE).then_some(PoolCause { source, pool, id })
}

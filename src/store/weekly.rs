//! Weekly and daily summaries: which are due, which are posted. One row for each channel and period, whichever replica
//! writes it.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use sqlx::Row;
use sqlx::any::AnyRow;
use strum::{EnumString, IntoStaticStr};

use super::refusals::accepts;
use super::values::BindValues;
use super::{Store, StoreError};
use knowledge::clock::{between, from_unix_ms, unix_ms};

/// The period of a summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumString, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum SummaryPeriod {
    /// A week, with all its incidents.
    Week,
    /// A day, with the incidents that had no message because of their severity.
    Day,
}

impl SummaryPeriod {
    /// Returns the name in the store.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Returns the time after the end of the period in which its summary may be posted.
    pub fn within(self) -> Duration {
        Duration::from_secs(match self {
            Self::Week => 86_400,
            // Less than a day, so that it is over when the next one comes.
            Self::Day => 20 * 3_600,
        })
    }
}

/// A weekly or daily summary to post.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SummaryPost {
    /// The id: made of period, channel and end.
    pub id: String,
    /// The channel as configured.
    pub channel: String,
    /// The period.
    pub period: SummaryPeriod,
    /// The start of its period.
    pub since: Timestamp,
    /// The end of its period.
    pub until: Timestamp,
    /// Number of consecutive failures so far.
    pub tries: u32,
    /// The start of an earlier post without a known result: the message may exist in Slack already.
    pub began: Option<Timestamp>,
}

impl SummaryPost {
    /// Creates the summary of a channel's period.
    pub fn new(period: SummaryPeriod, channel: &str, [since, until]: [Timestamp; 2]) -> Self {
        let id = format!("{} {channel} {}", period.as_str(), unix_ms(until));
        Self { id, channel: channel.to_owned(), period, since, until, tries: 0, began: None }
    }

    /// Returns true if its time has passed.
    pub fn is_late(&self, now: Timestamp) -> bool {
        between(self.until, now) > self.period.within()
    }
}

/// A summary that will not be posted, or is not needed any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum WeeklyEnd {
    /// It was not meant to be posted.
    Skipped,
    /// It could not be posted.
    Failed,
}

impl Store {
    /// Returns the end of the newest known period of each channel.
    pub async fn newest_weeklies(&self, period: SummaryPeriod) -> Result<BTreeMap<String, Timestamp>, StoreError> {
        let newest = "SELECT channel, MAX(until_ms) AS until_ms FROM weeklies WHERE period = $1 GROUP BY channel";
        let rows = sqlx::query(newest).bind(period.as_str()).fetch_all(&self.read).await?;
        let newest = self.unreadable.read_all("weekly summary", &rows, |row| {
            Ok((row.try_get::<String, _>("channel")?, from_unix_ms(row.try_get("until_ms")?)))
        });
        Ok(newest.into_iter().collect())
    }

    /// Writes a summary whose period has ended: as due, or as skipped if it is too late for it or if the channel has no
    /// earlier one, so that a first start does not post about a time before it. Nothing is written if a period of the
    /// channel ended shortly before, or later: the clock, its time zone or the configuration has changed. Returns true if
    /// it is due.
    pub async fn schedule_weekly(&self, weekly: &SummaryPost, now: Timestamp) -> Result<bool, StoreError> {
        let within = i64::try_from(weekly.period.within().as_millis()).unwrap_or(i64::MAX);
        let written = sqlx::query(
            "INSERT INTO weeklies (id, channel, since_ms, until_ms, state, due_ms, period)
             SELECT $1, $2, CAST($3 AS BIGINT), CAST($4 AS BIGINT),
               CASE WHEN $6 = 1 OR NOT EXISTS (SELECT 1 FROM weeklies WHERE channel = $2 AND period = $8)
                    THEN 'skipped' ELSE 'pending' END,
               CAST($5 AS BIGINT), $8
             WHERE NOT EXISTS (SELECT 1 FROM weeklies WHERE channel = $2 AND period = $8 AND until_ms > $4 - $7)
             ON CONFLICT (id) DO NOTHING RETURNING state",
        )
        .binds((&weekly.id, &weekly.channel, unix_ms(weekly.since), unix_ms(weekly.until), unix_ms(now)))
        .binds((i64::from(weekly.is_late(now)), within, weekly.period.as_str()))
        .fetch_optional(&self.write)
        .await?;
        Ok(written.map(|row| row.try_get::<String, _>("state")).transpose()?.is_some_and(|state| state == "pending"))
    }

    /// Records a posted summary. Returns false if another message of it is recorded already.
    pub async fn weekly_posted(
        &self,
        id: &str,
        channel: &str,
        posted: &(String, String),
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let mut tx = self.begin().await?;
        let recorded = sqlx::query(
            "UPDATE weeklies SET state = 'done', posted_to = $2, posted_ts = $3, note = NULL, owner = NULL, began_ms = NULL
             WHERE id = $1 AND posted_ts IS NULL",
        );
        let recorded = recorded.bind(id).bind(&posted.0).bind(&posted.1).execute(&mut *tx).await?.rows_affected() > 0;
        if recorded {
            accepts(&mut tx, channel, unix_ms(now)).await?;
        }
        tx.commit().await?;
        Ok(recorded)
    }

    /// Ends a summary that is not posted, with the reason.
    pub async fn weekly_ended(&self, weekly: &SummaryPost, end: WeeklyEnd, note: &str) -> Result<(), StoreError> {
        let update = "UPDATE weeklies SET state = $2, note = $3, owner = NULL, began_ms = NULL WHERE id = $1";
        sqlx::query(update).bind(&weekly.id).bind(<&str>::from(end)).bind(note).execute(&self.write).await?;
        Ok(())
    }

    /// Deletes summaries whose period ended before `before`, but the newest of each channel: without it the next one would
    /// count as the first. Returns their number.
    pub async fn forget_weeklies(&self, before: Timestamp) -> Result<u64, StoreError> {
        let old = "DELETE FROM weeklies WHERE until_ms < $1 AND EXISTS
                     (SELECT 1 FROM weeklies later WHERE later.channel = weeklies.channel AND later.period = weeklies.period
                        AND later.until_ms > weeklies.until_ms)";
        Ok(sqlx::query(old).bind(unix_ms(before)).execute(&self.write).await?.rows_affected())
    }
}

/// Selects the summaries that are due.
pub(super) const WEEKLIES: &str = "
    SELECT id, channel, since_ms, until_ms, tries, due_ms, began_ms, period FROM weeklies
    WHERE state = 'pending' AND due_ms <= $1 ORDER BY due_ms LIMIT $2";

pub(super) fn weekly(row: &AnyRow) -> Result<SummaryPost, StoreError> {
    let id: String = row.try_get("id")?;
    let tries: i64 = row.try_get("tries")?;
    let period: &str = row.try_get("period")?;
    let period = period.parse().map_err(|_| StoreError::Unreadable {
        what: "period of a summary",
        id: id.clone(),
        error: format!("`{period}` is unknown"),
    })?;
    Ok(SummaryPost {
        id,
        period,
        channel: row.try_get("channel")?,
        since: from_unix_ms(row.try_get("since_ms")?),
        until: from_unix_ms(row.try_get("until_ms")?),
        tries: u32::try_from(tries).unwrap_or(u32::MAX),
        began: row.try_get::<Option<i64>, _>("began_ms")?.map(from_unix_ms),
    })
}

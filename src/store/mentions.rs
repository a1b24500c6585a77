//! Mentions: the people called in each channel since an incident became critical.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use sqlx::Row;

use super::connections::StoreConnection;
use super::posts::{PostKind, queue};
use super::values::BindValues;
use super::{Store, StoreError};
use knowledge::clock::unix_ms;

/// The users and user groups that were called, by id.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CalledPeople(BTreeSet<String>);

impl CalledPeople {
    /// Parses ids separated by spaces.
    pub fn read(ids: &str) -> Self {
        Self(ids.split_whitespace().map(str::to_owned).collect())
    }

    /// Returns true if this id needs no call.
    pub fn includes(&self, id: &str) -> bool {
        self.0.contains(id)
    }

    /// Returns a copy with these ids added.
    #[must_use]
    pub fn and(&self, ids: &[&str]) -> Self {
        Self(self.0.iter().cloned().chain(ids.iter().map(|id| (*id).to_owned())).collect())
    }

    /// Returns a copy without these ids, which are still to be called.
    #[must_use]
    pub(super) fn without(&self, ids: &[String]) -> Self {
        Self(self.0.iter().filter(|id| !ids.contains(id)).cloned().collect())
    }
}

impl std::fmt::Display for CalledPeople {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.iter().map(String::as_str).collect::<Vec<_>>().join(" "))
    }
}

/// A call that was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mention {
    /// The time since which the incident had been critical.
    pub since: Timestamp,
    /// All users and groups called since then.
    pub called: CalledPeople,
}

/// A delivery of an incident that a digest covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DigestedDelivery {
    /// The channel of the incident's route; the digest itself may have moved to another channel.
    pub channel: String,
    /// The users and groups called since the incident became critical; `None` if that was not decided yet.
    pub called: Option<CalledPeople>,
    /// The state that the thread described last.
    pub thread_state: Option<String>,
}

impl Store {
    /// Returns the users and groups called in this channel since the incident became critical; `None` if the incident
    /// has no message of its own there, or only a stand-in.
    pub async fn called_people(&self, incident: &str, channel: &str) -> Result<Option<CalledPeople>, StoreError> {
        let row = sqlx::query(
            "SELECT CASE WHEN d.mentioned_ms >= COALESCE(i.critical_ms, 0) THEN d.mentioned ELSE '' END AS called
             FROM deliveries d JOIN incidents i ON i.id = d.incident_id
             WHERE d.incident_id = $1 AND d.sink = 'slack' AND d.channel = $2 AND d.stands_in_for IS NULL
               AND d.state <> 'filtered'",
        );
        let row = row.bind(incident).bind(channel).fetch_optional(&self.read).await?;
        row.map(|row| Ok(CalledPeople::read(row.try_get("called")?))).transpose()
    }

    /// Returns the deliveries of the incidents that a digest covers, by incident id.
    pub async fn digest_places(&self, digest: &str) -> Result<BTreeMap<String, DigestedDelivery>, StoreError> {
        let rows = sqlx::query(
            "SELECT d.incident_id, d.channel, d.told,
                    CASE WHEN d.mentioned_ms >= COALESCE(i.critical_ms, 0) THEN d.mentioned END AS called
             FROM deliveries d JOIN incidents i ON i.id = d.incident_id WHERE d.digest_id = $1",
        )
        .bind(digest)
        .fetch_all(&self.read)
        .await?;
        rows.iter()
            .map(|row| {
                let called = row.try_get::<Option<&str>, _>("called")?.map(CalledPeople::read);
                let place =
                    DigestedDelivery { channel: row.try_get("channel")?, called, thread_state: row.try_get("told")? };
                Ok((row.try_get("incident_id")?, place))
            })
            .collect()
    }

    /// Queues calls of users and user groups, by id, in the thread in this channel, each only once while it waits, and
    /// records together with them whom the incident has mentioned there.
    pub async fn queue_mentions(
        &self,
        incident: &str,
        channel: &str,
        calls: &[&str],
        mention: &Mention,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        for person in calls {
            queue(&mut tx, [incident, channel], PostKind::Mention, [person, ""], now).await?;
        }
        record(&mut tx, incident, channel, mention).await?;
        tx.commit().await?;
        Ok(())
    }
}

/// Records whom an incident has mentioned in this channel, and since when.
pub(super) async fn record(
    db: &mut StoreConnection,
    incident: &str,
    channel: &str,
    mention: &Mention,
) -> Result<(), StoreError> {
    sqlx::query(
        "UPDATE deliveries SET mentioned_ms = $3, mentioned = $4
         WHERE incident_id = $1 AND sink = 'slack' AND channel = $2",
    )
    .binds((incident, channel, unix_ms(mention.since), mention.called.to_string()))
    .execute(db)
    .await?;
    Ok(())
}

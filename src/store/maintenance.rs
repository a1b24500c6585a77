//! Maintenance windows: those that people made, and the configured ones that began.

use jiff::Timestamp;
use sqlx::Row;
use sqlx::any::AnyRow;

use super::attention::call_again;
use super::connections::ConnectionPool;
use super::deliveries::bump;
use super::values::BindValues;
use super::{Store, StoreError};
use knowledge::clock::{from_unix_ms, unix_ms};
use knowledge::incident::{MaintenanceWindow, SHORT_ID};

impl Store {
    /// Writes windows: one that somebody made, or configured ones that last. Known ones stay as they are.
    pub async fn begin_maintenance(&self, windows: &[MaintenanceWindow]) -> Result<(), StoreError> {
        for window in windows {
            write(&self.write, window).await?;
        }
        Ok(())
    }

    /// Ends a window that somebody made, by its id or at least four characters of its end. Returns it; `None` if there is none
    /// that is not over, or several are called so.
    pub async fn end_maintenance(&self, id: &str, now: Timestamp) -> Result<Option<MaintenanceWindow>, StoreError> {
        let wanted = id.to_uppercase();
        let mut called_so = self.maintenance(now).await?;
        called_so.retain(|one| !one.who.is_empty() && wanted.len() >= SHORT_ID && one.id.ends_with(&wanted));
        let Some(window) = called_so.pop().filter(|_| called_so.is_empty()) else { return Ok(None) };
        let end = "UPDATE maintenance SET until_ms = $2 WHERE id = $1 AND until_ms > $2";
        sqlx::query(end).bind(&window.id).bind(unix_ms(now)).execute(&self.write).await?;
        Ok(Some(window))
    }

    /// Returns the windows that are not over, the next first.
    pub async fn maintenance(&self, now: Timestamp) -> Result<Vec<MaintenanceWindow>, StoreError> {
        let rows = sqlx::query(
            "SELECT id, labels, since_ms, until_ms, who, reason FROM maintenance WHERE until_ms > $1 ORDER BY since_ms, id",
        );
        let rows = rows.bind(unix_ms(now)).fetch_all(&self.read).await?;
        Ok(self.unreadable.read_all("maintenance window", &rows, read))
    }

    /// Returns the windows that ended before `before` and whose incidents nobody has looked at since.
    pub async fn ended_maintenance(&self, before: Timestamp) -> Result<Vec<MaintenanceWindow>, StoreError> {
        let rows = sqlx::query(
            "SELECT id, labels, since_ms, until_ms, who, reason FROM maintenance WHERE seen = 0 AND until_ms <= $1",
        );
        let rows = rows.bind(unix_ms(before)).fetch_all(&self.read).await?;
        Ok(self.unreadable.read_all("maintenance window", &rows, read))
    }

    /// Lets the message of an incident go on that a window kept quiet since `since`. If `calls`, people are called, but not
    /// again for an incident that became critical after `since`: a call for it came right after the window's end.
    pub async fn go_on_after_maintenance(
        &self,
        incident: &str,
        calls: bool,
        since: Timestamp,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        self.lock_incident(&mut tx, incident).await?;
        let called: i64 = sqlx::query_scalar(
            "SELECT COUNT(*) FROM deliveries d JOIN incidents i ON i.id = d.incident_id
             WHERE i.id = $1 AND i.critical_ms >= $2 AND d.sink = 'slack' AND d.mentioned_ms >= i.critical_ms",
        )
        .binds((incident, unix_ms(since)))
        .fetch_one(&mut *tx)
        .await?;
        if calls && called == 0 {
            call_again(&mut tx, incident, unix_ms(now)).await?;
        }
        bump(&mut tx, incident).await?;
        tx.commit().await?;
        Ok(())
    }

    /// Records that the incidents of these windows were looked at.
    pub async fn see_maintenance(&self, windows: &[MaintenanceWindow]) -> Result<(), StoreError> {
        for window in windows {
            let see = sqlx::query("UPDATE maintenance SET seen = 1 WHERE id = $1");
            see.bind(&window.id).execute(&self.write).await?;
        }
        Ok(())
    }

    /// Deletes windows that ended before `before`. Returns their number.
    pub async fn forget_maintenance(&self, before: Timestamp) -> Result<u64, StoreError> {
        let old = sqlx::query("DELETE FROM maintenance WHERE until_ms < $1 AND seen = 1").bind(unix_ms(before));
        Ok(old.execute(&self.write).await?.rows_affected())
    }
}

/// Writes a window, unless it is known.
async fn write(db: &ConnectionPool, window: &MaintenanceWindow) -> Result<(), StoreError> {
    let labels = serde_json::to_string(&window.labels).unwrap_or_default();
    let written = sqlx::query(
        "INSERT INTO maintenance (id, labels, since_ms, until_ms, who, reason) VALUES ($1, $2, $3, $4, $5, $6)
         ON CONFLICT (id) DO NOTHING",
    );
    let written = written.binds((&window.id, labels, unix_ms(window.since), unix_ms(window.until), &window.who));
    written.bind(&window.reason).execute(db).await?;
    Ok(())
}

fn read(row: &AnyRow) -> Result<MaintenanceWindow, StoreError> {
    let id: String = row.try_get("id")?;
    let labels = serde_json::from_str(row.try_get("labels")?);
    Ok(MaintenanceWindow {
        labels: labels.map_err(|error| super::errors::unreadable("maintenance window", &id, &error))?,
        since: from_unix_ms(row.try_get("since_ms")?),
        until: from_unix_ms(row.try_get("until_ms")?),
        who: row.try_get("who")?,
        reason: row.try_get("reason")?,
        id,
    })
}

//! The exporters that each Prometheus listed last; used while that Prometheus is down.

use sqlx::Row;

use super::errors::unreadable;
use super::values::BindValues;
use super::{Store, StoreError};
use findings::ExporterTarget;

impl Store {
    /// Replaces the stored exporters of a Prometheus, identified by its address.
    pub async fn remember_exporters(&self, prometheus: &str, targets: &[ExporterTarget]) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        self.engine.hold(&mut tx, &["exporters"]).await?;
        sqlx::query("DELETE FROM exporters WHERE prometheus = $1").bind(prometheus).execute(&mut *tx).await?;
        for target in targets {
            let json = serde_json::to_string(target).map_err(|e| unreadable("exporter", &target.url, &e))?;
            sqlx::query("INSERT INTO exporters (prometheus, engine, url, target) VALUES ($1, $2, $3, $4)")
                .binds((prometheus, &target.engine, &target.url, json))
                .execute(&mut *tx)
                .await?;
        }
        tx.commit().await?;
        Ok(())
    }

    /// Returns the exporters that a Prometheus listed last.
    pub async fn exporters(&self, prometheus: &str) -> Result<Vec<ExporterTarget>, StoreError> {
        let rows = sqlx::query("SELECT url, target FROM exporters WHERE prometheus = $1 ORDER BY engine, url")
            .bind(prometheus)
            .fetch_all(&self.read)
            .await?;
        Ok(self.unreadable.read_all("exporter", &rows, |row| {
            let url: String = row.try_get("url")?;
            serde_json::from_str(row.try_get("target")?).map_err(|e| unreadable("exporter", &url, &e))
        }))
    }
}

//! A transaction on a connection of the store.

use std::ops::{Deref, DerefMut};

use sqlx::{Error, Executor};

use super::connections::{ConnectionPool, StoreConnection};

/// A transaction; on drop it is rolled back by closing its connection.
#[derive(Debug)]
pub(super) struct Tx(StoreConnection);

impl Tx {
    /// Begins a transaction with this statement.
    pub(super) async fn begin(pool: &ConnectionPool, statement: &'static str) -> Result<Self, Error> {
        let mut connection = pool.acquire().await?;
        connection.execute(statement).await?;
        Ok(Self(connection))
    }

    /// Commits the transaction.
    pub(super) async fn commit(mut self) -> Result<(), Error> {
        self.0.execute("COMMIT").await?;
        self.0.done();
        Ok(())
    }
}

impl Deref for Tx {
    type Target = StoreConnection;

    fn deref(&self) -> &StoreConnection {
        &self.0
    }
}

impl DerefMut for Tx {
    fn deref_mut(&mut self) -> &mut StoreConnection {
        &mut self.0
    }
}

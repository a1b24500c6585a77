//! The values of statements: several bound at once, and those of many rows.

use serde::Serialize;
use sqlx::any::AnyArguments;
use sqlx::query::{Query, QueryAs, QueryScalar};
use sqlx::{Any, AssertSqlSafe, Encode, Type};

use super::StoreError;
use super::connections::StoreConnection;
use super::database::DatabaseEngine;

/// A statement with placeholders.
pub(super) trait BindValues<'q>: Sized {
    /// Binds the next value.
    fn bind_value<T: 'q + Encode<'q, Any> + Type<Any>>(self, value: T) -> Self;

    /// Binds the next values, a tuple.
    fn binds(self, values: impl StatementValues<'q>) -> Self {
        values.bind_to(self)
    }
}

/// Values for the placeholders of a statement, in their order.
pub(super) trait StatementValues<'q> {
    /// Binds all values.
    fn bind_to<S: BindValues<'q>>(self, statement: S) -> S;
}

macro_rules! statements {
    ($($statement:ident [$($output:ident)?]),*) => {
        $(impl<'q $(, $output)?> BindValues<'q> for $statement<'q, Any, $($output,)? AnyArguments> {
            fn bind_value<T: 'q + Encode<'q, Any> + Type<Any>>(self, value: T) -> Self {
                self.bind(value)
            }
        })*
    };
}

statements!(Query [], QueryAs [O], QueryScalar [O]);

macro_rules! tuples {
    ($($($value:ident)+,)*) => {
        $(impl<'q, $($value: 'q + Encode<'q, Any> + Type<Any>),+> StatementValues<'q> for ($($value,)+) {
            #[expect(non_snake_case, reason = "a value has the name of its type")]
            fn bind_to<S: BindValues<'q>>(self, statement: S) -> S {
                let ($($value,)+) = self;
                statement$(.bind_value($value))+
            }
        })*
    };
}

tuples!(A B, A B C, A B C D, A B C D E, A B C D E F, A B C D E F G, A B C D E F G H,);

/// Maximum number of rows of one statement: they are in memory once more, as text.
const ROWS: usize = 500;

/// Runs a statement for many rows, each a tuple. In its text `{rows}` stands for a table with a row as JSON array in each
/// `value`: the text is the same for any number of rows, so it is prepared once.
pub(super) async fn write_rows<T: Serialize>(
    db: &mut StoreConnection,
    text: &str,
    rows: &[T],
) -> Result<(), StoreError> {
    for some in rows.chunks(ROWS) {
        let (text, rows) = of_rows(DatabaseEngine::of(db)?, text, some)?;
        sqlx::query(text).bind(rows).execute(&mut *db).await?;
    }
    Ok(())
}

/// Returns the statement of [`write_rows`] for this database, and its first value.
pub(super) fn of_rows<T: Serialize>(
    engine: DatabaseEngine,
    text: &str,
    rows: &[T],
) -> Result<(AssertSqlSafe<String>, String), sqlx::Error> {
    let table = match engine {
        DatabaseEngine::Postgres => "json_array_elements(CAST($1 AS JSON)) AS given (value)",
        DatabaseEngine::Sqlite => "json_each($1)",
    };
    let rows = serde_json::to_string(rows).map_err(|error| sqlx::Error::Encode(error.into()))?;
    Ok((AssertSqlSafe(text.replace("{rows}", table)), rows))
}

//! The values of statements: several bound at once, and those of many rows.

use sqlx::any::AnyArguments;
use sqlx::query::{Query, QueryAs, QueryScalar};
use sqlx::{Any, Encode, Type};

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

/// Maximum number of rows that one statement inserts.
const ROWS: usize = 64;

/// Divides rows into packs whose sizes are powers of two, so that few different statements are prepared.
pub(super) fn packs<T>(mut rows: &[T]) -> impl Iterator<Item = &[T]> {
    std::iter::from_fn(move || {
        let most = rows.len().min(ROWS);
        let (pack, rest) = rows.split_at_checked(1 << most.checked_ilog2()?)?;
        rows = rest;
        Some(pack)
    })
}

/// Returns the placeholders of `rows` rows of `columns` columns: `($1, $2), ($3, $4)`.
pub(super) fn placeholders(rows: usize, columns: usize) -> String {
    let row = |row: usize| {
        let columns: Vec<String> = (1..=columns).map(|column| format!("${}", row * columns + column)).collect();
        format!("({})", columns.join(", "))
    };
    (0..rows).map(row).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_divided_into_packs_of_few_sizes() {
        let sizes = |rows| -> Vec<usize> { packs(&vec![0; rows]).map(<[_]>::len).collect() };
        assert_eq!(sizes(0), Vec::<usize>::new());
        assert_eq!(sizes(10), [8, 2]);
        assert_eq!(sizes(150), [64, 64, 16, 4, 2]);
    }

    #[test]
    fn every_value_of_every_row_has_a_placeholder() {
        assert_eq!(placeholders(2, 3), "($1, $2, $3), ($4, $5, $6)");
    }
}

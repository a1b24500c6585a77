//! Ids that sort by their time of creation.

use std::sync::{LazyLock, Mutex, PoisonError};

use ulid::Generator;

/// Increases also within one millisecond and when the clock is set back, so that lists and threads keep their order.
static IDS: LazyLock<Mutex<Generator>> = LazyLock::new(|| Mutex::new(Generator::new()));

/// Returns a new ULID, greater than all that this process has generated before.
pub(super) fn new_id() -> String {
    let mut ids = IDS.lock().unwrap_or_else(PoisonError::into_inner);
    match ids.generate() {
        Ok(id) => id,
        Err(overflow) => overflow.commit_overflow_increment(),
    }
    .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_one_millisecond_keep_their_order() {
        let ids: Vec<String> = (0..1000).map(|_| new_id()).collect();
        assert!(ids.is_sorted_by(|one, next| one < next));
    }
}

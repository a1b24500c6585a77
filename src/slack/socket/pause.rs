//! How long to wait before the next try: doubling, bounded, and not the same for everybody.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

/// The first pause.
const FIRST: Duration = Duration::from_millis(500);
/// The longest pause while Slack may come back by itself.
const LONGEST: Duration = Duration::from_secs(30);
/// The pause while only a person can help.
const SLOW: Duration = Duration::from_secs(60);

/// The pauses of one slot.
#[derive(Debug, Default)]
pub(super) struct Pause {
    tries: u32,
}

impl Pause {
    /// The next pause.
    pub(super) fn next(&mut self) -> Duration {
        let whole = FIRST.saturating_mul(1 << self.tries.min(16)).min(LONGEST);
        self.tries = self.tries.saturating_add(1);
        spread(whole)
    }

    /// The next pause, and at least as long as was asked.
    pub(super) fn at_least(&mut self, asked: Duration) -> Duration {
        asked + self.next()
    }

    /// A long one.
    pub(super) fn slow(&mut self) -> Duration {
        self.tries = self.tries.saturating_add(1);
        spread(SLOW)
    }
}

/// Between half of it and all of it, so that many who lost Slack at once do not come back at once.
fn spread(whole: Duration) -> Duration {
    // The keys of a new `RandomState` are random.
    let random = RandomState::new().build_hasher().finish() % 1_000;
    whole / 2 + whole.mul_f64(random as f64 / 2_000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_bound_and_differ() {
        let mut pause = Pause::default();
        let pauses: Vec<Duration> = (0..40).map(|_| pause.next()).collect();
        assert!(pauses[0] >= FIRST / 2 && pauses[0] <= FIRST, "{pauses:?}");
        assert!(pauses.iter().all(|p| *p <= LONGEST) && pauses[39] >= LONGEST / 2, "{pauses:?}");
        assert!(pauses[20..].windows(2).any(|p| p[0] != p[1]), "{pauses:?}");
        assert!(pause.slow() >= SLOW / 2 && pause.at_least(SLOW) > SLOW);
    }
}

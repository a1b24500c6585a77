//! Backoff between connection tries: exponential, bounded, with jitter.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

use knowledge::clock::Backoff;

/// The pauses while the failure may be transient.
const PAUSES: Backoff = Backoff { first: Duration::from_millis(500), longest: Duration::from_secs(30) };
/// The pause while only a person can fix the failure.
const SLOW: Duration = Duration::from_secs(60);

/// The backoff of one slot.
#[derive(Debug, Default)]
pub(super) struct Pause {
    tries: u32,
}

impl Pause {
    /// Returns the next pause.
    pub(super) fn next(&mut self) -> Duration {
        let whole = PAUSES.pause(self.tries);
        self.tries = self.tries.saturating_add(1);
        spread(whole)
    }

    /// Returns the next pause added to `minimum`.
    pub(super) fn at_least(&mut self, minimum: Duration) -> Duration {
        minimum + self.next()
    }

    /// Returns the pause for a failure that only a person can fix.
    pub(super) fn slow(&mut self) -> Duration {
        self.tries = self.tries.saturating_add(1);
        spread(SLOW)
    }
}

/// Adds jitter: returns between half and all of the pause, so that clients do not reconnect together.
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
        assert!(pauses[0] >= PAUSES.first / 2 && pauses[0] <= PAUSES.first, "{pauses:?}");
        assert!(pauses.iter().all(|p| *p <= PAUSES.longest) && pauses[39] >= PAUSES.longest / 2, "{pauses:?}");
        assert!(pauses[20..].windows(2).any(|p| p[0] != p[1]), "{pauses:?}");
        assert!(pause.slow() >= SLOW / 2 && pause.at_least(SLOW) > SLOW);
    }
}

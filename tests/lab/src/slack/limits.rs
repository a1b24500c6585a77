//! How often a method may be called.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// A rate limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rate {
    /// A bucket of tokens.
    Bucket {
        /// Calls that a full bucket takes at once.
        burst: u32,
        /// How long one token takes to come back.
        refill: Duration,
    },
    /// A sliding window.
    Window {
        /// Calls in any stretch of `per`.
        calls: usize,
        /// The window's length.
        per: Duration,
    },
}

/// What a rate limit remembers for one key.
#[derive(Debug, Default)]
pub(super) struct Usage {
    /// Accepted calls that still count, oldest first.
    accepted: VecDeque<Instant>,
    /// When a bucket is full again.
    full_at: Option<Instant>,
}

impl Usage {
    /// Takes a call at `now`, or says how long it would have to wait.
    pub(super) fn take(&mut self, rate: Rate, now: Instant) -> Result<(), Duration> {
        match rate {
            Rate::Bucket { burst, refill } => {
                let full_at = self.full_at.unwrap_or(now).max(now) + refill;
                let wait = full_at.duration_since(now).saturating_sub(refill * burst);
                if wait > Duration::ZERO {
                    return Err(wait);
                }
                self.full_at = Some(full_at);
            }
            Rate::Window { calls, per } => {
                while self.accepted.front().is_some_and(|oldest| now.duration_since(*oldest) >= per) {
                    self.accepted.pop_front();
                }
                if self.accepted.len() >= calls {
                    let oldest = self.accepted.front().map_or(Duration::ZERO, |oldest| now.duration_since(*oldest));
                    return Err(per - oldest);
                }
                self.accepted.push_back(now);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_bucket_takes_a_burst_and_then_one_call_a_refill() {
        let (mut usage, start) = (Usage::default(), Instant::now());
        let rate = Rate::Bucket { burst: 5, refill: SECOND };
        for _ in 0..5 {
            assert_eq!(usage.take(rate, start), Ok(()));
        }
        assert_eq!(usage.take(rate, start), Err(SECOND));
        assert_eq!(usage.take(rate, start + SECOND), Ok(()));
        assert_eq!(usage.take(rate, start + SECOND), Err(SECOND));
        for _ in 0..5 {
            assert_eq!(usage.take(rate, start + 60 * SECOND), Ok(()));
        }
        assert!(usage.take(rate, start + 60 * SECOND).is_err());
    }

    #[test]
    fn a_window_takes_no_more_than_its_calls_in_any_stretch() {
        let (mut usage, start) = (Usage::default(), Instant::now());
        let rate = Rate::Window { calls: 2, per: 60 * SECOND };
        assert_eq!(usage.take(rate, start), Ok(()));
        assert_eq!(usage.take(rate, start + 30 * SECOND), Ok(()));
        assert_eq!(usage.take(rate, start + 40 * SECOND), Err(20 * SECOND));
        assert_eq!(usage.take(rate, start + 60 * SECOND), Ok(()));
        assert_eq!(usage.take(rate, start + 61 * SECOND), Err(29 * SECOND));
    }
}

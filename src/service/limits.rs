//! Limits of requests per minute by who asks, and of all together.

use std::num::NonZeroU32;

use governor::{DefaultDirectRateLimiter, DefaultKeyedRateLimiter, Quota, RateLimiter};

/// The number of keys above which idle ones are removed.
const MOST_KEYS: usize = 10_000;

fn quota(per_minute: u32) -> Quota {
    Quota::per_minute(NonZeroU32::new(per_minute).unwrap_or(NonZeroU32::MIN))
}

/// Limits by several keys of a request, and of all requests.
#[derive(Debug)]
pub struct RequestLimits<const N: usize> {
    by_key: [DefaultKeyedRateLimiter<String>; N],
    everybody: DefaultDirectRateLimiter,
}

impl<const N: usize> RequestLimits<N> {
    /// Creates the limits, as requests per minute.
    pub fn new(by_key: [u32; N], everybody: u32) -> Self {
        let by_key = by_key.map(|per_minute| RateLimiter::keyed(quota(per_minute)));
        Self { by_key, everybody: RateLimiter::direct(quota(everybody)) }
    }

    /// Counts a request; false if it is over a limit. The first key's limit comes first, so that who is over it cannot use
    /// up the others'.
    pub fn admit(&self, keys: [Option<&str>; N]) -> bool {
        for limiter in self.by_key.iter().filter(|limiter| limiter.len() > MOST_KEYS) {
            limiter.retain_recent();
        }
        let mut limits = self.by_key.iter().zip(keys);
        limits.all(|(limiter, key)| key.is_none_or(|key| limiter.check_key(&key.to_owned()).is_ok()))
            && self.everybody.check().is_ok()
    }
}

//! What a gateway knows of one backend: whether it is there, whether it is left alone, how it did of late.

/// The gateway's view of a replica. Times are unix seconds.
#[derive(Debug, Clone)]
pub struct Backend {
    /// Requests sent and not ended.
    pub in_flight: u64,
    /// It is left alone until then.
    pub cooled_until: f64,
    /// 0 healthy, 1 failed since its last success.
    pub failing: bool,
    /// It was called at least once.
    pub called: bool,
    /// Since when nothing listens there, as far as it was noticed.
    pub gone_since: Option<f64>,
    /// Prompt tokens of the last request, seconds to its first token and between its tokens.
    pub last: (f64, f64, f64),
    /// Start of the current minute, successes and failures in it.
    minute: (f64, u32, u32),
    /// Start of the minute in which the backend itself counts, and requests in it.
    counted: (f64, u32),
}

/// Failures in a minute from which on a share of more than half cools a deployment down.
const FEWEST_REQUESTS: u32 = 5;

impl Backend {
    /// Healthy and idle.
    pub fn new() -> Self {
        Self {
            in_flight: 0,
            cooled_until: f64::NEG_INFINITY,
            failing: false,
            called: false,
            gone_since: None,
            last: (0.0, 0.0, 0.0),
            minute: (f64::NEG_INFINITY, 0, 0),
            counted: (f64::NEG_INFINITY, 0),
        }
    }

    /// Takes in how a try ended; true if most of the minute's tries failed.
    pub fn judge(&mut self, now: f64, succeeded: bool) -> bool {
        self.called = true;
        self.failing = !succeeded;
        if now - self.minute.0 >= 60.0 {
            self.minute = (now, 0, 0);
        }
        let (_, good, bad) = &mut self.minute;
        *(if succeeded { good } else { &mut *bad }) += 1;
        let (_, good, bad) = self.minute;
        good + bad >= FEWEST_REQUESTS && bad > good
    }

    /// Counts a request against a limit of `rpm` that the backend has; true if it is beyond.
    pub fn beyond(&mut self, now: f64, rpm: u32) -> bool {
        beyond(&mut self.counted, now, rpm)
    }
}

/// Counts one more in the minute that `window` is about; true if that is more than `rpm`.
pub fn beyond(window: &mut (f64, u32), now: f64, rpm: u32) -> bool {
    if now - window.0 >= 60.0 {
        *window = (now, 0);
    }
    window.1 += 1;
    window.1 > rpm
}

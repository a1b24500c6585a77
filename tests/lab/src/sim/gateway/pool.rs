//! A few servers with one queue, first come first served: the gateway's CPU, or what it calls out to.

/// When each server is free again.
#[derive(Debug, Clone)]
pub struct Pool {
    free_at: Vec<f64>,
    /// Seconds of work done or promised so far.
    pub busy_seconds: f64,
}

impl Pool {
    /// `slots` idle servers.
    pub fn new(slots: usize) -> Self {
        Self { free_at: vec![f64::NEG_INFINITY; slots.max(1)], busy_seconds: 0.0 }
    }

    /// Seconds that somebody who comes at `now` waits.
    pub fn wait(&self, now: f64) -> f64 {
        let first = self.free_at.iter().copied().fold(f64::INFINITY, f64::min);
        (first - now).max(0.0)
    }

    /// Takes `seconds` of the server that is free first, for somebody who comes at `now`; the end of it.
    pub fn take(&mut self, now: f64, seconds: f64) -> f64 {
        let end = now + self.wait(now) + seconds;
        if let Some(first) = self.free_at.iter_mut().min_by(|a, b| a.total_cmp(b)) {
            *first = end;
        }
        self.busy_seconds += seconds;
        end
    }

    /// Share of the servers that work at `now`, 0..1.
    pub fn busy(&self, now: f64) -> f64 {
        let busy = self.free_at.iter().filter(|end| **end > now).count();
        busy as f64 / self.free_at.len() as f64
    }
}

//! What lies between a request's arrival and the scheduler's queue: the API server, the grammar compiler, the link
//! over which KV blocks come. Each does one thing after the other.

use std::collections::VecDeque;

use super::sequence::Sequence;

/// Something that works on one thing at a time, in order.
#[derive(Debug, Default)]
pub(super) struct Server {
    free_at: f64,
}

impl Server {
    /// Gives it work of `seconds` at `now`; when that is done.
    pub fn take(&mut self, now: f64, seconds: f64) -> f64 {
        self.free_at = self.free_at.max(now) + seconds;
        self.free_at
    }
}

/// The requests of one engine that its scheduler cannot take yet.
#[derive(Debug, Default)]
pub(super) struct Intake {
    /// The API server's event loop.
    pub api: Server,
    /// The thread that compiles grammars.
    pub grammar: Server,
    /// The link to the replicas that compute prompts.
    pub link: Server,
    /// Inside the API server, in the order in which they leave it.
    pub arriving: VecDeque<Sequence>,
    /// Known to the engine and not ready, with when they will be.
    pub deferred: Vec<(f64, Sequence)>,
}

impl Intake {
    pub fn len(&self) -> usize {
        self.arriving.len() + self.deferred.len()
    }

    /// When the next of them goes on, infinite without any.
    pub fn next(&self) -> f64 {
        let arriving = self.arriving.front().map_or(f64::INFINITY, |sequence| sequence.entered);
        self.deferred.iter().fold(arriving, |least, (ready, _)| least.min(*ready))
    }

    /// The next that has left the API server by `now`.
    pub fn arrived(&mut self, now: f64) -> Option<Sequence> {
        let left = self.arriving.front().is_some_and(|sequence| sequence.entered <= now);
        if left { self.arriving.pop_front() } else { None }
    }

    /// The next whose deferral ended by `now`.
    pub fn ready(&mut self, now: f64) -> Option<Sequence> {
        let place = self.deferred.iter().position(|(ready, _)| *ready <= now)?;
        Some(self.deferred.remove(place).1)
    }

    /// Drops those of which `stays` says no.
    pub fn retain(&mut self, stays: impl Fn(&Sequence) -> bool) {
        self.arriving.retain(&stays);
        self.deferred.retain(|(_, sequence)| stays(sequence));
    }

    pub fn iter(&self) -> impl Iterator<Item = &Sequence> {
        self.arriving.iter().chain(self.deferred.iter().map(|(_, sequence)| sequence))
    }
}

//! Keeps the loops of the service running: restarts a loop that panics, and reports one that makes no progress.

mod systemd;

use std::any::Any;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures::FutureExt;
use tokio_util::sync::CancellationToken;
use tracing::error;

use crate::Metrics;
use knowledge::clock::{self, Backoff};
pub use systemd::Systemd;

/// Pauses and thresholds of the supervisor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// The pauses before restarts.
    pub pauses: Backoff,
    /// A loop that ran for this long without a panic counts as healthy again.
    pub steady: Duration,
    /// A loop that has been down, or without progress beyond its rhythm, for longer fails the liveness check.
    pub dead_after: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            pauses: Backoff { first: Duration::from_millis(100), longest: Duration::from_secs(30) },
            steady: Duration::from_secs(60),
            dead_after: Duration::from_secs(120),
        }
    }
}

/// Runs and watches named loops; cheap to clone.
#[derive(Debug, Clone)]
pub struct Supervisor {
    watches: Arc<Mutex<Vec<Arc<Watch>>>>,
    metrics: Arc<Metrics>,
    timing: Timing,
    /// After cancellation loops may end and are not restarted.
    stop: CancellationToken,
}

impl Supervisor {
    /// Creates a supervisor without loops.
    pub fn new(metrics: Arc<Metrics>, timing: Timing, stop: CancellationToken) -> Self {
        Self { watches: Arc::default(), metrics, timing, stop }
    }

    /// Runs a loop until it ends after the stop; `make` creates it again after a panic. `rhythm` is the longest time
    /// between two wake-ups of a healthy loop.
    pub fn keep<F>(
        &self,
        name: &'static str,
        rhythm: Duration,
        make: impl Fn() -> F + Send + 'static,
    ) -> impl Future<Output = ()> + Send + 'static
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let watch = Arc::new(Watch::new(name, rhythm));
        lock(&self.watches).push(Arc::clone(&watch));
        let this = self.clone();
        async move {
            let mut earlier = 0_u32;
            loop {
                let began = Instant::now();
                let run = Watched { inner: Box::pin(make()), watch: Arc::clone(&watch), steady: this.timing.steady };
                let end = AssertUnwindSafe(run).catch_unwind().await;
                if this.stop.is_cancelled() {
                    return watch.end();
                }
                if began.elapsed() >= this.timing.steady {
                    earlier = 0;
                }
                let pause = this.timing.pauses.pause(earlier);
                let why = end.err().map_or_else(|| "it ended by itself".to_owned(), |panic| panic_message(&*panic));
                this.metrics.restart(name);
                error!(
                    name,
                    error = why,
                    restart_in = clock::human_duration(pause),
                    "a loop of the service panicked or ended: restarting it"
                );
                watch.broke(why);
                tokio::select! {
                    () = tokio::time::sleep(pause) => {}
                    () = this.stop.cancelled() => return watch.end(),
                }
                earlier = earlier.saturating_add(1);
            }
        }
    }

    /// Returns each loop's name, with the problem if one has lasted for longer than `dead_after`.
    pub fn loops(&self) -> Vec<(&'static str, Option<String>)> {
        lock(&self.watches).iter().map(|watch| (watch.name, watch.trouble(self.timing.dead_after))).collect()
    }
}

/// Runs one piece of work of a loop, counts and logs its panic; returns false if it panicked.
pub async fn guard(name: &'static str, metrics: &Metrics, work: impl Future<Output = ()>) -> bool {
    let end = AssertUnwindSafe(work).catch_unwind().await;
    if let Err(panic) = &end {
        metrics.panic(name);
        error!(
            name,
            error = panic_message(&**panic),
            "a piece of work panicked: it is taken up again when its lease ends"
        );
    }
    end.is_ok()
}

/// Returns the message of a panic.
fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic without a message".to_owned())
}

/// The recorded state of a loop.
#[derive(Debug)]
struct Watch {
    name: &'static str,
    rhythm: Duration,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Time of the last progress.
    beat: Instant,
    /// Start of the current run; `None` before its first poll and after a failure.
    began: Option<Instant>,
    /// Time of the first failure without a steady run since, and the reason of the last failure.
    broken: Option<(Instant, String)>,
    ended: bool,
}

impl Watch {
    fn new(name: &'static str, rhythm: Duration) -> Self {
        let state = State { beat: Instant::now(), began: None, broken: None, ended: false };
        Self { name, rhythm, state: Mutex::new(state) }
    }

    fn beat(&self, steady: Duration) {
        let mut state = lock(&self.state);
        let now = Instant::now();
        state.beat = now;
        let began = *state.began.get_or_insert(now);
        if now.duration_since(began) >= steady {
            state.broken = None;
        }
    }

    fn broke(&self, why: String) {
        let mut state = lock(&self.state);
        state.began = None;
        let since = state.broken.as_ref().map_or_else(Instant::now, |(since, _)| *since);
        state.broken = Some((since, why));
    }

    fn end(&self) {
        lock(&self.state).ended = true;
    }

    fn trouble(&self, dead_after: Duration) -> Option<String> {
        let state = lock(&self.state);
        if state.ended {
            return None;
        }
        let silent = state.beat.elapsed();
        match &state.broken {
            Some((since, why)) if since.elapsed() > dead_after => {
                Some(format!("has kept failing for {}: {why}", clock::human_duration(since.elapsed())))
            }
            _ if silent > self.rhythm.saturating_add(dead_after) => {
                Some(format!("no progress for {}", clock::human_duration(silent)))
            }
            _ => None,
        }
    }
}

/// A loop whose wake-ups are recorded. A loop that blocks its thread, or waits for an event that never comes, has no
/// wake-ups.
struct Watched<F> {
    inner: Pin<Box<F>>,
    watch: Arc<Watch>,
    steady: Duration,
}

impl<F: Future<Output = ()>> Future for Watched<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.watch.beat(self.steady);
        self.inner.as_mut().poll(context)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;

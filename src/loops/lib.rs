//! The loops of the service, each supervised: **admit**, **diagnose** and **deliver** carry an alert group from the
//! webhook to its messages; the others are upkeep.
//!
//! Diagnose and deliver take the work that the store lists as due; a wake-up is only a hint. Interrupted work is due
//! again after a restart.

mod admit;
mod deliver;
mod diagnose;
mod exporters;
mod heartbeat;
mod housekeeping;
mod maintenance;
mod weekly;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, Notify, mpsc};
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use self::admit::Received;
pub use self::diagnose::SHARED_STEP;
use chat::Desk;
use knowledge::clock;
use notify::{CHECK_INTERVAL, REFUSED};
use service::Service;
use store::Store;
use telemetry::supervise::Supervisor;

/// The longest sleep of a loop without a wake-up.
const IDLE: Duration = Duration::from_secs(5);

/// The running future of one loop.
type LoopFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Starts the loops, each supervised with the longest allowed time between two of its wake-ups; returns the handle of
/// the admit loop. The queue of received alert groups outlives a panic of that loop.
pub fn start(
    supervisor: &Supervisor,
    tasks: &TaskTracker,
    halt: &CancellationToken,
    service: &Arc<Service>,
    desk: Option<&Arc<Desk>>,
    inbox: mpsc::Receiver<Received>,
) -> JoinHandle<()> {
    const OFTEN: Duration = Duration::from_secs(5);
    const SOMETIMES: Duration = Duration::from_secs(60);
    if let Some(desk) = desk {
        let (desk, halt) = (Arc::clone(desk), halt.clone());
        let followups = move || Arc::clone(&desk).followups_loop(halt.clone());
        tasks.spawn(supervisor.keep("followups", SOMETIMES, followups));
    }
    let with = |run: fn(Arc<Service>, CancellationToken, TaskTracker) -> LoopFuture| {
        let (service, halt, tasks) = (Arc::clone(service), halt.clone(), tasks.clone());
        move || run(Arc::clone(&service), halt.clone(), tasks.clone())
    };
    tasks.spawn(supervisor.keep("diagnose", OFTEN, with(|s, halt, tasks| Box::pin(diagnose::run(s, halt, tasks)))));
    tasks.spawn(supervisor.keep("deliver", OFTEN, with(|s, halt, tasks| Box::pin(deliver::run(s, halt, tasks)))));
    tasks.spawn(supervisor.keep("heartbeat", OFTEN, with(|s, halt, _| Box::pin(heartbeat::run(s, halt)))));
    tasks.spawn(supervisor.keep("housekeeping", SOMETIMES, with(|s, halt, _| Box::pin(housekeeping::run(s, halt)))));
    if service.config.exporters.learn {
        tasks.spawn(supervisor.keep("learn", SOMETIMES, with(|s, halt, _| Box::pin(exporters::run(s, halt)))));
    }
    let channels = |s: Arc<Service>, halt: CancellationToken, _| -> LoopFuture {
        Box::pin(async move {
            every(CHECK_INTERVAL, &halt, || s.notifier.check_refused_channels(REFUSED.longest)).await;
        })
    };
    tasks.spawn(supervisor.keep("channels", SOMETIMES, with(channels)));
    let (store, stop) = (service.store.clone(), halt.clone());
    tasks.spawn(supervisor.keep("store", SOMETIMES, move || store.clone().watch(stop.clone())));
    let (service, inbox) = (Arc::clone(service), Arc::new(Mutex::new(inbox)));
    let admit = move || admit::run(Arc::clone(&service), Arc::clone(&inbox));
    tokio::spawn(supervisor.keep("admit", OFTEN, admit))
}

/// Works at this interval until stopped; work that takes longer delays the next.
async fn every<F: Future<Output = ()>>(interval: Duration, stop: &CancellationToken, mut work: impl FnMut() -> F) {
    let mut tick = tokio::time::interval(interval);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let rounds = async {
        loop {
            tick.tick().await;
            work().await;
        }
    };
    let _: Option<()> = stop.run_until_cancelled(rounds).await;
}

/// Waits for a wake-up, the next due time, or the stop; at most for `most`.
async fn pause(
    store: &Store,
    wake: &Notify,
    stop: &CancellationToken,
    most: Option<Duration>,
    pick: impl Fn((Option<i64>, Option<i64>)) -> Option<i64>,
) {
    let now = store.now();
    let due = store.next_due(now).await.ok().and_then(&pick);
    let wait = due.map_or(IDLE, |due| Duration::from_millis(u64::try_from(due - clock::unix_ms(now)).unwrap_or(0)));
    let wait = wait.min(most.unwrap_or(IDLE)).min(IDLE);
    tokio::select! {
        () = wake.notified() => {}
        () = stop.cancelled() => {}
        // A minimum, so that work that other replicas hold does not make this loop spin.
        () = tokio::time::sleep(wait.max(Duration::from_millis(5))) => {}
    }
}

/// Returns a duration in whole milliseconds.
fn ms(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

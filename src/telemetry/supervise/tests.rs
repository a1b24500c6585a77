//! Tests of the supervisor with failing loops.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

use super::*;

const QUICK: Timing = Timing {
    pauses: Backoff { first: Duration::from_millis(1), longest: Duration::from_millis(4) },
    steady: Duration::from_secs(600),
    dead_after: Duration::from_millis(50),
};
/// A rhythm longer than any test.
const LONG: Duration = Duration::from_secs(600);

fn supervisor(stop: &CancellationToken) -> Supervisor {
    Supervisor::new(Arc::new(Metrics::default()), QUICK, stop.clone())
}

/// Waits until the problem of the only loop matches `wished`.
async fn until(supervisor: &Supervisor, wished: impl Fn(&Option<String>) -> bool) -> Option<String> {
    let wait = async {
        loop {
            let trouble = supervisor.loops().remove(0).1;
            if wished(&trouble) {
                return trouble;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), wait).await.unwrap()
}

#[tokio::test]
async fn a_loop_that_panics_is_restarted_and_counted() {
    let stop = CancellationToken::new();
    let supervisor = supervisor(&stop);
    let (runs, third) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let make = {
        let (runs, third, stop) = (Arc::clone(&runs), Arc::clone(&third), stop.clone());
        move || {
            let (runs, third, stop) = (Arc::clone(&runs), Arc::clone(&third), stop.clone());
            async move {
                assert!(runs.fetch_add(1, Ordering::SeqCst) >= 2, "not yet");
                third.notify_one();
                stop.cancelled().await;
            }
        }
    };
    let supervised = tokio::spawn(supervisor.keep("diagnose", LONG, make));
    third.notified().await;
    let page = supervisor.metrics.page();
    assert!(page.contains("llm_diagnose_loop_restarts_total{result=\"diagnose\"} 2"), "{page}");
    stop.cancel();
    supervised.await.unwrap();
    assert_eq!((runs.load(Ordering::SeqCst), supervisor.loops()), (3, vec![("diagnose", None)]));
}

#[tokio::test]
async fn the_pause_before_a_restart_doubles_up_to_the_longest() {
    let timing =
        Timing { pauses: Backoff { first: Duration::from_millis(20), longest: Duration::from_millis(50) }, ..QUICK };
    let stop = CancellationToken::new();
    let supervisor = Supervisor::new(Arc::new(Metrics::default()), timing, stop.clone());
    let (began, mut begins) = tokio::sync::mpsc::unbounded_channel();
    let make = move || {
        began.send(Instant::now()).unwrap();
        async { panic!("again") }
    };
    let supervised = tokio::spawn(supervisor.keep("learn", LONG, make));
    let mut last = begins.recv().await.unwrap();
    for pause in [20, 40, 50, 50] {
        let next = begins.recv().await.unwrap();
        assert!(next - last >= Duration::from_millis(pause), "{:?} after {pause} ms", next - last);
        last = next;
    }
    stop.cancel();
    supervised.await.unwrap();
}

#[tokio::test]
async fn a_loop_that_breaks_again_and_again_or_ends_by_itself_is_dead() {
    for (panics, words) in [(true, "out of luck"), (false, "ended by itself")] {
        let stop = CancellationToken::new();
        let supervisor = supervisor(&stop);
        let supervised =
            tokio::spawn(supervisor.keep("deliver", LONG, move || async move { assert!(!panics, "out of luck") }));
        let trouble = until(&supervisor, Option::is_some).await.unwrap();
        assert!(trouble.starts_with("has kept failing for") && trouble.contains(words), "{trouble}");
        stop.cancel();
        supervised.await.unwrap();
    }
}

#[tokio::test]
async fn a_loop_that_waits_for_what_never_comes_is_dead_until_it_goes_on() {
    let stop = CancellationToken::new();
    let supervisor = supervisor(&stop);
    let (go_on, end) = (Arc::new(Notify::new()), stop.clone());
    let wake = Arc::clone(&go_on);
    let make = move || {
        let (wake, end) = (Arc::clone(&wake), end.clone());
        async move {
            wake.notified().await;
            let mut tick = tokio::time::interval(Duration::from_millis(1));
            while !end.is_cancelled() {
                tick.tick().await;
            }
        }
    };
    let supervised = tokio::spawn(supervisor.keep("admit", Duration::ZERO, make));
    let trouble = until(&supervisor, Option::is_some).await.unwrap();
    assert!(trouble.starts_with("no progress for"), "{trouble}");
    go_on.notify_one();
    until(&supervisor, Option::is_none).await;
    stop.cancel();
    supervised.await.unwrap();
}

#[tokio::test]
async fn work_that_panics_gives_back_its_slot_and_is_counted() {
    let metrics = Metrics::default();
    let slots = Arc::new(tokio::sync::Semaphore::new(1));
    let slot = Arc::clone(&slots).acquire_owned().await.unwrap();
    let work = async move {
        let _slot = slot;
        panic!("a value that nobody expected")
    };
    assert!(!guard("diagnosis", &metrics, work).await);
    assert_eq!(slots.available_permits(), 1);
    assert!(metrics.page().contains("llm_diagnose_panics_total{result=\"diagnosis\"} 1"));
    assert!(guard("diagnosis", &metrics, async {}).await);
}

//! The service for a long time under pools that flap, a Slack that fails, reloads, and a Prometheus that goes away: its
//! memory and its descriptors do not grow, and in the end every message says that its alerts are over.
//!
//! `make soak` runs for SOAK minutes. `make test` runs for some seconds, too short to tell growth: it shows that the rest holds.

use std::time::{Duration, Instant};

use llm_diagnose_lab::slack::Failure;
use llm_diagnose_lab::stack::Prometheus;

use super::from_environment;
use super::site::Site;

/// The pools that flap, each a group of alerts.
const POOLS: usize = 50;
/// Between two changes of a pool: each flaps every half a minute.
const PAUSE: Duration = Duration::from_millis(300);
/// One of so many calls of Slack fails.
const FAILS: usize = 100;
/// Without SOAK.
const SHORT: Duration = Duration::from_secs(20);
/// Between two reloads of the configuration, at most.
const RELOADS: Duration = Duration::from_secs(60);
/// The parts of the soak; Prometheus is away in every second one.
const PARTS: u32 = 6;
/// The time until all is over.
const END: Duration = Duration::from_secs(120);
/// The shortest soak whose growth is judged.
const TELLS: Duration = Duration::from_secs(300);
/// What the last third may have more than the one before it.
const MOST_GROWTH: f64 = 1.1;

/// Descriptors of the process at a moment, and its resident memory without pages of files, in KiB.
#[derive(Debug, Clone, Copy)]
struct Held([f64; 2]);

impl Held {
    fn descriptors(&self) -> f64 {
        self.0[0]
    }

    fn memory(&self) -> f64 {
        self.0[1]
    }
}

fn held(process: u32) -> Held {
    let descriptors = std::fs::read_dir(format!("/proc/{process}/fd")).unwrap().count();
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let memory = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    Held([descriptors as f64, memory.trim().trim_end_matches(" kB").parse().unwrap()])
}

fn median(held: &[Held], of: impl Fn(&Held) -> f64) -> f64 {
    let mut values: Vec<f64> = held.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[tokio::test]
async fn under_pools_that_flap_nothing_grows_and_every_message_ends_as_its_alerts() {
    let minutes = from_environment("SOAK").map(|minutes| Duration::from_secs(60 * minutes as u64));
    let length = minutes.unwrap_or(SHORT);
    let mut prometheus = Prometheus::builder().start().await.unwrap();
    let mut site = Site::start(None, &format!("prometheus: [{{ url: \"{}\" }}]", prometheus.url)).await;
    let process = site.service.id().unwrap();
    let (mut all, mut steps, mut failed, mut is_away) = (Vec::new(), 0, 0, false);
    let (began, mut reloaded) = (Instant::now(), Instant::now());
    let mut tick = tokio::time::interval(PAUSE);
    while began.elapsed() < length {
        tick.tick().await;
        site.flap(steps % POOLS).await;
        steps += 1;
        let calls = site.slack.with(|state| state.calls().len());
        if calls / FAILS > failed {
            failed = calls / FAILS;
            let method = if failed % 2 == 0 { "chat.postMessage" } else { "chat.update" };
            site.slack.fail_next(method, Failure::Status(503), 1);
        }
        if reloaded.elapsed() > RELOADS.min(length / 10) {
            reloaded = Instant::now();
            site.service.hang_up().await.unwrap();
        }
        let part = began.elapsed().as_millis() * u128::from(PARTS) / length.as_millis();
        if (part % 2 == 1) != is_away {
            is_away = !is_away;
            match is_away {
                true => prometheus.kill().await.unwrap(),
                false => prometheus.restart().await.unwrap(),
            }
        }
        all.push(held(process));
    }
    assert!(site.all_over(END).await, "not all is over\n{}", site.service.stderr());
    assert_eq!(site.slack.violations(), []);
    assert!(!site.service.stderr().contains("panicked"), "{}", site.service.stderr());
    assert_eq!(site.service.id(), Some(process), "it ended");
    let (before, last) = (&all[all.len() / 3..all.len() * 2 / 3], &all[all.len() * 2 / 3..]);
    for (what, of) in [("descriptors", Held::descriptors as fn(&Held) -> f64), ("KiB of memory", Held::memory)] {
        let [before, last] = [before, last].map(|part| median(part, of));
        println!("{steps} changes: {before} {what} in the second third, {last} in the last");
        assert!(length < TELLS || last <= before * MOST_GROWTH, "{before} {what}, then {last}");
    }
}

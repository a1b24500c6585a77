//! The process is killed at every stage of its work and at random moments, under a pair of Alertmanagers, on both
//! databases, while Slack resets connections: no acknowledged alert is lost, nothing is shown twice, nothing is stuck.
//!
//! `make kill` kills at every stage on both databases and KILLS times at random, and waits until the searches for
//! duplicates have ended, which takes minutes. `make test` kills at each stage on one of the two databases and a few
//! times at random.
#![allow(clippy::print_stdout, reason = "the counts are the result of `make kill`")]

mod calls;
mod leases;
mod outcome;
mod proxy;
mod site;
mod soak;

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use llm_diagnose_lab::slack::Failure;
use llm_diagnose_lab::stack::Postgres;

use crate::running::NOWHERE;
use site::Site;

/// Random kills on SQLite, and on PostgreSQL, where a start takes longer, unless KILLS says otherwise.
const FEW: [usize; 2] = [4, 2];
/// Random kills come at most this long after an alert, or after the start of the process began.
const MOMENTS: Duration = Duration::from_millis(900);
/// How long `make kill` waits for each thing, and `make test`. On PostgreSQL the lease of a killed process ends after
/// about 20 seconds. With fewer than about 1,000 ms between two alerts the storm never ends, and no incident has a message
/// of its own.
const LIMITS: [Limits; 2] = [Limits::of(1_000, [240, 60, 180, 600]), Limits::of(1_000, [90, 30, 60, 30])];
/// The groups that stay open.
const OPEN: usize = 10;

/// Every failpoint but the last, and but that of the weekly summary (`tests/it/weekly.rs`).
const STAGES: [&str; 20] = [
    "webhook read",
    "admission before commit",
    "admission after commit",
    "digests chosen",
    "diagnosis begun",
    "diagnosis before commit",
    "delivery claimed",
    "message before the call",
    "message posted",
    "post recorded",
    "message edited",
    "edit recorded",
    "digest posted",
    "digest post recorded",
    "digest edited",
    "digest edit recorded",
    "thread post posted",
    "history searched",
    "pager called",
    "housekeeping",
];
/// It comes 20 seconds after a lost answer, so only `make kill` waits for it.
const LATE_STAGE: &str = "duplicates searched";
/// Killed at by `tests/it/weekly.rs`.
const WEEKLY_STAGE: &str = "weekly posted";

/// What Slack does in turn: every method fails after its effect.
const FAILURES: [Option<(&str, Failure)>; 8] = [
    Some(("chat.postMessage", Failure::Reset)),
    Some(("chat.update", Failure::Reset)),
    None,
    None,
    Some(("chat.postMessage", Failure::Reset)),
    Some(("conversations.history", Failure::Reset)),
    None,
    Some(("chat.postMessage", Failure::LostReply)),
];

/// How long something is waited for.
struct Limits {
    /// The pause between two alerts while the process has not reached the next stage.
    next_alert: Duration,
    /// All stages.
    stages: Duration,
    /// Every group is acknowledged.
    acknowledged: Duration,
    /// A clean count: leases of killed processes and retries.
    clean: Duration,
    /// It is quiet: the searches for duplicates, for which only `make kill` waits, end 380 s after the last lost answer.
    quiet: Duration,
}

impl Limits {
    const fn of(next_alert_ms: u64, [stages, acknowledged, clean, quiet]: [u64; 4]) -> Self {
        Self {
            next_alert: Duration::from_millis(next_alert_ms),
            stages: Duration::from_secs(stages),
            acknowledged: Duration::from_secs(acknowledged),
            clean: Duration::from_secs(clean),
            quiet: Duration::from_secs(quiet),
        }
    }
}

/// A deterministic sequence of numbers below a limit.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        // Knuth's constants of MMIX.
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

fn from_environment(name: &str) -> Option<usize> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// One step of the load: a group or a storm of four, second alerts of some groups, and the end of old ones.
async fn load(site: &mut Site, step: usize) {
    match step % 3 {
        2 => {
            for _ in 0..4 {
                site.fire(true).await;
            }
        }
        _ => site.fire(false).await,
    }
    for group in site.newest(5) {
        site.fire_second(group).await;
    }
    let open = site.newest(OPEN);
    site.resolve_below(open.start).await;
}

/// Kills at every stage, then at random moments, and compares what was acknowledged with what is shown.
async fn survives(database: &str, postgres: Option<&Postgres>) {
    let began = Instant::now();
    let mut site = Site::start(postgres, NOWHERE).await;
    let random = from_environment("KILLS");
    let is_long = random.is_some();
    let limits = &LIMITS[usize::from(!is_long)];
    match is_long {
        true => site.arm(STAGES.iter().chain([&LATE_STAGE])),
        false => site.arm(STAGES.iter().skip(usize::from(postgres.is_some())).step_by(2)),
    }
    site.slack.fail_next("chat.postMessage", Failure::Reset, 1);
    let mut steps = 0..;
    while !site.armed().is_empty() {
        assert!(began.elapsed() < limits.stages, "never reached: {:?}\n{}", site.armed(), site.service.stderr());
        load(&mut site, steps.next().unwrap()).await;
        site.restart_if_ended(limits.next_alert).await;
    }
    let at_stages = site.kills;
    let seed = from_environment("KILL_SEED").unwrap_or(began.elapsed().subsec_nanos() as usize);
    // Before anything can fail, so that KILL_SEED can repeat it.
    println!(
        "{database}: {at_stages} kills at stages in {} s; random moments of seed {seed}",
        began.elapsed().as_secs()
    );
    let mut numbers = Numbers(seed as u64);
    let mut failures = FAILURES.iter().cycle();
    while site.kills < at_stages + random.unwrap_or(FEW[usize::from(postgres.is_some())]) {
        let step = steps.next().unwrap();
        if let Some(Some((method, failure))) = failures.next() {
            site.slack.fail_next(method, failure.clone(), 1);
        }
        load(&mut site, step).await;
        let moment = MOMENTS.mul_f64(numbers.below(1_000) as f64 / 1e3);
        match step % 4 {
            3 => site.kill_in_start(moment).await,
            _ => site.kill_after(moment).await,
        }
    }
    let killed = began.elapsed();
    let counts = site.settled(limits, is_long).await;
    println!(
        "{database}: {} kills ({at_stages} at stages, {} at random moments) in {} s, counted until {} s",
        site.kills,
        site.kills - at_stages,
        killed.as_secs(),
        began.elapsed().as_secs()
    );
    for (when, outcome) in ["first clean count", "after it was quiet"].iter().zip(&counts) {
        println!("{database}, {when}: {outcome}");
        assert_eq!(outcome.wrong(), 0, "{when}: {outcome}\n{}", site.service.stderr());
    }
    assert_eq!(site.slack.violations(), []);
    assert!(!site.service.stderr().contains("panicked"), "{}", site.service.stderr());
}

#[tokio::test]
async fn killed_at_every_stage_and_at_random_nothing_is_lost_duplicated_or_stuck_with_sqlite() {
    survives("SQLite", None).await;
}

#[tokio::test]
async fn killed_at_every_stage_and_at_random_nothing_is_lost_duplicated_or_stuck_with_postgresql() {
    survives("PostgreSQL", Some(&Postgres::start().unwrap())).await;
}

/// The names between quotes on the lines that call a failpoint, below a directory.
fn failpoints(directory: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(directory).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            failpoints(&entry.path(), found);
        } else if entry.path().extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(entry.path()).unwrap();
            let calls = text.lines().filter(|line| line.trim_start().starts_with("failpoint("));
            found.extend(calls.flat_map(|line| line.split('"').skip(1).step_by(2)).map(str::to_owned));
        }
    }
}

#[test]
fn every_failpoint_is_a_stage_of_the_test() {
    let mut found = BTreeSet::new();
    failpoints(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut found);
    let stages: BTreeSet<String> = STAGES.into_iter().chain([LATE_STAGE, WEEKLY_STAGE]).map(str::to_owned).collect();
    assert_eq!(found, stages);
}

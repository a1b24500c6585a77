//! Which past a diagnosis compares with, and what the hours before an incident tell: handmade series of one engine.

use std::fmt::Write;

use diagnose::{diagnose, observe};
use findings::{AlertCondition, Baseline, Diagnosis, PastKind, Request};
use knowledge::alert::Labels;
use llm_diagnose_lab::stack;
use prom::Prometheus;

use crate::harness::{at, client, library, request, run};

/// The judged moment, in unix seconds; 2024, so that nothing depends on the present.
const NOW: i64 = 1_710_000_000;
const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// A pool of one model: for how long before the judged moment it was there, in seconds, its replicas, where it tells
/// them the tokens of a prompt, and whether its first tokens came quickly until ten minutes ago.
struct Pool {
    namespace: &'static str,
    there: &'static [(i64, i64)],
    replicas: usize,
    prompt: Option<f64>,
    began_well: bool,
}

const fn pool(namespace: &'static str, there: &'static [(i64, i64)]) -> Pool {
    Pool { namespace, there, replicas: 1, prompt: None, began_well: false }
}

const POOLS: [Pool; 8] = [
    pool("yesterday", &[(DAY + HOUR, DAY - HOUR), (HOUR, 0)]),
    pool("last-week", &[(7 * DAY + HOUR, 7 * DAY - HOUR), (4 * HOUR, 0)]),
    pool("today", &[(7 * HOUR, 0)]),
    pool("this-hour", &[(50 * MINUTE, 0)]),
    Pool { began_well: true, ..pool("this-hour-well", &[(50 * MINUTE, 0)]) },
    pool("new", &[(20 * MINUTE, 0)]),
    Pool { replicas: 3, ..pool("new-and-wide", &[(20 * MINUTE, 0)]) },
    Pool { prompt: Some(3_000.0), ..pool("long-prompts", &[(20 * MINUTE, 0)]) },
];

/// Running requests at a moment: a batch that grows and shrinks over two hours.
fn batch(seconds: i64) -> f64 {
    let phase = seconds.rem_euclid(2 * HOUR) as f64 / (2 * HOUR) as f64;
    12.0 + 8.0 * (phase * std::f64::consts::TAU).sin()
}

/// Steps take 10 ms and 2 ms for each running request; for the last ten minutes they take three times as long.
fn step(seconds: i64) -> f64 {
    let slow = if seconds > NOW - 10 * MINUTE { 3.0 } else { 1.0 };
    slow * (0.010 + 0.002 * batch(seconds))
}

/// First tokens after 6.9 s, of which 4.2 s in the queue and 2.5 s computing the prompt, one each second.
fn write_pool(pool: &Pool, text: &mut String) {
    for replica in 0..pool.replicas {
        let Pool { namespace, there, prompt, .. } = pool;
        let labels = format!(
            "job=\"vllm\",instance=\"{namespace}-{replica}\",namespace=\"{namespace}\",pod=\"{namespace}-{replica}\",model_name=\"m\""
        );
        for (began, ended) in *there {
            let (mut steps, mut quick) = (0.0, 0.0);
            for (i, t) in (NOW - began..=NOW - ended).step_by(30).enumerate() {
                let counted = i as f64 * 30.0;
                steps += step(t);
                quick += if pool.began_well && t <= NOW - 10 * MINUTE && i > 0 { 30.0 } else { 0.0 };
                let mut row = |name: &str, more: &str, value: f64| {
                    writeln!(text, "{name}{{{labels}{more}}} {value} {t}").unwrap();
                };
                row("up", "", 1.0);
                row("vllm:num_requests_running", "", batch(t));
                row("vllm:num_requests_waiting", "", 4.0);
                row("vllm:inter_token_latency_seconds_sum", "", steps);
                row("vllm:inter_token_latency_seconds_count", "", i as f64 + 1.0);
                for (le, n) in [("0.5", quick), ("5.0", quick), ("10.0", counted), ("+Inf", counted)] {
                    row("vllm:time_to_first_token_seconds_bucket", &format!(",le=\"{le}\""), n);
                }
                for (name, each) in
                    [("time_to_first_token", 6.9), ("request_queue_time", 4.2), ("request_prefill_time", 2.5)]
                {
                    row(&format!("vllm:{name}_seconds_sum"), "", each * counted);
                    row(&format!("vllm:{name}_seconds_count"), "", counted);
                }
                // With room in the cache, what is left to lack is the time to compute such prompts.
                if let Some(tokens) = prompt {
                    row("vllm:kv_cache_usage_perc", "", 0.3);
                    row("vllm:request_prompt_tokens_sum", "", tokens * counted);
                    row("vllm:request_prompt_tokens_count", "", counted);
                }
            }
        }
    }
}

/// A Prometheus that has these pools.
async fn pools(chosen: &[&str]) -> (Prometheus, stack::Prometheus, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let mut text = String::new();
    let chosen = POOLS.iter().filter(|pool| chosen.contains(&pool.namespace));
    chosen.for_each(|pool| write_pool(pool, &mut text));
    text.push_str("# EOF\n");
    let file = directory.path().join("pools.om");
    std::fs::write(&file, text).unwrap();
    let server = stack::Prometheus::builder().backfill(file).start().await.unwrap();
    (client(&server.url), server, directory)
}

fn late(namespace: &str) -> Request {
    Request { since: Some(at(NOW - 5 * MINUTE)), ..request("high-ttft", &[("namespace", namespace)], NOW) }
}

#[test]
fn the_first_past_that_covers_the_pool_is_compared_with_and_named() {
    run(async {
        let (prometheus, _server, _directory) = pools(&POOLS.map(|pool| pool.namespace)).await;
        let told = async |request: &Request| -> Diagnosis { diagnose(library(), &prometheus, request).await };
        let mut queries = Vec::new();
        for (namespace, kind, ended) in [
            ("yesterday", PastKind::SameTime, Some(DAY)),
            ("last-week", PastKind::SameTime, Some(7 * DAY)),
            ("today", PastKind::HoursBefore, Some(HOUR + 5 * MINUTE)),
            // What was as slow since the start is no past to compare with.
            ("this-hour", PastKind::Nothing, None),
            ("this-hour-well", PastKind::SinceStart, Some(25 * MINUTE)),
            ("new", PastKind::Nothing, None),
            ("new-and-wide", PastKind::Peers, None),
        ] {
            let diagnosis = told(&late(namespace)).await;
            let with = diagnosis.compared_with.unwrap();
            assert_eq!((with.kind, with.at), (kind, ended.map(|ago| at(NOW - ago))), "{namespace}");
            assert_eq!(diagnosis.problems, Vec::<String>::new(), "{namespace}");
            queries.push(diagnosis.queries);
        }
        let (least, most) = (queries.iter().min().unwrap(), queries.iter().max().unwrap());
        // One pack for the past, of each kind; no rung costs more than another.
        assert!(most - least <= 20, "{queries:?}");
        let off = told(&Request { baseline: Baseline::Off, ..late("yesterday") }).await;
        assert_eq!(off.compared_with.unwrap().kind, PastKind::Nothing);
    });
}

#[test]
fn the_value_of_an_alerts_expression_is_compared_with_the_hours_before() {
    run(async {
        let (prometheus, _server, _directory) = pools(&["today", "new"]).await;
        let found = async |namespace: &str, expression: String| {
            let alerts = [Labels::from([("namespace".to_owned(), namespace.to_owned())])].into();
            let conditions = vec![AlertCondition { expression, alerts }];
            let request = Request { conditions, ..late(namespace) };
            let found = diagnose(library(), &prometheus, &request).await.condition.unwrap();
            (found.value, found.usual, found.is_new)
        };
        let steady = "0 * sum by (namespace) (vllm:num_requests_running) + 5 > 1".to_owned();
        assert_eq!(found("today", steady.clone()).await, (Some(5.0), Some(5.0), false));
        assert_eq!(found("new", steady).await, (Some(5.0), None, false), "too young");
        let rising = format!("0 * sum by (namespace) (vllm:num_requests_running) + time() - {} > 0", NOW - MINUTE);
        let usual = (MINUTE - 3 * HOUR - 5 * MINUTE) as f64;
        assert_eq!(found("today", rising).await, (Some(60.0), Some(usual), true));
    });
}

#[test]
fn the_parts_of_a_first_token_are_told_with_the_share_that_a_cause_explains() {
    run(async {
        let (prometheus, _server, _directory) = pools(&["long-prompts"]).await;
        let diagnosis = diagnose(library(), &prometheus, &late("long-prompts")).await;
        let parts = diagnosis.parts.as_ref().unwrap();
        let told: Vec<(&str, i64)> =
            parts.parts.iter().map(|part| (part.signal.as_str(), (part.seconds * 10.0).round() as i64)).collect();
        assert_eq!(told, [("queue_time_mean", 42), ("prefill_time_mean", 25)]);
        assert!((parts.seconds - 6.9).abs() < 0.01 && (parts.rest.unwrap().seconds - 0.2).abs() < 0.01, "{parts:?}");
        let shares: Vec<f64> = diagnosis.causes.iter().filter_map(|cause| cause.explained).collect();
        assert!(!shares.is_empty(), "{:?}", diagnosis.causes);
        assert!(shares.iter().all(|share| (0.0..=1.0).contains(share)), "{shares:?}");
        let words = render::Phrases::english();
        let message = render::diagnosis_message(&diagnosis, None, &words);
        let said = render::terminal(&message);
        let line =
            "First tokens take 6.9 s on average: 4.2 s in the queue, 2.5 s computing the prompt, 0.2 s elsewhere.";
        assert!(said.contains(line), "{said}");
    });
}

#[test]
fn steps_are_compared_with_what_such_a_batch_cost_in_the_hours_before() {
    run(async {
        let (prometheus, _server, _directory) = pools(&["today", "this-hour"]).await;
        let slow = |namespace: &str, baseline| {
            let since = Some(at(NOW - 5 * MINUTE));
            Request { since, baseline, ..request("high-itl", &[("namespace", namespace)], NOW) }
        };
        let earlier = request("high-itl", &[], NOW).baseline;
        let told = async |request: &Request| observe(library(), &prometheus, request, None).await;
        let seen = told(&slow("today", earlier)).await;
        let factor = seen.observations.signals["itl_against_batch"].value.unwrap();
        assert!((2.4..3.6).contains(&factor), "{factor}");
        // Before the fault the batch explained it.
        let calm = Request { at: at(NOW - 15 * MINUTE), since: None, ..slow("today", earlier) };
        let factor = told(&calm).await.observations.signals["itl_against_batch"].value.unwrap();
        assert!((0.8..1.25).contains(&factor), "{factor}");
        for request in [slow("this-hour", earlier), slow("today", Baseline::Off)] {
            let seen = told(&request).await;
            let told = &seen.observations.signals["itl_against_batch"];
            assert_eq!(told.value, None, "the hours are too few, or not asked for");
            assert!(told.why.is_some());
        }
    });
}

#[test]
fn another_day_tells_how_much_it_varies_by_itself_and_a_check_says_so() {
    run(async {
        let (prometheus, _server, _directory) = pools(&["yesterday", "today"]).await;
        let seen = observe(library(), &prometheus, &late("yesterday"), None).await.observations;
        let running = &seen.signals["running_per_replica"];
        let (past, before) = (running.baseline.unwrap(), running.before.unwrap());
        assert!((past - before).abs() > 0.5, "the batch grows and shrinks: {running:?}");
        let diagnosis = diagnose(library(), &prometheus, &late("yesterday")).await;
        let ruled_out = diagnosis.ruled_out.iter().flat_map(|cause| &cause.because);
        let checks = diagnosis.causes.iter().flat_map(|cause| &cause.evidence).chain(ruled_out);
        let varies: Vec<_> = checks.filter_map(|e| Some((e.signal.as_str(), e.varies?))).collect();
        assert!(varies.iter().all(|(_, times)| (1.0..3.0).contains(times)), "{varies:?}");
        assert!(varies.iter().any(|(signal, times)| *signal == "running_per_replica" && *times > 1.02), "{varies:?}");
        // Hours are their own mean.
        let seen = observe(library(), &prometheus, &late("today"), None).await.observations;
        assert_eq!(seen.signals["running_per_replica"].before, None);
    });
}

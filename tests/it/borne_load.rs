//! Load that a pool bore for hours does not explain a symptom that began minutes ago: handmade series of one engine.

use std::fmt::Write;

use diagnose::diagnose;
use findings::{Diagnosis, Request, Verdict};
use llm_diagnose_lab::stack;

use crate::harness::{at, client, library, request, run};

/// The judged moment, in unix seconds; 2024, so that nothing depends on the present.
const NOW: i64 = 1_710_000_000;
const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
/// The cache is full and first tokens are late since then.
const FULL_SINCE: i64 = NOW - 11 * MINUTE;

/// A pool with 2.4 times yesterday's requests, and prompts of three times the length, since so many seconds before the
/// judged moment.
fn write_pool(namespace: &str, more_for: i64, longer_for: i64, text: &mut String) {
    let labels = format!("job=\"vllm\",instance=\"a\",namespace=\"{namespace}\",pod=\"a\",model_name=\"m\"");
    for (began, ended) in [(DAY + 2 * HOUR, DAY - HOUR), (5 * HOUR, 0)] {
        let (mut arrived, mut quick, mut prompts) = (0.0, 0.0, 0.0);
        for t in (NOW - began..=NOW - ended).step_by(30) {
            let is_full = t > FULL_SINCE;
            let arrivals = if t > NOW - more_for { 2.4 * 30.0 } else { 30.0 };
            arrived += arrivals;
            prompts += arrivals * if t > NOW - longer_for { 3_000.0 } else { 1_000.0 };
            quick += if is_full { 0.0 } else { arrivals };
            let mut row = |name: &str, more: &str, value: f64| {
                writeln!(text, "vllm:{name}{{{labels}{more}}} {value} {t}").unwrap();
            };
            row("num_requests_running", "", if is_full { 40.0 } else { 12.0 });
            row("num_requests_waiting", "", if is_full { 25.0 } else { 0.0 });
            row("kv_cache_usage_perc", "", if is_full { 0.995 } else { 0.5 });
            for (le, n) in [("0.5", quick), ("5.0", quick), ("10.0", arrived), ("+Inf", arrived)] {
                row("time_to_first_token_seconds_bucket", &format!(",le=\"{le}\""), n);
            }
            row("time_to_first_token_seconds_count", "", arrived);
            for (name, sum) in [("request_prompt_tokens", prompts), ("request_generation_tokens", 300.0 * arrived)] {
                row(&format!("{name}_sum"), "", sum);
                row(&format!("{name}_count"), "", arrived);
            }
        }
    }
}

/// The diagnoses of late first tokens in these pools: name, and for how long they have more requests and longer prompts.
fn diagnosed(pools: &[(&str, i64, i64)]) -> Vec<Diagnosis> {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pools.om");
    let mut text = String::new();
    pools.iter().for_each(|(name, more_for, longer_for)| write_pool(name, *more_for, *longer_for, &mut text));
    text.push_str("# EOF\n");
    std::fs::write(&file, text).unwrap();
    run(async {
        let server = stack::Prometheus::builder().backfill(file).start().await.unwrap();
        let prometheus = client(&server.url);
        let mut all = Vec::new();
        for (name, ..) in pools {
            let since = Some(at(NOW - 5 * MINUTE));
            let request = Request { since, ..request("high-ttft", &[("namespace", name)], NOW) };
            all.push(diagnose(library(), &prometheus, &request).await);
        }
        all
    })
}

#[test]
fn load_that_was_borne_for_hours_is_at_most_possible_and_a_new_surge_is_likely() {
    let diagnoses = diagnosed(&[("new", 13 * MINUTE, 0), ("borne", 4 * HOUR, 0)]);
    for (diagnosis, verdict) in diagnoses.iter().zip([Verdict::Likely, Verdict::Possible]) {
        let told = serde_json::to_string_pretty(diagnosis).unwrap();
        let surge =
            diagnosis.causes.iter().find(|cause| cause.id == "traffic-surge").unwrap_or_else(|| panic!("{told}"));
        assert_eq!(surge.verdict, verdict, "{told}");
        let rate = surge.evidence.iter().find(|e| e.signal == "request_rate").unwrap();
        assert_eq!(rate.as_before, verdict == Verdict::Possible, "{told}");
    }
}

#[test]
fn what_more_load_reveals_is_not_taken_for_borne() {
    let diagnoses = diagnosed(&[("borne", 0, 4 * HOUR), ("revealed", 13 * MINUTE, 4 * HOUR)]);
    let was_before = |diagnosis: &Diagnosis| {
        let mut links = diagnosis.causes.iter().flat_map(|cause| cause.via.iter().map(|link| &link.evidence));
        let own = diagnosis.causes.iter().map(|cause| &cause.evidence);
        links.by_ref().chain(own).flatten().any(|e| e.as_before)
    };
    assert_eq!(diagnoses.iter().map(was_before).collect::<Vec<_>>(), [true, false], "{diagnoses:#?}");
}

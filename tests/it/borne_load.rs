//! Load that a pool bore for hours does not explain a symptom that began minutes ago: handmade series of one engine.

use std::fmt::Write;

use diagnose::diagnose;
use findings::{Request, Verdict};
use llm_diagnose_lab::stack;

use crate::harness::{at, client, library, request, run};

/// The judged moment, in unix seconds; 2024, so that nothing depends on the present.
const NOW: i64 = 1_710_000_000;
const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
/// The cache is full and first tokens are late since then.
const FULL_SINCE: i64 = NOW - 11 * MINUTE;

/// A pool with 2.4 times yesterday's requests since so many seconds before the judged moment.
fn write_pool(namespace: &str, more_for: i64, text: &mut String) {
    let labels = format!("job=\"vllm\",instance=\"a\",namespace=\"{namespace}\",pod=\"a\",model_name=\"m\"");
    for (began, ended) in [(DAY + 2 * HOUR, DAY - HOUR), (5 * HOUR, 0)] {
        let (mut arrived, mut quick) = (0.0, 0.0);
        for t in (NOW - began..=NOW - ended).step_by(30) {
            let is_full = t > FULL_SINCE;
            let arrivals = if t > NOW - more_for { 2.4 * 30.0 } else { 30.0 };
            arrived += arrivals;
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
            for (name, each) in [("request_prompt_tokens", 1_000.0), ("request_generation_tokens", 300.0)] {
                row(&format!("{name}_sum"), "", each * arrived);
                row(&format!("{name}_count"), "", arrived);
            }
        }
    }
}

#[test]
fn load_that_was_borne_for_hours_is_at_most_possible_and_a_new_surge_is_likely() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pools.om");
    let mut text = String::new();
    write_pool("new", 13 * MINUTE, &mut text);
    write_pool("borne", 4 * HOUR, &mut text);
    text.push_str("# EOF\n");
    std::fs::write(&file, text).unwrap();
    run(async {
        let server = stack::Prometheus::builder().backfill(file).start().await.unwrap();
        let prometheus = client(&server.url);
        for (namespace, verdict) in [("new", Verdict::Likely), ("borne", Verdict::Possible)] {
            let since = Some(at(NOW - 5 * MINUTE));
            let request = Request { since, ..request("high-ttft", &[("namespace", namespace)], NOW) };
            let diagnosis = diagnose(library(), &prometheus, &request).await;
            let surge = diagnosis.causes.iter().find(|cause| cause.id == "traffic-surge");
            let told = serde_json::to_string_pretty(&diagnosis).unwrap();
            let surge = surge.unwrap_or_else(|| panic!("{told}"));
            assert_eq!(surge.verdict, verdict, "{namespace}: {told}");
            let rate = surge.evidence.iter().find(|e| e.signal == "request_rate").unwrap();
            assert_eq!(rate.as_before, verdict == Verdict::Possible, "{told}");
        }
    });
}

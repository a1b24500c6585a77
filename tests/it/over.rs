//! An alert that comes late: nothing of its symptom is left, and the start of the incident tells the cause.

use std::fmt::Write;

use diagnose::diagnose;
use findings::{Request, SymptomVerdict};
use llm_diagnose_lab::stack;

use crate::harness::{at, client, library, request, run};

/// The judged moment, in unix seconds; 2024, so that nothing depends on the present.
const NOW: i64 = 1_710_000_000;
const MINUTE: i64 = 60;

/// The minutes before the judged moment in which prompts were long.
const LONG: std::ops::Range<i64> = 25..40;

/// One engine for five hours, a request each second: prompts of 200 tokens that take 0.1 s, or of 3,000 that take 4 s.
fn series() -> String {
    let mut text = String::new();
    let labels = "job=\"vllm\",instance=\"a:8000\",namespace=\"chat\",pod=\"a\",model_name=\"m\"";
    let (mut counted, mut tokens, mut seconds, mut quick) = (0.0, 0.0, 0.0, 0.0);
    for t in (NOW - 300 * MINUTE..=NOW).step_by(30) {
        let is_long = LONG.contains(&((NOW - t) / MINUTE));
        let (prompt, took) = if is_long { (3_000.0, 4.0) } else { (200.0, 0.1) };
        counted += 30.0;
        tokens += 30.0 * prompt;
        seconds += 30.0 * took;
        quick += if is_long { 0.0 } else { 30.0 };
        let mut row = |name: &str, more: &str, value: f64| {
            writeln!(text, "{name}{{{labels}{more}}} {value} {t}").unwrap();
        };
        row("up", "", 1.0);
        row("vllm:num_requests_running", "", 4.0);
        row("vllm:num_requests_waiting", "", 0.0);
        row("vllm:kv_cache_usage_perc", "", 0.2);
        row("vllm:generation_tokens_total", "", 10.0 * counted);
        row("vllm:prompt_tokens_total", "", tokens);
        row("vllm:prefix_cache_queries_total", "", tokens);
        row("vllm:prefix_cache_hits_total", "", 0.1 * tokens);
        for (le, n) in [("0.25", quick), ("2.5", quick), ("5.0", counted), ("+Inf", counted)] {
            row("vllm:time_to_first_token_seconds_bucket", &format!(",le=\"{le}\""), n);
        }
        for name in ["time_to_first_token", "request_prefill_time"] {
            row(&format!("vllm:{name}_seconds_sum"), "", seconds);
            row(&format!("vllm:{name}_seconds_count"), "", counted);
        }
        row("vllm:request_prompt_tokens_sum", "", tokens);
        row("vllm:request_prompt_tokens_count", "", counted);
    }
    text + "# EOF\n"
}

#[test]
fn an_alert_that_comes_when_all_is_over_is_answered_with_its_start() {
    run(async {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("series.om");
        std::fs::write(&file, series()).unwrap();
        let server = stack::Prometheus::builder().backfill(file).start().await.unwrap();
        let prometheus = client(&server.url);
        let since = |minutes| Request {
            since: Some(at(NOW - minutes * MINUTE)),
            ..request("high-ttft", &[("namespace", "chat")], NOW)
        };
        let late = diagnose(library(), &prometheus, &since(38)).await;
        let said = render::terminal(&render::diagnosis_message(&late, None, &render::Phrases::english()));
        assert_eq!((late.over_at, late.symptom.verdict), (Some(at(NOW)), SymptomVerdict::Confirmed), "{said}");
        assert_eq!(late.root().map(|root| root.id.as_str()), Some("longer-prompts"), "{said}");
        assert!(
            said.contains("Passed · first tokens") && said.contains("at 16:00 UTC the checks find nothing of it"),
            "{said}"
        );

        let quiet = diagnose(library(), &prometheus, &since(5)).await;
        assert_eq!((quiet.over_at, quiet.symptom.verdict), (None, SymptomVerdict::Absent));
    });
}

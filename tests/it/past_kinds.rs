//! The kind of a pool over a day that it did not outlive.

use std::collections::BTreeSet;
use std::time::Instant;

use diagnose::{PoolHistoryRequest, pool_history, pools_of_day};
use knowledge::clock;
use knowledge::clock::Range;
use llm_diagnose_lab::stack;
use llm_diagnose_lab::stack::backfill::{Series, openmetrics};

use crate::harness::{DEADLINE, WINDOW, at, client, library, run};

#[test]
fn a_pool_that_ended_in_the_day_is_judged_by_the_kind_that_it_was() {
    run(async {
        // First tokens after 5 s: slow for a chat, usual for prompts of 20,000 tokens. The pool ended an hour ago.
        let now = clock::now().as_second() / 60 * 60;
        let (begin, end) = (now - 3 * 3_600, now - 3_600);
        let own = [("namespace", "llm"), ("model_name", "papers"), ("pod", "papers-0"), ("job", "vllm")];
        let of = |name: &str, more: &[(&str, &str)]| Series::new(name, &[&own[..], more].concat());
        let ttft = "vllm:time_to_first_token_seconds";
        let buckets = [("2.5", 0.0), ("7.5", 1.0), ("+Inf", 1.0)]
            .map(|(le, rate)| of(&format!("{ttft}_bucket"), &[("le", le)]).counter(begin, end, 30, rate));
        let counters = [
            (format!("{ttft}_sum"), 5.0),
            (format!("{ttft}_count"), 1.0),
            ("vllm:request_prompt_tokens_sum".to_owned(), 20_000.0),
            ("vllm:request_prompt_tokens_count".to_owned(), 1.0),
        ]
        .map(|(name, rate)| of(&name, &[]).counter(begin, end, 30, rate));
        let gauges = ["vllm:num_requests_running", "up"].map(|name| of(name, &[]).steady(begin, end, 30, 1.0));
        let text = openmetrics(buckets.into_iter().chain(counters).chain(gauges));
        let server = stack::Prometheus::builder().backfill_text(&text).unwrap().start().await.unwrap();
        let prometheus = client(&server.url);
        let day = pools_of_day(library(), &prometheus, at(now), Instant::now() + DEADLINE).await.unwrap();
        let [pool] = Vec::from_iter(&day.pools).try_into().unwrap();
        let request = PoolHistoryRequest {
            pool,
            rows: &day.rows,
            signals: &BTreeSet::from(["ttft_p99"]),
            range: Range { from: at(begin + 1_800), to: at(now), step_seconds: 600 },
            window: WINDOW,
            deadline: DEADLINE,
        };
        let history = pool_history(library(), &prometheus, &request).await;
        let slow = history.values["ttft_p99"].iter().filter(|(_, value)| *value > 5.0).count();
        assert!(slow > 5 && history.error.is_none(), "{history:?}");
        assert!(!history.abnormal.contains_key("high-ttft"), "{history:?}");
    });
}

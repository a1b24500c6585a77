//! Requests that vLLM's own queue limit refuses, read from its page.

use super::{page, read, showing, target};

/// A page with so many refused requests, none before 0.32, and so many first tokens.
fn counted(refused: Option<u32>, first_tokens: u32) -> String {
    let of = "model_name=\"llama\",engine=\"0\"";
    let refused = refused.map(|refused| {
        let reason = |reason: &str, n: u32| {
            format!("vllm:admission_rejections_total{{model_name=\"llama\",reason=\"{reason}\"}} {n}\n")
        };
        reason("max_num_queued_reqs", refused) + &reason("max_num_queued_tokens", 0)
    });
    page("0.5", "8", "0")
        + &refused.unwrap_or_default()
        + &format!("vllm:time_to_first_token_seconds_count{{{of}}} {first_tokens}\n")
}

/// The share of refused requests that two such pages tell.
async fn share(before: (Option<u32>, u32), after: (Option<u32>, u32)) -> Option<f64> {
    let url = showing(counted(before.0, before.1), counted(after.0, after.1)).await;
    let value = read("load-shedding", vec![target("vllm", &url, "llama-0")]).await;
    value("admission_rejection_ratio")
}

#[tokio::test]
async fn ten_refused_beside_thirty_first_tokens_are_a_quarter() {
    assert_eq!(share((Some(5), 100), (Some(15), 130)).await, Some(0.25));
    assert_eq!(share((Some(5), 100), (Some(5), 130)).await, Some(0.0));
    // Of too few requests no share is told.
    assert_eq!(share((Some(5), 100), (Some(7), 106)).await, None);
}

/// Nobody counts what is refused before 0.32: Prometheus has no value there either.
#[tokio::test]
async fn a_page_without_the_counter_has_no_share() {
    assert_eq!(share((None, 100), (None, 130)).await, None);
}

//! Two saved pages: what stands still between them, how long requests stay, and how unevenly ranks share the work.

use super::alone::{diagnose, text};

/// An engine of vLLM with as many ranks as numbers of requests that wait.
fn page(running: u32, waiting: &[u32], tokens: u32) -> String {
    let rank = |(rank, waiting): (usize, &u32)| {
        let of = format!("engine=\"{rank}\",model_name=\"m\"");
        format!(
            "vllm:num_requests_running{{{of}}} {running}\nvllm:num_requests_waiting{{{of}}} {waiting}\n\
             vllm:generation_tokens_total{{{of}}} {tokens}\nvllm:prompt_tokens_total{{{of}}} {tokens}\n\
             vllm:request_success_total{{{of},finished_reason=\"stop\"}} {tokens}\n\
             vllm:kv_cache_usage_perc{{{of}}} 0.2\n"
        )
    };
    waiting.iter().enumerate().map(rank).collect()
}

/// A decode server of SGLang that finishes one request a second while 150 are on their way; its ranks repeat each other.
fn transfers(done: u32) -> String {
    let of = "engine_type=\"decode\",model_name=\"m\",tp_rank";
    format!(
        "sglang:num_running_reqs{{{of}=\"0\"}} 0\nsglang:num_decode_prealloc_queue_reqs{{{of}=\"0\"}} 20\n\
         sglang:num_decode_transfer_queue_reqs{{{of}=\"0\"}} 150\nsglang:num_decode_transfer_queue_reqs{{{of}=\"1\"}} 150\n\
         sglang:num_requests_total{{engine_type=\"decode\",model_name=\"m\"}} {done}\n"
    )
}

/// What is said of two pages that were saved so far apart.
async fn said(pages: [String; 2], apart: &str) -> String {
    let directory = tempfile::tempdir().unwrap();
    let [first, second] = ["first.prom", "second.prom"].map(|name| directory.path().join(name).display().to_string());
    std::fs::write(&first, &pages[0]).unwrap();
    std::fs::write(&second, &pages[1]).unwrap();
    text(&diagnose(&[&first, &second, "--apart", apart]).await.stdout)
}

#[tokio::test]
async fn nothing_that_moves_is_a_hang_and_reads_that_are_close_say_nothing() {
    let still = || [page(0, &[60], 700), page(0, &[60], 700)];
    let hung = said(still(), "60s").await;
    assert!(
        hung.contains("an engine hangs") && hung.contains("requests that get no token 60 (read directly)"),
        "{hung}"
    );
    let close = said(still(), "5s").await;
    assert!(!close.contains("← an engine hangs"), "a prompt may take as long: {close}");
    let busy = said([page(40, &[60], 700), page(40, &[60], 900)], "60s").await;
    assert!(!busy.contains("← an engine hangs"), "{busy}");
}

#[tokio::test]
async fn ranks_and_transfers_are_read_from_pages_too() {
    let uneven = said([page(10, &[90, 0, 0, 0], 700), page(10, &[90, 0, 0, 0], 900)], "60s").await;
    assert!(uneven.contains("busiest rank over the mean of its replica 3.1x (read directly)"), "{uneven}");
    let slow = said([transfers(100), transfers(160)], "60s").await;
    assert!(slow.contains("wait for the KV transfer 150 s (read directly)"), "{slow}");
}

//! An engine's log ─▶ what went wrong first, what only followed, and the numbers.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::running::BINARY;

fn read(log: &[u8], arguments: &[&str]) -> Output {
    let mut child = Command::new(BINARY)
        .args(["logs", "-"])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(log).unwrap();
    child.wait_with_output().unwrap()
}

fn report(log: &[u8]) -> Value {
    let output = read(log, &["--output", "json"]);
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&output.stderr)))
}

/// An engine that starts, serves, runs out of memory and dies as vLLM 0.32 tells it.
const DEATH: &str = "\
(EngineCore_DP0 pid=77) INFO 11-20 02:58:01 [gpu_model_runner.py:2392] Model loading took 14.99 GiB memory and 12.345678 seconds
(EngineCore_DP0 pid=77) INFO 11-20 02:58:40 [kv_cache_utils.py:1087] GPU KV cache size: 162,704 tokens, Maximum concurrency for 16,000 tokens per request: 10.17x
(APIServer pid=12) INFO 11-20 03:00:10 [loggers.py:123] Engine 000: Avg prompt throughput: 1204.5 tokens/s, Avg generation throughput: 312.8 tokens/s, Running: 28 reqs, Waiting: 0 reqs, GPU KV cache usage: 61.0%, Prefix cache hit rate: 12.0%
(APIServer pid=12) INFO 11-20 03:00:20 [loggers.py:123] Engine 000: Avg prompt throughput: 9204.5 tokens/s, Avg generation throughput: 102.8 tokens/s, Running: 28 reqs, Waiting: 41 reqs, GPU KV cache usage: 97.4%, Prefix cache hit rate: 2.0%
(EngineCore_DP0 pid=77) ERROR 11-20 03:00:23 [core.py:710] EngineCore encountered a fatal error.
(EngineCore_DP0 pid=77) ERROR 11-20 03:00:23 [core.py:710] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.10 GiB
(APIServer pid=12) ERROR 11-20 03:00:23 [async_llm.py:480] AsyncLLM output_handler failed.
(APIServer pid=12) ERROR 11-20 03:00:23 [async_llm.py:480] vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause.
";

#[test]
fn the_first_root_is_named_and_the_loud_last_lines_are_told_as_followers() {
    let report = report(DEATH.as_bytes());
    assert_eq!(report["engine"], "vllm");
    assert_eq!(report["first_root"], "gpu-oom");
    let dead = report["findings"].as_array().unwrap().iter().find(|f| f["id"] == "engine-dead").unwrap();
    assert_eq!((&dead["rank"], &dead["count"]), (&"secondary".into(), &3.into()));
    let number = |of: &str, name: &str, key: &str| {
        let list = report[of].as_array().unwrap();
        list.iter().find(|n| n["name"] == name).unwrap_or_else(|| panic!("{name}"))[key].as_f64().unwrap()
    };
    assert_eq!(number("startup", "kv_cache_capacity_tokens", "last"), 162_704.0);
    assert_eq!(number("statistics", "requests_waiting", "max"), 41.0);
    assert!((number("statistics", "kv_cache_usage", "last") - 0.974).abs() < 1e-9);
    let output = read(DEATH.as_bytes(), &[]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("the GPU ran out of memory while serving") && text.contains("Lower `--gpu-memory"), "{text}");
}

#[test]
fn a_death_without_its_cause_says_that_the_cause_is_not_in_this_log() {
    let tail: String = DEATH.lines().filter(|l| !l.contains("OutOfMemory")).map(|l| format!("{l}\n")).collect();
    let output = read(tail.as_bytes(), &[]);
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("what killed it is not in this log"), "{text}");
}

#[test]
fn a_line_that_is_harmless_now_and_then_is_a_finding_when_it_repeats() {
    let line = |minute: u32| {
        format!(
            "INFO 11-20 03:{minute:02}:00 [shm_broadcast.py:495] No available shared memory broadcast block found in 60 seconds.\n"
        )
    };
    let once = report(format!("{}{}", line(1), line(30)).as_bytes());
    assert_eq!(once["findings"][0]["rank"], "benign");
    assert_eq!(once["first_root"], Value::Null);
    let often: String = (1..8).map(line).collect();
    assert_eq!(report(often.as_bytes())["first_root"], "shm-stall");
}

#[test]
fn garbage_endless_lines_and_empty_logs_are_read_to_their_end() {
    let mut garbage: Vec<u8> = (0..=255).cycle().take(300_000).collect();
    garbage.extend(vec![b'x'; 5 << 20]);
    garbage.extend(b"\nINFO 11-20 03:00:00 [x] GPU KV cache size: 100,000,000,000,000,000,000,000 tokens\n\xff\xfe");
    let told = report(&garbage);
    assert_eq!(told["engine"], "vllm");
    let empty = read(b"", &[]);
    assert_eq!(empty.status.code(), Some(0));
    assert!(String::from_utf8(empty.stdout).unwrap().contains("no engine is known by this log"));
    let missing = Command::new(BINARY).args(["logs", "/nowhere/x.log"]).output().unwrap();
    assert_eq!(missing.status.code(), Some(2));
    let wrong = read(b"", &["--engine", "vlm"]);
    assert!(String::from_utf8(wrong.stderr).unwrap().contains("did you mean `vllm`"));
}

#[test]
fn sglang_is_told_from_vllm_although_they_share_words() {
    let log = "[2026-11-20 03:00:00 TP0] max_total_num_tokens=163840, chunked_prefill_size=8192, max_running_requests=256, context_len=32768\n\
               [2026-11-20 03:02:11 TP0] Decode batch, #running-req: 31, #token: 152004, token usage: 0.93, cuda graph: True, gen throughput (token/s): 1204.33, #queue-req: 17\n\
               [2026-11-20 03:02:12 TP0] Scheduler hit an exception: Traceback (most recent call last):\n\
               torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.16 GiB.\n\
               [2026-11-20 03:02:13] SIGQUIT received. signum=3, frame=<frame>. It usually means one child failed.\n";
    let report = report(log.as_bytes());
    assert_eq!((&report["engine"], &report["first_root"]), (&"sglang".into(), &"gpu-oom".into()));
    assert_eq!(report["from"], "2026-11-20 03:00:00");
}

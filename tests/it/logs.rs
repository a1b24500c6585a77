//! An engine's log ─▶ what went wrong first, what only followed, and the numbers.

use std::io::Write;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use diagnose::{ExtraSources, LogSources, diagnose_with, log_findings};
use findings::{Diagnosis, Outcome, Request, ValueSource, Verdict};
use flate2::Compression;
use flate2::write::GzEncoder;
use logs::{Log, LogReader, NamedLogAnalysis, Patterns, files};
use message::Tone;
use render::{Phrases, diagnosis_message, terminal};
use serde_json::Value;

use crate::chains::{asked, moment};
use crate::harness::{at, library, run, shared};
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
    let answer: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&output.stderr)));
    assert_eq!(answer["schema"], "llm-diagnose/logs/v1");
    answer["logs"][0].clone()
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
    assert!(text.contains("the GPU ran out of memory") && text.contains("lower `--gpu-memory"), "{text}");
}

/// A request that fails at 10:05, and an engine that ends at 14:00 with this error.
fn ended_hours_later(error: &str) -> String {
    format!(
        "(APIServer pid=1) INFO 11-30 10:00:00 [api_server.py:1896] vLLM API server version 0.14.0
(EngineCore_DP0 pid=128) INFO 11-30 10:00:20 [core.py:93] Initializing a V1 LLM engine (v0.14.0) with config: model='m'
(APIServer pid=1) INFO:     Application startup complete.
(APIServer pid=1) INFO:     10.2.0.7:43264 - \"POST /v1/chat/completions HTTP/1.1\" 200 OK
(APIServer pid=1) ERROR 11-30 10:05:00 [serving_chat.py:262] requests.exceptions.SSLError: HTTPSConnectionPool(host='img.example.com', port=443): Max retries exceeded with url: /a.png (Caused by SSLError(SSLCertVerificationError(1, '[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: certificate has expired (_ssl.c:1000)')))
(APIServer pid=1) INFO:     10.2.0.7:43264 - \"POST /v1/chat/completions HTTP/1.1\" 200 OK
(EngineCore_DP0 pid=128) ERROR 11-30 14:00:05 [core.py:710] EngineCore encountered a fatal error.
(EngineCore_DP0 pid=128) ERROR 11-30 14:00:05 [core.py:710] {error}
(APIServer pid=1) ERROR 11-30 14:00:06 [async_llm.py:480] vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause.
"
    )
}

#[test]
fn a_request_that_failed_hours_before_the_engine_ended_is_not_the_root() {
    let known =
        report(ended_hours_later("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.").as_bytes());
    assert_eq!(known["first_root"], "gpu-oom", "{known:#}");
    let unknown = report(ended_hours_later("OddError: no plan for 7 ranks").as_bytes());
    assert_eq!(unknown["first_root"], Value::Null, "{unknown:#}");
    assert_eq!(unknown["unknown"]["began"]["said"], "OddError: no plan for 7 ranks", "{unknown:#}");
}

#[test]
fn a_log_is_told_root_first_then_its_timeline_its_capacity_and_its_load() {
    let colours = DEATH.replace("(EngineCore_DP0 pid=77)", "\u{1b}[1;36m(EngineCore_DP0 pid=77)\u{1b}[0;0m");
    let harmless = "(APIServer pid=12) INFO 11-20 03:00:01 [x.py:1] Failed to reset prefix cache because some blocks (12) are not freed yet\n";
    let output = read(format!("{harmless}{colours}").as_bytes(), &[]);
    insta::assert_snapshot!("a_log", String::from_utf8(output.stdout).unwrap());
}

#[test]
fn several_logs_are_told_one_by_one_below_the_earliest_root_error() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name);
    let later = DEATH
        .replace("03:00:23", "03:05:00")
        .replace("torch.OutOfMemoryError: CUDA out of memory.", "RPC call to execute_model timed out.");
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(DEATH.as_bytes()).unwrap();
    std::fs::write(file("llama-0.log"), later).unwrap();
    std::fs::write(file("llama-1.log.gz"), packed.finish().unwrap()).unwrap();
    std::fs::write(file("notes.md"), DEATH).unwrap();
    let logs = |arguments: &[&str]| Command::new(BINARY).arg("logs").args(arguments).output().unwrap();
    let directory = directory.path().to_str().unwrap();
    let output = logs(&[directory, "/nowhere/x.log"]);
    assert_eq!(output.status.code(), Some(1));
    let (text, said) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(text.starts_with("▌ llama-1.log.gz · the GPU ran out of memory"), "{text}");
    assert!(
        text.contains("2 logs, 2 of them with a root error") && text.contains("llama-0.log · It began here"),
        "{text}"
    );
    assert!(said.contains("/nowhere/x.log there is no such file"), "{said}");
    let json: Value = serde_json::from_slice(&logs(&[directory, "--output", "json"]).stdout).unwrap();
    assert_eq!((&json["first"], &json["logs"][0]["pod"]), (&"llama-1.log.gz".into(), &"llama-0".into()));
    assert_eq!(json["logs"][0]["first_root"], "rpc-timeout");
    assert_eq!(json["missing"], Value::Array(Vec::new()));
}

#[test]
fn the_engine_may_be_named_and_what_the_kernel_writes_is_known_all_the_same() {
    let help = Command::new(BINARY).args(["logs", "--help"]).output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    library().logs.keys().for_each(|engine| assert!(help.contains(engine.as_str()), "{engine}: {help}"));
    let log = "NVRM: Xid (PCI:0000:44:00): 79, GPU has fallen off the bus\nEngineCore encountered a fatal error.\n";
    let output = read(log.as_bytes(), &["--engine", "vllm", "--output", "json"]);
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["logs"][0]["first_root"], "xid-critical");
    // A named engine is not looked for.
    for engine in ["vllm", "host"] {
        let output = read(b"nothing that any engine says\n", &["--engine", engine, "--output", "json"]);
        let json: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((output.status.code(), &json["logs"][0]["engine"]), (Some(0), &engine.into()));
    }
}

#[test]
fn a_death_without_its_cause_says_that_the_cause_is_not_in_this_log() {
    let tail: String = DEATH.lines().filter(|l| !l.contains("OutOfMemory")).map(|l| format!("{l}\n")).collect();
    let output = read(tail.as_bytes(), &[]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("what began it was written before, or elsewhere"), "{text}");
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
    assert!(String::from_utf8(empty.stdout).unwrap().contains("the engine of this log is not recognised"));
    // A failure is one whatever its rank; a warning alone is none.
    for (line, code) in [
        ("15:02:00 - LiteLLM Proxy:ERROR: a.py:7 - litellm.proxy.a(): Exception occured - No connected db.", 1),
        (
            "ERROR 08-20 21:34:51 [a.py:7] vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.",
            1,
        ),
        ("[2025-07-03 12:45:27,563] LMCache WARNING: Failed to allocate memory for the KV cache.", 0),
    ] {
        assert_eq!(read(line.as_bytes(), &[]).status.code(), Some(code), "{line}");
    }
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

// ---- logs as evidence

/// What a log of `pod` says between the fault of "lost-replicas" and its alert; the runtime's times stand before each line.
fn log(pod: &str, lines: &[&str]) -> Log {
    let began = moment("lost-replicas") - 300;
    let line = |(i, line): (usize, &&str)| format!("{} {line}\n", at(began + i64::try_from(i).unwrap()));
    let text = lines.iter().enumerate().map(line).collect();
    Log { source: "kubernetes".to_owned(), pod: Some(pod.to_owned()), text, ..Log::default() }
}

fn with(logs: Vec<Log>) -> Diagnosis {
    let sources = LogSources { files: logs, ..LogSources::default() };
    let request = asked("lost-replicas", "replica-down");
    run(diagnose_with(library(), shared(), &request, ExtraSources { logs: Some(&sources), exporters: None }))
}

/// The answer but for what differs from one asking to the next.
fn answer(diagnosis: &Diagnosis) -> Diagnosis {
    Diagnosis { took_seconds: 0.0, queries: 0, logs: None, ..diagnosis.clone() }
}

const POD: &str = "vllm-llama-8b-0";
const DEAD: &str = "(APIServer pid=12) ERROR 11-20 03:00:23 [async_llm.py:480] vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause.";
const OOM: &str = "(EngineCore_DP0 pid=77) ERROR 11-20 03:00:23 [core.py:710] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.10 GiB";
const NCCL: &str = "[rank0]:[E1001 16:06:04.539355394 ProcessGroupNCCL.cpp:607] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, OpType=ALLREDUCE) ran for 600012 milliseconds before timing out.";

#[test]
fn a_crash_that_metrics_cannot_explain_is_explained_by_its_log() {
    let without = with(Vec::new());
    assert_eq!(without.root().unwrap().chain, ["replica-down", "crash-loop"]);
    let diagnosis = with(vec![log(POD, &[DEAD, OOM, NCCL, DEAD])]);
    let root = diagnosis.root().unwrap();
    assert_eq!(root.chain, ["replica-down", "gpu-oom"]);
    assert_eq!(root.verdict, Verdict::Likely);
    let told = root.evidence.iter().find(|e| e.signal == "log_gpu_oom").unwrap();
    assert_eq!((told.value, told.source, told.outcome), (Some(1.0), ValueSource::Log, Outcome::Met));
    assert_eq!(told.replicas[0].name, POD);
    assert_eq!(told.since, Some(at(moment("lost-replicas") - 299)), "its line's own time");
    assert_eq!(root.replicas.affected, [POD]);
    let ruled_out: Vec<&str> = diagnosis.ruled_out.iter().map(|cause| cause.id.as_str()).collect();
    assert!(ruled_out.contains(&"collective-failed"), "the peers' complaint follows: {ruled_out:?}");
    let read = &diagnosis.logs.as_ref().unwrap().logs[0];
    assert_eq!((read.name.as_str(), read.root.as_ref().unwrap().line), (POD, 2));
    let message = terminal(&diagnosis_message(&diagnosis, None, &Phrases::english()));
    assert!(message.contains("(in vllm-llama-8b-0's log)"), "{message}");
    assert!(message.contains("The log of vllm-llama-8b-0 says how it began"), "{message}");
    assert!(!message.contains("EngineDeadError") && !message.contains("79.10"), "no line of a log leaves: {message}");
}

#[test]
fn a_symptom_that_only_its_log_explains_is_not_left_for_another_one() {
    let mut library = library().clone();
    let entry = library.playbooks.get_mut("replica-down").unwrap();
    entry.causes.retain(|cause| cause.playbook.as_deref() == Some("gpu-oom"));
    let request = Request { screen: true, ..asked("lost-replicas", "replica-down") };
    let entered = |logs: Vec<Log>| {
        let sources = LogSources { files: logs, ..LogSources::default() };
        run(diagnose_with(&library, shared(), &request, ExtraSources { logs: Some(&sources), exporters: None }))
    };
    let without = entered(Vec::new());
    assert_ne!(without.symptom.playbook, "replica-down", "metrics explain another symptom");
    let diagnosis = entered(vec![log(POD, &[OOM, DEAD])]);
    assert_eq!(diagnosis.root().unwrap().chain, ["replica-down", "gpu-oom"]);
    assert_eq!(diagnosis.root().unwrap().verdict, Verdict::Likely);
    assert_eq!((diagnosis.symptom.playbook.as_str(), diagnosis.logs.unwrap().logs.len()), ("replica-down", 1));
}

#[test]
fn another_first_error_is_another_root() {
    let diagnosis = with(vec![log(POD, &[NCCL, OOM, DEAD])]);
    assert_eq!(diagnosis.root().unwrap().chain, ["replica-down", "crash-loop", "collective-failed"]);
    assert!(diagnosis.ruled_out.iter().any(|cause| cause.id == "gpu-oom"));
}

#[test]
fn followers_and_harmless_lines_alone_change_nothing() {
    let without = with(Vec::new());
    assert_eq!(without.logs, None);
    let prefix = "Failed to reset prefix cache because some blocks (12) are not freed yet";
    let stall = "INFO [shm_broadcast.py:495] No available shared memory broadcast block found in 60 seconds.";
    let old = format!("{} {OOM}\n", at(moment("lost-replicas") - 86_400));
    let old = Log { text: old, ..log(POD, &[]) };
    for logs in [
        vec![log(POD, &[DEAD; 40])],
        vec![log(POD, &[prefix, stall])],
        vec![log(POD, &["GET /health", "INFO: 127.0.0.1 - \"GET /metrics HTTP/1.1\" 200 OK"])],
        vec![log(POD, &[])],
        // What lies before the incident is another one's.
        vec![old],
    ] {
        let diagnosis = with(logs.clone());
        assert_eq!(answer(&diagnosis), answer(&without), "{logs:?}");
        assert_eq!(diagnosis.logs.as_ref().unwrap().logs[0].root, None);
    }
}

#[test]
fn a_traceback_has_the_time_of_the_line_above_it() {
    let moment = moment("lost-replicas");
    let (early, late) = (at(moment - 86_400), at(moment - 200));
    let told = |text: String| {
        let log = Log { text, ..log(POD, &[]) };
        log_findings(library(), &[log], at(moment - 900), at(moment), Duration::from_secs(300))
            .counts
            .contains_key("log_gpu_oom")
    };
    let error = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.";
    assert!(told(format!("{late} Traceback (most recent call last):\n{error}\n")));
    assert!(!told(format!("{early} Traceback (most recent call last):\n{error}\n")));
    assert!(told(format!("{error}\n")), "without any time it counts");
}

#[test]
fn statistics_lines_fill_what_prometheus_left_open_and_say_so() {
    let line = "(APIServer pid=12) INFO 11-20 03:00:20 [loggers.py:123] Engine 000: Avg prompt throughput: 9204.5 tokens/s, Avg generation throughput: 102.8 tokens/s, Running: 28 reqs, Waiting: 41 reqs, GPU KV cache usage: 97.4%";
    let moment = moment("lost-replicas");
    let of = |pod: &str| Log { text: format!("{} {line}\n", at(moment - 60)), ..log(pod, &[]) };
    let read = |logs: &[Log]| log_findings(library(), logs, at(moment - 900), at(moment), Duration::from_secs(300));
    let told = read(&[of("a"), of("b")]);
    assert_eq!(told.values["requests_waiting"], [("a".to_owned(), 41.0), ("b".to_owned(), 41.0)].into());
    assert!((told.values["kv_cache_usage"]["a"] - 0.974).abs() < 1e-9);
    assert!(!told.values.contains_key("prompt_token_rate"), "the line leaves cached tokens out");
    let previous = Log { previous: true, ..of("a") };
    assert_eq!(read(&[previous]).values, Default::default(), "a container that ended has no present");
}

#[test]
fn a_hostile_log_is_read_within_bounds_and_blames_nobody() {
    let moment = moment("lost-replicas");
    let read = |text: String| {
        let log = Log { text, ..log(POD, &[]) };
        log_findings(library(), &[log], at(moment - 900), at(moment), Duration::from_secs(300))
    };
    let began = Instant::now();
    // No newline at all, and an error far behind what is looked at.
    let endless = read("x".repeat(100 << 20) + OOM);
    assert_eq!((endless.counts.len(), endless.read[0].lines), (0, 1));
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    let binary: String = (0..200_000_u32).filter_map(|i| char::from_u32(i % 0x800)).collect();
    assert_eq!(read(binary).counts.len(), 0);
    // Colours are no obstacle, and times that cannot be are none.
    let coloured = format!("\u{1b}[1;36m(EngineCore_DP0 pid=1)\u{1b}[0;0m ERROR {} {OOM}\r\n", at(moment - 60));
    assert_eq!(read(coloured).counts["log_gpu_oom"][POD], 1);
    assert_eq!(read(format!("9999-99-99T99:99:99Z {OOM}\n")).counts["log_gpu_oom"][POD], 1);
    assert_eq!(read(format!("2999-12-31T23:59:59Z {OOM}\n")).counts.len(), 0, "what has not happened yet");
    let many: Vec<Log> = (0..500).map(|i| log(&format!("pod-{i}"), &[DEAD])).collect();
    let told = log_findings(library(), &many, at(moment - 900), at(moment), Duration::from_secs(300));
    assert!(told.read.len() <= 64);
}

#[test]
fn a_file_is_evidence_on_a_laptop() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join(format!("{POD}.log"));
    std::fs::write(&file, log(POD, &[OOM, DEAD]).text).unwrap();
    let moment = at(moment("lost-replicas")).to_string();
    let output = Command::new(BINARY)
        .args(["diagnose", "--playbook", "replica-down", "--label", "namespace=lost-replicas", "--at", &moment])
        .args(["--prometheus", &shared().url, "--output", "json", "--logs"])
        .arg(&file)
        .output()
        .unwrap();
    let told: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&output.stderr)));
    assert_eq!(told["causes"][0]["id"], "gpu-oom", "{told:#}");
    assert_eq!(told["causes"][0]["replicas"]["affected"][0], POD);
    let nowhere = Command::new(BINARY)
        .args(["diagnose", "--playbook", "replica-down", "--prometheus", &shared().url, "--logs", "/nowhere/x.log"])
        .output()
        .unwrap();
    assert!(String::from_utf8(nowhere.stderr).unwrap().contains("cannot read the log /nowhere/x.log"));
    assert_eq!(nowhere.status.code(), Some(2));
}

#[test]
fn gateways_errors_are_told_and_those_that_nobody_knows_are_counted_and_quoted() {
    let read = |text: &str| LogReader::new(&Patterns::new(library().logs.values())).text(text);
    let refused = "14:37:51 - LiteLLM Proxy:ERROR: proxy_server.py:7096 - litellm.proxy.proxy_server.async_data_generator(): \
                   Exception occured - litellm.APIError: APIError: OpenrouterException - Provider returned error\n";
    let odd = "10:09:50 - LiteLLM Proxy:ERROR: x.py:876 - flux capacitor 17 is empty\n";
    let report = read(&format!("{refused}{refused}{odd}{}", odd.replace("17", "18")));
    assert_eq!(report.engine.as_deref(), Some("litellm"));
    assert_eq!(report.findings.iter().map(|f| (f.id.as_str(), f.count)).collect::<Vec<_>>(), [("backend-errors", 2)]);
    assert_eq!((report.unknown.count, report.unknown.lines.len(), report.unknown.lines[0].line), (2, 1, 3));
    let dynamo = "2025-05-30T00:35:01.153Z ERROR chat_completions: dynamo_llm::http::service::openai: Internal server error: \
                  Failed to generate completions: no instances found for endpoint \"instances/dynamo/x\"";
    let report = read(dynamo);
    assert_eq!((report.engine.as_deref(), report.findings[0].id.as_str()), (Some("dynamo"), "no-instances"));
}

#[test]
fn signal_9_alone_is_no_lack_of_host_memory() {
    let line = "Subprocess scheduler (pid=77) crashed with exit code -9. Triggering SIGQUIT for cleanup...";
    let report = LogReader::new(&Patterns::new([&library().logs["sglang"]])).text(line);
    let root = report.root().unwrap();
    assert_eq!((root.id.as_str(), &root.cause, &root.tells), ("subprocess-killed", &None, &None));
}

#[test]
fn a_long_file_is_read_whole_and_draws_no_progress_into_a_pipe() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("long.log");
    let filler = "(APIServer pid=12) INFO: 10.0.0.7:4000 - POST /v1/chat/completions 200 OK\n".repeat(20_000);
    std::fs::write(&file, format!("{DEATH}{filler}{}", DEATH.lines().last().unwrap())).unwrap();
    let output = Command::new(BINARY).args(["logs", "--output", "json"]).arg(&file).output().unwrap();
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&told["logs"][0]["lines"], &told["logs"][0]["cut"]), (&20_009.into(), &false.into()));
    assert_eq!(told["logs"][0]["first_root"], "gpu-oom");
}

#[test]
fn the_start_of_an_engine_is_told_although_its_long_log_is_cut() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("llama-0.log");
    let filler = "(APIServer pid=12) INFO: 10.0.0.7:4000 - POST /v1/chat/completions 200 OK\n".repeat(20_000);
    std::fs::write(&file, format!("{DEATH}{filler}{DEATH}")).unwrap();
    let (logs, _) = files::read(&[file], 64 << 10);
    let report = LogReader::new(&Patterns::new(library().logs.values())).text(&logs[0].text);
    let size = report.startup.iter().find(|n| n.name == "kv_cache_capacity_tokens").unwrap();
    assert_eq!((size.last, size.count), (162_704.0, 2), "one of the start, one of the end");
    assert_eq!(report.unknown.count, 0, "the mark is no error");
}

#[test]
fn a_log_of_signs_alone_is_a_warning_that_names_the_most_frequent_one() {
    let sign = "litellm.Timeout: APITimeoutError - Request timed out. Error_str: Request timed out.\n";
    let other = "litellm.RateLimitError: RateLimitError: OpenAIException - Rate limit reached for requests\n";
    let report = LogReader::new(&Patterns::new(library().logs.values())).text(&format!("{other}{sign}{sign}"));
    let told = NamedLogAnalysis { name: "x".to_owned(), pod: None, container: None, cut: false, report };
    let message = render::logs(&[told], &[], &Phrases::english());
    assert_eq!(message.tone, Tone::Warning);
    assert!(message.headline.contains("a backend does not answer in time"), "{}", message.headline);
}

#[test]
fn a_secret_of_a_log_is_printed_only_when_it_is_asked_for() {
    let secret = "nvapi-NotARealKey_NotARealKey-00";
    let log = DEATH.replace("CUDA out of memory.", &format!("CUDA out of memory. key {secret} at \\n{secret}"));
    for output in [&["--output", "json"][..], &[]] {
        let told =
            |arguments: &[&str]| String::from_utf8(read(log.as_bytes(), &[output, arguments].concat()).stdout).unwrap();
        let (clean, raw) = (told(&[]), told(&["--raw"]));
        assert!(raw.contains(secret), "{raw}");
        assert!(!clean.contains(secret) && clean.contains("[redacted: nvidia-key]"), "{clean}");
    }
}

//! Logs whose first error is the answer, known or not, in many dresses; `tests/fixtures/logs`.

use knowledge::playbook::LogRank;
use logs::{LogEvent, LogReader, NamedLogAnalysis, Patterns};
use message::Tone;
use render::{Phrases, logs, terminal};

use crate::harness::library;

fn read(name: &str) -> NamedLogAnalysis {
    let path = format!("{}/tests/fixtures/logs/{name}.log", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let report = LogReader::new(&Patterns::new(library().logs.values())).text(&text);
    NamedLogAnalysis { name: format!("{name}.log"), pod: None, container: None, cut: false, report }
}

/// The headline and the whole message.
fn told(read: &[NamedLogAnalysis]) -> (String, String) {
    let message = logs(read, &[], &Phrases::english());
    (message.headline.clone(), terminal(&message))
}

#[test]
fn the_first_error_of_a_log_is_its_headline_known_or_not() {
    for (name, headline) in [
        ("sglang-no-port", "sglang · KV transfer fails because no local port is free"),
        ("tgi-oom", "tgi · the GPU ran out of memory"),
        (
            "sglang-exception-group",
            "sglang · a request failed between the API and the engine: KeyError: 'blue' in openai/serving_chat.py:402",
        ),
        ("litellm-malformed-tool-call", "litellm · requests cannot be converted for their backend"),
        (
            "vllm-assertion",
            "vllm · the part that moves KV blocks out of the engine failed: AssertionError in \
             offloading/scheduler.py:734",
        ),
        ("vllm-store-failed-then-hang", "vllm · KV blocks cannot be written to or read from shared storage"),
        ("vllm-broadcast-timeout", "vllm · the GPUs cannot talk to each other"),
        ("kernel-reset-required", "host · the driver says that the GPU needs a reset"),
        ("vllm-device-busy", "vllm · the GPU cannot be used"),
        ("kernel-xid-154", "host · the driver says that the node must be rebooted"),
        ("vllm-port-of-service", "vllm · a Kubernetes Service named vllm sets the engine's own variable"),
        ("vllm-kernel-image-prefixed", "vllm · the image has no code for this GPU"),
        (
            "vllm-chained-in-compose",
            "vllm · the engine's own code met a state that it does not expect: IndexError: index 5 is out \
             of bounds for dimension 0 with size 4 in sample/rejection_sampler.py:211",
        ),
        (
            "sglang-assertion-in-cri",
            "sglang · the part that moves KV blocks out of the engine failed: AssertionError: host value of \
             node 17 is set in mem_cache/hiradix_cache.py:402",
        ),
        ("triton-model-in-docker-json", "triton · a model of the repository cannot be loaded"),
        (
            "endpoint-picker-zap",
            "router · Reconciler error: resourceVersion 17 is too old for watch; nothing is known about it yet",
        ),
        ("llamacpp-missing-tensor", "llamacpp · the model file cannot be read"),
        ("describe-oom-killed", "vllm · a container went over its memory limit and was killed"),
        ("ray-worker-disk", "vllm · the storage below a file does not answer"),
        (
            "dynamo-panic",
            "dynamo · a thread of a program written in Rust panicked: thread 'tokio-runtime-worker' panicked at \
             lib/llm/src/kv_router/indexer.rs:412:17: called `Option::unwrap()` on a `None` value",
        ),
        (
            "kernel-xid-173",
            "host · NVRM: Xid (PCI:0000:3b:00): 173, pid=1234, name=python3, Ch 00000010; nothing is known about it yet",
        ),
        (
            "vllm-peer-lost-then-timeout",
            "vllm · peer access between ranks 1 and 3 was lost; nothing is known about it yet; then a worker did not answer",
        ),
        ("stern-go-panic", "kubernetes · a program written in Go ended by a fault of its own"),
        ("vllm-ucx-no-transport", "vllm · UCX finds no network that both sides have"),
        (
            "trtllm-pool",
            "trtllm · the executor's loop met a state that it does not expect: ValueError: no pool of 3 \
             fits in pyexecutor/_util.py:410",
        ),
        (
            "vllm-worker-division",
            "vllm · the layers of experts failed: ZeroDivisionError: integer modulo by zero in \
             fused_moe/fused_moe.py:1440",
        ),
        (
            "sglang-in-journald",
            "sglang · the attention backend failed: RuntimeError: plan of 33 pages is larger than the \
             workspace in attention/flashinfer_backend.py:812",
        ),
        (
            "tgi-model-type",
            "tgi · ValueError: Unsupported model type zebra in models/__init__.py:812; nothing is known about it yet",
        ),
        ("events-secret-missing", "kubernetes · a Secret or ConfigMap of the pod is missing"),
        (
            "vllm-in-cloud-json",
            "vllm · the model's configuration or tokenizer cannot be read: ValueError: vocabulary of 32000 has no pad in \
             transformers_utils/tokenizer.py:190",
        ),
        ("amd-page-fault", "amd · a kernel of the engine went wrong"),
        (
            "router-radix-tree",
            "router · smg::policies::cache_aware: radix tree of model \"m\" lost 3 tenants; nothing is known about it \
             yet; then the router puts an engine aside",
        ),
        ("litellm-not-subscriptable", "litellm · requests cannot be converted for their backend"),
        (
            "vllm-nccl-warn",
            "vllm · gpu-f:91:207 [3] transport/nvls.cc:244 NCCL WARN Cuda failure 999 'unknown error'; nothing is known \
             about it yet; then the GPUs cannot talk to each other",
        ),
    ] {
        assert_eq!(told(&[read(name)]).0, headline, "{name}");
    }
}

#[test]
fn a_log_of_consequences_alone_names_no_cause() {
    let consequences = read("vllm-consequences");
    assert_eq!((consequences.report.unknown.count, consequences.report.story()), (0, Vec::new()));
    let (headline, _) = told(&[consequences]);
    assert!(headline.contains("only consequences of a failure stand in this log"), "{headline}");
}

#[test]
fn each_error_has_its_own_line_s_time() {
    for (name, when) in [
        ("vllm-broadcast-timeout", "11-20 16:31:16"),
        ("vllm-store-failed-then-hang", "2026-11-20 00:35:28"),
        ("vllm-assertion", "11-20 18:56:31"),
        ("kernel-xid-154", "Nov 20 11:43:14"),
        ("litellm-malformed-tool-call", "07:01:02"),
        ("trtllm-pool", "11/21/2026-18:00:09"),
        ("vllm-ucx-no-transport", "2025-11-21 17:00:00"),
    ] {
        let log = read(name);
        assert_eq!(
            log.report.first_error().and_then(|event| event.when().map(str::to_owned)).as_deref(),
            Some(when),
            "{name}"
        );
    }
}

#[test]
fn the_flags_of_another_engine_are_in_no_remedy() {
    let (_, tgi) = told(&[read("tgi-oom")]);
    assert!(tgi.contains("--max-batch-prefill-tokens") && !tgi.contains("--mem-fraction-static"), "{tgi}");
    let report = LogReader::new(&Patterns::new(library().logs.values()))
        .text("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB\n");
    assert_eq!(report.engine, None, "the line alone tells no engine");
    assert!(report.findings.iter().all(|found| !found.action.iter().any(|action| action.contains("--"))), "{report:?}");
    // A step that is the same for all of them stays, and the line is none that nobody knows.
    let taken = "ERROR:    [Errno 98] error while attempting to bind on address ('::', 8080): address already in use";
    let report = LogReader::new(&Patterns::new(library().logs.values())).text(taken);
    assert!(report.findings[0].action.is_some() && report.unknown.count == 0, "{report:?}");
}

#[test]
fn several_logs_are_told_in_the_order_of_their_first_errors() {
    let (headline, text) = told(&[read("vllm-device-busy"), read("kernel-reset-required")]);
    assert_eq!(headline, "kernel-reset-required.log · the driver says that the GPU needs a reset");
    let order = text.split("The first error of each log, in order").nth(1).unwrap_or_else(|| panic!("{text}"));
    let at = |name: &str| order.find(name).unwrap_or_else(|| panic!("{name}: {text}"));
    assert!(at("kernel-reset-required.log") < at("vllm-device-busy.log"), "the engine's error follows: {text}");
}

#[test]
fn a_log_with_unknown_errors_never_counts_as_clean() {
    for line in [
        "[2026-11-20 08:00:24 TP0] Loading the draft failed for layer 3",
        "[2026-11-20 08:00:24,014 E 391 391] (raylet) node_manager.cc:123: lease table is inconsistent",
        "NVRM: GPU 0000:3b:00.0: flux calibration failed",
        "time=\"2026-11-20T08:00:24Z\" level=error msg=\"lost the shard map\" err=\"eof\"",
        "RuntimeError: something nobody has seen",
        "  Warning  FluxCapacitorEmpty  2m  kubelet  the capacitor of llama-0 is empty",
    ] {
        let log = NamedLogAnalysis {
            report: LogReader::new(&Patterns::new(library().logs.values())).text(line),
            ..read("kernel-xid-154")
        };
        let message = logs(&[log], &[], &Phrases::english());
        assert_eq!(message.tone, Tone::Warning, "{line}: {}", message.headline);
        assert!(message.headline.contains("nothing is known about it yet"), "{line}: {}", message.headline);
    }
}

/// The story of a log, as ids of findings and texts of errors that none explains.
fn story(text: &str) -> (Option<String>, Vec<String>) {
    let read = LogReader::new(&Patterns::new(library().logs.values())).text(text);
    let told = read.story().into_iter().map(|event| match event {
        LogEvent::Known(found) => found.id.clone(),
        LogEvent::Unknown(error) => error.said.clone(),
    });
    (read.engine.clone(), told.collect())
}

#[test]
fn words_of_another_engine_hide_no_error_before_the_engine_is_known() {
    let error = "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)";
    let sglang = "[2026-11-21 18:00:01] Received sigquit from a child process. It usually means the child failed.";
    assert_eq!(story(error), (Some("litellm".to_owned()), vec!["request-not-convertible".to_owned()]));
    let server = "[2026-11-21 18:00:01] server_args=ServerArgs(model_path='/models/m') of sglang";
    assert_eq!(story(&format!("{error}\n{sglang}\n{server}\n")).1, [error]);
    // What the engine's own file explains stays explained.
    let own = "ERROR: Unknown quantization method: bar";
    let vllm = "INFO 08-20 09:33:01 [vllm/entrypoints/api_server.py:1787] version 0.10.1 of vllm";
    let text = format!("{error}\n{own}\n{vllm}\n");
    let analysis = LogReader::new(&Patterns::new(library().logs.values())).text(&text);
    assert_eq!((analysis.unknown.count, analysis.findings[0].id.as_str()), (1, "quantisation-refused"));
}

#[test]
fn what_an_engine_says_through_its_launcher_is_explained() {
    let died =
        "(ServeReplica:default:M pid=8) vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.";
    assert_eq!(story(died), (Some("vllm".to_owned()), Vec::new()));
}

#[test]
fn an_event_of_the_cluster_is_not_read_as_words_of_a_router() {
    let event = "  Warning  Unhealthy  2m  kubelet  Readiness probe failed: dial tcp 10.0.0.7:8000: connect: connection refused";
    assert_eq!(story(event), (Some("kubernetes".to_owned()), vec!["readiness-fails".to_owned()]));
}

#[test]
fn a_line_of_code_in_a_traceback_is_no_message() {
    let text = "(EngineCore pid=9) Traceback (most recent call last):\n\
                (EngineCore pid=9)   File \"/x/plugin/kv.py\", line 7, in check\n\
                (EngineCore pid=9)     raise ValueError(\"No available memory for the cache blocks.\")\n\
                (EngineCore pid=9) ValueError: lost\n";
    assert_eq!(story(text).1, ["ValueError: lost"]);
}

#[test]
fn a_reason_below_an_exception_explains_it() {
    let text = "(APIServer pid=7) pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig\n\
                (APIServer pid=7)   Value error, no such dtype [type=value_error, input_value=ArgsKwargs(())]\n\
                (APIServer pid=7) INFO 08-20 09:33:01 [api_server.py:1787] vLLM API server version 0.10.1\n";
    assert_eq!(story(text).1, ["settings-refused"]);
}

#[test]
fn a_sign_alone_is_told_with_its_line_its_meaning_and_its_step() {
    let line = "15:02:00 - LiteLLM Proxy:ERROR: a.py:7 - litellm.proxy.a(): Exception occured - No connected db.";
    let report = LogReader::new(&Patterns::new(library().logs.values())).text(line);
    let read = NamedLogAnalysis { name: "a.log".to_owned(), pod: None, container: None, cut: false, report };
    let (headline, text) = told(&[read]);
    assert_eq!(headline, "litellm · the proxy has no database");
    for part in ["`15:02:00 - LiteLLM Proxy:ERROR: a.py:7", "it knows no key", "`GET /health/readiness`"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn colours_that_lost_their_escape_character_are_no_words() {
    let line = "[2m2026-11-21T18:00:01Z[0m [31mERROR[0m [2mdynamo_runtime::x[0m[2m:[0m boom of [5m]";
    assert_eq!(story(line), (Some("dynamo".to_owned()), vec!["dynamo_runtime::x: boom of [5m]".to_owned()]));
    assert_eq!(story("[2m2026-11-21T18:00:01Z[0m [[31mERROR[0m] dynamo_runtime::x: boom").1.len(), 1);
    let query = "(EngineCore pid=9) ERROR 08-20 09:33:01 [a.py:7] no data for rate(x[5m])";
    assert_eq!(story(query).1, ["no data for rate(x[5m])"]);
}

#[test]
fn a_warning_that_quotes_an_exception_tells_where_only_consequences_follow() {
    let warning = "(EngineCore pid=9) WARNING 08-20 09:33:01 [i.py:2] Failed to load plugin: OddError('no symbol q')";
    let end = "(EngineCore pid=9) ERROR 08-20 09:33:09 [core.py:966] EngineCore failed to start.";
    let said = "Failed to load plugin: OddError('no symbol q')";
    assert_eq!(story(&format!("{warning}\n{end}\n")).1, [said]);
    let own = "(EngineCore pid=9) ERROR 08-20 09:33:05 [core.py:7] StrangeError: boom";
    assert_eq!(story(&format!("{warning}\n{own}\n{end}\n")).1, ["StrangeError: boom"]);
    assert_eq!(story(&format!("{warning}\n")).1, [""; 0], "a warning alone is no failure");
    // The same words as an error count.
    let error = warning.replace("WARNING", "ERROR");
    assert_eq!(story(&format!("{warning}\n{error}\n")).1, [said]);
    let information = warning.replace("WARNING", "INFO");
    assert_eq!(story(&format!("{information}\n{end}\n")).1, [""; 0], "information is no suspect");
}

#[test]
fn a_warning_that_a_program_has_failed_is_an_error() {
    let line = "[2026-02-05T07:23:24Z][inference][W] Backend running m exited with error: exit status 0xc0000135";
    assert_eq!(story(line).1, ["Backend running m exited with error: exit status 0xc0000135"]);
    for calm in [
        "[2026-02-05T07:23:24Z][inference][W] worker exited with code 0",
        "WARNING 08-20 09:33:01 [a.py:7] sidecar exited with code 143",
        "WARNING 08-20 09:33:01 [a.py:7] probe exited with code 1, falling back to Triton",
        "INFO 08-20 09:33:01 [logger.py:7] Received request a: prompt: 'Why does my pod exit with code 1?'",
    ] {
        assert_eq!(story(calm).1, [""; 0], "{calm}");
    }
}

#[test]
fn what_follows_from_a_finding_above_is_its_consequence() {
    let cause = "E0120 08:28:09.4 20 model_lifecycle.cc:654] \"failed to load 'm' version 1: Invalid argument: unable to find \
                 backend library for backend 'b', try specifying runtime on the model configuration.\"";
    let then = "I0120 08:28:09.5 20 model_lifecycle.cc:789] \"failed to load 'm'\"";
    let of = |text: &str| LogReader::new(&Patterns::new(library().logs.values())).text(text);
    let ranks = |text: &str| of(text).findings.iter().map(|one| (one.id.clone(), one.rank)).collect::<Vec<_>>();
    let missing = ("backend-missing".to_owned(), LogRank::Root);
    let not_loaded = |rank| ("model-not-loaded".to_owned(), rank);
    assert_eq!(ranks(&format!("{cause}\n{then}\n")), [missing, not_loaded(LogRank::Secondary)]);
    assert_eq!(ranks(then), [not_loaded(LogRank::Root)], "alone it is the root");
    let next_day = then.replace("I0120", "I0121");
    assert_eq!(ranks(&format!("{cause}\n{next_day}\n"))[1], not_loaded(LogRank::Root), "another fault");
}

#[test]
fn the_error_that_names_the_peer_is_told_instead_of_the_bare_refusal() {
    let text = |outer: &str| {
        format!(
            "Traceback (most recent call last):\n  File \"/x/site-packages/lib/wire.py\", line 8, in connect\n    dial()\n\
             ConnectionRefusedError: [Errno 111] Connection refused\n\nDuring handling of the above exception, another \
             exception occurred:\n\nTraceback (most recent call last):\n  File \"/x/site-packages/lib/api.py\", line 9, in \
             call\n    raise\n{outer}\n"
        )
    };
    let outer = "lib.errors.Unavailable: no store at 10.1.20.14:8100";
    assert_eq!(story(&text(outer)).1, [outer]);
    let bare = "ConnectionRefusedError: [Errno 111] Connection refused";
    assert_eq!(story(&text("lib.errors.Unavailable: the call failed")).1, [bare]);
}

#[test]
fn an_error_of_a_library_belongs_to_the_part_of_the_engine_that_called_it() {
    let log = |caller: &str| {
        format!(
            "[2026-05-07 19:33:02] server_args=ServerArgs(model_path='x')\n[2026-05-07 19:34:13 TP1] Scheduler hit an \
             exception: Traceback (most recent call last):\n  File \"{caller}\", line 91, in step\n    step()\n  \
             File \"/usr/lib/python3/dist-packages/odd_library/core.py\", line 341, in step\n    raise\nOddError: odd\n"
        )
    };
    assert_eq!(story(&log("/sgl-workspace/sglang/python/sglang/srt/constrained/base.py")).1, ["grammar-failed"]);
    assert_eq!(story(&log("/opt/own/part.py")).1, ["OddError: odd"]);
}

#[test]
fn the_line_that_announces_an_exception_is_no_error_of_its_own() {
    let error = "[12/05/2025-06:23:18] [TRT-LLM] [RANK 7] [E] Error in odd loop: vector::_M_default_append";
    let raised = "Exception in thread Thread-3 (_event_loop_wrapper):\nTraceback (most recent call last):\n  File \
                  \"/usr/lib/python3/dist-packages/tensorrt_llm/_torch/pyexecutor/py_executor.py\", line 9, in loop\n    \
                  step()\nValueError: vector::_M_default_append";
    assert_eq!(story(&format!("{error}\n{raised}\n")).1, ["step-failed"]);
    let other = error.replace("vector::_M_default_append", "boom");
    assert_eq!(story(&format!("{other}\n{raised}\n")).1, ["Error in odd loop: boom", "step-failed"]);
}

#[test]
fn a_json_line_has_the_time_of_its_own_key_wherever_it_stands() {
    let line = |message: &str, at: &str| {
        format!("{{\"message\": \"{message}\", \"level\": \"ERROR\", \"timestamp\": \"{at}\"}}")
    };
    let text =
        [line("begun at 2026-08-28T09:00:00", "2026-08-28T10:00:01.12"), line(&"x".repeat(400), "2026-08-28T10:52:10")];
    let read = LogReader::new(&Patterns::new(library().logs.values())).text(&text.join("\n"));
    let times: Vec<_> = read.unknown.lines.iter().filter_map(|one| one.first.as_deref()).collect();
    assert_eq!(times, ["2026-08-28T10:00:01", "2026-08-28T10:52:10"]);
}

#[test]
fn requests_that_the_server_fails_are_a_failure_and_one_of_them_is_none() {
    let line = "INFO:     10.65.86.10:43264 - \"POST /v1/chat/completions HTTP/1.1\" 500 Internal Server Error\n";
    let read = |text: &str| LogReader::new(&Patterns::new(library().logs.values())).text(text);
    let failing = read(&line.repeat(3));
    assert!(failing.tells_of_failure() && failing.findings[0].id == "server-errors", "{:?}", failing.findings);
    assert!(!read(line).tells_of_failure());
}

#[test]
fn an_assertion_without_a_message_is_told_with_its_code_and_an_empty_message_with_the_next_lines() {
    let raised = |error: &str| {
        format!(
            "Traceback (most recent call last):\n  File \"/opt/own/part.py\", line 91, in step\n    assert left <= self.room\n{error}\n"
        )
    };
    assert_eq!(story(&raised("AssertionError")).1, ["AssertionError: assert left <= self.room"]);
    assert_eq!(story(&raised("AssertionError: too many")).1, ["AssertionError: too many"]);
    let below = raised("ImportError:\n[loader] CRITICAL: nothing could be loaded\n\nTried:\n1. here");
    assert_eq!(story(&below).1, ["ImportError: nothing could be loaded"]);
    let known = format!("{below}\n- ImportError: libnvrtc.so.12: cannot open shared object file: No such file\n");
    assert_eq!(story(&known).1, ["library-missing"]);
}

#[test]
fn a_writer_may_be_named_with_a_comma() {
    let line = |text: &str| {
        format!("(vllm-test, pid=2150) (EngineCore_0 pid=3966) ERROR 08-21 07:45:43 [core.py:700] {text}\n")
    };
    let text = ["Traceback (most recent call last):", "  File \"/opt/own/part.py\", line 9, in step", "OddError: odd"];
    assert_eq!(story(&text.map(line).concat()).1, ["OddError: odd"]);
}

#[test]
fn printed_advice_explains_nothing_and_is_no_error() {
    let advice = "Possible solutions:\n1. set --mem-fraction-static to a smaller value (e.g., 0.8 or 0.7)\n2. RuntimeError: CUDA error\n";
    let log = format!(
        "[2026-05-07 19:33:02] server_args=ServerArgs(model_path='x')\nTraceback (most recent call last):\n  File \
         \"/opt/own/part.py\", line 9, in step\n    step()\nException: Capture cuda graph failed: odd peer\n{advice}"
    );
    assert_eq!(story(&log).1, ["Exception: Capture cuda graph failed: odd peer"]);
    assert!(story(advice).1.is_empty());
}

#[test]
fn a_known_warning_just_before_an_unknown_error_is_its_reason() {
    let log = |seconds: u8| {
        format!(
            "2026-05-07 10:00:00 WARNING libodd.so.1: cannot open shared object file: No such file or directory\n\
             2026-05-07 10:00:{seconds:02} ERROR no strategy fits\n"
        )
    };
    assert_eq!(story(&log(1)).1, ["library-missing", "no strategy fits"]);
    assert_eq!(story(&log(30)).1, ["no strategy fits"]);
}

#[test]
fn an_error_while_modules_are_loaded_is_not_that_of_the_part_that_is_loaded() {
    let log = |function: &str| {
        format!(
            "Traceback (most recent call last):\n  File \"/usr/lib/python3/site-packages/torch/_inductor/codecache.py\", \
             line 9, in {function}\n    step()\nOddError: odd\n"
        )
    };
    assert_eq!(story(&log("compile")).1, ["compilation-failed"]);
    assert_eq!(story(&log("<module>")).1, ["OddError: odd"]);
}

#[test]
fn of_words_that_several_engines_have_the_one_that_names_itself_decides() {
    let error = "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB";
    let read = |text: &str| LogReader::new(&Patterns::new(library().logs.values())).text(text);
    let named = read(&format!("[09/17/2025-21:22:40] [TRT-LLM] [I] loading\n{error}\n"));
    assert_eq!(named.engine.as_deref(), Some("trtllm"));
    assert_eq!(named.findings.iter().map(|found| found.id.as_str()).collect::<Vec<_>>(), ["gpu-oom"]);
    assert_eq!(read(error).engine, None, "nothing tells the engine");
}

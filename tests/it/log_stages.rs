//! The stages of a process in its log: what it outlived, and what follows from a stop signal, is not why it failed.

use knowledge::playbook::{LogRank, LogStage, load};
use logs::{LogAnalysis, LogReader, Patterns};

const START: &str = "INFO 08-20 09:33:01 [api_server.py:1787] vLLM API server version 0.10.1";
const READY: &str = "(APIServer pid=7) INFO:     Application startup complete.";
const SERVES: &str = "(APIServer pid=7) INFO 08-20 09:40:49 [loggers.py:123] Engine 000: Avg prompt throughput: 1204.5 tokens/s, Avg generation throughput: 312.8 tokens/s, Running: 28 reqs, Waiting: 0 reqs";
const STOP: &str =
    "(EngineCore pid=9) INFO 08-20 21:34:51 [core.py:1214] [shutdown] EngineCore: trigger received signal=SIGTERM";
const DEAD: &str = "(APIServer pid=7) ERROR 08-20 21:34:51 [async_llm.py:704] vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause.";
const NO_NIXL: &str = "(APIServer pid=7) WARNING 08-20 09:33:05 [nixl_utils.py:34] NIXL is not available";
const OOM: &str = "(EngineCore pid=9) ERROR 08-20 09:35:28 [core.py:1108] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.";
const UNKNOWN: &str = "E external/local_xla/cuda_fft.cc:467] Unable to register cuFFT factory";

fn read(lines: &[&str]) -> LogAnalysis {
    let library = load(None).unwrap();
    LogReader::new(&Patterns::new(library.logs.values())).text(&lines.join("\n"))
}

/// The root error and the unknown first error.
fn told(log: &LogAnalysis) -> (Option<&str>, Option<&str>) {
    (log.root().map(|root| root.id.as_str()), log.unknown.began.as_ref().map(|began| began.said.as_str()))
}

#[test]
fn what_an_engine_outlives_while_it_starts_is_not_why_it_failed() {
    for lines in [[UNKNOWN, START, NO_NIXL, READY], [START, UNKNOWN, NO_NIXL, SERVES]] {
        let log = read(&lines);
        assert_eq!((told(&log), log.stage), ((None, None), Some(LogStage::Serving)), "{lines:?}");
        // It is still quoted, and the warning is listed as harmless.
        assert!(log.unknown.count == 1 && log.unknown.lines[0].harmless, "{lines:?}");
        assert!(log.findings.iter().all(|found| found.rank == LogRank::Benign), "{lines:?}");
    }
    let log = read(&[UNKNOWN, START, NO_NIXL]);
    assert_eq!(told(&log).0, Some("nixl-missing"), "without a line that says that it serves, it may be the reason");
}

#[test]
fn an_error_while_it_serves_counts_although_the_same_one_did_no_harm_before() {
    let odd = "(EngineCore pid=9) ERROR 08-20 09:34:00 [x.py:1] odd";
    let log = read(&[START, odd, READY, SERVES, odd, OOM]);
    assert_eq!(told(&log), (Some("gpu-oom"), Some("odd")));
    assert_eq!((log.root().unwrap().line, log.unknown.began.as_ref().unwrap().line), (6, 5), "not the first one");
}

#[test]
fn an_error_while_it_serves_is_excused_by_nothing_that_it_writes_later() {
    let odd = "(EngineCore pid=9) ERROR 08-20 09:44:00 [x.py:1] odd";
    for lines in
        [vec![START, READY, odd, STOP, SERVES, STOP], vec![odd, SERVES], vec![START, SERVES, odd, SERVES, READY]]
    {
        assert_eq!(told(&read(&lines)).1, Some("odd"), "{lines:?}");
    }
    let log = read(&[START, READY, odd, STOP, odd, READY]);
    assert_eq!(
        log.unknown.began.as_ref().map(|began| began.line),
        Some(3),
        "of the next process only its own start is"
    );
    assert_eq!(told(&read(&["ERROR 07-28 15:07:22 [core.py:632]     no place left"])).1, Some("no place left"));
}

#[test]
fn a_process_that_starts_anew_does_not_excuse_the_one_before() {
    let odd = "(EngineCore pid=9) ERROR 08-20 09:44:00 [x.py:1] odd";
    for before in
        [vec![START, OOM], vec![START, READY, SERVES, OOM], [vec![START], vec![SERVES; 60], vec![OOM]].concat()]
    {
        assert_eq!(told(&read(&[before.clone(), vec![START, READY]].concat())).0, Some("gpu-oom"), "{before:?}");
    }
    let args = "INFO 08-20 09:33:02 [utils.py:328] non-default args: {'model': 'm'}";
    let again = [START, args, odd, START, args, READY, SERVES];
    assert_eq!(told(&read(&again)).1, Some("odd"), "a crash and a restart within a few lines");
    let access = "(APIServer pid=7) INFO:     10.0.0.1:1 - \"POST /v1/chat/completions HTTP/1.1\" 200 OK";
    assert_eq!(told(&read(&[access, odd, START, READY])).1, Some("odd"), "a log that begins while another one serves");
}

#[test]
fn what_the_kernel_writes_is_outlived_by_no_engine() {
    let xid = "NVRM: Xid (PCI:0000:44:00): 79, GPU has fallen off the bus";
    assert_eq!(told(&read(&[START, xid, READY])).0, Some("xid-critical"));
}

#[test]
fn what_follows_a_stop_signal_is_not_the_reason() {
    let odd =
        "(APIServer pid=7) ERROR 08-20 21:34:52 [x.py:1] RuntimeError: cannot schedule new futures after shutdown";
    let log = read(&[START, READY, SERVES, STOP, DEAD, odd, OOM]);
    assert_eq!((told(&log), log.stage), ((None, None), Some(LogStage::Stopping)));
    let [told_first] = log.story()[..] else { panic!("{:?}", log.story()) };
    assert_eq!(told_first.line(), 4, "the signal is what it tells");
    assert!(
        read(&[START, READY, SERVES, odd, STOP, DEAD]).unknown.began.is_some(),
        "what stands before the signal counts"
    );
    let later = odd.replace("08-20", "08-21");
    assert!(read(&[START, READY, STOP, &later]).unknown.began.is_some(), "no engine drains for a day");
    let xid = "NVRM: Xid (PCI:0000:44:00): 79, GPU has fallen off the bus";
    let ecc = "ERROR 08-20 21:34:53 [x.py:1] torch.AcceleratorError: CUDA error: uncorrectable ECC error encountered";
    for (line, expected) in [(xid, "xid-critical"), (ecc, "memory-fault")] {
        assert_eq!(told(&read(&[START, READY, STOP, line])).0, Some(expected), "no signal explains the hardware");
    }
    let prompt =
        "INFO 08-20 21:34:00 [logger.py:40] Received request 1: prompt: 'why (pid=1) KeyboardInterrupt: terminated?'";
    assert_eq!(told(&read(&[START, READY, prompt, OOM])).0, Some("gpu-oom"), "what a client writes stops nothing");
}

#[test]
fn an_orderly_end_excuses_no_error() {
    let end = "INFO:     Waiting for application shutdown.";
    let dead = read(&[START, READY, SERVES, DEAD, end]);
    assert!(dead.story().is_empty(), "the engine is gone, and nobody asked it to end: {:?}", dead.story());
    let litellm =
        ["INFO:     Application startup complete.", end, "18:14:52 - LiteLLM Proxy:ERROR: proxy.py:1 - bad config"];
    assert_eq!(told(&read(&litellm)).1, Some("bad config"), "a restart that fails");
    assert_eq!(told(&read(&[START, READY, end, OOM])).0, Some("gpu-oom"));
    let clean = read(&[START, READY, SERVES, end, "ConnectionResetError: [Errno 104] Connection reset by peer"]);
    assert!(clean.story().is_empty() && clean.findings.iter().all(|found| found.rank == LogRank::Benign), "{clean:?}");
}

#[test]
fn a_server_that_serves_may_lack_a_model() {
    let lines = [
        "I1216 02:12:33.621768 179 pinned_memory_manager.cc:277] \"Pinned memory pool is created at '0x7f'\"",
        "E1216 02:12:50.000000 179 model_lifecycle.cc:642] failed to load 'llama' version 1: Internal: no such file",
        "I1216 02:12:51.000000 179 grpc_server.cc:2463] \"Started GRPCInferenceService at 0.0.0.0:8001\"",
    ];
    assert_eq!(told(&read(&lines)).0, Some("model-not-loaded"));
}

#[test]
fn a_log_that_ends_before_the_engine_serves_says_so() {
    let log = read(&[START, "(EngineCore pid=9) INFO 08-20 09:33:30 [x.py:1] Loading weights took 6.11 seconds"]);
    assert_eq!((told(&log), log.stage), ((None, None), Some(LogStage::Starting)));
    let named = logs::NamedLogAnalysis { name: "a.log".into(), pod: None, container: None, cut: false, report: log };
    let message = render::logs(&[named], &[], &render::Phrases::english());
    assert!(message.headline.contains("the log ends before the engine serves"), "{}", message.headline);
}

#[test]
fn of_several_pods_in_one_log_none_excuses_another() {
    let of = |pod: &str, line: &str| format!("[pod/{pod}/vllm] {line}");
    let lines = [of("llama-0", START), of("llama-0", OOM), of("llama-1", START), of("llama-1", READY)];
    let log = read(&lines.each_ref().map(String::as_str));
    assert_eq!((told(&log).0, log.stage), (Some("gpu-oom"), None));
    let odd = "ERROR 08-20 21:35:00 [x.py:1] RuntimeError: odd";
    for (line, expected) in [(OOM, (Some("gpu-oom"), None)), (odd, (None, Some("RuntimeError: odd")))] {
        let lines = [of("llama-0", START), of("llama-0", READY), of("llama-0", STOP), of("llama-1", line)];
        assert_eq!(told(&read(&lines.each_ref().map(String::as_str))), expected, "the signal was llama-0's");
    }
}

#[test]
fn an_error_outranks_a_warning_before_it() {
    let stall = "(EngineCore pid=9) INFO 08-20 09:34:00 [shm_broadcast.py:681] No available shared memory broadcast block found in 60 seconds.";
    assert_eq!(told(&read(&[START, stall, stall, stall, OOM])).0, Some("gpu-oom"));
    assert_eq!(
        told(&read(&[START, SERVES, stall, stall, stall])).0,
        Some("shm-stall"),
        "without an error it is the root"
    );
    let log = read(&[START, NO_NIXL, "(EngineCore pid=9) ERROR 08-20 09:44:00 [x.py:1] AssertionError: odd"]);
    let [logs::LogEvent::Unknown(unknown)] = log.story()[..] else { panic!("{:?}", log.story()) };
    assert_eq!(unknown.said, "AssertionError: odd", "also one that nobody knows");
    assert_eq!((log.root(), &log.first_root), (None, &None));
}

#[test]
fn a_log_that_breaks_off_without_a_word_is_not_called_clean() {
    let leaked = "/usr/lib/python3.11/multiprocessing/resource_tracker.py:254: UserWarning: resource_tracker: There appear to be 4 leaked semaphore objects to clean up at shutdown";
    let killed = read(&[START, READY, SERVES, leaked]);
    assert!(killed.findings.iter().any(|found| found.rank == LogRank::Secondary), "{:?}", killed.findings);
    let stopped = read(&[START, READY, SERVES, "INFO:     Waiting for application shutdown.", leaked]);
    assert_eq!(
        (stopped.story(), stopped.stage),
        (vec![], Some(LogStage::Ending)),
        "after an orderly end it means nothing"
    );
}

#[test]
fn a_log_in_utf_16_is_read_as_any_other() {
    let library = load(None).unwrap();
    let patterns = Patterns::new(library.logs.values());
    let text = format!("\u{feff}{START}\r\n{OOM} \u{1f525}\r\n");
    for to_bytes in [u16::to_le_bytes, u16::to_be_bytes] {
        let bytes: Vec<u8> = text.encode_utf16().flat_map(to_bytes).chain([0]).collect();
        let log = logs::stream::read_text(&patterns, bytes.as_slice()).unwrap();
        assert_eq!((told(&log).0, log.lines), (Some("gpu-oom"), 2));
        assert!(log.root().unwrap().text.ends_with('\u{1f525}'), "{:?}", log.root());
    }
}

#[test]
fn only_work_shows_that_an_engine_outlived_an_error_of_its_start() {
    let still = SERVES.replace("1204.5", "0.0").replace("312.8", "0.0");
    let answered = "(APIServer pid=7) INFO:     10.0.0.9:5 - \"POST /v1/chat/completions HTTP/1.1\" 200 OK";
    let odd = "(EngineCore pid=9) ERROR 08-20 09:34:00 [x.py:1] odd";
    let dead = DEAD.replace("21:34:51", "09:34:01");
    for lines in [
        vec![START, odd, &still],
        vec![START, answered, odd, SERVES],
        // Another rank goes on.
        vec![START, odd, &dead, SERVES],
    ] {
        assert_eq!(told(&read(&lines)).1, Some("odd"), "{lines:?}");
    }
    assert_eq!(told(&read(&[START, odd, answered])).1, None);
    let held = |lines: &[&str]| read(lines).standing_still();
    assert_eq!(held(&[READY, SERVES, &still, &still]), Some(28));
    // One such line may be a moment.
    let calm = [vec![READY, SERVES, SERVES, &still], vec![READY, &still, &still, SERVES], vec![READY]];
    assert!(calm.iter().all(|lines| held(lines).is_none()));
}

#[test]
fn waiting_lines_that_repeat_after_a_worker_died_are_not_why_it_failed() {
    let wait =
        "DEBUG 07-04 17:3{}:10 [shm_broadcast.py:456] No available shared memory broadcast block found in 60 second.";
    let waits: Vec<String> = (5..9).map(|minute| wait.replace("{}", &minute.to_string())).collect();
    let died = "ERROR 07-04 17:35:16 [multiproc_executor.py:140] Worker proc VllmWorker-1 died unexpectedly, shutting down executor.";
    let lines: Vec<&str> = [waits[0].as_str(), died].into_iter().chain(waits[1..].iter().map(String::as_str)).collect();
    let ranks = |lines: &[&str]| -> Vec<(String, LogRank)> {
        read(lines).findings.into_iter().map(|found| (found.id, found.rank)).collect()
    };
    let of = |stall, died| vec![("shm-stall".to_owned(), stall), ("worker-died".to_owned(), died)];
    assert_eq!(ranks(&lines), of(LogRank::Benign, LogRank::Secondary));
    let hung: Vec<&str> = waits.iter().map(String::as_str).chain([died]).collect();
    assert_eq!(ranks(&hung), of(LogRank::Root, LogRank::Secondary), "the worker was killed for its hang");
    let later = died.replace("17:35:16", "16:35:16");
    let hung: Vec<&str> = [later.as_str()].into_iter().chain(waits.iter().map(String::as_str)).collect();
    assert_eq!(ranks(&hung)[1], ("shm-stall".to_owned(), LogRank::Root), "it died an hour before");
}

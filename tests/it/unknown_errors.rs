//! Error lines that no finding explains: their dresses, their wrappings, their tracebacks, and how they are counted.

use logs::{LogReader, Patterns, UnclassifiedErrors};

/// The errors of a log of which nothing is known.
fn read(text: &str) -> UnclassifiedErrors {
    LogReader::new(&Patterns::new([])).text(text).unknown
}

#[test]
fn what_collectors_and_launchers_put_around_a_line_is_taken_off() {
    let own = "(EngineCore_DP0 pid=400) ERROR 11-17 09:31:47 [core.py:708] RuntimeError: boom";
    let docker = serde_json::json!({ "log": format!("{own}\n"), "stream": "stderr", "time": "2026-11-17T09:31:47Z" });
    let shipped = serde_json::json!({ "@timestamp": "t", "message": own, "kubernetes": { "pod_name": "llama-0" } });
    for line in [
        own.to_owned(),
        format!("2026-11-17T09:31:47.1Z stderr F {own}"),
        format!("[pod/llama-0/vllm] {own}"),
        format!("vllm-1  | {own}"),
        format!("llama-7c9d5b8f4d-x2k8q vllm {own}"),
        format!("Nov 17 09:31:47 node-a vllm[812]: {own}"),
        docker.to_string(),
        shipped.to_string(),
        format!("[pod/llama-0/vllm] 2026-11-17T09:31:47Z stdout F {own}"),
        format!("    Nov 17 09:31:47 vllm[812]: {own}"),
        format!("7월 17 09:31:47 node-a vllm[812]: {own}"),
        format!("10.0.0.7: user: err: [2026-11-17T09:31:47.1Z]: {own}"),
        format!("│ {own}     │"),
        format!("2026-11-17 09:31:47.12  >> {own}"),
    ] {
        let error = read(&line).began.unwrap_or_else(|| panic!("{line}"));
        assert_eq!((error.text.as_str(), error.said.as_str()), (own, "RuntimeError: boom"), "{line}");
    }
}

#[test]
fn the_level_and_the_text_of_every_dress_are_read() {
    for (line, said) in [
        ("E1102 16:02:26.014493   391 tcp_transport.cpp:542] no port", Some("no port")),
        ("W1102 16:02:26.014493   391 x.cc:5] failed slowly", None),
        ("[rank0]:[E1110 16:31:16.131931664 ProcessGroupNCCL.cpp:632] [Rank 0] late", Some("late")),
        ("[11/02/2026-16:02:26] [TRT-LLM] [RANK 0] [E] lost", Some("lost")),
        ("[TensorRT-LLM][ERROR] Assertion of tests", Some("Assertion of tests")),
        ("[2026-11-02 16:02:26,014 E 391 391] (raylet) node_manager.cc:123: dead", Some("dead")),
        ("2025-05-30T00:35:01.153Z ERROR chat: x::y: lost", Some("chat: x::y: lost")),
        ("2025-05-30T00:35:01.153Z  WARN x::y: ERROR is a word here", None),
        ("2026/11/02 16:02:26 [error] 7#7: *1 upstream", Some("7#7: *1 upstream")),
        ("07:01:02 - LiteLLM Router:ERROR: router.py:62 - boom", Some("boom")),
        ("time=\"t\" level=error msg=\"no endpoint\" err=\"eof\"", Some("no endpoint: eof")),
        ("{\"level\":\"error\",\"ts\":1.5,\"msg\":\"no endpoint\",\"error\":\"eof\"}", Some("no endpoint: eof")),
        ("{\"level\":\"INFO\",\"fields\":{\"message\":\"ERROR no\"}}", None),
        ("[1762100000.1] [h:12 :0] ucp.c:9 UCX  ERROR no transport", Some("UCX  ERROR no transport")),
        ("[2026-11-02 16:02:26 TP0] Prefill transfer failed", Some("Prefill transfer failed")),
        ("2026-11-02 16:02:26,014 - __main__ - ERROR - lost", Some("lost")),
        ("Nov 17 09:31:47 ERROR: lost", Some("Nov 17 09:31:47 ERROR: lost")),
        ("2025-05-30T00:35:01.153Z ERROR c: lost\tat\tonce", Some("c: lost at once")),
        ("INFO: a word like errors or TERROR is none", None),
        ("10.0.0.7:80 - \"POST /v1/completions HTTP/1.1\" 500 Internal Server Error", None),
        ("transfers: 0 errors, failed=0", None),
    ] {
        let errors = read(line);
        assert_eq!(errors.began.map(|error| error.said).as_deref(), said, "{line}");
    }
}

#[test]
fn error_lines_are_counted_by_shape_in_every_dress() {
    let text = "2025-05-30T00:35:01.153Z ERROR chat: dynamo_llm::http: request 17 failed\n\
                2025-05-30T00:35:02.153Z ERROR chat: dynamo_llm::http: request 18 failed\n\
                18:03:47 - LiteLLM Proxy:ERROR: x.py:159 - boom\n\
                {\"time\":\"t\",\"level\":\"ERROR\",\"fields\":{\"message\":\"bang\"}}\n\
                {\"time\":\"t\",\"level\":\"INFO\",\"fields\":{\"message\":\"ERROR no\"}}\n\
                INFO: a word like errors or TERROR is none\n";
    let errors = read(text);
    assert_eq!((errors.count, errors.lines[0].count), (4, 2), "{errors:?}");
    assert!(errors.lines[0].text.contains("request 17"));
}

#[test]
fn a_traceback_counts_once_with_its_exception() {
    let alone =
        "Traceback (most recent call last):\n  File \"a.py\", line 1\n    x()\nValueError: no such thing\nbye\n";
    let errors = read(alone);
    assert_eq!((errors.count, errors.lines[0].text.as_str()), (1, "ValueError: no such thing"));
    let errors = read(&format!("12:00:00 - LiteLLM Proxy:ERROR: x.py:1 - failed\n{alone}"));
    assert_eq!((errors.count, errors.lines[0].line), (1, 5), "the exception is told, not its header");
    assert_eq!(errors.lines[0].place.as_deref(), Some("a.py:1"));
    let levelled = "(A pid=1) ERROR 11-20 18:27:35 [a.py:9] failed\n\
                    (A pid=1) ERROR 11-20 18:27:35 [a.py:9] Traceback (most recent call last):\n\
                    (A pid=1) ERROR 11-20 18:27:35 [a.py:9]   File \"a.py\", line 1\n";
    assert_eq!(read(levelled).count, 1);
}

#[test]
fn interleaved_tracebacks_of_two_ranks_are_two_records() {
    let text = "[rank0]: Traceback (most recent call last):\n\
                [rank1]: Traceback (most recent call last):\n\
                [rank0]:   File \"/x/model/a.py\", line 1, in f\n\
                [rank1]:   File \"/x/model/b.py\", line 2, in g\n\
                [rank1]: KeyError: 'experts'\n\
                [rank0]: ValueError: shape\n";
    let errors = read(text);
    let told: Vec<_> = errors.lines.iter().map(|one| (one.said.as_str(), one.place.as_deref().unwrap_or(""))).collect();
    assert_eq!(told, [("KeyError: 'experts'", "model/b.py:2"), ("ValueError: shape", "model/a.py:1")]);
}

#[test]
fn endless_shapes_are_quoted_in_a_few_lines() {
    let text: String = (0..2_000).map(|n| format!("ERROR {}\n", "x".repeat(n % 1_000 + 1))).collect();
    let errors = read(&text);
    assert_eq!(errors.count, 2_000);
    assert!(errors.lines.len() <= 4);
}

#[test]
fn a_frequent_error_that_begins_behind_many_rare_ones_is_quoted() {
    let rare = |from: usize| (from..from + 400).map(|n| format!("ERROR {}\n", "x".repeat(n % 280 + 1)));
    let frequent = (0..50).map(|n| format!("ERROR request {n} failed\n"));
    let text: String = rare(0).chain(frequent).chain(rare(100)).collect();
    let errors = read(&text);
    assert_eq!((errors.count, errors.lines[0].line), (850, 1), "the first is kept");
    let one = errors.lines.iter().find(|one| one.text == "ERROR request 0 failed").unwrap();
    assert_eq!(one.count, 50);
}

#[test]
fn a_message_of_several_lines_in_one_string_is_told_with_its_exception() {
    let packed = r#"E1027 15:54:53.431777 1342 model.py:502] "[vllm] Error generating stream: ray::execute()\n  At least one of the arguments\nray.exceptions.RaySystemError: System error: No module named 'utils'""#;
    let native = r#"E1113 01:00:58.469718 3545 backend_model.cc:692] "ERROR: Both paths are empty (/a.cc:535)\n1       0x7fc3a35e6e5b /a.so(+0x17e5b)\n2       0x7fc3a35e6557 /a.so(+0x17557)""#;
    let wrapped = "E0728 17:26:10.112496 154 model.py:106] \"Traceback (most recent call last):\n   File \\\"/a/model.py\\\", line 94, in execute\n      raise Failed(message)\n          utils.TritonModelException: no room\n";
    for (text, said) in [
        (packed, "ray.exceptions.RaySystemError: System error: No module named 'utils'"),
        (native, "ERROR: Both paths are empty (/a.cc:535)"),
        (wrapped, "utils.TritonModelException: no room"),
    ] {
        let errors = read(text);
        assert_eq!((errors.count, errors.began.map(|error| error.said).as_deref()), (1, Some(said)), "{text}");
    }
}

#[test]
fn a_log_that_begins_inside_a_traceback_is_told_with_its_exception() {
    let lines = "ERROR 07-28 15:07:22 [core.py:632]     _ = torch.zeros(1, device=device)\n\
                 ERROR 07-28 15:07:22 [core.py:632]         ^^^^^^^^^^^^^^\n\
                 ERROR 07-28 15:07:22 [core.py:632] RuntimeError: odd device\n";
    assert_eq!(read(lines).began.unwrap().said, "RuntimeError: odd device");
    let cut =
        "ERROR 07-28 15:07:22 [core.py:632]     indented words\nINFO 07-28 15:07:23 [x.py:1] Loading took 6 seconds\n";
    assert_eq!(read(cut).began.unwrap().said, "indented words", "the next line is another one's");
    let marked = "Traceback (most recent call last):\n  File \"/a.py\", line 1, in f\n    g()\n> File \"/b.py\", line 2, in g\n    raise\nNotImplementedError: sharded\n";
    assert_eq!(read(marked).began.unwrap().said, "NotImplementedError: sharded");
    let invalid = "Traceback (most recent call last):\n  File \"/a.py\", line 1, in f\n    C()\npydantic.ValidationError: 1 validation error for C\n  Value error, rank (1) must be 8\n";
    assert_eq!(
        read(invalid).began.unwrap().said,
        "pydantic.ValidationError: 1 validation error for C: Value error, rank (1) must be 8"
    );
}

#[test]
fn a_line_of_code_at_which_a_log_begins_is_no_error() {
    // A frame is none of its own either, but it tells that something failed there.
    for (line, place) in [("        ^^^^", None), ("  File \"/a.py\", line 1, in f", Some("/a.py:1"))] {
        let text = format!("ERROR 07-28 15:07:22 [w.py:1]     x = f(y)\nERROR 07-28 15:07:22 [w.py:1] {line}\n");
        let errors = read(&text);
        assert_eq!(errors.began.and_then(|one| one.place).as_deref(), place, "{line}");
        assert_eq!(errors.count, u64::from(place.is_some()), "{line}");
        let raised = read(&text.replace("x = f(y)", "ValueError: boom"));
        assert_eq!(raised.began.map(|one| one.said).as_deref(), Some("ValueError: boom"), "{line}");
    }
}

#[test]
fn a_traceback_that_a_terminal_wrapped_is_told_by_its_exception() {
    let line = |text: &str| format!("(Worker pid=2) ERROR 08-03 13:35:33 [w.py:9]{text}\n");
    let wrapped = ["   File", "     x = f(", "          ^^^^^^", " ValueError: odd"].map(line);
    let pieces = ["\"/usr/lib/a.py\",\nline 83, in g\n", "y)\n", "   ^^^^\n", "device of this pod\n"];
    let text: String = std::iter::zip(wrapped, pieces).map(|(line, piece)| line + piece).collect();
    let errors = read(&text);
    assert_eq!((errors.began.map(|one| one.said).as_deref(), errors.count), (Some("ValueError: odd"), 1), "{text}");
    // Without a process its pieces belong to the same writer.
    let errors = read(&text.replace("(Worker pid=2) ", ""));
    assert_eq!((errors.began.map(|one| one.said).as_deref(), errors.count), (Some("ValueError: odd"), 1), "{text}");
}

#[test]
fn the_last_words_below_a_traceback_without_its_exception_are_told() {
    let cut = "ERROR 08-03 13:35:33 [w.py:9] Traceback (most recent call last):\n\
               ERROR 08-03 13:35:33 [w.py:9]   File \"/a.py\", line 1, in f\n";
    for words in ["Fatal Python error: Aborted", "Killed", "terminate called after throwing an instance of 'E'"] {
        let began = read(&format!("{cut}{words}\n")).began.map(|one| one.said);
        assert_eq!(began.as_deref(), Some(words));
    }
}

#[test]
fn a_traceback_that_a_launcher_logs_as_information_is_an_error() {
    for prefix in ["2026-11-02 16:02:26,014 - __main__ - INFO - ", "2025-05-30T00:35:01.153Z DEBUG run::sub: "] {
        let lines = ["  File \"a.py\", line 1, in f", "    x()", "ValueError: no such thing", "bye"];
        let errors = read(&lines.map(|line| format!("{prefix}{line}\n")).concat());
        let began = errors.began.unwrap_or_else(|| panic!("{prefix}"));
        assert_eq!((began.said.as_str(), errors.count), ("ValueError: no such thing", 1), "{prefix}");
    }
}

#[test]
fn a_traceback_that_lost_its_indentation_is_told_by_its_exception() {
    let errors =
        read("File \"a.py\", line 1, in f\nx()\nFile \"b.py\", line 2, in g\nraise Lost(f\"{x}\")\nLost: peer\n");
    let began = errors.began.unwrap();
    assert_eq!((began.said.as_str(), began.place.as_deref(), errors.count), ("Lost: peer", Some("b.py:2"), 1));
}

#[test]
fn a_traceback_that_ends_before_its_exception_counts_if_nothing_else_failed() {
    let cut = "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\n    x()\n";
    let errors = read(cut);
    let began = errors.began.unwrap();
    assert_eq!((began.place.as_deref(), began.line, errors.count), (Some("a.py:1"), 2, 1));
    let errors = read(&format!("{cut}INFO: bye\nERROR: lost\n"));
    assert_eq!((errors.began.map(|one| one.said).as_deref(), errors.count), (Some("lost"), 1));
    // It says nothing that the symptom before it does not say.
    let library = knowledge::playbook::load(None).unwrap();
    let symptom =
        "INFO 07-28 15:07:21 [core.py:632] vllm\nValueError: LoRA rank 64 is greater than max_lora_rank 16.\n";
    for (later, is_told) in [("", false), ("INFO 07-28 23:07:21 [core.py:632] idle\n", true)] {
        let text = format!("{symptom}{later}{cut}");
        let analysis = LogReader::new(&Patterns::new(library.logs.values())).text(&text);
        assert_eq!((analysis.unknown.began.is_some(), analysis.findings.len()), (is_told, 1), "{analysis:?}");
    }
}

#[test]
fn frames_alone_are_a_cut_traceback_where_they_are_written_as_errors() {
    let header = "(EngineCore_DP0 pid=395) ERROR 10-24 11:24:57 [core.py:710]";
    let dump = "  File \"a.py\", line 1, in f\n    x()\n";
    let written: String = dump.lines().map(|line| format!("{header} {line}\n")).collect();
    let ray = "2026-03-09 01:31:29.489 (MapWorker(MapBatches(Actor)) pid=1202, ip=node-7) ";
    let by_ray: String = written.lines().map(|line| format!("{ray}{line}\n")).collect();
    for (text, count) in [(written.as_str(), 1), (&by_ray, 1), (&written.replace("ERROR", "INFO"), 0), (dump, 0)] {
        let errors = read(&format!("INFO 10-24 11:24:50 [x.py:2] one more\n{text}"));
        assert_eq!(
            (errors.began.and_then(|one| one.place), errors.count),
            ((count == 1).then(|| "a.py:1".into()), count),
            "{text}"
        );
    }
}

#[test]
fn a_warning_just_before_a_consequence_is_where_it_began() {
    let library = knowledge::playbook::load(None).unwrap();
    let patterns = Patterns::new(library.logs.values());
    let dead =
        "ERROR 03-14 16:51:36 [a.py:7] vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.";
    let failed = "Failed to allocate memory for a tensor because no memory is available";
    for (time, is_told) in [("16:51:35", true), ("16:44:12", false)] {
        let text = format!("WARNING 03-14 {time} [mem.py:409] {failed}\n{dead}\n");
        let began = LogReader::new(&patterns).text(&text).unknown.began.map(|one| one.said);
        assert_eq!(began.as_deref(), is_told.then_some(failed), "{time}");
    }
    let after = format!("{dead}\nWARNING 03-14 16:51:37 [mem.py:409] {failed}\n");
    assert_eq!(LogReader::new(&patterns).text(&after).unknown.began, None, "the end of a process fails in many ways");
    let quoted = "WARNING 03-14 16:44:12 [mem.py:409] store: TimeoutError('no answer')";
    let began = LogReader::new(&patterns).text(&format!("{quoted}\n{dead}\n")).unknown.began;
    assert_eq!(began.map(|one| one.said).as_deref(), Some("store: TimeoutError('no answer')"));
    let root = "ERROR 03-14 16:51:36 [a.py:7] torch.OutOfMemoryError: CUDA out of memory.";
    let text = format!("WARNING 03-14 16:51:35 [mem.py:409] {failed}\n{root}\n{dead}\n");
    assert_eq!(LogReader::new(&patterns).text(&text).unknown.began, None, "an error is known");
}

#[test]
fn frames_that_were_left_out_are_no_exception() {
    let errors =
        read("Traceback (most recent call last):\n...\n  File \"a.py\", line 1, in f\n    x()\n...\nAssertionError\n");
    assert_eq!((errors.began.map(|one| one.said).as_deref(), errors.count), (Some("AssertionError"), 1));
}

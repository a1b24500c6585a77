//! Errors of a log inside other errors: quoted from another process, led to by another exception, told again, or in the
//! words of the kernel and of Go.

use logs::{LogAnalysis, LogReader, NamedLogAnalysis, Patterns};
use render::{Phrases, logs, terminal};

use crate::harness::library;

fn read(text: &str) -> LogAnalysis {
    LogReader::new(&Patterns::new(library().logs.values())).text(text)
}

fn headline(text: &str) -> String {
    let log = NamedLogAnalysis { name: "a.log".to_owned(), pod: None, container: None, cut: false, report: read(text) };
    logs(&[log], &[], &Phrases::english()).headline
}

#[test]
fn an_exception_of_another_process_is_told_with_its_own_traceback() {
    let of_ray = |class: &str, raised: &str| {
        let lines = [
            "ERROR 2026-05-29 03:11:20,444 controller 1203 -- Exception in Replica(id='a'), the replica will be stopped.",
            "Traceback (most recent call last):",
            "  File \"/x/site-packages/ray/serve/state.py\", line 7, in check",
            &format!("ray.exceptions.RayTaskError({class}): ray::Replica.start() (pid=40568)"),
            "  File \"/x/site-packages/ray/serve/replica.py\", line 6, in start",
            "  File \"/x/site-packages/vllm/odd/part.py\", line 9, in make",
            "    raise",
            raised,
        ];
        lines.map(|line| format!("(ServeController pid=1203) {line}\n")).concat()
    };
    let told = headline(&of_ray("OddError", "OddError: the part is odd"));
    assert!(told.contains("OddError: the part is odd in odd/part.py:9"), "{told}");
    let known = headline(&of_ray(
        "RuntimeError",
        "RuntimeError: CUDA error: no kernel image is available for execution on the device",
    ));
    assert!(known.contains("the image has no code for this GPU"), "{known}");
}

#[test]
fn what_a_known_line_led_from_is_told_with_it() {
    let chain = |first: &str| {
        format!(
            "ERROR 03-10 13:23:29 [serving.py:311] Error in preprocessing prompt inputs\nTraceback (most recent call \
             last):\n  File \"/x/site-packages/odd/parts.py\", line 19, in call\n    raise\n{first}\n\nThe above exception \
             was the direct cause of the following exception:\n\nTraceback (most recent call last):\n  File \
             \"/x/site-packages/vllm/multimodal/processing/context.py\", line 25, in call\n    raise\nValueError: Failed to \
             apply OddProcessor on data={{}} with kwargs={{}}\n"
        )
    };
    let told = headline(&chain("OddError: half of a picture"));
    assert!(told.starts_with("vllm · an image, video or audio could not be processed"), "{told}");
    assert!(told.contains("OddError: half of a picture in odd/parts.py:19"), "{told}");
    assert!(read(&chain("OddError: half of a picture")).unknown.lines.is_empty(), "it is told once");
    // What was being handled when another error came is not its reason.
    let handled = chain("KeyError: 'odd'").replace(
        "The above exception was the direct cause of the following exception:",
        "During handling of the above exception, another exception occurred:",
    );
    assert!(!headline(&handled).contains("KeyError"), "{}", headline(&handled));
}

#[test]
fn frames_alone_tell_the_engine() {
    let line = "{\"message\": \"odd\\nTraceback (most recent call last):\\n  File \\\"/x/site-packages/litellm/odd.py\\\", \
                line 2, in get\\n    get()\\nAttributeError: nothing\", \"level\": \"ERROR\"}";
    assert_eq!(read(line).engine.as_deref(), Some("litellm"));
    assert!(headline(line).contains("AttributeError: nothing in litellm/odd.py:2"), "{}", headline(line));
}

#[test]
fn a_report_of_the_kernel_is_an_error_whatever_word_it_begins_with() {
    for report in [
        "WARNING: CPU: 41 PID: 214402 at /build/odd.c:5 odd_put+0x9c/0xb0 [odd]",
        "BUG: unable to handle page fault for address: ffffa",
        "rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:",
        "INFO: task odd:215020 blocked for more than 122 seconds.",
    ] {
        for prefix in ["Sep 01 20:36:11 gpu01 kernel: ", "[  933.100021] ", ""] {
            let read = read(&format!("{prefix}{report}\n"));
            assert!(read.tells_of_failure(), "{prefix}{report}");
        }
    }
    assert!(!read("INFO: task done\nINFO: rcu mode is off\n").tells_of_failure());
}

#[test]
fn a_line_that_soon_repeats_the_root_error_is_no_further_error() {
    let log = |at: &str, said: &str| {
        format!(
            "ERROR 03-10 13:23:29 [core.py:1] Traceback (most recent call last):\n  File \
             \"/x/site-packages/vllm/v1/core/odd.py\", line 3, in run\n    step()\nValueError: an odd state of many parts\n\
             ERROR 03-10 {at} [odd.py:9] the part ended: {said}\n"
        )
    };
    let unknown = |at: &str, said: &str| read(&log(at, said)).unknown.count;
    assert_eq!(unknown("13:23:30", "an odd state of many parts"), 0);
    assert_eq!(unknown("13:23:30", "another state"), 1);
    assert_eq!(unknown("23:23:30", "an odd state of many parts"), 1, "another fault with the same words");
}

#[test]
fn the_programs_own_fault_in_a_part_is_not_the_parts_usual_reason() {
    let log = |raised: &str| {
        format!(
            "ERROR 03-05 05:40:33 [core.py:880] Traceback (most recent call last):\n  File \
             \"/x/site-packages/vllm/v1/attention/backends/odd.py\", line 310, in build\n    step()\n{raised}\n"
        )
    };
    let meaning = |raised: &str| read(&log(raised)).findings[0].meaning.clone();
    let of_part = meaning("ValueError: head size 7 is not supported");
    assert!(of_part.starts_with("The kernels of attention"), "{of_part}");
    for own in
        ["AssertionError: decodes: 1", "KeyError: 'odd'", "TypeError: f() got an unexpected keyword argument 'x'"]
    {
        assert!(meaning(own).starts_with("Something in scheduler, cache or worker"), "{own}: {}", meaning(own));
    }
    assert!(
        headline(&log("KeyError: 'odd'")).contains("the attention backend failed: KeyError: 'odd' in backends/odd.py")
    );
}

#[test]
fn a_compilers_own_error_comes_before_the_failure_to_load_its_product() {
    let text = "/x/site-packages/odd/impls/odd.cuh(120): error: identifier \"oddSynchronize\" is undefined\n1 error detected \
                in the compilation of \"kernel.cu\".\nRuntimeError: CUDA driver error (odd.hpp:141): 200 \
                (CUDA_ERROR_INVALID_IMAGE, device kernel image is invalid)\n";
    let told = read(text);
    assert_eq!(told.root().map(|root| (root.id.as_str(), root.line)), Some(("compilation-failed", 1)));
    let unknown = read("/x/odd.cpp:12:3: fatal error: odd.h: No such file or directory\n");
    assert_eq!(unknown.unknown.count, 1);
}

#[test]
fn a_panic_of_go_is_told_with_its_first_place() {
    let panic = "panic: odd state of the picker\n[signal SIGSEGV: segmentation violation code=0x1]\n\ngoroutine 1 \
                 [running]:\npanic({0x1, 0x2})\n\t/usr/local/go/src/runtime/panic.go:770 +0x1\n\
                 example.com/picker/pkg/score.New({0x2b3f1a8}, 0x0)\n\t/go/pkg/mod/example.com/picker@v1/pkg/score/new.go:74 \
                 +0x31\nmain.main()\n\t/workspace/main.go:44 +0x1a5\n";
    let told = headline(panic);
    assert!(told.contains("odd state of the picker in score/new.go:74"), "{told}");
}

#[test]
fn the_name_of_a_pod_in_an_event_tells_no_engine() {
    let event = "92s         Warning   OddError   pod/vllm-70b-6c9d8f7b5-2pfzt   the node has odd parts\n";
    assert_eq!(read(event).engine, None);
}

#[test]
fn a_thread_that_ends_leaves_a_process_that_may_still_look_alive() {
    let log = |thread: &str, after: &str| {
        format!(
            "INFO 03-10 13:23:28 [api_server.py:1] vLLM API server version 0.30.0\nException in thread {thread}:\nTraceback \
             (most recent call last):\n  File \"/opt/odd/sender.py\", line 3, in run\n    step()\nOddError: odd\n{after}"
        )
    };
    let told = |text: &str| {
        let log = NamedLogAnalysis { name: "a.log".into(), pod: None, container: None, cut: false, report: read(text) };
        terminal(&logs(&[log], &[], &Phrases::english()))
    };
    let alive = "Only a thread ended.";
    assert!(told(&log("Thread-3 (send)", "")).contains(alive), "{}", told(&log("Thread-3 (send)", "")));
    assert!(!told(&log("MainThread", "")).contains(alive));
    assert!(!told(&log("Thread-3 (send)", "ERROR 03-10 13:23:31 [core.py:3] core died; exit\n")).contains(alive));
}

#[test]
fn of_a_long_line_the_end_is_left_out_because_it_may_have_lost_the_name_of_its_field() {
    let long =
        format!("ERROR 03-10 13:23:29 [odd.py:1] odd request: prompt: '{}my own words'\n", "some words, ".repeat(60));
    let report = read(&long);
    let shown = &report.unknown.lines[0];
    assert!(shown.text.contains("odd request") && shown.said.contains("odd request"), "{shown:?}");
    assert!(!shown.text.contains("my own words") && !shown.said.contains("my own words"), "{shown:?}");
}

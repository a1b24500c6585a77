//! Errors of a log inside other errors: quoted from another process, led to by another exception, told again, or in the
//! words of the kernel and of Go.

use logs::{LogAnalysis, LogReader, NamedLogAnalysis, Patterns};
use render::{Phrases, logs};

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
fn a_long_error_keeps_its_end() {
    let long = format!("ERROR 03-10 13:23:29 [odd.py:1] {}: the port is closed", "an odd part ".repeat(60));
    let told = headline(&long);
    assert!(told.contains("an odd part an odd part") && told.contains("…"), "{told}");
    assert!(told.contains("the port is closed"), "{told}");
}

#[test]
fn a_line_that_repeats_the_root_error_is_no_further_error() {
    let root = "RuntimeError: CUDA error: no kernel image is available for execution on the device";
    let again =
        format!("ERROR 03-10 13:23:29 [odd.py:1] {root}\nERROR 03-10 13:23:30 [odd.py:9] the part ended: {root}\n");
    assert_eq!(read(&again).unknown.count, 0);
    let other = again.replace("the part ended", "another part ended") + "ERROR 03-10 13:23:31 [odd.py:3] disk is odd\n";
    assert_eq!(read(&other).unknown.count, 1);
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

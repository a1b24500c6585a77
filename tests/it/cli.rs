//! The command line as a person uses it: exit status, standard input, outputs, and hints.

use std::io::Write;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::process::{Command, Output, Stdio};

use llm_diagnose_lab::slack::blocks;
use serde_json::Value;

use crate::running::{BINARY, group};

fn run(arguments: &[&str], input: Option<&str>) -> Output {
    let mut child = Command::new(BINARY)
        .args(arguments)
        .env_remove("PROMETHEUS_URL")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // A program that ends before it reads is fine.
    let _ = stdin.write_all(input.unwrap_or_default().as_bytes());
    drop(stdin);
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

const NOWHERE: [&str; 2] = ["--prometheus", "http://127.0.0.1:1"];

#[test]
fn without_prometheus_a_degraded_answer_is_printed_and_the_status_is_3() {
    let alert = group("LLMHighTTFT", "firing", "critical", &["a"]).to_string();
    let output = run(&["diagnose", "--alert", "-", NOWHERE[0], NOWHERE[1], "--output", "json"], Some(&alert));
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    let diagnosis: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(diagnosis["schema"], "llm-diagnose/diagnosis/v1");
    assert_eq!(diagnosis["symptom"]["playbook"], "high-ttft");
    assert_eq!(diagnosis["symptom"]["verdict"], "no_data");
    assert_eq!((&diagnosis["degraded"], &diagnosis["scope"]["labels"]["namespace"]), (&true.into(), &"llm".into()));
    assert_eq!(diagnosis["causes"], Value::Array(vec![]));
}

#[test]
fn the_slack_output_is_a_message_that_slack_takes() {
    let output = run(&["diagnose", "--playbook", "high-ttft", NOWHERE[0], NOWHERE[1], "--output", "slack"], None);
    let message: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(blocks::validate(&message), []);
}

#[test]
fn wrong_use_is_status_2_with_a_hint() {
    let cases: [(&[&str], &str); 17] = [
        (&["diagnose", "--playbook", "high-tttf"], "did you mean `high-ttft`?"),
        (&["diagnose"], "--alert"),
        (&["diagnose", "--alert", "/nonexistent"], "cannot read the alert from /nonexistent"),
        (&["diagnose", "--playbook", "high-ttft", "--at", "yesterday"], "RFC 3339"),
        (&["diagnose", "--playbook", "high-ttft", "--label", "namespace"], "NAME=VALUE"),
        (&["diagnose", "--playbook", "high-ttft", "--label", "modle_name=x"], "did you mean `model_name`?"),
        (
            &["bundle", "--playbook", "high-ttft", "--label", "colour=x"],
            "label `colour` does not select a pool: expected one of",
        ),
        (&["explain", "kv-cache-ful"], "did you mean `kv-cache-full`?"),
        (&["explain", "xid"], "write `explain xid NUMBER`"),
        (&["explain", "xid", "seventy"], "expected a number such as 79"),
        (&["explain", "xid", "173"], "known are 1 to 172; a newer one may be in https://"),
        (&["explain", "log", "NVRM: Xid (PCI:0000:3b:00): 173, pid=1"], "the table has no Xid 173"),
        (&["explain", "litellm", "418"], "known are 400, 401"),
        (&["explain", "flag", "--swapspace"], "did you mean `--swap-space`?"),
        (&["explain", "signal", "kv_cach_usage"], "did you mean `kv_cache_usage`?"),
        (&["explain", "engine", "sglng"], "did you mean `sglang`?"),
        (&["explain", "log", "Started server process"], "the whole line"),
    ];
    for (arguments, expected) in cases {
        let output = run(arguments, None);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains(expected), "{arguments:?}: {}", text(&output.stderr));
    }
}

#[test]
fn a_file_that_is_no_alert_is_refused_with_the_reason() {
    for (body, expected) in
        [("{", "EOF"), ("{\"version\":\"3\",\"groupKey\":\"g\",\"status\":\"firing\",\"alerts\":[]}", "expected \"4\"")]
    {
        let output = run(&["diagnose", "--alert", "-"], Some(body));
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains(expected), "{}", text(&output.stderr));
    }
}

#[test]
fn a_broken_json_file_is_shown_with_a_caret_below_its_place() {
    let places = [("diagnose", "--alert", "standard input:2: "), ("capacity", "-", "config.json:2: ")];
    for (command, option, place) in places {
        let arguments: Vec<&str> = [command, option, "-"].into_iter().take(if option == "-" { 2 } else { 3 }).collect();
        let output = run(&arguments, Some("{\n  \"version\": 4.,\n}"));
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(
            said.contains(place) && said.contains("     2 |   \"version\": 4.,\n       |                ^"),
            "{said}"
        );
    }
    let shape = run(&["diagnose", "--alert", "-"], Some("{\"alerts\": 7}"));
    assert!(text(&shape.stderr).contains("     1 | {\"alerts\": 7}\n       |            ^"), "{}", text(&shape.stderr));
}

#[test]
fn the_queries_of_a_playbook_are_plain_promql_for_a_pool() {
    for id in ["high-ttft", "kv_cache_usage"] {
        let output = run(&["explain", "--queries", id, "--label", "namespace=llm \"q\""], None);
        let said = text(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let (titles, queries): (Vec<&str>, Vec<&str>) = said.lines().partition(|line| line.starts_with("# "));
        assert!(titles.len() == queries.len() && !queries.is_empty(), "{said}");
        for query in &queries {
            // `"$1"` is a group of `label_replace`.
            let placeholders = query.replace("\"$1\"", "").contains('$');
            assert!(knowledge::promql::parse(query).is_ok() && !placeholders, "{query}");
        }
        assert!(
            queries.iter().any(|query| query.contains(r#"vllm:"#) && query.contains(r#"namespace="llm \"q\"""#)),
            "{said}"
        );
    }
    for (id, expected) in [
        ("high-tfft", "did you mean `high-ttft`?"),
        ("sglang", "`sglang` has no queries"),
        ("log_gpu_oom", "nothing of it is read from Prometheus"),
        ("01JCV7Y3E80000000000000000", "--label narrows a playbook, cause or signal"),
    ] {
        let output = run(&["explain", "--queries", id, "--label", "namespace=llm"], None);
        assert_eq!(output.status.code(), Some(2), "{id}");
        assert!(text(&output.stderr).contains(expected), "{}", text(&output.stderr));
    }
}

#[test]
fn a_lone_alert_from_a_file_is_enough() {
    let alert = r#"{"status":"firing","labels":{"alertname":"LLMQueueBuildup","namespace":"n"},"startsAt":"2026-11-20T03:00:00Z"}"#;
    let output = run(&["diagnose", "--alert", "-", NOWHERE[0], NOWHERE[1]], Some(alert));
    let said = text(&output.stdout);
    assert!(
        said.contains("Cannot tell")
            && said.contains("Prometheus cannot be reached")
            && said.contains("(http://127.0.0.1:1)"),
        "{said}"
    );
    assert!(!said.contains('\u{1b}'), "no colour into a pipe");
}

#[test]
fn what_engines_say_now_is_refused_for_an_alert_of_the_past() {
    let alert = r#"{"status":"firing","labels":{"alertname":"LLMQueueBuildup","namespace":"n"},"startsAt":"2024-11-20T03:00:00Z"}"#;
    let output = run(&["diagnose", "--fresh", "--alert", "-", NOWHERE[0], NOWHERE[1]], Some(alert));
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("--fresh") && said.contains("2024-11-20T03:01:00Z"), "{said}");
}

#[test]
fn a_file_behind_a_byte_order_mark_is_read_as_without() {
    let alert = group("LLMHighTTFT", "firing", "critical", &["a"]).to_string();
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("config.yaml");
    std::fs::write(&config, "\u{feff}reload_interval: 30s\n").unwrap();
    let config = config.to_str().unwrap();
    let asked = ["diagnose", "--alert", "-", NOWHERE[0], NOWHERE[1], "--config", config, "--output", "json"];
    let output = run(&asked, Some(&format!("\u{feff}{alert}")));
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    let log = "\u{feff}INFO 11-20 03:00:00 [core.py:58] Initializing a V1 LLM engine\n";
    let read = |log: &str| text(&run(&["logs", "-"], Some(log)).stdout);
    assert_eq!(read(log), read(log.trim_start_matches('\u{feff}')));
}

#[test]
fn a_time_is_taken_as_the_tool_prints_it() {
    for at in ["2026-11-20 22:48:55 UTC", "2026-11-20 22:48 UTC", "11-20 22:48:55", "22:48:55 UTC", "20261120T224855Z"]
    {
        let output = run(&["health", NOWHERE[0], NOWHERE[1], "--at", at, "--output", "json"], None);
        assert!(text(&output.stdout).contains("\"at\""), "{at}: {}", text(&output.stderr));
    }
}

#[test]
fn explain_prints_a_playbook_with_its_causes_by_name_and_each_cause_by_its_own() {
    let output = run(&["explain", "high-ttft"], None);
    let said = text(&output.stdout);
    assert!(output.status.success());
    for expected in ["Impact", "← KV cache is exhausted [kv-cache-full]", "longer-prompts, longer-outputs", "fix now"]
    {
        assert!(said.contains(expected), "{expected}: {said}");
    }
    // A model reads it as one answer of a tool.
    assert!(said.len() < 8_000, "{} bytes", said.len());
    let output = run(&["explain", "longer-prompts"], None);
    let said = text(&output.stdout);
    assert!(said.contains("must: prompt length > 1.3x baseline") && said.contains("fix now"), "{said}");
}

#[test]
fn own_labels_of_an_engine_that_does_not_exist_are_refused_by_every_command_that_reads_them() {
    let file = tempfile::Builder::new().suffix(".yaml").tempfile().unwrap();
    std::fs::write(file.path(), "engines: { vlm: { replica: [my_pod] } }\n").unwrap();
    let path = file.path().to_str().unwrap();
    let commands: [&[&str]; 2] = [
        &["serve", "--config", path],
        &["diagnose", "--config", path, "--playbook", "high-ttft", NOWHERE[0], NOWHERE[1]],
    ];
    for command in commands {
        let output = run(command, None);
        assert_eq!(output.status.code(), Some(2));
        let said = text(&output.stderr);
        assert!(said.contains("in the configuration: `engines.vlm:` no such engine: expected one of"), "{said}");
    }
}

#[test]
fn explain_knows_codes_xids_flags_lines_signals_and_engines() {
    let cases: [(&[&str], &[&str]); 10] = [
        (&["xid", "79"], &["fallen off the bus", "RESTART_BM", "gpu_xid_critical"]),
        (&["xid", "146"], &["Xid 144–150", "WORKFLOW_NVLINK5"]),
        (&["xid", "41"], &["Xid 39–41", "copy engine", "gpu_xid_application"]),
        (&["log", "NVRM: Xid (PCI:0000:3b:00): 12, pid=1"], &["Xid 12: not used on Ampere"]),
        (
            &["log", "torch.OutOfMemoryError: CUDA"],
            &["(in the logs of cuda, sglang, tgi, vllm; gpu-oom)", "\nvllm\n  means"],
        ),
        (&["litellm", "429"], &["RouterRateLimitError", "BudgetExceededError (litellm >= 1.84 < 1.104)"]),
        (&["flag", "--swap-space"], &["vllm          gone in 0.18"]),
        (&["log", "No available memory for the cache blocks"], &["raise --gpu-memory-utilization"]),
        (&["signal", "kv_cache_usage"], &["unit          ratio", "\nvllm\n", "cannot tell"]),
        (&["engine", "sglang"], &["a serving engine", "--cuda-graph-max-bs, gone in"]),
    ];
    for (what, expected) in cases {
        let output = run(&[&["explain"], what].concat(), None);
        let said = text(&output.stdout);
        assert!(output.status.success(), "{what:?}: {}", text(&output.stderr));
        expected.iter().for_each(|e| assert!(said.contains(e), "{what:?}, {e}: {said}"));
    }
}

#[test]
fn a_configuration_error_shows_file_line_and_a_suggestion() {
    let file = tempfile::Builder::new().suffix(".yaml").tempfile().unwrap();
    std::fs::write(file.path(), "listen: 127.0.0.1:0\nprometeus: []\n").unwrap();
    let path = file.path().to_str().unwrap();
    let output = run(&["serve", "--config", path], None);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(said.contains(&format!("{path}:2:")) && said.contains("did you mean `prometheus`?"), "{said}");
}

#[test]
fn every_shell_gets_completions_that_know_the_playbooks() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = run(&["completions", shell], None);
        assert!(output.status.success(), "{shell}: {}", text(&output.stderr));
        assert!(text(&output.stdout).contains("incidents"), "{shell}");
    }
    assert!(text(&run(&["completions", "bash"], None).stdout).contains("high-ttft"));
}

#[test]
fn a_full_standard_output_is_an_error_and_no_panic() {
    let commands: [(&[&str], i32); 5] = [
        (&["playbooks"], 2),
        (&["explain", "high-ttft"], 2),
        (&["completions", "bash"], 2),
        (&["generate", "schema", "--output", "-"], 2),
        (&["health", NOWHERE[0], NOWHERE[1], "--output", "json"], 3),
    ];
    for (arguments, status) in commands {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let output = Command::new(BINARY).args(arguments).stdout(full).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {error}");
        assert_eq!(error.matches("cannot write to standard output").count(), 1, "{arguments:?}: {error}");
        assert!(!error.contains("panicked"), "{error}");
    }
}

#[test]
fn what_a_command_writes_is_a_file_and_never_a_device_or_a_directory() {
    let directory = tempfile::tempdir().unwrap();
    let (file, link) = (directory.path().join("schema.json"), directory.path().join("link.json"));
    std::os::unix::fs::symlink(&file, &link).unwrap();
    for path in ["/dev/full", "/dev/null", directory.path().to_str().unwrap()] {
        let output = Command::new(BINARY).args(["generate", "schema", "--output", path]).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && error.contains("is no file"), "{path}: {error}");
    }
    assert!(std::fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    std::fs::write(&file, "old").unwrap();
    let output = Command::new(BINARY).args(["generate", "schema", "--output"]).arg(&link).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(std::fs::read_to_string(&file).unwrap().starts_with('{'));
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink(), "a link stays one");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 2, "nothing is left beside it");
    let nothing = directory.path().join("nothing.json");
    std::os::unix::fs::symlink(directory.path().join("gone.json"), &nothing).unwrap();
    let output = Command::new(BINARY).args(["generate", "schema", "--output"]).arg(&nothing).output().unwrap();
    assert!(!output.status.success() && text(&output.stderr).contains("a symbolic link to nothing"), "{output:?}");
    assert!(std::fs::symlink_metadata(&nothing).unwrap().is_symlink());
}

#[test]
fn a_new_file_obeys_the_umask_and_its_neighbours_stay() {
    let directory = tempfile::tempdir().unwrap();
    let [file, beside] = ["schema.json", "schema.json.part"].map(|name| directory.path().join(name));
    std::fs::write(&beside, "mine").unwrap();
    let command = format!("umask 077; exec '{BINARY}' generate schema --output '{}'", file.display());
    let output = Command::new("sh").args(["-c", &command]).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::read_to_string(&beside).unwrap(), "mine");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 2, "nothing is left beside it");
}

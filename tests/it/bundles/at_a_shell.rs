//! `llm-diagnose bundle`: what it makes, says and returns.

use std::io::Write;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Instant;

use llm_diagnose_lab::stack;
use store::Store;
use tempfile::TempDir;

use super::summary;
use crate::running::{BINARY, SOON};

const NOWHERE: &str = "http://127.0.0.1:1";

struct Shell {
    directory: TempDir,
    prometheus: String,
}

#[derive(Debug)]
struct Ran {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Shell {
    /// `prometheus` is asked unless another is named.
    fn new(prometheus: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let config = format!(
            "state_dir: {}\nprometheus: [{{ url: \"{prometheus}\" }}]\nexporters: {{ learn: false }}\n\
             bundle: {{ min_free_bytes: 0 }}\n",
            directory.path().join("state").display()
        );
        std::fs::write(directory.path().join("c.yaml"), config).unwrap();
        Self { directory, prometheus: prometheus.to_owned() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(BINARY);
        for name in ["PROMETHEUS_URL", "LLM_DIAGNOSE_STATE_DIR", "STATE_DIRECTORY"] {
            command.env_remove(name);
        }
        command.arg("bundle").args(arguments).env("LLM_DIAGNOSE_CONFIG", self.path("c.yaml"));
        command.current_dir(self.directory.path()).stdin(Stdio::null());
        command
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        let Output { status, stdout, stderr } = self.command(arguments).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Ran { code: status.code(), out: text(stdout), err: text(stderr) }
    }

    fn files(&self) -> Vec<PathBuf> {
        let all = std::fs::read_dir(self.directory.path()).unwrap().map(|entry| entry.unwrap().path());
        all.filter(|path| path.to_string_lossy().contains(".zip")).collect()
    }
}

impl Ran {
    #[track_caller]
    fn says(&self, code: i32, expected: &str) {
        let said = self.out.contains(expected) || self.err.contains(expected);
        assert!(self.code == Some(code) && said, "{code} {expected}: {self:?}");
    }
}

fn read(path: &Path) -> serde_json::Value {
    summary(&std::fs::read(path).unwrap())
}

#[tokio::test]
async fn an_incident_of_the_store_becomes_one_file() {
    let prometheus = stack::Prometheus::builder().start().await.unwrap();
    let shell = Shell::new(&prometheus.url);
    shell.run(&[]).says(2, "there is no store at ");
    std::fs::create_dir(shell.path("state")).unwrap();
    let store = Store::open(&shell.path("state/llm-diagnose.db")).await.unwrap();
    shell.run(&[]).says(2, "there is no such incident");
    let id = super::incident(&store, "LLMHighTTFT").await;
    store.close().await;

    shell.run(&[]).says(0, "is complete");
    let made = shell.files().remove(0);
    assert!(made.file_name().unwrap().to_str().unwrap().starts_with(&format!("llm-diagnose-{id}-")), "{made:?}");
    assert_eq!(super::mode(&made), 0o600);
    assert_eq!(read(&made)["incident"]["id"], id.as_str());
    let ran = shell.run(&[&id[22..], "-o", "mine.zip", "--window", "5m"]);
    ran.says(0, "mine.zip");
    assert!(ran.err.contains("done ") && !ran.err.contains('\u{1b}'), "a pipe gets plain lines: {ran:?}");
    let again = shell.run(&[&id, "--output", "mine.zip"]);
    again.says(2, "mine.zip is there already");
    let quiet = shell.run(&[&id, "--output", "mine.zip", "--force", "--quiet"]);
    assert_eq!((quiet.code, quiet.out.as_str(), quiet.err.as_str()), (Some(0), "", ""), "{quiet:?}");
    shell.run(&[&id, "--window", "2026-11-20T14:00:00Z..2026-11-20T13:00:00Z", "-o", "x.zip"]).says(2, "is not before");
    shell.run(&[&id, "--window", "soon"]).says(2, "14:00..15:30");
    shell.run(&["01NONE"]).says(2, "there is no such incident");
    shell.run(&[&id, "-o", "no/such/place.zip"]).says(2, "no/such");
    shell.run(&[&id, "-o", "/dev/full", "--force"]).says(2, "/dev/full is no file");
    assert!(std::fs::metadata("/dev/full").unwrap().file_type().is_char_device());
    let piped = shell.command(&[&id, "-o", "-"]).output().unwrap();
    assert_eq!(piped.status.code(), Some(0), "{}", String::from_utf8_lossy(&piped.stderr));
    assert_eq!(summary(&piped.stdout)["incident"]["id"], id.as_str());
    assert!(String::from_utf8_lossy(&piped.stderr).contains("is complete"));
    assert_eq!(shell.files().len(), 2, "what failed left nothing: {:?}", shell.files());
}

#[tokio::test]
async fn without_prometheus_it_is_made_all_the_same_and_the_status_says_so() {
    let shell = Shell::new(NOWHERE);
    std::fs::create_dir(shell.path("state")).unwrap();
    let store = Store::open(&shell.path("state/llm-diagnose.db")).await.unwrap();
    let id = super::incident(&store, "LLMHighTTFT").await;
    store.close().await;
    let ran = shell.run(&[&id, "-o", "dark.zip"]);
    ran.says(3, "cannot be asked");
    assert_eq!(read(&shell.path("dark.zip"))["incident"]["id"], id.as_str());
    // What cannot be found out is not guessed.
    shell.run(&["llm/llama", "-o", "x.zip"]).says(2, "there is no such incident, and no pool either");
    let pool = shell.run(&["--playbook", "high-ttft", "--label", "namespace=llm", "-o", "pool.zip"]);
    pool.says(3, &shell.prometheus);
    let summary = read(&shell.path("pool.zip"));
    assert_eq!((&summary["incident"], &summary["diagnosis"]["degraded"]), (&serde_json::Value::Null, &true.into()));
}

#[test]
fn a_file_for_a_reader_that_does_not_read_can_be_stopped() {
    let shell = Shell::new(NOWHERE);
    let spool = shell.path("spool");
    std::fs::create_dir(&spool).unwrap();
    let (_reader, mut full) = std::io::pipe().unwrap();
    // The capacity of a pipe, so that the first byte of the file waits.
    full.write_all(&[0; 65_536]).unwrap();
    let mut command = shell.command(&["--playbook", "high-ttft", "--label", "namespace=llm", "-o", "-"]);
    let mut child = command.env("TMPDIR", &spool).stdout(full).stderr(Stdio::null()).spawn().unwrap();
    let is_made = || {
        let dirs = std::fs::read_dir(&spool).unwrap().filter_map(|dir| std::fs::read_dir(dir.ok()?.path()).ok());
        dirs.flatten().any(|file| file.unwrap().path().extension().is_some_and(|end| end == "zip"))
    };
    let until = Instant::now() + SOON;
    while !is_made() {
        assert!(Instant::now() < until && child.try_wait().unwrap().is_none());
    }
    let told = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    let code = loop {
        match child.try_wait().unwrap() {
            Some(status) => break status.code(),
            None if Instant::now() < until => {}
            None => {
                child.kill().unwrap();
                panic!("it still runs");
            }
        }
    };
    assert_eq!((told.success(), code), (true, Some(2)));
    assert_eq!(std::fs::read_dir(&spool).unwrap().count(), 0, "nothing is left");
}

#[test]
fn on_a_terminal_the_lines_of_the_parts_change_in_place() {
    let shell = Shell::new(NOWHERE);
    let mut command = Command::new("python3");
    command.args(["-c", "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))", BINARY]);
    command.args(["bundle", "--playbook", "high-ttft", "--label", "namespace=llm", "-o", "x.zip"]);
    command.env("LLM_DIAGNOSE_CONFIG", shell.path("c.yaml")).env("TERM", "xterm-256color");
    let output = command.current_dir(shell.directory.path()).stdin(Stdio::null()).output().unwrap();
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(3), "{shown}");
    assert!(shown.contains("\u{1b}[") && shown.contains("skipped  kubernetes"), "{shown:?}");
    assert!(shell.path("x.zip").exists());
}

#[test]
fn secrets_leave_only_after_somebody_said_so() {
    let shell = Shell::new(NOWHERE);
    let pool = ["--playbook", "high-ttft", "--label", "namespace=llm"];
    let with = |more: &[&str]| shell.run(&[&pool, more].concat());
    with(&["--no-redact"]).says(2, "--yes-with-secrets");
    with(&["--yes-with-secrets"]).says(2, "--no-redact");
    with(&["--no-redact", "--anonymize"]).says(2, "cannot be used with");
    assert_eq!(shell.files(), Vec::<PathBuf>::new());
    with(&["--no-redact", "--yes-with-secrets"]).says(3, "Secrets were left in");
    assert_eq!(shell.files().len(), 1);
}

#[test]
fn the_alert_that_is_passed_stays_in_the_bundle_with_its_severity_and_as_it_came() {
    let shell = Shell::new(NOWHERE);
    let secret = format!("hf_{}", "aB3dE5gH7jK9".repeat(3));
    let mut alert = serde_json::json!({
        "status": "firing", "startsAt": "2026-11-20T03:00:00Z", "ours": "a field that nobody reads",
        "labels": { "alertname": "LLMHighTTFT", "severity": "info", "namespace": "llm" },
        "annotations": { "summary": format!("asked with {secret}") },
    });
    std::fs::write(shell.path("alert.json"), alert.to_string()).unwrap();
    shell.run(&["--alert", "alert.json", "-o", "a.zip"]).says(3, "a.zip");
    let zip = std::fs::read(shell.path("a.zip")).unwrap();
    let text = |name: &str| String::from_utf8(super::entry(&zip, name)).unwrap();
    let summary = read(&shell.path("a.zip"));
    assert_eq!(summary["alerts"][0]["labels"], alert["labels"]);
    let mut payload: serde_json::Value = serde_json::from_str(&text("raw/alert-payload.json")).unwrap();
    let annotations = |value: &mut serde_json::Value| value.as_object_mut().unwrap().remove("annotations").unwrap();
    let (kept, given) = (annotations(&mut payload).to_string(), annotations(&mut alert).to_string());
    assert!(kept.contains("[redacted: hf-token") && given.contains(&secret), "{kept}");
    assert_eq!(payload, alert, "everything else as it came");
    assert!(text("raw/alerts.json").contains("LLMHighTTFT"));
    for name in ["report.html", "report.md", "tickets/platform.md"] {
        let text = text(name);
        assert!(text.contains("LLMHighTTFT (severity info)") && !text.contains("WARNING"), "{name}: {text}");
    }
}

#[test]
fn the_receiver_that_is_named_gets_a_ticket() {
    let shell = Shell::new(NOWHERE);
    let pool = ["--playbook", "high-ttft", "--label", "namespace=llm", "-o", "x.zip", "--ticket"];
    let with = |receiver: &str| shell.run(&[&pool[..], &[receiver]].concat());
    with("nvdia").says(2, "there are cloud, nvidia, platform, postmortem, sglang, vllm");
    with("nvidia").says(3, "x.zip");
    let zip = std::fs::read(shell.path("x.zip")).unwrap();
    assert!(!super::entry(&zip, "tickets/nvidia.md").is_empty());
}

//! `init`: from five answers to files that the service, Alertmanager and Slack take.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use llm_diagnose_lab::stack::Service;
use serde_json::{Value, json};
use service::config::Config;
use slack::Transport;

use crate::running::{BINARY, tls};

/// A Prometheus that nobody answers for.
const NOWHERE: &str = "http://127.0.0.1:1";
const FILES: [&str; 3] = ["llm-diagnose.yaml", "alertmanager.yaml", "slack-manifest.yaml"];

fn command(program: &str) -> Command {
    let mut command = Command::new(program);
    for own in ["PROMETHEUS_URL", "SLACK_CHANNEL", "SLACK_BOT_TOKEN", "LLM_DIAGNOSE_CONFIG", "STATE_DIRECTORY"] {
        command.env_remove(own);
    }
    // `doctor` looks at the store of whoever runs it.
    command.env("XDG_STATE_HOME", std::env::temp_dir()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs it without a terminal.
fn init(into: &Path, arguments: &[&str]) -> Output {
    command(BINARY).args(["init", "--into"]).arg(into).args(arguments).stdin(Stdio::null()).output().unwrap()
}

/// Runs it with the defaults and these arguments; its files are written.
fn written(arguments: &[&str]) -> (tempfile::TempDir, String) {
    let own = tempfile::tempdir().unwrap();
    let output = init(own.path(), &[&["--yes", "--prometheus", NOWHERE], arguments].concat());
    assert!(output.status.success(), "{}", said(&output));
    (own, said(&output))
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn parsed(path: &Path) -> Value {
    serde_saphyr::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn the_service_starts_with_what_was_written_once_the_named_secret_is_there() {
    tls();
    let (own, said) = written(&[]);
    let config = own.path().join(FILES[0]);
    // What is missing fails, and the last line is what to do after it is there.
    assert!(said.contains("FAIL") && said.contains("webhook-token"), "{said}");
    let next = format!("llm-diagnose doctor --config {}", config.display());
    assert_eq!(said.lines().last().map(str::trim), Some(next.as_str()), "{said}");

    fs::write(own.path().join("secrets/webhook-token"), "t0ken\n").unwrap();
    let doctor = command(BINARY).args(["doctor", "--output", "json", "--config"]).arg(&config).output().unwrap();
    let findings: Value = serde_json::from_slice(&doctor.stdout).unwrap();
    let level = |name: &str| {
        let checks = findings["checks"].as_array().unwrap();
        checks.iter().find(|check| check["name"] == name).unwrap_or_else(|| panic!("no {name}: {findings:#}"))["level"]
            .clone()
    };
    assert_eq!(["configuration", "webhook", "slack", "store"].map(level), ["ok"; 4], "{findings:#}");

    let arguments =
        ["serve", "--config", config.to_str().unwrap(), "--listen", "127.0.0.1:$PORT", "--state-dir", "$DIR/state"];
    let mut service = Service::start(Path::new(BINARY), &arguments, &[], "").await.unwrap();
    let url = format!("{}/webhook/alertmanager", service.url);
    let refused = reqwest::Client::new().post(&url).json(&json!({})).send().await.unwrap();
    let taken = reqwest::Client::new().post(&url).bearer_auth("t0ken").json(&json!({})).send().await.unwrap();
    assert_eq!([refused.status().as_u16(), taken.status().as_u16()], [401, 400]);
    assert!(service.terminate(Duration::from_secs(15)).await.unwrap().success());
}

#[test]
fn every_answer_stands_in_the_configuration_and_every_secret_is_named_and_nowhere() {
    let public = ["--public-url", "https://diagnose.example.org/"];
    let cases: [(&[&str], Transport, &[&str]); 2] = [
        (
            &["--slack-transport", "socket", "--database", "postgresql"],
            Transport::Socket,
            &["webhook-token", "slack-bot-token", "slack-app-token", "database-url"],
        ),
        (
            &["--slack-transport", "http", "--database", "file"],
            Transport::Http,
            &["webhook-token", "slack-bot-token", "slack-signing-secret"],
        ),
    ];
    for (arguments, transport, secrets) in cases {
        let (own, said) = written(&[arguments, &public, &["--slack-channel", "#llm-alerts"]].concat());
        let config = Config::load(&own.path().join(FILES[0])).unwrap();
        assert_eq!(config.prometheus[0].url, NOWHERE);
        assert_eq!((config.slack.channel.as_str(), config.slack.transport), ("#llm-alerts", Some(transport)));
        assert_eq!(config.public_url, "https://diagnose.example.org");
        let mut read: Vec<&Path> = config.secret_files();
        let mut expected: Vec<PathBuf> = secrets.iter().map(|name| own.path().join("secrets").join(name)).collect();
        read.sort();
        expected.sort();
        assert_eq!(read, expected);
        assert!(expected.iter().all(|file| said.contains(&format!("  {}\n", file.display()))), "{said}");
        assert_eq!(names(&own.path().join("secrets")), [""; 0]);
    }
}

#[test]
fn a_real_alertmanager_takes_its_file() {
    let (own, printed) = written(&["--webhook-url", "HTTPS://diagnose.example.org:9443/team: llm/"]);
    assert!(printed.contains("it sends to https://diagnose.example.org:9443/team:%20llm; --webhook-url"), "{printed}");
    let file = own.path().join(FILES[1]);
    let output = Command::new("amtool").arg("check-config").arg(&file).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let urls: Vec<String> = parsed(&file)["receivers"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|receiver| receiver["webhook_configs"][0]["url"].as_str().map(str::to_owned))
        .collect();
    let webhook = "https://diagnose.example.org:9443/team:%20llm/webhook/alertmanager";
    assert_eq!(urls, [webhook.to_owned(), format!("{webhook}/main")]);
}

#[test]
fn the_manifest_has_addresses_for_http_and_is_the_shipped_one_for_sockets() {
    let shipped = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("config/slack/manifest.yaml")).unwrap();
    let (own, _) = written(&["--slack-transport", "socket"]);
    assert_eq!(fs::read_to_string(own.path().join(FILES[2])).unwrap(), shipped);

    let (own, _) = written(&["--slack-transport", "http", "--public-url", "https://diagnose.example.org"]);
    let mut expected: Value = serde_saphyr::from_str(&shipped).unwrap();
    let url = |path: &str| Value::from(format!("https://diagnose.example.org/slack/{path}"));
    expected["features"]["slash_commands"][0]["url"] = url("commands");
    expected["settings"]["event_subscriptions"]["request_url"] = url("events");
    expected["settings"]["interactivity"]["request_url"] = url("interactions");
    expected["settings"]["interactivity"]["message_menu_options_url"] = url("interactions");
    expected["settings"]["socket_mode_enabled"] = false.into();
    assert_eq!(parsed(&own.path().join(FILES[2])), expected);
}

#[test]
fn nothing_is_replaced_unless_somebody_says_so() {
    let (own, _) = written(&[]);
    let manifest = own.path().join(FILES[2]);
    fs::remove_file(own.path().join(FILES[0])).unwrap();
    fs::write(&manifest, "mine").unwrap();
    fs::write(own.path().join("secrets/webhook-token"), "t0ken").unwrap();
    let refused = init(own.path(), &["--yes", "--prometheus", NOWHERE]);
    assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
    assert!(said(&refused).contains("exists, nothing was written: pass --force"), "{}", said(&refused));
    assert_eq!(
        (names(own.path()).contains(&FILES[0].to_owned()), fs::read_to_string(&manifest).unwrap().as_str()),
        (false, "mine")
    );

    let forced = init(own.path(), &["--yes", "--force", "--prometheus", NOWHERE]);
    assert!(forced.status.success() && fs::read_to_string(&manifest).unwrap().len() > 1_000, "{}", said(&forced));
    assert_eq!(fs::read_to_string(own.path().join("secrets/webhook-token")).unwrap(), "t0ken");
}

#[test]
fn without_a_terminal_nothing_is_asked_and_what_is_missing_is_named() {
    let own = tempfile::tempdir().unwrap();
    let output = init(own.path(), &["--prometheus", NOWHERE, "--database", "file"]);
    assert_eq!(output.status.code(), Some(2));
    let missing = "nothing is asked: pass --slack-channel, --slack-transport, --public-url, or --yes";
    assert!(said(&output).contains(missing), "{}", said(&output));
    let all = ["--slack-channel", "", "--slack-transport", "socket", "--public-url", "", "--database", "file"];
    assert_eq!(names(own.path()), [""; 0]);
    let output = init(own.path(), &[&["--prometheus", NOWHERE], &all[..]].concat());
    assert!(output.status.success(), "{}", said(&output));
}

#[test]
fn on_a_terminal_five_questions_are_asked_and_a_wrong_answer_once_more() {
    let own = tempfile::tempdir().unwrap();
    let into = own.path().join("new");
    // `script` gives it a terminal.
    let run = format!("{BINARY} init --into {}", into.display());
    let mut child = command("script").args(["-qfec", &run, "/dev/null"]).stdin(Stdio::piped()).spawn().unwrap();
    let answers = format!(
        "prometheus\n{NOWHERE}\nllm-alerts\n#llm-alerts\nhttp\n\nhttp://a.example.org\nhttps://a.example.org\n"
    );
    child.stdin.take().unwrap().write_all(answers.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = said(&output);
    assert!(output.status.success(), "{said}");
    for expected in [
        "[http://127.0.0.1:9090]: ",
        "`prometheus` is no address",
        "`llm-alerts` is no channel: write `#llm-alerts`",
        "[socket]: ",
        "[file]: ",
        "with `http`, Slack calls an https address",
    ] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
    let config = Config::load(&into.join(FILES[0])).unwrap();
    assert_eq!(config.slack.transport, Some(Transport::Http));
    assert_eq!((config.public_url.as_str(), config.database.url_file), ("https://a.example.org", None));

    // The secrets are their owner's; the rest is read by whoever runs the service.
    fs::create_dir(own.path().join("usual")).unwrap();
    let mode = |path: &str| fs::metadata(own.path().join(path)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("new/secrets"), mode("new")), (0o700, mode("usual")));
}

#[test]
fn what_cannot_be_written_down_is_refused_with_what_was_expected() {
    let own = tempfile::tempdir().unwrap();
    let cases: [(&[&str], &str); 7] = [
        (&["--prometheus", "prometheus:9090"], "write it like http://prometheus:9090"),
        (&["--prometheus", "http://me:s3cret@prometheus:9090"], "an address here has no user and no password"),
        (&["--slack-channel", "#LLM alerts"], "is no channel: write its name, like `#llm-alerts`"),
        (&["--slack-transport", "email"], "expected `socket` or `http`"),
        (&["--database", "mysql"], "expected `file` or `postgresql`"),
        (&["--public-url", "diagnose"], "write it like https://llm-diagnose.example.org"),
        (&["--slack-transport", "http"], "--public-url: with `http`, Slack calls an https address"),
    ];
    for (arguments, expected) in cases {
        let output = init(own.path(), &[&["--yes"], arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(said(&output).contains(expected), "{arguments:?}: {}", said(&output));
    }
    assert_eq!(names(own.path()), [""; 0]);
}

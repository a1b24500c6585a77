//! `selftest`: a synthetic alert goes the whole way, and the command says how far it came.

use std::time::Duration;

use llm_diagnose_lab::slack::{Channel, Options};
use llm_diagnose_lab::stack::Prometheus;
use serde_json::Value;
use tokio::process::Command;

use crate::running::{CHANNEL, Running, SOON, whole};

const NOWHERE: &str = "prometheus: [{ url: \"http://127.0.0.1:1\" }]";

/// The command beside the service.
fn command(running: &Running, arguments: &[&str]) -> Command {
    let config = running.service.directory().join("config.yaml");
    let mut command = crate::running::command(&["selftest"]);
    command.args(arguments).env("LLM_DIAGNOSE_CONFIG", config);
    command.env("SLACK_BOT_TOKEN", &running.slack.token).current_dir(running.service.directory());
    command
}

/// Runs the command; returns its exit status, and what it printed.
async fn selftest(running: &Running, arguments: &[&str]) -> (Option<i32>, String) {
    let output = command(running, arguments).output();
    let output = tokio::time::timeout(Duration::from_secs(30), output).await.unwrap().unwrap();
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    (output.status.code(), text)
}

/// The lines without their times.
fn lines(printed: &str) -> Vec<String> {
    let without_time = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let time = words.windows(2).position(|pair| pair[1] == "s" && pair[0].parse::<f64>().is_ok());
        let kept = words.iter().enumerate().filter(|(i, _)| time.is_none_or(|at| *i != at && *i != at + 1));
        kept.map(|(_, word)| *word).collect::<Vec<_>>().join(" ")
    };
    printed.lines().map(without_time).collect()
}

#[tokio::test]
async fn the_whole_way_is_told_stage_by_stage_and_nobody_is_called() {
    let prometheus = Prometheus::builder().start().await.unwrap();
    let pager = "pagers: [{ name: on-call, kind: webhook, on: alert, url: \"http://127.0.0.1:1\", key_file: $CONFIG }]";
    let config = format!("prometheus: [{{ url: \"{}\" }}]\n{pager}", prometheus.url);
    let running = Running::start_slack(Options::unlimited(), "mention: S0123456789", &config).await;

    let (code, printed) = selftest(&running, &[]).await;
    let told = lines(&printed);
    assert_eq!((code, told.len()), (Some(0), 4), "{printed}\n{}", running.service.stderr());
    let message = running.tops(CHANNEL).remove(0);
    let link = format!(
        "ok posted {CHANNEL}: https://lab.slack.com/archives/{}/p{}",
        message.channel,
        message.ts.replace('.', "")
    );
    assert!(told[0].starts_with("ok stored incident "), "{printed}");
    assert!(told[1] == "ok diagnosed Prometheus answered", "{printed}");
    assert_eq!(told[2], link);
    assert_eq!(told[3], "ok resolved the message is green");
    let shown = whole(&message);
    assert!(shown.contains("This is a self test") && shown.contains("RESOLVED"), "{shown}");
    assert!(!shown.contains("S0123456789"), "{shown}");
    let metrics = running.get("/metrics").await.1;
    assert!(!metrics.contains("sink=\"pager\""), "{metrics}");

    let (code, printed) = selftest(&running, &["--channel", "#critical", "--output", "json"]).await;
    let report: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!((code, &report["schema"], &report["ok"]), (Some(0), &"llm-diagnose/selftest/v1".into(), &true.into()));
    assert_eq!((running.tops("#critical").len(), running.tops(CHANNEL).len()), (1, 1), "{report:#}");

    let (code, printed) = selftest(&running, &["--channel", "#random"]).await;
    assert_eq!(code, Some(2));
    assert!(
        printed.contains("`#random` is no channel of the configuration, which has #critical, #llm-alerts"),
        "{printed}"
    );
}

#[tokio::test]
async fn a_slack_that_refuses_ends_the_self_test_with_the_reason_and_what_to_do() {
    let mut options = Options::unlimited().channel(Channel::new("C0CRIT", "critical"));
    options.channels.iter_mut().for_each(|channel| channel.is_member = false);
    let running = Running::start_with(options, NOWHERE).await;
    let (code, printed) = selftest(&running, &["--deadline", "10s"]).await;
    let told = lines(&printed);
    assert_eq!(code, Some(1), "{printed}");
    let refused = format!("FAIL posted Slack refuses messages for {CHANNEL}: not_in_channel");
    let at = told.iter().position(|line| *line == refused).unwrap_or_else(|| panic!("{printed}"));
    assert!(told[at + 1].starts_with("→ type /invite @llm-diagnose in it"), "{printed}");
    let incidents: Value = serde_json::from_str(&running.get("/api/v1/incidents").await.1).unwrap();
    assert_eq!((incidents.as_array().unwrap().len(), &incidents[0]["open"]), (1, &false.into()), "{incidents:#}");
}

#[tokio::test]
async fn a_self_test_that_is_interrupted_ends_its_alert() {
    let running = Running::start(NOWHERE).await;
    // Without a Prometheus it waits for a diagnosis until its deadline.
    let mut test = command(&running, &["--deadline", "10m"]).spawn().unwrap();
    running.wait_for(CHANNEL, |text| text.contains("This is a self test")).await;
    let id = test.id().unwrap().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().await.unwrap().success());
    let status = tokio::time::timeout(SOON, test.wait()).await.unwrap().unwrap();
    assert_eq!(status.code(), Some(2));
    running.wait_for(CHANNEL, |text| text.contains("This is a self test") && text.contains("RESOLVED")).await;
}

#[tokio::test]
async fn a_service_that_does_not_take_the_alert_is_named_with_the_way_out() {
    let running = Running::start(&format!("{NOWHERE}\nwebhook: {{ username: am, password_file: $CONFIG }}")).await;
    let (code, printed) = selftest(&running, &["--url", "http://127.0.0.1:1"]).await;
    assert_eq!(code, Some(1), "{printed}");
    assert!(lines(&printed)[0].starts_with("FAIL stored the webhook cannot be reached"), "{printed}");
    let token = running.service.directory().join("wrong");
    std::fs::write(&token, "wrong").unwrap();
    let (code, printed) = selftest(&running, &["--token-file", token.to_str().unwrap()]).await;
    assert_eq!(code, Some(1), "{printed}");
    let told = lines(&printed);
    assert!(told[0].starts_with("FAIL stored the webhook answered 401"), "{printed}");
    assert_eq!(told[1], "→ pass --config as `serve` has it, or the token with --token-file");
}

#[tokio::test]
async fn an_alert_from_outside_chooses_no_channel_and_a_group_with_a_real_one_is_no_self_test() {
    let running = Running::start(NOWHERE).await;
    let mut group = crate::running::group("LLMDiagnoseSelfTest", "firing", "warning", &["a", "b"]);
    group["alerts"][0]["labels"]["channel"] = "#random".into();
    group["alerts"][1]["labels"]["channel"] = "#random".into();
    running.send(&group).await;
    running.wait_for(CHANNEL, |text| text.contains("This is a self test")).await;
    group["groupKey"] = "mixed".into();
    group["alerts"][0]["labels"]["channel"] = "#critical".into();
    group["alerts"][1]["labels"]["alertname"] = "LLMHighTTFT".into();
    running.send(&group).await;
    running.wait_for(CHANNEL, |text| text.contains("LLMHighTTFT") && !text.contains("This is a self test")).await;
    assert_eq!(running.tops("#critical").len(), 0);
}

//! Many who ask at once, while alerts come in; and a cluster that cannot be asked.

use std::time::{Duration, Instant};

use futures::future::join_all;
use llm_diagnose_lab::kubernetes::{FakeKubernetes, Mode};
use llm_diagnose_lab::slack::Options;
use prom::Prometheus;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::in_slack::{ANN, Stage};
use crate::running::{BINARY, CHANNEL, SOON, check, command, ended, group, tls, until};

/// Slack gives up after so long.
const ACKNOWLEDGED: Duration = Duration::from_secs(3);
/// Far above what a debug build takes, far below what 30 bundles at once would.
const MOST_BYTES: u64 = 600 << 20;

fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

#[tokio::test]
async fn thirty_who_want_bundles_hold_up_neither_two_hundred_alerts_nor_each_other() {
    let stage = Stage::set(Options::unlimited(), "", "").await;
    let url = stage.service.url.clone();
    let http = reqwest::Client::new();
    let alerts = join_all((0..200).map(|n| {
        let body = group(&format!("LLMHighTTFT{n}"), "firing", "warning", &["a"]);
        let sent = http.post(format!("{url}/webhook/alertmanager")).json(&body).send();
        async move { sent.await.unwrap().status().as_u16() }
    }));
    let asked = format!("bundle {}", stage.incident);
    let commands = join_all((0..30).map(|_| async { stage.slack.command(ANN, CHANNEL, &asked).await.unwrap().delay }));
    let list = format!("/api/v1/incidents/{}/bundles", stage.incident);
    let looks = join_all((0..30).map(|_| async { stage.get(&list).await.status().as_u16() }));
    let config = stage.service.directory().join("config.yaml");
    let shells = join_all((0..3).map(|n| {
        let mut command = tokio::process::Command::new(BINARY);
        let output = stage.service.directory().join(format!("{n}.zip"));
        command.args(["bundle", &stage.incident, "-q", "-o"]).arg(output).env("LLM_DIAGNOSE_CONFIG", &config);
        async move { command.output().await.unwrap().status.code() }
    }));
    let (alerts, delays, looks, shells) = tokio::join!(alerts, commands, looks, shells);
    assert!(alerts.iter().chain(&looks).all(|status| *status == 200), "{alerts:?} {looks:?}");
    assert!(delays.iter().all(|delay| *delay < ACKNOWLEDGED), "{delays:?}");
    assert_eq!(shells, [Some(3); 3], "made, without a Prometheus");
    // Everybody is answered, by the one bundle that they share or another one; every alert is looked at.
    let value = |page: &str, name: &str| -> f64 {
        let lines = page.lines().filter(|line| line.starts_with(name));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    };
    let until = Instant::now() + 3 * SOON;
    loop {
        let page = stage.get("/metrics").await.text().await.unwrap();
        let answered = value(&page, "llm_diagnose_acts_total{kind=\"bundle\"");
        let diagnosed = value(&page, "llm_diagnose_diagnoses_total");
        if answered >= 30.0 && diagnosed >= 201.0 {
            assert!(value(&page, "llm_diagnose_bundles_total") >= 1.0, "{page}");
            break;
        }
        assert!(Instant::now() < until, "{answered} answered, {diagnosed} diagnosed: {page}");
        tokio::task::yield_now().await;
    }
    let resident = resident(stage.service.id().unwrap());
    assert!(resident < MOST_BYTES, "{} MiB", resident >> 20);
    assert_eq!(stage.slack.violations(), []);
}

#[tokio::test]
async fn whoever_asks_apart_waits_for_nobody_else() {
    tls();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let config = prom::Config {
        url: format!("http://{}", listener.local_addr().unwrap()),
        concurrency: 1,
        ..prom::Config::default()
    };
    // Answers all questions but the one that is to hang.
    let server = tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut asked = vec![0; 4_096];
                let n = stream.read(&mut asked).await.unwrap();
                if String::from_utf8_lossy(&asked[..n]).contains("hang") {
                    return std::future::pending().await;
                }
                let body = r#"{"status":"success","data":{"resultType":"vector","result":[]}}"#;
                let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close";
                let answer = format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
                stream.write_all(answer.as_bytes()).await.unwrap();
            });
        }
    });
    let alerts = Prometheus::new(&config).unwrap();
    let bundles = alerts.with_own_slots();
    let now = knowledge::clock::now();
    let hanging = tokio::spawn({
        let bundles = bundles.clone();
        async move { bundles.query("hang", now, Instant::now() + SOON).await }
    });
    tokio::task::yield_now().await;
    assert_eq!(alerts.query("up", now, Instant::now() + SOON / 2).await.unwrap().len(), 0);
    assert!(!hanging.is_finished());
    let own = bundles.query("up", now, Instant::now() + Duration::from_millis(200)).await;
    assert!(own.is_err(), "it waits for its own");
    hanging.abort();
    server.abort();
}

#[tokio::test]
async fn without_a_cluster_that_it_may_ask_the_service_goes_on_and_says_so() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let forbidding = FakeKubernetes::start().await.unwrap();
    forbidding.set_mode(Mode::Forbidden);
    let away = llm_diagnose_lab::kubernetes::kubeconfig("http://127.0.0.1:1");
    for (kubeconfig, expected) in [
        (away.as_str(), "cannot be reached"),
        (forbidding.kubeconfig().as_str(), "may not"),
        ("nonsense: [", "the kubeconfig"),
    ] {
        std::fs::write(file.path(), kubeconfig).unwrap();
        let extra = format!("kubernetes: {{ enabled: true, kubeconfig: {} }}", file.path().display());
        let stage = Stage::set(Options::unlimited(), "", &extra).await;
        // A busy machine may take longer than the time of one check, which then says that instead.
        let ask = async || stage.get("/readyz").await.json::<serde_json::Value>().await.unwrap();
        let says = |ready: &serde_json::Value| {
            let check = check(ready, "kubernetes");
            let failed = check["ok"] == false && check["required"] == false && ready["status"] == "degraded";
            failed && check["detail"].as_str().is_some_and(|detail| detail.contains(expected))
        };
        until(SOON, ask, says).await;
        let summary = stage.bundle().await;
        let parts = summary["parts"].as_array().unwrap();
        let part = parts.iter().find(|part| part["name"] == "kubernetes").unwrap();
        assert!(part["stage"] == "failed" && part["note"].as_str().unwrap().contains(expected), "{part}");
    }
}

#[tokio::test]
async fn a_pod_without_a_token_is_warned_of_once_and_is_no_trouble() {
    let stage = Stage::in_a_pod().await;
    let ready: serde_json::Value = stage.get("/readyz").await.json().await.unwrap();
    assert!(ready["checks"].as_array().unwrap().iter().all(|check| check["name"] != "kubernetes"), "{ready}");
    let summary = stage.bundle().await;
    let part = summary["parts"].as_array().unwrap().iter().find(|part| part["name"] == "kubernetes").unwrap();
    assert!(part["stage"] == "skipped" && part["note"].as_str().unwrap().contains("service account"), "{part}");
    assert_eq!(stage.service.stderr().matches("the cluster's API cannot be used").count(), 1);
}

#[tokio::test]
async fn a_loki_without_an_address_is_told_at_the_start() {
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("c.yaml");
    let text = format!(
        "listen: 127.0.0.1:0\nwebhook: {{ authentication: none }}\nstate_dir: {}\nloki: [{{ url: \"loki\" }}]\n",
        directory.path().display()
    );
    std::fs::write(&config, text).unwrap();
    let output = ended(command(&["serve", "--config", config.to_str().unwrap()])).await;
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        !output.status.success() && said.contains("`loki:`") && said.contains("http://loki-gateway:3100"),
        "{said}"
    );
}

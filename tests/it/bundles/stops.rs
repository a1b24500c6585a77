//! Stops in the middle: of the service, orderly and not, and of the command line.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use llm_diagnose_lab::kubernetes::{FakeKubernetes, Mode};
use llm_diagnose_lab::slack::Options;

use super::in_slack::{ANN, Stage};
use crate::running::{BINARY, CHANNEL, SOON, choose, whole};

/// A service whose Prometheus takes connections and says nothing, and whose cluster hangs.
async fn silent() -> (Stage, FakeKubernetes, std::net::TcpListener, tempfile::NamedTempFile) {
    let cluster = FakeKubernetes::start().await.unwrap();
    cluster.set_mode(Mode::Hang);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), cluster.kubeconfig()).unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let extra = format!("kubernetes: {{ enabled: true, kubeconfig: {} }}", file.path().display());
    let prometheus = format!("http://{}", listener.local_addr().unwrap());
    let stage = Stage::beside(&prometheus, Options::unlimited(), "", &extra).await;
    (stage, cluster, listener, file)
}

fn unfinished(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let all = entries.map(|entry| entry.unwrap().path());
    all.filter(|path| path.to_string_lossy().ends_with(".part")).collect()
}

/// Waits until a bundle is being written.
async fn begun(directory: &Path) {
    let until = Instant::now() + SOON;
    while unfinished(directory).is_empty() {
        assert!(Instant::now() < until, "no bundle was begun in {}", directory.display());
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_service_that_is_stopped_while_a_bundle_waits_ends_in_time_and_tells_whoever_waits() {
    let (mut stage, _cluster, _prometheus, _file) = silent().await;
    let bundles = stage.service.directory().join("state/bundles");
    let message = stage.slack.messages(CHANNEL).remove(0);
    choose(&stage.slack, ANN, &message, "bundle").await;
    begun(&bundles).await;
    let began = Instant::now();
    let status = stage.service.terminate(Duration::from_secs(15)).await.unwrap();
    assert!(status.success() && began.elapsed() < Duration::from_secs(10), "{status} {:?}", began.elapsed());
    assert_eq!(unfinished(&bundles), Vec::<PathBuf>::new());
    let told = stage.slack.messages(CHANNEL).iter().any(|message| whole(message).contains("the program stops"));
    assert!(told, "{}\n{}", stage.slack.transcript(CHANNEL), stage.service.stderr());
    stage.service.restart().await.unwrap();
    stage.slack.wait_for(|state| state.connections() == 2, SOON).await.unwrap();
    choose(&stage.slack, ANN, &message, "bundle").await;
    begun(&bundles).await;
}

#[tokio::test]
async fn what_a_killed_service_was_writing_is_removed_by_its_next_start() {
    let (mut stage, _cluster, _prometheus, _file) = silent().await;
    let bundles = stage.service.directory().join("state/bundles");
    stage.slack.command(ANN, CHANNEL, "bundle").await.unwrap();
    begun(&bundles).await;
    stage.service.kill9().await.unwrap();
    assert_eq!(unfinished(&bundles).len(), 1);
    stage.service.restart().await.unwrap();
    assert_eq!(unfinished(&bundles), Vec::<PathBuf>::new());
    assert!(stage.service.stderr().contains("removed a bundle that was never finished"));
}

#[tokio::test]
async fn a_command_that_is_interrupted_leaves_nothing_and_says_so() {
    let prometheus = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", prometheus.local_addr().unwrap());
    // The file begins when the silent Prometheus has been waited for.
    let config = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(config.path(), "diagnose: { deadline: 1s }\n").unwrap();
    for signal in ["INT", "TERM"] {
        let directory = tempfile::tempdir().unwrap();
        let mut command = Command::new(BINARY);
        command.args(["bundle", "--playbook", "high-ttft", "--label", "namespace=llm", "-o", "x.zip"]);
        command.args(["--prometheus", &url, "--config"]).arg(config.path()).current_dir(directory.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        begun(directory.path()).await;
        // Who has begun listens for signals a moment later.
        let until = Instant::now() + SOON;
        let sent = Command::new("kill").args([&format!("-{signal}"), &child.id().to_string()]).status().unwrap();
        assert!(sent.success());
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(Instant::now() < until, "{said}");
        assert!(output.status.code() == Some(2) && said.contains("nothing was written"), "{:?} {said}", output.status);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "{signal}");
    }
}

//! A configuration that changes under a running service: taken over whole, or not at all and said so.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use llm_diagnose_lab::stack::{Postgres, Service, Wire};
use serde_json::Value;
use store::STORE_FILE;
use tokio::net::UnixDatagram;
use tokio::net::unix::pipe;

use crate::running::{BINARY, CHANNEL, Running, SOON, group, tls};

/// How long a reload may take on a machine that is busy with other tests.
const RELOADED: Duration = Duration::from_secs(60);
/// Nothing answers at this Prometheus, and only SIGHUP reloads.
const BY_SIGNAL: &str = "prometheus: [{ url: \"http://127.0.0.1:1\" }]\nreload_interval: 0s";
/// As [`BY_SIGNAL`], and changed files are noticed within a second.
const BY_FILE: &str = "prometheus: [{ url: \"http://127.0.0.1:1\" }]\nreload_interval: 1s";
/// The webhook of the configurations above.
const OPEN: &str = "webhook: { authentication: none }";
const IN_FORCE: &str = "the new configuration is in force";
const REFUSED: &str = "the new configuration cannot be used";

fn file(service: &Service) -> PathBuf {
    service.directory().join("config.yaml")
}

/// Exchanges the configuration file at once: one that is half written is another change.
fn rewrite(service: &Service, from: &str, to: &str) {
    let text = fs::read_to_string(file(service)).unwrap();
    assert!(text.contains(from), "{text}");
    let next = service.directory().join("next.yaml");
    fs::write(&next, text.replace(from, to)).unwrap();
    fs::rename(next, file(service)).unwrap();
}

/// Waits until the log has so many lines with this text.
async fn logged(service: &Service, text: &str, times: usize) {
    service.complains_times(text, times, RELOADED).await.unwrap();
}

/// Reloads and waits until the service has done it `times` times in all.
async fn reload(service: &Service, times: usize) {
    service.hang_up().await.unwrap();
    logged(service, IN_FORCE, times).await;
}

/// The check `configuration` of `/readyz` with the status beside it.
async fn configuration(run: &Running) -> (String, Option<String>) {
    let (status, body) = run.get("/readyz").await;
    assert_eq!(status, 200, "{body}");
    let body: Value = serde_json::from_str(&body).unwrap();
    let checks = body["checks"].as_array().unwrap();
    let check = checks.iter().find(|check| check["name"] == "configuration");
    (body["status"].as_str().unwrap().to_owned(), check.map(|check| check["detail"].as_str().unwrap().to_owned()))
}

async fn successful(run: &Running) -> bool {
    let (_, page) = run.get("/metrics").await;
    let value = |name: &str| page.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<i64>().ok());
    assert!(value("llm_diagnose_config_last_reload_success_timestamp_seconds ").unwrap() > 1_700_000_000, "{page}");
    value("llm_diagnose_config_last_reload_successful ").unwrap() == 1
}

#[tokio::test]
async fn a_hangup_takes_over_the_new_channel() {
    let run = Running::start(BY_SIGNAL).await;
    run.send(&group("Before", "firing", "warning", &["a"])).await;
    run.wait_for(CHANNEL, |message| message.contains("Before")).await;
    rewrite(&run.service, CHANNEL, "#critical");
    reload(&run.service, 1).await;
    run.send(&group("After", "firing", "warning", &["a"])).await;
    run.wait_for("#critical", |message| message.contains("After")).await;
    assert!(run.tops(CHANNEL).iter().all(|message| !crate::running::whole(message).contains("After")));
    assert!(successful(&run).await);
}

/// Sends groups one after the other until told to stop; returns the names, and the errors of connecting.
async fn sender(url: String, prefix: &'static str, end: Arc<AtomicBool>) -> (Vec<String>, Vec<String>) {
    let http = reqwest::Client::new();
    let (mut names, mut refused) = (Vec::new(), Vec::new());
    while !end.load(Ordering::Relaxed) && names.len() < 400 {
        let name = format!("{prefix}{}", names.len());
        let body = group(&name, "firing", "warning", &["a"]);
        loop {
            match http.post(format!("{url}/webhook/alertmanager")).json(&body).timeout(RELOADED).send().await {
                Ok(answer) => {
                    assert_eq!(answer.status(), 200, "{name}");
                    break;
                }
                Err(error) if error.is_connect() => refused.push(format!("{error:?}")),
                // An idle connection that was closed as the request went out.
                Err(error) => assert!(error.is_request(), "{error:?}"),
            }
        }
        names.push(name);
    }
    (names, refused)
}

#[tokio::test]
async fn no_webhook_is_lost_or_refused_while_it_reloads_under_load() {
    let run = Running::start(BY_SIGNAL).await;
    let end = Arc::new(AtomicBool::new(false));
    let senders = ["a", "b"].map(|prefix| tokio::spawn(sender(run.service.url.clone(), prefix, Arc::clone(&end))));
    for times in 1..=3 {
        reload(&run.service, times).await;
    }
    end.store(true, Ordering::Relaxed);
    let mut sent = BTreeSet::new();
    for sender in senders {
        let (names, refused) = sender.await.unwrap();
        assert_eq!(refused, [""; 0]);
        sent.extend(names);
    }
    assert!(sent.len() > 10, "{sent:?}");
    let address = format!("sqlite:{}", run.service.directory().join("state").join(STORE_FILE).display());
    sqlx::any::install_default_drivers();
    let database = sqlx::AnyPool::connect(&address).await.unwrap();
    let keys: Vec<String> = sqlx::query_scalar("SELECT group_key FROM incidents").fetch_all(&database).await.unwrap();
    let key = |name: &String| format!("{{}}:{{alertname=\"{name}\"}}");
    let lost: Vec<_> = sent.iter().filter(|name| !keys.contains(&key(name))).collect();
    assert_eq!((lost, keys.len()), (Vec::new(), sent.len()));
}

#[tokio::test]
async fn a_bad_file_keeps_the_old_configuration_and_says_so_until_it_is_corrected() {
    let run = Running::start(BY_FILE).await;
    assert!(successful(&run).await);
    rewrite(
        &run.service,
        "slack: {",
        "slack: { chanel: x, bot_token: xoxb-111111111111-222222222222-abcdefghijklmnopqrstuvwx,",
    );
    logged(&run.service, REFUSED, 1).await;
    let (status, detail) = configuration(&run).await;
    let detail = detail.unwrap();
    assert_eq!(status, "degraded");
    assert!(detail.contains("the previous configuration stays in force"), "{detail}");
    let log = run.service.stderr();
    assert!(log.contains("config.yaml") && !detail.contains("config.yaml"), "anybody may read it: {detail}\n{log}");
    assert!(!detail.contains("xoxb-1") && !log.contains("xoxb-1"), "{detail}\n{log}");
    assert!(log.contains("chanel") || log.contains("bot_token"), "{log}");
    assert!(!successful(&run).await);
    run.send(&group("Still", "firing", "warning", &["a"])).await;
    run.wait_for(CHANNEL, |message| message.contains("Still")).await;

    rewrite(&run.service, "chanel: x, bot_token: xoxb-111111111111-222222222222-abcdefghijklmnopqrstuvwx,", "");
    logged(&run.service, IN_FORCE, 1).await;
    assert_eq!(configuration(&run).await.1, None);
    assert!(successful(&run).await);
    assert_eq!(run.service.stderr().matches(REFUSED).count(), 1, "{}", run.service.stderr());
}

#[tokio::test]
async fn what_needs_a_restart_is_named_and_nothing_of_the_change_is_taken_over() {
    let run = Running::start(BY_SIGNAL).await;
    for (key, from, to) in [
        ("listen", "listen: 127.0.0.1:", "listen: 127.0.0.2:"),
        ("state_dir", "/state\n", "/elsewhere\n"),
        ("log", "reload_interval: 0s", "reload_interval: 0s\nlog: json"),
    ] {
        let before = fs::read_to_string(file(&run.service)).unwrap();
        rewrite(&run.service, CHANNEL, "#critical");
        rewrite(&run.service, from, to);
        run.service.hang_up().await.unwrap();
        run.service.complains(&format!("`{key}` was changed, which needs a restart"), RELOADED).await.unwrap();
        fs::write(file(&run.service), before).unwrap();
    }
    run.send(&group("Here", "firing", "warning", &["a"])).await;
    run.wait_for(CHANNEL, |message| message.contains("Here")).await;
    assert_eq!(run.service.stderr().matches(IN_FORCE).count(), 0);
}

/// As Kubernetes mounts a ConfigMap or a Secret: a link to a directory that is exchanged whole.
fn mount(directory: &Path, version: &str, name: &str, content: &str) {
    let copy = directory.join(format!("..{version}"));
    fs::create_dir_all(&copy).unwrap();
    fs::write(copy.join(name), content).unwrap();
    let next = directory.join("..next");
    std::os::unix::fs::symlink(&copy, &next).unwrap();
    fs::rename(&next, directory.join("..data")).unwrap();
    if !directory.join(name).exists() {
        std::os::unix::fs::symlink(format!("..data/{name}"), directory.join(name)).unwrap();
    }
}

#[tokio::test]
async fn a_secret_and_a_playbook_that_kubernetes_exchanges_are_taken_over() {
    let mounted = tempfile::tempdir().unwrap();
    let playbooks = tempfile::tempdir().unwrap();
    mount(mounted.path(), "one", "token", "first-token");
    let extra = format!(
        "{BY_FILE}\nwebhook: {{ bearer_token_file: {} }}\nplaybooks: {{ dir: {} }}\npages: {{ authentication: required }}",
        mounted.path().join("token").display(),
        playbooks.path().display()
    );
    let run = Running::start(&extra).await;
    let status = async |token: &str| {
        let body = group("Token", "firing", "warning", &["a"]);
        let url = format!("{}/webhook/alertmanager", run.service.url);
        run.http.post(url).bearer_auth(token).json(&body).send().await.unwrap().status().as_u16()
    };
    assert_eq!((status("first-token").await, status("second-token").await), (200, 401));
    mount(mounted.path(), "two", "token", "second-token");
    logged(&run.service, IN_FORCE, 1).await;
    assert_eq!((status("first-token").await, status("second-token").await), (401, 200));

    mount(playbooks.path(), "one", "broken.yaml", "playbook: [");
    logged(&run.service, REFUSED, 1).await;
    assert!(configuration(&run).await.1.is_some());
    assert!(run.service.stderr().contains("1 problem in the playbooks"), "{}", run.service.stderr());
    fs::remove_file(playbooks.path().join("broken.yaml")).unwrap();
    logged(&run.service, IN_FORCE, 2).await;
    assert_eq!(configuration(&run).await.1, None);
}

#[tokio::test]
async fn a_configuration_that_comes_before_its_secret_is_taken_over_with_the_secret() {
    let run = Running::start(BY_FILE).await;
    let token = run.service.directory().join("token");
    rewrite(&run.service, OPEN, &format!("webhook: {{ bearer_token_file: {} }}", token.display()));
    logged(&run.service, REFUSED, 1).await;
    fs::write(&token, "late-token").unwrap();
    logged(&run.service, IN_FORCE, 1).await;
}

#[tokio::test]
async fn a_directory_that_cannot_be_made_is_found_before_the_service_is_stopped() {
    let run = Running::start(BY_SIGNAL).await;
    rewrite(&run.service, "reload_interval: 0s", "reload_interval: 0s\nbundle: { dir: /proc/nowhere }");
    run.service.hang_up().await.unwrap();
    run.service.complains("cannot keep bundles", RELOADED).await.unwrap();
    let log = run.service.stderr();
    assert!(log.contains(REFUSED) && !log.contains("back to the old one"), "{log}");
}

#[tokio::test]
async fn a_secret_that_stands_in_the_wrong_place_is_not_shown_to_everybody() {
    let run = Running::start(BY_SIGNAL).await;
    rewrite(&run.service, OPEN, "webhook: { bearer_token_file: mellon-2026 }");
    run.service.hang_up().await.unwrap();
    logged(&run.service, REFUSED, 1).await;
    let detail = configuration(&run).await.1.unwrap();
    let log = run.service.stderr();
    assert!(log.contains("cannot read") && !detail.contains("mellon"), "{detail}\n{log}");
}

#[tokio::test]
async fn a_change_while_the_database_is_away_is_taken_over_once_it_is_back() {
    let postgres = Postgres::start().unwrap();
    let wire = Wire::start(postgres.socket()).await.unwrap();
    let address = postgres.file(&wire.url()).unwrap();
    let run = Running::start(&format!("{BY_FILE}\ndatabase: {{ url_file: {} }}", address.path().display())).await;
    wire.silence();
    rewrite(&run.service, CHANNEL, "#critical");
    logged(&run.service, REFUSED, 1).await;
    wire.lead_to(postgres.socket());
    logged(&run.service, IN_FORCE, 1).await;
    assert_eq!(configuration(&run).await.1, None);
}

fn entries(id: u32, of: &str) -> usize {
    fs::read_dir(format!("/proc/{id}/{of}")).unwrap().count()
}

#[tokio::test]
async fn ten_reloads_leave_no_thread_and_no_open_file_behind() {
    let run = Running::start(BY_SIGNAL).await;
    let id = run.service.id().unwrap();
    reload(&run.service, 1).await;
    let first = (entries(id, "fd"), entries(id, "task"));
    for times in 2..=11 {
        reload(&run.service, times).await;
    }
    // Connections and idle threads come and go; ten of something would stay.
    let settled = async {
        while entries(id, "fd") > first.0 + 4 || entries(id, "task") > first.1 + 4 {
            run.get("/healthz").await;
        }
    };
    let settled = tokio::time::timeout(SOON, settled).await;
    assert!(settled.is_ok(), "{first:?} became {:?}", (entries(id, "fd"), entries(id, "task")));
    let (_, healthy) = run.get("/healthz").await;
    assert_eq!(healthy, "ok\n");
}

#[tokio::test]
async fn a_stop_during_a_reload_ends_the_service() {
    let mut run = Running::start(BY_SIGNAL).await;
    run.service.hang_up().await.unwrap();
    assert!(run.service.terminate(RELOADED).await.unwrap().success());
}

#[tokio::test]
async fn a_stop_while_a_file_cannot_be_read_ends_the_service() {
    let mut run = Running::start(BY_SIGNAL).await;
    // Who reads a pipe that nobody writes to waits, as with a file system that hangs.
    let path = run.service.directory().join("pipe");
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    rewrite(&run.service, OPEN, &format!("webhook: {{ bearer_token_file: {} }}", path.display()));
    run.service.hang_up().await.unwrap();
    // It can be opened for writing only once somebody has opened it for reading.
    let reading = async {
        loop {
            match pipe::OpenOptions::new().open_sender(&path) {
                Ok(sender) => return sender,
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    };
    let _silent = tokio::time::timeout(SOON, reading).await.unwrap_or_else(|_| panic!("{}", run.service.stderr()));
    assert!(run.service.terminate(Duration::from_secs(15)).await.unwrap().success());
}

#[tokio::test]
async fn systemd_hears_of_a_reload_and_of_its_end() {
    tls();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    let config =
        format!("listen: 127.0.0.1:$PORT\nwebhook: {{ authentication: none }}\nstate_dir: $DIR/state\n{BY_SIGNAL}\n");
    let env = [("NOTIFY_SOCKET", path.to_str().unwrap())];
    let service = Service::start(Path::new(BINARY), &["serve", "--config", "$CONFIG"], &env, &config).await.unwrap();
    service.hang_up().await.unwrap();
    for expected in ["READY=1", "RELOADING=1", "READY=1"] {
        let mut buffer = [0; 256];
        let n = tokio::time::timeout(RELOADED, socket.recv(&mut buffer)).await.expect("systemd hears of it").unwrap();
        assert_eq!(String::from_utf8_lossy(&buffer[..n]), expected);
    }
}

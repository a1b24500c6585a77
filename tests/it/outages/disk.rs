//! A disk that is full, and has room again.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use jiff::Timestamp;
use knowledge::alert::AlertGroup;
use knowledge::incident::AdmissionRules;
use llm_diagnose_lab::slack::{Failure, FakeSlack, Options};
use llm_diagnose_lab::stack::Service;

use bundle::BundleDirectory;
use sqlx::{ConnectOptions, Connection, Executor};
use store::{AdmissionPlan, Sink, Store};

use crate::admission::CALM;
use crate::running::{BINARY, CHANNEL, Running, SOON, check, group, tls, until, without_authentication};

/// How soon alerts are taken again once there is room: the store is tried every 5 s, and a busy machine is slow.
const AGAIN: Duration = Duration::from_secs(15);

/// How a test makes a disk full.
enum Disk {
    /// A small file system of the service's own, where the machine lets us mount one.
    Small,
    /// A limit on the size of files, which a quota resembles.
    Limit,
}

impl Disk {
    fn of_this_machine() -> Self {
        let mounts = Command::new("unshare").args(["-rm", "mount", "-t", "tmpfs", "none", "/mnt"]).output();
        if mounts.is_ok_and(|output| output.status.success()) { Self::Small } else { Self::Limit }
    }

    /// The service, started so that its disk can be made full.
    async fn serve(&self, slack: &FakeSlack, bundles: usize) -> Service {
        let config = format!(
            "listen: 127.0.0.1:$PORT\nstate_dir: $DIR/state\nslack: {{ api_url: \"{}\", channel: \"{CHANNEL}\" }}\n\
             prometheus: [{{ url: \"http://127.0.0.1:1\" }}]\n",
            slack.base_url
        );
        let first = format!(
            "mkdir -p $DIR/state/bundles && for i in $(seq 1 {bundles}); do \
             head -c 1048576 /dev/zero > $DIR/state/bundles/llm-diagnose-X-20261120T03000${{i}}Z.zip; done"
        );
        let (program, options) = match self {
            Self::Small => ("unshare", &["-rm", "sh", "-c"][..]),
            Self::Limit => ("sh", &["-c"][..]),
        };
        let mount = match self {
            Self::Small => "mkdir -p $DIR/state && mount -t tmpfs -o size=12m none $DIR/state &&",
            // The signal would end the program; a full disk sends none.
            Self::Limit => "trap '' XFSZ;",
        };
        let run = format!("{mount} {first} && exec {BINARY} serve --config $CONFIG");
        let arguments: Vec<&str> = options.iter().copied().chain([run.as_str()]).collect();
        Service::start(
            Path::new(program),
            &arguments,
            &[("SLACK_BOT_TOKEN", slack.token.as_str())],
            &without_authentication(&config),
        )
        .await
        .unwrap()
    }

    /// The state directory as the service sees it.
    fn state(&self, service: &Service) -> PathBuf {
        let state = service.directory().join("state");
        match self {
            Self::Small => {
                Path::new(&format!("/proc/{}/root", service.id().unwrap())).join(state.strip_prefix("/").unwrap())
            }
            Self::Limit => state,
        }
    }

    fn fill(&self, service: &Service) {
        match self {
            Self::Small => {
                let path = self.state(service).join("fill");
                let mut file = fs::File::options().create(true).append(true).open(path).unwrap();
                // The last ones of the disk are taken piece by piece.
                for piece in [1 << 16, 1 << 12] {
                    while file.write_all(&vec![1; piece]).is_ok() {}
                }
            }
            Self::Limit => self.limit(service, "4096:unlimited"),
        }
    }

    fn free(&self, service: &Service) {
        match self {
            Self::Small => fs::remove_file(self.state(service).join("fill")).unwrap(),
            Self::Limit => self.limit(service, "unlimited:unlimited"),
        }
    }

    fn limit(&self, service: &Service, size: &str) {
        let of = ["--pid", &service.id().unwrap().to_string(), &format!("--fsize={size}")].map(str::to_owned);
        assert!(Command::new("prlimit").args(of).status().unwrap().success());
    }
}

#[tokio::test]
async fn a_full_disk_gives_bundles_for_alerts_then_refuses_then_takes_them_again_without_a_restart() {
    tls();
    let disk = Disk::of_this_machine();
    let slack = FakeSlack::start(Options::unlimited()).await.unwrap();
    let service = disk.serve(&slack, 4).await;
    let run = Running { service, slack, http: reqwest::Client::new() };
    let bundles = || fs::read_dir(disk.state(&run.service).join("bundles")).unwrap().count();
    let send =
        async |name: &str| run.webhook(serde_json::to_vec(&group(name, "firing", "page", &["a"])).unwrap()).await;
    run.send(&group("First", "firing", "warning", &["a"])).await;
    run.wait_for(CHANNEL, |message| message.contains("First")).await;
    // An edit waits for Slack while the disk becomes full.
    run.slack.fail_next("chat.update", Failure::RateLimited(6), 1);
    run.send(&group("First", "resolved", "warning", &["a"])).await;
    run.slack.wait_for(|state| state.count("chat.update") >= 1, SOON).await.unwrap();
    assert_eq!(bundles(), 4);
    disk.fill(&run.service);

    // As long as bundles can give way, nobody is refused on a disk that is only full.
    let mut refused = false;
    for i in 0..400 {
        let (status, answer) = send(&format!("While{i}")).await;
        refused = status == 503;
        if refused {
            assert_eq!(bundles(), 0, "bundles are given up first: {answer}");
            break;
        }
        assert_eq!(status, 200, "{answer}");
        if bundles() == 0 {
            disk.fill(&run.service);
        }
    }
    assert!(refused, "the disk is not full");

    // What needs no room goes on.
    assert_eq!(run.get("/healthz").await.0, 200);
    let (status, ready) = run.get("/readyz").await;
    let ready: serde_json::Value = serde_json::from_str(&ready).unwrap();
    assert_eq!((status, &check(&ready, "store")["ok"]), (503, &false.into()), "{ready}");
    let (status, listed) = run.get("/api/v1/incidents").await;
    assert!(status == 200 && listed.contains("First"), "{status} {listed}");
    run.wait_for(CHANNEL, |message| message.contains("First") && message.contains("RESOLVED")).await;
    assert_eq!(send("Still").await.0, 503, "it is full as before");

    disk.free(&run.service);
    until(AGAIN, async || send("After").await, |(status, _)| *status == 200).await;
    run.wait_for(CHANNEL, |message| message.contains("After")).await;
    until(AGAIN, async || run.get("/readyz").await, |(status, _)| *status == 200).await;
    assert_eq!(run.slack.violations(), []);
}

fn firing(name: &str) -> [(AlertGroup, AdmissionPlan); 1] {
    let body = serde_json::to_vec(&group(name, "firing", "critical", &["a", "b"])).unwrap();
    let sinks = vec![(Sink::Slack, CHANNEL.to_owned())];
    let selection = Some(("high-ttft".to_owned(), "its name".to_owned()));
    let wanted = AdmissionPlan { selection, sinks, filtered: Vec::new(), grace: Duration::ZERO, storm: CALM };
    [(AlertGroup::from_webhook(&body).unwrap(), wanted)]
}

#[tokio::test]
async fn a_transaction_that_the_database_ended_by_itself_leaves_nothing_behind() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let store = Store::open(&path).await.unwrap();
    let now: Timestamp = "2026-11-20T18:07:00Z".parse().unwrap();
    let rules = AdmissionRules { duplicate_within: Duration::from_secs(60), reopen_within: Duration::from_secs(600) };
    let id = store.admit(&firing("A"), now, &rules).await.unwrap().remove(0).unwrap().incident;
    // SQLite ends the whole transaction here, as it does when a disk is full or fails.
    let mut beside = sqlx::sqlite::SqliteConnectOptions::new().filename(&path).connect().await.unwrap();
    for (name, what) in [("a", "INSERT ON events"), ("b", "UPDATE ON incidents")] {
        let sql = format!("CREATE TRIGGER {name} BEFORE {what} BEGIN SELECT RAISE(ROLLBACK, 'no more'); END");
        beside.execute(sqlx::AssertSqlSafe(sql)).await.unwrap();
    }
    for _ in 0..3 {
        let refused = store.admit(&firing("B"), now, &rules).await.unwrap_err().to_string();
        assert!(refused.contains("no more"), "the first error says what is wrong: {refused}");
        assert!(store.touch(&id).await.is_err());
        assert!(store.incident(&id).await.unwrap().is_some(), "reading goes on");
    }
    assert!(store.dead(Duration::ZERO).is_some_and(|why| why.contains("no more")), "{:?}", store.trouble());
    assert_eq!(store.dead(Duration::from_secs(60)), None, "it may pass");
    for name in ["a", "b"] {
        beside.execute(sqlx::AssertSqlSafe(format!("DROP TRIGGER {name}"))).await.unwrap();
    }
    beside.close().await.unwrap();
    store.admit(&firing("B"), now, &rules).await.unwrap().remove(0).unwrap();
    store.touch(&id).await.unwrap();
    store.ping().await.unwrap();
    assert_eq!(store.dead(Duration::ZERO), None);
}

#[test]
fn only_bundles_on_the_disk_of_the_store_give_way_and_the_oldest_first() {
    let state = tempfile::tempdir().unwrap();
    let directory = BundleDirectory::open(&service::config::BundleConfig::default(), state.path()).unwrap();
    let large = |second: u32| {
        let path = directory.dir.join(format!("llm-diagnose-X-20261120T03000{second}Z.zip"));
        // Its size counts, and no zero needs room.
        fs::File::create(path).unwrap().set_len(20 << 20).unwrap();
    };
    (1..=3).for_each(large);
    assert_eq!(directory.give_way().unwrap(), 2, "40 MiB are enough for now");
    assert_eq!(directory.list(None).unwrap()[0].name.to_string(), "llm-diagnose-X-20261120T030003Z.zip");
    assert_eq!((directory.give_way().unwrap(), directory.give_way().unwrap()), (1, 0));
}

//! The site: two Alertmanagers in one cluster, the recording proxy, the service, Slack and two pagers.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use knowledge::clock;
use llm_diagnose_lab::pager::FakePager;
use llm_diagnose_lab::slack::{FakeSlack, Message, Options, State};
use llm_diagnose_lab::stack::{Alertmanager, Postgres, Service};
use serde_json::{Value, json};
use sqlx::AnyPool;
use store::STORE_FILE;
use tempfile::NamedTempFile;

use super::Limits;
use super::outcome::{OVER, Outcome, Stored};
use super::proxy::Proxy;
use crate::running::{BINARY, CHANNEL, tls, whole, without_authentication};

const ROUTING_KEY: &str = "0123456789abcdef0123456789abcdef";
const PAGER_KEY: &str = "whsec_c2VjcmV0IG9mIHRoZSB0ZXN0cw==";
/// The name of the alerts that make storms: a digest is of one topic.
const TOGETHER: &str = "KilledTogether";
/// The time for which an alert fires unless it ends before.
const FIRES_FOR: Duration = Duration::from_secs(7_200);
/// The time without any call after which the site is quiet: Alertmanager retries within 6 s.
const QUIET: Duration = Duration::from_secs(6);
/// The next search for a duplicate that is due later than this is the one a day after the call.
const LAST_SEARCH_MS: i64 = 3_600_000;

/// Rows of the store that wait or were given up.
const WAITING: &str = "
    SELECT (SELECT COUNT(*) FROM incidents WHERE state = 'open')
         + (SELECT COUNT(*) FROM deliveries d JOIN incidents i ON i.id = d.incident_id
              WHERE d.state = 'failed' OR (d.state = 'pending' AND d.revision < i.revision))
         + (SELECT COUNT(*) FROM digests WHERE state <> 'done')
         + (SELECT COUNT(*) FROM posts WHERE state <> 'done')";
/// The messages that incidents are meant for: group key, incident, its digest.
const STORED: &str = "
    SELECT i.group_key, i.id, d.digest_id FROM incidents i LEFT JOIN deliveries d ON d.incident_id = i.id AND d.sink = 'slack'";
/// Searches for duplicates and diagnoses that come before $1; those that a process was killed at wait for their lease.
const PLANNED: &str = "
    SELECT (SELECT COUNT(*) FROM looks WHERE due_ms < $1)
         + (SELECT COUNT(*) FROM incidents WHERE diagnose_due_ms < $1)";

/// A running site, and what has fired.
pub(super) struct Site {
    pub(super) service: Service,
    pub(super) slack: FakeSlack,
    /// Number of times that the process has ended.
    pub(super) kills: usize,
    pager: FakePager,
    alertmanagers: [Alertmanager; 2],
    proxy: Proxy,
    database: AnyPool,
    groups: Vec<Group>,
    _files: Vec<NamedTempFile>,
}

/// A group of alerts.
struct Group {
    /// Name and start.
    alerts: Vec<(String, Timestamp)>,
    is_over: bool,
}

/// The name of a group's first or second alert.
pub(super) fn name(group: impl std::fmt::Display, alert: char) -> String {
    format!("Killed{group}{alert}")
}

fn file(text: &str) -> NamedTempFile {
    let file = NamedTempFile::new().unwrap();
    std::fs::write(file.path(), format!("{text}\n")).unwrap();
    file
}

fn free_address() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

async fn alertmanagers(webhook: &str) -> [Alertmanager; 2] {
    let addresses = [free_address(), free_address()];
    let [one, other] = [0, 1].map(|n| {
        let builder = Alertmanager::builder().webhook(webhook, json!({})).group_by(&["group"]);
        builder.cluster(&addresses[n], &addresses[1 - n]).start()
    });
    let pair = [one.await.unwrap(), other.await.unwrap()];
    for alertmanager in &pair {
        alertmanager.clustered(2).await.unwrap();
    }
    pair
}

impl Site {
    /// Starts it all with this line about Prometheus, on SQLite unless there is a PostgreSQL.
    pub(super) async fn start(postgres: Option<&Postgres>, prometheus: &str) -> Self {
        tls();
        let slack = FakeSlack::start(Options { latency: Duration::from_millis(20), ..Options::unlimited() });
        let (slack, pager) = (slack.await.unwrap(), FakePager::start(ROUTING_KEY, PAGER_KEY).await.unwrap());
        let (key, routing_key) = (file(PAGER_KEY), file(ROUTING_KEY));
        let mut config = format!(
            "listen: 127.0.0.1:$PORT\nstate_dir: $DIR/state\n{prometheus}\n\
             slack: {{ api_url: \"{}\", channel: \"{CHANNEL}\", posts_per_second: 1000, posts_burst: 1000, \
             updates_per_minute: 60000, storm: {{ incidents: 2, within: 2s }} }}\n\
             pagers:\n\
             - {{ name: tools, kind: webhook, url: \"{}\", key_file: {} }}\n\
             - {{ name: people, kind: pagerduty, url: \"{}\", key_file: {} }}\n",
            slack.base_url,
            pager.webhook_url,
            key.path().display(),
            pager.events_url,
            routing_key.path().display()
        );
        let mut files = vec![key, routing_key];
        if let Some(postgres) = postgres {
            let address = postgres.file(&postgres.url()).unwrap();
            config.push_str(&format!("database: {{ url_file: {} }}\n", address.path().display()));
            files.push(address);
        }
        let service = Service::builder(Path::new(BINARY))
            .args(["serve", "--config", "$CONFIG"])
            .env("SLACK_BOT_TOKEN", &slack.token)
            .env("LLM_DIAGNOSE_FAILPOINTS", "$DIR/failpoints")
            .config(&without_authentication(&config))
            .start()
            .await
            .unwrap();
        std::fs::create_dir(service.directory().join("failpoints")).unwrap();
        sqlx::any::install_default_drivers();
        let sqlite = || format!("sqlite:{}?mode=ro", service.directory().join("state").join(STORE_FILE).display());
        let database = AnyPool::connect(&postgres.map_or_else(sqlite, Postgres::url)).await.unwrap();
        let proxy = Proxy::start(format!("{}/webhook/alertmanager", service.url)).await;
        let alertmanagers = alertmanagers(&proxy.url).await;
        Self { service, slack, kills: 0, pager, alertmanagers, proxy, database, groups: Vec::new(), _files: files }
    }

    /// The alert of a new group fires, with a name of its own or with that of the storms.
    pub(super) async fn fire(&mut self, together: bool) {
        let group = self.groups.len();
        self.groups.push(Group { alerts: Vec::new(), is_over: false });
        self.begin(group, if together { TOGETHER.to_owned() } else { name(group, 'A') }).await;
    }

    /// The newest groups.
    pub(super) fn newest(&self, groups: usize) -> std::ops::Range<usize> {
        self.groups.len().saturating_sub(groups)..self.groups.len()
    }

    /// A second alert of an open group of its own fires, unless it has one.
    pub(super) async fn fire_second(&mut self, group: usize) {
        let Group { alerts, is_over } = &self.groups[group];
        if alerts.len() == 1 && alerts[0].0 != TOGETHER && !is_over && self.is_acknowledged(group) {
            self.begin(group, name(group, 'B')).await;
        }
    }

    async fn begin(&mut self, group: usize, alert: String) {
        let alert = (alert, clock::now());
        self.post(&[as_json(group, &alert, None)]).await;
        self.groups[group].alerts.push(alert);
    }

    /// All alerts of the groups below this one end. A group that was never acknowledged goes on: Alertmanager reports no
    /// end of what it has not reported.
    pub(super) async fn resolve_below(&mut self, end: usize) {
        for group in 0..end {
            if !self.groups[group].is_over && self.is_acknowledged(group) {
                self.groups[group].is_over = true;
                let alerts = self.groups[group].alerts.iter();
                let ended: Vec<Value> = alerts.map(|alert| as_json(group, alert, Some(clock::now()))).collect();
                self.post(&ended).await;
            }
        }
    }

    /// The alert of a group ends if it fires, and else fires anew; what was not reported yet stays as it is.
    pub(super) async fn flap(&mut self, group: usize) {
        while self.groups.len() <= group {
            self.groups.push(Group { alerts: Vec::new(), is_over: true });
        }
        match self.groups[group].is_over {
            true => {
                self.groups[group].is_over = false;
                self.begin(group, name(group, 'A')).await;
            }
            false => self.end_last(group).await,
        }
    }

    /// The last alert of a group ends, once it was reported.
    async fn end_last(&mut self, group: usize) {
        if let Some(alert) = self.groups[group].alerts.last().filter(|_| self.is_acknowledged(group)) {
            self.post(&[as_json(group, alert, Some(clock::now()))]).await;
            self.groups[group].is_over = true;
        }
    }

    /// Ends what still fires; returns false if not all messages say so within this time, or work is left in the store.
    pub(super) async fn all_over(&mut self, within: Duration) -> bool {
        let until = Instant::now() + within;
        while Instant::now() < until {
            for group in 0..self.groups.len() {
                if !self.groups[group].is_over {
                    self.end_last(group).await;
                }
            }
            let messages = self.slack.messages(CHANNEL);
            let tops = || messages.iter().filter(|message| message.thread_ts.is_none());
            let is_over = self.groups.iter().all(|group| group.is_over)
                && tops().count() > 0
                && tops().all(|message| whole(message).contains(OVER));
            if is_over && self.waiting().await == 0 {
                return true;
            }
            self.has_content_call(Duration::from_secs(1)).await;
        }
        false
    }

    fn is_acknowledged(&self, group: usize) -> bool {
        let group = group.to_string();
        self.proxy.recorded.borrow().alerts.iter().any(|(acknowledged, _)| *acknowledged == group)
    }

    /// Sends alerts to both Alertmanagers, as Prometheus does.
    async fn post(&self, alerts: &[Value]) {
        for alertmanager in &self.alertmanagers {
            alertmanager.post_alerts(alerts).await.unwrap();
        }
    }

    fn failpoints(&self) -> PathBuf {
        self.service.directory().join("failpoints")
    }

    /// Arms these stages: the process ends once at each.
    pub(super) fn arm<'a>(&self, stages: impl Iterator<Item = &'a &'a str>) {
        for stage in stages {
            std::fs::write(self.failpoints().join(stage), "").unwrap();
        }
    }

    /// The stages that were not reached yet.
    pub(super) fn armed(&self) -> Vec<String> {
        let files = std::fs::read_dir(self.failpoints()).unwrap();
        files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect()
    }

    /// Waits so long for the process to end at a stage, and starts it again if it has.
    pub(super) async fn restart_if_ended(&mut self, within: Duration) {
        if self.service.exit(within).await.is_ok() {
            self.kills += 1;
            self.restart().await;
        }
    }

    /// Starts the process, also where it ends at a stage before it is ready.
    async fn restart(&mut self) {
        loop {
            let armed = self.armed().len();
            match self.service.restart().await {
                Ok(()) => return,
                Err(error) => assert!(self.armed().len() < armed, "{error}"),
            }
            self.kills += 1;
        }
    }

    /// Kills the process after so long, and starts it again.
    pub(super) async fn kill_after(&mut self, moment: Duration) {
        tokio::time::sleep(moment).await;
        self.kill().await;
        self.restart().await;
    }

    /// Kills the process, and again so long after the next start began.
    pub(super) async fn kill_in_start(&mut self, moment: Duration) {
        self.kill().await;
        // Only the wait for its readiness is cut off.
        let _ = tokio::time::timeout(moment, self.service.restart()).await;
        self.kill().await;
        self.restart().await;
    }

    async fn kill(&mut self) {
        self.service.kill9().await.unwrap();
        self.kills += 1;
    }

    /// Ends every group and counts twice: as soon as nothing is wrong, and again after the site has been quiet.
    /// `thorough`: quiet only once no search for a duplicate, but the one a day later, and no diagnosis is planned.
    pub(super) async fn settled(&mut self, limits: &Limits, thorough: bool) -> [Outcome; 2] {
        let groups = self.groups.len();
        let mut recorded = self.proxy.recorded.clone();
        let all = recorded.wait_for(|recorded| recorded.groups() == groups);
        let acknowledged = tokio::time::timeout(limits.acknowledged, all).await.is_ok();
        let missing = (0..groups).filter(|group| !self.is_acknowledged(*group)).collect::<Vec<_>>();
        assert!(acknowledged, "never acknowledged: groups {missing:?}\n{}", self.service.stderr());
        self.resolve_below(groups).await;
        let until = Instant::now() + limits.clean;
        let mut first = self.count().await;
        while first.wrong() > 0 && Instant::now() < until {
            // Any call of Slack may change the count; pagers and the store change without one.
            self.has_content_call(Duration::from_secs(1)).await;
            first = self.count().await;
        }
        if first.wrong() == 0 {
            assert!(self.is_quiet(limits.quiet, thorough).await, "never quiet\n{}", self.service.stderr());
        }
        [first, self.count().await]
    }

    async fn is_quiet(&self, within: Duration, thorough: bool) -> bool {
        let until = Instant::now() + within;
        while Instant::now() < until {
            let requests = self.proxy.recorded.borrow().requests;
            let quiet = !self.has_content_call(QUIET).await && self.proxy.recorded.borrow().requests == requests;
            if quiet && self.waiting().await == 0 && (!thorough || self.planned().await == 0) {
                return true;
            }
        }
        false
    }

    /// Returns true as soon as Slack gets a call that changes what is shown; false if none comes in time.
    async fn has_content_call(&self, within: Duration) -> bool {
        let calls = |state: &State| state.calls().iter().filter(|call| call.method.starts_with("chat.")).count();
        let before = self.slack.with(calls);
        self.slack.wait_for(|state| calls(state) > before, within).await.is_ok()
    }

    async fn waiting(&self) -> i64 {
        sqlx::query_scalar(WAITING).fetch_one(&self.database).await.unwrap()
    }

    async fn planned(&self) -> i64 {
        let before = clock::now().as_millisecond() + LAST_SEARCH_MS;
        sqlx::query_scalar(PLANNED).bind(before).fetch_one(&self.database).await.unwrap()
    }

    async fn count(&self) -> Outcome {
        let recorded = self.proxy.recorded.borrow().clone();
        let rows = usize::try_from(self.waiting().await).unwrap();
        let messages: Vec<Message> = self.slack.messages(CHANNEL);
        let stored: Vec<Stored> = sqlx::query_as(STORED).fetch_all(&self.database).await.unwrap();
        Outcome::of(&recorded, &stored, &messages, &self.pager.webhooks(), &self.pager.events(), rows)
    }
}

/// An alert as Prometheus sends it; while it fires, its end lies in the future, or Alertmanager ends it after 5 minutes.
fn as_json(group: usize, (name, began): &(String, Timestamp), ended: Option<Timestamp>) -> Value {
    json!({
        "labels": { "alertname": name, "group": group.to_string(), "namespace": "llm", "severity": "warning" },
        "annotations": { "summary": "it is a test" },
        "startsAt": began,
        "endsAt": ended.unwrap_or_else(|| clock::after(*began, FIRES_FOR)),
    })
}

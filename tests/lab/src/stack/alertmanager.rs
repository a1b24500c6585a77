//! A real Alertmanager.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::process::Command;

use super::find_binary;
use super::process::{self, Process};
use super::prometheus::prometheus_duration;

/// Configures an Alertmanager before its start.
#[derive(Debug)]
pub struct AlertmanagerBuilder {
    webhooks: Vec<Value>,
    group_by: Vec<String>,
    group_wait: Duration,
    group_interval: Duration,
    repeat_interval: Duration,
    max_alerts: u64,
    send_resolved: bool,
    config: Option<String>,
    cluster_address: String,
    flags: Vec<String>,
}

/// A running Alertmanager; it is killed when dropped.
pub struct Alertmanager {
    /// `http://127.0.0.1:PORT`
    pub url: String,
    /// `127.0.0.1:PORT`, as Prometheus wants it.
    pub address: String,
    process: Process,
}

impl Alertmanager {
    /// An Alertmanager that groups by alert name and tells a new group at once, changes every second, and repeats
    /// after four hours.
    pub fn builder() -> AlertmanagerBuilder {
        AlertmanagerBuilder {
            webhooks: Vec::new(),
            group_by: vec!["alertname".into()],
            group_wait: Duration::ZERO,
            group_interval: Duration::from_secs(1),
            repeat_interval: Duration::from_secs(4 * 3600),
            max_alerts: 0,
            send_resolved: true,
            config: None,
            cluster_address: String::new(),
            flags: Vec::new(),
        }
    }

    /// Posts alerts as Prometheus would: objects with `labels`, and perhaps `annotations`, `startsAt`, `endsAt`.
    pub async fn post_alerts(&self, alerts: &[Value]) -> anyhow::Result<()> {
        let request = self.process.http.post(format!("{}/api/v2/alerts", self.url)).json(alerts);
        self.process.call(request).await.map(drop)
    }

    /// The alerts it knows, with their status.
    pub async fn alerts(&self) -> anyhow::Result<Value> {
        self.get("alerts").await
    }

    /// All silences, expired ones among them.
    pub async fn silences(&self) -> anyhow::Result<Value> {
        self.get("silences").await
    }

    /// Waits until its cluster has settled with so many members, itself among them. It does not report changes: it is
    /// asked again and again.
    ///
    /// # Errors
    /// With the last status, when that does not happen in time.
    pub async fn clustered(&self, members: usize) -> anyhow::Result<()> {
        let deadline = Instant::now() + super::PATIENCE;
        loop {
            let cluster = self.get("status").await?["cluster"].take();
            let peers = cluster["peers"].as_array().map_or(0, Vec::len);
            if peers == members && cluster["status"] == "ready" {
                return Ok(());
            }
            anyhow::ensure!(Instant::now() < deadline, "not a cluster of {members}: {cluster}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn get(&self, path: &str) -> anyhow::Result<Value> {
        self.process.call(self.process.http.get(format!("{}/api/v2/{path}", self.url))).await
    }

    /// Kills it with SIGKILL, so that it forgets alerts and, since its last snapshot, notifications.
    pub async fn kill(&mut self) -> anyhow::Result<()> {
        self.process.kill().await
    }

    /// Starts it again on the same port and data.
    pub async fn restart(&mut self) -> anyhow::Result<()> {
        self.process.restart().await
    }

    /// What it logged so far.
    pub fn log(&self) -> String {
        self.process.output("stderr.log")
    }
}

impl AlertmanagerBuilder {
    /// Adds a webhook to the only receiver; `http_config` is Alertmanager's, `null` or `{}` for none.
    #[must_use]
    pub fn webhook(mut self, url: &str, http_config: Value) -> Self {
        let mut webhook = json!({ "url": url });
        if http_config.as_object().is_some_and(|config| !config.is_empty()) {
            webhook["http_config"] = http_config;
        }
        self.webhooks.push(webhook);
        self
    }

    /// The labels that make a group.
    #[must_use]
    pub fn group_by(mut self, labels: &[&str]) -> Self {
        self.group_by = labels.iter().map(ToString::to_string).collect();
        self
    }

    /// How long a new group waits for more alerts.
    #[must_use]
    pub fn group_wait(mut self, wait: Duration) -> Self {
        self.group_wait = wait;
        self
    }

    /// How long changes of a group wait.
    #[must_use]
    pub fn group_interval(mut self, interval: Duration) -> Self {
        self.group_interval = interval;
        self
    }

    /// How long until an unchanged group is told again.
    #[must_use]
    pub fn repeat_interval(mut self, interval: Duration) -> Self {
        self.repeat_interval = interval;
        self
    }

    /// The most alerts in one notification; 0 for all.
    #[must_use]
    pub fn max_alerts(mut self, alerts: u64) -> Self {
        self.max_alerts = alerts;
        self
    }

    /// Whether resolved alerts are told; they are unless said otherwise.
    #[must_use]
    pub fn send_resolved(mut self, send: bool) -> Self {
        self.send_resolved = send;
        self
    }

    /// Uses this configuration instead of all the above.
    #[must_use]
    pub fn config(mut self, yaml: &str) -> Self {
        self.config = Some(yaml.into());
        self
    }

    /// Makes it a member of a cluster: its own address for gossip, `127.0.0.1:PORT`, and that of another member.
    #[must_use]
    pub fn cluster(mut self, own_address: &str, peer: &str) -> Self {
        self.cluster_address = own_address.into();
        // The second member notifies two seconds after the first unless the first has; 15 s by default. The cluster
        // settles within a second; about eight by default.
        let flags = ["--cluster.peer-timeout=2s", "--cluster.gossip-interval=20ms"];
        flags.iter().fold(self.flag(&format!("--cluster.peer={peer}")), |builder, flag| builder.flag(flag))
    }

    /// Adds a flag of the program.
    #[must_use]
    pub fn flag(mut self, flag: &str) -> Self {
        self.flags.push(flag.into());
        self
    }

    /// Starts the program and waits until it is ready.
    pub async fn start(self) -> anyhow::Result<Alertmanager> {
        // Debian's name, then upstream's.
        let binary = find_binary(&["prometheus-alertmanager", "alertmanager"])?;
        let directory = process::directory()?;
        process::write(&directory, "alertmanager.yml", &self.yaml())?;
        let (flags, cluster_address) = (self.flags, self.cluster_address);
        let build = move |port: u16, directory: &Path| {
            let mut command = Command::new(&binary);
            command
                .arg(format!("--config.file={}", directory.join("alertmanager.yml").display()))
                .arg(format!("--storage.path={}", directory.join("data").display()))
                .arg(format!("--web.listen-address=127.0.0.1:{port}"))
                .arg(format!("--cluster.listen-address={cluster_address}"))
                .args(&flags);
            command
        };
        let process = Process::start("alertmanager", "/-/ready", directory, build).await?;
        Ok(Alertmanager { url: process.url(), address: format!("127.0.0.1:{}", process.port), process })
    }

    /// The configuration; JSON is YAML too.
    fn yaml(&self) -> String {
        if let Some(config) = &self.config {
            return config.clone();
        }
        let mut webhooks = self.webhooks.clone();
        for webhook in &mut webhooks {
            webhook["send_resolved"] = self.send_resolved.into();
            webhook["max_alerts"] = self.max_alerts.into();
        }
        json!({
            "route": {
                "receiver": "lab",
                "group_by": self.group_by,
                "group_wait": prometheus_duration(self.group_wait),
                "group_interval": prometheus_duration(self.group_interval),
                "repeat_interval": prometheus_duration(self.repeat_interval),
            },
            "receivers": [{ "name": "lab", "webhook_configs": webhooks }],
        })
        .to_string()
    }
}

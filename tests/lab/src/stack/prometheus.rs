//! A real Prometheus.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context;
use futures::stream::{self, StreamExt, TryStreamExt};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;

use super::process::{self, Process};
use super::{PATIENCE, find_binary};

const DAY_SECONDS: i64 = 86_400;
const QUERY_LOG: &str = "queries.log";

/// Configures a Prometheus before its start.
#[derive(Debug)]
pub struct PrometheusBuilder {
    scrape_configs: String,
    rule_files: Vec<PathBuf>,
    alertmanagers: Vec<String>,
    external_labels: Vec<(String, String)>,
    scrape_interval: Duration,
    evaluation_interval: Duration,
    resend_delay: Duration,
    histories: Vec<PathBuf>,
    flags: Vec<String>,
    /// How much older than the newest sample a new one may be.
    out_of_order: Option<Duration>,
    logs_queries: bool,
    /// Keeps the texts of `backfill_text`.
    kept: Vec<TempDir>,
}

/// A running Prometheus; it is killed when dropped.
pub struct Prometheus {
    /// `http://127.0.0.1:PORT`
    pub url: String,
    process: Process,
}

impl Prometheus {
    /// A Prometheus without targets, rules or history, which scrapes and evaluates every second.
    pub fn builder() -> PrometheusBuilder {
        PrometheusBuilder {
            scrape_configs: String::new(),
            rule_files: Vec::new(),
            alertmanagers: Vec::new(),
            external_labels: Vec::new(),
            scrape_interval: Duration::from_secs(1),
            evaluation_interval: Duration::from_secs(1),
            resend_delay: Duration::from_secs(1),
            histories: Vec::new(),
            flags: Vec::new(),
            out_of_order: None,
            logs_queries: false,
            kept: Vec::new(),
        }
    }

    /// The `data.result` of an instant query at a unix time in seconds.
    pub async fn query(&self, promql: &str, at: i64) -> anyhow::Result<Value> {
        self.ask("query", &[("query", promql), ("time", &at.to_string())]).await
    }

    /// The `data.result` of an instant query at the present.
    pub async fn query_now(&self, promql: &str) -> anyhow::Result<Value> {
        self.ask("query", &[("query", promql)]).await
    }

    /// The `data.result` of a range query; times and step in seconds.
    pub async fn query_range(&self, promql: &str, from: i64, to: i64, step: i64) -> anyhow::Result<Value> {
        let [from, to, step] = [from, to, step].map(|seconds| seconds.to_string());
        self.ask("query_range", &[("query", promql), ("start", &from), ("end", &to), ("step", &step)]).await
    }

    /// The only value of an instant query; none if it is empty, an error if there are several.
    pub async fn value(&self, promql: &str, at: i64) -> anyhow::Result<Option<f64>> {
        let result = self.query(promql, at).await?;
        // A scalar is `[time, value]`, a vector is a list of series.
        let samples = match result.as_array().map(Vec::as_slice).unwrap_or_default() {
            [] => return Ok(None),
            [time, value] if time.is_number() => return parse(value).map(Some),
            samples => samples,
        };
        anyhow::ensure!(samples.len() == 1, "`{promql}` has {} series, not one: {result}", samples.len());
        parse(&samples[0]["value"][1]).map(Some)
    }

    async fn ask(&self, endpoint: &str, form: &[(&str, &str)]) -> anyhow::Result<Value> {
        let request = self.process.http.post(format!("{}/api/v1/{endpoint}", self.url)).form(form);
        let mut answer = self.process.call(request).await.with_context(|| format!("query {form:?}"))?;
        Ok(answer["data"]["result"].take())
    }

    /// The `data` of a GET below `/api/v1/`, such as `targets` or `rules`.
    pub async fn api(&self, path: &str) -> anyhow::Result<Value> {
        let mut answer = self.process.call(self.process.http.get(format!("{}/api/v1/{path}", self.url))).await?;
        Ok(answer["data"].take())
    }

    /// Reads its configuration and rule files again; an error if they are wrong.
    pub async fn reload(&self) -> anyhow::Result<()> {
        self.process.call(self.process.http.post(format!("{}/-/reload", self.url))).await.map(drop)
    }

    /// Writes what a group of a file's recording rules would have recorded of its data every minute between two unix times,
    /// in seconds; it is started again for that.
    pub async fn record(&mut self, rules: &Path, group: &str, from: i64, to: i64) -> anyhow::Result<()> {
        let text = fs::read_to_string(rules).with_context(|| format!("cannot read {}", rules.display()))?;
        let mut groups = text.split("  - name: ");
        let group = groups.find(|text| text.lines().next() == Some(group)).context("the rules have no such group")?;
        let directory = self.process.directory.path();
        let file = process::write(&self.process.directory, "recorded.yml", &format!("groups:\n  - name: {group}"))?;
        let output = Command::new(find_binary(&["promtool"])?)
            .args(["tsdb", "create-blocks-from", "rules", "--eval-interval=60s"])
            .args([format!("--url={}", self.url), format!("--start={from}"), format!("--end={to}")])
            .arg(format!("--output-dir={}", directory.join("data").display()))
            .arg(file)
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        let output = tokio::time::timeout(20 * PATIENCE, output).await.context("promtool takes too long")??;
        let complaint = String::from_utf8_lossy(&output.stderr);
        anyhow::ensure!(output.status.success(), "promtool cannot record {}: {complaint}", rules.display());
        // Blocks that others wrote are read at the start.
        self.restart().await
    }

    /// Kills it with SIGKILL.
    pub async fn kill(&mut self) -> anyhow::Result<()> {
        self.process.kill().await
    }

    /// Starts it again on the same port and data.
    pub async fn restart(&mut self) -> anyhow::Result<()> {
        self.process.restart().await
    }

    /// The queries that it has answered so far, with the seconds that each took; see [`PrometheusBuilder::log_queries`].
    pub fn queries(&self) -> anyhow::Result<Vec<(f64, String)>> {
        let read = |line: &str| -> anyhow::Result<(f64, String)> {
            let entry: Value = serde_json::from_str(line)?;
            let seconds = entry["stats"]["timings"]["execTotalTime"].as_f64().context("an entry without its time")?;
            Ok((seconds, entry["params"]["query"].as_str().context("an entry without its query")?.to_owned()))
        };
        let text = fs::read_to_string(self.process.directory.path().join(QUERY_LOG))?;
        text.lines().map(read).collect()
    }

    /// What it logged so far.
    pub fn log(&self) -> String {
        self.process.output("stderr.log")
    }
}

fn parse(value: &Value) -> anyhow::Result<f64> {
    let text = value.as_str().with_context(|| format!("no sample value: {value}"))?;
    text.parse().with_context(|| format!("no number: {text}"))
}

impl PrometheusBuilder {
    /// Adds items of `scrape_configs`, as YAML that starts with `- job_name:`.
    #[must_use]
    pub fn scrape_config(mut self, yaml: &str) -> Self {
        for line in yaml.lines() {
            self.scrape_configs.push_str(&format!("  {line}\n"));
        }
        self
    }

    /// Adds a rule file, which is read in place.
    #[must_use]
    pub fn rule_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.rule_files.push(path.into());
        self
    }

    /// Sends alerts to an Alertmanager at `host:port`.
    #[must_use]
    pub fn alertmanager(mut self, address: &str) -> Self {
        self.alertmanagers.push(address.trim_start_matches("http://").into());
        self
    }

    /// How often targets are scraped.
    #[must_use]
    pub fn scrape_interval(mut self, interval: Duration) -> Self {
        self.scrape_interval = interval;
        self
    }

    /// How often rules are evaluated.
    #[must_use]
    pub fn evaluation_interval(mut self, interval: Duration) -> Self {
        self.evaluation_interval = interval;
        self
    }

    /// How often a firing alert is sent again; a second unless said otherwise (the program's own default is a minute).
    /// An alert that fires before the Alertmanager was discovered, about five seconds after the start, is lost until
    /// then. Four times as long after the last sending, Alertmanager takes an alert for resolved.
    #[must_use]
    pub fn resend_delay(mut self, delay: Duration) -> Self {
        self.resend_delay = delay;
        self
    }

    /// Labels on everything that leaves this Prometheus, alerts among it.
    #[must_use]
    pub fn external_labels(mut self, labels: &[(&str, &str)]) -> Self {
        self.external_labels.extend(labels.iter().map(|(name, value)| (name.to_string(), value.to_string())));
        self
    }

    /// Adds a flag of the program, such as `--query.timeout=1s`.
    #[must_use]
    pub fn flag(mut self, flag: &str) -> Self {
        self.flags.push(flag.into());
        self
    }

    /// Takes samples so much older than the newest: what rules record, where an imported history ends in the future.
    #[must_use]
    pub fn out_of_order(mut self, window: Duration) -> Self {
        self.out_of_order = Some(window);
        self
    }

    /// Keeps a log of all queries, for [`Prometheus::queries`].
    #[must_use]
    pub fn log_queries(mut self) -> Self {
        self.logs_queries = true;
        self
    }

    /// Imports a file in OpenMetrics text before the start; see [`super::backfill`].
    #[must_use]
    pub fn backfill(mut self, openmetrics: impl Into<PathBuf>) -> Self {
        self.histories.push(openmetrics.into());
        self
    }

    /// Imports OpenMetrics text before the start.
    pub fn backfill_text(mut self, openmetrics: &str) -> anyhow::Result<Self> {
        let directory = process::directory()?;
        self.histories.push(process::write(&directory, "history.txt", openmetrics)?);
        self.kept.push(directory);
        Ok(self)
    }

    /// Imports the histories, starts the program and waits until it is ready.
    pub async fn start(self) -> anyhow::Result<Prometheus> {
        let binary = find_binary(&["prometheus"])?;
        let directory = process::directory()?;
        let data = directory.path().join("data");
        // Two at a time: an import is one thread's work, and reading and writing of files.
        let imports = self.histories.iter().map(|history| import(history, &data));
        let () = stream::iter(imports).buffer_unordered(2).try_collect().await?;
        let query_log = self.logs_queries.then(|| directory.path().join(QUERY_LOG));
        process::write(&directory, "prometheus.yml", &self.config(query_log.as_deref())?)?;
        let flags = self.flags;
        let resend_delay = prometheus_duration(self.resend_delay);
        let build = move |port: u16, directory: &Path| {
            let mut command = Command::new(&binary);
            command
                .arg(format!("--config.file={}", directory.join("prometheus.yml").display()))
                .arg(format!("--storage.tsdb.path={}", directory.join("data").display()))
                // Else blocks of a fixed past would be deleted at the start.
                .arg("--storage.tsdb.retention.time=100y")
                .arg(format!("--web.listen-address=127.0.0.1:{port}"))
                .arg("--web.enable-lifecycle")
                .arg(format!("--rules.alert.resend-delay={resend_delay}"))
                .args(&flags);
            command
        };
        let process = Process::start("prometheus", "/-/ready", directory, build).await?;
        Ok(Prometheus { url: process.url(), process })
    }

    /// The configuration; JSON is YAML too, which spares the quoting.
    fn config(&self, query_log: Option<&Path>) -> anyhow::Result<String> {
        let rule_files = self.rule_files.iter().map(fs::canonicalize).collect::<Result<Vec<_>, _>>();
        let rule_files = rule_files.with_context(|| format!("rule files {:?}", self.rule_files))?;
        let labels: Value = self.external_labels.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        let mut global = json!({
            "scrape_interval": prometheus_duration(self.scrape_interval),
            "scrape_timeout": prometheus_duration(self.scrape_interval.min(Duration::from_secs(10))),
            "evaluation_interval": prometheus_duration(self.evaluation_interval),
            "external_labels": labels,
        });
        if let Some(path) = query_log {
            global["query_log_file"] = json!(path);
        }
        let alerting = json!({ "alertmanagers": [{ "static_configs": [{ "targets": self.alertmanagers }] }] });
        let mut yaml = String::new();
        writeln!(yaml, "global: {global}\nrule_files: {}\nalerting: {alerting}", json!(rule_files))?;
        if let Some(window) = self.out_of_order {
            let tsdb = json!({ "tsdb": { "out_of_order_time_window": prometheus_duration(window) } });
            writeln!(yaml, "storage: {tsdb}")?;
        }
        match self.scrape_configs.is_empty() {
            true => writeln!(yaml, "scrape_configs: []")?,
            false => writeln!(yaml, "scrape_configs:\n{}", self.scrape_configs)?,
        }
        Ok(yaml)
    }
}

/// A duration as Prometheus and Alertmanager read it.
pub(super) fn prometheus_duration(duration: Duration) -> String {
    format!("{}ms", duration.as_millis())
}

/// Turns OpenMetrics text into blocks: as few as its span allows, for promtool reads the text once for each.
async fn import(history: &Path, data: &Path) -> anyhow::Result<()> {
    let text = fs::read_to_string(history).with_context(|| format!("cannot read {}", history.display()))?;
    let times = || text.lines().filter_map(time_of);
    let (Some(first), Some(last)) = (times().min(), times().max()) else {
        anyhow::bail!("{} has no samples with a time", history.display());
    };
    let days = (last - first) / DAY_SECONDS + 1;
    let output = Command::new(find_binary(&["promtool"])?)
        .args(["tsdb", "create-blocks-from", "openmetrics", "--quiet"])
        .arg(format!("--max-block-duration={}h", days.min(31) * 24))
        .args([history, data])
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(40 * PATIENCE, output).await.context("promtool takes too long")??;
    let complaint = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "promtool cannot import {}: {complaint}", history.display());
    Ok(())
}

/// A sample's unix time in whole seconds.
fn time_of(line: &str) -> Option<i64> {
    if line.starts_with('#') {
        return None;
    }
    let seconds: f64 = line.rsplit(' ').next()?.parse().ok()?;
    Some(seconds as i64)
}

//! The self test: sends a synthetic alert through the running service, and follows it in the store.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;
use serde_json::{Value, json};

use crate::stop_signals::StopSignals;
use http_client::unreachable_reason;
use knowledge::alert::{SELF_TEST, SELF_TEST_CHANNEL, SELF_TEST_POOL};
use knowledge::clock;
use notify::todo;
use service::config::{Config, bot_token, secret, visit_store};
use slack::Slack;
use store::{MessageState, Store, StoreAccess};
use web::Credentials;

/// The version of the JSON output; a change that breaks readers gives it another name.
const SCHEMA: &str = "llm-diagnose/selftest/v1";
/// Interval between two looks into the store.
const LOOK: Duration = Duration::from_millis(100);
/// Timeout of one HTTP call.
const CALL: Duration = Duration::from_secs(10);

/// The stages of the way, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum StageName {
    /// The webhook accepted the alert and stored it.
    Stored,
    /// The alert was diagnosed.
    Diagnosed,
    /// The message is posted.
    Posted,
    /// The end is stored, and the message shows it.
    Resolved,
}

impl StageName {
    /// Returns the name in the outputs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stored => "stored",
            Self::Diagnosed => "diagnosed",
            Self::Posted => "posted",
            Self::Resolved => "resolved",
        }
    }
}

/// One stage of the way.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SelfTestStage {
    /// The name.
    pub name: StageName,
    /// True if it was reached in time.
    pub ok: bool,
    /// Time since the alert, or its end, was sent.
    pub seconds: f64,
    /// The result, in words.
    pub found: String,
    /// The remedy; `None` if it was reached.
    pub todo: Option<String>,
}

/// The reason why a stage was not reached.
#[derive(Debug)]
struct Problem {
    /// The observation.
    found: String,
    /// The remedy.
    todo: String,
}

impl Problem {
    fn new(found: impl Into<String>, todo: &str) -> Self {
        Self { found: found.into(), todo: todo.to_owned() }
    }
}

/// The result of a self test.
#[derive(Debug, Serialize)]
pub struct SelfTestReport {
    schema: &'static str,
    /// True if every stage was reached.
    pub ok: bool,
    /// The incident; `None` if the alert was not stored.
    pub incident: Option<String>,
    /// The stages that were tried, in their order.
    pub stages: Vec<SelfTestStage>,
}

/// A self test that runs.
struct SelfTest<'a> {
    config: &'a Config,
    /// The chosen channel; empty if messages are printed.
    channel: String,
    url: String,
    authorization: Option<SecretString>,
    http: reqwest::Client,
    store: Store,
    deadline: Duration,
    stages: Vec<SelfTestStage>,
}

/// Runs a self test of the service with this configuration; its store must be readable from here. Without a channel, an
/// address or a file with the webhook's bearer token it takes the configuration's. `deadline` is the time until the message is
/// posted, and again until it is green.
///
/// # Errors
/// When the channel is not one of the configuration's, or the address, the token or the store cannot be used.
pub async fn selftest(
    config: &Config,
    channel: Option<&str>,
    url: Option<&str>,
    token_file: Option<&Path>,
    deadline: Duration,
) -> anyhow::Result<SelfTestReport> {
    let channel = chosen(config, channel)?;
    let url = webhook(config, url)?;
    let authorization = match token_file {
        Some(file) => Some(format!("Bearer {}", secret(file)?.expose_secret()).into()),
        None => Credentials::read(&config.webhook)?.authorization().cloned(),
    };
    // The service is near, and often on loopback: a proxy of the environment would not reach it.
    let http = reqwest::Client::builder().no_proxy().timeout(CALL).redirect(reqwest::redirect::Policy::none()).build();
    let http = http.context("cannot prepare the HTTP client")?;
    let store = visit_store(config, StoreAccess::ReadOnly).await?;
    let mut test = SelfTest { config, channel, url, authorization, http, store, deadline, stages: Vec::new() };
    let incident = test.follow().await;
    test.store.close().await;
    test.stages.sort_by_key(|stage| stage.name);
    let ok = test.stages.iter().all(|stage| stage.ok);
    Ok(SelfTestReport { schema: SCHEMA, ok, incident: incident?, stages: test.stages })
}

/// Returns the channel of the message: one of the configuration's, or empty if it has none.
fn chosen(config: &Config, wanted: Option<&str>) -> anyhow::Result<String> {
    let known: Vec<&str> = config.slack.channels().collect();
    match wanted {
        Some(channel) if !known.contains(&channel) => {
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            bail!("`{channel}` is no channel of the configuration, which has {known}: pass --config as `serve` has it")
        }
        Some(channel) => Ok(channel.to_owned()),
        None if config.slack.channel.is_empty() && !known.is_empty() => {
            bail!("`slack.channel` is not set: choose one of {} with --channel", known.join(", "))
        }
        None => Ok(config.slack.channel.clone()),
    }
}

/// Returns the address of the webhook. A service that listens on all addresses is reached by loopback.
fn webhook(config: &Config, url: Option<&str>) -> anyhow::Result<String> {
    let listen = || {
        let (host, port) = config.listen.rsplit_once(':')?;
        let host = match host {
            "0.0.0.0" | "" => "127.0.0.1",
            "[::]" => "[::1]",
            host => host,
        };
        Some(format!("http://{host}:{port}"))
    };
    let url = url.map(str::to_owned).or_else(listen).context("`listen` is no address: pass --url")?;
    Ok(format!("{}/webhook/alertmanager", url.trim_end_matches('/')))
}

impl SelfTest<'_> {
    /// Sends the alert and its end, and follows both. Returns the incident.
    async fn follow(&mut self) -> anyhow::Result<Option<String>> {
        let mut stop = StopSignals::new()?;
        let (sent, start) = (Instant::now(), clock::now().to_string());
        let name = format!("llm-diagnose: self test {start}");
        let incident = match self.send(&body(&name, &start, None, &self.channel)).await {
            Ok(incident) => incident,
            Err(problem) => {
                self.stage(StageName::Stored, sent.elapsed(), Err(problem));
                return Ok(None);
            }
        };
        self.stage(StageName::Stored, sent.elapsed(), Ok(format!("incident {incident}")));
        let posted = tokio::select! {
            posted = self.first_message(&incident, sent) => posted,
            () = stop.recv() => Err(anyhow!("stopped by a signal: the alert was ended, see its message")),
        };
        let ended = Instant::now();
        // The end is sent in any case, also after Ctrl-C, or the incident would stay open.
        let end = clock::now().to_string();
        match self.send(&body(&name, &start, Some(&end), &self.channel)).await {
            Ok(_) if posted? => tokio::select! {
                ended = self.last_message(&incident, ended) => ended?,
                () = stop.recv() => bail!("stopped by a signal: the end of the alert was sent, see its message"),
            },
            Ok(_) => {}
            Err(problem) => self.stage(StageName::Resolved, ended.elapsed(), Err(problem)),
        }
        Ok(Some(incident))
    }

    /// Waits until the alert is diagnosed and its message is posted. Returns true if it is posted.
    async fn first_message(&mut self, incident: &str, sent: Instant) -> anyhow::Result<bool> {
        let (mut diagnosed, mut posted) = (false, None);
        loop {
            let elapsed = sent.elapsed();
            let late = elapsed > self.deadline;
            if !diagnosed {
                let diagnosis = self.store.incident(incident).await?.and_then(|incident| incident.diagnosis);
                let result = match diagnosis {
                    Some(diagnosis) if !diagnosis.degraded => Some(Ok("Prometheus answered".to_owned())),
                    // The service asks again within seconds.
                    _ if !late => None,
                    Some(_) => {
                        let todo = "`llm-diagnose doctor` names the Prometheus: see whether it answers";
                        Some(Err(Problem::new("Prometheus did not answer in time", todo)))
                    }
                    None => Some(Err(self.missed(None, "see the service's log and `llm-diagnose doctor`"))),
                };
                diagnosed = result.is_some();
                result.into_iter().for_each(|result| self.stage(StageName::Diagnosed, elapsed, result));
            }
            if posted.is_none()
                && let Some(result) = self.posted(incident, late).await?
            {
                posted = Some(result.is_ok());
                self.stage(StageName::Posted, elapsed, result);
            }
            if let (true, Some(posted)) = (diagnosed, posted) {
                return Ok(posted);
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Returns whether the message is posted; `None` if that is still open.
    async fn posted(&self, incident: &str, late: bool) -> anyhow::Result<Option<Result<String, Problem>>> {
        let message = self.message(incident).await?;
        if let Some(message) = message.as_ref().filter(|message| message.is_posted) {
            return Ok(Some(Ok(self.place(message).await)));
        }
        let note = message.and_then(|message| message.note);
        let refusals = self.store.refusals().await?;
        let refusal = refusals.into_iter().find(|refusal| refusal.channel == self.channel);
        if let Some(refusal) = refusal.filter(|_| note.is_some()) {
            let found = format!("Slack refuses messages for {}: {}", self.channel, refusal.code);
            return Ok(Some(Err(Problem::new(found, todo(&refusal.code)))));
        }
        Ok(late
            .then(|| Err(self.missed(note, "`/readyz` and `llm-diagnose doctor` say what keeps messages from Slack"))))
    }

    /// Waits until the message shows the end.
    async fn last_message(&mut self, incident: &str, ended: Instant) -> anyhow::Result<()> {
        loop {
            let over = self.store.incident(incident).await?.is_some_and(|incident| !incident.open);
            let message = self.message(incident).await?;
            if over && message.as_ref().is_some_and(|message| message.is_current) {
                self.stage(StageName::Resolved, ended.elapsed(), Ok("the message is green".to_owned()));
                return Ok(());
            }
            if ended.elapsed() > self.deadline {
                let note = message.and_then(|message| message.note);
                let problem = self.missed(note, "`/readyz` and `llm-diagnose doctor` say what keeps edits from Slack");
                self.stage(StageName::Resolved, ended.elapsed(), Err(problem));
                return Ok(());
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Returns the message in the chosen channel, or else the printed one.
    async fn message(&self, incident: &str) -> anyhow::Result<Option<MessageState>> {
        let messages = self.store.messages_of(incident).await?;
        let sink = if self.channel.is_empty() { "console" } else { "slack" };
        Ok(messages.into_iter().find(|message| message.sink == sink && message.channel == self.channel))
    }

    /// Describes the place of a message: the channel, with a link if Slack tells the workspace's address.
    async fn place(&self, message: &MessageState) -> String {
        let Some((channel, ts)) = &message.posted else { return "printed by the service".to_owned() };
        let identity = async {
            let token = bot_token(&self.config.slack).ok()?;
            let slack = Slack::new(&self.config.slack.api_url, token.expose_secret()).ok()?;
            tokio::time::timeout(CALL, slack.identity()).await.ok()?.ok()
        };
        let workspace = identity.await.map(|identity| identity.url).filter(|url| !url.is_empty());
        match workspace {
            Some(url) => {
                format!("{}: {}/archives/{channel}/p{}", self.channel, url.trim_end_matches('/'), ts.replace('.', ""))
            }
            None => format!("{}: message {ts} in {channel}", self.channel),
        }
    }

    /// Posts the alert to the webhook. Returns the incident, or the problem and what to do.
    async fn send(&self, body: &Value) -> Result<String, Problem> {
        let mut request = self.http.post(&self.url).json(body);
        if let Some(value) = &self.authorization {
            request = request.header(reqwest::header::AUTHORIZATION, value.expose_secret());
        }
        let response = request.send().await.map_err(|error| {
            let found = format!("the webhook cannot be reached: {}", unreachable_reason(&error));
            Problem::new(found, "see whether the service runs, or pass its address with --url")
        })?;
        let status = response.status();
        let answer: Value = response.json().await.unwrap_or_default();
        match answer["incident"].as_str() {
            Some(incident) if status.is_success() => Ok(incident.to_owned()),
            _ => {
                let why = answer["error"].as_str().map(|error| format!(": {error}")).unwrap_or_default();
                let todo = match status.as_u16() {
                    401 | 403 => "pass --config as `serve` has it, or the token with --token-file",
                    _ => "see `/readyz` and the service's log",
                };
                Err(Problem::new(format!("the webhook answered {}{why}", status.as_u16()), todo))
            }
        }
    }

    /// Builds the problem of a stage that was not reached in time, with the last problem of its message.
    fn missed(&self, note: Option<String>, todo: &str) -> Problem {
        let why = note.map(|note| format!(": {note}")).unwrap_or_default();
        Problem::new(format!("not within {} s{why}", self.deadline.as_secs()), todo)
    }

    fn stage(&mut self, name: StageName, elapsed: Duration, result: Result<String, Problem>) {
        let seconds = elapsed.as_secs_f64();
        let (ok, found, todo) = match result {
            Ok(found) => (true, found, None),
            Err(Problem { found, todo }) => (false, found, Some(todo)),
        };
        self.stages.push(SelfTestStage { name, ok, seconds, found, todo });
    }
}

/// Builds the webhook's body. Each self test is a group of its own, so that it has a message of its own.
fn body(name: &str, start: &str, end: Option<&str>, channel: &str) -> Value {
    let status = if end.is_some() { "resolved" } else { "firing" };
    let labels = json!({
        "alertname": SELF_TEST, "severity": "none", "namespace": SELF_TEST_POOL, SELF_TEST_CHANNEL: channel,
    });
    let annotations = json!({ "summary": "A self test: nothing is wrong, and nobody is called." });
    json!({
        "version": "4", "groupKey": name, "status": status, "receiver": "llm-diagnose selftest", "truncatedAlerts": 0,
        "groupLabels": { "alertname": SELF_TEST }, "commonLabels": labels, "commonAnnotations": annotations,
        "externalURL": "",
        "alerts": [{
            "status": status, "labels": labels, "annotations": annotations, "startsAt": start,
            "endsAt": end.unwrap_or("0001-01-01T00:00:00Z"),
            "generatorURL": "", "fingerprint": "self test",
        }],
    })
}

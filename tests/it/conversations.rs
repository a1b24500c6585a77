//! Conversations as text: alerts, clicks and commands go in, the channel that people read comes out.
//!
//! Each file of tests/it/conversations is one; CONTRIBUTING.md lists its sections. `ONLY=storm` plays the files with that in
//! their name, `UPDATE_EXPECT=1` writes what the channels show into them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

use anyhow::{Context, anyhow, bail, ensure};
use futures::StreamExt;
use jiff::Timestamp;
use knowledge::clock;
use llm_diagnose_lab::slack::{Channel, Failure, FakeSlack, Options, Press};
use llm_diagnose_lab::stack::{Alertmanager, Service};
use regex::Regex;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpSocket};

use crate::harness::replay;
use crate::running::{BINARY, CHANNEL, SOON, lead_on, tls};

/// A part of a file: the line that begins it, without dashes, and the lines below it.
type Section = (String, String);

/// How long a channel shows nothing new before a file is rewritten.
const QUIET: Duration = Duration::from_secs(5);

#[tokio::test(flavor = "multi_thread")]
async fn every_conversation_reads_as_its_file_says() {
    tls();
    let only = std::env::var("ONLY").unwrap_or_default();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/conversations");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files: Vec<PathBuf> = files.filter(|file| file.to_string_lossy().contains(&only)).collect();
    assert!(!files.is_empty(), "no file has {only:?} in its name");
    let played = futures::stream::iter(files)
        .map(|file| async move { play(&file).await.err().map(|error| format!("{}: {error:#}\n", file.display())) });
    let wrong: Vec<String> = played.buffer_unordered(4).filter_map(std::future::ready).collect().await;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Plays a file from its first section to its last.
async fn play(file: &Path) -> anyhow::Result<()> {
    let rewrite = std::env::var_os("UPDATE_EXPECT").is_some();
    let (promise, mut sections) = parsed(&fs::read_to_string(file)?);
    ensure!(!promise.trim().is_empty(), "the file does not begin with what it promises");
    let mut stage = Stage::open(&sections).await?;
    let mut last = None;
    for (head, body) in &mut sections {
        match head.strip_prefix("slack #") {
            Some(channel) if rewrite => *body = stage.settled(channel).await,
            Some(channel) => stage.shows(channel, body).await.with_context(|| format!("-- {head} --"))?,
            None => stage.act(head, body).await.with_context(|| format!("-- {head} --"))?,
        }
        last = head.strip_prefix("slack #").map(|channel| (channel.to_owned(), body.clone())).or(last);
    }
    stage.service.terminate(SOON).await?;
    let (channel, said) = last.context("the file has no section `slack`")?;
    let (shown, broken) = (stage.shown(&channel), stage.slack.violations());
    ensure!(rewrite || shown == said, "#{channel} goes on after the end:\n{}", difference(&said, &shown));
    ensure!(broken.is_empty(), "Slack's rules are broken: {broken:?}");
    if rewrite {
        let parts: String = sections.iter().map(|(head, body)| format!("-- {head} --\n{body}\n\n")).collect();
        fs::write(file, format!("{}\n\n{}\n", promise.trim(), parts.trim_end().replace("--\n\n\n", "--\n")))?;
    }
    Ok(())
}

/// The comment of a file, and its sections.
fn parsed(text: &str) -> (String, Vec<Section>) {
    let (mut promise, mut sections) = (String::new(), Vec::<Section>::new());
    for line in text.lines() {
        match line.strip_prefix("-- ").and_then(|line| line.strip_suffix(" --")) {
            Some(head) => sections.push((head.to_owned(), String::new())),
            None => *sections.last_mut().map_or(&mut promise, |(_, body)| body) += &format!("{line}\n"),
        }
    }
    sections.iter_mut().for_each(|(_, body)| *body = body.trim_end().to_owned());
    (promise, sections)
}

/// The lines from the first to the last in which two texts differ.
fn difference(expected: &str, shown: &str) -> String {
    let (mut old, mut new): (Vec<&str>, Vec<&str>) = (expected.lines().collect(), shown.lines().collect());
    let same = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let before = old.drain(..same).zip(new.drain(..same)).next_back().map(|(line, _)| format!("  {line}\n"));
    while old.last().is_some_and(|line| new.pop_if(|last| *last == *line).is_some()) {
        old.pop();
    }
    let marked = |mark, lines: Vec<&str>| lines.iter().map(|line| format!("{mark} {line}\n")).collect::<String>();
    before.unwrap_or_default() + &marked("-", old) + &marked("+", new)
}

/// A channel's text without what differs from run to run: times, ids, ports, how often a message was edited, and when a
/// cause began, which a busy machine does not find out in time.
fn normal(transcript: &str) -> String {
    static RULES: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
        let rules = [
            (r"\d{4}-\d\d-\d\d", "DATE"),
            (r"\d\d:\d\d(:\d\d)?( UTC|–)", "HH:MM$2"),
            (r"\b(after|in|is complete:\*?) \d+ (ms|s|min|KiB)\b", "$1 N $2"),
            (r"\b01[0-9A-HJKMNP-TV-Z]{24}\b|\b01[0-9A-HJKMNP-TV-Z]{8}\b|`[0-9A-HJKMNP-TV-Z]{4}`", "ID"),
            (r"bundle [0-9A-HJKMNP-TV-Z]{4}\b", "bundle ID"),
            (r"127\.0\.0\.1:\d+", "127.0.0.1:PORT"),
            (", began HH:MM UTC", ""),
            (r"(During the incident\*) \S+", "$1 N"),
            (r"\bU0ANN\b", "ann"),
            (r"\bU0BEN\b", "ben"),
            (r"\bU0LAB\b", "llm-diagnose"),
            (r"\n *\(edited \d+×\)", ""),
        ];
        rules.map(|(pattern, put)| (Regex::new(pattern).unwrap(), put)).into()
    });
    RULES.iter().fold(transcript.to_owned(), |text, (rule, put)| rule.replace_all(&text, *put).into_owned())
}

/// A service with its neighbours, and the alerts that its Alertmanager would know.
struct Stage {
    slack: FakeSlack,
    service: Service,
    alertmanager: Option<Alertmanager>,
    /// The Prometheus's port while nobody answers there.
    away: Option<TcpSocket>,
    groups: BTreeMap<String, Vec<Value>>,
    begun: Timestamp,
}

impl Stage {
    async fn open(sections: &[Section]) -> anyhow::Result<Self> {
        let allowed_mentions = ["!subteam^S0ONCALL", "@U0ANN", "@U0BEN"].map(String::from).into();
        let options = Options { allowed_mentions, ..Options::unlimited() }.channel(Channel::new("C0CRIT", "critical"));
        let slack = FakeSlack::start(options).await?;
        let away = TcpSocket::new_v4()?;
        away.bind("127.0.0.1:0".parse()?)?;
        let door = TcpListener::bind("127.0.0.1:0").await?;
        let mut config = json!({
            "listen": "127.0.0.1:$PORT", "state_dir": "$DIR/state", "public_url": "https://triage.example",
            "pages": { "authentication": "none" }, "webhook": { "authentication": "none" },
            "prometheus": [{ "url": format!("http://{}", away.local_addr()?) }],
            "slack": { "api_url": slack.base_url, "channel": CHANNEL, "act": { "groups": ["S0ONCALL"] },
                "posts_per_second": 100, "posts_burst": 100, "updates_per_minute": 1_000 },
            // On a slow machine too a message begins with its whole diagnosis.
            "diagnose": { "grace": "5s", "deadline": "15s", "refresh": "1h" },
        });
        let own = sections.iter().find(|(head, _)| head == "config.yaml").map_or("", |(_, body)| body);
        if !own.is_empty() {
            let own = own.replace("$ALERTMANAGER", &format!("http://{}", door.local_addr()?));
            merge(&mut config, serde_saphyr::from_str(&own)?);
        }
        // It answers before the service asks, or is not asked for a while.
        let fleet = sections.iter().find(|(head, _)| head == "metrics").map_or("away", |(_, body)| body);
        let (away, begun) = match fleet {
            "away" => (Some(away), clock::now()),
            fleet => (None, replay(fleet.to_owned(), away).await),
        };
        let secrets = [("SLACK_BOT_TOKEN", slack.token.as_str()), ("SLACK_APP_TOKEN", "xapp-lab")];
        let serve = ["serve", "--config", "$CONFIG"];
        let service = Service::start(Path::new(BINARY), &serve, &secrets, &config.to_string()).await?;
        let mut alertmanager = None;
        if own.contains("$ALERTMANAGER") {
            let hook = format!("{}/webhook/alertmanager", service.url);
            let started = alertmanager.insert(Alertmanager::builder().webhook(&hook, json!({})).start().await?);
            tokio::spawn(lead_on(door, started.address.clone()));
        }
        slack.wait_for(|state| state.connections() == 2, SOON).await?;
        Ok(Self { slack, service, alertmanager, away, groups: BTreeMap::new(), begun })
    }

    fn shown(&self, channel: &str) -> String {
        normal(&self.slack.transcript(channel))
    }

    /// Waits until the channel reads so.
    async fn shows(&self, channel: &str, expected: &str) -> anyhow::Result<()> {
        let seen = self.slack.wait_for(|state| normal(&state.transcript(channel)) == expected, SOON).await;
        seen.map_err(|_| anyhow!("\n{}\n{}", difference(expected, &self.shown(channel)), self.service.stderr()))
    }

    /// What the channel shows when nothing changes any more; of an empty one something is expected.
    async fn settled(&self, channel: &str) -> String {
        let (mut shown, mut quiet) = (String::new(), SOON);
        while self.slack.wait_for(|state| normal(&state.transcript(channel)) != shown, quiet).await.is_ok() {
            (shown, quiet) = (self.shown(channel), QUIET);
        }
        shown
    }

    /// Plays a section that is no channel.
    async fn act(&mut self, head: &str, body: &str) -> anyhow::Result<()> {
        let (verb, rest) = head.split_once(' ').unwrap_or((head, ""));
        let (what, who) = rest.rsplit_once("by @").unwrap_or((rest, ""));
        let (what, user) = (what.trim().trim_matches('`'), format!("U0{}", who.to_uppercase()));
        match verb {
            "config.yaml" => {}
            "metrics" => match self.away.take() {
                Some(port) if body != "away" => drop(replay(body.to_owned(), port).await),
                unchanged => self.away = unchanged,
            },
            "alert" => self.alert(what, serde_saphyr::from_str(body)?).await?,
            "click" => self.click(&user, what).await?,
            "submit" => {
                self.slack.wait_for(|state| state.views().iter().any(|v| v.is_open && v.user == user), SOON).await?;
                let view = self.slack.view(&user).context("no form is open")?;
                let fields: Vec<(&str, &str)> = body.lines().filter_map(|line| line.split_once(": ")).collect();
                self.slack.submit(&user, &view.id, &fields).await?;
            }
            "until" => {
                let shown = self.slack.wait_for(|state| normal(&state.transcript(CHANNEL)).contains(rest), SOON);
                shown.await.with_context(|| self.service.stderr())?;
            }
            "slash" => {
                self.slack.command(&user, CHANNEL, what.trim_start_matches("/llm-diagnose").trim()).await?;
            }
            "thread" => {
                let first = self.slack.messages(CHANNEL).first().context("the channel has no message")?.ts.clone();
                self.slack.mention(&user, CHANNEL, Some(&first), what).await?;
            }
            "slack" if what.starts_with("answers 429 to ") => {
                self.slack.fail_next(&what["answers 429 to ".len()..], Failure::RateLimited(1), 1);
            }
            _ => bail!("unknown section"),
        }
        Ok(())
    }

    /// Presses the newest button with this label that the user sees, or chooses it in a menu.
    async fn click(&self, user: &str, label: &str) -> anyhow::Result<()> {
        let messages = self.slack.messages(CHANNEL);
        let mut seen = messages.iter().rev().filter(|m| m.only_for.as_ref().is_none_or(|only| only == user));
        let found = seen.find_map(|m| Some((&m.ts, m.all_blocks().find_map(|block| element(block, label))?)));
        match found.context("nobody sees such a button")? {
            (ts, (action, Some(option))) => self.slack.choose(user, CHANNEL, ts, action, option).await?,
            (ts, (action, None)) => self.slack.press(user, CHANNEL, ts, Press::new(action).confirmed()).await?,
        };
        Ok(())
    }

    /// Tells of alerts as Alertmanager does, which groups them by name, namespace and model: `firing`, `resolved from SOURCE`.
    async fn alert(&mut self, what: &str, told: Vec<BTreeMap<String, String>>) -> anyhow::Result<()> {
        let (status, source) = what.split_once(" from ").unwrap_or((what, ""));
        let ends = if status == "resolved" { clock::now() } else { clock::after(self.begun, 180 * SOON) };
        let mut changed: Vec<String> = Vec::new();
        for mut labels in told {
            let summary = labels.remove("summary").unwrap_or_else(|| "First tokens are late".to_owned());
            let label = |name| labels.get(name).map_or("", String::as_str);
            let group = ["alertname", "namespace", "model_name"].map(label).join("/");
            let alerts = self.groups.entry(group.clone()).or_default();
            let alert = json!({
                "status": status, "fingerprint": format!("{labels:?}"), "labels": labels, "generatorURL": "",
                "startsAt": clock::before(self.begun, Duration::from_secs(300)), "endsAt": ends,
                "annotations": { "summary": summary },
            });
            alerts.retain(|known| known["labels"] != alert["labels"]);
            alerts.push(alert);
            changed.extend((!changed.contains(&group)).then_some(group));
        }
        for group in changed {
            let Some(alerts) = self.groups.get_mut(&group) else { continue };
            if let Some(alertmanager) = &self.alertmanager {
                alertmanager.post_alerts(alerts).await?;
                continue;
            }
            let is_over = alerts.iter().all(|alert| alert["status"] == "resolved");
            let body = json!({
                "version": "4", "groupKey": format!("{{}}:{{{group}}}"), "receiver": "r", "truncatedAlerts": 0,
                "status": if is_over { "resolved" } else { "firing" }, "groupLabels": {}, "commonLabels": {},
                "commonAnnotations": {}, "externalURL": "http://alertmanager", "alerts": alerts,
            });
            let hook = format!("{}/webhook/alertmanager/{source}", self.service.url);
            reqwest::Client::new().post(hook.trim_end_matches('/')).json(&body).send().await?.error_for_status()?;
            alerts.retain(|alert| alert["status"] != "resolved");
        }
        Ok(())
    }
}

/// Puts the keys of one configuration over those of another.
fn merge(base: &mut Value, own: Value) {
    match own {
        Value::Object(own) => own.into_iter().for_each(|(key, value)| merge(&mut base[key], value)),
        own => *base = own,
    }
}

/// The action of the button with this label; of a menu's option, its value too.
fn element<'a>(part: &'a Value, label: &str) -> Option<(&'a str, Option<&'a str>)> {
    if let Some(action) = part["action_id"].as_str() {
        let mut options = part["options"].as_array().into_iter().flatten();
        let option = options.find(|option| option["text"]["text"] == label).map(|option| option["value"].as_str());
        return (part["text"]["text"] == label).then_some(None).or(option).map(|option| (action, option));
    }
    match part {
        Value::Array(parts) => parts.iter().find_map(|part| element(part, label)),
        Value::Object(parts) => parts.values().find_map(|part| element(part, label)),
        _ => None,
    }
}

//! The stage: a Prometheus with a fleet that broke a few minutes ago, an Alertmanager, a Slack, and the product between.

use std::path::Path;
use std::sync::{LazyLock, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use knowledge::clock;
use llm_diagnose_lab::sim::{Fault, Fleet, FleetSpec, History};
use llm_diagnose_lab::slack::{FakeSlack, Message, Options, Press, State, View};
use llm_diagnose_lab::stack::{Alertmanager, Prometheus, Service};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};

use crate::harness::simulated;
use crate::running::{BINARY, CHANNEL, SOON, choose, tls, without_authentication};

/// Who is on call.
pub(super) const ANN: &str = "U0ANN";
/// Who may only look.
pub(super) const BEN: &str = "U0BEN";
/// From the fault to the present.
const FAULT_SECONDS: i64 = 480;
/// Of normal service before it: longer than the past that a diagnosis compares with.
const NORMAL_SECONDS: i64 = 3_300;

/// Everything that runs, and what was seen of it.
pub(super) struct Night {
    pub(super) slack: FakeSlack,
    pub(super) service: Service,
    pub(super) alertmanager: Alertmanager,
    /// The address under which the service knows the Alertmanager.
    _door: tokio::task::JoinHandle<()>,
    pub(super) prometheus: Prometheus,
    seen: Mutex<Vec<String>>,
}

/// The history of the fleet whose prompts became longer, which ends now; made once.
fn history() -> String {
    static HISTORY: LazyLock<String> = LazyLock::new(|| recorded("longer-prompts"));
    HISTORY.clone()
}

/// The history of a fleet with a fault, which ends now.
pub(super) fn recorded(fault: &str) -> String {
    let now = clock::now().as_second();
    let broke = (now - FAULT_SECONDS) as f64;
    let mut fleet = Fleet::new(FleetSpec::sized(4), 1, broke - (NORMAL_SECONDS + 600) as f64).unwrap();
    fleet.advance_to(broke - NORMAL_SECONDS as f64);
    let mut normal = History::new(60.0);
    normal.record(&mut fleet, broke);
    fleet.inject(fault.parse::<Fault>().unwrap()).unwrap();
    fleet.advance_to(broke + 1.0);
    let mut wrong = History::new(15.0);
    wrong.record(&mut fleet, now as f64);
    simulated(&normal) + &simulated(&wrong) + "# EOF\n"
}

impl Night {
    /// Starts it all.
    pub(super) async fn fall() -> Self {
        Self::of(&history(), "").await
    }

    /// Starts it all over a history, with more lines of configuration.
    pub(super) async fn of(history: &str, extra: &str) -> Self {
        tls();
        let slack = FakeSlack::start(Options {
            allowed_mentions: ["!subteam^S0ONCALL", "@U0ANN", "@U0BEN"].map(String::from).into(),
            ..Options::unlimited()
        });
        let prometheus = Prometheus::builder().backfill_text(history).unwrap().start();
        let (slack, prometheus) = tokio::join!(slack, prometheus);
        let (slack, prometheus) = (slack.unwrap(), prometheus.unwrap());
        // The Alertmanager must know the service, and the service the Alertmanager.
        let door = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let config = format!(
            "listen: 127.0.0.1:$PORT\nstate_dir: $DIR/state\npublic_url: https://triage.example\n\
             prometheus: [{{ url: \"{}\" }}]\nalertmanagers: [{{ url: \"http://{}\" }}]\n\
             dashboard_url: \"https://grafana.example/d/llm?var-namespace={{namespace}}&from={{from}}&to={{to}}\"\n\
             slack: {{ api_url: \"{}\", channel: \"{CHANNEL}\", mention: S0ONCALL, act: {{ groups: [S0ONCALL] }}, \
             escalate: S0ONCALL, posts_per_second: 100, posts_burst: 100, updates_per_minute: 1000, \
             commands_per_minute: [600, 600, 600] }}\n{extra}\n",
            prometheus.url,
            door.local_addr().unwrap(),
            slack.base_url
        );
        let token = slack.token.clone();
        let secrets = [("SLACK_BOT_TOKEN", token.as_str()), ("SLACK_APP_TOKEN", "xapp-lab")];
        let config = without_authentication(&config);
        let service = Service::start(Path::new(BINARY), &["serve", "--config", "$CONFIG"], &secrets, &config);
        let service = service.await.unwrap();
        let alertmanager = Alertmanager::builder()
            .webhook(&format!("{}/webhook/alertmanager", service.url), json!({}))
            .group_by(&["alertname", "namespace"])
            .flag("--web.external-url=https://alertmanager.example/")
            .start()
            .await
            .unwrap();
        let door = tokio::spawn(lead_on(door, alertmanager.address.clone()));
        slack.wait_for(|state| state.connections() == 2, SOON).await.unwrap();
        Self { slack, service, alertmanager, _door: door, prometheus, seen: Mutex::default() }
    }

    /// The alert fires, as Prometheus tells of it, since a minute.
    pub(super) async fn fire(&self) {
        self.fire_as("LLMHighTTFT").await;
    }

    /// The alert fires anew, since now: Prometheus never lets two episodes overlap, and Alertmanager would join them.
    pub(super) async fn fire_again(&self) {
        self.alertmanager.post_alerts(&[alert("LLMHighTTFT", clock::now(), None)]).await.unwrap();
    }

    /// Another alert does.
    pub(super) async fn fire_as(&self, name: &str) {
        let started = clock::before(clock::now(), Duration::from_secs(60));
        self.alertmanager.post_alerts(&[alert(name, started, None)]).await.unwrap();
    }

    /// The alert ends.
    pub(super) async fn resolve(&self) {
        let all = self.alertmanager.alerts().await.unwrap();
        let started: Timestamp = all[0]["startsAt"].as_str().unwrap().parse().unwrap();
        let name = all[0]["labels"]["alertname"].as_str().unwrap();
        self.alertmanager.post_alerts(&[alert(name, started, Some(clock::now()))]).await.unwrap();
    }

    /// Waits until Slack shows it.
    pub(super) async fn until(&self, shown: impl FnMut(&State) -> bool) {
        if let Err(error) = self.slack.wait_for(shown, SOON).await {
            panic!("{error}\n{}", self.service.stderr());
        }
    }

    /// The incident's message: the channel's first.
    pub(super) fn message(&self) -> Message {
        self.slack.messages(CHANNEL).remove(0)
    }

    /// Waits until the incident's message says something; returns it.
    pub(super) async fn message_with(&self, said: &str) -> Message {
        self.until(|state| state.messages(CHANNEL).next().is_some_and(|m| all_of(m).contains(said))).await;
        self.message()
    }

    /// Waits until somebody says something anew: in the thread, the channel, or to one person. What was seen once does
    /// not count again.
    pub(super) async fn said(&self, wanted: &str) -> Message {
        let mut found = None;
        self.until(|state| {
            let mut seen = self.seen.lock().unwrap();
            let fresh = |m: &&Message| !seen.contains(&m.ts) && m.user.is_none() && all_of(m).contains(wanted);
            found = state.messages(CHANNEL).skip(1).find(fresh).cloned();
            if let Some(found) = &found {
                seen.push(found.ts.clone());
            }
            found.is_some()
        })
        .await;
        found.unwrap()
    }

    /// Presses a button of the incident's message.
    pub(super) async fn press(&self, user: &str, press: impl Into<Press>) {
        let ts = self.message().ts;
        let ack = self.slack.press(user, CHANNEL, &ts, press).await.unwrap();
        assert!(ack.delay < Duration::from_secs(3), "{ack:?}");
    }

    /// Chooses an act in the menu of the incident's message.
    pub(super) async fn choose(&self, user: &str, act: &str) {
        choose(&self.slack, user, &self.message(), act).await;
    }

    /// Chooses an act in the menu of the incident's message, which opens a form; returns the form.
    pub(super) async fn menu(&self, user: &str, act: &str) -> View {
        self.choose(user, act).await;
        self.until(|state| state.views().iter().any(|view| view.is_open && view.user == user)).await;
        self.slack.view(user).unwrap()
    }

    /// Presses a button that opens a form; returns the form, and how it reads.
    pub(super) async fn form(&self, user: &str, button: &str) -> (View, String) {
        self.press(user, button).await;
        self.until(|state| state.views().iter().any(|view| view.is_open && view.user == user)).await;
        let shown = self.slack.transcript(CHANNEL);
        (self.slack.view(user).unwrap(), shown[shown.find("(modal of").unwrap()..].to_owned())
    }

    pub(super) async fn command(&self, user: &str, text: &str) {
        let ack = self.slack.command(user, CHANNEL, text).await.unwrap();
        assert!(ack.delay < Duration::from_secs(3), "{ack:?}");
    }

    /// Asks in the incident's thread.
    pub(super) async fn ask(&self, user: &str, text: &str) {
        let ts = self.message().ts;
        self.slack.mention(user, CHANNEL, Some(&ts), text).await.unwrap();
    }

    /// Runs a command of the binary beside the service, on its state; what it wrote, both streams.
    pub(super) async fn cli(&self, arguments: &[&str]) -> (bool, String) {
        let config = self.service.directory().join("config.yaml");
        let mut command = tokio::process::Command::new(BINARY);
        command.args(arguments).env("LLM_DIAGNOSE_CONFIG", &config).kill_on_drop(true);
        let output = tokio::time::timeout(3 * SOON, command.output()).await.unwrap().unwrap();
        let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
        (output.status.success(), text)
    }

    pub(super) async fn metrics(&self) -> String {
        reqwest::get(format!("{}/metrics", self.service.url)).await.unwrap().text().await.unwrap()
    }

    /// Writes the channel into NIGHT_SHOW, a directory, for whoever wants to read it.
    pub(super) fn show(&self, what: &str) {
        if let Some(directory) = std::env::var_os("NIGHT_SHOW") {
            std::fs::write(Path::new(&directory).join(what), self.slack.transcript(CHANNEL)).unwrap();
        }
    }

    /// The silences that count.
    pub(super) async fn silences(&self) -> Vec<Value> {
        let all = self.alertmanager.silences().await.unwrap();
        all.as_array().unwrap().iter().filter(|s| s["status"]["state"] == "active").cloned().collect()
    }
}

/// Where a link of a message leads.
pub(super) fn link(text: &str, label: &str) -> url::Url {
    let end = text.find(&format!("|{label}>")).unwrap_or_else(|| panic!("no link {label}: {text}"));
    let start = text[..end].rfind('<').unwrap() + 1;
    text[start..end].replace("&amp;", "&").parse().unwrap()
}

/// The incident's message and its thread without what differs from night to night: numbers, times, ids, and which of
/// several facts come first.
pub(super) fn stable(transcript: &str, incident: &str) -> String {
    let first = transcript.split("\n\n").next().unwrap();
    let first = first.replace(incident, "#").replace(&incident[22..], "#");
    let mut out = String::new();
    let mut answer = false;
    for line in first.lines() {
        // What "why?" and "bundle" answer is long, and other tests read it.
        answer = if line.starts_with("  ↳") {
            line.contains("↳ *Confirmed") || line.contains("↳ *The bundle of")
        } else {
            answer && line.starts_with("    ")
        };
        let fact = ["For: ", "Ruled out: ", "During the incident", "The times do not fit"]
            .iter()
            .any(|fact| line.contains(fact));
        if fact || (answer && !line.starts_with("  ↳")) {
            continue;
        }
        for word in line.split_inclusive([' ', '"', '`', ',', ')', '*']) {
            let bare = word.trim_end_matches([' ', '"', '`', ',', ')', '*']);
            let counted = bare.starts_with(|c: char| c.is_ascii_digit()) && !bare.ends_with('.');
            match counted {
                true => out.push_str(&word.replacen(bare, "#", 1)),
                false => out.push_str(word),
            }
        }
        out.push('\n');
    }
    in_any_order(&out)
}

/// The posts of the thread sorted: which of two comes first depends on the machine.
pub(super) fn in_any_order(transcript: &str) -> String {
    let mut parts = transcript.split("  ↳");
    let message = parts.next().unwrap_or_default();
    let mut posts: Vec<String> = parts.map(|post| format!("  ↳{post}")).collect();
    posts.sort();
    message.to_owned() + &posts.concat()
}

/// Everything that a message says, markup as sent.
pub(super) fn all_of(message: &Message) -> String {
    let mut out = vec![message.content.text.clone()];
    message.all_blocks().for_each(|block| texts(block, &mut out));
    out.extend(message.files.iter().cloned());
    out.join("\n")
}

fn texts(value: &Value, out: &mut Vec<String>) {
    match value {
        Value::Array(all) => all.iter().for_each(|one| texts(one, out)),
        Value::Object(fields) => {
            for (name, value) in fields {
                match value.as_str() {
                    Some(text) if matches!(name.as_str(), "text" | "alt_text" | "url") => out.push(text.to_owned()),
                    _ => texts(value, out),
                }
            }
        }
        _ => {}
    }
}

fn alert(name: &str, started: Timestamp, ended: Option<Timestamp>) -> Value {
    let mut alert = json!({
        "labels": { "alertname": name, "namespace": "llm", "severity": "critical",
            "model_name": "meta-llama/Llama-3.1-8B-Instruct" },
        "annotations": { "summary": "first tokens come late in llm",
            "runbook_url": "https://runbooks.example/high-ttft" },
        "startsAt": started,
    });
    // Prometheus says until when it may be believed without another word.
    alert["endsAt"] = json!(ended.unwrap_or(clock::after(clock::now(), Duration::from_secs(240))));
    alert
}

/// Passes every connection on to `address`.
async fn lead_on(door: TcpListener, address: String) {
    while let Ok((mut from, _)) = door.accept().await {
        let address = address.clone();
        tokio::spawn(async move {
            if let Ok(mut to) = TcpStream::connect(address).await {
                let _ = tokio::io::copy_bidirectional(&mut from, &mut to).await;
            }
        });
    }
}

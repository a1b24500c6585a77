//! The product as a process, beside a fake Slack: what the delivery tests start from.

use std::path::Path;
use std::process::Output;
use std::time::{Duration, Instant};

use llm_diagnose_lab::slack::{Channel, FakeSlack, Message, Options};
use llm_diagnose_lab::stack::Service;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;

/// The binary under test.
pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_llm-diagnose");
/// Where messages go unless a route says otherwise.
pub(crate) const CHANNEL: &str = "#llm-alerts";
/// The configuration of a Prometheus that nobody answers for.
pub(crate) const NOWHERE: &str = "prometheus: [{ url: \"http://127.0.0.1:1\" }]";
/// How long a test waits for an event that must come.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// A running service with its Slack.
pub(crate) struct Running {
    pub(crate) service: Service,
    pub(crate) slack: FakeSlack,
    pub(crate) http: reqwest::Client,
}

/// Chooses an act in the menu of a message.
pub(crate) async fn choose(slack: &FakeSlack, user: &str, message: &Message, act: &str) {
    let shown: String = message.all_blocks().map(Value::to_string).collect();
    let (_, value) = shown.split_once(&format!("\"{act} ")).unwrap_or_else(|| panic!("no {act}: {shown}"));
    let option = format!("{act} {}", value.split('"').next().unwrap());
    slack.choose(user, CHANNEL, &message.ts, "more", &option).await.unwrap();
}

/// One TLS provider for the process; reqwest panics without.
pub(crate) fn tls() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}

impl Running {
    /// Starts with `extra` configuration lines beside listen, state and Slack.
    pub(crate) async fn start(extra: &str) -> Self {
        Self::start_with(Options::unlimited(), extra).await
    }

    pub(crate) async fn start_with(options: Options, extra: &str) -> Self {
        Self::start_slack(options, "", extra).await
    }

    /// As [`Self::start_with`], with more keys of `slack:`, each with a comma before it.
    pub(crate) async fn start_slack(options: Options, keys: &str, extra: &str) -> Self {
        tls();
        let slack = FakeSlack::start(options.channel(Channel::new("C0CRIT", "critical"))).await.unwrap();
        let keys = match keys.trim_start_matches(", ") {
            "" => String::new(),
            keys => format!("{keys},"),
        };
        let service = serve(&slack, &keys, extra).await.unwrap();
        Self { service, slack, http: reqwest::Client::new() }
    }

    /// The messages of a channel, threads left out.
    pub(crate) fn tops(&self, channel: &str) -> Vec<Message> {
        self.slack.messages(channel).into_iter().filter(|message| message.thread_ts.is_none()).collect()
    }

    pub(crate) async fn webhook(&self, body: Vec<u8>) -> (u16, Value) {
        let url = format!("{}/webhook/alertmanager", self.service.url);
        let response = self.http.post(url).header("content-type", "application/json").body(body).send().await.unwrap();
        let status = response.status().as_u16();
        (status, response.json().await.unwrap_or(Value::Null))
    }

    pub(crate) async fn send(&self, group: &Value) -> Value {
        let (status, answer) = self.webhook(serde_json::to_vec(group).unwrap()).await;
        assert_eq!(status, 200, "{answer}");
        answer
    }

    pub(crate) async fn get(&self, path: &str) -> (u16, String) {
        let response = self.http.get(format!("{}{path}", self.service.url)).send().await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    }

    /// The metrics; empty if the service is so busy that it does not answer, or reloads.
    pub(crate) async fn metrics(&self) -> String {
        // Kept connections are cut then.
        match self.http.get(format!("{}/metrics", self.service.url)).header("connection", "close").send().await {
            Ok(answer) => answer.text().await.unwrap_or_default(),
            Err(_) => String::new(),
        }
    }

    /// Waits until the metrics whose lines start with `name` add up to at least `least`.
    pub(crate) async fn wait_for_metric(&self, name: &str, least: f64) {
        let until = Instant::now() + 3 * SOON;
        loop {
            let page = self.metrics().await;
            let lines = page.lines().filter(|line| line.starts_with(name));
            let sum: f64 = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum();
            if sum >= least {
                return;
            }
            assert!(Instant::now() < until, "{name} is {sum}: {}", self.service.stderr());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until a message in the channel satisfies `shown`, given its text and attachments as one string.
    pub(crate) async fn wait_for(&self, channel: &str, shown: impl Fn(&str) -> bool) {
        let name = channel.to_owned();
        let found = self.slack.wait_for(|s| s.messages(&name).any(|m| shown(&whole(m))), SOON).await;
        if let Err(error) = found {
            panic!("{error}\n{}", self.service.stderr());
        }
    }
}

/// The command line with these arguments, without what the environment says of sources; it ends when dropped.
pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(BINARY);
    for name in ["PROMETHEUS_URL", "LLM_DIAGNOSE_STATE_DIR", "STATE_DIRECTORY", "LLM_DIAGNOSE_CONFIG"] {
        command.env_remove(name);
    }
    command.args(arguments).kill_on_drop(true);
    command
}

/// Runs the command to its end. Panics if it is still running then: a `serve` that was to refuse has started.
pub(crate) async fn ended(mut command: Command) -> Output {
    let output = tokio::time::timeout(2 * SOON, command.output()).await;
    output.unwrap_or_else(|_| panic!("still runs: {command:?}")).unwrap()
}

/// Starts the product beside a fake Slack; another start beside the same one is another replica. `keys` are more of
/// the key `slack`, each with a comma; `extra` are more lines.
pub(crate) async fn serve(slack: &FakeSlack, keys: &str, extra: &str) -> anyhow::Result<Service> {
    // Unless a test says otherwise, a busy machine does not decide whether the first message has its diagnosis.
    let patient = if format!("\n{extra}").contains("\ndiagnose: {") { "" } else { "diagnose: { grace: 3s }" };
    let config = format!(
        "listen: 127.0.0.1:$PORT\nstate_dir: $DIR/state\nslack: {{ {keys} api_url: \"{}\", channel: \"{CHANNEL}\", \
         routes: [{{ labels: {{ severity: page }}, channel: \"#critical\" }}] }}\n{extra}\n{patient}\n",
        slack.base_url
    );
    let token = [("SLACK_BOT_TOKEN", slack.token.as_str())];
    Service::start(Path::new(BINARY), &["serve", "--config", "$CONFIG"], &token, &without_authentication(&config)).await
}

/// The configuration with pages and webhook open to everybody, unless it configures them itself.
pub(crate) fn without_authentication(config: &str) -> String {
    let keys = ["pages", "webhook"].into_iter().filter(|key| !format!("\n{config}").contains(&format!("\n{key}: {{")));
    let added: String = keys.map(|key| format!("\n{key}: {{ authentication: none }}")).collect();
    format!("{config}{added}\n")
}

/// Passes every connection on to `address`.
pub(crate) async fn lead_on(door: TcpListener, address: String) {
    while let Ok((mut from, _)) = door.accept().await {
        let address = address.clone();
        tokio::spawn(async move {
            if let Ok(mut to) = TcpStream::connect(address).await {
                let _ = tokio::io::copy_bidirectional(&mut from, &mut to).await;
            }
        });
    }
}

/// Everything that a message says.
pub(crate) fn whole(message: &Message) -> String {
    let content = &message.content;
    format!("{}\n{}", content.text, serde_json::to_string(&(&content.blocks, &content.attachments)).unwrap())
}

/// The options of a silence form for these labels.
pub(crate) fn label_options(form: &Value, names: &[&str]) -> String {
    let blocks = form["blocks"].as_array().unwrap();
    let options = &blocks.iter().find(|block| block["block_id"] == "labels").unwrap()["element"]["options"];
    let values = options.as_array().unwrap().iter().map(|option| option["value"].as_str().unwrap());
    let chosen = values.filter(|value| names.iter().any(|name| value.starts_with(&format!("{name} "))));
    chosen.collect::<Vec<_>>().join(",")
}

/// A body of one group whose alerts have so many names.
pub(crate) fn named(names: usize) -> Value {
    let pods: Vec<String> = (0..names).map(|n| n.to_string()).collect();
    let mut body = group("Many", "firing", "warning", &pods.iter().map(String::as_str).collect::<Vec<_>>());
    for (n, alert) in body["alerts"].as_array_mut().into_iter().flatten().enumerate() {
        alert["labels"]["alertname"] = json!(format!("Many{n}"));
    }
    body
}

/// A webhook body of one group.
pub(crate) fn group(name: &str, status: &str, severity: &str, pods: &[&str]) -> Value {
    let alerts: Vec<Value> = pods
        .iter()
        .map(|pod| {
            json!({
                "status": status,
                "labels": { "alertname": name, "namespace": "llm", "severity": severity, "pod": pod },
                "annotations": { "summary": "first tokens are late <!channel>" },
                "startsAt": "2026-11-20T03:00:00Z",
                "endsAt": if status == "resolved" { "2026-11-20T03:10:00Z" } else { "0001-01-01T00:00:00Z" },
                "generatorURL": "",
                "fingerprint": format!("{name}-{pod}"),
            })
        })
        .collect();
    json!({
        "version": "4", "groupKey": format!("{{}}:{{alertname=\"{name}\"}}"), "status": status, "receiver": "r",
        "truncatedAlerts": 0, "groupLabels": { "alertname": name }, "commonLabels": {}, "commonAnnotations": {},
        "externalURL": "http://alertmanager", "alerts": alerts,
    })
}

/// Waits until an answer is as it should be, asking again and again as Alertmanager and a kubelet do.
pub(crate) async fn until<T: std::fmt::Debug>(
    within: Duration,
    ask: impl AsyncFn() -> T,
    met: impl Fn(&T) -> bool,
) -> T {
    let end = Instant::now() + within;
    loop {
        let answer = ask().await;
        if met(&answer) {
            return answer;
        }
        assert!(Instant::now() < end, "not within {within:?}: {answer:?}");
    }
}

/// One check of `/readyz`.
pub(crate) fn check<'a>(ready: &'a Value, name: &str) -> &'a Value {
    let checks = ready["checks"].as_array().into_iter().flatten();
    checks.into_iter().find(|check| check["name"] == name).unwrap_or(&Value::Null)
}

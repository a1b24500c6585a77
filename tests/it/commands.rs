//! `/llm-diagnose` as a person meets it: what is typed, and what then stands in Slack, on a real Prometheus.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::routing::post;
use chat::Desk;
use findings::Request;
use jiff::Timestamp;
use knowledge::alert::AlertGroup;
use knowledge::clock;
use knowledge::incident::AdmissionRules;
use llm_diagnose_lab::slack::{Channel, FakeSlack, Message, Options, blocks};
use llm_diagnose_lab::stack;
use llm_diagnose_lab::stack::backfill::{Series, openmetrics};
use message::Line;
use prom::Prometheus;
use serde_json::{Value, json};
use service::config::Config;
use slack::{Ack, Choice, Destination, RequestPlace, SlackAction, SlackActor, SlackRequest};
use sources::exporter;
use store::{AdmissionPlan, Sink};
use tempfile::TempDir;
use tokio::sync::mpsc;

use crate::chains::{asked, moment};
use crate::harness::{DEADLINE, client, desk, library, run, shared, tls};
use crate::running::{CHANNEL, SOON, group};

/// The fake's first channel, and a direct message.
const ALERTS: &str = "C0ALERTS";
const DIRECT: &str = "D0SRE";

/// A desk with its Slack, and what came to the `response_url`.
struct Office {
    desk: Arc<Desk>,
    slack: FakeSlack,
    response_url: String,
    responses: mpsc::UnboundedReceiver<Value>,
    _state: TempDir,
}

impl Office {
    async fn open(prometheus: Prometheus) -> Self {
        Self::open_with(prometheus, Duration::from_secs(20)).await
    }

    /// With this deadline of a diagnosis.
    async fn open_with(prometheus: Prometheus, deadline: Duration) -> Self {
        tls();
        let options = Options::unlimited().channel(Channel::new(ALERTS, "alerts")).channel(Channel::new(DIRECT, "dm"));
        // What people did stands beside their names.
        let options = Options { allowed_mentions: vec!["@U0ANN".into()], ..options };
        let fake = FakeSlack::start(options).await.unwrap();
        let state = tempfile::tempdir().unwrap();
        let config = Config {
            slack: slack::Config {
                channel: CHANNEL.to_owned(),
                commands_per_minute: [1_000; 3],
                act: slack::Powers { users: ["U0ANN".to_owned()].into_iter().collect(), ..slack::Powers::default() },
                ..slack::Config::default()
            },
            exporters: exporter::Config { learn: false, ..exporter::Config::default() },
            diagnose: diagnose::Config { deadline, ..diagnose::Config::default() },
            ..Config::default()
        };
        let desk = desk(config, &fake, prometheus, state.path()).await;
        let (arrived, responses) = mpsc::unbounded_channel();
        let take = |State(arrived): State<mpsc::UnboundedSender<Value>>, Json(body): Json<Value>| async move {
            arrived.send(body).unwrap();
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let response_url = format!("http://{}/commands/1", listener.local_addr().unwrap());
        let app = axum::Router::new().route("/commands/1", post(take)).with_state(arrived);
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self { desk, slack: fake, response_url, responses, _state: state }
    }

    async fn receive(&self, place: RequestPlace, what: SlackAction) -> Ack {
        let who = SlackActor { user: "U0ANN".to_owned(), team: "T0LAB".to_owned(), is_bot: false };
        self.desk.receive(SlackRequest { id: String::new(), who, place, what }).await
    }

    /// The answers to a slash command, the last one last; each is a message that Slack takes.
    async fn command(&mut self, text: &str) -> Vec<Value> {
        let place = RequestPlace {
            channel: ALERTS.to_owned(),
            response_url: Some(self.response_url.clone()),
            ..RequestPlace::default()
        };
        let what = SlackAction::Command { text: text.to_owned() };
        assert_eq!(self.receive(place, what).await, Ack::Received);
        self.finish().await;
        let mut answers = Vec::new();
        while let Ok(answer) = self.responses.try_recv() {
            assert_eq!(blocks::validate(&answer), [], "{text}: {answer:#}");
            answers.push(answer);
        }
        assert!((1..=5).contains(&answers.len()), "{text}: {} posts to one response_url", answers.len());
        answers
    }

    /// The one answer, as text.
    async fn said(&mut self, text: &str) -> String {
        let answers = self.command(text).await;
        readable(answers.last().unwrap())
    }

    /// What stands in a channel after a mention or a direct message.
    async fn mention(&self, place: RequestPlace, text: &str) -> Vec<Message> {
        let channel = place.channel.clone();
        self.receive(place, SlackAction::Mention { text: text.to_owned() }).await;
        self.finish().await;
        assert_eq!(self.slack.violations(), []);
        let messages = self.slack.messages(&channel);
        assert!(!messages.is_empty(), "{text}: {:?}", self.slack.calls());
        messages
    }

    /// Waits until every task has ended; what was asked is answered then.
    async fn finish(&self) {
        self.desk.tasks.close();
        tokio::time::timeout(SOON * 3, self.desk.tasks.wait()).await.expect("an answer in time");
        self.desk.tasks.reopen();
    }
}

/// Every text of a message, one per line.
fn readable(message: &Value) -> String {
    let mut out = vec![message["text"].as_str().unwrap_or_default().to_owned()];
    collect(&message["blocks"], &mut out);
    collect(&message["attachments"], &mut out);
    out.join("\n")
}

fn collect(value: &Value, out: &mut Vec<String>) {
    match value {
        Value::Array(all) => all.iter().for_each(|one| collect(one, out)),
        Value::Object(fields) => {
            if fields.get("type").is_some_and(|kind| kind == "button") {
                let label = fields["text"]["text"].as_str().unwrap_or_default();
                return out.push(format!("[{label}] {}", fields["value"].as_str().unwrap_or_default()));
            }
            if let Some(text) = fields.get("text").and_then(Value::as_str) {
                out.push(text.to_owned());
            }
            fields.values().for_each(|inner| collect(inner, out));
        }
        _ => {}
    }
}

/// A Prometheus with quiet pools of the last minutes; two of them have a pod of the same name.
async fn quiet_pools() -> stack::Prometheus {
    let now = clock::now().as_second() / 60 * 60;
    let pool = |namespace: &str, model: &str, pod: &str| {
        let labels = [("namespace", namespace), ("model_name", model), ("pod", pod), ("job", "vllm")];
        let of = |name: &str, value: f64| Series::new(name, &labels).steady(now - 600, now, 15, value);
        vec![of("vllm:num_requests_running", 1.0), of("vllm:num_requests_waiting", 0.0), of("up", 1.0)]
    };
    let series = [
        pool("llm", "meta-llama/Llama-3.1-8B-Instruct", "chat-7c9d8f5b6c-x2x4z"),
        pool("llm", "qwen", "qwen-0"),
        pool("llm-dev", "qwen", "qwen-dev-0"),
        pool("llm-dev", "chat", "twin-0"),
        pool("llm", "chat", "twin-0"),
    ];
    let text = openmetrics(series.into_iter().flatten());
    stack::Prometheus::builder().backfill_text(&text).unwrap().start().await.unwrap()
}

#[test]
fn a_pool_is_diagnosed_by_a_part_of_its_name_at_another_time() {
    let prometheus = shared().clone();
    run(async {
        let mut office = Office::open(prometheus).await;
        let when: Timestamp = crate::harness::at(moment("longer-prompts"));
        let said = office.said(&format!("longer-prompts at {when}")).await;
        assert!(said.contains("prompts became longer"), "{said}");
        assert!(said.contains(&when.strftime("%Y-%m-%d %H:%M UTC").to_string()), "which moment: {said}");
        // Without an alert the answer is the one that an alert gets.
        for (name, playbook) in [("lost-replicas", "high-ttft"), ("slot-limit", "queue-buildup")] {
            let request = Request { screen: true, ..asked(name, playbook) };
            let alerted = diagnose::diagnose(library(), shared(), &request).await;
            let said = office.said(&format!("namespace={name} at {}", crate::harness::at(moment(name)))).await;
            assert!(said.contains(&alerted.root().unwrap().title), "{name}: {said}");
        }
        let answers = office.command(&format!("longer-prompts at {when} playbook high-ttft here")).await;
        assert_eq!(answers.last().unwrap()["response_type"], "in_channel");
        let when = crate::harness::at(moment("healthy"));
        let said = office.said(&format!("diagnose healthy at {when}")).await;
        assert!(said.contains("No alert threshold is exceeded here"), "{said}");
        let said = office.said(&format!("health at {when}")).await;
        assert!(said.contains("healthy") && said.contains("replica"), "{said}");
        office.said(&format!("health at {}", crate::harness::at(moment("longer-prompts")))).await;
    });
}

#[test]
fn a_pool_that_nothing_names_is_not_taken_for_none() {
    run(async {
        let now = clock::now().as_second() / 60 * 60;
        let of = |name| Series::new(name, &[("job", "vllm")]).steady(now - 600, now, 15, 1.0);
        let text = openmetrics(["vllm:num_requests_running", "up"].map(of));
        let prometheus = stack::Prometheus::builder().backfill_text(&text).unwrap().start().await.unwrap();
        let mut office = Office::open(client(&prometheus.url)).await;
        let said = office.said("gpt").await;
        assert!(said.contains("The series of the only pool have no label that names it"), "{said}");
        let (client, own) = (client(&prometheus.url), BTreeMap::new());
        let sources = [(&client, &own)];
        let found = service::questions::target::find(library(), &sources, "gpt", clock::now(), DEADLINE).await;
        assert!(found.unwrap_err().to_string().contains("have no label that names it"));
    });
}

#[test]
fn a_name_that_fits_several_or_nothing_gets_a_list_of_what_is_there() {
    run(async {
        let prometheus = quiet_pools().await;
        let mut office = Office::open(client(&prometheus.url)).await;
        let said = office.said("qwen").await;
        assert!(said.contains("[llm/qwen] diagnose llm/qwen") && said.contains("[llm-dev/qwen]"), "{said}");
        let said = office.said("gpt at 1m ago").await;
        assert!(
            said.contains("No pool or pod is called gpt. Did you mean llm") && said.contains("[llm/chat]"),
            "{said}"
        );
        for (text, expected) in [("modle=qwen", "does not select a pool: did you mean"), ("model=quen", "qwen")] {
            let said = office.said(text).await;
            assert!(said.contains(expected), "{text}: {said}");
        }
        let said = office.said("llm/quen").await;
        let [nearest, other] = ["[llm/qwen]", "[llm-dev/qwen]"].map(|button| said.find(button).unwrap());
        assert!(nearest < other, "{said}");
        let said = office.said("twin-0").await;
        assert!(said.contains("[llm/twin-0] diagnose llm/twin-0") && said.contains("[llm-dev/twin-0]"), "{said}");
        let said = office.said("diagnose llm-dev/twin-0").await;
        assert!(!said.contains("[llm/twin-0]"), "its name with the namespace is one pod: {said}");
        for text in ["qwen at 2h ago", "at 2h ago"] {
            let said = office.said(text).await;
            assert!(said.contains("There is no data at ") && said.contains("but 5 pools are there now"), "{said}");
        }
        let said = office.said("LLAMA").await;
        assert!(said.contains("llm/meta-llama/Llama-3.1-8B-Instruct"), "{said}");
        let said = office.said("").await;
        assert!(said.contains("llm-dev/qwen"), "{said}");
        let said = office.said("capacity chat-7c").await;
        assert!(said.contains("Capacity of llm/chat-7c"), "{said}");
        let suggest = |typed: &str| SlackAction::Suggest { action: "target".to_owned(), typed: typed.to_owned() };
        let values = |ack: Ack| match ack {
            Ack::Options(choices) => choices.into_iter().map(|Choice { value, .. }| value).collect::<Vec<_>>(),
            other => panic!("{other:?}"),
        };
        assert_eq!(values(office.receive(RequestPlace::default(), suggest("")).await).len(), 5);
        assert_eq!(
            values(office.receive(RequestPlace::default(), suggest("dev")).await),
            ["llm-dev/chat", "llm-dev/qwen"]
        );
        let action = "playbook".to_owned();
        let playbooks = SlackAction::Suggest { action, typed: "TTFT".to_owned() };
        assert_eq!(values(office.receive(RequestPlace::default(), playbooks).await), ["high-ttft"]);
        form(&mut office).await;
    });
}

/// The form: what is wrong with a field is said there; else it is carried out where it was opened.
async fn form(office: &mut Office) {
    let about = json!({ "channel": ALERTS, "response_url": office.response_url }).to_string();
    let submit = |values: &[(&str, &str)]| SlackAction::Submit {
        form: "diagnose".to_owned(),
        about: about.clone(),
        values: values.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
    };
    match office.receive(RequestPlace::default(), submit(&[("target", "llm/qwen"), ("at", "noon")])).await {
        Ack::Errors(errors) => assert!(errors["at"].contains("RFC 3339"), "{errors:?}"),
        other => panic!("{other:?}"),
    }
    let sent = submit(&[("target", "llm/qwen"), ("last", "10m"), ("playbook", "high-ttft")]);
    assert_eq!(office.receive(RequestPlace::default(), sent).await, Ack::Received);
    office.finish().await;
    let answer = office.responses.try_recv().unwrap();
    assert_eq!(answer["response_type"], "ephemeral");
    assert!(readable(&answer).contains("first tokens"), "{answer:#}");
}

#[test]
fn what_needs_no_prometheus_is_answered_without_one_and_the_rest_says_so() {
    run(async {
        let mut office = Office::open(client("http://127.0.0.1:1")).await;
        for (text, expected) in [
            ("", "Prometheus is unreachable right now"),
            ("llama", "Prometheus is unreachable right now"),
            ("playbook high-ttft", "Cannot tell"),
            ("capacity llama", "Prometheus is unreachable right now"),
            ("doctor", "`prometheus/default` *does not work*"),
            ("help", "Commands"),
            ("help diagnose", "last DURATION"),
            ("helth", "Did you mean health?"),
            ("explain kv-cache-full", "Possible causes"),
            ("explain hot-replica", "(hot-replica)"),
            ("playbook hot-replica", "Cannot tell"),
            ("explain xid 79", "*do* Reboot or power-cycle"),
            ("explain flag —swap-space", "gone in 0.18"),
            ("explain nonsense", "there is no playbook or cause"),
            ("playbooks", "high-ttft"),
            ("accuracy", "of simulated faults"),
            ("incidents", "No incident is open"),
            ("why", "There are no incidents"),
            ("bundle 4XQ7", "There is no incident"),
            ("incidents yesterday", "yesterday is not known here: choose one of: open, today, all"),
            ("explain", "ID is missing"),
            ("llama at noon", "noon does not fit at TIME: "),
            ("x playbook high-tttf", "did you mean high-ttft?"),
            ("x at 2099-01-01T00:00:00Z", "in the future"),
            ("<!channel> *bold* \u{202e}<http://a|a>", "is not understood here"),
            (&"a".repeat(100_000), "too long"),
        ] {
            let said = office.said(text).await;
            assert!(said.contains(expected), "{text:.60}: {said}");
            assert!(!said.contains("<!channel>") && !said.contains('\u{202e}'), "{text}: {said}");
        }
    });
}

#[test]
fn in_an_incidents_thread_mentions_are_about_that_incident() {
    run(async {
        let office = Office::open(client("http://127.0.0.1:1")).await;
        let body = group("LLMHighTTFT", "firing", "critical", &["a", "b"]).to_string();
        let group = AlertGroup::from_webhook(body.as_bytes()).unwrap();
        let selection = Some(("high-ttft".to_owned(), "its name".to_owned()));
        let sinks = vec![(Sink::Slack, CHANNEL.to_owned())];
        let wanted = AdmissionPlan {
            selection,
            sinks,
            filtered: Vec::new(),
            grace: Duration::ZERO,
            storm: crate::admission::CALM,
        };
        let rules = AdmissionRules { duplicate_within: Duration::ZERO, reopen_within: Duration::ZERO };
        let (store, now) = (&office.desk.service.store, clock::now());
        let admitted = store.admit(&[(group, wanted)], now, &rules).await.unwrap().remove(0).unwrap();
        let work = office.desk.service.notifier.take(now, 60_000, 1).await.unwrap().work.remove(0);
        office.desk.service.notifier.deliver(work).await;
        let posted = office.slack.messages(CHANNEL).remove(0);
        let thread = |text: &'static str| {
            let place = RequestPlace {
                channel: posted.channel.clone(),
                thread: Some(posted.ts.clone()),
                message: Some("1700000000.000200".to_owned()),
                ..RequestPlace::default()
            };
            office.mention(place, text)
        };
        for (text, expected) in [
            ("why?", "This incident has no diagnosis"),
            ("", "CRITICAL"),
            ("again", "It is being diagnosed once more"),
            ("bundle", "but incomplete"),
        ] {
            let messages = thread(text).await;
            // The file of a bundle is a message too.
            let last = messages.iter().rev().find(|message| !message.content.text.is_empty()).unwrap();
            let said = format!("{:?}", last.content);
            assert_eq!(last.thread_ts.as_ref(), Some(&posted.ts), "{text}");
            assert!(said.contains(expected), "{text}: {said}");
        }
        let file = office.slack.files().remove(0);

        let summary = crate::bundles::summary(file.bytes.as_deref().unwrap());
        assert_eq!(summary["incident"]["id"], admitted.incident.as_str());
        assert_eq!(summary["alerts"].as_array().unwrap().len(), 2);
        // A direct message is answered as one, a mention elsewhere in its own thread.
        let direct = RequestPlace {
            channel: DIRECT.to_owned(),
            message: Some("1700000000.000300".to_owned()),
            ..RequestPlace::default()
        };
        let messages = office.mention(direct, "incidents").await;
        let last = messages.last().unwrap();
        assert_eq!(last.thread_ts, None);
        assert!(format!("{:?}", last.content).contains("1 incident is open"), "{last:?}");
        let end = &admitted.incident[admitted.incident.len() - 4..];
        let question = render::slack_line(&Line::of("@llm-diagnose status"));
        let mark = slack::MessageMark::new("x");
        let asked = office.desk.slack.post(Destination::channel(ALERTS), &question, &mark).await.unwrap();
        let place =
            RequestPlace { channel: ALERTS.to_owned(), message: Some(asked.ts.clone()), ..RequestPlace::default() };
        let messages = office.mention(place, &format!("status {end}")).await;
        assert_eq!(messages.last().unwrap().thread_ts, Some(asked.ts));
    });
}

#[test]
fn somebody_who_waits_sees_how_far_it_is_and_then_the_answer_in_its_place() {
    run(async {
        // Takes connections and never answers.
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", silent.local_addr().unwrap());
        let mut office = Office::open_with(client(&url), Duration::from_secs(3)).await;
        let direct = RequestPlace { channel: DIRECT.to_owned(), ..RequestPlace::default() };
        let messages = office.mention(direct, "playbook high-ttft").await;
        assert_eq!(messages.len(), 1, "{messages:?}");
        let history = format!("{:?}", messages[0].history);
        assert!(history.contains("Checking playbook high-ttft") || history.contains("queries"), "{history}");
        assert!(format!("{:?}", messages[0].content).contains("Cannot tell"), "{:?}", messages[0].content);
        let answers = office.command("playbook high-ttft").await;
        assert!((2..=3).contains(&answers.len()), "{answers:#?}");
        assert!(readable(&answers[0]).contains("queries") && answers[0]["response_type"] == "ephemeral");
    });
}

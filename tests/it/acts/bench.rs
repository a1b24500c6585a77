//! A desk in this process, between a fake Slack, a real Alertmanager and a real Prometheus.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use chat::Desk;
use findings::Diagnosis;
use knowledge::alert::AlertGroup;
use knowledge::clock;
use knowledge::incident::AdmissionRules;
use llm_diagnose_lab::slack::{FakeSlack, Options};
use render::step_id;
use service::config::Config;
use slack::{Ack, RequestPlace, SlackAction, SlackActor, SlackRequest};
use sources::alertmanager;
use store::{AdmissionPlan, Store};
use telemetry::Metrics;

use crate::harness::{client, desk, fixture};
use crate::running::{group, tls};

pub(super) const CHANNEL: &str = "C0LLMALERTS";

pub(super) struct Bench {
    pub(super) desk: Arc<Desk>,
    pub(super) slack: FakeSlack,
    pub(super) store: Store,
    pub(super) metrics: Arc<Metrics>,
    pub(super) state: tempfile::TempDir,
}

impl Bench {
    /// `config` is the key `slack:` without its address.
    pub(super) async fn start(config: &str, alertmanagers: &[&str], prometheus: &str) -> Self {
        Self::start_at("", config, alertmanagers, prometheus).await
    }

    /// As [`Self::start`], with pages at this address.
    pub(super) async fn start_at(public_url: &str, config: &str, alertmanagers: &[&str], prometheus: &str) -> Self {
        tls();
        let slack = FakeSlack::start(Options {
            allowed_mentions: ["!subteam^S0ONCALL", "@U0ANN", "@U0BEN"].map(String::from).into(),
            ..Options::unlimited()
        })
        .await
        .unwrap();
        let file = knowledge::playbook::SourceFile::new("slack.yaml".into(), config.to_owned());
        let config: slack::Config = match knowledge::playbook::parse(&file) {
            Ok(config) => config,
            Err(problem) => panic!("{problem}"),
        };
        let state = tempfile::tempdir().unwrap();
        let alertmanager =
            |url: &&str| alertmanager::Config { url: (*url).to_owned(), ..alertmanager::Config::default() };
        let config = Config {
            slack: config,
            alertmanagers: alertmanagers.iter().map(alertmanager).collect(),
            public_url: public_url.to_owned(),
            ..Config::default()
        };
        let desk = desk(config, &slack, client(prometheus), state.path()).await;
        let (store, metrics) = (desk.service.store.clone(), Arc::clone(&desk.service.metrics));
        Self { desk, slack, store, metrics, state }
    }

    /// Changes the store behind its back.
    pub(super) async fn change(&self, sql: &'static str) {
        let options = sqlx::sqlite::SqliteConnectOptions::new().filename(self.state.path().join("llm-diagnose.db"));
        let mut beside = sqlx::ConnectOptions::connect(&options).await.unwrap();
        sqlx::Executor::execute(&mut beside, sql).await.unwrap();
    }

    /// An incident with two firing alerts, and perhaps a diagnosis; its id.
    pub(super) async fn incident(&self, name: &str, status: &str, diagnosed: bool) -> String {
        let id = self.admit(&group(name, status, "warning", &["a", "b"])).await;
        if diagnosed {
            let diagnosis: Diagnosis =
                serde_json::from_str(&fixture("diagnoses/longer-prompts.high-ttft.json")).unwrap();
            let incident = self.store.incident(&id).await.unwrap().unwrap();
            self.store.save_diagnosis(&incident, Some(&diagnosis), true, None, clock::now()).await.unwrap();
        }
        id
    }

    /// The incident of a webhook's body; its id.
    pub(super) async fn admit(&self, body: &serde_json::Value) -> String {
        let group = AlertGroup::from_webhook(&serde_json::to_vec(body).unwrap()).unwrap();
        let wanted = AdmissionPlan {
            selection: Some(("high-ttft".into(), "its name".into())),
            sinks: Vec::new(),
            filtered: Vec::new(),
            grace: Duration::ZERO,
            storm: crate::admission::CALM,
        };
        let rules = AdmissionRules { duplicate_within: Duration::ZERO, reopen_within: Duration::from_secs(600) };
        let admitted = self.store.admit(&[(group, wanted)], clock::now(), &rules).await.unwrap();
        admitted[0].as_ref().unwrap().incident.clone()
    }

    /// The value of the button beside a step, by its number from 0.
    pub(super) async fn step(&self, id: &str, number: usize) -> String {
        let incident = self.store.incident(id).await.unwrap().unwrap();
        format!("{id}/{}", step_id(&incident.diagnosis.unwrap().fix.now[number]))
    }

    /// Does it, and waits until what it began has ended.
    pub(super) async fn receive(&self, user: &str, what: SlackAction) -> Ack {
        let team = if user == "U0STRANGER" { "T0OTHER" } else { "T0LAB" };
        let who = SlackActor { user: user.into(), team: team.into(), is_bot: false };
        let place = RequestPlace { channel: CHANNEL.into(), ..RequestPlace::default() };
        let ack = self.desk.receive(SlackRequest { id: String::new(), who, place, what }).await;
        self.settled().await;
        ack
    }

    pub(super) async fn settled(&self) {
        self.desk.tasks.close();
        self.desk.tasks.wait().await;
        self.desk.tasks.reopen();
    }

    pub(super) async fn press(&self, user: &str, action: &str, value: &str) -> Ack {
        self.receive(user, SlackAction::Press { action: action.into(), value: value.into() }).await
    }

    pub(super) async fn submit(&self, user: &str, form: &str, incident: &str, values: &[(&str, &str)]) -> Ack {
        let mut values: BTreeMap<String, String> =
            values.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        if let Some(labels) = values.get_mut("labels") {
            *labels = self.keys(incident, labels).await;
        }
        let about = serde_json::json!({ "incident": incident, "channel": CHANNEL }).to_string();
        self.receive(user, SlackAction::Submit { form: form.into(), about, values }).await
    }

    /// The options of the silence form for these labels; of a label that the alerts do not share, its name.
    pub(super) async fn keys(&self, incident: &str, names: &str) -> String {
        let incident = self.store.incident(incident).await.unwrap();
        let shared = incident.map(|incident| findings::silence::shared(&incident.alerts)).unwrap_or_default();
        let key = |name: &str| {
            shared.iter().find(|matcher| matcher.name == name).map_or(name.to_owned(), |matcher| matcher.key())
        };
        names.split(',').map(key).collect::<Vec<_>>().join(",")
    }

    /// What was said so far, to one person or to all, in order.
    pub(super) fn said(&self) -> Vec<String> {
        self.slack.messages(CHANNEL).iter().map(crate::running::whole).collect()
    }

    pub(super) fn last(&self) -> String {
        self.said().pop().unwrap_or_default()
    }

    /// What, by whom, and how it ended, oldest first.
    pub(super) async fn audit(&self) -> Vec<String> {
        let mut all = self.store.audited(jiff::Timestamp::UNIX_EPOCH, 100).await.unwrap();
        all.reverse();
        all.iter().map(|e| format!("{} {} {}", e.what, e.who, e.result.as_str())).collect()
    }
}

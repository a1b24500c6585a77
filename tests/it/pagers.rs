//! The triage lands on the page that Alertmanager raised, and on signed webhooks.

use std::path::Path;

use llm_diagnose_lab::pager::FakePager;
use llm_diagnose_lab::slack::{FakeSlack, Message, Options, Press, State};
use llm_diagnose_lab::stack::{Alertmanager, Service};
use serde_json::{Value, json};

use crate::harness::{assert_clean, innocent};
use crate::running::{BINARY, CHANNEL, Running, SOON, group, tls, whole};

/// PagerDuty's routing keys have 32 characters.
const ROUTING_KEY: &str = "0123456789abcdef0123456789abcdef";
/// Standard Webhooks' form: base64 after the prefix.
const SECRET: &str = "whsec_c2VjcmV0IG9mIHRoZSB0ZXN0cw==";

/// The service with both pagers and no Prometheus.
async fn running(extra: &str) -> (FakePager, Running, tempfile::TempDir) {
    asking("http://127.0.0.1:1", extra).await
}

/// The service with both pagers, which asks this Prometheus.
async fn asking(prometheus: &str, extra: &str) -> (FakePager, Running, tempfile::TempDir) {
    let pager = FakePager::start(ROUTING_KEY, SECRET).await.unwrap();
    let keys = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = keys.path().join(name);
        std::fs::write(&path, format!("{text}\n")).unwrap();
        path.display().to_string()
    };
    let config = format!(
        "prometheus: [{{ url: \"{prometheus}\" }}]\npublic_url: https://diagnose.example.org\npagers:\n\
         - {{ name: on-call, kind: pagerduty, labels: {{ severity: critical }}, url: \"{}\", key_file: {} }}\n\
         - {{ name: tools, kind: webhook, url: \"{}\", key_file: {} }}\n{extra}",
        pager.events_url,
        file("routing-key", ROUTING_KEY),
        pager.webhook_url,
        file("secret", SECRET),
    );
    let running = Running::start(&config).await;
    (pager, running, keys)
}

fn ours(pager: &FakePager) -> Vec<Value> {
    let ours = pager.events().into_iter().filter(|call| call.agent.starts_with("llm-diagnose/"));
    ours.map(|call| call.body).collect()
}

#[tokio::test]
async fn pagerduty_gets_the_triage_under_the_key_that_the_real_alertmanager_uses() {
    let (pager, run, _keys) = running("").await;
    let config = format!(
        "route: {{ receiver: both, group_by: [alertname, model_name], group_wait: 0s, group_interval: 1s }}\n\
         receivers: [{{ name: both, webhook_configs: [{{ url: \"{}/webhook/alertmanager\" }}],\n\
         pagerduty_configs: [{{ routing_key: {ROUTING_KEY}, url: \"{}\" }}] }}]",
        run.service.url, pager.events_url
    );
    let alertmanager = Alertmanager::builder().config(&config).start().await.unwrap();
    let labels =
        json!({ "alertname": "LLMHighTTFT", "severity": "critical", "model_name": "llama \"q\" ü", "pod": "a" });
    alertmanager.post_alerts(&[json!({ "labels": labels })]).await.unwrap();
    let both = |pager: &FakePager| !ours(pager).is_empty() && pager.events().len() > ours(pager).len();
    pager.wait_for(both, SOON).await.unwrap();
    let event = ours(&pager).remove(0);
    let theirs: Vec<Value> = pager.events().into_iter().map(|call| call.body["dedup_key"].clone()).collect();
    assert!(theirs.iter().all(|key| *key == event["dedup_key"]), "one page: {theirs:?}");
    assert_eq!(event["event_action"], "trigger");
    assert_eq!(event["payload"]["severity"], "critical");
    assert!(event["links"][0]["href"].as_str().unwrap().starts_with("https://diagnose.example.org/incidents/"));
    let details = event["payload"]["custom_details"].as_object().unwrap();
    assert!(details.values().any(|text| text.as_str().unwrap().contains("LLMHighTTFT")), "{details:?}");
    assert_eq!(pager.breaches(), Vec::<String>::new());
}

#[tokio::test]
async fn a_page_is_not_raised_anew_by_what_comes_after_its_end_and_nobody_is_paged_for_a_warning() {
    let (pager, run, _keys) = running("").await;
    run.send(&group("LLMHighTTFT", "firing", "critical", &["a"])).await;
    pager.wait_for(|pager| ours(pager).len() == 1, SOON).await.unwrap();
    run.send(&group("LLMHighTTFT", "resolved", "critical", &["a"])).await;
    run.send(&group("LLMQueueBuildup", "firing", "warning", &["a"])).await;
    // The webhook is told of everything: when it knows of both, PagerDuty's turn has passed too.
    let told = |pager: &FakePager| {
        let types: Vec<String> = pager.webhooks().iter().map(|call| call.body["type"].to_string()).collect();
        types.iter().any(|t| t.contains("resolved"))
            && pager.webhooks().iter().any(|c| c.body["data"]["severity"] == "warning")
    };
    pager.wait_for(told, SOON).await.unwrap();
    run.wait_for(CHANNEL, |m| m.contains("RESOLVED")).await;
    assert_eq!(ours(&pager).len(), 1, "{:#?}", pager.events());
    assert_eq!(pager.breaches(), Vec::<String>::new());
}

#[tokio::test]
async fn a_webhook_is_signed_retried_and_repeats_its_id_for_one_revision() {
    let (pager, run, _keys) = running("").await;
    pager.fail_next(503, None);
    pager.fail_next(429, Some(1));
    run.send(&group("LLMQueueBuildup", "firing", "warning", &["a"])).await;
    pager.wait_for(|pager| !pager.webhooks().is_empty(), SOON).await.unwrap();
    let call = pager.webhooks().remove(0);
    assert!(pager.attempts() >= 3, "two were refused");
    assert_eq!(call.body["schema"], "llm-diagnose/webhook/v1");
    assert_eq!(call.body["type"], "incident.open");
    let data = &call.body["data"];
    assert_eq!(call.id, format!("{}-{}", data["id"].as_str().unwrap(), data["revision"]));
    assert_eq!(data["labels"]["namespace"], "llm");
    assert_eq!(pager.breaches(), Vec::<String>::new());
    let (_, metrics) = run.get("/metrics").await;
    assert!(metrics.contains("llm_diagnose_deliveries_total{sink=\"pager\",result=\"retried\"}"), "{metrics}");
}

#[tokio::test]
async fn a_webhook_gets_no_secret_of_a_label() {
    let (pager, run, _keys) = running("").await;
    let mut sent = group("LLMQueueBuildup", "firing", "warning", &["a"]);
    let secret = innocent(1);
    sent["alerts"][0]["labels"]["hf_token"] = json!(secret);
    sent["groupKey"] = json!(format!("{{}}:{{alertname=\"LLMQueueBuildup\", hf_token=\"{secret}\"}}"));
    run.send(&sent).await;
    pager.wait_for(|pager| !pager.webhooks().is_empty(), SOON).await.unwrap();
    for call in pager.webhooks() {
        assert_clean(call.body.to_string().as_bytes(), "a call");
        let key = call.body["data"]["group_key"].as_str().unwrap();
        assert_eq!(key, "{}:{alertname=\"LLMQueueBuildup\", hf_token=\"[redacted: secret-field]\"}");
    }
}

#[tokio::test]
async fn a_pager_waits_for_the_diagnosis_also_of_an_alert_that_no_playbook_knows() {
    // It takes connections and never answers: the diagnosis comes after its deadline.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let prometheus = format!("http://{}", silent.local_addr().unwrap());
    let (pager, run, _keys) = asking(&prometheus, "diagnose: { deadline: 2s }").await;
    for name in ["LLMHighTTFT", "CheckoutBurnsItsBudget"] {
        run.send(&group(name, "firing", "critical", &["a"])).await;
        let of = |call: &Value| call["data"]["group_key"].as_str().is_some_and(|key| key.contains(name));
        let told = |pager: &FakePager| pager.webhooks().into_iter().map(|call| call.body).find(of);
        pager.wait_for(|pager| told(pager).is_some(), SOON).await.unwrap();
        let first = told(&pager).unwrap();
        assert_eq!(first["data"]["diagnosis"]["degraded"], true, "{name}: {first}");
    }
    assert_eq!(pager.breaches(), Vec::<String>::new());
}

#[tokio::test]
async fn a_refusal_for_good_is_given_up_and_does_not_repeat_the_key() {
    let (pager, run, _keys) = running("").await;
    for _ in 0..4 {
        pager.fail_next(400, None);
    }
    run.send(&group("LLMHighTTFT", "firing", "critical", &["a"])).await;
    pager.wait_for(|pager| pager.attempts() >= 2, SOON).await.unwrap();
    run.wait_for(CHANNEL, |m| m.contains("CRITICAL")).await;
    let given_up = async {
        while !run.service.stderr().contains("gave up telling the pager") && run.get("/healthz").await.0 == 200 {}
    };
    tokio::time::timeout(SOON, given_up).await.unwrap_or_else(|_| panic!("{}", run.service.stderr()));
    let log = run.service.stderr();
    assert!(!log.contains(ROUTING_KEY) && !log.contains(SECRET), "{log}");
}

/// The service with a pager of this kind and these keys, to which people may escalate.
async fn escalating(keys: &str) -> (FakePager, Running, tempfile::TempDir) {
    let pager = FakePager::start(ROUTING_KEY, SECRET).await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let key = directory.path().join("key");
    let (secret, url) = match keys.contains("kind: webhook") {
        true => (SECRET, &pager.webhook_url),
        false => (ROUTING_KEY, &pager.events_url),
    };
    std::fs::write(&key, secret).unwrap();
    tls();
    let slack = FakeSlack::start(Options::unlimited()).await.unwrap();
    let config = format!(
        "listen: 127.0.0.1:$PORT\nwebhook: {{ authentication: none }}\nstate_dir: $DIR/state\nprometheus: [{{ url: \"http://127.0.0.1:1\" }}]\n\
         slack: {{ api_url: \"{}\", channel: \"{CHANNEL}\", escalate: second-line, act: {{ users: [U0ANN] }} }}\n\
         pagers: [{{ name: second-line, {keys}, url: \"{url}\", key_file: {} }}]\n",
        slack.base_url,
        key.display()
    );
    let secrets = [("SLACK_BOT_TOKEN", slack.token.as_str()), ("SLACK_APP_TOKEN", "xapp-lab")];
    let arguments = ["serve", "--config", "$CONFIG"];
    let service = Service::start(Path::new(BINARY), &arguments, &secrets, &config).await.unwrap();
    (pager, Running { service, slack, http: reqwest::Client::new() }, directory)
}

async fn escalate(run: &Running) {
    let message = run.tops(CHANNEL).remove(0);
    run.slack.press("U0ANN", &message.channel, &message.ts, Press::new("escalate").confirmed()).await.unwrap();
}

/// Waits until only the one who pressed is told this, and the thread that.
async fn told(run: &Running, alone: &str, thread: &str) {
    let to_them = |m: &Message| m.only_for.is_some() && whole(m).contains(alone);
    let to_all = |m: &Message| m.only_for.is_none() && m.thread_ts.is_some() && whole(m).contains(thread);
    let both = |s: &State| s.messages(CHANNEL).any(to_them) && s.messages(CHANNEL).any(to_all);
    let seen = run.slack.wait_for(both, SOON).await;
    assert!(seen.is_ok(), "{}\n{}", seen.unwrap_err(), run.service.stderr());
}

#[tokio::test]
async fn a_pager_that_somebody_escalates_to_is_paged_then_and_its_page_ends_with_the_incident() {
    let (pager, run, _key) = escalating("kind: pagerduty, on: escalation").await;
    run.send(&group("LLMHighTTFT", "firing", "critical", &["a"])).await;
    run.wait_for(CHANNEL, |m| m.contains("CRITICAL")).await;
    escalate(&run).await;
    pager.wait_for(|pager| ours(pager).len() == 1, SOON).await.unwrap();
    told(&run, "second-line was called", "second-line was called").await;
    run.wait_for(CHANNEL, |m| m.contains("Escalated") && m.contains("second-line")).await;
    run.send(&group("LLMHighTTFT", "resolved", "critical", &["a"])).await;
    pager.wait_for(|pager| ours(pager).len() == 2, SOON).await.unwrap();
    let events = ours(&pager);
    assert_eq!((&events[0]["event_action"], &events[1]["event_action"]), (&"trigger".into(), &"resolve".into()));
    assert_eq!(events[0]["dedup_key"], events[1]["dedup_key"]);
    assert_eq!(pager.breaches(), Vec::<String>::new());
}

#[tokio::test]
async fn a_pager_that_was_told_before_is_called_by_a_page_of_its_own() {
    let (pager, run, _key) = escalating("kind: pagerduty, on: alert").await;
    run.send(&group("LLMHighTTFT", "firing", "critical", &["a"])).await;
    pager.wait_for(|pager| ours(pager).len() == 1, SOON).await.unwrap();
    run.wait_for(CHANNEL, |m| m.contains("CRITICAL")).await;
    escalate(&run).await;
    pager.wait_for(|pager| ours(pager).len() == 2, SOON).await.unwrap();
    told(&run, "second-line was called", "second-line was called").await;
    run.send(&group("LLMHighTTFT", "resolved", "critical", &["a"])).await;
    pager.wait_for(|pager| ours(pager).len() == 3, SOON).await.unwrap();
    let events = ours(&pager);
    let actions: Vec<&Value> = events.iter().map(|event| &event["event_action"]).collect();
    assert_eq!(actions, ["trigger", "trigger", "resolve"]);
    assert_ne!(events[0]["dedup_key"], events[1]["dedup_key"], "Alertmanager's page is open: it calls nobody again");
    assert_eq!(events[1]["dedup_key"], events[2]["dedup_key"]);
    assert_eq!(pager.breaches(), Vec::<String>::new());
}

#[tokio::test]
async fn a_call_that_fails_is_said_with_its_reason_and_may_be_tried_again_at_once() {
    let (pager, run, _key) = escalating("kind: pagerduty, on: escalation").await;
    run.send(&group("LLMHighTTFT", "firing", "critical", &["a"])).await;
    run.wait_for(CHANNEL, |m| m.contains("CRITICAL")).await;
    pager.fail_next(403, None);
    escalate(&run).await;
    told(&run, "Nobody was called: the pager answered 403", "second-line could not be called: the pager answered 403")
        .await;
    assert!(ours(&pager).is_empty() && !run.tops(CHANNEL).iter().any(|m| whole(m).contains("Escalated")));
    // One refusal that passes: the call is repeated until it is made.
    pager.fail_next(503, None);
    escalate(&run).await;
    pager.wait_for(|pager| ours(pager).len() == 1, SOON).await.unwrap();
    told(&run, "second-line was called", "second-line was called").await;
    assert_eq!(pager.breaches(), Vec::<String>::new());
}

#[tokio::test]
async fn a_webhook_is_told_of_an_escalation_under_an_id_of_its_own() {
    let (pager, run, _key) = escalating("kind: webhook, on: alert").await;
    run.send(&group("Unknown", "firing", "critical", &["a"])).await;
    pager.wait_for(|pager| !pager.webhooks().is_empty(), SOON).await.unwrap();
    run.wait_for(CHANNEL, |m| m.contains("CRITICAL")).await;
    escalate(&run).await;
    let escalated = |pager: &FakePager| pager.webhooks().into_iter().find(|c| c.body["type"] == "incident.escalated");
    pager.wait_for(|pager| escalated(pager).is_some(), SOON).await.unwrap();
    let calls = pager.webhooks();
    let id = escalated(&pager).unwrap().id;
    assert_eq!(calls.iter().filter(|call| call.id == id).count(), 1, "{calls:#?}");
    told(&run, "second-line was called", "second-line was called").await;
    assert_eq!(pager.breaches(), Vec::<String>::new());
}

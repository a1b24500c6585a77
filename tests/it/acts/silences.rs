//! Silences that people ask for in Slack: what they silence, for how long, and what asks again.

use findings::Diagnosis;
use knowledge::clock;
use knowledge::incident::Act;
use llm_diagnose_lab::stack::Alertmanager;
use serde_json::{Value, json};
use service::config::Config;
use slack::{Ack, SlackAction};
use std::time::Duration;

use super::bench::Bench;
use super::{NOWHERE, ON_CALL};
use crate::harness::{assert_clean, fixture, innocent, planted};
use crate::running::group;

#[tokio::test]
async fn a_silence_from_slack_silences_those_alerts_alone_and_ends_when_told() {
    let alertmanager = Alertmanager::builder().start().await.unwrap();
    let labels =
        |name: &str, pod: &str| json!({ "alertname": name, "namespace": "llm", "severity": "warning", "pod": pod });
    let alerts = [("LLMHighTTFT", "a"), ("LLMHighTTFT", "b"), ("Other", "a")];
    let alerts: Vec<Value> = alerts.iter().map(|(name, pod)| json!({ "labels": labels(name, pod) })).collect();
    alertmanager.post_alerts(&alerts).await.unwrap();
    // The first of the pair is down.
    let bench = Bench::start(ON_CALL, &[NOWHERE, &alertmanager.url], NOWHERE).await;
    let id = bench.incident("LLMHighTTFT", "firing", false).await;
    let form = |labels: &'static str, duration: &'static str, custom: &'static str| {
        [
            ("labels", labels),
            ("duration", duration),
            ("custom", custom),
            ("comment", "<!channel> *known* sk-quiet-1234\n\u{202e}"),
        ]
    };
    for (labels, duration, custom, field) in [
        ("", "1h", "", "labels"),
        ("alertname,pod", "1h", "", "labels"),
        ("alertname", "custom", "soon", "custom"),
        ("alertname", "custom", "400d", "custom"),
        ("alertname", "5s", "", "duration"),
    ] {
        let ack = bench.submit("U0ANN", "silence", &id, &form(labels, duration, custom)).await;
        assert!(matches!(&ack, Ack::Errors(errors) if errors.contains_key(field)), "{labels} {duration}: {ack:?}");
    }
    assert_eq!(alertmanager.silences().await.unwrap().as_array().unwrap().len(), 0);

    let ack = bench.submit("U0ANN", "silence", &id, &form("alertname,namespace,severity", "custom", "90m")).await;
    assert_eq!(ack, Ack::Received);
    assert_eq!(bench.audit().await, ["silence U0ANN done"], "{:?}", bench.said());
    let silenced = async || {
        let all = alertmanager.alerts().await.unwrap();
        let quiet = all.as_array().unwrap().iter().filter(|a| a["status"]["silencedBy"] != json!([]));
        quiet.map(|a| a["labels"]["alertname"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(until(&silenced, 2).await, ["LLMHighTTFT", "LLMHighTTFT"]);
    let silence = alertmanager.silences().await.unwrap()[0].clone();
    assert_eq!(silence["createdBy"], "U0ANN in Slack");
    let thread = bench.last();
    assert!(thread.contains("Silenced") && thread.contains("<@U0ANN>") && thread.contains("alertname="), "{thread}");
    assert!(!thread.contains("<!channel>") && thread.contains("It silences 2 alerts now"), "{thread}");
    let notes = bench.store.notes(&id).await.unwrap();
    assert!(notes[0].act == Act::Silence && notes[0].detail.contains("until "), "{notes:?}");

    listed(&bench).await;
    assert!(bench.last().contains("1 silence") && bench.last().contains("U0ANN in Slack"), "{}", bench.last());
    assert!(bench.last().contains("[redacted: openai-key]") && !bench.last().contains("sk-quiet"), "{}", bench.last());
    let silence = silence["id"].as_str().unwrap();
    bench.press("U0BEN", "expire:0", silence).await;
    assert_eq!(until(&silenced, 2).await.len(), 2, "who may not silence may not end it either");
    bench.press("U0ANN", "expire:0", silence).await;
    assert_eq!(until(&silenced, 0).await.len(), 0);
    bench.press("U0ANN", "expire", silence).await;
    assert!(bench.last().contains("ended already"), "{}", bench.last());
    assert_eq!(bench.slack.violations(), []);
}

#[tokio::test]
async fn a_long_comment_leaves_the_incident_that_its_silence_is_about() {
    let alertmanager = Alertmanager::builder().start().await.unwrap();
    let bench = Bench::start(ON_CALL, &[&alertmanager.url], NOWHERE).await;
    let id = bench.incident("LLMHighTTFT", "firing", false).await;
    let comment = format!("{} hf_aB3dE5gH7jK9aB3dE5gH7jK9aB3dE5gH7jK9", "seen ".repeat(188));
    let values = [("labels", "alertname,namespace,severity"), ("duration", "1h"), ("comment", &comment)];
    bench.submit("U0ANN", "silence", &id, &values).await;
    let silence = alertmanager.silences().await.unwrap()[0].clone();
    let kept = silence["comment"].as_str().unwrap();
    assert!(kept.ends_with(&format!("(llm-diagnose incident {id})")) && kept.chars().count() <= 1_000, "{kept}");
    assert!(kept.contains("seen seen") && !kept.contains("hf_aB3dE5"), "{kept}");
    bench.press("U0ANN", "expire", silence["id"].as_str().unwrap()).await;
    let acts: Vec<Act> = bench.store.notes(&id).await.unwrap().iter().map(|note| note.act).collect();
    assert_eq!(acts, [Act::Silence, Act::Expire]);
}

/// The content of the view that the form became.
fn view(ack: Ack) -> Value {
    match ack {
        Ack::View(view) => view,
        other => panic!("{other:?}"),
    }
}

/// The value of the box that confirms a silence of more than the incident.
fn confirmation(view: &Value) -> String {
    let blocks = view["blocks"].as_array().unwrap();
    let boxes = blocks.iter().find(|block| block["element"]["action_id"] == "confirm").expect("a box");
    boxes["element"]["options"][0]["value"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_value_that_the_alerts_do_not_have_any_more_silences_nothing() {
    let alertmanager = Alertmanager::builder().start().await.unwrap();
    let bench = Bench::start(ON_CALL, &[&alertmanager.url], NOWHERE).await;
    let id = bench.incident("LLMHighTTFT", "firing", false).await;
    let offered = bench.keys(&id, "alertname,namespace").await;
    // While the form is open another alert joins: the name has two values now, and means more.
    let mut more = group("LLMHighTTFT", "firing", "warning", &["a", "b", "c"]);
    more["alerts"][2]["labels"]["alertname"] = "LLMReplicaDown".into();
    assert_eq!(bench.admit(&more).await, id);
    let never = "namespace 00000000".to_owned();
    for (labels, name) in [(offered, "alertname"), (never, "namespace")] {
        let ack = bench.submit("U0ANN", "silence", &id, &[("labels", &labels), ("duration", "1h")]).await;
        let Ack::Errors(errors) = ack else { panic!("{ack:?}") };
        let told = &errors["labels"];
        assert!(told.contains("do not share these labels with these values") && told.contains(name), "{told}");
    }
    assert_eq!(alertmanager.silences().await.unwrap(), json!([]));
    let labels = bench.keys(&id, "alertname,namespace").await;
    let ack = bench.submit("U0ANN", "silence", &id, &[("labels", &labels), ("duration", "1h")]).await;
    assert_eq!(ack, Ack::Received);
    let matchers = alertmanager.silences().await.unwrap()[0]["matchers"].to_string();
    assert!(matchers.contains("LLMHighTTFT|LLMReplicaDown"), "{matchers}");
}

#[tokio::test]
async fn what_silences_more_than_the_incident_needs_a_second_yes_that_knows_how_much() {
    let alertmanager = Alertmanager::builder().start().await.unwrap();
    let alert = |name: &str, pod: &str| json!({ "labels": { "alertname": name, "namespace": "llm", "severity": "warning", "pod": pod } });
    alertmanager
        .post_alerts(&[alert("LLMHighTTFT", "a"), alert("LLMHighTTFT", "b"), alert("Other", "a")])
        .await
        .unwrap();
    let bench = Bench::start(ON_CALL, &[&alertmanager.url], NOWHERE).await;
    let id = bench.incident("LLMHighTTFT", "firing", false).await;
    let form = [("labels", "namespace"), ("duration", "custom"), ("custom", "90m"), ("comment", "known")];
    let submit = async |confirm: &str| {
        let fields = [&form[..], &[("confirm", confirm)]].concat();
        bench.submit("U0ANN", "silence", &id, &fields).await
    };
    let asked = view(submit("").await);
    assert_eq!(asked["callback_id"], "silence");
    let shown = asked.to_string();
    for part in
        ["1 alert that is not of this incident", "I know that 1 other alert", "\"initial_value\":\"90m\"", "known"]
    {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let yes = confirmation(&asked);
    // More than what was confirmed, or other labels than those: asked again.
    alertmanager.post_alerts(&[alert("Third", "a")]).await.unwrap();
    let again = view(submit(&yes).await);
    assert!(again.to_string().contains("2 alerts that are not of this incident"), "{again}");
    let yes = confirmation(&again);
    let wider = [("labels", "severity"), ("duration", "1h"), ("confirm", &yes)];
    assert_ne!(confirmation(&view(bench.submit("U0ANN", "silence", &id, &wider).await)), yes);
    assert_eq!(alertmanager.silences().await.unwrap(), json!([]));
    assert_eq!(bench.audit().await, Vec::<String>::new());
    assert_eq!(submit(&yes).await, Ack::Received);
    assert!(bench.last().contains("Silenced") && bench.last().contains("It silences 4 alerts now"), "{}", bench.last());
    assert_eq!(bench.audit().await, ["silence U0ANN done"]);
}

#[tokio::test]
async fn a_silence_is_no_longer_than_the_configuration_allows() {
    let alertmanager = Alertmanager::builder().start().await.unwrap();
    let bench = Bench::start(&format!("{ON_CALL}\nsilence_max: 90m"), &[&alertmanager.url], NOWHERE).await;
    let id = bench.incident("LLMHighTTFT", "firing", false).await;
    for (duration, custom, field) in [("4h", "", "duration"), ("custom", "91m", "custom"), ("custom", "30s", "custom")]
    {
        let values = [("labels", "alertname"), ("duration", duration), ("custom", custom)];
        let ack = bench.submit("U0ANN", "silence", &id, &values).await;
        let Ack::Errors(errors) = ack else { panic!("{ack:?}") };
        assert!(errors[field].contains("from one minute to 90 min"), "{errors:?}");
    }
    assert_eq!(alertmanager.silences().await.unwrap(), json!([]));
    let ack = bench.submit("U0ANN", "silence", &id, &[("labels", "alertname"), ("duration", "1h")]).await;
    assert_eq!(ack, Ack::Received);
}

#[test]
fn the_longest_silence_is_a_minute_to_thirty_days() {
    let file = tempfile::NamedTempFile::new().unwrap();
    for (longest, is_valid) in [("59s", false), ("1m", true), ("30d", true), ("31d", false)] {
        std::fs::write(file.path(), format!("slack: {{ silence_max: {longest} }}\n")).unwrap();
        let error = Config::load(file.path()).err().map(|error| format!("{error:#}"));
        assert_eq!(error.is_none(), is_valid, "{longest}: {error:?}");
        assert!(error.is_none_or(|error| error.contains("`slack.silence_max` is 1m to 30d")), "{longest}");
    }
}

/// Alertmanager marks what is silenced within moments: asks until so many are, or the last answer.
async fn until(silenced: &impl AsyncFn() -> Vec<String>, n: usize) -> Vec<String> {
    let met = async {
        loop {
            let names = silenced().await;
            if names.len() == n {
                return names;
            }
        }
    };
    match tokio::time::timeout(Duration::from_secs(10), met).await {
        Ok(names) => names,
        Err(_) => silenced().await,
    }
}

/// What `silence list` answers.
async fn listed(bench: &Bench) -> String {
    let list = bench.receive("U0ANN", SlackAction::Command { text: "silence list".into() });
    // The task ends with its answer. Progress would be reported for 6.5 s more, and a stop would wait for it.
    tokio::time::timeout(Duration::from_secs(5), list).await.unwrap();
    bench.last()
}

#[tokio::test]
async fn an_alertmanager_that_does_not_answer_may_have_silences() {
    let alertmanager = Alertmanager::builder().start().await.unwrap();
    let none = Bench::start(ON_CALL, &[NOWHERE], NOWHERE).await;
    let said = listed(&none).await;
    assert!(said.contains("*The silences are not known:* no Alertmanager answers"), "{said}");
    assert!(said.contains("127.0.0.1:1") && !said.to_lowercase().contains("nothing is silenced"), "{said}");

    let one = Bench::start(ON_CALL, &[&alertmanager.url, NOWHERE], NOWHERE).await;
    let said = listed(&one).await;
    for part in [
        "The list of silences is incomplete:* 1 of 2 Alertmanagers do not answer. Of the others nothing is silenced",
        "127.0.0.1:1",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let id = one.incident("LLMHighTTFT", "firing", false).await;
    one.submit("U0ANN", "silence", &id, &[("labels", "alertname"), ("duration", "1h")]).await;
    let said = listed(&one).await;
    assert!(said.contains("1 of 2 Alertmanagers do not answer. Of the others 1 silence:"), "{said}");
    let all = Bench::start(ON_CALL, &[&alertmanager.url], NOWHERE).await;
    assert!(!listed(&all).await.contains("do not answer"), "{}", all.last());
}

#[tokio::test]
async fn a_silence_that_no_alertmanager_takes_is_said_to_have_failed() {
    let bench = Bench::start(ON_CALL, &[NOWHERE], NOWHERE).await;
    let id = bench.incident("LLMHighTTFT", "firing", false).await;
    let values = [("labels", "alertname"), ("duration", "1h")];
    let asked = view(bench.submit("U0ANN", "silence", &id, &values).await);
    let shown = asked.to_string();
    assert!(shown.contains("is not known") && shown.contains("Alertmanager cannot be reached"), "{shown}");
    let yes = confirmation(&asked);
    let confirmed = [&values[..], &[("confirm", &yes)]].concat();
    bench.submit("U0ANN", "silence", &id, &confirmed).await;
    assert!(bench.last().contains("Nothing was silenced: Alertmanager cannot be reached"), "{}", bench.last());
    assert_eq!(bench.audit().await, ["silence U0ANN failed"]);
}

#[tokio::test]
async fn forms_and_posts_show_no_secret_of_an_alert_and_the_silence_holds_the_real_labels() {
    let alertmanager = Alertmanager::builder().start().await.unwrap();
    let bench = Bench::start(ON_CALL, &[&alertmanager.url], NOWHERE).await;
    let secret = &planted()[0].secret;
    let mut body = group("LLMHighTTFT", "firing", "warning", &["a", "b"]);
    for alert in body["alerts"].as_array_mut().unwrap() {
        alert["labels"]["hf_token"] = json!(innocent(1));
        alert["labels"]["note"] = json!(secret);
        alert["labels"]["also"] = json!(format!("with {}", innocent(1)));
    }
    let id = bench.admit(&body).await;
    let diagnosis = fixture("diagnoses/longer-prompts.high-ttft.json").replace("Each request brings", secret);
    let incident = bench.store.incident(&id).await.unwrap().unwrap();
    let diagnosis: Diagnosis = serde_json::from_str(&diagnosis).unwrap();
    bench.store.save_diagnosis(&incident, Some(&diagnosis), true, None, clock::now()).await.unwrap();

    let evidence = view(bench.submit("U0ANN", "evidence", &id, &[]).await).to_string();
    assert!(evidence.contains("] more prompt tokens than before"), "{evidence}");
    assert_clean(evidence.as_bytes(), "the evidence");
    let others = json!({ "labels": { "alertname": "LLMHighTTFT", "hf_token": innocent(1), "note": secret, "also": format!("with {}", innocent(1)) } });
    alertmanager.post_alerts(&[others]).await.unwrap();
    let typed = innocent(1);
    let labels = [("labels", "alertname,hf_token,note,also"), ("duration", "1h"), ("comment", typed.as_str())];
    let asked = view(bench.submit("U0ANN", "silence", &id, &labels).await);
    let yes = confirmation(&asked);
    // What the person typed comes back to that person.
    let asked = asked.to_string().replace(&format!("\"initial_value\":\"{typed}\""), "");
    assert!(asked.contains("hf_token=") && asked.contains("[redacted: secret-field]"), "{asked}");
    assert_clean(asked.as_bytes(), "the form");
    let confirmed = [&labels[..], &[("confirm", yes.as_str())]].concat();
    assert_eq!(bench.submit("U0ANN", "silence", &id, &confirmed).await, Ack::Received);
    let silence = alertmanager.silences().await.unwrap()[0].clone();
    assert!(silence["matchers"].to_string().contains(secret.as_str()), "{silence}");
    assert!(listed(&bench).await.contains("1 silence"), "{}", bench.last());
    bench.press("U0ANN", "expire", silence["id"].as_str().unwrap()).await;
    assert_eq!(bench.audit().await, ["silence U0ANN done", "expire U0ANN done"]);
    for said in bench.said() {
        assert_clean(said.as_bytes(), "a message");
    }
}

#[tokio::test]
async fn alerts_whose_values_hold_rare_characters_are_counted() {
    let alertmanager = Alertmanager::builder().start().await.unwrap();
    let team = "Chat\u{26a0}\u{fe0f} a\u{301}\u{a0}\u{200b} \"quoted\" \\ back\nline\ttab";
    let other = json!({ "labels": { "alertname": "Other", "team": team } });
    alertmanager.post_alerts(&[other]).await.unwrap();
    let bench = Bench::start(ON_CALL, &[&alertmanager.url], NOWHERE).await;
    let mut body = group("LLMHighTTFT", "firing", "warning", &["a", "b"]);
    for alert in body["alerts"].as_array_mut().unwrap() {
        alert["labels"]["team"] = json!(team);
    }
    let id = bench.admit(&body).await;
    let asked = view(bench.submit("U0ANN", "silence", &id, &[("labels", "team"), ("duration", "1h")]).await);
    assert!(asked.to_string().contains("1 alert that is not of this incident"), "{asked}");
}

#[tokio::test]
async fn a_yes_to_a_number_is_none_to_an_unknown_number() {
    let alertmanager = Alertmanager::builder().start().await.unwrap();
    let other = json!({ "labels": { "alertname": "Other", "namespace": "llm", "severity": "warning" } });
    alertmanager.post_alerts(&[other]).await.unwrap();
    let bench = Bench::start(ON_CALL, &[&alertmanager.url], NOWHERE).await;
    let id = bench.incident("LLMHighTTFT", "firing", false).await;
    let form = [("labels", "namespace"), ("duration", "1h")];
    let yes = confirmation(&view(bench.submit("U0ANN", "silence", &id, &form).await));
    drop(alertmanager);
    let confirmed = [&form[..], &[("confirm", yes.as_str())]].concat();
    let asked = view(bench.submit("U0ANN", "silence", &id, &confirmed).await);
    assert!(asked.to_string().contains("is not known"), "{asked}");
    assert_eq!(bench.audit().await, Vec::<String>::new());
}

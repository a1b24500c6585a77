//! A channel closes after it has called people: who is still to be called is called elsewhere, and nobody a second time.

use std::time::Duration;

use knowledge::alert::AlertGroup;
use knowledge::clock;
use knowledge::incident::AdmissionRules;
use llm_diagnose_lab::slack::{Channel, Failure};
use store::{AdmissionPlan, CalledPeople, Mention, Sink};

use super::bench::{Bench, CHANNEL};
use super::lost::{KEYS, deliver};
use crate::running::{group, whole};

const PAGES: &str = "C0PAGES";
const A: &str = "U0ANN";
const B: &str = "S0ONCALL";

/// Two teams with one channel for both; what belongs to neither goes into the default channel.
async fn bench() -> Bench {
    let routes = format!(
        "{KEYS}\nroutes: [{{ labels: {{ team: a }}, channel: {PAGES}, mention: {A} }}, \
         {{ labels: {{ team: b }}, channel: {PAGES}, mention: {B} }}]"
    );
    let bench = Bench::start(&routes, &[], super::NOWHERE).await;
    bench.slack.configure(|options| options.channels.push(Channel::new(PAGES, "pages")));
    bench
}

/// A critical alert of team a, one of team b with this severity, and a warning of nobody's; the incident's id.
async fn notified(bench: &Bench, b: &str) -> String {
    let mut body = group("LLMHighTTFT", "firing", "critical", &["a", "b", "c"]);
    for (i, (team, severity)) in [("a", "critical"), ("b", b), ("nobody", "warning")].into_iter().enumerate() {
        let alert = &mut body["alerts"][i];
        alert["labels"]["team"] = team.into();
        alert["labels"]["severity"] = severity.into();
        alert["fingerprint"] = format!("{team}-{severity}").into();
    }
    let told = AlertGroup::from_webhook(body.to_string().as_bytes()).unwrap();
    let sinks = [CHANNEL, PAGES].map(|channel| (Sink::Slack, channel.to_owned())).into();
    let wanted = AdmissionPlan {
        selection: None,
        sinks,
        filtered: Vec::new(),
        grace: Duration::ZERO,
        storm: crate::admission::CALM,
    };
    let rules = AdmissionRules { duplicate_within: Duration::ZERO, reopen_within: Duration::from_secs(600) };
    let admitted = bench.store.admit(&[(told, wanted)], clock::now(), &rules).await.unwrap();
    admitted[0].as_ref().unwrap().incident.clone()
}

/// How many messages of a channel name each of both.
fn named(bench: &Bench, channel: &str) -> [usize; 2] {
    let all: Vec<String> = bench.slack.messages(channel).iter().map(whole).collect();
    [A, B].map(|id| all.iter().filter(|message| message.contains(id)).count())
}

#[tokio::test]
async fn a_call_that_its_channel_refuses_is_made_elsewhere_for_nobody_else() {
    let bench = bench().await;
    let id = notified(&bench, "critical").await;
    deliver(&bench, 0).await;
    assert_eq!([named(&bench, PAGES), named(&bench, CHANNEL)], [[1, 1], [0, 0]]);
    let mention = Mention { since: clock::now(), called: CalledPeople::default().and(&[A, B]) };
    bench.store.queue_mentions(&id, PAGES, &[B], &mention, clock::now()).await.unwrap();
    bench.slack.fail_next("chat.postMessage", Failure::Error("is_archived".into()), 1);
    deliver(&bench, 0).await;
    assert_eq!(named(&bench, CHANNEL), [0, 1]);
}

#[tokio::test]
async fn whom_a_message_called_before_its_channel_closed_is_not_called_elsewhere() {
    let bench = bench().await;
    notified(&bench, "warning").await;
    deliver(&bench, 0).await;
    assert_eq!([named(&bench, PAGES), named(&bench, CHANNEL)], [[1, 0], [0, 0]]);
    bench.slack.configure(|options| {
        options
            .channels
            .iter_mut()
            .filter(|channel| channel.id == PAGES)
            .for_each(|channel| channel.is_archived = true);
    });
    notified(&bench, "critical").await;
    deliver(&bench, 0).await;
    assert_eq!(named(&bench, CHANNEL), [0, 1]);
}

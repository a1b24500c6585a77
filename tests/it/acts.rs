//! Buttons and forms: who may, what they do to a real Alertmanager, what is written down; and everything that is wrong.

mod adverse;
mod bench;
mod closed;
mod ended;
mod lost;
mod modals;
mod related;
mod replicas;
mod silences;

use std::sync::Arc;
use std::time::Duration;

use authoring::check::verdict_test;
use bench::Bench;
use knowledge::alert::AlertGroup;
use knowledge::clock;
use knowledge::incident::{Act, AdmissionRules, Note};
use llm_diagnose_lab::slack::State;
use llm_diagnose_lab::stack::Prometheus;
use llm_diagnose_lab::stack::backfill::{Series, openmetrics};
use message::Block;
use render::is_done;
use slack::{Ack, RequestPlace, SlackAction, SlackActor, SlackRequest};
use store::{AdmissionPlan, Incident, PendingWork, Sink, Storm};
use tokio_util::sync::CancellationToken;

use crate::harness::library;
use crate::running::group;

const NOWHERE: &str = "http://127.0.0.1:1";
const ON_CALL: &str = "act: { groups: [S0ONCALL] }\nescalate: S0ONCALL\nchannel: C0LLMALERTS";

#[tokio::test]
async fn somebody_takes_over_once_and_the_message_has_news() {
    let bench = Bench::start(ON_CALL, &[], NOWHERE).await;
    let id = bench.incident("LLMHighTTFT", "firing", false).await;
    let before = bench.store.incident(&id).await.unwrap().unwrap().revision;
    bench.press("U0ANN", "acknowledge", &id).await;
    bench.press("U0ANN", "acknowledge", &id).await;
    assert!(bench.last().contains("You are on it already"), "{:?}", bench.said());
    assert_eq!(bench.audit().await, ["acknowledge U0ANN done", "acknowledge U0ANN failed"]);
    let notes = bench.store.notes(&id).await.unwrap();
    assert_eq!(notes.iter().map(|n| (n.who.as_str(), n.act)).collect::<Vec<_>>(), [("U0ANN", Act::Acknowledge)]);
    assert_eq!(bench.store.incident(&id).await.unwrap().unwrap().revision, before + 1);
    let page = bench.metrics.page();
    assert!(page.contains(r#"llm_diagnose_acts_total{kind="acknowledge",result="done"} 1"#), "{page}");
}

#[tokio::test]
async fn a_digests_incidents_are_listed_worst_first_and_page_by_page() {
    let bench = Bench::start_at("http://pages.example", ON_CALL, &[], NOWHERE).await;
    let rules = AdmissionRules { duplicate_within: Duration::ZERO, reopen_within: Duration::from_secs(600) };
    let storm = Storm { incidents: 1, within: Duration::from_secs(300), queue: 1_000, topic: "late".to_owned() };
    for i in 0..21 {
        let severity = if i == 20 { "critical" } else { "warning" };
        let body = group(&format!("Odd{i}"), "firing", severity, &["a"]).to_string();
        let sinks = vec![(Sink::Slack, "C0LLMALERTS".to_owned())];
        let wanted =
            AdmissionPlan { selection: None, sinks, filtered: Vec::new(), grace: Duration::ZERO, storm: storm.clone() };
        let told = AlertGroup::from_webhook(body.as_bytes()).unwrap();
        bench.store.admit(&[(told, wanted)], clock::now(), &rules).await.unwrap();
    }
    let work = bench.desk.service.notifier.take(clock::now(), 60_000, 10).await.unwrap().work;
    let digest =
        |work: &PendingWork| if let PendingWork::Digest(digest) = work { Some(digest.id.clone()) } else { None };
    let id = work.iter().find_map(digest).unwrap();
    bench.press("U0ANN", "digest", &id).await;
    let first = bench.last();
    for part in ["20 incidents: 20 firing (1 critical)", "1 to 15 of 20, worst first", "Next 5"] {
        assert!(first.contains(part), "{part}: {first}");
    }
    assert!(first.find("CRITICAL") < first.find("WARNING"), "{first}");
    // Each line leads to its incident, and the list to all of them.
    let ids = bench
        .store
        .digest_incidents(&id, |incident| incident)
        .await
        .unwrap()
        .incidents
        .into_iter()
        .map(|incident| incident.id);
    let linked = |shown: &str, id: &String| shown.contains(&format!("<http://pages.example/incidents/{id}|"));
    let links = |shown: &str| ids.clone().filter(|id| linked(shown, id)).count();
    assert_eq!(links(&first), 15, "{first}");
    assert!(first.contains("<http://pages.example/incidents|"), "{first}");
    bench.press("U0ANN", "digest:next", &format!("{id}/15")).await;
    let second = bench.last();
    assert!(second.contains("16 to 20 of 20") && !second.contains("Next "), "{second}");
    assert_eq!(links(&second), 5, "{second}");
    // What cannot be read is not there, and that is said.
    for (unreadable, told) in [
        ("UPDATE incidents SET opened_ms = 'x' WHERE critical = 1", "1 incident cannot be read"),
        ("UPDATE incidents SET opened_ms = 'x'", "20 incidents cannot be read"),
    ] {
        bench.change(unreadable).await;
        bench.press("U0ANN", "digest", &id).await;
        assert!(bench.last().contains(told), "{}", bench.last());
    }
}

#[tokio::test]
async fn a_step_is_done_once_and_by_those_who_may() {
    let bench = Bench::start(ON_CALL, &[], NOWHERE).await;
    let id = bench.incident("LLMHighTTFT", "firing", true).await;
    let step = bench.step(&id, 0).await;
    bench.press("U0BEN", "done:0", &step).await;
    assert!(bench.last().contains("of the configuration may do this"), "{}", bench.last());
    bench.press("U0ANN", "done:0", &step).await;
    bench.press("U0ANN", "more", &format!("done:0 {step}")).await;
    assert!(bench.last().contains("marked as done already"), "{}", bench.last());
    assert_eq!(bench.audit().await, ["done U0BEN refused", "done U0ANN done"]);
    let incident = bench.store.incident(&id).await.unwrap().unwrap();
    assert!(bench.desk.service.notifier.message(&incident).await.parts.iter().any(|part| {
        matches!(part, Block::Beside(line, button) if line.text().starts_with("1. ✓ ") && button.action == "verify:0")
    }));
}

#[tokio::test]
async fn a_step_with_a_redacted_text_is_done_once_and_shown_as_done() {
    let bench = Bench::start(ON_CALL, &[], NOWHERE).await;
    let id = bench.incident("LLMHighTTFT", "firing", true).await;
    let incident = bench.store.incident(&id).await.unwrap().unwrap();
    let mut diagnosis = incident.diagnosis.clone().unwrap();
    diagnosis.fix.now[0].action = "Mail ops@corp.example before the restart".to_owned();
    bench.store.save_diagnosis(&incident, Some(&diagnosis), true, None, clock::now()).await.unwrap();
    let shown = async |incident: &Incident| {
        let parts = bench.desk.service.notifier.message(incident).await.parts;
        let steps = parts.into_iter().filter_map(|part| match part {
            Block::Beside(line, button) if line.text().contains("before the restart") => Some((line.text(), button)),
            _ => None,
        });
        steps.collect::<Vec<_>>().remove(0)
    };
    let (text, button) = shown(&bench.store.incident(&id).await.unwrap().unwrap()).await;
    assert!(!text.contains("ops@corp.example"), "{text}");
    bench.press("U0ANN", "done:0", &button.value).await;
    assert_eq!(bench.audit().await, ["done U0ANN done"], "{:?}", bench.said());
    let (text, _) = shown(&bench.store.incident(&id).await.unwrap().unwrap()).await;
    assert!(text.starts_with("1. ✓ "), "{text}");
    bench.press("U0ANN", "done:0", &button.value).await;
    assert!(bench.last().contains("marked as done already"), "{}", bench.last());
}

#[tokio::test]
async fn an_old_messages_button_marks_its_own_step_or_none() {
    let bench = Bench::start(ON_CALL, &[], NOWHERE).await;
    let id = bench.incident("LLMHighTTFT", "firing", true).await;
    let (first, second) = (bench.step(&id, 0).await, bench.step(&id, 1).await);
    // A new diagnosis drops the first step, so every other one moves up.
    let incident = bench.store.incident(&id).await.unwrap().unwrap();
    let mut diagnosis = incident.diagnosis.clone().unwrap();
    let dropped = diagnosis.fix.now.remove(0);
    bench.store.save_diagnosis(&incident, Some(&diagnosis), true, None, clock::now()).await.unwrap();
    let before = bench.store.incident(&id).await.unwrap().unwrap();
    // As this version names the dropped step, and as the one before did: by its number alone.
    for gone in [first, format!("{id}/0"), format!("{id}/"), id.clone()] {
        for action in ["done:0", "verify:0"] {
            bench.press("U0ANN", action, &gone).await;
            assert!(bench.last().contains("The steps changed"), "{gone}: {}", bench.last());
        }
    }
    assert_eq!(bench.audit().await, Vec::<String>::new());
    let after = bench.store.incident(&id).await.unwrap().unwrap();
    assert!(after.revision > before.revision, "the message is sent again with the buttons of its steps");
    bench.press("U0ANN", "done:1", &second).await;
    assert_eq!(bench.audit().await, ["done U0ANN done"]);
    let notes = bench.store.notes(&id).await.unwrap();
    assert!(!is_done(&dropped, &notes) && is_done(&diagnosis.fix.now[0], &notes), "{notes:?}");
}

#[tokio::test]
async fn who_may_not_is_told_so_and_it_is_written_down() {
    let bench = Bench::start(ON_CALL, &[], NOWHERE).await;
    let id = bench.incident("LLMHighTTFT", "firing", true).await;
    for (user, says) in [
        ("U0BEN", "of the configuration may do this"),
        ("U0GUEST", "Guests may not ask"),
        ("U0STRANGER", "Only members of this workspace"),
    ] {
        bench.press(user, "acknowledge", &id).await;
        assert!(bench.last().contains(says), "{user}: {:?}", bench.said());
    }
    let said = bench.said().len();
    bench.press("U0ROBOT", "silence", &id).await;
    assert_eq!(bench.said().len(), said, "programs are not answered");
    let refused = ["acknowledge U0BEN", "acknowledge U0GUEST", "acknowledge U0STRANGER", "silence U0ROBOT"];
    assert_eq!(bench.audit().await, refused.map(|line| format!("{line} refused")));
    let ack = bench.submit("U0BEN", "silence", &id, &[("labels", "alertname"), ("duration", "1h")]).await;
    assert!(matches!(ack, Ack::View(_)), "a form that they may not send says why: {ack:?}");
    assert!(bench.store.notes(&id).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_group_that_slack_told_once_counts_while_slack_is_away() {
    let bench = Bench::start(ON_CALL, &[], NOWHERE).await;
    let id = bench.incident("LLMHighTTFT", "firing", false).await;
    bench.slack.fail_next("usergroups.users.list", llm_diagnose_lab::slack::Failure::Status(503), 1);
    bench.press("U0ANN", "acknowledge", &id).await;
    assert!(bench.last().contains("Slack does not say at the moment"), "{:?}", bench.said());
    bench.press("U0ANN", "acknowledge", &id).await;
    assert_eq!(bench.audit().await.last().unwrap(), "acknowledge U0ANN done");
}

#[tokio::test]
async fn buttons_that_are_wrong_are_answered_and_do_nothing() {
    let bench = Bench::start("channel: C0LLMALERTS", &[], NOWHERE).await;
    let over = bench.incident("LLMHighTTFT", "resolved", true).await;
    let odd = ["", "/", "no-such-incident", "'; DROP TABLE incidents; --", "\u{202e}<!channel>", "01/../../x"];
    for value in odd {
        bench.press("U0ANN", "acknowledge", value).await;
        assert!(bench.last().contains("This incident is gone"), "{value}: {:?}", bench.said());
    }
    for (action, value, says) in [
        ("acknowledge", over.as_str(), "This incident is resolved"),
        ("again", &over, "This incident is resolved"),
        ("verify:99", &format!("{over}/99"), "The steps changed"),
        ("verify:x", &format!("{over}/-1"), "The steps changed"),
        ("self-destruct", &over, "This button is not known"),
        ("right", &"x".repeat(100_000), "This button is not known"),
        ("digest", "no-such-digest", "This incident is gone"),
        ("expire", "no-such-silence", "Nobody may do this yet"),
    ] {
        bench.press("U0BEN", action, value).await;
        assert!(bench.last().contains(says), "{action}: {}", bench.last());
    }
    for (form, about) in
        [("wrong", "no json"), ("self-destruct", "{\"incident\":\"x\"}"), ("wrong", "{\"incident\":\"x\"}")]
    {
        let what = SlackAction::Submit { form: form.into(), about: about.into(), values: [].into() };
        assert!(matches!(bench.receive("U0ANN", what).await, Ack::View(_)), "{form} {about}");
    }
    let incident = bench.store.incident(&over).await.unwrap().unwrap();
    assert!(bench.store.notes(&over).await.unwrap().is_empty() && bench.store.feedback().await.unwrap().is_empty());
    assert!(!incident.open);
    assert_eq!(bench.slack.violations(), []);
}

#[tokio::test]
async fn who_asks_too_often_is_told_once_and_the_same_press_counts_once() {
    let bench = Bench::start("channel: C0LLMALERTS\ncommands_per_minute: [3, 60, 240]", &[], NOWHERE).await;
    let id = bench.incident("LLMHighTTFT", "firing", false).await;
    for _ in 0..20 {
        bench.press("U0ANN", "again", &id).await;
    }
    let told = bench.said().iter().filter(|text| text.contains("That was a lot")).count();
    assert_eq!((told, bench.audit().await.len()), (1, 3), "{:?}", bench.said());
    let who = SlackActor { user: "U0BEN".into(), team: "T0LAB".into(), is_bot: false };
    let place = RequestPlace { channel: bench::CHANNEL.into(), ..RequestPlace::default() };
    let what = SlackAction::Press { action: "acknowledge".into(), value: id };
    let press = SlackRequest { id: "trigger-1".into(), who, place, what };
    bench.desk.receive(press.clone()).await;
    bench.desk.receive(press).await;
    bench.settled().await;
    assert_eq!(bench.audit().await[3..], ["acknowledge U0BEN done"]);
}

#[tokio::test]
async fn a_judged_incident_becomes_a_verdict_test_that_passes() {
    let bench = Bench::start("channel: C0LLMALERTS", &[], NOWHERE).await;
    let id = bench.incident("LLMHighTTFT", "firing", true).await;
    let ack = bench.submit("U0ANN", "wrong", &id, &[("cause", "no-such-cause")]).await;
    assert!(matches!(&ack, Ack::Errors(errors) if errors.contains_key("cause")), "{ack:?}");
    // The token stands across the longest detail: it is cleaned before it is cut.
    let over = format!("{} hf_aB3dE5gH7jK9aB3dE5gH7jK9aB3dE5gH7jK9", "seen ".repeat(92));
    bench.submit("U0BEN", "wrong", &id, &[("cause", "other"), ("comment", &over)]).await;
    let said = bench.store.notes(&id).await.unwrap().pop().unwrap().detail;
    assert!(said.contains("seen seen") && !said.contains("hf_aB3dE5"), "{said}");
    bench.submit("U0BEN", "wrong", &id, &[("cause", "other"), ("comment", "a switch")]).await;
    bench.press("U0ANN", "right", &id).await;
    let all = bench.store.feedback().await.unwrap();
    let said: Vec<_> = all.iter().map(|f| (f.who.as_str(), f.is_right, f.named.as_str(), f.cause.as_str())).collect();
    let expected = [("U0BEN", false, "longer-prompts", "other"), ("U0ANN", true, "longer-prompts", "longer-prompts")];
    assert_eq!(said, expected);
    let notes = bench.store.notes(&id).await.unwrap();
    assert!(notes[1].detail.contains("Something else") && notes[1].detail.contains("a switch"), "{notes:?}");
    let incident = bench.store.incident(&id).await.unwrap().unwrap();
    assert!(verdict_test(library(), &incident, &all[0]).unwrap_err().contains("`other` is no cause"));
    let text = verdict_test(library(), &incident, &all[1]).unwrap();
    // The alert's own playbook need not be the one that the diagnosis entered.
    for asked in [None, Some("replica-down".to_owned())] {
        let screened = Incident { playbook: asked, ..incident.clone() };
        assert_eq!(verdict_test(library(), &screened, &all[1]).unwrap(), text);
    }
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("incident.test.yaml"), &text).unwrap();
    let own = knowledge::playbook::load(Some(dir.path())).unwrap();
    let results = authoring::check::run(&own).unwrap();
    let case = results.iter().find(|r| r.name.contains(&id)).expect("it is run");
    assert!(case.failures.is_empty(), "{text}\n{:?}", case.failures);
}

#[tokio::test]
async fn a_fix_is_verified_now_and_again_later() {
    let now = clock::now().as_second();
    let labels = [("job", "vllm"), ("instance", "a:8000"), ("namespace", "llm"), ("model_name", "m"), ("engine", "0")];
    let of = |name| Series::new(name, &labels).steady(now - 1_800, now + 60, 15, 0.0);
    let history = openmetrics(["vllm:num_requests_waiting", "vllm:num_requests_running"].map(of));
    let prometheus = Prometheus::builder().backfill_text(&history).unwrap().start().await.unwrap();
    let bench = Bench::start("channel: C0LLMALERTS", &[], &prometheus.url).await;
    let id = bench.incident("LLMHighTTFT", "firing", true).await;
    // Of the diagnosis' steps the third wants fewer than 0.25 waiting per replica, the fourth fewer preemptions.
    bench.press("U0ANN", "verify:2", &bench.step(&id, 2).await).await;
    assert!(bench.last().contains("*Fixed*: waiting requests per replica is 0"), "{}", bench.last());
    bench.press("U0ANN", "verify:3", &bench.step(&id, 3).await).await;
    assert!(bench.last().contains("*Cannot tell*: preemptions of one replica has no value"), "{}", bench.last());
    let later = |minutes: i64| jiff::Timestamp::from_second(clock::now().as_second() + 60 * minutes).unwrap();
    let due = async |minutes| bench.store.take_followups(later(minutes), 0, 10).await.unwrap().len();
    assert_eq!((due(4).await, due(6).await, due(16).await), (0, 2, 4), "after 5 and 15 minutes, for each step");
    let notes = bench.store.notes(&id).await.unwrap();
    assert!(notes[0].act == Act::Verify && notes[0].detail.starts_with("Fixed"), "{notes:?}");
    // A lease that ended four minutes ago: they are due, and nobody asks.
    assert_eq!(bench.store.take_followups(later(16), -20 * 60_000, 10).await.unwrap().len(), 4);
    let fixed = |s: &State| s.messages("C0LLMALERTS").filter(|m| m.content.text.starts_with("*Fixed*")).count();
    let (before, stop) = (bench.slack.with(fixed), CancellationToken::new());
    let looking = tokio::spawn(Arc::clone(&bench.desk).followups_loop(stop.clone()));
    bench.slack.wait_for(|s| fixed(s) == before + 2, Duration::from_secs(20)).await.unwrap();
    let noted = async {
        let by_nobody = |note: &Note| note.who.is_empty() && note.act == Act::Verify;
        while bench.store.notes(&id).await.unwrap().into_iter().filter(by_nobody).count() < 4 {
            bench.desk.service.deliveries.notified().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), noted).await.expect("each is noted");
    stop.cancel();
    looking.await.unwrap();
    assert_eq!(bench.slack.violations(), []);
}

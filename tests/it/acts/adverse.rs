//! What people send who should not, too much of it, and what outside text does on its way.

use std::time::{Duration, Instant};

use message::SlackMessage;
use notify::AnswerTarget;
use render::{Phrases, ReportPageContext};

use llm_diagnose_lab::slack::Failure;
use llm_diagnose_lab::stack::Postgres;
use serde_json::json;
use slack::{Ack, Destination, MessageMark, RequestPlace, Slack, SlackAction, SlackActor, SlackError, SlackRequest};
use store::{AuditEntry, AuditResult, Escalated, EscalationCall, Store};

use super::bench::{Bench, CHANNEL};
use super::{NOWHERE, ON_CALL};
use crate::adverse::HOSTILE;

/// No rate of ours.
const OFTEN: &str = "commands_per_minute: [6000, 6000, 6000]";

fn from(user: &str, what: SlackAction) -> SlackRequest {
    let team = if user == "U0STRANGER" { "T0OTHER" } else { "T0LAB" };
    let who = SlackActor { user: user.into(), team: team.into(), is_bot: false };
    SlackRequest {
        id: String::new(),
        who,
        place: RequestPlace { channel: CHANNEL.into(), ..RequestPlace::default() },
        what,
    }
}

fn pressed(action: &str, value: &str) -> SlackAction {
    SlackAction::Press { action: action.into(), value: value.into() }
}

#[tokio::test]
async fn buttons_that_ask_and_the_form_answer_only_those_who_may_look() {
    let bench = Bench::start(ON_CALL, &[], NOWHERE).await;
    let about = json!({ "channel": CHANNEL }).to_string();
    let values = [("target".to_owned(), "llm".to_owned())];
    let tries = [
        pressed("ask-0", "playbooks"),
        pressed("ask-1", "bundle"),
        pressed("ask-pick", "pick"),
        SlackAction::Submit { form: "diagnose".into(), about, values: values.into() },
    ];
    for (user, says) in [("U0GUEST", "Guests may not ask"), ("U0STRANGER", "Only members of this workspace")] {
        for what in &tries {
            let (said, refused) = (bench.said().len(), bench.audit().await.len());
            let ack = bench.receive(user, what.clone()).await;
            let told = format!("{ack:?} {:?}", &bench.said()[said..]);
            assert!(told.contains(says), "{user} {what:?}: {told}");
            assert_eq!(bench.audit().await.len(), refused + 1, "{user} {what:?}: {told}");
        }
    }
    for what in &tries[..3] {
        bench.receive("U0ROBOT", what.clone()).await;
    }
    assert!(bench.audit().await.iter().all(|line| line.ends_with("refused")), "{:?}", bench.audit().await);
    assert_eq!(bench.slack.files().len(), 0, "nobody of them got a bundle");
    assert_eq!(bench.slack.violations(), []);
}

#[tokio::test]
async fn menus_name_pools_only_to_those_who_may_look() {
    let bench = Bench::start(ON_CALL, &[], NOWHERE).await;
    let typed = |typed: &str| SlackAction::Suggest { action: "playbook".into(), typed: typed.into() };
    for (user, some) in [("U0BEN", true), ("U0GUEST", false), ("U0STRANGER", false), ("U0ROBOT", false)] {
        let Ack::Options(options) = bench.receive(user, typed("ttft")).await else { panic!("{user}") };
        assert_eq!(!options.is_empty(), some, "{user}: {options:?}");
    }
}

#[tokio::test]
async fn a_wait_that_slack_asks_for_is_bounded() {
    let bench = Bench::start(ON_CALL, &[], NOWHERE).await;
    let slack = Slack::new(&bench.slack.base_url, &bench.slack.token).unwrap();
    let body = SlackMessage { text: "x".into(), blocks: Vec::new(), attachments: Vec::new() };
    for seconds in [86_400, u64::MAX / 2_000, u64::MAX] {
        bench.slack.fail_next("chat.postMessage", Failure::RateLimited(seconds), 1);
        let error = slack.post(Destination::channel(CHANNEL), &body, &MessageMark::new("x")).await.unwrap_err();
        let SlackError::RateLimited(wait) = error else { panic!("{error}") };
        assert!(wait <= Duration::from_secs(300), "{seconds}: {wait:?}");
    }
    bench.slack.fail_next("chat.postMessage", Failure::RateLimited(u64::MAX), 1);
    let first =
        bench.desk.service.notifier.answer(&slack, AnswerTarget::Post(Destination::channel(CHANNEL)), &body).await;
    assert!(matches!(first, Err(SlackError::RateLimited(_))), "{first:?}");
}

#[tokio::test]
async fn two_hundred_commands_of_one_and_of_fifty_are_acknowledged_at_once_and_worked_off_within_bounds() {
    let bench = Bench::start("channel: C0LLMALERTS", &[], NOWHERE).await;
    for who in 0..50 {
        for n in 0..if who == 0 { 200 } else { 4 } {
            let user = if who == 0 { "U0ANN".to_owned() } else { format!("U{who}") };
            let began = Instant::now();
            bench.desk.receive(from(&user, SlackAction::Command { text: format!("playbooks {n}") })).await;
            // Slack gives up after so long.
            assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
            assert!(bench.desk.tasks.len() <= 64, "{}", bench.desk.tasks.len());
        }
    }
    bench.settled().await;
    let page = bench.metrics.page();
    let count = |result: &str| {
        let series = format!("llm_diagnose_slack_inbound_total{{kind=\"command\",result=\"{result}\"}} ");
        page.lines().find_map(|line| line.strip_prefix(&series)).map_or(0, |n| n.parse::<u64>().unwrap())
    };
    assert!(count("limited") >= 150, "{page}");
    let told = bench.said().iter().filter(|text| text.contains("That was a lot")).count();
    assert!(told <= 50, "each of them is told once: {told}");
    assert_eq!(bench.slack.violations(), []);
}

#[tokio::test]
async fn ids_that_no_incident_has_do_nothing_and_are_written_down_clean() {
    let bench = Bench::start(&format!("{ON_CALL}\n{OFTEN}"), &[], NOWHERE).await;
    let odd = ["../../etc/passwd", "a\u{0}b", "\u{1b}[31m", "\u{202e}x", "%00", "🔥", "01J\n01K"];
    for value in odd {
        for user in ["U0ANN", "U0GUEST"] {
            for action in ["acknowledge", "silence", "evidence", "digest", "verify:0", "escalate"] {
                bench.press(user, action, value).await;
            }
            bench.submit(user, "wrong", value, &[("cause", "other")]).await;
            bench.press(user, "expire", value).await;
        }
    }
    let all = bench.store.audited(jiff::Timestamp::UNIX_EPOCH, 1_000).await.unwrap();
    assert!(!all.is_empty());
    for entry in all {
        let written = format!("{}{}{}", entry.incident.unwrap_or_default(), entry.target, entry.detail);
        assert!(!written.chars().any(|c| c.is_control() || c == '\u{202e}'), "{written:?}");
        assert_ne!(entry.result.as_str(), "done", "{written:?}");
    }
    assert_eq!(bench.slack.violations(), []);
}

#[tokio::test]
async fn durations_and_times_beyond_all_bounds_are_refused_in_a_sentence() {
    let bench = Bench::start(&format!("{ON_CALL}\n{OFTEN}"), &[NOWHERE], NOWHERE).await;
    let id = bench.incident("LLMHighTTFT", "firing", false).await;
    for custom in ["999999999999d", "18446744073709551615s", "-1h", "1h 999999999999999y", "0s", "∞", "1e9h"] {
        let values = [("labels", "alertname"), ("duration", "custom"), ("custom", custom)];
        let ack = bench.submit("U0ANN", "silence", &id, &values).await;
        assert!(matches!(&ack, Ack::Errors(errors) if errors.contains_key("custom")), "{custom}: {ack:?}");
    }
    let ttft = "diagnose x --last 1h";
    for text in [
        format!("silence {id} 999999999999d"),
        "silence 999999999999d".to_owned(),
        format!("{ttft} --at 999999999999999999999"),
        format!("{ttft} --at -999999999999"),
        format!("{ttft} --at NaN"),
        format!("{ttft} --at inf"),
        format!("{ttft} --at 9999-12-30T22:00:00Z"),
        format!("{ttft} --at -009999-01-02T01:59:59Z"),
        "health at 99999999999999999h ago".to_owned(),
        "health at 9999-12-30T22:00:00Z".to_owned(),
        "health at -377705023201".to_owned(),
        "playbook high-ttft at 253402207200".to_owned(),
        "playbook high-ttft at -377705023201".to_owned(),
        "playbook high-ttft last 31d at -377705023201".to_owned(),
    ] {
        let said = bench.said().len();
        bench.receive("U0ANN", SlackAction::Command { text: text.clone() }).await;
        assert!(bench.said().len() > said, "{text}: nobody answers");
    }
    assert_eq!(bench.slack.violations(), []);
}

#[tokio::test]
async fn who_acts_while_slack_does_not_say_who_they_are_is_refused_in_time() {
    let bench = Bench::start(ON_CALL, &[], NOWHERE).await;
    let id = bench.incident("LLMHighTTFT", "firing", false).await;
    for method in ["users.info", "usergroups.users.list", "auth.test"] {
        bench.slack.fail_next(method, Failure::Hang, 1);
    }
    let began = Instant::now();
    bench.press("U0ANN", "acknowledge", &id).await;
    assert!(began.elapsed() < Duration::from_millis(2_500), "{:?}", began.elapsed());
    assert!(bench.last().contains("Slack does not say at the moment"), "{}", bench.last());
    assert_eq!(bench.audit().await, ["acknowledge U0ANN refused"]);
    assert!(bench.store.notes(&id).await.unwrap().is_empty());
    bench.press("U0ANN", "acknowledge", &id).await;
    assert_eq!(bench.audit().await.last().unwrap(), "acknowledge U0ANN done");
}

#[tokio::test]
async fn a_question_of_two_thousand_signs_gets_its_answer() {
    let bench = Bench::start(&format!("channel: C0LLMALERTS\n{OFTEN}"), &[], NOWHERE).await;
    for sign in ["&", "<", "*", "`", "_", "🔥", "'", "\"", "\\", ":a:", "\u{202e}a", "<!channel> ", "@here "] {
        let flood: String = sign.chars().cycle().take(1_900).collect();
        for before in ["", "explain log ", "explain ", "helth ", "playbook ", "silence ", "bundle ", "capacity ", "at "]
        {
            let said = bench.said().len();
            bench.receive("U0ANN", SlackAction::Command { text: format!("{before}{flood}") }).await;
            let answer = bench.said().split_off(said).concat();
            assert!(answer.len() > 2, "{before}{sign}…: {answer:?}");
            assert!(!answer.contains("<!channel>") && !answer.contains('\u{202e}'), "{before}{sign}…: {answer}");
        }
    }
    assert_eq!(bench.slack.violations(), []);
}

#[tokio::test]
async fn what_people_write_about_a_cause_stays_text_in_the_message_and_on_the_page() {
    let bench = Bench::start("channel: C0LLMALERTS", &[], NOWHERE).await;
    let id = bench.incident("LLMHighTTFT", "firing", true).await;
    bench.submit("U0ANN", "wrong", &id, &[("cause", "other"), ("comment", &HOSTILE.repeat(9))]).await;
    let incident = bench.store.incident(&id).await.unwrap().unwrap();
    assert!(incident.notes[0].detail.contains("evil.example"), "{:?}", incident.notes);
    let message = bench.desk.service.notifier.message(&incident).await;
    let slack = Slack::new(&bench.slack.base_url, &bench.slack.token).unwrap();
    let body = render::slack(&message);
    slack.post(Destination::channel(CHANNEL), &body, &MessageMark::new("x")).await.unwrap();
    let notes = report::incident_timeline(&incident.alerts, None, &[], &incident.notes);
    let about = report::ReportSubject {
        headline: &message.headline,
        incident: None,
        alerts: &incident.alerts,
        diagnosis: None,
        asked: report::DiagnosisParameters::default(),
        window: findings::facts::Window { from: incident.started_at, to: incident.opened_at },
        happened: &notes,
    };
    let report = report::build(about, report::SourceFindings::default(), incident.opened_at);
    let page = render::report_page(&report, &ReportPageContext::default(), &Phrases::english());
    let terminal = render::terminal(&message);
    for shown in [&bench.last(), &page, &terminal] {
        assert!(shown.contains("evil.example"), "{shown}");
        assert!(!shown.contains(['\u{202e}', '\u{2066}', '\u{9b}', '\u{7}']), "{shown:?}");
    }
    assert!(terminal.contains(" [31m ") && !page.contains("<script>"), "{page} {terminal:?}");
    assert_eq!(bench.slack.violations(), []);
}

#[tokio::test]
async fn two_who_escalate_at_once_call_once() {
    let bench = Bench::start(ON_CALL, &[], NOWHERE).await;
    let id = bench.incident("LLMHighTTFT", "firing", true).await;
    bench.slack.configure(|options| {
        options.latency = Duration::from_millis(200);
        options.groups[0].users.push("U0BEN".into());
    });
    futures::join!(
        bench.desk.receive(from("U0ANN", pressed("escalate", &id))),
        bench.desk.receive(from("U0BEN", pressed("escalate", &id))),
    );
    bench.settled().await;
    let calls = bench.said().into_iter().filter(|text| text.starts_with("<!subteam^S0ONCALL> ")).count();
    assert_eq!((calls, bench.audit().await.len()), (1, 1), "{:?}", bench.said());
}

#[tokio::test]
async fn on_postgresql_too_an_attempt_is_begun_once_and_again_after_it_failed() {
    let postgres = Postgres::start().unwrap();
    let store = Store::connect(&postgres.url()).await.unwrap();
    let at = |second: i64| jiff::Timestamp::from_second(1_700_000_000 + second).unwrap();
    let attempt = |who: &str, second| AuditEntry::new_attempt(who, "C1", "escalate", Some("01J"), at(second));
    let escalate = async |entry: &AuditEntry, since| {
        store.escalate(entry, at(since), EscalationCall::Pager("pagerduty"), entry.at).await.unwrap()
    };
    let first = attempt("U1", 0);
    assert_eq!(escalate(&first, -300).await, Escalated::Queued);
    assert_eq!(escalate(&attempt("U2", 1), -299).await, Escalated::Already);
    let other = AuditEntry::new_attempt("U2", "C1", "escalate", Some("01K"), at(1));
    assert_eq!(escalate(&other, -299).await, Escalated::Queued, "another incident is another call");
    store.audit(&AuditEntry { result: AuditResult::Failed, ..first }).await.unwrap();
    let replaced = attempt("U2", 2);
    assert_eq!(escalate(&replaced, -298).await, Escalated::Queued);
    assert_eq!(escalate(&attempt("U2", 400), 100).await, Escalated::Queued);
    // A line without its call, of a version that wrote them one after the other.
    store.audit(&AuditEntry { id: "01L".into(), ..attempt("U2", 500) }).await.unwrap();
    let lost: Vec<String> =
        store.ended_calls(at(0), at(600)).await.unwrap().into_iter().map(|call| call.line).collect();
    assert_eq!(lost, [replaced.id.as_str(), "01L"]);
}

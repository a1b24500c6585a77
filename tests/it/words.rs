//! What is said: short enough to be read at night, inside Slack's limits, harmless whatever labels hold.

mod phrases;
mod related;
mod thread;
mod thresholds;
mod transcripts;
mod weekly;

use findings::{Diagnosis, Outcome};
use jiff::Timestamp;
use knowledge::alert::{Alert, Labels};
use knowledge::incident::{Act, AdmitReason, ChangeReason, Note};
use knowledge::signal::Unit;
use llm_diagnose_lab::slack::blocks::{Rule, Violation, validate};
use message::{Block, Line, Message, TextSpan, Tone};
use render::{
    Commands, IncidentView, Phrases, evidence_parts, incident_message, slack, slack_blocks, step_id, terminal,
    terminal_with,
};
use serde_json::{Value, json};

use crate::harness::fixture;

const DIAGNOSES: [&str; 2] = ["diagnoses/longer-prompts.high-ttft.json", "diagnoses/bad-replica.high-itl.json"];
/// What a person reads in ten seconds.
const TEN_SECONDS: usize = 1_600;

/// A diagnosis as the product made it of a simulated fleet.
fn diagnosis(name: &str) -> Diagnosis {
    serde_json::from_str(&fixture(name)).unwrap()
}

fn alert(labels: &[(&str, &str)], summary: &str) -> Alert {
    let labels: Labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let annotations = Labels::from([
        ("summary".to_owned(), summary.to_owned()),
        ("runbook_url".to_owned(), "https://runbooks.example/high-ttft".to_owned()),
    ]);
    serde_json::from_value(json!({
        "status": "firing", "labels": labels, "annotations": annotations,
        "startsAt": "2026-11-20T02:40:00Z", "fingerprint": "a",
    }))
    .unwrap()
}

fn late() -> Vec<Alert> {
    let labels =
        [("alertname", "LLMHighTTFT"), ("namespace", "prod"), ("model", "llama-70b"), ("severity", "critical")];
    vec![alert(&labels, "First tokens are late")]
}

/// An incident as the service shows it where somebody listens.
fn view<'a>(alerts: &'a [Alert], diagnosis: Option<&'a Diagnosis>) -> IncidentView<'a> {
    let at = diagnosis.map_or(Timestamp::UNIX_EPOCH, |d| d.at);
    IncidentView {
        id: "01JCV7Y3E8",
        alerts,
        started_at: at - jiff::SignedDuration::from_mins(5),
        reason: Some(&ChangeReason::Notification(AdmitReason::NewAlerts)),
        because: Some("alertname"),
        page: Some("https://triage.example/incidents/01JCV7Y3E8".to_owned()),
        prometheus: Some("https://prometheus.example/"),
        alertmanager: Some("https://alertmanager.example"),
        dashboard: Some(
            "https://grafana.example/d/llm?var-namespace={namespace}&var-model={model}&from={from}&to={to}",
        ),
        diagnosis,
        interactive: true,
        can_silence: true,
        can_escalate: true,
        ..IncidentView::default()
    }
}

/// The message as Slack gets it, which breaks none of its rules.
#[track_caller]
fn blocks(message: &Message) -> Value {
    let body = serde_json::to_value(slack(message)).unwrap();
    // Who did something is named, which tells nobody when a message is edited.
    let named = |broken: &Violation| broken.rule == Rule::Mention && broken.message.contains("`@U");
    let broken: Vec<Violation> = validate(&body).into_iter().filter(|broken| !named(broken)).collect();
    assert_eq!(broken, [], "{body:#}");
    assert!(body["text"].as_str().unwrap().encode_utf16().count() <= 4_000);
    let lists = [&body["blocks"], &body["attachments"][0]["blocks"]];
    let blocks: Vec<Value> = lists.iter().filter_map(|list| list.as_array()).flatten().cloned().collect();
    assert!(blocks.len() <= 50 && characters(&blocks) <= 12_000, "{} in {}", characters(&blocks), blocks.len());
    body
}

/// Characters of every text in the blocks.
fn characters(blocks: &[Value]) -> usize {
    fn of(value: &Value) -> usize {
        match value {
            Value::String(text) => text.encode_utf16().count(),
            Value::Array(list) => list.iter().map(of).sum(),
            Value::Object(map) => map
                .iter()
                .filter(|(key, _)| {
                    ["text", "elements", "value", "confirm", "title", "deny", "alt_text"].contains(&key.as_str())
                })
                .map(|(_, v)| of(v))
                .sum(),
            _ => 0,
        }
    }
    blocks.iter().map(of).sum()
}

/// What a person reads, without addresses.
fn read(message: &Message) -> String {
    let mut out = format!("{}\n", message.headline);
    for part in &message.parts {
        match part {
            Block::Beside(line, button) => out.push_str(&format!("{} [{}]\n", line.text(), button.label)),
            Block::Paragraph(line) | Block::Note(line) | Block::Gap(line) => {
                out.push_str(&format!("{}\n", line.text()))
            }
            Block::Document(block) => panic!("a chat has no room for {block:?}"),
            Block::Section(title, lines) | Block::Steps(title, lines) => {
                if !title.is_empty() {
                    out.push_str(&format!("{title}\n"));
                }
                lines.iter().for_each(|line| out.push_str(&format!("{}\n", line.text())));
            }
            Block::Buttons(buttons) => {
                let labels: Vec<&str> = buttons.iter().map(|b| b.label.as_str()).collect();
                out.push_str(&format!("[{}]\n", labels.join("] [")));
            }
        }
    }
    out
}

#[test]
fn a_usual_diagnosis_is_a_ten_second_read_with_everything_else_behind_a_button() {
    let alerts = late();
    let words = Phrases::english();
    for name in DIAGNOSES {
        let diagnosis = diagnosis(name);
        let message = incident_message(&view(&alerts, Some(&diagnosis)), &words);
        blocks(&message);
        let text = read(&message);
        let read: usize = text.lines().filter(|line| !line.starts_with('[')).map(|line| line.chars().count() + 1).sum();
        assert!(read <= TEN_SECONDS, "{read} in {name}: {text}");
        // All that is left out stands behind the button.
        let parts = evidence_parts(&diagnosis, &words);
        let more = self::read(&Message { tone: message.tone, headline: String::new(), parts: parts.clone() });
        for title in diagnosis.ruled_out.iter().map(|r| &r.title).chain(diagnosis.unchecked.iter().map(|u| &u.title)) {
            assert!(more.contains(title), "{title} in {more}");
        }
        assert_eq!(validate(&json!({ "text": "t", "blocks": slack_blocks(&parts) })), [], "{more}");
    }
}

#[test]
fn what_must_be_read_stands_where_slack_never_folds_it() {
    let (alerts, diagnosis) = (late(), diagnosis(DIAGNOSES[0]));
    let body = blocks(&incident_message(&view(&alerts, Some(&diagnosis)), &Phrases::english()));
    let top = body["blocks"].as_array().unwrap();
    assert!(
        top[0]["text"]["text"].as_str().unwrap().starts_with("*CRITICAL · high TTFT: first tokens come late"),
        "{top:#?}"
    );
    assert!(top.iter().filter(|block| block["type"] == "section").all(|block| block["expand"] == true));
    let attached = body["attachments"].as_array().unwrap();
    assert_eq!((attached.len(), attached[0]["blocks"].as_array().unwrap().len()), (1, 1), "the colour and the links");
    assert_eq!(attached[0]["color"], "#c4314b");
}

#[test]
fn a_check_at_its_threshold_says_little_and_one_without_a_distance_only_its_outcome() {
    let mut diagnosis = diagnosis(DIAGNOSES[0]);
    let first = |diagnosis: &Diagnosis| {
        let parts = evidence_parts(diagnosis, &Phrases::english()).into_iter().take(1).collect();
        read(&Message { tone: Tone::Good, headline: String::new(), parts })
    };
    let stored = first(&diagnosis);
    assert!(stored.contains("supports it") && !stored.contains("weak evidence"), "{stored}");
    (diagnosis.unknown, diagnosis.symptom.evidence[0].support) = (0.5, 0.0);
    let graded = first(&diagnosis);
    assert!(graded.contains("weak evidence"), "{graded}");
}

#[test]
fn a_value_as_it_was_is_called_unchanged() {
    let mut diagnosis = diagnosis(DIAGNOSES[0]);
    let root = diagnosis.causes.first_mut().unwrap();
    root.via.clear();
    root.evidence.truncate(1);
    let e = &mut root.evidence[0];
    (e.title, e.unit) = ("arrival rate".to_owned(), Unit::RequestsPerSecond);
    (e.outcome, e.value, e.baseline) = (Outcome::Met, Some(8.1), Some(8.0));
    let text = read(&incident_message(&view(&late(), Some(&diagnosis)), &Phrases::english()));
    assert!(text.contains("For: arrival rate unchanged at 8.1 req/s"), "{text}");
}

#[test]
fn a_silence_takes_the_alerts_and_not_their_whole_pool() {
    use findings::silence::{preselected, shared};
    let of = |name: &str| alert(&[("alertname", name), ("namespace", "prod")], "");
    let text = |alerts: &[Alert]| shared(alerts).iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(text(&[of("A")]), [r#"alertname="A""#, r#"namespace="prod""#]);
    assert_eq!(text(&[of("A"), of("B.1")]), [r#"alertname=~"A|B\\.1""#, r#"namespace="prod""#]);
    let many: Vec<Alert> = (0..9).map(|n| of(&format!("A{n}"))).collect();
    assert_eq!(text(&many), [r#"namespace="prod""#]);
    assert_eq!(preselected(&many[..8]).unwrap().len(), 2);
    let refused = preselected(&many).unwrap_err().to_string();
    assert!(refused.contains(r#"everything with namespace="prod""#), "nothing is chosen for a person then: {refused}");
}

#[test]
fn links_carry_the_incidents_own_query_time_and_labels() {
    let (alerts, diagnosis) = (late(), diagnosis(DIAGNOSES[0]));
    let shown = view(&alerts, Some(&diagnosis));
    let with_button = blocks(&incident_message(&shown, &Phrases::english())).to_string();
    assert!(!with_button.contains("silences/new"), "to silence is offered once: {with_button}");
    let shown = IncidentView { can_silence: false, ..shown };
    let body = blocks(&incident_message(&shown, &Phrases::english())).to_string();
    let end = (diagnosis.at + jiff::SignedDuration::from_mins(5)).strftime("%H%%3A%M%%3A%S").to_string();
    let from = (diagnosis.at - jiff::SignedDuration::from_mins(35)).as_millisecond();
    for part in [
        "https://prometheus.example/graph?g0.expr=",
        "g0.range_input=40m",
        &end,
        "https://alertmanager.example/#/silences/new?filter=%7Balertname%3D%22LLMHighTTFT%22%2C%20",
        &format!("https://grafana.example/d/llm?var-namespace=longer-prompts&var-model=&from={from}&to="),
        "<https://runbooks.example/high-ttft|Runbook>",
    ] {
        assert!(body.contains(part), "{part} in {body}");
    }
}

#[test]
fn a_link_that_is_too_long_for_a_terminal_names_the_command_that_prints_its_query() {
    let (alerts, diagnosis) = (late(), diagnosis(DIAGNOSES[0]));
    let shown = IncidentView { can_silence: false, ..view(&alerts, Some(&diagnosis)) };
    let mut message = incident_message(&shown, &Phrases::english());
    let form = format!("https://alertmanager.example/am/#/silences/new?filter={}", "x".repeat(200));
    message.parts.push(Block::Paragraph(Line(vec![TextSpan::Link("Silence it".to_owned(), form)])));
    let text = |commands: &Commands| anstream::adapter::strip_str(&terminal_with(&message, commands)).to_string();
    let known = text(&Commands::of_incident("01JCV7Y3E8"));
    for part in [
        "https://prometheus.example (llm-diagnose explain --queries 01JCV7Y3E8)",
        "https://alertmanager.example/am (llm-diagnose silence create 01JCV7Y3E8)",
    ] {
        assert!(known.contains(part), "{part} in {known}");
    }
    for shown in [known, text(&Commands::default())] {
        assert!(!shown.contains("/graph") && !shown.contains("/am/#/silences/new"), "an empty form: {shown}");
    }
}

#[test]
fn buttons_are_there_only_where_somebody_listens_and_fit_the_state() {
    let (alerts, diagnosis) = (late(), diagnosis(DIAGNOSES[0]));
    let shown = view(&alerts, Some(&diagnosis));
    let buttons = |view: &IncidentView<'_>| -> Vec<(String, String)> {
        let message = incident_message(view, &Phrases::english());
        blocks(&message);
        let rows = message.parts.into_iter().map(|part| match part {
            Block::Buttons(row) => row,
            Block::Beside(_, button) => vec![button],
            _ => Vec::new(),
        });
        rows.flatten().map(|button| (button.action, button.value)).collect()
    };
    let acts =
        |view: &IncidentView<'_>| -> Vec<Act> { buttons(view).iter().map(|(id, _)| Act::of(id).unwrap()).collect() };
    use Act::{Acknowledge, Again, Bundle, Done, Escalate, Evidence, Right, Silence, Snooze, Verify, Wrong};
    let below = [Acknowledge, Evidence, Silence, Again, Snooze, Escalate, Right, Wrong, Bundle];
    assert_eq!(acts(&shown), [[Done; 3].as_slice(), &below].concat());
    let second = format!("01JCV7Y3E8/{}", step_id(&diagnosis.fix.now[1]));
    assert!(buttons(&shown).contains(&("done:1".to_owned(), second)));
    assert!(!acts(&IncidentView { acknowledged: true, ..shown.clone() }).contains(&Acknowledge));
    let nobody = IncidentView { can_escalate: false, can_silence: false, ..shown.clone() };
    assert!(!acts(&nobody).iter().any(|act| matches!(act, Escalate | Silence)));
    let resolved = IncidentView { resolved_at: Some(diagnosis.at), ..shown.clone() };
    assert_eq!(acts(&resolved), [Evidence, Right, Wrong, Bundle]);
    // Who did a step may verify it; its number may have changed since.
    let detail = render::step_text(&diagnosis.fix.now[1]);
    let notes = [Note { who: "U1".into(), at: diagnosis.at, act: Done, detail }];
    let done = IncidentView { notes: &notes, ..shown.clone() };
    assert_eq!(acts(&done)[..3], [Done, Verify, Done]);
    assert!(read(&incident_message(&done, &Phrases::english())).contains("2. ✓ "));
    // Seldom pressed ones stand in one menu.
    let body = blocks(&incident_message(&shown, &Phrases::english()));
    let row = body["blocks"].as_array().unwrap().last().unwrap()["elements"].as_array().unwrap().clone();
    let menu = &row.last().unwrap()["options"];
    assert_eq!((row.len(), menu[0]["value"].as_str()), (6, Some("snooze 01JCV7Y3E8")), "{row:#?}");
    assert_eq!(acts(&IncidentView { interactive: false, ..shown }), []);
}

#[test]
fn nothing_in_a_label_breaks_the_message_or_calls_anybody() {
    let evil = "<!channel> <@U1> <https://evil|x> *bold* _it_ ~st~ `code` :rotating_light: \u{202e}txt\u{2066}\u{7} & \u{2028}";
    let huge = "&<x>".repeat(25_000);
    let long = "l".repeat(3_000);
    let mut alerts = vec![
        alert(&[("alertname", evil), ("namespace", evil), ("model", &long), ("team", evil)], evil),
        alert(&[("alertname", &huge), ("namespace", evil), ("model", &long), ("team", evil), (&long, &huge)], &huge),
    ];
    let mut diagnosis = diagnosis(DIAGNOSES[0]);
    diagnosis.scope.labels.insert("namespace".into(), evil.into());
    diagnosis.scope.labels.insert("model".into(), huge.clone());
    diagnosis.replicas.affected = vec![evil.into(), huge.clone(), long.clone()];
    diagnosis.replicas.total = 9;
    diagnosis.causes[0].replicas = diagnosis.replicas.clone();
    diagnosis.problems = vec![huge.clone(), evil.into()];
    diagnosis.fix.now[0].action = huge.clone();
    let notes = [Note { who: evil.into(), at: diagnosis.at, act: Act::Silence, detail: huge.clone() }];
    for diagnosis in [None, Some(&diagnosis)] {
        let view = IncidentView { notes: &notes, ..view(&alerts, diagnosis) };
        let message = incident_message(&view, &Phrases::english());
        let body = blocks(&message);
        let text = body.to_string();
        for harm in ["<!channel", "<@U1>", "<https://evil", ":rotating_light:", "\u{202e}", "\u{2066}", "\u{2028}"] {
            assert!(!text.contains(harm), "{harm} in {text}");
        }
        assert!(text.contains("\u{200b}*bold\u{200b}* \u{200b}_it\u{200b}_"), "{text}");
        assert!(text.contains("\"actions\""), "buttons stay: {text}");
        assert!(!terminal(&message).contains(['\u{7}', '\u{202e}']));
    }
    alerts[0].labels.clear();
    blocks(&incident_message(&view(&alerts[..1], None), &Phrases::english()));
}

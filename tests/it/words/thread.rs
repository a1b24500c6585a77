//! The thread is told what a reader of the message would want to know has changed; a storm is told in one message.

use findings::SymptomVerdict;
use jiff::Timestamp;
use knowledge::alert::AlertStatus;
use knowledge::incident::VARIOUS;
use message::Block;
use render::{DigestEntry, DigestView, IncidentView, Phrases, ThreadState, changes, digest_message};

use super::{DIAGNOSES, blocks, diagnosis, late, read, view};

fn said(before: &ThreadState, now: &ThreadState) -> Option<String> {
    changes(before, now, &Phrases::english()).map(|line| line.text())
}

#[test]
fn the_thread_hears_of_more_replicas_another_cause_and_the_end() {
    let alerts = late();
    let mut first = diagnosis(DIAGNOSES[0]);
    first.causes[0].replicas.affected.truncate(1);
    let mut second = first.clone();
    second.causes[0].replicas = diagnosis(DIAGNOSES[0]).causes[0].replicas.clone();
    second.causes[0].id = "lost-replica".into();
    second.causes[0].title = "a replica was lost".into();
    let none = ThreadState::of(&view(&alerts, None));
    let one = ThreadState::of(&view(&alerts, Some(&first)));
    let two = ThreadState::of(&view(&alerts, Some(&second)));
    assert_eq!(said(&none, &one), None, "the message itself has just said it");
    assert_eq!(said(&one, &one), None);
    assert_eq!(said(&one, &two).unwrap(), "+3 replicas (4 of 4), cause now: a replica was lost");
    // What it was stands in the message; while it ends, evidence fades.
    second.symptom.verdict = SymptomVerdict::Absent;
    assert_eq!(
        said(&two, &ThreadState::of(&view(&alerts, Some(&second)))).unwrap(),
        "the symptom is gone, the alert still fires"
    );
    let over = IncidentView { resolved_at: Some(second.at), ..view(&alerts, Some(&second)) };
    let over = ThreadState::of(&over);
    assert_eq!(said(&two, &over).unwrap(), "resolved after 5 min");
    let kept: ThreadState = serde_json::from_str(&serde_json::to_string(&over).unwrap()).unwrap();
    assert_eq!(kept, over);
}

#[test]
fn alerts_that_join_or_end_are_counted() {
    let (one, three) = (late(), [late(), late(), late()].concat());
    let mut two = three.clone();
    two[0].status = AlertStatus::Resolved;
    let told = |alerts: &[_]| ThreadState::of(&view(alerts, None));
    assert_eq!(said(&told(&one), &told(&three)).unwrap(), "+2 alerts (3 now)");
    assert_eq!(said(&told(&three), &told(&two)).unwrap(), "1 alert ended (2 left)");
}

#[test]
fn flapping_is_said_once_and_then_only_shown() {
    let alerts = late();
    let told = |refired, resolved: bool| {
        let resolved_at = resolved.then(|| Timestamp::UNIX_EPOCH + jiff::SignedDuration::from_mins(9));
        ThreadState::of(&IncidentView { refired, resolved_at, ..view(&alerts, None) })
    };
    let states = [(0, false), (0, true), (1, false), (1, true), (2, false), (2, true), (3, false), (3, true)];
    let thread: Vec<Option<String>> =
        states.windows(2).map(|w| said(&told(w[0].0, w[0].1), &told(w[1].0, w[1].1))).collect();
    assert_eq!(thread[0].as_deref(), Some("resolved after 14 min"));
    assert_eq!(thread[1].as_deref(), Some("fires again"));
    assert!(thread[3].as_deref().unwrap().contains("it flaps"), "{thread:?}");
    assert_eq!(thread[4..], [None, None, None]);
}

#[test]
fn a_storm_is_one_message_with_the_worst_first() {
    let at = |minute| Timestamp::UNIX_EPOCH + jiff::SignedDuration::from_mins(minute);
    let entry = |n: usize, what: &str, open, critical| DigestEntry {
        id: format!("i{n}"),
        what: what.into(),
        cause: n.is_multiple_of(2).then(|| "a <!channel> was *lost*".into()),
        pool: [("cluster", "prod"), ("model", "llama")].map(|(k, v)| (k.to_owned(), v.to_owned())).into(),
        open,
        critical,
        warning: true,
        since: at(i64::try_from(n).unwrap()),
        page: Some(format!("https://triage.example/incidents/i{n}")),
    };
    let mut incidents: Vec<DigestEntry> =
        (0..40).map(|n| entry(n, &format!("symptom {}", n / 2), true, n == 7)).collect();
    incidents.extend((40..60).map(|n| entry(n, "high inter-token latency: tokens come slowly", n % 3 > 0, false)));
    let mut view = DigestView {
        id: "d1".into(),
        topic: VARIOUS.into(),
        opened_at: at(0),
        incidents,
        unreadable: 0,
        interactive: true,
    };
    let message = digest_message(&view, &Phrases::english());
    let body = blocks(&message);
    let text = read(&message);
    assert!(
        text.starts_with("CRITICAL · storm of 60 incidents · various symptoms · 54 firing (1 critical), 6 resolved\n"),
        "{text}"
    );
    let Block::Section(_, lines) = &message.parts[0] else { panic!("{text}") };
    assert!(lines[0].text().starts_with("symptom 3 · prod/llama — 1 firing (1 critical)"), "{text}");
    assert!(lines.len() == 16 && lines[15].text().contains("and 27 more lines with 27 incidents"), "{text}");
    assert!(text.contains("[Show incidents]") && body.to_string().contains("\"value\":\"d1\""));
    for (warning, word) in [(true, "WARNING"), (false, "FIRING")] {
        view.incidents.iter_mut().for_each(|entry| (entry.critical, entry.warning) = (false, warning));
        let headline = digest_message(&view, &Phrases::english()).headline;
        assert!(headline.starts_with(&format!("{word} · storm")), "{headline}");
    }
    view.incidents.iter_mut().for_each(|entry| entry.open = false);
    assert!(
        blocks(&digest_message(&view, &Phrases::english()))["text"]
            .as_str()
            .unwrap()
            .starts_with("RESOLVED · storm of 60 incidents")
    );
    view.incidents.clear();
    blocks(&digest_message(&view, &Phrases::english()));
}

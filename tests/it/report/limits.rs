//! The limits of the media of a report: what a ticket may hold, and what a page and a text leave out, with a word.

use findings::facts::{HappenedKind, ReplicaInfo, TimelineEvent};
use knowledge::incident::{Acknowledged, Act, Note};
use knowledge::signal::{Unit, format_value};
use logs::{LogAnalysis, LogMatch};
use report::incident_timeline;

use super::told::{alert, card, logged, page, reported_with_alerts, written};
use super::*;

fn tickets(report: &Report) -> impl Iterator<Item = (&str, String)> {
    let outside = library().tickets.values().filter(|form| !form.internal);
    outside.map(move |form| (form.ticket.as_str(), ticket(form, report, &Phrases::english())))
}

#[test]
fn hostile_annotations_stay_text_in_the_written_report_and_in_tickets() {
    let mut hostile = alert(None, None);
    for (name, value) in [
        ("a", "https://x\t@everyone ![p](http://evil/p.png)"),
        ("b", "https://x\r\r~~~"),
        ("c", "https://x\r\r# h"),
        ("d", "https://x\n\n~~~"),
    ] {
        hostile.annotations.insert(name.to_owned(), value.to_owned());
    }
    let report = reported_with_alerts(&[hostile], &diagnosis());
    let whole = ("report.md", written(&report));
    assert!(whole.1.contains("](https://x%20"), "the annotations are links: {}", whole.1);
    for (name, text) in tickets(&report).chain([whole]) {
        let outside = outside_of_code(&text);
        let bare = outside.replace("\\]", "");
        assert!(!bare.contains("](http://evil") && !bare.contains("@everyone"), "{name}: {outside}");
        assert!(!text.contains('\r') && !text.lines().any(|line| line.starts_with("~~~")), "{name}: {text}");
        assert!(!text.lines().any(|line| line == "# h"), "{name}: {text}");
    }
}

#[test]
fn sixty_logs_that_say_the_same_fit_into_every_ticket() {
    let (_, crash) = logged("llama-0", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.");
    let one = crash.root().unwrap().clone();
    let finding = |i: usize| LogMatch { id: format!("finding-{i}"), text: "x".repeat(300), ..one.clone() };
    let read = LogAnalysis {
        findings: (0..20).map(finding).collect(),
        first_root: Some("finding-0".to_owned()),
        ..crash.clone()
    };
    let logs = (0..60).map(|i| (logged(&format!("llama-{i}"), "").0, read.clone())).collect();
    let report = reported("x", SourceFindings { logs, ..SourceFindings::default() });
    for (name, text) in tickets(&report) {
        assert!(text.len() < 60_000, "{name} has {} bytes, and GitHub takes 65,536", text.len());
    }
    let vllm = ticket(&library().tickets["vllm"], &report, &Phrases::english());
    assert!(vllm.contains("and 52 more") && vllm.contains(&"x".repeat(300)), "{vllm}");
}

#[test]
fn what_colleagues_write_for_each_other_stands_in_no_ticket() {
    let at = at(moment(CASE));
    let note = |act, detail: &str| Note { who: "U0ANN".to_owned(), at, act, detail: detail.to_owned() };
    let notes = [note(Act::Note, "the boss is cross"), note(Act::Wrong, "Something else (“the boss did it”)")];
    let timeline = incident_timeline(&[], None, &[], &notes);
    let report = Report { timeline, ..reported("x", SourceFindings::default()) };
    for (name, text) in tickets(&report) {
        assert!(!text.contains("the boss"), "{name}: {text}");
    }
    assert!(tickets(&report).any(|(_, text)| text.contains("somebody found the cause wrong")));
}

#[test]
fn no_persons_chat_id_stands_in_a_ticket() {
    let mut report = reported("x", SourceFindings::default());
    let (who, at) = ("U0123ABCDEF".to_owned(), at(moment(CASE)));
    let (what, source) = ("somebody took it on".to_owned(), format!("@{who}"));
    report.timeline.push(TimelineEvent { at, kind: HappenedKind::Act, what, source });
    report.incident.as_mut().unwrap().acknowledged = Some(Acknowledged { who, at });
    assert_eq!(written(&report).matches("U0123ABCDEF").count(), 2);
    for (name, text) in tickets(&report) {
        assert!(!text.contains("U0123ABCDEF"), "{name}: {text}");
    }
}

#[test]
fn a_page_shows_affected_replicas_unfolded_and_counts_those_that_it_leaves_out() {
    let topology = |affected: usize, all: usize| {
        let mut report = reported("x", SourceFindings::default());
        let replica = |i: usize| ReplicaInfo { name: format!("llama-{i:04}"), ..ReplicaInfo::default() };
        report.topology = (0..all).map(replica).collect();
        let affected = report.topology[..affected].iter().map(|replica| replica.name.clone()).collect();
        report.diagnosis.as_mut().unwrap().causes[0].replicas.affected = affected;
        card(&page(&report), "topology").to_owned()
    };
    let all_affected = topology(5_000, 5_000);
    assert_eq!(all_affected.matches("llama-").count(), 500);
    assert!(all_affected.contains("and 4500 more"), "the others are counted");
    let topology = topology(60, 1_000);
    let open = topology.split("<details").next().unwrap();
    assert!((0..60).all(|i| open.contains(&format!("llama-{i:04}"))), "{open}");
    assert!(topology.contains("920 in between") && topology.contains("and 520 more"), "{topology}");
}

#[test]
fn everything_that_was_checked_is_told_with_the_probability_of_each_cause() {
    let report = reported("x", SourceFindings::default());
    let root = report.diagnosis.as_ref().unwrap().root().unwrap();
    let percent = format_value((root.probability * 100.0).round() / 100.0, Unit::Ratio);
    let text = written(&report);
    let checked = text.split("## Everything that was checked").nth(1).unwrap().split("\n## ").next().unwrap();
    for checked in [card(&page(&report), "evidence"), checked] {
        assert!(checked.contains(&percent), "{percent}: {checked}");
    }
}

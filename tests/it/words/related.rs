//! Related incidents as people read them: the last time of a cause, and others that are open.

use jiff::SignedDuration;
use knowledge::incident::{Act, LastTime, Neighbour, Note, Related, SharedTrait};
use render::{IncidentView, Phrases, incident_message};

use super::{DIAGNOSES, blocks, diagnosis, late, read, view};

#[test]
fn the_last_time_and_what_else_is_open_stand_below_the_steps_with_links() {
    let (alerts, diagnosis) = (late(), diagnosis(DIAGNOSES[1]));
    let began = diagnosis.at - SignedDuration::from_hours(9 * 24);
    let note = |minutes: i64, act, detail: &str| Note {
        who: "U1".into(),
        at: began + SignedDuration::from_mins(minutes),
        act,
        detail: detail.into(),
    };
    let neighbour = |id: &str, pool: &str, node: Option<&str>| Neighbour {
        id: id.into(),
        started_at: diagnosis.at - SignedDuration::from_mins(20),
        what: Some("high TTFT: first tokens come late".into()),
        cause: node.map(|_| "GPU clocks are pulled down".to_owned()),
        pool: [("namespace".to_owned(), pool.to_owned())].into(),
        shared: node.map_or(SharedTrait::Pool, |node| SharedTrait::Node(node.to_owned())),
    };
    let last = LastTime {
        id: "01JCLAST".into(),
        started_at: began,
        resolved_at: began + SignedDuration::from_mins(25),
        notes: vec![
            note(5, Act::Done, "Scale out if replicas can start within minutes"),
            note(12, Act::Done, "Take it out of rotation"),
            note(14, Act::Verify, "Fixed: inter-token latency p99 is 31 ms (expected < 50 ms)"),
            note(30, Act::Right, "one replica is much worse than its peers"),
        ],
    };
    let open = vec![neighbour("01JCPOOL", "bad-replica", None), neighbour("01JCNODE", "chat", Some("gpu-node-0"))];
    let mut related = Related { last: Some(last), open };
    let show = |related: &Related| {
        let shown = IncidentView { related: Some(related), ..view(&alerts, Some(&diagnosis)) };
        let message = incident_message(&shown, &Phrases::english());
        (read(&message), blocks(&message).to_string())
    };
    let (text, body) = show(&related);
    let lines: Vec<&str> = text.lines().collect();
    let step = lines.iter().position(|line| line.starts_with("1. ")).unwrap();
    let sure = lines.iter().position(|line| *line == "How sure this is").unwrap();
    let last = lines.iter().position(|line| line.starts_with("Same cause here last time")).unwrap();
    assert!(step < 10 && step < last && last < sure, "{text}");
    insta::assert_snapshot!(lines[last], @r#"Same cause here last time: 2023-11-11 22:01 UTC, for 25 min. Done then: "Scale out if replicas can start within minutes", "Take it out of rotation"; resolved 13 min later. Verified then: Fixed: inter-token latency p99 is 31 ms (expected < 50 ms). The cause was judged right."#);
    let open = lines.iter().position(|line| *line == "Open at the same time").unwrap();
    insta::assert_snapshot!(lines[open + 1..open + 3].join("\n"), @r"
    In this pool: high TTFT: first tokens come late, alert since 21:41 UTC
    On the same node gpu-node-0: high TTFT: first tokens come late ← GPU clocks are pulled down in chat, alert since 21:41 UTC
    ");
    for id in ["01JCLAST", "01JCPOOL", "01JCNODE"] {
        assert!(body.contains(&format!("<https://triage.example/incidents/{id}|")), "{id}: {body}");
    }
    // What may be another team's is not told, but it is found; without pages, by its id.
    related.open = vec![Neighbour { what: None, cause: None, pool: Default::default(), ..related.open[1].clone() }];
    related.open.push(Neighbour { shared: SharedTrait::Place, ..related.open[0].clone() });
    let (text, body) = show(&related);
    let open = text.lines().skip_while(|line| *line != "Open at the same time").skip(1).take(2);
    insta::assert_snapshot!(open.collect::<Vec<_>>().join("\n"), @r"
    On the same node gpu-node-0: another incident, alert since 21:41 UTC
    In the same namespace: another incident, alert since 21:41 UTC
    ");
    assert!(body.contains("<https://triage.example/incidents/01JCNODE|another incident>"), "{body}");
    let bare = IncidentView { related: Some(&related), page: None, ..view(&alerts, Some(&diagnosis)) };
    assert!(read(&incident_message(&bare, &Phrases::english())).contains("another incident (01JCNODE)"));
    // What came of it may be that it was another cause, or that nobody wrote down anything.
    let last = related.last.as_mut().unwrap();
    last.notes = vec![note(30, Act::Wrong, "the router overloads some replicas")];
    let (text, _) = show(&related);
    insta::assert_snapshot!(text.lines().find(|line| line.contains("last time")).unwrap(), @"Same cause here last time: 2023-11-11 22:01 UTC, for 25 min. The cause was judged wrong: the router overloads some replicas.");
    // Once it is over, what else is open is nothing that its message must tell.
    let ended =
        IncidentView { related: Some(&related), resolved_at: Some(diagnosis.at), ..view(&alerts, Some(&diagnosis)) };
    let text = read(&incident_message(&ended, &Phrases::english()));
    assert!(text.contains("last time") && !text.contains("Open at the same time"), "{text}");
}

#[test]
fn what_labels_and_people_wrote_elsewhere_breaks_no_message() {
    let (alerts, diagnosis) = (late(), diagnosis(DIAGNOSES[1]));
    let odd = "<!channel> *x* `y` <https://evil.example|z> ".repeat(40);
    let note = |act| Note { who: odd.clone(), at: diagnosis.at, act, detail: odd.clone() };
    let neighbour = Neighbour {
        id: "01JCNODE".into(),
        started_at: diagnosis.at,
        what: Some(odd.clone()),
        cause: Some(odd.clone()),
        pool: [("namespace".to_owned(), odd.clone())].into(),
        shared: SharedTrait::Node(odd.clone()),
    };
    let last = LastTime {
        id: "01JCLAST".into(),
        started_at: diagnosis.at,
        resolved_at: diagnosis.at - SignedDuration::from_mins(1),
        notes: vec![note(Act::Done), note(Act::Done), note(Act::Done), note(Act::Verify), note(Act::Wrong)],
    };
    let related = Related { last: Some(last), open: vec![neighbour.clone(), neighbour.clone(), neighbour] };
    let shown = IncidentView { related: Some(&related), ..view(&alerts, Some(&diagnosis)) };
    blocks(&incident_message(&shown, &Phrases::english()));
}

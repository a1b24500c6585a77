//! What Alertmanager really sends, 0.25 to 0.33, and what admission makes of it: pure, and through the store.

use std::time::Duration;

use findings::Diagnosis;
use jiff::{SignedDuration, Timestamp};
use knowledge::alert::{AlertGroup, AlertStatus, OmittedAlert, PayloadError};
use knowledge::incident::{Acknowledged, AdmissionRules, AdmitReason, Impact, IncidentState, KnownIncident, admit};
use store::{AdmissionPlan, Admitted, Incident, PendingWork, Sink, Store, Storm};
use tempfile::TempDir;

use crate::harness::fixture;

const RULES: AdmissionRules =
    AdmissionRules { duplicate_within: Duration::from_secs(60), reopen_within: Duration::from_secs(600) };

/// Nothing goes into a digest.
pub(crate) const CALM: Storm = Storm { incidents: 0, within: Duration::ZERO, queue: u32::MAX, topic: String::new() };

/// A captured body.
fn group(name: &str) -> AlertGroup {
    AlertGroup::from_webhook(fixture(&format!("alertmanager/{name}.json")).as_bytes()).unwrap()
}

fn after(seconds: i64) -> Timestamp {
    "2026-11-20T18:07:00Z".parse::<Timestamp>().unwrap() + SignedDuration::from_secs(seconds)
}

/// What is known once an incident was opened by this group.
fn known(group: &AlertGroup, notified: i64) -> KnownIncident {
    KnownIncident {
        id: "1".to_owned(),
        state: IncidentState::Open,
        notified_at: after(notified),
        resolved_at: None,
        left_out: 0,
        left_out_most: 0,
        critical: false,
        episodes: group.alerts.iter().map(|a| (a.episode(), a.status)).collect(),
    }
}

/// A store of its own: an SQLite in a directory, unless it is given.
pub(crate) struct Kept {
    store: Store,
    _directory: Option<TempDir>,
}

impl From<Store> for Kept {
    fn from(store: Store) -> Self {
        Self { store, _directory: None }
    }
}

impl Kept {
    async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(&directory.path().join("state.db")).await.unwrap();
        Self { store, _directory: Some(directory) }
    }

    async fn admit(&self, group: AlertGroup, seconds: i64) -> Admitted {
        let wanted = AdmissionPlan {
            selection: None,
            sinks: Vec::new(),
            filtered: Vec::new(),
            grace: Duration::ZERO,
            storm: CALM,
        };
        self.store.admit(&[(group, wanted)], after(seconds), &RULES).await.unwrap().remove(0).unwrap()
    }

    async fn incident(&self, admitted: &Admitted) -> Incident {
        self.store.incident(&admitted.incident).await.unwrap().unwrap()
    }
}

fn firing(incident: &Incident) -> usize {
    incident.alerts.iter().filter(|a| a.status == AlertStatus::Firing).count()
}

#[tokio::test]
async fn alerts_that_resolved_earlier_and_left_the_group_are_remembered() {
    for [first, second, third] in [
        ["0.25/grouped_03_firing", "0.25/grouped_12_firing", "0.25/grouped_14_resolved"],
        ["0.28/grouped_02_firing", "0.28/grouped_14_firing", "0.28/grouped_16_resolved"],
        ["0.33/grouped_01_firing", "0.33/grouped_13_firing", "0.33/grouped_14_resolved"],
    ] {
        let kept = Kept::new().await;
        let opened = kept.admit(group(first), 0).await;
        assert_eq!(opened.reason, AdmitReason::First, "{first}");
        let fewer = kept.admit(group(second), 30).await;
        assert_eq!((fewer.reason, &fewer.incident), (AdmitReason::FewerAlerts, &opened.incident), "{second}");
        assert_eq!(firing(&kept.incident(&fewer).await), 4, "{second}");
        let over = kept.admit(group(third), 60).await;
        assert_eq!((over.reason, &over.incident), (AdmitReason::Resolved, &opened.incident), "{third}");
        let incident = kept.incident(&over).await;
        assert_eq!((incident.open, incident.alerts.len(), firing(&incident)), (false, 7, 0), "{third}");
        assert_eq!(incident.resolved_at, Some(after(60)));
    }
}

#[tokio::test]
async fn a_group_that_says_resolved_while_truncated_alerts_fire_stays_open() {
    for version in ["0.25", "0.33"] {
        let kept = Kept::new().await;
        let opened = kept.admit(group(&format!("{version}/trunc_resolved_lie_1")), 0).await;
        let lie = group(&format!("{version}/trunc_resolved_lie_2"));
        assert_eq!(lie.truncated_alerts, 5);
        let after_lie = kept.admit(lie, 30).await;
        assert_eq!((after_lie.reason, &after_lie.incident), (AdmitReason::FewerAlerts, &opened.incident), "{version}");
        assert!(kept.incident(&after_lie).await.open, "{version}");
    }
}

#[test]
fn a_truncated_group_is_over_when_alertmanager_says_that_all_alerts_are() {
    let mut over = group("0.33/trunc_resolved_lie_2");
    over.notification_reason = Some("all alerts resolved".to_owned());
    let before = known(&group("0.33/trunc_resolved_lie_1"), 0);
    let admission = admit(Some(&before), &over, after(30), &RULES);
    assert_eq!((admission.reason, admission.state), (AdmitReason::Resolved, IncidentState::Resolved));
    // The one that fired before and is not listed now has ended too.
    assert_eq!(admission.gone.len(), 1);
}

#[test]
fn a_new_incident_counts_what_it_does_not_store_whatever_an_earlier_one_of_its_group_has() {
    let mut group = group("0.33/grouped_01_firing");
    let before = KnownIncident { state: IncidentState::Resolved, resolved_at: Some(after(10)), ..known(&group, 0) };
    let last = group.alerts.pop().unwrap();
    group.left_out = vec![OmittedAlert { episode: last.episode(), status: AlertStatus::Firing }];
    let opened = admit(Some(&before), &group, after(100_000), &RULES);
    assert_eq!((opened.reason, opened.left_out), (AdmitReason::First, 1));
    let again = admit(Some(&before), &group, after(20), &RULES);
    assert_eq!((again.reason, again.left_out), (AdmitReason::Refired, 0), "the incident has the alert from before");
}

#[tokio::test]
async fn an_alert_that_arrives_only_as_resolved_opens_nothing() {
    for name in ["0.25/default_13_resolved", "0.28/default_15_resolved", "0.33/default_15_resolved"] {
        let kept = Kept::new().await;
        let admitted = kept.admit(group(name), 0).await;
        assert_eq!(admitted.reason, AdmitReason::ResolvedUnseen, "{name}");
        assert!(!kept.incident(&admitted).await.open, "{name}");
        assert_eq!(kept.admit(group(name), 1).await.reason, AdmitReason::Duplicate, "its pair sends it too");
    }
}

#[tokio::test]
async fn an_alert_without_a_name_is_taken_and_called_unnamed() {
    for name in ["0.25/default_10_firing", "0.28/default_10_firing", "0.33/default_12_firing"] {
        let kept = Kept::new().await;
        let admitted = kept.admit(group(name), 0).await;
        assert_eq!(admitted.reason, AdmitReason::First, "{name}");
        assert_eq!(kept.incident(&admitted).await.alerts[0].name(), "unnamed alert", "{name}");
    }
}

#[tokio::test]
async fn label_names_and_values_of_any_utf_8_come_back_as_they_were() {
    let kept = Kept::new().await;
    for (name, label, text) in [
        ("0.33/default_11_firing", "modèl.name", "v"),
        ("0.28/default_12_firing", "service.name", "v"),
        ("0.25/default_11_firing", "alertname", "x\u{fffd}\u{fffd}y"),
    ] {
        let admitted = kept.admit(group(name), 0).await;
        assert_eq!(kept.incident(&admitted).await.alerts[0].labels[label], text, "{name}");
    }
}

#[tokio::test]
async fn five_thousand_characters_and_a_direction_override_survive_the_store() {
    for name in ["0.25/unicode_04_firing", "0.28/unicode_07_firing", "0.33/unicode_04_firing"] {
        odd_characters_come_back(&Kept::new().await, name).await;
    }
}

pub(crate) async fn odd_characters_come_back(kept: &Kept, name: &str) {
    let sent = group(name);
    let admitted = kept.admit(sent.clone(), 0).await;
    let incident = kept.incident(&admitted).await;
    assert_eq!(incident.alerts, sent.alerts, "{name}");
    assert_eq!(incident.alerts[0].annotations["long"].chars().count(), 5_000, "{name}");
    assert!(incident.alerts[0].labels["model_name"].contains('\u{202e}'), "{name}");
    assert_eq!(incident.group_key, sent.group_key, "{name}");
}

pub(crate) async fn a_nul_character_is_taken(kept: &Kept) {
    // The second is an escaped backslash and five characters.
    let odd = r#""g\u0000 \\u0000""#;
    let body = format!(
        r#"{{"version":"4","groupKey":{odd},"status":"firing","alerts":[{{"status":"firing",
            "labels":{{"alertname":{odd}}},"startsAt":"2026-11-20T03:00:00Z","fingerprint":{odd}}}]}}"#
    );
    let sent = AlertGroup::from_webhook(body.as_bytes()).unwrap();
    assert_eq!(sent.group_key, "g\u{fffd} \\u0000");
    let admitted = kept.admit(sent.clone(), 0).await;
    assert_eq!(kept.incident(&admitted).await.alerts, sent.alerts);
    assert_eq!(kept.admit(sent, 1).await.reason, AdmitReason::Duplicate);
}

#[tokio::test]
async fn a_nul_character_which_postgresql_cannot_keep_is_replaced() {
    a_nul_character_is_taken(&Kept::new().await).await;
}

#[test]
fn the_same_notification_at_once_and_after_15_seconds_is_a_duplicate_and_later_a_reminder() {
    let group = group("0.25/grouped_03_firing");
    let before = known(&group, 0);
    let reason = |seconds| admit(Some(&before), &group, after(seconds), &RULES).reason;
    assert_eq!([reason(0), reason(15), reason(60)], [AdmitReason::Duplicate; 3]);
    assert_eq!([reason(61), reason(14_400)], [AdmitReason::StillFiring; 2]);
}

#[tokio::test]
async fn a_late_duplicate_does_not_undo_what_came_after_it() {
    late_duplicates_change_nothing(&Kept::new().await).await;
}

pub(crate) async fn late_duplicates_change_nothing(kept: &Kept) {
    let opened = kept.admit(group("0.25/grouped_03_firing"), 0).await;
    kept.admit(group("0.25/grouped_12_firing"), 30).await;
    let over = kept.admit(group("0.25/grouped_14_resolved"), 60).await;
    let twice = kept.admit(group("0.25/grouped_14_resolved"), 61).await;
    assert_eq!((twice.reason, &twice.incident), (AdmitReason::Duplicate, &opened.incident));
    assert_eq!(kept.incident(&over).await.resolved_at, Some(after(60)));
}

#[tokio::test]
async fn a_group_that_fires_again_soon_reopens_its_incident_and_later_is_a_new_one() {
    refiring_reopens_soon_and_opens_later(&Kept::new().await).await;
}

pub(crate) async fn refiring_reopens_soon_and_opens_later(kept: &Kept) {
    let [fires, over] = ["0.25/grouped_03_firing", "0.25/grouped_14_resolved"].map(group);
    let opened = kept.admit(fires.clone(), 0).await;
    kept.admit(over.clone(), 60).await;
    let again = |start: i64| {
        let mut group = fires.clone();
        group.alerts.iter_mut().for_each(|alert| alert.starts_at = after(start));
        group
    };
    let soon = kept.admit(again(600), 660).await;
    assert_eq!((soon.reason, &soon.incident), (AdmitReason::Refired, &opened.incident));
    let incident = kept.incident(&soon).await;
    assert_eq!((incident.open, incident.refired, incident.resolved_at), (true, 1, None));
    let mut over_again = again(600);
    over_again.alerts.iter_mut().for_each(|alert| alert.status = AlertStatus::Resolved);
    assert_eq!(kept.admit(over_again, 720).await.reason, AdmitReason::Resolved);
    let later = kept.admit(again(1_300), 1_321).await;
    assert_eq!(later.reason, AdmitReason::First);
    assert_ne!(later.incident, opened.incident);
}

#[test]
fn an_episode_is_a_fingerprint_and_its_start() {
    let group = group("0.25/grouped_03_firing");
    let before = known(&group, 0);
    let mut restarted = group.clone();
    restarted.alerts[0].starts_at = after(20);
    // The same fingerprint with another start is a new alert, even within the duplicate time.
    assert_eq!(admit(Some(&before), &restarted, after(15), &RULES).reason, AdmitReason::NewAlerts);
    let mut retold = group;
    retold.alerts[0].annotations.insert("summary".to_owned(), "another text".to_owned());
    assert_eq!(admit(Some(&before), &retold, after(15), &RULES).reason, AdmitReason::Duplicate);
}

#[tokio::test]
async fn groups_are_told_apart_by_their_key_alone() {
    let kept = Kept::new().await;
    // Nested routes and `group_by: [...]` carry the same alert under different keys.
    let names =
        ["0.33/nested_06_firing", "0.33/nested2_05_firing", "0.33/groupall_07_firing", "0.33/groupnone_08_firing"];
    let mut incidents = Vec::new();
    for name in names {
        let admitted = kept.admit(group(name), 0).await;
        assert_eq!(admitted.reason, AdmitReason::First, "{name}");
        incidents.push(admitted.incident);
    }
    incidents.sort();
    incidents.dedup();
    assert_eq!(incidents.len(), names.len());
}

#[tokio::test]
async fn a_hundred_alerts_are_one_incident() {
    let kept = Kept::new().await;
    let admitted = kept.admit(group("group_100"), 0).await;
    assert_eq!(kept.incident(&admitted).await.alerts.len(), 100);
}

#[test]
fn a_body_of_another_version_or_shape_is_refused_with_the_reason() {
    let body = fixture("alertmanager/0.25/default_01_firing.json");
    let read = |text: &str| AlertGroup::from_webhook(text.as_bytes()).unwrap_err();
    let error = read(&body.replace("\"version\":\"4\"", "\"version\":\"5\""));
    assert!(matches!(&error, PayloadError::Version(version) if version == "5"), "{error}");
    assert_eq!(error.to_string(), "payload version is \"5\", expected \"4\" of Alertmanager, or \"1\" of Grafana");
    for broken in ["", "[]", "null", "{}", &body[..body.len() / 2], &body.replace("groupKey", "groupkey")] {
        assert!(matches!(read(broken), PayloadError::Shape(_)), "{broken}");
    }
    let none = r#"{"version":"4","groupKey":"g","status":"firing","alerts":[]}"#;
    assert!(matches!(read(none), PayloadError::Empty));
    let newer = body.replacen('{', "{\"aFieldOfTomorrow\":{\"x\":[1]},", 1);
    assert_eq!(AlertGroup::from_webhook(newer.as_bytes()).unwrap(), group("0.25/default_01_firing"));
}

#[test]
fn every_captured_body_is_read() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/alertmanager");
    let mut read = 0;
    for folder in ["0.25", "0.28", "0.33"] {
        for entry in std::fs::read_dir(root.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let group = AlertGroup::from_webhook(&std::fs::read(&path).unwrap());
            assert!(group.is_ok(), "{}: {group:?}", path.display());
            read += 1;
        }
    }
    assert!(read > 40, "{read}");
}

#[tokio::test]
async fn who_is_on_it_is_kept_once_and_another_may_take_over() {
    let kept = Kept::new().await;
    let opened = kept.admit(group("0.25/grouped_03_firing"), 0).await;
    let before = kept.incident(&opened).await;
    assert_eq!((&before.acknowledged, before.impact), (&None, None));
    assert!(kept.store.acknowledge(&opened.incident, "U1", after(60)).await.unwrap());
    assert!(!kept.store.acknowledge(&opened.incident, "U1", after(61)).await.unwrap());
    assert!(!kept.store.acknowledge("nothing", "U1", after(61)).await.unwrap());
    let incident = kept.incident(&opened).await;
    assert_eq!(incident.acknowledged, Some(Acknowledged { who: "U1".to_owned(), at: after(60) }));
    assert!(kept.store.acknowledge(&opened.incident, "U2", after(62)).await.unwrap());
    let incident = kept.incident(&opened).await;
    assert_eq!(incident.acknowledged, Some(Acknowledged { who: "U2".to_owned(), at: after(62) }));
}

#[tokio::test]
async fn what_it_has_cost_is_kept_of_what_is_over_until_it_fires_again() {
    let kept = Kept::new().await;
    let opened = kept.admit(group("0.25/grouped_03_firing"), 0).await;
    let cost = Impact { requests: Some(1_000.0), ..Impact::default() };
    kept.store.save_impact(&opened.incident, Some(&cost), after(10)).await.unwrap();
    assert_eq!(kept.incident(&opened).await.impact, None, "it is not over");
    kept.admit(group("0.25/grouped_12_firing"), 20).await;
    let over = kept.admit(group("0.25/grouped_14_resolved"), 30).await;
    kept.store.save_impact(&over.incident, Some(&cost), after(31)).await.unwrap();
    assert_eq!(kept.incident(&over).await.impact, Some(cost));
    let again = kept.admit(group("0.25/grouped_03_firing"), 91).await;
    assert_eq!((again.reason, &again.incident), (AdmitReason::Refired, &opened.incident));
    assert_eq!(kept.incident(&again).await.impact, None);
}

#[tokio::test]
async fn a_playbook_stands_against_alerts_that_none_knows_and_replaces_a_screening() {
    let screened = || ("".to_owned(), "the pool is screened".to_owned());
    let known = || ("high-ttft".to_owned(), "its name".to_owned());
    for (first, then) in [(known(), screened()), (screened(), known())] {
        let kept = Kept::new().await;
        let admit = async |selection, name, seconds| {
            let wanted = AdmissionPlan {
                selection: Some(selection),
                sinks: Vec::new(),
                filtered: Vec::new(),
                grace: Duration::ZERO,
                storm: CALM,
            };
            kept.store.admit(&[(group(name), wanted)], after(seconds), &RULES).await.unwrap().remove(0).unwrap()
        };
        admit(first.clone(), "0.25/grouped_03_firing", 0).await;
        admit(first, "0.25/grouped_14_resolved", 30).await;
        let again = admit(then, "0.25/grouped_03_firing", 100).await;
        assert_eq!(again.reason, AdmitReason::Refired);
        let incident = kept.incident(&again).await;
        assert_eq!(incident.playbook.as_deref(), Some("high-ttft"));
        assert_eq!(incident.because.as_deref(), Some("its name"));
    }
}

#[tokio::test]
async fn earlier_incidents_of_the_same_group_are_counted() {
    let kept = Kept::new().await;
    let (hour, mut last) = (3_600, None);
    for i in 0..3 {
        kept.admit(group("0.25/grouped_03_firing"), 10 * hour * i).await;
        kept.admit(group("0.25/grouped_12_firing"), 10 * hour * i + 30).await;
        last = Some(kept.admit(group("0.25/grouped_14_resolved"), 10 * hour * i + 60).await);
    }
    // The first was opened 20 hours before the last, the second 10.
    assert_eq!(kept.incident(&last.unwrap()).await.seen_before, 2);
    kept.admit(group("0.25/grouped_03_firing"), 38 * hour).await;
    let later = kept.admit(group("0.25/grouped_12_firing"), 38 * hour + 30).await;
    assert_eq!(kept.incident(&later).await.seen_before, 1, "older than a day does not count");
}

#[tokio::test]
async fn a_diagnosis_without_its_times_hastens_only_what_can_be_edited_and_gives_way_to_news() {
    let kept = Kept::new().await;
    let diagnosis: Diagnosis = serde_json::from_str(&fixture("diagnoses/longer-prompts.high-ttft.json")).unwrap();
    let sinks = vec![(Sink::Slack, "#a".to_owned()), (Sink::Console, String::new()), (Sink::Pager, "p".to_owned())];
    let selection = Some(("high-ttft".to_owned(), "its name".to_owned()));
    let wanted =
        AdmissionPlan { selection, sinks, filtered: Vec::new(), grace: Duration::from_millis(500), storm: CALM };
    let group = group("0.33/grouped_01_firing");
    let admitted = kept.store.admit(&[(group.clone(), wanted)], after(0), &RULES).await.unwrap().remove(0).unwrap();
    let incident = kept.incident(&admitted).await;
    assert_eq!(kept.store.waiting(after(0), 10).await.unwrap(), []);
    assert!(kept.store.show_diagnosis(&incident, &diagnosis, after(0)).await.unwrap());
    let waiting = kept.store.waiting(after(0), 10).await.unwrap();
    assert!(
        matches!(&waiting[..], [one] if matches!(&one.work, PendingWork::Message(m) if m.sink == Sink::Slack)),
        "{waiting:?}"
    );
    assert_eq!(kept.store.waiting(after(1), 10).await.unwrap().len(), 3, "the others only wait for the times");
    let stale = Incident { revision: incident.revision, ..kept.incident(&admitted).await };
    assert!(!kept.store.show_diagnosis(&stale, &diagnosis, after(1)).await.unwrap(), "the group changed meanwhile");
}

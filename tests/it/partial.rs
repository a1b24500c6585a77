//! Answers about a part of the data: what is seen is judged, what is not seen is not ruled out, and both are said.

mod stores;

use diagnose::health::{HealthQuery, evaluate_fleet};
use diagnose::{diagnose, impact, verify_all};
use findings::health::{Health, HealthState};
use findings::{Diagnosis, Outcome, Request, SymptomVerdict, Verdict};
use prom::{Config, PartialAnswers, Prometheus};
use render::{IncidentView, Phrases, diagnosis_message, incident_message, terminal};

use self::stores::{ANNOTATION, Stores, THANOS};
use crate::chains::{asked, moment};
use crate::harness::{DEADLINE, WINDOW, at, client, library, run, shared, tls};

/// The sick replica of the case `bad-replica`, and a healthy one.
const SICK: &str = "vllm-llama-8b-1";
const WELL: &str = "vllm-llama-8b-3";

fn diagnosed(stores: &Stores, request: &Request) -> Diagnosis {
    by(&client(&stores.serve()), request)
}

fn by(prometheus: &Prometheus, request: &Request) -> Diagnosis {
    run(diagnose(library(), prometheus, request))
}

/// The diagnosis as a terminal and as the message of an incident, line by line.
fn told(diagnosis: &Diagnosis) -> [Vec<String>; 2] {
    let words = Phrases::english();
    let view = IncidentView { diagnosis: Some(diagnosis), because: Some(""), ..IncidentView::default() };
    let messages = [diagnosis_message(diagnosis, None, &words), incident_message(&view, &words)];
    messages.map(|message| {
        let text = anstream::adapter::strip_str(&terminal(&message)).to_string();
        text.lines().map(|line| line.trim().to_owned()).collect()
    })
}

/// The note stands right behind the headline, with the server's words and the store to look at.
#[track_caller]
fn assert_note_first(diagnosis: &Diagnosis, said: &str, look: &str) {
    assert_eq!(diagnosis.problems.iter().filter(|problem| problem.contains("part of the data")).count(), 1);
    for lines in told(diagnosis) {
        let text = lines[1..].iter().map(String::as_str).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
        let note = format!("A part of the data is missing: {said}");
        assert!(text.trim_start_matches("│ ").starts_with(&note), "{text}");
        assert!(text.contains(look) && text.matches(said).count() == 1, "{text}");
    }
}

const SAID: &str = "receive series from Addr: 10.0.0.7:10901 …: rpc error: code = Unavailable";

#[test]
fn a_sick_replica_in_the_missing_part_is_not_taken_for_health() {
    let request = asked("bad-replica", "high-itl");
    let silent = diagnosed(&Stores::without("pod", SICK), &request);
    assert_eq!(silent.symptom.verdict, SymptomVerdict::Absent, "without a warning nobody could know better");
    for screen in [false, true] {
        let request = Request { screen, ..request.clone() };
        let diagnosis = diagnosed(&Stores::without("pod", SICK).warning(THANOS), &request);
        assert_eq!(diagnosis.symptom.verdict, SymptomVerdict::NoData);
        assert!(diagnosis.incomplete.as_deref().unwrap().contains("10.0.0.7:10901") && !diagnosis.degraded);
        assert_note_first(&diagnosis, SAID, "Look first at the store `10.0.0.7:10901`");
        let text = told(&diagnosis).concat().join(" ");
        assert!(
            text.contains("Cannot tell") && !text.contains("Not confirmed") && !text.contains("abnormal in this pool")
        );
    }
    let nameless = Request { screen: true, ..asked("bad-replica", "") };
    let diagnosis = diagnosed(&Stores::without("pod", SICK).flagged(), &nameless);
    assert_eq!(diagnosis.symptom.verdict, SymptomVerdict::NoData);
    assert_note_first(&diagnosis, "not every store answered", "Look first which store does not answer");
}

#[test]
fn what_the_part_that_answered_shows_is_confirmed_with_its_cause_and_the_note_stands_first() {
    for (name, chain) in
        [("longer-prompts", &["high-ttft", "kv-cache-full"][..]), ("stalled-engine", &["engine-stalled"])]
    {
        let request = asked(name, chain[0]);
        // Of a mean of the part, the past of all replicas tells nothing: the chain ends at the mechanism.
        let part = Stores::without("pod", WELL).warning(THANOS).since(moment(name) - 900);
        let diagnosis = diagnosed(&part, &request);
        assert_eq!(diagnosis.symptom.verdict, SymptomVerdict::Confirmed, "{name}");
        let best = diagnosis.root().map(|root| (root.chain.clone(), root.verdict));
        let expected = (chain.iter().map(|id| (*id).to_owned()).collect(), Verdict::Likely);
        assert_eq!(best, Some(expected), "{name}: {:?}", diagnosis.causes);
        assert_note_first(&diagnosis, SAID, "Look first at the store `10.0.0.7:10901`");
        let whole = by(shared(), &request);
        assert!(diagnosis.ruled_out.len() <= whole.ruled_out.len(), "{name}");
        assert_eq!((whole.incomplete.as_deref(), whole.problems.len()), (None, 0), "{name}");
        // A likely cause gives way to another one, and one of a part to whatever all of the data tell.
        let unsettled = Diagnosis { causes: Vec::new(), ..whole.clone() };
        for (old, new, gives_way) in [
            (&whole, &diagnosis, diagnosis.root().is_some_and(|root| !root.fallback)),
            (&diagnosis, &whole, true),
            (&diagnosis, &unsettled, true),
            (&whole, &unsettled, false),
            (&diagnosis, &Diagnosis { degraded: true, ..unsettled.clone() }, false),
        ] {
            assert_eq!(old.gives_way_to(new, false), gives_way, "{name}");
        }
        assert!(!diagnosis.gives_way_to(&unsettled, true), "{name}: evidence fades once alerts end");
    }
}

#[test]
fn a_sick_replica_among_those_seen_is_named_and_what_the_others_would_tell_stays_open() {
    let diagnosis = diagnosed(&Stores::without("pod", WELL).warning(THANOS), &asked("bad-replica", "high-itl"));
    assert_eq!(
        (diagnosis.symptom.verdict, &diagnosis.replicas.affected[..]),
        (SymptomVerdict::Confirmed, &[SICK.to_owned()][..])
    );
    assert!(diagnosis.root().is_some_and(|root| root.verdict == Verdict::Likely && root.chain.len() == 2));
    // That no replica has more to do than it is not known while one is not seen.
    let open = diagnosis.unchecked.iter().find(|open| open.signal == "request_imbalance").unwrap();
    assert!(open.causes.contains(&"bad-replica".to_owned()) && open.why.contains("10.0.0.7:10901"), "{open:?}");
    assert!(!diagnosis.ruled_out.iter().any(|cause| cause.id == "bad-replica"), "{:?}", diagnosis.ruled_out);
    assert_note_first(&diagnosis, SAID, "Look first at the store `10.0.0.7:10901`");
}

#[test]
fn traffic_that_fell_only_because_a_store_is_away_did_not_fall() {
    let now = moment("eight-replicas");
    let request = asked("eight-replicas", "high-ttft");
    let fell = |prometheus: &Prometheus| {
        let when = "< 0.97x baseline".parse().unwrap();
        let (mut results, _) = run(verify_all(library(), prometheus, &request, &[("request_rate", &when)]));
        let result = results.swap_remove(0);
        (result.outcome, result.why)
    };
    let away = Stores::without("pod", WELL).since(now - 900);
    assert_eq!(fell(shared()).0, Outcome::NotMet);
    assert_eq!(fell(&client(&away.serve())).0, Outcome::Met, "without a warning nobody could know better");
    let (outcome, why) = fell(&client(&away.clone().warning(THANOS).serve()));
    assert_eq!(outcome, Outcome::NoData);
    assert!(why.unwrap().starts_with("a part of the data is missing: receive series from Addr: 10.0.0.7:10901"));
    let part = client(&away.warning(THANOS).serve());
    let cost = run(impact(library(), &part, &request.scope, [at(now - 300), at(now)], DEADLINE));
    assert_eq!(cost, None, "requests of a part are no cost");
}

#[test]
fn a_fleet_that_is_missing_as_a_whole_is_not_called_unknown_or_gone() {
    let stores = Stores::without("job", "vllm").warning(THANOS);
    for (playbook, screen) in [("high-ttft", false), ("replica-down", true), ("", true)] {
        let diagnosis = diagnosed(&stores, &Request { screen, ..asked("healthy", playbook) });
        assert_eq!(diagnosis.symptom.verdict, SymptomVerdict::NoData, "{playbook}");
        assert_eq!((&diagnosis.scope.unknown, &diagnosis.scope.data), (&None, &None), "{playbook}");
        assert_note_first(&diagnosis, SAID, "Look first at the store `10.0.0.7:10901`");
        let json = serde_json::to_string(&diagnosis).unwrap();
        assert!(!json.contains("was found in this Prometheus") && !json.contains("in this Prometheus\""), "{json}");
    }
    let diagnosis = diagnosed(&stores, &asked("healthy", "high-ttft"));
    let whys: Vec<&str> = diagnosis.unchecked.iter().map(|open| open.why.as_str()).collect();
    assert!(whys.iter().all(|why| why.contains("part of the data")), "{whys:?}");
    assert!(diagnosis.causes.is_empty(), "{:?}", diagnosis.causes);
}

fn looked(stores: &Stores, name: &str) -> Health {
    let scope = [("namespace".to_owned(), name.to_owned())].into();
    let query = HealthQuery { scope, at: at(moment(name)), window: WINDOW, deadline: DEADLINE };
    let (prometheus, labels) = (client(&stores.serve()), Default::default());
    run(evaluate_fleet(library(), &[(&prometheus, &labels)], &query))
}

#[test]
fn a_pool_that_may_be_partly_unseen_is_never_healthy() {
    let health = looked(&Stores::without("pod", WELL).warning(THANOS), "healthy");
    let [pool] = health.pools.as_slice() else { panic!("{health:?}") };
    assert_eq!((health.state, pool.state), (HealthState::Unknown, HealthState::Unknown));
    assert!(pool.incomplete.as_deref().unwrap().contains("10.0.0.7:10901"));
    assert!(health.problems[0].starts_with("a part of the data is missing: receive series"), "{:?}", health.problems);
    let open = pool.checks.iter().find(|check| check.signal == "kv_cache_peak").unwrap();
    assert_eq!(open.state, Some(HealthState::Unknown));
    assert!(open.value.is_some() && open.why.as_deref().unwrap().contains("a part of the data is missing"), "{open:?}");
    // What is bad in the part that answered is bad.
    let sick = looked(&Stores::without("pod", WELL).warning(THANOS), "lost-replicas");
    assert_eq!(sick.state, HealthState::Critical, "{:?}", sick.pools);
    let nobody = looked(&Stores::without("job", "vllm").warning(THANOS), "healthy");
    assert_eq!(nobody.state, HealthState::Unknown);
    assert!(nobody.problems[0].contains("Pools and replicas may be missing here"), "{:?}", nobody.problems);
    assert!(!nobody.notes.iter().any(|note| note.contains("was found in this Prometheus")), "{:?}", nobody.notes);
}

#[test]
fn what_promql_says_about_a_query_changes_nothing() {
    let request = asked("longer-prompts", "high-ttft");
    let plain = |diagnosis: Diagnosis| Diagnosis { took_seconds: 0.0, queries: 0, ..diagnosis };
    let annotated = plain(diagnosed(&Stores::whole().warning(ANNOTATION), &request));
    assert_eq!(annotated, plain(by(shared(), &request)));
    let annotated = looked(&Stores::whole().warning(ANNOTATION), "healthy");
    assert_eq!((annotated.state, annotated.problems.len()), (HealthState::Healthy, 0));
}

#[test]
fn no_onset_is_claimed_of_a_range_with_a_part_missing() {
    let request = asked("longer-prompts", "high-ttft");
    let whole = by(shared(), &request);
    assert_eq!(whole.timeline.len(), 3);
    let diagnosis = diagnosed(&Stores::without("pod", WELL).warning(THANOS).of_ranges(), &request);
    assert_eq!(diagnosis.timeline, []);
    assert_eq!(diagnosis.root().unwrap().chain, whole.root().unwrap().chain);
    // The hours before give no line either, for they would be of a part of the pool.
    let against_batch = |prometheus: &Prometheus| {
        let when = "> 1.5".parse().unwrap();
        let (mut results, _) = run(verify_all(library(), prometheus, &request, &[("itl_against_batch", &when)]));
        results.swap_remove(0).why.unwrap_or_default()
    };
    let part = client(&Stores::without("pod", WELL).warning(THANOS).of_ranges().serve());
    assert!(against_batch(&part).ends_with("or not completely"), "{}", against_batch(&part));
    assert!(!against_batch(shared()).ends_with("or not completely"), "{}", against_batch(shared()));
}

#[test]
fn warnings_of_a_pair_of_stores_are_only_noted_where_the_configuration_says_so() {
    tls();
    let url = Stores::whole().warning(THANOS).serve();
    let config = Config { url, partial: PartialAnswers::Ignore, ..Config::default() };
    let diagnosis = by(&Prometheus::new(&config).unwrap(), &asked("healthy", "high-ttft"));
    assert_eq!((diagnosis.symptom.verdict, diagnosis.incomplete.as_deref()), (SymptomVerdict::Absent, None));
    assert_eq!(diagnosis.problems, [""; 0]);
    let note = diagnosis.scope.notes.last().unwrap();
    assert!(note.contains("10.0.0.7:10901") && note.ends_with("(ignored: `partial: ignore`)"), "{note}");
}

#[test]
fn a_pack_that_the_server_could_not_answer_is_not_sent_again_query_by_query() {
    let request = asked("healthy", "high-ttft");
    let cortex =
        r#"{"status":"error","errorType":"execution","error":"expanding series: rpc error: code = Unavailable"}"#;
    let mimir = r#"{"status":"error","errorType":"internal","error":"at least 2 live replicas required"}"#;
    let asked_alone = |status: u16, body: &'static str| {
        let stores = Stores::whole().refusing_packs(status, body);
        let diagnosis = diagnosed(&stores, &request);
        assert_eq!(diagnosis.degraded, status >= 500, "{status}");
        let [packs, others] = stores.counts();
        assert!(packs > 1, "{packs}");
        others
    };
    let limit = r#"{"status":"error","errorType":"execution","error":"the query is too large"}"#;
    let split = asked_alone(422, limit);
    for (status, body) in [(500, cortex), (500, mimir), (503, mimir)] {
        let others = asked_alone(status, body);
        assert!(others * 2 < split, "{others} alone, {split} where the query was too large");
    }
}

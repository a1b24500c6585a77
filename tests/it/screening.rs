//! Every alert is diagnosed: one that no playbook knows, and one whose own condition does not hold.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::Request as Question;
use axum::http::{Method, Uri};
use axum::response::{IntoResponse, Response};
use diagnose::health::{Triage, answer};
use diagnose::{ExtraSources, diagnose, observe, plan, queries};
use findings::{AlertCondition, ConditionFound, Diagnosis, Request, Scope, SymptomVerdict, Verdict};
use knowledge::alert::{Alert, Labels};
use knowledge::playbook::Library;
use render::{IncidentView, Phrases, diagnosis_message, incident_message, terminal};

use crate::chains::asked;
use crate::harness::{client, library, run, shared};

/// A case as an alert of it would enter, with its pool screened where the playbook explains nothing.
fn screened(name: &str, playbook: &str) -> Diagnosis {
    judged_by(library(), name, playbook)
}

fn judged_by(library: &Library, name: &str, playbook: &str) -> Diagnosis {
    run(diagnose(library, shared(), &Request { screen: true, ..asked(name, playbook) }))
}

/// The shipped playbooks, of which those that `are` so have no causes.
fn without_causes(are: impl Fn(&str) -> bool) -> Library {
    let mut library = library().clone();
    let without = library.playbooks.values_mut().filter(|playbook| are(&playbook.playbook));
    without.for_each(|playbook| playbook.causes.clear());
    library
}

fn told(diagnosis: &Diagnosis) -> String {
    terminal(&diagnosis_message(diagnosis, None, &Phrases::english()))
}

#[test]
fn an_alert_that_no_playbook_knows_gets_the_cause_all_the_same() {
    for (name, root) in [
        ("longer-prompts", "longer-prompts"),
        ("runaway-generation", "runaway-generation"),
        ("lost-replicas", "crash-loop"),
        ("slot-limit", "limit-lowered"),
    ] {
        let diagnosis = screened(name, "");
        let found = diagnosis.root().map(|root| (root.id.as_str(), root.verdict));
        assert_eq!(found, Some((root, Verdict::Likely)), "{name}: {:?}", diagnosis.symptom);
        assert_eq!(diagnosis.symptom.verdict, SymptomVerdict::Confirmed, "{name}");
        let screening = diagnosis.screening.unwrap();
        assert_eq!((screening.asked, screening.asked_verdict), (None, None), "{name}");
        assert!(!screening.also.contains(&diagnosis.symptom.title), "{name}: {:?}", screening.also);
    }
}

#[test]
fn a_healthy_pool_is_told_to_be_healthy_with_what_was_looked_at() {
    let diagnosis = screened("healthy", "");
    assert_eq!((diagnosis.symptom.verdict, diagnosis.symptom.playbook.as_str()), (SymptomVerdict::Absent, ""));
    assert_eq!((diagnosis.causes.len(), diagnosis.problems.len()), (0, 0), "{:?}", diagnosis.problems);
    let screening = diagnosis.screening.unwrap();
    assert!(screening.looked_at.len() >= 10 && screening.also.is_empty(), "{screening:?}");
    assert!(screening.looked_at.iter().any(|title| title == "high TTFT: first tokens come late"), "{screening:?}");
}

#[test]
fn an_unknown_alert_gets_a_diagnosis_with_its_own_condition_from_the_command_line_too() {
    let own = vec![condition("sum by (namespace) (up) > 0", &[("namespace", &asked_scope())])];
    let answered = |conditions: Vec<AlertCondition>| {
        let request = Request { conditions, screen: true, ..asked("healthy", "") };
        run(answer(library(), (shared(), &Labels::new()), &request, ExtraSources::default()))
    };
    assert!(matches!(answered(Vec::new()), Triage::Quiet(_)), "nobody was alerted");
    let Triage::Found(diagnosis) = answered(own) else { panic!("an alert has an answer of its own") };
    assert_eq!(diagnosis.symptom.verdict, SymptomVerdict::Absent);
    assert!(diagnosis.condition.is_some_and(|found| found.holds), "{:?}", diagnosis.condition);
}

#[test]
fn a_value_close_beyond_a_limit_that_nobody_was_alerted_for_is_mentioned_and_no_symptom() {
    let known = judged_by(library(), "healthy", "high-itl").symptom.evidence[0].value.unwrap();
    let limited = |times: f64| {
        let mut library = library().clone();
        let symptom = &mut library.playbooks.get_mut("high-itl").unwrap().symptom[0].any[0];
        symptom.when = Some(format!("> {}", known * times).parse().unwrap());
        library
    };
    let close = judged_by(&limited(0.8), "healthy", "");
    assert_eq!(close.symptom.verdict, SymptomVerdict::Absent);
    assert!(
        told(&close).contains(
            "Beyond a threshold, but only slightly or as before: high inter-token latency: tokens come slowly"
        ),
        "{}",
        told(&close)
    );
    let far = judged_by(&limited(0.5), "healthy", "");
    assert_eq!((far.symptom.playbook.as_str(), far.symptom.verdict), ("high-itl", SymptomVerdict::Confirmed));
    // Who was alerted for it gets the answer to that alert.
    assert_eq!(judged_by(&limited(0.8), "healthy", "high-itl").symptom.verdict, SymptomVerdict::Confirmed);
}

#[test]
fn an_alert_whose_own_condition_does_not_hold_leads_to_the_symptom_that_does() {
    let diagnosis = screened("longer-prompts", "replica-down");
    assert_eq!(diagnosis.root().unwrap().id, "longer-prompts");
    assert_ne!(diagnosis.symptom.playbook, "replica-down");
    let screening = diagnosis.screening.unwrap();
    assert_eq!(screening.asked.as_deref(), Some("replica-down"));
    assert_eq!(screening.asked_verdict, Some(SymptomVerdict::Absent));
}

#[test]
fn an_alert_that_its_playbook_explains_keeps_its_story_and_hears_what_else_is_abnormal() {
    let diagnosis = screened("longer-prompts", "high-ttft");
    assert_eq!(
        (diagnosis.symptom.playbook.as_str(), diagnosis.root().unwrap().id.as_str()),
        ("high-ttft", "longer-prompts")
    );
    let screening = diagnosis.screening.as_ref().unwrap();
    assert_eq!(screening.asked_verdict, Some(SymptomVerdict::Confirmed));
    assert!(!screening.also.is_empty() && !screening.also.contains(&diagnosis.symptom.title), "{screening:?}");
    let said = terminal(&diagnosis_message(&diagnosis, None, &Phrases::english()));
    assert_eq!(said.matches("Also abnormal here").count(), 1, "{said}");
    assert!(!said.contains("explains more"), "{said}");
}

#[test]
fn a_confirmed_symptom_without_a_cause_goes_on_to_the_others_of_its_pool() {
    // Long prompts also make answers late as a whole; nothing in that playbook alone explains it here.
    let mut blind = library().clone();
    blind.playbooks.get_mut("high-ttft").unwrap().causes.clear();
    let request = Request { screen: true, ..asked("longer-prompts", "high-ttft") };
    let diagnosis = run(diagnose(&blind, shared(), &request));
    assert_eq!(diagnosis.root().unwrap().id, "longer-prompts", "{:?}", diagnosis.screening);
    assert_ne!(diagnosis.symptom.playbook, "high-ttft");
    assert_eq!(diagnosis.screening.unwrap().asked_verdict, Some(SymptomVerdict::Confirmed));
}

fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn condition(expression: &str, alert: &[(&str, &str)]) -> AlertCondition {
    AlertCondition { expression: expression.to_owned(), alerts: [labels(alert)].into() }
}

fn asked_scope() -> String {
    asked("healthy", "high-ttft").scope.dimensions["namespace"].clone()
}

#[test]
fn where_the_alerts_own_value_is_new_no_pool_is_called_quiet() {
    let mut diagnosis = run(diagnose(library(), shared(), &Request { screen: true, ..asked("healthy", "") }));
    assert!(told(&diagnosis).contains("Nothing is abnormal in this pool"), "{}", told(&diagnosis));
    let found = ConditionFound { holds: true, value: Some(139_400.0), usual: Some(400.0), is_new: true };
    diagnosis.condition = Some(found);
    let said = told(&diagnosis);
    assert!(said.contains("The alert's own value has changed") && !said.contains("Nothing is abnormal"), "{said}");
    assert!(said.contains("its value is 139.4k; it was 400 in the hours before."), "{said}");
}

#[test]
fn an_alert_hears_whether_its_own_expression_holds_and_nothing_of_one_that_is_another_servers() {
    let asked = |expression: &str, alert: &[(&str, &str)]| {
        let conditions = vec![condition(expression, alert)];
        let diagnosis = run(diagnose(library(), shared(), &Request { conditions, ..asked("healthy", "high-ttft") }));
        (diagnosis.condition, told(&diagnosis))
    };
    let (found, said) = asked("sum(vllm:num_requests_running) > 1", &[]);
    let found = found.unwrap();
    assert!(found.holds && found.value.is_some_and(|value| value > 1.0), "{found:?}");
    assert!(said.contains("The alert's own expression holds at this time; its value is"), "{said}");
    let namespace = asked_scope();
    let own = ("namespace", namespace.as_str());
    let (found, said) = asked("vllm:num_requests_running < 0", &[own]);
    let own = Some(own);
    assert_eq!(found, Some(ConditionFound { holds: false, value: None, usual: None, is_new: false }));
    assert!(
        said.contains("The alert's own expression does not hold at this time.") && !said.contains("may have ended")
    );
    for (expression, alert) in [
        ("nobodys_metric > 1", own),
        // Another server's, an infinite value, and a part that is not there.
        ("vllm:num_requests_running < 0", None),
        ("vllm:num_requests_running < 0", Some(("namespace", "another-cluster"))),
        ("vllm:num_requests_running > 0", Some(("namespace", "another-cluster"))),
        ("sum(vllm:num_requests_running) / 0 > 5", own),
        ("vllm:num_requests_running < 0 and on (pod) nobodys_metric", own),
        // Nothing that anybody may send to make Prometheus work.
        ("count({__name__=~\".+\"}) > 0", own),
        ("vllm:num_requests_running > ", own),
    ] {
        let (found, said) = asked(expression, &alert.into_iter().collect::<Vec<_>>());
        assert_eq!(found, None, "{expression} {alert:?}");
        assert!(said.contains("it may have ended, or the alert is stricter than this check"), "{said}");
    }
}

#[test]
fn a_sum_over_a_pool_is_about_the_pool_that_its_expression_selects() {
    let selected = |expressions: &[&str], scope: &[(&str, &str)]| {
        let conditions = expressions.iter().map(|expression| condition(expression, &[])).collect();
        let request = Request { conditions, scope: Scope::of_labels(&labels(scope)), ..asked("healthy", "") };
        detect::with_selected_pool(library(), &request).scope.dimensions
    };
    let sum = "sum(rate(vllm:request_success_total{namespace=\"llm\", model_name=~\"a|b\"}[5m])) < 1";
    assert_eq!(selected(&[sum], &[]), labels(&[("namespace", "llm")]));
    assert_eq!(selected(&[sum], &[("namespace", "own")]), labels(&[("namespace", "own")]));
    let wider = format!("{sum} unless on () sum(rate(vllm:request_success_total[5m])) > 100");
    assert_eq!(selected(&[&wider], &[]), Labels::new());
    assert_eq!(selected(&[sum, "sum(vllm:num_requests_running) > 5"], &[]), Labels::new());
    assert_eq!(selected(&[sum, &sum.replace("\"llm\"", "\"chat\"")], &[]), Labels::new());
    assert_eq!(selected(&["max(DCGM_FI_DEV_GPU_TEMP{namespace=\"gpu-operator\"}) > 90"], &[]), Labels::new());
}

#[test]
fn an_alert_on_a_metric_of_an_engine_that_no_signal_reads_is_about_its_pools() {
    let about = |metric: &str| {
        let generator_url = format!("http://prometheus:9090/graph?g0.expr=max({metric})+%3E+1");
        let alert = serde_json::json!({ "status": "firing", "labels": { "alertname": "Odd" }, "startsAt":
            "2026-01-01T00:00:00Z", "endsAt": "0001-01-01T00:00:00Z", "generatorURL": generator_url });
        Scope::of_alerts(&[serde_json::from_value::<Alert>(alert).unwrap()]).is_about_pools(library())
    };
    assert!(about("litellm_redis_daily_spend_update_queue_size") && about("vllm:my_own_recording:p99"));
    assert!(
        !about("node_load1") && !about("inference_requests_of_nobody") && !about("ray_node_mem_used") && !about("up")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_asked_twice_in_one_diagnosis() {
    crate::harness::tls();
    let real = tokio::task::spawn_blocking(|| shared().url.clone()).await.unwrap();
    for (case, playbook) in [("longer-prompts", ""), ("longer-prompts", "replica-down"), ("slot-limit", "high-ttft")] {
        let (url, heard) = recorder(real.clone(), true).await;
        let request = Request { screen: true, ..asked(case, playbook) };
        let diagnosis = diagnose(library(), &client(&url), &request).await;
        assert!(diagnosis.root().is_some(), "{case} {playbook}");
        let heard = heard.lock().unwrap().clone();
        assert_eq!(heard.len(), diagnosis.queries, "{case} {playbook}: every question is counted");
        let mut seen = BTreeSet::new();
        for question in heard.iter().flat_map(questions) {
            assert!(seen.insert(question.clone()), "{case} {playbook}: asked twice: {question:?}");
        }
        assert!(seen.len() > 50, "{}", seen.len());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_that_prometheus_has_not_are_not_asked_for_and_where_it_does_not_tell_all_are() {
    crate::harness::tls();
    let real = tokio::task::spawn_blocking(|| shared().url.clone()).await.unwrap();
    let (mut told, mut asked_for) = (Vec::new(), Vec::new());
    for tells_names in [true, false] {
        let (url, heard) = recorder(real.clone(), tells_names).await;
        // The wait for the names is a part of the deadline.
        let request = Request { deadline: Duration::from_secs(120), ..asked("longer-prompts", "high-ttft") };
        let diagnosis = diagnose(library(), &client(&url), &request).await;
        asked_for.push(heard.lock().unwrap().iter().map(|(_, body)| body.len()).sum::<usize>());
        told.push(serde_json::to_value(Diagnosis { queries: 0, took_seconds: 0.0, ..diagnosis }).unwrap());
    }
    // The fleets of this Prometheus have most of the metrics.
    assert!(asked_for[0] < asked_for[1], "{asked_for:?} characters");
    assert_eq!(told[0], told[1]);
}

#[test]
fn a_plan_asks_for_no_histogram_twice() {
    let found = run(observe(library(), shared(), &asked("longer-prompts", "high-ttft"), None)).detection;
    let (mut asked_for, mut sums) = (0, 0);
    for playbook in library().playbooks.keys() {
        let plan = plan(library(), &asked("longer-prompts", playbook), &found);
        let told = plan.queries.iter().filter(|ask| ask.query.contains("_bucket")).count();
        let mut summed = BTreeSet::new();
        for (query, at) in queries(&plan).iter().filter(|(query, _)| query.contains("_bucket")) {
            let (by, of) = query.strip_prefix("sum by (").and_then(|sum| sum.split_once(") (")).unwrap();
            assert!(by.split(", ").any(|label| label == "le"), "{playbook}: {query}");
            assert!(summed.insert((of.to_owned(), *at)), "{playbook}: asked twice: {query}");
        }
        asked_for += told;
        sums += summed.len();
    }
    assert!(sums < asked_for, "{asked_for} questions about histograms became {sums} sums");
}

/// The single questions of a request, each with its path and time.
fn questions((path, body): &(String, String)) -> Vec<(String, String)> {
    let form: BTreeMap<String, String> = url::form_urlencoded::parse(body.as_bytes()).into_owned().collect();
    let when = ["time", "start", "end"].map(|key| form.get(key).cloned().unwrap_or_default()).concat();
    let pack = |text: &str| text.contains("llm_diagnose_ask").then(|| text.trim_start_matches('(').to_owned());
    let marked = |text: &str| match pack(text).as_deref().and_then(|text| text.strip_prefix("label_replace(")) {
        Some(inner) => inner.rsplit_once(", \"llm_diagnose_ask\"").unwrap().0.to_owned(),
        None => text.to_owned(),
    };
    form["query"].split("\nor\n").map(|text| (format!("{path} {when}"), marked(text))).collect()
}

/// Stands before a Prometheus and writes down its queries: path and body. It need not tell the names of its metrics.
async fn recorder(real: String, tells_names: bool) -> (String, Arc<Mutex<Vec<(String, String)>>>) {
    let heard: Arc<Mutex<Vec<(String, String)>>> = Arc::default();
    let (kept, http) = (Arc::clone(&heard), reqwest::Client::new());
    let pass = move |method: Method, uri: Uri, body: String| {
        let (kept, http, real) = (Arc::clone(&kept), http.clone(), real.clone());
        async move {
            if method == Method::GET {
                let path = if tells_names { uri.to_string() } else { "/nothing".to_owned() };
                let answer = http.get(format!("{real}{path}")).send().await.unwrap();
                return (answer.status(), [("content-type", "application/json")], answer.bytes().await.unwrap());
            }
            kept.lock().unwrap().push((uri.path().to_owned(), body.clone()));
            let sent = http.post(format!("{real}{}", uri.path()));
            let sent = sent.header("content-type", "application/x-www-form-urlencoded").body(body).send();
            let answer = sent.await.unwrap();
            (answer.status(), [("content-type", "application/json")], answer.bytes().await.unwrap())
        }
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, axum::Router::new().fallback(pass)).await });
    (url, heard)
}

#[test]
fn a_symptom_with_a_cause_is_told_beside_an_own_one_without_and_is_no_more_than_possible() {
    let diagnosis = judged_by(&without_causes(|id| id == "high-ttft"), "longer-prompts", "high-ttft");
    let root = diagnosis.root().unwrap();
    assert_ne!(diagnosis.symptom.playbook, "high-ttft");
    assert_eq!((root.id.as_str(), root.verdict), ("longer-prompts", Verdict::Possible), "{:?}", root.chain);
    let screening = diagnosis.screening.as_ref().unwrap();
    assert_eq!(screening.asked_verdict, Some(SymptomVerdict::Confirmed));
    assert!(!screening.also.contains(screening.asked_title.as_ref().unwrap()), "said already: {screening:?}");
    assert!(told(&diagnosis).contains("another one explains more"), "{}", told(&diagnosis));
}

#[test]
fn a_symptom_that_is_there_does_not_give_way_to_another_one_without_a_cause() {
    let mut library = without_causes(|_| true);
    // The others page; this one only describes a state.
    library.playbooks.get_mut("queue-buildup").unwrap().alerts.clear();
    let diagnosis = judged_by(&library, "longer-prompts", "queue-buildup");
    assert_eq!(diagnosis.symptom.playbook, "queue-buildup");
    assert_eq!((diagnosis.symptom.verdict, diagnosis.root()), (SymptomVerdict::Confirmed, None));
    let also = &diagnosis.screening.as_ref().unwrap().also;
    assert!(also.contains(&"high TTFT: first tokens come late".to_owned()), "{also:?}");
    assert!(!told(&diagnosis).contains("explains more"), "{}", told(&diagnosis));
}

#[test]
fn an_alert_of_another_job_is_no_alert_of_every_pool() {
    let of = |playbook: &str, labels: &[(&str, &str)]| {
        let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let scope = Scope::of_labels(&labels);
        run(diagnose(library(), shared(), &Request { scope, screen: true, ..asked("longer-prompts", playbook) }))
    };
    let foreign = [("job", "node-exporter"), ("instance", "n1:9100")];
    let nobodys = of("", &foreign);
    assert_eq!((nobodys.symptom.playbook.as_str(), nobodys.symptom.verdict), ("", SymptomVerdict::NoData));
    assert_eq!((nobodys.causes.len(), &nobodys.screening), (0, &None));
    assert!(told(&nobodys).contains("its labels name no pool") && !told(&nobodys).contains("this pool"));
    let known = of("gpu-fault", &foreign);
    assert_eq!((known.symptom.playbook.as_str(), &known.screening), ("gpu-fault", &None));
    // The job of what serves is a pool's name, and so is a namespace beside another job.
    let engines = of("", &[("job", "vllm")]);
    assert_eq!(engines.symptom.verdict, SymptomVerdict::Confirmed);
    let beside = of("", &[("job", "kube-state-metrics"), ("namespace", "longer-prompts")]);
    assert_eq!(beside.root().unwrap().id, "longer-prompts");
}

/// A Prometheus that answers so many questions from the shared one, and is away then.
async fn ending(after: usize) -> (String, Arc<AtomicUsize>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (asked, http) = (Arc::new(AtomicUsize::new(0)), reqwest::Client::new());
    let counted = Arc::clone(&asked);
    let answer = move |question: Question| async move {
        if counted.fetch_add(1, Ordering::SeqCst) >= after {
            return axum::http::StatusCode::SERVICE_UNAVAILABLE.into_response();
        }
        let (head, body) = question.into_parts();
        let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
        let to = format!("{}{}", shared().url, head.uri);
        let kind = head.headers.get("content-type").cloned();
        let asking = kind.into_iter().fold(http.request(head.method, to), |ask, kind| ask.header("content-type", kind));
        let answer = asking.body(body).send().await.unwrap();
        let status = answer.status();
        let json = [("content-type", "application/json")];
        (status, json, answer.bytes().await.unwrap()).into_response() as Response
    };
    tokio::spawn(async move { axum::serve(listener, Router::new().fallback(answer)).await });
    (url, asked)
}

#[test]
fn a_screening_that_prometheus_did_not_answer_is_not_told_as_a_quiet_pool() {
    let _ = shared();
    let own = asked("longer-prompts", "gpu-fault");
    let looked = |after: usize, request: Request| {
        run(async move {
            let (url, asked) = ending(after).await;
            let diagnosis = diagnose(library(), &client(&url), &request).await;
            (diagnosis, asked.load(Ordering::SeqCst))
        })
    };
    // The onsets' questions are the last.
    let (alone, n) = looked(usize::MAX, own.clone());
    assert_eq!(alone.symptom.verdict, SymptomVerdict::Absent);
    let (late, _) = looked(n, Request { screen: true, ..own });
    assert_eq!((late.symptom.playbook.as_str(), late.symptom.verdict), ("gpu-fault", SymptomVerdict::Absent));
    assert!(late.degraded && !late.problems.is_empty() && late.queries > alone.queries, "{late:#?}");
    assert!(!told(&late).contains("Nothing is abnormal"), "{}", told(&late));
}

#[test]
fn a_screening_in_part_is_told_as_such() {
    let mut part = screened("healthy", "");
    assert!(told(&part).contains("Nothing is abnormal in this pool"), "{}", told(&part));
    part.degraded = true;
    part.symptom.verdict = SymptomVerdict::NoData;
    part.problems = vec!["3 of 9 queries timed out".to_owned()];
    let told = told(&part);
    assert!(told.contains("not all symptoms of this pool could be checked, because 3 of 9 queries"), "{told}");
    assert!(!told.contains("Nothing is abnormal"), "{told}");
}

#[test]
fn a_message_about_a_quiet_pool_says_that_no_playbook_knows_its_alert() {
    let told = |diagnosis: &Diagnosis| {
        let because = Some("the pool is screened");
        let view = IncidentView { diagnosis: Some(diagnosis), because, ..IncidentView::default() };
        terminal(&incident_message(&view, &Phrases::english()))
    };
    let unknown = told(&screened("healthy", ""));
    assert!(unknown.contains("No playbook knows this alert") && unknown.contains("Nothing is abnormal"), "{unknown}");
    let known = told(&screened("healthy", "high-ttft"));
    assert!(!known.contains("No playbook knows"), "{known}");
}

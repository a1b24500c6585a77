//! Engines' own endpoints: what they tell is read, nothing else is ever asked of them, and whatever they do instead of
//! answering is a sentence.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use findings::ExporterTarget;
use findings::endpoint::{AnswerBody, EndpointAnswer, EndpointInfo, read};
use knowledge::signal::endpoint::shown;
use llm_diagnose_lab::sources::{FakeEngine, Manner, Request};
use sources::endpoint::{TARGETS_MOST, request_endpoints};
use sources::exporter::{Allowed, ExporterReader};

use crate::harness::{library, tls};

fn reader(allow: &[&str]) -> ExporterReader {
    tls();
    let allow: Vec<Allowed> = allow.iter().map(|entry| Allowed::try_from((*entry).to_owned()).unwrap()).collect();
    ExporterReader::new(&allow).unwrap()
}

fn target(engine: &str, url: &str, pod: &str) -> ExporterTarget {
    let labels = [("pod".to_owned(), pod.to_owned())].into();
    ExporterTarget { engine: engine.to_owned(), url: url.to_owned(), labels, seen: None }
}

async fn asked(targets: &[ExporterTarget]) -> Vec<EndpointAnswer> {
    within(targets, Duration::from_secs(20)).await
}

async fn within(targets: &[ExporterTarget], time: Duration) -> Vec<EndpointAnswer> {
    request_endpoints(&reader(&["127.0.0.0/8"]), library(), targets, Instant::now() + time).await
}

fn told(answers: &[EndpointAnswer]) -> EndpointInfo {
    let mut told = EndpointInfo::default();
    answers.iter().for_each(|answer| told.add(read(library(), answer)));
    told
}

fn said<'a>(answers: &'a [EndpointAnswer], path: &str) -> &'a AnswerBody {
    &answers.iter().find(|answer| answer.path == path).unwrap_or_else(|| panic!("{path} in {answers:#?}")).said
}

fn nothing(why: &str) -> AnswerBody {
    AnswerBody::Nothing(why.to_owned())
}

/// Only GETs, only of what the engine's file lists and of its metrics, without anything that could be a credential.
#[track_caller]
fn harmless(engine: &str, requests: &[Request]) {
    let listed: BTreeSet<&str> =
        library().engines[engine].endpoints.iter().flat_map(|endpoint| endpoint.paths()).chain(["/metrics"]).collect();
    assert!(!requests.is_empty());
    for request in requests {
        assert_eq!(request.method, "GET", "{request:?}");
        assert!(listed.contains(request.path.as_str()), "{request:?}");
        for name in ["authorization", "cookie", "x-api-key", "proxy-authorization"] {
            assert_eq!(request.header(name), None, "{request:?}");
        }
    }
}

#[tokio::test]
async fn vllm_tells_its_version_its_models_and_in_development_its_settings_but_no_secret() {
    let fake = FakeEngine::vllm_in_development().await.unwrap();
    let answers = asked(&[target("vllm", &fake.metrics(), "llama-0")]).await;
    let told = told(&answers);
    assert_eq!(told.versions, [("vllm".to_owned(), "0.33.0".to_owned())]);
    assert_eq!(told.models, ["llama", "llama-sql"]);
    assert_eq!(told.weights, ["/adapters/sql", "meta-llama/Llama-3.1-8B-Instruct"]);
    for (name, value) in [("max_num_seqs", "256"), ("gpu_memory_utilization", "0.92"), ("max_model_len", "131072")] {
        assert_eq!(told.settings.get(name).map(String::as_str), Some(value), "{:?}", told.settings);
    }
    assert!(!told.settings.values().any(|value| value.contains("planted")), "{:?}", told.settings);
    assert_eq!(said(&answers, "/health"), &AnswerBody::Text("HTTP 200".to_owned()));
    assert!(
        matches!(said(&answers, "/metrics"), AnswerBody::Text(page) if page.starts_with("vllm:num_requests_running"))
    );
    assert!(answers.iter().all(|answer| answer.target == "llama-0" && !answer.is_trouble()), "{answers:#?}");
    harmless("vllm", &fake.requests());
}

#[tokio::test]
async fn a_path_that_a_version_does_not_have_is_no_trouble() {
    let fake = FakeEngine::vllm().await.unwrap();
    let answers = asked(&[target("vllm", &fake.metrics(), "llama-0")]).await;
    assert_eq!(said(&answers, "/server_info"), &nothing("has no such path (HTTP 404)"));
    assert!(answers.iter().all(|answer| !answer.is_trouble()));
}

#[tokio::test]
async fn sglang_is_read_by_its_newer_and_its_older_names_and_never_made_to_generate() {
    for (fake, path) in [
        (FakeEngine::sglang().await.unwrap(), "/server_info"),
        (FakeEngine::sglang_of_old().await.unwrap(), "/get_server_info"),
    ] {
        let answers = asked(&[target("sglang", &fake.metrics(), "qwen-0")]).await;
        assert!(matches!(said(&answers, path), AnswerBody::Json(_)));
        let told = told(&answers);
        assert_eq!(told.versions, [("sglang".to_owned(), "0.5.23".to_owned())]);
        assert_eq!((told.models, told.weights), (vec!["qwen".to_owned()], vec!["Qwen/Qwen3-32B".to_owned()]));
        assert_eq!(told.settings["chunked_prefill_size"], "8192");
        assert_eq!(told.settings["disable_radix_cache"], "false");
        assert!(!told.settings.contains_key("api_key"));
        let requests = fake.requests();
        harmless("sglang", &requests);
        assert!(!requests.iter().any(|request| request.path.starts_with("/health")), "{requests:?}");
    }
}

#[tokio::test]
async fn what_wants_a_key_says_so_and_litellm_s_models_are_never_called() {
    let fake = FakeEngine::litellm().await.unwrap();
    let answers = asked(&[target("litellm", &fake.metrics(), "proxy-0")]).await;
    for path in ["/v1/models", "/model/info"] {
        assert_eq!(said(&answers, path), &nothing("wants a key; none was sent (HTTP 401)"));
    }
    assert_eq!(told(&answers).versions, [("litellm".to_owned(), "1.83.0".to_owned())]);
    // Its page is elsewhere, by a redirect.
    assert_eq!(
        said(&answers, "/metrics"),
        &nothing("answered with a redirect, which is not followed: it may lead anywhere")
    );
    harmless("litellm", &fake.requests());
}

#[tokio::test]
async fn whatever_it_does_instead_of_answering_is_a_sentence_and_in_time() {
    for (manner, sentence) in [
        (Manner::Status(500, "<b>oops</b>\n\u{1b}[31m".to_owned()), "answered HTTP 500: <b>oops</b> [31m"),
        (Manner::Status(503, String::new()), "answered HTTP 503"),
        (Manner::Status(403, String::new()), "wants a key; none was sent (HTTP 403)"),
        (Manner::Garbage, "answered with 6 bytes that are no text"),
        (Manner::Login, "answered with a web page: another program listens there, or a login page is in front of it"),
        (Manner::Huge(100 << 20), "sent more than 2 MiB"),
        (Manner::Hang, "took the connection and did not answer in time"),
        (Manner::Drip, "took the connection and did not answer in time"),
    ] {
        let fake = FakeEngine::vllm().await.unwrap();
        fake.behave(manner.clone());
        let started = Instant::now();
        let answers = asked(&[target("vllm", &fake.metrics(), "llama-0")]).await;
        assert_eq!(said(&answers, "/version"), &nothing(sentence), "{manner:?}");
        assert!(started.elapsed() < Duration::from_secs(9), "{manner:?} took {:?}", started.elapsed());
        assert!(answers.iter().all(|answer| matches!(answer.said, AnswerBody::Nothing(_))), "{answers:#?}");
        harmless("vllm", &fake.requests());
    }
    let fake = FakeEngine::vllm().await.unwrap();
    fake.behave_at("/version", Manner::Cut);
    let answers = asked(&[target("vllm", &fake.metrics(), "llama-0")]).await;
    let AnswerBody::Nothing(why) = said(&answers, "/version") else { panic!("{answers:?}") };
    assert!(why.starts_with("answered with JSON that cannot be read: EOF while parsing"), "{why}");
}

#[tokio::test]
async fn one_that_is_away_or_hangs_is_left_alone_and_the_others_answer() {
    let (hangs, fine) = (FakeEngine::vllm().await.unwrap(), FakeEngine::vllm().await.unwrap());
    hangs.behave(Manner::Hang);
    let away = FakeEngine::vllm().await.unwrap().stop().await;
    let targets = [
        target("vllm", &hangs.metrics(), "hangs"),
        target("vllm", &format!("{away}/metrics"), "away"),
        target("vllm", &fine.metrics(), "fine"),
    ];
    let answers = asked(&targets).await;
    let of = |pod: &str| answers.iter().filter(|a| a.target == pod).cloned().collect::<Vec<_>>();
    assert_eq!(said(&of("away"), "/version"), &nothing("refuses connections"));
    assert_eq!(said(&of("away"), "/v1/models"), &nothing("was not asked: it refuses connections"));
    assert_eq!(said(&of("hangs"), "/v1/models"), &nothing("took the connection and did not answer in time"));
    assert_eq!(
        said(&of("hangs"), "/load"),
        &nothing("was not asked: it took the connection and did not answer in time")
    );
    assert_eq!(hangs.requests().len(), 2);
    assert_eq!(told(&of("fine")).models, ["llama", "llama-sql"]);
}

#[tokio::test]
async fn redirects_are_followed_nowhere_least_of_all_to_metadata() {
    let elsewhere = FakeEngine::vllm().await.unwrap();
    for to in [format!("{}/version", elsewhere.url), "http://169.254.169.254/latest/meta-data/".to_owned()] {
        let fake = FakeEngine::vllm().await.unwrap();
        fake.behave(Manner::Redirect(to));
        let answers = asked(&[target("vllm", &fake.metrics(), "llama-0")]).await;
        assert_eq!(
            said(&answers, "/version"),
            &nothing("answered with a redirect, which is not followed: it may lead anywhere")
        );
    }
    assert_eq!(elsewhere.requests(), []);
}

#[tokio::test]
async fn only_allowed_addresses_are_asked_and_no_user_of_an_address_is_sent() {
    let fake = FakeEngine::vllm().await.unwrap();
    let port = fake.url.rsplit(':').next().unwrap().to_owned();
    let deadline = Instant::now() + Duration::from_secs(20);
    let targets = [target("vllm", &fake.metrics(), "llama-0"), target("sglang", "http://169.254.169.254/metrics", "x")];
    let answers = request_endpoints(&reader(&["10.0.0.0/8", "169.254.0.0/16"]), library(), &targets, deadline).await;
    for answer in &answers {
        let AnswerBody::Nothing(why) = &answer.said else { panic!("{answer:?}") };
        assert!(why.contains("has an address that may not be read"), "{answer:?}");
    }
    // Names are checked where they are resolved.
    let named = [target("vllm", &format!("http://localhost:{port}/metrics"), "llama-0")];
    let answers = request_endpoints(&reader(&["10.0.0.0/8"]), library(), &named, deadline).await;
    assert!(
        matches!(said(&answers, "/version"), AnswerBody::Nothing(why) if why.contains("may not be read")),
        "{answers:?}"
    );
    let with_user = [target("vllm", &format!("http://admin:planted@127.0.0.1:{port}/metrics"), "llama-0")];
    let answers = request_endpoints(&reader(&["127.0.0.0/8"]), library(), &with_user, deadline).await;
    assert!(answers.iter().all(|answer| matches!(answer.said, AnswerBody::Nothing(_))), "{answers:?}");
    assert!(!format!("{answers:?}").contains("planted"), "{answers:?}");
    assert_eq!(fake.requests(), []);
}

#[tokio::test]
async fn few_replicas_are_asked_and_fewer_hand_over_their_page() {
    let fake = FakeEngine::vllm().await.unwrap();
    let targets: Vec<ExporterTarget> =
        (0..100).map(|i| target("vllm", &format!("{}?{i}", fake.metrics()), &format!("llama-{i}"))).collect();
    let answers = asked(&targets).await;
    let pods: BTreeSet<&str> = answers.iter().map(|answer| answer.target.as_str()).collect();
    assert_eq!(pods.len(), TARGETS_MOST);
    assert!(pods.contains("llama-0") && !pods.contains("llama-99"));
    assert_eq!(answers.iter().filter(|answer| answer.path == "/metrics").count(), 4);
    // A query of the metrics' address does not come along to other paths.
    let queries = fake.requests().into_iter().filter(|request| request.path.contains('?'));
    assert!(queries.clone().all(|r| ["/metrics", "/server_info"].contains(&shown(&r.path))), "{queries:?}");
}

#[tokio::test]
async fn a_deadline_that_is_over_ends_it() {
    let fake = FakeEngine::vllm().await.unwrap();
    fake.behave(Manner::Hang);
    let started = Instant::now();
    let targets: Vec<ExporterTarget> =
        (0..40).map(|i| target("vllm", &format!("{}?{i}", fake.metrics()), "x")).collect();
    let answers = within(&targets, Duration::from_secs(2)).await;
    // Without it, two requests would time out after 3 s each.
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    assert!(answers.iter().any(|answer| answer.said == nothing("was not asked: the time was up")), "{answers:#?}");
}

#[tokio::test]
async fn many_large_answers_do_not_add_up_without_bound() {
    let fake = FakeEngine::vllm().await.unwrap();
    fake.behave(Manner::Huge(1 << 20));
    let targets: Vec<ExporterTarget> =
        (0..8).map(|i| target("vllm", &format!("{}?{i}", fake.metrics()), "x")).collect();
    let answers = asked(&targets).await;
    let kept = answers.iter().filter(|answer| matches!(answer.said, AnswerBody::Json(_))).count();
    assert!((1..=6).contains(&kept), "{kept}");
    assert!(answers.iter().any(|a| matches!(&a.said, AnswerBody::Nothing(why) if why.starts_with("was left out"))));
}

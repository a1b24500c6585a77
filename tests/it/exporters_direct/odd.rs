//! Exporters that cannot be read, or say what cannot be: each is named with its reason, and nobody is blamed.

use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Redirect};
use axum::routing::get;
use findings::{Diagnosis, SymptomVerdict};
use sources::exporter::{Allowed, ExporterReader};

use super::{NOWHERE, asked, diagnosed, exporters, page, serve, showing, target};

/// What is said of exporters.
fn remarks(diagnosis: &Diagnosis) -> String {
    let direct = diagnosis.direct.as_ref().unwrap();
    direct.remarks.iter().map(|r| format!("{} {}\n", r.exporter, r.what)).collect()
}

/// The symptom stays open, nobody is blamed, and the sentence is there.
#[track_caller]
fn says_only(diagnosis: &Diagnosis, sentence: &str) {
    let said = remarks(diagnosis);
    assert!(said.contains(sentence), "`{sentence}` is not in: {said}");
    assert_eq!(diagnosis.symptom.verdict, SymptomVerdict::NoData, "{said}");
    assert!(diagnosis.causes.is_empty(), "{:?}", diagnosis.causes);
}

#[tokio::test]
async fn an_exporter_that_hangs_is_slow_and_not_dead() {
    let routes = Router::new().route("/metrics", get(std::future::pending::<()>));
    let diagnosis = diagnosed("replica-down", vec![target("vllm", &serve(routes).await, "llama-0")]).await;
    says_only(&diagnosis, "llama-0 took the connection and did not answer in time");
}

#[tokio::test]
async fn many_hanging_exporters_do_not_outlast_the_deadline_and_too_many_are_left_out() {
    let routes = Router::new().route("/metrics", get(std::future::pending::<()>));
    let url = serve(routes).await;
    let targets = (0..80).map(|i| target("vllm", &format!("{url}/metrics?{i}#"), &format!("llama-{i}"))).collect();
    let diagnosis = diagnosed("replica-down", targets).await;
    says_only(&diagnosis, "did not answer in time");
    let direct = diagnosis.direct.unwrap();
    assert_eq!((direct.engines, direct.engines_known, direct.left_out), (0, 64, 16));
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let elsewhere = showing(page("0.99", "41", "100"), page("0.99", "41", "130")).await;
    let away = Redirect::temporary(&format!("{elsewhere}/metrics"));
    let routes = Router::new().route("/metrics", get(move || async move { away.clone() }));
    let diagnosis = diagnosed("kv-cache-pressure", vec![target("vllm", &serve(routes).await, "llama-0")]).await;
    says_only(&diagnosis, "answered with a redirect, which is not followed");
}

#[tokio::test]
async fn a_page_of_100_megabytes_is_not_swallowed() {
    let line = "vllm:kv_cache_usage_perc{model_name=\"llama\"} 0.99\n";
    let body = line.repeat((100 << 20) / line.len());
    let routes = Router::new().route("/metrics", get(move || async move { body.clone() }));
    let diagnosis = diagnosed("kv-cache-pressure", vec![target("vllm", &serve(routes).await, "llama-0")]).await;
    says_only(&diagnosis, "llama-0 sent more than 16 MiB");
}

#[tokio::test]
async fn what_is_no_page_of_metrics_blames_nobody() {
    let kv = "vllm:kv_cache_usage_perc{model_name=\"llama\"} 0.99\n";
    for (body, sentence) in [
        ("<!DOCTYPE html><html>Log in</html>\n".to_owned(), "did not send metrics: line 1 is no sample: `<!DOCTYPE"),
        ("\u{1}\u{2} garbage = }{\n".to_owned(), "did not send metrics: line 1 is no sample"),
        (String::new(), "there is no series `vllm:num_requests_running`, so it is no vllm"),
        (format!("{kv}{kv}vllm:num_requ"), "the page breaks off within a line"),
        (kv.to_owned(), "there is no series `vllm:num_requests_running`"),
    ] {
        let url = showing(body.clone(), body).await;
        let diagnosis = diagnosed("kv-cache-pressure", vec![target("vllm", &url, "llama-0")]).await;
        says_only(&diagnosis, sentence);
    }
    let bytes = Router::new().route("/metrics", get(|| async { vec![b'v', 0xff, 0xfe, b'\n'] }));
    let diagnosis = diagnosed("kv-cache-pressure", vec![target("vllm", &serve(bytes).await, "llama-0")]).await;
    says_only(&diagnosis, "the page is no UTF-8 text");
}

#[tokio::test]
async fn refused_pages_are_not_dead_replicas() {
    let routes = Router::new().route("/metrics", get(|| async { StatusCode::UNAUTHORIZED.into_response() }));
    let diagnosis = diagnosed("replica-down", vec![target("vllm", &serve(routes).await, "llama-0")]).await;
    says_only(&diagnosis, "llama-0 answered HTTP 401");
}

#[tokio::test]
async fn nobody_is_dead_whom_we_have_no_way_to() {
    // A name that cannot exist fails before anybody is asked for it.
    let name = "a".repeat(70);
    let mut known = exporters(vec![target("vllm", &format!("http://{name}:8000"), "llama-0")]);
    known.reader = ExporterReader::new(&[Allowed::try_from(name).unwrap()]).unwrap();
    let alone = asked("replica-down", NOWHERE, &known).await;
    says_only(&alone, "llama-0 cannot be reached");
    // Beside one that answers it is gone.
    let url = showing(page("0.1", "0", "1"), page("0.1", "0", "1")).await;
    known.targets.push(target("vllm", &url, "llama-1"));
    known.reader =
        ExporterReader::new(&["a".repeat(70), "127.0.0.1".to_owned()].map(|a| Allowed::try_from(a).unwrap())).unwrap();
    let beside = asked("replica-down", NOWHERE, &known).await;
    assert_eq!(beside.symptom.verdict, SymptomVerdict::Confirmed);
    assert_eq!((beside.replicas.affected, beside.replicas.total), (vec!["llama-0".to_owned()], 2));
}

#[tokio::test]
async fn numbers_that_cannot_be_tell_nothing() {
    for kv in ["NaN", "+Inf", "-1"] {
        let url = showing(page(kv, "41", "100"), page(kv, "41", "100")).await;
        let diagnosis = diagnosed("kv-cache-pressure", vec![target("vllm", &url, "llama-0")]).await;
        says_only(&diagnosis, "llama-0 has no usable number in `vllm:kv_cache_usage_perc`");
    }
    let url = showing(page("0.5", "0", "-1e300"), page("0.5", "0", "-1")).await;
    let diagnosis = diagnosed("preemption-storm", vec![target("vllm", &url, "llama-0")]).await;
    says_only(&diagnosis, "llama-0 has no usable number in `vllm:num_preemptions_total`");
}

#[tokio::test]
async fn a_counter_that_fell_between_the_reads_tells_nothing() {
    let url = showing(page("0.99", "0", "1000"), page("0.99", "0", "900")).await;
    let diagnosis = diagnosed("preemption-storm", vec![target("vllm", &url, "llama-0")]).await;
    says_only(&diagnosis, "llama-0 started anew between the two reads, so its counters tell nothing");
}

#[tokio::test]
async fn a_quantile_of_a_handful_of_requests_tells_nothing() {
    let ttft = |count: u32| {
        let labels = "model_name=\"llama\"";
        format!(
            "vllm:num_requests_running{{{labels}}} 1\n\
             vllm:time_to_first_token_seconds_bucket{{{labels},le=\"1\"}} 100\n\
             vllm:time_to_first_token_seconds_bucket{{{labels},le=\"10\"}} {count}\n\
             vllm:time_to_first_token_seconds_bucket{{{labels},le=\"+Inf\"}} {count}\n"
        )
    };
    let few = showing(ttft(100), ttft(109)).await;
    let diagnosis = diagnosed("high-ttft", vec![target("vllm", &few, "llama-0")]).await;
    assert_eq!(diagnosis.symptom.verdict, SymptomVerdict::NoData);
    let enough = showing(ttft(100), ttft(150)).await;
    let diagnosis = diagnosed("high-ttft", vec![target("vllm", &enough, "llama-0")]).await;
    assert_eq!(diagnosis.symptom.verdict, SymptomVerdict::Confirmed, "{diagnosis:#?}");
}

#[tokio::test]
async fn a_compressed_page_counts_by_what_it_unpacks_to() {
    // 20 MiB of newlines in 20 KiB.
    let packed = gzip_of_newlines(20 << 20);
    assert!(packed.len() < 1 << 20);
    let routes = Router::new()
        .route("/metrics", get(move || async move { ([(header::CONTENT_ENCODING, "gzip")], packed.clone()) }));
    let diagnosis = diagnosed("kv-cache-pressure", vec![target("vllm", &serve(routes).await, "llama-0")]).await;
    says_only(&diagnosis, "llama-0 sent more than 16 MiB");
}

fn gzip_of_newlines(bytes: usize) -> Vec<u8> {
    let make = format!("head -c {bytes} /dev/zero | tr '\\0' '\\n' | gzip");
    let output = std::process::Command::new("sh").args(["-c", &make]).output().unwrap();
    assert!(output.status.success());
    output.stdout
}

//! Two saved pages, or a benchmark's record of many, without Prometheus: what the product says of public reports of failing
//! servers, of gateways whose fault is known, and of what the pages do not tell.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use sources::exporter::{BenchmarkError, Sample, no_pages, read_line};

use crate::running::BINARY;

fn diagnose(pages: &[&str]) -> Output {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/reports");
    let mut command = Command::new(BINARY);
    command.current_dir(directory).env_remove("PROMETHEUS_URL").arg("diagnose").args(pages);
    command.args(["--apart", "60s", "--output", "json"]).output().unwrap()
}

/// The links of the best chain, from the symptom to the root.
fn chain(report: &str) -> Vec<String> {
    let pages = ["first", "second"].map(|which| format!("{report}-{which}.prom"));
    let output = diagnose(&[&pages[0], &pages[1]]);
    let diagnosis: Value = serde_json::from_slice(&output.stdout).unwrap();
    let chain = diagnosis["causes"][0]["chain"].as_array().cloned().unwrap_or_default();
    chain.iter().filter_map(|link| link.as_str().map(str::to_owned)).collect()
}

#[test]
fn two_pages_tell_what_people_reported() {
    for (report, cause) in [
        ("vllm-ranks-uneven", "ranks-uneven"),
        ("vllm-scheduler-stuck", "engine-stalled"),
        ("vllm-grammars", "deferred-queue"),
        ("sglang-decode-transfers-stuck", "kv-transfer-slow"),
        ("sglang-prefill-transfers-slow", "kv-transfer-slow"),
        ("triton-slots-taken", "slot-limit"),
        ("litellm-redis-slow", "gateway-redis-slow"),
    ] {
        let chain = chain(report);
        assert!(chain.iter().any(|link| link == cause), "{report}: expected {cause} in {chain:?}");
    }
}

/// Cut from pages of real programs during a fault that was made on purpose.
#[test]
fn two_pages_of_a_gateway_alone_tell_its_fault() {
    for (pages, cause) in
        [("litellm-key-limit", "key-limit"), ("ray-queue-full", "load-shedding"), ("dynamo-overload", "load-shedding")]
    {
        let chain = chain(pages);
        assert!(chain.iter().any(|link| link == cause), "{pages}: expected {cause} in {chain:?}");
    }
}

/// What is said of files with these contents; the last value is the standard error.
fn said(files: &[&str], more: &[&str]) -> (String, String) {
    let directory = tempfile::tempdir().unwrap();
    let mut command = Command::new(BINARY);
    command.current_dir(directory.path()).env_remove("PROMETHEUS_URL").arg("diagnose").args(more);
    for (i, content) in files.iter().enumerate() {
        std::fs::write(directory.path().join(format!("{i}.txt")), content).unwrap();
        command.arg(format!("{i}.txt"));
    }
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn nothing_is_abnormal_only_where_the_pages_could_tell_it() {
    let page = |tokens: u32| {
        format!(
            "llamacpp:requests_processing 1\nllamacpp:requests_deferred 0\nllamacpp:tokens_predicted_total {tokens}\n\
             llamacpp:prompt_tokens_total {tokens}\nllamacpp:tokens_predicted_seconds_total {}\n",
            tokens / 100
        )
    };
    let (message, _) = said(&[&page(100), &page(900)], &["--apart", "60s"]);
    assert!(!message.contains("Nothing is abnormal"), "{message}");
    assert!(message.contains("Cannot tell: none of the") && message.contains("these could not be: "), "{message}");
    assert!(message.contains("first tokens come late (llamacpp cannot tell: "), "why and of whom: {message}");
    let healthy = ["t0", "t1"].map(|t| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/vllm/0.32-healthy-{t}.prom"));
        std::fs::read_to_string(path).unwrap()
    });
    let (message, _) = said(&[&healthy[0], &healthy[1]], &["--apart", "60s"]);
    assert!(message.contains("Nothing is abnormal in this pool"), "{message}");
}

#[test]
fn a_benchmarks_record_gets_the_verdict_that_on_call_gets() {
    let record = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/aiperf/server_metrics_export.jsonl");
    let record = std::fs::read_to_string(record).unwrap();
    let (message, error) = said(&[&record], &[]);
    assert!(message.contains("KV cache is exhausted — likely") && message.contains("vllm"), "{message}{error}");
    // Half a line at the end is what a benchmark leaves that was stopped; one in between is a broken file.
    let (message, _) = said(&[record.trim_end().get(..record.len() - 40).unwrap()], &[]);
    assert!(message.contains("KV cache is exhausted"), "{message}");
    let broken = record.replacen("\n{", "\n{,", 1);
    let (_, error) = said(&[&broken], &[]);
    assert!(error.contains("line 2 is no read of a page (expected `endpoint_url`"), "{error}");
}

#[test]
fn a_benchmarks_file_without_pages_is_named_with_what_to_give() {
    for (file, way_out) in [
        ("{\n  \"schema_version\": \"1.0\",\n  \"aiperf_version\": \"0.10.0\"\n}\n", "--server-metrics-formats jsonl"),
        ("PAR1 and columns", "--server-metrics-formats jsonl"),
        (
            "{\n  \"metadata\": {\"guidellm_version\": \"0.5.0\"}, \"benchmarks\": []\n}\n",
            "no benchmark with a finished request",
        ),
    ] {
        let (_, error) = said(&[file], &[]);
        assert!(error.contains(way_out), "{file}: {error}");
    }
    let record = "../aiperf/server_metrics_export.jsonl";
    let twice = diagnose(&[record, record]);
    let error = String::from_utf8_lossy(&twice.stderr).into_owned();
    assert!(error.contains("pass it alone"), "{error}");
}

#[test]
fn a_page_is_a_page_whatever_its_model_is_called() {
    let reports = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/reports");
    let page = std::fs::read_to_string(reports.join("vllm-scheduler-stuck-first.prom")).unwrap();
    let (_, error) = said(&[&page.replace("org-a/27b-5bit", "benchmarks")], &[]);
    assert!(!error.contains("GuideLLM"), "{error}");
}

#[test]
fn json_is_named_as_json_with_where_the_page_is() {
    let output = diagnose(&["trtllm-metrics.json", "trtllm-metrics.json"]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("this is JSON") && error.contains("/prometheus/metrics"), "{error}");
}

/// NVIDIA NIM tells what vLLM tells, by names without a prefix: <https://docs.nvidia.com/nim/large-language-models/latest/observability.html>.
#[test]
fn pages_of_an_engine_that_names_its_series_without_a_prefix_tell_the_same() {
    let reports = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/reports");
    let directory = tempfile::tempdir().unwrap();
    let pages = ["first", "second"].map(|which| {
        let page = std::fs::read_to_string(reports.join(format!("vllm-scheduler-stuck-{which}.prom"))).unwrap();
        let path = directory.path().join(format!("{which}.prom"));
        std::fs::write(&path, page.replace("vllm:", "")).unwrap();
        path.display().to_string()
    });
    let diagnosis: Value = serde_json::from_slice(&diagnose(&[&pages[0], &pages[1]]).stdout).unwrap();
    assert_eq!(diagnosis["engines"][0]["engine"], "vllm", "{diagnosis}");
    assert_eq!(diagnosis["causes"][0]["chain"][0], "engine-stalled", "{diagnosis}");
}

#[test]
fn a_read_has_the_samples_of_the_page_with_their_own_names() {
    let line = r#"{"endpoint_url":"http://a:8000/metrics","timestamp_ns":1763591215220757503,"metrics":{
        "vllm:num_requests_running":[{"labels":{"engine":"0"},"value":12.0}],"vllm:request_success":[{"value":15.0}],
        "vllm:ttft_seconds":[{"buckets":{"0.1":2.0,"+Inf":3.0},"sum":1.5,"count":3.0}]},"first_byte_ns":1}"#;
    let needed = |name: &str| name != "vllm:request_success";
    let read = |line: &str| read_line(line, 1, |_, _| true, needed).unwrap().unwrap();
    let page = read(line);
    assert_eq!((page.url.as_str(), page.at), ("http://a:8000/metrics", 1_763_591_215_220));
    let has = |name: &str, le: Option<&str>| {
        let of = |s: &&Sample| s.name == name && s.labels.get("le").map(String::as_str) == le;
        page.samples.iter().find(of).map(|sample| sample.value)
    };
    assert_eq!(has("vllm:num_requests_running", None), Some(12.0));
    assert_eq!((has("vllm:request_success_total", None), has("vllm:request_success", None)), (Some(15.0), None));
    assert_eq!(
        (has("vllm:ttft_seconds_bucket", Some("+Inf")), has("vllm:ttft_seconds_sum", None)),
        (Some(3.0), Some(1.5))
    );
    let older = line.replace("buckets", "histogram");
    assert_eq!(read(&older), page);
    assert_eq!(read_line(line, 1, |url, at| (url, at) != (&page.url, page.at), needed), Ok(None), "it is not due");
}

#[test]
fn a_line_of_another_shape_is_named_by_its_number() {
    let refused = read_line(r#"{"endpoint_url":"x"}"#, 7, |_, _| true, |_| true).unwrap_err().to_string();
    assert!(refused.contains("line 7 is no read of a page") && refused.contains("timestamp_ns"), "{refused}");
}

#[test]
fn files_without_pages_are_named_with_what_to_give_instead() {
    assert_eq!(no_pages(b"PAR1\x15"), Some(BenchmarkError::Statistics));
    assert_eq!(no_pages(br#"{"schema_version":"1.0","aiperf_version":"0.10.0""#), Some(BenchmarkError::Statistics));
    assert_eq!(no_pages(br#"{"metadata":{"guidellm_version":"0.5.0"}"#), Some(BenchmarkError::GuideLlm));
    assert_eq!(no_pages(b"[{\"gpuMemUsage\": 1}]"), None);
}

//! Reads the reports of GuideLLM and of llm-d-benchmark.
//!
//! Sources of the shapes: <https://github.com/vllm-project/guidellm>, `benchmark/schemas/report.py` (version 2, and version 1 with
//! the same metrics), and <https://github.com/llm-d/llm-d-benchmark>, `benchmark_report/schema_v0_2.py` (0.2 and 0.2.1).

use std::fs::File;
use std::io::{BufReader, Read};

use anyhow::{Context, bail, ensure};
use serde::Deserialize;
use serde_json::Value;

use super::verdict::LoadStep;

/// Maximum size of a report of GuideLLM, which holds every request, and of one of llm-d-benchmark, in bytes.
const GUIDELLM_BYTES: u64 = 4 << 30;
const LLM_D_BYTES: u64 = 16 << 20;
/// Bytes at the beginning of a file that tell what it is.
const HEAD: u64 = 64 << 10;

#[derive(Deserialize)]
struct GuideReport {
    benchmarks: Vec<GuideBenchmark>,
}

/// One step; its requests are passed over.
#[derive(Deserialize)]
struct GuideBenchmark {
    #[serde(default, alias = "args")]
    config: Value,
    metrics: Value,
}

fn number(of: &Value, path: &str) -> Option<f64> {
    of.pointer(path)?.as_f64()
}

/// Returns the statistic at `path` of llm-d's report in seconds, or as a share: the median if `key` is `p50` and there is one.
fn statistic(of: &Value, path: &str, key: &str) -> Option<f64> {
    let found = of.pointer(path)?;
    let value = found.get(key).or_else(|| found.get("mean"))?.as_f64()?;
    Some(match found.get("units").and_then(Value::as_str) {
        Some("ms" | "ms/token") => value / 1_000.0,
        Some("percent") => value / 100.0,
        _ => value,
    })
}

/// The program that wrote a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Writer {
    GuideLlm,
    LlmD,
}

/// Reads the steps of all reports; `None` if the first file is none.
///
/// # Errors
/// If a file cannot be read, is no report while the first one is, or has no finished step.
pub(super) fn steps(names: &[&str]) -> anyhow::Result<Option<Vec<LoadStep>>> {
    let mut steps = Vec::new();
    for (i, name) in names.iter().enumerate() {
        if name.starts_with("http://") || name.starts_with("https://") {
            ensure!(i == 0, "{} is no report of a load test", http_client::address(name));
            return Ok(None);
        }
        let file = File::open(name).with_context(|| format!("cannot read {name}"))?;
        match writer(&file).with_context(|| format!("cannot read {name}"))? {
            Some(Writer::GuideLlm) => steps.extend(guidellm(name)?),
            Some(Writer::LlmD) => steps.push(llm_d(name)?),
            None if i == 0 => return Ok(None),
            None => bail!("{name} is no report of a load test, as the files before it are: pass it alone"),
        }
    }
    Ok(Some(steps))
}

/// Tells a report by its first bytes.
fn writer(file: &File) -> std::io::Result<Option<Writer>> {
    let mut head = Vec::new();
    file.take(HEAD).read_to_end(&mut head)?;
    let has = |text: &str| head.windows(text.len()).any(|window| window == text.as_bytes());
    let is_json = head.trim_ascii_start().starts_with(b"{");
    Ok(match () {
        () if is_json && has("\"guidellm_version\"") => Some(Writer::GuideLlm),
        () if (is_json || head.starts_with(b"results:") || head.starts_with(b"version:"))
            && has("request_performance") =>
        {
            Some(Writer::LlmD)
        }
        () => None,
    })
}

fn guidellm(name: &str) -> anyhow::Result<Vec<LoadStep>> {
    let file = File::open(name).with_context(|| format!("cannot read {name}"))?;
    let report: GuideReport = serde_json::from_reader(BufReader::new(file.take(GUIDELLM_BYTES)))
        .with_context(|| format!("{name} is no report of GuideLLM that is known"))?;
    let steps: Vec<LoadStep> = report.benchmarks.iter().filter_map(guidellm_step).collect();
    ensure!(!steps.is_empty(), "{name} has no benchmark with a finished request");
    Ok(steps)
}

fn guidellm_step(benchmark: &GuideBenchmark) -> Option<LoadStep> {
    let of = |path: &str| number(&benchmark.metrics, path).filter(|value| *value > 0.0);
    // Without streaming the latencies of tokens are zero.
    let median = |name: &str| of(&format!("/{name}/successful/median")).map(|ms| ms / 1_000.0);
    Some(LoadStep {
        rate: number(&benchmark.config, "/strategy/rate"),
        concurrency: of("/request_concurrency/total/mean").or_else(|| of("/request_concurrency/successful/mean"))?,
        // A step in which nothing finishes is the strongest sign of all.
        requests: of("/requests_per_second/successful/mean").unwrap_or_default(),
        tokens: of("/output_tokens_per_second/successful/mean").or_else(|| {
            let nothing_ends = of("/requests_per_second/successful/mean").is_none();
            nothing_ends.then_some(0.0)
        }),
        ttft: median("time_to_first_token_ms"),
        itl: median("inter_token_latency_ms"),
        failed: of("/request_totals/errored").unwrap_or_default() / of("/request_totals/total").unwrap_or(1.0),
        waiting: None,
        kv_cache: None,
    })
}

fn llm_d(name: &str) -> anyhow::Result<LoadStep> {
    let mut text = String::new();
    let file = File::open(name).with_context(|| format!("cannot read {name}"))?;
    file.take(LLM_D_BYTES).read_to_string(&mut text).with_context(|| format!("cannot read {name}"))?;
    let report: Value = serde_saphyr::from_str(&text)
        .with_context(|| format!("{name} is no benchmark report of llm-d that is known"))?;
    // YAML may have the version without quotes, as a number.
    let version = report.get("version").map(|version| version.to_string().replace('"', "")).unwrap_or_default();
    ensure!(version.starts_with("0.2"), "{name} has version `{version}`, expected 0.2");
    let aggregate = report.pointer("/results/request_performance/aggregate").unwrap_or(&Value::Null);
    let mean = |path: &str| statistic(aggregate, path, "mean").filter(|value| *value > 0.0);
    let (Some(requests), Some(duration)) = (mean("/throughput/request_rate"), mean("/latency/request_latency")) else {
        bail!("{name} has no `request_rate` and `request_latency` of finished requests");
    };
    let components = report.pointer("/results/observability/components").and_then(Value::as_array);
    let of_servers = |path: &str| -> Vec<f64> {
        components.into_iter().flatten().filter_map(|component| statistic(component, path, "mean")).collect()
    };
    Ok(LoadStep {
        rate: number(&report, "/scenario/load/standardized/rate_qps"),
        // Little's law: the number at one time is the rate times the duration.
        concurrency: requests * duration,
        requests,
        tokens: mean("/throughput/output_token_rate"),
        ttft: statistic(aggregate, "/latency/time_to_first_token", "p50"),
        itl: statistic(aggregate, "/latency/inter_token_latency", "p50"),
        failed: number(aggregate, "/requests/failures").unwrap_or_default()
            / number(aggregate, "/requests/total").filter(|total| *total > 0.0).unwrap_or(1.0),
        // A router's queue counts too, and has no KV cache.
        waiting: of_servers("/aggregate/waiting_requests").into_iter().reduce(|a, b| a + b),
        kv_cache: of_servers("/aggregate/kv_cache_usage").into_iter().reduce(f64::max),
    })
}

//! A capacity report as text for a terminal.

use std::fmt::Write;

use super::phrases::{grouped, part, size};
use super::{Fit, KvReport, Live, ModelReport, Report, WeightsReport};
use crate::signal::{Unit, format_value};

/// The report as lines; without colour.
pub fn table(report: &Report) -> String {
    let mut out = String::new();
    if let Some(model) = &report.model {
        describe(&mut out, model);
    }
    if let Some(weights) = &report.weights {
        weigh(&mut out, weights);
    }
    if let Some(kv) = &report.kv {
        keep(&mut out, kv);
    }
    if let Some(fit) = &report.fit {
        fits(&mut out, fit);
    }
    if let Some(live) = &report.live {
        lives(&mut out, live, report.fit.as_ref());
    }
    list(&mut out, "Warnings", &report.warnings);
    list(&mut out, "Assumed", &report.assumed);
    out
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing into a String cannot fail.
    let _ = out.write_fmt(text);
    out.push('\n');
}

fn list(out: &mut String, title: &str, lines: &[String]) {
    if lines.is_empty() {
        return;
    }
    line(out, format_args!("\n{title}"));
    for text in lines {
        line(out, format_args!("  • {text}"));
    }
}

fn describe(out: &mut String, model: &ModelReport) {
    let parameters = match &model.parameters {
        Some(p) if p.experts > 0 => {
            format!("{}, {:.0} % in experts", billions(p.total), p.experts as f64 / p.total as f64 * 100.0)
        }
        Some(p) => billions(p.total),
        None => "parameters not counted".to_owned(),
    };
    let kinds = [
        (model.layers.full_attention, "full attention"),
        (model.layers.sliding_window, "sliding window"),
        (model.layers.recurrent, "recurrent"),
        (model.layers.other, "without mixer"),
    ];
    let kinds: Vec<String> = kinds.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")).collect();
    line(out, format_args!("{}: {parameters}; layers: {}", model.architecture, kinds.join(", ")));
}

fn billions(n: u64) -> String {
    match n {
        0..1_000_000_000 => format!("{:.0} M parameters", n as f64 / 1e6),
        _ => format!("{:.2} B parameters", n as f64 / 1e9),
    }
}

fn weigh(out: &mut String, weights: &WeightsReport) {
    let others: Vec<String> = weights
        .by_precision
        .iter()
        .filter(|(name, _)| **name != weights.precision)
        .map(|(name, bytes)| format!("{name} {}", size(*bytes)))
        .collect();
    let others = if others.is_empty() { String::new() } else { format!("   ({})", others.join(", ")) };
    line(out, format_args!("  weights   {} {}{others}", weights.precision, size(weights.bytes)));
}

fn keep(out: &mut String, kv: &KvReport) {
    let here = match kv.bytes_per_token_per_gpu == kv.bytes_per_token {
        true => String::new(),
        false => format!(", {} B on each GPU", grouped(kv.bytes_per_token_per_gpu)),
    };
    line(out, format_args!("  KV cache  {} {} B per token{here}", kv.dtype.name(), grouped(kv.bytes_per_token)));
}

fn fits(out: &mut String, fit: &Fit) {
    let d = &fit.deployed;
    let gpus = d.tensor_parallel * d.pipeline_parallel;
    let name = d.gpu.as_ref().map(|name| format!("{name}, ")).unwrap_or_default();
    let title = format!("{gpus} x {name}{:.1} GiB", d.gpu_bytes as f64 / 1_073_741_824.0);
    let how = format!("tp {}, pp {}, utilization {}", d.tensor_parallel, d.pipeline_parallel, d.gpu_memory_utilization);
    line(out, format_args!("\n{title} ({how})"));
    for share in &fit.memory {
        let percent = format!("{:.0} %", share.share * 100.0);
        line(out, format_args!("  {:<24}{:>10}{percent:>8}", part(&share.part), size(share.bytes)));
    }
    if fit.kv_pool_tokens == 0 {
        return;
    }
    line(out, format_args!("\nThe KV cache holds {} tokens", grouped(fit.kv_pool_tokens)));
    line(out, format_args!("  {:>10}{:>14}{:>12}", "context", "one request", "at once"));
    for row in &fit.concurrency {
        let requests = format!("{:.2}x", (row.requests * 100.0).floor() / 100.0);
        line(out, format_args!("  {:>10}{:>14}{requests:>12}", grouped(row.context_tokens), size(row.request_bytes)));
    }
}

fn lives(out: &mut String, live: &Live, fit: Option<&Fit>) {
    let scope: Vec<String> = live.scope.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let scope = if scope.is_empty() { "everything".to_owned() } else { scope.join(", ") };
    let replicas = if live.replicas == 1 { "1 replica".to_owned() } else { format!("{} replicas", live.replicas) };
    line(out, format_args!("\nLive: {scope}, {replicas}"));
    let mut row = |what: &str, value: Option<String>| {
        if let Some(value) = value {
            line(out, format_args!("  {what:<24}{value}"));
        }
    };
    let capacity = live.kv_capacity_tokens.map(|tokens| {
        let beside = live
            .live_over_computed
            .zip(fit)
            .map(|(ratio, fit)| format!(" ({:.0} % of the computed {})", ratio * 100.0, grouped(fit.kv_pool_tokens)));
        format!("{} tokens per replica{}", grouped(tokens as u64), beside.unwrap_or_default())
    });
    row("KV cache", capacity);
    let tokens = |value: Option<f64>| value.map(|v| format_value(v, Unit::Tokens));
    row("mean prompt", tokens(live.prompt_tokens_mean));
    row("mean output", tokens(live.generation_tokens_mean));
    row("fit at that length", live.mean_requests_per_replica.map(|n| format!("{n:.1} requests per replica")));
    row("running", live.running_per_replica.map(|n| format!("{n:.1} requests per replica")));
    // When Prometheus was away, the problem says it once for all.
    for (signal, why) in live.missing.iter().filter(|_| !live.degraded) {
        line(out, format_args!("  no {signal}: {why}"));
    }
    for problem in &live.problems {
        line(out, format_args!("  ! {problem}"));
    }
}

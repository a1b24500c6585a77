//! A capacity report as text for a terminal.

use std::fmt::Write;

use super::{
    AS_GIVEN, CapacityReport, Fit, KvReport, Live, ModelReport, ParameterReport, WeightsReport, grouped, size,
};
use knowledge::signal::{Unit, format_value};
use render::Phrases;

/// Renders the report as lines without colour.
pub fn text(report: &CapacityReport, words: &Phrases) -> String {
    let mut out = String::new();
    if let Some(model) = &report.model {
        describe(&mut out, model, words);
    }
    if let Some(weights) = &report.weights {
        weigh(&mut out, weights, words);
    }
    if let Some(kv) = &report.kv {
        write_kv_cache(&mut out, kv, words);
    }
    if let Some(fit) = &report.fit {
        fits(&mut out, fit, words);
    }
    if let Some(live) = &report.live {
        lives(&mut out, live, report.fit.as_ref(), words);
    }
    list(&mut out, "fit-warnings", &report.warnings, words);
    list(&mut out, "fit-assumed", &report.assumed, words);
    out
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing into a String cannot fail.
    let _ = out.write_fmt(text);
    out.push('\n');
}

fn list(out: &mut String, title: &str, lines: &[String], words: &Phrases) {
    if lines.is_empty() {
        return;
    }
    line(out, format_args!("\n{}", words.text(title, &[])));
    for text in lines {
        line(out, format_args!("  • {}", text));
    }
}

fn describe(out: &mut String, model: &ModelReport, words: &Phrases) {
    let kinds = [
        (model.layers.full_attention, "fit-full-attention"),
        (model.layers.sliding_window, "fit-sliding-window"),
        (model.layers.recurrent, "fit-recurrent"),
        (model.layers.other, "fit-without-mixer"),
    ];
    let kinds = kinds.iter().filter(|(n, _)| *n > 0).map(|(n, key)| words.text(key, &[("n", n.to_string().into())]));
    let pieces = [
        ("architecture", model.architecture.as_str().into()),
        ("parameters", counted(model.parameters.as_ref(), words).into()),
        ("layers", kinds.collect::<Vec<_>>().join(", ").into()),
    ];
    line(out, format_args!("{}", words.text("fit-model", &pieces)));
}

fn counted(parameters: Option<&ParameterReport>, words: &Phrases) -> String {
    let Some(p) = parameters else { return words.text("fit-not-counted", &[]) };
    let all = match p.total {
        n @ 0..1_000_000_000 => words.text("fit-millions", &[("n", format!("{:.0}", n as f64 / 1e6).into())]),
        n => words.text("fit-billions", &[("n", format!("{:.2}", n as f64 / 1e9).into())]),
    };
    let share = format!("{:.0}", p.parts.experts as f64 / p.total as f64 * 100.0);
    match p.parts.experts {
        0 => all,
        _ => words.text("fit-experts", &[("parameters", all.into()), ("share", share.into())]),
    }
}

fn weigh(out: &mut String, weights: &WeightsReport, words: &Phrases) {
    let others: Vec<String> = weights
        .by_precision
        .iter()
        .filter(|(name, _)| **name != weights.precision)
        .map(|(name, bytes)| format!("{name} {}", size(*bytes)))
        .collect();
    let others = if others.is_empty() { String::new() } else { format!("   ({})", others.join(", ")) };
    let precision = match weights.precision.as_str() {
        AS_GIVEN => words.text("fit-as-given", &[]),
        name => name.to_owned(),
    };
    let what = words.text("fit-weights", &[]);
    line(out, format_args!("  {what:<9} {precision} {}{others}", size(weights.bytes)));
}

fn write_kv_cache(out: &mut String, kv: &KvReport, words: &Phrases) {
    let mut pieces = vec![("dtype", kv.dtype.name().into()), ("bytes", grouped(kv.bytes_per_token).into())];
    let key = match kv.bytes_per_token_per_gpu == kv.bytes_per_token {
        true => "fit-per-token",
        false => {
            pieces.push(("each", grouped(kv.bytes_per_token_per_gpu).into()));
            "fit-per-token-on-each"
        }
    };
    line(out, format_args!("  {:<9} {}", words.text("fit-kv-cache", &[]), words.text(key, &pieces)));
}

/// Returns the display name of a part of GPU memory.
fn part(name: &str, words: &Phrases) -> String {
    let key = match name {
        "weights" => "fit-weights",
        "activations" => "fit-activations",
        "cuda_graphs" => "fit-cuda-graphs",
        "runtime" => "fit-runtime",
        "reserve" => "fit-reserve",
        "kv_cache" => "fit-kv-cache",
        "not_used" => "fit-not-used",
        other => return other.to_owned(),
    };
    words.text(key, &[])
}

fn fits(out: &mut String, fit: &Fit, words: &Phrases) {
    let d = &fit.deployed;
    let gpus = d.tensor_parallel * d.pipeline_parallel * d.data_parallel;
    let name = d.gpu.as_ref().map(|name| format!("{name}, ")).unwrap_or_default();
    let title = format!("{gpus} x {name}{:.1} GiB", d.gpu_bytes as f64 / 1_073_741_824.0);
    let how = [
        ("tensor", d.tensor_parallel.to_string().into()),
        ("pipeline", d.pipeline_parallel.to_string().into()),
        ("data", d.data_parallel.to_string().into()),
        ("dcp", d.decode_context_parallel.to_string().into()),
        ("utilization", d.gpu_memory_utilization.to_string().into()),
    ];
    let key = if d.data_parallel * d.decode_context_parallel > 1 { "fit-how-ranks" } else { "fit-how" };
    line(out, format_args!("\n{title} ({})", words.text(key, &how)));
    for share in &fit.memory {
        let percent = format!("{:.0} %", share.share * 100.0);
        line(out, format_args!("  {:<24}{:>10}{percent:>8}", part(&share.part, words), size(share.bytes)));
    }
    if fit.kv_pool_tokens == 0 {
        return;
    }
    let key = if d.data_parallel > 1 { "fit-holds-of-each" } else { "fit-holds" };
    let holds = words.text(key, &[("tokens", grouped(fit.kv_pool_tokens).into()), ("ranks", d.data_parallel.into())]);
    let [context, one, at_once] = ["fit-context", "fit-one-request", "fit-at-once"].map(|key| words.text(key, &[]));
    line(out, format_args!("\n{holds}"));
    line(out, format_args!("  {context:>10}{one:>14}{at_once:>12}"));
    for row in &fit.concurrency {
        let requests = format!("{:.2}x", (row.requests * 100.0).floor() / 100.0);
        line(out, format_args!("  {:>10}{:>14}{requests:>12}", grouped(row.context_tokens), size(row.request_bytes)));
    }
}

fn lives(out: &mut String, live: &Live, fit: Option<&Fit>, words: &Phrases) {
    let scope: Vec<String> = live.scope.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let scope = if scope.is_empty() { words.text("fit-everything", &[]) } else { scope.join(", ") };
    let title = words.text("fit-live", &[("scope", scope.into()), ("n", live.replicas.into())]);
    line(out, format_args!("\n{title}"));
    let mut row = |key: &str, value: Option<String>| {
        if let Some(value) = value {
            line(out, format_args!("  {:<24}{value}", words.text(key, &[])));
        }
    };
    let capacity = live.kv_capacity_tokens.map(|tokens| {
        let tokens = ("tokens", grouped(tokens as u64).into());
        match live.live_over_computed.zip(fit) {
            None => words.text("fit-tokens-each", &[tokens]),
            Some((ratio, fit)) => {
                let percent = ("percent", format!("{:.0}", ratio * 100.0).into());
                words.text("fit-tokens-beside", &[tokens, percent, ("computed", grouped(fit.kv_pool_tokens).into())])
            }
        }
    });
    row("fit-kv-cache", capacity);
    let tokens = |value: Option<f64>| value.map(|v| format_value(v, Unit::Tokens));
    row("fit-mean-prompt", tokens(live.prompt_tokens_mean));
    row("fit-mean-output", tokens(live.generation_tokens_mean));
    let each = |n: Option<f64>| n.map(|n| words.text("fit-requests-each", &[("n", format!("{n:.1}").into())]));
    row("fit-at-that-length", each(live.mean_requests_per_replica));
    row("fit-running", each(live.running_per_replica));
    // If Prometheus did not answer, one problem says so for all signals.
    for (signal, why) in live.missing.iter().filter(|_| !live.degraded) {
        let pieces = [("signal", signal.as_str().into()), ("why", why.as_str().into())];
        line(out, format_args!("  {}", words.text("fit-no-signal", &pieces)));
    }
    for problem in &live.problems {
        line(out, format_args!("  ! {}", problem));
    }
}

//! Thresholds are shown as they are compared, in their signal's unit.

use findings::health::Health;
use knowledge::playbook::{Condition, Reference, Step, condition_text};
use knowledge::signal::format_threshold;
use render::health_page;
use report::incident_timeline;

use super::*;
use crate::harness::library;

/// The number of a threshold's text, in the signal's unit.
fn read_back(shown: &str) -> f64 {
    let end = shown.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '-').unwrap_or(shown.len());
    let (number, rest) = shown.split_at(end);
    let rest = ["tokens/s", "tokens", "req/s", "/s"].iter().find_map(|unit| rest.strip_suffix(unit)).unwrap_or(rest);
    let times = match rest.trim() {
        "" | "s" | "x" | "°C" | "W" | "B" => 1.0,
        "%" => 0.01,
        "ms" => 0.001,
        "min" => 60.0,
        "h" => 3_600.0,
        "k" => 1e3,
        "M" | "MHz" => 1e6,
        "KiB" => 1024.0,
        "MiB" => 1024f64.powi(2),
        "GiB" => 1024f64.powi(3),
        other => panic!("unknown unit `{other}` in `{shown}`"),
    };
    number.parse::<f64>().unwrap() * times
}

#[test]
fn every_shipped_threshold_reads_as_the_number_that_is_compared() {
    let library = library();
    let nodes: Vec<_> = library
        .playbooks
        .keys()
        .flat_map(|id| library.playbook_node(id).into_iter().chain(library.reachable(id)))
        .collect();
    let evidence = nodes.iter().flat_map(|node| node.evidence).flat_map(|evidence| evidence.checks());
    let checks = |step: &Step| {
        let checks = step.verify.iter().flat_map(|verify| verify.checks());
        checks.map(|check| (check.signal.clone(), check.when.clone())).collect::<Vec<_>>()
    };
    let steps = nodes.iter().flat_map(|node| node.now.iter().chain(node.lasting)).flat_map(checks);
    let all: Vec<(String, Condition)> =
        evidence.map(|(signal, when)| (signal.to_owned(), when.clone())).chain(steps).collect();
    let mut wrong = Vec::new();
    let mut compared = 0;
    for (signal, when) in &all {
        let unit = library.signals[signal].unit;
        for comparison in when.comparisons() {
            let Reference::Number(limit) = comparison.to else { continue };
            compared += 1;
            let shown = format_threshold(limit, unit);
            if (read_back(&shown) - limit).abs() > 0.001 * limit.abs() {
                wrong.push(format!("{signal} {when}: {shown}"));
            }
        }
    }
    assert!(compared > 200 && wrong.is_empty(), "{compared} thresholds, wrong are\n{}", wrong.join("\n"));
}

#[test]
fn a_condition_keeps_what_is_no_number() {
    for (when, shown) in [
        ("> 0.125", "> 12.5 %"),
        ("> 2x peers and > 0.05", "> 2x peers and > 5 %"),
        ("absent", "absent"),
        ("no data", "no data"),
        ("not a condition", "not a condition"),
    ] {
        assert_eq!(condition_text(when, Unit::Ratio), shown);
    }
}

#[test]
fn the_health_page_and_a_timeline_show_conditions_in_their_signals_unit() {
    let check = json!({
        "heading": "memory", "signal": "kv_cache_peak", "title": "KV cache peak", "state": "critical", "value": 0.97,
        "unit": "ratio", "replicas": [],
        "thresholds": [{
            "severity": "critical", "when": "> 0.95", "with": [], "source": "alert LLMKVCacheFull", "outcome": "met",
        }],
    });
    let pool = json!({
        "labels": {}, "prometheus": "", "engines": [], "replicas": 1, "state": "critical", "idle": false,
        "checks": [check], "coverage": { "with_data": 1, "of": 1 },
    });
    let health = json!({
        "schema": "llm-diagnose/health/v1", "at": "2026-11-20T02:40:00Z", "window_seconds": 300, "scope": {},
        "state": "critical", "pools": [pool], "left_out": 0, "notes": [], "problems": [], "queries": 1,
        "took_seconds": 0.1,
    });
    let health: Health = serde_json::from_value(health).unwrap();
    let page = health_page(&health, &Phrases::english());
    assert!(page.contains("&gt; 95 %"), "{page}");

    let diagnosis = diagnosis(DIAGNOSES[1]);
    let events = incident_timeline(&[], Some(&diagnosis), &[], &[]);
    let onset = events.iter().find(|event| event.what.contains("KV cache peak")).unwrap();
    assert_eq!(onset.what, "KV cache peak reached 100 % (condition: > 95 %)");
}

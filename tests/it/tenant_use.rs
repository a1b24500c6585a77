//! The tenants of an incident: who sent more, whose requests fail; on a real Prometheus with a gateway's series.

use std::time::Instant;

use facts::collect_facts;
use findings::facts::{TenantUse, Window, Windows};
use llm_diagnose_lab::stack::Prometheus;
use llm_diagnose_lab::stack::backfill::{Series, openmetrics};

use crate::harness::{DEADLINE, at, client, library, request, run};

const FAULT: i64 = 1_700_010_000;
const STEP: i64 = 15;

/// A counter with one rate before and one during the incident.
fn counter(name: &str, labels: &[(&str, &str)], [before, during]: [f64; 2]) -> Series {
    let place = [("job", "litellm"), ("instance", "litellm-0:4000"), ("namespace", "gw"), ("requested_model", "llama")];
    let series = Series::new(name, &[&place, labels].concat());
    series.counter(FAULT - 1_800, FAULT, STEP, before).counter(FAULT + STEP, FAULT + 900, STEP, during)
}

/// Requests, tokens and failures of a team's key, per second.
fn team(team: &str, key: &str, requests: [f64; 2], tokens: [f64; 2], failed: f64) -> Vec<Series> {
    let who = [("team_alias", team), ("api_key_alias", key)];
    let with = |more: &[(&'static str, &'static str)]| [&who, more].concat();
    let route = ("route", "/chat/completions");
    vec![
        counter("litellm_proxy_total_requests_metric_total", &with(&[route, ("status_code", "200")]), requests),
        counter("litellm_total_tokens_metric_total", &who, tokens),
        counter(
            "litellm_proxy_failed_requests_metric_total",
            &with(&[route, ("exception_status", "500")]),
            [0.0, failed],
        ),
    ]
}

#[test]
fn the_report_says_which_tenant_sent_more_and_whose_requests_fail() {
    let series = [
        team("batch", "nightly", [1.0, 6.0], [500.0, 6_000.0], 0.0),
        team("chat", "None", [4.0, 4.0], [2_000.0, 2_000.0], 1.0),
        // A request without a key is nobody's.
        team("None", "", [1.0, 1.0], [100.0, 100.0], 0.0),
    ];
    let text = openmetrics(series.concat());
    let server = run(async { Prometheus::builder().backfill_text(&text).unwrap().start().await }).unwrap();
    let window = |from: i64, to: i64| Window { from: at(from), to: at(to) };
    let windows = Windows { before: window(FAULT - 900, FAULT), during: window(FAULT + 60, FAULT + 900), after: None };
    let asked = request("high-ttft", &[("namespace", "gw")], FAULT + 900);
    let prometheus = client(&server.url);
    let told = run(collect_facts(library(), &prometheus, &asked, None, &windows, Instant::now() + DEADLINE));
    let names: Vec<&str> = told.tenants.iter().map(|tenant| tenant.who.as_str()).collect();
    assert_eq!(names, ["batch / nightly", "chat"], "{:?}", told.missing);
    let near = |value: f64, wanted: f64| (value / wanted - 1.0).abs() < 0.1;
    let TenantUse { requests_before, requests, tokens_before, tokens, failed, .. } = &told.tenants[0];
    assert!(near(*requests_before, 1.0) && near(*requests, 6.0) && *failed == 0.0, "{:?}", told.tenants);
    assert!(near(*tokens_before, 500.0) && near(*tokens, 6_000.0), "{:?}", told.tenants);
    assert!(near(told.tenants[1].failed, 1.0), "{:?}", told.tenants);
}

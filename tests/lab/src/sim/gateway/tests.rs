//! The promises of a site: nothing gets lost, everything repeats, each fault shows what the real gateways show.

use super::super::captured::{assert_like, shapes, value};
use super::super::tests_dialects::assert_well_formed;
use super::super::{Dialect, FleetSpec, History, Scraped, TargetKind};
use super::ledger::Outcome;
use super::{GatewayFault, GatewayKind, GatewaySpec, LimitScope, Site};

const START: f64 = 1_780_000_000.0;
const KINDS: [GatewayKind; 5] =
    [GatewayKind::LiteLlm, GatewayKind::Dynamo, GatewayKind::Epp, GatewayKind::EppObjective, GatewayKind::Smg];
const LITELLM: &str = include_str!("../../../../fixtures/litellm/1.106-backend-refused-t1.prom");
const FRONTEND: &str = include_str!("../../../../fixtures/dynamo/1.6-frontend-healthy-t1.prom");
const WORKER: &str = include_str!("../../../../fixtures/dynamo/1.6-worker-kv-pressure.prom");

fn site(kind: GatewayKind) -> Site {
    let mut site = Site::new(GatewaySpec::new(kind), vec![FleetSpec::sized(3)], 1, START).expect("valid specs");
    site.advance_to(START + 120.0);
    site
}

fn fault(text: &str) -> GatewayFault {
    text.parse().expect("a known fault")
}

/// The site and its gateway's page before and after three minutes of a fault.
fn under(kind: GatewayKind, text: &str) -> (Site, String, String) {
    let mut site = site(kind);
    let before = site.gateway_page();
    site.inject(fault(text)).expect("it can happen here");
    site.advance_to(START + 300.0);
    let after = site.gateway_page();
    (site, before, after)
}

/// By how much a counter rose between two pages.
fn rise(before: &str, after: &str, name: &str, labels: &[(&str, &str)]) -> f64 {
    value(after, name, labels) - value(before, name, labels)
}

fn count(site: &Site, outcome: Outcome) -> u64 {
    (0..site.fleets().len()).map(|i| site.ledger().ended_as(i, outcome)).sum()
}

#[test]
fn every_request_ends_once_or_is_inside_whatever_goes_wrong() {
    for kind in KINDS {
        for all in GatewayFault::ALL {
            let mut site = site(kind);
            if site.inject(all).is_err() {
                assert_eq!(kind, GatewayKind::Dynamo, "{all}");
                continue;
            }
            for second in 0..200 {
                if second == 100 {
                    site.clear(all);
                }
                site.advance_to(START + 120.0 + f64::from(second));
                let ended: u64 = site.ledger().ended.values().sum();
                let started: u64 = site.ledger().started.values().sum();
                assert_eq!(started, ended + site.in_flight(), "{kind:?} {all} after {second} s");
            }
            let held: u64 = site.gateway.backends[0].iter().map(|backend| backend.in_flight).sum();
            let sent = site.gateway.flows.values().filter(|flow| flow.replica.is_some()).count();
            assert_eq!(held, sent as u64, "{kind:?} {all}");
        }
    }
}

#[test]
fn engines_and_gateway_count_the_same_requests() {
    let site = site(GatewayKind::LiteLlm);
    let engines = site.fleets()[0].ended();
    assert_eq!(engines.arrived, count(&site, Outcome::Success) + site.in_flight());
    assert!(engines.finished >= count(&site, Outcome::Success) && engines.finished > 800, "{engines:?}");
    let page = site.gateway_page();
    let answered = value(&page, "litellm_proxy_total_requests_metric_total", &[("status_code", "200")]);
    assert_eq!(answered, count(&site, Outcome::Success) as f64);
    assert_eq!(value(&page, "litellm_request_total_latency_metric_count", &[]), answered);
    assert_eq!(value(&page, "litellm_in_flight_requests", &[]), site.in_flight() as f64);
}

#[test]
fn the_same_seed_gives_the_same_bytes_however_often_one_looks() {
    for kind in KINDS {
        let look = |step: f64| {
            let mut site = Site::new(GatewaySpec::new(kind), vec![FleetSpec::sized(2)], 7, START).expect("valid");
            let mut t = START;
            while t < START + 60.0 {
                t += step;
                site.advance_to(t);
                if t == START + 20.0 {
                    site.inject(fault("backend-unreachable:replica=1")).expect("there is a replica 1");
                }
            }
            site.targets().iter().map(|target| site.page(target)).collect::<Vec<_>>()
        };
        assert!(look(0.125) == look(20.0), "{kind:?}");
    }
}

#[test]
fn a_history_of_a_site_has_all_its_pages() {
    let specs = [("chat", "org/Chat-8B"), ("code", "org/Code-8B")].map(|(deployment, model)| FleetSpec {
        deployment: deployment.to_owned(),
        model_name: model.to_owned(),
        ..FleetSpec::sized(2)
    });
    let mut site = Site::new(GatewaySpec::new(GatewayKind::LiteLlm), specs.into(), 3, START).expect("valid");
    let mut history = History::new(15.0);
    history.record(&mut site, START + 120.0);
    let mut bytes = Vec::new();
    history.write(&mut bytes).expect("memory");
    let text = String::from_utf8(bytes).expect("text");
    let last = 1_780_000_115;
    let at = |series: &str| text.lines().filter(|l| l.contains(series) && l.contains(&format!(" {last}"))).count();
    // A gateway, four engines, two GPU nodes, one kube-state-metrics.
    assert_eq!(site.targets().len(), 8);
    let scrapes = text.lines().filter(|line| line.starts_with("up{")).count();
    assert_eq!((scrapes % 8, at("up{")), (0, at("up{job")));
    assert!(text.contains("requested_model=\"code-8b\"") && text.contains("deployment=\"code\""));
    let instances: std::collections::BTreeSet<_> = site.targets().into_iter().map(|target| target.instance).collect();
    assert_eq!(instances.len(), 8);
}

#[test]
fn promtool_makes_blocks_of_the_history_of_any_site() {
    let dialects = Dialect::ALL.into_iter().enumerate();
    for (kind, dialect) in dialects.map(|(i, dialect)| (KINDS[i % KINDS.len()], dialect)) {
        let spec = FleetSpec { dialect, ..FleetSpec::sized(2) };
        let mut site = Site::new(GatewaySpec::new(kind), vec![spec], 3, START).expect("valid");
        let folder = tempfile::tempdir().expect("a folder");
        let text = folder.path().join("history.txt");
        let file = std::fs::File::create(&text).expect("a file");
        super::super::history::write(&mut site, START + 30.0, START + 60.0, 15.0, file).expect("it is written");
        let made = std::process::Command::new("promtool")
            .args(["tsdb", "create-blocks-from", "openmetrics"])
            .args([&text, &folder.path().join("data")])
            .output()
            .expect("promtool is installed");
        assert!(made.status.success(), "{kind:?} {dialect}: {}", String::from_utf8_lossy(&made.stderr));
    }
}

#[test]
fn every_gateway_serves_well_formed_pages_in_every_trouble() {
    for kind in KINDS {
        for all in GatewayFault::ALL {
            let mut site = site(kind);
            if site.inject(all).is_err() {
                continue;
            }
            site.advance_to(START + 180.0);
            let page = site.gateway_page();
            assert!(shapes(&page).len() >= 9, "{kind:?}");
            assert_well_formed(&page, all.name());
            for target in site.targets().iter().filter(|target| matches!(target.kind, TargetKind::Serving(_))) {
                if let Some(page) = Scraped::page(&site, target) {
                    shapes(&page);
                }
            }
        }
    }
}

#[test]
fn litellm_and_dynamo_pages_could_be_captured_ones() {
    assert_like(&site(GatewayKind::LiteLlm).gateway_page(), LITELLM);
    let (_, _, refused) = under(GatewayKind::LiteLlm, "backend-unreachable");
    assert_like(&refused, LITELLM);
    let dynamo = site(GatewayKind::Dynamo);
    assert_like(&dynamo.gateway_page(), FRONTEND);
    let worker = Scraped::page(&dynamo, &dynamo.targets()[1]).expect("up");
    // The mocker engine of the capture has none of these three.
    let of_real_engines = ["total_blocks", "gpu_cache_usage_percent", "kv_cache_hit_rate"];
    let lines = worker.lines().filter(|line| line.contains("dynamo_"));
    let lines = lines.filter(|line| !of_real_engines.iter().any(|name| line.contains(name)));
    let lines: String = lines.map(|line| format!("{}\n", line.trim_end_matches(".0"))).collect();
    assert_like(&lines, WORKER);
}

#[test]
fn litellm_answers_a_dead_backend_with_500_and_cools_it_down() {
    let (site, before, after) = under(GatewayKind::LiteLlm, "backend-unreachable");
    let failed = "litellm_proxy_failed_requests_metric_total";
    let refused = [("exception_class", "Openai.InternalServerError"), ("exception_status", "500")];
    assert!(rise(&before, &after, failed, &refused) > 20.0);
    // With all of them cooling down, the router itself refuses.
    let cooling = [("exception_class", "RouterRateLimitError"), ("exception_status", "None")];
    assert!(rise(&before, &after, failed, &cooling) > 100.0);
    let latency = "litellm_request_total_latency_metric_count";
    assert!(rise(&before, &after, latency, &[]) < 60.0, "only what was under way succeeds");
    assert!(value(&after, "litellm_deployment_cooled_down_total", &[("exception_status", "500")]) > 10.0);
    assert!(after.contains("litellm_model_name=\"llama-3.1-8b-instruct\",model_id=\"vllm-llama-8b-0\"} 2.0"));
    assert_eq!(site.fleets()[0].in_flight(), 0, "the engines idle");
}

#[test]
fn litellm_retries_elsewhere_when_one_backend_is_dead() {
    let (_, before, after) = under(GatewayKind::LiteLlm, "backend-unreachable:replica=2");
    let tries = "litellm_deployment_failure_responses_total";
    let dead = [("model_id", "vllm-llama-8b-2"), ("exception_status", "500")];
    assert!(rise(&before, &after, tries, &dead) > 20.0);
    let failed = rise(&before, &after, "litellm_proxy_failed_requests_metric_total", &[]);
    let total = rise(&before, &after, "litellm_proxy_total_requests_metric_total", &[]);
    assert!(failed < 0.05 * total, "{failed} of {total}");
    let alive = [("model_id", "vllm-llama-8b-1"), ("litellm_model_name", "meta-llama/Llama-3.1-8B-Instruct")];
    assert_eq!(value(&after, "litellm_deployment_state", &alive), 0.0);
    assert_eq!(value(&after, "litellm_deployment_state", &[("model_id", "vllm-llama-8b-2")]), 1.0 + 2.0);
}

#[test]
fn a_cooled_deployment_reads_2_for_ever_on_a_series_of_its_own() {
    let (mut site, _, _) = under(GatewayKind::LiteLlm, "backend-unreachable:replica=2");
    site.clear_all();
    site.advance_to(START + 420.0);
    let page = site.gateway_page();
    let state = |name| {
        value(&page, "litellm_deployment_state", &[("model_id", "vllm-llama-8b-2"), ("litellm_model_name", name)])
    };
    assert_eq!((state("meta-llama/Llama-3.1-8B-Instruct"), state("llama-3.1-8b-instruct")), (0.0, 2.0));
}

#[test]
fn slow_engines_are_given_up_with_408_and_leave_no_trace_in_the_latencies() {
    let (site, before, after) = under(GatewayKind::LiteLlm, "backend-timeout");
    let timeouts = [("exception_class", "Openai.Timeout"), ("exception_status", "408")];
    assert!(rise(&before, &after, "litellm_proxy_failed_requests_metric_total", &timeouts) > 200.0);
    let total = |page: &str| value(page, "litellm_request_total_latency_metric_count", &[]);
    assert!(total(&after) - total(&before) < 200.0, "{}", total(&after) - total(&before));
    assert!(site.fleets()[0].in_flight() > 20);
    let (_, before, after) = under(GatewayKind::Dynamo, "backend-timeout");
    let late = [("error_type", "response_timeout"), ("status", "error")];
    assert!(rise(&before, &after, "dynamo_frontend_requests_total", &late) > 200.0);
}

#[test]
fn a_hung_engine_behind_a_gateway_times_out_too() {
    let mut site = site(GatewayKind::LiteLlm);
    let fleet = site.fleet_mut(0).expect("one fleet");
    fleet.inject("stalled-engine:replica=0".parse().expect("a fault")).expect("there is a replica 0");
    site.advance_to(START + 200.0);
    let page = site.gateway_page();
    let hung = [("exception_status", "408"), ("model_id", "vllm-llama-8b-0")];
    assert!(value(&page, "litellm_deployment_failure_responses_total", &hung) > 10.0);
}

#[test]
fn a_key_over_its_limit_gets_429_and_others_do_not() {
    let (_, before, after) = under(GatewayKind::LiteLlm, "rate-limited:key=0,rpm=60");
    let limited = |alias| {
        let labels = [("exception_class", "HTTPException"), ("exception_status", "429"), ("api_key_alias", alias)];
        rise(&before, &after, "litellm_proxy_failed_requests_metric_total", &labels)
    };
    assert!(limited("alpha-key") > 500.0);
    assert_eq!(limited("beta-key"), 0.0);
}

#[test]
fn backends_at_their_limit_are_left_alone_until_the_router_has_none() {
    let limit = GatewayFault::RateLimited { scope: LimitScope::Deployments, key: None, rpm: 30 };
    let (site, before, after) = under(GatewayKind::LiteLlm, &limit.to_string());
    let failed = "litellm_proxy_failed_requests_metric_total";
    assert!(rise(&before, &after, failed, &[("exception_class", "RouterRateLimitError")]) > 100.0);
    assert!(value(&after, "litellm_deployment_cooled_down_total", &[("exception_status", "429")]) > 5.0);
    assert!(count(&site, Outcome::AllCooling) > 100);
}

#[test]
fn an_unknown_model_is_400_at_litellm_and_uncounted_at_dynamo_once_it_vanished() {
    let (site, before, after) = under(GatewayKind::LiteLlm, "gateway-misroute:share=0.5");
    let unknown = [("exception_class", "ProxyModelNotFoundError"), ("requested_model", "other")];
    let failed = rise(&before, &after, "litellm_proxy_failed_requests_metric_total", &unknown);
    assert!(failed > 500.0 && count(&site, Outcome::UnknownModel) as f64 == failed, "{failed}");
    let (_, before, after) = under(GatewayKind::Dynamo, "gateway-misroute:share=0.5");
    let unknown = [("error_type", "not_found"), ("model", "unknown_model")];
    assert!(rise(&before, &after, "dynamo_frontend_requests_total", &unknown) > 500.0);
    let (site, before, after) = under(GatewayKind::Dynamo, "gateway-misroute");
    assert!(rise(&before, &after, "dynamo_frontend_requests_total", &[]) < 60.0);
    assert!(before.contains("dynamo_frontend_model_ready{") && !after.contains("dynamo_frontend_model_ready{"));
    assert!(count(&site, Outcome::Vanished) > 1_000);
}

#[test]
fn dynamo_says_unavailable_until_the_lease_is_over_and_then_nothing() {
    let mut site = site(GatewayKind::Dynamo);
    site.inject(fault("backend-unreachable")).expect("possible");
    site.advance_to(START + 130.0);
    let page = site.gateway_page();
    let unavailable = [("error_type", "unavailable"), ("status", "error")];
    assert!(value(&page, "dynamo_frontend_requests_total", &unavailable) > 50.0);
    let cannot = [("class", "Unavailable"), ("reason", "transport.cannot_connect")];
    let early = value(&page, "dynamo_frontend_failures_total", &cannot);
    site.advance_to(START + 240.0);
    let page = site.gateway_page();
    assert!(value(&page, "dynamo_frontend_failures_total", &cannot) < 2.0 * early, "uncounted after the lease");
    assert!(!page.contains("dynamo_frontend_model_ready{") && !page.contains("worker_registered{"));
    site.clear_all();
    site.advance_to(START + 300.0);
    assert!(site.gateway_page().contains("dynamo_frontend_model_ready{"));
}

#[test]
fn a_lost_worker_is_unregistered_and_the_others_serve() {
    let mut site = site(GatewayKind::Dynamo);
    let fleet = site.fleet_mut(0).expect("one fleet");
    fleet.inject("lost-replica:replica=1".parse().expect("a fault")).expect("there is a replica 1");
    site.advance_to(START + 140.0);
    assert_eq!(value(&site.gateway_page(), "dynamo_component_router_worker_registered", &[]), 2.0);
    assert!(count(&site, Outcome::Dropped) > 0 && count(&site, Outcome::ConnectFailed) > 0);
    let failed = count(&site, Outcome::ConnectFailed);
    site.advance_to(START + 200.0);
    assert_eq!(count(&site, Outcome::ConnectFailed), failed);
}

#[test]
fn wrong_keys_are_401_on_a_deployment_that_was_never_called() {
    let (site, before, after) = under(GatewayKind::LiteLlm, "auth-misconfigured:key=all");
    let refused = [("exception_status", "401"), ("model_id", "vllm-llama-8b-0")];
    assert!(rise(&before, &after, "litellm_proxy_failed_requests_metric_total", &refused) > 1_000.0);
    assert!(rise(&before, &after, "litellm_deployment_total_requests_total", &[]) < 60.0);
    assert_eq!(site.fleets()[0].in_flight(), 0);
    let (_, before, after) = under(GatewayKind::LiteLlm, "auth-misconfigured:key=1,status=403");
    let refused = |alias| {
        let labels = [("exception_status", "403"), ("api_key_alias", alias)];
        rise(&before, &after, "litellm_proxy_failed_requests_metric_total", &labels)
    };
    assert!(refused("beta-key") > 300.0 && refused("alpha-key") == 0.0);
}

#[test]
fn a_slow_callout_delays_requests_while_the_engines_idle() {
    let (site, before, after) = under(GatewayKind::LiteLlm, "upstream-bottleneck");
    let mean = |name: &str| {
        let part = |suffix: &str| rise(&before, &after, &format!("{name}_{suffix}"), &[]);
        part("sum") / part("count")
    };
    let overhead = mean("litellm_overhead_latency_metric");
    let (total, backend) = (mean("litellm_request_total_latency_metric"), mean("litellm_llm_api_latency_metric"));
    assert!(overhead > 3.0 && total > backend + 3.0 && backend < 8.0, "{overhead} {total} {backend}");
    assert!(mean("litellm_llm_api_time_to_first_token_metric") < 0.5);
    assert!(mean("litellm_guardrail_latency_seconds") > 3.0);
    let stats = site.fleets()[0].replicas()[0].stats().expect("up");
    assert!(stats.kv_usage < 0.25 && stats.waiting == 0, "{stats:?}");
    for (kind, name) in [
        (GatewayKind::Dynamo, "dynamo_frontend_stage_duration_seconds"),
        (GatewayKind::Epp, "llm_d_epp_plugin_duration_seconds"),
        (GatewayKind::EppObjective, "inference_extension_plugin_duration_seconds"),
    ] {
        let (_, before, after) = under(kind, "upstream-bottleneck");
        let part = |suffix: &str| rise(&before, &after, &format!("{name}_{suffix}"), &[]);
        assert!(part("sum") / part("count") > 3.0, "{kind:?}");
    }
}

#[test]
fn a_router_without_workers_says_so_and_shows_them_as_gone() {
    let (_, before, after) = under(GatewayKind::Smg, "backend-unreachable");
    let answers = |code| rise(&before, &after, "smg_http_responses_total", &[("status_code", code)]);
    assert!(answers("502") > 50.0 && answers("503") > 500.0, "{} {}", answers("502"), answers("503"));
    let errors = [("error_type", "no_workers")];
    assert_eq!(rise(&before, &after, "smg_router_request_errors_total", &errors), answers("503"));
    assert_eq!((value(&before, "smg_worker_health", &[]), value(&after, "smg_worker_health", &[])), (3.0, -3.0));
    assert_eq!(value(&after, "smg_worker_pool_size", &[]), 0.0);
}

#[test]
fn dynamo_sees_the_first_token_of_requests_that_never_end() {
    let mut site = site(GatewayKind::Dynamo);
    let fleet = site.fleet_mut(0).expect("one fleet");
    for replica in 0..3 {
        fleet.inject(super::super::Fault::StalledEngine { replica }).expect("it is there");
    }
    site.advance_to(START + 180.0);
    let page = site.gateway_page();
    let counted = |name: &str| value(&page, name, &[]);
    let first = counted("dynamo_frontend_time_to_first_token_seconds_count");
    assert!(first > count(&site, Outcome::Success) as f64 + 10.0);
    assert_eq!(counted("dynamo_frontend_request_duration_seconds_count"), counted("dynamo_frontend_requests_total"));
}

#[test]
fn a_blind_router_fills_one_replica_while_the_others_idle() {
    for kind in [GatewayKind::Epp, GatewayKind::Dynamo, GatewayKind::Smg] {
        let (site, _, _) = under(kind, "blind-scorer");
        let stats = |i: usize| site.fleets()[0].replicas()[i].stats().expect("up");
        assert!(stats(0).waiting > 10 && stats(0).kv_usage > 0.8, "{kind:?} {:?}", stats(0));
        assert!(stats(1).waiting == 0 && stats(1).kv_usage < 0.3, "{kind:?} {:?}", stats(1));
    }
}

#[test]
fn an_overloaded_gateway_queues_before_it_works_or_turns_away_if_told_to() {
    let (_, before, after) = under(GatewayKind::LiteLlm, "gateway-overload:factor=40");
    let queue = |suffix: &str| rise(&before, &after, &format!("litellm_request_queue_time_seconds_{suffix}"), &[]);
    assert!(queue("sum") / queue("count") > 2.0, "{} {}", queue("sum"), queue("count"));
    assert!(value(&after, "litellm_in_flight_requests", &[]) > 30.0);
    for (kind, name) in [
        (GatewayKind::LiteLlm, "litellm_admission_rejected_requests_total"),
        (GatewayKind::Dynamo, "dynamo_frontend_model_rejection_total"),
    ] {
        let spec = GatewaySpec { most_queue_seconds: Some(1.0), ..GatewaySpec::new(kind) };
        let mut site = Site::new(spec, vec![FleetSpec::sized(3)], 1, START).expect("valid");
        site.inject(fault("gateway-overload")).expect("possible");
        site.advance_to(START + 120.0);
        let page = site.gateway_page();
        assert_eq!(value(&page, name, &[]), count(&site, Outcome::Overloaded) as f64);
        assert!(count(&site, Outcome::Overloaded) > 100);
    }
}

#[test]
fn a_picker_counts_errors_by_code_and_ready_endpoints_in_either_generation_of_names() {
    let (_, before, after) = under(GatewayKind::Epp, "backend-unreachable");
    let code = [("error_code", "ServiceUnavailable")];
    assert!(rise(&before, &after, "llm_d_epp_request_error_total", &code) > 500.0);
    assert_eq!(
        value(&after, "inference_objective_request_error_total", &code),
        value(&after, "llm_d_epp_request_error_total", &code)
    );
    assert!(!before.contains("error_total"), "born with the first error");
    let mut old = site(GatewayKind::EppObjective);
    let fleet = old.fleet_mut(0).expect("one fleet");
    fleet.inject("lost-replica:replica=1".parse().expect("a fault")).expect("there is a replica 1");
    old.advance_to(START + 150.0);
    let page = old.gateway_page();
    assert_eq!(value(&page, "inference_pool_ready_pods", &[]), 2.0);
    assert!(!page.contains("llm_d_epp"));
}

#[test]
fn a_site_recovers_within_two_minutes_of_any_fault() {
    for kind in KINDS {
        for all in GatewayFault::ALL {
            let mut site = site(kind);
            if site.inject(all).is_err() {
                continue;
            }
            site.advance_to(START + 300.0);
            site.clear(all);
            site.advance_to(START + 420.0);
            let settled = count(&site, Outcome::Success);
            let others: u64 = site.ledger().ended.values().sum::<u64>() - settled;
            site.advance_to(START + 480.0);
            let failed = site.ledger().ended.values().sum::<u64>() - count(&site, Outcome::Success) - others;
            assert!(count(&site, Outcome::Success) > settled + 400 && failed == 0, "{kind:?} {all}: {failed}");
        }
    }
}

#[test]
fn a_gateway_fault_reads_as_it_is_written_and_bad_ones_are_explained() {
    for all in GatewayFault::ALL {
        assert_eq!(fault(&all.to_string()), all);
        assert_eq!(fault(all.name()), all);
    }
    let error = |text: &str| format!("{:#}", text.parse::<GatewayFault>().expect_err("not a fault"));
    assert!(error("nonsense").starts_with("unknown gateway fault `nonsense`, expected one of backend-unreachable,"));
    assert_eq!(
        error("gateway-misroute:share=2"),
        "gateway fault `gateway-misroute`: parameter `share=2`: expected 0 to 1"
    );
    let unknown = site(GatewayKind::LiteLlm).inject(fault("rate-limited:key=5")).expect_err("two keys");
    assert_eq!(unknown.to_string(), "gateway fault `rate-limited:scope=key,key=5,rpm=60`: the gateway has keys 0 to 1");
}

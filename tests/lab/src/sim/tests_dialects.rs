//! The promises of the dialects: pages as real ones look, and numbers that add up with the requests.

use std::io::Write as _;
use std::process::{Command, Stdio};

use super::captured::{assert_like, shapes, value};
use super::spec::GpuExporter;
use super::{Dialect, Fault, Fleet, FleetSpec, Scraped, TargetKind};

const START: f64 = 1_780_000_000.0;
const SGLANG: &str = include_str!("../../../fixtures/sglang/0.5.23-queue-saturation.prom");

fn warm(dialect: Dialect) -> Fleet {
    let spec = FleetSpec { dialect, ..FleetSpec::sized(2) };
    let mut fleet = Fleet::new(spec, 1, START).expect("the spec is valid");
    fleet.advance_to(START + 300.0);
    fleet
}

fn first_page(fleet: &Fleet) -> String {
    fleet.page(&fleet.targets()[0]).expect("up")
}

/// Panics unless promtool takes the page.
pub fn assert_well_formed(page: &str, job: &str) {
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool is installed");
    promtool.stdin.take().expect("piped").write_all(page.as_bytes()).expect("it reads");
    let output = promtool.wait_with_output().expect("it ends");
    let errors = String::from_utf8_lossy(&output.stderr);
    // 3 is for opinions on names.
    assert!(matches!(output.status.code(), Some(0 | 3)), "{job}: {errors}");
}

#[test]
fn every_dialect_serves_well_formed_pages_and_reads_as_it_is_written() {
    for dialect in Dialect::ALL {
        let fleet = warm(dialect);
        let page = first_page(&fleet);
        assert_well_formed(&page, dialect.name());
        assert!(shapes(&page).len() >= 9, "{dialect}");
        assert_eq!(dialect.to_string().parse::<Dialect>().expect("its own name"), dialect);
    }
    let error = "nonsense".parse::<Dialect>().expect_err("no dialect");
    assert!(error.to_string().starts_with("unknown dialect `nonsense`, expected one of vllm, vllm-underscored,"));
}

#[test]
fn the_engine_is_the_same_whatever_its_page_says() {
    let ended = Dialect::ALL.map(|dialect| warm(dialect).ended());
    assert!(ended.iter().all(|other| *other == ended[0]), "{ended:?}");
}

#[test]
fn a_vllm_page_under_another_prefix_has_the_same_numbers() {
    // The help of one family names another one, and keeps its colon.
    let under = |dialect| first_page(&warm(dialect)).replace("equals vllm:", "equals ");
    let vllm = under(Dialect::Vllm);
    assert_eq!(under(Dialect::VllmUnderscored), vllm.replace("vllm:", "vllm_"));
    assert_eq!(under(Dialect::KserveVllm), vllm.replace("vllm:", "kserve_vllm:"));
    let ray = under(Dialect::RayVllm);
    let tokens = value(&vllm, "vllm:generation_tokens_total", &[]);
    assert_eq!(value(&ray, "ray_vllm_generation_tokens_total", &[("ReplicaId", "vllm-llama-8b-0")]), tokens);
    assert!(tokens > 1_000.0 && !ray.contains("process_") && !ray.contains("http_requests"));
}

#[test]
fn a_sglang_page_could_be_a_captured_one() {
    let page = first_page(&warm(Dialect::Sglang));
    // An abort was in no capture; everything else was.
    let quiet: String = page.lines().filter(|l| !l.contains("num_aborted")).map(|l| format!("{l}\n")).collect();
    assert_like(&quiet, SGLANG);
    assert_eq!(first_page(&warm(Dialect::SglangUnderscored)), page.replace("sglang:", "sglang_"));
}

#[test]
fn sglang_counts_requests_and_tokens_when_they_end() {
    let fleet = warm(Dialect::Sglang);
    let stats = fleet.replicas()[0].stats().expect("up");
    let page = first_page(&fleet);
    let ended = (stats.finished_stop + stats.finished_length) as f64;
    assert_eq!(value(&page, "sglang:num_requests_total", &[]), ended);
    assert_eq!(value(&page, "sglang:e2e_request_latency_seconds_count", &[]), ended);
    assert_eq!(value(&page, "sglang:generation_tokens_total", &[]), stats.request_generation_tokens.sum);
    assert!(stats.generation_tokens as f64 > stats.request_generation_tokens.sum);
    let open = value(&page, "sglang:http_requests_total", &[]) - ended;
    assert_eq!(value(&page, "sglang:http_requests_active", &[]), open);
    let pool = value(&page, "sglang:max_total_num_tokens", &[]);
    let parts = ["available", "evictable", "used"].map(|p| value(&page, &format!("sglang:kv_{p}_tokens"), &[]));
    assert_eq!(parts.iter().sum::<f64>(), pool);
    let throughput = value(&page, "sglang:gen_throughput", &[]);
    assert!((200.0..2_000.0).contains(&throughput), "{throughput}");
}

#[test]
fn sglang_retracts_where_vllm_preempts_and_counts_from_the_first_event_on() {
    let mut fleet = warm(Dialect::Sglang);
    assert!(!first_page(&fleet).contains("num_retracted_requests_total"));
    fleet.inject(Fault::LongerPrompts { factor: 4.0 }).expect("pool-wide");
    fleet.advance_to(START + 600.0);
    let stats = fleet.replicas()[0].stats().expect("up");
    assert!(stats.preemptions > 0);
    let page = first_page(&fleet);
    assert_eq!(value(&page, "sglang:num_retracted_requests_total", &[]), stats.preemptions as f64);
    assert!(value(&page, "sglang:token_usage", &[]) > 0.6 && value(&page, "sglang:num_queue_reqs", &[]) > 5.0);
    assert_like(
        &page
            .lines()
            .filter(|l| !l.contains("num_retracted_requests") && !l.contains("num_aborted"))
            .map(|l| format!("{l}\n"))
            .collect::<String>(),
        SGLANG,
    );
}

#[test]
fn a_hung_sglang_keeps_its_last_gauges_while_requests_pile_up_at_its_door() {
    let mut fleet = warm(Dialect::Sglang);
    fleet.inject(Fault::StalledEngine { replica: 0 }).expect("there is a replica 0");
    fleet.advance_to(START + 310.0);
    let before = first_page(&fleet);
    fleet.advance_to(START + 370.0);
    let after = first_page(&fleet);
    for gauge in ["sglang:num_running_reqs", "sglang:num_queue_reqs", "sglang:token_usage"] {
        assert_eq!(value(&before, gauge, &[]), value(&after, gauge, &[]));
    }
    let active = |page| value(page, "sglang:http_requests_active", &[]);
    assert!(active(&after) > active(&before) + 100.0, "{} {}", active(&before), active(&after));
}

#[test]
fn a_generic_exporter_tells_what_the_engine_did_in_its_own_words() {
    let mut fleet = warm(Dialect::Generic);
    fleet.inject("client-errors:share=0.5,status=5xx".parse().expect("a fault")).expect("pool-wide");
    fleet.advance_to(START + 400.0);
    let stats = fleet.replicas()[0].stats().expect("up");
    let page = first_page(&fleet);
    assert_eq!(value(&page, "llm_error_total", &[]), stats.http_5xx as f64);
    assert_eq!(value(&page, "llm_requests_total", &[]), (stats.http_2xx + stats.http_5xx) as f64);
    assert_eq!(value(&page, "llm_ttft_seconds_count", &[]), stats.ttft.count() as f64);
    assert!(value(&page, "llm_tokens_per_second", &[]) > 50.0 && stats.http_5xx > 50);
}

#[test]
fn tgi_and_llama_cpp_say_nothing_of_the_first_token() {
    let tgi = first_page(&warm(Dialect::Tgi));
    assert!(!tgi.contains("first_token") && !tgi.contains("_total"));
    assert_eq!(value(&tgi, "tgi_request_success", &[]), value(&tgi, "tgi_request_duration_count", &[]));
    let llama = first_page(&warm(Dialect::LlamaCpp));
    assert!(!llama.contains("first_token") && !llama.contains('{'));
    assert!(value(&llama, "llamacpp:tokens_predicted_total", &[]) > 10_000.0);
    let trtllm = first_page(&warm(Dialect::Trtllm));
    let finished = value(&trtllm, "trtllm_request_success_total", &[]);
    assert_eq!(finished, value(&trtllm, "trtllm_num_requests_completed_total", &[]));
}

#[test]
fn exporters_can_be_left_out_or_replaced() {
    let fleet = |gpu_exporter, kube_state_metrics| {
        let spec = FleetSpec { gpu_exporter, kube_state_metrics, ..FleetSpec::sized(2) };
        let mut fleet = Fleet::new(spec, 1, START).expect("valid");
        fleet.advance_to(START + 60.0);
        fleet
    };
    let bare = fleet(GpuExporter::Absent, false);
    assert!(bare.targets().iter().all(|target| matches!(target.kind, TargetKind::Serving(_))));
    let other = fleet(GpuExporter::NvidiaGpuExporter, true);
    let target = other.targets().into_iter().find(|t| t.job == "nvidia-gpu-exporter").expect("one node");
    let page = Scraped::page(&other, &target).expect("up");
    assert_well_formed(&page, target.job);
    assert_eq!(page.matches("nvidia_smi_utilization_gpu_ratio{uuid=\"").count(), 2);
    let util = value(&page, "nvidia_smi_utilization_gpu_ratio", &[]) / 2.0;
    assert!((0.1..=1.0).contains(&util), "{util}");
}

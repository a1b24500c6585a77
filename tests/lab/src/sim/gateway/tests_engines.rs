//! The promises of a gateway about what happens inside the engines behind it.

use super::super::captured::value;
use super::super::{Dialect, Fault, FleetSpec, History, Scraped, TargetKind};
use super::ledger::Outcome;
use super::{GatewayKind, GatewaySpec, Site};

const START: f64 = 1_780_000_000.0;

/// A site of one fleet that can have the fault, after two minutes of health and three of the fault.
fn under(kind: GatewayKind, text: &str) -> Site {
    let fault: Fault = text.parse().expect("a known fault");
    let spec = FleetSpec::for_fault(&fault, 3);
    let mut site = Site::new(GatewaySpec::new(kind), vec![spec], 1, START).expect("valid specs");
    site.advance_to(START + 120.0);
    site.fleet_mut(0).expect("one fleet").inject(fault).expect("the spec has what it spoils");
    site.advance_to(START + 300.0);
    site
}

fn count(site: &Site, outcome: Outcome) -> u64 {
    site.ledger().ended_as(0, outcome)
}

#[test]
fn a_gateway_hears_of_every_request_that_leaves_an_engine() {
    for fault in Fault::ALL {
        let site = under(GatewayKind::LiteLlm, &fault.to_string());
        let ended: u64 = site.ledger().ended.values().sum();
        let started: u64 = site.ledger().started.values().sum();
        assert_eq!(started, ended + site.in_flight(), "{fault}");
        let sent = site.gateway.flows.values().filter(|flow| flow.replica.is_some()).count() as u64;
        let held: u64 = site.gateway.backends[0].iter().map(|backend| backend.in_flight).sum();
        assert_eq!(held, sent, "{fault}");
        // What the API servers still have to send has left the schedulers.
        let unsent = site.fleets()[0].unheard() as u64;
        let inside = site.fleets()[0].in_flight();
        assert!(sent <= inside + unsent, "{fault}: {sent} sent, {inside} in the engines, {unsent} on their way");
        assert!(count(&site, Outcome::Success) > 200, "{fault}: {:?}", site.ledger().ended);
    }
}

#[test]
fn a_client_that_leaves_early_is_no_timeout() {
    let site = under(GatewayKind::LiteLlm, "client-aborts");
    let (gone, late) = (count(&site, Outcome::ClientGone), count(&site, Outcome::TimedOut));
    assert!(gone > 100 && late == 0, "{gone} gone, {late} timed out");
}

#[test]
fn an_error_inside_the_engine_fails_at_gateways_that_read_answers() {
    let failed = |kind| {
        let site = under(kind, "engine-errors:share=0.3");
        (count(&site, Outcome::BackendFailed), site.fleets()[0].ended().finished)
    };
    for kind in [GatewayKind::LiteLlm, GatewayKind::Dynamo] {
        let (failed, finished) = failed(kind);
        assert!(failed > 100 && failed < finished, "{kind:?}: {failed} of {finished}");
    }
    assert_eq!(failed(GatewayKind::Smg).0, 0);
}

#[test]
fn a_replica_that_answers_5xx_is_tried_elsewhere() {
    let site = under(GatewayKind::LiteLlm, "replica-errors:replica=1,share=0.5");
    let tries = site.ledger().tries.iter().filter(|(row, _)| row.outcome == Outcome::BackendFailed);
    let tries: u64 = tries.map(|(_, count)| count).sum();
    assert!(tries > 20 && count(&site, Outcome::BackendFailed) < tries, "{tries} failed tries");
}

#[test]
fn replicas_that_are_added_get_requests_and_addresses_of_their_site() {
    let named = |name: &str| FleetSpec { deployment: name.to_owned(), ..FleetSpec::sized(2) };
    let spec = GatewaySpec::new(GatewayKind::Epp);
    let mut site = Site::new(spec, vec![named("chat"), named("code")], 1, START).expect("valid specs");
    for i in 0..2 {
        let fault = "scale-up:by=2".parse().expect("a known fault");
        site.fleet_mut(i).expect("two fleets").inject(fault).expect("any fleet can grow");
    }
    site.advance_to(START + 120.0);
    for fleet in site.fleets() {
        assert!(fleet.replicas().iter().all(|replica| replica.sent > 20));
    }
    let targets = site.targets();
    let instances: std::collections::BTreeSet<_> = targets.iter().map(|target| &target.instance).collect();
    assert_eq!(instances.len(), targets.len());
}

#[test]
fn lost_pages_are_lost_in_every_dialect_and_behind_every_gateway() {
    for dialect in Dialect::ALL {
        let spec = FleetSpec { dialect, ..FleetSpec::sized(2) };
        let mut site = Site::new(GatewaySpec::new(GatewayKind::LiteLlm), vec![spec], 1, START).expect("valid specs");
        let page = |site: &Site, i| {
            let targets = site.targets();
            let target = targets.iter().find(|target| target.kind == TargetKind::Serving(i)).expect("two replicas");
            Scraped::families(site, target)
        };
        let mut inject = |text: &str| {
            let fleet = site.fleet_mut(0).expect("one fleet");
            fleet.clear_all();
            fleet.inject(text.parse().expect("a known fault")).expect("any fleet can have it");
            page(&site, 1)
        };
        assert!(inject("metrics-missing:replica=1").is_none(), "{dialect}");
        let left = inject("metrics-missing:page=stats,replica=1").expect("it answers");
        assert!(left.iter().all(|family| !family.name.starts_with(dialect.beginning())), "{dialect}");
        let whole = page(&site, 0).expect("it answers");
        assert!(whole.iter().any(|family| family.name.starts_with(dialect.beginning())), "{dialect}");
    }
}

#[test]
fn a_sparse_history_of_a_site_keeps_what_is_wanted_in_any_dialect() {
    let specs = [Dialect::RayVllm, Dialect::Vllm].map(|dialect| FleetSpec { dialect, ..FleetSpec::sized(2) });
    let mut site = Site::new(GatewaySpec::new(GatewayKind::LiteLlm), specs.into(), 1, START).expect("valid specs");
    let end = START + 1_200.0;
    let mut history = History::new(15.0).sparse(120.0, &[(end - 300.0, end)]).spread();
    history = history.only(|name| name.starts_with("ray_vllm_num_requests") || name.starts_with("litellm_proxy"));
    history.record(&mut site, end);
    let mut bytes = Vec::new();
    history.write(&mut bytes).expect("memory");
    let text = String::from_utf8(bytes).expect("text");
    let names: std::collections::BTreeSet<_> =
        text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split('{').next()).collect();
    let wanted = |name: &&str| *name == "up" || name.starts_with("ray_vllm_num_req") || name.starts_with("litellm_pr");
    assert!(names.iter().all(wanted) && names.len() > 4, "{names:?}");
    let gateway = text.lines().filter(|line| line.starts_with("up{") && line.contains("10.42.210.10")).count();
    // Every two minutes of fifteen, then four times a minute.
    assert!((24..=32).contains(&gateway), "{gateway}");
}

#[test]
fn nvidia_smi_tells_of_broken_memory_and_not_of_lost_gpus() {
    let page = |text: &str| {
        let spec =
            FleetSpec { gpu_exporter: super::super::spec::GpuExporter::NvidiaGpuExporter, ..FleetSpec::sized(2) };
        let mut fleet = super::super::Fleet::new(spec, 1, START).expect("valid");
        fleet.advance_to(START + 30.0);
        fleet.inject(text.parse().expect("a known fault")).expect("there is a replica 1");
        fleet.advance_to(START + 60.0);
        let target = fleet.targets().into_iter().find(|target| target.job == "nvidia-gpu-exporter").expect("one node");
        fleet.page(&target)
    };
    let broken = page("gpu-hardware-fault:replica=1,xid=48").expect("it answers");
    for name in ["ecc_errors_uncorrected_volatile_total", "remapped_rows_uncorrectable", "gpu_recovery_action"] {
        assert!(value(&broken, &format!("nvidia_smi_{name}"), &[]) > 0.0, "{name}");
    }
    let lost = page("gpu-hardware-fault:replica=1,xid=79").expect("it answers");
    assert_eq!(lost.matches("nvidia_smi_temperature_gpu{").count(), 1);
    assert!(page("metrics-missing:page=gpu").is_none());
}

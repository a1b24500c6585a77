//! Tests of which gateway is whose.

use std::sync::LazyLock;

use super::*;
use crate::names::SERVICE;
use crate::{DetectionResult, gateway_pools, pools, pools_of_namespace, read_detection, read_detection_of};
use findings::Request;
use findings::request::USUAL_WINDOW;
use findings::scope::fits;
use knowledge::playbook::{Library, load};
use knowledge::signal::matchers;

static LIBRARY: LazyLock<Library> = LazyLock::new(|| load(None).unwrap());

fn row(labels: &[(&str, &str)]) -> Labels {
    labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn vllm(namespace: &str, model: &str) -> Labels {
    row(&[("__name__", "vllm:num_requests_running"), ("namespace", namespace), ("model_name", model)])
}

fn dynamo(namespace: &str, model: &str) -> Labels {
    row(&[("__name__", "dynamo_frontend_inflight_requests"), ("namespace", namespace), ("model", model)])
}

fn scope(dimensions: &[(&str, &str)]) -> Scope {
    Scope { dimensions: row(dimensions), ..Scope::default() }
}

fn found(dimensions: &[(&str, &str)], rows: &[Labels]) -> DetectionResult {
    read_detection(&LIBRARY, &scope(dimensions), rows)
}

/// Returns the matchers of an engine, if it counts.
fn counts(detection: &DetectionResult, engine: &str) -> Option<String> {
    detection.engines.iter().find(|seen| seen.engine == engine).map(|seen| matchers(&seen.matchers))
}

#[test]
fn a_gateway_of_one_model_is_no_evidence_for_a_pool_of_another() {
    let rows = [vllm("llm", "a"), vllm("llm", "b"), dynamo("gateways", "a")];
    let own = found(&[("namespace", "llm"), ("model", "a")], &rows);
    assert_eq!(counts(&own, "dynamo").as_deref(), Some("model=~\"a|\""));
    let other = found(&[("namespace", "llm"), ("model", "b")], &rows);
    assert_eq!((counts(&other, "dynamo"), counts(&other, "vllm").is_some()), (None, true));
    assert!(other.apart["dynamo"].contains("model=`b`") && other.notes.contains(&other.apart["dynamo"]));
}

#[test]
fn a_gateway_without_models_is_of_the_only_pool_of_its_namespace_unless_another_may_be_in_a_missing_part() {
    let gateway = row(&[("__name__", "litellm_proxy_total_requests_metric_total"), ("namespace", "llm")]);
    let rows = [vllm("llm", "a"), gateway];
    let of = |incomplete: Option<&str>| {
        let scope = scope(&[("namespace", "llm"), ("model", "a")]);
        counts(&read_detection_of(&LIBRARY, &scope, &rows, incomplete), "litellm").is_some()
    };
    assert_eq!([of(None), of(Some("a store is away"))], [true, false]);
}

#[test]
fn what_nobody_has_is_nobodys_engines_nobodys_gateway_and_nobodys_gpu() {
    let gpu = row(&[("__name__", "DCGM_FI_DEV_FB_USED"), ("exported_namespace", "llm")]);
    let nameless = row(&[("__name__", "dynamo_component_inflight_requests")]);
    let rows = [vllm("llm", "a"), dynamo("llm", "a"), nameless, gpu];
    let nowhere = found(&[("namespace", "nope"), ("model", "nope")], &rows);
    let telling = nowhere.engines.iter().filter(|seen| {
        rows.iter().any(|row| {
            row.values().any(|v| v.starts_with(LIBRARY.engines[&seen.engine].detect.as_str()))
                && fits(&seen.matchers, row)
        })
    });
    assert_eq!(telling.map(|seen| seen.engine.as_str()).collect::<Vec<_>>(), Vec::<&str>::new());
    // A neighbour's GPUs are excluded for a pool that exists.
    let rows = [vllm("llm", "a"), row(&[("__name__", "DCGM_FI_DEV_FB_USED"), ("exported_namespace", "train")])];
    let gpus = found(&[("namespace", "llm")], &rows);
    assert_eq!(counts(&gpus, "dcgm").as_deref(), Some("exported_namespace=~\"llm|\""));
}

#[test]
fn a_model_group_of_another_name_is_the_pools_by_its_model_or_by_its_address() {
    let of = "litellm_deployment_total_requests_total";
    let total =
        |model: &str| row(&[("__name__", "litellm_proxy_total_requests_metric_total"), ("requested_model", model)]);
    let behind = |group: &str, model: &str, at: &str| {
        row(&[("__name__", of), ("requested_model", group), ("litellm_model_name", model), ("api_base", at)])
    };
    let mut engine = vllm("llm", "meta-llama/Llama");
    engine.insert("instance".into(), "10.0.0.7:8000".into());
    engine.insert(SERVICE.into(), "chat".into());
    let pool = [("namespace", "llm"), ("model", "meta-llama/Llama")];
    for (model, at, named) in [
        ("hosted_vllm/meta-llama/Llama", "", true),
        ("x", "http://10.0.0.7:8000/v1", true),
        ("x", "http://chat.llm.svc.cluster.local/v1", true),
        ("x", "http://chat.other.svc.cluster.local/v1", false),
        ("other/Llama", "http://10.0.0.8:8000/v1", false),
    ] {
        let rows = [engine.clone(), total("gpt"), total("chat-alias"), behind("chat-alias", model, at)];
        let seen = counts(&found(&pool, &rows), "litellm");
        // Series without a model also count the other group.
        assert_eq!(seen.as_deref(), named.then_some("requested_model=\"chat-alias\""), "{model} {at}");
    }
}

#[test]
fn a_short_name_is_one_of_the_gateways_own_namespace() {
    let of = "litellm_deployment_total_requests_total";
    let mut engine = vllm("team-a", "a");
    engine.insert(SERVICE.into(), "vllm".into());
    engine.insert("pod".into(), "vllm-0".into());
    for (namespace, at, named) in [
        ("team-a", "http://vllm:8000/v1", true),
        ("team-b", "http://vllm:8000/v1", false),
        ("team-b", "http://vllm.team-a:8000/v1", true),
        ("team-a", "http://vllm-0.vllm:8000/v1", true),
        ("team-b", "http://vllm-0.vllm:8000/v1", false),
        ("team-b", "http://vllm-0.vllm.team-a.svc:8000/v1", true),
    ] {
        let total = row(&[
            ("__name__", "litellm_proxy_total_requests_metric_total"),
            ("namespace", namespace),
            ("requested_model", "x"),
        ]);
        let behind = row(&[("__name__", of), ("namespace", namespace), ("requested_model", "x"), ("api_base", at)]);
        let rows = [engine.clone(), total, behind];
        let seen = counts(&found(&[("namespace", "team-a"), ("model", "a")], &rows), "litellm");
        assert_eq!(seen.is_some(), named, "{namespace} {at}");
    }
}

#[test]
fn an_address_of_another_pool_or_of_nobody_outweighs_an_equal_model() {
    let at = |namespace: &str, instance: &str| {
        let mut engine = vllm(namespace, "a");
        engine.insert("instance".into(), instance.into());
        engine
    };
    let gateway = |place: &str, api_base: &str| {
        row(&[
            ("__name__", "litellm_deployment_total_requests_total"),
            ("namespace", place),
            ("instance", "127.0.0.1:4000"),
            ("requested_model", "a"),
            ("litellm_model_name", "a"),
            ("api_base", api_base),
        ])
    };
    for (place, api_base, named) in [
        ("team-a", "http://127.0.0.1:8000/v1", true),
        ("team-b", "http://127.0.0.1:8000/v1", false),
        ("team-a", "http://localhost:8000/v1", true),
        ("team-a", "http://127.0.0.1:8001/v1", false),
        ("gateways", "http://chat.team-a.svc.cluster.local:8000/v1", true),
        ("gateways", "http://chat.staging.svc.cluster.local:8000/v1", false),
        ("team-a", "http://10.9.9.9:8000/v1", false),
    ] {
        let behind = gateway(place, api_base);
        let mut total = behind.clone();
        total.insert("__name__".into(), "litellm_proxy_total_requests_metric_total".into());
        // Some rows of the detection carry no address.
        let nameless = vllm("team-a", "a");
        let rows = [at("team-a", "127.0.0.1:8000"), at("team-b", "127.0.0.1:8000"), nameless, total, behind];
        let of_pool = counts(&found(&[("namespace", "team-a"), ("model", "a")], &rows), "litellm");
        assert_eq!(of_pool.is_some(), named, "{place} {api_base}");
    }
    // An alert of the gateway is about the engine at its address, not about all that have the model.
    let rows = [at("team-a", "127.0.0.1:8000"), at("team-b", "127.0.0.1:8000"), {
        let mut total = gateway("team-b", "http://127.0.0.1:8000/v1");
        total.insert("job".into(), "litellm".into());
        total
    }];
    let mut total = rows[2].clone();
    total.insert("__name__".into(), "litellm_proxy_total_requests_metric_total".into());
    let seen = found(&[("job", "litellm")], &[&rows[..], &[total]].concat());
    assert_eq!(counts(&seen, "vllm").as_deref(), Some("server=\"\",model_name=\"a\",namespace=\"team-b\""));
}

/// An engine, a gateway's total, and what is behind that gateway, each with its cluster and namespace.
fn chain(engine: (&str, &str, &str), gateway: (&str, &str), api_base: &str) -> [Labels; 3] {
    let of = |cluster: &str, mut row: Labels| {
        row.insert("cluster".into(), cluster.into());
        row
    };
    let mut served = vllm(engine.1, engine.2);
    served.insert("instance".into(), "10.0.0.7:8000".into());
    served.insert(SERVICE.into(), "vllm".into());
    let litellm = |name: &str| {
        row(&[
            ("__name__", name),
            ("namespace", gateway.1),
            ("requested_model", engine.2),
            ("litellm_model_name", engine.2),
            ("api_base", api_base),
        ])
    };
    [
        of(engine.0, served),
        of(gateway.0, litellm("litellm_proxy_total_requests_metric_total")),
        of(gateway.0, litellm("litellm_deployment_total_requests_total")),
    ]
}

#[test]
fn an_alert_with_the_gateways_own_labels_goes_on_to_the_engines_at_its_addresses() {
    for at in ["http://10.0.0.7:8000/v1", "http://vllm.llm.svc:8000/v1", "https://vllm.example.com/v1"] {
        let rows = chain(("A", "llm", "a"), ("A", "gateways"), at);
        let seen = found(&[("namespace", "gateways"), ("model", "a")], &rows);
        assert!(counts(&seen, "litellm").is_some() && counts(&seen, "vllm").is_some(), "{at}: {:?}", seen.notes);
    }
}

#[test]
fn of_two_clusters_with_equal_addresses_a_gateway_goes_on_to_its_own() {
    let at = "http://vllm.llm.svc:8000/v1";
    let rows = [chain(("A", "llm", "a"), ("A", "gateways"), at), chain(("B", "llm", "a"), ("B", "gateways"), at)];
    let seen = found(&[("cluster", "A"), ("namespace", "gateways")], &rows.concat());
    assert!(counts(&seen, "vllm").unwrap().contains("cluster=\"A\""), "{seen:?}");
}

#[test]
fn labels_of_two_pools_never_select_a_third() {
    let at = |namespace: &str| format!("http://vllm.{namespace}.svc:8000/v1");
    let own = [
        chain(("A", "team-a", "x"), ("A", "gateways"), &at("team-a")),
        chain(("A", "team-b", "y"), ("A", "gateways"), &at("team-b")),
    ];
    let mut other = chain(("A", "team-a", "y"), ("A", "elsewhere"), "http://10.9.9.9:8000/v1");
    other[0].insert("instance".into(), "10.0.0.9:8000".into());
    other[0].insert(SERVICE.into(), "other".into());
    let rows = [own.concat(), other[..1].to_vec()].concat();
    let seen = found(&[("namespace", "gateways")], &rows);
    let engine = seen.engines.iter().find(|seen| seen.engine == "vllm").unwrap();
    assert!(!fits(&engine.matchers, &other[0]), "{:?}", engine.matchers);
    assert!(fits(&engine.matchers, &own[0][0]));
}

#[test]
fn an_endpoint_of_one_rank_is_its_pods() {
    let mut engine = vllm("llm", "a");
    engine.insert("pod".into(), "vllm-0".into());
    for (endpoint, named) in [
        ("vllm-0", true),
        ("vllm-0-rank-3", true),
        ("vllm-1-rank-0", false),
        ("vllm-0-rank-x", false),
        ("vllm-0-rank-", false),
    ] {
        let ready = row(&[("__name__", "inference_pool_ready_pods"), ("namespace", "llm"), ("name", "pool")]);
        let behind = row(&[
            ("__name__", "llm_d_epp_per_endpoint_queue_size"),
            ("namespace", "llm"),
            ("model_server_endpoint", endpoint),
        ]);
        // Another model in the namespace: the picker is not the pool's by its place alone.
        let rows = [engine.clone(), vllm("llm", "b"), ready, behind];
        let seen = counts(&found(&[("namespace", "llm"), ("model", "a")], &rows), "llm-d");
        assert_eq!(seen.is_some(), named, "{endpoint}");
    }
}

#[test]
fn of_two_clusters_in_one_prometheus_a_gateway_is_of_its_own_cluster_only() {
    let of = |cluster: &str, mut row: Labels| {
        row.insert("cluster".into(), cluster.into());
        row
    };
    let ray = || row(&[("__name__", "ray_serve_num_ongoing_http_requests"), ("namespace", "llm")]);
    let rows = [
        of("A", vllm("llm", "a")),
        of("B", vllm("llm", "a")),
        of("B", vllm("llm", "b")),
        of("A", dynamo("llm", "a")),
        of("B", dynamo("llm", "a")),
        of("A", ray()),
        of("B", ray()),
    ];
    let seen = found(&[("cluster", "A"), ("namespace", "llm"), ("model", "a")], &rows);
    assert_eq!(counts(&seen, "dynamo").as_deref(), Some("model=~\"a|\",cluster=~\"A|\""));
    // Engines of another cluster in a namespace of the same name are not beside this pool.
    assert_eq!(counts(&seen, "ray-serve-llm").as_deref(), Some("namespace=\"llm\",cluster=~\"A|\""));
    let other = found(&[("cluster", "B"), ("namespace", "llm"), ("model", "a")], &rows);
    assert_eq!(counts(&other, "ray-serve-llm"), None);
    let nowhere = found(&[("cluster", "A"), ("model", "a")], &[rows[0].clone(), of("B", dynamo("llm", "a"))]);
    assert_eq!(counts(&nowhere, "dynamo"), None);
}

#[test]
fn of_two_pools_of_one_model_the_gateway_beside_one_is_not_the_others() {
    let rows = [vllm("prod", "a"), vllm("staging", "a"), dynamo("staging", "a")];
    let of = |namespace: &str| counts(&found(&[("namespace", namespace), ("model", "a")], &rows), "dynamo");
    assert_eq!((of("prod"), of("staging").is_some()), (None, true));
}

#[test]
fn a_gateway_that_names_nothing_counts_where_all_that_serves_beside_it_is_the_pool() {
    let ray = row(&[("__name__", "ray_serve_num_ongoing_http_requests"), ("namespace", "llm")]);
    let alone = found(&[("namespace", "llm"), ("model", "a")], &[vllm("llm", "a"), ray.clone()]);
    assert_eq!(counts(&alone, "ray-serve-llm").as_deref(), Some("namespace=\"llm\""));
    let two = found(&[("namespace", "llm"), ("model", "a")], &[vllm("llm", "a"), vllm("llm", "b"), ray]);
    assert_eq!(counts(&two, "ray-serve-llm"), None);
}

#[test]
fn an_alert_of_a_gateway_is_about_the_engines_that_it_names() {
    let with_job = |mut row: Labels, job: &str| {
        row.insert("job".into(), job.into());
        row
    };
    let rows = [
        with_job(vllm("llm", "a"), "vllm"),
        with_job(vllm("llm", "b"), "vllm"),
        with_job(dynamo("gateways", "a"), "frontend"),
    ];
    let seen = found(&[("job", "frontend")], &rows);
    assert_eq!(counts(&seen, "vllm").as_deref(), Some("server=\"\",model_name=\"a\",namespace=\"llm\""));
    let by_rule = found(&[("namespace", "gateways"), ("model", "a")], &rows);
    assert_eq!(counts(&by_rule, "vllm").as_deref(), Some("server=\"\",model_name=\"a\",namespace=\"llm\""));
    let of_engines = found(&[("job", "vllm")], &rows[..2]);
    assert!(counts(&of_engines, "vllm").unwrap().contains("job=\"vllm\""));
}

#[test]
fn a_gateway_of_no_pool_is_shown_by_itself() {
    let rows = [vllm("llm", "a"), dynamo("gateways", "a"), dynamo("gateways", "hosted")];
    let pools = BTreeSet::from([row(&[("namespace", "llm"), ("model", "a")])]);
    let alone = row(&[("namespace", "gateways"), ("model", "hosted")]);
    assert_eq!(gateway_pools(&LIBRARY, &rows, &pools), BTreeSet::from([alone.clone()]));
    let seen = read_detection(&LIBRARY, &Scope { dimensions: alone, ..Scope::default() }, &rows);
    assert_eq!(seen.engines.iter().map(|seen| seen.engine.as_str()).collect::<Vec<_>>(), ["dynamo"]);
}

#[test]
fn a_gateways_models_are_judged_together_beside_engines_elsewhere_too() {
    let split = |namespace: &str, rows: &[Labels]| {
        let request = Request {
            playbook: "gateway-errors".to_owned(),
            screen: true,
            ..Request::without_past(
                scope(&[("namespace", namespace)]),
                jiff::Timestamp::UNIX_EPOCH,
                USUAL_WINDOW,
                std::time::Duration::from_secs(8),
            )
        };
        pools_of_namespace(&LIBRARY, &request, rows).len()
    };
    let rows = [dynamo("gateways", "a"), dynamo("gateways", "b"), vllm("llm", "c"), vllm("llm", "d")];
    assert_eq!([split("gateways", &rows[..2]), split("gateways", &rows), split("llm", &rows)], [0, 0, 2]);
}

#[test]
fn the_series_that_show_a_pools_engines_are_its_replicas() {
    let counted = |labels: Labels, value: f64| prom::Row { labels, value };
    let rows = [counted(vllm("llm", "a"), 300.0), counted(vllm("llm", "b"), 7.0), counted(dynamo("llm", "a"), 2.0)];
    let labels: Vec<Labels> = rows.iter().map(|row| row.labels.clone()).collect();
    assert_eq!(found(&[("namespace", "llm"), ("model", "a")], &labels).replicas_in(&LIBRARY, &rows), 300);
}

#[test]
fn a_value_that_names_no_model_is_no_pool_and_no_other_model() {
    let total = |model: &str| {
        row(&[
            ("__name__", "litellm_proxy_total_requests_metric_total"),
            ("namespace", "gateways"),
            ("requested_model", model),
        ])
    };
    let rows = [total("None"), total("other"), total("a")];
    let alone = BTreeSet::from([row(&[("namespace", "gateways"), ("model", "a")])]);
    assert_eq!(gateway_pools(&LIBRARY, &rows, &BTreeSet::new()), alone);
    assert_eq!(pools(&LIBRARY, &rows), alone);
    // A gateway with only refused requests is still there.
    assert_eq!(pools(&LIBRARY, &rows[..2]), BTreeSet::from([row(&[("namespace", "gateways")])]));
    let rows = [vllm("llm", "a"), total("None"), total("a")];
    let own = BTreeSet::from([row(&[("namespace", "llm"), ("model", "a")])]);
    assert_eq!(gateway_pools(&LIBRARY, &rows, &own), BTreeSet::new());
    let seen = found(&[("namespace", "llm"), ("model", "a")], &rows);
    assert_eq!(counts(&seen, "litellm").as_deref(), Some("requested_model=~\"a|\""));
}

#[test]
fn an_alert_of_one_of_two_gateways_with_equal_models_is_about_that_one() {
    let of = |namespace: &str| {
        row(&[
            ("__name__", "litellm_proxy_total_requests_metric_total"),
            ("namespace", namespace),
            ("requested_model", "a"),
        ])
    };
    let rows = [of("team-a"), of("team-b")];
    let seen = found(&[("namespace", "team-a"), ("model", "a")], &rows);
    let gateway = seen.engines.iter().find(|seen| seen.engine == "litellm").unwrap();
    assert_eq!([fits(&gateway.matchers, &rows[0]), fits(&gateway.matchers, &rows[1])], [true, false]);
}

#[test]
fn a_gateway_without_a_namespace_is_not_the_one_that_an_alert_names_by_its_namespace() {
    let litellm = |labels: &[(&str, &str)]| {
        let name = ("__name__", "litellm_proxy_total_requests_metric_total");
        row(&[&[name, ("requested_model", "m")], labels].concat())
    };
    let alone = [litellm(&[("namespace", "gateway")])];
    let of = |rows: &[Labels]| counts(&found(&[("namespace", "gateway")], rows), "litellm");
    assert_eq!(of(&alone).as_deref(), Some("namespace=~\"gateway|\""), "what is shared lacks the label");
    let rows = [&alone[..], &[litellm(&[("job", "others")])]].concat();
    assert_eq!(of(&rows).as_deref(), Some("namespace=\"gateway\""));
}

#[test]
fn an_alert_of_one_gateway_asks_no_other_kind_of_gateway_and_no_engines_of_that_one() {
    let litellm = row(&[
        ("__name__", "litellm_proxy_total_requests_metric_total"),
        ("namespace", "gateway"),
        ("requested_model", "m"),
    ]);
    let engine = row(&[("__name__", "vllm:num_requests_running"), ("model_name", "others")]);
    let found = found(&[("namespace", "gateway")], &[litellm, engine, dynamo("dynamo", "others")]);
    let engines: Vec<&str> = found.engines.iter().map(|seen| seen.engine.as_str()).collect();
    assert_eq!(engines, ["litellm"]);
}

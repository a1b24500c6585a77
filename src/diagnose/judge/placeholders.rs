//! Values for the placeholders of fix steps, `<pod>` and the like.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::judge::affected_replicas::affected_replicas;
use detect::{DetectionResult, host};
use findings::scope::workload_of;
use findings::{CauseFound, EvidenceResult, Observations, Request};
use knowledge::playbook::{Library, RunsOn};
use knowledge::signal::{EngineKind, Signal};

/// The signal for the wanted number of replicas.
const REPLICAS_WANTED: &str = "replicas_wanted";
/// The signals whose rows are autoscalers.
const AUTOSCALERS: [&str; 2] = ["autoscaler_at_max", "autoscaler_blind"];
/// The prefix that KEDA puts before a ScaledObject's name for its autoscaler.
/// Source: <https://keda.sh/docs/latest/reference/scaledobject-spec/>
const KEDA: &str = "keda-hpa-";

/// The diagnosis that the steps are for.
pub(crate) struct FixContext<'a> {
    pub(crate) request: &'a Request,
    /// The root cause with the best chain.
    pub(crate) cause: &'a CauseFound,
    /// The checks of the symptom.
    pub(crate) symptom: &'a [EvidenceResult],
    pub(crate) observations: &'a Observations,
    pub(crate) detection: &'a DetectionResult,
    /// The node of each pod.
    pub(crate) nodes: &'a BTreeMap<String, String>,
    /// The platform that the replicas run on; `None` if unknown.
    pub(crate) runs_on: Option<RunsOn>,
}

impl FixContext<'_> {
    /// Returns the checks of a node of the chain.
    fn checks_of(&self, node: &str) -> &[EvidenceResult] {
        let via = || self.cause.via.iter().find(|link| link.id == node).map(|link| link.evidence.as_slice());
        if self.cause.id == node { &self.cause.evidence } else { via().unwrap_or(self.symptom) }
    }
}

/// Returns the known values of the placeholders in a node's steps. A replica is inserted only if the node's own
/// checks name it: another link's may be the healthy ones. Values that a shell reads as more than one word are left
/// out: labels are untrusted, and steps are there to be copied.
pub(crate) fn placeholder_values(
    library: &Library,
    about: &FixContext<'_>,
    node: &str,
) -> BTreeMap<&'static str, String> {
    let FixContext { request, observations, detection, nodes, runs_on, .. } = about;
    let own = about.checks_of(node);
    // A gateway's own replicas are not the engines behind it.
    let of_gateways = |signal: &str| library.signals.get(signal).is_some_and(Signal::is_of_gateways);
    let only_gateways = detection.pool(library).any(|(engine, _)| engine.kind == EngineKind::Gateway);
    let of_engines = own.iter().filter(|e| !only_gateways && !of_gateways(&e.signal)).cloned();
    let named = affected_replicas(&of_engines.collect::<Vec<_>>(), observations);
    let replica = only(named.iter().map(String::as_str));
    let in_pods = *runs_on == Some(RunsOn::Pods);
    let pod = replica.filter(|name| in_pods && is_pod(name));
    let at = replica.filter(|name| is_address(name));
    // On an unknown platform the name is a machine's, as GPU exporters have it, unless it is a Deployment's pod.
    let outside = replica.filter(|name| !in_pods && deployment_of(name).is_none());
    let machine = outside.map(host).filter(|host| is_name(host));
    let dimension = |name: &str| request.scope.dimensions.get(name).cloned();
    // A URL may hold a password.
    let api_base = only(detection.backends.iter().map(String::as_str)).filter(|url| !url.contains('@'));
    let backend = at.map(|name| format!("http://{name}")).or_else(|| Some(base(api_base?)));
    let gateways = || gateways(library, observations);
    let autoscaler = only(
        own.iter()
            .filter(|e| AUTOSCALERS.contains(&e.signal.as_str()))
            .flat_map(|e| &e.replicas)
            .map(|r| r.name.as_str()),
    );
    let all: [(&'static str, Option<String>); 14] = [
        ("<pod>", pod.map(str::to_owned)),
        ("<node>", pod.and_then(|pod| nodes.get(pod)).cloned().or(machine.map(str::to_owned))),
        ("<namespace>", dimension("namespace")),
        ("<model>", dimension("model")),
        ("<deployment>", deployment(observations.pool.iter().map(String::as_str)).map(str::to_owned)),
        ("<replicas>", replicas_before(observations).map(|n| n.to_string())),
        ("<service>", only(detection.services.iter().map(String::as_str)).map(str::to_owned)),
        ("<api_base>", api_base.map(str::to_owned)),
        ("<address>", backend.as_deref().and_then(address)),
        ("<backend>", backend),
        ("<gateway>", deployment(gateways()).map(str::to_owned)),
        ("<router>", only(gateways()).filter(|name| is_address(name)).map(|name| host(name).to_owned())),
        ("<hpa>", autoscaler.map(str::to_owned)),
        ("<scaledobject>", autoscaler.and_then(|name| name.strip_prefix(KEDA)).map(str::to_owned)),
    ];
    all.into_iter().filter_map(|(name, value)| Some((name, value.filter(|value| is_word(value))?))).collect()
}

/// Returns the replicas of the gateways that report on the pool.
fn gateways<'a>(library: &'a Library, observations: &'a Observations) -> impl Iterator<Item = &'a str> {
    let gateway_signals =
        observations.signals.iter().filter(|(name, _)| library.signals.get(*name).is_some_and(Signal::is_of_gateways));
    gateway_signals.flat_map(|(_, o)| &o.replicas).map(|r| r.name.as_str()).filter(|name| !name.is_empty())
}

/// Returns a step's text with its placeholders replaced.
pub(crate) fn filled(action: &str, values: &BTreeMap<&'static str, String>) -> String {
    // In one pass, so that inserted text is not searched again.
    let mut out = String::with_capacity(action.len());
    let mut rest = action;
    while let Some(at) = rest.find('<') {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        match values.iter().find_map(|(name, value)| Some((value, from.strip_prefix(name)?))) {
            Some((value, after)) => {
                out.push_str(value);
                rest = after;
            }
            None => {
                out.push('<');
                rest = &from[1..];
            }
        }
    }
    out.push_str(rest);
    out
}

/// Returns the value that all have in common; `None` if there are several, or none.
fn only<'a>(mut values: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let first = values.next()?;
    values.all(|value| value == first).then_some(first)
}

/// Returns true if a shell reads it as one word that is no option, and it has no markup.
fn is_word(value: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '/' | ':' | '@' | '+');
    value.len() <= 253 && value.starts_with(|c: char| c.is_ascii_alphanumeric()) && value.chars().all(plain)
}

/// Returns true if Kubernetes accepts the name for a pod, and it is no address.
fn is_pod(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.');
    name.chars().all(plain) && is_name(name)
}

fn is_name(host: &str) -> bool {
    host.parse::<IpAddr>().is_err()
}

/// Returns true if it is `host:port`.
fn is_address(name: &str) -> bool {
    host(name).len() < name.len()
}

/// Returns a URL without its path.
fn base(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
    format!("{scheme}://{}", rest.split(['/', '?', '#']).next().unwrap_or_default())
}

/// Returns `host:port` of a URL without a path.
fn address(base: &str) -> Option<String> {
    let (scheme, host) = base.split_once("://")?;
    let port = if scheme == "https" { 443 } else { 80 };
    Some(if is_address(host) { host.to_owned() } else { format!("{host}:{port}") })
}

/// Returns the Deployment of the pods, if all of them belong to one.
fn deployment<'a>(pods: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let mut of = pods.into_iter().map(deployment_of);
    let first = of.next()??;
    of.all(|of| of == Some(first)).then_some(first)
}

/// Returns the name of a pod's Deployment: without the ReplicaSet's hash and the five characters.
fn deployment_of(pod: &str) -> Option<&str> {
    let workload = workload_of(pod);
    let (hash, _) = pod.strip_prefix(workload)?.strip_prefix('-')?.split_once('-')?;
    (is_pod(pod) && !hash.is_empty()).then_some(workload)
}

/// Returns the number of replicas that were wanted in the past, if that was more than now.
fn replicas_before(observations: &Observations) -> Option<u64> {
    let replicas_wanted = observations.signals.get(REPLICAS_WANTED)?;
    let (now, before) = (replicas_wanted.value?, replicas_wanted.baseline?);
    (before.fract() == 0.0 && before > now && before < 1e6).then_some(before as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::steps::tests::{about, bad_replica, request};
    use detect::DetectionResult;
    use findings::{Diagnosis, EvidenceResult, Judgement, Observation, Outcome, ReplicaValue, Verdict};
    use knowledge::playbook::load;

    #[test]
    fn placeholders_that_are_known_are_filled_and_the_others_stay() {
        let values = [("<pod>", "vllm-7f9c4d6b8-x2x9p".to_owned()), ("<namespace>", "prod".to_owned())].into();
        assert_eq!(
            filled("`kubectl -n <namespace> logs <pod>` on <node>, 1 < 2", &values),
            "`kubectl -n prod logs vllm-7f9c4d6b8-x2x9p` on <node>, 1 < 2"
        );
    }

    #[test]
    fn what_a_shell_or_markup_would_read_is_no_word() {
        for word in ["vllm-0", "meta-llama/Llama-3.1-8B", "10.0.0.1:8000", "http://vllm:8000/v1", "a_b@c+d"] {
            assert!(is_word(word), "{word}");
        }
        for hostile in ["", "-rf", "a b", "$(reboot)", "a;b", "a`b`", "**a**", "a'b", "a\nb", "<pod>", "ä"] {
            assert!(!is_word(hostile), "{hostile}");
        }
    }

    #[test]
    fn a_deployment_is_known_by_its_pods_names_and_a_stateful_set_is_none() {
        let of = |pods: &[&str]| deployment(pods.iter().copied()).map(str::to_owned);
        assert_eq!(of(&["vllm-7f9c4d6b8-x2x9p", "vllm-7f9c4d6b8-aaaaa"]).as_deref(), Some("vllm"));
        assert_eq!(of(&["vllm-7f9c4d6b8-x2x9p", "other-7f9c4d6b8-x2x9p"]), None);
        for pods in [&["vllm-0", "vllm-1"][..], &["10.0.0.1:8000"], &["vllm-x2x9p"], &[]] {
            assert_eq!(of(pods), None, "{pods:?}");
        }
    }

    #[test]
    fn a_gateway_is_not_what_is_behind_it_and_a_machine_is_no_pod() {
        let mut diagnosis = bad_replica();
        let check = |signal: &str| EvidenceResult { signal: signal.to_owned(), ..names(&["10.0.0.9:4000"]) };
        let (library, detection) = (load(None).unwrap(), DetectionResult::default());
        let (observations, nodes, request) = (Observations::default(), BTreeMap::new(), request(&[]));
        let mut of = |signal: &str| {
            diagnosis.causes[0].evidence = vec![check(signal)];
            placeholder_values(&library, &about(&diagnosis, &request, &observations, &detection, &nodes), "bad-replica")
                .remove("<address>")
        };
        assert_eq!(of("gateway_connection_error_ratio"), None);
        assert_eq!(of("itl_p50").as_deref(), Some("10.0.0.9:4000"));
        let machine = [("<node>", "gpu-03".to_owned())];
        assert_eq!(values_of(&["gpu-03"], &observations, &detection, RunsOn::Hosts), machine);
        assert_eq!(
            values_of(&["gpu-03"], &observations, &detection, None::<RunsOn>),
            machine,
            "an exporter's name for it"
        );
        assert_eq!(values_of(&["vllm-7f9c4d6b8-x2x9p"], &observations, &detection, None::<RunsOn>), []);
    }

    #[test]
    fn an_address_is_no_pod() {
        assert!(is_pod("vllm-0") && !is_pod("10.0.0.1") && !is_pod("10.0.0.1:8000") && !is_pod("VLLM"));
    }

    #[test]
    fn steps_name_the_pod_its_node_and_what_the_alert_names_but_nothing_hostile() {
        let diagnosis = bad_replica();
        let (library, detection) = (load(None).unwrap(), DetectionResult::default());
        let nodes = [("vllm-llama-8b-1".to_owned(), "gpu-node-0".to_owned())].into();
        let replicas_wanted = Observation { value: Some(2.0), baseline: Some(4.0), ..Observation::default() };
        let observations =
            Observations { signals: [(REPLICAS_WANTED.to_owned(), replicas_wanted)].into(), ..Observations::default() };
        let request = request(&[("namespace", "prod"), ("model", "$(reboot)")]);
        let values = placeholder_values(
            &library,
            &about(&diagnosis, &request, &observations, &detection, &nodes),
            "bad-replica",
        );
        let filled_in: Vec<_> = values.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let expected =
            [("<namespace>", "prod"), ("<node>", "gpu-node-0"), ("<pod>", "vllm-llama-8b-1"), ("<replicas>", "4")];
        assert_eq!(filled_in, expected);
    }

    /// Builds a check that is met on these replicas.
    fn names(replicas: &[&str]) -> EvidenceResult {
        let mut check = bad_replica().causes.swap_remove(0).evidence.swap_remove(0);
        let value = |name: &&str| ReplicaValue { name: (*name).to_owned(), value: 1.0 };
        (check.outcome, check.replicas) = (Outcome::Met, replicas.iter().map(value).collect());
        check
    }

    #[test]
    fn of_several_affected_replicas_none_is_put_into_a_command() {
        let mut diagnosis = bad_replica();
        diagnosis.causes[0].evidence = vec![names(&["vllm-0", "vllm-1"])];
        let (library, detection) = (load(None).unwrap(), DetectionResult::default());
        let (observations, nodes, request) = (Observations::default(), BTreeMap::new(), request(&[]));
        let about = about(&diagnosis, &request, &observations, &detection, &nodes);
        assert_eq!(placeholder_values(&library, &about, "bad-replica"), BTreeMap::new());
    }

    #[test]
    fn a_step_names_the_replica_of_its_own_checks_and_never_another_links_or_the_alerts() {
        let mut diagnosis = bad_replica();
        let cause = &mut diagnosis.causes[0];
        let link = |id: &str, replica: &str| Judgement {
            id: id.to_owned(),
            title: String::new(),
            verdict: Verdict::Likely,
            score: 1.0,
            explained: None,
            evidence: vec![names(&[replica])],
        };
        cause.chain = ["high-itl", "slot-limit", "idle-replica"].map(str::to_owned).to_vec();
        (cause.id, cause.via) = ("idle-replica".to_owned(), vec![link("slot-limit", "vllm-busy")]);
        cause.evidence = vec![names(&[])];
        cause.replicas.affected = vec!["vllm-busy".to_owned()];
        let mut request = request(&[]);
        request.scope.replicas.insert("vllm-busy".to_owned());
        let (library, detection) = (load(None).unwrap(), DetectionResult::default());
        let (observations, nodes) = (Observations::default(), BTreeMap::new());
        let pod = |diagnosis: &Diagnosis, node: &str| {
            placeholder_values(&library, &about(diagnosis, &request, &observations, &detection, &nodes), node)
                .get("<pod>")
                .cloned()
        };
        assert_eq!(pod(&diagnosis, "idle-replica"), None);
        assert_eq!(pod(&diagnosis, "slot-limit").as_deref(), Some("vllm-busy"));
        diagnosis.causes[0].evidence = vec![names(&["vllm-idle"])];
        assert_eq!(pod(&diagnosis, "idle-replica").as_deref(), Some("vllm-idle"));
    }

    /// Returns the placeholders' values for a cause whose own checks name these replicas, in this pool.
    fn values_of(
        named: &[&str],
        observations: &Observations,
        detection: &DetectionResult,
        runs_on: impl Into<Option<RunsOn>>,
    ) -> Vec<(&'static str, String)> {
        let mut diagnosis = bad_replica();
        diagnosis.causes[0].evidence = vec![names(named)];
        let (library, nodes, request) = (load(None).unwrap(), BTreeMap::new(), request(&[]));
        let about =
            FixContext { runs_on: runs_on.into(), ..about(&diagnosis, &request, observations, detection, &nodes) };
        placeholder_values(&library, &about, "bad-replica").into_iter().collect()
    }

    fn backends(of: &[&str]) -> DetectionResult {
        DetectionResult { backends: of.iter().map(|&url| url.to_owned()).collect(), ..DetectionResult::default() }
    }

    #[test]
    fn a_replica_that_is_known_by_its_address_gives_the_address_and_the_machine() {
        let observations = Observations::default();
        let of = |name: &str, runs_on| values_of(&[name], &observations, &DetectionResult::default(), runs_on);
        let at = |name: &str| [("<address>", name.to_owned()), ("<backend>", format!("http://{name}"))];
        let machine = ("<node>", "gpu-03".to_owned());
        let expected: Vec<_> = at("gpu-03:8000").into_iter().chain([machine]).collect();
        assert_eq!(of("gpu-03:8000", RunsOn::Hosts), expected);
        assert_eq!(of("gpu-03:8000", RunsOn::Pods), at("gpu-03:8000"));
        assert_eq!(of("10.0.0.1:8000", RunsOn::Hosts), at("10.0.0.1:8000"));
        assert_eq!(of("$(reboot):8000", RunsOn::Hosts), []);
    }

    #[test]
    fn the_only_backend_that_a_gateway_names_is_put_in_and_of_several_none() {
        let observations = Observations::default();
        let of = |urls: &[&str]| values_of(&[], &observations, &backends(urls), RunsOn::Pods);
        let expected = [
            ("<address>", "vllm.prod:8000".to_owned()),
            ("<api_base>", "http://vllm.prod:8000/v1".to_owned()),
            ("<backend>", "http://vllm.prod:8000".to_owned()),
        ];
        assert_eq!(of(&["http://vllm.prod:8000/v1"]), expected);
        assert_eq!(of(&["http://user:password@vllm.prod:8000/v1"]), []);
        let secure = of(&["https://vllm.prod/v1"]);
        assert!(secure.contains(&("<address>", "vllm.prod:443".to_owned())), "{secure:?}");
        assert_eq!(of(&["http://a:8000/v1", "http://b:8000/v1"]), []);
        assert_eq!(
            of(&["http://a:8000/v1;reboot"]),
            [("<address>", "a:8000".to_owned()), ("<backend>", "http://a:8000".to_owned())]
        );
    }

    #[test]
    fn the_gateways_deployment_is_known_by_its_pods_and_its_host_by_its_address() {
        let observations = |names: &[&str]| {
            let replicas = names.iter().map(|&name| ReplicaValue { name: name.to_owned(), value: 1.0 }).collect();
            let o = Observation { replicas, ..Observation::default() };
            Observations { signals: [("gateway_busy".to_owned(), o)].into(), ..Observations::default() }
        };
        let of = |names: &[&str]| values_of(&[], &observations(names), &DetectionResult::default(), RunsOn::Pods);
        assert_eq!(of(&["litellm-7f9c4d6b8-x2x9p", "litellm-7f9c4d6b8-aaaaa"]), [("<gateway>", "litellm".to_owned())]);
        assert_eq!(of(&["10.0.0.9:29000"]), [("<router>", "10.0.0.9".to_owned())]);
        assert_eq!(of(&["litellm-7f9c4d6b8-x2x9p", "router-7f9c4d6b8-aaaaa"]), []);
    }

    #[test]
    fn the_service_and_the_autoscaler_are_put_in_where_there_is_one_of_them() {
        let services = |of: &[&str]| DetectionResult {
            services: of.iter().map(|&s| s.to_owned()).collect(),
            ..DetectionResult::default()
        };
        let observations = Observations::default();
        assert_eq!(
            values_of(&[], &observations, &services(&["vllm"]), RunsOn::Pods),
            [("<service>", "vllm".to_owned())]
        );
        assert_eq!(values_of(&[], &observations, &services(&["a", "b"]), RunsOn::Pods), []);
        let mut diagnosis = bad_replica();
        diagnosis.causes[0].evidence =
            vec![EvidenceResult { signal: AUTOSCALERS[0].to_owned(), ..names(&["keda-hpa-vllm"]) }];
        let (library, detection, nodes, request) =
            (load(None).unwrap(), DetectionResult::default(), BTreeMap::new(), request(&[]));
        let values = placeholder_values(
            &library,
            &about(&diagnosis, &request, &observations, &detection, &nodes),
            "bad-replica",
        );
        let value_of = |name: &str| values.get(name).map(String::as_str);
        assert_eq!((value_of("<hpa>"), value_of("<scaledobject>")), (Some("keda-hpa-vllm"), Some("vllm")));
    }
}

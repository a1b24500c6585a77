//! The page of kube-state-metrics, for the objects of the simulated Deployment only.

use super::exposition::{Family, Kind, Labels};
use super::fleet::Fleet;
use super::page_dcgm::CONTAINER;
use super::pod::{Pod, PodState};

const PHASES: [&str; 5] = ["Pending", "Succeeded", "Failed", "Unknown", "Running"];

/// The page at the fleet's present.
pub fn families(fleet: &Fleet) -> Vec<Family> {
    let mut page = deployment(fleet);
    page.extend(autoscaler(fleet));
    page.extend(pods(fleet));
    page.extend(containers(fleet));
    page
}

fn deployment(fleet: &Fleet) -> Vec<Family> {
    let pods = || fleet.replicas().iter().map(|replica| &replica.pod);
    let wanted = fleet.replicas().len();
    let ready = pods().filter(|pod| pod.is_ready()).count();
    let updated = pods().filter(|pod| pod.generation == fleet.generation()).count();
    let labels = vec![("namespace", fleet.spec().namespace.clone()), ("deployment", fleet.spec().deployment.clone())];
    let gauge = |name, help, value: usize| Family::new(name, Kind::Gauge, help).with(labels.clone(), value as f64);
    let generation = fleet.generation() as usize;
    vec![
        gauge("kube_deployment_spec_replicas", "Number of desired pods for a deployment.", wanted),
        gauge("kube_deployment_status_replicas", "The number of replicas per deployment.", wanted),
        gauge("kube_deployment_status_replicas_available", "The number of available replicas per deployment.", ready),
        gauge("kube_deployment_status_replicas_ready", "The number of ready replicas per deployment.", ready),
        gauge(
            "kube_deployment_status_replicas_unavailable",
            "The number of unavailable replicas per deployment.",
            wanted - ready,
        ),
        gauge("kube_deployment_status_replicas_updated", "The number of updated replicas per deployment.", updated),
        gauge(
            "kube_deployment_metadata_generation",
            "Sequence number representing a specific generation of the desired state.",
            generation,
        ),
        gauge(
            "kube_deployment_status_observed_generation",
            "The generation observed by the deployment controller.",
            generation,
        ),
    ]
}

fn autoscaler(fleet: &Fleet) -> Vec<Family> {
    let (least, most) = fleet.spec().autoscaler;
    let current = fleet.replicas().len();
    let labels = vec![
        ("namespace", fleet.spec().namespace.clone()),
        ("horizontalpodautoscaler", fleet.spec().deployment.clone()),
    ];
    let gauge = |name, help, value: usize| Family::new(name, Kind::Gauge, help).with(labels.clone(), value as f64);
    vec![
        gauge(
            "kube_horizontalpodautoscaler_spec_max_replicas",
            "Upper limit for the number of pods that can be set by the autoscaler; cannot be smaller than MinReplicas.",
            most,
        ),
        gauge(
            "kube_horizontalpodautoscaler_spec_min_replicas",
            "Lower limit for the number of pods that can be set by the autoscaler, default 1.",
            least,
        ),
        gauge(
            "kube_horizontalpodautoscaler_status_current_replicas",
            "Current number of replicas of pods managed by this autoscaler.",
            current,
        ),
        gauge(
            "kube_horizontalpodautoscaler_status_desired_replicas",
            "Desired number of replicas of pods managed by this autoscaler.",
            current.clamp(least, most.max(least)),
        ),
    ]
}

fn pods(fleet: &Fleet) -> Vec<Family> {
    let mut info = Family::new("kube_pod_info", Kind::Gauge, "Information about pod.");
    let mut phases = Family::new("kube_pod_status_phase", Kind::Gauge, "The pods current phase.");
    let mut readiness =
        Family::new("kube_pod_status_ready", Kind::Gauge, "Describes whether the pod is ready to serve requests.");
    for replica in fleet.replicas() {
        let pod = &replica.pod;
        let labels = of_pod(fleet, pod);
        let about = [
            ("host_ip", pod.host_ip.clone()),
            ("pod_ip", pod.ip.clone()),
            ("node", pod.node.clone()),
            ("created_by_kind", "ReplicaSet".to_owned()),
            ("created_by_name", fleet.spec().deployment.clone()),
        ];
        info = info.with(labels.iter().cloned().chain(about).collect(), 1.0);
        for phase in PHASES {
            // A pod that crash-loops is still in phase Running.
            let value = if phase == "Running" { 1.0 } else { 0.0 };
            phases = phases.with(and(&labels, "phase", phase), value);
        }
        for (condition, holds) in [("true", pod.is_ready()), ("false", !pod.is_ready()), ("unknown", false)] {
            readiness = readiness.with(and(&labels, "condition", condition), f64::from(u8::from(holds)));
        }
    }
    vec![info, phases, readiness]
}

fn containers(fleet: &Fleet) -> Vec<Family> {
    let mut restarts = Family::new(
        "kube_pod_container_status_restarts_total",
        Kind::Counter,
        "The number of container restarts per container.",
    );
    let mut waiting = Family::new(
        "kube_pod_container_status_waiting_reason",
        Kind::Gauge,
        "Describes the reason the container is currently in waiting state.",
    );
    let mut last = Family::new(
        "kube_pod_container_status_last_terminated_reason",
        Kind::Gauge,
        "Describes the last reason the container was in terminated state.",
    );
    let mut limits = Family::new(
        "kube_pod_container_resource_limits",
        Kind::Gauge,
        "The number of requested limit resource by a container.",
    );
    for replica in fleet.replicas() {
        let pod = &replica.pod;
        let labels = and(&of_pod(fleet, pod), "container", CONTAINER);
        restarts = restarts.with(labels.clone(), pod.restarts as f64);
        if matches!(pod.state, PodState::BackOff { .. }) {
            waiting = waiting.with(and(&labels, "reason", "CrashLoopBackOff"), 1.0);
        }
        if let Some(reason) = pod.last_terminated {
            last = last.with(and(&labels, "reason", reason), 1.0);
        }
        let mut gpu = and(&labels, "node", &pod.node);
        gpu.extend([("resource", "nvidia_com_gpu".to_owned()), ("unit", "integer".to_owned())]);
        limits = limits.with(gpu, 1.0);
    }
    vec![restarts, waiting, last, limits]
}

fn of_pod(fleet: &Fleet, pod: &Pod) -> Labels {
    vec![("namespace", fleet.spec().namespace.clone()), ("pod", pod.name.clone()), ("uid", pod.uid.clone())]
}

fn and(labels: &Labels, name: &'static str, value: &str) -> Labels {
    let mut labels = labels.clone();
    labels.push((name, value.to_owned()));
    labels
}

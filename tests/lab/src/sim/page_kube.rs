//! The page of kube-state-metrics, for the objects of the simulated Deployment only.

use super::exposition::{Family, Kind, Labels};
use super::fleet::{Fleet, Replica};
use super::page_dcgm::CONTAINER;
use super::pod::{Pod, PodState};

const PHASES: [&str; 5] = ["Pending", "Succeeded", "Failed", "Unknown", "Running"];

/// The page at the fleet's present.
pub fn families(fleet: &Fleet) -> Vec<Family> {
    let mut page = deployment(fleet);
    page.extend(autoscaler(fleet));
    page.extend(pods(fleet));
    page.extend(containers(fleet));
    page.extend(nodes(fleet));
    page
}

/// The replicas that there are pods of.
fn existing(fleet: &Fleet) -> impl Iterator<Item = &Replica> {
    fleet.replicas().iter().step_by(fleet.spec().ranks).filter(|replica| replica.pod.exists())
}

fn deployment(fleet: &Fleet) -> Vec<Family> {
    let pods = || existing(fleet).map(|replica| &replica.pod);
    let wanted = fleet.wanted() / fleet.spec().ranks;
    let ready = pods().filter(|pod| pod.is_ready()).count();
    let updated = pods().filter(|pod| pod.generation == fleet.generation()).count();
    let labels = vec![("namespace", fleet.spec().namespace.clone()), ("deployment", fleet.spec().deployment.clone())];
    let gauge = |name, help, value: usize| Family::new(name, Kind::Gauge, help).with(labels.clone(), value as f64);
    let generation = fleet.metadata_generation() as usize;
    vec![
        gauge("kube_deployment_spec_replicas", "Number of desired pods for a deployment.", wanted),
        gauge("kube_deployment_status_replicas", "The number of replicas per deployment.", wanted),
        gauge("kube_deployment_status_replicas_available", "The number of available replicas per deployment.", ready),
        gauge("kube_deployment_status_replicas_ready", "The number of ready replicas per deployment.", ready),
        gauge(
            "kube_deployment_status_replicas_unavailable",
            "The number of unavailable replicas per deployment.",
            wanted.saturating_sub(ready),
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
    let ranks = fleet.spec().ranks;
    let (least, most) = (fleet.spec().autoscaler.0 / ranks, fleet.spec().autoscaler.1 / ranks);
    let current = existing(fleet).count();
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
            fleet.desired() / ranks,
        ),
    ]
}

fn pods(fleet: &Fleet) -> Vec<Family> {
    let mut info = Family::new("kube_pod_info", Kind::Gauge, "Information about pod.");
    let mut phases = Family::new("kube_pod_status_phase", Kind::Gauge, "The pods current phase.");
    let mut readiness =
        Family::new("kube_pod_status_ready", Kind::Gauge, "Describes whether the pod is ready to serve requests.");
    let mut unschedulable =
        Family::new("kube_pod_status_unschedulable", Kind::Gauge, "Describes the unschedulable status for the pod.");
    let mut scheduled = Family::new(
        "kube_pod_status_scheduled",
        Kind::Gauge,
        "Describes the status of the scheduling process for the pod.",
    );
    for replica in existing(fleet) {
        let pod = &replica.pod;
        let labels = of_pod(fleet, pod);
        let placed = pod.state != PodState::Unschedulable;
        let where_placed = |text: &str| if placed { text.to_owned() } else { String::new() };
        let about = [
            ("host_ip", where_placed(&pod.host_ip)),
            ("pod_ip", where_placed(&pod.ip)),
            ("node", where_placed(&pod.node)),
            ("created_by_kind", "ReplicaSet".to_owned()),
            ("created_by_name", fleet.spec().deployment.clone()),
        ];
        info = info.with(labels.iter().cloned().chain(about).collect(), 1.0);
        for phase in PHASES {
            // A pod that crash-loops is still in phase Running, and so is one whose node is gone.
            let value = if phase == (if pod.has_container() { "Running" } else { "Pending" }) { 1.0 } else { 0.0 };
            phases = phases.with(and(&labels, "phase", phase), value);
        }
        for (condition, holds) in [("true", pod.is_ready()), ("false", !pod.is_ready()), ("unknown", false)] {
            readiness = readiness.with(and(&labels, "condition", condition), f64::from(u8::from(holds)));
        }
        for (condition, holds) in [("true", placed), ("false", !placed), ("unknown", false)] {
            scheduled = scheduled.with(and(&labels, "condition", condition), f64::from(u8::from(holds)));
        }
        // The series exists only while the pod has no place.
        if !placed {
            unschedulable = unschedulable.with(labels, 1.0);
        }
    }
    vec![info, phases, readiness, scheduled, unschedulable]
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
    let mut exit_codes = Family::new(
        "kube_pod_container_status_last_terminated_exitcode",
        Kind::Gauge,
        "Describes the exit code for the last container in terminated state.",
    );
    let mut containers = Family::new("kube_pod_container_info", Kind::Gauge, "Information about a container in a pod.");
    for replica in existing(fleet) {
        let pod = &replica.pod;
        let labels = and(&of_pod(fleet, pod), "container", CONTAINER);
        if pod.state == PodState::Unschedulable {
            continue;
        }
        containers = containers.with(and(&labels, "image", &image(pod.generation)), 1.0);
        restarts = restarts.with(labels.clone(), pod.restarts as f64);
        if let Some(reason) = pod.image_error(fleet.now()) {
            waiting = waiting.with(and(&labels, "reason", reason), 1.0);
        }
        if let Some(code) = pod.last_exit_code {
            exit_codes = exit_codes.with(labels.clone(), f64::from(code));
        }
        if matches!(pod.state, PodState::BackOff { .. }) {
            waiting = waiting.with(and(&labels, "reason", "CrashLoopBackOff"), 1.0);
        }
        if let Some(reason) = pod.last_terminated {
            last = last.with(and(&labels, "reason", reason), 1.0);
        }
        let mut gpu = and(&labels, "node", &pod.node);
        gpu.extend([("resource", "nvidia_com_gpu".to_owned()), ("unit", "integer".to_owned())]);
        limits = limits.with(gpu, fleet.spec().ranks as f64);
    }
    vec![containers, restarts, waiting, last, exit_codes, limits]
}

/// Each rollout brings an image of its own.
fn image(generation: u64) -> String {
    format!("registry.example/vllm-openai:build-{}", 100 + generation)
}

fn nodes(fleet: &Fleet) -> Vec<Family> {
    let mut conditions = Family::new("kube_node_status_condition", Kind::Gauge, "The condition of a cluster node.");
    let mut cordoned =
        Family::new("kube_node_spec_unschedulable", Kind::Gauge, "Whether a node can schedule new pods.");
    for (node, replicas) in fleet.replicas().chunks(fleet.spec().gpus_per_node).enumerate() {
        let up = fleet.node_is_up(node);
        cordoned = cordoned.with(vec![("node", replicas[0].pod.node.clone())], 0.0);
        for (condition, good) in [("Ready", "true"), ("MemoryPressure", "false"), ("DiskPressure", "false")] {
            let holds = if up { good } else { "unknown" };
            for status in ["true", "false", "unknown"] {
                let labels = vec![
                    ("node", replicas[0].pod.node.clone()),
                    ("condition", condition.to_owned()),
                    ("status", status.to_owned()),
                ];
                conditions = conditions.with(labels, f64::from(u8::from(status == holds)));
            }
        }
    }
    vec![conditions, cordoned]
}

fn of_pod(fleet: &Fleet, pod: &Pod) -> Labels {
    let uid = match pod.predecessors {
        0 => pod.uid.clone(),
        // The last group of digits is the replica's.
        predecessors => format!("{:08x}{}", 0x5f0c_1a52_u32.wrapping_add(predecessors), &pod.uid[8..]),
    };
    vec![("namespace", fleet.spec().namespace.clone()), ("pod", pod.name.clone()), ("uid", uid)]
}

fn and(labels: &Labels, name: &'static str, value: &str) -> Labels {
    let mut labels = labels.clone();
    labels.push((name, value.to_owned()));
    labels
}

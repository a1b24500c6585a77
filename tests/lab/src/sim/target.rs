//! What Prometheus scrapes: one page per vLLM server, one per GPU node, and kube-state-metrics.

use super::exposition::{self, Family, Numbers};
use super::fault::Page;
use super::fleet::Fleet;
use super::pod::PodState;
use super::{page_cadvisor, page_dcgm, page_kube, page_vllm};

/// A scrape target of the fleet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// What its page is about.
    pub kind: TargetKind,
    /// Label `job`.
    pub job: &'static str,
    /// Label `instance`, the address it has inside the simulated cluster.
    pub instance: String,
    /// Where the live server has its page.
    pub path: String,
    /// Further labels that service discovery attaches: `namespace`, `pod`, `container`.
    pub labels: Vec<(&'static str, String)>,
    /// The page's own labels win over those attached; else they get the prefix `exported_`.
    pub honor_labels: bool,
}

/// The kinds of pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetKind {
    /// The vLLM server of the replica with this index.
    Vllm(usize),
    /// The dcgm-exporter of the node with this index.
    Dcgm(usize),
    /// kube-state-metrics.
    KubeStateMetrics,
    /// The kubelet's cAdvisor on the node with this index.
    Cadvisor(usize),
}

impl Fleet {
    /// All targets that service discovery finds, in the order of the live server's paths; those of replicas that were
    /// added come last.
    pub fn targets(&self) -> Vec<Target> {
        let spec = self.spec();
        let serving = self.replicas().iter().enumerate().map(|(i, replica)| {
            let labels = [&spec.namespace, &replica.pod.name, page_dcgm::CONTAINER];
            Target::new(TargetKind::Vllm(i), "vllm", &replica.pod.ip, 8000, labels, false)
        });
        let nodes = self.replicas().chunks(spec.gpus_per_node).enumerate().map(|(i, replicas)| {
            let host = &replicas[0].pod;
            let labels = ["gpu-operator", &format!("nvidia-dcgm-exporter-{i}"), "nvidia-dcgm-exporter"];
            let honor = spec.dcgm.honor_labels;
            Target::new(TargetKind::Dcgm(i), "dcgm-exporter", &host.host_ip, 9400, labels, honor)
        });
        let labels = ["monitoring", "kube-state-metrics-0", "kube-state-metrics"];
        let kind = TargetKind::KubeStateMetrics;
        let state = Target::new(kind, "kube-state-metrics", "10.42.200.5", 8080, labels, true);
        let labels = ["kube-system", "", ""];
        let kubelets = self.replicas().chunks(spec.gpus_per_node).enumerate().filter(|_| spec.cadvisor);
        let kubelets = kubelets.map(|(i, replicas)| {
            let host = &replicas[0].pod;
            let mut target = Target::new(TargetKind::Cadvisor(i), "kubelet", &host.host_ip, 10250, labels, true);
            target.labels = vec![("node", host.node.clone())];
            target
        });
        let mut targets: Vec<Target> = serving.chain(nodes).chain([state]).chain(kubelets).collect();
        let first_nodes = spec.replicas.div_ceil(spec.gpus_per_node);
        targets.sort_by_key(|target| match target.kind {
            TargetKind::Vllm(i) => i >= spec.replicas,
            TargetKind::Dcgm(node) | TargetKind::Cadvisor(node) => node >= first_nodes,
            TargetKind::KubeStateMetrics => false,
        });
        for (i, target) in targets.iter_mut().enumerate() {
            target.path = format!("/targets/{i}/metrics");
        }
        targets.retain(|target| match target.kind {
            // A pod without an address is no target.
            TargetKind::Vllm(i) => !matches!(self.replicas()[i].pod.state, PodState::Gone | PodState::Unschedulable),
            TargetKind::Dcgm(_) | TargetKind::Cadvisor(_) | TargetKind::KubeStateMetrics => true,
        });
        targets
    }

    /// The metrics of a target at the fleet's present, `None` if it does not answer.
    pub fn families(&self, target: &Target) -> Option<Vec<Family>> {
        let missing = self.missing_page(target.kind);
        if missing.is_some_and(|page| page != Page::Stats) {
            return None;
        }
        match target.kind {
            TargetKind::Vllm(i) => {
                let stats = self.replicas().get(i)?.stats()?;
                let mut page = page_vllm::families(self.spec(), stats, self.now());
                page.retain(|family| missing.is_none() || !family.name.starts_with("vllm:"));
                Some(page)
            }
            TargetKind::Dcgm(node) | TargetKind::Cadvisor(node) if !self.node_is_up(node) => None,
            TargetKind::Cadvisor(node) => {
                let replicas = self.replicas().chunks(self.spec().gpus_per_node).nth(node)?;
                Some(page_cadvisor::families(self.spec(), replicas, self.now()))
            }
            TargetKind::Dcgm(node) => {
                let per_node = self.spec().gpus_per_node;
                let replicas = self.replicas().chunks(per_node).nth(node)?;
                Some(page_dcgm::families(self.spec(), replicas, node * per_node))
            }
            TargetKind::KubeStateMetrics => Some(page_kube::families(self)),
        }
    }

    /// The page of a target in the Prometheus text format, `None` if it does not answer.
    pub fn page(&self, target: &Target) -> Option<String> {
        let numbers = match target.kind {
            TargetKind::Vllm(_) => Numbers::Python,
            TargetKind::Dcgm(_) | TargetKind::KubeStateMetrics | TargetKind::Cadvisor(_) => Numbers::Go,
        };
        Some(exposition::text(&self.families(target)?, numbers))
    }
}

impl Target {
    fn new(
        kind: TargetKind,
        job: &'static str,
        ip: &str,
        port: u16,
        [namespace, pod, container]: [&str; 3],
        honor_labels: bool,
    ) -> Self {
        Self {
            kind,
            job,
            instance: format!("{ip}:{port}"),
            path: String::new(),
            labels: vec![
                ("namespace", namespace.to_owned()),
                ("pod", pod.to_owned()),
                ("container", container.to_owned()),
            ],
            honor_labels,
        }
    }

    /// The labels of a series scraped from this target, as Prometheus joins `own` with the target's.
    pub fn attach(&self, own: &[(&'static str, String)]) -> Vec<(String, String)> {
        let mut attached = vec![("job", self.job), ("instance", self.instance.as_str())];
        attached.extend(self.labels.iter().map(|(name, value)| (*name, value.as_str())));
        let mut labels = Vec::with_capacity(attached.len() + own.len());
        for (name, value) in &attached {
            if !(self.honor_labels && own.iter().any(|(other, _)| other == name)) {
                labels.push(((*name).to_owned(), (*value).to_owned()));
            }
        }
        for (name, value) in own {
            let clashes = !self.honor_labels && attached.iter().any(|(other, _)| other == name);
            let prefix = if clashes { "exported_" } else { "" };
            labels.push((format!("{prefix}{name}"), value.clone()));
        }
        labels
    }
}

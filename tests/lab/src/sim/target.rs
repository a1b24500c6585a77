//! What Prometheus scrapes: one page per serving pod, one per GPU node, kube-state-metrics, and a site's gateway.

use super::exposition::{self, Family, Numbers};
use super::fault::Page;
use super::fleet::{Fleet, Replica};
use super::pod::PodState;
use super::spec::GpuExporter;
use super::{page_cadvisor, page_dcgm, page_kube, page_nvidia, page_vllm};

/// Something on the virtual clock that has pages to scrape.
pub trait Scraped {
    /// The time it has advanced to, in unix seconds.
    fn now(&self) -> f64;
    /// Simulates up to `t` (unix seconds); a time in the past changes nothing.
    fn advance_to(&mut self, t: f64);
    /// All targets that service discovery finds at the present.
    fn targets(&self) -> Vec<Target>;
    /// The metrics of a target at the present, `None` if it does not answer.
    fn families(&self, target: &Target) -> Option<Vec<Family>>;
    /// How the page of a target writes its numbers.
    fn numbers(&self, target: &Target) -> Numbers;

    /// The page of a target in the Prometheus text format, `None` if it does not answer.
    fn page(&self, target: &Target) -> Option<String> {
        Some(exposition::text(&self.families(target)?, self.numbers(target)))
    }
}

/// A scrape target of a fleet or a site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// What its page is about.
    pub kind: TargetKind,
    /// Which of a site's fleets it belongs to.
    pub fleet: usize,
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
    /// The serving pod of the replica with this index.
    Serving(usize),
    /// The dcgm-exporter of the node with this index.
    Dcgm(usize),
    /// The nvidia_gpu_exporter of the node with this index.
    NvidiaGpuExporter(usize),
    /// The gateway of a site.
    Gateway,
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
        let (job, port) = spec.dialect.job();
        let mut targets: Vec<Target> = Vec::new();
        for (i, replica) in self.replicas().iter().enumerate().step_by(spec.ranks) {
            let labels = [&spec.namespace, &replica.pod.name, page_dcgm::CONTAINER];
            targets.push(Target::new(TargetKind::Serving(i), job, &replica.pod.ip, port, labels, false));
        }
        let nodes = || self.replicas().chunks(spec.gpus_per_node).map(|replicas| &replicas[0].pod).enumerate();
        for (i, host) in nodes() {
            let (kind, name, port, honor) = match spec.gpu_exporter {
                GpuExporter::Dcgm => (TargetKind::Dcgm(i), "dcgm-exporter", 9400, spec.dcgm.honor_labels),
                GpuExporter::NvidiaGpuExporter => {
                    (TargetKind::NvidiaGpuExporter(i), "nvidia-gpu-exporter", 9835, false)
                }
                GpuExporter::Absent => break,
            };
            let container = if name == "dcgm-exporter" { "nvidia-dcgm-exporter" } else { name };
            let labels = ["gpu-operator", &format!("{container}-{i}"), container];
            targets.push(Target::new(kind, name, &host.host_ip, port, labels, honor));
        }
        if spec.kube_state_metrics {
            let labels = ["monitoring", "kube-state-metrics-0", "kube-state-metrics"];
            let kind = TargetKind::KubeStateMetrics;
            targets.push(Target::new(kind, "kube-state-metrics", "10.42.200.5", 8080, labels, true));
        }
        for (i, host) in nodes().filter(|_| spec.cadvisor) {
            let labels = ["kube-system", "", ""];
            let mut target = Target::new(TargetKind::Cadvisor(i), "kubelet", &host.host_ip, 10250, labels, true);
            target.labels = vec![("node", host.node.clone())];
            targets.push(target);
        }
        let first_nodes = spec.replicas.div_ceil(spec.gpus_per_node);
        targets.sort_by_key(|target| match target.kind {
            TargetKind::Serving(i) => i >= spec.replicas,
            TargetKind::Dcgm(node) | TargetKind::NvidiaGpuExporter(node) | TargetKind::Cadvisor(node) => {
                node >= first_nodes
            }
            TargetKind::KubeStateMetrics | TargetKind::Gateway => false,
        });
        for (i, target) in targets.iter_mut().enumerate() {
            target.path = format!("/targets/{i}/metrics");
        }
        targets.retain(|target| match target.kind {
            // A pod without an address is no target.
            TargetKind::Serving(i) => !matches!(self.replicas()[i].pod.state, PodState::Gone | PodState::Unschedulable),
            _ => true,
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
            TargetKind::Serving(i) => {
                // One server, whose page is gone with any of its ranks.
                let ranks = self.replicas().get(i..i + self.spec().ranks)?.iter();
                let page = |replica| self.spec().dialect.families(self.spec(), replica, self.now());
                let mut page = page_vllm::of_ranks(ranks.map(page).collect::<Option<_>>()?);
                let engine = self.spec().dialect.beginning();
                page.retain(|family| missing.is_none() || !family.name.starts_with(engine));
                Some(page)
            }
            TargetKind::Dcgm(node) | TargetKind::NvidiaGpuExporter(node) | TargetKind::Cadvisor(node)
                if !self.node_is_up(node) =>
            {
                None
            }
            TargetKind::Cadvisor(node) => Some(page_cadvisor::families(self.spec(), self.on_node(node)?, self.now())),
            TargetKind::Dcgm(node) => {
                let first = node * self.spec().gpus_per_node;
                Some(page_dcgm::families(self.spec(), self.on_node(node)?, first))
            }
            TargetKind::NvidiaGpuExporter(node) => {
                let first = node * self.spec().gpus_per_node;
                Some(page_nvidia::families(self.spec(), self.on_node(node)?, first, self.now()))
            }
            TargetKind::KubeStateMetrics => Some(page_kube::families(self)),
            TargetKind::Gateway => None,
        }
    }

    /// The page of a target in the Prometheus text format, `None` if it does not answer.
    pub fn page(&self, target: &Target) -> Option<String> {
        Scraped::page(self, target)
    }

    fn on_node(&self, node: usize) -> Option<&[Replica]> {
        self.replicas().chunks(self.spec().gpus_per_node).nth(node)
    }
}

impl Scraped for Fleet {
    fn now(&self) -> f64 {
        self.now()
    }

    fn advance_to(&mut self, t: f64) {
        self.advance_to(t);
    }

    fn targets(&self) -> Vec<Target> {
        self.targets()
    }

    fn families(&self, target: &Target) -> Option<Vec<Family>> {
        self.families(target)
    }

    fn numbers(&self, target: &Target) -> Numbers {
        match target.kind {
            TargetKind::Serving(_) => self.spec().dialect.numbers(),
            _ => Numbers::Go,
        }
    }
}

impl Target {
    /// A target without a path; `pod` is its namespace, name and container.
    pub(super) fn new(
        kind: TargetKind,
        job: &'static str,
        ip: &str,
        port: u16,
        [namespace, pod, container]: [&str; 3],
        honor_labels: bool,
    ) -> Self {
        Self {
            kind,
            fleet: 0,
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

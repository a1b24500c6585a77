//! Simulated fleets as a Prometheus would have kept them: a day and more before the trouble, several in one Prometheus.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{fs, thread};

use knowledge::alert::Labels;
use knowledge::playbook::Library;
use llm_diagnose_lab::sim::gateway::{GatewayFault, GatewayKind, GatewaySpec, Site};
use llm_diagnose_lab::sim::spec::{GpuExporter, Release, Routing, Unrest};
use llm_diagnose_lab::sim::{Fault, Fleet, FleetSpec, History};

use crate::scenario::{Dice, FaultText, Scenario};

/// The first history's beginning, in unix seconds; long ago, so that nothing depends on the present.
const FIRST: i64 = 1_700_006_400;
/// Between the histories that share a Prometheus and those of the next slot; no multiple of a day, so that diagnoses
/// fall on all times of the day.
const SLOT_SECONDS: i64 = 31 * 3_600;
/// Fleets that live at the same time in the same Prometheus.
const NEIGHBOURS: usize = 8;
/// From a history's beginning to its diagnosis: a day, the hour before it, and its past's own window.
const AGE_SECONDS: i64 = 25 * 3_600 + 2_400;
/// Scrapes between the times that a diagnosis looks at.
const SPARSE_SECONDS: f64 = 900.0;

/// A fleet, alone or behind a gateway.
enum World {
    Fleet(Box<Fleet>),
    Site(Box<Site>),
}

/// What goes wrong: in the fleet, or at the gateway.
#[derive(Debug, Clone, Copy)]
enum Trouble {
    Fleet(Fault),
    Gateway(GatewayFault),
}

impl World {
    fn advance_to(&mut self, at: f64) {
        match self {
            Self::Fleet(fleet) => fleet.advance_to(at),
            Self::Site(site) => site.advance_to(at),
        }
    }

    fn record(&mut self, history: &mut History, until: f64) {
        match self {
            Self::Fleet(fleet) => history.record(fleet.as_mut(), until),
            Self::Site(site) => history.record(site.as_mut(), until),
        }
    }

    fn begin(&mut self, trouble: Trouble) -> anyhow::Result<()> {
        match (self, trouble) {
            (Self::Fleet(fleet), Trouble::Fleet(fault)) => fleet.inject(fault),
            (Self::Site(site), Trouble::Gateway(fault)) => site.inject(fault),
            (Self::Site(site), Trouble::Fleet(fault)) => site.fleet_mut(0).unwrap().inject(fault),
            (Self::Fleet(_), Trouble::Gateway(fault)) => anyhow::bail!("`{fault}` needs a gateway"),
        }
    }

    fn end(&mut self, trouble: Trouble) {
        match (self, trouble) {
            (Self::Fleet(fleet), Trouble::Fleet(fault)) => fleet.clear(fault),
            (Self::Site(site), Trouble::Gateway(fault)) => site.clear(fault),
            (Self::Site(site), Trouble::Fleet(fault)) => site.fleet_mut(0).unwrap().clear(fault),
            (Self::Fleet(_), Trouble::Gateway(_)) => {}
        }
    }
}

/// One seed's fleet of a scenario.
#[derive(Debug, Clone)]
pub(crate) struct Situation {
    /// The family.
    pub(crate) scenario: Scenario,
    /// Of the half that no rule was tuned on.
    pub(crate) held_out: bool,
    /// The moment of the diagnosis, in unix seconds.
    pub(crate) at: i64,
    seed: u64,
    /// Its place among those that share its time.
    neighbour: usize,
    slot: usize,
    /// Instead of what the dice say: seconds between scrapes, replicas.
    forced: Forced,
}

/// What a handicap forces on every fleet.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Forced {
    /// Seconds between scrapes.
    pub(crate) interval: Option<f64>,
    /// Serving pods.
    pub(crate) replicas: Option<usize>,
}

impl Situation {
    /// Lays scenarios out in time and space.
    pub(crate) fn lay_out(scenarios: &[(Scenario, bool, u64)], forced: Forced) -> Vec<Self> {
        let of = |(i, (scenario, held_out, seed)): (usize, &(Scenario, bool, u64))| {
            let (slot, neighbour) = (i / NEIGHBOURS, i % NEIGHBOURS);
            let mut dice = Dice::of(&scenario.name, seed + 1_000);
            let at = FIRST + slot as i64 * SLOT_SECONDS + AGE_SECONDS + dice.whole("0..3000") as i64;
            Self { scenario: scenario.clone(), held_out: *held_out, at, seed: *seed, neighbour, slot, forced }
        };
        scenarios.iter().enumerate().map(of).collect()
    }

    /// Of those that share a time one each, so that none has company; their histories are the same as beside the others.
    pub(crate) fn alone(situations: &[Self]) -> Vec<Self> {
        let shares = |slot: usize| situations.iter().filter(move |s| s.slot == slot);
        let slots: BTreeSet<usize> = situations.iter().map(|s| s.slot).collect();
        slots.into_iter().filter_map(|slot| shares(slot).nth(slot % shares(slot).count())).cloned().collect()
    }

    fn namespace(&self) -> String {
        format!("{}-{}", self.scenario.name, self.seed)
    }

    /// The labels of its alerts.
    pub(crate) fn labels(&self) -> Labels {
        [("namespace".to_owned(), self.namespace())].into()
    }

    fn spec(&self, dice: &mut Dice, troubles: &[(Trouble, f64, f64)]) -> FleetSpec {
        let text = &self.scenario.fleet;
        let replicas = self.forced.replicas.unwrap_or_else(|| dice.whole(text.replicas.as_deref().unwrap_or("3..7")));
        let with = |key: &str| text.with.get(key).map(String::as_str);
        let mut spec = match with("recipe") {
            Some("decode-heavy") => FleetSpec::decode_heavy(replicas),
            Some("long-context") => FleetSpec::long_context(replicas),
            Some("nearly-full") => FleetSpec::nearly_full(replicas),
            Some("fresh-prompts") => FleetSpec::fresh_prompts(replicas),
            Some("agents") => FleetSpec::agents(replicas),
            Some("embedding") => FleetSpec::embedding(replicas),
            Some("reasoning") => FleetSpec::reasoning(replicas),
            Some("documents") => FleetSpec::documents(replicas),
            Some("prefill-decode") => FleetSpec::prefill_decode(replicas),
            Some("two-ranks") => FleetSpec::two_ranks(replicas),
            Some("offloading") => FleetSpec::offloading(replicas),
            Some("batch") => FleetSpec::batch(replicas),
            Some("autoscaled") => FleetSpec::autoscaled(replicas),
            Some("plain") => FleetSpec::sized(replicas),
            Some(other) => panic!("{}: unknown recipe `{other}`", self.scenario.name),
            None => match troubles.first() {
                Some((Trouble::Fleet(fault), ..)) => FleetSpec::for_fault(fault, replicas),
                Some((Trouble::Gateway(_), ..)) | None => FleetSpec::sized(replicas),
            },
        };
        if let Some(engine) = &text.engine {
            spec.dialect = engine.parse().unwrap_or_else(|e| panic!("{}: {e}", self.scenario.name));
        }
        for what in &text.without {
            match what.as_str() {
                "gpu" => spec.gpu_exporter = GpuExporter::Absent,
                "kubernetes" => spec.kube_state_metrics = false,
                other => panic!("{}: unknown exporter `{other}`", self.scenario.name),
            }
        }
        spec.namespace = self.namespace();
        match &text.load {
            Some(load) => spec.requests_per_second = dice.number(load) * replicas as f64,
            None => spec.requests_per_second *= dice.number("0.92..1.08"),
        }
        spec.diurnal_amplitude = dice.number(with("diurnal").unwrap_or("0.05..0.2"));
        if *dice.pick(&[true, false]) && spec.unrest == Unrest::default() {
            spec.unrest = Unrest { walk: 0.05, ..Unrest::usual() };
        }
        for (key, value) in &text.with {
            let number = |dice: &mut Dice| dice.number(value);
            match key.as_str() {
                "recipe" | "diurnal" => {}
                "max_num_seqs" => spec.engine.max_num_seqs = dice.whole(value),
                "num_gpu_blocks" => spec.engine.num_gpu_blocks = dice.whole(value) as u32,
                "prompt_tokens" => spec.workload.prompt_tokens = number(dice),
                "output_tokens" => spec.workload.output_tokens = number(dice),
                "reuse_share" => spec.workload.reuse_share = number(dice),
                "routing" => {
                    spec.routing = if value == "least-loaded" { Routing::LeastLoaded } else { Routing::RoundRobin }
                }
                "release" => spec.engine.release = if value == "0.8" { Release::V0_8 } else { Release::Current },
                "cadvisor" => spec.cadvisor = value == "true",
                "honor_labels" => spec.dcgm.honor_labels = value == "true",
                "clock_events" => spec.dcgm.clock_events = value == "true",
                "gpu_exporter" if value == "nvidia-gpu-exporter" => spec.gpu_exporter = GpuExporter::NvidiaGpuExporter,
                "violations" => spec.dcgm.violations = value == "true",
                other => panic!("{}: unknown knob `{other}`", self.scenario.name),
            }
        }
        spec
    }

    /// Simulates it and writes what was scraped as OpenMetrics lines.
    fn write(&self, wanted: impl Fn(&str) -> bool + Send + 'static, out: &mut impl Write) {
        let mut dice = Dice::of(&self.scenario.name, self.seed);
        let troubles = self.troubles(&mut dice);
        let spec = self.spec(&mut dice, &troubles);
        let at = self.at as f64;
        let interval = self.forced.interval.unwrap_or_else(|| *dice.pick(&[15.0, 30.0, 30.0]));
        let missed = *dice.pick(&[0.0, 0.0, 0.005]);
        let begin = at - AGE_SECONDS as f64;
        // A fleet has run for a while when its history begins, so that it is not taken for freshly started.
        let mut world = self.world(spec, begin - 3_900.0);
        world.advance_to(begin);
        let yesterday = at - 86_400.0;
        let dense = [(yesterday - 1_300.0, yesterday + 30.0), (at - 3_300.0, at + 60.0)];
        let mut history = History::new(interval).sparse(SPARSE_SECONDS, &dense).only(wanted).missing(missed).spread();
        let mut events: Vec<(f64, bool, Trouble)> = Vec::new();
        for (trouble, minutes, lasts) in troubles {
            let from = at - minutes * 60.0;
            events.push((from, true, trouble));
            if from + lasts * 60.0 < at {
                events.push((from + lasts * 60.0, false, trouble));
            }
        }
        events.sort_by(|a, b| a.0.total_cmp(&b.0));
        for (time, begins, trouble) in events {
            world.record(&mut history, time);
            if begins {
                world.begin(trouble).unwrap_or_else(|e| panic!("{}: {e}", self.scenario.name));
            } else {
                world.end(trouble);
            }
        }
        world.record(&mut history, at);
        let mut text = Vec::new();
        history.write(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        // Every fleet has addresses, nodes and GPUs of its own, as in one cluster.
        let n = self.neighbour + 10;
        let mut last = ("", String::new());
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            // Lines of one series follow each other and differ after the labels only.
            let (labels, rest) = line.split_at(line.rfind('}').map_or(0, |end| end + 1));
            if labels != last.0 {
                let own = labels.replace("\"10.42.", &format!("\"10.1{n}."));
                let own = own.replace("\"10.0.0.", &format!("\"10.2{n}.0."));
                let own = own.replace("gpu-node-", &format!("gpu-node-{n}-")).replace("\"GPU-", &format!("\"GPU-{n}"));
                last = (labels, own);
            }
            writeln!(out, "{}{rest}", last.1).unwrap();
        }
    }

    fn world(&self, spec: FleetSpec, start: f64) -> World {
        let Some(gateway) = &self.scenario.fleet.gateway else {
            return World::Fleet(Box::new(Fleet::new(spec, self.seed, start).unwrap()));
        };
        let kind = match gateway.as_str() {
            "litellm" => GatewayKind::LiteLlm,
            "dynamo" => GatewayKind::Dynamo,
            "llm-d" => GatewayKind::Epp,
            "llm-d-objective" => GatewayKind::EppObjective,
            "sglang-router" => GatewayKind::Smg,
            other => panic!("{}: unknown gateway `{other}`", self.scenario.name),
        };
        let mut gateway = GatewaySpec::new(kind);
        gateway.namespace = self.namespace();
        World::Site(Box::new(Site::new(gateway, vec![spec], self.seed, start).unwrap()))
    }

    fn troubles(&self, dice: &mut Dice) -> Vec<(Trouble, f64, f64)> {
        let read = |text: &FaultText, dice: &mut Dice| {
            let (fault, minutes, lasts) = match text {
                FaultText::Plain(fault) => (fault, "6..9", None),
                FaultText::Timed { fault, minutes, lasts } => (fault, minutes.as_str(), lasts.as_deref()),
            };
            let filled = dice.fill(fault);
            let wrong = |e: anyhow::Error| -> Trouble { panic!("{}: {filled}: {e:#}", self.scenario.name) };
            let gateway = self.scenario.fleet.gateway.as_ref().and_then(|_| filled.parse().ok());
            let trouble = match gateway {
                Some(fault) => Trouble::Gateway(fault),
                None => filled.parse().map_or_else(wrong, Trouble::Fleet),
            };
            (trouble, dice.number(minutes), lasts.map_or(f64::INFINITY, |lasts| dice.number(lasts)))
        };
        self.scenario.faults.iter().map(|text| read(text, dice)).collect()
    }
}

/// Writes the histories of all situations, one file for each time that several share.
pub(crate) fn histories(library: &Library, situations: &[Situation], directory: &Path) -> Vec<PathBuf> {
    let slots: Vec<usize> = situations.iter().map(|s| s.slot).collect::<BTreeSet<_>>().into_iter().collect();
    let next = AtomicUsize::new(0);
    let asked: String = library
        .engines
        .values()
        .flat_map(|engine| {
            let queries = engine.signals.values().filter_map(|entry| entry.query.clone());
            let probes = engine.versions.iter().map(|probe| probe.metric.clone());
            queries.chain(probes).chain([engine.detect.clone()]).chain(engine.detect_also.iter().cloned())
        })
        .collect::<Vec<_>>()
        .join(" ");
    let spellings: Vec<(String, String)> = library
        .engines
        .values()
        .filter_map(|engine| Some((engine.prefixes.first()?, engine)))
        .flat_map(|(written, engine)| {
            let others = engine.prefixes.iter().skip(1).chain(&engine.copies);
            others.map(move |prefix| (prefix.clone(), written.clone()))
        })
        .collect();
    let path = |slot: usize| directory.join(format!("{slot}.txt"));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(&slot) = slots.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let mut file = std::io::BufWriter::new(fs::File::create(path(slot)).unwrap());
                    for situation in situations.iter().filter(|s| s.slot == slot) {
                        let (asked, spellings) = (asked.clone(), spellings.clone());
                        let wanted = move |name: &str| {
                            let whole = ["DCGM_", "kube_", "container_", "nvidia_smi_"];
                            // Queries are written with an engine's first prefix.
                            let spelt = |(prefix, written): &(String, String)| {
                                name.strip_prefix(prefix.as_str())
                                    .is_some_and(|bare| asked.contains(&format!("{written}{bare}")))
                            };
                            whole.iter().any(|start| name.starts_with(start))
                                || asked.contains(name)
                                || spellings.iter().any(spelt)
                        };
                        situation.write(wanted, &mut file);
                    }
                    file.write_all(b"# EOF\n").unwrap();
                }
            });
        }
    });
    slots.iter().map(|&slot| path(slot)).collect()
}

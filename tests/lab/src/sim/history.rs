//! What a Prometheus that scraped the fleet would hold, as OpenMetrics text for
//! `promtool tsdb create-blocks-from openmetrics`.
//!
//! ```no_run
//! # use llm_diagnose_lab::sim::{Fault, Fleet, FleetSpec, History};
//! # fn main() -> anyhow::Result<()> {
//! let mut fleet = Fleet::new(FleetSpec::sized(4), 1, 1_780_000_000.0)?;
//! // A day: every 15 s in the hour that a diagnosis compares with and in the last two, every two minutes in between.
//! let end = 1_780_000_000.0 + 90_000.0;
//! let mut history = History::new(15.0)
//!     .sparse(120.0, &[(end - 86_400.0 - 3_600.0, end - 86_400.0), (end - 7_200.0, end)])
//!     .only(|name| name.starts_with("vllm:") || name == "up");
//! history.record(&mut fleet, end - 600.0);
//! fleet.inject(Fault::TrafficSurge { factor: 2.5 })?;
//! history.record(&mut fleet, end);
//! history.write(std::fs::File::create("history.txt")?)?;
//! # Ok(())
//! # }
//! ```
//!
//! Stale markers cannot be written in this format: after a target went down, its last samples stay visible for the
//! look-back of five minutes, and only its `up` tells.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::io::{self, BufWriter, Write};

use super::exposition::{Family, Kind, Labels, push_labels};
use super::fleet::Fleet;
use super::target::Target;

/// Scrapes of a fleet at one or two intervals.
///
/// Runs of equal values are kept as one, so an hour of eight replicas at 15 s takes some 10 MB.
pub struct History {
    interval_seconds: f64,
    /// The longer interval, and the stretches of time in which the short one holds.
    sparse: Option<(f64, Vec<(f64, f64)>)>,
    /// Names of samples, suffix included, that are kept.
    wanted: Box<dyn Fn(&str) -> bool + Send>,
    /// Share of the scrapes that time out.
    missed_share: f64,
    /// Targets are scraped each at its own moment of the interval.
    spread: bool,
    families: BTreeMap<String, Group>,
    targets: Vec<Scraped>,
    /// By instance and job.
    target_ids: HashMap<(String, &'static str), usize>,
    series: Vec<Series>,
    /// Whether a sample of this family and suffix is kept.
    names: HashMap<(&'static str, &'static str), bool>,
}

#[derive(Debug)]
struct Group {
    kind: &'static str,
    series: Vec<usize>,
}

/// One target: when it was scraped, and where each of its samples goes.
#[derive(Debug, Default)]
struct Scraped {
    /// Milliseconds since the epoch.
    at: Vec<i64>,
    /// The kept samples of its last page in their order: pages change little from scrape to scrape.
    layout: Vec<Place>,
    ids: HashMap<String, usize>,
}

#[derive(Debug)]
struct Place {
    name: &'static str,
    suffix: &'static str,
    labels: Labels,
    id: usize,
}

#[derive(Debug)]
struct Series {
    /// Name and labels.
    text: String,
    target: usize,
    runs: Vec<Run>,
}

/// Equal values at consecutive scrapes of the target, by their numbers.
#[derive(Debug)]
struct Run {
    first: u32,
    length: u32,
    value: f64,
}

/// Advances the fleet from its present to `to`, scraping it from `from` on, and writes the history.
///
/// All times are unix seconds; see [`History`] for faults in between.
pub fn write(fleet: &mut Fleet, from: f64, to: f64, interval_seconds: f64, out: impl Write) -> io::Result<()> {
    fleet.advance_to(from);
    let mut history = History::new(interval_seconds);
    history.record(fleet, to);
    history.write(out)
}

impl History {
    /// An empty history with scrapes at the multiples of `interval_seconds`, at least a millisecond.
    pub fn new(interval_seconds: f64) -> Self {
        Self {
            interval_seconds: interval_seconds.max(0.001),
            sparse: None,
            wanted: Box::new(|_| true),
            missed_share: 0.0,
            spread: false,
            families: BTreeMap::new(),
            targets: Vec::new(),
            target_ids: HashMap::new(),
            series: Vec::new(),
            names: HashMap::new(),
        }
    }

    /// Scrapes only every `interval_seconds` outside of the `dense` stretches (from, to; unix seconds).
    pub fn sparse(mut self, interval_seconds: f64, dense: &[(f64, f64)]) -> Self {
        self.sparse = Some((interval_seconds.max(self.interval_seconds), dense.to_vec()));
        self
    }

    /// Keeps the samples whose names are `wanted`, `_bucket`, `_sum` and `_count` included, and `up`.
    pub fn only(mut self, wanted: impl Fn(&str) -> bool + Send + 'static) -> Self {
        self.wanted = Box::new(wanted);
        self
    }

    /// Loses a share of the scrapes (0..1), each for itself, as a Prometheus or a server under load does; `up` is then 0.
    pub fn missing(mut self, share: f64) -> Self {
        self.missed_share = share;
        self
    }

    /// Scrapes each target at a moment of its own within the interval, as Prometheus does.
    pub fn spread(mut self) -> Self {
        self.spread = true;
        self
    }

    /// Scrapes all targets from the fleet's present up to `until` (unix seconds), to which it advances.
    pub fn record(&mut self, fleet: &mut Fleet, until: f64) {
        let mut round = self.round_at(fleet.now());
        let mut due: Vec<(f64, Target)> = Vec::new();
        while round <= until + self.interval_seconds {
            due.clear();
            due.extend(fleet.targets().into_iter().map(|target| (self.moment(round, &target), target)));
            due.sort_by(|a, b| a.0.total_cmp(&b.0));
            let from = fleet.now();
            for (at, target) in &due {
                if (from..=until).contains(at) {
                    fleet.advance_to(*at);
                    self.scrape(fleet, target, *at);
                }
            }
            round = self.round_after(round);
        }
        fleet.advance_to(until);
    }

    /// When a target is scraped in the round at `round`: at it, or up to an interval before.
    fn moment(&self, round: f64, target: &Target) -> f64 {
        if !self.spread {
            return round;
        }
        let offset = hash(target.instance.bytes().chain(target.job.bytes())) * self.interval_seconds;
        round - (offset * 1e3).round() / 1e3
    }

    /// The first round at or after `t`.
    fn round_at(&self, t: f64) -> f64 {
        let number = (t / self.interval_seconds).ceil() as u64;
        let round = self.seconds(number);
        if self.is_due(round) { round } else { self.round_after(round) }
    }

    fn round_after(&self, round: f64) -> f64 {
        let mut number = (round / self.interval_seconds).round() as u64;
        loop {
            number += 1;
            let round = self.seconds(number);
            if self.is_due(round) {
                return round;
            }
        }
    }

    fn is_due(&self, round: f64) -> bool {
        let Some((interval, dense)) = &self.sparse else { return true };
        let number = (round / self.interval_seconds).round() as u64;
        let every = (interval / self.interval_seconds).round().max(1.0) as u64;
        number.is_multiple_of(every) || dense.iter().any(|(from, to)| (*from..=*to).contains(&round))
    }

    fn scrape(&mut self, fleet: &Fleet, target: &Target, at: f64) {
        let id = self.target(target);
        let at = (at * 1e3).round() as i64;
        // A scrape recorded before is not recorded again.
        if self.targets[id].at.last().is_some_and(|last| at <= *last) {
            return;
        }
        self.targets[id].at.push(at);
        let scrape = self.targets[id].at.len() as u32 - 1;
        let lost = self.missed_share > 0.0 && {
            let name = target.instance.bytes().chain(target.job.bytes());
            hash(name.chain(at.to_le_bytes())) < self.missed_share
        };
        let families = if lost { None } else { fleet.families(target) };
        let mut place = 0;
        for family in families.iter().flatten() {
            for sample in &family.samples {
                let name = (family.name, sample.suffix);
                let keeps = match self.names.get(&name) {
                    Some(keeps) => *keeps,
                    None => {
                        let keeps = (self.wanted)(&[name.0, name.1].concat());
                        *self.names.entry(name).or_insert(keeps)
                    }
                };
                if keeps {
                    let series = self.place(id, target, family, sample.suffix, &sample.labels, place);
                    self.push(series, scrape, sample.value);
                    place += 1;
                }
            }
        }
        let up = Family::new("up", Kind::Gauge, "");
        let series = self.place(id, target, &up, "", &Vec::new(), place);
        self.push(series, scrape, if families.is_some() { 1.0 } else { 0.0 });
    }

    fn target(&mut self, target: &Target) -> usize {
        let key = (target.instance.clone(), target.job);
        *self.target_ids.entry(key).or_insert_with(|| {
            self.targets.push(Scraped::default());
            self.targets.len() - 1
        })
    }

    /// The series of a sample that stands at `place` of the page's kept samples.
    fn place(
        &mut self,
        id: usize,
        target: &Target,
        family: &Family,
        suffix: &'static str,
        labels: &Labels,
        place: usize,
    ) -> usize {
        let scraped = &mut self.targets[id];
        if let Some(known) = scraped.layout.get(place) {
            // Names are static: the same name is nearly always at the same address.
            if known.name == family.name && known.suffix == suffix && known.labels == *labels {
                return known.id;
            }
        }
        let mut text = String::with_capacity(200);
        text.push_str(family.name);
        text.push_str(suffix);
        text.push('{');
        push_labels(&mut text, &target.attach(labels));
        text.push('}');
        let series = match scraped.ids.get(&text) {
            Some(series) => *series,
            None => {
                let series = self.series.len();
                let (name, kind) = open_metrics(family);
                let group = self.families.entry(name.to_owned()).or_insert_with(|| Group { kind, series: Vec::new() });
                group.series.push(series);
                scraped.ids.insert(text.clone(), series);
                self.series.push(Series { text, target: id, runs: Vec::new() });
                series
            }
        };
        let known = Place { name: family.name, suffix, labels: labels.clone(), id: series };
        match scraped.layout.get_mut(place) {
            Some(old) => *old = known,
            None => scraped.layout.push(known),
        }
        series
    }

    fn push(&mut self, series: usize, scrape: u32, value: f64) {
        let runs = &mut self.series[series].runs;
        match runs.last_mut() {
            Some(run) if run.value == value && scrape == run.first + run.length => run.length += 1,
            _ => runs.push(Run { first: scrape, length: 1, value }),
        }
    }

    /// How many samples it holds.
    pub fn samples(&self) -> u64 {
        self.series.iter().flat_map(|series| &series.runs).map(|run| u64::from(run.length)).sum()
    }

    /// Writes the history: families together, series by series, timestamps in seconds, `# EOF` at the end.
    pub fn write(&self, out: impl Write) -> io::Result<()> {
        let mut out = BufWriter::with_capacity(1 << 20, out);
        for (name, group) in &self.families {
            writeln!(out, "# TYPE {name} {}", group.kind)?;
            for id in &group.series {
                let Series { text, target, runs } = &self.series[*id];
                let at = &self.targets[*target].at;
                for run in runs {
                    let value = run.value.to_string();
                    for scrape in run.first..run.first + run.length {
                        let at = at[scrape as usize];
                        write!(out, "{text} {value} {}", at / 1000)?;
                        match at % 1000 {
                            0 => writeln!(out)?,
                            milliseconds => writeln!(out, ".{milliseconds:03}")?,
                        }
                    }
                }
            }
        }
        writeln!(out, "# EOF")?;
        out.flush()
    }

    fn seconds(&self, scrape: u64) -> f64 {
        // Rounded to the millisecond that Prometheus keeps.
        (scrape as f64 * self.interval_seconds * 1e3).round() / 1e3
    }
}

impl fmt::Debug for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("History").field("series", &self.series.len()).finish_non_exhaustive()
    }
}

/// An even number in 0..1 that the bytes decide (FNV-1a with a final mix).
fn hash(bytes: impl Iterator<Item = u8>) -> f64 {
    let hash = bytes
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    let mixed = (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 11) as f64 / (1_u64 << 53) as f64
}

/// Name and type of a family in OpenMetrics, where a counter's samples must end in `_total`.
fn open_metrics(family: &Family) -> (&'static str, &'static str) {
    match (family.kind, family.name.strip_suffix("_total")) {
        (Kind::Counter, Some(name)) => (name, "counter"),
        (Kind::Counter, None) => (family.name, "unknown"),
        (Kind::Gauge | Kind::Histogram, _) => (family.name, family.kind.as_str()),
    }
}

//! What a Prometheus that scraped the fleet would hold, as OpenMetrics text for
//! `promtool tsdb create-blocks-from openmetrics`.
//!
//! ```no_run
//! # use llm_diagnose_lab::sim::{Fault, Fleet, FleetSpec, History};
//! # fn main() -> anyhow::Result<()> {
//! let mut fleet = Fleet::new(FleetSpec::sized(4), 1, 1_780_000_000.0)?;
//! let mut history = History::new(15.0);
//! history.record(&mut fleet, 1_780_003_600.0);
//! fleet.inject(Fault::TrafficSurge { factor: 2.5 })?;
//! history.record(&mut fleet, 1_780_004_200.0);
//! history.write(std::fs::File::create("history.txt")?)?;
//! # Ok(())
//! # }
//! ```
//!
//! Stale markers cannot be written in this format: after a target went down, its last samples stay visible for the
//! look-back of five minutes, and only its `up` tells.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, BufWriter, Write};

use super::exposition::{Family, Kind, push_labels};
use super::target::{Scraped, Target};

/// Scrapes of a fleet, or of a site, at a fixed interval.
///
/// Runs of equal values are kept as one, so an hour of eight replicas at 15 s takes some 10 MB.
#[derive(Debug)]
pub struct History {
    interval_seconds: f64,
    families: BTreeMap<String, Group>,
    ids: HashMap<String, usize>,
    series: Vec<Series>,
}

#[derive(Debug)]
struct Group {
    kind: &'static str,
    series: Vec<usize>,
}

#[derive(Debug)]
struct Series {
    /// Name and labels.
    text: String,
    runs: Vec<Run>,
}

/// Equal values at consecutive scrapes; a scrape's number is its time in intervals since the epoch.
#[derive(Debug)]
struct Run {
    first: u64,
    length: u32,
    value: f64,
}

/// Advances the fleet from its present to `to`, scraping it from `from` on, and writes the history.
///
/// All times are unix seconds; see [`History`] for faults in between.
pub fn write(fleet: &mut impl Scraped, from: f64, to: f64, interval_seconds: f64, out: impl Write) -> io::Result<()> {
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
            families: BTreeMap::new(),
            ids: HashMap::new(),
            series: Vec::new(),
        }
    }

    /// Scrapes all targets from the fleet's present up to `until` (unix seconds), to which it advances.
    pub fn record(&mut self, fleet: &mut impl Scraped, until: f64) {
        let targets = fleet.targets();
        let mut scrape = (fleet.now() / self.interval_seconds).ceil() as u64;
        while self.seconds(scrape) <= until {
            fleet.advance_to(self.seconds(scrape));
            for target in &targets {
                self.scrape(fleet, target, scrape);
            }
            scrape += 1;
        }
        fleet.advance_to(until);
    }

    fn scrape(&mut self, fleet: &impl Scraped, target: &Target, scrape: u64) {
        let families = fleet.families(target);
        let up = if families.is_some() { 1.0 } else { 0.0 };
        let up = Family::new("up", Kind::Gauge, "").with(Vec::new(), up);
        for family in families.iter().flatten().chain([&up]) {
            for sample in &family.samples {
                let mut text = String::with_capacity(200);
                let [first, last] = family.written();
                text.push_str(first);
                text.push_str(last);
                text.push_str(sample.suffix);
                text.push('{');
                push_labels(&mut text, &target.attach(&sample.labels));
                text.push('}');
                self.push(family, text, scrape, sample.value);
            }
        }
    }

    fn push(&mut self, family: &Family, text: String, scrape: u64, value: f64) {
        let id = match self.ids.get(&text) {
            Some(id) => *id,
            None => {
                let id = self.series.len();
                let (name, kind) = open_metrics(family);
                let group = self.families.entry(name).or_insert_with(|| Group { kind, series: Vec::new() });
                group.series.push(id);
                self.ids.insert(text.clone(), id);
                self.series.push(Series { text, runs: Vec::new() });
                id
            }
        };
        let runs = &mut self.series[id].runs;
        match runs.last_mut() {
            // A scrape recorded before is not recorded again.
            Some(run) if scrape < run.first + u64::from(run.length) => {}
            Some(run) if run.value == value && scrape == run.first + u64::from(run.length) => run.length += 1,
            _ => runs.push(Run { first: scrape, length: 1, value }),
        }
    }

    /// Writes the history: families together, series by series, timestamps in seconds, `# EOF` at the end.
    pub fn write(&self, out: impl Write) -> io::Result<()> {
        let mut out = BufWriter::with_capacity(1 << 20, out);
        for (name, group) in &self.families {
            writeln!(out, "# TYPE {name} {}", group.kind)?;
            for id in &group.series {
                let Series { text, runs } = &self.series[*id];
                for run in runs {
                    for scrape in run.first..run.first + u64::from(run.length) {
                        writeln!(out, "{text} {} {}", run.value, self.seconds(scrape))?;
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

/// Name and type of a family in OpenMetrics, where a counter's samples must end in `_total`.
fn open_metrics(family: &Family) -> (String, &'static str) {
    let name = family.written().concat();
    match (family.kind, name.strip_suffix("_total")) {
        (Kind::Counter, Some(name)) => (name.to_owned(), "counter"),
        (Kind::Counter, None) => (name, "unknown"),
        (Kind::Gauge | Kind::Histogram, _) => (name, family.kind.as_str()),
    }
}

//! What the suite found, as a page.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use findings::Verdict;
use llm_diagnose_lab::calibration;

use crate::run::Outcome;

/// Which part of the suite a number is of.
fn share(hits: usize, of: usize) -> String {
    match of {
        0 => "–".to_owned(),
        _ => format!("{:.1} % ({hits} of {of})", 100.0 * hits as f64 / of as f64),
    }
}

/// The rates of a set of diagnoses.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Rates {
    /// Diagnoses of faults.
    pub(crate) faults: usize,
    /// With the right mechanism in the best chain.
    pub(crate) mechanism: usize,
    /// With the right root first.
    pub(crate) root: usize,
    /// With the right root among the first three.
    pub(crate) top3: usize,
    /// Diagnoses of faults with a likely cause that is neither the root nor the mechanism.
    pub(crate) confident_wrong: usize,
    /// Diagnoses of healthy fleets.
    pub(crate) healthy: usize,
    /// With a likely cause.
    pub(crate) false_alarms: usize,
}

impl Rates {
    /// Counts.
    pub(crate) fn of<'a>(outcomes: impl Iterator<Item = &'a Outcome>) -> Self {
        let mut rates = Self::default();
        for o in outcomes {
            if o.healthy {
                rates.healthy += 1;
                rates.false_alarms += usize::from(o.confident());
            } else {
                rates.faults += 1;
                rates.mechanism += usize::from(o.mechanism_right);
                rates.root += usize::from(o.root_right);
                rates.top3 += usize::from(o.top3);
                rates.confident_wrong += usize::from(o.confident() && !o.mechanism_right && !o.root_right);
            }
        }
        rates
    }

    fn row(&self, name: &str) -> String {
        format!(
            "| {name} | {} | {} | {} | {} | {} |\n",
            share(self.mechanism, self.faults),
            share(self.root, self.faults),
            share(self.top3, self.faults),
            share(self.confident_wrong, self.faults),
            share(self.false_alarms, self.healthy)
        )
    }
}

const RATES_HEAD: &str = "| | mechanism first | root first | root among three | confident and wrong | likely cause on a healthy fleet |\n|---|---|---|---|---|---|\n";

/// The page's part on simulated fleets.
pub(crate) fn page(outcomes: &[Outcome], degraded: &[(String, Vec<Outcome>)], command: &str) -> String {
    let tuned: BTreeSet<&str> = outcomes.iter().filter(|o| !o.held_out).map(|o| o.scenario.as_str()).collect();
    let names: BTreeSet<&str> = outcomes.iter().map(|o| o.scenario.as_str()).collect();
    let held_out = names.len() - tuned.len();
    let mut out = format!(
        "## Simulated fleets\n\nWhat comes out when simulated fleets break in known ways, measured on a real Prometheus. Made by `{command}`;\n\
         every number below is from that run. A scenario is a family: each seed draws its own fleet, load, time of day, scrape\n\
         interval and degree of trouble. Rules were tuned on the first half alone. The halves share\n\
         most families and differ in seed: while tuning, families were reworded, dropped or given more than one accepted answer for what\n\
         the first half showed, so of these the second half tests other fleets and not other kinds of trouble; {held_out} families stand in the second half alone.\n\
         `load-shedding` has no family, and some causes stand only as one of several accepted answers.\n\n"
    );
    let half = |held_out: bool| outcomes.iter().filter(move |o| o.held_out == held_out);
    writeln!(
        out,
        "{} scenarios, {} fleets, {} diagnoses.\n\n{RATES_HEAD}{}{}{}",
        names.len(),
        outcomes.iter().map(|o| (&o.scenario, o.held_out)).collect::<BTreeSet<_>>().len(),
        outcomes.len(),
        Rates::of(outcomes.iter()).row("all"),
        Rates::of(half(false)).row("tuned on"),
        Rates::of(half(true)).row("never tuned on")
    )
    .unwrap();
    out.push_str("\n### With less to look at\n\nThe same diagnoses without an exporter, a past, peers or company.\n\n");
    out.push_str(RATES_HEAD);
    for (name, outcomes) in degraded {
        out.push_str(&Rates::of(outcomes.iter()).row(name));
    }
    out.push_str("\n### Is a probability what it says?\n\nHow often the first cause is right, by how probable it was said to be; of all diagnoses of faults on this page. Right is a cause that is an accepted root or mechanism.\n");
    for (name, held_out) in [("Tuned on", false), ("Never tuned on", true)] {
        let said = said(outcomes, degraded, held_out);
        writeln!(out, "\n{name}: calibration error {:.3}.\n\n{}", calibration::error(&said), calibration::table(&said))
            .unwrap();
    }
    out.push_str("\n### Cost\n\n");
    let mut seconds: Vec<f64> = outcomes.iter().map(|o| o.seconds).collect();
    seconds.sort_by(f64::total_cmp);
    let queries: usize = outcomes.iter().map(|o| o.queries).sum();
    let at = |q: f64| seconds.get(((seconds.len() - 1) as f64 * q) as usize).copied().unwrap_or_default();
    writeln!(
        out,
        "{:.0} queries a diagnosis on average; {:.2} s at the median, {:.2} s at the 95th percentile.",
        queries as f64 / outcomes.len().max(1) as f64,
        at(0.5),
        at(0.95)
    )
    .unwrap();
    confusion(&mut out, outcomes);
    out.push_str("\n### Every diagnosis\n\n| scenario | half | enters at | expected | found | verdict | |\n|---|---|---|---|---|---|---|\n");
    for o in outcomes {
        let mark = if o.right() { "✓" } else { "✗" };
        let verdict = o.verdict.map_or("–", |v| match v {
            Verdict::Likely => "likely",
            Verdict::Possible => "possible",
            _ => "–",
        });
        let half = if o.held_out { "never tuned" } else { "tuned" };
        writeln!(
            out,
            "| {} | {half} | {} | {} | {} | {verdict} | {mark} |",
            o.scenario,
            o.entry,
            o.expected,
            o.found()
        )
        .unwrap();
    }
    out
}

/// What was said of the first cause and whether it was right, with and without handicaps.
pub(crate) fn said(outcomes: &[Outcome], degraded: &[(String, Vec<Outcome>)], held_out: bool) -> Vec<(f64, bool)> {
    let all = outcomes.iter().chain(degraded.iter().flat_map(|(_, outcomes)| outcomes));
    let faults = all.filter(|o| !o.healthy && o.held_out == held_out);
    faults.filter_map(|o| Some((o.probability?, o.holds))).collect()
}

/// Expected against found mechanisms; only rows with a mistake, the rest is a diagonal.
fn confusion(out: &mut String, outcomes: &[Outcome]) {
    let mut table: BTreeMap<&str, BTreeMap<&str, usize>> = BTreeMap::new();
    for o in outcomes {
        *table.entry(o.expected_mechanism.as_str()).or_default().entry(o.found_mechanism.as_str()).or_default() += 1;
    }
    out.push_str("\n### Confusion\n\nBy mechanism: how often it was expected, and what was found instead.\n\n| expected | diagnoses | right | instead |\n|---|---|---|---|\n");
    for (expected, found) in &table {
        let all: usize = found.values().sum();
        let right = outcomes
            .iter()
            .filter(|o| o.expected_mechanism == *expected && (o.mechanism_right || (o.healthy && !o.confident())))
            .count();
        let wrong: BTreeMap<&str, usize> = outcomes
            .iter()
            .filter(|o| o.expected_mechanism == *expected && !(o.mechanism_right || (o.healthy && !o.confident())))
            .fold(BTreeMap::new(), |mut all, o| {
                *all.entry(o.found_mechanism.as_str()).or_default() += 1;
                all
            });
        let wrong: Vec<String> = wrong.iter().map(|(name, n)| format!("{name} {n}")).collect();
        writeln!(out, "| {expected} | {all} | {right} | {} |", wrong.join(", ")).unwrap();
    }
}

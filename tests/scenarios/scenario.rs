//! What a scenario is: a fleet, what goes wrong in it, the alerts that fire, and what it really was.
//!
//! Numbers may be ranges, `2.6..3.4`: each seed draws its own fleet and its own degree of trouble, so that a rule has
//! to hold for a family of fleets and not for one.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Deserialize;

/// One file of `tests/scenarios/`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    scenarios: Vec<Scenario>,
}

/// A labelled situation.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scenario {
    /// Kebab case; the namespace of its fleet.
    pub(crate) name: String,
    /// The playbooks that its alerts enter.
    pub(crate) enter: Vec<String>,
    /// What the fleet is.
    #[serde(default)]
    pub(crate) fleet: FleetText,
    /// What goes wrong, in this order.
    #[serde(default)]
    pub(crate) faults: Vec<FaultText>,
    /// Only in the half that no rule was tuned on.
    #[serde(default)]
    pub(crate) held_out: bool,
    /// What it really was.
    pub(crate) expect: Expect,
}

/// A fleet's knobs, as numbers or ranges; what is left out is the simulator's default.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FleetText {
    /// Engine dialect; vLLM unless told.
    pub(crate) engine: Option<String>,
    /// Gateway in front; none unless told.
    pub(crate) gateway: Option<String>,
    /// Serving pods: 3 to 8 unless told.
    pub(crate) replicas: Option<String>,
    /// Requests per second and replica: 2.6 to 3.2 unless told.
    pub(crate) load: Option<String>,
    /// Further knobs by name; see `world.rs`.
    #[serde(default)]
    pub(crate) with: BTreeMap<String, String>,
    /// What is not scraped: `gpu`, `kubernetes`.
    #[serde(default)]
    pub(crate) without: Vec<String>,
}

/// A fault in the simulator's words, with ranges in braces: `longer-prompts:factor={2.5..4}`.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(crate) enum FaultText {
    /// Begins 6 to 9 minutes before the diagnosis and lasts.
    Plain(String),
    /// With its times.
    Timed {
        /// The fault.
        fault: String,
        /// Minutes before the diagnosis at which it begins.
        minutes: String,
        /// Minutes that it lasts; until the end unless told.
        lasts: Option<String>,
    },
}

/// The truth.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Expect {
    /// Nothing is wrong: no cause may be likely but a harmless one under `root`.
    #[serde(default)]
    pub(crate) healthy: bool,
    /// Mechanisms of which one must stand in the best chain.
    #[serde(default)]
    pub(crate) mechanism: Vec<String>,
    /// Roots of which one must end the best chain.
    #[serde(default)]
    pub(crate) root: Vec<String>,
    /// It can happen to a fleet of one replica.
    #[serde(default)]
    pub(crate) alone: bool,
}

/// Reads all scenarios beside this file.
///
/// # Panics
/// When a file is wrong: it is the suite's own data.
pub(crate) fn all() -> Vec<Scenario> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let mut paths: Vec<_> = fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|end| end == "yaml"));
    paths.sort();
    let read = |path: &Path| {
        let text = fs::read_to_string(path).unwrap();
        let file: File = serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        file.scenarios
    };
    paths.iter().flat_map(|path| read(path)).collect()
}

/// Draws numbers out of ranges; the same seed draws the same.
#[derive(Debug, Clone)]
pub(crate) struct Dice(u64);

impl Dice {
    /// Dice for a scenario and a seed.
    pub(crate) fn of(name: &str, seed: u64) -> Self {
        let hash =
            name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
        Self(hash ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// A number of 0..1. Steele et al., "Fast splittable pseudorandom number generators" (splitmix64).
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A number, or one out of a range `from..to`.
    pub(crate) fn number(&mut self, text: &str) -> f64 {
        let parse = |text: &str| text.trim().parse::<f64>().unwrap_or_else(|_| panic!("`{text}` is no number"));
        match text.split_once("..") {
            Some((from, to)) => {
                let (from, to) = (parse(from), parse(to));
                from + (to - from) * self.unit()
            }
            None => parse(text),
        }
    }

    /// A whole number, or one out of a range that includes both ends.
    pub(crate) fn whole(&mut self, text: &str) -> usize {
        match text.split_once("..") {
            Some((from, to)) => {
                let (from, to): (f64, f64) = (from.trim().parse().unwrap(), to.trim().parse().unwrap());
                (from + (to - from + 1.0) * self.unit()).floor() as usize
            }
            None => text.trim().parse().unwrap(),
        }
    }

    /// One of several.
    pub(crate) fn pick<'a, T>(&mut self, several: &'a [T]) -> &'a T {
        &several[(self.unit() * several.len() as f64) as usize]
    }

    /// The text with each `{from..to}` replaced; whole numbers where both ends are whole, as `{0..3}`.
    pub(crate) fn fill(&mut self, text: &str) -> String {
        let mut out = String::new();
        let mut rest = text;
        while let Some((before, tail)) = rest.split_once('{') {
            let (range, after) = tail.split_once('}').unwrap_or_else(|| panic!("`{text}`: a brace is not closed"));
            out.push_str(before);
            match range.contains('.') && range.replace("..", "").contains('.') {
                true => out.push_str(&format!("{:.3}", self.number(range))),
                false => out.push_str(&self.whole(range).to_string()),
            }
            rest = after;
        }
        out + rest
    }
}

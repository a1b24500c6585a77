//! The way to read a signal from an exporter's own page if Prometheus has no data.

use promql_parser::label::Matchers;
use promql_parser::parser::{Expr, parse};
use schemars::JsonSchema;
use serde::Deserialize;

use super::PoolAggregation;
use crate::alert::Labels;

/// The operation on the samples of two reads a few seconds apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DirectOperation {
    /// The mean of both reads.
    Gauge,
    /// The larger of both reads.
    Peak,
    /// The smaller of both reads of a gauge if none of the counters grew that share its labels, otherwise 0.
    Still,
    /// The time that a gauge's items stay: the gauge over its departures per second, counted as at least one between the reads.
    Stay,
    /// The largest of a replica's sums by labels over their mean, of at least two.
    Spread,
    /// A counter's increase per second.
    Rate,
    /// A counter's increase over another's, of all series together.
    Increase,
    /// A quantile of the buckets' increases.
    Quantile,
    /// The share of the reads in which any of the mask's bits is set.
    Bits,
    /// The number of series that hold a unix time within the last seconds.
    Recent,
    /// Each exporter that answers counts 1.
    Serving,
    /// Each exporter that is unavailable counts 1.
    Down,
}

/// The direct form of a signal.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Direct {
    /// The operation on the samples.
    pub read: DirectOperation,
    /// Selectors, newest name first; the first that a page has series for counts.
    #[serde(default)]
    pub of: Vec<String>,
    /// Divided by these: series of the same labels for gauges, all together for increases. For `still` and `stay` the
    /// counters of progress.
    #[serde(default)]
    pub over: Vec<String>,
    /// The condition on a companion series with the same labels; a series without a companion always counts.
    #[serde(rename = "where")]
    pub only: Option<CompanionCondition>,
    /// Labels of ranks that repeat each other's values: of series that differ only in these the largest value counts.
    #[serde(default)]
    pub without: Vec<String>,
    /// The aggregation of several series of one replica; defaults to `fleet`.
    pub by: Option<PoolAggregation>,
    /// The factor that converts to the signal's unit.
    #[serde(default = "one")]
    pub scale: f64,
    /// For `quantile`: the quantile, 0..1.
    pub q: Option<f64>,
    /// For `bits`: the mask of the bits that count.
    pub mask: Option<u64>,
    /// For `recent`: seconds.
    pub within: Option<f64>,
    /// For `increase` and `quantile`: minimum observations between the reads for a value; defaults to 10. For `still`
    /// the minimum seconds between the reads, for `stay` the gauge and for `spread` the mean above which the value is not 0.
    #[serde(default = "ten")]
    pub least: f64,
    /// Selectors of series whose presence makes the value 0 if `of` has no series.
    #[serde(default)]
    pub zero: Vec<String>,
}

/// The condition on a companion series.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CompanionCondition {
    /// Selectors of the companion.
    pub of: Vec<String>,
    /// The lower limit, exclusive.
    pub above: Option<f64>,
    /// The upper limit, exclusive.
    pub below: Option<f64>,
}

impl CompanionCondition {
    /// Returns true if a companion's value is within the limits.
    #[must_use]
    pub fn allows(&self, value: f64) -> bool {
        self.above.is_none_or(|limit| value > limit) && self.below.is_none_or(|limit| value < limit)
    }
}

fn one() -> f64 {
    1.0
}

fn ten() -> f64 {
    10.0
}

impl Direct {
    /// Returns all selectors.
    pub fn selectors(&self) -> impl Iterator<Item = &String> {
        let companions = self.only.iter().flat_map(|only| &only.of);
        self.of.iter().chain(&self.over).chain(&self.zero).chain(companions)
    }

    /// Returns the error in its shape; `None` if it is valid.
    pub fn problem(&self) -> Option<String> {
        let needs = |what: &str| Some(format!("`read: {}` needs {what}", self.name()));
        if let Some(error) = self.selectors().find_map(|text| Selector::parse(text).err()) {
            return Some(error);
        }
        let none = matches!(self.read, DirectOperation::Serving | DirectOperation::Down);
        if self.of.is_empty() != none {
            return needs(if none { "no `of`" } else { "`of`" });
        }
        if !self.over.is_empty()
            && !matches!(
                self.read,
                DirectOperation::Gauge
                    | DirectOperation::Peak
                    | DirectOperation::Increase
                    | DirectOperation::Still
                    | DirectOperation::Stay
            )
        {
            return needs("no `over`");
        }
        match self.read {
            DirectOperation::Increase | DirectOperation::Still | DirectOperation::Stay if self.over.is_empty() => {
                needs("`over`")
            }
            DirectOperation::Quantile if !self.q.is_some_and(|q| q > 0.0 && q < 1.0) => needs("`q` between 0 and 1"),
            DirectOperation::Quantile if self.of.iter().any(|of| !of.contains("_bucket")) => needs("`of` of buckets"),
            DirectOperation::Bits if self.mask.unwrap_or_default() == 0 => needs("a `mask`"),
            DirectOperation::Recent if !self.within.is_some_and(|s| s > 0.0) => needs("`within` above 0"),
            _ if !self.scale.is_finite() || self.scale <= 0.0 => needs("a `scale` above 0"),
            _ => None,
        }
    }

    fn name(&self) -> String {
        format!("{:?}", self.read).to_ascii_lowercase()
    }
}

/// A selector of samples, in PromQL's notation: `name{label="value"}`.
#[derive(Debug, Clone)]
pub struct Selector {
    name: Option<String>,
    matchers: Matchers,
}

impl Selector {
    /// Parses a selector.
    ///
    /// # Errors
    /// If it is anything else than an instant selector without `offset` or `@`.
    pub fn parse(text: &str) -> Result<Self, String> {
        match parse(text) {
            Ok(Expr::VectorSelector(v)) if v.offset.is_none() && v.at.is_none() => {
                Ok(Self { name: v.name, matchers: v.matchers })
            }
            Ok(_) => Err(format!("`{text}` is no plain selector: write it like `name{{label=\"value\"}}`")),
            Err(error) => Err(format!("`{text}` is no selector: {error}")),
        }
    }

    /// Returns true if a metric's name matches.
    pub fn names(&self, name: &str) -> bool {
        self.name.as_deref().is_none_or(|own| own == name)
            && self.matchers.matchers.iter().filter(|m| m.name == "__name__").all(|m| m.is_match(name))
    }

    /// Returns true if a sample matches; a missing label counts as empty.
    pub fn fits(&self, name: &str, labels: &Labels) -> bool {
        let label = |name: &str| labels.get(name).map_or("", String::as_str);
        self.names(name)
            && self.matchers.matchers.iter().filter(|m| m.name != "__name__").all(|m| m.is_match(label(&m.name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selector_means_what_promql_means() {
        let labels: Labels = [("reason".to_owned(), "capacity".to_owned())].into();
        let fits = |text: &str, name: &str| Selector::parse(text).unwrap().fits(name, &labels);
        assert!(fits("vllm:x", "vllm:x") && !fits("vllm:x", "vllm:x_total"));
        assert!(fits("x{reason=\"capacity\"}", "x") && !fits("x{reason!=\"capacity\"}", "x"));
        assert!(fits("{__name__=~\"DCGM_FI_DEV_FB_(USED|FREE)\"}", "DCGM_FI_DEV_FB_FREE"));
        assert!(!fits("{__name__=~\"DCGM_FI_DEV_FB_(USED|FREE)\"}", "DCGM_FI_DEV_FB_TOTAL"));
        assert!(fits("x{status=~\"5..|\"}", "x") && !fits("x{status=~\"5..\"}", "x"));
        for wrong in ["rate(x[5m])", "x[5m]", "x offset 5m", "x{", "1"] {
            assert!(Selector::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_form_that_cannot_work_is_refused_with_the_reason() {
        let problem = |yaml: &str| serde_saphyr::from_str::<Direct>(yaml).unwrap().problem().unwrap_or_default();
        for (form, said) in [
            ("{ read: gauge }", "`read: gauge` needs `of`"),
            ("{ read: down, of: [x] }", "needs no `of`"),
            ("{ read: increase, of: [x] }", "needs `over`"),
            ("{ read: rate, of: [x], over: [y] }", "needs no `over`"),
            ("{ read: quantile, of: [x_bucket] }", "needs `q` between 0 and 1"),
            ("{ read: quantile, q: 0.5, of: [x] }", "needs `of` of buckets"),
            ("{ read: bits, of: [x] }", "needs a `mask`"),
            ("{ read: recent, of: [x] }", "needs `within`"),
            ("{ read: gauge, of: [x], scale: 0 }", "needs a `scale`"),
            ("{ read: gauge, of: ['rate(x[5m])'] }", "is no plain selector"),
            ("{ read: gauge, of: [x], where: { of: ['{'], above: 1 } }", "is no selector"),
        ] {
            assert!(problem(form).contains(said), "{form}: {}", problem(form));
        }
        assert_eq!(problem("{ read: gauge, of: [x], over: [y], scale: 1e6 }"), "");
        assert!(serde_saphyr::from_str::<Direct>("{ read: gauge, off: [x] }").is_err());
    }
}

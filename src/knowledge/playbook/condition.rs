//! `when:` — the conditions of evidence.
//!
//! Forms: `> 0.90` (the signal's unit), `> 1.5x baseline` (its own baseline), `> 2x peers` (one replica against the
//! median of the others), several joined by `and`, `absent`, `present`, `no data`.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::signal::{Unit, format_threshold};

/// A comparison operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// `>`
    Above,
    /// `>=`
    AtLeast,
    /// `<`
    Below,
    /// `<=`
    AtMost,
}

impl Op {
    /// Returns true if `value op limit` holds.
    pub fn holds(self, value: f64, limit: f64) -> bool {
        match self {
            Self::Above => value > limit,
            Self::AtLeast => value >= limit,
            Self::Below => value < limit,
            Self::AtMost => value <= limit,
        }
    }

    /// Returns the operator that holds exactly if this one does not.
    pub fn opposite(self) -> Self {
        match self {
            Self::Above => Self::AtMost,
            Self::AtLeast => Self::Below,
            Self::Below => Self::AtLeast,
            Self::AtMost => Self::Above,
        }
    }

    /// Returns the operator as PromQL and people write it.
    pub fn symbol(self) -> &'static str {
        match self {
            Self::Above => ">",
            Self::AtLeast => ">=",
            Self::Below => "<",
            Self::AtMost => "<=",
        }
    }
}

/// The right-hand side of a comparison.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Reference {
    /// A number in the signal's unit.
    Number(f64),
    /// A multiple of the signal's baseline.
    Baseline(f64),
    /// A multiple of the median of the other replicas.
    Peers(f64),
}

/// One comparison.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Comparison {
    /// The operator.
    pub op: Op,
    /// The right-hand side.
    pub to: Reference,
}

/// A condition on one signal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub enum Condition {
    /// No series, although the engine is present and the query succeeded.
    Absent,
    /// Any series.
    Present,
    /// No data: no series, or no engine with a query for the signal. A failed query leaves it undetermined.
    NoData,
    /// All of these hold together, on the same replica if replicas are compared.
    All(Vec<Comparison>),
}

impl Condition {
    /// Returns the comparisons inside; empty for the other forms.
    pub fn comparisons(&self) -> &[Comparison] {
        match self {
            Self::Absent | Self::Present | Self::NoData => &[],
            Self::All(list) => list,
        }
    }

    /// Returns the comparison if it is the only one and not with peers; `None` otherwise.
    pub fn single(&self) -> Option<Comparison> {
        match self.comparisons() {
            [one] if !self.needs_peers() => Some(*one),
            _ => None,
        }
    }

    /// Returns true if the only comparison is with the number `limit`.
    pub fn is_limit(&self, limit: f64) -> bool {
        matches!(self.comparisons(), [Comparison { to: Reference::Number(n), .. }] if (n - limit).abs() < 1e-9)
    }

    /// Returns true if it compares with the signal's baseline.
    pub fn needs_baseline(&self) -> bool {
        self.comparisons().iter().any(|c| matches!(c.to, Reference::Baseline(_)))
    }

    /// Returns true if it compares replicas with each other.
    pub fn needs_peers(&self) -> bool {
        self.comparisons().iter().any(|c| matches!(c.to, Reference::Peers(_)))
    }
}

/// Formats a condition for people, its numbers in the signal's unit: `> 95 %`. A text that is none stays as it is.
pub fn condition_text(when: &str, unit: Unit) -> String {
    let comparison = |c: &Comparison| match c.to {
        Reference::Number(limit) => format!("{} {}", c.op.symbol(), format_threshold(limit, unit)),
        Reference::Baseline(_) | Reference::Peers(_) => c.to_string(),
    };
    match when.parse() {
        Ok(Condition::All(list)) => list.iter().map(comparison).collect::<Vec<_>>().join(" and "),
        _ => when.to_owned(),
    }
}

impl FromStr for Comparison {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let (op, rest) = [(">=", Op::AtLeast), ("<=", Op::AtMost), (">", Op::Above), ("<", Op::Below)]
            .into_iter()
            .find_map(|(symbol, op)| text.strip_prefix(symbol).map(|rest| (op, rest.trim())))
            .ok_or_else(|| format!("condition `{text}` must start with >, >=, < or <="))?;
        let (number, reference) = match rest.split_once(char::is_whitespace) {
            None => (rest, None),
            Some((number, reference)) => (number, Some(reference.trim())),
        };
        let parse = |number: &str| {
            number
                .parse::<f64>()
                .ok()
                .filter(|n| n.is_finite())
                .ok_or_else(|| format!("condition `{text}`: `{number}` is no number"))
        };
        let times = |number: &str| {
            parse(
                number
                    .strip_suffix('x')
                    .ok_or_else(|| format!("condition `{text}`: a multiple is written like `1.5x`"))?,
            )
        };
        let to = match reference {
            None => Reference::Number(parse(number)?),
            Some("baseline") => Reference::Baseline(times(number)?),
            Some("peers") => Reference::Peers(times(number)?),
            Some(other) => return Err(format!("condition `{text}`: expected `baseline` or `peers`, found `{other}`")),
        };
        Ok(Self { op, to })
    }
}

impl FromStr for Condition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            "absent" => Ok(Self::Absent),
            "present" => Ok(Self::Present),
            "no data" => Ok(Self::NoData),
            text => text.split(" and ").map(str::parse).collect::<Result<_, _>>().map(Self::All),
        }
    }
}

impl TryFrom<String> for Condition {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Condition> for String {
    fn from(condition: Condition) -> Self {
        condition.to_string()
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let op = self.op.symbol();
        match self.to {
            Reference::Number(n) => write!(f, "{op} {n}"),
            Reference::Baseline(n) => write!(f, "{op} {n}x baseline"),
            Reference::Peers(n) => write!(f, "{op} {n}x peers"),
        }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str("absent"),
            Self::Present => f.write_str("present"),
            Self::NoData => f.write_str("no data"),
            Self::All(list) => {
                for (i, comparison) in list.iter().enumerate() {
                    let sep = if i == 0 { "" } else { " and " };
                    write!(f, "{sep}{comparison}")?;
                }
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_condition_says_what_was_expected() {
        let error = |text: &str| text.parse::<Condition>().unwrap_err();
        assert_eq!(error("0.9"), "condition `0.9` must start with >, >=, < or <=");
        assert_eq!(error("> lots"), "condition `> lots`: `lots` is no number");
        assert_eq!(error("> 2 baseline"), "condition `> 2 baseline`: a multiple is written like `1.5x`");
        assert_eq!(
            error("> 2x yesterday"),
            "condition `> 2x yesterday`: expected `baseline` or `peers`, found `yesterday`"
        );
        assert!(error("> NaN").contains("is no number"));
    }
}

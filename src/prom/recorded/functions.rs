//! The functions of PromQL that queries of signals use, the shipped ones and a user's own.

use std::sync::Arc;

use promql_parser::parser::{Call, Expr, LabelModifier};
use regex::Regex;

use super::evaluate::{Evaluation, Stretch, chosen, nameless};
use super::value::{CountedRow, Evaluated, Key, LEAST, grouped, is_counter, quantile_of};
use crate::PromError::{self, NotEvaluated};
use crate::quantile::{quantile, sorted};

impl Evaluation<'_> {
    pub(super) fn call(&self, call: &Call, at: i64) -> Result<Evaluated, PromError> {
        let name = call.func.name;
        let args: Vec<&Expr> = call.args.args.iter().map(|arg| &**arg).collect();
        let arg = |i: usize| args.get(i).copied().ok_or_else(|| NotEvaluated(format!("`{name}` needs more arguments")));
        let each = |of: &dyn Fn(f64) -> f64| -> Result<Evaluated, PromError> {
            let mut rows: Vec<CountedRow> = self.vector(arg(0)?, at)?.into_iter().map(nameless).collect();
            rows.iter_mut().for_each(|row| row.value = of(row.value));
            Ok(Evaluated::Rows(rows))
        };
        match name {
            "time" => Ok(Evaluated::Number(at as f64 / 1e3)),
            "scalar" => Ok(Evaluated::Number(match self.vector(arg(0)?, at)?.as_slice() {
                [one] => one.value,
                _ => f64::NAN,
            })),
            "vector" => Ok(Evaluated::Rows(vec![CountedRow::number(self.number(arg(0)?, at)?)])),
            "timestamp" => {
                // Only a selector's samples have a time of their own.
                let Expr::VectorSelector(selector) = arg(0)? else { return each(&|_| at as f64 / 1e3) };
                let of = |labels, time| CountedRow { labels, ..CountedRow::number(time as f64 / 1e3) };
                let held = self.held(selector, at).map(|(_, labels, (time, _))| of(Arc::clone(labels), time));
                Ok(Evaluated::Rows(held.collect()))
            }
            "abs" => each(&f64::abs),
            "ceil" => each(&f64::ceil),
            "floor" => each(&f64::floor),
            "sqrt" => each(&f64::sqrt),
            "round" => {
                let to = if args.len() > 1 { self.number(arg(1)?, at)? } else { 1.0 };
                each(&|value| (value / to + 0.5).floor() * to)
            }
            "clamp_max" => {
                let most = self.number(arg(1)?, at)?;
                each(&|value| value.min(most))
            }
            "clamp_min" => {
                let least = self.number(arg(1)?, at)?;
                // A floor above 0 says what a share of few events counts as.
                let events = |row: &CountedRow| if least > 0.0 { f64::INFINITY } else { row.events };
                let rows = self.vector(arg(0)?, at)?.into_iter().map(nameless);
                let clamped = |row: CountedRow| CountedRow { events: events(&row), value: row.value.max(least), ..row };
                Ok(Evaluated::Rows(rows.map(clamped).collect()))
            }
            "histogram_quantile" => self.quantiles(self.number(arg(0)?, at)?, arg(1)?, at),
            "label_replace" => self.replaced(&args, at),
            "label_join" => self.joined(&args, at),
            "absent" => {
                let absent = self.vector(arg(0)?, at)?.is_empty();
                Ok(Evaluated::Rows(absent.then(|| CountedRow::number(1.0)).into_iter().collect()))
            }
            "quantile_over_time" => {
                let q = self.number(arg(0)?, at)?;
                // What a fifth of the reads is below takes five reads: two tell nothing of what a value is usually above.
                let of = |points: &[(i64, f64)]| {
                    (points.len() as f64 * q >= 1.0).then(|| quantile_of(q, values(points).collect()))
                };
                self.over(arg(1)?, at, of, counts_nothing).map(without_names)
            }
            // Each read of a gauge counts what it finds: shares of a few requests are chance.
            "avg_over_time" => {
                let counted = |points: &[(i64, f64)]| values(points).sum();
                let mean = |points: &[(i64, f64)]| Some(values(points).sum::<f64>() / points.len() as f64);
                self.over(arg(0)?, at, mean, counted).map(without_names)
            }
            // It alone keeps the names of metrics.
            "last_over_time" => self.over(arg(0)?, at, |points| Some(points.last()?.1), counts_nothing),
            _ => match range_function(name) {
                Some(function) => self.over(arg(0)?, at, function, counts_nothing).map(without_names),
                None => Err(NotEvaluated(format!("the function `{name}` is not evaluated here"))),
            },
        }
    }

    /// Computes each series of a range. The events of a counter are its increase, those of a gauge what `counted` says.
    fn over(
        &self,
        range: &Expr,
        at: i64,
        function: impl Fn(&[(i64, f64)]) -> Option<f64>,
        counted: impl Fn(&[(i64, f64)]) -> f64,
    ) -> Result<Evaluated, PromError> {
        let computed = |Stretch { name, labels, points }: Stretch| {
            let value = function(&points)?;
            let is_counter = name.as_deref().is_some_and(is_counter);
            let events = if is_counter { increase(&points).unwrap_or_default() } else { counted(&points) };
            Some(CountedRow { name, labels, value, events })
        };
        Ok(Evaluated::Rows(self.range(range, at)?.into_iter().filter_map(computed).collect()))
    }

    fn quantiles(&self, q: f64, of: &Expr, at: i64) -> Result<Evaluated, PromError> {
        let rows = self.vector(of, at)?;
        let all_but_bounds = LabelModifier::exclude(vec!["le"]);
        let of_group = |(key, rows): (Key<'_>, Vec<&CountedRow>)| {
            let bound = |row: &&CountedRow| Some((row.label("le").parse::<f64>().ok()?, row.value));
            let buckets = sorted(rows.iter().filter_map(bound).collect());
            let events = rows.iter().map(|row| row.events).fold(0.0, f64::max);
            (events >= LEAST).then(|| CountedRow::of(&key, quantile(q, &buckets), events))
        };
        let groups = grouped(&rows, |row| chosen(row, &all_but_bounds));
        Ok(Evaluated::Rows(groups.into_iter().filter_map(of_group).collect()))
    }

    /// `label_replace(rows, into, replacement, from, pattern)`.
    fn replaced(&self, args: &[&Expr], at: i64) -> Result<Evaluated, PromError> {
        let [of, into, replacement, from, pattern] = args else {
            return Err(NotEvaluated("`label_replace` needs five".to_owned()));
        };
        let [into, replacement, from, pattern] = [text(into)?, text(replacement)?, text(from)?, text(pattern)?];
        let pattern = Regex::new(&format!("^(?s:{pattern})$")).map_err(|error| NotEvaluated(error.to_string()))?;
        // Go reads `$1_x` as the group `1_x` too, so both need braces there; here `$1-x` is the same for both.
        let mut rows = self.vector(of, at)?;
        for row in &mut rows {
            let mut value = String::new();
            let Some(found) = pattern.captures(row.label(from)) else { continue };
            found.expand(replacement, &mut value);
            row.set(into, &value);
        }
        Ok(Evaluated::Rows(rows))
    }

    /// `label_join(rows, into, separator, from…)`.
    fn joined(&self, args: &[&Expr], at: i64) -> Result<Evaluated, PromError> {
        let [of, into, separator, from @ ..] = args else {
            return Err(NotEvaluated("`label_join` needs three".to_owned()));
        };
        let [into, separator] = [text(into)?, text(separator)?];
        let from: Vec<&str> = from.iter().map(|label| text(label)).collect::<Result<_, _>>()?;
        let mut rows = self.vector(of, at)?;
        for row in &mut rows {
            let value = from.iter().map(|label| row.label(label)).collect::<Vec<_>>().join(separator);
            row.set(into, &value);
        }
        Ok(Evaluated::Rows(rows))
    }
}

fn counts_nothing(_: &[(i64, f64)]) -> f64 {
    f64::INFINITY
}

fn without_names(value: Evaluated) -> Evaluated {
    match value {
        Evaluated::Rows(rows) => Evaluated::Rows(rows.into_iter().map(nameless).collect()),
        number @ Evaluated::Number(_) => number,
    }
}

fn text(expr: &Expr) -> Result<&str, PromError> {
    match expr {
        Expr::StringLiteral(literal) => Ok(&literal.val),
        _ => Err(NotEvaluated(format!("`{expr}` is no text"))),
    }
}

fn values(points: &[(i64, f64)]) -> impl Iterator<Item = f64> {
    points.iter().map(|(_, value)| *value)
}

/// Returns the growth of a counter, which begins at 0 again after a restart; `None` for a single sample.
fn increase(points: &[(i64, f64)]) -> Option<f64> {
    let grown = |pair: &[(i64, f64)]| if pair[1].1 < pair[0].1 { pair[1].1 } else { pair[1].1 - pair[0].1 };
    (points.len() > 1).then(|| points.windows(2).map(grown).sum())
}

fn seconds(points: &[(i64, f64)]) -> Option<f64> {
    let apart = points.last()?.0 - points.first()?.0;
    (apart > 0).then_some(apart as f64 / 1e3)
}

/// Computes the samples of one series within a range; `None` if they are too few.
type RangeFunction = fn(&[(i64, f64)]) -> Option<f64>;

/// Returns the function of a range. Nothing is extrapolated to the range's ends: reads are where they are.
fn range_function(name: &str) -> Option<RangeFunction> {
    Some(match name {
        "increase" => increase,
        "rate" => |points| Some(increase(points)? / seconds(points)?),
        "irate" => |points| {
            let last = &points[points.len().saturating_sub(2)..];
            Some(increase(last)? / seconds(last)?)
        },
        "delta" => |points| (points.len() > 1).then(|| points[points.len() - 1].1 - points[0].1),
        "changes" => |points| Some(points.windows(2).filter(|pair| pair[0].1 != pair[1].1).count() as f64),
        "resets" => |points| Some(points.windows(2).filter(|pair| pair[1].1 < pair[0].1).count() as f64),
        "deriv" => slope,
        "sum_over_time" => |points| Some(values(points).sum()),
        "count_over_time" => |points| Some(points.len() as f64),
        "present_over_time" => |points| (!points.is_empty()).then_some(1.0),
        "max_over_time" => |points| values(points).reduce(f64::max),
        "min_over_time" => |points| values(points).reduce(f64::min),
        _ => return None,
    })
}

/// Returns the slope of the line that fits best, per second.
fn slope(points: &[(i64, f64)]) -> Option<f64> {
    seconds(points)?;
    let (n, begin) = (points.len() as f64, points[0].0);
    let xy = || points.iter().map(|(at, value)| ((at - begin) as f64 / 1e3, *value));
    let (x, y) = xy().fold((0.0, 0.0), |(x, y), (a, b)| (x + a / n, y + b / n));
    let (over, under) = xy().fold((0.0, 0.0), |(o, u), (a, b)| (o + (a - x) * (b - y), u + (a - x) * (a - x)));
    Some(over / under)
}

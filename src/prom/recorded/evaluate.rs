//! The evaluation of an expression at one time: selectors, ranges and aggregations.

use std::sync::Arc;
use std::time::Instant;

use indexmap::IndexMap;
use promql_parser::parser::{AggregateExpr, Expr, LabelModifier, Offset, VectorSelector, token};

use super::value::{CountedRow, Evaluated, Key, grouped, is_counter, quantile_of};
use super::{LOOKBACK, NAME, Points, Recorded};
use crate::PromError::{self, NotEvaluated};
use knowledge::alert::Labels;

/// The step of a subquery that names none, in milliseconds. Source: Prometheus, `global.evaluation_interval`.
const STEP: i64 = 60_000;
/// Maximum number of steps of a subquery.
const STEPS_MOST: i64 = 20_000;

/// A series within a range.
pub(super) struct Stretch {
    pub(super) name: Option<Arc<str>>,
    pub(super) labels: Arc<Labels>,
    pub(super) points: Vec<(i64, f64)>,
}

#[derive(Clone, Copy)]
pub(super) struct Evaluation<'a> {
    pub(super) recorded: &'a Recorded,
    /// The end of the evaluation.
    pub(super) deadline: Instant,
}

impl Evaluation<'_> {
    /// Returns the rows of an expression; those of a number are one without labels.
    pub(super) fn vector(&self, expr: &Expr, at: i64) -> Result<Vec<CountedRow>, PromError> {
        Ok(match self.value(expr, at)? {
            Evaluated::Rows(rows) => rows,
            Evaluated::Number(number) => vec![CountedRow::number(number)],
        })
    }

    pub(super) fn number(&self, expr: &Expr, at: i64) -> Result<f64, PromError> {
        match self.value(expr, at)? {
            Evaluated::Number(number) => Ok(number),
            Evaluated::Rows(_) => Err(NotEvaluated(format!("`{expr}` is no number"))),
        }
    }

    pub(super) fn value(&self, expr: &Expr, at: i64) -> Result<Evaluated, PromError> {
        if Instant::now() >= self.deadline {
            return Err(PromError::Late);
        }
        match expr {
            Expr::NumberLiteral(literal) => Ok(Evaluated::Number(literal.val)),
            Expr::Paren(paren) => self.value(&paren.expr, at),
            Expr::VectorSelector(selector) => Ok(Evaluated::Rows(self.instant(selector, at))),
            Expr::Aggregate(of) => self.aggregate(of, at).map(Evaluated::Rows),
            Expr::Binary(of) => self.binary(of, at),
            Expr::Call(call) => self.call(call, at),
            Expr::Unary(of) => Ok(match self.value(&of.expr, at)? {
                Evaluated::Number(number) => Evaluated::Number(-number),
                Evaluated::Rows(rows) => Evaluated::Rows(
                    rows.into_iter().map(|row| CountedRow { value: -row.value, ..nameless(row) }).collect(),
                ),
            }),
            Expr::StringLiteral(_) | Expr::MatrixSelector(_) | Expr::Subquery(_) | Expr::Extension(_) => {
                Err(NotEvaluated(format!("`{expr}` is not evaluated here")))
            }
        }
    }

    /// Returns the last sample of each series that still holds.
    pub(super) fn instant(&self, selector: &VectorSelector, at: i64) -> Vec<CountedRow> {
        let sample = |(name, labels, (_, value)): (&Arc<str>, &Arc<Labels>, (i64, f64))| CountedRow {
            name: Some(Arc::clone(name)),
            labels: Arc::clone(labels),
            value,
            events: if is_counter(name) { value } else { f64::INFINITY },
        };
        self.held(selector, at).map(sample).collect()
    }

    /// Returns the last sample of each series that still holds, with its time.
    pub(super) fn held<'s>(
        &'s self,
        selector: &'s VectorSelector,
        at: i64,
    ) -> impl Iterator<Item = (&'s Arc<str>, &'s Arc<Labels>, (i64, f64))> + 's {
        let at = shifted(at, selector.offset.as_ref());
        self.recorded.select(selector).filter_map(move |(name, labels, points)| {
            let last = points.partition_point(|(time, _)| *time <= at).checked_sub(1)?;
            let point = points.get(last).filter(|(time, _)| *time > at - LOOKBACK)?;
            Some((name, labels, *point))
        })
    }

    /// Returns the series of a range. One that holds a single sample reaches back to the one before: the reads may be
    /// further apart than the range that a query was written with.
    pub(super) fn range(&self, expr: &Expr, at: i64) -> Result<Vec<Stretch>, PromError> {
        match expr {
            Expr::Paren(paren) => self.range(&paren.expr, at),
            Expr::MatrixSelector(matrix) => {
                let at = shifted(at, matrix.vs.offset.as_ref());
                let from = at - millis(matrix.range);
                let stretch = |(name, labels, points): (&Arc<str>, &Arc<Labels>, Points<'_>)| {
                    let end = points.partition_point(|(time, _)| *time <= at);
                    let begin = points.partition_point(|(time, _)| *time < from);
                    let begin = if end.saturating_sub(begin) == 1 { begin.saturating_sub(1) } else { begin };
                    let points = points.get(begin..end).filter(|points| !points.is_empty())?;
                    Some(Stretch { name: Some(Arc::clone(name)), labels: Arc::clone(labels), points: points.to_vec() })
                };
                Ok(self.recorded.select(&matrix.vs).filter_map(stretch).collect())
            }
            Expr::Subquery(of) => {
                let at = shifted(at, of.offset.as_ref());
                let step = of.step.map_or(STEP, millis).max(1);
                // Nothing is before the first sample.
                let from =
                    (at - millis(of.range)).max(self.recorded.earliest()).max(at - STEPS_MOST.saturating_mul(step));
                // Steps are counted from the end, so that the last one is the time that is asked about; the beginning is one
                // too, for the first of two reads is there.
                let mut series: IndexMap<_, Vec<(i64, f64)>> = IndexMap::new();
                let beginning = Some(from).filter(|from| (at - from) % step != 0 && *from < at);
                for time in beginning.into_iter().chain((0..=(at - from) / step).rev().map(|i| at - i * step)) {
                    for row in self.vector(&of.expr, time)? {
                        series.entry((row.name, row.labels)).or_default().push((time, row.value));
                    }
                }
                Ok(series.into_iter().map(|((name, labels), points)| Stretch { name, labels, points }).collect())
            }
            _ => Err(NotEvaluated(format!("`{expr}` is no range"))),
        }
    }

    fn aggregate(&self, of: &AggregateExpr, at: i64) -> Result<Vec<CountedRow>, PromError> {
        let param = of.param.as_ref().map(|param| self.number(param, at)).transpose()?.unwrap_or_default();
        let rows = self.vector(&of.expr, at)?;
        let key = |row| of.modifier.as_ref().map_or_else(Vec::new, |modifier| chosen(row, modifier));
        let mut out = Vec::new();
        for (key, mut rows) in grouped(&rows, key) {
            let values: Vec<f64> = rows.iter().map(|row| row.value).collect();
            let (sum, n) = (values.iter().sum::<f64>(), values.len() as f64);
            let events = rows.iter().map(|row| row.events).sum();
            let value = match of.op.id() {
                token::T_SUM => sum,
                token::T_AVG => sum / n,
                token::T_MIN => values.into_iter().reduce(f64::min).unwrap_or(f64::NAN),
                token::T_MAX => values.into_iter().reduce(f64::max).unwrap_or(f64::NAN),
                token::T_QUANTILE => quantile_of(param, values),
                token::T_COUNT | token::T_GROUP => {
                    let value = if of.op.id() == token::T_COUNT { n } else { 1.0 };
                    out.push(CountedRow::of(&key, value, f64::INFINITY));
                    continue;
                }
                token::T_TOPK | token::T_BOTTOMK => {
                    rows.sort_by(|a, b| a.value.total_cmp(&b.value));
                    if of.op.id() == token::T_TOPK {
                        rows.reverse();
                    }
                    rows.truncate(param.max(0.0) as usize);
                    out.extend(rows.into_iter().cloned());
                    continue;
                }
                _ => return Err(NotEvaluated(format!("`{}` is not evaluated here", of.op))),
            };
            out.push(CountedRow::of(&key, value, events));
        }
        Ok(out)
    }
}

/// Returns the row without the name of its metric.
pub(super) fn nameless(mut row: CountedRow) -> CountedRow {
    row.name = None;
    row
}

/// Returns the labels that `by`, `without`, `on` or `ignoring` compares.
pub(super) fn chosen<'r>(row: &'r CountedRow, modifier: &LabelModifier) -> Key<'r> {
    let listed = |label: &str| modifier.labels().labels.iter().any(|own| own == label);
    let keeps = |label: &str| match modifier {
        LabelModifier::Include(_) => listed(label),
        LabelModifier::Exclude(_) => !listed(label) && label != NAME,
    };
    let all =
        row.name.iter().map(|name| (NAME, &**name)).chain(row.labels.iter().map(|(k, v)| (k.as_str(), v.as_str())));
    all.filter(|(label, value)| keeps(label) && !value.is_empty()).collect()
}

fn shifted(at: i64, offset: Option<&Offset>) -> i64 {
    match offset {
        None => at,
        Some(Offset::Pos(by)) => at - millis(*by),
        Some(Offset::Neg(by)) => at + millis(*by),
    }
}

fn millis(duration: std::time::Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX / 4)
}

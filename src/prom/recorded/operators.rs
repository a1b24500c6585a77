//! Binary operators: arithmetic, comparisons, and the set operators, with their matching of labels.

use std::collections::{HashMap, HashSet};

use promql_parser::parser::{BinModifier, BinaryExpr, LabelModifier, VectorMatchCardinality, token};

use super::evaluate::{Evaluation, chosen, nameless};
use super::value::{CountedRow, Evaluated, Key, LEAST};
use crate::PromError::{self, NotEvaluated};

impl Evaluation<'_> {
    pub(super) fn binary(&self, of: &BinaryExpr, at: i64) -> Result<Evaluated, PromError> {
        let op = of.op.id();
        let modifier = of.modifier.as_ref();
        let as_bool = modifier.is_some_and(|modifier| modifier.return_bool);
        let compares = of.op.is_comparison_operator();
        match (self.value(&of.lhs, at)?, self.value(&of.rhs, at)?) {
            (Evaluated::Number(a), Evaluated::Number(b)) => computed(op, a, b).map(Evaluated::Number),
            (Evaluated::Rows(rows), Evaluated::Number(b)) => {
                each(rows, compares, as_bool, |value| computed(op, value, b))
            }
            (Evaluated::Number(a), Evaluated::Rows(mut rows)) => {
                rows.retain(|row| op != token::T_DIV || row.events >= LEAST);
                each(rows, compares, as_bool, |value| computed(op, a, value))
            }
            (Evaluated::Rows(left), Evaluated::Rows(right)) if of.op.is_set_operator() => {
                Ok(Evaluated::Rows(set(op, left, right, modifier)))
            }
            (Evaluated::Rows(left), Evaluated::Rows(right)) => {
                matched(op, compares, as_bool, left, right, modifier).map(Evaluated::Rows)
            }
        }
    }
}

/// Computes each row with a number. A comparison keeps what is true with its own value, or is 0 or 1 with `bool`.
fn each(
    rows: Vec<CountedRow>,
    compares: bool,
    as_bool: bool,
    result: impl Fn(f64) -> Result<f64, PromError>,
) -> Result<Evaluated, PromError> {
    let mut out = Vec::new();
    for row in rows {
        let result = result(row.value)?;
        match (compares, as_bool) {
            (true, false) if result == 0.0 => {}
            (true, false) => out.push(row),
            (true, true) => out.push(CountedRow { value: result, events: f64::INFINITY, ..nameless(row) }),
            (false, _) => out.push(CountedRow { value: result, ..nameless(row) }),
        }
    }
    Ok(Evaluated::Rows(out))
}

fn computed(op: token::TokenId, a: f64, b: f64) -> Result<f64, PromError> {
    Ok(match op {
        token::T_ADD => a + b,
        token::T_SUB => a - b,
        token::T_MUL => a * b,
        token::T_DIV => a / b,
        token::T_MOD => a % b,
        token::T_POW => a.powf(b),
        token::T_EQLC => f64::from(a == b),
        token::T_NEQ => f64::from(a != b),
        token::T_GTR => f64::from(a > b),
        token::T_LSS => f64::from(a < b),
        token::T_GTE => f64::from(a >= b),
        token::T_LTE => f64::from(a <= b),
        _ => return Err(NotEvaluated("an operator that is not evaluated here".to_owned())),
    })
}

/// Returns the labels that are compared: those of `on`, all but those of `ignoring`, else all but the name.
fn key<'r>(row: &'r CountedRow, modifier: Option<&BinModifier>) -> Key<'r> {
    let all = LabelModifier::exclude(Vec::new());
    chosen(row, modifier.and_then(|modifier| modifier.matching.as_ref()).unwrap_or(&all))
}

fn set(
    op: token::TokenId,
    mut left: Vec<CountedRow>,
    mut right: Vec<CountedRow>,
    modifier: Option<&BinModifier>,
) -> Vec<CountedRow> {
    let (kept, other) = if op == token::T_LOR { (&mut right, &left) } else { (&mut left, &right) };
    let known: HashSet<Key<'_>> = other.iter().map(|row| key(row, modifier)).collect();
    kept.retain(|row| known.contains(&key(row, modifier)) == (op == token::T_LAND));
    if op == token::T_LOR {
        left.extend(right);
    }
    left
}

/// Combines the rows of both sides that match.
fn matched(
    op: token::TokenId,
    compares: bool,
    as_bool: bool,
    left: Vec<CountedRow>,
    right: Vec<CountedRow>,
    modifier: Option<&BinModifier>,
) -> Result<Vec<CountedRow>, PromError> {
    let card = modifier.map(|modifier| &modifier.card);
    let swapped = matches!(card, Some(VectorMatchCardinality::OneToMany(_)));
    let (many, one) = if swapped { (right, left) } else { (left, right) };
    let mut ones: HashMap<Key<'_>, &CountedRow> = HashMap::new();
    for row in &one {
        let key = key(row, modifier);
        if ones.insert(key.clone(), row).is_some() {
            return Err(NotEvaluated(format!("several series on one side match {key:?}")));
        }
    }
    let included = match card {
        Some(VectorMatchCardinality::ManyToOne(labels) | VectorMatchCardinality::OneToMany(labels)) => Some(labels),
        _ => None,
    };
    let mut taken = HashSet::new();
    let mut out = Vec::new();
    for row in &many {
        let key = key(row, modifier);
        let Some(other) = ones.get(&key).copied() else { continue };
        if included.is_none() && !taken.insert(key.clone()) {
            return Err(NotEvaluated(format!("several series on both sides match {key:?}")));
        }
        let (a, b) = if swapped { (other, row) } else { (row, other) };
        let (result, own) = (computed(op, a.value, b.value)?, a.value);
        if (op == token::T_DIV && b.events < LEAST) || (compares && !as_bool && result == 0.0) {
            continue;
        }
        let events = match op {
            // What counts no events adds none.
            token::T_ADD if a.events.is_finite() && b.events.is_finite() => a.events + b.events,
            token::T_SUB if a.events.is_finite() && b.events.is_finite() => a.events.max(b.events),
            _ if compares => a.events,
            _ => a.events.min(b.events),
        };
        let value = if compares && !as_bool { own } else { result };
        let mut combined = match included {
            Some(labels) => {
                let mut own = CountedRow { value, events, ..row.clone() };
                // What the other side lacks is lacking in the result too.
                labels.labels.iter().for_each(|label| own.set(label, other.label(label)));
                own
            }
            None => CountedRow::of(&key, value, events),
        };
        if !compares || as_bool {
            combined.name = None;
        }
        out.push(combined);
    }
    Ok(out)
}

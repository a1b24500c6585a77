//! A query split into the sums that Prometheus evaluates and the arithmetic that is computed here.
//!
//! Quantiles of one histogram, of the pool and of its replicas, share one sum by bucket; ratios and means share their
//! counters. A query that contains anything but sums, numbers and arithmetic is sent unchanged.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use promql_parser::parser::{Expr, LabelModifier, VectorMatchCardinality, token};

use super::quantile::{Bucket, quantile, sorted};
use super::{Answer, MetricNames, MissingPart, Row};
use knowledge::alert::Labels;
use knowledge::promql::parse;

/// The label with a bucket's upper bound.
const LE: &str = "le";

/// Aggregations that may be combined with sums; they are sent unchanged.
const SENT_UNCHANGED: [token::TokenId; 5] = [token::T_MAX, token::T_MIN, token::T_AVG, token::T_COUNT, token::T_GROUP];

/// The expression that is computed here from Prometheus' answers.
#[derive(Debug, Clone, PartialEq)]
pub enum Formula {
    /// No rows.
    Nothing,
    /// A number.
    Number(f64),
    /// A vector that Prometheus evaluates.
    Part(QueryPart),
    /// A quantile, 0..1, of a histogram.
    Quantile(f64, QueryPart),
    /// A binary operation; rows with equal labels are combined.
    Both(VectorOp, Box<Formula>, Box<Formula>),
}

/// A binary operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VectorOp {
    /// `+`
    Plus,
    /// `-`
    Minus,
    /// `*`
    Times,
    /// `/`
    Over,
    /// `or`: the rows of the left side, and those of the right side whose labels the left side does not have.
    Or,
}

/// A vector that Prometheus evaluates.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct QueryPart {
    /// The PromQL that is summed; the whole query if there is no sum.
    of: String,
    /// The labels of the sum's `by`; `None` if it is not a sum.
    by: Option<BTreeSet<String>>,
}

/// The parsed answer to a part.
#[derive(Debug, Clone, PartialEq)]
pub enum PartAnswer {
    /// One value for each row.
    Rows(Arc<Answer<Row>>),
    /// The buckets of a histogram for each row, and the part of the data that they lack.
    Histograms(Vec<(Labels, Vec<Bucket>)>, Option<MissingPart>),
}

impl Formula {
    /// Splits a query, without the metrics that do not exist. A query of no supported form becomes a single part.
    pub fn of(query: &str, names: &MetricNames) -> Self {
        let Some(query) = names.prune(query) else { return Self::Nothing };
        let read = parse(&query).ok().and_then(|expr| read(&expr));
        read.unwrap_or_else(|| Self::whole(&query))
    }

    /// Builds a formula that sends the query unchanged.
    pub fn whole(query: &str) -> Self {
        Self::Part(QueryPart { of: query.to_owned(), by: None })
    }

    /// Returns the vectors that Prometheus must evaluate.
    pub fn parts(&self) -> Vec<&QueryPart> {
        match self {
            Self::Nothing | Self::Number(_) => Vec::new(),
            Self::Part(part) | Self::Quantile(_, part) => vec![part],
            Self::Both(_, a, b) => [a.parts(), b.parts()].concat(),
        }
    }

    /// Computes the rows of the whole query from the answers to its parts; rows that are not finite are left out.
    ///
    /// # Errors
    /// The error of a part that has no answer.
    pub fn rows<E>(
        &self,
        answer_of: &impl Fn(&QueryPart) -> Result<Arc<PartAnswer>, E>,
    ) -> Result<Arc<Answer<Row>>, E> {
        if let Self::Part(part) = self
            && let PartAnswer::Rows(rows) = &*answer_of(part)?
        {
            return Ok(Arc::clone(rows));
        }
        let rows = match self.value(answer_of)? {
            Value::Number(value) => vec![Row { labels: Labels::new(), value }],
            Value::Rows(rows) => rows,
        };
        let rows: Answer<Row> = rows.into_iter().filter(|row| row.value.is_finite()).collect();
        let missing = self.parts().into_iter().find_map(|part| answer_of(part).ok()?.missing().cloned());
        Ok(Arc::new(rows.with_missing(missing)))
    }

    fn value<E>(&self, answer_of: &impl Fn(&QueryPart) -> Result<Arc<PartAnswer>, E>) -> Result<Value, E> {
        Ok(match self {
            Self::Nothing => Value::Rows(Vec::new()),
            Self::Number(value) => Value::Number(*value),
            Self::Part(part) => Value::Rows(answer_of(part)?.rows()),
            Self::Quantile(q, part) => Value::Rows(answer_of(part)?.quantiles(*q)),
            Self::Both(op, a, b) => both(*op, a.value(answer_of)?, b.value(answer_of)?),
        })
    }
}

impl QueryPart {
    /// Returns the PromQL to send.
    pub fn query(&self) -> String {
        match &self.by {
            None => self.of.clone(),
            Some(by) => {
                format!("sum by ({}) ({})", by.iter().map(String::as_str).collect::<Vec<_>>().join(", "), self.of)
            }
        }
    }

    /// Returns true if this part can be computed from `finer`, a sum of the same by more labels.
    pub fn is_in(&self, finer: &Self) -> bool {
        let labels = self.by.as_ref().zip(finer.by.as_ref());
        // Without `le` the sum of a histogram would count every cumulative bucket.
        let same_kind = |a: &BTreeSet<String>, b: &BTreeSet<String>| a.contains(LE) == b.contains(LE);
        self == finer || (self.of == finer.of && labels.is_some_and(|(a, b)| same_kind(a, b) && a.is_subset(b)))
    }

    /// Parses the rows of the answer; groups them to histograms if the sum is by bucket.
    pub fn read(&self, rows: &Arc<Answer<Row>>) -> PartAnswer {
        if !self.by.as_ref().is_some_and(|by| by.contains(LE)) {
            return PartAnswer::Rows(Arc::clone(rows));
        }
        let mut histograms: BTreeMap<Labels, Vec<Bucket>> = BTreeMap::new();
        for row in rows.iter() {
            let mut labels = row.labels.clone();
            let Some(bound) = labels.remove(LE).and_then(|le| le.parse::<f64>().ok()) else { continue };
            histograms.entry(labels).or_default().push((bound, row.value));
        }
        let histograms = histograms.into_iter().map(|(labels, buckets)| (labels, sorted(buckets))).collect();
        PartAnswer::Histograms(histograms, rows.missing().cloned())
    }

    /// Computes the answer to this part from the answer to a finer sum.
    pub fn summed(&self, finer: &PartAnswer) -> PartAnswer {
        let Some(by) = &self.by else { return finer.clone() };
        let labels_of_sum = |labels: &Labels| -> Labels {
            labels
                .iter()
                .filter(|(name, _)| by.contains(*name))
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect()
        };
        match finer {
            PartAnswer::Rows(rows) => {
                let mut sums: BTreeMap<Labels, f64> = BTreeMap::new();
                rows.iter().for_each(|row| *sums.entry(labels_of_sum(&row.labels)).or_default() += row.value);
                let sums: Answer<Row> = sums.into_iter().map(|(labels, value)| Row { labels, value }).collect();
                PartAnswer::Rows(Arc::new(sums.with_missing(rows.missing().cloned())))
            }
            PartAnswer::Histograms(histograms, missing) => {
                let mut sums: BTreeMap<Labels, Vec<Bucket>> = BTreeMap::new();
                for (labels, buckets) in histograms {
                    sums.entry(labels_of_sum(labels)).or_default().extend(buckets);
                }
                let sums = sums.into_iter().map(|(labels, buckets)| (labels, sorted(buckets))).collect();
                PartAnswer::Histograms(sums, missing.clone())
            }
        }
    }
}

impl PartAnswer {
    /// Returns the part of the data that it lacks.
    fn missing(&self) -> Option<&MissingPart> {
        match self {
            Self::Rows(rows) => rows.missing(),
            Self::Histograms(_, missing) => missing.as_ref(),
        }
    }

    fn rows(&self) -> Vec<Row> {
        match self {
            Self::Rows(rows) => rows.to_vec(),
            Self::Histograms(histograms, _) => {
                let row = |(labels, (bound, value)): (&Labels, &Bucket)| {
                    let mut labels = labels.clone();
                    labels.insert(
                        LE.to_owned(),
                        if *bound == f64::INFINITY { "+Inf".to_owned() } else { bound.to_string() },
                    );
                    Row { labels, value: *value }
                };
                histograms.iter().flat_map(|(labels, buckets)| buckets.iter().map(move |b| row((labels, b)))).collect()
            }
        }
    }

    fn quantiles(&self, q: f64) -> Vec<Row> {
        let Self::Histograms(histograms, _) = self else { return Vec::new() };
        histograms.iter().map(|(labels, buckets)| Row { labels: labels.clone(), value: quantile(q, buckets) }).collect()
    }
}

enum Value {
    Number(f64),
    Rows(Vec<Row>),
}

fn both(op: VectorOp, a: Value, b: Value) -> Value {
    let of = |a: f64, b: f64| match op {
        VectorOp::Plus => a + b,
        VectorOp::Minus => a - b,
        VectorOp::Times => a * b,
        VectorOp::Over => a / b,
        VectorOp::Or => a,
    };
    let each = |rows: Vec<Row>, of: &dyn Fn(f64) -> f64| {
        Value::Rows(rows.into_iter().map(|row| Row { value: of(row.value), ..row }).collect())
    };
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => Value::Number(of(a, b)),
        (Value::Number(a), Value::Rows(b)) => each(b, &|b| of(a, b)),
        (Value::Rows(a), Value::Number(b)) => each(a, &|a| of(a, b)),
        (Value::Rows(mut a), Value::Rows(b)) if op == VectorOp::Or => {
            let first: BTreeSet<Labels> = a.iter().map(|row| row.labels.clone()).collect();
            a.extend(b.into_iter().filter(|row| !first.contains(&row.labels)));
            Value::Rows(a)
        }
        (Value::Rows(a), Value::Rows(b)) => {
            let mut second: BTreeMap<Labels, f64> = b.into_iter().map(|row| (row.labels, row.value)).collect();
            let pair = |row: Row| second.remove(&row.labels).map(|b| Row { value: of(row.value, b), ..row });
            Value::Rows(a.into_iter().filter_map(pair).collect())
        }
    }
}

fn read(expr: &Expr) -> Option<Formula> {
    match expr {
        Expr::Paren(inner) => read(&inner.expr),
        Expr::NumberLiteral(number) => Some(Formula::Number(number.val)),
        Expr::Aggregate(sum) if sum.op.id() == token::T_SUM => {
            let by = match &sum.modifier {
                None => BTreeSet::new(),
                Some(LabelModifier::Include(labels)) => labels.labels.iter().cloned().collect(),
                Some(LabelModifier::Exclude(_)) => return None,
            };
            Some(Formula::Part(QueryPart { of: sum.expr.to_string(), by: Some(by) }))
        }
        Expr::Aggregate(other) if SENT_UNCHANGED.contains(&other.op.id()) => Some(Formula::whole(&expr.to_string())),
        Expr::Call(call) if call.func.name == "histogram_quantile" => {
            let [q, buckets] = call.args.args.as_slice() else { return None };
            match (read(q)?, read(buckets)?) {
                (Formula::Number(q), Formula::Part(part)) if part.by.as_ref().is_some_and(|by| by.contains(LE)) => {
                    Some(Formula::Quantile(q, part))
                }
                _ => None,
            }
        }
        Expr::Binary(binary) => {
            let plain = binary.modifier.as_ref().is_none_or(|m| {
                let card = matches!(m.card, VectorMatchCardinality::OneToOne | VectorMatchCardinality::ManyToMany);
                card && m.matching.is_none() && !m.return_bool && m.fill_values == Default::default()
            });
            let op = match binary.op.id() {
                token::T_ADD => VectorOp::Plus,
                token::T_SUB => VectorOp::Minus,
                token::T_MUL => VectorOp::Times,
                token::T_DIV => VectorOp::Over,
                token::T_LOR => VectorOp::Or,
                _ => return None,
            };
            let (a, b) = (read(&binary.lhs)?, read(&binary.rhs)?);
            plain.then(|| Formula::Both(op, Box::new(a), Box::new(b)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use knowledge::playbook;
    use knowledge::signal::{Fill, Matcher, fill, matchers};

    fn row(labels: &[(&str, &str)], value: f64) -> Row {
        let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Row { labels, value }
    }

    /// Returns the rows of a query; `answers` maps each part's PromQL to its rows.
    fn rows(query: &str, answers: &[(&str, Vec<Row>)]) -> Vec<Row> {
        let answer_of = |part: &QueryPart| {
            let (_, rows) = answers.iter().find(|(query, _)| *query == part.query()).ok_or(part.query())?;
            Ok::<_, String>(Arc::new(part.read(&Arc::new(rows.iter().cloned().collect()))))
        };
        Formula::of(query, &MetricNames::default()).rows(&answer_of).unwrap().to_vec()
    }

    #[test]
    fn every_query_of_the_catalog_means_the_same_when_it_is_written_again_and_histograms_are_taken_apart() {
        let library = playbook::load(None).unwrap();
        let evil = Matcher::one("namespace", "x\"} or vector(1) #\\\n\u{1f600}");
        let some = Matcher { values: vec!["a.b".into(), "c".into()], or_absent: true, label: "model_name".into() };
        let scope = matchers(&[evil, some]);
        let mut quantiles = 0;
        for (engine, entry) in library.engines.values().flat_map(|e| e.signals.values().map(move |s| (e, s))) {
            let Some(query) = &entry.query else { continue };
            for by in [&[][..], &engine.replica] {
                let window = std::time::Duration::from_secs(61);
                let query = fill(
                    query,
                    &Fill { scope: &scope, workload: &scope, window, by, target: "job, instance", prefix: None },
                );
                let again = parse(&query).unwrap().to_string();
                assert_eq!(parse(&again).unwrap().to_string(), again, "{query}");
                let formula = Formula::of(&query, &MetricNames::default());
                quantiles += usize::from(query.contains("histogram_quantile"));
                for part in formula.parts() {
                    assert!(parse(&part.query()).is_ok(), "{}", part.query());
                    assert!(!part.of.contains("histogram_quantile"), "{query}");
                }
            }
        }
        assert!(quantiles > 100, "{quantiles}");
    }

    #[test]
    fn the_quantiles_of_a_pool_and_of_its_replicas_share_one_sum_by_bucket() {
        let pool = Formula::of(
            "histogram_quantile(0.99, sum by (le) (rate(x_bucket{a=\"b\"}[5m]))) / 1000",
            &MetricNames::default(),
        );
        let replicas = Formula::of(
            "histogram_quantile(0.5, sum by (le, pod) (rate(x_bucket{a=\"b\"}[300s])))",
            &MetricNames::default(),
        );
        let ([coarse], [fine]) = (pool.parts()[..].try_into().unwrap(), replicas.parts()[..].try_into().unwrap());
        let (coarse, fine): (&QueryPart, &QueryPart) = (coarse, fine);
        assert!(coarse.is_in(fine) && !fine.is_in(coarse));
        assert_eq!(fine.query(), "sum by (le, pod) (rate(x_bucket{a=\"b\"}[5m]))");
        let buckets = |pod: &'static str, counts: [f64; 3]| {
            ["1", "2", "+Inf"].into_iter().zip(counts).map(move |(le, n)| row(&[("pod", pod), ("le", le)], n))
        };
        let by_replica =
            fine.read(&Arc::new(buckets("a", [4.0, 4.0, 4.0]).chain(buckets("b", [0.0, 4.0, 4.0])).collect()));
        let sum = Arc::new(coarse.summed(&by_replica));
        let of = |formula: &Formula, by_replica: Arc<PartAnswer>| {
            formula.rows(&|_| Ok::<_, ()>(Arc::clone(&by_replica))).unwrap().to_vec()
        };
        assert_eq!(of(&replicas, Arc::new(by_replica)), [row(&[("pod", "a")], 0.5), row(&[("pod", "b")], 1.5)]);
        assert_eq!(of(&pool, sum), [row(&[], (1.0 + (7.92 - 4.0) / 4.0) / 1_000.0)]);
    }

    #[test]
    fn rows_with_equal_labels_meet_and_what_is_no_number_is_left_out() {
        let of = |value: [f64; 2]| vec![row(&[("pod", "a")], value[0]), row(&[("pod", "b")], value[1])];
        let answers =
            [("sum by (pod) (x)", of([2.0, 3.0])), ("sum by (pod) (y)", of([4.0, 0.0])), ("sum by () (z)", vec![])];
        let share = "sum by (pod) (x) / sum by (pod) (y)";
        assert_eq!(rows(share, &answers), [row(&[("pod", "a")], 0.5)], "nothing is divided by zero");
        assert_eq!(rows(&format!("1 - ({share})"), &answers), [row(&[("pod", "a")], 0.5)]);
        assert_eq!(rows("sum(z) or 0 * sum(z)", &answers), []);
        let one = [("sum by (pod) (x)", of([2.0, 3.0])[..1].to_vec()), answers[1].clone()];
        let both = rows("sum by (pod) (x) or 0 * sum by (pod) (y)", &one);
        assert_eq!(both, [row(&[("pod", "a")], 2.0), row(&[("pod", "b")], 0.0)]);
    }

    #[test]
    fn what_is_computed_from_a_part_of_the_data_is_about_a_part() {
        let missing = Some(MissingPart::new("a store is away"));
        let answer = |part: &QueryPart| {
            let bucket = |le: &str, n: f64| row(&[("le", le), ("pod", "a")], n);
            let rows: Answer<Row> = [bucket("1", 2.0), bucket("+Inf", 3.0)].into_iter().collect();
            let rows = rows.with_missing(missing.clone().filter(|_| part.query().contains("away")));
            Ok::<_, ()>(Arc::new(part.summed(&part.read(&Arc::new(rows)))))
        };
        let quantile = "histogram_quantile(0.5, sum by (le) (away_bucket))";
        for query in [quantile, "sum(away)", "sum(there) / sum(away)", "max(away)"] {
            let rows = Formula::of(query, &MetricNames::default()).rows(&answer).unwrap();
            assert_eq!(rows.incomplete(), Some("a store is away"), "{query}");
        }
        let rows = Formula::of("sum(there) or 0 * sum(here)", &MetricNames::default()).rows(&answer).unwrap();
        assert_eq!(rows.incomplete(), None);
    }

    #[test]
    fn what_is_no_sum_stays_whole() {
        for query in [
            "max by (pod) (x)",
            "sum by (pod) (x) / on (pod) sum by (pod, a) (y)",
            "sum without (a) (x)",
            "sum(x) > 1",
            "histogram_quantile(0.5, rate(x_bucket[5m]))",
            "sum(x) / y",
            "no promql (",
        ] {
            assert_eq!(Formula::of(query, &MetricNames::default()), Formula::whole(query), "{query}");
        }
    }

    #[test]
    fn buckets_are_told_with_their_bounds() {
        let answer = [row(&[("le", "1.0")], 2.0), row(&[("le", "+Inf")], 3.0), row(&[("le", "odd")], 1.0)];
        let quantile_rows = rows("sum by (le) (x_bucket)", &[("sum by (le) (x_bucket)", answer.to_vec())]);
        assert_eq!(quantile_rows, [row(&[("le", "1")], 2.0), row(&[("le", "+Inf")], 3.0)]);
    }
}

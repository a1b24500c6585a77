//! The playbook that an alert's expression asks about: the part that it judges, the metrics it reads, its direction.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use promql_parser::parser::value::ValueType;
use promql_parser::parser::{Expr, token};
use promql_parser::util::{ExprVisitor, walk_expr};

use super::{Condition, Evidence, Library, Op, Playbook, PlaybookKind};
use crate::promql::parse;

/// Returns the playbook whose symptom reads most of an expression's metrics, with one of them. That one is no mere guard,
/// such as `and rate(requests[5m]) > 0`, if any signal reads the other part. Ties: the one whose signal reads the fewest
/// other metrics, then the playbook whose symptom reads them earliest. A symptom of low values is not meant by an expression
/// that asks for high ones.
pub(super) fn by_metrics<'a>(library: &'a Library, expression: &str) -> Option<(&'a str, String)> {
    let words_of_expression: BTreeSet<&str> = words(expression).collect();
    let parsed = parse(expression).ok();
    let read = library.metrics.get_or_init(|| by_signal(library));
    let judged_part = parsed.as_ref().map(judged_part);
    let judged_text = judged_part.map_or_else(|| expression.to_owned(), Expr::to_string);
    let fitting = |playbook: &'a Playbook, judged: &BTreeSet<&str>, asked: Option<Direction>| {
        let checks = playbook.symptom.iter().flat_map(Evidence::checks);
        let of = |(place, (signal, when)): (usize, (&str, &Condition))| {
            let opposite = asked.zip(direction(when)).is_some_and(|(asked, own)| asked != own);
            let metrics = read.get(signal).filter(|_| !opposite)?;
            let common = metrics.iter().find(|metric| judged.contains(metric.as_str())).cloned()?;
            let n = metrics.iter().filter(|metric| words_of_expression.contains(metric.as_str())).count();
            Some(((n, Reverse(metrics.len()), Reverse(place)), common))
        };
        checks.enumerate().filter_map(of).max().map(|best| (best, playbook))
    };
    let best = |judged: &BTreeSet<&str>, part: Option<&Expr>| {
        let asked = part.and_then(asked_direction);
        let symptoms = library.of_kind(PlaybookKind::Symptom).filter_map(|playbook| fitting(playbook, judged, asked));
        // Ties go to the first id.
        let best = symptoms.max_by_key(|((fit, _), playbook)| (*fit, Reverse(&playbook.playbook)));
        best.map(|((_, metric), playbook)| (playbook.playbook.as_str(), metric))
    };
    let judged: BTreeSet<&str> = words(&judged_text).collect();
    let is_known = read.values().flatten().any(|metric| judged.contains(metric.as_str()));
    match is_known {
        true => best(&judged, judged_part),
        false => best(&words_of_expression, parsed.as_ref()),
    }
}

/// Returns true for a metric that a guard reads: how many requests or tokens come, or run.
fn counts_traffic(metric: &str) -> bool {
    let fails = ["fail", "error", "abort", "reject", "timeout"].iter().any(|word| metric.contains(word));
    let is_counter = metric.ends_with("_total") && (metric.contains("request") || metric.contains("tokens"));
    metric.ends_with("_count") || metric.contains("running") || (is_counter && !fails)
}

/// Returns the part of an expression that its guards limit: the first one that reads no mere traffic.
fn judged_part(expr: &Expr) -> &Expr {
    match expr {
        Expr::Paren(of) => judged_part(&of.expr),
        Expr::Binary(of) if of.op.id() == token::T_LUNLESS => judged_part(&of.lhs),
        Expr::Binary(of) if of.op.id() == token::T_LAND => {
            let (left, right) = (judged_part(&of.lhs), judged_part(&of.rhs));
            let is_guard = |part: &Expr| words(&part.to_string()).any(counts_traffic);
            if is_guard(left) && !is_guard(right) { right } else { left }
        }
        _ => expr,
    }
}

/// Returns for each signal the metrics that its queries read, of all engines.
fn by_signal(library: &Library) -> BTreeMap<String, BTreeSet<String>> {
    let mut read: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (signal, entry) in library.engines.values().flat_map(|engine| &engine.signals) {
        read.entry(signal.clone()).or_default().extend(entry.query.as_deref().into_iter().flat_map(metrics_of));
    }
    read
}

/// Returns every word of a PromQL text that may be a metric's name.
pub fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | ':'))).filter(|word| !word.is_empty())
}

/// Returns the metrics that a signal's query is made of: the names before its selectors. What only limits or joins other
/// series (after `and`, `unless` or `0 *`, up to the end of its brackets or an `or`) is left out.
pub fn metrics_of(query: &str) -> Vec<String> {
    let own = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':');
    let (mut out, mut word, mut depth, mut limits) = (Vec::new(), String::new(), 0_usize, None::<usize>);
    let mut braces = false;
    let mut chars = query.chars().peekable();
    let mut quoted = false;
    while let Some(c) = chars.next() {
        quoted ^= c == '"';
        if quoted || c == '"' {
            word.clear();
            continue;
        }
        if own(c) {
            word.push(c);
            continue;
        }
        match (word.as_str(), c) {
            ("and" | "unless", _) if limits.is_none() && !braces => limits = Some(depth),
            ("or", _) if limits.is_some_and(|at| at >= depth) && !braces => limits = None,
            ("0", ' ') if limits.is_none() && !braces && chars.peek() == Some(&'*') => limits = Some(depth),
            (name, '{') if !name.is_empty() && limits.is_none() => out.push(name.to_owned()),
            _ => {}
        }
        match c {
            '{' => braces = true,
            '}' => braces = false,
            '(' if !braces => depth += 1,
            ')' if !braces => {
                depth = depth.saturating_sub(1);
                limits = limits.filter(|at| *at <= depth);
            }
            _ => {}
        }
        word.clear();
    }
    out
}

/// The values that a condition asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    High,
    Low,
}

/// Returns the direction of a condition; `None` if it has several, or compares nothing.
fn direction(when: &Condition) -> Option<Direction> {
    let Condition::All(comparisons) = when else { return None };
    let of = |op: Op| match op {
        Op::Above | Op::AtLeast => Direction::High,
        Op::Below | Op::AtMost => Direction::Low,
    };
    let first = of(comparisons.first()?.op);
    comparisons.iter().all(|comparison| of(comparison.op) == first).then_some(first)
}

/// Returns the direction in which an expression compares; `None` if in both or none.
fn asked_direction(expression: &Expr) -> Option<Direction> {
    let mut asked = Asked::default();
    let Ok(_) = walk_expr(&mut asked, expression);
    let first = *asked.0.first()?;
    asked.0.iter().all(|direction| *direction == first).then_some(first)
}

/// The directions of an expression; both where a series is taken from something, or divides it: high turns into low.
#[derive(Default)]
struct Asked(Vec<Direction>);

impl ExprVisitor for Asked {
    type Error = std::convert::Infallible;

    fn pre_visit(&mut self, expr: &Expr) -> Result<bool, Self::Error> {
        let has_series = |side: &Expr| side.value_type() != ValueType::Scalar;
        let (op, left, right) = match expr {
            Expr::Unary(of) => (token::T_SUB, false, has_series(&of.expr)),
            Expr::Binary(of) => (of.op.id(), has_series(&of.lhs), has_series(&of.rhs)),
            _ => return Ok(true),
        };
        match op {
            token::T_SUB | token::T_DIV if right && (op == token::T_SUB || !left) => {
                self.0.extend([Direction::High, Direction::Low]);
            }
            token::T_GTR | token::T_GTE => self.0.push(if left { Direction::High } else { Direction::Low }),
            token::T_LSS | token::T_LTE => self.0.push(if left { Direction::Low } else { Direction::High }),
            _ => {}
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::{Direction, asked_direction, by_metrics, metrics_of};
    use crate::playbook::load;
    use crate::promql::parse;

    #[test]
    fn a_guard_selects_no_playbook_and_turns_no_direction() {
        let library = load(None).unwrap();
        let playbook_of = |expression: &str| by_metrics(&library, expression).map(|(playbook, _)| playbook.to_owned());
        let busy = "sum(rate(vllm:request_success_total[5m])) > 0";
        let slow = "histogram_quantile(0.99, sum by (le) (rate(vllm:time_to_first_token_seconds_bucket[5m]))) > 5";
        for expression in
            [format!("{busy} and on () {slow}"), format!("({busy}) and ({slow})"), format!("{slow} and {busy}")]
        {
            assert_eq!(playbook_of(&expression).as_deref(), Some("high-ttft"), "{expression}");
        }
        let more = busy.replace("> 0", "> 0.1");
        let running = "sum(vllm:num_requests_running) > 1";
        for expression in [format!("{more} and on () {slow}"), format!("count({slow}) > 0 and on () {running}")] {
            assert_eq!(playbook_of(&expression).as_deref(), Some("high-ttft"), "{expression}");
        }
        let evicted = "rate(vllm:num_preemptions_total[5m]) > 0";
        assert_eq!(playbook_of(&format!("{evicted} and on () {running}")), playbook_of(evicted));
        // A nearly empty cache is no full one.
        let empty = "max(vllm:kv_cache_usage_perc) < 0.01";
        assert_eq!(playbook_of(&format!("{empty} and {busy}")), playbook_of(empty));
        assert_ne!(playbook_of(empty).as_deref(), Some("kv-cache-pressure"));
    }

    #[test]
    fn only_what_turns_its_value_round_leaves_an_expressions_direction_open() {
        for (expression, expected) in [
            ("util{gpu='a-b'} < 20", Some(Direction::Low)),
            ("util{gpu=\"it's - \\\" > -\"} < 20", Some(Direction::Low)),
            ("temperature offset -5m > -10", Some(Direction::High)),
            ("util - 5 >= 20 # - and < 5", Some(Direction::High)),
            ("10 < waiting", Some(Direction::High)),
            ("1 - failed / all < 0.99", None),
            ("-util < 5", None),
            ("1 / tokens > 0.1", None),
            ("a > 1 and b < 2", None),
        ] {
            assert_eq!(asked_direction(&parse(expression).unwrap()), expected, "{expression}");
        }
    }

    #[test]
    fn what_limits_or_joins_other_series_is_not_what_a_query_is_made_of() {
        assert_eq!(metrics_of("sum(a{x=\"{2}\"} > 0 and b{}) or 0 * c{}"), ["a"]);
        assert_eq!(metrics_of("max(a{} unless on (x) (b{} or c{})) / d{}"), ["a", "d"]);
    }
}

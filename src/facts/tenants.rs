//! The tenants of a pool: who sent more than before, and whose requests fail or come late.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::context::{FactQueryContext, why};
use super::end_and_length;
use detect::EngineSeen;
use diagnose::{Pool, QueryAnswer};
use findings::facts::TenantUse;
use knowledge::gap::{Gap, missing_part};
use knowledge::signal::{Engine, TenantSeries, prometheus_duration};

/// Maximum number of tenants of one query, of which the largest are asked, and of the result.
const ASKED: usize = 300;
const MOST: usize = 20;
/// The values of a label that name nobody, as LiteLLM writes them.
const NOBODY: [&str; 3] = ["", "None", "default"];

/// Queries what each tenant sent before and during the window; returns the largest, by tokens or else requests, with the
/// reasons for missing numbers. Nothing without a gateway that tells tenants apart.
pub(super) async fn tenants(context: FactQueryContext<'_>, pool: &Pool<'_>) -> (Vec<TenantUse>, Vec<Gap>) {
    let source = pool.engines().find_map(|(engine, seen)| Some((engine, seen, engine.tenants.as_ref()?)));
    let Some((engine, seen, series)) = source else { return (Vec::new(), Vec::new()) };
    let windows = [end_and_length(context.windows.before), end_and_length(context.windows.during)];
    let queries = windows.iter().flat_map(|window| queries(pool, (engine, seen), series, *window));
    let answers = pool.query(context.prometheus, queries.collect(), context.deadline).await;
    let (mut all, mut missing) = (BTreeMap::new(), Vec::new());
    let lengths = windows.map(|(_, length)| length.as_secs_f64().max(1.0));
    for (i, answer) in answers.iter().enumerate() {
        match read(answer) {
            Ok(rows) => rows.for_each(|(labels, value)| {
                let Some(who) = named(series, labels) else { return };
                let tenant: &mut TenantUse = all.entry(who).or_default();
                let (during, what) = (i / QUERIES == 1, i % QUERIES);
                let per_second = value / lengths[i / QUERIES];
                match (what, during) {
                    (0, false) => tenant.requests_before += per_second,
                    (0, true) => tenant.requests += per_second,
                    (1, false) => tenant.tokens_before += per_second,
                    (1, true) => tenant.tokens += per_second,
                    (2, true) => tenant.failed += per_second,
                    (3, true) if value.is_finite() => {
                        tenant.first_token_p99 = Some(tenant.first_token_p99.unwrap_or_default().max(value));
                    }
                    _ => {}
                }
            }),
            Err(gap) => missing.push(gap),
        }
    }
    missing.truncate(1);
    let mut all: Vec<TenantUse> = all.into_iter().map(|(who, tenant)| TenantUse { who, ..tenant }).collect();
    let weight = |tenant: &TenantUse| (tenant.tokens.max(tenant.tokens_before), tenant.requests);
    all.sort_by(|a, b| weight(b).partial_cmp(&weight(a)).unwrap_or(std::cmp::Ordering::Equal));
    all.retain(|tenant| tenant.requests > 0.0 || tenant.requests_before > 0.0 || tenant.failed > 0.0);
    all.truncate(MOST);
    (all, missing)
}

/// Number of queries for a window: requests, tokens, failures, first tokens.
const QUERIES: usize = 4;

fn queries(
    pool: &Pool<'_>,
    (engine, seen): (&Engine, &EngineSeen),
    series: &TenantSeries,
    (at, window): (Timestamp, Duration),
) -> [(String, Timestamp); QUERIES] {
    let (by, window) = (series.labels.join(", "), prometheus_duration(window));
    let sum = |of: &str| format!("sum by ({by}) (increase({of}[{window}]))");
    // A tenant may have one of several counters only.
    let added = |all: &[String]| {
        let one = |of: &String| {
            let others: Vec<String> =
                all.iter().filter(|other| *other != of).map(|other| format!(" or 0 * {}", sum(other))).collect();
            format!("({}{})", sum(of), others.concat())
        };
        all.iter().map(one).collect::<Vec<_>>().join(" + ")
    };
    let largest = |query: String| format!("topk({ASKED}, {query})");
    let late = format!("histogram_quantile(0.99, sum by (le, {by}) (rate({}[{window}])))", series.first_token);
    let all =
        [largest(sum(&series.requests)), largest(added(&series.tokens)), largest(sum(&series.failed)), largest(late)];
    all.map(|query| (pool.bound(engine, seen, &query), at))
}

fn read(answer: &QueryAnswer) -> Result<impl Iterator<Item = (&knowledge::alert::Labels, f64)>, Gap> {
    const WHAT: &str = "what each tenant sent";
    match answer {
        Err(error) => Err(Gap::new(WHAT, why(error))),
        Ok(rows) => match rows.incomplete() {
            Some(said) => Err(Gap::failed(WHAT, missing_part(said))),
            None => Ok(rows.iter().map(|row| (&row.labels, row.value))),
        },
    }
}

/// Returns the tenant of a row: its labels that name somebody, the largest group first.
fn named(series: &TenantSeries, labels: &knowledge::alert::Labels) -> Option<String> {
    let names = series.labels.iter().filter_map(|name| labels.get(name)).map(String::as_str);
    let names: Vec<&str> = names.filter(|name| !NOBODY.contains(name)).collect();
    (!names.is_empty()).then(|| names.join(" / "))
}

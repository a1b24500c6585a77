//! Resolves a part of a name to the pools that Prometheus has.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::bail;
use futures::future::{join, join_all};
use jiff::Timestamp;

use super::pools::{NoTarget, PoolList, TargetMatch};
use detect::{data, detection, known_names, last_day};
use diagnose::health::{DIMENSIONS, HealthSource};
use findings::{DataSpan, Scope};
use knowledge::alert::Labels;
use knowledge::playbook::Library;
use prom::Prometheus;

/// Maximum number of names in an error.
pub(super) const MOST_NAMES: usize = 12;

/// Returns the pools that `typed` may mean, at least one.
///
/// # Errors
/// When no pool has that name, with those that there are; an `Arc<PromError>` when Prometheus cannot be asked.
pub async fn find(
    library: &Library,
    sources: &[HealthSource<'_>],
    typed: &str,
    at: Timestamp,
    deadline: Duration,
) -> anyhow::Result<Vec<TargetMatch>> {
    let clients: Vec<&Prometheus> = sources.iter().map(|(prometheus, _)| *prometheus).collect();
    let mut list = PoolList::of(library, &clients, at, Instant::now() + deadline).await;
    let (typed, mut names) = match list.find(typed) {
        Ok(matches) => return Ok(matches),
        Err(NoTarget::Label(why)) => return Err(anyhow::Error::msg(why)),
        Err(NoTarget::Name { typed, nearest }) => (typed, nearest),
    };
    // Its name may be in the part that is missing.
    if let Some((_, error)) = list.unanswered.pop() {
        return Err(error.into());
    }
    if list.places.is_empty() {
        let (whole_scope, until) = (Scope::default(), Instant::now() + deadline);
        let spans = clients.iter().map(|prometheus| data(library, prometheus, &whole_scope, at, until));
        if let Some(DataSpan { from, to }) = join_all(spans).await.into_iter().find_map(|(span, _)| span) {
            bail!("there is no pool at {at:.0}: there is data from {from:.0} to {to:.0}");
        }
    }
    let more = names.len().saturating_sub(MOST_NAMES);
    names.truncate(MOST_NAMES);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    match (names.is_empty(), list.places.is_empty()) {
        (true, true) => bail!("Prometheus has no pool: `llm-diagnose doctor --signals` lists its engines"),
        (true, false) => {
            bail!("no pool or pod is called `{typed}`: the series of the only pool have no label that names it")
        }
        (false, _) => bail!("no pool or pod is called `{typed}`: there is {}{more}", names.join(", ")),
    }
}

/// Returns the only match.
///
/// # Errors
/// When there are several, with their names.
pub fn only(mut matches: Vec<TargetMatch>, typed: &str) -> anyhow::Result<TargetMatch> {
    let names: Vec<String> = matches.iter().take(MOST_NAMES).map(TargetMatch::name).collect();
    match matches.len() {
        1 => Ok(matches.remove(0)),
        _ => bail!("`{typed}` may be {}: name one of them", names.join(", ")),
    }
}

/// Checks that every given label selects a pool, or a Prometheus by one of its own labels.
///
/// # Errors
/// When a label selects neither.
pub fn known_labels<'a>(own: impl IntoIterator<Item = &'a Labels>, labels: &'a Labels) -> anyhow::Result<()> {
    let configured = own.into_iter().flat_map(Labels::keys).map(String::as_str);
    known_names(labels.keys().map(String::as_str), configured).map_err(anyhow::Error::msg)
}

/// Checks that every given label's value occurred in a series of the last day. Labels that select the Prometheus are
/// not checked. If Prometheus does not answer, the diagnosis reports it.
///
/// # Errors
/// When a value is unknown, with the nearest known ones.
pub async fn known_values(
    library: &Library,
    source: HealthSource<'_>,
    labels: &Labels,
    at: Timestamp,
    deadline: Duration,
) -> anyhow::Result<()> {
    let (prometheus, source_labels) = source;
    let mut dimensions = Scope::of_labels(labels).dimensions;
    dimensions.retain(|dimension, _| !source_labels.contains_key(dimension));
    if dimensions.is_empty() {
        return Ok(());
    }
    let until = Instant::now() + deadline / 2;
    let (hour, day) = (detection(library), last_day(library));
    let (hour, day) = join(prometheus.query(&hour, at, until), prometheus.query(&day, at, until)).await;
    let (Ok(hour), Ok(day)) = (hour, day) else { return Ok(()) };
    if hour.incomplete().or(day.incomplete()).is_some() {
        // The value may be in the part of the data that is missing; the diagnosis reports that.
        return Ok(());
    }
    let rows: Vec<Labels> = hour.iter().chain(day.iter()).map(|row| row.labels.clone()).collect();
    Ok(detect::known_values(library, &dimensions, &rows)?)
}

/// Returns the dimensions that are equal in all matches.
pub fn shared(matches: &[TargetMatch]) -> BTreeMap<String, String> {
    let Some(first) = matches.first() else { return BTreeMap::new() };
    let agreed = first.place.dimensions.iter().filter(|(dimension, value)| {
        let is_dimension = DIMENSIONS.contains(&dimension.as_str());
        is_dimension && matches.iter().all(|other| other.place.dimensions.get(*dimension) == Some(value))
    });
    agreed.map(|(dimension, value)| (dimension.clone(), value.clone())).collect()
}

//! A part of a name ─▶ the pools that Prometheus has.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::bail;
use jiff::Timestamp;

use crate::diagnose::{Hit, Place, hits};
use crate::health::{DIMENSIONS, Source, places};
use crate::playbook::Library;

/// Names that are shown where none fits.
const FEW: usize = 12;

/// What fits: which source, which pool, and the pod that was named.
pub(super) type Found = (usize, Place, Option<String>);

/// The pools that `typed` may mean, at least one.
pub(super) async fn find(
    library: &Library,
    sources: &[Source<'_>],
    typed: &str,
    at: Timestamp,
    deadline: Duration,
) -> anyhow::Result<Vec<Found>> {
    let mut known = Vec::new();
    for (i, (prometheus, _)) in sources.iter().enumerate() {
        let there = places(library, prometheus, at, Instant::now() + deadline).await;
        known.extend(there?.into_iter().map(|place| (i, place)));
    }
    let all: Vec<Place> = known.iter().map(|(_, place)| place.clone()).collect();
    let fitting = hits(&all, typed);
    if fitting.is_empty() {
        let mut names: Vec<String> = all.iter().map(Place::name).collect();
        let more = names.len().saturating_sub(FEW);
        names.truncate(FEW);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        match names.is_empty() {
            true => bail!("Prometheus has no pool: `llm-diagnose doctor --signals` says what it has"),
            false => bail!("no pool or pod is called `{typed}`: there is {}{more}", names.join(", ")),
        }
    }
    Ok(fitting.into_iter().map(|Hit { place, pod }| (known[place].0, known[place].1.clone(), pod)).collect())
}

/// The only one.
pub(super) fn only(mut found: Vec<Found>, typed: &str) -> anyhow::Result<Found> {
    let names: Vec<String> =
        found.iter().take(FEW).map(|(_, place, pod)| pod.clone().unwrap_or_else(|| place.name())).collect();
    match found.len() {
        1 => Ok(found.remove(0)),
        _ => bail!("`{typed}` may be {}: name one of them", names.join(", ")),
    }
}

/// The dimensions on which all agree.
pub(super) fn shared(found: &[Found]) -> BTreeMap<String, String> {
    let Some((_, first, _)) = found.first() else { return BTreeMap::new() };
    let agreed = first.dimensions.iter().filter(|(dimension, value)| {
        let known = DIMENSIONS.contains(&dimension.as_str());
        known && found.iter().all(|(_, place, _)| place.dimensions.get(*dimension) == Some(value))
    });
    agreed.map(|(dimension, value)| (dimension.clone(), value.clone())).collect()
}

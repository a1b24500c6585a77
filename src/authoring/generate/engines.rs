//! The rules of some engines alone: series, kinds of pools and alerts that the others tell are left out.

use std::collections::BTreeSet;

use anyhow::{Result, bail};

use super::recording::tells;
use knowledge::playbook::{Condition, Evidence, Library, suggestion};

/// Keeps only these engines in a library, with the alerts and kinds of pools that they can tell.
///
/// # Errors
/// Returns the first name that is no engine's.
pub fn keep_engines(library: &mut Library, engines: &[String]) -> Result<()> {
    let names = || library.engines.keys().map(String::as_str);
    if let Some(unknown) = engines.iter().find(|engine| !library.engines.contains_key(engine.as_str())) {
        let hint = suggestion(unknown, names()).map(|hint| format!(" ({hint})")).unwrap_or_default();
        bail!("no engine is called `{unknown}`{hint}; the engines are {}", names().collect::<Vec<_>>().join(", "));
    }
    let kept: BTreeSet<&str> = engines.iter().map(String::as_str).collect();
    only(library, &kept);
    for promised in &mut library.promised {
        only(&mut promised.library, &kept);
    }
    Ok(())
}

/// Keeps only these labels as names of a pool's cluster, namespace and model: other spellings are not grouped by.
pub fn keep_labels(library: &mut Library, labels: &[String]) {
    let promised = library.promised.iter_mut().map(|promised| &mut *promised.library);
    let engines = promised.flat_map(|own| own.engines.values_mut()).chain(library.engines.values_mut());
    for spelt in engines.flat_map(|engine| engine.scope.values_mut()) {
        spelt.retain(|label| labels.contains(label));
    }
}

fn only(library: &mut Library, engines: &BTreeSet<&str>) {
    library.engines.retain(|name, _| engines.contains(name.as_str()));
    let told: BTreeSet<String> = library
        .signals
        .keys()
        .filter(|signal| library.engines.values().any(|engine| tells(engine, signal)))
        .cloned()
        .collect();
    let keep = |when: &mut Vec<Evidence>| {
        let left = when.iter().map(|evidence| of_told(&told, evidence)).collect::<Option<Vec<_>>>();
        *when = left.unwrap_or_default().concat();
        !when.is_empty()
    };
    for playbook in library.playbooks.values_mut() {
        playbook.alerts.retain_mut(|alert| keep(&mut alert.when));
    }
    // A kind that is only declared has no conditions.
    library.kinds.kinds.retain_mut(|kind| kind.when.is_empty() || keep(&mut kind.when));
}

/// Returns what is left of evidence with these signals: itself, nothing where a lack of data is enough, or `None` where
/// it can never hold.
fn of_told(told: &BTreeSet<String>, evidence: &Evidence) -> Option<Vec<Evidence>> {
    if let Some(signal) = &evidence.signal {
        return match (told.contains(signal), &evidence.when) {
            (true, _) => Some(vec![evidence.clone()]),
            (false, Some(Condition::NoData)) => Some(Vec::new()),
            (false, _) => None,
        };
    }
    let alternatives: Vec<Vec<Evidence>> = evidence.any.iter().filter_map(|one| of_told(told, one)).collect();
    match alternatives.is_empty() {
        true => None,
        false if alternatives.iter().any(Vec::is_empty) => Some(Vec::new()),
        false => Some(vec![Evidence { any: alternatives.concat(), ..evidence.clone() }]),
    }
}

//! `doctor`'s check of several entries under `prometheus:`: each alert must find the one that is meant for it.

use std::collections::BTreeSet;

use super::Findings;
use service::check::Level;

/// Checks names and labels of the entries; nothing is sent.
pub(super) fn check(findings: &mut Findings, entries: &[prom::Config]) {
    let [_, .., last] = entries else { return };
    let name = "prometheus entries";
    let names: BTreeSet<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
    if names.len() < entries.len() {
        let found = "several entries have one name: metrics and checks do not tell them apart".to_owned();
        findings.say(name, Level::Warn, found, "give each entry of `prometheus:` a `name` of its own");
    }
    if let Some(entry) = entries[..entries.len() - 1].iter().find(|entry| entry.labels.is_empty()) {
        let found = format!("`{}` takes every alert, so the entries after it are never asked", entry.name);
        findings.say(name, Level::Warn, found, "give it `labels`, or put it last");
    } else if last.labels.is_empty() {
        findings.ok(name, format!("alerts that fit no labels go to `{}`", last.name));
    } else {
        let found =
            format!("all {} need labels: alerts that fit none get no diagnosis, only the reason", entries.len());
        findings.ok(name, found);
    }
}

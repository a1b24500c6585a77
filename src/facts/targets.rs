//! The scrape targets of the pool and their state.

use std::collections::BTreeSet;

use diagnose::{Pool, RowOwnership};
use findings::facts::{PrometheusFacts, ScrapedTarget};
use knowledge::gap::Gap;
use prom::ActiveTarget;

/// Maximum targets.
const MAX_TARGETS: usize = 200;
/// Maximum characters of an error.
const ERROR: usize = 300;

/// Adds the pool's targets; those that are down come first.
pub(super) fn of_pool(pool: &Pool<'_>, all: Vec<ActiveTarget>, facts: &mut PrometheusFacts) {
    let replicas: BTreeSet<String> = pool.replicas().into_iter().collect();
    let is_named = |target: &ActiveTarget| target.labels.values().any(|value| replicas.contains(value));
    let own = |target: &ActiveTarget| pool.owns(&target.labels) == Some(RowOwnership::Known) || is_named(target);
    let mut own: Vec<ActiveTarget> = all.into_iter().filter(own).collect();
    own.sort_by(|a, b| (a.health == "up").cmp(&(b.health == "up")).then_with(|| a.url.cmp(&b.url)));
    if own.is_empty() {
        let why = "none of the targets carries a label that names a replica: they may have been relabelled, or the \
                   series come from another Prometheus";
        facts.missing.push(Gap::absent("the pool's scrape targets", why));
    }
    if own.len() > MAX_TARGETS {
        facts.missing.push(Gap::absent("all scrape targets", format!("{} more are left out", own.len() - MAX_TARGETS)));
    }
    let to_scraped = |target: ActiveTarget| ScrapedTarget {
        place: place(&target.url),
        labels: target.labels,
        health: target.health,
        error: Some(harmless(&target.error)).filter(|error| !error.is_empty()),
    };
    facts.targets = own.into_iter().take(MAX_TARGETS).map(to_scraped).collect();
}

/// Returns host and port of a URL.
fn place(address: &str) -> String {
    let Ok(url) = url::Url::parse(address) else { return String::new() };
    let host = url.host_str().unwrap_or_default();
    match url.port_or_known_default() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

/// Removes users, passwords and query parameters from the URLs in a scrape error.
fn harmless(error: &str) -> String {
    let mut out = String::new();
    let mut rest = error;
    while let Some(at) = rest.find("://") {
        let (before, address) = rest.split_at(at + 3);
        out.push_str(before);
        let end = address.find(|c: char| c.is_whitespace() || "\"'`<>".contains(c)).unwrap_or(address.len());
        let (address, more) = address.split_at(end);
        let authority = address.find(['/', '?', '#']).unwrap_or(address.len());
        let host = address[..authority].rfind('@').map_or(0, |at| at + 1);
        let from_host = &address[host..];
        let (path, parameters) = from_host.split_once('?').map_or((from_host, ""), |(path, more)| (path, more));
        out.push_str(path);
        if !parameters.is_empty() {
            out.push_str("?…");
        }
        rest = more;
    }
    out.push_str(rest);
    out.chars().take(ERROR).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_and_places_hold_no_user_password_or_parameter() {
        let error =
            "Get \"http://me:s3cr@t@10.0.0.1:8000/metrics?token=abc\": context deadline exceeded, see http://a?b=c";
        let told = "Get \"http://10.0.0.1:8000/metrics?…\": context deadline exceeded, see http://a?…";
        assert_eq!(harmless(error), told);
        assert_eq!(place("http://me:secret@10.0.0.1:8000/metrics?x=y"), "10.0.0.1:8000");
        assert_eq!(place("https://host/metrics"), "host:443");
        assert_eq!(place("nonsense"), "");
        assert_eq!(harmless(&"ü".repeat(1_000)).chars().count(), ERROR);
    }
}

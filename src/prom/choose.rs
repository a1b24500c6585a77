//! The choice of the Prometheus that is queried for an alert group.

use std::collections::{BTreeMap, BTreeSet};

use super::Prometheus;
use knowledge::alert::{Alert, Labels, active, common_labels};

/// Names that a sentence lists.
const NAMED: usize = 5;

/// Returns the only entry; of several, the first whose labels all firing alerts carry, or `None`: another tenant's data
/// would explain nothing.
pub fn choose<'a, T>(several: &'a [(T, BTreeMap<String, String>)], alerts: &[Alert]) -> Option<&'a T> {
    if let [(only, _)] = several {
        return Some(only);
    }
    let common = common_labels(&active(alerts));
    several.iter().find(|(_, labels)| carries(&common, labels)).map(|(one, _)| one)
}

/// Returns the client for these alerts; if no entry is for them, one whose errors say so. `None` without any entry.
pub fn assigned(several: &[(Prometheus, BTreeMap<String, String>)], alerts: &[Alert]) -> Option<Prometheus> {
    if let Some(chosen) = choose(several, alerts) {
        return Some(chosen.clone());
    }
    let entries: Vec<_> = several.iter().map(|(one, labels)| (one.name.as_str(), labels)).collect();
    Some(several.first()?.0.unassigned(unassigned(&entries, alerts)))
}

fn carries(alert: &Labels, labels: &BTreeMap<String, String>) -> bool {
    labels.iter().all(|(name, value)| alert.get(name) == Some(value))
}

/// Returns a sentence that says why [`choose`] finds no entry for these alerts, and what to do. `entries` are the names of
/// the entries with their labels.
pub fn unassigned(entries: &[(&str, &BTreeMap<String, String>)], alerts: &[Alert]) -> String {
    let firing = active(alerts);
    let fits =
        |alert: &&Alert| entries.iter().find(|(_, labels)| carries(&alert.labels, labels)).map(|(name, _)| *name);
    let fitting: BTreeSet<&str> = firing.iter().filter_map(fits).collect();
    let keys: BTreeSet<&str> = entries.iter().flat_map(|(_, labels)| labels.keys().map(String::as_str)).collect();
    let keys = listed(keys.iter().map(|key| format!("`{key}`")));
    if fitting.is_empty() {
        // Without the others' names: the message is read by one tenant.
        return format!(
            "none of the {} entries of `prometheus:` has the labels of these alerts ({keys}): correct the labels of the alerts or of \
             an entry, or add one; an entry without labels, as the last, takes all",
            entries.len()
        );
    }
    format!(
        "the alerts of this group do not belong to one Prometheus, but to {} or to none: add {keys} to `group_by` of Alertmanager's route",
        listed(fitting.iter().map(|name| (*name).to_owned()))
    )
}

/// Lists the first [`NAMED`] of them, and the number of the others.
fn listed(names: impl Iterator<Item = String>) -> String {
    let all: Vec<String> = names.collect();
    let more = all.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    all.into_iter().take(NAMED).collect::<Vec<_>>().join(", ") + &more
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;
    use knowledge::alert::AlertStatus;

    fn alert(tenant: &str) -> Alert {
        Alert {
            status: AlertStatus::Firing,
            labels: [("tenant".to_owned(), tenant.to_owned())].into(),
            annotations: Labels::new(),
            starts_at: Timestamp::MIN,
            ends_at: Timestamp::MIN,
            generator_url: String::new(),
            fingerprint: String::new(),
        }
    }

    fn entry(name: &'static str, tenant: Option<&str>) -> (&'static str, BTreeMap<String, String>) {
        (name, tenant.map(|tenant| ("tenant".to_owned(), tenant.to_owned())).into_iter().collect())
    }

    #[test]
    fn of_several_entries_only_one_that_fits_is_asked_and_an_only_one_is_asked_for_everything() {
        let both = [entry("a", Some("a")), entry("b", Some("b"))];
        assert_eq!(choose(&both, &[alert("b")]), Some(&"b"));
        assert_eq!(choose(&both, &[alert("c")]), None, "not the data of another tenant");
        assert_eq!(choose(&both, &[alert("a"), alert("b")]), None);
        assert_eq!(choose(&both[..1], &[alert("c")]), Some(&"a"));
        let with_rest = [entry("a", Some("a")), entry("rest", None)];
        assert_eq!(choose(&with_rest, &[alert("c")]), Some(&"rest"));
    }

    #[test]
    fn why_no_entry_fits_names_the_entries_and_what_to_change() {
        let both = [entry("a", Some("a")), entry("b", Some("b"))];
        let entries: Vec<_> = both.iter().map(|(name, labels)| (*name, labels)).collect();
        let none = unassigned(&entries, &[alert("c")]);
        assert!(
            none.starts_with("none of the 2 entries of `prometheus:` has the labels of these alerts (`tenant`)"),
            "{none}"
        );
        let mixed = unassigned(&entries, &[alert("a"), alert("b")]);
        assert!(mixed.contains("but to a, b or to none: add `tenant` to `group_by`"), "{mixed}");
    }
}

//! The choice of the Prometheus that is queried for an alert group.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use knowledge::alert::{Alert, Labels, active, common_labels};

/// Entries that a sentence names.
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
    let listed = |names: &mut dyn Iterator<Item = String>| {
        let all: Vec<String> = names.collect();
        let more = all.len().saturating_sub(NAMED);
        let mut text = all.into_iter().take(NAMED).collect::<Vec<_>>().join(", ");
        if more > 0 {
            let _ = write!(text, " and {more} more");
        }
        text
    };
    let keys = listed(&mut keys.iter().map(|key| format!("`{key}`")));
    if fitting.is_empty() {
        let known = |(name, labels): &(&str, &BTreeMap<String, String>)| {
            let own: Vec<String> = labels.iter().map(|(label, value)| format!("{label}=\"{value}\"")).collect();
            format!("{name} ({})", own.join(", "))
        };
        return format!(
            "no entry of `prometheus:` is for these alerts; there is {}: let the alerts carry {keys}, or add an entry for them; \
             one without labels, as the last, takes all",
            listed(&mut entries.iter().map(known))
        );
    }
    format!(
        "the alerts of this group do not belong to one Prometheus, but to {} or to none: add {keys} to `group_by` of Alertmanager's route",
        listed(&mut fitting.iter().map(|name| (*name).to_owned()))
    )
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
            none.contains("a (tenant=\"a\"), b (tenant=\"b\")") && none.contains("let the alerts carry `tenant`"),
            "{none}"
        );
        let mixed = unassigned(&entries, &[alert("a"), alert("b")]);
        assert!(mixed.contains("but to a, b or to none: add `tenant` to `group_by`"), "{mixed}");
    }
}

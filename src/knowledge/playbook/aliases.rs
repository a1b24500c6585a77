//! Former ids of playbooks, which labels of alerts, stores and files of users still have.

use std::collections::BTreeMap;

/// Former id to the id of its playbook.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Aliases(BTreeMap<String, String>);

impl Aliases {
    /// Adds former ids of a playbook.
    pub(super) fn add<'a>(&mut self, playbook: &str, aliases: impl Iterator<Item = &'a String>) {
        self.0.extend(aliases.map(|alias| (alias.clone(), playbook.to_owned())));
    }

    /// Drops the former ids that are ids of today.
    pub(super) fn drop_ids(&mut self, is_id: impl Fn(&str) -> bool) {
        self.0.retain(|alias, _| !is_id(alias));
    }

    /// Returns the former ids.
    pub fn names(&self) -> impl Iterator<Item = &String> {
        self.0.keys()
    }

    /// Returns the id that a name stands for: that of the playbook which had it before, or else the name itself.
    pub fn id<'a>(&'a self, name: &'a str) -> &'a str {
        self.0.get(name).map_or(name, String::as_str)
    }

    /// Replaces a former id.
    pub fn resolve(&self, name: &mut String) {
        if let Some(id) = self.0.get(name.as_str()) {
            name.clone_from(id);
        }
    }
}

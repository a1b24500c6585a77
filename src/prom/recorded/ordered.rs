//! A map that keeps the order in which its keys came: the same pages give the same answer, digit by digit.

use std::collections::HashMap;
use std::hash::Hash;

/// Values by key, in the order in which the keys came.
#[derive(Debug, Clone, Default)]
pub(super) struct Ordered<K, V> {
    places: HashMap<K, usize>,
    pub(super) entries: Vec<(K, V)>,
}

impl<K: Clone + Eq + Hash, V: Default> Ordered<K, V> {
    /// Returns the value of a key, an empty one if it is new.
    pub(super) fn of(&mut self, key: K) -> &mut V {
        let place = *self.places.entry(key).or_insert_with_key(|key| {
            self.entries.push((key.clone(), V::default()));
            self.entries.len() - 1
        });
        &mut self.entries[place].1
    }
}

//! A map that tracks which of its records changed, so that only those are written to the journal.

use std::collections::{BTreeMap, BTreeSet};

/// Records by key, in key order.
#[derive(Debug, Clone)]
pub struct Table<T> {
    records: BTreeMap<String, T>,
    changed: BTreeSet<String>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { records: BTreeMap::new(), changed: BTreeSet::new() }
    }
}

impl<T> Table<T> {
    /// Returns the record.
    pub fn get(&self, key: &str) -> Option<&T> {
        self.records.get(key)
    }

    /// Returns the record for modification and marks it as changed.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut T> {
        let record = self.records.get_mut(key)?;
        if !self.changed.contains(key) {
            self.changed.insert(key.to_owned());
        }
        Some(record)
    }

    /// Inserts or replaces a record and marks it as changed.
    pub fn insert(&mut self, key: String, record: T) {
        self.changed.insert(key.clone());
        self.records.insert(key, record);
    }

    /// Removes a record and marks its key as changed.
    pub fn remove(&mut self, key: &str) -> Option<T> {
        let record = self.records.remove(key)?;
        self.changed.insert(key.to_owned());
        Some(record)
    }

    /// Returns the record with the smallest key.
    pub fn first(&self) -> Option<(&str, &T)> {
        self.records.iter().next().map(|(key, record)| (key.as_str(), record))
    }

    /// Iterates over all records in key order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &T)> {
        self.records.iter().map(|(key, record)| (key.as_str(), record))
    }

    /// Iterates over the records whose key starts with `prefix`. The cost depends on the number of matches, not on the size of the table.
    pub fn below<'a, 'p>(&'a self, prefix: &'p str) -> impl Iterator<Item = (&'a str, &'a T)> + use<'a, 'p, T> {
        self.records
            .range::<str, _>((std::ops::Bound::Included(prefix), std::ops::Bound::Unbounded))
            .take_while(move |(key, _)| key.starts_with(prefix))
            .map(|(key, record)| (key.as_str(), record))
    }

    /// Returns the keys that changed since the last call, each with its record, or `None` if it was removed.
    pub fn take_changes(&mut self) -> Vec<(String, Option<&T>)> {
        std::mem::take(&mut self.changed)
            .into_iter()
            .map(|key| {
                let record = self.records.get(&key);
                (key, record)
            })
            .collect()
    }

    /// Forgets which records changed, for a table that no journal stores.
    pub fn discard_changes(&mut self) {
        self.changed.clear();
    }

    /// Inserts or removes a record during replay, without marking it as changed.
    pub fn restore(&mut self, key: String, record: Option<T>) {
        match record {
            Some(record) => self.records.insert(key, record),
            None => self.records.remove(&key),
        };
    }
}

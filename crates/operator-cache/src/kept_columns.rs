//! Which columns the items of one source have.
//!
//! **Owns**: a count for each column, kept up to date as items come and go: every query asks, hits too, and a source may
//! have a hundred thousand items, of few columns all told. **Does not own**: the items (the catalog).
//!
//! **Invariant**: an item is counted from when it is added until it is removed, once.
//!
//! **Concurrency**: a plain value, behind the catalog's lock.

use std::collections::{BTreeMap, HashMap};

use crate::item::Item;
use crate::request::ColumnSpec;

/// See the module.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct KeptColumns {
    /// By the generation of the items. None is zero, and no generation is without columns.
    counts: HashMap<u64, BTreeMap<ColumnSpec, usize>>,
}

impl KeptColumns {
    pub(crate) fn add(&mut self, item: &Item) {
        for column in item.columns.iter() {
            *self.counts.entry(item.generation).or_default().entry(column.clone()).or_default() += 1;
        }
    }

    /// Counts an item no longer that was added.
    pub(crate) fn remove(&mut self, item: &Item) {
        let Some(counts) = self.counts.get_mut(&item.generation) else { return };
        for column in item.columns.iter() {
            if let Some(count) = counts.get_mut(column) {
                *count -= 1;
                if *count == 0 {
                    counts.remove(column);
                }
            }
        }
        if counts.is_empty() {
            self.counts.remove(&item.generation);
        }
    }

    /// The columns of items of one generation, each once, in order of their paths: structs before their fields.
    pub(crate) fn of(&self, generation: u64) -> impl Iterator<Item = &ColumnSpec> {
        self.counts.get(&generation).into_iter().flat_map(BTreeMap::keys)
    }
}

//! Finding the items of one source that answer a request.
//!
//! **Owns**: the index of a source's items: by exact predicate, by field in R-trees (one per field and admission of
//! NULL), and the short lists that neither serves.
//! **Does not own**: the choice between several that fit (`placement`), items' lives (the cache).
//!
//! An item answers a request when its predicate covers the request's, its columns supply the requested ones, and it
//! has the fields that the residual filter must look at. An item is registered under *one* of the fields that its
//! predicate constrains: a request that it covers constrains that field too.
//!
//! A look-up examines at most [`EXAMINED`] candidates, tightest intervals first, and stops at [`ENOUGH`] that fit, so
//! its cost is bounded however many items there are.
//!
//! **Paper**: ReCache (PVLDB 2017) §3.3. Deviations: sets with gaps, strings and NULL are indexed by their hull;
//! candidates come tightest first; a candidate is compared exactly afterwards.

mod column_set;
mod hull;
mod interval_tree;
mod key;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use thermocline_predicate::{Conjunction, Domain, FieldPath};

use crate::item::{Item, ItemId};
use crate::request::ColumnSpec;
use column_set::{ColumnNumbers, ColumnSet};
use hull::{hull, is_numeric_interval};
use interval_tree::IntervalTree;

/// Candidates compared with a request at most. At about 150 ns each this keeps a look-up under 20 µs.
pub(crate) const EXAMINED: usize = 64;

/// Fitting candidates after which the search stops: they are the tightest, further ones hardly cost less to scan.
pub(crate) const ENOUGH: usize = 16;

/// What is wanted of an item; borrowed from a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) columns: &'a [ColumnSpec],
    pub(crate) predicate: &'a Conjunction,
}

/// The items of one source.
#[derive(Debug, Default)]
pub(crate) struct ItemIndex {
    numbers: ColumnNumbers,
    items: HashMap<ItemId, Indexed>,
    exact: HashMap<Arc<Conjunction>, Vec<ItemId>>,
    unconstrained: Vec<ItemId>,
    fields: HashMap<FieldPath, FieldIndex>,
}

#[derive(Debug)]
struct Indexed {
    item: Arc<Item>,
    columns: ColumnSet,
}

/// Items registered under one field.
#[derive(Debug, Default)]
struct FieldIndex {
    /// By the hull of domains that do not admit NULL.
    strict: IntervalTree,
    /// By the hull of domains that do.
    nullable: IntervalTree,
    /// Domains of NULL alone.
    null_only: Vec<ItemId>,
}

impl FieldIndex {
    fn is_empty(&self) -> bool {
        self.strict.is_empty() && self.nullable.is_empty() && self.null_only.is_empty()
    }

    fn insert(&mut self, domain: &Domain, id: ItemId) {
        match hull(domain) {
            Some(keys) if domain.admits_null() => self.nullable.insert(keys, id),
            Some(keys) => self.strict.insert(keys, id),
            None => self.null_only.push(id),
        }
    }

    fn remove(&mut self, domain: &Domain, id: ItemId) {
        match hull(domain) {
            Some(keys) if domain.admits_null() => _ = self.nullable.remove(keys, id),
            Some(keys) => _ = self.strict.remove(keys, id),
            None => self.null_only.retain(|&other| other != id),
        }
    }

    /// Items whose domain may cover `wanted`, the tightest of each kind first.
    fn candidates(&self, wanted: &Domain) -> impl Iterator<Item = ItemId> + '_ {
        // Every hull covers nothing: NULL alone is asked for.
        let keys = hull(wanted).unwrap_or((i128::MAX, i128::MIN));
        let strict = (!wanted.admits_null()).then(|| self.strict.covering(keys)).into_iter().flatten();
        let null_only: &[ItemId] = if wanted.intervals().is_empty() { &self.null_only } else { &[] };
        null_only.iter().rev().copied().chain(strict).chain(self.nullable.covering(keys))
    }
}

/// An item that answers a request.
#[derive(Debug, Clone)]
pub(crate) struct Match {
    pub(crate) item: Arc<Item>,
    pub(crate) exact: bool,
}

impl ItemIndex {
    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub(crate) fn items(&self) -> impl Iterator<Item = &Arc<Item>> {
        self.items.values().map(|indexed| &indexed.item)
    }

    pub(crate) fn get(&self, id: ItemId) -> Option<&Arc<Item>> {
        self.items.get(&id).map(|indexed| &indexed.item)
    }

    /// The items of exactly this predicate.
    pub(crate) fn of_predicate(&self, predicate: &Conjunction) -> impl Iterator<Item = &Arc<Item>> {
        let ids = self.exact.get(predicate).into_iter().flatten();
        ids.filter_map(|id| self.items.get(id)).map(|indexed| &indexed.item)
    }

    pub(crate) fn insert(&mut self, item: Arc<Item>) {
        let id = item.id;
        self.exact.entry(Arc::clone(&item.predicate)).or_default().push(id);
        match registered_field(&item.predicate) {
            Some((path, domain)) => self.fields.entry(path.clone()).or_default().insert(domain, id),
            None if item.predicate.is_all() => self.unconstrained.push(id),
            // A predicate that nothing satisfies answers itself alone.
            None => {}
        }
        let columns = self.numbers.register(&item.columns);
        self.items.insert(id, Indexed { item, columns });
    }

    pub(crate) fn remove(&mut self, id: ItemId) -> Option<Arc<Item>> {
        let Indexed { item, .. } = self.items.remove(&id)?;
        if let Some(same) = self.exact.get_mut(&item.predicate) {
            same.retain(|&other| other != id);
            if same.is_empty() {
                self.exact.remove(&item.predicate);
            }
        }
        match registered_field(&item.predicate) {
            Some((path, domain)) => {
                if let Some(field) = self.fields.get_mut(path) {
                    field.remove(domain, id);
                    if field.is_empty() {
                        self.fields.remove(path);
                    }
                }
            }
            None => self.unconstrained.retain(|&other| other != id),
        }
        Some(item)
    }

    /// Items that answer `wanted` and pass `admissible`: the ones of the same predicate alone if there are any, else up
    /// to [`ENOUGH`] that cover it.
    pub(crate) fn find(&self, wanted: Wanted<'_>, admissible: impl Fn(&Item) -> bool) -> Vec<Match> {
        if self.items.is_empty() {
            return Vec::new();
        }
        let suppliers: Vec<ColumnSet> = wanted.columns.iter().map(|column| self.numbers.suppliers(column)).collect();
        let fits = |indexed: &Indexed| {
            admissible(&indexed.item) && suppliers.iter().all(|supplier| supplier.intersects(&indexed.columns))
        };
        let mut found = Vec::new();
        for id in self.exact.get(wanted.predicate).into_iter().flatten().rev().take(EXAMINED) {
            if let Some(indexed) = self.items.get(id).filter(|indexed| fits(indexed)) {
                found.push(Match { item: Arc::clone(&indexed.item), exact: true });
            }
        }
        if !found.is_empty() {
            return found;
        }
        let fields: Vec<(&FieldPath, &Domain, ColumnSet)> = wanted
            .predicate
            .fields()
            .map(|(path, domain)| (path, domain, self.numbers.suppliers_of_field(path)))
            .collect();
        let answers = |indexed: &Indexed| {
            fits(indexed)
                && indexed.item.predicate.covers(wanted.predicate)
                && fields.iter().all(|(path, domain, supplier)| {
                    supplier.intersects(&indexed.columns) || indexed.item.predicate.domain(path) == Some(*domain)
                })
        };
        let constrained: Vec<(&FieldIndex, &Domain)> =
            fields.iter().filter_map(|(path, domain, _)| Some((self.fields.get(*path)?, *domain))).collect();
        // Every field has its share, so that a crowded tree does not hide the others.
        let share = EXAMINED / (constrained.len() + usize::from(!self.unconstrained.is_empty())).max(1);
        let mut examine = |ids: &mut dyn Iterator<Item = ItemId>| {
            for id in ids.take(share.max(1)) {
                if found.len() == ENOUGH {
                    break;
                }
                if let Some(indexed) = self.items.get(&id).filter(|indexed| answers(indexed)) {
                    found.push(Match { item: Arc::clone(&indexed.item), exact: false });
                }
            }
        };
        for (field, domain) in constrained {
            examine(&mut field.candidates(domain));
        }
        examine(&mut self.unconstrained.iter().rev().copied());
        found
    }
}

/// Whether rows kept for `predicate` with `columns` answer `wanted`: the test of [`ItemIndex::find`] for a single
/// candidate, used for scans that are still running.
pub(crate) fn answers(columns: &[ColumnSpec], predicate: &Conjunction, wanted: Wanted<'_>) -> bool {
    use crate::rows::ColumnRoute;
    wanted.columns.iter().all(|column| ColumnRoute::find_typed(columns, column).is_some())
        && predicate.covers(wanted.predicate)
        && wanted
            .predicate
            .fields()
            .all(|(path, domain)| predicate.domain(path) == Some(domain) || ColumnRoute::find(columns, path).is_some())
}

/// The field that an item is registered under: a single interval of numbers if it has one, for which the tree is
/// exact; else a set that does not admit NULL; else any. None for TRUE and for what nothing satisfies.
fn registered_field(predicate: &Conjunction) -> Option<(&FieldPath, &Domain)> {
    if predicate.is_unsatisfiable() {
        return None;
    }
    predicate
        .fields()
        .min_by_key(|(_, domain)| if is_numeric_interval(domain) { 0 } else { 1 + usize::from(domain.admits_null()) })
}

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
//! A look-up examines at most [`EXAMINED`] candidates, tightest intervals first, compares at most [`COMPARED`] of them
//! in full and stops at [`ENOUGH`] that fit, so its cost is bounded however many items there are. What it reads of a
//! candidate lies together: with thousands of items memory is slower than arithmetic.
//!
//! Where no item has all that is wanted, [`ItemIndex::partial`] finds those that have a part of it (`partial.rs`).
//!
//! **Paper**: ReCache (PVLDB 2017) §3.3. Deviations: sets with gaps, strings and NULL are indexed by their hull;
//! candidates come tightest first; a candidate is compared exactly afterwards.

mod bounds;
mod column_set;
mod field_index;
mod hull;
mod interval_tree;
mod key;
mod partial;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use thermocline_placement::operator_cache::choose_item::{CoveringItem, choose_item};
use thermocline_placement::operator_cache::top_up::is_worth_completing;
use thermocline_predicate::{Conjunction, Domain, FieldPath};

use crate::item::{Item, ItemId};
use crate::request::{ColumnSpec, SelectRequest};
use crate::rows::ColumnRoute;
use crate::top_up::TopUp;
use bounds::Bounds;
use column_set::{ColumnNumbers, ColumnSet};
use field_index::FieldIndex;
use hull::is_numeric_interval;
use interval_tree::Place;
pub(crate) use partial::Partial;

/// Candidates looked at by their bounds at most: 64 at up to 100 ns.
pub(crate) const EXAMINED: usize = 64;

/// Candidates whose predicates are compared in full at most: 16 at up to 600 ns, out of the caches.
pub(crate) const COMPARED: usize = 16;

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
    field_numbers: HashMap<FieldPath, u32>,
    indexed: Vec<Option<Indexed>>,
    free: Vec<Place>,
    places: HashMap<ItemId, Place>,
    exact: HashMap<Arc<Conjunction>, Vec<Place>>,
    unconstrained: Vec<Place>,
    fields: HashMap<FieldPath, FieldIndex>,
}

/// An item and what a look-up reads of it, so that it need not follow the pointer.
#[derive(Debug)]
struct Indexed {
    item: Arc<Item>,
    columns: ColumnSet,
    bounds: Box<[Bounds]>,
    facts: Facts,
}

/// What decides whether an item may be used at all.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Facts {
    pub(crate) generation: u64,
    pub(crate) end_bytes: u64,
    pub(crate) growable: bool,
    /// Whether questions about records alone can be answered too, where a list is unnested.
    pub(crate) keeps_empty: bool,
    row_count: u64,
}

/// An item that answers a request.
#[derive(Debug, Clone)]
pub(crate) struct Match {
    pub(crate) item: Arc<Item>,
    pub(crate) exact: bool,
}

/// A constrained field of a request.
struct WantedField<'a> {
    path: &'a FieldPath,
    domain: &'a Domain,
    /// None when no item constrains the field.
    bounds: Option<Bounds>,
    suppliers: ColumnSet,
}

impl ItemIndex {
    pub(crate) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    pub(crate) fn items(&self) -> impl Iterator<Item = &Arc<Item>> {
        self.indexed.iter().flatten().map(|indexed| &indexed.item)
    }

    pub(crate) fn get(&self, id: ItemId) -> Option<&Arc<Item>> {
        self.at(*self.places.get(&id)?).map(|indexed| &indexed.item)
    }

    /// The items of all rows.
    pub(crate) fn unconstrained(&self) -> impl Iterator<Item = &Arc<Item>> {
        self.unconstrained.iter().filter_map(|place| self.at(*place)).map(|indexed| &indexed.item)
    }

    /// The items of exactly this predicate.
    pub(crate) fn of_predicate(&self, predicate: &Conjunction) -> impl Iterator<Item = &Arc<Item>> {
        let places = self.exact.get(predicate).into_iter().flatten();
        places.filter_map(|place| self.at(*place)).map(|indexed| &indexed.item)
    }

    pub(crate) fn insert(&mut self, item: Arc<Item>) {
        let place = self.free.pop().unwrap_or_else(|| {
            self.indexed.push(None);
            // Four thousand million items would have run out of memory long before.
            Place::try_from(self.indexed.len() - 1).unwrap_or(Place::MAX)
        });
        self.places.insert(item.id, place);
        self.exact.entry(Arc::clone(&item.predicate)).or_default().push(place);
        match registered_field(&item.predicate) {
            Some((path, domain)) => self.fields.entry(path.clone()).or_default().insert(domain, place),
            None if item.predicate.is_all() => self.unconstrained.push(place),
            // A predicate that nothing satisfies answers itself alone.
            None => {}
        }
        let columns = self.numbers.register(&item.columns);
        let mut bounds = Vec::new();
        for (path, domain) in item.predicate.fields() {
            let next = self.field_numbers.len() as u32;
            let number = *self.field_numbers.entry(path.clone()).or_insert(next);
            bounds.push(Bounds::of(number, domain));
        }
        let facts = Facts {
            generation: item.generation,
            end_bytes: item.end_bytes,
            growable: item.growable,
            keeps_empty: item.keeps_empty,
            row_count: item.row_count,
        };
        if let Some(free) = self.indexed.get_mut(place as usize) {
            *free = Some(Indexed { item, columns, bounds: bounds.into(), facts });
        }
    }

    pub(crate) fn remove(&mut self, id: ItemId) -> Option<Arc<Item>> {
        let place = self.places.remove(&id)?;
        let Indexed { item, .. } = self.indexed.get_mut(place as usize)?.take()?;
        self.free.push(place);
        if let Some(same) = self.exact.get_mut(&item.predicate) {
            same.retain(|&other| other != place);
            if same.is_empty() {
                self.exact.remove(&item.predicate);
            }
        }
        match registered_field(&item.predicate) {
            Some((path, domain)) => {
                if let Some(field) = self.fields.get_mut(path) {
                    field.remove(domain, place);
                    if field.is_empty() {
                        self.fields.remove(path);
                    }
                }
            }
            None => self.unconstrained.retain(|&other| other != place),
        }
        Some(item)
    }

    /// The item that answers `wanted`, passes `admissible` and is cheapest to read: of the same predicate if there is
    /// one, else out of the first [`ENOUGH`] found that cover it.
    pub(crate) fn find(&self, wanted: Wanted<'_>, admissible: impl Fn(&Facts) -> bool) -> Option<Match> {
        let (found, exact) = self.find_all(wanted, admissible);
        let chosen = choose_item(found.iter().filter_map(|&place| {
            Some(CoveringItem {
                id: u64::from(place),
                row_count: self.at(place)?.facts.row_count,
                // The same of each: those that are wanted, and those of the fields that may have to be filtered on.
                column_count: wanted.columns.len() as u64,
            })
        }))?;
        let item = Arc::clone(&self.at(Place::try_from(chosen.id).ok()?)?.item);
        Some(Match { item, exact })
    }

    /// How the item that lacks the fewest of the requested columns is completed: one of the request's predicate, or of
    /// TRUE where keeping more rows than the request's is worth it.
    pub(crate) fn completed_by(&self, request: &SelectRequest, admissible: impl Fn(&Facts) -> bool) -> Option<TopUp> {
        let same = self.exact.get(&request.predicate).into_iter().flatten().rev().take(EXAMINED);
        let all = self.unconstrained.iter().rev().take(EXAMINED);
        let candidates = same.chain(all).filter_map(|&place| self.at(place));
        let is_worth_it = |top_up: &TopUp| is_worth_it(&top_up.base.predicate, top_up.missing.len(), request);
        candidates
            .filter(|candidate| admissible(&candidate.facts))
            .filter_map(|candidate| TopUp::of(&candidate.item, request))
            .filter(is_worth_it)
            .min_by_key(|top_up| (top_up.missing.len(), top_up.base.row_count, top_up.base.id))
    }

    /// The items that [`Self::find`] chooses from, and whether their predicate is the wanted one.
    fn find_all(&self, wanted: Wanted<'_>, admissible: impl Fn(&Facts) -> bool) -> (Vec<Place>, bool) {
        if self.is_empty() {
            return (Vec::new(), false);
        }
        let suppliers: Vec<ColumnSet> = wanted.columns.iter().map(|column| self.numbers.suppliers(column)).collect();
        let fits = |indexed: &Indexed| {
            admissible(&indexed.facts) && suppliers.iter().all(|supplier| supplier.intersects(&indexed.columns))
        };
        let same = self.exact.get(wanted.predicate).into_iter().flatten().rev().take(EXAMINED).copied();
        let same: Vec<Place> = same.filter(|&place| self.at(place).is_some_and(fits)).collect();
        if !same.is_empty() {
            return (same, true);
        }
        let fields: Vec<WantedField<'_>> =
            wanted.predicate.fields().map(|(path, domain)| self.wanted_field(path, domain)).collect();
        let mut compared_count = 0;
        let mut answers = |indexed: &Indexed| {
            if !fits(indexed) || !may_cover(&indexed.bounds, &fields) {
                return false;
            }
            if !indexed.bounds.iter().all(Bounds::is_exact) {
                compared_count += 1;
                if compared_count > COMPARED || !indexed.item.predicate.covers(wanted.predicate) {
                    return false;
                }
            }
            fields.iter().all(|field| {
                field.suppliers.intersects(&indexed.columns)
                    || indexed.item.predicate.domain(field.path) == Some(field.domain)
            })
        };
        let constrained: Vec<(&FieldIndex, &Domain)> =
            fields.iter().filter_map(|field| Some((self.fields.get(field.path)?, field.domain))).collect();
        // Every field has its share, so that a crowded tree does not hide the others.
        let share = EXAMINED / (constrained.len() + usize::from(!self.unconstrained.is_empty())).max(1);
        let mut found = Vec::new();
        let mut examine = |places: &mut dyn Iterator<Item = Place>| {
            for place in places.take(share.max(1)) {
                if found.len() == ENOUGH {
                    break;
                }
                if self.at(place).is_some_and(&mut answers) {
                    found.push(place);
                }
            }
        };
        for (field, domain) in constrained {
            examine(&mut field.candidates(domain));
        }
        examine(&mut self.unconstrained.iter().rev().copied());
        (found, false)
    }

    fn wanted_field<'a>(&self, path: &'a FieldPath, domain: &'a Domain) -> WantedField<'a> {
        WantedField {
            path,
            domain,
            bounds: self.field_numbers.get(path).map(|&number| Bounds::of(number, domain)),
            suppliers: self.numbers.suppliers_of_field(path),
        }
    }

    fn at(&self, place: Place) -> Option<&Indexed> {
        self.indexed.get(place as usize)?.as_ref()
    }
}

/// Whether rows kept for `predicate`, the request's or TRUE, are worth completing with so many of its columns.
pub(crate) fn is_worth_it(predicate: &Conjunction, missing_count: usize, request: &SelectRequest) -> bool {
    *predicate == *request.predicate
        || is_worth_completing(missing_count, request.columns.len(), request.retain_predicate.is_all())
}

/// Whether a predicate with these bounds may cover one with those fields.
fn may_cover(bounds: &[Bounds], fields: &[WantedField<'_>]) -> bool {
    bounds.iter().all(|wider| {
        let narrower = fields.iter().find_map(|field| field.bounds.as_ref().filter(|own| own.field == wider.field));
        narrower.is_some_and(|narrower| wider.may_cover(narrower))
    })
}

/// Whether rows kept for `predicate` with `columns` answer `wanted`: the test of [`ItemIndex::find`] for a single
/// candidate, used for scans that are still running.
pub(crate) fn answers(columns: &[ColumnSpec], predicate: &Conjunction, wanted: Wanted<'_>) -> bool {
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

//! The items that have a part of what a request wants.
//!
//! An item is a candidate when its predicate covers the request's in all fields but one, has values of the request's in
//! that one, supplies the requested columns, and has the fields that must be filtered on: always the one that it covers
//! in part. A field that the request leaves open is never covered in part: only fields that the request constrains are
//! looked at.
//!
//! At most [`EXAMINED`] items are looked at, those first whose hulls overlap the request's most. Their predicates are
//! compared in full as long as these have no more than [`COMPARED_INTERVALS`] together. What has more, as long lists of
//! values do, is passed over: every other session waits meanwhile, and of the ends of all that is found a ruler is made.

use std::sync::Arc;

use thermocline_predicate::FieldPath;

use super::column_set::ColumnSet;
use super::{EXAMINED, Facts, Indexed, ItemIndex, Wanted, WantedField};
use crate::item::Item;

/// Intervals at most, those of the request counted for each item that is compared with it: as many as a range and
/// [`EXAMINED`] lists of 63 values have. To compare them, sort their ends and choose takes a millisecond or two, for
/// texts some more.
pub(super) const COMPARED_INTERVALS: usize = 1 << 12;

/// An item that has a part of what is wanted.
#[derive(Debug)]
pub(crate) struct Partial<'a> {
    /// The field that it covers in part.
    pub(crate) field: &'a FieldPath,
    pub(crate) item: Arc<Item>,
}

impl ItemIndex {
    /// Items that cover `wanted` in part and pass `admissible`, each once.
    pub(crate) fn partial<'a>(&self, wanted: Wanted<'a>, admissible: impl Fn(&Facts) -> bool) -> Vec<Partial<'a>> {
        if self.is_empty() || wanted.predicate.is_unsatisfiable() {
            return Vec::new();
        }
        let fields: Vec<WantedField<'a>> =
            wanted.predicate.fields().map(|(path, domain)| self.wanted_field(path, domain)).collect();
        let indexed: Vec<_> =
            fields.iter().filter_map(|field| Some((self.fields.get(field.path)?, field.domain))).collect();
        if indexed.is_empty() {
            return Vec::new();
        }
        let suppliers: Vec<ColumnSet> = wanted.columns.iter().map(|column| self.numbers.suppliers(column)).collect();
        let share = (EXAMINED / indexed.len()).max(1);
        let places = indexed.into_iter().flat_map(|(index, domain)| index.overlapping(domain).take(share));
        let candidates = places.filter_map(|place| self.at(place)).filter(|candidate| {
            admissible(&candidate.facts) && suppliers.iter().all(|supplier| supplier.intersects(&candidate.columns))
        });
        let asked_count = wanted.predicate.interval_count();
        let mut left_count = COMPARED_INTERVALS;
        let compared = candidates.filter(|candidate| {
            let compared_count = asked_count + candidate.item.predicate.interval_count();
            let left = left_count.checked_sub(compared_count);
            left_count = left.unwrap_or(left_count);
            left.is_some()
        });
        // An item is registered under one field, so that none comes twice.
        let partial = compared.filter_map(|candidate| {
            let field = part_field(candidate, &fields)?;
            Some(Partial { field: field.path, item: Arc::clone(&candidate.item) })
        });
        partial.collect()
    }
}

/// The field that an item covers in part, if that is so of exactly one and it can be filtered on what is to be filtered
/// on.
fn part_field<'f, 'a>(candidate: &Indexed, fields: &'f [WantedField<'a>]) -> Option<&'f WantedField<'a>> {
    let kept = &candidate.item.predicate;
    let is_open = |path: &FieldPath| !fields.iter().any(|field| field.path == path);
    if kept.fields().any(|(path, _)| is_open(path)) {
        return None;
    }
    let mut part = None;
    for field in fields {
        let known = kept.domain(field.path);
        let is_covered = known.is_none_or(|known| known.covers(field.domain));
        let can_filter = field.suppliers.intersects(&candidate.columns);
        if is_covered {
            if !can_filter && known != Some(field.domain) {
                return None;
            }
        } else if part.is_none() && can_filter && known.is_some_and(|known| known.overlaps(field.domain)) {
            part = Some(field);
        } else {
            return None;
        }
    }
    part
}

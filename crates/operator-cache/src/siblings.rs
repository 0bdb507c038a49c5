//! Columns of records that an item has under another of their lists, or under none: a scan of all records, or of the
//! elements of all their lists of one name, reads the others alone and is laid beside these, which are held once.
//!
//! **Owns**: which item lends, and when. **Does not own**: how rows are aligned and lent (`top_up`), what of an item
//! nobody else holds (`item_columns`), whether the scan's rows are worth their memory (`admission`).
//!
//! **Invariants**: both have every record of the file, those without elements among them, so that entry `i` of one and
//! entry `i` of the other are the same record. The item that lends stays as it is and may go at any time: what it lent is
//! there as long as somebody holds it.
//!
//! **Paper**: beyond ReCache, whose items of one file know nothing of each other: each list that is flattened brings what
//! stands beside it in the records once more.

use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::cache::OperatorCache;
use crate::catalog::Catalog;
use crate::decisions::DecisionKind;
use crate::file_record::PinnedSource;
use crate::item::Item;
use crate::request::{ColumnSpec, SelectRequest};
use crate::scan::ScanStart;
use crate::source::{ScanSpec, SourceKey};
use crate::top_up::TopUp;

impl Catalog {
    /// Items of all records of the same file, read with the same options, under other lists or none.
    fn of_all_records<'a>(&'a self, key: &'a SourceKey) -> impl Iterator<Item = &'a Arc<Item>> {
        let others = self.records_and_lists(key).filter(|other| other.unnest != key.unnest);
        let items = others.flat_map(|other| self.whole_items(other));
        items.filter(|item| item.source.unnest.is_none() || item.keeps_empty)
    }

    /// How `columns` of all records, and of the elements of the list that `key` unnests, are best read beside what is kept
    /// of the same records.
    fn beside_sibling(
        &self,
        key: &SourceKey,
        columns: &Arc<[ColumnSpec]>,
        pinned: &PinnedSource,
        can_seek: bool,
    ) -> Option<TopUp> {
        let siblings = self.of_all_records(key);
        let current =
            siblings.filter(|item| item.generation == pinned.generation && item.end_bytes == pinned.end_bytes());
        let list = key.unnest.as_ref();
        let lending = current.filter(|item| TopUp::can_be_beside(item, can_seek));
        let counted = lending.map(|item| (TopUp::lent_count(item, list, columns), item));
        let best = counted.filter(|(count, _)| *count > 0).max_by_key(|(count, item)| {
            // Of several one whose columns need not be copied, and of these the same one each time.
            (*count, item.holds_arrays(), Reverse(item.id))
        });
        best.and_then(|(_, item)| TopUp::beside(item, list, columns, can_seek))
    }

    /// Which of `columns` a scan of all rows would find lent, and not hold itself.
    pub(crate) fn lent_by_siblings(
        &self,
        key: &SourceKey,
        columns: &Arc<[ColumnSpec]>,
        pinned: &PinnedSource,
    ) -> Vec<bool> {
        let top_up = self.beside_sibling(key, columns, pinned, true).filter(|top_up| top_up.base.holds_arrays());
        columns.iter().map(|column| top_up.as_ref().is_some_and(|top_up| !top_up.missing.contains(column))).collect()
    }
}

impl OperatorCache {
    /// Has a scan that is to keep all rows read just those columns that no item of the same records has.
    pub(crate) fn place_beside(
        &self,
        catalog: &Catalog,
        request: &SelectRequest,
        pinned: &PinnedSource,
        spec: &mut ScanSpec,
        start: &mut ScanStart,
    ) {
        let list = request.source.unnest.as_ref();
        let is_of_all = spec.predicate.is_all() && (list.is_none() || spec.keeps_empty);
        let is_whole = spec.start_bytes == 0 && spec.head.is_none() && spec.positions.is_none();
        let is_anew = start.base.is_none() && start.top_up.is_none() && start.promoted.is_none();
        let is_comparable = !request.may_skip && !pinned.has_unreadable() && pinned.can_compare_content();
        // Items as they were published know nothing of each other.
        if !(self.divides_items() && is_of_all && is_whole && is_anew && is_comparable) {
            return;
        }
        let found = catalog.beside_sibling(&request.source, &spec.columns, pinned, request.can_seek);
        let Some(mut top_up) = found.map(TopUp::with_all_of_records) else { return };
        let (mapped, map) = self.map_for_top_up(catalog, request, pinned, &mut top_up).unzip();
        spec.columns = Arc::clone(&top_up.columns);
        spec.positions = top_up.positions.clone().filter(|_| map.is_none());
        spec.record_bytes = top_up.base.record_bytes();
        spec.map = map;
        let lent_count = (top_up.columns.len() - top_up.missing.len()) as f64;
        let numbers = vec![("lent_columns", lent_count), ("missing_columns", top_up.missing.len() as f64)];
        self.record_item(DecisionKind::TopUp, &top_up.base, numbers, "an item of the same records lends its columns");
        top_up.base.may_share.store(true, Ordering::Relaxed);
        start.mapped = mapped;
        start.compares_content = true;
        start.top_up = Some(top_up);
    }

    /// Bytes that a value of each of `columns` took when it was kept last; None of those that were not. Those that an
    /// item of the same records would lend take none.
    pub fn kept_widths_bytes(
        &self,
        source: &SourceKey,
        pinned: &PinnedSource,
        columns: &Arc<[ColumnSpec]>,
    ) -> Vec<Option<f32>> {
        let catalog = self.catalog();
        let demand = catalog.demands.get(source);
        let lent = if self.divides_items() { catalog.lent_by_siblings(source, columns, pinned) } else { Vec::new() };
        let width = |(index, column): (usize, &ColumnSpec)| match lent.get(index) {
            Some(true) => Some(0.0),
            _ => demand?.width_bytes(&column.path),
        };
        columns.iter().enumerate().map(width).collect()
    }
}

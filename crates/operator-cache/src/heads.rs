//! Items of a file's head: the rows of its first records, where there is no room for all. A query reads those and scans
//! the rest of the file.
//!
//! **Owns**: where items can be parted, taking the last rows out of one, when a head is read and when it is made anew.
//! **Does not own**: what part is worth its memory (`placement::operator_cache::heads`), the scan of the rest, which is
//! one like any other that keeps nothing, and what a scan keeps while it makes one (`scan::keeping`).
//!
//! **Invariants**: a head has every row of the records that it has, and its columns. There is one of a source at most,
//! and it is not among the items that answer requests alone. What is scanned beside it is of the same content, or the
//! scan fails, as where columns are laid beside kept ones.
//!
//! **Paper**: beyond ReCache; see `placement::operator_cache::heads`.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use thermocline_placement::operator_cache::ItemMeasurements;
use thermocline_placement::operator_cache::admission::{Admission, admit};
use thermocline_placement::operator_cache::heads::{
    PART_COUNT, admit_head, is_better_in_part, is_mostly_asked, is_outgrown, looks_for_better_part,
};
use thermocline_predicate::Conjunction;

use crate::cache::OperatorCache;
use crate::candidates::Candidate;
use crate::catalog::Catalog;
use crate::combination::CombinedPart;
use crate::item::{Chunk, Item, ItemId};
use crate::matching::{Wanted, answers};
use crate::request::{ColumnSpec, SelectRequest};
use crate::source::{Head, SourceKey};
use crate::top_up::TopUp;

/// A place between two chunks of an item, as its scan delivered them, at which it can be parted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Border {
    /// Entries before it.
    pub(crate) entry_count: u64,
    /// The records that these are of.
    pub(crate) head: Head,
}

/// Chunks at the end of an item that can go together.
#[derive(Debug, Clone, Copy)]
struct Tail {
    /// Chunks that stay, and what they then are of.
    chunk_count: usize,
    border: Border,
    /// Of the chunks that go, without those of the tail behind it.
    size_bytes: u64,
}

impl Item {
    /// Bytes of the file behind those whose rows it has.
    pub(crate) fn rest_bytes(&self) -> u64 {
        self.head.map_or(0, |head| self.end_bytes.saturating_sub(head.end_bytes))
    }

    /// What it would take with the rows of the whole file, but for what others hold too.
    pub(crate) fn all_rows_bytes(&self) -> u64 {
        match self.head {
            Some(head) if head.end_bytes > 0 => {
                (self.own_bytes() as f64 * self.end_bytes as f64 / head.end_bytes as f64) as u64
            }
            _ => self.own_bytes(),
        }
    }

    /// Its tails, the shortest first; each has those before it behind itself. All together are not all of its chunks.
    fn tails(&self) -> Vec<Tail> {
        let least_bytes = self.size_bytes / PART_COUNT as u64;
        let mut entry_count = self.chunks.iter().map(|chunk| chunk.content().entry_count() as u64).sum::<u64>();
        let (mut tails, mut size_bytes) = (Vec::new(), 0);
        for (index, chunk) in self.chunks.iter().enumerate().skip(1).rev() {
            entry_count -= chunk.content().entry_count() as u64;
            size_bytes += chunk.size_bytes();
            let found = self.borders.binary_search_by_key(&entry_count, |border| border.entry_count);
            if size_bytes >= least_bytes
                && let Ok(at) = found
            {
                tails.push(Tail { chunk_count: index, border: self.borders[at], size_bytes });
                size_bytes = 0;
            }
        }
        tails
    }

    /// Sizes of the parts that it can give up one by one, the last of which are its first rows; one if it goes as a
    /// whole.
    pub(crate) fn part_sizes_bytes(&self) -> Vec<u64> {
        let mut sizes: Vec<u64> = self.tails().iter().map(|tail| tail.size_bytes).collect();
        sizes.push(self.size_bytes - sizes.iter().sum::<u64>().min(self.size_bytes));
        // What others hold too is spread over all of them.
        let own_share = self.own_bytes() as f64 / self.size_bytes.max(1) as f64;
        sizes.into_iter().map(|size_bytes| (size_bytes as f64 * own_share) as u64).collect()
    }

    /// The item without so many of its parts. `None` if that is nothing.
    fn without_parts(&self, count: usize) -> Option<Self> {
        let tail = *self.tails().get(count.checked_sub(1)?)?;
        let chunks: Vec<Arc<Chunk>> = self.chunks[..tail.chunk_count].to_vec();
        let whole_count: u64 = self.chunks.iter().map(|chunk| chunk.content().entry_count() as u64).sum();
        let share = tail.border.entry_count as f64 / whole_count.max(1) as f64;
        let columns = (Arc::clone(&self.columns), Arc::clone(&self.widths_bytes));
        let mut item = self.of_chunks(columns, chunks, Arc::clone(&self.structure));
        item.head = Some(tail.border.head);
        let kept = self.borders.partition_point(|border| border.entry_count < tail.border.entry_count);
        item.borders = self.borders[..kept].into();
        item.growable = false;
        item.positions = None;
        item.morsel_ends = None;
        item.record_count = tail.border.head.record_count;
        item.row_count = item.chunks.iter().map(|chunk| chunk.content().row_count() as u64).sum();
        item.shape.scale(share);
        item.meters.scale_costs(share);
        *item.layouts.get_mut() = self.layouts.lock().clone();
        Some(item)
    }
}

impl Catalog {
    /// The head of the file whose rows can be read beside a scan of the rest.
    pub(crate) fn head_for(&self, request: &SelectRequest, generation: u64, end_bytes: u64) -> Option<&Arc<Item>> {
        let head = self.head(&request.source)?;
        let wanted = Wanted { columns: &request.columns, predicate: &request.predicate };
        let is_usable = request.can_part && head.generation == generation && head.end_bytes == end_bytes;
        (is_usable && answers(&head.columns, &head.predicate, wanted)).then_some(head)
    }

    /// Whether most of the latest queries of a source could be answered with these columns: a head has no others, and
    /// queries that need one scan the whole file.
    pub(crate) fn is_mostly_asked(&self, source: &SourceKey, columns: &[ColumnSpec]) -> bool {
        is_mostly_asked(self.answered_share(source, columns))
    }

    /// Takes the last parts out of an item, or all of it. What is returned holds their memory.
    pub(crate) fn evict_parts(&mut self, id: ItemId, count: usize) -> Vec<Arc<Item>> {
        let Some(item) = self.item(id).filter(|item| Arc::strong_count(item) == 1) else { return Vec::new() };
        match item.without_parts(count) {
            Some(head) => self.replace(head),
            None => self.evict(id).into_iter().collect(),
        }
    }
}

impl OperatorCache {
    /// Whether the first rows of a scan of all that pass `predicate` are worth keeping without the others.
    pub(crate) fn may_keep_head(&self, request: &SelectRequest, predicate: &Conjunction) -> bool {
        request.can_part && predicate.is_all() && self.divides_items()
    }

    /// Whether items may be kept in part.
    pub fn divides_items(&self) -> bool {
        self.policy().divides_items()
    }

    /// A head as a part of an answer, the only one.
    pub(crate) fn head_part(&self, head: &Arc<Item>, request: &SelectRequest) -> Vec<CombinedPart> {
        let residual = Conjunction::all().residual(&request.predicate);
        vec![CombinedPart { item: Arc::clone(head), residual }]
    }

    /// The columns of a head that takes the place of an item of all rows of some columns, if that serves more queries
    /// than the item does. None too where there is room for the item with the others. `scan_count` scans were made before.
    pub(crate) fn better_in_part(
        &self,
        catalog: &Catalog,
        request: &SelectRequest,
        top_up: &TopUp,
        scan_count: u32,
    ) -> Option<Arc<[ColumnSpec]>> {
        let base = &top_up.base;
        if !looks_for_better_part(scan_count) || !self.may_keep_head(request, &base.predicate) {
            return None;
        }
        let columns = catalog.with_columns_asked(self.terms(), &top_up.columns, &request.source, base.generation);
        let kept_share = catalog.kept_share(&base.source, &base.columns).filter(|share| *share > 0.0)?;
        let part = catalog.measured(self.terms(), base);
        let size_bytes = (part.size_bytes as f64 / kept_share) as u64;
        let use_count = catalog.expected_uses(self.terms(), &request.source, &columns, size_bytes)?;
        let whole = ItemMeasurements { use_count, size_bytes, ..part };
        let head_share = self.possible_share(catalog, base, &whole);
        let answered_share = catalog.answered_share(&base.source, &base.columns);
        is_better_in_part(head_share, answered_share).then_some(columns)
    }

    /// The share of `whole` that could be kept in the place of `item`.
    fn possible_share(&self, catalog: &Catalog, item: &Arc<Item>, whole: &ItemMeasurements) -> f64 {
        let (limit_bytes, state) = (self.limit_bytes(), self.policy_state(catalog));
        let free_bytes = self.budget().cache_room_bytes().saturating_add(item.own_bytes());
        let others = self.rivals(catalog, whole.size_bytes, free_bytes).into_iter();
        let others: Vec<_> = others.filter(|other| Candidate::of(other.id).item != item.id).collect();
        match admit(self.policy(), state, &others, whole, free_bytes, limit_bytes) {
            Admission::Admit { .. } => 1.0,
            Admission::Refuse { .. } => {
                admit_head(self.policy(), state, &others, whole, free_bytes, limit_bytes).map_or(0.0, |part| part.share)
            }
        }
    }

    /// Whether there is room for so much more of a head by now that it had better be made anew.
    pub(crate) fn is_outgrown(&self, catalog: &Catalog, item: &Arc<Item>) -> bool {
        let Some(head) = item.head else { return false };
        let use_count = item.meters.use_count.load(Ordering::Relaxed);
        let share = head.end_bytes as f64 / item.end_bytes.max(1) as f64;
        // The rest is work for nothing where not even all rows would do.
        if share <= 0.0 || !is_outgrown(use_count, share, 1.0) {
            return false;
        }
        let part = catalog.measured(self.terms(), item);
        let of_whole = |part: u64| (part as f64 / share) as u64;
        let whole = ItemMeasurements {
            execute_ns: of_whole(part.execute_ns),
            cache_ns: of_whole(part.cache_ns),
            reuse_scan_ns: of_whole(part.reuse_scan_ns),
            size_bytes: of_whole(part.size_bytes),
            ..part
        };
        is_outgrown(use_count, share, self.possible_share(catalog, item, &whole))
    }
}

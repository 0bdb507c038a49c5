//! Which items and running scans there are: the tables behind the cache's one lock. No I/O, no reserving, no freeing:
//! what is taken out is handed to the caller, who drops it after the lock is released.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use thermocline_placement::operator_cache::PolicyState;
use thermocline_predicate::Conjunction;

use crate::candidates::Terms;
use crate::combination::Combination;
use crate::demand::ColumnDemand;
use crate::file_record::PinnedSource;
use crate::item::{Item, ItemId};
use crate::kept_columns::KeptColumns;
use crate::lazy::Promotion;
use crate::matching::{Facts, ItemIndex, Match, Wanted, answers};
use crate::request::{ColumnSpec, SelectRequest};
use crate::rows::ColumnRoute;
use crate::scan::{AwaitedColumns, SharedScan};
use crate::source::SourceKey;
use crate::top_up::TopUp;

/// Selects whose use is remembered after their items are gone.
const REMEMBERED: usize = 4096;

/// Running scans of one source that are compared with a request at most.
const EXAMINED_SCANS: usize = 64;

/// Lazy items of one source: all are compared with a request, and one more takes the place of the oldest.
const LAZY_ITEMS: usize = 64;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Catalog {
    sources: HashMap<SourceKey, Source>,
    files: HashMap<Arc<str>, FileSources>,
    keys_by_item: HashMap<ItemId, SourceKey>,
    pub(crate) policy_state: PolicyState,
    history: History,
    /// Which columns queries need together.
    pub(crate) demands: HashMap<SourceKey, ColumnDemand>,
    /// When the latest query was noted there.
    pub(crate) demanded_tick: u64,
    /// Scans that make maps, whether they keep their rows or not.
    mapping: Vec<Weak<SharedScan>>,
}

/// The sources of one file. A query may have one of its own, so that there are as many as items: neither to take one out
/// nor to count what they have is a walk over them.
#[derive(Debug, Default)]
struct FileSources {
    /// Options and unnest differ, the file is the same.
    keys: BTreeSet<SourceKey>,
    /// Without maps.
    item_count: u64,
}

/// Items and scans of one source.
#[derive(Debug, Default)]
struct Source {
    items: ItemIndex,
    /// Of all items.
    columns: KeptColumns,
    /// Those of positions, the oldest first.
    lazy: Vec<Arc<Item>>,
    /// The map of the file; only where no list is unnested.
    map: Option<Arc<Item>>,
    /// The item of the file's first records.
    head: Option<Arc<Item>>,
    /// Scans that keep their results and can be joined.
    scans: Vec<Arc<SharedScan>>,
    /// What those who wait for scans will ask for.
    awaited: Vec<Weak<AwaitedColumns>>,
}

impl Source {
    /// Running scans that compute what is wanted.
    fn running<'a>(
        &'a self,
        wanted: Wanted<'a>,
        pinned: &'a PinnedSource,
    ) -> impl Iterator<Item = &'a Arc<SharedScan>> {
        self.scans.iter().rev().take(EXAMINED_SCANS).filter(move |scan| {
            scan.pinned.generation == pinned.generation
                && scan.spec.end_bytes == pinned.end_bytes()
                && scan.is_keeping()
                && answers(&scan.spec.columns, &scan.spec.predicate, wanted)
        })
    }

    /// The running scan whose item will lack the fewest columns of the request.
    fn awaitable(&self, request: &SelectRequest, pinned: &PinnedSource) -> Option<&Arc<SharedScan>> {
        let scans = self.scans.iter().rev().take(EXAMINED_SCANS).filter(|scan| {
            scan.pinned.generation == pinned.generation
                && scan.spec.end_bytes == pinned.end_bytes()
                && scan.is_keeping()
        });
        let lacking = scans.filter_map(|scan| Some((scan.lacking_count(request)?, scan)));
        lacking.min_by_key(|(count, scan)| (*count, scan.id)).map(|(_, scan)| scan)
    }

    /// The top-up, with what those will ask for who wait and want rows of its item, and what others may ask for.
    fn for_all(&self, top_up: TopUp, request: &SelectRequest) -> TopUp {
        let base = Arc::clone(&top_up.base);
        let awaited: Vec<Arc<AwaitedColumns>> = self.awaited.iter().filter_map(Weak::upgrade).collect();
        let of_base = awaited.iter().filter(|awaited| {
            awaited.generation == base.generation && (base.predicate.is_all() || base.predicate == awaited.predicate)
        });
        let further = request.further_columns.iter().filter(|_| base.predicate.is_all());
        top_up.with(of_base.flat_map(|awaited| awaited.columns.iter()).chain(further))
    }

    fn all(&self) -> impl Iterator<Item = &Arc<Item>> {
        self.items.items().chain(&self.lazy).chain(&self.map).chain(&self.head)
    }

    fn get(&self, id: ItemId) -> Option<&Arc<Item>> {
        self.items.get(id).or_else(|| self.lazy.iter().chain(&self.map).chain(&self.head).find(|item| item.id == id))
    }

    /// How many there are, without the map.
    fn len(&self) -> usize {
        self.items.len() + self.lazy.len() + usize::from(self.head.is_some())
    }

    fn insert(&mut self, item: Arc<Item>) {
        self.columns.add(&item);
        match item.head {
            Some(_) => {
                let before = self.head.replace(item);
                before.iter().for_each(|before| self.columns.remove(before));
            }
            None if item.is_lazy => self.lazy.push(item),
            None => self.items.insert(item),
        }
    }

    fn remove(&mut self, id: ItemId) -> Option<Arc<Item>> {
        let item = self.take(id)?;
        self.columns.remove(&item);
        Some(item)
    }

    fn take(&mut self, id: ItemId) -> Option<Arc<Item>> {
        let mut singles = [&mut self.map, &mut self.head].into_iter();
        if let Some(single) = singles.find_map(|single| single.take_if(|item| item.id == id)) {
            return Some(single);
        }
        let at = self.lazy.iter().position(|item| item.id == id);
        at.map(|at| self.lazy.remove(at)).or_else(|| self.items.remove(id))
    }

    fn is_empty(&self) -> bool {
        let is_awaited = self.awaited.iter().any(|awaited| awaited.strong_count() > 0);
        self.items.is_empty()
            && self.lazy.is_empty()
            && self.map.is_none()
            && self.head.is_none()
            && self.scans.is_empty()
            && !is_awaited
    }

    /// The lazy item with the fewest records that has all that are wanted.
    fn promotion(&self, request: &SelectRequest, generation: u64, end_bytes: u64) -> Option<Promotion> {
        let fitting = self.lazy.iter().filter(|item| item.generation == generation && item.end_bytes == end_bytes);
        let promotions = fitting.filter_map(|item| Promotion::of(item, request));
        promotions.min_by_key(|promotion| (promotion.positions.len(), promotion.item.id))
    }
}

/// How a request can be answered.
#[derive(Debug, Clone)]
pub(crate) enum Plan {
    Hit(Match),
    Join(Arc<SharedScan>),
    /// Ask again when it is over.
    Wait(Arc<SharedScan>),
    Extend(Arc<Item>),
    TopUp(TopUp),
    Combine(Combination),
    /// The item of the file's head, and a scan of the rest.
    Head(Arc<Item>),
    Promote(Promotion),
    /// All rows of these columns, to take the place of an item that has only some of them.
    Rebuild(Arc<[ColumnSpec]>),
    Miss(&'static str),
}

impl Plan {
    /// Whether something is scanned to be kept.
    pub(crate) fn fills_cache(&self) -> bool {
        match self {
            Self::Hit(_) | Self::Join(_) | Self::Wait(_) | Self::Head(_) => false,
            Self::Combine(combination) => combination.remainder.is_some(),
            Self::Extend(_) | Self::TopUp(_) | Self::Promote(_) | Self::Rebuild(_) | Self::Miss(_) => true,
        }
    }
}

impl Catalog {
    /// How `request` is answered, as things stand.
    pub(crate) fn plan(&self, request: &SelectRequest, pinned: &PinnedSource) -> Plan {
        let wanted = Wanted { columns: &request.columns, predicate: &request.predicate };
        let end_bytes = pinned.end_bytes();
        let of_generation = |facts: &Facts| facts.generation == pinned.generation;
        let of_generation_at_end = |facts: &Facts| of_generation(facts) && facts.end_bytes == end_bytes;
        let source = self.sources.get(&request.source);
        let complete = source.and_then(|source| source.items.find(wanted, of_generation_at_end));
        let of_records = || self.find_records(request, |facts| of_generation_at_end(facts) && facts.keeps_empty);
        if let Some(hit) = complete.or_else(of_records) {
            return Plan::Hit(hit);
        }
        let Some(source) = source else {
            return Plan::Miss("nothing is kept of this file, read with these options");
        };
        if let Some(scan) = source.running(wanted, pinned).next() {
            return Plan::Join(Arc::clone(scan));
        }
        let shorter =
            source.items.find(wanted, |facts| of_generation(facts) && facts.growable && facts.end_bytes < end_bytes);
        if let Some(hit) = shorter.filter(|hit| request.has_fields_of(&hit.item.predicate)) {
            return Plan::Extend(hit.item);
        }
        let candidates = match request.may_skip {
            true => Vec::new(),
            false => source.items.partial(wanted, of_generation_at_end),
        };
        let mut combination = Combination::of(request, candidates, pinned.can_compare_content());
        if let Some(whole) = combination.take_if(|combination| combination.remainder.is_none()) {
            return Plan::Combine(whole);
        }
        if pinned.can_compare_content() {
            let top_up = source.items.completed_by(request, of_generation_at_end);
            // Where records are read by their positions, there are few of them.
            let is_short = top_up.as_ref().is_some_and(|top_up| !top_up.base.predicate.is_all());
            if request.may_wait
                && !is_short
                && let Some(scan) = source.awaitable(request, pinned)
            {
                return Plan::Wait(Arc::clone(scan));
            }
            if let Some(top_up) = top_up {
                return Plan::TopUp(match pinned.has_unreadable() {
                    true => top_up,
                    false => source.for_all(top_up, request),
                });
            }
        }
        if pinned.can_compare_content()
            && let Some(promotion) = source.promotion(request, pinned.generation, end_bytes)
        {
            return Plan::Promote(promotion);
        }
        if pinned.can_compare_content()
            && let Some(head) = self.head_for(request, pinned.generation, end_bytes)
        {
            return Plan::Head(Arc::clone(head));
        }
        // Who is to keep more than is asked for had better scan once than in pieces.
        let is_widened = request.retain_predicate != request.predicate;
        if let Some(in_part) = combination.filter(|_| !is_widened) {
            return Plan::Combine(in_part);
        }
        Plan::Miss(if source.items.is_empty() && source.lazy.is_empty() {
            "nothing is kept of this file, read with these options"
        } else if source.all().all(|item| item.generation != pinned.generation) {
            "what is kept of this file is of another version"
        } else {
            "no item covers the predicate and has the columns"
        })
    }

    /// A running scan of the rows of `request`, a remainder: one that fails if its content is not what was kept.
    pub(crate) fn running_beside_items(
        &self,
        request: &SelectRequest,
        pinned: &PinnedSource,
    ) -> Option<Arc<SharedScan>> {
        let wanted = Wanted { columns: &request.columns, predicate: &request.predicate };
        let source = self.sources.get(&request.source)?;
        source.running(wanted, pinned).find(|scan| scan.compares_content).cloned()
    }

    pub(crate) fn add_scan(&mut self, scan: Arc<SharedScan>) {
        self.list(&scan.source);
        self.sources.entry(scan.source.clone()).or_default().scans.push(scan);
    }

    /// The items that `scan`'s will make superfluous although it reads nothing of them.
    pub(crate) fn superseded<'a>(&'a self, scan: &'a SharedScan) -> impl Iterator<Item = &'a Arc<Item>> {
        let source = self.sources.get(&scan.source).filter(|_| scan.replaced().is_none()).into_iter();
        let of_predicate = source.flat_map(|source| {
            let head = source.head.iter().filter(|head| head.predicate == scan.spec.predicate);
            source.items.of_predicate(&scan.spec.predicate).chain(head)
        });
        of_predicate.filter(|item| {
            let is_within = item.columns.iter().all(|column| scan.spec.columns.contains(column));
            is_within && item.generation == scan.pinned.generation && item.end_bytes <= scan.spec.end_bytes
        })
    }

    /// Their uses.
    pub(crate) fn uses_superseded(&self, scan: &SharedScan) -> u64 {
        self.superseded(scan).map(|item| item.measurements().use_count).sum()
    }

    /// `columns`, and those that other selects of the same source asked for: whoever keeps all rows spares their next
    /// scan too.
    pub(crate) fn with_columns_asked(
        &self,
        terms: Terms<'_>,
        columns: &Arc<[ColumnSpec]>,
        key: &SourceKey,
        generation: u64,
    ) -> Arc<[ColumnSpec]> {
        let kept = self.sources.get(key).into_iter().flat_map(|source| source.columns.of(generation));
        let demand = self.demands.get(key).filter(|_| terms.policy.divides_items());
        let mut all = columns.to_vec();
        for column in kept.chain(demand.into_iter().flat_map(ColumnDemand::asked)) {
            let is_there = ColumnRoute::find(&all, &column.path).is_some();
            if !is_there && !all.iter().any(|other| other.path.starts_with(&column.path)) {
                all.push(column.clone());
            }
        }
        if all.len() == columns.len() {
            return Arc::clone(columns);
        }
        all.sort_by(|left, right| left.path.cmp(&right.path));
        all.into()
    }

    /// Lists what somebody who waits will ask for.
    pub(crate) fn add_awaited(&mut self, key: &SourceKey, columns: &Arc<AwaitedColumns>) {
        // The source is there as long as the scan is that is waited for.
        if let Some(source) = self.sources.get_mut(key) {
            source.awaited.retain(|other| other.strong_count() > 0);
            source.awaited.push(Arc::downgrade(columns));
        }
    }

    /// An item that answers a request for records although its rows are the elements of one of their lists.
    fn find_records(&self, request: &SelectRequest, admissible: impl Fn(&Facts) -> bool) -> Option<Match> {
        // Where bad records are left out, those with a bad list are missing among the records too.
        if request.source.unnest.is_some() || request.may_skip {
            return None;
        }
        let records = &request.source;
        let keys = self.records_and_lists(records);
        let siblings = keys.filter_map(|key| Some((key.unnest.as_ref()?, key))).filter(|(list, _)| {
            // The list itself is not among the columns of an item that unnests it.
            !request.columns.iter().any(|column| column.path.starts_with(list))
        });
        let wanted = Wanted { columns: &request.columns, predicate: &request.predicate };
        let mut found = siblings.filter_map(|(_, key)| self.sources.get(key)?.items.find(wanted, &admissible));
        found.next()
    }

    /// Of a file, read with the same options, the sources that something is kept of: its records, then their lists.
    pub(crate) fn records_and_lists<'a>(&'a self, key: &SourceKey) -> impl Iterator<Item = &'a SourceKey> {
        let records = SourceKey { unnest: None, ..key.clone() };
        let file = self.files.get(&records.path).into_iter();
        // They lie together.
        file.flat_map(move |file| {
            let options = (records.kind, Arc::clone(&records.options));
            let keys = file.keys.range(records.clone()..);
            keys.take_while(move |key| (key.kind, &key.options) == (options.0, &options.1))
        })
    }

    /// Items that have all rows of a source.
    pub(crate) fn whole_items<'a>(&'a self, key: &SourceKey) -> impl Iterator<Item = &'a Arc<Item>> + use<'a> {
        self.sources.get(key).into_iter().flat_map(|source| source.items.unconstrained())
    }

    /// The scan, if it was still listed.
    pub(crate) fn remove_scan(&mut self, key: &SourceKey, scan_id: u64) -> Option<Arc<SharedScan>> {
        let source = self.sources.get_mut(key)?;
        let at = source.scans.iter().position(|scan| scan.id == scan_id)?;
        let scan = source.scans.swap_remove(at);
        self.forget_if_empty(key);
        Some(scan)
    }

    /// Adds an item; what it makes superfluous is returned: items of the same predicate with no column that the new
    /// one lacks, and the item it extends.
    pub(crate) fn insert(&mut self, item: Arc<Item>, extended: Option<ItemId>) -> Vec<Arc<Item>> {
        let key = item.source.clone();
        self.list(&key);
        let source = self.sources.entry(key.clone()).or_default();
        let is_full = item.is_lazy && source.lazy.len() >= LAZY_ITEMS;
        let oldest = source.lazy.first().filter(|_| is_full).map(|oldest| oldest.id);
        let positions = source.lazy.iter().filter(|other| other.predicate == item.predicate);
        let is_whole = item.head.is_none();
        let head = source.head.iter().filter(|head| head.predicate == item.predicate);
        let superfluous: Vec<ItemId> = source
            .items
            .of_predicate(&item.predicate)
            .filter(|_| is_whole)
            .chain(head.clone().filter(|_| is_whole))
            .filter(|other| other.columns.iter().all(|column| item.columns.contains(column)))
            .chain(positions.filter(|_| is_whole))
            .filter(|other| other.generation == item.generation && other.end_bytes <= item.end_bytes)
            .map(|other| other.id)
            .chain(extended)
            .chain(oldest)
            .chain(head.filter(|_| !is_whole).map(|head| head.id))
            .collect();
        let id = item.id;
        if let Some(demand) = self.demands.get_mut(&item.source) {
            demand.register(&item.columns);
            for (column, width_bytes) in item.columns.iter().zip(item.mean_widths_bytes()) {
                demand.note_width(&column.path, width_bytes);
            }
        }
        let removed = self.change(&key, |source| {
            let removed: Vec<Arc<Item>> = superfluous.into_iter().filter_map(|id| source.remove(id)).collect();
            source.insert(item);
            removed
        });
        let removed = removed.unwrap_or_default();
        for other in &removed {
            self.keys_by_item.remove(&other.id);
        }
        self.keys_by_item.insert(id, key);
        removed
    }

    /// The item of a file's head.
    pub(crate) fn head(&self, key: &SourceKey) -> Option<&Arc<Item>> {
        self.sources.get(key)?.head.as_ref()
    }

    /// The map of a file as queries of this generation and end see it.
    pub(crate) fn map_of(&self, key: &SourceKey, generation: u64, end_bytes: u64) -> Option<Arc<Item>> {
        let map = self.sources.get(key)?.map.as_ref();
        map.filter(|map| map.generation == generation && map.end_bytes == end_bytes).cloned()
    }

    /// Adds the map of a file; the one that it takes the place of is returned.
    pub(crate) fn insert_map(&mut self, item: Arc<Item>) -> Option<Arc<Item>> {
        let key = item.source.clone();
        self.list(&key);
        self.keys_by_item.insert(item.id, key.clone());
        let replaced = self.sources.entry(key).or_default().map.replace(item);
        if let Some(replaced) = &replaced {
            self.keys_by_item.remove(&replaced.id);
        }
        replaced
    }

    /// Whether an item answers whatever `scan`'s item would.
    pub(crate) fn has_equal(&self, scan: &SharedScan) -> bool {
        let Some(source) = self.sources.get(&scan.source) else { return false };
        // Rows of the same predicate get further columns more cheaply than positions do.
        let is_lazy = scan.is_noting();
        source.items.of_predicate(&scan.spec.predicate).any(|item| {
            item.generation == scan.pinned.generation
                && item.end_bytes >= scan.spec.end_bytes
                && (is_lazy || scan.spec.columns.iter().all(|column| item.columns.contains(column)))
        })
    }

    fn remove(&mut self, id: ItemId) -> Option<Arc<Item>> {
        let key = self.keys_by_item.remove(&id)?;
        let item = self.change(&key, |source| source.remove(id))??;
        self.forget_if_empty(&key);
        Some(item)
    }

    /// Takes out the items and scans of a path for which `is_stale` (generation, end) holds.
    pub(crate) fn remove_stale(
        &mut self,
        path: &str,
        is_stale: impl Fn(u64, u64) -> bool,
    ) -> (Vec<Arc<Item>>, Vec<Arc<SharedScan>>) {
        let (mut items, mut scans) = (Vec::new(), Vec::new());
        let keys: Vec<SourceKey> = self.files.get(path).into_iter().flat_map(|file| &file.keys).cloned().collect();
        for key in keys {
            let first = items.len();
            self.change(&key, |source| {
                let stale = source.all().filter(|item| is_stale(item.generation, item.end_bytes));
                let stale: Vec<ItemId> = stale.map(|item| item.id).collect();
                items.extend(stale.into_iter().filter_map(|id| source.remove(id)));
                scans.extend(source.scans.extract_if(.., |scan| is_stale(scan.pinned.generation, scan.spec.end_bytes)));
            });
            for item in &items[first..] {
                self.keys_by_item.remove(&item.id);
            }
            self.forget_if_empty(&key);
        }
        (items, scans)
    }

    /// Takes everything out but the scans that make maps.
    pub(crate) fn clear(&mut self) -> (Vec<Arc<Item>>, Vec<Arc<SharedScan>>) {
        let (mut items, mut scans) = (Vec::new(), Vec::new());
        for (_, source) in self.sources.drain() {
            items.extend(source.all().cloned());
            scans.extend(source.scans);
        }
        self.files.clear();
        self.keys_by_item.clear();
        self.demands.clear();
        self.history = History::default();
        (items, scans)
    }

    pub(crate) fn items(&self) -> impl Iterator<Item = &Arc<Item>> {
        self.sources.values().flat_map(Source::all)
    }

    /// Running scans that make maps.
    pub(crate) fn mapping_scans(&self) -> impl Iterator<Item = Arc<SharedScan>> {
        self.mapping.iter().filter_map(Weak::upgrade)
    }

    pub(crate) fn add_mapping_scan(&mut self, scan: &Arc<SharedScan>) {
        self.mapping.retain(|other| other.strong_count() > 0);
        self.mapping.push(Arc::downgrade(scan));
    }

    pub(crate) fn scans(&self) -> impl Iterator<Item = &Arc<SharedScan>> {
        self.sources.values().flat_map(|source| &source.scans)
    }

    /// Items of a file, however it is read; its map, which is of use to those who ask for something new, is none of
    /// them.
    pub(crate) fn kept_item_count(&self, path: &str) -> u64 {
        self.files.get(path).map_or(0, |file| file.item_count)
    }

    /// Whether what is counted of the items is what a walk over them finds.
    #[cfg(test)]
    pub(crate) fn is_counted_right(&self) -> bool {
        let is_right = |source: &Source| {
            let mut columns = KeptColumns::default();
            source.all().for_each(|item| columns.add(item));
            columns == source.columns && source.len() == source.all().filter(|item| item.map.is_none()).count()
        };
        let counted: u64 = self.files.values().map(|file| file.item_count).sum();
        let key_count: usize = self.files.values().map(|file| file.keys.len()).sum();
        self.sources.values().all(is_right)
            && counted == self.sources.values().map(|source| source.len() as u64).sum::<u64>()
            && key_count == self.sources.len()
    }

    /// Whether the item is still there.
    pub(crate) fn holds(&self, item: &Item) -> bool {
        self.keys_by_item.contains_key(&item.id)
    }

    pub(crate) fn has_path(&self, path: &str) -> bool {
        self.files.contains_key(path)
    }

    pub(crate) fn item(&self, id: ItemId) -> Option<&Arc<Item>> {
        self.sources.get(self.keys_by_item.get(&id)?)?.get(id)
    }

    pub(crate) fn maps(&self) -> impl Iterator<Item = &Arc<Item>> {
        self.sources.values().filter_map(|source| source.map.as_ref())
    }

    /// Puts an item in the place of that of its number, and of the file's head if it is one, whose uses are remembered.
    /// What went is returned.
    pub(crate) fn replace(&mut self, item: Item) -> Vec<Arc<Item>> {
        let key = item.source.clone();
        let went = self.change(&key, |source| {
            let replaced = source.remove(item.id)?;
            let other = source.head.as_ref().filter(|_| item.head.is_some()).map(|head| head.id);
            let other = other.and_then(|id| source.remove(id));
            source.insert(Arc::new(item));
            Some((other, replaced))
        });
        let Some((other, replaced)) = went.flatten() else { return Vec::new() };
        if let Some(other) = &other {
            self.keys_by_item.remove(&other.id);
            self.remember(&other.source, &other.predicate, other.meters.use_count.load(Ordering::Relaxed));
        }
        other.into_iter().chain([replaced]).collect()
    }

    /// Takes an item out for eviction, if still nobody reads it, and remembers its uses.
    pub(crate) fn evict(&mut self, id: ItemId) -> Option<Arc<Item>> {
        let item = self.item(id)?;
        if Arc::strong_count(item) > 1 {
            return None;
        }
        let item = self.remove(id)?;
        // A map is no select, and how often its file was scanned is remembered with the file.
        if item.map.is_none() {
            self.remember(&item.source, &item.predicate, item.meters.use_count.load(Ordering::Relaxed));
        }
        Some(item)
    }

    /// Notes how often a select was asked for, for when its item comes again.
    pub(crate) fn remember(&mut self, source: &SourceKey, predicate: &Conjunction, use_count: u64) {
        self.history.note(fingerprint(source, predicate), use_count);
    }

    /// How often a select without an item was asked for before.
    pub(crate) fn remembered(&self, source: &SourceKey, predicate: &Conjunction) -> u64 {
        self.history.use_counts.get(&fingerprint(source, predicate)).copied().unwrap_or(0)
    }

    /// Makes a source findable by its path.
    fn list(&mut self, key: &SourceKey) {
        if !self.sources.contains_key(key) {
            self.files.entry(Arc::clone(&key.path)).or_default().keys.insert(key.clone());
        }
    }

    /// Changes what there is of a source, whose items are counted with those of its file.
    fn change<T>(&mut self, key: &SourceKey, change: impl FnOnce(&mut Source) -> T) -> Option<T> {
        let source = self.sources.get_mut(key)?;
        let before = source.len() as u64;
        let changed = change(source);
        if let Some(file) = self.files.get_mut(&key.path) {
            file.item_count = file.item_count + source.len() as u64 - before;
        }
        Some(changed)
    }

    fn forget_if_empty(&mut self, key: &SourceKey) {
        if self.sources.get(key).is_some_and(|source| source.is_empty()) {
            self.sources.remove(key);
            if let Some(file) = self.files.get_mut(&key.path) {
                file.keys.remove(key);
                if file.keys.is_empty() {
                    self.files.remove(&key.path);
                }
            }
        }
    }
}

/// Equal for equal selects; for others too with a chance of 2⁻⁶⁴, which misleads a benefit, never an answer.
fn fingerprint(source: &SourceKey, predicate: &Conjunction) -> u64 {
    let mut hasher = DefaultHasher::new();
    (source, predicate).hash(&mut hasher);
    hasher.finish()
}

/// Uses of selects whose items are gone; the oldest note is forgotten first.
#[derive(Debug, Default)]
struct History {
    use_counts: HashMap<u64, u64>,
    order: VecDeque<u64>,
}

impl History {
    fn note(&mut self, fingerprint: u64, use_count: u64) {
        if self.use_counts.insert(fingerprint, use_count).is_none() {
            self.order.push_back(fingerprint);
            if self.order.len() > REMEMBERED
                && let Some(oldest) = self.order.pop_front()
            {
                self.use_counts.remove(&oldest);
            }
        }
    }
}

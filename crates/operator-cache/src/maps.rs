//! Positional maps: where a file's records and fields lie, so that scans find them without looking.
//!
//! **Owns**: which scans go by a map and which make one, the items that maps are, taking maps over from earlier
//! processes and handing them on ([`MapStore`](crate::MapStore)).
//! **Does not own**: the map and how it is read (`raw`), the rule that makes one
//! ([`map_making`](thermocline_placement::operator_cache::map_making)), the pieces of a running scan (`scan::mapping`).
//!
//! A map is an item without rows, one for each file and its options whatever list is flattened: weighed like any other,
//! by what scans by it are foretold to save; displaced like others where all maps together take more than a share of
//! the cache. It serves misses, remainders of combinations, whole columns, and columns laid beside kept ones where
//! those are of all records.
//!
//! **Invariants**
//! - A map serves queries of its generation and end alone. The scan's content is compared with what the map was made of
//!   as where records are read by position: by hashes of an earlier scan of as much, or, where the query knows none, by
//!   metadata old enough to be trusted; then the scan records hashes.
//! - Morsels of a scan by a map are not those of other scans. What it keeps is aligned by the positions of its records,
//!   never by morsels; so is what it is laid beside.
//! - Only the pieces of all morsels of one scan make a map, and only one that ended well.
//!
//! **Paper**: ReCache (PVLDB 2017) §3.1: the first query on a file makes a positional map of it. Deviations: the map
//! competes for memory, and may outlive the process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use thermocline_budget::Reservation;
use thermocline_placement::operator_cache::ItemMeasurements;
use thermocline_placement::operator_cache::admission::{Admission, admit};
use thermocline_placement::operator_cache::demand::expected_uses;
use thermocline_placement::operator_cache::map_making::{MapInputs, largest_bytes, scan_by_map_ns, typical_scan_ns};
use thermocline_predicate::{Conjunction, FieldPath};
use thermocline_raw::PositionalMap;

use crate::cache::OperatorCache;
use crate::candidates::Terms;
use crate::catalog::Catalog;
use crate::conversion::shape_of;
use crate::decisions::DecisionKind;
use crate::file_record::PinnedSource;
use crate::item::{Item, ItemId, Meters};
use crate::request::{ColumnSpec, SelectRequest};
use crate::scan::{Mapping, ScanStart, SharedScan};
use crate::source::{ScanSpec, SourceKey};
use crate::top_up::TopUp;

/// Of an item's places in the tables, about.
const PLACES_BYTES: u64 = 512;

/// The map that an item is.
#[derive(Debug)]
pub(crate) struct KeptMap {
    pub(crate) map: Arc<PositionalMap>,
    /// Whether it was handed to the store, or comes from there.
    is_stored: AtomicBool,
}

/// Whose map it is: that of all lists' scans.
fn map_key(source: &SourceKey) -> SourceKey {
    SourceKey { unnest: None, ..source.clone() }
}

/// Whether a scan of these columns and this predicate finds all that it reads by the map.
fn covers(map: &PositionalMap, columns: &[ColumnSpec], predicate: &Conjunction, list: Option<&FieldPath>) -> bool {
    let columns = columns.iter().map(|column| &column.path);
    map.knows(columns.chain(predicate.fields().map(|(path, _)| path)), list)
}

/// What is expected of a map.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Expected {
    /// Scans by it.
    pub(crate) use_count: u64,
    /// What each would take without it; None if that is not known.
    pub(crate) scan_ns: Option<u64>,
    /// Of the latest queries of its file those that it serves.
    pub(crate) served_share: f64,
}

impl Catalog {
    /// What is expected of an item that is a map; None of others, and if the policy counts the uses that were, or nothing
    /// is known.
    pub(crate) fn expected_of_map(&self, terms: Terms<'_>, item: &Item) -> Option<Expected> {
        let map = &item.map.as_ref()?.map;
        let knows = |root: &str| map.paths().any(|path| path.parts().first().is_some_and(|first| **first == *root));
        self.expected_of_map_that(terms, &item.source, item.end_bytes, knows)
    }

    /// The same of one that knows of the columns that `knows` says.
    fn expected_of_map_that(
        &self,
        terms: Terms<'_>,
        file: &SourceKey,
        end_bytes: u64,
        knows: impl Fn(&str) -> bool,
    ) -> Option<Expected> {
        let (mut use_count, mut scans_ns, mut served_count, mut query_count) = (0, Some(0), 0, 0);
        let of_file = |source: &SourceKey| (&source.path, &source.options) == (&file.path, &file.options);
        let demands = self.demands.iter().filter(|(source, _)| terms.policy.divides_items() && of_file(source));
        for (source, demand) in demands {
            let (served, of) = demand.served(&knows);
            let served_share = served as f64 / of.max(1) as f64;
            let uses = expected_uses(demand.rate(self.demanded_tick), served_share);
            // A head's rows are not scanned.
            let bytes = self.head(source).map_or(end_bytes, |head| head.rest_bytes());
            use_count += uses;
            scans_ns = scans_ns.zip(demand.own_scan_ns(bytes)).map(|(all_ns, ns)| all_ns + uses * ns);
            served_count += served;
            query_count += of;
        }
        let scan_ns = scans_ns.and_then(|scans_ns| scans_ns.checked_div(use_count));
        let served_share = served_count as f64 / query_count as f64;
        (query_count > 0).then_some(Expected { use_count, scan_ns, served_share })
    }
}

impl OperatorCache {
    /// The map by which the file may be scanned, as the query sees it.
    fn usable_map(&self, catalog: &Catalog, request: &SelectRequest, pinned: &PinnedSource) -> Option<Arc<Item>> {
        if !request.can_map || (pinned.is_young && !pinned.can_compare_content()) {
            return None;
        }
        catalog.map_of(&map_key(&request.source), pinned.generation, pinned.end_bytes())
    }

    /// The map by which a scan of the whole file goes that reads these columns.
    pub(crate) fn map_for(
        &self,
        catalog: &Catalog,
        request: &SelectRequest,
        pinned: &PinnedSource,
        spec: &ScanSpec,
    ) -> Option<(Arc<Item>, Arc<PositionalMap>)> {
        let item = self.usable_map(catalog, request, pinned)?;
        let map = Arc::clone(&item.map.as_ref()?.map);
        covers(&map, &spec.columns, &spec.predicate, request.source.unnest.as_ref()).then_some((item, map))
    }

    /// The map by which columns are read that an item of all records lacks; the top-up is then aligned by its
    /// positions.
    pub(crate) fn map_for_top_up(
        &self,
        catalog: &Catalog,
        request: &SelectRequest,
        pinned: &PinnedSource,
        top_up: &mut TopUp,
    ) -> Option<(Arc<Item>, Arc<PositionalMap>)> {
        let base = &top_up.base;
        let item = self.usable_map(catalog, request, pinned).filter(|_| base.predicate.is_all())?;
        let map = Arc::clone(&item.map.as_ref()?.map);
        let entry_count: usize = base.chunks.iter().map(|chunk| chunk.content().entry_count()).sum();
        let is_of_all = entry_count == map.records().len();
        if !is_of_all || !covers(&map, &top_up.missing, &base.predicate, request.source.unnest.as_ref()) {
            return None;
        }
        top_up.positions = Some(Arc::clone(map.records()));
        Some((item, map))
    }

    /// Has a scan of a whole file go by a map, or else make one if that is worth it.
    pub(crate) fn place_map(
        &self,
        catalog: &Catalog,
        request: &SelectRequest,
        pinned: &PinnedSource,
        spec: &mut ScanSpec,
        start: &mut ScanStart,
        keeps: bool,
    ) {
        let is_whole = spec.start_bytes == 0 && spec.positions.is_none() && start.base.is_none();
        if !request.can_map || !is_whole {
            return;
        }
        if start.top_up.is_none()
            && let Some((item, map)) = self.map_for(catalog, request, pinned, spec)
        {
            spec.map = Some(map);
            start.mapped = Some(item);
            // Of a file that grew the query may know the hashes of the old part alone.
            start.compares_content = pinned.can_compare_content();
        }
        if let Some(item) = &start.mapped {
            item.record_use(self.tick(), 0, self.policy().baseline_on_use(&catalog.policy_state));
            let measured = item.measurements();
            let numbers = vec![
                ("record_count", item.record_count as f64),
                ("execute_ns", measured.execute_ns as f64),
                ("reuse_scan_ns", measured.reuse_scan_ns as f64),
            ];
            self.record_item(DecisionKind::MapUsed, item, numbers, "it knows all that the scan reads");
            return;
        }
        let earlier = pinned.with_map_history(&request.source.options, |history| {
            let earlier = *history;
            history.scan_count = history.scan_count.saturating_add(1);
            earlier
        });
        spec.makes_map = keeps
            && earlier.is_some_and(|earlier| {
                let inputs = MapInputs {
                    scan_count: earlier.scan_count,
                    lost_count: earlier.lost_count,
                    made_count: earlier.made_count,
                    outlives_process: self.map_store().is_some_and(|store| store.keeps()) && !pinned.is_young,
                    keeps_whole_columns: spec.predicate.is_all(),
                };
                inputs.is_worth_making()
            });
    }

    /// What a scan gathers a map in, if it makes one and there is room for any.
    pub(crate) fn begin_mapping(&self, spec: &ScanSpec) -> Option<Mapping> {
        let limit_bytes = largest_bytes(self.limit_bytes());
        let reservation = if spec.makes_map { self.reserve_if_free(0) } else { None };
        reservation.map(|reservation| Mapping::new(limit_bytes, reservation))
    }

    /// Evicts what is worth less than a map of a file, with these columns, of which some memory is held. False when that
    /// makes no room.
    pub(crate) fn make_room_for_map(
        &self,
        (source, columns): (&SourceKey, &[ColumnSpec]),
        pinned: &PinnedSource,
        size_bytes: u64,
        held_bytes: u64,
        execute_ns: u64,
    ) -> bool {
        let scan_count = pinned.with_map_history(&source.options, |history| history.scan_count).unwrap_or(0);
        let knows =
            |root: &str| columns.iter().any(|column| column.path.parts().first().is_some_and(|first| **first == *root));
        let expected = self.catalog().expected_of_map_that(self.terms(), source, pinned.end_bytes(), knows);
        let newcomer = ItemMeasurements {
            id: u64::MAX,
            kind: source.kind,
            use_count: expected.map_or(u64::MAX, |expected| expected.use_count).min(scan_count.into()).max(1),
            execute_ns,
            cache_ns: 0,
            reuse_scan_ns: scan_by_map_ns(execute_ns),
            lookup_ns: 0,
            size_bytes,
            baseline: 0.0,
            last_use: self.tick(),
        };
        let evicted = {
            let mut catalog = self.catalog();
            let free_bytes = self.budget().cache_room_bytes().saturating_add(held_bytes);
            let (state, items) = (self.policy_state(&catalog), self.rivals(&catalog, size_bytes, free_bytes));
            match admit(self.policy(), state, &items, &newcomer, free_bytes, self.limit_bytes()) {
                Admission::Admit { eviction } => {
                    Some(self.carry_out(&mut catalog, &eviction, &items, "room for a positional map"))
                }
                Admission::Refuse { state, .. } => {
                    catalog.policy_state = state;
                    None
                }
            }
        };
        evicted.is_some()
    }

    /// Notes that a scan's map is not to be had.
    pub(crate) fn note_lost_map(&self, scan: &SharedScan, reason: &'static str) {
        scan.pinned.with_map_history(&scan.source.options, |history| {
            history.lost_count = history.lost_count.saturating_add(1);
        });
        self.record_scan(DecisionKind::Refuse, scan, Vec::new(), reason);
    }

    /// After a scan that ended well: its map becomes an item, or the one that it went by is handed on.
    pub(crate) fn settle_map(&self, scan: &SharedScan) {
        if let Some(item) = &scan.mapped {
            self.hand_on(item, &scan.pinned);
        }
        let Some((map, reservation)) = scan.take_map() else { return };
        if !scan.pinned.is_current() {
            return;
        }
        let (list, spec) = (scan.source.unnest.as_ref(), &scan.spec);
        if !covers(&map, &spec.columns, &spec.predicate, list) && scan.completed().is_none() {
            self.note_lost_map(scan, "its positional map has no room for all fields");
        }
        let (key, pinned) = (map_key(&scan.source), &scan.pinned);
        let known = self.catalog().map_of(&key, pinned.generation, pinned.end_bytes());
        let (map, reservation) = match known.as_ref().and_then(|known| self.merged(known, &map)) {
            Some(merged) => merged,
            None => (map, reservation),
        };
        let scan_count = pinned.with_map_history(&key.options, |history| {
            history.made_count = history.made_count.saturating_add(1);
            history.scan_count
        });
        let scan_count = scan_count.unwrap_or(0);
        let known_uses = known.map_or(0, |known| known.meters.use_count.load(Ordering::Relaxed));
        let execute_ns = scan.meters.execute_ns.load(Ordering::Relaxed);
        let use_count = known_uses.max(u64::from(scan_count)).max(1);
        let Some(item) = self.map_item(key, pinned, map, reservation, execute_ns, use_count, false) else { return };
        let reason = if known_uses == 0 { "a finished scan" } else { "a finished scan of further fields" };
        if let Some(item) = self.list_map(item, pinned, DecisionKind::MapMade, reason) {
            self.hand_on(&item, pinned);
        }
    }

    /// The known map with the fields of `map`; None where there is no room for that, or they contradict each other.
    fn merged(&self, known: &Item, map: &PositionalMap) -> Option<(PositionalMap, Reservation)> {
        let known = &known.map.as_ref()?.map;
        let reservation = self.reserve_if_free((known.size_bytes() + map.size_bytes()) as u64)?;
        Some((known.merged(map)?, reservation))
    }

    #[allow(clippy::too_many_arguments)]
    fn map_item(
        &self,
        source: SourceKey,
        pinned: &PinnedSource,
        map: PositionalMap,
        structure: Reservation,
        execute_ns: u64,
        use_count: u64,
        is_stored: bool,
    ) -> Option<Item> {
        let paths_bytes: usize = map.paths().map(|path| size_of::<FieldPath>() + path.heap_bytes()).sum();
        let size_bytes = (map.size_bytes() + paths_bytes + size_of::<Item>()) as u64 + PLACES_BYTES;
        structure.resize(size_bytes).ok()?;
        // Of no rows.
        let (shape, widths_bytes) = shape_of(&[], &[], None);
        let mut item = Item {
            id: ItemId(self.next_number()),
            source,
            generation: pinned.generation,
            end_bytes: pinned.end_bytes(),
            growable: false,
            keeps_empty: false,
            predicate: Arc::default(),
            columns: Arc::default(),
            chunks: Vec::new(),
            is_lazy: false,
            positions: Some(Arc::clone(map.records())),
            layout: self.layout_rule().initial(false),
            head: None,
            borders: Arc::default(),
            morsel_ends: None,
            row_count: 0,
            record_count: map.records().len() as u64,
            skipped_count: 0,
            size_bytes,
            map: Some(KeptMap { map: Arc::new(map), is_stored: AtomicBool::new(is_stored) }),
            meters: Meters::default(),
            shape,
            widths_bytes,
            layouts: Mutex::default(),
            is_converting: AtomicBool::new(false),
            mirror: Arc::default(),
            may_share: AtomicBool::new(false),
            structure: Arc::new(structure),
        };
        *item.meters.execute_ns.get_mut() = execute_ns;
        *item.meters.predicted_scan_ns.get_mut() = scan_by_map_ns(execute_ns).max(1);
        *item.meters.used_tick.get_mut() = self.tick();
        *item.meters.use_count.get_mut() = use_count;
        Some(item)
    }

    /// Makes a map findable, in the place of the one there was; None if its file has changed.
    fn list_map(
        &self,
        mut item: Item,
        pinned: &PinnedSource,
        kind: DecisionKind,
        reason: &'static str,
    ) -> Option<Arc<Item>> {
        let (item, _replaced) = {
            let mut catalog = self.catalog();
            if !pinned.is_current() {
                return None;
            }
            let baseline = self.policy().baseline_on_use(&catalog.policy_state);
            *item.meters.baseline_bits.get_mut() = baseline.to_bits();
            let item = Arc::new(item);
            let numbers = vec![
                ("record_count", item.record_count as f64),
                ("field_count", item.map.as_ref().map_or(0, |kept| kept.map.paths().count()) as f64),
                ("size_bytes", item.size_bytes as f64),
                ("execute_ns", item.meters.execute_ns.load(Ordering::Relaxed) as f64),
            ];
            self.record_item(kind, &item, numbers, reason);
            let replaced = catalog.insert_map(Arc::clone(&item));
            (item, replaced)
        };
        Some(item)
    }

    /// Gives a map to the store that has not got it yet, if its file's version is told from all later ones.
    fn hand_on(&self, item: &Item, pinned: &PinnedSource) {
        if let (Some(store), Some(kept)) = (self.map_store(), &item.map)
            && !pinned.is_young
            && !kept.is_stored.swap(true, Ordering::Relaxed)
        {
            store.save(&pinned.version, &item.source.options, &kept.map);
        }
    }

    /// Whether [`load_map`](Self::load_map) may find a map that is of use for a request. Cheap.
    pub fn may_load_map(&self, request: &SelectRequest, pinned: &PinnedSource) -> bool {
        let is_usable = request.can_map && !pinned.is_young && pinned.is_current();
        let is_sought = || pinned.with_map_history(&request.source.options, |history| history.is_sought);
        self.map_store().is_some() && is_usable && is_sought() == Some(false)
    }

    /// Takes over the map of a file that an earlier process made, if there is one and room for it. Blocks on the
    /// store's I/O, once a process for each file and its options; a query that asks meanwhile goes without.
    pub fn load_map(&self, request: &SelectRequest, pinned: &PinnedSource) {
        let Some(store) = self.map_store().filter(|_| self.may_load_map(request, pinned)) else { return };
        let options = &request.source.options;
        let was_sought = pinned.with_map_history(options, |history| std::mem::replace(&mut history.is_sought, true));
        if was_sought != Some(false) {
            return;
        }
        let loaded = store.load(&pinned.version, options);
        let Some(map) = loaded.filter(|map| map.end_bytes() == pinned.end_bytes()) else { return };
        let key = map_key(&request.source);
        let size_bytes = map.size_bytes() as u64 + size_of::<Item>() as u64 + PLACES_BYTES;
        let execute_ns = typical_scan_ns(key.kind, pinned.end_bytes());
        let fits = size_bytes <= largest_bytes(self.limit_bytes())
            && self.make_room_for_map((&key, &request.columns), pinned, size_bytes, 0, execute_ns);
        let reservation = if fits { self.reserve_if_free(size_bytes) } else { None };
        let Some(reservation) = reservation else { return };
        let Some(item) = self.map_item(key, pinned, map, reservation, execute_ns, 1, true) else { return };
        // A scan may have made one meanwhile.
        if self.catalog().map_of(&item.source, pinned.generation, pinned.end_bytes()).is_none() {
            self.list_map(item, pinned, DecisionKind::MapLoaded, "an earlier process made it");
        }
    }
}

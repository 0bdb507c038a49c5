//! Memory: what is kept, what makes room for it, what is given back. The mover of `placement`'s decisions.
//!
//! **Rules**
//! - Reserve, then keep: no rows stay in memory for the cache's sake without a reservation of their buffers.
//! - A scan is judged once a sample of it (1/32 of its bytes) tells how large its item will be, and again whenever
//!   room runs out. A refused scan stops keeping; its query goes on.
//! - Newcomers displace whole items; for a query's memory items of whole columns go in parts, the columns first whose
//!   loss costs least.
//! - Only items that nobody reads are evicted: evicting others frees nothing until their readers are done.
//! - The policy is asked under the catalog's lock, on numbers alone; reservations are given back after it is released.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use thermocline_budget::{ReclaimableCache, Reservation};
use thermocline_placement::operator_cache::admission::{Admission, Refusal, admit, refusal_ages};
use thermocline_placement::operator_cache::eagerness::Worth;
use thermocline_placement::operator_cache::extrapolate::{DEFAULT_MARGIN, Progress};
use thermocline_placement::operator_cache::heads::{AdmittedPart, admit_head};
use thermocline_placement::operator_cache::{Eviction, ItemMeasurements, Victim, elapsed_bid, marginal_benefit};
use thermocline_raw::RecordPositions;

use crate::cache::OperatorCache;
use crate::candidates::{Candidate, Going, Resolved};
use crate::catalog::Catalog;
use crate::conversion::shape_of;
use crate::decisions::DecisionKind;
use crate::file_record::{Learned, PinnedSource};
use crate::item::{Item, ItemId, Meters, predicted_scan_ns};
use crate::rows::element_columns;
use crate::scan::{MorselWork, SharedScan, SoFar};
use crate::source::SourceEnd;

/// The part of a source after which a scan is judged: enough to extrapolate from, early enough to stop in time.
const SAMPLE_SHARE: u64 = 32;

/// Chunks and morsels that a head is taken to have before it is known; less than a hundred bytes each.
const HEAD_CHUNK_COUNT: usize = 32;

/// How often a scan makes room for one morsel. Others may take what it freed; each attempt costs a pass over all items.
const ROOM_ATTEMPTS: usize = 4;

/// Whether enough of a scan is done to tell how it will end.
pub(crate) fn is_sampled(progress: Progress) -> bool {
    progress.scanned_bytes.saturating_mul(SAMPLE_SHARE) >= progress.total_bytes
}

/// Of rows that a scan keeps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeptBytes {
    /// To be reserved.
    pub(crate) own_bytes: u64,
    /// Reserved already, with the item whose columns they share.
    pub(crate) lent_bytes: u64,
}

/// What a running scan would become, as far as can be foretold.
#[derive(Debug)]
pub(crate) struct Prospect {
    /// Of the item, its base among it.
    pub(crate) size_bytes: u64,
    /// What of that is reserved already.
    pub(crate) held_bytes: u64,
    pub(crate) execute_ns: u64,
    pub(crate) cache_ns: u64,
    pub(crate) reuse_scan_ns: u64,
}

/// Items that nobody reads and that a scan's item takes the place of, so that they may go before it is there.
#[derive(Debug, Default)]
struct Superseded {
    items: Vec<ItemId>,
    size_bytes: u64,
}

impl Superseded {
    /// None for scans that can't be left with a part of their rows: what they are refused for is kept.
    fn by(scan: &SharedScan, catalog: &Catalog) -> Self {
        let mut superseded = Self::default();
        let unread = catalog.superseded(scan).filter(|item| Arc::strong_count(item) == 1);
        for item in unread.filter(|_| scan.may_keep_head) {
            superseded.items.push(item.id);
            superseded.size_bytes += item.own_bytes();
        }
        superseded
    }
}

impl OperatorCache {
    /// Memory for a morsel's rows, made free by evictions if the policy finds the scan worth them. None: keep no more.
    pub(crate) fn reserve_for(
        &self,
        scan: &Arc<SharedScan>,
        size: KeptBytes,
        morsel: MorselWork,
    ) -> Option<Reservation> {
        if !scan.is_keeping() {
            return None;
        }
        let meters = &scan.meters;
        let KeptBytes { own_bytes: size_bytes, lent_bytes } = size;
        let kept = KeptBytes {
            own_bytes: meters.kept_bytes.load(Ordering::Relaxed) + size_bytes,
            lent_bytes: meters.lent_bytes.load(Ordering::Relaxed) + lent_bytes,
        };
        let so_far = meters.so_far(morsel);
        if is_sampled(so_far.progress)
            && !meters.judged.swap(true, Ordering::Relaxed)
            && !self.judge(scan, kept, size_bytes, so_far)
        {
            return None;
        }
        if scan.has_quota() && kept.own_bytes > scan.meters.head_bytes.load(Ordering::Relaxed) {
            return None;
        }
        for _ in 0..ROOM_ATTEMPTS {
            if let Ok(reservation) = self.account().try_reserve(size_bytes) {
                return Some(reservation);
            }
            if !self.judge(scan, kept, size_bytes, so_far) {
                return None;
            }
        }
        let reservation = self.account().try_reserve(size_bytes).ok();
        if reservation.is_none() {
            let numbers = vec![("asked_bytes", size_bytes as f64), ("kept_bytes", kept.own_bytes as f64)];
            self.record_scan(DecisionKind::Refuse, scan, numbers, "others took the room as fast as it was made");
        }
        reservation
    }

    /// Memory without evicting anything but mirrors.
    pub(crate) fn reserve_if_free(&self, size_bytes: u64) -> Option<Reservation> {
        self.account().try_reserve(size_bytes).ok()
    }

    /// Whether the scan's item, as far as it can be foretold, is worth the room it needs; if so that room is made.
    fn judge(&self, scan: &Arc<SharedScan>, kept: KeptBytes, incoming_bytes: u64, so_far: SoFar) -> bool {
        let SoFar { progress, execute_ns, cache_ns } = so_far;
        let KeptBytes { own_bytes: kept_bytes, lent_bytes } = kept;
        let whole_bytes = progress.whole_bytes(kept_bytes, DEFAULT_MARGIN).unwrap_or(kept_bytes);
        let grown_bytes = scan.base.as_ref().map_or(0, |base| base.size_bytes);
        let lent_bytes = progress.whole_bytes(lent_bytes, 0.0).unwrap_or(lent_bytes);
        // What an item lends that stays is its own.
        let base_bytes = grown_bytes + if scan.completed().is_some() { lent_bytes } else { 0 };
        let size_bytes = whole_bytes.saturating_add(base_bytes);
        let prospect = Prospect {
            size_bytes,
            // What the scan and its base hold already is room for its item.
            held_bytes: kept_bytes.saturating_sub(incoming_bytes).saturating_add(base_bytes),
            execute_ns: progress.whole_ns(execute_ns).unwrap_or(execute_ns),
            cache_ns: progress.whole_ns(cache_ns).unwrap_or(cache_ns),
            reuse_scan_ns: predicted_scan_ns(size_bytes),
        };
        let (refusal, use_count) = match self.weigh(scan, &prospect, "room for a running scan") {
            Ok(worth) => {
                *scan.meters.worth.lock() = worth;
                return true;
            }
            Err(refused) => refused,
        };
        scan.meters.item_bytes.fetch_max(size_bytes, Ordering::Relaxed);
        self.remember_once(scan, use_count);
        if let Some(top_up) = scan.top_up() {
            self.catalog().note_widths_of_missing(top_up, whole_bytes);
        }
        let (mut numbers, reason) = explain_refusal(refusal);
        numbers.push(("estimated_bytes", size_bytes as f64));
        numbers.push(("scanned_share", progress.fraction()));
        self.record_scan(DecisionKind::Refuse, scan, numbers, reason);
        false
    }

    /// Notes what a scan that ended took for what was asked for.
    pub(crate) fn note_own_scan(&self, scan: &SharedScan) {
        if let Some((bytes, ns)) = scan.own_work() {
            self.catalog().note_own_scan(&scan.source, bytes, ns);
        }
    }

    /// Notes that the select of a scan was asked for so often; once a scan.
    pub(crate) fn remember_once(&self, scan: &SharedScan, use_count: u64) {
        if !scan.meters.remembered.swap(true, Ordering::Relaxed) {
            self.catalog().remember(&scan.source, &scan.spec.predicate, use_count);
        }
    }

    /// Asks the policy about what a scan may become, and makes the room it needs. What it is worth if it was asked for
    /// before; or why it is refused, and its uses so far.
    pub(crate) fn weigh(
        &self,
        scan: &Arc<SharedScan>,
        prospect: &Prospect,
        purpose: &'static str,
    ) -> Result<Option<Worth>, (Refusal, u64)> {
        let mut evicted = Vec::new();
        let verdict = {
            let mut catalog = self.catalog();
            let (base_uses, base_ns) = match scan.replaced() {
                Some(replaced) => {
                    let measured = replaced.measurements();
                    (measured.use_count, measured.execute_ns + measured.cache_ns)
                }
                // They are made anew, not added to.
                None => (catalog.uses_superseded(scan), 0),
            };
            let remembered = self.remembered_uses(&catalog, scan);
            let superseded = Superseded::by(scan, &catalog);
            let bare_bytes = self.budget().cache_room_bytes().saturating_add(prospect.held_bytes);
            let free_bytes = bare_bytes.saturating_add(superseded.size_bytes);
            let expected = catalog
                .expected_uses(self.terms(), &scan.source, &scan.spec.columns, prospect.size_bytes)
                .filter(|_| scan.spec.predicate.is_all());
            let longest_ns = scan.replaced().map_or(0, |item| item.longest_scan_ns());
            let counts_longest = expected.is_some() || !self.divides_items();
            let own_ns = expected.and_then(|_| {
                let own_ns = catalog.own_scan_ns(self.terms(), &scan.source, scan.pinned.end_bytes());
                own_ns.or_else(|| scan.own_part_ns(prospect.execute_ns))
            });
            let newcomer = ItemMeasurements {
                id: u64::MAX,
                kind: scan.source.kind,
                use_count: expected.unwrap_or(1 + base_uses + remembered),
                execute_ns: own_ns.unwrap_or_else(|| match (counts_longest, &scan.base) {
                    (true, Some(_)) => longest_ns.saturating_add(prospect.execute_ns),
                    (true, None) => longest_ns.max(prospect.execute_ns),
                    (false, _) => base_ns.saturating_add(prospect.execute_ns),
                }),
                cache_ns: prospect.cache_ns,
                reuse_scan_ns: prospect.reuse_scan_ns,
                lookup_ns: 0,
                size_bytes: prospect.size_bytes,
                baseline: 0.0,
                last_use: self.tick(),
            };
            let state = self.policy_state(&catalog);
            let mut items = self.rivals(&catalog, newcomer.size_bytes, free_bytes);
            items.retain(|item| !superseded.items.contains(&Candidate::of(item.id).item));
            match admit(self.policy(), state, &items, &newcomer, free_bytes, self.limit_bytes()) {
                Admission::Admit { eviction } => {
                    let worth = (remembered > 0).then(|| Worth {
                        newcomer_s: self.policy().worth_s(&state, &newcomer),
                        victims_s: measured_of(&eviction.victims, &items)
                            .map(|item| self.policy().worth_s(&state, item))
                            .sum(),
                    });
                    evicted = self.carry_out(&mut catalog, &eviction, &items, purpose);
                    if newcomer.size_bytes > bare_bytes {
                        evicted.extend(self.give_way(&mut catalog, &superseded));
                    }
                    Ok(worth)
                }
                Admission::Refuse { reason, state: refused } => {
                    let may_keep_head = scan.may_keep_head && !scan.has_quota();
                    let head = if may_keep_head && catalog.is_mostly_asked(&scan.source, &scan.spec.columns) {
                        admit_head(self.policy(), state, &items, &newcomer, free_bytes, self.limit_bytes())
                    } else {
                        None
                    };
                    match head {
                        Some(AdmittedPart { share, eviction }) => {
                            // Room is made for its structure too.
                            let own_bytes = structure_bytes(scan, HEAD_CHUNK_COUNT, HEAD_CHUNK_COUNT);
                            let head_bytes = (newcomer.size_bytes as f64 * share) as u64;
                            let head_bytes = head_bytes.saturating_sub(own_bytes).max(1);
                            scan.meters.head_bytes.store(head_bytes, Ordering::Relaxed);
                            evicted = self.carry_out(&mut catalog, &eviction, &items, purpose);
                            if head_bytes + own_bytes > bare_bytes {
                                evicted.extend(self.give_way(&mut catalog, &superseded));
                            }
                            Ok(None)
                        }
                        None => {
                            if !self.divides_items() || refusal_ages(newcomer.use_count, expected.is_some()) {
                                catalog.policy_state = refused;
                            }
                            Err((reason, newcomer.use_count))
                        }
                    }
                }
            }
        };
        drop(evicted);
        verdict
    }

    /// What a newcomer of this size may displace; nothing where it need displace nothing, for to find that out is a walk
    /// over all items.
    pub(crate) fn rivals(&self, catalog: &Catalog, size_bytes: u64, free_bytes: u64) -> Vec<ItemMeasurements> {
        if size_bytes <= free_bytes.min(self.limit_bytes()) {
            return Vec::new();
        }
        catalog.displaceable(self.terms())
    }

    /// Takes out what a newcomer is to take the place of.
    fn give_way(&self, catalog: &mut Catalog, superseded: &Superseded) -> Vec<Arc<Item>> {
        let evicted: Vec<Arc<Item>> = superseded.items.iter().filter_map(|id| catalog.evict(*id)).collect();
        for item in &evicted {
            let numbers = vec![("size_bytes", item.size_bytes as f64)];
            self.record_item(DecisionKind::Evict, item, numbers, "what takes its place needs its room");
        }
        evicted
    }

    /// Takes the victims out and records why. The caller drops them after the lock is released.
    pub(crate) fn carry_out(
        &self,
        catalog: &mut Catalog,
        eviction: &Eviction,
        items: &[ItemMeasurements],
        reason: &'static str,
    ) -> Vec<Arc<Item>> {
        catalog.policy_state = eviction.state;
        let mut evicted = Vec::with_capacity(eviction.victims.len());
        let measured: HashMap<u64, &ItemMeasurements> =
            measured_of(&eviction.victims, items).map(|item| (item.id, item)).collect();
        for Resolved { item: id, going, victims } in catalog.resolve(&eviction.victims) {
            let taken = catalog.evict_going(id, going);
            let Some(item) = taken.iter().find(|item| item.id == id).map(Arc::clone) else { continue };
            let kind = match going {
                _ if !catalog.holds(&item) => DecisionKind::Evict,
                Going::Rows(_) => DecisionKind::DropRows,
                _ => DecisionKind::DropColumns,
            };
            for victim in victims {
                let mut numbers = vec![("score", victim.score), ("size_bytes", victim.size_bytes as f64)];
                if let Some(measured) = measured.get(&victim.id) {
                    numbers.extend(measurement_numbers(measured));
                }
                self.record_item(kind, &item, numbers, reason);
            }
            for other in taken.iter().filter(|other| other.id != id) {
                let numbers = vec![("size_bytes", other.size_bytes as f64)];
                let reason = "the first rows of another item take its place as the file's head";
                self.record_item(DecisionKind::Evict, other, numbers, reason);
            }
            evicted.extend(taken);
        }
        evicted
    }

    /// Makes an item of a scan that ended well: of the file's head, if no more was kept. False if there is no room for what
    /// it needs beside the rows.
    pub(crate) fn admit(&self, scan: &Arc<SharedScan>, end: &SourceEnd, is_head: bool) -> bool {
        let base = scan.base.as_ref();
        let ends_count = |morsel_count: usize| if is_head { 0 } else { morsel_count };
        // Held while small results are merged, which takes what is free.
        let (chunk_count, morsel_count) = scan.kept_counts();
        let chunk_count = chunk_count + base.map_or(0, |base| base.chunks.len());
        let held_free = self.reserve_if_free(structure_bytes(scan, chunk_count, ends_count(morsel_count)));
        let harvest = scan.harvest();
        let has_list = scan.source.unnest.is_some();
        let is_element = match &scan.source.unnest {
            Some(list) => element_columns(&scan.spec.columns, list),
            None => scan.spec.columns.iter().map(|_| false).collect(),
        };
        let (shape, widths_bytes) = shape_of(&harvest.chunks, &is_element, base.map(AsRef::as_ref));
        let began_ns = self.clock().monotonic_ns();
        let mut chunks = match base {
            Some(base) => scan.behind_base(&base.chunks, &harvest.chunks),
            None => harvest.chunks,
        };
        // What a file grew by gets the layout that its item has come to.
        let initial = base.map_or_else(|| self.layout_rule().initial(has_list), |base| base.layout);
        // Where there is no room for that, rows stay as the scan delivered them.
        if let Ok(Some(converted)) = self.converted(&chunks, initial) {
            chunks = converted;
        }
        let layout_ns = self.clock().monotonic_ns().saturating_sub(began_ns);
        let entry_count = chunks.iter().map(|chunk| chunk.content().entry_count()).sum();
        let mut positions = positions_of(scan, entry_count);
        let positions_bytes = positions.as_ref().map_or(0, |positions| positions.size_bytes() as u64);
        let bare_bytes = structure_bytes(scan, chunks.len(), ends_count(harvest.morsel_ends.len()));
        drop(held_free);
        let mut structure = self.reserve_if_free(bare_bytes + positions_bytes).filter(|_| positions_bytes > 0);
        if structure.is_none() {
            positions = None;
            structure = match is_head {
                true => self.reserve_if_free(bare_bytes),
                false => {
                    self.reserve_for(scan, KeptBytes { own_bytes: bare_bytes, lent_bytes: 0 }, MorselWork::default())
                }
            };
        }
        let Some(structure) = structure else { return false };
        let structure_bytes = structure.size_bytes();
        let sum_base = |field: fn(&Item) -> u64| base.map_or(0, |base| field(base));
        let participant_count = scan.meters.participant_count.load(Ordering::Relaxed);
        let end_bytes = scan.spec.end_bytes;
        let mut item = Item {
            id: ItemId(self.next_number()),
            source: scan.source.clone(),
            generation: scan.pinned.generation,
            end_bytes,
            // A scan by positions can't tell, but the one that found them could.
            growable: match scan.promoted.as_ref().or(scan.completed()) {
                _ if is_head => false,
                Some(known) => known.growable,
                None => end.covered_end_bytes == Some(end_bytes),
            },
            keeps_empty: scan.spec.keeps_empty,
            predicate: Arc::clone(&scan.spec.predicate),
            columns: Arc::clone(&scan.spec.columns),
            layout: chunks.first().map_or(initial, |chunk| chunk.content().layout()),
            row_count: chunks.iter().map(|chunk| chunk.content().row_count() as u64).sum(),
            record_count: harvest.record_count + sum_base(Item::record_count),
            skipped_count: harvest.skipped_count + sum_base(Item::skipped_count),
            size_bytes: structure_bytes + chunks.iter().map(|chunk| chunk.size_bytes()).sum::<u64>(),
            chunks,
            is_lazy: false,
            positions,
            map: None,
            head: harvest.borders.last().filter(|_| is_head).map(|border| border.head),
            borders: if scan.may_keep_head { harvest.borders } else { Arc::default() },
            // Morsels of positions and maps are not those of other scans.
            morsel_ends: (base.is_none() && !is_head && scan.spec.positions.is_none() && scan.spec.map.is_none())
                .then_some(harvest.morsel_ends),
            meters: Meters::default(),
            shape,
            widths_bytes,
            layouts: Mutex::new(base.map(|base| base.layouts.lock().clone()).unwrap_or_default()),
            is_converting: AtomicBool::new(false),
            mirror: Arc::default(),
            may_share: AtomicBool::new(scan.may_share()),
            structure: Arc::new(structure),
        };
        scan.meters.item_bytes.store(item.size_bytes, Ordering::Relaxed);
        let base_measured = scan.replaced().map(|replaced| replaced.measurements());
        *item.meters.execute_ns.get_mut() =
            harvest.execute_ns + base_measured.map_or(0, |measured| measured.execute_ns);
        let before_ns = scan.replaced().map_or(0, |item| item.meters.longest_scan_ns.load(Ordering::Relaxed));
        *item.meters.longest_scan_ns.get_mut() = match base {
            Some(_) => before_ns + harvest.execute_ns,
            None => before_ns.max(harvest.execute_ns),
        };
        *item.meters.cache_ns.get_mut() =
            harvest.cache_ns + layout_ns + base_measured.map_or(0, |measured| measured.cache_ns);
        if let Some(head) = item.head {
            item.meters.scale_costs(head.end_bytes as f64 / end_bytes.max(1) as f64);
        }
        *item.meters.used_tick.get_mut() = self.tick();
        *item.meters.use_count.get_mut() = participant_count + base_measured.map_or(0, |measured| measured.use_count);
        let reason = if is_head { "the first part of a finished scan" } else { "a finished scan" };
        self.list_item(scan, item, base.map(|base| base.id), reason);
        true
    }

    /// Makes a scan's item findable, its uses before added to those it has, unless it is stale or superfluous already.
    pub(crate) fn list_item(&self, scan: &SharedScan, mut item: Item, extended: Option<ItemId>, reason: &'static str) {
        let listed = {
            let mut catalog = self.catalog();
            let was_listed = catalog.remove_scan(&scan.source, scan.id).is_some();
            if !was_listed || !scan.pinned.is_current() || catalog.has_equal(scan) {
                None
            } else {
                let remembered = self.remembered_uses(&catalog, scan);
                let use_count = item.meters.use_count.get_mut();
                *use_count = (*use_count + remembered + catalog.uses_superseded(scan)).max(1);
                let baseline = self.policy().baseline_on_use(&catalog.policy_state);
                *item.meters.baseline_bits.get_mut() = baseline.to_bits();
                let item = Arc::new(item);
                let count = match &item.positions {
                    Some(positions) if item.is_lazy => ("position_count", positions.len() as f64),
                    _ => ("row_count", item.row_count as f64),
                };
                let mut numbers = vec![count, ("size_bytes", item.size_bytes as f64)];
                numbers.extend(measurement_numbers(&item.measurements()));
                self.record_item(DecisionKind::Admit, &item, numbers, reason);
                Some((catalog.insert(Arc::clone(&item), extended), item))
            }
        };
        let (superseded, item) = listed.unzip();
        scan.note_unlisted(item);
        match superseded {
            Some(superseded) => {
                for item in &superseded {
                    let numbers = vec![("size_bytes", item.size_bytes as f64)];
                    let reason = if item.predicate == scan.spec.predicate {
                        "a newer item holds all of it"
                    } else {
                        "too many items of positions of one file"
                    };
                    self.record_item(DecisionKind::Evict, item, numbers, reason);
                }
            }
            None => self.record_scan(
                DecisionKind::Abort,
                scan,
                Vec::new(),
                "when the scan ended its file had changed, or an equal item was there",
            ),
        }
    }

    /// Takes a scan off the list of those that can be joined, and says why.
    pub(crate) fn forget_scan(&self, scan: &SharedScan, reason: &'static str) {
        let forgotten = self.catalog().remove_scan(&scan.source, scan.id);
        if let Some(scan) = forgotten {
            scan.note_unlisted(None);
            self.record_scan(DecisionKind::Abort, &scan, Vec::new(), reason);
        }
    }

    /// Takes over the hashes that a scan recorded.
    ///
    /// # Errors
    /// Why the scan's rows are not to be kept.
    pub(crate) fn learn(&self, scan: &SharedScan, end: &mut SourceEnd) -> Result<(), &'static str> {
        if end.has_other_prefix {
            let reason = "the file was rewritten while a scan of it began";
            self.forget_content(scan, reason);
            return Err(reason);
        }
        let (Some(hashes), Some(record)) = (end.hashes.take(), &scan.pinned.record) else { return Ok(()) };
        let PinnedSource { generation, hashes: checked, .. } = &scan.pinned;
        let reserve = |bytes| self.reserve_if_free(bytes);
        match record.learn(*generation, hashes, checked.as_ref(), self.moments(), reserve) {
            Learned::Holds => Ok(()),
            Learned::Unknown => Err("the file grew, and another scan has read it since this one began"),
            Learned::Contradicted => {
                self.forget_content(scan, "two scans of one version read different content");
                Err("an earlier scan of the same version read other content")
            }
        }
    }

    /// What is kept of the file is of other content than a scan has read.
    pub(crate) fn forget_content(&self, scan: &SharedScan, reason: &'static str) {
        if let Some(record) = &scan.pinned.record {
            record.end_generation(scan.pinned.generation, self.moments());
        }
        self.drop_stale(&scan.source.path, reason, |generation, _| generation <= scan.pinned.generation);
    }
}

/// Queries win: what they need is taken from items first, by the policy, then from running scans, the largest first. What
/// is spare are mirrors.
impl ReclaimableCache for OperatorCache {
    fn name(&self) -> &str {
        "operator cache"
    }

    fn held_bytes(&self) -> u64 {
        self.account().reserved_bytes()
    }

    fn marginal_benefit(&self, bytes: u64) -> f64 {
        let catalog = self.catalog();
        let items = catalog.evictable(self.terms());
        let benefit = marginal_benefit(self.policy(), &self.policy_state(&catalog), &items, bytes);
        if benefit.is_finite() {
            return elapsed_bid(benefit, self.processor_count);
        }
        self.scans_s_per_byte(&catalog).unwrap_or(f64::INFINITY)
    }

    /// By all items, those in use among them: they are worth what they are, though they can't be given just now.
    fn gain(&self, bytes: u64) -> Option<f64> {
        let catalog = self.catalog();
        let items: Vec<ItemMeasurements> = catalog.items().map(|item| catalog.measured(self.terms(), item)).collect();
        let benefit = marginal_benefit(self.policy(), &self.policy_state(&catalog), &items, bytes);
        if benefit.is_finite() {
            return Some(elapsed_bid(benefit, self.processor_count));
        }
        self.scans_s_per_byte(&catalog)
    }

    fn release(&self, bytes: u64) -> u64 {
        let (evicted, scans, mapping, mut freed_bytes) = {
            let mut catalog = self.catalog();
            let items = catalog.evictable(self.terms());
            let eviction = self.policy().choose(self.policy_state(&catalog), &items, bytes);
            let freed_bytes = eviction.freed_bytes;
            let evicted = self.carry_out(&mut catalog, &eviction, &items, "a query needs the memory");
            let scans: Vec<Arc<SharedScan>> = catalog.scans().cloned().collect();
            let mapping: Vec<Arc<SharedScan>> = catalog.mapping_scans().collect();
            (evicted, scans, mapping, freed_bytes)
        };
        drop(evicted);
        let mut scans: Vec<(u64, Arc<SharedScan>)> = scans.into_iter().map(|scan| (scan.held_bytes(), scan)).collect();
        scans.sort_by_key(|(kept_bytes, _)| std::cmp::Reverse(*kept_bytes));
        for (kept_bytes, scan) in scans {
            if freed_bytes >= bytes || kept_bytes == 0 {
                break;
            }
            if scan.stop_keeping() {
                freed_bytes += kept_bytes;
                self.forget_scan(&scan, "a query needs the memory");
            }
        }
        for scan in mapping {
            if freed_bytes < bytes {
                let given_up = scan.give_up_map("a query needs the memory of its positional map");
                freed_bytes += given_up.unwrap_or(0);
            }
        }
        freed_bytes
    }

    fn release_spare(&self, bytes: u64) -> u64 {
        self.drop_mirrors(bytes)
    }
}

impl OperatorCache {
    /// What running scans have worked for each byte that they hold; None if they hold none.
    fn scans_s_per_byte(&self, catalog: &Catalog) -> Option<f64> {
        let mapping = catalog.mapping_scans();
        let mapping =
            mapping.filter_map(|scan| Some((scan.meters.execute_ns.load(Ordering::Relaxed), scan.mapping_bytes()?.1)));
        let keeping = catalog.scans().map(|scan| (scan.meters.execute_ns.load(Ordering::Relaxed), scan.held_bytes()));
        let (execute_ns, kept_bytes) = keeping
            .chain(mapping)
            .fold((0, 0), |(ns, bytes), (execute_ns, kept_bytes)| (ns + execute_ns, bytes + kept_bytes));
        (kept_bytes > 0).then(|| execute_ns as f64 * 1e-9 / self.processor_count as f64 / kept_bytes as f64)
    }

    /// Uses of a scan's select before it was asked for this time, if there is no item that has them.
    fn remembered_uses(&self, catalog: &Catalog, scan: &SharedScan) -> u64 {
        if scan.replaced().is_some() {
            return 0;
        }
        // Policies as they were published know an item's own uses alone.
        let spared = if self.divides_items() { spared_scans(scan) } else { 0 };
        catalog.remembered(&scan.source, &scan.spec.predicate).max(spared)
    }
}

/// Earlier scans that an item of all rows would have spared: its uses before it was there.
fn spared_scans(scan: &SharedScan) -> u64 {
    let earlier = scan.pinned.earlier(scan.source.unnest.as_ref());
    if scan.spec.predicate.is_all() { u64::from(earlier.scan_count.saturating_sub(1)) } else { 0 }
}

/// Where the records of a finished scan's entries lie, those of its base among them; None unless there is one for each.
fn positions_of(scan: &SharedScan, entry_count: usize) -> Option<Arc<RecordPositions>> {
    let noted = scan.take_positions().map(|(positions, ..)| positions);
    let positions = match (&scan.base, &scan.spec.positions) {
        (Some(base), _) => {
            let mut positions = RecordPositions::clone(base.positions.as_ref()?);
            positions.append(&noted?);
            positions.shrink_to_fit();
            Arc::new(positions)
        }
        (None, Some(read)) => Arc::clone(read),
        (None, None) => match (noted, &scan.spec.map) {
            (Some(noted), _) => Arc::new(noted),
            (None, Some(map)) if scan.spec.predicate.is_all() => Arc::clone(map.records()),
            (None, _) => return None,
        },
    };
    (positions.len() == entry_count).then_some(positions)
}

/// The item, its list of chunks, its predicate and columns, and its places in the indexes, about.
pub(crate) fn structure_bytes(scan: &SharedScan, chunk_count: usize, morsel_count: usize) -> u64 {
    let columns_bytes: usize =
        scan.spec.columns.iter().map(|column| column.path.heap_bytes() + column.data_type.size()).sum();
    // The predicate is a key of the index too, and a tree's node holds an entry and, shared, those above it.
    const PLACES_BYTES: usize = 512;
    (size_of::<Item>()
        + chunk_count * crate::item::Chunk::structure_bytes(scan.spec.columns.len())
        + morsel_count * size_of::<u64>()
        + scan.spec.predicate.heap_bytes()
        + columns_bytes
        + PLACES_BYTES) as u64
}

/// What was measured of the victims, in the order of `items`.
fn measured_of<'a>(victims: &[Victim], items: &'a [ItemMeasurements]) -> impl Iterator<Item = &'a ItemMeasurements> {
    let chosen: HashSet<u64> = victims.iter().map(|victim| victim.id).collect();
    items.iter().filter(move |item| chosen.contains(&item.id))
}

fn measurement_numbers(measured: &ItemMeasurements) -> [(&'static str, f64); 5] {
    [
        ("use_count", measured.use_count as f64),
        ("execute_ns", measured.execute_ns as f64),
        ("cache_ns", measured.cache_ns as f64),
        ("reuse_scan_ns", measured.reuse_scan_ns as f64),
        ("lookup_ns", measured.lookup_ns as f64),
    ]
}

fn explain_refusal(refusal: Refusal) -> (Vec<(&'static str, f64)>, &'static str) {
    match refusal {
        Refusal::LargerThanLimit { limit_bytes, .. } => {
            (vec![("limit_bytes", limit_bytes as f64)], "it would not fit into an empty cache")
        }
        Refusal::NotEnoughToEvict { needed_bytes, evictable_bytes } => (
            vec![("needed_bytes", needed_bytes as f64), ("evictable_bytes", evictable_bytes as f64)],
            "what may be evicted does not make enough room",
        ),
        Refusal::WorthLessThanVictims { newcomer_s, victims_s, victim_count } => (
            vec![("worth_s", newcomer_s), ("victims_s", victims_s), ("victim_count", victim_count as f64)],
            "the items it would displace are worth more",
        ),
    }
}

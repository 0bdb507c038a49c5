//! The cache: files are pinned here, requests answered, everything listed.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};
use thermocline_budget::{Account, Budget, Purpose, ReclaimableCache};
use thermocline_hardware::{Clock, IdleProcessors};
use thermocline_medium::FileVersion;
use thermocline_placement::operator_cache::admission_rule::AdmissionRule;
use thermocline_placement::operator_cache::layout::rule::LayoutRule;
use thermocline_placement::operator_cache::recache::ReCache;
use thermocline_placement::operator_cache::{EvictionPolicy, PolicyState};
use thermocline_predicate::Conjunction;

use crate::catalog::{Catalog, Plan};
use crate::combination::{Combination, CombinedPart, PartSummary};
use crate::cut::View;
use crate::decisions::{Decision, DecisionKind, DecisionRing, Entry};
use crate::error::CacheError;
use crate::file_record::{AppendPolicy, FileRecord, Moments, OpenedFile, PinnedSource, Stale};
use crate::item::{Item, ItemId, ItemSummary};
use crate::lazy::Promotion;
use crate::map_store::MapStore;
use crate::matching::Match;
use crate::planning::{REBUILD_REASON, scan_spec, whole_columns};
use crate::recording::Recorder;
use crate::request::{ColumnSpec, SelectRequest};
use crate::scan::{Awaited, Participant, ScanStart, SharedScan};
use crate::source::{ScanSpec, SourceFactory};

/// File records beyond which those without items are dropped.
const RECORD_COUNT: usize = 65_536;

/// How often a request is planned anew because the scan it would have joined ended meanwhile.
const PLAN_ATTEMPTS: usize = 8;

/// How a cache is made.
#[derive(Debug)]
pub struct CacheOptions {
    /// Decides what goes when room is needed.
    pub policy: &'static dyn EvictionPolicy,
    /// Decisions remembered.
    pub decision_count: usize,
    /// Is told what the cache is asked for.
    pub recorder: Option<Arc<dyn Recorder>>,
    /// Nanoseconds that the system takes to bring in a byte of fresh memory: what is kept is not used again for the
    /// next rows.
    pub fresh_ns_per_byte: f64,
    /// Processors that queries and conversions share.
    pub processor_count: usize,
    /// Keeps positional maps for later processes.
    pub map_store: Option<Arc<dyn MapStore>>,
}

impl Default for CacheOptions {
    /// ReCache's policy, 4096 decisions, nobody who records, fresh memory for nothing, one processor, maps that go with
    /// the process.
    fn default() -> Self {
        Self {
            policy: &ReCache,
            decision_count: 4096,
            recorder: None,
            fresh_ns_per_byte: 0.0,
            processor_count: 1,
            map_store: None,
        }
    }
}

/// The results of select operators over single raw files, in memory. See the crate's documentation.
pub struct OperatorCache {
    policy: &'static dyn EvictionPolicy,
    recorder: Option<Arc<dyn Recorder>>,
    pub(crate) fresh_ns_per_byte: f64,
    map_store: Option<Arc<dyn MapStore>>,
    budget: Budget,
    account: Account,
    clock: Arc<dyn Clock>,
    pub(crate) idle_processors: IdleProcessors,
    pub(crate) layout_rule: Mutex<LayoutRule>,
    pub(crate) admission_rule: Mutex<AdmissionRule>,
    files: Mutex<HashMap<Arc<str>, Arc<FileRecord>>>,
    catalog: Mutex<Catalog>,
    decisions: DecisionRing,
    moments: Moments,
    numbers: AtomicU64,
    ticks: AtomicU64,
}

/// How a request is answered.
#[derive(Debug)]
pub enum Start {
    /// By an item. Hold it while its rows are read, and tell the cache how long that took
    /// ([`OperatorCache::finish_reading`]).
    Hit {
        /// Covers the request.
        item: Arc<Item>,
        /// What must still be checked on each row.
        residual: Conjunction,
        /// What the request takes for a row.
        view: View,
        /// Whether the item's predicate is the request's.
        kind: MatchKind,
    },
    /// By several items that cover the request together, perhaps with a scan of what they lack. Every row comes once.
    /// Each item is read as for a hit.
    Combine {
        /// The items, each with the filter on its rows.
        parts: Vec<CombinedPart>,
        /// The scan of the rows that none of them has, if there are any.
        remainder: Option<Arc<Participant>>,
    },
    /// By scanning the file, perhaps together with others, perhaps only what it grew by.
    Scan(Arc<Participant>),
    /// Better once a scan that runs is over: ask again then.
    Wait(Awaited),
}

/// How an item covers a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MatchKind {
    /// Same predicate.
    Exact,
    /// A wider one.
    Subsumed,
}

/// What [`OperatorCache::begin`] would do.
#[derive(Debug, Clone)]
pub enum Explanation {
    /// Read an item.
    Hit {
        /// Which.
        item: ItemSummary,
        /// The filter on its rows.
        residual: Conjunction,
        /// Whether the item's predicate is the request's.
        kind: MatchKind,
    },
    /// Read an item and scan what its file grew by.
    Extend {
        /// Which.
        item: ItemSummary,
        /// The filter on the rows.
        residual: Conjunction,
        /// Bytes to scan.
        new_bytes: u64,
    },
    /// Scan the columns that an item lacks.
    TopUp {
        /// Which.
        item: ItemSummary,
        /// The filter on the rows.
        residual: Conjunction,
        /// The columns to scan.
        missing: Arc<[ColumnSpec]>,
    },
    /// Read several items, and scan what they lack.
    Combine {
        /// The items, each with the filter on its rows.
        parts: Vec<PartSummary>,
        /// The rows to scan.
        remainder: Option<Arc<Conjunction>>,
    },
    /// Read an item of the file's first records, and scan the others.
    Head {
        /// Which.
        item: ItemSummary,
        /// The filter on the rows.
        residual: Conjunction,
        /// Bytes to scan.
        rest_bytes: u64,
    },
    /// Read the records again whose positions an item holds, and keep their rows.
    Promote {
        /// Which.
        item: ItemSummary,
        /// The filter on the rows.
        residual: Conjunction,
        /// Records to read.
        record_count: u64,
    },
    /// Take part in a scan that runs already.
    InFlight {
        /// The scan's predicate.
        predicate: Arc<Conjunction>,
        /// The filter on its rows.
        residual: Conjunction,
    },
    /// Wait for a scan that runs, and scan what its item will lack then.
    Wait {
        /// The scan's predicate.
        predicate: Arc<Conjunction>,
        /// The scan's columns.
        columns: Arc<[ColumnSpec]>,
    },
    /// Scan the file.
    Miss {
        /// Why.
        reason: &'static str,
        /// The positional map that the scan would go by.
        map: Option<ItemId>,
    },
}

impl OperatorCache {
    /// An empty cache that reserves from `budget` and gives back to it.
    pub fn new(options: CacheOptions, budget: &Budget, clock: Arc<dyn Clock>) -> Arc<Self> {
        let cache = Arc::new(Self {
            policy: options.policy,
            recorder: options.recorder,
            fresh_ns_per_byte: options.fresh_ns_per_byte,
            map_store: options.map_store,
            budget: budget.clone(),
            account: budget.account("operator cache", Purpose::Cache),
            clock,
            idle_processors: IdleProcessors::new(options.processor_count),
            layout_rule: Mutex::default(),
            admission_rule: Mutex::default(),
            files: Mutex::new(HashMap::new()),
            catalog: Mutex::new(Catalog::default()),
            decisions: DecisionRing::new(options.decision_count),
            moments: Moments::default(),
            numbers: AtomicU64::new(0),
            ticks: AtomicU64::new(0),
        });
        let reclaimable: Arc<dyn ReclaimableCache> = Arc::clone(&cache) as Arc<dyn ReclaimableCache>;
        budget.register_cache(Arc::downgrade(&reclaimable));
        cache
    }

    /// Finds out which generation of its path an opened file belongs to, and drops what is no longer true. Do this
    /// once per query and file.
    ///
    /// Cheap as a rule; reads the file's old prefix (blocking, in parallel) when metadata can't decide. Ask on a thread
    /// that may block.
    ///
    /// # Errors
    /// When the file can't be read to check it.
    pub fn pin(&self, opened: OpenedFile<'_>, append: AppendPolicy) -> Result<PinnedSource, CacheError> {
        let version = opened.version();
        let is_young = version.is_young(self.clock.wall_ns());
        let record = self.record_for(version);
        let Some(record) = record else {
            // No room even to remember the file: this query has it alone.
            let generation = self.moments.next_generation();
            return Ok(PinnedSource { version: version.clone(), generation, hashes: None, is_young, record: None });
        };
        let pinned = record.pin(opened, append, &self.moments, self.clock.wall_ns())?;
        let generation = pinned.generation;
        match pinned.stale {
            Some(Stale::Generation(reason)) => self.drop_stale(&version.path, reason, |of, _| of != generation),
            Some(Stale::Beyond(checked_bytes)) => {
                let reason = "the file changed, and its content was only checked up to an earlier end";
                self.drop_stale(&version.path, reason, |of, end_bytes| of == generation && end_bytes > checked_bytes);
            }
            None => {}
        }
        let (version, hashes) = (version.clone(), pinned.hashes);
        Ok(PinnedSource { version, generation, hashes, is_young, record: Some(record) })
    }

    /// Answers a request: by an item, by a scan that runs, by extending an item, by several items together, or by a new
    /// scan of the file whose rows are kept if `retain` and memory allow. Never blocks on I/O; `factory` is called when
    /// the scan is first read.
    pub fn begin(
        self: &Arc<Self>,
        request: &SelectRequest,
        pinned: &PinnedSource,
        retain: bool,
        factory: SourceFactory,
    ) -> Start {
        if pinned.record.is_none() {
            return Start::Scan(self.scan_alone(request, pinned, factory));
        }
        for attempt in 0..PLAN_ATTEMPTS {
            let began_ns = self.clock.monotonic_ns();
            let mut catalog = self.catalog.lock();
            let placed = self.placed_bet(&catalog, request, pinned);
            let request = placed.as_ref();
            let plan = self.plan(&catalog, request, pinned);
            if attempt == 0 {
                catalog.note_demand(self.policy, request, self.tick());
            }
            let lookup_ns = self.clock.monotonic_ns().saturating_sub(began_ns);
            let mut parts = None;
            let (mut spec, mut start) = match plan {
                Plan::Hit(found) => {
                    let baseline = self.policy.baseline_on_use(&catalog.policy_state);
                    drop(catalog);
                    found.item.record_use(self.next_tick(), lookup_ns, baseline);
                    if !found.exact {
                        pinned.note_bet_won(request.source.unnest.as_ref());
                    }
                    self.record_hit(request, &found.item, found.exact, lookup_ns);
                    return self.hit(request, found, lookup_ns);
                }
                Plan::Join(scan) => {
                    let participant = Participant::join(&scan, &request.columns, &request.predicate);
                    drop(catalog);
                    let Some(participant) = participant else { continue };
                    self.next_tick();
                    self.expect_record(request, &scan, lookup_ns);
                    let (scanned_bytes, total_bytes) = participant.progress();
                    let numbers = vec![("scanned_bytes", scanned_bytes as f64), ("total_bytes", total_bytes as f64)];
                    self.record_scan(DecisionKind::Join, &scan, numbers, "a scan that runs computes it");
                    return Start::Scan(participant);
                }
                Plan::Wait(scan) => {
                    let Some(awaited) = Awaited::new(&scan, request) else { continue };
                    catalog.add_awaited(&request.source, awaited.columns());
                    drop(catalog);
                    let numbers = vec![("scanned_bytes", scan.meters.scanned_bytes.load(Ordering::Relaxed) as f64)];
                    self.record_scan(DecisionKind::Wait, &scan, numbers, "a scan that runs has some of its columns");
                    return Start::Wait(awaited);
                }
                Plan::Extend(item) => {
                    let spec = ScanSpec {
                        start_bytes: item.end_bytes,
                        end_bytes: pinned.end_bytes(),
                        head: None,
                        columns: Arc::clone(&item.columns),
                        predicate: Arc::clone(&item.predicate),
                        keeps_empty: item.keeps_empty,
                        hashes: pinned.hashes.clone(),
                        notes_positions: item.positions.is_some() && request.can_seek,
                        positions: None,
                        map: None,
                        makes_map: false,
                    };
                    item.record_use(self.next_tick(), lookup_ns, self.policy.baseline_on_use(&catalog.policy_state));
                    let new_bytes = spec.end_bytes - spec.start_bytes;
                    let numbers = vec![("new_bytes", new_bytes as f64), ("lookup_ns", lookup_ns as f64)];
                    self.record_item(DecisionKind::Extend, &item, numbers, "the file grew");
                    (spec, ScanStart { base: Some(item), ..ScanStart::anew(Arc::clone(&factory)) })
                }
                Plan::TopUp(mut top_up) => {
                    let (mapped, map) = self.map_for_top_up(&catalog, request, pinned, &mut top_up).unzip();
                    let item = &top_up.base;
                    let spec = ScanSpec {
                        start_bytes: 0,
                        end_bytes: pinned.end_bytes(),
                        head: None,
                        columns: Arc::clone(&top_up.columns),
                        predicate: Arc::clone(&item.predicate),
                        keeps_empty: item.keeps_empty,
                        hashes: pinned.hashes.clone(),
                        notes_positions: false,
                        positions: top_up.positions.clone().filter(|_| map.is_none()),
                        map,
                        makes_map: false,
                    };
                    item.record_use(self.next_tick(), lookup_ns, self.policy.baseline_on_use(&catalog.policy_state));
                    let (missing, wanted) = (top_up.missing.len(), request.columns.len());
                    let numbers = vec![("missing_columns", missing as f64), ("wanted_columns", wanted as f64)];
                    self.record_item(DecisionKind::TopUp, item, numbers, "an item lacks columns");
                    let start = ScanStart::anew(Arc::clone(&factory));
                    (spec, ScanStart { top_up: Some(top_up), mapped, compares_content: true, ..start })
                }
                Plan::Combine(combination) => {
                    self.use_parts(&catalog, request, &combination, lookup_ns);
                    let Some(rest) = combination.remainder_request(request) else {
                        drop(catalog);
                        return self.combined(request, combination.parts, None, lookup_ns);
                    };
                    if let Some(scan) = catalog.running_beside_items(&rest, pinned)
                        && let Some(participant) = Participant::join(&scan, &rest.columns, &rest.predicate)
                    {
                        drop(catalog);
                        self.expect_record(request, &scan, lookup_ns);
                        return self.combined(request, combination.parts, Some(participant), lookup_ns);
                    }
                    parts = Some(combination.parts);
                    let start = ScanStart { compares_content: true, ..ScanStart::anew(Arc::clone(&factory)) };
                    (scan_spec(&rest, pinned, retain, false), start)
                }
                Plan::Head(item) => {
                    item.record_use(self.next_tick(), lookup_ns, self.policy.baseline_on_use(&catalog.policy_state));
                    pinned.note_bet_won(request.source.unnest.as_ref());
                    let spec = ScanSpec { head: item.head, ..scan_spec(request, pinned, false, false) };
                    let kept_bytes = item.head.map_or(0, |head| head.end_bytes);
                    let numbers = vec![("kept_bytes", kept_bytes as f64), ("lookup_ns", lookup_ns as f64)];
                    self.record_item(DecisionKind::Head, &item, numbers, "the first part of the file is kept");
                    parts = Some(self.head_part(&item, request));
                    (spec, ScanStart { compares_content: true, ..ScanStart::anew(Arc::clone(&factory)) })
                }
                Plan::Promote(promotion) => {
                    let Promotion { item, positions, predicate, keeps_empty } = promotion;
                    let position_count = positions.len() as f64;
                    let spec = ScanSpec {
                        predicate,
                        keeps_empty,
                        notes_positions: false,
                        positions: Some(positions),
                        ..scan_spec(request, pinned, false, false)
                    };
                    item.record_use(self.next_tick(), lookup_ns, self.policy.baseline_on_use(&catalog.policy_state));
                    let numbers = vec![("position_count", position_count), ("lookup_ns", lookup_ns as f64)];
                    self.record_item(DecisionKind::Promote, &item, numbers, "positions that are asked for again");
                    (spec, ScanStart { promoted: Some(item), ..ScanStart::anew(Arc::clone(&factory)) })
                }
                Plan::Rebuild(columns) => {
                    self.next_tick();
                    let numbers = vec![("source_bytes", pinned.end_bytes() as f64), ("lookup_ns", lookup_ns as f64)];
                    let path = &request.source.path;
                    self.record(DecisionKind::Miss, None, path, &request.predicate, numbers, REBUILD_REASON);
                    let whole = whole_columns(request, columns);
                    let may_keep_head = self.may_keep_head(request, &Conjunction::all());
                    let start = ScanStart { may_keep_head, ..ScanStart::anew(Arc::clone(&factory)) };
                    (scan_spec(&whole, pinned, retain, false), start)
                }
                Plan::Miss(reason) => {
                    self.next_tick();
                    let numbers = vec![("source_bytes", pinned.end_bytes() as f64), ("lookup_ns", lookup_ns as f64)];
                    self.record(DecisionKind::Miss, None, &request.source.path, &request.predicate, numbers, reason);
                    let rule = self.admission_rule();
                    let spec = scan_spec(request, pinned, retain, true);
                    let may_turn_lazy = rule.may_be_lazy() && catalog.kept_item_count(&request.source.path) == 0;
                    let may_keep_head = self.may_keep_head(request, &spec.predicate);
                    (spec, ScanStart { may_turn_lazy, may_keep_head, ..ScanStart::anew(Arc::clone(&factory)) })
                }
            };
            let is_rest = spec.head.is_some();
            if !is_rest {
                pinned.note_scan(request.source.unnest.as_ref());
            }
            let keeps = retain && pinned.is_current() && !is_rest;
            self.place_map(&catalog, request, pinned, &mut spec, &mut start, keeps);
            if keeps && start.top_up.is_some() {
                pinned.note_bet_won(request.source.unnest.as_ref());
            }
            let is_wider = request.retain_predicate != request.predicate && spec.predicate == request.retain_predicate;
            if keeps && start.base.is_none() && is_wider {
                pinned.note_bet(request.source.unnest.as_ref());
            }
            let scan = SharedScan::new(self, &request.source, pinned, spec, start, keeps);
            // The scan of a remainder has just the rows that are wanted of it.
            let wanted = if parts.is_some() { &scan.spec.predicate } else { &request.predicate };
            let participant = Participant::first(&scan, &request.columns, wanted);
            if scan.spec.makes_map {
                catalog.add_mapping_scan(&scan);
            }
            if keeps {
                self.expect_record(request, &scan, lookup_ns);
                catalog.add_scan(scan);
            }
            drop(catalog);
            return match parts {
                Some(parts) => self.combined(request, parts, Some(participant), lookup_ns),
                None => Start::Scan(participant),
            };
        }
        Start::Scan(self.scan_alone(request, pinned, factory))
    }

    /// Answers a request from the file alone: no item is used, nothing is kept, nobody joins.
    pub fn scan_alone(
        self: &Arc<Self>,
        request: &SelectRequest,
        pinned: &PinnedSource,
        factory: SourceFactory,
    ) -> Arc<Participant> {
        let spec = scan_spec(request, pinned, false, false);
        let scan = SharedScan::new(self, &request.source, pinned, spec, ScanStart::anew(factory), false);
        Participant::first(&scan, &request.columns, &request.predicate)
    }

    /// What [`begin`](Self::begin) would do now, and why; changes nothing.
    pub fn explain(&self, request: &SelectRequest, pinned: &PinnedSource) -> Explanation {
        let catalog = self.catalog.lock();
        let summary = |item: &Item| self.summary(&catalog, item);
        let placed = self.placed_bet(&catalog, request, pinned);
        let request = placed.as_ref();
        match self.plan(&catalog, request, pinned) {
            Plan::Hit(found) => Explanation::Hit {
                item: summary(&found.item),
                residual: found.item.predicate.residual(&request.predicate),
                kind: if found.exact { MatchKind::Exact } else { MatchKind::Subsumed },
            },
            Plan::Join(scan) => Explanation::InFlight {
                predicate: Arc::clone(&scan.spec.predicate),
                residual: scan.spec.predicate.residual(&request.predicate),
            },
            Plan::Wait(scan) => Explanation::Wait {
                predicate: Arc::clone(&scan.spec.predicate),
                columns: Arc::clone(&scan.spec.columns),
            },
            Plan::Extend(item) => Explanation::Extend {
                item: summary(&item),
                residual: item.predicate.residual(&request.predicate),
                new_bytes: pinned.end_bytes() - item.end_bytes,
            },
            Plan::TopUp(top_up) => Explanation::TopUp {
                item: summary(&top_up.base),
                residual: top_up.base.predicate.residual(&request.predicate),
                missing: top_up.missing,
            },
            Plan::Combine(Combination { parts, remainder, .. }) => {
                let part = |part: CombinedPart| PartSummary { item: summary(&part.item), residual: part.residual };
                Explanation::Combine { parts: parts.into_iter().map(part).collect(), remainder }
            }
            Plan::Head(head) => Explanation::Head {
                item: summary(&head),
                residual: Conjunction::all().residual(&request.predicate),
                rest_bytes: head.rest_bytes(),
            },
            Plan::Promote(promotion) => Explanation::Promote {
                item: summary(&promotion.item),
                residual: promotion.predicate.residual(&request.predicate),
                record_count: promotion.positions.len() as u64,
            },
            Plan::Rebuild(columns) => {
                let whole = whole_columns(request, columns);
                let spec = scan_spec(&whole, pinned, true, false);
                let map = self.map_for(&catalog, &whole, pinned, &spec).map(|(item, _)| item.id);
                Explanation::Miss { reason: REBUILD_REASON, map }
            }
            Plan::Miss(reason) => {
                let spec = scan_spec(request, pinned, true, true);
                let map = self.map_for(&catalog, request, pinned, &spec).map(|(item, _)| item.id);
                Explanation::Miss { reason, map }
            }
        }
    }

    /// What caches may hold in all.
    pub fn limit_bytes(&self) -> u64 {
        let limit_bytes = self.budget.limit_bytes();
        self.budget.cache_limit_bytes().map_or(limit_bytes, |cache_limit_bytes| cache_limit_bytes.min(limit_bytes))
    }

    /// Drops every item, and what running scans keep. Queries go on.
    pub fn clear(&self) {
        let (items, scans, mapping): (_, _, Vec<_>) = {
            let mut catalog = self.catalog.lock();
            let (items, scans) = catalog.clear();
            (items, scans, catalog.mapping_scans().collect())
        };
        for scan in &scans {
            scan.stop_keeping();
            scan.note_unlisted();
        }
        for scan in &mapping {
            scan.forget_map();
        }
        let size_bytes: u64 = items.iter().map(|item| item.size_bytes).sum();
        let numbers = vec![("item_count", items.len() as f64), ("size_bytes", size_bytes as f64)];
        self.record(DecisionKind::Clear, None, &Arc::from(""), &Arc::default(), numbers, "asked for");
    }

    /// The items, for the table `thermocline.cache_items`.
    pub fn items(&self) -> Vec<ItemSummary> {
        let catalog = self.catalog.lock();
        let mut items: Vec<ItemSummary> = catalog.items().map(|item| self.summary(&catalog, item)).collect();
        items.sort_by_key(|item| item.id);
        items
    }

    /// The latest decisions, oldest first, for the table `thermocline.decisions`.
    pub fn decisions(&self) -> Vec<Decision> {
        self.decisions.snapshot()
    }

    /// Bytes reserved for items, running scans, file records and hashes.
    pub fn reserved_bytes(&self) -> u64 {
        self.account.reserved_bytes()
    }

    /// Notes that a combination is used: each of its items once, at the same time, for its part of the look-up.
    fn use_parts(&self, catalog: &Catalog, request: &SelectRequest, combination: &Combination, lookup_ns: u64) {
        let (tick, baseline) = (self.next_tick(), self.policy.baseline_on_use(&catalog.policy_state));
        for part in &combination.parts {
            part.item.record_use(tick, lookup_ns / combination.parts.len() as u64, baseline);
        }
        let (numbers, reason) = (combination.numbers(lookup_ns), combination.reason());
        self.record(DecisionKind::Combine, None, &request.source.path, &request.predicate, numbers, reason);
    }

    /// Starts reading a combination; each of its items is recorded as one that answered.
    fn combined(
        &self,
        request: &SelectRequest,
        parts: Vec<CombinedPart>,
        remainder: Option<Arc<Participant>>,
        lookup_ns: u64,
    ) -> Start {
        for part in &parts {
            self.record_hit(request, &part.item, false, lookup_ns / parts.len() as u64);
        }
        Start::Combine { parts, remainder }
    }

    fn hit(&self, request: &SelectRequest, found: Match, lookup_ns: u64) -> Start {
        let (kind, decision, reason) = if found.exact {
            (MatchKind::Exact, DecisionKind::Hit, "an item of the same predicate")
        } else {
            (MatchKind::Subsumed, DecisionKind::Subsume, "an item of a wider predicate")
        };
        let residual = found.item.predicate.residual(&request.predicate);
        let numbers = vec![
            ("row_count", found.item.row_count as f64),
            ("size_bytes", found.item.size_bytes as f64),
            ("lookup_ns", lookup_ns as f64),
        ];
        self.record_item(decision, &found.item, numbers, reason);
        let view = if request.source.unnest == found.item.source.unnest { View::Elements } else { View::Records };
        Start::Hit { item: found.item, residual, view, kind }
    }

    fn summary(&self, catalog: &Catalog, item: &Item) -> ItemSummary {
        let (measured, expected) = (item.measurements(), catalog.measured(self.policy, item));
        ItemSummary {
            id: item.id,
            source: item.source.clone(),
            predicate: Arc::clone(&item.predicate),
            columns: item.listed_columns(),
            end_bytes: item.head.map_or(item.end_bytes, |head| head.end_bytes),
            file_bytes: item.end_bytes,
            row_count: item.row_count,
            is_lazy: item.is_lazy,
            is_map: item.map.is_some(),
            layout: item.layout,
            chunk_count: item.chunks.len() as u64,
            size_bytes: item.size_bytes,
            use_count: measured.use_count,
            execute_ns: measured.execute_ns,
            cache_ns: measured.cache_ns,
            reuse_scan_ns: item.meters.reuse_scan_ns().unwrap_or(0),
            lookup_ns: measured.lookup_ns,
            benefit_s: self.policy.worth_s(&self.policy_state(catalog), &expected),
            score: self.policy.score(&expected),
        }
    }

    /// The record of a file, made if there is room for it.
    fn record_for(&self, version: &FileVersion) -> Option<Arc<FileRecord>> {
        let mut files = self.files.lock();
        if let Some(record) = files.get(&version.path) {
            return Some(Arc::clone(record));
        }
        if files.len() >= RECORD_COUNT {
            let unused: Vec<Arc<str>> = files
                .iter()
                .filter(|(_, record)| Arc::strong_count(record) == 1)
                .map(|(path, _)| Arc::clone(path))
                .collect();
            // The catalog's lock comes before this one.
            drop(files);
            let unused: Vec<Arc<str>> = {
                let catalog = self.catalog.lock();
                unused.into_iter().filter(|path| !catalog.has_path(path)).collect()
            };
            files = self.files.lock();
            for path in unused {
                if files.get(&path).is_some_and(|record| Arc::strong_count(record) == 1) {
                    files.remove(&path);
                }
            }
        }
        let reservation = self.account.try_reserve(FileRecord::size_bytes(version)).ok()?;
        let record = files.entry(Arc::clone(&version.path)).or_insert_with(|| Arc::new(FileRecord::new(reservation)));
        Some(Arc::clone(record))
    }

    /// Drops the items and scans of a path that are stale by generation and end.
    pub(crate) fn drop_stale(&self, path: &Arc<str>, reason: &'static str, is_stale: impl Fn(u64, u64) -> bool) {
        let (items, scans) = self.catalog.lock().remove_stale(path, is_stale);
        for scan in &scans {
            scan.stop_keeping();
            scan.note_unlisted();
            self.record_scan(DecisionKind::Invalidate, scan, Vec::new(), reason);
        }
        for item in &items {
            let numbers = vec![("size_bytes", item.size_bytes as f64), ("end_bytes", item.end_bytes as f64)];
            self.record_item(DecisionKind::Invalidate, item, numbers, reason);
        }
    }

    pub(crate) fn record_item(
        &self,
        kind: DecisionKind,
        item: &Item,
        numbers: Vec<(&'static str, f64)>,
        reason: &'static str,
    ) {
        self.record(kind, Some(item.id), &item.source.path, &item.predicate, numbers, reason);
    }

    pub(crate) fn record_scan(
        &self,
        kind: DecisionKind,
        scan: &SharedScan,
        numbers: Vec<(&'static str, f64)>,
        reason: &'static str,
    ) {
        self.record(kind, None, &scan.source.path, &scan.spec.predicate, numbers, reason);
    }

    fn record(
        &self,
        kind: DecisionKind,
        item_id: Option<ItemId>,
        path: &Arc<str>,
        predicate: &Arc<Conjunction>,
        numbers: Vec<(&'static str, f64)>,
        reason: &'static str,
    ) {
        let (path, predicate) = (Arc::clone(path), Some(Arc::clone(predicate)));
        self.decisions.record(self.clock.wall_ns(), Entry { kind, item_id, path, predicate, numbers, reason });
    }

    pub(crate) fn catalog(&self) -> MutexGuard<'_, Catalog> {
        self.catalog.lock()
    }

    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    pub(crate) fn policy(&self) -> &dyn EvictionPolicy {
        self.policy
    }

    pub(crate) fn recorder(&self) -> Option<&dyn Recorder> {
        self.recorder.as_deref()
    }

    pub(crate) fn map_store(&self) -> Option<&dyn MapStore> {
        self.map_store.as_deref()
    }

    pub(crate) fn budget(&self) -> &Budget {
        &self.budget
    }

    pub(crate) fn account(&self) -> &Account {
        &self.account
    }

    pub(crate) fn moments(&self) -> &Moments {
        &self.moments
    }

    /// A number that no item, scan or participant of this cache has.
    pub(crate) fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// What the policy remembers, at the present time.
    pub(crate) fn policy_state(&self, catalog: &Catalog) -> PolicyState {
        PolicyState { now: self.tick(), ..catalog.policy_state }
    }

    /// The logical time: requests so far, about.
    pub(crate) fn tick(&self) -> u64 {
        self.ticks.load(Ordering::Relaxed)
    }

    /// Logical time of a use or another request, which is now.
    pub(crate) fn next_tick(&self) -> u64 {
        self.ticks.fetch_add(1, Ordering::Relaxed) + 1
    }
}

impl fmt::Debug for OperatorCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OperatorCache")
            .field("policy", &self.policy)
            .field("account", &self.account)
            .finish_non_exhaustive()
    }
}

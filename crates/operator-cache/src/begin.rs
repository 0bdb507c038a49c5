//! How a request is answered: the plan is carried out, and a scan begun where there is something to read.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::MutexGuard;
use thermocline_predicate::Conjunction;

use crate::cache::OperatorCache;
use crate::catalog::{Catalog, Plan};
use crate::combination::{Combination, CombinedPart};
use crate::cut::View;
use crate::decisions::DecisionKind;
use crate::file_record::PinnedSource;
use crate::item::Item;
use crate::lazy::Promotion;
use crate::matching::Match;
use crate::planning::{REBUILD_REASON, scan_spec, whole_columns};
use crate::request::{ColumnSpec, SelectRequest};
use crate::scan::{Announced, Awaited, Participant, ScanStart, SharedScan};
use crate::source::{ScanSpec, SourceFactory};
use crate::top_up::TopUp;

/// How often a request is planned anew because the scan it would have joined ended meanwhile.
const PLAN_ATTEMPTS: usize = 8;

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

/// A request that is being answered.
struct Asked<'a> {
    request: &'a SelectRequest,
    pinned: &'a PinnedSource,
    /// Whether what is scanned for it may be kept.
    retain: bool,
    factory: &'a SourceFactory,
    /// What planning took.
    lookup_ns: u64,
    /// When it was noted which columns it needs, if it was.
    noted_tick: Option<u64>,
}

impl Asked<'_> {
    fn start(&self) -> ScanStart {
        ScanStart::anew(Arc::clone(self.factory))
    }
}

/// A scan that is to begin.
struct NewScan {
    spec: ScanSpec,
    start: ScanStart,
    /// The items that answer together with it.
    parts: Option<Vec<CombinedPart>>,
}

impl NewScan {
    fn alone(spec: ScanSpec, start: ScanStart) -> Self {
        Self { spec, start, parts: None }
    }
}

impl OperatorCache {
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
        let mut may_make_room = retain && pinned.is_current();
        let mut noted_tick = None;
        for _ in 0..PLAN_ATTEMPTS {
            let began_ns = self.clock().monotonic_ns();
            let mut catalog = self.catalog();
            let placed = self.placed_bet(&catalog, request, pinned);
            let request = placed.as_ref();
            let plan = self.plan(&catalog, request, pinned);
            if may_make_room && plan.fills_cache() && self.others_may_yield() {
                may_make_room = false;
                drop(plan);
                drop(catalog);
                self.budget().make_room_for(self.as_ref());
                continue;
            }
            // Who waits asks again.
            if noted_tick.is_none() && !matches!(plan, Plan::Wait(_)) {
                let tick = self.tick();
                catalog.note_demand(self.policy(), request, tick);
                noted_tick = Some(tick);
            }
            let lookup_ns = self.clock().monotonic_ns().saturating_sub(began_ns);
            let asked = Asked { request, pinned, retain, factory: &factory, lookup_ns, noted_tick };
            let new_scan = match plan {
                Plan::Hit(found) => return self.hit(catalog, &asked, found),
                Plan::Join(scan) => match self.join(catalog, &asked, &scan) {
                    Some(start) => return start,
                    None => continue,
                },
                Plan::Wait(scan) => match self.wait(catalog, &asked, &scan) {
                    Some(start) => return start,
                    None => continue,
                },
                Plan::Combine(combination) => {
                    self.use_parts(&catalog, request, &combination, lookup_ns);
                    let Some(rest) = combination.remainder_request(request) else {
                        drop(catalog);
                        return self.combined(&asked, combination.parts, None);
                    };
                    if let Some(scan) = catalog.running_beside_items(&rest, pinned)
                        && let Some(participant) = Participant::join(&scan, &rest.columns, &rest.predicate)
                    {
                        drop(catalog);
                        self.expect_record(request, &scan, lookup_ns);
                        return self.combined(&asked, combination.parts, Some(participant));
                    }
                    let start = ScanStart { compares_content: true, ..asked.start() };
                    let spec = scan_spec(&rest, pinned, retain, false);
                    NewScan { spec, start, parts: Some(combination.parts) }
                }
                Plan::Extend(item) => self.extension(&catalog, &asked, item),
                Plan::TopUp(top_up) => self.top_up(&catalog, &asked, top_up),
                Plan::Head(item) => self.rest_of_head(&catalog, &asked, &item),
                Plan::Promote(promotion) => self.promotion(&catalog, &asked, promotion),
                Plan::Rebuild(columns) => self.rebuilding(&asked, columns),
                Plan::Miss(reason) => self.miss(&catalog, &asked, reason),
            };
            return self.start_scan(catalog, &asked, new_scan);
        }
        Start::Scan(self.scan_alone(request, pinned, factory))
    }

    /// Whether room is short and other caches hold some: pages may have taken all there is while nothing else was asked
    /// for.
    fn others_may_yield(&self) -> bool {
        self.budget().lacks_room() && self.budget().cache_reserved_bytes() > self.reserved_bytes()
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

    fn hit(&self, catalog: MutexGuard<'_, Catalog>, asked: &Asked<'_>, found: Match) -> Start {
        let Asked { request, pinned, lookup_ns, .. } = *asked;
        let baseline = self.policy().baseline_on_use(&catalog.policy_state);
        drop(catalog);
        found.item.record_use(self.next_tick(), lookup_ns, baseline);
        if !found.exact {
            pinned.note_bet_won(request.source.unnest.as_ref());
        }
        self.record_hit(request, &found.item, found.exact, lookup_ns);
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

    /// Takes part in a scan; nothing if it has ended meanwhile.
    fn join(&self, catalog: MutexGuard<'_, Catalog>, asked: &Asked<'_>, scan: &Arc<SharedScan>) -> Option<Start> {
        let participant = Participant::join(scan, &asked.request.columns, &asked.request.predicate);
        drop(catalog);
        let participant = participant?;
        self.next_tick();
        self.expect_record(asked.request, scan, asked.lookup_ns);
        let bytes = |meter: &AtomicU64| meter.load(Ordering::Relaxed) as f64;
        let (scanned, total) = (&scan.meters.scanned_bytes, &scan.meters.total_bytes);
        let numbers = vec![("scanned_bytes", bytes(scanned)), ("total_bytes", bytes(total))];
        self.record_scan(DecisionKind::Join, scan, numbers, "a scan that runs computes it");
        Some(Start::Scan(participant))
    }

    /// Waits for a scan; nothing if it has ended meanwhile.
    fn wait(&self, mut catalog: MutexGuard<'_, Catalog>, asked: &Asked<'_>, scan: &Arc<SharedScan>) -> Option<Start> {
        let awaited = Awaited::new(scan, asked.request)?;
        catalog.add_awaited(&asked.request.source, awaited.columns());
        drop(catalog);
        let numbers = vec![("scanned_bytes", scan.meters.scanned_bytes.load(Ordering::Relaxed) as f64)];
        self.record_scan(DecisionKind::Wait, scan, numbers, "a scan that runs has some of its columns");
        Some(Start::Wait(awaited))
    }

    /// The scan of what an item's file grew by.
    fn extension(&self, catalog: &Catalog, asked: &Asked<'_>, item: Arc<Item>) -> NewScan {
        let spec = ScanSpec {
            start_bytes: item.end_bytes,
            end_bytes: asked.pinned.end_bytes(),
            head: None,
            columns: Arc::clone(&item.columns),
            predicate: Arc::clone(&item.predicate),
            keeps_empty: item.keeps_empty,
            hashes: asked.pinned.hashes.clone(),
            notes_positions: item.positions.is_some() && asked.request.can_seek,
            positions: None,
            record_bytes: 0,
            map: None,
            makes_map: false,
        };
        self.use_item(catalog, &item, asked.lookup_ns);
        let new_bytes = spec.end_bytes - spec.start_bytes;
        let numbers = vec![("new_bytes", new_bytes as f64), ("lookup_ns", asked.lookup_ns as f64)];
        self.record_item(DecisionKind::Extend, &item, numbers, "the file grew");
        NewScan::alone(spec, ScanStart { base: Some(item), ..asked.start() })
    }

    /// The scan of the columns that an item lacks.
    fn top_up(&self, catalog: &Catalog, asked: &Asked<'_>, mut top_up: TopUp) -> NewScan {
        let Asked { request, pinned, .. } = *asked;
        let (mapped, map) = self.map_for_top_up(catalog, request, pinned, &mut top_up).unzip();
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
            record_bytes: item.record_bytes(),
            map,
            makes_map: false,
        };
        self.use_item(catalog, item, asked.lookup_ns);
        let (missing, wanted) = (top_up.missing.len(), request.columns.len());
        let numbers = vec![("missing_columns", missing as f64), ("wanted_columns", wanted as f64)];
        self.record_item(DecisionKind::TopUp, item, numbers, "an item lacks columns");
        let start = ScanStart { top_up: Some(top_up), mapped, compares_content: true, ..asked.start() };
        NewScan::alone(spec, start)
    }

    /// The scan of what follows a file's first part, which an item has.
    fn rest_of_head(&self, catalog: &Catalog, asked: &Asked<'_>, item: &Arc<Item>) -> NewScan {
        let Asked { request, pinned, .. } = *asked;
        self.use_item(catalog, item, asked.lookup_ns);
        pinned.note_bet_won(request.source.unnest.as_ref());
        let spec = ScanSpec { head: item.head, ..scan_spec(request, pinned, false, false) };
        let kept_bytes = item.head.map_or(0, |head| head.end_bytes);
        let numbers = vec![("kept_bytes", kept_bytes as f64), ("lookup_ns", asked.lookup_ns as f64)];
        self.record_item(DecisionKind::Head, item, numbers, "the first part of the file is kept");
        let start = ScanStart { compares_content: true, ..asked.start() };
        NewScan { spec, start, parts: Some(self.head_part(item, request)) }
    }

    /// The scan of the records whose positions an item has.
    fn promotion(&self, catalog: &Catalog, asked: &Asked<'_>, promotion: Promotion) -> NewScan {
        let Promotion { item, positions, predicate, keeps_empty } = promotion;
        let position_count = positions.len() as f64;
        let spec = ScanSpec {
            predicate,
            keeps_empty: keeps_empty && !asked.pinned.has_unreadable(),
            notes_positions: false,
            positions: Some(positions),
            record_bytes: item.record_bytes(),
            ..scan_spec(asked.request, asked.pinned, false, false)
        };
        self.use_item(catalog, &item, asked.lookup_ns);
        let numbers = vec![("position_count", position_count), ("lookup_ns", asked.lookup_ns as f64)];
        self.record_item(DecisionKind::Promote, &item, numbers, "positions that are asked for again");
        NewScan::alone(spec, ScanStart { promoted: Some(item), ..asked.start() })
    }

    /// The scan that makes an item of these whole columns anew.
    fn rebuilding(&self, asked: &Asked<'_>, columns: Arc<[ColumnSpec]>) -> NewScan {
        let request = asked.request;
        self.note_miss(asked, REBUILD_REASON);
        let whole = whole_columns(request, columns);
        let may_keep_head = self.may_keep_head(request, &Conjunction::all());
        let start = ScanStart { may_keep_head, ..asked.start() };
        NewScan::alone(scan_spec(&whole, asked.pinned, asked.retain, false), start)
    }

    /// The scan of a file of which nothing that is kept helps.
    fn miss(&self, catalog: &Catalog, asked: &Asked<'_>, reason: &'static str) -> NewScan {
        let request = asked.request;
        self.note_miss(asked, reason);
        let spec = scan_spec(request, asked.pinned, asked.retain, true);
        let may_turn_lazy = self.admission_rule().may_be_lazy() && catalog.kept_item_count(&request.source.path) == 0;
        let may_keep_head = self.may_keep_head(request, &spec.predicate);
        NewScan::alone(spec, ScanStart { may_turn_lazy, may_keep_head, ..asked.start() })
    }

    fn note_miss(&self, asked: &Asked<'_>, reason: &'static str) {
        self.next_tick();
        let numbers = vec![("source_bytes", asked.pinned.end_bytes() as f64), ("lookup_ns", asked.lookup_ns as f64)];
        let request = asked.request;
        self.record(DecisionKind::Miss, None, &request.source.path, &request.predicate, numbers, reason);
    }

    /// Begins a scan and lists it for others, if its rows are kept.
    fn start_scan(
        self: &Arc<Self>,
        mut catalog: MutexGuard<'_, Catalog>,
        asked: &Asked<'_>,
        NewScan { mut spec, mut start, parts }: NewScan,
    ) -> Start {
        let Asked { request, pinned, retain, lookup_ns, noted_tick, .. } = *asked;
        let is_rest = spec.head.is_some();
        // What is read beside kept rows was needed as far as these are.
        let demanded = noted_tick.filter(|_| parts.is_none()).map(|tick| (Arc::clone(&request.columns), tick));
        start.announced = Announced { is_counted: !is_rest, is_bet: false, demand: demanded };
        if !is_rest {
            pinned.note_scan(request.source.unnest.as_ref());
        }
        let keeps = retain && pinned.is_current() && !is_rest;
        if keeps {
            self.place_beside(&catalog, request, pinned, &mut spec, &mut start);
        }
        self.place_map(&catalog, request, pinned, &mut spec, &mut start, keeps);
        if keeps && start.top_up.as_ref().is_some_and(TopUp::completes) {
            pinned.note_bet_won(request.source.unnest.as_ref());
        }
        let is_wider = request.retain_predicate != request.predicate && spec.predicate == request.retain_predicate;
        if keeps && start.base.is_none() && is_wider {
            pinned.note_bet(request.source.unnest.as_ref());
            start.announced.is_bet = true;
        }
        // Now that it is settled what is read.
        start.own_share = own_share(request, &spec, &start, is_wider);
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
        match parts {
            Some(parts) => self.combined(asked, parts, Some(participant)),
            None => Start::Scan(participant),
        }
    }

    fn use_item(&self, catalog: &Catalog, item: &Item, lookup_ns: u64) {
        item.record_use(self.next_tick(), lookup_ns, self.policy().baseline_on_use(&catalog.policy_state));
    }

    /// Notes that a combination is used: each of its items once, at the same time, for its part of the look-up.
    fn use_parts(&self, catalog: &Catalog, request: &SelectRequest, combination: &Combination, lookup_ns: u64) {
        let (tick, baseline) = (self.next_tick(), self.policy().baseline_on_use(&catalog.policy_state));
        for part in &combination.parts {
            part.item.record_use(tick, lookup_ns / combination.parts.len() as u64, baseline);
        }
        let (numbers, reason) = (combination.numbers(lookup_ns), combination.reason());
        self.record(DecisionKind::Combine, None, &request.source.path, &request.predicate, numbers, reason);
    }

    /// Starts reading a combination; each of its items is recorded as one that answered.
    fn combined(&self, asked: &Asked<'_>, parts: Vec<CombinedPart>, remainder: Option<Arc<Participant>>) -> Start {
        for part in &parts {
            self.record_hit(asked.request, &part.item, false, asked.lookup_ns / parts.len() as u64);
        }
        Start::Combine { parts, remainder }
    }
}

/// Of a scan's work the part that what is asked for would be alone; 0 if that can't be told.
fn own_share(request: &SelectRequest, spec: &ScanSpec, start: &ScanStart, is_wider: bool) -> f64 {
    let is_of_all_columns = start.base.is_none() && start.top_up.is_none() && spec.positions.is_none();
    match is_of_all_columns {
        false => 0.0,
        true if spec.predicate == request.predicate && spec.columns == request.columns => 1.0,
        true if is_wider => request.retain_expectation.own_share,
        true => 0.0,
    }
}

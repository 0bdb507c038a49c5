//! Lazy items: where the records of a select lie in the file, instead of their rows.
//!
//! **Owns**: the choice between rows and positions while a scan runs, room for positions, making a lazy item of a scan,
//! and how a lazy item answers a request: its records are read again, their rows kept, and these take its place.
//! **Does not own**: the rule
//! ([`AdmissionRule`](thermocline_placement::operator_cache::admission_rule::AdmissionRule)), the positions of a
//! running scan (`scan::gathering`), reading records by position (the source).
//!
//! **Invariants**: a lazy item's positions are those of all records that give rows under its predicate (or, where it
//! keeps empty records, of all that satisfy it) in the first `end_bytes` bytes of its generation. Columns don't matter,
//! so long as no record is bad for one column and good for another: where bad records are left out, none are made or
//! used.
//!
//! **Paper**: ReCache (PVLDB 2017) §5.2. Deviations: a scan whose rows find no room keeps positions too, if these do;
//! once it goes lazy nobody can join it; a narrower request promotes an item as an equal one does; the paper weighs what
//! caching takes against the time of the whole query (`t_o`), which a scan does not know: here it is against the scan's
//! own time, so that caching looks dearer, and files are kept lazily more readily, where much is done with the rows.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use thermocline_placement::operator_cache::admission_rule::AdmissionRule;
use thermocline_placement::operator_cache::eagerness::{CachingSample, Eagerness, EarlierUse, QueryTimes};
use thermocline_placement::operator_cache::extrapolate::{DEFAULT_MARGIN, Progress};
use thermocline_predicate::Conjunction;
use thermocline_raw::RecordPositions;

use crate::admission::{Prospect, is_sampled, structure_bytes};
use crate::cache::OperatorCache;
use crate::conversion::shape_of;
use crate::decisions::DecisionKind;
use crate::item::{Item, ItemId, Meters};
use crate::request::SelectRequest;
use crate::rows::ColumnRoute;
use crate::scan::{MorselWork, Noted, SharedScan, SoFar};
use crate::source::SourceEnd;

/// How a lazy item answers a request.
#[derive(Debug, Clone)]
pub(crate) struct Promotion {
    pub(crate) item: Arc<Item>,
    pub(crate) positions: Arc<RecordPositions>,
    /// The rows to read and keep: the item's, or the request's where what tells them apart is no column.
    pub(crate) predicate: Arc<Conjunction>,
    pub(crate) keeps_empty: bool,
}

impl Promotion {
    /// None when `item` is not lazy, or lacks a record that the request wants.
    pub(crate) fn of(item: &Arc<Item>, request: &SelectRequest) -> Option<Self> {
        let positions = Arc::clone(item.positions.as_ref()?);
        if request.may_skip || !request.can_seek || !item.predicate.covers(&request.predicate) {
            return None;
        }
        let residual = item.predicate.residual(&request.predicate);
        let can_filter = residual.fields().all(|(path, _)| ColumnRoute::find(&request.columns, path).is_some())
            && request.has_fields_of(&item.predicate);
        let predicate = Arc::clone(if can_filter { &item.predicate } else { &request.predicate });
        let is_of_records = request
            .source
            .unnest
            .as_ref()
            .is_none_or(|list| !predicate.fields().any(|(path, _)| path.starts_with(list)));
        let keeps_empty = item.keeps_empty && is_of_records;
        Some(Self { item: Arc::clone(item), positions, predicate, keeps_empty })
    }
}

impl OperatorCache {
    /// What decides between rows and positions.
    pub fn admission_rule(&self) -> AdmissionRule {
        *self.admission_rule.lock()
    }

    /// Changes the rule for all sessions; scans that run go on under it.
    pub fn set_admission_rule(&self, rule: AdmissionRule) {
        *self.admission_rule.lock() = rule;
    }

    /// Once a sample of a scan that notes positions is there: whether it keeps on keeping rows.
    pub(crate) fn choose_eagerness(&self, scan: &Arc<SharedScan>) {
        let meters = &scan.meters;
        let load = Ordering::Relaxed;
        if !scan.may_turn_lazy || meters.chosen.load(load) || scan.noted().is_none() {
            return;
        }
        let progress =
            Progress { scanned_bytes: meters.decoded_bytes.load(load), total_bytes: meters.total_bytes.load(load) };
        if !is_sampled(progress) || meters.chosen.swap(true, load) {
            return;
        }
        let (execute_ns, cache_ns) = (meters.execute_ns.load(load), meters.cache_ns.load(load));
        // Rows that stay leave none of their memory to the next ones, whose decoding then waits for fresh pages.
        let fresh_ns = (meters.kept_bytes.load(load) as f64 * self.fresh_ns_per_byte) as u64;
        let end = QueryTimes {
            overall_ns: execute_ns.saturating_add(cache_ns),
            caching_ns: cache_ns.saturating_add(fresh_ns.min(execute_ns)),
        };
        let sample = CachingSample { begin: QueryTimes::default(), end, progress };
        let kept_item_count = self.catalog().kept_item_count(&scan.source.path);
        let earlier = EarlierUse { kept_item_count, history: *meters.worth.lock() };
        let decided = self.admission_rule().decide(&earlier, Some(&sample));
        if let Some(Eagerness::Lazy { at_end, overhead, threshold }) = decided {
            let numbers = vec![
                ("overhead", overhead),
                ("threshold", threshold),
                ("overall_ns", at_end.overall_ns as f64),
                ("caching_ns", at_end.caching_ns as f64),
            ];
            self.turn_lazy(scan, numbers, "keeping rows of a file that nobody asked for before costs too much");
        }
    }

    /// Has a scan drop its rows and keep positions alone, if it may, gathers any, and they find room. False when it
    /// kept no rows, or no positions: then nothing changed.
    pub(crate) fn turn_lazy(
        &self,
        scan: &Arc<SharedScan>,
        mut numbers: Vec<(&'static str, f64)>,
        reason: &'static str,
    ) -> bool {
        scan.meters.chosen.store(true, Ordering::Relaxed);
        let Some((noted, reserved_bytes)) = scan.noted().filter(|_| scan.may_turn_lazy) else { return false };
        let kept_bytes = scan.meters.kept_bytes.load(Ordering::Relaxed);
        if !scan.keep_positions() {
            return false;
        }
        numbers.extend([("kept_bytes", kept_bytes as f64), ("positions_bytes", noted.size_bytes as f64)]);
        self.record_scan(DecisionKind::Lazy, scan, numbers, reason);
        if !self.weigh_positions(scan, noted, reserved_bytes, 0, MorselWork::default()) {
            scan.give_up_positions("no memory for its records' positions");
        }
        true
    }

    /// Evicts what is worth less than a scan's positions, so many bytes more of them than were noted. False when that
    /// makes no room.
    pub(crate) fn make_room_for_positions(
        &self,
        scan: &Arc<SharedScan>,
        incoming_bytes: u64,
        morsel: MorselWork,
    ) -> bool {
        let Some((noted, reserved_bytes)) = scan.noted() else { return false };
        self.weigh_positions(scan, noted, reserved_bytes, incoming_bytes, morsel)
    }

    fn weigh_positions(
        &self,
        scan: &Arc<SharedScan>,
        noted: Noted,
        reserved_bytes: u64,
        incoming_bytes: u64,
        morsel: MorselWork,
    ) -> bool {
        let SoFar { progress, execute_ns, .. } = scan.meters.so_far(morsel);
        // Twice, for they are laid together at the end.
        let so_far_bytes = 2 * (noted.size_bytes + incoming_bytes);
        let whole_bytes = progress.whole_bytes(so_far_bytes, DEFAULT_MARGIN).unwrap_or(so_far_bytes);
        let execute_ns = progress.whole_ns(execute_ns).unwrap_or(execute_ns);
        let prospect = Prospect {
            size_bytes: whole_bytes.saturating_add(structure_bytes(scan, 0, 0)),
            held_bytes: reserved_bytes,
            execute_ns,
            cache_ns: 0,
            reuse_scan_ns: reading_ns(execute_ns, noted),
        };
        let weighed = self.weigh(scan, &prospect, "room for positions of a running scan");
        if let Err((_, use_count)) = weighed
            && !scan.is_keeping()
        {
            self.remember_once(scan, use_count);
        }
        weighed.is_ok()
    }

    /// Makes a lazy item of a scan that ended well.
    pub(crate) fn admit_lazy(&self, scan: &Arc<SharedScan>, end: &SourceEnd) {
        let Some((positions, noted, reservation)) = scan.take_positions() else {
            return self.forget_scan(scan, "positions of some of its records are missing");
        };
        let size_bytes = structure_bytes(scan, 0, 0) + positions.size_bytes() as u64;
        if reservation.resize(size_bytes).is_err() {
            return self.forget_scan(scan, "no room for the item's structure");
        }
        let end_bytes = scan.spec.end_bytes;
        let meters = &scan.meters;
        let execute_ns = meters.execute_ns.load(Ordering::Relaxed);
        // Of no rows.
        let (shape, widths_bytes) = shape_of(&[], &[], None);
        let mut item = Item {
            id: ItemId(self.next_number()),
            source: scan.source.clone(),
            generation: scan.pinned.generation,
            end_bytes,
            growable: end.covered_end_bytes == Some(end_bytes),
            keeps_empty: scan.spec.keeps_empty,
            predicate: Arc::clone(&scan.spec.predicate),
            columns: Arc::clone(&scan.spec.columns),
            layout: self.layout_rule().initial(scan.source.unnest.is_some()),
            row_count: 0,
            record_count: noted.record_count,
            skipped_count: 0,
            size_bytes,
            chunks: Vec::new(),
            is_lazy: true,
            positions: Some(Arc::new(positions)),
            map: None,
            head: None,
            borders: Arc::default(),
            morsel_ends: None,
            meters: Meters::default(),
            shape,
            widths_bytes,
            layouts: Mutex::default(),
            is_converting: AtomicBool::new(false),
            mirror: Arc::default(),
            may_share: AtomicBool::new(false),
            structure: Arc::new(reservation),
        };
        *item.meters.execute_ns.get_mut() = execute_ns;
        *item.meters.predicted_scan_ns.get_mut() = reading_ns(execute_ns, noted).max(1);
        *item.meters.used_tick.get_mut() = self.tick();
        // This use is among those remembered if the rows were turned away.
        let is_counted = u64::from(meters.remembered.load(Ordering::Relaxed));
        *item.meters.use_count.get_mut() = meters.participant_count.load(Ordering::Relaxed).saturating_sub(is_counted);
        self.list_item(scan, item, None, "positions of a finished scan");
    }
}

/// Time to read the records again, as part of that for reading all.
fn reading_ns(execute_ns: u64, noted: Noted) -> u64 {
    (execute_ns as f64 * (noted.position_count as f64 / noted.record_count.max(1) as f64)) as u64
}

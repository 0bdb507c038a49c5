//! Telling somebody what the cache was asked for, so that other policies and memories can be tried on it later.
//!
//! Owns what a request looks like from outside: its figures and fingerprints. Does not own the trace's text
//! (`placement`) nor where it goes (the [`Recorder`]).
//!
//! An answer from an item is recorded when it is given, one from several as one from each; its figures are the item's
//! so far. A scan is recorded when it ends well, once for each query that took part. Scans that end before their file
//! does, and requests that may not use the cache, are not recorded.

use std::fmt::Debug;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::Ordering;

use thermocline_placement::operator_cache::extrapolate::Progress;
use thermocline_placement::operator_cache::trace::{Answered, Request};
use thermocline_predicate::Conjunction;

use crate::cache::OperatorCache;
use crate::item::{Item, predicted_scan_ns};
use crate::request::SelectRequest;
use crate::scan::SharedScan;
use crate::source::SourceKey;

/// Takes down what a cache was asked for.
pub trait Recorder: Debug + Send + Sync {
    /// Whether anybody wants to know; asked before a request is put together.
    fn is_on(&self) -> bool;

    /// One request, answered. Called without locks of the cache, from any thread.
    fn record(&self, request: &Request);
}

/// Equal for equal predicates over the same content, whatever the columns: an item that lacks some is topped up, and is
/// the same item then. For others equal too with a chance of 2⁻⁶⁴.
fn fingerprint(source: &SourceKey, generation: u64, predicate: &Conjunction) -> u64 {
    let mut hasher = DefaultHasher::new();
    (source, generation, predicate).hash(&mut hasher);
    hasher.finish()
}

impl OperatorCache {
    fn is_recording(&self) -> bool {
        self.recorder().is_some_and(|recorder| recorder.is_on())
    }

    /// Notes an answer from an item.
    pub(crate) fn record_hit(&self, request: &SelectRequest, item: &Item, is_exact: bool, lookup_ns: u64) {
        if !self.is_recording() {
            return;
        }
        let measured = item.measurements();
        self.record_request(&Request {
            wall_ns: self.wall_ns(),
            answered: if is_exact { Answered::Hit } else { Answered::Subsumed },
            source: request.source.path.clone(),
            kind: measured.kind,
            item: fingerprint(&item.source, item.generation, &item.predicate),
            asked: fingerprint(&request.source, item.generation, &request.predicate),
            size_bytes: measured.size_bytes,
            execute_ns: measured.execute_ns,
            cache_ns: measured.cache_ns,
            reuse_scan_ns: measured.reuse_scan_ns,
            lookup_ns,
        });
    }

    /// Notes that a query takes part in a scan that keeps its rows, so that it is recorded when the scan ends.
    pub(crate) fn expect_record(&self, request: &SelectRequest, scan: &SharedScan, lookup_ns: u64) {
        if self.is_recording() {
            let generation = scan.pinned.generation;
            let asked = fingerprint(&request.source, generation, &request.predicate);
            scan.askers.lock().push((asked, lookup_ns));
        }
    }

    /// Notes what those asked for who took part in a scan that ended well, whether its rows were kept or not.
    pub(crate) fn record_askers(&self, scan: &SharedScan) {
        let askers = std::mem::take(&mut *scan.askers.lock());
        if askers.is_empty() || !self.is_recording() {
            return;
        }
        let meters = &scan.meters;
        let scanned_ns = meters.execute_ns.load(Ordering::Relaxed);
        let base = scan.replaced().map(|base| base.measurements());
        let sum = |own: u64, of_base: Option<u64>| own.saturating_add(of_base.unwrap_or(0));
        let size_bytes = meters.item_bytes.load(Ordering::Relaxed);
        let reuse_scan_ns = predicted_scan_ns(size_bytes);
        let first = if base.is_some() { Answered::Extended } else { Answered::Missed };
        for (index, (asked, lookup_ns)) in askers.into_iter().enumerate() {
            let answered = if index == 0 { first } else { Answered::Joined };
            self.record_request(&Request {
                wall_ns: self.wall_ns(),
                answered,
                source: scan.source.path.clone(),
                kind: scan.source.kind,
                item: fingerprint(&scan.source, scan.pinned.generation, &scan.spec.predicate),
                asked,
                size_bytes,
                execute_ns: sum(scanned_ns, base.map(|base| base.execute_ns)),
                cache_ns: sum(meters.cache_ns.load(Ordering::Relaxed), base.map(|base| base.cache_ns)),
                // With the item at hand, what it lacked was to be scanned all the same.
                reuse_scan_ns: reuse_scan_ns.saturating_add(if base.is_some() { scanned_ns } else { 0 }),
                lookup_ns,
            });
        }
    }

    fn record_request(&self, request: &Request) {
        if let Some(recorder) = self.recorder() {
            recorder.record(request);
        }
    }

    fn wall_ns(&self) -> u64 {
        u64::try_from(self.clock().wall_ns()).unwrap_or(0)
    }
}

/// What a scan that stops keeping would have kept, from what it kept so far.
pub(crate) fn estimated_bytes(kept_bytes: u64, decoded_bytes: u64, total_bytes: u64) -> u64 {
    Progress { scanned_bytes: decoded_bytes, total_bytes }.whole_bytes(kept_bytes, 0.0).unwrap_or(kept_bytes)
}

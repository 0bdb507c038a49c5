//! Scans for queries to come, made when no query wants anything.
//!
//! **Owns**: whether such a scan is of use now, and starting it. **Does not own**: when nothing else is to be done, nor
//! whether it is worth anybody's while
//! ([`WideningRule`](thermocline_placement::operator_cache::widening::WideningRule); the caller asks it).
//!
//! The scan is like any other: queries that come while it runs take part in it, what it keeps is judged and bounded by
//! memory, and it counts as a bet that is lost until some query makes use of it.
//!
//! **Paper**: beyond ReCache, in which a query pays for all that is kept.

use std::sync::Arc;

use crate::cache::OperatorCache;
use crate::catalog::Plan;
use crate::decisions::DecisionKind;
use crate::file_record::PinnedSource;
use crate::planning::scan_spec;
use crate::request::SelectRequest;
use crate::scan::{Participant, ScanStart, SharedScan};
use crate::source::SourceFactory;

impl OperatorCache {
    /// Begins a scan of what `request` asks for, so that it is kept for those who ask next. Nothing happens before the
    /// participant's streams are read, and all of it is undone when they are dropped before their end. None when there
    /// is nothing to be done: rows that answer the request are kept, or a scan computes them.
    pub fn scan_ahead(
        self: &Arc<Self>,
        request: &SelectRequest,
        pinned: &PinnedSource,
        factory: SourceFactory,
    ) -> Option<Arc<Participant>> {
        if !pinned.is_current() || pinned.has_unreadable() {
            return None;
        }
        let mut catalog = self.catalog();
        if matches!(catalog.plan(request, pinned), Plan::Hit(_) | Plan::Join(_)) {
            return None;
        }
        let (mut spec, mut start) = (scan_spec(request, pinned, true, true), ScanStart::anew(factory));
        self.place_map(&catalog, request, pinned, &mut spec, &mut start, true);
        pinned.note_bet(request.source.unnest.as_ref());
        start.announced.is_bet = true;
        let scan = SharedScan::new(self, &request.source, pinned, spec, start, true);
        let numbers = vec![("source_bytes", pinned.end_bytes() as f64)];
        self.record_scan(DecisionKind::ScanAhead, &scan, numbers, "nothing else is to be done");
        let participant = Participant::first(&scan, &request.columns, &request.predicate);
        if scan.spec.makes_map {
            catalog.add_mapping_scan(&scan);
        }
        catalog.add_scan(scan);
        Some(participant)
    }
}

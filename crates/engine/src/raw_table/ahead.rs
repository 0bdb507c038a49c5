//! Keeping whole columns of a file after a query that asked for some of their rows, while nothing else is to be done.
//!
//! **Owns**: the scan that does it, step by step. **Does not own**: whether it is worth it ([`super::estimates`]), when
//! ([`crate::idle_work`]), what becomes of its rows (the operator cache).
//!
//! Nobody waits for it, so nobody hears of its errors either: then nothing is kept, and the next query meets them
//! itself.

use std::sync::Arc;

use futures::StreamExt;
use futures::executor::block_on;
use thermocline_operator_cache::SelectRequest;
use thermocline_predicate::Conjunction;

use super::listing::QueryFile;
use super::scan_run::Scan;
use super::source;
use crate::idle_work::IdleWork;
use crate::query::QueryContext;

/// See the module.
pub(super) struct ScanAhead {
    scan: Arc<Scan>,
    file: Arc<QueryFile>,
    request: SelectRequest,
}

impl ScanAhead {
    /// Of the columns of `request`, all rows.
    pub(super) fn new(scan: &Arc<Scan>, file: &Arc<QueryFile>, request: &SelectRequest) -> Self {
        let all: Arc<Conjunction> = Arc::default();
        let request = SelectRequest {
            predicate: Arc::clone(&all),
            retain_predicate: Arc::clone(&all),
            may_wait: false,
            ..request.clone()
        };
        // Its progress is nobody's.
        let context = Arc::new(QueryContext::default());
        let scan = Scan { predicate: all, context, ..Scan::clone(scan) };
        Self { scan: Arc::new(scan), file: Arc::clone(file), request }
    }

    /// Has it done in time.
    pub(super) fn submit(self) {
        let idle_work = Arc::clone(self.scan.database.idle_work());
        idle_work.submit(Box::new(move |idle| self.run(idle)));
    }

    fn run(self, idle: &IdleWork) {
        if !idle.wait() {
            return;
        }
        let Some(pinned) = self.file.pinned.get() else { return };
        let factory = source::factory(Arc::clone(&self.scan), Arc::clone(&self.file));
        let Some(participant) = self.scan.database.cache().scan_ahead(&self.request, pinned, factory) else { return };
        let mut rows = participant.stream();
        while idle.go_on() && matches!(block_on(rows.next()), Some(Ok(delivered)) if !delivered.is_own()) {}
    }
}

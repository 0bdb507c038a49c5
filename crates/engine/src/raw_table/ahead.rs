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
        let request =
            SelectRequest { predicate: Arc::clone(&all), retain_predicate: all, may_wait: false, ..request.clone() };
        Self { scan: Arc::new(of_one_file(scan, file)), file: Arc::clone(file), request }
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

/// The scan of all rows of one of the files of `scan`: the others are not held open while it waits.
fn of_one_file(scan: &Scan, file: &Arc<QueryFile>) -> Scan {
    // Its progress is nobody's.
    let context = Arc::new(QueryContext::default());
    Scan { predicate: Arc::default(), context, files: Arc::from([Arc::clone(file)]), ..Scan::clone(scan) }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use datafusion::arrow::datatypes::Schema;
    use thermocline_medium::Access;

    use super::super::listing::open_files;
    use super::super::options::{FileFormat, TableOptions};
    use super::*;
    use crate::database::{Database, DatabaseOptions};

    #[test]
    fn what_waits_holds_one_file_open() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a.csv", "b.csv"] {
            std::fs::write(folder.path().join(name), "k\n1\n").unwrap();
        }
        let options = DatabaseOptions { memory_bytes: Some(64 << 20), threads: Some(1), ..DatabaseOptions::default() };
        let database = Database::open(options).unwrap();
        let context = QueryContext::default();
        let locations = [format!("{}/*.csv", folder.path().display())];
        let csv = Some(FileFormat::Csv);
        let access = Access::everything();
        let (format, files) = block_on(open_files(&locations, csv, &access, &database, &context)).unwrap();
        let (file, other) = (Arc::clone(&files[0]), Arc::downgrade(&files[1]));
        let scan = Scan {
            config: database.default_config(),
            database,
            options: TableOptions::default(),
            format,
            table_schema: Arc::new(Schema::empty()),
            csv: None,
            files,
            unnest: None,
            predicate: Arc::default(),
            predicate_types: Vec::new(),
            record_bytes: 1,
            context: Arc::new(context),
        };
        let waiting = of_one_file(&scan, &file);
        drop(scan);
        assert_eq!((waiting.files.len(), other.upgrade().is_none()), (1, true));
    }
}

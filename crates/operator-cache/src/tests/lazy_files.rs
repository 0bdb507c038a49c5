//! Lazy items of real NDJSON files, scanned and read by position by the real scanner, while the files change.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use tempfile::TempDir;
use thermocline_budget::Budget;
use thermocline_hardware::{Clock, ManualClock, SystemClock};
use thermocline_medium::{Compression, HashRecorder, PinnedFile};
use thermocline_predicate::Conjunction;
use thermocline_raw::{Column, FileScan, Format, ScanPlan, Source};

use super::fake::{a_of, answer, between, expected, request, told};
use super::files::require_unchanged_or_grown;
use crate::*;

/// Three morsels and more.
const RECORDS: u64 = 30_000;

pub(super) struct Ndjson {
    scan: FileScan,
    recorder: Option<Arc<HashRecorder>>,
    spec: ScanSpec,
    file: Arc<PinnedFile>,
}

impl Ndjson {
    pub(super) fn open(file: &Arc<PinnedFile>, spec: &ScanSpec) -> Result<Self, SourceError> {
        let columns = spec.columns.iter();
        let columns =
            columns.map(|column| Column { path: column.path.clone(), data_type: column.data_type.clone() }).collect();
        let plan = ScanPlan {
            predicate: spec.predicate.as_ref().clone(),
            predicate_types: vec![Column {
                path: super::fake::path("a"),
                data_type: arrow::datatypes::DataType::Int64,
            }],
            positions: spec.notes_positions,
            map: spec.makes_map,
            ..ScanPlan::all_rows(columns)
        };
        let (source, end_bytes) = (Source::Local(Arc::clone(file)), spec.end_bytes);
        let has_hashes = spec.hashes.as_ref().is_some_and(|hashes| hashes.size_bytes() == end_bytes);
        let by_kept = spec.positions.is_some() || spec.head.is_some() || (spec.map.is_some() && has_hashes);
        let recorder = (!by_kept).then(|| {
            Arc::new(match &spec.hashes {
                Some(hashes) if spec.start_bytes > 0 => HashRecorder::after_prefix(hashes),
                _ => HashRecorder::new(),
            })
        });
        let (format, plain) = (Format::Ndjson, Compression::None);
        let scan = match (&spec.map, &spec.positions) {
            (Some(map), _) => {
                let scan = FileScan::with_map(source, Arc::clone(map), format, plan, recorder.clone())?;
                scan.without_first(spec.head.map_or(0, |head| head.record_count))
            }
            (None, Some(positions)) => FileScan::at_positions(
                source,
                Arc::clone(positions),
                spec.record_bytes,
                end_bytes,
                format,
                plain,
                plan,
            )?,
            (None, None) if spec.head.is_some() => {
                let head_bytes = spec.head.map_or(0, |head| head.end_bytes);
                FileScan::behind(source, head_bytes, end_bytes, format, plan, None, 2)?
            }
            (None, None) => {
                FileScan::new(source, spec.start_bytes, end_bytes, format, plain, plan, recorder.clone(), 2)?
            }
        };
        Ok(Self { scan, recorder, spec: spec.clone(), file: Arc::clone(file) })
    }
}

impl MorselSource for Ndjson {
    fn next_morsel(&self) -> Result<Option<Morsel>, SourceError> {
        Ok(self.scan.next_morsel()?.map(|morsel| Morsel {
            index: morsel.index,
            start_bytes: morsel.range.start,
            end_bytes: morsel.range.end,
            head_end_bytes: self.scan.head_end(&morsel),
            payload: Some(Box::new(morsel)),
        }))
    }

    fn decode(&self, morsel: Morsel) -> Result<Rows, SourceError> {
        let rows = self.scan.decode(*morsel.payload.unwrap().downcast::<thermocline_raw::Morsel>().unwrap())?;
        Ok(Rows {
            columns: rows.columns,
            elements: None,
            row_count: rows.row_count,
            record_count: rows.record_count,
            skipped_count: rows.skipped_count,
            positions: rows.positions,
            map_piece: rows.map_piece,
        })
    }

    fn total_bytes(&self) -> u64 {
        self.scan.total_bytes()
    }

    fn finish(&self) -> Result<SourceEnd, SourceError> {
        require_unchanged_or_grown(&self.file)?;
        let hashes = self.recorder.as_ref().and_then(|recorder| recorder.finish(self.spec.end_bytes));
        Ok(SourceEnd { covered_end_bytes: self.scan.covered_end(), hashes, has_other_prefix: false })
    }
}

struct Session {
    cache: Arc<OperatorCache>,
    folder: TempDir,
    scans: Arc<parking_lot::Mutex<Vec<ScanSpec>>>,
    record_count: u64,
}

impl Session {
    /// Whose clock is an hour ahead, so that files written now are old.
    fn new() -> Self {
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::new(SystemClock::new().wall_ns() + 3_600_000_000_000));
        let cache = OperatorCache::new(CacheOptions::default(), &Budget::new(64 << 20, None), clock);
        told(&cache, AdmissionMode::Lazy);
        let session =
            Self { cache, folder: tempfile::tempdir().unwrap(), scans: Arc::default(), record_count: RECORDS };
        File::create(session.path()).unwrap().write_all(text(0..RECORDS).as_bytes()).unwrap();
        session
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("records.ndjson")
    }

    fn append(&mut self, count: u64) {
        let new = self.record_count..self.record_count + count;
        OpenOptions::new().append(true).open(self.path()).unwrap().write_all(text(new).as_bytes()).unwrap();
        self.record_count += count;
    }

    /// Asks, checks the answer, and tells what was scanned for it.
    fn ask(&self, predicate: &Arc<Conjunction>) -> Option<ScanSpec> {
        let (file, pinned) = self.open();
        self.ask_pinned(file, &pinned, self.record_count, &["a", "b"], predicate)
    }

    /// The same of the text too.
    fn ask_all(&self, predicate: &Arc<Conjunction>) -> Option<ScanSpec> {
        let (file, pinned) = self.open();
        self.ask_pinned(file, &pinned, self.record_count, &["a", "b", "w"], predicate)
    }

    fn open(&self) -> (Arc<PinnedFile>, PinnedSource) {
        let file = Arc::new(PinnedFile::open(&self.path()).unwrap());
        let pinned = self.cache.pin(OpenedFile::Local(&file), AppendPolicy::Verify).unwrap();
        (file, pinned)
    }

    fn ask_pinned(
        &self,
        file: Arc<PinnedFile>,
        pinned: &PinnedSource,
        record_count: u64,
        names: &[&str],
        predicate: &Arc<Conjunction>,
    ) -> Option<ScanSpec> {
        let mut request = request(names, predicate);
        request.source.path = Arc::clone(file.path());
        self.scans.lock().clear();
        let scans = Arc::clone(&self.scans);
        let factory: SourceFactory = Arc::new(move |spec| {
            scans.lock().push(spec.clone());
            Ok(Arc::new(Ndjson::open(&file, spec)?))
        });
        let found = answer(self.cache.begin(&request, pinned, true, factory), 3).unwrap();
        assert!(found == expected(record_count, predicate), "{} rows", found.len());
        self.scans.lock().first().cloned()
    }

    fn laziness(&self) -> Vec<bool> {
        self.cache.items().iter().filter(|item| !item.is_map).map(|item| item.is_lazy).collect()
    }
}

pub(super) fn text(records: std::ops::Range<u64>) -> String {
    records.map(|record| format!("{{\"a\":{},\"b\":{record},\"w\":\"{record:0>100}\"}}\n", a_of(record))).collect()
}

#[test]
fn a_promoted_item_is_extended_when_its_file_grows() {
    let mut session = Session::new();
    let range = between(100, 300);
    assert!(session.ask(&range).unwrap().notes_positions);
    assert_eq!(session.laziness(), [true]);
    let positions = session.ask(&range).unwrap().positions.unwrap();
    assert_eq!(positions.len(), expected(RECORDS, &range).len());
    assert_eq!(session.laziness(), [false]);
    let end_bytes = session.cache.items()[0].end_bytes;
    session.append(500);
    let scan = session.ask(&range).unwrap();
    assert_eq!((scan.start_bytes, scan.positions.is_none()), (end_bytes, true), "only what is new is read");
    assert!(session.ask(&range).is_none());
    let known = session.cache.items()[0].row_count;
    let completed = session.ask_all(&range).unwrap();
    assert_eq!(completed.positions.unwrap().len() as u64, known, "the positions of old and new records");
}

#[test]
fn positions_are_not_used_for_a_file_that_grew_since_and_go_with_what_is_kept_of_all_of_it() {
    let mut session = Session::new();
    let range = between(100, 300);
    session.ask(&range);
    session.append(500);
    let scan = session.ask(&range).unwrap();
    assert_eq!((scan.start_bytes, scan.positions.is_none()), (0, true));
    assert_eq!(session.laziness(), [false]);
}

#[test]
fn who_sees_a_shorter_file_does_not_use_positions_of_the_longer_one() {
    let mut session = Session::new();
    let range = between(100, 300);
    session.ask(&range);
    let (file, pinned) = session.open();
    session.cache.clear();
    session.append(500);
    assert_eq!((session.ask(&range).unwrap().start_bytes, session.laziness()), (0, vec![true]));
    let scan = session.ask_pinned(file, &pinned, RECORDS, &["a", "b"], &range).unwrap();
    assert!(scan.positions.is_none());
}

#[test]
fn a_file_written_anew_loses_its_positions() {
    let session = Session::new();
    let range = between(100, 300);
    session.ask(&range);
    // The same records, each a byte longer: other positions, the same rows.
    let other = text(0..RECORDS).replace("{\"a\"", "{ \"a\"");
    File::create(session.path()).unwrap().write_all(other.as_bytes()).unwrap();
    assert!(session.ask(&range).unwrap().positions.is_none());
    assert_eq!(session.laziness(), [true]);
    assert!(session.ask(&range).unwrap().positions.is_some());
}

//! Real files that change between queries: the answer is always that of the file as it is now, and what still holds
//! is used.
//!
//! A record is eight bytes, a little-endian number; a query sums those in a range.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arrow::array::{Array, ArrayRef, Int64Array};
use arrow::compute::filter;
use parking_lot::Mutex;
use tempfile::TempDir;
use thermocline_budget::Budget;
use thermocline_hardware::{Clock, ManualClock, SystemClock};
use thermocline_medium::{BLOCK_BYTES, BlockHashes, Change, HashRecorder, PinnedFile};
use thermocline_placement::operator_cache::layout::Layout;
use thermocline_placement::operator_cache::layout::rule::LayoutRule;
use thermocline_predicate::Conjunction;

use super::fake::{between, columns, longs, object, path, request};
use crate::*;

const HOUR_NS: i64 = 3_600_000_000_000;

struct Records {
    file: Arc<PinnedFile>,
    spec: ScanSpec,
    next: AtomicU64,
    /// Whether the file ends with a complete record.
    terminated: bool,
    hashes: Hashes,
    /// Moves by as much while a morsel is decoded.
    clock: Arc<ManualClock>,
    decode_ns: u64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Hashes {
    Recorded,
    /// The same, of a file that is read at the end: what was written to it meanwhile is what was scanned.
    ReadLate,
    /// Of other content, as if the file had been changed between reading and now without a trace.
    Wrong,
    None,
}

/// What a source refuses at its end.
pub(super) fn require_unchanged_or_grown(file: &PinnedFile) -> Result<(), SourceError> {
    match file.change()? {
        Change::Unchanged | Change::Grown => Ok(()),
        Change::Other => Err("it changed while it was read".into()),
    }
}

/// The hashes of a file whose whole blocks before `known_bytes` the recorder knows.
fn hashes_of(file: &PinnedFile, known_bytes: u64, end_bytes: u64, recorder: &HashRecorder) -> Option<BlockHashes> {
    let mut at = known_bytes / BLOCK_BYTES as u64;
    while at * (BLOCK_BYTES as u64) < end_bytes {
        let from = at * BLOCK_BYTES as u64;
        let mut block = vec![0; (end_bytes - from).min(BLOCK_BYTES as u64) as usize];
        file.read_exact_at(&mut block, from).unwrap();
        recorder.record(at, &block);
        at += 1;
    }
    recorder.finish(end_bytes)
}

impl MorselSource for Records {
    fn next_morsel(&self) -> Result<Option<Morsel>, SourceError> {
        let index = self.next.fetch_add(1, Ordering::Relaxed);
        let first_bytes = self.spec.head.map_or(self.spec.start_bytes, |head| head.end_bytes);
        let start_bytes = first_bytes + index * 4096;
        let end_bytes = (start_bytes + 4096).min(self.spec.end_bytes);
        Ok((start_bytes < end_bytes).then_some(Morsel {
            index,
            start_bytes,
            end_bytes,
            head_end_bytes: end_bytes,
            payload: None,
        }))
    }

    fn decode(&self, morsel: Morsel) -> Result<Rows, SourceError> {
        self.clock.advance_ns(self.decode_ns);
        let mut bytes = vec![0; (morsel.end_bytes - morsel.start_bytes) as usize];
        self.file.read_exact_at(&mut bytes, morsel.start_bytes)?;
        let a: Int64Array =
            bytes.chunks_exact(8).map(|record| i64::from_le_bytes(record.try_into().unwrap())).collect();
        let record_count = a.len();
        let mut a: ArrayRef = Arc::new(a);
        if let Some(passing) = self.spec.predicate.evaluate(record_count, &|_| Some(Arc::clone(&a)))? {
            a = filter(&a, &passing)?;
        }
        let row_count = a.len();
        Ok(Rows {
            columns: vec![a],
            elements: None,
            row_count,
            record_count: record_count as u64,
            skipped_count: 0,
            positions: None,
            map_piece: None,
        })
    }

    fn total_bytes(&self) -> u64 {
        self.spec.end_bytes - self.spec.start_bytes
    }

    fn finish(&self) -> Result<SourceEnd, SourceError> {
        let recorder = match &self.spec.hashes {
            Some(hashes) if self.spec.start_bytes > 0 => HashRecorder::after_prefix(hashes).against(Arc::clone(hashes)),
            Some(hashes) => HashRecorder::new().against(Arc::clone(hashes)),
            None => HashRecorder::new(),
        };
        if self.hashes != Hashes::ReadLate {
            require_unchanged_or_grown(&self.file)?;
        }
        let hashes = match self.hashes {
            Hashes::Recorded | Hashes::ReadLate => {
                let known_bytes = self.spec.hashes.as_ref().map_or(0, |_| self.spec.start_bytes);
                hashes_of(&self.file, known_bytes, self.spec.end_bytes, &recorder)
            }
            Hashes::Wrong => {
                let recorder = HashRecorder::new();
                recorder.record(0, &vec![1; self.spec.end_bytes as usize]);
                recorder.finish(self.spec.end_bytes)
            }
            Hashes::None => None,
        };
        let covered_end_bytes = Some(self.spec.end_bytes - if self.terminated { 0 } else { 8 });
        Ok(SourceEnd { covered_end_bytes, hashes, has_other_prefix: recorder.has_other_prefix() })
    }
}

struct Session {
    cache: Arc<OperatorCache>,
    clock: Arc<ManualClock>,
    folder: TempDir,
    specs: Arc<Mutex<Vec<ScanSpec>>>,
    append: AppendPolicy,
    hashes: Hashes,
    terminated: bool,
    decode_ns: u64,
}

impl Session {
    /// A cache whose clock is an hour ahead, so that files written now are old.
    fn new() -> Self {
        let clock = Arc::new(ManualClock::new(SystemClock::new().wall_ns() + HOUR_NS));
        let shared: Arc<dyn Clock> = Arc::clone(&clock) as Arc<dyn Clock>;
        Self {
            cache: OperatorCache::new(CacheOptions::default(), &Budget::new(64 << 20, None), shared),
            clock,
            folder: tempfile::tempdir().unwrap(),
            specs: Arc::default(),
            append: AppendPolicy::Verify,
            hashes: Hashes::Recorded,
            terminated: true,
            decode_ns: 0,
        }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("records")
    }

    fn open(&self) -> (Arc<PinnedFile>, PinnedSource) {
        let file = Arc::new(PinnedFile::open(&self.path()).unwrap());
        let pinned = self.cache.pin(OpenedFile::Local(&file), self.append).unwrap();
        (file, pinned)
    }

    fn begin(&self, file: &Arc<PinnedFile>, pinned: &PinnedSource, predicate: &Arc<Conjunction>) -> Start {
        self.begin_columns(file, pinned, predicate, &["a"])
    }

    fn begin_columns(
        &self,
        file: &Arc<PinnedFile>,
        pinned: &PinnedSource,
        predicate: &Arc<Conjunction>,
        names: &[&str],
    ) -> Start {
        let (file, specs) = (Arc::clone(file), Arc::clone(&self.specs));
        let (hashes, terminated, decode_ns) = (self.hashes, self.terminated, self.decode_ns);
        let clock = Arc::clone(&self.clock);
        let mut request = request(&[], predicate);
        request.source.path = Arc::clone(file.path());
        request.columns = columns(names);
        let factory: SourceFactory = Arc::new(move |spec| {
            specs.lock().push(spec.clone());
            let (file, spec, clock) = (Arc::clone(&file), spec.clone(), Arc::clone(&clock));
            Ok(Arc::new(Records { file, spec, next: AtomicU64::new(0), terminated, hashes, clock, decode_ns }))
        });
        self.cache.begin(&request, pinned, true, factory)
    }

    /// Asks for the numbers from 0 to 999, checks them against the file and tells the byte that a scan started from.
    fn ask(&self) -> Option<u64> {
        self.ask_between(0, 999)
    }

    fn ask_between(&self, low: i64, high: i64) -> Option<u64> {
        let (file, pinned) = self.open();
        self.ask_pinned(&file, &pinned, low, high)
    }

    fn ask_pinned(&self, file: &Arc<PinnedFile>, pinned: &PinnedSource, low: i64, high: i64) -> Option<u64> {
        let mut content = vec![0; file.size_bytes() as usize];
        file.read_exact_at(&mut content, 0).unwrap();
        let mut expected: Vec<i64> = content
            .chunks_exact(8)
            .map(|record| i64::from_le_bytes(record.try_into().unwrap()))
            .filter(|value| (low..=high).contains(value))
            .collect();
        self.specs.lock().clear();
        let mut found = values(self.begin(file, pinned, &between(low, high)));
        found.sort_unstable();
        expected.sort_unstable();
        assert!(found == expected, "{} values, expected {}", found.len(), expected.len());
        self.specs.lock().first().map(|spec| spec.start_bytes)
    }

    fn write(&self, values: impl IntoIterator<Item = i64>) {
        write_to(&self.path(), values);
    }

    fn append(&self, values: impl IntoIterator<Item = i64>) {
        let mut file = OpenOptions::new().append(true).open(self.path()).unwrap();
        file.write_all(&bytes(values)).unwrap();
    }

    /// Writes one record in place, which its stamps tell: the kernel takes them from its last tick, up to 10 ms ago.
    fn overwrite(&self, record: u64, value: i64) {
        std::thread::sleep(Duration::from_millis(25));
        let file = OpenOptions::new().write(true).open(self.path()).unwrap();
        file.write_all_at(&value.to_le_bytes(), record * 8).unwrap();
    }

    fn invalidations(&self) -> usize {
        self.cache.decisions().iter().filter(|decision| decision.kind == DecisionKind::Invalidate).count()
    }
}

fn values(start: Start) -> Vec<i64> {
    let of = |rows: &Rows, columns: &[ColumnSpec], residual: &Conjunction| {
        let a = ColumnRoute::find(columns, &path("a")).unwrap().extract(rows).unwrap();
        let passing = residual.evaluate(rows.row_count, &|_| Some(Arc::clone(&a))).unwrap();
        let a = passing.map_or(Arc::clone(&a), |passing| filter(&a, &passing).unwrap());
        longs(&a).values().to_vec()
    };
    let of_item = |item: &Item, residual: &Conjunction| -> Vec<i64> {
        let contents = item.chunks.iter().map(|chunk| chunk.content());
        let rows = contents.map(|content| content.to_rows(0, content.entry_count(), &ManualClock::new(0)).unwrap());
        rows.flat_map(|rows| of(&rows, item.columns(), residual)).collect()
    };
    let of_scan = |participant: &Arc<Participant>| -> Vec<i64> {
        futures::executor::block_on_stream(participant.stream())
            .flat_map(|rows| of(rows.unwrap().rows(), participant.columns(), participant.residual()))
            .collect()
    };
    match start {
        Start::Hit { item, residual, .. } => of_item(&item, &residual),
        Start::Combine { parts, remainder } => {
            let kept = parts.iter().flat_map(|part| of_item(&part.item, &part.residual));
            kept.chain(remainder.iter().flat_map(of_scan)).collect()
        }
        Start::Wait(_) => panic!("the request may not wait"),
        Start::Scan(participant) => of_scan(&participant),
    }
}

fn bytes(values: impl IntoIterator<Item = i64>) -> Vec<u8> {
    values.into_iter().flat_map(i64::to_le_bytes).collect()
}

fn write_to(path: &Path, values: impl IntoIterator<Item = i64>) {
    File::create(path).unwrap().write_all(&bytes(values)).unwrap();
}

#[test]
fn an_unchanged_file_is_not_read_again() {
    let session = Session::new();
    session.write(0..5000);
    assert_eq!(session.ask(), Some(0));
    assert_eq!(session.ask(), None);
    assert_eq!(session.ask_between(10, 20), None);
}

#[test]
fn a_touched_file_keeps_its_items_because_its_content_is_the_same() {
    let session = Session::new();
    session.write(0..5000);
    session.ask();
    session.overwrite(3, 3);
    assert_eq!(session.ask(), None);
    assert_eq!(session.ask(), None);
}

#[test]
fn a_file_overwritten_in_place_is_read_anew() {
    let session = Session::new();
    session.write(0..5000);
    session.ask();
    session.overwrite(3, 777);
    assert_eq!(session.ask(), Some(0));
    assert_eq!(session.cache.items().len(), 1);
    assert_eq!(session.invalidations(), 1);
    assert_eq!(session.ask(), None);
}

#[test]
fn truncated_replaced_and_rewritten_files_are_read_anew() {
    let session = Session::new();
    session.write(0..5000);
    session.ask();
    OpenOptions::new().write(true).open(session.path()).unwrap().set_len(8 * 600).unwrap();
    assert_eq!(session.ask(), Some(0), "truncated");
    let other = session.folder.path().join("other");
    write_to(&other, 100..700);
    std::fs::rename(&other, session.path()).unwrap();
    assert_eq!(session.ask(), Some(0), "replaced by another of the same length");
    session.write((0..9000).rev());
    assert_eq!(session.ask(), Some(0), "rewritten longer in place");
    assert_eq!(session.cache.items().len(), 1);
}

#[test]
fn a_file_that_grows_is_scanned_from_where_the_item_ends() {
    let session = Session::new();
    session.write(0..5000);
    assert_eq!(session.ask(), Some(0));
    for round in 1..5 {
        session.append([1, 2, 3, 10_000]);
        let (file, pinned) = session.open();
        let wanted = request(&["a"], &between(5, 500));
        let source = SourceKey { path: Arc::clone(file.path()), ..wanted.source.clone() };
        let explained = session.cache.explain(&SelectRequest { source, ..wanted }, &pinned);
        assert!(matches!(explained, Explanation::Extend { new_bytes: 32, .. }), "{explained:?}");
        assert_eq!(session.ask_between(5, 500), Some(8 * (5000 + 4 * (round - 1))), "round {round}");
        assert_eq!(session.ask(), None, "the item was extended");
        let items = session.cache.items();
        assert_eq!((items.len(), items[0].end_bytes), (1, 8 * (5000 + 4 * round)));
    }
    assert_eq!(session.invalidations(), 0);
}

#[test]
fn who_has_read_an_item_and_what_its_file_grew_by_holds_neither() {
    let session = Session::new();
    session.write(0..5000);
    session.ask_between(0, 5000);
    session.append(0..5000);
    let (file, pinned) = session.open();
    let Start::Scan(participant) = session.begin(&file, &pinned, &between(0, 5000)) else { panic!("expected a scan") };
    let rows = futures::executor::block_on_stream(participant.stream());
    assert_eq!(rows.map(|rows| rows.unwrap().rows().row_count).sum::<usize>(), 10_000);
    assert_eq!(session.cache.items()[0].row_count, 10_000);
    thermocline_budget::ReclaimableCache::release(&*session.cache, u64::MAX);
    assert!(session.cache.items().is_empty());
    assert!(session.cache.reserved_bytes() < 4096, "{}", session.cache.reserved_bytes());
}

#[test]
fn what_a_file_grew_by_gets_the_layout_that_its_item_has() {
    let session = Session::new();
    session.write(0..5000);
    // An item that has come to another layout than those that begin now.
    session.cache.set_layout_rule(LayoutRule::Fixed(Layout::RowWise));
    assert_eq!(session.ask(), Some(0));
    session.cache.set_layout_rule(LayoutRule::Measured);
    session.append([1, 2, 3, 10_000]);
    assert_eq!(session.ask(), Some(8 * 5000));
    let items = session.cache.items();
    assert_eq!((items.len(), items[0].layout, items[0].row_count), (1, Layout::RowWise, 1003));
}

#[test]
fn an_item_whose_file_grows_by_a_record_at_a_time_has_few_chunks() {
    for layout in Layout::ALL {
        let session = Session::new();
        session.cache.set_layout_rule(LayoutRule::Fixed(layout));
        session.write(0..100);
        session.ask();
        for value in 0..200 {
            session.append([value]);
            assert_eq!(session.ask(), Some((100 + value as u64) * 8), "{layout}");
        }
        let items = session.cache.items();
        assert_eq!((items.len(), items[0].row_count), (1, 300));
        assert!(items[0].chunk_count < 10, "{layout}: {} chunks", items[0].chunk_count);
        session.append(0..5000);
        session.append(0..1000);
        assert_eq!(session.ask(), Some(2400), "{layout}");
        assert_eq!(session.ask(), None);
    }
}

#[test]
fn growth_is_noticed_beyond_the_first_block_too() {
    let session = Session::new();
    session.write((0..400_000).map(|value| value % 2000));
    session.ask();
    for _ in 0..3 {
        session.append(0..1000);
        assert!(session.ask().unwrap() >= 8 * 400_000);
    }
    session.overwrite(300_000, -1);
    session.append([5]);
    assert_eq!(session.ask(), Some(0), "grown, but the old part was changed");
}

#[test]
fn a_record_changed_in_what_was_appended_is_noticed() {
    let session = Session::new();
    session.write(0..5000);
    session.ask();
    session.append(0..100);
    assert_eq!(session.ask(), Some(8 * 5000));
    session.overwrite(5050, 999);
    session.append([1]);
    assert_eq!(session.ask(), Some(0));
}

#[test]
fn a_prefix_rewritten_between_check_and_scan_ends_what_was_kept_of_it() {
    let session = Session { hashes: Hashes::ReadLate, ..Session::new() };
    session.write(0..5000);
    session.ask();
    session.append(0..100);
    let (file, pinned) = session.open();
    session.overwrite(3, 777);
    assert_eq!(session.ask_pinned(&file, &pinned, 2000, 3000), Some(0));
    assert_eq!(session.invalidations(), 2, "the item, and what the scan would have kept");
    assert_eq!(session.ask(), Some(0), "what was kept is of the old record");
    // The same where only what was appended is scanned.
    session.append(0..100);
    let (file, pinned) = session.open();
    session.overwrite(3, 3);
    values(session.begin(&file, &pinned, &between(0, 999)));
    assert_eq!(session.ask(), Some(0));
}

#[test]
fn what_one_user_trusts_is_checked_for_another() {
    let mut session = Session::new();
    session.write(0..5000);
    session.ask();
    session.overwrite(3, 777);
    session.append = AppendPolicy::Trust;
    session.open();
    session.append = AppendPolicy::Verify;
    assert_eq!(session.ask(), Some(0), "the same version, which nobody has checked");
    assert_eq!(session.ask(), None);
}

#[test]
fn an_item_that_ends_in_an_unterminated_record_is_not_extended() {
    let session = Session { terminated: false, ..Session::new() };
    session.write(0..5000);
    session.ask();
    assert_eq!(session.ask(), None, "the same bytes give the same record");
    session.append([1]);
    assert_eq!(session.ask(), Some(0));
}

#[test]
fn without_hashes_a_changed_version_is_read_anew() {
    let session = Session { hashes: Hashes::None, ..Session::new() };
    session.write(0..5000);
    session.ask();
    assert_eq!(session.ask(), None);
    session.append([1]);
    assert_eq!(session.ask(), Some(0));
}

#[test]
fn trusted_to_be_appended_to_a_file_is_not_checked() {
    let session = Session { append: AppendPolicy::Trust, hashes: Hashes::None, ..Session::new() };
    session.write(0..5000);
    session.ask();
    session.append([1]);
    assert_eq!(session.ask(), Some(8 * 5000));
    session.write(0..100);
    assert_eq!(session.ask(), Some(0), "shorter: not appended to");
}

#[test]
fn a_young_file_is_used_again_if_its_content_is_the_same() {
    let session = Session::new();
    session.clock.set_wall_ns(SystemClock::new().wall_ns());
    session.write(0..5000);
    assert_eq!(session.ask(), Some(0));
    assert_eq!(session.ask(), None);
}

#[test]
fn a_young_file_whose_content_changed_without_a_trace_is_read_anew() {
    let mut session = Session { hashes: Hashes::Wrong, ..Session::new() };
    session.clock.set_wall_ns(SystemClock::new().wall_ns());
    session.write(0..5000);
    assert_eq!(session.ask(), Some(0));
    // The file's age at the next query does not matter: it was young when it was read.
    session.clock.set_wall_ns(SystemClock::new().wall_ns() + HOUR_NS);
    session.hashes = Hashes::Recorded;
    assert_eq!(session.ask(), Some(0));
    assert_eq!(session.ask(), None);
    assert_eq!(session.invalidations(), 1);
}

#[test]
fn two_scans_of_one_version_that_read_different_content_leave_nothing() {
    let mut session = Session::new();
    session.write(0..5000);
    session.ask();
    session.hashes = Hashes::Wrong;
    assert_eq!(session.ask_between(2000, 3000), Some(0));
    assert!(session.cache.items().is_empty());
    session.hashes = Hashes::Recorded;
    assert_eq!(session.ask(), Some(0));
    assert_eq!(session.ask(), None);
}

#[test]
fn columns_of_other_content_are_never_laid_beside_kept_ones() {
    let mut session = Session::new();
    session.write(0..5000);
    session.ask();
    let (file, pinned) = session.open();
    // As if the file had been rewritten in place since then, its records of the same length, and passed for one
    // content.
    session.hashes = Hashes::Wrong;
    let Start::Scan(participant) = session.begin_columns(&file, &pinned, &between(0, 999), &["a", "b"]) else {
        panic!("expected a scan");
    };
    let outcome: Result<Vec<_>, _> = futures::executor::block_on_stream(participant.stream()).collect();
    let error = outcome.unwrap_err().to_string();
    assert!(error.contains("is not what was read before"), "{error}");
    assert!(session.specs.lock().last().unwrap().columns.iter().all(|column| column.path == path("b")), "no top-up");
    assert!(session.cache.items().is_empty());
    session.hashes = Hashes::Recorded;
    assert_eq!(session.ask(), Some(0));
}

#[test]
fn rows_of_other_content_are_never_read_beside_kept_ones() {
    let mut session = Session { decode_ns: 1_000_000, ..Session::new() };
    session.write(0..5000);
    session.ask_between(0, 900);
    let (file, pinned) = session.open();
    session.hashes = Hashes::Wrong;
    let start = session.begin_columns(&file, &pinned, &between(0, 999), &["a"]);
    let Start::Combine { parts, remainder: Some(participant) } = start else { panic!("expected an item and a scan") };
    let outcome: Result<Vec<_>, _> = futures::executor::block_on_stream(participant.stream()).collect();
    let error = outcome.unwrap_err().to_string();
    assert!(error.contains("is not what was read before"), "{error}");
    drop(parts);
    assert!(session.cache.items().is_empty());
    session.hashes = Hashes::Recorded;
    assert_eq!(session.ask(), Some(0));
}

#[test]
fn without_hashes_of_the_content_only_items_are_combined() {
    let session = Session { hashes: Hashes::None, decode_ns: 1_000_000, ..Session::new() };
    session.write(0..5000);
    session.ask_between(0, 600);
    session.ask_between(500, 900);
    assert_eq!(session.ask_between(300, 800), None);
    let (file, pinned) = session.open();
    assert!(matches!(session.begin(&file, &pinned, &between(300, 901)), Start::Scan(_)));
    // The longer file is another generation's, or of another end: what was kept of the shorter one is no part of it.
    session.append(5000..5010);
    assert_eq!(session.ask_between(300, 800), Some(0));
}

#[test]
fn without_hashes_of_the_content_nothing_is_laid_beside_kept_columns() {
    let session = Session { hashes: Hashes::None, ..Session::new() };
    session.write(0..5000);
    session.ask();
    let (file, pinned) = session.open();
    let Start::Scan(_participant) = session.begin_columns(&file, &pinned, &between(0, 999), &["a", "b"]) else {
        panic!("expected a scan");
    };
    let is_top_up = |decision: &Decision| decision.kind == DecisionKind::TopUp;
    assert!(!session.cache.decisions().iter().any(is_top_up));
}

#[test]
fn a_query_that_pinned_the_file_before_it_was_replaced_reads_its_own_and_keeps_nothing() {
    let session = Session::new();
    session.write(0..5000);
    let (old_file, old) = session.open();
    let other = session.folder.path().join("other");
    write_to(&other, 100..700);
    std::fs::rename(&other, session.path()).unwrap();
    assert_eq!(session.ask(), Some(0));
    // Replacing unlinked the pinned file, which changes its times: its own check is not of interest here.
    assert_ne!(old.generation(), session.open().1.generation());
    let start = session.begin(&old_file, &old, &between(0, 999));
    let Start::Scan(participant) = start else { panic!("an item of another generation answers") };
    drop(participant);
    assert_eq!(session.ask(), None);
    assert_eq!(session.cache.items().len(), 1);
}

#[test]
fn a_query_that_pinned_the_file_before_it_grew_sees_the_old_end() {
    let session = Session::new();
    session.write(0..5000);
    session.ask();
    let (old_file, old) = session.open();
    session.append([1, 2, 3]);
    assert_eq!(session.ask(), Some(8 * 5000));
    assert_eq!(session.ask_pinned(&old_file, &old, 0, 999), Some(0));
    assert_eq!(session.ask(), None, "the longer item stays");
    assert_eq!(session.cache.items().len(), 1, "the shorter one is not kept beside it");
}

#[test]
fn a_query_that_opened_an_older_file_and_asks_later_leaves_what_is_kept_of_the_newer_one() {
    let pin = |session: &Session, file: &Arc<PinnedFile>| {
        session.cache.pin(OpenedFile::Local(file), AppendPolicy::Verify).unwrap()
    };
    let replace = |session: &Session| {
        let other = session.folder.path().join("other");
        write_to(&other, 100..700);
        std::fs::rename(&other, session.path()).unwrap();
    };
    let grow = |session: &Session| session.append([1, 2, 3]);
    for (change, grows_on) in [(&replace as &dyn Fn(&Session), false), (&grow, false), (&grow, true)] {
        let session = Session::new();
        session.write(0..5000);
        let old_file = Arc::new(PinnedFile::open(&session.path()).unwrap());
        change(&session);
        assert_eq!(session.ask(), Some(0));
        let newer = session.open().1.generation();
        if grows_on {
            session.append([4]);
        }
        let old = pin(&session, &old_file);
        assert_ne!(old.generation(), newer);
        let Start::Scan(participant) = session.begin(&old_file, &old, &between(0, 999)) else {
            panic!("an item of another generation answers");
        };
        drop(participant);
        assert_eq!(session.cache.items().len(), 1);
        assert_eq!(session.invalidations(), 0);
        assert_eq!(session.open().1.generation(), newer);
        assert_eq!(session.ask(), grows_on.then_some(8 * 5003));
    }
}

#[test]
fn what_came_with_its_folder_is_no_older_for_its_times() {
    let session = Session::new();
    session.write(0..5000);
    let earlier = session.folder.path().join("earlier");
    std::fs::create_dir(&earlier).unwrap();
    let (path, data) = (session.path(), session.folder.path().join("data"));
    std::fs::create_dir(&data).unwrap();
    std::fs::rename(&path, earlier.join("records")).unwrap();
    let file = data.join("records");
    write_to(&file, 100..700);
    let generation = || {
        let file = PinnedFile::open(&file).unwrap();
        let pinned = session.cache.pin(OpenedFile::Local(&file), AppendPolicy::Verify).unwrap();
        (pinned.generation(), pinned.is_current())
    };
    let first = generation();
    std::fs::rename(&data, session.folder.path().join("later")).unwrap();
    std::fs::rename(&earlier, &data).unwrap();
    let second = generation();
    assert_ne!(first.0, second.0);
    assert!(second.1, "what is read of it is kept");
}

#[test]
fn what_was_young_when_it_was_pinned_is_so_however_long_its_query_takes() {
    let session = Session::new();
    session.clock.set_wall_ns(SystemClock::new().wall_ns());
    session.write(0..5000);
    let (file, pinned) = session.open();
    session.clock.set_wall_ns(SystemClock::new().wall_ns() + HOUR_NS);
    assert!(pinned.is_young() && !file.version().is_young(session.clock.wall_ns()));
    assert!(!session.open().1.is_young());
}

#[test]
fn objects_go_by_their_version_alone() {
    let session = Session::new();
    let generation =
        |version| session.cache.pin(OpenedFile::Remote(&version), AppendPolicy::Verify).unwrap().generation();
    let first = generation(object("s3://b/o", "1", 10));
    assert_eq!(generation(object("s3://b/o", "1", 10)), first);
    let second = generation(object("s3://b/o", "2", 10));
    assert_ne!(second, first);
    assert_ne!(generation(object("s3://b/o", "2", 11)), second);
    assert_ne!(generation(object("s3://b/other", "1", 10)), first);
}

#[test]
fn many_pins_of_a_changed_file_at_once_agree() {
    let session = Session::new();
    session.write(0..5000);
    session.ask();
    session.overwrite(3, 777);
    let generations: Vec<u64> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| session.open().1.generation())).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(generations.iter().all(|generation| *generation == generations[0]), "{generations:?}");
    assert_eq!(session.invalidations(), 1);
}

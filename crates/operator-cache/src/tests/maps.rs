//! Positional maps of real NDJSON files: made, merged, gone by, handed on, and never believed of another content.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::array::{ArrayRef, StringArray};
use parking_lot::Mutex;
use tempfile::TempDir;
use thermocline_budget::{Budget, ReclaimableCache};
use thermocline_hardware::{Clock, ManualClock, SystemClock};
use thermocline_medium::{FileVersion, PinnedFile};
use thermocline_predicate::Conjunction;
use thermocline_raw::PositionalMap;
use thermocline_seeded::Random;

use super::fake::{Fake, between, expected, longs, object, path, pin, request, told};
use super::lazy_files::{Ndjson, text};
use crate::candidates::{Candidate, Terms};
use crate::*;

const RECORDS: u64 = 4_000;
/// Morsels enough to be mistaken for each other, of which those by a map have other borders.
const MANY_RECORDS: u64 = 25_000;
const HOUR_NS: i64 = 3_600_000_000_000;

/// A store that lasts as long as the test.
#[derive(Debug, Default)]
struct Store {
    is_read_only: bool,
    maps: Mutex<HashMap<(FileVersion, String), Vec<u8>>>,
}

impl MapStore for Store {
    fn load(&self, version: &FileVersion, options: &str) -> Option<PositionalMap> {
        let maps = self.maps.lock();
        let bytes = maps.get(&(version.clone(), options.to_owned()))?;
        PositionalMap::from_bytes(bytes, version, options).ok()
    }

    fn keeps(&self) -> bool {
        !self.is_read_only
    }

    fn save(&self, version: &FileVersion, options: &str, map: &Arc<PositionalMap>) {
        if !self.is_read_only {
            self.maps.lock().insert((version.clone(), options.to_owned()), map.to_bytes(version, options));
        }
    }
}

struct Session {
    cache: Arc<OperatorCache>,
    budget: Budget,
    folder: Arc<TempDir>,
    record_count: u64,
    scans: Arc<Mutex<Vec<ScanSpec>>>,
}

impl Session {
    fn new(limit_bytes: u64, store: Option<&Arc<Store>>) -> Self {
        Self::sized(RECORDS, limit_bytes, store)
    }

    fn sized(record_count: u64, limit_bytes: u64, store: Option<&Arc<Store>>) -> Self {
        let folder = Arc::new(tempfile::tempdir().unwrap());
        let session = Self { record_count, ..Self::of(folder, limit_bytes, store, HOUR_NS) };
        File::create(session.path()).unwrap().write_all(text(0..record_count).as_bytes()).unwrap();
        session
    }

    /// Another process on the same file, whose clock is so far ahead.
    fn of(folder: Arc<TempDir>, limit_bytes: u64, store: Option<&Arc<Store>>, ahead_ns: i64) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::new(SystemClock::new().wall_ns() + ahead_ns));
        let map_store = store.map(|store| Arc::clone(store) as Arc<dyn MapStore>);
        let budget = Budget::new(limit_bytes, None);
        let cache = OperatorCache::new(CacheOptions { map_store, ..CacheOptions::default() }, &budget, clock);
        told(&cache, AdmissionMode::Eager);
        Self { cache, budget, folder, record_count: RECORDS, scans: Arc::default() }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("records.ndjson")
    }

    fn append(&mut self, count: u64) {
        let new = self.record_count..self.record_count + count;
        OpenOptions::new().append(true).open(self.path()).unwrap().write_all(text(new).as_bytes()).unwrap();
        self.record_count += count;
    }

    /// The same records, each some bytes longer.
    fn rewrite(&self, blanks: usize) {
        let other = text(0..self.record_count).replace("{\"a\"", &format!("{{{}\"a\"", " ".repeat(blanks)));
        File::create(self.path()).unwrap().write_all(other.as_bytes()).unwrap();
    }

    fn open(&self) -> (Arc<PinnedFile>, PinnedSource) {
        let file = Arc::new(PinnedFile::open(&self.path()).unwrap());
        let pinned = self.cache.pin(OpenedFile::Local(&file), AppendPolicy::Verify).unwrap();
        (file, pinned)
    }

    fn ask(&self, names: &[&str], predicate: &Arc<Conjunction>) -> Option<ScanSpec> {
        self.ask_for(request(names, predicate))
    }

    /// Asks, checks the answer in every column, and tells what was scanned for it.
    fn ask_for(&self, request: SelectRequest) -> Option<ScanSpec> {
        self.ask_opened(&self.open(), request)
    }

    /// The same of a file that was opened for several requests of one query.
    fn ask_opened(
        &self,
        (file, pinned): &(Arc<PinnedFile>, PinnedSource),
        mut request: SelectRequest,
    ) -> Option<ScanSpec> {
        let file = Arc::clone(file);
        request.source.path = Arc::clone(file.path());
        self.cache.load_map(&request, pinned);
        self.scans.lock().clear();
        let scans = Arc::clone(&self.scans);
        let factory: SourceFactory = Arc::new(move |spec| {
            scans.lock().push(spec.clone());
            Ok(Arc::new(Ndjson::open(&file, spec)?))
        });
        let start = self.cache.begin(&request, pinned, true, factory);
        let mut found = rows(start, request.columns.iter().any(|column| column.path == path("w")));
        found.sort_unstable();
        assert!(found == expected(self.record_count, &request.predicate), "{} rows", found.len());
        self.scans.lock().first().cloned()
    }

    fn kinds(&self, kind: DecisionKind) -> usize {
        self.cache.decisions().iter().filter(|decision| decision.kind == kind).count()
    }

    fn maps(&self) -> Vec<ItemSummary> {
        self.cache.items().into_iter().filter(|item| item.is_map).collect()
    }
}

/// The `b` of an answer's rows, whose text `w` is theirs if it is asked for.
fn rows(start: Start, has_text: bool) -> Vec<i64> {
    let outputs: Vec<_> = if has_text { vec![path("b"), path("w")] } else { vec![path("b")] };
    let mut found = Vec::new();
    let mut check = |columns: &[ArrayRef]| {
        let b = longs(&columns[0]);
        if has_text {
            let w: &StringArray = columns[1].as_any().downcast_ref().unwrap();
            assert!(b.values().iter().zip(w).all(|(b, w)| w == Some(&format!("{b:0>100}"))));
        }
        found.extend_from_slice(b.values());
    };
    let (items, scan) = match start {
        Start::Hit { item, residual, .. } => (vec![(item, residual)], None),
        Start::Combine { parts, remainder } => {
            (parts.into_iter().map(|part| (part.item, part.residual)).collect(), remainder)
        }
        Start::Wait(_) => panic!("the request may not wait"),
        Start::Scan(participant) => (Vec::new(), Some(participant)),
    };
    for (item, residual) in items {
        let cut = item.cut(View::Elements, &residual, &outputs).unwrap();
        for piece in item.pieces() {
            let rows = item.read(&piece, &cut, &ManualClock::new(0), &mut Reading::default()).unwrap();
            rows.for_each(|rows| check(&rows.unwrap().columns));
        }
    }
    if let Some(participant) = scan {
        let cut = participant.cut(&outputs).unwrap();
        let streams = futures::stream::select_all((0..3).map(|_| participant.stream()));
        for rows in futures::executor::block_on_stream(streams) {
            cut.apply(&rows.unwrap()).unwrap().for_each(|rows| check(&rows.unwrap().columns));
        }
    }
    found
}

#[test]
fn the_second_scan_of_a_file_makes_a_map_and_the_third_goes_by_it() {
    let session = Session::new(64 << 20, None);
    let scan = |low| session.ask(&["a", "b"], &between(low, low + 50)).unwrap();
    let first = scan(0);
    assert!(!first.makes_map && first.map.is_none());
    assert!(scan(100).makes_map);
    let maps = session.maps();
    assert_eq!(maps.len(), 1);
    assert_eq!(maps[0].columns.iter().map(|column| column.path.to_string()).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(session.kinds(DecisionKind::MapMade), 1);
    let (file, pinned) = session.open();
    let mut asked = request(&["a", "b"], &between(200, 250));
    asked.source.path = Arc::clone(file.path());
    let explained = session.cache.explain(&asked, &pinned);
    assert!(matches!(explained, Explanation::Miss { map: Some(map), .. } if map == maps[0].id), "{explained:?}");
    let third = scan(200);
    assert_eq!(third.map.unwrap().records().len() as u64, RECORDS);
    assert!(!third.makes_map);
    assert_eq!(session.kinds(DecisionKind::MapUsed), 1);
    assert_eq!(session.maps()[0].use_count, 3);
}

#[test]
fn a_scan_of_fields_that_the_map_lacks_adds_them_to_it() {
    let session = Session::new(64 << 20, None);
    for low in [0, 100] {
        session.ask(&["a", "b"], &between(low, low + 50));
    }
    let wider = session.ask(&["a", "b", "w"], &between(200, 250)).unwrap();
    assert!(wider.makes_map && wider.map.is_none());
    assert_eq!((session.maps().len(), session.maps()[0].columns.len()), (1, 3));
    assert!(session.ask(&["a", "b", "w"], &between(300, 350)).unwrap().map.is_some());
    assert!(session.ask(&["a", "b"], &between(400, 450)).unwrap().map.is_some());
}

#[test]
fn who_may_not_believe_a_map_does_without_it() {
    let session = Session::new(64 << 20, None);
    for low in [0, 100] {
        session.ask(&["a", "b"], &between(low, low + 50));
    }
    assert_eq!(session.maps().len(), 1);
    let strict = SelectRequest { can_map: false, ..request(&["a", "b"], &between(200, 250)) };
    let scan = session.ask_for(strict).unwrap();
    assert!(scan.map.is_none() && !scan.makes_map);
}

#[test]
fn a_file_that_grew_or_changed_is_not_read_by_its_old_map() {
    let mut session = Session::new(64 << 20, None);
    let mut low = 0;
    let mut scan = |session: &Session| {
        low += 60;
        session.ask(&["a", "b"], &between(low - 60, low - 10)).unwrap()
    };
    scan(&session);
    scan(&session);
    session.append(10);
    let grown = scan(&session);
    assert!(grown.map.is_none() && grown.makes_map);
    assert_eq!((session.maps().len(), session.maps()[0].end_bytes), (1, grown.end_bytes));
    assert!(scan(&session).map.is_some());
    session.rewrite(1);
    let changed = scan(&session);
    assert!(changed.map.is_none() && changed.makes_map);
    assert!(scan(&session).map.is_some());
}

#[test]
fn a_query_that_reads_a_grown_file_twice_goes_by_the_map_of_its_first_scan() {
    let mut session = Session::new(64 << 20, None);
    for low in [0, 100] {
        session.ask(&["a", "b"], &between(low, low + 50));
    }
    session.append(10);
    // Pinned once, when the hashes of the old part alone were known.
    let opened = session.open();
    assert!(opened.1.hashes().is_some_and(|hashes| hashes.size_bytes() < opened.1.end_bytes()));
    let scan = |low| session.ask_opened(&opened, request(&["a", "b"], &between(low, low + 50))).unwrap();
    assert!(scan(200).makes_map);
    assert!(scan(300).map.is_some());
    assert_eq!((session.maps().len(), session.kinds(DecisionKind::Invalidate)), (1, 0));
}

#[test]
fn what_a_scan_by_a_map_keeps_grows_with_its_file_and_gets_further_columns() {
    let mut session = Session::sized(MANY_RECORDS, 64 << 20, None);
    for low in [0, 100] {
        session.ask(&["a", "b"], &between(low, low + 50));
    }
    let all = SelectRequest { retain_predicate: Arc::default(), ..request(&["a", "b"], &between(200, 900)) };
    let whole = session.ask_for(all.clone()).unwrap();
    assert!(whole.map.is_some() && whole.predicate.is_all());
    assert!(session.ask(&["a", "b"], &between(300, 800)).is_none(), "all rows are kept");
    // What it lacks is scanned and laid beside it, by position, for the map does not know it.
    let wide = SelectRequest {
        columns: request(&["a", "b", "w"], &between(0, 1)).columns,
        retain_columns: request(&["a", "b", "w"], &between(0, 1)).columns,
        ..all
    };
    assert!(session.ask_for(wide.clone()).unwrap().positions.is_some());
    session.append(100);
    let extended = session.ask_for(wide.clone()).unwrap();
    assert_eq!((extended.start_bytes, extended.predicate.is_all()), (whole.end_bytes, true));
    assert!(session.ask_for(wide).is_none());
}

#[test]
fn columns_that_the_map_knows_are_laid_beside_kept_ones_by_it_however_those_were_read() {
    let store = Arc::new(Store::default());
    let widened =
        |names: &[&str]| SelectRequest { retain_predicate: Arc::default(), ..request(names, &between(0, 10)) };
    let first = Session::sized(MANY_RECORDS, 64 << 20, Some(&store));
    assert!(first.ask_for(widened(&["a", "b", "w"])).unwrap().makes_map);
    assert_eq!(first.maps()[0].columns.len(), 3);
    for can_map in [false, true] {
        let second = Session::of(Arc::clone(&first.folder), 64 << 20, Some(&store), HOUR_NS);
        let second = Session { record_count: MANY_RECORDS, ..second };
        let scan = second.ask_for(SelectRequest { can_map, ..widened(&["a", "b"]) }).unwrap();
        assert_eq!(scan.map.is_some(), can_map);
        let scan = second.ask_for(widened(&["a", "b", "w"])).unwrap();
        assert!(scan.map.is_some() && scan.positions.is_none() && scan.columns.len() == 1);
        let all = Arc::<Conjunction>::default();
        assert!(second.ask(&["a", "b", "w"], &all).is_none(), "all of it is kept now");
    }
}

#[test]
fn maps_outlive_the_process_if_their_file_is_old_enough_to_be_told_from_later_ones() {
    let store = Arc::new(Store::default());
    let first = Session::new(64 << 20, Some(&store));
    assert!(first.ask(&["a", "b"], &between(0, 50)).unwrap().makes_map);
    assert_eq!(store.maps.lock().len(), 1);
    let mut second = Session::of(Arc::clone(&first.folder), 64 << 20, Some(&store), HOUR_NS);
    assert!(second.ask(&["a", "b"], &between(0, 50)).unwrap().map.is_some());
    assert_eq!(second.kinds(DecisionKind::MapLoaded), 1);
    // The scan by the map left hashes: what it kept grows with the file.
    second.append(10);
    let grown = second.ask(&["a", "b"], &between(0, 50)).unwrap();
    assert!(grown.start_bytes > 0, "only what is new is read");
    // The grown file's map is another one, and the old one is not taken for it.
    let mut third = Session::of(Arc::clone(&first.folder), 64 << 20, Some(&store), HOUR_NS);
    third.record_count = second.record_count;
    assert!(third.ask(&["a", "b"], &between(0, 50)).unwrap().map.is_none());
    assert_eq!(store.maps.lock().len(), 2);
}

#[test]
fn a_first_scan_makes_no_map_for_a_store_that_is_only_read() {
    let writable = Arc::new(Store::default());
    let first = Session::new(64 << 20, Some(&writable));
    first.ask(&["a", "b"], &between(0, 50));
    let empty = Arc::new(Store { is_read_only: true, ..Store::default() });
    let second = Session::of(Arc::clone(&first.folder), 64 << 20, Some(&empty), HOUR_NS);
    assert!(!second.ask(&["a", "b"], &between(0, 50)).unwrap().makes_map);
    assert!(second.ask(&["a", "b"], &between(100, 150)).unwrap().makes_map, "for its own process");
    // What is there is used all the same.
    let maps = std::mem::take(&mut *writable.maps.lock());
    let full = Arc::new(Store { is_read_only: true, maps: maps.into() });
    let third = Session::of(Arc::clone(&first.folder), 64 << 20, Some(&full), HOUR_NS);
    assert!(third.ask(&["a", "b"], &between(0, 50)).unwrap().map.is_some());
}

#[test]
fn a_map_of_a_young_file_stays_in_the_process_until_the_file_is_old() {
    let store = Arc::new(Store::default());
    let young = Session::new(64 << 20, Some(&store));
    let young = Session::of(Arc::clone(&young.folder), 64 << 20, Some(&store), 0);
    for low in [0, 100] {
        young.ask(&["a", "b"], &between(low, low + 50));
    }
    assert_eq!((young.maps().len(), store.maps.lock().len()), (1, 0));
    // Content is what its scans are compared by.
    assert!(young.ask(&["a", "b"], &between(200, 250)).unwrap().hashes.is_some());
}

#[test]
fn a_map_makes_room_when_queries_need_memory_also_while_it_is_made() {
    let session = Session::new(64 << 20, None);
    for low in [0, 100] {
        session.ask(&["a", "b"], &between(low, low + 50));
    }
    assert_eq!(session.maps().len(), 1);
    session.cache.release(u64::MAX);
    assert!(session.cache.items().is_empty());
    // One that is being made.
    let (file, pinned) = session.open();
    let mut asked = request(&["a", "b"], &between(200, 250));
    asked.source.path = Arc::clone(file.path());
    let factory: SourceFactory = Arc::new(move |spec| Ok(Arc::new(Ndjson::open(&file, spec)?)));
    let Start::Scan(participant) = session.cache.begin(&asked, &pinned, true, factory) else { panic!("a scan") };
    let held_bytes = session.budget.reserved_bytes();
    let mut stream = futures::executor::block_on_stream(participant.stream());
    stream.next().unwrap().unwrap();
    assert!(session.budget.reserved_bytes() > held_bytes + RECORDS);
    session.cache.release(u64::MAX);
    assert_eq!(session.budget.reserved_bytes(), held_bytes);
    while stream.next().is_some() {}
    assert!(session.maps().is_empty());
}

#[test]
fn a_map_gives_way_to_newcomers_only_where_it_takes_much_of_the_cache_and_to_queries_always() {
    let session = Session::new(64 << 20, None);
    for low in [0, 100] {
        session.ask(&["a", "b"], &between(low, low + 50));
    }
    let map = session.maps().remove(0);
    for (limit_bytes, is_spared) in [(map.size_bytes * 8, true), (map.size_bytes * 8 - 8, false)] {
        let displaceable = session.cache.catalog().displaceable(Terms { limit_bytes, ..session.cache.terms() });
        assert_eq!(
            displaceable.iter().all(|item| Candidate::of(item.id).item != map.id),
            is_spared,
            "of {limit_bytes} bytes"
        );
        assert!(displaceable.len() >= 2, "rows are among them");
    }
    session.cache.release(64 << 20);
    assert_eq!(session.maps().len(), 0);
}

#[test]
fn a_map_that_serves_few_queries_gives_way_to_newcomers_and_is_worth_less() {
    let session = Session::new(64 << 20, None);
    for low in [0, 100] {
        session.ask(&["a", "b"], &between(low, low + 50));
    }
    let map = session.maps().remove(0);
    let is_displaceable = || {
        let displaceable = session.cache.catalog().displaceable(session.cache.terms());
        displaceable.iter().any(|item| Candidate::of(item.id).item == map.id)
    };
    let expected = || {
        let catalog = session.cache.catalog();
        let item = catalog.item(map.id).unwrap();
        let expected = catalog.expected_of_map(session.cache.terms(), item).unwrap();
        assert_eq!(catalog.measured(session.cache.terms(), item).use_count, expected.use_count);
        expected
    };
    assert!(!is_displaceable());
    let before = expected();
    assert_eq!(before.served_share, 1.0);
    // Half of the queries, and then more, need what the map does not know.
    let (file, _) = session.open();
    for (count, is_spared) in [(2, true), (3, false)] {
        while session.cache.catalog().demands.values().map(|demand| demand.queries().len()).sum::<usize>() < 2 + count {
            let mut other = request(&["a", "s.z"], &between(0, 50));
            other.source.path = Arc::clone(file.path());
            session.cache.catalog().note_demand(session.cache.policy(), &other, 3);
        }
        assert_eq!(!is_displaceable(), is_spared);
    }
    let after = expected();
    assert!((after.served_share - 0.4).abs() < 1e-9);
    assert!(after.use_count <= before.use_count, "{after:?} of {before:?}");
}

#[test]
fn a_map_that_finds_no_memory_is_not_tried_again_at_once() {
    let session = Session::new(6_000, None);
    let made: Vec<bool> = (0..10)
        .map(|step| session.ask(&["a", "b"], &between(step * 20, step * 20)).is_some_and(|scan| scan.makes_map))
        .collect();
    assert_eq!(made, [false, true, true, true, false, false, true, false, false, false]);
    assert!(session.maps().is_empty());
}

#[test]
fn a_source_that_gives_no_pieces_makes_no_map() {
    let (cache, _budget) = super::fake::cache(64 << 20);
    let fake = Arc::new(Fake::default());
    for low in [0, 100, 200] {
        let range = between(low, low + 50);
        let pinned = pin(&cache, &object("f", "1", 1000));
        let start = cache.begin(&request(&["a", "b"], &range), &pinned, true, fake.factory());
        assert_eq!(super::fake::answer(start, 2).unwrap(), expected(1000, &range));
    }
    assert_eq!(fake.open_count.load(Ordering::Relaxed), 3);
    assert!(cache.items().iter().all(|item| !item.is_map));
}

#[test]
fn random_requests_of_a_changing_file_are_answered_like_scans_whatever_maps_there_are() {
    let mut used_count = 0;
    for seed in 0..32 {
        let mut random = Random::new(seed);
        let limit_bytes = [30_000, 200_000, 1 << 20, 64 << 20][seed as usize % 4];
        let store = Arc::new(Store::default());
        let store = random.one_in(2).then_some(&store);
        let record_count = if random.one_in(3) { MANY_RECORDS } else { RECORDS };
        let mut session = Session::sized(record_count, limit_bytes, store);
        told(&session.cache, AdmissionMode::ALL[random.below_u64(3) as usize]);
        for _ in 0..25 {
            let mut names = vec!["a", "b"];
            if random.one_in(2) {
                names.push("w");
            }
            let low = random.below_u64(900) as i64;
            let range = between(low, low + random.below_u64(200) as i64);
            let mut asked = request(&names, &range);
            if random.one_in(3) {
                asked.retain_predicate = Arc::default();
            }
            asked.can_map = !random.one_in(10);
            session.ask_for(asked);
            assert!(session.budget.reserved_bytes() <= limit_bytes, "seed {seed}");
            match random.below_u64(20) {
                0 => session.append(1 + random.below_u64(300)),
                1 => session.rewrite(random.below_u64(3) as usize),
                2 => session.cache.clear(),
                3 => {
                    session.cache.release(random.below_u64(limit_bytes));
                }
                4 => {
                    used_count += session.kinds(DecisionKind::MapUsed);
                    let folder = Arc::clone(&session.folder);
                    session = Session {
                        record_count: session.record_count,
                        ..Session::of(folder, limit_bytes, store, HOUR_NS)
                    };
                }
                _ => {}
            }
        }
        used_count += session.kinds(DecisionKind::MapUsed);
    }
    assert!(used_count > 50, "{used_count} scans went by a map");
}

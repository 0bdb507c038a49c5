//! Items of positions: made where rows cost too much or find no room, and given up for rows when they are asked for
//! again.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use futures::StreamExt;
use futures::task::noop_waker_ref;
use thermocline_budget::Budget;
use thermocline_hardware::ManualClock;
use thermocline_predicate::Conjunction;
use thermocline_seeded::Random;

use super::fake::*;
use crate::*;

const RECORDS: u64 = 1000;

fn lazy_cache(limit_bytes: u64) -> (Arc<OperatorCache>, Budget) {
    let (cache, budget) = cache(limit_bytes);
    told(&cache, AdmissionMode::Lazy);
    (cache, budget)
}

fn ask(cache: &Arc<OperatorCache>, fake: &Arc<Fake>, request: &SelectRequest) -> Vec<i64> {
    let pinned = pin(cache, &object("f", "1", RECORDS));
    answer(cache.begin(request, &pinned, true, fake.factory()), 3).unwrap()
}

fn kinds(cache: &OperatorCache) -> Vec<DecisionKind> {
    cache.decisions().iter().map(|decision| decision.kind).collect()
}

fn count_of(predicate: &Conjunction) -> u64 {
    expected(RECORDS, predicate).len() as u64
}

fn laziness(cache: &OperatorCache) -> Vec<bool> {
    cache.items().iter().map(|item| item.is_lazy).collect()
}

#[test]
fn a_request_that_no_row_can_meet_is_not_asked_for_fields_that_it_does_not_name() {
    let nothing = Arc::new(Conjunction::all().and(path("b"), thermocline_predicate::Domain::points([])));
    let range = between(100, 300);
    for is_lazy in [true, false] {
        let (cache, _budget) = lazy_cache(64 << 20);
        if !is_lazy {
            told(&cache, AdmissionMode::Eager);
        }
        let fake = Arc::new(Fake::default());
        ask(&cache, &fake, &request(&["a", "b"], &range));
        let pinned = pin(&cache, &object("f", "1", RECORDS));
        let wanted = request(&["b", "s.z"], &nothing);
        match cache.explain(&wanted, &pinned) {
            Explanation::Promote { residual, .. } => assert!(residual.is_all(), "its own predicate is scanned for"),
            other => assert!(!is_lazy && matches!(other, Explanation::Miss { .. }), "{other:?}"),
        }
        assert!(ask(&cache, &fake, &wanted).is_empty());
    }
}

#[test]
fn a_first_scan_leaves_positions_and_the_second_request_makes_rows_of_them() {
    for morsel_records in [1, 7, 16, 5000] {
        let (cache, budget) = lazy_cache(64 << 20);
        let fake = Arc::new(Fake { morsel_records, ..Fake::default() });
        let range = between(100, 300);
        assert_eq!(ask(&cache, &fake, &request(&["a", "b"], &range)), expected(RECORDS, &range));
        assert_eq!(kinds(&cache), [DecisionKind::Miss, DecisionKind::Lazy, DecisionKind::Admit]);
        let items = cache.items();
        assert_eq!((items.len(), items[0].is_lazy, items[0].row_count, items[0].chunk_count), (1, true, 0, 0));
        assert!(items[0].size_bytes <= budget.reserved_bytes());
        // Columns that the first scan did not read are at the same records.
        let wanted = request(&["a", "b", "s.z"], &range);
        let pinned = pin(&cache, &object("f", "1", RECORDS));
        let Explanation::Promote { record_count, residual, .. } = cache.explain(&wanted, &pinned) else {
            panic!("expected a promotion, {:?}", cache.explain(&wanted, &pinned));
        };
        assert_eq!((record_count, residual.is_all()), (count_of(&range), true));
        let read_before: u64 = fake.decode_counts.lock().values().sum();
        assert_eq!(ask(&cache, &fake, &wanted), expected(RECORDS, &range));
        assert_eq!(kinds(&cache)[3..], [DecisionKind::Promote, DecisionKind::Admit, DecisionKind::Evict]);
        let read = fake.decode_counts.lock().values().sum::<u64>() - read_before;
        assert_eq!(read, count_of(&range).div_ceil(morsel_records), "only these records are read");
        let items = cache.items();
        assert_eq!((items.len(), items[0].is_lazy, items[0].row_count), (1, false, count_of(&range)));
        assert_eq!((items[0].end_bytes, items[0].use_count), (RECORDS * RECORD_BYTES, 3));
        let narrow = between(120, 130);
        assert!(matches!(cache.explain(&request(&["a", "b"], &narrow), &pinned), Explanation::Hit { .. }));
        assert_eq!(ask(&cache, &fake, &request(&["a", "b"], &narrow)), expected(RECORDS, &narrow));
        cache.clear();
        assert!(budget.reserved_bytes() < 10_000, "{} bytes left", budget.reserved_bytes());
    }
}

#[test]
fn a_narrower_request_promotes_the_whole_item_if_it_can_tell_its_rows_and_reads_its_own_if_not() {
    let (cache, _budget) = lazy_cache(64 << 20);
    let fake = Arc::new(Fake::default());
    let (wide, narrow) = (between(100, 300), between(150, 200));
    ask(&cache, &fake, &request(&["b"], &wide));
    // What is wanted lacks the column that would tell the narrower rows from the others.
    assert_eq!(ask(&cache, &fake, &request(&["b"], &narrow)), expected(RECORDS, &narrow));
    assert_eq!(fake.specs.lock()[1].predicate, narrow);
    assert_eq!(laziness(&cache), [true, false], "others may still ask for the rest");
    assert_eq!(ask(&cache, &fake, &request(&["a", "b"], &narrow)), expected(RECORDS, &narrow));
    assert_eq!(fake.specs.lock()[2].predicate, wide);
    assert!(!laziness(&cache).contains(&true));
    let other = between(210, 250);
    assert_eq!(ask(&cache, &fake, &request(&["a", "b"], &other)), expected(RECORDS, &other));
    assert_eq!(fake.open_count.load(Ordering::Relaxed), 3);
}

/// A cache under whose clock each morsel takes so long to decode, and then to keep, in nanoseconds.
fn timed(decode_ns: u64, cache_ns: u64, threshold: f64) -> (Arc<OperatorCache>, Arc<Fake>) {
    timed_with(CacheOptions::default(), decode_ns, cache_ns, threshold)
}

fn timed_with(options: CacheOptions, decode_ns: u64, cache_ns: u64, threshold: f64) -> (Arc<OperatorCache>, Arc<Fake>) {
    let clock = Arc::new(SteppedClock::default());
    let budget = Budget::new(64 << 20, None);
    let cache = OperatorCache::new(options, &budget, Arc::clone(&clock) as _);
    cache.set_admission_rule(AdmissionRule { threshold, ..AdmissionRule::default() });
    let fake = Arc::new(Fake::default());
    *fake.interrupt.lock() = Some(Box::new(move |seam| {
        if seam == Seam::Decode {
            clock.script(decode_ns, cache_ns);
        }
    }));
    (cache, fake)
}

/// A clock that moves when it is told to: after a script was given, the next reading is later by its first step, the
/// one after by its second too.
#[derive(Debug)]
struct SteppedClock {
    clock: ManualClock,
    steps: parking_lot::Mutex<Vec<u64>>,
}

impl Default for SteppedClock {
    fn default() -> Self {
        Self { clock: ManualClock::new(0), steps: parking_lot::Mutex::default() }
    }
}

impl SteppedClock {
    fn script(&self, first_ns: u64, second_ns: u64) {
        *self.steps.lock() = vec![second_ns, first_ns];
    }
}

impl thermocline_hardware::Clock for SteppedClock {
    fn monotonic_ns(&self) -> u64 {
        if let Some(step) = self.steps.lock().pop() {
            self.clock.advance_ns(step);
        }
        self.clock.monotonic_ns()
    }

    fn wall_ns(&self) -> i64 {
        self.clock.wall_ns()
    }
}

#[test]
fn rows_are_kept_while_that_costs_little_and_positions_when_it_does_not() {
    let range = between(100, 300);
    for (decode_ns, cache_ns, threshold, is_lazy) in
        [(900, 99, 0.1, false), (900, 120, 0.1, true), (900, 120, 0.2, false), (10, 1, 0.0, true), (10, 0, 0.0, false)]
    {
        let (cache, fake) = timed(decode_ns, cache_ns, threshold);
        assert_eq!(ask(&cache, &fake, &request(&["a", "b"], &range)), expected(RECORDS, &range));
        assert_eq!(laziness(&cache), [is_lazy], "{cache_ns} of {decode_ns} ns, at most {threshold}");
        let decisions = cache.decisions();
        let lazy = decisions.iter().find(|decision| decision.kind == DecisionKind::Lazy);
        assert_eq!(lazy.is_some(), is_lazy);
        if let Some(lazy) = lazy {
            let number = |name: &str| lazy.numbers.iter().find(|number| number.0 == name).unwrap().1;
            let overhead = cache_ns as f64 / (cache_ns + decode_ns) as f64;
            assert!((number("overhead") - overhead).abs() < 0.01, "{:?}", lazy.numbers);
        }
    }
}

#[test]
fn memory_that_kept_rows_leave_to_none_is_part_of_what_keeping_costs() {
    for (fresh_ns_per_byte, is_lazy) in [(0.0, false), (1e9, true)] {
        let options = CacheOptions { fresh_ns_per_byte, ..CacheOptions::default() };
        let (cache, fake) = timed_with(options, 900, 0, 0.5);
        let range = between(100, 300);
        assert_eq!(ask(&cache, &fake, &request(&["a", "b"], &range)), expected(RECORDS, &range));
        assert_eq!(laziness(&cache), [is_lazy], "{fresh_ns_per_byte} ns a byte");
        let decisions = cache.decisions();
        let lazy = decisions.iter().filter(|decision| decision.kind == DecisionKind::Lazy);
        for (name, number) in lazy.flat_map(|decision| &decision.numbers) {
            assert!(*name != "overhead" || *number == 1.0, "no more than the scan took: {number}");
        }
    }
}

#[test]
fn a_file_of_which_anything_is_kept_is_in_use_and_its_rows_are_kept() {
    let (cache, _budget) = lazy_cache(64 << 20);
    let fake = Arc::new(Fake::default());
    ask(&cache, &fake, &request(&["a", "b"], &between(0, 100)));
    ask(&cache, &fake, &request(&["a", "b"], &between(500, 600)));
    assert_eq!(laziness(&cache), [true, false]);
    // Another list of the same file is the same file.
    let elements = Arc::new(Fake { unnests: true, ..Fake::default() });
    let source = SourceKey { unnest: Some(path("l")), ..source("f") };
    ask(&cache, &elements, &SelectRequest { source, ..request(&["b"], &between(0, 50)) });
    assert_eq!(laziness(&cache), [true, false, false]);
}

#[test]
fn who_wants_rows_gets_them_and_files_that_cannot_be_read_by_position_are_never_lazy() {
    let range = between(100, 300);
    let plain = request(&["a", "b"], &range);
    let requests = [
        (AdmissionMode::Eager, plain.clone(), true),
        (AdmissionMode::Lazy, SelectRequest { can_seek: false, ..plain.clone() }, false),
        (AdmissionMode::Lazy, SelectRequest { may_skip: true, ..plain.clone() }, false),
    ];
    for (mode, request, notes_positions) in requests {
        let (cache, _budget) = cache(64 << 20);
        told(&cache, mode);
        let fake = Arc::new(Fake::default());
        ask(&cache, &fake, &request);
        assert_eq!((laziness(&cache), fake.specs.lock()[0].notes_positions), (vec![false], notes_positions));
    }
    // Nor may a lazy item serve who leaves out bad records.
    let (cache, _budget) = lazy_cache(64 << 20);
    let fake = Arc::new(Fake::default());
    ask(&cache, &fake, &plain);
    let pinned = pin(&cache, &object("f", "1", RECORDS));
    let skipping = SelectRequest { may_skip: true, ..plain };
    assert!(matches!(cache.explain(&skipping, &pinned), Explanation::Miss { .. }));
}

#[test]
fn a_part_of_the_file_without_positions_leaves_no_lazy_item() {
    for no_positions_at in [0, 1, 40, 62] {
        let (cache, budget) = lazy_cache(64 << 20);
        let fake = Arc::new(Fake { no_positions_at: Some(no_positions_at), ..Fake::default() });
        let range = between(100, 300);
        assert_eq!(ask(&cache, &fake, &request(&["a", "b"], &range)), expected(RECORDS, &range));
        assert!(!laziness(&cache).contains(&true), "{:?}", kinds(&cache));
        cache.clear();
        assert!(budget.reserved_bytes() < 10_000, "{} bytes left", budget.reserved_bytes());
    }
}

#[test]
fn rows_without_room_leave_positions_and_these_serve_while_rows_still_find_none() {
    let (cache, budget) = cache(60_000);
    let fake = Arc::new(Fake::default());
    let range = between(0, 300);
    // 300 texts of 1,000 bytes each fit nowhere.
    let wanted = request(&["a", "b", "w"], &range);
    assert_eq!(ask(&cache, &fake, &wanted), expected(RECORDS, &range));
    assert_eq!(kinds(&cache), [DecisionKind::Miss, DecisionKind::Refuse, DecisionKind::Lazy, DecisionKind::Admit]);
    assert_eq!(laziness(&cache), [true]);
    for _ in 0..2 {
        assert_eq!(ask(&cache, &fake, &wanted), expected(RECORDS, &range));
        assert!(fake.specs.lock().last().unwrap().positions.is_some());
        assert_eq!(laziness(&cache), [true], "{:?}", kinds(&cache));
    }
    assert!(budget.reserved_bytes() <= 60_000);
}

#[test]
fn joiners_of_a_scan_that_goes_lazy_read_on_alone_and_get_every_row_once() {
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let (cache, budget) = lazy_cache(64 << 20);
        let fake = Arc::new(Fake {
            morsel_records: 1 + random.below_u64(30),
            fetch_polls: random.below_u64(3),
            ..Fake::default()
        });
        let range = between(100, 800);
        let wanted = request(&["a", "b"], &range);
        let pinned = pin(&cache, &object("f", "1", RECORDS));
        let start = || match cache.begin(&wanted, &pinned, true, fake.factory()) {
            Start::Wait(_) => panic!("the request may not wait"),
            Start::Scan(participant) => participant,
            Start::Hit { .. } | Start::Combine { .. } => panic!("nothing is kept yet"),
        };
        let participants: Vec<_> = (0..3).map(|_| start()).collect();
        let mut streams: Vec<Option<_>> = (0..6)
            .map(|index| Some((index % 3, futures::executor::block_on_stream(participants[index % 3].stream()))))
            .collect();
        let mut found = vec![Vec::new(); 3];
        // One leaves early now and then, the one that goes on with the positions among them.
        let leaver = random.one_in(3).then(|| random.below_u64(3) as usize);
        let mut participants: Vec<_> = participants.into_iter().map(Some).collect();
        let mut steps = 0;
        while streams.iter().any(Option::is_some) {
            steps += 1;
            if steps == 40
                && let Some(leaver) = leaver
            {
                participants[leaver] = None;
                streams
                    .iter_mut()
                    .filter(|stream| stream.as_ref().is_some_and(|(of, _)| *of == leaver))
                    .for_each(|s| *s = None);
            }
            let at = random.below_u64(6) as usize;
            let Some((of, stream)) = &mut streams[at] else { continue };
            match stream.next() {
                Some(rows) => {
                    found[*of].extend(surviving(rows.unwrap().rows(), &columns(&["a", "b"]), &Conjunction::all()))
                }
                None => streams[at] = None,
            }
        }
        for (of, mut rows) in found.into_iter().enumerate().filter(|(of, _)| Some(*of) != leaver) {
            rows.sort_unstable();
            assert_eq!(rows, expected(RECORDS, &range), "seed {seed}, participant {of}");
        }
        drop(participants);
        assert!(fake.most_decodes() >= 2, "who joined reads anew");
        if leaver.is_none() {
            assert_eq!(laziness(&cache), [true], "seed {seed}: {:?}", kinds(&cache));
            assert_eq!(ask(&cache, &fake, &wanted), expected(RECORDS, &range), "seed {seed}");
        }
        cache.clear();
        assert!(budget.reserved_bytes() < 10_000, "seed {seed}: {} bytes left", budget.reserved_bytes());
    }
}

#[test]
fn who_goes_on_with_the_positions_reads_rows_it_lost_after_the_item_is_made() {
    let (cache, _budget) = lazy_cache(64 << 20);
    // Three morsels are the sample.
    let fake = Arc::new(Fake { morsel_records: 11, ..Fake::default() });
    let range = between(100, 800);
    let wanted = request(&["a", "b"], &range);
    let pinned = pin(&cache, &object("f", "1", RECORDS));
    let start = || match cache.begin(&wanted, &pinned, true, fake.factory()) {
        Start::Wait(_) => panic!("the request may not wait"),
        Start::Scan(participant) => participant,
        Start::Hit { .. } | Start::Combine { .. } => panic!("nothing is kept yet"),
    };
    let (first, second) = (start(), start());
    let mut stream = futures::executor::block_on_stream(first.stream());
    let rows_of = |rows: &Delivered| surviving(rows.rows(), &columns(&["a", "b"]), &Conjunction::all());
    let mut found = rows_of(&stream.next().unwrap().unwrap());
    // While the first decodes a second morsel, the second takes the first one and decodes a third, which is kept.
    let mut others = second.stream();
    let other_found = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let (mut decode_count, found_within) = (0, Arc::clone(&other_found));
    *fake.interrupt.lock() = Some(Box::new(move |seam| {
        decode_count += u64::from(seam == Seam::Decode);
        if seam == Seam::Decode && decode_count == 1 {
            for _ in 0..2 {
                let mut context = Context::from_waker(noop_waker_ref());
                let Poll::Ready(Some(rows)) = others.poll_next_unpin(&mut context) else { panic!("rows are at hand") };
                let rows = rows.unwrap();
                found_within.lock().extend(surviving(rows.rows(), &columns(&["a", "b"]), &Conjunction::all()));
            }
        }
    }));
    for rows in &mut stream {
        found.extend(rows_of(&rows.unwrap()));
    }
    found.sort_unstable();
    assert_eq!(found, expected(RECORDS, &range));
    assert_eq!(laziness(&cache), [true], "{:?}", kinds(&cache));
    *fake.interrupt.lock() = None;
    let mut other_found = std::mem::take(&mut *other_found.lock());
    for rows in futures::executor::block_on_stream(second.stream()) {
        other_found.extend(rows_of(&rows.unwrap()));
    }
    other_found.sort_unstable();
    assert_eq!(other_found, expected(RECORDS, &range));
}

#[test]
fn positions_go_with_their_file_and_are_inherited_as_growable() {
    let (cache, _budget) = lazy_cache(64 << 20);
    let fake = Arc::new(Fake::default());
    let range = between(100, 300);
    let wanted = request(&["a", "b"], &range);
    ask(&cache, &fake, &wanted);
    // Another content under the same name.
    let other = pin(&cache, &object("f", "2", RECORDS));
    assert!(laziness(&cache).is_empty());
    assert!(kinds(&cache).contains(&DecisionKind::Invalidate));
    assert_eq!(answer(cache.begin(&wanted, &other, true, fake.factory()), 2).unwrap(), expected(RECORDS, &range));
    assert_eq!(laziness(&cache), [true]);
    assert_eq!(answer(cache.begin(&wanted, &other, true, fake.factory()), 2).unwrap(), expected(RECORDS, &range));
    assert_eq!(laziness(&cache), [false]);
    let Start::Hit { item, .. } = cache.begin(&wanted, &other, true, fake.factory()) else { panic!("expected a hit") };
    assert!(item.growable, "a scan by positions can't tell, but the first could");
}

#[test]
fn a_file_that_changes_while_its_positions_are_read_fails_and_keeps_nothing_new() {
    let (cache, _budget) = lazy_cache(64 << 20);
    let fake = Arc::new(Fake::default());
    let wanted = request(&["a", "b"], &between(100, 300));
    ask(&cache, &fake, &wanted);
    fake.finish_fails.store(true, Ordering::Relaxed);
    let pinned = pin(&cache, &object("f", "1", RECORDS));
    let error = answer(cache.begin(&wanted, &pinned, true, fake.factory()), 2).unwrap_err().to_string();
    assert!(error.contains("changed while"), "{error}");
    assert!(!laziness(&cache).contains(&false));
}

#[test]
fn what_is_dropped_while_a_scan_gathers_positions_is_not_made_again_by_it() {
    for at in [10, 40] {
        let (cache, budget) = lazy_cache(64 << 20);
        let fake = Arc::new(Fake::default());
        let (count, cleared) = (std::sync::atomic::AtomicU64::new(0), Arc::clone(&cache));
        *fake.interrupt.lock() = Some(Box::new(move |seam| {
            if seam == Seam::Decode && count.fetch_add(1, Ordering::Relaxed) == at {
                cleared.clear();
                assert!(cleared.reserved_bytes() < 2000, "{} bytes are held still", cleared.reserved_bytes());
            }
        }));
        let range = between(100, 300);
        assert_eq!(ask(&cache, &fake, &request(&["a", "b"], &range)), expected(RECORDS, &range));
        assert!(cache.items().is_empty(), "{:?}", kinds(&cache));
        *fake.interrupt.lock() = None;
        assert!(budget.reserved_bytes() < 10_000, "{} bytes left", budget.reserved_bytes());
    }
}

#[test]
fn lazy_items_are_evicted_like_others_and_remembered() {
    let (cache, budget) = lazy_cache(64 << 20);
    let fake = Arc::new(Fake::default());
    let range = between(100, 300);
    ask(&cache, &fake, &request(&["a", "b"], &range));
    let query = budget.account("query", thermocline_budget::Purpose::Query);
    let all = query.try_reserve((64 << 20) - budget.reserved_bytes() + 500).unwrap();
    assert!(cache.items().is_empty());
    assert!(kinds(&cache).contains(&DecisionKind::Evict));
    drop(all);
    assert_eq!(ask(&cache, &fake, &request(&["a", "b"], &range)), expected(RECORDS, &range));
    assert_eq!(cache.items()[0].use_count, 2, "it is remembered");
}

#[test]
fn of_many_lazy_items_of_a_file_the_latest_stay() {
    let (cache, budget) = lazy_cache(64 << 20);
    let fake = Arc::new(Fake::default());
    let pinned = pin(&cache, &object("f", "1", RECORDS));
    // All begin before any is done: later ones would find the file in use.
    let ranges: Vec<_> = (0..70).map(|number| between(number * 10, number * 10 + 9)).collect();
    let mut streams: Vec<_> = ranges
        .iter()
        .map(|range| match cache.begin(&request(&["a", "b"], range), &pinned, true, fake.factory()) {
            Start::Wait(_) => panic!("the request may not wait"),
            Start::Scan(participant) => futures::executor::block_on_stream(participant.stream()),
            Start::Hit { .. } | Start::Combine { .. } => panic!("nothing is kept yet"),
        })
        .collect();
    for stream in &mut streams {
        (0..3).for_each(|_| drop(stream.next().unwrap().unwrap()));
    }
    for stream in &mut streams {
        stream.for_each(|rows| drop(rows.unwrap()));
    }
    let items = cache.items();
    assert!(items.iter().all(|item| item.is_lazy));
    let kept: Vec<_> = items.iter().map(|item| Arc::clone(&item.predicate)).collect();
    assert_eq!(kept, ranges[6..]);
    let reasons = cache.decisions().into_iter().filter(|decision| decision.kind == DecisionKind::Evict);
    assert!(reasons.map(|decision| decision.reason).eq(["too many items of positions of one file"; 6]));
    drop(streams);
    cache.clear();
    assert!(budget.reserved_bytes() < 10_000);
}

fn unnesting(names: &[&str], predicate: &Arc<Conjunction>) -> SelectRequest {
    SelectRequest { source: SourceKey { unnest: Some(path("l")), ..source("f") }, ..request(names, predicate) }
}

/// `e` of the elements of records in a range of `a`, sorted.
fn elements(cache: &Arc<OperatorCache>, fake: &Arc<Fake>, request: &SelectRequest) -> Vec<i64> {
    let pinned = pin(cache, &object("f", "1", RECORDS));
    let clock = ManualClock::new(0);
    let of = |cut: CutRows| longs(&cut.columns[0]).values().to_vec();
    let mut found = Vec::new();
    match cache.begin(request, &pinned, true, fake.factory()) {
        Start::Hit { item, residual, view, .. } => {
            let cut = item.cut(view, &residual, &[path("l.e")]).unwrap();
            for piece in item.pieces() {
                let rows = item.read(&piece, &cut, &clock, &mut Reading::default()).unwrap();
                rows.for_each(|rows| found.extend(of(rows.unwrap())));
            }
        }
        Start::Combine { .. } => panic!("each range is kept as a whole"),
        Start::Wait(_) => panic!("the request may not wait"),
        Start::Scan(participant) => {
            let cut = participant.cut(&[path("l.e")]).unwrap();
            let streams = futures::stream::select_all((0..3).map(|_| participant.stream()));
            for rows in futures::executor::block_on_stream(streams) {
                cut.apply(&rows.unwrap()).unwrap().for_each(|rows| found.extend(of(rows.unwrap())));
            }
        }
    }
    found.sort_unstable();
    found
}

#[test]
fn elements_are_found_again_by_their_records_and_so_are_records_without_any() {
    let fake = Arc::new(Fake { unnests: true, ..Fake::default() });
    let of = |range: &Conjunction, keeps: &dyn Fn(i64) -> bool| -> Vec<i64> {
        let records = expected(RECORDS, range).into_iter().map(|record| record as u64);
        let mut all: Vec<i64> = records.flat_map(elements_of).filter(|&element| keeps(element)).collect();
        all.sort_unstable();
        all
    };
    // Of records alone: those without elements are kept too, and answer who asks for records.
    let (cache, _budget) = lazy_cache(64 << 20);
    let range = between(100, 500);
    for is_lazy in [true, false, false] {
        assert_eq!(elements(&cache, &fake, &unnesting(&["a", "b", "l.e"], &range)), of(&range, &|_| true));
        assert_eq!(laziness(&cache), [is_lazy]);
    }
    assert!(fake.specs.lock().iter().all(|spec| spec.keeps_empty));
    let pinned = pin(&cache, &object("f", "1", RECORDS));
    let Start::Hit { item, residual, view, .. } =
        cache.begin(&request(&["a", "b"], &range), &pinned, true, fake.factory())
    else {
        panic!("expected a hit");
    };
    assert_eq!(
        (view, residual.is_all(), item.cut(view, &residual, &[path("b")]).is_some()),
        (View::Records, true, true)
    );
    let entries: u64 = item.chunks.iter().map(|chunk| chunk.content().entry_count() as u64).sum();
    assert_eq!(entries, count_of(&range), "records without elements among them");
    drop(item);
    // Of elements too: records whose elements all fail are not kept, in neither.
    let (cache, _budget) = lazy_cache(64 << 20);
    let below = thermocline_predicate::Domain::interval(
        std::ops::Bound::Unbounded,
        std::ops::Bound::Excluded(thermocline_predicate::Scalar::Int(5_000)),
    );
    let both = Arc::new(range.as_ref().clone().and(path("l.e"), below));
    fake.specs.lock().clear();
    for is_lazy in [true, false, false] {
        let found = elements(&cache, &fake, &unnesting(&["a", "b", "l.e"], &both));
        assert_eq!(found, of(&range, &|element| element < 5_000));
        assert_eq!(laziness(&cache), [is_lazy]);
    }
    assert!(fake.specs.lock().iter().all(|spec| !spec.keeps_empty));
    // A range of elements within positions of records.
    let (cache, _budget) = lazy_cache(64 << 20);
    elements(&cache, &fake, &unnesting(&["b"], &range).with_e());
    let found = elements(&cache, &fake, &SelectRequest { columns: columns(&["b", "l.e"]), ..unnesting(&["b"], &both) });
    assert_eq!(found, of(&range, &|element| element < 5_000));
}

trait WithE {
    fn with_e(self) -> Self;
}

impl WithE for SelectRequest {
    fn with_e(self) -> Self {
        Self { columns: columns(&["b", "l.e"]), ..self }
    }
}

#[test]
fn random_requests_are_answered_like_scans_under_every_rule_and_memory() {
    let mut promoted_count = [0; 5];
    for seed in 0..90 {
        let mut random = Random::new(seed);
        let limit_bytes = [6_500, 9_000, 40_000, 200_000, 64 << 20][seed as usize % 5];
        let (cache, budget) = cache(limit_bytes);
        let fake = Arc::new(Fake {
            morsel_records: 1 + random.below_u64(90),
            fetch_polls: random.below_u64(2),
            ..Fake::default()
        });
        let (mut tag, mut records) = (0, RECORDS);
        for _ in 0..40 {
            told(&cache, AdmissionMode::ALL[random.below_u64(3) as usize]);
            if random.one_in(12) {
                tag += 1;
                records = 1 + random.below_u64(1500);
            }
            if random.one_in(15) {
                cache.clear();
            }
            let mut names = vec!["b"];
            for name in ["a", "a", "s.z", "w"] {
                if random.one_in(3) && !names.contains(&name) {
                    names.push(name);
                }
            }
            names.sort_unstable();
            let low = random.below_u64(900) as i64;
            let range = between(low, low + random.below_u64(300) as i64);
            let retain = if random.one_in(4) { Arc::default() } else { Arc::clone(&range) };
            let request = SelectRequest { retain_predicate: retain, ..request(&names, &range) };
            let pinned = pin(&cache, &object("f", &tag.to_string(), records));
            let stream_count = 1 + random.below_u64(3) as usize;
            let found = answer(cache.begin(&request, &pinned, true, fake.factory()), stream_count).unwrap();
            assert_eq!(found, expected(records, &range), "seed {seed}");
            assert!(budget.reserved_bytes() <= limit_bytes, "seed {seed}");
        }
        promoted_count[seed as usize % 5] +=
            kinds(&cache).iter().filter(|kind| **kind == DecisionKind::Promote).count();
        cache.clear();
        assert!(budget.reserved_bytes() < 10_000, "seed {seed}: {} bytes left", budget.reserved_bytes());
    }
    assert!(promoted_count.iter().all(|count| *count > 1), "promotions by memory: {promoted_count:?}");
}

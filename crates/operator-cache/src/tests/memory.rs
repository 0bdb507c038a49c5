//! Limits hold, starved caches answer right, and everything that is reserved is given back.

use std::sync::Arc;

use arrow::array::{Int64Array, StringArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::DataType;
use thermocline_budget::{Budget, Purpose};
use thermocline_hardware::ManualClock;
use thermocline_placement::operator_cache::PolicyName;
use thermocline_placement::operator_cache::layout::Layout;
use thermocline_seeded::Random;

use super::fake::*;
use crate::cache::RECORD_COUNT;
use crate::item::Chunk;
use crate::layout::Content;
use crate::*;

const RECORDS: u64 = 20_000;

fn ask(cache: &Arc<OperatorCache>, fake: &Arc<Fake>, request: &SelectRequest) {
    let pinned = pin(cache, &object("f", "1", RECORDS));
    let found = answer(cache.begin(request, &pinned, true, fake.factory()), 2).unwrap();
    assert_eq!(found, expected(RECORDS, &request.predicate));
}

fn fake() -> Arc<Fake> {
    Arc::new(Fake { morsel_records: 500, ..Fake::default() })
}

#[test]
fn whatever_the_limit_answers_are_right_and_the_limit_holds() {
    // A whole item has about 320 kB.
    for limit_bytes in [0, 100, 3_000, 50_000, 200_000, 400_000, 1 << 20] {
        for policy in PolicyName::ALL {
            let budget = Budget::new(1 << 30, Some(limit_bytes));
            let options = CacheOptions { policy: policy.policy(), ..CacheOptions::default() };
            let cache = OperatorCache::new(options, &budget, Arc::new(ManualClock::new(0)));
            let fake = fake();
            let mut random = Random::new(limit_bytes + 1);
            for _ in 0..60 {
                let low = random.below_u64(900) as i64;
                let high = low + random.below_u64(1000 - low as u64) as i64;
                ask(&cache, &fake, &request(&["a", "b"], &between(low, high)));
                assert!(cache.reserved_bytes() <= limit_bytes, "{} of {limit_bytes}", cache.reserved_bytes());
                let item_bytes: u64 = cache.items().iter().map(|item| item.size_bytes).sum();
                assert!(item_bytes <= cache.reserved_bytes());
            }
            cache.clear();
            assert!(cache.reserved_bytes() < 2000, "{}", cache.reserved_bytes());
        }
    }
}

#[test]
fn reservations_cover_the_buffers_that_are_kept() {
    let (cache, _budget) = cache(64 << 20);
    let fake = fake();
    let request = request(&["a", "b", "s"], &between(0, 700));
    ask(&cache, &fake, &request);
    let pinned = pin(&cache, &object("f", "1", RECORDS));
    let Start::Hit { item, .. } = cache.begin(&request, &pinned, true, fake.factory()) else { panic!("no hit") };
    let buffer_bytes: u64 = item.chunks.iter().map(|chunk| chunk.scanned().size_bytes()).sum();
    assert!(item.size_bytes() >= buffer_bytes);
    assert!(item.size_bytes() < buffer_bytes + buffer_bytes / 10 + 4096, "{} for {buffer_bytes}", item.size_bytes());
    assert!(cache.reserved_bytes() >= item.size_bytes());
}

#[test]
fn what_is_repeated_for_each_element_is_reserved_before_it_is_made() {
    let (cache, budget) = cache(64 << 20);
    let columns = [path("t"), path("l.e")].map(|path| ColumnSpec { path, data_type: DataType::Utf8 });
    // Where there is no room for a thousand of the text, there are no offsets for them either: to make them fails.
    for (text_bytes, has_room) in [(4 << 20, false), (1 << 10, true)] {
        let rows = Rows {
            columns: vec![
                Arc::new(StringArray::from_iter_values(["x".repeat(text_bytes)])),
                Arc::new(StringArray::from_iter_values((0..1000).map(|element| element.to_string()))),
            ],
            elements: Some(Elements {
                offsets: OffsetBuffer::from_lengths([1000]),
                is_element: element_columns(&columns, &path("l")),
            }),
            row_count: 1000,
            record_count: 1,
            skipped_count: 0,
            positions: None,
            map_piece: None,
        };
        let reservation = cache.reserve_if_free(rows.size_bytes()).unwrap();
        let chunk = Arc::new(Chunk::new(Content::Arrays(Arc::new(rows)), reservation));
        let before_bytes = budget.reserved_bytes();
        for layout in Layout::ALL {
            let converted = cache.converted(&[Arc::clone(&chunk)], layout).unwrap();
            let is_repeated = matches!(layout, Layout::Flat | Layout::RowWise);
            assert_eq!(converted.is_some(), has_room || !is_repeated, "{layout}, {text_bytes}");
            for chunk in converted.into_iter().flatten() {
                assert_eq!(chunk.content().layout(), layout);
                assert!(layout == Layout::Nested || chunk.size_bytes() == chunk.content().size_bytes());
            }
            assert_eq!(budget.reserved_bytes(), before_bytes);
        }
    }
}

#[test]
fn what_goes_to_another_layout_and_back_is_as_large_as_before_and_in_even_blocks() {
    let (cache, _) = cache(64 << 20);
    let rows = |count: usize| Rows {
        columns: vec![
            Arc::new(Int64Array::from_iter_values((0..count as i64).map(|row| row << 32))),
            Arc::new(StringArray::from_iter_values((0..4 * count).map(|row| row.to_string()))),
        ],
        elements: Some(Elements {
            offsets: OffsetBuffer::from_lengths(vec![4; count]),
            is_element: [false, true].into(),
        }),
        row_count: 4 * count,
        record_count: count as u64,
        skipped_count: 0,
        positions: None,
        map_piece: None,
    };
    // 16,384 rows are 4096 records.
    for (record_count, block_count) in [(1, 1), (4096, 1), (5000, 1), (6143, 1), (6144, 2), (8192, 2), (13_000, 3)] {
        let scanned = rows(record_count);
        let reservation = cache.reserve_if_free(scanned.size_bytes()).unwrap();
        let chunk = Arc::new(Chunk::new(Content::Arrays(Arc::new(scanned)), reservation));
        for layout in [Layout::Striped, Layout::RowWise] {
            let blocks = cache.converted(&[Arc::clone(&chunk)], layout).unwrap().unwrap();
            let lengths: Vec<usize> = blocks.iter().map(|block| block.content().entry_count()).collect();
            assert_eq!((lengths.len(), lengths.iter().sum::<usize>()), (block_count, record_count), "{lengths:?}");
            assert!(lengths.iter().max().unwrap() - lengths.iter().min().unwrap() < block_count, "{lengths:?}");
            let back = cache.converted(&blocks, Layout::Nested).unwrap().unwrap();
            let bytes = |chunks: &[Arc<Chunk>]| chunks.iter().map(|chunk| chunk.size_bytes()).sum::<u64>() as f64;
            let before_bytes = bytes(&[Arc::clone(&chunk)]);
            assert!(bytes(&back) < 1.02 * before_bytes + 2048.0, "{record_count}: {} {before_bytes}", bytes(&back));
            // Arrays are read in the same pieces.
            let pieces: Vec<usize> = chunk.content().pieces().into_iter().map(|piece| piece.len()).collect();
            assert_eq!(pieces, lengths);
        }
    }
}

#[test]
fn an_item_that_is_read_is_not_evicted_and_keeps_counting() {
    let (cache, budget) = cache(200_000);
    let fake = fake();
    let whole = request(&["a", "b"], &between(0, 999));
    ask(&cache, &fake, &whole);
    let pinned = pin(&cache, &object("f", "1", RECORDS));
    let Start::Hit { item, .. } = cache.begin(&whole, &pinned, true, fake.factory()) else { panic!("no hit") };
    let queries = budget.account("query", Purpose::Query);
    assert!(queries.try_reserve(180_000).is_err(), "the item's memory is in use");
    assert!(cache.reserved_bytes() >= item.size_bytes());
    cache.clear();
    assert!(cache.reserved_bytes() >= item.size_bytes(), "dropped from the cache, still being read");
    drop(item);
    let reserved = queries.try_reserve(180_000);
    assert!(reserved.is_ok(), "{reserved:?}");
}

#[test]
fn a_query_that_needs_memory_gets_it_from_items_and_from_running_scans() {
    let (cache, budget) = cache(200_000);
    let fake = fake();
    let queries = budget.account("query", Purpose::Query);
    ask(&cache, &fake, &request(&["a", "b"], &between(0, 999)));
    assert_eq!(cache.items().len(), 1);
    drop(queries.try_reserve(180_000).unwrap());
    assert!(cache.items().is_empty());

    let wanted = request(&["a", "b"], &between(0, 900));
    let pinned = pin(&cache, &object("f", "1", RECORDS));
    let Start::Scan(participant) = cache.begin(&wanted, &pinned, true, fake.factory()) else { panic!("no scan") };
    let mut stream = futures::executor::block_on_stream(participant.stream());
    let mut found = Vec::new();
    let mut take = |rows: Option<Result<Delivered, CacheError>>| match rows {
        Some(rows) => {
            found.extend(delivered(&participant, &rows.unwrap()));
            true
        }
        None => false,
    };
    for _ in 0..35 {
        assert!(take(stream.next()));
    }
    assert!(cache.reserved_bytes() > 60_000);
    let reserved = queries.try_reserve(180_000).unwrap();
    assert!(cache.reserved_bytes() < 2000);
    while take(stream.next()) {}
    found.sort_unstable();
    assert_eq!(found, expected(RECORDS, &wanted.predicate));
    assert!(cache.items().is_empty(), "the scan had stopped keeping");
    drop(reserved);
}

fn take_part(cache: &Arc<OperatorCache>, fake: &Arc<Fake>, request: &SelectRequest) -> Arc<Participant> {
    let pinned = pin(cache, &object("f", "1", RECORDS));
    match cache.begin(request, &pinned, true, fake.factory()) {
        Start::Scan(participant) => participant,
        other => panic!("{other:?}"),
    }
}

/// Everything, in file order.
fn read_all(participant: &Arc<Participant>) -> Vec<i64> {
    let rows = futures::executor::block_on_stream(participant.stream());
    let mut found: Vec<i64> = rows.flat_map(|rows| delivered(participant, &rows.unwrap())).collect();
    found.sort_unstable();
    found
}

#[test]
fn who_has_read_a_scan_to_its_end_holds_none_of_its_memory() {
    // Small results are laid together for the item; large ones are the item's.
    for morsel_records in [100, 5000] {
        let (cache, budget) = cache(1 << 20);
        let fake = Arc::new(Fake { morsel_records, ..Fake::default() });
        let queries = budget.account("query", Purpose::Query);
        let mut participants = Vec::new();
        // The second scan lays a column beside those of the first.
        for names in [&["a", "b"][..], &["a", "b", "s"]] {
            let participant = take_part(&cache, &fake, &request(names, &Arc::default()));
            assert_eq!(read_all(&participant).len() as u64, RECORDS);
            participants.push(participant);
            let [item] = &cache.items()[..] else { panic!("{:?}", cache.items()) };
            assert!(cache.reserved_bytes() < item.size_bytes + 4096, "{} for {item:?}", cache.reserved_bytes());
        }
        let reserved = queries.try_reserve((1 << 20) - 4096);
        assert!(reserved.is_ok(), "{reserved:?}");
    }
}

#[test]
fn an_item_counts_as_read_until_all_who_took_part_in_its_scan_have_seen_their_rows() {
    let (cache, budget) = cache(200_000);
    let fake = fake();
    let queries = budget.account("query", Purpose::Query);
    let wanted = request(&["a", "b"], &between(0, 999));
    let (first, slow) = (take_part(&cache, &fake, &wanted), take_part(&cache, &fake, &wanted));
    assert_eq!(read_all(&first), expected(RECORDS, &wanted.predicate));
    assert!(queries.try_reserve(180_000).is_err(), "rows wait for the slow one");
    assert_eq!(cache.items().len(), 1, "to evict it would have freed nothing");
    assert_eq!(read_all(&slow), expected(RECORDS, &wanted.predicate));
    assert_eq!(fake.most_decodes(), 1);
    let reserved = queries.try_reserve(180_000);
    assert!(reserved.is_ok(), "{reserved:?}");
}

#[test]
fn a_small_item_with_many_uses_is_kept_and_a_stream_of_others_refused_or_evicted() {
    let budget = Budget::new(1 << 30, Some(480_000));
    let clock = Arc::new(ManualClock::new(0));
    let cache = OperatorCache::new(CacheOptions::default(), &budget, Arc::clone(&clock) as _);
    let fake = fake();
    let hot = request(&["a", "b"], &between(0, 99));
    // Decoding takes time only as far as the clock moves.
    let slow_factory: SourceFactory = {
        let (factory, clock) = (fake.factory(), Arc::clone(&clock));
        Arc::new(move |spec| {
            let source = factory(spec)?;
            Ok(Arc::new(Slow { source, clock: Arc::clone(&clock) }) as Arc<dyn MorselSource>)
        })
    };
    let ask = |request: &SelectRequest| {
        let pinned = pin(&cache, &object("f", "1", RECORDS));
        let start = cache.begin(request, &pinned, true, Arc::clone(&slow_factory));
        let hit = matches!(start, Start::Hit { .. });
        assert_eq!(answer(start, 1).unwrap(), expected(RECORDS, &request.predicate));
        hit
    };
    for _ in 0..10 {
        ask(&hot);
    }
    for low in 0..20 {
        // Where bad records may be left out, each is scanned by itself and not put together from others.
        ask(&SelectRequest { may_skip: true, ..request(&["a", "b"], &between(100 + low, 900 + low)) });
    }
    assert!(ask(&hot), "ten uses outweigh newcomers");
    let kinds: Vec<DecisionKind> = cache.decisions().iter().map(|decision| decision.kind).collect();
    assert!(kinds.contains(&DecisionKind::Evict));
}

struct Slow {
    source: Arc<dyn MorselSource>,
    clock: Arc<ManualClock>,
}

impl MorselSource for Slow {
    fn next_morsel(&self) -> Result<Option<Morsel>, SourceError> {
        self.source.next_morsel()
    }

    fn decode(&self, morsel: Morsel) -> Result<Rows, SourceError> {
        self.clock.advance_ns(1_000_000);
        self.source.decode(morsel)
    }

    fn total_bytes(&self) -> u64 {
        self.source.total_bytes()
    }

    fn finish(&self) -> Result<SourceEnd, SourceError> {
        self.source.finish()
    }
}

#[test]
fn a_scan_too_large_for_the_cache_is_given_up_after_a_sample() {
    let budget = Budget::new(1 << 30, Some(60_000));
    let cache = OperatorCache::new(CacheOptions::default(), &budget, Arc::new(ManualClock::new(0)));
    let fake = fake();
    ask(&cache, &fake, &request(&["a", "b"], &between(0, 999)));
    let refusal = cache.decisions().into_iter().find(|decision| decision.kind == DecisionKind::Refuse).unwrap();
    let number = |name: &str| refusal.numbers.iter().find(|(other, _)| *other == name).unwrap().1;
    assert!(number("scanned_share") < 0.1, "{refusal:?}");
    assert!((90_000.0..140_000.0).contains(&number("estimated_bytes")), "{refusal:?}");
}

#[test]
fn rows_that_share_a_large_buffer_are_copied_before_they_are_kept() {
    let large: arrow::array::ArrayRef = Arc::new((0..100_000).collect::<Int64Array>());
    let columns = vec![large.slice(500, 1000)];
    let rows = Rows {
        columns,
        elements: None,
        row_count: 1000,
        record_count: 0,
        skipped_count: 0,
        positions: None,
        map_piece: None,
    };
    assert!(rows.size_bytes() > 800_000);
    let owned = rows.clone().into_owned();
    assert!(owned.size_bytes() < 10_000, "{}", owned.size_bytes());
    assert_eq!(&owned.columns[0], &rows.columns[0]);
}

fn told_by(cache: &OperatorCache) -> Vec<(DecisionKind, String, &'static str)> {
    let decisions = cache.decisions().into_iter();
    decisions.map(|decision| (decision.kind, decision.path.to_string(), decision.reason)).collect()
}

#[test]
fn more_than_is_asked_for_is_kept_in_the_place_of_what_is_worth_less_and_not_begun_where_it_would_be_refused() {
    for (uses, is_kept) in [(1, true), (200, false)] {
        let (cache, _budget) = timed_cache(13_000);
        let fake = Arc::new(Fake { morsel_records: 5000, ..Fake::default() });
        let ask = |name: &str, request: &SelectRequest| {
            let source = SourceKey { path: Arc::from(name), ..request.source.clone() };
            let pinned = pin(&cache, &object(name, "1", 1000));
            let request = SelectRequest { source, ..request.clone() };
            let answered = answer(cache.begin(&request, &pinned, true, fake.factory()), 1).unwrap();
            assert_eq!(answered, expected(1000, &request.predicate));
        };
        // Rows of another file take most of the room.
        for _ in 0..uses {
            ask("other", &request(&["a", "b"], &between(0, 5000)));
        }
        let widened = |low: i64| SelectRequest {
            retain_predicate: Arc::default(),
            retain_expectation: Expectation { size_bytes: 5_000, execute_ns: 30_000, own_share: 0.0 },
            can_part: false,
            ..request(&["a", "b"], &between(low, low + 20))
        };
        for low in [100, 200, 300, 400, 500, 600, 800, 900] {
            ask("f", &request(&["a", "b"], &between(low, low + 20)));
        }
        ask("f", &widened(700));
        let of_f = cache.items().into_iter().filter(|item| &*item.source.path == "f" && item.predicate.is_all());
        assert_eq!(of_f.count(), usize::from(is_kept), "{:?}", told_by(&cache));
        let read = fake.specs.lock().last().map(|spec| Arc::clone(&spec.predicate));
        assert_eq!(read, Some(if is_kept { Arc::default() } else { between(700, 720) }), "no more than is of use");
    }
}

#[test]
fn files_that_queries_hold_are_not_gone_through_for_each_new_one() {
    let (cache, _budget) = cache(1 << 40);
    let pin_of = |file: usize| pin(&cache, &object(&format!("f{file}"), "1", 1));
    let held: Vec<PinnedSource> = (0..RECORD_COUNT + 1000).map(pin_of).collect();
    assert_eq!(cache.file_counts(), (RECORD_COUNT + 1000, 1));
    drop(held);
    let next = RECORD_COUNT + RECORD_COUNT / 4;
    for file in RECORD_COUNT + 1000..next {
        pin_of(file);
    }
    assert_eq!(cache.file_counts(), (next, 1));
    pin_of(next);
    assert_eq!(cache.file_counts(), (1, 2));
}

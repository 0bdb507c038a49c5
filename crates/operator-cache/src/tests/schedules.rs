//! Shared scans under seeded schedules: one thread polls streams of many participants in random order, which join,
//! leave, are starved and take the rows back, while every result is checked.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::Stream;
use futures::task::noop_waker;
use thermocline_budget::ReclaimableCache;
use thermocline_seeded::Random;

use super::fake::*;
use crate::*;

const RECORDS: u64 = 640;

/// A query in progress.
struct Query {
    request: SelectRequest,
    participant: Arc<Participant>,
    streams: Vec<Option<RowStream>>,
    found: Vec<i64>,
}

impl Query {
    fn begin(
        cache: &Arc<OperatorCache>,
        fake: &Arc<Fake>,
        request: SelectRequest,
        stream_count: usize,
    ) -> Option<Self> {
        let pinned = pin(cache, &object("f", "1", RECORDS));
        let (mut found, scan) = match cache.begin(&request, &pinned, true, fake.factory()) {
            Start::Hit { item, residual, .. } => (read(&item, &residual), None),
            Start::Combine { parts, remainder } => {
                (parts.iter().flat_map(|part| read(&part.item, &part.residual)).collect(), remainder)
            }
            Start::Wait(_) => panic!("the request may not wait"),
            Start::Scan(participant) => (Vec::new(), Some(participant)),
        };
        let Some(participant) = scan else {
            found.sort_unstable();
            assert_eq!(found, expected(RECORDS, &request.predicate));
            return None;
        };
        let streams = (0..stream_count).map(|_| Some(participant.stream())).collect();
        Some(Self { request, participant, streams, found })
    }

    /// Polls one of the streams once. An error ends them all.
    fn poll(&mut self, random: &mut Random) -> Result<(), CacheError> {
        let at = random.below_u64(self.streams.len() as u64) as usize;
        let Some(stream) = &mut self.streams[at] else { return Ok(()) };
        let waker = noop_waker();
        match Pin::new(stream).poll_next(&mut Context::from_waker(&waker)) {
            Poll::Pending => {}
            Poll::Ready(None) => self.streams[at] = None,
            Poll::Ready(Some(rows)) => {
                self.found.extend(delivered(&self.participant, &rows?));
            }
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.streams.iter().all(Option::is_none)
    }

    fn check(mut self, seed: u64) {
        self.found.sort_unstable();
        assert_eq!(self.found, expected(RECORDS, &self.request.predicate), "seed {seed}");
    }
}

fn random_request(random: &mut Random) -> SelectRequest {
    let low = random.below_u64(4) as i64 * 100;
    let high = 999 - random.below_u64(4) as i64 * 100;
    let asked = request(&["a", "b"], &between(low, high));
    // Some have all rows kept.
    let retain_predicate = if random.one_in(2) { Arc::default() } else { Arc::clone(&asked.retain_predicate) };
    SelectRequest { retain_predicate, ..asked }
}

/// Runs queries to their end; returns how many of them were begun.
fn run(seed: u64, fake: &Arc<Fake>, disturbs: bool, leaves: bool) {
    let mut random = Random::new(seed);
    let (cache, _budget) = cache(64 << 20);
    if disturbs {
        told(&cache, AdmissionMode::ALL[seed as usize % 3]);
    }
    let mut queries: Vec<Query> = Vec::new();
    let mut begun_count = 0;
    for poll_count in 0.. {
        assert!(poll_count < 100_000, "no progress, seed {seed}");
        if begun_count < 6 && (queries.is_empty() || random.one_in(20)) {
            begun_count += 1;
            let request = if disturbs { random_request(&mut random) } else { request(&["a", "b"], &between(0, 999)) };
            let stream_count = 1 + random.below_u64(3) as usize;
            queries.extend(Query::begin(&cache, fake, request, stream_count));
        }
        if queries.is_empty() {
            if begun_count == 6 {
                break;
            }
            continue;
        }
        let at = random.below_u64(queries.len() as u64) as usize;
        queries[at].poll(&mut random).unwrap();
        if queries[at].is_done() {
            queries.swap_remove(at).check(seed);
        } else if leaves && random.one_in(60) {
            drop(queries.swap_remove(at));
        }
        if disturbs && random.one_in(80) {
            cache.release(1 << 20);
        }
    }
    if !leaves && !disturbs {
        assert_eq!(fake.most_decodes(), 1, "seed {seed}");
    }
    cache.clear();
    drop(queries);
    let record_bytes = cache.reserved_bytes();
    assert!(record_bytes < 2000, "{record_bytes} bytes are still reserved, seed {seed}");
}

#[test]
fn every_morsel_is_computed_once_and_delivered_once_to_everybody() {
    for seed in 0..300 {
        run(seed, &Arc::new(Fake { fetch_polls: seed % 4, ..Fake::default() }), false, false);
    }
}

#[test]
fn participants_that_leave_change_nothing_for_the_others() {
    for seed in 0..300 {
        run(seed, &Arc::new(Fake { fetch_polls: seed % 4, ..Fake::default() }), false, true);
    }
}

#[test]
fn scans_that_are_told_to_stop_keeping_still_deliver_every_row_once() {
    for seed in 0..600 {
        run(seed, &Arc::new(Fake { fetch_polls: seed % 4, ..Fake::default() }), true, seed % 2 == 0);
    }
}

#[test]
fn scans_that_are_told_to_stop_keeping_within_a_claim_or_a_decode_deliver_every_row_once() {
    for seed in 0..600 {
        let (cache, _budget) = cache(64 << 20);
        let fake = Arc::new(Fake { fetch_polls: seed % 3, ..Fake::default() });
        let mut random = Random::new(seed);
        let request = request(&["a", "b"], &between(0, 999));
        let mut queries: Vec<Query> =
            (0..3).map(|_| Query::begin(&cache, &fake, request.clone(), 2).unwrap()).collect();
        let mut passed_count = random.below_u64(100);
        let interrupted = Arc::clone(&cache);
        *fake.interrupt.lock() = Some(Box::new(move |_| {
            passed_count = passed_count.saturating_sub(1);
            if passed_count == 0 {
                interrupted.release(1 << 20);
            }
        }));
        for poll_count in 0.. {
            assert!(poll_count < 100_000, "no progress, seed {seed}");
            let at = random.below_u64(queries.len() as u64) as usize;
            queries[at].poll(&mut random).unwrap();
            if queries[at].is_done() {
                queries.swap_remove(at).check(seed);
            }
            if queries.is_empty() {
                break;
            }
        }
    }
}

#[test]
fn an_item_is_not_made_of_a_file_that_changed_while_its_scan_ended() {
    let (cache, _budget) = cache(64 << 20);
    let fake = Arc::new(Fake::default());
    let request = request(&["a", "b"], &between(0, 999));
    let pinned = pin(&cache, &object("f", "1", RECORDS));
    let start = cache.begin(&request, &pinned, true, fake.factory());
    let other = Arc::clone(&cache);
    *fake.interrupt.lock() = Some(Box::new(move |seam| {
        if seam == Seam::Finish {
            pin(&other, &object("f", "2", RECORDS));
        }
    }));
    assert_eq!(answer(start, 1).unwrap(), expected(RECORDS, &request.predicate));
    assert!(cache.items().is_empty());
    assert!(cache.reserved_bytes() < 2000);
}

#[test]
fn a_leader_that_stops_reading_in_the_middle_of_a_fetch_holds_nobody_up() {
    let (cache, _budget) = cache(64 << 20);
    let fake = Arc::new(Fake { fetch_polls: 3, ..Fake::default() });
    let mut random = Random::new(1);
    let request = request(&["a", "b"], &between(0, 999));
    let mut leader = Query::begin(&cache, &fake, request.clone(), 1).unwrap();
    leader.poll(&mut random).unwrap();
    let mut follower = Query::begin(&cache, &fake, request, 1).unwrap();
    for _ in 0..1000 {
        follower.poll(&mut random).unwrap();
    }
    assert!(follower.is_done(), "the leader was polled once and then never again");
    follower.check(1);
    while !leader.is_done() {
        leader.poll(&mut random).unwrap();
    }
    leader.check(1);
    assert_eq!(fake.most_decodes(), 1);
    assert_eq!(cache.items().len(), 1);
}

#[test]
fn the_last_to_leave_an_unfinished_scan_takes_its_memory_along() {
    let (cache, _budget) = cache(64 << 20);
    let fake = Arc::new(Fake::default());
    let mut random = Random::new(1);
    let request = request(&["a", "b"], &between(0, 999));
    let mut query = Query::begin(&cache, &fake, request, 1).unwrap();
    let before_bytes = cache.reserved_bytes();
    for _ in 0..5 {
        query.poll(&mut random).unwrap();
    }
    assert!(cache.reserved_bytes() > before_bytes);
    drop(query);
    assert_eq!(cache.reserved_bytes(), before_bytes);
    assert_eq!(cache.decisions().last().unwrap().kind, DecisionKind::Abort);
}

#[test]
fn an_error_reaches_every_participant() {
    for seed in 0..50 {
        let (cache, _budget) = cache(64 << 20);
        let fake = Arc::new(Fake { fail_at: Some(20), fetch_polls: seed % 3, ..Fake::default() });
        let mut random = Random::new(seed);
        let request = request(&["a", "b"], &between(0, 999));
        let mut queries: Vec<Query> =
            (0..3).map(|_| Query::begin(&cache, &fake, request.clone(), 2).unwrap()).collect();
        let mut error_count = 0;
        for _ in 0..10_000 {
            if queries.is_empty() {
                break;
            }
            let at = random.below_u64(queries.len() as u64) as usize;
            if let Err(error) = queries[at].poll(&mut random) {
                assert_eq!(error.to_string(), "bad record in morsel 20");
                error_count += 1;
                queries.swap_remove(at);
            }
        }
        assert_eq!(error_count, 3, "seed {seed}");
        assert!(cache.items().is_empty());
    }
}

#[test]
fn a_source_that_panics_fails_the_scan_for_the_others() {
    let (cache, _budget) = cache(64 << 20);
    let fake = Arc::new(Fake { panic_at: Some(3), ..Fake::default() });
    let request = request(&["a", "b"], &between(0, 999));
    let mut follower = Query::begin(&cache, &fake, request.clone(), 1).unwrap();
    let leader = cache.begin(&request, &pin(&cache, &object("f", "1", RECORDS)), true, fake.factory());
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| answer(leader, 1)));
    assert!(panicked.is_err());
    assert!(follower.poll(&mut Random::new(1)).is_err());
}

#[test]
fn a_late_joiner_gets_merged_chunks_once() {
    // Rows enough that the first query's results are merged while it runs.
    let (cache, _budget) = cache(256 << 20);
    let fake = Arc::new(Fake { morsel_records: 2_000, ..Fake::default() });
    let version = object("f", "1", 80_000);
    let request = request(&["a", "b"], &between(0, 999));
    let begin = || match cache.begin(&request, &pin(&cache, &version), true, fake.factory()) {
        Start::Wait(_) => panic!("the request may not wait"),
        Start::Scan(participant) => participant,
        Start::Hit { .. } | Start::Combine { .. } => panic!("expected a scan"),
    };
    let leader = begin();
    let mut found = Vec::new();
    let mut stream = futures::executor::block_on_stream(leader.stream());
    for rows in stream.by_ref().take(35) {
        found.extend(delivered(&leader, &rows.unwrap()));
    }
    let follower = begin();
    let mut chunk_count = 0;
    let mut followed = Vec::new();
    for rows in futures::executor::block_on_stream(follower.stream()) {
        chunk_count += 1;
        followed.extend(delivered(&follower, &rows.unwrap()));
    }
    for rows in stream {
        found.extend(delivered(&leader, &rows.unwrap()));
    }
    found.sort_unstable();
    followed.sort_unstable();
    assert_eq!(found, expected(80_000, &request.predicate));
    assert_eq!(followed, found);
    assert!(chunk_count < 20, "{chunk_count} pieces for 40 morsels");
    assert_eq!(fake.most_decodes(), 1);
    let Start::Hit { item, .. } = cache.begin(&request, &pin(&cache, &version), true, fake.factory()) else {
        panic!("expected a hit");
    };
    let sizes: Vec<usize> = item.chunks.iter().map(|chunk| chunk.scanned().row_count).collect();
    assert!(sizes.iter().rev().skip(1).all(|size| (4_000..=34_000).contains(size)), "{sizes:?}");
    assert_eq!(read(&item, &thermocline_predicate::Conjunction::all()), expected(80_000, &request.predicate));
}

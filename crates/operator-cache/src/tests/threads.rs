//! Many threads, real wake-ups, scarce memory: right answers, no deadlock, nothing left over.

use std::sync::Arc;

use thermocline_budget::{Budget, Purpose};
use thermocline_hardware::SystemClock;
use thermocline_seeded::Random;

use super::fake::*;
use crate::*;

const RECORDS: u64 = 4_000;

#[test]
fn one_miss_of_many_threads_is_computed_once() {
    for seed in 0..40 {
        within_a_minute(seed, move || {
            let (cache, _budget) = cache(64 << 20);
            let fake = Arc::new(Fake { fetch_polls: seed % 3, ..Fake::default() });
            let request = request(&["a", "b"], &between(0, 900));
            std::thread::scope(|scope| {
                for _ in 0..8 {
                    scope.spawn(|| {
                        let pinned = pin(&cache, &object("f", "1", RECORDS));
                        let start = cache.begin(&request, &pinned, true, fake.factory());
                        assert_eq!(answer(start, 2).unwrap(), expected(RECORDS, &request.predicate), "seed {seed}");
                    });
                }
            });
            assert_eq!(fake.most_decodes(), 1, "seed {seed}");
            assert_eq!(cache.items().len(), 1);
        });
    }
}

#[test]
fn random_queries_under_pressure_answer_right_and_end() {
    for seed in 0..12 {
        within_a_minute(seed, move || {
            let limit_bytes = [20_000, 100_000, 400_000, 1 << 20][seed as usize % 4];
            let budget = Budget::new(limit_bytes, (seed % 3 == 0).then_some(limit_bytes / 2));
            let cache = OperatorCache::new(CacheOptions::default(), &budget, Arc::new(SystemClock::new()));
            told(&cache, AdmissionMode::ALL[seed as usize / 4 % 3]);
            let fake = Arc::new(Fake { fetch_polls: seed % 3, morsel_records: 64, ..Fake::default() });
            std::thread::scope(|scope| {
                for thread in 0..6 {
                    let (cache, budget, fake) = (&cache, &budget, &fake);
                    scope.spawn(move || {
                        let mut random = Random::new(seed * 100 + thread + 1);
                        let queries = budget.account("query", Purpose::Query);
                        for _ in 0..60 {
                            one_query(cache, fake, &queries, limit_bytes, &mut random, seed);
                            assert!(budget.cache_reserved_bytes() <= limit_bytes);
                        }
                    });
                }
            });
            cache.clear();
            assert!(cache.reserved_bytes() < 2000, "{} bytes are left, seed {seed}", cache.reserved_bytes());
        });
    }
}

fn one_query(
    cache: &Arc<OperatorCache>,
    fake: &Arc<Fake>,
    queries: &thermocline_budget::Account,
    limit_bytes: u64,
    random: &mut Random,
    seed: u64,
) {
    // The file changes now and then, and grows at other times.
    let generation = random.below_u64(2);
    let version = object("f", if generation == 0 { "1" } else { "2" }, RECORDS);
    let low = random.below_u64(10) as i64 * 100;
    let request = request(&["a", "b"], &between(low, low + 99 + random.below_u64(5) as i64 * 100));
    let pinned = pin(cache, &version);
    let start = cache.begin(&request, &pinned, !random.one_in(8), fake.factory());
    let _memory = random.one_in(3).then(|| queries.try_reserve(random.below_u64(limit_bytes)).ok()).flatten();
    if random.one_in(6)
        && let Start::Scan(participant) = start
    {
        // Cancelled after a few rows.
        let mut stream = futures::executor::block_on_stream(participant.stream());
        for _ in 0..random.below_u64(20) {
            let _ = stream.next();
        }
        return;
    }
    assert_eq!(
        answer(start, 1 + random.below_u64(3) as usize).unwrap(),
        expected(RECORDS, &request.predicate),
        "seed {seed}"
    );
}

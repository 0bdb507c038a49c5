//! Algorithm 1 against a naive restatement, and each deviation from the print by itself.

use thermocline_seeded::Random;

use super::*;
use crate::operator_cache::SourceKind;
use crate::operator_cache::trace::random::{check_eviction, check_none_superfluous, random_item};

/// An item whose benefit is `benefit_s` when it was used once: its saving is scaled by its log size.
fn item(id: u64, size_bytes: u64, benefit_s: f64) -> ItemMeasurements {
    ItemMeasurements {
        id,
        kind: SourceKind::Json,
        use_count: 1,
        execute_ns: (benefit_s * log_size(size_bytes) * 1e9) as u64,
        cache_ns: 0,
        reuse_scan_ns: 0,
        lookup_ns: 0,
        size_bytes,
        baseline: 0.0,
        last_use: 0,
    }
}

fn victims(items: &[ItemMeasurements], bytes_to_free: u64) -> Vec<u64> {
    let eviction = ReCache.choose(PolicyState::default(), items, bytes_to_free);
    eviction.victims.iter().map(|victim| victim.id).collect()
}

/// Algorithm 1 line by line, with the corrections the module lists: sets are lists, minima are found by looking.
fn naive_algorithm_1(items: &[ItemMeasurements], mut baseline: f64, bytes_to_free: u64) -> (Vec<u64>, f64) {
    let key = |p: &ItemMeasurements| {
        let n = if p.use_count == 0 { 1.0 } else { p.use_count as f64 };
        let (t, c, s, l) = (p.execute_ns as f64, p.cache_ns as f64, p.reuse_scan_ns as f64, p.lookup_ns as f64);
        let saved_ns = if t + c > s + l { (t + c) - (s + l) } else { 0.0 };
        let log_b = if p.size_bytes <= 2 { 1.0 } else { (p.size_bytes as f64).log2() };
        p.baseline + n * (saved_ns * 1e-9) / log_b
    };
    let mut left: Vec<&ItemMeasurements> = items.iter().collect();
    let mut candidates: Vec<&ItemMeasurements> = Vec::new();
    let mut diff = i128::from(bytes_to_free);
    while diff > 0 && !left.is_empty() {
        let mut least = 0;
        for i in 1..left.len() {
            let order = (key(left[i]), left[i].last_use, left[i].id);
            if order < (key(left[least]), left[least].last_use, left[least].id) {
                least = i;
            }
        }
        let p = left.remove(least);
        diff -= i128::from(p.size_bytes);
        candidates.push(p);
    }
    let mut evicted: Vec<u64> = Vec::new();
    diff = i128::from(bytes_to_free);
    while diff > 0 && !candidates.is_empty() {
        let mut largest = 0;
        for i in 1..candidates.len() {
            if candidates[i].size_bytes > candidates[largest].size_bytes {
                largest = i;
            }
        }
        let p = candidates.remove(largest);
        diff -= i128::from(p.size_bytes);
        baseline = baseline.max(key(p));
        evicted.push(p.id);
        if diff <= 0 {
            break;
        }
        let mut enough: Option<usize> = None;
        for i in 0..candidates.len() {
            let does = i128::from(candidates[i].size_bytes) >= diff;
            if does && enough.is_none_or(|best| candidates[i].size_bytes < candidates[best].size_bytes) {
                enough = Some(i);
            }
        }
        if let Some(i) = enough {
            baseline = baseline.max(key(candidates[i]));
            evicted.push(candidates[i].id);
            break;
        }
    }
    (evicted, baseline)
}

#[test]
fn decisions_equal_those_of_a_naive_restatement_of_algorithm_1() {
    for seed in 0..4000 {
        let mut random = Random::new(seed);
        let count = random.below_u64(40);
        let items: Vec<ItemMeasurements> = (0..count).map(|id| random_item(&mut random, id)).collect();
        let total_bytes: u64 = items.iter().map(|item| item.size_bytes).sum();
        let bytes_to_free = random.below_u64(total_bytes + 2).min(random.magnitude(1.0, 1e10));
        let state = PolicyState { baseline: 0.5, now: 0 };
        let eviction = ReCache.choose(state, &items, bytes_to_free);
        let context = format!("seed {seed}, {bytes_to_free} bytes of {items:?}");
        check_eviction(&items, bytes_to_free, &eviction, &context);
        if bytes_to_free <= total_bytes {
            check_none_superfluous(bytes_to_free, &eviction, &context);
        }
        let ids: Vec<u64> = eviction.victims.iter().map(|victim| victim.id).collect();
        let (expected, baseline) = naive_algorithm_1(&items, 0.5, bytes_to_free);
        assert_eq!(ids, expected, "{context}");
        assert!((eviction.state.baseline - baseline).abs() <= 1e-12 * baseline, "{context}");
        let mut shuffled = items.clone();
        shuffled.reverse();
        shuffled.rotate_left(items.len() / 3);
        assert_eq!(ReCache.choose(state, &shuffled, bytes_to_free), eviction, "{context}");
    }
}

#[test]
fn the_papers_example_evicts_two_of_the_last_three_items() {
    let items = [item(1, 100, 1.0), item(2, 200, 2.0), item(3, 300, 3.0), item(4, 800, 4.0), item(5, 900, 5.0)];
    // 800 MB and the smallest that frees the missing 200 MB; 100 MB and 300 MB are spared.
    assert_eq!(victims(&items, 1000), [4, 2]);
}

#[test]
fn eviction_stops_as_soon_as_enough_is_free() {
    let items = [item(1, 500, 1.0), item(2, 500, 2.0), item(3, 500, 3.0)];
    assert_eq!(victims(&items, 0), []);
    assert_eq!(victims(&items, 500), [1]);
    assert_eq!(victims(&items, 501), [1, 2]);
    // The last candidate is enough by itself, so the cheaper one before it stays.
    assert_eq!(victims(&[item(1, 10, 1.0), item(2, 1000, 2.0)], 500), [2]);
}

#[test]
fn the_baseline_rises_to_the_victims_keys_and_not_to_those_spared() {
    let items = [item(1, 800, 1.0), item(2, 100, 2.0), item(3, 250, 1.5)];
    // All but the last are candidates for 1000 bytes; 800 and 250 are enough.
    let eviction = ReCache.choose(PolicyState { baseline: 0.25, now: 0 }, &items, 1000);
    assert_eq!(eviction.victims.iter().map(|victim| victim.id).collect::<Vec<_>>(), [1, 3]);
    assert!((eviction.state.baseline - 1.5).abs() < 1e-6);
    // 900, of key 1, frees enough by itself; 100, of key 0.5, and with it the next, are spared.
    let spared = [item(1, 100, 0.5), item(2, 900, 1.0), item(3, 50, 9.0)];
    assert!((ReCache.choose(PolicyState::default(), &spared, 900).state.baseline - 1.0).abs() < 1e-6);
    let idle = ReCache.choose(PolicyState { baseline: 7.0, now: 0 }, &items, 1000);
    assert_eq!(idle.state.baseline, 7.0);
}

#[test]
fn a_new_item_counts_as_used_once_and_no_benefit_is_negative() {
    let new = ItemMeasurements { use_count: 0, ..item(1, 1000, 3.0) };
    assert_eq!(benefit(&new), benefit(&item(1, 1000, 3.0)));
    let slow_to_reuse = ItemMeasurements { reuse_scan_ns: u64::MAX, lookup_ns: u64::MAX, ..item(1, 1000, 3.0) };
    assert_eq!(benefit(&slow_to_reuse), 0.0);
    for size_bytes in [0, 1, 2] {
        assert_eq!(log_size(size_bytes), 1.0);
        assert!(benefit(&item(1, size_bytes, 3.0)).is_finite());
    }
}

#[test]
fn among_equals_the_smaller_is_worth_more_per_byte_and_stays() {
    let same_cost = |id, size_bytes| ItemMeasurements { execute_ns: 1_000_000_000, ..item(id, size_bytes, 0.0) };
    assert_eq!(victims(&[same_cost(1, 1 << 10), same_cost(2, 1 << 20)], 1), [2]);
}

#[test]
fn an_item_that_is_used_again_outlives_one_that_is_not() {
    let state = PolicyState { baseline: 5.0, now: 0 };
    let idle = item(1, 1000, 2.0);
    let used = ItemMeasurements { baseline: ReCache.baseline_on_use(&state), ..item(2, 1000, 1.0) };
    assert_eq!(ReCache.choose(state, &[used, idle], 1).victims[0].id, 1);
    assert_eq!(ReCache.worth_s(&state, &idle), 0.0);
    assert!((ReCache.worth_s(&state, &used) - used.history_s()).abs() < 1e-6);
}

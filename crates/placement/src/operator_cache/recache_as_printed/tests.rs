//! The print line by line, and each thing that it does and the corrected algorithm does not.

use thermocline_seeded::Random;

use super::*;
use crate::operator_cache::SourceKind;
use crate::operator_cache::recache::ReCache;
use crate::operator_cache::trace::random::{check_eviction, random_item};

/// An item that was reused once, with this benefit.
fn item(id: u64, size_bytes: u64, benefit_s: f64) -> ItemMeasurements {
    ItemMeasurements {
        id,
        kind: SourceKind::Json,
        use_count: 2,
        execute_ns: (benefit_s * log_size(size_bytes) * 1e9).round() as u64,
        cache_ns: 0,
        reuse_scan_ns: 0,
        lookup_ns: 0,
        size_bytes,
        baseline: 0.0,
        last_use: 0,
    }
}

fn victims(policy: &dyn EvictionPolicy, items: &[ItemMeasurements], bytes_to_free: u64) -> Vec<u64> {
    let eviction = policy.choose(PolicyState::default(), items, bytes_to_free);
    eviction.victims.iter().map(|victim| victim.id).collect()
}

/// Algorithm 1 as it stands, sets as lists.
fn printed(items: &[ItemMeasurements], mut baseline: f64, bytes_to_free: i128) -> (Vec<u64>, f64) {
    let key = |p: &ItemMeasurements| {
        let n = if p.use_count == 0 { 0.0 } else { (p.use_count - 1) as f64 };
        let saved_ns = (p.execute_ns as f64 + p.cache_ns as f64) - (p.reuse_scan_ns as f64 + p.lookup_ns as f64);
        p.baseline + n * saved_ns * 1e-9 / (p.size_bytes.max(2) as f64).log2()
    };
    let size = |p: &ItemMeasurements| i128::from(p.size_bytes);
    let (mut left, mut c, mut evicted) = (items.to_vec(), Vec::new(), Vec::new());
    if bytes_to_free == 0 {
        return (evicted, baseline);
    }
    let mut diff = bytes_to_free;
    while diff >= 0 && !left.is_empty() {
        left.sort_by(|a, b| key(b).total_cmp(&key(a)).then((b.last_use, b.id).cmp(&(a.last_use, a.id))));
        let Some(p) = left.pop() else { break };
        diff -= size(&p);
        c.push(p);
        if baseline <= key(&p) {
            baseline = key(&p);
        }
    }
    // From here on the order of `c` is the order of keys, and stays so.
    let mut diff = bytes_to_free;
    while diff >= 0 && !c.is_empty() {
        let largest = (0..c.len()).rev().max_by_key(|&i| size(&c[i])).unwrap_or(0);
        let p = c.remove(largest);
        diff -= size(&p);
        evicted.push(p.id);
        let enough = (0..c.len()).filter(|&i| size(&c[i]) >= diff).min_by_key(|&i| size(&c[i]));
        if let Some(i) = enough {
            evicted.push(c.remove(i).id);
            break;
        }
    }
    (evicted, baseline)
}

#[test]
fn decisions_equal_those_of_the_print_line_by_line() {
    for seed in 0..3000 {
        let mut random = Random::new(seed);
        let items: Vec<ItemMeasurements> = (0..random.below_u64(30)).map(|id| random_item(&mut random, id)).collect();
        let total_bytes: u64 = items.iter().map(|item| item.size_bytes).sum();
        let bytes_to_free = random.below_u64(total_bytes + 2).min(random.magnitude(1.0, 1e10));
        let state = PolicyState { baseline: 0.5, now: 0 };
        let context = format!("seed {seed}, {bytes_to_free} bytes of {items:?}");
        let eviction = ReCacheAsPrinted.choose(state, &items, bytes_to_free);
        check_eviction(&items, bytes_to_free, &eviction, &context);
        let ids: Vec<u64> = eviction.victims.iter().map(|victim| victim.id).collect();
        let (expected, baseline) = printed(&items, 0.5, i128::from(bytes_to_free));
        assert_eq!(ids, expected, "{context}");
        assert!((eviction.state.baseline - baseline).abs() <= 1e-12 * baseline, "{context}");
    }
}

#[test]
fn the_papers_example_evicts_two_of_the_last_three_items() {
    let items = [item(1, 100, 1.0), item(2, 200, 2.0), item(3, 300, 3.0), item(4, 800, 4.0), item(5, 900, 5.0)];
    assert_eq!(victims(&ReCacheAsPrinted, &items, 1000), [4, 2]);
    assert_eq!(victims(&ReCache, &items, 1000), [4, 2]);
}

#[test]
fn after_an_exact_fit_and_after_a_largest_that_is_enough_one_more_goes() {
    let items = [item(1, 500, 1.0), item(2, 500, 2.0), item(3, 500, 3.0)];
    assert_eq!(victims(&ReCacheAsPrinted, &items, 500), [1, 2]);
    assert_eq!(victims(&ReCache, &items, 500), [1]);
    let items = [item(1, 10, 1.0), item(2, 1000, 2.0)];
    assert_eq!(victims(&ReCacheAsPrinted, &items, 500), [2, 1]);
    assert_eq!(victims(&ReCache, &items, 500), [2]);
}

#[test]
fn items_that_are_spared_raise_the_baseline() {
    // 100 of key 0.5 and 50 of key 2 are candidates for 960 bytes; 1000 of key 1 would be enough by itself.
    let items = [item(1, 100, 0.5), item(2, 900, 1.0), item(3, 200, 2.0)];
    let eviction = ReCacheAsPrinted.choose(PolicyState::default(), &items, 1000);
    assert_eq!(eviction.victims.iter().map(|victim| victim.id).collect::<Vec<_>>(), [2, 1]);
    assert!((eviction.state.baseline - 2.0).abs() < 1e-6, "{eviction:?}");
}

#[test]
fn a_new_item_is_worth_nothing_whatever_it_cost() {
    let new = ItemMeasurements { use_count: 1, ..item(1, 1000, 100.0) };
    let cheap = item(2, 1000, 0.001);
    assert_eq!(victims(&ReCacheAsPrinted, &[cheap, new], 1), [1]);
    assert_eq!(victims(&ReCache, &[cheap, new], 1), [2]);
}

#[test]
fn benefits_can_be_negative_and_worths_cannot() {
    let slow = ItemMeasurements { reuse_scan_ns: 5_000_000_000, use_count: 3, ..item(1, 4, 0.5) };
    assert!((ReCacheAsPrinted.score(&slow) - 2.0 * (1.0 - 5.0) / 2.0).abs() < 1e-9);
    assert_eq!(ReCacheAsPrinted.worth_s(&PolicyState::default(), &slow), 0.0);
}

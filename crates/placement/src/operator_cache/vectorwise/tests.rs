//! The formula by hand, and that the score orders items as the benefit at any time does.

use thermocline_seeded::Random;

use super::*;
use crate::operator_cache::SourceKind;
use crate::operator_cache::admission::{Admission, admit};
use crate::operator_cache::trace::random::{check_eviction, random_item};

const SECOND_NS: u64 = 1_000_000_000;

fn item(id: u64, use_count: u64, seconds: u64, size_bytes: u64, last_use: u64) -> ItemMeasurements {
    ItemMeasurements {
        id,
        kind: SourceKind::Json,
        use_count,
        execute_ns: seconds * SECOND_NS,
        cache_ns: 0,
        reuse_scan_ns: 0,
        lookup_ns: 0,
        size_bytes,
        baseline: 0.0,
        last_use,
    }
}

fn at(now: u64) -> PolicyState {
    PolicyState { now, ..PolicyState::default() }
}

#[test]
fn benefits_are_cost_times_references_over_size_halved_with_every_half_life() {
    // 2 s · 3 references, two half-lives ago.
    let aged = item(1, 3, 2, 100, 44);
    assert!((Vectorwise.worth_s(&at(300), &aged) - 1.5).abs() < 1e-12);
    // log2(2 · 4 / 64) + 256 / 128.
    assert!((Vectorwise.score(&item(1, 4, 2, 64, 256)) - (-3.0 + 2.0)).abs() < 1e-12);
    // A second over 10, 19 and 25 bytes; a half-life later the first is as one over 20.
    let items = [item(1, 1, 1, 10, 0), item(2, 1, 1, 19, 128), item(3, 1, 1, 25, 128)];
    let victims = |items: &[ItemMeasurements]| {
        Vectorwise.choose(at(128), items, u64::MAX).victims.iter().map(|victim| victim.id).collect::<Vec<_>>()
    };
    assert_eq!(victims(&items), [3, 1, 2]);
    assert_eq!(victims(&[item(1, 1, 1, 10, 0), item(2, 1, 1, 10, 1), item(3, 1, 0, 1, 999)]), [3, 1, 2]);
}

#[test]
fn the_order_is_that_of_the_benefit_at_the_time_of_the_decision() {
    for seed in 0..500 {
        let mut random = Random::new(seed);
        let items: Vec<ItemMeasurements> = (0..random.below_u64(30))
            .map(|id| ItemMeasurements { last_use: random.below_u64(2000), ..random_item(&mut random, id) })
            .collect();
        let total_bytes: u64 = items.iter().map(|item| item.size_bytes).sum();
        let bytes_to_free = random.below_u64(total_bytes + 2);
        let state = at(2000);
        let eviction = Vectorwise.choose(state, &items, bytes_to_free);
        let context = format!("seed {seed}, {bytes_to_free} bytes of {items:?}");
        check_eviction(&items, bytes_to_free, &eviction, &context);
        let benefit = |item: &ItemMeasurements| {
            let references = if item.use_count == 0 { 1.0 } else { item.use_count as f64 };
            let cost_s = (item.execute_ns + item.cache_ns) as f64 * 1e-9;
            cost_s * references * 0.5_f64.powf((2000 - item.last_use) as f64 / 128.0) / item.size_bytes.max(1) as f64
        };
        let is_gone = |item: &&ItemMeasurements| eviction.victims.iter().any(|victim| victim.id == item.id);
        let dearest_gone = items.iter().filter(is_gone).map(benefit).fold(0.0, f64::max);
        let cheapest_kept = items.iter().filter(|item| !is_gone(item)).map(benefit).fold(f64::INFINITY, f64::min);
        assert!(dearest_gone <= cheapest_kept * (1.0 + 1e-9), "{context}");
    }
}

#[test]
fn a_newcomer_waits_until_what_it_would_displace_has_aged_below_it() {
    let held = [item(1, 4, 1, 100, 1000)];
    let decide = |now| {
        let newcomer = ItemMeasurements { last_use: now, ..item(2, 1, 1, 100, 0) };
        admit(&Vectorwise, at(now), &held, &newcomer, 0, 100)
    };
    // Four references against one: two half-lives.
    assert!(matches!(decide(1255), Admission::Refuse { .. }));
    assert!(matches!(decide(1256), Admission::Admit { .. }));
}

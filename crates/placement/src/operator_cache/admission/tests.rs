//! Each reason to refuse, and that neither scans nor history have the last word.

use super::*;
use crate::operator_cache::SourceKind;
use crate::operator_cache::lru::Lru;
use crate::operator_cache::recache::ReCache;

const MIB: u64 = 1 << 20;

fn item(id: u64, size_bytes: u64, use_count: u64) -> ItemMeasurements {
    ItemMeasurements {
        id,
        kind: SourceKind::Json,
        use_count,
        execute_ns: 2_000_000_000,
        cache_ns: 100_000_000,
        reuse_scan_ns: 90_000_000,
        lookup_ns: 10_000_000,
        size_bytes,
        baseline: 0.0,
        last_use: id,
    }
}

#[test]
fn an_item_larger_than_the_limit_is_refused_even_by_an_empty_cache() {
    let reason = Refusal::LargerThanLimit { size_bytes: 5 * MIB, limit_bytes: 4 * MIB };
    let state = PolicyState { baseline: 1.5, now: 0 };
    for policy in [&ReCache as &dyn EvictionPolicy, &Lru] {
        let decision = admit(policy, state, &[], &item(1, 5 * MIB, 100), 4 * MIB, 4 * MIB);
        assert_eq!(decision, Admission::Refuse { reason, state });
    }
}

#[test]
fn what_fits_into_free_space_is_admitted_without_victims() {
    let worthless = ItemMeasurements { reuse_scan_ns: u64::MAX, ..item(1, MIB, 1) };
    let decision = admit(&ReCache, PolicyState::default(), &[item(2, 3 * MIB, 9)], &worthless, MIB, 4 * MIB);
    assert_eq!(decision, Admission::Admit { eviction: Eviction::default() });
}

#[test]
fn nothing_is_evicted_when_that_would_not_make_enough_room() {
    // Two of the four mebibytes are in use and not among the items.
    let decision = admit(&ReCache, PolicyState::default(), &[item(2, 2 * MIB, 1)], &item(1, 3 * MIB, 50), 0, 4 * MIB);
    let reason = Refusal::NotEnoughToEvict { needed_bytes: 3 * MIB, evictable_bytes: 2 * MIB };
    assert_eq!(decision, Admission::Refuse { reason, state: PolicyState::default() });
}

#[test]
fn an_item_that_came_once_does_not_displace_one_that_came_often() {
    let state = PolicyState::default();
    let decision = admit(&ReCache, state, &[item(2, 4 * MIB, 5)], &item(1, 4 * MIB, 1), 0, 4 * MIB);
    let Admission::Refuse { reason: Refusal::WorthLessThanVictims { newcomer_s, victims_s, victim_count }, state } =
        decision
    else {
        panic!("{decision:?}");
    };
    assert!((newcomer_s - 2.0).abs() < 1e-6 && (victims_s - 10.0).abs() < 1e-6, "{newcomer_s} {victims_s}");
    assert_eq!(victim_count, 1);
    assert!(state.baseline > 0.0);
    // With a history of its own it does, and among equals the newer wins.
    for use_count in [5, 6] {
        let newcomer = item(1, 4 * MIB, use_count);
        let decision = admit(&ReCache, PolicyState::default(), &[item(2, 4 * MIB, 5)], &newcomer, 0, 4 * MIB);
        assert!(matches!(decision, Admission::Admit { eviction } if eviction.victims.len() == 1));
    }
}

#[test]
fn victims_are_weighed_together() {
    let many: Vec<ItemMeasurements> = (10..14).map(|id| item(id, MIB, 2)).collect();
    let decision = admit(&ReCache, PolicyState::default(), &many, &item(1, 4 * MIB, 7), 0, 4 * MIB);
    assert!(matches!(
        decision,
        Admission::Refuse { reason: Refusal::WorthLessThanVictims { victim_count: 4, .. }, .. }
    ));
    let decision = admit(&ReCache, PolicyState::default(), &many, &item(1, 4 * MIB, 8), 0, 4 * MIB);
    assert!(matches!(decision, Admission::Admit { eviction } if eviction.victims.len() == 4));
}

#[test]
fn a_scan_of_one_off_queries_leaves_items_alone_that_are_reused_meanwhile() {
    let mut state = PolicyState::default();
    let mut reused = item(0, 4 * MIB, 5);
    for scan in 0..200 {
        match admit(&ReCache, state, &[reused], &item(1000 + scan, 4 * MIB, 1), 0, 4 * MIB) {
            Admission::Refuse { state: after, .. } => state = after,
            Admission::Admit { .. } => panic!("flushed by one-off query {scan}"),
        }
        if scan % 4 == 3 {
            reused.use_count += 1;
            reused.baseline = ReCache.baseline_on_use(&state);
        }
    }
}

#[test]
fn items_that_are_no_longer_used_give_way_after_as_many_newcomers_as_they_had_uses() {
    let mut state = PolicyState::default();
    let idle = item(0, 4 * MIB, 12);
    let mut refused_count = 0;
    while let Admission::Refuse { state: after, .. } =
        admit(&ReCache, state, &[idle], &item(1 + refused_count, 4 * MIB, 1), 0, 4 * MIB)
    {
        state = after;
        refused_count += 1;
        assert!(refused_count <= 12, "items that are no longer used hold their place for ever");
    }
    assert_eq!(refused_count, 11);
}

#[test]
fn lru_takes_every_newcomer_that_fits() {
    let decision = admit(&Lru, PolicyState::default(), &[item(2, 4 * MIB, 1000)], &item(1, MIB, 1), 0, 4 * MIB);
    assert!(matches!(decision, Admission::Admit { eviction } if eviction.victims.len() == 1));
}

#[test]
fn what_was_asked_for_once_and_what_is_expected_ages_nobody() {
    assert!(!refusal_ages(1, false) && refusal_ages(2, false) && !refusal_ages(200, true));
}

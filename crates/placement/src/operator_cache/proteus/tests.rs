//! What comes from CSV goes first; within a format, the order is LRU's.

use thermocline_seeded::Random;

use super::*;
use crate::operator_cache::lru::Lru;
use crate::operator_cache::trace::random::{check_eviction, random_item};

fn victims(policy: &dyn EvictionPolicy, items: &[ItemMeasurements], bytes_to_free: u64) -> Vec<u64> {
    let eviction = policy.choose(PolicyState::default(), items, bytes_to_free);
    eviction.victims.iter().map(|victim| victim.id).collect()
}

#[test]
fn no_item_from_json_goes_while_one_from_csv_is_left() {
    let item = |id, kind, last_use| ItemMeasurements {
        kind,
        last_use,
        size_bytes: 10,
        ..random_item(&mut Random::new(1), id)
    };
    let (csv, json) = (SourceKind::Csv, SourceKind::Json);
    let items = [item(1, json, 1), item(2, csv, 9), item(3, csv, 4), item(4, json, 2)];
    assert_eq!(victims(&Proteus, &items, 10), [3]);
    assert_eq!(victims(&Proteus, &items, 11), [3, 2]);
    assert_eq!(victims(&Proteus, &items, 21), [3, 2, 1]);
    assert_eq!(victims(&Proteus, &items, 40), [3, 2, 1, 4]);
}

#[test]
fn items_of_one_format_go_in_the_order_of_lru() {
    for seed in 0..500 {
        let mut random = Random::new(seed);
        let items: Vec<ItemMeasurements> = (0..random.below_u64(30)).map(|id| random_item(&mut random, id)).collect();
        let total_bytes: u64 = items.iter().map(|item| item.size_bytes).sum();
        let bytes_to_free = random.below_u64(total_bytes + 2);
        let context = format!("seed {seed}, {bytes_to_free} bytes of {items:?}");
        let eviction = Proteus.choose(PolicyState::default(), &items, bytes_to_free);
        check_eviction(&items, bytes_to_free, &eviction, &context);
        let is_gone = |item: &&ItemMeasurements| eviction.victims.iter().any(|victim| victim.id == item.id);
        let of = |kind| items.iter().filter(move |item| item.kind == kind);
        assert!(
            of(SourceKind::Csv).all(|item| is_gone(&item)) || !of(SourceKind::Json).any(|item| is_gone(&item)),
            "{context}"
        );
        for kind in [SourceKind::Csv, SourceKind::Json] {
            let alike: Vec<ItemMeasurements> = items.iter().filter(|item| item.kind == kind).copied().collect();
            let gone: Vec<u64> = eviction
                .victims
                .iter()
                .map(|victim| victim.id)
                .filter(|id| alike.iter().any(|item| item.id == *id))
                .collect();
            let by_age = victims(&Lru, &alike, u64::MAX);
            assert_eq!(gone, by_age[..gone.len()], "{context}");
        }
    }
}

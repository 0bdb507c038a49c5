//! The order of the last uses.

use super::*;
use crate::page_cache::replay::{SlowPages, same_answers};

#[test]
fn the_page_not_used_for_longest_goes_first() {
    for seed in 0..100 {
        same_answers(seed, &mut Lru::default(), &mut SlowPages::new(|page| page.last));
    }
}

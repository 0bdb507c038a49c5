//! The order of the last uses, backwards.

use super::*;
use crate::page_cache::replay::{SlowPages, same_answers};

#[test]
fn the_page_used_last_goes_first() {
    for seed in 0..100 {
        same_answers(seed, &mut Mru::default(), &mut SlowPages::new(|page| u64::MAX - page.last));
    }
}

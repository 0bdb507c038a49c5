//! Pages come and go as there is room.

use thermocline_budget::{Purpose, ReclaimableCache};
use thermocline_placement::broker::BenefitCurve;
use thermocline_placement::page_cache::PagePolicyName;
use thermocline_seeded::Random;

use super::stage::{CHARGE_BYTES, CHUNK_BYTES, Pages, Play, pin, poll_once};
use crate::pool::Worth;
use crate::residents::NOTE_BYTES;
use crate::{PinnedPage, PoolError, PoolOptions, ReadOptions};

/// The obvious cache: pages by their last use, so many of them.
struct Recent(Vec<u32>, usize);

impl Recent {
    /// Whether the page was there.
    fn uses(&mut self, page: u32) -> bool {
        let found = self.0.iter().position(|&kept| kept == page);
        if let Some(index) = found {
            self.0.remove(index);
        } else if self.0.len() == self.1 {
            self.0.remove(0);
        }
        self.0.push(page);
        found.is_some()
    }
}

#[test]
fn the_least_recently_used_pages_go_as_in_a_list_of_them() {
    for seed in 0..20 {
        let (mut random, chunk_count) = (Random::new(seed), 6);
        let play = Play::new(1 << 30, Some(chunk_count * CHARGE_BYTES), &[32_000; 60]);
        let mut recent = Recent(Vec::new(), (chunk_count * CHUNK_BYTES / 32_768) as usize);
        for _ in 0..500 {
            let most = if random.one_in(2) { 60 } else { 20 };
            let page = random.below(most) as u32;
            assert_eq!(play.pinned(page).was_hit(), recent.uses(page), "seed {seed}");
        }
        assert_eq!(
            play.budget.accounts().iter().map(|account| account.peak_bytes).max(),
            Some(chunk_count * CHARGE_BYTES)
        );
    }
}

#[test]
fn pinned_pages_stay_when_others_need_room() {
    let play = Play::new(1 << 30, Some(2 * CHARGE_BYTES), &[16_384; 40]);
    let pinned: Vec<PinnedPage> = [0, 3, 5].map(|page| play.pinned(page)).into();
    let copies: Vec<PinnedPage> = pinned.clone();
    drop(pinned);
    for page in 6..40 {
        play.pinned(page);
    }
    for page in copies {
        play.pages.assert_is(page.page(), &page, "pinned");
        assert!(pin(&play.source, page.page()).unwrap().was_hit());
    }
    assert!(!play.pinned(1).was_hit());
}

#[test]
fn with_everything_pinned_pages_come_into_memory_of_the_query_and_leave_it() {
    let play = Play::new(4 * CHARGE_BYTES, Some(CHARGE_BYTES), &[16_384; 12]);
    let held: Vec<PinnedPage> = (0..4).map(|page| play.pinned(page)).collect();
    assert_eq!(play.budget.reserved_bytes(), CHARGE_BYTES);
    let passing = play.pinned(4);
    assert_eq!(play.budget.cache_reserved_bytes(), CHARGE_BYTES);
    assert!(play.budget.reserved_bytes() > CHARGE_BYTES + 16_384);
    let shared = play.pinned(4);
    assert!(shared.was_hit() && shared.as_ptr() == passing.as_ptr());
    drop((passing, shared));
    assert_eq!(play.budget.reserved_bytes(), CHARGE_BYTES);
    assert!(!play.pinned(4).was_hit(), "it was not kept");
    drop(held);
    assert!(!play.pinned(4).was_hit());
    assert!(play.pinned(4).was_hit(), "now there is room");
}

#[test]
fn a_page_that_can_never_fit_pushes_no_others_out() {
    let mut sizes = [16_384; 5];
    sizes[4] = 4 * CHUNK_BYTES as u32;
    let play = Play::new(1 << 30, Some(2 * CHARGE_BYTES), &sizes);
    for page in 0..4 {
        play.pinned(page);
    }
    for _ in 0..2 {
        assert!(!play.pinned(4).was_hit());
    }
    assert!((0..4).all(|page| play.pinned(page).was_hit()));
}

#[test]
fn a_page_that_cannot_fit_beside_what_is_pinned_pushes_no_others_out() {
    let mut sizes = [16_384; 17];
    sizes[16] = 2 * CHUNK_BYTES as u32;
    let play = Play::new(1 << 30, Some(4 * CHARGE_BYTES + 16 * NOTE_BYTES), &sizes);
    let mut pins: Vec<PinnedPage> = (0..16).map(|page| play.pinned(page)).collect();
    // All of three chunks are.
    pins.truncate(12);
    drop(play.pinned(16));
    assert!((12..16).all(|page| play.is_there(page)));
    // Beside those of two it can.
    pins.truncate(8);
    drop(play.pinned(16));
    assert!(play.is_there(16));
}

#[test]
fn where_a_query_gets_no_memory_reading_is_an_error_and_works_again_afterwards() {
    let play = Play::new(CHARGE_BYTES + 10_000, None, &[16_384; 12]);
    let held: Vec<PinnedPage> = (0..4).map(|page| play.pinned(page)).collect();
    let error = pin(&play.source, 4).unwrap_err();
    assert!(matches!(error, PoolError::Memory { .. }), "{error}");
    assert!(error.to_string().contains("no memory to read page 4 of column c: pages outside"), "{error}");
    let mut reader = play.source.reader([0, 5, 1], ReadOptions::default());
    assert!(reader.wait_next().unwrap().is_ok());
    assert!(reader.wait_next().unwrap().is_err());
    assert!(reader.wait_next().unwrap().is_ok(), "the error was one page's");
    drop(held);
    play.pinned(5);
}

#[test]
fn a_budget_smaller_than_a_chunk_still_answers() {
    let play = Play::with(PoolOptions::default(), 1 << 20, None, &[200_000; 20]);
    for _ in 0..2 {
        let mut reader = play.source.reader(0..20, ReadOptions::default());
        for page in 0..20 {
            play.pages.assert_is(page, &reader.wait_next().unwrap().unwrap(), "starved");
            assert!(play.budget.reserved_bytes() <= 1 << 20);
        }
    }
    assert_eq!((play.budget.reserved_bytes(), play.pool.snapshot().page_count), (0, 0));
}

#[test]
fn queries_get_the_pools_memory_by_whole_chunks_but_not_what_is_pinned() {
    let limit_bytes = 8 * CHARGE_BYTES;
    let play = Play::new(limit_bytes, None, &[32_768; 16]);
    for page in 0..16 {
        play.pinned(page);
    }
    assert_eq!(play.budget.reserved_bytes(), limit_bytes);
    let pinned = play.pinned(5);
    let query = play.budget.account("sort", Purpose::Query);
    let held = query.try_reserve(CHARGE_BYTES + 1).unwrap();
    assert_eq!(play.pool.snapshot().mapped_bytes, 6 * CHUNK_BYTES);
    assert!(play.pinned(15).was_hit() && !play.pinned(0).was_hit(), "the least recently used went");
    let more = query.try_reserve(limit_bytes - 2 * CHARGE_BYTES - 2).unwrap();
    assert_eq!((play.pool.snapshot().mapped_bytes, play.pool.snapshot().page_count), (CHUNK_BYTES, 2));
    assert!(query.try_reserve(CHARGE_BYTES).is_err());
    play.pages.assert_is(5, &pinned, "pinned");
    drop((held, more, pinned));
    drop(query.try_reserve(limit_bytes).unwrap());
    assert_eq!(play.budget.reserved_bytes(), 0);
}

#[test]
fn what_lies_beside_pinned_pages_is_not_given_up_for_nothing() {
    let play = Play::new(4 * CHARGE_BYTES, None, &[32_768; 8]);
    for page in 0..8 {
        play.pinned(page);
    }
    let pinned = play.pinned(0);
    let held = play.budget.account("sort", Purpose::Query).try_reserve(2 * CHARGE_BYTES).unwrap();
    let there: Vec<u32> = (0..8).filter(|&page| play.is_there(page)).collect();
    assert_eq!(there, [0, 1, 6, 7], "page 1 is the oldest, but its chunk would not be free without it");
    drop((pinned, held));
}

#[test]
fn chunks_with_little_in_them_are_given_back_first() {
    let play = Play::new(8 * CHARGE_BYTES, None, &[16_384; 32]);
    for page in 0..12 {
        play.pinned(page);
    }
    let other = Pages::new(play.stage.clone(), 2, &[16_384; 4], &[play.pool.new_list()]);
    let other = play.pool.register(other);
    // The fourth chunk has one page of the first source, used last, after those of the second have gone.
    for page in 0..3 {
        pin(&other, page).unwrap();
    }
    play.pinned(31);
    drop(other);
    assert_eq!(play.pool.snapshot().mapped_bytes, 4 * CHUNK_BYTES);
    let held = play.budget.account("sort", Purpose::Query).try_reserve(4 * CHARGE_BYTES + 1).unwrap();
    assert_eq!((play.pool.snapshot().mapped_bytes, play.pool.snapshot().page_count), (3 * CHUNK_BYTES, 12));
    drop(held);
    assert!(play.pinned(0).was_hit() && !play.pinned(31).was_hit());
}

#[test]
fn a_large_page_finds_room_among_small_ones_that_are_pinned_here_and_there() {
    // Every chunk but two has one page that is pinned. A page of two chunks needs these two, wherever they lie.
    let mut sizes = vec![16_384; 32];
    sizes.push(2 * CHUNK_BYTES as u32);
    let play = Play::new(1 << 30, Some(8 * CHARGE_BYTES), &sizes);
    for page in 0..32 {
        play.pinned(page);
    }
    let pins: Vec<PinnedPage> = [0, 1, 3, 4, 6, 7].map(|chunk| play.pinned(4 * chunk)).into();
    let large = play.pinned(32);
    assert_eq!(play.pool.snapshot().mapped_bytes, 8 * CHUNK_BYTES);
    assert_eq!(play.budget.reserved_bytes(), 8 * CHARGE_BYTES, "not in memory of its own");
    drop((large, pins));
    assert!(play.pinned(32).was_hit());
}

#[test]
fn a_page_empties_one_chunk_rather_than_taking_a_little_from_each() {
    let mut sizes = vec![16_384; 32];
    sizes.push(CHUNK_BYTES as u32);
    let play = Play::new(1 << 30, Some(8 * CHARGE_BYTES + 32 * NOTE_BYTES), &sizes);
    for page in 0..32 {
        play.pinned(page);
    }
    // The oldest pages are the first of each chunk, then the second of each.
    for page in (0..4).flat_map(|first| (0..8).map(move |chunk| 4 * chunk + first)) {
        play.pinned(page);
    }
    play.pinned(32);
    // As much as it needs goes by age, then those beside one of these.
    assert_eq!(play.pool.snapshot().page_count, 32 - 4 - 3 + 1);
}

#[test]
fn notes_about_many_small_pages_are_reserved_too() {
    let play = Play::new(1 << 30, Some(4 * CHARGE_BYTES + 2560), &[100; 64]);
    for page in 0..64 {
        play.pinned(page);
    }
    // Each chunk reserves for four notes and could have 16 pages.
    let snapshot = play.pool.snapshot();
    assert_eq!((snapshot.page_count, snapshot.mapped_bytes), (48, 3 * CHUNK_BYTES));
    assert_eq!(snapshot.reserved_bytes, snapshot.mapped_bytes + 48 * NOTE_BYTES);
    play.pool.clear();
    assert_eq!(play.budget.reserved_bytes(), 0);
}

#[test]
fn where_small_pages_follow_large_ones_their_notes_take_the_place_of_a_chunk() {
    let mut sizes = vec![32_768; 8];
    sizes.extend([4096; 200]);
    let play = Play::new(1 << 30, Some(4 * CHARGE_BYTES), &sizes);
    for page in 0..208 {
        play.pinned(page);
        assert!(play.budget.cache_reserved_bytes() <= 4 * CHARGE_BYTES);
    }
    let snapshot = play.pool.snapshot();
    assert_eq!((snapshot.page_count, snapshot.mapped_bytes), (48, 3 * CHUNK_BYTES));
    assert!((160..208).all(|page| play.is_there(page)));
}

#[test]
fn the_pages_of_a_source_leave_with_it_those_that_are_pinned_when_they_are_unpinned() {
    let Play { stage, budget, pool, pages, source, .. } = Play::new(1 << 20, None, &[40_000; 10]);
    let pinned = pin(&source, 3).unwrap();
    let mut reader = source.reader(0..10, ReadOptions { read_ahead_bytes: 100_000 });
    reader.wait_next().unwrap().unwrap();
    let id = source.id();
    drop(source);
    let snapshot = pool.snapshot();
    assert_eq!((snapshot.page_count, snapshot.lists[0].held_bytes), (0, 0));
    pages.assert_is(3, &pinned, "pinned");
    for page in 1..10 {
        pages.assert_is(page, &reader.wait_next().unwrap().unwrap(), "a reader that goes on");
    }
    assert_eq!(pool.snapshot().page_count, 0, "nothing is kept of it");
    drop(reader);
    assert!(budget.reserved_bytes() > 0);
    drop(pinned);
    pool.clear();
    assert_eq!(budget.reserved_bytes(), 0);
    let again = pool.register(pages);
    assert!(again.id() > id);
    assert!(!pin(&again, 3).unwrap().was_hit());
    drop(stage);
}

#[test]
fn pinned_pages_outlive_the_pool() {
    let Play { budget, pool, pages, source, .. } = Play::new(1 << 20, None, &[40_000; 2]);
    let pinned = pin(&source, 1).unwrap();
    drop(source);
    drop(pool);
    pages.assert_is(1, &pinned, "after the pool");
    drop(pinned);
    assert_eq!(budget.reserved_bytes(), 0);
}

#[test]
fn a_policy_that_keeps_nothing_lets_pages_live_as_long_as_their_pins() {
    let play = Play::new(1 << 20, None, &[4096; 8]);
    let (kept, gone) = (play.pinned(0), play.pinned(1));
    drop(gone);
    play.pool.set_policy(PagePolicyName::Os.build());
    assert_eq!(play.pool.snapshot().page_count, 0);
    assert!(play.pinned(0).was_hit() && !play.pinned(1).was_hit());
    drop(kept);
    assert!(!play.pinned(0).was_hit());
    play.hold(true);
    let mut reader = play.source.reader([2, 3], ReadOptions::default());
    assert!(poll_once(&mut reader).0.is_pending());
    play.stage.complete_all();
    drop(play.pinned(3));
    reader.wait_next().unwrap().unwrap();
    assert!(reader.wait_next().unwrap().unwrap().page() == 3 && !play.is_there(2));
    assert_eq!(play.pages.check_count(), 6);
}

#[test]
fn another_policy_takes_over_the_pages_and_the_quotas() {
    let play = Play::new(1 << 20, None, &[8192; 8]);
    (0..8).for_each(|page| drop(play.pinned(page)));
    let list = play.pool.snapshot().lists[0].list;
    play.pool.set_quotas(&[(list, 3 * 8192)]);
    assert_eq!(play.pool.snapshot().lists[0].quota_bytes, 0, "this one has no quotas");
    play.pool.set_policy(PagePolicyName::Proportional.build());
    let lists = play.pool.snapshot().lists;
    assert_eq!((lists[0].quota_bytes, lists[0].free_list_bytes), (3 * 8192, 5 * 8192));
    assert_eq!((lists[0].held_bytes, lists[0].page_count), (8 * 8192, 8));
    assert!((0..8).all(|page| play.pinned(page).was_hit()), "what is on the free list serves hits");
}

#[test]
fn the_worth_of_the_pools_memory_is_what_was_told_or_its_hits() {
    let play = Play::new(1 << 20, None, &[8192; 8]);
    assert_eq!(play.pool.marginal_benefit(1), 0.0);
    play.pinned(0);
    assert_eq!(play.pool.marginal_benefit(1), 0.0);
    play.pinned(0);
    let once = play.pool.marginal_benefit(1);
    play.pinned(0);
    assert!(once > 0.0 && play.pool.marginal_benefit(1) > once);
    let curve = BenefitCurve::new([(1 << 19, 3.0), (1 << 21, 4.0)]);
    play.pool.set_worth(Worth { curve: curve.clone(), known_bytes: 1 << 21 });
    let held_bytes = play.pool.held_bytes();
    assert_eq!(play.pool.marginal_benefit(4096), curve.lost_s_per_byte(held_bytes, 4096));
    assert_eq!(play.pool.gain(1 << 20), Some(curve.gained_s_per_byte(held_bytes, 1 << 20)));
    assert_eq!(play.pool.name(), "buffer pool");
}

#[test]
fn what_the_pool_gives_gets_dearer_as_it_has_less() {
    let play = Play::new(1 << 20, None, &[8192; 64]);
    (0..64).for_each(|page| drop(play.pinned(page)));
    // The first quarter of what it holds saves nearly all, and more would save nothing.
    let held_bytes = play.pool.held_bytes();
    let curve = BenefitCurve::new([(held_bytes / 4, 10.0), (held_bytes, 11.0)]);
    play.pool.set_worth(Worth { curve, known_bytes: held_bytes });
    let cheapest = play.pool.marginal_benefit(held_bytes / 8);
    assert_eq!(play.pool.gain(held_bytes / 8), Some(0.0), "room would go where it saves nothing");
    play.pool.release(held_bytes * 7 / 8);
    assert!(play.pool.held_bytes() <= held_bytes / 4);
    let dearest = play.pool.marginal_benefit(held_bytes / 8);
    assert!(dearest > 20.0 * cheapest && cheapest > 0.0, "{dearest} after {cheapest}");
    assert_eq!(play.pool.gain(held_bytes / 8), Some(dearest));
}

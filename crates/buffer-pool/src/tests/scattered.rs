//! Neighbours in a file that are read into holes between pages that stay.

use std::sync::atomic::Ordering;

use super::stage::{CHARGE_BYTES, Play, small_options};
use crate::residents::NOTE_BYTES;
use crate::{PinnedPage, PoolError, PoolOptions, ReadOptions};

const PAGE_BYTES: u64 = 16_384;

/// A pool of eight pages, of which every other one is pinned, and those.
fn with_holes() -> (Play, Vec<PinnedPage>) {
    let play = Play::new(1 << 30, Some(2 * CHARGE_BYTES + 8 * NOTE_BYTES), &[PAGE_BYTES as u32; 24]);
    for page in 0..8 {
        play.pinned(page);
    }
    let pins = [0, 2, 4, 6].map(|page| play.pinned(page)).into();
    (play, pins)
}

#[test]
fn one_read_fills_holes_wherever_they_are_and_no_more_goes_than_it_needs() {
    let (play, pins) = with_holes();
    let mut reader = play.source.reader(8..11, ReadOptions::default());
    let came: Vec<PinnedPage> = std::iter::from_fn(|| reader.wait_next()).map(|page| page.unwrap()).collect();
    assert_eq!(play.stage.log().last(), Some(&(8 * PAGE_BYTES, 3 * PAGE_BYTES)));
    for pinned in came.iter().chain(&pins) {
        play.pages.assert_is(pinned.page(), pinned, "beside others");
    }
    let mut places: Vec<usize> = came.iter().map(|page| page.as_ptr().addr()).collect();
    places.sort_unstable();
    assert!(places.windows(2).all(|pair| pair[1] - pair[0] > PAGE_BYTES as usize), "{places:x?}");
    assert!(play.is_there(7) && ![1, 3, 5].into_iter().any(|page| play.is_there(page)), "the oldest three went");
}

#[test]
fn one_bad_page_of_a_read_into_holes_fails_alone() {
    let (play, _pins) = with_holes();
    play.stage.bad_bytes.lock().insert(9 * PAGE_BYTES + 100);
    let mut reader = play.source.reader(8..11, ReadOptions::default());
    for page in 8..11 {
        match reader.wait_next().unwrap() {
            Ok(pinned) => play.pages.assert_is(page, &pinned, "beside a bad one"),
            Err(error) => assert!(page == 9 && matches!(error, PoolError::Read { .. }), "{page}: {error}"),
        }
    }
    let of_pages = |first: u64, count: u64| (first * PAGE_BYTES, count * PAGE_BYTES);
    assert_eq!(play.stage.log()[8..], [of_pages(8, 3), of_pages(8, 1), of_pages(9, 1), of_pages(10, 1)]);
    play.stage.bad_bytes.lock().clear();
    assert!(!play.pinned(9).was_hit());
}

#[test]
fn the_holes_of_a_read_that_the_medium_drops_are_free_again() {
    let (play, pins) = with_holes();
    play.stage.drops_reads.store(true, Ordering::Relaxed);
    let mut reader = play.source.reader(8..11, ReadOptions::default());
    for _ in 8..11 {
        assert!(matches!(reader.wait_next(), Some(Err(PoolError::Dropped { .. }))));
    }
    play.stage.drops_reads.store(false, Ordering::Relaxed);
    for page in 8..11 {
        assert!(!play.pinned(page).was_hit());
        assert!(play.pinned(page).was_hit());
    }
    drop((reader, pins));
    play.pool.clear();
    assert_eq!(play.budget.reserved_bytes(), 0);
}

#[test]
fn a_read_has_as_many_parts_as_systems_take() {
    let options = PoolOptions { read_most_bytes: 1 << 20, ..small_options() };
    let limit_bytes = 9 * CHARGE_BYTES + 144 * NOTE_BYTES;
    let play = Play::with(options, 1 << 30, Some(limit_bytes), &[4096; 220]);
    for page in 0..144 {
        play.pinned(page);
    }
    let _pins: Vec<PinnedPage> = (0..144).step_by(2).map(|page| play.pinned(page)).collect();
    let mut reader = play.source.reader(144..214, ReadOptions::default());
    while let Some(page) = reader.wait_next() {
        play.pages.assert_is(page.as_ref().unwrap().page(), page.as_ref().unwrap(), "one of many parts");
    }
    assert_eq!(play.stage.log()[144..], [(144 * 4096, 64 * 4096), (208 * 4096, 6 * 4096)]);
}

//! How far readers read ahead, and in what pieces.

use std::task::Poll;

use super::stage::{CHARGE_BYTES, CHUNK_BYTES, Play, poll_once, ready};
use crate::{PoolOptions, ReadOptions};

fn bytes(count: u64) -> u64 {
    count * 8192
}

fn held_bytes(play: &Play) -> u64 {
    play.stage.held().iter().map(|&(_, _, length)| length).sum()
}

#[test]
fn reads_are_under_way_ahead_of_the_consumer_up_to_the_bound() {
    let play = Play::new(16 << 20, None, &[8192; 100]);
    play.hold(true);
    let mut reader = play.source.reader(0..100, ReadOptions { read_ahead_bytes: bytes(32) });
    assert!(play.stage.log().is_empty(), "nothing before the first poll");
    assert!(poll_once(&mut reader).0.is_pending());
    assert_eq!(held_bytes(&play), bytes(32));
    // Pieces of a chunk, in order.
    assert_eq!(play.stage.log(), [0, 8, 16, 24].map(|page| (bytes(page), CHUNK_BYTES)));
    play.stage.complete(3);
    assert!(poll_once(&mut reader).0.is_pending());
    play.stage.complete(0);
    for page in 0..8 {
        assert_eq!(ready(poll_once(&mut reader).0).page(), page);
        assert_eq!(held_bytes(&play), bytes(16), "no reads of less than a piece");
    }
    assert!(poll_once(&mut reader).0.is_pending());
    assert_eq!(held_bytes(&play), bytes(24), "a piece was used up, a piece is asked for");
    play.hold(false);
    play.stage.complete_all();
    assert_eq!(
        std::iter::from_fn(|| reader.wait_next()).map(|page| page.unwrap().page()).collect::<Vec<_>>(),
        (8..100).collect::<Vec<_>>()
    );
    assert_eq!(play.stage.log().len(), 13);
}

#[test]
fn pages_in_memory_do_not_keep_the_disk_from_being_asked_for_what_follows() {
    let play = Play::new(16 << 20, None, &[8192; 100]);
    (0..30).for_each(|page| drop(play.pinned(page)));
    play.hold(true);
    let mut reader = play.source.reader(0..100, ReadOptions { read_ahead_bytes: bytes(32) });
    let first = ready(poll_once(&mut reader).0);
    assert!(first.was_hit() && first.waited_ns() == 0);
    ready(poll_once(&mut reader).0);
    assert!(held_bytes(&play) >= bytes(24), "{}", held_bytes(&play));
}

#[test]
fn neighbours_are_read_together_others_are_not() {
    let play = Play::new(16 << 20, None, &[8192; 40]);
    drop(play.pinned(5));
    let pages = [1, 2, 3, 4, 5, 6, 7, 9, 10, 30, 29, 28, 3, 3, 31, 32];
    let mut reader = play.source.reader(pages, ReadOptions::default());
    let came: Vec<u32> = std::iter::from_fn(|| reader.wait_next()).map(|page| page.unwrap().page()).collect();
    assert_eq!(came, pages);
    let expected = [(5, 1), (1, 4), (6, 2), (9, 2), (30, 1), (29, 1), (28, 1), (31, 2)];
    assert_eq!(play.stage.log(), expected.map(|(page, count)| (bytes(page), bytes(count))));
}

#[test]
fn neighbours_are_read_together_into_a_full_pool_too() {
    let play = Play::new(1 << 30, Some(6 * CHARGE_BYTES), &[32_768; 100]);
    let mut reader = play.source.reader(0..100, ReadOptions::default());
    assert_eq!(std::iter::from_fn(|| reader.wait_next()).filter(|page| page.is_ok()).count(), 100);
    let lengths: Vec<u64> = play.stage.log().iter().map(|&(_, length)| length).collect();
    assert_eq!(lengths, [CHUNK_BYTES; 50]);
}

#[test]
fn a_piece_has_its_most_bytes_and_a_larger_page_is_one_piece() {
    let options = PoolOptions { read_most_bytes: 40_000, ..super::stage::small_options() };
    let play = Play::with(options, 16 << 20, None, &[16_384, 16_384, 16_384, 100_000, 4096]);
    let mut reader = play.source.reader(0..5, ReadOptions::default());
    while let Some(page) = reader.wait_next() {
        page.unwrap();
    }
    assert_eq!(play.stage.log(), [(0, 32_768), (32_768, 16_384), (49_152, 102_400), (151_552, 4096)]);
}

#[test]
fn readers_share_the_pool_and_leave_half_of_it() {
    let play = Play::new(1 << 30, Some(8 * CHARGE_BYTES), &[8192; 100]);
    play.hold(true);
    let mut first = play.source.reader(0..50, ReadOptions::default());
    let second = play.source.reader(50..100, ReadOptions::default());
    assert!(poll_once(&mut first).0.is_pending());
    assert!(held_bytes(&play) <= 2 * CHUNK_BYTES + bytes(1), "{}", held_bytes(&play));
    drop((first, second));
    play.stage.complete_all();
    assert_eq!(play.budget.reserved_bytes() / CHARGE_BYTES, 2);
}

#[test]
fn a_reader_goes_on_page_by_page_when_others_hold_everything() {
    let play = Play::new(6 * CHARGE_BYTES, Some(2 * CHARGE_BYTES), &[8192; 64]);
    let pins: Vec<_> = (0..16).map(|page| play.pinned(page)).collect();
    play.hold(true);
    let mut reader = play.source.reader(16..24, ReadOptions::default());
    for page in 16..20 {
        assert!(poll_once(&mut reader).0.is_pending());
        assert_eq!((play.stage.held_count(), held_bytes(&play)), (1, bytes(1)));
        play.stage.complete(0);
        assert_eq!(ready(poll_once(&mut reader).0).page(), page);
    }
    drop(pins);
    assert!(poll_once(&mut reader).0.is_pending());
    assert!(held_bytes(&play) > bytes(1), "there is room again");
    play.hold(false);
    play.stage.complete_all();
    assert_eq!(std::iter::from_fn(|| reader.wait_next()).count(), 4);
}

#[test]
fn an_empty_reader_is_at_its_end() {
    let play = Play::new(1 << 20, None, &[4096]);
    let mut reader = play.source.reader([], ReadOptions::default());
    assert!(matches!(poll_once(&mut reader).0, Poll::Ready(None)));
    assert!(reader.wait_next().is_none());
}

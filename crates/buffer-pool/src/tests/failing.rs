//! Reads that fail, pages that are damaged.

use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Wake, Waker};

use thermocline_budget::Budget;
use thermocline_hardware::ManualClock;
use thermocline_medium::{MediumError, SimulatedMedium};
use thermocline_placement::page_cache::PagePolicyName;

use super::stage::{FragilePolicy, Pages, Play, pin, poll_once, ready, small_options};
use crate::{BufferPool, PoolError, ReadOptions};

#[test]
fn a_failed_read_is_an_error_for_all_who_wait_and_is_tried_again_by_the_next() {
    let play = Play::new(1 << 20, None, &[4096]);
    play.hold(true);
    play.stage.bad_bytes.lock().insert(100);
    let mut readers = [0, 1].map(|_| play.source.reader([0], ReadOptions::default()));
    let flags = readers.each_mut().map(|reader| poll_once(reader).1);
    play.stage.complete(0);
    assert_eq!(flags.map(|flag| flag.count()), [1, 1]);
    play.hold(false);
    for reader in &mut readers {
        let error = reader.wait_next().unwrap().unwrap_err();
        assert!(matches!(error, PoolError::Read { .. }), "{error}");
        let message = error.to_string();
        assert!(message.contains("page 0 of column c (bytes 0 to 4096 of pages 1)"), "{message}");
        assert!(error.source().is_some_and(|source| source.to_string().contains("byte 100")), "{message}");
        assert!(reader.wait_next().is_none());
    }
    play.stage.bad_bytes.lock().clear();
    assert!(!play.pinned(0).was_hit());
    assert_eq!((play.stage.log().len(), play.pool.snapshot().page_count), (2, 1));
}

#[test]
fn a_failure_that_nobody_waited_for_is_not_told_to_the_next() {
    let play = Play::new(1 << 20, None, &[4096; 2]);
    play.hold(true);
    play.stage.bad_bytes.lock().insert(0);
    let mut reader = play.source.reader([0, 1], ReadOptions::default());
    assert!(poll_once(&mut reader).0.is_pending());
    drop(reader);
    play.hold(false);
    play.stage.complete_all();
    play.stage.bad_bytes.lock().clear();
    assert!(!play.pinned(0).was_hit());
    assert!(play.pinned(1).was_hit(), "its neighbour was read");
}

#[test]
fn one_bad_page_among_neighbours_read_at_once_fails_alone() {
    let play = Play::new(1 << 20, None, &[5000; 6]);
    play.stage.bad_bytes.lock().insert(3 * 8192 + 7000);
    let mut reader = play.source.reader(0..6, ReadOptions::default());
    for page in 0..6 {
        let outcome = reader.wait_next().unwrap();
        assert_eq!(outcome.is_err(), page == 3, "{outcome:?}");
    }
    assert!(reader.wait_next().is_none());
    assert_eq!(play.stage.log()[0], (0, 6 * 8192));
    assert_eq!(play.pool.snapshot().page_count, 5);
}

#[test]
fn neighbours_of_a_file_that_has_changed_all_fail_by_one_read() {
    let play = Play::new(1 << 20, None, &[5000; 6]);
    play.stage.has_changed.store(true, Ordering::Relaxed);
    let mut reader = play.source.reader(0..6, ReadOptions::default());
    for _ in 0..6 {
        let error = reader.wait_next().unwrap().unwrap_err();
        let PoolError::Read { source, .. } = error else { panic!("{error}") };
        assert!(matches!(*source, MediumError::Changed { .. }), "{source}");
    }
    assert_eq!(play.stage.log(), [(0, 6 * 8192)]);
}

/// A waker of a runtime that is broken.
struct Panicking;

impl Wake for Panicking {
    fn wake(self: Arc<Self>) {
        panic!("told to");
    }
}

#[test]
fn a_waker_that_panics_keeps_nobody_else_waiting() {
    let play = Play::new(1 << 20, None, &[4096; 2]);
    play.hold(true);
    let mut both = play.source.reader([0, 1], ReadOptions::default());
    let waker = Waker::from(Arc::new(Panicking));
    assert!(both.poll_next(&mut Context::from_waker(&waker)).is_pending());
    let mut same = play.source.reader([0], ReadOptions::default());
    let mut neighbour = play.source.reader([1], ReadOptions::default());
    let flags = [&mut same, &mut neighbour].map(|reader| poll_once(reader).1);
    assert_eq!(play.stage.held(), [("pages 1".to_owned(), 0, 2 * 4096)]);
    // Whoever completes the read need not care.
    let _ = catch_unwind(AssertUnwindSafe(|| play.stage.complete(0)));
    assert_eq!(flags.map(|flag| flag.count()), [1, 1]);
    for (reader, page) in [(&mut same, 0), (&mut neighbour, 1)] {
        play.pages.assert_is(page, &ready(poll_once(reader).0), "beside the one that panicked");
    }
}

#[test]
fn a_policy_that_panics_leaves_no_page_under_way() {
    let play = Play::new(1 << 20, None, &[4096; 3]);
    // After the quotas and the first page.
    play.pool.set_policy(FragilePolicy::new(PagePolicyName::LeastRecentlyUsed, 3).0);
    let mut reader = play.source.reader(0..3, ReadOptions::default());
    assert!(catch_unwind(AssertUnwindSafe(|| poll_once(&mut reader))).is_err());
    play.pool.set_policy(PagePolicyName::LeastRecentlyUsed.build());
    for page in 0..3 {
        assert!(!play.pinned(page).was_hit(), "page {page}");
    }
    assert_eq!(play.stage.log().len(), 3);
}

#[test]
fn a_damaged_page_is_not_kept() {
    let play = Play::new(1 << 20, None, &[4096; 2]);
    play.pages.damaged.lock().insert(1);
    let error = pin(&play.source, 1).unwrap_err();
    assert_eq!(
        error.to_string(),
        "page 1 of column c (4096 bytes at byte 4096 of pages 1) is damaged: a wrong checksum in pages 1"
    );
    play.pages.damaged.lock().clear();
    assert!(!play.pinned(1).was_hit());
    assert_eq!(play.pages.check_count(), 2);
}

#[test]
fn a_check_that_panics_leaves_nobody_waiting() {
    let play = Play::new(1 << 20, None, &[4096]);
    play.hold(true);
    play.pages.panicking.lock().insert(0);
    let mut readers = [0, 1].map(|_| play.source.reader([0], ReadOptions::default()));
    readers.iter_mut().for_each(|reader| assert!(poll_once(reader).0.is_pending()));
    play.stage.complete(0);
    let [first, second] = &mut readers;
    let outcome = catch_unwind(AssertUnwindSafe(|| poll_once(first)));
    assert!(outcome.is_err(), "the panic is the first reader's");
    let error = second.wait_next().unwrap().unwrap_err();
    assert!(error.to_string().contains("its check panicked"), "{error}");
}

#[test]
fn a_read_that_the_medium_drops_is_an_error() {
    let play = Play::new(1 << 20, None, &[4096; 2]);
    play.stage.drops_reads.store(true, Ordering::Relaxed);
    let mut reader = play.source.reader([0, 1], ReadOptions::default());
    for _ in 0..2 {
        assert!(matches!(reader.wait_next(), Some(Err(PoolError::Dropped { .. }))));
    }
    play.stage.drops_reads.store(false, Ordering::Relaxed);
    assert!(!play.pinned(0).was_hit());
}

#[test]
fn whichever_read_of_a_disk_fails_one_page_at_most_is_missing_and_comes_the_next_time() {
    for fail_read_index in 0..4 {
        let medium = Arc::new(SimulatedMedium::new(512));
        let budget = Budget::new(1 << 20, None);
        let policy = PagePolicyName::Proportional.build();
        let pool = BufferPool::new(small_options(), &budget, policy, Arc::new(ManualClock::default())).unwrap();
        let pages = Pages::new(Arc::clone(&medium) as _, 1, &[20_000; 12], &[pool.new_list()]);
        let source = pool.register(Arc::clone(&pages) as _);
        let wanted: Vec<u32> = (0..12).filter(|page| page % 4 != 3).collect();
        medium.fail_read_at(fail_read_index);
        let mut reader = source.reader(wanted.clone(), ReadOptions::default());
        let failed = wanted.iter().filter(|_| reader.wait_next().unwrap().is_err()).count();
        // Three reads of three pages each: one that fails is made up for by three.
        assert_eq!((failed, medium.read_count()), (0, if fail_read_index < 3 { 6 } else { 3 }), "{fail_read_index}");
        medium.fail_read_at(medium.read_count());
        assert!(matches!(pin(&source, 3), Err(PoolError::Read { .. })));
        pages.assert_is(3, &pin(&source, 3).unwrap(), "the next time");
    }
}

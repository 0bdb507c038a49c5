//! Many who want one page.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use thermocline_hardware::SystemClock;
use thermocline_medium::{DirectMedium, Medium, MemoryMedium, SystemSleep, Throttle, ThrottledMedium};
use thermocline_placement::page_cache::PagePolicyName;
use thermocline_seeded::Random;

use super::stage::{CHARGE_BYTES, Flag, Pages, Play, poll_once, ready};
use crate::{BufferPool, PageReader, PinnedPage, PoolOptions, ReadOptions, RegisteredSource};

#[test]
fn a_page_is_a_hit_when_it_is_asked_for_again_and_the_same_bytes() {
    let play = Play::new(1 << 20, None, &[5000, 4096, 1]);
    let first = play.pinned(0);
    assert!(!first.was_hit());
    let second = play.pinned(0);
    assert!(second.was_hit());
    assert_eq!((first.as_ptr(), first.page()), (second.as_ptr(), second.page()));
    drop((first, second));
    assert!(play.pinned(0).was_hit());
    assert_eq!((play.stage.log().len(), play.pages.check_count()), (1, 1));
    let list = play.pool.snapshot().lists[0].clone();
    assert_eq!((list.page_count, list.held_bytes, list.read_bytes), (1, 8192, 8192));
    assert_eq!((list.hit_count, list.miss_count), (2, 1));
}

#[test]
fn pages_are_missing_until_they_are_on_their_way_and_looking_is_no_use_of_them() {
    let play = Play::new(1 << 20, None, &[5000, 4096, 1]);
    play.pinned(1);
    play.hold(true);
    assert_eq!(play.source.missing([2, 1, 0]), [2, 0]);
    let mut reader = play.source.reader([0], ReadOptions::default());
    reader.start();
    assert_eq!(play.source.missing(0..3), [2]);
    let list = play.pool.snapshot().lists[0].clone();
    assert_eq!((list.hit_count, list.miss_count), (0, 2));
    play.stage.complete_all();
    assert_eq!(play.source.missing(0..3), [2]);
}

#[test]
fn a_list_that_is_given_to_something_else_counts_anew() {
    let play = Play::new(1 << 20, None, &[5000, 4096]);
    play.pinned(0);
    play.pinned(0);
    let list = play.pool.snapshot().lists[0].list;
    play.pool.reuse_list(list);
    play.pinned(1);
    let list = play.pool.snapshot().lists[0].clone();
    assert_eq!((list.hit_count, list.miss_count, list.read_bytes), (0, 1, 4096));
    assert_eq!(list.page_count, 2, "what it has, it has");
}

#[test]
fn two_who_wait_for_a_page_are_both_woken_and_it_is_checked_once() {
    let play = Play::new(1 << 20, None, &[4096]);
    play.hold(true);
    let mut readers = [0, 1].map(|_| play.source.reader([0], ReadOptions::default()));
    let flags = readers.each_mut().map(|reader| {
        let (poll, flag) = poll_once(reader);
        assert!(poll.is_pending());
        flag
    });
    assert_eq!((play.stage.held_count(), flags.each_ref().map(|flag| flag.count())), (1, [0, 0]));
    play.clock.advance_ns(700);
    play.stage.complete(0);
    assert_eq!(flags.map(|flag| flag.count()), [1, 1]);
    let [first, second] = readers.each_mut().map(|reader| ready(poll_once(reader).0));
    assert_eq!((first.was_hit(), second.was_hit()), (false, true));
    assert_eq!((first.waited_ns(), second.waited_ns()), (700, 700));
    assert_eq!(play.pages.check_count(), 1);
    assert!(readers.each_mut().iter_mut().all(|reader| matches!(poll_once(reader).0, Poll::Ready(None))));
}

#[test]
fn who_comes_while_a_page_is_checked_waits_for_that() {
    let play = Play::new(1 << 20, None, &[4096]);
    let late = Arc::new(Mutex::new((play.source.reader([0], ReadOptions::default()), None)));
    let comes_late = Arc::clone(&late);
    *play.pages.meanwhile.lock() = Some(Box::new(move || {
        let (reader, flag) = &mut *comes_late.lock();
        let (poll, woken) = poll_once(reader);
        assert!(poll.is_pending());
        *flag = Some(woken);
    }));
    play.pinned(0);
    let (reader, flag) = &mut *late.lock();
    assert_eq!(flag.as_ref().map(|flag| flag.count()), Some(1));
    play.pages.assert_is(0, &ready(poll_once(reader).0), "late");
    assert_eq!(play.pages.check_count(), 1);
}

#[test]
fn a_read_outlives_who_asked_for_it_first() {
    let play = Play::new(1 << 20, None, &[4096]);
    play.hold(true);
    let mut first = play.source.reader([0], ReadOptions::default());
    let mut second = play.source.reader([0], ReadOptions::default());
    assert!(poll_once(&mut first).0.is_pending());
    let (poll, flag) = poll_once(&mut second);
    assert!(poll.is_pending());
    drop(first);
    play.stage.complete(0);
    assert_eq!(flag.count(), 1);
    play.pages.assert_is(0, &ready(poll_once(&mut second).0), "second");
    drop(second);
    // All go away before the read is over: the page is there for the next, checked then.
    play.pool.clear();
    drop(play.source.reader([0], ReadOptions::default()));
    let mut third = play.source.reader([0], ReadOptions::default());
    assert!(poll_once(&mut third).0.is_pending());
    drop(third);
    play.stage.complete(0);
    assert_eq!(play.pages.check_count(), 1);
    assert!(play.pinned(0).was_hit());
    assert_eq!((play.stage.log().len(), play.pages.check_count()), (2, 2));
}

#[test]
fn the_next_page_is_a_future_that_wakes() {
    let play = Play::new(1 << 20, None, &[4096]);
    play.hold(true);
    let flag = Arc::new(Flag::default());
    let waker = Waker::from(Arc::clone(&flag));
    let mut reader = play.source.reader([0], ReadOptions::default());
    let mut next = pin!(reader.next());
    assert!(next.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    play.clock.advance_ns(30);
    play.stage.complete(0);
    assert_eq!(flag.count(), 1);
    let page = ready(next.poll(&mut Context::from_waker(&waker)));
    assert_eq!((page.waited_ns(), page.was_hit()), (30, false));
    let mut reader = play.source.reader([0], ReadOptions::default());
    assert!(pin!(reader.next()).poll(&mut Context::from_waker(&waker)).is_ready());
}

#[test]
fn threads_that_ask_for_the_same_pages_read_each_once() {
    const PAGE_COUNT: u32 = 200;
    let seed = 11;
    let play = Play::new(64 << 20, None, &[10_000; PAGE_COUNT as usize]);
    thread::scope(|scope| {
        for thread in 0..8 {
            let play = &play;
            scope.spawn(move || {
                let mut random = Random::new(seed + thread);
                let pages: Vec<u32> = (0..400).map(|_| random.below(PAGE_COUNT as usize) as u32).collect();
                let mut reader = play.source.reader(pages.clone(), ReadOptions { read_ahead_bytes: 100_000 });
                for page in pages {
                    let pinned = reader.wait_next().unwrap().unwrap();
                    play.pages.assert_is(page, &pinned, &format!("seed {seed}"));
                }
            });
        }
    });
    let log = play.stage.log();
    let read_bytes: u64 = log.iter().map(|&(_, length)| length).sum();
    let list = play.pool.snapshot().lists[0].clone();
    assert_eq!((read_bytes, list.miss_count), (list.page_count * 12_288, list.page_count), "seed {seed}: {log:?}");
    assert_eq!(play.pages.check_count(), list.page_count);
    assert_eq!(list.hit_count + list.miss_count, 8 * 400);
}

#[test]
fn threads_wait_for_a_slow_disk_and_get_what_it_has_while_queries_take_memory() {
    const PAGE_COUNT: u32 = 300;
    let seed = 5;
    let (clock, budget) = (Arc::new(SystemClock::new()), thermocline_budget::Budget::new(40 * CHARGE_BYTES, None));
    let throttle = Throttle { bytes_per_s: 400_000_000, latency_ns: 30_000 };
    let medium = ThrottledMedium::new(Arc::new(MemoryMedium::new()), throttle, clock.clone(), Arc::new(SystemSleep));
    let policy = PagePolicyName::Proportional.build();
    let pool = BufferPool::new(super::stage::small_options(), &budget, policy, clock).unwrap();
    let lists = [0; 3].map(|_| pool.new_list());
    let pages = Pages::new(Arc::new(medium.unwrap()), 1, &[9_000; PAGE_COUNT as usize], &lists);
    let source = pool.register(Arc::clone(&pages) as _);
    let (left_count, page_count) = (AtomicU64::new(4), AtomicU64::new(0));
    thread::scope(|scope| {
        for thread in 0..4 {
            let (source, pages, left_count, page_count) = (&source, &pages, &left_count, &page_count);
            scope.spawn(move || {
                let mut random = Random::new(seed + thread);
                for _ in 0..12 {
                    let from = random.below(PAGE_COUNT as usize) as u32;
                    let wanted = from..PAGE_COUNT.min(from + 100);
                    let mut reader = source.reader(wanted.clone(), ReadOptions { read_ahead_bytes: 200_000 });
                    let stop = if random.one_in(4) { random.below(20) as u32 } else { 1000 };
                    for page in wanted.take(stop as usize) {
                        let pinned = reader.wait_next().unwrap().unwrap();
                        pages.assert_is(page, &pinned, &format!("seed {seed}"));
                        page_count.fetch_add(1, Ordering::Relaxed);
                    }
                }
                left_count.fetch_sub(1, Ordering::Relaxed);
            });
        }
        let query = budget.account("sort", thermocline_budget::Purpose::Query);
        let mut random = Random::new(seed);
        while left_count.load(Ordering::Relaxed) > 0 {
            let held = query.try_reserve(random.below(20 * CHARGE_BYTES as usize) as u64);
            pool.set_quotas(&lists.map(|list| (list, random.below(15) as u64 * 65_536)));
            thread::yield_now();
            assert!(budget.reserved_bytes() <= budget.limit_bytes(), "seed {seed}");
            drop(held);
        }
    });
    assert!(page_count.load(Ordering::Relaxed) > 1000);
    drop(source);
    // The medium's thread lets go of a page a moment after it has woken who waits for it, and reads that a dropped
    // reader asked for may be on their way still.
    let is_empty = || {
        pool.clear();
        (budget.reserved_bytes(), pool.snapshot().mapped_bytes) == (0, 0)
    };
    let mut left_ms = 10_000;
    while !is_empty() && left_ms > 0 {
        thread::sleep(Duration::from_millis(1));
        left_ms -= 1;
    }
    assert!(is_empty(), "seed {seed}: {:?}", pool.snapshot());
}

#[test]
fn a_pool_with_nothing_but_its_default_settings_serves_pages_of_many_sizes() {
    let sizes = [1, 4096, 4097, 300_000, 2 << 20, (2 << 20) + 1, 5 << 20, 70_000];
    let play = Play::with(PoolOptions::default(), 64 << 20, None, &sizes);
    let mut reader = play.source.reader(0..8, ReadOptions::default());
    let pinned: Vec<_> = std::iter::from_fn(|| reader.wait_next()).map(|page| page.unwrap()).collect();
    for (page, bytes) in (0..).zip(&pinned) {
        play.pages.assert_is(page, bytes, "default settings");
    }
    assert_eq!(pinned.len(), sizes.len());
}

#[test]
fn pages_come_from_a_disk_past_the_page_cache() {
    let seed = 3;
    let folder = tempfile::tempdir().unwrap();
    let medium: Arc<dyn Medium> = Arc::new(DirectMedium::open(folder.path()).unwrap());
    let budget = thermocline_budget::Budget::new(6 << 20, None);
    let policy = PagePolicyName::default().build();
    let pool = BufferPool::new(PoolOptions::default(), &budget, policy, Arc::new(SystemClock::new())).unwrap();
    let sizes: Vec<u32> = (1..120).map(|index| index * 997 % 150_000 + 1).collect();
    let pages = Pages::new(medium, 1, &sizes, &[pool.new_list(), pool.new_list()]);
    let source = pool.register(Arc::clone(&pages) as _);
    thread::scope(|scope| {
        for thread in 0..3 {
            let (source, pages, page_count) = (&source, &pages, sizes.len());
            scope.spawn(move || {
                let mut random = Random::new(seed + thread);
                for _ in 0..6 {
                    let from = random.below(page_count) as u32;
                    let mut reader = source.reader(from..page_count as u32, ReadOptions::default());
                    while let Some(page) = reader.wait_next() {
                        let page = page.unwrap();
                        pages.assert_is(page.page(), &page, &format!("seed {seed}"));
                    }
                }
            });
        }
    });
    assert!(budget.reserved_bytes() <= budget.limit_bytes());
}

#[test]
fn everything_can_be_handed_to_other_threads() {
    fn is_sent<T: Send + 'static>() {}
    fn is_shared<T: Send + Sync + 'static>() {}
    is_shared::<BufferPool>();
    is_shared::<RegisteredSource>();
    is_shared::<PinnedPage>();
    is_sent::<PageReader>();
}

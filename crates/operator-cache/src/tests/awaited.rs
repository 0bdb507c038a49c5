//! Requests that wait for a scan that has some of their columns.

use std::future::Future;
use std::pin::pin as pin_here;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::executor::block_on;
use futures::task::noop_waker;
use thermocline_budget::ReclaimableCache;
use thermocline_predicate::Conjunction;
use thermocline_seeded::Random;

use super::fake::*;
use crate::*;

const RECORDS: u64 = 640;

/// Asks for all rows that pass, keeps all, and may wait.
fn patient(names: &[&str], predicate: &Arc<Conjunction>) -> SelectRequest {
    SelectRequest { retain_predicate: Arc::default(), may_wait: true, ..request(names, predicate) }
}

fn begin(cache: &Arc<OperatorCache>, fake: &Arc<Fake>, request: &SelectRequest) -> Start {
    cache.begin(request, &pin(cache, &object("f", "1", RECORDS)), true, fake.factory())
}

fn awaited(start: Start) -> Awaited {
    match start {
        Start::Wait(awaited) => awaited,
        other => panic!("{other:?} does not wait"),
    }
}

fn leader(cache: &Arc<OperatorCache>, fake: &Arc<Fake>) -> Start {
    let leader = begin(cache, fake, &patient(&["a", "b"], &between(0, 999)));
    assert!(matches!(leader, Start::Scan(_)));
    leader
}

/// Polls once.
fn is_over(awaited: &mut Awaited) -> bool {
    let waker = noop_waker();
    pin_here!(awaited.over()).poll(&mut Context::from_waker(&waker)).is_ready()
}

/// Asks until there is an answer.
fn answer_in_the_end(
    cache: &Arc<OperatorCache>,
    fake: &Arc<Fake>,
    request: &SelectRequest,
    streams: usize,
) -> Vec<i64> {
    let mut earlier = None;
    for _ in 0..100 {
        match begin(cache, fake, request) {
            Start::Wait(mut awaited) => {
                block_on(awaited.over());
                earlier = Some(awaited);
            }
            start => {
                drop(earlier);
                return answer(start, streams).unwrap();
            }
        }
    }
    panic!("it waits and waits");
}

/// The columns that each scan was asked for.
fn scanned(fake: &Fake) -> Vec<Vec<String>> {
    let specs = fake.specs.lock();
    specs.iter().map(|spec| spec.columns.iter().map(|column| column.path.to_string()).collect()).collect()
}

#[test]
fn those_who_wait_have_what_is_lacking_scanned_once_and_together() {
    for fetch_polls in [0, 2] {
        let (cache, _budget) = cache(64 << 20);
        let fake = Arc::new(Fake { fetch_polls, ..Fake::default() });
        let range = between(100, 700);
        let leader = leader(&cache, &fake);
        let (second, third) = (patient(&["a", "b", "s.z"], &range), patient(&["a", "b", "w"], &range));
        let mut awaited = [&second, &third].map(|request| awaited(begin(&cache, &fake, request)));
        // The leader is never polled: those who wait drive its scan.
        for awaited in &mut awaited {
            block_on(awaited.over());
        }
        assert_eq!(scanned(&fake), [["a", "b"]]);
        let topped_up = begin(&cache, &fake, &second);
        let joined = begin(&cache, &fake, &third);
        assert!(matches!(&joined, Start::Scan(_)));
        for start in [leader, topped_up, joined] {
            let is_leader = matches!(&start, Start::Scan(participant) if participant.columns().len() == 2);
            let predicate = if is_leader { between(0, 999) } else { between(100, 700) };
            assert_eq!(answer(start, 2).unwrap(), expected(RECORDS, &predicate));
        }
        assert_eq!(scanned(&fake), [vec!["a", "b"], vec!["s.z", "w"]]);
        assert_eq!(fake.most_decodes(), 2);
        assert_eq!(cache.items().len(), 1);
        // Nobody waits any more: the next one is on its own.
        drop(awaited);
        let decisions = cache.decisions();
        assert_eq!(decisions.iter().filter(|decision| decision.kind == DecisionKind::Wait).count(), 2);
    }
}

#[test]
fn what_nobody_waits_for_any_more_is_not_scanned() {
    let (cache, _budget) = cache(64 << 20);
    let fake = Arc::new(Fake::default());
    let leader = leader(&cache, &fake);
    let (second, third) = (patient(&["b", "s.z"], &between(0, 9)), patient(&["a", "b", "w"], &between(0, 9)));
    drop(awaited(begin(&cache, &fake, &third)));
    let mut second_waits = awaited(begin(&cache, &fake, &patient(&["a", "b", "s.z"], &between(0, 9))));
    block_on(second_waits.over());
    answer(leader, 1).unwrap();
    let second = SelectRequest { columns: columns(&["a", "b", "s.z"]), ..second };
    assert_eq!(answer(begin(&cache, &fake, &second), 1).unwrap(), expected(RECORDS, &between(0, 9)));
    assert_eq!(scanned(&fake), [vec!["a", "b"], vec!["s.z"]]);
}

#[test]
fn nobody_waits_for_what_would_spare_nothing() {
    let (cache, _budget) = cache(64 << 20);
    let fake = Arc::new(Fake::default());
    let range = between(100, 200);
    let leader = leader(&cache, &fake);
    let all: Arc<Conjunction> = Arc::default();
    let in_haste = SelectRequest { may_wait: false, ..patient(&["a", "b", "s.z"], &range) };
    let of_other_columns = patient(&["w"], &all);
    let may_skip = SelectRequest { may_skip: true, ..patient(&["a", "b", "s.z"], &range) };
    for request in [in_haste, of_other_columns, may_skip] {
        assert!(matches!(begin(&cache, &fake, &request), Start::Scan(_)), "{request:?}");
    }
    // All columns: taking part is enough.
    assert!(matches!(begin(&cache, &fake, &patient(&["b"], &all)), Start::Scan(_)));
    drop(leader);
}

#[test]
fn few_records_whose_positions_are_known_are_read_without_waiting() {
    let (cache, _budget) = cache(64 << 20);
    let fake = Arc::new(Fake::default());
    let few = between(100, 105);
    let plain = request(&["a", "b"], &few);
    assert_eq!(answer(begin(&cache, &fake, &plain), 1).unwrap(), expected(RECORDS, &few));
    let leader = begin(&cache, &fake, &patient(&["a", "b", "w"], &between(0, 999)));
    let wider = SelectRequest { may_wait: true, ..request(&["a", "b", "s.z"], &few) };
    let start = begin(&cache, &fake, &wider);
    assert!(matches!(&start, Start::Scan(participant) if **participant.predicate() == *few), "{start:?}");
    drop(leader);
}

/// How a scan may end without an item.
#[derive(Debug, Clone, Copy)]
enum Loss {
    Memory,
    Clear,
    Failure,
    Finish,
    Change,
}

#[test]
fn the_wait_is_over_when_nothing_is_left_to_wait_for() {
    for loss in [Loss::Memory, Loss::Clear, Loss::Failure, Loss::Finish, Loss::Change] {
        let (cache, _budget) = cache(64 << 20);
        let fail_at = matches!(loss, Loss::Failure).then_some(3);
        let fake = Arc::new(Fake { fail_at, ..Fake::default() });
        let leader = leader(&cache, &fake);
        let wanted = patient(&["a", "b", "s.z"], &between(100, 700));
        let mut awaited = awaited(begin(&cache, &fake, &wanted));
        assert!(!is_over(&mut awaited), "{loss:?}");
        match loss {
            Loss::Memory => drop(cache.release(1 << 30)),
            Loss::Clear => cache.clear(),
            Loss::Failure => {}
            Loss::Finish => fake.finish_fails.store(true, std::sync::atomic::Ordering::Relaxed),
            Loss::Change => drop(pin(&cache, &object("f", "2", RECORDS))),
        }
        block_on(awaited.over());
        assert!(cache.items().is_empty(), "{loss:?}");
        drop(leader);
        let healthy = Arc::new(Fake::default());
        let found = answer(begin(&cache, &healthy, &wanted), 1).unwrap();
        assert_eq!(found, expected(RECORDS, &wanted.predicate), "{loss:?}");
    }
}

#[test]
fn a_scan_whose_leader_left_is_brought_to_its_end() {
    let (cache, _budget) = cache(64 << 20);
    let fake = Arc::new(Fake::default());
    let leader = leader(&cache, &fake);
    let wanted = patient(&["a", "b", "s.z"], &between(100, 700));
    let mut awaited = awaited(begin(&cache, &fake, &wanted));
    drop(leader);
    block_on(awaited.over());
    assert_eq!(cache.items().len(), 1);
    assert_eq!(answer(begin(&cache, &fake, &wanted), 1).unwrap(), expected(RECORDS, &wanted.predicate));
    assert_eq!(scanned(&fake), [vec!["a", "b"], vec!["s.z"]]);
}

#[test]
fn a_wait_that_is_given_up_leaves_the_scan_to_the_others() {
    let (cache, _budget) = cache(64 << 20);
    let fake = Arc::new(Fake::default());
    let leader = leader(&cache, &fake);
    let mut awaited = awaited(begin(&cache, &fake, &patient(&["a", "b", "s.z"], &between(100, 700))));
    for _ in 0..5 {
        assert!(!is_over(&mut awaited));
    }
    drop(awaited);
    assert_eq!(answer(leader, 2).unwrap(), expected(RECORDS, &between(0, 999)));
    assert_eq!(fake.most_decodes(), 1);
    let items = cache.items();
    assert_eq!((items.len(), items[0].use_count), (1, 1), "those who wait use nothing");
}

#[test]
fn many_threads_with_other_columns_end_with_right_answers() {
    for seed in 0..40 {
        within_a_minute(seed, move || {
            let limit_bytes = [200_000, 64 << 20][seed as usize % 2];
            let (cache, _budget) = cache(limit_bytes);
            let fake = Arc::new(Fake { fetch_polls: seed % 3, ..Fake::default() });
            std::thread::scope(|scope| {
                for thread in 0..8 {
                    let (cache, fake) = (&cache, &fake);
                    scope.spawn(move || {
                        let mut random = Random::new(seed * 100 + thread + 1);
                        for _ in 0..6 {
                            let names: Vec<&str> = ["a", "b", "s", "s.z", "w"]
                                .into_iter()
                                .filter(|name| ["a", "b"].contains(name) || random.one_in(3))
                                .collect();
                            let low = random.below_u64(9) as i64 * 100;
                            let request = patient(&names, &between(low, low + 99));
                            let streams = 1 + random.below_u64(3) as usize;
                            let found = answer_in_the_end(cache, fake, &request, streams);
                            assert_eq!(found, expected(RECORDS, &request.predicate), "seed {seed}");
                            if random.one_in(8) {
                                cache.release(limit_bytes / 2);
                            }
                        }
                    });
                }
            });
            cache.clear();
            assert!(cache.reserved_bytes() < 2000, "{} bytes are left, seed {seed}", cache.reserved_bytes());
        });
    }
}

#[test]
fn an_answer_that_was_waited_for_is_not_of_the_file_as_it_was() {
    let (cache, _budget) = cache(64 << 20);
    let fake = Arc::new(Fake::default());
    let leader = leader(&cache, &fake);
    let wanted = patient(&["a", "b", "s.z"], &between(0, 999));
    let mut waits = awaited(begin(&cache, &fake, &wanted));
    // Another content of half the length, pinned while the wait goes on.
    let shorter = pin(&cache, &object("f", "2", RECORDS / 2));
    let start = cache.begin(&wanted, &shorter, true, fake.factory());
    assert!(matches!(&start, Start::Scan(_)), "the scan is of another version");
    assert_eq!(answer(start, 1).unwrap(), expected(RECORDS / 2, &wanted.predicate));
    assert!(matches!(pin_here!(waits.over()).poll(&mut Context::from_waker(&noop_waker())), Poll::Ready(())));
    drop(leader);
}

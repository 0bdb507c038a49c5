//! What a recorder is told, against what the cache did.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use thermocline_budget::Budget;
use thermocline_hardware::ManualClock;
use thermocline_placement::operator_cache::trace::{Answered, Request};

use super::fake::*;
use crate::*;

const RECORDS: u64 = 2000;

#[derive(Debug, Default)]
struct Notes {
    is_off: AtomicBool,
    requests: Mutex<Vec<Request>>,
}

impl Recorder for Notes {
    fn is_on(&self) -> bool {
        !self.is_off.load(Ordering::Relaxed)
    }

    fn record(&self, request: &Request) {
        self.requests.lock().push(request.clone());
    }
}

impl Notes {
    fn answers(&self) -> Vec<Answered> {
        self.requests.lock().iter().map(|request| request.answered).collect()
    }
}

fn recorded_cache(limit_bytes: u64) -> (Arc<OperatorCache>, Arc<Notes>) {
    let notes = Arc::new(Notes::default());
    let options = CacheOptions { recorder: Some(Arc::clone(&notes) as _), ..CacheOptions::default() };
    let budget = Budget::new(1 << 30, Some(limit_bytes));
    (OperatorCache::new(options, &budget, Arc::new(ManualClock::new(7))), notes)
}

fn begin(cache: &Arc<OperatorCache>, fake: &Arc<Fake>, request: &SelectRequest, tag: &str) -> Start {
    cache.begin(request, &pin(cache, &object("f", tag, RECORDS)), true, fake.factory())
}

#[test]
fn a_miss_a_hit_and_a_narrower_hit_name_the_item_that_answered() {
    let (cache, notes) = recorded_cache(64 << 20);
    let fake = Arc::new(Fake::default());
    let wide = request(&["a", "b"], &between(100, 500));
    let narrow = request(&["b"], &between(200, 300));
    for asked in [&wide, &wide, &narrow, &wide] {
        answer(begin(&cache, &fake, asked, "1"), 2).unwrap();
    }
    let other_content = answer(begin(&cache, &fake, &wide, "2"), 2);
    assert!(other_content.is_ok());
    assert_eq!(notes.answers(), [Answered::Missed, Answered::Hit, Answered::Subsumed, Answered::Hit, Answered::Missed]);
    let requests = notes.requests.lock();
    let item_bytes = cache.items()[0].size_bytes;
    for request in requests.iter() {
        assert_eq!((request.wall_ns, &*request.source, request.kind), (7, "f", SourceKind::Json));
        assert_eq!(request.size_bytes, item_bytes);
    }
    assert!(requests[..4].iter().all(|request| request.item == requests[0].item));
    assert_eq!((requests[0].asked, requests[1].asked), (requests[0].item, requests[0].item));
    assert_ne!(requests[2].asked, requests[2].item);
    assert_ne!(requests[4].item, requests[0].item, "another content is another item");
}

#[test]
fn an_item_that_is_given_columns_stays_the_same_item_and_grows() {
    let (cache, notes) = recorded_cache(64 << 20);
    let fake = Arc::new(Fake::default());
    let predicate = between(100, 500);
    for names in [&["a", "b"][..], &["a", "b", "s.z"], &["b", "s.z"]] {
        answer(begin(&cache, &fake, &request(names, &predicate), "1"), 2).unwrap();
    }
    assert_eq!(notes.answers(), [Answered::Missed, Answered::Extended, Answered::Hit]);
    let requests = notes.requests.lock();
    assert!(requests.iter().all(|request| (request.item, request.asked) == (requests[0].item, requests[0].item)));
    assert!(requests[0].size_bytes < requests[1].size_bytes && requests[1].size_bytes == requests[2].size_bytes);
}

#[test]
fn those_who_join_a_scan_are_recorded_when_it_ends_and_after_who_began_it() {
    let (cache, notes) = recorded_cache(64 << 20);
    let fake = Arc::new(Fake::default());
    let wide = request(&["a", "b"], &between(100, 500));
    let narrow = request(&["a", "b"], &between(200, 300));
    let (first, second) = (begin(&cache, &fake, &wide, "1"), begin(&cache, &fake, &narrow, "1"));
    assert_eq!(notes.answers(), []);
    answer(second, 1).unwrap();
    answer(first, 1).unwrap();
    assert_eq!(notes.answers(), [Answered::Missed, Answered::Joined]);
    let requests = notes.requests.lock();
    assert_eq!((requests[0].item, requests[1].item), (requests[0].asked, requests[0].asked));
    assert_ne!(requests[1].asked, requests[0].asked);
}

#[test]
fn a_scan_that_could_not_be_kept_is_recorded_with_the_size_it_would_have_had() {
    let fake = Arc::new(Fake { morsel_records: 200, ..Fake::default() });
    let wide = request(&["a", "b"], &between(0, 999));
    let size = |limit_bytes| {
        let (cache, notes) = recorded_cache(limit_bytes);
        answer(begin(&cache, &fake, &wide, "1"), 1).unwrap();
        assert_eq!(cache.items().is_empty(), limit_bytes < 1 << 20);
        assert_eq!(notes.answers(), [Answered::Missed]);
        notes.requests.lock()[0].size_bytes as f64
    };
    let ratio = size(10_000) / size(64 << 20);
    assert!((0.7..1.4).contains(&ratio), "{ratio} of the size it has when it is kept");
}

#[test]
fn scans_alone_abandoned_scans_and_what_nobody_wants_to_know_are_not_recorded() {
    let (cache, notes) = recorded_cache(64 << 20);
    let fake = Arc::new(Fake::default());
    let asked = request(&["a", "b"], &between(100, 500));
    let pinned = pin(&cache, &object("f", "1", RECORDS));
    answer(Start::Scan(cache.scan_alone(&asked, &pinned, fake.factory())), 1).unwrap();
    drop(begin(&cache, &fake, &asked, "1"));
    notes.is_off.store(true, Ordering::Relaxed);
    for _ in 0..2 {
        answer(begin(&cache, &fake, &asked, "1"), 1).unwrap();
    }
    assert_eq!(notes.answers(), []);
    notes.is_off.store(false, Ordering::Relaxed);
    answer(begin(&cache, &fake, &asked, "1"), 1).unwrap();
    assert_eq!(notes.answers(), [Answered::Hit]);
}

//! Small traces, every plan of them, and the rules that all plans keep.

use std::collections::HashMap;
use std::sync::Arc;

use super::future::next_requests;
use super::*;
use crate::operator_cache::SourceKind;

/// A request for an item that takes so many seconds to compute, and nothing to cache, find or read.
pub(super) fn request(item: u64, size_bytes: u64, seconds: u64) -> Request {
    Request {
        wall_ns: 0,
        answered: Answered::Missed,
        source: Arc::from("f"),
        kind: SourceKind::Csv,
        item,
        asked: item,
        size_bytes,
        execute_ns: seconds * 1_000_000_000,
        cache_ns: 0,
        reuse_scan_ns: 0,
        lookup_ns: 0,
    }
}

/// Requests for items of ten bytes that take a second each.
pub(super) fn requests(items: &[u64]) -> Vec<Request> {
    items.iter().map(|item| request(*item, 10, 1)).collect()
}

/// What is held after each request, at most.
fn peak_bytes(requests: &[Request], plan: &[bool]) -> u64 {
    let mut held: HashMap<u64, u64> = HashMap::new();
    let mut peak_bytes = 0;
    for (request, kept) in requests.iter().zip(plan) {
        held.remove(&request.item);
        if *kept {
            held.insert(request.item, request.size_bytes);
        }
        peak_bytes = peak_bytes.max(held.values().sum());
    }
    peak_bytes
}

/// The rules of every plan.
pub(super) fn check_plan(requests: &[Request], plan: &[bool], limit_bytes: u64, context: &str) {
    assert_eq!(plan.len(), requests.len(), "{context}");
    assert!(peak_bytes(requests, plan) <= limit_bytes, "the limit is kept, {context}");
    for (next, kept) in next_requests(requests).into_iter().zip(plan) {
        assert!(next.is_some() || !kept, "nothing is held for nobody, {context}");
    }
}

/// Every plan that keeps the limit.
fn plans(requests: &[Request], limit_bytes: u64) -> impl Iterator<Item = Vec<bool>> + '_ {
    let next = next_requests(requests);
    let free: Vec<usize> = (0..requests.len()).filter(|&index| next[index].is_some()).collect();
    (0..1_u32 << free.len())
        .map(move |set| {
            let mut plan = vec![false; requests.len()];
            for (bit, &index) in free.iter().enumerate() {
                plan[index] = set >> bit & 1 == 1;
            }
            plan
        })
        .filter(move |plan| peak_bytes(requests, plan) <= limit_bytes)
}

/// The least time of any plan.
pub(super) fn best_spent_s(requests: &[Request], limit_bytes: u64) -> f64 {
    plans(requests, limit_bytes).map(|plan| replay_plan(requests, &plan).spent_s).fold(f64::INFINITY, f64::min)
}

/// The least loss of any plan.
pub(super) fn best_lost_s(requests: &[Request], limit_bytes: u64) -> f64 {
    let next = next_requests(requests);
    let loss = |plan: Vec<bool>| -> f64 {
        plan.iter()
            .zip(&next)
            .filter_map(|(kept, next)| if *kept { None } else { next.map(|next| requests[next].saving_s()) })
            .sum()
    };
    plans(requests, limit_bytes).map(loss).fold(f64::INFINITY, f64::min)
}

#[test]
fn a_plan_is_charged_for_scans_caching_and_reading() {
    let timed = |item, answered| Request {
        answered,
        cache_ns: 2_000_000_000,
        reuse_scan_ns: 300_000_000,
        lookup_ns: 50_000_000,
        ..request(item, 10, 7)
    };
    let missed = Answered::Missed;
    let requests = [timed(1, missed), timed(2, missed), timed(1, missed), timed(1, Answered::Joined), timed(1, missed)];
    let outcome = replay_plan(&requests, &[true, false, false, true, false]);
    // 7 + 2, 7, 0.35, caching what the scan that was joined found: 2, 0.35.
    assert!((outcome.spent_s - 18.7).abs() < 1e-9, "{outcome:?}");
    assert_eq!((outcome.hit_count, outcome.missed_count, outcome.joined_count), (2, 2, 1));
    assert_eq!((outcome.hit_bytes, outcome.evicted_count, outcome.refused_count), (20, 2, 1));
}

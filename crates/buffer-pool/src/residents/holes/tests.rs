#![allow(clippy::unwrap_used, clippy::panic)]

use super::*;
use thermocline_seeded::Random;

/// Pages one after the other in memory with what is free before each, and which of them are candidates in which order.
fn candidates(random: &mut Random, page_count: usize) -> Vec<Candidate> {
    let mut free_before = vec![0_u64; page_count + 1];
    let (mut frames, mut offset) = (Vec::new(), 0);
    for free_bytes in free_before.iter_mut().take(page_count) {
        *free_bytes = if random.one_in(2) { random.below(4) as u64 } else { 0 };
        let start = offset + *free_bytes;
        offset = start + 1 + random.below(8) as u64;
        frames.push(start..offset);
    }
    let mut order: Vec<usize> = (0..page_count).filter(|_| !random.one_in(3)).collect();
    for index in (1..order.len()).rev() {
        order.swap(index, random.below(index + 1));
    }
    let candidate = |page: usize| Candidate {
        key: PageKey { source: 0, page: page as u32 },
        hole: frames[page].start - free_before[page]..frames[page].end + free_before[page + 1],
        frame: frames[page].clone(),
    };
    order.into_iter().map(candidate).collect()
}

/// The obvious way: every range of pages all of which are candidates.
fn smallest_of_all(candidates: &[Candidate], wanted_bytes: u64) -> Option<u64> {
    let find = |page: u32| candidates.iter().find(|candidate| candidate.key.page == page);
    let mut smallest: Option<u64> = None;
    for first in candidates {
        let mut last = first;
        loop {
            let hole_bytes = last.hole.end - first.hole.start;
            if hole_bytes >= wanted_bytes {
                smallest = Some(smallest.map_or(hole_bytes, |smallest| smallest.min(hole_bytes)));
            }
            let Some(next) = find(last.key.page + 1) else { break };
            last = next;
        }
    }
    smallest
}

#[test]
fn the_pages_that_go_leave_the_smallest_hole_that_suffices() {
    for seed in 0..2000 {
        let mut random = Random::new(seed);
        let page_count = 1 + random.below(FIRST_COUNT);
        let candidates = candidates(&mut random, page_count);
        let wanted_bytes = 1 + random.below(24) as u64;
        let chosen = for_a_hole(&candidates, wanted_bytes);
        let hole_bytes = chosen.map(|mut chosen| {
            chosen.sort_unstable();
            assert!(chosen.windows(2).all(|pair| pair[0].page + 1 == pair[1].page), "seed {seed}: {chosen:?}");
            let hole = |key: &PageKey| candidates.iter().find(|candidate| candidate.key == *key).unwrap().hole.clone();
            hole(chosen.last().unwrap()).end - hole(&chosen[0]).start
        });
        assert_eq!(hole_bytes, smallest_of_all(&candidates, wanted_bytes), "seed {seed}: {candidates:?}");
    }
}

#[test]
fn of_alike_candidates_the_first_goes_and_later_ones_only_if_no_earlier_one_will_do() {
    let candidate = |page: u32, size_bytes: u64| {
        let start = 100 * u64::from(page);
        let frame = start..start + size_bytes;
        Candidate { key: PageKey { source: 0, page }, hole: frame.clone(), frame }
    };
    let mut candidates: Vec<Candidate> = (0..64).rev().map(|page| candidate(page, 10)).collect();
    assert_eq!(for_a_hole(&candidates, 10), Some(vec![candidates[0].key]));
    assert_eq!(for_a_hole(&candidates, 11), None);
    candidates[20] = candidate(43, 12);
    candidates[40] = candidate(23, 11);
    assert_eq!(for_a_hole(&candidates, 11), Some(vec![candidates[20].key]), "40 would be closer, and is later");
    candidates[15] = candidate(48, 50);
    assert_eq!(for_a_hole(&candidates, 11), Some(vec![candidates[15].key]));
    assert!(candidates[20].is_close(12) && !candidates[20].is_close(11) && !candidates[20].is_close(13));
    assert_eq!(for_a_hole(&[], 1), None);
}

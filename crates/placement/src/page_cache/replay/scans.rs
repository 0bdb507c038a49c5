//! Scans like those of queries: what each policy has in memory when they ask.

use thermocline_seeded::Random;

use super::pool::{Pool, by_threads};
use crate::page_cache::PagePolicyName;

fn proportional(capacity_pages: usize) -> Pool {
    Pool::new(PagePolicyName::Proportional.build(), capacity_pages, 4)
}

#[test]
fn scans_that_come_again_find_what_fits_in_memory() {
    let quotas: [&[(u32, u64)]; 4] = [&[], &[(0, 400)], &[(0, 200)], &[(0, 5000), (1, 0)]];
    for quotas in quotas {
        for uses_in_a_row in [1, 3] {
            let mut pool = proportional(400);
            pool.uses_in_a_row = uses_in_a_row;
            pool.set_quotas(quotas);
            pool.scan(0, 0..1000);
            pool.scan(0, 0..1000);
            let hits: Vec<usize> = (0..5).map(|_| pool.scan(0, 0..1000)).collect();
            assert!(hits.iter().all(|hits| *hits >= 375), "quotas {quotas:?}: {hits:?} of 400");
        }
    }
}

#[test]
fn much_that_is_read_ahead_in_little_memory_does_not_push_out_what_is_kept() {
    for (quotas, least_hits) in [(&[][..], 45), (&[(0, 100)], 45), (&[(0, 40)], 38)] {
        // Of 100 pages that there is memory for, half are those that readers have ahead.
        let mut pool = Pool::new(PagePolicyName::Proportional.build(), 100, 48);
        let mut hits = Vec::new();
        for _ in 0..8 {
            pool.set_quotas(quotas);
            hits.push(pool.scan(0, 0..1000));
        }
        assert!(hits[3..].iter().all(|hits| *hits >= least_hits), "quotas {quotas:?}: {hits:?} of 52");
    }
}

/// Readers had 40 pages ahead and have four now: the room that they needed then is of use.
fn with_room_to_pass(capacity_pages: usize) -> Pool {
    let mut pool = Pool::new(PagePolicyName::Proportional.build(), capacity_pages, 40);
    (0..3).for_each(|_| {
        pool.scan(0, 0..1000);
    });
    pool.pin_count = 4;
    pool
}

#[test]
fn room_that_pages_in_use_leave_to_those_that_pass_serves_hits() {
    let mut pool = with_room_to_pass(100);
    let hits: Vec<usize> = (0..6).map(|_| pool.scan(0, 0..1000)).collect();
    assert!(hits[1..].iter().all(|hits| *hits >= 93), "{hits:?} of 96");
}

#[test]
fn a_scan_that_follows_another_finds_what_has_passed() {
    let mut pool = with_room_to_pass(400);
    let mut hits = 0;
    for page in 1000..5000 {
        pool.ask(0, page);
        hits += usize::from(page >= 1015 && pool.ask(0, page - 15));
    }
    assert!(hits > 3900, "{hits} of 3985");
}

#[test]
fn columns_that_keep_less_than_is_read_ahead_are_not_pushed_out_by_their_own_pages() {
    for (ahead_pages, least_hits) in [(24, 20), (48, 12)] {
        let mut pool = Pool::new(PagePolicyName::Proportional.build(), 100, ahead_pages);
        let mut hits = Vec::new();
        for _ in 0..8 {
            pool.set_quotas(&[(0, 34), (1, 33), (2, 33)]);
            hits.push([0, 1, 2].map(|list| pool.scan(list, 0..1000)));
        }
        assert!(hits[4..].iter().flatten().all(|hits| *hits >= least_hits), "{ahead_pages} ahead: {hits:?}");
    }
}

#[test]
fn what_a_scan_has_not_come_to_yet_stays_while_it_reads_ahead() {
    for pin_count in [16, 40] {
        let mut pool = Pool::new(PagePolicyName::Proportional.build(), 400, pin_count);
        let mut lost = Vec::new();
        for _ in 0..6 {
            for (list, page_count) in [(0, 200), (1, 400)] {
                // Each query has its own, after each the division is decided on anew.
                (0..4).for_each(|_| pool.set_quotas(&[(0, 200), (1, 200)]));
                let there: Vec<u32> = (0..page_count).filter(|page| pool.has(list, *page)).collect();
                lost.push(there.len() - pool.scan(list, 0..page_count));
            }
        }
        assert!(lost.iter().all(|lost| *lost <= 45), "{pin_count} ahead: {lost:?} read again");
    }
}

#[test]
fn what_a_scan_has_not_come_to_yet_stays_though_others_would_spread_better() {
    // During the first scan it becomes clear that the list is worth more memory: most that is kept is of its second half.
    let mut pool = proportional(200);
    pool.set_quotas(&[(0, 20), (1, 180)]);
    pool.scan(1, 0..180);
    pool.scan(0, 0..200);
    pool.set_quotas(&[(0, 180)]);
    pool.scan(0, 200..400);
    for round in 0..4 {
        let there: Vec<u32> = (0..400).filter(|page| pool.has(0, *page)).collect();
        let lost = there.len() - pool.scan(0, 0..400);
        assert!(lost <= 25, "round {round}: of {} pages {lost} were read again", there.len());
    }
    let in_first_half = (0..200).filter(|page| pool.has(0, *page)).count();
    assert!((40..=140).contains(&in_first_half), "{in_first_half} of 180 lie in the first half");
}

#[test]
fn what_is_in_memory_is_spread_over_the_scan() {
    let quotas: [&[(u32, u64)]; 3] = [&[], &[(0, 480)], &[(0, 250)]];
    for quotas in quotas {
        let mut pool = proportional(500);
        pool.set_quotas(quotas);
        // At first, after a change of the workload, and when a list may keep more.
        let spread = |pool: &Pool, pages: std::ops::Range<u32>| {
            let in_part = |part: u32| (0..50).filter(|at| pool.has(0, pages.start + part * 50 + at)).count();
            // But for the end, which is just leaving.
            let parts: Vec<usize> = (0..19).map(in_part).collect();
            assert!(
                parts.iter().all(|count| (10..=40).contains(count)),
                "quotas {quotas:?}, {pages:?}: {parts:?} of 50"
            );
        };
        pool.scan(0, 0..1000);
        spread(&pool, 0..1000);
        (0..3).for_each(|_| {
            pool.scan(0, 1000..2000);
        });
        spread(&pool, 1000..2000);
        pool.set_quotas(&[(0, 480)]);
        (0..2).for_each(|_| {
            pool.scan(0, 1000..2000);
        });
        spread(&pool, 1000..2000);
    }
}

#[test]
fn threads_that_do_not_keep_step_do_not_push_pages_out() {
    for seed in 0..10 {
        let mut random = Random::new(seed);
        let mut pool = proportional(400);
        let mut hits = Vec::new();
        for _ in 0..8 {
            let order = by_threads(1000, 16, &mut random);
            hits.push(pool.scan(0, order));
        }
        assert!(hits[3..].iter().all(|hits| *hits >= 350), "seed {seed}: {hits:?} of 400");
    }
}

#[test]
fn pages_that_more_queries_ask_for_move_in() {
    for (seed, quotas) in [(1, &[][..]), (2, &[(0, 380)]), (3, &[(0, 200), (1, 180)])] {
        let mut random = Random::new(seed);
        let mut pool = proportional(400);
        pool.set_quotas(quotas);
        let mut hot_hits = Vec::new();
        for _ in 0..30 {
            // Zone maps let every query pass over all but 150 pages at the end and a window somewhere.
            let from = random.below_u64(1650) as u32;
            pool.scan(0, from..from + 200);
            hot_hits.push(pool.scan(0, 1850..2000));
        }
        // Windows that overlap by chance are hot for a while too.
        let hits: usize = hot_hits[15..].iter().sum();
        assert!(hits >= 15 * 140, "seed {seed}: {hot_hits:?} of 150");
    }
}

#[test]
fn alternating_queries_find_their_columns_quotas() {
    let mut pool = proportional(420);
    pool.set_quotas(&[(0, 300), (1, 100)]);
    let mut hits = Vec::new();
    for _ in 0..6 {
        hits.push((pool.scan(0, 0..1000), pool.scan(1, 0..1000)));
    }
    assert!(hits[2..].iter().all(|(a, b)| *a >= 300 && *b >= 100), "{hits:?}");
    assert_eq!((pool.held_pages(0).0, pool.held_pages(1).0), (300, 100));
}

#[test]
fn a_changed_workload_has_its_pages_in_memory_within_three_queries() {
    for quotas in [&[][..], &[(0, 380)], &[(0, 190), (1, 190)]] {
        let mut pool = proportional(400);
        pool.set_quotas(quotas);
        (0..10).for_each(|_| {
            pool.scan(0, 0..1000);
        });
        let hits: Vec<usize> = (0..6).map(|_| pool.scan(0, 1000..2000)).collect();
        assert!(hits[3..].iter().all(|hits| *hits >= 370), "quotas {quotas:?}: {hits:?}");
    }
}

#[test]
fn new_quotas_are_followed_and_what_is_beyond_serves_hits_until_it_goes() {
    let mut pool = proportional(420);
    pool.set_quotas(&[(0, 400)]);
    pool.scan(0, 0..1000);
    pool.scan(0, 0..1000);
    pool.set_quotas(&[(1, 400)]);
    assert_eq!(pool.held_pages(0).0, 0, "nothing of it is kept");
    assert!(pool.scan(0, 0..1000) >= 380, "but all is still there");
    assert!(pool.scan(1, 0..1000) == 0 && pool.scan(1, 0..1000) >= 400);
    assert_eq!(pool.held_pages(1).0, 400);
    pool.set_quotas(&[(0, 200), (1, 200)]);
    assert!(pool.scan(1, 0..1000) >= 400);
    pool.scan(0, 0..1000);
    let hits = (pool.scan(0, 0..1000), pool.scan(1, 0..1000));
    assert!(hits.0 >= 200 && hits.1 >= 200, "{hits:?}");
    pool.set_quotas(&[(0, 0), (1, 400)]);
    pool.set_quotas(&[(0, 200), (1, 200)]);
    assert!(pool.scan(0, 0..1000) >= 200, "pages that nobody has pushed out count again");
}

#[test]
fn memory_that_no_quota_claims_is_used() {
    let mut pool = proportional(400);
    pool.set_quotas(&[(0, 100)]);
    (0..3).for_each(|_| {
        pool.scan(0, 0..150);
        pool.scan(1, 0..200);
    });
    assert_eq!((pool.scan(0, 0..150), pool.scan(1, 0..200)), (150, 200));
}

#[test]
fn memory_that_comes_and_goes_is_followed() {
    let mut pool = proportional(400);
    pool.set_quotas(&[(0, 190), (1, 190)]);
    let both = |pool: &mut Pool| (pool.scan(0, 0..1000), pool.scan(1, 0..1000));
    (0..3).for_each(|_| {
        both(&mut pool);
    });
    pool.capacity_pages = 100;
    pool.make_room(None, 0);
    assert_eq!(pool.held_pages(0).0 + pool.held_pages(1).0 + pool.held_pages(0).1 + pool.held_pages(1).1, 100);
    both(&mut pool);
    let (of_0, of_1) = both(&mut pool);
    assert!(of_0 >= 40 && of_1 >= 40, "{of_0} and {of_1}: the quotas are cut in proportion");
    pool.capacity_pages = 400;
    both(&mut pool);
    let (of_0, of_1) = both(&mut pool);
    assert!(of_0 >= 180 && of_1 >= 180, "{of_0} and {of_1}");
}

#[test]
fn a_table_much_larger_than_memory_does_not_keep_pages_of_queries_that_are_gone() {
    let mut pool = proportional(400);
    (0..3).for_each(|_| {
        pool.scan(0, 0..1000);
    });
    (0..3).for_each(|_| {
        pool.scan(1, 0..40_000);
    });
    assert!(pool.held_pages(0).1 <= 40, "{:?} of list 0", pool.held_pages(0));
}

/// Hits in the last of ten rounds, for each policy.
fn last_round_hits(round: impl Fn(&mut Pool, &mut Random) -> usize) -> Vec<(PagePolicyName, usize)> {
    let hits = |name: PagePolicyName| {
        let mut pool = Pool::new(name.build(), 400, 4);
        let mut random = Random::new(7);
        (0..10).map(|_| round(&mut pool, &mut random)).last().unwrap_or(0)
    };
    PagePolicyName::ALL.into_iter().map(|name| (name, hits(name))).collect()
}

#[test]
fn without_quotas_proportional_hits_about_as_often_as_the_best_of_the_others() {
    let scan = |pool: &mut Pool, _: &mut Random| pool.scan(0, 0..1000);
    let threads = |pool: &mut Pool, random: &mut Random| {
        let order = by_threads(1000, 16, random);
        pool.scan(0, order)
    };
    let skewed = |pool: &mut Pool, random: &mut Random| {
        (0..2000).filter(|_| pool.ask(0, (2000.0 * random.unit().powi(3)) as u32)).count()
    };
    let two_queries = |pool: &mut Pool, _: &mut Random| pool.scan(0, 0..300) + pool.scan(1, 0..500);
    let rounds: [(&str, Vec<(PagePolicyName, usize)>); 4] = [
        ("one scan", last_round_hits(scan)),
        ("threads", last_round_hits(threads)),
        ("skewed", last_round_hits(skewed)),
        ("two queries", last_round_hits(two_queries)),
    ];
    for (name, hits) in rounds {
        let best = hits.iter().map(|(_, hits)| *hits).max().unwrap_or(0);
        assert!(hits[0].1 as f64 >= 0.93 * best as f64, "{name}: {hits:?}");
    }
}

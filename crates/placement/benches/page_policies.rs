//! What a page policy takes for each page that is asked for.
//!
//! `cargo bench -p thermocline-placement --bench page_policies`. One thread; ten scans of 100,000 pages in 50 lists,
//! with memory for all (hits) and for 40,000 (each miss names a victim, takes it away and admits the page).
#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::disallowed_methods, missing_docs)]

use std::collections::HashSet;
use std::time::{Duration, Instant};

use thermocline_placement::page_cache::{ListKey, PageKey, PagePolicyName};

const PAGES: u32 = 100_000;
const LISTS: u32 = 50;
const PAGE_BYTES: u64 = 262_144;
const SCANS: usize = 10;

fn main() {
    println!("nanoseconds a page asked for, and the share of hits");
    for name in PagePolicyName::ALL.into_iter().filter(|name| *name != PagePolicyName::Os) {
        for memory_pages in [PAGES, 40_000] {
            let mut policy = name.build();
            let quota_bytes = u64::from(memory_pages / LISTS) * PAGE_BYTES;
            policy.set_quotas(&(0..LISTS).map(|list| (ListKey(list), quota_bytes)).collect::<Vec<_>>());
            let mut there: HashSet<PageKey> = HashSet::new();
            let (mut hits, mut spent) = (0, Duration::ZERO);
            for page in (0..SCANS).flat_map(|_| 0..PAGES) {
                let key = PageKey { source: 0, page };
                let hit = there.contains(&key);
                let start = Instant::now();
                let victim = if hit {
                    policy.touch(key);
                    None
                } else {
                    let list = ListKey(page % LISTS);
                    let full = there.len() >= memory_pages as usize;
                    let victim = full.then(|| policy.victim(Some(list), &mut |_| true)).flatten();
                    victim.into_iter().for_each(|victim| policy.remove(victim));
                    policy.admit(key, list, PAGE_BYTES, key.page);
                    victim
                };
                spent += start.elapsed();
                hits += usize::from(hit);
                there.insert(key);
                victim.into_iter().for_each(|victim| {
                    there.remove(&victim);
                });
            }
            let asked = SCANS * PAGES as usize;
            println!(
                "{name}, {memory_pages} pages: {:.0} ns, {:.2}",
                spent.as_nanos() as f64 / asked as f64,
                hits as f64 / asked as f64
            );
        }
    }
}

//! Queries in an order that comes again: what lending spares beside quotas that are best in any order.

use thermocline_seeded::Random;

use super::pool::{PAGE_BYTES, Pool};
use crate::page_cache::lending::lend;
use crate::page_cache::model::{Combination, Rates, Shares};
use crate::page_cache::programmes::{Workload, next_placement};
use crate::page_cache::window::{PipelineWindow, Ran};
use crate::page_cache::{ListKey, PagePolicyName};

/// A page stands for 4 MB.
const GB: f64 = 250.0 * PAGE_BYTES as f64;
const RATES: Rates = Rates { storage_bytes_per_s: 2.0 * GB, memory_bytes_per_s: 20.0 * GB, reading_s_per_byte: 0.0 };
const PACE_BYTES_PER_S: f64 = 20.0 * GB;

/// The fact table's columns in the Star Schema Benchmark at scale 10, in pages, and which of them each flight reads.
const COLUMN_PAGES: [u32; 9] = [30, 12, 8, 45, 38, 30, 45, 34, 32];
const FLIGHTS: [&[u32]; 4] = [&[0, 1, 2, 3], &[0, 4, 5, 6], &[0, 5, 6, 7], &[0, 4, 5, 6, 7, 8]];
/// The flight of each query.
const ROUND: [usize; 13] = [0, 0, 0, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3];

/// Pages read by each of these queries.
fn reads(capacity_pages: usize, lends: bool, queries: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut pool = Pool::new(PagePolicyName::Proportional.build(), capacity_pages, 4);
    let (mut window, mut shares) = (PipelineWindow::default(), Shares::default());
    let mut reads = Vec::new();
    for query in queries {
        let lists = FLIGHTS[ROUND[query]];
        let bytes = |list: &u32| u64::from(COLUMN_PAGES[*list as usize]) * PAGE_BYTES;
        let run = window.start(query as u64, lists.iter().map(|list| (ListKey(*list), bytes(list))).collect());
        window.estimate(run, PACE_BYTES_PER_S);
        let pipelines = window.merged(RATES);
        let combination = Combination::SumOverDevice;
        let workload = Workload { pipelines: &pipelines, rates: RATES, combination, earlier: &shares };
        let memory_bytes = pool.policy.keepable_bytes(capacity_pages as u64 * PAGE_BYTES);
        let Ok(placement) = next_placement(workload, memory_bytes) else { continue };
        let outlook = window.outlook(RATES);
        let quotas = if lends { lend(&placement.quotas, &outlook, RATES) } else { placement.quotas };
        pool.policy.set_quotas(&quotas);
        shares = placement.shares;
        let all_pages: u32 = lists.iter().map(|list| COLUMN_PAGES[*list as usize]).sum();
        let mut missed = all_pages as usize;
        for row in 0..120 {
            for list in lists {
                // Columns are read side by side, whatever their pages.
                let pages = |row: u32| row * COLUMN_PAGES[*list as usize] / 120;
                missed -= pool.scan(*list, pages(row)..pages(row + 1));
            }
        }
        let all_bytes = u64::from(all_pages) * PAGE_BYTES;
        let busy_s = all_bytes as f64 / PACE_BYTES_PER_S;
        let ran =
            Ran { bytes: all_bytes, read_bytes: missed as u64 * PAGE_BYTES, busy_s, took_s: busy_s, ..Ran::default() };
        window.finish(run, ran, None);
        reads.push(missed);
    }
    reads
}

#[test]
fn where_queries_come_again_in_order_lending_spares_reads() {
    for (capacity_pages, most_part) in [(220, 0.6), (165, 0.75), (110, 0.95)] {
        let last_rounds = |lends: bool| {
            let reads = reads(capacity_pages, lends, (0..13).cycle().take(65));
            reads[39..].iter().sum::<usize>()
        };
        let (with, without) = (last_rounds(true), last_rounds(false));
        assert!(
            with as f64 <= most_part * without as f64,
            "{capacity_pages} pages: {with} pages read with lending, {without} without"
        );
    }
}

#[test]
fn where_queries_come_in_no_order_lending_costs_next_to_nothing() {
    for seed in 0..5 {
        let mut random = Random::new(seed);
        let order: Vec<usize> = (0..130).map(|_| random.below(13)).collect();
        let sum = |lends: bool| reads(165, lends, order.iter().copied()).iter().sum::<usize>() as f64;
        let (with, without) = (sum(true), sum(false));
        assert!(with <= 1.02 * without, "seed {seed}: {with} pages read with lending, {without} without");
    }
}

//! What the programmes of the page cache take, by columns and pipelines.
//!
//! `cargo bench -p thermocline-placement --bench page_programmes`. One thread, the best of some rounds. Once with
//! tables of 20 columns, each pipeline reading up to 8 of one table, as queries do; once with any columns together, the
//! solver's worst case.
#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::disallowed_methods, missing_docs)]

use std::hint::black_box;
use std::time::Instant;

use thermocline_placement::page_cache::ListKey;
use thermocline_placement::page_cache::lending::{Outlook, lend};
use thermocline_placement::page_cache::model::{Combination, Pipeline, Rates, Shares, list_bytes};
use thermocline_placement::page_cache::programmes::{Workload, least_memory, least_time};

const RATES: Rates = Rates { storage_bytes_per_s: 3e9, memory_bytes_per_s: 5e10, reading_s_per_byte: 0.0 };
const TABLE_COLUMNS: u64 = 20;
const RUNS_AHEAD: usize = 128;

fn scrambled(seed: &mut u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    seed.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
}

fn pipelines(list_count: u64, pipeline_count: u64, by_table: bool) -> Vec<Pipeline> {
    let mut seed = 0x9e37_79b9_7f4a_7c15;
    let sizes: Vec<u64> = (0..list_count).map(|_| 100_000_000 + scrambled(&mut seed) % 10_000_000_000).collect();
    let one = |_| {
        let table = scrambled(&mut seed) % (list_count / TABLE_COLUMNS) * TABLE_COLUMNS;
        let columns = (0..1 + scrambled(&mut seed) % 8).map(|_| {
            let list =
                if by_table { table + scrambled(&mut seed) % TABLE_COLUMNS } else { scrambled(&mut seed) % list_count };
            (ListKey(list as u32), sizes[list as usize])
        });
        let columns = columns.collect();
        let throughput_bytes_per_s = 1e9 * (1 + scrambled(&mut seed) % 40) as f64;
        Pipeline { columns, throughput_bytes_per_s, weight: 1.0 }
    };
    (0..pipeline_count).map(one).collect()
}

fn main() {
    println!(
        "milliseconds; least time in a quarter of the bytes, again from its own shares, least memory for 10 % more time, \
         what lists lend each other when the pipelines run in order and up to {RUNS_AHEAD} are seen"
    );
    for combination in [Combination::SumOverDevice, Combination::MaxOverColumns] {
        for (list_count, pipeline_count, rounds) in [(20, 20, 5), (100, 64, 5), (100, 100, 5), (1000, 1000, 1)] {
            for by_table in [true, false] {
                let pipelines = pipelines(list_count, pipeline_count, by_table);
                let memory_bytes = list_bytes(&pipelines).values().sum::<u64>() / 4;
                let best_ms = |question: &dyn Fn()| {
                    let ms = || {
                        let start = Instant::now();
                        question();
                        start.elapsed().as_secs_f64() * 1e3
                    };
                    (0..rounds).map(|_| ms()).fold(f64::INFINITY, f64::min)
                };
                let none = Shares::default();
                let workload = Workload { pipelines: &pipelines, rates: RATES, combination, earlier: &none };
                let first = least_time(workload, memory_bytes).unwrap();
                let runs = pipelines.iter().cycle().take(RUNS_AHEAD).cloned().collect();
                let outlook = Outlook { runs, confidence: 1.0 };
                println!(
                    "{combination:?}, {list_count} columns{}, {pipeline_count} pipelines: {:.1}, {:.1}, {:.1}, {:.2}",
                    if by_table { " in tables" } else { "" },
                    best_ms(&|| _ = least_time(workload, memory_bytes).unwrap()),
                    best_ms(&|| _ = least_time(Workload { earlier: &first.shares, ..workload }, memory_bytes).unwrap()),
                    best_ms(&|| _ = least_memory(workload, 0.1).unwrap()),
                    best_ms(&|| _ = black_box(lend(&first.quotas, &outlook, RATES))),
                );
            }
        }
    }
}

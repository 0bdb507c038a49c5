//! What the window remembers, and where the estimates settle.

use thermocline_seeded::Random;

use super::*;
use crate::page_cache::model::{Combination, Rates, Shares, workload_s};

const STORAGE_BYTES_PER_S: f64 = 1e9;

/// Of a pipeline that worked so fast on bytes in memory.
fn in_memory(bytes: u64, throughput_bytes_per_s: f64) -> Ran {
    Ran { bytes, read_bytes: 0, busy_s: bytes as f64 / throughput_bytes_per_s, shows_storage: true }
}

#[test]
fn the_merged_view_takes_about_as_long_as_the_last_runs_one_by_one() {
    for seed in 0..50 {
        let mut random = Random::new(seed);
        let mut window = PipelineWindow::new(1 + random.below_u64(20) as usize);
        let mut all: Vec<Pipeline> = Vec::new();
        for _ in 0..random.below_u64(60) {
            let columns: Vec<_> = (0..1 + random.below_u64(3))
                .map(|_| {
                    (
                        ListKey(random.below_u64(3) as u32),
                        1_000_000 * (1 + random.below_u64(2)) + random.below_u64(1000),
                    )
                })
                .collect();
            let throughput_bytes_per_s = [1e7, 1.01e7, 3e7][random.below_u64(3) as usize];
            let run = window.start(random.below_u64(5), columns.clone());
            window.finish(run, in_memory(1000, throughput_bytes_per_s), None);
            all.push(Pipeline { columns, throughput_bytes_per_s, weight: 1.0 });
        }
        let last = &all[all.len().saturating_sub(window.capacity)..];
        let merged = window.merged(STORAGE_BYTES_PER_S);
        assert_eq!(merged.iter().map(|of| of.weight).sum::<f64>(), last.len() as f64, "seed {seed}");
        assert!(window.known.len() <= last.len() && merged.len() <= last.len(), "seed {seed}");
        let rates = Rates { storage_bytes_per_s: 2e7, memory_bytes_per_s: 1e9, reading_s_per_byte: 0.0 };
        for combination in [Combination::SumOverDevice, Combination::MaxOverColumns] {
            let shares = Shares::new((0..3).map(|list| (ListKey(list), random.unit())));
            let (merged_s, last_s) =
                (workload_s(&merged, rates, &shares, combination), workload_s(last, rates, &shares, combination));
            assert!((merged_s - last_s).abs() <= 0.03 * last_s, "seed {seed}: {merged_s} s merged, {last_s} s");
        }
    }
}

#[test]
fn equal_pipelines_are_one_with_the_weight_of_all() {
    let mut window = PipelineWindow::default();
    for at in 0..100 {
        let run = window.start(at % 2, vec![(ListKey(1), 1000), (ListKey(0), 500 + at % 2 * 500)]);
        window.finish(run, in_memory(1000, 1e9), None);
    }
    let merged = window.merged(STORAGE_BYTES_PER_S);
    assert_eq!(merged.len(), 2);
    assert!(merged.iter().all(|of| of.weight == 32.0), "{merged:?}");
    assert_eq!(merged[0].columns, [(ListKey(0), 500), (ListKey(1), 1000)]);
}

#[test]
fn a_known_plan_starts_with_what_it_was_known_for_and_the_latest_run_counts_most() {
    let mut window = PipelineWindow::new(4);
    let columns = || vec![(ListKey(0), 1000)];
    let first = window.start(7, columns());
    assert_eq!(
        (window.known_throughput(7, STORAGE_BYTES_PER_S), window.merged(STORAGE_BYTES_PER_S)[0].throughput_bytes_per_s),
        (None, f64::INFINITY)
    );
    window.estimate(first, 50.0);
    assert_eq!(
        (window.known_throughput(7, STORAGE_BYTES_PER_S), window.merged(STORAGE_BYTES_PER_S)[0].throughput_bytes_per_s),
        (None, 50.0)
    );
    window.finish(first, in_memory(1000, 100.0), None);
    assert_eq!(window.known_throughput(7, STORAGE_BYTES_PER_S), Some(100.0));
    let second = window.start(7, columns());
    assert_eq!(window.merged(STORAGE_BYTES_PER_S).len(), 1, "it starts with the pace of the first");
    window.finish(second, in_memory(1000, 25.0), None);
    assert_eq!(window.known_throughput(7, STORAGE_BYTES_PER_S), Some(40.0), "seconds are averaged, not rates");
    window.estimate(second, f64::NAN);
    (0..4).for_each(|signature| {
        window.start(signature, columns());
    });
    assert_eq!(window.known_throughput(7, STORAGE_BYTES_PER_S), None, "its last run has left");
    window.finish(first, in_memory(1000, 1.0), None);
    assert_eq!(window.known_throughput(7, STORAGE_BYTES_PER_S), None);
}

#[test]
fn the_pace_is_that_of_all_threads_and_what_was_known_fades() {
    let mut fresh = Pace::new(4, 1000, None);
    assert_eq!(fresh.throughput_bytes_per_s(0.0), None);
    fresh.observe(100, 0, 2_000_000_000);
    assert_eq!(fresh.throughput_bytes_per_s(0.0), Some(200.0));
    let mut known = Pace::new(4, 1000, Some(50.0));
    assert_eq!(known.throughput_bytes_per_s(0.0), Some(50.0));
    let mut before = 50.0;
    for _ in 0..10 {
        known.observe(100, 0, 2_000_000_000);
        let now = known.throughput_bytes_per_s(0.0).unwrap_or(0.0);
        assert!(now > before && now < 200.0, "{now} after {before}");
        before = now;
    }
    assert!(before > 175.0, "{before}");
}

#[test]
fn the_rate_of_a_device_settles_high_among_what_is_seen_of_it() {
    for seed in 0..20 {
        let mut random = Random::new(seed);
        let mut rate = DeviceRate::new(1e9);
        for _ in 0..400 {
            // A device of 3 GB/s, which others use half of the time.
            let free = if random.below_u64(2) == 0 { 1.0 } else { 0.2 + 0.8 * random.unit() };
            rate.observe((9e7 * free) as u64, 30_000_000);
            rate.observe(1_000_000_000, 1_000_000);
        }
        assert!((2.2e9..=3e9).contains(&rate.bytes_per_s()), "seed {seed}: {}", rate.bytes_per_s());
    }
    let mut rate = DeviceRate::new(1e9);
    (0..100).for_each(|_| rate.observe(u64::MAX, 100_000_000));
    assert!(rate.bytes_per_s() <= 64e9);
    (0..1000).for_each(|_| rate.observe(0, 100_000_000));
    assert!((1e9 / 64.0..1e9 / 63.0).contains(&rate.bytes_per_s()), "{}", rate.bytes_per_s());
}

/// Runs of five plans of different paces in turn, which read `read_part` of their bytes at a cost of `reading_s_per_byte`
/// each and are busy for a tenth more or less than that makes. Returns the paces.
fn run_plans(
    window: &mut PipelineWindow,
    random: &mut Random,
    reading_s_per_byte: f64,
    read_part: impl Fn(u64, &mut Random) -> f64,
) -> [f64; 5] {
    const BYTES: u64 = 500_000_000;
    let paces = [5e9, 8e9, 12e9, 20e9, 30e9];
    for round in 0..6 {
        for (signature, pace) in (0..).zip(paces) {
            let run = window.start(signature, vec![(ListKey(0), BYTES)]);
            let read_bytes = BYTES as f64 * read_part(round, random);
            let noise = 0.9 + 0.2 * random.unit();
            let busy_s = (BYTES as f64 / pace + read_bytes * reading_s_per_byte) * noise;
            let ran = Ran { bytes: BYTES, read_bytes: read_bytes as u64, busy_s, shows_storage: true };
            window.finish(run, ran, None);
        }
    }
    paces
}

#[test]
fn what_reading_costs_and_how_fast_plans_work_are_told_apart_by_runs_that_read_different_parts() {
    for seed in 0..50 {
        let mut random = Random::new(seed);
        let mut window = PipelineWindow::default();
        // All is read at first, then what memory has no room for.
        let cold_then_warm = |round: u64, random: &mut Random| {
            if round == 0 { 1.0 } else { 0.3 + 0.1 * random.unit() }
        };
        let paces = run_plans(&mut window, &mut random, 0.15e-9, cold_then_warm);
        let cost = window.reading_s_per_byte(STORAGE_BYTES_PER_S);
        assert!((cost / 0.15e-9 - 1.0).abs() < 0.3, "seed {seed}: {cost}");
        for (signature, pace) in (0..).zip(paces) {
            let known = window.known_throughput(signature, STORAGE_BYTES_PER_S).unwrap_or(0.0);
            assert!((pace / known - 1.0).abs() < 0.5, "seed {seed}: {known} bytes/s instead of {pace}");
        }
    }
}

#[test]
fn plans_that_always_read_the_same_part_say_nothing_of_what_that_costs() {
    for seed in 0..20 {
        let mut random = Random::new(seed);
        let mut window = PipelineWindow::default();
        run_plans(&mut window, &mut random, 0.15e-9, |round, _| if round == 0 { 1.0 } else { 0.0 });
        let learned = window.reading_s_per_byte(STORAGE_BYTES_PER_S);
        for _ in 0..20 {
            run_plans(&mut window, &mut random, 0.6e-9, |_, _| 0.4);
        }
        let cost = window.reading_s_per_byte(STORAGE_BYTES_PER_S);
        // The first runs of that kind read more than those before, and were busy for longer.
        assert!((0.8..2.5).contains(&(cost / learned)), "seed {seed}: {cost} after {learned}");
    }
}

#[test]
fn reads_of_other_devices_say_nothing_and_none_costs_more_than_the_device_needs_for_it() {
    let mut window = PipelineWindow::default();
    let guess = window.reading_s_per_byte(STORAGE_BYTES_PER_S);
    for shows_storage in [false, true] {
        for read_bytes in [100_000_000, 0] {
            let run = window.start(0, vec![(ListKey(0), 100_000_000)]);
            let busy_s = 0.01 + read_bytes as f64 * 0.9e-9;
            window.finish(run, Ran { bytes: 100_000_000, read_bytes, busy_s, shows_storage }, None);
        }
        let cost = window.reading_s_per_byte(STORAGE_BYTES_PER_S);
        assert!(if shows_storage { cost > 0.7e-9 } else { cost == guess }, "{cost}");
    }
    assert_eq!(window.reading_s_per_byte(2e9), 0.5e-9);
}

#[test]
fn a_plan_is_taken_to_ask_for_the_part_of_each_list_that_it_asked_for_before() {
    let mut window = PipelineWindow::default();
    let offered = [(ListKey(0), 1000), (ListKey(1), 400)];
    assert_eq!(window.expected(7, &offered), offered);
    let run = window.start(7, offered.to_vec());
    window.finish(run, in_memory(1000, 1e9), Some(&[(ListKey(0), 500)]));
    assert_eq!(window.merged(STORAGE_BYTES_PER_S)[0].columns, [(ListKey(0), 500), (ListKey(1), 0)]);
    assert_eq!(window.expected(7, &[(ListKey(0), 3000), (ListKey(1), 400)]), [(ListKey(0), 1500), (ListKey(1), 0)]);
    assert_eq!(window.expected(8, &offered), offered, "another plan");
    let run = window.start(7, offered.to_vec());
    window.finish(run, in_memory(1000, 1e9), Some(&offered));
    assert_eq!(window.expected(7, &offered), [(ListKey(0), 750), (ListKey(1), 200)]);
    let run = window.start(7, offered.to_vec());
    window.finish(run, in_memory(1000, 1e9), None);
    assert_eq!(window.expected(7, &offered), [(ListKey(0), 750), (ListKey(1), 200)], "it was not seen");
}

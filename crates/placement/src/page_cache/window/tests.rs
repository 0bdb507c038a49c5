//! What the window remembers, and where the estimates settle.

use thermocline_seeded::Random;

use super::*;
use crate::page_cache::model::{Combination, Rates, Shares, workload_s};

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
            window.finish(run, throughput_bytes_per_s, None);
            all.push(Pipeline { columns, throughput_bytes_per_s, weight: 1.0 });
        }
        let last = &all[all.len().saturating_sub(window.capacity)..];
        let merged = window.merged();
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
        window.finish(run, 1e9, None);
    }
    let merged = window.merged();
    assert_eq!(merged.len(), 2);
    assert!(merged.iter().all(|of| of.weight == 32.0), "{merged:?}");
    assert_eq!(merged[0].columns, [(ListKey(0), 500), (ListKey(1), 1000)]);
}

#[test]
fn a_known_plan_starts_with_what_it_was_known_for_and_the_latest_run_counts_most() {
    let mut window = PipelineWindow::new(4);
    let columns = || vec![(ListKey(0), 1000)];
    let first = window.start(7, columns());
    assert_eq!((window.known_throughput(7), window.merged()[0].throughput_bytes_per_s), (None, f64::INFINITY));
    window.estimate(first, 50.0);
    assert_eq!((window.known_throughput(7), window.merged()[0].throughput_bytes_per_s), (None, 50.0));
    window.finish(first, 100.0, None);
    assert_eq!(window.known_throughput(7), Some(100.0));
    let second = window.start(7, columns());
    assert_eq!(window.merged().len(), 1, "it starts with the pace of the first");
    window.finish(second, 25.0, None);
    assert_eq!(window.known_throughput(7), Some(40.0), "seconds are averaged, not rates");
    window.estimate(second, f64::NAN);
    (0..4).for_each(|signature| {
        window.start(signature, columns());
    });
    assert_eq!(window.known_throughput(7), None, "its last run has left");
    window.finish(first, 1.0, None);
    assert_eq!(window.known_throughput(7), None);
}

#[test]
fn the_pace_is_that_of_all_threads_and_what_was_known_fades() {
    let mut fresh = Pace::new(4, 1000, None);
    assert_eq!(fresh.throughput_bytes_per_s(), None);
    fresh.observe(100, 2_000_000_000);
    assert_eq!(fresh.throughput_bytes_per_s(), Some(200.0));
    let mut known = Pace::new(4, 1000, Some(50.0));
    assert_eq!(known.throughput_bytes_per_s(), Some(50.0));
    let mut before = 50.0;
    for _ in 0..10 {
        known.observe(100, 2_000_000_000);
        let now = known.throughput_bytes_per_s().unwrap_or(0.0);
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

/// Of a pipeline that worked for so long beside its waits.
fn waits(read_bytes: u64, worked_ns: u64, waited_ns: u64) -> Waits {
    Waits { read_bytes, took_ns: worked_ns + waited_ns, waited_ns }
}

#[test]
fn the_cost_of_reading_goes_from_the_guess_to_what_is_seen_by_the_bytes_of_each_report() {
    const STORAGE_BYTES_PER_S: f64 = 1e9;
    let mut cost = ReadingCost::new(1e-10);
    let ratio_to = |cost: &ReadingCost, s_per_byte: f64| cost.s_per_byte(STORAGE_BYTES_PER_S) / s_per_byte;
    assert!((ratio_to(&cost, 1e-10) - 1.0).abs() < 1e-9);
    cost.observe(waits(0, 1_000_000_000, 1_000_000_000), STORAGE_BYTES_PER_S);
    assert!((ratio_to(&cost, 1e-10) - 1.0).abs() < 1e-9, "what reads nothing says nothing");
    cost.observe(waits(1_000, 1_000_000, 1_000_000), STORAGE_BYTES_PER_S);
    assert!(ratio_to(&cost, 1e-10) < 1.2, "a short pipeline says little: {cost:?}");
    for _ in 0..40 {
        cost.observe(waits(100_000_000, 1_000_000_000, 30_000_000), STORAGE_BYTES_PER_S);
    }
    assert!((ratio_to(&cost, 3e-10) - 1.0).abs() < 0.02, "{cost:?}");
}

#[test]
fn waits_are_the_cost_of_reading_only_where_device_and_work_need_like_times() {
    // The device needs 0.1 s for what each of these reads.
    for (worked_ns, counts) in [(1_100_000_000, false), (900_000_000, true), (40_000_000, true), (30_000_000, false)] {
        let mut cost = ReadingCost::new(1e-10);
        for _ in 0..40 {
            cost.observe(waits(100_000_000, worked_ns, 50_000_000), 1e9);
        }
        let expected = if counts { 5e-10 } else { 1e-10 };
        assert!((cost.s_per_byte(1e9) / expected - 1.0).abs() < 0.02, "worked for {worked_ns} ns: {cost:?}");
    }
}

#[test]
fn a_byte_costs_no_longer_wait_than_the_device_needs_for_it() {
    let mut cost = ReadingCost::new(1e-10);
    for _ in 0..40 {
        cost.observe(waits(100_000_000, 1_000_000_000, 300_000_000), 1e9);
    }
    assert_eq!(cost.s_per_byte(1e9), 1e-9, "each waited three times as long");
    assert_eq!(cost.s_per_byte(0.5e9), 2e-9);
    assert!((cost.s_per_byte(0.1e9) / 3e-9 - 1.0).abs() < 0.02, "{cost:?}");
}

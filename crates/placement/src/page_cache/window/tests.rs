//! What the window remembers, and where the estimates settle.

use thermocline_seeded::Random;

use super::*;
use crate::page_cache::model::{Combination, Rates, Shares, workload_s};

const STORAGE_BYTES_PER_S: f64 = 1e9;

fn rates(window: &PipelineWindow) -> Rates {
    Rates {
        storage_bytes_per_s: STORAGE_BYTES_PER_S,
        memory_bytes_per_s: 20e9,
        reading_s_per_byte: window.reading_s_per_byte(STORAGE_BYTES_PER_S),
    }
}

const FREE_READS: Rates =
    Rates { storage_bytes_per_s: STORAGE_BYTES_PER_S, memory_bytes_per_s: 20e9, reading_s_per_byte: 0.0 };

/// Of a pipeline that worked so fast on bytes in memory.
fn in_memory(bytes: u64, throughput_bytes_per_s: f64) -> Ran {
    let busy_s = bytes as f64 / throughput_bytes_per_s;
    Ran { bytes, held_bytes: bytes, busy_s, took_s: busy_s, shows_storage: true, ..Ran::default() }
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
            let signature = random.below_u64(5);
            let throughput_bytes_per_s = [1e7, 1.01e7, 3e7, 1e7, 2.99e7][signature as usize];
            let run = window.start(signature, columns.clone());
            window.finish(run, in_memory(1000, throughput_bytes_per_s), None);
            all.push(Pipeline { columns, throughput_bytes_per_s, weight: 1.0 });
        }
        let last = &all[all.len().saturating_sub(window.capacity)..];
        let merged = window.merged(rates(&window));
        assert_eq!(merged.iter().map(|of| of.weight).sum::<f64>(), last.len() as f64, "seed {seed}");
        assert!(window.known.len() <= REMEMBERED_WINDOWS * window.capacity, "seed {seed}");
        assert!(merged.len() <= last.len(), "seed {seed}");
        let slow = Rates { storage_bytes_per_s: 2e7, memory_bytes_per_s: 1e9, reading_s_per_byte: 0.0 };
        for combination in [Combination::SumOverDevice, Combination::MaxOverColumns] {
            let shares = Shares::new((0..3).map(|list| (ListKey(list), random.unit())));
            let (merged_s, last_s) =
                (workload_s(&merged, slow, &shares, combination), workload_s(last, slow, &shares, combination));
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
    let merged = window.merged(rates(&window));
    assert_eq!(merged.len(), 2);
    assert!(merged.iter().all(|of| of.weight == 32.0), "{merged:?}");
    assert_eq!(merged[0].columns, [(ListKey(0), 500), (ListKey(1), 1000)]);
}

#[test]
fn a_known_plan_starts_with_what_it_was_known_for_by_the_median_of_its_last_runs() {
    let mut window = PipelineWindow::new(4);
    let columns = || vec![(ListKey(0), 1000)];
    let first = window.start(7, columns());
    assert_eq!(
        (window.known_throughput(7, rates(&window)), window.merged(rates(&window))[0].throughput_bytes_per_s),
        (None, f64::INFINITY)
    );
    window.estimate(first, 50.0);
    assert_eq!(
        (window.known_throughput(7, rates(&window)), window.merged(rates(&window))[0].throughput_bytes_per_s),
        (None, 50.0)
    );
    window.finish(first, in_memory(1000, 100.0), None);
    assert_eq!(window.known_throughput(7, rates(&window)), Some(100.0));
    let second = window.start(7, columns());
    assert_eq!(window.merged(rates(&window)).len(), 1, "it starts with the pace of the first");
    window.finish(second, in_memory(1000, 25.0), None);
    assert_eq!(window.known_throughput(7, rates(&window)), Some(40.0), "of seconds, not of rates");
    window.estimate(second, f64::NAN);
    (0..4 * REMEMBERED_WINDOWS as u64).for_each(|run| {
        window.start(run % 4, columns());
    });
    assert_eq!(window.known_throughput(7, rates(&window)), None, "its last run has left");
    window.finish(first, in_memory(1000, 1.0), None);
    assert_eq!(window.known_throughput(7, rates(&window)), None);
}

#[test]
fn the_pace_is_that_of_all_threads_and_what_was_known_fades() {
    let mut fresh = Pace::new(4, 1000, None);
    assert_eq!(fresh.throughput_bytes_per_s(FREE_READS), None);
    fresh.observe(100, 0, 2_000_000_000, 0);
    assert_eq!(fresh.throughput_bytes_per_s(FREE_READS), Some(200.0));
    let mut known = Pace::new(4, 1000, Some(50.0));
    assert_eq!(known.throughput_bytes_per_s(FREE_READS), Some(50.0));
    let mut before = 50.0;
    for _ in 0..10 {
        known.observe(100, 0, 2_000_000_000, 0);
        let now = known.throughput_bytes_per_s(FREE_READS).unwrap_or(0.0);
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
/// each while they are busy, wait for a tenth of the time, and take a twentieth more or less than that makes, and one in
/// ten of them half as long again. Returns the paces.
fn run_plans(
    window: &mut PipelineWindow,
    random: &mut Random,
    reading_s_per_byte: f64,
    read_part: impl Fn(u64, &mut Random) -> f64,
) -> [f64; 5] {
    const BYTES: u64 = 500_000_000;
    let paces = [5e9, 8e9, 12e9, 20e9, 30e9];
    for round in 0..8 {
        for (signature, pace) in (0..).zip(paces) {
            let run = window.start(signature, vec![(ListKey(0), BYTES)]);
            let read_bytes = (BYTES as f64 * read_part(round, random)) as u64;
            let noise = if random.one_in(10) { 1.5 } else { 0.95 + 0.1 * random.unit() };
            let busy_s = (BYTES as f64 / pace + 0.9 * read_bytes as f64 * reading_s_per_byte) * noise;
            let ran =
                Ran { read_bytes, busy_s, waited_s: busy_s / 9.0, took_s: busy_s / 0.9, ..in_memory(BYTES, pace) };
            window.finish(run, ran, None);
        }
    }
    paces
}

/// All is read at first, then what memory has no room for.
fn cold_then_warm(round: u64, random: &mut Random) -> f64 {
    if round == 0 { 1.0 } else { 0.3 + 0.1 * random.unit() }
}

#[test]
fn what_reading_costs_and_how_fast_plans_work_are_told_apart_by_runs_that_read_different_parts() {
    let (mut far_costs, mut far_paces) = (0, 0);
    for seed in 0..50 {
        let mut random = Random::new(seed);
        let mut window = PipelineWindow::default();
        let paces = run_plans(&mut window, &mut random, 0.3e-9, cold_then_warm);
        let cost = window.reading_s_per_byte(STORAGE_BYTES_PER_S);
        far_costs += usize::from(!(0.2e-9..0.45e-9).contains(&cost));
        // Of the fastest hardly anything is left beside what its reads cost.
        for (signature, pace) in (0..).zip(&paces[..3]) {
            let known = window.known_throughput(signature, rates(&window)).unwrap_or(0.0);
            far_paces += usize::from(!(0.6..1.8).contains(&(known / pace)));
        }
    }
    // Where several of the first runs were disturbed.
    assert!(far_costs <= 5 && far_paces <= 10, "{far_costs} of 50 costs, {far_paces} of 150 paces");
}

#[test]
fn plans_that_always_read_the_same_part_say_nothing_of_what_that_costs() {
    for seed in 0..20 {
        let mut random = Random::new(seed);
        let mut window = PipelineWindow::default();
        let guess = window.reading_s_per_byte(STORAGE_BYTES_PER_S);
        for _ in 0..20 {
            run_plans(&mut window, &mut random, 0.6e-9, |_, _| 0.4);
        }
        let cost = window.reading_s_per_byte(STORAGE_BYTES_PER_S);
        assert!((cost / guess - 1.0).abs() < 1e-6, "seed {seed}: {cost}");
    }
}

#[test]
fn reads_of_other_devices_say_nothing_and_none_costs_more_than_the_device_needs_for_it() {
    let mut window = PipelineWindow::default();
    let guess = window.reading_s_per_byte(STORAGE_BYTES_PER_S);
    for shows_storage in [false, true] {
        for read_bytes in [100_000_000, 0] {
            let run = window.start(u64::from(shows_storage), vec![(ListKey(0), 100_000_000)]);
            let busy_s = 0.01 + read_bytes as f64 * 0.9e-9;
            window.finish(run, Ran { read_bytes, busy_s, shows_storage, ..in_memory(100_000_000, 1e9) }, None);
        }
        let cost = window.reading_s_per_byte(STORAGE_BYTES_PER_S);
        assert!(if shows_storage { cost > 0.7e-9 } else { cost == guess }, "{cost}");
    }
    assert_eq!(window.reading_s_per_byte(2e9), 0.5e-9);
}

#[test]
fn runs_that_filled_new_memory_say_nothing_as_long_as_others_do() {
    let mut window = PipelineWindow::default();
    let guess = window.reading_s_per_byte(STORAGE_BYTES_PER_S);
    let run = |window: &mut PipelineWindow, read_bytes: u64, busy_s: f64, new_memory_bytes: u64| {
        let run = window.start(7, vec![(ListKey(0), 100_000_000)]);
        let ran = Ran { read_bytes, busy_s, took_s: busy_s, new_memory_bytes, ..in_memory(100_000_000, 1e9) };
        window.finish(run, ran, None);
    };
    let known = |window: &PipelineWindow| window.known_throughput(7, rates(window)).unwrap_or(0.0);
    run(&mut window, 100_000_000, 0.5, 50_000_000);
    // As long as nothing better is known, by what new memory may have cost at most.
    let work_s = 0.5 - 0.075 - 0.1e9 * guess;
    assert!((known(&window) / (0.1e9 / work_s) - 1.0).abs() < 1e-6, "{}", known(&window));
    let mut other = PipelineWindow::default();
    run(&mut other, 100_000_000, 0.1, 100_000_000);
    assert!((known(&other) / 20e9 - 1.0).abs() < 1e-6, "as fast as memory, not faster: {}", known(&other));
    let mut fast = PipelineWindow::default();
    run(&mut fast, 0, 0.002, 100_000_000);
    assert!((known(&fast) / 50e9 - 1.0).abs() < 1e-6, "as it was seen: {}", known(&fast));
    run(&mut window, 0, 0.01, 0);
    assert_eq!(known(&window), 1e10);
    assert_eq!(window.reading_s_per_byte(STORAGE_BYTES_PER_S), guess);
    run(&mut window, 50_000_000, 0.025, 2_000_000);
    let cost = window.reading_s_per_byte(STORAGE_BYTES_PER_S);
    assert!((cost / 0.3e-9 - 1.0).abs() < 0.01, "{cost}");
}

#[test]
fn a_plan_is_taken_to_ask_for_the_part_of_each_list_that_it_asked_for_before() {
    let mut window = PipelineWindow::default();
    let offered = [(ListKey(0), 1000), (ListKey(1), 400)];
    assert_eq!(window.expected(7, &offered), offered);
    let run = window.start(7, offered.to_vec());
    window.finish(run, in_memory(1000, 1e9), Some(&[(ListKey(0), 500)]));
    assert_eq!(window.merged(rates(&window))[0].columns, [(ListKey(0), 500), (ListKey(1), 0)]);
    assert_eq!(window.expected(7, &[(ListKey(0), 3000), (ListKey(1), 400)]), [(ListKey(0), 1500), (ListKey(1), 0)]);
    assert_eq!(window.expected(8, &offered), offered, "another plan");
    let run = window.start(7, offered.to_vec());
    window.finish(run, in_memory(1000, 1e9), Some(&offered));
    assert_eq!(window.expected(7, &offered), [(ListKey(0), 750), (ListKey(1), 200)]);
    let run = window.start(7, offered.to_vec());
    window.finish(run, in_memory(1000, 1e9), None);
    assert_eq!(window.expected(7, &offered), [(ListKey(0), 750), (ListKey(1), 200)], "it was not seen");
}

#[test]
fn predictions_settle_on_what_plans_take_whatever_the_model_leaves_out() {
    let columns = [(ListKey(0), 1_000_000_000)];
    let held = Shares::new([(ListKey(0), 0.8)]);
    let mut window = PipelineWindow::default();
    // A quarter of what is held goes before it is used; 0.4 s of reads, 0.2 s of work, and some time on top.
    let ran = Ran {
        read_bytes: 400_000_000,
        held_bytes: 800_000_000,
        took_s: 0.5,
        waited_s: 0.3,
        ..in_memory(1_000_000_000, 5e9)
    };
    for round in 0..6 {
        if let Some(known) = window.known_throughput(7, rates(&window)) {
            let predicted_s = window.predicted_s(7, &columns, &held, known, rates(&window));
            assert!((predicted_s / 0.5 - 1.0).abs() < 1e-6, "round {round}: {predicted_s}");
        }
        let run = window.start(7, columns.to_vec());
        // One that was disturbed does not count.
        let ran = if round == 3 { Ran { took_s: 2.0, busy_s: 1.0, ..ran } } else { ran };
        window.finish(run, ran, None);
    }
    // What is not known of another plan is left out.
    let plain_s = window.predicted_s(8, &columns, &held, 1e12, Rates { reading_s_per_byte: 0.0, ..rates(&window) });
    assert!((plain_s / 0.2 - 1.0).abs() < 1e-6, "{plain_s}");
}

#[test]
fn a_plan_that_has_not_run_before_is_expected_again_as_often_as_columns_were() {
    let mut window = PipelineWindow::default();
    let lists = |outlook: &Outlook| -> Vec<u32> { outlook.runs.iter().map(|run| run.columns[0].0.0).collect() };
    let mut start = |signature: u64, list: u32, bytes: u64| {
        window.start(signature, vec![(ListKey(list), bytes)]);
        window.outlook(FREE_READS)
    };
    assert_eq!(lists(&start(1, 0, 900)), [0], "nothing was asked for again yet");
    // New plans, each with a small table of its own first.
    for signature in 1..10 {
        start(100 + signature, 50 + signature as u32, 1);
        start(10 + signature, 0, 900);
    }
    let small = start(200, 99, 1);
    assert_eq!(lists(&small), [0, 0, 0, 0], "the large one, three times again");
    assert!(small.confidence > 0.9, "{}", small.confidence);
    let other = start(300, 1, 900);
    assert!(lists(&other).iter().all(|list| *list <= 1), "{other:?}");
    let smaller = start(301, 2, 500);
    assert!(lists(&smaller).iter().all(|list| *list == 2), "not the largest, but the last large one: {smaller:?}");
    // What has run before is foretold by what followed.
    assert_eq!(lists(&start(11, 0, 900))[..2], [0, 52]);
}

#[test]
fn a_run_that_is_given_up_counts_with_what_it_did() {
    let mut window = PipelineWindow::new(8);
    let columns = vec![(ListKey(0), 1000), (ListKey(1), 500)];
    let run = window.start(1, columns.clone());
    window.give_up(run, 0.1);
    assert_eq!(window.merged(FREE_READS)[0].columns, [(ListKey(0), 100), (ListKey(1), 50)]);
    let run = window.start(2, vec![(ListKey(2), 1000)]);
    window.give_up(run, 0.0);
    assert_eq!(window.merged(FREE_READS).len(), 1, "it did nothing");
    // Those after it are found by their numbers still.
    let run = window.start(3, vec![(ListKey(3), 1000)]);
    window.estimate(run, 1e9);
    window.finish(run, in_memory(1000, 1e9), None);
    assert_eq!(window.known_throughput(3, FREE_READS).map(|rate| rate.round()), Some(1e9));
}

#[test]
fn runs_that_named_a_list_that_is_forgotten_are_gone() {
    let mut window = PipelineWindow::new(8);
    for (signature, columns) in [(1, vec![(ListKey(0), 10), (ListKey(1), 10)]), (2, vec![(ListKey(1), 10)])] {
        let run = window.start(signature, columns);
        window.finish(run, in_memory(20, 1e9), Some(&[(ListKey(0), 1), (ListKey(1), 5)]));
    }
    let running = window.start(1, vec![(ListKey(0), 10)]);
    window.forget(&BTreeSet::from([ListKey(0)]));
    let merged = window.merged(FREE_READS);
    assert_eq!(merged.iter().map(|of| of.columns.clone()).collect::<Vec<_>>(), [[(ListKey(1), 5)]]);
    assert_eq!(window.expected(1, &[(ListKey(0), 10), (ListKey(1), 10)]), [(ListKey(0), 10), (ListKey(1), 5)]);
    window.finish(running, in_memory(10, 1e9), Some(&[(ListKey(0), 1)]));
    assert_eq!(window.merged(FREE_READS).len(), 1);
}

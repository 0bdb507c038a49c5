use thermocline_seeded::Random;

use super::*;

const RATES: Rates = Rates { storage_bytes_per_s: 1e9, memory_bytes_per_s: 20e9, reading_s_per_byte: 0.0 };
const FAST: f64 = 20e9;

fn run(lists: &[(u32, u64)], throughput_bytes_per_s: f64) -> Pipeline {
    let columns = lists.iter().map(|(list, bytes)| (ListKey(*list), *bytes)).collect();
    Pipeline { columns, throughput_bytes_per_s, weight: 1.0 }
}

fn lent(quotas: &[(u32, u64)], runs: Vec<Pipeline>, confidence: f64) -> Vec<(u32, u64)> {
    let quotas: Vec<(ListKey, u64)> = quotas.iter().map(|(list, bytes)| (ListKey(*list), *bytes)).collect();
    lend(&quotas, &Outlook { runs, confidence }, RATES).into_iter().map(|(list, bytes)| (list.0, bytes)).collect()
}

/// Runs of single lists of so many bytes.
fn runs(lists: &[u32], bytes: u64) -> Vec<Pipeline> {
    lists.iter().map(|list| run(&[(*list, bytes)], FAST)).collect()
}

const SIZE: u64 = 100_000_000;
const HALF: u64 = 50_000_000;

#[test]
fn what_is_used_several_times_takes_the_room_of_what_is_not_used_before() {
    let halves = [(0, HALF), (1, HALF)];
    assert_eq!(lent(&halves, runs(&[0, 0, 0, 1, 1, 1], SIZE), 1.0), [(0, SIZE)]);
    assert_eq!(lent(&halves, runs(&[0, 0, 0], SIZE), 1.0), [(0, SIZE)], "1 is not seen to come");
    assert_eq!(lent(&halves, runs(&[0, 0, 1, 1], SIZE), 1.0), halves, "as much would be lost as gained");
    assert_eq!(lent(&halves, runs(&[0, 1, 0, 1, 0, 1], SIZE), 1.0), halves);
    assert_eq!(lent(&halves, runs(&[2, 0, 0, 0, 1], SIZE), 1.0), [(0, SIZE)], "0 comes next");
    assert_eq!(lent(&halves, runs(&[2, 0, 0, 1, 1], SIZE), 1.0), halves, "0 has to be read once in any case");
    assert_eq!(lent(&halves, runs(&[1, 0, 0, 0, 1], SIZE), 1.0), halves, "1 is in use");
}

#[test]
fn the_list_used_farthest_in_the_future_lends_first() {
    let thirds = [(0, 40), (1, 40), (2, 40)];
    let order = [0, 0, 0, 0, 1, 2].map(|list| run(&[(list, 60)], FAST)).to_vec();
    assert_eq!(lent(&thirds, order.clone(), 1.0), [(0, 60), (1, 40), (2, 20)]);
    let order = [0, 0, 0, 0, 2, 1].map(|list| run(&[(list, 60)], FAST)).to_vec();
    assert_eq!(lent(&thirds, order, 1.0), [(0, 60), (1, 20), (2, 40)]);
}

#[test]
fn where_hardly_anything_is_missing_nothing_is_lent() {
    let standing = |quotas: &[u64]| Standing {
        quotas: (0..).map(ListKey).zip(quotas.iter().copied()).collect(),
        asked_bytes: BTreeMap::from([(ListKey(0), 100), (ListKey(1), 100)]),
    };
    assert!(standing(&[70, 100]).may_lend(&[]));
    assert!(!standing(&[80, 100]).may_lend(&[]));
    assert!(standing(&[80, 100]).may_lend(&[(ListKey(0), 100)]), "a fifth of what it asks for");
    assert!(!standing(&[80, 100]).may_lend(&[(ListKey(0), 100), (ListKey(1), 100)]), "a tenth");
    assert!(!Standing::default().may_lend(&[]) && standing(&[]).may_lend(&[]));
}

#[test]
fn a_pipeline_that_has_begun_since_finds_what_memory_is_left() {
    let standing = Standing {
        quotas: vec![(ListKey(0), 60), (ListKey(1), 10)],
        asked_bytes: BTreeMap::from([(ListKey(0), 60), (ListKey(1), 40)]),
    };
    let columns = [(ListKey(1), 45), (ListKey(2), 20), (ListKey(3), 50)];
    let begun = standing.with_begun(&columns, 100);
    assert_eq!(begun.quotas, [(ListKey(0), 60), (ListKey(1), 15), (ListKey(2), 20), (ListKey(3), 5)]);
    let asked: Vec<u64> = begun.asked_bytes.into_values().collect();
    assert_eq!(asked, [60, 45, 20, 50]);
    assert_eq!(standing.with_begun(&columns, 50).quotas[1..], [(ListKey(1), 10), (ListKey(2), 0), (ListKey(3), 0)]);
    assert_eq!(standing.with_begun(&[(ListKey(1), 40)], 100), standing);
    let mut known = standing.clone();
    known.forget(&BTreeSet::from([ListKey(0)]));
    assert_eq!((known.quotas, known.asked_bytes.len()), (vec![(ListKey(1), 10)], 1));
}

#[test]
fn what_is_lent_ends_where_the_reads_that_are_left_hide_behind_work() {
    // 25 MB after the other spare 20, 13 and 3 ms in each of three runs, and cost 25 ms in one.
    let half_as_fast = |list| run(&[(list, SIZE)], 2e9);
    let order = [half_as_fast(0), half_as_fast(0), half_as_fast(0), half_as_fast(0), run(&[(1, SIZE)], FAST)];
    assert_eq!(lent(&[(0, 20_000_000), (1, 80_000_000)], order.to_vec(), 1.0), [(0, 70_000_000), (1, 30_000_000)]);
}

#[test]
fn forecasts_that_do_not_come_true_and_reads_that_cost_nothing_move_nothing() {
    let halves = [(0, HALF), (1, HALF)];
    let order = [0, 0, 0, 0, 1];
    assert_eq!(lent(&halves, runs(&order, SIZE), 0.3), halves);
    assert_eq!(lent(&halves, Vec::new(), 1.0), halves);
    // Storage would keep up with ten times the pace.
    let slow = |list: &u32| run(&[(*list, SIZE)], if *list == 0 { 0.1e9 } else { FAST });
    assert_eq!(lent(&halves, order.iter().map(slow).collect(), 1.0), halves);
}

#[test]
fn whatever_comes_all_room_stays_given_and_nobody_has_more_than_is_asked_for() {
    for seed in 0..500 {
        let mut random = Random::new(seed);
        let list_count = 1 + random.below(8) as u32;
        let sizes: Vec<u64> = (0..list_count).map(|_| 1 + random.below_u64(1_000_000_000)).collect();
        let quotas: Vec<(u32, u64)> =
            (0..list_count).map(|list| (list, random.below_u64(sizes[list as usize] + 1))).collect();
        let order: Vec<Pipeline> = (0..random.below(30))
            .map(|_| {
                let asked = |list: u32| random.one_in(3).then(|| (list, random.below_u64(sizes[list as usize] + 1)));
                let of_run: Vec<(u32, u64)> = (0..list_count).filter_map(asked).collect();
                run(&of_run, [FAST, 0.5e9, f64::INFINITY][random.below(3)])
            })
            .collect();
        let lent = lent(&quotas, order.clone(), random.unit());
        let sum = |quotas: &[(u32, u64)]| quotas.iter().map(|(_, bytes)| bytes).sum::<u64>();
        assert_eq!(sum(&lent), sum(&quotas), "seed {seed}");
        for (list, bytes) in &lent {
            let before = quotas.iter().find(|(of, _)| of == list).map_or(0, |(_, bytes)| *bytes);
            let asked =
                |run: &Pipeline| run.columns.iter().find(|(of, _)| of.0 == *list).map_or(0, |(_, bytes)| *bytes);
            let most_asked = order.iter().map(asked).max().unwrap_or(0);
            assert!(*bytes <= before.max(most_asked), "seed {seed}: list {list} has {bytes}");
        }
        let in_use = order.first().map_or(&[][..], |run| &run.columns);
        for (list, before) in
            quotas.iter().filter(|(list, _)| in_use.iter().any(|(of, bytes)| of.0 == *list && *bytes > 0))
        {
            let now = lent.iter().find(|(of, _)| of == list).map_or(0, |(_, bytes)| *bytes);
            assert!(now >= *before, "seed {seed}: list {list} is in use and lends");
        }
    }
}

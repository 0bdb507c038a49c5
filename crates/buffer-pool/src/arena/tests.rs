#![allow(clippy::unwrap_used, clippy::panic)]

use thermocline_budget::{Budget, Purpose};
use thermocline_hardware::{ManualClock, SystemClock};
use thermocline_seeded::Random;

use super::*;

const CHUNK_BYTES: u64 = 64 << 10;
const CHARGE_BYTES: u64 = charge_bytes(CHUNK_BYTES);

fn clock() -> Arc<dyn Clock> {
    Arc::new(ManualClock::default())
}

fn arena(budget: &Budget) -> Arc<Arena> {
    Arena::new(&budget.account("arena", Purpose::Cache), CHUNK_BYTES, 64 << 20, clock()).unwrap()
}

#[test]
fn extents_are_as_separate_as_buffers_of_their_own() {
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let budget = Budget::new(20 * CHARGE_BYTES, None);
        let arena = arena(&budget);
        // Each extent beside a buffer that was given the same bytes.
        let mut taken: Vec<(Extent, Vec<u8>)> = Vec::new();
        for _ in 0..300 {
            match random.below(5) {
                0 | 1 => {
                    let most = if random.one_in(8) { 50 } else { 6 };
                    let unit_count = 1 + random.below(most);
                    if let Some(mut extent) = arena.take(unit_count as u64 * UNIT_BYTES) {
                        let twin: Vec<u8> = (0..extent.len()).map(|_| random.next_u64() as u8).collect();
                        extent.copy_from_slice(&twin);
                        taken.push((extent, twin));
                    }
                }
                2 if !taken.is_empty() => drop(taken.swap_remove(random.below(taken.len()))),
                3 if !taken.is_empty() => {
                    let index = random.below(taken.len());
                    let (extent, twin) = &mut taken[index];
                    let unit_count = extent.len() / UNIT_BYTES as usize;
                    if unit_count > 1 {
                        let kept_bytes = (1 + random.below(unit_count - 1)) * UNIT_BYTES as usize;
                        let rest = (extent.split_off(kept_bytes as u64), twin.split_off(kept_bytes));
                        taken.push(rest);
                    }
                }
                _ => {
                    arena.give_back(random.below(3 * CHARGE_BYTES as usize) as u64);
                }
            }
            for (extent, twin) in &taken {
                assert!(**extent == **twin, "seed {seed}");
                assert_eq!(extent.as_ptr().addr() % UNIT_BYTES as usize, 0);
            }
            let used_bytes: u64 = taken.iter().map(|(extent, _)| extent.size_bytes).sum();
            let backed = 0..arena.state.lock().used_bytes.len() as u64 * CHUNK_BYTES;
            assert_eq!(arena.used_bytes(&backed), used_bytes, "seed {seed}");
            assert!(used_bytes <= arena.backed_bytes(), "seed {seed}");
            assert_eq!(arena.reserved_bytes(), arena.backed_bytes() / CHUNK_BYTES * CHARGE_BYTES, "seed {seed}");
            assert_eq!(budget.reserved_bytes(), arena.reserved_bytes(), "seed {seed}");
        }
        taken.clear();
        arena.give_back(u64::MAX);
        assert_eq!((arena.backed_bytes(), budget.reserved_bytes()), (0, 0), "seed {seed}");
    }
}

#[test]
fn memory_that_was_used_is_used_again_before_fresh_memory() {
    let budget = Budget::new(100 * CHARGE_BYTES, None);
    let arena = arena(&budget);
    let first = arena.take(3 * UNIT_BYTES).unwrap();
    let second = arena.take(UNIT_BYTES).unwrap();
    let offset = first.range().start;
    drop(first);
    assert_eq!(arena.take(3 * UNIT_BYTES).unwrap().range().start, offset);
    assert_eq!(arena.take(2 * UNIT_BYTES).unwrap().range().start, offset, "the smaller gap");
    assert_eq!((arena.backed_bytes(), second.range().start), (CHUNK_BYTES, offset + 3 * UNIT_BYTES));
}

#[test]
fn an_extent_of_several_chunks_takes_empty_ones_from_elsewhere_before_the_budget_is_asked() {
    let budget = Budget::new(3 * CHARGE_BYTES, None);
    let arena = arena(&budget);
    let mut chunks: Vec<Extent> = (0..3).map(|_| arena.take(CHUNK_BYTES).unwrap()).collect();
    chunks.remove(2);
    chunks.remove(0);
    let large = arena.take(2 * CHUNK_BYTES).unwrap();
    assert_eq!((arena.backed_bytes(), budget.reserved_bytes()), (3 * CHUNK_BYTES, 3 * CHARGE_BYTES));
    assert!(large.iter().all(|&byte| byte == 0));
    assert!(arena.take(UNIT_BYTES).is_none());
    drop(chunks);
    assert!(arena.take(UNIT_BYTES).is_some());
}

#[test]
fn more_than_a_few_empty_chunks_are_given_back_at_once() {
    let budget = Budget::new(100 * CHARGE_BYTES, None);
    let arena = arena(&budget);
    let chunks: Vec<Extent> = (0..20).map(|_| arena.take(CHUNK_BYTES).unwrap()).collect();
    drop(chunks);
    assert_eq!(budget.reserved_bytes(), SPARE_CHUNKS as u64 * CHARGE_BYTES);
    assert_eq!(arena.give_back(1), CHARGE_BYTES);
    assert_eq!(arena.backed_bytes(), (SPARE_CHUNKS as u64 - 1) * CHUNK_BYTES);
}

#[test]
fn sparse_chunks_are_those_with_little_in_them() {
    let budget = Budget::new(100 * CHARGE_BYTES, None);
    let arena = arena(&budget);
    let mut extents: Vec<Extent> = (0..48).map(|_| arena.take(UNIT_BYTES).unwrap()).collect();
    assert!(arena.sparse_chunks().is_empty());
    extents.truncate(35);
    extents.drain(2..16);
    assert_eq!(arena.sparse_chunks(), [0..CHUNK_BYTES, 2 * CHUNK_BYTES..3 * CHUNK_BYTES]);
    assert_eq!(arena.used_bytes(&(0..2 * CHUNK_BYTES)), 18 * UNIT_BYTES);
    assert_eq!(arena.around(&(CHUNK_BYTES - 1..CHUNK_BYTES + 1)), 0..2 * CHUNK_BYTES);
    assert_eq!(arena.around(&(CHUNK_BYTES..2 * CHUNK_BYTES)), CHUNK_BYTES..2 * CHUNK_BYTES);
}

#[test]
fn where_the_system_grants_few_addresses_the_arena_makes_do() {
    let budget = Budget::new(4 * CHARGE_BYTES, None);
    let arena = Arena::new(&budget.account("arena", Purpose::Cache), CHUNK_BYTES, 1 << 60, clock()).unwrap();
    assert_eq!(arena.take(UNIT_BYTES).unwrap().len(), UNIT_BYTES as usize);
    assert!(mapped_bytes() >= arena.backed_bytes());
}

impl Arena {
    /// Has the next chunk lie on small pages, as if the last huge page had been slow to come; false where the system has
    /// no huge pages.
    pub(crate) fn finds_huge_pages_slow(&self) -> bool {
        self.state.lock().fresh.as_mut().map(|fresh| fresh.came(u64::MAX)).is_some()
    }
}

/// An arena of chunks of the size of a huge page, all of which are slow to come; none where the system has no such pages.
fn slow_arena(budget: &Budget) -> Option<Arc<Arena>> {
    let clock = Arc::new(SystemClock::new());
    let arena = Arena::new(&budget.account("arena", Purpose::Cache), HUGE_BYTES as u64, 1 << 30, clock).unwrap();
    arena.state.lock().fresh.as_mut().map(|fresh| *fresh = FreshMemory::new(0))?;
    // Older systems do not bring memory in when they are asked.
    arena.mapping.bring_in(0..0).then_some(arena)
}

/// Runs a test of this module in a process of its own; false in that process. What the system tells of a mapping may be
/// of several that lie side by side, those of other tests too.
#[cfg(target_os = "linux")]
fn has_run_alone(test: &str) -> bool {
    const IS_ALONE: &str = "THERMOCLINE_TEST_IS_ALONE";
    if std::env::var_os(IS_ALONE).is_some() {
        return false;
    }
    let (_, module) = module_path!().split_once("::").unwrap();
    let mut alone = std::process::Command::new(std::env::current_exe().unwrap());
    let ran = alone.args(["--exact", &format!("{module}::{test}")]).env(IS_ALONE, "1").output().unwrap();
    let told = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success() && told.contains("1 passed"), "{told}{}", String::from_utf8_lossy(&ran.stderr));
    true
}

#[test]
#[cfg(target_os = "linux")]
fn what_lies_on_small_pages_is_moved_to_huge_ones_as_it_is() {
    if has_run_alone("what_lies_on_small_pages_is_moved_to_huge_ones_as_it_is") {
        return;
    }
    let budget = Budget::new(1 << 30, None);
    let Some(arena) = slow_arena(&budget) else { return };
    let take = |_| {
        let extent = arena.take(HUGE_BYTES as u64).unwrap();
        arena.bring_in();
        extent
    };
    let mut extents: Vec<Extent> = (0..6).map(take).collect();
    for (number, extent) in (0..).zip(&mut extents) {
        extent.fill(number);
    }
    let small: Vec<usize> = arena.state.lock().small.iter().copied().collect();
    assert_eq!(small, [1, 3, 4], "the others were tried");
    while arena.has_small() {
        let huge_before_bytes = huge_bytes(&extents);
        arena.enlarge_next();
        // Some systems refuse always, some now and then.
        if arena.state.lock().refused_count == 0 {
            assert_eq!(huge_bytes(&extents), huge_before_bytes + HUGE_BYTES);
        }
    }
    for (number, extent) in (0..).zip(&extents) {
        assert!(extent.iter().all(|byte| *byte == number), "{number}");
    }
}

/// Bytes on huge pages of the mappings that these extents lie in.
#[cfg(target_os = "linux")]
fn huge_bytes(extents: &[Extent]) -> usize {
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let (mut is_theirs, mut bytes) = (false, 0);
    for line in maps.lines() {
        let (first, rest) = line.split_once(' ').unwrap();
        if let Some((start, end)) = first.split_once('-') {
            let part = usize::from_str_radix(start, 16).unwrap()..usize::from_str_radix(end, 16).unwrap();
            is_theirs = extents.iter().any(|extent| part.contains(&extent.as_ptr().addr()));
        } else if is_theirs && first == "AnonHugePages:" {
            bytes += rest.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10;
        }
    }
    bytes
}

#[test]
fn chunks_that_go_are_not_moved() {
    let budget = Budget::new(1 << 30, None);
    let Some(arena) = slow_arena(&budget) else { return };
    let extents: Vec<Extent> = (0..20).map(|_| arena.take(HUGE_BYTES as u64).unwrap()).collect();
    assert!(!arena.has_small(), "none was slow yet");
    arena.bring_in();
    let more: Vec<Extent> = (0..20).map(|_| arena.take(HUGE_BYTES as u64).unwrap()).collect();
    assert!(arena.has_small());
    drop(more);
    drop(extents);
    arena.give_back(u64::MAX);
    assert!(!arena.has_small());
}

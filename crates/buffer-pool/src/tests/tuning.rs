//! What the tuner learns of pipelines that really read.

use std::sync::Arc;

use thermocline_placement::page_cache::ListKey;

use super::stage::{CHARGE_BYTES, Play};
use crate::{PipelineStart, Tuner, Work};

const PAGE_BYTES: u32 = 16_384;
const PAGE_COUNT: u32 = 64;
const BYTES: u64 = PAGE_BYTES as u64 * PAGE_COUNT as u64;

/// Pipelines of one plan, each of one thread that asks for all pages of one list.
struct Runs {
    play: Play,
    tuner: Arc<Tuner>,
    columns: Vec<(ListKey, u64)>,
}

impl Runs {
    fn new() -> Self {
        let play = Play::new(1 << 30, Some(64 * CHARGE_BYTES), &[PAGE_BYTES; PAGE_COUNT as usize]);
        let tuner = Tuner::new(Arc::clone(&play.pool), Arc::clone(&play.clock) as _);
        let columns = vec![(play.pages.places[0].list, BYTES)];
        Self { play, tuner, columns }
    }

    /// One that is busy for so long. Returns how many pages were in memory.
    fn run(&self, busy_ns: u64) -> u32 {
        let start = PipelineStart {
            signature: 1,
            label: "plan 1".into(),
            columns: self.columns.clone(),
            thread_count: 1,
            shows_storage: true,
            watcher: None,
        };
        let running = self.tuner.start(start);
        let hit_count = (0..PAGE_COUNT).filter(|page| self.play.pinned(*page).was_hit()).count() as u32;
        let read_bytes = BYTES - u64::from(hit_count * PAGE_BYTES);
        self.play.clock.advance_ns(busy_ns);
        running.observe(Work { bytes: BYTES, read_bytes, busy_ns, waited_ns: 0 });
        running.finish();
        hit_count
    }

    fn throughput_bytes_per_s(&self) -> f64 {
        self.tuner.last_ended(1).and_then(|ended| ended.throughput_bytes_per_s).unwrap()
    }
}

#[test]
fn a_run_that_reads_into_new_memory_says_nothing_of_later_ones() {
    let runs = Runs::new();
    assert_eq!(runs.run(100_000_000), 0);
    // Of two runs that count the mean would be taken.
    assert_eq!(runs.run(10_000_000), PAGE_COUNT);
    let predicted_s = runs.tuner.predicted_s(1, &runs.columns).unwrap();
    assert!((predicted_s / 0.01 - 1.0).abs() < 0.01, "{predicted_s}");
}

#[test]
fn a_run_that_new_memory_may_have_kept_busy_is_taken_for_as_fast_as_memory() {
    let runs = Runs::new();
    runs.run(1_000_000);
    assert!((runs.throughput_bytes_per_s() / 20e9 - 1.0).abs() < 1e-6, "{}", runs.throughput_bytes_per_s());
    runs.run(1_000_000);
    assert!((runs.throughput_bytes_per_s() / (BYTES as f64 / 0.001) - 1.0).abs() < 0.5);
}

//! What the tuner learns of pipelines that really read.

use std::sync::Arc;

use super::stage::{CHARGE_BYTES, Play};
use crate::{PipelineStart, Tuner, Work};

const PAGE_BYTES: u32 = 16_384;
const PAGE_COUNT: u32 = 64;

#[test]
fn a_run_that_reads_into_new_memory_says_nothing_of_later_ones() {
    let play = Play::new(1 << 30, Some(64 * CHARGE_BYTES), &[PAGE_BYTES; PAGE_COUNT as usize]);
    let tuner = Tuner::new(Arc::clone(&play.pool), Arc::clone(&play.clock) as _);
    let bytes = u64::from(PAGE_BYTES * PAGE_COUNT);
    let columns = vec![(play.pages.places[0].list, bytes)];
    let run = |busy_ns: u64| {
        let start = PipelineStart {
            signature: 1,
            label: "plan 1".into(),
            columns: columns.clone(),
            thread_count: 1,
            shows_storage: true,
        };
        let running = tuner.start(start);
        let hit_count = (0..PAGE_COUNT).filter(|page| play.pinned(*page).was_hit()).count();
        let read_bytes = bytes - hit_count as u64 * u64::from(PAGE_BYTES);
        play.clock.advance_ns(busy_ns);
        running.observe(Work { bytes, read_bytes, busy_ns, waited_ns: 0 });
        running.finish();
        hit_count
    };
    assert_eq!(run(100_000_000), 0);
    // Of two runs that count the mean would be taken.
    assert_eq!(run(10_000_000), PAGE_COUNT as usize);
    let predicted_s = tuner.predicted_s(1, &columns).unwrap();
    assert!((predicted_s / 0.01 - 1.0).abs() < 0.01, "{predicted_s}");
}

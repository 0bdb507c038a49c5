//! Measures what memory gives to one core: read and copy bandwidth, and latency of a dependent load.
//!
//! Done on request only. The buffers are 64 MiB, beyond the caches of most machines per core; where a last-level cache
//! is larger, the figures are those of that cache in part, as a scan of that size would see too.

use std::hint::black_box;

use crate::{Clock, Machine};

/// What one core gets from memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Calibration {
    /// Sequential reading by one core.
    pub memory_read_bytes_per_s: f64,
    /// Copying by one core, counted once per byte copied.
    pub memory_copy_bytes_per_s: f64,
    /// One load whose address depends on the load before, at random over the buffer.
    pub memory_latency_ns: f64,
}

const BUFFER_BYTES: usize = 64 << 20;
/// The best of several rounds: what disturbs a round only makes it slower.
const ROUND_COUNT: usize = 4;
/// At 100 ns a load this is 20 ms.
const CHASE_STEP_COUNT: usize = 200_000;

/// Measures one core for less than 300 ms, holding up to 128 MiB while it does.
///
/// With a clock that stands still the figures are infinite bandwidth and no latency.
pub fn calibrate(machine: &Machine, clock: &dyn Clock) -> Calibration {
    let line_words = machine.data_cache(1).map_or(64, |cache| cache.line_bytes as usize) / size_of::<u64>();
    let word_count = BUFFER_BYTES / size_of::<u64>();
    let mut source: Vec<u64> = vec![1; word_count];
    let mut target: Vec<u64> = vec![2; word_count];

    let read_ns = best_ns(clock, || {
        black_box(black_box(&source).iter().fold(0_u64, |sum, &word| sum.wrapping_add(word)));
    });
    let copy_ns = best_ns(clock, || {
        black_box(&mut target).copy_from_slice(black_box(&source));
    });
    drop(target);

    let stride_words = line_words.max(1);
    link_cycle(&mut source, stride_words);
    let mut at = 0_u64;
    let started_ns = clock.monotonic_ns();
    for _ in 0..CHASE_STEP_COUNT {
        at = source[at as usize];
    }
    black_box(at);
    let chase_ns = clock.monotonic_ns().saturating_sub(started_ns);

    Calibration {
        memory_read_bytes_per_s: BUFFER_BYTES as f64 * 1e9 / read_ns as f64,
        memory_copy_bytes_per_s: BUFFER_BYTES as f64 * 1e9 / copy_ns as f64,
        memory_latency_ns: chase_ns as f64 / CHASE_STEP_COUNT as f64,
    }
}

fn best_ns(clock: &dyn Clock, mut round: impl FnMut()) -> u64 {
    (0..ROUND_COUNT)
        .map(|_| {
            let started_ns = clock.monotonic_ns();
            round();
            clock.monotonic_ns().saturating_sub(started_ns)
        })
        .min()
        .unwrap_or(0)
}

/// Turns `words` into one cycle over its lines: the first word of each line holds the index of the next to visit.
///
/// Sattolo's shuffle, so that the cycle visits every line; the generator is a fixed xorshift, for equal runs.
fn link_cycle(words: &mut [u64], stride_words: usize) {
    let line_count = words.len() / stride_words;
    for line in 0..line_count {
        words[line * stride_words] = (line * stride_words) as u64;
    }
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    for line in (1..line_count).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let other = (state % line as u64) as usize;
        words.swap(line * stride_words, other * stride_words);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ManualClock, SystemClock};

    #[test]
    fn the_chase_visits_every_line_once() {
        let (stride_words, line_count) = (8, 1000);
        let mut words = vec![0; stride_words * line_count];
        link_cycle(&mut words, stride_words);
        let mut visited = vec![false; line_count];
        let mut at = 0;
        for _ in 0..line_count {
            assert!(!std::mem::replace(&mut visited[at / stride_words], true));
            at = words[at] as usize;
        }
        assert_eq!(at, 0);
    }

    #[test]
    fn the_figures_of_this_machine_are_positive_and_finite() {
        let calibration = calibrate(&Machine::detect(), &SystemClock::new());
        for figure in
            [calibration.memory_read_bytes_per_s, calibration.memory_copy_bytes_per_s, calibration.memory_latency_ns]
        {
            assert!(figure.is_finite() && figure > 0.0, "{calibration:?}");
        }
    }

    #[test]
    fn a_clock_that_stands_still_does_no_harm() {
        let calibration = calibrate(&Machine::detect(), &ManualClock::new(0));
        assert_eq!(calibration.memory_latency_ns, 0.0);
    }
}

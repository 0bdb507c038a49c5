//! What a byte that comes from storage costs pipelines beside the device's time, learned together with their own pace.
//!
//! Whatever brings a byte in works on the same processors as the pipeline: it copies, checks, hands over; and a byte
//! that has just come lies in no cache. So a pipeline that reads r of each of its bytes is busy for `b = 1/P + c·r`
//! seconds for each, and neither its P nor c can be told from one run. Runs of one plan of which different parts were
//! read tell c: it is the slope of b over r within plans, whatever their P are. Of the slopes seen the weighted median
//! counts, as one run in ten takes half as long again as others. A plan that always reads the same part says nothing,
//! and nothing is forgotten through it.
//!
//! What a pipeline waits for a device is no part of this: that follows from the device's time. While it waits, what
//! brings bytes in has processors for itself, so only the part of r counts in which the pipeline did not: c is what a
//! byte costs that comes while all processors are at work.

use std::collections::VecDeque;

use crate::page_cache::model::Rates;

/// What a pipeline did, and how long that took.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Ran {
    /// What it worked on.
    pub bytes: u64,
    /// What of that came from storage.
    pub read_bytes: u64,
    /// What of it was in memory when the pipeline began.
    pub held_bytes: u64,
    /// How long each of its threads was at it on average, waiting not counted.
    pub busy_s: f64,
    /// How long each of them waited for its reads on average.
    pub waited_s: f64,
    /// From its beginning to its end.
    pub took_s: f64,
    /// Memory that was taken from the system meanwhile.
    pub new_memory_bytes: u64,
    /// Whether what it read came from the database's storage, and not from another device.
    pub shows_storage: bool,
}

impl Ran {
    /// Whether how long it was busy shows what reads of the database's storage cost.
    pub(super) fn shows_cost(&self) -> bool {
        self.shows_storage && !self.filled_new_memory()
    }

    /// Whether how long it took may be due to the system's memory: what nobody has used before is found and cleared by the
    /// system first, which takes several times as long as to read into it.
    pub(super) fn filled_new_memory(&self) -> bool {
        self.new_memory_bytes > self.read_bytes / NEW_MEMORY_PART
    }

    /// Of what was in memory when it began, the part that still was when it was worked on; `None` if there was too little
    /// to tell.
    pub(super) fn kept_part(&self) -> Option<f64> {
        let found_bytes = self.bytes.saturating_sub(self.read_bytes) as f64;
        let is_enough = self.held_bytes > self.bytes / TELLING_PART;
        is_enough.then(|| (found_bytes / self.held_bytes as f64).min(1.0))
    }

    /// Of each of its bytes, the part that was read while it did not wait, and the busy seconds; `None` if nothing was
    /// seen of it.
    pub(super) fn per_byte(&self) -> Option<(f64, f64)> {
        let bytes = self.bytes as f64;
        let busy_part = self.busy_s / (self.busy_s + self.waited_s);
        (self.bytes > 0 && self.busy_s > 0.0).then(|| (busy_part * self.read_bytes as f64 / bytes, self.busy_s / bytes))
    }

    /// Of the busy seconds for a byte, the part that was its own work: 1/P. However much its reads seem to cost, some of
    /// it was; and what new memory may have cost makes no pipeline faster than memory.
    pub(super) fn work_s_per_byte(&self, rates: Rates) -> Option<f64> {
        let (read_part, busy_s_per_byte) = self.per_byte()?;
        let without_reads_s_per_byte =
            (busy_s_per_byte - read_part * rates.reading_s_per_byte).max(busy_s_per_byte * LEAST_WORK_PART);
        let new_memory_part = self.new_memory_bytes as f64 / self.bytes as f64;
        let own_s_per_byte = without_reads_s_per_byte - new_memory_part * MOST_NEW_MEMORY_S_PER_BYTE;
        Some(own_s_per_byte.max(rates.memory_bytes_per_s.recip().min(without_reads_s_per_byte)))
    }
}

/// What is in memory tells how much of it stays if it is more than one part in so many.
const TELLING_PART: u64 = 16;

/// What was read tells what that costs if at most one part in so many came into new memory.
const NEW_MEMORY_PART: u64 = 16;

/// What a byte of memory that nobody has used before may cost: this, on a virtual machine whose host has to find it first;
/// some twentieth of it elsewhere. A pipeline that is taken for too fast is given more memory than it needs until it runs
/// again; one that is taken for ten times too slow gets none, and then reads all the more.
const MOST_NEW_MEMORY_S_PER_BYTE: f64 = 1.5e-9;

/// Of the busy seconds, the part that is work in any case.
const LEAST_WORK_PART: f64 = 0.1;

/// A running estimate of c: the slopes seen last, with their weights.
#[derive(Clone, Debug)]
pub(super) struct ReadingCost {
    guessed_s_per_byte: f64,
    /// The oldest first.
    slopes: VecDeque<(f64, f64)>,
}

/// So many slopes are remembered.
const SLOPE_COUNT: usize = 64;
/// Runs that read this part more or less of their bytes than is usual for their plan say something.
const LEAST_DIFFERENCE: f64 = 0.1;
/// Runs of so many bytes and more count in full, shorter ones by their bytes: they are mostly beginning and end.
const WHOLE_BYTES: f64 = 64e6;
/// The guess counts as much as a run that read a third more of its bytes than is usual for its plan.
const GUESS_WEIGHT: f64 = 0.1;

impl ReadingCost {
    /// From a guess.
    pub(super) fn new(guessed_s_per_byte: f64) -> Self {
        Self { guessed_s_per_byte, slopes: VecDeque::new() }
    }

    /// A run of so many bytes read more by this part of them than its plan's runs do on average, and was busy longer by
    /// so much for each; both may be negative.
    pub(super) fn observe(&mut self, bytes: u64, read_part: f64, busy_s_per_byte: f64) {
        if read_part.abs() < LEAST_DIFFERENCE {
            return;
        }
        if self.slopes.len() == SLOPE_COUNT {
            self.slopes.pop_front();
        }
        let weight = (bytes as f64 / WHOLE_BYTES).min(1.0) * read_part * read_part;
        self.slopes.push_back((busy_s_per_byte / read_part, weight));
    }

    /// The estimate, with a device of `storage_bytes_per_s`: at most what that needs for a byte.
    pub(super) fn s_per_byte(&self, storage_bytes_per_s: f64) -> f64 {
        let mut slopes: Vec<(f64, f64)> = self.slopes.iter().copied().collect();
        slopes.push((self.guessed_s_per_byte, GUESS_WEIGHT));
        slopes.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        let half = 0.5 * slopes.iter().map(|(_, weight)| weight).sum::<f64>();
        let mut below = 0.0;
        let median = slopes.iter().find(|(_, weight)| {
            below += weight;
            below >= half
        });
        median.map_or(self.guessed_s_per_byte, |(slope, _)| *slope).clamp(0.0, storage_bytes_per_s.recip())
    }
}

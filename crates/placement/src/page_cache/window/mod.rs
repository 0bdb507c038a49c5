//! The last pipelines and what was measured of them: what the programmes place pages for.
//!
//! **Owns**: which pipelines ran, how fast each works and what reading costs them ([`PipelineWindow`]), how fast one
//! works while it runs ([`Pace`]), how fast the devices are ([`DeviceRate`]).
//! **Does not own** the measuring: who runs pipelines reports here.
//!
//! **Invariants**: at most `capacity` pipelines; what a pipeline is known for is forgotten with its last run in the
//! window.
//!
//! Paper: HPCache §4.3: the last L-1 pipelines and the current one are taken to come again; P is estimated while a
//! pipeline runs, from the time that it works on pages that are in memory. Deviations: a pipeline that has run before
//! starts with what it was known for; equal pipelines are merged; storage is corrected by what is seen, and what reading
//! costs is learned together with P, which the paper takes to be the same whatever is read; a
//! pipeline counts with the pages that it asks for, which are fewer than those of its columns where no row that is left
//! needs them.
//!
//! Pure; a report is O(1), the merged view O(L log L).

mod device_rate;
mod pace;
mod reading_cost;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, VecDeque};

pub use device_rate::{DeviceRate, SHORTEST_REPORT_NS};
pub use pace::Pace;
pub use reading_cost::Ran;
use reading_cost::{ReadingCost, work_s_per_byte};

use super::ListKey;
use super::model::Pipeline;

/// How many pipelines are remembered unless told otherwise. A few minutes of dashboards, and few enough to be solved
/// for in milliseconds.
pub const DEFAULT_CAPACITY: usize = 64;

/// Bytes and paces that differ by less than this are merged: less than they vary from run to run.
const MERGED_RATIO: f64 = 1.05;

/// Of what a pipeline was known for and what its last run showed, the part of the last run.
const LATEST_PART: f64 = 0.5;

/// Names one run in a window.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct RunId(u64);

#[derive(Clone, Debug)]
struct Run {
    signature: u64,
    /// Bytes that it could ask for of each list.
    offered: Vec<(ListKey, u64)>,
    /// What it is taken to ask for of them, and in the end did.
    columns: Vec<(ListKey, u64)>,
    pace: RunPace,
}

#[derive(Clone, Copy, Debug)]
enum RunPace {
    /// That of its plan, if that has one.
    OfPlan,
    /// It runs: P as it looks.
    Estimated { throughput_bytes_per_s: f64 },
    /// It has ended: the part of its bytes that was read, and the busy seconds for each.
    Seen { read_part: f64, busy_s_per_byte: f64 },
}

#[derive(Clone, Debug, Default)]
struct Known {
    /// On average, the latest counting most: the part of their bytes that runs read, and the busy seconds for each.
    seen: Option<(f64, f64)>,
    /// Of what was offered of each list, the part that was asked for.
    asked_parts: HashMap<ListKey, f64>,
    runs_in_window: usize,
}

impl Known {
    fn work_s_per_byte(&self, reading_s_per_byte: f64) -> Option<f64> {
        let (read_part, busy_s_per_byte) = self.seen?;
        Some(work_s_per_byte(read_part, busy_s_per_byte, reading_s_per_byte))
    }

    fn asked_part(&self, list: ListKey) -> f64 {
        self.asked_parts.get(&list).copied().unwrap_or(1.0)
    }
}

/// The last pipelines, the newest of which may still be running.
#[derive(Clone, Debug)]
pub struct PipelineWindow {
    capacity: usize,
    runs: VecDeque<Run>,
    /// Of the oldest run.
    first: u64,
    known: HashMap<u64, Known>,
    reading: ReadingCost,
}

impl Default for PipelineWindow {
    fn default() -> Self {
        Self::new(DEFAULT_CAPACITY)
    }
}

/// What a byte from storage is taken to cost two threads until runs say better: its checksum.
const GUESSED_READING_S_PER_BYTE: f64 = 0.05e-9;

impl PipelineWindow {
    /// Of so many pipelines, and one at least.
    pub fn new(capacity: usize) -> Self {
        let reading = ReadingCost::new(GUESSED_READING_S_PER_BYTE);
        Self { capacity: capacity.max(1), runs: VecDeque::new(), first: 0, known: HashMap::new(), reading }
    }

    /// A pipeline starts that may ask for these bytes of these lists, each named once. Pipelines of the same plan,
    /// whatever the constants in it, have the same `signature`. The oldest run leaves if there are too many.
    pub fn start(&mut self, signature: u64, offered: Vec<(ListKey, u64)>) -> RunId {
        while self.runs.len() >= self.capacity
            && let Some(oldest) = self.runs.pop_front()
        {
            self.first += 1;
            if let Some(known) = self.known.get_mut(&oldest.signature) {
                known.runs_in_window -= 1;
                if known.runs_in_window == 0 {
                    self.known.remove(&oldest.signature);
                }
            }
        }
        let columns = self.expected(signature, &offered);
        let known = self.known.entry(signature).or_default();
        known.runs_in_window += 1;
        self.runs.push_back(Run { signature, offered, columns, pace: RunPace::OfPlan });
        RunId(self.first + self.runs.len() as u64 - 1)
    }

    /// What a pipeline of this plan is taken to ask for of what it may: all as long as none is known.
    pub fn expected(&self, signature: u64, offered: &[(ListKey, u64)]) -> Vec<(ListKey, u64)> {
        let known = self.known.get(&signature);
        let asked_part = |list| known.map_or(1.0, |known| known.asked_part(list));
        offered.iter().map(|(list, bytes)| (*list, (asked_part(*list) * *bytes as f64).round() as u64)).collect()
    }

    /// c: what a byte that comes from storage costs beside the time of the device, which is `storage_bytes_per_s` fast.
    pub fn reading_s_per_byte(&self, storage_bytes_per_s: f64) -> f64 {
        self.reading.s_per_byte(storage_bytes_per_s)
    }

    /// What a pipeline of this plan is known for since it last ended, in bytes per second.
    pub fn known_throughput(&self, signature: u64, storage_bytes_per_s: f64) -> Option<f64> {
        let reading_s_per_byte = self.reading_s_per_byte(storage_bytes_per_s);
        Some(self.known.get(&signature)?.work_s_per_byte(reading_s_per_byte)?.recip())
    }

    /// What a running pipeline is estimated to do by now. Nothing happens if it has left the window, or to no estimate.
    pub fn estimate(&mut self, run: RunId, throughput_bytes_per_s: f64) {
        if throughput_bytes_per_s > 0.0
            && let Some(at) = self.place(run)
        {
            self.runs[at].pace = RunPace::Estimated { throughput_bytes_per_s };
        }
    }

    fn place(&self, run: RunId) -> Option<usize> {
        let at = usize::try_from(run.0.checked_sub(self.first)?).ok()?;
        (at < self.runs.len()).then_some(at)
    }

    /// A pipeline has ended. It asked for these bytes of its lists, none of those that are not named; `None` if that was
    /// not seen. Its next runs start from that and what its plan was known for before.
    pub fn finish(&mut self, run: RunId, ran: Ran, asked: Option<&[(ListKey, u64)]>) {
        let Some(at) = self.place(run) else { return };
        let run = &mut self.runs[at];
        let Some(known) = self.known.get_mut(&run.signature) else { return };
        if let Some((read_part, busy_s_per_byte)) = ran.per_byte().filter(|(_, busy_s_per_byte)| *busy_s_per_byte > 0.0)
        {
            run.pace = RunPace::Seen { read_part, busy_s_per_byte };
            let (mean_read_part, mean_busy) = known.seen.unwrap_or((read_part, busy_s_per_byte));
            let (more_read, longer) = (read_part - mean_read_part, busy_s_per_byte - mean_busy);
            if ran.shows_storage {
                self.reading.observe(ran.bytes, more_read, longer);
            }
            known.seen = Some((mean_read_part + LATEST_PART * more_read, mean_busy + LATEST_PART * longer));
        }
        if let Some(asked) = asked {
            let asked: HashMap<ListKey, u64> = asked.iter().copied().collect();
            for ((list, offered_bytes), (_, bytes)) in run.offered.iter().zip(&mut run.columns) {
                *bytes = asked.get(list).copied().unwrap_or(0);
                let latest = *bytes as f64 / (*offered_bytes).max(1) as f64;
                let before = known.asked_parts.get(list).copied().unwrap_or(latest);
                known.asked_parts.insert(*list, before + LATEST_PART * (latest - before));
            }
        }
    }

    /// The runs of the window, those of the same lists with about as many bytes and about the same pace as one with the
    /// weight of all. In an order that depends on what they are alone.
    pub fn merged(&self, storage_bytes_per_s: f64) -> Vec<Pipeline> {
        let reading_s_per_byte = self.reading_s_per_byte(storage_bytes_per_s);
        type Alike = (Vec<(ListKey, i64)>, i64);
        let mut groups: BTreeMap<Alike, (f64, BTreeMap<ListKey, f64>, f64)> = BTreeMap::new();
        for run in &self.runs {
            let mut columns = BTreeMap::new();
            run.columns.iter().for_each(|(list, bytes)| *columns.entry(*list).or_insert(0.0) += *bytes as f64);
            let work_s_per_byte = match run.pace {
                // A pipeline of which nothing is known yet counts as one that takes no time beside its reads.
                RunPace::OfPlan => {
                    let known = self.known.get(&run.signature);
                    known.and_then(|known| known.work_s_per_byte(reading_s_per_byte)).unwrap_or(0.0)
                }
                RunPace::Estimated { throughput_bytes_per_s } => throughput_bytes_per_s.recip(),
                RunPace::Seen { read_part, busy_s_per_byte } => {
                    work_s_per_byte(read_part, busy_s_per_byte, reading_s_per_byte)
                }
            };
            let alike =
                (columns.iter().map(|(list, bytes)| (*list, bucket(*bytes))).collect(), bucket(work_s_per_byte));
            let (weight, bytes, work) = groups.entry(alike).or_default();
            *weight += 1.0;
            columns.into_iter().for_each(|(list, of_run)| *bytes.entry(list).or_insert(0.0) += of_run);
            *work += work_s_per_byte;
        }
        let merged = |(weight, bytes, work): (f64, BTreeMap<ListKey, f64>, f64)| Pipeline {
            columns: bytes.into_iter().map(|(list, bytes)| (list, (bytes / weight).round() as u64)).collect(),
            throughput_bytes_per_s: weight / work,
            weight,
        };
        groups.into_values().map(merged).collect()
    }
}

/// The same for numbers that are about the same.
fn bucket(number: f64) -> i64 {
    if number > 0.0 { (number.ln() / MERGED_RATIO.ln()).round() as i64 } else { i64::MIN }
}

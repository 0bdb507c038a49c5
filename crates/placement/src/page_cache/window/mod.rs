//! The last pipelines and what was measured of them: what the programmes place pages for.
//!
//! **Owns**: which pipelines ran ([`PipelineWindow`]), how fast each works ([`Pace`]), how fast the devices are
//! ([`DeviceRate`]) and what reading from them costs beside that ([`ReadingCost`]).
//! **Does not own** the measuring: who runs pipelines reports here.
//!
//! **Invariants**: at most `capacity` pipelines; what a pipeline is known for is forgotten with its last run in the
//! window.
//!
//! Paper: HPCache §4.3: the last L-1 pipelines and the current one are taken to come again; P is estimated while a
//! pipeline runs, from the time that it works on pages that are in memory. Deviations: a pipeline that has run before
//! starts with what it was known for; equal pipelines are merged; storage and memory are corrected by what is seen; a
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
pub use reading_cost::{ReadingCost, Waits};

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
    /// 1/P; `None` as long as nothing is known.
    work_s_per_byte: Option<f64>,
}

#[derive(Clone, Debug, Default)]
struct Known {
    work_s_per_byte: Option<f64>,
    /// Of what was offered of each list, the part that was asked for.
    asked_parts: HashMap<ListKey, f64>,
    runs_in_window: usize,
}

impl Known {
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
}

impl Default for PipelineWindow {
    fn default() -> Self {
        Self::new(DEFAULT_CAPACITY)
    }
}

impl PipelineWindow {
    /// Of so many pipelines, and one at least.
    pub fn new(capacity: usize) -> Self {
        Self { capacity: capacity.max(1), runs: VecDeque::new(), first: 0, known: HashMap::new() }
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
        self.runs.push_back(Run { signature, offered, columns, work_s_per_byte: known.work_s_per_byte });
        RunId(self.first + self.runs.len() as u64 - 1)
    }

    /// What a pipeline of this plan is taken to ask for of what it may: all as long as none is known.
    pub fn expected(&self, signature: u64, offered: &[(ListKey, u64)]) -> Vec<(ListKey, u64)> {
        let known = self.known.get(&signature);
        let asked_part = |list| known.map_or(1.0, |known| known.asked_part(list));
        offered.iter().map(|(list, bytes)| (*list, (asked_part(*list) * *bytes as f64).round() as u64)).collect()
    }

    /// What a pipeline of this plan was known for when it last ended, in bytes per second.
    pub fn known_throughput(&self, signature: u64) -> Option<f64> {
        self.known.get(&signature)?.work_s_per_byte.map(f64::recip)
    }

    /// What a running pipeline is estimated to do by now. Nothing happens if it has left the window, or to no estimate.
    pub fn estimate(&mut self, run: RunId, throughput_bytes_per_s: f64) {
        let at = run.0.checked_sub(self.first).and_then(|at| usize::try_from(at).ok());
        if throughput_bytes_per_s > 0.0
            && let Some(run) = at.and_then(|at| self.runs.get_mut(at))
        {
            run.work_s_per_byte = Some(throughput_bytes_per_s.recip());
        }
    }

    /// A pipeline has ended that did so much and asked for these bytes of its lists, none of those that are not named;
    /// `None` if that was not seen. Its next runs start from that and what it was known for before.
    pub fn finish(&mut self, run: RunId, throughput_bytes_per_s: f64, asked: Option<&[(ListKey, u64)]>) {
        self.estimate(run, throughput_bytes_per_s);
        let at = run.0.checked_sub(self.first).and_then(|at| usize::try_from(at).ok());
        let Some(run) = at.and_then(|at| self.runs.get_mut(at)) else { return };
        let Some(known) = self.known.get_mut(&run.signature) else { return };
        if let Some(latest) = run.work_s_per_byte {
            let before = known.work_s_per_byte.unwrap_or(latest);
            known.work_s_per_byte = Some(before + LATEST_PART * (latest - before));
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
    pub fn merged(&self) -> Vec<Pipeline> {
        type Alike = (Vec<(ListKey, i64)>, i64);
        let mut groups: BTreeMap<Alike, (f64, BTreeMap<ListKey, f64>, f64)> = BTreeMap::new();
        for run in &self.runs {
            let mut columns = BTreeMap::new();
            run.columns.iter().for_each(|(list, bytes)| *columns.entry(*list).or_insert(0.0) += *bytes as f64);
            // A pipeline of which nothing is known yet counts as one that takes no time beside its reads.
            let work_s_per_byte = run.work_s_per_byte.unwrap_or(0.0);
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

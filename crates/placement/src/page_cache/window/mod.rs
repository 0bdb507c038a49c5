//! The last pipelines and what was measured of them: what the programmes place pages for.
//!
//! **Owns**: which pipelines ran, how fast each works and what reading costs them ([`PipelineWindow`]), how fast one
//! works while it runs ([`Pace`]), how fast the devices are ([`DeviceRate`]), which are likely to come next (`succession`,
//! and `familiarity` where the order tells nothing).
//! **Does not own** the measuring: who runs pipelines reports here.
//!
//! **Invariants**: at most `capacity` pipelines, and the order of a few times as many; what a plan is known for is
//! forgotten with the last of these runs.
//!
//! Paper: HPCache §4.3: the last L-1 pipelines and the current one are taken to come again; P is estimated while a
//! pipeline runs, from the time that it works on pages that are in memory. Deviations: a pipeline that has run before
//! starts with what it was known for; equal pipelines are merged; storage is corrected by what is seen, and what reading
//! costs is learned together with P, which the paper takes to be the same whatever is read; a pipeline counts with the
//! pages that it asks for, which are fewer than those of its columns where no row that is left needs them.
//!
//! Pure; a report is O(1), a run that begins a look at each that is remembered, the merged view O(L log L).

mod device_rate;
mod familiarity;
mod pace;
mod plan_history;
mod reading_cost;
mod succession;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

pub use device_rate::{DeviceRate, SHORTEST_REPORT_NS};
use familiarity::{Familiarity, SHORTLY_BEFORE};
pub use pace::Pace;
use plan_history::PlanHistory;
pub use reading_cost::Ran;
use reading_cost::ReadingCost;
use succession::Succession;

use super::ListKey;
use super::lending::Outlook;
use super::model::{Pipeline, Rates, Shares, expected_s};

/// How many pipelines are remembered unless told otherwise. A few minutes of dashboards, and few enough to be solved
/// for in milliseconds.
pub const DEFAULT_CAPACITY: usize = 64;

/// Bytes and paces that differ by less than this are merged: less than they vary from run to run.
const MERGED_RATIO: f64 = 1.05;

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
    /// P as it looks while it runs; else that of its plan counts.
    estimated_bytes_per_s: Option<f64>,
}

impl Run {
    /// It keeps its place, since runs are named by theirs, and reads nothing.
    fn clear(&mut self) {
        self.offered.clear();
        self.columns.clear();
    }
}

#[derive(Clone, Debug, Default)]
struct Known {
    history: PlanHistory,
    /// What its last run could ask for.
    offered: Vec<(ListKey, u64)>,
    remembered_runs: usize,
}

/// The last pipelines, the newest of which may still be running.
#[derive(Clone, Debug)]
pub struct PipelineWindow {
    capacity: usize,
    runs: VecDeque<Run>,
    /// Of the oldest run.
    first: u64,
    known: HashMap<u64, Known>,
    /// Of more runs than there are in the window.
    succession: Succession,
    familiarity: Familiarity,
    reading: ReadingCost,
}

impl Default for PipelineWindow {
    fn default() -> Self {
        Self::new(DEFAULT_CAPACITY)
    }
}

/// The order of so many times the window's runs is remembered, and what their plans are known for.
const REMEMBERED_WINDOWS: usize = 8;

/// What a byte from storage is taken to cost two threads until runs say better: its checksum.
const GUESSED_READING_S_PER_BYTE: f64 = 0.05e-9;

impl PipelineWindow {
    /// Of so many pipelines, and one at least.
    pub fn new(capacity: usize) -> Self {
        let reading = ReadingCost::new(GUESSED_READING_S_PER_BYTE);
        Self {
            capacity: capacity.max(1),
            runs: VecDeque::new(),
            first: 0,
            known: HashMap::new(),
            succession: Succession::default(),
            familiarity: Familiarity::default(),
            reading,
        }
    }

    /// A pipeline starts that may ask for these bytes of these lists, each named once. Pipelines of the same plan,
    /// whatever the constants in it, have the same `signature`. The oldest run leaves if there are too many.
    pub fn start(&mut self, signature: u64, offered: Vec<(ListKey, u64)>) -> RunId {
        while self.runs.len() >= self.capacity {
            self.runs.pop_front();
            self.first += 1;
        }
        while self.succession.len() >= REMEMBERED_WINDOWS * self.capacity
            && let Some(oldest) = self.succession.pop_oldest()
        {
            self.forget_run(oldest);
        }
        self.succession.push(signature);
        self.familiarity.push(&offered);
        let columns = self.expected(signature, &offered);
        let known = self.known.entry(signature).or_default();
        known.remembered_runs += 1;
        known.offered.clone_from(&offered);
        self.runs.push_back(Run { signature, offered, columns, estimated_bytes_per_s: None });
        RunId(self.first + self.runs.len() as u64 - 1)
    }

    fn forget_run(&mut self, signature: u64) {
        if let Some(known) = self.known.get_mut(&signature) {
            known.remembered_runs -= 1;
            if known.remembered_runs == 0 {
                self.known.remove(&signature);
            }
        }
    }

    /// What the run that began last asks for.
    pub fn last_columns(&self) -> &[(ListKey, u64)] {
        self.runs.back().map_or(&[], |run| &run.columns)
    }

    /// The run that began last and those likely to follow it: what followed its plan before. If that has not run before,
    /// the last large one is taken to come again, as often as columns that were asked for shortly before are.
    pub fn outlook(&self, rates: Rates) -> Outlook {
        let Some(last) = self.runs.back() else { return Outlook::default() };
        let pipeline = |signature: u64| {
            let offered = self.known.get(&signature).map_or(&[][..], |known| &known.offered);
            Pipeline {
                columns: self.expected(signature, offered),
                throughput_bytes_per_s: self.known_throughput(signature, rates).unwrap_or(f64::INFINITY),
                weight: 1.0,
            }
        };
        if self.succession.next().next().is_none() {
            let largest = self.last_large().unwrap_or(last);
            let times_again = self.familiarity.times_again();
            let count = times_again.ceil();
            let runs = std::iter::repeat_n(largest.signature, 1 + count as usize).map(pipeline).collect();
            return Outlook { runs, confidence: times_again / count.max(1.0) };
        }
        let runs = std::iter::once(last.signature).chain(self.succession.next()).map(pipeline).collect();
        Outlook { runs, confidence: self.succession.confidence() }
    }

    /// The last run that may ask for half as much as the largest of the last ones does: a query's small pipelines, for
    /// its dimensions, run before and beside the one that reads its facts.
    fn last_large(&self) -> Option<&Run> {
        let bytes = |run: &Run| run.columns.iter().map(|(_, bytes)| bytes).sum::<u64>();
        let shortly_before = || self.runs.iter().rev().take(SHORTLY_BEFORE);
        let most_bytes = shortly_before().map(bytes).max()?;
        shortly_before().find(|run| bytes(run) >= most_bytes / 2)
    }

    fn history(&self, signature: u64) -> Option<&PlanHistory> {
        self.known.get(&signature).map(|known| &known.history)
    }

    /// What a pipeline of this plan is taken to ask for of what it may: all as long as none is known.
    pub fn expected(&self, signature: u64, offered: &[(ListKey, u64)]) -> Vec<(ListKey, u64)> {
        let history = self.history(signature);
        let asked = |(list, bytes): &(ListKey, u64)| {
            (*list, history.map_or(*bytes, |history| history.asked_bytes(*list, *bytes)))
        };
        offered.iter().map(asked).collect()
    }

    /// c: what a byte that comes from storage costs beside the time of the device, which is `storage_bytes_per_s` fast.
    pub fn reading_s_per_byte(&self, storage_bytes_per_s: f64) -> f64 {
        self.reading.s_per_byte(storage_bytes_per_s)
    }

    /// What a pipeline of this plan is known for, in bytes per second.
    pub fn known_throughput(&self, signature: u64, rates: Rates) -> Option<f64> {
        Some(self.history(signature)?.work_s_per_byte(rates)?.recip())
    }

    /// Predicted seconds of a pipeline of this plan that works so fast and asks for these bytes, with these shares of
    /// them in memory when it begins: by the model, with what is known of how much of that stays until it is used (its
    /// own reads may take the room of pages that it has not come to) and of how much longer its plan takes.
    pub fn predicted_s(
        &self,
        signature: u64,
        columns: &[(ListKey, u64)],
        held: &Shares,
        throughput_bytes_per_s: f64,
        rates: Rates,
    ) -> f64 {
        let bytes: f64 = columns.iter().map(|(_, bytes)| *bytes as f64).sum();
        let held_bytes: f64 = columns.iter().map(|(list, bytes)| held.of(*list) * *bytes as f64).sum();
        let (kept_part, took_ratio) =
            self.history(signature).map_or((1.0, 1.0), |history| (history.kept_part(), history.took_ratio(rates)));
        took_ratio * expected_s(bytes, bytes - kept_part * held_bytes, throughput_bytes_per_s, rates)
    }

    /// What a running pipeline is estimated to do by now. Nothing happens if it has left the window, or to no estimate.
    pub fn estimate(&mut self, run: RunId, throughput_bytes_per_s: f64) {
        if throughput_bytes_per_s > 0.0
            && let Some(at) = self.place(run)
        {
            self.runs[at].estimated_bytes_per_s = Some(throughput_bytes_per_s);
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
        if let Some((read_part, busy_s_per_byte)) = ran.per_byte() {
            if ran.shows_cost()
                && let Some((mean_read_part, mean_busy)) = known.history.mean_per_byte()
            {
                self.reading.observe(ran.bytes, read_part - mean_read_part, busy_s_per_byte - mean_busy);
            }
            run.estimated_bytes_per_s = None;
            known.history.push(ran);
        }
        if let Some(asked) = asked {
            let asked: HashMap<ListKey, u64> = asked.iter().copied().collect();
            for ((list, offered_bytes), (_, bytes)) in run.offered.iter().zip(&mut run.columns) {
                *bytes = asked.get(list).copied().unwrap_or(0);
                known.history.note_asked(*list, *offered_bytes, *bytes);
            }
        }
    }

    /// A run has ended early, after `done_part` of what it was taken to ask for. It counts with so much of each list; one
    /// that did nothing does not count.
    pub fn give_up(&mut self, run: RunId, done_part: f64) {
        if let Some(at) = self.place(run) {
            let run = &mut self.runs[at];
            run.columns.iter_mut().for_each(|(_, bytes)| *bytes = (*bytes as f64 * done_part).round() as u64);
            if run.columns.iter().all(|(_, bytes)| *bytes == 0) {
                run.clear();
            }
        }
    }

    /// Forgets what was known of these lists, which mean something else from now on: runs that named one will not come
    /// again.
    pub fn forget(&mut self, lists: &BTreeSet<ListKey>) {
        let names = |columns: &[(ListKey, u64)]| columns.iter().any(|(list, _)| lists.contains(list));
        self.runs.iter_mut().filter(|run| names(&run.offered)).for_each(Run::clear);
        for known in self.known.values_mut() {
            if names(&known.offered) {
                known.offered.clear();
            }
            known.history.forget(lists);
        }
        self.familiarity.forget(lists);
    }

    /// The runs of the window, those of the same lists with about as many bytes and about the same pace as one with the
    /// weight of all. In an order that depends on what they are alone.
    pub fn merged(&self, rates: Rates) -> Vec<Pipeline> {
        type Alike = (Vec<(ListKey, i64)>, i64);
        let mut groups: BTreeMap<Alike, (f64, BTreeMap<ListKey, f64>, f64)> = BTreeMap::new();
        for run in self.runs.iter().filter(|run| !run.columns.is_empty()) {
            let mut columns = BTreeMap::new();
            run.columns.iter().for_each(|(list, bytes)| *columns.entry(*list).or_insert(0.0) += *bytes as f64);
            let throughput = run.estimated_bytes_per_s.or_else(|| self.known_throughput(run.signature, rates));
            // A pipeline of which nothing is known yet counts as one that takes no time beside its reads.
            let work_s_per_byte = throughput.map_or(0.0, f64::recip);
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

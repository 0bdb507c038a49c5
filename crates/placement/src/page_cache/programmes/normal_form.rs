//! A workload as numbers of like size.
//!
//! The time of a pipeline is told in parts of the time that storage needs for all its bytes, B/S, and its columns in
//! parts of its bytes. Pipelines on which no share has any effect are left out, equal work or not.

use std::collections::BTreeMap;

use super::{Combination, ListKey, Pipeline, Placement, ProgrammeError, Shares, Workload, list_bytes, workload_s};

#[derive(Debug)]
pub(super) struct NormalPipeline {
    /// Weight times B/S.
    pub(super) weight_s: f64,
    /// Index of the list and part of the bytes.
    pub(super) columns: Vec<(usize, f64)>,
    /// What its own work takes, whatever is in memory.
    pub(super) least: f64,
    /// c·S: what reading all from storage adds to its work.
    pub(super) reading: f64,
    /// S/M; 0 if memory is never slower than the work.
    pub(super) memory: f64,
}

#[derive(Debug)]
pub(super) struct NormalForm {
    pub(super) combination: Combination,
    /// Size in bytes and earlier share of each.
    pub(super) lists: Vec<(ListKey, f64, f64)>,
    pub(super) pipelines: Vec<NormalPipeline>,
}

impl NormalPipeline {
    /// In parts of B/S.
    pub(super) fn time(&self, combination: Combination, shares: &[f64]) -> f64 {
        let eq_1 = |part: f64, in_memory: f64| (part - in_memory).max(in_memory * self.memory);
        let time = match combination {
            Combination::SumOverDevice => {
                let in_memory = self.columns.iter().map(|(list, part)| shares[*list] * part).sum::<f64>();
                eq_1(1.0, in_memory).max(self.least + self.reading * (1.0 - in_memory))
            }
            Combination::MaxOverColumns => {
                self.columns.iter().map(|(list, part)| eq_1(*part, shares[*list] * part)).fold(0.0, f64::max)
            }
        };
        time.max(self.least)
    }

    /// The share above which a column that is this part of its bytes does not make it faster.
    fn enough(&self, combination: Combination, part: f64) -> f64 {
        match combination {
            Combination::SumOverDevice if self.reading > 0.0 => 1.0,
            Combination::SumOverDevice => 1.0 - self.least,
            Combination::MaxOverColumns => 1.0 - self.least / part,
        }
    }
}

impl NormalForm {
    pub(super) fn new(workload: Workload<'_>) -> Result<Self, ProgrammeError> {
        let (storage_bytes_per_s, memory_bytes_per_s) =
            (workload.rates.storage_bytes_per_s, workload.rates.memory_bytes_per_s);
        if !(storage_bytes_per_s > 0.0 && storage_bytes_per_s.is_finite() && memory_bytes_per_s > 0.0) {
            return Err(ProgrammeError::Rates { storage_bytes_per_s, memory_bytes_per_s });
        }
        let reading = match workload.combination {
            Combination::SumOverDevice => storage_bytes_per_s * workload.rates.reading_s_per_byte.max(0.0),
            Combination::MaxOverColumns => 0.0,
        };
        let sizes = list_bytes(workload.pipelines);
        let mut indexes: BTreeMap<ListKey, usize> = BTreeMap::new();
        let mut form = Self { combination: workload.combination, lists: Vec::new(), pipelines: Vec::new() };
        // The solver's rounding follows the order of its rows, and should not follow that of the question.
        let mut pipelines: Vec<&Pipeline> = workload.pipelines.iter().collect();
        pipelines.sort_by(|a, b| {
            let by_columns = a.columns.cmp(&b.columns);
            let by_pace = || a.throughput_bytes_per_s.total_cmp(&b.throughput_bytes_per_s);
            by_columns.then_with(by_pace).then_with(|| a.weight.total_cmp(&b.weight))
        });
        for pipeline in pipelines {
            let by_list = pipeline.bytes_by_list();
            let bytes: f64 = by_list.values().sum();
            let weight_s = pipeline.weight * bytes / storage_bytes_per_s;
            if !(weight_s > 0.0 && weight_s.is_finite()) {
                continue;
            }
            let longest = match workload.combination {
                Combination::SumOverDevice => 1.0,
                Combination::MaxOverColumns => by_list.values().fold(0.0, |most: f64, of| most.max(of / bytes)),
            };
            let work_s_per_byte = pipeline.work_s_per_byte();
            let least = longest * storage_bytes_per_s * work_s_per_byte;
            let memory_bytes_per_s = pipeline.memory_bytes_per_s(workload.rates);
            let memory_is_slower = memory_bytes_per_s * work_s_per_byte < 1.0 && memory_bytes_per_s.is_finite();
            // Work that takes as long as storage hides it, and memory too unless that is slower still.
            if least >= longest && reading == 0.0 && !memory_is_slower {
                continue;
            }
            let memory = if memory_is_slower { storage_bytes_per_s / memory_bytes_per_s } else { 0.0 };
            let mut columns = Vec::with_capacity(by_list.len());
            for (list, of_list) in by_list.into_iter().filter(|(_, of_list)| *of_list > 0.0) {
                let index = *indexes.entry(list).or_insert_with(|| {
                    form.lists.push((list, sizes[&list] as f64, workload.earlier.of(list)));
                    form.lists.len() - 1
                });
                columns.push((index, of_list / bytes));
            }
            form.pipelines.push(NormalPipeline { weight_s, columns, least, reading, memory });
        }
        Ok(form)
    }

    pub(super) fn all_bytes(&self) -> f64 {
        self.lists.iter().map(|(_, size_bytes, _)| size_bytes).sum()
    }

    pub(super) fn size_bytes(&self, shares: &[f64]) -> f64 {
        self.lists.iter().zip(shares).map(|((_, size_bytes, _), share)| size_bytes * share).sum()
    }

    /// Of the pipelines that are not left out.
    pub(super) fn seconds(&self, shares: &[f64]) -> f64 {
        self.pipelines.iter().map(|pipeline| pipeline.weight_s * pipeline.time(self.combination, shares)).sum()
    }

    /// The largest share of each list that one of its pipelines can use; `None` where memory may slow a pipeline down,
    /// so that more is not always as good.
    pub(super) fn enough(&self) -> Option<Vec<f64>> {
        let mut enough = vec![0.0_f64; self.lists.len()];
        for pipeline in &self.pipelines {
            if pipeline.memory > 0.0 {
                return None;
            }
            for (list, part) in &pipeline.columns {
                enough[*list] = enough[*list].max(pipeline.enough(self.combination, *part));
            }
        }
        Some(enough)
    }

    /// Seconds that the first byte saves where it saves most: of one column over one device, else of the longest
    /// columns of one pipeline together.
    pub(super) fn first_byte_s(&self) -> f64 {
        let mut saved_s = vec![0.0; self.lists.len()];
        let mut best = 0.0_f64;
        for pipeline in &self.pipelines {
            let longest = pipeline.columns.iter().fold(0.0, |most: f64, (_, part)| most.max(*part));
            if pipeline.time(self.combination, &vec![0.0; self.lists.len()]) <= pipeline.least {
                continue;
            }
            match self.combination {
                Combination::SumOverDevice => {
                    let is_storage_bound = pipeline.least + pipeline.reading < 1.0;
                    let saved = if is_storage_bound { 1.0 } else { pipeline.reading };
                    pipeline.columns.iter().for_each(|(list, part)| saved_s[*list] += pipeline.weight_s * part * saved);
                }
                Combination::MaxOverColumns => {
                    let longest_columns = pipeline.columns.iter().filter(|(_, part)| *part >= longest);
                    let bytes: f64 = longest_columns.map(|(list, _)| self.lists[*list].1).sum();
                    best = best.max(pipeline.weight_s * longest / bytes);
                }
            }
        }
        let per_byte = self.lists.iter().zip(&saved_s).map(|((_, size_bytes, _), saved_s)| saved_s / size_bytes);
        per_byte.fold(best, f64::max)
    }

    /// Shares of the lists here, and none of the others; missing ones are none.
    pub(super) fn placement(&self, workload: Workload<'_>, shares: &[f64], price: f64) -> Placement {
        let mut all: BTreeMap<ListKey, f64> =
            list_bytes(workload.pipelines).into_keys().map(|list| (list, 0.0)).collect();
        let mut quotas = Vec::new();
        for ((list, size_bytes, _), share) in self.lists.iter().zip(shares) {
            all.insert(*list, *share);
            let quota_bytes = (size_bytes * share) as u64;
            if quota_bytes > 0 {
                quotas.push((*list, quota_bytes));
            }
        }
        quotas.sort_unstable();
        let shares = Shares::new(all);
        let seconds = |shares: &Shares| workload_s(workload.pipelines, workload.rates, shares, workload.combination);
        Placement {
            predicted_s: seconds(&shares),
            without_memory_s: seconds(&Shares::default()),
            shares,
            quotas,
            marginal_benefit_s_per_byte: price,
        }
    }
}

//! How long pipelines take when shares of their columns are in memory.
//!
//! A pipeline reads its columns once, at the pace of the slowest of three: storage for what is not in memory, memory
//! for what is, and its own work (HPCache §4.1, equation 1). How the columns of one pipeline go together is
//! a [`Combination`]:
//!
//! - [`Combination::SumOverDevice`], the default. All columns come over the same device, so the bytes that are left to
//!   read add up, and it does not matter of which column they are: `max(Σ(1-x)B/S, ΣxB/M, B/P)`. With equal shares this
//!   is equation 1.
//! - [`Combination::MaxOverColumns`], equations 2 and 3 as printed. Each column has the time of equation 1 for its own
//!   bytes (§4.1: the pipeline's time is split "across the columns based on their relative sizes"), and the pipeline
//!   takes as long as the longest. With k equal columns this predicts a k-th of equation 1, which the paper measured to
//!   be right, and it undervalues pipelines of many columns by as much. §4.2 speaks of a sum over columns, "valid
//!   because the accredited per-column times already split the execution time", but prints a maximum, for the slowest
//!   column sets the pace. That reason holds for the order of columns' progress, not for the time: a column that is
//!   read while others wait has the whole device. What the maximum gets right is that a pipeline's columns should have
//!   equal shares, if its reads are not balanced between columns. Ours are: whoever reads ahead reads all columns of
//!   the next rows. Kept as a baseline.
//!
//! **Reading costs more than the device's time.** The paper has storage and work overlap for nothing. But bytes that
//! come from storage are copied or checked by processors that the pipeline would use, and whoever works on them now and
//! then waits for them: so [`Combination::SumOverDevice`] takes the work to be `B/P + c·Σ(1-x)B`, with a `c` that is
//! measured ([`Rates::reading_s_per_byte`]). Without it a placement that leaves to storage what storage can just
//! deliver in time looks as good as all in memory, which it is not.
//!
//! **Placing and predicting.** Where storage and work need about the same time each is now and then the slower one, and
//! a pipeline takes longer than either. [`pipeline_s`] has the two straight lines that the programmes need, and
//! [`expected_s`] the curve that lies above them: `(storage^3 + work^3)^(1/3)`, at most 26 % above.
//!
//! Deviations: pipelines read parts of columns (zone maps), so bytes are per pipeline and column; a list counts with
//! the most bytes that any pipeline reads of it, since the rest wants no memory. A share of a list is taken to be a
//! share of every pipeline's reads of it. A P above M is no error: a pipeline may leave most of a page untouched. M bounds
//! those alone of which P is not known.
//!
//! Pure; O(columns of all pipelines).

use std::collections::BTreeMap;

use super::ListKey;

/// What one pipeline reads and how fast it works; several equal ones count by their weight.
#[derive(Clone, Debug, PartialEq)]
pub struct Pipeline {
    /// Bytes that it reads of each list, whether from memory or from storage. A list may be named twice.
    pub columns: Vec<(ListKey, u64)>,
    /// P: its pace with all pages in memory, in bytes of all its columns, by all its threads. Infinite if nothing is
    /// known.
    pub throughput_bytes_per_s: f64,
    /// How often it runs.
    pub weight: f64,
}

/// What the machine brings, all threads together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// S: sequential reads of storage.
    pub storage_bytes_per_s: f64,
    /// M: reads of memory.
    pub memory_bytes_per_s: f64,
    /// What a byte that comes from storage costs a pipeline beside its work, in time of all its threads; 0 as printed.
    pub reading_s_per_byte: f64,
}

/// How the columns of one pipeline go together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Combination {
    /// They share the device: bytes add up.
    #[default]
    SumOverDevice,
    /// Each on its own, the longest counts: as printed.
    MaxOverColumns,
}

/// The share of each list that is in memory, from 0 to 1; 0 for lists that are not named.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shares {
    by_list: BTreeMap<ListKey, f64>,
}

impl Shares {
    /// Of these lists, each cut to what lies between 0 and 1; what is not a number is 0.
    pub fn new(shares: impl IntoIterator<Item = (ListKey, f64)>) -> Self {
        let cut = |(list, share): (ListKey, f64)| (list, if share > 0.0 { share.min(1.0) } else { 0.0 });
        Self { by_list: shares.into_iter().map(cut).collect() }
    }

    /// Of one list.
    pub fn of(&self, list: ListKey) -> f64 {
        self.by_list.get(&list).copied().unwrap_or(0.0)
    }

    /// Of all lists that are named, in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (ListKey, f64)> + '_ {
        self.by_list.iter().map(|(list, share)| (*list, *share))
    }
}

impl Pipeline {
    /// B: of all its columns.
    pub fn size_bytes(&self) -> u64 {
        self.columns.iter().map(|(_, bytes)| bytes).sum()
    }

    /// Bytes of each list once.
    pub(super) fn bytes_by_list(&self) -> BTreeMap<ListKey, f64> {
        let mut by_list = BTreeMap::new();
        for (list, bytes) in &self.columns {
            *by_list.entry(*list).or_insert(0.0) += *bytes as f64;
        }
        by_list
    }

    /// M, or P if that is known to be more: work on encoded pages need not touch all of their bytes.
    pub(super) fn memory_bytes_per_s(&self, rates: Rates) -> f64 {
        let known = self.throughput_bytes_per_s.is_finite();
        if known { rates.memory_bytes_per_s.max(self.throughput_bytes_per_s) } else { rates.memory_bytes_per_s }
    }

    /// 1/P: seconds for each byte; 0 if P is not known.
    pub(super) fn work_s_per_byte(&self) -> f64 {
        if self.throughput_bytes_per_s > 0.0 { self.throughput_bytes_per_s.recip() } else { 0.0 }
    }
}

/// Predicted seconds of one run of a pipeline.
pub fn pipeline_s(pipeline: &Pipeline, rates: Rates, shares: &Shares, combination: Combination) -> f64 {
    let eq_1 = |bytes: f64, in_memory_bytes: f64, reading_s_per_byte: f64| {
        let read_bytes = bytes - in_memory_bytes;
        let storage_s = positive(read_bytes / rates.storage_bytes_per_s);
        let memory_s = positive(in_memory_bytes / pipeline.memory_bytes_per_s(rates));
        let work_s = bytes * pipeline.work_s_per_byte() + read_bytes * reading_s_per_byte;
        storage_s.max(memory_s).max(work_s)
    };
    let columns = pipeline.bytes_by_list();
    match combination {
        Combination::SumOverDevice => {
            let in_memory_bytes: f64 = columns.iter().map(|(list, bytes)| shares.of(*list) * bytes).sum();
            eq_1(columns.values().sum(), in_memory_bytes, rates.reading_s_per_byte)
        }
        Combination::MaxOverColumns => {
            columns.iter().map(|(list, bytes)| eq_1(*bytes, shares.of(*list) * bytes, 0.0)).fold(0.0, f64::max)
        }
    }
}

/// Expected seconds of a pipeline that works on so many bytes, over one device, so many of which it reads: as
/// [`pipeline_s`] where storage or work takes clearly longer than the other, and longer where they are about alike.
pub fn expected_s(bytes: f64, read_bytes: f64, throughput_bytes_per_s: f64, rates: Rates) -> f64 {
    let pipeline = Pipeline { columns: Vec::new(), throughput_bytes_per_s, weight: 1.0 };
    let storage_s = positive(read_bytes / rates.storage_bytes_per_s);
    let memory_s = positive((bytes - read_bytes) / pipeline.memory_bytes_per_s(rates));
    let work_s = bytes * pipeline.work_s_per_byte() + read_bytes * rates.reading_s_per_byte;
    (storage_s.powi(3) + work_s.powi(3)).cbrt().max(memory_s)
}

/// Nothing over nothing is no time.
fn positive(seconds: f64) -> f64 {
    if seconds > 0.0 { seconds } else { 0.0 }
}

/// Predicted seconds of all pipelines one after the other, each as often as its weight says (§4.2).
pub fn workload_s(pipelines: &[Pipeline], rates: Rates, shares: &Shares, combination: Combination) -> f64 {
    pipelines.iter().map(|pipeline| pipeline.weight * pipeline_s(pipeline, rates, shares, combination)).sum()
}

/// The bytes of each list that placements are shares of: the most that any pipeline reads of it.
pub fn list_bytes(pipelines: &[Pipeline]) -> BTreeMap<ListKey, u64> {
    let mut most = BTreeMap::new();
    for pipeline in pipelines {
        let mut by_list = BTreeMap::<ListKey, u64>::new();
        for (list, bytes) in &pipeline.columns {
            *by_list.entry(*list).or_default() += bytes;
        }
        for (list, bytes) in by_list {
            let entry = most.entry(list).or_insert(0);
            *entry = bytes.max(*entry);
        }
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATES: Rates = Rates { storage_bytes_per_s: 10.0, memory_bytes_per_s: 100.0, reading_s_per_byte: 0.0 };

    fn pipeline(bytes: &[u64], throughput_bytes_per_s: f64) -> Pipeline {
        let columns = bytes.iter().zip(0..).map(|(bytes, list)| (ListKey(list), *bytes)).collect();
        Pipeline { columns, throughput_bytes_per_s, weight: 1.0 }
    }

    fn seconds(pipeline: &Pipeline, shares: &[f64], combination: Combination) -> f64 {
        let shares = Shares::new((0..).map(ListKey).zip(shares.iter().copied()));
        pipeline_s(pipeline, RATES, &shares, combination)
    }

    #[test]
    fn one_column_takes_the_longest_of_storage_memory_and_work_in_both_readings() {
        for combination in [Combination::SumOverDevice, Combination::MaxOverColumns] {
            let fast = pipeline(&[1000], f64::INFINITY);
            assert_eq!(seconds(&fast, &[0.0], combination), 100.0);
            assert_eq!(seconds(&fast, &[0.5], combination), 50.0);
            assert_eq!(seconds(&fast, &[1.0], combination), 10.0);
            let slow = pipeline(&[1000], 20.0);
            assert_eq!(seconds(&slow, &[0.2], combination), 80.0);
            assert_eq!(seconds(&slow, &[0.6], combination), 50.0);
        }
    }

    #[test]
    fn equal_columns_take_their_sum_over_one_device_and_a_part_of_it_as_printed() {
        let four = pipeline(&[250; 4], 20.0);
        assert_eq!(seconds(&four, &[0.2; 4], Combination::SumOverDevice), 80.0);
        assert_eq!(seconds(&four, &[0.2; 4], Combination::MaxOverColumns), 20.0);
        // Over one device it does not matter which column is in memory; as printed only the slowest does.
        assert_eq!(seconds(&four, &[0.8, 0.0, 0.0, 0.0], Combination::SumOverDevice), 80.0);
        assert_eq!(seconds(&four, &[0.8, 0.0, 0.0, 0.0], Combination::MaxOverColumns), 25.0);
    }

    #[test]
    fn what_is_read_costs_work_beside_the_device_over_one_device_alone() {
        let rates = Rates { reading_s_per_byte: 0.02, ..RATES };
        let pipeline = pipeline(&[1000], 20.0);
        let seconds =
            |share: f64, combination| pipeline_s(&pipeline, rates, &Shares::new([(ListKey(0), share)]), combination);
        assert_eq!(seconds(0.0, Combination::SumOverDevice), 100.0);
        assert_eq!(seconds(0.6, Combination::SumOverDevice), 58.0);
        assert_eq!(seconds(1.0, Combination::SumOverDevice), 50.0);
        assert_eq!(seconds(0.6, Combination::MaxOverColumns), 50.0);
    }

    #[test]
    fn a_list_named_twice_counts_as_one() {
        let twice = Pipeline { columns: vec![(ListKey(0), 400), (ListKey(0), 600)], ..pipeline(&[], f64::NAN) };
        for combination in [Combination::SumOverDevice, Combination::MaxOverColumns] {
            assert_eq!(seconds(&twice, &[0.5], combination), 50.0);
        }
        assert_eq!(
            list_bytes(&[twice, pipeline(&[700, 3], 1.0)]),
            BTreeMap::from([(ListKey(0), 1000), (ListKey(1), 3)])
        );
    }

    #[test]
    fn nothing_to_read_takes_no_time() {
        for combination in [Combination::SumOverDevice, Combination::MaxOverColumns] {
            assert_eq!(seconds(&pipeline(&[], 1.0), &[], combination), 0.0);
            assert_eq!(seconds(&pipeline(&[0, 0], 0.0), &[0.5, f64::NAN], combination), 0.0);
        }
    }
}

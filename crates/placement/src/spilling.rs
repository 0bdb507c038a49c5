//! How much memory operators that can spill leave to those that cannot.
//!
//! An operator that spills keeps what it is given until it finds no more memory. Whoever comes then and cannot spill finds
//! none either, and the query ends: a merge of what was spilled, the table of a join, a pipeline whose rows are sorted.

/// What an operator that can spill would hold, and who else holds some, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Growth {
    /// The limit of all memory.
    pub limit_bytes: u64,
    /// What queries hold in operators that cannot spill, and beside them.
    pub others_bytes: u64,
    /// What all operators that can spill would hold.
    pub spillable_bytes: u64,
    /// What this one of them would hold.
    pub own_bytes: u64,
    /// Whether it holds nothing yet.
    pub is_first: bool,
}

/// How many bytes are to be free after a growth; it is refused otherwise, and the operator spills.
pub fn left_bytes(growth: Growth) -> u64 {
    let Growth { limit_bytes, others_bytes, spillable_bytes, own_bytes, is_first } = growth;
    // A sort that writes what it holds takes up to half as much beside it, for the keys of its rows; and caches do not give
    // up the pages that are being read.
    let left_bytes = limit_bytes / 5 * 2;
    // Caches are not asked for room that is far from being needed.
    let is_far = spillable_bytes <= limit_bytes.saturating_sub(others_bytes) / 2;
    // Who has hardly anything has next to nothing to spill: it would fail, or write very short runs. Some of them together,
    // the sorts and exchanges of a query, leave enough to whoever has as much as it may.
    let is_small = own_bytes <= limit_bytes / 16 || is_first;
    if is_far || is_small { 0 } else { left_bytes }
}

/// What a sort reserves at least to merge what it has spilled.
const LEAST_MERGE_BYTES: u64 = 64 << 10;
/// How much memory each partition has for each row of its batches: DataFusion's 8,192 are those of 128 MiB.
const SHARE_BYTES_PER_BATCH_ROW: u64 = 16 << 10;
/// Rows of a batch, however little memory there is: fewer cost more than they spare.
const LEAST_BATCH_ROWS: u64 = 512;

/// What each partition of a sort reserves at most, before it has a row, to merge what it has spilled.
pub fn most_merge_bytes(limit_bytes: u64, partition_count: u64) -> u64 {
    (limit_bytes / partition_count.max(1) / 16).max(LEAST_MERGE_BYTES)
}

/// How many rows a batch has at most. A sort merges as many batches at once as it has spilled runs, and each takes about
/// six times what it holds.
pub fn most_batch_rows(limit_bytes: u64, partition_count: u64) -> u64 {
    (limit_bytes / partition_count.max(1) / SHARE_BYTES_PER_BATCH_ROW).max(LEAST_BATCH_ROWS)
}

/// How many sorted runs are merged at once at most. Each takes memory that cannot be written out, and a merge that took
/// all there is would leave none for the sort beside it.
pub const MOST_MERGED_RUNS: usize = 32;

/// Bytes that a hash join's table has for a row beside the row.
const TABLE_ROW_BYTES: u64 = 24;

/// What the table of a hash join takes whose rows take so much.
pub fn table_bytes(row_count: u64, rows_bytes: u64) -> u64 {
    rows_bytes.saturating_add(row_count.saturating_mul(TABLE_ROW_BYTES))
}

/// Whether something that cannot spill is expected to take so much that what can should be taken in its place. What is
/// expected is often wrong by a half, and others need memory too.
pub fn is_beyond_memory(bytes: u64, limit_bytes: u64) -> bool {
    bytes > limit_bytes / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_fifths_are_left_once_half_is_taken_but_for_who_has_little_or_nothing() {
        let left = |others_bytes, spillable_bytes, own_bytes| {
            left_bytes(Growth { limit_bytes: 1200, others_bytes, spillable_bytes, own_bytes, is_first: false })
        };
        assert_eq!([left(0, 600, 600), left(0, 601, 601), left(0, 601, 75), left(0, 601, 76)], [0, 480, 0, 480]);
        assert_eq!([left(400, 400, 400), left(400, 401, 400), left(2000, 76, 76)], [0, 480, 480]);
        let first =
            Growth { limit_bytes: 1200, others_bytes: 0, spillable_bytes: 1000, own_bytes: 400, is_first: true };
        assert_eq!(left_bytes(first), 0);
    }

    #[test]
    fn of_little_memory_sorts_reserve_little_and_batches_are_small() {
        assert_eq!([most_merge_bytes(64 << 20, 2), most_merge_bytes(1 << 20, 4)], [2 << 20, LEAST_MERGE_BYTES]);
        assert_eq!([most_batch_rows(256 << 20, 2), most_batch_rows(64 << 20, 2)], [8192, 2048]);
        assert_eq!([most_batch_rows(0, 0), most_merge_bytes(0, 0)], [LEAST_BATCH_ROWS, LEAST_MERGE_BYTES]);
    }

    #[test]
    fn what_takes_more_than_half_of_the_memory_is_beyond_it() {
        assert_eq!(table_bytes(1_000, 8_000), 32_000);
        assert_eq!(table_bytes(u64::MAX, 8), u64::MAX);
        assert!(!is_beyond_memory(50, 100) && is_beyond_memory(51, 100));
    }
}

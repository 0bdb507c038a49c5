//! Which columns of an item go first: the parts that it can be evicted in.
//!
//! An item of all rows of a file need not go as a whole: without some of its columns it still answers the queries that
//! don't need them, and who needs one parses that one again. But columns are not worth a sum: a query needs all of its
//! own at once, so that once one of them is gone the others serve it no more. So the worth of a set of columns is the
//! number of queries, of those that were asked lately, that need nothing else.
//!
//! The parts, a column each, are found greedily: the one whose loss costs the fewest answers for each byte that it frees
//! goes first, then the next of what is left. What is left may then be of no use: only queries that needed the first one
//! too needed it. It must not go before that one all the same, so no part is said to cost fewer answers for a byte than
//! those before it. That makes taking several dearer than it is, and leaves items whole rather than in ruins.
//!
//! Owns that order; not which items can be divided, nor what an answer is worth (the policy says so, of each part as of
//! an item), nor for how long queries are remembered. Pure.
//!
//! Paper: beyond ReCache, which evicts items as a whole.

use std::cmp::Ordering;

/// Columns of one source by number, as bits.
pub type ColumnBits = u64;

/// Sources of more columns than bits are not divided.
pub const MAX_COLUMNS: u32 = ColumnBits::BITS;

/// A column that can go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnSize {
    /// Its number.
    pub number: u32,
    /// What evicting it frees.
    pub size_bytes: u64,
}

/// A column that goes, if those before it do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ItemPart {
    /// Which, by number.
    pub number: u32,
    /// What evicting it frees.
    pub size_bytes: u64,
    /// Of the queries that were asked lately, how many the item then no longer answers; said to be more where parts
    /// before it cost more for a byte.
    pub lost_count: f64,
}

/// The parts of an item of the columns `kept`, of which those `removable` can go, in the order in which they should.
/// `queries` are the columns that queries needed lately, one entry each.
pub fn parts(queries: &[ColumnBits], kept: ColumnBits, removable: &[ColumnSize]) -> Vec<ItemPart> {
    let mut answered: Vec<ColumnBits> = queries.iter().copied().filter(|query| query & !kept == 0).collect();
    let mut left: Vec<ColumnSize> = removable.to_vec();
    let mut parts: Vec<ItemPart> = Vec::with_capacity(left.len());
    let mut density = 0.0_f64;
    while !left.is_empty() {
        let lost_by = |column: &ColumnSize| answered.iter().filter(|query| *query & bit(column.number) != 0).count();
        let candidates = left.iter().enumerate().map(|(at, column)| (at, lost_by(column), *column));
        let Some((at, lost_count, column)) = candidates.min_by(eviction_order) else { break };
        left.remove(at);
        answered.retain(|query| query & bit(column.number) == 0);
        let bytes = column.size_bytes.max(1) as f64;
        density = density.max(lost_count as f64 / bytes);
        parts.push(ItemPart { number: column.number, size_bytes: column.size_bytes, lost_count: density * bytes });
    }
    parts
}

/// A column as bits.
pub fn bit(number: u32) -> ColumnBits {
    1 << number
}

/// By answers lost for a byte; of equal ones the larger, then the one with the lower number.
fn eviction_order(one: &(usize, usize, ColumnSize), other: &(usize, usize, ColumnSize)) -> Ordering {
    let cross = |lost: usize, column: &ColumnSize| lost as u128 * u128::from(column.size_bytes);
    let ((_, lost, column), (_, other_lost, other)) = (one, other);
    let by_density = cross(*lost, other).cmp(&cross(*other_lost, column));
    by_density.then(other.size_bytes.cmp(&column.size_bytes)).then(column.number.cmp(&other.number))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use thermocline_seeded::Random;

    use super::*;

    fn column(number: u32, size_bytes: u64) -> ColumnSize {
        ColumnSize { number, size_bytes }
    }

    fn answered(queries: &[ColumnBits], kept: ColumnBits) -> usize {
        queries.iter().filter(|query| *query & !kept == 0).count()
    }

    fn numbers(parts: &[ItemPart]) -> Vec<u32> {
        parts.iter().map(|part| part.number).collect()
    }

    #[test]
    fn what_nobody_asks_for_goes_first_and_what_all_need_last() {
        let queries = [0b0011, 0b0011, 0b0101];
        let columns = [column(0, 10), column(1, 10), column(2, 10), column(3, 10)];
        let parts = parts(&queries, 0b1111, &columns);
        assert_eq!(numbers(&parts), [3, 2, 0, 1]);
        // Without column 0 nobody needs column 1.
        let lost: Vec<f64> = parts.iter().map(|part| part.lost_count).collect();
        assert_eq!(lost, [0.0, 1.0, 2.0, 2.0]);
    }

    #[test]
    fn a_large_column_goes_before_a_small_one_of_as_many_uses() {
        let parts = parts(&[0b01, 0b10], 0b11, &[column(0, 10), column(1, 80)]);
        assert_eq!(parts[0], ItemPart { number: 1, size_bytes: 80, lost_count: 1.0 });
        assert_eq!(parts[1], ItemPart { number: 0, size_bytes: 10, lost_count: 1.0 });
    }

    #[test]
    fn columns_that_may_not_go_stay_and_their_queries_with_them() {
        let parts = parts(&[0b01, 0b11], 0b11, &[column(1, 10)]);
        assert_eq!(parts, [ItemPart { number: 1, size_bytes: 10, lost_count: 1.0 }]);
    }

    #[test]
    fn queries_of_columns_that_are_not_there_count_for_nothing() {
        assert_eq!(parts(&[0b011, 0b101, 0b100], 0b011, &[column(0, 1), column(1, 1)])[0].lost_count, 1.0);
    }

    #[test]
    fn random_parts_are_all_columns_once_in_ascending_order_and_lose_no_more_than_they_say() {
        for seed in 0..500 {
            let mut random = Random::new(seed);
            let count = 1 + random.below_u64(10) as u32;
            let columns: Vec<ColumnSize> = (0..count).map(|number| column(number, 1 + random.below_u64(50))).collect();
            let mut left = (1 << count) - 1;
            let queries: Vec<ColumnBits> = (0..random.below_u64(40)).map(|_| random.below_u64(1 << count)).collect();
            let parts = parts(&queries, left, &columns);
            let mut before_density = 0.0;
            for part in &parts {
                assert_eq!(left & bit(part.number), bit(part.number), "seed {seed}: a column twice");
                assert_eq!(columns[part.number as usize].size_bytes, part.size_bytes, "seed {seed}");
                let before = answered(&queries, left);
                left &= !bit(part.number);
                assert!((before - answered(&queries, left)) as f64 <= part.lost_count + 1e-9, "seed {seed}");
                let density = part.lost_count / part.size_bytes as f64;
                assert!(density >= before_density - 1e-12, "seed {seed}: {parts:?}");
                before_density = density;
            }
            assert_eq!(left, 0, "seed {seed}");
        }
    }
}

//! Which columns of an item go first: the parts that it can be evicted in.
//!
//! An item of all rows of a file need not go as a whole: without some of its columns it still answers the queries that
//! don't need them, and who needs one parses that one again. But columns are not worth a sum: a query needs all of its
//! own at once, so that once one of them is gone the others serve it no more. So the worth of a set of columns is the
//! number of queries, of those that were asked lately, that need nothing else.
//!
//! The parts are found greedily: the column whose loss costs the fewest answers for each byte that it frees goes first,
//! then the next of what is left. Where that would take a dear part before a cheap one (the columns that only queries of
//! the dear one need), both are one part. So parts are in ascending order of answers lost for a byte, and evicting any
//! number of them in that order is what the greedy choice would do.
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

/// Columns that go together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ItemPart {
    /// Which.
    pub columns: ColumnBits,
    /// What evicting them frees.
    pub size_bytes: u64,
    /// Queries that the item answers as long as they and the parts behind them are there.
    pub lost_count: usize,
}

/// The parts of an item of the columns `kept`, of which those `removable` can go, in the order in which they should.
/// `queries` are the columns that queries needed lately, one entry each.
pub fn parts(queries: &[ColumnBits], kept: ColumnBits, removable: &[ColumnSize]) -> Vec<ItemPart> {
    let mut answered: Vec<ColumnBits> = queries.iter().copied().filter(|query| query & !kept == 0).collect();
    let mut left: Vec<ColumnSize> = removable.to_vec();
    let mut parts: Vec<ItemPart> = Vec::new();
    while !left.is_empty() {
        let lost_by = |column: &ColumnSize| answered.iter().filter(|query| *query & bit(column) != 0).count();
        let candidates = left.iter().enumerate().map(|(at, column)| (at, part(column, lost_by(column))));
        let Some((at, next)) = candidates.min_by(|(_, one), (_, other)| eviction_order(one, other)) else { break };
        left.remove(at);
        answered.retain(|query| query & next.columns == 0);
        parts.push(next);
        while let [.., before, last] = parts.as_slice()
            && density_order(before, last) == Ordering::Greater
        {
            let joined = joined(before, last);
            parts.truncate(parts.len() - 2);
            parts.push(joined);
        }
    }
    parts
}

/// How many of `queries` an item of the columns `kept` answers only if it has those in `added` too.
pub fn gained_count(queries: &[ColumnBits], kept: ColumnBits, added: ColumnBits) -> usize {
    queries.iter().filter(|query| *query & !(kept | added) == 0 && *query & added & !kept != 0).count()
}

fn bit(column: &ColumnSize) -> ColumnBits {
    1 << column.number
}

fn part(column: &ColumnSize, lost_count: usize) -> ItemPart {
    ItemPart { columns: bit(column), size_bytes: column.size_bytes, lost_count }
}

fn joined(one: &ItemPart, other: &ItemPart) -> ItemPart {
    ItemPart {
        columns: one.columns | other.columns,
        size_bytes: one.size_bytes + other.size_bytes,
        lost_count: one.lost_count + other.lost_count,
    }
}

/// By answers lost for a byte.
fn density_order(one: &ItemPart, other: &ItemPart) -> Ordering {
    let cross = |lost: &ItemPart, bytes: &ItemPart| lost.lost_count as u128 * u128::from(bytes.size_bytes);
    cross(one, other).cmp(&cross(other, one))
}

/// The same; of equal ones the larger, then the one with the lower number.
fn eviction_order(one: &ItemPart, other: &ItemPart) -> Ordering {
    density_order(one, other).then(other.size_bytes.cmp(&one.size_bytes)).then(one.columns.cmp(&other.columns))
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

    #[test]
    fn what_nobody_asks_for_goes_first_and_what_all_need_last() {
        let queries = [0b0011, 0b0011, 0b0101];
        let columns = [column(0, 10), column(1, 10), column(2, 10), column(3, 10)];
        let parts = parts(&queries, 0b1111, &columns);
        let found: Vec<(ColumnBits, usize)> = parts.iter().map(|part| (part.columns, part.lost_count)).collect();
        // Without column 1 nobody needs column 0: they go together.
        assert_eq!(found, [(0b1000, 0), (0b0100, 1), (0b0011, 2)]);
    }

    #[test]
    fn a_large_column_goes_before_a_small_one_of_as_many_uses() {
        let parts = parts(&[0b01, 0b10], 0b11, &[column(0, 10), column(1, 80)]);
        assert_eq!(parts[0], ItemPart { columns: 0b10, size_bytes: 80, lost_count: 1 });
        assert_eq!(parts[1], ItemPart { columns: 0b01, size_bytes: 10, lost_count: 1 });
    }

    #[test]
    fn columns_that_may_not_go_stay_and_their_queries_with_them() {
        let parts = parts(&[0b01, 0b11], 0b11, &[column(1, 10)]);
        assert_eq!(parts, [ItemPart { columns: 0b10, size_bytes: 10, lost_count: 1 }]);
    }

    #[test]
    fn queries_of_columns_that_are_not_there_count_for_nothing_until_they_are() {
        let queries = [0b011, 0b101, 0b100];
        assert_eq!(parts(&queries, 0b011, &[column(0, 1), column(1, 1)])[0].lost_count, 1);
        assert_eq!(gained_count(&queries, 0b011, 0b100), 2);
        assert_eq!(gained_count(&queries, 0b010, 0b100), 1);
        assert_eq!(gained_count(&queries, 0b111, 0b100), 0);
    }

    #[test]
    fn random_parts_are_all_columns_once_in_ascending_order_and_lose_what_they_say() {
        for seed in 0..500 {
            let mut random = Random::new(seed);
            let count = 1 + random.below_u64(10) as u32;
            let columns: Vec<ColumnSize> = (0..count).map(|number| column(number, 1 + random.below_u64(50))).collect();
            let kept = (1 << count) - 1;
            let queries: Vec<ColumnBits> = (0..random.below_u64(40)).map(|_| random.below_u64(1 << count)).collect();
            let parts = parts(&queries, kept, &columns);
            let mut left = kept;
            for part in &parts {
                assert_eq!(left & part.columns, part.columns, "seed {seed}: a column twice");
                let sizes = columns.iter().filter(|column| part.columns & bit(column) != 0);
                assert_eq!(sizes.map(|column| column.size_bytes).sum::<u64>(), part.size_bytes, "seed {seed}");
                let before = answered(&queries, left);
                left &= !part.columns;
                assert_eq!(before - answered(&queries, left), part.lost_count, "seed {seed}");
            }
            assert_eq!(left, 0, "seed {seed}");
            let is_ascending = |pair: &[ItemPart]| density_order(&pair[0], &pair[1]) != Ordering::Greater;
            assert!(parts.windows(2).all(is_ascending), "seed {seed}: {parts:?}");
        }
    }
}

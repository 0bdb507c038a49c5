//! Whether part of a plan should run as fused pipelines, and in which order they probe, where every way is right.
//!
//! **Owns**: what pipelines are bad at, in numbers. **Does not own**: what they can express at all, plans, statistics.
//!
//! The bounds are measured (TPC-H at scale factor 1): customers that carry 150,000 names took four times as long to
//! build as all else of its Q10; groups of a million and more outgrow the caches of threads that each have a table of
//! their own, and took twice as long as with rows parted by hash first (Q18, Q20); customers joined by their nation
//! took a hundred times as long as by their orders (Q5).

/// So many texts are told apart in no time.
const FEW_TEXTS: u64 = 10_000;
/// Pages of texts that take more bytes for each row have more than codes of a small dictionary.
const CODE_BYTES: u64 = 3;
/// Most groups of one table's rows.
const MOST_GROUPS: u64 = 1 << 20;
/// Most of them where nobody knew how many there would be: to have come so far in vain takes some milliseconds.
const MOST_UNFORESEEN_GROUPS: u64 = 1 << 16;
/// How far a join may multiply rows, for certain and on average.
const MOST_ROWS_PER_KEY: f64 = 4.0;

/// How many rows a table with `row_count` rows has for each of its keys, of which it has `most_keys` different ones at
/// most: at least so many on average, and never less than one. Tables with fewer are joined first.
pub fn rows_per_key(row_count: u64, most_keys: u64) -> f64 {
    (row_count as f64 / most_keys.max(1) as f64).max(1.0)
}

/// Whether a join with such a table multiplies rows further than pipelines should.
pub fn multiplies_too_far(rows_per_key: f64) -> bool {
    rows_per_key > MOST_ROWS_PER_KEY
}

/// Whether a column of texts, whose pages take `size_bytes`, has too many different ones to be carried along or grouped
/// by.
pub fn has_many_texts(row_count: u64, size_bytes: u64) -> bool {
    row_count > FEW_TEXTS && size_bytes > row_count.saturating_mul(CODE_BYTES)
}

/// Whether there may be too many groups, of which there are at most so many by what is known of columns. Where joins drop
/// rows there are fewer than the columns allow.
pub fn has_many_groups(table_count: usize, most_groups: u64) -> bool {
    table_count == 1 && most_groups > MOST_GROUPS
}

/// At how many groups of one thread pipelines give up, if at all: where there may be as many as `most_groups`, and nothing is known of
/// some of the columns that they are made by.
pub fn group_limit(table_count: usize, most_groups: u64) -> Option<u64> {
    has_many_groups(table_count, most_groups).then_some(MOST_UNFORESEEN_GROUPS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_limited_where_there_may_be_too_many_of_one_table() {
        assert!(!has_many_groups(1, 1 << 20) && group_limit(1, 1 << 20).is_none());
        assert!(has_many_groups(1, 6_000_000) && group_limit(1, 6_000_000) == Some(1 << 16));
        // Joins drop rows.
        assert!(!has_many_groups(3, 6_000_000) && group_limit(3, 6_000_000).is_none());
    }

    #[test]
    fn joins_by_keys_that_can_be_unique_come_first_and_others_are_bounded() {
        // TPC-H's customers by their key and by their nation.
        let (by_key, by_nation) = (rows_per_key(150_000, 150_000), rows_per_key(150_000, 26));
        assert!(by_key < by_nation);
        assert!(!multiplies_too_far(by_key) && multiplies_too_far(by_nation));
        // Fewer rows than keys could be, and a table without rows.
        assert_eq!((rows_per_key(10, 1000), rows_per_key(0, 0)), (1.0, 1.0));
        assert!(!multiplies_too_far(rows_per_key(60, 40)));
    }

    #[test]
    fn names_are_many_texts_and_flags_are_not() {
        assert!(has_many_texts(150_000, 150_000 * 9));
        assert!(!has_many_texts(150_000, 150_000 / 4));
        assert!(!has_many_texts(25, 25 * 400));
    }

    #[test]
    fn groups_are_bounded_where_no_join_drops_rows() {
        assert!(has_many_groups(1, 6_000_000));
        assert!(!has_many_groups(3, 6_000_000) && !has_many_groups(1, 200_000));
    }
}

//! Whether part of a plan should run as fused pipelines, and in which order they probe, where every way is right.
//!
//! **Owns**: what pipelines are bad at, in numbers. **Does not own**: what they can express at all, plans, statistics.
//!
//! The bounds are measured (TPC-H at scale factor 1): groups of a million and more outgrow the caches of threads that
//! each have a table of their own, and took twice as long as with rows parted first (Q18, Q20); customers joined by their
//! nation took a hundred times as long as by their orders (Q5).

/// So many texts are told apart in no time.
const FEW_TEXTS: u64 = 10_000;
/// To tell so many apart takes less time than a pipeline does to begin.
const VERY_FEW_TEXTS: u64 = 1_000;
/// Pages of texts that take more bytes for each row have more than codes of a small dictionary.
const CODE_BYTES: u64 = 3;
/// Most groups of one table's rows, kept together.
const MOST_GROUPS: u64 = 1 << 20;
/// Groups that a thread's second-level cache holds, with a sum each.
const CACHED_GROUPS: u64 = 1 << 15;
/// Most of them where nobody knew how many there would be: to have come so far in vain takes some milliseconds.
const MOST_UNFORESEEN_GROUPS: u64 = 1 << 16;
/// Letters of which a column's texts mostly begin with some hundreds of different ones: codes of countries, years.
const FEW_LETTERS: i64 = 4;
/// Rows that are aggregated for each that is read once more.
const ROWS_PER_SIEVED_ROW: u64 = 8;
/// Rows whose texts are told apart in less time than operators take for the joins around them: measured up to 100,000 of
/// four columns, half of what operators take, and it is not for the memory that more would need.
const MOST_TEXT_ROWS: u64 = 1 << 20;
/// Rows that are read for their keys in the time in which a text is told apart.
const ROWS_PER_TEXT: u64 = 16;
/// Parts of row groups for each thread, so that none waits long for the last one.
const PARTS_A_THREAD: usize = 4;
/// Mini-blocks of a part at least: some tens of microseconds, which a thread takes to start.
const LEAST_MINI_BLOCKS: usize = 32;
/// Rows of a join that are held back at first: as long as nobody has seen one, operators can take over.
const MOST_HELD_BYTES: u64 = 16 << 20;
/// The part of all memory that they take at most: whoever is given them needs some, and the pipeline for its other rows.
const HELD_PART: u64 = 4;
/// Rows that a thread gives out at a time, as it keeps them: some tens of thousands of few columns.
const GIVEN_BYTES: u64 = 1 << 20;
/// The part of a thread's share of all memory that they take at most. They may be there three times: as they are kept,
/// as they are given out, and for whoever takes them.
const GIVEN_PART: u64 = 32;
/// And at least, so that threads do not wait for each other all the time.
const LEAST_GIVEN_BYTES: u64 = 64 << 10;
/// As few rows as these need not be collected.
const FEW_ROWS: usize = 1 << 13;
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

/// What an aggregate over one raw file, to which nothing is joined, is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OneFile {
    /// Whether it makes groups.
    pub makes_groups: bool,
    /// Whether it aggregates what is computed of floats.
    pub computes_floats: bool,
    /// Whether other queries run at the same time.
    pub is_beside_others: bool,
}

/// Why such an aggregate is left to operators, if it is: where they take no longer, or less.
///
/// Groups by texts that are spelt out gain nothing, and how many there will be is not known. Of floats that are kept in
/// narrow forms operators widen those of the rows that pass, with a third of 6 million passing in an eighth less time. A
/// run has threads of its own beside those that other queries share: 32 sessions got a quarter to a third less done.
pub fn left_to_operators(one_file: OneFile) -> Option<&'static str> {
    match one_file {
        OneFile { makes_groups: true, .. } => Some("groups of raw files, to which nothing is joined"),
        OneFile { computes_floats: true, .. } => Some("floats computed of raw files, to which nothing is joined"),
        OneFile { is_beside_others: true, .. } => Some("other queries run, and nothing is joined to the raw files"),
        OneFile { .. } => None,
    }
}

/// Whether a column of texts, whose pages take `size_bytes`, has too many different ones for the rows that are scanned to
/// be grouped by them or given out with them.
pub fn has_many_texts(row_count: u64, size_bytes: u64) -> bool {
    row_count > FEW_TEXTS && are_mostly_different(row_count, size_bytes)
}

/// Whether most rows of such a column have texts of their own.
pub fn are_mostly_different(row_count: u64, size_bytes: u64) -> bool {
    size_bytes > row_count.saturating_mul(CODE_BYTES)
}

/// Whether so many letters of texts (all but as many, if it is negative) are few different ones.
pub fn makes_few_texts(letter_count: i64) -> bool {
    (0..=FEW_LETTERS).contains(&letter_count)
}

/// How a pipeline keeps groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupWay {
    /// Each thread adds rows up as they come.
    Together,
    /// The same, until a thread has more groups: then operators are to take over.
    AtMost(u64),
    /// Rows are parted by their groups first.
    Parted,
}

/// What is known of an aggregate's groups before it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupFacts {
    /// Tables whose rows are joined. Where joins drop rows there are fewer groups than columns allow.
    pub table_count: usize,
    /// How many groups there are at most.
    pub most_groups: u64,
    /// How many the columns allow of whose values something is known.
    pub most_known_groups: u64,
    /// Whether that are all columns that groups are made by.
    pub are_known: bool,
    /// Whether what is kept of a group are numbers.
    pub are_numbers: bool,
}

/// How an aggregate's groups should be kept; `None` if operators do better.
pub fn group_way(facts: GroupFacts) -> Option<GroupWay> {
    let GroupFacts { table_count, most_groups, most_known_groups, are_known, are_numbers } = facts;
    let most_groups = most_groups.min(if are_known { most_known_groups } else { u64::MAX });
    if table_count > 1 {
        return Some(GroupWay::Together);
    }
    if are_known && are_numbers && most_groups > CACHED_GROUPS {
        return Some(GroupWay::Parted);
    }
    if most_known_groups > MOST_GROUPS {
        return None;
    }
    Some(if most_groups > MOST_GROUPS { GroupWay::AtMost(MOST_UNFORESEEN_GROUPS) } else { GroupWay::Together })
}

/// Whether it is worth it to read a table twice, first for its keys, so that an aggregate over another table is made for
/// these keys alone. With `is_joined` the rows must be found in tables that lack some, and are not filtered alone;
/// `expected_rows` of them pass the filters as far as can be told.
pub fn sieves_groups(read_again_rows: u64, expected_rows: u64, aggregated_rows: u64, is_joined: bool) -> bool {
    let leaves_few = expected_rows.saturating_mul(ROWS_PER_SIEVED_ROW) <= read_again_rows;
    let rows_per_read = if is_joined || leaves_few { 1 } else { ROWS_PER_SIEVED_ROW };
    read_again_rows.saturating_mul(rows_per_read) <= aggregated_rows
}

/// Whether it is worth it to read rows twice, first for their keys, so that so many texts are told apart for these keys
/// alone, although they could be for all.
pub fn sieves_texts(read_again_rows: u64, text_count: u64) -> bool {
    text_count > VERY_FEW_TEXTS && read_again_rows <= text_count.saturating_mul(ROWS_PER_TEXT)
}

/// Whether a table has too many rows for each to carry texts of its own.
pub fn are_too_many_to_carry(row_count: u64) -> bool {
    row_count > MOST_TEXT_ROWS
}

/// Why a table is built for the keys alone that another one's rows have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SieveReason {
    /// It has more rows than look anything up in it.
    MoreRows,
    /// Its rows carry texts of which many are different.
    Texts,
}

/// With how many keys at most such a table of `row_count` rows is worth it.
pub fn most_sieve_keys(reason: SieveReason, row_count: u64) -> u64 {
    match reason {
        SieveReason::MoreRows => row_count / ROWS_PER_SIEVED_ROW,
        SieveReason::Texts => MOST_TEXT_ROWS,
    }
}

/// How many bytes of a pipeline's rows are held back at most, in so much memory.
pub fn most_held_bytes(limit_bytes: u64) -> u64 {
    MOST_HELD_BYTES.min(limit_bytes / HELD_PART)
}

/// How many bytes of rows each of so many threads gives out at a time, in so much memory, where `enough` rows will do:
/// few are not to be looked for among millions once there are enough of them.
pub fn given_bytes(enough: Option<usize>, limit_bytes: u64, thread_count: usize) -> usize {
    if enough.is_some_and(|enough| enough <= FEW_ROWS) {
        return 1;
    }
    let share_bytes = limit_bytes / thread_count.max(1) as u64;
    GIVEN_BYTES.min(share_bytes / GIVEN_PART).max(LEAST_GIVEN_BYTES) as usize
}

/// In how many parts threads share a row group of so many mini-blocks, one of `row_group_count`.
pub fn part_count(mini_block_count: usize, row_group_count: usize, thread_count: usize) -> usize {
    let wanted = (thread_count * PARTS_A_THREAD).div_ceil(row_group_count.max(1));
    if thread_count < 2 { 1 } else { wanted.min(mini_block_count / LEAST_MINI_BLOCKS).max(1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_file_is_for_pipelines_where_values_are_folded_and_nobody_else_wants_the_processors() {
        let folds = OneFile { makes_groups: false, computes_floats: false, is_beside_others: false };
        assert_eq!(left_to_operators(folds), None);
        for (other, reason) in [
            (OneFile { makes_groups: true, ..folds }, "groups"),
            (OneFile { computes_floats: true, ..folds }, "floats"),
            (OneFile { is_beside_others: true, ..folds }, "other queries"),
        ] {
            assert!(left_to_operators(other).is_some_and(|why| why.starts_with(reason)), "{other:?}");
        }
    }

    #[test]
    fn few_rows_are_given_out_at_a_time_if_they_will_do_or_there_is_little_memory() {
        assert_eq!([most_held_bytes(1 << 30), most_held_bytes(24 << 20)], [16 << 20, 6 << 20]);
        let given = |limit_bytes, thread_count| given_bytes(None, limit_bytes, thread_count);
        assert_eq!([given(1 << 30, 2), given(24 << 20, 2), given(0, 0)], [1 << 20, 384 << 10, 64 << 10]);
        assert_eq!([given_bytes(Some(8192), 1 << 30, 2), given_bytes(Some(8193), 1 << 30, 2)], [1, 1 << 20]);
    }

    #[test]
    fn row_groups_are_cut_where_threads_need_more_to_share() {
        // One row group, one that is small, enough of them, and nobody to share with.
        assert_eq!([part_count(256, 1, 2), part_count(147, 1, 2), part_count(63, 1, 2)], [8, 4, 1]);
        assert_eq!(
            [part_count(256, 3, 2), part_count(256, 8, 2), part_count(256, 1, 1), part_count(0, 0, 4)],
            [3, 1, 1, 1]
        );
    }

    #[test]
    fn many_groups_of_one_table_are_parted_if_they_are_numbers_and_else_left_or_limited() {
        let known = GroupFacts {
            table_count: 1,
            most_groups: 6_000_000,
            most_known_groups: 6_000_000,
            are_known: true,
            are_numbers: true,
        };
        let few = GroupFacts { most_known_groups: 2_500, ..known };
        assert_eq!(group_way(known), Some(GroupWay::Parted));
        assert_eq!(group_way(few), Some(GroupWay::Together));
        assert_eq!(group_way(GroupFacts { are_numbers: false, ..known }), None);
        assert_eq!(
            group_way(GroupFacts { are_numbers: false, most_known_groups: 200_000, ..known }),
            Some(GroupWay::Together)
        );
        // Some columns are texts, of which nothing is known.
        let partly = GroupFacts { are_known: false, most_known_groups: 3, ..known };
        assert_eq!(group_way(partly), Some(GroupWay::AtMost(1 << 16)));
        assert_eq!(group_way(GroupFacts { most_groups: 1 << 20, ..partly }), Some(GroupWay::Together));
        assert_eq!(group_way(GroupFacts { most_known_groups: 6_000_000, ..partly }), None);
        // Joins drop rows.
        assert_eq!(group_way(GroupFacts { table_count: 3, ..known }), Some(GroupWay::Together));
    }

    #[test]
    fn groups_are_sieved_by_smaller_tables_alone() {
        assert!(sieves_groups(200_000, 200_000, 6_000_000, false));
        assert!(!sieves_groups(1_500_000, 1_500_000, 6_000_000, false));
        assert!(sieves_groups(1_500_000, 150_000, 6_000_000, false));
        assert!(sieves_groups(6_000_000, 6_000_000, 6_000_000, true));
        assert!(!sieves_groups(6_000_001, 1, 6_000_000, true));
        assert_eq!(most_sieve_keys(SieveReason::MoreRows, 6_000_000), 750_000);
        assert!(sieves_texts(160_000, 10_000) && !sieves_texts(160_001, 10_000) && !sieves_texts(25, 25));
        assert!(are_too_many_to_carry(1_500_000) && !are_too_many_to_carry(150_000));
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
        assert!(makes_few_texts(2) && !makes_few_texts(10) && !makes_few_texts(-1));
    }
}

//! Whether to complete an item of all rows with the columns that a query misses in it, or to scan for the query alone.
//!
//! Completing keeps the missing columns of every row, also of those that the query rejects; the kept columns cost nothing.
//! Where the whole of the query's columns would be worth [widening](super::widening), its missing ones are too. Where not,
//! because earlier bets were lost or values are costly beside the scan, completing is still the smaller work if at most half
//! of the columns are missing: what is parsed in vain is then no more than what is not parsed again. Pure.
//!
//! Paper: beyond ReCache.

/// Whether an item of all rows is worth completing for a query that wants `wanted_columns` of which it lacks
/// `missing_columns`; `is_worth_widening` says that all rows of all of them would be kept without that item.
pub fn is_worth_completing(missing_columns: usize, wanted_columns: usize, is_worth_widening: bool) -> bool {
    is_worth_widening || missing_columns * 2 <= wanted_columns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_most_half_of_the_columns_may_be_missing_unless_all_would_be_kept() {
        assert!(is_worth_completing(1, 2, false));
        assert!(is_worth_completing(2, 4, false));
        assert!(!is_worth_completing(2, 3, false));
        assert!(is_worth_completing(2, 3, true));
    }
}

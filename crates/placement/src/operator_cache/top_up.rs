//! Whether to complete an item of all rows with the columns that a query misses in it, or to scan for the query alone.
//!
//! Completing keeps the missing columns of every row, also of those that the query rejects; the kept columns cost
//! nothing. Where the whole of the query's columns would be worth [widening](super::widening), its missing ones are
//! too. Where not, because earlier bets were lost or values are costly beside the scan, completing is still the smaller
//! work if at most half of the columns are missing: what is parsed in vain is then no more than what is not parsed
//! again.
//!
//! And how: the missing columns can be read alone and laid beside the kept ones. That is the least work, but of kept
//! columns that can't be lent as they are, until it is done those of both the item and the completed one are held. Or all columns are read anew, and the item goes when the new
//! one needs its room: more work, once, and no memory twice. So the columns are read alone while both can be made to
//! fit, be it by displacing all others. If they can't, all are read anew, provided that the result will fit when it
//! stands alone; else the missing ones alone all the same: the query is spared the others, and nothing is kept.
//!
//! Owns these two choices; not whether the result is worth its place ([`super::admission`] says so, of either). Pure.
//!
//! Paper: beyond ReCache.

/// Whether an item of all rows is worth completing for a query that wants `wanted_columns` of which it lacks
/// `missing_columns`; `is_worth_widening` says that all rows of all of them would be kept without that item.
pub fn is_worth_completing(missing_columns: usize, wanted_columns: usize, is_worth_widening: bool) -> bool {
    is_worth_widening || missing_columns * 2 <= wanted_columns
}

/// What is known when the choice is made, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompletionInputs {
    /// What the completed item is estimated to take, all its columns together.
    pub completed_bytes: u64,
    /// What of that the item holds and lends: it is not held twice.
    pub lent_bytes: u64,
    /// What caches may still take.
    pub free_bytes: u64,
    /// What is held by other items, which could go. Of no interest where the free bytes do.
    pub others_bytes: u64,
    /// What caches may hold in all.
    pub limit_bytes: u64,
}

/// How the column is got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// It alone is read.
    Beside,
    /// All are read anew.
    InPlace,
}

/// The threshold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CompletionRule {
    /// Of the limit, what an item in the place of another may be estimated to take: estimates are off by some percent,
    /// and what is refused in the end was read for nothing.
    pub limit_share: f64,
}

impl CompletionInputs {
    /// What is held beside the item until it is completed.
    pub fn added_bytes(&self) -> u64 {
        self.completed_bytes.saturating_sub(self.lent_bytes)
    }
}

impl Default for CompletionRule {
    /// Nine tenths.
    fn default() -> Self {
        Self { limit_share: 0.9 }
    }
}

impl CompletionRule {
    /// Decides.
    pub fn decide(&self, inputs: &CompletionInputs) -> Completion {
        let fits_beside = inputs.added_bytes() <= inputs.free_bytes.saturating_add(inputs.others_bytes);
        let fits_alone = inputs.completed_bytes as f64 <= inputs.limit_bytes as f64 * self.limit_share;
        if !fits_beside && fits_alone { Completion::InPlace } else { Completion::Beside }
    }
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

    #[test]
    fn an_item_gives_way_only_where_both_find_no_room_and_the_completed_one_does() {
        let decide_lending = |lent_bytes, completed_bytes, free_bytes, others_bytes| {
            CompletionRule::default().decide(&CompletionInputs {
                completed_bytes,
                lent_bytes,
                free_bytes,
                others_bytes,
                limit_bytes: 1000,
            })
        };
        let decide = |completed, free, others| decide_lending(0, completed, free, others);
        assert_eq!(decide_lending(300, 400, 100, 0), Completion::Beside, "a quarter is added");
        assert_eq!(decide_lending(300, 401, 100, 0), Completion::InPlace);
        assert_eq!(decide(400, 400, 0), Completion::Beside);
        assert_eq!(decide(400, 300, 100), Completion::Beside, "others may go");
        assert_eq!(decide(401, 300, 100), Completion::InPlace);
        assert_eq!(decide(900, 300, 100), Completion::InPlace);
        assert_eq!(decide(901, 300, 100), Completion::Beside, "it fits nowhere");
        assert_eq!(decide(u64::MAX, u64::MAX, u64::MAX), Completion::Beside);
    }
}

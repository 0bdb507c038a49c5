//! Whether to cache what was asked for, or more: the whole columns.
//!
//! A select's result answers later queries within its range. The same columns without the predicate answer *every*
//! later range over them, and the raw scan passes over those bytes anyway: it has only to parse the columns of rows it
//! would reject, and to keep them. Owns that choice; not the estimates behind it. Pure.
//!
//! The rule, derived: let a whole scan take `T`, and keeping the rejected rows too take `e` more. If a later query asks
//! for another range with probability `q`, widening gains `q · T` (the raw scan it spares, next to which scanning the
//! item is nothing) and costs `e` now. It pays if `e / T < q`. `q` is unknown for a table asked for the first time, so
//! the loss is bounded instead: `e / T` may be a tenth at most, which is the overhead that the paper allows an eager
//! cache, and which already pays if one query in ten is followed by another range.
//!
//! Memory is the other price. A widened item is a bet without history, so it must not displace anything: it is weighed
//! against free space alone, and may take half of that at most, so that a second table, or the same one with other
//! columns, can be cached beside it.
//!
//! Paper: beyond ReCache, which always caches the operator as asked. The threshold is that of its §5.2.

/// What is known when the choice is made, part of it extrapolated from a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WideningInputs {
    /// Estimated size of the item with every row: its columns and those of the predicate.
    pub whole_columns_bytes: u64,
    /// Estimated size of the item with the selected rows alone.
    pub selected_rows_bytes: u64,
    /// What caches may still take without evicting anything.
    pub free_bytes: u64,
    /// The whole scan with the selected rows alone.
    pub scan_ns: u64,
    /// What parsing and keeping the rejected rows adds to it, measured or assumed.
    pub extra_ns: u64,
}

/// The thresholds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WideningRule {
    /// Share of the free space that whole columns may take.
    pub free_share: f64,
    /// Extra work allowed, as a share of the scan.
    pub extra_work_share: f64,
}

impl Default for WideningRule {
    /// Half of the free space, a tenth of the scan: see the module.
    fn default() -> Self {
        Self { free_share: 0.5, extra_work_share: 0.1 }
    }
}

/// What to cache.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Widening {
    /// The columns of every row: relax the predicate to TRUE.
    WholeColumns {
        /// Estimated size.
        size_bytes: u64,
        /// Extra work, as a share of the scan.
        extra_work_share: f64,
    },
    /// The rows that were asked for.
    OwnPredicate {
        /// Why not more.
        reason: KeepNarrow,
    },
}

/// Why an item is not widened.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum KeepNarrow {
    /// Whole columns would take too much of the free space.
    TooLarge {
        /// Their estimated size.
        whole_columns_bytes: u64,
        /// What they may take.
        allowed_bytes: u64,
    },
    /// Keeping the rejected rows would slow this query too much.
    TooMuchWork {
        /// Extra work, as a share of the scan.
        extra_work_share: f64,
        /// What is allowed.
        allowed_share: f64,
    },
}

impl WideningRule {
    /// Chooses between the query's own predicate and whole columns. A scan that takes no time allows no extra work.
    pub fn decide(&self, inputs: &WideningInputs) -> Widening {
        // Where nothing is rejected the two items are one, and the wider name for it answers more.
        let whole_columns_bytes = inputs.whole_columns_bytes.max(inputs.selected_rows_bytes);
        let allowed_bytes = (inputs.free_bytes as f64 * self.free_share) as u64;
        if whole_columns_bytes > allowed_bytes {
            return Widening::OwnPredicate { reason: KeepNarrow::TooLarge { whole_columns_bytes, allowed_bytes } };
        }
        let extra_work_share = match (inputs.extra_ns, inputs.scan_ns) {
            (0, _) => 0.0,
            (_, 0) => f64::INFINITY,
            (extra_ns, scan_ns) => extra_ns as f64 / scan_ns as f64,
        };
        if extra_work_share > self.extra_work_share {
            let allowed_share = self.extra_work_share;
            return Widening::OwnPredicate { reason: KeepNarrow::TooMuchWork { extra_work_share, allowed_share } };
        }
        Widening::WholeColumns { size_bytes: whole_columns_bytes, extra_work_share }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FITS: WideningInputs = WideningInputs {
        whole_columns_bytes: 500,
        selected_rows_bytes: 5,
        free_bytes: 1000,
        scan_ns: 1_000,
        extra_ns: 100,
    };

    #[test]
    fn whole_columns_are_cached_when_they_are_cheap_in_space_and_work() {
        let decision = WideningRule::default().decide(&FITS);
        assert_eq!(decision, Widening::WholeColumns { size_bytes: 500, extra_work_share: 0.1 });
    }

    #[test]
    fn an_item_is_not_widened_beyond_half_of_the_free_space() {
        let inputs = WideningInputs { whole_columns_bytes: 501, ..FITS };
        let reason = KeepNarrow::TooLarge { whole_columns_bytes: 501, allowed_bytes: 500 };
        assert_eq!(WideningRule::default().decide(&inputs), Widening::OwnPredicate { reason });
    }

    #[test]
    fn an_item_is_not_widened_when_that_slows_the_query_by_more_than_a_tenth() {
        let inputs = WideningInputs { extra_ns: 101, ..FITS };
        let reason = KeepNarrow::TooMuchWork { extra_work_share: 0.101, allowed_share: 0.1 };
        assert_eq!(WideningRule::default().decide(&inputs), Widening::OwnPredicate { reason });
    }

    #[test]
    fn a_predicate_that_rejects_nothing_is_dropped_whatever_the_scan_took() {
        let inputs = WideningInputs { selected_rows_bytes: 500, scan_ns: 0, extra_ns: 0, ..FITS };
        assert!(matches!(WideningRule::default().decide(&inputs), Widening::WholeColumns { .. }));
        let unmeasured = WideningInputs { scan_ns: 0, ..FITS };
        assert!(matches!(WideningRule::default().decide(&unmeasured), Widening::OwnPredicate { .. }));
    }
}

//! Whether to cache what was asked for, or more: the whole columns.
//!
//! A select's result answers later queries within its range. The same columns without the predicate answer *every*
//! later range over them, and the raw scan passes over those bytes anyway: it has only to parse the columns of rows it
//! would reject, and to keep them. Owns that choice; not the estimates behind it. Pure.
//!
//! The rule, derived: let a whole scan take `T`, and keeping the rejected rows too take `e` more. Each later query that
//! asks for another range is spared a raw scan, next to which scanning the item is nothing: `n` of them gain `n · T`,
//! for `e` paid now. `n` is unknown. As with buying or renting skis, paying up to the price of one more rent (`e ≤ T`)
//! at most doubles the cost of the one query after which nobody asks again, and gains without bound where somebody
//! does.
//!
//! Bets that are lost one after the other must not add up. After each one that no later query made use of, the next on
//! the same file (with the same list flattened) may cost half as much for each scan since: a file that is always asked
//! for something new loses two scans to the first bets, and then twice as many scans must pass before each next one,
//! which would have spared them all. A bet that pays off restores the credit.
//!
//! Nor need anybody pay who asks only once. Where users want it so, the first scan of a file may take no more extra
//! work than [admission](super::admission_rule) allows caching to add to a query: nothing says yet that it will be
//! asked again. Whoever asks a second time has shown that there is more to come.
//!
//! Memory is the other price. A widened item is a bet without history, so it must not displace anything: it is weighed
//! against free space alone, and may take half of that at most, so that a second table, or the same one with other
//! columns, can be cached beside it. But scans that were made in vain are a history: each of them would have been
//! spared. From the second on it may displace what is worth less, which is for [admission](super::admission) to say, to
//! whom it is an item that was asked for as often; it leaves a quarter of the cache to others. Where items are
//! [kept in part](super::heads), it may be larger than all there is, and admission says which part of it is kept; `e`
//! is that of the part then, for the rest is read as it was asked for.
//!
//! Paper: beyond ReCache, which always caches the operator as asked; its §5.2 bounds the cost of eager caching alike,
//! by a share of the scan.

use super::eagerness::DEFAULT_THRESHOLD;
use super::extrapolate::Progress;

/// Nanoseconds of one core; measured on the NDJSON and CSV files of TPC-H on a 2 GHz Xeon. Only ratios matter, and only
/// roughly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScanCosts {
    /// Reading a byte, hashing it and finding where records end.
    pub pass_ns_per_byte: f64,
    /// Walking over a byte of a record in search of fields.
    pub walk_ns_per_byte: f64,
    /// Parsing a value and keeping it.
    pub keep_ns_per_value: f64,
}

impl ScanCosts {
    /// Records that end at newlines: a rejected one is left at once.
    pub const NDJSON: Self = Self { pass_ns_per_byte: 0.16, walk_ns_per_byte: 0.15, keep_ns_per_value: 8.0 };
    /// Every field's end is found whatever becomes of the record.
    pub const CSV: Self = Self { pass_ns_per_byte: 0.6, walk_ns_per_byte: 0.0, keep_ns_per_value: 8.0 };
}

/// What a scan is about to do, as far as it can be guessed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScanShape {
    /// Text to read.
    pub text_bytes: u64,
    /// Rows if none were rejected.
    pub row_count: u64,
    /// Values kept of a row, those inside of its lists included.
    pub values_per_row: f64,
    /// Bytes that a row takes in memory.
    pub row_bytes: u64,
    /// Share of the rows that pass the predicate.
    pub selectivity: f64,
    /// Share of the records of which the predicate allows any row: 1 if it is about elements of a list alone.
    pub record_selectivity: f64,
    /// Share of a record's text up to the last wanted field.
    pub walked_share: f64,
}

impl ScanShape {
    /// What the rule asks for.
    pub fn inputs(&self, costs: &ScanCosts, room: &Room, earlier: Earlier) -> WideningInputs {
        let rows = self.row_count as f64;
        let walk_ns = self.text_bytes as f64 * self.walked_share * costs.walk_ns_per_byte;
        let keep_ns = rows * self.values_per_row * costs.keep_ns_per_value;
        let pass_ns = self.text_bytes as f64 * costs.pass_ns_per_byte;
        WideningInputs {
            whole_columns_bytes: self.row_count.saturating_mul(self.row_bytes),
            selected_rows_bytes: (rows * self.row_bytes as f64 * self.selectivity) as u64,
            free_bytes: room.free_bytes,
            limit_bytes: room.limit_bytes,
            divides_items: room.divides_items,
            scan_ns: (pass_ns + walk_ns * self.record_selectivity + keep_ns * self.selectivity) as u64,
            extra_ns: (walk_ns * (1.0 - self.record_selectivity) + keep_ns * (1.0 - self.selectivity)) as u64,
            scan_count: earlier.scan_count,
            lost_bets: earlier.lost_bets,
            scans_since_bet: earlier.scans_since_bet,
        }
    }
}

/// Memory that caches may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Without evicting anything.
    pub free_bytes: u64,
    /// In all.
    pub limit_bytes: u64,
    /// Whether a part of an item may be kept, if there is no room for all of it.
    pub divides_items: bool,
}

/// How a file was asked before, with the same list flattened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Earlier {
    /// Queries that had to scan it.
    pub scan_count: u32,
    /// Widened scans since one was of use.
    pub lost_bets: u32,
    /// Scans since one was widened.
    pub scans_since_bet: u32,
}

/// What is known when the choice is made, part of it extrapolated from a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WideningInputs {
    /// Estimated size of the item with every row: its columns and those of the predicate.
    pub whole_columns_bytes: u64,
    /// Estimated size of the item with the selected rows alone.
    pub selected_rows_bytes: u64,
    /// What caches may still take without evicting anything.
    pub free_bytes: u64,
    /// What they may hold in all.
    pub limit_bytes: u64,
    /// Whether a part of an item may be kept, if there is no room for all of it.
    pub divides_items: bool,
    /// The whole scan with the selected rows alone.
    pub scan_ns: u64,
    /// What parsing and keeping the rejected rows adds to it, measured or assumed.
    pub extra_ns: u64,
    /// Earlier queries that had to scan the file.
    pub scan_count: u32,
    /// Widened scans of this file since one was of use.
    pub lost_bets: u32,
    /// Earlier queries that had to scan the file, since one was widened.
    pub scans_since_bet: u32,
}

/// The thresholds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WideningRule {
    /// Share of the free space that whole columns may take.
    pub free_share: f64,
    /// Share of all space that they may take once so many queries had to scan the file.
    pub proven_share: f64,
    /// That many.
    pub proven_scan_count: u32,
    /// Extra work allowed, as a share of the scan, while no bet was lost.
    pub extra_work_share: f64,
    /// The same for a file that was not scanned before.
    pub first_extra_work_share: f64,
}

impl Default for WideningRule {
    /// Half of the free space, or three quarters of all from the third scan on; as much work again as the scan, but for
    /// the first one a tenth: see the module.
    fn default() -> Self {
        Self {
            free_share: 0.5,
            proven_share: 0.75,
            proven_scan_count: 2,
            extra_work_share: 1.0,
            first_extra_work_share: DEFAULT_THRESHOLD,
        }
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

/// Whether who reads a scan of more than it asked for, of which nothing more will be kept, had better go on with a scan of
/// its own: not once most is read, for a source may have to pass over that again.
pub fn is_worth_reading_less(progress: Progress) -> bool {
    progress.fraction() <= 0.5
}

impl WideningRule {
    /// Whether whole columns that cost this query too much are worth reading after it, while nothing else is to be
    /// done: if a second query would be made to keep them. What that takes is paid by nobody's waiting, and as any bet
    /// it may be lost.
    pub fn is_worth_idle_time(&self, inputs: &WideningInputs) -> bool {
        let keeps = |scan_count| {
            let inputs = WideningInputs { scan_count, ..*inputs };
            matches!(self.decide(&inputs), Widening::WholeColumns { .. })
        };
        inputs.scan_count == 0 && !keeps(0) && keeps(1)
    }

    /// Chooses between the query's own predicate and whole columns. A scan that takes no time allows no extra work.
    pub fn decide(&self, inputs: &WideningInputs) -> Widening {
        // Where nothing is rejected the two items are one, and the wider name for it answers more.
        let whole_columns_bytes = inputs.whole_columns_bytes.max(inputs.selected_rows_bytes);
        let is_proven = inputs.scan_count >= self.proven_scan_count;
        let proven_bytes = if is_proven { inputs.limit_bytes as f64 * self.proven_share } else { 0.0 };
        let allowed_bytes = (inputs.free_bytes as f64 * self.free_share).max(proven_bytes) as u64;
        let is_kept_in_part = is_proven && inputs.divides_items;
        if whole_columns_bytes > allowed_bytes && !is_kept_in_part {
            return Widening::OwnPredicate { reason: KeepNarrow::TooLarge { whole_columns_bytes, allowed_bytes } };
        }
        // Once no more can be kept, no more is read than is asked for.
        let kept_share = (inputs.limit_bytes as f64 / whole_columns_bytes.max(1) as f64).min(1.0);
        let extra_work_share = match (inputs.extra_ns, inputs.scan_ns) {
            (0, _) => 0.0,
            (_, 0) => f64::INFINITY,
            (extra_ns, scan_ns) => extra_ns as f64 / scan_ns as f64 * kept_share,
        };
        let credit = if inputs.scan_count > 0 { self.extra_work_share } else { self.first_extra_work_share };
        let halved = 0.5_f64.powi(i32::try_from(inputs.lost_bets).unwrap_or(i32::MAX));
        let allowed_share = credit * (halved * f64::from(inputs.scans_since_bet.max(1))).min(1.0);
        if extra_work_share > allowed_share {
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
        limit_bytes: 4000,
        divides_items: false,
        scan_ns: 1_000,
        extra_ns: 1_000,
        scan_count: 1,
        lost_bets: 0,
        scans_since_bet: 1,
    };

    #[test]
    fn whole_columns_are_cached_when_they_are_cheap_in_space_and_work() {
        let decision = WideningRule::default().decide(&FITS);
        assert_eq!(decision, Widening::WholeColumns { size_bytes: 500, extra_work_share: 1.0 });
    }

    #[test]
    fn an_item_is_not_widened_beyond_half_of_the_free_space() {
        let inputs = WideningInputs { whole_columns_bytes: 501, ..FITS };
        let reason = KeepNarrow::TooLarge { whole_columns_bytes: 501, allowed_bytes: 500 };
        assert_eq!(WideningRule::default().decide(&inputs), Widening::OwnPredicate { reason });
    }

    #[test]
    fn scans_in_vain_are_a_history_with_which_an_item_may_displace_others() {
        for (scan_count, whole_columns_bytes, allowed) in
            [(1, 501, false), (2, 501, true), (9, 3000, true), (9, 3001, false)]
        {
            let inputs = WideningInputs { scan_count, whole_columns_bytes, ..FITS };
            let decision = WideningRule::default().decide(&inputs);
            assert_eq!(matches!(decision, Widening::WholeColumns { .. }), allowed, "{decision:?}");
        }
    }

    #[test]
    fn an_item_is_not_widened_when_that_more_than_doubles_the_work() {
        let inputs = WideningInputs { extra_ns: 1_001, ..FITS };
        let reason = KeepNarrow::TooMuchWork { extra_work_share: 1.001, allowed_share: 1.0 };
        assert_eq!(WideningRule::default().decide(&inputs), Widening::OwnPredicate { reason });
    }

    #[test]
    fn what_is_read_in_vain_is_left_while_half_is_still_to_be_read() {
        let at = |scanned_bytes| Progress { scanned_bytes, total_bytes: 100 };
        assert!(is_worth_reading_less(at(4)) && is_worth_reading_less(at(50)) && !is_worth_reading_less(at(51)));
    }

    #[test]
    fn of_what_is_kept_in_part_the_part_alone_is_work() {
        // A quarter of the rows may be kept.
        for (extra_ns, allowed) in [(4_000, true), (4_001, false)] {
            let inputs =
                WideningInputs { whole_columns_bytes: 16_000, divides_items: true, scan_count: 2, extra_ns, ..FITS };
            let decision = WideningRule::default().decide(&inputs);
            assert_eq!(matches!(decision, Widening::WholeColumns { .. }), allowed, "{decision:?}");
        }
    }

    #[test]
    fn who_asks_first_pays_little_for_whoever_may_follow() {
        for (extra_ns, allowed) in [(100, true), (101, false)] {
            let inputs = WideningInputs { scan_count: 0, extra_ns, ..FITS };
            let decision = WideningRule::default().decide(&inputs);
            assert_eq!(matches!(decision, Widening::WholeColumns { .. }), allowed, "{decision:?}");
        }
    }

    #[test]
    fn what_the_first_query_may_not_pay_is_done_in_idle_time_if_the_second_would() {
        let is_worth = |inputs| WideningRule::default().is_worth_idle_time(&inputs);
        let first = WideningInputs { scan_count: 0, ..FITS };
        assert!(is_worth(first));
        assert!(!is_worth(FITS), "the second query does it itself");
        assert!(!is_worth(WideningInputs { extra_ns: 100, ..first }), "the first one can afford it");
        assert!(!is_worth(WideningInputs { extra_ns: 1_001, ..first }), "nobody would");
        assert!(!is_worth(WideningInputs { whole_columns_bytes: 501, ..first }));
    }

    #[test]
    fn lost_bets_cost_two_scans_and_then_one_each_time_that_twice_as_many_have_passed() {
        for share in [1.0, 0.7, 0.3, 0.01] {
            let (mut lost_bets, mut scans_since_bet, mut paid) = (0, 1, 0.0);
            for scan in 1..=10_000_u32 {
                let inputs = WideningInputs { extra_ns: (share * 1_000.0) as u64, lost_bets, scans_since_bet, ..FITS };
                scans_since_bet += 1;
                if matches!(WideningRule::default().decide(&inputs), Widening::WholeColumns { .. }) {
                    (lost_bets, scans_since_bet) = (lost_bets + 1, 0);
                    paid += share;
                }
                assert!(paid <= 2.0 + share * f64::from(scan).log2(), "{paid} of {scan} scans lost at {share} a bet");
            }
            assert!(paid >= 10.0 * share, "{paid}: who asks again and again is heard");
        }
        let many = WideningInputs { lost_bets: u32::MAX, extra_ns: 1, ..FITS };
        assert!(matches!(WideningRule::default().decide(&many), Widening::OwnPredicate { .. }));
    }

    #[test]
    fn a_predicate_that_rejects_nothing_is_dropped_whatever_the_scan_took() {
        let inputs = WideningInputs { selected_rows_bytes: 500, scan_ns: 0, extra_ns: 0, lost_bets: 9, ..FITS };
        assert!(matches!(WideningRule::default().decide(&inputs), Widening::WholeColumns { .. }));
        let unmeasured = WideningInputs { scan_ns: 0, ..FITS };
        assert!(matches!(WideningRule::default().decide(&unmeasured), Widening::OwnPredicate { .. }));
    }

    #[test]
    fn records_that_the_predicate_rejects_cost_their_walk_and_their_values() {
        let shape = ScanShape {
            text_bytes: 1_000_000,
            row_count: 1_000,
            values_per_row: 2.0,
            row_bytes: 16,
            selectivity: 0.25,
            record_selectivity: 0.5,
            walked_share: 1.0,
        };
        let costs = ScanCosts { pass_ns_per_byte: 0.1, walk_ns_per_byte: 0.2, keep_ns_per_value: 10.0 };
        let room = Room { free_bytes: 7, limit_bytes: 9, divides_items: false };
        let inputs = shape.inputs(&costs, &room, Earlier { scan_count: 5, lost_bets: 3, scans_since_bet: 2 });
        assert_eq!(inputs.scan_ns, 100_000 + 100_000 + 5_000);
        assert_eq!(inputs.extra_ns, 100_000 + 15_000);
        assert_eq!((inputs.whole_columns_bytes, inputs.selected_rows_bytes), (16_000, 4_000));
        assert_eq!((inputs.free_bytes, inputs.limit_bytes, inputs.scan_count, inputs.lost_bets), (7, 9, 5, 3));
    }
}

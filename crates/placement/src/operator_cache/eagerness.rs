//! Whether to keep rows, or only where their records lie in the file.
//!
//! An eager item holds parsed rows; a lazy one the offsets of the records that passed, which cost little to keep and
//! leave all parsing to the next query. Owns that choice; not the sample, nor whether the item is kept at all (see
//! [`super::admission`]). Pure.
//!
//! The rules, in order; the first that applies decides:
//! 1. *Working set*: while any item of the file is kept, the file is still in use: eager. A lazy item that is asked for
//!    again is itself such an item, so that it becomes eager.
//! 2. *History*: an item that was kept before, and is worth more than what it would displace, is eager whatever caching
//!    it costs, since that was worth its while.
//! 3. *Sample*: eager if the overhead, extrapolated to the end of the file, is at most a threshold; else lazy.
//! 4. Without a sample there is no answer yet, and the scan goes on keeping both.
//!
//! **What the overhead is.** `t_o` is all the time the query has spent up to some moment, in whatever operator, caching
//! included; `t_c` is the part of it spent on caching eagerly: parsing what only the cache wants, copying rows, and
//! waiting for fresh memory where rows that stay leave none to the next ones. Keeping the offsets meanwhile is not
//! caching in this sense, as a lazy item would cost it too. Both are taken at the beginning of the sample and at its
//! end, and a file that is `N` times as large as the sample will take the query to `t_o1 + N · (t_o2 − t_o1)`, and
//! caching to `t_c1 + N · (t_c2 − t_c1)`. The overhead is `t_c / t_o`: caching's share of the whole, from 0 to 1. A
//! share of a tenth lengthens the query by a ninth. What was spent before the sample, such as the join of two other
//! tables, so counts once and not `N` times: a caching operator behind an expensive join is not taken for cheap.
//!
//! Times may be those of one thread, or of all threads summed, if both `t_o` and `t_c` are. In a query that computes on
//! several threads the elapsed time of one of them won't do for the one and the sum for the other.
//!
//! Paper: ReCache §5.2 (rules 1, 3, 4), §5.1 (rule 2), Figure 12b (the threshold). Deviations:
//! - "As long as all cached items from the same file are not evicted" is read as: not all of them are.
//! - The print calls `t_c / t_o` the percentage that caching adds, for which it would have to be `t_c / (t_o − t_c)`;
//!   the formula is kept. They differ by a tenth at the threshold.
//! - The print counts the file in multiples of the sample; here the fraction scanned is that of
//!   [`Progress`], whose `scanned_bytes` are those of the sample.

use super::extrapolate::Progress;

/// The threshold at which the paper's overhead comes close to that of lazy caching (Figure 12b).
pub const DEFAULT_THRESHOLD: f64 = 0.1;

/// Two clocks of a query, both read at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueryTimes {
    /// `t_o`: all that the query has spent, caching included.
    pub overall_ns: u64,
    /// `t_c`: the part of it spent on caching eagerly.
    pub caching_ns: u64,
}

/// What the beginning of a scan has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CachingSample {
    /// `t_o1`, `t_c1`: when the sample began.
    pub begin: QueryTimes,
    /// `t_o2`, `t_c2`: when it ended.
    pub end: QueryTimes,
    /// The sample's bytes, and the file's.
    pub progress: Progress,
}

impl CachingSample {
    /// Both times at the end of the file. `None` if nothing was sampled.
    pub fn at_end_of_file(&self) -> Option<QueryTimes> {
        let extrapolate = |begin_ns: u64, end_ns: u64| {
            let sample_ns = end_ns.saturating_sub(begin_ns);
            Some(begin_ns.saturating_add(self.progress.whole_ns(sample_ns)?))
        };
        Some(QueryTimes {
            overall_ns: extrapolate(self.begin.overall_ns, self.end.overall_ns)?,
            caching_ns: extrapolate(self.begin.caching_ns, self.end.caching_ns)?,
        })
    }
}

impl QueryTimes {
    /// `t_c / t_o`. Caching that took no time has no overhead, even in a query that took none.
    pub fn overhead(&self) -> f64 {
        if self.caching_ns == 0 { 0.0 } else { self.caching_ns as f64 / self.overall_ns as f64 }
    }
}

/// What is known of the file and the item before the scan.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EarlierUse {
    /// Items of the same file that are kept, lazy ones included.
    pub kept_item_count: u64,
    /// Of an item that was kept before, and evicted.
    pub history: Option<Worth>,
}

/// The two sides of [admission](super::admission) for an item with a history, in seconds of query time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Worth {
    /// What the item is expected to save.
    pub newcomer_s: f64,
    /// What the items are expected to save together that it would displace; zero if it displaces none.
    pub victims_s: f64,
}

/// What to keep of the rows that pass.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Eagerness {
    /// The rows.
    Eager {
        /// Why, with the numbers.
        reason: EagerReason,
    },
    /// The offsets of their records.
    Lazy {
        /// Both times, extrapolated to the end of the file.
        at_end: QueryTimes,
        /// Caching's share, from 0 to 1.
        overhead: f64,
        /// What it may be at most.
        threshold: f64,
    },
}

/// Why rows are kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum EagerReason {
    /// The file is in use.
    WorkingSet {
        /// Its items that are kept.
        kept_item_count: u64,
    },
    /// It was kept before and is worth more than what it displaces.
    History {
        /// Both sides.
        worth: Worth,
    },
    /// Caching costs much, but the sample was the whole file: nothing would be saved any more.
    AlreadyPaid {
        /// Both times.
        at_end: QueryTimes,
        /// Caching's share, from 0 to 1.
        overhead: f64,
        /// What it may be at most.
        threshold: f64,
    },
    /// The user wants it so.
    Told,
    /// Caching costs little.
    LowOverhead {
        /// Both times, extrapolated to the end of the file.
        at_end: QueryTimes,
        /// Caching's share, from 0 to 1.
        overhead: f64,
        /// What it may be at most.
        threshold: f64,
    },
}

/// The threshold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EagernessRule {
    /// Caching's share of a query's time at most, from 0 to 1.
    pub threshold: f64,
}

impl Default for EagernessRule {
    /// See [`DEFAULT_THRESHOLD`].
    fn default() -> Self {
        Self { threshold: DEFAULT_THRESHOLD }
    }
}

impl EagernessRule {
    /// Decides; `None` as long as a sample is needed and isn't there.
    pub fn decide(&self, earlier: &EarlierUse, sample: Option<&CachingSample>) -> Option<Eagerness> {
        if let Some(reason) = known_before(earlier) {
            return Some(Eagerness::Eager { reason });
        }
        let at_end = sample?.at_end_of_file()?;
        let (overhead, threshold) = (at_end.overhead(), self.threshold);
        Some(if overhead > threshold {
            Eagerness::Lazy { at_end, overhead, threshold }
        } else {
            Eagerness::Eager { reason: EagerReason::LowOverhead { at_end, overhead, threshold } }
        })
    }
}

/// The rules that need no sample.
fn known_before(earlier: &EarlierUse) -> Option<EagerReason> {
    if earlier.kept_item_count > 0 {
        return Some(EagerReason::WorkingSet { kept_item_count: earlier.kept_item_count });
    }
    let worth = earlier.history.filter(|worth| worth.newcomer_s > worth.victims_s)?;
    Some(EagerReason::History { worth })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A sample of `1 / times` of a file, after `before_ms` of other work.
    fn sample(before_ms: u64, sample_ms: u64, caching_ms: u64, times: u64) -> CachingSample {
        CachingSample {
            begin: QueryTimes { overall_ns: before_ms * MS, caching_ns: 0 },
            end: QueryTimes { overall_ns: (before_ms + sample_ms) * MS, caching_ns: caching_ms * MS },
            progress: Progress { scanned_bytes: 1 << 20, total_bytes: times << 20 },
        }
    }

    fn decide(sample: CachingSample) -> Eagerness {
        EagernessRule::default().decide(&EarlierUse::default(), Some(&sample)).unwrap()
    }

    #[test]
    fn an_expensive_join_before_the_sample_does_not_hide_the_overhead() {
        // §5.2: a join of 10 s, then 100 ms to cache the first results; scanning them takes another 100 ms.
        let behind_join = sample(10_000, 200, 100, 1000);
        assert!(behind_join.end.overhead() < 0.01, "what a look at the clocks alone would say");
        let Eagerness::Lazy { at_end, overhead, threshold } = decide(behind_join) else { panic!("{behind_join:?}") };
        assert_eq!(at_end, QueryTimes { overall_ns: 210_000 * MS, caching_ns: 100_000 * MS });
        assert!((overhead - 100.0 / 210.0).abs() < 1e-9 && threshold == 0.1, "{overhead}");
        // Of a file that is but five times the sample, it is cheap indeed.
        assert!(matches!(decide(sample(10_000, 200, 100, 5)), Eagerness::Eager { .. }));
    }

    #[test]
    fn caching_that_takes_a_tenth_of_the_query_is_eager_and_more_is_lazy() {
        let Eagerness::Eager { reason: EagerReason::LowOverhead { overhead, .. } } = decide(sample(0, 1000, 100, 8))
        else {
            panic!("a tenth is allowed")
        };
        assert_eq!(overhead, 0.1);
        assert!(matches!(decide(sample(0, 1000, 101, 8)), Eagerness::Lazy { .. }));
        assert!(matches!(decide(sample(0, 0, 0, 8)), Eagerness::Eager { .. }), "no time is no overhead");
        let generous = EagernessRule { threshold: 1.0 };
        let all = generous.decide(&EarlierUse::default(), Some(&sample(0, 1000, 1000, 8)));
        assert!(matches!(all, Some(Eagerness::Eager { .. })));
    }

    #[test]
    fn caching_that_went_before_the_sample_counts_once() {
        let mut late = sample(1000, 100, 0, 10);
        late.begin.caching_ns = 300 * MS;
        late.end.caching_ns = 305 * MS;
        assert_eq!(late.at_end_of_file(), Some(QueryTimes { overall_ns: 2000 * MS, caching_ns: 350 * MS }));
    }

    #[test]
    fn a_file_in_use_and_an_item_with_a_history_are_eager_whatever_it_costs() {
        let rule = EagernessRule::default();
        let costly = sample(0, 1000, 900, 8);
        let worth = Worth { newcomer_s: 2.0, victims_s: 1.5 };
        let cases = [
            (EarlierUse { kept_item_count: 3, ..Default::default() }, EagerReason::WorkingSet { kept_item_count: 3 }),
            (EarlierUse { history: Some(worth), ..Default::default() }, EagerReason::History { worth }),
        ];
        for (earlier, reason) in cases {
            for sample in [None, Some(&costly)] {
                assert_eq!(rule.decide(&earlier, sample), Some(Eagerness::Eager { reason }));
            }
        }
        // A history that isn't worth its place is no history: §5.1 goes back to the rule for the unseen.
        let worthless = Some(Worth { newcomer_s: 1.5, victims_s: 1.5 });
        let earlier = EarlierUse { history: worthless, ..Default::default() };
        assert!(matches!(rule.decide(&earlier, Some(&costly)), Some(Eagerness::Lazy { .. })));
    }

    #[test]
    fn without_a_sample_there_is_no_answer_yet() {
        let rule = EagernessRule::default();
        assert_eq!(rule.decide(&EarlierUse::default(), None), None);
        let mut nothing = sample(5, 5, 5, 8);
        nothing.progress.scanned_bytes = 0;
        assert_eq!(rule.decide(&EarlierUse::default(), Some(&nothing)), None);
    }

    #[test]
    fn clocks_that_run_over_or_backwards_do_no_harm() {
        let mut odd = sample(0, 1000, 100, u64::MAX >> 20);
        assert!((0.0..=1.0).contains(&odd.at_end_of_file().unwrap().overhead()));
        odd.end = QueryTimes::default();
        assert!(matches!(decide(odd), Eagerness::Eager { .. }));
    }
}

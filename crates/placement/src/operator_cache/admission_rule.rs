//! The rule that a user sets for what new items hold: rows, the positions of their records, or whichever is the better
//! bet.
//!
//! **Owns** the choice between choosing and being told. **Does not own** how it is chosen ([`super::eagerness`]), nor
//! whether an item is worth its memory ([`super::admission`]). Pure.
//!
//! Paper: ReCache §6.2 compares the three.

use std::fmt;
use std::str::FromStr;

use super::eagerness::{CachingSample, DEFAULT_THRESHOLD, EagerReason, Eagerness, EagernessRule, EarlierUse};
use super::widening::WideningRule;

/// What the scans of files of which nothing is kept leave behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AdmissionMode {
    /// What the sample says.
    #[default]
    Auto,
    /// Rows.
    Eager,
    /// Positions, until they are asked for again.
    Lazy,
}

impl AdmissionMode {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Auto, Self::Eager, Self::Lazy];

    /// The name users see.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Eager => "eager",
            Self::Lazy => "lazy",
        }
    }
}

impl fmt::Display for AdmissionMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// No mode has the name. Its text lists those there are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownMode {
    /// The name as it was given.
    pub name: String,
}

impl fmt::Display for UnknownMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let modes = AdmissionMode::ALL.map(AdmissionMode::name).join(", ");
        write!(f, "'{}' is no way of admission; expected {modes}", self.name)
    }
}

impl std::error::Error for UnknownMode {}

/// By the name that [`AdmissionMode::name`] gives, in any case.
impl FromStr for AdmissionMode {
    type Err = UnknownMode;

    fn from_str(text: &str) -> Result<Self, UnknownMode> {
        let named = |mode: &Self| mode.name().eq_ignore_ascii_case(text.trim());
        Self::ALL.into_iter().find(named).ok_or_else(|| UnknownMode { name: text.to_string() })
    }
}

/// A mode, and the threshold of [`AdmissionMode::Auto`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdmissionRule {
    /// What decides.
    pub mode: AdmissionMode,
    /// Caching's share of a query's time at most, from 0 to 1.
    pub threshold: f64,
    /// Whether the first scan of a file may keep more than was asked for at the price of any later one, and not of the
    /// threshold.
    pub bets_at_once: bool,
}

impl Default for AdmissionRule {
    /// By the sample, with [`DEFAULT_THRESHOLD`]; betting at once.
    fn default() -> Self {
        Self { mode: AdmissionMode::default(), threshold: DEFAULT_THRESHOLD, bets_at_once: true }
    }
}

impl AdmissionRule {
    /// Whether a sample could make it lazy: if not, none need be taken.
    pub fn may_be_lazy(&self) -> bool {
        self.mode != AdmissionMode::Eager
    }

    /// What more than was asked for may cost the first scan of a file: as much as any later one, or no more than
    /// caching may.
    pub fn widening(&self) -> WideningRule {
        let rule = WideningRule::default();
        let first_extra_work_share = match self.mode {
            AdmissionMode::Lazy => 0.0,
            _ if self.bets_at_once => rule.extra_work_share,
            _ => self.threshold.min(rule.extra_work_share),
        };
        WideningRule { first_extra_work_share, ..rule }
    }

    /// Decides; `None` as long as a sample is needed and isn't there.
    ///
    /// Rows that are kept already are kept: when the sample is the whole file, only who is told to be lazy is.
    pub fn decide(&self, earlier: &EarlierUse, sample: Option<&CachingSample>) -> Option<Eagerness> {
        let rule = EagernessRule { threshold: self.threshold };
        match self.mode {
            AdmissionMode::Auto => {
                let is_over = sample.is_some_and(|sample| sample.progress.fraction() >= 1.0);
                Some(match rule.decide(earlier, sample)? {
                    Eagerness::Lazy { at_end, overhead, threshold } if is_over => {
                        Eagerness::Eager { reason: EagerReason::AlreadyPaid { at_end, overhead, threshold } }
                    }
                    decided => decided,
                })
            }
            AdmissionMode::Eager => Some(Eagerness::Eager { reason: EagerReason::Told }),
            AdmissionMode::Lazy => {
                let unseen = EarlierUse { history: None, ..*earlier };
                Some(match rule.decide(&unseen, sample)? {
                    Eagerness::Eager { reason: EagerReason::LowOverhead { at_end, overhead, threshold } } => {
                        Eagerness::Lazy { at_end, overhead, threshold }
                    }
                    decided => decided,
                })
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::eagerness::{QueryTimes, Worth};
    use super::super::extrapolate::Progress;
    use super::*;

    fn sample(caching_ns: u64, scanned_bytes: u64) -> CachingSample {
        CachingSample {
            begin: QueryTimes::default(),
            end: QueryTimes { overall_ns: 1000, caching_ns },
            progress: Progress { scanned_bytes, total_bytes: 32 },
        }
    }

    fn is_lazy(mode: AdmissionMode, earlier: &EarlierUse, sample: &CachingSample) -> bool {
        let rule = AdmissionRule { mode, ..AdmissionRule::default() };
        matches!(rule.decide(earlier, Some(sample)).unwrap(), Eagerness::Lazy { .. })
    }

    #[test]
    fn who_is_told_asks_no_sample_and_who_chooses_does() {
        let (unseen, kept) = (EarlierUse::default(), EarlierUse { kept_item_count: 1, ..Default::default() });
        let history = Some(Worth { newcomer_s: 2.0, victims_s: 1.0 });
        let worthy = EarlierUse { history, ..Default::default() };
        for (costs, auto) in [(101, true), (100, false)] {
            let sample = sample(costs, 1);
            assert_eq!(is_lazy(AdmissionMode::Auto, &unseen, &sample), auto);
            assert!(is_lazy(AdmissionMode::Lazy, &unseen, &sample));
            assert!(is_lazy(AdmissionMode::Lazy, &worthy, &sample));
            for mode in AdmissionMode::ALL {
                assert!(!is_lazy(mode, &kept, &sample), "the file is in use");
            }
            assert!(!is_lazy(AdmissionMode::Auto, &worthy, &sample));
            assert!(!is_lazy(AdmissionMode::Eager, &unseen, &sample));
        }
    }

    #[test]
    fn more_than_was_asked_for_costs_the_first_scan_no_more_than_caching_may_unless_bets_are_wanted_at_once() {
        let first_share = |mode, bets_at_once| {
            AdmissionRule { mode, threshold: 0.25, bets_at_once }.widening().first_extra_work_share
        };
        for mode in [AdmissionMode::Auto, AdmissionMode::Eager] {
            assert_eq!(first_share(mode, false), 0.25);
            assert_eq!(first_share(mode, true), WideningRule::default().extra_work_share);
        }
        assert_eq!((first_share(AdmissionMode::Lazy, false), first_share(AdmissionMode::Lazy, true)), (0.0, 0.0));
    }

    #[test]
    fn rows_that_are_all_kept_already_are_dropped_by_order_only() {
        let over = sample(900, 32);
        assert!(!is_lazy(AdmissionMode::Auto, &EarlierUse::default(), &over));
        assert!(is_lazy(AdmissionMode::Lazy, &EarlierUse::default(), &over));
    }

    #[test]
    fn every_mode_is_found_by_its_name() {
        for mode in AdmissionMode::ALL {
            assert_eq!(mode.to_string().to_uppercase().parse(), Ok(mode));
        }
        let message = "never".parse::<AdmissionMode>().unwrap_err().to_string();
        assert!(message.contains("'never'") && message.contains("auto, eager, lazy"), "{message}");
    }
}

//! The next mini-block's packed bits, asked of memory while this one is worked on.
//!
//! **Owns**: which cache lines have been asked for, and how many are asked for at once. **Does not own**: when memory is
//! idle (`worker`).
//!
//! **Invariants**: nothing depends on it but time.
//!
//! **Concurrency**: plain values; each thread has its own.
//!
//! Processors read on by themselves, but not into the next 4 KiB, and there they notice only after some lines that one
//! follows the other. They wait for so many lines at the same time, and stand still if they are asked for more; so some
//! are asked for now and some after the next stage, and computing goes on in between. As few at once as suffice are
//! best: how many that is depends on how many lines a mini-block has and how often there is an opportunity.

use thermocline_column_store::PackedBits;

/// Lines at once before anything is known.
const FIRST: usize = 16;
/// The fewest lines at once: fewer than that no processor stands still for.
const FEWEST: usize = 8;
/// The most: processors wait for 10 to 24 lines at the same time.
const MOST: usize = 24;
/// One line in so many may be missed.
const ASKED_A_MISSED: usize = 128;
/// Row groups without many misses until fewer lines are tried.
const PATIENCE: u32 = 8;

/// How many lines are asked for at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pace {
    lines_at_once: usize,
    /// Row groups in a row in which it was enough.
    enough: u32,
}

impl Pace {
    pub(super) fn new() -> Self {
        Self { lines_at_once: FIRST, enough: 0 }
    }

    pub(super) fn lines_at_once(self) -> usize {
        self.lines_at_once
    }

    /// The pace for the next row group after one in which so many lines were asked for, and so many missed: it was
    /// their turn before they had been asked for.
    #[must_use]
    pub(super) fn after(self, asked: usize, missed: usize) -> Self {
        let Self { lines_at_once, enough } = self;
        if missed * ASKED_A_MISSED > asked {
            return Self { lines_at_once: (lines_at_once + 1).min(MOST), enough: 0 };
        }
        if enough < PATIENCE || asked == 0 {
            return Self { lines_at_once, enough: enough + 1 };
        }
        Self { lines_at_once: (lines_at_once - 1).max(FEWEST), enough: 0 }
    }
}

/// A column's lines that will be needed next.
#[derive(Debug)]
pub(super) struct Ahead<'p> {
    /// The mini-block, and how many of its lines were asked for; `None` if all were.
    next: Option<(PackedBits<'p>, usize)>,
    lines_at_once: usize,
    asked: usize,
    missed: usize,
}

impl<'p> Ahead<'p> {
    pub(super) fn new(pace: Pace) -> Self {
        Self { next: None, lines_at_once: pace.lines_at_once(), asked: 0, missed: 0 }
    }

    /// From now on asks for this mini-block's lines, some at once.
    #[inline]
    pub(super) fn turn_to(&mut self, next: Option<PackedBits<'p>>) {
        if let Some((bits, asked)) = self.next {
            self.missed += bits.line_count() - asked;
        }
        self.next = next.map(|next| (next, 0));
        self.ask(self.lines_at_once);
    }

    /// Asks for up to so many more; how many.
    #[inline]
    pub(super) fn ask(&mut self, line_count: usize) -> usize {
        let Some((bits, next)) = &mut self.next else { return 0 };
        let asked = bits.prefetch_lines(*next..*next + line_count);
        *next += asked;
        self.asked += asked;
        if *next == bits.line_count() {
            self.next = None;
        }
        asked
    }

    /// How many lines were asked for, and how many were not asked for in time.
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.asked, self.missed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pace_settles_where_hardly_a_line_is_missed() {
        // What a row group of mini-blocks with 100 lines misses if there are 8 opportunities.
        let missed = |pace: Pace| 64 * 100usize.saturating_sub(8 * pace.lines_at_once());
        for first in [Pace { lines_at_once: FEWEST, enough: 0 }, Pace::new(), Pace { lines_at_once: MOST, enough: 0 }] {
            let mut pace = first;
            for _ in 0..200 {
                pace = pace.after(6400 - missed(pace), missed(pace));
            }
            assert!((12..=13).contains(&pace.lines_at_once()), "{pace:?} from {first:?}");
        }
    }

    #[test]
    fn the_pace_stays_within_its_bounds() {
        let (mut slow, mut fast) = (Pace::new(), Pace::new());
        for _ in 0..1000 {
            (slow, fast) = (slow.after(1000, 0), fast.after(1000, 1000));
        }
        assert_eq!((slow.lines_at_once(), fast.lines_at_once()), (FEWEST, MOST));
    }
}

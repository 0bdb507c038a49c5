//! How long the tuner rests between decisions, and between what else it does.
//!
//! **Invariants**: over any time it works for at most one part in so many of it, but for what it may be ahead of that
//! ([`AHEAD`]), and for one piece of work that takes longer than all of this.

use std::time::Duration;

/// How much longer than it worked it rests after a decision.
pub(crate) const LONG: u32 = 200;
/// How much of its rest what is urgent does without, to be made up for later: what half a millisecond of work is
/// followed by, two decisions for some columns or more.
const AHEAD: Duration = Duration::from_millis(100);

/// Since when it has rested enough.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Rest {
    until_ns: u64,
}

impl Rest {
    /// The rest that is left; none is zero.
    pub(crate) fn left(self, now_ns: u64, is_urgent: bool) -> Option<Duration> {
        let ahead_ns = if is_urgent { AHEAD.as_nanos() as u64 } else { 0 };
        let left_ns = self.until_ns.saturating_sub(ahead_ns).saturating_sub(now_ns);
        (left_ns > 0).then(|| Duration::from_nanos(left_ns))
    }

    /// It worked for so long until now, and rests for `factor` times as long.
    pub(crate) fn follow(&mut self, now_ns: u64, worked: Duration, factor: u32) {
        self.until_ns = self.until_ns.max(now_ns).saturating_add((worked * factor).as_nanos() as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS_NS: u64 = 1_000_000;

    #[test]
    fn it_rests_in_proportion_to_its_work() {
        let mut rest = Rest::default();
        assert_eq!(rest.left(5, false), None);
        rest.follow(5 * MS_NS, Duration::from_millis(1), 200);
        assert_eq!(rest.left(5 * MS_NS, false), Some(Duration::from_millis(200)));
        assert_eq!(rest.left(205 * MS_NS, false), None);
    }

    #[test]
    fn what_is_urgent_comes_earlier_and_is_made_up_for() {
        let mut rest = Rest::default();
        let (mut now_ns, mut worked_ns) = (0, 0);
        for _ in 0..100 {
            if rest.left(now_ns, true).is_none() {
                now_ns += MS_NS / 4;
                worked_ns += MS_NS / 4;
                rest.follow(now_ns, Duration::from_nanos(MS_NS / 4), LONG);
            }
            now_ns += MS_NS;
        }
        let rest_ns = worked_ns * u64::from(LONG);
        let most_ns = now_ns + AHEAD.as_nanos() as u64;
        assert!((most_ns - 100 * MS_NS..=most_ns + 50 * MS_NS).contains(&rest_ns), "{worked_ns} in {now_ns}");
        assert_eq!(rest.left(now_ns, false), Some(Duration::from_nanos(rest_ns + MS_NS / 4 - now_ns)));
    }
}

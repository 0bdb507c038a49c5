//! Room that lists lend each other until they are used again.
//!
//! **Owns**: how quotas change for now, given what is likely to run next ([`Outlook`]). **Does not own**: the quotas that
//! are best in the long run (`programmes`), or what is likely to come (`window`).
//!
//! The programmes place pages for a window of pipelines in whatever order. Where the order is known more can be had of
//! the same memory: a list that the next queries use several times takes the room of one that is not used before those
//! are through. Each byte lent is read once more when its own list comes again, and is not read as often as the borrower
//! is used until then. That is Belady's rule (the page used farthest in the future goes) for lists instead of pages, with
//! what a read takes by the model in place of a count: a pipeline whose reads hide behind its work gains nothing by room.
//!
//! Borrowers are looked at in the order of their next use, and borrow from lists in the order of theirs, the farthest
//! first. Of a loan only what comes after the borrower's next use counts as gain, since its pages have to be read for
//! that. What is foretold may not happen, so gains count by the part of forecasts that come true.
//!
//! Paper: none. HPCache (§4.3) takes the last pipelines to come again in any order.
//!
//! Pure. Each pair of lists is looked at once, most pairs not at all; a look costs the borrower's uses until then.

use std::collections::{BTreeMap, BTreeSet};

use super::ListKey;
use super::model::{Pipeline, Rates, expected_s};

/// What is likely to run.
#[derive(Clone, Debug, Default)]
pub struct Outlook {
    /// The pipeline that has begun last, and those likely to follow it, the next first. Where nothing is known of what
    /// follows, the last large one, as often as it is likely to come again.
    pub runs: Vec<Pipeline>,
    /// Of such forecasts, the part that comes true.
    pub confidence: f64,
}

/// What is gained has to be so many times what is lost: forecasts of times are worse than those of reads.
const CLEARLY_MORE: f64 = 1.25;

/// Room is lent in so many parts of the borrower's bytes, since the first bytes gain the most.
const PARTS: u64 = 4;

/// Nothing is lent where less than one part in so many of what is asked for has no room, by all pipelines and by the one
/// that began last: little can be gained then by quotas that come and go whenever a pipeline begins.
const LEAST_MISSING_PART: u64 = 8;

/// What was decided, and what has begun since: quotas of lists, and the bytes that pipelines ask for of each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Bytes that each list may keep in whatever order pipelines come.
    pub quotas: Vec<(ListKey, u64)>,
    /// Of all lists that pipelines ask for.
    pub asked_bytes: BTreeMap<ListKey, u64>,
}

impl Standing {
    /// With a pipeline that has begun since: what it asks for that nobody asked for before gets the memory that is left,
    /// in the order of its lists. So what it reads may borrow at once, before all is decided anew.
    pub fn with_begun(&self, columns: &[(ListKey, u64)], memory_bytes: u64) -> Self {
        let Self { mut quotas, mut asked_bytes } = self.clone();
        let mut left_bytes = memory_bytes.saturating_sub(self.room_bytes());
        for (list, bytes) in columns {
            let asked = asked_bytes.entry(*list).or_default();
            let new_bytes = left_bytes.min(bytes.saturating_sub(*asked));
            *asked = (*asked).max(*bytes);
            left_bytes -= new_bytes;
            match quotas.iter_mut().find(|(known, _)| known == list) {
                Some((_, quota)) => *quota += new_bytes,
                None => quotas.push((*list, new_bytes)),
            }
        }
        Self { quotas, asked_bytes }
    }

    /// Forgets lists that mean something else from now on.
    pub fn forget(&mut self, lists: &BTreeSet<ListKey>) {
        self.quotas.retain(|(list, _)| !lists.contains(list));
        self.asked_bytes.retain(|list, _| !lists.contains(list));
    }

    /// Whether so much has no room, of all that is asked for or of what the pipeline that began last asks for, that
    /// lending is worth while.
    pub fn may_lend(&self, last: &[(ListKey, u64)]) -> bool {
        let is_much = |missing: u64, of: u64| missing >= (of / LEAST_MISSING_PART).max(1);
        let all_bytes: u64 = self.asked_bytes.values().sum();
        if is_much(all_bytes.saturating_sub(self.room_bytes()), all_bytes) {
            return true;
        }
        let quotas: BTreeMap<ListKey, u64> = self.quotas.iter().copied().collect();
        let missing = |(list, bytes): &(ListKey, u64)| bytes.saturating_sub(quotas.get(list).copied().unwrap_or(0));
        is_much(last.iter().map(missing).sum(), last.iter().map(|(_, bytes)| bytes).sum())
    }

    fn room_bytes(&self) -> u64 {
        self.quotas.iter().map(|(_, bytes)| bytes).sum()
    }
}

/// Bytes that each list may keep for now, of `quotas` that were best whatever comes next. All together they are as many.
pub fn lend(quotas: &[(ListKey, u64)], outlook: &Outlook, rates: Rates) -> Vec<(ListKey, u64)> {
    let mut lending = Lending::new(quotas, outlook, rates);
    let (borrowers, lenders) = (lending.borrowers(), lending.lenders());
    for borrower in borrowers {
        for lender in &lenders {
            if !lending.borrow(borrower, *lender) {
                break;
            }
        }
    }
    lending.quotas.into_iter().filter(|(_, bytes)| *bytes > 0).collect()
}

struct Lending<'a> {
    outlook: &'a Outlook,
    rates: Rates,
    quotas: BTreeMap<ListKey, u64>,
    /// Of each list that is likely to be used, the places of its uses among the runs and the most bytes that are asked
    /// for; 0 is the run that has begun.
    uses: BTreeMap<ListKey, (Vec<usize>, u64)>,
    /// What each run asks for, and is taken to read of that.
    asked_bytes: Vec<f64>,
    read_bytes: Vec<f64>,
}

impl<'a> Lending<'a> {
    fn new(quotas: &[(ListKey, u64)], outlook: &'a Outlook, rates: Rates) -> Self {
        let quotas: BTreeMap<ListKey, u64> = quotas.iter().copied().collect();
        let mut uses: BTreeMap<ListKey, (Vec<usize>, u64)> = BTreeMap::new();
        let (mut asked_bytes, mut read_bytes) = (Vec::new(), Vec::new());
        for (place, run) in outlook.runs.iter().enumerate() {
            let (mut asked, mut read) = (0, 0);
            for (list, bytes) in run.columns.iter().filter(|(_, bytes)| *bytes > 0) {
                let (places, most_bytes) = uses.entry(*list).or_default();
                places.push(place);
                *most_bytes = (*most_bytes).max(*bytes);
                asked += bytes;
                read += bytes.saturating_sub(quotas.get(list).copied().unwrap_or(0));
            }
            asked_bytes.push(asked as f64);
            read_bytes.push(read as f64);
        }
        Self { outlook, rates, quotas, uses, asked_bytes, read_bytes }
    }

    /// The next use of a list; behind all runs if none is foretold.
    fn next_use(&self, list: ListKey) -> usize {
        self.uses.get(&list).map_or(self.outlook.runs.len(), |(places, _)| places[0])
    }

    fn quota(&self, list: ListKey) -> u64 {
        self.quotas.get(&list).copied().unwrap_or(0)
    }

    /// Lists that are used more than once, the next first.
    fn borrowers(&self) -> Vec<ListKey> {
        let mut borrowers: Vec<ListKey> =
            self.uses.iter().filter(|(_, (places, _))| places.len() > 1).map(|(list, _)| *list).collect();
        borrowers.sort_by_key(|list| (self.next_use(*list), *list));
        borrowers
    }

    /// Lists that have room, the one used farthest in the future first.
    fn lenders(&self) -> Vec<ListKey> {
        let mut lenders: Vec<ListKey> = self.quotas.keys().copied().collect();
        lenders.sort_by_key(|list| (usize::MAX - self.next_use(*list), *list));
        lenders
    }

    /// Borrows from a list as long as more is gained than lost. Whether to ask the next one, whose own next use is
    /// sooner.
    fn borrow(&mut self, borrower: ListKey, lender: ListKey) -> bool {
        let Some((places, most_bytes)) = self.uses.get(&borrower) else { return false };
        let (until, most_bytes) = (self.next_use(lender), *most_bytes);
        let gaining: Vec<usize> = places[1..].iter().copied().take_while(|place| *place < until).collect();
        if gaining.is_empty() || self.next_use(borrower) >= until {
            return false;
        }
        loop {
            let missing_bytes = most_bytes.saturating_sub(self.quota(borrower));
            let bytes = missing_bytes.min(self.quota(lender)).min(most_bytes.div_ceil(PARTS));
            if bytes == 0 {
                return missing_bytes > 0;
            }
            let gained_s: f64 = gaining.iter().map(|place| -self.changes_s(*place, -(bytes as f64))).sum();
            let lost_s = self.changes_s(until, bytes as f64);
            if gained_s * self.outlook.confidence <= CLEARLY_MORE * lost_s {
                return true;
            }
            gaining.iter().for_each(|place| self.read_bytes[*place] -= bytes as f64);
            if let Some(read_bytes) = self.read_bytes.get_mut(until) {
                *read_bytes += bytes as f64;
            }
            *self.quotas.entry(borrower).or_default() += bytes;
            *self.quotas.entry(lender).or_default() -= bytes;
        }
    }

    /// How much longer a run takes if it reads so much more. Of what comes later nothing is known: there storage is
    /// waited for.
    fn changes_s(&self, place: usize, more_bytes: f64) -> f64 {
        let (Some(run), Some(read_bytes)) = (self.outlook.runs.get(place), self.read_bytes.get(place)) else {
            return more_bytes / self.rates.storage_bytes_per_s;
        };
        let bytes = self.asked_bytes[place];
        let takes_s =
            |read_bytes: f64| expected_s(bytes, read_bytes.clamp(0.0, bytes), run.throughput_bytes_per_s, self.rates);
        takes_s(read_bytes + more_bytes) - takes_s(*read_bytes)
    }
}

#[cfg(test)]
mod tests;

//! Records whose fields' places are known from an earlier scan.
//!
//! **Owns**: reading the wanted values of a record where they are, without walking it; telling where a walk found them.
//!
//! **Invariants**: a record read by places gives the rows that walking it gives, or a fault: then the caller walks it.

use super::super::bad::{Bad, What};
use super::super::walk::Walk;
use super::Scope;
use crate::positional_map::{ABSENT, FIRST_OFFSET, UNKNOWN, code_of};

impl Scope {
    /// Codes of where the present record's fields are: of each slot, then of the list. The record began at `first`.
    pub(in crate::ndjson) fn codes(&self, first: usize) -> impl Iterator<Item = u32> + '_ {
        // A walk that was broken off has not seen what follows.
        let unseen = if self.is_walked { ABSENT } else { UNKNOWN };
        let code = move |at: Option<usize>| at.map_or(unseen, |at| code_of(at - first));
        let slots = self.slots.iter().map(|slot| (slot.seen == self.current).then_some(slot.at));
        let list = self.list.iter().map(|list| list.at);
        slots.chain(list).map(code)
    }

    /// Like [`read`](Self::read) for the record at `first` that ends before `walk.end`, whose fields' places `codes`
    /// tell.
    ///
    /// # Errors
    /// A rejection, as in `read`. Any other fault, a place that is unknown included, means that the record must be
    /// walked.
    #[inline]
    pub(in crate::ndjson) fn read_known(
        &mut self,
        walk: &mut Walk<'_>,
        first: usize,
        codes: &[u32],
    ) -> Result<(), Bad> {
        self.begin();
        let outcome = self.take_known(walk, first, codes).and_then(|()| self.keep(walk, first));
        if outcome.is_err() {
            self.take_back();
        }
        outcome
    }

    fn take_known(&mut self, walk: &mut Walk<'_>, first: usize, codes: &[u32]) -> Result<(), Bad> {
        let end = walk.end;
        let place = |code: u32| match code {
            ABSENT => Ok(None),
            UNKNOWN => Err(Bad::new(first, What::Value)),
            code => match first + (code - FIRST_OFFSET) as usize {
                at if at < end => Ok(Some(at)),
                _ => Err(Bad::new(first, What::RecordEnd)),
            },
        };
        if self.predicate_count > 0 {
            self.test_known(walk, codes, place)?;
        }
        if let Some(list) = &mut self.list {
            let code = codes.get(self.slots.len()).copied().unwrap_or(UNKNOWN);
            if let Some(at) = place(code)? {
                list.read(walk, at)?;
            }
            if list.lacks_elements() {
                return Err(Bad::rejected(end));
            }
        }
        for (at, &code) in (0..self.slots.len()).zip(codes) {
            if self.slots[at].domain.is_none()
                && let Some(pos) = place(code)?
            {
                self.take_slot(at, walk, pos)?;
            }
        }
        self.complete(walk, end)
    }

    /// Tests the predicate fields that are there, in their order in the record, as a walk does; then those that are
    /// not.
    fn test_known(
        &mut self,
        walk: &mut Walk<'_>,
        codes: &[u32],
        place: impl Fn(u32) -> Result<Option<usize>, Bad>,
    ) -> Result<(), Bad> {
        let mut tested = ABSENT;
        let mut last_slot = 0;
        loop {
            // There are few: looking for the next is cheaper than sorting them.
            let next = |(slot, &code): (usize, &u32)| {
                let is_next = (code, slot) > (tested, last_slot) && code >= FIRST_OFFSET;
                (is_next && self.slots.get(slot)?.domain.is_some()).then_some((code, slot))
            };
            let Some((code, slot)) = codes.iter().enumerate().filter_map(|(slot, code)| next((slot, code))).min()
            else {
                break;
            };
            (tested, last_slot) = (code, slot);
            if let Some(pos) = place(code)? {
                self.take_slot(slot, walk, pos)?;
            }
        }
        for (slot, &code) in self.slots.iter().zip(codes) {
            if let Some(domain) = &slot.domain
                && code < FIRST_OFFSET
            {
                place(code)?;
                if !domain.admits_null() {
                    return Err(Bad::rejected(walk.end));
                }
            }
        }
        self.predicates_left = 0;
        Ok(())
    }
}

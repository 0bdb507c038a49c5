//! Values that rows are grouped by or that are kept: numbers, or codes of texts that hold for the whole run.
//!
//! **Owns**: which code stands for a slot's text. **Does not own**: what is done with it.
//!
//! **Concurrency**: each thread has its own; they share an interner for each text column whose texts are told apart.

use std::sync::Arc;

use thermocline_budget::Account;

use super::interner::Interner;
use super::memory::Memory;
use super::numbers::{Lane, Numbers};
use super::view::{RunContext, View};
use crate::ir::{Origin, Slot, ValueType};
use crate::table::Distinct;
use crate::{PipelineError, TextList};

/// A slot and how its values become numbers.
#[derive(Debug)]
pub(super) struct Keyed<'r> {
    slot: Slot,
    kind: Kind<'r>,
}

/// In place of a number that nobody asked for.
const UNKNOWN: u32 = u32::MAX;

#[derive(Debug)]
enum Kind<'r> {
    /// The number itself.
    Number,
    /// Codes of a probed table's payload column.
    Payload { step: usize, payload: usize, distinct: &'r Distinct },
    /// Texts of a scanned column: their numbers by the codes of a row group's page, as far as they were asked for.
    Scanned { column: usize, numbering: Numbering<'r>, page: Option<(usize, Vec<u32>)> },
}

/// How texts of a scanned column are numbered.
#[derive(Debug)]
enum Numbering<'r> {
    /// For the whole run, equal texts alike.
    Interned(&'r Interner),
    /// As they come, equal texts of different pages anew, until they are given out.
    Listed { texts: TextList, memory: Memory },
}

impl Numbering<'_> {
    /// Notes the numbers of some of a page's texts by their codes there.
    fn number(&mut self, codes: &[usize], found: &TextList, numbers: &mut [u32]) -> Result<(), PipelineError> {
        match self {
            Self::Interned(interner) => interner.number(codes, found, numbers),
            Self::Listed { texts, memory } => {
                // Vectors grow by doubling.
                memory.ensure(2 * (texts.size_bytes() + found.size_bytes()))?;
                let first = u32::try_from(texts.len() + found.len())
                    .map_err(|_| PipelineError::TooMany { what: "texts of a column".to_owned() })?
                    - found.len() as u32;
                texts.append(found);
                codes.iter().zip(first..).for_each(|(code, number)| numbers[*code] = number);
                Ok(())
            }
        }
    }
}

impl<'r> Keyed<'r> {
    /// `interner` is the slot's, which every text of a scanned column has that is told apart from others. With `codes`
    /// numeric payload is coded too.
    pub(super) fn new(context: RunContext<'r>, slot: Slot, interner: Option<&'r Interner>, codes: bool) -> Self {
        let info = context.pipeline.slot(slot);
        let kind = match (info.origin, interner) {
            // Zeros with a sign and without have codes of their own, but make one group.
            (Origin::Payload { step, payload }, _)
                if codes && !info.value_type.is_float() || info.value_type == ValueType::Text =>
            {
                let distinct =
                    context.payload_of(step, payload).and_then(|(table, column)| table.column(column).distinct());
                distinct.map_or(Kind::Number, |distinct| Kind::Payload { step, payload, distinct })
            }
            (Origin::Column(column), Some(interner)) => {
                Kind::Scanned { column, numbering: Numbering::Interned(interner), page: None }
            }
            _ => Kind::Number,
        };
        Self { slot, kind }
    }

    /// Of texts of a scanned column that are given out as they are.
    pub(super) fn listing(slot: Slot, column: usize, account: &Account) -> Result<Self, PipelineError> {
        let numbering = Numbering::Listed { texts: TextList::new(), memory: Memory::new(account, 0)? };
        Ok(Self { slot, kind: Kind::Scanned { column, numbering, page: None } })
    }

    /// What its codes stand for, if it lists texts or has those of a table.
    pub(super) fn texts(&self) -> Option<&TextList> {
        match &self.kind {
            Kind::Scanned { numbering: Numbering::Listed { texts, .. }, .. } => Some(texts),
            Kind::Payload { distinct: Distinct::Texts { texts, .. }, .. } => Some(texts),
            _ => None,
        }
    }

    /// The texts that are to be given out, if it lists them, and their memory; none are left.
    pub(super) fn take_listed(&mut self, account: &Account) -> Result<Option<(TextList, Memory)>, PipelineError> {
        let Kind::Scanned { numbering: Numbering::Listed { texts, memory }, page, .. } = &mut self.kind else {
            return Ok(None);
        };
        *page = None;
        Ok(Some((std::mem::take(texts), std::mem::replace(memory, Memory::new(account, 0)?))))
    }

    /// Takes in the texts that another thread has listed: how much greater their numbers are now.
    ///
    /// # Errors
    /// No memory for both at once.
    pub(super) fn append_listed(&mut self, other: Self) -> Result<i64, PipelineError> {
        let (
            Kind::Scanned { numbering: Numbering::Listed { texts, memory }, .. },
            Kind::Scanned { numbering: Numbering::Listed { texts: more, memory: of_more }, .. },
        ) = (&mut self.kind, other.kind)
        else {
            return Ok(0);
        };
        let before = texts.len() as i64;
        // Besides what it has where it lies now.
        memory.grow(2 * more.size_bytes())?;
        texts.append(&more);
        drop((more, of_more));
        Ok(before)
    }

    pub(super) fn slot(&self) -> Slot {
        self.slot
    }

    /// What the codes stand for where a table says it.
    pub(super) fn distinct(&self) -> Option<&'r Distinct> {
        match &self.kind {
            Kind::Payload { distinct, .. } => Some(distinct),
            _ => None,
        }
    }

    /// The numbers or codes of some rows of a mini-block.
    pub(super) fn values(&mut self, view: &mut View<'_>, block: usize, rows: &[u16]) -> Result<Numbers, PipelineError> {
        match &mut self.kind {
            Kind::Number => view.numbers(self.slot, block, rows),
            Kind::Payload { step, payload, .. } => view.payload_codes(*step, *payload, block, rows),
            Kind::Scanned { column, numbering, page } => {
                let mut numbers = view.numbers(self.slot, block, rows)?;
                let row_group = view.row_group();
                let reader = view.reader(self.slot, *column)?;
                let entry_count = reader.text_count();
                let known = match page {
                    Some((of, known)) if *of == row_group => known,
                    _ => &mut page.insert((row_group, vec![UNKNOWN; entry_count])).1,
                };
                let is_valid = |valid: &Option<Vec<bool>>, at: usize| valid.as_ref().is_none_or(|valid| valid[at]);
                let Lane::Narrow(values) = &mut numbers.lane else { return Ok(numbers) };
                let mut new = Vec::new();
                for (at, value) in values.iter().enumerate().filter(|(at, _)| is_valid(&numbers.valid, *at)) {
                    match known.get(*value as usize) {
                        Some(&UNKNOWN) => new.push(*value as usize),
                        Some(_) => {}
                        None => {
                            let expected = format!("less than {entry_count}, the entries of the dictionary");
                            return Err(reader.place().mismatch(format!("the code {value} in row {at}"), expected));
                        }
                    }
                }
                if !new.is_empty() {
                    new.sort_unstable();
                    new.dedup();
                    numbering.number(&new, &reader.texts_of(&new)?, known)?;
                }
                for (at, value) in values.iter_mut().enumerate() {
                    *value = if is_valid(&numbers.valid, at) { known[*value as usize].into() } else { 0 };
                }
                Ok(numbers)
            }
        }
    }
}

/// The interners of a run: one for each text slot of a scanned column whose texts its sink tells apart.
pub(super) struct Interners {
    by_slot: Vec<(Slot, Interner)>,
}

impl Interners {
    pub(super) fn new(
        context: RunContext<'_>,
        slots: impl Iterator<Item = Slot>,
        account: &Account,
    ) -> Result<Self, PipelineError> {
        let mut by_slot: Vec<(Slot, Interner)> = Vec::new();
        for slot in slots {
            let info = context.pipeline.slot(slot);
            let is_new = by_slot.iter().all(|(of, _)| *of != slot);
            if is_new && info.value_type == ValueType::Text && matches!(info.origin, Origin::Column(_)) {
                by_slot.push((slot, Interner::new(account)?));
            }
        }
        Ok(Self { by_slot })
    }

    pub(super) fn of(&self, slot: Slot) -> Option<&Interner> {
        self.by_slot.iter().find(|(of, _)| *of == slot).map(|(_, interner)| interner)
    }

    /// Has the memory of all texts held with the rows that refer to them.
    pub(super) fn hand_over(self, memory: &Memory) {
        self.by_slot.into_iter().for_each(|(_, interner)| memory.absorb(interner.into_memory()));
    }

    /// The texts of each slot so far.
    pub(super) fn texts(&self) -> Vec<(Slot, Arc<TextList>)> {
        self.by_slot.iter().map(|(slot, interner)| (*slot, interner.texts())).collect()
    }
}

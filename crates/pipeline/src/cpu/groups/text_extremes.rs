//! The least or greatest text of each cell.
//!
//! **Invariants**: of a mini-block's rows with one cell the codes alone are compared where they are ordered as their
//! texts, else the texts' first bytes and, if these are the same, the texts; one is kept at most for each cell that a
//! mini-block has.
//!
//! **Concurrency**: plain values.

use std::cmp::Ordering::{self, Equal, Greater, Less};
use std::sync::Arc;

use arrow::array::{Array, ArrayAccessor, AsArray};
use arrow::datatypes::DataType;

use super::super::numbers::{Lane, Numbers};
use super::super::page_texts::beginning;
use super::super::texts::Texts;
use crate::{PipelineError, RowsetValues, TextList};

/// A cell without a row in the mini-block.
const NONE: u32 = u32::MAX;
/// Bytes that a kept text takes besides its own: a reference and two counts.
const TEXT_BYTES: usize = 32;

#[derive(Debug)]
pub(super) struct TextExtremes {
    greatest: bool,
    kept: Vec<Option<Arc<str>>>,
    /// The best code of the mini-block for each cell; [`NONE`] between mini-blocks.
    codes: Vec<u32>,
    /// What the best code was found by.
    numbers: Vec<u64>,
    size_bytes: usize,
}

impl TextExtremes {
    pub(super) fn new(greatest: bool) -> Self {
        Self { greatest, kept: Vec::new(), codes: Vec::new(), numbers: Vec::new(), size_bytes: 0 }
    }

    pub(super) fn resize(&mut self, cell_count: usize) {
        self.kept.resize(cell_count, None);
        self.codes.resize(cell_count, NONE);
        self.numbers.resize(cell_count, 0);
    }

    /// Bytes of the texts that are kept.
    pub(super) fn size_bytes(&self) -> usize {
        self.size_bytes
    }

    /// Takes rows of a mini-block in, by their cells and the codes of their texts. `reserve` is told how many bytes of
    /// texts there will be before each is kept.
    ///
    /// # Errors
    /// No memory; what `wrong` says of a code that stands for no UTF-8.
    pub(super) fn add(
        &mut self,
        cells: &[u32],
        codes: &Numbers,
        texts: &Texts<'_>,
        reserve: impl Fn(usize) -> Result<(), PipelineError>,
        wrong: impl Fn(u32) -> PipelineError,
    ) -> Result<(), PipelineError> {
        let touched = match texts.listed() {
            Some(texts) => match texts.data_type() {
                DataType::Utf8 => self.find_among(cells, codes, texts.as_string::<i32>()),
                DataType::LargeUtf8 => self.find_among(cells, codes, texts.as_string::<i64>()),
                DataType::Utf8View => self.find_among(cells, codes, texts.as_string_view()),
                // Only these are listed.
                _ => Vec::new(),
            },
            None if texts.are_sorted() => self.find(cells, codes, |code| code as u64, |_, _| Equal),
            None => self.find_by_texts(cells, codes, |code| texts.get(code)),
        };
        for cell in touched {
            let code = std::mem::replace(&mut self.codes[cell as usize], NONE);
            let text = std::str::from_utf8(texts.get(code as usize)).map_err(|_| wrong(code))?;
            if self.is_better(text, cell) {
                reserve(self.size_bytes + text.len() + TEXT_BYTES)?;
                self.keep(Arc::from(text), cell);
            }
        }
        Ok(())
    }

    /// Finds the best codes of a mini-block whose texts come in no order; the cells that have one.
    fn find_among<'t>(
        &mut self,
        cells: &[u32],
        codes: &Numbers,
        texts: impl ArrayAccessor<Item = &'t str> + Copy,
    ) -> Vec<u32> {
        self.find_by_texts(cells, codes, |code| texts.value(code).as_bytes())
    }

    fn find_by_texts<'t>(&mut self, cells: &[u32], codes: &Numbers, text: impl Fn(usize) -> &'t [u8]) -> Vec<u32> {
        self.find(cells, codes, |code| beginning(text(code)), |one, other| text(one).cmp(text(other)))
    }

    /// Finds the best codes of a mini-block by a number for each, and of codes with the same number by comparing them; the
    /// cells that have one.
    #[inline(always)]
    fn find(
        &mut self,
        cells: &[u32],
        codes: &Numbers,
        number_of: impl Fn(usize) -> u64,
        compare: impl Fn(usize, usize) -> Ordering,
    ) -> Vec<u32> {
        let Lane::Narrow(values) = &codes.lane else { return Vec::new() };
        let wanted = if self.greatest { Greater } else { Less };
        let mut touched = Vec::new();
        for (at, (cell, code)) in cells.iter().zip(values).enumerate() {
            if !codes.is_valid(at) {
                continue;
            }
            let (best, best_number) = (&mut self.codes[*cell as usize], &mut self.numbers[*cell as usize]);
            let number = number_of(*code as usize);
            let is_first = *best == NONE;
            if is_first {
                touched.push(*cell);
            }
            let order = || number.cmp(best_number).then_with(|| compare(*code as usize, *best as usize));
            if is_first || order() == wanted {
                (*best, *best_number) = (*code as u32, number);
            }
        }
        touched
    }

    /// Takes another's cell in.
    pub(super) fn merge(&mut self, other: &Self, from: u32, to: u32) {
        if let Some(text) = &other.kept[from as usize]
            && self.is_better(text, to)
        {
            self.keep(Arc::clone(text), to);
        }
    }

    fn is_better(&self, text: &str, cell: u32) -> bool {
        let kept = self.kept[cell as usize].as_deref();
        kept.is_none_or(|kept| if self.greatest { text > kept } else { text < kept })
    }

    fn keep(&mut self, text: Arc<str>, cell: u32) {
        self.size_bytes += text.len() + TEXT_BYTES;
        if let Some(before) = self.kept[cell as usize].replace(text) {
            self.size_bytes -= before.len() + TEXT_BYTES;
        }
    }

    /// Bytes that [`finish`](Self::finish) takes for so many cells: an order, codes, and at most all texts again.
    pub(super) fn finish_bytes(&self, cell_count: usize) -> usize {
        // A text's end takes less than what it does here besides its own bytes.
        cell_count * 2 * size_of::<u32>() + self.size_bytes
    }

    /// The texts of some cells; of those without a text any.
    pub(super) fn finish(&self, cells: &[u32]) -> RowsetValues {
        let text = |row: u32| self.kept[cells[row as usize] as usize].as_deref();
        // Equal ones side by side, so that each is listed once without a table of them.
        let mut order: Vec<u32> = (0..cells.len() as u32).collect();
        order.sort_unstable_by_key(|row| text(*row));
        let runs = || order.chunk_by(|one, next| text(*one) == text(*next)).filter(|run| text(run[0]).is_some());
        let dictionary = TextList::exactly(runs().filter_map(|run| text(run[0])));
        let mut codes = vec![0; cells.len()];
        for (number, run) in runs().enumerate() {
            run.iter().for_each(|row| codes[*row as usize] = number as u32);
        }
        RowsetValues::Texts { codes, dictionary: Arc::new(dictionary) }
    }
}

//! The least or greatest text of each cell.
//!
//! **Invariants**: of a mini-block's rows with one cell the codes alone are compared where they are ordered as their
//! texts; a text is looked at once for each cell that a mini-block has.
//!
//! **Concurrency**: plain values.

use std::cmp::Ordering::{Greater, Less};
use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::numbers::{Lane, Numbers};
use super::super::texts::Texts;
use crate::{RowsetValues, TextList};

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
    size_bytes: usize,
}

impl TextExtremes {
    pub(super) fn new(greatest: bool) -> Self {
        Self { greatest, kept: Vec::new(), codes: Vec::new(), size_bytes: 0 }
    }

    pub(super) fn resize(&mut self, cell_count: usize) {
        self.kept.resize(cell_count, None);
        self.codes.resize(cell_count, NONE);
    }

    /// Bytes of the texts that are kept.
    pub(super) fn size_bytes(&self) -> usize {
        self.size_bytes
    }

    /// Takes rows of a mini-block in, by their cells and the codes of their texts. `Err` with a code that stands for no
    /// UTF-8.
    pub(super) fn add(&mut self, cells: &[u32], codes: &Numbers, texts: &Texts<'_>) -> Result<(), u32> {
        let Lane::Narrow(values) = &codes.lane else { return Ok(()) };
        let mut touched = Vec::new();
        for (at, (cell, code)) in cells.iter().zip(values).enumerate() {
            if !codes.is_valid(at) {
                continue;
            }
            let (best, code) = (&mut self.codes[*cell as usize], *code as u32);
            if *best == NONE {
                touched.push(*cell);
                *best = code;
            } else if texts.compare(code as usize, *best as usize) == if self.greatest { Greater } else { Less } {
                *best = code;
            }
        }
        for cell in touched {
            let code = std::mem::replace(&mut self.codes[cell as usize], NONE);
            let text = std::str::from_utf8(texts.get(code as usize)).map_err(|_| code)?;
            if self.is_better(text, cell) {
                self.keep(Arc::from(text), cell);
            }
        }
        Ok(())
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

    /// The texts of some cells; of those without a text any.
    pub(super) fn finish(&self, cells: &[u32]) -> RowsetValues {
        let mut numbers: BTreeMap<&str, u32> = BTreeMap::new();
        let mut dictionary = TextList::new();
        let codes = cells
            .iter()
            .map(|cell| {
                let Some(text) = &self.kept[*cell as usize] else { return 0 };
                *numbers.entry(text).or_insert_with(|| {
                    dictionary.push(text);
                    dictionary.len() as u32 - 1
                })
            })
            .collect();
        RowsetValues::Texts { codes, dictionary: Arc::new(dictionary) }
    }
}

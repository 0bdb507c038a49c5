//! The texts of a page without a dictionary that the sink alone takes: of the rows that are left, and no others, they are
//! taken out of the page.
//!
//! **Concurrency**: a view of a page.

use std::ops::Range;

use thermocline_column_store::{Body, MINI_BLOCK_VALUES, Page, PageError, SymbolTexts, Texts};

use super::place::PagePlace;
use crate::{PipelineError, TextList};

/// See the module. The code of a text is its row, counted from the first mini-block.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeptTexts<'p> {
    stored: Stored<'p>,
    first_block: usize,
    row_count: usize,
}

#[derive(Debug, Clone, Copy)]
enum Stored<'p> {
    Plain(Texts<'p>),
    Symbols(SymbolTexts<'p>),
}

impl<'p> KeptTexts<'p> {
    /// Of some mini-blocks of a page; `None` if its texts are not spelt out.
    pub(super) fn of(page: &Page<'p>, mini_blocks: &Range<usize>) -> Option<Self> {
        let stored = match page.body() {
            Body::Texts(texts) => Stored::Plain(*texts),
            Body::Symbols(texts) => Stored::Symbols(*texts),
            _ => return None,
        };
        let first_block = mini_blocks.start;
        let end = page.value_count().min(mini_blocks.end * MINI_BLOCK_VALUES);
        Some(Self { stored, first_block, row_count: end.saturating_sub(first_block * MINI_BLOCK_VALUES) })
    }

    /// How many codes there are.
    pub(super) fn row_count(&self) -> usize {
        self.row_count
    }

    /// The texts of these codes, which rise.
    pub(super) fn texts_of(&self, codes: &[usize], place: &PagePlace) -> Result<TextList, PipelineError> {
        let mut found = TextList::new();
        let mut decoded = Vec::new();
        let block_of = |code: &usize| code / MINI_BLOCK_VALUES;
        for codes in codes.chunk_by(|one, next| block_of(one) == block_of(next)) {
            let index = self.first_block + block_of(&codes[0]);
            let places: Vec<u16> = codes.iter().map(|code| (code % MINI_BLOCK_VALUES) as u16).collect();
            let mut wrong = None;
            let mut push = |text: &[u8]| match std::str::from_utf8(text) {
                Ok(text) => found.push(text),
                Err(error) => wrong = Some(error),
            };
            let taken: Result<(), PageError> = match &self.stored {
                Stored::Plain(texts) => texts.for_each_of(index, &places, |text| {
                    push(text);
                    Ok(())
                }),
                Stored::Symbols(symbols) => symbols.encoded().for_each_of(index, &places, |encoded| {
                    decoded.clear();
                    symbols.decode_text(encoded, &mut decoded)?;
                    push(&decoded);
                    Ok(())
                }),
            };
            taken.map_err(|source| place.page_error(source))?;
            if let Some(error) = wrong {
                return Err(place.mismatch(format!("a text that is no UTF-8 ({error})"), "UTF-8".to_owned()));
            }
        }
        Ok(found)
    }
}

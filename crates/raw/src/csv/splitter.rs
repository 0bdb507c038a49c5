//! Where whole records end in a CSV file read piece by piece.
//!
//! Owns: [`Splitter`]. Does not own: reading, morsels, what is in the records.
//!
//! Invariants: the same rule for quotes as the decoder (`marks::QuoteState`), carried exactly across pieces of any
//! size; so a piece boundary never changes which newlines end a record.
//!
//! Concurrency: the state of a piece depends on every byte before it: one splitter per file, fed in file order.

use super::dialect::CsvFormat;
use super::marks::{BlockLoop, Marks, MaskSource, QuoteState, run_blocks};

/// Finds the ends of records in consecutive pieces of one file.
#[derive(Debug, Clone)]
pub struct Splitter {
    marks: Marks,
    state: QuoteState,
    /// At the start of a file, how much of a byte order mark was there so far: the first record begins behind it.
    mark_bytes: Option<usize>,
}

impl Splitter {
    /// A splitter that stands at the start of a record, at this offset in its file.
    pub fn new(format: &CsvFormat, offset_bytes: u64) -> Self {
        let mark_bytes = (offset_bytes == 0).then_some(0);
        Self { marks: format.marks(), state: QuoteState::default(), mark_bytes }
    }

    /// The offset in `chunk` just after the last newline that ends a record, or 0 when none does. Chunks follow each
    /// other in the file without gaps. Costs one `memchr` per chunk without quotes.
    pub fn last_record_end(&mut self, chunk: &[u8]) -> usize {
        let mark_bytes = self.pass_mark(chunk);
        match self.last_end_behind_mark(&chunk[mark_bytes..]) {
            0 => 0,
            end => mark_bytes + end,
        }
    }

    /// How many bytes `chunk` begins with that belong to a byte order mark.
    fn pass_mark(&mut self, chunk: &[u8]) -> usize {
        let Some(before) = self.mark_bytes.take() else { return 0 };
        let missing = &CsvFormat::BYTE_ORDER_MARK[before..];
        if missing.starts_with(chunk) || chunk.starts_with(missing) {
            let count = missing.len().min(chunk.len());
            self.mark_bytes = (count < missing.len()).then_some(before + count);
            return count;
        }
        // What looked like one is the start of the first field.
        if let Some(last) = before.checked_sub(1) {
            self.state = QuoteState::after_unquoted(CsvFormat::BYTE_ORDER_MARK[last], self.marks);
        }
        0
    }

    fn last_end_behind_mark(&mut self, chunk: &[u8]) -> usize {
        let Some(&last) = chunk.last() else { return 0 };
        if !self.state.is_inside() {
            let quoted = self.marks.quote.and_then(|quote| memchr::memchr(quote, chunk));
            if quoted.is_none() {
                self.state = QuoteState::after_unquoted(last, self.marks);
                return memchr::memrchr(b'\n', chunk).map_or(0, |at| at + 1);
            }
        }
        let (state, end) = run_blocks(LastEnd { chunk, state: self.state }, self.marks);
        self.state = state;
        end
    }
}

/// Just behind the newline that ends the record which `records` begin with; `None` when it does not end in there.
pub(crate) fn first_record_end(marks: Marks, records: &[u8]) -> Option<usize> {
    let newline = memchr::memchr(b'\n', records)?;
    // Without a quote nothing hides a newline.
    if marks.quote.and_then(|quote| memchr::memchr(quote, &records[..newline])).is_none() {
        return Some(newline + 1);
    }
    run_blocks(FirstEnd { records }, marks)
}

struct FirstEnd<'a> {
    records: &'a [u8],
}

impl BlockLoop for FirstEnd<'_> {
    type Output = Option<usize>;

    #[inline(always)]
    fn run<M: MaskSource>(self, source: M) -> Option<usize> {
        let mut state = QuoteState::default();
        let (blocks, tail) = self.records.as_chunks::<64>();
        for (index, block) in blocks.iter().enumerate() {
            let masks = source.masks(block);
            let newlines = state.field_ends(masks) & masks.newlines;
            if newlines != 0 {
                return Some(index * 64 + newlines.trailing_zeros() as usize + 1);
            }
        }
        if tail.is_empty() {
            return None;
        }
        let mut block = [0_u8; 64];
        block[..tail.len()].copy_from_slice(tail);
        let masks = source.masks(&block).truncated(tail.len());
        let newlines = state.partial_field_ends(masks, tail.len()) & masks.newlines;
        (newlines != 0).then(|| blocks.len() * 64 + newlines.trailing_zeros() as usize + 1)
    }
}

struct LastEnd<'a> {
    chunk: &'a [u8],
    state: QuoteState,
}

impl BlockLoop for LastEnd<'_> {
    type Output = (QuoteState, usize);

    #[inline(always)]
    fn run<M: MaskSource>(self, source: M) -> (QuoteState, usize) {
        let mut state = self.state;
        let mut end = 0;
        let (blocks, tail) = self.chunk.as_chunks::<64>();
        for (index, block) in blocks.iter().enumerate() {
            let masks = source.masks(block);
            let newlines = state.field_ends(masks) & masks.newlines;
            if newlines != 0 {
                end = (index + 1) * 64 - newlines.leading_zeros() as usize;
            }
        }
        if !tail.is_empty() {
            let mut block = [0_u8; 64];
            block[..tail.len()].copy_from_slice(tail);
            let masks = source.masks(&block).truncated(tail.len());
            let newlines = state.partial_field_ends(masks, tail.len()) & masks.newlines;
            if newlines != 0 {
                end = (blocks.len() + 1) * 64 - newlines.leading_zeros() as usize;
            }
        }
        (state, end)
    }
}

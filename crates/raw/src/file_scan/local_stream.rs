//! A local file cut in file order.
//!
//! **Owns**: [`LocalStream`]: one thread at a time reads and decompresses; the records it gets are decoded by whoever
//! holds them.

use std::ops::Range;

use thermocline_medium::BLOCK_BYTES;

use super::Format;
use super::cutter::{Cutter, Piece};
use super::input::Input;
use super::window::Window;
use crate::RawError;

/// Bytes read before records are looked for.
const STEP_BYTES: usize = BLOCK_BYTES;

/// The state of the stream.
pub(super) struct LocalStream {
    input: Input,
    cutter: Cutter,
    piece_bytes: usize,
    step_bytes: usize,
    index: u64,
    /// Bytes of the file that stand for the pieces handed out.
    file_offset: u64,
    is_at_end: bool,
}

impl LocalStream {
    pub(super) fn new(input: Input, format: &Format, range: &Range<u64>, piece_bytes: usize) -> Self {
        Self {
            input,
            cutter: Cutter::new(format, range.start),
            piece_bytes,
            step_bytes: STEP_BYTES.min(piece_bytes),
            index: 0,
            file_offset: range.start,
            is_at_end: false,
        }
    }

    /// The next whole records, their number and the bytes of the file they stand for; `spare` is a buffer to use.
    ///
    /// # Errors
    /// Failures of reading and decompressing, a record that is too long. Afterwards the stream is at its end.
    pub(super) fn next(&mut self, spare: Window) -> Result<Option<(u64, Range<u64>, Piece)>, RawError> {
        if self.is_at_end {
            return Ok(None);
        }
        self.fill().inspect_err(|_| self.is_at_end = true)?;
        if self.is_at_end && self.cutter.window().content().is_empty() {
            return Ok(None);
        }
        let piece = self.cutter.take(spare, self.is_at_end);
        let file_end = self.input.file_bytes();
        let range = self.file_offset..file_end;
        let index = self.index;
        self.index += 1;
        self.file_offset = file_end;
        Ok(Some((index, range, piece)))
    }

    fn fill(&mut self) -> Result<(), RawError> {
        while self.cutter.whole_bytes() < self.piece_bytes {
            let read = self.input.append(self.cutter.window(), self.step_bytes)?;
            self.cutter.find_records(self.input.path())?;
            if read == 0 {
                self.is_at_end = true;
                break;
            }
        }
        Ok(())
    }

    /// Offset after the last whole record found.
    pub(super) fn whole_end(&self) -> u64 {
        self.cutter.whole_end()
    }
}

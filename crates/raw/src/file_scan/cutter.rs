//! Whole records out of a stream of bytes, for compressed files and for CSV, where a newline may stand inside quotes.
//!
//! **Owns**: [`Cutter`]: what was read of the stream and not yet handed out, and where its last whole record ends. It
//! reads nothing itself, so that local and remote streams are cut by the same code.
//!
//! **Invariants**: pieces follow each other in file order without gaps; each ends at a record's end, except perhaps the
//! file's last.

use std::sync::Arc;

use super::Format;
use super::ranges::check_length;
use super::window::Window;
use crate::RawError;
use crate::csv::{CsvFormat, Splitter};

/// Whole records of a stream.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) window: Window,
    /// Of its first byte in the decompressed file.
    pub(super) offset: u64,
}

/// The state of the cut.
#[derive(Debug)]
pub(super) struct Cutter {
    splitter: Option<Splitter>,
    window: Window,
    /// Length of the window's whole records.
    whole: usize,
    /// Length of the window that the splitter has seen.
    searched: usize,
    offset: u64,
    /// Whether the first record is a header that is still to come. Blank lines before it count as not yet read: who goes
    /// on behind them would take it for a record.
    is_header_due: bool,
    /// Offset after the last record's end that was found: what follows it may yet become longer.
    whole_end: u64,
}

impl Cutter {
    /// Stands at the start of a record at `offset`.
    pub(super) fn new(format: &Format, offset: u64) -> Self {
        let splitter = match format {
            Format::Csv(format) => Some(Splitter::new(format, offset)),
            Format::Ndjson => None,
        };
        let is_header_due = offset == 0 && matches!(format, Format::Csv(format) if format.has_header);
        Self { splitter, window: Window::default(), whole: 0, searched: 0, offset, is_header_due, whole_end: offset }
    }

    /// Where the stream's next bytes go; call [`find_records`](Self::find_records) once they are there.
    pub(super) fn window(&mut self) -> &mut Window {
        &mut self.window
    }

    /// Finds the records' ends in what was added to the window.
    ///
    /// # Errors
    /// A record that is too long.
    pub(super) fn find_records(&mut self, file: &Arc<str>) -> Result<(), RawError> {
        let fresh = &self.window.content()[self.searched..];
        let end = match &mut self.splitter {
            Some(splitter) => splitter.last_record_end(fresh),
            None => memchr::memrchr(b'\n', fresh).map_or(0, |at| at + 1),
        };
        if end > 0 {
            self.whole = self.searched + end;
            if self.is_header_due {
                let records = &self.window.content()[..self.whole];
                let mark = if self.offset == 0 { CsvFormat::BYTE_ORDER_MARK } else { &[] };
                let records = records.strip_prefix(mark).unwrap_or(records);
                self.is_header_due = records.split(|&byte| byte == b'\n').all(|line| matches!(line, [] | [b'\r']));
            }
            if !self.is_header_due {
                self.whole_end = self.offset + self.whole as u64;
            }
        }
        self.searched = self.window.content().len();
        check_length(&self.window.content()[self.whole..], file, self.offset + self.whole as u64)
    }

    /// Bytes of whole records that can be handed out.
    pub(super) fn whole_bytes(&self) -> usize {
        self.whole
    }

    /// Offset after the last whole record; its start while the header is still to come.
    pub(super) fn whole_end(&self) -> u64 {
        self.whole_end
    }

    /// Hands out the whole records, with `is_end` also what follows them; `spare` is used for the bytes to come.
    pub(super) fn take(&mut self, mut spare: Window, is_end: bool) -> Piece {
        let length = if is_end { self.window.content().len() } else { self.whole };
        spare.clear();
        if length == 0 {
            // A long record is still being gathered, and stays where it is.
            return Piece { offset: self.offset, window: spare };
        }
        spare.extend(&self.window.content()[length..]);
        let mut window = std::mem::replace(&mut self.window, spare);
        window.truncate(length);
        let piece = Piece { offset: self.offset, window };
        self.offset += length as u64;
        self.whole = 0;
        self.searched -= length;
        piece
    }
}

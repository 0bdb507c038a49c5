//! Morsels cut in file order, for compressed files and for CSV, where a newline may stand inside quotes.

use std::ops::Range;
use std::sync::Arc;

use memchr::memrchr;
use thermocline_medium::BLOCK_BYTES;

use super::input::Input;
use super::{Content, Format, Morsel};
use crate::csv::Splitter;
use crate::{MAX_RECORD_BYTES, RawError};

/// The state of the cut: what follows the last whole record handed out.
pub(super) struct Sequential {
    input: Input,
    splitter: Option<Splitter>,
    carry: Vec<u8>,
    /// Offset of the carry's first byte in the decompressed file.
    offset: u64,
    /// Bytes of the file that stand for the morsels handed out.
    file_offset: u64,
    morsel_bytes: usize,
    index: u64,
    at_end: bool,
    covered_end: Option<u64>,
}

impl Sequential {
    pub(super) fn new(input: Input, format: &Format, range: &Range<u64>, morsel_bytes: u64) -> Self {
        let splitter = match format {
            Format::Csv(format) => Some(Splitter::new(format)),
            Format::Ndjson => None,
        };
        Self {
            input,
            splitter,
            carry: Vec::new(),
            offset: range.start,
            file_offset: range.start,
            // Decoding works on the bytes read here: small enough for the third-level cache.
            morsel_bytes: (morsel_bytes as usize).clamp(1, 4 * BLOCK_BYTES),
            index: 0,
            at_end: false,
            covered_end: None,
        }
    }

    /// The next whole records.
    pub(super) fn next(&mut self, path: &Arc<str>) -> Result<Option<Morsel>, RawError> {
        let mut bytes = std::mem::take(&mut self.carry);
        while !self.at_end {
            let searched = bytes.len();
            let read = self.input.append(&mut bytes, self.morsel_bytes)?;
            if read < self.morsel_bytes {
                self.at_end = true;
            }
            let fresh = &bytes[searched..];
            let end = match &mut self.splitter {
                Some(splitter) => splitter.last_record_end(fresh),
                None => memrchr(b'\n', fresh).map_or(0, |at| at + 1),
            };
            if end > 0 {
                let length = searched + end;
                self.covered_end = Some(self.offset + length as u64);
                if !self.at_end || length == bytes.len() {
                    self.carry = bytes.split_off(length);
                    return Ok(Some(self.morsel(bytes)));
                }
            }
            if bytes.len() > MAX_RECORD_BYTES && end == 0 {
                return Err(RawError::RecordTooLong { file: Arc::clone(path), offset_bytes: self.offset });
            }
        }
        // The last record lacks its newline.
        Ok((!bytes.is_empty()).then(|| self.morsel(bytes)))
    }

    /// Offset after the last record that ends in a newline, as far as was read.
    pub(super) fn covered_end(&self) -> Option<u64> {
        self.covered_end
    }

    fn morsel(&mut self, bytes: Vec<u8>) -> Morsel {
        let file_end = self.input.file_bytes();
        let morsel = Morsel {
            index: self.index,
            range: self.file_offset..file_end,
            content: Content::Records { offset: self.offset, bytes },
        };
        if let Content::Records { bytes, .. } = &morsel.content {
            self.offset += bytes.len() as u64;
        }
        self.index += 1;
        self.file_offset = file_end;
        morsel
    }
}

//! Morsels by byte range, for files in which every newline ends a record.
//!
//! A morsel `[a, b)` holds the records that *start* in it: the one running over `a` belongs to the morsel before, the
//! one running over `b` is read to its end. Reads are windows of one hash block, which stay in the second-level cache
//! between the read, the hash and the decoder.

use std::ops::Range;
use std::sync::Arc;

use memchr::{memchr, memrchr};
use thermocline_medium::{BLOCK_BYTES, HashRecorder, PinnedFile, RemoteFile};

use super::window::Window;
use crate::{Decoder, MAX_RECORD_BYTES, RawError};

/// Bytes first read past a morsel's end, to finish its last record; more and more if that does not do.
const OVERRUN_BYTES: u64 = 64 << 10;

/// Decodes morsels of one local file.
pub(super) struct RangeReader<'a> {
    pub(super) file: &'a PinnedFile,
    /// Of the scan.
    pub(super) whole: &'a Range<u64>,
    /// Bytes of a read: a hash block, except in tests that want small ones and no hashes.
    pub(super) window_bytes: u64,
    pub(super) recorder: Option<&'a HashRecorder>,
    pub(super) window: &'a mut Window,
}

impl RangeReader<'_> {
    /// Decodes the records that start in `range`. Returns the offset after the last one that ends in a newline, or 0 if
    /// there was none.
    pub(super) fn decode(&mut self, range: &Range<u64>, decoder: &mut dyn Decoder) -> Result<u64, RawError> {
        self.window.clear();
        // Hashes are of whole blocks: a scan that starts within one reads it from its start.
        let mut at = match self.recorder {
            Some(_) => range.start / self.window_bytes * self.window_bytes,
            None => range.start,
        };
        let mut is_at_record = range.start == self.whole.start || self.byte_before(range.start)? == b'\n';
        let mut covered = 0;
        // Of the window's first byte.
        let mut offset = range.start;
        while at < range.end {
            let end = (at / self.window_bytes * self.window_bytes + self.window_bytes).min(range.end);
            self.read_block(at, end, range.start.saturating_sub(at) as usize)?;
            at = end;
            if !is_at_record {
                let skipped = match memchr(b'\n', self.window.content()) {
                    Some(newline) => {
                        is_at_record = true;
                        newline + 1
                    }
                    None => self.window.content().len(),
                };
                self.window.consume(skipped);
                offset += skipped as u64;
            }
            if let Some(newline) = memrchr(b'\n', self.window.content()) {
                decoder.decode(&self.window.content()[..=newline], offset)?;
                self.window.consume(newline + 1);
                offset += newline as u64 + 1;
                covered = offset;
            }
            self.check_length(offset)?;
        }
        if !is_at_record || self.window.content().is_empty() {
            return Ok(covered);
        }
        // The last record runs on.
        let mut step = OVERRUN_BYTES.min(self.window_bytes);
        while at < self.whole.end {
            let end = (at + step).min(self.whole.end);
            let searched = self.window.content().len();
            self.read(at, end)?;
            at = end;
            step = (step * 2).min(BLOCK_BYTES as u64);
            if let Some(newline) = memchr(b'\n', &self.window.content()[searched..]) {
                let length = searched + newline + 1;
                decoder.decode(&self.window.content()[..length], offset)?;
                return Ok(offset + length as u64);
            }
            self.check_length(offset)?;
        }
        decoder.decode(self.window.content(), offset)?;
        Ok(covered)
    }

    fn check_length(&self, offset: u64) -> Result<(), RawError> {
        check_length(self.window.content(), self.file.path(), offset)
    }

    fn byte_before(&self, offset: u64) -> Result<u8, RawError> {
        let mut byte = [0];
        self.file.read_exact_at(&mut byte, offset - 1)?;
        Ok(byte[0])
    }

    /// Appends `[at, end)` without its first `skipped` bytes, and hashes it as the block it is.
    fn read_block(&mut self, at: u64, end: u64, skipped: usize) -> Result<(), RawError> {
        let kept = self.window.content().len();
        self.read(at, end)?;
        if let Some(recorder) = self.recorder {
            // A morsel ends within a block only at the scan's end.
            if at.is_multiple_of(self.window_bytes) && (end - at == self.window_bytes || end == self.whole.end) {
                recorder.record(at / self.window_bytes, &self.window.content()[kept..]);
            }
        }
        // Only the first block of a scan has bytes before the first record, and nothing is kept then.
        debug_assert!(skipped == 0 || kept == 0);
        self.window.consume(skipped);
        Ok(())
    }

    fn read(&mut self, at: u64, end: u64) -> Result<(), RawError> {
        let wanted = (end - at) as usize;
        let read = self.file.read_at(self.window.room(wanted), at)?;
        if read < wanted {
            return Err(RawError::Truncated {
                file: Arc::clone(self.file.path()),
                offset_bytes: at + read as u64,
                expected_bytes: self.whole.end,
            });
        }
        self.window.filled(wanted);
        Ok(())
    }
}

/// An error when a record's beginning alone is too long.
pub(super) fn check_length(record: &[u8], file: &Arc<str>, offset: u64) -> Result<(), RawError> {
    if record.len() > MAX_RECORD_BYTES {
        return Err(RawError::RecordTooLong { file: Arc::clone(file), offset_bytes: offset });
    }
    Ok(())
}

/// The whole records that start in `range` of a remote file, and the offset of the first.
pub(super) async fn fetch(
    file: &RemoteFile,
    range: &Range<u64>,
    whole: &Range<u64>,
) -> Result<(Window, u64), RawError> {
    let mut window = Window::default();
    // One byte more in front tells whether a record starts at the border.
    let first = range.start.saturating_sub(1).max(whole.start);
    window.extend(&file.read_range(first..range.end).await?);
    let mut offset = first;
    if first < range.start {
        let Some(newline) = memchr(b'\n', window.content()) else {
            window.clear();
            return Ok((window, range.end));
        };
        window.consume(newline + 1);
        offset += newline as u64 + 1;
    }
    if matches!(window.content().last(), None | Some(b'\n')) {
        return Ok((window, offset));
    }
    // The last record runs on.
    let mut at = range.end;
    while at < whole.end {
        let end = (at + BLOCK_BYTES as u64).min(whole.end);
        let searched = window.content().len();
        window.extend(&file.read_range(at..end).await?);
        at = end;
        if let Some(newline) = memchr(b'\n', &window.content()[searched..]) {
            window.truncate(searched + newline + 1);
            break;
        }
        let record = memrchr(b'\n', window.content()).map_or(0, |newline| newline + 1);
        check_length(&window.content()[record..], &file.version().path, offset + record as u64)?;
    }
    Ok((window, offset))
}

//! Morsels by byte range, for files in which every newline ends a record.
//!
//! A morsel `[a, b)` holds the records that *start* in it: the one running over `a` belongs to the morsel before, the one
//! running over `b` is read to its end. Reads are windows of one hash block, which stay in the second-level cache
//! between the read, the hash and the decoder.

use std::ops::Range;
use std::sync::Arc;

use memchr::{memchr, memrchr};
use thermocline_medium::{BLOCK_BYTES, HashRecorder, PinnedFile, RemoteFile};

use crate::{Decoder, MAX_RECORD_BYTES, RawError};

/// Bytes read at once past a morsel's end, to finish its last record.
const OVERRUN_BYTES: usize = 64 << 10;

/// Decodes the records of morsel `range` of a scan over `whole`. Returns the offset after the last record that ends in a
/// newline, or 0 if there was none.
pub(super) fn decode(
    file: &PinnedFile,
    range: &Range<u64>,
    whole: &Range<u64>,
    decoder: &mut dyn Decoder,
    buffer: &mut Vec<u8>,
    recorder: Option<&HashRecorder>,
) -> Result<u64, RawError> {
    let mut reader = Reader { file, recorder, end: whole.end, buffer };
    reader.buffer.clear();
    // Hashes are of whole blocks: a scan that starts within one reads it from its start.
    let block = BLOCK_BYTES as u64;
    let mut at = if recorder.is_some() { range.start / block * block } else { range.start };
    // Is a record's start at `range.start`?
    let mut aligned = range.start == whole.start || byte_before(file, range.start)? == Some(b'\n');
    let mut covered = 0;
    // Offset of the buffer's first byte.
    let mut offset = range.start;
    while at < range.end {
        let end = (at / block * block + block).min(range.end);
        let skipped = range.start.saturating_sub(at) as usize;
        reader.read_block(at, end, skipped)?;
        at = end;
        if !aligned {
            let Some(newline) = memchr(b'\n', reader.buffer) else {
                offset += reader.buffer.len() as u64;
                reader.buffer.clear();
                continue;
            };
            aligned = true;
            offset += newline as u64 + 1;
            reader.buffer.drain(..=newline);
        }
        if let Some(newline) = memrchr(b'\n', reader.buffer) {
            decoder.decode(&reader.buffer[..=newline], offset)?;
            offset += newline as u64 + 1;
            covered = offset;
            reader.buffer.drain(..=newline);
        }
        check_length(file, reader.buffer, offset)?;
    }
    if !aligned || reader.buffer.is_empty() {
        return Ok(covered);
    }
    // The last record runs on.
    let mut searched = reader.buffer.len();
    while at < whole.end {
        let end = (at + OVERRUN_BYTES as u64).min(whole.end);
        reader.append(at, end)?;
        at = end;
        if let Some(newline) = memchr(b'\n', &reader.buffer[searched..]) {
            let length = searched + newline + 1;
            decoder.decode(&reader.buffer[..length], offset)?;
            return Ok(offset + length as u64);
        }
        searched = reader.buffer.len();
        check_length(file, reader.buffer, offset)?;
    }
    decoder.decode(reader.buffer, offset)?;
    Ok(covered)
}

fn check_length(file: &PinnedFile, record: &[u8], offset: u64) -> Result<(), RawError> {
    if record.len() > MAX_RECORD_BYTES {
        return Err(RawError::RecordTooLong { file: Arc::clone(file.path()), offset_bytes: offset });
    }
    Ok(())
}

fn byte_before(file: &PinnedFile, offset: u64) -> Result<Option<u8>, RawError> {
    let Some(before) = offset.checked_sub(1) else { return Ok(None) };
    let mut byte = [0];
    Ok((file.read_at(&mut byte, before)? == 1).then_some(byte[0]))
}

struct Reader<'a> {
    file: &'a PinnedFile,
    recorder: Option<&'a HashRecorder>,
    end: u64,
    buffer: &'a mut Vec<u8>,
}

impl Reader<'_> {
    /// Appends `[at, end)` without its first `skipped` bytes, and hashes it as the block it is.
    fn read_block(&mut self, at: u64, end: u64, skipped: usize) -> Result<(), RawError> {
        let kept = self.buffer.len();
        self.append(at, end)?;
        if let Some(recorder) = self.recorder {
            let block = BLOCK_BYTES as u64;
            // A morsel may end within a block only at the scan's end, where the file has no more of it.
            if at.is_multiple_of(block) && (end.is_multiple_of(block) || end == self.end) {
                recorder.record(at / block, &self.buffer[kept..]);
            }
        }
        if skipped > 0 {
            self.buffer.drain(kept..kept + skipped);
        }
        Ok(())
    }

    fn append(&mut self, at: u64, end: u64) -> Result<(), RawError> {
        let kept = self.buffer.len();
        let wanted = (end - at) as usize;
        self.buffer.resize(kept + wanted, 0);
        let read = self.file.read_at(&mut self.buffer[kept..], at)?;
        if read < wanted {
            return Err(RawError::Truncated {
                file: Arc::clone(self.file.path()),
                offset_bytes: at + read as u64,
                expected_bytes: self.end,
            });
        }
        Ok(())
    }
}

/// The whole records that start in `range` of a remote file, and the offset of the first.
pub(super) async fn fetch(
    file: &RemoteFile,
    range: &Range<u64>,
    whole: &Range<u64>,
) -> Result<(Vec<u8>, u64), RawError> {
    // One byte more in front tells whether a record starts at the border.
    let lead = u64::from(range.start > whole.start);
    let mut bytes = file.read_range(range.start - lead..range.end).await?.to_vec();
    let mut offset = range.start;
    if lead == 1 {
        let Some(newline) = memchr(b'\n', &bytes) else { return Ok((Vec::new(), range.end)) };
        bytes.drain(..=newline);
        offset = range.start + newline as u64;
    }
    let mut at = range.end;
    let mut searched = bytes.len().saturating_sub(1);
    if bytes.is_empty() || bytes.last() == Some(&b'\n') {
        return Ok((bytes, offset));
    }
    while at < whole.end {
        let end = (at + BLOCK_BYTES as u64).min(whole.end);
        bytes.extend_from_slice(&file.read_range(at..end).await?);
        at = end;
        if let Some(newline) = memchr(b'\n', &bytes[searched..]) {
            bytes.truncate(searched + newline + 1);
            break;
        }
        searched = bytes.len();
        if bytes.len() as u64 - (range.end - offset) > MAX_RECORD_BYTES as u64 {
            return Err(RawError::RecordTooLong { file: Arc::clone(&file.version().path), offset_bytes: offset });
        }
    }
    Ok((bytes, offset))
}

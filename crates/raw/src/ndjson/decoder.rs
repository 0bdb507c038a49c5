//! NDJSON records to columns.
//!
//! **Owns**: cutting a buffer into lines, the outer rules of a record, what happens to bad ones, and the words of
//! errors.
//!
//! **Does not own**: the inside of a record (`scope` and below).
//!
//! **Invariants**: a record is a line; blank lines are none. It begins with `{` and ends with `}`. Its end is found
//! before it is walked, so that nothing in it can make the walk run into the next record.

use std::sync::Arc;

use thermocline_predicate::FieldPath;

use super::bad::{Bad, What};
use super::byte_scan::{byte, skip_space};
use super::program::{Output, Program};
use super::scope::Scope;
use super::skip::skip_value;
use super::validate::validate_record;
use super::walk::{Culprit, Walk};
use crate::error::{Fault, MAX_RECORD_BYTES, quote_seen};
use crate::{Decoder, MapPiece, MappedRecords, OnError, RawError, RecordPositions, Rows, ScanPlan};

/// Text before a fault that is shown where the fault itself is an end.
const TAIL_BYTES: usize = 20;

/// Decodes NDJSON under a plan.
#[derive(Debug)]
pub struct NdjsonDecoder {
    file: Arc<str>,
    record: Scope,
    outputs: Vec<Output>,
    on_error: OnError,
    is_strict: bool,
    scratch: String,
    record_count: u64,
    skipped_count: u64,
    positions: Option<RecordPositions>,
    map_paths: Vec<FieldPath>,
    map_piece: Option<MapPiece>,
}

impl NdjsonDecoder {
    /// A decoder for records of `file`, which is only named in messages.
    ///
    /// # Errors
    /// Columns of types that NDJSON cannot hold, predicate fields without a type, paths that are empty or too long.
    pub fn new(plan: &ScanPlan, file: Arc<str>) -> Result<Self, RawError> {
        let Program { record, outputs, map_paths } = Program::compile(plan)?;
        Ok(Self {
            file,
            record,
            outputs,
            on_error: plan.on_error,
            is_strict: plan.strict,
            scratch: String::new(),
            record_count: 0,
            skipped_count: 0,
            positions: plan.positions.then(RecordPositions::default),
            map_piece: plan.map.then(|| MapPiece::new(&map_paths)),
            map_paths,
        })
    }

    /// Reads the line `buf[start..end]`; whether it `has_newline` behind it.
    #[inline]
    fn line(&mut self, buf: &[u8], start: usize, end: usize, has_newline: bool, offset: u64) -> Result<(), RawError> {
        let first = skip_space(buf, start);
        if first >= end {
            return Ok(());
        }
        if end - first > MAX_RECORD_BYTES {
            return Err(RawError::RecordTooLong { file: Arc::clone(&self.file), offset_bytes: offset + first as u64 });
        }
        let mut last = end;
        while matches!(buf[last - 1], b' ' | b'\t' | b'\r') {
            last -= 1;
        }
        let mut walk = Walk { buf, end: last, scratch: &mut self.scratch, culprit: None };
        let outcome = read_record(&mut self.record, &mut walk, first, self.is_strict || !has_newline);
        if let Some(piece) = &mut self.map_piece {
            match &outcome {
                Err(bad) if !bad.is_rejection() => piece.spoil(),
                _ => piece.push(offset + first as u64, self.record.codes(first)),
            }
        }
        match outcome {
            Ok(()) => {
                self.record_count += 1;
                if let Some(positions) = &mut self.positions {
                    positions.push(offset + first as u64);
                }
            }
            Err(bad) if bad.is_rejection() => self.record_count += 1,
            Err(bad) => {
                let culprit = walk.culprit;
                return self.bad_record(bad, culprit, &buf[..last], first, has_newline, offset);
            }
        }
        Ok(())
    }

    #[cold]
    fn bad_record(
        &mut self,
        bad: Bad,
        culprit: Option<Culprit>,
        buf: &[u8],
        first: usize,
        has_newline: bool,
        offset: u64,
    ) -> Result<(), RawError> {
        if bad.what() == What::ColumnFull {
            let column = culprit.map_or_else(String::new, |culprit| culprit.column.to_string());
            return Err(RawError::ColumnFull { file: Arc::clone(&self.file), column });
        }
        if self.on_error == OnError::Skip {
            self.skipped_count += 1;
            return Ok(());
        }
        Err(error_of(&self.file, bad, culprit, buf, first, has_newline, offset))
    }
}

/// Reads the record in `walk.buf[first..walk.end]`.
#[inline]
fn read_record(record: &mut Scope, walk: &mut Walk<'_>, first: usize, validates: bool) -> Result<(), Bad> {
    if byte(walk.buf, first) != b'{' {
        return Err(Bad::new(first, What::RecordStart));
    }
    if validates {
        validate_record(walk.buf, first, walk.end)?;
    }
    if walk.buf[walk.end - 1] != b'}' {
        return Err(Bad::new(walk.end, What::RecordEnd));
    }
    record.read::<true>(walk, first)?;
    Ok(())
}

/// The error for a fault in the record `buf[first..]`, where `buf[0]` is at `offset` in the file.
pub(super) fn error_of(
    file: &Arc<str>,
    bad: Bad,
    culprit: Option<Culprit>,
    buf: &[u8],
    first: usize,
    has_newline: bool,
    offset: u64,
) -> RawError {
    let end = buf.len();
    let at = bad.at().min(end);
    let seen = match bad.what() {
        What::Mismatch => {
            let value_end = skip_value(buf, at, end, 0).unwrap_or(end);
            quote_seen(&buf[at..value_end])
        }
        _ if at == end => {
            format!("the end of the line after {}", quote_seen(&buf[first.max(end.saturating_sub(TAIL_BYTES))..]))
        }
        _ => quote_seen(&buf[at..]),
    };
    let (column, expected) = match culprit {
        Some(culprit) => (Some(culprit.column.to_string()), culprit.expected),
        None => (None, bad.what().expected().to_owned()),
    };
    let is_mismatch = bad.what() == What::Mismatch;
    let expected =
        if has_newline || is_mismatch { expected } else { format!("{expected} (the file ends in this record)") };
    let file = Arc::clone(file);
    let fault = Box::new(Fault { file, offset_bytes: offset + at as u64, line: None, column, seen, expected });
    match bad.what() {
        What::Mismatch => RawError::Mismatch(fault),
        What::TooDeep => RawError::TooDeep(fault),
        _ => RawError::Malformed(fault),
    }
}

/// The mark that some programs put at the start of a UTF-8 file.
pub(super) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

impl Decoder for NdjsonDecoder {
    fn decode(&mut self, records: &[u8], file_offset: u64) -> Result<(), RawError> {
        let mut start =
            if file_offset == 0 && records.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
        while start < records.len() {
            let newline = memchr::memchr(b'\n', &records[start..]).map(|at| start + at);
            let end = newline.unwrap_or(records.len());
            self.line(records, start, end, newline.is_some(), file_offset)?;
            start = end + 1;
        }
        Ok(())
    }

    fn map_paths(&self) -> &[FieldPath] {
        &self.map_paths
    }

    fn decode_mapped(&mut self, content: &[u8], file_offset: u64, mapped: MappedRecords<'_>) -> Result<(), RawError> {
        for (record, codes) in mapped.iter(file_offset, content.len(), self.map_paths.len()) {
            let (first, end) = (record.start, record.end);
            let mut walk = Walk { buf: content, end, scratch: &mut self.scratch, culprit: None };
            let outcome = self.record.read_known(&mut walk, first, codes);
            let has_rows = outcome.is_ok();
            if outcome.is_err_and(|bad| !bad.is_rejection()) {
                let newline = memchr::memchr(b'\n', &content[record]).map(|at| first + at);
                self.line(content, first, newline.unwrap_or(end), newline.is_some(), file_offset)?;
                continue;
            }
            self.record_count += 1;
            if has_rows && let Some(positions) = &mut self.positions {
                positions.push(file_offset + first as u64);
            }
            if let Some(piece) = &mut self.map_piece {
                piece.push(file_offset + first as u64, codes.iter().copied());
            }
        }
        Ok(())
    }

    fn row_count(&self) -> usize {
        self.record.list.as_ref().map_or(self.record.row_count(), |list| list.elements.row_count())
    }

    fn finish(&mut self) -> Result<Rows, RawError> {
        let row_count = Decoder::row_count(self);
        let arrow = |source| RawError::Arrow { file: Arc::clone(&self.file), source };
        let mut records = Vec::with_capacity(self.record.slots.len());
        for slot in &mut self.record.slots {
            records.push(slot.builder.finish().map_err(arrow)?);
        }
        let mut elements = Vec::new();
        let mut element_offsets = None;
        if let Some(list) = &mut self.record.list {
            element_offsets = Some(list.take_offsets());
            for slot in &mut list.elements.slots {
                elements.push(slot.builder.finish().map_err(arrow)?);
            }
        }
        self.record.clear();
        let columns = self
            .outputs
            .iter()
            .map(|output| match *output {
                Output::Record(slot) => Arc::clone(&records[slot]),
                Output::Element(slot) => Arc::clone(&elements[slot]),
            })
            .collect();
        Ok(Rows {
            columns,
            element_offsets,
            row_count,
            record_count: std::mem::take(&mut self.record_count),
            skipped_count: std::mem::take(&mut self.skipped_count),
            positions: self.positions.as_mut().map(std::mem::take),
            map_piece: self.map_piece.as_mut().map(MapPiece::take),
        })
    }
}

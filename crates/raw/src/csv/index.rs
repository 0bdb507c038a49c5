//! Where each field of a window of records ends.
//!
//! Owns: [`RecordIndex`], two flat lists per window: the offset of the delimiter or newline that ends each field, and
//! for each record the number of fields up to its end. A field of any record is then one look-up, and the field count
//! of a record one subtraction, so that columns nobody asked for cost their bytes in the structural scan and nothing
//! else. Does not own: quotes inside a field's bytes (`field`), what a field means (`decoder`).
//!
//! Invariants: offsets are below 2^32 (windows are; see [`WINDOW_LIMIT_BYTES`]); `records` is ascending and its last
//! entry counts only whole records.
//!
//! Concurrency: each decoder has its own.

use std::ops::Range;

use super::marks::{BlockLoop, Marks, MaskSource, QuoteState, run_blocks};
use crate::error::MAX_RECORD_BYTES;

/// Windows are indexed by `u32`; they double until they hold a record or exceed the longest record allowed.
const WINDOW_LIMIT_BYTES: usize = 4 * MAX_RECORD_BYTES;

/// Larger windows hold a long record: how much room their index takes is counted first, since an entry for each of
/// their bytes would take eight times as many bytes.
const COUNTED_FROM_BYTES: usize = 256 << 10;

/// Entries of either list that are kept for the next windows: those of a window that is not counted.
const KEPT_ENTRIES: usize = COUNTED_FROM_BYTES + SLACK_ENTRIES;

/// The end of the window may end a record, and the scan stores eight at a time.
const SLACK_ENTRIES: usize = 72;

/// Field and record ends of one window.
#[derive(Debug, Default)]
pub(crate) struct RecordIndex {
    /// Longer than `field_count`: the tail is scratch for the unconditional stores of the scan.
    field_ends: Vec<u32>,
    field_count: usize,
    /// Longer than `record_count`, likewise.
    record_field_ends: Vec<u32>,
    record_count: usize,
    /// Whether the last record ended with the window inside quotes.
    open_quote: bool,
}

impl RecordIndex {
    /// Indexes `window`, which starts with a record. When `is_last`, the end of the window also ends a record; else
    /// what follows the last newline is left out.
    pub(crate) fn build(&mut self, window: &[u8], marks: Marks, is_last: bool) {
        debug_assert!(window.len() <= WINDOW_LIMIT_BYTES);
        let (most_fields, most_records) = match window.len() {
            // At most one entry per byte.
            len @ ..=COUNTED_FROM_BYTES => (len, len),
            _ => (
                memchr::memchr2_iter(marks.delimiter, b'\n', window).count(),
                memchr::memchr_iter(b'\n', window).count(),
            ),
        };
        for (ends, most) in [(&mut self.field_ends, most_fields), (&mut self.record_field_ends, most_records)] {
            let room = most + SLACK_ENTRIES;
            if ends.len() < room {
                ends.resize(room, 0);
            }
        }
        let state = run_blocks(
            Fill { window, field_ends: &mut self.field_ends, record_field_ends: &mut self.record_field_ends },
            marks,
        );
        self.field_count = state.field_count;
        self.record_count = state.record_count;
        self.open_quote = is_last && state.quotes.is_inside();
        let covered = self.covered_bytes();
        if is_last && covered < window.len() {
            self.field_ends[self.field_count] = window.len() as u32;
            self.field_count += 1;
            self.record_field_ends[self.record_count] = self.field_count as u32;
            self.record_count += 1;
        }
    }

    /// Forgets its window, and gives back the memory that a long record took.
    pub(crate) fn clear(&mut self) {
        (self.field_count, self.record_count, self.open_quote) = (0, 0, false);
        for ends in [&mut self.field_ends, &mut self.record_field_ends] {
            ends.truncate(KEPT_ENTRIES);
            ends.shrink_to(KEPT_ENTRIES);
        }
    }

    /// Indexes the first window of `records` that holds a whole record: about `window_bytes`, or more for a long one.
    /// `is_last` says whether the end of `records` ends a record. Returns the window, and whether it is all there is.
    pub(crate) fn build_next<'a>(
        &mut self,
        records: &'a [u8],
        window_bytes: usize,
        marks: Marks,
        is_last: bool,
    ) -> (&'a [u8], bool) {
        let mut size = window_bytes;
        loop {
            let window = &records[..size.min(records.len())];
            let is_all = window.len() == records.len();
            self.build(window, marks, is_all && is_last);
            if is_all || self.record_count > 0 || window.len() > MAX_RECORD_BYTES {
                return (window, is_all);
            }
            size *= 2;
        }
    }

    /// The offset of a record longer than allowed; looked for only where there is room for one.
    pub(crate) fn too_long_record(&self, window: &[u8]) -> Option<u32> {
        if window.len() <= MAX_RECORD_BYTES {
            return None;
        }
        let whole = (0..self.record_count)
            .map(|record| self.record(record))
            .find(|fields| fields.bytes(window).len() > MAX_RECORD_BYTES)
            .map(|fields| fields.start);
        whole.or((self.record_count == 0).then_some(0))
    }

    /// Whether each of these records has `field_count` fields and is not blank.
    pub(crate) fn all_have(&self, records: Range<usize>, field_count: usize, window: &[u8]) -> bool {
        let mut last = match records.start {
            0 => 0,
            start => self.record_field_ends[start - 1],
        };
        let mut is_regular = true;
        for &end in &self.record_field_ends[records.clone()] {
            is_regular &= (end - last) as usize == field_count;
            last = end;
        }
        // Only a record of one field can look blank with the right number of fields.
        is_regular
            && (field_count != 1 || records.into_iter().all(|record| !self.record(record).bytes(window).is_empty()))
    }

    /// Number of whole records.
    pub(crate) fn record_count(&self) -> usize {
        self.record_count
    }

    /// Whether the last record was ended by the end of the window, inside quotes.
    pub(crate) fn has_open_quote(&self) -> bool {
        self.open_quote
    }

    /// Bytes held on the heap.
    #[cfg(test)]
    pub(crate) fn heap_bytes(&self) -> usize {
        (self.field_ends.capacity() + self.record_field_ends.capacity()) * size_of::<u32>()
    }

    /// Bytes up to the end of the last newline that ends a record.
    pub(crate) fn covered_bytes(&self) -> usize {
        match self.record_count {
            0 => 0,
            count => self.field_ends[self.record_field_ends[count - 1] as usize - 1] as usize + 1,
        }
    }

    /// Offset of a record's first byte.
    #[inline(always)]
    pub(crate) fn record_start(&self, record: usize) -> u32 {
        match record.checked_sub(1) {
            Some(before) => self.field_ends[self.record_field_ends[before] as usize - 1] + 1,
            None => 0,
        }
    }

    /// The ends of the fields of a record; never empty.
    #[inline(always)]
    pub(crate) fn record(&self, record: usize) -> RecordFields<'_> {
        let (first, start) = if record == 0 {
            (0, 0)
        } else {
            let first = self.record_field_ends[record - 1] as usize;
            (first, self.field_ends[first - 1] + 1)
        };
        RecordFields { start, ends: &self.field_ends[first..self.record_field_ends[record] as usize] }
    }
}

/// One record within its window.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecordFields<'a> {
    /// Offset of the record's first byte.
    pub(crate) start: u32,
    /// Offset of the byte that ends each field.
    pub(crate) ends: &'a [u32],
}

impl<'a> RecordFields<'a> {
    /// The bytes of the record without its newline.
    pub(crate) fn bytes(self, window: &'a [u8]) -> &'a [u8] {
        let end = self.ends.last().map_or(self.start, |&end| end) as usize;
        without_carriage_return(&window[self.start as usize..end])
    }

    /// The raw bytes of a field, quotes and all. Panics when there is no such field.
    #[inline(always)]
    pub(crate) fn field(self, window: &'a [u8], position: usize) -> &'a [u8] {
        let field = &window[self.field_start(position)..self.ends[position] as usize];
        if position + 1 == self.ends.len() { without_carriage_return(field) } else { field }
    }

    /// Offset of a field's first byte.
    #[inline(always)]
    pub(crate) fn field_start(self, position: usize) -> usize {
        if position == 0 { self.start as usize } else { self.ends[position - 1] as usize + 1 }
    }
}

/// `bytes` without the carriage return they may end in.
#[inline(always)]
pub(crate) fn without_carriage_return(bytes: &[u8]) -> &[u8] {
    match bytes {
        [head @ .., b'\r'] => head,
        _ => bytes,
    }
}

struct Fill<'a> {
    window: &'a [u8],
    field_ends: &'a mut [u32],
    record_field_ends: &'a mut [u32],
}

struct FillState {
    quotes: QuoteState,
    field_count: usize,
    record_count: usize,
}

impl BlockLoop for Fill<'_> {
    type Output = FillState;

    #[inline(always)]
    fn run<M: MaskSource>(self, source: M) -> FillState {
        let mut state = FillState { quotes: QuoteState::default(), field_count: 0, record_count: 0 };
        let (blocks, tail) = self.window.as_chunks::<64>();
        let mut base = 0_u32;
        for block in blocks {
            let masks = source.masks(block);
            let ends = state.quotes.field_ends(masks);
            state.store(base, ends, masks.newlines & ends, self.field_ends, self.record_field_ends);
            base += 64;
        }
        if !tail.is_empty() {
            let mut block = [0_u8; 64];
            block[..tail.len()].copy_from_slice(tail);
            let masks = source.masks(&block).truncated(tail.len());
            let ends = state.quotes.partial_field_ends(masks, tail.len());
            state.store(base, ends, masks.newlines & ends, self.field_ends, self.record_field_ends);
        }
        state
    }
}

impl FillState {
    #[inline(always)]
    fn store(
        &mut self,
        base: u32,
        ends: u64,
        mut newlines: u64,
        field_ends: &mut [u32],
        record_field_ends: &mut [u32],
    ) {
        while newlines != 0 {
            let up_to = newlines ^ (newlines - 1);
            record_field_ends[self.record_count] = self.field_count as u32 + (ends & up_to).count_ones();
            self.record_count += 1;
            newlines &= newlines - 1;
        }
        let count = ends.count_ones() as usize;
        let mut left = ends;
        let mut at = self.field_count;
        self.field_count += count;
        // Stores in runs of eight whether or not as many bits are left: a branch per run, not per bit.
        while left != 0 {
            let Some(run) = field_ends[at..].first_chunk_mut::<8>() else { return };
            for slot in run {
                *slot = base + left.trailing_zeros();
                left &= left.wrapping_sub(1);
            }
            at += 8;
        }
    }
}

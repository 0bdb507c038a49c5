//! A scan of the records at known positions, and nothing between them.
//!
//! **Owns**: cutting positions into morsels, reading neighbouring records at once, finding where each record ends,
//! handing runs of adjacent records to the decoder.
//!
//! **Does not own**: which positions (an earlier scan noted them), whether the file is still the one they belong to.
//!
//! **Invariants**
//! - Morsels depend on the positions, the file's end, the mean length of its records and the kind of source alone, not on
//!   threads. What is read for one is bounded, however long the records at its positions turn out to be.
//! - A record reaches from its position to its line's end, and so at most to the next position: positions of another
//!   file are noticed where that does not hold, or else by the decoder, but not always.
//!
//! **Concurrency**: the cut is shared and never changes; a reader belongs to a thread.
//!
//! **Paper**: ReCache (PVLDB 2017) §5.2: an item that was cached lazily is answered from the raw file by its offsets.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use futures::{StreamExt, TryStreamExt, stream};
use thermocline_medium::{BLOCK_BYTES, Compression, PinnedFile, RemoteFile};

use super::ranges::check_length;
use super::window::Window;
use super::{FileScan, Format, Grain, Source, Way};
use crate::csv::{Marks, first_record_end};
use crate::record_positions::BLOCK_COUNT;
use crate::{Decoder, RawError, RecordPositions, ScanPlan};

/// How positions are cut and read. Tests make everything small, so that every border is hit.
#[derive(Debug, Clone, Copy)]
pub(super) struct PositionGrain {
    /// Records with fewer bytes between them are read at once.
    pub(super) gap_bytes: u64,
    /// How long a record is taken to be before one was seen.
    pub(super) first_reach_bytes: u64,
    /// Of a read, unless one record is longer.
    pub(super) read_bytes: u64,
    /// Least and most of a morsel.
    pub(super) morsel_bytes: (u64, u64),
    /// From a morsel's first position to where the next one begins at most, unless that is one record.
    pub(super) span_bytes: u64,
    /// About the bytes of a record of the file; 0 where it is not known.
    pub(super) record_bytes: u64,
}

impl PositionGrain {
    /// From the page cache a read takes 0.32 µs for 128 bytes and 0.50 µs for four KiB (measured): reading up to that
    /// much for nothing is cheaper than a second read. From a disk, what shares a page with a record or is next to it
    /// comes with it anyway. Reads stay in the second-level cache until they are decoded.
    pub(super) const LOCAL: Self = Self {
        gap_bytes: 4 << 10,
        first_reach_bytes: 4 << 10,
        read_bytes: 256 << 10,
        morsel_bytes: (BLOCK_BYTES as u64, super::MORSEL_MAX_BYTES),
        span_bytes: SPAN_BYTES,
        record_bytes: 0,
    };

    /// Every record is wanted: what lies between two belongs to the first.
    pub(super) const WHOLE: Self = Self { gap_bytes: u64::MAX / BLOCK_COUNT as u64, ..Self::LOCAL };

    /// A request to a store takes tens of milliseconds, in which more than a MiB arrives.
    const REMOTE: Self = Self {
        gap_bytes: 1 << 20,
        first_reach_bytes: 64 << 10,
        read_bytes: super::MORSEL_MAX_BYTES,
        morsel_bytes: (BLOCK_BYTES as u64, super::MORSEL_MAX_BYTES),
        span_bytes: SPAN_BYTES,
        record_bytes: 0,
    };

    /// What a position weighs at most: what is read for a record of the mean length, or for nothing behind a short one.
    fn weight_bytes(&self) -> u64 {
        self.gap_bytes.max(self.record_bytes)
    }
}

/// Records that are much longer than most of their file may all be next to each other, and each be as long as the step to
/// the next: of them a morsel takes so much. So few more morsels come of it where positions are rare (sixteen for a GiB
/// of the file) that none of their queries notices.
const SPAN_BYTES: u64 = 64 << 20;

/// Morsels a scan should have when its size allows.
const MORSEL_COUNT: u64 = 64;

/// Requests of one morsel that run at the same time.
const REQUESTS_AT_ONCE: usize = 8;

/// Positions cut into morsels.
pub(super) struct PositionCut {
    positions: Arc<RecordPositions>,
    /// Morsel `i` has the positions numbered `borders[i]..borders[i + 1]`.
    borders: Vec<usize>,
    end_bytes: u64,
    ends: RecordEnds,
    grain: PositionGrain,
}

/// How a record's end is found.
#[derive(Debug, Clone, Copy)]
enum RecordEnds {
    Newline,
    Csv(Marks),
}

impl RecordEnds {
    /// Just behind the record that `records` begin with, if it ends in there.
    #[inline]
    fn first(self, records: &[u8]) -> Option<usize> {
        match self {
            Self::Newline => memchr::memchr(b'\n', records).map(|at| at + 1),
            Self::Csv(marks) => first_record_end(marks, records),
        }
    }
}

/// Bytes of a remote file, and the offsets of the records in it that are wanted; the last of them is whole.
#[derive(Debug)]
pub(super) struct Fetched {
    window: Window,
    offsets: Vec<u64>,
}

impl FileScan {
    /// A scan of the records at `positions` only, which lie below `end_bytes`, in a file that is not compressed. Each
    /// position is that of a record's first byte, as [`Rows::positions`](crate::Rows::positions) tells it. The plan
    /// holds as in any scan: records that do not pass give no rows. `record_bytes` is about the length of the file's
    /// records, those at no position among them, or 0 where nobody knows it: morsels are cut by it, so that the same one
    /// makes the same morsels.
    ///
    /// # Errors
    /// A plan the format cannot carry out, a compressed file, a position beyond `end_bytes`.
    pub fn at_positions(
        source: Source,
        positions: Arc<RecordPositions>,
        record_bytes: u64,
        end_bytes: u64,
        format: Format,
        compression: Compression,
        plan: ScanPlan,
    ) -> Result<Self, RawError> {
        let grain = match source {
            Source::Local(_) => PositionGrain { record_bytes, ..PositionGrain::LOCAL },
            Source::Remote(_) => PositionGrain { record_bytes, ..PositionGrain::REMOTE },
        };
        Self::at_positions_with(source, positions, end_bytes, format, compression, plan, grain)
    }

    pub(super) fn at_positions_with(
        source: Source,
        positions: Arc<RecordPositions>,
        end_bytes: u64,
        format: Format,
        compression: Compression,
        plan: ScanPlan,
        grain: PositionGrain,
    ) -> Result<Self, RawError> {
        if compression != Compression::None {
            let reason = "records of compressed files cannot be read by their positions".to_owned();
            return Err(RawError::Option { name: "compression", reason });
        }
        let first = if positions.is_empty() { end_bytes } else { positions.block_start(0) };
        let misplaced = |offset_bytes, reason: String| {
            Err(RawError::Position { file: Arc::clone(source.path()), offset_bytes, reason })
        };
        if let Some(last) = positions.last().filter(|&last| last >= end_bytes) {
            return misplaced(last, format!("expected a record below byte {end_bytes}"));
        }
        if let Format::Csv(format) = &format
            && format.has_header
            && first == 0
        {
            return misplaced(0, "expected a record, found the header".to_owned());
        }
        let cut = PositionCut::new(positions, end_bytes, &format, grain);
        let way = Way::Positions { next: AtomicU64::new(0), cut: Box::new(cut) };
        Self::assemble(source, first..end_bytes, format, compression, plan, None, Grain::new(0, 1), way)
    }
}

/// Numbers of the positions between which morsels lie, from zero to all. Weighs each block of positions by what reading
/// it takes, and divides those that are too heavy, or too long to tell.
fn borders(positions: &RecordPositions, end_bytes: u64, grain: PositionGrain) -> Vec<usize> {
    let start_of = |block| if block < positions.block_count() { positions.block_start(block) } else { end_bytes };
    let most = grain.weight_bytes();
    let weight = |block: usize| {
        let span = start_of(block + 1).saturating_sub(start_of(block));
        span.min((BLOCK_COUNT as u64).saturating_mul(most))
    };
    let total: u64 = (0..positions.block_count()).map(weight).sum();
    let (least_bytes, most_bytes) = grain.morsel_bytes;
    let wanted = (total / MORSEL_COUNT).clamp(least_bytes, most_bytes);
    let mut borders = vec![0];
    let mut gathered = 0;
    // Where the morsel begins that blocks are gathered for.
    let mut morsel_start = 0;
    for block in 0..positions.block_count() {
        let (block_start, block_end) = (start_of(block), start_of(block + 1));
        let weight = weight(block);
        let fits =
            |gathered, from: u64| gathered + weight <= wanted && block_end.saturating_sub(from) <= grain.span_bytes;
        if gathered > 0 && fits(gathered, morsel_start) {
            gathered += weight.max(1);
            continue;
        }
        borders.push(block * BLOCK_COUNT);
        morsel_start = block_start;
        if fits(0, block_start) {
            gathered = weight.max(1);
            continue;
        }
        let offsets: Vec<u64> = positions.block(block).collect();
        let mut weighed = 0;
        for (at, &offset) in offsets.iter().enumerate() {
            let next = offsets.get(at + 1).copied().unwrap_or(block_end);
            let weight = next.saturating_sub(offset).min(most);
            let is_too_much = weighed + weight > wanted || next.saturating_sub(morsel_start) > grain.span_bytes;
            if weighed > 0 && is_too_much {
                borders.push(block * BLOCK_COUNT + at);
                (morsel_start, weighed) = (offset, 0);
            }
            weighed += weight.max(1);
        }
        // The next block begins another morsel.
        gathered = 0;
    }
    borders.push(positions.len());
    borders.dedup();
    borders
}

impl PositionCut {
    pub(super) fn new(positions: Arc<RecordPositions>, end_bytes: u64, format: &Format, grain: PositionGrain) -> Self {
        let ends = match format {
            Format::Ndjson => RecordEnds::Newline,
            Format::Csv(format) => RecordEnds::Csv(format.marks()),
        };
        Self { borders: borders(&positions, end_bytes, grain), positions, end_bytes, ends, grain }
    }

    /// Leaves out the first positions, so many.
    pub(super) fn leave_out(&mut self, count: usize) {
        let kept = self.borders.partition_point(|&border| border <= count);
        self.borders.splice(..kept, [count.min(self.positions.len())]);
    }

    /// The last position of morsel `index`.
    pub(super) fn last_of(&self, index: u64) -> Option<u64> {
        let last = self.borders.get(index as usize + 1)?.checked_sub(1)?;
        self.positions.block(last / BLOCK_COUNT).nth(last % BLOCK_COUNT)
    }

    /// Whether a record that ends a file, blank lines behind it, is terminated and can't become longer.
    pub(super) fn is_terminated(&self, record: &[u8]) -> bool {
        match self.ends.first(record) {
            Some(length) => {
                record[length..].iter().all(|byte| matches!(byte, b'\n' | b'\r')) && record.ends_with(b"\n")
            }
            None => false,
        }
    }

    /// The numbers of the positions of morsel `index`.
    pub(super) fn numbers_of(&self, index: u64) -> Range<usize> {
        self.borders[index as usize]..self.borders[index as usize + 1]
    }

    /// The bytes that morsel `index` stands for: up to where the next one begins. `None` when there are no more.
    pub(super) fn range_of(&self, index: u64) -> Option<Range<u64>> {
        let index = index as usize;
        let end = *self.borders.get(index + 1)?;
        let offset = |number: usize| self.positions.block(number / BLOCK_COUNT).nth(number % BLOCK_COUNT);
        let end = if end < self.positions.len() { offset(end)? } else { self.end_bytes };
        Some(offset(self.borders[index])?..end)
    }

    /// The positions of morsel `index`.
    pub(super) fn offsets_of(&self, index: u64) -> Vec<u64> {
        let Range { start, end } = self.numbers_of(index);
        let mut offsets = Vec::with_capacity(end - start + BLOCK_COUNT);
        for block in start / BLOCK_COUNT..end.div_ceil(BLOCK_COUNT) {
            offsets.extend(self.positions.block(block));
        }
        offsets.truncate(end - start / BLOCK_COUNT * BLOCK_COUNT);
        offsets.drain(..start % BLOCK_COUNT);
        offsets
    }

    /// How far to read for `offsets`: the end of the first read, and how many of them it should hold. Records are taken
    /// to be `reach_bytes` long, unless the next one begins before.
    pub(super) fn next_read(&self, offsets: &[u64], reach_bytes: u64) -> (u64, usize) {
        let start = offsets[0];
        let reached = |number: usize| {
            let reached = offsets[number].saturating_add(reach_bytes);
            offsets.get(number + 1).map_or(reached, |&next| reached.min(next))
        };
        let mut end = reached(0);
        let mut count = 1;
        for (number, &offset) in offsets.iter().enumerate().skip(1) {
            let longer = reached(number);
            if offset > end.saturating_add(self.grain.gap_bytes) || longer.saturating_sub(start) > self.grain.read_bytes
            {
                break;
            }
            end = longer;
            count += 1;
        }
        (end.min(self.end_bytes), count)
    }

    /// How long records are taken to be once the longest of a read was `length` and that of all reads `longest`, when
    /// they were taken to be `reach_bytes` long before. One long record is soon forgotten, and never makes a read larger
    /// than others are.
    pub(super) fn next_reach(&self, reach_bytes: u64, length: u64, longest: u64) -> u64 {
        let least = longest.min(self.grain.first_reach_bytes);
        (reach_bytes / 2).max(length).max(least).min(self.grain.read_bytes.max(1))
    }

    /// Decodes morsel `index` of a local file.
    pub(super) fn decode(
        &self,
        index: u64,
        file: &PinnedFile,
        window: &mut Window,
        decoder: &mut dyn Decoder,
    ) -> Result<(), RawError> {
        let offsets = self.offsets_of(index);
        let mut left = offsets.as_slice();
        let mut reach_bytes = self.grain.first_reach_bytes;
        let mut longest = 0;
        while let Some(&start) = left.first() {
            let (mut end, mut count) = self.next_read(left, reach_bytes);
            window.clear();
            self.read(file, window, start..end)?;
            loop {
                let runs = Runs { content: window.content(), start, is_end: end == self.end_bytes, cut: self };
                let (decoded, length) = runs.decode(&left[..count], file.path(), decoder)?;
                longest = longest.max(length);
                if decoded > 0 {
                    reach_bytes = self.next_reach(reach_bytes, length as u64, longest as u64);
                    left = &left[decoded..];
                    break;
                }
                // A record longer than those before.
                check_length(window.content(), file.path(), start)?;
                let next = left.get(1).copied();
                if let Some(next) = next.filter(|&next| next <= end) {
                    return Err(overlaps(file.path(), next));
                }
                let more = (end + (end - start)).min(next.unwrap_or(self.end_bytes)).min(self.end_bytes);
                self.read(file, window, end..more)?;
                end = more;
                count = 1;
            }
        }
        Ok(())
    }

    /// Appends `range` of the file to the window.
    pub(super) fn read(&self, file: &PinnedFile, window: &mut Window, range: Range<u64>) -> Result<(), RawError> {
        let wanted = (range.end - range.start) as usize;
        let read = file.read_at(window.room(wanted), range.start)?;
        if read < wanted {
            return Err(RawError::Truncated {
                file: Arc::clone(file.path()),
                offset_bytes: range.start + read as u64,
                expected_bytes: self.end_bytes,
            });
        }
        window.filled(wanted);
        Ok(())
    }

    /// Fetches the records of morsel `index` of a remote file.
    pub(super) async fn fetch(&self, index: u64, file: &RemoteFile) -> Result<Vec<Fetched>, RawError> {
        let offsets = self.offsets_of(index);
        let mut left = offsets.as_slice();
        let mut reads = Vec::new();
        while !left.is_empty() {
            let (end, count) = self.next_read(left, self.grain.first_reach_bytes);
            let (wanted, behind) = left.split_at(count);
            reads.push((end, wanted.to_vec()));
            left = behind;
        }
        stream::iter(reads)
            .map(|(end, offsets)| self.fetch_one(file, end, offsets))
            .buffered(REQUESTS_AT_ONCE)
            .try_collect()
            .await
    }

    /// Fetches the records at `offsets`, which lie below `end`; on until the last of them ends.
    async fn fetch_one(&self, file: &RemoteFile, mut end: u64, offsets: Vec<u64>) -> Result<Fetched, RawError> {
        let mut window = Window::default();
        let (Some(&start), Some(&last)) = (offsets.first(), offsets.last()) else {
            return Ok(Fetched { window, offsets });
        };
        let mut at = start;
        let mut step = self.grain.first_reach_bytes;
        loop {
            window.extend(&file.read_range(at..end).await?);
            let record = &window.content()[(last - start) as usize..];
            if end == self.end_bytes || self.ends.first(record).is_some() {
                return Ok(Fetched { window, offsets });
            }
            check_length(record, &file.version().path, last)?;
            at = end;
            end = (end + step).min(self.end_bytes);
            step = (step * 2).min(super::MORSEL_MAX_BYTES);
        }
    }

    /// Decodes what was fetched of a remote file.
    pub(super) fn decode_fetched(
        &self,
        fetched: &[Fetched],
        file: &Arc<str>,
        decoder: &mut dyn Decoder,
    ) -> Result<(), RawError> {
        for Fetched { window, offsets } in fetched {
            let (content, Some(&start)) = (window.content(), offsets.first()) else { continue };
            let end = start + content.len() as u64;
            let runs = Runs { content, start, is_end: end == self.end_bytes, cut: self };
            let (decoded, _) = runs.decode(offsets, file, decoder)?;
            if decoded < offsets.len() {
                let (file, expected_bytes) = (Arc::clone(file), self.end_bytes);
                return Err(RawError::Truncated { file, offset_bytes: end, expected_bytes });
            }
        }
        Ok(())
    }
}

fn overlaps(file: &Arc<str>, offset_bytes: u64) -> RawError {
    let reason = "expected a record's first byte, found it inside the record before".to_owned();
    RawError::Position { file: Arc::clone(file), offset_bytes, reason }
}

/// Bytes in which records are found by their offsets.
struct Runs<'a> {
    content: &'a [u8],
    /// Offset in the file of the content's first byte.
    start: u64,
    /// Whether nothing follows it.
    is_end: bool,
    cut: &'a PositionCut,
}

impl Runs<'_> {
    /// Decodes the records at `offsets` that are whole, adjacent ones together. Returns how many there were, and the
    /// length of the longest.
    fn decode(&self, offsets: &[u64], file: &Arc<str>, decoder: &mut dyn Decoder) -> Result<(usize, usize), RawError> {
        let mut run = 0..0;
        let mut longest = 0;
        let mut count = 0;
        let mut hand_over = |run: Range<usize>| match self.content.get(run.clone()) {
            None | Some([]) => Ok(()),
            Some(records) => decoder.decode(records, self.start + run.start as u64),
        };
        for &offset in offsets {
            let at = offset.wrapping_sub(self.start) as usize;
            if at < run.end {
                hand_over(run)?;
                return Err(overlaps(file, offset));
            }
            let Some(record) = self.content.get(at..).filter(|record| !record.is_empty()) else { break };
            let length = match self.cut.ends.first(record) {
                Some(length) => length,
                None if self.is_end => record.len(),
                None => break,
            };
            if at != run.end {
                hand_over(run)?;
                run = at..at;
            }
            run.end = at + length;
            longest = longest.max(length);
            count += 1;
        }
        hand_over(run)?;
        Ok((count, longest))
    }
}

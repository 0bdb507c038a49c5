//! A scan of a file by its positional map.
//!
//! **Owns**: reading runs of whole records, and giving the decoder what the map knows of them.
//!
//! **Does not own**: the map, and whether it is this file's.
//!
//! **Invariants**: morsels are those of a scan by position over all of the map's records. Nothing is searched for line
//! ends. A plan that reads no field reads no byte: then the map's records are counted. Who records hashes reads whole
//! blocks, each hashed by the morsel that it begins in, what lies before the first record by the first.
//!
//! **Concurrency**: shared, never changes.
//!
//! **Paper**: NoDB (SIGMOD 2012) §4.2; see [`PositionalMap`].

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use thermocline_medium::{BLOCK_BYTES, Compression, HashRecorder, PinnedFile};

use super::positions::{PositionCut, PositionGrain};
use super::window::Window;
use super::{FileScan, Format, Grain, Source, Way};
use crate::{Decoder, MappedRecords, PositionalMap, RawError, ScanPlan};

/// Bytes of a read: they stay in the second-level cache until they are decoded.
const READ_BYTES: u64 = 256 << 10;

/// A map, and which of its fields a decoder reads.
pub(super) struct MappedScan {
    map: Arc<PositionalMap>,
    pub(super) cut: PositionCut,
    /// Numbers of the map's fields, in the order of the decoder's paths; None of those that it does not know.
    fields: Vec<Option<usize>>,
    read_bytes: u64,
    reads_bytes: bool,
}

impl FileScan {
    /// A scan of a whole file that is not compressed by its `map`, which had better [know](PositionalMap::knows) all that
    /// the plan reads: a record of which it does not know all that is read is decoded as without it. Gives the rows that
    /// [`new`](Self::new) gives; what is wrong in the file between the wanted fields goes unnoticed. A local file's
    /// blocks are hashed by `recorder`, unless the plan reads no field.
    ///
    /// # Errors
    /// A plan the format cannot carry out, or a strict one.
    pub fn with_map(
        source: Source,
        map: Arc<PositionalMap>,
        format: Format,
        plan: ScanPlan,
        recorder: Option<Arc<HashRecorder>>,
    ) -> Result<Self, RawError> {
        Self::with_map_read(source, map, format, plan, recorder, PositionGrain::WHOLE, READ_BYTES)
    }

    pub(super) fn with_map_read(
        source: Source,
        map: Arc<PositionalMap>,
        format: Format,
        plan: ScanPlan,
        recorder: Option<Arc<HashRecorder>>,
        grain: PositionGrain,
        read_bytes: u64,
    ) -> Result<Self, RawError> {
        if plan.strict {
            let reason = "what is read by a positional map is not checked".to_owned();
            return Err(RawError::Option { name: "strict", reason });
        }
        let end_bytes = map.end_bytes();
        let cut = PositionCut::new(Arc::clone(map.records()), end_bytes, &format, grain);
        let start = cut.range_of(0).map_or(end_bytes, |range| range.start);
        let reads_bytes = plan.positions || plan.map;
        let scan = MappedScan { map, cut, fields: Vec::new(), read_bytes, reads_bytes };
        let way = Way::Mapped { next: AtomicU64::new(0), scan: Box::new(scan) };
        let none = Compression::None;
        let mut scan = Self::assemble(source, start..end_bytes, format, none, plan, recorder, Grain::new(0, 1), way)?;
        let worker = super::locked(&scan.workers).pop();
        if let (Some(worker), Way::Mapped { scan, .. }) = (&worker, &mut scan.way) {
            let paths = worker.decoder.map_paths();
            scan.fields = paths.iter().map(|path| scan.map.field_of(path)).collect();
            scan.reads_bytes |= !paths.is_empty();
        }
        super::locked(&scan.workers).extend(worker);
        Ok(scan)
    }

    /// The same scan by a map without the first records, so many of them. Such a scan records no hashes.
    pub fn without_first(mut self, record_count: u64) -> Self {
        debug_assert!(record_count == 0 || self.recorder.is_none(), "hashes are those of whole files");
        if let Way::Mapped { scan, .. } = &mut self.way {
            scan.cut.leave_out(usize::try_from(record_count).unwrap_or(usize::MAX));
        }
        self
    }
}

impl MappedScan {
    /// Decodes morsel `index` of a local file.
    pub(super) fn decode(
        &self,
        index: u64,
        file: &PinnedFile,
        recorder: Option<&HashRecorder>,
        window: &mut Window,
        decoder: &mut dyn Decoder,
    ) -> Result<(), RawError> {
        let (records, starts, end) = self.records_of(index);
        if !self.reads_bytes {
            return self.hand_over(&[], end, records, &starts, end, decoder);
        }
        if let Some(recorder) = recorder {
            return self.decode_hashing(index, file, recorder, window, decoder);
        }
        let mut from = 0;
        while let Some(&start) = starts.get(from) {
            // At least one record, whatever its length.
            let fitting = starts[from + 1..].partition_point(|&at| at - start <= self.read_bytes);
            let is_last = from + 1 + fitting == starts.len();
            let fits_whole = is_last && (fitting == 0 || end - start <= self.read_bytes);
            let to = if fits_whole || fitting == 0 { from + 1 + fitting } else { from + fitting };
            let read_end = starts.get(to).copied().unwrap_or(end);
            window.clear();
            self.cut.read(file, window, start..read_end)?;
            let numbers = records.start + from..records.start + to;
            self.hand_over(window.content(), start, numbers, &starts[from..to], read_end, decoder)?;
            from = to;
        }
        Ok(())
    }

    /// The same by whole blocks, those that begin in the morsel hashed: the last of them reaches beyond it.
    fn decode_hashing(
        &self,
        index: u64,
        file: &PinnedFile,
        recorder: &HashRecorder,
        window: &mut Window,
        decoder: &mut dyn Decoder,
    ) -> Result<(), RawError> {
        const BLOCK: u64 = BLOCK_BYTES as u64;
        let (records, starts, end) = self.records_of(index);
        let mut window_start = if index == 0 { 0 } else { starts.first().copied().unwrap_or(end) };
        let mut at = window_start;
        let mut from = 0;
        window.clear();
        while from < starts.len() || at < end {
            let block_end = ((at / BLOCK + 1) * BLOCK).min(self.map.end_bytes());
            let kept = window.content().len();
            self.cut.read(file, window, at..block_end)?;
            if at.is_multiple_of(BLOCK) {
                recorder.record(at / BLOCK, &window.content()[kept..]);
            }
            at = block_end;
            // The records that end in what was read: all that others begin behind, and with the morsel's end the last.
            let begun = from + starts[from..].partition_point(|&start| start <= at);
            let to = if at >= end { starts.len() } else { begun.saturating_sub(1).max(from) };
            let read_end = starts.get(to).copied().unwrap_or(end);
            if to > from {
                let numbers = records.start + from..records.start + to;
                let content = &window.content()[..(read_end - window_start) as usize];
                self.hand_over(content, window_start, numbers, &starts[from..to], read_end, decoder)?;
                from = to;
                window.consume((read_end - window_start) as usize);
                window_start = read_end;
            }
        }
        Ok(())
    }

    /// Decodes morsel `index` of which `content`, at `offset` in the file, was fetched.
    pub(super) fn decode_fetched(
        &self,
        index: u64,
        content: &[u8],
        offset: u64,
        decoder: &mut dyn Decoder,
    ) -> Result<(), RawError> {
        let (records, starts, end) = self.records_of(index);
        self.hand_over(content, offset, records, &starts, end, decoder)
    }

    /// Where the last record ends, if it is terminated.
    pub(super) fn terminated_end(&self, file: &PinnedFile) -> Option<u64> {
        let mut window = Window::default();
        let (last, end) = (self.map.records().last()?, self.map.end_bytes());
        self.cut.read(file, &mut window, last..end).ok()?;
        self.cut.is_terminated(window.content()).then_some(end)
    }

    /// Whether a morsel's bytes are needed.
    pub(super) fn reads_bytes(&self) -> bool {
        self.reads_bytes
    }

    /// The numbers of a morsel's records, where they begin, and where the last of them ends.
    fn records_of(&self, index: u64) -> (Range<usize>, Vec<u64>, u64) {
        let end = self.cut.range_of(index).map_or(self.map.end_bytes(), |range| range.end);
        (self.cut.numbers_of(index), self.cut.offsets_of(index), end)
    }

    fn hand_over(
        &self,
        content: &[u8],
        offset: u64,
        records: Range<usize>,
        starts: &[u64],
        end: u64,
        decoder: &mut dyn Decoder,
    ) -> Result<(), RawError> {
        let codes = self.map.codes(records, &self.fields);
        decoder.decode_mapped(content, offset, MappedRecords { starts, end, codes: &codes })
    }
}

//! One raw file as morsels that many threads decode.
//!
//! **Owns**: cutting a file into morsels at record boundaries, reading (and decompressing) them, handing whole records to
//! a decoder, hashing what was read.
//!
//! **Does not own**: the grammar of records (`ndjson`, `csv`), which file and version (`medium`), what becomes of the rows.
//!
//! Two ways. A plain NDJSON file is cut by byte range ([`ranges`]): a newline always ends a record, so each morsel finds
//! its own borders and nothing is shared. Where borders depend on what came before (quotes of CSV, compressed streams)
//! morsels are cut in file order under a lock ([`sequential`]); decoding runs outside of it.
//!
//! **Invariants**: the numbering and the borders of morsels depend on the file and the range alone. Every record that
//! starts in `[start_bytes, end_bytes)` is decoded once. A plain local file's bytes are hashed block by block as they are
//! read, so that the hashes are those of the bytes that were decoded.
//!
//! **Concurrency**: shared by all threads of a scan. Decoders and buffers are pooled, one set a thread.
//!
//! Deviation: remote files whose borders are sequential are fetched whole, up to [`MAX_REMOTE_WHOLE_BYTES`].

mod head;
mod input;
mod ranges;
mod sequential;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use thermocline_medium::{BLOCK_BYTES, Compression, HashRecorder, PinnedFile, RemoteFile};

use crate::csv::{CsvDecoder, CsvFormat, line_at};
use crate::ndjson::NdjsonDecoder;
use crate::{Decoder, RawError, Rows, ScanPlan};
use input::{Input, decompress_head};
use sequential::Sequential;

pub use head::{Head, read_head};

/// Where a file's bytes come from.
#[derive(Debug, Clone)]
pub enum Source {
    /// A local file.
    Local(Arc<PinnedFile>),
    /// An object in a store.
    Remote(Arc<RemoteFile>),
}

impl Source {
    /// Path or URL.
    pub fn path(&self) -> &Arc<str> {
        match self {
            Self::Local(file) => file.path(),
            Self::Remote(file) => &file.version().path,
        }
    }
}

/// The grammar of a file's records.
#[derive(Debug, Clone)]
pub enum Format {
    /// A JSON object a line.
    Ndjson,
    /// Delimited text.
    Csv(Arc<CsvFormat>),
}

/// Largest remote object that is fetched as one piece, because its record borders cannot be found from the middle.
pub const MAX_REMOTE_WHOLE_BYTES: u64 = 512 << 20;

/// A morsel is at least a block, so that hashing sees whole blocks, and small enough that a cancelled query is gone soon:
/// at 0.5 GB/s eight MiB take 16 ms.
const MORSEL_MAX_BYTES: u64 = 8 << 20;

/// Morsels a thread should have, so that all end at about the same time.
const MORSELS_PER_THREAD: u64 = 8;

/// A piece of a scan, claimed by whoever decodes it.
#[derive(Debug)]
pub struct Morsel {
    /// Dense number in file order, from 0.
    pub index: u64,
    /// Bytes of the file that the morsel stands for (compressed bytes for a compressed file).
    pub range: Range<u64>,
    content: Content,
}

#[derive(Debug)]
enum Content {
    /// To be read while it is decoded.
    InFile,
    /// Whole records, the first of them at this offset of the decompressed file.
    Records { bytes: Vec<u8>, offset: u64 },
}

/// One scan of one file.
pub struct FileScan {
    source: Source,
    range: Range<u64>,
    format: Format,
    compression: Compression,
    plan: ScanPlan,
    recorder: Option<Arc<HashRecorder>>,
    way: Way,
    workers: Mutex<Vec<Worker>>,
    /// Offset after the last record that ends in a newline, once seen.
    covered_end: AtomicU64,
}

enum Way {
    Ranges { morsel_bytes: u64, next: AtomicU64 },
    Sequential(Box<Mutex<Sequential>>),
    /// A remote object in one morsel.
    Whole { next: AtomicU64 },
}

/// What a thread needs to decode.
struct Worker {
    decoder: Box<dyn Decoder>,
    buffer: Vec<u8>,
}

impl std::fmt::Debug for FileScan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileScan").field("file", self.source.path()).field("range", &self.range).finish_non_exhaustive()
    }
}

impl FileScan {
    /// A scan of the records that start in `[start_bytes, end_bytes)`; `start_bytes` is 0 or a record's start. Compressed
    /// files are always scanned from 0.
    ///
    /// # Errors
    /// A plan the format cannot carry out; a remote object that must be fetched whole and is too large.
    #[allow(clippy::too_many_arguments)]
    pub fn new(
        source: Source,
        start_bytes: u64,
        end_bytes: u64,
        format: Format,
        compression: Compression,
        plan: ScanPlan,
        recorder: Option<Arc<HashRecorder>>,
        threads: usize,
    ) -> Result<Self, RawError> {
        let spread = (end_bytes - start_bytes) / (MORSELS_PER_THREAD * threads.max(1) as u64);
        let block = BLOCK_BYTES as u64;
        let morsel_bytes = spread.next_multiple_of(block).clamp(block, MORSEL_MAX_BYTES);
        Self::with_morsel_bytes(source, start_bytes..end_bytes, format, compression, plan, recorder, morsel_bytes)
    }

    fn with_morsel_bytes(
        source: Source,
        range: Range<u64>,
        format: Format,
        compression: Compression,
        plan: ScanPlan,
        recorder: Option<Arc<HashRecorder>>,
        morsel_bytes: u64,
    ) -> Result<Self, RawError> {
        let sequential = compression != Compression::None || matches!(format, Format::Csv(_));
        let way = match (&source, sequential) {
            (_, false) => Way::Ranges { morsel_bytes, next: AtomicU64::new(0) },
            (Source::Local(file), true) => {
                let input = Input::open(file, &range, compression, recorder.clone())?;
                Way::Sequential(Box::new(Mutex::new(Sequential::new(input, &format, &range, morsel_bytes))))
            }
            (Source::Remote(file), true) => {
                if range.end - range.start > MAX_REMOTE_WHOLE_BYTES {
                    return Err(RawError::RemoteTooLarge {
                        file: Arc::clone(&file.version().path),
                        size_bytes: range.end - range.start,
                    });
                }
                Way::Whole { next: AtomicU64::new(0) }
            }
        };
        let scan = Self {
            source,
            range,
            format,
            compression,
            plan,
            recorder,
            way,
            workers: Mutex::new(Vec::new()),
            covered_end: AtomicU64::new(0),
        };
        // A plan that cannot be carried out is found here, before anything is read.
        let worker = scan.new_worker()?;
        scan.give_back(worker);
        Ok(scan)
    }

    /// Claims the next morsel; `None` when there are no more. Sequential files are read here.
    ///
    /// # Errors
    /// When the file cannot be read or decompressed, or a record is too long.
    pub fn next_morsel(&self) -> Result<Option<Morsel>, RawError> {
        match &self.way {
            Way::Ranges { morsel_bytes, next } => {
                let index = next.fetch_add(1, Ordering::Relaxed);
                // Borders lie on multiples of the morsel size from the file's start, so that morsels hold whole blocks.
                let first = self.range.start / morsel_bytes * morsel_bytes;
                let start = (first + index * morsel_bytes).max(self.range.start);
                if start >= self.range.end {
                    return Ok(None);
                }
                let end = (first + (index + 1) * morsel_bytes).min(self.range.end);
                Ok(Some(Morsel { index, range: start..end, content: Content::InFile }))
            }
            Way::Sequential(sequential) => {
                let mut sequential = sequential.lock().unwrap_or_else(PoisonError::into_inner);
                let morsel = sequential.next(self.source.path())?;
                if let Some(end) = sequential.covered_end() {
                    self.covered_end.fetch_max(end, Ordering::Relaxed);
                }
                Ok(morsel)
            }
            Way::Whole { next } => Ok((next.fetch_add(1, Ordering::Relaxed) == 0 && !self.range.is_empty()).then(|| {
                Morsel { index: 0, range: self.range.clone(), content: Content::InFile }
            })),
        }
    }

    /// Gets a remote morsel's bytes; a local one is returned as it is.
    ///
    /// # Errors
    /// When the store fails, or the object changed.
    pub async fn fetch(&self, mut morsel: Morsel) -> Result<Morsel, RawError> {
        let Source::Remote(file) = &self.source else { return Ok(morsel) };
        if matches!(morsel.content, Content::InFile) {
            morsel.content = match &self.way {
                Way::Whole { .. } => {
                    let bytes = file.read_range(morsel.range.clone()).await?;
                    let bytes = match self.compression {
                        Compression::None => bytes.to_vec(),
                        _ => decompress_head(&bytes, self.compression, usize::MAX, self.source.path())?,
                    };
                    Content::Records { bytes, offset: self.range.start }
                }
                _ => {
                    let (bytes, offset) = ranges::fetch(file, &morsel.range, &self.range).await?;
                    Content::Records { bytes, offset }
                }
            };
        }
        Ok(morsel)
    }

    /// Decodes a morsel into rows in file order.
    ///
    /// # Errors
    /// Bad input, naming file, offset (and line for CSV), column and value; a file that was truncated meanwhile.
    pub fn decode(&self, morsel: Morsel) -> Result<Rows, RawError> {
        let mut worker = self.take_worker()?;
        let decoded = self.decode_with(&mut worker, morsel);
        match decoded {
            Ok(rows) => {
                self.give_back(worker);
                Ok(rows)
            }
            // The decoder's state after an error is not worth keeping.
            Err(error) => Err(self.with_line(error)),
        }
    }

    fn decode_with(&self, worker: &mut Worker, morsel: Morsel) -> Result<Rows, RawError> {
        match morsel.content {
            Content::Records { bytes, offset } => {
                if !bytes.is_empty() {
                    worker.decoder.decode(&bytes, offset)?;
                }
                if self.compression == Compression::None && bytes.last() == Some(&b'\n') {
                    self.covered_end.fetch_max(offset + bytes.len() as u64, Ordering::Relaxed);
                }
            }
            Content::InFile => {
                if let Source::Local(file) = &self.source {
                    let covered = ranges::decode(
                        file,
                        &morsel.range,
                        &self.range,
                        worker.decoder.as_mut(),
                        &mut worker.buffer,
                        self.recorder.as_deref(),
                    )?;
                    self.covered_end.fetch_max(covered, Ordering::Relaxed);
                }
            }
        }
        worker.decoder.finish()
    }

    /// Bytes of the file that the scan covers.
    pub fn total_bytes(&self) -> u64 {
        self.range.end - self.range.start
    }

    /// Offset after the last record that ends in a newline, once every morsel was decoded; `None` for compressed files,
    /// whose offsets are not the file's.
    pub fn covered_end(&self) -> Option<u64> {
        (self.compression == Compression::None).then(|| self.covered_end.load(Ordering::Relaxed).max(self.range.start))
    }

    fn new_worker(&self) -> Result<Worker, RawError> {
        let path = Arc::clone(self.source.path());
        let decoder: Box<dyn Decoder> = match &self.format {
            Format::Ndjson => Box::new(NdjsonDecoder::new(&self.plan, path)?),
            Format::Csv(format) => Box::new(CsvDecoder::new(&self.plan, format, path)?),
        };
        Ok(Worker { decoder, buffer: Vec::new() })
    }

    fn take_worker(&self) -> Result<Worker, RawError> {
        let pooled = self.workers.lock().unwrap_or_else(PoisonError::into_inner).pop();
        pooled.map_or_else(|| self.new_worker(), Ok)
    }

    fn give_back(&self, worker: Worker) {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner).push(worker);
    }

    /// CSV users think in lines; they are counted only now that one is needed.
    fn with_line(&self, error: RawError) -> RawError {
        let (Format::Csv(_), Source::Local(file)) = (&self.format, &self.source) else { return error };
        let Some(offset) = error.fault().filter(|fault| fault.line.is_none()).map(|fault| fault.offset_bytes) else {
            return error;
        };
        let whole = 0..self.range.end;
        let line = Input::open(file, &whole, self.compression, None).ok().and_then(|input| line_at(input, offset).ok());
        match line {
            Some(line) => error.with_line(line),
            None => error,
        }
    }
}

//! One raw file as morsels that many threads decode.
//!
//! **Owns**: cutting a file into morsels at record boundaries, reading (and decompressing) them, handing whole records
//! to a decoder, hashing what was read.
//!
//! **Does not own**: the grammar of records (`ndjson`, `csv`), which file and version (`medium`), what becomes of the
//! rows.
//!
//! Three ways. A plain NDJSON file is cut by byte range ([`ranges`]): a newline always ends a record, so each morsel
//! finds its own borders and nothing is shared. Where borders depend on what came before (quotes of CSV, compressed
//! streams) morsels are cut in file order, one at a time ([`local_stream`], [`remote_stream`]); decoding runs beside
//! that. Records whose [`positions`] are known are read alone, and fields whose places are known without looking for them
//! ([`mapped`]).
//!
//! **Invariants**: every record that starts in `[start_bytes, end_bytes)` is decoded once, by the morsel it starts in.
//! Morsels are numbered densely in file order. A local file's bytes are hashed block by block as they are read, so that
//! the hashes are those of the bytes that were decoded.
//!
//! **Concurrency**: shared by all threads of a scan. Decoders and buffers are pooled, one set a thread.

mod cutter;
mod head;
mod input;
mod local_stream;
mod mapped;
mod positions;
mod ranges;
mod remote_stream;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod store_tests;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests;
mod window;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use thermocline_medium::{BLOCK_BYTES, Compression, HashRecorder, PinnedFile, RemoteFile};

use crate::csv::{CsvDecoder, CsvFormat, line_at};
use crate::ndjson::NdjsonDecoder;
use crate::{Decoder, RawError, Rows, ScanPlan};
use input::Input;
use local_stream::LocalStream;
use mapped::MappedScan;
use positions::{Fetched, PositionCut};
use ranges::RangeReader;
use remote_stream::{Claim, RemoteStream};
use window::Window;

pub use head::{Head, HeadSize, HoldBytes, read_head};

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

/// How finely a scan is cut. Tests make everything small, so that every border is hit.
#[derive(Debug, Clone, Copy)]
struct Grain {
    /// Of a morsel that is a byte range.
    morsel_bytes: u64,
    /// Of a morsel that is cut in file order, decompressed.
    piece_bytes: usize,
    /// Of a read within a byte range: a hash block, or else nothing can be hashed.
    window_bytes: u64,
    /// Of a fetch from a remote stream.
    chunk_bytes: u64,
}

/// A morsel is at least a block, so that hashing sees whole blocks, and small enough that a cancelled query is gone
/// soon: at 0.5 GB/s eight MiB take 16 ms.
const MORSEL_MAX_BYTES: u64 = 8 << 20;

/// Morsels a thread should have, so that all end at about the same time, and what is kept of them can be kept in part.
const MORSELS_PER_THREAD: u64 = 32;

/// Large enough that the lock is rarely taken, small enough that decoding begins soon.
const PIECE_MAX_BYTES: u64 = 4 << 20;

/// Buffers that one long record has blown up beyond this are not kept.
const KEPT_WINDOW_BYTES: usize = 16 << 20;

impl Grain {
    fn new(size_bytes: u64, threads: usize) -> Self {
        let block = BLOCK_BYTES as u64;
        let spread = size_bytes / (MORSELS_PER_THREAD * threads.max(1) as u64);
        let morsel_bytes = spread.next_multiple_of(block).clamp(block, MORSEL_MAX_BYTES);
        Self {
            morsel_bytes,
            piece_bytes: morsel_bytes.min(PIECE_MAX_BYTES) as usize,
            window_bytes: block,
            chunk_bytes: remote_stream::CHUNK_BYTES,
        }
    }
}

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
    /// To be read while it is decoded, or fetched before.
    InFile,
    /// To be fetched from an object that is cut in order.
    InStream(Claim),
    /// Whole records, the first of them at this offset of the decompressed file, and its line where it is known.
    Records { window: Window, offset: u64, first_line: Option<u64> },
    /// Records at known positions, fetched.
    Fetched(Vec<Fetched>),
}

/// One scan of one file.
pub struct FileScan {
    source: Source,
    range: Range<u64>,
    format: Format,
    compression: Compression,
    plan: ScanPlan,
    recorder: Option<Arc<HashRecorder>>,
    grain: Grain,
    way: Way,
    workers: Mutex<Vec<Worker>>,
    /// Buffers of decoded pieces, for the next ones.
    spare_windows: Mutex<Vec<Window>>,
    /// Offset after the last record that ends in a newline, once seen.
    covered_end: AtomicU64,
}

enum Way {
    /// The first morsel is that which `from` lies in, without what lies before.
    Ranges {
        next: AtomicU64,
        from: u64,
    },
    Local(Box<Mutex<LocalStream>>),
    Remote(Box<RemoteStream>),
    Positions {
        next: AtomicU64,
        cut: Box<PositionCut>,
    },
    Mapped {
        next: AtomicU64,
        scan: Box<MappedScan>,
    },
}

/// What a thread needs to decode.
struct Worker {
    decoder: Box<dyn Decoder>,
    window: Window,
}

impl std::fmt::Debug for FileScan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileScan").field("file", self.source.path()).field("range", &self.range).finish_non_exhaustive()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Pools and streams are in order between any two statements that can panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FileScan {
    /// A scan of the records that start in `[start_bytes, end_bytes)`; `start_bytes` is 0 or a record's start.
    /// Compressed files are always scanned from 0. `threads` is how many will decode; it only decides how finely the
    /// file is cut.
    ///
    /// # Errors
    /// A plan the format cannot carry out.
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
        let grain = Grain::new(end_bytes.saturating_sub(start_bytes), threads);
        Self::with_grain(source, start_bytes..end_bytes, format, compression, plan, recorder, grain)
    }

    /// A scan of the records of a local file, not compressed, that begin at or behind `head_bytes`, which another scan of
    /// it said that one of its morsels [ends](Self::head_end) at, and before `end_bytes`. The rest is as in
    /// [`new`](Self::new).
    ///
    /// # Errors
    /// A plan the format cannot carry out.
    #[allow(clippy::too_many_arguments)]
    pub fn behind(
        source: Source,
        head_bytes: u64,
        end_bytes: u64,
        format: Format,
        plan: ScanPlan,
        recorder: Option<Arc<HashRecorder>>,
        threads: usize,
    ) -> Result<Self, RawError> {
        // Morsels of what is cut in order end where a record does.
        let start_bytes = if matches!(format, Format::Csv(_)) { head_bytes } else { 0 };
        let none = Compression::None;
        Self::new(source, start_bytes, end_bytes, format, none, plan, recorder, threads)
            .map(|scan| scan.begun_at(head_bytes))
    }

    fn begun_at(mut self, head_bytes: u64) -> Self {
        if let Way::Ranges { from, .. } = &mut self.way {
            *from = head_bytes;
        }
        self
    }

    fn with_grain(
        source: Source,
        range: Range<u64>,
        format: Format,
        compression: Compression,
        plan: ScanPlan,
        recorder: Option<Arc<HashRecorder>>,
        grain: Grain,
    ) -> Result<Self, RawError> {
        let has_order = compression != Compression::None || matches!(format, Format::Csv(_));
        let way = match &source {
            _ if !has_order => Way::Ranges { next: AtomicU64::new(0), from: range.start },
            Source::Local(file) => {
                let input = Input::open(file, &range, compression, recorder.clone())?;
                Way::Local(Box::new(Mutex::new(LocalStream::new(input, &format, &range, grain.piece_bytes))))
            }
            Source::Remote(file) => {
                let stream = RemoteStream::new(file, &format, compression, range.clone(), grain.chunk_bytes)?;
                Way::Remote(Box::new(stream))
            }
        };
        Self::assemble(source, range, format, compression, plan, recorder, grain, way)
    }

    #[allow(clippy::too_many_arguments)]
    fn assemble(
        source: Source,
        range: Range<u64>,
        format: Format,
        compression: Compression,
        plan: ScanPlan,
        recorder: Option<Arc<HashRecorder>>,
        grain: Grain,
        way: Way,
    ) -> Result<Self, RawError> {
        let scan = Self {
            source,
            range,
            format,
            compression,
            plan,
            recorder,
            grain,
            way,
            workers: Mutex::new(Vec::new()),
            spare_windows: Mutex::new(Vec::new()),
            covered_end: AtomicU64::new(0),
        };
        // A plan that cannot be carried out is found here, before anything is read.
        let worker = scan.new_worker()?;
        locked(&scan.workers).push(worker);
        Ok(scan)
    }

    /// Claims the next morsel; `None` when there are no more. Local files that are cut in order are read here.
    ///
    /// # Errors
    /// When the file cannot be read or decompressed, or a record is too long; there are no morsels after that.
    pub fn next_morsel(&self) -> Result<Option<Morsel>, RawError> {
        match &self.way {
            Way::Ranges { next, from } => {
                let index = next.fetch_add(1, Ordering::Relaxed);
                // Borders lie on multiples of the morsel size from the file's start, so that morsels hold whole blocks.
                let morsel_bytes = self.grain.morsel_bytes;
                let first = from / morsel_bytes;
                let start = ((first + index) * morsel_bytes).max(*from);
                if start >= self.range.end {
                    return Ok(None);
                }
                let end = ((first + index + 1) * morsel_bytes).min(self.range.end);
                Ok(Some(Morsel { index, range: start..end, content: Content::InFile }))
            }
            Way::Local(stream) => {
                let spare = locked(&self.spare_windows).pop().unwrap_or_default();
                let mut stream = locked(stream);
                let Some((index, range, piece)) = stream.next(spare)? else { return Ok(None) };
                self.covered_end.fetch_max(stream.whole_end(), Ordering::Relaxed);
                let content = Content::Records { window: piece.window, offset: piece.offset, first_line: None };
                Ok(Some(Morsel { index, range, content }))
            }
            Way::Remote(stream) => Ok(stream.claim().map(|(index, range, claim)| {
                let content = Content::InStream(claim);
                Morsel { index, range, content }
            })),
            Way::Positions { next, cut } => {
                let index = next.fetch_add(1, Ordering::Relaxed);
                Ok(cut.range_of(index).map(|range| Morsel { index, range, content: Content::InFile }))
            }
            Way::Mapped { next, scan } => {
                let index = next.fetch_add(1, Ordering::Relaxed);
                Ok(scan.cut.range_of(index).map(|range| Morsel { index, range, content: Content::InFile }))
            }
        }
    }

    /// Whether its rows are made of bytes of the file: a map's records can be counted without.
    pub fn reads_bytes(&self) -> bool {
        match &self.way {
            Way::Mapped { scan, .. } => scan.reads_bytes(),
            _ => true,
        }
    }

    /// Where a scan [behind](Self::behind) the records of a morsel and all before it begins.
    pub fn head_end(&self, morsel: &Morsel) -> u64 {
        match (&self.way, &self.format, &morsel.content) {
            // A line may begin with blanks, which are none of its record's bytes.
            (Way::Mapped { scan, .. }, Format::Ndjson, _) => {
                scan.cut.last_of(morsel.index).map_or(morsel.range.end, |last| last + 1)
            }
            // Its range is of what was read for it.
            (Way::Local(_), _, Content::Records { window, offset, .. }) => offset + window.content().len() as u64,
            _ => morsel.range.end,
        }
    }

    /// Gets a remote morsel's bytes; a local one is returned as it is.
    ///
    /// # Errors
    /// When the store fails, the object changed, or it cannot be decompressed.
    pub async fn fetch(&self, mut morsel: Morsel) -> Result<Morsel, RawError> {
        let Source::Remote(file) = &self.source else { return Ok(morsel) };
        if matches!(morsel.content, Content::Records { .. } | Content::Fetched(_)) {
            return Ok(morsel);
        }
        morsel.content = match (&self.way, morsel.content) {
            (Way::Remote(stream), Content::InStream(claim)) => match stream.fetch(claim).await? {
                Some((piece, first_line)) => {
                    Content::Records { window: piece.window, offset: piece.offset, first_line: Some(first_line) }
                }
                None => Content::Records { window: Window::default(), offset: self.range.start, first_line: None },
            },
            (Way::Positions { cut, .. }, _) => Content::Fetched(cut.fetch(morsel.index, file).await?),
            (Way::Mapped { scan, .. }, _) => {
                let Range { start, end } = morsel.range;
                let mut window = Window::default();
                if scan.reads_bytes() {
                    window.extend(&file.read_range(start..end).await?);
                }
                Content::Records { window, offset: start, first_line: None }
            }
            _ => {
                let (window, offset) = ranges::fetch(file, &morsel.range, &self.range).await?;
                Content::Records { window, offset, first_line: None }
            }
        };
        Ok(morsel)
    }

    /// Decodes a morsel, a remote one after it was [fetched](Self::fetch), into rows in file order.
    ///
    /// # Errors
    /// Bad input, naming file, offset (and line for CSV), column and value; a file that was truncated meanwhile.
    pub fn decode(&self, morsel: Morsel) -> Result<Rows, RawError> {
        let pooled = locked(&self.workers).pop();
        let mut worker = match pooled {
            Some(worker) => worker,
            None => self.new_worker()?,
        };
        // After an error the worker is dropped: its decoder's state is not worth keeping.
        self.decode_with(&mut worker, morsel)?;
        let rows = worker.decoder.finish()?;
        if worker.window.heap_bytes() > KEPT_WINDOW_BYTES {
            worker.window = Window::default();
        }
        locked(&self.workers).push(worker);
        Ok(rows)
    }

    fn decode_with(&self, worker: &mut Worker, morsel: Morsel) -> Result<(), RawError> {
        let Morsel { index, range, content } = morsel;
        match (content, &self.source) {
            (Content::Fetched(fetched), source) => {
                if let Way::Positions { cut, .. } = &self.way {
                    cut.decode_fetched(&fetched, source.path(), worker.decoder.as_mut())?;
                }
            }
            (Content::Records { window, offset, first_line }, _) => {
                let records = window.content();
                if let Way::Mapped { scan, .. } = &self.way {
                    return scan.decode_fetched(index, records, offset, worker.decoder.as_mut());
                }
                if !records.is_empty() {
                    let decoded = worker.decoder.decode(records, offset);
                    decoded.map_err(|error| self.with_line(error, records, offset, first_line))?;
                }
                if matches!(self.way, Way::Ranges { .. })
                    && let Some(newline) = memchr::memrchr(b'\n', records)
                {
                    self.covered_end.fetch_max(offset + newline as u64 + 1, Ordering::Relaxed);
                }
                if window.heap_bytes() <= KEPT_WINDOW_BYTES && matches!(self.way, Way::Local(_)) {
                    locked(&self.spare_windows).push(window);
                }
            }
            (Content::InFile, Source::Local(file)) => {
                if let Way::Positions { cut, .. } = &self.way {
                    let decoded = cut.decode(index, file, &mut worker.window, worker.decoder.as_mut());
                    return decoded.map_err(|error| self.with_line(error, &[], range.start, None));
                }
                if let Way::Mapped { scan, .. } = &self.way {
                    let decoded = {
                        let recorder = self.recorder.as_deref();
                        scan.decode(index, file, recorder, &mut worker.window, worker.decoder.as_mut())
                    };
                    return decoded.map_err(|error| self.with_line(error, &[], range.start, None));
                }
                let mut reader = RangeReader {
                    file,
                    whole: &self.range,
                    window_bytes: self.grain.window_bytes,
                    recorder: self.recorder.as_deref(),
                    window: &mut worker.window,
                };
                let covered = reader.decode(&range, worker.decoder.as_mut())?;
                self.covered_end.fetch_max(covered, Ordering::Relaxed);
            }
            (Content::InFile | Content::InStream(_), source) => {
                return Err(RawError::NotFetched { file: Arc::clone(source.path()), offset_bytes: range.start });
            }
        }
        Ok(())
    }

    /// Bytes of the file that the scan covers.
    pub fn total_bytes(&self) -> u64 {
        let start = match &self.way {
            Way::Ranges { from, .. } => *from,
            Way::Mapped { scan, .. } => scan.cut.range_of(0).map_or(self.range.end, |range| range.start),
            _ => self.range.start,
        };
        self.range.end.saturating_sub(start)
    }

    /// Offset after the last record that ends in a newline, once every morsel was decoded: below the scan's end, the
    /// rows include those of a last line that lacks its newline. `None` for compressed files, whose offsets are not the
    /// file's, for remote ones that are cut in order, and for scans by position. A scan by map of a local file reads
    /// its last record for it.
    pub fn covered_end(&self) -> Option<u64> {
        if let (Way::Mapped { scan, .. }, Source::Local(file)) = (&self.way, &self.source) {
            return scan.terminated_end(file);
        }
        let is_known = self.compression == Compression::None
            && !matches!(self.way, Way::Remote(_) | Way::Positions { .. } | Way::Mapped { .. });
        is_known.then(|| self.covered_end.load(Ordering::Relaxed).max(self.range.start))
    }

    fn new_worker(&self) -> Result<Worker, RawError> {
        let path = Arc::clone(self.source.path());
        let decoder: Box<dyn Decoder> = match &self.format {
            Format::Ndjson => Box::new(NdjsonDecoder::new(&self.plan, path)?),
            Format::Csv(format) => Box::new(CsvDecoder::new(&self.plan, format, path)?),
        };
        Ok(Worker { decoder, window: Window::default() })
    }

    /// CSV users think in lines; they are counted only now that one is needed.
    fn with_line(&self, error: RawError, records: &[u8], offset: u64, first_line: Option<u64>) -> RawError {
        let at = error.fault().filter(|fault| fault.line.is_none()).map(|fault| fault.offset_bytes);
        let (Format::Csv(_), Some(at)) = (&self.format, at) else { return error };
        let line = match (&self.source, first_line) {
            (_, Some(first)) => line_at(records, at.saturating_sub(offset)).ok().map(|line| first + line - 1),
            (Source::Local(file), None) => {
                let whole = Input::open(file, &(0..self.range.end), self.compression, None);
                whole.ok().and_then(|input| line_at(input, at).ok())
            }
            _ => None,
        };
        match line {
            Some(line) => error.with_line(line),
            None => error,
        }
    }
}

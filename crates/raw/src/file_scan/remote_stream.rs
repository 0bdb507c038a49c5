//! A remote object cut in file order.
//!
//! **Owns**: [`RemoteStream`]: the object's bytes in chunks of fixed size, decompressed as they come. Chunk `i` gives
//! the records that end in it, so that morsels are numbered before anything is fetched.
//!
//! **Concurrency**: one chunk at a time is read and cut, by a future that all who want its piece or a later one share
//! and poll: none waits for another to be polled. No lock is held while it waits. Pieces are left behind for those who
//! claimed them, and dropped with the claim: at most as many wait as claims live.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::ops::Range;
use std::sync::{Arc, Mutex};

use flate2::write::MultiGzDecoder;
use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use thermocline_medium::{Compression, RemoteFile};
use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

use super::cutter::{Cutter, Piece};
use super::window::Window;
use super::{Format, locked};
use crate::RawError;

/// Bytes of a chunk. Large, since each is one request; small, since text compresses five to ten to one and as many
/// pieces as threads are in memory.
pub(super) const CHUNK_BYTES: u64 = 2 << 20;

/// Most that one chunk may decompress to: beyond is not text but an attack on memory. (gzip's best is 1032 to 1, which
/// only runs of a single byte reach.)
const MAX_EXPANDED_BYTES: usize = 512 << 20;

/// Bytes decompressed at once.
const STEP_BYTES: usize = 256 << 10;

/// The stream, shared by all who fetch from it.
pub(super) struct RemoteStream {
    chunks: Chunks,
    cut: Arc<Cut>,
    pieces: Arc<Mutex<Pieces>>,
    /// What makes the next piece, and its number. A failure stays, for whoever asks after it.
    step: Mutex<Option<(u64, Step)>>,
}

type Step = Shared<BoxFuture<'static, Result<(), Arc<RawError>>>>;

/// How the object is read.
struct Chunks {
    chunk_bytes: u64,
    range: Range<u64>,
}

impl Chunks {
    /// The bytes of the object that piece `index` stands for; None behind the last.
    fn range_of(&self, index: u64) -> Option<Range<u64>> {
        let start = self.range.start + index * self.chunk_bytes;
        (start < self.range.end).then(|| start..(start + self.chunk_bytes).min(self.range.end))
    }
}

/// What turns chunks into pieces.
struct Cut {
    file: Arc<RemoteFile>,
    compression: Compression,
    /// Locked by the present step alone.
    state: Mutex<CutState>,
}

struct CutState {
    inflater: Inflater,
    cutter: Cutter,
    /// The line that the next piece's first record begins with, counted from one.
    line: u64,
}

/// What was claimed, and what was cut.
#[derive(Debug, Default)]
struct Pieces {
    /// Pieces claimed so far.
    claimed_count: u64,
    /// The claims that live, fetched ones apart.
    wanted: BTreeSet<u64>,
    /// Pieces cut so far.
    cut_count: u64,
    /// Cut and not yet asked for, each with its first line.
    waiting: BTreeMap<u64, (Piece, u64)>,
}

/// The right to a piece, which is kept for as long as this lives.
#[derive(Debug)]
pub(super) struct Claim {
    index: u64,
    pieces: Arc<Mutex<Pieces>>,
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut pieces = locked(&self.pieces);
        pieces.wanted.remove(&self.index);
        pieces.waiting.remove(&self.index);
    }
}

impl RemoteStream {
    pub(super) fn new(
        file: &Arc<RemoteFile>,
        format: &Format,
        compression: Compression,
        range: Range<u64>,
        chunk_bytes: u64,
    ) -> Result<Self, RawError> {
        let inflater = Inflater::new(compression).map_err(|source| failure(file, compression, range.start, source))?;
        let cutter = Cutter::new(format, range.start);
        let state = Mutex::new(CutState { inflater, cutter, line: 1 });
        Ok(Self {
            chunks: Chunks { chunk_bytes, range },
            cut: Arc::new(Cut { file: Arc::clone(file), compression, state }),
            pieces: Arc::default(),
            step: Mutex::new(None),
        })
    }

    /// Claims the next piece: its number, the bytes of the object that it stands for, and the claim.
    pub(super) fn claim(&self) -> Option<(u64, Range<u64>, Claim)> {
        let mut pieces = locked(&self.pieces);
        let index = pieces.claimed_count;
        let range = self.chunks.range_of(index)?;
        pieces.claimed_count += 1;
        pieces.wanted.insert(index);
        Some((index, range, Claim { index, pieces: Arc::clone(&self.pieces) }))
    }

    /// The claimed piece, which may be empty, and its first line: of an object that would else have to be read anew.
    ///
    /// # Errors
    /// Failures of the store and of decompressing, a record that is too long: to this claim and all later ones.
    pub(super) async fn fetch(&self, claim: Claim) -> Result<Option<(Piece, u64)>, RawError> {
        loop {
            let step = {
                let mut step = locked(&self.step);
                let mut pieces = locked(&self.pieces);
                let index = pieces.cut_count;
                if index > claim.index {
                    return Ok(pieces.waiting.remove(&claim.index));
                }
                match &*step {
                    Some((number, step)) if *number == index => step.clone(),
                    _ => {
                        let Some(range) = self.chunks.range_of(index) else { return Ok(None) };
                        let is_end = range.end == self.chunks.range.end;
                        let (cut, pieces) = (Arc::clone(&self.cut), Arc::clone(&self.pieces));
                        let next = next_piece(cut, pieces, range, is_end).map(|made| made.map_err(Arc::new));
                        let next = next.boxed().shared();
                        *step = Some((index, next.clone()));
                        next
                    }
                }
            };
            step.await.map_err(RawError::Shared)?;
        }
    }

    /// Pieces that were cut and not yet fetched.
    #[cfg(test)]
    pub(super) fn waiting_count(&self) -> usize {
        locked(&self.pieces).waiting.len()
    }
}

/// Reads the chunk at `range` and cuts the next piece with it.
async fn next_piece(
    cut: Arc<Cut>,
    pieces: Arc<Mutex<Pieces>>,
    range: Range<u64>,
    is_end: bool,
) -> Result<(), RawError> {
    let bytes = cut.file.read_range(range.clone()).await?;
    let (piece, line) = cut.push(&bytes, range.start, is_end)?;
    let mut pieces = locked(&pieces);
    let index = pieces.cut_count;
    pieces.cut_count += 1;
    if pieces.wanted.contains(&index) {
        pieces.waiting.insert(index, (piece, line));
    }
    Ok(())
}

impl Cut {
    /// Takes the chunk at `offset`; gives the records that end in it, and their first line.
    fn push(&self, bytes: &[u8], offset: u64, is_end: bool) -> Result<(Piece, u64), RawError> {
        let mut state = locked(&self.state);
        let CutState { inflater, cutter, line } = &mut *state;
        inflater
            .push(bytes, is_end, cutter.window())
            .map_err(|source| failure(&self.file, self.compression, offset, source))?;
        cutter.find_records(&self.file.version().path)?;
        let piece = cutter.take(Window::default(), is_end);
        let first_line = *line;
        *line += memchr::memchr_iter(b'\n', piece.window.content()).count() as u64;
        Ok((piece, first_line))
    }
}

fn failure(file: &RemoteFile, compression: Compression, offset_bytes: u64, source: io::Error) -> RawError {
    let format = match compression {
        Compression::None => "plain",
        Compression::Gzip => "gzip",
        Compression::Zstd => "zstd",
    };
    RawError::Decompress { file: Arc::clone(&file.version().path), offset_bytes, format, source }
}

/// A decompressor that is fed.
enum Inflater {
    Plain,
    Gzip(Box<MultiGzDecoder<Vec<u8>>>),
    Zstd {
        decoder: Decoder<'static>,
        /// Whether the stream may end here.
        is_frame_whole: bool,
    },
}

impl Inflater {
    fn new(compression: Compression) -> io::Result<Self> {
        Ok(match compression {
            Compression::None => Self::Plain,
            Compression::Gzip => Self::Gzip(Box::new(MultiGzDecoder::new(Vec::new()))),
            Compression::Zstd => Self::Zstd { decoder: Decoder::new()?, is_frame_whole: true },
        })
    }

    /// Appends what `bytes` decompress to.
    fn push(&mut self, bytes: &[u8], is_end: bool, window: &mut Window) -> io::Result<()> {
        let limit = window.content().len() + MAX_EXPANDED_BYTES;
        match self {
            Self::Plain => window.extend(bytes),
            Self::Gzip(decoder) => {
                let mut rest = bytes;
                while !rest.is_empty() {
                    // A call decompresses about one internal buffer, so that the limit holds before memory runs out.
                    let taken = decoder.write(rest)?;
                    rest = &rest[taken..];
                    drain(decoder.get_mut(), window);
                    check_limit(window, limit)?;
                }
                if is_end {
                    decoder.try_finish()?;
                    drain(decoder.get_mut(), window);
                }
            }
            Self::Zstd { decoder, is_frame_whole } => {
                let mut input = InBuffer::around(bytes);
                loop {
                    let mut output = OutBuffer::around(window.room(STEP_BYTES));
                    // Frames follow each other: the decoder begins the next by itself.
                    let wanted = decoder.run(&mut input, &mut output)?;
                    let written = output.pos();
                    window.filled(written);
                    if written > 0 || input.pos() > 0 {
                        *is_frame_whole = wanted == 0;
                    }
                    check_limit(window, limit)?;
                    if input.pos() == bytes.len() && (written < STEP_BYTES || wanted == 0) {
                        break;
                    }
                }
                if is_end && !*is_frame_whole {
                    return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the last frame is incomplete"));
                }
            }
        }
        Ok(())
    }
}

fn check_limit(window: &Window, limit: usize) -> io::Result<()> {
    if window.content().len() > limit {
        let text = format!("it expands to more than {} MiB at once", MAX_EXPANDED_BYTES >> 20);
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    Ok(())
}

fn drain(output: &mut Vec<u8>, window: &mut Window) {
    window.extend(output);
    output.clear();
}

//! A remote object cut in file order.
//!
//! **Owns**: [`RemoteStream`]: the object's bytes in chunks of fixed size, decompressed as they come. Chunk `i` gives
//! the records that end in it, so that morsels are numbered before anything is fetched.
//!
//! **Concurrency**: whoever wants a piece fetches all chunks up to it under an asynchronous lock, and leaves the pieces
//! of others behind for them. At most as many pieces wait as morsels are claimed.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::ops::Range;
use std::sync::Arc;

use flate2::write::MultiGzDecoder;
use futures::lock::Mutex;
use thermocline_medium::{Compression, RemoteFile};
use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

use super::Format;
use super::cutter::{Cutter, Piece};
use super::window::Window;
use crate::RawError;

/// Bytes of a chunk. Large, since each is one request; small, since text compresses five to ten to one and as many
/// pieces as threads are in memory.
pub(super) const CHUNK_BYTES: u64 = 2 << 20;

/// Most that one chunk may decompress to: beyond is not text but an attack on memory. (gzip's best is 1032 to 1, which
/// only runs of a single byte reach.)
const MAX_EXPANDED_BYTES: usize = 512 << 20;

/// Bytes decompressed at once.
const STEP_BYTES: usize = 256 << 10;

/// The stream's state, shared by all who fetch from it.
pub(super) struct RemoteStream {
    chunk_bytes: u64,
    range: Range<u64>,
    state: Mutex<State>,
}

struct State {
    inflater: Inflater,
    cutter: Cutter,
    /// The next chunk to fetch.
    chunk: u64,
    /// The line that its first record begins with, counted from one.
    line: u64,
    /// Cut and not yet asked for, each with its first line.
    waiting: BTreeMap<u64, (Piece, u64)>,
    is_broken: bool,
}

impl RemoteStream {
    pub(super) fn new(
        file: &RemoteFile,
        format: &Format,
        compression: Compression,
        range: Range<u64>,
        chunk_bytes: u64,
    ) -> Result<Self, RawError> {
        let inflater = Inflater::new(compression).map_err(|source| failure(file, compression, range.start, source))?;
        let cutter = Cutter::new(format, range.start);
        let state = State { inflater, cutter, chunk: 0, line: 1, waiting: BTreeMap::new(), is_broken: false };
        Ok(Self { chunk_bytes, range, state: Mutex::new(state) })
    }

    /// The bytes of the object that piece `index` stands for; None behind the last.
    pub(super) fn range_of(&self, index: u64) -> Option<Range<u64>> {
        let start = self.range.start + index * self.chunk_bytes;
        (start < self.range.end).then(|| start..(start + self.chunk_bytes).min(self.range.end))
    }

    /// Piece `index`, which may be empty, and its first line: of an object that would else have to be read anew.
    ///
    /// # Errors
    /// Failures of the store and of decompressing, a record that is too long.
    pub(super) async fn fetch(
        &self,
        file: &RemoteFile,
        compression: Compression,
        index: u64,
    ) -> Result<Option<(Piece, u64)>, RawError> {
        let mut state = self.state.lock().await;
        while state.chunk <= index {
            let Some(range) = self.range_of(state.chunk) else { break };
            let bytes = file.read_range(range.clone()).await?;
            // From here on nothing waits: a cancelled fetch leaves the state as it was.
            if state.is_broken {
                let source = io::Error::other("an earlier piece was damaged");
                return Err(failure(file, compression, range.start, source));
            }
            state.is_broken = true;
            let is_end = range.end == self.range.end;
            let State { inflater, cutter, .. } = &mut *state;
            inflater
                .push(&bytes, is_end, cutter.window())
                .map_err(|source| failure(file, compression, range.start, source))?;
            cutter.find_records(&file.version().path)?;
            let piece = cutter.take(Window::default(), is_end);
            let (chunk, line) = (state.chunk, state.line);
            state.line += memchr::memchr_iter(b'\n', piece.window.content()).count() as u64;
            state.waiting.insert(chunk, (piece, line));
            state.chunk += 1;
            state.is_broken = false;
        }
        Ok(state.waiting.remove(&index))
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

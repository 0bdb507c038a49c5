//! A local file as a stream of bytes, decompressed and hashed on the way.
//!
//! **Owns**: [`Input`]. Hashes are taken of the file's own bytes, before decompression.

use std::io::{self, Read};
use std::ops::Range;
use std::sync::Arc;

use flate2::read::MultiGzDecoder;
use thermocline_medium::{BLOCK_BYTES, Compression, HashRecorder, PinnedFile};

use super::window::Window;
use crate::RawError;

/// Bytes of a range of a file in order.
pub(super) struct Input {
    inner: Inner,
    file: Arc<PinnedFile>,
    format: &'static str,
}

enum Inner {
    Plain(Box<FileReader>),
    Gzip(Box<MultiGzDecoder<FileReader>>),
    Zstd(Box<zstd::stream::read::Decoder<'static, io::BufReader<FileReader>>>),
}

impl Input {
    /// Opens `range` of a plain file, or a compressed file from its start.
    pub(super) fn open(
        file: &Arc<PinnedFile>,
        range: &Range<u64>,
        compression: Compression,
        recorder: Option<Arc<HashRecorder>>,
    ) -> Result<Self, RawError> {
        let reader = FileReader {
            file: Arc::clone(file),
            at: range.start,
            end: range.end,
            recorder,
            block: Vec::new(),
            block_start: 0,
        };
        let (inner, format) = match compression {
            Compression::None => (Inner::Plain(Box::new(reader)), "plain"),
            Compression::Gzip => (Inner::Gzip(Box::new(MultiGzDecoder::new(reader))), "gzip"),
            Compression::Zstd => {
                let decoder = zstd::stream::read::Decoder::new(reader);
                (Inner::Zstd(Box::new(decoder.map_err(|source| failure(file, 0, "zstd", source))?)), "zstd")
            }
        };
        Ok(Self { inner, file: Arc::clone(file), format })
    }

    /// The file's path.
    pub(super) fn path(&self) -> &Arc<str> {
        self.file.path()
    }

    /// Bytes of the file taken so far.
    pub(super) fn file_bytes(&self) -> u64 {
        match &self.inner {
            Inner::Plain(reader) => reader.at,
            Inner::Gzip(decoder) => decoder.get_ref().at,
            Inner::Zstd(decoder) => decoder.get_ref().get_ref().at,
        }
    }

    /// Appends up to `most` bytes to the window; none only at the end.
    ///
    /// # Errors
    /// Failures of reading and decompressing, a file that is shorter than it was.
    pub(super) fn append(&mut self, window: &mut Window, most: usize) -> Result<usize, RawError> {
        if let Inner::Plain(reader) = &mut self.inner
            && let Some(count) = reader.append_block(window, most)?
        {
            return Ok(count);
        }
        let room = window.room(most);
        let mut filled = 0;
        while filled < most {
            match self.read(&mut room[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(failure(&self.file, self.file_bytes(), self.format, error)),
            }
        }
        window.filled(filled);
        Ok(filled)
    }
}

fn failure(file: &PinnedFile, offset_bytes: u64, format: &'static str, error: io::Error) -> RawError {
    // A reader below hides its own error inside; it says more than the decompressor's.
    match error.downcast::<RawError>() {
        Ok(own) => own,
        Err(source) => RawError::Decompress { file: Arc::clone(file.path()), offset_bytes, format, source },
    }
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.inner {
            Inner::Plain(reader) => reader.read(buffer),
            Inner::Gzip(decoder) => decoder.read(buffer),
            Inner::Zstd(decoder) => decoder.read(buffer),
        }
    }
}

/// Reads a range of a file, hashing it block by block.
struct FileReader {
    file: Arc<PinnedFile>,
    /// Offset of the next byte to hand out.
    at: u64,
    end: u64,
    recorder: Option<Arc<HashRecorder>>,
    block: Vec<u8>,
    block_start: u64,
}

impl FileReader {
    /// The bounds of the block that holds `at`, cut at the range's end.
    fn block_bounds(&self) -> Range<u64> {
        let size = BLOCK_BYTES as u64;
        let start = self.at / size * size;
        start..(start + size).min(self.end)
    }

    fn read_exact_at(&self, buffer: &mut [u8], at: u64) -> Result<(), RawError> {
        let read = self.file.read_at(buffer, at)?;
        if read < buffer.len() {
            return Err(RawError::Truncated {
                file: Arc::clone(self.file.path()),
                offset_bytes: at + read as u64,
                expected_bytes: self.end,
            });
        }
        Ok(())
    }

    /// Reads to the end of the block straight into the window; None where a block must be hashed that is not read whole
    /// here.
    fn append_block(&mut self, window: &mut Window, most: usize) -> Result<Option<usize>, RawError> {
        let bounds = self.block_bounds();
        let count = (bounds.end.saturating_sub(self.at) as usize).min(most);
        if self.recorder.is_some() && (self.at != bounds.start || self.at + count as u64 != bounds.end) {
            return Ok(None);
        }
        let room = window.room(count);
        self.read_exact_at(room, self.at)?;
        if let Some(recorder) = &self.recorder
            && count > 0
        {
            recorder.record(bounds.start / BLOCK_BYTES as u64, room);
        }
        window.filled(count);
        self.at += count as u64;
        Ok(Some(count))
    }

    /// Makes the block that holds `at` current.
    fn load(&mut self) -> Result<(), RawError> {
        let bounds = self.block_bounds();
        let mut block = std::mem::take(&mut self.block);
        block.resize((bounds.end - bounds.start) as usize, 0);
        self.read_exact_at(&mut block, bounds.start)?;
        if let Some(recorder) = &self.recorder {
            recorder.record(bounds.start / BLOCK_BYTES as u64, &block);
        }
        self.block = block;
        self.block_start = bounds.start;
        Ok(())
    }
}

impl Read for FileReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at >= self.end || buffer.is_empty() {
            return Ok(0);
        }
        let is_loaded = (self.block_start..self.block_start + self.block.len() as u64).contains(&self.at);
        if !is_loaded {
            self.load().map_err(io::Error::other)?;
        }
        let from = (self.at - self.block_start) as usize;
        let count = buffer.len().min(self.block.len() - from);
        buffer[..count].copy_from_slice(&self.block[from..from + count]);
        self.at += count as u64;
        Ok(count)
    }
}

/// Bytes decompressed at once where a head is.
const DECOMPRESS_STEP_BYTES: usize = 1 << 20;

/// The first `most` decompressed bytes of `bytes`, which may be cut off anywhere. Asks `hold` for what they take in all.
///
/// # Errors
/// Damaged data before that (a cut-off end is none); `hold`'s.
pub(super) fn decompress_head(
    bytes: &[u8],
    compression: Compression,
    most: usize,
    file: &Arc<str>,
    hold: &dyn Fn(usize) -> Result<(), RawError>,
) -> Result<Vec<u8>, RawError> {
    let failed = |format: &'static str, source: io::Error| RawError::Decompress {
        file: Arc::clone(file),
        offset_bytes: 0,
        format,
        source,
    };
    let (mut reader, format): (Box<dyn Read + '_>, _) = match compression {
        Compression::None => {
            let head = &bytes[..bytes.len().min(most)];
            hold(head.len())?;
            return Ok(head.to_vec());
        }
        Compression::Gzip => (Box::new(MultiGzDecoder::new(bytes)), "gzip"),
        Compression::Zstd => {
            (Box::new(zstd::stream::read::Decoder::new(bytes).map_err(|error| failed("zstd", error))?), "zstd")
        }
    };
    let mut head = Vec::new();
    while head.len() < most {
        let step = (most - head.len()).min(DECOMPRESS_STEP_BYTES);
        if head.capacity() < head.len() + step {
            // As vectors grow.
            hold((head.len() + step).max(2 * head.capacity()))?;
            head.reserve(step);
        }
        match reader.by_ref().take(step as u64).read_to_end(&mut head) {
            Ok(read) if read < step => break,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break,
            Err(error) => return Err(failed(format, error)),
        }
    }
    Ok(head)
}

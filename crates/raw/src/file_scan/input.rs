//! A local file as a stream of bytes, decompressed and hashed on the way.

use std::io::{self, Read};
use std::ops::Range;
use std::sync::Arc;

use flate2::read::MultiGzDecoder;
use thermocline_medium::{BLOCK_BYTES, Compression, HashRecorder, PinnedFile};

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
        let reader = FileReader::new(Arc::clone(file), range.clone(), recorder);
        let failed = |source| RawError::Decompress { file: Arc::clone(file.path()), offset_bytes: 0, format: "zstd", source };
        let (inner, format) = match compression {
            Compression::None => (Inner::Plain(Box::new(reader)), "plain"),
            Compression::Gzip => (Inner::Gzip(Box::new(MultiGzDecoder::new(reader))), "gzip"),
            Compression::Zstd => {
                (Inner::Zstd(Box::new(zstd::stream::read::Decoder::new(reader).map_err(failed)?)), "zstd")
            }
        };
        Ok(Self { inner, file: Arc::clone(file), format })
    }

    /// Bytes of the file taken so far.
    pub(super) fn file_bytes(&self) -> u64 {
        match &self.inner {
            Inner::Plain(reader) => reader.at,
            Inner::Gzip(decoder) => decoder.get_ref().at,
            Inner::Zstd(decoder) => decoder.get_ref().get_ref().at,
        }
    }

    /// Appends up to `wanted` bytes to `buffer`; fewer only at the end.
    pub(super) fn append(&mut self, buffer: &mut Vec<u8>, wanted: usize) -> Result<usize, RawError> {
        let kept = buffer.len();
        buffer.resize(kept + wanted, 0);
        let mut filled = kept;
        while filled < buffer.len() {
            match self.read(&mut buffer[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failure(error)),
            }
        }
        buffer.truncate(filled);
        Ok(filled - kept)
    }

    fn failure(&self, error: io::Error) -> RawError {
        // A reader below hides its own error inside; it says more than the decompressor's.
        match error.downcast::<RawError>() {
            Ok(own) => own,
            Err(source) => RawError::Decompress {
                file: Arc::clone(self.file.path()),
                offset_bytes: self.file_bytes(),
                format: self.format,
                source,
            },
        }
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

/// Reads a range of a file block by block.
struct FileReader {
    file: Arc<PinnedFile>,
    range: Range<u64>,
    /// Offset of the next byte to hand out.
    at: u64,
    recorder: Option<Arc<HashRecorder>>,
    block: Vec<u8>,
    block_start: u64,
}

impl FileReader {
    fn new(file: Arc<PinnedFile>, range: Range<u64>, recorder: Option<Arc<HashRecorder>>) -> Self {
        Self { file, at: range.start, range, recorder, block: Vec::new(), block_start: 0 }
    }

    /// Makes the block that holds `at` current.
    fn load(&mut self) -> Result<(), RawError> {
        let size = BLOCK_BYTES as u64;
        let start = self.at / size * size;
        let end = (start + size).min(self.range.end);
        self.block.resize((end - start) as usize, 0);
        let read = self.file.read_at(&mut self.block, start)?;
        if (read as u64) < end - start {
            return Err(RawError::Truncated {
                file: Arc::clone(self.file.path()),
                offset_bytes: start + read as u64,
                expected_bytes: self.range.end,
            });
        }
        if let Some(recorder) = &self.recorder {
            recorder.record(start / size, &self.block);
        }
        self.block_start = start;
        Ok(())
    }
}

impl Read for FileReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at >= self.range.end || buffer.is_empty() {
            return Ok(0);
        }
        let in_block = !self.block.is_empty()
            && self.at >= self.block_start
            && self.at < self.block_start + self.block.len() as u64;
        if !in_block {
            self.load().map_err(io::Error::other)?;
        }
        let from = (self.at - self.block_start) as usize;
        let count = buffer.len().min(self.block.len() - from);
        buffer[..count].copy_from_slice(&self.block[from..from + count]);
        self.at += count as u64;
        Ok(count)
    }
}

/// The first `most` decompressed bytes of `bytes`, which may be cut off anywhere.
///
/// # Errors
/// Damaged data before that; a cut-off end is none.
pub(super) fn decompress_head(bytes: &[u8], compression: Compression, most: usize, file: &Arc<str>) -> Result<Vec<u8>, RawError> {
    let failed = |format: &'static str, source: io::Error| RawError::Decompress {
        file: Arc::clone(file),
        offset_bytes: 0,
        format,
        source,
    };
    let (mut reader, format): (Box<dyn Read + '_>, _) = match compression {
        Compression::None => return Ok(bytes[..bytes.len().min(most)].to_vec()),
        Compression::Gzip => (Box::new(MultiGzDecoder::new(bytes)), "gzip"),
        Compression::Zstd => {
            (Box::new(zstd::stream::read::Decoder::new(bytes).map_err(|error| failed("zstd", error))?), "zstd")
        }
    };
    let mut head = Vec::new();
    match reader.by_ref().take(most as u64).read_to_end(&mut head) {
        Ok(_) => Ok(head),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && !head.is_empty() && most != usize::MAX => Ok(head),
        Err(error) => Err(failed(format, error)),
    }
}

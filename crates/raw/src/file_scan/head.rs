//! The beginning of a file, for inference.

use std::error::Error;
use std::sync::Arc;

use thermocline_medium::Compression;

use super::Source;
use super::input::{Input, decompress_head};
use super::window::Window;
use crate::error::{MAX_RECORD_BYTES, RawError};

/// Bytes of a local file read at once.
const STEP_BYTES: usize = 256 << 10;

/// Bytes of the first request to a store.
const FIRST_REQUEST_BYTES: u64 = 4 << 20;

/// Memory taken ahead at most.
const EXPECTED_MOST_BYTES: usize = 256 << 20;

/// Lines that are read however long they are: a header, and a record that says what it names.
const LEAST_LINES: usize = 2;

/// Gets memory for a head that is to take so many bytes in all; the error is the cause of
/// [`RawError::SampleMemory`].
pub type HoldBytes<'a> = &'a (dyn Fn(u64) -> Result<(), Box<dyn Error + Send + Sync>> + Sync);

/// The first bytes of a file, decompressed.
#[derive(Debug, Clone)]
pub struct Head {
    /// At least the wanted lines, if the file has them and they fit the wanted bytes; the last may be cut off.
    pub bytes: Vec<u8>,
    /// Whether this is the whole file.
    pub is_whole: bool,
}

/// About what the head will take, from its first step: growing step by step would copy it, and fault its pages in,
/// several times over. A guess, so never more than what is likely to be there.
fn expected_bytes(
    step_bytes: usize,
    step_lines: usize,
    row_count: usize,
    most_bytes: usize,
    compression: Compression,
    size_bytes: u64,
) -> usize {
    let by_rows = (step_bytes / step_lines.max(1)).saturating_mul(row_count).saturating_add(2 * STEP_BYTES);
    let text_bytes = match compression {
        Compression::None => size_bytes,
        // Text compresses about four to one.
        _ => size_bytes.saturating_mul(4),
    };
    let by_size = usize::try_from(text_bytes).unwrap_or(usize::MAX);
    by_rows.min(most_bytes.saturating_add(STEP_BYTES)).min(by_size).min(EXPECTED_MOST_BYTES)
}

/// Which bytes of a file are its head.
#[derive(Debug, Clone, Copy)]
pub struct HeadSize {
    /// Lines that are enough.
    pub row_count: usize,
    /// Bytes that are enough, once they hold two lines or as much as a record may have.
    pub most_bytes: usize,
}

impl HeadSize {
    fn is_reached(self, line_count: usize, bytes: usize) -> bool {
        line_count >= self.row_count
            || (bytes >= self.most_bytes && (line_count >= LEAST_LINES || bytes > MAX_RECORD_BYTES))
    }
}

/// Reads until `wanted` is reached or the file ends; `hold` is asked for the memory before it is taken. Blank lines and
/// newlines inside the quotes of CSV end lines too, since how the file quotes is only guessed from its head: where there
/// are such, it holds fewer records.
///
/// # Errors
/// When the file cannot be read or decompressed, or `hold` has no memory.
pub async fn read_head(
    source: &Source,
    size_bytes: u64,
    compression: Compression,
    wanted: HeadSize,
    hold: HoldBytes<'_>,
) -> Result<Head, RawError> {
    let held = |bytes: usize| {
        let file = || Arc::clone(source.path());
        hold(bytes as u64).map_err(|source| RawError::SampleMemory { file: file(), source })
    };
    let HeadSize { row_count, most_bytes } = wanted;
    match source {
        Source::Local(file) => {
            let mut input = Input::open(file, &(0..size_bytes), compression, None)?;
            let mut window = Window::default();
            let mut lines = 0;
            let mut is_whole = false;
            while !is_whole && !wanted.is_reached(lines, window.content().len()) {
                let step = match compression {
                    Compression::None => size_bytes.saturating_sub(input.file_bytes()).clamp(1, STEP_BYTES as u64),
                    _ => STEP_BYTES as u64,
                } as usize;
                held(window.grown_bytes(step))?;
                let read = input.append(&mut window, step)?;
                let fresh = window.content().len() - read;
                lines += memchr::memchr_iter(b'\n', &window.content()[fresh..]).count();
                // Of a plain file the end is known; a decompressor tells it only when asked for more.
                is_whole = read == 0 || (compression == Compression::None && input.file_bytes() >= size_bytes);
                if fresh == 0 {
                    let expected = expected_bytes(read, lines, row_count, most_bytes, compression, size_bytes);
                    // A guess: where there is no memory for it, what is read may be less.
                    if held(expected.max(window.heap_bytes())).is_ok() {
                        window.reserve(expected);
                    }
                }
            }
            Ok(Head { bytes: window.into_content(), is_whole })
        }
        Source::Remote(file) => {
            // A request costs tens of milliseconds whatever it brings, so the first one brings much.
            let mut fetch_bytes = FIRST_REQUEST_BYTES;
            let mut most = most_bytes;
            loop {
                let end = fetch_bytes.min(size_bytes);
                let fetched_bytes = usize::try_from(end).unwrap_or(usize::MAX);
                let with_fetched = |bytes: usize| held(bytes.saturating_add(fetched_bytes));
                with_fetched(0)?;
                let fetched = file.read_range(0..end).await?;
                let (bytes, lines) = loop {
                    let bytes = decompress_head(&fetched, compression, most, source.path(), &with_fetched)?;
                    let lines = memchr::memchr_iter(b'\n', &bytes).count();
                    if bytes.len() < most || most > MAX_RECORD_BYTES || wanted.is_reached(lines, bytes.len()) {
                        break (bytes, lines);
                    }
                    most = most.saturating_mul(4).min(MAX_RECORD_BYTES + 1);
                };
                let is_all = end == size_bytes;
                if is_all || wanted.is_reached(lines, bytes.len()) {
                    return Ok(Head { is_whole: is_all && bytes.len() < most, bytes });
                }
                fetch_bytes *= 4;
            }
        }
    }
}

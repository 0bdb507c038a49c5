//! The beginning of a file, for inference.

use std::sync::Arc;

use thermocline_medium::Compression;

use super::Source;
use super::input::{Input, decompress_head};
use super::window::Window;
use crate::RawError;

/// Bytes read at once.
const STEP_BYTES: usize = 1 << 20;

/// Memory taken ahead at most.
const EXPECTED_MOST_BYTES: usize = 256 << 20;

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

/// Reads until `row_count` lines were seen, the file ends, or at least `most_bytes` were read. Blank lines and newlines
/// inside the quotes of CSV end lines too, since how the file quotes is only guessed from its head: where there are
/// such, it holds fewer records.
///
/// # Errors
/// When the file cannot be read or decompressed.
pub async fn read_head(
    source: &Source,
    size_bytes: u64,
    compression: Compression,
    row_count: usize,
    most_bytes: usize,
) -> Result<Head, RawError> {
    match source {
        Source::Local(file) => {
            let mut input = Input::open(file, &(0..size_bytes), compression, None)?;
            let mut window = Window::default();
            let mut lines = 0;
            let mut is_whole = false;
            while !is_whole && lines < row_count && window.content().len() < most_bytes {
                let read = input.append(&mut window, STEP_BYTES)?;
                let fresh = window.content().len() - read;
                lines += memchr::memchr_iter(b'\n', &window.content()[fresh..]).count();
                // Of a plain file the end is known; a decompressor tells it only when asked for more.
                is_whole = read == 0 || (compression == Compression::None && input.file_bytes() >= size_bytes);
                if fresh == 0 {
                    window.reserve(expected_bytes(read, lines, row_count, most_bytes, compression, size_bytes));
                }
            }
            Ok(Head { bytes: window.into_content(), is_whole })
        }
        Source::Remote(file) => {
            // A request costs tens of milliseconds whatever it brings, so the first one brings much.
            let mut wanted = 4 * STEP_BYTES as u64;
            loop {
                let end = wanted.min(size_bytes);
                let fetched = file.read_range(0..end).await?;
                let bytes = decompress_head(&fetched, compression, most_bytes, &Arc::clone(source.path()))?;
                let lines = memchr::memchr_iter(b'\n', &bytes).count();
                let is_all = end == size_bytes;
                if is_all || lines >= row_count || bytes.len() >= most_bytes {
                    return Ok(Head { is_whole: is_all && bytes.len() < most_bytes, bytes });
                }
                wanted *= 4;
            }
        }
    }
}

//! Reads the footer of a Parquet file.

use std::panic;

use bytes::Bytes;
use datafusion::common::Result;
use datafusion::parquet::arrow::parquet_to_arrow_schema;
use datafusion::parquet::file::metadata::{
    FooterTail, PageIndexPolicy, ParquetMetaData, ParquetMetaDataPushDecoder, ParquetMetaDataReader,
};
use datafusion::parquet::{DecodeResult, errors::ParquetError};

use super::file::ParquetFile;
use super::trust::{trusted, without_page_index};

/// Read from the end at first: as much as fits most footers together with their page index, in one request to a store.
const TAIL_BYTES: u64 = 256 << 10;

/// Length of the footer's length and the magic bytes after it.
const FOOTER_TAIL_BYTES: u64 = 8;

/// Magic bytes at either end.
const MAGIC_BYTES: u64 = 4;

/// A page index up to this size is read and kept with the footer, since every partition of a filtered scan wants it. A
/// larger one is left to the scan, which reads it if it is of use: it would push many footers out of the cache.
const PAGE_INDEX_MOST_BYTES: u64 = 1 << 20;

/// The footer of `file`, as far as it is to be believed, with its page index if that is small. One that cannot be decoded
/// is left out.
///
/// # Errors
/// A file that is not Parquet, damaged or cut off, an encrypted one, failures of reading.
pub(super) async fn read(file: &ParquetFile) -> Result<ParquetMetaData> {
    let size_bytes = file.size_bytes();
    if size_bytes < MAGIC_BYTES + FOOTER_TAIL_BYTES {
        return Err(file.error(format_args!("not a Parquet file: it has {size_bytes} bytes, expected at least 12")));
    }
    let tail_start = size_bytes.saturating_sub(TAIL_BYTES);
    let tail = read_one(file, tail_start, size_bytes).await?;
    let Some(footer_tail) = tail.last_chunk::<{ FOOTER_TAIL_BYTES as usize }>() else {
        return Err(file.error("not a Parquet file: it has no footer"));
    };
    let footer_tail = FooterTail::try_new(footer_tail).map_err(|_| {
        file.error(format_args!(
            "not a Parquet file, or cut off: it ends in \"{}\", expected \"PAR1\"",
            footer_tail[4..].escape_ascii()
        ))
    })?;
    if footer_tail.is_encrypted_footer() {
        return Err(file.error("the Parquet footer is encrypted, which is not supported"));
    }
    let metadata_bytes = footer_tail.metadata_length() as u64;
    if metadata_bytes + FOOTER_TAIL_BYTES + MAGIC_BYTES > size_bytes {
        return Err(file.error(format_args!(
            "damaged Parquet file: its footer claims {metadata_bytes} bytes, the whole file has {size_bytes}"
        )));
    }
    let metadata_start = size_bytes - FOOTER_TAIL_BYTES - metadata_bytes;
    let metadata_end = size_bytes - FOOTER_TAIL_BYTES;
    let metadata = from_tail_or_file(file, &tail, tail_start, metadata_start, metadata_end).await?;
    let damaged =
        |error: ParquetError| file.error(format_args!("damaged Parquet footer at byte {metadata_start}: {error}"));
    let encoded = metadata;
    let decoded = || trusted(ParquetMetaDataReader::decode_metadata(&encoded)?, size_bytes);
    let metadata = decoded().map_err(damaged)?;
    check_arrow_schema(&metadata).map_err(damaged)?;
    match page_index_range(&metadata) {
        Some((start, end)) if end <= metadata_start && end - start <= PAGE_INDEX_MOST_BYTES => {
            let index = from_tail_or_file(file, &tail, tail_start, start, end).await?;
            match with_page_index(metadata, size_bytes, &index, start) {
                Ok(metadata) => Ok(metadata),
                // Rows are read without it as well.
                Err(_) => decoded().and_then(without_page_index).map_err(damaged),
            }
        }
        _ => Ok(metadata),
    }
}

/// Arrow writes a schema of its own into the footer, and panics at some that are damaged.
fn check_arrow_schema(metadata: &ParquetMetaData) -> Result<(), ParquetError> {
    let metadata = metadata.file_metadata();
    let read = panic::catch_unwind(|| {
        // What else may be wrong with it is told by who reads it.
        let _ = parquet_to_arrow_schema(metadata.schema_descr(), metadata.key_value_metadata());
    });
    read.map_err(|_| ParquetError::General("its Arrow schema cannot be decoded".to_owned()))
}

async fn read_one(file: &ParquetFile, start: u64, end: u64) -> Result<Bytes> {
    let ranges: Vec<_> = std::iter::once(start..end).collect();
    Ok(file.read(ranges).await?.pop().unwrap_or_default())
}

async fn from_tail_or_file(file: &ParquetFile, tail: &Bytes, tail_start: u64, start: u64, end: u64) -> Result<Bytes> {
    if start >= tail_start {
        // The tail is at most TAIL_BYTES long.
        return Ok(tail.slice((start - tail_start) as usize..(end - tail_start) as usize));
    }
    read_one(file, start, end).await
}

/// Where the column and offset indexes lie, together.
fn page_index_range(metadata: &ParquetMetaData) -> Option<(u64, u64)> {
    let columns = metadata.row_groups().iter().flat_map(|row_group| row_group.columns());
    let ranges = columns.flat_map(|column| {
        [
            (column.column_index_offset(), column.column_index_length()),
            (column.offset_index_offset(), column.offset_index_length()),
        ]
    });
    let mut whole: Option<(u64, u64)> = None;
    for (offset, length) in ranges {
        let (Some(offset), Some(length)) = (offset, length) else { continue };
        let start = u64::try_from(offset).ok()?;
        let end = start.checked_add(u64::try_from(length).ok()?)?;
        whole = Some(whole.map_or((start, end), |(first, last)| (first.min(start), last.max(end))));
    }
    whole
}

fn with_page_index(
    metadata: ParquetMetaData,
    size_bytes: u64,
    index: &Bytes,
    index_start: u64,
) -> Result<ParquetMetaData, ParquetError> {
    let mut decoder = ParquetMetaDataPushDecoder::try_new_with_metadata(size_bytes, metadata)?
        .with_page_index_policy(PageIndexPolicy::Optional);
    decoder.push_range(index_start..index_start + index.len() as u64, index.clone())?;
    match decoder.try_decode()? {
        DecodeResult::Data(metadata) => Ok(metadata),
        DecodeResult::NeedsData(_) | DecodeResult::Finished => {
            Err(ParquetError::General("it lies elsewhere than the footer says".to_owned()))
        }
    }
}

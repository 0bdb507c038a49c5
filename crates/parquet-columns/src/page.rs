//! A page of values that was decompressed, and how far it was read.
//!
//! **Concurrency**: one thread at a time.

use std::sync::Arc;

use arrow::buffer::BooleanBuffer;
use bytes::Bytes;
use parquet::basic::Encoding;
use parquet::column::page::Page;

use crate::ChunkError;
use crate::dictionary::Dictionary;
use crate::hybrid::Hybrid;
use crate::kind::{Kind, Stored};
use crate::plain::Plain;
use crate::slice::Slice;

/// See the module.
pub(crate) struct OpenPage {
    row_count: usize,
    next_row: usize,
    /// Which rows are not NULL; `None` if all.
    valid: Option<BooleanBuffer>,
    values: PageValues,
}

/// The values that are not NULL, as far as they were not read.
pub(crate) enum PageValues {
    /// One behind the other, as they are.
    Plain(Plain),
    /// Truth values in runs.
    BitRuns(Hybrid),
    /// Codes of the dictionary.
    Codes(Hybrid),
}

impl OpenPage {
    /// A page of a chunk of `chunk_rows` rows. Of no more rows than that anything is made: the header may be damaged.
    pub(crate) fn new(kind: &Kind, page: Page, chunk_rows: usize) -> Result<Self, ChunkError> {
        let found = page.num_values() as usize;
        if found > chunk_rows {
            return Err(ChunkError::damaged(format!("a page of {found} values in a row group of {chunk_rows} rows")));
        }
        let (row_count, encoding, valid, values) = match page {
            Page::DataPage { mut buf, num_values, encoding, def_level_encoding, .. } => {
                let row_count = num_values as usize;
                let valid = match kind.has_levels {
                    true => levels_before_values(&mut buf, def_level_encoding, row_count)?,
                    false => None,
                };
                (row_count, encoding, valid, buf)
            }
            Page::DataPageV2 { buf, num_values, encoding, def_levels_byte_len, rep_levels_byte_len, .. } => {
                let row_count = num_values as usize;
                let begin = rep_levels_byte_len as usize;
                let end = begin.saturating_add(def_levels_byte_len as usize);
                if end > buf.len() {
                    return Err(ChunkError::damaged(format!("levels of {end} bytes in a page of {}", buf.len())));
                }
                let valid = match kind.has_levels && begin < end {
                    true => Hybrid::new(buf.slice(begin..end), 1)?.read_bits(row_count)?,
                    false => None,
                };
                (row_count, encoding, valid, buf.slice(end..))
            }
            Page::DictionaryPage { .. } => return Err(ChunkError::damaged("a second dictionary in a column chunk")),
        };
        let values = page_values(kind, encoding, values)?;
        Ok(Self { row_count, next_row: 0, valid, values })
    }

    pub(crate) fn rows_left(&self) -> usize {
        self.row_count - self.next_row
    }

    /// How many of the next rows are not NULL, and which.
    fn advance(&mut self, rows: usize) -> (usize, Option<BooleanBuffer>) {
        let valid = self.valid.as_ref().map(|valid| valid.slice(self.next_row, rows));
        self.next_row += rows;
        match valid {
            Some(valid) => match valid.count_set_bits() {
                count if count == rows => (count, None),
                count => (count, Some(valid)),
            },
            None => (rows, None),
        }
    }

    pub(crate) fn skip(&mut self, rows: usize) -> Result<(), ChunkError> {
        let (count, _) = self.advance(rows);
        self.values.skip(count)
    }

    /// Appends the next rows, of which there are so many.
    pub(crate) fn take(
        &mut self,
        rows: usize,
        dictionary: Option<&Arc<Dictionary>>,
        slice: &mut Slice,
    ) -> Result<(), ChunkError> {
        let (count, valid) = self.advance(rows);
        slice.append(&mut self.values, rows, count, valid, dictionary)
    }
}

impl PageValues {
    fn skip(&mut self, count: usize) -> Result<(), ChunkError> {
        match self {
            Self::Codes(codes) | Self::BitRuns(codes) => codes.skip(count),
            Self::Plain(plain) => plain.skip(count),
        }
    }
}

/// Which rows are not NULL, by the levels that a page of the first version begins with.
fn levels_before_values(
    buf: &mut Bytes,
    encoding: Encoding,
    row_count: usize,
) -> Result<Option<BooleanBuffer>, ChunkError> {
    #[expect(deprecated, reason = "files of old writers have it")]
    if encoding == Encoding::BIT_PACKED {
        let size_bytes = row_count.div_ceil(8);
        let levels = split_to(buf, size_bytes)?;
        // The highest bit first.
        let bits: Vec<u8> = levels.iter().map(|byte| byte.reverse_bits()).collect();
        return Ok(Some(BooleanBuffer::new(bits.into(), 0, row_count)));
    }
    let prefix = split_to(buf, 4)?;
    let size_bytes = prefix.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
    Hybrid::new(split_to(buf, size_bytes as usize)?, 1)?.read_bits(row_count)
}

fn split_to(buf: &mut Bytes, size_bytes: usize) -> Result<Bytes, ChunkError> {
    match size_bytes <= buf.len() {
        true => Ok(buf.split_to(size_bytes)),
        false => Err(ChunkError::damaged(format!("levels of {size_bytes} bytes in a page of {} more", buf.len()))),
    }
}

fn page_values(kind: &Kind, encoding: Encoding, mut values: Bytes) -> Result<PageValues, ChunkError> {
    match (encoding, kind.stored) {
        (Encoding::PLAIN, stored) => Ok(PageValues::Plain(Plain::new(stored, values))),
        (Encoding::RLE, Stored::Bits) => {
            let prefix = split_to(&mut values, 4)?;
            let size_bytes = prefix.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes)) as usize;
            Ok(PageValues::BitRuns(Hybrid::new(split_to(&mut values, size_bytes)?, 1)?))
        }
        (Encoding::PLAIN_DICTIONARY | Encoding::RLE_DICTIONARY, _) => {
            // A page of NULLs alone may have nothing at all.
            let width = if values.is_empty() { 0 } else { split_to(&mut values, 1)?[0] };
            Ok(PageValues::Codes(Hybrid::new(values, width.into())?))
        }
        (other, _) => Err(ChunkError::damaged(format!("a page is encoded as {other}, which its footer does not say"))),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use arrow::datatypes::DataType;

    use super::*;

    #[test]
    fn a_page_has_no_more_rows_than_its_row_group() {
        let kind = Kind { data_type: DataType::Int64, stored: Stored::Int64, has_levels: true };
        let page = |num_values: u32| {
            // One run of so many levels that are 1.
            let mut levels = Vec::new();
            let mut left = u64::from(num_values) << 1;
            while left >= 0x80 {
                levels.push(left as u8 | 0x80);
                left >>= 7;
            }
            levels.extend([left as u8, 1]);
            let mut buf = (levels.len() as u32).to_le_bytes().to_vec();
            buf.extend(levels);
            Page::DataPage {
                buf: buf.into(),
                num_values,
                encoding: Encoding::PLAIN,
                def_level_encoding: Encoding::RLE,
                rep_level_encoding: Encoding::RLE,
                statistics: None,
            }
        };
        assert_eq!(OpenPage::new(&kind, page(1000), 1000).map(|page| page.rows_left()).unwrap(), 1000);
        let error = OpenPage::new(&kind, page(i32::MAX as u32), 1000).map(|page| page.rows_left()).unwrap_err();
        assert_eq!(error.to_string(), "a page of 2147483647 values in a row group of 1000 rows");
    }
}

//! The footer's bytes: the columns, the directory of pages, and the trailer that the file ends with.
//!
//! **Owns**: `docs/formats/column-segments.md` from the footer on. **Does not own**: reading it from a file (`reader`).
//!
//! **Invariants**: every byte from the footer's start to the file's end is compared with what it must be or is under
//! the checksum. What is read takes memory in proportion to the bytes that are there, whatever they say, and what was
//! read describes pages that lie one behind the other from the file's start to the footer's.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use xxhash_rust::xxh3::xxh3_64;

use super::directory::{PagePlace, RowGroup};
use super::{PAGE_ALIGNMENT_BYTES, SegmentError, stored_bytes};
use crate::page::{encoding_codes, encoding_of};
use crate::zone_map::BOUND_BYTES;
use crate::{HEADER_BYTES, MAX_PAGE_VALUES, PhysicalType, ZoneMap};

/// Bytes that a file ends with.
pub(super) const TRAILER_BYTES: usize = 64;
/// What the file's last four bytes are.
pub(super) const MAGIC: [u8; 4] = *b"TcSg";
pub(super) const VERSION: u16 = 1;

// Places in the trailer.
const FOOTER_OFFSET_AT: usize = 0;
const FOOTER_BYTES_AT: usize = 8;
pub(super) const ROW_COUNT_AT: usize = 16;
/// Key id (4 bytes) and nonce (12 bytes) of an encrypted footer, and 8 bytes more; zeros, as there are none yet.
const RESERVED_AT: usize = 24;
pub(super) const CHECKSUM_AT: usize = 48;
const VERSION_AT: usize = 56;
const TRAILER_BYTES_AT: usize = 58;
const MAGIC_AT: usize = 60;

/// Bytes of a page's entry in the directory.
const ENTRY_BYTES: usize = 72;
/// The least that a column takes: flags and the lengths of name, type and metadata.
const LEAST_COLUMN_BYTES: usize = 13;
/// Longest spelling of a type, most of which a time zone can take. The parser of types calls itself for nested ones:
/// this is the bound of that, too.
const MAX_TYPE_TEXT_BYTES: usize = 256;
/// Longest name or piece of metadata.
const MAX_TEXT_BYTES: usize = 16 << 20;
const FLAG_NULLABLE: u8 = 1;

/// What a footer says.
#[derive(Debug)]
pub(super) struct Footer {
    pub(super) schema: SchemaRef,
    pub(super) row_groups: Vec<RowGroup>,
    pub(super) row_count: u64,
}

/// How a type is spelled, if that reads as the same type again.
pub(super) fn type_text(data_type: &DataType) -> Option<String> {
    let text = data_type.to_string();
    let same = text.len() <= MAX_TYPE_TEXT_BYTES && text.parse().is_ok_and(|read: DataType| read == *data_type);
    same.then_some(text)
}

/// All that a schema says can be written.
pub(super) fn require_spelling(schema: &Schema) -> Result<(), SegmentError> {
    let mut texts: Vec<&String> = schema.metadata().iter().flat_map(|(key, value)| [key, value]).collect();
    for field in schema.fields() {
        if type_text(field.data_type()).is_none() {
            return Err(SegmentError::ColumnType {
                column: field.name().clone(),
                data_type: field.data_type().clone(),
            });
        }
        texts.push(field.name());
        texts.extend(field.metadata().iter().flat_map(|(key, value)| [key, value]));
    }
    match texts.into_iter().find(|text| text.len() > MAX_TEXT_BYTES) {
        Some(text) => Err(SegmentError::SchemaText { size_bytes: text.len(), limit_bytes: MAX_TEXT_BYTES }),
        None => Ok(()),
    }
}

fn put_text(text: &str, bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(&(text.len() as u32).to_le_bytes());
    bytes.extend_from_slice(text.as_bytes());
}

/// By ascending keys, so that equal metadata are equal bytes.
fn put_metadata(metadata: &HashMap<String, String>, bytes: &mut Vec<u8>) {
    let mut pairs: Vec<_> = metadata.iter().collect();
    pairs.sort_unstable();
    bytes.extend_from_slice(&(pairs.len() as u32).to_le_bytes());
    for (key, value) in pairs {
        put_text(key, bytes);
        put_text(value, bytes);
    }
}

fn put_entry(page: &PagePlace, bytes: &mut Vec<u8>) {
    let (encoding, integer_encoding) = encoding_codes(page.encoding);
    let (zone_flags, least, greatest) = page.zone_map.to_header();
    bytes.extend_from_slice(&page.size_bytes.to_le_bytes());
    bytes.extend_from_slice(&page.null_count.to_le_bytes());
    bytes.extend_from_slice(&page.checksum.to_le_bytes());
    bytes.extend_from_slice(&[encoding, integer_encoding, zone_flags, 0, 0, 0, 0, 0]);
    bytes.extend_from_slice(&least);
    bytes.extend_from_slice(&greatest);
}

/// The bytes from `footer_offset` to the file's end, and the checksum in them.
pub(super) fn encode_footer(footer: &Footer, footer_offset: u64) -> (Vec<u8>, u64) {
    let mut bytes = Vec::new();
    bytes.extend_from_slice(&(footer.schema.fields().len() as u32).to_le_bytes());
    for field in footer.schema.fields() {
        bytes.push(if field.is_nullable() { FLAG_NULLABLE } else { 0 });
        put_text(field.name(), &mut bytes);
        put_text(&field.data_type().to_string(), &mut bytes);
        put_metadata(field.metadata(), &mut bytes);
    }
    put_metadata(footer.schema.metadata(), &mut bytes);
    bytes.extend_from_slice(&(footer.row_groups.len() as u32).to_le_bytes());
    for row_group in &footer.row_groups {
        bytes.extend_from_slice(&(row_group.row_count as u32).to_le_bytes());
        row_group.pages.iter().for_each(|page| put_entry(page, &mut bytes));
    }
    let footer_bytes = bytes.len() as u64;
    let end = (bytes.len() + TRAILER_BYTES).next_multiple_of(PAGE_ALIGNMENT_BYTES);
    bytes.resize(end, 0);
    let trailer_at = end - TRAILER_BYTES;
    let mut put =
        |at: usize, value: &[u8]| bytes[trailer_at + at..trailer_at + at + value.len()].copy_from_slice(value);
    put(FOOTER_OFFSET_AT, &footer_offset.to_le_bytes());
    put(FOOTER_BYTES_AT, &footer_bytes.to_le_bytes());
    put(ROW_COUNT_AT, &footer.row_count.to_le_bytes());
    put(VERSION_AT, &VERSION.to_le_bytes());
    put(TRAILER_BYTES_AT, &(TRAILER_BYTES as u16).to_le_bytes());
    put(MAGIC_AT, &MAGIC);
    let checksum = xxh3_64(&bytes[..trailer_at + CHECKSUM_AT]);
    bytes[trailer_at + CHECKSUM_AT..trailer_at + VERSION_AT].copy_from_slice(&checksum.to_le_bytes());
    (bytes, checksum)
}

/// What the last bytes of a file say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Trailer {
    pub(super) footer_offset: u64,
    pub(super) footer_bytes: u64,
    pub(super) row_count: u64,
    pub(super) checksum: u64,
}

fn u64_at(bytes: &[u8; TRAILER_BYTES], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|index| bytes[at + index]))
}

fn u16_at(bytes: &[u8; TRAILER_BYTES], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

impl Trailer {
    /// Reads the last bytes of a file of `file_bytes`; whether the checksum is right is for [`decode_footer`] to say.
    ///
    /// # Errors
    /// They are no trailer, or of a version that is not known, or say that the footer is where it cannot be.
    pub(super) fn read(bytes: &[u8; TRAILER_BYTES], file: &str, file_bytes: u64) -> Result<Self, SegmentError> {
        let start = file_bytes - TRAILER_BYTES as u64;
        let magic = std::array::from_fn(|index| bytes[MAGIC_AT + index]);
        if magic != MAGIC {
            let offset = start + MAGIC_AT as u64;
            return Err(SegmentError::Magic { file: file.to_owned(), offset, found: magic, expected: MAGIC });
        }
        let version = u16_at(bytes, VERSION_AT);
        if version != VERSION {
            let offset = start + VERSION_AT as u64;
            return Err(SegmentError::Version { file: file.to_owned(), offset, found: version, expected: VERSION });
        }
        let field = |at: usize, field: &str, found: u64, expected: String| SegmentError::Field {
            file: file.to_owned(),
            offset: start + at as u64,
            field: field.to_owned(),
            found: found.to_string(),
            expected,
        };
        let trailer_bytes = u16_at(bytes, TRAILER_BYTES_AT);
        if usize::from(trailer_bytes) != TRAILER_BYTES {
            let found = u64::from(trailer_bytes);
            return Err(field(TRAILER_BYTES_AT, "the length of the trailer", found, TRAILER_BYTES.to_string()));
        }
        let footer_offset = u64_at(bytes, FOOTER_OFFSET_AT);
        if footer_offset > start || !footer_offset.is_multiple_of(PAGE_ALIGNMENT_BYTES as u64) {
            let expected = format!("a multiple of {PAGE_ALIGNMENT_BYTES} up to {start}");
            return Err(field(FOOTER_OFFSET_AT, "the footer's offset", footer_offset, expected));
        }
        let footer_bytes = u64_at(bytes, FOOTER_BYTES_AT);
        let most = start - footer_offset;
        // The file ends at the first possible place behind footer and trailer.
        if footer_bytes > most || stored_bytes(footer_bytes + TRAILER_BYTES as u64) != file_bytes - footer_offset {
            let least = most.saturating_sub(PAGE_ALIGNMENT_BYTES as u64 - 1);
            return Err(field(FOOTER_BYTES_AT, "the footer's length", footer_bytes, format!("{least} to {most}")));
        }
        let checksum = u64_at(bytes, CHECKSUM_AT);
        Ok(Self { footer_offset, footer_bytes, row_count: u64_at(bytes, ROW_COUNT_AT), checksum })
    }
}

/// Reads the footer that `bytes` are, from its offset to the file's end.
///
/// # Errors
/// The checksum is wrong, or what it covers makes no sense.
pub(super) fn decode_footer(bytes: &[u8], trailer: &Trailer, file: &str) -> Result<Footer, SegmentError> {
    let offset = trailer.footer_offset;
    let trailer_at = bytes.len() - TRAILER_BYTES;
    let found = xxh3_64(&bytes[..trailer_at + CHECKSUM_AT]);
    if found != trailer.checksum {
        return Err(SegmentError::Checksum { file: file.to_owned(), offset, found, expected: trailer.checksum });
    }
    let (body, rest) = bytes.split_at(trailer.footer_bytes as usize);
    let mut padding = Cursor { file, offset: offset + trailer.footer_bytes, bytes: &rest[..trailer_at - body.len()] };
    padding.expect_zeros(padding.bytes.len(), "a byte behind the footer")?;
    let reserved = &bytes[trailer_at + RESERVED_AT..trailer_at + CHECKSUM_AT];
    let mut reserved = Cursor { file, offset: offset + (trailer_at + RESERVED_AT) as u64, bytes: reserved };
    reserved.expect_zeros(reserved.bytes.len(), "key id and nonce")?;

    let mut cursor = Cursor { file, offset, bytes: body };
    let schema = Arc::new(read_schema(&mut cursor)?);
    let (row_groups, row_count) = read_directory(&mut cursor, &schema, offset)?;
    if !cursor.bytes.is_empty() {
        return Err(cursor.field("the rest of the footer", format!("{} bytes long", cursor.bytes.len()), "empty"));
    }
    if row_count != trailer.row_count {
        let mut at = cursor;
        at.offset = offset + (trailer_at + ROW_COUNT_AT) as u64;
        return Err(at.field("the number of rows", trailer.row_count, format!("{row_count}, as in all row groups")));
    }
    Ok(Footer { schema, row_groups, row_count })
}

fn read_schema(cursor: &mut Cursor<'_>) -> Result<Schema, SegmentError> {
    let column_count = cursor.count("the number of columns", LEAST_COLUMN_BYTES, 1)?;
    let mut fields = Vec::new();
    for _ in 0..column_count {
        let at = *cursor;
        let [flags] = cursor.take("a column's flags")?;
        if flags & !FLAG_NULLABLE != 0 {
            return Err(at.field("a column's flags", flags, "0 or 1"));
        }
        let name = cursor.text("a column's name", MAX_TEXT_BYTES)?;
        let at = *cursor;
        let text = cursor.text("a column's type", MAX_TYPE_TEXT_BYTES)?;
        let known = |data_type: &DataType| {
            PhysicalType::of(data_type).is_some() && type_text(data_type).is_some_and(|again| again == text)
        };
        let Some(data_type) = text.parse::<DataType>().ok().filter(known) else {
            return Err(at.field("a column's type", format!("{text:?}"), "a type that can be stored"));
        };
        let metadata = cursor.metadata()?;
        fields.push(Field::new(name, data_type, flags & FLAG_NULLABLE != 0).with_metadata(metadata));
    }
    Ok(Schema::new(fields).with_metadata(cursor.metadata()?))
}

/// The row groups, whose pages end at `end_bytes`, and the number of their rows.
fn read_directory(
    cursor: &mut Cursor<'_>,
    schema: &Schema,
    end_bytes: u64,
) -> Result<(Vec<RowGroup>, u64), SegmentError> {
    let count = cursor.count("the number of row groups", 4 + schema.fields().len() * ENTRY_BYTES, 0)?;
    let mut row_groups = Vec::with_capacity(count);
    let (mut first_row, mut offset_bytes) = (0, 0);
    for _ in 0..count {
        let at = *cursor;
        let row_count = cursor.u32("the rows of a row group")? as usize;
        if row_count == 0 || row_count > MAX_PAGE_VALUES {
            return Err(at.field("the rows of a row group", row_count, format!("1 to {MAX_PAGE_VALUES}")));
        }
        let mut pages = Vec::with_capacity(schema.fields().len());
        for field in schema.fields() {
            let at = *cursor;
            let page = read_entry(cursor, field, row_count, offset_bytes)?;
            offset_bytes += stored_bytes(u64::from(page.size_bytes));
            if offset_bytes > end_bytes {
                return Err(at.field(
                    "the end of a page",
                    offset_bytes,
                    format!("up to {end_bytes}, the footer's start"),
                ));
            }
            pages.push(page);
        }
        row_groups.push(RowGroup { first_row, row_count, pages: pages.into() });
        first_row += row_count as u64;
    }
    if offset_bytes != end_bytes {
        return Err(cursor.field("the end of the last page", offset_bytes, format!("{end_bytes}, the footer's start")));
    }
    Ok((row_groups, first_row))
}

fn read_entry(
    cursor: &mut Cursor<'_>,
    field: &Field,
    row_count: usize,
    offset_bytes: u64,
) -> Result<PagePlace, SegmentError> {
    let at = *cursor;
    let of = |what: &str| format!("{what} of a page of column {:?}", field.name());
    let size_bytes = cursor.u32("the length of a page")?;
    if (size_bytes as usize) < HEADER_BYTES {
        return Err(at.field(&of("the length"), size_bytes, format!("at least {HEADER_BYTES}")));
    }
    let at = *cursor;
    let null_count = cursor.u32("the NULLs of a page")?;
    let most = if field.is_nullable() { row_count } else { 0 };
    if null_count as usize > most {
        return Err(at.field(&of("the number of NULLs"), null_count, format!("at most {most}")));
    }
    let checksum = u64::from_le_bytes(cursor.take("the checksum of a page")?);
    let at = *cursor;
    let [encoding, integer_encoding, zone_flags] = cursor.take("the encoding of a page")?;
    let Ok(encoding) = encoding_of(encoding, integer_encoding) else {
        return Err(at.field(&of("the encoding"), format!("{encoding}, {integer_encoding}"), "a known one"));
    };
    cursor.expect_zeros(5, &of("a reserved byte"))?;
    let least: [u8; BOUND_BYTES] = cursor.take("the least value of a page")?;
    let greatest: [u8; BOUND_BYTES] = cursor.take("the greatest value of a page")?;
    let zone_map = PhysicalType::of(field.data_type())
        .and_then(|physical_type| ZoneMap::from_header(physical_type.zone_kind(), zone_flags, &least, &greatest))
        .ok_or_else(|| {
            let expected = format!("flags and bounds of {} values", field.data_type());
            at.field(&of("the zone map"), format!("{zone_flags}, {least:02x?}, {greatest:02x?}"), expected)
        })?;
    Ok(PagePlace { offset_bytes, size_bytes, null_count, checksum, encoding, zone_map })
}

/// Bytes of a footer that are left to read.
#[derive(Debug, Clone, Copy)]
struct Cursor<'a> {
    file: &'a str,
    /// Where they start in the file.
    offset: u64,
    bytes: &'a [u8],
}

impl<'a> Cursor<'a> {
    /// The error for what is read here.
    fn field(&self, field: &str, found: impl ToString, expected: impl Into<String>) -> SegmentError {
        SegmentError::Field {
            file: self.file.to_owned(),
            offset: self.offset,
            field: field.to_owned(),
            found: found.to_string(),
            expected: expected.into(),
        }
    }

    fn slice(&mut self, length: usize, what: &str) -> Result<&'a [u8], SegmentError> {
        let Some((taken, rest)) = self.bytes.split_at_checked(length) else {
            let expected = format!("at most {}, the rest of the footer", self.bytes.len());
            return Err(self.field(&format!("the length of {what}"), length, expected));
        };
        self.bytes = rest;
        self.offset += length as u64;
        Ok(taken)
    }

    fn take<const N: usize>(&mut self, what: &str) -> Result<[u8; N], SegmentError> {
        let taken = self.slice(N, what)?;
        Ok(std::array::from_fn(|index| taken[index]))
    }

    fn u32(&mut self, what: &str) -> Result<u32, SegmentError> {
        Ok(u32::from_le_bytes(self.take(what)?))
    }

    /// The number of things of at least so many bytes that follow.
    fn count(&mut self, what: &str, least_bytes: usize, least: usize) -> Result<usize, SegmentError> {
        let at = *self;
        let count = self.u32(what)? as usize;
        let most = self.bytes.len() / least_bytes;
        if count < least || count > most {
            return Err(at.field(what, count, format!("{least} to {most}, as many as there is room for")));
        }
        Ok(count)
    }

    fn text(&mut self, what: &str, most_bytes: usize) -> Result<&'a str, SegmentError> {
        let at = *self;
        let length = self.u32(what)? as usize;
        if length > most_bytes {
            return Err(at.field(&format!("the length of {what}"), length, format!("at most {most_bytes}")));
        }
        let at = *self;
        let bytes = self.slice(length, what)?;
        std::str::from_utf8(bytes).map_err(|_| at.field(what, format!("{bytes:02x?}"), "UTF-8"))
    }

    fn metadata(&mut self) -> Result<HashMap<String, String>, SegmentError> {
        let mut metadata = HashMap::new();
        let mut last: Option<&str> = None;
        for _ in 0..self.count("the number of metadata", 8, 0)? {
            let at = *self;
            let key = self.text("a key of metadata", MAX_TEXT_BYTES)?;
            if let Some(last) = last
                && key <= last
            {
                return Err(at.field("a key of metadata", format!("{key:?}"), format!("more than {last:?}")));
            }
            last = Some(key);
            metadata.insert(key.to_owned(), self.text("a value of metadata", MAX_TEXT_BYTES)?.to_owned());
        }
        Ok(metadata)
    }

    fn expect_zeros(&mut self, count: usize, what: &str) -> Result<(), SegmentError> {
        let at = *self;
        let bytes = self.slice(count, what)?;
        match bytes.iter().position(|byte| *byte != 0) {
            Some(index) => {
                let at = Cursor { offset: at.offset + index as u64, ..at };
                Err(at.field(what, bytes[index], "0"))
            }
            None => Ok(()),
        }
    }
}

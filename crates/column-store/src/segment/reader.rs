//! An open segment: its footer, and the check of pages that somebody read.

use arrow::datatypes::SchemaRef;
use thermocline_medium::{AlignedBuffer, Medium, MediumFile};

use super::directory::{PagePlace, RowGroup};
use super::error::PageName;
use super::footer::{CHECKSUM_AT, Footer, ROW_COUNT_AT, TRAILER_BYTES, Trailer, decode_footer};
use super::{PAGE_ALIGNMENT_BYTES, SegmentError, SegmentInfo, schema_text};
use crate::{Page, PhysicalType};

/// A segment whose footer is in memory. Its pages are read by whoever wants them, from [`Segment::file`] at the places
/// that [`Segment::row_groups`] name.
#[derive(Debug)]
pub struct Segment {
    info: SegmentInfo,
    file: MediumFile,
    schema: SchemaRef,
    row_groups: Vec<RowGroup>,
}

impl Segment {
    /// Opens a segment and reads its footer. `info` is what [`SegmentWriter::finish`](super::SegmentWriter::finish)
    /// returned, and `expected` the table's columns: names, types and whether they have NULLs must be the same,
    /// metadata need not.
    ///
    /// # Errors
    /// Failures of the medium; a file that is missing, of another length, damaged, no segment, another segment than the
    /// one that `info` tells of, of a newer version, or with other columns.
    pub fn open(medium: &dyn Medium, info: &SegmentInfo, expected: &SchemaRef) -> Result<Self, SegmentError> {
        let file = medium.open(&info.name)?;
        let file_bytes = medium.size_bytes(&file)?;
        if file_bytes != info.size_bytes || file_bytes < PAGE_ALIGNMENT_BYTES as u64 {
            let expected_bytes = info.size_bytes.max(PAGE_ALIGNMENT_BYTES as u64);
            return Err(SegmentError::Length { file: info.name.clone(), found_bytes: file_bytes, expected_bytes });
        }
        let mut end = AlignedBuffer::new(PAGE_ALIGNMENT_BYTES);
        medium.read_at(&file, file_bytes - PAGE_ALIGNMENT_BYTES as u64, &mut end)?;
        let trailer_bytes = end.last_chunk::<TRAILER_BYTES>().expect("the buffer is longer than a trailer");
        let trailer = Trailer::read(trailer_bytes, &info.name, file_bytes)?;
        if trailer.checksum != info.footer_checksum {
            return Err(SegmentError::OtherSegment {
                file: info.name.clone(),
                offset: file_bytes - (TRAILER_BYTES - CHECKSUM_AT) as u64,
                found: trailer.checksum,
                expected: info.footer_checksum,
            });
        }
        if trailer.row_count != info.row_count {
            return Err(SegmentError::Field {
                file: info.name.clone(),
                offset: file_bytes - (TRAILER_BYTES - ROW_COUNT_AT) as u64,
                field: "the number of rows".to_owned(),
                found: trailer.row_count.to_string(),
                expected: format!("{} as in the table", info.row_count),
            });
        }
        let length = (file_bytes - trailer.footer_offset) as usize;
        let footer = if length > end.len() {
            let mut bytes = AlignedBuffer::new(length);
            medium.read_at(&file, trailer.footer_offset, &mut bytes)?;
            decode_footer(&bytes, &trailer, &info.name)?
        } else {
            decode_footer(&end, &trailer, &info.name)?
        };
        Self::with_footer(footer, info, file, expected)
    }

    fn with_footer(
        footer: Footer,
        info: &SegmentInfo,
        file: MediumFile,
        expected: &SchemaRef,
    ) -> Result<Self, SegmentError> {
        let Footer { schema, row_groups, .. } = footer;
        let describes =
            |field: &arrow::datatypes::FieldRef| (field.name().clone(), field.data_type().clone(), field.is_nullable());
        if !schema.fields().iter().map(describes).eq(expected.fields().iter().map(describes)) {
            return Err(SegmentError::Schema {
                file: info.name.clone(),
                found: schema_text(&schema),
                expected: schema_text(expected),
            });
        }
        // Segments of a table share its schema.
        let schema = if schema == *expected { SchemaRef::clone(expected) } else { schema };
        Ok(Self { info: info.clone(), file, schema, row_groups })
    }

    /// What the segment was opened by.
    pub fn info(&self) -> &SegmentInfo {
        &self.info
    }

    /// The file, for reading pages with the medium that the segment was opened on.
    pub fn file(&self) -> &MediumFile {
        &self.file
    }

    /// The columns, as they were written.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Rows of all row groups.
    pub fn row_count(&self) -> u64 {
        self.info.row_count
    }

    /// The row groups, in the order of the rows; none if there are no rows.
    pub fn row_groups(&self) -> &[RowGroup] {
        &self.row_groups
    }

    /// Opens the page of a column that `bytes` are, as they were read from its place; they may go on with the padding.
    /// Verifies the checksum and that it is the page that was written there.
    ///
    /// # Errors
    /// The bytes are damaged or another page's; there is no such row group or column.
    pub fn check_page<'a>(&self, row_group: usize, column: usize, bytes: &'a [u8]) -> Result<Page<'a>, SegmentError> {
        self.open_as(row_group, column, bytes, true)
    }

    /// As [`Segment::check_page`] for bytes that it was called with before and that cannot have changed since: the
    /// checksum is not computed again, but must still be the one in the footer.
    ///
    /// # Errors
    /// As [`Segment::check_page`].
    pub fn open_page<'a>(&self, row_group: usize, column: usize, bytes: &'a [u8]) -> Result<Page<'a>, SegmentError> {
        self.open_as(row_group, column, bytes, false)
    }

    fn open_as<'a>(
        &self,
        row_group: usize,
        column: usize,
        bytes: &'a [u8],
        verify: bool,
    ) -> Result<Page<'a>, SegmentError> {
        let (group, place) = self.place(row_group, column)?;
        let bytes = if bytes.len() == place.stored_bytes() { &bytes[..place.size_bytes()] } else { bytes };
        let page = if verify { Page::open(bytes) } else { Page::open_verified(bytes) };
        let page =
            page.map_err(|source| SegmentError::Page { place: self.page_name(row_group, column, place), source })?;
        // The checksum first: where it is the footer's, and right, the page is the one that was written.
        let physical_type = PhysicalType::of(self.schema.field(column).data_type());
        let differing = if page.checksum() != place.checksum {
            Some(("the checksum", format!("{:016x}", page.checksum()), format!("{:016x}", place.checksum)))
        } else if page.value_count() != group.row_count {
            Some(("the number of values", page.value_count().to_string(), group.row_count.to_string()))
        } else if Some(page.physical_type()) != physical_type {
            let expected = self.schema.field(column).data_type().to_string();
            Some(("the type of the values", page.physical_type().name().to_owned(), expected))
        } else if page.null_count() != place.null_count() {
            Some(("the number of NULLs", page.null_count().to_string(), place.null_count.to_string()))
        } else if page.encoding() != place.encoding {
            Some(("the encoding", format!("{:?}", page.encoding()), format!("{:?}", place.encoding)))
        } else if *page.zone_map() != place.zone_map {
            Some(("the zone map", format!("{:?}", page.zone_map()), format!("{:?}", place.zone_map)))
        } else {
            None
        };
        match differing {
            None => Ok(page),
            Some((field, found, expected)) => {
                let place = self.page_name(row_group, column, place);
                Err(SegmentError::OtherPage { place, field, found, expected })
            }
        }
    }

    fn place(&self, row_group: usize, column: usize) -> Result<(&RowGroup, &PagePlace), SegmentError> {
        let none = |what, asked, count| SegmentError::NoSuchPage { file: self.info.name.clone(), what, asked, count };
        let group =
            self.row_groups.get(row_group).ok_or_else(|| none("row group", row_group, self.row_groups.len()))?;
        let place = group.pages.get(column).ok_or_else(|| none("column", column, group.pages.len()))?;
        Ok((group, place))
    }

    fn page_name(&self, row_group: usize, column: usize, place: &PagePlace) -> Box<PageName> {
        Box::new(PageName {
            file: self.info.name.clone(),
            column: self.schema.field(column).name().clone(),
            row_group,
            offset: place.offset_bytes,
        })
    }

    /// About what this takes in memory: the directory of pages, mostly, 150 to 200 bytes each.
    pub fn resident_bytes(&self) -> usize {
        let of_pages = |row_group: &RowGroup| {
            size_of_val(row_group.pages.as_ref()) + row_group.pages.iter().map(PagePlace::heap_bytes).sum::<usize>()
        };
        size_of::<Self>()
            + self.info.name.len()
            + self.row_groups.capacity() * size_of::<RowGroup>()
            + self.row_groups.iter().map(of_pages).sum::<usize>()
    }
}

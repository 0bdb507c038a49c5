//! Writing a segment: pages as they come, the footer at the end.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use thermocline_medium::{AlignedBuffer, Medium, MediumFile};

use super::directory::RowGroup;
use super::footer::{Footer, encode_footer, require_spelling};
use super::row_group::{EncodedRowGroup, require_columns};
use super::{PAGE_ALIGNMENT_BYTES, SegmentError, SegmentInfo, schema_text};

/// Bytes of one write: long enough that a device's bandwidth and not its latency counts.
const WRITE_BYTES: usize = 2 << 20;

/// Writes one segment. Nothing of it is to be read before [`SegmentWriter::finish`]; a writer that is dropped before
/// removes the file. Memory: one piece of 2 MiB, and 80 to 200 bytes a page for the footer.
#[derive(Debug)]
pub struct SegmentWriter {
    medium: Arc<dyn Medium>,
    file: MediumFile,
    schema: SchemaRef,
    row_groups: Vec<RowGroup>,
    row_count: u64,
    /// What is not yet written; the pieces before it are.
    piece: AlignedBuffer,
    piece_bytes: usize,
    written_bytes: u64,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    /// A write failed, of which some part may be there.
    Broken,
    Finished,
}

impl SegmentWriter {
    /// Makes a new file for a segment of a table with these columns. Names may be there more than once: columns are
    /// known by their places.
    ///
    /// # Errors
    /// The name exists; there are no columns, or some that cannot be stored ([`supports`](super::supports)); failures
    /// of the medium.
    pub fn create(medium: Arc<dyn Medium>, name: &str, schema: SchemaRef) -> Result<Self, SegmentError> {
        require_columns(&schema)?;
        require_spelling(&schema)?;
        let file = medium.create(name)?;
        Ok(Self {
            medium,
            file,
            schema,
            row_groups: Vec::new(),
            row_count: 0,
            piece: AlignedBuffer::new(WRITE_BYTES),
            piece_bytes: 0,
            written_bytes: 0,
            state: State::Open,
        })
    }

    /// The name of the file.
    pub fn name(&self) -> &str {
        self.file.name()
    }

    /// Rows appended so far.
    pub fn row_count(&self) -> u64 {
        self.row_count
    }

    /// Bytes of the row groups appended so far, in the file or on their way to it.
    pub fn size_bytes(&self) -> u64 {
        self.written_bytes + self.piece_bytes as u64
    }

    /// Adds a row group behind those that are there.
    ///
    /// # Errors
    /// The row group has other columns; failures of the medium, after which this writer takes nothing more.
    pub fn append(&mut self, row_group: &EncodedRowGroup) -> Result<(), SegmentError> {
        self.require_open()?;
        if !Arc::ptr_eq(&row_group.schema, &self.schema) && row_group.schema.fields() != self.schema.fields() {
            return Err(SegmentError::RowGroupColumns {
                file: self.name().to_owned(),
                found: schema_text(&row_group.schema),
                expected: schema_text(&self.schema),
            });
        }
        let place = RowGroup::of(row_group, self.row_count, self.size_bytes());
        for page in &row_group.pages {
            self.put(&page.bytes)?;
            self.pad()?;
        }
        self.row_count += row_group.row_count as u64;
        self.row_groups.push(place);
        Ok(())
    }

    /// Writes the footer, and returns when all of the file will survive a crash. Its name will only after
    /// [`Medium::sync_namespace`], which is the caller's to do, once for all that belongs together.
    ///
    /// # Errors
    /// Failures of the medium; the file is then removed.
    pub fn finish(mut self) -> Result<SegmentInfo, SegmentError> {
        self.require_open()?;
        let footer = Footer {
            schema: SchemaRef::clone(&self.schema),
            row_groups: std::mem::take(&mut self.row_groups),
            row_count: self.row_count,
        };
        let (bytes, footer_checksum) = encode_footer(&footer, self.size_bytes());
        self.put(&bytes)?;
        self.flush()?;
        if let Err(error) = self.medium.sync_data(&self.file) {
            self.state = State::Broken;
            return Err(error.into());
        }
        self.state = State::Finished;
        Ok(SegmentInfo {
            name: self.name().to_owned(),
            size_bytes: self.written_bytes,
            row_count: self.row_count,
            footer_checksum,
        })
    }

    fn require_open(&self) -> Result<(), SegmentError> {
        match self.state {
            State::Open => Ok(()),
            _ => Err(SegmentError::Broken { file: self.name().to_owned() }),
        }
    }

    /// Adds bytes to the piece, which is written whenever it is full.
    fn put(&mut self, mut bytes: &[u8]) -> Result<(), SegmentError> {
        while !bytes.is_empty() {
            let taken = bytes.len().min(WRITE_BYTES - self.piece_bytes);
            let (now, later) = bytes.split_at(taken);
            self.piece[self.piece_bytes..self.piece_bytes + taken].copy_from_slice(now);
            self.piece_bytes += taken;
            bytes = later;
            if self.piece_bytes == WRITE_BYTES {
                self.flush()?;
            }
        }
        Ok(())
    }

    /// Fills up with zeros to where the next page can start. Never crosses a piece, whose length is such a place.
    fn pad(&mut self) -> Result<(), SegmentError> {
        let end = self.piece_bytes.next_multiple_of(PAGE_ALIGNMENT_BYTES);
        self.piece[self.piece_bytes..end].fill(0);
        self.piece_bytes = end;
        if self.piece_bytes == WRITE_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), SegmentError> {
        if self.piece_bytes == 0 {
            return Ok(());
        }
        if let Err(error) = self.medium.write_at(&self.file, self.written_bytes, &self.piece[..self.piece_bytes]) {
            self.state = State::Broken;
            return Err(error.into());
        }
        self.written_bytes += self.piece_bytes as u64;
        self.piece_bytes = 0;
        Ok(())
    }
}

impl Drop for SegmentWriter {
    fn drop(&mut self) {
        if self.state != State::Finished {
            // Nobody is left to tell: a file that stays is one that no manifest names, and is removed as such.
            let _ = self.medium.remove(self.file.name());
        }
    }
}

//! The row groups of a query's Parquet files, and reading their chunks for pipelines.
//!
//! Owns: which chunk of which file is a column of a row group, having its bytes read, through the pool where that may
//! keep them. Does not own: decoding (`parquet-columns`), when what is read (`fusion`).
//!
//! Concurrency: shared by all threads of a pipeline.

use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::Session;
use datafusion::common::{DataFusionError, Result};
use thermocline_column_store::ZoneMap;
use thermocline_parquet_columns::{ChunkError, ColumnChunk, Kind};

use super::facts::{chunk_kinds, zone};
use super::file_pages::{PageCounts, Served};
use super::reader::OpenFile;
use super::scan::ParquetScan;
use super::{ParquetTable, uses_pool};

/// Row groups of a table's files with some of its columns.
#[derive(Debug)]
pub(crate) struct RowGroups {
    pub(crate) groups: Vec<RowGroup>,
    /// The table's columns, in whose order each row group has its chunks.
    pub(crate) columns: Vec<usize>,
    schema: SchemaRef,
    /// As the pool's tuner knows it; absent where nothing is kept of the files.
    pub(crate) scan: Option<ParquetScan>,
}

/// One of them.
#[derive(Debug)]
pub(crate) struct RowGroup {
    file: OpenFile,
    number: usize,
    pub(crate) row_count: usize,
    chunks: Vec<Chunk>,
}

#[derive(Debug)]
struct Chunk {
    /// Among the file's columns.
    leaf: usize,
    kind: Kind,
    zone: Option<(ZoneMap, usize)>,
}

impl ParquetTable {
    /// The row groups with these columns.
    ///
    /// # Errors
    /// Why pipelines do not read a column of these files.
    pub(crate) fn row_groups(&self, session: &dyn Session, columns: &[usize]) -> Result<RowGroups, String> {
        let uses_pool = uses_pool(session);
        let pages = self.pages(uses_pool);
        let mut groups = Vec::new();
        for ((file, footer), pages) in self.files.iter().zip(&pages) {
            let kinds = columns.iter().map(|&column| {
                let field = self.schema.field(column);
                let leaf = footer.leaf(field.name());
                chunk_kinds(footer, leaf, field).map_err(|reason| format!("{}: {reason}", field.name()))
            });
            let kinds = kinds.collect::<Result<Vec<_>, _>>()?;
            for (number, row_group) in footer.row_groups().iter().enumerate() {
                let chunk = |((leaf, kinds), column): (&(usize, Vec<Kind>), &usize)| {
                    let data_type = self.schema.field(*column).data_type();
                    Chunk { leaf: *leaf, kind: kinds[number].clone(), zone: zone(row_group.column(*leaf), data_type) }
                };
                let chunks = kinds.iter().zip(columns).map(chunk).collect();
                let file = OpenFile::new(file.clone(), Arc::clone(footer), pages.clone());
                let row_count = usize::try_from(row_group.num_rows()).map_err(|error| error.to_string())?;
                groups.push(RowGroup { file, number, row_count, chunks });
            }
        }
        let scan = self.scan_of(session, uses_pool, &pages);
        Ok(RowGroups { groups, columns: columns.to_vec(), schema: Arc::clone(&self.schema), scan })
    }
}

impl RowGroups {
    /// What a chunk is called in errors.
    pub(crate) fn column_name(&self, at: usize) -> &str {
        self.schema.field(self.columns[at]).name()
    }
}

impl RowGroup {
    /// Between which values those of a chunk are, and how many are NULL, where its footer says so.
    pub(crate) fn zone(&self, at: usize) -> Option<&(ZoneMap, usize)> {
        self.chunks[at].zone.as_ref()
    }

    /// Bytes of a chunk, as it is stored.
    pub(crate) fn chunk_bytes(&self, at: usize) -> u64 {
        let (_, length) = self.file.footer().row_group(self.number).column(self.chunks[at].leaf).byte_range();
        length
    }

    /// Bytes that the texts of a chunk take, before they are compressed; 0 if it has none. With a
    /// dictionary they are those of codes.
    pub(crate) fn text_bytes(&self, at: usize) -> u64 {
        let Chunk { leaf, kind, .. } = &self.chunks[at];
        let metadata = self.file.footer().row_group(self.number).column(*leaf);
        if kind.is_text() { u64::try_from(metadata.uncompressed_size()).unwrap_or_default() } else { 0 }
    }

    /// Whether [`read`](Self::read) gives pages of the pool, if it has room, and no copy.
    pub(crate) fn is_read_in_place(&self, at: usize, held_bytes: u64) -> bool {
        self.file.is_read_in_place(held_bytes + self.chunk_bytes(at))
    }

    /// Reads a chunk's bytes, beside the `held_bytes` of others that the caller holds.
    ///
    /// # Errors
    /// Those of reading the file; a footer that refers to what is not there.
    pub(crate) async fn read(
        &self,
        at: usize,
        held_bytes: u64,
        counts: &PageCounts,
    ) -> Result<(Arc<ColumnChunk>, Served)> {
        let Chunk { leaf, kind, .. } = &self.chunks[at];
        let metadata = self.file.footer().row_group(self.number).column(*leaf);
        let (start, length) = metadata.byte_range();
        let (pieces, served) = self.file.read_in_place(start..start + length, held_bytes, counts).await?;
        Ok((ColumnChunk::new(kind.clone(), metadata.clone(), pieces, self.row_count), served))
    }

    /// An error of a chunk, with the file's name.
    pub(crate) fn error(&self, column: &str, error: ChunkError) -> DataFusionError {
        let number = self.number;
        let file = if error.is_too_long() { "Parquet file" } else { "damaged Parquet file" };
        self.file.error(format_args!("{file}: column '{column}', row group {number}: {error}"))
    }
}

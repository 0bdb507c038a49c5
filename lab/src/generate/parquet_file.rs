//! Record batches as a Parquet file whose row groups are encoded in parallel.
//!
//! Owns encodings and compression. Does not own what the rows are, nor how many make a row group.
//!
//! Invariants: the bytes depend on the row groups alone, never on the number of threads; at most three encoded row
//! groups a thread are in memory.

use std::io::Write;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::{ArrowColumnChunk, ArrowRowGroupWriterFactory, compute_leaves};
use parquet::basic::Compression;
use parquet::errors::Result;
use parquet::file::properties::WriterProperties;
use thermocline_tpch::take_parts;

/// Writes row groups 0 to `group_count` - 1, each of the batches that `batches` gives for it. Columns in
/// `plain_columns` get no dictionaries: their values are too many to share. Returns the file's size in bytes.
///
/// # Errors
/// What `out` or the encoder reports first; what was written before it stays, without a footer.
pub(super) fn write_parquet<B: Iterator<Item = RecordBatch>>(
    out: impl Write + Send,
    schema: &SchemaRef,
    plain_columns: &[&str],
    group_count: usize,
    thread_count: usize,
    batches: impl Fn(usize) -> B + Sync,
) -> Result<u64> {
    let mut properties = WriterProperties::builder().set_compression(Compression::SNAPPY);
    for &column in plain_columns {
        properties = properties.set_column_dictionary_enabled(column.into(), false);
    }
    let writer = ArrowWriter::try_new(out, schema.clone(), Some(properties.build()))?;
    let (mut file, encoders) = writer.into_serialized_writer()?;
    let producer = || |group| encode(&encoders, schema, group, batches(group));
    take_parts(group_count, thread_count, producer, |columns| {
        let mut group = file.next_row_group()?;
        for column in columns? {
            column.append_to_row_group(&mut group)?;
        }
        group.close().map(drop)
    })?;
    file.finish()?;
    Ok(file.bytes_written() as u64)
}

/// One row group, column by column.
fn encode(
    encoders: &ArrowRowGroupWriterFactory,
    schema: &SchemaRef,
    group: usize,
    batches: impl Iterator<Item = RecordBatch>,
) -> Result<Vec<ArrowColumnChunk>> {
    let mut columns = encoders.create_column_writers(group)?;
    for batch in batches {
        let mut writers = columns.iter_mut();
        for (field, array) in schema.fields().iter().zip(batch.columns()) {
            for (leaf, writer) in compute_leaves(field, array)?.iter().zip(&mut writers) {
                writer.write(leaf)?;
            }
        }
    }
    columns.into_iter().map(|column| column.close()).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::io;

    use arrow::compute::concat_batches;
    use bytes::Bytes;
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
    use thermocline_ssb::{DataSet, Table};

    use super::*;

    /// 300 orders.
    const SCALE: f64 = 0.0002;

    fn write(table: Table, group_count: usize, thread_count: usize, out: impl Write + Send) -> Result<u64> {
        let data = DataSet::new(SCALE, 1).unwrap();
        let batches = |group| data.batches(table, group, group_count, 100);
        write_parquet(out, &table.schema(), &["lo_partkey"], group_count, thread_count, batches)
    }

    fn file(table: Table, group_count: usize, thread_count: usize) -> Vec<u8> {
        let mut file = Vec::new();
        let written_bytes = write(table, group_count, thread_count, &mut file).unwrap();
        assert_eq!(written_bytes, file.len() as u64);
        file
    }

    #[test]
    fn what_was_written_is_read_in_as_many_row_groups_as_asked_for() {
        for table in Table::ALL {
            let reader = ParquetRecordBatchReaderBuilder::try_new(Bytes::from(file(table, 5, 2))).unwrap();
            assert_eq!(reader.metadata().num_row_groups(), 5);
            assert_eq!(reader.schema(), &table.schema());
            let read: Vec<RecordBatch> = reader.build().unwrap().map(|batch| batch.unwrap()).collect();
            let expected: Vec<RecordBatch> = DataSet::new(SCALE, 1).unwrap().batches(table, 0, 1, 8_192).collect();
            let schema = table.schema();
            assert!(
                concat_batches(&schema, &read).unwrap() == concat_batches(&schema, &expected).unwrap(),
                "{table:?}"
            );
        }
    }

    #[test]
    fn the_bytes_are_the_same_on_any_number_of_threads() {
        let expected = file(Table::Lineorder, 7, 1);
        for thread_count in [2, 3, 16] {
            assert!(file(Table::Lineorder, 7, thread_count) == expected, "{thread_count} threads");
        }
    }

    #[test]
    fn only_columns_of_few_values_get_dictionaries() {
        let file = Bytes::from(file(Table::Lineorder, 1, 1));
        let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
        for column in reader.metadata().row_group(0).columns() {
            let name = column.column_path().string();
            assert_eq!(column.dictionary_page_offset().is_some(), name != "lo_partkey", "{name}");
        }
    }

    #[test]
    fn a_full_disk_is_reported() {
        struct FullAfter(usize);
        impl Write for FullAfter {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
                Ok(bytes.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let size_bytes = file(Table::Lineorder, 7, 1).len();
        for room_bytes in [0, 10, size_bytes / 2, size_bytes - 1] {
            write(Table::Lineorder, 7, 2, FullAfter(room_bytes)).unwrap_err();
        }
        write(Table::Lineorder, 7, 2, FullAfter(size_bytes)).unwrap();
    }
}

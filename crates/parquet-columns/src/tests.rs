#![allow(clippy::unwrap_used, clippy::panic)]

//! Arrays of chunks against those that the `parquet` crate reads of the same files.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Date32Array, Decimal128Array, DictionaryArray, Float32Array, Float64Array,
    Int8Array, Int32Array, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray, UInt8Array, UInt16Array,
    UInt32Array, UInt64Array,
};
use arrow::compute::concat_batches;
use arrow::datatypes::DataType;
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{Compression, Encoding};
use parquet::file::properties::{WriterProperties, WriterVersion};
use parquet::file::reader::{FileReader, SerializedFileReader};
use thermocline_seeded::Random;

use crate::{ChunkError, ColumnChunk, Kind};

/// Values of a few kinds: few different ones, many, in runs, NULL now and then, always or never.
fn random_batch(random: &mut Random, rows: usize) -> RecordBatch {
    let different = *random.pick(&[1usize, 3, 50, 300, 5_000, 100_000]);
    let nulls = *random.pick(&[0usize, 0, 1, 2, 40]);
    let run = *random.pick(&[1usize, 1, 7, 600]);
    let base = *random.pick(&[0i64, -100, 1_000_000, -3_000_000_000]);
    let mut last = 0;
    let values: Vec<Option<i64>> = (0..rows)
        .map(|row| {
            if row % run == 0 {
                last = random.below(different) as i64;
            }
            (nulls == 0 || !random.one_in(nulls)).then_some(last + base)
        })
        .collect();
    let text = |value: i64| format!("text {value} {}", "ü".repeat(value.unsigned_abs() as usize % 5));
    let numbers = values.iter().copied();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("i8", Arc::new(numbers.clone().map(|v| v.map(|v| v as i8)).collect::<Int8Array>())),
        ("i32", Arc::new(numbers.clone().map(|v| v.map(|v| v as i32)).collect::<Int32Array>())),
        ("i64", Arc::new(numbers.clone().collect::<Int64Array>())),
        ("u8", Arc::new(numbers.clone().map(|v| v.map(|v| v as u8)).collect::<UInt8Array>())),
        ("u16", Arc::new(numbers.clone().map(|v| v.map(|v| v as u16)).collect::<UInt16Array>())),
        ("u32", Arc::new(numbers.clone().map(|v| v.map(|v| v as u32)).collect::<UInt32Array>())),
        ("u64", Arc::new(numbers.clone().map(|v| v.map(|v| v as u64)).collect::<UInt64Array>())),
        ("f32", Arc::new(numbers.clone().map(|v| v.map(|v| v as f32 / 4.0)).collect::<Float32Array>())),
        ("f64", Arc::new(numbers.clone().map(|v| v.map(|v| v as f64 / 7.0)).collect::<Float64Array>())),
        ("bit", Arc::new(numbers.clone().map(|v| v.map(|v| v % 3 == 0)).collect::<BooleanArray>())),
        ("day", Arc::new(numbers.clone().map(|v| v.map(|v| v as i32)).collect::<Date32Array>())),
        ("at", Arc::new(numbers.clone().collect::<TimestampMicrosecondArray>().with_timezone_opt(Some("UTC")))),
        ("d7", decimals(numbers.clone().map(|v| v.map(|v| v % 10_000_000)), 7, 2)),
        ("d15", decimals(numbers.clone(), 15, 3)),
        ("d20", decimals(numbers.clone().map(|v| v.map(|v| v * 3)), 20, 0)),
        ("text", Arc::new(numbers.map(|v| v.map(text)).collect::<StringArray>())),
    ];
    RecordBatch::try_from_iter(columns).expect("columns of one length")
}

fn decimals(numbers: impl Iterator<Item = Option<i64>>, precision: u8, scale: i8) -> ArrayRef {
    let numbers = numbers.map(|number| number.map(i128::from)).collect::<Decimal128Array>();
    Arc::new(numbers.with_precision_and_scale(precision, scale).expect("a decimal type"))
}

fn written(random: &mut Random, batch: &RecordBatch) -> Bytes {
    let version = *random.pick(&[WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0]);
    let mut properties = WriterProperties::builder()
        .set_writer_version(version)
        .set_encoding(Encoding::PLAIN)
        .set_compression(*random.pick(&[Compression::UNCOMPRESSED, Compression::SNAPPY]))
        .set_dictionary_enabled(!random.one_in(4))
        // Small ones fill up, so that plain pages follow.
        .set_dictionary_page_size_limit(*random.pick(&[200, 3_000, 1 << 20]))
        .set_data_page_row_count_limit(*random.pick(&[100, 1_000, 20_000]))
        .set_max_row_group_row_count(Some(*random.pick(&[3_000, 1 << 20])));
    if random.one_in(3) {
        properties = properties.set_write_batch_size(50);
    }
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties.build())).expect("a writer");
    writer.write(batch).expect("a batch");
    writer.close().expect("a footer");
    bytes.into()
}

/// All values in the column's own type.
fn widened(array: &ArrayRef, data_type: &DataType) -> ArrayRef {
    let spelt = array.as_any_dictionary_opt().map(|coded| arrow::compute::take(coded.values(), coded.keys(), None));
    let spelt = spelt.map_or_else(|| Arc::clone(array), |spelt| spelt.expect("codes that there are"));
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => spelt,
        _ => thermocline_narrow::widen(&spelt, data_type).expect("a form of the type"),
    }
}

#[test]
fn slices_of_random_files_are_those_of_the_parquet_crate() {
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let rows = *random.pick(&[1usize, 700, 9_000]);
        let batch = random_batch(&mut random, rows);
        let file = written(&mut random, &batch);
        let builder = ParquetRecordBatchReaderBuilder::try_new(file.clone()).expect("a Parquet file");
        let schema = Arc::clone(builder.schema());
        let expected: Vec<RecordBatch> = builder.build().expect("a reader").map(|batch| batch.expect("rows")).collect();
        let expected = concat_batches(&schema, &expected).expect("batches of one schema");
        let reader = SerializedFileReader::new(file.clone()).expect("a Parquet file");
        let mut first_row = 0;
        for row_group in reader.metadata().row_groups() {
            let rows = row_group.num_rows() as usize;
            for (column, field) in schema.fields().iter().enumerate() {
                let metadata = row_group.column(column);
                let kind = Kind::of(metadata.column_descr(), metadata, field.data_type());
                let kind = kind.unwrap_or_else(|reason| panic!("seed {seed}, {}: {reason}", field.name()));
                let (start, length) = metadata.byte_range();
                let bytes = file.slice(start as usize..(start + length) as usize);
                let halves = [bytes.slice(..bytes.len() / 2), bytes.slice(bytes.len() / 2..)];
                let chunk = ColumnChunk::new(kind, metadata.clone(), halves.to_vec(), rows);
                let mut cursor = chunk.cursor().expect("a cursor");
                while cursor.next_row() < rows {
                    let left = rows - cursor.next_row();
                    let most = *random.pick(&[20, 2_000, 10_000]);
                    let count = (1 + random.below(most)).min(left);
                    if random.one_in(3) {
                        cursor.skip(count).expect("rows to skip");
                        continue;
                    }
                    let from = first_row + cursor.next_row();
                    let found = cursor.take(count).expect("rows");
                    let found = widened(&found, field.data_type());
                    let named = || format!("seed {seed}, {}, {count} rows from {from}", field.name());
                    assert_eq!(&found, &expected.column(column).slice(from, count), "{}", named());
                }
            }
            first_row += rows;
        }
    }
}

#[test]
fn few_different_values_are_codes_of_a_dictionary_of_narrow_ones() {
    let numbers: Int32Array = (0..10_000).map(|row| Some(row % 50 - 20)).collect();
    let texts: StringArray = (0..10_000).map(|row| Some(["a", "b"][row % 2])).collect();
    let columns: Vec<(&str, ArrayRef)> = vec![("number", Arc::new(numbers)), ("text", Arc::new(texts))];
    let batch = RecordBatch::try_from_iter(columns).expect("two columns");
    let found = |rows| -> Vec<DataType> {
        chunks(&batch).iter().map(|chunk| first_rows(chunk, rows).data_type().clone()).collect()
    };
    let coded = |of| DataType::Dictionary(Box::new(DataType::UInt16), Box::new(of));
    assert_eq!(found(1_000), [coded(DataType::Int8), coded(DataType::Utf8)]);
    // Fewer rows than the dictionary is worth.
    assert_eq!(found(100), [DataType::Int8, coded(DataType::Utf8)]);
}

/// The chunks of a file of one row group.
fn chunks(batch: &RecordBatch) -> Vec<Arc<ColumnChunk>> {
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), None).expect("a writer");
    writer.write(batch).expect("a batch");
    writer.close().expect("a footer");
    let file = Bytes::from(bytes);
    let reader = SerializedFileReader::new(file.clone()).expect("a Parquet file");
    let row_group = reader.metadata().row_group(0);
    let chunk = |(column, field): (usize, &Arc<arrow::datatypes::Field>)| {
        let metadata = row_group.column(column);
        let kind = Kind::of(metadata.column_descr(), metadata, field.data_type()).expect("a kind");
        let (start, length) = metadata.byte_range();
        let bytes = file.slice(start as usize..(start + length) as usize);
        ColumnChunk::new(kind, metadata.clone(), vec![bytes], batch.num_rows())
    };
    batch.schema().fields().iter().enumerate().map(chunk).collect()
}

fn first_rows(chunk: &Arc<ColumnChunk>, count: usize) -> ArrayRef {
    chunk.cursor().and_then(|mut cursor| cursor.take(count)).expect("rows")
}

#[test]
fn two_cursors_of_a_chunk_share_its_dictionary() {
    let numbers: Int64Array = (0..50_000).map(|row| Some(row % 7)).collect();
    let batch = RecordBatch::try_from_iter([("number", Arc::new(numbers) as ArrayRef)]).expect("a column");
    let chunk = chunks(&batch).remove(0);
    let (mut first, mut second) = (chunk.cursor().expect("a cursor"), chunk.cursor().expect("a cursor"));
    let _ = first.take(25_000).expect("rows");
    second.skip(25_000).expect("rows to skip");
    assert_eq!(&second.take(25_000).expect("rows"), &first.take(25_000).expect("rows"));
    assert!(matches!(first.take(1), Err(ChunkError::Damaged(_))));
}

#[test]
fn repeated_long_texts_are_not_spelt_out_beyond_a_bound() {
    let long = |number: usize| format!("{number:05}").repeat(6_000);
    let rows = |numbers: &[usize], repeated: usize| -> ArrayRef {
        let texts: StringArray = numbers.iter().map(|number| Some(long(*number))).collect();
        let codes: Int32Array = (0..numbers.len() * repeated).map(|row| Some((row % numbers.len()) as i32)).collect();
        Arc::new(DictionaryArray::new(codes, Arc::new(texts)))
    };
    let first: Vec<usize> = (0..30).collect();
    // More texts than the dictionary has room for, after which they are plain.
    let (filling, plain): (Vec<usize>, Vec<usize>) = ((100..200).collect(), (200..300).collect());
    let parts = [rows(&first, 100), rows(&filling, 1), rows(&plain, 1)];
    let batch = |part: &ArrayRef| RecordBatch::try_from_iter([("text", Arc::clone(part))]).expect("a column");
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, batch(&parts[0]).schema(), None).expect("a writer");
    parts.iter().for_each(|part| writer.write(&batch(part)).expect("a batch"));
    writer.close().expect("a footer");
    let file = Bytes::from(bytes);
    let reader = SerializedFileReader::new(file.clone()).expect("a Parquet file");
    let metadata = reader.metadata().row_group(0).column(0);
    let kind = Kind::of(metadata.column_descr(), metadata, &DataType::Utf8).expect("a kind");
    let (start, length) = metadata.byte_range();
    let bytes = vec![file.slice(start as usize..(start + length) as usize)];
    let chunk = ColumnChunk::new(kind, metadata.clone(), bytes, 3_200);
    assert_eq!(chunk.dictionary_bytes(), 0);
    let mut cursor = chunk.cursor().expect("a cursor");
    // Codes alone take no more than they do in the file.
    assert_eq!(cursor.take(3_000).expect("rows").len(), 3_000);
    assert!(chunk.dictionary_bytes() >= 130 * 30_000);
    let mixed = cursor.take(200).expect("rows");
    let expected: StringArray = filling.iter().chain(&plain).map(|number| Some(long(*number))).collect();
    assert_eq!(widened(&mixed, &DataType::Utf8).as_string::<i32>(), &expected);
    // Ninety million bytes of thirty texts.
    let error = chunk.cursor().and_then(|mut cursor| cursor.take(3_200)).unwrap_err();
    assert!(error.is_too_long(), "{error}");
}

#[test]
fn damaged_bytes_are_errors_or_other_values_and_never_panics() {
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let batch = random_batch(&mut random, 500);
        let file = written(&mut random, &batch);
        let reader = SerializedFileReader::new(file.clone()).expect("a Parquet file");
        let column = random.below(batch.num_columns());
        let metadata = reader.metadata().row_group(0).column(column);
        let data_type = batch.schema().field(column).data_type().clone();
        let kind = Kind::of(metadata.column_descr(), metadata, &data_type).expect("a kind");
        let (start, length) = metadata.byte_range();
        let mut bytes = file[start as usize..(start + length) as usize].to_vec();
        for _ in 0..1 + random.below(8) {
            let place = random.below(bytes.len());
            bytes[place] = random.next_u64() as u8;
        }
        if random.one_in(3) {
            bytes.truncate(random.below(bytes.len()));
        }
        let chunk = ColumnChunk::new(kind, metadata.clone(), vec![bytes.into()], 500);
        if let Ok(mut cursor) = chunk.cursor() {
            let _ = cursor.skip(100).and_then(|()| cursor.take(300)).map(|rows| assert_eq!(rows.len(), 300));
        }
    }
}

#[test]
fn columns_that_are_nested_or_encoded_otherwise_are_refused() {
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
    let batch = RecordBatch::try_from_iter([("number", numbers)]).expect("a column");
    let properties =
        WriterProperties::builder().set_dictionary_enabled(false).set_encoding(Encoding::DELTA_BINARY_PACKED).build();
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties)).expect("a writer");
    writer.write(&batch).expect("a batch");
    writer.close().expect("a footer");
    let reader = SerializedFileReader::new(Bytes::from(bytes)).expect("a Parquet file");
    let metadata = reader.metadata().row_group(0).column(0);
    let refused = |data_type: &DataType| Kind::of(metadata.column_descr(), metadata, data_type).unwrap_err();
    assert_eq!(refused(&DataType::Int64), "it is encoded as DELTA_BINARY_PACKED");
}

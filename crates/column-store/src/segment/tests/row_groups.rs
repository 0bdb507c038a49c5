use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray, StringViewArray};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use thermocline_seeded::Random;

use super::tables::{Table, batch};
use crate::{
    EncodedRowGroup, MAX_PAGE_VALUES, ROW_GROUP_ROWS, ROW_GROUP_TEXT_BYTES, RowGroupBuilder, SegmentError,
    SegmentWriter,
};

fn schema(data_type: DataType, nullable: bool) -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("x", data_type, nullable)]))
}

fn rows(column: ArrayRef) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable([("x", column, true)]).unwrap()
}

#[test]
fn batches_of_any_size_become_full_row_groups_and_a_rest() {
    for seed in 0..20 {
        let mut random = Random::new(seed);
        let mut builder = RowGroupBuilder::new();
        let mut pushed = Vec::new();
        let mut groups = Vec::new();
        let mut next = 0;
        for _ in 0..random.below(12) {
            let count = *random.pick(&[0, 1, 8192, 100_000, ROW_GROUP_ROWS, ROW_GROUP_ROWS * 2 + 5]);
            let batch = rows(Arc::new(Int32Array::from_iter_values(next..next + count as i32)));
            next += count as i32;
            pushed.push(batch.clone());
            groups.extend(builder.push(batch));
        }
        for group in &groups {
            let row_count: usize = group.iter().map(RecordBatch::num_rows).sum();
            assert_eq!(row_count, ROW_GROUP_ROWS, "seed {seed}");
        }
        let rest = builder.finish();
        let rest_rows = rest.iter().flatten().map(RecordBatch::num_rows).sum::<usize>();
        assert!(rest_rows < ROW_GROUP_ROWS, "seed {seed}: {rest_rows}");
        groups.extend(rest);
        let schema = schema(DataType::Int32, true);
        let all = concat_batches(&schema, groups.iter().flatten()).unwrap();
        assert_eq!(all, concat_batches(&schema, &pushed).unwrap(), "seed {seed}");
    }
}

#[test]
fn long_texts_end_a_row_group_early() {
    // Views, so that the same megabyte can be there a thousand times.
    let text = "x".repeat(1 << 20);
    let one = StringViewArray::from_iter_values([text.as_str()]);
    let many: Vec<&dyn Array> = vec![&one; 1000];
    let views = arrow::compute::concat(&many).unwrap();
    let mut builder = RowGroupBuilder::new();
    let mut groups = builder.push(rows(Arc::new(StringViewArray::from_iter_values(["a", "b"]))));
    groups.extend(builder.push(rows(views)));
    groups.extend(builder.finish());
    let counts: Vec<usize> = groups.iter().map(|group| group.iter().map(RecordBatch::num_rows).sum()).collect();
    assert_eq!(counts.iter().sum::<usize>(), 1002);
    assert!(counts.len() < 12 && counts.iter().all(|count| (*count << 20) <= ROW_GROUP_TEXT_BYTES + 2), "{counts:?}");
    // A text that is too long by itself makes a group of its own.
    let long = "x".repeat(ROW_GROUP_TEXT_BYTES + 1);
    let mut builder = RowGroupBuilder::new();
    let mut groups = builder.push(rows(Arc::new(StringArray::from(vec!["a", &long, "b"]))));
    groups.extend(builder.finish());
    let counts: Vec<usize> = groups.iter().map(|group| group.iter().map(RecordBatch::num_rows).sum()).collect();
    assert_eq!(counts, [1, 1, 1]);
}

#[test]
fn what_cannot_be_a_row_group_is_refused_by_name() {
    let numbers = |count: usize| rows(Arc::new(Int64Array::from_iter_values(0..count as i64)));
    let encode =
        |schema: SchemaRef, batches: &[RecordBatch]| EncodedRowGroup::encode(&schema, batches).unwrap_err().to_string();
    let int64 = || schema(DataType::Int64, true);
    assert_eq!(encode(int64(), &[]), "a row group of 0 rows, expected 1 to 1048576");
    assert_eq!(encode(int64(), &[numbers(0)]), "a row group of 0 rows, expected 1 to 1048576");
    let most = EncodedRowGroup::encode(&int64(), &[numbers(MAX_PAGE_VALUES)]).unwrap();
    assert_eq!(most.row_count(), MAX_PAGE_VALUES);
    assert!(encode(int64(), &[numbers(MAX_PAGE_VALUES), numbers(1)]).starts_with("a row group of 1048577 rows"));
    assert_eq!(
        encode(schema(DataType::Int32, true), &[numbers(1)]),
        "column 0 of a batch is of type Int64, expected of type Int32"
    );
    let nulls = rows(Arc::new(Int64Array::from(vec![Some(1), None])));
    assert_eq!(
        encode(schema(DataType::Int64, false), &[numbers(1), nulls]),
        "column \"x\": 1 NULLs, expected none as the column is NOT NULL"
    );
    let list = DataType::new_list(DataType::Int64, true);
    assert!(encode(schema(list, true), &[]).starts_with("column \"x\": values of type List(Int64) cannot be stored"));
    assert!(matches!(EncodedRowGroup::encode(&Arc::new(Schema::empty()), &[]), Err(SegmentError::NoColumns)));
}

#[test]
fn a_row_group_of_another_table_is_refused_and_the_writer_goes_on() {
    let table = Table::small();
    let medium: Arc<dyn thermocline_medium::Medium> = Arc::new(thermocline_medium::MemoryMedium::new());
    let mut writer = SegmentWriter::create(Arc::clone(&medium), "s", Arc::clone(&table.schema)).unwrap();
    let other = schema(DataType::Int64, true);
    let mut random = Random::new(1);
    let foreign = EncodedRowGroup::encode(&other, &[batch(&mut random, &other, 3)]).unwrap();
    let error = writer.append(&foreign).unwrap_err();
    assert_eq!(error.to_string(), "s: a row group with the columns \"x\" Int64, expected \"a\" Int64, \"b\" Int64");
    for row_group in &table.encoded {
        writer.append(row_group).unwrap();
    }
    let info = writer.finish().unwrap();
    assert!(table.compare(&medium, &info).unwrap());
}

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use thermocline_medium::{Medium, MediumError, MemoryMedium};
use thermocline_seeded::Random;

use super::tables::{Table, all_types};
use crate::segment::footer::type_text;
use crate::{PAGE_ALIGNMENT_BYTES, PhysicalType, Segment, SegmentError, SegmentWriter, supports};

fn memory() -> Arc<dyn Medium> {
    Arc::new(MemoryMedium::new())
}

#[test]
fn what_was_written_is_read_page_by_page() {
    for seed in 0..150 {
        let mut random = Random::new(seed);
        let table = Table::random(&mut random);
        let medium = memory();
        let info = table.write(&medium, "s").unwrap();
        assert!(table.compare(&medium, &info).unwrap(), "seed {seed}, {:?}", table.schema);

        let segment = Segment::open(medium.as_ref(), &info, &table.schema).unwrap();
        let row_count: usize = table.row_groups.iter().map(|rows| rows.num_rows()).sum();
        assert_eq!((info.row_count, segment.row_count()), (row_count as u64, row_count as u64), "seed {seed}");
        assert_eq!(info.size_bytes, medium.size_bytes(segment.file()).unwrap(), "seed {seed}");
        let mut first_row = 0;
        let mut end = 0;
        for (group, rows) in segment.row_groups().iter().zip(&table.row_groups) {
            assert_eq!((group.first_row(), group.row_count()), (first_row, rows.num_rows()), "seed {seed}");
            first_row += rows.num_rows() as u64;
            for page in group.pages() {
                assert_eq!(page.offset_bytes(), end, "seed {seed}: pages lie one behind the other");
                assert_eq!(page.stored_bytes() % PAGE_ALIGNMENT_BYTES, 0, "seed {seed}");
                end += page.stored_bytes() as u64;
            }
        }
        let encoded_bytes: u64 = table.encoded.iter().map(|group| group.size_bytes()).sum();
        assert_eq!(encoded_bytes, end, "seed {seed}");
    }
}

#[test]
fn every_type_that_can_be_stored_is_spelled_so_that_it_reads_the_same() {
    for data_type in all_types() {
        assert!(supports(&data_type));
        assert_eq!(type_text(&data_type), Some(data_type.to_string()));
    }
    // A spelling that is too long, or that the parser does not take, is refused when the segment is made.
    let zone = DataType::Timestamp(arrow::datatypes::TimeUnit::Second, Some("x".repeat(300).into()));
    assert!(PhysicalType::of(&zone).is_some());
    let schema: SchemaRef = Arc::new(Schema::new(vec![Field::new("at", zone.clone(), true)]));
    let medium = memory();
    let error = SegmentWriter::create(Arc::clone(&medium), "s", schema).unwrap_err();
    assert!(matches!(error, SegmentError::ColumnType { data_type, .. } if data_type == zone));
    assert!(medium.list().unwrap().is_empty());
}

#[test]
fn a_segment_without_rows_is_one_and_a_table_without_columns_is_none() {
    let schema: SchemaRef = Arc::new(Schema::new(vec![Field::new("a", DataType::Utf8, false)]));
    let medium = memory();
    let empty = Table::of(&schema, &[]);
    let info = empty.write(&medium, "empty").unwrap();
    assert_eq!((info.row_count, info.size_bytes), (0, PAGE_ALIGNMENT_BYTES as u64));
    assert!(empty.compare(&medium, &info).unwrap());
    let none = SegmentWriter::create(Arc::clone(&medium), "none", Arc::new(Schema::empty()));
    assert!(matches!(none, Err(SegmentError::NoColumns)));
    assert_eq!(medium.list().unwrap(), ["empty"]);
}

#[test]
fn a_writer_that_is_dropped_leaves_nothing_and_takes_no_name_that_exists() {
    let table = Table::small();
    let medium = memory();
    let mut writer = SegmentWriter::create(Arc::clone(&medium), "s", Arc::clone(&table.schema)).unwrap();
    writer.append(&table.encoded[0]).unwrap();
    assert_eq!((writer.name(), writer.row_count()), ("s", 1500));
    assert_eq!(writer.size_bytes(), table.encoded[0].size_bytes());
    drop(writer);
    assert!(medium.list().unwrap().is_empty());
    let info = table.write(&medium, "s").unwrap();
    assert!(matches!(table.write(&medium, "s"), Err(SegmentError::Medium(_))));
    assert!(table.compare(&medium, &info).unwrap(), "the segment that was there stays as it is");
}

#[test]
fn a_segment_is_opened_for_its_own_table_alone() {
    let table = Table::small();
    let medium = memory();
    let info = table.write(&medium, "s").unwrap();
    let fields =
        |first: Field| -> SchemaRef { Arc::new(Schema::new(vec![first, Field::new("b", DataType::Int64, true)])) };
    for other in [
        fields(Field::new("c", DataType::Int64, true)),
        fields(Field::new("a", DataType::Int32, true)),
        fields(Field::new("a", DataType::Int64, false)),
        Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, true)])),
    ] {
        let error = Segment::open(medium.as_ref(), &info, &other).unwrap_err();
        assert!(matches!(error, SegmentError::Schema { .. }), "{error}");
        assert!(error.to_string().contains("\"a\" Int64, \"b\" Int64"), "{error}");
    }
    let noted = Field::new("a", DataType::Int64, true).with_metadata([("k".to_owned(), "v".to_owned())].into());
    let segment = Segment::open(medium.as_ref(), &info, &fields(noted)).unwrap();
    assert_eq!(*segment.schema(), table.schema);
    assert!(segment.resident_bytes() > 4 * 72 && segment.resident_bytes() < 2048, "{}", segment.resident_bytes());

    let missing = crate::SegmentInfo { name: "t".to_owned(), ..info.clone() };
    let error = Segment::open(medium.as_ref(), &missing, &table.schema).unwrap_err();
    assert!(matches!(error, SegmentError::Medium(MediumError::NotFound { .. })), "{error}");
    let error =
        Segment::open(medium.as_ref(), &crate::SegmentInfo { row_count: 1, ..info }, &table.schema).unwrap_err();
    assert!(error.to_string().contains("the number of rows is 3000, expected 1 as in the table"), "{error}");
}

#[test]
fn pages_that_are_not_there_are_an_error() {
    let table = Table::small();
    let medium = memory();
    let info = table.write(&medium, "s").unwrap();
    let segment = Segment::open(medium.as_ref(), &info, &table.schema).unwrap();
    let message = |row_group, column| segment.check_page(row_group, column, &[]).unwrap_err().to_string();
    assert_eq!(message(2, 0), "s: row group 2 asked for, expected less than 2");
    assert_eq!(message(1, 2), "s: column 2 asked for, expected less than 2");
    assert!(message(1, 1).starts_with("s: offset 12288, column \"b\", row group 1: "), "{}", message(1, 1));
}

//! What is cut out of rows that are elements, in pieces of bounded rows and bytes.

use std::ops::Bound;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, ListArray, StringArray, StructArray};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field, Fields, Int64Type};
use thermocline_predicate::{Conjunction, Domain, Scalar};
use thermocline_seeded::Random;

use super::fake::path;
use crate::*;

/// Rows and bytes of a piece at most, unless it is one row.
const MOST_ROWS: usize = 16 * 1024;
const MOST_BYTES: usize = 16 << 20;

fn column(name: &str, data_type: DataType) -> ColumnSpec {
    ColumnSpec { path: path(name), data_type }
}

fn text_field() -> Fields {
    Fields::from(vec![Field::new_list_field(DataType::Utf8, true)])
}

/// Records by the length of their text and how many elements they have, whose `e` count up.
struct Case {
    records: Vec<(usize, usize)>,
    columns: Arc<[ColumnSpec]>,
    rows: Rows,
}

impl Case {
    /// The text is a column, or lies in a list in a struct.
    fn new(records: Vec<(usize, usize)>, is_nested: bool) -> Self {
        let texts: ArrayRef = Arc::new(StringArray::from_iter_values(
            records.iter().enumerate().map(|(number, (length, _))| "x".repeat(*length) + &number.to_string()),
        ));
        let (text_type, texts) = if is_nested {
            let item = Arc::clone(&text_field()[0]);
            let list =
                ListArray::new(Arc::clone(&item), OffsetBuffer::from_lengths(vec![1; records.len()]), texts, None);
            let fields = Fields::from(vec![Field::new("list", DataType::List(item), true)]);
            let nulls = NullBuffer::new_valid(records.len());
            let parent = StructArray::new(fields.clone(), vec![Arc::new(list)], Some(nulls));
            (DataType::Struct(fields), Arc::new(parent) as ArrayRef)
        } else {
            (DataType::Utf8, texts)
        };
        let columns: Arc<[ColumnSpec]> =
            [column("b", DataType::Int64), column("l.e", DataType::Int64), column("t", text_type)].into();
        let row_count = records.iter().map(|(_, count)| count).sum();
        let rows = Rows {
            columns: vec![
                Arc::new(Int64Array::from_iter_values(0..records.len() as i64)),
                Arc::new(Int64Array::from_iter_values(0..row_count as i64)),
                texts,
            ],
            elements: Some(Elements {
                offsets: OffsetBuffer::from_lengths(records.iter().map(|(_, count)| *count)),
                is_element: element_columns(&columns, &path("l")),
            }),
            row_count,
            record_count: records.len() as u64,
            skipped_count: 0,
            positions: None,
            map_piece: None,
        };
        Self { records, columns, rows }
    }

    /// The rows that pass, cut out and made the slow way.
    fn check(&self, residual: &Conjunction, context: &str) {
        let outputs = [path("l.e"), path("b"), path("t")];
        let cut = Cut::new(&self.columns, Some(&path("l")), View::Elements, residual, &outputs).unwrap();
        let passes = |name: &str, value: usize| {
            residual.domain(&path(name)).is_none_or(|domain| domain.contains_int(value as i128))
        };
        let mut expected = self
            .records
            .iter()
            .enumerate()
            .flat_map(|(record, (length, count))| std::iter::repeat_n((record, *length), *count));
        let mut expected = (0..self.rows.row_count)
            .map(|row| (row, expected.next().unwrap()))
            .filter(|(row, (record, _))| passes("l.e", *row) && passes("b", *record));
        let (mut piece_count, mut row_before) = (0, 0);
        for rows in cut.apply(&self.rows).unwrap() {
            let CutRows { columns, row_count, selected } = rows.unwrap();
            assert!(selected.is_none());
            let text = match columns[2].as_struct_opt() {
                Some(parent) => Arc::clone(parent.column(0).as_list::<i32>().values()),
                None => Arc::clone(&columns[2]),
            };
            let (e, b, text) = (
                columns[0].as_primitive::<Int64Type>(),
                columns[1].as_primitive::<Int64Type>(),
                text.as_string::<i32>(),
            );
            assert_eq!((e.len(), b.len(), text.len()), (row_count, row_count, row_count));
            let bytes: usize = text.iter().map(|text| text.unwrap().len()).sum();
            // The last one may have more: what would be left is no piece of its own.
            assert!(row_before <= MOST_ROWS && row_count < 2 * MOST_ROWS, "{context}: {row_before}, {row_count} rows");
            row_before = row_count;
            assert!(bytes <= MOST_BYTES || row_count == 1, "{context}: {bytes} bytes in {row_count} rows");
            for row in 0..row_count {
                let (number, (record, length)) = expected.next().unwrap();
                assert_eq!((e.value(row), b.value(row)), (number as i64, record as i64), "{context}");
                assert!(
                    text.value(row).len() >= length && text.value(row).ends_with(&format!("{record}")),
                    "{context}"
                );
            }
            piece_count += 1;
        }
        assert!(expected.next().is_none() && piece_count > 0, "{context}");
    }
}

fn within(name: &str, low: usize, high: usize) -> Conjunction {
    let bound = |value: usize| Bound::Included(Scalar::Int(value as i128));
    Conjunction::all().and(path(name), Domain::interval(bound(low), bound(high)))
}

#[test]
fn pieces_of_random_records_are_bounded_and_make_up_all_rows() {
    for seed in 0..40 {
        let mut random = Random::new(seed);
        let record = |random: &mut Random| match random.below(12) {
            0 => (1 << 20, random.below(30)),
            1 => (random.below(200_000), random.below(300)),
            2 => (0, random.below(40_000)),
            3..6 => (5, 0),
            _ => (random.below(40), random.below(10)),
        };
        let records: Vec<(usize, usize)> = (0..random.below(60)).map(|_| record(&mut random)).collect();
        let case = Case::new(records, seed % 2 == 0);
        let (rows, records) = (case.rows.row_count, case.records.len());
        for residual in [
            Conjunction::all(),
            within("l.e", random.below(rows + 1), rows),
            within("b", records / 3, records / 2),
            within("b", 1, records).merge(&within("l.e", rows / 4, rows / 2)),
            within("l.e", rows, rows),
        ] {
            case.check(&residual, &format!("seed {seed}, {residual}"));
        }
    }
}

#[test]
fn a_record_whose_elements_are_too_many_for_a_piece_is_divided() {
    for is_nested in [false, true] {
        let case = Case::new(vec![(10, 3), (20 << 20, 3), (0, 50_000), (1 << 20, 40), (3, 0)], is_nested);
        case.check(&Conjunction::all(), "all");
        case.check(&within("l.e", 2, 49_000), "some elements");
    }
}

//! What a reading says it did with rows, in every layout, against the same counted row by row.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::DataType;
use thermocline_hardware::ManualClock;
use thermocline_placement::operator_cache::layout::row_or_column::{ColumnRead, RowsTouched};
use thermocline_placement::operator_cache::layout::{Layout, ReadCounts};
use thermocline_predicate::{Conjunction, Domain, Scalar};
use thermocline_seeded::Random;

use super::fake::{between, cache, path};
use crate::cut::{Cut, View};
use crate::item::Chunk;
use crate::layout::{Content, Reading};
use crate::request::ColumnSpec;
use crate::rows::{Elements, Rows, element_columns};

/// Records whose `a` is given, each with the `l.e` of its elements.
type Records = Vec<(i64, Vec<i64>)>;

fn random_records(random: &mut Random) -> Records {
    let record_count = 1 + random.below_u64(200);
    let clustered = random.one_in(2);
    let record = |number: u64| {
        let a = if clustered { number * 5 } else { random.below_u64(1000) };
        (a as i64, (0..1 + random.below_u64(4)).map(|_| random.below_u64(1000) as i64).collect())
    };
    (0..record_count).map(record).collect()
}

fn columns() -> Arc<[ColumnSpec]> {
    ["a", "b", "l.e"].iter().map(|name| ColumnSpec { path: path(name), data_type: DataType::Int64 }).collect()
}

fn rows_of(records: &Records) -> Arc<Rows> {
    let a: ArrayRef = Arc::new(records.iter().map(|(a, _)| *a).collect::<Int64Array>());
    let elements: Vec<i64> = records.iter().flat_map(|(_, elements)| elements.clone()).collect();
    let row_count = elements.len();
    let offsets = OffsetBuffer::from_lengths(records.iter().map(|(_, elements)| elements.len()));
    let is_element = element_columns(&columns(), &path("l"));
    Arc::new(Rows {
        columns: vec![Arc::clone(&a), a, Arc::new(Int64Array::from(elements))],
        elements: Some(Elements { offsets, is_element }),
        row_count,
        record_count: records.len() as u64,
        skipped_count: 0,
        positions: None,
        map_piece: None,
    })
}

fn runs(passes: &[bool]) -> u64 {
    (0..passes.len()).filter(|&at| passes[at] && (at == 0 || !passes[at - 1])).count() as u64
}

/// The counts of one piece that holds all records.
fn expected(records: &Records, view: View, a: Option<&Range<i64>>, e: Option<&Range<i64>>) -> ReadCounts {
    let passing: Vec<bool> = records.iter().map(|(value, _)| a.is_none_or(|a| a.contains(value))).collect();
    let any_passes = passing.contains(&true);
    let rows: Vec<bool> = match view {
        View::Records => passing.clone(),
        View::Elements => {
            let of_record = |(passes, (_, elements)): (&bool, &(i64, Vec<i64>))| {
                let passes = *passes;
                elements.iter().map(move |value| passes && e.is_none_or(|e| e.contains(value))).collect::<Vec<_>>()
            };
            passing.iter().zip(records).flat_map(of_record).collect()
        }
    };
    let count = |of: &[bool]| of.iter().filter(|passes| **passes).count() as u64;
    let (row_count, selected) = (rows.len() as u64, count(&rows));
    let is_cut = selected > 0 && selected < row_count;
    let of = |condition: bool, count: u64| if condition { count } else { 0 };
    ReadCounts {
        piece_count: 1,
        columns_tested: u64::from(a.is_some()) + u64::from(e.is_some() && any_passes),
        record_values_tested: of(a.is_some(), records.len() as u64),
        element_values_tested: of(e.is_some() && any_passes, row_count),
        whole_rows: of(selected == row_count, row_count),
        cut_rows: of(is_cut, row_count),
        cut_selected_rows: of(is_cut, selected),
        cut_runs: of(is_cut, runs(&rows)),
        record_runs: of(view == View::Elements && count(&passing) < records.len() as u64, runs(&passing)),
    }
}

#[test]
fn a_reading_counts_the_same_in_every_layout_and_as_one_does_row_by_row() {
    for seed in 0..400 {
        let mut random = Random::new(seed);
        let records = random_records(&mut random);
        let range = |random: &mut Random| {
            let low = random.below_u64(1000) as i64;
            // Some select nothing, and some everything.
            if random.one_in(4) { 0..1000 } else { low..low + 1 + random.below_u64(500) as i64 }
        };
        let view = if random.one_in(2) { View::Records } else { View::Elements };
        let a = random.one_in(2).then(|| range(&mut random));
        let e = (view == View::Elements && random.one_in(2)).then(|| range(&mut random));
        let mut residual = Conjunction::all();
        for (name, range) in [("a", &a), ("l.e", &e)] {
            if let Some(range) = range {
                let domain = between(range.start, range.end - 1).domain(&path("a")).cloned().unwrap();
                residual = residual.and(path(name), domain);
            }
        }
        let outputs = match view {
            View::Records => vec![path("b")],
            View::Elements => vec![path("b"), path("l.e")],
        };
        let cut = Cut::new(&columns(), Some(&path("l")), view, &residual, &outputs).unwrap();
        let expected = expected(&records, view, a.as_ref(), e.as_ref());
        for layout in Layout::ALL {
            let content = Content::of(&rows_of(&records), layout).unwrap();
            let mut reading = Reading::default();
            for piece in content.pieces() {
                cut.read(&content, piece, &ManualClock::new(0), &mut reading).unwrap();
            }
            assert_eq!(reading.counts, expected, "seed {seed}, {layout}");
        }
    }
}

#[test]
fn the_columns_of_a_reading_are_told_by_what_is_read_of_them_and_whose_they_are() {
    let outputs = [path("l.e"), path("a")];
    let cut = Cut::new(&columns(), Some(&path("l")), View::Elements, &between(1, 2), &outputs).unwrap();
    let column = |width_bytes, rows, is_of_elements| ColumnRead { width_bytes, rows, is_of_elements };
    let expected = [
        column(8, RowsTouched::Every, false),
        column(4, RowsTouched::None, false),
        column(2, RowsTouched::Selected, true),
    ];
    assert_eq!(cut.columns_read(&[8, 4, 2], Some(&path("l"))), expected);
}

#[test]
fn chunks_know_in_every_layout_between_what_their_values_lie() {
    let (cache, _budget) = cache(1 << 20);
    let elements = |lengths: [usize; 4]| Elements {
        offsets: OffsetBuffer::from_lengths(lengths),
        is_element: element_columns(&columns(), &path("l")),
    };
    let rows = |a: [Option<i64>; 4], e: Vec<Option<i64>>, lengths| {
        let a: ArrayRef = Arc::new(Int64Array::from(a.to_vec()));
        let row_count = e.len();
        Arc::new(Rows {
            columns: vec![Arc::clone(&a), a, Arc::new(Int64Array::from(e))],
            elements: Some(elements(lengths)),
            row_count,
            record_count: 4,
            skipped_count: 0,
            positions: None,
            map_piece: None,
        })
    };
    let [whole, with_nulls] = [
        rows([Some(40), Some(10), Some(30), Some(20)], vec![Some(7), Some(3), Some(9), Some(5)], [1, 1, 1, 1]),
        rows([Some(40), None, Some(30), Some(10)], vec![Some(7), None, Some(9), Some(3)], [1, 0, 2, 1]),
    ];
    for layout in Layout::ALL {
        for (rows, has_nulls) in [(&whole, false), (&with_nulls, true)] {
            let chunk = |layout| Chunk::new(Content::of(rows, layout).unwrap(), cache.reserve_if_free(1).unwrap());
            let made = chunk(layout);
            let point = |value| Domain::point(Scalar::Int(value));
            let check = |chunk: &Chunk| {
                for (column, [below, least, between, greatest, above]) in
                    [(0, [9, 10, 15, 40, 41]), (2, [2, 3, 4, 9, 10])]
                {
                    let may_hold = |domain: &Domain| chunk.may_hold(column, domain);
                    assert!(
                        [least, between, greatest].iter().all(|value| may_hold(&point(*value))),
                        "{layout}, {column}"
                    );
                    assert!(!may_hold(&point(below)) && !may_hold(&point(above)), "{layout}, {column}");
                    let or_null = point(above).union(&Domain::null());
                    assert_eq!(may_hold(&or_null), has_nulls, "{layout}, {column}");
                }
            };
            check(&made);
            check(&chunk(Layout::Nested).knowing_spans_of(&made));
        }
    }
}

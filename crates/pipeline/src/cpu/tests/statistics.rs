//! Sources that say of their columns what is not so, as footers of others' files may.

use std::error::Error;
use std::sync::Arc;

use arrow::array::{ArrayRef, Date32Array, Int64Array};
use thermocline_column_store::{ZoneMap, ZoneValue};

use super::{rows_of, run_by};
use crate::ir::{Aggregate, DatePart, Expression, PipelineBuilder, Slot, ValueType};
use crate::{
    GroupWay, InstructionSet, PageFacts, PageSource, Pipeline, PipelineError, RunOptions, SourceColumn, Value, run,
};

/// Row groups of arrays, of whose columns it says these bounds and counts of NULLs whatever they are.
struct Said {
    row_groups: Vec<Vec<ArrayRef>>,
    facts: Vec<(ZoneMap, usize)>,
}

impl PageSource for Said {
    fn row_group_count(&self) -> usize {
        self.row_groups.len()
    }

    fn row_count(&self, row_group: usize) -> usize {
        self.row_groups[row_group][0].len()
    }

    fn facts(&self, _row_group: usize, column: usize) -> Option<PageFacts<'_>> {
        let (zone_map, null_count) = &self.facts[column];
        Some(PageFacts { zone_map, null_count: *null_count })
    }

    fn column(&self, row_group: usize, column: usize) -> Result<SourceColumn, Box<dyn Error + Send + Sync>> {
        Ok(SourceColumn::Array(Arc::clone(&self.row_groups[row_group][column])))
    }
}

fn between(least: i128, greatest: i128) -> (ZoneMap, usize) {
    let [least, greatest] = [least, greatest].map(|value| Some(ZoneValue::Integer(value)));
    (ZoneMap { least, greatest, ..ZoneMap::default() }, 0)
}

fn longs(values: impl IntoIterator<Item = Option<i64>>) -> ArrayRef {
    Arc::new(values.into_iter().collect::<Int64Array>())
}

/// Counts rows by some of the source's columns of numbers.
fn counts(column_count: usize) -> Pipeline {
    let mut builder = PipelineBuilder::new();
    let scan = |number| builder.scan(format!("c{number}"), number, ValueType::Int64, true).unwrap();
    let slots: Vec<Slot> = (0..column_count).map(scan).collect();
    builder.aggregate(slots, vec![Aggregate::CountRows]).unwrap()
}

fn answer(pipeline: &Pipeline, source: &Said, thread_count: usize, groups: GroupWay) -> Result<usize, PipelineError> {
    run_by(thread_count, InstructionSet::detect(), |options| {
        run(pipeline, source, &[], &RunOptions { groups, ..*options })
    })
    .map(|(outcome, _)| rows_of(outcome).len())
}

/// The answer is `wrong`, the error that tells a value which was not said, if there is one: else so many groups. Groups
/// of several columns that are parted are found by hashes, whatever a source says, so that theirs is right all the same.
fn is_told(pipeline: &Pipeline, source: &Said, (wrong, group_count): (Option<&str>, usize)) {
    for (thread_count, groups) in [(1, GroupWay::Together), (3, GroupWay::Together), (2, GroupWay::Parted)] {
        let found = answer(pipeline, source, thread_count, groups).map_err(|error| error.to_string());
        let is_hashed = groups == GroupWay::Parted && source.facts.len() > 1 && pipeline.output().len() > 2;
        match wrong.filter(|_| !is_hashed) {
            Some(wrong) => assert_eq!(found, Err(wrong.to_owned()), "{groups:?}"),
            None => assert_eq!(found, Ok(group_count), "{groups:?}"),
        }
    }
}

#[test]
fn a_value_outside_of_what_a_source_said_of_it_is_an_error_and_not_a_null() {
    let statistics = "between which all are by the file's statistics";
    let told = |column: &str, value: i64, said: &str| {
        format!("row group 1, column {column}: a value is {value}, outside of {said}, {statistics}")
    };
    // In the first mini-block, in the last, in one of NULLs, and next to what is possible.
    for (row, value, has_nulls) in
        [(3, 300, false), (2999, -1, true), (1500, i64::MIN, false), (7, 200, true), (2040, i64::MAX, true)]
    {
        let number = |at: i64| (!has_nulls || at % 11 != 3).then_some(at % 200);
        let with = |wrong: Option<i64>| {
            let value = |at: i64| wrong.filter(|_| at == row).or_else(|| number(at));
            vec![longs((0..3000).map(value)), longs((0..3000).map(|at| Some(at % 3)))]
        };
        let mut source =
            Said { row_groups: vec![with(None), with(Some(value))], facts: vec![between(0, 199), between(0, 2)] };
        let of_nulls = usize::from(has_nulls);
        let (one, two) = (200 + of_nulls, 600 + 3 * of_nulls);
        let wrong = told("c0", value, "0 to 199");
        is_told(&counts(1), &source, (Some(&wrong), one + 1));
        is_told(&counts(2), &source, (Some(&wrong), two + 1));
        // In another column of several.
        source.row_groups.iter_mut().for_each(|columns| columns.swap(0, 1));
        source.facts.swap(0, 1);
        is_told(&counts(2), &source, (Some(&told("c1", value, "0 to 199")), two + 1));
        source.row_groups[1] = source.row_groups[0].clone();
        is_told(&counts(2), &source, (None, two));
    }
}

#[test]
fn a_part_of_a_date_outside_of_what_a_source_said_is_an_error() {
    let mut builder = PipelineBuilder::new();
    let date = builder.scan("day", 0, ValueType::Date, false).unwrap();
    let year = builder.compute("year", Expression::date_part(DatePart::Year, Expression::Slot(date))).unwrap();
    let pipeline = builder.aggregate(vec![year], vec![Aggregate::CountRows]).unwrap();
    let days = |last: i32| -> ArrayRef { Arc::new(Date32Array::from_iter_values((0..2000).chain([last]))) };
    // The last day of 1979 is the 3651st.
    let mut source = Said { row_groups: vec![vec![days(9)], vec![days(3652)]], facts: vec![between(0, 3651)] };
    let wrong = "row group 1, column year: a value is 1980, outside of 1970 to 1979, between which all are by the file's \
                 statistics";
    is_told(&pipeline, &source, (Some(wrong), 0));
    source.row_groups[1] = vec![days(3651)];
    is_told(&pipeline, &source, (None, 7));
}

#[test]
fn bounds_of_columns_that_are_said_to_be_null_alone_are_no_bounds() {
    let mut source = Said { row_groups: vec![vec![longs([Some(5); 100])]], facts: vec![(ZoneMap::default(), 100)] };
    let found = answer(&counts(1), &source, 1, GroupWay::Together).unwrap();
    assert_eq!(found, 1);
    source.row_groups.push(vec![longs([None; 100])]);
    let (outcome, _) = run_by(1, InstructionSet::detect(), |options| run(&counts(1), &source, &[], options)).unwrap();
    let number = |value: i128| Value::Integer(value);
    assert_eq!(rows_of(outcome), [[Value::Null, number(100)], [number(5), number(100)]]);
}

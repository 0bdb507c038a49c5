//! What a run does besides the right answer: what it reads, what it refuses, when it ends.

use std::collections::BTreeSet;
use std::error::Error;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex};

use arrow::array::{Array, ArrayRef, AsArray, Date32Array, Int64Array, StringArray};
use thermocline_budget::Reservation;
use thermocline_column_store::{Encoding, encode_as};
use thermocline_hardware::ManualClock;
use thermocline_predicate::{Domain, Scalar};

use super::{account, equals, longs, pages, rows_of, run_by, run_with, scan_longs, table_of};
use crate::ir::{
    Aggregate, Comparison, Condition, DatePart, Expression, Operator, PipelineBuilder, ProbeKind, TextMap, TextTest,
    ValueType,
};
use crate::{
    BatchSize, BuiltTable, FailedElsewhere, GroupWay, InstructionSet, MemoryPages, Outcome, PageFacts, PageSource,
    Pipeline, PipelineError, Rowset, RunOptions, SourceColumn, Value, run, run_in_batches,
};

/// Batches of some dozens of kilobytes, and of a megabyte.
const SMALL: BatchSize = BatchSize { bytes: 30_000, rows: usize::MAX };
const LARGE: BatchSize = BatchSize { bytes: 1_000_000, rows: usize::MAX };

/// A table of these keys, each with itself as payload.
fn table(keys: &[i64]) -> Result<Arc<BuiltTable>, PipelineError> {
    let source = pages(vec![vec![longs(keys.iter().copied())]]);
    let mut builder = PipelineBuilder::new();
    let slots = scan_longs(&mut builder, 1);
    let pipeline = builder.build("keys", slots[0], slots.clone()).unwrap();
    run_with(&pipeline, &source, &[], 1, InstructionSet::detect()).map(|(outcome, _)| table_of(outcome))
}

/// What a source is told of: row groups announced and begun, with the thread, in this order.
#[derive(Debug, PartialEq, Eq)]
enum Told {
    Announced(usize, usize),
    Begun(usize),
}

/// Remembers which pages were asked for and what it was told; can fail, or cancel a run, at a page.
struct Watched<'a> {
    pages: &'a MemoryPages,
    asked: Mutex<BTreeSet<(usize, usize)>>,
    told: Mutex<Vec<Told>>,
    /// Goes along with so many announcements beyond the row groups that were begun.
    most_announced: usize,
    at: &'a (dyn Fn(usize, usize) -> Result<(), Box<dyn Error + Send + Sync>> + Sync),
}

impl PageSource for Watched<'_> {
    fn row_group_count(&self) -> usize {
        self.pages.row_group_count()
    }

    fn row_count(&self, row_group: usize) -> usize {
        self.pages.row_count(row_group)
    }

    fn facts(&self, row_group: usize, column: usize) -> Option<PageFacts<'_>> {
        self.pages.facts(row_group, column)
    }

    fn column(&self, row_group: usize, column: usize) -> Result<SourceColumn, Box<dyn Error + Send + Sync>> {
        assert!(self.asked.lock().unwrap().insert((row_group, column)), "a page is asked for once");
        (self.at)(row_group, column)?;
        self.pages.column(row_group, column)
    }

    fn announce(&self, thread: usize, row_group: usize, _columns: &[usize]) -> bool {
        let mut told = self.told.lock().unwrap();
        let begun_count = told.iter().filter(|told| matches!(told, Told::Begun(_))).count();
        let may_go_on = told.len() - begun_count + 1 < begun_count.saturating_add(self.most_announced);
        if may_go_on {
            told.push(Told::Announced(thread, row_group));
        }
        may_go_on
    }

    fn begin(&self, row_group: usize, _columns: &[usize]) {
        self.told.lock().unwrap().push(Told::Begun(row_group));
    }
}

fn watched(pages: &MemoryPages) -> Watched<'_> {
    Watched { pages, asked: Mutex::default(), told: Mutex::default(), most_announced: 0, at: &|_, _| Ok(()) }
}

/// What a source of these row groups is told by one thread that filters for 9.
fn told(row_groups: Vec<i64>, most_announced: usize) -> Vec<Told> {
    let pages = pages(row_groups.into_iter().map(|value| vec![longs([value; 10])]).collect());
    let source = Watched { most_announced, ..watched(&pages) };
    let mut builder = PipelineBuilder::new();
    let slots = scan_longs(&mut builder, 1);
    builder.filter(slots[0], equals(9)).unwrap();
    let pipeline = builder.aggregate(vec![], vec![Aggregate::Sum(slots[0])]).unwrap();
    run_with(&pipeline, &source, &[], 1, InstructionSet::detect()).unwrap();
    source.told.into_inner().unwrap()
}

#[test]
fn a_source_is_told_of_the_row_groups_behind_those_that_are_begun_as_far_as_it_goes_along() {
    use Told::{Announced, Begun};
    let expected = [Begun(0), Announced(0, 2), Announced(0, 3), Begun(2), Announced(0, 4), Begun(3), Begun(4)];
    assert_eq!(told(vec![9, 1, 9, 9, 9, 1], 2), expected, "what zone maps rule out is passed over");
    let all = told(vec![9; 200], usize::MAX);
    assert_eq!(all.iter().position(|told| *told == Begun(1)), Some(65), "64 of them at a time");
    assert_eq!(all.iter().filter(|told| matches!(told, Announced(..))).count(), 199, "each once");
}

#[test]
fn pages_that_no_surviving_row_needs_are_not_read() {
    let scattered = || longs((0..3000).map(|at| at * 7 % 100 * 2));
    let source = pages(vec![vec![scattered(), longs(0..3000)], vec![scattered(), longs(0..3000)]]);
    for (wanted, expected) in [(51, vec![(0, 0), (1, 0)]), (50, vec![(0, 0), (0, 1), (1, 0), (1, 1)])] {
        let mut builder = PipelineBuilder::new();
        let slots = scan_longs(&mut builder, 2);
        builder.filter(slots[0], equals(wanted)).unwrap();
        let pipeline = builder.aggregate(vec![], vec![Aggregate::Sum(slots[1])]).unwrap();
        let source = watched(&source);
        let (_, report) = run_with(&pipeline, &source, &[], 2, InstructionSet::detect()).unwrap();
        let asked: Vec<_> = source.asked.into_inner().unwrap().into_iter().collect();
        assert_eq!(asked, expected, "c0 = {wanted}");
        assert_eq!(report.pages_read, expected.len() as u64);
    }
}

#[test]
fn zone_maps_rule_row_groups_out_by_filters_and_by_the_keys_of_tables() {
    let row_group = |start: i64| vec![longs(start..start + 1000)];
    let source = pages((0..10).map(|number| row_group(number * 1000)).collect());
    let mut builder = PipelineBuilder::new();
    let slots = scan_longs(&mut builder, 1);
    let table = table(&[2500, 4200]).unwrap();
    builder.probe(table.shape(), slots[0], ProbeKind::Semi, &[]).unwrap();
    builder.filter(slots[0], Domain::points([Scalar::Int(4200), Scalar::Int(9999)])).unwrap();
    let pipeline = builder.materialise(slots).unwrap();
    let source = watched(&source);
    let (outcome, report) = run_with(&pipeline, &source, &[table], 3, InstructionSet::detect()).unwrap();
    assert_eq!(rows_of(outcome), [[Value::Integer(4200)]]);
    assert_eq!((report.row_groups_scanned, report.row_groups_skipped), (1, 9));
    assert_eq!(source.asked.into_inner().unwrap().into_iter().collect::<Vec<_>>(), [(4, 0)]);
}

#[test]
fn a_probe_for_payload_yields_a_row_for_each_that_it_finds_and_a_semi_probe_one() {
    let twice = table(&[1, 2, 2]).unwrap();
    let source = pages(vec![vec![longs([2, 3, 1])]]);
    let probing = |kind: ProbeKind| {
        let mut builder = PipelineBuilder::new();
        let slots = scan_longs(&mut builder, 1);
        let payload =
            builder.probe(twice.shape(), slots[0], kind, if kind.gives_payload() { &[0] } else { &[] }).unwrap();
        let pipeline = builder.materialise([slots, payload].concat()).unwrap();
        rows_of(run_with(&pipeline, &source, &[Arc::clone(&twice)], 1, InstructionSet::detect()).unwrap().0)
    };
    let number = Value::Integer;
    let found = vec![vec![number(1), number(1)], vec![number(2), number(2)], vec![number(2), number(2)]];
    assert_eq!(probing(ProbeKind::Inner), found);
    assert_eq!(probing(ProbeKind::Outer), [found, vec![vec![number(3), Value::Null]]].concat());
    assert_eq!(probing(ProbeKind::Semi), [[number(1)], [number(2)]]);
    assert_eq!(probing(ProbeKind::Anti), [[number(3)]]);
}

#[test]
fn rows_that_multiply_into_more_than_a_mini_block_all_come() {
    let many = table(&vec![5; 3000]).unwrap();
    let source = pages(vec![vec![longs((0..1500).map(|at| at % 10))]]);
    let mut builder = PipelineBuilder::new();
    let slots = scan_longs(&mut builder, 1);
    builder.probe(many.shape(), slots[0], ProbeKind::Inner, &[]).unwrap();
    let again = builder.probe(many.shape(), slots[0], ProbeKind::Semi, &[]).unwrap();
    assert_eq!(again, []);
    let pipeline = builder.aggregate(vec![slots[0]], vec![Aggregate::CountRows, Aggregate::Sum(slots[0])]).unwrap();
    let tables = [Arc::clone(&many), many];
    let (outcome, report) = run_with(&pipeline, &source, &tables, 1, InstructionSet::detect()).unwrap();
    assert_eq!(rows_of(outcome), [[5, 450_000, 2_250_000].map(Value::Integer)]);
    assert_eq!(report.rows_kept, 450_000);
}

#[test]
fn tables_that_the_pipeline_was_not_made_for_are_refused() {
    let mut builder = PipelineBuilder::new();
    let slots = scan_longs(&mut builder, 1);
    let table = table(&[1]).unwrap();
    let mut shape = table.shape().clone();
    shape.payload.clear();
    builder.probe(&shape, slots[0], ProbeKind::Semi, &[]).unwrap();
    let pipeline = builder.materialise(slots).unwrap();
    let source = pages(vec![vec![longs([1])]]);
    let error = |tables: &[Arc<BuiltTable>]| {
        run_with(&pipeline, &source, tables, 1, InstructionSet::detect()).unwrap_err().to_string()
    };
    assert!(error(&[]).contains("found none"), "{}", error(&[]));
    assert!(error(&[table]).contains("expects table keys of 0 payload columns; found table keys of 1"));
}

#[test]
fn groups_without_rows_are_none_and_without_grouping_one() {
    let source = pages(vec![vec![longs([1, 2])]]);
    let rows = |grouped: bool| {
        let mut builder = PipelineBuilder::new();
        let slots = scan_longs(&mut builder, 1);
        builder.filter(slots[0], equals(9)).unwrap();
        let groups = if grouped { slots.clone() } else { Vec::new() };
        let pipeline = builder.aggregate(groups, vec![Aggregate::CountRows, Aggregate::Sum(slots[0])]).unwrap();
        rows_of(run_with(&pipeline, &source, &[], 2, InstructionSet::detect()).unwrap().0)
    };
    assert_eq!(rows(false), [[Value::Integer(0), Value::Null]]);
    assert!(rows(true).is_empty());
}

#[test]
fn the_years_of_a_tables_dates_make_groups_whether_the_dates_have_codes_or_not() {
    // One day in the middle of each year from 1970 on; codes are few enough for all of them, or for none.
    for year_count in [3, 40, 2000] {
        let days = |year: i64| year * 365 + year / 4 + 180;
        let dates: ArrayRef = Arc::new(Date32Array::from_iter_values((0..year_count).map(|year| days(year) as i32)));
        let mut builder = PipelineBuilder::new();
        let key = builder.scan("key", 0, ValueType::Int64, false).unwrap();
        let date = builder.scan("date", 1, ValueType::Date, false).unwrap();
        let dated = builder.build("dated", key, vec![date]).unwrap();
        let source = pages(vec![vec![longs(0..year_count), dates]]);
        let (outcome, _) = run_with(&dated, &source, &[], 1, InstructionSet::detect()).unwrap();
        let table = table_of(outcome);

        let mut builder = PipelineBuilder::new();
        let key = scan_longs(&mut builder, 1)[0];
        let date = builder.probe(table.shape(), key, ProbeKind::Inner, &[0]).unwrap()[0];
        let year = builder.compute("year", Expression::date_part(DatePart::Year, Expression::Slot(date))).unwrap();
        let pipeline = builder.aggregate(vec![year], vec![Aggregate::CountRows]).unwrap();
        let keys = pages(vec![vec![longs((0..2 * year_count).map(|row| row / 2))]]);
        let (outcome, _) = run_with(&pipeline, &keys, &[table], 1, InstructionSet::detect()).unwrap();
        let expected: Vec<_> =
            (0..year_count).map(|year| vec![Value::Integer((1970 + year).into()), Value::Integer(2)]).collect();
        assert_eq!(rows_of(outcome), expected);
    }
}

#[test]
fn keys_may_be_computed() {
    // Keys that lie close together, far apart, and anywhere.
    for factor in [1, 1000, 1 << 40] {
        let keys = table(
            &(0..300).map(|key| key * key % 97 * factor).collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>(),
        );
        let keys = keys.unwrap();
        let source = pages(vec![vec![longs(0..3000)], vec![longs(3000..5000)]]);
        for kind in [ProbeKind::Semi, ProbeKind::Anti, ProbeKind::Inner] {
            let mut builder = PipelineBuilder::new();
            let row = scan_longs(&mut builder, 1)[0];
            let number = |value: i64| Expression::Literal { value: value.into(), value_type: ValueType::Int64 };
            let rest = Expression::binary(Operator::Remainder, Expression::Slot(row), number(100));
            let key = Expression::binary(Operator::Multiply, rest, number(factor));
            let key = builder.compute("key", key).unwrap();
            builder.probe(keys.shape(), key, kind, &[]).unwrap();
            let pipeline = builder.materialise(vec![row]).unwrap();
            let (outcome, _) = run_with(&pipeline, &source, &[Arc::clone(&keys)], 2, InstructionSet::detect()).unwrap();
            let is_key = |row: &i64| (0..300).any(|key| key * key % 97 == row % 100);
            let expected = (0..5000).filter(|row| is_key(row) != (kind == ProbeKind::Anti));
            let expected: Vec<_> = expected.map(|row| vec![Value::Integer(row.into())]).collect();
            assert_eq!(rows_of(outcome), expected, "{factor}, {kind:?}");
        }
    }
}

#[test]
fn an_unbound_pipeline_does_not_run() {
    let source = pages(vec![vec![longs(0..3000)]]);
    let mut builder = PipelineBuilder::new();
    let row = scan_longs(&mut builder, 1)[0];
    let parameter = Expression::Parameter { number: 0, value_type: ValueType::Int64 };
    builder.condition(Condition::compare(Comparison::Less, Expression::Slot(row), parameter)).unwrap();
    let pipeline = builder.aggregate(Vec::new(), vec![Aggregate::CountRows]).unwrap();
    let error = run_with(&pipeline, &source, &[], 1, InstructionSet::detect()).unwrap_err();
    assert_eq!(error.to_string(), "parameter $0 has no value of type int64");
    let bound = pipeline.bound(&[Expression::Literal { value: 1234, value_type: ValueType::Int64 }]).unwrap();
    let (outcome, _) = run_with(&bound, &source, &[], 1, InstructionSet::detect()).unwrap();
    assert_eq!(rows_of(outcome), [[Value::Integer(1234)]]);
    let bound = pipeline.bound(&[Expression::Null { value_type: ValueType::Int64 }]).unwrap();
    let (outcome, _) = run_with(&bound, &source, &[], 1, InstructionSet::detect()).unwrap();
    assert_eq!(rows_of(outcome), [[Value::Integer(0)]]);
}

#[test]
fn slots_of_one_column_share_its_page() {
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..3000).map(|row| format!("{}-{row}", row % 7))));
    let source = pages(vec![vec![texts]]);
    let mut builder = PipelineBuilder::new();
    let text = builder.scan("t", 0, ValueType::Text, false).unwrap();
    builder.filter(text, Domain::prefix("3-")).unwrap();
    let first = TextMap::new("first", |texts: &ArrayRef| {
        let texts = arrow::compute::cast(texts, &arrow::datatypes::DataType::Utf8)?;
        Ok(arrow::compute::kernels::substring::substring(texts.as_ref(), 0, Some(1))?)
    });
    let first = builder.scan_mapped(0, first, false).unwrap();
    let pipeline = builder.aggregate(vec![first], vec![Aggregate::CountRows]).unwrap();
    let (outcome, report) = run_with(&pipeline, &source, &[], 1, InstructionSet::detect()).unwrap();
    assert_eq!(report.pages_read, 1);
    assert_eq!(rows_of(outcome), [[Value::Text("3".into()), Value::Integer(429)]]);
}

fn materialise_all(columns: usize) -> Pipeline {
    let mut builder = PipelineBuilder::new();
    let slots = scan_longs(&mut builder, columns);
    builder.materialise(slots).unwrap()
}

#[test]
fn a_run_that_finds_no_memory_fails_and_gives_all_back() {
    let source = pages((0..4).map(|_| vec![longs(0..100_000)]).collect());
    let pipeline = materialise_all(1);
    let (clock, cancelled) = (ManualClock::new(0), AtomicBool::new(false));
    for (limit_bytes, fits) in [(1 << 20, false), (64 << 20, true)] {
        let account = account(limit_bytes);
        let options = RunOptions {
            thread_count: 2,
            instructions: InstructionSet::detect(),
            clock: &clock,
            account: &account,
            cancelled: &cancelled,
            groups: GroupWay::Together,
        };
        match run(&pipeline, &source, &[], &options) {
            Ok((Outcome::Rows { rowset, reservation }, _)) if fits => {
                assert_eq!(rowset.row_count, 400_000);
                // Where one thread has had all rows, there may be room for more.
                assert!((3_200_000..8_000_000).contains(&rowset.size_bytes()));
                assert_eq!(reservation.size_bytes(), rowset.size_bytes());
                assert_eq!(account.reserved_bytes(), rowset.size_bytes());
            }
            Err(PipelineError::Memory(_)) if !fits => {}
            other => panic!("{other:?} with {limit_bytes} bytes"),
        }
        assert_eq!(account.reserved_bytes(), 0);
    }
}

#[test]
fn a_run_with_more_groups_than_it_may_make_ends() {
    // Far from each other, so that they are hashed.
    let source = pages((0..4).map(|_| vec![longs((0..5_000).map(|at| at << 40))]).collect());
    let mut builder = PipelineBuilder::new();
    let number = builder.scan("number", 0, ValueType::Int64, false).unwrap();
    let pipeline = builder.aggregate(vec![number], vec![Aggregate::CountRows]).unwrap();
    for (limit, fits) in [(4_999, false), (5_000, true)] {
        let outcome = run_by(2, InstructionSet::detect(), |options| {
            run(&pipeline, &source, &[], &RunOptions { groups: GroupWay::AtMost(limit), ..*options })
        });
        match outcome {
            Ok((Outcome::Rows { rowset, .. }, _)) if fits => assert_eq!(rowset.row_count, 5_000),
            Err(PipelineError::TooManyGroups { limit: told }) if !fits => assert_eq!(told, limit),
            other => panic!("{other:?} with {limit} groups at most"),
        }
    }
}

#[test]
fn rows_are_given_out_in_batches_that_do_not_have_to_fit_together() {
    let row_group = |start: i64| -> Vec<ArrayRef> {
        let texts = (start..start + 20_000).map(|at| format!("text {}", at % 100));
        vec![longs(start..start + 20_000), Arc::new(StringArray::from_iter_values(texts))]
    };
    let source = pages((0..10).map(|number| row_group(number * 20_000)).collect());
    let mut builder = PipelineBuilder::new();
    let number = builder.scan("number", 0, ValueType::Int64, false).unwrap();
    let text = builder.scan("text", 1, ValueType::Text, false).unwrap();
    let pipeline = builder.materialise(vec![number, text]).unwrap();
    // All rows would take 2.4 MB.
    let (clock, cancelled, account) = (ManualClock::new(0), AtomicBool::new(false), account(1_900_000));
    let instructions = InstructionSet::detect();
    let options = RunOptions {
        thread_count: 2,
        instructions,
        clock: &clock,
        account: &account,
        cancelled: &cancelled,
        groups: GroupWay::Together,
    };
    let seen = Mutex::new(BTreeSet::new());
    let consumer = |rowset: Rowset, reservation: Reservation| {
        assert!(rowset.row_count <= 30_000 / 18 + 1024, "{} rows", rowset.row_count);
        assert_eq!(reservation.size_bytes(), rowset.size_bytes());
        for row in rowset.sorted_rows() {
            let Value::Integer(number) = row[0] else { panic!("{row:?}") };
            assert_eq!(row[1], Value::Text(format!("text {}", number % 100).into()));
            assert!(seen.lock().unwrap().insert(number));
        }
        Ok(())
    };
    let report = run_in_batches(&pipeline, &source, &[], &options, SMALL, &consumer).unwrap();
    assert_eq!((report.rows_kept, seen.lock().unwrap().len()), (200_000, 200_000));
    assert_eq!(account.reserved_bytes(), 0);

    // By their rows, and by no fewer than two mini-blocks have.
    for (rows, most_rows) in [(4096, 4096), (100, 2048)] {
        let row_counts = Mutex::new(Vec::new());
        let consumer = |rowset: Rowset, _| {
            row_counts.lock().unwrap().push(rowset.row_count);
            Ok(())
        };
        let size = BatchSize { bytes: usize::MAX, rows };
        run_in_batches(&pipeline, &source, &[], &options, size, &consumer).unwrap();
        let row_counts = row_counts.into_inner().unwrap();
        assert_eq!((row_counts.iter().sum::<usize>(), row_counts.iter().max()), (200_000, Some(&most_rows)));
    }

    let refuses = |_, _| Err("enough".into());
    let error = run_in_batches(&pipeline, &source, &[], &options, SMALL, &refuses).unwrap_err();
    assert_eq!(error.to_string(), "the rows are not taken: enough");
    let mut builder = PipelineBuilder::new();
    let slot = scan_longs(&mut builder, 1)[0];
    let groups = builder.clone().aggregate(vec![], vec![Aggregate::Sum(slot)]).unwrap();
    let sum = |rowset: Rowset, _| {
        assert_eq!(rowset.sorted_rows(), [[Value::Integer(199_999 * 100_000)]]);
        Ok(())
    };
    run_in_batches(&groups, &source, &[], &options, SMALL, &sum).unwrap();
    let table = builder.build("t", slot, vec![]).unwrap();
    let error = run_in_batches(&table, &source, &[], &options, SMALL, &refuses).unwrap_err().to_string();
    assert!(error.contains("table t is built as a whole"), "{error}");
}

#[test]
fn batches_count_texts_as_often_as_they_come_whether_a_table_carries_them_or_pages_have_them() {
    let text = |number: i64| format!("{number:04}{}", "long ".repeat(800));
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..10).map(text)));
    let mut builder = PipelineBuilder::new();
    let key = builder.scan("key", 0, ValueType::Int64, false).unwrap();
    let carried = builder.scan("text", 1, ValueType::Text, false).unwrap();
    let table = builder.build("texts", key, vec![carried]).unwrap();
    let source = pages(vec![vec![longs(0..10), texts]]);
    let table = table_of(run_with(&table, &source, &[], 1, InstructionSet::detect()).unwrap().0);
    let numbers = || (0..20_000).map(|at| at % 10);
    let source = pages(vec![vec![longs(numbers()), Arc::new(StringArray::from_iter_values(numbers().map(text)))]]);
    let mut builder = PipelineBuilder::new();
    let key = builder.scan("key", 0, ValueType::Int64, false).unwrap();
    let scanned = builder.scan("text", 1, ValueType::Text, false).unwrap();
    let found = builder.clone().probe(table.shape(), key, ProbeKind::Inner, &[0]).unwrap();
    let of_pages = builder.clone().materialise(vec![scanned]).unwrap();
    builder.probe(table.shape(), key, ProbeKind::Inner, &[0]).unwrap();
    let of_table = builder.materialise(found).unwrap();
    for (pipeline, tables) in [(of_pages, Vec::new()), (of_table, vec![table])] {
        let row_count = AtomicU64::new(0);
        let consumer = |rowset: Rowset, _| {
            row_count.fetch_add(rowset.row_count as u64, Ordering::Relaxed);
            let most_bytes = 1_000_000 + 1024 * 4004;
            assert!(rowset.columns[0].text_bytes() <= most_bytes, "{} rows", rowset.row_count);
            Ok(())
        };
        run_by(2, InstructionSet::detect(), |options| {
            run_in_batches(&pipeline, &source, &tables, options, LARGE, &consumer).unwrap();
        });
        assert_eq!(row_count.load(Ordering::Relaxed), 20_000);
    }
}

#[test]
fn texts_of_tables_are_tested_some_at_a_time() {
    // Also an empty one, and one longer than all that are tested at a time.
    let text = |number: i64| match number {
        0 => String::new(),
        4007 => "long ".repeat(50_000),
        _ => format!("{} {number}{}", number % 10, "x".repeat(number as usize % 90)),
    };
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..9000).map(text)));
    let source = pages(vec![vec![longs(0..9000), texts]]);
    let mut builder = PipelineBuilder::new();
    let key = builder.scan("key", 0, ValueType::Int64, false).unwrap();
    let carried = builder.scan("text", 1, ValueType::Text, false).unwrap();
    let table = builder.build("texts", key, vec![carried]).unwrap().listing_texts();
    let table = table_of(run_with(&table, &source, &[], 1, InstructionSet::detect()).unwrap().0);
    let given = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&given);
    let test = TextTest::new("begins with 7", None, move |texts: &ArrayRef| {
        let texts = texts.as_string::<i32>();
        noted.lock().unwrap().push((texts.len(), texts.value_data().len()));
        Ok(texts.iter().map(|text| text.map(|text| text.starts_with('7') || text.starts_with('l'))).collect())
    });
    let mut builder = PipelineBuilder::new();
    let key = builder.scan("key", 0, ValueType::Int64, false).unwrap();
    let found = builder.probe(table.shape(), key, ProbeKind::Inner, &[0]).unwrap();
    builder.condition(Condition::Text { slot: found[0], test }).unwrap();
    let pipeline = builder.aggregate(vec![], vec![Aggregate::CountRows]).unwrap();
    let (outcome, _) = run_with(&pipeline, &source, &[table], 2, InstructionSet::detect()).unwrap();
    assert_eq!(rows_of(outcome), [[Value::Integer(900)]]);
    let given = given.lock().unwrap();
    assert_eq!(given.iter().map(|(count, _)| count).sum::<usize>(), 9000);
    assert!(given.len() > 5 && given.iter().all(|(count, bytes)| *bytes <= 64 << 10 || *count == 1), "{given:?}");
}

#[test]
fn a_table_holds_its_memory_until_it_is_dropped() {
    let source = pages(vec![vec![longs((0..50_000).map(|at| at * 1_000_003))]]);
    let mut builder = PipelineBuilder::new();
    let slots = scan_longs(&mut builder, 1);
    let pipeline = builder.build("keys", slots[0], slots.clone()).unwrap();
    let (clock, cancelled, account) = (ManualClock::new(0), AtomicBool::new(false), account(1 << 30));
    let instructions = InstructionSet::detect();
    let options = RunOptions {
        thread_count: 1,
        instructions,
        clock: &clock,
        account: &account,
        cancelled: &cancelled,
        groups: GroupWay::Together,
    };
    let table = table_of(run(&pipeline, &source, &[], &options).unwrap().0);
    assert_eq!(account.reserved_bytes(), table.size_bytes());
    assert!(table.size_bytes() > 50_000 * 12);
    drop(table);
    assert_eq!(account.reserved_bytes(), 0);
}

#[test]
fn a_cancelled_run_ends_before_it_has_seen_all_row_groups() {
    let source = pages((0..50).map(|_| vec![longs(0..1000)]).collect());
    let pipeline = materialise_all(1);
    let cancelled = AtomicBool::new(false);
    let asked = AtomicU64::new(0);
    let cancels = |_, _| {
        if asked.fetch_add(1, Ordering::Relaxed) == 5 {
            cancelled.store(true, Ordering::Relaxed);
        }
        Ok(())
    };
    let watched = Watched { at: &cancels, ..watched(&source) };
    let (clock, account) = (ManualClock::new(0), account(1 << 30));
    let instructions = InstructionSet::detect();
    let options = RunOptions {
        thread_count: 2,
        instructions,
        clock: &clock,
        account: &account,
        cancelled: &cancelled,
        groups: GroupWay::Together,
    };
    assert!(matches!(run(&pipeline, &watched, &[], &options), Err(PipelineError::Cancelled)));
    assert!(asked.load(Ordering::Relaxed) < 10);
}

#[test]
fn a_cancelled_run_ends_among_the_rows_that_one_has_multiplied_into() {
    let many = table(&vec![5; 3000]).unwrap();
    let source = pages(vec![vec![longs([5; 1000])]]);
    let mut builder = PipelineBuilder::new();
    let slots = scan_longs(&mut builder, 1);
    builder.probe(many.shape(), slots[0], ProbeKind::Inner, &[]).unwrap();
    let pipeline = builder.materialise(slots).unwrap();
    let (clock, cancelled, account) = (ManualClock::new(0), AtomicBool::new(false), account(1 << 30));
    let options = RunOptions {
        thread_count: 1,
        instructions: InstructionSet::detect(),
        clock: &clock,
        account: &account,
        cancelled: &cancelled,
        groups: GroupWay::Together,
    };
    let given = AtomicU64::new(0);
    let consumer = |rowset: Rowset, _| {
        cancelled.store(true, Ordering::Relaxed);
        given.fetch_add(rowset.row_count as u64, Ordering::Relaxed);
        Ok(())
    };
    let ended = run_in_batches(&pipeline, &source, &[many], &options, SMALL, &consumer);
    assert!(matches!(ended, Err(PipelineError::Cancelled)));
    // Of three millions.
    assert!(given.load(Ordering::Relaxed) < 10_000);
}

#[test]
fn the_error_of_one_thread_ends_all_and_is_the_one_that_is_told() {
    let source = pages((0..50).map(|_| vec![longs(0..1000)]).collect());
    let fails = |row_group: usize, _| if row_group == 3 { Err("no such block".into()) } else { Ok(()) };
    let watched = Watched { at: &fails, ..watched(&source) };
    let error = run_with(&materialise_all(1), &watched, &[], 3, InstructionSet::detect()).unwrap_err();
    assert_eq!(error.to_string(), "row group 3, column c0: no such block");
}

#[test]
fn the_error_that_others_follow_is_told_whichever_thread_has_it() {
    for _ in 0..20 {
        let source = pages((0..2).map(|_| vec![longs(0..1000)]).collect());
        let asked = Barrier::new(2);
        // One of two threads that ask for the same at the same time is told why, the other that there is nothing.
        let fails = |_: usize, _: usize| -> Result<(), Box<dyn Error + Send + Sync>> {
            if asked.wait().is_leader() { Err("no such block".into()) } else { Err(FailedElsewhere.into()) }
        };
        let watched = Watched { at: &fails, ..watched(&source) };
        let error = run_with(&materialise_all(1), &watched, &[], 2, InstructionSet::detect()).unwrap_err();
        assert!(error.to_string().ends_with("column c0: no such block"), "{error}");
    }
}

#[test]
fn pages_that_are_not_what_the_pipeline_says_are_errors_that_name_them() {
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["a", "b"]));
    let error = |source: &MemoryPages| {
        run_with(&materialise_all(source.row_group_count()), source, &[], 1, InstructionSet::detect())
            .unwrap_err()
            .to_string()
    };
    let expected = "row group 0, column c0: the page has text, expected 64-bit integer";
    assert_eq!(error(&pages(vec![vec![texts]])), expected);

    let (mut bytes, summary) = {
        let mut bytes = Vec::new();
        let summary = encode_as(&Int64Array::from(vec![1, 2, 3]), Encoding::Plain, &mut bytes).unwrap();
        (bytes, summary)
    };
    bytes.truncate(bytes.len() - 8);
    let mut source = MemoryPages::new();
    source.push(vec![(bytes, summary)]);
    assert!(error(&source).starts_with("row group 0, column c0: "), "{}", error(&source));
}

//! Whatever pipeline over whatever pages: the answer is the reference's.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::generator::{Column, TYPES, domain, pages, pipeline};
use super::{rows_of, run_with, table_of};
use crate::ir::{PipelineBuilder, ValueType};
use crate::random::Random;
use crate::reference::interpret;
use crate::{BuiltTable, InstructionSet, Value};

/// Builds a table over random rows with unique keys, some filtered out; and its rows by the reference.
fn build(random: &mut Random, key_type: ValueType) -> (Arc<BuiltTable>, Vec<Vec<Value>>) {
    let row_counts: Vec<usize> = (0..1 + random.below(2)).map(|_| 1 + random.below(1500)).collect();
    let mut columns = vec![Column::random(random, key_type, &row_counts)];
    let mut seen = BTreeSet::new();
    columns[0].nullable = true;
    for value in columns[0].row_groups.iter_mut().flatten() {
        if value.is_some_and(|value| !seen.insert(value)) {
            *value = None;
        }
    }
    for _ in 0..random.below(3) {
        let value_type = *random.pick(&TYPES);
        if value_type.fits_group_key() {
            columns.push(Column::random(random, value_type, &row_counts));
        }
    }
    let source = pages(random, &columns);
    let mut builder = PipelineBuilder::new();
    let mut slots = Vec::new();
    for (number, column) in columns.iter().enumerate() {
        slots.push(builder.scan(format!("d{number}"), number, column.value_type, column.nullable).unwrap());
        if random.one_in(3) {
            builder.filter(slots[number], domain(random, column)).unwrap();
        }
    }
    let built = builder.build("d", slots[0], slots[1..].to_vec()).unwrap();
    let instructions = *random.pick(&InstructionSet::available());
    let (outcome, _) = run_with(&built, &source, &[], 1 + random.below(3), instructions).unwrap();
    let table = table_of(outcome);
    let expected = interpret(&built, &source, &[]).unwrap();
    assert_eq!(table.row_count(), expected.len());
    for row in &expected {
        let Value::Integer(key) = row[0] else { panic!("{row:?} has no key") };
        assert_eq!(table.payload(key as i64).as_deref(), Some(&row[1..]), "key {key}");
    }
    (table, expected)
}

fn check(seed: u64) {
    let mut random = Random::new(seed);
    let row_counts: Vec<usize> =
        (0..1 + random.below(4)).map(|_| *random.pick(&[1, 70, 1000, 1024, 1025, 2500])).collect();
    let key_types = [ValueType::Int32, ValueType::Int64, ValueType::Date, ValueType::UInt16];
    let mut columns = Vec::new();
    for number in 0..2 + random.below(4) {
        let value_type = if number < 2 { *random.pick(&key_types) } else { *random.pick(&TYPES) };
        columns.push(Column::random(&mut random, value_type, &row_counts));
    }
    let source = pages(&mut random, &columns);
    let (tables, table_rows): (Vec<_>, Vec<_>) =
        (0..random.below(3)).map(|number| build(&mut random, columns[number].value_type)).unzip();
    let shapes: Vec<_> = tables.iter().map(|table| table.shape().clone()).collect();
    let pipeline = pipeline(&mut random, &columns, &shapes);
    // The pipeline may leave tables out: those it has are found by shape, in order.
    let mut left = 0;
    let mut probed = Vec::new();
    for shape in pipeline.tables() {
        left += shapes[left..].iter().position(|of| of == shape).unwrap();
        probed.push(left);
        left += 1;
    }
    let rows: Vec<_> = probed.iter().map(|number| table_rows[*number].clone()).collect();
    let tables: Vec<_> = probed.iter().map(|number| Arc::clone(&tables[*number])).collect();
    let mut expected = interpret(&pipeline, &source, &rows).unwrap();
    expected.sort_unstable();
    for instructions in InstructionSet::available() {
        let thread_count = 1 + random.below(3);
        let (outcome, _) = run_with(&pipeline, &source, &tables, thread_count, instructions)
            .unwrap_or_else(|error| panic!("seed {seed}, {instructions:?}: {error}\n{pipeline}"));
        let found = rows_of(outcome);
        assert!(
            found == expected,
            "seed {seed}, {instructions:?}, {thread_count} threads: {} rows, expected {}; first difference {:?}\n{pipeline}",
            found.len(),
            expected.len(),
            found.iter().zip(&expected).find(|(found, expected)| found != expected),
        );
    }
}

#[test]
fn any_pipeline_over_any_pages_answers_as_the_reference_does() {
    // `THERMOCLINE_TEST_SEED=N` replays one.
    let seeds = match std::env::var("THERMOCLINE_TEST_SEED") {
        Ok(seed) => seed.parse().unwrap()..=seed.parse().unwrap(),
        Err(_) => 0..=400,
    };
    seeds.for_each(check);
}

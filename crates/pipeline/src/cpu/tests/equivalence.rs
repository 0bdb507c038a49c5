//! Whatever pipeline over whatever pages: the answer is the reference's.

use std::collections::BTreeSet;
use std::sync::Arc;

use thermocline_column_store::{Encoding, PageSummary};
use thermocline_seeded::Random;

use super::generator::{Column, TYPES, domain, pages, pipeline};
use super::{rows_of, run_with, table_of};
use crate::ir::{PipelineBuilder, ValueType};
use crate::reference::interpret;
use crate::{BuiltTable, InstructionSet, MemoryPages, PageSource, Value};

/// Builds a table over random rows with unique keys, some filtered out; and its rows by the reference.
fn build(random: &mut Random, probing: &Column) -> (Arc<BuiltTable>, Vec<Vec<Value>>) {
    let row_counts: Vec<usize> = (0..1 + random.below(2)).map(|_| 1 + random.below(1500)).collect();
    let mut columns = vec![Column::random(random, probing.value_type, &row_counts)];
    let probed: Vec<_> = probing.row_groups.concat();
    for value in columns[0].row_groups.iter_mut().flatten() {
        if !random.one_in(4) {
            *value = *random.pick(&probed);
        }
    }
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
        if random.one_in(5) {
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

/// Compares the answers of a seed's pipeline; how many rows it has.
fn check(seed: u64) -> usize {
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
        (0..random.below(3)).map(|number| build(&mut random, &columns[number])).unzip();
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
    expected.len()
}

#[test]
fn any_pipeline_over_any_pages_answers_as_the_reference_does() {
    // `THERMOCLINE_TEST_SEED=N` replays one.
    if let Ok(seed) = std::env::var("THERMOCLINE_TEST_SEED") {
        check(seed.parse().unwrap());
        return;
    }
    let row_counts: Vec<usize> = (0..600).map(check).collect();
    let many = row_counts.iter().filter(|count| **count > 20).count();
    assert!(many > 200, "only {many} pipelines have rows: the generator tests too little");
}

#[test]
fn damaged_pages_give_an_error_or_some_answer_and_no_panic() {
    let mut errors = 0;
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let types: Vec<ValueType> = (0..3).map(|_| *random.pick(&TYPES)).collect();
        let columns: Vec<_> = types.iter().map(|of| Column::random(&mut random, *of, &[2500])).collect();
        let whole = pages(&mut random, &columns);
        let mut damaged = MemoryPages::new();
        let page = |column: usize| {
            let pinned = whole.page(0, column).unwrap();
            let mut bytes = (*pinned).as_ref().to_vec();
            for _ in 0..1 + random.below(4) {
                let at = random.below(bytes.len());
                bytes[at] ^= 1 << random.below(8);
            }
            let facts = whole.facts(0, column);
            let summary = PageSummary {
                encoding: Encoding::Plain,
                size_bytes: bytes.len(),
                value_count: 2500,
                null_count: facts.null_count,
                zone_map: facts.zone_map.clone(),
                checksum: 0,
            };
            (bytes, summary)
        };
        damaged.push((0..columns.len()).map(page).collect());
        let pipeline = pipeline(&mut random, &columns, &[]);
        errors += usize::from(run_with(&pipeline, &damaged, &[], 1, InstructionSet::detect()).is_err());
    }
    assert!(errors > 20, "{errors} of 300 are found");
}

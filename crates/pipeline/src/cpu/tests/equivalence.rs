//! Whatever pipeline over whatever pages: the answer is the reference's.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::ops::Bound::{Included, Unbounded};
use std::ops::Range;
use std::sync::{Arc, Mutex};

use arrow::array::{Array, ArrayRef, DictionaryArray, Int16Array, RecordBatch, UInt16Array, UInt32Array};
use arrow::compute::{take, take_record_batch};
use arrow::datatypes::DataType;
use thermocline_column_store::{Encoding, PageSummary};
use thermocline_predicate::{Domain, Scalar};
use thermocline_seeded::Random;

use super::generator::{Column, TYPES, condition, domain, pages, pipeline, text_map};
use super::{rows_of, run_by, run_with, table_of};
use crate::ir::{Aggregate, PipelineBuilder, ValueType};
use crate::reference::interpret;
use crate::{
    BatchSource, BuiltTable, InstructionSet, MemoryPages, PageFacts, PageSource, SourceBatch, SourceColumn, Value,
    run_over_batches,
};

/// Builds a table over random rows, found by what the probing columns have, some filtered out; and its rows by the
/// reference.
fn build(random: &mut Random, probing: &[&Column]) -> (Arc<BuiltTable>, Vec<Vec<Value>>) {
    let repeats = random.one_in(3);
    let most_rows = if repeats { 8 } else { 1500 };
    let row_counts: Vec<usize> = (0..1 + random.below(2)).map(|_| 1 + random.below(most_rows)).collect();
    let mut columns: Vec<Column> =
        probing.iter().map(|probing| Column::random(random, probing.value_type, &row_counts)).collect();
    let probed: Vec<Vec<_>> = probing.iter().map(|probing| probing.row_groups.concat()).collect();
    for (row_group, row_count) in row_counts.iter().enumerate() {
        for row in 0..*row_count {
            let like = random.below(probed[0].len());
            for (column, probed) in columns.iter_mut().zip(&probed) {
                if !random.one_in(8) {
                    column.row_groups[row_group][row] = probed[like];
                }
            }
        }
    }
    for (column, probed) in columns.iter_mut().zip(&probed) {
        // NULLs make their own answers (`NOT IN`), so that some tables have none.
        if random.one_in(2) {
            let some = probed.iter().flatten().next().copied().unwrap_or(1);
            column.row_groups.iter_mut().flatten().for_each(|value| *value = value.or(Some(some)));
        }
        column.nullable = true;
    }
    let mut seen = BTreeSet::new();
    for (row_group, row_count) in row_counts.iter().enumerate() {
        for row in 0..*row_count {
            let key: Vec<_> = columns.iter().map(|column| column.row_groups[row_group][row]).collect();
            if !repeats && !seen.insert(key) {
                columns[0].row_groups[row_group][row] = None;
            }
        }
    }
    for _ in 0..random.below(3) {
        let value_type = if random.one_in(5) { ValueType::Date } else { *random.pick(&TYPES) };
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
    let text = columns.iter().position(|column| column.value_type == ValueType::Text);
    if let Some(number) = text.filter(|_| random.one_in(2)) {
        slots.push(builder.scan_mapped(number, text_map(random), columns[number].nullable).unwrap());
    }
    let (keys, payload) = slots.split_at(probing.len());
    let built = builder.build("d", keys, payload.to_vec()).unwrap();
    let instructions = *random.pick(&InstructionSet::available());
    let (outcome, _) = run_with(&built, &source, &[], 1 + random.below(3), instructions).unwrap();
    let table = table_of(outcome);
    let expected = interpret(&built, &source, &[]).unwrap();
    let mut by_key: BTreeMap<Vec<Value>, Vec<Vec<Value>>> = BTreeMap::new();
    for row in &expected {
        let (key, payload) = row.split_at(probing.len());
        by_key.entry(key.to_vec()).or_default().push(payload.to_vec());
    }
    let row_count = expected.len();
    let null_count =
        by_key.iter().filter(|(key, _)| key.contains(&Value::Null)).map(|(_, rows)| rows.len()).sum::<usize>();
    by_key.retain(|key, _| !key.contains(&Value::Null));
    assert_eq!((table.row_count(), table.has_null_key()), (row_count - null_count, null_count > 0));
    assert_eq!((table.key_count(), table.multiplies()), (by_key.len(), by_key.values().any(|rows| rows.len() > 1)));
    for (key, mut payloads) in by_key {
        let mut found = table.payloads(&key);
        found.sort_unstable();
        payloads.sort_unstable();
        assert_eq!(found, payloads, "key {key:?}");
    }
    (table, expected)
}

/// One to three columns that tables can have as keys; the first two are.
fn key_columns<'a>(random: &mut Random, columns: &'a [Column]) -> Vec<&'a Column> {
    let can_be: Vec<&Column> = columns.iter().filter(|column| column.value_type.is_key()).collect();
    let count = if random.one_in(2) { 1 } else { 1 + random.below(3) };
    (0..count).map(|_| *random.pick(&can_be)).collect()
}

/// Compares the answers of a seed's pipeline; how many rows it has.
fn check(seed: u64) -> usize {
    let mut random = Random::new(seed);
    let row_counts: Vec<usize> =
        (0..1 + random.below(4)).map(|_| *random.pick(&[1, 70, 1000, 1024, 1025, 2500])).collect();
    let key_types = [ValueType::Int32, ValueType::Int64, ValueType::Date, ValueType::UInt16, ValueType::Text];
    let mut columns = Vec::new();
    for number in 0..2 + random.below(4) {
        let value_type = if number < 2 { *random.pick(&key_types) } else { *random.pick(&TYPES) };
        columns.push(Column::random(&mut random, value_type, &row_counts));
    }
    let source = pages(&mut random, &columns);
    let (tables, table_rows): (Vec<_>, Vec<_>) = (0..random.below(4))
        .map(|_| {
            let probing = key_columns(&mut random, &columns);
            build(&mut random, &probing)
        })
        .unzip();
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
    let parts = Parts::random(&mut random, &source);
    for instructions in InstructionSet::available() {
        let thread_count = 1 + random.below(3);
        let source: &dyn PageSource = if random.one_in(2) { &parts } else { &source };
        let (outcome, _) = run_with(&pipeline, source, &tables, thread_count, instructions)
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
    let thread_count = 1 + random.below(3);
    let instructions = *random.pick(&InstructionSet::available());
    let batches = Batches::random(&mut random, &columns);
    let (outcome, _) =
        run_by(thread_count, instructions, |options| run_over_batches(&pipeline, &batches, &tables, options))
            .unwrap_or_else(|error| panic!("seed {seed}, batches, {instructions:?}: {error}\n{pipeline}"));
    let found = rows_of(outcome);
    assert!(found == expected, "seed {seed}, batches, {instructions:?}, {thread_count} threads\n{pipeline}");
    expected.len()
}

/// Pages of which each row group is cut into parts.
struct Parts<'s> {
    source: &'s MemoryPages,
    parts: Vec<(usize, Range<usize>)>,
}

impl<'s> Parts<'s> {
    fn random(random: &mut Random, source: &'s MemoryPages) -> Self {
        let mut parts = Vec::new();
        for row_group in 0..source.row_group_count() {
            let blocks = source.mini_blocks(row_group);
            let mut start = blocks.start;
            while start < blocks.end {
                let end = start + 1 + random.below(blocks.end - start);
                parts.push((row_group, start..end));
                start = end;
            }
        }
        Self { source, parts }
    }
}

impl PageSource for Parts<'_> {
    fn row_group_count(&self) -> usize {
        self.parts.len()
    }

    fn row_count(&self, part: usize) -> usize {
        self.source.row_count(self.parts[part].0)
    }

    fn mini_blocks(&self, part: usize) -> Range<usize> {
        self.parts[part].1.clone()
    }

    fn stored_row_group(&self, part: usize) -> usize {
        self.parts[part].0
    }

    fn facts(&self, part: usize, column: usize) -> Option<PageFacts<'_>> {
        self.source.facts(self.parts[part].0, column)
    }

    fn column(&self, part: usize, column: usize) -> Result<SourceColumn, Box<dyn Error + Send + Sync>> {
        self.source.column(self.parts[part].0, column)
    }
}

/// Batches that threads take one after the other.
struct Batches {
    columns: Vec<usize>,
    left: Mutex<Vec<SourceBatch>>,
}

impl Batches {
    /// The columns' row groups in pieces, the columns in reverse.
    fn random(random: &mut Random, columns: &[Column]) -> Self {
        let mut left = Vec::new();
        for row_group in 0..columns[0].row_groups.len() {
            let arrays = columns.iter().enumerate().rev();
            let arrays = arrays.map(|(number, column)| (format!("c{number}"), column.array(row_group)));
            let whole = RecordBatch::try_from_iter(arrays).unwrap();
            let middle = random.below(whole.num_rows() + 1);
            let halves = [whole.slice(0, middle), whole.slice(middle, whole.num_rows() - middle)];
            left.extend(halves.into_iter().map(|rows| {
                let SourceBatch { batch, selected } = among_others(random, rows);
                SourceBatch { batch: narrowed(random, &batch), selected }
            }));
        }
        Self { columns: (0..columns.len()).rev().collect(), left: Mutex::new(left) }
    }
}

/// The rows with some columns in the narrow forms of their types, and some with dictionaries.
fn narrowed(random: &mut Random, rows: &RecordBatch) -> RecordBatch {
    let columns = rows.schema_ref().fields().iter().zip(rows.columns()).map(|(field, column)| {
        let form = if random.one_in(2) { thermocline_narrow::narrow(column) } else { None };
        let form = form.unwrap_or_else(|| Arc::clone(column));
        let is_wide_or_coded = matches!(form.data_type(), DataType::Decimal128(..) | DataType::Dictionary(..));
        (field.name(), if is_wide_or_coded || random.one_in(2) { form } else { with_dictionary(random, &form) })
    });
    RecordBatch::try_from_iter(columns).unwrap()
}

/// The values with a dictionary that is in no order, has entries twice, and some that nobody refers to.
fn with_dictionary(random: &mut Random, values: &ArrayRef) -> ArrayRef {
    let mut order: Vec<u32> = (0..values.len() as u32).collect();
    (1..order.len()).for_each(|at| order.swap(at, random.below(at + 1)));
    let mut codes = vec![0; order.len()];
    order.iter().enumerate().for_each(|(code, row)| codes[*row as usize] = code);
    let first = order.first().copied();
    order.extend((0..random.below(3)).filter_map(|_| first));
    let entries = take(values, &UInt32Array::from(order), None).unwrap();
    let codes = codes.into_iter().enumerate().map(|(row, code)| values.is_valid(row).then_some(code));
    match random.below(3) {
        0 if entries.len() <= 1 << 15 => {
            let codes: Int16Array = codes.map(|code| code.map(|code| code as i16)).collect();
            Arc::new(DictionaryArray::try_new(codes, entries).unwrap())
        }
        1 if entries.len() <= 1 << 16 => {
            let codes: UInt16Array = codes.map(|code| code.map(|code| code as u16)).collect();
            Arc::new(DictionaryArray::try_new(codes, entries).unwrap())
        }
        _ => {
            let codes: UInt32Array = codes.map(|code| code.map(|code| code as u32)).collect();
            Arc::new(DictionaryArray::try_new(codes, entries).unwrap())
        }
    }
}

/// The rows, in half of cases with others between them that do not count: the same ones in another order.
fn among_others(random: &mut Random, rows: RecordBatch) -> SourceBatch {
    if random.one_in(2) || rows.num_rows() == 0 {
        return rows.into();
    }
    let most = random.below(3);
    let (mut places, mut counts) = (Vec::new(), Vec::new());
    for row in 0..rows.num_rows() {
        let others = random.below(most + 1);
        places.extend((0..others).map(|_| random.below(rows.num_rows()) as u32).chain([row as u32]));
        counts.extend(std::iter::repeat_n(false, others).chain([true]));
    }
    let batch = take_record_batch(&rows, &UInt32Array::from(places)).unwrap();
    SourceBatch { batch, selected: Some(counts.into()) }
}

impl BatchSource for Batches {
    fn columns(&self) -> &[usize] {
        &self.columns
    }

    fn next(&self, _thread: usize) -> Result<Option<SourceBatch>, Box<dyn Error + Send + Sync>> {
        Ok(self.left.lock().unwrap().pop())
    }
}

#[test]
fn any_pipeline_over_any_pages_and_batches_answers_as_the_reference_does() {
    // `THERMOCLINE_TEST_SEED=N` replays one.
    if let Ok(seed) = std::env::var("THERMOCLINE_TEST_SEED") {
        check(seed.parse().unwrap());
        return;
    }
    let row_counts: Vec<usize> = (0..900).map(check).collect();
    let many = row_counts.iter().filter(|count| **count > 20).count();
    assert!(many > 200, "only {many} pipelines have rows: the generator tests too little");
}

#[test]
fn aggregates_of_many_rows_of_one_or_few_groups_are_those_of_the_reference() {
    let numbers: Vec<ValueType> = TYPES.into_iter().filter(|value_type| *value_type != ValueType::Text).collect();
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let value_type = numbers[seed as usize % numbers.len()];
        let row_counts = [*random.pick(&[1024, 1500, 2049]), *random.pick(&[999, 3000])];
        let mut columns = [value_type, ValueType::Int64, ValueType::Int32]
            .map(|value_type| Column::random(&mut random, value_type, &row_counts));
        for column in &mut columns[1..] {
            column.nullable = false;
            let values = column.row_groups.iter_mut().flatten();
            values.for_each(|value| *value = Some(random.below(20) as i128));
        }
        let source = pages(&mut random, &columns);
        let mut builder = PipelineBuilder::new();
        let slots = [0, 1, 2].map(|number| {
            let Column { value_type, nullable, .. } = columns[number];
            builder.scan(format!("c{number}"), number, value_type, nullable).unwrap()
        });
        if !random.one_in(4) {
            let least = random.below(12) as i128;
            builder.filter(slots[2], Domain::interval(Included(Scalar::Int(least)), Unbounded)).unwrap();
        }
        let of = slots[0];
        let aggregates = [
            Aggregate::CountRows,
            Aggregate::Count(of),
            Aggregate::Sum(of),
            Aggregate::WideSum(of),
            Aggregate::Minimum(of),
            Aggregate::Maximum(of),
        ];
        let can_be = |of: &Aggregate| builder.clone().aggregate(Vec::new(), vec![*of]).is_ok();
        let aggregates: Vec<Aggregate> = aggregates.into_iter().filter(can_be).collect();
        let groups = if random.one_in(2) { Vec::new() } else { vec![slots[1]] };
        let pipeline = builder.aggregate(groups, aggregates).unwrap();
        let mut expected = interpret(&pipeline, &source, &[]).unwrap();
        expected.sort_unstable();
        for instructions in InstructionSet::available() {
            let found = rows_of(run_with(&pipeline, &source, &[], 1 + random.below(2), instructions).unwrap().0);
            assert_eq!(found, expected, "seed {seed}, {value_type:?}, {instructions:?}\n{pipeline}");
            let batches = Batches::random(&mut random, &columns);
            let (outcome, _) =
                run_by(1, instructions, |options| run_over_batches(&pipeline, &batches, &[], options)).unwrap();
            assert_eq!(rows_of(outcome), expected, "seed {seed}, {value_type:?}, batches\n{pipeline}");
        }
    }
}

#[test]
fn any_condition_keeps_the_rows_of_which_the_reference_says_that_it_is_true() {
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let types = [*random.pick(&TYPES), *random.pick(&TYPES)];
        // Two of each type, so that they can be compared.
        let columns: Vec<Column> = [types, types]
            .concat()
            .into_iter()
            .map(|value_type| {
                let mut column = Column::random(&mut random, value_type, &[1500]);
                column.nullable = true;
                column.row_groups[0].iter_mut().step_by(7).for_each(|value| *value = None);
                column
            })
            .collect();
        let source = pages(&mut random, &columns);
        let mut builder = PipelineBuilder::new();
        let mut slots = Vec::new();
        for (number, column) in columns.iter().enumerate() {
            let slot = builder.scan(format!("c{number}"), number, column.value_type, true).unwrap();
            slots.push((slot, column.value_type));
        }
        builder.condition(condition(&mut random, &columns, &slots, 3)).unwrap();
        let pipeline = builder.materialise(slots.into_iter().map(|(slot, _)| slot).collect()).unwrap();
        let mut expected = interpret(&pipeline, &source, &[]).unwrap();
        expected.sort_unstable();
        let instructions = *random.pick(&InstructionSet::available());
        let found = rows_of(run_with(&pipeline, &source, &[], 1, instructions).unwrap().0);
        assert!(found == expected, "seed {seed}: {} rows, expected {}\n{pipeline}", found.len(), expected.len());
    }
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
            let SourceColumn::Page(pinned) = whole.column(0, column).unwrap() else { panic!("an array") };
            let mut bytes = (*pinned).as_ref().to_vec();
            for _ in 0..1 + random.below(4) {
                let at = random.below(bytes.len());
                bytes[at] ^= 1 << random.below(8);
            }
            let facts = whole.facts(0, column).unwrap();
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

//! Counts of distinct values against a set of what the values look like.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};

use datafusion::arrow::array::{
    BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int64Array, RecordBatch, StringArray,
    StringViewArray, StructArray, UInt32Array,
};
use datafusion::arrow::compute::take;
use datafusion::arrow::datatypes::{Int32Type, Int64Type};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::datasource::MemTable;
use datafusion::prelude::{SessionConfig, SessionContext};
use thermocline_seeded::Random;

use super::*;
use crate::stand_ins::with_stand_ins;

/// Some sixty values of each type that is counted in one table, an eighth of them NULL.
fn columns() -> Vec<(&'static str, ArrayRef)> {
    let some = |value: i32| (value % 8 != 3).then_some(value / 2);
    let numbers = || (0..128).map(some);
    let text = |value: Option<i32>| value.map(|value| format!("{}{value}", "long ".repeat(value as usize % 5)));
    let texts = || numbers().map(text);
    let strings = StringArray::from_iter(texts());
    let dictionary = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let pairs = StructArray::try_new_with_length(
        vec![Field::new("a", DataType::Int64, true), Field::new("b", DataType::Utf8, true)].into(),
        vec![Arc::new(Int64Array::from_iter_values((0..128).map(|value| value % 3))), Arc::new(strings.clone())],
        Some(NullBuffer::from_iter((0..128).map(|value| value % 5 != 1))),
        128,
    );
    let lists = numbers().map(|value| value.map(|value| (0..value % 4).map(Some).collect::<Vec<_>>()));
    vec![
        ("utf8_view", Arc::new(StringViewArray::from_iter(texts()))),
        ("large_utf8", cast(&strings, &DataType::LargeUtf8).unwrap()),
        ("dictionary", cast(&strings, &dictionary).unwrap()),
        ("binary", Arc::new(BinaryArray::from_iter(texts()))),
        ("decimal", Arc::new(Decimal128Array::from_iter(numbers().map(|value| value.map(i128::from))))),
        ("date", Arc::new(Date32Array::from_iter(numbers()))),
        ("float", Arc::new(Float64Array::from_iter(numbers().map(|value| value.map(|value| f64::from(value) / 3.0))))),
        ("boolean", Arc::new(BooleanArray::from_iter(numbers().map(|value| value.map(|value| value % 3 == 0))))),
        ("pairs", Arc::new(pairs.unwrap())),
        ("lists", Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists))),
        ("utf8", Arc::new(strings)),
    ]
}

/// What a value looks like; `None` for NULL.
fn shown(array: &ArrayRef) -> Vec<Option<String>> {
    let formatter = ArrayFormatter::try_new(array, &FormatOptions::default()).unwrap();
    let nulls = array.logical_nulls();
    (0..array.len())
        .map(|row| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)).then(|| formatter.value(row).to_string()))
        .collect()
}

fn counts(of: &ArrayRef) -> Vec<i64> {
    of.as_primitive::<Int64Type>().values().to_vec()
}

#[test]
fn groups_count_their_values_whatever_the_order_in_which_they_come_and_go() {
    for seed in 0..40 {
        let mut random = Random::new(seed);
        for (name, values) in columns() {
            let mut direct = DistinctGroups::try_new(values.data_type()).unwrap();
            let mut merged = DistinctGroups::try_new(values.data_type()).unwrap();
            let mut expected: Vec<BTreeSet<String>> = Vec::new();
            let mut sets = |groups: &[usize], shown: &[Option<String>], counted: &[bool], total| {
                expected.resize(total, BTreeSet::new());
                for ((group, value), counted) in groups.iter().zip(shown).zip(counted) {
                    expected[*group].extend(value.clone().filter(|_| *counted));
                }
            };
            let mut total = 0;
            for _ in 0..random.below(6) {
                total += random.below(40);
                let row_count = if total == 0 { 0 } else { random.below(200) };
                let rows = UInt32Array::from_iter_values((0..row_count).map(|_| random.below(128) as u32));
                let groups: Vec<usize> = (0..row_count).map(|_| random.below(total)).collect();
                let batch = [take(&values, &rows, None).unwrap()];
                let filter = random.one_in(2).then(|| {
                    BooleanArray::from_iter((0..row_count).map(|_| *random.pick(&[Some(true), Some(false), None])))
                });
                let counted: Vec<bool> = match &filter {
                    Some(filter) => filter.iter().map(|value| value == Some(true)).collect(),
                    None => vec![true; groups.len()],
                };
                sets(&groups, &shown(&batch[0]), &counted, total);
                direct.update_batch(&batch, &groups, filter.as_ref(), total).unwrap();
                // As states of one row each, or of an accumulator of the batch.
                let (states, of_groups) = if random.one_in(2) {
                    (direct.convert_to_state(&batch, filter.as_ref()).unwrap(), groups)
                } else {
                    let mut partial = DistinctGroups::try_new(values.data_type()).unwrap();
                    partial.update_batch(&batch, &groups, filter.as_ref(), total).unwrap();
                    let first = random.below(total + 1);
                    let front = partial.state(EmitTo::First(first)).unwrap();
                    merged.merge_batch(&front, &(0..first).collect::<Vec<_>>(), total).unwrap();
                    (partial.state(EmitTo::All).unwrap(), (first..total).collect())
                };
                merged.merge_batch(&states, &of_groups, total).unwrap();
            }
            let expected: Vec<i64> = expected.iter().map(|values| values.len() as i64).collect();
            for mut accumulator in [direct, merged] {
                let first = random.below(total + 1);
                let front = counts(&accumulator.evaluate(EmitTo::First(first)).unwrap());
                let back = counts(&accumulator.evaluate(EmitTo::All).unwrap());
                assert_eq!([front, back].concat(), expected, "seed {seed}: {name}");
            }
        }
    }
}

#[test]
fn a_group_of_one_text_takes_some_tens_of_bytes() {
    let mut accumulator = DistinctGroups::try_new(&DataType::Utf8View).unwrap();
    let group_count = 100_000;
    for first in (0..group_count).step_by(8192) {
        let rows = first..group_count.min(first + 8192);
        let texts: ArrayRef =
            Arc::new(StringViewArray::from_iter_values(rows.clone().map(|row| format!("text {row}"))));
        accumulator.update_batch(&[texts], &rows.clone().collect::<Vec<_>>(), None, rows.end).unwrap();
    }
    assert!(accumulator.size() < 100 * group_count, "{} bytes", accumulator.size());
}

/// The rows of a query, planned with what stands in and without.
async fn both(session: &SessionContext, sql: &str) -> [BTreeMap<i64, Vec<i64>>; 2] {
    let state = session.state();
    let stock = state.optimize(&state.create_logical_plan(sql).await.unwrap()).unwrap();
    let ours = with_stand_ins(&stock).unwrap().unwrap();
    let mut answers = Vec::new();
    for plan in [ours, stock] {
        let plan = state.query_planner().create_physical_plan(&plan, &state).await.unwrap();
        let mut rows = BTreeMap::new();
        for batch in datafusion::physical_plan::collect(plan, session.task_ctx()).await.unwrap() {
            let numbers: Vec<Vec<i64>> = batch.columns().iter().map(counts).collect();
            rows.extend(
                (0..batch.num_rows()).map(|row| (numbers[0][row], numbers[1..].iter().map(|n| n[row]).collect())),
            );
        }
        answers.push(rows);
    }
    answers.try_into().unwrap()
}

#[tokio::test]
async fn queries_count_as_with_stock_accumulators() {
    let mut random = Random::new(7);
    let columns = columns();
    for partial_skipped in [false, true] {
        let threshold = if partial_skipped { 1 } else { 1 << 30 };
        let config = SessionConfig::new()
            .with_target_partitions(3)
            .with_batch_size(100)
            .set_usize("datafusion.execution.skip_partial_aggregation_probe_rows_threshold", threshold)
            .set_str("datafusion.execution.skip_partial_aggregation_probe_ratio_threshold", "0.0");
        let session = SessionContext::new_with_config(config);
        let mut partitions = Vec::new();
        for _ in 0..3 {
            let rows = UInt32Array::from_iter_values((0..1500).map(|_| random.below(128) as u32));
            let keys: ArrayRef = Arc::new(Int64Array::from_iter_values((0..1500).map(|_| random.below(300) as i64)));
            let taken = columns.iter().map(|(name, values)| (*name, take(values, &rows, None).unwrap(), true));
            partitions.push(vec![
                RecordBatch::try_from_iter_with_nullable(std::iter::once(("k", keys, false)).chain(taken)).unwrap(),
            ]);
        }
        let table = MemTable::try_new(partitions[0][0].schema(), partitions).unwrap();
        session.register_table("t", Arc::new(table)).unwrap();
        for (name, _) in &columns {
            // Of two of the same column DataFusion makes one.
            let other = if *name == "date" { "utf8" } else { "date" };
            for sql in [
                format!("SELECT k, count(DISTINCT {name}) a, count(DISTINCT {other}) b, count(*) FROM t GROUP BY k"),
                format!(
                    "SELECT k, count(DISTINCT {name}) FILTER (WHERE k % 3 = 1) a, count(DISTINCT {other}) b FROM t GROUP BY k"
                ),
                format!("SELECT 1, count(DISTINCT {name}) a, count(DISTINCT {other}) b, count(utf8) FROM t"),
                format!("SELECT 1, count(DISTINCT {name}) a, count(DISTINCT {other}) b FROM t WHERE k < 0"),
            ] {
                let [ours, stock] = both(&session, &sql).await;
                assert_eq!(ours, stock, "{sql}");
            }
        }
    }
}

//! Plans of DataFusion's own, with what is done to them and without. Answers of the engine: `tests/integration/floats.rs`.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Float64Array, Int32Array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::execution::SessionStateBuilder;
use datafusion::physical_plan::collect;
use datafusion::prelude::SessionContext;

use super::with_stand_ins;

const NEGATIVE_NAN: f64 = f64::from_bits(f64::NAN.to_bits() | 1 << 63);

/// Keys and floats; NULL for NULL. The key `i` has the values of `groups[i]`.
fn groups() -> Vec<Vec<Option<f64>>> {
    let (infinity, nan) = (f64::INFINITY, f64::NAN);
    vec![
        vec![Some(-infinity)],
        vec![Some(infinity)],
        vec![Some(nan), Some(1.5)],
        vec![Some(1.5), Some(nan), Some(-2.0)],
        vec![Some(nan)],
        vec![None, None],
        vec![None, Some(-infinity), Some(3.0)],
        vec![Some(NEGATIVE_NAN), Some(-infinity)],
        vec![Some(0.0), Some(-0.0)],
    ]
}

/// A session whose table `t` has a key `k` and the values `x` of a type, and as `y` those behind them.
fn session_of(data_type: &DataType) -> SessionContext {
    let rows: Vec<(i32, Option<f64>)> =
        (0..).zip(groups()).flat_map(|(key, values)| values.into_iter().map(move |value| (key, value))).collect();
    let keys = Int32Array::from_iter_values(rows.iter().map(|(key, _)| *key));
    let values = Float64Array::from_iter(rows.iter().map(|(_, value)| *value));
    let others = Float64Array::from_iter(rows.iter().cycle().skip(1).take(rows.len()).map(|(_, value)| *value));
    let of_type = |values: Float64Array| cast(&values, data_type).unwrap();
    let columns: [(&str, ArrayRef, bool); 3] =
        [("k", Arc::new(keys), false), ("x", of_type(values), true), ("y", of_type(others), true)];
    let session = SessionContext::new();
    session.register_batch("t", RecordBatch::try_from_iter_with_nullable(columns).unwrap()).unwrap();
    session
}

/// The rows of a query, planned as the engine does, each as its values joined by `|`.
async fn rows(session: &SessionContext, sql: &str) -> Vec<String> {
    let state = session.state();
    let plan = state.optimize(&state.create_logical_plan(sql).await.unwrap()).unwrap();
    let plan = with_stand_ins(&plan).unwrap().unwrap_or(plan);
    let plan = state.query_planner().create_physical_plan(&plan, &state).await.unwrap();
    let batches = collect(plan, session.task_ctx()).await.unwrap();
    let options = FormatOptions::default().with_null("NULL");
    let mut rows = Vec::new();
    for batch in batches {
        // Floats are shown alike, whatever their width.
        let wide = |column: &ArrayRef| match column.data_type().is_floating() {
            true => cast(column, &DataType::Float64).unwrap(),
            false => Arc::clone(column),
        };
        let columns: Vec<ArrayRef> = batch.columns().iter().map(wide).collect();
        let columns: Vec<_> = columns.iter().map(|column| ArrayFormatter::try_new(column, &options).unwrap()).collect();
        rows.extend(
            (0..batch.num_rows())
                .map(|row| columns.iter().map(|column| column.value(row).to_string()).collect::<Vec<_>>().join("|")),
        );
    }
    rows
}

#[tokio::test]
async fn extremes_of_groups_are_those_of_the_order_of_all_values() {
    for data_type in [DataType::Float16, DataType::Float32, DataType::Float64] {
        let session = session_of(&data_type);
        let sql = "SELECT k, min(x), max(x), max(x) FILTER (WHERE x > 0), min(DISTINCT x) FROM t GROUP BY k ORDER BY k";
        let expected: Vec<String> = (0..)
            .zip(groups())
            .map(|(key, values)| {
                let mut values: Vec<f64> = values.into_iter().flatten().collect();
                values.sort_by(f64::total_cmp);
                let shown = |value: Option<&f64>| {
                    let value = Float64Array::from_iter([value.copied()]);
                    let options = FormatOptions::default().with_null("NULL");
                    ArrayFormatter::try_new(&value, &options).unwrap().value(0).to_string()
                };
                let (least, largest) = (shown(values.first()), shown(values.last()));
                // NaN with a sign comes before all others.
                let positive = values.iter().rfind(|value| value.total_cmp(&0.0).is_gt());
                format!("{key}|{least}|{largest}|{}|{least}", shown(positive))
            })
            .collect();
        assert_eq!(rows(&session, sql).await, expected, "{data_type}");
    }
}

#[tokio::test]
async fn cases_take_both_zeros_for_one() {
    for data_type in [DataType::Float16, DataType::Float32, DataType::Float64] {
        let session = session_of(&data_type);
        let zero = format!("arrow_cast(0.0, '{data_type}')");
        let minus = format!("arrow_cast(-0.0, '{data_type}')");
        let ten = format!("arrow_cast(10.0, '{data_type}')");
        let count = |condition: String| format!("SELECT count(*) FROM t WHERE {condition}");
        for (condition, expected) in [
            (format!("CASE x WHEN {zero} THEN 1 WHEN {ten} THEN 2 END = 1"), "2"),
            (format!("CASE x WHEN {minus} THEN 1 ELSE 2 END = 1"), "2"),
            (format!("CASE {minus} WHEN x THEN 1 WHEN y THEN 2 END = 1"), "2"),
        ] {
            assert_eq!(rows(&session, &count(condition.clone())).await, [expected], "{condition}");
        }
        // Names of columns stay.
        let sql =
            format!("SELECT b, count(*) FROM (SELECT CASE x WHEN {zero} THEN 1 END b FROM t) GROUP BY b ORDER BY b");
        assert_eq!(rows(&session, &sql).await, ["1|2", "NULL|15"]);
    }
}

#[tokio::test]
async fn counts_and_windows_take_both_zeros_for_one() {
    for data_type in [DataType::Float16, DataType::Float32, DataType::Float64] {
        let session = session_of(&data_type);
        for (sql, expected) in [
            ("SELECT count(DISTINCT x), count(DISTINCT k) FROM t WHERE k = 8", "1|1"),
            ("SELECT count(DISTINCT x), count(DISTINCT k) FROM t WHERE k = 8 GROUP BY y > 7", "1|1"),
            ("SELECT max(c) FROM (SELECT count(*) OVER (PARTITION BY x) c FROM t WHERE x = 0)", "2"),
            ("SELECT max(c) FROM (SELECT row_number() OVER (PARTITION BY k, x) c FROM t WHERE x = 0)", "2"),
            ("SELECT max(c) FROM (SELECT rank() OVER (ORDER BY x) c FROM t WHERE x = 0)", "1"),
            ("SELECT min(c) FROM (SELECT sum(1) OVER (ORDER BY x RANGE 1 PRECEDING) c FROM t WHERE x = 0)", "2"),
        ] {
            assert!(rows(&session, sql).await.iter().all(|row| row == expected), "{data_type}: {sql}");
        }
    }
}

#[tokio::test]
async fn nans_that_are_computed_are_one_value_the_largest() {
    for data_type in [DataType::Float16, DataType::Float32, DataType::Float64] {
        let session = session_of(&data_type);
        // Rows of both zeros, of 1.5 twice, of infinities: `x - x` and `x / x` have no number where `x` has none.
        for (sql, expected) in [
            ("SELECT count(*) FROM t WHERE k = 8 AND x / x > 1", "2"),
            ("SELECT count(*) FROM t WHERE k < 2 AND x - x > 1", "2"),
            ("SELECT min(x - x), max(x - x) FROM t WHERE k < 4", "0.0|NaN"),
            ("SELECT min(-(x - x)), min((x - x) * 2) FROM t WHERE k < 4", "-0.0|0.0"),
            ("SELECT count(DISTINCT x - x), count(DISTINCT -(x - x)) FROM t WHERE k < 5 AND k <> 3", "2|2"),
            ("SELECT count(*) FROM (SELECT x / x FROM t WHERE k IN (1, 2, 4, 8) GROUP BY 1)", "2"),
            ("SELECT first_value(q) FROM (SELECT x - x AS q FROM t WHERE k < 4 ORDER BY 1 DESC LIMIT 1)", "NaN"),
            ("SELECT sum(CASE WHEN x / x > 1 THEN 1 ELSE 0 END + 1) FROM t WHERE k = 8", "4"),
            ("SELECT count(*) FROM t a JOIN t b ON a.x - a.x = -b.x WHERE a.k = 0 AND b.k = 4", "1"),
        ] {
            assert_eq!(rows(&session, sql).await, [expected], "{data_type}: {sql}");
        }
        // Where the numbers are 64-bit ones, whatever they come from.
        for (sql, expected) in [
            (
                "SELECT min(acos(x)), max(ln(x)) FROM t WHERE k IN (2, 8) AND x < 2",
                "1.5707963267948966|0.4054651081081644",
            ),
            ("SELECT min(CAST(s AS DOUBLE)) FROM (VALUES ('-nan'), ('7')) v(s)", "7.0"),
        ] {
            if data_type == DataType::Float64 {
                assert_eq!(rows(&session, sql).await, [expected], "{sql}");
            }
        }
    }
}

#[tokio::test]
async fn zeros_are_peers_of_each_other_in_an_order() {
    let session = session_of(&DataType::Float64);
    let of = |keys: &str| format!("SELECT z FROM (VALUES (0.0, 2), (-0.0, 3), (0.0, 1)) v(x, z) ORDER BY {keys}");
    assert_eq!(rows(&session, &of("x, z")).await, ["1", "2", "3"]);
    assert_eq!(rows(&session, &of("x DESC, z DESC LIMIT 2")).await, ["3", "2"]);
    let of = |what: &str| format!("SELECT {what} FROM (VALUES (1, 0.0, 2), (1, -0.0, 3), (1, 0.0, 1)) v(k, x, z)");
    assert_eq!(rows(&session, &of("array_agg(z ORDER BY x, z)")).await, ["[1, 2, 3]"]);
    assert_eq!(rows(&session, &format!("{} ORDER BY k, x, z", of("DISTINCT ON (k) z"))).await, ["1"]);
}

#[tokio::test]
async fn a_long_sum_of_floats_is_given_one_nan_once() {
    let session = session_of(&DataType::Float64);
    let terms: Vec<String> = (0..300).map(|at| format!("x * {at}.5")).collect();
    let sql = format!("SELECT k FROM t WHERE {} > 1 AND k = 8", terms.join(" + "));
    let state = session.state();
    let plan = state.optimize(&state.create_logical_plan(&sql).await.unwrap()).unwrap();
    let plan = with_stand_ins(&plan).unwrap().unwrap();
    // Once, above all of it.
    assert_eq!(plan.display_indent().to_string().matches("one_nan(").count(), 1);
}

#[tokio::test]
async fn computed_floats_guard_what_can_fail() {
    let session = session_of(&DataType::Float64);
    let mut rules = session.state().physical_optimizers().to_vec();
    crate::physical_rules::install(&mut rules, &session.runtime_env().memory_pool);
    let state = SessionStateBuilder::new_from_existing(session.state()).with_physical_optimizer_rules(rules).build();
    let session = SessionContext::new_with_state(state);
    // Only rows of the key 0, whose `x` is little, have no quotient.
    let sql = "SELECT k FROM t WHERE 1000 / k > 130 AND x * 2.0 > 1.5 ORDER BY k";
    assert_eq!(rows(&session, sql).await, ["1", "2", "2", "3", "3", "4", "6", "7"]);
}

#[tokio::test]
async fn other_plans_stay_as_they_are() {
    let session = session_of(&DataType::Float64);
    for sql in [
        "SELECT k, sum(x), max(k) FROM t GROUP BY k",
        "SELECT k FROM t WHERE x IN (1, 2, 3, 4, 5) OR k IN (0, 1, 2, 3, 4)",
        "SELECT CASE x WHEN 1 THEN 2 END, CASE WHEN x = 0 THEN 1 END FROM t",
        "SELECT k FROM t WHERE x IN (0.0, 1, 2, 3, 4)",
        "SELECT row_number() OVER (PARTITION BY k) FROM t",
        "SELECT k, count(x), count(*) FROM t GROUP BY k",
        "SELECT k + 1, abs(x), CAST(k AS DOUBLE) FROM t WHERE k * 2 > 7 ORDER BY x",
    ] {
        let state = session.state();
        let plan = state.optimize(&state.create_logical_plan(sql).await.unwrap()).unwrap();
        assert!(with_stand_ins(&plan).unwrap().is_none(), "{sql}");
    }
}

//! Plans with the rule around the stock simplifier, against plans without. Answers: `tests/integration/membership.rs`.
#![allow(clippy::unwrap_used)]

use datafusion::arrow::array::{ArrayRef, AsArray, Float64Array, Int64Array, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use datafusion::common::Column;
use datafusion::execution::SessionStateBuilder;
use datafusion::logical_expr::{col, lit, not};
use datafusion::optimizer::Optimizer;
use datafusion::prelude::SessionContext;

use super::*;
use datafusion::common::tree_node::TreeNodeRecursion;

fn context(rules: Vec<Arc<dyn OptimizerRule + Send + Sync>>) -> SessionContext {
    let state = SessionStateBuilder::new().with_default_features().with_optimizer_rules(rules).build();
    let context = SessionContext::new_with_state(state);
    let number = |name| Field::new(name, DataType::Int64, true);
    let text = Field::new("s", DataType::Utf8, true);
    let (small, x) = (Field::new("small", DataType::Int32, true), Field::new("x", DataType::Float64, true));
    let schema = Schema::new(vec![number("k"), number("j"), small, text, x]);
    context.register_batch("t", RecordBatch::new_empty(Arc::new(schema))).unwrap();
    context
}

fn stock() -> SessionContext {
    context(Optimizer::new().rules)
}

fn ours() -> SessionContext {
    let mut rules = Optimizer::new().rules;
    install(&mut rules);
    context(rules)
}

async fn optimized(context: &SessionContext, sql: &str) -> LogicalPlan {
    context.sql(sql).await.unwrap().into_optimized_plan().unwrap()
}

fn holds_calls(plan: &LogicalPlan) -> bool {
    plan.exists(has_calls).unwrap()
}

#[tokio::test]
async fn lists_are_not_intersected_or_subtracted() {
    for (condition, kept) in [
        ("k NOT IN (1, 2, 3, 4) OR k NOT IN (5, 6, 7, 8)", 2),
        ("NOT (k IN (1, 2, 3, 4) AND k IN (5, 6, 7, 8))", 2),
        ("NOT (k IN (1, 2, 3, 4) AND k NOT IN (1, 2, 3, 4, 5))", 2),
        ("NOT (k = 1 OR k = 2 OR k = 3 OR k = 4) OR NOT (k = 5 OR k = 6 OR k = 7 OR k = 8)", 2),
        ("k IN (j, 1, 2, 3) AND k IN (j + 1, 1, 2, 3)", 2),
        ("CASE WHEN k NOT IN (1, 2, 3, 4) OR k NOT IN (5, 6, 7, 8) THEN j END = 1", 2),
        // Different expressions until the cast is gone.
        ("CAST(small AS BIGINT) NOT IN (1, 2, 3, 4) OR small NOT IN (5, 6, 7, 8)", 2),
        // Not lists yet.
        ("regexp_like(s, '^(xa|yb|zc|wd)$') AND s IN ('e', 'f', 'g', 'h')", 2),
        ("NOT (k IN (5, 6, 7, 8) AND array_has([1, 2, 3, 4], k))", 2),
        // Columns only until they are folded.
        (
            "(k = coalesce(1, j) OR k = coalesce(2, j) OR k = coalesce(3, j) OR k = coalesce(4, j))
                AND (k = coalesce(5, j) OR k = coalesce(6, j) OR k = coalesce(7, j) OR k = coalesce(8, j))",
            2,
        ),
        ("CASE WHEN true THEN k ELSE j END NOT IN (1, 2, 3, 4) OR k NOT IN (5, 6, 7, 8)", 2),
        // Lists of columns.
        ("1 IN (k, j) AND 1 IN (k + 5, j + 5)", 2),
        ("array_has([k, j], 1) AND NOT array_has([k, k + j], 1)", 2),
    ] {
        let plan = optimized(&ours(), &format!("SELECT k FROM t WHERE ({condition}) IS NOT TRUE")).await;
        let text = plan.display_indent().to_string();
        assert_eq!(text.matches(" IN (").count(), kept, "{condition}\n{text}");
        assert!(!holds_calls(&plan), "{text}");
    }
}

#[tokio::test]
async fn nulls_stay_nulls() {
    let context = ours();
    for condition in [
        "(k = coalesce(1, j) OR k = coalesce(2, j)) AND (k = coalesce(8, j) OR k = coalesce(9, j))",
        "(s LIKE coalesce('a', s) OR s LIKE coalesce('b', s)) AND s IN ('c', 'd')",
        "(k BETWEEN 1 AND 2 - 1 OR k BETWEEN 2 AND 3 - 1) AND (k BETWEEN 8 AND 9 - 1 OR k BETWEEN 9 AND 10 - 1)",
        "(k >= 1 AND k <= 1 OR k >= 2 AND k <= 2) AND (k >= 8 AND k <= 8 OR k >= 9 AND k <= 9)",
        "CASE WHEN true THEN k ELSE j END NOT IN (1, 2, 3, 4) OR k NOT IN (5, 6, 7, 8)",
    ] {
        let from = "FROM (VALUES (CAST(NULL AS BIGINT), 5, CAST(NULL AS VARCHAR))) t(k, j, s)";
        let sql = format!("SELECT j {from} WHERE ({condition}) IS NULL");
        assert_eq!(context.sql(&sql).await.unwrap().count().await.unwrap(), 1, "{condition}");
    }
}

#[tokio::test]
async fn what_is_evaluated_anew_is_never_the_same() {
    let (one, two) = ("CAST(random() * 10 AS INT) ? (1, 2, 3, 4)", "CAST(random() * 10 AS INT) ? (5, 6, 7, 8)");
    for (condition, kept) in [
        (format!("{one} AND {two}").replace('?', "IN"), 2),
        (format!("{one} OR {two}").replace('?', "IN"), 2),
        (format!("{one} AND {two}").replace('?', "NOT IN"), 2),
        (format!("{one} OR {two}").replace('?', "NOT IN"), 2),
    ] {
        let plan = optimized(&ours(), &format!("SELECT k, ({condition}) IS TRUE FROM t")).await;
        let text = plan.display_indent().to_string();
        assert_eq!(text.matches(" IN (").count(), kept, "{condition}\n{text}");
    }
}

#[tokio::test]
async fn lists_are_still_united_and_common_parts_found() {
    let cases = [
        ("(k = 1 OR k = 2 OR k = 3 OR k = 4) AND k <> 9", "IN ([Int64(1), Int64(2), Int64(3), Int64(4)])", 1),
        ("NOT (k <> 1 AND k NOT IN (2, 3, 4)) AND k <> 9", "IN ([Int64(1), Int64(2), Int64(3), Int64(4)])", 1),
        ("(k IN (1, 2, 3, 4) AND j = 1) OR (k IN (1, 2, 3, 4) AND j = 2)", "IN ([Int64(1)", 1),
        ("small NOT IN (1, 2, 3, 4) OR small NOT IN (5, 6, 7, 8)", "t.small NOT IN ([Int32(", 2),
    ];
    for (condition, part, count) in cases {
        let plan = optimized(&ours(), &format!("SELECT k FROM t WHERE {condition}")).await;
        let text = plan.display_indent().to_string();
        let filters: String = text.lines().filter(|line| line.contains("Filter: ")).collect();
        assert_eq!(filters.matches(part).count(), count, "{condition}\n{text}");
    }
}

#[tokio::test]
async fn a_plan_without_tests_to_keep_apart_is_the_stock_one() {
    for sql in [
        "SELECT k FROM t WHERE k = 1 OR k = 2 OR k IN (3, 4, 5)",
        "SELECT k FROM t WHERE k <> 1 AND k NOT IN (3, 4, 5) AND j = 1 AND s LIKE 'a%'",
        "SELECT k, sum(j + 1), sum(j + 2) FROM t WHERE k BETWEEN 1 AND 5 AND k IN (3, 4, 5, 6) GROUP BY k",
        "SELECT a.k FROM t a JOIN t b ON a.k = b.k AND a.j = 1 WHERE b.j IN (1, 2) AND b.s = a.s",
        "SELECT k FROM t WHERE k >= 1 AND k <= 5 AND j >= 3 AND j <= 3",
    ] {
        let (ours, stock) = (optimized(&ours(), sql).await, optimized(&stock(), sql).await);
        assert_eq!(ours.display_indent().to_string(), stock.display_indent().to_string(), "{sql}");
    }
}

#[tokio::test]
async fn every_kind_of_node_keeps_its_columns_and_loses_the_calls() {
    for (column, test) in
        [("k", "(k NOT IN (1, 2) OR k NOT IN (3, 4))"), ("x", "(x IN (0, 1, 2, 3))"), ("k", "(TRY_CAST(k AS INT) = 1)")]
    {
        keeps_its_columns(column, test).await;
    }
}

async fn keeps_its_columns(column: &str, test: &str) {
    let of = |other: &str| test.replace(&format!("{column} "), &format!("{other} "));
    for sql in [
        format!("SELECT {test}, NOT {test} AS n, CASE WHEN {test} THEN 1 END FROM t"),
        format!("SELECT {test}, count(*) FROM t GROUP BY {test}"),
        format!("SELECT {test}, j, count(*) FROM t GROUP BY GROUPING SETS (({test}, j), (j), ())"),
        format!("SELECT sum(CASE WHEN {test} THEN j END + 1), sum(CASE WHEN {test} THEN j END + 2) FROM t"),
        format!("SELECT count(*) FILTER (WHERE {test}), max(CASE WHEN {test} THEN 1 ELSE 0 END) + 1 FROM t GROUP BY j"),
        format!("SELECT row_number() OVER (PARTITION BY {test} ORDER BY {test}) FROM t"),
        format!("SELECT k FROM t ORDER BY {test}, k"),
        format!("SELECT DISTINCT ON ({test}) k, j FROM t ORDER BY {test}, k"),
        format!("SELECT a.k FROM t a LEFT JOIN t b ON a.j = b.j AND {}", of(&format!("b.{column}"))),
        format!("SELECT k FROM t WHERE j IN (SELECT j FROM t WHERE {test}) UNION ALL SELECT j FROM t WHERE NOT {test}"),
        format!("SELECT j FROM t GROUP BY j HAVING {}", of(&format!("sum({column})"))),
    ] {
        let unoptimized = ours().sql(&sql).await.unwrap().into_unoptimized_plan();
        let plan = optimized(&ours(), &sql).await;
        assert!(!holds_calls(&plan), "{sql}\n{}", plan.display_indent());
        assert_eq!(plan.schema().fields(), unoptimized.schema().fields(), "{sql}");
    }
}

fn reads(names: &[&str]) -> units::Reads {
    names.iter().map(|name| Column::from_name(*name)).collect()
}

#[test]
fn only_what_is_tested_in_two_units_is_separable() {
    let (one, two) = (|| col("k").eq(lit(1)), || col("k").in_list(vec![lit(2), lit(3)], false));
    let (k, none) = (|| reads(&["k"]), || reads(&[]));
    let bound = |value| col("k").gt(lit(value));
    for (expr, expected) in [
        (one().or(two()), none()),
        (one().and(two()), k()),
        (not(one()).and(not(two())), none()),
        (not(one()).or(not(two())), k()),
        (not(not(one()).and(not(two()))).or(two()), none()),
        (one().or(col("j").eq(lit(1))), none()),
        (one().or(col("j").eq(lit(1))).or(two()), k()),
        (one().and(col("j").eq(lit(1))), none()),
        // In a test's operand.
        ((col("k") + lit(0)).in_list(vec![lit(1)], false).and(one()), k()),
        (one().eq(lit(true)), k()),
        // Constants are folded, columns are compared row by row.
        (lit(1).eq(lit(2)).and(lit(1).in_list(vec![lit(2)], true)), none()),
        (col("k").eq(col("j")).and(one()), none()),
        (col("k").eq(col("j") + lit(1)).and(one()), k()),
        // It takes two bounds to make a test.
        (bound(1).and(bound(2)).and(bound(3)), none()),
        (bound(1).and(bound(2)).and(bound(3)).and(not(bound(4))), k()),
        (bound(1).and(one()), none()),
        (bound(1).and(bound(2)).and(one()), k()),
    ] {
        assert_eq!(units::separable(&expr).unwrap(), expected, "{expr}");
    }
}

#[test]
fn separating_and_rejoining_changes_nothing() {
    let expr = col("k").eq(lit(1)).and(not(col("k").eq(lit(2)))).or(col("k").in_list(vec![col("j")], true).is_null());
    let separated = units::separate(expr.clone()).unwrap().data;
    let mut calls = 0;
    separated
        .apply(|nested| {
            calls += usize::from(apart::is_call(nested));
            Ok(TreeNodeRecursion::Continue)
        })
        .unwrap();
    assert_eq!(calls, 3, "{separated}");
    assert_eq!(apart::rejoin(separated).unwrap().data, expr);
}

/// The conditions as they are evaluated, one column each.
async fn answers(context: &SessionContext, conditions: &[&str]) -> Vec<String> {
    let columns: Vec<String> =
        conditions.iter().enumerate().map(|(index, condition)| format!("({condition}) AS c{index}")).collect();
    let sql = format!("SELECT {} FROM f ORDER BY id", columns.join(", "));
    let batches = context.sql(&sql).await.unwrap().collect().await.unwrap();
    let shown = |value: Option<bool>| value.map_or('-', |value| if value { 't' } else { 'f' });
    (0..conditions.len())
        .map(|index| batches.iter().flat_map(|batch| batch.column(index).as_boolean().iter().map(shown)).collect())
        .collect()
}

#[tokio::test]
async fn both_zeros_are_in_a_list_that_has_one() {
    let context = ours();
    let f = Float64Array::from(vec![Some(0.0), Some(-0.0), Some(1.0), Some(5.0), None]);
    let g = Float64Array::from(vec![Some(-0.0), Some(0.0), Some(-0.0), Some(5.0), Some(0.0)]);
    let columns: [(&str, ArrayRef); 3] =
        [("id", Arc::new(Int64Array::from_iter_values(0..5))), ("f", Arc::new(f)), ("g", Arc::new(g))];
    context.register_batch("f", RecordBatch::try_from_iter(columns).unwrap()).unwrap();
    let cases = [
        ("f IN (0, 1, 2, 3)", "tttf-"),
        ("f IN (-0.0, 1, 2, 3)", "tttf-"),
        ("f NOT IN (0, 1, 2, 3)", "ffft-"),
        ("NOT (f IN (0, 1, 2, 3))", "ffft-"),
        ("f IN (0, 1, 2, 3, NULL)", "ttt--"),
        ("f NOT IN (0, 1, 2, 3, NULL)", "fff--"),
        ("(f IN (0, 1, 2, 3)) IS NULL", "fffft"),
        ("f = 0 OR f = 1 OR f = 2 OR f = 3", "tttf-"),
        ("f NOT IN (0) AND f NOT IN (1, 2, 3)", "ffft-"),
        ("f NOT IN (0, 2, 3, 4) AND f NOT IN (1, 6, 7, 8)", "ffft-"),
        ("f IN (0, 1, 2, 3) AND f IN (-0.0, 5, 6, 7)", "ttff-"),
        ("f + 0 * f IN (0, 1, 2, 3)", "tttf-"),
        ("f * -1 IN (0, 1, 2, 3)", "ttff-"),
        ("arrow_cast(f, 'Float32') IN (0, 1, 2, 3)", "tttf-"),
        ("f IN (g, 2, 3, 4)", "ttft-"),
        ("f IN (g, g, g, g)", "ttft-"),
        ("f NOT IN (g, 2, 3, 4)", "fftf-"),
        ("-0.0 IN (0, 1, 2, 3)", "ttttt"),
        ("f = 0 AND f = -0.0", "ttff-"),
    ];
    let found = answers(&context, &cases.map(|(condition, _)| condition)).await;
    for ((condition, expected), found) in cases.iter().zip(&found) {
        assert_eq!(found, expected, "{condition}");
        for (filter, value) in [(condition.to_string(), 't'), (format!("NOT ({condition})"), 'f')] {
            let sql = format!("SELECT id FROM f WHERE {filter}");
            let count = context.sql(&sql).await.unwrap().count().await.unwrap();
            assert_eq!(count, expected.matches(value).count(), "{sql}");
        }
    }
    let count = context.sql("SELECT id FROM f WHERE f >= 0 AND f > -0.0").await.unwrap().count().await.unwrap();
    assert_eq!(count, 2);
}

#[tokio::test]
async fn only_zeros_leave_a_list() {
    let cases = [
        ("x IN (0, 1, 2, 3, 4)", "t.x = Float64(0) OR t.x IN ([Float64(1), Float64(2), Float64(3), Float64(4)])"),
        (
            "x NOT IN (5, 6, 7, 8, 0)",
            "t.x != Float64(0) AND t.x NOT IN ([Float64(5), Float64(6), Float64(7), Float64(8)])",
        ),
        ("x IN (1, 2, 3, 4)", "t.x IN ([Float64(1), Float64(2), Float64(3), Float64(4)])"),
        ("k IN (0, 1, 2, 3)", "t.k IN ([Int64(0), Int64(1), Int64(2), Int64(3)])"),
        ("s IN (s || '0', 'a', 'b', 'c')", "t.s IN ([t.s || Utf8(\"0\"), Utf8(\"a\"), Utf8(\"b\"), Utf8(\"c\")])"),
        ("random() IN (0, 1, 2, 3)", "random() IN ([Float64(0), Float64(1), Float64(2), Float64(3)])"),
    ];
    for (condition, expected) in cases {
        let text = optimized(&ours(), &format!("SELECT k FROM t WHERE {condition}")).await.display_indent().to_string();
        assert!(text.contains(&format!("Filter: {expected}\n")), "{condition}\n{text}");
    }
}

#[tokio::test]
async fn times_are_unwrapped_with_what_is_left_of_a_constant() {
    let context = ours();
    let of = |unit| Field::new("ts", DataType::Timestamp(unit, None), true);
    let batch = RecordBatch::new_empty(Arc::new(Schema::new(vec![of(TimeUnit::Millisecond)])));
    context.register_batch("m", batch).unwrap();
    for (condition, expected) in [
        ("ts >= TIMESTAMP '1970-01-01 00:00:00.0015'", "m.ts > TimestampMillisecond(1, None)"),
        ("ts > TIMESTAMP '1970-01-01 00:00:00.0015'", "m.ts > TimestampMillisecond(1, None)"),
        ("ts <= TIMESTAMP '1969-12-31 23:59:59.9985'", "m.ts <= TimestampMillisecond(-2, None)"),
        ("TIMESTAMP '1970-01-01 00:00:00.001' > ts", "m.ts < TimestampMillisecond(1, None)"),
        ("ts = TIMESTAMP '1970-01-01' + INTERVAL '1 millisecond'", "m.ts = TimestampMillisecond(1, None)"),
    ] {
        let text =
            optimized(&context, &format!("SELECT ts FROM m WHERE {condition}")).await.display_indent().to_string();
        assert!(text.contains(expected), "{condition}\n{text}");
        assert!(!text.contains("apart"), "{text}");
    }
}

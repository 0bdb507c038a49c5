//! Answers of DataFusion's own session with the rule.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use datafusion::arrow::array::{Decimal128Array, Float64Array, RecordBatch};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::SessionContext;

use super::install;

/// A table of floats `d` and decimals `n` with two digits behind the point.
fn session() -> SessionContext {
    let state = SessionStateBuilder::new().with_default_features().build();
    let mut rules = state.analyzer().rules.clone();
    install(&mut rules);
    let state = SessionStateBuilder::new_from_existing(state).with_analyzer_rules(rules).build();
    let session = SessionContext::new_with_state(state);
    let decimals = Decimal128Array::from(vec![Some(0), Some(500), Some(25), None]).with_precision_and_scale(10, 2);
    let batch = RecordBatch::try_from_iter([
        ("d", Arc::new(Float64Array::from(vec![Some(1e-20), Some(1e30), Some(0.25), Some(f64::INFINITY)])) as _),
        ("n", Arc::new(decimals.unwrap()) as _),
    ]);
    session.register_batch("t", batch.unwrap()).unwrap();
    session
}

async fn rows(session: &SessionContext, sql: &str) -> Vec<String> {
    let mut rows = Vec::new();
    let answer = session.sql(sql).await.unwrap().collect().await;
    assert!(answer.is_ok(), "{sql}: {answer:?}");
    for batch in answer.unwrap() {
        let options = FormatOptions::default().with_null("NULL");
        let columns: Vec<_> =
            batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options).unwrap()).collect();
        rows.extend(
            (0..batch.num_rows())
                .map(|row| columns.iter().map(|column| column.value(row).to_string()).collect::<Vec<_>>().join("|")),
        );
    }
    rows
}

#[tokio::test]
async fn floats_and_decimals_are_compared_as_floats() {
    let session = session();
    for (condition, expected) in [
        ("d > n", "2"),
        ("n < d", "2"),
        ("d = n", "1"),
        ("d IS DISTINCT FROM n", "3"),
        ("d * 2 > n + 1", "1"),
        ("d BETWEEN n AND 1e31", "3"),
        ("d NOT BETWEEN n AND n + 1", "1"),
        ("d IN (n, 7)", "1"),
        ("n IN (d, 5)", "2"),
        ("d IN (SELECT n FROM t)", "1"),
        ("n IN (SELECT d FROM t)", "1"),
        ("CASE d WHEN n THEN 'same' END = 'same'", "1"),
        ("nullif(d, n) IS NULL", "1"),
        ("n < 1e25", "3"),
        ("n > 1e-25", "2"),
        ("n = 0.25", "1"),
        ("n IN (0.25, 5.0)", "2"),
        // As a float that is less than 0.25.
        ("n = 0.35 - 0.1", "1"),
        ("n <= 0.35 - 0.1", "2"),
        ("n BETWEEN 0.35 - 0.1 AND 2.0 * (0.35 - 0.1)", "1"),
        ("n > 1e-9 * 1e-9", "2"),
        ("n < 1e9 * 1e9", "3"),
        ("EXISTS (SELECT 1 FROM t u WHERE u.d = t.n)", "1"),
    ] {
        let sql = format!("SELECT count(*) FROM t WHERE {condition}");
        assert_eq!(rows(&session, &sql).await, [expected], "{condition}");
    }
    assert_eq!(rows(&session, "SELECT count(*) FROM t a JOIN t b ON a.d = b.n").await, ["1"]);
    let of_both =
        "SELECT count(*) FROM (SELECT coalesce(n, d) AS x FROM t) o WHERE EXISTS (SELECT 1 FROM t i WHERE i.n";
    assert_eq!(rows(&session, &format!("{of_both} = o.x)")).await, ["3"]);
    assert_eq!(rows(&session, &format!("{of_both} > o.x)")).await, ["2"]);
    assert_eq!(rows(&session, "SELECT count(*) FROM t a JOIN t b ON a.n = b.d AND a.d > b.n").await, ["0"]);
    assert_eq!(rows(&session, "SELECT count(*) FROM t a LEFT JOIN t b ON a.d > b.n").await, ["8"]);
    assert_eq!(rows(&session, "SELECT d FROM t INTERSECT SELECT n FROM t").await, ["0.25"]);
}

#[tokio::test]
async fn decimals_equal_what_is_written_of_them() {
    let session = session();
    // Of three to fifteen digits.
    let cents: Vec<i128> = (0..200).map(|at| (at * 98_765_432_109_877 + 99) % 10i128.pow(3 + at as u32 % 13)).collect();
    let prices = Decimal128Array::from_iter_values(cents.clone()).with_precision_and_scale(18, 2).unwrap();
    session.register_batch("p", RecordBatch::try_from_iter([("n", Arc::new(prices) as _)]).unwrap()).unwrap();
    let count = |condition: String| format!("SELECT count(*) FROM p WHERE {condition}");
    for cent in cents {
        let price = format!("{}.{:02}", cent / 100, cent % 100);
        let expected = rows(&session, &count(format!("n = CAST('{price}' AS DECIMAL(18, 2))"))).await;
        for condition in [
            format!("n = {price}"),
            format!("n BETWEEN {price} AND {price} + 0.00"),
            format!("n IN ({price}, 0.999)"),
            format!("n + 1 = {price} + 1.0"),
            format!("n = -(0.01 - {price} - 0.01)"),
        ] {
            assert_eq!(rows(&session, &count(condition.clone())).await, expected, "{condition}");
        }
    }
}

#[tokio::test]
async fn columns_of_floats_and_decimals_are_floats() {
    let session = session();
    for (sql, expected) in [
        ("SELECT coalesce(n, d) FROM t ORDER BY 1", vec!["0.0", "0.25", "5.0", "inf"]),
        ("SELECT greatest(n, d) FROM t ORDER BY 1", vec!["1e-20", "0.25", "1e30", "inf"]),
        ("SELECT CASE WHEN n > 0 THEN n ELSE d END FROM t ORDER BY 1", vec!["1e-20", "0.25", "5.0", "inf"]),
        (
            "SELECT n AS x FROM t WHERE n = 5 UNION ALL SELECT d FROM t ORDER BY x",
            vec!["1e-20", "0.25", "5.0", "1e30", "inf"],
        ),
        ("SELECT d FROM t WHERE d > 1 UNION SELECT n FROM t WHERE n = 5 ORDER BY d", vec!["5.0", "1e30", "inf"]),
        (
            "SELECT x FROM (SELECT 1 AS x UNION ALL SELECT d FROM t UNION ALL SELECT n FROM t) WHERE x > (SELECT max(n) FROM t) ORDER BY x",
            vec!["1e30", "inf"],
        ),
        // What is written in the query becomes a decimal beside them.
        ("SELECT coalesce(n, 0.5) FROM t WHERE n IS NULL", vec!["0.50"]),
        ("SELECT greatest(n, 0.125) FROM t WHERE n < 5 ORDER BY 1", vec!["0.125", "0.250"]),
        ("SELECT nullif(n, 0.25) FROM t WHERE n > 0 ORDER BY 1", vec!["5.00", "NULL"]),
        ("SELECT make_array(n, 99999.99) FROM t WHERE n = 5", vec!["[5.00, 99999.99]"]),
        ("SELECT CASE WHEN n > 0 THEN n ELSE 99999.99 END FROM t WHERE n < 5 ORDER BY 1", vec!["0.25", "99999.99"]),
        ("SELECT n FROM t WHERE n = 5 UNION ALL SELECT 99999.99 ORDER BY 1", vec!["5.00", "99999.99"]),
        ("SELECT 0.5 AS x UNION ALL SELECT n FROM t WHERE n = 5 ORDER BY x", vec!["0.50", "5.00"]),
    ] {
        assert_eq!(rows(&session, sql).await, expected, "{sql}");
    }
}

#[tokio::test]
async fn names_of_columns_stay() {
    let session = session();
    let frame =
        session.sql("SELECT d > n, coalesce(d, n), t.n FROM t UNION ALL SELECT true, 1, d FROM t").await.unwrap();
    let names: Vec<_> = frame.schema().fields().iter().map(|field| field.name().clone()).collect();
    let plan = frame.into_optimized_plan().unwrap();
    let optimized: Vec<_> = plan.schema().fields().iter().map(|field| field.name().clone()).collect();
    assert_eq!(names, optimized);
    assert_eq!(names, ["t.d > t.n", "coalesce(t.d,t.n)", "n"]);
}

//! Functions under the names that other engines have for them.

use thermocline_engine::datafusion::arrow::datatypes::DataType;
use thermocline_engine::datafusion::logical_expr::{Volatility, create_udf};

use crate::harness::{Folder, error, rows, session};

#[tokio::test(flavor = "multi_thread")]
async fn functions_are_known_by_other_engines_names() {
    let session = session();
    for (sql, expected) in [
        ("mod(7, 3)", "1"),
        ("2 * mod(7, 4)", "6"),
        ("CAST(sign(-3) AS INT)", "-1"),
        ("len('äb')", "2"),
        ("ucase('a') || lcase('B')", "Ab"),
        ("if(1 > 2, 'x', 'y')", "y"),
        ("xor(6, 3)", "5"),
        ("year(DATE '2020-02-10') * 100 + month(DATE '2020-02-10')", "202002"),
        ("quarter(DATE '2020-05-10') * 10 + dayofweek(DATE '2020-05-10')", "20"),
        ("dayofyear(DATE '2020-02-01') * 100 + week(DATE '2020-02-01')", "3205"),
        ("hour(TIMESTAMP '2020-01-02 03:04:05') * 60 + minute(TIMESTAMP '2020-01-02 03:04:05')", "184"),
        ("dayname(DATE '2020-02-10') || monthname(DATE '2020-02-10')", "MondayFebruary"),
        ("last_day(DATE '2020-02-10')", "2020-02-29"),
        ("strftime(TIMESTAMP '2020-01-02 03:04:05', '%Y/%m')", "2020/01"),
        ("year(strptime('02.03.2020 10:00:00', '%d.%m.%Y %H:%M:%S'))", "2020"),
        ("date_diff('month', DATE '2020-01-31', DATE '2020-02-01')", "1"),
        ("datediff('day', DATE '2020-03-01', DATE '2020-02-28')", "-2"),
        ("date_diff('week', DATE '2020-01-05', DATE '2020-01-06')", "1"),
        (
            "date_diff('day', arrow_cast('2024-03-31T00:00:00', 'Timestamp(Second, Some(\"Europe/Berlin\"))'), \
          arrow_cast('2024-04-01T00:00:00', 'Timestamp(Second, Some(\"Europe/Berlin\"))'))",
            "1",
        ),
        (
            "date_diff('week', arrow_cast('2024-03-25T00:00:00', 'Timestamp(Second, Some(\"Europe/Berlin\"))'), \
          arrow_cast('2024-04-01T00:00:00', 'Timestamp(Second, Some(\"Europe/Berlin\"))'))",
            "1",
        ),
        ("date_diff('hour', TIMESTAMP '1969-12-31 23:59:59', TIMESTAMP '1970-01-01 00:00:00')", "1"),
        ("date_diff('quarter', DATE '2019-12-31', DATE '2021-01-01')", "5"),
        ("date_diff('year', DATE '2019-12-31', DATE '2020-01-01')", "1"),
        ("regexp_extract('a12b', '[0-9]+')", "12"),
        ("regexp_extract('a12b', '([a-z])([0-9]+)', 2)", "12"),
        ("regexp_extract('ab', '[0-9]+') = ''", "true"),
        ("regexp_extract('7', '([a-z])?([0-9])', 1) = ''", "true"),
        ("regexp_extract('7', '([a-z])?([0-9])', 2)", "7"),
        ("regexp_extract('x 7 a8', 'a([0-9])|(7)', 2)", "7"),
        ("regexp_extract('a12b', '[0-9]+', 0)", "12"),
        ("regexp_extract('a12b', '[0-9]+', 1) = '' AND regexp_extract('a12b', '[0-9]+', -1) = ''", "true"),
        ("regexp_extract('a12b', NULL, 1) IS NULL", "true"),
        ("regexp_extract(CAST(NULL AS VARCHAR), 'a') IS NULL", "true"),
        ("regexp_matches('abc', 'b.')", "true"),
        ("prefix('abc', 'ab') AND suffix('abc', 'bc')", "true"),
        ("string_split('a,b', ',')[2]", "b"),
        ("list_value(1, 2)[1]", "1"),
        ("isinf(CAST('-inf' AS DOUBLE)) AND NOT isfinite(CAST('nan' AS DOUBLE)) AND isfinite(1e0)", "true"),
    ] {
        assert_eq!(rows(&session, &format!("SELECT {sql} AS x")).await, [expected], "{sql}");
    }
    let from = "FROM (VALUES (1, 10, 'a'), (2, 20, 'b'), (3, NULL, 'c'), (NULL, 30, 'd')) AS t(a, b, c)";
    for (sql, expected) in [
        ("arg_max(a, b)", "2"),
        ("min_by(c, a)", "a"),
        ("max_by(c, a)", "c"),
        ("count_if(a > 1)", "2"),
        ("countif(a > 1) FILTER (WHERE b IS NOT NULL)", "1"),
        ("group_concat(c ORDER BY c DESC)", "d,c,b,a"),
        ("listagg(c, '-' ORDER BY c)", "a-b-c-d"),
        ("list(a ORDER BY c)[2]", "2"),
        ("first(c ORDER BY b)", "a"),
        ("approx_count_distinct(c)", "4"),
    ] {
        assert_eq!(rows(&session, &format!("SELECT {sql} AS x {from}")).await, [expected], "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_selected_keeps_the_name_that_was_written() {
    let folder = Folder::new();
    let session = session();
    let days = "(VALUES (DATE '2020-02-10'), (DATE '2021-03-10'), (DATE '2020-01-01')) AS t(d)";
    let grouped = format!("SELECT year(d), count(*) AS n FROM {days} GROUP BY year(d) ORDER BY year(d)");
    assert_eq!(rows(&session, &grouped).await, ["2020|2", "2021|1"]);
    let result = session.sql(&grouped).await.unwrap();
    assert_eq!(result.schema().field(0).name(), "year(d)");
    assert_eq!(
        rows(&session, &format!("SELECT DISTINCT year(d) FROM {days} ORDER BY year(d)")).await,
        ["2020", "2021"]
    );
    // A view is kept as it is meant, and columns of tables are called as they were written.
    rows(&session, &format!("CREATE VIEW v AS SELECT 10 * mod(year(d), 7) AS m FROM {days}")).await;
    assert_eq!(rows(&session, "SELECT max(m) FROM v").await, ["50"]);
    let out = folder.path().join("out.csv");
    rows(&session, &format!("COPY (SELECT month(d) FROM {days} ORDER BY d) TO '{}'", out.display())).await;
    assert_eq!(std::fs::read_to_string(out).unwrap(), "month(d)\n1\n2\n3\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hosts_own_functions_go_first_and_a_far_guess_is_not_made() {
    let session = session();
    let types = (vec![DataType::Int64, DataType::Int64], DataType::Int64);
    let first =
        create_udf("mod", types.0, types.1, Volatility::Immutable, std::sync::Arc::new(|args| Ok(args[0].clone())));
    session.context().register_udf(first);
    assert_eq!(rows(&session, "SELECT mod(7, 3)").await, ["7"]);
    let unknown = error(&session, "SELECT sha256('a')").await;
    assert!(unknown.ends_with("Invalid function 'sha256'"), "{unknown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_selected_twice_has_two_names() {
    let session = session();
    let sql = "SELECT a, a, CAST(a AS DOUBLE), 1, 1 FROM (VALUES (2)) AS t(a) ORDER BY CAST(a AS DOUBLE)";
    let schema = session.sql(sql).await.unwrap().schema();
    let names: Vec<_> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    assert_eq!(names, ["a", "a_1", "CAST(a AS DOUBLE)", "Int64(1)", "1_1"]);
    let sorted = "SELECT a, a FROM (VALUES (1, 9), (2, 8)) AS t(a, a_1) ORDER BY a_1";
    assert_eq!(rows(&session, sorted).await, ["2|2", "1|1"]);
    assert_eq!(rows(&session, sql).await, ["2|2|2.0|1|1"]);
}

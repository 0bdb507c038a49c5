//! Floats are compared alike by operators and pipelines: both zeros are equal, NaN is the largest.

use crate::harness::{self, Folder, rows, sorted_rows};
use crate::pipelines_and_operators::is_fused;

#[tokio::test(flavor = "multi_thread")]
async fn lists_of_any_length_hold_both_zeros_to_be_equal() {
    let folder = Folder::new();
    let path = folder.file("z.csv", "x,y\n0.0,1\n-0.0,2\n1.5,3\n,4\n");
    let session = harness::session();
    rows(&session, &format!("CREATE TABLE held AS SELECT * FROM '{}'", path.display())).await;
    for table in [format!("'{}'", path.display()), "held".to_owned()] {
        for (condition, expected) in [
            ("x IN (0.0, 7, 8)", "2"),
            ("x IN (0.0, 7, 8, 9, 10)", "2"),
            ("x IN (-0.0, 7, 8, 9, 10)", "2"),
            ("x = 0 OR x = 7 OR x = 8 OR x = 9 OR x = 10", "2"),
            ("x NOT IN (0.0, 7, 8, 9, 10)", "1"),
            ("x NOT IN (0.0, 7, 8, 9, NULL)", "0"),
            ("CASE x WHEN 0.0 THEN 'zero' WHEN 7 THEN 'seven' END = 'zero'", "2"),
        ] {
            let sql = format!("SELECT count(*) FROM {table} WHERE {condition}");
            assert_eq!(rows(&session, &sql).await, [expected], "{sql}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bloom_filters_of_a_parquet_file_hide_no_zero() {
    let folder = Folder::new();
    let session = harness::session();
    rows(&session, "SET datafusion.execution.parquet.bloom_filter_on_write = true").await;
    for written in ["0.0", "-0.0"] {
        let path = folder.path().join(format!("zero{written}.parquet"));
        let path = path.display();
        rows(&session, &format!("COPY (SELECT CAST('{written}' AS DOUBLE) AS x) TO '{path}'")).await;
        for condition in ["x = 0.0", "x = -0.0", "x IN (0.0, 7)", "x IN (-0.0, 7, 8, 9, 10)"] {
            let sql = format!("SELECT x + 1 FROM '{path}' WHERE {condition}");
            assert_eq!(rows(&session, &sql).await, ["1.0"], "{sql}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn extremes_of_groups_with_nan_and_infinities_are_those_of_their_values() {
    let folder = Folder::new();
    let path = folder.file("n.csv", "x,k\nNaN,1\n1.5,1\n1.5,2\nNaN,2\n-inf,3\ninf,4\n,5\n-inf,5\n2.5,5\n");
    let session = harness::session();
    rows(&session, &format!("CREATE TABLE held AS SELECT * FROM '{}'", path.display())).await;
    let expected = ["1|1.5|NaN", "2|1.5|NaN", "3|-inf|-inf", "4|inf|inf", "5|-inf|2.5"];
    for fused in ["on", "off"] {
        rows(&session, &format!("SET thermocline.fused_pipelines = '{fused}'")).await;
        for table in [format!("'{}'", path.display()), "held".to_owned()] {
            let sql = format!("SELECT k, min(x), max(x) FROM {table} GROUP BY k ORDER BY k");
            assert_eq!(rows(&session, &sql).await, expected, "{fused}: {sql}");
            let sql = format!("SELECT min(x), max(x) FROM {table}");
            assert_eq!(rows(&session, &sql).await, ["-inf|NaN"], "{fused}: {sql}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nans_that_are_computed_are_the_largest() {
    let folder = Folder::new();
    let path = folder.file("n.csv", "x,y,k\n0.0,0.0,1\n1.5,0.0,1\n-1.5,0.0,2\ninf,inf,2\n3.0,2.0,3\nNaN,1.0,3\n");
    let session = harness::session();
    rows(&session, &format!("CREATE TABLE held AS SELECT * FROM '{}'", path.display())).await;
    for fused in ["on", "off"] {
        rows(&session, &format!("SET thermocline.fused_pipelines = '{fused}'")).await;
        for table in [format!("'{}'", path.display()), "held".to_owned()] {
            for (sql, expected) in [
                ("SELECT count(*) FROM t WHERE x / y > 1", vec!["5"]),
                ("SELECT count(*), sum(k) FROM t WHERE x - x < 1", vec!["4|7"]),
                ("SELECT min(x / y), max(x / y) FROM t", vec!["-inf|NaN"]),
                (
                    "SELECT k, min(x / y), max(x / y) FROM t GROUP BY k ORDER BY k",
                    vec!["1|inf|NaN", "2|-inf|NaN", "3|1.5|NaN"],
                ),
                ("SELECT x / y, count(*) FROM t GROUP BY 1 ORDER BY 1", vec!["-inf|1", "1.5|1", "inf|1", "NaN|3"]),
                ("SELECT count(DISTINCT x / y) FROM t", vec!["4"]),
                ("SELECT max(x) FROM t WHERE k = 3", vec!["NaN"]),
                ("SELECT k FROM t WHERE x / y = 0.0 / (0.0 * k) GROUP BY k ORDER BY k", vec!["1", "2", "3"]),
                ("SELECT count(*) FROM t WHERE x > CAST(0.0 AS DOUBLE) / 0.0", vec!["0"]),
            ] {
                let sql = sql.replace("FROM t", &format!("FROM {table}"));
                assert_eq!(rows(&session, &sql).await, expected, "{fused}: {sql}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn floats_that_are_made_of_texts_compare_as_others_do() {
    let session = harness::session();
    rows(&session, "CREATE TABLE t AS SELECT * FROM (VALUES ('1'), ('inf'), ('-0.0'), ('0')) v(s)").await;
    let (number, sql) = ("CAST(s AS DOUBLE)", "SELECT count(*) FROM t WHERE");
    // Arithmetic is left to operators.
    for (condition, fuses, expected) in [
        (format!("{number} * 0.0 > 1.0"), false, "1"),
        (format!("NOT ({number} - {number} > 1.0)"), false, "3"),
        (format!("nullif({number}, 0.0) IS NULL"), true, "2"),
        (format!("CASE {number} WHEN 0.0 THEN true ELSE false END"), true, "2"),
    ] {
        let sql = format!("{sql} {condition}");
        assert_eq!(is_fused(&session, &sql).await, fuses, "{sql}");
        for fused in ["off", "on"] {
            rows(&session, &format!("SET thermocline.fused_pipelines = '{fused}'")).await;
            assert_eq!(rows(&session, &sql).await, [expected], "{fused}: {sql}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn counts_of_distinct_values_and_partitions_take_both_zeros_for_one() {
    let folder = Folder::new();
    let path = folder.file("z.csv", "x,y\n0.0,1\n-0.0,2\n1.5,3\n,4\n");
    let session = harness::session();
    rows(&session, &format!("CREATE TABLE held AS SELECT * FROM '{}'", path.display())).await;
    for table in [format!("'{}'", path.display()), "held".to_owned()] {
        for (sql, expected) in [
            ("SELECT count(DISTINCT x), count(DISTINCT y) FROM t", "2|4"),
            ("SELECT count(DISTINCT x), count(DISTINCT y) FROM t GROUP BY y > 9", "2|4"),
            ("SELECT max(c) FROM (SELECT count(*) OVER (PARTITION BY x) c FROM t)", "2"),
        ] {
            let sql = sql.replace("FROM t", &format!("FROM {table}"));
            assert_eq!(rows(&session, &sql).await, [expected], "{sql}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn floats_meet_decimals_as_floats() {
    let folder = Folder::new();
    let path = folder.file("d.csv", "d\n1e-20\n1e30\n0.25\ninf\n");
    let session = harness::session();
    rows(&session, &format!("CREATE TABLE held AS SELECT * FROM '{}'", path.display())).await;
    rows(&session, "CREATE TABLE n AS SELECT CAST(column1 AS DECIMAL(10, 2)) AS n FROM (VALUES (0), (0.25), (5))")
        .await;
    for fused in ["on", "off"] {
        rows(&session, &format!("SET thermocline.fused_pipelines = '{fused}'")).await;
        for table in [format!("'{}'", path.display()), "held".to_owned()] {
            for (sql, expected) in [
                ("SELECT count(*) FROM t, n WHERE d > n", vec!["8"]),
                ("SELECT count(*) FROM t JOIN n ON d = n", vec!["1"]),
                ("SELECT count(*) FROM n WHERE n IN (SELECT d FROM t)", vec!["1"]),
                (
                    "SELECT x FROM (SELECT n AS x FROM n UNION SELECT d FROM t) WHERE x < 1",
                    vec!["0.0", "0.25", "1e-20"],
                ),
            ] {
                let sql = sql.replace("FROM t", &format!("FROM {table} AS t"));
                assert_eq!(sorted_rows(&session, &sql).await, expected, "{fused}: {sql}");
            }
        }
    }
}

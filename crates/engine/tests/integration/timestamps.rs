//! Timestamps of coarse units beside constants of finer ones, and other casts that constants must not be cast against.

use std::path::Path;

use thermocline_engine::{DatabaseOptions, Session};

use crate::harness::{self, Folder, MIB, rows};

/// In milliseconds; also before 1970.
const TIMES: [i64; 9] = [-86_400_000, -3_000, -1_001, -1_000, -1, 0, 1, 1_000, 1_704_067_200_001];

/// In nanoseconds.
const CONSTANTS: [i64; 6] = [-1_500_000, -1_000_000, -1, 0, 500_000, 1_704_067_200_001_500_000];

const OPERATORS: [&str; 8] = ["=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"];

fn constant(ns: i64) -> String {
    format!("arrow_cast({ns}, 'Timestamp(Nanosecond, None)')")
}

/// Whether the comparison holds; `None` if it is NULL.
fn compared(left: Option<i64>, op: &str, right: i64) -> Option<bool> {
    match (left, op) {
        (None, "IS DISTINCT FROM") => Some(true),
        (None, "IS NOT DISTINCT FROM") => Some(false),
        (None, _) => None,
        (Some(left), "=" | "IS NOT DISTINCT FROM") => Some(left == right),
        (Some(left), "<>" | "IS DISTINCT FROM") => Some(left != right),
        (Some(left), "<") => Some(left < right),
        (Some(left), "<=") => Some(left <= right),
        (Some(left), ">") => Some(left > right),
        (Some(left), _) => Some(left >= right),
    }
}

/// Whether the condition is that in each row, filters by it included.
async fn check(session: &Session, table: &str, condition: &str, expected: &[Option<bool>]) {
    for (condition, wanted) in [(condition.to_owned(), Some(true)), (format!("NOT ({condition})"), Some(false))] {
        let count = expected.iter().filter(|value| **value == wanted).count().to_string();
        let sql = format!("SELECT count(k + 0) FROM {table} WHERE {condition}");
        assert_eq!(rows(session, &sql).await, [count.as_str()], "{sql}");
    }
    let shown: Vec<String> =
        expected.iter().map(|value| value.map_or_else(|| "null".to_owned(), |value| value.to_string())).collect();
    let sql = format!("SELECT coalesce(CAST({condition} AS VARCHAR), 'null') FROM {table} ORDER BY k");
    assert_eq!(rows(session, &sql).await, shown, "{sql}");
}

#[tokio::test(flavor = "multi_thread")]
async fn times_are_compared_with_constants_of_finer_units_as_they_are() {
    let folder = Folder::new();
    let options = DatabaseOptions {
        folder: Some(folder.path().join("database")),
        memory_bytes: Some(256 * MIB),
        threads: Some(4),
        ..DatabaseOptions::default()
    };
    let in_folder = harness::reopen(&options).session();
    for (unit, ms) in [("Millisecond", 1), ("Second", 1_000)] {
        check_all(&in_folder, &folder.path().join(format!("{unit}.parquet")), unit, ms).await;
    }
    check_all(&harness::session(), &folder.path().join("beside_memory.parquet"), "Millisecond", 1).await;
}

/// Times of this unit, of so many milliseconds, in a file at `path` and in tables.
async fn check_all(session: &Session, path: &Path, unit: &str, ms: i64) {
    let path = path.display();
    let values: Vec<String> = TIMES.iter().enumerate().map(|(k, time)| format!("({k}, {})", time / ms)).collect();
    let times_ns: Vec<Option<i64>> = TIMES.iter().map(|time| Some(time / ms * ms * 1_000_000)).chain([None]).collect();
    let select = format!(
        "SELECT k, arrow_cast(n, 'Timestamp({unit}, None)') AS ts
         FROM (VALUES {}, ({}, CAST(NULL AS BIGINT))) t(k, n)",
        values.join(", "),
        TIMES.len()
    );
    rows(session, &format!("COPY ({select}) TO '{path}'")).await;
    rows(session, &format!("CREATE TABLE held_{unit} AS {select}")).await;
    let declared = format!("(k BIGINT, ts TIMESTAMP) STORED AS PARQUET LOCATION '{path}'");
    rows(session, &format!("CREATE EXTERNAL TABLE declared_{unit} {declared}")).await;
    for table in [format!("'{path}'"), format!("held_{unit}"), format!("declared_{unit}")] {
        for ns in CONSTANTS {
            for op in OPERATORS {
                let expected: Vec<_> = times_ns.iter().map(|time| compared(*time, op, ns)).collect();
                check(session, &table, &format!("ts {op} {}", constant(ns)), &expected).await;
            }
            let above: Vec<_> = times_ns.iter().map(|time| compared(*time, "<", ns)).collect();
            check(session, &table, &format!("{} > ts", constant(ns)), &above).await;
        }
        let listed = |ns: &[i64]| ns.iter().map(|ns| constant(*ns)).collect::<Vec<_>>().join(", ");
        for list in [&CONSTANTS[..], &CONSTANTS[..1], &CONSTANTS[1..2], &[-1, 1, 500_000, 1_500_001, 1_500_002]] {
            let members: Vec<_> = times_ns.iter().map(|time| time.map(|time| list.contains(&time))).collect();
            check(session, &table, &format!("ts IN ({})", listed(list)), &members).await;
            let others: Vec<_> = members.iter().map(|is_member| is_member.map(|is_member| !is_member)).collect();
            check(session, &table, &format!("ts NOT IN ({})", listed(list)), &others).await;
        }
        // Constants that are computed, and both bounds.
        let computed = "ts BETWEEN TIMESTAMP '1970-01-01' - INTERVAL '1 microsecond'
                            AND TIMESTAMP '1970-01-01' + INTERVAL '1500 microseconds'";
        let within: Vec<_> =
            times_ns.iter().map(|time| time.map(|time| (-1_000..=1_500_000).contains(&time))).collect();
        check(session, &table, computed, &within).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn casts_that_make_several_values_one_stay_in_comparisons() {
    let folder = Folder::new();
    let session = harness::session();
    let path = folder.path().join("casts.parquet");
    let path = path.display();
    let select = "SELECT k, CAST(d AS DECIMAL(10, 2)) AS d, b
                  FROM (VALUES (1, 1.20, 5), (2, 1.00, 3000000000), (3, 2.70, NULL)) t(k, d, b)";
    rows(&session, &format!("COPY ({select}) TO '{path}'")).await;
    rows(&session, &format!("CREATE TABLE held AS {select}")).await;
    for table in [format!("'{path}'"), "held".to_owned()] {
        for (condition, expected) in [
            ("CAST(d AS INT) = 1", vec!["1", "2"]),
            ("CAST(d AS INT) IN (1, 7, 8, 9, 10)", vec!["1", "2"]),
            ("CAST(d AS INT) <> 1", vec!["3"]),
            ("TRY_CAST(b AS INT) <> 6", vec!["1"]),
            ("TRY_CAST(b AS INT) IS DISTINCT FROM 5", vec!["2", "3"]),
        ] {
            let sql = format!("SELECT k FROM {table} WHERE {condition} ORDER BY k");
            assert_eq!(rows(&session, &sql).await, expected, "{sql}");
            let expected: Vec<String> =
                (1..=3).map(|k| expected.contains(&k.to_string().as_str()).to_string()).collect();
            let sql = format!("SELECT ({condition}) IS TRUE FROM {table} ORDER BY k");
            assert_eq!(rows(&session, &sql).await, expected, "{sql}");
        }
    }
}

//! Types and semantics of raw files, as the documentation states them.

use std::time::Duration;

use thermocline_hardware::{Clock, SystemClock};

use crate::harness::{self, FIRST, Folder, integer, numbered_csv, rows, session, sorted_rows};

#[tokio::test(flavor = "multi_thread")]
async fn a_fraction_past_the_sample_is_an_error_never_a_truncation() {
    let folder = Folder::new();
    let mut text: String = (0..2000).map(|id| format!("{{\"n\":{id}}}\n")).collect();
    text.push_str("{\"n\":1.5}\n");
    let path = folder.file("t.ndjson", text);
    let session = session();
    rows(&session, "SET thermocline.sample_rows = 100").await;
    let sql = format!("SELECT sum(n) FROM '{}'", path.display());
    let message = harness::error(&session, &sql).await;
    assert!(
        message.contains("t.ndjson, byte") && message.contains("1.5") && message.contains("sample_rows"),
        "{message}"
    );
    rows(&session, "SET thermocline.sample_rows = -1").await;
    assert_eq!(rows(&session, &sql).await, [format!("{:.1}", (0..2000).sum::<i64>() as f64 + 1.5)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_csv_value_past_the_sample_names_file_line_and_column() {
    let folder = Folder::new();
    let mut text = String::from("a,b\n");
    text.extend((0..2000).map(|id| format!("{id},x\n")));
    text.push_str("oops,x\n");
    let path = folder.file("t.csv", text);
    let session = session();
    rows(&session, "SET thermocline.sample_rows = 100").await;
    let message = harness::error(&session, &format!("SELECT sum(a) FROM '{}'", path.display())).await;
    for part in ["t.csv", "line 2002", "column a", "oops", "Int64", "sample_rows"] {
        assert!(message.contains(part), "{part} is missing in: {message}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn skipping_bad_records_is_the_users_choice() {
    let folder = Folder::new();
    let path = folder.file("t.ndjson", "{\"a\":1}\nnot json\n{\"a\":3}\n");
    let session = session();
    let sql = format!("SELECT sum(a), count(*) FROM '{}'", path.display());
    let message = harness::error(&session, &sql).await;
    assert!(message.contains("t.ndjson, byte 8"), "{message}");
    rows(&session, "SET thermocline.on_error = 'skip'").await;
    assert_eq!(rows(&session, &sql).await, ["4|2"]);
    assert_eq!(rows(&session, &sql).await, ["4|2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_where_the_sample_said_number_is_an_error() {
    let folder = Folder::new();
    let mut text: String = (0..500).map(|id| format!("{{\"n\":{id}}}\n")).collect();
    text.push_str("{\"n\":{\"x\":1}}\n");
    let path = folder.file("t.ndjson", text);
    let session = session();
    rows(&session, "SET thermocline.sample_rows = 100").await;
    let message = harness::error(&session, &format!("SELECT sum(n) FROM '{}'", path.display())).await;
    assert!(message.contains("column n") && message.contains("Int64"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nesting_over_512_levels_is_an_error_and_nothing_crashes() {
    let folder = Folder::new();
    let deep = format!("{{\"a\":{}1{}}}\n", "[".repeat(600), "]".repeat(600));
    let path = folder.file("t.ndjson", deep);
    let session = session();
    let message = harness::error(&session, &format!("SELECT a FROM '{}'", path.display())).await;
    assert!(message.contains("512"), "{message}");
    assert_eq!(rows(&session, "SELECT 1").await, ["1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unclosed_quote_names_the_line_where_it_opened() {
    let folder = Folder::new();
    let path = folder.file("t.csv", "a,b\n1,x\n2,\"open\n3,y\n");
    let session = session();
    let message = harness::error(&session, &format!("SELECT * FROM '{}'", path.display())).await;
    assert!(message.contains("t.csv, line 3"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn paths_that_are_no_tables_say_why() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path().join("empty")).unwrap();
    let session = session();
    let message = harness::error(&session, &format!("SELECT * FROM '{}/empty/'", folder.path().display())).await;
    assert!(message.contains("empty") && message.contains("no "), "{message}");
    let path = folder.file("data.xyz", "1");
    let message = harness::error(&session, &format!("SELECT * FROM '{}'", path.display())).await;
    assert!(message.contains("STORED AS"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_field_of_a_struct_is_called_by_its_own_name_unless_another_column_is() {
    let folder = Folder::new();
    let path = folder.file("t.ndjson", "{\"id\":1,\"o\":{\"id\":2,\"x\":{\"y\":3}},\"l\":[{\"n\":4}]}\n");
    let session = session();
    for (columns, names) in [
        ("i.n, t.o.x.y, t.o['x']", ["n", "y", "x"].as_slice()),
        ("t.o.id, t.id", &["t.o[id]", "id"]),
        ("t.o.id, i.n AS id", &["t.o[id]", "id"]),
        ("t.o.x.y + 1, i.n AS m", &["t.o[x][y] + Int64(1)", "m"]),
    ] {
        let sql = format!("SELECT {columns} FROM '{}' AS t, UNNEST(t.l) AS i", path.display());
        for sql in [format!("{sql} ORDER BY i.n LIMIT 3"), sql] {
            let result = session.sql(&sql).await.unwrap();
            let found: Vec<String> = result.schema().fields().iter().map(|field| field.name().clone()).collect();
            assert_eq!(found, names, "{sql}");
            assert_eq!(result.collect().await.unwrap()[0].schema().field(0).name(), names[0], "{sql}");
        }
    }
    let distinct = format!("SELECT DISTINCT i.n FROM '{}' AS t, UNNEST(t.l) AS i", path.display());
    assert_eq!(session.sql(&distinct).await.unwrap().schema().field(0).name(), "n");
    let grouped = format!("SELECT t.o.x.y, count(*) FROM '{}' AS t GROUP BY t.o.x.y", path.display());
    assert_eq!(session.sql(&grouped).await.unwrap().schema().field(0).name(), "y");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_in_a_struct_is_unnested_beside_its_siblings() {
    let folder = Folder::new();
    let path =
        folder.file("t.ndjson", "{\"id\":1,\"s\":{\"x\":1,\"deep\":[1,2]}}\n{\"id\":2,\"s\":{\"x\":5,\"deep\":[]}}\n");
    let session = session();
    let name = path.display();
    for _ in 0..2 {
        assert_eq!(
            rows(&session, &format!("SELECT s['x'] + 1, unnest(s['deep']) FROM '{name}'")).await,
            ["2|1", "2|2"]
        );
        let sql =
            format!("SELECT x + 1, d FROM (SELECT s['x'] AS x, unnest(s['deep']) AS d FROM '{name}') WHERE d > 1");
        assert_eq!(rows(&session, &sql).await, ["2|2"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_read_by_the_dialect_of_each_table_it_belongs_to() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path().join("logs")).unwrap();
    folder.settled_file("logs/a.csv", "1,x\n2,y\n");
    let later = folder.settled_file("logs/c.csv", "id,name\n3,z\n");
    let session = session();
    let create = |name: &str, place: &str| {
        format!("CREATE EXTERNAL TABLE {name} (id VARCHAR, name VARCHAR) STORED AS CSV LOCATION '{place}'")
    };
    rows(&session, &create("all_files", &format!("{}/logs/", folder.path().display()))).await;
    rows(&session, &create("one_file", &later.display().to_string())).await;
    for _ in 0..2 {
        assert_eq!(sorted_rows(&session, "SELECT * FROM all_files").await, ["1|x", "2|y", "3|z", "id|name"]);
        assert_eq!(rows(&session, "SELECT * FROM one_file").await, ["3|z"]);
    }
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn a_folder_is_read_whatever_else_lies_in_it() {
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::symlink;
    let folder = Folder::new();
    let logs = folder.path().join("logs");
    std::fs::create_dir(&logs).unwrap();
    folder.file("logs/a.csv", "k\n1\n2\n");
    let outside = Folder::new();
    symlink(outside.file("README", "read me"), logs.join("README")).unwrap();
    symlink("loop", logs.join("loop")).unwrap();
    symlink("loop.csv", logs.join("loop.csv")).unwrap();
    symlink("a.csv/b", logs.join("through")).unwrap();
    std::fs::write(logs.join(std::ffi::OsStr::from_bytes(b"caf\xe9.txt")), "x").unwrap();
    let session = session();
    rows(&session, &format!("SET allowed_directories = '{}'", folder.path().display())).await;
    let sql = format!("SELECT count(*) FROM '{}/'", logs.display());
    assert_eq!(rows(&session, &sql).await, ["2"]);
    std::fs::remove_file(logs.join("a.csv")).unwrap();
    let message = harness::error(&session, &sql).await;
    assert!(message.contains("the folder holds no file ending in .ndjson"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_declared_of_csv_holds_where_the_first_file_has_no_record() {
    for first in ["", "\n\r\n", "\u{feff}"] {
        let folder = Folder::new();
        folder.file("1.csv", first);
        folder.file("2.csv", "b;a\nx;NA\ny;1\n");
        let session = session();
        let create = format!(
            "CREATE EXTERNAL TABLE t (a BIGINT, b TEXT) STORED AS CSV LOCATION '{}/'
             OPTIONS ('null_value' 'NA', 'delimiter' ';')",
            folder.path().display()
        );
        rows(&session, &create).await;
        assert_eq!(rows(&session, "SELECT b, a, a IS NULL FROM t ORDER BY b").await, ["x|NULL|true", "y|1|false"]);
    }
    let folder = Folder::new();
    folder.file("1.csv", "");
    let session = session();
    let path = folder.path().display();
    let create = "CREATE EXTERNAL TABLE t (a BIGINT) STORED AS CSV LOCATION";
    rows(&session, &format!("{create} '{path}/' OPTIONS ('null_value' 'NA')")).await;
    assert!(rows(&session, "SELECT a FROM t").await.is_empty());
    folder.file("2.csv", "a\nNA\n7\n");
    assert_eq!(rows(&session, "SELECT a FROM t ORDER BY a NULLS FIRST").await, ["NULL", "7"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn not_null_of_files_that_nobody_checks_is_refused() {
    let folder = Folder::new();
    let session = session();
    let csv = folder.file("x.csv", "a,b\n1,10\n,20\n3,30\n");
    let ndjson = folder.file("x.ndjson", "{\"a\":1,\"b\":10}\n{\"b\":20}\n{\"a\":3,\"b\":30}\n");
    let parquet = folder.path().join("x.parquet");
    rows(&session, &format!("COPY (SELECT * FROM '{}') TO '{}'", csv.display(), parquet.display())).await;
    for (format, path) in [("CSV", &csv), ("NDJSON", &ndjson), ("PARQUET", &parquet)] {
        let create = |columns: &str| {
            format!("CREATE EXTERNAL TABLE t_{format} ({columns}) STORED AS {format} LOCATION '{}'", path.display())
        };
        let message = harness::error(&session, &create("a BIGINT NOT NULL, b BIGINT")).await;
        assert!(message.contains("column a: NOT NULL on an external table cannot be enforced"), "{message}");
        rows(&session, &create("a BIGINT, b BIGINT")).await;
        let asked = format!("SELECT count(*), sum(b) FROM t_{format} WHERE a IS NOT NULL");
        assert_eq!(rows(&session, &asked).await, ["2|40"], "{format}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn long_lists_take_time_by_their_length() {
    let folder = Folder::new();
    let path = folder.settled_file("t.csv", numbered_csv(FIRST, 100));
    let session = session();
    let clock = SystemClock::new();
    let mut least = [Duration::MAX; 2];
    // Sixteen times as long a list: each value compared with each other would take 256 times as long. Of each the time in
    // which the machine did least else.
    let is_by_length = |[short, long]: [Duration; 2]| long < short.saturating_mul(64) + Duration::from_millis(200);
    for round in 0..5 {
        for (length, least) in [5000, 80_000].into_iter().zip(&mut least) {
            // Another list each time, for nobody to know its answer.
            let list = (round..round + length).map(|number| (number * 3).to_string()).collect::<Vec<_>>().join(", ");
            let begun_ns = clock.monotonic_ns();
            let sql = format!("SELECT count(*) FROM '{}' WHERE id IN ({list})", path.display());
            let of_list = integer(&session, &sql).await;
            *least = Duration::from_nanos(clock.monotonic_ns() - begun_ns).min(*least);
            let range = format!("id >= 3 * {round} AND id < 3 * ({round} + {length})");
            let plain = format!("SELECT count(*) FROM '{}' WHERE id % 3 = 0 AND {range}", path.display());
            assert_eq!(of_list, integer(&session, &plain).await);
        }
        // The first query pays for what is made once.
        if round > 0 && is_by_length(least) {
            return;
        }
    }
    panic!("{least:?}");
}

/// Over files the first test is the scan's own, so that the second never sees what it has no value for.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_filter_rules_out_is_not_divided_or_cast() {
    let folder = Folder::new();
    let mut text = String::from("x,s\n");
    text.extend((0..1000).map(|id| format!("{},{}\n", id % 100, if id % 100 == 0 { "none" } else { "12" })));
    let path = folder.file("t.csv", text);
    let session = session();
    rows(&session, &format!("CREATE TABLE held AS SELECT * FROM '{}'", path.display())).await;
    for fused in ["on", "off"] {
        rows(&session, &format!("SET thermocline.fused_pipelines = '{fused}'")).await;
        for table in [format!("'{}'", path.display()), "held".to_owned()] {
            for (sql, expected) in [
                ("SELECT count(*) FROM t WHERE x <> 0 AND 1000 / x > 500", "10"),
                ("SELECT count(*) FROM t WHERE 1000 / x > 500 AND x <> 0", "10"),
                ("SELECT sum(1000 / x) FROM t WHERE x <> 0 AND 1000 % x = 0", "23100"),
                ("SELECT sum(CAST(s AS INT)) FROM t WHERE s <> 'none' AND CAST(s AS INT) > 3", "11880"),
            ] {
                let sql = sql.replace("FROM t", &format!("FROM {table}"));
                assert_eq!(rows(&session, &sql).await, [expected], "{fused}: {sql}");
            }
        }
    }
}

/// Of DataFusion's rules that take too much for granted; each was seen to give a wrong answer or an internal error.
#[tokio::test(flavor = "multi_thread")]
async fn answers_are_right_where_stock_rules_take_too_much_for_granted() {
    let folder = Folder::new();
    let t = folder.file("t.csv", "a,g\n1,1\n2,2\n,3\n");
    let times = folder.file("times.csv", "n,time\n1,2020-01-01 10:00:00\n2,2020-01-02 00:00:01\n");
    let session = session();
    for (table, path) in [("t", &t), ("times", &times)] {
        rows(&session, &format!("CREATE TABLE {table} AS SELECT * FROM '{}'", path.display())).await;
    }
    for from_file in [false, true] {
        for (sql, expected) in [
            ("SELECT count(*) FROM t HAVING (SELECT min(g) FROM t) > 7", vec![]),
            ("SELECT count(*) FROM t HAVING random() < 0", vec![]),
            ("SELECT a, count(*) FROM t GROUP BY ROLLUP(a) HAVING (SELECT min(g) FROM t) > 7", vec![]),
            ("SELECT count(*) FROM t HAVING (SELECT min(g) FROM t) < 7", vec!["3"]),
            ("SELECT g, count(*) FROM t GROUP BY g HAVING (SELECT min(g) FROM t) < 7 AND g = 1", vec!["1|1"]),
            ("SELECT g, count(*) FROM t GROUP BY g HAVING g = 1 AND (SELECT min(g) FROM t) > 7", vec![]),
            ("SELECT count(*) FROM t HAVING (SELECT min(g) FROM t) > 7 AND count(*) < 100", vec![]),
            ("SELECT count(*) FROM t HAVING (SELECT min(g) FROM t) < 7 AND count(*) < 100", vec!["3"]),
            ("SELECT n FROM (SELECT count(*) AS n FROM t HAVING (SELECT min(g) FROM t) > 7) x WHERE n < 100", vec![]),
            ("SELECT count(*) FROM t AS x LEFT JOIN t AS y ON x.a = y.g WHERE x.g > 50", vec!["0"]),
            ("SELECT count(y.a) FROM t AS x LEFT JOIN t AS y ON x.a = y.g WHERE x.g > 50", vec!["0"]),
            ("SELECT count(*) FROM t AS x LEFT JOIN t AS y ON x.a = y.g", vec!["3"]),
            ("SELECT n FROM times WHERE CAST(time AS DATE) < DATE '2020-01-02'", vec!["1"]),
            ("SELECT n FROM times WHERE CAST(time AS DATE) > DATE '2020-01-01' AND n < 9", vec!["2"]),
            ("SELECT DISTINCT a AS x, a AS y, g FROM t ORDER BY x, y, g", vec!["1|1|1", "2|2|2", "NULL|NULL|3"]),
            ("SELECT x.g, y.g FROM t AS x RIGHT JOIN t AS y ON x.a = y.g WHERE x.g IS NULL", vec!["NULL|3"]),
        ] {
            let file = |sql: String, table: &str, path: &std::path::Path| {
                sql.replace(&format!("FROM {table}"), &format!("FROM '{}'", path.display()))
                    .replace(&format!("JOIN {table}"), &format!("JOIN '{}'", path.display()))
            };
            let sql = match from_file {
                true => file(file(sql.to_owned(), "times", &times), "t", &t),
                false => sql.to_owned(),
            };
            assert_eq!(rows(&session, &sql).await, expected, "{sql}");
        }
    }
}

/// Beneath them it would be drawn for other rows than those that it is asked of.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_random_is_drawn_above_groups_windows_and_lists() {
    let session = session();
    let groups = "SELECT g, count(*) AS n FROM (SELECT value % 500 AS g FROM generate_series(1, 1000)) GROUP BY g";
    let elements = "SELECT value, unnest([1, 2]) AS e FROM generate_series(1, 500)";
    for (sql, expected) in [
        (format!("SELECT count(*) FROM ({groups} HAVING g + random() * 500 > 400) WHERE n <> 2"), "0"),
        (
            "SELECT count(*) FROM (SELECT count(*) OVER () AS n FROM generate_series(1, 1000)) WHERE random() < 0.5 AND n < 1000"
                .to_owned(),
            "0",
        ),
        (
            format!(
                "SELECT count(*) > 0 FROM (SELECT value, count(*) AS n FROM ({elements}) WHERE random() < 0.5 GROUP BY value) \
                 WHERE n = 1"
            ),
            "true",
        ),
    ] {
        assert_eq!(rows(&session, &sql).await, [expected], "{sql}");
    }
}

//! Statements one after the other, and what they leave behind.

use std::sync::{Arc, Mutex, mpsc};

use thermocline_engine::datafusion::arrow::array::{Int64Array, RecordBatch};
use thermocline_engine::datafusion::arrow::datatypes::{DataType, Field, Schema};
use thermocline_engine::datafusion::logical_expr::{ColumnarValue, Volatility, create_udf};
use thermocline_engine::datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, collect_partitioned};
use thermocline_engine::{Database, DatabaseOptions, Session};

use crate::column_stars::database;
use crate::harness::{self, FIRST, Folder, MIB, error, integer, numbered_csv, rows, try_rows};

/// A session without a folder, and one with.
fn sessions(folder: &Folder) -> [Session; 2] {
    [harness::session(), database(folder.path(), 128 * MIB).session()]
}

#[tokio::test(flavor = "multi_thread")]
async fn each_statement_is_done_before_the_next_one_begins() {
    let folder = Folder::new();
    let out = folder.path().join("out.csv");
    for session in sessions(&folder) {
        rows(&session, "CREATE TABLE t AS SELECT 1 AS i").await;
        assert_eq!(rows(&session, "INSERT INTO t VALUES (2); SELECT count(*) FROM t").await, ["2"]);
        let copied = format!("COPY t TO '{0}'; SELECT sum(i) FROM '{0}'", out.display());
        assert_eq!(rows(&session, &copied).await, ["3"]);
        // Nobody asks for the rows of an INSERT.
        let [insert] = session.parse("INSERT INTO t VALUES (3)").unwrap().try_into().unwrap();
        drop(session.execute(&insert).await.unwrap());
        assert_eq!(rows(&session, "SELECT count(*) FROM t").await, ["3"]);
        rows(&session, "EXPLAIN ANALYZE INSERT INTO t VALUES (4)").await;
        rows(&session, "EXPLAIN INSERT INTO t VALUES (5)").await;
        assert_eq!(rows(&session, "SELECT sum(i) FROM t").await, ["10"]);
        for begun in ["START TRANSACTION", "COMMIT", "ROLLBACK"] {
            assert!(error(&session, begun).await.contains("transactions"), "{begun}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_that_change_something_are_no_queries() {
    let session = harness::session();
    for (sql, is_query) in [
        ("SELECT 1", true),
        ("EXPLAIN SELECT 1", true),
        ("EXPLAIN ANALYZE SELECT 1", true),
        ("SELECT 1 AS a INTO t", false),
        ("EXPLAIN ANALYZE INSERT INTO t VALUES (1)", false),
    ] {
        let [statement] = session.parse(sql).unwrap().try_into().unwrap();
        assert_eq!(statement.is_query(), is_query, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_columns_of_a_query_are_known_without_running_it() {
    let session = harness::session();
    let (calls, release) = hold(&session);
    drop(release);
    for setting in ["SET thermocline.verify = false", "SET thermocline.verify = true"] {
        rows(&session, setting).await;
        for sql in ["SELECT held(value) AS i FROM range(0, 9)", "SELECT count(held(value)) AS i FROM range(0, 9)"] {
            let [query] = session.parse(sql).unwrap().try_into().unwrap();
            let columns = session.columns(&query).await.unwrap();
            assert_eq!(columns.fields().iter().map(|field| field.name()).collect::<Vec<_>>(), ["i"], "{sql}");
            assert_eq!(columns.field(0).data_type(), &DataType::Int64, "{sql}");
            assert!(calls.try_recv().is_err(), "{sql}");
        }
    }
    rows(&session, "SELECT held(value) AS i FROM range(0, 9)").await;
    assert!(calls.try_recv().is_ok());
    let [change] = session.parse("CREATE TABLE t AS SELECT 1 AS i").unwrap().try_into().unwrap();
    let message = session.columns(&change).await.unwrap_err().to_string();
    assert!(message.contains("CREATE TABLE t"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_view_follows_what_it_is_made_of() {
    let folder = Folder::new();
    for session in sessions(&folder) {
        rows(&session, "CREATE TABLE t AS SELECT 1 AS a; CREATE VIEW v AS SELECT * FROM t").await;
        rows(&session, "CREATE OR REPLACE TABLE t AS SELECT 2 AS a").await;
        assert_eq!(rows(&session, "SELECT a FROM v").await, ["2"]);
        rows(&session, "CREATE OR REPLACE TABLE t AS SELECT 'x' AS b, 3 AS a").await;
        assert_eq!(rows(&session, "SELECT * FROM v").await, ["x|3"]);
        rows(&session, "CREATE VIEW w AS SELECT * FROM v").await;
        let message = error(&session, "CREATE OR REPLACE VIEW v AS SELECT * FROM w").await;
        assert!(message.contains("cannot be defined by itself"), "{message}");
        assert!(error(&session, "CREATE VIEW v AS SELECT 1 AS a").await.contains("already exists"));
        assert!(error(&session, "DROP TABLE v").await.contains("is a view"));
        rows(&session, "DROP TABLE t").await;
        assert!(error(&session, "SELECT * FROM v").await.contains("not found"));
        rows(&session, "DROP VIEW w; DROP VIEW v; DROP VIEW IF EXISTS v").await;
        assert!(error(&session, "DROP VIEW v").await.contains("does not exist"));
        // Text that would be read as another is not kept.
        let quotes = "CREATE VIEW q AS SELECT 'it''''s' AS x";
        assert!(error(&session, quotes).await.contains("cannot be kept"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn names_in_a_kept_view_are_the_same_whoever_asks() {
    let folder = Folder::new();
    let session = database(folder.path(), 128 * MIB).session();
    rows(&session, "CREATE SCHEMA s; CREATE TABLE t AS SELECT 1 AS i; CREATE VIEW v AS SELECT * FROM t").await;
    rows(&session, "SET datafusion.catalog.default_schema = 's'").await;
    rows(&session, "CREATE TABLE t AS SELECT 2 AS i").await;
    assert!(error(&session, "CREATE VIEW w AS SELECT * FROM t").await.contains("public.t"));
    rows(&session, "CREATE VIEW w AS SELECT * FROM s.t").await;
    assert_eq!(rows(&session, "SELECT i FROM w").await, ["2"]);
    assert_eq!(rows(&session, "SELECT i FROM public.v").await, ["1"]);
    assert_eq!(rows(&session, "SELECT i FROM t").await, ["2"]);
    let message = error(&session, "CREATE OR REPLACE VIEW public.v AS SELECT * FROM public.v").await;
    assert!(message.contains("cannot be defined by itself"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kept_view_is_read_alike_whatever_the_session_reads_by() {
    let folder = Folder::new();
    for session in sessions(&folder) {
        rows(&session, "CREATE TABLE t AS SELECT 1 AS a").await;
        rows(&session, "CREATE VIEW v AS SELECT \"a\" FROM t").await;
        rows(&session, "SET datafusion.sql_parser.dialect = 'mysql'").await;
        assert_eq!(rows(&session, "SELECT \"a\" FROM t").await, ["a"]);
        assert_eq!(rows(&session, "SELECT * FROM v").await, ["1"]);
        // Of this dialect's quotes the text of a view would be another statement.
        assert!(error(&session, "CREATE VIEW w AS SELECT \"a\" FROM t").await.contains("read otherwise"));
        rows(&session, "SET datafusion.sql_parser.dialect = 'generic'").await;
        rows(&session, "SET datafusion.sql_parser.enable_ident_normalization = false").await;
        assert!(error(&session, "CREATE VIEW w AS SELECT A FROM t").await.contains("sql_parser"));
        rows(&session, "SET datafusion.sql_parser.enable_ident_normalization = true; CREATE SCHEMA s").await;
        rows(&session, "SET datafusion.catalog.default_schema = 's'").await;
        rows(&session, "CREATE VIEW f AS SELECT * FROM generate_series(1, 3)").await;
        assert_eq!(rows(&session, "SELECT count(*) FROM f").await, ["3"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_copied_into_a_folder_that_is_there() {
    let folder = Folder::new();
    let target = folder.path().join("v1.0");
    std::fs::create_dir(&target).unwrap();
    let session = harness::session();
    let copy = format!("COPY (SELECT 5 AS i) TO '{}' STORED AS PARQUET", target.display());
    rows(&session, &copy).await;
    assert_eq!(rows(&session, &format!("SELECT i FROM '{}/'", target.display())).await, ["5"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_goes_with_its_tables_or_not_at_all() {
    let folder = Folder::new();
    let session = database(folder.path(), 128 * MIB).session();
    rows(&session, "CREATE SCHEMA s; CREATE TABLE s.t AS SELECT 1 AS i").await;
    assert!(error(&session, "DROP SCHEMA s").await.contains("CASCADE"));
    assert_eq!(rows(&session, "SELECT i FROM s.t").await, ["1"]);
    rows(&session, "DROP SCHEMA s CASCADE; CREATE SCHEMA s").await;
    assert!(error(&session, "SELECT i FROM s.t").await.contains("not found"));
    for schema in ["public", "thermocline"] {
        assert!(error(&session, &format!("DROP SCHEMA {schema} CASCADE")).await.contains("cannot be dropped"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_whose_file_is_gone_can_be_dropped_and_replaced() {
    let folder = Folder::new();
    for session in sessions(&folder) {
        let gone = folder.file("gone.csv", numbered_csv(FIRST, 10));
        let there = folder.file("there.csv", numbered_csv(FIRST, 20));
        let create = |what: &str, name: &str, path: &std::path::Path| {
            format!("CREATE {what} {name} STORED AS CSV LOCATION '{}'", path.display())
        };
        rows(&session, &create("EXTERNAL TABLE", "a", &gone)).await;
        rows(&session, &create("EXTERNAL TABLE", "b", &gone)).await;
        std::fs::remove_file(&gone).unwrap();
        rows(&session, "DROP TABLE a").await;
        assert!(error(&session, "DROP TABLE a").await.contains("does not exist"));
        let message = error(&session, &create("EXTERNAL TABLE", "b", &there)).await;
        assert!(message.contains("already exists"), "{message}");
        rows(&session, "CREATE TABLE IF NOT EXISTS b AS SELECT 1 AS i").await;
        rows(&session, &create("OR REPLACE EXTERNAL TABLE", "b", &there)).await;
        assert_eq!(integer(&session, "SELECT count(*) FROM b").await, 20);
        // A path is no table that could be dropped.
        assert!(error(&session, &format!("DROP TABLE '{}'", there.display())).await.contains("does not exist"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_groups_become_a_table_in_the_memory_that_they_take() {
    let folder = Folder::new();
    for session in sessions(&folder) {
        rows(&session, "SET thermocline.memory = '256MiB'").await;
        let groups = "SELECT value AS k, count(*) AS n FROM generate_series(1, 500000) GROUP BY value";
        rows(&session, &format!("CREATE TABLE g AS {groups}")).await;
        assert_eq!(rows(&session, "SELECT count(*), sum(n) FROM g").await, ["500000|500000"]);
        rows(&session, "INSERT INTO g SELECT * FROM g").await;
        assert_eq!(rows(&session, "SELECT count(*), sum(n) FROM g").await, ["1000000|1000000"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn more_rows_than_memory_holds_are_written() {
    let folder = Folder::new();
    let database = database(folder.path(), 48 * MIB);
    let session = database.session();
    let wide = "SELECT value AS i, concat(repeat('x', 3000), value) AS text FROM generate_series(1, 30000)";
    rows(&session, "CREATE TABLE t (i BIGINT, text VARCHAR)").await;
    rows(&session, &format!("INSERT INTO t {wide}")).await;
    let sql = "SELECT count(*), sum(i), min(length(text)), count(DISTINCT right(text, 6)) FROM t";
    assert_eq!(rows(&session, sql).await, ["30000|450015000|3001|30000"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn threads_that_sort_share_a_small_budget() {
    let folder = Folder::new();
    let path = folder.file("t.csv", numbered_csv(FIRST, 400_000));
    let session = harness::database(32 * MIB).session();
    // Each of four threads sets something aside for merging before it has a row: with 10 MiB each this fails.
    let sql = format!("SELECT id FROM '{}' ORDER BY name, id DESC", path.display());
    assert_eq!(rows(&session, &sql).await.len(), 400_000);
}

/// Lets `session` call `held(i)`, which tells that it was called and gives `i` once the sender has gone.
fn hold(session: &Session) -> (mpsc::Receiver<()>, mpsc::Sender<()>) {
    let (called, calls) = mpsc::channel();
    let (release, released) = mpsc::channel();
    let channels = Mutex::new((called, released));
    let wait = move || {
        let (called, released) = &*channels.lock().unwrap();
        // Nobody listens to the calls after the first.
        let _ = called.send(());
        assert_eq!(released.recv(), Err(mpsc::RecvError));
    };
    let held = move |arguments: &[ColumnarValue]| {
        // Others need the runtime's threads meanwhile.
        tokio::task::block_in_place(&wait);
        Ok(arguments[0].clone())
    };
    let types = (vec![DataType::Int64], DataType::Int64);
    session.context().register_udf(create_udf("held", types.0, types.1, Volatility::Volatile, Arc::new(held)));
    (calls, release)
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_added_while_a_table_is_replaced_by_its_own_are_not_lost() {
    let folder = Folder::new();
    for database in [harness::database(256 * MIB), database(folder.path(), 256 * MIB)] {
        let session = database.session();
        rows(&session, "CREATE TABLE t AS SELECT value AS i FROM generate_series(1, 1000)").await;
        for (replace, expected) in [("CREATE OR REPLACE TABLE t AS", "1001"), ("INSERT OVERWRITE t", "1002")] {
            let replacing = database.session();
            let (calls, release) = hold(&replacing);
            let sql = format!("{replace} SELECT held(i) AS i FROM t");
            let replaced = tokio::spawn(async move { try_rows(&replacing, &sql).await });
            tokio::task::block_in_place(|| calls.recv()).unwrap();
            rows(&session, "INSERT INTO t VALUES (0)").await;
            drop(release);
            let error = replaced.await.unwrap().unwrap_err().to_string();
            assert!(error.contains("try again"), "{error}");
            assert_eq!(rows(&session, "SELECT count(*) FROM t").await, [expected]);
        }
        rows(&session, "INSERT OVERWRITE t SELECT i FROM t WHERE i < 3").await;
        assert_eq!(rows(&session, "SELECT count(*), sum(i) FROM t").await, ["4|3"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_text_among_many_nulls_can_be_read() {
    let folder = Folder::new();
    let session = database(folder.path(), 512 * MIB).session();
    let text = "CASE WHEN value % 15000 = 7 THEN repeat(chr(CAST(65 + value % 2 AS BIGINT)), 150000) END";
    for (table, texts) in [("one", text.replace("value % 2", "0")), ("two", text.to_owned())] {
        rows(
            &session,
            &format!("CREATE TABLE {table} AS SELECT value AS i, {texts} AS s FROM generate_series(1, 40000)"),
        )
        .await;
        rows(&session, "SET thermocline.fused_pipelines = 'off'").await;
        let sql = format!("SELECT count(*), count(s), max(length(s)), sum(length(s)) FROM {table} WHERE i > 0");
        assert_eq!(rows(&session, &sql).await, ["40000|3|150000|450000"]);
        rows(&session, "SET thermocline.fused_pipelines = 'on'").await;
        assert_eq!(rows(&session, &sql).await, ["40000|3|150000|450000"]);
    }
}

/// The nodes that read tables.
fn scans(plan: &Arc<dyn ExecutionPlan>) -> Vec<Arc<dyn ExecutionPlan>> {
    match plan.children().as_slice() {
        [] => vec![Arc::clone(plan)],
        children => children.iter().flat_map(|child| scans(child)).collect(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scan_that_is_executed_again_gives_all_rows_again() {
    let folder = Folder::new();
    let path = folder.settled_file("t.csv", numbered_csv(FIRST, 200_000));
    let session = database(folder.path(), 256 * MIB).session();
    rows(&session, "CREATE TABLE c AS SELECT value AS i FROM generate_series(1, 400000)").await;
    rows(&session, "SET thermocline.fused_pipelines = 'off'").await;
    for (sql, row_count) in
        [("SELECT * FROM c".to_owned(), 400_000), (format!("SELECT * FROM '{}'", path.display()), 200_000)]
    {
        let state = session.context().state();
        let plan = state.create_physical_plan(&state.create_logical_plan(&sql).await.unwrap()).await.unwrap();
        let [scan] = scans(&plan).try_into().unwrap();
        assert!(
            scan.name().ends_with("ScanExec") && scan.output_partitioning().partition_count() > 1,
            "{}",
            scan.name()
        );
        for _ in 0..3 {
            let partitions = collect_partitioned(Arc::clone(&scan), state.task_ctx()).await.unwrap();
            let found: usize = partitions.iter().flatten().map(|batch| batch.num_rows()).sum();
            assert_eq!(found, row_count, "{sql}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_is_replaced_is_there_all_the_time() {
    let session = harness::session();
    let schema = Arc::new(Schema::new(vec![Field::new("i", DataType::Int64, false)]));
    let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(Int64Array::from(vec![1, 2, 3]))]).unwrap();
    session.register_batches("t", Arc::clone(&schema), vec![batch.clone()]).unwrap();
    rows(&session, "CREATE TABLE made AS SELECT 1 AS i").await;
    rows(&session, "CREATE SCHEMA s").await;
    rows(&session, "CREATE TABLE s.made AS SELECT 1 AS i").await;
    rows(&session, "CREATE VIEW seen AS SELECT 1 AS i").await;
    let replacing = (0..2).map(|_| {
        let (session, schema, batch) = (session.clone(), Arc::clone(&schema), batch.clone());
        tokio::spawn(async move {
            for _ in 0..100 {
                session.register_batches("t", Arc::clone(&schema), vec![batch.clone()]).unwrap();
                rows(&session, "CREATE OR REPLACE TABLE made AS SELECT 1 AS i").await;
                rows(&session, "CREATE OR REPLACE TABLE s.made AS SELECT 1 AS i").await;
                rows(&session, "CREATE OR REPLACE VIEW seen AS SELECT 1 AS i").await;
            }
        })
    });
    let replacing: Vec<_> = replacing.collect();
    while !replacing.iter().all(tokio::task::JoinHandle::is_finished) {
        for (sql, answer) in [
            ("SELECT count(*) FROM t", "3"),
            ("SELECT i FROM made", "1"),
            ("SELECT i FROM s.made", "1"),
            ("SELECT i FROM seen", "1"),
        ] {
            assert_eq!(rows(&session, sql).await, [answer]);
        }
    }
    for replaced in replacing {
        replaced.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn threads_are_a_number_that_a_machine_may_have() {
    let session = harness::session();
    for threads in ["-1", "99999999999999", "1025", "many"] {
        for name in ["threads", "datafusion.execution.target_partitions"] {
            let refused = error(&session, &format!("SET {name} = '{threads}'")).await;
            assert!(refused.contains("expected a number from 1 to 1024"), "{threads}: {refused}");
        }
    }
    rows(&session, "SET threads = 3").await;
    assert_eq!(rows(&session, "SHOW threads").await, ["datafusion.execution.target_partitions|3"]);
    let options = |threads| DatabaseOptions { threads: Some(threads), ..DatabaseOptions::default() };
    for threads in [0, 1025] {
        assert!(Database::open(options(threads)).unwrap_err().to_string().contains("from 1 to 1024"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_that_a_query_computes_may_be_null() {
    let folder = Folder::new();
    for session in sessions(&folder) {
        rows(&session, "CREATE TABLE t AS SELECT 1 AS a, 'x' AS b").await;
        rows(&session, "INSERT INTO t VALUES (NULL, NULL)").await;
        rows(&session, "INSERT INTO t SELECT a + 1, b FROM t").await;
        assert_eq!(rows(&session, "SELECT a, b FROM t ORDER BY a, b").await, ["1|x", "2|x", "NULL|NULL", "NULL|NULL"]);
        rows(&session, "CREATE TABLE declared (a BIGINT NOT NULL)").await;
        assert!(try_rows(&session, "INSERT INTO declared VALUES (NULL)").await.is_err());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_of_lists_is_counted_once_in_whatever_pieces_it_comes() {
    let session = harness::session();
    let lists = "SELECT value AS k, array_agg(value) AS v FROM generate_series(1, 200000) GROUP BY 1";
    rows(&session, &format!("CREATE TABLE g AS {lists}")).await;
    let bytes = integer(&session, "SELECT sum(bytes) FROM thermocline.memory WHERE name = 'g'").await;
    // A key, an offset and a value each.
    let least_bytes = 200_000 * (8 + 4 + 8);
    assert!((least_bytes..3 * least_bytes).contains(&bytes), "{bytes}");
    assert_eq!(rows(&session, "SELECT count(*), sum(v[1] - k) FROM g").await, ["200000|0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prepared_statement_keeps_no_memory_of_a_table_that_is_dropped() {
    let session = harness::session();
    rows(&session, "CREATE TABLE dropped AS SELECT value FROM generate_series(1, 10000)").await;
    let held = "SELECT coalesce(sum(bytes), 0) FROM thermocline.memory WHERE name = 'dropped'";
    assert!(integer(&session, held).await >= 80_000);
    rows(&session, "PREPARE counted AS SELECT count(*) FROM dropped").await;
    assert_eq!(rows(&session, "EXECUTE counted").await, ["10000"]);
    let again = error(&session, "PREPARE counted AS SELECT 1").await;
    assert!(again.contains("already exists"), "{again}");
    rows(&session, "DROP TABLE dropped").await;
    assert_eq!(integer(&session, held).await, 0);
    rows(&session, "DEALLOCATE counted").await;
    assert!(error(&session, "DEALLOCATE counted").await.contains("does not exist"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_setting_that_is_reset_has_the_value_of_a_new_session() {
    let session = harness::session();
    for (name, other) in [
        ("datafusion.execution.target_partitions", "3"),
        ("datafusion.execution.max_spill_file_size_bytes", "1000"),
        ("datafusion.execution.skip_physical_aggregate_schema_check", "false"),
        ("datafusion.execution.parquet.bloom_filter_on_read", "false"),
        ("datafusion.execution.batch_size", "100"),
    ] {
        let before = rows(&session, &format!("SHOW {name}")).await;
        rows(&session, &format!("SET {name} = '{other}'")).await;
        assert_ne!(rows(&session, &format!("SHOW {name}")).await, before);
        rows(&session, &format!("RESET {name}")).await;
        assert_eq!(rows(&session, &format!("SHOW {name}")).await, before);
    }
    let table = "CREATE TABLE t AS SELECT 1 AS a; SET datafusion.catalog.default_catalog = 'elsewhere'";
    rows(&session, table).await;
    assert!(try_rows(&session, "SELECT a FROM t").await.is_err());
    rows(&session, "RESET datafusion.catalog.default_catalog").await;
    assert_eq!(rows(&session, "SELECT a FROM t").await, ["1"]);
    rows(&session, "SET threads = 2; RESET threads").await;
    assert_eq!(rows(&session, "SHOW threads").await, ["datafusion.execution.target_partitions|4"]);
    assert!(try_rows(&session, "RESET datafusion.execution.nothing").await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_that_would_not_be_looked_at_are_refused() {
    let session = harness::session();
    for (name, refused, reason, accepted) in [
        ("pushdown_filters", "false", "by their scan", Some("true")),
        ("coerce_int96", "ns", "as microseconds", Some("us")),
        ("coerce_int96_tz", "UTC", "without a time zone", None),
        ("binary_as_string", "true", "CAST(column AS VARCHAR)", Some("false")),
        ("schema_force_view_types", "FALSE", "as views", Some("TRUE")),
    ] {
        let name = format!("datafusion.execution.parquet.{name}");
        let before = rows(&session, &format!("SHOW {name}")).await;
        let refusal = error(&session, &format!("SET {name} = '{refused}'")).await;
        assert!(refusal.contains(&name) && refusal.contains(reason), "{refusal}");
        assert_eq!(rows(&session, &format!("SHOW {name}")).await, before);
        if let Some(accepted) = accepted {
            rows(&session, &format!("SET {name} = '{accepted}'")).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn amounts_of_memory_are_shown_so_that_they_can_be_set_again() {
    let database = harness::database(512 * MIB);
    let session = database.session();
    for (written, shown) in [("1.05GiB", "1127428915 B"), ("512MiB", "512 MiB"), ("300MB", "300 MB")] {
        for name in ["thermocline.memory", "thermocline.cache_memory"] {
            rows(&session, &format!("SET {name} = '{written}'")).await;
            assert_eq!(rows(&session, &format!("SHOW {name}")).await, [format!("{name}|{shown}")]);
            rows(&session, &format!("SET {name} = '{shown}'")).await;
            assert_eq!(rows(&session, &format!("SHOW {name}")).await, [format!("{name}|{shown}")]);
        }
    }
    rows(&session, "SET thermocline.memory = '50%'").await;
    assert_eq!(database.budget().limit_bytes(), database.machine().usable_memory_bytes() / 2);
}

/// Inputs of a UNION that are no plain SELECT keep the names that their own columns have.
#[tokio::test(flavor = "multi_thread")]
async fn a_table_is_made_of_any_union() {
    let folder = Folder::new();
    for session in sessions(&folder) {
        rows(&session, "CREATE TABLE u AS SELECT value AS b FROM generate_series(1, 3)").await;
        for input in [
            "SELECT DISTINCT b FROM u",
            "(SELECT b FROM u LIMIT 3)",
            "VALUES (1), (2), (3)",
            "(SELECT b FROM u WHERE b < 2 UNION ALL SELECT b AS c FROM u WHERE b > 1)",
        ] {
            rows(&session, &format!("CREATE OR REPLACE TABLE t AS SELECT 10 AS a UNION ALL {input}")).await;
            assert_eq!(rows(&session, "SELECT count(a), sum(a) FROM t").await, ["4|16"], "{input}");
        }
    }
}

//! Tables and views that get, or keep, the name of another one, also while statements are under way.

use std::sync::Arc;

use async_trait::async_trait;
use futures::stream;
use thermocline_engine::Session;
use thermocline_engine::datafusion::arrow::array::{Int64Array, RecordBatch};
use thermocline_engine::datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use thermocline_engine::datafusion::catalog::streaming::StreamingTable;
use thermocline_engine::datafusion::catalog::{Session as DataFusionSession, TableProvider};
use thermocline_engine::datafusion::common::Result as DataFusionResult;
use thermocline_engine::datafusion::execution::{SendableRecordBatchStream, TaskContext};
use thermocline_engine::datafusion::logical_expr::{Expr, TableType};
use thermocline_engine::datafusion::physical_plan::ExecutionPlan;
use thermocline_engine::datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use thermocline_engine::datafusion::physical_plan::streaming::PartitionStream;

use crate::column_stars::database;
use crate::harness::{self, FIRST, Folder, MIB, error, integer, numbered_csv, rows, sorted_rows, try_rows};

/// One row, `i = 1`, which comes once another session has run some statements.
#[derive(Debug)]
struct Meanwhile {
    schema: SchemaRef,
    other: Session,
    statements: &'static str,
}

impl PartitionStream for Meanwhile {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let (schema, other, statements) = (Arc::clone(&self.schema), self.other.clone(), self.statements);
        let row = async move {
            rows(&other, statements).await;
            Ok(RecordBatch::try_new(schema, vec![Arc::new(Int64Array::from(vec![1]))])?)
        };
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), stream::once(row)))
    }
}

/// What a statement gives that reads the table `meanwhile`, while another session runs the others.
async fn beside(session: &Session, statement: &str, others: &'static str) -> thermocline_engine::Result<Vec<String>> {
    let schema = Arc::new(Schema::new(vec![Field::new("i", DataType::Int64, false)]));
    let other = session.database().session();
    let rows = Meanwhile { schema: Arc::clone(&schema), other, statements: others };
    let table = StreamingTable::try_new(schema, vec![Arc::new(rows)]).unwrap();
    session.context().register_table("meanwhile", Arc::new(table)).unwrap();
    let answer = try_rows(session, statement).await;
    session.context().deregister_table("meanwhile").unwrap();
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_for_a_table_do_not_come_into_one_that_took_its_place() {
    let folder = Folder::new();
    for session in [harness::session(), database(folder.path(), 128 * MIB).session()] {
        for made in ["CREATE TABLE t (i BIGINT)", "CREATE TABLE t AS SELECT value AS i FROM generate_series(10, 12)"] {
            for others in [
                "DROP TABLE t; CREATE TABLE t (i BIGINT)",
                "DROP TABLE t; CREATE TABLE t AS SELECT 7 AS i",
                "CREATE OR REPLACE TABLE t AS SELECT 7 AS i",
                "DROP TABLE t",
            ] {
                for statement in ["INSERT INTO t SELECT i FROM meanwhile", "INSERT OVERWRITE t SELECT i FROM meanwhile"]
                {
                    rows(&session, "DROP TABLE IF EXISTS t").await;
                    rows(&session, made).await;
                    let message = beside(&session, statement, others).await.unwrap_err().to_string();
                    assert!(
                        message.contains("was dropped or replaced while rows were inserted"),
                        "{others}: {message}"
                    );
                    rows(&session, "CREATE TABLE IF NOT EXISTS t (i BIGINT)").await;
                    let before = integer(&session, "SELECT count(*) FROM t").await;
                    assert!(before < 2, "{others}: {before} rows");
                    // Who comes later finds the new one.
                    rows(&session, "INSERT INTO t VALUES (8)").await;
                    assert_eq!(integer(&session, "SELECT count(*) FROM t WHERE i = 8").await, 1, "{others}");
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_for_a_table_whose_schema_is_dropped_fail() {
    let folder = Folder::new();
    for session in [harness::session(), database(folder.path(), 128 * MIB).session()] {
        rows(&session, "CREATE SCHEMA s; CREATE TABLE s.t (i BIGINT)").await;
        let others = "DROP SCHEMA s CASCADE";
        let message = beside(&session, "INSERT INTO s.t SELECT i FROM meanwhile", others).await.unwrap_err();
        assert!(message.to_string().contains("was dropped or replaced while rows were inserted"), "{message}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_of_the_hosts_takes_rows_as_long_as_it_has_a_name() {
    let session = harness::session();
    rows(&session, "CREATE TABLE t AS SELECT 0 AS i").await;
    let table = session.context().table_provider("t").await.unwrap();
    session.context().register_table("u", table).unwrap();
    // Under one of its names it is still there.
    beside(&session, "INSERT INTO t SELECT i FROM meanwhile", "DROP TABLE t").await.unwrap();
    assert_eq!(sorted_rows(&session, "SELECT i FROM u").await, ["0", "1"]);
    let table = session.context().deregister_table("u").unwrap().unwrap();
    session.context().register_table("t", table).unwrap();
    rows(&session, "INSERT INTO t VALUES (2)").await;
    let others = "CREATE OR REPLACE TABLE t AS SELECT 7 AS i";
    let message = beside(&session, "INSERT INTO t SELECT i FROM meanwhile", others).await.unwrap_err();
    assert!(message.to_string().contains("was dropped or replaced while rows were inserted"), "{message}");
    assert_eq!(rows(&session, "SELECT i FROM t").await, ["7"]);
    let batch = RecordBatch::try_from_iter([("i", Arc::new(Int64Array::from(vec![6])) as _)]).unwrap();
    session.register_batches("frame", batch.schema(), vec![batch.clone()]).unwrap();
    rows(&session, "INSERT INTO frame VALUES (7)").await;
    assert_eq!(sorted_rows(&session, "SELECT i FROM frame").await, ["6", "7"]);
    session.register_batches("frame", batch.schema(), vec![batch]).unwrap();
    rows(&session, "INSERT INTO frame VALUES (8)").await;
    assert_eq!(sorted_rows(&session, "SELECT i FROM frame").await, ["6", "8"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_added_to_a_table_whose_rows_change_meanwhile() {
    let folder = Folder::new();
    for session in [harness::session(), database(folder.path(), 128 * MIB).session()] {
        for (others, expected) in [
            ("INSERT INTO t VALUES (2)", vec!["0", "1", "2"]),
            ("INSERT OVERWRITE t VALUES (3)", vec!["1", "3"]),
            ("CREATE TABLE other AS SELECT 1 AS i; DROP TABLE other", vec!["0", "1"]),
        ] {
            rows(&session, "CREATE OR REPLACE TABLE t AS SELECT 0 AS i").await;
            beside(&session, "INSERT INTO t SELECT i FROM meanwhile", others).await.unwrap();
            assert_eq!(sorted_rows(&session, "SELECT i FROM t").await, expected, "{others}");
        }
    }
}

/// One row, in a table whose scan is planned once another session has run some statements.
#[derive(Debug)]
struct MeanwhilePlanned {
    rows: Arc<dyn TableProvider>,
    other: Session,
    statements: &'static str,
}

#[async_trait]
impl TableProvider for MeanwhilePlanned {
    fn schema(&self) -> SchemaRef {
        self.rows.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        session: &dyn DataFusionSession,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        rows(&self.other, self.statements).await;
        self.rows.scan(session, projection, filters, limit).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_is_overwritten_by_rows_of_its_own_loses_none_that_come_meanwhile() {
    let folder = Folder::new();
    let others = "INSERT INTO t VALUES (2)";
    for session in [harness::session(), database(folder.path(), 128 * MIB).session()] {
        for fused in ["on", "off"] {
            rows(&session, &format!("SET thermocline.fused_pipelines = '{fused}'")).await;
            rows(&session, "CREATE OR REPLACE TABLE planned AS SELECT 1 AS i").await;
            let table = session.context().table_provider("planned").await.unwrap();
            let other = session.database().session();
            let table = MeanwhilePlanned { rows: table, other, statements: others };
            session.context().register_table("meanwhile_planned", Arc::new(table)).unwrap();
            for statement in [
                "INSERT OVERWRITE t SELECT i FROM t UNION ALL SELECT i FROM FROM_TABLE",
                // What a subquery reads is not below what writes.
                "INSERT OVERWRITE t SELECT i + (SELECT max(i) FROM t) AS i FROM FROM_TABLE",
                "INSERT OVERWRITE t SELECT i FROM FROM_TABLE WHERE i >= (SELECT count(*) FROM t a JOIN t b ON a.i = b.i)",
            ] {
                rows(&session, "CREATE OR REPLACE TABLE t AS SELECT 0 AS i").await;
                let message =
                    beside(&session, &statement.replace("FROM_TABLE", "meanwhile"), others).await.unwrap_err();
                let message = message.to_string();
                assert!(message.contains("was changed while it was being overwritten"), "{statement}: {message}");
                assert_eq!(sorted_rows(&session, "SELECT i FROM t").await, ["0", "2"], "{statement}");
                if statement.contains("UNION") {
                    // Which of its inputs is planned first is not known.
                    continue;
                }
                rows(&session, "CREATE OR REPLACE TABLE t AS SELECT 0 AS i").await;
                let message = error(&session, &statement.replace("FROM_TABLE", "meanwhile_planned")).await;
                assert!(message.contains("was changed while it was being overwritten"), "{statement}: {message}");
                assert_eq!(sorted_rows(&session, "SELECT i FROM t").await, ["0", "2"], "{statement}");
            }
            // By its own rows, and nobody comes between.
            rows(&session, "CREATE OR REPLACE TABLE t AS SELECT 5 AS i").await;
            rows(&session, "INSERT OVERWRITE t SELECT i + (SELECT max(i) FROM t) AS i FROM t").await;
            assert_eq!(rows(&session, "SELECT i FROM t").await, ["10"]);
            session.context().deregister_table("meanwhile_planned").unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_another_statement_makes_first_is_kept_if_that_was_asked_for() {
    let folder = Folder::new();
    for session in [harness::session(), database(folder.path(), 128 * MIB).session()] {
        let others = "CREATE TABLE t AS SELECT 7 AS i";
        beside(&session, "CREATE TABLE IF NOT EXISTS t AS SELECT i FROM meanwhile", others).await.unwrap();
        assert_eq!(rows(&session, "SELECT i FROM t").await, ["7"]);
        rows(&session, "DROP TABLE t").await;
        let message = beside(&session, "CREATE TABLE t AS SELECT i FROM meanwhile", others).await.unwrap_err();
        assert!(message.to_string().contains("already exists"), "{message}");
        assert_eq!(rows(&session, "SELECT i FROM t").await, ["7"]);
        beside(&session, "CREATE OR REPLACE TABLE t AS SELECT i FROM meanwhile", "DROP TABLE t").await.unwrap();
        assert_eq!(rows(&session, "SELECT i FROM t").await, ["1"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_is_replaced_by_rows_of_its_own_loses_none_that_come_meanwhile() {
    let folder = Folder::new();
    let statement = "CREATE OR REPLACE TABLE t AS SELECT i FROM t UNION ALL SELECT i FROM meanwhile";
    for session in [harness::session(), database(folder.path(), 128 * MIB).session()] {
        for (others, expected) in
            [("INSERT INTO t VALUES (2)", vec!["0", "2"]), ("CREATE OR REPLACE TABLE t AS SELECT 7 AS i", vec!["7"])]
        {
            rows(&session, "CREATE OR REPLACE TABLE t AS SELECT 0 AS i").await;
            let message = beside(&session, statement, others).await.unwrap_err().to_string();
            assert!(message.contains("was changed while it was being replaced"), "{others}: {message}");
            assert_eq!(sorted_rows(&session, "SELECT i FROM t").await, expected, "{others}");
        }
        let others = "CREATE TABLE other AS SELECT 1 AS i; DROP TABLE other";
        rows(&session, "CREATE OR REPLACE TABLE t AS SELECT 0 AS i").await;
        beside(&session, statement, others).await.unwrap();
        assert_eq!(sorted_rows(&session, "SELECT i FROM t").await, ["0", "1"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_is_there_is_kept_without_a_look_at_the_file_of_the_other() {
    let folder = Folder::new();
    for session in [harness::session(), database(folder.path(), 128 * MIB).session()] {
        let file = folder.file("t.csv", numbered_csv(FIRST, 10));
        let create = format!("EXTERNAL TABLE e STORED AS CSV LOCATION '{}'", file.display());
        rows(&session, &format!("CREATE {create}")).await;
        std::fs::remove_file(&file).unwrap();
        let if_missing = create.replace("TABLE e", "TABLE IF NOT EXISTS e");
        rows(&session, &format!("CREATE {if_missing}")).await;
        assert!(error(&session, &format!("CREATE {create}")).await.contains("already exists"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_replaced_by_tables_alone() {
    let folder = Folder::new();
    let file = folder.file("t.csv", numbered_csv(FIRST, 10));
    let external =
        |name: &str| format!("CREATE OR REPLACE EXTERNAL TABLE {name} STORED AS CSV LOCATION '{}'", file.display());
    for session in [harness::session(), database(folder.path(), 128 * MIB).session()] {
        rows(&session, "CREATE TABLE t AS SELECT 1 AS i; CREATE VIEW v AS SELECT 2 AS i").await;
        for (statement, is) in [
            ("CREATE OR REPLACE VIEW t AS SELECT 3 AS i".to_owned(), "t' is a table"),
            (external("t"), "t' is a table with rows"),
            ("CREATE OR REPLACE TABLE v AS SELECT 3 AS i".to_owned(), "v' is a view"),
            (external("v"), "v' is a view"),
        ] {
            let message = error(&session, &statement).await;
            assert!(message.contains(is), "{statement}: {message}");
        }
        assert_eq!(rows(&session, "SELECT t.i, v.i FROM t, v").await, ["1|2"]);
        // Also if it was made meanwhile.
        let others = "CREATE VIEW w AS SELECT 5 AS i";
        let message =
            beside(&session, "CREATE OR REPLACE TABLE w AS SELECT i FROM meanwhile", others).await.unwrap_err();
        assert!(message.to_string().contains("w' is a view"), "{message}");
        assert_eq!(rows(&session, "SELECT i FROM w").await, ["5"]);
        // Like by like, and what was over a file by rows.
        rows(&session, "CREATE OR REPLACE VIEW v AS SELECT 4 AS i; CREATE OR REPLACE TABLE t AS SELECT 5 AS i").await;
        assert_eq!(rows(&session, "SELECT t.i, v.i FROM t, v").await, ["5|4"]);
        rows(&session, &external("e")).await;
        rows(&session, &external("e")).await;
        rows(&session, "CREATE OR REPLACE TABLE e AS SELECT id FROM e WHERE id = 10003").await;
        assert_eq!(rows(&session, "SELECT id FROM e").await, ["10003"]);
        // Frames of the host's are tables.
        let batch = RecordBatch::try_from_iter([("i", Arc::new(Int64Array::from(vec![6])) as _)]).unwrap();
        session.register_batches("frame", batch.schema(), vec![batch]).unwrap();
        assert!(error(&session, "CREATE OR REPLACE VIEW frame AS SELECT 1 AS i").await.contains("is a table"));
        assert_eq!(rows(&session, "SELECT i FROM frame").await, ["6"]);
    }
}

//! `information_schema` and what is built on it list all there is, though some of it can no longer be read.

use std::fs;
use std::path::Path;

use thermocline_engine::datafusion::prelude::{SessionConfig, SessionContext};
use thermocline_engine::{Database, DatabaseOptions, Session, add_caches};

use crate::harness::{FIRST, Folder, MIB, error, numbered_csv, rendered, reopen, rows, session};

fn open(folder: &Path) -> Session {
    let options = DatabaseOptions {
        folder: Some(folder.to_path_buf()),
        memory_bytes: Some(128 * MIB),
        threads: Some(2),
        ..DatabaseOptions::default()
    };
    reopen(&options).session()
}

const TABLES: &str =
    "SELECT table_name, table_type FROM information_schema.tables WHERE table_schema = 'public' ORDER BY 1";
const COLUMNS: &str = "SELECT table_name, column_name, data_type FROM information_schema.columns
                       WHERE table_schema = 'public' ORDER BY table_name, ordinal_position";
const VIEWS: &str = "SELECT table_name, definition FROM information_schema.views
                     WHERE table_schema = 'public' AND definition IS NOT NULL ORDER BY 1";

#[tokio::test(flavor = "multi_thread")]
async fn what_can_no_longer_be_read_is_listed_beside_what_can() {
    let folder = Folder::new();
    let path = folder.path().join("kept.db");
    let csv = folder.file("e.csv", numbered_csv(FIRST, 10));
    let session = open(&path);
    for statement in [
        "CREATE TABLE t AS SELECT 1 AS i, 'one' AS s".to_string(),
        "CREATE TABLE dropped AS SELECT 1 AS i".to_string(),
        "CREATE VIEW broken AS SELECT i FROM dropped".to_string(),
        "CREATE VIEW whole AS SELECT s FROM t".to_string(),
        format!(
            "CREATE EXTERNAL TABLE e STORED AS CSV LOCATION '{}' OPTIONS ('format.has_header' 'true')",
            csv.display()
        ),
        "DROP TABLE dropped".to_string(),
    ] {
        rows(&session, &statement).await;
    }
    fs::remove_file(csv).unwrap();
    assert_eq!(rows(&session, TABLES).await, ["broken|VIEW", "e|BASE TABLE", "t|BASE TABLE", "whole|VIEW"]);
    assert_eq!(rows(&session, COLUMNS).await, ["t|i|Int64", "t|s|Utf8", "whole|s|Utf8"]);
    let views = ["broken|CREATE VIEW broken AS SELECT i FROM dropped", "whole|CREATE VIEW whole AS SELECT s FROM t"];
    assert_eq!(rows(&session, VIEWS).await, views);
    assert_eq!(rows(&session, "SHOW TABLES").await.iter().filter(|row| row.contains("|public|")).count(), 4);
    assert_eq!(rows(&session, "SHOW COLUMNS FROM whole").await.len(), 1);
    // Who asks for one of them is told.
    assert!(error(&session, "SELECT * FROM broken").await.contains("dropped"));
    assert!(error(&session, "SHOW COLUMNS FROM broken").await.contains("dropped"));
    assert!(error(&session, "SELECT * FROM e").await.contains("e.csv: no such file"));
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_whose_files_are_damaged_are_listed_with_their_columns() {
    let folder = Folder::new();
    let path = folder.path().join("kept.db");
    rows(&open(&path), "CREATE TABLE t AS SELECT 1 AS i, 'one' AS s").await;
    fs::write(path.join("tables/00000000.segment"), "not what was written").unwrap();
    let session = open(&path);
    assert_eq!(rows(&session, COLUMNS).await, ["t|i|Int64", "t|s|Utf8"]);
    assert!(error(&session, "SELECT * FROM t").await.contains("00000000.segment"));
    let system = "SELECT count(*) > 5 FROM information_schema.columns WHERE table_schema = 'thermocline'
                  AND table_name = 'columns'";
    assert_eq!(rows(&session, system).await, ["true"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_table_is_made_where_the_database_tells_of_itself() {
    let folder = Folder::new();
    let session = open(&folder.path().join("kept.db"));
    for schema in ["information_schema", "thermocline"] {
        for statement in
            [format!("CREATE TABLE {schema}.t AS SELECT 1 AS i"), format!("CREATE VIEW {schema}.v AS SELECT 1 AS i")]
        {
            let message = error(&session, &statement).await;
            assert!(message.contains(&format!("schema '{schema}' takes no tables")), "{message}");
        }
    }
    assert_eq!(rows(&session, TABLES).await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_else_information_schema_has_is_there_as_before() {
    let session = session();
    for (statement, least) in [
        ("SELECT * FROM information_schema.schemata WHERE schema_name IN ('public', 'thermocline')", 2),
        ("SELECT * FROM information_schema.df_settings", 50),
        ("SELECT * FROM information_schema.routines WHERE routine_name = 'abs'", 1),
        ("SELECT * FROM information_schema.routines WHERE routine_name = 'generate_series' AND data_type = 'TABLE'", 1),
        ("SELECT * FROM main.information_schema.parameters", 50),
        ("SHOW FUNCTIONS LIKE 'abs'", 1),
        ("SHOW ALL", 50),
    ] {
        let found = rows(&session, statement).await.len();
        assert!(found >= least, "{statement}: {found}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hosts_context_has_an_information_schema_only_if_it_wants_one() {
    let options = DatabaseOptions { memory_bytes: Some(64 * MIB), ..DatabaseOptions::default() };
    let database = Database::open(options).unwrap();
    for is_wanted in [true, false] {
        let config = SessionConfig::new().with_information_schema(is_wanted);
        let context = add_caches(&database, &SessionContext::new_with_config(config));
        context.sql("CREATE TABLE t AS SELECT 1 AS i").await.unwrap().collect().await.unwrap();
        let listed = context.sql("SELECT column_name FROM information_schema.columns WHERE table_name = 't'").await;
        match listed {
            Ok(frame) => {
                assert!(is_wanted);
                assert_eq!(rendered(&frame.collect().await.unwrap()), ["i"]);
            }
            Err(error) => assert!(!is_wanted, "{error}"),
        }
    }
}

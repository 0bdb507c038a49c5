//! A medium that fails under SQL: at each of a statement's operations in turn, and at each of a query's reads.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::util::display::array_value_to_string;
use thermocline_medium::{Fault, Medium, SimulatedMedium};

use crate::database::{Database, DatabaseOptions};
use crate::error::{Error, ErrorKind, Result};
use crate::session::Session;

/// A database whose tables are on a simulated medium.
struct Simulated {
    folder: tempfile::TempDir,
    medium: Arc<SimulatedMedium>,
}

/// A session of the database in `folder`, as soon as this process has it open no more: tasks of a query that failed may
/// hold it for longer than opening waits (two seconds).
fn open(folder: &Path, medium: &Arc<SimulatedMedium>) -> Result<Session> {
    // One thread, so that operations come in one order.
    let options = DatabaseOptions {
        folder: Some(folder.to_path_buf()),
        memory_bytes: Some(64 << 20),
        threads: Some(1),
        ..DatabaseOptions::default()
    };
    let try_open = || Database::open_on(options.clone(), Some(Arc::<SimulatedMedium>::clone(medium)));
    let is_held = |opened: &Result<Arc<Database>>| {
        opened.as_ref().is_err_and(|error| error.to_string().contains("in this process already"))
    };
    let opened = (0..30).map(|_| try_open()).find(|opened| !is_held(opened)).expect("the folder is held for a minute");
    Ok(opened?.session())
}

impl Simulated {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), medium: Arc::new(SimulatedMedium::new(512)) }
    }

    fn session(&self) -> Session {
        open(self.folder.path(), &self.medium).unwrap()
    }

    fn files(&self) -> Vec<String> {
        self.medium.list().unwrap()
    }

    /// Bytes of all files, which tell more than their names.
    fn size_bytes(&self) -> u64 {
        let size_bytes = |name: &String| self.medium.size_bytes(&self.medium.open(name).unwrap()).unwrap();
        self.files().iter().filter(|name| *name != "manifest").map(size_bytes).sum()
    }
}

/// The rows of a statement, each as its values joined by `|`.
async fn rows(session: &Session, sql: &str) -> Result<Vec<String>> {
    let mut rows = Vec::new();
    for batch in session.sql(sql).await?.collect().await? {
        for row in 0..batch.num_rows() {
            let values = batch.columns().iter().map(|column| array_value_to_string(column, row).unwrap());
            rows.push(values.collect::<Vec<_>>().join("|"));
        }
    }
    Ok(rows)
}

async fn one(session: &Session, sql: &str) -> String {
    rows(session, sql).await.unwrap_or_else(|error| panic!("{sql}: {error}")).remove(0)
}

/// Two row groups, in no order that would make them small.
const MADE: &str = "SELECT value AS i, value * 7919 % 1000003 AS k FROM generate_series(1, 300000)";
const EARLIER: &str = "300|45150";
const LATER: &str = "300000|45000150000";
const QUESTION: &str = "SELECT count(*), sum(i) FROM t";

/// What a failed change leaves: the statement's error, and whether it is known that it was not made.
fn is_doubtful(error: &Error, story: &str, expected: ErrorKind) -> bool {
    let message = error.to_string();
    assert!(
        message.contains(".segment") || message.contains("manifest") || message.contains("the medium"),
        "{story}: {message}"
    );
    assert!(message.contains("cannot "), "{story}: {message}");
    assert_eq!(error.kind(), expected, "{story}: {message}");
    message.starts_with("whether this change is saved is not known")
}

/// Runs a change with each of its operations failing in turn, until it comes to an end undisturbed. Returns how often
/// it was in doubt, and how often it failed.
async fn fail_everywhere(change: &str, fault: Fault, after: &str, kind: ErrorKind) -> (usize, usize) {
    let (mut doubt_count, mut failure_count) = (0, 0);
    for index in 0.. {
        let story = format!("{change}: {fault:?} at operation {index}");
        let database = Simulated::new();
        let session = database.session();
        rows(&session, "CREATE TABLE t AS SELECT value AS i, value AS k FROM generate_series(1, 300)").await.unwrap();
        let (files, size_bytes) = (database.files(), database.size_bytes());
        let failing = database.medium.operation_count() + index;
        database.medium.fail_at(failing, fault);
        let changed = rows(&session, change).await;
        let is_undisturbed = database.medium.operation_count() <= failing;
        database.medium.fail_at(u64::MAX, fault);
        // A removal that fails is nobody's concern; the file goes when the database is opened next.
        let Err(error) = changed else {
            assert_eq!(one(&session, after).await, LATER, "{story}");
            drop(session);
            assert_eq!(one(&database.session(), after).await, LATER, "{story}");
            assert_eq!(database.files().len(), files.len() + usize::from(!change.contains("REPLACE")), "{story}");
            if is_undisturbed {
                break;
            }
            continue;
        };
        failure_count += 1;
        assert_eq!(one(&session, QUESTION).await, EARLIER, "{story}");
        if is_doubtful(&error, &story, kind) {
            doubt_count += 1;
            let refused = rows(&session, "DROP TABLE t").await.unwrap_err().to_string();
            assert!(refused.contains("open the database again"), "{story}: {refused}");
            drop(session);
            let session = database.session();
            // The one or the other, whole.
            let found = rows(&session, after).await.map(|mut rows| rows.remove(0));
            assert!(matches!(found.as_deref(), Err(_) | Ok(EARLIER | LATER)), "{story}: {found:?}");
            rows(&session, "DROP TABLE t").await.unwrap();
        } else {
            assert_eq!((database.files(), database.size_bytes()), (files, size_bytes), "{story}");
            rows(&session, change).await.unwrap_or_else(|error| panic!("{story}, again: {error}"));
            assert_eq!(one(&session, after).await, LATER, "{story}");
        }
    }
    (doubt_count, failure_count)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_is_full_or_fails_fails_the_statement_and_nothing_else() {
    let made = format!("CREATE TABLE u AS {MADE}");
    let replaced = format!("CREATE OR REPLACE TABLE t AS {MADE}");
    let inserted = "INSERT INTO t SELECT value AS i, value AS k FROM generate_series(301, 300000)";
    for (change, after) in
        [(made.as_str(), "SELECT count(*), sum(i) FROM u"), (replaced.as_str(), QUESTION), (inserted, QUESTION)]
    {
        for (fault, kind) in [(Fault::NoSpace, ErrorKind::Resources), (Fault::InputOutput, ErrorKind::Input)] {
            let (doubt_count, failure_count) = fail_everywhere(change, fault, after, kind).await;
            // The rename of the manifest, and the sync of names after it.
            assert_eq!(doubt_count, 2, "{change}: {fault:?}");
            // These, and of segment and manifest at least: made, written, synced; and the names of both.
            assert!(failure_count >= 9, "{change}: {fault:?}: {failure_count}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_insert_that_cannot_merge_small_segments_adds_its_rows_or_fails_and_leaves_no_file() {
    let insert = "INSERT INTO t SELECT value AS i, value AS k FROM generate_series(301, 600)";
    let segment_count = "SELECT segment_count FROM thermocline.tables";
    let mut outcomes = [0, 0, 0];
    for fault in [Fault::NoSpace, Fault::InputOutput] {
        for index in 0.. {
            let story = format!("{fault:?} at operation {index}");
            let database = Simulated::new();
            let session = database.session();
            rows(&session, "CREATE TABLE t AS SELECT value AS i, value AS k FROM generate_series(1, 300)")
                .await
                .unwrap();
            let failing = database.medium.operation_count() + index;
            database.medium.fail_at(failing, fault);
            let changed = rows(&session, insert).await;
            let is_undisturbed = database.medium.operation_count() <= failing;
            database.medium.fail_at(u64::MAX, fault);
            let found = one(&session, QUESTION).await;
            assert_eq!(found, if changed.is_ok() { "600|180300" } else { EARLIER }, "{story}");
            drop(session);
            let session = database.session();
            let found = one(&session, QUESTION).await;
            match changed {
                Ok(_) => assert_eq!(found, "600|180300", "{story}"),
                Err(error) if is_doubtful(&error, &story, error.kind()) => {
                    assert!(["600|180300", EARLIER].contains(&found.as_str()), "{story}: {found}");
                    outcomes[2] += 1;
                    continue;
                }
                // The manifest could not be written.
                Err(_) => {
                    assert_eq!(found, EARLIER, "{story}");
                    assert_eq!(database.files().len(), 2, "{story}: {:?}", database.files());
                    continue;
                }
            }
            let count: usize = one(&session, segment_count).await.parse().unwrap();
            assert_eq!(database.files().len(), 1 + count, "{story}: {:?}", database.files());
            outcomes[count - 1] += 1;
            if is_undisturbed {
                assert_eq!(count, 1);
                break;
            }
        }
    }
    let [merged, added, doubtful] = outcomes;
    assert!(merged >= 2 && added >= 6 && doubtful == 4, "{outcomes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_that_fails_in_the_middle_of_a_scan_is_an_error_and_never_fewer_rows() {
    let database = Simulated::new();
    let session = database.session();
    let make = "CREATE TABLE t AS SELECT value AS i, value * 7919 % 1000003 AS k FROM generate_series(1, 1200000)";
    rows(&session, make).await.unwrap();
    let question = "SELECT count(*), sum(i), sum(k) FROM t";
    let expected = one(&session, question).await;
    assert!(expected.starts_with("1200000|720000600000|"), "{expected}");
    for setting in ["SET thermocline.cache = 'on'", "SET thermocline.cache = 'off'"] {
        rows(&session, setting).await.unwrap();
        let mut failure_count = 0;
        for index in 0.. {
            // Forgets what is in memory.
            rows(&session, "SET thermocline.page_policy = 'lru'").await.unwrap();
            let failing = database.medium.read_count() + index;
            database.medium.fail_read_at(failing);
            match rows(&session, question).await {
                // A read ahead that fails is made again by who needs its pages.
                Ok(found) => {
                    assert_eq!(found, std::slice::from_ref(&expected), "{setting}, read {index}");
                    if database.medium.read_count() <= failing {
                        break;
                    }
                }
                Err(error) => {
                    let message = error.to_string();
                    assert!(message.contains(".segment: cannot read "), "{setting}, read {index}: {message}");
                    assert_eq!(one(&session, question).await, expected, "{setting}, read {index}, again");
                    failure_count += 1;
                }
            }
        }
        assert!(failure_count > 0, "{setting}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_that_fails_while_a_database_or_table_is_opened_is_an_error_and_changes_nothing() {
    let database = Simulated::new();
    rows(&database.session(), &format!("CREATE TABLE t AS {MADE}")).await.unwrap();
    let files = database.files();
    let mut failure_count = 0;
    for index in 0.. {
        database.medium.fail_read_at(database.medium.read_count() + index);
        let answer = match open(database.folder.path(), &database.medium) {
            Ok(session) => rows(&session, QUESTION).await,
            Err(error) => Err(error),
        };
        assert_eq!(database.files(), files, "read {index}");
        match answer {
            Ok(found) => {
                assert_eq!(found, [LATER], "read {index}");
                break;
            }
            Err(error) => {
                let message = error.to_string();
                assert!(
                    message.contains("manifest: cannot read") || message.contains(".segment: cannot read"),
                    "{message}"
                );
                failure_count += 1;
            }
        }
    }
    // The manifest, the segment's footer, its pages.
    assert!(failure_count > 2, "{failure_count}");
}

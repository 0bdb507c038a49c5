//! What the tests share: databases, temporary files, rows as text, seeded randomness.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use thermocline_engine::arrow::record_batch::RecordBatch;
use thermocline_engine::arrow::util::display::{ArrayFormatter, FormatOptions};
use thermocline_engine::{Database, DatabaseOptions, Result, Session};

pub(crate) const MIB: u64 = 1 << 20;

pub(crate) fn database(memory_bytes: u64) -> Arc<Database> {
    Database::open(DatabaseOptions { memory_bytes: Some(memory_bytes), threads: Some(4), ..Default::default() })
        .unwrap()
}

/// Opens a database whose folder another of this process may still hold: tasks of a query that failed or was cancelled
/// live on for a while after its last session, on a busy machine longer than opening itself waits (two seconds).
pub(crate) fn reopen(options: &DatabaseOptions) -> Arc<Database> {
    let mut attempts = (0..30).map(|_| Database::open(options.clone()));
    let is_held = |opened: &Result<Arc<Database>>| {
        opened.as_ref().is_err_and(|error| error.to_string().contains("in this process already"))
    };
    attempts.find(|opened| !is_held(opened)).expect("the folder is held for a minute").unwrap()
}

pub(crate) fn session() -> Session {
    database(512 * MIB).session()
}

/// A session of a database that keeps rows however dear keeping looks: on a busy machine it often does.
pub(crate) async fn eager_session() -> Session {
    let session = session();
    rows(&session, "SET thermocline.admission = 'eager'").await;
    session
}

/// The rows of the last statement, each as its values joined by `|`.
pub(crate) async fn try_rows(session: &Session, sql: &str) -> Result<Vec<String>> {
    Ok(rendered(&session.sql(sql).await?.collect().await?))
}

pub(crate) async fn rows(session: &Session, sql: &str) -> Vec<String> {
    match try_rows(session, sql).await {
        Ok(rows) => rows,
        Err(error) => panic!("{sql}\n{error}"),
    }
}

pub(crate) async fn sorted_rows(session: &Session, sql: &str) -> Vec<String> {
    let mut rows = rows(session, sql).await;
    rows.sort();
    rows
}

pub(crate) async fn error(session: &Session, sql: &str) -> String {
    match try_rows(session, sql).await {
        Ok(rows) => panic!("{sql}\nexpected an error, got {rows:?}"),
        Err(error) => error.to_string(),
    }
}

pub(crate) fn rendered(batches: &[RecordBatch]) -> Vec<String> {
    let options = FormatOptions::default().with_null("NULL");
    let mut rows = Vec::new();
    for batch in batches {
        let columns: Vec<ArrayFormatter<'_>> =
            batch.columns().iter().map(|column| ArrayFormatter::try_new(column.as_ref(), &options).unwrap()).collect();
        for index in 0..batch.num_rows() {
            rows.push(columns.iter().map(|column| column.value(index).to_string()).collect::<Vec<_>>().join("|"));
        }
    }
    rows
}

/// The one integer a query returns.
pub(crate) async fn integer(session: &Session, sql: &str) -> i64 {
    rows(session, sql).await[0].parse().unwrap()
}

pub(crate) struct Folder(tempfile::TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.path().join(name);
        fs::write(&path, content).unwrap();
        path
    }

    /// A file whose stamps are old enough to be trusted.
    pub(crate) fn settled_file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.file(name, content);
        settle();
        path
    }
}

/// Waits for what other threads do, as long as a busy machine may take. (Where all workers of a runtime compute, no time
/// passes for its timers.)
#[track_caller]
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..60_000 {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("not within a minute: {what}");
}

/// Waits until files written before are no longer young.
pub(crate) fn settle() {
    std::thread::sleep(Duration::from_millis(2100));
}

/// Xorshift: small, seeded, the same everywhere.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub(crate) fn pick<'a, T>(&mut self, options: &'a [T]) -> &'a T {
        &options[self.below(options.len() as u64) as usize]
    }
}

/// The first id that the generators below are usually asked for: from here on ids have five digits, and every record
/// has the same size, so that files of one record count have one size.
pub(crate) const FIRST: u64 = 10_000;

/// NDJSON with `count` records `{"id":…, "value":…, "name":…, "items":[{"n":…}]}`.
pub(crate) fn numbered_ndjson(from: u64, count: u64) -> String {
    let mut text = String::new();
    for id in from..from + count {
        text.push_str(&format!(
            "{{\"id\":{id},\"value\":{}.5,\"name\":\"n{}\",\"items\":[{{\"n\":{}}},{{\"n\":{}}}]}}\n",
            100 + id % 900,
            id % 7,
            id % 5,
            id % 3
        ));
    }
    text
}

/// CSV with a header and `count` rows `id,value,name`.
pub(crate) fn numbered_csv(from: u64, count: u64) -> String {
    let mut text = String::from("id,value,name\n");
    text.push_str(&csv_rows(from, count));
    text
}

pub(crate) fn csv_rows(from: u64, count: u64) -> String {
    (from..from + count).map(|id| format!("{id},{}.5,n{}\n", 100 + id % 900, id % 7)).collect()
}

/// How long tests of random work go on beyond their usual count: `THERMOCLINE_TEST_SECONDS`, nothing by default.
pub(crate) fn long_mode() -> Duration {
    let seconds = std::env::var("THERMOCLINE_TEST_SECONDS").ok().map_or(0, |text| text.parse().unwrap());
    Duration::from_secs(seconds)
}

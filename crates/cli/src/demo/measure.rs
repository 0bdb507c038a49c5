//! Asks one question three times: with the cache off, for the first time with it, and once more.
//!
//! Before each of the latter two, `EXPLAIN CACHE` tells where the answer will come from; afterwards the decisions that
//! were made meanwhile are read from `thermocline.decisions`. Both are what any user can ask.

use std::sync::Arc;
use std::time::Duration;

use thermocline_engine::arrow::datatypes::SchemaRef;
use thermocline_engine::arrow::record_batch::RecordBatch;
use thermocline_engine::{Database, Session};
use thermocline_hardware::Clock;

use super::answer::{are_equal, summary, texts};
use super::questions::Question;
use crate::failure::{Failure, Result};

/// Between two questions at most; a reader takes longer.
const REST: Duration = Duration::from_secs(10);

/// Where the rows of one file come from, as `EXPLAIN CACHE` has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Origin {
    pub(super) path: String,
    /// `hit`, `extend`, `top up`, `combine`, `scan rest`, `join`, `miss` or `scan`.
    pub(super) decision: String,
    /// The item and its predicate, if one answers; or several.
    pub(super) item: String,
    /// What is filtered out of the item's rows; empty or `TRUE` when nothing is.
    pub(super) residual: String,
}

impl Origin {
    /// Whether the file need not be parsed.
    pub(super) fn is_memory(&self) -> bool {
        matches!(self.decision.as_str(), "hit" | "combine" | "join")
    }
}

/// A decision of the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Decision {
    pub(super) kind: String,
    pub(super) item: String,
    pub(super) path: String,
    pub(super) predicate: String,
    pub(super) reason: String,
    pub(super) numbers: String,
}

/// One asking with the cache on.
pub(super) struct Asking {
    pub(super) elapsed_ns: u64,
    pub(super) origins: Vec<Origin>,
    pub(super) decisions: Vec<Decision>,
}

/// All that is known about one question afterwards.
pub(super) struct Measured {
    pub(super) off_ns: u64,
    pub(super) first: Asking,
    pub(super) again: Asking,
    /// The answer in one line.
    pub(super) answer: String,
}

/// A database seen with its caches and without.
pub(super) struct Measuring {
    clock: Arc<dyn Clock>,
    on: Session,
    off: Session,
    /// Decisions up to this one have been told.
    tick: u64,
}

impl Measuring {
    pub(super) async fn begin(database: &Arc<Database>) -> Result<Self> {
        let off = database.session();
        off.sql("SET thermocline.cache = 'off'").await?.collect().await?;
        Ok(Self { clock: Arc::clone(database.clock()), on: database.session(), off, tick: 0 })
    }

    /// The session with the caches.
    pub(super) fn session(&self) -> &Session {
        &self.on
    }

    /// Runs `sql` to its end and returns the time it took, planning included.
    async fn time(&self, session: &Session, sql: &str) -> Result<(u64, SchemaRef, Vec<RecordBatch>)> {
        let started_ns = self.clock.monotonic_ns();
        let result = session.sql(sql).await?;
        let schema = result.schema();
        let batches = result.collect().await?;
        Ok((self.clock.monotonic_ns().saturating_sub(started_ns), schema, batches))
    }

    /// Asks `question` three times.
    ///
    /// # Errors
    /// Also when an answer differs from the one without the cache: that would be a fault of ours, and no demo.
    pub(super) async fn ask(&mut self, question: &Question) -> Result<Measured> {
        let (off_ns, schema, expected) = self.time(&self.off, question.sql).await?;
        let first = self.ask_cached(question, &schema, &expected).await?;
        let again = self.ask_cached(question, &schema, &expected).await?;
        Ok(Measured { off_ns, first, again, answer: summary(&expected)? })
    }

    async fn ask_cached(
        &mut self,
        question: &Question,
        schema: &SchemaRef,
        expected: &[RecordBatch],
    ) -> Result<Asking> {
        let origins = self.origins(question.sql).await?;
        let (elapsed_ns, _, answer) = self.time(&self.on, question.sql).await?;
        if !are_equal(schema, expected, &answer)? {
            return Err(Failure::Fault(format!(
                "the cached answer differs from the one with the cache off:\n{}",
                question.sql
            )));
        }
        // What is done between questions takes time that the next one is not to be charged with, nor the cache's rival.
        let database = Arc::clone(self.on.database());
        tokio::task::spawn_blocking(move || database.rest(REST))
            .await
            .map_err(|error| Failure::Fault(error.to_string()))?;
        Ok(Asking { elapsed_ns, origins, decisions: self.new_decisions().await? })
    }

    async fn origins(&self, sql: &str) -> Result<Vec<Origin>> {
        let rows = self.rows(&format!("EXPLAIN CACHE {sql}"), &["path", "decision", "item", "residual_filter"]).await?;
        Ok(rows
            .into_iter()
            .filter_map(|row| {
                let [path, decision, item, residual] = <[String; 4]>::try_from(row).ok()?;
                Some(Origin { path: file_name(&path), decision, item, residual })
            })
            .collect())
    }

    async fn new_decisions(&mut self) -> Result<Vec<Decision>> {
        let sql = format!("SELECT * FROM thermocline.decisions WHERE tick > {} ORDER BY tick", self.tick);
        let columns = ["tick", "decision", "item", "path", "predicate", "reason", "numbers"];
        let rows = self.rows(&sql, &columns).await?;
        let mut decisions = Vec::new();
        for row in rows {
            let Ok([tick, kind, item, path, predicate, reason, numbers]) = <[String; 7]>::try_from(row) else {
                continue;
            };
            self.tick = tick.parse().unwrap_or(self.tick);
            decisions.push(Decision { kind, item, path: file_name(&path), predicate, reason, numbers });
        }
        Ok(decisions)
    }

    /// The named columns of an answer, as text.
    pub(super) async fn rows(&self, sql: &str, columns: &[&str]) -> Result<Vec<Vec<String>>> {
        let result = self.on.sql(sql).await?;
        let schema = result.schema();
        let indices: Vec<usize> =
            columns.iter().map(|name| schema.index_of(name)).collect::<std::result::Result<_, _>>()?;
        let mut batches = Vec::new();
        for batch in result.collect().await? {
            batches.push(batch.project(&indices)?);
        }
        texts(&batches)
    }
}

/// The demo's files are told apart by their names; the folder is in the way.
fn file_name(path: &str) -> String {
    path.rsplit('/').next().unwrap_or(path).to_owned()
}

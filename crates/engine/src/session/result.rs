//! Rows of a query as they are computed.

use std::sync::Arc;

use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::EmptyRecordBatchStream;
use datafusion::physical_plan::memory::MemoryStream;
use futures::StreamExt;

use crate::error::Result;
use crate::query::Progress;

/// The outcome of one statement: a stream of batches, empty for statements that return no rows. Dropping it cancels the
/// query.
pub struct QueryResult {
    stream: SendableRecordBatchStream,
    progress: Arc<Progress>,
}

impl std::fmt::Debug for QueryResult {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("QueryResult").field("schema", &self.schema()).finish_non_exhaustive()
    }
}

impl QueryResult {
    pub(crate) fn new(stream: SendableRecordBatchStream, progress: Arc<Progress>) -> Self {
        Self { stream, progress }
    }

    /// A statement that returns nothing.
    pub(crate) fn done() -> Self {
        let stream = EmptyRecordBatchStream::new(Arc::new(Schema::empty()));
        Self { stream: Box::pin(stream), progress: Arc::default() }
    }

    pub(crate) fn from_batches(schema: SchemaRef, batches: Vec<RecordBatch>) -> Result<Self> {
        let stream = MemoryStream::try_new(batches, schema, None)?;
        Ok(Self { stream: Box::pin(stream), progress: Arc::default() })
    }

    pub(crate) fn from_batch(batch: RecordBatch) -> Result<Self> {
        Self::from_batches(batch.schema(), vec![batch])
    }

    /// The columns of the rows; none for statements that return no rows.
    pub fn schema(&self) -> SchemaRef {
        self.stream.schema()
    }

    /// How far the query has come.
    pub fn progress(&self) -> Arc<Progress> {
        Arc::clone(&self.progress)
    }

    /// The next batch, or `None` at the end.
    ///
    /// # Errors
    /// What went wrong while computing it; the query is over then.
    pub async fn next(&mut self) -> Option<Result<RecordBatch>> {
        Some(self.stream.next().await?.map_err(Into::into))
    }

    /// All batches.
    ///
    /// # Errors
    /// The first error ends the query.
    pub async fn collect(mut self) -> Result<Vec<RecordBatch>> {
        let mut batches = Vec::new();
        while let Some(batch) = self.next().await {
            batches.push(batch?);
        }
        Ok(batches)
    }

    /// Runs the statement to its end and drops its rows.
    pub(crate) async fn drain(mut self) -> Result<()> {
        while let Some(batch) = self.next().await {
            batch?;
        }
        Ok(())
    }
}

//! `COPY … TO` that is done as a whole or not at all.
//!
//! DataFusion's sinks take an input that fails for one that ends: they finish the files they have begun, and only then
//! look what the input said. And they tell of a failed write neither the file nor the cause. So a sink gets an object
//! store of ours for this one write ([`store`]), which keeps what is written aside: a local file beside its name, an
//! object as an upload that is not completed, or in memory. All of it is put in place when the sink is done and the input
//! came to its end ([`staging`]), and is gone otherwise.
//!
//! The values of `PARTITIONED BY` name folders. What a NULL has in its place in an array (0, `''`) would do so too: a row
//! with one fails the statement.
//!
//! **Invariants:** nothing is in place before the last row was written. Whoever drops the statement, at whatever point,
//! has removed its local files and the folders made for them before the drop returns; uploads are aborted by a task of
//! the runtime that the statement ran on. Files are created where `allowed_directories` allows it, whatever links lead
//! to. The error that is told is the first one, of the input or of the store.
//!
//! **Concurrency:** the tasks of a sink share the [`Staging`], and may outlive the statement: they can begin no write then.

mod files;
mod objects;
mod options;
mod staging;
mod store;

use std::any::Any;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::task::Poll;

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, exec_err, internal_err};
use datafusion::datasource::listing::ListingTableUrl;
use datafusion::datasource::sink::{DataSink, DataSinkExec};
use datafusion::execution::object_store::{DefaultObjectStoreRegistry, ObjectStoreRegistry, ObjectStoreUrl};
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan};
use futures::{FutureExt, StreamExt, TryStreamExt, stream};

pub(crate) use self::options::{check_options, check_settings};
use self::staging::Staging;
use self::store::StagingStore;
use crate::settings::SharedSettings;

/// The plan of a statement, whose `COPY … TO`, if it has one, is done as a whole or not at all.
pub(crate) fn staged(
    statement: &LogicalPlan,
    plan: Arc<dyn ExecutionPlan>,
    settings: &Arc<SharedSettings>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let mut target = None;
    statement.apply(|node| {
        let LogicalPlan::Copy(copy) = node else { return Ok(TreeNodeRecursion::Continue) };
        let store = ListingTableUrl::parse(&copy.output_url)?.object_store();
        target = Some((store, Arc::from(copy.partition_by.as_slice())));
        Ok(TreeNodeRecursion::Stop)
    })?;
    let Some((target, folder_columns)) = target else { return Ok(plan) };
    let plan = plan.transform_up(|node| {
        let Some(exec) = node.downcast_ref::<DataSinkExec>() else { return Ok(Transformed::no(node)) };
        let sink = StagedSink {
            inner: exec.clone(),
            target: target.clone(),
            folder_columns: Arc::clone(&folder_columns),
            settings: Arc::clone(settings),
        };
        let staged = DataSinkExec::new(Arc::clone(exec.input()), Arc::new(sink), exec.sort_order().clone());
        Ok(Transformed::yes(Arc::new(staged) as _))
    })?;
    Ok(plan.data)
}

/// A sink whose files are put in place when all of them are written.
struct StagedSink {
    /// What has the sink; only that is used of it.
    inner: DataSinkExec,
    target: ObjectStoreUrl,
    /// Those whose values name folders.
    folder_columns: Arc<[String]>,
    settings: Arc<SharedSettings>,
}

impl fmt::Debug for StagedSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StagedSink").field("target", &self.target).finish_non_exhaustive()
    }
}

impl DisplayAs for StagedSink {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.sink().fmt_as(format, f)
    }
}

#[async_trait]
impl DataSink for StagedSink {
    fn metrics(&self) -> Option<MetricsSet> {
        self.inner.sink().metrics()
    }

    fn schema(&self) -> &SchemaRef {
        self.inner.sink().schema()
    }

    async fn write_all(&self, data: SendableRecordBatchStream, context: &Arc<TaskContext>) -> Result<u64> {
        let staging = Arc::new(Staging::new(self.settings.access()));
        // Closed by whoever drops this future, too.
        let _open = OpenStaging(Arc::clone(&staging));
        let context = self.context(context, &staging)?;
        let rows = watched(with_folders(data, &self.folder_columns), &staging);
        // Parquet's writer has no error for an encoding that there is not for a column's type.
        let written = match AssertUnwindSafe(self.inner.sink().write_all(rows, &context)).catch_unwind().await {
            Ok(Ok(row_count)) => staging.place().await.map(|()| row_count),
            Ok(Err(error)) => Err(error),
            Err(panic) => internal_err!("COPY: the writer has panicked: {}", message(panic.as_ref())),
        };
        match written {
            Ok(row_count) => Ok(row_count),
            Err(error) => Err(staging.give_up().await.unwrap_or(error)),
        }
    }
}

impl StagedSink {
    /// The same context with a store in place of the target's.
    fn context(&self, context: &TaskContext, staging: &Arc<Staging>) -> Result<Arc<TaskContext>> {
        let runtime = context.runtime_env();
        let store = StagingStore::new(
            Arc::clone(staging),
            runtime.object_store(&self.target)?,
            self.target.as_str(),
            Arc::clone(&runtime.memory_pool),
        );
        let stores = DefaultObjectStoreRegistry::new();
        stores.register_store(self.target.as_ref(), Arc::new(store));
        let runtime = RuntimeEnv { object_store_registry: Arc::new(stores), ..runtime.as_ref().clone() };
        Ok(Arc::new(TaskContext::new(
            context.task_id(),
            context.session_id(),
            context.session_config().clone(),
            context.scalar_functions().clone(),
            context.higher_order_functions().clone(),
            context.aggregate_functions().clone(),
            context.window_functions().clone(),
            Arc::new(runtime),
        )))
    }
}

/// What a panic said.
fn message(panic: &(dyn Any + Send)) -> &str {
    let formatted = panic.downcast_ref::<String>().map(String::as_str);
    formatted.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("nothing")
}

/// The rows, of which each has a value in all the columns that name folders.
fn with_folders(rows: SendableRecordBatchStream, columns: &Arc<[String]>) -> SendableRecordBatchStream {
    let (schema, columns) = (rows.schema(), Arc::clone(columns));
    let rows = rows.map(move |batch| batch.and_then(|batch| checked(batch, &columns)));
    Box::pin(RecordBatchStreamAdapter::new(schema, rows))
}

fn checked(batch: RecordBatch, folder_columns: &[String]) -> Result<RecordBatch> {
    let has_null = |name: &&String| batch.column_by_name(name).is_some_and(|column| column.logical_null_count() > 0);
    match folder_columns.iter().find(has_null) {
        None => Ok(batch),
        Some(name) => exec_err!(
            "COPY: column {name} is NULL in a row, expected a value: PARTITIONED BY names folders by the values; write \
             coalesce({name}, …) AS {name}, or leave such rows out"
        ),
    }
}

/// The rows, whose end or failure the staging hears of.
fn watched(rows: SendableRecordBatchStream, staging: &Arc<Staging>) -> SendableRecordBatchStream {
    let (schema, failing, ending) = (rows.schema(), Arc::clone(staging), Arc::clone(staging));
    let end = stream::poll_fn(move |_| {
        ending.note_end();
        Poll::Ready(None)
    });
    let rows = rows.map_err(move |error| failing.note_failure(error)).chain(end);
    Box::pin(RecordBatchStreamAdapter::new(schema, rows))
}

/// Closes the staging when it is dropped.
struct OpenStaging(Arc<Staging>);

impl Drop for OpenStaging {
    fn drop(&mut self) {
        drop(self.0.close());
    }
}

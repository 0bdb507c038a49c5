//! What would not fit in memory and cannot spill is planned as a sort, which can.
//!
//! - The table of a hash join stays in memory. Where it is expected to take more than its share, [`SortedJoins`] has both
//!   sides sorted and merged instead.
//! - The first rows of an order stay in memory, if not all rows are sorted. Of very many, as behind a large OFFSET,
//!   [`SortedFirstRows`] has all rows sorted.
//!
//! **Does not own**: what the share is (`thermocline_placement::spilling`), how sorts spill (DataFusion).
//!
//! Keys that are floats stay with hash joins: merges tell zeros by their signs.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::execution::memory_pool::{MemoryLimit, MemoryPool};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::{HashJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::limit::LocalLimitExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use thermocline_placement::spilling;

use crate::raw_table::value_bytes;

/// The memory that queries have.
#[derive(Clone)]
pub(super) struct Memory(Arc<dyn MemoryPool>);

impl Memory {
    pub(super) fn of(pool: &Arc<dyn MemoryPool>) -> Self {
        Self(Arc::clone(pool))
    }

    /// Whether what cannot spill would take more than its share.
    fn is_too_little_for(&self, bytes: u64) -> bool {
        match self.0.memory_limit() {
            MemoryLimit::Finite(limit_bytes) => spilling::is_beyond_memory(bytes, limit_bytes as u64),
            MemoryLimit::Infinite | MemoryLimit::Unknown => false,
        }
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name())
    }
}

/// About what so many rows take in Arrow.
fn size_bytes(row_count: usize, schema: &Schema) -> u64 {
    let row_bytes: u64 = schema.fields().iter().map(|field| value_bytes(field.data_type())).sum();
    row_bytes.saturating_mul(row_count as u64)
}

/// Comes before the rule that sorts and exchanges what operators need so.
#[derive(Debug)]
pub(super) struct SortedJoins(pub(super) Memory);

impl PhysicalOptimizerRule for SortedJoins {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            let Some(join) = node.downcast_ref::<HashJoinExec>() else { return Ok(Transformed::no(node)) };
            Ok(self.sorted(join)?.map_or_else(|| Transformed::no(Arc::clone(&node)), Transformed::yes))
        })
        .data()
    }

    fn name(&self) -> &str {
        "sorted_joins"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

impl SortedJoins {
    /// The same join by merging, if it is better and possible.
    fn sorted(&self, join: &HashJoinExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let left = join.left();
        let statistics = StatisticsContext::new().compute(left.as_ref(), &StatisticsArgs::new())?;
        let Some(row_count) = statistics.num_rows.get_value() else { return Ok(None) };
        let table_bytes = spilling::table_bytes(*row_count as u64, size_bytes(*row_count, &left.schema()));
        if join.null_aware || !self.0.is_too_little_for(table_bytes) {
            return Ok(None);
        }
        for (key, _) in join.on() {
            if !merges(&key.data_type(&left.schema())?) {
                return Ok(None);
            }
        }
        let merged = SortMergeJoinExec::try_new(
            Arc::clone(left),
            Arc::clone(join.right()),
            join.on().to_vec(),
            join.filter().cloned(),
            *join.join_type(),
            vec![SortOptions::default(); join.on().len()],
            join.null_equality(),
        )?;
        let Some(projection) = &join.projection else { return Ok(Some(Arc::new(merged))) };
        let schema = merged.schema();
        let columns = projection.iter().map(|&index| {
            let name = schema.field(index).name();
            (Arc::new(Column::new(name, index)) as _, name.clone())
        });
        Ok(Some(Arc::new(ProjectionExec::try_new(columns.collect::<Vec<_>>(), Arc::new(merged))?)))
    }
}

/// Whether keys of a type can be merged, and are equal where hash joins hold them to be.
fn merges(data_type: &DataType) -> bool {
    data_type.is_integer()
        || matches!(
            data_type,
            DataType::Boolean
                | DataType::Utf8
                | DataType::LargeUtf8
                | DataType::Utf8View
                | DataType::Binary
                | DataType::LargeBinary
                | DataType::BinaryView
                | DataType::Decimal128(..)
                | DataType::Date32
                | DataType::Date64
                | DataType::Timestamp(_, None)
        )
}

/// Comes after all rules that move limits into sorts.
#[derive(Debug)]
pub(super) struct SortedFirstRows(pub(super) Memory);

impl PhysicalOptimizerRule for SortedFirstRows {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            let sort = node.downcast_ref::<SortExec>().and_then(|sort| sort.fetch().map(|fetch| (sort, fetch)));
            let Some((sort, fetch)) = sort else { return Ok(Transformed::no(node)) };
            // Each partition has its own.
            let kept_rows = fetch.saturating_mul(sort.properties().output_partitioning().partition_count());
            if !self.0.is_too_little_for(size_bytes(kept_rows, &sort.schema())) {
                return Ok(Transformed::no(node));
            }
            let all = Arc::new(sort.with_fetch(None));
            Ok(Transformed::yes(Arc::new(LocalLimitExec::new(all, fetch)) as _))
        })
        .data()
    }

    fn name(&self) -> &str {
        "sorted_first_rows"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

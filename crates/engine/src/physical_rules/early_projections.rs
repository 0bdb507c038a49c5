//! Projections that lie on scans of raw files go into them before anything comes between.
//!
//! DataFusion moves projections down last, and none that computes through an exchange: a small file, whose rows are dealt
//! out to all threads, was read with all of a struct of whose fields one is asked for.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::ProjectionExec;

use crate::raw_table::scan_exec::RawScanExec;

/// See the module.
#[derive(Debug)]
pub(super) struct EarlyProjections;

impl PhysicalOptimizerRule for EarlyProjections {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            let projection = node.downcast_ref::<ProjectionExec>();
            let Some(projection) = projection.filter(|projection| projection.input().is::<RawScanExec>()) else {
                return Ok(Transformed::no(node));
            };
            let swapped = projection.input().try_swapping_with_projection(projection)?;
            Ok(swapped.map_or_else(|| Transformed::no(Arc::clone(&node)), Transformed::yes))
        })
        .data()
    }

    fn name(&self) -> &str {
        "early_projections"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

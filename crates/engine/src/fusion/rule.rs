//! The optimizer's rule that has aggregates over column tables run as pipelines.
//!
//! ```text
//! Aggregate: groupBy=[[date.d_year]], …           Projection: pipeline.d_year AS date.d_year, …
//!   Inner Join: lo_orderdate = d_datekey   ─────▶    TableScan: pipeline
//!     TableScan: lineorder
//!     TableScan: date
//! ```
//!
//! Where that cannot be, a scan below the aggregate learns why, which `EXPLAIN` shows.

use std::sync::Arc;

use datafusion::catalog::default_table_source::{provider_as_source, source_as_provider};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, Result, TableReference};
use datafusion::logical_expr::logical_plan::TableScanBuilder;
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan, Projection, TableScan};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use super::join_graph::unique_names;
use super::star::{self, FusedPlan};
use super::table::FusedTable;
use crate::column_table::ColumnTable;
use crate::lineage::is_same_schema;
use crate::raw_table::RawTable;
use crate::session::MemoryTable;
use crate::settings::ThermoclineConfig;

/// Adds the rule behind all others, which see the plan as it was written.
pub(crate) fn install(rules: &mut Vec<Arc<dyn OptimizerRule + Send + Sync>>) {
    rules.push(Arc::new(FuseAggregates));
}

/// The name that a fused part has in plans.
const TABLE_NAME: &str = "pipeline";

#[derive(Debug)]
struct FuseAggregates;

impl OptimizerRule for FuseAggregates {
    fn name(&self) -> &str {
        "fuse_aggregates"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Aggregate(aggregate) = &plan else { return Ok(Transformed::no(plan)) };
        let options = config.options();
        let is_on = options.extensions.get::<ThermoclineConfig>().is_some_and(|config| config.fused_pipelines);
        if !is_on || !reads_what_pipelines_do(&plan)? {
            return Ok(Transformed::no(plan));
        }
        match star::plan(aggregate, &options, None) {
            Ok(fused) => match fused_scan(fused, aggregate)? {
                Some(scan) => Ok(Transformed::yes(scan)),
                None => Ok(Transformed::no(plan)),
            },
            Err(refusal) => {
                let mut aggregate = aggregate.clone();
                let noted = noted(Arc::unwrap_or_clone(aggregate.input), &refusal.to_string())?;
                let is_new = noted.transformed;
                aggregate.input = Arc::new(noted.data);
                Ok(Transformed::new_transformed(LogicalPlan::Aggregate(aggregate), is_new))
            }
        }
    }
}

/// The scan of a fused part, under the names that the aggregate's columns have.
fn fused_scan(fused: FusedPlan, aggregate: &Aggregate) -> Result<Option<LogicalPlan>> {
    let schema = unique_names(&aggregate.schema);
    let replaced = LogicalPlan::Aggregate(aggregate.clone());
    let provider = Arc::new(FusedTable::new(fused, replaced, Arc::clone(&schema)));
    let table_name = TableReference::bare(TABLE_NAME);
    let scan = TableScanBuilder::new(table_name.clone(), provider_as_source(provider)).build()?;
    let columns = aggregate.schema.iter().enumerate().map(|(number, (qualifier, field))| {
        let column = Expr::Column(Column::new(Some(table_name.clone()), schema.field(number).name()));
        column.alias_qualified(qualifier.cloned(), field.name())
    });
    let projection = Projection::try_new(columns.collect(), Arc::new(LogicalPlan::TableScan(scan)))?;
    // Nodes above keep schemas of their own, so theirs must go on being true to the letter.
    Ok(is_same_schema(&projection.schema, &aggregate.schema).then_some(LogicalPlan::Projection(projection)))
}

/// The scan's column table, if it is of one.
fn with_column_table<R>(scan: &TableScan, take: impl FnOnce(&ColumnTable) -> R) -> Option<R> {
    let provider = source_as_provider(&scan.source).ok()?;
    provider.downcast_ref::<ColumnTable>().map(take)
}

/// Whether there is a scan of a column table, of files or of a table in memory, or of what was fused before.
fn reads_what_pipelines_do(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            let provider = source_as_provider(&scan.source)?;
            found |= provider.is::<ColumnTable>()
                || provider.is::<RawTable>()
                || provider.is::<MemoryTable>()
                || provider.is::<FusedTable>();
        }
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// The plan whose first scan of a column table knows why it is not part of a pipeline.
fn noted(plan: LogicalPlan, reason: &str) -> Result<Transformed<LogicalPlan>> {
    let mut is_done = false;
    plan.transform_down(|node| {
        let LogicalPlan::TableScan(scan) = &node else { return Ok(Transformed::no(node)) };
        if is_done {
            return Ok(Transformed::no(node));
        }
        let Some(table) = with_column_table(scan, |table| table.unfused(reason)) else {
            return Ok(Transformed::no(node));
        };
        is_done = true;
        let Some(table) = table else { return Ok(Transformed::no(node)) };
        let source = provider_as_source(Arc::new(table));
        Ok(Transformed::yes(LogicalPlan::TableScan(TableScan { source, ..scan.clone() })))
    })
}

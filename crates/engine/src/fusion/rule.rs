//! The optimizer's rule that has aggregates over column tables, and joins of them, run as pipelines.
//!
//! ```text
//! Aggregate: groupBy=[[date.d_year]], …           Projection: pipeline.d_year AS date.d_year, …
//!   Inner Join: lo_orderdate = d_datekey   ─────▶    TableScan: pipeline
//!     TableScan: lineorder
//!     TableScan: date
//! ```
//!
//! Where that cannot be, a scan below the aggregate or join learns why, which `EXPLAIN` shows. Of an aggregate that is
//! left to operators the joins below may still be fused.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::iter;
use std::sync::Arc;

use datafusion::catalog::default_table_source::{provider_as_source, source_as_provider};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, Result, TableReference};
use datafusion::logical_expr::logical_plan::TableScanBuilder;
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan, Projection, TableScan};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use super::join_graph::unique_names;
use super::star::{self, FusedPlan};
use super::subqueries::Planning;
use super::table::FusedTable;
use super::{Refusal, joined_rows};
use crate::column_table::ColumnTable;
use crate::lineage::is_same_schema;
use crate::raw_table::RawTable;
use crate::session::MemoryTable;
use crate::settings::ThermoclineConfig;

/// Adds the rule behind all others, which see the plan as it was written.
pub(crate) fn install(rules: &mut Vec<Arc<dyn OptimizerRule + Send + Sync>>) {
    rules.push(Arc::new(FusePipelines));
}

/// The names of the fused parts of a statement's plan, none of which two parts have that differ: to DataFusion scans of one
/// name and the same columns are the same, whatever they are of, and so are subqueries that have them.
#[derive(Debug, Default)]
struct Names {
    /// What each part stands for.
    known: RefCell<Vec<(LogicalPlan, TableReference)>>,
}

impl Names {
    /// Those that a plan has from a pass before.
    fn of(plan: &LogicalPlan) -> Result<Self> {
        let names = Self::default();
        names.add(plan)?;
        Ok(names)
    }

    fn add(&self, plan: &LogicalPlan) -> Result<()> {
        plan.apply_with_subqueries(|node| {
            if let LogicalPlan::TableScan(scan) = node
                && let Some(part) = source_as_provider(&scan.source)?.downcast_ref::<FusedTable>()
            {
                self.known.borrow_mut().push((part.replaced().clone(), scan.table_name.clone()));
                part.subqueries().iter().try_for_each(|subquery| self.add(subquery))?;
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(())
    }

    /// The name of the part that stands for a plan.
    fn name(&self, replaced: &LogicalPlan) -> TableReference {
        let mut known = self.known.borrow_mut();
        if let Some((_, name)) = known.iter().find(|(other, _)| other == replaced) {
            return name.clone();
        }
        let is_free = |name: &TableReference| known.iter().all(|(_, other)| other != name);
        let numbered = (2..).map(|number| TableReference::bare(format!("pipeline_{number}")));
        let mut names = iter::once(TableReference::bare("pipeline")).chain(numbered);
        let name = names.find(is_free).expect("there are more numbers than parts of a plan");
        known.push((replaced.clone(), name.clone()));
        name
    }
}

#[derive(Debug)]
struct FusePipelines;

impl OptimizerRule for FusePipelines {
    fn name(&self) -> &str {
        "fuse_pipelines"
    }

    /// From the top, by itself: what is tried of a join depends on what was tried of the one above it.
    fn apply_order(&self) -> Option<ApplyOrder> {
        None
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let options = config.options();
        let is_on = options.extensions.get::<ThermoclineConfig>().is_some_and(|config| config.fused_pipelines);
        // What PREPARE has optimized is no query yet: its types are those that were written, its tables may change.
        let is_query = config.query_execution_start_time().is_some();
        if !is_on || !is_query {
            return Ok(Transformed::no(plan));
        }
        let names = Names::of(&plan)?;
        fused(plan, (&options, &names), Joins::Tried)
    }
}

/// What a statement's rewriting goes by.
type Context<'c> = (&'c Arc<ConfigOptions>, &'c Names);

/// Whether joins are tried by themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Joins {
    Tried,
    /// They are part of one that was tried. What they leave is what its other side has to reduce, and no pipeline
    /// should make it all.
    Left,
}

/// The plan with its uppermost aggregates and joins that can be fused in pipelines.
fn fused(plan: LogicalPlan, context: Context<'_>, joins: Joins) -> Result<Transformed<LogicalPlan>> {
    let tried = match &plan {
        LogicalPlan::Aggregate(aggregate) => Some(fused_aggregate(aggregate, context)?),
        _ if joins == Joins::Tried && is_joined(&plan) => Some(fused_join(&plan, context)?),
        _ => None,
    };
    let (plan, is_new, refused) = match tried {
        Some(Tried::Fused(fused)) => return Ok(Transformed::yes(fused)),
        Some(Tried::Refused(Some(refusal))) => {
            let noted = plan.map_children(|child| noted(child, &refusal.to_string()))?;
            (noted.data, noted.transformed, true)
        }
        Some(Tried::Refused(None)) => (plan, false, true),
        None => (plan, false, false),
    };
    let below = match &plan {
        LogicalPlan::Join(_) if refused => Joins::Left,
        LogicalPlan::Join(_) | LogicalPlan::Projection(_) | LogicalPlan::Filter(_) | LogicalPlan::SubqueryAlias(_) => {
            joins
        }
        _ => Joins::Tried,
    };
    let mut has_other_inputs = false;
    let rewritten = plan.map_children(|child| {
        let before = Arc::clone(child.schema());
        let rewritten = fused(child, context, below)?;
        has_other_inputs |= rewritten.data.schema().as_ref() != before.as_ref();
        Ok(rewritten)
    })?;
    let (mut plan, is_new) = (rewritten.data, is_new || rewritten.transformed);
    if has_other_inputs {
        // What aggregates below say of their columns would be known on, and make other joins of these in the next pass.
        plan = plan.recompute_schema()?;
    }
    let rewritten = plan.map_subqueries(|subquery| fused(subquery, context, Joins::Tried))?;
    Ok(Transformed::new_transformed(rewritten.data, is_new || rewritten.transformed))
}

/// What became of a part of a plan.
enum Tried {
    Fused(LogicalPlan),
    /// It stays as it is, if that is of interest for a reason.
    Refused(Option<Refusal>),
}

fn fused_aggregate(aggregate: &Aggregate, (options, names): Context<'_>) -> Result<Tried> {
    if !reads_what_pipelines_do(&aggregate.input)? {
        return Ok(Tried::Refused(None));
    }
    let planning = Planning::new(options);
    let fused = match star::plan(aggregate, &planning, None) {
        Ok(fused) => with_subqueries(fused, &planning, names)?,
        Err(refusal) => return Ok(Tried::Refused(Some(refusal))),
    };
    Ok(fused_scan(fused, LogicalPlan::Aggregate(aggregate.clone()), names)?.map_or(Tried::Refused(None), Tried::Fused))
}

/// Whether a plan is a join, or one whose rows are filtered or whose columns are chosen.
fn is_joined(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Join(_) => true,
        LogicalPlan::Projection(projection) => is_joined(&projection.input),
        LogicalPlan::Filter(filter) => is_joined(&filter.input),
        LogicalPlan::SubqueryAlias(alias) => is_joined(&alias.input),
        _ => false,
    }
}

/// A join's rows; of a projection the columns that it takes, from which it is computed by operators.
fn fused_join(plan: &LogicalPlan, (options, names): Context<'_>) -> Result<Tried> {
    if !reads_what_pipelines_do(plan)? {
        return Ok(Tried::Refused(None));
    }
    let (joined, wanted): (&LogicalPlan, Vec<usize>) = match plan {
        LogicalPlan::Projection(projection) => {
            let schema = projection.input.schema();
            let columns = projection.expr.iter().flat_map(Expr::column_refs);
            let wanted = columns.map(|column| schema.index_of_column(column)).collect::<Result<BTreeSet<_>>>()?;
            (projection.input.as_ref(), wanted.into_iter().collect())
        }
        other => (other, (0..other.schema().fields().len()).collect()),
    };
    let planning = Planning::new(options);
    let fused = match joined_rows::plan(joined, &wanted, &planning) {
        Ok(fused) => with_subqueries(fused, &planning, names)?,
        Err(refusal) => return Ok(Tried::Refused(matches!(plan, LogicalPlan::Join(_)).then_some(refusal))),
    };
    let replaced = match plan {
        LogicalPlan::Projection(_) => {
            let columns =
                wanted.iter().map(|&column| Expr::Column(Column::from(joined.schema().qualified_field(column))));
            LogicalPlan::Projection(Projection::try_new(columns.collect(), Arc::new(joined.clone()))?)
        }
        _ => joined.clone(),
    };
    let Some(scan) = fused_scan(fused, replaced, names)? else { return Ok(Tried::Refused(None)) };
    let LogicalPlan::Projection(projection) = plan else { return Ok(Tried::Fused(scan)) };
    let above = Projection::try_new(projection.expr.clone(), Arc::new(scan))?;
    let is_same = is_same_schema(&above.schema, &projection.schema);
    Ok(if is_same { Tried::Fused(LogicalPlan::Projection(above)) } else { Tried::Refused(None) })
}

/// With the subqueries that its pipelines have parameters for, parts of which may be fused too.
fn with_subqueries(plan: FusedPlan, planning: &Planning, names: &Names) -> Result<FusedPlan> {
    let subqueries = planning.subqueries().into_iter().map(|subquery| {
        let subquery = fused(Arc::unwrap_or_clone(subquery), (&planning.options, names), Joins::Tried)?;
        Ok(Arc::new(subquery.data))
    });
    Ok(FusedPlan { subqueries: subqueries.collect::<Result<_>>()?, ..plan })
}

/// The scan of a fused part, under the names that the columns of what it stands for have; none if it cannot be planned.
fn fused_scan(fused: FusedPlan, replaced: LogicalPlan, names: &Names) -> Result<Option<LogicalPlan>> {
    let asked = Arc::clone(replaced.schema());
    let schema = unique_names(&asked);
    let table_name = names.name(&replaced);
    let provider = Arc::new(FusedTable::new(fused, replaced, Arc::clone(&schema)));
    // Operators need no names of ours.
    let built = TableScanBuilder::new(table_name.clone(), provider_as_source(provider)).build();
    let Ok(scan) = built else { return Ok(None) };
    let columns = asked.iter().enumerate().map(|(number, (qualifier, field))| {
        let column = Expr::Column(Column::new(Some(table_name.clone()), schema.field(number).name()));
        column.alias_qualified(qualifier.cloned(), field.name())
    });
    let projection = Projection::try_new(columns.collect(), Arc::new(LogicalPlan::TableScan(scan)))?;
    // Nodes above keep schemas of their own, so theirs must go on being true to the letter.
    Ok(is_same_schema(&projection.schema, &asked).then_some(LogicalPlan::Projection(projection)))
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

//! Lets a raw table unnest while it scans.
//!
//! Stock DataFusion keeps filters on unnested values, limits and `get_field` above its UNNEST operator.
//! [`PushUnnestIntoScan`] replaces an UNNEST over a raw table by a scan of the same table with one row per list
//! element, after which the stock rules push all of these into the scan, where the decoder skips what is not needed and
//! the cache keeps flattened rows.
//!
//! ```text
//! Unnest: t.items                                Projection: t.id, t.<element> AS <unnested>
//!   Projection: t.id, t.items        ─────▶        TableScan: t, unnesting items
//!     TableScan: t
//! ```
//!
//! Matched: one list, unnested once, NULL and empty lists dropped, the list being a top-level column or reached through
//! structs, and nothing else below or beside the UNNEST that reads the list (the scan does not produce it any more). A
//! struct around the list, passed whole through the UNNEST, reads it; fields taken out of it below the UNNEST do not.
//! Between UNNEST and scan may stand projections, aliases and filters; projections must not be volatile, since they
//! would be computed once per element. A scan with a fetch is left alone: it counts records, not elements.
//!
//! Joins may stand there too. Each row of the side that has the list meets the same rows of the other side before it is
//! unnested and after, so that side is unnested first, provided that the join keeps its rows or drops them, but adds
//! none of its own. Else a join would make the scan produce whole lists, of which the query may want one field. It is
//! done only where the UNNEST reaches a scan: above other tables fewer rows are joined if lists stay lists.
//!
//! The rule must run before `push_down_limit` and `push_down_filter`, and in the first pass: later in a pass
//! `get_field` calls move into projections of their own, through which DataFusion does not push filters. An UNNEST
//! whose only obstacle is a column that nobody needs (`SELECT *` of a derived table) is therefore freed by pruning
//! columns at once.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::catalog::TableProvider;
use datafusion::catalog::default_table_source::{provider_as_source, source_as_provider};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, JoinType, NullHandling, Result, ScalarValue};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::logical_plan::TableScanBuilder;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, Filter, Join, LogicalPlan, Projection, TableScan, Unnest};
use datafusion::optimizer::optimize_projections::OptimizeProjections;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use thermocline_predicate::FieldPath;

use super::lateral;
use crate::lineage::{is_same_schema, over_columns};
use crate::logical_rules::wrong_keys::{ForgetWrongKeys, without_wrong_keys};
use crate::raw_table::RawTable;

/// Adds what UNNEST needs of the logical optimizer: the rule that moves it into raw tables' scans, before limits and
/// filters are pushed down; [`ForgetWrongKeys`]; and first of all what makes correlated ones executable.
pub(crate) fn install(rules: &mut Vec<Arc<dyn OptimizerRule + Send + Sync>>) {
    PushUnnestIntoScan::new(unnest_raw_table).install_into(rules);
    ForgetWrongKeys::install_into(rules);
    lateral::install_optimizer(rules);
}

/// The [`Unnester`] of raw tables.
fn unnest_raw_table(table: &dyn TableProvider, list: &FieldPath) -> Option<(Arc<dyn TableProvider>, String)> {
    let (table, element_name) = table.downcast_ref::<RawTable>()?.unnest(list)?;
    Some((table, element_name))
}

/// Asks a table for a scan of itself with one row per element of the list at the path.
///
/// The answer's schema is the table's with one nullable column of the element's type appended, whose name is returned.
/// Rows with a NULL or empty list are absent from it. None if the table cannot.
type Unnester = fn(&dyn TableProvider, &FieldPath) -> Option<(Arc<dyn TableProvider>, String)>;

/// Moves an UNNEST over a raw table into its scan.
pub(crate) struct PushUnnestIntoScan {
    unnester: Unnester,
}

impl PushUnnestIntoScan {
    fn new(unnester: Unnester) -> Self {
        Self { unnester }
    }

    fn install_into(self, rules: &mut Vec<Arc<dyn OptimizerRule + Send + Sync>>) {
        let position = rules
            .iter()
            .position(|rule| matches!(rule.name(), "push_down_limit" | "push_down_filter"))
            .unwrap_or(rules.len());
        rules.insert(position, Arc::new(self));
    }

    /// The UNNEST as a projection over an unnesting scan, or over joins with one.
    fn push(&self, unnest: &Unnest) -> Result<Pushed> {
        let ([column], [(list_index, list)]) = (unnest.exec_columns.as_slice(), unnest.list_type_columns.as_slice())
        else {
            return Ok(Pushed::Never);
        };
        if list.depth != 1
            || !unnest.struct_type_columns.is_empty()
            || unnest.options.null_handling != NullHandling::Drop
            || unnest.input.schema().maybe_index_of_column(column) != Some(*list_index)
        {
            return Ok(Pushed::Never);
        }
        let Some(lineage) = Lineage::of(&unnest.input)? else {
            return Ok(Pushed::Never);
        };
        match lineage.base {
            Base::Scan(scan) => self.push_into_scan(unnest, *list_index, lineage.columns, lineage.filters, scan),
            Base::Join(join) => self.push_below_join(unnest, *list_index, lineage.columns, lineage.filters, join),
        }
    }

    fn push_into_scan(
        &self,
        unnest: &Unnest,
        list_index: usize,
        mut columns: Vec<Expr>,
        filters: Vec<Expr>,
        scan: &TableScan,
    ) -> Result<Pushed> {
        let Some((list_path, element)) = list_at(&columns[list_index], scan) else {
            return Ok(Pushed::Never);
        };
        let Ok(provider) = source_as_provider(&scan.source) else {
            return Ok(Pushed::Never);
        };
        let Some((unnesting, element_name)) = (self.unnester)(provider.as_ref(), &list_path) else {
            return Ok(Pushed::Never);
        };
        let element_index = scan.source.schema().fields().len();
        if !appends(&scan.source.schema().fields, &unnesting.schema().fields, &element_name, &element) {
            return Ok(Pushed::Never);
        }

        // The list's own place is taken by its element, the only thing that may still be read of it.
        columns[list_index] = Expr::Column(Column::new(Some(scan.table_name.clone()), &element_name));
        let mut read = columns.iter().chain(&filters).chain(&scan.filters);
        if read.any(|expr| reads(expr, &list_path, scan)) {
            return Ok(Pushed::Blocked);
        }

        let schema = scan.source.schema();
        let mut projection = vec![element_index];
        for expr in columns.iter().chain(&filters) {
            for column in expr.column_refs() {
                if column.name != element_name {
                    projection.push(schema.index_of(&column.name)?);
                }
            }
        }
        projection.sort_unstable();
        projection.dedup();
        let scan = TableScanBuilder::new(scan.table_name.clone(), provider_as_source(unnesting))
            .with_projection(Some(projection))
            .with_filters(scan.filters.clone())
            .build()?;
        in_place_of(unnest, &columns, filters, LogicalPlan::TableScan(scan))
    }

    /// Unnests the side of the join that has the list, if that reaches a scan.
    fn push_below_join(
        &self,
        unnest: &Unnest,
        list_index: usize,
        mut columns: Vec<Expr>,
        filters: Vec<Expr>,
        join: &Join,
    ) -> Result<Pushed> {
        let list = columns.swap_remove(list_index);
        let read = columns.iter().chain(&filters).chain(&join.filter);
        let read = read.chain(join.on.iter().flat_map(|(left, right)| [left, right]));
        let read = read.flat_map(Expr::column_refs);
        let Some(side) = side_of(&list, join) else {
            return Ok(Pushed::Never);
        };
        let unnested = match side {
            Side::Left => &join.left,
            Side::Right => &join.right,
        };
        let carried: BTreeSet<usize> =
            read.filter_map(|column| unnested.schema().maybe_index_of_column(column)).collect();
        let is_volatile = join.filter.as_ref().is_some_and(Expr::is_volatile);
        let name = &unnest.exec_columns[0];
        // The element enters the join under a name of its own, without a qualifier.
        let names = [name, &unnest.list_type_columns[0].1.output_column];
        let is_taken = |plan: &LogicalPlan| {
            plan.schema().fields().iter().any(|field| names.iter().any(|name| name.name == *field.name()))
        };
        if is_volatile || is_taken(&join.left) || is_taken(&join.right) {
            return Ok(Pushed::Never);
        }

        let carried = carried.into_iter().map(|index| Column::from(unnested.schema().qualified_field(index)));
        let mut input: Vec<Expr> = carried.map(Expr::Column).collect();
        input.push(list.alias_qualified(name.relation.clone(), &name.name));
        // Of names that don't go together the schemas' errors tell.
        let Ok(input) = Projection::try_new(input, Arc::clone(unnested)) else {
            return Ok(Pushed::Never);
        };
        let input = Arc::new(LogicalPlan::Projection(input));
        let Ok(below) = Unnest::try_new(input, unnest.exec_columns.clone(), unnest.options.clone()) else {
            return Ok(Pushed::Never);
        };
        let Some(element) = below.schema.columns().pop() else {
            return Ok(Pushed::Never);
        };
        let below = match self.push(&below)? {
            Pushed::Yes(plan) => Arc::new(plan),
            other => return Ok(other),
        };
        let (left, right) = match side {
            Side::Left => (below, Arc::clone(&join.right)),
            Side::Right => (Arc::clone(&join.left), below),
        };
        let Ok(joined) = Join::try_new(
            left,
            right,
            join.on.clone(),
            join.filter.clone(),
            join.join_type,
            join.join_constraint,
            join.null_equality,
            join.null_aware,
        ) else {
            return Ok(Pushed::Never);
        };
        // Back to where the list was taken from.
        columns.push(Expr::Column(element));
        let last = columns.len() - 1;
        columns.swap(list_index, last);
        in_place_of(unnest, &columns, filters, LogicalPlan::Join(joined))
    }

    fn push_all(&self, plan: LogicalPlan) -> Result<(Transformed<LogicalPlan>, bool)> {
        let mut blocked = false;
        let plan = plan.transform_up_with_subqueries(|node| {
            let LogicalPlan::Unnest(unnest) = &node else {
                return Ok(Transformed::no(node));
            };
            match self.push(unnest)? {
                Pushed::Yes(plan) => Ok(Transformed::yes(plan)),
                Pushed::Never => Ok(Transformed::no(node)),
                Pushed::Blocked => {
                    blocked = true;
                    Ok(Transformed::no(node))
                }
            }
        })?;
        Ok((plan, blocked))
    }
}

impl fmt::Debug for PushUnnestIntoScan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PushUnnestIntoScan").finish_non_exhaustive()
    }
}

impl OptimizerRule for PushUnnestIntoScan {
    fn name(&self) -> &str {
        "push_unnest_into_scan"
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        if !has_unnest(&plan)? {
            return Ok(Transformed::no(plan));
        }
        let (first, blocked) = self.push_all(plan)?;
        if !blocked {
            return Ok(first);
        }
        // Rules before this one may have rebuilt an UNNEST.
        let pruned = without_wrong_keys(first.data.clone())?.data;
        let pruned = OptimizeProjections::new().rewrite(pruned, config)?;
        if !pruned.transformed {
            return Ok(first);
        }
        let (second, _) = self.push_all(pruned.data)?;
        Ok(if second.transformed { second } else { first })
    }
}

/// What became of an UNNEST.
enum Pushed {
    /// It is this plan now.
    Yes(LogicalPlan),
    /// It stays, because something beside it still reads the list.
    Blocked,
    /// It stays.
    Never,
}

/// What takes the place of an UNNEST: its columns as expressions over `plan`, of the rows that pass.
fn in_place_of(unnest: &Unnest, columns: &[Expr], filters: Vec<Expr>, mut plan: LogicalPlan) -> Result<Pushed> {
    if let Some(predicate) = conjunction(filters) {
        plan = LogicalPlan::Filter(Filter::try_new(predicate, Arc::new(plan))?);
    }
    let mut exprs = Vec::with_capacity(unnest.dependency_indices.len());
    for (input_index, (qualifier, field)) in unnest.dependency_indices.iter().zip(unnest.schema.iter()) {
        let expr = columns[*input_index].clone();
        let (named_qualifier, name) = expr.qualified_name();
        let is_named = named_qualifier.as_ref() == qualifier && &name == field.name();
        exprs.push(if is_named { expr } else { expr.alias_qualified(qualifier.cloned(), field.name()) });
    }
    let projection = Projection::try_new(exprs, Arc::new(plan))?;
    // Nodes above keep schemas of their own, so theirs must go on being true to the letter.
    if !is_same_schema(&projection.schema, &unnest.schema) {
        return Ok(Pushed::Never);
    }
    Ok(Pushed::Yes(LogicalPlan::Projection(projection)))
}

/// One side of a join.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Left,
    Right,
}

/// The side that an expression over a join's columns reads, and nothing of the other, if each row of that side is in
/// the join as often as it meets one of the other, or is not, whatever other rows of its side there are. None too if
/// the expression reads nothing.
fn side_of(expr: &Expr, join: &Join) -> Option<Side> {
    let (is_left_kept, is_right_kept) = match join.join_type {
        JoinType::Inner => (true, true),
        JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => (true, false),
        JoinType::Right | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => (false, true),
        JoinType::Full => (false, false),
    };
    let left_count = match join.join_type {
        JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => 0,
        _ => join.left.schema().fields().len(),
    };
    let mut sides = expr.column_refs().into_iter().map(|column| {
        let is_left = join.schema.maybe_index_of_column(column)? < left_count;
        Some(if is_left { Side::Left } else { Side::Right })
    });
    let side = sides.next()??;
    let is_kept = if side == Side::Left { is_left_kept } else { is_right_kept };
    (is_kept && sides.all(|other| other == Some(side))).then_some(side)
}

/// What a plan's columns are computed from.
enum Base<'a> {
    Scan(&'a TableScan),
    Join(&'a Join),
}

/// The columns of a plan as expressions over the table it scans, or over the join that it reads.
struct Lineage<'a> {
    base: Base<'a>,
    /// One per output column, without aliases.
    columns: Vec<Expr>,
    /// Which rows of the base pass.
    filters: Vec<Expr>,
}

impl<'a> Lineage<'a> {
    /// None if there is more than projections, aliases and filters between the plan and its base.
    fn of(plan: &'a LogicalPlan) -> Result<Option<Self>> {
        match plan {
            LogicalPlan::TableScan(scan) if scan.fetch.is_none() => {
                let columns = scan.projected_schema.columns().into_iter().map(Expr::Column).collect();
                Ok(Some(Self { base: Base::Scan(scan), columns, filters: vec![] }))
            }
            LogicalPlan::Join(join) => {
                let columns = join.schema.columns().into_iter().map(Expr::Column).collect();
                Ok(Some(Self { base: Base::Join(join), columns, filters: vec![] }))
            }
            LogicalPlan::SubqueryAlias(alias) => Self::of(&alias.input),
            LogicalPlan::Projection(projection) => {
                let Some(input) = Self::of(&projection.input)? else {
                    return Ok(None);
                };
                let mut columns = Vec::with_capacity(projection.expr.len());
                for expr in &projection.expr {
                    match over_columns(expr, projection.input.schema(), &input.columns)? {
                        Some(expr) if !expr.is_volatile() => columns.push(expr),
                        _ => return Ok(None),
                    }
                }
                Ok(Some(Self { columns, ..input }))
            }
            LogicalPlan::Filter(filter) => {
                let Some(mut input) = Self::of(&filter.input)? else {
                    return Ok(None);
                };
                match over_columns(&filter.predicate, filter.input.schema(), &input.columns)? {
                    Some(predicate) if !predicate.is_volatile() => input.filters.push(predicate),
                    _ => return Ok(None),
                }
                Ok(Some(input))
            }
            _ => Ok(None),
        }
    }
}

/// The path and type of the field that `expr` takes out of the scan's records, if it does nothing else.
fn field_at(expr: &Expr, scan: &TableScan) -> Option<(FieldPath, DataType)> {
    match expr {
        Expr::Column(column) => {
            let schema = scan.source.schema();
            let field = schema.field_with_name(&column.name).ok()?;
            Some((FieldPath::root(&column.name), field.data_type().clone()))
        }
        Expr::ScalarFunction(ScalarFunction { func, args }) if func.name() == "get_field" => {
            let (base, names) = args.split_first()?;
            names.iter().try_fold(field_at(base, scan)?, |(path, data_type), name| {
                let (DataType::Struct(fields), Expr::Literal(name, _)) = (data_type, name) else {
                    return None;
                };
                let (ScalarValue::Utf8(Some(name))
                | ScalarValue::LargeUtf8(Some(name))
                | ScalarValue::Utf8View(Some(name))) = name
                else {
                    return None;
                };
                let (_, field) = fields.find(name)?;
                Some((path.child(name), field.data_type().clone()))
            })
        }
        _ => None,
    }
}

/// The path and element field of the list that `expr` is.
fn list_at(expr: &Expr, scan: &TableScan) -> Option<(FieldPath, Arc<Field>)> {
    match field_at(expr, scan)? {
        (
            path,
            DataType::List(element)
            | DataType::LargeList(element)
            | DataType::FixedSizeList(element, _)
            | DataType::ListView(element)
            | DataType::LargeListView(element),
        ) => Some((path, element)),
        _ => None,
    }
}

/// Whether `expr` reads the field at `path`, a field inside it, or a struct around it.
fn reads(expr: &Expr, path: &FieldPath, scan: &TableScan) -> bool {
    let mut found = false;
    let visited = expr.apply(|nested| match field_at(nested, scan) {
        Some((read, _)) => {
            found |= read.starts_with(path) || path.starts_with(&read);
            Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Jump })
        }
        None => Ok(TreeNodeRecursion::Continue),
    });
    found || visited.is_err()
}

/// Whether `fields` are those of `base` and one more, called `name`, of the type of `element`, nullable.
fn appends(base: &[Arc<Field>], fields: &[Arc<Field>], name: &str, element: &Field) -> bool {
    fields.split_last().is_some_and(|(last, first)| {
        first == base
            && last.name() == name
            && last.data_type() == element.data_type()
            && last.is_nullable()
            && !base.iter().any(|field| field.name() == name)
    })
}

fn has_unnest(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        found = matches!(node, LogicalPlan::Unnest(_));
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

#[cfg(test)]
mod tests;

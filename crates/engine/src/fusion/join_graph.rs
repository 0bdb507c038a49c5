//! A part of a logical plan as relations, conditions on their rows, and equalities that join them.
//!
//! **Owns**: following every expression down to columns of the relations. **Does not own**: whether pipelines can
//! evaluate it.
//!
//! Expressions are DataFusion's, over columns whose qualifier is the number of a relation: [`BaseColumn`].

use std::collections::{BTreeSet, HashSet};
use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::catalog::default_table_source::source_as_provider;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, JoinType, NullEquality, TableReference};
use datafusion::logical_expr::utils::split_conjunction_owned;
use datafusion::logical_expr::{Aggregate, Case, Expr, Join, LogicalPlan, TableScan};
use thermocline_pipeline::ProbeKind;
use thermocline_placement::fusion::GroupWay;

use super::Refusal;
use super::other_values::{Inequality, has_another};
use super::relation::{Relation, Rows};
use super::star;
use super::subqueries::Planning;
use super::table::FusedTable;
use crate::column_table::ColumnTable;
use crate::lineage::{is_null_of_nulls, over_columns};
use crate::raw_table::RawTable;
use crate::session::MemoryTable;

/// A column of a relation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct BaseColumn {
    /// The relation's number.
    pub(super) relation: usize,
    /// The column's index in the table.
    pub(super) column: usize,
}

/// An equality that joins two relations.
#[derive(Debug)]
pub(super) struct Edge {
    /// What is equal, on two sides; of semi- and anti-joins the kept rows' first. Of inner joins one pair.
    pub(super) sides: Vec<(Expr, Expr)>,
    /// What rows of the second side are looked up for.
    pub(super) kind: ProbeKind,
    /// The relations of the second side, if rows of the first one alone are aggregated.
    pub(super) inner: Range<usize>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct JoinGraph {
    pub(super) relations: Vec<Relation>,
    pub(super) edges: Vec<Edge>,
    /// All of which a row has to pass.
    pub(super) conditions: Vec<Expr>,
    pub(super) planning: Planning,
}

impl JoinGraph {
    /// The graph of a plan and, for each of the plan's columns, what it is.
    pub(super) fn of(plan: &LogicalPlan, planning: &Planning) -> Result<(Self, Vec<Expr>), Refusal> {
        let planning = planning.clone();
        let mut graph = Self { relations: Vec::new(), edges: Vec::new(), conditions: Vec::new(), planning };
        let columns = graph.add(plan)?;
        graph.check_outer()?;
        Ok((graph, columns))
    }

    /// What is found for rows of an outer join may be NULL although its column is not. Conditions on it alone, and joins by
    /// it, would be evaluated while its table is built, before a row turns out to have no match: there are none.
    fn check_outer(&self) -> Result<(), Refusal> {
        for outer in self.edges.iter().filter(|edge| edge.kind == ProbeKind::Outer) {
            let is_found =
                |column: &&Column| self.named(column).is_some_and(|base| outer.inner.contains(&base.relation));
            for condition in &self.conditions {
                let columns = condition.column_refs();
                if !columns.is_empty() && columns.iter().all(&is_found) {
                    return Err(Refusal::new(format!("{} of an outer join", self.readable(condition))));
                }
            }
            let others = self.edges.iter().filter(|edge| !std::ptr::eq(*edge, outer));
            let sides = others.flat_map(|edge| &edge.sides).flat_map(|(one, other)| [one, other]);
            if let Some(side) = sides.into_iter().find(|side| side.column_refs().iter().any(is_found)) {
                return Err(Refusal::new(format!("a join by {} of an outer join", self.readable(side))));
            }
        }
        Ok(())
    }

    /// The relation's column that an expression is, if it is nothing else.
    pub(super) fn base_column(&self, expr: &Expr) -> Option<BaseColumn> {
        let Expr::Column(column) = expr else { return None };
        self.named(column)
    }

    /// The column of that name.
    pub(super) fn named(&self, column: &Column) -> Option<BaseColumn> {
        let relation: usize = column.relation.as_ref()?.table().parse().ok()?;
        let schema = &self.relations.get(relation)?.schema;
        Some(BaseColumn { relation, column: schema.index_of(&column.name).ok()? })
    }

    /// What is known of a relation's column.
    pub(super) fn field(&self, base: BaseColumn) -> &Field {
        self.relations[base.relation].schema.field(base.column)
    }

    /// The expression that is a relation's column.
    pub(super) fn expr_of(&self, base: BaseColumn) -> Expr {
        let name = self.relations[base.relation].schema.field(base.column).name();
        Expr::Column(Column::new(Some(TableReference::bare(base.relation.to_string())), name))
    }

    /// The name of a relation's table.
    pub(super) fn table_name(&self, relation: usize) -> &str {
        &self.relations[relation].name
    }

    /// An expression with the names of tables in place of the relations' numbers.
    pub(super) fn readable(&self, expr: &Expr) -> String {
        let mut text = expr.to_string();
        for column in expr.column_refs() {
            if let Some(base) = self.named(column) {
                let named = format!("{}.{}", self.table_name(base.relation), column.name);
                text = text.replace(&column.flat_name(), &named);
            }
        }
        text
    }

    /// An expression over what the columns of its input are, with parameters in place of subqueries.
    pub(super) fn over(&self, expr: &Expr, schema: &DFSchema, columns: &[Expr]) -> Result<Expr, Refusal> {
        let resolved = over_columns(&self.planning.without_subqueries(expr)?, schema, columns)?;
        let resolved = resolved.ok_or_else(|| Refusal::new(format!("{expr} holds a subquery")))?;
        match resolved.is_volatile() {
            true => Err(Refusal::new(format!("{expr} does not have the same value each time"))),
            false => {
                let by_columns = resolved.transform_up(|nested| {
                    Ok(match self.field_as_column(&nested) {
                        Some(column) => Transformed::yes(column),
                        None => Transformed::no(nested),
                    })
                });
                Ok(by_columns?.data)
            }
        }
    }

    /// The column that a field of a struct is, if its relation knows it as one.
    fn field_as_column(&self, expr: &Expr) -> Option<Expr> {
        let Expr::ScalarFunction(call) = expr else { return None };
        let (of, names) = call.args.split_first().filter(|_| call.func.name() == "get_field")?;
        let mut base = self.base_column(of)?;
        for name in names {
            let Expr::Literal(name, _) = name else { return None };
            base.column = self.relations[base.relation].child(base.column, name.try_as_str()??)?;
        }
        Some(self.expr_of(base))
    }

    fn add(&mut self, plan: &LogicalPlan) -> Result<Vec<Expr>, Refusal> {
        match plan {
            LogicalPlan::TableScan(scan) => self.add_scan(scan),
            LogicalPlan::SubqueryAlias(alias) => self.add(&alias.input),
            LogicalPlan::Projection(projection) => {
                let columns = self.add(&projection.input)?;
                let schema = projection.input.schema();
                projection.expr.iter().map(|expr| self.over(expr, schema, &columns)).collect()
            }
            LogicalPlan::Filter(filter) => {
                let columns = self.add(&filter.input)?;
                self.add_condition(self.over(&filter.predicate, filter.input.schema(), &columns)?);
                Ok(columns)
            }
            LogicalPlan::Join(join) => self.add_join(join),
            LogicalPlan::Aggregate(aggregate) => self.add_groups(aggregate),
            other => {
                let shown = other.display().to_string();
                let node = shown.split([':', ' ']).next().unwrap_or_default();
                Err(Refusal::new(format!("{node} below the aggregate or join")))
            }
        }
    }

    fn add_condition(&mut self, condition: Expr) {
        self.conditions.extend(split_conjunction_owned(condition));
    }

    fn add_scan(&mut self, scan: &TableScan) -> Result<Vec<Expr>, Refusal> {
        let provider = source_as_provider(&scan.source)?;
        if let Some(fused) = provider.downcast_ref::<FusedTable>() {
            return self.add_fused(scan, fused);
        }
        let relation = if let Some(table) = provider.downcast_ref::<ColumnTable>() {
            Relation::of_column_table(table)
        } else if let Some(table) = provider.downcast_ref::<RawTable>() {
            Relation::of_raw_table(scan, table)?
        } else if let Some(table) = provider.downcast_ref::<MemoryTable>() {
            Relation::of_memory_table(scan, table)?
        } else {
            return Err(Refusal::new(format!("{} is no table of this database", scan.table_name)));
        };
        if scan.fetch.is_some() {
            return Err(Refusal::new(format!("a limit on {}", scan.table_name)));
        }
        let qualifier = TableReference::bare(self.relations.len().to_string());
        // Of files the scan has the filters, or the plan has them once more above it.
        let has_filters = matches!(relation.rows, Rows::Pages { .. });
        self.relations.push(relation);
        let column = |name: &str| Expr::Column(Column::new(Some(qualifier.clone()), name));
        let columns: Vec<Expr> = scan.projected_schema.fields().iter().map(|field| column(field.name())).collect();
        if !has_filters {
            return Ok(columns);
        }
        // A scan's filters name columns that it need not put out.
        let schema = scan.source.schema();
        let all: Vec<Expr> = schema.fields().iter().map(|field| column(field.name())).collect();
        let all_schema = DFSchema::try_from_qualified_schema(scan.table_name.clone(), schema.as_ref())?;
        for filter in &scan.filters {
            self.add_condition(self.over(filter, &all_schema, &all)?);
        }
        Ok(columns)
    }

    /// An aggregate below another one: its groups are a relation's rows.
    fn add_groups(&mut self, aggregate: &Aggregate) -> Result<Vec<Expr>, Refusal> {
        let plan = star::plan(aggregate, &self.planning, None)?;
        if let GroupWay::AtMost(_) = plan.group_way() {
            return Err(Refusal::new("there may be too many groups below the aggregate"));
        }
        let schema = unique_names(&aggregate.schema);
        let qualifier = TableReference::bare(self.relations.len().to_string());
        let column = |field: &Arc<Field>| Expr::Column(Column::new(Some(qualifier.clone()), field.name()));
        let columns = schema.fields().iter().map(column).collect();
        self.relations.push(Relation::of_groups(Arc::new(plan), Arc::new(aggregate.clone()), schema)?);
        Ok(columns)
    }

    /// What was fused when what stands above it was not yet as it is now: optimizers pass over plans several times.
    fn add_fused(&mut self, scan: &TableScan, fused: &FusedTable) -> Result<Vec<Expr>, Refusal> {
        if scan.fetch.is_some() || !scan.filters.is_empty() {
            return Err(Refusal::new("a limit on what is fused"));
        }
        let columns = self.add(fused.replaced())?;
        Ok(match &scan.projection {
            Some(projection) => projection.iter().map(|column| columns[*column].clone()).collect(),
            None => columns,
        })
    }

    fn add_join(&mut self, join: &Join) -> Result<Vec<Expr>, Refusal> {
        if join.null_equality != NullEquality::NullEqualsNothing {
            return Err(Refusal::new("a join that holds NULLs to be equal"));
        }
        if let (Some(filter), true) = (&join.filter, !matches!(join.join_type, JoinType::Inner)) {
            return self.add_other_values(join, filter);
        }
        let (first, conditions) = (self.relations.len(), self.conditions.len());
        let left = self.add(&join.left)?;
        let (middle, left_conditions) = (self.relations.len(), conditions..self.conditions.len());
        let right = self.add(&join.right)?;
        let (past, right_conditions) = (self.relations.len(), left_conditions.end..self.conditions.len());
        let sides = |(left_side, right_side): &(Expr, Expr)| -> Result<(Expr, Expr), Refusal> {
            Ok((self.over(left_side, join.left.schema(), &left)?, self.over(right_side, join.right.schema(), &right)?))
        };
        let on = join.on.iter().map(sides).collect::<Result<Vec<_>, _>>()?;
        match join.join_type {
            JoinType::Inner => {
                let edge = |sides| Edge { sides: vec![sides], kind: ProbeKind::Inner, inner: 0..0 };
                self.edges.extend(on.into_iter().map(edge));
                let columns = [left, right].concat();
                if let Some(filter) = &join.filter {
                    self.add_condition(self.over(filter, &join.schema, &columns)?);
                }
                Ok(columns)
            }
            join_type @ (JoinType::LeftSemi | JoinType::RightSemi | JoinType::LeftAnti | JoinType::RightAnti) => {
                if on.is_empty() {
                    return Err(Refusal::new(format!("a {join_type} join without equalities")));
                }
                let is_left = matches!(join_type, JoinType::LeftSemi | JoinType::LeftAnti);
                let kind = match join_type {
                    JoinType::LeftSemi | JoinType::RightSemi => ProbeKind::Semi,
                    _ if join.null_aware => ProbeKind::NullAwareAnti,
                    _ => ProbeKind::Anti,
                };
                let turned =
                    |(left_side, right_side)| if is_left { (left_side, right_side) } else { (right_side, left_side) };
                let sides = on.into_iter().map(turned).collect();
                let inner = if is_left { middle..past } else { first..middle };
                self.edges.push(Edge { sides, kind, inner });
                Ok(if is_left { left } else { right })
            }
            join_type @ (JoinType::Left | JoinType::Right) => {
                let is_left = join_type == JoinType::Left;
                let (inner, conditions) =
                    if is_left { (middle..past, right_conditions) } else { (first..middle, left_conditions) };
                // Each row has one match at most, all of which is there when it is looked up.
                let [Relation { rows: Rows::Groups { .. }, .. }] = &self.relations[inner.clone()] else {
                    return Err(Refusal::new(format!("a {join_type} join to other rows than groups")));
                };
                if on.is_empty() || !conditions.is_empty() {
                    return Err(Refusal::new(format!("a {join_type} join by other conditions than equalities")));
                }
                let turned =
                    |(left_side, right_side)| if is_left { (left_side, right_side) } else { (right_side, left_side) };
                let sides: Vec<(Expr, Expr)> = on.into_iter().map(turned).collect();
                let (left, right) = match is_left {
                    true => (left, self.found(right, &sides)?),
                    false => (self.found(left, &sides)?, right),
                };
                self.edges.push(Edge { sides, kind: ProbeKind::Outer, inner });
                Ok([left, right].concat())
            }
            other => Err(Refusal::new(format!("a {other} join"))),
        }
    }

    /// The columns of what an outer join finds: NULL where it finds nothing, whatever they are computed of.
    fn found(&self, columns: Vec<Expr>, sides: &[(Expr, Expr)]) -> Result<Vec<Expr>, Refusal> {
        // Of a match it is not NULL, since it is equal to something.
        let key = sides.iter().map(|(_, key)| key).find(|key| self.base_column(key).is_some());
        let found = |column: Expr| {
            if is_null_of_nulls(&column) {
                return Ok(column);
            }
            let Some(key) = key else {
                return Err(Refusal::new(format!("{} of an outer join", self.readable(&column))));
            };
            let is_matched = Box::new(key.clone().is_not_null());
            Ok(Expr::Case(Case::new(None, vec![(is_matched, Box::new(column))], None)))
        };
        columns.into_iter().map(found).collect()
    }

    /// A join for the rows for which there is another value, or for which there is none: see [`other_values`].
    fn add_other_values(&mut self, join: &Join, filter: &Expr) -> Result<Vec<Expr>, Refusal> {
        let (outer, inner, exists) = match join.join_type {
            JoinType::LeftSemi => (&join.left, &join.right, true),
            JoinType::LeftAnti => (&join.left, &join.right, false),
            JoinType::RightSemi => (&join.right, &join.left, true),
            JoinType::RightAnti => (&join.right, &join.left, false),
            other => return Err(Refusal::new(format!("a {other} join by more than equalities"))),
        };
        let inequality = Inequality::of(filter, inner.schema(), outer.schema());
        let Some(inequality) = inequality.filter(|_| !join.on.is_empty() && !join.null_aware) else {
            return self.add_matching_groups(join, filter);
        };
        let is_left = Arc::ptr_eq(outer, &join.left);
        let (own_keys, keys): (Vec<&Expr>, Vec<&Expr>) =
            join.on.iter().map(|(left, right)| if is_left { (left, right) } else { (right, left) }).unzip();
        let columns = self.add(outer)?;
        let own_keys = own_keys.into_iter().map(|key| self.over(key, outer.schema(), &columns));
        let own_keys = own_keys.collect::<Result<Vec<_>, _>>()?;
        let value = self.over(&inequality.outer, outer.schema(), &columns)?;
        if self.base_column(&value).is_none() {
            return Err(Refusal::new(format!("{} is no column", self.readable(&value))));
        }
        let first = self.relations.len();
        let groups = self.add_groups(&inequality.groups(inner, keys.into_iter().cloned().collect())?)?;
        let inner = first..self.relations.len();
        let (keys, ends) = groups.split_at(own_keys.len());
        let [least, greatest] = ends else { return Err(Refusal::new("groups without ends")) };
        let mut sides = own_keys.into_iter().zip(keys.iter().cloned());
        if exists {
            // Each key has one group.
            let edge = |sides| Edge { sides: vec![sides], kind: ProbeKind::Inner, inner: inner.clone() };
            self.edges.extend(sides.by_ref().map(edge));
        } else {
            self.edges.push(Edge { sides: sides.collect(), kind: ProbeKind::Outer, inner });
        }
        self.conditions.push(has_another(least.clone(), greatest.clone(), value, exists));
        Ok(columns)
    }

    /// A join for the rows whose group passes a filter, if each has one group at most.
    fn add_matching_groups(&mut self, join: &Join, filter: &Expr) -> Result<Vec<Expr>, Refusal> {
        let refusal = || Refusal::new(format!("a {} join by {filter}", join.join_type));
        if !matches!(join.join_type, JoinType::LeftSemi | JoinType::RightSemi) {
            return Err(refusal());
        }
        let is_left = join.join_type == JoinType::LeftSemi;
        let first = self.relations.len();
        let left = self.add(&join.left)?;
        let middle = self.relations.len();
        let right = self.add(&join.right)?;
        let (inner, kept) = if is_left { (middle..self.relations.len(), &left) } else { (first..middle, &right) };
        let [Relation { rows: Rows::Groups { aggregate, .. }, .. }] = &self.relations[inner.clone()] else {
            return Err(refusal());
        };
        let mut unmatched: BTreeSet<usize> = (0..aggregate.group_expr.len()).collect();
        let mut edges = Vec::with_capacity(join.on.len());
        for (left_side, right_side) in &join.on {
            let sides =
                (self.over(left_side, join.left.schema(), &left)?, self.over(right_side, join.right.schema(), &right)?);
            let (own, key) = if is_left { sides } else { (sides.1, sides.0) };
            if let Some(base) = self.base_column(&key) {
                unmatched.remove(&base.column);
            }
            edges.push(Edge { sides: vec![(own, key)], kind: ProbeKind::Inner, inner: inner.clone() });
        }
        if !unmatched.is_empty() {
            return Err(refusal());
        }
        let schema = join.left.schema().join(join.right.schema())?;
        let condition = self.over(filter, &schema, &[left.as_slice(), &right].concat())?;
        let kept = kept.clone();
        self.edges.extend(edges);
        self.add_condition(condition);
        Ok(kept)
    }
}

/// The columns of a plan, which differ by qualifier if they have one name, with a name for each.
pub(super) fn unique_names(schema: &DFSchema) -> SchemaRef {
    let fields = schema.fields();
    // A name that is made may be another column's own.
    let mut taken: HashSet<String> = fields.iter().map(|field| field.name().clone()).collect();
    let mut met = HashSet::with_capacity(fields.len());
    let renamed = fields.iter().enumerate().map(|(number, field)| {
        let name = field.name();
        if met.insert(name) {
            return Arc::clone(field);
        }
        let free = (number..).map(|number| format!("{name}#{number}")).find(|made| taken.insert(made.clone()));
        Arc::new(field.as_ref().clone().with_name(free.unwrap_or_else(|| name.clone())))
    });
    Arc::new(Schema::new(renamed.collect::<Vec<_>>()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use datafusion::arrow::datatypes::DataType;

    use super::*;

    #[test]
    fn a_name_that_is_made_is_no_other_columns_own() {
        let columns = [("a", "x"), ("b", "x"), ("b", "x#1"), ("b", "x#2"), ("c", "x"), ("c", "x#1")];
        let fields = columns.map(|(table, name)| {
            (Some(TableReference::bare(table)), Arc::new(Field::new(name, DataType::Int64, false)))
        });
        let schema = DFSchema::new_with_metadata(fields.to_vec(), Default::default()).unwrap();
        let unique = unique_names(&schema);
        let names: Vec<&str> = unique.fields().iter().map(|field| field.name().as_str()).collect();
        assert_eq!(names, ["x", "x#3", "x#1", "x#2", "x#4", "x#1#5"]);
    }
}

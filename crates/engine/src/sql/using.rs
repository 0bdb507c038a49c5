//! The columns that `JOIN … USING` and `NATURAL JOIN` make one of two.
//!
//! DataFusion takes the left one, which is NULL in rows that only the right side of a `RIGHT` or `FULL` join has: reading
//! it there is refused. And it does not know in `WHERE` which of the two is meant: there the left one is named, where all
//! joins share the column and it is the value of both.

use std::ops::ControlFlow;

use datafusion::common::{DataFusionError, Result, plan_datafusion_err};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Join, JoinConstraint, JoinOperator, ObjectName, OrderByKind, Query, Select, SelectItem, SetExpr,
    TableFactor, TableWithJoins, VisitMut, VisitorMut,
};

use super::visits::visit_mut;

/// Says which of two shared columns a `WHERE` means.
///
/// # Errors
/// When a shared column is read that may be NULL where it has a value.
pub(super) fn put_right(statement: &mut Statement) -> Result<()> {
    match visit_mut(statement, &mut Selects) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct Selects;

impl VisitorMut for Selects {
    type Break = DataFusionError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<DataFusionError> {
        let Query { body, order_by: Some(order_by), .. } = query else { return ControlFlow::Continue(()) };
        let (SetExpr::Select(select), OrderByKind::Expressions(sorted)) = (body.as_ref(), &mut order_by.kind) else {
            return ControlFlow::Continue(());
        };
        let mut half = shared(&select.from)?;
        // ORDER BY means what the query returns by that name first.
        half.retain(|column| !select.projection.iter().any(|item| is_named(item, column)));
        refuse_reading(sorted, &half)
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<DataFusionError> {
        let half = shared(&select.from)?;
        if let Some(column) = half.first()
            && select.projection.iter().any(|item| matches!(item, SelectItem::Wildcard(_)))
        {
            return ControlFlow::Break(half_read("*", column));
        }
        refuse_reading(select, &half)?;
        if let Some(selection) = &mut select.selection
            && let [tables] = select.from.as_slice()
            && let Some(left) = table_name(&tables.relation)
        {
            return reading(selection, |expr, name| {
                if tables.joins.iter().all(|join| leaves_left(join, name)) && !tables.joins.is_empty() {
                    let parts = left.iter().cloned().chain([name.clone()]).collect();
                    *expr = Expr::CompoundIdentifier(parts);
                }
                ControlFlow::Continue(())
            });
        }
        ControlFlow::Continue(())
    }
}

/// The columns that `RIGHT` and `FULL` joins share.
fn shared(from: &[TableWithJoins]) -> ControlFlow<DataFusionError, Vec<Ident>> {
    let mut all = Vec::new();
    let mut half = Vec::new();
    let mut is_natural = false;
    let mut left: Vec<&TableWithJoins> = from.iter().collect();
    while let Some(tables) = left.pop() {
        for relation in std::iter::once(&tables.relation).chain(tables.joins.iter().map(|join| &join.relation)) {
            if let TableFactor::NestedJoin { table_with_joins, .. } = relation {
                left.push(table_with_joins);
            }
        }
        for join in &tables.joins {
            let is_half = matches!(
                join.join_operator,
                JoinOperator::Right(_) | JoinOperator::RightOuter(_) | JoinOperator::FullOuter(_)
            );
            match constraint(&join.join_operator) {
                Some(JoinConstraint::Natural) if is_half => {
                    return ControlFlow::Break(plan_datafusion_err!(
                        "NATURAL RIGHT JOIN and NATURAL FULL JOIN are not supported: write ON, and coalesce(…) for the \
                         columns of both sides"
                    ));
                }
                Some(JoinConstraint::Natural) => is_natural = true,
                Some(JoinConstraint::Using(columns)) => {
                    let columns = columns.iter().filter_map(column_name);
                    if is_half {
                        half.extend(columns.clone().cloned());
                    }
                    all.extend(columns);
                }
                _ => {}
            }
        }
    }
    // Another join that shares the column reads it too.
    match half.iter().find(|column| is_natural || all.iter().filter(|other| is_same(other, column)).count() > 1) {
        Some(column) => ControlFlow::Break(half_read(&format!("'{column}' of another join"), column)),
        None => ControlFlow::Continue(half),
    }
}

fn half_read(what: &str, column: &Ident) -> DataFusionError {
    plan_datafusion_err!(
        "{what} with RIGHT or FULL JOIN … USING ({column}) is not supported, where a row may have '{column}' on one side \
         only: write ON l.{column} = r.{column}, and coalesce(l.{column}, r.{column}) for the column of both"
    )
}

fn refuse_reading<T: VisitMut>(part: &mut T, half: &[Ident]) -> ControlFlow<DataFusionError> {
    if half.is_empty() {
        return ControlFlow::Continue(());
    }
    reading(part, |_, name| match half.iter().find(|column| is_same(column, name)) {
        Some(column) => ControlFlow::Break(half_read(&format!("'{name}'"), column)),
        None => ControlFlow::Continue(()),
    })
}

/// Calls `found` with the columns that are named without a table, but for those of subqueries, whose own tables come first,
/// and of relations in FROM, which see none of this.
fn reading<T: VisitMut>(
    part: &mut T,
    found: impl FnMut(&mut Expr, &Ident) -> ControlFlow<DataFusionError>,
) -> ControlFlow<DataFusionError> {
    part.visit(&mut Names { found, within: 0 })
}

struct Names<F> {
    found: F,
    /// How many scopes that have names of their own are around.
    within: usize,
}

impl<F> Names<F> {
    fn enter(&mut self, is_scope: bool) -> ControlFlow<DataFusionError> {
        self.within += usize::from(is_scope);
        ControlFlow::Continue(())
    }

    fn leave(&mut self, is_scope: bool) -> ControlFlow<DataFusionError> {
        self.within -= usize::from(is_scope);
        ControlFlow::Continue(())
    }
}

impl<F: FnMut(&mut Expr, &Ident) -> ControlFlow<DataFusionError>> VisitorMut for Names<F> {
    type Break = DataFusionError;

    fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<DataFusionError> {
        self.enter(true)
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<DataFusionError> {
        self.leave(true)
    }

    fn pre_visit_table_factor(&mut self, relation: &mut TableFactor) -> ControlFlow<DataFusionError> {
        self.enter(!matches!(relation, TableFactor::NestedJoin { .. }))
    }

    fn post_visit_table_factor(&mut self, relation: &mut TableFactor) -> ControlFlow<DataFusionError> {
        self.leave(!matches!(relation, TableFactor::NestedJoin { .. }))
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<DataFusionError> {
        match expr {
            Expr::Identifier(name) if self.within == 0 => {
                let name = name.clone();
                (self.found)(expr, &name)
            }
            _ => self.enter(matches!(expr, Expr::Lambda(_))),
        }
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<DataFusionError> {
        self.leave(matches!(expr, Expr::Lambda(_)))
    }
}

/// Whether the join shares the column, and the left one is the value of both.
fn leaves_left(join: &Join, column: &Ident) -> bool {
    let (JoinOperator::Join(constraint)
    | JoinOperator::Inner(constraint)
    | JoinOperator::Left(constraint)
    | JoinOperator::LeftOuter(constraint)) = &join.join_operator
    else {
        return false;
    };
    matches!(constraint, JoinConstraint::Using(columns)
        if columns.iter().filter_map(column_name).any(|shared| is_same(shared, column)))
}

fn constraint(operator: &JoinOperator) -> Option<&JoinConstraint> {
    match operator {
        JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::Left(constraint)
        | JoinOperator::LeftOuter(constraint)
        | JoinOperator::Right(constraint)
        | JoinOperator::RightOuter(constraint)
        | JoinOperator::FullOuter(constraint)
        | JoinOperator::CrossJoin(constraint)
        | JoinOperator::Semi(constraint)
        | JoinOperator::LeftSemi(constraint)
        | JoinOperator::RightSemi(constraint)
        | JoinOperator::Anti(constraint)
        | JoinOperator::LeftAnti(constraint)
        | JoinOperator::RightAnti(constraint)
        | JoinOperator::AsOf { constraint, .. }
        | JoinOperator::StraightJoin(constraint) => Some(constraint),
        JoinOperator::CrossApply
        | JoinOperator::OuterApply
        | JoinOperator::ArrayJoin
        | JoinOperator::LeftArrayJoin
        | JoinOperator::InnerArrayJoin => None,
    }
}

fn column_name(column: &ObjectName) -> Option<&Ident> {
    column.0.last()?.as_ident()
}

/// What columns of a relation are named by.
fn table_name(relation: &TableFactor) -> Option<Vec<Ident>> {
    match relation {
        TableFactor::Table { alias: Some(alias), .. } | TableFactor::Derived { alias: Some(alias), .. } => {
            Some(vec![alias.name.clone()])
        }
        TableFactor::Table { name, alias: None, args: None, .. } => {
            let part = |ident: &Ident| match ident.quote_style {
                // A file. Of a column's name this would be a text.
                Some('\'') => Ident::with_quote('"', &ident.value),
                _ => ident.clone(),
            };
            name.0.iter().map(|name| name.as_ident().map(part)).collect()
        }
        _ => None,
    }
}

/// Whether the query returns the item by that name.
fn is_named(item: &SelectItem, column: &Ident) -> bool {
    match item {
        SelectItem::ExprWithAlias { alias, .. } => is_same(alias, column),
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => {
            parts.last().is_some_and(|name| is_same(name, column))
        }
        _ => false,
    }
}

/// Whether both name one column: what is not quoted is in lower case.
fn is_same(one: &Ident, other: &Ident) -> bool {
    let normal = |name: &Ident| match name.quote_style {
        Some(_) => name.value.clone(),
        None => name.value.to_lowercase(),
    };
    normal(one) == normal(other)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use datafusion::sql::sqlparser::dialect::DuckDbDialect;

    use super::super::{StatementKind, parse};

    fn read(sql: &str) -> String {
        let [statement] = parse(sql, &DuckDbDialect {}, 50).unwrap().try_into().unwrap();
        let StatementKind::Plan(statement) = statement.kind else { panic!("{sql}") };
        statement.to_string()
    }

    #[test]
    fn a_shared_column_in_where_is_the_left_one_where_that_is_sure() {
        for (written, meant) in [
            ("FROM a JOIN b USING (k) WHERE k > 1", "a.k > 1"),
            ("FROM s.a AS d LEFT JOIN b USING (j, k) WHERE NOT k = j", "NOT d.k = d.j"),
            ("FROM s.a INNER JOIN b USING (k) JOIN c USING (k) WHERE K = 1", "s.a.K = 1"),
            ("FROM 'a.csv' JOIN 'b.csv' USING (k) WHERE k > 1", "\"a.csv\".k > 1"),
            // What a subquery and a lambda mean by it is not known.
            ("FROM a JOIN b USING (k) WHERE k IN (SELECT k FROM c)", "a.k IN (SELECT k FROM c)"),
            ("FROM a JOIN b USING (k) WHERE f(l, k -> k > 1)", "f(l, k -> k > 1)"),
            ("FROM a JOIN b USING (k) WHERE \"k\" > 1 AND \"K\" > 1", "a.\"k\" > 1 AND \"K\" > 1"),
            ("FROM a JOIN b USING (\"K\") WHERE k > 1", "k > 1"),
            // One of several, or none.
            ("FROM a JOIN b USING (k) JOIN c ON true WHERE k > 1", "k > 1"),
            ("FROM a JOIN b USING (k), c WHERE k > 1", "k > 1"),
            ("FROM a JOIN b USING (k) WHERE j > 1", "j > 1"),
            ("FROM a WHERE k > 1", "k > 1"),
        ] {
            let found = read(&format!("SELECT 1 {written}"));
            assert!(found.ends_with(&format!("WHERE {meant}")), "{found}");
        }
    }

    #[test]
    fn what_right_and_full_joins_share_is_not_read() {
        for sql in [
            "SELECT * FROM a FULL JOIN b USING (k)",
            "SELECT K FROM a RIGHT OUTER JOIN b USING (k)",
            "SELECT a.j FROM a RIGHT JOIN b USING (k) WHERE k + 1 > 2",
            "SELECT count(*) FROM a FULL JOIN b USING (k) GROUP BY k",
            "SELECT coalesce(a.k, b.k) AS k FROM a FULL JOIN b USING (k) GROUP BY k",
            "SELECT a.j FROM a RIGHT JOIN b USING (k) ORDER BY k",
            "SELECT a.j FROM a FULL JOIN b USING (k) JOIN c ON c.k = k",
            "SELECT a.j FROM a FULL JOIN b USING (k) JOIN c USING (k)",
            "SELECT a.j FROM (a FULL JOIN b USING (k)) NATURAL JOIN c",
            "SELECT 1 UNION ALL SELECT k FROM (a FULL JOIN b USING (k))",
            "SELECT count(*) FROM a NATURAL FULL JOIN b",
            "EXPLAIN SELECT (SELECT max(k) FROM a FULL JOIN b USING (k))",
        ] {
            let refused = parse(sql, &DuckDbDialect {}, 50).unwrap_err().to_string();
            assert!(refused.contains("write ON") && refused.contains("coalesce"), "{sql}: {refused}");
        }
        for sql in [
            "SELECT coalesce(a.k, b.k) AS k, a.* FROM a FULL JOIN b USING (k) ORDER BY k",
            "SELECT b.k FROM a RIGHT JOIN b USING (k) WHERE a.k IS NULL ORDER BY k",
            "SELECT count(*) FROM (SELECT k FROM c) AS a FULL JOIN (SELECT k FROM d) AS b USING (k)",
            "SELECT a.j FROM a RIGHT JOIN b USING (k) WHERE a.k IN (SELECT k FROM c)",
            "SELECT * FROM a LEFT JOIN b USING (k) JOIN c USING (k) ORDER BY k",
            "SELECT * FROM a FULL JOIN b ON a.k = b.k",
        ] {
            assert!(parse(sql, &DuckDbDialect {}, 50).is_ok(), "{sql}");
        }
    }
}

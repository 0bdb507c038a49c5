//! `x IN (SELECT …)` and `EXISTS (SELECT …)` among what is selected, as counts.
//!
//! DataFusion plans these two in conditions alone. What is counted instead are the rows that match, that are there, and
//! that are NULL, which together tell what SQL says of `IN`. Owns: how that is written. Does not own: subqueries in
//! conditions, nor whether DataFusion can plan the counts: of a subquery with aggregates, `DISTINCT`, `LIMIT` or the
//! like that names columns outside of it, it can not.
//!
//! Invariants: no name that the tested value has is found in the subquery. What is selected keeps the name that was
//! written.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, GroupByExpr, Ident, ObjectNamePart, Query, Select, SelectItem, SetExpr, TableFactor,
    UnaryOperator, Visit, VisitMut, Visitor, VisitorMut, visit_expressions,
};

use super::synonyms::{spelt_out, taken, written};
use super::visits::visit_mut;

/// Rewrites the subqueries of a statement that are selected.
pub(super) fn count(statement: &mut Statement) {
    let _never_breaks = visit_mut(statement, &mut Selects);
}

struct Selects;

impl VisitorMut for Selects {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        for item in &mut select.projection {
            let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else { continue };
            let mut counted = expr.clone();
            let mut counts = Counts::default();
            let _never_breaks = VisitMut::visit(&mut counted, &mut counts);
            if !counts.has_found {
                continue;
            }
            let original = std::mem::replace(expr, counted);
            if let SelectItem::UnnamedExpr(expr) = item {
                *item = SelectItem::ExprWithAlias { expr: taken(expr), alias: written(&original) };
            }
        }
        ControlFlow::Continue(())
    }
}

/// Rewrites the subqueries of one expression, not those within them.
#[derive(Default)]
struct Counts {
    depth: usize,
    has_found: bool,
}

impl VisitorMut for Counts {
    type Break = ();

    fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let (meant, negated) = match expr {
            _ if self.depth > 0 => return ControlFlow::Continue(()),
            Expr::Exists { subquery, negated } => (exists(subquery, None), *negated),
            Expr::InSubquery { expr: value, subquery, negated } => (is_in(value, subquery), *negated),
            _ => return ControlFlow::Continue(()),
        };
        self.has_found = true;
        let meant = Box::new(Expr::Nested(Box::new(meant)));
        *expr = if negated { Expr::UnaryOp { op: UnaryOperator::Not, expr: meant } } else { *meant };
        ControlFlow::Continue(())
    }
}

/// Whether a value is among a subquery's; NULL if that is not known.
fn is_in(value: &Expr, subquery: &Query) -> Expr {
    let equal = |of_row: &Expr| spelt_out("($1) = ($2)", &[of_row, value]);
    let is_null = |of_row: &Expr| spelt_out("($1) IS NULL", &[of_row]);
    // Rows' values are named outside of the subquery, unless the tested value has names that are told apart anyway.
    let is_apart = is_apart(value, subquery);
    let subquery_of = |condition: Option<&dyn Fn(&Expr) -> Expr>| match condition {
        Some(condition) if !is_apart => among_rows(subquery, Some(condition)),
        condition => exists(subquery, condition),
    };
    let (found, any, null) = (subquery_of(Some(&equal)), subquery_of(None), subquery_of(Some(&is_null)));
    spelt_out(
        "CASE WHEN $1 THEN true WHEN ($2) IS NULL AND $3 THEN NULL WHEN $4 THEN NULL ELSE false END",
        &[&found, value, &any, &null],
    )
}

/// Whether all columns of a value are named with their tables' names, none of which a subquery has.
fn is_apart(value: &Expr, subquery: &Query) -> bool {
    let mut tables = BTreeSet::new();
    let names_all = visit_expressions(value, |part| match part {
        Expr::Identifier(_) => ControlFlow::Break(()),
        Expr::CompoundIdentifier(parts) => {
            tables.extend(parts.iter().map(|part| part.value.to_lowercase()));
            ControlFlow::Continue(())
        }
        _ => ControlFlow::Continue(()),
    });
    let mut names = Names { tables: &tables };
    names_all.is_continue() && Visit::visit(subquery, &mut names).is_continue()
}

/// Looks for one of some names among the tables of a query, and among what they are called there.
struct Names<'n> {
    tables: &'n BTreeSet<String>,
}

impl Visitor for Names<'_> {
    type Break = ();

    fn pre_visit_table_factor(&mut self, relation: &TableFactor) -> ControlFlow<()> {
        let TableFactor::Table { name, alias, .. } = relation else { return ControlFlow::Break(()) };
        let parts = name.0.iter().filter_map(ObjectNamePart::as_ident);
        let mut all = parts.chain(alias.iter().map(|alias| &alias.name));
        let is_taken = all.any(|name| self.tables.contains(&name.value.to_lowercase()));
        if is_taken { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// Whether a subquery has a row, of those whose value passes `condition`.
fn exists(subquery: &Query, condition: Option<&dyn Fn(&Expr) -> Expr>) -> Expr {
    let mut counted = subquery.clone();
    match plain(&mut counted) {
        Some(select) if condition.is_none() || only_value(select).is_some() => {
            let of_rows = condition.zip(only_value(select)).map(|(condition, value)| condition(&value));
            select.selection = both(select.selection.take(), of_rows);
            select.projection = vec![SelectItem::UnnamedExpr(spelt_out("count(*) > 0", &[]))];
            Expr::Subquery(Box::new(counted))
        }
        _ => among_rows(subquery, condition),
    }
}

/// The rows of a table and a condition, if a query is no more than that, its order aside.
fn plain(query: &mut Query) -> Option<&mut Select> {
    if query.with.is_some() || query.limit_clause.is_some() || query.fetch.is_some() {
        return None;
    }
    query.order_by = None;
    let SetExpr::Select(select) = query.body.as_mut() else { return None };
    let has_groups = match &select.group_by {
        GroupByExpr::All(_) => true,
        GroupByExpr::Expressions(expressions, modifiers) => !expressions.is_empty() || !modifiers.is_empty(),
    };
    let is_filtered = select.having.is_some() || select.qualify.is_some();
    let is_cut = select.distinct.is_some() || select.top.is_some();
    let calls = select.projection.iter().any(has_call);
    (!has_groups && !is_filtered && !is_cut && !calls).then_some(select.as_mut())
}

/// Whether a function is called, which may be an aggregate, or make rows.
fn has_call(item: &SelectItem) -> bool {
    let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else { return false };
    let found = visit_expressions(expr, |part| match part {
        Expr::Function(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}

/// What a query selects, if that is one expression.
fn only_value(select: &Select) -> Option<Expr> {
    match select.projection.as_slice() {
        [SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }] => Some(expr.clone()),
        _ => None,
    }
}

fn both(one: Option<Expr>, other: Option<Expr>) -> Option<Expr> {
    match (one, other) {
        (Some(one), Some(other)) => {
            let [left, right] = [one, other].map(|condition| Box::new(Expr::Nested(Box::new(condition))));
            Some(Expr::BinaryOp { left, op: BinaryOperator::And, right })
        }
        (one, other) => one.or(other),
    }
}

/// Names that no table and no column has.
const ROWS: &str = "rows of a subquery";
const VALUE: &str = "value of a row of a subquery";

/// As [`exists`], of whatever query.
fn among_rows(subquery: &Query, condition: Option<&dyn Fn(&Expr) -> Expr>) -> Expr {
    let value = Expr::CompoundIdentifier(vec![Ident::with_quote('"', ROWS), Ident::with_quote('"', VALUE)]);
    let mut counted = match condition {
        Some(condition) => {
            let spelling = format!("(SELECT count(*) > 0 FROM (SELECT 1) AS \"{ROWS}\" (\"{VALUE}\") WHERE $1)");
            spelt_out(&spelling, &[&condition(&value)])
        }
        None => spelt_out(&format!("(SELECT count(*) > 0 FROM (SELECT 1) AS \"{ROWS}\")"), &[]),
    };
    let _never_breaks = VisitMut::visit(&mut counted, &mut Within { subquery: Some(subquery) });
    counted
}

/// Puts a subquery where its rows are named first: the tested value behind it may have others.
struct Within<'q> {
    subquery: Option<&'q Query>,
}

impl VisitorMut for Within<'_> {
    type Break = ();

    fn post_visit_table_factor(&mut self, relation: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Derived { subquery, alias: Some(alias), .. } = relation
            && alias.name.value == ROWS
            && let Some(of_rows) = self.subquery.take()
        {
            **subquery = of_rows.clone();
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use datafusion::sql::sqlparser::dialect::GenericDialect;

    use super::super::{StatementKind, parse};

    fn counted(sql: &str) -> String {
        let [statement] = parse(sql, &GenericDialect, 50).unwrap().try_into().unwrap();
        let StatementKind::Plan(mut statement) = statement.kind else { panic!("{sql}") };
        super::count(&mut statement);
        statement.to_string()
    }

    #[test]
    fn what_is_selected_is_counted_and_conditions_stay() {
        for (written, meant) in [
            (
                "SELECT EXISTS (SELECT * FROM s WHERE s.a = t.a) AS e FROM t",
                "SELECT ((SELECT count(*) > 0 FROM s WHERE s.a = t.a)) AS e FROM t",
            ),
            (
                "SELECT NOT EXISTS (SELECT max(a) FROM s) AS e",
                "SELECT NOT ((SELECT count(*) > 0 FROM (SELECT max(a) FROM s) AS \"rows of a subquery\")) AS e",
            ),
            (
                "SELECT t.a IN (SELECT b FROM s WHERE c OR d) AS i FROM t",
                "SELECT (CASE WHEN (SELECT count(*) > 0 FROM s WHERE (c OR d) AND ((b) = (t.a))) THEN true \
                 WHEN (t.a) IS NULL AND (SELECT count(*) > 0 FROM s WHERE c OR d) THEN NULL \
                 WHEN (SELECT count(*) > 0 FROM s WHERE (c OR d) AND ((b) IS NULL)) THEN NULL ELSE false END) AS i FROM t",
            ),
            (
                "SELECT a FROM t WHERE a IN (SELECT b FROM s) AND EXISTS (SELECT 1 FROM s)",
                "SELECT a FROM t WHERE a IN (SELECT b FROM s) AND EXISTS (SELECT 1 FROM s)",
            ),
        ] {
            assert_eq!(counted(written), meant);
        }
        let condition = |value: &str| {
            format!(
                "AS \"rows of a subquery\" (\"value of a row of a subquery\") WHERE \
                 (\"rows of a subquery\".\"value of a row of a subquery\") = ({value})"
            )
        };
        let named = counted("SELECT a IN (SELECT a FROM s) FROM t");
        assert!(named.contains(&condition("a")), "{named}");
        assert!(named.contains("AS \"a IN (SELECT a FROM s)\" FROM t"), "{named}");
        // The subquery would take these names for its own.
        for from in ["t", "s AS T", "s, main.t", "(SELECT 1) AS t"] {
            let named = counted(&format!("SELECT t.a IN (SELECT b FROM {from}) FROM t"));
            assert!(named.contains(&condition("t.a")), "{named}");
        }
        let nested = counted("SELECT (a IN (SELECT b FROM s)) IN (SELECT c FROM u) AS i FROM t");
        assert!(nested.contains("FROM (SELECT b FROM s)") && nested.contains("FROM (SELECT c FROM u)"), "{nested}");
    }
}

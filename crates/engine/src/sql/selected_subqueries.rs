//! `x IN (SELECT …)` and `EXISTS (SELECT …)` among what is selected keep the names that were written.
//!
//! DataFusion calls them all by `<subquery>`. How they are answered is a matter of the plan
//! ([`logical_rules`](crate::logical_rules)).

use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{Expr, Query, Select, SelectItem, Visit, Visitor, VisitorMut};

use super::synonyms::{taken, written};
use super::visits::visit_mut;

/// Names what a statement selects of these.
pub(super) fn name(statement: &mut Statement) {
    let _never_breaks = visit_mut(statement, &mut Selects);
}

struct Selects;

impl VisitorMut for Selects {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(expr) = item
                && Visit::visit(expr, &mut Asked::default()).is_break()
            {
                let alias = written(expr);
                *item = SelectItem::ExprWithAlias { expr: taken(expr), alias };
            }
        }
        ControlFlow::Continue(())
    }
}

/// Looks for them in one expression, not in the subqueries that it has.
#[derive(Default)]
struct Asked {
    depth: usize,
}

impl Visitor for Asked {
    type Break = ();

    fn pre_visit_query(&mut self, _query: &Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::Exists { .. } | Expr::InSubquery { .. } if self.depth == 0 => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use datafusion::sql::sqlparser::dialect::GenericDialect;

    use super::super::{StatementKind, parse};

    #[test]
    fn what_is_selected_is_named_and_conditions_stay() {
        for (written, meant) in [
            (
                "SELECT NOT EXISTS (SELECT a FROM s), 1 FROM t",
                "SELECT NOT EXISTS (SELECT a FROM s) AS \"NOT EXISTS (SELECT a FROM s)\", 1 FROM t",
            ),
            (
                "SELECT a NOT IN (SELECT b FROM s) IS NULL FROM t",
                "SELECT a NOT IN (SELECT b FROM s) IS NULL AS \"a NOT IN (SELECT b FROM s) IS NULL\" FROM t",
            ),
            (
                "SELECT a, (SELECT max(b) FROM s WHERE b IN (SELECT c FROM u)), EXISTS (SELECT 1) AS e FROM t",
                "SELECT a, (SELECT max(b) FROM s WHERE b IN (SELECT c FROM u)), EXISTS (SELECT 1) AS e FROM t",
            ),
            (
                "SELECT a FROM t WHERE a IN (SELECT b FROM s) AND EXISTS (SELECT 1 FROM s)",
                "SELECT a FROM t WHERE a IN (SELECT b FROM s) AND EXISTS (SELECT 1 FROM s)",
            ),
        ] {
            let [statement] = parse(written, &GenericDialect, 50).unwrap().try_into().unwrap();
            let StatementKind::Plan(mut statement) = statement.kind else { panic!("{written}") };
            super::name(&mut statement);
            assert_eq!(statement.to_string(), meant);
        }
    }
}

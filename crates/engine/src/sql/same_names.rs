//! Selected expressions that DataFusion gives one name, as it does to a column and the column cast, and to all subqueries.
//!
//! Of such, those behind the first get a name of their own: what was written, or with a number where that was the same.

use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{Expr, Ident, Select, SelectItem, Value, VisitMut, VisitorMut};

use super::synonyms::taken;
use super::visits::visit_mut;

/// Gives names to the selected expressions of a statement that have none of their own.
pub(super) fn tell_apart(statement: &mut Statement) {
    let _never_breaks = visit_mut(statement, &mut Selects);
}

struct Selects;

impl VisitorMut for Selects {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let mut seen: Vec<(Expr, String)> = Vec::new();
        for item in &mut select.projection {
            let SelectItem::UnnamedExpr(expr) = item else { continue };
            let (named, written) = (named(expr), expr.to_string());
            let same = seen.iter().filter(|(other, _)| *other == named);
            let (same_count, is_repeated) =
                same.fold((0, false), |(count, is_repeated), (_, other)| (count + 1, is_repeated || *other == written));
            seen.push((named, written.clone()));
            if same_count > 0 {
                let name = if is_repeated { format!("{written}_{same_count}") } else { written };
                *item = SelectItem::ExprWithAlias { expr: taken(expr), alias: Ident::with_quote('"', name) };
            }
        }
        ControlFlow::Continue(())
    }
}

/// What of an expression tells its name from others.
fn named(expr: &Expr) -> Expr {
    struct Unnamed;
    impl VisitorMut for Unnamed {
        type Break = ();

        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            match expr {
                Expr::Cast { expr: of, .. } | Expr::Nested(of) => *expr = taken(of),
                // All subqueries have one name.
                Expr::Subquery(_) => *expr = Expr::value(Value::Null),
                _ => {}
            }
            ControlFlow::Continue(())
        }
    }
    let mut expr = expr.clone();
    let _never_breaks = VisitMut::visit(&mut expr, &mut Unnamed);
    expr
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use datafusion::sql::sqlparser::dialect::GenericDialect;

    use super::super::{StatementKind, parse};

    #[test]
    fn what_has_the_name_of_another_gets_one_of_its_own() {
        for (written, meant) in [
            (
                "SELECT a, CAST(a AS INT), a::TEXT FROM t",
                "SELECT a, CAST(a AS INT) AS \"CAST(a AS INT)\", a::TEXT AS \"a::TEXT\" FROM t",
            ),
            (
                "SELECT (SELECT 1), 1 + (SELECT 2), (SELECT 3)",
                "SELECT (SELECT 1), 1 + (SELECT 2), (SELECT 3) AS \"(SELECT 3)\"",
            ),
            ("SELECT a, a, b, a FROM t", "SELECT a, a AS \"a_1\", b, a AS \"a_2\" FROM t"),
            (
                "SELECT 1, (1), a + b, a + CAST(b AS INT)",
                "SELECT 1, (1) AS \"(1)\", a + b, a + CAST(b AS INT) AS \"a + CAST(b AS INT)\"",
            ),
            (
                "SELECT t.a, u.a, a AS b, a AS c, *, sum(a), sum(b)",
                "SELECT t.a, u.a, a AS b, a AS c, *, sum(a), sum(b)",
            ),
        ] {
            let [statement] = parse(written, &GenericDialect, 50).unwrap().try_into().unwrap();
            let StatementKind::Plan(mut statement) = statement.kind else { panic!("{written}") };
            super::tell_apart(&mut statement);
            assert_eq!(statement.to_string(), meant);
        }
    }
}

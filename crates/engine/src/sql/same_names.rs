//! Selected expressions that DataFusion gives one name, as it does to a column and the column cast, and to all subqueries.
//!
//! Of such, those behind the first get a name of their own: what was written, or with a number where that was the same.
//! Such a name is none that the statement has, where it means something else.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{Expr, Ident, Select, SelectItem, Value, VisitMut, Visitor, VisitorMut};

use super::synonyms::taken;
use super::visits::{visit, visit_mut};

/// Gives names to the selected expressions of a statement that have none of their own.
pub(super) fn tell_apart(statement: &mut Statement) {
    let mut names = Names::default();
    let _never_breaks = visit(statement, &mut names);
    let _never_breaks = visit_mut(statement, &mut Selects { names: names.all });
}

/// The names that expressions and what is selected have, in lower case.
#[derive(Default)]
struct Names {
    all: BTreeSet<String>,
}

impl Visitor for Names {
    type Break = ();

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        for item in &select.projection {
            if let SelectItem::ExprWithAlias { alias, .. } = item {
                self.all.insert(alias.value.to_lowercase());
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::Identifier(name) => {
                self.all.insert(name.value.to_lowercase());
            }
            Expr::CompoundIdentifier(parts) => self.all.extend(parts.iter().map(|part| part.value.to_lowercase())),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

struct Selects {
    names: BTreeSet<String>,
}

impl VisitorMut for Selects {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let mut seen: Vec<(Expr, String)> = Vec::new();
        let mut given = BTreeSet::new();
        for item in &mut select.projection {
            let SelectItem::UnnamedExpr(expr) = item else { continue };
            let (named, written) = (named(expr), expr.to_string());
            let same = seen.iter().filter(|(other, _)| *other == named);
            let (same_count, is_repeated) =
                same.fold((0, false), |(count, is_repeated), (_, other)| (count + 1, is_repeated || *other == written));
            seen.push((named, written.clone()));
            if same_count > 0 {
                let name = if is_repeated { self.free(&written, same_count, &mut given) } else { written };
                *item = SelectItem::ExprWithAlias { expr: taken(expr), alias: Ident::with_quote('"', name) };
            }
        }
        ControlFlow::Continue(())
    }
}

impl Selects {
    /// What was written, with the next number that makes it a name of its own.
    fn free(&self, written: &str, from: usize, given: &mut BTreeSet<String>) -> String {
        let mut number = from;
        loop {
            let name = format!("{written}_{number}");
            if !self.names.contains(&name.to_lowercase()) && given.insert(name.to_lowercase()) {
                return name;
            }
            number += 1;
        }
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
            ("SELECT a, a FROM t ORDER BY A_1", "SELECT a, a AS \"a_2\" FROM t ORDER BY A_1"),
            ("SELECT a, a, a, t.a_1 FROM t", "SELECT a, a AS \"a_2\", a AS \"a_3\", t.a_1 FROM t"),
            (
                "SELECT a, a, b AS a_1 FROM t UNION SELECT b, b, c FROM u",
                "SELECT a, a AS \"a_2\", b AS a_1 FROM t UNION SELECT b, b AS \"b_1\", c FROM u",
            ),
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

//! How deep a statement is: planning and running it go as deep into the stack.
//!
//! Parentheses are counted while parsing. A chain of operators, `a OR b OR …` or `… UNION ALL …`, is parsed in a loop,
//! and deep all the same.

use std::ops::ControlFlow;

use datafusion::common::{Result, plan_err};
use datafusion::sql::parser::{CopyToSource, Statement};
use datafusion::sql::sqlparser::ast::{Expr, Query, SetExpr, Visit, Visitor};

/// Operators within operators of one statement at most. Planning takes time by the square of that, 20 s here, and 8 KiB
/// of stack for each.
const MAX_DEPTH: usize = 3000;

/// Stack that the threads of a runtime need for statements of that depth. Only what is used of a stack takes memory.
pub const THREAD_STACK_BYTES: usize = 32 << 20;

/// Refuses a statement that would need too much stack.
///
/// # Errors
/// When it is too deep.
pub(super) fn check(statement: &Statement) -> Result<()> {
    let mut depth = Depth::default();
    depth.look_at(statement);
    if depth.most <= MAX_DEPTH {
        return Ok(());
    }
    plan_err!(
        "the statement chains or nests {} operators or queries, and {MAX_DEPTH} are the most: write a long chain of OR as \
         x IN (…), and other chains in parts",
        depth.most
    )
}

#[derive(Default)]
struct Depth {
    now: usize,
    most: usize,
}

impl Depth {
    fn look_at(&mut self, statement: &Statement) {
        let _ended = match statement {
            Statement::Statement(statement) => statement.visit(self),
            Statement::CopyTo(copy) => match &copy.source {
                CopyToSource::Query(query) => query.visit(self),
                CopyToSource::Relation(_) => ControlFlow::Continue(()),
            },
            Statement::Explain(explained) => {
                self.look_at(&explained.statement);
                ControlFlow::Continue(())
            }
            Statement::CreateExternalTable(_) | Statement::Reset(_) => ControlFlow::Continue(()),
        };
    }

    fn enter(&mut self, levels: usize) -> ControlFlow<()> {
        self.now += levels;
        self.most = self.most.max(self.now);
        ControlFlow::Continue(())
    }

    fn leave(&mut self, levels: usize) -> ControlFlow<()> {
        self.now -= levels;
        ControlFlow::Continue(())
    }
}

impl Visitor for Depth {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        self.enter(1 + operation_depth(&query.body))
    }

    fn post_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        self.leave(1 + operation_depth(&query.body))
    }

    fn pre_visit_expr(&mut self, _expr: &Expr) -> ControlFlow<()> {
        self.enter(1)
    }

    fn post_visit_expr(&mut self, _expr: &Expr) -> ControlFlow<()> {
        self.leave(1)
    }
}

/// How many `UNION`, `EXCEPT` and `INTERSECT` are within each other at most.
fn operation_depth(body: &SetExpr) -> usize {
    let mut most = 0;
    let mut left = vec![(body, 0)];
    while let Some((body, depth)) = left.pop() {
        most = most.max(depth);
        if let SetExpr::SetOperation { left: one, right: other, .. } = body {
            left.extend([(one.as_ref(), depth + 1), (other.as_ref(), depth + 1)]);
        }
    }
    most
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use datafusion::sql::sqlparser::dialect::GenericDialect;

    use super::super::parse;
    use super::{MAX_DEPTH, THREAD_STACK_BYTES};

    fn chain(part: &str, operator: &str, count: usize) -> String {
        vec![part; count].join(operator)
    }

    #[test]
    fn chains_are_taken_up_to_a_length_and_refused_beyond() {
        // So that a chain of the limit's length is parsed, and dropped, on any thread.
        let tests = || {
            for (before, part, operator) in [
                ("SELECT ", "a", " + "),
                ("SELECT 1 FROM t WHERE ", "a = 1", " OR "),
                ("", "SELECT 1", " UNION ALL "),
                ("COPY (SELECT ", "a", " || "),
                ("EXPLAIN SELECT ", "a", " * "),
                ("EXPLAIN CACHE SELECT ", "a", " * "),
                ("CREATE VIEW v AS SELECT ", "a", " - "),
            ] {
                let after = if before.starts_with("COPY") { ") TO 'x.csv'" } else { "" };
                let sql = |count| format!("{before}{}{after}", chain(part, operator, count));
                for count in [2, MAX_DEPTH - 10] {
                    assert!(parse(&sql(count), &GenericDialect, 50).is_ok(), "{before}, {count}");
                }
                for count in [MAX_DEPTH + 10, 10 * MAX_DEPTH] {
                    let refused = parse(&sql(count), &GenericDialect, 50).unwrap_err().to_string();
                    assert!(refused.contains("3000 are the most"), "{before}, {count}: {refused}");
                }
            }
            // Side by side, not within each other.
            let wide = format!("SELECT a IN ({}) {}", chain("1", ", ", 50_000), ", a + 1".repeat(20_000));
            assert!(parse(&wide, &GenericDialect, 50).is_ok());
        };
        std::thread::Builder::new().stack_size(THREAD_STACK_BYTES).spawn(tests).unwrap().join().unwrap();
    }
}

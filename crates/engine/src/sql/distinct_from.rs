//! How far `IS [NOT] DISTINCT FROM` reads.
//!
//! sqlparser takes all that follows for its right side: `a IS DISTINCT FROM b AND c` comes as
//! `a IS DISTINCT FROM (b AND c)`. Parentheses are nodes of the tree, and what has none still stands in the order in which
//! it was written. So a chain of `OR`, `AND`, `NOT` and `IS …` in which that happened is taken apart and put together
//! anew, as these bind.

use std::ops::ControlFlow;

use datafusion::common::{DataFusionError, Result, plan_datafusion_err};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, UnaryOperator, Value, VisitorMut};

use super::visits::visit_mut;

/// Puts right what `IS DISTINCT FROM` has read too far.
///
/// # Errors
/// When the chain is an operand of a comparison or the like, which the rest of it would have to leave.
pub(super) fn put_right(statement: &mut Statement) -> Result<()> {
    match visit_mut(statement, &mut Chains::default()) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

/// Looks for chains, and knows what is around the expression that is visited.
#[derive(Default)]
struct Chains {
    around: Vec<Around>,
}

#[derive(Clone, Copy, PartialEq)]
enum Around {
    /// A link of the same chain.
    Link,
    /// An operator that binds tighter than a chain and has no parentheses around its last operand.
    Operator,
    Other,
}

impl VisitorMut for Chains {
    type Break = DataFusionError;

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<DataFusionError> {
        let around = self.around.last().copied().unwrap_or(Around::Other);
        let is_link = link(expr).is_some();
        if is_link && around != Around::Link && reads_too_far(expr) {
            if around == Around::Operator {
                return ControlFlow::Break(plan_datafusion_err!(
                    "where '{expr}' ends cannot be told: put it, and each part with IS DISTINCT FROM, in parentheses"
                ));
            }
            let parts = taken_apart(expr);
            *expr = put_together(parts);
        }
        self.around.push(match expr {
            _ if is_link => Around::Link,
            Expr::BinaryOp { .. }
            | Expr::UnaryOp { .. }
            | Expr::Between { .. }
            | Expr::Like { .. }
            | Expr::ILike { .. }
            | Expr::RLike { .. }
            | Expr::SimilarTo { .. }
            | Expr::AtTimeZone { .. } => Around::Operator,
            _ => Around::Other,
        });
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, _expr: &mut Expr) -> ControlFlow<DataFusionError> {
        self.around.pop();
        ControlFlow::Continue(())
    }
}

/// The operators of a chain, the one that binds the least first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Binding {
    Or,
    And,
    Not,
    Is,
}

/// Where the operands of an operator stand.
enum Link<'a> {
    Before(&'a mut Expr),
    Between(&'a mut Expr, &'a mut Expr),
    Behind(&'a mut Expr),
}

/// The expression as an operator of a chain, if it is one.
fn link(expr: &mut Expr) -> Option<(Binding, Link<'_>)> {
    Some(match expr {
        Expr::BinaryOp { left, op: BinaryOperator::Or, right } => (Binding::Or, Link::Between(left, right)),
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => (Binding::And, Link::Between(left, right)),
        Expr::UnaryOp { op: UnaryOperator::Not, expr } => (Binding::Not, Link::Before(expr)),
        Expr::IsDistinctFrom(left, right) | Expr::IsNotDistinctFrom(left, right) => {
            (Binding::Is, Link::Between(left, right))
        }
        Expr::IsNull(of)
        | Expr::IsNotNull(of)
        | Expr::IsTrue(of)
        | Expr::IsNotTrue(of)
        | Expr::IsFalse(of)
        | Expr::IsNotFalse(of)
        | Expr::IsUnknown(of)
        | Expr::IsNotUnknown(of) => (Binding::Is, Link::Behind(of)),
        _ => return None,
    })
}

/// Whether the right side of an `IS DISTINCT FROM` in the chain is more than one operand.
fn reads_too_far(chain: &mut Expr) -> bool {
    let mut left = vec![chain];
    while let Some(expr) = left.pop() {
        let is_greedy = matches!(expr, Expr::IsDistinctFrom(..) | Expr::IsNotDistinctFrom(..));
        match link(expr) {
            Some((_, Link::Between(one, other))) => {
                if is_greedy && link(other).is_some() {
                    return true;
                }
                left.extend([one, other]);
            }
            Some((_, Link::Before(operand) | Link::Behind(operand))) => left.push(operand),
            None => {}
        }
    }
    false
}

/// A part of a chain. Of operators the operands are left out.
enum Part {
    Operand(Expr),
    Before(Expr),
    Between(Expr),
    Behind(Expr),
}

fn taken(expr: &mut Expr) -> Expr {
    std::mem::replace(expr, Expr::value(Value::Null))
}

/// The parts of a chain as they were written.
fn taken_apart(chain: &mut Expr) -> Vec<Part> {
    enum Left {
        Chain(Expr),
        Part(Part),
    }
    let mut parts = Vec::new();
    let mut left = vec![Left::Chain(taken(chain))];
    while let Some(next) = left.pop() {
        let mut expr = match next {
            Left::Chain(expr) => expr,
            Left::Part(part) => {
                parts.push(part);
                continue;
            }
        };
        match link(&mut expr) {
            None => parts.push(Part::Operand(expr)),
            Some((_, Link::Before(operand))) => {
                left.push(Left::Chain(taken(operand)));
                parts.push(Part::Before(expr));
            }
            Some((_, Link::Between(one, other))) => {
                let (one, other) = (taken(one), taken(other));
                left.extend([Left::Chain(other), Left::Part(Part::Between(expr)), Left::Chain(one)]);
            }
            Some((_, Link::Behind(operand))) => {
                let operand = taken(operand);
                left.extend([Left::Part(Part::Behind(expr)), Left::Chain(operand)]);
            }
        }
    }
    parts
}

/// The chain of these parts, operators that bind alike from left to right.
fn put_together(parts: Vec<Part>) -> Expr {
    let mut open = Open::default();
    for part in parts {
        match part {
            Part::Operand(operand) => open.operands.push(operand),
            Part::Before(operator) => open.operators.push(operator),
            Part::Between(mut operator) => {
                open.close(binding(&mut operator));
                open.operators.push(operator);
            }
            Part::Behind(mut operator) => {
                open.close(binding(&mut operator));
                open.apply(operator);
            }
        }
    }
    open.close(Binding::Or);
    open.operand()
}

fn binding(operator: &mut Expr) -> Binding {
    link(operator).map_or(Binding::Is, |(binding, _)| binding)
}

/// What is not put together yet: operators that wait for their last operand, and operands.
#[derive(Default)]
struct Open {
    operators: Vec<Expr>,
    operands: Vec<Expr>,
}

impl Open {
    /// Gives their operands to the operators that bind as tight as `least`, or tighter.
    fn close(&mut self, least: Binding) {
        while let Some(operator) = self.operators.pop_if(|operator| binding(operator) >= least) {
            self.apply(operator);
        }
    }

    fn apply(&mut self, mut operator: Expr) {
        match link(&mut operator) {
            Some((_, Link::Between(one, other))) => {
                *other = self.operand();
                *one = self.operand();
            }
            Some((_, Link::Before(operand) | Link::Behind(operand))) => *operand = self.operand(),
            None => {}
        }
        self.operands.push(operator);
    }

    fn operand(&mut self) -> Expr {
        self.operands.pop().expect("operators of a chain have as many operands as in the chain that was taken apart")
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use datafusion::sql::parser::DFParserBuilder;
    use datafusion::sql::sqlparser::ast::Expr;
    use datafusion::sql::sqlparser::dialect::{GenericDialect, PostgreSqlDialect};

    use super::super::{StatementKind, parse};
    use super::{Link, link};

    /// The statement with parentheses around all that is put together.
    fn grouped(sql: &str) -> String {
        let [statement] = parse(sql, &GenericDialect, 50).unwrap().try_into().unwrap();
        let StatementKind::Plan(mut statement) = statement.kind else { panic!("{sql}") };
        let _continued = super::visit_mut(&mut statement, &mut Parentheses);
        statement.to_string()
    }

    struct Parentheses;

    impl super::VisitorMut for Parentheses {
        type Break = ();

        fn post_visit_expr(&mut self, expr: &mut Expr) -> std::ops::ControlFlow<()> {
            if let Some((_, Link::Before(_) | Link::Between(..) | Link::Behind(_))) = link(expr) {
                *expr = Expr::Nested(Box::new(super::taken(expr)));
            }
            std::ops::ControlFlow::Continue(())
        }
    }

    #[test]
    fn is_distinct_from_reads_one_operand() {
        for (written, meant) in [
            ("a IS DISTINCT FROM b AND c", "((a IS DISTINCT FROM b) AND c)"),
            ("a IS NOT DISTINCT FROM b OR c", "((a IS NOT DISTINCT FROM b) OR c)"),
            ("x AND a IS DISTINCT FROM b OR c", "((x AND (a IS DISTINCT FROM b)) OR c)"),
            ("x OR a IS DISTINCT FROM b AND c", "(x OR ((a IS DISTINCT FROM b) AND c))"),
            ("NOT a IS DISTINCT FROM b AND c", "((NOT (a IS DISTINCT FROM b)) AND c)"),
            ("a IS DISTINCT FROM NOT b AND c", "((a IS DISTINCT FROM (NOT b)) AND c)"),
            ("a IS DISTINCT FROM b IS NULL AND c", "(((a IS DISTINCT FROM b) IS NULL) AND c)"),
            ("a IS DISTINCT FROM b IS DISTINCT FROM c", "((a IS DISTINCT FROM b) IS DISTINCT FROM c)"),
            ("a IS NULL AND b IS DISTINCT FROM c AND d", "(((a IS NULL) AND (b IS DISTINCT FROM c)) AND d)"),
            ("a AND b IS DISTINCT FROM c OR NOT d", "((a AND (b IS DISTINCT FROM c)) OR (NOT d))"),
            ("a IS DISTINCT FROM b = c AND d < e", "((a IS DISTINCT FROM b = c) AND d < e)"),
            ("a IS DISTINCT FROM b AND c BETWEEN 1 AND 2", "((a IS DISTINCT FROM b) AND c BETWEEN 1 AND 2)"),
            ("a BETWEEN 1 AND 2 IS DISTINCT FROM b OR c", "((a BETWEEN 1 AND 2 IS DISTINCT FROM b) OR c)"),
            ("f(a IS DISTINCT FROM b AND c)", "f(((a IS DISTINCT FROM b) AND c))"),
            // What has parentheses stays within them.
            ("a IS DISTINCT FROM (b AND c)", "(a IS DISTINCT FROM ((b AND c)))"),
            ("a IS DISTINCT FROM (b) AND c", "((a IS DISTINCT FROM (b)) AND c)"),
            ("a = (b IS DISTINCT FROM c OR d)", "a = (((b IS DISTINCT FROM c) OR d))"),
        ] {
            for (before, after) in [
                ("SELECT ", ""),
                ("SELECT 1 FROM t WHERE ", " GROUP BY 1"),
                ("SELECT 1 FROM t JOIN u ON ", ""),
                ("SELECT (SELECT ", ")"),
                ("EXPLAIN SELECT ", ""),
                ("CREATE VIEW v AS SELECT ", ""),
                ("PREPARE p AS SELECT ", ""),
                ("DELETE FROM t WHERE ", ""),
            ] {
                let found = grouped(&format!("{before}{written}{after}"));
                assert_eq!(found, format!("{before}{meant}{after}"));
            }
            assert!(grouped(&format!("COPY (SELECT {written}) TO 'x.csv'")).contains(meant), "{written}");
        }
    }

    #[test]
    fn a_tree_that_is_printed_is_read_as_the_same_again() {
        for sql in ["SELECT a IS DISTINCT FROM b AND c OR d", "SELECT NOT a IS DISTINCT FROM b IS TRUE OR NOT c"] {
            let read = |text: &str| {
                let [statement] = parse(text, &PostgreSqlDialect {}, 50).unwrap().try_into().unwrap();
                let StatementKind::Plan(statement) = statement.kind else { panic!("{text}") };
                statement
            };
            let statement = read(sql);
            assert_eq!(read(&statement.to_string()), statement);
            let unmended = DFParserBuilder::new(sql)
                .with_dialect(&PostgreSqlDialect {})
                .build()
                .unwrap()
                .parse_statement()
                .unwrap();
            assert_ne!(unmended, *statement, "sqlparser reads it right: this file may go");
        }
    }

    #[test]
    fn a_chain_that_ends_within_a_comparison_is_refused() {
        for sql in ["SELECT x = NOT a IS DISTINCT FROM b AND c", "SELECT x LIKE NOT a IS DISTINCT FROM b OR c"] {
            let refused = parse(sql, &GenericDialect, 50).unwrap_err().to_string();
            assert!(refused.contains("parentheses"), "{refused}");
        }
    }

    #[test]
    fn long_chains_are_put_right_or_refused() {
        let tests = || {
            let chain =
                |operator: &str, count: usize| format!("SELECT {}", vec!["a IS DISTINCT FROM b"; count].join(operator));
            for operator in [" AND ", " OR "] {
                assert!(parse(&chain(operator, 15), &GenericDialect, 50).is_ok());
                // The parser recurses into each right side.
                assert!(parse(&chain(operator, 1000), &GenericDialect, 50).is_err());
                let long = format!("SELECT a IS DISTINCT FROM b{}", format!("{operator}c").repeat(2900));
                assert!(parse(&long, &GenericDialect, 50).is_ok());
                // Half of it on either side: each is short enough, and the whole, as it is meant, is not.
                let (before, after) = (format!("c{operator}").repeat(2000), format!("{operator}c").repeat(2000));
                let deeper = format!("SELECT {before}a IS DISTINCT FROM b{after}");
                let refused = parse(&deeper, &GenericDialect, 50).unwrap_err().to_string();
                assert!(refused.contains("3000 are the most"), "{refused}");
            }
        };
        // As a runtime's threads have it.
        std::thread::Builder::new().stack_size(2 << 20).spawn(tests).unwrap().join().unwrap();
    }
}

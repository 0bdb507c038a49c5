//! How deep a statement is: planning and running it go as deep into the stack.
//!
//! Parentheses are counted while parsing. A chain of operators, `a OR b OR …` or `… UNION ALL …`, is parsed in a loop,
//! and deep all the same. So it is looked at twice: by its operators before it is parsed, since a syntax tree of millions of
//! levels could not even be dropped, and by the tree.

use std::ops::ControlFlow;

use datafusion::common::{DataFusionError, Result, plan_datafusion_err};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{Expr, Query, Select, SetExpr, Visitor};
use datafusion::sql::sqlparser::dialect::Dialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

use super::visits::visit;

/// Operators within operators of one statement at most. Planning takes time by the square of that, 20 s here, and 8 KiB
/// of stack for each.
const MAX_DEPTH: usize = 3000;

/// Stack that the threads of a runtime need for statements of that depth. Only what is used of a stack takes memory.
pub const THREAD_STACK_BYTES: usize = 32 << 20;

/// Operators in a row at most: `a = 1 OR` has two, and is one level.
const MAX_OPERATORS: usize = 4 * MAX_DEPTH;
/// Stack for dropping a tree of so many levels.
const DROP_BYTES: usize = MAX_OPERATORS << 10;

/// Refuses text that would become a tree of far too many levels.
///
/// # Errors
/// When there is a chain of too many operators.
pub(super) fn check_text(text: &str, dialect: &dyn Dialect) -> Result<()> {
    // Shorter ones have no room for so many.
    if text.len() < 2 * MAX_OPERATORS {
        return Ok(());
    }
    // What are no tokens is for the parser to say.
    let Ok(tokens) = Tokenizer::new(dialect, text).tokenize() else { return Ok(()) };
    let mut most = Chain::default();
    let mut around = Vec::new();
    let mut chain = Chain::default();
    for token in &tokens {
        chain.take(token);
        match token {
            Token::LParen | Token::LBracket | Token::LBrace => around.push(std::mem::take(&mut chain)),
            Token::RParen | Token::RBracket | Token::RBrace => chain = around.pop().unwrap_or_default(),
            _ => {}
        }
        most = Chain { operators: most.operators.max(chain.operators), relations: most.relations.max(chain.relations) };
    }
    match most.operators.max(most.relations) {
        longest if longest > MAX_OPERATORS => Err(too_deep(longest)),
        _ => Ok(()),
    }
}

/// What is chained between two parentheses.
#[derive(Default)]
struct Chain {
    /// Since the last comma.
    operators: usize,
    /// Queries and tables.
    relations: usize,
}

impl Chain {
    fn take(&mut self, token: &Token) {
        match token {
            Token::Comma | Token::SemiColon => self.operators = 0,
            Token::Word(word) => match word.keyword {
                Keyword::WHEN | Keyword::THEN | Keyword::ELSE => self.operators = 0,
                Keyword::UNION | Keyword::EXCEPT | Keyword::INTERSECT | Keyword::JOIN => self.relations += 1,
                Keyword::AND | Keyword::OR | Keyword::NOT | Keyword::IS | Keyword::LIKE | Keyword::COLLATE => {
                    self.operators += 1;
                }
                _ => {}
            },
            Token::Whitespace(_) | Token::Number(..) | Token::Period => {}
            Token::SingleQuotedString(_) | Token::DoubleQuotedString(_) | Token::RParen => {}
            // Signs, `[` of an index among them, and what can be none of a chain: seldom thousands.
            _ => self.operators += 1,
        }
    }
}

fn too_deep(found: usize) -> DataFusionError {
    plan_datafusion_err!(
        "the statement chains or nests {found} operators or queries, and {MAX_DEPTH} are the most: write a long chain of OR \
         as x IN (…), and other chains in parts"
    )
}

/// Refuses a statement that would need too much stack.
///
/// # Errors
/// When it is too deep.
pub(super) fn check(statement: &Statement) -> Result<()> {
    let mut depth = Depth::default();
    let _continued = visit(statement, &mut depth);
    if depth.most <= MAX_DEPTH { Ok(()) } else { Err(too_deep(depth.most)) }
}

/// Drops a statement that is too deep, on a stack of its own.
pub(super) fn discard(statement: Statement) {
    stacker::maybe_grow(DROP_BYTES, DROP_BYTES, || drop(statement));
}

#[derive(Default)]
struct Depth {
    now: usize,
    most: usize,
}

impl Depth {
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

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        self.enter(join_depth(select))
    }

    fn post_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        self.leave(join_depth(select))
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        self.enter(expr_depth(expr))
    }

    fn post_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        self.leave(expr_depth(expr))
    }
}

/// Tables are joined one after the other, each join within the next.
fn join_depth(select: &Select) -> usize {
    select.from.iter().map(|from| 1 + from.joins.len()).sum()
}

/// `a[1][2]` is one expression, and as many accesses within each other.
fn expr_depth(expr: &Expr) -> usize {
    match expr {
        Expr::CompoundFieldAccess { access_chain, .. } => 1 + access_chain.len(),
        _ => 1,
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
    use super::{MAX_DEPTH, MAX_OPERATORS};

    fn chain(part: &str, operator: &str, count: usize) -> String {
        vec![part; count].join(operator)
    }

    #[test]
    fn chains_are_taken_up_to_a_length_and_refused_beyond() {
        let tests = || {
            for (before, part, operator) in [
                ("SELECT ", "a", " + "),
                ("SELECT 1 FROM t WHERE ", "a = 1", " OR "),
                ("", "SELECT 1", " UNION ALL "),
                ("COPY (SELECT ", "a", " || "),
                ("EXPLAIN SELECT ", "a", " * "),
                ("EXPLAIN CACHE SELECT ", "a", " * "),
                ("CREATE VIEW v AS SELECT ", "a", " - "),
                ("SELECT 1 FROM ", "t", " CROSS JOIN "),
                ("SELECT a", "[1]", ""),
            ] {
                let after = if before.starts_with("COPY") { ") TO 'x.csv'" } else { "" };
                let sql = |count| format!("{before}{}{after}", chain(part, operator, count));
                for count in [2, MAX_DEPTH - 10] {
                    assert!(parse(&sql(count), &GenericDialect, 50).is_ok(), "{before}, {count}");
                }
                // The longest trees that there are, and such as there may not be.
                for count in [MAX_DEPTH + 10, MAX_OPERATORS / 2 - 10, 100 * MAX_DEPTH] {
                    let refused = parse(&sql(count), &GenericDialect, 50).unwrap_err().to_string();
                    assert!(refused.contains("3000 are the most"), "{before}, {count}: {refused}");
                }
            }
            // Side by side, not within each other.
            for wide in [
                format!("SELECT a IN ({}) {}", chain("1", ", ", 50_000), ", a + 1".repeat(20_000)),
                format!("INSERT INTO t VALUES {}", chain("(-1, 'a' || 'b', [1, -2])", ", ", 20_000)),
                format!("SELECT CASE {} END", chain("WHEN a = 1 AND b < 2 THEN a - 1", " ", 2900)),
                chain("SELECT a + 1 FROM t WHERE b = 2", ";\n", 20_000),
            ] {
                assert!(parse(&wide, &GenericDialect, 50).is_ok(), "{}", &wide[..30]);
            }
        };
        // As a runtime's threads have it.
        std::thread::Builder::new().stack_size(2 << 20).spawn(tests).unwrap().join().unwrap();
    }
}

//! From text to statements: DataFusion's grammar, and the few statements it does not have.
//!
//! Ours: `EXPLAIN CACHE <query>` (sqlparser would read `CACHE` as the start of `CACHE TABLE`), and the names of
//! settings that users of other engines know ([`settings_names`]). What the parser or DataFusion's planner would take for
//! something else than it says is put right or refused ([`as_meant`]). What DataFusion does not plan, but would if it were
//! spelt otherwise, is ([`as_planned`]).

mod depth;
mod distinct_from;
mod from_first;
mod refused;
mod same_names;
mod selected_subqueries;
pub(crate) mod settings_names;
mod synonyms;
pub(crate) mod syntax_error;
mod using;
mod visits;

pub use depth::THREAD_STACK_BYTES;

use std::collections::VecDeque;

use datafusion::common::{DataFusionError, Result};
use datafusion::sql::parser::{DFParser, DFParserBuilder, Statement};
use datafusion::sql::sqlparser::ast::{SetExpr, Statement as SqlAst};
use datafusion::sql::sqlparser::dialect::Dialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::Token;

/// One statement as the user wrote it.
#[derive(Debug, Clone)]
pub struct SqlStatement {
    pub(crate) kind: StatementKind,
}

#[derive(Debug, Clone)]
pub(crate) enum StatementKind {
    /// `EXPLAIN CACHE query`: what the caches would do for it.
    ExplainCache(Box<Statement>),
    /// Anything DataFusion plans.
    Plan(Box<Statement>),
}

impl SqlStatement {
    /// Whether the statement returns rows and changes nothing, so that it may wait until its rows are asked for.
    pub fn is_query(&self) -> bool {
        match &self.kind {
            StatementKind::ExplainCache(_) => true,
            StatementKind::Plan(statement) => only_asks(statement),
        }
    }
}

/// Rewrites what DataFusion does not plan to what it does: functions as they are called in other engines, but for names
/// that `is_known` knows, and what is selected twice. Subqueries that are selected get names.
///
/// # Errors
/// When it would become far longer than it is, or calls a function that `is_scalar` knows as no such function is called.
pub(crate) fn as_planned(
    statement: &mut SqlStatement,
    is_known: &dyn Fn(&str) -> bool,
    is_scalar: &dyn Fn(&str) -> bool,
) -> Result<()> {
    let (StatementKind::ExplainCache(statement) | StatementKind::Plan(statement)) = &mut statement.kind;
    same_names::tell_apart(statement);
    synonyms::translate(statement, is_known)?;
    refused::check_calls(statement, is_scalar)?;
    selected_subqueries::name(statement);
    Ok(())
}

fn only_asks(statement: &Statement) -> bool {
    match statement {
        // It may be EXPLAIN ANALYZE, which runs the statement.
        Statement::Explain(explained) => only_asks(&explained.statement),
        Statement::Statement(ast) => match ast.as_ref() {
            SqlAst::Query(query) => !makes_table(&query.body),
            SqlAst::ShowVariable { .. }
            | SqlAst::ShowTables { .. }
            | SqlAst::ShowColumns { .. }
            | SqlAst::ExplainTable { .. } => true,
            _ => false,
        },
        _ => false,
    }
}

/// Whether it is `SELECT … INTO`.
fn makes_table(body: &SetExpr) -> bool {
    match body {
        SetExpr::Select(select) => select.into.is_some(),
        SetExpr::Query(query) => makes_table(&query.body),
        SetExpr::SetOperation { left, right, .. } => makes_table(left) || makes_table(right),
        _ => false,
    }
}

/// Splits `text` into its statements.
///
/// # Errors
/// A syntax error with its line and column, or a statement that is too deep.
pub(crate) fn parse(text: &str, dialect: &dyn Dialect, recursion_limit: usize) -> Result<Vec<SqlStatement>> {
    depth::check_text(text, dialect)?;
    let mut parser = DFParserBuilder::new(text).with_dialect(dialect).with_recursion_limit(recursion_limit).build()?;
    let mut statements = VecDeque::new();
    loop {
        while parser.parser.consume_token(&Token::SemiColon) {}
        if parser.parser.peek_token().token == Token::EOF {
            break;
        }
        statements.push_back(parse_one(&mut parser)?);
        let next = parser.parser.peek_token();
        if next.token != Token::SemiColon && next.token != Token::EOF {
            return Err(DataFusionError::SQL(
                Box::new(datafusion::sql::sqlparser::parser::ParserError::ParserError(format!(
                    "Expected: end of statement, found: {next}{}",
                    next.span.start
                ))),
                None,
            ));
        }
    }
    Ok(statements.into())
}

fn parse_one(parser: &mut DFParser<'_>) -> Result<SqlStatement> {
    let explain_cache = matches!(&parser.parser.peek_nth_token(0).token, Token::Word(word) if word.keyword == Keyword::EXPLAIN)
        && matches!(&parser.parser.peek_nth_token(1).token, Token::Word(word) if word.value.eq_ignore_ascii_case("cache"));
    if explain_cache {
        parser.parser.next_token();
        parser.parser.next_token();
    }
    let mut statement = as_meant(parser.parse_statement()?)?;
    settings_names::qualify(&mut statement);
    let statement = Box::new(statement);
    Ok(SqlStatement {
        kind: if explain_cache { StatementKind::ExplainCache(statement) } else { StatementKind::Plan(statement) },
    })
}

/// A parsed statement with what the parser reads wrong put right.
///
/// # Errors
/// When it is too deep, or would be answered wrong.
pub(crate) fn as_meant(mut statement: Statement) -> Result<Statement> {
    let checked = distinct_from::put_right(&mut statement)
        .and_then(|()| depth::check(&statement))
        .and_then(|()| refused::check(&statement))
        .and_then(|()| {
            from_first::put_right(&mut statement);
            using::put_right(&mut statement)
        });
    match checked {
        Ok(()) => Ok(statement),
        Err(error) => {
            depth::discard(statement);
            Err(error)
        }
    }
}

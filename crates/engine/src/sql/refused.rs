//! What DataFusion plans as something else than it says, mostly as if it were not there: refused, with what to write
//! instead.

use std::fmt::Display;
use std::ops::ControlFlow;

use datafusion::common::{DataFusionError, Result, plan_datafusion_err};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    ColumnOption, DuplicateTreatment, Expr, Function, FunctionArgumentClause, FunctionArguments, GroupByExpr, Ident,
    NamedWindowDefinition, NamedWindowExpr, ObjectNamePart, OrderByKind, Query, Select, SelectItem, SetExpr,
    SetOperator, SetQuantifier, Statement as SqlAst, TableFactor, Visit, Visitor, WindowSpec, WindowType,
};

use super::visits::visit;

/// Refuses a statement that would be answered wrong.
///
/// # Errors
/// When it has a part of that kind.
pub(super) fn check(statement: &Statement) -> Result<()> {
    outcome(visit(statement, &mut Refusal))
}

/// Refuses calls of functions with what only aggregates or windows have, where `is_scalar` tells that they are neither.
///
/// # Errors
/// When there is one.
pub(super) fn check_calls(statement: &Statement, is_scalar: &dyn Fn(&str) -> bool) -> Result<()> {
    outcome(visit(statement, &mut Calls { is_scalar }))
}

fn outcome(visited: ControlFlow<DataFusionError>) -> Result<()> {
    match visited {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

fn refused(what: impl Display, instead: &str) -> ControlFlow<DataFusionError> {
    ControlFlow::Break(plan_datafusion_err!("{what} is not supported: {instead}"))
}

struct Refusal;

impl Visitor for Refusal {
    type Break = DataFusionError;

    fn pre_visit_statement(&mut self, statement: &SqlAst) -> ControlFlow<DataFusionError> {
        let SqlAst::CreateTable(table) = statement else { return ControlFlow::Continue(()) };
        for column in &table.columns {
            for option in &column.options {
                // Columns would be made without.
                let what = match &option.option {
                    ColumnOption::Generated { .. } => "GENERATED",
                    ColumnOption::Identity(_) => "IDENTITY",
                    ColumnOption::Materialized(_) => "MATERIALIZED",
                    ColumnOption::Ephemeral(_) => "EPHEMERAL",
                    ColumnOption::Alias(_) => "ALIAS",
                    ColumnOption::Collation(_) => "COLLATE",
                    ColumnOption::DialectSpecific(_) => "AUTO_INCREMENT",
                    _ => continue,
                };
                return refused(
                    format_args!("{what} of column '{}'", column.name),
                    "write what the column is to hold into each INSERT, or make a view with it",
                );
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<DataFusionError> {
        let mut left = vec![query.body.as_ref()];
        while let Some(body) = left.pop() {
            let SetExpr::SetOperation { op, set_quantifier, left: one, right: other } = body else { continue };
            // Planned as a semi join and an anti join, which count nothing.
            if matches!(op, SetOperator::Intersect | SetOperator::Except) && *set_quantifier == SetQuantifier::All {
                return ControlFlow::Break(plan_datafusion_err!(
                    "{op} ALL is not supported, which tells how often a row comes: write {op} for distinct rows"
                ));
            }
            left.extend([one.as_ref(), other.as_ref()]);
        }
        if let Some(lock) = query.locks.first() {
            return refused(format_args!("FOR {}", lock.lock_type), "no rows are locked; leave it out to read them");
        }
        if query.settings.is_some() {
            return refused("SETTINGS", "write SET before the query");
        }
        if query.format_clause.is_some() {
            return refused("FORMAT", "write COPY (SELECT …) TO 'file' STORED AS JSON, CSV or PARQUET");
        }
        if query.for_clause.is_some() {
            return refused("FOR XML or FOR JSON", "write COPY (SELECT …) TO 'file' STORED AS JSON");
        }
        match query.order_by.as_ref().map(|order_by| &order_by.kind) {
            Some(OrderByKind::All(_)) if !matches!(query.body.as_ref(), SetExpr::Select(_)) => {
                return refused("ORDER BY ALL of more than one SELECT", "name the columns, or write ORDER BY 1, 2");
            }
            Some(OrderByKind::Expressions(sorted)) => check_windows(sorted, "ORDER BY")?,
            _ => {}
        }
        // The rows would go on for ever.
        for cte in query.with.iter().filter(|with| with.recursive).flat_map(|with| &with.cte_tables) {
            let is_cut = cte.query.limit_clause.is_some() || cte.query.fetch.is_some();
            if matches!(cte.query.body.as_ref(), SetExpr::SetOperation { op: SetOperator::Union, .. })
                && (is_cut || !cte.query.pipe_operators.is_empty())
            {
                return refused("LIMIT within WITH RECURSIVE", "write a condition that ends it, as in WHERE n < 100");
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<DataFusionError> {
        if select.prewhere.is_some() {
            return refused("PREWHERE", "write WHERE");
        }
        if !select.connect_by.is_empty() {
            return refused("CONNECT BY", "write WITH RECURSIVE");
        }
        let (GroupByExpr::All(modifiers) | GroupByExpr::Expressions(_, modifiers)) = &select.group_by;
        if let Some(modifier) = modifiers.first() {
            return refused(
                format_args!("GROUP BY … {modifier}"),
                "write GROUP BY ROLLUP (a, b), CUBE (a, b) or GROUPING SETS ((a, b), (a), ())",
            );
        }
        if let Some(mode) = &select.value_table_mode {
            return refused(format_args!("SELECT {mode}"), "write SELECT named_struct('a', a) for a struct");
        }
        if select.exclude.is_some() {
            return refused("EXCLUDE behind other columns", "write SELECT * EXCLUDE (a)");
        }
        if select.into.as_ref().is_some_and(|into| into.temporary) {
            return refused("INTO TEMPORARY", "write CREATE TABLE … AS SELECT, and DROP TABLE");
        }
        for item in &select.projection {
            if let SelectItem::Wildcard(options) | SelectItem::QualifiedWildcard(_, options) = item
                && let Some(ilike) = &options.opt_ilike
            {
                return refused(
                    format_args!("* {ilike}"),
                    "name the columns, or those to leave out in * EXCLUDE (a, b)",
                );
            }
        }
        for NamedWindowDefinition(_, window) in &select.named_window {
            if let NamedWindowExpr::WindowSpec(window) = window {
                check_window(window)?;
            }
        }
        check_windows(&select.having, "HAVING")?;
        check_windows(&select.qualify, "QUALIFY")
    }

    fn pre_visit_table_factor(&mut self, relation: &TableFactor) -> ControlFlow<DataFusionError> {
        match relation {
            // All rows would be taken.
            TableFactor::Table { sample: Some(_), .. } | TableFactor::Derived { sample: Some(_), .. } => {
                refused("TABLESAMPLE", "write WHERE random() < 0.1 for about a tenth of the rows")
            }
            TableFactor::Table { partitions, .. } if !partitions.is_empty() => {
                refused("PARTITION (…)", "write WHERE with a condition on the column that tells the partitions")
            }
            TableFactor::Table { version: Some(version), .. } => {
                refused(version, "tables are read as they are when the query begins")
            }
            TableFactor::Table { json_path: Some(_), .. } => {
                refused("a path behind a table", "write unnest(column) in a SELECT of the table")
            }
            TableFactor::Table { with_ordinality: true, .. } | TableFactor::Function { with_ordinality: true, .. } => {
                refused("WITH ORDINALITY", "write row_number() OVER ()")
            }
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<DataFusionError> {
        match expr {
            // Taken for a regular expression that a part of the text may match.
            Expr::SimilarTo { .. } => refused(
                "SIMILAR TO",
                "write LIKE for patterns with % and _, or ~ for regular expressions, as in x ~ '^(ab|cd)+$'",
            ),
            Expr::Function(Function { name, parameters, .. }) if *parameters != FunctionArguments::None => {
                refused(format_args!("{name} with two lists of arguments"), "write all of them into one")
            }
            Expr::Function(Function { over: Some(WindowType::WindowSpec(window)), .. }) => check_window(window),
            _ => ControlFlow::Continue(()),
        }
    }
}

/// A window that goes on from another one would begin anew.
fn check_window(window: &WindowSpec) -> ControlFlow<DataFusionError> {
    match &window.window_name {
        Some(name) => {
            refused(format_args!("a window that goes on from '{name}'"), "write all of it, as in OVER (PARTITION BY …)")
        }
        None => ControlFlow::Continue(()),
    }
}

/// Where named windows are not known, a call over one would be an aggregate.
fn check_windows(clause: &impl Visit, name: &str) -> ControlFlow<DataFusionError> {
    clause.visit(&mut NamedWindows { clause: name, depth: 0 })
}

/// Looks for windows that a clause has by name, but for those of subqueries in it.
struct NamedWindows<'c> {
    clause: &'c str,
    depth: usize,
}

impl Visitor for NamedWindows<'_> {
    type Break = DataFusionError;

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<DataFusionError> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<DataFusionError> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<DataFusionError> {
        match expr {
            Expr::Function(Function { over: Some(WindowType::NamedWindow(window)), .. }) if self.depth == 0 => refused(
                format_args!("window '{window}' in {}", self.clause),
                "write all of it, as in OVER (PARTITION BY …)",
            ),
            _ => ControlFlow::Continue(()),
        }
    }
}

struct Calls<'s> {
    is_scalar: &'s dyn Fn(&str) -> bool,
}

impl Visitor for Calls<'_> {
    type Break = DataFusionError;

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<DataFusionError> {
        let Expr::Function(call) = expr else { return ControlFlow::Continue(()) };
        let [ObjectNamePart::Identifier(Ident { value: name, quote_style, .. })] = call.name.0.as_slice() else {
            return ControlFlow::Continue(());
        };
        let is_scalar = match quote_style {
            Some(_) => (self.is_scalar)(name),
            None => (self.is_scalar)(&name.to_lowercase()),
        };
        match of_aggregates(call).filter(|_| is_scalar) {
            Some(clause) => refused(
                format_args!("{clause} of {name}"),
                "it is no aggregate and no window function; write it where one is called, or as CASE WHEN … END",
            ),
            None => ControlFlow::Continue(()),
        }
    }
}

/// What of a call only aggregates and windows have.
fn of_aggregates(call: &Function) -> Option<&'static str> {
    let of_list = match &call.args {
        FunctionArguments::List(list) if list.duplicate_treatment == Some(DuplicateTreatment::Distinct) => {
            Some("DISTINCT")
        }
        FunctionArguments::List(list) => list.clauses.iter().find_map(|clause| match clause {
            FunctionArgumentClause::OrderBy(_) => Some("ORDER BY"),
            FunctionArgumentClause::IgnoreOrRespectNulls(_) => Some("IGNORE NULLS"),
            _ => None,
        }),
        _ => None,
    };
    let of_call = [
        (call.over.is_some(), "OVER"),
        (call.filter.is_some(), "FILTER"),
        (call.null_treatment.is_some(), "IGNORE NULLS"),
        (!call.within_group.is_empty(), "WITHIN GROUP"),
    ];
    of_list.or_else(|| of_call.into_iter().find_map(|(has, clause)| has.then_some(clause)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use datafusion::sql::sqlparser::dialect::{DuckDbDialect, GenericDialect};

    use super::super::{StatementKind, parse};

    #[test]
    fn what_would_be_answered_wrong_is_refused() {
        for (part, says) in [
            ("SELECT 1 INTERSECT ALL SELECT 1", "INTERSECT ALL"),
            ("SELECT 1 UNION ALL (SELECT 1 EXCEPT ALL SELECT 2)", "EXCEPT ALL"),
            ("SELECT 1 EXCEPT ALL SELECT 2 UNION SELECT 3", "EXCEPT ALL"),
            ("SELECT * FROM t TABLESAMPLE BERNOULLI (10)", "TABLESAMPLE"),
            ("SELECT * FROM a JOIN t AS u TABLESAMPLE SYSTEM (10) ON true", "TABLESAMPLE"),
            ("SELECT * FROM (SELECT 1) TABLESAMPLE (10 ROWS)", "TABLESAMPLE"),
            ("SELECT a SIMILAR TO 'b' FROM t", "SIMILAR TO"),
            ("SELECT 1 FROM t WHERE NOT a NOT SIMILAR TO 'b'", "SIMILAR TO"),
            ("SELECT count(*) FROM t PREWHERE a = 1", "PREWHERE"),
            ("SELECT a, count(*) FROM t GROUP BY a WITH ROLLUP", "WITH ROLLUP"),
            ("SELECT a, count(*) FROM t GROUP BY ALL WITH CUBE", "WITH CUBE"),
            ("SELECT a, count(*) FROM t GROUP BY a WITH TOTALS", "WITH TOTALS"),
            ("SELECT a, count(*) FROM t GROUP BY a GROUPING SETS ((a), ())", "GROUPING SETS ((a), ())"),
            ("SELECT a FROM t START WITH a = 1 CONNECT BY PRIOR a = b", "CONNECT BY"),
            ("SELECT a FROM t CONNECT BY PRIOR a = b", "CONNECT BY"),
            ("SELECT * FROM t PARTITION (p0)", "PARTITION (…)"),
            ("SELECT * FROM generate_series(5, 7) WITH ORDINALITY", "WITH ORDINALITY"),
            ("SELECT * FROM t, LATERAL flatten(a) WITH ORDINALITY", "WITH ORDINALITY"),
            ("SELECT * ILIKE '%id%' FROM t", "* ILIKE '%id%'"),
            ("SELECT u.* ILIKE '%id%' FROM t AS u", "* ILIKE '%id%'"),
            ("SELECT a FROM t FOR UPDATE", "FOR UPDATE"),
            ("SELECT a FROM t FOR SHARE", "FOR SHARE"),
            ("SELECT a FROM t SETTINGS max_threads = 1", "SETTINGS"),
            ("SELECT a FROM t FORMAT JSON", "FORMAT"),
            ("SELECT a FROM t FOR JSON AUTO", "FOR XML or FOR JSON"),
            ("SELECT a INTO TEMPORARY x FROM t", "INTO TEMPORARY"),
            ("SELECT sum(0.5)(a) FROM t", "sum with two lists of arguments"),
            ("SELECT sum(a) OVER (w ORDER BY b) FROM t WINDOW w AS (PARTITION BY c)", "a window that goes on from 'w'"),
            ("SELECT sum(a) OVER v FROM t WINDOW w AS (ORDER BY b), v AS (w)", "a window that goes on from 'w'"),
            ("SELECT sum(a) FROM t HAVING sum(a) OVER w > 1", "window 'w' in HAVING"),
            ("SELECT b FROM t QUALIFY 1 < sum(a) OVER w WINDOW w AS (ORDER BY b)", "window 'w' in QUALIFY"),
            ("SELECT b FROM t GROUP BY b ORDER BY sum(a) OVER w", "window 'w' in ORDER BY"),
            (
                "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r LIMIT 5) SELECT n FROM r",
                "LIMIT within WITH RECURSIVE",
            ),
        ] {
            for sql in [
                part.to_string(),
                format!("EXPLAIN {part}"),
                format!("WITH w AS ({part}) SELECT * FROM w"),
                format!("SELECT EXISTS ({part})"),
                format!("COPY ({part}) TO 'x.csv'"),
                format!("CREATE VIEW v AS {part}"),
                format!("PREPARE p AS {part}"),
                format!("INSERT INTO t {part}"),
            ] {
                let refused = parse(&sql, &GenericDialect, 50).unwrap_err().to_string();
                assert!(refused.contains(&format!("{says} is not supported")), "{sql}: {refused}");
            }
        }
        for (sql, says) in [
            ("CREATE TABLE t (a INT, b INT GENERATED ALWAYS AS (a + 1) STORED)", "GENERATED of column 'b'"),
            ("CREATE TABLE t (a VARCHAR COLLATE \"C\")", "COLLATE of column 'a'"),
        ] {
            let refused = parse(sql, &GenericDialect, 50).unwrap_err().to_string();
            assert!(refused.contains(&format!("{says} is not supported")), "{sql}: {refused}");
        }
        let sorted = parse("SELECT 1 UNION SELECT 2 ORDER BY ALL", &DuckDbDialect {}, 50).unwrap_err().to_string();
        assert!(sorted.contains("ORDER BY ALL of more than one SELECT is not supported"), "{sorted}");
        for taken in [
            "SELECT 1 INTERSECT SELECT 1 EXCEPT DISTINCT SELECT 1 UNION ALL SELECT 2",
            "SELECT a LIKE 'b%', a ~ 'b' FROM t WHERE random() < 0.1",
            "SELECT * EXCLUDE (a), sum(b) OVER w FROM t WINDOW w AS (PARTITION BY c) ORDER BY rank() OVER (ORDER BY d)",
            "SELECT g FROM t GROUP BY g HAVING count(*) > (SELECT max(s) FROM (SELECT sum(a) OVER w AS s FROM u WINDOW w AS (ORDER BY b)))",
            "SELECT a, count(*) FROM t GROUP BY ROLLUP (a) UNION ALL SELECT a, 1 FROM u GROUP BY GROUPING SETS ((a), ())",
            "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 5) SELECT n FROM r LIMIT 5",
        ] {
            assert!(parse(taken, &GenericDialect, 50).is_ok(), "{taken}");
        }
    }

    #[test]
    fn only_aggregates_and_windows_take_what_they_have() {
        let checked = |sql: &str| {
            let [statement] = parse(sql, &GenericDialect, 50).unwrap().try_into().unwrap();
            let StatementKind::Plan(statement) = statement.kind else { panic!("{sql}") };
            super::check_calls(&statement, &|name| name == "abs")
        };
        for (sql, says) in [
            ("SELECT abs(a) FILTER (WHERE a > 1) FROM t", "FILTER of abs"),
            ("SELECT 1 FROM t WHERE ABS(a) IGNORE NULLS > 1", "IGNORE NULLS of ABS"),
            ("SELECT sum(abs(DISTINCT a)) FROM t", "DISTINCT of abs"),
            ("SELECT \"abs\"(a ORDER BY a) FROM t", "ORDER BY of abs"),
            ("SELECT abs(a) WITHIN GROUP (ORDER BY a) FROM t", "WITHIN GROUP of abs"),
            ("SELECT abs(a) OVER () FROM t", "OVER of abs"),
        ] {
            let refused = checked(sql).unwrap_err().to_string();
            assert!(refused.contains(&format!("{says} is not supported")), "{sql}: {refused}");
        }
        assert!(checked("SELECT abs(a), abs(ALL a), sum(DISTINCT abs(a)) FILTER (WHERE a > 1) OVER () FROM t").is_ok());
    }
}

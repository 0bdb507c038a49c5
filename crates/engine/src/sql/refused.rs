//! What DataFusion plans as something else than it says: refused, with what to write instead.

use std::ops::ControlFlow;

use datafusion::common::{DataFusionError, Result, plan_datafusion_err};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{Expr, Query, SetExpr, SetOperator, SetQuantifier, TableFactor, Visitor};

use super::visits::visit;

/// Refuses a statement that would be answered wrong.
///
/// # Errors
/// When it has a part of that kind.
pub(super) fn check(statement: &Statement) -> Result<()> {
    match visit(statement, &mut Refusal) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct Refusal;

impl Visitor for Refusal {
    type Break = DataFusionError;

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
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, relation: &TableFactor) -> ControlFlow<DataFusionError> {
        match relation {
            // All rows would be taken.
            TableFactor::Table { sample: Some(_), .. } | TableFactor::Derived { sample: Some(_), .. } => {
                ControlFlow::Break(plan_datafusion_err!(
                    "TABLESAMPLE is not supported: write WHERE random() < 0.1 for about a tenth of the rows"
                ))
            }
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<DataFusionError> {
        match expr {
            // Taken for a regular expression that a part of the text may match.
            Expr::SimilarTo { .. } => ControlFlow::Break(plan_datafusion_err!(
                "SIMILAR TO is not supported: write LIKE for patterns with % and _, or ~ for regular expressions, as in \
                 x ~ '^(ab|cd)+$'"
            )),
            _ => ControlFlow::Continue(()),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use datafusion::sql::sqlparser::dialect::GenericDialect;

    use super::super::parse;

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
        for taken in [
            "SELECT 1 INTERSECT SELECT 1 EXCEPT DISTINCT SELECT 1 UNION ALL SELECT 2",
            "SELECT a LIKE 'b%', a ~ 'b' FROM t WHERE random() < 0.1",
        ] {
            assert!(parse(taken, &GenericDialect, 50).is_ok(), "{taken}");
        }
    }
}

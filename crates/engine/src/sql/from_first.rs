//! `FROM t` without a `SELECT` is `SELECT * FROM t`. DataFusion selects nothing of the rows.

use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{Select, SelectFlavor, SelectItem, VisitorMut, WildcardAdditionalOptions};

use super::visits::visit_mut;

/// Selects all columns where nothing is said of them.
pub(super) fn put_right(statement: &mut Statement) {
    let _never_breaks = visit_mut(statement, &mut Selects);
}

struct Selects;

impl VisitorMut for Selects {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        if select.flavor == SelectFlavor::FromFirstNoSelect {
            select.flavor = SelectFlavor::Standard;
            select.projection = vec![SelectItem::Wildcard(WildcardAdditionalOptions::default())];
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use datafusion::sql::sqlparser::dialect::GenericDialect;

    use super::super::{StatementKind, parse};

    #[test]
    fn all_columns_are_selected_where_none_are_named() {
        for (written, meant) in [
            ("FROM t", "SELECT * FROM t"),
            ("FROM t LIMIT 5", "SELECT * FROM t LIMIT 5"),
            ("FROM (FROM t), u UNION ALL FROM v", "SELECT * FROM (SELECT * FROM t), u UNION ALL SELECT * FROM v"),
            ("CREATE VIEW c AS FROM t", "CREATE VIEW c AS SELECT * FROM t"),
            ("COPY (FROM t) TO 'x.csv'", "COPY (SELECT * FROM t) TO x.csv"),
            ("FROM t SELECT a", "FROM t SELECT a"),
        ] {
            let [statement] = parse(written, &GenericDialect, 50).unwrap().try_into().unwrap();
            let StatementKind::Plan(statement) = statement.kind else { panic!("{written}") };
            assert_eq!(statement.to_string(), meant);
        }
        let half = parse("FROM a FULL JOIN b USING (k)", &GenericDialect, 50).unwrap_err().to_string();
        assert!(half.contains("* with RIGHT or FULL JOIN … USING (k)"), "{half}");
    }
}

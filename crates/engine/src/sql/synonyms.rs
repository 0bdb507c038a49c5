//! Functions under the names that other engines have for them.
//!
//! Owns: which names these are, and what DataFusion has in their place. Does not own: what functions do.
//!
//! Invariants: a name that the session knows is never translated, so that a host's own functions go first. What is
//! selected keeps the name that was written.

use std::ops::ControlFlow;

use datafusion::common::{DataFusionError, Result, plan_datafusion_err};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName, ObjectNamePart,
    OrderBy, OrderByExpr, OrderByKind, Query, Select, SelectItem, SetExpr, Value, VisitMut, VisitorMut,
    visit_expressions,
};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;

use super::visits::visit_mut;

/// Functions that take the same and do the same under another name.
const RENAMED: &[(&str, &str)] = &[
    ("approx_count_distinct", "approx_distinct"),
    ("approx_quantile", "approx_percentile_cont"),
    ("ceiling", "ceil"),
    ("first", "first_value"),
    ("group_concat", STRING_AGG),
    ("last", "last_value"),
    ("lcase", "lower"),
    ("len", "length"),
    ("list", "array_agg"),
    ("list_value", "make_array"),
    ("listagg", STRING_AGG),
    ("ord", "ascii"),
    ("prefix", "starts_with"),
    ("regexp_matches", "regexp_like"),
    ("sign", "signum"),
    ("str_split", "string_to_array"),
    ("strftime", "to_char"),
    ("string_split", "string_to_array"),
    ("strptime", "to_timestamp"),
    ("suffix", "ends_with"),
    ("typeof", "arrow_typeof"),
    ("ucase", "upper"),
    ("unicode", "ascii"),
];

const STRING_AGG: &str = "string_agg";

/// What stands for a call with so many arguments, which are `$1`, `$2` and so on.
const SPELT_OUT: &[(&str, usize, &str)] = &[
    ("arg_max", 2, LAST_BY),
    ("arg_min", 2, FIRST_BY),
    ("count_if", 1, "count(*) FILTER (WHERE $1)"),
    ("countif", 1, "count(*) FILTER (WHERE $1)"),
    ("date_add", 2, "(($1) + ($2))"),
    ("day", 1, "date_part('day', $1)"),
    ("dayname", 1, "to_char($1, '%A')"),
    ("dayofmonth", 1, "date_part('day', $1)"),
    ("dayofweek", 1, "date_part('dow', $1)"),
    ("dayofyear", 1, "date_part('doy', $1)"),
    ("epoch", 1, "date_part('epoch', $1)"),
    ("hour", 1, "date_part('hour', $1)"),
    ("if", 3, "CASE WHEN $1 THEN $2 ELSE $3 END"),
    ("isfinite", 1, "(abs($1) < CAST('inf' AS DOUBLE))"),
    ("isinf", 1, "(abs($1) = CAST('inf' AS DOUBLE))"),
    ("last_day", 1, "CAST(date_trunc('month', $1) + INTERVAL '1 month' - INTERVAL '1 day' AS DATE)"),
    ("max_by", 2, LAST_BY),
    ("min_by", 2, FIRST_BY),
    ("minute", 1, "date_part('minute', $1)"),
    ("mod", 2, "(($1) % ($2))"),
    ("month", 1, "date_part('month', $1)"),
    ("monthname", 1, "to_char($1, '%B')"),
    ("quarter", 1, "date_part('quarter', $1)"),
    (
        "regexp_extract",
        2,
        "coalesce(regexp_match($1, '(' || ($2) || ')')[1], CASE WHEN ($1) || ($2) IS NOT NULL THEN '' END)",
    ),
    (
        "regexp_extract",
        3,
        // `regexp_match` leaves out the groups that nothing matches, so that those behind them have other numbers.
        "CASE WHEN ($3) >= 0 AND regexp_like($1, $2) THEN regexp_replace($1, '^(?s:.*?)(' || ($2) || ')(?s:.*)$', \
         '${' || CAST(($3) + 1 AS VARCHAR) || '}') WHEN ($1) || ($2) IS NOT NULL THEN '' END",
    ),
    ("second", 1, "date_part('second', $1)"),
    ("week", 1, "date_part('week', $1)"),
    ("weekday", 1, "date_part('dow', $1)"),
    ("weekofyear", 1, "date_part('week', $1)"),
    ("xor", 2, "(($1) ^ ($2))"),
    ("year", 1, "date_part('year', $1)"),
];

const LAST_BY: &str = "first_value($1 ORDER BY $2 DESC) FILTER (WHERE ($1) IS NOT NULL AND ($2) IS NOT NULL)";
const FIRST_BY: &str = "first_value($1 ORDER BY $2) FILTER (WHERE ($1) IS NOT NULL AND ($2) IS NOT NULL)";

/// How many borders of a unit lie between two times, by the unit: the arguments of `date_diff` behind it are `$1` and
/// `$2`.
const BORDERS: &[(&str, &str)] = &[
    (
        "second",
        "CAST(date_part('epoch', date_trunc('second', $2)) - date_part('epoch', date_trunc('second', $1)) AS BIGINT)",
    ),
    (
        "minute",
        "CAST((date_part('epoch', date_trunc('minute', $2)) - date_part('epoch', date_trunc('minute', $1))) / 60 AS BIGINT)",
    ),
    (
        "hour",
        "CAST((date_part('epoch', date_trunc('hour', $2)) - date_part('epoch', date_trunc('hour', $1))) / 3600 AS BIGINT)",
    ),
    (
        "day",
        // Where clocks are changed, a day has an hour more or less.
        "CAST(round((date_part('epoch', date_trunc('day', $2)) - date_part('epoch', date_trunc('day', $1))) / 86400) \
         AS BIGINT)",
    ),
    (
        "week",
        "CAST(round((date_part('epoch', date_trunc('week', $2)) - date_part('epoch', date_trunc('week', $1))) / 604800) \
         AS BIGINT)",
    ),
    (
        "month",
        "CAST((date_part('year', $2) - date_part('year', $1)) * 12 + date_part('month', $2) - date_part('month', $1) AS BIGINT)",
    ),
    (
        "quarter",
        "CAST((date_part('year', $2) - date_part('year', $1)) * 4 + date_part('quarter', $2) - date_part('quarter', $1) \
         AS BIGINT)",
    ),
    ("year", "CAST(date_part('year', $2) - date_part('year', $1) AS BIGINT)"),
];

/// Parts of the arguments of one call that may be written once more. Within each other, calls would double them each time.
const MOST_REPEATED: usize = 10_000;

/// As many of all calls of a statement.
const MOST_REPEATED_OF_ALL: usize = 100 * MOST_REPEATED;

/// Translates the calls of a statement whose names `is_known` does not know.
///
/// # Errors
/// When it would become far longer.
pub(super) fn translate(statement: &mut Statement, is_known: &dyn Fn(&str) -> bool) -> Result<()> {
    match visit_mut(statement, &mut Translator { is_known, repeated: 0 }) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct Translator<'k> {
    is_known: &'k dyn Fn(&str) -> bool,
    /// Parts of arguments that have been written once more.
    repeated: usize,
}

impl VisitorMut for Translator<'_> {
    type Break = DataFusionError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<DataFusionError> {
        let SetExpr::Select(select) = query.body.as_ref() else { return ControlFlow::Continue(()) };
        let Some(OrderBy { kind: OrderByKind::Expressions(order), .. }) = &mut query.order_by else {
            return ControlFlow::Continue(());
        };
        // Of distinct rows only what is selected tells an order, which has a name from now on.
        for OrderByExpr { expr, .. } in order {
            let is_selected = |item: &SelectItem| matches!(item, SelectItem::UnnamedExpr(selected) if selected == expr);
            if select.projection.iter().any(is_selected) && self.changes(expr) {
                *expr = Expr::Identifier(written(expr));
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<DataFusionError> {
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(expr) = item
                && self.changes(expr)
            {
                let alias = written(expr);
                *item = SelectItem::ExprWithAlias { expr: taken(expr), alias };
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<DataFusionError> {
        let Expr::Function(call) = expr else { return ControlFlow::Continue(()) };
        let Some(Meant { expr: meant, repeated }) = self.meant(call) else { return ControlFlow::Continue(()) };
        self.repeated += repeated;
        if repeated > MOST_REPEATED || self.repeated > MOST_REPEATED_OF_ALL {
            return ControlFlow::Break(plan_datafusion_err!(
                "{} takes what would be written more than once, and is too long for that: select it in a subquery, and \
                 name it",
                call.name
            ));
        }
        *expr = meant;
        ControlFlow::Continue(())
    }
}

/// What stands for a call.
struct Meant {
    expr: Expr,
    /// Parts of its arguments that are there once more.
    repeated: usize,
}

impl Translator<'_> {
    /// Whether something in the expression is translated.
    fn changes(&self, expr: &Expr) -> bool {
        let found = visit_expressions(expr, |part| match part {
            Expr::Function(call) if self.meant(call).is_some() => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        });
        found.is_break()
    }

    /// What a call means, if it is to be translated.
    fn meant(&self, call: &Function) -> Option<Meant> {
        let [ObjectNamePart::Identifier(Ident { value, quote_style: None, .. })] = call.name.0.as_slice() else {
            return None;
        };
        let name = value.to_lowercase();
        if (self.is_known)(&name) {
            return None;
        }
        if let Some((_, stock)) = RENAMED.iter().find(|(other, _)| *other == name) {
            return Some(Meant { expr: renamed(call, stock), repeated: 0 });
        }
        let FunctionArguments::List(list) = &call.args else { return None };
        let is_plain = list.duplicate_treatment.is_none() && list.clauses.is_empty();
        if !is_plain || call.null_treatment.is_some() || !call.within_group.is_empty() {
            return None;
        }
        let arguments: Option<Vec<&Expr>> = list.args.iter().map(argument).collect();
        let arguments = arguments?;
        let (spelling, arguments) = match (name.as_str(), arguments.as_slice()) {
            ("date_diff" | "datediff", [Expr::Value(unit), times @ ..]) if times.len() == 2 => {
                let unit = unit.value.clone().into_string()?.to_lowercase();
                (BORDERS.iter().find(|(of, _)| *of == unit)?.1, times)
            }
            (_, all) => {
                let spelt = SPELT_OUT.iter().find(|(other, count, _)| *other == name && *count == all.len());
                (spelt?.2, all)
            }
        };
        let mut meant = spelt_out(spelling, arguments);
        let more = |place: usize| spelling.matches(&format!("${place}")).count().saturating_sub(1);
        let repeated: usize = (1..).zip(arguments).map(|(place, argument)| more(place) * part_count(argument)).sum();
        match &mut meant {
            Expr::Function(inner) => {
                inner.over.clone_from(&call.over);
                inner.filter = both(inner.filter.take(), call.filter.clone());
            }
            // No other expression takes these.
            _ if call.over.is_some() || call.filter.is_some() => return None,
            _ => {}
        }
        Some(Meant { expr: meant, repeated })
    }
}

fn part_count(expr: &Expr) -> usize {
    let mut count = 0;
    let _never_breaks = visit_expressions(expr, |_| {
        count += 1;
        ControlFlow::<()>::Continue(())
    });
    count
}

/// What was written as a column's name.
pub(super) fn written(expr: &Expr) -> Ident {
    Ident::with_quote('"', expr.to_string())
}

fn renamed(call: &Function, stock: &str) -> Expr {
    let mut call = call.clone();
    call.name = ObjectName::from(Ident::new(stock));
    if stock == STRING_AGG
        && let FunctionArguments::List(list) = &mut call.args
        && list.args.len() == 1
    {
        let comma = Expr::value(Value::SingleQuotedString(",".to_owned()));
        list.args.push(FunctionArg::Unnamed(FunctionArgExpr::Expr(comma)));
    }
    Expr::Function(call)
}

fn argument(argument: &FunctionArg) -> Option<&Expr> {
    match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    }
}

/// An expression, which leaves a NULL where it was.
pub(super) fn taken(expr: &mut Expr) -> Expr {
    std::mem::replace(expr, Expr::value(Value::Null))
}

fn both(one: Option<Box<Expr>>, other: Option<Box<Expr>>) -> Option<Box<Expr>> {
    let (Some(left), Some(right)) = (&one, &other) else { return one.or(other) };
    let [left, right] = [left, right].map(|condition| Box::new(Expr::Nested(condition.clone())));
    Some(Box::new(Expr::BinaryOp { left, op: BinaryOperator::And, right }))
}

/// A spelling with arguments in their places.
pub(super) fn spelt_out(spelling: &str, arguments: &[&Expr]) -> Expr {
    let read = Parser::new(&GenericDialect {}).try_with_sql(spelling).and_then(|mut parser| parser.parse_expr());
    let mut meant = read.expect("the spellings of this module are expressions: a test reads them all");
    let _never_breaks = VisitMut::visit(&mut meant, &mut Places { arguments });
    meant
}

struct Places<'a> {
    arguments: &'a [&'a Expr],
}

impl VisitorMut for Places<'_> {
    type Break = ();

    // Behind the visit of what is within, so that an argument's own placeholders stay.
    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Value(value) = &*expr
            && let Value::Placeholder(place) = &value.value
            && let Some(number) = place.strip_prefix('$').and_then(|number| number.parse::<usize>().ok())
            && let Some(argument) = self.arguments.get(number.wrapping_sub(1))
        {
            *expr = Expr::clone(argument);
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::super::{StatementKind, parse};
    use super::*;

    fn translated(sql: &str, known: &[&str]) -> String {
        let [statement] = parse(sql, &GenericDialect, 50).unwrap().try_into().unwrap();
        let StatementKind::Plan(mut statement) = statement.kind else { panic!("{sql}") };
        translate(&mut statement, &|name| known.contains(&name)).unwrap();
        statement.to_string()
    }

    #[test]
    fn calls_are_translated_wherever_they_stand_and_keep_their_names() {
        for (written, meant) in [
            ("SELECT Year(d) FROM t", "SELECT date_part('year', d) AS \"Year(d)\" FROM t"),
            ("SELECT 1 + mod(a + 1, b) AS m FROM t", "SELECT 1 + ((a + 1) % (b)) AS m FROM t"),
            ("SELECT a FROM t WHERE sign(mod(a, $1)) = 1", "SELECT a FROM t WHERE signum(((a) % ($1))) = 1"),
            ("SELECT group_concat(DISTINCT a) AS l FROM t", "SELECT string_agg(DISTINCT a, ',') AS l FROM t"),
            (
                "SELECT count_if(a) FILTER (WHERE b OR c) OVER (PARTITION BY d) AS n FROM t",
                "SELECT count(*) FILTER (WHERE (a) AND (b OR c)) OVER (PARTITION BY d) AS n FROM t",
            ),
            (
                "SELECT datediff('YEAR', a, b) AS y FROM t",
                "SELECT CAST(date_part('year', b) - date_part('year', a) AS BIGINT) AS y FROM t",
            ),
            (
                "SELECT DISTINCT sign(a) FROM t ORDER BY sign(a), ucase(b)",
                "SELECT DISTINCT signum(a) AS \"sign(a)\" FROM t ORDER BY \"sign(a)\", upper(b)",
            ),
            ("SELECT (SELECT ucase(a) FROM u) AS x", "SELECT (SELECT upper(a) AS \"ucase(a)\" FROM u) AS x"),
        ] {
            assert_eq!(translated(written, &[]), meant);
        }
    }

    #[test]
    fn what_the_session_knows_or_nobody_does_stays() {
        for sql in [
            "SELECT year(d) FROM t",
            "SELECT \"mod\"(a, b), s.sign(a), mod(a), mod(a, b, c), mod(DISTINCT a, b) FROM t",
            "SELECT mod(a, b) OVER (), date_diff('fortnight', a, b), date_diff(u, a, b), other(a) FROM t",
        ] {
            assert_eq!(translated(sql, &["year"]), sql);
        }
    }

    #[test]
    fn calls_within_each_other_grow_to_a_bound() {
        for (call, rest) in [("regexp_extract(", ", 'x', 1)"), ("date_diff('month', ", ", d)"), ("arg_max(b, ", ")")] {
            for (depth, is_taken) in [(3, true), (35, false)] {
                let sql = format!("SELECT {}a{} FROM t", call.repeat(depth), rest.repeat(depth));
                let [statement] = parse(&sql, &GenericDialect, 50).unwrap().try_into().unwrap();
                let StatementKind::Plan(mut statement) = statement.kind else { panic!("{sql}") };
                assert_eq!(translate(&mut statement, &|_| false).is_ok(), is_taken, "{sql}");
            }
        }
        // Wide, not deep.
        let wide = format!("SELECT {} FROM t", vec!["date_diff('month', a, b)"; 10_000].join(", "));
        assert!(translated(&wide, &[]).len() > wide.len());
    }

    #[test]
    fn every_spelling_is_an_expression_that_is_read_again_as_it_is_printed() {
        let spellings =
            SPELT_OUT.iter().map(|(.., spelling)| spelling).chain(BORDERS.iter().map(|(_, spelling)| spelling));
        for spelling in spellings {
            let column = |name: &str| Expr::Identifier(Ident::new(name));
            let (a, b, c) = (column("a"), column("b"), column("c"));
            let meant = spelt_out(spelling, &[&a, &b, &c]);
            let printed = meant.to_string();
            assert!(!["$1", "$2", "$3"].iter().any(|place| printed.contains(place)), "{printed}");
            assert_eq!(spelt_out(&printed, &[]), meant);
        }
    }
}

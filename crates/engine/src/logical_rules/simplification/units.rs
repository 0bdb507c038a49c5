//! Which parts of an expression the simplifier may see together.
//!
//! A *test* asks whether something is one of some values, or becomes such a question while it is simplified: `=` and
//! `<>` unless both sides are columns, IN, LIKE without wildcards, patterns of alternatives. It is positive (true for
//! these values) or negative (true for all others). A *unit* is as much of an expression as only ever has lists united:
//! positive tests joined by OR, negative ones joined by AND, NOT turning the one into the other, all of the same
//! columns. Whatever else two units meet in, their lists would be intersected or subtracted. Two *bounds* (`k >= 1 AND
//! k <= 1`) may become a test: each is a unit that nothing is united with.
//!
//! Units are told apart by what they read, not by the tested expression: two expressions that share a column (`k`,
//! `CAST(k AS BIGINT)`, `CASE WHEN true THEN k ELSE j END`) may turn out to be the same one, and what they are compared
//! with may turn out to be a constant (`coalesce(1, j)`). What is evaluated anew each time (`random()`) is never the
//! same, and no test of it is united with another. Being kept apart costs a unit next to nothing.

use std::collections::{BTreeMap, BTreeSet};

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion, TreeNodeRewriter, TreeNodeVisitor};
use datafusion::common::{Column, Result};
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};

use super::{apart, is_evaluated_anew};

/// What a unit reads: its columns, and under invented names whatever else varies.
pub(super) type Reads = BTreeSet<Column>;

/// The invented name of what gives another value each time that it is evaluated.
const ANEW: &str = "(evaluated anew)";

/// The invented name that tests of constants share: `1 IN (k, j)` and `1 IN (l, m)` have no column in common.
const CONSTANT: &str = "(a constant)";

/// Tests that may be united, or a bound.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Unit {
    reads: Reads,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Positive,
    Negative,
    Bound,
}

impl Kind {
    fn of(is_positive: bool) -> Self {
        if is_positive { Self::Positive } else { Self::Negative }
    }

    fn negated(self) -> Self {
        match self {
            Self::Positive => Self::Negative,
            Self::Negative => Self::Positive,
            Self::Bound => Self::Bound,
        }
    }

    /// It takes two bounds to make a test.
    fn weight(self) -> usize {
        match self {
            Self::Positive | Self::Negative => 2,
            Self::Bound => 1,
        }
    }
}

/// What two tests weigh.
const SEPARABLE_WEIGHT: usize = 4;

/// What more than one unit of `expr` reads, bounds counted as halves.
pub(super) fn separable(expr: &Expr) -> Result<Reads> {
    let mut counter = Counter::default();
    expr.visit(&mut counter)?;
    if let Some(Some(unit)) = counter.units.pop() {
        counter.count(unit);
    }
    Ok(counter
        .weights
        .into_iter()
        .filter(|(_, weight)| *weight >= SEPARABLE_WEIGHT)
        .map(|(column, _)| column)
        .collect())
}

/// Puts the units that read something [`separable`] into calls of `apart`.
pub(super) fn separate(expr: Expr) -> Result<Transformed<Expr>> {
    let separable = separable(&expr)?;
    if separable.is_empty() {
        return Ok(Transformed::no(expr));
    }
    let mut separator = Separator { separable, ..Separator::default() };
    let rewritten = expr.rewrite(&mut separator)?;
    let root = separator.units.pop().flatten();
    Ok(rewritten.update_data(|expr| separator.enclosed(expr, root.as_ref())))
}

/// Weighs the largest units that read a column.
#[derive(Debug, Default)]
struct Counter {
    weights: BTreeMap<Column, usize>,
    /// Where the children of each node on the path to the current one begin in `units`.
    starts: Vec<usize>,
    /// For each finished node whose parent is not finished: the unit that the whole of it is.
    units: Vec<Option<Unit>>,
}

impl Counter {
    fn count(&mut self, unit: Unit) {
        for column in unit.reads {
            *self.weights.entry(column).or_default() += unit.kind.weight();
        }
    }
}

impl TreeNodeVisitor<'_> for Counter {
    type Node = Expr;

    fn f_down(&mut self, _node: &Expr) -> Result<TreeNodeRecursion> {
        self.starts.push(self.units.len());
        Ok(TreeNodeRecursion::Continue)
    }

    fn f_up(&mut self, node: &Expr) -> Result<TreeNodeRecursion> {
        let children = self.units.split_off(self.starts.pop().unwrap_or_default());
        let united = united(node, &children);
        if united.is_none() {
            for unit in children.into_iter().flatten() {
                self.count(unit);
            }
        }
        self.units.push(united.or_else(|| test(node)));
        Ok(TreeNodeRecursion::Continue)
    }
}

/// Encloses the largest units.
#[derive(Debug, Default)]
struct Separator {
    separable: Reads,
    /// As in [`Counter`].
    starts: Vec<usize>,
    units: Vec<Option<Unit>>,
}

impl Separator {
    fn enclosed(&self, expr: Expr, unit: Option<&Unit>) -> Expr {
        match unit {
            Some(unit) if !self.separable.is_disjoint(&unit.reads) => apart::call(expr),
            _ => expr,
        }
    }
}

impl TreeNodeRewriter for Separator {
    type Node = Expr;

    fn f_down(&mut self, node: Expr) -> Result<Transformed<Expr>> {
        self.starts.push(self.units.len());
        Ok(Transformed::no(node))
    }

    fn f_up(&mut self, node: Expr) -> Result<Transformed<Expr>> {
        let children = self.units.split_off(self.starts.pop().unwrap_or_default());
        let united = united(&node, &children);
        let is_united = united.is_some();
        self.units.push(united.or_else(|| test(&node)));
        if is_united || children.iter().all(Option::is_none) {
            return Ok(Transformed::no(node));
        }
        let mut units = children.iter();
        node.map_children(|child| {
            let unit = units.next().and_then(Option::as_ref);
            Ok(Transformed::yes(self.enclosed(child, unit)))
        })
    }
}

/// The unit that AND, OR or NOT makes of its operands.
fn united(node: &Expr, operands: &[Option<Unit>]) -> Option<Unit> {
    match (node, operands) {
        (Expr::Not(_), [Some(unit)]) => Some(Unit { kind: unit.kind.negated(), ..unit.clone() }),
        (Expr::BinaryExpr(BinaryExpr { op, .. }), [Some(left), Some(right)]) => {
            let uniting = match op {
                Operator::Or => left.kind == Kind::Positive,
                Operator::And => left.kind == Kind::Negative,
                _ => false,
            };
            (uniting && left == right && !left.reads.contains(&invented(ANEW))).then(|| left.clone())
        }
        _ => None,
    }
}

/// The unit of a single test or bound. Constants are none: they are folded before anything is merged.
fn test(node: &Expr) -> Option<Unit> {
    let (kind, tested) = match node {
        Expr::InList(list) => (Kind::of(!list.negated), Some(list.expr.as_ref())),
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let kind = match op {
                Operator::Eq | Operator::RegexMatch | Operator::RegexIMatch => Kind::Positive,
                Operator::NotEq | Operator::RegexNotMatch | Operator::RegexNotIMatch => Kind::Negative,
                Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq => Kind::Bound,
                _ => return None,
            };
            if !may_be_constant(left) && !may_be_constant(right) {
                return None;
            }
            (kind, None)
        }
        Expr::Like(like) if !has_wildcard(&like.pattern) => (Kind::of(!like.negated), None),
        // One value, often enough, of queries that a program has written.
        Expr::Between(between) if may_be_equal(&between.low, &between.high) => (Kind::of(!between.negated), None),
        // Functions that the simplifier turns into an operator above.
        Expr::ScalarFunction(call) => match (call.func.name(), call.args.as_slice()) {
            ("regexp_like", _) => (Kind::Positive, None),
            ("array_has", [_, element]) => (Kind::Positive, Some(element)),
            _ => return None,
        },
        _ => return None,
    };
    let mut reads = reads(node);
    if reads.is_empty() {
        return None;
    }
    if tested.is_some_and(may_be_constant) {
        reads.insert(invented(CONSTANT));
    }
    Some(Unit { reads, kind })
}

fn has_wildcard(pattern: &Expr) -> bool {
    match pattern {
        Expr::Literal(value, _) => {
            value.try_as_str().flatten().is_some_and(|pattern| pattern.contains('%') || pattern.contains('_'))
        }
        pattern => !may_be_constant(pattern),
    }
}

/// Whether two bounds may be the same constant.
fn may_be_equal(low: &Expr, high: &Expr) -> bool {
    match (low, high) {
        (Expr::Literal(..), Expr::Literal(..)) => low == high,
        _ => may_be_constant(low) && may_be_constant(high),
    }
}

/// Whether `expr` is a constant or may become one while it is simplified: whatever is no column.
fn may_be_constant(expr: &Expr) -> bool {
    match expr {
        Expr::Column(_) | Expr::OuterReferenceColumn(..) | Expr::LambdaVariable(_) => false,
        Expr::Alias(alias) => may_be_constant(&alias.expr),
        Expr::Cast(cast) => may_be_constant(&cast.expr),
        Expr::TryCast(cast) => may_be_constant(&cast.expr),
        _ => true,
    }
}

fn invented(name: &str) -> Column {
    Column::from_name(name)
}

fn reads(expr: &Expr) -> Reads {
    let mut reads = Reads::new();
    let walked = expr.apply(|nested| {
        match nested {
            Expr::Column(column) | Expr::OuterReferenceColumn(_, column) => {
                reads.insert(column.clone());
            }
            Expr::LambdaVariable(variable) => {
                reads.insert(invented(&variable.name));
            }
            Expr::Placeholder(placeholder) => {
                reads.insert(invented(&placeholder.id));
            }
            Expr::ScalarVariable(..) | Expr::AggregateFunction(_) | Expr::WindowFunction(_) => {
                reads.insert(invented("(computed elsewhere)"));
            }
            nested if is_evaluated_anew(nested) => {
                reads.insert(invented(ANEW));
            }
            _ => {}
        }
        Ok(TreeNodeRecursion::Continue)
    });
    debug_assert!(walked.is_ok(), "the walk itself never fails");
    reads
}

//! Which parts of an expression the simplifier may see together.
//!
//! A *test* asks whether something is one of some values, or becomes such a question while it is simplified: `=` and
//! `<>` with a constant, IN, LIKE without wildcards, patterns of alternatives. It is positive (true for these values)
//! or negative (true for all others). A *unit* is as much of an expression as only ever has lists united: positive
//! tests joined by OR, negative ones joined by AND, NOT turning the one into the other, all of the same columns.
//! Whatever else two units meet in, their lists would be intersected or subtracted.
//!
//! Units are told apart by the columns that are tested, not by the tested expression: two expressions over the same
//! column (`k`, `CAST(k AS BIGINT)`) may turn out to be the same one. Being kept apart costs a unit next to nothing.

use std::collections::{BTreeMap, BTreeSet};

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion, TreeNodeRewriter, TreeNodeVisitor};
use datafusion::common::{Column, Result};
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};

use super::apart;

/// What a test reads: its columns, and under invented names whatever else varies.
pub(super) type Reads = BTreeSet<Column>;

/// Tests that may be united.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Unit {
    reads: Reads,
    is_positive: bool,
}

/// What is tested in more than one unit of `expr`.
pub(super) fn separable(expr: &Expr) -> Result<BTreeSet<Reads>> {
    let mut counter = Counter::default();
    expr.visit(&mut counter)?;
    if let Some(Some(unit)) = counter.units.pop() {
        *counter.counts.entry(unit.reads).or_default() += 1;
    }
    Ok(counter.counts.into_iter().filter(|(_, count)| *count > 1).map(|(reads, _)| reads).collect())
}

/// Puts the units of what is [`separable`] into calls of `apart`.
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

/// Counts the largest units by what they read.
#[derive(Debug, Default)]
struct Counter {
    counts: BTreeMap<Reads, usize>,
    /// Where the children of each node on the path to the current one begin in `units`.
    starts: Vec<usize>,
    /// For each finished node whose parent is not finished: the unit that the whole of it is.
    units: Vec<Option<Unit>>,
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
                *self.counts.entry(unit.reads).or_default() += 1;
            }
        }
        self.units.push(united.or_else(|| test(node)));
        Ok(TreeNodeRecursion::Continue)
    }
}

/// Encloses the largest units.
#[derive(Debug, Default)]
struct Separator {
    separable: BTreeSet<Reads>,
    /// As in [`Counter`].
    starts: Vec<usize>,
    units: Vec<Option<Unit>>,
}

impl Separator {
    fn enclosed(&self, expr: Expr, unit: Option<&Unit>) -> Expr {
        match unit {
            Some(unit) if self.separable.contains(&unit.reads) => apart::call(expr),
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
        (Expr::Not(_), [Some(unit)]) => Some(Unit { is_positive: !unit.is_positive, ..unit.clone() }),
        (Expr::BinaryExpr(BinaryExpr { op, .. }), [Some(left), Some(right)]) => {
            let uniting = match op {
                Operator::Or => left.is_positive,
                Operator::And => !left.is_positive,
                _ => false,
            };
            (uniting && left == right).then(|| left.clone())
        }
        _ => None,
    }
}

/// The unit of a single test. Constants are none: they are folded before anything is merged.
fn test(node: &Expr) -> Option<Unit> {
    let (tested, is_positive) = match node {
        Expr::InList(list) => (list.expr.as_ref(), !list.negated),
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let is_positive = match op {
                Operator::Eq | Operator::RegexMatch | Operator::RegexIMatch => true,
                Operator::NotEq | Operator::RegexNotMatch | Operator::RegexNotIMatch => false,
                _ => return None,
            };
            match (is_constant(left), is_constant(right)) {
                (false, true) => (left.as_ref(), is_positive),
                (true, false) => (right.as_ref(), is_positive),
                _ => return None,
            }
        }
        Expr::Like(like) if !has_wildcard(&like.pattern) => (like.expr.as_ref(), !like.negated),
        // One value, often enough, of queries that a program has written.
        Expr::Between(between) if between.low == between.high => (between.expr.as_ref(), !between.negated),
        // Functions that the simplifier turns into an operator above.
        Expr::ScalarFunction(call) => match (call.func.name(), call.args.as_slice()) {
            ("regexp_like", [text, ..]) => (text, true),
            ("array_has", [_, element]) => (element, true),
            _ => return None,
        },
        _ => return None,
    };
    let reads = reads(tested);
    (!reads.is_empty()).then_some(Unit { reads, is_positive })
}

fn has_wildcard(pattern: &Expr) -> bool {
    match pattern {
        Expr::Literal(value, _) => {
            value.try_as_str().flatten().is_some_and(|pattern| pattern.contains('%') || pattern.contains('_'))
        }
        pattern => !is_constant(pattern),
    }
}

fn is_constant(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(..)) || reads(expr).is_empty()
}

fn reads(expr: &Expr) -> Reads {
    let mut reads = Reads::new();
    let walked = expr.apply(|nested| {
        match nested {
            Expr::Column(column) | Expr::OuterReferenceColumn(_, column) => {
                reads.insert(column.clone());
            }
            Expr::LambdaVariable(variable) => {
                reads.insert(Column::from_name(variable.name.clone()));
            }
            Expr::Placeholder(placeholder) => {
                reads.insert(Column::from_name(placeholder.id.clone()));
            }
            Expr::ScalarSubquery(_)
            | Expr::InSubquery(_)
            | Expr::Exists(_)
            | Expr::SetComparison(_)
            | Expr::ScalarVariable(..)
            | Expr::AggregateFunction(_)
            | Expr::WindowFunction(_) => {
                reads.insert(Column::from_name("(computed elsewhere)"));
            }
            _ => {}
        }
        Ok(TreeNodeRecursion::Continue)
    });
    debug_assert!(walked.is_ok(), "the walk itself never fails");
    reads
}

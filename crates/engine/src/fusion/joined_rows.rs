//! The pipelines that answer a join whose rows are wanted as they are.
//!
//! The last pipeline takes from every row that is left the columns that are wanted, and computes nothing of them: what
//! stands above does.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::logical_expr::LogicalPlan;

use super::Refusal;
use super::estimates::{expect_few_texts, expected_rows};
use super::join_graph::{BaseColumn, JoinGraph};
use super::star::{FusedPlan, Opened, Output, Planner, nearest};
use super::subqueries::Planning;
use super::tree::Tree;

/// The pipelines for these columns of a plan's rows.
pub(super) fn plan(joined: &LogicalPlan, wanted: &[usize], planning: &Planning) -> Result<FusedPlan, Refusal> {
    let (graph, columns) = JoinGraph::of(joined, planning)?;
    let tree = Tree::of(&graph)?;
    let root = &graph.relations[tree.root];
    if root.is_raw() {
        return Err(Refusal::new(format!("the rows of {} are of raw files, and not added up", root.name)));
    }
    let taken = wanted.iter().map(|&column| {
        let nearest = nearest(&columns[column], tree.root, &graph, &tree)?;
        let base = graph.base_column(&nearest);
        base.ok_or_else(|| Refusal::new(format!("{} is computed", graph.readable(&nearest))))
    });
    let taken = taken.collect::<Result<Vec<BaseColumn>, _>>()?;
    // Each once, although two columns may be equal.
    let distinct: BTreeSet<BaseColumn> = taken.iter().copied().collect();
    let outputs = taken.iter().filter_map(|base| distinct.iter().position(|of| of == base)).map(Output::Column);
    let mut planner = Planner::new(&graph, &tree, distinct.clone())?;
    planner.lists_texts = true;
    if !planner.is_narrowed(tree.root) {
        // Operators spell them all out in less time.
        expect_few_texts(&graph, distinct.iter().filter(|base| base.relation == tree.root))?;
    }
    planner.give_rows(&distinct)?;
    let expected_rows = expected_rows(root, &planner.predicates[tree.root]);
    let expected_rows = (expected_rows, false);
    let plan = FusedPlan { stages: planner.stages, outputs: outputs.collect(), expected_rows, subqueries: Vec::new() };
    let fields: Vec<_> = wanted.iter().map(|&column| Arc::clone(&joined.schema().fields()[column])).collect();
    plan.check_types(&fields)?;
    Ok(plan)
}

impl Planner<'_> {
    /// The last pipeline, which gives these columns of its rows.
    fn give_rows(&mut self, columns: &BTreeSet<BaseColumn>) -> Result<(), Refusal> {
        let root = self.tree.root;
        let mut opened = self.open(root)?;
        let slots = columns.iter().map(|base| opened.slot(self.graph, *base)).collect::<Result<Vec<_>, _>>()?;
        let Opened { builder, inputs, .. } = opened;
        self.push(root, builder.materialise(slots)?, inputs, None);
        Ok(())
    }
}

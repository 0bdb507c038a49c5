//! Which relation of a join graph is scanned last, and which others its rows are looked up in.
//!
//! The relation with the most rows is the root; the others hang from it by the equalities that join them, each from the
//! relation that it was reached from first. Equalities that would close a circle become conditions.

use std::collections::BTreeSet;

use datafusion::logical_expr::Expr;
use thermocline_pipeline::ProbeKind;

use super::Refusal;
use super::expressions::key_column;
use super::join_graph::{BaseColumn, Edge, JoinGraph};

/// A relation that another one's rows are looked up in, and by which columns of both.
#[derive(Debug)]
pub(super) struct Child {
    pub(super) relation: usize,
    pub(super) own_keys: Vec<BaseColumn>,
    pub(super) keys: Vec<BaseColumn>,
    pub(super) kind: ProbeKind,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) root: usize,
    /// By relation.
    pub(super) children: Vec<Vec<Child>>,
    parents: Vec<Option<usize>>,
    /// Equalities that no look-up stands for.
    pub(super) conditions: Vec<Expr>,
}

impl Tree {
    pub(super) fn of(graph: &JoinGraph) -> Result<Self, Refusal> {
        let root = root(graph)?;
        let mut tree = Self {
            root,
            children: graph.relations.iter().map(|_| Vec::new()).collect(),
            parents: vec![None; graph.relations.len()],
            conditions: Vec::new(),
        };
        let mut is_used = vec![false; graph.edges.len()];
        let mut next = vec![root];
        while let Some(relation) = next.pop() {
            for (number, edge) in graph.edges.iter().enumerate() {
                if is_used[number] {
                    continue;
                }
                let Some(child) = child(relation, edge, graph)? else { continue };
                let other = child.relation;
                is_used[number] = true;
                if tree.is_reached(other) {
                    tree.join_again(relation, child, edge);
                    continue;
                }
                let row_count = |relation: usize| graph.relations[relation].table.row_count();
                if row_count(other) > row_count(root) {
                    let names = (graph.table_name(other), graph.table_name(root));
                    return Err(Refusal::new(format!("{} has more rows than {}", names.0, names.1)));
                }
                tree.parents[other] = Some(relation);
                tree.children[relation].push(child);
                next.push(other);
            }
        }
        match (0..graph.relations.len()).find(|&relation| !tree.is_reached(relation)) {
            Some(apart) => Err(Refusal::new(format!("{} is not joined by an equality", graph.table_name(apart)))),
            None => Ok(tree),
        }
    }

    fn is_reached(&self, relation: usize) -> bool {
        relation == self.root || self.parents[relation].is_some()
    }

    /// Another equality between two relations of the tree: one more column of the key, or a condition.
    fn join_again(&mut self, relation: usize, again: Child, edge: &Edge) {
        let child = self.children[relation].iter_mut().find(|child| child.relation == again.relation);
        match child.filter(|child| child.kind == ProbeKind::Inner) {
            Some(child) => {
                child.own_keys.extend(again.own_keys);
                child.keys.extend(again.keys);
            }
            None => self.conditions.extend(edge.sides.iter().map(|(left, right)| left.clone().eq(right.clone()))),
        }
    }

    /// The relation above a relation.
    fn above(&self, relation: usize) -> impl Iterator<Item = usize> {
        std::iter::successors(Some(relation), |&relation| self.parents[relation])
    }

    /// Whether a relation hangs from another, or is the same.
    pub(super) fn is_within(&self, relation: usize, top: usize) -> bool {
        self.above(relation).any(|above| above == top)
    }

    /// The lowest relation that all of these hang from or are.
    pub(super) fn home(&self, relations: &BTreeSet<usize>) -> usize {
        let first = relations.first().copied().unwrap_or(self.root);
        let is_home = |&top: &usize| relations.iter().all(|&relation| self.is_within(relation, top));
        self.above(first).find(is_home).unwrap_or(self.root)
    }
}

/// The relation with the most rows, of those whose rows are aggregated.
fn root(graph: &JoinGraph) -> Result<usize, Refusal> {
    let is_inner = |relation: &usize| graph.edges.iter().any(|edge| edge.inner.contains(relation));
    let row_count = |relation: &usize| graph.relations[*relation].table.row_count();
    let candidates = (0..graph.relations.len()).filter(|relation| !is_inner(relation));
    candidates.max_by_key(row_count).ok_or_else(|| Refusal::new("no table"))
}

/// What an edge joins to one of its relations; `None` if it is none of the relation's.
fn child(relation: usize, edge: &Edge, graph: &JoinGraph) -> Result<Option<Child>, Refusal> {
    let key = |side: &Expr| {
        key_column(side, graph)
            .ok_or_else(|| Refusal::new(format!("a join by {}, which is no column", graph.readable(side))))
    };
    let first = edge.sides.iter().map(|(side, _)| key(side)).collect::<Result<Vec<_>, _>>()?;
    let second = edge.sides.iter().map(|(_, side)| key(side)).collect::<Result<Vec<_>, _>>()?;
    let of = |keys: &[BaseColumn]| -> Result<usize, Refusal> {
        let relations: BTreeSet<usize> = keys.iter().map(|key| key.relation).collect();
        match relations.into_iter().collect::<Vec<_>>().as_slice() {
            [relation] => Ok(*relation),
            _ => Err(Refusal::new("a join by columns of several tables")),
        }
    };
    let (of_first, of_second) = (of(&first)?, of(&second)?);
    let child = |relation, own_keys, keys| Some(Child { relation, own_keys, keys, kind: edge.kind });
    match (of_first == relation, of_second == relation) {
        (true, false) => Ok(child(of_second, first, second)),
        (false, true) if edge.kind == ProbeKind::Inner => Ok(child(of_first, second, first)),
        (true, true) => Err(Refusal::new("a join of a table's rows with themselves")),
        _ => Ok(None),
    }
}

//! Which relation of a join graph is scanned last, and which others its rows are looked up in.
//!
//! The relation with the most rows is the root; the others hang from it by the equalities that join them. Those whose
//! keys can be unique come first, so that rows are multiplied as little as may be. Equalities that would close a circle
//! become conditions, unless they follow from the others: then the smaller relation's table sieves the greater one's
//! rows.

use std::collections::BTreeSet;

use datafusion::logical_expr::Expr;
use thermocline_pipeline::ProbeKind;
use thermocline_placement::fusion;

use super::Refusal;
use super::equalities::Equalities;
use super::expressions::key_column;
use super::join_graph::{BaseColumn, Edge, JoinGraph};
use super::relation::Rows;

/// A relation that another one's rows are looked up in, and by which columns of both.
#[derive(Debug)]
pub(super) struct Child {
    pub(super) relation: usize,
    pub(super) own_keys: Vec<BaseColumn>,
    pub(super) keys: Vec<BaseColumn>,
    pub(super) kind: ProbeKind,
}

/// A relation's table that rows of another one must be found in, although both are looked up for a third one's rows.
#[derive(Debug)]
pub(super) struct Sieve {
    /// What the table's rows are found by.
    pub(super) key: BaseColumn,
    /// The other relation's column that is equal to it.
    pub(super) column: BaseColumn,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) root: usize,
    /// By relation.
    pub(super) children: Vec<Vec<Child>>,
    parents: Vec<Option<usize>>,
    /// Equalities that no look-up stands for, nor follow from those for which one does.
    pub(super) conditions: Vec<Expr>,
    equalities: Equalities,
    pub(super) sieves: Vec<Sieve>,
}

impl Tree {
    pub(super) fn of(graph: &JoinGraph) -> Result<Self, Refusal> {
        let root = root(graph)?;
        let mut tree = Self {
            root,
            children: graph.relations.iter().map(|_| Vec::new()).collect(),
            parents: vec![None; graph.relations.len()],
            conditions: Vec::new(),
            equalities: Equalities::default(),
            sieves: Vec::new(),
        };
        let mut open: Vec<&Edge> = graph.edges.iter().collect();
        while let Some(best) = tree.best_child(&open, graph)? {
            let (parent, child) = best;
            // What is only looked for may be sieved by those who look, and so may groups.
            let may_be_sieved = matches!(child.kind, ProbeKind::Semi | ProbeKind::Anti)
                || matches!(graph.relations[child.relation].rows, Rows::Groups { .. });
            if child.row_count > most_rows_looked_up(graph, parent, root) && !may_be_sieved {
                return Err(more_rows(graph, child.relation, parent));
            }
            if fusion::multiplies_too_far(child.rows_per_key()) {
                let name = graph.table_name(child.relation);
                return Err(Refusal::new(format!("{name} has many rows with the same key")));
            }
            open.retain(|edge| !child.edges.iter().any(|used| std::ptr::eq(*used, *edge)));
            tree.parents[child.relation] = Some(parent);
            let Candidate { relation, own_keys, keys, kind, .. } = child;
            let child = Child { relation, own_keys, keys, kind };
            tree.equalities.add(&child, graph);
            tree.children[parent].push(child);
        }
        for edge in open.iter().filter(|edge| edge.kind == ProbeKind::Inner) {
            for (left, right) in &edge.sides {
                match key_column(left, graph).zip(key_column(right, graph)) {
                    Some((one, other)) if tree.equalities.are_equal(one, other) => {
                        tree.sieves.extend(tree.sieve(one, other, graph));
                    }
                    _ => tree.conditions.push(left.clone().eq(right.clone())),
                }
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

    /// Of all relations that could hang from one of the tree, the one with the fewest rows for each key, and where it
    /// hangs.
    fn best_child<'g>(
        &self,
        open: &[&'g Edge],
        graph: &'g JoinGraph,
    ) -> Result<Option<(usize, Candidate<'g>)>, Refusal> {
        let mut best: Option<(usize, Candidate<'g>)> = None;
        for parent in (0..graph.relations.len()).filter(|&relation| self.is_reached(relation)) {
            let mut candidates: Vec<Candidate<'g>> = Vec::new();
            for edge in open {
                let Some(child) = child(parent, edge, graph)?.filter(|child| !self.is_reached(child.relation)) else {
                    continue;
                };
                let same = candidates.iter_mut().find(|known| known.relation == child.relation);
                match same.filter(|known| known.kind == ProbeKind::Inner) {
                    Some(known) => known.add_columns(child),
                    None => candidates.push(child),
                }
            }
            for candidate in candidates {
                if best.as_ref().is_none_or(|(_, best)| candidate.rows_per_key() < best.rows_per_key()) {
                    best = Some((parent, candidate));
                }
            }
        }
        Ok(best)
    }

    /// How the greater of two relations that hang from the same has its rows sieved by the smaller one's table.
    fn sieve(&self, one: BaseColumn, other: BaseColumn, graph: &JoinGraph) -> Option<Sieve> {
        let is_smaller = row_count_of(graph, one.relation) < row_count_of(graph, other.relation);
        let (key, column) = if is_smaller { (one, other) } else { (other, one) };
        let siblings = &self.children[self.parents[key.relation]?];
        let is_there = siblings.iter().any(|child| child.relation == column.relation && child.kind == ProbeKind::Inner);
        let sieves = siblings.iter().any(|child| {
            child.relation == key.relation && child.kind == ProbeKind::Inner && child.keys.as_slice() == [key]
        });
        (is_there && sieves).then_some(Sieve { key, column })
    }

    /// The column from which this one's values are had at `place` with the least effort: of those that are equal to it
    /// and come there, one of the relation nearest.
    pub(super) fn nearest(&self, place: usize, column: BaseColumn) -> BaseColumn {
        let depth = |base: &BaseColumn| self.above(base.relation).count();
        let equal = self.equalities.of(column).iter().filter(|base| self.is_within(base.relation, place));
        let nearest = equal.min_by_key(|base| (depth(base), **base));
        nearest.filter(|nearest| depth(nearest) < depth(&column)).copied().unwrap_or(column)
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

/// A relation that could hang from another.
struct Candidate<'g> {
    relation: usize,
    own_keys: Vec<BaseColumn>,
    keys: Vec<BaseColumn>,
    kind: ProbeKind,
    edges: Vec<&'g Edge>,
    row_count: u64,
    /// How many different keys it has at most.
    most_keys: u64,
}

impl Candidate<'_> {
    /// More columns of the key.
    fn add_columns(&mut self, more: Self) {
        self.own_keys.extend(more.own_keys);
        self.keys.extend(more.keys);
        self.most_keys = self.most_keys.saturating_mul(more.most_keys);
        self.edges.extend(more.edges);
    }

    /// At least so many on average; 1 where rows are not multiplied.
    fn rows_per_key(&self) -> f64 {
        match self.kind {
            ProbeKind::Inner => fusion::rows_per_key(self.row_count, self.most_keys),
            _ => 1.0,
        }
    }
}

fn row_count_of(graph: &JoinGraph, relation: usize) -> u64 {
    graph.relations[relation].row_count()
}

/// How many rows a table should have at most that rows of `parent` are looked up in: as many as these, or as the root,
/// which may itself have fewer than what is only looked for.
pub(super) fn most_rows_looked_up(graph: &JoinGraph, parent: usize, root: usize) -> u64 {
    row_count_of(graph, parent).max(row_count_of(graph, root))
}

/// Why a relation is no table that rows of `parent` should be looked up in.
pub(super) fn more_rows(graph: &JoinGraph, relation: usize, parent: usize) -> Refusal {
    Refusal::new(format!("{} has more rows than {}", graph.table_name(relation), graph.table_name(parent)))
}

/// The relation with the most rows, of those whose rows are aggregated.
fn root(graph: &JoinGraph) -> Result<usize, Refusal> {
    let is_inner = |relation: &usize| graph.edges.iter().any(|edge| edge.inner.contains(relation));
    let candidates = (0..graph.relations.len()).filter(|relation| !is_inner(relation));
    candidates.max_by_key(|&relation| row_count_of(graph, relation)).ok_or_else(|| Refusal::new("no table"))
}

/// What an edge joins to one of its relations; `None` if it is none of the relation's.
fn child<'g>(relation: usize, edge: &'g Edge, graph: &JoinGraph) -> Result<Option<Candidate<'g>>, Refusal> {
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
    let child = |relation: usize, own_keys, keys: Vec<BaseColumn>| {
        let table = &graph.relations[relation];
        let most_keys = keys.iter().fold(1u64, |most, key| most.saturating_mul(table.most_values(key.column)));
        let (kind, edges, row_count) = (edge.kind, vec![edge], table.row_count());
        Some(Candidate { relation, own_keys, keys, kind, edges, row_count, most_keys })
    };
    match (of_first == relation, of_second == relation) {
        (true, false) => Ok(child(of_second, first, second)),
        (false, true) if edge.kind == ProbeKind::Inner => Ok(child(of_first, second, first)),
        (true, true) => Err(Refusal::new("a join of a table's rows with themselves")),
        _ => Ok(None),
    }
}

//! Tables of the keys that a relation's rows ask for, so that what they are looked up in is made for these keys alone.
//!
//! A relation that is filtered, or joined to ones that are, is scanned for its keys first. That is worth it where what
//! is looked up is dear for each row: groups, whose rows need not be aggregated; texts, which need not be told apart;
//! and rows of `EXISTS` and `NOT EXISTS`, of which there may be more than look them up.
//!
//! **Owns**: where there is such a table, and the pipeline that builds it. **Does not own**: how many keys are too many
//! (`placement`).
//!
//! **Invariants**: rows that the others' keys leave out are looked up by none that is left: what is asked of the rows
//! for their keys is asked of them afterwards too, and left are those that pass everything.

use thermocline_pipeline::{ProbeKind, TableShape};
use thermocline_placement::fusion;

use super::Refusal;
use super::estimates::{expected_rows, has_different_texts};
use super::expressions::condition;
use super::join_graph::BaseColumn;
use super::relation::Rows;
use super::star::{self, Built, FusedPlan, GroupSieve, Planner, columns_of};
use super::tree::{Child, more_rows, most_rows_looked_up};

/// A table of keys, and the stage that builds it.
#[derive(Debug, Clone)]
pub(super) struct Keys {
    relation: usize,
    columns: Vec<BaseColumn>,
    pub(super) stage: usize,
    pub(super) shape: TableShape,
}

/// A relation that hangs from the same one, and its table.
pub(super) type Sibling<'b> = (&'b Child, &'b Built);

/// Whether a relation's rows are sieved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Sieving {
    /// There is nothing to gain.
    Useless,
    /// Groups, which may be all made.
    Groups,
    /// Texts, which may be all told apart.
    Texts,
    /// Without, pipelines are not worth it.
    Needed(fusion::SieveReason),
}

impl Planner<'_> {
    /// What a sieve is for in a relation whose rows are looked up for those of `parent`, and carry `payload`.
    pub(super) fn sieving(&self, child: &Child, parent: usize, payload: &[BaseColumn]) -> Sieving {
        let relation = &self.graph.relations[child.relation];
        let own = payload.iter().filter(|base| base.relation == child.relation);
        let row_count = expected_rows(relation, &self.predicates[child.relation]);
        if row_count > most_rows_looked_up(self.graph, parent, self.tree.root) && !child.kind.gives_payload() {
            return Sieving::Needed(fusion::SieveReason::MoreRows);
        }
        let columns = own.filter(|base| has_different_texts(self.graph, base)).count() as u64;
        if columns > 0 && fusion::are_too_many_to_carry(row_count) {
            return Sieving::Needed(fusion::SieveReason::Texts);
        }
        let read_again_rows = self.graph.relations[parent].row_count();
        match &relation.rows {
            Rows::Groups { .. } => Sieving::Groups,
            _ if fusion::sieves_texts(read_again_rows, columns * relation.row_count()) => Sieving::Texts,
            _ => Sieving::Useless,
        }
    }

    /// The keys that a relation's rows need, if they need them.
    pub(super) fn sieve(
        &mut self,
        child: &Child,
        parent: usize,
        payload: &[BaseColumn],
        siblings: &[Sibling<'_>],
    ) -> Result<Option<Keys>, Refusal> {
        let reason = match self.sieving(child, parent, payload) {
            Sieving::Needed(reason) => reason,
            Sieving::Texts if is_sound(child) => return self.keys(parent, &child.own_keys, siblings),
            Sieving::Texts | Sieving::Groups | Sieving::Useless => return Ok(None),
        };
        let limit = fusion::most_sieve_keys(reason, self.graph.relations[child.relation].row_count());
        // What joins leave is known when they were done.
        let may_be_few =
            self.leave_out(siblings) || expected_rows(&self.graph.relations[parent], &self.predicates[parent]) <= limit;
        let keys = match may_be_few && is_sound(child) {
            true => self.keys(parent, &child.own_keys, siblings)?,
            false => None,
        };
        let Some(keys) = keys else {
            return Err(match reason {
                fusion::SieveReason::MoreRows => more_rows(self.graph, child.relation, parent),
                fusion::SieveReason::Texts => {
                    Refusal::new(format!("too many different texts in {}", self.graph.table_name(child.relation)))
                }
            });
        };
        let most_keys = &mut self.stages[keys.stage].most_keys;
        *most_keys = Some(most_keys.map_or(limit, |before| before.min(limit)));
        Ok(Some(keys))
    }

    /// The plan of a relation that are groups, if only those are needed that rows of `parent` ask for; and the number of
    /// the stage that finds out which. Where there may be more groups than rows look anything up, they have to be sieved.
    pub(super) fn sieved_groups(
        &mut self,
        child: &Child,
        parent: usize,
        siblings: &[Sibling<'_>],
    ) -> Result<Option<(usize, FusedPlan)>, Refusal> {
        let sieved = self.sieved(child, parent, siblings)?;
        let relation = &self.graph.relations[child.relation];
        let most_rows = most_rows_looked_up(self.graph, parent, self.tree.root);
        if sieved.is_none() && matches!(relation.rows, Rows::Groups { .. }) && relation.row_count() > most_rows {
            return Err(more_rows(self.graph, child.relation, parent));
        }
        Ok(sieved)
    }

    /// The same, where it is worth it, whether they have to be or not.
    fn sieved(
        &mut self,
        child: &Child,
        parent: usize,
        siblings: &[Sibling<'_>],
    ) -> Result<Option<(usize, FusedPlan)>, Refusal> {
        let Rows::Groups { plan: whole, aggregate, .. } = &self.graph.relations[child.relation].rows else {
            return Ok(None);
        };
        let aggregated_rows = whole.stages.last().map_or(0, |last| last.relation.row_count());
        let read_again = &self.graph.relations[parent];
        let expected_rows = expected_rows(read_again, &self.predicates[parent]);
        let groups: Vec<usize> = child.keys.iter().map(|key| key.column).collect();
        let are_groups = groups.iter().all(|group| *group < aggregate.group_expr.len());
        let is_joined = self.leave_out(siblings);
        let is_worth_it = fusion::sieves_groups(read_again.row_count(), expected_rows, aggregated_rows, is_joined);
        if !(is_sound(child) && are_groups && is_worth_it) {
            return Ok(None);
        }
        let Some(keys) = self.keys(parent, &child.own_keys, siblings)? else { return Ok(None) };
        let sieve = GroupSieve { groups, shape: &keys.shape };
        Ok(star::plan(aggregate, &self.graph.planning, Some(sieve)).ok().map(|plan| (keys.stage, plan)))
    }

    /// A table of the keys that rows of `parent` have which pass its filters and are found in its other tables; `None` if
    /// these may be all rows, or can't be read twice.
    fn keys(
        &mut self,
        parent: usize,
        columns: &[BaseColumn],
        siblings: &[Sibling<'_>],
    ) -> Result<Option<Keys>, Refusal> {
        if let Some(known) = self.keys.iter().find(|keys| keys.relation == parent && keys.columns == columns) {
            return Ok(Some(known.clone()));
        }
        let rows = &self.graph.relations[parent].rows;
        let can_be_read_twice = match rows {
            Rows::Pages { .. } | Rows::Chunks { .. } | Rows::Arrays { .. } => true,
            // Others may be sieved themselves, when their table is built.
            Rows::Groups { .. } => parent == self.tree.root,
            Rows::Batches { .. } => false,
        };
        if !can_be_read_twice || !(self.is_filtered(parent) || self.leave_out(siblings)) {
            return Ok(None);
        }
        let mut opened = self.filtered(parent)?;
        for (sibling, built) in siblings {
            let kind = match sibling.kind {
                ProbeKind::Inner | ProbeKind::Semi => ProbeKind::Semi,
                kind @ (ProbeKind::Anti | ProbeKind::NullAwareAnti) => kind,
                ProbeKind::Outer => continue,
            };
            let keys = sibling.own_keys.iter().map(|key| opened.slot(self.graph, *key));
            let keys = keys.collect::<Result<Vec<_>, _>>()?;
            opened.builder.probe(&built.shape, keys, kind, &[])?;
            opened.inputs.push(built.stage);
        }
        for expr in &self.conditions[parent] {
            let is_own = columns_of(std::iter::once(expr), self.graph).iter().all(|base| base.relation == parent);
            if is_own {
                let condition = condition(expr, self.graph, &mut |base| opened.slot(self.graph, base), false)?;
                opened.builder.condition(condition)?;
            }
        }
        let slots = columns.iter().map(|key| opened.slot(self.graph, *key)).collect::<Result<Vec<_>, _>>()?;
        let name = format!("keys of {}", self.graph.table_name(parent));
        let pipeline = opened.builder.build(name, slots, Vec::new())?;
        let shape = pipeline.table_shape().ok_or_else(|| Refusal::new("a pipeline that builds no table"))?;
        let stage = self.push(parent, pipeline, opened.inputs, None);
        let keys = Keys { relation: parent, columns: columns.to_vec(), stage, shape };
        self.keys.push(keys.clone());
        Ok(Some(keys))
    }

    /// Whether rows are left out for not being found in one of these.
    fn leave_out(&self, siblings: &[Sibling<'_>]) -> bool {
        siblings.iter().any(|(sibling, _)| self.leaves_out(sibling))
    }

    /// Whether rows are left out for not being found in a table, as far as can be told.
    fn leaves_out(&self, child: &Child) -> bool {
        matches!(child.kind, ProbeKind::Inner | ProbeKind::Semi) && self.is_narrowed(child.relation)
    }

    /// Whether a relation's table lacks rows.
    pub(super) fn is_narrowed(&self, relation: usize) -> bool {
        self.is_filtered(relation) || self.tree.children[relation].iter().any(|child| self.leaves_out(child))
    }

    /// Whether anything is asked of a relation's rows themselves.
    fn is_filtered(&self, relation: usize) -> bool {
        let is_own = |expr| columns_of(std::iter::once(expr), self.graph).iter().all(|base| base.relation == relation);
        self.predicates[relation].fields().next().is_some() || self.conditions[relation].iter().any(is_own)
    }
}

/// Of a table that is empty, or has a NULL, `NOT IN` knows more than of one that lacks some keys.
fn is_sound(child: &Child) -> bool {
    child.kind != ProbeKind::NullAwareAnti
}

//! The pipelines that answer an aggregate over a join graph; those that answer a join alone are made of the same parts
//! (`joined_rows`).
//!
//! The root of the tree is scanned last. Each relation below it becomes a table, built by a pipeline that probes the
//! tables below it in turn, and carries what is needed of it and of those further up. Conditions are evaluated where
//! all of their columns first come together. What is dear is built for the keys alone that are asked for (`sieves`).

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, FieldRef, SchemaRef};
use datafusion::common::DataFusionError;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::{self, Expr, LogicalPlan};
use thermocline_pipeline::{
    Aggregate, Expression, Origin, Pipeline, PipelineBuilder, PipelineError, ProbeKind, Sink, Slot, TableShape,
};
use thermocline_placement::fusion::{self, GroupWay};
use thermocline_predicate::{Conjunction, Domain, FieldPath};

use super::Refusal;
use super::calls::{Call, Function};
use super::estimates::{expect_few_texts, group_facts, makes_few_texts, most_rows};
use super::expressions::{column_set, condition, expression, value_type};
use super::join_graph::{BaseColumn, JoinGraph};
use super::outer_joins;
use super::relation::{Relation, Rows};
use super::sieves::{Keys, Sibling};
use super::subqueries::Planning;
use super::text_functions::text_map;
use super::tree::{Child, Sieve, Tree};

/// Pipelines that together answer an aggregate, or a join.
#[derive(Debug)]
pub(super) struct FusedPlan {
    /// In the order in which they run: the last one's groups or rows are the answer, those before build tables.
    pub(super) stages: Vec<Stage>,
    /// What each column of the answer is made of.
    pub(super) outputs: Vec<Output>,
    /// About how many rows the answer has, of groups how many at most, and whether it has just as many.
    pub(super) expected_rows: (u64, bool),
    /// Whose values pipelines have parameters for, by these' numbers.
    pub(super) subqueries: Vec<Arc<LogicalPlan>>,
}

/// In place of a stage's number: a sieve of groups, which is another plan's.
const SIEVE: usize = usize::MAX;

/// One pipeline, over one relation.
#[derive(Debug, Clone)]
pub(super) struct Stage {
    pub(super) pipeline: Pipeline,
    pub(super) relation: Relation,
    /// What its rows have to pass, for row groups that need not be read.
    pub(super) predicate: Conjunction,
    /// The table's columns that it reads.
    pub(super) columns: Vec<usize>,
    /// For each table that it probes, the stage that builds it.
    pub(super) inputs: Vec<usize>,
    /// Where its relation are groups, the stage that makes them.
    pub(super) groups_of: Option<usize>,
    /// What becomes of its groups, if these are the rows of another stage.
    pub(super) grouped: Option<Grouped>,
    /// How its groups are kept, if it makes some.
    pub(super) group_way: GroupWay,
    /// With how many keys in its table the stages behind are worth it.
    pub(super) most_keys: Option<u64>,
}

/// Groups as rows of a stage behind.
#[derive(Debug, Clone)]
pub(super) struct Grouped {
    pub(super) outputs: Vec<Output>,
    pub(super) schema: SchemaRef,
}

/// A column of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Output {
    /// A column of the last pipeline's groups.
    Column(usize),
    /// One divided by another.
    Average { sum: usize, count: usize },
}

impl Output {
    /// Whether a column of the last pipeline's is part of it.
    pub(super) fn takes(self, made: usize) -> bool {
        match self {
            Self::Column(column) => column == made,
            Self::Average { sum, count } => sum == made || count == made,
        }
    }
}

/// Keys of another relation, which some of an aggregate's groups are to be among: the others are not needed.
#[derive(Debug)]
pub(super) struct GroupSieve<'s> {
    /// Which of the columns that groups are made by.
    pub(super) groups: Vec<usize>,
    /// The table of the keys.
    pub(super) shape: &'s TableShape,
}

/// The pipelines for an aggregate. With a sieve, the last one has one input more than there are stages: the sieve's.
pub(super) fn plan(
    aggregate: &logical_expr::Aggregate,
    planning: &Planning,
    sieve: Option<GroupSieve<'_>>,
) -> Result<FusedPlan, Refusal> {
    let asked = &aggregate.schema;
    let grouped = outer_joins::grouped(aggregate)?;
    let aggregate = grouped.as_ref().unwrap_or(aggregate);
    let (graph, columns) = JoinGraph::of(&aggregate.input, planning)?;
    let schema = aggregate.input.schema();
    let over = |expr: &Expr| graph.over(expr, schema, &columns);
    let groups = aggregate.group_expr.iter().map(over).collect::<Result<Vec<_>, _>>()?;
    let calls = aggregate.aggr_expr.iter().map(|expr| Call::of(expr, schema, &over)).collect::<Result<Vec<_>, _>>()?;
    if let [relation] = graph.relations.as_slice() {
        if relation.is_raw() {
            let one_file = fusion::OneFile {
                makes_groups: !groups.is_empty(),
                computes_floats: calls.iter().any(|call| computes_floats(call, &graph)),
                is_beside_others: relation.database().idle_work().is_busy(),
            };
            if let Some(reason) = fusion::left_to_operators(one_file) {
                return Err(Refusal::new(reason));
            }
        } else if graph.conditions.is_empty() && groups.is_empty() && calls.iter().all(Call::is_known) {
            return Err(Refusal::new("the answer is in the statistics"));
        }
    }
    let tree = Tree::of(&graph)?;
    // What rows are grouped by stays: values that a table carries have codes.
    let nearest = |call: Call| -> Result<Call, Refusal> {
        let argument =
            call.argument.as_ref().map(|argument| nearest(argument, tree.root, &graph, &tree)).transpose()?;
        Ok(Call { argument, ..call })
    };
    let calls = calls.into_iter().map(nearest).collect::<Result<Vec<_>, _>>()?;
    let answer = groups.iter().chain(calls.iter().filter_map(|call| call.argument.as_ref()));
    let looked_at = calls.iter().filter(|call| call.function != Function::Count);
    let looked_at = groups.iter().chain(looked_at.filter_map(|call| call.argument.as_ref()));
    let as_they_are = columns_of(looked_at.filter(|expr| !makes_few_texts(expr)), &graph);
    // Of other relations, when they are carried along.
    expect_few_texts(&graph, as_they_are.iter().filter(|base| base.relation == tree.root))?;
    let taken = columns_of(answer, &graph);
    let most_rows = most_rows(&groups, &graph, &tree);
    let facts = group_facts(&groups, &calls, most_rows.0, &graph);
    let group_way = fusion::group_way(facts).ok_or_else(|| Refusal::new("there may be too many groups"))?;
    let mut planner = Planner::new(&graph, &tree, taken)?;
    let outputs = planner.answer(&groups, &calls, sieve)?;
    let mut stages = planner.stages;
    if let Some(last) = stages.last_mut() {
        last.group_way = group_way;
    }
    let plan = FusedPlan { stages, outputs, expected_rows: most_rows, subqueries: Vec::new() };
    plan.check_types(asked.fields())?;
    Ok(plan)
}

/// Whether a call takes what is computed of columns of floats, and not such a column itself.
fn computes_floats(call: &Call, graph: &JoinGraph) -> bool {
    let is_float = |base: &BaseColumn| graph.field(*base).data_type().is_floating();
    let computed = call.argument.as_ref().filter(|argument| graph.base_column(argument).is_none());
    computed.is_some_and(|argument| columns_of(std::iter::once(argument), graph).iter().any(is_float))
}

pub(super) fn columns_of<'e>(exprs: impl Iterator<Item = &'e Expr>, graph: &JoinGraph) -> BTreeSet<BaseColumn> {
    exprs.flat_map(|expr| expr.column_refs()).filter_map(|column| graph.named(column)).collect()
}

/// The expression over columns whose values are the same, and are had at `place` with the least effort.
pub(super) fn nearest(expr: &Expr, place: usize, graph: &JoinGraph, tree: &Tree) -> Result<Expr, Refusal> {
    let replaced = expr.clone().transform_up(|nested| {
        let base = graph.base_column(&nested);
        let nearer = base.map(|base| tree.nearest(place, base)).filter(|nearest| Some(*nearest) != base);
        Ok(nearer.map_or(Transformed::no(nested), |nearer| Transformed::yes(graph.expr_of(nearer))))
    })?;
    Ok(replaced.data)
}

impl FusedPlan {
    /// The same with the values of its subqueries in place of parameters.
    pub(super) fn bound(&self, values: &[Expression]) -> Result<Self, PipelineError> {
        let stage = |stage: &Stage| Ok(Stage { pipeline: stage.pipeline.bound(values)?, ..stage.clone() });
        let stages = self.stages.iter().map(stage).collect::<Result<_, PipelineError>>()?;
        let (outputs, expected_rows) = (self.outputs.clone(), self.expected_rows);
        Ok(Self { stages, outputs, expected_rows, subqueries: Vec::new() })
    }

    /// How the answer's groups are kept.
    pub(super) fn group_way(&self) -> GroupWay {
        self.stages.last().map_or(GroupWay::Together, |last| last.group_way)
    }

    /// Whether the answer are rows as the last pipeline finds them.
    pub(super) fn gives_rows(&self) -> bool {
        self.stages.last().is_some_and(|last| matches!(last.pipeline.sink(), Sink::Materialise { .. }))
    }

    /// What an answer is made of has the types that DataFusion gives it.
    pub(super) fn check_types(&self, fields: &[FieldRef]) -> Result<(), Refusal> {
        let made = self.stages.last().map(|stage| stage.pipeline.output()).unwrap_or_default();
        for (output, field) in self.outputs.iter().zip(fields) {
            let fits = match output {
                Output::Column(column) => value_type(field.data_type()) == Some(made[*column].value_type),
                Output::Average { .. } => matches!(field.data_type(), DataType::Float64 | DataType::Decimal128(_, _)),
            };
            if !fits {
                return Err(Refusal::new(format!("{} is of type {}", field.name(), field.data_type())));
            }
        }
        Ok(())
    }
}

/// A plan on the way.
pub(super) struct Planner<'g> {
    pub(super) graph: &'g JoinGraph,
    pub(super) tree: &'g Tree,
    /// By relation, what its rows have to pass, column by column.
    pub(super) predicates: Vec<Conjunction>,
    /// By relation, what its rows have to pass with what was found for them.
    pub(super) conditions: Vec<Vec<Expr>>,
    /// Which columns are needed in the pipelines over which relations.
    uses: Vec<(usize, BTreeSet<BaseColumn>)>,
    pub(super) stages: Vec<Stage>,
    /// By relation, the stage that builds its table, once there is one, and the table's shape.
    tables: Vec<Option<(usize, TableShape)>>,
    /// Tables of keys that sieve others.
    pub(super) keys: Vec<Keys>,
    /// Whether nobody groups by texts that tables carry.
    pub(super) lists_texts: bool,
    /// The root's groups, if it has some: the stage that makes them, once there is one.
    root_groups: Option<usize>,
}

/// A pipeline without its end.
pub(super) struct Opened {
    relation: usize,
    pub(super) builder: PipelineBuilder,
    slots: HashMap<BaseColumn, Slot>,
    pub(super) inputs: Vec<usize>,
}

/// A table that is built: its stage and, in order, what its rows carry.
#[derive(Debug)]
pub(super) struct Built {
    pub(super) stage: usize,
    pub(super) shape: TableShape,
    payload: Vec<BaseColumn>,
}

impl<'g> Planner<'g> {
    /// With every condition at its place, and nothing planned yet of an answer that takes these columns.
    pub(super) fn new(graph: &'g JoinGraph, tree: &'g Tree, taken: BTreeSet<BaseColumn>) -> Result<Self, Refusal> {
        let mut planner = Self {
            graph,
            tree,
            predicates: graph.relations.iter().map(|_| Conjunction::all()).collect(),
            conditions: graph.relations.iter().map(|_| Vec::new()).collect(),
            uses: vec![(tree.root, taken)],
            stages: Vec::new(),
            tables: graph.relations.iter().map(|_| None).collect(),
            keys: Vec::new(),
            lists_texts: false,
            root_groups: None,
        };
        planner.place_conditions()?;
        Ok(planner)
    }

    /// Finds the pipeline that each condition belongs to.
    fn place_conditions(&mut self) -> Result<(), Refusal> {
        for condition in self.graph.conditions.iter().chain(&self.tree.conditions) {
            match column_set(condition, self.graph) {
                Some((base, domain)) => {
                    let name = self.graph.relations[base.relation].schema.field(base.column).name();
                    let predicate = &mut self.predicates[base.relation];
                    *predicate = predicate.clone().and(FieldPath::root(name), domain);
                }
                None => {
                    let columns = columns_of(std::iter::once(condition), self.graph);
                    let home = self.tree.home(&columns.iter().map(|base| base.relation).collect());
                    let condition = nearest(condition, home, self.graph, self.tree)?;
                    let columns = columns_of(std::iter::once(&condition), self.graph);
                    self.conditions[home].push(condition);
                    self.uses.push((home, columns));
                }
            }
        }
        Ok(())
    }

    /// The last pipeline.
    fn answer(
        &mut self,
        groups: &[Expr],
        calls: &[Call],
        sieve: Option<GroupSieve<'_>>,
    ) -> Result<Vec<Output>, Refusal> {
        let root = self.tree.root;
        let mut opened = self.open(root)?;
        if let Some(GroupSieve { groups: sieved, shape }) = sieve {
            let keys = sieved.iter().map(|group| opened.value(self.graph, &groups[*group]));
            let keys = keys.collect::<Result<Vec<_>, _>>()?;
            opened.builder.probe(shape, keys, ProbeKind::Semi, &[])?;
            opened.inputs.push(SIEVE);
        }
        let group_slots = groups.iter().map(|group| opened.value(self.graph, group)).collect::<Result<Vec<_>, _>>()?;
        let mut aggregates = Vec::with_capacity(calls.len());
        let mut outputs: Vec<Output> = (0..groups.len()).map(Output::Column).collect();
        for call in calls {
            let number = groups.len() + aggregates.len();
            let Some(argument) = &call.argument else {
                aggregates.push(Aggregate::CountRows);
                outputs.push(Output::Column(number));
                continue;
            };
            let is_compared = matches!(call.function, Function::Minimum | Function::Maximum | Function::Count);
            let slot = match self.graph.base_column(argument).filter(|_| is_compared) {
                Some(base) => opened.compared(self.graph, base)?,
                None => opened.value(self.graph, argument)?,
            };
            let (made, output) = match call.function {
                Function::Count => (vec![Aggregate::Count(slot)], Output::Column(number)),
                Function::Sum => (vec![Aggregate::Sum(slot)], Output::Column(number)),
                Function::Minimum => (vec![Aggregate::Minimum(slot)], Output::Column(number)),
                Function::Maximum => (vec![Aggregate::Maximum(slot)], Output::Column(number)),
                Function::Average | Function::AverageOfFloats => {
                    let is_exact = call.function == Function::Average;
                    let sum = if is_exact { Aggregate::WideSum(slot) } else { Aggregate::Sum(slot) };
                    (vec![sum, Aggregate::Count(slot)], Output::Average { sum: number, count: number + 1 })
                }
            };
            aggregates.extend(made);
            outputs.push(output);
        }
        let Opened { builder, inputs, .. } = opened;
        self.push(root, builder.aggregate(group_slots, aggregates)?, inputs, None);
        Ok(outputs)
    }

    /// The pipeline that makes a table of a relation, for rows of `parent` to be looked up in.
    fn build(&mut self, child: &Child, parent: usize, siblings: &[Sibling<'_>]) -> Result<Built, Refusal> {
        let payload = self.carried(child);
        let sieve = self.sieve(child, parent, &payload, siblings)?;
        let sieved = self.sieved_groups(child, parent, siblings)?;
        let mut opened = self.open(child.relation)?;
        let keys = child.keys.iter().map(|key| opened.slot(self.graph, *key)).collect::<Result<Vec<_>, _>>()?;
        if let Some(sieve) = sieve {
            opened.builder.probe(&sieve.shape, keys.clone(), ProbeKind::Semi, &[])?;
            opened.inputs.push(sieve.stage);
        }
        let slots = payload.iter().map(|base| opened.slot(self.graph, *base)).collect::<Result<Vec<_>, _>>()?;
        let Opened { builder, inputs, .. } = opened;
        let pipeline = builder.build(self.graph.table_name(child.relation), keys, slots)?;
        let pipeline = if self.lists_texts { pipeline.listing_texts() } else { pipeline };
        let shape = pipeline.table_shape().ok_or_else(|| Refusal::new("a pipeline that builds no table"))?;
        let stage = self.push(child.relation, pipeline, inputs, sieved);
        self.tables[child.relation] = Some((stage, shape.clone()));
        Ok(Built { stage, shape, payload })
    }

    /// What is needed further up of a relation and those below it.
    fn carried(&self, child: &Child) -> Vec<BaseColumn> {
        if !child.kind.gives_payload() {
            return Vec::new();
        }
        let further_up = |place: &usize| !self.tree.is_within(*place, child.relation);
        let needed = self.uses.iter().filter(|(place, _)| further_up(place)).flat_map(|(_, columns)| columns);
        let carried: BTreeSet<BaseColumn> =
            needed.copied().filter(|base| self.tree.is_within(base.relation, child.relation)).collect();
        carried.into_iter().collect()
    }

    /// Scan and filters of a relation's pipeline.
    pub(super) fn filtered(&self, relation: usize) -> Result<Opened, Refusal> {
        let mut opened =
            Opened { relation, builder: PipelineBuilder::new(), slots: HashMap::new(), inputs: Vec::new() };
        let schema = &self.graph.relations[relation].schema;
        let predicate = self.predicates[relation].clone();
        for (path, domain) in predicate.fields() {
            let [name] = path.parts() else { return Err(Refusal::new(format!("a condition on {path}"))) };
            let column = schema.index_of(name).map_err(DataFusionError::from)?;
            let slot = opened.slot(self.graph, BaseColumn { relation, column })?;
            opened.builder.filter(slot, Domain::clone(domain))?;
        }
        Ok(opened)
    }

    /// The same and probes, behind the pipelines of what it probes.
    pub(super) fn open(&mut self, relation: usize) -> Result<Opened, Refusal> {
        let mut opened = self.filtered(relation)?;
        let tree = self.tree;
        let children = &tree.children[relation];
        // The smallest is built first, for it may sieve the others' rows; what they all sieve comes last.
        let mut order: Vec<usize> = (0..children.len()).collect();
        order.sort_by_key(|&at| {
            let child = &children[at];
            (self.sieving(child, relation, &self.carried(child)), self.graph.relations[child.relation].row_count())
        });
        let mut built: Vec<Option<Built>> = children.iter().map(|_| None).collect();
        for at in order {
            let siblings: Vec<Sibling<'_>> =
                children.iter().zip(&built).filter_map(|(child, built)| Some((child, built.as_ref()?))).collect();
            let next = self.build(&children[at], relation, &siblings)?;
            built[at] = Some(next);
        }
        for (child, built) in children.iter().zip(built.into_iter().flatten()) {
            let keys = child.own_keys.iter().map(|key| opened.slot(self.graph, *key)).collect::<Result<Vec<_>, _>>()?;
            let numbers: Vec<usize> = (0..built.payload.len()).collect();
            let slots = opened.builder.probe(&built.shape, keys, child.kind, &numbers)?;
            opened.slots.extend(built.payload.into_iter().zip(slots));
            opened.inputs.push(built.stage);
        }
        for sieve in tree.sieves.iter().filter(|sieve| sieve.column.relation == relation && self.rejects(sieve)) {
            if let Some((stage, shape)) = &self.tables[sieve.key.relation] {
                let key = opened.slot(self.graph, sieve.column)?;
                opened.builder.probe(shape, vec![key], ProbeKind::Semi, &[])?;
                opened.inputs.push(*stage);
            }
        }
        for expr in &self.conditions[relation] {
            let condition = condition(expr, self.graph, &mut |base| opened.slot(self.graph, base), false)?;
            opened.builder.condition(condition)?;
        }
        Ok(opened)
    }

    /// Whether a sieve's table lacks keys, as far as can be told: something but the key itself is asked of its rows.
    fn rejects(&self, sieve: &Sieve) -> bool {
        let relation = sieve.key.relation;
        let table = &self.graph.relations[relation];
        let key = FieldPath::root(table.schema.field(sieve.key.column).name());
        self.predicates[relation].fields().any(|(path, _)| *path != key)
            || table.is_filtered_beyond(sieve.key.column)
            || !self.conditions[relation].is_empty()
            || !self.tree.children[relation].is_empty()
    }

    pub(super) fn push(
        &mut self,
        number: usize,
        pipeline: Pipeline,
        inputs: Vec<usize>,
        sieved: Option<(usize, FusedPlan)>,
    ) -> usize {
        let mut columns: Vec<usize> = pipeline
            .slots()
            .iter()
            .filter_map(|slot| match slot.origin {
                Origin::Column(column) => Some(column),
                _ => None,
            })
            .collect();
        columns.sort_unstable();
        columns.dedup();
        let (relation, predicate) = (self.graph.relations[number].clone(), self.predicates[number].clone());
        let is_root = number == self.tree.root;
        let groups_of = match &relation.rows {
            Rows::Groups { .. } if is_root && self.root_groups.is_some() => self.root_groups,
            Rows::Groups { plan, .. } => {
                let (sieve, plan) = sieved.as_ref().map_or((SIEVE, plan.as_ref()), |(sieve, plan)| (*sieve, plan));
                self.push_plan(plan, sieve, &relation.schema)
            }
            _ => None,
        };
        if is_root {
            self.root_groups = groups_of;
        }
        let (grouped, group_way) = (None, GroupWay::Together);
        let most_keys = None;
        self.stages.push(Stage {
            pipeline,
            relation,
            predicate,
            columns,
            inputs,
            groups_of,
            grouped,
            group_way,
            most_keys,
        });
        self.stages.len() - 1
    }

    /// The stages of a plan whose groups are rows here; the number of the one that makes them. `sieve` is that of the
    /// stage which builds the plan's sieve, if it has one.
    fn push_plan(&mut self, plan: &FusedPlan, sieve: usize, schema: &SchemaRef) -> Option<usize> {
        let first = self.stages.len();
        for stage in &plan.stages {
            let mut stage = stage.clone();
            for number in stage.inputs.iter_mut().chain(&mut stage.groups_of) {
                *number = if *number == SIEVE { sieve } else { *number + first };
            }
            self.stages.push(stage);
        }
        let last = self.stages.last_mut()?;
        last.grouped = Some(Grouped { outputs: plan.outputs.clone(), schema: Arc::clone(schema) });
        Some(self.stages.len() - 1)
    }
}

impl Opened {
    /// Where a column's values are.
    pub(super) fn slot(&mut self, graph: &JoinGraph, base: BaseColumn) -> Result<Slot, Refusal> {
        self.slot_for(graph, base, false)
    }

    /// Where the values of a column are which are only compared with each other, or counted.
    fn compared(&mut self, graph: &JoinGraph, base: BaseColumn) -> Result<Slot, Refusal> {
        self.slot_for(graph, base, true)
    }

    fn slot_for(&mut self, graph: &JoinGraph, base: BaseColumn, is_only_compared: bool) -> Result<Slot, Refusal> {
        if let Some(slot) = self.slots.get(&base) {
            return Ok(*slot);
        }
        let schema = &graph.relations[base.relation].schema;
        let field = schema.field(base.column);
        let named = || format!("{}.{}", graph.table_name(base.relation), field.name());
        if base.relation != self.relation {
            return Err(Refusal::new(format!("{} is not carried along", named())));
        }
        let Some(value_type) = value_type(field.data_type()) else {
            return Err(Refusal::new(format!("{} is of type {}", named(), field.data_type())));
        };
        if let Some(reason) = graph.relations[base.relation].refusal(base.column, is_only_compared) {
            return Err(Refusal::new(format!("{}: {reason}", named())));
        }
        let slot = self.builder.scan(field.name(), base.column, value_type, field.is_nullable())?;
        self.slots.insert(base, slot);
        Ok(slot)
    }

    /// Where an expression's values are.
    fn value(&mut self, graph: &JoinGraph, expr: &Expr) -> Result<Slot, Refusal> {
        if let Some(base) = graph.base_column(expr) {
            return self.slot(graph, base);
        }
        if let Some((base, map)) = text_map(expr, graph)
            && base.relation == self.relation
        {
            let relation = &graph.relations[base.relation];
            if let Some(reason) = relation.refusal(base.column, false) {
                return Err(Refusal::new(format!("{}: {reason}", map.shown())));
            }
            let is_nullable = relation.schema.field(base.column).is_nullable();
            return Ok(self.builder.scan_mapped(base.column, map, is_nullable)?);
        }
        let computed = expression(expr, graph, &mut |base| self.slot(graph, base))?;
        Ok(self.builder.compute(graph.readable(expr), computed)?)
    }
}

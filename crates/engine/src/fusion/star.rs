//! Which relation of a join graph is scanned, which become tables that its rows are looked up in, and the pipelines of
//! all that.
//!
//! The relation with the most rows is scanned last; from it the joins must form a tree. Each relation below becomes a
//! table, built by a pipeline that probes the tables below it in turn, and carries what the aggregate needs of it and
//! of those. Conditions are evaluated where their column is scanned.

use std::collections::{BTreeSet, HashMap};

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DFSchema, DataFusionError};
use datafusion::functions_aggregate::average::avg_udaf;
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::logical_expr::{self, Expr};
use thermocline_pipeline::{Aggregate, Origin, Pipeline, PipelineBuilder, ProbeKind, Slot, TableShape};
use thermocline_predicate::{Conjunction, Domain};

use super::Refusal;
use super::expressions::{averaged, expression, key_column, summed, value_type};
use super::join_graph::{BaseColumn, JoinGraph, Relation};
use crate::filters::{self, Fields};
use crate::lineage::over_columns;

/// Pipelines that together answer an aggregate.
#[derive(Debug)]
pub(super) struct FusedPlan {
    /// In the order in which they run: the last one's groups are the answer, those before build tables.
    pub(super) stages: Vec<Stage>,
    /// What each column of the answer is made of.
    pub(super) outputs: Vec<Output>,
}

/// One pipeline, over one relation.
#[derive(Debug)]
pub(super) struct Stage {
    pub(super) pipeline: Pipeline,
    pub(super) relation: Relation,
    /// What its rows have to pass, for row groups that need not be read.
    pub(super) predicate: Conjunction,
    /// The table's columns that it reads.
    pub(super) columns: Vec<usize>,
    /// For each table that it probes, the stage that builds it.
    pub(super) inputs: Vec<usize>,
}

/// A column of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Output {
    /// A column of the last pipeline's groups.
    Column(usize),
    /// One divided by another.
    Average { sum: usize, count: usize },
}

/// The pipelines for an aggregate.
pub(super) fn plan(aggregate: &logical_expr::Aggregate) -> Result<FusedPlan, Refusal> {
    let (graph, columns) = JoinGraph::of(&aggregate.input)?;
    let schema = aggregate.input.schema();
    let over = |expr: &Expr| -> Result<Expr, Refusal> {
        over_columns(expr, schema, &columns)?.ok_or_else(|| Refusal::new(format!("{expr} holds a subquery")))
    };
    let groups = aggregate.group_expr.iter().map(over).collect::<Result<Vec<_>, _>>()?;
    let calls = aggregate.aggr_expr.iter().map(|expr| call(expr, &over)).collect::<Result<Vec<_>, _>>()?;
    if graph.relations.len() == 1 && graph.conditions.is_empty() && groups.is_empty() && calls.iter().all(is_known) {
        return Err(Refusal::new("the answer is in the statistics"));
    }
    let taken = groups.iter().chain(calls.iter().filter_map(|call| call.argument.as_ref()));
    let taken: BTreeSet<BaseColumn> =
        taken.flat_map(|expr| expr.column_refs()).filter_map(|column| graph.named(column)).collect();
    let root = root(&graph)?;
    let mut planner = Planner {
        children: tree(&graph, root)?,
        predicates: predicates(&graph)?,
        graph: &graph,
        taken,
        stages: vec![],
    };
    let outputs = planner.answer(root, &groups, &calls)?;
    let plan = FusedPlan { stages: planner.stages, outputs };
    plan.check_types(&aggregate.schema)?;
    Ok(plan)
}

impl FusedPlan {
    /// What an answer is made of has the types that DataFusion gives it.
    fn check_types(&self, schema: &DFSchema) -> Result<(), Refusal> {
        let made = self.stages.last().map(|stage| stage.pipeline.output()).unwrap_or_default();
        for (output, field) in self.outputs.iter().zip(schema.fields()) {
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

/// An aggregate function and what it takes.
struct Call {
    function: Function,
    argument: Option<Expr>,
}

#[derive(Clone, Copy)]
enum Function {
    Count,
    Sum,
    Minimum,
    Maximum,
    Average,
}

fn call(expr: &Expr, over: &dyn Fn(&Expr) -> Result<Expr, Refusal>) -> Result<Call, Refusal> {
    let unaliased = expr.clone().unalias();
    let Expr::AggregateFunction(call) = &unaliased else {
        return Err(Refusal::new(format!("{expr} is no aggregate function")));
    };
    let params = &call.params;
    let is_plain = !params.distinct
        && params.filter.is_none()
        && params.order_by.is_empty()
        && params.null_treatment.is_none()
        && params.args.len() == 1;
    let known = [
        (count_udaf(), Function::Count),
        (sum_udaf(), Function::Sum),
        (min_udaf(), Function::Minimum),
        (max_udaf(), Function::Maximum),
        (avg_udaf(), Function::Average),
    ];
    let function = known.into_iter().find(|(function, _)| *function == call.func);
    let (Some((_, function)), true) = (function, is_plain) else {
        return Err(Refusal::new(format!("{unaliased} is not computed in pipelines")));
    };
    let argument = over(&params.args[0])?;
    let counts_rows = matches!((function, &argument), (Function::Count, Expr::Literal(value, _)) if !value.is_null());
    Ok(Call { function, argument: (!counts_rows).then_some(argument) })
}

/// Whether statistics of a whole table tell it.
fn is_known(call: &Call) -> bool {
    let of_column = call.argument.as_ref().is_none_or(|argument| matches!(argument, Expr::Column(_)));
    of_column && matches!(call.function, Function::Count | Function::Minimum | Function::Maximum)
}

/// The relation with the most rows, of those whose rows are aggregated.
fn root(graph: &JoinGraph) -> Result<usize, Refusal> {
    let is_inner = |relation: &usize| graph.edges.iter().any(|edge| edge.inner.contains(relation));
    let row_count = |relation: &usize| graph.relations[*relation].table.row_count();
    let candidates = (0..graph.relations.len()).filter(|relation| !is_inner(relation));
    candidates.max_by_key(row_count).ok_or_else(|| Refusal::new("no table"))
}

/// A relation that another one's rows are looked up in.
struct Child {
    own_key: BaseColumn,
    key: BaseColumn,
    kind: ProbeKind,
}

/// For each relation those below it.
fn tree(graph: &JoinGraph, root: usize) -> Result<Vec<Vec<Child>>, Refusal> {
    let mut children: Vec<Vec<Child>> = graph.relations.iter().map(|_| Vec::new()).collect();
    let mut is_reached = vec![false; graph.relations.len()];
    is_reached[root] = true;
    let mut is_used = vec![false; graph.edges.len()];
    let mut next = vec![root];
    while let Some(relation) = next.pop() {
        for (number, edge) in graph.edges.iter().enumerate() {
            if is_used[number] {
                continue;
            }
            let key = |side: &Expr| {
                key_column(side, graph)
                    .ok_or_else(|| Refusal::new(format!("a join by {}, which is no column", graph.readable(side))))
            };
            let (first, second) = (key(&edge.sides.0)?, key(&edge.sides.1)?);
            let (own_key, key) = match (first.relation == relation, second.relation == relation) {
                (true, false) => (first, second),
                (false, true) if edge.kind == ProbeKind::Inner => (second, first),
                (false, false) => continue,
                _ => return Err(Refusal::new("a join of a table's rows with each other")),
            };
            if std::mem::replace(&mut is_reached[key.relation], true) {
                let names = (graph.table_name(relation), graph.table_name(key.relation));
                return Err(Refusal::new(format!("{} and {} are joined in more than one way", names.0, names.1)));
            }
            let row_count = |relation: usize| graph.relations[relation].table.row_count();
            if row_count(key.relation) > row_count(root) {
                let names = (graph.table_name(key.relation), graph.table_name(root));
                return Err(Refusal::new(format!("{} has more rows than {}", names.0, names.1)));
            }
            is_used[number] = true;
            children[relation].push(Child { own_key, key, kind: edge.kind });
            next.push(key.relation);
        }
    }
    match is_reached.iter().position(|is_reached| !is_reached) {
        Some(apart) => Err(Refusal::new(format!("{} is not joined by an equality", graph.table_name(apart)))),
        None => Ok(children),
    }
}

/// For each relation what its rows have to pass.
fn predicates(graph: &JoinGraph) -> Result<Vec<Conjunction>, Refusal> {
    let mut predicates: Vec<Conjunction> = graph.relations.iter().map(|_| Conjunction::all()).collect();
    for condition in &graph.conditions {
        let relations: BTreeSet<usize> = condition
            .column_refs()
            .into_iter()
            .filter_map(|column| graph.named(column))
            .map(|base| base.relation)
            .collect();
        let found = match relations.into_iter().collect::<Vec<_>>().as_slice() {
            [relation] => {
                let fields = Fields { schema: &graph.relations[*relation].table.schema, element: None };
                filters::condition(&fields, condition).map(|(path, _, domain)| (*relation, path, domain))
            }
            _ => None,
        };
        let Some((relation, path, domain)) = found else {
            return Err(Refusal::new(format!("{} is not about one column alone", graph.readable(condition))));
        };
        predicates[relation] = predicates[relation].clone().and(path, domain);
    }
    Ok(predicates)
}

struct Planner<'g> {
    graph: &'g JoinGraph,
    children: Vec<Vec<Child>>,
    predicates: Vec<Conjunction>,
    /// What groups and aggregates are made of.
    taken: BTreeSet<BaseColumn>,
    stages: Vec<Stage>,
}

/// A pipeline without its end.
struct Opened {
    relation: usize,
    builder: PipelineBuilder,
    slots: HashMap<BaseColumn, Slot>,
    inputs: Vec<usize>,
}

/// A table that is built: its stage and, in order, what its rows carry.
struct Built {
    stage: usize,
    shape: TableShape,
    payload: Vec<BaseColumn>,
}

impl Planner<'_> {
    /// The last pipeline.
    fn answer(&mut self, root: usize, groups: &[Expr], calls: &[Call]) -> Result<Vec<Output>, Refusal> {
        let mut opened = self.open(root)?;
        let group_slots = groups.iter().map(|group| opened.value(self.graph, group)).collect::<Result<Vec<_>, _>>()?;
        let mut aggregates = Vec::with_capacity(calls.len());
        let mut outputs: Vec<Output> = (0..groups.len()).map(Output::Column).collect();
        for call in calls {
            let number = groups.len() + aggregates.len();
            outputs.push(Output::Column(number));
            let Some(argument) = &call.argument else {
                aggregates.push(Aggregate::CountRows);
                continue;
            };
            let mut value = |expr: &Expr| opened.value(self.graph, expr);
            let aggregate = match call.function {
                Function::Count => Aggregate::Count(value(argument)?),
                Function::Sum => Aggregate::Sum(value(summed(argument))?),
                Function::Minimum => Aggregate::Minimum(value(argument)?),
                Function::Maximum => Aggregate::Maximum(value(argument)?),
                Function::Average => {
                    let slot = value(averaged(argument))?;
                    aggregates.push(Aggregate::Count(slot));
                    outputs.pop();
                    outputs.push(Output::Average { sum: number + 1, count: number });
                    Aggregate::WideSum(slot)
                }
            };
            aggregates.push(aggregate);
        }
        let Opened { builder, inputs, .. } = opened;
        self.push(root, builder.aggregate(group_slots, aggregates)?, inputs);
        Ok(outputs)
    }

    /// The pipeline that makes a table of a relation.
    fn build(&mut self, child: &Child) -> Result<Built, Refusal> {
        let relation = child.key.relation;
        let below = self.below(relation);
        let payload: Vec<BaseColumn> = match child.kind {
            ProbeKind::Inner => self.taken.iter().copied().filter(|base| below.contains(&base.relation)).collect(),
            _ => Vec::new(),
        };
        let mut opened = self.open(relation)?;
        let key = opened.slot(self.graph, child.key)?;
        let slots = payload.iter().map(|base| opened.slot(self.graph, *base)).collect::<Result<Vec<_>, _>>()?;
        let Opened { builder, inputs, .. } = opened;
        let pipeline = builder.build(self.graph.table_name(relation), key, slots)?;
        let shape = pipeline.table_shape().ok_or_else(|| Refusal::new("a pipeline that builds no table"))?;
        let stage = self.push(relation, pipeline, inputs);
        Ok(Built { stage, shape, payload })
    }

    /// Scan, filters and probes of a relation's pipeline, behind the pipelines of what it probes.
    fn open(&mut self, relation: usize) -> Result<Opened, Refusal> {
        let children = std::mem::take(&mut self.children[relation]);
        let mut opened =
            Opened { relation, builder: PipelineBuilder::new(), slots: HashMap::new(), inputs: Vec::new() };
        let schema = &self.graph.relations[relation].table.schema;
        let predicate = self.predicates[relation].clone();
        for (path, domain) in predicate.fields() {
            let [name] = path.parts() else { return Err(Refusal::new(format!("a condition on {path}"))) };
            let column = schema.index_of(name).map_err(DataFusionError::from)?;
            let slot = opened.slot(self.graph, BaseColumn { relation, column })?;
            opened.builder.filter(slot, Domain::clone(domain))?;
        }
        for child in &children {
            let built = self.build(child)?;
            let key = opened.slot(self.graph, child.own_key)?;
            let numbers: Vec<usize> = (0..built.payload.len()).collect();
            let slots = opened.builder.probe(&built.shape, key, child.kind, &numbers)?;
            opened.slots.extend(built.payload.into_iter().zip(slots));
            opened.inputs.push(built.stage);
        }
        Ok(opened)
    }

    /// A relation and all that hang from it.
    fn below(&self, relation: usize) -> BTreeSet<usize> {
        let mut below = BTreeSet::from([relation]);
        for child in &self.children[relation] {
            below.extend(self.below(child.key.relation));
        }
        below
    }

    fn push(&mut self, relation: usize, pipeline: Pipeline, inputs: Vec<usize>) -> usize {
        let mut columns: Vec<usize> = pipeline
            .slots()
            .iter()
            .filter_map(|slot| match slot.origin {
                Origin::Column(column) => Some(column),
                _ => None,
            })
            .collect();
        columns.sort_unstable();
        self.stages.push(Stage {
            pipeline,
            relation: self.graph.relations[relation].clone(),
            predicate: self.predicates[relation].clone(),
            columns,
            inputs,
        });
        self.stages.len() - 1
    }
}

impl Opened {
    /// Where a column's values are.
    fn slot(&mut self, graph: &JoinGraph, base: BaseColumn) -> Result<Slot, Refusal> {
        if let Some(slot) = self.slots.get(&base) {
            return Ok(*slot);
        }
        let schema = &graph.relations[base.relation].table.schema;
        let field = schema.field(base.column);
        let named = || format!("{}.{}", graph.table_name(base.relation), field.name());
        if base.relation != self.relation {
            return Err(Refusal::new(format!("{} is not carried along", named())));
        }
        let Some(value_type) = value_type(field.data_type()) else {
            return Err(Refusal::new(format!("{} is of type {}", named(), field.data_type())));
        };
        let slot = self.builder.scan(field.name(), base.column, value_type, field.is_nullable())?;
        self.slots.insert(base, slot);
        Ok(slot)
    }

    /// Where an expression's values are.
    fn value(&mut self, graph: &JoinGraph, expr: &Expr) -> Result<Slot, Refusal> {
        if let Some(base) = graph.base_column(expr) {
            return self.slot(graph, base);
        }
        let computed = expression(expr, graph, &mut |base| self.slot(graph, base))?;
        Ok(self.builder.compute(graph.readable(expr), computed)?)
    }
}

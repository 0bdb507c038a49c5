//! Rules over logical plans: where DataFusion's own would give another answer than SQL's.
//!
//! - Before types are made alike, floats and decimals that meet become floats, and numbers that are written beside
//!   decimals decimals ([`mixed_numbers`]).
//! - Behind that, `IN` with a subquery is said by `EXISTS` where joins would not know that it is NULL, and what is asked of
//!   an aggregate's one row is asked of its value ([`subquery_nulls`]).
//! - Correlated subqueries that DataFusion does not join, or not rightly, are joined ([`dependent_joins`]).
//! - Last, what the others compare is made what their aggregates are grouped by ([`correlated_keys`]).
//!
//! Around the stock rules that optimize,
//!
//! - tests of one column are not merged where that changes answers, nor casts taken out of comparisons
//!   ([`simplification`]);
//! - conditions without columns, or by chance, stay above aggregates and windows, and those on outer columns above the
//!   projections that have their keys ([`above_aggregates`]);
//! - keys that are none are forgotten ([`wrong_keys`]; installed by [`unnest`](crate::unnest), which brings some of them).
//!
//! What the optimizer leaves of this kind is done to the plan behind it ([`stand_ins`](crate::stand_ins)), or to the
//! physical plan ([`physical_rules`](crate::physical_rules)).
//!
//! Stateless, shared freely.

mod above_aggregates;
mod correlated_keys;
mod dependent_joins;
mod mixed_numbers;
mod simplification;
mod subquery_nulls;
pub(crate) mod wrong_keys;

use std::sync::Arc;

use datafusion::optimizer::analyzer::type_coercion::TypeCoercion;
use datafusion::optimizer::{AnalyzerRule, OptimizerRule};

pub(crate) use simplification::{apart, casts};

/// Puts the rules before and behind the one that makes types alike.
pub(crate) fn install_analyzer(rules: &mut Vec<Arc<dyn AnalyzerRule + Send + Sync>>) {
    let coercion = TypeCoercion::new();
    let place = rules.iter().position(|rule| rule.name() == coercion.name()).map_or(rules.len(), |place| place + 1);
    rules.insert(place, Arc::new(subquery_nulls::SpellOutMembership));
    rules.insert(place + 1, Arc::new(dependent_joins::DependentJoins));
    rules.insert(place + 2, Arc::new(correlated_keys::GroupByKeys));
    mixed_numbers::install(rules);
}

/// Puts the rules around those that they keep from harm.
pub(crate) fn install_optimizer(rules: &mut Vec<Arc<dyn OptimizerRule + Send + Sync>>) {
    simplification::install(rules);
    above_aggregates::install(rules);
}

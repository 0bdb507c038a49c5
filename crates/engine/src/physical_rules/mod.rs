//! Rules over physical plans: what DataFusion's own would take for granted, and is not so.
//!
//! - Groups of grouping sets do not come in the order of their columns, whatever the rows do ([`grouping_sets`]).
//! - Filters that are pushed down find their columns by name, of two of one name, or of a semi join's two sides, perhaps the
//!   other; and those of joins by floats tell zeros by their signs ([`careful_pushdown`]).
//! - Of a filter's parts those that can fail see only rows that the others let through ([`guarded_filters`]).
//! - What a query computes of a struct's fields goes into the scans of raw files ([`early_projections`]).
//! - There may be less memory than a join or the first rows of an order take ([`beyond_memory`]).
//!
//! Stateless, shared freely.

mod beyond_memory;
mod careful_pushdown;
mod early_projections;
mod grouping_sets;
mod guarded_filters;
mod veil;

use std::sync::Arc;

use datafusion::execution::memory_pool::MemoryPool;
use datafusion::physical_optimizer::PhysicalOptimizerRule;

use beyond_memory::{Memory, SortedFirstRows, SortedJoins};

/// Puts the rules among DataFusion's, for queries whose memory is that of `pool`.
pub(crate) fn install(rules: &mut Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>>, pool: &Arc<dyn MemoryPool>) {
    let memory = Memory::of(pool);
    // Behind the choice of which side has the table.
    if let Some(selection) = rules.iter().position(|rule| rule.name() == "join_selection") {
        rules.insert(selection + 1, Arc::new(SortedJoins(memory.clone())));
    }
    for rule in rules.iter_mut() {
        if rule.name().starts_with("FilterPushdown") {
            *rule = Arc::new(careful_pushdown::CarefulPushdown::around(Arc::clone(rule)));
        }
    }
    rules.insert(0, Arc::new(early_projections::EarlyProjections));
    rules.insert(0, Arc::new(grouping_sets::UnorderedGroupingSets));
    rules.push(Arc::new(guarded_filters::GuardedFilters));
    rules.push(Arc::new(SortedFirstRows(memory)));
}

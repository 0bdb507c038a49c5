//! Puts Thermocline's parts into a DataFusion session.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::catalog::CatalogProviderList;
use datafusion::common::config::{ConfigNonZeroUsize, ConfigOptions};
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::optimizer::analyzer::Analyzer;
use datafusion::optimizer::optimizer::Optimizer;
use datafusion::prelude::{SessionConfig, SessionContext};
use thermocline_placement::spilling;

use super::ndjson_output::NdjsonOutput;
use crate::catalog::definitions::sql_parser_options;
use crate::catalog::{FileCatalogList, SessionHandle, TableFactory};
use crate::database::{DEFAULT_CATALOG, DEFAULT_SCHEMA, Database};
use crate::planner::CachingQueryPlanner;
use crate::{fusion, logical_rules, physical_rules, unnest};

/// Has operators take no more at a time than there is memory for.
pub(super) fn fit_to_memory(options: &mut ConfigOptions, limit_bytes: u64) {
    let execution = &mut options.execution;
    let partition_count = execution.target_partitions as u64;
    let at_most = |bound: u64, set: usize| usize::try_from(bound).map_or(set, |bound| bound.min(set));
    let merge_bytes = spilling::most_merge_bytes(limit_bytes, partition_count);
    execution.sort_spill_reservation_bytes = at_most(merge_bytes, execution.sort_spill_reservation_bytes);
    let batch_rows = at_most(spilling::most_batch_rows(limit_bytes, partition_count), execution.batch_size.get());
    if let Ok(batch_rows) = ConfigNonZeroUsize::try_new(batch_rows) {
        execution.batch_size = batch_rows;
    }
}

/// The context of a session of our own.
pub(super) fn session_context(database: &Arc<Database>) -> SessionContext {
    let mut config = SessionConfig::new()
        .with_information_schema(true)
        .with_default_catalog_and_schema(DEFAULT_CATALOG, DEFAULT_SCHEMA)
        .with_create_default_catalog_and_schema(false)
        .with_target_partitions(database.threads());
    config.options_mut().execution.parquet.pushdown_filters = true;
    config.options_mut().sql_parser = sql_parser_options();
    // The optimizer finds more columns free of NULLs than the plan it starts from (`(k = 1) IS TRUE`), and takes that
    // for its own fault: a query that is right would end with an internal error.
    config.options_mut().execution.skip_physical_aggregate_schema_check = true;
    // A file for each batch that an exchange has no memory for: with more in one file, whoever reads an exchange can wait
    // for the next batch of a file whose writer waits for the reader, for ever (apache/datafusion#24883).
    config = config.set_usize("datafusion.execution.max_spill_file_size_bytes", 1);
    let state = SessionStateBuilder::new()
        .with_config(config)
        .with_runtime_env(Arc::clone(database.runtime()))
        .with_default_features()
        // Tables over files are ours alone: others would look at no setting.
        .with_table_factories(HashMap::new())
        .with_catalog_list(Arc::clone(database.catalogs()))
        .build();
    install(database, state)
}

/// Adds the caches, raw tables, `FROM 'path'`, the `thermocline.…` settings and system tables to an existing DataFusion
/// context. Tables, functions and settings of `context` stay; memory for its queries keeps coming from its own pool, so
/// give the database the share of memory that the caches may have.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use thermocline_engine::{Database, DatabaseOptions, add_caches};
/// use datafusion::prelude::SessionContext;
///
/// let database = Database::open(DatabaseOptions { memory_bytes: Some(1 << 30), ..Default::default() })?;
/// let context = add_caches(&database, &SessionContext::new());
/// context.sql("SELECT count(*) FROM 'events.ndjson'").await?.show().await?;
/// # Ok(())
/// # }
/// ```
pub fn add_caches(database: &Arc<Database>, context: &SessionContext) -> SessionContext {
    install(database, context.state())
}

fn install(database: &Arc<Database>, state: SessionState) -> SessionContext {
    let handle = SessionHandle::default();
    let catalogs: Arc<dyn CatalogProviderList> = Arc::new(FileCatalogList::new(
        Arc::clone(state.catalog_list()),
        Arc::clone(database),
        handle.clone(),
        state.config().information_schema(),
    ));
    let planner = Arc::new(CachingQueryPlanner::new(
        Arc::clone(state.query_planner()),
        Arc::clone(database.clock()),
        Arc::clone(database.settings()),
    ));
    let mut optimizer_rules = state.optimizers().to_vec();
    if optimizer_rules.is_empty() {
        optimizer_rules = Optimizer::new().rules;
    }
    logical_rules::install_optimizer(&mut optimizer_rules);
    unnest::push_down::install(&mut optimizer_rules);
    fusion::install(&mut optimizer_rules);
    let mut physical_rules = state.physical_optimizers().to_vec();
    physical_rules::install(&mut physical_rules, &state.runtime_env().memory_pool);
    let mut analyzer_rules = state.analyzer().rules.clone();
    if analyzer_rules.is_empty() {
        analyzer_rules = Analyzer::new().rules;
    }
    logical_rules::install_analyzer(&mut analyzer_rules);
    unnest::lateral::install_analyzer(&mut analyzer_rules);
    let mut relation_planners = state.relation_planners().to_vec();
    relation_planners.push(Arc::new(unnest::relation::UnnestRelationPlanner));
    let mut config = state.config().clone();
    config.options_mut().extensions.insert(database.default_config());
    // The catalogs have one that lists what cannot be planned too. With this setting DataFusion's own would come before
    // it.
    config.options_mut().catalog.information_schema = false;
    let mut builder = SessionStateBuilder::new_from_existing(state)
        .with_config(config)
        .with_catalog_list(catalogs)
        .with_query_planner(planner)
        .with_optimizer_rules(optimizer_rules)
        .with_physical_optimizer_rules(physical_rules)
        .with_analyzer_rules(analyzer_rules)
        .with_relation_planners(relation_planners);
    for word in TableFactory::WORDS {
        builder = builder.with_table_factory(word.to_string(), Arc::new(TableFactory::new(Arc::clone(database))));
    }
    let mut state = builder.build();
    for format in NdjsonOutput::all() {
        // Whatever a host has registered for the suffix stays.
        let _ = state.register_file_format(format, false);
    }
    let context = SessionContext::new_with_state(state);
    handle.connect(context.state_weak_ref());
    context
}

//! Tables and views that are kept as the statement that makes them: that statement, planned.
//!
//! The name in such a statement is not looked up: it would lead back to the statement.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::common::{DataFusionError, Result, plan_err};
use datafusion::datasource::ViewTable;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{CreateView, DdlStatement, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;
use datafusion::optimizer::analyzer::type_coercion::TypeCoercion;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{Ident, ObjectName, Statement as SqlAst};
use thermocline_column_store::{Entry, EntryName};

use super::files::external_table;
use crate::column_table::ColumnTables;
use crate::database::{DEFAULT_CATALOG, Database};
use crate::settings::ThermoclineConfig;

/// Stands for the name of what a statement makes, while the statement is planned. No table has it, and no path.
const NAMELESS: &str = "\u{1}";

/// The view that `CREATE VIEW` makes.
///
/// # Errors
/// Types that do not go together; a column name that is there twice.
pub(crate) fn view(state: &SessionState, command: &CreateView) -> Result<Arc<dyn TableProvider>> {
    let input = LogicalPlan::clone(&command.input);
    let input = TypeCoercion::new().analyze(input, state.config_options())?;
    let mut names = HashSet::new();
    if let Some(twice) = input.schema().fields().iter().find(|field| !names.insert(field.name().clone())) {
        return plan_err!(
            "view {}: column '{}' is there twice: name one of them anew with AS",
            command.name,
            twice.name()
        );
    }
    Ok(Arc::new(ViewTable::new(input, command.definition.clone())))
}

/// What a kept statement makes, as of now.
///
/// # Errors
/// The statement can no longer be planned: what it names is gone or has changed.
pub(crate) async fn planned(
    database: &Arc<Database>,
    state: &SessionState,
    config: &ThermoclineConfig,
    name: &EntryName,
    definition: &str,
) -> Result<Arc<dyn TableProvider>> {
    let statement = parsed(state, definition)?;
    match state.statement_to_plan(nameless(statement)).await? {
        LogicalPlan::Ddl(DdlStatement::CreateExternalTable(command)) => {
            external_table(database, config, &command).await
        }
        LogicalPlan::Ddl(DdlStatement::CreateView(mut command)) => {
            command.definition = Some(definition.to_string());
            view(state, &command)
        }
        _ => plan_err!("{name} is kept as a statement that makes no table: {definition}"),
    }
}

fn parsed(state: &SessionState, definition: &str) -> Result<Statement> {
    state.sql_to_statement(definition, &state.config_options().sql_parser.dialect)
}

fn nameless(mut statement: Statement) -> Statement {
    let nameless = || ObjectName::from(vec![Ident::with_quote('"', NAMELESS)]);
    match &mut statement {
        Statement::CreateExternalTable(table) => table.name = nameless(),
        Statement::Statement(ast) => {
            if let SqlAst::CreateView(view) = ast.as_mut() {
                view.name = nameless();
            }
        }
        _ => {}
    }
    statement
}

/// Refuses a view that would be defined by itself, directly or through other views of the folder.
///
/// # Errors
/// It would be.
pub(crate) fn check_acyclic(
    state: &SessionState,
    tables: &ColumnTables,
    name: &EntryName,
    statement: &Statement,
) -> Result<()> {
    let manifest = tables.manifest();
    let mut seen: HashSet<EntryName> = HashSet::new();
    let mut open = vec![statement.clone()];
    while let Some(statement) = open.pop() {
        for reference in state.resolve_table_references(&nameless(statement))? {
            let defaults = &state.config_options().catalog;
            let reference = reference.resolve(&defaults.default_catalog, &defaults.default_schema);
            if &*reference.catalog != DEFAULT_CATALOG {
                continue;
            }
            let used = EntryName::new(&*reference.schema, &*reference.table);
            if used == *name && matches!(manifest.entries.get(name), Some(Entry::View { .. }) | None) {
                return Err(DataFusionError::Plan(format!("view '{name}' cannot be defined by itself")));
            }
            if used == *name {
                return Err(DataFusionError::Plan(format!(
                    "view '{name}' would take the place of the table that it is defined by"
                )));
            }
            if let Some(Entry::View { definition }) = manifest.entries.get(&used)
                && seen.insert(used)
            {
                open.push(parsed(state, definition)?);
            }
        }
    }
    Ok(())
}

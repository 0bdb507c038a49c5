//! Tables and views that are kept as the statement that makes them: that statement, planned.
//!
//! The name in such a statement is not looked up: it would lead back to the statement. Names without a schema are those of
//! schema `public`, whatever the defaults of the session that asks.

use std::collections::HashSet;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::config::SqlParserOptions;
use datafusion::common::{DataFusionError, Result, TableReference, internal_err, plan_err};
use datafusion::datasource::ViewTable;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{CreateView, DdlStatement, Expr, LogicalPlan, TableType};
use datafusion::optimizer::AnalyzerRule;
use datafusion::optimizer::analyzer::type_coercion::TypeCoercion;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{Ident, ObjectName, Statement as SqlAst};
use thermocline_column_store::{Entry, EntryName};

use super::files::{external_table, looks_like_path};
use crate::database::{DEFAULT_CATALOG, DEFAULT_SCHEMA, Database};
use crate::settings::ThermoclineConfig;
use crate::sql::as_meant;

/// Stands for the name of what a statement makes, while the statement is planned. No table has it, and no path.
const NAMELESS: &str = "\u{1}";

/// The view that `CREATE VIEW` makes.
///
/// # Errors
/// Types that do not go together; a column name that is there twice.
fn view(state: &SessionState, command: &CreateView) -> Result<Arc<dyn TableProvider>> {
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
    let state = &with_fixed_defaults(state);
    let statement = parsed(state, definition)?;
    match state.statement_to_plan(nameless(statement)).await? {
        LogicalPlan::Ddl(DdlStatement::CreateExternalTable(command)) => {
            Ok(Arc::new(external_table(database, config, &command).await?))
        }
        LogicalPlan::Ddl(DdlStatement::CreateView(mut command)) => {
            command.definition = Some(definition.to_string());
            view(state, &command)
        }
        _ => plan_err!("{name} is kept as a statement that makes no table: {definition}"),
    }
}

/// What a session begins with.
pub(crate) fn sql_parser_options() -> SqlParserOptions {
    // Raw files are read as Utf8; a declared VARCHAR of another representation would only be cast back and forth.
    SqlParserOptions { map_string_types_to_utf8view: false, ..SqlParserOptions::default() }
}

/// The session with the defaults by which kept statements are read and names in them resolved, whoever asks.
fn with_fixed_defaults(state: &SessionState) -> SessionState {
    let mut state = state.clone();
    let options = state.config_mut().options_mut();
    options.catalog.default_catalog = DEFAULT_CATALOG.to_owned();
    options.catalog.default_schema = DEFAULT_SCHEMA.to_owned();
    options.sql_parser = sql_parser_options();
    state
}

/// The text by which a statement is kept.
///
/// # Errors
/// The text would be read as another statement, or mean another one under other defaults than the session's.
pub(crate) fn kept_text(state: &SessionState, statement: &Statement) -> Result<String> {
    let mut parser = state.config_options().sql_parser.clone();
    let fixed = sql_parser_options();
    // Of these the parsed statement is independent.
    (parser.dialect, parser.recursion_limit, parser.collect_spans) =
        (fixed.dialect, fixed.recursion_limit, fixed.collect_spans);
    if parser != fixed {
        return plan_err!(
            "a statement that is kept is read with the settings datafusion.sql_parser that a session begins with, \
             and this session has others"
        );
    }
    let defaults = &state.config_options().catalog;
    if (defaults.default_catalog.as_str(), defaults.default_schema.as_str()) != (DEFAULT_CATALOG, DEFAULT_SCHEMA) {
        let used = state.resolve_table_references(&nameless(statement.clone()))?;
        let is_vague = |used: &&TableReference| {
            let is_whole = match defaults.default_catalog.as_str() {
                DEFAULT_CATALOG => used.schema().is_some(),
                _ => used.catalog().is_some(),
            };
            let is_table = || state.schema_for_ref((*used).clone()).is_ok_and(|of| of.table_exist(used.table()));
            let is_function = state.table_functions().contains_key(used.table()) && !is_table();
            !is_whole && !looks_like_path(used.table()) && !is_function
        };
        if let Some(vague) = used.iter().find(|used| used.table() != NAMELESS && is_vague(used)) {
            return plan_err!(
                "'{vague}' in a view means that of '{DEFAULT_CATALOG}.{DEFAULT_SCHEMA}', whatever the session's \
                 defaults are: say which it is, as in {DEFAULT_CATALOG}.{}.{}",
                vague.schema().unwrap_or(DEFAULT_SCHEMA),
                vague.table()
            );
        }
    }
    let text = statement.to_string();
    match parsed(&with_fixed_defaults(state), &text) {
        Ok(read) if read == *statement => Ok(text),
        _ => plan_err!("the statement cannot be kept as text, which would be read otherwise: {text}"),
    }
}

fn parsed(state: &SessionState, definition: &str) -> Result<Statement> {
    as_meant(state.sql_to_statement(definition, &state.config_options().sql_parser.dialect)?)
}

/// The statement with a name in which nothing is found.
pub(crate) fn nameless(mut statement: Statement) -> Statement {
    let nameless = || ObjectName::from(vec![Ident::with_quote('"', NAMELESS)]);
    match &mut statement {
        Statement::CreateExternalTable(table) => table.name = nameless(),
        Statement::Statement(ast) => match ast.as_mut() {
            SqlAst::CreateView(view) => view.name = nameless(),
            SqlAst::CreateTable(table) => table.name = nameless(),
            _ => {}
        },
        _ => {}
    }
    statement
}

/// What has a name that a view uses.
#[derive(Debug)]
pub(crate) enum Named {
    /// A view, and its definition.
    View(String),
    Other,
}

impl Named {
    pub(crate) fn of_entry(entry: &Entry) -> Self {
        match entry {
            Entry::View { definition } => Self::View(definition.clone()),
            _ => Self::Other,
        }
    }
}

/// A view that no folder keeps: its definition, in the place of what that makes whenever it is named.
#[derive(Debug)]
pub(crate) struct MemoryView {
    pub(crate) definition: String,
    /// Of when it was made.
    pub(crate) schema: SchemaRef,
}

#[async_trait]
impl TableProvider for MemoryView {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    fn get_table_definition(&self) -> Option<&str> {
        Some(&self.definition)
    }

    async fn scan(
        &self,
        _session: &dyn Session,
        _projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        internal_err!("a view is planned where it is named")
    }
}

/// Refuses a view that would be defined by itself, directly or through other views.
///
/// # Errors
/// It would be.
pub(crate) fn check_acyclic(
    state: &SessionState,
    named: &dyn Fn(&EntryName) -> Option<Named>,
    name: &EntryName,
    statement: &Statement,
) -> Result<()> {
    let mut seen: HashSet<EntryName> = HashSet::new();
    let mut open = vec![statement.clone()];
    while let Some(statement) = open.pop() {
        for reference in state.resolve_table_references(&nameless(statement))? {
            let reference = reference.resolve(DEFAULT_CATALOG, DEFAULT_SCHEMA);
            if &*reference.catalog != DEFAULT_CATALOG {
                continue;
            }
            let used = EntryName::new(&*reference.schema, &*reference.table);
            if used == *name && !matches!(named(name), Some(Named::Other)) {
                return Err(DataFusionError::Plan(format!("view '{name}' cannot be defined by itself")));
            }
            if used == *name {
                return Err(DataFusionError::Plan(format!(
                    "view '{name}' would take the place of the table that it is defined by"
                )));
            }
            if let Some(Named::View(definition)) = named(&used)
                && seen.insert(used)
            {
                open.push(parsed(state, &definition)?);
            }
        }
    }
    Ok(())
}

//! A session: statements in, rows out.
//!
//! The one entry point is text → [`crate::sql`] → plan → ours or DataFusion's. Statements that DataFusion would run in
//! a way that breaks a contract are taken over or refused here: tables in memory are counted in the budget, `UPDATE`
//! and `DELETE` on them are refused (the stock planner can turn `WHERE false` into every row), keys that nobody
//! enforces are refused (the optimizer trusts them), and settings obey the lock.

mod build;
mod column_names;
mod create_table;
mod fixed_settings;
mod memory_table;
mod ndjson_output;
mod prepared;
mod replacing;
mod result;
mod stored;
mod unstored;

pub(crate) use memory_table::{MemoryTable, Unchanging, Version};

use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DataFusionError, TableReference, plan_err};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{
    DdlStatement, LogicalPlan, SetVariable, Statement as PlanStatement, TableType, WriteOp,
};
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::Statement;
use datafusion::sql::planner::object_name_to_table_reference;
use datafusion::sql::sqlparser::ast::Statement as SqlAst;
use thermocline_medium::Location;

pub use build::add_caches;
pub use result::QueryResult;

use crate::catalog::{definitions, put_table};
use crate::database::{Database, MAX_THREADS};
use crate::error::{Error, Result};
use crate::explain_cache;
use crate::idle_work::Presence;
use crate::query::{Progress, QueryContext};
use crate::settings::ThermoclineConfig;
use crate::sql::{self, SqlStatement, StatementKind};
use crate::staged_copy::check_settings;
use crate::verify;
use prepared::Prepared;

/// One user's conversation with a [`Database`]. Cheap to make and to clone; clones share settings and prepared
/// statements.
#[derive(Clone)]
pub struct Session {
    database: Arc<Database>,
    context: SessionContext,
    /// DataFusion's settings as they were when the session was made.
    initial: Arc<ConfigOptions>,
    prepared: Arc<Prepared>,
    _presence: Arc<Presence>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("id", &self.context.session_id()).finish_non_exhaustive()
    }
}

impl Session {
    pub(crate) fn new(database: Arc<Database>) -> Self {
        let context = build::session_context(&database);
        let initial = Arc::new(context.state_ref().read().config_options().as_ref().clone());
        let presence = Arc::new(database.idle_work().presence());
        Self { database, context, initial, prepared: Arc::default(), _presence: presence }
    }

    /// The database of this session.
    pub fn database(&self) -> &Arc<Database> {
        &self.database
    }

    /// The DataFusion context underneath, with the caches in place.
    pub fn context(&self) -> &SessionContext {
        &self.context
    }

    /// Splits text into statements without running any.
    ///
    /// Statements may chain 3000 operators. Planning and running one of these needs threads with more stack than a runtime
    /// gives them: `tokio::runtime::Builder::thread_stack_size` with [`THREAD_STACK_BYTES`](crate::THREAD_STACK_BYTES).
    ///
    /// # Errors
    /// A syntax error, or a longer chain.
    pub fn parse(&self, text: &str) -> Result<Vec<SqlStatement>> {
        let state = self.context.state_ref();
        let (dialect, recursion_limit) = {
            let state = state.read();
            let options = state.config_options();
            (options.sql_parser.dialect, options.sql_parser.recursion_limit.get())
        };
        let Some(dialect) = datafusion::sql::sqlparser::dialect::dialect_from_str(dialect) else {
            return Err(Error::input(format!("unknown SQL dialect '{dialect}'")));
        };
        let mut statements = sql::parse(text, dialect.as_ref(), recursion_limit)?;
        let state = state.read();
        let is_scalar = |name: &str| state.scalar_functions().contains_key(name);
        let is_known = |name: &str| {
            is_scalar(name)
                || state.aggregate_functions().contains_key(name)
                || state.window_functions().contains_key(name)
        };
        for statement in &mut statements {
            sql::as_planned(statement, &is_known, &is_scalar)?;
        }
        Ok(statements)
    }

    /// Runs every statement of `text` in turn and returns the result of the last one.
    ///
    /// # Errors
    /// The first statement that fails ends the run.
    pub async fn sql(&self, text: &str) -> Result<QueryResult> {
        let mut last: Option<QueryResult> = None;
        for statement in self.parse(text)? {
            // A query may fail late, and what follows is not to run then.
            if let Some(previous) = last.take() {
                previous.drain().await?;
            }
            last = Some(self.execute(&statement).await?);
        }
        last.ok_or_else(|| Error::input("there is no statement to run"))
    }

    /// Runs one statement. A query's rows come as they are computed; anything else, `INSERT` and `COPY` too, is done when
    /// this returns.
    ///
    /// # Errors
    /// Planning errors; errors of the query itself come from the result.
    pub async fn execute(&self, statement: &SqlStatement) -> Result<QueryResult> {
        self.execute_watched(statement, &Arc::default()).await
    }

    /// As [`execute`](Self::execute), and tells `progress` how far the statement has come, also before this returns.
    ///
    /// # Errors
    /// As [`execute`](Self::execute).
    pub async fn execute_watched(&self, statement: &SqlStatement, progress: &Arc<Progress>) -> Result<QueryResult> {
        self.database.check_process()?;
        match &statement.kind {
            StatementKind::ExplainCache(inner) => {
                let plan = self.plan(inner).await?;
                let (_, physical) = self.physical(&plan, progress).await?;
                QueryResult::from_batch(
                    explain_cache::explain(&self.database, &self.config(), physical.as_ref()).await?,
                )
            }
            StatementKind::Plan(inner) => self.run(inner, progress).await,
        }
    }

    /// The columns that the rows of a query have, as files and tables are now. Nothing is run for them.
    ///
    /// # Errors
    /// Planning errors, and that the statement is no [query](SqlStatement::is_query).
    pub async fn columns(&self, statement: &SqlStatement) -> Result<SchemaRef> {
        match &statement.kind {
            // Made of its plan alone.
            StatementKind::ExplainCache(_) => Ok(self.execute(statement).await?.schema()),
            StatementKind::Plan(inner) if statement.is_query() => {
                self.database.check_process()?;
                let (_, physical) = self.physical(&self.plan(inner).await?, &Arc::default()).await?;
                Ok(physical.schema())
            }
            StatementKind::Plan(inner) => {
                Err(Error::input(format!("only queries have columns before they are run, found: {inner}")))
            }
        }
    }

    /// Makes Arrow data queryable under `name`, in the place of what was registered under it. The batches are counted in
    /// the budget.
    ///
    /// # Errors
    /// When the budget cannot hold them, the batches do not have `schema`, or the database's folder has a table of that
    /// name.
    pub fn register_batches(&self, name: &str, schema: SchemaRef, batches: Vec<RecordBatch>) -> Result<()> {
        let reference = TableReference::bare(name);
        self.check_unstored(&reference)?;
        let table = memory_table::from_batches(&self.database, name, schema, batches)?;
        let schema = self.context.state_ref().read().schema_for_ref(reference)?;
        put_table(schema.as_ref(), name, table, |_| Ok(true))?;
        Ok(())
    }

    /// Removes what was registered under `name`; `false` if there is nothing.
    ///
    /// # Errors
    /// When the catalog refuses, or the database's folder has a table of that name.
    pub fn deregister(&self, name: &str) -> Result<bool> {
        let reference = TableReference::bare(name);
        self.check_unstored(&reference)?;
        Ok(self.context.deregister_table(reference)?.is_some())
    }

    /// Refuses what would hide, or drop, a table of the database's folder.
    fn check_unstored(&self, name: &TableReference) -> Result<()> {
        match stored::place(self, name)? {
            Some(place) if place.tables.manifest().entries.contains_key(&place.name) => Err(Error::input(format!(
                "'{name}' is kept in the database's folder: DROP it first, or choose another name"
            ))),
            _ => Ok(()),
        }
    }

    /// The `thermocline.…` settings of this session.
    pub fn config(&self) -> ThermoclineConfig {
        self.context
            .state_ref()
            .read()
            .config_options()
            .extensions
            .get::<ThermoclineConfig>()
            .cloned()
            .unwrap_or_else(|| self.database.default_config())
    }

    async fn plan(&self, statement: &Statement) -> Result<LogicalPlan> {
        let state = self.context.state();
        let name = match statement {
            Statement::CreateExternalTable(table) => Some(&table.name),
            Statement::Statement(ast) => match ast.as_ref() {
                SqlAst::CreateTable(table) => Some(&table.name),
                _ => None,
            },
            _ => None,
        };
        let Some(name) = name else {
            return Ok(column_names::shortened(state.statement_to_plan(statement.clone()).await?)?);
        };
        // What has the name already is not looked up: its files may be gone, and it may be replaced.
        let plan = state.statement_to_plan(definitions::nameless(statement.clone())).await?;
        let normalizes = state.config_options().sql_parser.enable_ident_normalization;
        let name = object_name_to_table_reference(name.clone(), normalizes)?;
        let mut plan = column_names::shortened(plan)?;
        match &mut plan {
            LogicalPlan::Ddl(DdlStatement::CreateExternalTable(command)) => command.name = name,
            LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(command)) => command.name = name,
            _ => {}
        }
        Ok(plan)
    }

    /// DataFusion's part of the session, for a query in the memory that there is now.
    fn state(&self) -> SessionState {
        let mut state = self.context.state();
        build::fit_to_memory(state.config_mut().options_mut(), self.database.budget().limit_bytes());
        state
    }

    /// Optimises and plans a query under a fresh [`QueryContext`].
    async fn physical(
        &self,
        plan: &LogicalPlan,
        progress: &Arc<Progress>,
    ) -> Result<(SessionState, Arc<dyn ExecutionPlan>)> {
        let mut state = self.state();
        state.config_mut().set_extension(Arc::new(QueryContext::with_progress(Arc::clone(progress))));
        let physical = state.create_physical_plan(plan).await?;
        Ok((state, physical))
    }

    async fn run(&self, statement: &Statement, progress: &Arc<Progress>) -> Result<QueryResult> {
        // Older than what the plan reads, so that no change in between is missed.
        let before = self.database.column_tables().map(|tables| tables.manifest());
        let plan = self.with_checked_targets(self.plan(statement).await?)?;
        if let LogicalPlan::Ddl(ddl) = &plan
            && let Some(subject) = stored::subject(ddl)
            && let Some(place) = stored::place(self, subject)?
        {
            stored::run(self, statement, ddl, &place).await?;
            return Ok(QueryResult::done());
        }
        match plan {
            LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(command)) => {
                create_table::create(self, command, before, progress).await?;
                Ok(QueryResult::done())
            }
            LogicalPlan::Ddl(DdlStatement::CreateExternalTable(command)) => {
                unstored::create_external(self, &command).await?;
                Ok(QueryResult::done())
            }
            LogicalPlan::Ddl(DdlStatement::CreateView(ref command)) => {
                if !unstored::create_view(self, statement, command).await? {
                    self.context.execute_logical_plan(plan).await?;
                }
                Ok(QueryResult::done())
            }
            LogicalPlan::Ddl(DdlStatement::DropTable(command)) => {
                unstored::drop(self, &command.name, command.if_exists, TableType::Base).await?;
                Ok(QueryResult::done())
            }
            LogicalPlan::Ddl(DdlStatement::DropView(command)) => {
                unstored::drop(self, &command.name, command.if_exists, TableType::View).await?;
                Ok(QueryResult::done())
            }
            LogicalPlan::Ddl(DdlStatement::CreateIndex(command)) => Err(Error::input(format!(
                "CREATE INDEX is not supported on {}: there is no index type for this table",
                command.table
            ))),
            LogicalPlan::Ddl(_) => {
                self.context.execute_logical_plan(plan).await?;
                Ok(QueryResult::done())
            }
            LogicalPlan::Statement(PlanStatement::SetVariable(ref set)) => {
                self.check_setting(&set.variable)?;
                check_threads(&set.variable, &set.value)?;
                fixed_settings::check(&set.variable, &set.value)?;
                self.check_value(&set.variable, &set.value)?;
                self.context.execute_logical_plan(plan).await?;
                Ok(QueryResult::done())
            }
            LogicalPlan::Statement(PlanStatement::ResetVariable(ref reset)) => {
                self.check_setting(&reset.variable)?;
                let plan = self.restoring(&reset.variable).unwrap_or(plan);
                self.context.execute_logical_plan(plan).await?;
                Ok(QueryResult::done())
            }
            LogicalPlan::Statement(PlanStatement::TransactionStart(_) | PlanStatement::TransactionEnd(_)) => Err(
                Error::input("transactions of several statements are not supported: each statement is done as a whole"),
            ),
            LogicalPlan::Statement(command) => match self.prepared.run(self, statement, command).await? {
                Some(plan) => {
                    let plan = self.with_checked_targets(column_names::shortened(plan)?)?;
                    self.answer(plan, progress).await
                }
                None => Ok(QueryResult::done()),
            },
            plan => self.answer(plan, progress).await,
        }
    }

    /// Runs a plan that gives rows; to its end, if it changes something beside.
    async fn answer(&self, plan: LogicalPlan, progress: &Arc<Progress>) -> Result<QueryResult> {
        if let LogicalPlan::Dml(dml) = &plan
            && !matches!(dml.op, WriteOp::Insert(_))
        {
            let (what, table) = (dml.op.name(), &dml.table_name);
            return Err(Error::input(format!("{what} is not supported on {table}: only INSERT is")));
        }
        // The closure never fails.
        let changes = plan.exists(|node| Ok(matches!(node, LogicalPlan::Dml(_) | LogicalPlan::Copy(_))))?;
        let is_shown_only = matches!(plan, LogicalPlan::Explain(_));
        let result = self.query(plan, progress).await?;
        if !changes || is_shown_only {
            return Ok(result);
        }
        let schema = result.schema();
        QueryResult::from_batches(schema, result.collect().await?)
    }

    async fn query(&self, plan: LogicalPlan, progress: &Arc<Progress>) -> Result<QueryResult> {
        let config = self.config();
        if config.verify && verify::applies_to(&plan) {
            return verify::run(self, &plan).await;
        }
        let (state, physical) = self.physical(&plan, progress).await?;
        let stream = execute_stream(physical, state.task_ctx())?;
        Ok(QueryResult::new(stream, Arc::clone(progress)))
    }

    /// Runs `plan` with the session's settings changed by `change`, and collects its rows. Of files it sees those versions
    /// that `context` has seen.
    pub(crate) async fn collect_with(
        &self,
        plan: &LogicalPlan,
        context: &Arc<QueryContext>,
        change: impl FnOnce(&mut ThermoclineConfig),
    ) -> Result<(SchemaRef, Vec<RecordBatch>)> {
        let mut state = self.state();
        if let Some(config) = state.config_mut().options_mut().extensions.get_mut::<ThermoclineConfig>() {
            change(config);
        }
        state.config_mut().set_extension(Arc::clone(context));
        let physical = state.create_physical_plan(plan).await?;
        let schema = physical.schema();
        let batches = datafusion::physical_plan::collect(physical, state.task_ctx()).await?;
        Ok((schema, batches))
    }

    /// The plan, each of whose `COPY … TO` has a target that may be written, and is written there and nowhere else: what
    /// was judged is what DataFusion is told.
    fn with_checked_targets(&self, plan: LogicalPlan) -> Result<LogicalPlan> {
        let checked = plan.transform_down(|node| match node {
            LogicalPlan::Copy(mut copy) => {
                copy.output_url = self.checked_target(&copy.output_url)?;
                Ok(Transformed::yes(LogicalPlan::Copy(copy)))
            }
            other => Ok(Transformed::no(other)),
        })?;
        Ok(checked.data)
    }

    fn checked_target(&self, target: &str) -> Result<String, DataFusionError> {
        let failed = |error| DataFusionError::External(Box::new(error));
        let access = self.database.settings().access();
        match Location::parse(target).map_err(failed)? {
            Location::Local(pattern) => {
                let path = access.checked(pattern.path()).map_err(failed)?;
                let Some(text) = path.to_str().filter(|_| !pattern.is_glob() && !is_half_url(target)) else {
                    return plan_err!(
                        "COPY TO '{target}': expected a path or file:///path of one file or folder, without * ? [ ]"
                    );
                };
                // A folder is told by its slash, or by being there.
                Ok(file_url(text, target.ends_with('/') || path.is_dir()))
            }
            Location::Remote(_) => {
                access.check_url(target).map_err(failed)?;
                // Anything else could mean another place to whoever writes it.
                let is_plain = |letter: char| letter.is_ascii_graphic() && !"%\\\"<>^`{|}".contains(letter);
                if access.is_restricted() && !target.chars().all(is_plain) {
                    return plan_err!("COPY TO '{target}': expected a URL of plain ASCII letters, digits and signs");
                }
                Ok(target.to_owned())
            }
        }
    }

    /// What gives a setting of DataFusion's the value that it had when the session was made; nothing for one that had
    /// DataFusion's own, or none.
    fn restoring(&self, variable: &str) -> Option<LogicalPlan> {
        let value_in = |options: &ConfigOptions| {
            let mut entries = options.entries().into_iter();
            entries.find(|entry| entry.key.starts_with("datafusion.") && entry.key == variable)?.value
        };
        let value = value_in(&self.initial)?;
        if value_in(&ConfigOptions::default()).is_some_and(|theirs| theirs == value) {
            return None;
        }
        let variable = variable.to_owned();
        Some(LogicalPlan::Statement(PlanStatement::SetVariable(SetVariable { variable, value })))
    }

    /// Refuses a value of DataFusion's settings that its writers take, and cannot write with.
    fn check_value(&self, variable: &str, value: &str) -> Result<()> {
        // Ours take effect when they are set, and are judged there.
        if !variable.starts_with("datafusion.execution.") {
            return Ok(());
        }
        let mut options = self.context.state_ref().read().config_options().as_ref().clone();
        // What there is not, or cannot be read, is told where it is set.
        if options.set(variable, value).is_ok() {
            check_settings(&options)?;
        }
        Ok(())
    }

    fn check_setting(&self, variable: &str) -> Result<()> {
        self.database.settings().check_unlocked(variable)?;
        if variable.eq_ignore_ascii_case("datafusion.runtime.memory_limit") {
            return Err(Error::input("datafusion.runtime.memory_limit is not used: set thermocline.memory"));
        }
        if variable.to_ascii_lowercase().starts_with("datafusion.runtime.") {
            return Err(Error::input(format!("{variable} cannot be changed: it belongs to the whole database")));
        }
        Ok(())
    }
}

/// Refuses more threads than there can be. 0 stands for as many as there are processors.
fn check_threads(variable: &str, value: &str) -> Result<()> {
    let is_theirs = variable.eq_ignore_ascii_case("datafusion.execution.target_partitions");
    if !is_theirs || value.trim().parse().is_ok_and(|count: usize| count <= MAX_THREADS) {
        return Ok(());
    }
    Err(Error::input(format!(
        "threads = '{value}': expected a number from 1 to {MAX_THREADS}, or 0 for one a processor"
    )))
}

/// A path as a URL, in which no letter means anything else than itself.
fn file_url(path: &str, is_folder: bool) -> String {
    let mut url = "file://".to_owned();
    for byte in path.bytes() {
        match byte {
            b'/' | b'-' | b'.' | b'_' | b'~' => url.push(byte.into()),
            _ if byte.is_ascii_alphanumeric() => url.push(byte.into()),
            _ => url.push_str(&format!("%{byte:02X}")),
        }
    }
    if is_folder && !url.ends_with('/') {
        url.push('/');
    }
    url
}

/// `file:x`, which is a path to some and a URL to others.
fn is_half_url(target: &str) -> bool {
    let target = target.trim_start();
    target.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("file:")) && !target.starts_with("file://")
}

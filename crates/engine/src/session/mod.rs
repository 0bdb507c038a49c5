//! A session: statements in, rows out.
//!
//! The one entry point is text → [`crate::sql`] → plan → ours or DataFusion's. Statements that DataFusion would run in
//! a way that breaks a contract are taken over or refused here: tables in memory are counted in the budget, `UPDATE`
//! and `DELETE` on them are refused (the stock planner can turn `WHERE false` into every row), keys that nobody
//! enforces are refused (the optimizer trusts them), and settings obey the lock.

mod build;
mod column_names;
mod create_table;
mod memory_table;
mod ndjson_output;
mod result;
mod stored;

pub(crate) use memory_table::MemoryTable;

use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::{DataFusionError, TableReference};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{DdlStatement, LogicalPlan, Statement as PlanStatement, WriteOp};
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::Statement;
use thermocline_medium::Location;

pub use build::add_caches;
pub use result::QueryResult;

use crate::database::Database;
use crate::error::{Error, Result};
use crate::explain_cache;
use crate::idle_work::Presence;
use crate::query::{Progress, QueryContext};
use crate::settings::ThermoclineConfig;
use crate::sql::{self, SqlStatement, StatementKind};
use crate::verify;

/// One user's conversation with a [`Database`]. Cheap to make and to clone; clones share settings and prepared
/// statements.
#[derive(Clone)]
pub struct Session {
    database: Arc<Database>,
    context: SessionContext,
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
        let presence = Arc::new(database.idle_work().presence());
        Self { database, context, _presence: presence }
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
    /// # Errors
    /// A syntax error.
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
        Ok(sql::parse(text, dialect.as_ref(), recursion_limit)?)
    }

    /// Runs every statement of `text` in turn and returns the result of the last one.
    ///
    /// # Errors
    /// The first statement that fails ends the run.
    pub async fn sql(&self, text: &str) -> Result<QueryResult> {
        let mut last = None;
        for statement in self.parse(text)? {
            if let Some(previous) = last.replace(self.execute(&statement).await?) {
                QueryResult::drain(previous).await?;
            }
        }
        last.ok_or_else(|| Error::input("there is no statement to run"))
    }

    /// Runs one statement. A query's rows come as they are computed; anything else is done when this returns.
    ///
    /// # Errors
    /// Planning errors; errors of the query itself come from the result.
    pub async fn execute(&self, statement: &SqlStatement) -> Result<QueryResult> {
        self.database.check_process()?;
        match &statement.kind {
            StatementKind::ExplainCache(inner) => {
                let progress = Arc::new(Progress::default());
                let plan = self.plan(inner).await?;
                let (_, physical) = self.physical(&plan, &progress).await?;
                QueryResult::from_batch(
                    explain_cache::explain(&self.database, &self.config(), physical.as_ref()).await?,
                )
            }
            StatementKind::Plan(inner) => self.run(inner).await,
        }
    }

    /// Makes Arrow data queryable under `name`. The batches are counted in the budget.
    ///
    /// # Errors
    /// When the budget cannot hold them, the batches do not have `schema`, or the database's folder has a table of that
    /// name.
    pub fn register_batches(&self, name: &str, schema: SchemaRef, batches: Vec<RecordBatch>) -> Result<()> {
        let reference = TableReference::bare(name);
        self.check_unstored(&reference)?;
        let table = memory_table::from_batches(&self.database, name, schema, batches)?;
        self.context.deregister_table(reference.clone())?;
        self.context.register_table(reference, table)?;
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
        Ok(column_names::shortened(self.context.state().statement_to_plan(statement.clone()).await?)?)
    }

    /// Optimises and plans a query under a fresh [`QueryContext`].
    async fn physical(
        &self,
        plan: &LogicalPlan,
        progress: &Arc<Progress>,
    ) -> Result<(SessionState, Arc<dyn ExecutionPlan>)> {
        let mut state = self.context.state();
        state.config_mut().set_extension(Arc::new(QueryContext::with_progress(Arc::clone(progress))));
        let physical = state.create_physical_plan(plan).await?;
        Ok((state, physical))
    }

    async fn run(&self, statement: &Statement) -> Result<QueryResult> {
        let plan = self.plan(statement).await?;
        if let LogicalPlan::Ddl(ddl) = &plan
            && let Some(subject) = stored::subject(ddl)
            && let Some(place) = stored::place(self, subject)?
        {
            stored::run(self, statement, ddl, &place).await?;
            return Ok(QueryResult::done());
        }
        match plan {
            LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(command)) => {
                create_table::create(self, command).await?;
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
                self.context.execute_logical_plan(plan).await?;
                Ok(QueryResult::done())
            }
            LogicalPlan::Statement(PlanStatement::ResetVariable(ref reset)) => {
                self.check_setting(&reset.variable)?;
                self.context.execute_logical_plan(plan).await?;
                Ok(QueryResult::done())
            }
            LogicalPlan::Statement(PlanStatement::Execute(_)) => {
                let frame = self.context.execute_logical_plan(plan).await?;
                let (_, plan) = frame.into_parts();
                self.query(column_names::shortened(plan)?).await
            }
            LogicalPlan::Statement(_) => {
                self.context.execute_logical_plan(plan).await?;
                Ok(QueryResult::done())
            }
            LogicalPlan::Dml(ref dml) if !matches!(dml.op, WriteOp::Insert(_)) => {
                Err(Error::input(format!("{} is not supported on {}: only INSERT is", dml.op.name(), dml.table_name)))
            }
            LogicalPlan::Copy(ref copy) => {
                self.check_target(&copy.output_url)?;
                self.query(plan).await
            }
            plan => self.query(plan).await,
        }
    }

    async fn query(&self, plan: LogicalPlan) -> Result<QueryResult> {
        let config = self.config();
        if config.verify && verify::applies_to(&plan) {
            return verify::run(self, &plan).await;
        }
        let progress = Arc::new(Progress::default());
        let (state, physical) = self.physical(&plan, &progress).await?;
        let stream = execute_stream(physical, state.task_ctx())?;
        Ok(QueryResult::new(stream, progress))
    }

    /// Runs `plan` with the session's settings changed by `change`, and collects its rows.
    pub(crate) async fn collect_with(
        &self,
        plan: &LogicalPlan,
        change: impl FnOnce(&mut ThermoclineConfig),
    ) -> Result<(SchemaRef, Vec<RecordBatch>)> {
        let mut state = self.context.state();
        if let Some(config) = state.config_mut().options_mut().extensions.get_mut::<ThermoclineConfig>() {
            change(config);
        }
        state.config_mut().set_extension(Arc::new(QueryContext::default()));
        let physical = state.create_physical_plan(plan).await?;
        let schema = physical.schema();
        let batches = datafusion::physical_plan::collect(physical, state.task_ctx()).await?;
        Ok((schema, batches))
    }

    /// Whether `COPY … TO target` may write there.
    fn check_target(&self, target: &str) -> Result<()> {
        let access = self.database.settings().access();
        match Location::parse(target) {
            Ok(Location::Local(pattern)) => access.check(pattern.path()),
            Ok(Location::Remote(_)) => access.check_url(target),
            Err(error) => Err(error),
        }
        .map_err(|error| DataFusionError::External(Box::new(error)).into())
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

//! The catalog as SQL sees it: whatever catalogs there are, with files resolvable by path in every schema, raw tables
//! renewed for each statement, and the system schema `thermocline`.
//!
//! The wrappers forward everything; DataFusion's own `DynamicFileCatalog` does not (`DROP SCHEMA` fails through it), and
//! it hides why a path could not be read.

mod files;
mod system;

use std::any::Any;
use std::sync::{Arc, OnceLock, Weak};

use async_trait::async_trait;
use datafusion::catalog::{CatalogProvider, CatalogProviderList, SchemaProvider, TableProvider};
use datafusion::common::Result;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::TableType;
use parking_lot::RwLock;

pub(crate) use files::TableFactory;
pub(crate) use system::SYSTEM_SCHEMA;

use crate::database::Database;
use crate::raw_table::RawTable;
use crate::settings::ThermoclineConfig;

/// How a catalog reaches the settings of the session that resolves a name; filled once the session exists.
#[derive(Debug, Default, Clone)]
pub(crate) struct SessionHandle(Arc<OnceLock<Weak<RwLock<SessionState>>>>);

impl SessionHandle {
    /// Connects the handle to its session.
    pub(crate) fn connect(&self, state: Weak<RwLock<SessionState>>) {
        // A second call would connect the same session; the first stays.
        let _ = self.0.set(state);
    }

    /// The session's settings; the database's defaults while the session is being built.
    pub(crate) fn config(&self, database: &Database) -> ThermoclineConfig {
        self.0
            .get()
            .and_then(Weak::upgrade)
            .and_then(|state| state.read().config_options().extensions.get::<ThermoclineConfig>().cloned())
            .unwrap_or_else(|| database.default_config())
    }
}

/// What the wrappers share.
#[derive(Debug, Clone)]
struct Context {
    database: Arc<Database>,
    session: SessionHandle,
}

/// Wraps a list of catalogs.
#[derive(Debug)]
pub(crate) struct FileCatalogList {
    inner: Arc<dyn CatalogProviderList>,
    context: Context,
}

impl FileCatalogList {
    pub(crate) fn new(inner: Arc<dyn CatalogProviderList>, database: Arc<Database>, session: SessionHandle) -> Self {
        Self { inner, context: Context { database, session } }
    }
}

impl CatalogProviderList for FileCatalogList {
    fn register_catalog(&self, name: String, catalog: Arc<dyn CatalogProvider>) -> Option<Arc<dyn CatalogProvider>> {
        self.inner.register_catalog(name, catalog)
    }

    fn catalog_names(&self) -> Vec<String> {
        self.inner.catalog_names()
    }

    fn catalog(&self, name: &str) -> Option<Arc<dyn CatalogProvider>> {
        let inner = self.inner.catalog(name)?;
        Some(Arc::new(FileCatalog { inner, context: self.context.clone() }))
    }
}

#[derive(Debug)]
struct FileCatalog {
    inner: Arc<dyn CatalogProvider>,
    context: Context,
}

impl CatalogProvider for FileCatalog {
    fn schema_names(&self) -> Vec<String> {
        let mut names = self.inner.schema_names();
        if !names.iter().any(|name| name == SYSTEM_SCHEMA) {
            names.push(SYSTEM_SCHEMA.to_string());
        }
        names
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        match self.inner.schema(name) {
            Some(inner) => Some(Arc::new(FileSchema { inner, context: self.context.clone() })),
            None if name == SYSTEM_SCHEMA => {
                Some(Arc::new(system::SystemSchema::new(Arc::clone(&self.context.database))))
            }
            None => None,
        }
    }

    fn register_schema(&self, name: &str, schema: Arc<dyn SchemaProvider>) -> Result<Option<Arc<dyn SchemaProvider>>> {
        self.inner.register_schema(name, schema)
    }

    fn deregister_schema(&self, name: &str, cascade: bool) -> Result<Option<Arc<dyn SchemaProvider>>> {
        self.inner.deregister_schema(name, cascade)
    }
}

#[derive(Debug)]
struct FileSchema {
    inner: Arc<dyn SchemaProvider>,
    context: Context,
}

#[async_trait]
impl SchemaProvider for FileSchema {
    fn owner_name(&self) -> Option<&str> {
        self.inner.owner_name()
    }

    fn table_names(&self) -> Vec<String> {
        self.inner.table_names()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let config = self.context.session.config(&self.context.database);
        match self.inner.table(name).await? {
            Some(table) => match (table.as_ref() as &dyn Any).downcast_ref::<RawTable>() {
                // The files behind a registered table may have changed, and their schema with them.
                Some(raw) => Ok(Some(raw.renewed(&config).await?)),
                None => Ok(Some(table)),
            },
            None => files::table_for_path(&self.context.database, &config, name).await,
        }
    }

    async fn table_type(&self, name: &str) -> Result<Option<TableType>> {
        self.inner.table_type(name).await
    }

    fn register_table(&self, name: String, table: Arc<dyn TableProvider>) -> Result<Option<Arc<dyn TableProvider>>> {
        self.inner.register_table(name, table)
    }

    fn deregister_table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        self.inner.deregister_table(name)
    }

    fn table_exist(&self, name: &str) -> bool {
        self.inner.table_exist(name)
    }
}

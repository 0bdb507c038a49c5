//! The catalog as SQL sees it: whatever catalogs there are, with files resolvable by path in every schema, raw tables
//! renewed for each statement, the system schema `thermocline`, and `information_schema` (`listed`).
//!
//! The wrappers forward everything; DataFusion's own `DynamicFileCatalog` does not (`DROP SCHEMA` fails through it),
//! and it hides why a path could not be read.

pub(crate) mod definitions;
mod files;
mod listed;
mod page_tables;
mod shared_tables;
mod system;

use std::any::Any;
use std::sync::{Arc, OnceLock, Weak};

use async_trait::async_trait;
use datafusion::catalog::information_schema::INFORMATION_SCHEMA;
use datafusion::catalog::{CatalogProvider, CatalogProviderList, MemorySchemaProvider, SchemaProvider, TableProvider};
use datafusion::common::{Result, internal_err, plan_err};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::TableType;
use parking_lot::RwLock;

pub(crate) use files::{TableFactory, external_table};
pub(crate) use shared_tables::{Found, SharedTables, put_table, take_table};
use shared_tables::{note_named, note_unnamed};
pub(crate) use system::SYSTEM_SCHEMA;

use thermocline_column_store::{Entry, EntryName, Manifest};

use crate::column_table::{ColumnTable, ColumnTables};
use crate::database::{DEFAULT_CATALOG, DEFAULT_SCHEMA, Database};
use crate::error::Error;
use crate::raw_table::RawTable;
use crate::raw_table::listing::external;
use crate::settings::ThermoclineConfig;
use definitions::MemoryView;

/// How a catalog reaches the settings of the session that resolves a name; filled once the session exists.
#[derive(Debug, Default, Clone)]
pub(crate) struct SessionHandle(Arc<OnceLock<Weak<RwLock<SessionState>>>>);

impl SessionHandle {
    /// Connects the handle to its session.
    pub(crate) fn connect(&self, state: Weak<RwLock<SessionState>>) {
        // A second call would connect the same session; the first stays.
        let _ = self.0.set(state);
    }

    /// The session as it is now; `None` while it is being built.
    fn state(&self) -> Option<SessionState> {
        // Catalogs are asked under this lock too, where another reader must not wait for a writer that waits for the
        // first.
        self.0.get().and_then(Weak::upgrade).map(|state| state.read_recursive().clone())
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
    /// Whether there is to be an `information_schema`.
    has_information_schema: bool,
    /// Whether tables are listed for it, rather than named by a statement.
    is_listing: bool,
}

/// Wraps a list of catalogs.
#[derive(Debug, Clone)]
pub(crate) struct FileCatalogList {
    inner: Arc<dyn CatalogProviderList>,
    context: Context,
}

impl FileCatalogList {
    pub(crate) fn new(
        inner: Arc<dyn CatalogProviderList>,
        database: Arc<Database>,
        session: SessionHandle,
        has_information_schema: bool,
    ) -> Self {
        Self { inner, context: Context { database, session, has_information_schema, is_listing: false } }
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
        let is_stored = name == DEFAULT_CATALOG;
        Some(Arc::new(FileCatalog { inner, is_stored, catalogs: self.clone() }))
    }
}

#[derive(Debug)]
struct FileCatalog {
    inner: Arc<dyn CatalogProvider>,
    /// Whether the database's folder keeps the tables of this catalog.
    is_stored: bool,
    /// All catalogs, this one among them.
    catalogs: FileCatalogList,
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
        let context = &self.catalogs.context;
        match self.inner.schema(name) {
            Some(inner) => {
                let stored_name = self.is_stored.then(|| name.to_string());
                Some(Arc::new(FileSchema { inner, stored_name, context: context.clone() }))
            }
            None if name == SYSTEM_SCHEMA => {
                Some(Arc::new(system::SystemSchema::new(Arc::clone(&context.database), context.is_listing)))
            }
            None if name == INFORMATION_SCHEMA && context.has_information_schema => {
                Some(Arc::new(listed::information_schema(&self.catalogs)))
            }
            None => None,
        }
    }

    fn register_schema(&self, name: &str, schema: Arc<dyn SchemaProvider>) -> Result<Option<Arc<dyn SchemaProvider>>> {
        // What `CREATE SCHEMA` makes.
        let is_plain = (schema.as_ref() as &dyn Any).is::<MemorySchemaProvider>() && schema.table_names().is_empty();
        let schema: Arc<dyn SchemaProvider> = if is_plain { Arc::new(SharedTables::default()) } else { schema };
        if let Some(tables) = (schema.as_ref() as &dyn Any).downcast_ref::<SharedTables>() {
            tables.note_all(note_named);
        }
        let replaced = self.inner.register_schema(name, schema)?;
        if let Some(tables) = replaced.as_deref().and_then(|schema| (schema as &dyn Any).downcast_ref::<SharedTables>())
        {
            tables.note_all(note_unnamed);
        }
        Ok(replaced)
    }

    fn deregister_schema(&self, name: &str, cascade: bool) -> Result<Option<Arc<dyn SchemaProvider>>> {
        let gone = self.without_schema(name, cascade)?;
        if let Some(tables) = gone.as_deref().and_then(|schema| (schema as &dyn Any).downcast_ref::<SharedTables>()) {
            tables.note_all(note_unnamed);
        }
        Ok(gone)
    }
}

impl FileCatalog {
    fn without_schema(&self, name: &str, cascade: bool) -> Result<Option<Arc<dyn SchemaProvider>>> {
        if name == SYSTEM_SCHEMA || self.is_stored && name == DEFAULT_SCHEMA {
            return plan_err!("schema '{name}' cannot be dropped: it is there as long as the database is");
        }
        let database = &self.catalogs.context.database;
        if let Some(tables) = database.column_tables().filter(|_| self.is_stored) {
            let manifest = tables.manifest();
            let stored: Vec<&EntryName> = manifest.entries.keys().filter(|entry| entry.schema == name).collect();
            if let (Some(first), false) = (stored.first(), cascade) {
                return plan_err!("schema '{name}' has tables, such as {first}: DROP SCHEMA … CASCADE drops them too");
            }
            if let Err(error) = database.check_changeable(&EntryName::new(name, "*")) {
                // What has no tables is in memory alone.
                return if stored.is_empty() {
                    self.inner.deregister_schema(name, cascade)
                } else {
                    Err(error.into_datafusion())
                };
            }
            // First, so that no statement that is under way puts a table into it any more; one may have by now.
            let Some(gone) = self.inner.deregister_schema(name, cascade)? else { return Ok(None) };
            let drop_all = |manifest: &mut Manifest| {
                let entry_count = manifest.entries.len();
                manifest.entries.retain(|entry, _| entry.schema != name);
                match cascade || manifest.entries.len() == entry_count {
                    true => Ok(()),
                    false => Err(Error::input(format!("schema '{name}' has been given a table meanwhile"))),
                }
            };
            if let Err(error) = tables.commit(drop_all) {
                self.inner.register_schema(name, gone)?;
                return Err(error.into_datafusion());
            }
            return Ok(Some(gone));
        }
        self.inner.deregister_schema(name, cascade)
    }
}

#[derive(Debug)]
struct FileSchema {
    inner: Arc<dyn SchemaProvider>,
    /// The schema's name in the database's folder, if that keeps its tables.
    stored_name: Option<String>,
    context: Context,
}

impl FileSchema {
    /// What the database's folder has under `name`.
    fn stored(&self, name: &str) -> Option<(&Arc<ColumnTables>, EntryName, Arc<Manifest>)> {
        let tables = self.context.database.column_tables()?;
        let entry_name = EntryName::new(self.stored_name.as_deref()?, name);
        let manifest = tables.manifest();
        manifest.entries.contains_key(&entry_name).then_some((tables, entry_name, manifest))
    }

    /// Refuses what would hide a table of the database's folder.
    fn check_unstored(&self, name: &str) -> Result<()> {
        match self.stored(name) {
            Some(_) => plan_err!("'{name}' is kept in the database's folder: DROP it first, or choose another name"),
            None => Ok(()),
        }
    }

    /// What a definition makes now.
    async fn planned(
        &self,
        name: &str,
        definition: &str,
        config: &ThermoclineConfig,
    ) -> Result<Arc<dyn TableProvider>> {
        let Some(state) = self.context.session.state() else {
            return internal_err!("a table was looked up before its session was there");
        };
        let name = EntryName::new(self.stored_name.as_deref().unwrap_or_default(), name);
        definitions::planned(&self.context.database, &state, config, &name, definition).await
    }

    async fn stored_table(&self, name: &str, config: &ThermoclineConfig) -> Result<Option<Arc<dyn TableProvider>>> {
        let Some((tables, entry_name, manifest)) = self.stored(name) else { return Ok(None) };
        let database = &self.context.database;
        match manifest.entries.get(&entry_name) {
            Some(Entry::ExternalTable { definition } | Entry::View { definition }) => {
                self.planned(name, definition, config).await.map(Some)
            }
            _ => {
                let tables = Arc::clone(tables);
                let opening = tokio::task::spawn_blocking(move || tables.table(&entry_name));
                let opened = opening.await.map_err(external)?.map_err(Error::into_datafusion)?;
                Ok(opened.map(|open| Arc::new(ColumnTable::new(Arc::clone(database), open)) as Arc<dyn TableProvider>))
            }
        }
    }
}

#[async_trait]
impl SchemaProvider for FileSchema {
    fn owner_name(&self) -> Option<&str> {
        self.inner.owner_name()
    }

    fn table_names(&self) -> Vec<String> {
        let mut names = self.inner.table_names();
        if let (Some(tables), Some(schema)) = (self.context.database.column_tables(), &self.stored_name) {
            let manifest = tables.manifest();
            let stored = manifest.entries.keys().filter(|entry| entry.schema == *schema);
            names.extend(stored.map(|entry| entry.name.clone()));
            names.sort_unstable();
            names.dedup();
        }
        names
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let config = self.context.session.config(&self.context.database);
        if self.context.is_listing {
            return self.listed(name, &config).await;
        }
        match self.inner.table(name).await? {
            Some(table) => {
                let kept = table.as_ref() as &dyn Any;
                if let Some(raw) = kept.downcast_ref::<RawTable>() {
                    // The files behind a registered table may have changed, and their schema with them.
                    return Ok(Some(raw.renewed(&config).await?));
                }
                match kept.downcast_ref::<MemoryView>() {
                    Some(view) => self.planned(name, &view.definition, &config).await.map(Some),
                    None => Ok(Some(table)),
                }
            }
            None => match self.stored_table(name, &config).await? {
                Some(table) => Ok(Some(table)),
                None => files::table_for_path(&self.context.database, &config, name).await,
            },
        }
    }

    async fn table_type(&self, name: &str) -> Result<Option<TableType>> {
        if let Some(of_inner) = self.inner.table_type(name).await? {
            return Ok(Some(of_inner));
        }
        let Some((_, entry_name, manifest)) = self.stored(name) else { return Ok(None) };
        Ok(manifest.entries.get(&entry_name).map(|entry| match entry {
            Entry::View { .. } => TableType::View,
            _ => TableType::Base,
        }))
    }

    fn register_table(&self, name: String, table: Arc<dyn TableProvider>) -> Result<Option<Arc<dyn TableProvider>>> {
        self.check_unstored(&name)?;
        if (self.inner.as_ref() as &dyn Any).is::<SharedTables>() {
            return self.inner.register_table(name, table);
        }
        // Schemas of the host's keep no count.
        note_named(table.as_ref());
        let registered = self.inner.register_table(name, Arc::clone(&table));
        match &registered {
            Ok(Some(replaced)) => note_unnamed(replaced.as_ref()),
            Ok(None) => {}
            Err(_) => note_unnamed(table.as_ref()),
        }
        registered
    }

    /// Takes away what was registered. What the folder keeps is dropped by statements alone.
    fn deregister_table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if self.inner.table_exist(name) {
            return take_table(self.inner.as_ref(), name);
        }
        match self.stored(name) {
            Some(_) => plan_err!("'{name}' is kept in the database's folder: DROP it by a statement of a session"),
            None => Ok(None),
        }
    }

    fn table_exist(&self, name: &str) -> bool {
        self.inner.table_exist(name) || self.stored(name).is_some()
    }
}

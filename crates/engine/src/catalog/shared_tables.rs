//! The tables of a schema that are in memory, for all sessions of a database.
//!
//! As DataFusion's `MemorySchemaProvider`, except that a table takes another's place at once: between taking one away and
//! registering the other, sessions would find none, and two that replace one table would get in each other's way.

use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{SchemaProvider, TableProvider};
use datafusion::common::{Result, plan_err};
use parking_lot::RwLock;

use super::FileSchema;

/// Tables by name.
#[derive(Debug, Default)]
pub(crate) struct SharedTables {
    tables: RwLock<HashMap<String, Arc<dyn TableProvider>>>,
}

#[async_trait]
impl SchemaProvider for SharedTables {
    fn table_names(&self) -> Vec<String> {
        self.tables.read().keys().cloned().collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        Ok(self.tables.read().get(name).cloned())
    }

    fn register_table(&self, name: String, table: Arc<dyn TableProvider>) -> Result<Option<Arc<dyn TableProvider>>> {
        let mut tables = self.tables.write();
        if tables.contains_key(&name) {
            return plan_err!("table '{name}' already exists");
        }
        Ok(tables.insert(name, table))
    }

    fn deregister_table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        Ok(self.tables.write().remove(name))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.tables.read().contains_key(name)
    }
}

/// Puts a table into a schema, in the place of the one of that name if there is one, unless `may` says no to what is
/// there then: `false`, as that does. In a schema of the host's own, which may not be able to, the other is taken away
/// before.
///
/// # Errors
/// `may`'s; when the schema refuses, or the database's folder has a table of that name.
pub(crate) fn put_table(
    schema: &dyn SchemaProvider,
    name: &str,
    table: Arc<dyn TableProvider>,
    may: impl FnOnce(Option<&dyn TableProvider>) -> Result<bool>,
) -> Result<bool> {
    let tables = match (schema as &dyn Any).downcast_ref::<FileSchema>() {
        Some(wrapped) => {
            wrapped.check_unstored(name)?;
            wrapped.inner.as_ref()
        }
        None => schema,
    };
    if let Some(tables) = (tables as &dyn Any).downcast_ref::<SharedTables>() {
        let mut tables = tables.tables.write();
        let is_put = may(tables.get(name).map(AsRef::as_ref))?;
        if is_put {
            tables.insert(name.to_string(), table);
        }
        return Ok(is_put);
    }
    let other = if tables.table_exist(name) { tables.deregister_table(name)? } else { None };
    let may = may(other.as_deref());
    match (&may, other) {
        (Ok(true), _) => tables.register_table(name.to_string(), table)?,
        (_, Some(other)) => tables.register_table(name.to_string(), other)?,
        (_, None) => None,
    };
    may
}

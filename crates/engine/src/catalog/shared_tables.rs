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

/// Puts a table into a schema, in the place of the one of that name if there is one. In a schema of the host's own,
/// which may not be able to, the other is taken away before.
///
/// # Errors
/// When the schema refuses, or the database's folder has a table of that name.
pub(crate) fn put_table(schema: &dyn SchemaProvider, name: &str, table: Arc<dyn TableProvider>) -> Result<()> {
    let tables = match (schema as &dyn Any).downcast_ref::<FileSchema>() {
        Some(wrapped) => {
            wrapped.check_unstored(name)?;
            wrapped.inner.as_ref()
        }
        None => schema,
    };
    match (tables as &dyn Any).downcast_ref::<SharedTables>() {
        Some(tables) => {
            tables.tables.write().insert(name.to_string(), table);
        }
        None => {
            tables.deregister_table(name)?;
            tables.register_table(name.to_string(), table)?;
        }
    }
    Ok(())
}

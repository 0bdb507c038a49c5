//! The tables of a schema that are in memory, for all sessions of a database.
//!
//! As DataFusion's `MemorySchemaProvider`, except that a table takes another's place at once: between taking one away and
//! registering the other, sessions would find none, and two that replace one table would get in each other's way. And
//! tables in memory are told under how many names they are here.

use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{SchemaProvider, TableProvider};
use datafusion::common::{Result, plan_err};
use parking_lot::RwLock;

use super::FileSchema;
use crate::session::{MemoryTable, Unchanging};

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
        note_named(table.as_ref());
        Ok(tables.insert(name, table))
    }

    fn deregister_table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let mut tables = self.tables.write();
        let removed = tables.remove(name);
        if let Some(table) = &removed {
            note_unnamed(table.as_ref());
        }
        Ok(removed)
    }

    fn table_exist(&self, name: &str) -> bool {
        self.tables.read().contains_key(name)
    }
}

impl SharedTables {
    /// Its schema is gone, or there again: so are all tables.
    pub(super) fn note_all(&self, note: fn(&dyn TableProvider)) {
        self.tables.write().values().for_each(|table| note(table.as_ref()));
    }
}

/// A table in memory learns that a catalog has it under one more name.
pub(super) fn note_named(table: &dyn TableProvider) {
    if let Some(mut table) = MemoryTable::unchanging(table) {
        table.note_named();
    }
}

/// The same of one name less. Who is adding rows to a table without any learns it.
pub(super) fn note_unnamed(table: &dyn TableProvider) {
    if let Some(mut table) = MemoryTable::unchanging(table) {
        table.note_unnamed();
    }
}

/// What has a name that another table is to get. Its rows stay as they are until that is decided.
#[derive(Clone, Copy)]
pub(crate) struct Found<'t> {
    pub(crate) table: &'t dyn TableProvider,
    /// Of a table in memory.
    pub(crate) version: Option<u64>,
}

/// Puts the table `made` in the place of what was found, if it may be there.
fn decide(
    found: Option<&dyn TableProvider>,
    made: &dyn TableProvider,
    may: impl FnOnce(Option<Found<'_>>) -> Result<bool>,
    put: impl FnOnce() -> Result<()>,
) -> Result<bool> {
    // Whoever finds it may add rows. Never under the other's lock, whose place it may be in elsewhere.
    note_named(made);
    // A table that takes its own place has as many names as before.
    let is_other = found.is_none_or(|found| !std::ptr::addr_eq(found, made));
    let rows = found.filter(|_| is_other).and_then(MemoryTable::unchanging);
    let version = rows.as_ref().map(Unchanging::version);
    let is_put = may(found.map(|table| Found { table, version })).and_then(|may| {
        if may {
            put()?;
        }
        Ok(may)
    });
    // Under the lock that `may` has seen the rows under: none come between.
    match (&is_put, rows) {
        (Ok(true), Some(mut rows)) => rows.note_unnamed(),
        (Ok(true), None) if is_other => {}
        (_, rows) => {
            drop(rows);
            note_unnamed(made);
        }
    }
    is_put
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
    may: impl FnOnce(Option<Found<'_>>) -> Result<bool>,
) -> Result<bool> {
    let tables = match (schema as &dyn Any).downcast_ref::<FileSchema>() {
        Some(wrapped) => {
            wrapped.check_unstored(name)?;
            wrapped.inner.as_ref()
        }
        None => schema,
    };
    let made = Arc::clone(&table);
    if let Some(tables) = (tables as &dyn Any).downcast_ref::<SharedTables>() {
        let mut tables = tables.tables.write();
        let found = tables.get(name).cloned();
        let put = || {
            tables.insert(name.to_string(), table);
            Ok(())
        };
        return decide(found.as_deref(), made.as_ref(), may, put);
    }
    let other = if tables.table_exist(name) { tables.deregister_table(name)? } else { None };
    let put = || tables.register_table(name.to_string(), table).map(|_| ());
    let is_put = decide(other.as_deref(), made.as_ref(), may, put);
    if let (Ok(false) | Err(_), Some(other)) = (&is_put, other) {
        tables.register_table(name.to_string(), other)?;
    }
    is_put
}

/// Takes a table away from a schema.
///
/// # Errors
/// When the schema refuses.
pub(crate) fn take_table(schema: &dyn SchemaProvider, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
    let taken = schema.deregister_table(name)?;
    // Schemas of the host's keep no count.
    if let Some(table) = &taken
        && !(schema as &dyn Any).is::<SharedTables>()
    {
        note_unnamed(table.as_ref());
    }
    Ok(taken)
}

//! External tables and views, and dropping either and tables, where no folder keeps them.
//!
//! DataFusion looks up what it drops or replaces, which for files means to read them: a table whose file is gone could
//! not be got rid of.

use std::any::Any;
use std::sync::Arc;

use datafusion::catalog::SchemaProvider;
use datafusion::common::{ResolvedTableReference, TableReference};
use datafusion::logical_expr::{CreateExternalTable, CreateView, TableType};
use datafusion::sql::parser::Statement;
use futures::FutureExt;
use parking_lot::Mutex;
use thermocline_column_store::EntryName;

use super::replacing::{self, IfTaken, Kind};
use super::{Session, stored};
use crate::catalog::definitions::{self, MemoryView, Named};
use crate::catalog::{external_table, take_table};
use crate::database::DEFAULT_CATALOG;
use crate::error::{Error, Result};

/// Held while a view is checked and made.
static MAKING_VIEWS: Mutex<()> = Mutex::new(());

struct Place {
    catalog: String,
    schema_name: String,
    /// What keeps the tables, without what wraps it.
    schema: Arc<dyn SchemaProvider>,
    /// Within the schema.
    name: String,
}

/// Where what has this name is kept.
fn place(session: &Session, name: &TableReference) -> Result<Place> {
    let ResolvedTableReference { catalog, schema, table } = stored::resolved(session, name);
    let kept = session.database().catalogs().catalog(&catalog).and_then(|catalog| catalog.schema(&schema));
    let kept = kept.ok_or_else(|| Error::input(format!("schema '{catalog}.{schema}' does not exist")))?;
    let (catalog, schema_name) = (catalog.to_string(), schema.to_string());
    Ok(Place { catalog, schema_name, schema: kept, name: table.to_string() })
}

/// `CREATE EXTERNAL TABLE`.
pub(super) async fn create_external(session: &Session, command: &CreateExternalTable) -> Result<()> {
    if command.temporary {
        return Err(Error::input("temporary tables are not supported: a table lives as long as its database"));
    }
    let if_taken = IfTaken::of(command.if_not_exists, command.or_replace)?;
    let Place { schema, .. } = place(session, &command.name)?;
    if !if_taken.allows(&command.name, replacing::found(session, &command.name).await?, Kind::Elsewhere)? {
        return Ok(());
    }
    let table = external_table(session.database(), &session.config(), command).await?.without_footers();
    if_taken.put(&command.name, schema.as_ref(), Arc::new(table), |_| Ok(()))?;
    Ok(())
}

/// `CREATE VIEW`, whose definition is planned whenever the view is named: what it is made of may be replaced. `false` for a
/// view in a catalog of the host's, which is left to DataFusion.
pub(super) async fn create_view(session: &Session, statement: &Statement, command: &CreateView) -> Result<bool> {
    if command.temporary {
        return Err(Error::input("temporary views are not supported: a view lives as long as its database"));
    }
    let Place { catalog, schema_name, schema, name } = place(session, &command.name)?;
    if catalog != DEFAULT_CATALOG {
        return Ok(false);
    }
    let (state, entry) = (session.context().state(), EntryName::new(schema_name, name.as_str()));
    let definition = definitions::kept_text(&state, statement)?;
    let catalogs = session.database().catalogs();
    let named = |used: &EntryName| {
        // The catalog is in memory, and answers at once.
        let schema = catalogs.catalog(DEFAULT_CATALOG)?.schema(&used.schema)?;
        let table = schema.table(&used.name).now_or_never()?.ok()??;
        let view = (table.as_ref() as &dyn Any).downcast_ref::<MemoryView>();
        Some(view.map_or(Named::Other, |view| Named::View(view.definition.clone())))
    };
    definitions::check_acyclic(&state, &named, &entry, statement)?;
    let made = definitions::planned(session.database(), &state, &session.config(), &entry, &definition).await?;
    // What is checked of other views stays true until this one is there.
    let _making = MAKING_VIEWS.lock();
    definitions::check_acyclic(&state, &named, &entry, statement)?;
    let view = Arc::new(MemoryView { definition, schema: made.schema() });
    IfTaken::of(false, command.or_replace)?.put(&command.name, schema.as_ref(), view, |_| Ok(()))?;
    Ok(true)
}

/// `DROP TABLE` and `DROP VIEW`.
pub(super) async fn drop(session: &Session, name: &TableReference, if_exists: bool, of: TableType) -> Result<()> {
    let (kind, is_view) = if of == TableType::View { ("view", true) } else { ("table", false) };
    let Place { schema, name: table, .. } = match place(session, name) {
        Err(_) if if_exists => return Ok(()),
        place => place?,
    };
    match schema.table_type(&table).await? {
        None if if_exists => Ok(()),
        None => Err(Error::input(format!("{kind} '{name}' does not exist"))),
        Some(found) if (found == TableType::View) != is_view => {
            let other = if is_view { "table" } else { "view" };
            Err(Error::input(format!("'{name}' is a {other}: use DROP {}", other.to_uppercase())))
        }
        Some(_) => {
            take_table(schema.as_ref(), &table)?;
            Ok(())
        }
    }
}

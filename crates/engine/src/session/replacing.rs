//! What becomes of what has the name of a table or view that is made: `IF NOT EXISTS` and `OR REPLACE`.
//!
//! `OR REPLACE` puts a table in the place of a table and a view in that of a view, as `DROP` tells the two apart: rows
//! do not go because a view was given their name. Nor do they for an external table.

use std::any::Any;
use std::fmt::Display;
use std::sync::Arc;

use datafusion::catalog::{SchemaProvider, TableProvider};
use datafusion::common::TableReference;
use datafusion::logical_expr::TableType;
use thermocline_column_store::{Entry, EntryName};

use super::{MemoryTable, Session, stored};
use crate::catalog::{Found, put_table};
use crate::database::DEFAULT_CATALOG;
use crate::error::{Error, Result};

/// What a statement does where the name is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IfTaken {
    /// It fails.
    Fail,
    /// It leaves what is there: `IF NOT EXISTS`.
    Keep,
    /// `OR REPLACE`.
    Replace,
}

/// What has a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A table whose rows are gone with it.
    Rows,
    /// A table over what is kept elsewhere.
    Elsewhere,
    View,
}

impl Kind {
    pub(super) fn of_entry(entry: &Entry) -> Self {
        match entry {
            Entry::View { .. } => Self::View,
            Entry::ExternalTable { .. } => Self::Elsewhere,
            _ => Self::Rows,
        }
    }

    /// Of a table in memory.
    pub(super) fn of_table(table: &dyn TableProvider) -> Self {
        match table.table_type() {
            TableType::View => Self::View,
            _ if (table as &dyn Any).is::<MemoryTable>() => Self::Rows,
            _ => Self::Elsewhere,
        }
    }
}

impl IfTaken {
    /// As a statement says it.
    ///
    /// # Errors
    /// It says both.
    pub(super) fn of(if_not_exists: bool, or_replace: bool) -> Result<Self> {
        match (if_not_exists, or_replace) {
            (true, true) => Err(Error::input("IF NOT EXISTS and OR REPLACE exclude each other")),
            (true, false) => Ok(Self::Keep),
            (false, true) => Ok(Self::Replace),
            (false, false) => Ok(Self::Fail),
        }
    }

    /// Whether `made` is to be put where `found` is.
    ///
    /// # Errors
    /// The name is taken, and not by what may be replaced.
    pub(super) fn allows(self, name: impl Display, found: Option<Kind>, made: Kind) -> Result<bool> {
        let Some(found) = found else { return Ok(true) };
        let (is, drop) = match (self, found, made) {
            (Self::Keep, _, _) => return Ok(false),
            (Self::Fail, _, _) => return Err(Error::input(format!("table '{name}' already exists"))),
            (Self::Replace, Kind::View, Kind::Rows | Kind::Elsewhere) => ("a view", "DROP VIEW"),
            (Self::Replace, Kind::Rows | Kind::Elsewhere, Kind::View) => ("a table", "DROP TABLE"),
            (Self::Replace, Kind::Rows, Kind::Elsewhere) => ("a table with rows of its own", "DROP TABLE"),
            (Self::Replace, _, _) => return Ok(true),
        };
        Err(Error::input(format!("'{name}' is {is}, which OR REPLACE keeps: use {drop}, or choose another name")))
    }

    /// Puts a table or view into a schema in memory, if what is there then allows it and `check` finds nothing against
    /// that: `false` if it is kept.
    ///
    /// # Errors
    /// As [`allows`](Self::allows); what `check` finds; the schema takes no tables.
    pub(super) fn put(
        self,
        name: &TableReference,
        schema: &dyn SchemaProvider,
        table: Arc<dyn TableProvider>,
        check: impl FnOnce(Option<Found<'_>>) -> Result<()>,
    ) -> Result<bool> {
        let made = Kind::of_table(table.as_ref());
        let allows = |found: Option<Found<'_>>| {
            let allowed = self.allows(name, found.map(|found| Kind::of_table(found.table)), made);
            let checked = allowed.and_then(|is_put| if is_put { check(found).map(|()| true) } else { Ok(false) });
            checked.map_err(Error::into_datafusion)
        };
        Ok(put_table(schema, name.table(), table, allows)?)
    }
}

/// What has a name now, in memory or else in the database's folder. Reads no file.
pub(super) async fn found(session: &Session, name: &TableReference) -> Result<Option<Kind>> {
    if !session.context().table_exist(name.clone())? {
        return Ok(None);
    }
    let resolved = stored::resolved(session, name);
    let schema = session.database().catalogs().catalog(&resolved.catalog);
    if let Some(schema) = schema.and_then(|catalog| catalog.schema(&resolved.schema))
        && let Some(table) = schema.table(&resolved.table).await?
    {
        return Ok(Some(Kind::of_table(table.as_ref())));
    }
    let tables = session.database().column_tables().filter(|_| &*resolved.catalog == DEFAULT_CATALOG);
    let name = EntryName::new(&*resolved.schema, &*resolved.table);
    let stored = tables.and_then(|tables| tables.manifest().entries.get(&name).map(Kind::of_entry));
    // What is none of both is what the database tells of itself, which its schema keeps.
    Ok(Some(stored.unwrap_or(Kind::Elsewhere)))
}

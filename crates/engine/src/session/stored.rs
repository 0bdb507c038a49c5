//! Statements that change what a database's folder names: external tables, views, and dropping any of its entries.
//!
//! An external table is kept as the statement that makes it, its locations absolute; a view as its statement. Both are
//! planned anew whenever a statement names them (`catalog::definitions`), so that they follow what they are made of.

use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::catalog::information_schema::INFORMATION_SCHEMA;
use datafusion::common::{ResolvedTableReference, TableReference};
use datafusion::logical_expr::DdlStatement;
use datafusion::sql::parser::{CreateExternalTable, Statement};
use thermocline_column_store::{Entry, EntryName, Manifest};
use thermocline_medium::Location;

use super::Session;
use super::replacing::{self, IfTaken, Kind};
use crate::catalog::definitions::{self, Named};
use crate::catalog::{SYSTEM_SCHEMA, external_table, take_table};
use crate::column_table::ColumnTables;
use crate::database::DEFAULT_CATALOG;
use crate::error::{Error, Result};

/// An entry of a database's folder, be it there or not.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) tables: Arc<ColumnTables>,
    pub(super) name: EntryName,
}

/// The name in full, as the session's statements mean it.
pub(super) fn resolved(session: &Session, name: &TableReference) -> ResolvedTableReference {
    let state = session.context().state_ref();
    let state = state.read();
    let defaults = &state.config_options().catalog;
    name.clone().resolve(&defaults.default_catalog, &defaults.default_schema)
}

/// Where the folder has, or would have, what `name` stands for; `None` if the name is of another catalog or the
/// database has no folder.
///
/// # Errors
/// There is no such schema, or it is not for tables.
pub(super) fn place(session: &Session, name: &TableReference) -> Result<Option<Place>> {
    let Some(tables) = session.database().column_tables() else { return Ok(None) };
    let ResolvedTableReference { catalog, schema, table } = resolved(session, name);
    if &*catalog != DEFAULT_CATALOG {
        return Ok(None);
    }
    let has_schema = session.context().catalog(&catalog).is_some_and(|catalog| catalog.schema(&schema).is_some());
    if !has_schema {
        return Err(Error::input(format!("schema '{schema}' does not exist")));
    }
    if [SYSTEM_SCHEMA, INFORMATION_SCHEMA].contains(&&*schema) {
        return Err(Error::input(format!("schema '{schema}' takes no tables: the database tells of itself there")));
    }
    Ok(Some(Place { tables: Arc::clone(tables), name: EntryName::new(&*schema, &*table) }))
}

/// The table or view that a statement of this module is about.
pub(super) fn subject(ddl: &DdlStatement) -> Option<&TableReference> {
    Some(match ddl {
        DdlStatement::CreateExternalTable(command) => &command.name,
        DdlStatement::CreateView(command) => &command.name,
        DdlStatement::DropTable(command) => &command.name,
        DdlStatement::DropView(command) => &command.name,
        _ => return None,
    })
}

/// Takes what the host registered under this name out of the way; what the folder has stays.
fn unregister(session: &Session, name: &EntryName) -> Result<Option<Arc<dyn TableProvider>>> {
    let schema =
        session.database().catalogs().catalog(DEFAULT_CATALOG).and_then(|catalog| catalog.schema(&name.schema));
    Ok(match schema {
        Some(schema) => take_table(schema.as_ref(), &name.name)?,
        None => None,
    })
}

/// Runs a statement about `place`, which was planned as `ddl`.
pub(super) async fn run(session: &Session, statement: &Statement, ddl: &DdlStatement, place: &Place) -> Result<()> {
    match ddl {
        DdlStatement::CreateExternalTable(command) => {
            if command.temporary {
                return Err(Error::input("temporary tables are not supported: a table lives as long as its database"));
            }
            let if_taken = IfTaken::of(command.if_not_exists, command.or_replace)?;
            let Statement::CreateExternalTable(written) = statement else {
                return Err(Error::input("CREATE EXTERNAL TABLE cannot be part of another statement"));
            };
            if !place.is_to_have(session, Kind::Elsewhere, if_taken).await? {
                return Ok(());
            }
            // Made once, to see that it can be.
            external_table(session.database(), &session.config(), command).await?;
            let entry = Entry::ExternalTable { definition: definition_of(written)? };
            create(session, place, (entry, &|_| Ok(())), if_taken)
        }
        DdlStatement::CreateView(command) => {
            if command.temporary {
                return Err(Error::input("temporary views are not supported: a view lives as long as its database"));
            }
            let if_taken = IfTaken::of(false, command.or_replace)?;
            if !place.is_to_have(session, Kind::View, if_taken).await? {
                return Ok(());
            }
            let state = session.context().state();
            let definition = definitions::kept_text(&state, statement)?;
            let check = |manifest: &Manifest| {
                let named = |name: &EntryName| manifest.entries.get(name).map(Named::of_entry);
                definitions::check_acyclic(&state, &named, &place.name, statement)
            };
            check(&place.tables.manifest())?;
            // Made once, to see that it can be.
            definitions::planned(session.database(), &state, &session.config(), &place.name, &definition).await?;
            let entry = Entry::View { definition };
            create(session, place, (entry, &|manifest| Ok(check(manifest)?)), if_taken)
        }
        DdlStatement::DropTable(command) => drop_entry(session, place, command.if_exists, false),
        DdlStatement::DropView(command) => drop_entry(session, place, command.if_exists, true),
        _ => Err(Error::input(format!("{} is not supported in a database's folder", ddl.name()))),
    }
}

/// Finds what is against an entry in what there is when it is made.
pub(super) type Check<'a> = dyn Fn(&Manifest) -> Result<()> + Sync + 'a;

/// Makes an entry, if `check` finds nothing against it in what there is then.
fn create(session: &Session, place: &Place, (entry, check): (Entry, &Check<'_>), if_taken: IfTaken) -> Result<()> {
    session.database().check_changeable(&place.name)?;
    place.put(session, entry, if_taken, check)
}

impl Place {
    /// Whether what is here now lets something of a kind come here. Asked before that is made: a file that is gone says
    /// nothing to a statement that does nothing.
    async fn is_to_have(&self, session: &Session, kind: Kind, if_taken: IfTaken) -> Result<bool> {
        let name = TableReference::full(DEFAULT_CATALOG, self.name.schema.as_str(), self.name.name.as_str());
        if_taken.allows(&self.name, replacing::found(session, &name).await?, kind)
    }

    /// Puts an entry here, if what is here then allows it and `check` finds nothing against it.
    pub(super) fn put(&self, session: &Session, entry: Entry, if_taken: IfTaken, check: &Check<'_>) -> Result<()> {
        let is_put = self.tables.commit(|manifest| {
            let found = manifest.entries.get(&self.name).map(Kind::of_entry);
            if !if_taken.allows(&self.name, found, Kind::of_entry(&entry))? {
                return Ok(false);
            }
            check(manifest)?;
            check_schema(session, &self.name)?;
            manifest.entries.insert(self.name.clone(), entry);
            Ok(true)
        })?;
        if is_put {
            unregister(session, &self.name)?;
        }
        Ok(())
    }
}

/// The schema may have been dropped since a statement began.
fn check_schema(session: &Session, name: &EntryName) -> Result<()> {
    let catalog = session.database().catalogs().catalog(DEFAULT_CATALOG);
    match catalog.and_then(|catalog| catalog.schema(&name.schema)) {
        Some(_) => Ok(()),
        None => Err(Error::input(format!("schema '{}' does not exist", name.schema))),
    }
}

fn drop_entry(session: &Session, place: &Place, if_exists: bool, of_view: bool) -> Result<()> {
    let kind = if of_view { "view" } else { "table" };
    // What the host registered hides what the folder has, so it goes first.
    if !of_view && unregister(session, &place.name)?.is_some() {
        return Ok(());
    }
    if if_exists && !place.tables.manifest().entries.contains_key(&place.name) {
        return Ok(());
    }
    session.database().check_changeable(&place.name)?;
    place.tables.commit(|manifest| match manifest.entries.get(&place.name) {
        None if if_exists => Ok(()),
        None => Err(Error::input(format!("{kind} '{}' does not exist", place.name))),
        Some(entry) if matches!(entry, Entry::View { .. }) != of_view => {
            let other = if of_view { "table" } else { "view" };
            Err(Error::input(format!("'{}' is a {other}: use DROP {}", place.name, other.to_uppercase())))
        }
        Some(_) => {
            manifest.entries.remove(&place.name);
            Ok(())
        }
    })
}

/// The statement that makes this table from any working directory.
fn definition_of(written: &CreateExternalTable) -> Result<String> {
    let mut text = format!("CREATE EXTERNAL TABLE {}", written.name);
    if !written.columns.is_empty() {
        let columns: Vec<String> = written.columns.iter().map(ToString::to_string).collect();
        text.push_str(&format!(" ({})", columns.join(", ")));
    }
    let locations = written.locations.iter().map(|location| absolute(location).map(|location| quoted(&location)));
    let locations = locations.collect::<Result<Vec<_>>>()?.join(", ");
    text.push_str(&format!(" STORED AS {} LOCATION ({locations})", written.file_type));
    if !written.options.is_empty() {
        let options: Vec<String> =
            written.options.iter().map(|(key, value)| format!("{} {value}", quoted(key))).collect();
        text.push_str(&format!(" OPTIONS ({})", options.join(", ")));
    }
    Ok(text)
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// A local path from the root on; a URL as it is.
fn absolute(location: &str) -> Result<String> {
    let pattern = match Location::parse(location) {
        Ok(Location::Remote(_)) => return Ok(location.to_string()),
        Ok(Location::Local(pattern)) => pattern,
        Err(error) => return Err(Error::input(error.to_string())),
    };
    let path =
        std::path::absolute(pattern.path()).map_err(|error| Error::input(format!("location '{location}': {error}")))?;
    let mut text = path.display().to_string();
    // A folder is told by its slash.
    if location.ends_with('/') && !text.ends_with('/') {
        text.push('/');
    }
    Ok(text)
}

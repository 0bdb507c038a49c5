//! A manifest as text (`docs/formats/manifest.md`).
//!
//! **Invariant**: one manifest has one text, which `decode` reads as the same manifest; what it could not read so is
//! refused here.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

use arrow::datatypes::{DataType, Field};
use xxhash_rust::xxh3::xxh3_64;

use super::quoted::quote;
use super::{CatalogError, ColumnTable, Entry, EntryName, Manifest};
use crate::PhysicalType;

/// What a manifest starts with.
pub(super) const MAGIC: &str = "thermocline-manifest ";

/// The version of the format.
pub(super) const VERSION: u64 = 1;

/// More than a manifest should ever be, and little enough to be read at once: half a million segments. Each change
/// writes all of it.
pub(super) const LIMIT_BYTES: u64 = 64 << 20;

/// More than a type of a column page takes. Bounds how deep types can be nested in one another when one is read.
pub(super) const TYPE_LIMIT_BYTES: usize = 1024;

impl Manifest {
    /// The manifest as the bytes of a file.
    ///
    /// # Errors
    /// [`CatalogError::Type`], [`CatalogError::TooLarge`].
    pub fn to_bytes(&self) -> Result<Vec<u8>, CatalogError> {
        let mut body = format!("version {}\nnext-file {}\n", self.version, self.next_file);
        for (name, entry) in &self.entries {
            match entry {
                Entry::ColumnTable(table) => put_table(name, table, &mut body)?,
                Entry::ExternalTable { definition } => put_definition("external", name, definition, &mut body),
                Entry::View { definition } => put_definition("view", name, definition, &mut body),
            }
        }
        let mut bytes = format!("{MAGIC}{VERSION} {} {:016x}\n", body.len(), xxh3_64(body.as_bytes())).into_bytes();
        bytes.append(&mut body.into_bytes());
        require_size(bytes.len() as u64)?;
        Ok(bytes)
    }
}

/// Refuses what would be, or is, too long for a manifest.
pub(super) fn require_size(size_bytes: u64) -> Result<(), CatalogError> {
    if size_bytes > LIMIT_BYTES {
        return Err(CatalogError::TooLarge { size_bytes, limit_bytes: LIMIT_BYTES });
    }
    Ok(())
}

/// The line's kind and the entry's name, without the end of the line.
fn put_name(kind: &str, name: &EntryName, body: &mut String) {
    body.push_str(kind);
    put_text(&name.schema, body);
    put_text(&name.name, body);
}

fn put_text(text: &str, body: &mut String) {
    body.push(' ');
    quote(text, body);
}

fn put_definition(kind: &str, name: &EntryName, definition: &str, body: &mut String) {
    put_name(kind, name, body);
    put_text(definition, body);
    body.push('\n');
}

fn put_table(name: &EntryName, table: &ColumnTable, body: &mut String) -> Result<(), CatalogError> {
    put_name("table", name, body);
    body.push('\n');
    put_metadata(table.columns.metadata(), body);
    for field in table.columns.fields() {
        put_column(name, field, body)?;
    }
    for segment in &table.segments {
        body.push_str("segment");
        put_text(&segment.name, body);
        writeln!(body, " {} {} {:016x}", segment.size_bytes, segment.row_count, segment.footer_checksum)
            .expect("a String takes everything");
    }
    Ok(())
}

fn put_column(name: &EntryName, field: &Field, body: &mut String) -> Result<(), CatalogError> {
    let data_type = field.data_type();
    let text = data_type.to_string();
    if read_type(&text).as_ref() != Some(data_type) {
        let (entry, column) = (name.clone(), field.name().clone());
        return Err(CatalogError::Type { entry, column, data_type: data_type.clone() });
    }
    body.push_str("column");
    put_text(field.name(), body);
    put_text(&text, body);
    body.push_str(if field.is_nullable() { " nullable\n" } else { " not-null\n" });
    put_metadata(field.metadata(), body);
    Ok(())
}

/// The type that this text stands for, if column pages hold it and it is written as Arrow does.
pub(super) fn read_type(text: &str) -> Option<DataType> {
    if text.len() > TYPE_LIMIT_BYTES {
        return None;
    }
    let data_type: DataType = text.parse().ok()?;
    (PhysicalType::of(&data_type).is_some() && data_type.to_string() == text).then_some(data_type)
}

fn put_metadata(metadata: &HashMap<String, String>, body: &mut String) {
    for (key, value) in metadata.iter().collect::<BTreeMap<_, _>>() {
        body.push_str("metadata");
        put_text(key, body);
        put_text(value, body);
        body.push('\n');
    }
}

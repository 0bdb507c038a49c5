//! One JSON object a line. Every object names every column, NULL ones too.
//!
//! Names that are there twice get a suffix (`x`, `x_1`), as an object with a name twice is read differently by every
//! reader. Infinities and NaN, which JSON lacks, are `null`; dates and times beyond the calendar are numbers.

use std::collections::BTreeSet;

use thermocline_engine::arrow::datatypes::SchemaRef;
use thermocline_engine::arrow::error::ArrowError;
use thermocline_engine::arrow::record_batch::RecordBatch;

use super::RowWriter;
use super::json_value::{JsonValue, NotFinite, openings};

/// Writes lines of JSON.
pub(super) struct JsonWriter {
    /// What stands before each value: `{"a":`, then `,"b":` and so on.
    openings: Vec<Vec<u8>>,
}

impl JsonWriter {
    pub(super) fn new(schema: &SchemaRef) -> Self {
        let names = distinct(schema.fields().iter().map(|field| field.name().as_str()));
        Self { openings: openings(names.iter().map(String::as_str)) }
    }
}

impl RowWriter for JsonWriter {
    fn write(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<(), ArrowError> {
        let fields = batch.schema_ref().fields();
        let mut columns = Vec::with_capacity(fields.len());
        for (field, array) in fields.iter().zip(batch.columns()) {
            columns.push(JsonValue::new(field, array, NotFinite::Null)?);
        }
        for row in 0..batch.num_rows() {
            for (opening, column) in self.openings.iter().zip(&mut columns) {
                out.extend_from_slice(opening);
                column.push(row, out)?;
            }
            out.extend_from_slice(b"}\n");
        }
        Ok(())
    }

    fn finish(&mut self, _: &mut Vec<u8>) -> Result<(), ArrowError> {
        Ok(())
    }
}

/// The names, later ones with the first free suffix where they would be there twice.
fn distinct<'a>(names: impl Iterator<Item = &'a str> + Clone) -> Vec<String> {
    let originals: BTreeSet<&str> = names.clone().collect();
    let mut taken: BTreeSet<String> = BTreeSet::new();
    names
        .map(|name| {
            let mut candidate = name.to_owned();
            let mut suffix = 0;
            while taken.contains(&candidate) || (suffix > 0 && originals.contains(candidate.as_str())) {
                suffix += 1;
                candidate = format!("{name}_{suffix}");
            }
            taken.insert(candidate.clone());
            candidate
        })
        .collect()
}

//! One JSON object a line. Every object names every column, NULL ones too.
//!
//! Names that are there twice get a suffix (`x`, `x_1`), as an object with a name twice is read differently by every
//! reader. Infinities and NaN, which JSON lacks, are `null`.

use std::collections::BTreeSet;

use thermocline_engine::arrow::datatypes::SchemaRef;
use thermocline_engine::arrow::error::ArrowError;
use thermocline_engine::arrow::record_batch::RecordBatch;

use super::RowWriter;
use super::cells::{json_columns, push_json_string};

/// Writes lines of JSON.
pub(super) struct JsonWriter {
    /// What stands before each value: `{"a":`, then `,"b":` and so on.
    openings: Vec<Vec<u8>>,
}

impl JsonWriter {
    pub(super) fn new(schema: &SchemaRef) -> Self {
        let mut openings = Vec::with_capacity(schema.fields().len());
        let names = schema.fields().iter().map(|field| field.name().as_str());
        for (index, name) in distinct(names).iter().enumerate() {
            let mut opening = vec![if index == 0 { b'{' } else { b',' }];
            push_json_string(name, &mut opening);
            opening.push(b':');
            openings.push(opening);
        }
        Self { openings }
    }
}

impl RowWriter for JsonWriter {
    fn write(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<(), ArrowError> {
        let mut columns = json_columns(batch)?;
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

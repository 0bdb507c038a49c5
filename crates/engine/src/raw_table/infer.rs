//! The schema of a table over files: declared, remembered, or inferred from a sample.
//!
//! The sample is the first `sample_rows` records, drawn from up to [`SAMPLED_FILES`] files spread over the listing, so
//! that a column only later files have is not missed. What was inferred is remembered under the versions of those
//! files; a young version is not remembered.

use std::sync::Arc;

use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::{Result, plan_err};
use thermocline_raw::csv::{self, CsvFormat, CsvOptions};
use thermocline_raw::{BigIntegers, Head, Sample, ndjson, read_head};

use super::listing::{QueryFile, external};
use super::options::{FileFormat, TableOptions};
use super::schema_cache::Inferred;
use super::{TableDefinition, check_declared};
use crate::database::Database;
use crate::parquet_table::ParquetTable;
use crate::settings::ThermoclineConfig;

/// Files that a sample is drawn from at most: enough to see columns that come and go, few enough to open.
const SAMPLED_FILES: usize = 32;

/// Bytes of one file's sample at most, unless all rows are asked for.
const SAMPLE_MOST_BYTES: usize = 64 << 20;

/// Records looked at when only the average size of a record is wanted.
const SIZE_SAMPLE_ROWS: usize = 200;

/// The schema of the records of `files`.
///
/// # Errors
/// What inference reports; a declared type that raw files cannot hold.
pub(super) async fn schema_of(
    database: &Arc<Database>,
    definition: &TableDefinition,
    config: &ThermoclineConfig,
    format: FileFormat,
    files: &[Arc<QueryFile>],
) -> Result<Inferred> {
    if format == FileFormat::Parquet {
        let sources = files.iter().map(|file| file.source.clone().into()).collect();
        let declared = definition.declared_schema.clone();
        let table = ParquetTable::try_new(sources, declared.clone(), Arc::clone(database.footers())).await;
        return match (table, declared) {
            (Ok(table), _) => {
                let (schema, facts) = (table.table_schema(), Some(Arc::new(table.facts())));
                Ok(Inferred { schema, csv: None, record_bytes: 1, facts })
            }
            // What is wrong with the files is for queries that read them.
            (Err(_), Some(schema)) => Ok(Inferred { schema, csv: None, record_bytes: 1, facts: None }),
            (Err(error), None) => Err(error),
        };
    }
    let sampled = spread(files);
    let key = key(definition, config, format, &sampled);
    let Some(first) = sampled.first() else { return plan_err!("{}: no file", definition.locations.join(", ")) };
    if let Some(known) = database.schemas().get(&first.version, &key) {
        return Ok(known);
    }
    // Asked before reading: what was young when it was read may have been changed unseen.
    let now_ns = database.clock().wall_ns();
    let is_settled = !sampled.iter().any(|file| file.version.is_young(now_ns));
    let inferred = match &definition.declared_schema {
        Some(declared) => declared_schema(declared, definition, format, &sampled).await?,
        None => inferred_schema(database.threads(), &definition.options, config, format, &sampled).await?,
    };
    if is_settled {
        database.schemas().put(&first.version, &key, inferred.clone());
    }
    Ok(inferred)
}

/// Up to [`SAMPLED_FILES`] files, the first and the last among them.
fn spread(files: &[Arc<QueryFile>]) -> Vec<Arc<QueryFile>> {
    if files.len() <= SAMPLED_FILES {
        return files.to_vec();
    }
    (0..SAMPLED_FILES).map(|index| Arc::clone(&files[index * (files.len() - 1) / (SAMPLED_FILES - 1)])).collect()
}

fn key(
    definition: &TableDefinition,
    config: &ThermoclineConfig,
    format: FileFormat,
    sampled: &[Arc<QueryFile>],
) -> String {
    let mut key = definition.options.fingerprint(format, config);
    if let Some(declared) = &definition.declared_schema {
        key.push_str(&format!(" declared {declared:?}"));
    }
    for file in &sampled[1.min(sampled.len())..] {
        key.push_str(&format!("\n{}", file.version));
    }
    key
}

async fn head(file: &QueryFile, options: &TableOptions, row_count: usize) -> Result<Head> {
    let most_bytes = if row_count == usize::MAX { usize::MAX } else { SAMPLE_MOST_BYTES };
    let compression = file.compression(options);
    read_head(&file.source, file.version.size_bytes, compression, row_count, most_bytes).await.map_err(external)
}

async fn inferred_schema(
    threads: usize,
    options: &TableOptions,
    config: &ThermoclineConfig,
    format: FileFormat,
    files: &[Arc<QueryFile>],
) -> Result<Inferred> {
    let sample_rows = options.sample_rows(config);
    let rows_per_file = if sample_rows == usize::MAX { usize::MAX } else { sample_rows.div_ceil(files.len()).max(100) };
    let mut heads = Vec::with_capacity(files.len());
    for file in files {
        heads.push(head(file, options, rows_per_file).await?);
    }
    let record_bytes = record_bytes(&heads);
    let samples = files.iter().zip(&heads).map(|(file, head)| Sample {
        file: Arc::clone(file.path()),
        bytes: &head.bytes,
        is_whole: head.is_whole,
    });
    let on_error = options.on_error(config);
    let big_integers = if options.big_integers_as_text { BigIntegers::Utf8 } else { BigIntegers::Float64 };
    Ok(match format {
        FileFormat::Csv => {
            let options = csv::InferOptions { csv: csv_options(options), sample_rows, big_integers, on_error };
            let (schema, csv) = csv::infer(samples, &options).map_err(external)?;
            Inferred { schema, csv: Some(Arc::new(csv)), record_bytes, facts: None }
        }
        _ => {
            let options = ndjson::InferOptions { sample_rows, big_integers, on_error, threads };
            Inferred {
                schema: ndjson::infer(samples, &options).map_err(external)?,
                csv: None,
                record_bytes,
                facts: None,
            }
        }
    })
}

/// A declared schema needs no sample but for the dialect and the header of CSV, of the first file that has a record.
async fn declared_schema(
    declared: &SchemaRef,
    definition: &TableDefinition,
    format: FileFormat,
    files: &[Arc<QueryFile>],
) -> Result<Inferred> {
    check_declared(declared)?;
    let mut record_bytes = 1;
    let mut csv = None;
    for file in files {
        let head = head(file, &definition.options, SIZE_SAMPLE_ROWS).await?;
        if !head.bytes.iter().all(|byte| BLANK.contains(byte)) {
            record_bytes = self::record_bytes(std::slice::from_ref(&head));
            if format == FileFormat::Csv {
                csv = Some(declared_format(declared, &definition.options, file, &head)?);
            }
            break;
        }
    }
    if format == FileFormat::Csv && csv.is_none() {
        csv = Some(format_without_sample(declared, &definition.options)?);
    }
    Ok(Inferred { schema: Arc::clone(declared), csv: csv.map(Arc::new), record_bytes, facts: None })
}

/// Bytes of lines without a record, and of the mark that some programs write first.
const BLANK: &[u8] = b"\r\n\xef\xbb\xbf";

/// What options leave open is as it mostly is.
fn format_without_sample(declared: &Schema, options: &TableOptions) -> Result<CsvFormat> {
    let names = declared.fields().iter().map(|field| Arc::<str>::from(field.name().as_str()));
    let csv = csv_options(options);
    let most = CsvFormat::with_columns(names);
    let format = CsvFormat {
        delimiter: csv.delimiter.unwrap_or(most.delimiter),
        quote: csv.quote,
        escape: csv.escape,
        has_header: csv.has_header.unwrap_or(most.has_header),
        null_text: csv.null_text,
        column_names: most.column_names,
    };
    format.validate().map_err(external)?;
    Ok(format)
}

/// With a header the columns are found by name, without one by position.
fn declared_format(declared: &Schema, options: &TableOptions, file: &QueryFile, head: &Head) -> Result<CsvFormat> {
    let names = || declared.fields().iter().map(|field| Arc::from(field.name().as_str()));
    let sample = Sample { file: Arc::clone(file.path()), bytes: &head.bytes, is_whole: head.is_whole };
    let infer = csv::InferOptions {
        csv: csv_options(options),
        sample_rows: SIZE_SAMPLE_ROWS,
        on_error: thermocline_raw::OnError::Skip,
        ..csv::InferOptions::default()
    };
    let (_, mut format) = csv::infer([sample], &infer).map_err(external)?;
    if !format.has_header {
        if format.column_names.len() != declared.fields().len() {
            return plan_err!(
                "{}: the file has {} columns and no header, but {} were declared",
                file.path(),
                format.column_names.len(),
                declared.fields().len()
            );
        }
        format.column_names = names().collect();
    }
    if let Some(missing) = declared
        .fields()
        .iter()
        .find(|field| !format.column_names.iter().any(|name| name.as_ref() == field.name().as_str()))
    {
        return plan_err!(
            "{}: there is no column '{}'; the header has {}",
            file.path(),
            missing.name(),
            format.column_names.join(", ")
        );
    }
    Ok(format)
}

fn csv_options(options: &TableOptions) -> CsvOptions {
    let default = CsvOptions::default();
    CsvOptions {
        delimiter: options.delimiter,
        quote: options.quote.or(default.quote),
        escape: options.escape,
        has_header: options.has_header,
        null_text: options.null_text.as_deref().map_or(default.null_text, Arc::from),
    }
}

/// About the bytes of one record.
fn record_bytes(heads: &[Head]) -> u64 {
    let bytes: usize = heads.iter().map(|head| head.bytes.len()).sum();
    let lines: usize = heads.iter().map(|head| head.bytes.iter().filter(|byte| **byte == b'\n').count()).sum();
    (bytes / lines.max(1)).max(1) as u64
}

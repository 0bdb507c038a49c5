//! The schema of a table over files: declared, remembered, or inferred from a sample.
//!
//! The sample is the first `sample_rows` records, drawn from up to [`SAMPLED_FILES`] files spread over the listing, so
//! that a column only later files have is not missed; fewer where they are so long that [`SAMPLE_MOST_BYTES`] do not hold
//! them. Its bytes are reserved as they are read, and held until the schema is there. What was inferred is remembered under the versions of those
//! files; a young version is not remembered.

use std::error::Error;
use std::sync::Arc;

use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::{Result, plan_err};
use thermocline_budget::{Account, Purpose, Reservation};
use thermocline_medium::Compression;
use thermocline_raw::csv::{self, CsvFormat, CsvOptions};
use thermocline_raw::{BigIntegers, Head, HeadSize, Sample, ndjson, read_head};

use super::listing::{QueryFile, external};
use super::options::{FileFormat, TableOptions};
use super::schema_cache::Inferred;
use super::{TableDefinition, check_declared};
use crate::database::Database;
use crate::parquet_table::ParquetTable;
use crate::settings::ThermoclineConfig;

/// Files that a sample is drawn from at most: enough to see columns that come and go, few enough to open.
const SAMPLED_FILES: usize = 32;

/// Bytes of a sample at most, unless all rows are asked for or two records take more. Each file gives an equal share of
/// them: at least 2 MiB, by [`SAMPLED_FILES`].
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
    let account = database.budget().account("samples of raw files", Purpose::Query);
    let inferred = match &definition.declared_schema {
        Some(declared) => declared_schema(&account, declared, definition, format, &sampled).await?,
        None => inferred_schema((&account, database.threads()), &definition.options, config, format, &sampled).await?,
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
    let compression = sampled.first().map_or(Compression::None, |file| file.compression(&definition.options));
    let mut key = definition.options.fingerprint(format, config, compression);
    if let Some(declared) = &definition.declared_schema {
        key.push_str(&format!(" declared {declared:?}"));
    }
    // A file's name may say what its version does not.
    for (at, file) in sampled.iter().enumerate() {
        let version = if at == 0 { String::new() } else { file.version.to_string() };
        key.push_str(&format!("\n{version} {:?}", file.suffixes));
    }
    key
}

/// A head, and the memory that it takes.
struct HeldHead {
    head: Head,
    _reservation: Reservation,
}

async fn head(
    account: &Account,
    file: &QueryFile,
    options: &TableOptions,
    row_count: usize,
    file_count: usize,
) -> Result<HeldHead> {
    let most_bytes = if row_count == usize::MAX { usize::MAX } else { SAMPLE_MOST_BYTES / file_count.max(1) };
    let reservation = account.try_reserve(0).map_err(external)?;
    let hold = |bytes: u64| -> Result<(), Box<dyn Error + Send + Sync>> { Ok(reservation.resize(bytes)?) };
    let (size_bytes, compression) = (file.version.size_bytes, file.compression(options));
    let wanted = HeadSize { row_count, most_bytes };
    let head = read_head(&file.source, size_bytes, compression, wanted, &hold).await.map_err(external)?;
    reservation.resize(head.bytes.capacity() as u64).map_err(external)?;
    Ok(HeldHead { head, _reservation: reservation })
}

async fn inferred_schema(
    (account, threads): (&Account, usize),
    options: &TableOptions,
    config: &ThermoclineConfig,
    format: FileFormat,
    files: &[Arc<QueryFile>],
) -> Result<Inferred> {
    let sample_rows = options.sample_rows(config);
    let rows_per_file = if sample_rows == usize::MAX { usize::MAX } else { sample_rows.div_ceil(files.len()).max(100) };
    let mut heads = Vec::with_capacity(files.len());
    for file in files {
        heads.push(head(account, file, options, rows_per_file, files.len()).await?);
    }
    let record_bytes = record_bytes(&heads);
    let samples = files.iter().zip(&heads).map(|(file, HeldHead { head, .. })| Sample {
        file: Arc::clone(file.path()),
        bytes: &head.bytes,
        is_whole: head.is_whole,
    });
    let on_error = options.on_error(config);
    let big_integers = if options.big_integers_as_text { BigIntegers::Utf8 } else { BigIntegers::Float64 };
    Ok(match format {
        FileFormat::Csv => {
            let csv = csv_options(options, files);
            let options = csv::InferOptions { csv, sample_rows, big_integers, on_error };
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
    account: &Account,
    declared: &SchemaRef,
    definition: &TableDefinition,
    format: FileFormat,
    files: &[Arc<QueryFile>],
) -> Result<Inferred> {
    check_declared(declared)?;
    let mut record_bytes = 1;
    let mut csv = None;
    for file in files {
        let held = head(account, file, &definition.options, SIZE_SAMPLE_ROWS, 1).await?;
        if !held.head.bytes.iter().all(|byte| BLANK.contains(byte)) {
            record_bytes = self::record_bytes(std::slice::from_ref(&held));
            if format == FileFormat::Csv {
                csv = Some(declared_format(declared, &definition.options, file, &held.head)?);
            }
            break;
        }
    }
    if format == FileFormat::Csv && csv.is_none() {
        csv = Some(format_without_sample(declared, &definition.options, files)?);
    }
    Ok(Inferred { schema: Arc::clone(declared), csv: csv.map(Arc::new), record_bytes, facts: None })
}

/// Bytes of lines without a record, and of the mark that some programs write first.
const BLANK: &[u8] = b"\r\n\xef\xbb\xbf";

/// What options leave open is as it mostly is.
fn format_without_sample(declared: &Schema, options: &TableOptions, files: &[Arc<QueryFile>]) -> Result<CsvFormat> {
    let names = declared.fields().iter().map(|field| Arc::<str>::from(field.name().as_str()));
    let csv = csv_options(options, files);
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
fn declared_format(declared: &Schema, options: &TableOptions, file: &Arc<QueryFile>, head: &Head) -> Result<CsvFormat> {
    let names = || declared.fields().iter().map(|field| Arc::from(field.name().as_str()));
    let sample = Sample { file: Arc::clone(file.path()), bytes: &head.bytes, is_whole: head.is_whole };
    let infer = csv::InferOptions {
        csv: csv_options(options, std::slice::from_ref(file)),
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

/// What is said about CSV by options, and by the names of the files.
fn csv_options(options: &TableOptions, files: &[Arc<QueryFile>]) -> CsvOptions {
    let default = CsvOptions::default();
    let has_tabs = !files.is_empty() && files.iter().all(|file| file.suffixes.has_tabs);
    CsvOptions {
        delimiter: options.delimiter.or(has_tabs.then_some(b'\t')),
        quote: options.quote.or(default.quote),
        escape: options.escape,
        has_header: options.has_header,
        null_text: options.null_text.as_deref().map_or(default.null_text, Arc::from),
    }
}

/// About the bytes of one record.
fn record_bytes(heads: &[HeldHead]) -> u64 {
    let contents = || heads.iter().map(|held| held.head.bytes.as_slice());
    let bytes: usize = contents().map(<[u8]>::len).sum();
    let lines: usize = contents().map(|content| content.iter().filter(|byte| **byte == b'\n').count()).sum();
    (bytes / lines.max(1)).max(1) as u64
}

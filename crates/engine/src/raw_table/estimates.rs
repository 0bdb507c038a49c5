//! Guesses about a scan before it runs, for what `placement` decides then.
//!
//! Owns the guesses; the decision is `placement`'s.

use std::collections::HashSet;

use datafusion::arrow::datatypes::{DataType, Field};
use thermocline_medium::Compression;
use thermocline_operator_cache::{ColumnSpec, Expectation};
use thermocline_placement::operator_cache::admission_rule::AdmissionMode;
use thermocline_placement::operator_cache::further_columns::{FurtherInputs, further_column_count};
use thermocline_placement::operator_cache::widening::{Earlier, Room, ScanCosts, ScanShape, Widening};
use thermocline_predicate::FieldPath;
use thermocline_raw::Source;

use super::listing::QueryFile;
use super::options::FileFormat;
use super::scan_run::Scan;

/// Without a model of the data, a filter on a field is taken to keep this share of the rows, as DataFusion does.
const FIELD_SELECTIVITY: f64 = 0.2;

/// Elements taken to be in a list when nothing is known.
const TYPICAL_LIST_LENGTH: u64 = 4;

/// Share of a record's text before the last wanted field, when no list is wanted: fields lie anywhere.
const TYPICAL_WALKED_SHARE: f64 = 0.5;

/// Share of the rows that pass filters on so many fields.
pub(super) fn selectivity(field_count: usize) -> f64 {
    FIELD_SELECTIVITY.powi(i32::try_from(field_count).unwrap_or(i32::MAX))
}

/// About the rows of so many records: elements, where a list is unnested.
pub(super) fn row_count(scan: &Scan, record_count: u64) -> u64 {
    if scan.unnest.is_some() { record_count.saturating_mul(TYPICAL_LIST_LENGTH) } else { record_count }
}

/// When the cache should keep the columns of all rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WholeColumns {
    /// Instead of the query's own rows.
    AtOnce,
    /// After the query, when nothing runs.
    WhenIdle,
    Never,
}

/// When the cache should keep the columns of all rows, of a file that was asked before as `earlier` says, and what they
/// are expected to come to. `widths_bytes` are those of values of each column, as far as some were kept before.
pub(super) fn whole_columns(
    scan: &Scan,
    file: &QueryFile,
    columns: &[ColumnSpec],
    widths_bytes: &[Option<f32>],
    earlier: Earlier,
) -> (WholeColumns, Expectation) {
    if scan.predicate.is_all() {
        return (WholeColumns::AtOnce, Expectation::default());
    }
    let text_bytes = text_bytes(scan, file);
    let record_count = text_bytes / scan.record_bytes.max(1);
    let is_of_record = |path: &FieldPath| scan.unnest.as_ref().is_none_or(|unnest| !path.starts_with(unnest));
    let record_field_count = scan.predicate.fields().filter(|(path, _)| is_of_record(path)).count();
    let has_list = scan.unnest.is_some() || columns.iter().any(|column| value_count(&column.data_type) > 1);
    let widths = columns.iter().zip(widths_bytes);
    let width =
        |(column, known): (&ColumnSpec, &Option<f32>)| known.map_or(kept_bytes(&column.data_type) as f64, f64::from);
    let row_bytes: f64 = widths.map(width).sum();
    let shape = ScanShape {
        text_bytes,
        row_count: row_count(scan, record_count),
        values_per_row: columns.iter().map(|column| value_count(&column.data_type) as f64).sum(),
        row_bytes: row_bytes.ceil() as u64,
        selectivity: scan.estimated_selectivity(),
        record_selectivity: selectivity(record_field_count),
        walked_share: if has_list { 1.0 } else { TYPICAL_WALKED_SHARE },
    };
    let costs = if scan.format == FileFormat::Csv { ScanCosts::CSV } else { ScanCosts::NDJSON };
    let cache = scan.database.cache();
    let room = Room {
        free_bytes: scan.database.budget().cache_room_bytes(),
        limit_bytes: cache.limit_bytes(),
        divides_items: cache.divides_items(),
    };
    let inputs = shape.inputs(&costs, &room, earlier);
    let admission = cache.admission_rule();
    let rule = admission.widening();
    let expectation = Expectation {
        size_bytes: inputs.whole_columns_bytes,
        execute_ns: inputs.scan_ns.saturating_add(inputs.extra_ns),
        own_share: inputs.scan_ns as f64 / inputs.scan_ns.saturating_add(inputs.extra_ns).max(1) as f64,
    };
    let when = match rule.decide(&inputs) {
        Widening::WholeColumns { .. } => WholeColumns::AtOnce,
        // Bytes of a store may cost their reader money.
        Widening::OwnPredicate { .. }
            if admission.mode != AdmissionMode::Lazy
                && matches!(file.source, Source::Local(_))
                && rule.is_worth_idle_time(&inputs) =>
        {
            WholeColumns::WhenIdle
        }
        Widening::OwnPredicate { .. } => WholeColumns::Never,
    };
    (when, expectation)
}

/// Columns to keep of all records along with others that are added, although only `asked` ones were asked for so far: of
/// the same types, for who asks for keys and amounts may never ask for dates, and these are dear to parse.
pub(super) fn further_columns(scan: &Scan, file: &QueryFile, asked: &[ColumnSpec]) -> Vec<ColumnSpec> {
    // Of other formats, what nobody asked for is not even walked over.
    let is_lazy = scan.database.cache().admission_rule().mode == AdmissionMode::Lazy;
    if scan.format != FileFormat::Csv || is_lazy {
        return Vec::new();
    }
    let text_bytes = text_bytes(scan, file);
    let record_count = text_bytes / scan.record_bytes.max(1);
    let inputs = FurtherInputs {
        pass_ns: (text_bytes as f64 * ScanCosts::CSV.pass_ns_per_byte) as u64,
        column_ns: (record_count as f64 * ScanCosts::CSV.keep_ns_per_value) as u64,
        free_bytes: scan.database.budget().cache_room_bytes(),
    };
    let has_width = |field: &Field| field.data_type().is_primitive() || *field.data_type() == DataType::Boolean;
    let is_usual = |field: &Field| asked.iter().any(|column| column.data_type == *field.data_type());
    let fields = scan.table_schema.fields().iter().filter(|field| has_width(field) && is_usual(field));
    let columns = fields.map(|field| ColumnSpec {
        path: FieldPath::new([field.name().as_str()]),
        data_type: field.data_type().clone(),
    });
    let asked: HashSet<&FieldPath> = asked.iter().map(|column| &column.path).collect();
    let mut columns: Vec<ColumnSpec> = columns.filter(|column| !asked.contains(&column.path)).collect();
    let sizes_bytes = columns.iter().map(|column| record_count.saturating_mul(kept_bytes(&column.data_type)));
    let count = further_column_count(&inputs, sizes_bytes);
    columns.truncate(count);
    columns
}

/// About the bytes of a file's text.
fn text_bytes(scan: &Scan, file: &QueryFile) -> u64 {
    match file.compression(&scan.options) {
        Compression::None => file.version.size_bytes,
        // Text compresses about four to one.
        _ => file.version.size_bytes.saturating_mul(4),
    }
}

/// About what a value of a column takes when it is kept: most numbers have a narrow form (`thermocline_narrow`).
fn kept_bytes(data_type: &DataType) -> u64 {
    match data_type {
        DataType::Int64 | DataType::Float64 | DataType::Decimal128(..) => value_bytes(data_type) / 2,
        other => value_bytes(other),
    }
}

/// About what a value of a type takes in Arrow; text is taken to be short.
pub(crate) fn value_bytes(data_type: &DataType) -> u64 {
    match data_type {
        DataType::Boolean => 1,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => 24,
        DataType::List(element) => 4 + TYPICAL_LIST_LENGTH * value_bytes(element.data_type()),
        DataType::Struct(fields) => fields.iter().map(|field| value_bytes(field.data_type())).sum(),
        other => other.primitive_width().unwrap_or(8) as u64,
    }
}

/// About how many values without parts a value of a type has.
fn value_count(data_type: &DataType) -> u64 {
    match data_type {
        DataType::List(element) => TYPICAL_LIST_LENGTH * value_count(element.data_type()),
        DataType::Struct(fields) => fields.iter().map(|field| value_count(field.data_type())).sum(),
        _ => 1,
    }
}

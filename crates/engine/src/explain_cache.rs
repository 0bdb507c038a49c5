//! `EXPLAIN CACHE query`: for each scan of a raw file, column table or Parquet files, what the caches would do and why.

use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::physical_plan::{FileScanConfig, FileSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::ExecutionPlan;
use thermocline_budget::format_bytes;
use thermocline_buffer_pool::{BufferPool, PipelineStart, Tuner};
use thermocline_operator_cache::{Explanation, ItemSummary};
use thermocline_predicate::Conjunction;

use crate::column_table::ColumnScan;
use crate::column_table::scan_exec::ColumnScanExec;
use crate::database::Database;
use crate::fusion::PipelineExec;
use crate::parquet_table::{ParquetScan, ScanSource};
use crate::raw_table::scan_exec::RawScanExec;
use crate::settings::ThermoclineConfig;

/// One row of the answer.
struct Row {
    path: String,
    decision: &'static str,
    item: String,
    predicate: String,
    residual: String,
    columns: String,
    detail: String,
}

/// Asks the cache about every raw scan of `plan`, without changing anything.
pub(crate) async fn explain(
    database: &Database,
    config: &ThermoclineConfig,
    plan: &dyn ExecutionPlan,
) -> Result<RecordBatch> {
    let mut scans = Vec::new();
    let mut rows = Vec::new();
    collect(plan, &mut scans, &mut rows);
    for exec in scans {
        let scan = exec.scan();
        for file in scan.files.iter() {
            let pinned = if config.cache { Some(scan.pin(file).await?) } else { None };
            let (request, _) = scan.request(file, &exec.columns(), pinned.as_deref());
            let columns = request.columns.iter().map(|column| column.path.to_string()).collect::<Vec<_>>().join(", ");
            let path = file.path().to_string();
            let predicate = request.predicate.to_string();
            let Some(pinned) = pinned else {
                rows.push(Row {
                    path,
                    decision: "scan",
                    item: String::new(),
                    predicate,
                    residual: String::new(),
                    columns,
                    detail: "thermocline.cache is off".to_string(),
                });
                continue;
            };
            rows.push(row(
                path,
                predicate,
                columns,
                database.cache().explain(&request, &pinned),
                &request.retain_predicate,
            ));
        }
    }
    batch(&rows)
}

fn collect<'a>(plan: &'a dyn ExecutionPlan, scans: &mut Vec<&'a RawScanExec>, rows: &mut Vec<Row>) {
    if let Some(scan) = plan.downcast_ref::<RawScanExec>() {
        scans.push(scan);
    }
    if let Some(scan) = plan.downcast_ref::<ColumnScanExec>() {
        rows.push(row_of_table(scan.scan(), scan.columns()));
    }
    if let Some(pipelines) = plan.downcast_ref::<PipelineExec>() {
        rows.extend(pipelines.column_scans().map(|(scan, columns)| row_of_table(scan, columns)));
        rows.extend(pipelines.parquet_scans().map(|(scan, columns)| row_of_files(scan, columns, String::new())));
    }
    if let Some(exec) = plan.downcast_ref::<DataSourceExec>()
        && let Some(config) = exec.data_source().downcast_ref::<FileScanConfig>()
        && let Some(source) = config.file_source().downcast_ref::<ScanSource>()
        && let Some(scan) = source.scan()
    {
        let filter = source.filter().map(|filter| filter.to_string()).unwrap_or_default();
        rows.push(row_of_files(scan, &source.columns(), filter));
    }
    for child in plan.children() {
        collect(child.as_ref(), scans, rows);
    }
}

/// The row of a scan of a column table.
fn row_of_table(scan: &ColumnScan, columns: &[usize]) -> Row {
    let pipeline = scan.pipeline(columns, 1);
    let (decision, detail) = match scan.uses_pool {
        true => of_pages(&pipeline, &scan.table.pool, &scan.table.tuner),
        false => ("read", format!("thermocline.cache is off; {}", format_bytes(size_bytes(&pipeline)))),
    };
    Row {
        path: scan.table.name.to_string(),
        decision,
        item: String::new(),
        predicate: scan.predicate.to_string(),
        residual: String::new(),
        columns: columns
            .iter()
            .map(|&column| scan.table.schema.field(column).name().as_str())
            .collect::<Vec<_>>()
            .join(", "),
        detail,
    }
}

/// The row of a scan of Parquet files, whose filter is told by `EXPLAIN`.
fn row_of_files(scan: &ParquetScan, columns: &[usize], predicate: String) -> Row {
    let pipeline = scan.pipeline(columns, 1);
    let pool = scan.pool();
    let (decision, detail) = match scan.kept_file_count() {
        _ if !scan.uses_pool() => ("read", "thermocline.cache is off".to_string()),
        0 => ("read", "written too recently to tell one version from the next".to_string()),
        _ => of_pages(&pipeline, pool.pool(), pool.tuner()),
    };
    Row {
        path: scan.name(),
        decision,
        item: String::new(),
        predicate,
        residual: String::new(),
        columns: scan.column_names(columns).join(", "),
        detail,
    }
}

fn size_bytes(pipeline: &PipelineStart) -> u64 {
    pipeline.columns.iter().map(|(_, bytes)| bytes).sum()
}

/// What the buffer pool has of a scan's pages, and what that is expected to make of it.
fn of_pages(pipeline: &PipelineStart, pool: &BufferPool, tuner: &Tuner) -> (&'static str, String) {
    let size_bytes = size_bytes(pipeline);
    let held = pool.shares(&pipeline.columns);
    let held_bytes: f64 = pipeline.columns.iter().map(|(list, bytes)| held.of(*list) * *bytes as f64).sum();
    let decision = match held_bytes as u64 {
        held_bytes if held_bytes >= size_bytes => "hit",
        0 => "read",
        _ => "read rest",
    };
    let mut detail = format!("{} of {} in memory", format_bytes(held_bytes as u64), format_bytes(size_bytes));
    let last = tuner.last_ended(pipeline.signature);
    if let Some(predicted_s) = tuner.predicted_s(pipeline.signature, &pipeline.columns) {
        detail.push_str(&format!("; predicted to take {predicted_s:.3} s"));
    }
    if let Some(last) = last {
        let predicted = last.predicted_s.map_or("nothing".to_string(), |predicted_s| format!("{predicted_s:.3} s"));
        detail.push_str(&format!("; last time {:.3} s, predicted {predicted}", last.took_s));
    }
    (decision, detail)
}

fn row(path: String, predicate: String, columns: String, explanation: Explanation, retained: &Conjunction) -> Row {
    let item_text = |item: &ItemSummary| format!("item {}: {}", item.id.0, item.predicate);
    let held = |item: &ItemSummary| {
        format!("{} rows, {} bytes, used {} times", item.row_count, item.size_bytes, item.use_count)
    };
    let (decision, item, residual, detail) = match explanation {
        Explanation::Hit { item, residual, kind } => {
            ("hit", item_text(&item), residual.to_string(), format!("{kind:?} match; {}", held(&item)).to_lowercase())
        }
        Explanation::Extend { item, residual, new_bytes } => (
            "extend",
            item_text(&item),
            residual.to_string(),
            format!("the file grew: {new_bytes} bytes to scan; {}", held(&item)),
        ),
        Explanation::TopUp { item, residual, missing } => {
            let missing: Vec<String> = missing.iter().map(|column| column.path.to_string()).collect();
            (
                "top up",
                item_text(&item),
                residual.to_string(),
                format!("it lacks {}, which is scanned; {}", missing.join(", "), held(&item)),
            )
        }
        Explanation::Combine { parts, remainder } => {
            let items: Vec<String> = parts.iter().map(|part| item_text(&part.item)).collect();
            let residuals: Vec<String> = parts
                .iter()
                .map(|part| match parts.as_slice() {
                    [_] => part.residual.to_string(),
                    _ => format!("item {}: {}", part.item.id.0, part.residual),
                })
                .collect();
            let held: Vec<String> = parts.iter().map(|part| held(&part.item)).collect();
            let (decision, detail) = match remainder {
                None => ("combine", format!("{} items cover it together; {}", parts.len(), held.join("; "))),
                Some(rest) => ("scan rest", format!("what is not kept is scanned: {rest}; {}", held.join("; "))),
            };
            (decision, items.join("; "), residuals.join("; "), detail)
        }
        Explanation::Head { item, residual, rest_bytes } => (
            "head",
            item_text(&item),
            residual.to_string(),
            format!("the first {} bytes are kept, the other {rest_bytes} are scanned; {}", item.end_bytes, held(&item)),
        ),
        Explanation::Promote { item, residual, record_count } => (
            "promote",
            item_text(&item),
            residual.to_string(),
            format!(
                "reads the {record_count} records noted before, and would keep their rows; {} bytes, used {} times",
                item.size_bytes, item.use_count
            ),
        ),
        Explanation::InFlight { predicate, residual } => {
            ("join", String::new(), residual.to_string(), format!("a running scan of {predicate} computes it"))
        }
        Explanation::Wait { predicate, columns } => {
            let columns: Vec<String> = columns.iter().map(|column| column.path.to_string()).collect();
            let detail = format!("waits for a running scan of {predicate} that has {}", columns.join(", "));
            ("wait", String::new(), String::new(), format!("{detail}; what it lacks is scanned then"))
        }
        Explanation::Miss { reason, map } => {
            let by_map =
                map.map(|map| format!(" and find them by the positional map, item {}", map.0)).unwrap_or_default();
            let detail = format!("{reason}; the scan would keep the rows of {retained}{by_map}");
            ("miss", String::new(), String::new(), detail)
        }
    };
    Row { path, decision, item, predicate, residual, columns, detail }
}

fn batch(rows: &[Row]) -> Result<RecordBatch> {
    type Getter = fn(&Row) -> &str;
    let columns: [(&str, Getter); 7] = [
        ("path", |row| &row.path),
        ("decision", |row| row.decision),
        ("item", |row| &row.item),
        ("predicate", |row| &row.predicate),
        ("residual_filter", |row| &row.residual),
        ("columns", |row| &row.columns),
        ("detail", |row| &row.detail),
    ];
    let fields: Vec<Field> = columns.iter().map(|(name, _)| Field::new(*name, DataType::Utf8, false)).collect();
    let arrays =
        columns.iter().map(|(_, get)| Arc::new(StringArray::from_iter_values(rows.iter().map(get))) as _).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)
        .map_err(|error| DataFusionError::ArrowError(Box::new(error), None))
}

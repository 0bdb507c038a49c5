//! System tables of what a database's folder holds, of the columns of its tables and of Parquet files and what of them
//! is in memory, and of the pipelines that have read them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::FieldRef;
use datafusion::common::Result;
use thermocline_buffer_pool::{Decision, ListSnapshot, MemoryNeed};
use thermocline_column_store::{Entry, EntryName};
use thermocline_placement::page_cache::{ListKey, PagePolicyName};

use super::system::Rows;
use crate::column_table::{OpenTable, UnreadableTable};
use crate::database::Database;
use crate::page_pool::PagePool;
use crate::parquet_table::{FilePages, PageColumn};
use crate::raw_table::listing::external;

/// What the folder names. Rows and bytes are those of column tables.
pub(super) fn tables(database: &Database) -> Result<RecordBatch> {
    let manifest = database.column_tables().map(|tables| tables.manifest()).unwrap_or_default();
    let entries: Vec<(&EntryName, &Entry)> = manifest.entries.iter().collect();
    let segments = |entry: &Entry| match entry {
        Entry::ColumnTable(table) => table.segments.clone(),
        _ => Vec::new(),
    };
    let kind = |entry: &Entry| match entry {
        Entry::ColumnTable(_) => "column table",
        Entry::ExternalTable { .. } => "external table",
        _ => "view",
    };
    let definition = |entry: &Entry| match entry {
        Entry::ExternalTable { definition } | Entry::View { definition } => Some(definition.clone()),
        _ => None,
    };
    let of = |figure: fn(&thermocline_column_store::SegmentInfo) -> u64| {
        entries.iter().map(move |(_, entry)| segments(entry).iter().map(figure).sum())
    };
    Rows::new()
        .text("table_schema", entries.iter().map(|(name, _)| Some(&name.schema)))
        .text("table_name", entries.iter().map(|(name, _)| Some(&name.name)))
        .text("kind", entries.iter().map(|(_, entry)| Some(kind(entry))))
        .integer("row_count", of(|segment| segment.row_count))
        .integer("size_bytes", of(|segment| segment.size_bytes))
        .integer("segment_count", entries.iter().map(|(_, entry)| segments(entry).len() as u64))
        .text("definition", entries.iter().map(|(_, entry)| definition(entry)))
        .finish()
}

/// One column of something whose pages go through the pool, with what the pool and the tuner say of it.
struct Column {
    schema: Option<String>,
    table: String,
    name: String,
    data_type: String,
    size_bytes: u64,
    held: Option<ListSnapshot>,
    quota_bytes: Option<u64>,
    why: String,
}

/// The columns of all column tables, and those of the Parquet files that were read lately. Opens tables that are not
/// open; of those that cannot be read it says why.
pub(super) async fn columns(database: &Arc<Database>) -> Result<RecordBatch> {
    let (open, unreadable) = match database.column_tables() {
        Some(tables) => {
            let tables = Arc::clone(tables);
            tokio::task::spawn_blocking(move || tables.open_all()).await.map_err(external)?
        }
        None => Default::default(),
    };
    columns_of(database, &open, &unreadable)
}

/// The columns of these tables, and those of the Parquet files that were read lately.
pub(super) fn columns_of(
    database: &Database,
    open: &[Arc<OpenTable>],
    unreadable: &[UnreadableTable],
) -> Result<RecordBatch> {
    let lists = Lists::of(database.pages());
    let mut columns: Vec<Column> = open.iter().flat_map(|table| of_table(table, &lists)).collect();
    columns.extend(unreadable.iter().flat_map(of_unreadable));
    columns.extend(database.parquet_pages().files().iter().flat_map(|pages| of_file(pages, &lists)));
    let share = |part: u64, whole: u64| if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
    let held = |column: &Column| column.held.as_ref().map_or(0, |held| held.held_bytes);
    Rows::new()
        .text("table_schema", columns.iter().map(|column| column.schema.as_ref()))
        .text("table_name", columns.iter().map(|column| Some(&column.table)))
        .text("column_name", columns.iter().map(|column| Some(&column.name)))
        .text("data_type", columns.iter().map(|column| Some(&column.data_type)))
        .integer("size_bytes", columns.iter().map(|column| column.size_bytes))
        .integer("held_bytes", columns.iter().map(held))
        .number("share_held", columns.iter().map(|column| Some(share(held(column), column.size_bytes))))
        .number(
            "share_wanted",
            columns.iter().map(|column| column.quota_bytes.map(|bytes| share(bytes, column.size_bytes).min(1.0))),
        )
        .text("why", columns.iter().map(|column| Some(&column.why)))
        .integer("hit_count", columns.iter().map(|column| column.held.as_ref().map_or(0, |held| held.hit_count)))
        .integer("miss_count", columns.iter().map(|column| column.held.as_ref().map_or(0, |held| held.miss_count)))
        .integer("read_bytes", columns.iter().map(|column| column.held.as_ref().map_or(0, |held| held.read_bytes)))
        .finish()
}

/// What is known of the pool's lists.
struct Lists {
    held: HashMap<ListKey, ListSnapshot>,
    decision: Decision,
    quotas: HashMap<ListKey, u64>,
    standing_quotas: HashMap<ListKey, u64>,
    read: HashSet<ListKey>,
    policy: PagePolicyName,
}

impl Lists {
    fn of(pages: &PagePool) -> Self {
        let decision = pages.tuner().decision();
        Self {
            held: pages.pool().snapshot().lists.into_iter().map(|list| (list.list, list)).collect(),
            quotas: decision.quotas.iter().copied().collect(),
            standing_quotas: decision.standing_quotas.iter().copied().collect(),
            read: decision.read.iter().copied().collect(),
            decision,
            policy: pages.policy(),
        }
    }

    /// What the pool has of a list, how much it is to keep, if the policy says that, and why.
    fn state(&self, list: ListKey) -> (Option<ListSnapshot>, Option<u64>, String) {
        let has_quotas = self.policy == PagePolicyName::Proportional;
        let quota_bytes = has_quotas.then(|| self.quotas.get(&list).copied().unwrap_or_default());
        let why = match quota_bytes {
            Some(bytes) => {
                let standing_bytes = self.standing_quotas.get(&list).copied().unwrap_or_default();
                why(&self.decision, self.read.contains(&list), bytes, standing_bytes)
            }
            None => format!("the policy is {}", self.policy),
        };
        (self.held.get(&list).cloned(), quota_bytes, why)
    }
}

fn of_table(table: &OpenTable, lists: &Lists) -> Vec<Column> {
    let of_column = |(index, list): (usize, &ListKey)| {
        let field = table.schema.field(index);
        let (held, quota_bytes, why) = lists.state(*list);
        Column {
            schema: Some(table.name.schema.clone()),
            table: table.name.name.clone(),
            name: field.name().clone(),
            data_type: field.data_type().to_string(),
            size_bytes: table.column_bytes(index),
            held,
            quota_bytes,
            why,
        }
    };
    table.lists.iter().enumerate().map(of_column).collect()
}

/// Of columns that are known by name alone nothing is in memory.
fn of_unreadable(table: &UnreadableTable) -> Vec<Column> {
    let of_column = |field: &FieldRef| Column {
        schema: Some(table.name.schema.clone()),
        table: table.name.name.clone(),
        name: field.name().clone(),
        data_type: field.data_type().to_string(),
        size_bytes: 0,
        held: None,
        quota_bytes: None,
        why: format!("cannot be read: {}", table.error),
    };
    table.schema.fields().iter().map(of_column).collect()
}

/// A file is called by its path or URL, which is in no schema.
fn of_file(pages: &Arc<FilePages>, lists: &Lists) -> Vec<Column> {
    let of_column = |column: &PageColumn| {
        let (held, quota_bytes, why) = lists.state(column.list);
        Column {
            schema: None,
            table: pages.version().path.to_string(),
            name: column.name.to_string(),
            data_type: column.data_type.to_string(),
            size_bytes: column.size_bytes,
            held,
            quota_bytes,
            why,
        }
    };
    pages.columns().iter().map(of_column).collect()
}

/// Why so much of a column is wanted.
fn why(decision: &Decision, is_read: bool, quota_bytes: u64, standing_bytes: u64) -> String {
    let per_gigabyte = decision.marginal_benefit_s_per_byte * 1e9;
    let moved_bytes = quota_bytes.abs_diff(standing_bytes);
    // Less is rounding.
    let is_moved = is_read && moved_bytes > quota_bytes.max(standing_bytes) / 100;
    let moved_megabytes = moved_bytes as f64 / 1e6;
    match (is_read, quota_bytes) {
        _ if is_moved && quota_bytes > standing_bytes => {
            format!("the next queries use it: it borrows {moved_megabytes:.1} MB of columns used later")
        }
        _ if is_moved => format!("others are used first: it lends them {moved_megabytes:.1} MB until its next use"),
        (false, _) => "no query has read it lately".to_string(),
        (true, 0) if per_gigabyte > 0.0 => {
            format!("other columns save more: {per_gigabyte:.3} s of the last queries with the next gigabyte")
        }
        (true, 0) => "its queries take as long with it on storage".to_string(),
        (true, _) if per_gigabyte > 0.0 => {
            format!("memory is short: the next gigabyte would save {per_gigabyte:.3} s of the last queries")
        }
        (true, _) => "with more its queries would be no faster".to_string(),
    }
}

/// The pipelines that read pages: the last that ended, the oldest first, and those that run.
pub(super) fn pipelines(database: &Database) -> Result<RecordBatch> {
    let reports = database.pages().tuner().pipelines();
    Rows::new()
        .text("pipeline", reports.iter().map(|report| Some(report.label.as_ref())))
        .boolean("is_running", reports.iter().map(|report| report.is_running))
        .integer("size_bytes", reports.iter().map(|report| report.size_bytes))
        .integer("read_bytes", reports.iter().map(|report| report.read_bytes))
        .number("waited_s", reports.iter().map(|report| Some(report.waited_s)))
        .number("throughput_bytes_per_s", reports.iter().map(|report| report.throughput_bytes_per_s))
        .number("predicted_s", reports.iter().map(|report| report.predicted_s))
        .number("in_memory_s", reports.iter().map(|report| report.in_memory_s))
        .number("took_s", reports.iter().map(|report| Some(report.took_s)))
        .finish()
}

/// What other amounts of memory for pages would do for the pipelines that ran lately.
pub(super) fn memory_needs(database: &Database) -> Result<RecordBatch> {
    memory_needs_of(&database.pages().tuner().memory_needs().map_err(external)?)
}

pub(super) fn memory_needs_of(needs: &[MemoryNeed]) -> Result<RecordBatch> {
    Rows::new()
        .integer("memory_bytes", needs.iter().map(|need| need.memory_bytes))
        .number("slow_down", needs.iter().map(|need| Some(need.slow_down)))
        .number("predicted_s", needs.iter().map(|need| Some(need.predicted_s)))
        .boolean("is_current", needs.iter().map(|need| need.is_current))
        .finish()
}

//! Parquet tables against the same rows in memory, and what happens to files that differ, change or are damaged.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use datafusion::arrow::array::{
    Array, ArrayRef, DictionaryArray, Float64Array, Int32Array, Int64Array, ListArray, RecordBatch, StringArray,
    StructArray,
};
use datafusion::arrow::datatypes::{DataType, Field, Fields, Int32Type, Int64Type, Schema};
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::datasource::MemTable;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::basic::Compression;
use datafusion::parquet::file::properties::WriterProperties;
use datafusion::physical_plan::{collect, displayable, execute_stream};
use datafusion::prelude::{SessionConfig, SessionContext};
use object_store::memory::InMemory;
use object_store::{ObjectStore, ObjectStoreExt};
use tempfile::TempDir;
use thermocline_budget::{Budget, ReclaimableCache};
use thermocline_hardware::ManualClock;
use thermocline_medium::{PinnedFile, RemoteFile};

use super::*;

mod faulty_stores;
mod footers;
mod int96;
mod pages;
mod trust;

const YEAR_NS: i64 = 365 * 24 * 3_600_000_000_000;

/// A wall clock long after every file was written, so that no version is young.
fn late_clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::new(100 * YEAR_NS))
}

fn footers() -> Arc<FooterCache> {
    FooterCache::new(&Budget::new(1 << 30, None), late_clock())
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true))).unwrap()
}

fn int64(values: impl IntoIterator<Item = i64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(values))
}

fn utf8(values: &[&str]) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(values))
}

/// Row groups and pages are small, so that there is something to split and to prune.
fn write(path: &Path, batch: &RecordBatch) {
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(500))
        .set_data_page_row_count_limit(100)
        .set_write_batch_size(100)
        .set_compression(Compression::UNCOMPRESSED)
        .build();
    let mut writer = ArrowWriter::try_new(File::create(path).unwrap(), batch.schema(), Some(properties)).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
}

struct Folder {
    folder: TempDir,
}

impl Folder {
    fn new() -> Self {
        Self { folder: TempDir::new().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    fn write(&self, name: &str, batch: &RecordBatch) -> PathBuf {
        let path = self.path(name);
        write(&path, batch);
        path
    }
}

fn open(path: &Path) -> ParquetFile {
    ParquetFile::Local(Arc::new(PinnedFile::open(path).unwrap()))
}

async fn try_table(paths: &[PathBuf]) -> Result<ParquetTable> {
    ParquetTable::try_new(paths.iter().map(|path| open(path)).collect(), None, footers()).await
}

fn context(table: ParquetTable) -> SessionContext {
    let mut config = SessionConfig::new().with_target_partitions(4).with_batch_size(128);
    config.options_mut().optimizer.repartition_file_min_size = 1;
    let context = SessionContext::new_with_config(config);
    context.register_table("p", Arc::new(table)).unwrap();
    context
}

async fn try_rows(context: &SessionContext, sql: &str) -> Result<Vec<String>, String> {
    let frame = context.sql(sql).await.map_err(|error| error.to_string())?;
    let batches = frame.collect().await.map_err(|error| error.to_string())?;
    let table = pretty_format_batches(&batches).unwrap().to_string();
    let mut rows: Vec<String> = table
        .lines()
        .filter(|line| line.starts_with('|'))
        .skip(1)
        .map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect::<Vec<_>>().join("|"))
        .collect();
    rows.sort();
    Ok(rows)
}

async fn rows(context: &SessionContext, sql: &str) -> Vec<String> {
    try_rows(context, sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"))
}

/// xorshift64*, enough to be different everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) % bound
    }
}

fn random_batch(random: &mut Random, first_id: i64, row_count: usize) -> RecordBatch {
    let maybe = |random: &mut Random| random.below(10) != 0;
    let amounts: Float64Array =
        (0..row_count).map(|_| maybe(random).then(|| random.below(1000) as f64 / 8.0)).collect();
    let names: StringArray = (0..row_count).map(|_| maybe(random).then(|| format!("n{}", random.below(40)))).collect();
    let lists = (0..row_count)
        .map(|_| maybe(random).then(|| (0..random.below(4)).map(|value| Some(value as i64)).collect::<Vec<_>>()));
    let lists = ListArray::from_iter_primitive::<Int64Type, _, _>(lists.collect::<Vec<_>>());
    let tags: Int32Array = (0..row_count).map(|_| maybe(random).then(|| random.below(5) as i32)).collect();
    let nested = StructArray::new(
        Fields::from(vec![Field::new("tag", DataType::Int32, true)]),
        vec![Arc::new(tags) as ArrayRef],
        None,
    );
    batch(vec![
        ("id", int64(first_id..first_id + row_count as i64)),
        ("amount", Arc::new(amounts)),
        ("name", Arc::new(names)),
        ("list", Arc::new(lists)),
        ("nested", Arc::new(nested)),
    ])
}

#[tokio::test]
async fn it_answers_as_the_same_rows_in_memory_do() {
    let seed = 0x5EED_1234;
    let mut random = Random(seed);
    let folder = Folder::new();
    let batches: Vec<_> = [1200, 1, 3000, 700]
        .into_iter()
        .enumerate()
        .map(|(index, row_count)| random_batch(&mut random, index as i64 * 10_000, row_count))
        .collect();
    let paths: Vec<_> =
        batches.iter().enumerate().map(|(index, batch)| folder.write(&format!("{index}.parquet"), batch)).collect();
    let context = context(try_table(&paths).await.unwrap());
    let memory = MemTable::try_new(batches[0].schema(), vec![batches]).unwrap();
    context.register_table("m", Arc::new(memory)).unwrap();
    for sql in [
        "SELECT * FROM {t}",
        "SELECT count(*), sum(amount), min(name), max(id), count(name) FROM {t}",
        "SELECT id, name FROM {t} WHERE amount > 60 AND name <> 'n3' AND id % 3 = 1",
        "SELECT id FROM {t} WHERE id BETWEEN 20100 AND 20250 OR name IS NULL",
        "SELECT name, count(*), avg(amount) FROM {t} GROUP BY name HAVING count(*) > 2",
        "SELECT id, nested['tag'], list[1] FROM {t} WHERE nested['tag'] = 3",
        "SELECT id, unnest(list) FROM {t} WHERE id < 50",
        "SELECT id, amount FROM {t} WHERE amount IS NOT NULL ORDER BY amount DESC, id LIMIT 17",
        "SELECT a.id FROM {t} a JOIN {t} b ON a.id = b.id + 1 WHERE b.name = 'n7'",
        "SELECT count(*) FROM {t} WHERE id < 0",
        "SELECT name FROM {t} WHERE name LIKE 'n1%' AND id > 30000",
    ] {
        let expected = rows(&context, &sql.replace("{t}", "m")).await;
        assert_eq!(rows(&context, &sql.replace("{t}", "p")).await, expected, "{sql}, seed {seed:#x}");
    }
}

#[tokio::test]
async fn filters_move_into_the_scan_and_prune() {
    let folder = Folder::new();
    let names: Vec<String> = (0..5000).map(|id| format!("n{}", id / 100)).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let path = folder.write("a.parquet", &batch(vec![("id", int64(0..5000)), ("name", utf8(&names))]));
    let context = context(try_table(&[path]).await.unwrap());
    let plan = context.sql("SELECT name FROM p WHERE id >= 2510 AND id < 2530").await.unwrap();
    let plan = plan.create_physical_plan().await.unwrap();
    let shown = displayable(plan.as_ref()).indent(true).to_string();
    assert!(shown.contains("pruning_predicate=") && !shown.contains("FilterExec"), "{shown}");
    let batches = collect(Arc::clone(&plan), context.task_ctx()).await.unwrap();
    assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 20);
    let mut scan = plan;
    while let Some(child) = scan.children().first().map(|child| Arc::clone(child)) {
        scan = child;
    }
    let metrics = displayable_metrics(scan.as_ref());
    // Ten row groups of five pages each.
    assert!(metrics.contains("row_groups_pruned_statistics=10 total → 1 matched"), "{metrics}");
    assert!(metrics.contains("page_index_pages_pruned=5 total → 1 matched"), "{metrics}");
}

fn displayable_metrics(plan: &dyn ExecutionPlan) -> String {
    plan.metrics().unwrap().aggregate_by_name().to_string()
}

#[tokio::test]
async fn one_file_is_read_by_several_partitions() {
    let folder = Folder::new();
    let path = folder.write("a.parquet", &batch(vec![("id", int64(0..5000))]));
    let context = context(try_table(&[path]).await.unwrap());
    let plan = context.sql("SELECT id + 1 FROM p").await.unwrap().create_physical_plan().await.unwrap();
    let shown = displayable(plan.as_ref()).indent(true).to_string();
    assert!(shown.contains("4 groups"), "{shown}");
    assert_eq!(rows(&context, "SELECT sum(id) FROM p").await, ["12497500"]);
}

#[tokio::test]
async fn footers_answer_counts_and_bounds() {
    let folder = Folder::new();
    let values = [1.0, f64::NAN, 3.0];
    let first = batch(vec![("id", int64(3..6)), ("f", Arc::new(Float64Array::from(values.to_vec())))]);
    let second = batch(vec![("id", int64(1..3)), ("other", int64(8..10))]);
    let paths = [folder.write("a.parquet", &first), folder.write("b.parquet", &second)];
    let context = context(try_table(&paths).await.unwrap());
    for (sql, answer) in [
        ("SELECT count(*) FROM p", "5"),
        ("SELECT min(id), max(id), count(id) FROM p", "1|5|5"),
        ("SELECT count(other), max(other) FROM p", "2|9"),
    ] {
        let plan = context.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
        let shown = displayable(plan.as_ref()).indent(true).to_string();
        assert!(!shown.contains("DataSourceExec"), "{sql}\n{shown}");
        assert_eq!(rows(&context, sql).await, [answer], "{sql}");
    }
    // NaN is the largest double, but no bound of a row group or page knows it.
    for (sql, answer) in [
        ("SELECT max(f) FROM p", "NaN"),
        ("SELECT count(*) FROM p WHERE f > 5", "1"),
        ("SELECT count(*) FROM p WHERE f > 2.5 AND id > 0", "2"),
        ("SELECT f FROM p WHERE f IS NOT NULL ORDER BY f DESC LIMIT 1", "NaN"),
    ] {
        assert_eq!(rows(&context, sql).await, [answer], "{sql}");
    }
}

#[tokio::test]
async fn columns_that_a_file_lacks_are_null_there() {
    let folder = Folder::new();
    let nested = |fields: Vec<(&str, ArrayRef)>| -> ArrayRef {
        Arc::new(StructArray::from(
            fields
                .into_iter()
                .map(|(name, column)| (Arc::new(Field::new(name, column.data_type().clone(), true)), column))
                .collect::<Vec<_>>(),
        ))
    };
    let first =
        batch(vec![("a", int64([1])), ("b", utf8(&["x"])), ("s", nested(vec![("u", int64([5])), ("v", int64([6]))]))]);
    let second =
        batch(vec![("c", int64([7])), ("a", int64([2])), ("s", nested(vec![("w", utf8(&["q"])), ("u", int64([8]))]))]);
    let paths = [folder.write("a.parquet", &first), folder.write("b.parquet", &second)];
    let table = try_table(&paths).await.unwrap();
    let names: Vec<_> = table.schema().fields().iter().map(|field| field.name().clone()).collect();
    assert_eq!(names, ["a", "b", "s", "c"]);
    let context = context(table);
    assert_eq!(rows(&context, "SELECT a, b, c FROM p").await, ["1|x|", "2||7"]);
    assert_eq!(rows(&context, "SELECT a FROM p WHERE b IS NULL").await, ["2"]);
    assert_eq!(rows(&context, "SELECT a FROM p WHERE c > 6").await, ["2"]);
    assert_eq!(rows(&context, "SELECT a, s['u'], s['v'], s['w'] FROM p").await, ["1|5|6|", "2|8||q"]);
}

#[tokio::test]
async fn layouts_of_strings_go_together() {
    let folder = Folder::new();
    let dictionary: DictionaryArray<Int32Type> = ["x", "y", "x"].into_iter().collect();
    let large = datafusion::arrow::array::LargeStringArray::from_iter_values(["z"]);
    let paths = [
        folder.write("a.parquet", &batch(vec![("s", Arc::new(dictionary) as ArrayRef)])),
        folder.write("b.parquet", &batch(vec![("s", utf8(&["y"]))])),
        folder.write("c.parquet", &batch(vec![("s", Arc::new(large) as ArrayRef)])),
    ];
    let context = context(try_table(&paths).await.unwrap());
    assert_eq!(rows(&context, "SELECT s, count(*) FROM p GROUP BY s").await, ["x|2", "y|2", "z|1"]);
    assert_eq!(rows(&context, "SELECT count(*) FROM p WHERE s = 'y'").await, ["2"]);
}

#[tokio::test]
async fn a_column_of_two_types_is_an_error_that_names_both_files() {
    let folder = Folder::new();
    let paths = [
        folder.write("a.parquet", &batch(vec![("id", int64([1])), ("x", int64([1]))])),
        folder.write("b.parquet", &batch(vec![("x", utf8(&["1"]))])),
    ];
    let error = try_table(&paths).await.unwrap_err().to_string();
    for part in ["column 'x'", "Int64", "Utf8View", paths[0].to_str().unwrap(), paths[1].to_str().unwrap()] {
        assert!(error.contains(part), "{part}: {error}");
    }
}

#[tokio::test]
async fn declared_columns_are_cast_and_missing_ones_are_null() {
    let folder = Folder::new();
    let path = folder.write("a.parquet", &batch(vec![("id", int64([1, 2])), ("n", utf8(&["7", "8"]))]));
    let field = |name: &str, data_type| Field::new(name, data_type, true);
    let declared =
        |n| Arc::new(Schema::new(vec![field("n", n), field("id", DataType::Float64), field("late", DataType::Utf8)]));
    let table = |declared| ParquetTable::try_new(vec![open(&path)], Some(declared), footers());
    let context = context(table(declared(DataType::Int32)).await.unwrap());
    assert_eq!(rows(&context, "SELECT * FROM p").await, ["7|1.0|", "8|2.0|"]);
    assert_eq!(rows(&context, "SELECT n + 1, late FROM p WHERE id > 1.5 AND n = 8").await, ["9|"]);
    assert_eq!(rows(&context, "SELECT min(n), max(id), count(late) FROM p").await, ["7|2.0|0"]);
    let error = table(Arc::new(Schema::new(vec![field("id", DataType::Struct(Fields::empty()))]))).await.unwrap_err();
    let error = error.to_string();
    assert!(error.contains("column 'id' is Int64") && error.contains(path.to_str().unwrap()), "{error}");
}

#[tokio::test]
async fn a_file_replaced_by_renaming_keeps_answering_as_it_was() {
    let folder = Folder::new();
    let path = folder.write("a.parquet", &batch(vec![("id", int64(0..5000))]));
    let other = folder.write("b.parquet", &batch(vec![("id", int64(90_000..90_100))]));
    let context = context(try_table(std::slice::from_ref(&path)).await.unwrap());
    let plan = context.sql("SELECT id FROM p WHERE id >= 0").await.unwrap().create_physical_plan().await.unwrap();
    let mut stream = execute_stream(plan, context.task_ctx()).unwrap();
    let mut seen = stream.next().await.unwrap().unwrap().num_rows();
    fs::rename(&other, &path).unwrap();
    while let Some(batch) = stream.next().await {
        seen += batch.unwrap().num_rows();
    }
    assert_eq!(seen, 5000);
    assert_eq!(rows(&context, "SELECT max(id + 0) FROM p").await, ["4999"]);
    fs::remove_file(&path).unwrap();
    assert_eq!(rows(&context, "SELECT max(id + 0) FROM p").await, ["4999"]);
}

#[tokio::test]
async fn a_file_that_is_written_over_fails_the_query_and_is_named() {
    let folder = Folder::new();
    let path = folder.write("a.parquet", &batch(vec![("id", int64(0..5000))]));
    let of_equal_length = batch(vec![("id", int64(1..5001))]);
    for rewritten in [batch(vec![("id", int64(0..4000))]), of_equal_length] {
        let table = try_table(std::slice::from_ref(&path)).await.unwrap();
        let context = context(table);
        // The kernel stamps writes with the time of its last tick, up to 10 ms ago.
        std::thread::sleep(Duration::from_millis(25));
        write(&path, &rewritten);
        let frame = context.sql("SELECT sum(id) FROM p").await.unwrap();
        let error = crate::error::Error::from(frame.collect().await.unwrap_err());
        let text = error.to_string();
        assert!(text.starts_with(path.to_str().unwrap()) && text.contains("changed while it was read"), "{text}");
        assert_eq!(error.kind(), crate::error::ErrorKind::Retry);
        write(&path, &batch(vec![("id", int64(0..5000))]));
    }
}

#[tokio::test]
async fn what_is_not_parquet_is_an_error_that_names_the_file() {
    let folder = Folder::new();
    let whole = fs::read(folder.write("whole.parquet", &batch(vec![("id", int64(0..5000))]))).unwrap();
    let mut long_footer = whole.clone();
    let length_at = whole.len() - 8;
    long_footer[length_at..length_at + 4].copy_from_slice(&u32::MAX.to_le_bytes());
    let mut damaged_footer = whole.clone();
    for byte in &mut damaged_footer[length_at - 60..length_at - 20] {
        *byte ^= 0xFF;
    }
    let cases: [(&str, &[u8], &str); 6] = [
        ("empty", b"", "it has 0 bytes"),
        ("short", b"PAR1", "it has 4 bytes"),
        ("text", b"id,name\n1,some text that is not parquet at all\n", "expected \"PAR1\""),
        ("cut", &whole[..whole.len() / 2], "cut off"),
        ("long", &long_footer, "its footer claims 4294967295 bytes"),
        ("damaged", &damaged_footer, "damaged Parquet footer at byte"),
    ];
    for (name, bytes, reason) in cases {
        let path = folder.path(&format!("{name}.parquet"));
        fs::write(&path, bytes).unwrap();
        let error = try_table(std::slice::from_ref(&path)).await.map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(path.to_str().unwrap()) && error.contains(reason), "{name}: {error}");
    }
}

#[tokio::test]
async fn a_damaged_page_is_an_error_that_names_the_file() {
    let folder = Folder::new();
    let good = folder.write("good.parquet", &batch(vec![("id", int64(0..5000))]));
    let mut bytes = fs::read(&good).unwrap();
    // The first page's header, after the magic bytes.
    for byte in &mut bytes[4..24] {
        *byte = 0xFF;
    }
    let bad = folder.path("bad.parquet");
    fs::write(&bad, &bytes).unwrap();
    let context = context(try_table(&[good, bad.clone()]).await.unwrap());
    let frame = context.sql("SELECT sum(id) FROM p").await.unwrap();
    let error = crate::error::Error::from(frame.collect().await.unwrap_err());
    let text = error.to_string();
    assert!(text.starts_with(bad.to_str().unwrap()) && text.contains("damaged Parquet file"), "{text}");
    assert_eq!(error.kind(), crate::error::ErrorKind::Input);
}

#[tokio::test]
async fn a_file_is_read_without_its_page_index_if_that_is_damaged() {
    let folder = Folder::new();
    let path = folder.write("a.parquet", &batch(vec![("id", int64(0..5000)), ("n", int64(5000..10_000))]));
    let footer = footer::read(&open(&path)).await.unwrap();
    assert!(footer.column_index().is_some() && footer.offset_index().is_some());
    let chunk = footer.row_group(3).column(1);
    let whole = fs::read(&path).unwrap();
    for offset in [chunk.column_index_offset(), chunk.offset_index_offset()] {
        let mut bytes = whole.clone();
        let start = usize::try_from(offset.unwrap()).unwrap();
        bytes[start..start + 8].fill(0xFF);
        let damaged = folder.path("damaged.parquet");
        fs::write(&damaged, &bytes).unwrap();
        let footer = footer::read(&open(&damaged)).await.unwrap();
        assert!(footer.column_index().is_none() && footer.offset_index().is_none());
        let context = context(try_table(std::slice::from_ref(&damaged)).await.unwrap());
        assert_eq!(rows(&context, "SELECT sum(n) FROM p WHERE id < 100").await, ["504950"]);
        assert_eq!(rows(&context, "SELECT n FROM p WHERE id = 1702").await, ["6702"]);
    }
}

#[tokio::test]
async fn a_filter_that_fails_does_not_blame_the_file() {
    let folder = Folder::new();
    let path = folder.write("a.parquet", &batch(vec![("id", int64(0..10))]));
    let context = context(try_table(std::slice::from_ref(&path)).await.unwrap());
    let error = try_rows(&context, "SELECT id FROM p WHERE 10 / id > 1").await.unwrap_err();
    assert!(error.contains("DivideByZero") && !error.contains("damaged"), "{error}");
}

#[tokio::test]
async fn objects_of_a_store_are_read_like_files() {
    let folder = Folder::new();
    let bytes =
        fs::read(folder.write("a.parquet", &batch(vec![("id", int64(0..5000)), ("n", int64(5000..10_000))]))).unwrap();
    let store = Arc::new(InMemory::new());
    let key = object_store::path::Path::from("tables/a.parquet");
    store.put(&key, bytes.into()).await.unwrap();
    let file = RemoteFile::open(Arc::clone(&store) as Arc<dyn ObjectStore>, "memory://", key.clone()).await.unwrap();
    let files = || vec![ParquetFile::Remote(Arc::new(file.clone()))];
    let context = context(ParquetTable::try_new(files(), None, footers()).await.unwrap());
    assert_eq!(rows(&context, "SELECT sum(n) FROM p WHERE id < 100").await, ["504950"]);
    store.put(&key, vec![0; 100].into()).await.unwrap();
    let error = try_rows(&context, "SELECT sum(n) FROM p WHERE id < 100").await.unwrap_err();
    assert!(error.contains("tables/a.parquet: changed while it was read"), "{error}");
}

#[tokio::test]
async fn a_footer_is_read_once_per_version() {
    let folder = Folder::new();
    let path = folder.write("a.parquet", &batch(vec![("id", int64(0..100))]));
    let cache = footers();
    let file = open(&path);
    let all = futures::future::join_all((0..8).map(|_| cache.get(&file))).await;
    let first = Arc::clone(all[0].as_ref().unwrap());
    assert!(all.iter().all(|footer| Arc::ptr_eq(footer.as_ref().unwrap(), &first)));
    assert!(Arc::ptr_eq(&cache.get(&open(&path)).await.unwrap(), &first));
    write(&path, &batch(vec![("id", int64(0..7))]));
    let second = cache.get(&open(&path)).await.unwrap();
    assert_eq!(second.file_metadata().num_rows(), 7);
}

#[tokio::test]
async fn a_footer_of_a_young_version_is_read_again() {
    let folder = Folder::new();
    let path = folder.write("a.parquet", &batch(vec![("id", int64(0..100))]));
    let clock = late_clock();
    let cache =
        FooterCache::new(&Budget::new(1 << 30, None), Arc::clone(&clock) as Arc<dyn thermocline_hardware::Clock>);
    let thermocline_medium::Stamp::Local { ctime_ns, .. } = open(&path).version().stamp else { panic!("a local file") };
    clock.set_wall_ns(ctime_ns + 1_000_000);
    let first = cache.get(&open(&path)).await.unwrap();
    // What was read while young is not trusted later either.
    clock.set_wall_ns(ctime_ns + YEAR_NS);
    let second = cache.get(&open(&path)).await.unwrap();
    assert!(!Arc::ptr_eq(&first, &second));
    assert!(Arc::ptr_eq(&second, &cache.get(&open(&path)).await.unwrap()));
}

#[tokio::test]
async fn the_cache_keeps_to_the_budget_and_gives_back_the_least_recently_used() {
    let folder = Folder::new();
    let paths: Vec<_> =
        (0..4).map(|index| folder.write(&format!("{index}.parquet"), &batch(vec![("id", int64(0..100))]))).collect();
    let budget = Budget::new(1 << 30, None);
    let cache = FooterCache::new(&budget, late_clock());
    let mut kept = vec![];
    for path in &paths[..3] {
        kept.push(cache.get(&open(path)).await.unwrap());
    }
    let three_bytes = cache.held_bytes();
    assert_eq!(budget.cache_reserved_bytes(), three_bytes);
    assert!(Arc::ptr_eq(&cache.get(&open(&paths[0])).await.unwrap(), &kept[0]));
    assert_eq!(cache.release(1), three_bytes / 3);
    assert_eq!(budget.cache_reserved_bytes(), cache.held_bytes());
    assert!(Arc::ptr_eq(&cache.get(&open(&paths[0])).await.unwrap(), &kept[0]));
    assert!(!Arc::ptr_eq(&cache.get(&open(&paths[1])).await.unwrap(), &kept[1]));
    // No room for a fourth: an older one makes way.
    budget.set_cache_limit(Some(three_bytes));
    cache.get(&open(&paths[3])).await.unwrap();
    assert_eq!(cache.held_bytes(), three_bytes);
    budget.set_cache_limit(Some(0));
    cache.release(u64::MAX);
    let footer = cache.get(&open(&paths[3])).await.unwrap();
    assert_eq!((footer.file_metadata().num_rows(), cache.held_bytes()), (100, 0));
}

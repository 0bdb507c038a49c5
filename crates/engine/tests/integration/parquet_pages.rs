//! Parquet files through the buffer pool: read once, answered the same at any size of it, and never from another
//! version.

use std::fs::{self, File, OpenOptions};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use thermocline_engine::arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray, StructArray};
use thermocline_engine::arrow::datatypes::{DataType, Field};
use thermocline_engine::datafusion::parquet::arrow::ArrowWriter;
use thermocline_engine::datafusion::parquet::basic::Compression;
use thermocline_engine::datafusion::parquet::file::properties::WriterProperties;
use thermocline_engine::{Database, DatabaseOptions, ErrorKind, Session, StoreOptions};
use thermocline_store_server::{Fault, StoreServer};

use crate::harness::{Folder, MIB, Random, error, integer, long_mode, rows, settle, try_rows};

const ROW_COUNT: u64 = 200_000;

/// Of a page of the pool.
const BLOCK_BYTES: i64 = 256 << 10;

/// Rows `id` from `first` on, in order, beside a number and a text of no order, doubles with NULLs, and a struct. Two
/// row groups of some megabytes, whose chunks are several blocks of the pool's, in pages of a thousand rows that an
/// index finds.
fn parquet(first: u64, compression: Compression) -> Vec<u8> {
    let mut random = Random::new(first);
    let ids = || (first..first + ROW_COUNT).map(|id| id as i64);
    let numbers: Vec<i64> = ids().map(|_| random.below(1_000_000_000) as i64).collect();
    let fractions: Float64Array = ids().map(|id| (id % 5 != 0).then_some(id as f64 / 7.0)).collect();
    let texts: Vec<String> = numbers.iter().map(|number| format!("text {}", number % 50_000)).collect();
    let inner: ArrayRef = Arc::new(Int64Array::from_iter_values(ids().map(|id| id % 100)));
    let nested = StructArray::from(vec![(Arc::new(Field::new("part", DataType::Int64, false)), inner)]);
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(Int64Array::from_iter_values(ids()))),
        ("number", Arc::new(Int64Array::from(numbers))),
        ("fraction", Arc::new(fractions)),
        ("text", Arc::new(StringArray::from(texts))),
        ("nested", Arc::new(nested)),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(ROW_COUNT as usize / 2))
        .set_data_page_row_count_limit(1000)
        .set_write_batch_size(1000)
        .set_dictionary_enabled(false)
        .set_compression(compression)
        .build();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.into_inner().unwrap()
}

fn session_with(cache_memory_bytes: u64, stores: Option<StoreOptions>) -> Session {
    let options = DatabaseOptions {
        memory_bytes: Some(256 * MIB),
        cache_memory_bytes: Some(cache_memory_bytes),
        threads: Some(4),
        stores,
        ..DatabaseOptions::default()
    };
    Database::open(options).unwrap().session()
}

/// What the pool has read of all columns of Parquet files.
async fn read_bytes(session: &Session) -> i64 {
    integer(session, "SELECT coalesce(sum(read_bytes), 0) FROM thermocline.columns").await
}

fn sum_of_ids(first: u64) -> String {
    (first..first + ROW_COUNT).sum::<u64>().to_string()
}

fn server_with(path: &str, content: Vec<u8>) -> (StoreServer, Session) {
    let server = StoreServer::start().unwrap();
    server.put(path, content);
    let stores = StoreOptions::anonymous()
        .with_variable("AWS_ENDPOINT_URL", server.url())
        .with_variable("AWS_ACCESS_KEY_ID", "AKIATEST")
        .with_variable("AWS_SECRET_ACCESS_KEY", "secret");
    let session = session_with(64 * MIB, Some(stores));
    (server, session)
}

/// Requests for the bytes of an object since the last time.
fn read_count(server: &StoreServer) -> usize {
    server.take_requests().iter().filter(|request| request.contains("bytes=")).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_query_reads_nothing_of_the_file() {
    let folder = Folder::new();
    let path = folder.settled_file("t.parquet", parquet(0, Compression::SNAPPY));
    let session = session_with(64 * MIB, None);
    let file = path.display();
    let sql = format!("SELECT sum(id), sum(number) FROM '{file}' WHERE fraction IS NOT NULL");
    let explain = format!("EXPLAIN CACHE {sql}");
    let columns = "SELECT table_schema, table_name, column_name, data_type, held_bytes > 0, read_bytes > 0,
                          read_bytes = size_bytes, miss_count > 0, hit_count > 0
                   FROM thermocline.columns";
    let before = rows(&session, &explain).await.join("\n");
    assert!(before.contains(&format!("{file}|read|")) && before.contains("id, number, fraction"), "{before}");
    let first = rows(&session, &sql).await;
    let state = |is_read: bool| format!("{is_read}|{is_read}|{is_read}|{is_read}");
    let column = |name: &str, data_type: &str, is_read| format!("NULL|{file}|{name}|{data_type}|{}", state(is_read));
    let found = rows(&session, columns).await;
    let expected = [
        column("id", "Int64", true),
        column("number", "Int64", true),
        column("fraction", "Float64", true),
        column("text", "Utf8View", false),
        column("nested", "Struct(\"part\": non-null Int64)", false),
    ];
    assert_eq!(found.len(), expected.len(), "{found:?}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.starts_with(&expected), "{found}\n{expected}");
    }
    let read = read_bytes(&session).await;
    for _ in 0..2 {
        assert_eq!(rows(&session, &sql).await, first);
    }
    assert_eq!(read_bytes(&session).await, read, "the second and third answer come from memory");
    let after = rows(&session, &explain).await.join("\n");
    assert!(after.contains(&format!("{file}|hit|")) && after.contains("predicted to take"), "{after}");
    // A query of the same columns that answers otherwise finds them too.
    rows(&session, &format!("SELECT max(number + id) FROM '{file}' WHERE fraction > 12")).await;
    assert_eq!(read_bytes(&session).await, read);
    let pipelines =
        "SELECT read_bytes > 0, predicted_s > 0, throughput_bytes_per_s > 0 FROM thermocline.pipelines LIMIT 3";
    assert_eq!(rows(&session, pipelines).await, ["true|NULL|true", "false|true|true", "false|true|true"]);
    rows(&session, "SET thermocline.cache = off").await;
    assert_eq!(rows(&session, &sql).await, first);
    let off = rows(&session, &explain).await.join("\n");
    assert!(off.contains("|read|") && off.contains("thermocline.cache is off"), "{off}");
}

/// A query of random columns, ranges and shape.
fn random_query(random: &mut Random, table: &str) -> String {
    let outputs = [
        "count(*), sum(id)",
        "sum(number), min(text)",
        "count(fraction), max(nested['part'])",
        "max(text), count(DISTINCT nested['part'])",
    ];
    let low = random.below(ROW_COUNT);
    let few = random.below(2000);
    let filters = [
        "id >= 0".to_string(),
        format!("id BETWEEN {low} AND {}", low + few),
        format!("number < {}", random.below(1_000_000_000)),
        format!("fraction > {low} OR id = {low}"),
        format!("text = 'text {}'", random.below(50_000)),
        format!("nested['part'] = {} AND id > {low}", random.below(100)),
    ];
    match random.below(8) {
        0 => format!("SELECT id, text, fraction FROM {table} WHERE id % 1000 = {} ORDER BY id LIMIT 20", few / 2),
        1 => format!(
            "SELECT nested['part'], count(*), sum(number) FROM {table} WHERE {} GROUP BY 1 ORDER BY 1",
            random.pick(&filters)
        ),
        _ => format!("SELECT {} FROM {table} WHERE {}", random.pick(&outputs), random.pick(&filters)),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_do_not_depend_on_the_size_of_the_pool() {
    let folder = Folder::new();
    for (name, first, compression) in [("a", 0, Compression::SNAPPY), ("b", ROW_COUNT, Compression::UNCOMPRESSED)] {
        folder.file(&format!("{name}.parquet"), parquet(first, compression));
    }
    settle();
    let table = format!("'{}/*.parquet'", folder.path().display());
    let plain = session_with(64 * MIB, None);
    rows(&plain, "SET thermocline.cache = off").await;
    // Nothing, less than the pool is used for, less than a column, less than the files, more than all.
    let sizes = [0, MIB, 5 * MIB, 8 * MIB, 128 * MIB];
    let sessions: Vec<Session> = sizes.iter().map(|&bytes| session_with(bytes, None)).collect();
    let seed = 20_260;
    let mut random = Random::new(seed);
    for round in 0..12 + 10 * long_mode().as_secs() {
        let sql = random_query(&mut random, &table);
        let expected = rows(&plain, &sql).await;
        for (session, bytes) in sessions.iter().zip(sizes) {
            assert_eq!(rows(session, &sql).await, expected, "seed {seed}, round {round}, {bytes} bytes: {sql}");
            let held = integer(session, "SELECT bytes FROM thermocline.memory WHERE name = 'buffer pool'").await;
            assert!(held <= bytes as i64, "{held} of {bytes} bytes");
        }
    }
    assert!(read_bytes(&sessions[4]).await > 0);
    assert_eq!(read_bytes(&sessions[0]).await, 0, "without memory nothing goes through the pool");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_few_rows_only_the_blocks_that_hold_them_are_read() {
    let folder = Folder::new();
    let path = folder.settled_file("t.parquet", parquet(0, Compression::UNCOMPRESSED));
    let session = session_with(64 * MIB, None);
    let sql = format!("SELECT id, number, nested['part'] FROM '{}' WHERE id BETWEEN 60100 AND 60102", path.display());
    let plain = session_with(0, None);
    let expected = rows(&plain, &sql).await;
    assert_eq!(expected.len(), 3);
    assert_eq!(rows(&session, &sql).await, expected);
    let read = read_bytes(&session).await;
    assert!(read > 0 && read <= 3 * 2 * BLOCK_BYTES, "{read} bytes for a page or two of three columns");
    assert_eq!(rows(&session, &sql).await, expected);
    assert_eq!(read_bytes(&session).await, read);
    // The rest of the chunks is read when it is asked for, and what is there already is not read again.
    let whole = format!("SELECT sum(id), sum(number) FROM '{}'", path.display());
    assert_eq!(rows(&session, &whole).await, rows(&plain, &whole).await);
    let sizes = "SELECT sum(size_bytes - read_bytes) FROM thermocline.columns WHERE column_name IN ('id', 'number')";
    assert_eq!(rows(&session, sizes).await, ["0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn scans_at_the_same_time_read_the_file_once() {
    let folder = Folder::new();
    let path = folder.settled_file("t.parquet", parquet(0, Compression::SNAPPY));
    let session = session_with(64 * MIB, None);
    let sql = format!("SELECT sum(id) + count(number) FROM '{}' WHERE number >= 0", path.display());
    let queries = (0..8).map(|_| {
        let (session, sql) = (session.database().session(), sql.clone());
        tokio::spawn(async move { integer(&session, &sql).await })
    });
    let expected = (0..ROW_COUNT).sum::<u64>() + ROW_COUNT;
    for query in queries.collect::<Vec<_>>() {
        assert_eq!(query.await.unwrap(), expected as i64);
    }
    let sizes = "SELECT sum(size_bytes - read_bytes) FROM thermocline.columns WHERE column_name IN ('id', 'number')";
    assert_eq!(rows(&session, sizes).await, ["0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_version_is_never_answered_from_the_pages_of_the_one_before() {
    let folder = Folder::new();
    let path = folder.settled_file("t.parquet", parquet(0, Compression::UNCOMPRESSED));
    let session = session_with(64 * MIB, None);
    let sql = format!("SELECT sum(id) FROM '{}' WHERE number >= 0", path.display());
    let held = "SELECT sum(held_bytes) FROM thermocline.columns";
    for _ in 0..2 {
        assert_eq!(rows(&session, &sql).await, [sum_of_ids(0)]);
    }
    let held_bytes = integer(&session, held).await;
    // Written in place, to the same size; then read while the version is young, which leaves nothing behind. It is for as
    // long as it is of the future.
    fs::write(&path, parquet(1, Compression::UNCOMPRESSED)).unwrap();
    let file = File::options().write(true).open(&path).unwrap();
    let written = file.metadata().unwrap().modified().unwrap();
    file.set_modified(written + Duration::from_secs(3600)).unwrap();
    let read = read_bytes(&session).await;
    for _ in 0..2 {
        assert_eq!(rows(&session, &sql).await, [sum_of_ids(1)]);
    }
    assert_eq!(read_bytes(&session).await, read, "a young version is not read through the pool");
    let young = rows(&session, &format!("EXPLAIN CACHE {sql}")).await.join("\n");
    assert!(young.contains("|read|") && young.contains("too recently"), "{young}");
    file.set_modified(written).unwrap();
    settle();
    for _ in 0..2 {
        assert_eq!(rows(&session, &sql).await, [sum_of_ids(1)]);
    }
    assert!(read_bytes(&session).await > read);
    assert!(integer(&session, held).await <= held_bytes + BLOCK_BYTES, "the pages of the version before are gone");
    // Replaced by another file.
    let other = folder.settled_file("other", parquet(2, Compression::SNAPPY));
    fs::rename(other, &path).unwrap();
    for _ in 0..2 {
        assert_eq!(rows(&session, &sql).await, [sum_of_ids(2)]);
        settle();
    }
    assert_eq!(rows(&session, &sql).await, [sum_of_ids(2)]);
    let tables = "SELECT DISTINCT table_name FROM thermocline.columns";
    assert_eq!(rows(&session, tables).await, [path.display().to_string()]);
}

/// Begins the query, changes the file, and goes on.
async fn query_across(session: &Session, sql: &str, change: impl FnOnce()) -> thermocline_engine::Result<usize> {
    let result = session.sql(sql).await?;
    change();
    Ok(result.collect().await?.iter().map(RecordBatch::num_rows).sum())
}

fn truncate(path: &Path) {
    OpenOptions::new().write(true).open(path).unwrap().set_len(1000).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_cut_off_under_a_query_is_an_error_that_names_the_place() {
    let folder = Folder::new();
    let path = folder.settled_file("t.parquet", parquet(0, Compression::SNAPPY));
    let session = session_with(64 * MIB, None);
    // One partition, which reads nothing before it is asked for rows.
    rows(&session, "SET threads = 1").await;
    let sql = format!("SELECT text FROM '{}' WHERE number >= 0", path.display());
    let failed = query_across(&session, &sql, || truncate(&path)).await.unwrap_err();
    let text = failed.to_string();
    assert!(text.contains(&path.display().to_string()) && text.contains("changed while it was read"), "{text}");
    assert!(text.contains("column '") && text.contains("(bytes "), "{text}");
    assert_eq!(failed.kind(), ErrorKind::Retry);
    fs::write(&path, parquet(5, Compression::SNAPPY)).unwrap();
    settle();
    assert_eq!(rows(&session, &format!("SELECT sum(id) FROM '{}'", path.display())).await, [sum_of_ids(5)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_whose_file_is_replaced_goes_on_with_what_it_opened() {
    let folder = Folder::new();
    let path = folder.file("t.parquet", parquet(0, Compression::SNAPPY));
    let other = folder.settled_file("other", parquet(3, Compression::SNAPPY));
    let session = session_with(64 * MIB, None);
    let sql = format!("SELECT id FROM '{}' WHERE number >= 0 AND id < {}", path.display(), ROW_COUNT / 2);
    let count = query_across(&session, &sql, || fs::rename(&other, &path).unwrap()).await.unwrap();
    assert_eq!(count as u64, ROW_COUNT / 2);
    settle();
    assert_eq!(rows(&session, &format!("SELECT sum(id) FROM '{}'", path.display())).await, [sum_of_ids(3)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_bytes_are_an_error_that_names_the_file_from_memory_too() {
    let folder = Folder::new();
    let mut content = parquet(0, Compression::SNAPPY);
    content[4..200].fill(0xff);
    let path = folder.settled_file("t.parquet", content);
    let session = session_with(64 * MIB, None);
    for _ in 0..2 {
        let message = error(&session, &format!("SELECT sum(id) FROM '{}'", path.display())).await;
        assert!(message.contains("t.parquet: damaged Parquet file"), "{message}");
    }
    let other = format!("SELECT count(fraction) FROM '{}'", path.display());
    assert_eq!(rows(&session, &other).await, [(ROW_COUNT / 5 * 4).to_string()]);
}

/// Nothing in a footer is checked by a sum: any answer goes, so long as the process lives and does not hang.
#[tokio::test(flavor = "multi_thread")]
async fn flipped_bits_of_a_footer_are_an_error_or_pass() {
    let folder = Folder::new();
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..2000));
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..2000).map(|n| format!("text {}", n % 7))));
    let batch = RecordBatch::try_from_iter_with_nullable([("id", numbers, true), ("text", texts, true)]).unwrap();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    let content = writer.into_inner().unwrap();
    let length_at = content.len() - 8;
    let footer_bytes = u32::from_le_bytes(content[length_at..length_at + 4].try_into().unwrap()) as usize;
    // The Arrow schema, at its end, is only a hint.
    let interesting = length_at - footer_bytes..length_at - footer_bytes + 400;
    let bits = interesting.enumerate().flat_map(|(number, at)| [0, 1 + number % 7].map(|bit| (at, bit)));
    let damaged = bits.map(|(at, bit)| {
        let mut damaged = content.clone();
        damaged[at] ^= 1 << bit;
        folder.file(&format!("{at}-{bit}.parquet"), damaged)
    });
    let damaged: Vec<_> = damaged.collect();
    settle();
    let session = session_with(64 * MIB, None);
    let mut refused = 0;
    for path in damaged {
        let sql = format!("SELECT text, count(*), sum(id) FROM '{}' WHERE id >= 5 GROUP BY text", path.display());
        let Err(error) = try_rows(&session, &sql).await else { continue };
        let message = error.to_string();
        assert!(!message.contains("panic") && error.kind() != ErrorKind::Internal, "{}: {message}", path.display());
        refused += 1;
    }
    assert!(refused > 200, "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_is_asked_for_once_until_its_tag_changes() {
    let (server, session) = server_with("/bucket/t.parquet", parquet(0, Compression::SNAPPY));
    let sql = "SELECT sum(id) FROM 's3://bucket/t.parquet' WHERE number >= 0";
    assert_eq!(rows(&session, sql).await, [sum_of_ids(0)]);
    // The footer, and a few requests for megabytes each.
    let requests = read_count(&server);
    assert!((2..=16).contains(&requests), "{requests}");
    for _ in 0..2 {
        assert_eq!(rows(&session, sql).await, [sum_of_ids(0)]);
        assert_eq!(read_count(&server), 0, "the second and third answer come from memory");
    }
    let name = "SELECT DISTINCT table_name FROM thermocline.columns";
    assert_eq!(rows(&session, name).await, ["s3://bucket/t.parquet"]);
    server.put("/bucket/t.parquet", parquet(9, Compression::SNAPPY));
    assert_eq!(rows(&session, sql).await, [sum_of_ids(9)]);
    assert!(read_count(&server) > 0);
    assert_eq!(rows(&session, sql).await, [sum_of_ids(9)]);
    assert_eq!(read_count(&server), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_fails_in_the_middle_fails_the_query_and_leaves_nothing_wrong_behind() {
    let (server, session) = server_with("/bucket/t.parquet", parquet(0, Compression::UNCOMPRESSED));
    let sql = "SELECT sum(id) FROM 's3://bucket/t.parquet' WHERE number >= 0";
    // Planned first, so that its footer is known and the next request is for a chunk.
    rows(&session, "SELECT count(*) FROM 's3://bucket/t.parquet'").await;
    server.add_faults([Fault::Replaced(parquet(4, Compression::UNCOMPRESSED))]);
    let message = error(&session, sql).await;
    assert!(message.contains("s3://bucket/t.parquet") && message.contains("changed while it was read"), "{message}");
    assert_eq!(rows(&session, sql).await, [sum_of_ids(4)]);
    rows(&session, "SET thermocline.page_policy = 'lru'").await;
    server.add_faults([Fault::Truncated]);
    // Cut off once: either the request is repeated, or the query says what happened.
    match try_rows(&session, sql).await {
        Ok(answer) => assert_eq!(answer, [sum_of_ids(4)]),
        Err(error) => assert!(error.to_string().contains("s3://bucket/t.parquet"), "{error}"),
    }
    assert_eq!(rows(&session, sql).await, [sum_of_ids(4)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn scans_of_an_object_at_the_same_time_ask_for_it_once() {
    let (server, session) = server_with("/bucket/t.parquet", parquet(0, Compression::SNAPPY));
    server.add_faults(vec![Fault::Slow; 64]);
    let sql = "SELECT sum(id) FROM 's3://bucket/t.parquet' WHERE number >= 0";
    let queries = (0..4).map(|_| {
        let session = session.database().session();
        tokio::spawn(async move { rows(&session, sql).await })
    });
    for query in queries.collect::<Vec<_>>() {
        assert_eq!(query.await.unwrap(), [sum_of_ids(0)]);
    }
    let sizes = "SELECT sum(size_bytes - read_bytes) FROM thermocline.columns WHERE column_name IN ('id', 'number')";
    assert_eq!(rows(&session, sizes).await, ["0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_files_and_tables_share_the_pool() {
    let folder = Folder::new();
    let path = folder.settled_file("t.parquet", parquet(0, Compression::SNAPPY));
    let options = DatabaseOptions {
        folder: Some(folder.path().join("db")),
        memory_bytes: Some(256 * MIB),
        cache_memory_bytes: Some(6 * MIB),
        threads: Some(4),
        ..DatabaseOptions::default()
    };
    let session = Database::open(options).unwrap().session();
    rows(&session, &format!("CREATE TABLE kept AS SELECT id, number FROM '{}'", path.display())).await;
    for _ in 0..3 {
        for table in ["kept".to_string(), format!("'{}'", path.display())] {
            let sql = format!("SELECT sum(id) FROM {table} WHERE number >= 0");
            assert_eq!(rows(&session, &sql).await, [sum_of_ids(0)]);
        }
    }
    let columns = "SELECT DISTINCT table_name FROM thermocline.columns WHERE miss_count > 0 ORDER BY 1";
    assert_eq!(rows(&session, columns).await, [path.display().to_string(), "kept".to_string()]);
    let held = integer(&session, "SELECT sum(held_bytes) FROM thermocline.columns").await;
    assert!(held <= 6 * MIB as i64, "{held}");
    assert!(rows(&session, "SELECT pipeline FROM thermocline.pipelines").await.len() >= 6);
}

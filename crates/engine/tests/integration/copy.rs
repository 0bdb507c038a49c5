//! `COPY … TO` is done as a whole or not at all: its target has all rows, or what it had before.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use thermocline_engine::{ErrorKind, Session};

use crate::harness::{self, FIRST, Folder, integer, numbered_ndjson, rows, try_rows};

/// Rows that fail when some thousands of them were given out.
const LATE_FAILURE: &str = "SELECT 1 / (50000 - value) AS i, value % 3 AS k FROM generate_series(1, 60000)";

/// The names in a folder, hidden ones too, in order.
fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Has files be written in pieces of 64 KiB, or of 10 MiB, which is more than they have here.
async fn write_in_pieces(session: &Session, is_small: bool) {
    let bytes = if is_small { 64 << 10 } else { 10 << 20 };
    rows(session, &format!("SET datafusion.execution.objectstore_writer_buffer_size = {bytes}")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_fail_late_leave_every_target_as_it_was() {
    let folder = Folder::new();
    let late = folder.file("late.ndjson", numbered_ndjson(FIRST, 60_000) + "{\"id\":oops}\n");
    for name in ["kept.csv", "kept.ndjson", "kept.parquet"] {
        folder.file(name, "what was there");
    }
    let before = names(folder.path());
    let session = harness::session();
    let bad_file = format!("SELECT id AS i, id % 3 AS k, name FROM '{}'", late.display());
    for (query, reason) in [(LATE_FAILURE, "Divide by zero"), (&bad_file, "late.ndjson")] {
        for is_small in [false, true] {
            write_in_pieces(&session, is_small).await;
            for target in [
                "kept.csv'",
                "kept.ndjson'",
                "kept.parquet'",
                "new.csv'",
                "made/new.parquet'",
                "made/' STORED AS CSV",
                "made/deep/' STORED AS PARQUET PARTITIONED BY (k)",
            ] {
                let sql = format!("COPY ({query}) TO '{}/{target}", folder.path().display());
                let message = harness::error(&session, &sql).await;
                assert!(message.contains(reason), "{sql}\n{message}");
                assert_eq!(names(folder.path()), before, "{sql}");
            }
        }
    }
    for name in ["kept.csv", "kept.ndjson", "kept.parquet"] {
        assert_eq!(fs::read_to_string(folder.path().join(name)).unwrap(), "what was there", "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_put_in_place_whole_and_nothing_remains_beside_them() {
    let folder = Folder::new();
    let path = folder.path().display();
    folder.file("old.csv", "what was there");
    fs::create_dir(folder.path().join("far")).unwrap();
    folder.file("far/old.csv", "what was there");
    symlink("far/old.csv", folder.path().join("link.csv")).unwrap();
    let session = harness::session();
    let series = "SELECT value AS i, value % 3 AS k FROM generate_series(1, 60000)";
    for is_small in [false, true] {
        write_in_pieces(&session, is_small).await;
        for target in ["old.csv", "link.csv", "new.ndjson", "made/deep/new.parquet"] {
            assert_eq!(rows(&session, &format!("COPY ({series}) TO '{path}/{target}'")).await, ["60000"]);
            let answer = rows(&session, &format!("SELECT count(*), sum(i), sum(k) FROM '{path}/{target}'")).await;
            assert_eq!(answer, ["60000|1800030000|60000"], "{target}");
        }
        let parts = format!("COPY ({series}) TO '{path}/parts{is_small}/' STORED AS CSV PARTITIONED BY (k)");
        rows(&session, &parts).await;
        assert_eq!(names(&folder.path().join(format!("parts{is_small}"))), ["k=0", "k=1", "k=2"]);
        for part in ["k=0", "k=1", "k=2"] {
            assert_eq!(names(&folder.path().join(format!("parts{is_small}/{part}"))).len(), 1);
        }
        let count = format!("SELECT count(*) FROM '{path}/parts{is_small}/*/*.csv'");
        assert_eq!(integer(&session, &count).await, 60_000);
    }
    assert_eq!(
        names(folder.path()),
        ["far", "link.csv", "made", "new.ndjson", "old.csv", "partsfalse", "partstrue"],
        "nothing but what was asked for"
    );
    assert_eq!(names(&folder.path().join("far")), ["old.csv"]);
    assert_eq!(names(&folder.path().join("made/deep")), ["new.parquet"]);
    assert!(folder.path().join("link.csv").symlink_metadata().unwrap().is_symlink());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_without_a_value_for_its_folder_fails_the_copy() {
    let folder = Folder::new();
    let path = folder.path().display();
    let session = harness::session();
    let copied = |column: &str, partitions: &str| {
        let rows = format!("SELECT {column} AS k, value AS i, 1 AS j FROM generate_series(1, 20000)");
        format!("COPY ({rows}) TO '{path}/parts/' STORED AS CSV PARTITIONED BY ({partitions})")
    };
    for column in [
        "nullif(value % 3, 2)",
        "CASE WHEN value < 20000 THEN 'a' END",
        "CASE WHEN value < 20000 THEN DATE '2026-01-31' END",
        "CASE WHEN value < 20000 THEN true END",
        "arrow_cast(CASE WHEN value < 20000 THEN 'a' END, 'Dictionary(Int32, Utf8)')",
    ] {
        for partitions in ["k", "j, k"] {
            let sql = copied(column, partitions);
            let message = harness::error(&session, &sql).await;
            assert!(message.contains("column k is NULL in a row"), "{sql}\n{message}");
            assert_eq!(names(folder.path()), [""; 0], "{sql}");
        }
    }
    // NULLs elsewhere are values like others, and so is what stands for those of the column.
    rows(&session, &copied("nullif(value % 3, 2)", "j")).await;
    assert_eq!(names(&folder.path().join("parts")), ["j=1"]);
    rows(&session, &copied("coalesce(nullif(value % 3, 2), -1)", "k")).await;
    assert_eq!(names(&folder.path().join("parts")), ["j=1", "k=-1", "k=0", "k=1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_can_be_made_of_its_own_rows() {
    let folder = Folder::new();
    let session = harness::session();
    for suffix in ["csv", "ndjson", "parquet"] {
        let path = folder.path().join(format!("t.{suffix}"));
        let path = path.display();
        rows(&session, &format!("COPY (SELECT value AS i FROM generate_series(1, 100000)) TO '{path}'")).await;
        for added in 1..=2 {
            rows(&session, &format!("COPY (SELECT i + 1 AS i FROM '{path}') TO '{path}'")).await;
            let sum = integer(&session, &format!("SELECT sum(i) FROM '{path}'")).await;
            assert_eq!(sum, 5_000_050_000 + added * 100_000, "{path}");
        }
    }
    assert_eq!(names(folder.path()), ["t.csv", "t.ndjson", "t.parquet"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_copy_has_left_nothing_behind_when_it_is_dropped() {
    let folder = Folder::new();
    folder.file("kept.csv", "what was there");
    let session = harness::session();
    write_in_pieces(&session, true).await;
    let targets = ["kept.csv", "new/deep.ndjson"];
    let joins = ["CROSS JOIN generate_series(1, 1000000) b", "JOIN generate_series(1, 1000000) b ON a.value < b.value"];
    for (target, join) in targets.into_iter().flat_map(|target| joins.map(|join| (target, join))) {
        let endless = format!("SELECT a.value + b.value AS i FROM generate_series(1, 1000000) a {join}");
        let sql = format!("COPY ({endless}) TO '{}/{target}'", folder.path().display());
        let running = tokio::spawn({
            let session = session.clone();
            async move { try_rows(&session, &sql).await }
        });
        let begun = async {
            while names(folder.path()).len() < 2 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), begun).await.expect("nothing was written");
        running.abort();
        assert!(running.await.is_err_and(|error| error.is_cancelled()));
        assert_eq!(names(folder.path()), ["kept.csv"], "{target}, {join}");
    }
    assert_eq!(fs::read_to_string(folder.path().join("kept.csv")).unwrap(), "what was there");
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn a_target_that_cannot_be_written_is_told_with_its_path_and_the_reason() {
    let folder = Folder::new();
    folder.file("file", "");
    symlink("/dev/full", folder.path().join("device.csv")).unwrap();
    let before = names(folder.path());
    let session = harness::session();
    let below_file = format!("{}/file/x.csv", folder.path().display());
    let device = format!("{}/device.csv", folder.path().display());
    for (target, reason) in [
        (below_file.as_str(), "cannot create the file: Not a directory"),
        ("/proc/thermocline.csv", "cannot create the file: No such file or directory"),
        (device.as_str(), "is a device, expected a regular file"),
    ] {
        for is_small in [false, true] {
            write_in_pieces(&session, is_small).await;
            let sql = format!("COPY (SELECT value FROM generate_series(1, 60000)) TO '{target}'");
            let outcome = tokio::time::timeout(Duration::from_secs(60), try_rows(&session, &sql)).await;
            let error = outcome.expect("it waits for ever").unwrap_err();
            let message = error.to_string();
            assert!(message.starts_with(&format!("{target}: {reason}")), "{message}");
            assert_eq!(error.kind(), ErrorKind::Input, "{message}");
        }
    }
    // A device is no folder either.
    let message = harness::error(&session, "COPY (SELECT 1 AS a) TO '/dev/full' STORED AS CSV").await;
    assert!(message.starts_with("/dev/full/") && message.contains("Not a directory"), "{message}");
    assert_eq!(names(folder.path()), before);
}

/// The message of a statement that fails at once.
async fn refusal(session: &Session, sql: &str) -> String {
    let outcome = tokio::time::timeout(Duration::from_secs(60), try_rows(session, sql)).await;
    match outcome.unwrap_or_else(|_| panic!("it goes on for ever: {sql}")) {
        Ok(rows) => panic!("{sql}\nexpected an error, got {rows:?}"),
        Err(error) => error.to_string(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn options_that_no_file_can_be_written_with_are_refused_by_name() {
    let folder = Folder::new();
    let session = harness::session();
    let copy = |options: &str| {
        let path = folder.path().display();
        format!("COPY (SELECT 1 AS a, 1.5 AS b, 'x' AS c) TO '{path}/t.parquet' OPTIONS ({options})")
    };
    for (option, value) in [
        ("write_batch_size", "0"),
        ("data_page_row_count_limit", "0"),
        ("max_row_group_size", "0"),
        ("max_row_group_bytes", "0"),
        ("column_index_truncate_length", "0"),
        ("statistics_truncate_length", "0"),
        ("maximum_parallel_row_group_writers", "0"),
        ("maximum_parallel_row_group_writers", "18446744073709551615"),
        ("maximum_buffered_record_batches_per_stream", "0"),
        ("maximum_buffered_record_batches_per_stream", "18446744073709551615"),
        ("bloom_filter_fpp", "0"),
        ("bloom_filter_fpp", "1"),
        ("bloom_filter_fpp", "2"),
        ("bloom_filter_fpp", "NaN"),
        ("encoding", "plain_dictionary"),
        ("encoding", "RLE_DICTIONARY"),
    ] {
        let message = refusal(&session, &copy(&format!("'format.{option}' '{value}'"))).await;
        assert!(message.contains(option), "{option}: {message}");
        let message = refusal(&session, &format!("SET datafusion.execution.parquet.{option} = '{value}'")).await;
        assert!(message.contains(option), "{option}: {message}");
    }
    for (options, named) in [
        ("'format.bloom_filter_fpp::a' '2'", "bloom_filter_fpp::a"),
        ("'format.encoding::a' 'rle_dictionary'", "encoding::a"),
        (
            "'format.content_defined_chunking.enabled' 'true', 'format.content_defined_chunking.min_chunk_size' '0'",
            "min_chunk_size",
        ),
        (
            "'format.content_defined_chunking.enabled' 'true', 'format.content_defined_chunking.max_chunk_size' '9'",
            "max_chunk_size",
        ),
        // There are such encodings, but not for the column's type.
        ("'format.encoding::b' 'rle', 'format.dictionary_enabled' 'false'", "the writer has panicked"),
        ("'format.encoding::b' 'delta_binary_packed', 'format.dictionary_enabled' 'false'", "the writer has panicked"),
    ] {
        let message = refusal(&session, &copy(options)).await;
        assert!(message.contains(named), "{options}: {message}");
    }
    let message = refusal(&session, "SET datafusion.execution.objectstore_writer_buffer_size = 0").await;
    assert!(message.contains("objectstore_writer_buffer_size"), "{message}");
    assert_eq!(names(folder.path()), [""; 0]);
    // The least that there is, and none of what was refused stays.
    for options in [
        "'format.write_batch_size' '1', 'format.data_page_row_count_limit' '1', 'format.max_row_group_size' '1'",
        "'format.statistics_truncate_length' '1', 'format.column_index_truncate_length' '1'",
        "'format.bloom_filter_on_write' 'true', 'format.bloom_filter_fpp' '0.5'",
        "'format.data_pagesize_limit' '0', 'format.dictionary_page_size_limit' '0'",
    ] {
        assert_eq!(rows(&session, &copy(options)).await, ["1"], "{options}");
        let answer = rows(&session, &format!("SELECT a, b, c FROM '{}/t.parquet'", folder.path().display())).await;
        assert_eq!(answer, ["1|1.5|x"], "{options}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn links_lead_no_copy_out_of_the_allowed_folders() {
    let (allowed, outside) = (Folder::new(), Folder::new());
    fs::create_dir(allowed.path().join("out")).unwrap();
    symlink(outside.path(), allowed.path().join("out/k=1")).unwrap();
    let session = harness::session();
    rows(&session, &format!("SET allowed_directories = '{}'", allowed.path().display())).await;
    let into = |values: &str| {
        let folder = allowed.path().display();
        format!("COPY (SELECT * FROM (VALUES {values}) AS t(i, k)) TO '{folder}/out/' STORED AS CSV PARTITIONED BY (k)")
    };
    let message = harness::error(&session, &into("(1, 0), (2, 1)")).await;
    assert!(message.contains("allowed_directories"), "{message}");
    assert_eq!(names(outside.path()), [""; 0]);
    assert_eq!(names(&allowed.path().join("out")), ["k=1"]);
    rows(&session, &into("(1, 0)")).await;
    assert_eq!(names(&allowed.path().join("out")), ["k=0", "k=1"]);
}

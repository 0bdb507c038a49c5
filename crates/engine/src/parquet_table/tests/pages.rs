//! Versions of files as sources of pages: what is remembered of them, and that ranges are the file's.

use std::ops::Range;

use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use thermocline_hardware::Clock;
use thermocline_placement::page_cache::ListKey;

use super::*;
use crate::page_pool::PagePool;
use crate::parquet_table::file_pages::{PageColumn, PageCounts};

const MIB: u64 = 1 << 20;

pub(super) fn store(memory_bytes: u64, clock: Arc<ManualClock>) -> Arc<ParquetPages> {
    let budget = Budget::new(memory_bytes, None);
    let clock: Arc<dyn Clock> = clock;
    let pages = PagePool::open(&budget, &clock).unwrap();
    ParquetPages::new(&pages, &budget, &clock)
}

pub(super) async fn pages(store: &ParquetPages, file: &ParquetFile) -> Option<Arc<FilePages>> {
    let footer = footers().get(file).await.unwrap();
    store.of(file, &footer)
}

fn lists(pages: &FilePages) -> Vec<(String, ListKey)> {
    let of_column = |column: &PageColumn| (column.name.to_string(), column.list);
    pages.columns().iter().map(of_column).collect()
}

pub(super) async fn read(pages: &FilePages, file: &ParquetFile, ranges: &[Range<u64>]) -> (Vec<bytes::Bytes>, u64) {
    let counts = PageCounts::new(&ExecutionPlanMetricsSet::new(), 0);
    let (read, served) = pages.read(file, ranges.to_vec(), &counts).await.unwrap();
    (read, served.read_bytes)
}

fn random_ranges(random: &mut Random, size_bytes: u64) -> Vec<Range<u64>> {
    (0..random.below(6))
        .map(|_| {
            let start = random.below(size_bytes + 1);
            let most_bytes = 1 << random.below(22);
            start..start + random.below((size_bytes - start).min(most_bytes) + 1)
        })
        .collect()
}

#[tokio::test]
async fn ranges_are_the_bytes_of_the_file_however_little_memory_there_is() {
    let folder = Folder::new();
    let path = folder.write("a.parquet", &batch(vec![("a", int64(0..300_000)), ("b", int64((0..300_000).rev()))]));
    let content = fs::read(&path).unwrap();
    for memory_bytes in [0, MIB, 5 * MIB, 64 * MIB] {
        let store = store(memory_bytes, late_clock());
        let file = open(&path);
        let pages = pages(&store, &file).await.unwrap();
        let mut random = Random(77);
        for round in 0..60 {
            let ranges = random_ranges(&mut random, content.len() as u64);
            let (read, _) = read(&pages, &file, &ranges).await;
            assert_eq!(read.len(), ranges.len());
            for (range, bytes) in ranges.iter().zip(read) {
                let expected = &content[range.start as usize..range.end as usize];
                assert!(bytes == expected, "{memory_bytes} bytes of memory, round {round}, {range:?}");
            }
        }
        let mapped_bytes = store.pool().pool().snapshot().mapped_bytes;
        assert!(mapped_bytes <= memory_bytes, "{mapped_bytes} of {memory_bytes}");
        let whole: Vec<_> = std::iter::once(0..content.len() as u64).collect();
        let (_, read_bytes) = read(&pages, &file, &whole).await;
        // Without room for a few readers, past the pool; with some, in part; with room for all, not again.
        match memory_bytes / MIB {
            0 | 1 => assert_eq!(read_bytes, content.len() as u64),
            5 => assert!(read_bytes < content.len() as u64, "{read_bytes} of {}", content.len()),
            _ => assert_eq!(read(&pages, &file, &whole).await.1, 0),
        }
    }
}

#[tokio::test]
async fn ranges_outside_of_the_file_are_an_error_that_names_it() {
    let folder = Folder::new();
    let path = folder.write("a.parquet", &batch(vec![("id", int64(0..100))]));
    let store = store(64 * MIB, late_clock());
    let file = open(&path);
    let pages = pages(&store, &file).await.unwrap();
    let counts = PageCounts::new(&ExecutionPlanMetricsSet::new(), 0);
    let outside: Vec<_> = std::iter::once(0..file.size_bytes() + 1).collect();
    let error = pages.read(&file, outside, &counts).await.unwrap_err().to_string();
    assert!(error.contains("a.parquet") && error.contains("damaged Parquet file"), "{error}");
}

#[tokio::test]
async fn columns_keep_their_lists_and_no_page_when_the_file_changes() {
    let folder = Folder::new();
    let path = folder.write("a.parquet", &batch(vec![("a", int64(0..1000)), ("b", int64(0..1000))]));
    let store = store(64 * MIB, late_clock());
    let file = open(&path);
    let first = pages(&store, &file).await.unwrap();
    assert!(Arc::ptr_eq(&first, &pages(&store, &open(&path)).await.unwrap()), "opened again, the same version");
    let whole: Vec<_> = std::iter::once(0..file.size_bytes()).collect();
    read(&first, &file, &whole).await;
    let page_count = || store.pool().pool().snapshot().page_count;
    assert!(page_count() > 0);
    let before = lists(&first);
    drop(first);
    write(&path, &batch(vec![("c", int64(0..1000)), ("b", int64(1..1001))]));
    let second = pages(&store, &open(&path)).await.unwrap();
    assert_eq!(page_count(), 0, "the pages of the version before are gone");
    let after = lists(&second);
    assert_eq!(after[1], before[1], "b is read by the same queries");
    assert_eq!(after[0].0, "c");
    // What was of `a` is there for the next new column.
    let other = folder.write("other.parquet", &batch(vec![("x", int64(0..10))]));
    let third = pages(&store, &open(&other)).await.unwrap();
    assert!(lists(&third)[0].1 == before[0].1 || after[0].1 == before[0].1, "{before:?} {after:?}");
    assert_eq!(store.files().len(), 2);
}

#[tokio::test]
async fn a_version_that_may_change_unseen_has_no_pages() {
    let folder = Folder::new();
    let path = folder.write("a.parquet", &batch(vec![("id", int64(0..100))]));
    let clock = late_clock();
    let store = store(64 * MIB, Arc::clone(&clock));
    let thermocline_medium::Stamp::Local { ctime_ns, .. } = open(&path).version().stamp else { panic!("a local file") };
    clock.set_wall_ns(ctime_ns + 1_000_000);
    assert!(pages(&store, &open(&path)).await.is_none());
    clock.set_wall_ns(ctime_ns + YEAR_NS);
    assert!(pages(&store, &open(&path)).await.is_some());
}

#[tokio::test]
async fn pages_are_read_through_whichever_query_has_the_file_open() {
    let folder = Folder::new();
    let path = folder.write("a.parquet", &batch(vec![("id", int64(0..200_000))]));
    let store = store(64 * MIB, late_clock());
    let (first, second) = (open(&path), open(&path));
    let known = pages(&store, &first).await.unwrap();
    pages(&store, &second).await.unwrap();
    drop(first);
    let whole: Vec<_> = std::iter::once(0..second.size_bytes()).collect();
    assert_eq!(read(&known, &second, &whole).await.0, [fs::read(&path).unwrap()]);
}

//! Footers are counted for as long as a query holds them, whatever the cache does with them.

use datafusion::common::DataFusionError;

use super::*;
use crate::error::{Error, ErrorKind};

/// Ten files, a cache that has room for the footers of two, and its budget.
struct TenFiles {
    _folder: Folder,
    paths: Vec<PathBuf>,
    budget: Budget,
    cache: Arc<FooterCache>,
}

impl TenFiles {
    async fn new() -> Self {
        let folder = Folder::new();
        let rows = batch(vec![("id", int64(0..2000)), ("n", int64(2000..4000))]);
        let paths: Vec<_> = (0..10).map(|index| folder.write(&format!("{index}.parquet"), &rows)).collect();
        let budget = Budget::new(1 << 30, None);
        let cache = FooterCache::new(&budget, late_clock());
        cache.get(&open(&paths[0])).await.unwrap();
        budget.set_cache_limit(Some(cache.held_bytes() * 5 / 2));
        Self { _folder: folder, paths, budget, cache }
    }

    async fn table(&self) -> Result<ParquetTable> {
        ParquetTable::try_new(self.paths.iter().map(|path| open(path)).collect(), None, Arc::clone(&self.cache)).await
    }

    /// What queries have reserved.
    fn counted_bytes(&self) -> u64 {
        self.budget.reserved_bytes() - self.budget.cache_reserved_bytes()
    }
}

#[tokio::test]
async fn footers_are_counted_once_until_the_last_who_holds_them_is_gone() {
    let files = TenFiles::new().await;
    let table = files.table().await.unwrap();
    let needed_bytes: usize = table.files.iter().map(|(_, footer)| footer.memory_size()).sum();
    let counted_bytes = files.counted_bytes();
    assert!(counted_bytes >= needed_bytes as u64, "{counted_bytes} of {needed_bytes}");
    assert!((files.cache.held_bytes() as usize) < needed_bytes / 3, "the cache keeps more than two");
    let facts = table.facts();
    // Those that the cache has dropped are not read again.
    let again = files.table().await.unwrap();
    for ((_, footer), (_, same)) in table.files.iter().zip(&again.files) {
        assert!(Arc::ptr_eq(footer, same));
    }
    let plan = again.scan(&SessionContext::new().state(), None, &[], None).await.unwrap();
    assert_eq!(files.counted_bytes(), counted_bytes);
    drop((table, again, facts));
    assert_eq!(files.counted_bytes(), counted_bytes, "the plan holds them");
    drop(plan);
    assert_eq!(files.counted_bytes(), 0);
    assert!(!files.table().await.unwrap().files.is_empty(), "they are read anew");
}

#[tokio::test]
async fn footers_that_do_not_fit_into_memory_are_an_error_that_says_what_they_need() {
    let files = TenFiles::new().await;
    let counted_bytes = {
        let _table = files.table().await.unwrap();
        files.counted_bytes()
    };
    // The cache gives way to what a query holds.
    files.budget.set_limit(counted_bytes);
    drop(files.table().await.unwrap());
    files.budget.set_limit(counted_bytes * 6 / 10);
    let error = files.table().await.unwrap_err();
    let DataFusionError::External(source) = &error else { panic!("{error}") };
    let needed_bytes = source.downcast_ref::<NoRoomForFooters>().unwrap().needed_bytes;
    assert!(needed_bytes.abs_diff(counted_bytes) < counted_bytes / 5, "{needed_bytes}, not {counted_bytes}");
    let error = Error::from(error);
    assert_eq!(error.kind(), ErrorKind::Resources);
    let (first, message) = (files.paths[0].display(), error.to_string());
    let expected = format!("{first}: the footers of the table's Parquet files, 10 in all, need about ");
    assert!(message.starts_with(&expected) && message.contains("thermocline.memory"), "{message}");
    assert_eq!(files.counted_bytes(), 0);
}

#[tokio::test]
async fn a_footer_of_a_young_version_is_not_shared() {
    let folder = Folder::new();
    let path = folder.write("a.parquet", &batch(vec![("id", int64(0..100))]));
    let clock = late_clock();
    let budget = Budget::new(1 << 30, None);
    let cache = FooterCache::new(&budget, Arc::clone(&clock) as Arc<dyn thermocline_hardware::Clock>);
    let thermocline_medium::Stamp::Local { ctime_ns, .. } = open(&path).version().stamp else { panic!("a local file") };
    clock.set_wall_ns(ctime_ns + 1_000_000);
    let young = cache.hold(&open(&path)).await.unwrap().unwrap();
    clock.set_wall_ns(ctime_ns + YEAR_NS);
    let settled = cache.hold(&open(&path)).await.unwrap().unwrap();
    assert!(!Arc::ptr_eq(&young, &settled));
    assert!(Arc::ptr_eq(&settled, &cache.hold(&open(&path)).await.unwrap().unwrap()));
    drop(young);
    assert!(Arc::ptr_eq(&settled, &cache.hold(&open(&path)).await.unwrap().unwrap()));
}

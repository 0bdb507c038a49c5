//! Files in stores that answer late, or not at all: what others who want the same get, and how often the store is asked.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use futures::stream::BoxStream;
use object_store::path::Path as ObjectPath;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, PutMultipartOptions,
    PutOptions, PutPayload, PutResult, Result as StoreResult,
};
use parking_lot::Mutex;

use super::pages::{pages, read, store};
use super::*;
use crate::error::{Error as EngineError, ErrorKind};
use crate::parquet_table::file_pages::PageCounts;

const MIB: u64 = 1 << 20;

/// How a store fails.
type Failure = fn() -> Error;

/// A way to the objects of a store in memory. No answer is there at once.
#[derive(Debug)]
struct Access {
    objects: Arc<InMemory>,
    failure: Mutex<Option<Failure>>,
    get_count: AtomicUsize,
}

impl Access {
    fn to(objects: &Arc<InMemory>) -> Arc<Self> {
        Arc::new(Self { objects: Arc::clone(objects), failure: Mutex::new(None), get_count: AtomicUsize::new(0) })
    }

    fn fail_with(&self, failure: Option<Failure>) {
        *self.failure.lock() = failure;
    }

    fn get_count(&self) -> usize {
        self.get_count.load(Ordering::SeqCst)
    }

    async fn open(self: &Arc<Self>, key: &ObjectPath) -> ParquetFile {
        let file = RemoteFile::open(Arc::clone(self) as Arc<dyn ObjectStore>, "memory://", key.clone()).await.unwrap();
        self.get_count.store(0, Ordering::SeqCst);
        ParquetFile::Remote(Arc::new(file))
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Access")
    }
}

#[async_trait]
impl ObjectStore for Access {
    async fn put_opts(
        &self,
        location: &ObjectPath,
        payload: PutPayload,
        options: PutOptions,
    ) -> StoreResult<PutResult> {
        self.objects.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &ObjectPath,
        options: PutMultipartOptions,
    ) -> StoreResult<Box<dyn MultipartUpload>> {
        self.objects.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &ObjectPath, options: GetOptions) -> StoreResult<GetResult> {
        self.get_count.fetch_add(1, Ordering::SeqCst);
        tokio::task::yield_now().await;
        let failure = *self.failure.lock();
        match failure {
            Some(failure) => Err(failure()),
            None => self.objects.get_opts(location, options).await,
        }
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, StoreResult<ObjectPath>>,
    ) -> BoxStream<'static, StoreResult<ObjectPath>> {
        self.objects.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&ObjectPath>) -> BoxStream<'static, StoreResult<ObjectMeta>> {
        self.objects.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&ObjectPath>) -> StoreResult<ListResult> {
        self.objects.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &ObjectPath, to: &ObjectPath, options: CopyOptions) -> StoreResult<()> {
        self.objects.copy_opts(from, to, options).await
    }
}

fn unavailable() -> Error {
    Error::Generic { store: "access", source: "503 Slow Down".into() }
}

fn run_out() -> Error {
    Error::Unauthenticated { path: "a.parquet".to_owned(), source: "ExpiredToken".into() }
}

fn replaced() -> Error {
    Error::Precondition { path: "a.parquet".to_owned(), source: "If-Match".into() }
}

/// A store with one file whose column, in one chunk, has more than 2 MiB.
async fn objects() -> (Arc<InMemory>, ObjectPath) {
    let batch = batch(vec![("id", int64(0..300_000))]);
    let properties =
        WriterProperties::builder().set_dictionary_enabled(false).set_compression(Compression::UNCOMPRESSED).build();
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    let (objects, key) = (Arc::new(InMemory::new()), ObjectPath::from("a.parquet"));
    objects.put(&key, bytes.into()).await.unwrap();
    (objects, key)
}

/// The first 2 MiB of the column.
async fn chunk_range(file: &ParquetFile) -> Range<u64> {
    let footer = footers().get(file).await.unwrap();
    assert_eq!(footer.num_row_groups(), 1);
    let (start, length) = footer.row_group(0).column(0).byte_range();
    assert!(length >= 2 * MIB, "{length}");
    start..start + 2 * MIB
}

async fn within_seconds<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(5), future).await.expect("it waits for what nobody polls")
}

#[tokio::test]
async fn a_footer_is_had_while_who_asked_first_polls_no_more() {
    let (objects, key) = objects().await;
    let access = Access::to(&objects);
    let (cache, file) = (footers(), access.open(&key).await);
    let mut first = std::pin::pin!(cache.get(&file));
    assert!(futures::poll!(first.as_mut()).is_pending());
    let second = within_seconds(cache.get(&file)).await.unwrap();
    assert_eq!(access.get_count(), 1, "it is read once");
    assert!(Arc::ptr_eq(&first.await.unwrap(), &second));
}

#[tokio::test]
async fn a_footer_is_had_when_who_asked_first_has_given_up() {
    let (objects, key) = objects().await;
    let (cache, file) = (footers(), Access::to(&objects).open(&key).await);
    {
        let mut first = std::pin::pin!(cache.get(&file));
        assert!(futures::poll!(first.as_mut()).is_pending());
    }
    within_seconds(cache.get(&file)).await.unwrap();
}

#[tokio::test]
async fn a_footer_that_cannot_be_read_is_an_error_of_its_kind_for_all_who_wait_and_not_for_the_next() {
    let (objects, key) = objects().await;
    let access = Access::to(&objects);
    let (cache, file) = (footers(), access.open(&key).await);
    access.fail_with(Some(replaced));
    let mut first = std::pin::pin!(cache.get(&file));
    assert!(futures::poll!(first.as_mut()).is_pending());
    let second = within_seconds(cache.get(&file)).await.unwrap_err();
    for error in [first.await.unwrap_err(), second] {
        let error = EngineError::from(error);
        assert_eq!(error.kind(), ErrorKind::Retry, "{error}");
        assert!(error.to_string().starts_with("memory:///a.parquet: changed"), "{error}");
    }
    access.fail_with(None);
    cache.get(&file).await.unwrap();
}

#[tokio::test]
async fn who_waits_for_one_whose_access_has_run_out_reads_the_footer_by_its_own() {
    let (objects, key) = objects().await;
    let (old, new) = (Access::to(&objects), Access::to(&objects));
    let (cache, first, second) = (footers(), old.open(&key).await, new.open(&key).await);
    old.fail_with(Some(run_out));
    let mut waiting = std::pin::pin!(cache.get(&first));
    assert!(futures::poll!(waiting.as_mut()).is_pending());
    within_seconds(cache.get(&second)).await.unwrap();
    assert!(waiting.await.is_err());
}

#[tokio::test]
async fn pages_are_read_through_the_file_that_was_opened_last() {
    let (objects, key) = objects().await;
    let (old, new) = (Access::to(&objects), Access::to(&objects));
    let (first, second) = (old.open(&key).await, new.open(&key).await);
    let range = chunk_range(&first).await;
    let store = store(64 * MIB, late_clock());
    // The cursor of the first query is kept, and not read on.
    let known = pages(&store, &first).await.unwrap();
    pages(&store, &second).await.unwrap();
    old.fail_with(Some(run_out));
    let (bytes, read_bytes) = read(&known, &second, std::slice::from_ref(&range)).await;
    assert!(bytes[0].len() as u64 == range.end - range.start && read_bytes > 0);
    // Who was first has new credentials, and comes again.
    old.fail_with(None);
    new.fail_with(Some(run_out));
    pages(&store, &first).await.unwrap();
    store.pool().pool().clear();
    let (again, read_bytes) = read(&known, &first, std::slice::from_ref(&range)).await;
    assert!(again == bytes && read_bytes > 0);
}

#[tokio::test]
async fn a_store_that_fails_is_asked_once_for_pages_that_are_read_together() {
    let (objects, key) = objects().await;
    let access = Access::to(&objects);
    let file = access.open(&key).await;
    let range = chunk_range(&file).await;
    let store = store(64 * MIB, late_clock());
    let known = pages(&store, &file).await.unwrap();
    let counts = PageCounts::new(&ExecutionPlanMetricsSet::new(), 0);
    let failures: [(Failure, ErrorKind); 3] =
        [(unavailable, ErrorKind::Input), (run_out, ErrorKind::Input), (replaced, ErrorKind::Retry)];
    for (failure, kind) in failures {
        access.get_count.store(0, Ordering::SeqCst);
        access.fail_with(Some(failure));
        let error = known.read(&file, vec![range.clone()], &counts).await.unwrap_err();
        let error = EngineError::from(error);
        assert_eq!(error.kind(), kind, "{error}");
        assert_eq!(access.get_count(), 1, "{error}");
    }
    access.fail_with(None);
    assert_eq!(read(&known, &file, std::slice::from_ref(&range)).await.0[0].len() as u64, 2 * MIB);
}

//! `COPY … TO` an object store: its objects are all there, or none is.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures::TryStreamExt;
use futures::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, UploadPart,
};
use thermocline_engine::Session;
use thermocline_engine::datafusion::execution::object_store::ObjectStoreUrl;

use crate::harness::{self, rows, try_rows};

const URL: &str = "fragile://bucket";

/// A store in memory that takes so many objects and then no more, and knows how many uploads are open.
#[derive(Debug)]
struct FragileStore {
    inner: InMemory,
    state: Arc<StoreState>,
}

#[derive(Debug)]
struct StoreState {
    room: AtomicUsize,
    open_uploads: AtomicUsize,
}

impl StoreState {
    fn take_room(&self) -> Result<()> {
        match self.room.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |room| room.checked_sub(1)) {
            Ok(_) => Ok(()),
            Err(_) => Err(Error::Generic { store: "fragile", source: "out of order".into() }),
        }
    }
}

impl fmt::Display for FragileStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FragileStore")
    }
}

#[async_trait]
impl ObjectStore for FragileStore {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        self.state.take_room()?;
        self.inner.put_opts(location, payload, opts).await
    }

    async fn put_multipart_opts(&self, location: &Path, opts: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        let inner = self.inner.put_multipart_opts(location, opts).await?;
        self.state.open_uploads.fetch_add(1, Ordering::SeqCst);
        Ok(Box::new(FragileUpload { inner, state: Arc::clone(&self.state) }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.inner.get_opts(location, options).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

#[derive(Debug)]
struct FragileUpload {
    inner: Box<dyn MultipartUpload>,
    state: Arc<StoreState>,
}

#[async_trait]
impl MultipartUpload for FragileUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        self.inner.put_part(data)
    }

    async fn complete(&mut self) -> Result<PutResult> {
        self.state.take_room()?;
        self.state.open_uploads.fetch_sub(1, Ordering::SeqCst);
        self.inner.complete().await
    }

    async fn abort(&mut self) -> Result<()> {
        self.state.open_uploads.fetch_sub(1, Ordering::SeqCst);
        self.inner.abort().await
    }
}

/// A session that can write to a store with an object `kept.csv` and room for so many more.
async fn session_with_store(room: usize) -> (Session, Arc<FragileStore>) {
    let state = StoreState { room: AtomicUsize::new(room), open_uploads: AtomicUsize::new(0) };
    let store = Arc::new(FragileStore { inner: InMemory::new(), state: Arc::new(state) });
    store.inner.put(&Path::from("kept.csv"), "what was there".into()).await.unwrap();
    let session = harness::session();
    let url = ObjectStoreUrl::parse(URL).unwrap();
    session.context().runtime_env().register_object_store(url.as_ref(), Arc::clone(&store) as _);
    (session, store)
}

async fn set_piece_bytes(session: &Session, bytes: usize) {
    rows(session, &format!("SET datafusion.execution.objectstore_writer_buffer_size = {bytes}")).await;
}

/// Sizes of pieces that make a file one put, or an upload of many parts.
const PIECES: [usize; 2] = [10 << 20, 64 << 10];

impl FragileStore {
    async fn names(&self) -> Vec<String> {
        let objects: Vec<ObjectMeta> = self.inner.list(None).try_collect().await.unwrap();
        let mut names: Vec<String> = objects.into_iter().map(|object| object.location.to_string()).collect();
        names.sort();
        names
    }

    async fn text(&self, name: &str) -> String {
        let bytes = self.inner.get(&Path::from(name)).await.unwrap().bytes().await.unwrap();
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    /// Nothing is there but what was, and the store keeps no parts.
    async fn assert_untouched(&self) {
        assert_eq!(self.names().await, ["kept.csv"]);
        assert_eq!(self.text("kept.csv").await, "what was there");
        assert_eq!(self.state.open_uploads.load(Ordering::SeqCst), 0);
    }
}

fn series(count: usize) -> String {
    format!("SELECT value AS i, value % 3 AS k FROM generate_series(1, {count})")
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_put_in_place_when_all_are_written() {
    for bytes in PIECES {
        let (session, store) = session_with_store(usize::MAX).await;
        set_piece_bytes(&session, bytes).await;
        rows(&session, &format!("COPY ({}) TO '{URL}/kept.csv'", series(60_000))).await;
        assert_eq!(store.text("kept.csv").await.lines().count(), 60_001);
        let sql = format!("COPY ({}) TO '{URL}/parts/' STORED AS CSV PARTITIONED BY (k)", series(60_000));
        rows(&session, &sql).await;
        let names = store.names().await;
        assert_eq!(names.len(), 4, "{names:?}");
        for name in names.iter().filter(|name| name.starts_with("parts/")) {
            assert_eq!(store.text(name).await.lines().count(), 20_001, "{name}");
        }
        assert_eq!(store.state.open_uploads.load(Ordering::SeqCst), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_fail_late_put_no_object() {
    let late = "SELECT 1 / (50000 - value) AS i, value % 3 AS k FROM generate_series(1, 60000)";
    for bytes in PIECES {
        let (session, store) = session_with_store(usize::MAX).await;
        set_piece_bytes(&session, bytes).await;
        for target in ["kept.csv'", "new.parquet'", "parts/' STORED AS CSV PARTITIONED BY (k)"] {
            let message = harness::error(&session, &format!("COPY ({late}) TO '{URL}/{target}")).await;
            assert!(message.contains("Divide by zero"), "{message}");
            store.assert_untouched().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_fails_is_told_with_the_object_and_keeps_none_of_the_others() {
    for bytes in PIECES {
        for room in 0..3 {
            let (session, store) = session_with_store(room).await;
            set_piece_bytes(&session, bytes).await;
            let sql = format!("COPY ({}) TO '{URL}/parts/' STORED AS CSV PARTITIONED BY (k)", series(60_000));
            let message = harness::error(&session, &sql).await;
            assert!(message.starts_with("fragile://bucket/parts/k="), "{message}");
            assert!(message.contains("cannot write") && message.contains("out of order"), "{message}");
            store.assert_untouched().await;
        }
        let (session, store) = session_with_store(0).await;
        set_piece_bytes(&session, bytes).await;
        let message = harness::error(&session, &format!("COPY ({}) TO '{URL}/kept.csv'", series(60_000))).await;
        assert!(message.starts_with("fragile://bucket/kept.csv: cannot write: "), "{message}");
        store.assert_untouched().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_copy_has_its_upload_aborted() {
    let (session, store) = session_with_store(usize::MAX).await;
    set_piece_bytes(&session, 64 << 10).await;
    let endless = "SELECT a.value + b.value AS i FROM generate_series(1, 1000000) a, generate_series(1, 1000000) b";
    let running = tokio::spawn({
        let (session, sql) = (session.clone(), format!("COPY ({endless}) TO '{URL}/kept.csv'"));
        async move { try_rows(&session, &sql).await }
    });
    let open_uploads = async |expected| {
        let waited = async {
            while store.state.open_uploads.load(Ordering::SeqCst) != expected {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), waited).await.expect("uploads are not as expected");
    };
    open_uploads(1).await;
    running.abort();
    assert!(running.await.is_err_and(|error| error.is_cancelled()));
    open_uploads(0).await;
    store.assert_untouched().await;
}

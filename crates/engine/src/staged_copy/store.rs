//! The object store that a sink writes to: nothing of it is in place before the staging says so.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool};
use futures::stream::BoxStream;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMode,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

use super::files::FileUpload;
use super::objects::{ObjectPlace, ObjectUpload, StagedObject};
use super::staging::Staging;

/// Stages what is written to `inner`; everything else is as there.
#[derive(Debug)]
pub(super) struct StagingStore {
    staging: Arc<Staging>,
    inner: Arc<dyn ObjectStore>,
    /// Ends in a slash.
    url: String,
    /// Whether `inner` stands for the files of this machine.
    is_local: bool,
    pool: Arc<dyn MemoryPool>,
}

impl StagingStore {
    pub(super) fn new(
        staging: Arc<Staging>,
        inner: Arc<dyn ObjectStore>,
        url: &str,
        pool: Arc<dyn MemoryPool>,
    ) -> Self {
        // By its name and root: a host may have put another store in its place.
        let is_local = inner.to_string() == LocalFileSystem::new().to_string();
        let slash = if url.ends_with('/') { "" } else { "/" };
        Self { staging, inner, url: format!("{url}{slash}"), is_local, pool }
    }

    fn place(&self, location: &Path) -> ObjectPlace {
        let url = format!("{}{location}", self.url);
        ObjectPlace { store: Arc::clone(&self.inner), location: location.clone(), url }
    }
}

impl fmt::Display for StagingStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StagingStore({})", self.inner)
    }
}

#[async_trait]
impl ObjectStore for StagingStore {
    /// DataFusion's writers put what is less than 10 MiB as a whole. Objects stay in memory where there is some: uploads
    /// take three requests, and not all stores have them.
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        if !matches!(opts.mode, PutMode::Overwrite) {
            let operation = format!("`put_opts` with mode {:?}", opts.mode);
            return Err(Error::NotImplemented { operation, implementer: self.to_string() });
        }
        if !self.is_local {
            let reserved = MemoryConsumer::new("COPY: an object until all are written").register(&self.pool);
            if reserved.try_grow(payload.content_length()).is_ok() {
                self.staging.note_begun();
                self.staging.finish_object(StagedObject::whole(self.place(location), payload, opts, reserved))?;
                return Ok(PutResult { e_tag: None, version: None });
            }
        }
        let PutOptions { tags, attributes, extensions, .. } = opts;
        let mut upload =
            self.put_multipart_opts(location, PutMultipartOptions { tags, attributes, extensions }).await?;
        upload.put_part(payload).await?;
        upload.complete().await
    }

    async fn put_multipart_opts(&self, location: &Path, opts: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        if self.is_local {
            let target = std::path::Path::new("/").join(location.as_ref());
            return Ok(Box::new(FileUpload::begin(&self.staging, &target)?));
        }
        let place = self.place(location);
        match self.inner.put_multipart_opts(location, opts).await {
            Ok(upload) => Ok(Box::new(ObjectUpload::new(&self.staging, place, upload))),
            Err(error) => Err(self.staging.note_failed_write(place.failed(error))),
        }
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.inner.get_opts(location, options).await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.inner.get_ranges(location, ranges).await
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

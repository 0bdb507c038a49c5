//! Objects of a store, which are there when the store is told so.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::execution::memory_pool::MemoryReservation;
use futures::FutureExt;
use futures::future::ready;
use object_store::path::Path;
use object_store::{MultipartUpload, ObjectStore, ObjectStoreExt, PutOptions, PutPayload, PutResult, UploadPart};
use thermocline_medium::MediumError;

use super::staging::{Staging, given_up};

/// Where an object is to be.
#[derive(Clone)]
pub(super) struct ObjectPlace {
    pub(super) store: Arc<dyn ObjectStore>,
    pub(super) location: Path,
    pub(super) url: String,
}

impl ObjectPlace {
    /// The error of a call on the object.
    pub(super) fn failed(&self, source: object_store::Error) -> MediumError {
        MediumError::from_store(&self.url, "write", source)
    }
}

/// An object of which all bytes are there, but not under its name.
pub(super) struct StagedObject {
    place: ObjectPlace,
    content: Content,
}

enum Content {
    /// All its parts are with the store.
    Upload(Box<dyn MultipartUpload>),
    /// In memory, which is reserved.
    Whole { payload: PutPayload, options: PutOptions, _reserved: MemoryReservation },
    /// In place.
    Placed,
    /// What became of it is not known: the store failed, or was not waited for.
    Sent,
}

impl StagedObject {
    /// One that the store is sent as a whole.
    pub(super) fn whole(
        place: ObjectPlace,
        payload: PutPayload,
        options: PutOptions,
        reserved: MemoryReservation,
    ) -> Self {
        Self { place, content: Content::Whole { payload, options, _reserved: reserved } }
    }

    /// Puts it under its name.
    pub(super) async fn place(&mut self) -> Result<(), MediumError> {
        let ObjectPlace { store, location, .. } = &self.place;
        let outcome = match std::mem::replace(&mut self.content, Content::Sent) {
            Content::Upload(mut upload) => {
                let outcome = upload.complete().await;
                if outcome.is_err() {
                    self.content = Content::Upload(upload);
                }
                outcome
            }
            Content::Whole { payload, options, .. } => store.put_opts(location, payload, options).await,
            Content::Placed | Content::Sent => return Ok(()),
        };
        outcome.map_err(|error| self.place.failed(error))?;
        self.content = Content::Placed;
        Ok(())
    }

    /// Removes it, from its place too. Only statements of several objects come to that, whose names are new.
    pub(super) async fn remove(&mut self) -> object_store::Result<()> {
        match &mut self.content {
            Content::Upload(upload) => upload.abort().await,
            Content::Placed => self.place.store.delete(&self.place.location).await,
            Content::Whole { .. } | Content::Sent => Ok(()),
        }
    }
}

/// What DataFusion's writers write an object through.
pub(super) struct ObjectUpload {
    staging: Arc<Staging>,
    place: ObjectPlace,
    /// Until it is complete.
    upload: Option<Box<dyn MultipartUpload>>,
}

impl ObjectUpload {
    pub(super) fn new(staging: &Arc<Staging>, place: ObjectPlace, upload: Box<dyn MultipartUpload>) -> Self {
        staging.note_begun();
        Self { staging: Arc::clone(staging), place, upload: Some(upload) }
    }
}

impl fmt::Debug for ObjectUpload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectUpload").field("url", &self.place.url).finish_non_exhaustive()
    }
}

#[async_trait]
impl MultipartUpload for ObjectUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let Some(upload) = &mut self.upload else { return ready(Err(given_up())).boxed() };
        let part = upload.put_part(data);
        let (staging, place) = (Arc::clone(&self.staging), self.place.clone());
        async move { part.await.map_err(|error| staging.note_failed_write(place.failed(error))) }.boxed()
    }

    /// Keeps the store waiting for its being told.
    async fn complete(&mut self) -> object_store::Result<PutResult> {
        let upload = self.upload.take().ok_or_else(given_up)?;
        self.staging.finish_object(StagedObject { place: self.place.clone(), content: Content::Upload(upload) })?;
        Ok(PutResult { e_tag: None, version: None })
    }

    /// Leaves it unfinished.
    async fn abort(&mut self) -> object_store::Result<()> {
        Ok(())
    }
}

impl Drop for ObjectUpload {
    fn drop(&mut self) {
        if let Some(upload) = self.upload.take() {
            self.staging.leave_upload(upload);
        }
    }
}

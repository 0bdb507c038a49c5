//! Bytes on their way into a local file.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use futures::FutureExt;
use object_store::{MultipartUpload, PutPayload, PutResult, UploadPart};
use thermocline_medium::{MediumError, StagedBytes};

use super::staging::Staging;

/// What DataFusion's writers write a file through. The file itself is the staging's.
#[derive(Debug)]
pub(super) struct FileUpload {
    staging: Arc<Staging>,
    bytes: Arc<StagedBytes>,
    next_offset: u64,
}

impl FileUpload {
    /// Begins the file that is to be at `target`.
    pub(super) fn begin(staging: &Arc<Staging>, target: &Path) -> object_store::Result<Self> {
        let bytes = staging.begin_file(target)?;
        Ok(Self { staging: Arc::clone(staging), bytes: Arc::new(bytes), next_offset: 0 })
    }
}

#[async_trait]
impl MultipartUpload for FileUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let (staging, bytes, mut offset) = (Arc::clone(&self.staging), Arc::clone(&self.bytes), self.next_offset);
        self.next_offset += data.content_length() as u64;
        let write = move || {
            data.iter().try_for_each(|piece| {
                bytes.write_at(piece, offset)?;
                offset += piece.len() as u64;
                Ok(())
            })
        };
        async move { blocking(write).await?.map_err(|error| staging.note_failed_write(error)) }.boxed()
    }

    async fn complete(&mut self) -> object_store::Result<PutResult> {
        let bytes = Arc::clone(&self.bytes);
        let finished = blocking(move || bytes.finish()).await?;
        finished.map_err(|error| self.staging.note_failed_write(error))?;
        self.staging.finish_file();
        Ok(PutResult { e_tag: None, version: None })
    }

    /// Leaves it unfinished.
    async fn abort(&mut self) -> object_store::Result<()> {
        Ok(())
    }
}

/// Runs what waits for a disk where it keeps no task waiting.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, MediumError> + Send + 'static,
) -> object_store::Result<Result<T, MediumError>> {
    Ok(tokio::task::spawn_blocking(work).await?)
}

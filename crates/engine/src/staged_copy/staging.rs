//! What one `COPY` has written and not yet put in place, and what went wrong first.

use std::fmt;
use std::mem;
use std::path::Path;
use std::sync::Arc;

use datafusion::common::{DataFusionError, Result, internal_err};
use futures::future::join_all;
use object_store::MultipartUpload;
use parking_lot::Mutex;
use thermocline_medium::{Access, MadeFolders, MediumError, StagedBytes, StagedFile};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use super::objects::StagedObject;

/// Requests to a store at a time: as many as DataFusion's writers have for one object.
const REQUESTS_AT_ONCE: usize = 8;

/// The writes of one statement, shared by the tasks of its sink.
pub(super) struct Staging {
    access: Arc<Access>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Nothing is begun any more.
    is_closed: bool,
    /// All rows were taken.
    has_ended: bool,
    first_failure: Option<Arc<DataFusionError>>,
    /// Writes whose bytes are not all there.
    unfinished_count: usize,
    held: Held,
}

impl fmt::Debug for Staging {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Staging").field("unfinished_count", &self.state.lock().unfinished_count).finish_non_exhaustive()
    }
}

impl Staging {
    /// Nothing is written yet; files are to be where `access` allows it.
    pub(super) fn new(access: Arc<Access>) -> Self {
        let held = Held::on(Handle::try_current().ok());
        Self { access, state: Mutex::new(State { held, ..State::default() }) }
    }

    /// Takes note that the input has no more rows.
    pub(super) fn note_end(&self) {
        self.state.lock().has_ended = true;
    }

    /// Takes note of an error, if it is the first, and gives it back.
    pub(super) fn note_failure(&self, error: DataFusionError) -> DataFusionError {
        let error = Arc::new(error);
        self.state.lock().first_failure.get_or_insert_with(|| Arc::clone(&error));
        DataFusionError::Shared(error)
    }

    /// Takes note of a failed write. What is returned is for the sink, which makes words of it that nobody gets to see.
    pub(super) fn note_failed_write(&self, error: MediumError) -> object_store::Error {
        let error = self.note_failure(DataFusionError::External(Box::new(error)));
        object_store::Error::Generic { store: "staging", source: Box::new(error) }
    }

    /// Creates what is to be the file `target`.
    pub(super) fn begin_file(&self, target: &Path) -> object_store::Result<StagedBytes> {
        // The target was judged while the statement was planned. Partitions have folders of their own, and what is a link
        // may have changed.
        let target = self.access.checked(target).map_err(|error| self.note_failed_write(error))?;
        // Under the lock: whoever closes the staging finds all files that there are.
        let created = {
            let mut state = self.state.lock();
            if state.is_closed {
                return Err(given_up());
            }
            StagedFile::create(&target, &mut state.held.folders).map(|(file, bytes)| {
                state.unfinished_count += 1;
                state.held.files.push(file);
                bytes
            })
        };
        created.map_err(|error| self.note_failed_write(error))
    }

    /// Takes note that the bytes of an object begin to come.
    pub(super) fn note_begun(&self) {
        self.state.lock().unfinished_count += 1;
    }

    /// Takes note that all bytes of a file are there.
    pub(super) fn finish_file(&self) {
        self.state.lock().finish_one();
    }

    /// Takes an object of which all bytes are there.
    pub(super) fn finish_object(&self, object: StagedObject) -> object_store::Result<()> {
        let mut late = Held::default();
        let mut state = self.state.lock();
        if state.is_closed {
            late.runtime.clone_from(&state.held.runtime);
            late.remote.objects.push(object);
            return Err(given_up());
        }
        state.finish_one();
        state.held.remote.objects.push(object);
        Ok(())
    }

    /// Takes an upload that nobody goes on with. It stays unfinished.
    pub(super) fn leave_upload(&self, upload: Box<dyn MultipartUpload>) {
        let mut late = Held::default();
        let mut state = self.state.lock();
        late.runtime.clone_from(&state.held.runtime);
        let held = if state.is_closed { &mut late } else { &mut state.held };
        held.remote.left.push(upload);
    }

    /// Puts everything in place.
    ///
    /// # Errors
    /// Something that cannot be put in place: then all the others are removed again. Something went wrong before, which
    /// [`give_up`](Self::give_up) tells.
    pub(super) async fn place(&self) -> Result<()> {
        let mut held = {
            let mut state = self.state.lock();
            if state.first_failure.is_some() || !state.has_ended || state.unfinished_count > 0 {
                let (has_ended, unfinished_count) = (state.has_ended, state.unfinished_count);
                return internal_err!("a sink was done too early: all rows {has_ended}, unfinished {unfinished_count}");
            }
            state.is_closed = true;
            state.held.take()
        };
        match held.place().await {
            Ok(()) => {
                held.keep();
                Ok(())
            }
            Err(error) => {
                held.removed().await;
                Err(DataFusionError::External(Box::new(error)))
            }
        }
    }

    /// Removes everything; the error that came first, if any was noted.
    pub(super) async fn give_up(&self) -> Option<DataFusionError> {
        self.close().removed().await;
        self.state.lock().first_failure.take().map(DataFusionError::Shared)
    }

    /// From now on nothing is begun. Dropping what was held removes it.
    pub(super) fn close(&self) -> Held {
        let mut state = self.state.lock();
        state.is_closed = true;
        state.held.take()
    }
}

impl State {
    fn finish_one(&mut self) {
        self.unfinished_count = self.unfinished_count.saturating_sub(1);
    }
}

/// For tasks that outlive their statement.
pub(super) fn given_up() -> object_store::Error {
    object_store::Error::Generic { store: "staging", source: "the statement was given up".into() }
}

/// What was written. Dropped without [`keep`](Self::keep) it is removed: files and folders at once, the rest by a task.
#[derive(Default)]
pub(super) struct Held {
    // Before the folders, which are removed when they are empty.
    files: Vec<StagedFile>,
    folders: MadeFolders,
    remote: Remote,
    /// Where tasks can be begun.
    runtime: Option<Handle>,
}

/// What a store has, or is to have.
#[derive(Default)]
struct Remote {
    objects: Vec<StagedObject>,
    /// Uploads that were begun and left.
    left: Vec<Box<dyn MultipartUpload>>,
}

impl Held {
    fn on(runtime: Option<Handle>) -> Self {
        let mut held = Self::default();
        held.runtime = runtime;
        held
    }

    fn take(&mut self) -> Self {
        let none = Self::on(self.runtime.clone());
        mem::replace(self, none)
    }

    async fn place(&mut self) -> Result<(), MediumError> {
        // Without a pause: who drops the statement finds none in place or all.
        for file in &mut self.files {
            file.place()?;
        }
        for some in self.remote.objects.chunks_mut(REQUESTS_AT_ONCE) {
            let outcomes = join_all(some.iter_mut().map(StagedObject::place)).await;
            outcomes.into_iter().collect::<Result<(), _>>()?;
        }
        Ok(())
    }

    fn keep(mut self) {
        self.files.iter_mut().for_each(StagedFile::keep);
        self.folders.keep();
        self.remote = Remote::default();
    }

    /// Removes what was written, and waits for the store.
    async fn removed(mut self) {
        if let Some(task) = self.remove() {
            // A task, so that who stops waiting does not stop it. What becomes of it is the store's to tell.
            let _ = task.await;
        }
    }

    fn remove(&mut self) -> Option<JoinHandle<()>> {
        self.files.clear();
        self.folders = MadeFolders::default();
        let remote = mem::take(&mut self.remote);
        if remote.left.is_empty() && remote.objects.is_empty() {
            return None;
        }
        self.runtime.as_ref().map(|runtime| runtime.spawn(remote.removed()))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        drop(self.remove());
    }
}

impl Remote {
    /// What fails here leaves parts without a name, which stores can be told to remove some day, or objects under new
    /// names, of a statement that has failed.
    async fn removed(mut self) {
        for some in self.left.chunks_mut(REQUESTS_AT_ONCE) {
            join_all(some.iter_mut().map(|upload| upload.abort())).await;
        }
        for some in self.objects.chunks_mut(REQUESTS_AT_ONCE) {
            join_all(some.iter_mut().map(StagedObject::remove)).await;
        }
    }
}

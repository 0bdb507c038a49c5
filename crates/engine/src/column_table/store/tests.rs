//! What happens between a table's lookup and its being open.

#![allow(clippy::unwrap_used)]

use thermocline_medium::{MediumFile, Result as MediumResult, SimulatedMedium};

use super::*;
use crate::database::{DEFAULT_SCHEMA, Database, DatabaseOptions};

/// What is to happen once.
type Meanwhile = Box<dyn FnOnce() + Send>;

/// A medium on which something happens when the next segment has been opened, before any of it is read.
struct Interrupted {
    inner: SimulatedMedium,
    meanwhile: Mutex<Option<Meanwhile>>,
}

impl fmt::Debug for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl Medium for Interrupted {
    fn describe(&self) -> String {
        self.inner.describe()
    }

    fn create(&self, name: &str) -> MediumResult<MediumFile> {
        self.inner.create(name)
    }

    fn open(&self, name: &str) -> MediumResult<MediumFile> {
        let file = self.inner.open(name)?;
        let meanwhile = self.meanwhile.lock().take_if(|_| name.ends_with(".segment"));
        if let Some(meanwhile) = meanwhile {
            meanwhile();
        }
        Ok(file)
    }

    fn open_writable(&self, name: &str) -> MediumResult<MediumFile> {
        self.inner.open_writable(name)
    }

    fn remove(&self, name: &str) -> MediumResult<()> {
        self.inner.remove(name)
    }

    fn rename(&self, from: &str, to: &str) -> MediumResult<()> {
        self.inner.rename(from, to)
    }

    fn list(&self) -> MediumResult<Vec<String>> {
        self.inner.list()
    }

    fn size_bytes(&self, file: &MediumFile) -> MediumResult<u64> {
        self.inner.size_bytes(file)
    }

    fn read_at(&self, file: &MediumFile, offset_bytes: u64, buffer: &mut [u8]) -> MediumResult<()> {
        self.inner.read_at(file, offset_bytes, buffer)
    }

    fn write_at(&self, file: &MediumFile, offset_bytes: u64, bytes: &[u8]) -> MediumResult<()> {
        self.inner.write_at(file, offset_bytes, bytes)
    }

    fn sync_data(&self, file: &MediumFile) -> MediumResult<()> {
        self.inner.sync_data(file)
    }

    fn sync_namespace(&self) -> MediumResult<()> {
        self.inner.sync_namespace()
    }
}

/// A table that is opened while `meanwhile` happens, and the tables that it is of.
async fn opened_while(
    folder: &tempfile::TempDir,
    meanwhile: impl FnOnce(&ColumnTables, &EntryName) + Send + 'static,
) -> (Arc<Database>, EntryName, Arc<OpenTable>) {
    let medium = Arc::new(Interrupted { inner: SimulatedMedium::new(512), meanwhile: Mutex::default() });
    let options = DatabaseOptions {
        folder: Some(folder.path().to_path_buf()),
        memory_bytes: Some(64 << 20),
        threads: Some(1),
        ..DatabaseOptions::default()
    };
    let database = Database::open_on(options, Some(Arc::<Interrupted>::clone(&medium))).unwrap();
    database.session().sql("CREATE TABLE t AS SELECT 1 AS a").await.unwrap().collect().await.unwrap();
    let (tables, name) = (Arc::clone(database.column_tables().unwrap()), EntryName::new(DEFAULT_SCHEMA, "t"));
    let (changed, of) = (Arc::clone(&tables), name.clone());
    *medium.meanwhile.lock() = Some(Box::new(move || meanwhile(&changed, &of)));
    let opened = tables.table(&name).unwrap().unwrap();
    assert!(medium.meanwhile.lock().is_none(), "the table was open before");
    (database, name, opened)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_is_dropped_while_it_is_opened_does_not_stay_open() {
    let folder = tempfile::tempdir().unwrap();
    let drop_table = |tables: &ColumnTables, name: &EntryName| {
        tables.commit(|manifest| Ok(manifest.entries.remove(name))).unwrap();
    };
    let (database, name, opened) = opened_while(&folder, drop_table).await;
    let segment = Arc::downgrade(&opened.segments[0]);
    drop(opened);
    assert!(segment.upgrade().is_none(), "nobody has it any more");
    assert!(database.column_tables().unwrap().table(&name).unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_is_read_as_was_set_while_it_was_opened() {
    let folder = tempfile::tempdir().unwrap();
    let slow = Reading { simulated_bytes_per_s: Some(1 << 40), ..Reading::default() };
    let slow_down = move |tables: &ColumnTables, _: &EntryName| tables.set_reading(slow).unwrap();
    let (database, name, begun) = opened_while(&folder, slow_down).await;
    assert!(!begun.medium.describe().contains("throttled"));
    let next = database.column_tables().unwrap().table(&name).unwrap().unwrap();
    assert!(next.medium.describe().contains("throttled"), "{}", next.medium.describe());
    assert!(!Arc::ptr_eq(&begun.segments[0], &next.segments[0]), "its pages would be read as before");
    let again = database.column_tables().unwrap().table(&name).unwrap().unwrap();
    assert!(Arc::ptr_eq(&next, &again), "it stays open");
}

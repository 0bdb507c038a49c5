//! What happens between a table's lookup and its being open, and while a table is written that nobody wants any more.

#![allow(clippy::unwrap_used)]

use thermocline_medium::{MediumFile, Result as MediumResult, SimulatedMedium};

use super::*;
use crate::database::{DEFAULT_SCHEMA, Database, DatabaseOptions};

/// What is to happen once.
type Meanwhile = Box<dyn FnOnce() + Send>;

/// A medium on which something happens when the next segment has been opened, before any of it is read, or when the next
/// manifest is about to be made.
struct Interrupted {
    inner: SimulatedMedium,
    meanwhile: Mutex<Option<Meanwhile>>,
    before_manifest: Mutex<Option<Meanwhile>>,
}

impl Interrupted {
    fn new() -> Arc<Self> {
        let inner = SimulatedMedium::new(512);
        Arc::new(Self { inner, meanwhile: Mutex::default(), before_manifest: Mutex::default() })
    }
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
        let before = self.before_manifest.lock().take_if(|_| name == "manifest.new");
        if let Some(before) = before {
            before();
        }
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

fn open(folder: &tempfile::TempDir, medium: &Arc<Interrupted>) -> Result<Arc<Database>> {
    let options = DatabaseOptions {
        folder: Some(folder.path().to_path_buf()),
        memory_bytes: Some(64 << 20),
        threads: Some(1),
        ..DatabaseOptions::default()
    };
    Database::open_on(options, Some(Arc::<Interrupted>::clone(medium)))
}

/// A table that is opened while `meanwhile` happens, and the tables that it is of.
async fn opened_while(
    folder: &tempfile::TempDir,
    meanwhile: impl FnOnce(&ColumnTables, &EntryName) + Send + 'static,
) -> (Arc<Database>, EntryName, Arc<OpenTable>) {
    let medium = Interrupted::new();
    let database = open(folder, &medium).unwrap();
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

#[tokio::test(flavor = "multi_thread")]
async fn the_folder_stays_locked_while_a_thread_writes_for_a_database_that_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let medium = Interrupted::new();
    let database = open(&folder, &medium).unwrap();
    let (begin, begun) = std::sync::mpsc::channel();
    let (go_on, told_to) = std::sync::mpsc::channel::<()>();
    *medium.before_manifest.lock() = Some(Box::new(move || {
        begin.send(()).unwrap();
        told_to.recv().ok();
    }));
    let session = database.session();
    let making = tokio::spawn(async move {
        session.sql("CREATE TABLE t AS SELECT 1 AS a").await.unwrap().collect().await.unwrap();
    });
    begun.recv().unwrap();
    making.abort();
    assert!(making.await.unwrap_err().is_cancelled());
    drop(database);
    let refused = open(&folder, &medium).unwrap_err().to_string();
    assert!(refused.contains("in this process already"), "{refused}");
    drop(go_on);
    let database = open(&folder, &medium).unwrap();
    let files = medium.list().unwrap();
    assert!(files.iter().all(|file| file == "manifest"), "{files:?}");
    assert!(database.column_tables().unwrap().manifest().entries.is_empty());
}

#[test]
fn a_column_has_no_more_values_than_lie_between_its_bounds_however_far_these_are() {
    assert_eq!(most_values_between(-3, 4, 1000), 9);
    assert_eq!(most_values_between(-3, 4, 5), 5);
    assert_eq!(most_values_between(0, i128::from(u64::MAX), 1000), 1000);
    let greatest = 10_i128.pow(38) - 1;
    assert_eq!(most_values_between(-greatest, greatest, 1000), 1000);
}

//! A crash at every operation, in every recovery, and with every sync left out.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use thermocline_medium::{Exploration, Explored, Finding, Medium, MediumFile, MemoryMedium, Result};

use super::changes::{name, table, write_segment};
use super::story::{Outcome, Record, require_whole, work};
use crate::catalog::{Catalog, CatalogError};

/// A medium that leaves out one sync and says that it is done.
#[derive(Debug)]
struct Forgetful {
    medium: Arc<dyn Medium>,
    left_out: u64,
    sync_count: AtomicU64,
}

impl Forgetful {
    fn new(medium: &Arc<dyn Medium>, left_out: u64) -> Arc<Self> {
        Arc::new(Self { medium: Arc::clone(medium), left_out, sync_count: AtomicU64::new(0) })
    }

    fn remembers(&self) -> bool {
        self.sync_count.fetch_add(1, Ordering::Relaxed) != self.left_out
    }
}

impl Medium for Forgetful {
    fn describe(&self) -> String {
        self.medium.describe()
    }

    fn create(&self, name: &str) -> Result<MediumFile> {
        self.medium.create(name)
    }

    fn open(&self, name: &str) -> Result<MediumFile> {
        self.medium.open(name)
    }

    fn open_writable(&self, name: &str) -> Result<MediumFile> {
        self.medium.open_writable(name)
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.medium.remove(name)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.medium.rename(from, to)
    }

    fn list(&self) -> Result<Vec<String>> {
        self.medium.list()
    }

    fn size_bytes(&self, file: &MediumFile) -> Result<u64> {
        self.medium.size_bytes(file)
    }

    fn read_at(&self, file: &MediumFile, offset_bytes: u64, buffer: &mut [u8]) -> Result<()> {
        self.medium.read_at(file, offset_bytes, buffer)
    }

    fn write_at(&self, file: &MediumFile, offset_bytes: u64, bytes: &[u8]) -> Result<()> {
        self.medium.write_at(file, offset_bytes, bytes)
    }

    fn sync_data(&self, file: &MediumFile) -> Result<()> {
        if self.remembers() { self.medium.sync_data(file) } else { Ok(()) }
    }

    fn sync_namespace(&self) -> Result<()> {
        if self.remembers() { self.medium.sync_namespace() } else { Ok(()) }
    }
}

/// Opens the database and compares it with the record.
fn check(medium: &Arc<dyn Medium>, record: &Record) -> Outcome {
    let manifest = Catalog::open(Arc::clone(medium))?.snapshot();
    if !record.allows(&manifest.entries) {
        return Err(format!("found {:?}, expected one of {record:?}", manifest.entries).into());
    }
    require_whole(medium.as_ref(), &manifest)
}

/// Opens the database, compares, and loads another table.
fn check_and_go_on(medium: &Arc<dyn Medium>, record: &Record) -> Outcome {
    let catalog = Catalog::open(Arc::clone(medium))?;
    let mut entries = catalog.snapshot().entries.clone();
    // Of the recovery that was stopped.
    entries.remove(&name("later"));
    if !record.allows(&entries) {
        return Err(format!("found {entries:?}, expected one of {record:?}").into());
    }
    let pending = catalog.new_segment()?;
    if record.given.contains(pending.name()) {
        return Err(format!("{} was given twice", pending.name()).into());
    }
    let segment = write_segment(medium.as_ref(), &pending)?;
    catalog.commit(|manifest| {
        manifest.entries.insert(name("later"), table(&[&segment]));
        Ok::<_, CatalogError>(())
    })?;
    require_whole(medium.as_ref(), &catalog.snapshot())
}

#[test]
fn changes_survive_every_crash_and_fault_whole_or_not_at_all() {
    for torn_bytes in [512, 8] {
        let exploration = Exploration { torn_bytes, ..Exploration::default() };
        let explored = exploration.run(work, check).unwrap();
        println!("{explored:?}");
        // Create, write, sync, rename and sync of names for each of seven manifests and the one for the first name; the first
        // three and a sync of names for each of three segments, all of which are removed.
        assert_eq!(explored.operation_count, 5 * 8 + 4 * 3 + 3);
        assert!(explored.recovery_crash_count > explored.crash_count);
    }
}

#[test]
fn a_recovered_database_takes_changes_and_gives_names_that_were_never_given() {
    let exploration = Exploration { seed_count: 6, recovery_seed_count: 3, ..Exploration::default() };
    let explored = exploration.run(work, check_and_go_on).unwrap();
    println!("{explored:?}");
}

/// The syncs of all work undisturbed.
fn sync_count() -> u64 {
    let forgetful = Forgetful::new(&(Arc::new(MemoryMedium::new()) as Arc<dyn Medium>), u64::MAX);
    let medium: Arc<dyn Medium> = Arc::<Forgetful>::clone(&forgetful);
    work(&medium, &mut Record::default()).unwrap();
    forgetful.sync_count.load(Ordering::Relaxed)
}

fn explore_without(left_out: u64) -> std::result::Result<Explored, Finding> {
    Exploration::default()
        .run(|medium, record| work(&(Forgetful::new(medium, left_out) as Arc<dyn Medium>), record), check)
}

#[test]
fn leaving_out_any_one_sync_is_found() {
    // Two for each of seven changes and the first name, two for each of three segments: data and name.
    let sync_count = sync_count();
    assert_eq!(sync_count, 2 * 8 + 2 * 3);
    for left_out in 0..sync_count {
        match explore_without(left_out) {
            Ok(explored) => panic!("nothing found without sync {left_out}: {explored:?}"),
            Err(finding) => println!("without sync {left_out}: {finding}"),
        }
    }
}

#[test]
fn leaving_out_the_sync_of_recovery_is_found() {
    let finding = Exploration::default()
        .run(work, |medium, record| check(&(Forgetful::new(medium, 0) as Arc<dyn Medium>), record))
        .unwrap_err();
    assert!(finding.story.contains("opened again, then a crash"), "{finding}");
}

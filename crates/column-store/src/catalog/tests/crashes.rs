//! A crash at every operation, in every recovery, and with every sync left out; with stand-ins for segments, and with
//! real ones.

use std::sync::Arc;

use thermocline_medium::{Exploration, Explored, Finding, Medium, MemoryMedium, SimulatedMedium};

use super::changes::{name, table};
use super::forgetful::Forgetful;
use super::story::{Outcome, REAL, Record, STAND_INS, Segments, require_segments, require_whole, work};
use crate::catalog::{Catalog, CatalogError};

/// Opens the database and compares it with the record.
fn check(segments: Segments, medium: &Arc<dyn Medium>, record: &Record) -> Outcome {
    let manifest = Catalog::open(Arc::clone(medium))?.snapshot();
    if !record.allows(&manifest.entries) {
        return Err(format!("found {:?}, expected one of {record:?}", manifest.entries).into());
    }
    require_whole(segments, medium, &manifest)
}

/// Opens the database, compares, and loads another table.
fn check_and_go_on(segments: Segments, medium: &Arc<dyn Medium>, record: &Record) -> Outcome {
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
    let segment = (segments.write)(medium, &pending)?;
    catalog.commit(|manifest| {
        manifest.entries.insert(name("later"), table(&[&segment]));
        Ok::<_, CatalogError>(())
    })?;
    require_whole(segments, medium, &catalog.snapshot())
}

fn explore(segments: Segments, exploration: Exploration) {
    let explored = exploration
        .run(|medium, record| work(segments, medium, record), |medium, record| check(segments, medium, record))
        .unwrap_or_else(|finding| panic!("{}: {finding}", segments.what));
    println!("{}: {explored:?}", segments.what);
    // Create, write, sync, rename and sync of names for each of seven manifests and the one for the first name; the
    // first three and a sync of names for each of three segments, all of which are removed.
    assert_eq!(explored.operation_count, 5 * 8 + 4 * 3 + 3);
    assert!(explored.recovery_crash_count > explored.crash_count);
}

#[test]
fn changes_survive_every_crash_and_fault_whole_or_not_at_all() {
    for torn_bytes in [512, 8] {
        explore(STAND_INS, Exploration { torn_bytes, ..Exploration::default() });
    }
}

#[test]
fn rows_survive_every_crash_and_fault_of_their_segments_and_of_the_catalog() {
    explore(REAL, Exploration { seed_count: 8, recovery_seed_count: 4, ..Exploration::default() });
}

#[test]
fn a_recovered_database_takes_changes_and_gives_names_that_were_never_given() {
    let exploration = Exploration { seed_count: 6, recovery_seed_count: 3, ..Exploration::default() };
    let explored = exploration
        .run(
            |medium, record| work(STAND_INS, medium, record),
            |medium, record| check_and_go_on(STAND_INS, medium, record),
        )
        .unwrap();
    println!("{explored:?}");
}

/// The syncs of all work undisturbed.
fn sync_count(segments: Segments) -> u64 {
    let forgetful = Forgetful::new(&(Arc::new(MemoryMedium::new()) as Arc<dyn Medium>), u64::MAX);
    let medium: Arc<dyn Medium> = Arc::<Forgetful>::clone(&forgetful);
    work(segments, &medium, &mut Record::default()).unwrap();
    forgetful.sync_count()
}

fn explore_without(segments: Segments, left_out: u64) -> Result<Explored, Finding> {
    Exploration::default().run(
        |medium, record| work(segments, &(Forgetful::new(medium, left_out) as Arc<dyn Medium>), record),
        |medium, record| check(segments, medium, record),
    )
}

#[test]
fn leaving_out_any_one_sync_is_found() {
    for segments in [STAND_INS, REAL] {
        // Two for each of seven changes and the first name, two for each of three segments: data and name.
        let sync_count = sync_count(segments);
        assert_eq!(sync_count, 2 * 8 + 2 * 3);
        for left_out in 0..sync_count {
            match explore_without(segments, left_out) {
                Ok(explored) => panic!("{}: nothing found without sync {left_out}: {explored:?}", segments.what),
                Err(finding) => println!("{}, without sync {left_out}: {finding}", segments.what),
            }
        }
    }
}

#[test]
fn leaving_out_the_sync_of_recovery_is_found() {
    for segments in [STAND_INS, REAL] {
        let finding = Exploration::default()
            .run(
                |medium, record| work(segments, medium, record),
                |medium, record| check(segments, &(Forgetful::new(medium, 0) as Arc<dyn Medium>), record),
            )
            .unwrap_err();
        assert!(finding.story.contains("opened again, then a crash"), "{finding}");
    }
}

#[test]
fn whoever_reads_after_a_crash_finds_all_that_was_acknowledged_and_repairs_nothing() {
    let whole = Arc::new(SimulatedMedium::new(512));
    work(REAL, &(Arc::<SimulatedMedium>::clone(&whole) as Arc<dyn Medium>), &mut Record::default()).unwrap();
    let operation_count = whole.operation_count();
    let mut left_count = 0;
    for index in 0..operation_count {
        let stopped = Arc::new(SimulatedMedium::new(512));
        stopped.stop_at(index);
        let mut record = Record::default();
        work(REAL, &(Arc::<SimulatedMedium>::clone(&stopped) as Arc<dyn Medium>), &mut record).unwrap_err();
        for seed in 0..12 {
            let found = Arc::new(stopped.crash(seed));
            let medium: Arc<dyn Medium> = Arc::<SimulatedMedium>::clone(&found);
            let story = format!("a crash at operation {index}, seed {seed}");
            let names = medium.list().unwrap();
            let catalog =
                Catalog::open_read_only(Arc::clone(&medium)).unwrap_or_else(|error| panic!("{story}: {error}"));
            let manifest = catalog.snapshot();
            assert!(record.allows(&manifest.entries), "{story}: {manifest:?}");
            require_segments(REAL, &medium, &manifest).unwrap_or_else(|error| panic!("{story}: {error}"));
            assert!(matches!(catalog.new_segment(), Err(CatalogError::ReadOnly)), "{story}");
            drop(catalog);
            assert_eq!((found.operation_count(), medium.list().unwrap()), (0, names.clone()), "{story}");
            left_count += usize::from(names.len() > 1 + manifest.segments().count());
        }
    }
    assert!(left_count > 0, "no crash left anything to repair");
}

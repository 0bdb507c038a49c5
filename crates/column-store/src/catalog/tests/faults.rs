//! Each operation fails once, and the program goes on; with stand-ins for segments, and with real ones.

use std::sync::Arc;

use thermocline_medium::{Fault, Medium, SimulatedMedium};

use super::changes::{name, set, view};
use super::story::{Entries, REAL, Record, STAND_INS, STEP_COUNT, Segments, require_whole, step};
use crate::catalog::{Catalog, CatalogError};

/// How a run of all changes went in which one operation failed.
struct Run {
    /// Operations of the changes alone.
    operation_count: u64,
    failed_operation: String,
    was_in_doubt: bool,
    had_error: bool,
    last: Entries,
}

/// Makes all changes, each again until it is made, with one operation that fails; after a doubt the catalog is opened
/// again.
fn run(segments: Segments, index: u64, fault: Fault) -> Run {
    let story = format!("{}: {fault:?} at operation {index}", segments.what);
    let simulated = Arc::new(SimulatedMedium::new(512));
    simulated.fail_at(index, fault);
    let medium: Arc<dyn Medium> = Arc::<SimulatedMedium>::clone(&simulated);
    let mut catalog = Catalog::open(Arc::clone(&medium)).unwrap();
    let mut record = Record::default();
    let (mut had_error, mut was_in_doubt) = (false, false);
    let mut next = 0;
    while next < STEP_COUNT {
        let before = catalog.snapshot();
        let Err(error) = step(segments, next, &catalog, &medium, &mut record) else {
            next += 1;
            continue;
        };
        assert!(!had_error, "{story}: a second error: {error}");
        had_error = true;
        assert_eq!(catalog.snapshot().entries, before.entries, "{story}");
        if matches!(error.downcast_ref(), Some(CatalogError::InDoubt { .. })) {
            was_in_doubt = true;
            let found = require_refusals(segments, catalog, &medium, &record, &story);
            catalog = found;
            // Whether it was saved is known now.
            if record.issued.last() == Some(&catalog.snapshot().entries) {
                record.acknowledged_count = record.issued.len();
                next += 1;
            }
        }
        record.issued.truncate(record.acknowledged_count);
    }
    let operation_count = simulated.operation_count();
    let last = catalog.snapshot();
    assert_eq!(record.issued.len(), STEP_COUNT, "{story}");
    assert_eq!(Some(&last.entries), record.issued.last(), "{story}");
    let again = Catalog::open(Arc::clone(&medium)).unwrap().snapshot();
    assert_eq!(again, last, "{story}");
    require_whole(segments, &medium, &again).unwrap_or_else(|error| panic!("{story}: {error}"));
    let failed_operation = simulated.operations().get(index as usize).cloned().unwrap_or_default();
    Run { operation_count, failed_operation, was_in_doubt, had_error, last: last.entries.clone() }
}

/// A catalog in doubt answers and refuses changes; opened again, it has the one or the other state.
fn require_refusals(
    segments: Segments,
    catalog: Catalog,
    medium: &Arc<dyn Medium>,
    record: &Record,
    story: &str,
) -> Catalog {
    for _ in 0..2 {
        let refused = set(&catalog, "other", Some(view("SELECT 2"))).unwrap_err();
        assert!(matches!(refused, CatalogError::Refused { .. }), "{story}: {refused}");
    }
    let refused = catalog.new_segment().unwrap_err();
    assert!(matches!(refused, CatalogError::Refused { .. }), "{story}: {refused}");
    drop(catalog);
    let again = Catalog::open(Arc::clone(medium)).unwrap();
    let manifest = again.snapshot();
    assert!(record.allows(&manifest.entries), "{story}: {manifest:?}");
    require_whole(segments, medium, &manifest).unwrap_or_else(|error| panic!("{story}: {error}"));
    again
}

#[test]
fn a_change_that_fails_leaves_all_as_it_was_and_can_be_tried_again_or_is_in_doubt() {
    for segments in [STAND_INS, REAL] {
        let undisturbed = run(segments, u64::MAX, Fault::InputOutput);
        assert!(!undisturbed.had_error);
        for fault in [Fault::InputOutput, Fault::NoSpace] {
            require_all_survived(segments, fault, &undisturbed);
        }
    }
}

/// With each operation failing in turn.
fn require_all_survived(segments: Segments, fault: Fault, undisturbed: &Run) {
    let mut doubt_count = 0;
    for index in 0..undisturbed.operation_count {
        let Run { failed_operation, was_in_doubt, had_error, last, .. } = run(segments, index, fault);
        let names = |entries: &Entries| entries.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&last), names(&undisturbed.last));
        // Putting a manifest in place is the one thing that cannot fail cleanly; removing files nobody waits for.
        let is_rename = failed_operation.starts_with("rename");
        let is_sync_of_names = failed_operation.starts_with("flush the names");
        assert!(!was_in_doubt || is_rename || is_sync_of_names, "{failed_operation}");
        assert!(was_in_doubt || !is_rename, "{failed_operation}");
        assert_eq!(had_error, !failed_operation.starts_with("remove"), "{failed_operation}");
        doubt_count += u32::from(was_in_doubt);
    }
    // A rename and a sync for each of seven changes and the first name.
    assert_eq!(doubt_count, 2 * 8);
}

#[test]
fn what_a_catalog_in_doubt_may_have_saved_is_not_removed_with_its_guard() {
    let simulated = Arc::new(SimulatedMedium::new(512));
    let medium: Arc<dyn Medium> = Arc::<SimulatedMedium>::clone(&simulated);
    let catalog = Catalog::open(Arc::clone(&medium)).unwrap();
    let mut record = Record::default();
    step(STAND_INS, 0, &catalog, &medium, &mut record).unwrap();
    // The last operation of the next change: after create, write and sync of the segment, those of the manifest, a sync
    // of names and the rename.
    simulated.fail_at(simulated.operation_count() + 8, Fault::InputOutput);
    let error = step(STAND_INS, 1, &catalog, &medium, &mut record).unwrap_err();
    let error = error.downcast::<CatalogError>().unwrap();
    assert!(matches!(*error, CatalogError::InDoubt { .. }), "{error}");
    assert!(error.to_string().contains("the medium: cannot flush the names"), "{error}");
    // The guard is gone, and the manifest names its segment.
    let again = Catalog::open(Arc::clone(&medium)).unwrap().snapshot();
    assert_eq!(again.segments().count(), 2);
    require_whole(STAND_INS, &medium, &again).unwrap();
    // The old catalog still answers with what it knows to be saved.
    assert_eq!(catalog.snapshot().segments().count(), 1);
}

#[test]
fn a_manifest_that_cannot_be_read_is_an_error_and_changes_nothing() {
    let simulated = Arc::new(SimulatedMedium::new(512));
    let medium: Arc<dyn Medium> = Arc::<SimulatedMedium>::clone(&simulated);
    let catalog = Catalog::open(Arc::clone(&medium)).unwrap();
    step(STAND_INS, 0, &catalog, &medium, &mut Record::default()).unwrap();
    let (names, operation_count) = (medium.list().unwrap(), simulated.operation_count());
    simulated.fail_read_at(simulated.read_count());
    assert!(matches!(Catalog::open(Arc::clone(&medium)), Err(CatalogError::Medium(_))));
    simulated.fail_at(operation_count, Fault::InputOutput);
    assert!(matches!(Catalog::open(Arc::clone(&medium)), Err(CatalogError::Medium(_))));
    assert_eq!(medium.list().unwrap(), names);
    assert!(Catalog::open(medium).unwrap().snapshot().entries.contains_key(&name("t")));
}

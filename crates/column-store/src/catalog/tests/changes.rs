//! Changes, snapshots and segments on a medium that does what it is told.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use thermocline_medium::{Medium, MemoryMedium};
use xxhash_rust::xxh3::xxh3_64;

use crate::SegmentInfo;
use crate::catalog::{Catalog, CatalogError, ColumnTable, Entry, EntryName, Manifest, PendingSegment};

pub(super) fn columns() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, false), Field::new("b", DataType::Utf8, true)]))
}

pub(super) fn name(name: &str) -> EntryName {
    EntryName::new("public", name)
}

pub(super) fn view(definition: &str) -> Entry {
    Entry::View { definition: definition.to_owned() }
}

pub(super) fn table(segments: &[&SegmentInfo]) -> Entry {
    Entry::ColumnTable(ColumnTable::with_segments(columns(), segments.iter().map(|&segment| segment.clone()).collect()))
}

/// Writes a stand-in for a segment, whose data is safe then, and describes it.
pub(super) fn write_segment(medium: &dyn Medium, segment: &PendingSegment) -> thermocline_medium::Result<SegmentInfo> {
    let content: Vec<u8> = segment.name().bytes().cycle().take(1300).collect();
    let file = medium.create(segment.name())?;
    medium.write_at(&file, 0, &content)?;
    medium.sync_data(&file)?;
    Ok(SegmentInfo {
        name: segment.name().to_owned(),
        size_bytes: content.len() as u64,
        row_count: 10,
        footer_checksum: xxh3_64(&content),
    })
}

/// Makes the change, or says why not.
pub(super) fn set(catalog: &Catalog, entry_name: &str, entry: Option<Entry>) -> Result<(), CatalogError> {
    catalog.commit(|manifest| {
        match entry {
            Some(entry) => manifest.entries.insert(name(entry_name), entry),
            None => manifest.entries.remove(&name(entry_name)),
        };
        Ok(())
    })
}

fn memory() -> Arc<dyn Medium> {
    Arc::new(MemoryMedium::new())
}

#[test]
fn an_empty_medium_is_an_empty_database_and_stays_one_until_the_first_change() {
    let medium = memory();
    let catalog = Catalog::open(Arc::clone(&medium)).unwrap();
    assert_eq!(*catalog.snapshot(), Manifest::default());
    assert!(medium.list().unwrap().is_empty());
    set(&catalog, "v", Some(view("SELECT 1"))).unwrap();
    assert_eq!(medium.list().unwrap(), ["manifest"]);
    assert_eq!(catalog.snapshot().version(), 1);
}

#[test]
fn changes_are_there_when_the_catalog_is_opened_again() {
    let medium = memory();
    let catalog = Catalog::open(Arc::clone(&medium)).unwrap();
    let pending = catalog.new_segment().unwrap();
    let segment = write_segment(medium.as_ref(), &pending).unwrap();
    set(&catalog, "t", Some(table(&[&segment]))).unwrap();
    drop(pending);
    set(&catalog, "v", Some(view("SELECT 1"))).unwrap();
    let external = Entry::ExternalTable { definition: "CREATE EXTERNAL TABLE …\n'x'".to_owned() };
    set(&catalog, "e", Some(external.clone())).unwrap();
    set(&catalog, "v", None).unwrap();

    let again = Catalog::open(Arc::clone(&medium)).unwrap();
    assert_eq!(again.snapshot(), catalog.snapshot());
    assert_eq!(again.snapshot().entries, [(name("e"), external), (name("t"), table(&[&segment]))].into());
    // One for the segment's name, and the four changes.
    assert_eq!(again.snapshot().version(), 5);
    assert_eq!(medium.list().unwrap(), ["00000000.segment", "manifest"]);
}

#[test]
fn an_edit_that_fails_or_changes_nothing_writes_nothing() {
    let medium = memory();
    let catalog = Catalog::open(Arc::clone(&medium)).unwrap();
    set(&catalog, "v", Some(view("SELECT 1"))).unwrap();
    let before = catalog.snapshot();
    let failed = catalog.commit(|manifest| {
        manifest.entries.clear();
        Err::<(), _>(CatalogError::Refused { reason: "no".to_owned() })
    });
    assert!(matches!(failed, Err(CatalogError::Refused { .. })));
    set(&catalog, "v", Some(view("SELECT 1"))).unwrap();
    set(&catalog, "w", None).unwrap();
    assert!(Arc::ptr_eq(&before, &catalog.snapshot()));
}

#[test]
fn an_edit_gives_its_answer_and_cannot_turn_versions_back() {
    let catalog = Catalog::open(memory()).unwrap();
    set(&catalog, "v", Some(view("SELECT 1"))).unwrap();
    let counted = catalog.commit(|manifest| {
        *manifest = Manifest::default();
        manifest.entries.insert(name("w"), view("SELECT 2"));
        Ok::<_, CatalogError>(manifest.entries.len())
    });
    assert_eq!(counted.unwrap(), 1);
    assert_eq!(catalog.snapshot().version(), 2);
}

#[test]
fn files_go_with_the_last_entry_that_names_them_and_are_readable_where_they_are_open() {
    let medium = memory();
    let catalog = Catalog::open(Arc::clone(&medium)).unwrap();
    let [first, second] = [(); 2].map(|()| catalog.new_segment().unwrap());
    let [a, b] = [&first, &second].map(|pending| write_segment(medium.as_ref(), pending).unwrap());
    set(&catalog, "t", Some(table(&[&a, &b]))).unwrap();
    let before = catalog.snapshot();
    let open = medium.open(&a.name).unwrap();

    set(&catalog, "t", Some(table(&[&b]))).unwrap();
    assert_eq!(medium.list().unwrap(), ["00000001.segment", "manifest"]);
    assert_eq!(before.entries[&name("t")], table(&[&a, &b]));
    let mut bytes = vec![0; a.size_bytes as usize];
    medium.read_at(&open, 0, &mut bytes).unwrap();
    assert_eq!(xxh3_64(&bytes), a.footer_checksum);

    set(&catalog, "t", None).unwrap();
    assert_eq!(medium.list().unwrap(), ["manifest"]);
    // The guards of committed segments have nothing left to do.
    drop((first, second));
    assert_eq!(medium.list().unwrap(), ["manifest"]);
}

#[test]
fn a_segment_can_move_from_one_table_to_another() {
    let medium = memory();
    let catalog = Catalog::open(Arc::clone(&medium)).unwrap();
    let pending = catalog.new_segment().unwrap();
    let segment = write_segment(medium.as_ref(), &pending).unwrap();
    set(&catalog, "t", Some(table(&[&segment]))).unwrap();
    catalog
        .commit(|manifest| {
            let moved = manifest.entries.remove(&name("t")).unwrap();
            manifest.entries.insert(name("u"), moved);
            Ok::<_, CatalogError>(())
        })
        .unwrap();
    assert_eq!(medium.list().unwrap(), ["00000000.segment", "manifest"]);
}

#[test]
fn pending_segments_are_left_alone_by_changes_and_go_when_they_are_given_up() {
    let medium = memory();
    let catalog = Catalog::open(Arc::clone(&medium)).unwrap();
    let [loading, abandoned] = [(); 2].map(|()| catalog.new_segment().unwrap());
    let segment = write_segment(medium.as_ref(), &loading).unwrap();
    write_segment(medium.as_ref(), &abandoned).unwrap();
    set(&catalog, "v", Some(view("SELECT 1"))).unwrap();
    assert_eq!(medium.list().unwrap(), ["00000000.segment", "00000001.segment", "manifest"]);
    drop(abandoned);
    assert_eq!(medium.list().unwrap(), ["00000000.segment", "manifest"]);
    // One whose file was never made is given up as well.
    drop(catalog.new_segment().unwrap());
    set(&catalog, "t", Some(table(&[&segment]))).unwrap();
    drop(loading);
    assert_eq!(medium.list().unwrap(), ["00000000.segment", "manifest"]);
}

#[test]
fn a_segment_may_only_be_named_while_it_is_pending_and_as_it_is() {
    let medium = memory();
    let catalog = Catalog::open(Arc::clone(&medium)).unwrap();
    let pending = catalog.new_segment().unwrap();
    let segment = write_segment(medium.as_ref(), &pending).unwrap();
    let refusal = |entry| match set(&catalog, "t", Some(entry)) {
        Err(error @ CatalogError::Segment { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    };
    let twice = refusal(table(&[&segment, &segment]));
    assert_eq!(twice, "public.t: segment 00000000.segment is named twice, expected once");
    set(&catalog, "t", Some(table(&[&segment]))).unwrap();
    let longer = SegmentInfo { row_count: 11, ..segment.clone() };
    assert!(refusal(table(&[&longer])).contains("expected unchanged"));
    let given_up = catalog.new_segment().unwrap();
    let other = write_segment(medium.as_ref(), &given_up).unwrap();
    drop(given_up);
    assert!(refusal(table(&[&other])).contains("is unknown"));
    set(&catalog, "t", None).unwrap();
    assert!(refusal(table(&[&segment])).contains("is unknown"));
    let elsewhere = SegmentInfo { name: "../manifest".to_owned(), ..segment };
    assert!(refusal(table(&[&elsewhere])).contains("is unknown"));
}

#[test]
fn a_guard_that_an_edit_takes_with_it_is_an_error_and_no_deadlock() {
    let medium = memory();
    let catalog = Catalog::open(Arc::clone(&medium)).unwrap();
    let pending = catalog.new_segment().unwrap();
    let segment = write_segment(medium.as_ref(), &pending).unwrap();
    let error = catalog.commit(move |manifest| {
        let _given_up_at_the_end = pending;
        manifest.entries.insert(name("t"), table(&[&segment]));
        Ok::<_, CatalogError>(())
    });
    assert!(matches!(error, Err(CatalogError::Segment { .. })));
    assert!(catalog.commit(|_| catalog.new_segment()).is_ok());
}

#[test]
fn the_lock_is_held_until_nobody_can_write_or_remove_a_file_any_more() {
    let lock = Arc::new(());
    let held = Arc::downgrade(&lock);
    let catalog = Catalog::open_locked(memory(), lock).unwrap();
    let pending = catalog.new_segment().unwrap();
    drop(catalog);
    assert!(held.upgrade().is_some(), "the segment's file is not removed yet");
    drop(pending);
    assert!(held.upgrade().is_none());
}

#[test]
fn no_name_is_given_twice_whatever_became_of_it() {
    let medium = memory();
    let mut given = std::collections::BTreeSet::new();
    for _ in 0..3 {
        let catalog = Catalog::open(Arc::clone(&medium)).unwrap();
        // More than are reserved at once. None of them is ever committed.
        for _ in 0..1500 {
            let pending = catalog.new_segment().unwrap();
            assert!(given.insert(pending.name().to_owned()), "{}", pending.name());
        }
    }
    assert_eq!(given.len(), 4500);
}

#[test]
fn numbers_that_run_out_are_an_error() {
    let medium = memory();
    let file = medium.create("manifest").unwrap();
    let last = Manifest { version: u64::MAX - 1, next_file: u64::MAX - 3, ..Manifest::default() };
    medium.write_at(&file, 0, &last.to_bytes().unwrap()).unwrap();
    let catalog = Catalog::open(Arc::clone(&medium)).unwrap();
    let error = catalog.new_segment().unwrap_err();
    assert!(matches!(error, CatalogError::Exhausted { what: "next-file", .. }), "{error}");
    set(&catalog, "v", Some(view(""))).unwrap();
    let error = set(&catalog, "v", None).unwrap_err();
    assert_eq!(error.to_string(), format!("manifest: version is {}, expected less: none is left", u64::MAX));
}

#[test]
fn opening_removes_what_a_crash_left_and_nothing_else() {
    let medium = memory();
    let catalog = Catalog::open(Arc::clone(&medium)).unwrap();
    let [first, second] = [(); 2].map(|()| catalog.new_segment().unwrap());
    let segment = write_segment(medium.as_ref(), &first).unwrap();
    write_segment(medium.as_ref(), &second).unwrap();
    set(&catalog, "t", Some(table(&[&segment]))).unwrap();
    for other in ["manifest.new", "README", "1.segment", "00000001.segment.gz"] {
        medium.create(other).unwrap();
    }
    // As a crash does.
    std::mem::forget(second);
    Catalog::open(Arc::clone(&medium)).unwrap();
    assert_eq!(medium.list().unwrap(), ["00000000.segment", "00000001.segment.gz", "1.segment", "README", "manifest"]);
}

#[test]
fn a_new_manifest_that_could_not_be_removed_is_in_nobodys_way() {
    let medium = memory();
    let catalog = Catalog::open(Arc::clone(&medium)).unwrap();
    let left = medium.create("manifest.new").unwrap();
    medium.write_at(&left, 0, &[b'x'; 5000]).unwrap();
    set(&catalog, "v", Some(view("SELECT 1"))).unwrap();
    assert_eq!(Catalog::open(medium).unwrap().snapshot(), catalog.snapshot());
}

#[test]
fn a_manifest_that_is_missing_or_of_another_time_removes_nothing() {
    let medium = memory();
    let catalog = Catalog::open(Arc::clone(&medium)).unwrap();
    set(&catalog, "v", Some(view("SELECT 1"))).unwrap();
    medium.rename("manifest", "old").unwrap();
    let pending = catalog.new_segment().unwrap();
    let segment = write_segment(medium.as_ref(), &pending).unwrap();
    set(&catalog, "t", Some(table(&[&segment]))).unwrap();
    drop(pending);

    medium.rename("old", "manifest").unwrap();
    let error = Catalog::open(Arc::clone(&medium)).unwrap_err();
    assert!(matches!(error, CatalogError::Older { .. }), "{error}");
    medium.remove("manifest").unwrap();
    let error = Catalog::open(Arc::clone(&medium)).unwrap_err();
    assert!(matches!(error, CatalogError::Missing { segment_count: 1, .. }), "{error}");
    assert_eq!(medium.list().unwrap(), ["00000000.segment"]);
}

#[test]
fn an_older_manifest_put_back_alone_removes_no_newer_segments() {
    let medium = memory();
    let catalog = Catalog::open(Arc::clone(&medium)).unwrap();
    let write = || {
        let pending = catalog.new_segment().unwrap();
        let segment = write_segment(medium.as_ref(), &pending).unwrap();
        set(&catalog, "t", Some(table(&[&segment]))).unwrap();
    };
    write();
    let manifest = medium.open("manifest").unwrap();
    let mut older = vec![0; medium.size_bytes(&manifest).unwrap() as usize];
    medium.read_at(&manifest, 0, &mut older).unwrap();
    write();
    assert_eq!(medium.list().unwrap(), ["00000001.segment", "manifest"]);
    medium.remove("manifest").unwrap();
    medium.write_at(&medium.create("manifest").unwrap(), 0, &older).unwrap();
    Catalog::open(Arc::clone(&medium)).unwrap();
    assert_eq!(medium.list().unwrap(), ["00000001.segment", "manifest"]);
}

#[test]
fn threads_that_change_at_once_change_one_after_the_other() {
    let medium = memory();
    let catalog = Catalog::open(Arc::clone(&medium)).unwrap();
    set(&catalog, "t", Some(table(&[]))).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..25 {
                    let pending = catalog.new_segment().unwrap();
                    let segment = write_segment(medium.as_ref(), &pending).unwrap();
                    // Read, then write: a lost update would lose a segment.
                    let insert = |manifest: &mut Manifest| {
                        let Some(Entry::ColumnTable(table)) = manifest.entries.get_mut(&name("t")) else {
                            panic!("the table is gone");
                        };
                        table.segments.push(segment);
                        Ok::<_, CatalogError>(())
                    };
                    catalog.commit(insert).unwrap();
                    let seen = catalog.snapshot();
                    assert!(seen.segments().any(|(_, segment)| segment.name == pending.name()));
                    drop(catalog.new_segment().unwrap());
                }
            });
        }
    });
    let manifest = catalog.snapshot();
    assert_eq!(manifest.segments().count(), 100);
    assert_eq!(manifest.version(), 102);
    assert_eq!(medium.list().unwrap().len(), 101);
    assert_eq!(Catalog::open(medium).unwrap().snapshot(), manifest);
}

#[test]
fn a_table_is_told_from_one_of_the_same_columns_that_took_its_place() {
    let catalog = Catalog::open(memory()).unwrap();
    set(&catalog, "t", Some(table(&[]))).unwrap();
    let of = |catalog: &Catalog| match catalog.snapshot().entries.get(&name("t")) {
        Some(Entry::ColumnTable(table)) => table.clone(),
        other => panic!("{other:?}"),
    };
    let made = of(&catalog);
    set(&catalog, "v", Some(view("SELECT 1"))).unwrap();
    assert!(of(&catalog).is_still(&made.columns));
    set(&catalog, "t", None).unwrap();
    set(&catalog, "t", Some(table(&[]))).unwrap();
    assert_eq!(of(&catalog), made);
    assert!(!of(&catalog).is_still(&made.columns));
}

//! The harness on a small database: pages, and a manifest that is replaced whole and names the page in use.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

use super::explore::Outcome;
use super::*;

const VERSIONS: u64 = 3;
const PAGE_BYTES: usize = 1500;

/// What a version of the database leaves out, or does too early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Defect {
    None,
    NoSyncOfPage,
    NoSyncOfPageName,
    NoSyncOfManifest,
    NoSyncOfManifestName,
    AcknowledgesBeforeLastSync,
    RemovesOldPageBeforeLastSync,
    WritesManifestInPlace,
    IgnoresFailedSync,
    RecoveryRemovesPageInUse,
}

#[derive(Debug, Default)]
struct Record {
    issued: u64,
    acknowledged: u64,
}

fn page_of(version: u64) -> Vec<u8> {
    (0..PAGE_BYTES).map(|index| (index as u64 * 7 + version * 31) as u8 | 1).collect()
}

/// Makes versions one after the other: page, manifest, and then the old page goes.
fn work(medium: &Arc<dyn Medium>, record: &mut Record, defect: Defect) -> Outcome {
    for version in 1..=VERSIONS {
        record.issued = version;
        let page = medium.create(&format!("page-{version}"))?;
        medium.write_at(&page, 0, &page_of(version))?;
        match defect {
            Defect::NoSyncOfPage => {}
            Defect::IgnoresFailedSync => drop(medium.sync_data(&page)),
            _ => medium.sync_data(&page)?,
        }
        if defect != Defect::NoSyncOfPageName {
            medium.sync_namespace()?;
        }
        replace_manifest(medium, version, defect)?;
        let remove_old = || if version > 1 { medium.remove(&format!("page-{}", version - 1)) } else { Ok(()) };
        if defect == Defect::RemovesOldPageBeforeLastSync {
            remove_old()?;
        }
        if defect == Defect::AcknowledgesBeforeLastSync {
            record.acknowledged = version;
        }
        if defect != Defect::NoSyncOfManifestName {
            medium.sync_namespace()?;
        }
        record.acknowledged = version;
        if defect != Defect::RemovesOldPageBeforeLastSync {
            remove_old()?;
        }
    }
    Ok(())
}

fn replace_manifest(medium: &Arc<dyn Medium>, version: u64, defect: Defect) -> Outcome {
    if defect == Defect::WritesManifestInPlace {
        let manifest = if version == 1 { medium.create("manifest") } else { medium.open_writable("manifest") }?;
        medium.write_at(&manifest, 0, &manifest_of(version))?;
        medium.sync_data(&manifest)?;
        return Ok(());
    }
    let manifest = medium.create("manifest.new")?;
    medium.write_at(&manifest, 0, &manifest_of(version))?;
    if defect != Defect::NoSyncOfManifest {
        medium.sync_data(&manifest)?;
    }
    medium.rename("manifest.new", "manifest")?;
    Ok(())
}

/// As large as several sectors.
fn manifest_of(version: u64) -> Vec<u8> {
    version.to_le_bytes().repeat(200)
}

/// Opens the database: removes what the manifest does not name, and compares page and version with the record.
fn check(medium: &Arc<dyn Medium>, record: &Record, defect: Defect) -> Outcome {
    let names = medium.list()?;
    let version = if names.iter().any(|name| name == "manifest") {
        let bytes = read_all(medium, "manifest")?;
        let version = bytes.first_chunk().map_or(0, |first| u64::from_le_bytes(*first));
        if bytes != manifest_of(version) {
            return Err("the manifest is torn".into());
        }
        version
    } else {
        0
    };
    if !(record.acknowledged..=record.issued).contains(&version) {
        return Err(format!("version {version} with {record:?}").into());
    }
    let page = format!("page-{version}");
    if version > 0 && read_all(medium, &page)? != page_of(version) {
        return Err(format!("{page} is torn").into());
    }
    for name in names.iter().filter(|&name| *name != page && name != "manifest") {
        medium.remove(name)?;
    }
    if defect == Defect::RecoveryRemovesPageInUse && version > 0 {
        // As one that moves a page by writing it anew would, without care.
        medium.remove(&page)?;
        let page = medium.create(&page)?;
        medium.write_at(&page, 0, &page_of(version))?;
        medium.sync_data(&page)?;
    }
    medium.sync_namespace()?;
    Ok(())
}

fn read_all(medium: &Arc<dyn Medium>, name: &str) -> Result<Vec<u8>> {
    let file = medium.open(name)?;
    let mut bytes = vec![0; medium.size_bytes(&file)? as usize];
    medium.read_at(&file, 0, &mut bytes)?;
    Ok(bytes)
}

fn explore(defect: Defect, torn_bytes: usize) -> std::result::Result<Explored, Finding> {
    Exploration { torn_bytes, ..Exploration::default() }
        .run(|medium, record| work(medium, record, defect), |medium, record| check(medium, record, defect))
}

#[test]
fn a_manifest_replaced_with_care_survives_every_crash_and_fault() {
    for torn_bytes in [512, 8] {
        let explored = explore(Defect::None, torn_bytes).unwrap();
        println!("{explored:?}");
        // Create, write, sync, sync of names for the page; the same and a rename for the manifest; then the old page goes.
        assert_eq!(explored.operation_count, 3 * 9 + 2);
        assert!(explored.crash_count >= (29 + 1) * 12 && explored.recovery_crash_count > explored.crash_count);
        assert_eq!(explored.fault_count, 2 * 29);
    }
}

#[test]
fn leaving_out_any_one_sync_is_found() {
    for (defect, complaint) in [
        (Defect::NoSyncOfPage, "is torn"),
        (Defect::NoSyncOfPageName, "no such file"),
        (Defect::NoSyncOfManifest, "the manifest is torn"),
        (Defect::NoSyncOfManifestName, "with Record"),
    ] {
        let finding = explore(defect, 512).unwrap_err();
        assert!(finding.complaint.contains(complaint), "{defect:?}: {finding}");
        assert!(finding.story.contains("a crash"), "{defect:?}: {finding}");
    }
}

#[test]
fn what_is_done_too_early_or_in_place_is_found() {
    for (defect, complaint) in [
        (Defect::AcknowledgesBeforeLastSync, "with Record"),
        (Defect::RemovesOldPageBeforeLastSync, "no such file"),
        (Defect::WritesManifestInPlace, "the manifest is torn"),
    ] {
        let finding = explore(defect, 512).unwrap_err();
        assert!(finding.complaint.contains(complaint), "{defect:?}: {finding}");
    }
}

#[test]
fn a_failed_sync_that_is_ignored_is_found() {
    let finding = explore(Defect::IgnoresFailedSync, 512).unwrap_err();
    // Earlier pages are replaced by later ones, whose sync succeeds.
    assert!(finding.story.contains("at operation 21 (flush its data: page-3)"), "{finding}");
}

#[test]
fn a_recovery_that_does_not_survive_a_crash_is_found() {
    let finding = explore(Defect::RecoveryRemovesPageInUse, 512).unwrap_err();
    assert!(finding.story.contains("of the recovery"), "{finding}");
}

#[test]
fn work_that_fails_undisturbed_is_a_finding_of_its_own() {
    let exploration = Exploration::default();
    let finding = exploration.run(|_, (): &mut ()| Err("no".into()), |_, ()| Ok(())).unwrap_err();
    assert_eq!(finding.to_string(), "work undisturbed: no");
    let finding = exploration.run(|_, (): &mut ()| Ok(()), |_, ()| Err("no".into())).unwrap_err();
    assert_eq!(finding.to_string(), "a check after work undisturbed: no");
}

#[test]
fn faults_in_reads_are_tried_too() {
    let finding = Exploration::default()
        .run(
            |medium, lost: &mut bool| {
                let file = medium.create("f")?;
                medium.write_at(&file, 0, b"x")?;
                // An error that is taken for an answer.
                *lost = medium.read_at(&file, 0, &mut [0]).is_err();
                Ok(())
            },
            |_, lost| if *lost { Err("taken for lost".into()) } else { Ok(()) },
        )
        .unwrap_err();
    assert!(finding.story.contains("a fault at read 0"), "{finding}");
}

#[test]
fn a_machine_that_has_stopped_does_nothing_more() {
    let medium = SimulatedMedium::new(512);
    medium.stop_at(2);
    let file = medium.create("f").unwrap();
    medium.write_at(&file, 0, b"x").unwrap();
    let error = medium.sync_data(&file).unwrap_err().to_string();
    assert_eq!(error, "f: cannot flush its data: the simulated machine has stopped");
    assert!(medium.is_stopped() && medium.list().is_err() && medium.open("f").is_err());
    assert!(medium.read_at(&file, 0, &mut [0]).is_err() && medium.size_bytes(&file).is_err());
    assert_eq!(medium.operations(), ["create the file: f", "write 1 bytes at byte 0: f", "flush its data: f"]);
}

#[test]
fn a_full_device_takes_part_of_a_write_and_says_so() {
    let medium = SimulatedMedium::new(512);
    medium.fail_at(1, Fault::NoSpace);
    let file = medium.create("f").unwrap();
    let error = medium.write_at(&file, 10, &[1; 100]).unwrap_err();
    assert!(matches!(error, MediumError::OutOfSpace { .. }), "{error}");
    assert!(error.to_string().contains("f: cannot write 100 bytes at byte 10"), "{error}");
    assert_eq!(medium.size_bytes(&file).unwrap(), 60);
    medium.write_at(&file, 10, &[1; 100]).unwrap();
}

#[test]
fn handles_from_before_a_crash_are_refused_after_it() {
    let medium = SimulatedMedium::new(512);
    let file = medium.create("f").unwrap();
    let crashed = medium.crash(1);
    assert!(matches!(crashed.size_bytes(&file), Err(MediumError::ForeignFile { .. })));
    assert!(crashed.open("f").is_ok() && medium.size_bytes(&file).is_ok());
}

#![allow(clippy::unwrap_used, clippy::panic)]

use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;

/// The names in a folder, in order.
fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn staged(target: &Path, text: &str, folders: &mut MadeFolders) -> StagedFile {
    let (file, bytes) = StagedFile::create(target, folders).unwrap();
    // In pieces, the last one first.
    let (first, last) = text.as_bytes().split_at(text.len() / 2);
    bytes.write_at(last, first.len() as u64).unwrap();
    bytes.write_at(first, 0).unwrap();
    bytes.finish().unwrap();
    file
}

#[test]
fn a_name_has_what_it_had_until_the_file_is_in_place() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("a.csv");
    for before in [None, Some("old")] {
        if let Some(before) = before {
            fs::write(&target, before).unwrap();
        } else {
            let _ = fs::remove_file(&target);
        }
        let mut folders = MadeFolders::default();
        let mut file = staged(&target, "what is new", &mut folders);
        assert_eq!(fs::read_to_string(&target).ok().as_deref(), before);
        file.place().unwrap();
        assert_eq!(fs::read_to_string(&target).unwrap(), "what is new");
        file.keep();
        drop(file);
        assert_eq!(names(folder.path()), ["a.csv"]);
        assert_eq!(fs::read_to_string(&target).unwrap(), "what is new");
    }
}

#[test]
fn what_is_given_up_is_gone_at_once_with_the_folders_made_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = (folder.path().join("old.csv"), folder.path().join("x/y/new.csv"));
    fs::write(&old, "old").unwrap();
    let mut folders = MadeFolders::default();
    let files = [staged(&old, "other", &mut folders), staged(&new, "other", &mut folders)];
    assert_eq!(names(folder.path()).len(), 3);
    drop(files);
    drop(folders);
    assert_eq!(names(folder.path()), ["old.csv"]);
    assert_eq!(fs::read_to_string(&old).unwrap(), "old");
    // Also what was in place already, if nothing was there before.
    let mut folders = MadeFolders::default();
    let mut file = staged(&new, "other", &mut folders);
    file.place().unwrap();
    drop(file);
    drop(folders);
    assert_eq!(names(folder.path()), ["old.csv"]);
}

#[test]
fn folders_that_others_use_or_that_were_there_stay() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("there")).unwrap();
    let mut folders = MadeFolders::default();
    drop(staged(&folder.path().join("there/a.csv"), "", &mut folders));
    drop(staged(&folder.path().join("made/a.csv"), "", &mut folders));
    fs::write(folder.path().join("made/b.csv"), "another's").unwrap();
    drop(folders);
    assert_eq!(names(folder.path()), ["made", "there"]);
    let mut folders = MadeFolders::default();
    drop(staged(&folder.path().join("kept/a.csv"), "", &mut folders));
    folders.keep();
    drop(folders);
    assert_eq!(names(folder.path()), ["kept", "made", "there"]);
}

#[test]
fn a_link_stays_a_link_and_its_file_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let (file, link) = (folder.path().join("far/a.csv"), folder.path().join("link.csv"));
    fs::create_dir(folder.path().join("far")).unwrap();
    fs::write(&file, "old").unwrap();
    symlink("far/a.csv", &link).unwrap();
    let mut written = staged(&link, "new", &mut MadeFolders::default());
    assert_eq!(names(folder.path()), ["far", "link.csv"], "the bytes lie beside the file, not beside the link");
    written.place().unwrap();
    written.keep();
    assert!(link.symlink_metadata().unwrap().is_symlink());
    assert_eq!(fs::read_to_string(&file).unwrap(), "new");
}

#[cfg(target_os = "linux")]
#[test]
fn a_link_to_nothing_stays_and_what_it_leads_to_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let (link, next) = (folder.path().join("link.csv"), folder.path().join("next.csv"));
    symlink("next.csv", &link).unwrap();
    symlink("far/a.csv", &next).unwrap();
    let mut folders = MadeFolders::default();
    let mut file = staged(&link, "new", &mut folders);
    file.place().unwrap();
    file.keep();
    folders.keep();
    assert!(link.symlink_metadata().unwrap().is_symlink() && next.symlink_metadata().unwrap().is_symlink());
    assert_eq!(fs::read_to_string(folder.path().join("far/a.csv")).unwrap(), "new");
    symlink("round.csv", folder.path().join("round.csv")).unwrap();
    let error = StagedFile::create(&folder.path().join("round.csv"), &mut folders).unwrap_err().to_string();
    assert!(error.contains("round.csv") && error.contains("symbolic links"), "{error}");
}

#[test]
fn who_could_not_read_the_file_before_cannot_read_the_new_one() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("a.csv");
    fs::write(&target, "old").unwrap();
    fs::set_permissions(&target, fs::Permissions::from_mode(0o640)).unwrap();
    let mut file = staged(&target, "new", &mut MadeFolders::default());
    file.place().unwrap();
    file.keep();
    assert_eq!(fs::metadata(&target).unwrap().permissions().mode() & 0o777, 0o640);
    assert_eq!(fs::read_to_string(&target).unwrap(), "new");
}

#[test]
fn only_regular_files_are_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let link = folder.path().join("full.csv");
    symlink("/dev/full", &link).unwrap();
    let cases = [(folder.path(), "is a folder"), (Path::new("/dev/full"), "is a device"), (&link, "is a device")];
    for (target, found) in cases {
        let error = StagedFile::create(target, &mut MadeFolders::default()).unwrap_err().to_string();
        assert!(error.starts_with(&target.display().to_string()) && error.contains(found), "{error}");
    }
    assert_eq!(names(folder.path()), ["full.csv"]);
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_that_cannot_be_created_is_told_by_its_own_name_and_what_the_system_says() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), "").unwrap();
    let below_file = folder.path().join("file/a.csv");
    let far_below_file = folder.path().join("file/x/y/a.csv");
    let cases = [
        (below_file.as_path(), libc::ENOTDIR),
        (far_below_file.as_path(), libc::ENOTDIR),
        // A file system that takes no files, and says that there is no such folder.
        (Path::new("/proc/a.csv"), libc::ENOENT),
        (Path::new("/proc/x/a.csv"), libc::ENOENT),
    ];
    for (target, code) in cases {
        let error = StagedFile::create(target, &mut MadeFolders::default()).unwrap_err().to_string();
        let said = io::Error::from_raw_os_error(code).to_string();
        assert_eq!(error, format!("{}: cannot create the file: {said}", target.display()));
    }
    assert_eq!(names(folder.path()), ["file"]);
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_device_is_told_by_the_name_that_is_written() {
    let bytes = StagedBytes {
        file: File::options().write(true).open("/dev/full").unwrap(),
        target: "/data/a.csv".into(),
        replaces: false,
    };
    let error = bytes.write_at(b"x", 7).unwrap_err();
    assert!(matches!(error, MediumError::OutOfSpace { .. }));
    assert!(error.to_string().starts_with("/data/a.csv: cannot write at byte 7: No space left on device"), "{error}");
}

#[test]
fn names_that_a_killed_process_left_are_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("a.csv");
    let first = staged(&target, "", &mut MadeFolders::default());
    let number: u64 = first.staged.to_str().unwrap().rsplit_once('-').unwrap().1.parse().unwrap();
    let left = |number: u64| folder.path().join(format!("{STAGED_NAME}{}-{number}", std::process::id()));
    // Other tests take numbers meanwhile.
    for number in number + 1..number + 100 {
        fs::write(left(number), "left").unwrap();
    }
    let mut second = staged(&target, "new", &mut MadeFolders::default());
    second.place().unwrap();
    second.keep();
    assert_eq!(fs::read_to_string(&target).unwrap(), "new");
    assert!((number + 1..number + 100).all(|number| fs::read_to_string(left(number)).unwrap() == "left"));
}

/// In a process of its own: the limit is one of the whole process, and the signal ends it.
#[test]
fn a_file_larger_than_the_system_allows_is_an_error_and_no_signal() {
    const IS_LIMITED: &str = "THERMOCLINE_TEST_IS_LIMITED";
    if std::env::var_os(IS_LIMITED).is_none() {
        let name = "staged_file::tests::a_file_larger_than_the_system_allows_is_an_error_and_no_signal";
        let script = format!("ulimit -f 64; exec \"$0\" --exact {name} --nocapture");
        let mut limited = std::process::Command::new("sh");
        limited.args(["-c", &script]).arg(std::env::current_exe().unwrap()).env(IS_LIMITED, "1");
        let output = limited.output().unwrap();
        let shown = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && shown.contains("1 passed"), "{}\n{shown}", output.status);
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (_file, bytes) = StagedFile::create(&folder.path().join("a.csv"), &mut MadeFolders::default()).unwrap();
    bytes.write_at(b"x", 0).unwrap();
    let error = bytes.write_at(b"x", 1 << 20).unwrap_err();
    assert!(matches!(error, MediumError::OutOfSpace { .. }), "{error}");
    assert!(error.to_string().contains("a.csv: cannot write at byte 1048576: "), "{error}");
}

#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::io::Write;
use std::time::{Duration, UNIX_EPOCH};

use super::*;

fn file_with(content: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.csv");
    fs::write(&path, content).unwrap();
    (folder, path)
}

fn append(path: &Path, content: &[u8]) {
    fs::OpenOptions::new().append(true).open(path).unwrap().write_all(content).unwrap();
}

/// The kernel stamps writes with the time of its last tick, up to 10 ms ago: changes that a test must see by their
/// stamps alone are made when the clock has moved on.
fn let_the_clock_tick() {
    std::thread::sleep(Duration::from_millis(25));
}

fn contents(file: &PinnedFile) -> Vec<u8> {
    let mut buffer = vec![0; file.size_bytes() as usize];
    file.read_exact_at(&mut buffer, 0).unwrap();
    buffer
}

#[test]
fn a_pinned_file_knows_its_canonical_path_size_and_stamp() {
    let (folder, path) = file_with(b"hello");
    let link = folder.path().join("link.csv");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let file = PinnedFile::open(&link).unwrap();
    assert_eq!(&**file.path(), fs::canonicalize(&path).unwrap().to_str().unwrap());
    assert_eq!(file.size_bytes(), 5);
    assert_eq!(file.version(), PinnedFile::open(&path).unwrap().version(), "one file, one version");
    assert_eq!(file.change().unwrap(), Change::Unchanged);
}

#[test]
fn reads_stop_at_the_end_of_the_file() {
    let (_folder, path) = file_with(b"0123456789");
    let file = PinnedFile::open(&path).unwrap();
    let mut buffer = [0; 4];
    assert_eq!(file.read_at(&mut buffer, 3).unwrap(), 4);
    assert_eq!(&buffer, b"3456");
    assert_eq!(file.read_at(&mut buffer, 8).unwrap(), 2);
    assert_eq!(file.read_at(&mut buffer, 99).unwrap(), 0);
    let error = file.read_exact_at(&mut buffer, 8).unwrap_err().to_string();
    assert!(error.contains("ends at byte 10, expected at least 12"), "{error}");
}

#[test]
fn growing_is_told_from_every_other_change() {
    let (_folder, path) = file_with(b"one\n");
    let file = PinnedFile::open(&path).unwrap();
    append(&path, b"two\n");
    assert_eq!(file.change().unwrap(), Change::Grown);
    assert_eq!(contents(&file), b"one\n", "the pinned size does not move");
    assert_eq!(file.current_version().unwrap().size_bytes, 8);
}

#[test]
fn truncation_is_a_change_with_its_sizes() {
    let (_folder, path) = file_with(b"one\ntwo\n");
    let file = PinnedFile::open(&path).unwrap();
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(4).unwrap();
    assert_eq!(file.change().unwrap(), Change::Other);
    let error = file.require_unwritten().unwrap_err().to_string();
    assert!(error.contains("its size went from 8 to 4 bytes") && error.contains("a.csv"), "{error}");
}

#[test]
fn overwriting_and_touching_are_changes() {
    for overwrite in [true, false] {
        let (_folder, path) = file_with(b"one\n");
        let file = PinnedFile::open(&path).unwrap();
        let_the_clock_tick();
        if overwrite {
            fs::write(&path, b"two\n").unwrap();
        } else {
            let touched = File::options().write(true).open(&path).unwrap();
            touched.set_modified(UNIX_EPOCH + Duration::from_secs(77)).unwrap();
        }
        assert_eq!(file.change().unwrap(), Change::Other, "overwrite: {overwrite}");
        assert_ne!(PinnedFile::open(&path).unwrap().version(), file.version());
    }
}

#[test]
fn restoring_size_and_modification_time_is_seen_by_the_change_time() {
    let (_folder, path) = file_with(b"one\n");
    let modified = fs::metadata(&path).unwrap().modified().unwrap();
    let file = PinnedFile::open(&path).unwrap();
    let_the_clock_tick();
    fs::write(&path, b"two\n").unwrap();
    File::options().write(true).open(&path).unwrap().set_modified(modified).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), modified);
    assert_eq!(file.change().unwrap(), Change::Other);
    let difference = file.version().difference(&file.current_version().unwrap()).unwrap();
    assert!(difference.contains("its change time moved"), "{difference}");
}

#[test]
fn a_longer_file_whose_modification_time_went_back_has_not_just_grown() {
    let (_folder, path) = file_with(b"one\n");
    let file = PinnedFile::open(&path).unwrap();
    append(&path, b"two\n");
    let touched = File::options().write(true).open(&path).unwrap();
    touched.set_modified(UNIX_EPOCH + Duration::from_secs(77)).unwrap();
    assert_eq!(file.change().unwrap(), Change::Other);
}

#[test]
fn a_file_that_is_renamed_over_or_deleted_is_still_read_through_its_pin() {
    let (folder, path) = file_with(b"old\n");
    let file = PinnedFile::open(&path).unwrap();
    let other = folder.path().join("b.csv");
    fs::write(&other, b"new!\n").unwrap();
    let_the_clock_tick();
    fs::rename(&other, &path).unwrap();
    assert_eq!(contents(&file), b"old\n");
    assert_eq!(file.change().unwrap(), Change::Other, "it lost its name");
    let renamed = PinnedFile::open(&path).unwrap();
    assert_eq!(file.version().difference(renamed.version()).unwrap(), "its size went from 4 to 5 bytes");
    assert_ne!(file.version().stamp, renamed.version().stamp);

    fs::remove_file(&path).unwrap();
    assert_eq!(contents(&renamed), b"new!\n");
    assert!(matches!(PinnedFile::open(&path), Err(MediumError::NotFound { .. })));
}

#[test]
fn writes_are_told_from_renames_and_links() {
    let (folder, path) = file_with(b"a,b\n1,2\n");
    let file = PinnedFile::open(&path).unwrap();
    let_the_clock_tick();
    fs::hard_link(&path, folder.path().join("link")).unwrap();
    fs::write(folder.path().join("new"), b"other").unwrap();
    fs::rename(folder.path().join("new"), &path).unwrap();
    assert_eq!(file.change().unwrap(), Change::Other);
    file.require_unwritten().unwrap();
    append(&folder.path().join("link"), b"3,4\n");
    let error = file.require_unwritten().unwrap_err().to_string();
    assert!(error.contains("its size went from 8 to 12 bytes"), "{error}");
}

#[test]
fn what_cannot_be_opened_is_an_error_with_its_path() {
    let (folder, path) = file_with(b"x");
    let missing = PinnedFile::open(&folder.path().join("missing.csv")).unwrap_err();
    assert!(matches!(missing, MediumError::NotFound { .. }));
    assert!(missing.to_string().contains("missing.csv: no such file"), "{missing}");
    let below_a_file = PinnedFile::open(&path.join("b.csv")).unwrap_err();
    assert!(matches!(below_a_file, MediumError::NotFound { .. }), "{below_a_file}");
    let a_folder = PinnedFile::open(folder.path()).unwrap_err();
    assert!(a_folder.to_string().ends_with("is a folder, expected a regular file"), "{a_folder}");
    let device = PinnedFile::open(Path::new("/dev/null")).unwrap_err();
    assert!(device.to_string().contains("is a device"), "{device}");
}

#[test]
fn a_name_that_is_not_utf8_is_refused_rather_than_confused() {
    use std::os::unix::ffi::OsStrExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(std::ffi::OsStr::from_bytes(b"a\xff.csv"));
    fs::write(&path, b"x").unwrap();
    let error = PinnedFile::open(&path).unwrap_err();
    assert!(error.to_string().contains("not valid UTF-8"), "{error}");
}

#[test]
fn many_threads_read_one_pin() {
    let content: Vec<u8> = (0..1_000_000_u32).map(|at| (at % 251) as u8).collect();
    let (_folder, path) = file_with(&content);
    let file = PinnedFile::open(&path).unwrap();
    std::thread::scope(|scope| {
        for part in 0..8_usize {
            let (file, content) = (&file, &content);
            scope.spawn(move || {
                let mut buffer = vec![0; 125_000];
                file.read_exact_at(&mut buffer, part as u64 * 125_000).unwrap();
                assert_eq!(buffer, content[part * 125_000..][..125_000]);
            });
        }
    });
}

#![allow(clippy::unwrap_used, clippy::panic)]

use super::*;
use crate::AlignedBuffer;

#[test]
fn the_description_tells_which_way_reads_go() {
    let folder = tempfile::tempdir().unwrap();
    let described = |io_uring, past_page_cache| {
        DirectMedium::open_with(folder.path(), DirectOptions { io_uring, past_page_cache }).unwrap().describe()
    };
    assert!(described(false, false).ends_with("read by threads that block through the page cache"));
    // What the system grants is not known here, but it is the same for each question.
    let by = if described(true, false).contains("io_uring") { "io_uring" } else { "threads that block" };
    let cache = if described(false, true).contains("past") { "past" } else { "through" };
    assert!(described(true, true).ends_with(&format!("read by {by} {cache} the page cache")));
}

#[test]
fn a_folder_that_is_missing_or_a_file_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(DirectMedium::open(&folder.path().join("none")), Err(MediumError::NotFound { .. })));
    let file = folder.path().join("file");
    fs::write(&file, "x").unwrap();
    assert!(matches!(DirectMedium::open(&file), Err(MediumError::NotFound { .. })));
}

#[test]
fn the_list_leaves_out_what_is_no_file() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("folder")).unwrap();
    std::os::unix::fs::symlink("nowhere", folder.path().join("link")).unwrap();
    fs::write(folder.path().join("b"), "").unwrap();
    fs::write(folder.path().join("a"), "").unwrap();
    assert_eq!(DirectMedium::open(folder.path()).unwrap().list().unwrap(), ["a", "b"]);
}

#[test]
fn memory_file_systems_work_whether_or_not_they_take_direct_io() {
    let Ok(folder) = tempfile::tempdir_in("/dev/shm") else { return };
    let medium = DirectMedium::open(folder.path()).unwrap();
    let file = medium.create("column").unwrap();
    let mut buffer = AlignedBuffer::new(8192);
    buffer.fill(9);
    medium.write_at(&file, 0, &buffer).unwrap();
    buffer.fill(0);
    medium.read_at(&file, 0, &mut buffer).unwrap();
    assert!(buffer.iter().all(|&byte| byte == 9));
}

#[test]
fn a_file_replaced_under_its_name_is_still_read_unaligned_through_its_handle() {
    let folder = tempfile::tempdir().unwrap();
    let medium = DirectMedium::open(folder.path()).unwrap();
    let old = medium.create("manifest").unwrap();
    let mut buffer = AlignedBuffer::new(4096);
    buffer.fill(1);
    medium.write_at(&old, 0, &buffer).unwrap();
    let new = medium.create("manifest.new").unwrap();
    medium.write_at(&new, 0, &[2; 10]).unwrap();
    medium.rename("manifest.new", "manifest").unwrap();
    // The first transfer that is not aligned opens a second descriptor, now that the name is another file's.
    let mut bytes = [0; 10];
    medium.read_at(&old, 3, &mut bytes).unwrap();
    assert_eq!(bytes, [1; 10]);
    medium.remove("manifest").unwrap();
    medium.read_at(&new, 0, &mut bytes).unwrap();
    assert_eq!(bytes, [2; 10]);
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_device_is_an_error_that_says_what_to_do() {
    let medium = DirectMedium::open(Path::new("/dev")).unwrap();
    let Ok(file) = medium.open_writable("full") else { return };
    let error = medium.write_at(&file, 0, &[1; 100]).unwrap_err();
    assert!(matches!(error, MediumError::OutOfSpace { .. }), "{error}");
    assert!(error.to_string().contains("/dev/full: cannot write 100 bytes at byte 0: No space left"), "{error}");
}

#[test]
#[cfg(target_os = "linux")]
fn what_the_system_refuses_to_read_is_an_error_with_offset_and_length() {
    // The memory of a process can't be read where nothing is mapped: EIO, by either way of reading.
    for io_uring in [true, false] {
        let options = DirectOptions { io_uring, past_page_cache: false };
        let medium: Arc<dyn Medium> = Arc::new(DirectMedium::open_with(Path::new("/proc/self"), options).unwrap());
        let file = medium.open("mem").unwrap();
        let mut queue = crate::ReadQueue::new(medium);
        queue.submit([(file, 4096, vec![0_u8; 100])]);
        let error = queue.wait_next().unwrap().outcome.unwrap_err().to_string();
        assert!(error.contains("mem: cannot read 100 bytes at byte 4096: Input/output error"), "{error}");
    }
}

//! Random calls on every medium beside a plain model of a folder, and what all media promise of reads under way.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

mod vectored;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::seeded::Seeded;
use super::*;
use crate::{MediumError, Result};

/// Every medium, with a name for messages; those on disk in folders of their own below `folder`.
fn media(folder: &Path) -> Vec<(String, Arc<dyn Medium>)> {
    let mut media: Vec<(String, Arc<dyn Medium>)> = vec![("memory".to_owned(), Arc::new(MemoryMedium::new()))];
    let unlimited = Throttle { bytes_per_s: u64::MAX, latency_ns: 0 };
    let (clock, sleep) = (Arc::new(thermocline_hardware::SystemClock::new()), Arc::new(SystemSleep));
    let throttled = ThrottledMedium::new(Arc::new(MemoryMedium::new()), unlimited, clock, sleep).unwrap();
    media.push(("throttled".to_owned(), Arc::new(throttled)));
    media.push(("simulated".to_owned(), Arc::new(SimulatedMedium::new(512))));
    for io_uring in [true, false] {
        for past_page_cache in [true, false] {
            let name = format!("direct, io_uring {io_uring}, past_page_cache {past_page_cache}");
            let folder = folder.join(&name);
            std::fs::create_dir(&folder).unwrap();
            let options = DirectOptions { io_uring, past_page_cache };
            media.push((name, Arc::new(DirectMedium::open_with(&folder, options).unwrap())));
        }
    }
    media
}

fn for_each_medium(test: impl Fn(&str, Arc<dyn Medium>)) {
    let folder = tempfile::tempdir().unwrap();
    for (name, medium) in media(folder.path()) {
        test(&name, medium);
    }
}

/// A folder as anybody would write it down.
#[derive(Default)]
struct Model {
    names: BTreeMap<String, usize>,
    files: Vec<Vec<u8>>,
}

fn random_bytes(seeded: &mut Seeded, length: usize) -> Vec<u8> {
    (0..length).map(|_| seeded.next() as u8).collect()
}

/// Mostly multiples of what direct I/O asks for, else anything.
fn random_size(seeded: &mut Seeded, end_pages: u64) -> usize {
    let size = seeded.below(end_pages) as usize * DIRECT_ALIGNMENT_BYTES;
    if seeded.below(3) == 0 { size + seeded.below(5000) as usize } else { size }
}

fn check_against_model(medium: &Arc<dyn Medium>, seed: u64) {
    let seeded = &mut Seeded::new(seed);
    let mut model = Model::default();
    let mut handles: Vec<(MediumFile, usize)> = Vec::new();
    let mut queue = ReadQueue::new(Arc::clone(medium));
    for _ in 0..200 {
        let name = ["a", "b", "c", "d.tmp"][seeded.below(4) as usize];
        let handle = (!handles.is_empty()).then(|| handles[seeded.below(handles.len() as u64) as usize].clone());
        match (seeded.below(10), handle) {
            (0, _) => match medium.create(name) {
                Ok(file) => {
                    assert!(!model.names.contains_key(name));
                    model.names.insert(name.to_owned(), model.files.len());
                    handles.push((file, model.files.len()));
                    model.files.push(Vec::new());
                }
                Err(error) => assert!(model.names.contains_key(name), "{error}"),
            },
            (1, _) => match medium.open_writable(name) {
                Ok(file) => handles.push((file, model.names[name])),
                Err(error) => {
                    assert!(
                        !model.names.contains_key(name) && matches!(error, MediumError::NotFound { .. }),
                        "{error}"
                    );
                }
            },
            (2, _) => assert_eq!(medium.remove(name).is_ok(), model.names.remove(name).is_some()),
            (3, _) => {
                let to = ["a", "b", "c"][seeded.below(3) as usize];
                let moved = model.names.remove(name);
                assert_eq!(medium.rename(name, to).is_ok(), moved.is_some());
                model.names.extend(moved.map(|file| (to.to_owned(), file)));
            }
            (4 | 5, Some((file, id))) => {
                let (offset, length) = (random_size(seeded, 40), random_size(seeded, 20));
                let mut bytes = AlignedBuffer::new(length);
                bytes.copy_from_slice(&random_bytes(seeded, length));
                medium.write_at(&file, offset as u64, &bytes).unwrap();
                let content = &mut model.files[id];
                if length > 0 {
                    content.resize(content.len().max(offset + length), 0);
                    content[offset..offset + length].copy_from_slice(&bytes);
                }
            }
            (6, Some((file, id))) => {
                let length = random_size(seeded, 3);
                let bytes = random_bytes(seeded, length);
                assert_eq!(medium.append(&file, &bytes).unwrap(), model.files[id].len() as u64);
                model.files[id].extend(bytes);
            }
            (7, Some((file, id))) => {
                let (offset, length) = (random_size(seeded, 40), random_size(seeded, 20));
                let mut buffer = AlignedBuffer::new(length);
                check_read(&model.files[id], offset, &medium.read_at(&file, offset as u64, &mut buffer), &buffer);
            }
            (8, Some(_)) => {
                let reads: Vec<_> = (0..seeded.below(300))
                    .map(|_| {
                        let (file, id) = handles[seeded.below(handles.len() as u64) as usize].clone();
                        (file, id, random_size(seeded, 40), random_size(seeded, 5))
                    })
                    .collect();
                queue.submit(reads.iter().map(|(file, id, offset, length)| {
                    (file.clone(), *offset as u64, Tagged { id: *id, buffer: AlignedBuffer::new(*length) })
                }));
                assert_eq!(queue.in_flight_count(), reads.len());
                let mut count = 0;
                while let Some(read) = queue.wait_next() {
                    let Tagged { id, buffer } = read.buffer;
                    check_read(&model.files[id], read.offset_bytes as usize, &read.outcome, &buffer);
                    count += 1;
                }
                assert_eq!(count, reads.len());
            }
            (_, handle) => {
                if let Some((file, id)) = handle {
                    assert_eq!(medium.size_bytes(&file).unwrap(), model.files[id].len() as u64);
                    medium.sync_data(&file).unwrap();
                }
                medium.sync_namespace().unwrap();
                assert_eq!(medium.list().unwrap(), model.names.keys().cloned().collect::<Vec<_>>());
            }
        }
    }
}

struct Tagged {
    id: usize,
    buffer: AlignedBuffer,
}

impl AsMut<[u8]> for Tagged {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.buffer
    }
}

fn check_read(content: &[u8], offset: usize, outcome: &Result<()>, buffer: &[u8]) {
    let end = offset + buffer.len();
    match outcome {
        Ok(()) if buffer.is_empty() => {}
        Ok(()) => assert!(content[offset..end] == *buffer, "other bytes at {offset}..{end}"),
        Err(MediumError::PastEnd { offset_bytes, length_bytes, size_bytes, .. }) => {
            assert!(end > content.len(), "a read of {offset}..{end} in a file of {} bytes", content.len());
            assert_eq!((*offset_bytes, *length_bytes), (offset as u64, buffer.len() as u64));
            assert_eq!(*size_bytes, content.len() as u64);
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn every_medium_answers_random_calls_as_a_plain_folder_would() {
    for seed in 1..=4 {
        for_each_medium(|name, medium| {
            println!("medium {name}, seed {seed}");
            check_against_model(&medium, seed);
        });
    }
}

#[test]
fn reads_past_the_end_name_file_offset_length_and_size() {
    for_each_medium(|_, medium| {
        let file = medium.create("column").unwrap();
        medium.write_at(&file, 0, &[1; 5000]).unwrap();
        let mut buffer = AlignedBuffer::new(4096);
        let error = medium.read_at(&file, 4096, &mut buffer).unwrap_err().to_string();
        assert!(error.contains("column: cannot read 4096 bytes at byte 4096"), "{error}");
        assert!(error.contains("ends at byte 5000, expected at least 8192"), "{error}");
    });
}

#[test]
fn files_opened_for_reading_alone_refuse_writes() {
    for_each_medium(|name, medium| {
        drop(medium.create("column").unwrap());
        let file = medium.open("column").unwrap();
        for bytes in [&[1; 4096][..], &[1]] {
            let error = medium.write_at(&file, 0, bytes).unwrap_err().to_string();
            assert!(error.contains("opened for reading alone"), "{name}: {error}");
        }
        assert_eq!(medium.size_bytes(&file).unwrap(), 0);
    });
}

#[test]
fn names_with_folders_in_them_are_refused() {
    for_each_medium(|_, medium| {
        for name in ["", ".", "..", "a/b", "/etc/passwd", "a\0"] {
            assert!(matches!(medium.create(name), Err(MediumError::InvalidLocation { .. })), "{name:?}");
            assert!(medium.open(name).is_err() && medium.remove(name).is_err() && medium.rename("x", name).is_err());
        }
    });
}

#[test]
fn a_file_of_another_kind_of_medium_is_refused_by_every_call() {
    let memory: Arc<dyn Medium> = Arc::new(MemoryMedium::new());
    let stranger = memory.create("stranger").unwrap();
    let folder = tempfile::tempdir().unwrap();
    for (_, medium) in media(folder.path()).into_iter().skip(2) {
        assert!(matches!(medium.size_bytes(&stranger), Err(MediumError::ForeignFile { .. })));
        assert!(medium.write_at(&stranger, 0, &[1]).is_err() && medium.sync_data(&stranger).is_err());
        let mut queue = ReadQueue::new(medium);
        queue.submit([(stranger.clone(), 0, vec![0_u8; 1])]);
        assert!(matches!(queue.wait_next().unwrap().outcome, Err(MediumError::ForeignFile { .. })));
    }
}

/// Counts its completions, and may panic at them.
struct Counted {
    buffer: AlignedBuffer,
    completions: Arc<AtomicUsize>,
    panics: bool,
}

impl PendingRead for Counted {
    fn destination(&mut self) -> Destination<'_> {
        Destination::One(&mut self.buffer)
    }

    fn completed(self: Box<Self>, outcome: Result<()>) {
        outcome.unwrap();
        assert!(self.buffer.iter().all(|&byte| byte == 3));
        self.completions.fetch_add(1, Ordering::SeqCst);
        if self.panics {
            std::panic::resume_unwind(Box::new("a panic that is not reported"));
        }
    }
}

#[test]
fn a_handle_is_the_same_as_its_clones_alone() {
    for_each_medium(|name, medium| {
        let file = medium.create("a").unwrap();
        let other = medium.create("b").unwrap();
        assert!(file.is_same(&file.clone()), "{name}");
        assert!(!file.is_same(&other) && !file.is_same(&medium.open("a").unwrap()), "{name}");
    });
}

#[test]
fn dropping_a_medium_completes_what_was_submitted() {
    for_each_medium(|name, medium| {
        let file = medium.create("column").unwrap();
        medium.write_at(&file, 0, &[3; 1 << 20]).unwrap();
        let completions = Arc::new(AtomicUsize::new(0));
        let reads = (0..1000).map(|index| ReadAt {
            file: file.clone(),
            offset_bytes: index % 256 * 4096,
            read: Box::new(Counted {
                buffer: AlignedBuffer::new(4096),
                completions: Arc::clone(&completions),
                panics: false,
            }),
        });
        medium.submit(reads.collect());
        drop(medium);
        assert_eq!(completions.load(Ordering::SeqCst), 1000, "{name}");
    });
}

#[test]
fn a_queue_that_is_dropped_leaves_its_reads_their_buffers() {
    for_each_medium(|_, medium| {
        let file = medium.create("column").unwrap();
        medium.write_at(&file, 0, &[3; 1 << 20]).unwrap();
        for _ in 0..20 {
            let mut queue = ReadQueue::new(Arc::clone(&medium));
            queue.submit((0..200).map(|index| (file.clone(), index * 4096, AlignedBuffer::new(4096))));
            assert!(queue.wait_next().unwrap().outcome.is_ok());
        }
    });
}

#[test]
fn a_queue_tells_without_waiting_whether_a_read_is_over() {
    for_each_medium(|_, medium| {
        let file = medium.create("column").unwrap();
        medium.write_at(&file, 0, &[3; 4096]).unwrap();
        let mut queue = ReadQueue::new(medium);
        assert!(queue.try_next().is_none());
        queue.submit([(file.clone(), 0, vec![0; 10]), (file, 7, vec![0; 20])]);
        let mut total = 0;
        while queue.in_flight_count() > 0 {
            match queue.try_next() {
                Some(read) => total += read.buffer.len(),
                None => std::thread::yield_now(),
            }
        }
        assert_eq!(total, 30);
        assert!(queue.try_next().is_none() && queue.wait_next().is_none());
    });
}

#[test]
fn threads_share_a_medium_and_each_gets_its_own_reads() {
    for_each_medium(|_, medium| {
        let file = medium.create("column").unwrap();
        for page in 0..64_u64 {
            medium.write_at(&file, page * 4096, &[page as u8; 4096]).unwrap();
        }
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let (medium, file) = (&medium, &file);
                scope.spawn(move || {
                    let seeded = &mut Seeded::new(thread);
                    let mut queue = ReadQueue::new(Arc::clone(medium));
                    let next = |seeded: &mut Seeded| (file.clone(), seeded.below(64) * 4096);
                    queue.submit((0..30).map(|_| (next(seeded).0, next(seeded).1, AlignedBuffer::new(4096))));
                    for _ in 0..500 {
                        let read = queue.wait_next().unwrap();
                        read.outcome.unwrap();
                        assert!(read.buffer.iter().all(|&byte| u64::from(byte) == read.offset_bytes / 4096));
                        let (file, offset) = next(seeded);
                        queue.submit([(file, offset, read.buffer)]);
                    }
                });
            }
        });
    });
}

#[test]
fn an_owner_that_panics_at_completion_does_not_end_other_reads() {
    let folder = tempfile::tempdir().unwrap();
    for io_uring in [true, false] {
        let options = DirectOptions { io_uring, past_page_cache: true };
        let medium = DirectMedium::open_with(folder.path(), options).unwrap();
        let file = medium.create(&format!("column {io_uring}")).unwrap();
        medium.write_at(&file, 0, &[3; 4096]).unwrap();
        let completions = Arc::new(AtomicUsize::new(0));
        for count in 0..40 {
            let (buffer, completions) = (AlignedBuffer::new(4096), Arc::clone(&completions));
            let read = Box::new(Counted { buffer, completions, panics: count % 2 == 0 });
            medium.submit(vec![ReadAt { file: file.clone(), offset_bytes: 0, read }]);
        }
        drop(medium);
        assert_eq!(completions.load(Ordering::SeqCst), 40);
    }
}

#![allow(clippy::unwrap_used, clippy::panic)]

use std::io::IoSliceMut;

use super::flight::Memory;
use super::*;
use crate::storage::direct::read_progress::ReadProgress;
use crate::{AlignedBuffer, Destination, DirectMedium, Medium, MediumError, PendingRead, ReadQueue};

/// A medium whose ring thread runs `run`; None where the system grants no io_uring.
fn medium_with(folder: &std::path::Path, run: fn(RingThread)) -> Option<Arc<dyn Medium>> {
    let mut medium = DirectMedium::open(folder).unwrap();
    medium.reads = Box::new(RingReads::start_with(run).ok()?);
    Some(Arc::new(medium))
}

fn check_reads(medium: &Arc<dyn Medium>, rounds: usize) {
    let file = medium.create("column").unwrap();
    for page in 0..200_u64 {
        medium.write_at(&file, page * 4096, &[page as u8; 4096]).unwrap();
    }
    let mut queue = ReadQueue::new(Arc::clone(medium));
    for _ in 0..rounds {
        queue.submit((0..200).map(|page| (file.clone(), page * 4096, AlignedBuffer::new(4096))));
        queue.submit([(file.clone(), 4096 * 199, AlignedBuffer::new(8192))]);
        let mut failed_count = 0;
        while let Some(read) = queue.wait_next() {
            match read.outcome {
                Ok(()) => assert!(read.buffer.iter().all(|&byte| u64::from(byte) == read.offset_bytes / 4096)),
                Err(MediumError::PastEnd { .. }) => failed_count += 1,
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!(failed_count, 1);
    }
}

#[test]
fn a_thread_that_is_woken_for_a_byte_that_is_gone_goes_on() {
    fn woken_in_vain(mut thread: RingThread) {
        thread.answers.push((WAKE, 1));
        thread.take_answers();
        thread.run();
    }
    let folder = tempfile::tempdir().unwrap();
    let Some(medium) = medium_with(folder.path(), woken_in_vain) else { return };
    check_reads(&medium, 2);
}

#[test]
fn more_reads_than_the_ring_is_deep_all_complete() {
    let folder = tempfile::tempdir().unwrap();
    if let Some(medium) = medium_with(folder.path(), RingThread::run) {
        check_reads(&medium, 20);
    }
}

#[test]
fn a_ring_that_is_given_up_goes_on_with_blocking_reads() {
    let folder = tempfile::tempdir().unwrap();
    if let Some(medium) = medium_with(folder.path(), RingThread::run_without_ring) {
        check_reads(&medium, 20);
    }
}

#[test]
fn a_ring_that_is_given_up_under_way_loses_no_read() {
    fn some_rounds_then_none(mut thread: RingThread) {
        for _ in 0..3 {
            assert!(!thread.take_arrivals());
            thread.push_poll();
            thread.push_reads();
            let wanted = usize::from(thread.lie_down());
            thread.submit(wanted).unwrap();
            thread.take_answers();
            thread.tell_owners();
        }
        // Pushed but never submitted: what a kernel that refuses leaves behind.
        thread.push_poll();
        thread.push_reads();
        thread.run_without_ring();
    }
    let folder = tempfile::tempdir().unwrap();
    if let Some(medium) = medium_with(folder.path(), some_rounds_then_none) {
        check_reads(&medium, 20);
    }
}

#[test]
fn a_ring_that_cannot_be_waited_for_any_more_loses_no_read() {
    fn submitted_then_none(mut thread: RingThread) {
        let ring = thread.ring.as_raw_fd();
        while thread.waiting.is_empty() {
            assert!(!thread.take_arrivals());
            thread::yield_now();
        }
        thread.push_reads();
        thread.submit(0).unwrap();
        let other = std::fs::File::open("/dev/null").unwrap();
        // SAFETY: both are open, and the ring's stays so; the ring itself lives as long as its queues are mapped.
        assert_eq!(unsafe { libc::dup2(other.as_raw_fd(), ring) }, ring);
        thread.run_without_ring();
    }
    let folder = tempfile::tempdir().unwrap();
    if let Some(medium) = medium_with(folder.path(), submitted_then_none) {
        check_reads(&medium, 2);
    }
}

/// What the kernel does with an entry: fills the first bytes of what remains, and says how many.
fn fill_some(memory: &mut Memory, next: &mut u8, most: usize) -> usize {
    let mut left = most;
    match memory {
        Memory::One(_) => unreachable!("of several parts"),
        Memory::Several(parts, first) => {
            for byte in parts[*first..].iter_mut().flat_map(|part| part.iter_mut()).take(most) {
                (*byte, *next) = (*next, next.wrapping_add(1));
                left -= 1;
            }
        }
    }
    most - left
}

#[test]
fn a_short_read_into_parts_goes_on_where_it_stopped() {
    for seed in 0..100 {
        let seeded = &mut crate::storage::seeded::Seeded::new(seed);
        let sizes: Vec<usize> = (0..1 + seeded.below(9)).map(|_| seeded.below(50) as usize).collect();
        let length: usize = sizes.iter().sum();
        // Lent for good, as the ring takes it.
        let parts: Vec<&'static mut [u8]> = sizes.iter().map(|&size| Box::leak(vec![0; size].into())).collect();
        let places: Vec<(*const u8, usize)> = parts.iter().map(|part| (part.as_ptr(), part.len())).collect();
        let mut memory = Memory::Several(parts.into_iter().map(IoSliceMut::new).collect(), 0);
        let (mut progress, mut next) = (ReadProgress::new(0, length), 0);
        while !progress.remaining().is_empty() {
            let read_bytes = fill_some(&mut memory, &mut next, 1 + seeded.below(40) as usize);
            memory.advance(read_bytes);
            progress.answered(Ok(read_bytes), false);
        }
        // SAFETY: leaked above, and no slice of it is used any more.
        let bytes = places.iter().flat_map(|&(start, size)| unsafe { std::slice::from_raw_parts(start, size) });
        assert!(bytes.copied().eq((0..length).map(|index| index as u8)), "seed {seed}: {sizes:?}");
    }
}

#[test]
fn the_last_owner_of_a_medium_may_be_a_completion() {
    struct LastOwner {
        medium: Option<Arc<dyn Medium>>,
        buffer: AlignedBuffer,
        told: std::sync::mpsc::Sender<()>,
    }
    impl PendingRead for LastOwner {
        fn destination(&mut self) -> Destination<'_> {
            Destination::One(&mut self.buffer)
        }
        fn completed(mut self: Box<Self>, outcome: Result<()>) {
            outcome.unwrap();
            drop(self.medium.take());
            self.told.send(()).unwrap();
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let medium: Arc<dyn Medium> = Arc::new(DirectMedium::open(folder.path()).unwrap());
    let file = medium.create("column").unwrap();
    medium.write_at(&file, 0, &[1; 4096]).unwrap();
    let (told, heard) = std::sync::mpsc::channel();
    let read = Box::new(LastOwner { medium: Some(Arc::clone(&medium)), buffer: AlignedBuffer::new(4096), told });
    medium.submit(vec![ReadAt { file, offset_bytes: 0, read }]);
    drop(medium);
    heard.recv().unwrap();
}

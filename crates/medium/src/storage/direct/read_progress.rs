//! What a read still has to do after the system has answered: one set of rules for every way of reading.

use std::io;
use std::ops::Range;

use crate::storage::DIRECT_ALIGNMENT_BYTES;

/// How often in a row a call may be interrupted, or be refused for want of resources, before that is an error. Each
/// answer that brings bytes starts anew.
pub(super) const REPEATS_MAX: u32 = 1000;

/// The state of one read of a whole range.
#[derive(Debug)]
pub(super) struct ReadProgress {
    offset_bytes: u64,
    length_bytes: usize,
    done_bytes: usize,
    repeat_count: u32,
    refused_direct: bool,
}

/// What follows from an answer of the system.
#[derive(Debug)]
pub(super) enum Verdict {
    /// The range is filled.
    Complete,
    /// Ask for the remaining range.
    Again,
    /// The file ends within the range.
    PastEnd,
    /// The system gave up, or we do.
    Failed(io::Error),
}

impl ReadProgress {
    /// Nothing read yet.
    pub(super) fn new(offset_bytes: u64, length_bytes: usize) -> Self {
        Self { offset_bytes, length_bytes, done_bytes: 0, repeat_count: 0, refused_direct: false }
    }

    /// The part of the destination still to fill.
    pub(super) fn remaining(&self) -> Range<usize> {
        self.done_bytes..self.length_bytes
    }

    /// Where in the file the remaining part begins.
    pub(super) fn next_offset_bytes(&self) -> u64 {
        self.offset_bytes.saturating_add(self.done_bytes as u64)
    }

    /// Where the whole read begins.
    pub(super) fn offset_bytes(&self) -> u64 {
        self.offset_bytes
    }

    /// Whether what remains can go past the page cache, given where its memory begins; of memory in several places, all
    /// bits of their addresses and of the lengths of all but the last.
    pub(super) fn may_go_direct(&self, address: usize) -> bool {
        !self.refused_direct && is_aligned(address, self.next_offset_bytes(), self.length_bytes - self.done_bytes)
    }

    /// Takes in an answer: the count of bytes read, or the error. `direct` tells which way was asked.
    pub(super) fn answered(&mut self, answer: io::Result<usize>, direct: bool) -> Verdict {
        match answer {
            _ if self.length_bytes == 0 => Verdict::Complete,
            Ok(0) => Verdict::PastEnd,
            Ok(read_bytes) => {
                self.done_bytes += read_bytes;
                self.repeat_count = 0;
                if self.done_bytes == self.length_bytes { Verdict::Complete } else { Verdict::Again }
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) => {
                self.repeat_count += 1;
                if self.repeat_count > REPEATS_MAX { Verdict::Failed(error) } else { Verdict::Again }
            }
            // A file system that lets files be opened for direct I/O and then does not do it, or wants other alignment.
            Err(error) if direct && error.kind() == io::ErrorKind::InvalidInput => {
                self.refused_direct = true;
                Verdict::Again
            }
            Err(error) => Verdict::Failed(error),
        }
    }

    /// Whether the system has refused to go past the page cache.
    pub(super) fn refused_direct(&self) -> bool {
        self.refused_direct
    }
}

/// Whether a transfer can go past the page cache.
pub(super) fn is_aligned(address: usize, offset_bytes: u64, length_bytes: usize) -> bool {
    (address | length_bytes | (offset_bytes % DIRECT_ALIGNMENT_BYTES as u64) as usize)
        .is_multiple_of(DIRECT_ALIGNMENT_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(code: i32) -> io::Result<usize> {
        Err(io::Error::from_raw_os_error(code))
    }

    #[test]
    fn short_reads_go_on_where_they_stopped() {
        let mut progress = ReadProgress::new(8192, 8192);
        assert!(matches!(progress.answered(Ok(4096), true), Verdict::Again));
        assert_eq!((progress.remaining(), progress.next_offset_bytes()), (4096..8192, 12288));
        assert!(progress.may_go_direct(4096) && !progress.may_go_direct(4096 | 512));
        assert!(matches!(progress.answered(Ok(100), true), Verdict::Again));
        assert!(!progress.may_go_direct(4096), "what remains after an odd count is not aligned");
        assert!(matches!(progress.answered(Ok(0), false), Verdict::PastEnd));
    }

    #[test]
    fn interruptions_and_want_of_resources_are_repeated_but_not_for_ever() {
        for code in [libc::EINTR, libc::EAGAIN] {
            let mut progress = ReadProgress::new(0, 10);
            for _ in 0..REPEATS_MAX {
                assert!(matches!(progress.answered(error(code), false), Verdict::Again));
            }
            assert!(matches!(progress.answered(Ok(4), false), Verdict::Again), "bytes begin the count anew");
            for _ in 0..REPEATS_MAX {
                assert!(matches!(progress.answered(error(code), false), Verdict::Again));
            }
            assert!(matches!(progress.answered(error(code), false), Verdict::Failed(_)));
        }
    }

    #[test]
    fn refused_direct_io_is_tried_through_the_page_cache_once() {
        let mut progress = ReadProgress::new(0, 4096);
        assert!(progress.may_go_direct(0));
        assert!(matches!(progress.answered(error(libc::EINVAL), true), Verdict::Again));
        assert!(!progress.may_go_direct(0) && progress.refused_direct());
        assert!(matches!(progress.answered(error(libc::EINVAL), false), Verdict::Failed(_)));
        assert!(matches!(ReadProgress::new(0, 1).answered(error(libc::EIO), true), Verdict::Failed(_)));
    }

    #[test]
    fn alignment_needs_address_offset_and_length() {
        assert!(is_aligned(4096, 8192, 4096) && is_aligned(0, 0, 0));
        assert!(!is_aligned(4097, 8192, 4096) && !is_aligned(4096, 8193, 4096) && !is_aligned(4096, 8192, 512));
        assert!(is_aligned(4096, 1 << 40, 4096));
    }
}

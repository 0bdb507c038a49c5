//! One read of the system that fills memory in several places (`preadv`).
//!
//! **Invariants:** parts are filled in order, so that what a short read leaves is the end of one part and those behind
//! it: [`IoSliceMut::advance_slices`] takes what is done off their front.

// The standard library has no such call yet that is stable (`FileExt::read_vectored_at`).
#![allow(unsafe_code)]

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

/// The most parts that the system takes at once (`IOV_MAX`); of more, the first ones are filled.
pub(super) const PARTS_MAX: usize = 1024;

/// Reads into `parts` from `offset_bytes` on, once; returns how many bytes came.
pub(super) fn read_vectored_at(file: &File, parts: &mut [IoSliceMut<'_>], offset_bytes: u64) -> io::Result<usize> {
    if let [part] = parts {
        return file.read_at(part, offset_bytes);
    }
    let count = parts.len().min(PARTS_MAX) as libc::c_int;
    let offset = libc::off_t::try_from(offset_bytes).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
    // SAFETY: an `IoSliceMut` has the form of an `iovec` on Unix, as its documentation promises, and each stands for
    // bytes that are borrowed for writing until this call returns; so many of them are there. Gains: one transfer
    // rather than one for each part. Its safe reference is the one above; tests compare both with a copy.
    let answer = unsafe { libc::preadv(file.as_raw_fd(), parts.as_ptr().cast::<libc::iovec>(), count, offset) };
    usize::try_from(answer).map_err(|_| io::Error::last_os_error())
}

/// What parts ask of direct I/O: their addresses, and the lengths of all but the last, all bits of them together. The
/// last one's is asked for with the length of the read.
pub(super) fn alignment_bits(parts: &[IoSliceMut<'_>]) -> usize {
    let addresses = parts.iter().fold(0, |bits, part| bits | part.as_ptr().addr());
    let before_last = parts.len().saturating_sub(1);
    parts[..before_last].iter().fold(addresses, |bits, part| bits | part.len())
}

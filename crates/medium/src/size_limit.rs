//! How large the system lets a process make its files (`RLIMIT_FSIZE`, `ulimit -f`).
//!
//! Who writes beyond that is sent a signal, SIGXFSZ, which ends the process unless it has said otherwise; a library can
//! say nothing for its host. So the limit is asked for before a write, which then fails like one to a full disk.

#![allow(unsafe_code)]

use std::io;

/// The limit now; `u64::MAX` for none.
fn file_size_limit_bytes() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: `limit` is a live place for what the call writes, and nothing is kept of it. The standard library has no
    // such call.
    let outcome = unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) };
    if outcome == 0 { limit.rlim_cur } else { u64::MAX }
}

/// Refuses a write of so many bytes at `offset_bytes` of a file that the system would answer with the signal.
///
/// # Errors
/// `FileTooLarge`, with the limit.
pub fn require_file_size(offset_bytes: u64, length_bytes: usize) -> io::Result<()> {
    require_below(file_size_limit_bytes(), offset_bytes, length_bytes)
}

fn require_below(limit_bytes: u64, offset_bytes: u64, length_bytes: usize) -> io::Result<()> {
    match offset_bytes.checked_add(length_bytes as u64) {
        Some(end_bytes) if end_bytes <= limit_bytes => Ok(()),
        _ => Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("the system lets this process make files of at most {limit_bytes} bytes (ulimit -f)"),
        )),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_write_may_end_at_the_limit_and_not_beyond() {
        assert!(require_below(4096, 0, 4096).is_ok());
        let message = require_below(4096, 1, 4096).unwrap_err().to_string();
        assert!(message.contains("at most 4096 bytes"), "{message}");
        assert!(require_below(u64::MAX, u64::MAX - 1, 1).is_ok());
        assert!(require_below(u64::MAX, u64::MAX, 2).is_err());
    }
}

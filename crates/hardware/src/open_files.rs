//! How many files a process may have open.

#![allow(unsafe_code)]

/// Raises the process's own limit of open files to what the system allows it. Each segment of a column table is one.
///
/// For a program that is Thermocline's alone: hosts have limits of their own for reasons of their own (`select` takes
/// no file beyond the 1,024th).
pub fn allow_open_files() {
    #[cfg(unix)]
    {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: the structure is the call's to fill.
        let is_known = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } == 0;
        if is_known && limit.rlim_cur < limit.rlim_max {
            limit.rlim_cur = limit.rlim_max;
            // SAFETY: the structure is only read. Where the system refuses, the limit stays as it is.
            let _ = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
        }
    }
}

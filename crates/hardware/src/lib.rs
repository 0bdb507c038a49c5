//! What this machine is, and what time it is.
//!
//! **Owns:** detection of processors, caches, memory and the control group's limit ([`Machine`]); the measurement of
//! memory bandwidth and latency ([`calibrate`]), and of bringing in fresh pages ([`first_touch`]); the process's own
//! memory by kind ([`process_memory`]) and the processors that it leaves idle ([`IdleProcessors`]); the [`Clock`] that
//! every other crate is given instead of reading the time itself.
//!
//! **Does not own:** the budget that is derived from these figures (`budget`), or any decision made with them.
//!
//! **Invariants:** detection only reads: no file is written, no setting changed, no thread left behind. Whatever the
//! platform does not tell is a documented fallback or `None`, never an error. Texts of `/proc` and `/sys` are parsed by
//! pure functions over strings.
//!
//! **Concurrency:** everything here is `Send + Sync`; what is shared is atomic ([`ManualClock`]) or behind a lock
//! ([`IdleProcessors`]).

mod cache_level;
mod calibration;
mod clock;
mod control_group;
mod first_touch;
mod idle_processors;
mod machine;
mod open_files;
mod process_memory;
mod processor;

pub use cache_level::{CacheKind, CacheLevel};
pub use calibration::{Calibration, calibrate};
pub use clock::{Clock, ManualClock, SystemClock};
pub use first_touch::{FirstTouch, first_touch};
pub use idle_processors::IdleProcessors;
pub use machine::Machine;
pub use open_files::allow_open_files;
pub use process_memory::{ProcessMemory, process_memory};

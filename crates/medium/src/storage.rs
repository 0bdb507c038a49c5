//! Media: where a database keeps files of its own, and how bytes come from there and get there.
//!
//! **Owns:** the trait of a folder-like namespace of files ([`Medium`]) with reads in the background ([`PendingRead`],
//! [`ReadQueue`]) and memory that they can go to ([`AlignedBuffer`]); local files past the page cache
//! ([`DirectMedium`]), files in memory ([`MemoryMedium`]), a throttle around any of them ([`ThrottledMedium`]), and one
//! whose machine crashes and whose disk fails on request ([`SimulatedMedium`], [`Exploration`]).
//!
//! **Does not own:** what the files hold (`column-store`, and later index and log), what of them is kept in memory.
//!
//! **Invariants:** every medium gives the same answers to the same calls; tests run random ones on all of them beside a
//! plain model. What [`Medium`] says of crashes is the least that POSIX lets a program rely on, and no medium is relied
//! on for more.
//!
//! **Concurrency:** media are shared by all threads of a database. A read owns its memory while it is under way.

mod aligned_buffer;
mod direct;
mod medium;
mod memory;
mod pending_read;
mod read_queue;
mod seeded;
mod simulated;
mod throttled;

pub use aligned_buffer::{AlignedBuffer, DIRECT_ALIGNMENT_BYTES};
pub use direct::{DirectMedium, DirectOptions};
pub use medium::{Medium, MediumFile};
pub use memory::MemoryMedium;
pub use pending_read::{Destination, PendingRead, ReadAt};
pub use read_queue::{FinishedRead, ReadQueue};
pub use simulated::{Exploration, Explored, Fault, Finding, SimulatedMedium};
pub use throttled::{Sleep, SystemSleep, Throttle, ThrottledMedium};

#[cfg(test)]
mod tests;

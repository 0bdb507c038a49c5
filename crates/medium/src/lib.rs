//! Where bytes rest: local files and objects in stores, and which version of them was seen; a database's own files.
//!
//! **Owns:** file versions and the rules by which they are trusted ([`FileVersion`]); open files that keep reading the
//! bytes they were opened on ([`PinnedFile`], [`RemoteFile`]); files that are written as a whole or not at all
//! ([`StagedFile`]); content hashes that prove an old prefix unchanged ([`HashRecorder`], [`BlockHashes`]); the meaning of
//! a location a user wrote ([`Location`]), listing it, who may read what ([`Access`]), and the stores that open by their
//! URL ([`OpenStores`]); and the media that a database keeps files of its own in, real and simulated ([`Medium`]).
//!
//! **Does not own:** what the bytes mean (`raw`, and for a database's own files the crates that write them), what is
//! kept of them (`operator-cache`). No async runtime: remote calls are futures of `object_store`, and reads in the
//! background tell their owners.
//!
//! **Invariants:** a version describes the bytes that its pin reads, never a later file under the same name. Listing
//! returns files sorted by path, each with the version seen by that listing. An error names the path and what to do.
//!
//! **Concurrency:** every type is `Send + Sync`. Reads are positional, so that any number of threads share one pin.
//! Writers that change a mapped file leave no trace in its metadata before the kernel writes back: such changes are
//! seen only by content.

mod access;
mod block_hashes;
mod compression;
mod error;
mod glob_pattern;
mod hash_recorder;
mod listing;
mod location;
mod pinned_file;
mod remote;
mod size_limit;
mod staged_file;
mod storage;
mod store_failure;
mod stores;
mod version;

pub use access::Access;
pub use block_hashes::{BLOCK_BYTES, BlockHashes, PrefixMatch};
pub use compression::Compression;
pub use error::MediumError;
pub use hash_recorder::HashRecorder;
pub use listing::{ListedFile, list_local};
pub use location::{LocalPattern, Location, RemotePattern};
pub use pinned_file::{Change, PinnedFile};
pub use remote::{RemoteFile, list_remote};
pub use size_limit::require_file_size;
pub use staged_file::{MadeFolders, StagedBytes, StagedFile};
pub use storage::{
    AlignedBuffer, DIRECT_ALIGNMENT_BYTES, Destination, DirectMedium, DirectOptions, Exploration, Explored, Fault,
    Finding, FinishedRead, Medium, MediumFile, MemoryMedium, PendingRead, ReadAt, ReadQueue, SimulatedMedium, Sleep,
    SystemSleep, Throttle, ThrottledMedium,
};
pub use stores::{OpenStores, StoreOptions, open_store};
pub use version::{FileVersion, Stamp};

/// The result of every fallible call of this crate.
pub type Result<T, E = MediumError> = std::result::Result<T, E>;

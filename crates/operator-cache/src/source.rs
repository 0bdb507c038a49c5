//! Where rows come from: the seam between a shared scan and the scanner of a raw file.
//!
//! A source cuts one file into *morsels*, numbered densely from 0 in file order, and decodes them. The numbering
//! depends on the file, the range, the positions or the map to read by and what the spec says of the records' length alone
//! (not on columns, predicate or timing),
//! so that a second source over the same range can take up where a first one was left.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use thermocline_medium::BlockHashes;
use thermocline_placement::operator_cache::SourceKind;
use thermocline_predicate::{Conjunction, FieldPath};
use thermocline_raw::{PositionalMap, RecordPositions};

use crate::error::SourceError;
use crate::request::ColumnSpec;
use crate::rows::Rows;

/// What a cached result is the result *of*: one file, read with one set of options and one table schema.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceKey {
    /// Canonical path or URL, as in [`FileVersion::path`](thermocline_medium::FileVersion).
    pub path: Arc<str>,
    /// The kind of text it is. Part of `options` too; policies know it from here.
    pub kind: SourceKind,
    /// Canonical text of format, options and table schema: two tables share items only when it is equal.
    pub options: Arc<str>,
    /// The list that is flattened to one row per element, if any.
    pub unnest: Option<FieldPath>,
}

/// The first records of a file, as a scan of them knows where they end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Head {
    /// Where a scan that leaves them out begins.
    pub end_bytes: u64,
    /// How many they are, bad ones that were left out among them.
    pub record_count: u64,
}

/// What a source must deliver; made by the cache, executed by the [`SourceFactory`].
#[derive(Debug, Clone)]
pub struct ScanSpec {
    /// First byte to scan; a record boundary (0, or where an earlier scan ended).
    pub start_bytes: u64,
    /// Bytes the scan may see: the file's size as its query pinned it.
    pub end_bytes: u64,
    /// Records that are left out because their rows are kept. `hashes`, if there, are then of the content up to
    /// `end_bytes`: a source that finds other content fails.
    pub head: Option<Head>,
    /// Columns of the rows, in this order.
    pub columns: Arc<[ColumnSpec]>,
    /// Only rows that satisfy it are delivered, and all of those.
    pub predicate: Arc<Conjunction>,
    /// Where a list is unnested: whether records without elements are delivered too, as records without rows. The
    /// predicate is then about records alone.
    pub keeps_empty: bool,
    /// Hashes of the content `[0, hashes.size_bytes())` when the file was scanned before: a recorder may start from
    /// them.
    pub hashes: Option<Arc<BlockHashes>>,
    /// Whether each morsel's rows come with the positions of their records ([`Rows::positions`]).
    pub notes_positions: bool,
    /// Only the records at these positions are read, which hold all rows that pass. `hashes`, if there, are of the
    /// content that they are positions in, up to `end_bytes`: a source that finds other content fails.
    pub positions: Option<Arc<RecordPositions>>,
    /// About the bytes of a record of the file, those at no position among them; 0 where it is not known.
    pub record_bytes: u64,
    /// Records are found by this map of the whole file, and fields as far as it knows them. `hashes`, if they reach up to
    /// `end_bytes`, are of the content that it is a map of: a source that finds other content fails.
    pub map: Option<Arc<PositionalMap>>,
    /// Whether each morsel's rows come with what it adds to a map of the file ([`Rows::map_piece`]). The whole file is
    /// read then.
    pub makes_map: bool,
}

/// Opens a source. Called once per scan, and again when a query must read what it missed of an abandoned scan.
/// It must not block on other queries.
pub type SourceFactory = Arc<dyn Fn(&ScanSpec) -> Result<Arc<dyn MorselSource>, SourceError> + Send + Sync>;

/// A piece of work: a range of the file, and whatever the source carries between claim and decode.
pub struct Morsel {
    /// Dense number in file order, from 0.
    pub index: u64,
    /// First byte of the range.
    pub start_bytes: u64,
    /// Byte after the range.
    pub end_bytes: u64,
    /// [`Head::end_bytes`] of this morsel's records and all before them.
    pub head_end_bytes: u64,
    /// The source's own state: fetched or decompressed bytes. The cache does not look at it.
    pub payload: Option<Box<dyn Any + Send + Sync>>,
}

impl fmt::Debug for Morsel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Morsel {} [{}, {})", self.index, self.start_bytes, self.end_bytes)
    }
}

/// How a claimed morsel becomes decodable.
pub enum Fetch {
    /// It is: a local file is read while it is decoded.
    Ready(Morsel),
    /// After this future. Any stream of any participant may drive it, so that nobody waits for a query that was
    /// cancelled or stopped reading.
    Pending(BoxFuture<'static, Result<Morsel, SourceError>>),
}

/// What is known once every morsel was decoded.
#[derive(Debug, Clone, Default)]
pub struct SourceEnd {
    /// Offset after the last *terminated* record. When it equals the scan's `end_bytes`, the result can later be
    /// extended as the file grows. None: it never can (compressed files, formats without record boundaries).
    pub covered_end_bytes: Option<u64>,
    /// Hashes of the file's whole content up to `end_bytes`, as the scan read it; None when it did not see all of it.
    pub hashes: Option<BlockHashes>,
    /// Whether the scan read other content than that of [`ScanSpec::hashes`] where these reach: the file was rewritten
    /// between the check that they passed and the reads.
    pub has_other_prefix: bool,
}

/// A scanner over one file, shared by all threads of all queries that take part.
///
/// Errors are final: after one the scan is given up. One of [`decode`](Self::decode) is that of participants who asked for
/// all that the source reads; the others go on with sources of their own. Any other error is that of all.
pub trait MorselSource: Send + Sync + 'static {
    /// Claims the next morsel; None when there are no more. Called concurrently.
    ///
    /// # Errors
    /// When the file can't be read or split.
    fn next_morsel(&self) -> Result<Option<Morsel>, SourceError>;

    /// Makes a claimed morsel decodable. Remote sources read its bytes here.
    fn fetch(self: Arc<Self>, morsel: Morsel) -> Fetch {
        Fetch::Ready(morsel)
    }

    /// Decodes a morsel into rows in file order. Synchronous; runs on the thread that polls the stream.
    ///
    /// # Errors
    /// On bad input, naming file, offset, column and value.
    fn decode(&self, morsel: Morsel) -> Result<Rows, SourceError>;

    /// Bytes the source will read in all.
    fn total_bytes(&self) -> u64;

    /// Called once after the last morsel: checks that the file is still the one that was opened.
    ///
    /// # Errors
    /// When the file was changed other than by appending; every participant gets the error and nothing is kept.
    fn finish(&self) -> Result<SourceEnd, SourceError>;
}

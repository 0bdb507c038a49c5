//! Column pages: runs of values of one column as bytes, and those bytes as values again, decoded or not; segments, the
//! files that the pages of a table lie in; and the catalog of the tables that are kept so.
//!
//! **Owns**: what the bytes of a page are (`docs/formats/column-pages.md`): header, checksum, zone map, NULLs,
//! encodings; the way from Arrow arrays to pages and back, wholly or by mini-blocks of 1,024 values; views for who
//! works on values without decoding them; segments (`docs/formats/column-segments.md`): writing one, opening one,
//! checking its pages; the catalog of a database's tables and views and its manifest (`docs/formats/manifest.md`,
//! [`Catalog`]). **Does not own**: how files are read and written (`medium`), memory for pages (`buffer-pool`), which
//! encoding is worth its decoding (`placement`).
//!
//! **Invariants**
//! - A page decodes to the values and NULLs it was made of, floating-point numbers bit by bit; so does any range of its
//!   mini-blocks alone.
//! - Bytes that are not a page as it was written are an error, whatever they are, never a panic; nothing is allocated
//!   for more than [`MAX_PAGE_VALUES`] values and the texts that the page has for them.
//! - A change of the catalog that was acknowledged survives every crash.
//!
//! **Concurrency**: pages are written by one thread each; a [`Page`] is a view of bytes that any number of threads can
//! share, and so are an open [`Segment`] and a [`Catalog`].
//!
//! **Papers**: the pages are those that HPCache (DaMoN 2022) caches. The layout of packed values is FastLanes'
//! (PVLDB 2023) with deviations (`bit_packing`), decimal floats are ALP's (SIGMOD 2024, `floats`), symbols are FSST
//! (PVLDB 2020, `texts/symbols`).
//!
//! ```
//! use arrow::array::{Array, Int64Array};
//! use arrow::datatypes::DataType;
//! use thermocline_column_store::{Page, encode};
//!
//! let values = Int64Array::from_iter((0..5000).map(|index| (index % 7 != 0).then_some(1_000_000 + index % 50)));
//! let mut bytes = Vec::new();
//! let written = encode(&values, &mut bytes)?;
//! assert!(written.size_bytes * 7 < 5000 * 8);
//!
//! let page = Page::open(&bytes)?;
//! assert_eq!(page.decode(&DataType::Int64)?.to_data(), values.to_data());
//! assert_eq!(page.decode_range(2..3, &DataType::Int64)?.to_data(), values.slice(2048, 1024).to_data());
//! # Ok::<(), thermocline_column_store::PageError>(())
//! ```

mod bit_packing;
mod catalog;
mod error;
mod floats;
mod integers;
mod page;
mod segment;
mod texts;
mod zone_map;

pub use bit_packing::{BYTES_PER_WIDTH, PackedBits, Word};
pub use catalog::{Catalog, CatalogError, ColumnTable, Entry, EntryName, MANIFEST_FILE, Manifest, PendingSegment};
pub use error::PageError;
pub use floats::{DecimalFloats, Float};
pub use integers::{Deltas, Frame, FramesOfReference, Integers, Native, PackedRuns, RunFrame, Runs};
pub use page::{Body, HEADER_BYTES, Page, PageSummary, PhysicalType, Validity, encode, encode_as};
pub use segment::{
    EncodedRowGroup, PAGE_ALIGNMENT_BYTES, PageName, PagePlace, ROW_GROUP_ROWS, ROW_GROUP_TEXT_BYTES, RowGroup,
    RowGroupBuilder, Segment, SegmentError, SegmentInfo, SegmentWriter, encoding_bytes, supports,
};
pub use texts::{Dictionary, SymbolTexts, Texts};
pub use thermocline_placement::column_encoding::{Encoding, IntegerEncoding};
pub use zone_map::{ZoneMap, ZoneValue};

/// Values of a mini-block, the least piece of a page that can be decoded alone. The last one of a page may have fewer.
pub const MINI_BLOCK_VALUES: usize = 1024;

/// Most values of a page: what a damaged count can make a reader allocate.
pub const MAX_PAGE_VALUES: usize = 1 << 20;

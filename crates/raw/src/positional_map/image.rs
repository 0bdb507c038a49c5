//! A positional map as bytes, as `docs/formats/positional-map.md` specifies them.
//!
//! **Owns**: writing and reading a map with the version of its file and the options of its scan.
//!
//! **Does not own**: where the bytes are kept.
//!
//! **Invariants**: bytes that are not exactly a map of that file and those options are refused, whatever they are; no
//! memory is taken for more than is there.

use std::sync::Arc;

use thermocline_medium::{FileVersion, Stamp};
use thermocline_predicate::FieldPath;
use xxhash_rust::xxh3::xxh3_64;

use super::PositionalMap;
use super::field_offsets::FieldOffsets;
use crate::bit_packing::word_count;
use crate::record_positions::BLOCK_COUNT;
use crate::{RawError, RecordPositions};

const MAGIC: &[u8; 8] = b"TCPOSMAP";
const VERSION: u32 = 1;
const HEAD_BYTES: usize = 32;

impl PositionalMap {
    /// The map as bytes that only [`from_bytes`](Self::from_bytes) for an equal version of the file and equal options
    /// takes.
    pub fn to_bytes(&self, file: &FileVersion, options: &str) -> Vec<u8> {
        let mut body = Vec::with_capacity(self.size_bytes() + 1024);
        put_identity(&mut body, file, options);
        put(&mut body, self.end_bytes.to_le_bytes());
        put(&mut body, (self.records.len() as u64).to_le_bytes());
        let (heads, words, tail) = self.records.parts();
        for (first, least_step, width) in heads {
            put(&mut body, first.to_le_bytes());
            put(&mut body, least_step.to_le_bytes());
            body.push(width);
        }
        words.iter().chain(tail).for_each(|word| put(&mut body, word.to_le_bytes()));
        put(&mut body, (self.fields.len() as u32).to_le_bytes());
        for (path, offsets) in &self.fields {
            put(&mut body, (path.parts().len() as u16).to_le_bytes());
            path.parts().iter().for_each(|name| put_text(&mut body, name));
            let (heads, words, tail) = offsets.parts();
            for (least, width) in heads {
                put(&mut body, least.to_le_bytes());
                body.push(width as u8);
            }
            words.iter().for_each(|word| put(&mut body, word.to_le_bytes()));
            tail.iter().for_each(|code| put(&mut body, code.to_le_bytes()));
        }
        let mut bytes = Vec::with_capacity(HEAD_BYTES + body.len());
        put(&mut bytes, *MAGIC);
        put(&mut bytes, VERSION.to_le_bytes());
        put(&mut bytes, [0; 4]);
        put(&mut bytes, (body.len() as u64).to_le_bytes());
        put(&mut bytes, xxh3_64(&body).to_le_bytes());
        bytes.extend_from_slice(&body);
        bytes
    }

    /// The map that `bytes` hold, if it is of this version of the file and of these options.
    ///
    /// # Errors
    /// [`RawError::PositionalMap`], which means that there is no map.
    pub fn from_bytes(bytes: &[u8], file: &FileVersion, options: &str) -> Result<Self, RawError> {
        let refused = |reason: &'static str| RawError::PositionalMap { file: Arc::clone(&file.path), reason };
        let mut head = Reader { left: bytes };
        let is_map = head.array::<8>() == Some(*MAGIC);
        if !is_map || head.u32() != Some(VERSION) || head.u32() != Some(0) {
            return Err(refused("expected a positional map of format version 1"));
        }
        let (length, checksum) = (head.u64(), head.u64());
        let body = head.left;
        if length != Some(body.len() as u64) || checksum != Some(xxh3_64(body)) {
            return Err(refused("its checksum or length is another than it says: it is damaged or incomplete"));
        }
        let mut identity = Vec::new();
        put_identity(&mut identity, file, options);
        let Some(content) = body.strip_prefix(identity.as_slice()) else {
            return Err(refused("it is of another version of the file, or of other options"));
        };
        let mut reader = Reader { left: content };
        let map = reader.map().filter(|_| reader.left.is_empty());
        map.ok_or_else(|| refused("its content contradicts itself"))
    }
}

fn put<const N: usize>(bytes: &mut Vec<u8>, value: [u8; N]) {
    bytes.extend_from_slice(&value);
}

fn put_text(bytes: &mut Vec<u8>, text: &str) {
    put(bytes, (text.len() as u32).to_le_bytes());
    bytes.extend_from_slice(text.as_bytes());
}

/// Equal bytes are equal identities: each part tells its length or has a fixed one.
fn put_identity(bytes: &mut Vec<u8>, file: &FileVersion, options: &str) {
    put_text(bytes, &file.path);
    put(bytes, file.size_bytes.to_le_bytes());
    match &file.stamp {
        Stamp::Local { mtime_ns, ctime_ns, device, inode } => {
            bytes.push(0);
            put(bytes, mtime_ns.to_le_bytes());
            put(bytes, ctime_ns.to_le_bytes());
            put(bytes, device.to_le_bytes());
            put(bytes, inode.to_le_bytes());
        }
        Stamp::Object { etag, last_modified_ns } => {
            bytes.push(1);
            bytes.push(u8::from(etag.is_some()));
            etag.iter().for_each(|etag| put_text(bytes, etag));
            put(bytes, last_modified_ns.to_le_bytes());
        }
    }
    put_text(bytes, options);
}

/// Takes values off the front of bytes; `None` where there are too few.
struct Reader<'a> {
    left: &'a [u8],
}

impl<'a> Reader<'a> {
    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, left) = self.left.split_at_checked(count)?;
        self.left = left;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.first_chunk().copied()
    }

    fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn words(&mut self, count: usize) -> Option<Vec<u64>> {
        let bytes = self.bytes(count.checked_mul(8)?)?;
        Some(bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect())
    }

    fn text(&mut self) -> Option<&'a str> {
        let length = self.u32()?;
        std::str::from_utf8(self.bytes(length as usize)?).ok()
    }

    /// The heads of blocks, each read by `head`, which takes at least five bytes off.
    fn heads<T>(&mut self, count: usize, mut head: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        if count > self.left.len() / 5 {
            return None;
        }
        (0..count).map(|_| head(self)).collect()
    }

    fn map(&mut self) -> Option<PositionalMap> {
        let end_bytes = self.u64()?;
        let record_count = usize::try_from(self.u64()?).ok()?;
        let (block_count, tail_count) = (record_count / BLOCK_COUNT, record_count % BLOCK_COUNT);
        let heads = self.heads(block_count, |reader| Some((reader.u64()?, reader.u64()?, reader.u8()?)))?;
        if heads.iter().any(|&(_, _, width)| width > 64) {
            return None;
        }
        let words = heads.iter().map(|&(_, _, width)| word_count(BLOCK_COUNT - 1, u32::from(width))).sum();
        let (words, tail) = (self.words(words)?, self.words(tail_count)?);
        let records = RecordPositions::from_parts(&heads, words, tail);
        if !records.iter().is_sorted_by(|low, high| low < high) || records.last().is_some_and(|last| last >= end_bytes)
        {
            return None;
        }
        let field_count = self.u32()?;
        let mut fields = Vec::new();
        for _ in 0..field_count {
            let names = (0..self.u16()?).map(|_| self.text()).collect::<Option<Vec<_>>>()?;
            let heads = self.heads(block_count, |reader| Some((reader.u32()?, u32::from(reader.u8()?))))?;
            if heads.iter().any(|&(_, width)| width > 32) {
                return None;
            }
            let words = heads.iter().map(|&(_, width)| word_count(BLOCK_COUNT, width)).sum();
            let words = self.words(words)?;
            let tail = self.bytes(tail_count * 4)?.as_chunks::<4>().0;
            let tail = tail.iter().map(|code| u32::from_le_bytes(*code)).collect();
            fields.push((FieldPath::new(names), FieldOffsets::from_parts(heads.into_iter(), words, tail)?));
        }
        Some(PositionalMap { records: Arc::new(records), fields, end_bytes })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::*;
    use crate::positional_map::{ABSENT, FIRST_OFFSET, UNKNOWN};

    fn version() -> FileVersion {
        let stamp = Stamp::Local { mtime_ns: 1, ctime_ns: -2, device: 3, inode: 4 };
        FileVersion { path: Arc::from("/data/a.ndjson"), size_bytes: 1 << 40, stamp }
    }

    fn below(state: &mut u64, bound: u64) -> u64 {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        (*state >> 11) % bound
    }

    fn map(state: &mut u64) -> PositionalMap {
        let count = below(state, 600);
        let mut offset = 0;
        let records: RecordPositions = (0..count)
            .map(|_| {
                offset += 1 + below(state, 1000);
                offset
            })
            .collect();
        let fields = (0..below(state, 4)).map(|at| {
            let mut offsets = FieldOffsets::default();
            for _ in 0..count {
                offsets.push(match below(state, 9) {
                    0 => UNKNOWN,
                    1 => ABSENT,
                    _ => FIRST_OFFSET + below(state, 1 << (at * 9)) as u32,
                });
            }
            (FieldPath::new(["a", "ö"][..1 + at as usize % 2].iter().copied()), offsets)
        });
        PositionalMap { fields: fields.collect(), records: Arc::new(records), end_bytes: offset + 1 }
    }

    #[test]
    fn maps_come_back_as_they_were() {
        for seed in 1..=300_u64 {
            let map = map(&mut seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let bytes = map.to_bytes(&version(), "csv ;");
            assert_eq!(PositionalMap::from_bytes(&bytes, &version(), "csv ;").unwrap(), map, "seed {seed}");
        }
    }

    #[test]
    fn a_map_of_anything_else_is_no_map() {
        let bytes = map(&mut 7).to_bytes(&version(), "x");
        let taken = |version: &FileVersion, options| PositionalMap::from_bytes(&bytes, version, options).is_ok();
        assert!(taken(&version(), "x"));
        assert!(!taken(&version(), "y"));
        assert!(!taken(&FileVersion { size_bytes: 5, ..version() }, "x"));
        assert!(!taken(&FileVersion { path: Arc::from("/data/b"), ..version() }, "x"));
        let stamp = Stamp::Local { mtime_ns: 1, ctime_ns: -1, device: 3, inode: 4 };
        assert!(!taken(&FileVersion { stamp, ..version() }, "x"));
        let stamp = Stamp::Object { etag: None, last_modified_ns: 1 };
        assert!(!taken(&FileVersion { stamp, ..version() }, "x"));
    }

    #[test]
    fn damaged_maps_are_refused_and_contradictory_ones_even_with_a_right_checksum() {
        for seed in 1..=3000_u64 {
            let state = &mut seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mut bytes = map(state).to_bytes(&version(), "x");
            let cut = below(state, bytes.len() as u64) as usize;
            assert!(PositionalMap::from_bytes(&bytes[..cut], &version(), "x").is_err(), "seed {seed}");
            let at = below(state, bytes.len() as u64) as usize;
            bytes[at] ^= 1 << below(state, 8);
            assert!(PositionalMap::from_bytes(&bytes, &version(), "x").is_err(), "seed {seed}, byte {at}");
            if at >= HEAD_BYTES {
                let checksum = xxh3_64(&bytes[HEAD_BYTES..]).to_le_bytes();
                bytes[24..32].copy_from_slice(&checksum);
                // Refused, or another map that holds together.
                if let Ok(map) = PositionalMap::from_bytes(&bytes, &version(), "x") {
                    assert!(map.records.iter().is_sorted() && map.records.iter().all(|at| at < map.end_bytes));
                    let fields: Vec<Option<usize>> = (0..map.fields.len()).map(Some).collect();
                    map.codes(0..map.records.len(), &fields);
                }
            }
        }
    }
}

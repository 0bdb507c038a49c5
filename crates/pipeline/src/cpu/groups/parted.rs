//! Rows of many groups, parted by what they are grouped by before they are added up, so that the groups of each part fit
//! the second-level cache when their rows come to them.
//!
//! **Owns**: which part a row belongs to, rows on the way. **Does not own**: whether groups are many enough for it
//! (whoever runs a pipeline says so), adding up (`groups`).
//!
//! **Invariants**: rows of one group are in one part, on all threads.
//!
//! **Concurrency**: each thread parts rows of its own; then each part is added up by one thread.

use super::cells::{Dimension, Outside, narrow};
use crate::PipelineError;
use crate::cpu::memory::Memory;
use crate::cpu::numbers::{Lane, Numbers};
use crate::hash::mix;

/// Cells of a part whose groups are an array, if that is not too many parts: with a sum of 128 bits and a count they take
/// half of a second-level cache.
const CELL_BITS: u32 = if cfg!(test) { 4 } else { 14 };
/// Most of them: an array of more is no better than hashing.
const MOST_CELL_BITS: u32 = if cfg!(test) { 6 } else { 17 };
/// Most parts: a thread writes to all of them in turn.
const MOST_PARTS: u64 = if cfg!(test) { 8 } else { 1024 };
/// Parts, where groups have no array: each has some thousand groups if there are a million or two.
const HASHED_PARTS: usize = if cfg!(test) { 4 } else { 256 };
/// Cells for each row up to which an array is worth its zeros.
const CELLS_PER_ROW: u64 = 8;
/// Rows of a part that lie together.
const CHUNK_ROWS: usize = if cfg!(test) { 8 } else { 512 };
/// Most columns, of whose values a word has the NULLs.
pub(super) const MOST_COLUMNS: usize = 64;

/// Values of some rows, and which of them are not NULL (`None` if all).
pub(super) type Values = (Vec<i64>, Option<Vec<bool>>);

/// What rows are parted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    /// The number that they are grouped by, so many bits of which tell the cells of a part apart.
    Range(Dimension, u32),
    /// The hash of all that they are grouped by.
    Hash,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Parts {
    by: By,
    key_count: usize,
    column_count: usize,
    parts: Vec<Vec<Chunk>>,
    chunk_count: usize,
    /// The part of each row, while some are taken in.
    places: Vec<u32>,
}

/// Some rows of a part, column by column.
#[derive(Debug)]
pub(super) struct Chunk {
    columns: Vec<Vec<i64>>,
    /// Of each row, a bit for each column in which it is NULL; empty if none is.
    nulls: Vec<u64>,
}

/// Adds numbers as words of 64 bits, two for each that may be wider, the low one first; `Err` with one that is wider and
/// may not.
pub(super) fn push_words(numbers: Numbers, may_be_wide: bool, columns: &mut Vec<Values>) -> Result<(), i128> {
    if !may_be_wide {
        columns.push(narrow(numbers)?);
        return Ok(());
    }
    let (low, high) = match numbers.lane {
        Lane::Narrow(values) => {
            let high = values.iter().map(|value| value >> 63).collect();
            (values, high)
        }
        Lane::Wide(values) => values.into_iter().map(|value| (value as i64, (value >> 64) as i64)).unzip(),
    };
    columns.push((low, numbers.valid));
    columns.push((high, None));
    Ok(())
}

/// The numbers of such words.
pub(super) fn from_words(columns: &mut impl Iterator<Item = Values>, may_be_wide: bool) -> Numbers {
    let (low, valid) = columns.next().unwrap_or_default();
    let high = if may_be_wide { columns.next() } else { None };
    let lane = match high {
        Some((high, _)) if low.iter().zip(&high).any(|(low, high)| low >> 63 != *high) => {
            let whole = |(low, high): (&i64, &i64)| i128::from(*high) << 64 | i128::from(*low as u64);
            Lane::Wide(low.iter().zip(&high).map(whole).collect())
        }
        _ => Lane::Narrow(low),
    };
    Numbers { lane, valid }
}

impl Parts {
    /// For rows of `column_count` columns, of which the first ones are grouped by; `dimensions` are theirs, as far as
    /// they are known.
    pub(super) fn new(dimensions: &[Option<Dimension>], column_count: usize) -> Self {
        let by = match dimensions {
            [Some(dimension)] => {
                let bits = (CELL_BITS..=MOST_CELL_BITS).find(|bits| dimension.value_count >> bits < MOST_PARTS);
                bits.map_or(By::Hash, |bits| By::Range(*dimension, bits))
            }
            _ => By::Hash,
        };
        let part_count = match by {
            By::Range(dimension, bits) => (dimension.value_count >> bits) as usize + 1,
            By::Hash => HASHED_PARTS,
        };
        let parts = (0..part_count).map(|_| Vec::new()).collect();
        Self { by, key_count: dimensions.len(), column_count, parts, chunk_count: 0, places: Vec::new() }
    }

    pub(super) fn count(&self) -> usize {
        self.parts.len()
    }

    /// The possible values of what a part's rows, of which there are so many, are grouped by, as far as it is worth
    /// knowing them.
    pub(super) fn dimensions(&self, part: usize, row_count: usize) -> Vec<Option<Dimension>> {
        match self.by {
            By::Range(dimension, bits) if (row_count as u64).saturating_mul(CELLS_PER_ROW) >> bits > 0 => {
                let first = (part as u64) << bits;
                let value_count = (dimension.value_count - first).min(1 << bits);
                vec![Some(Dimension { least: dimension.least.wrapping_add(first as i64), value_count })]
            }
            _ => vec![None; self.key_count],
        }
    }

    /// Takes some rows in, unless one has a value that cannot be, which is told.
    pub(super) fn push(
        &mut self,
        columns: &[Values],
        row_count: usize,
        memory: &Memory,
    ) -> Result<Option<Outside>, PipelineError> {
        if let Some(outside) = self.find_places(&columns[..self.key_count], row_count) {
            return Ok(Some(outside));
        }
        let places = std::mem::take(&mut self.places);
        let mut row = 0;
        for run in places.chunk_by(|one, next| one == next) {
            self.push_run(run[0] as usize, columns, (row, row + run.len()), memory)?;
            row += run.len();
        }
        self.places = places;
        Ok(None)
    }

    fn find_places(&mut self, keys: &[Values], row_count: usize) -> Option<Outside> {
        self.places.clear();
        match (self.by, keys) {
            (By::Range(dimension, bits), [(values, valid)]) => {
                // As cells are found.
                let null = dimension.value_count;
                let part = |place: u64| (place >> bits) as u32;
                let mut outside = 0;
                match valid {
                    None => self.places.extend(values.iter().map(|value| {
                        let place = dimension.place(*value);
                        outside |= dimension.is_outside(place);
                        part(place)
                    })),
                    Some(valid) => self.places.extend(values.iter().zip(valid).map(|(value, valid)| {
                        let place = dimension.place(*value);
                        outside |= if *valid { dimension.is_outside(place) } else { 0 };
                        part(if *valid { place } else { null })
                    })),
                }
                if outside >> 63 == 0 { None } else { Outside::find(&[dimension], keys) }
            }
            _ => {
                let part_count = self.parts.len() as u64;
                self.places.extend((0..row_count).map(|row| {
                    let word = |(values, valid): &Values| match valid {
                        Some(valid) if !valid[row] => i64::MIN,
                        _ => values[row],
                    };
                    let hash = keys.iter().fold(0x1319_8a2e_0370_7344, |hash, key| mix(hash ^ word(key) as u64));
                    // The high half: the low one is what groups are found by within the part.
                    ((hash >> 32) % part_count) as u32
                }));
                None
            }
        }
    }

    /// Takes in rows `first..past`, which belong to one part.
    fn push_run(
        &mut self,
        part: usize,
        columns: &[Values],
        (mut first, past): (usize, usize),
        memory: &Memory,
    ) -> Result<(), PipelineError> {
        while first < past {
            let is_full = self.parts[part].last().is_none_or(|chunk| chunk.row_count() == CHUNK_ROWS);
            if is_full {
                self.chunk_count += 1;
                // A column more for NULLs.
                memory.ensure(self.chunk_count * CHUNK_ROWS * (self.column_count + 1) * 8)?;
                let columns = (0..self.column_count).map(|_| Vec::with_capacity(CHUNK_ROWS)).collect();
                self.parts[part].push(Chunk { columns, nulls: Vec::new() });
            }
            let Some(chunk) = self.parts[part].last_mut() else { return Ok(()) };
            let count = (past - first).min(CHUNK_ROWS - chunk.row_count());
            chunk.push(columns, first, count);
            first += count;
        }
        Ok(())
    }

    /// The rows of a part.
    pub(super) fn take(&mut self, part: usize) -> Vec<Chunk> {
        std::mem::take(&mut self.parts[part])
    }
}

impl Chunk {
    pub(super) fn row_count(&self) -> usize {
        self.columns.first().map_or(0, Vec::len)
    }

    #[inline(always)]
    fn push(&mut self, columns: &[Values], first: usize, count: usize) {
        let before = self.row_count();
        for (kept, (values, _)) in self.columns.iter_mut().zip(columns) {
            match count {
                1 => kept.push(values[first]),
                _ => kept.extend_from_slice(&values[first..first + count]),
            }
        }
        let has_nulls = columns.iter().any(|(_, valid)| valid.is_some());
        if has_nulls || !self.nulls.is_empty() {
            self.nulls.resize(before, 0);
            self.nulls.extend((first..first + count).map(|row| {
                let is_null = |valid: &Option<Vec<bool>>| valid.as_ref().is_some_and(|valid| !valid[row]);
                let bits = columns.iter().enumerate().map(|(number, (_, valid))| u64::from(is_null(valid)) << number);
                bits.fold(0, |nulls, bit| nulls | bit)
            }));
        }
    }

    /// The rows' values, column by column.
    pub(super) fn into_values(self) -> Vec<Values> {
        let Self { columns, nulls } = self;
        let valid = |number: usize| {
            let has_null = nulls.iter().any(|nulls| nulls >> number & 1 != 0);
            has_null.then(|| nulls.iter().map(|nulls| nulls >> number & 1 == 0).collect())
        };
        columns.into_iter().enumerate().map(|(number, values)| (values, valid(number))).collect()
    }
}

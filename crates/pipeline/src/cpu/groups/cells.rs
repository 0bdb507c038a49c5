//! From the values that rows are grouped by to cells of accumulators.
//!
//! **Owns**: arrays where the values' domains are small together, else a hash table of the groups that there are.
//!
//! **Invariants**: equal values have equal cells, and only they; NULL is a value here.

use super::super::numbers::Numbers;
use super::parted::Values;
use crate::tuples::Tuples;

/// Cells of an array over all possible groups that are always worth it: accumulators of them stay in the second-level
/// cache.
const CHEAP_DENSE_CELLS: u64 = 1 << 16;
/// Most cells of such an array.
const MAX_DENSE_CELLS: u64 = 1 << 20;
/// Rows for each cell from which on an array is worth it that the cache does not hold: even if most of them are
/// filtered out.
const ROWS_PER_CELL: u64 = 8;

/// The possible values of one grouping column: numbers from `least` on, and NULL behind the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cpu) struct Dimension {
    pub(in crate::cpu) least: i64,
    /// Numbers that there are, without NULL.
    pub(in crate::cpu) value_count: u64,
}

impl Dimension {
    /// The place of a value among those that are possible, of which there are fewer than 2^63.
    #[inline(always)]
    pub(super) fn place(self, value: i64) -> u64 {
        value.wrapping_sub(self.least) as u64
    }

    /// What has its highest bit set if no possible value has this place: either is past 2^63. So the places of many are
    /// looked at together, and without comparing 64 bits, which not all vectors do.
    #[inline(always)]
    pub(super) fn is_outside(self, place: u64) -> u64 {
        place | self.value_count.wrapping_sub(1).wrapping_sub(place)
    }
}

/// A value that its column cannot have by what is known of that: what is known is wrong. (Of pages of one's own that does
/// not happen; of others' files bounds are what a footer says.)
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Outside {
    /// Which of the grouping columns.
    pub(super) column: usize,
    pub(super) value: i64,
    pub(super) of: Dimension,
}

impl Outside {
    /// The first one of some rows, if there is one. Seldom looked for: whoever finds places sees that there is one.
    #[cold]
    pub(super) fn find(dimensions: &[Dimension], columns: &[Values]) -> Option<Self> {
        dimensions.iter().zip(columns).enumerate().find_map(|(column, (of, (values, valid)))| {
            let is_valid = |at: usize| valid.as_ref().is_none_or(|valid| valid[at]);
            let outside = |(at, value): &(usize, &i64)| is_valid(*at) && of.is_outside(of.place(**value)) >> 63 != 0;
            values.iter().enumerate().find(outside).map(|(_, value)| Self { column, value: *value, of: *of })
        })
    }
}

/// The cells of groups.
#[derive(Debug)]
pub(super) enum Cells {
    Dense(Vec<Dimension>),
    /// Groups in the order of their first row, by words of NULLs, a bit for each column, and a word for each.
    Hashed {
        tuples: Tuples,
        null_words: usize,
    },
}

impl Cells {
    /// `dimensions` are those of the grouping columns, as far as they are known; so many rows may come.
    pub(super) fn new(dimensions: &[Option<Dimension>], row_count: u64) -> Self {
        let most = u128::from((row_count / ROWS_PER_CELL).clamp(CHEAP_DENSE_CELLS, MAX_DENSE_CELLS));
        let known: Option<Vec<Dimension>> = dimensions.iter().copied().collect();
        let product = |dimensions: &[Dimension]| {
            dimensions.iter().try_fold(1u128, |product, of| product.checked_mul(u128::from(of.value_count) + 1))
        };
        match known {
            Some(known) if product(&known).is_some_and(|product| product <= most) => Self::Dense(known),
            _ => {
                let null_words = dimensions.len().div_ceil(64).max(1);
                Self::Hashed { tuples: Tuples::new(null_words + dimensions.len()), null_words }
            }
        }
    }

    /// Cells that there are now.
    pub(super) fn count(&self) -> usize {
        match self {
            Self::Dense(dimensions) => dimensions.iter().map(|of| of.value_count as usize + 1).product(),
            Self::Hashed { tuples, .. } => tuples.count(),
        }
    }

    /// Most bytes that it takes while it grows by so many groups.
    pub(super) fn size_bytes_with(&self, more: usize) -> usize {
        match self {
            Self::Dense(_) => 0,
            Self::Hashed { tuples, .. } => tuples.size_bytes_with(more),
        }
    }

    /// The cells of some rows by their grouping values, which are narrow. A value that cannot be is told, and
    /// then there are no cells.
    #[must_use = "there are no cells if a value is outside"]
    pub(super) fn find(&mut self, columns: &[Values], row_count: usize, cells: &mut Vec<u32>) -> Option<Outside> {
        cells.clear();
        match self {
            Self::Dense(dimensions) => {
                let mut outside = 0;
                if let ([of], [(values, None)]) = (dimensions.as_slice(), columns) {
                    cells.extend(values.iter().map(|value| {
                        let place = of.place(*value);
                        outside |= of.is_outside(place);
                        place as u32
                    }));
                } else {
                    cells.resize(row_count, 0);
                    for (of, (values, valid)) in dimensions.iter().zip(columns) {
                        let null = of.value_count as u32;
                        let of_all = cells.iter_mut().zip(values);
                        // A place that is outside is as wide as it likes: then no cell counts.
                        let cell_of = |before: u32, place: u32| before.wrapping_mul(null + 1).wrapping_add(place);
                        match valid {
                            None => of_all.for_each(|(cell, value)| {
                                let place = of.place(*value);
                                outside |= of.is_outside(place);
                                *cell = cell_of(*cell, place as u32);
                            }),
                            Some(valid) => of_all.zip(valid).for_each(|((cell, value), valid)| {
                                let place = of.place(*value);
                                outside |= if *valid { of.is_outside(place) } else { 0 };
                                *cell = cell_of(*cell, if *valid { place as u32 } else { null });
                            }),
                        }
                    }
                }
                if outside >> 63 == 0 {
                    return None;
                }
                cells.clear();
                Outside::find(dimensions, columns)
            }
            Self::Hashed { tuples, null_words } => {
                let mut key = vec![0; *null_words + columns.len()];
                for row in 0..row_count {
                    key[..*null_words].fill(0);
                    for (number, (values, valid)) in columns.iter().enumerate() {
                        let is_null = valid.as_ref().is_some_and(|valid| !valid[row]);
                        key[number / 64] |= i64::from(is_null) << (number % 64);
                        key[*null_words + number] = if is_null { 0 } else { values[row] };
                    }
                    cells.push(tuples.number(&key));
                }
                None
            }
        }
    }

    /// The value of a cell in a grouping column: `None` for NULL.
    pub(super) fn value(&self, cell: u32, column: usize) -> Option<i64> {
        match self {
            Self::Dense(dimensions) => {
                let behind: u64 = dimensions[column + 1..].iter().map(|of| of.value_count + 1).product();
                let of = &dimensions[column];
                let place = u64::from(cell) / behind % (of.value_count + 1);
                (place < of.value_count).then(|| of.least.wrapping_add(place as i64))
            }
            Self::Hashed { tuples, null_words } => {
                let key = tuples.get(cell);
                (key[column / 64] >> (column % 64) & 1 == 0).then_some(key[null_words + column])
            }
        }
    }
}

/// Numbers of at most 64 bits; `Err` with the first that has more.
pub(super) fn narrow(numbers: Numbers) -> Result<Values, i128> {
    use super::super::numbers::Lane;
    let valid = numbers.valid;
    let values = match numbers.lane {
        Lane::Narrow(values) => values,
        Lane::Wide(values) => values
            .into_iter()
            .enumerate()
            .map(|(at, value)| match i64::try_from(value) {
                Ok(value) => Ok(value),
                Err(_) if valid.as_ref().is_some_and(|valid| !valid[at]) => Ok(0),
                Err(_) => Err(value),
            })
            .collect::<Result<_, _>>()?,
    };
    Ok((values, valid))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use std::collections::BTreeMap;

    use thermocline_seeded::Random;

    use super::*;

    #[test]
    fn cells_are_one_for_each_combination_of_values_and_give_it_back() {
        for seed in 0..40 {
            let mut random = Random::new(seed);
            // As many as have two words of NULLs, too.
            let column_count = if seed % 8 == 7 { 62 + random.below(70) } else { random.below(4) };
            let dimensions: Vec<Option<Dimension>> = (0..column_count)
                .map(|_| {
                    let of = Dimension { least: random.below(100) as i64 - 50, value_count: random.below(30) as u64 };
                    (seed % 2 == 0).then_some(of)
                })
                .collect();
            let mut cells = Cells::new(&dimensions, 0);
            assert_eq!(matches!(cells, Cells::Dense(_)), seed % 2 == 0 || column_count == 0);
            let mut seen: BTreeMap<Vec<Option<i64>>, u32> = BTreeMap::new();
            for _ in 0..5 {
                let row_count = random.below(1500);
                let rows: Vec<Vec<Option<i64>>> = (0..row_count)
                    .map(|_| {
                        let value = |of: &Option<Dimension>| match of {
                            Some(of) if of.value_count == 0 => None,
                            Some(of) => Some(of.least + random.below(of.value_count as usize) as i64),
                            None if random.one_in(9) => None,
                            None => Some(*random.pick(&[i64::MIN, 0, 3, i64::MAX])),
                        };
                        dimensions.iter().map(value).collect()
                    })
                    .collect();
                let columns: Vec<_> = (0..column_count)
                    .map(|column| {
                        // Where there is a NULL, anything, and most often nothing that could be.
                        let values = rows.iter().map(|row| row[column].unwrap_or(1 << 40)).collect();
                        let valid: Vec<bool> = rows.iter().map(|row| row[column].is_some()).collect();
                        // Without NULLs most often nothing says so.
                        (values, Some(valid).filter(|valid| valid.contains(&false) || random.one_in(4)))
                    })
                    .collect();
                let mut found = Vec::new();
                if let (Cells::Dense(known), 1.., 1..) = (&cells, column_count, row_count) {
                    let known = known.clone();
                    let (column, row) = (random.below(column_count), random.below(row_count));
                    let of = known[column];
                    let value = *random.pick(&[of.least - 1, of.least + of.value_count as i64, i64::MIN, i64::MAX]);
                    let mut wrong: Vec<Values> = columns.clone();
                    wrong[column].0[row] = value;
                    if let Some(valid) = &mut wrong[column].1 {
                        valid[row] = true;
                    }
                    let outside = Some(Outside { column, value, of });
                    assert_eq!(cells.find(&wrong, row_count, &mut found), outside, "seed {seed}");
                    assert!(found.is_empty(), "seed {seed}");
                }
                assert_eq!(cells.find(&columns, row_count, &mut found), None, "seed {seed}");
                for (row, cell) in rows.into_iter().zip(found) {
                    let values: Vec<_> = (0..column_count).map(|column| cells.value(cell, column)).collect();
                    assert_eq!(values, row, "seed {seed}");
                    assert!((cell as usize) < cells.count(), "seed {seed}");
                    assert_eq!(*seen.entry(row).or_insert(cell), cell, "seed {seed}");
                }
            }
        }
    }
}

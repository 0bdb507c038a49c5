//! From keys of any types and columns to the one number that a table's rows are found by.
//!
//! **Owns**: what of a key is looked at: a number itself, columns packed into one number where all their values
//! together leave room, else the number of a distinct combination. **Does not own**: finding rows by that number
//! (`keys`), reading columns.
//!
//! **Invariants**: keys of a table that differ have different codes, which are not negative unless they are the number
//! itself; a key that the table cannot have is [`ABSENT`].
//!
//! **Concurrency**: plain values.

use thermocline_budget::Reservation;

#[cfg(test)]
use crate::Value;
use crate::threads::Threads;
use crate::tuples::Tuples;
use crate::{PipelineError, RowsetColumn, RowsetValues, TextList};

/// The code of keys that no row of a table has, where codes are not the numbers themselves.
pub(crate) const ABSENT: i64 = -1;

/// Combinations of digits that are hashed between two looks at what is reserved.
const HASHED_AT_ONCE: usize = 4096;

/// How a table's keys become numbers.
#[derive(Debug)]
pub(crate) enum KeyCoding {
    /// A single column of numbers: they are it.
    Number,
    /// Each column's place among its possible values is a digit; the first column's counts most.
    Packed(Vec<KeyColumn>),
    /// As packed, the first columns as a number of their own, had there been room.
    Hashed { columns: Vec<KeyColumn>, tuples: Tuples },
}

/// The values that a column of a table's key can have.
#[derive(Debug)]
pub(crate) enum KeyColumn {
    /// The numbers from the first to the second.
    Numbers { least: i64, greatest: i64 },
    /// Texts, sorted.
    Texts(TextList),
}

impl KeyColumn {
    /// Of a column's values in some rows. `reservation` grows by what that takes.
    fn of(column: &RowsetColumn, rows: &[u32], reservation: &Reservation) -> Result<Self, PipelineError> {
        match &column.values {
            RowsetValues::Integers(values) => {
                let keys = || rows.iter().map(|row| values[*row as usize]);
                // Without rows nothing is between the bounds.
                let (least, greatest) = keys().min().zip(keys().max()).unwrap_or((0, -1));
                Ok(Self::Numbers { least, greatest })
            }
            RowsetValues::Texts { codes, dictionary } => {
                reservation.try_grow(dictionary.len() as u64)?;
                let mut used = vec![false; dictionary.len()];
                rows.iter().for_each(|row| used[codes[*row as usize] as usize] = true);
                let used = dictionary.iter().zip(&used).filter(|(_, used)| **used).map(|(text, _)| text);
                let (count, text_bytes) =
                    used.clone().fold((0, 0), |(count, bytes), text| (count + 1, bytes + text.len()));
                let kept_bytes = count * size_of::<&str>() + TextList::bytes_of(count, text_bytes);
                reservation.try_grow(kept_bytes as u64)?;
                let mut texts: Vec<&str> = Vec::with_capacity(count);
                texts.extend(used);
                texts.sort_unstable();
                texts.dedup();
                Ok(Self::Texts(TextList::exactly(texts.iter().copied())))
            }
            _ => Err(PipelineError::Type {
                name: column.shape.name.clone(),
                value_type: column.shape.value_type,
                expected: "an integer, a date, a timestamp or a text as key",
            }),
        }
    }

    /// How many values there can be.
    fn value_count(&self) -> u128 {
        match self {
            Self::Numbers { least, greatest } => (i128::from(*greatest) - i128::from(*least) + 1).unsigned_abs(),
            Self::Texts(texts) => texts.len() as u128,
        }
    }

    /// The digit of a number, if the column can have it.
    #[inline(always)]
    pub(crate) fn digit_of_number(&self, value: i64) -> i64 {
        match self {
            Self::Numbers { least, greatest } if *least <= value && value <= *greatest => value.wrapping_sub(*least),
            _ => ABSENT,
        }
    }

    /// The digit of a text, if the column has it.
    pub(crate) fn digit_of_text(&self, text: &[u8]) -> i64 {
        match self {
            Self::Texts(texts) => texts.search(text).map_or(ABSENT, |place| place as i64),
            Self::Numbers { .. } => ABSENT,
        }
    }

    /// The digits of some rows, all of which the column has.
    fn digits(&self, column: &RowsetColumn, rows: &[u32]) -> Vec<i64> {
        match &column.values {
            RowsetValues::Texts { codes, dictionary } => {
                let digits: Vec<i64> = dictionary.iter().map(|text| self.digit_of_text(text.as_bytes())).collect();
                rows.iter().map(|row| digits[codes[*row as usize] as usize]).collect()
            }
            RowsetValues::Integers(values) => {
                rows.iter().map(|row| self.digit_of_number(values[*row as usize])).collect()
            }
            _ => vec![ABSENT; rows.len()],
        }
    }

    fn size_bytes(&self) -> usize {
        match self {
            Self::Numbers { .. } => 0,
            Self::Texts(texts) => texts.allocated_bytes(),
        }
    }
}

impl KeyCoding {
    /// For the keys of some rows, none with a NULL in it; and their codes. `reservation`, which has room for the codes,
    /// grows by what else that takes.
    ///
    /// # Errors
    /// No memory; columns of types that no keys have.
    pub(crate) fn of(
        columns: &[RowsetColumn],
        rows: &[u32],
        threads: Threads,
        reservation: &Reservation,
    ) -> Result<(Self, Vec<i64>), PipelineError> {
        if let [RowsetColumn { values: RowsetValues::Integers(values), .. }] = columns {
            let codes = threads.filled(rows.len(), |places, codes: &mut [i64]| {
                codes.iter_mut().zip(&rows[places]).for_each(|(code, row)| *code = values[*row as usize]);
            });
            return Ok((Self::Number, codes));
        }
        let of_column = |column| KeyColumn::of(column, rows, reservation);
        let keys = columns.iter().map(of_column).collect::<Result<Vec<_>, _>>()?;
        // Of each row a digit for each column, and of texts one for each of the dictionary's while rows get theirs.
        let entry_count = |column: &RowsetColumn| match &column.values {
            RowsetValues::Texts { dictionary, .. } => dictionary.len(),
            _ => 0,
        };
        let digit_count = columns.len() * rows.len() + columns.iter().map(entry_count).max().unwrap_or(0);
        reservation.try_grow((digit_count * size_of::<i64>()) as u64)?;
        let digits: Vec<Vec<i64>> = keys.iter().zip(columns).map(|(key, column)| key.digits(column, rows)).collect();
        let key_count = keys.iter().try_fold(1u128, |product, key| product.checked_mul(key.value_count()));
        if key_count.is_some_and(|count| count <= i64::MAX as u128) {
            let coding = Self::Packed(keys);
            let codes = coding.codes(&digits, rows.len());
            return Ok((coding, codes));
        }
        let mut tuples = Tuples::new(keys.len());
        let mut tuple = vec![0; keys.len()];
        let mut codes = Vec::with_capacity(rows.len());
        let mut reserved_bytes = 0;
        for at in 0..rows.len() {
            if at % HASHED_AT_ONCE == 0 {
                let size_bytes = tuples.size_bytes_with(HASHED_AT_ONCE.min(rows.len() - at));
                reservation.try_grow(size_bytes.saturating_sub(reserved_bytes) as u64)?;
                reserved_bytes = reserved_bytes.max(size_bytes);
            }
            tuple.iter_mut().zip(&digits).for_each(|(word, digits)| *word = digits[at]);
            codes.push(i64::from(tuples.number(&tuple)));
        }
        Ok((Self::Hashed { columns: keys, tuples }, codes))
    }

    /// What each column of the key can be; empty if keys are numbers themselves.
    pub(crate) fn columns(&self) -> &[KeyColumn] {
        match self {
            Self::Number => &[],
            Self::Packed(columns) | Self::Hashed { columns, .. } => columns,
        }
    }

    /// The codes of keys by the digits of their columns, [`ABSENT`] ones among them.
    pub(crate) fn codes(&self, digits: &[Vec<i64>], row_count: usize) -> Vec<i64> {
        match self {
            Self::Packed(columns) => {
                let mut codes = vec![0i64; row_count];
                for (column, digits) in columns.iter().zip(digits) {
                    let radix = column.value_count() as i64;
                    for (code, digit) in codes.iter_mut().zip(digits) {
                        let packed = code.wrapping_mul(radix).wrapping_add(*digit);
                        *code = if *code < 0 || *digit < 0 { ABSENT } else { packed };
                    }
                }
                codes
            }
            Self::Hashed { tuples, .. } => {
                let mut tuple = vec![0; digits.len()];
                let code = |at: usize| {
                    tuple.iter_mut().zip(digits).for_each(|(word, digits)| *word = digits[at]);
                    tuples.find(&tuple).map_or(ABSENT, i64::from)
                };
                (0..row_count).map(code).collect()
            }
            Self::Number => digits.first().cloned().unwrap_or_default(),
        }
    }

    /// The code of one key; `None` if the table cannot have it.
    #[cfg(test)]
    pub(crate) fn code_of(&self, key: &[Value]) -> Option<i64> {
        if let (Self::Number, [Value::Integer(value)]) = (self, key) {
            return i64::try_from(*value).ok();
        }
        let digits: Vec<Vec<i64>> = self
            .columns()
            .iter()
            .zip(key)
            .map(|(column, value)| match value {
                Value::Integer(value) => i64::try_from(*value).map_or(ABSENT, |value| column.digit_of_number(value)),
                Value::Text(text) => column.digit_of_text(text.as_bytes()),
                Value::Null | Value::Float(_) => ABSENT,
            })
            .map(|digit| vec![digit])
            .collect();
        if digits.is_empty() || digits.len() != key.len() {
            return None;
        }
        self.codes(&digits, 1).first().copied().filter(|code| *code != ABSENT)
    }

    pub(crate) fn size_bytes(&self) -> usize {
        let tuples = if let Self::Hashed { tuples, .. } = self { tuples.size_bytes() } else { 0 };
        tuples + self.columns().iter().map(KeyColumn::size_bytes).sum::<usize>()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use super::*;
    use crate::ir::{ColumnShape, ValueType};
    use thermocline_budget::{Budget, Purpose};
    use thermocline_seeded::Random;

    fn column(value_type: ValueType, values: RowsetValues) -> RowsetColumn {
        let shape = ColumnShape { name: "k".to_owned(), value_type, nullable: false };
        RowsetColumn { shape, values, valid: None }
    }

    /// Numbers from 0 or over all of 64 bits, or texts, some of which the dictionary has twice and some that no row
    /// has.
    fn random_column(random: &mut Random, row_count: usize) -> RowsetColumn {
        match random.below(3) {
            0 => {
                let words = TextList::exactly(["b", "", "a", "b", "unused"].into_iter());
                let codes = (0..row_count).map(|_| random.below(4) as u32).collect();
                column(ValueType::Text, RowsetValues::Texts { codes, dictionary: Arc::new(words) })
            }
            1 => {
                let few = [i64::MIN, -1, 0, i64::MAX];
                let values = (0..row_count).map(|_| *random.pick(&few)).collect();
                column(ValueType::Int64, RowsetValues::Integers(values))
            }
            _ => {
                let values = (0..row_count).map(|_| random.below(9) as i64 - 4).collect();
                column(ValueType::Int32, RowsetValues::Integers(values))
            }
        }
    }

    #[test]
    fn different_keys_have_different_codes_however_they_are_coded() {
        let (mut packed, mut hashed) = (0, 0);
        let reservation = Budget::new(1 << 30, None).account("keys", Purpose::Query).try_reserve(0).unwrap();
        for seed in 0..200 {
            let mut random = Random::new(seed);
            let row_count = random.below(60);
            let columns: Vec<_> = (0..1 + random.below(3)).map(|_| random_column(&mut random, row_count)).collect();
            let rows: Vec<u32> = (0..row_count as u32).filter(|_| !random.one_in(4)).collect();
            let (coding, codes) = KeyCoding::of(&columns, &rows, Threads(2), &reservation).unwrap();
            match coding {
                KeyCoding::Number => assert!(columns.len() == 1, "seed {seed}"),
                KeyCoding::Packed(_) => packed += 1,
                KeyCoding::Hashed { .. } => hashed += 1,
            }
            let key = |row: usize| -> Vec<Value> { columns.iter().map(|column| column.value(row)).collect() };
            let mut by_key: BTreeMap<Vec<Value>, i64> = BTreeMap::new();
            let mut by_code: BTreeMap<i64, Vec<Value>> = BTreeMap::new();
            for (row, code) in rows.iter().zip(&codes) {
                let key = key(*row as usize);
                assert_eq!(*by_key.entry(key.clone()).or_insert(*code), *code, "seed {seed}, {key:?}");
                assert_eq!(*by_code.entry(*code).or_insert_with(|| key.clone()), key, "seed {seed}, {code}");
                assert_eq!(coding.code_of(&key), Some(*code), "seed {seed}, {key:?}");
            }
            for row in 0..row_count {
                let key = key(row);
                let found = coding.code_of(&key).filter(|code| by_code.contains_key(code));
                assert_eq!(found, by_key.get(&key).copied(), "seed {seed}, {key:?}");
            }
        }
        assert!(packed > 40 && hashed > 40, "{packed} packed, {hashed} hashed");
    }
}

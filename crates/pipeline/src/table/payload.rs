//! What rows of a table carry, column by column.
//!
//! **Owns**: whether numbers are coded or lie as they are. **Does not own**: which rows there are.
//!
//! **Concurrency**: plain values.

use std::ops::Range;
use std::sync::Arc;

use thermocline_budget::Reservation;

use crate::kernels::{NO_RANK, ranks};
use crate::threads::Threads;
use crate::{PipelineError, RowsetColumn, RowsetValues, TextList, ordinal};
#[cfg(test)]
use crate::{Value, ValueType};

/// Up to so many rows, numbers are coded whatever they are: to sort them takes no time, and groups by codes may be an
/// array. (Fewer in tests, whose tables are small, so that they have columns of all kinds.)
const FEW_ROWS: usize = if cfg!(test) { 64 } else { 4096 };
/// Up to so many different texts are sorted.
const FEW_TEXTS: usize = if cfg!(test) { 8 } else { 1024 };
/// Numbers of more rows are coded if they lie so close together, which is found out without sorting them: their bitmap
/// takes 128 KiB.
const CODED_SPAN: u64 = if cfg!(test) { 1 << 10 } else { 1 << 20 };

/// Rows whose codes are looked up together.
const ROWS_AT_ONCE: usize = 1024;

/// A column that rows carry.
#[derive(Debug)]
pub(crate) enum PayloadColumn {
    /// Codes of what is different, which groups can be made by in arrays; always of texts.
    Coded { codes: Codes, distinct: Distinct },
    /// Ordinals, which are not NULL (`None` if none is), and between which numbers they are.
    Plain { ordinals: Vec<i64>, valid: Option<Vec<bool>>, range: (i64, i64) },
}

/// The code of each row. The one behind the last distinct value stands for NULL.
#[derive(Debug)]
pub(crate) enum Codes {
    U8(Vec<u8>),
    U16(Vec<u16>),
    U32(Vec<u32>),
}

/// What codes stand for.
#[derive(Debug, Clone)]
pub(crate) enum Distinct {
    /// Ordinals, sorted.
    Numbers(Vec<i64>),
    /// To sort many takes longer than whatever gains by it.
    Texts { texts: Arc<TextList>, are_sorted: bool },
}

impl Distinct {
    /// How many values there are: also the code of NULL.
    pub(crate) fn count(&self) -> usize {
        match self {
            Self::Numbers(numbers) => numbers.len(),
            Self::Texts { texts, .. } => texts.len(),
        }
    }
}

impl Codes {
    /// `null` is the greatest.
    fn of(codes: impl Iterator<Item = usize>, null: usize) -> Self {
        match null {
            0..=0xff => Self::U8(codes.map(|code| code as u8).collect()),
            0x100..=0xffff => Self::U16(codes.map(|code| code as u16).collect()),
            _ => Self::U32(codes.map(|code| code as u32).collect()),
        }
    }

    fn size_bytes(&self) -> usize {
        match self {
            Self::U8(codes) => codes.len(),
            Self::U16(codes) => codes.len() * 2,
            Self::U32(codes) => codes.len() * 4,
        }
    }

    /// The codes of rows, `null` for [`NO_RANK`].
    fn of_rows(&self, rows: &[u32], null: i64) -> Vec<i64> {
        macro_rules! codes {
            ($codes:expr) => {
                rows.iter().map(|row| $codes.get(*row as usize).map_or(null, |code| i64::from(*code))).collect()
            };
        }
        match self {
            Self::U8(codes) => codes!(codes),
            Self::U16(codes) => codes!(codes),
            Self::U32(codes) => codes!(codes),
        }
    }
}

impl PayloadColumn {
    /// Bytes that a row of a column takes while it is made: a code, of numbers a distinct one too (or it is that alone)
    /// and whether it is NULL, and of wide ones a narrow one besides. What texts take is not the rows' matter.
    pub(crate) fn row_bytes_of(column: &RowsetColumn) -> usize {
        let valid_bytes = usize::from(column.valid.is_some());
        match column.values {
            RowsetValues::Texts { .. } => 4,
            RowsetValues::Wide(_) => 4 + 8 + 8 + valid_bytes,
            _ => 4 + 8 + valid_bytes,
        }
    }

    /// The values of a column's rows in some order. `reservation`, which has room for
    /// [`row_bytes_of`](Self::row_bytes_of) each row, grows by what texts take.
    ///
    /// # Errors
    /// [`PipelineError::Digits`] for a number that 64 bits do not hold; no memory.
    pub(crate) fn of(
        column: RowsetColumn,
        order: &[u32],
        threads: Threads,
        reservation: &Reservation,
    ) -> Result<Self, PipelineError> {
        let valid = column.valid.as_deref();
        let row = |place: usize| order[place] as usize;
        let in_order = |valid: &[bool]| order.iter().map(|row| valid[*row as usize]).collect();
        let valid_in_order = || valid.map(in_order).filter(|valid: &Vec<bool>| valid.contains(&false));
        let numbers = Numbers { count: order.len(), threads };
        Ok(match &column.values {
            RowsetValues::Texts { codes, dictionary } => texts(codes, dictionary, valid, order, reservation)?,
            RowsetValues::Integers(values) => numbers.kept(valid_in_order(), |place| values[row(place)]),
            RowsetValues::Unsigned(values) => {
                numbers.kept(valid_in_order(), |place| ordinal::of_unsigned(values[row(place)]))
            }
            RowsetValues::Floats(values) => {
                numbers.kept(valid_in_order(), |place| ordinal::of_float(values[row(place)]))
            }
            RowsetValues::Wide(values) => {
                let narrow = |place: usize| match i64::try_from(values[row(place)]) {
                    Ok(value) => Ok(value),
                    // Of a NULL, anything.
                    Err(_) if valid.is_some_and(|valid| !valid[row(place)]) => Ok(0),
                    Err(_) => Err(PipelineError::Digits { name: column.shape.name.clone(), value: values[row(place)] }),
                };
                let ordinals = (0..order.len()).map(narrow).collect::<Result<Vec<i64>, _>>()?;
                numbers.kept(valid_in_order(), |place| ordinals[place])
            }
        })
    }

    /// What codes stand for, sorted, if it is coded.
    pub(crate) fn distinct(&self) -> Option<&Distinct> {
        match self {
            Self::Coded { distinct, .. } => Some(distinct),
            Self::Plain { .. } => None,
        }
    }

    /// Between which numbers its values are, if it is not coded.
    pub(crate) fn range(&self) -> Option<(i64, i64)> {
        match self {
            Self::Coded { .. } => None,
            Self::Plain { range, .. } => Some(*range),
        }
    }

    /// The codes of rows, NULL's for [`NO_RANK`]; of a column that is not coded its numbers, which nobody takes for
    /// codes.
    pub(crate) fn codes_of(&self, rows: &[u32]) -> Vec<i64> {
        match self {
            Self::Coded { codes, distinct } => codes.of_rows(rows, distinct.count() as i64),
            Self::Plain { .. } => self.ordinals_of(rows).0,
        }
    }

    /// The ordinals of rows, and which of them are not NULL, as all are not at [`NO_RANK`]; of texts their codes.
    pub(crate) fn ordinals_of(&self, rows: &[u32]) -> (Vec<i64>, Option<Vec<bool>>) {
        match self {
            Self::Coded { distinct, .. } => {
                let null = distinct.count() as i64;
                let mut codes = self.codes_of(rows);
                let valid = codes.contains(&null).then(|| codes.iter().map(|code| *code != null).collect());
                if let Distinct::Numbers(numbers) = distinct {
                    // NULL's code has no number.
                    codes.iter_mut().for_each(|code| *code = numbers.get(*code as usize).copied().unwrap_or(0));
                }
                (codes, valid)
            }
            Self::Plain { ordinals, valid, .. } => {
                let numbers = rows.iter().map(|row| ordinals.get(*row as usize).copied().unwrap_or(0)).collect();
                let is_valid = |row: &u32| match valid {
                    Some(valid) => valid.get(*row as usize) == Some(&true),
                    None => *row != NO_RANK,
                };
                let all = valid.is_none() && !rows.contains(&NO_RANK);
                (numbers, (!all).then(|| rows.iter().map(is_valid).collect()))
            }
        }
    }

    /// The value of a row.
    #[cfg(test)]
    pub(crate) fn value(&self, row: u32, value_type: ValueType) -> Value {
        let (ordinals, valid) = self.ordinals_of(&[row]);
        let code = ordinals.first().copied().unwrap_or(0);
        match self.distinct() {
            _ if valid.is_some_and(|valid| valid == [false]) => Value::Null,
            Some(Distinct::Texts { texts, .. }) => {
                texts.get(code as usize).map_or(Value::Null, |text| Value::Text(text.into()))
            }
            _ => Value::of_ordinal(value_type, code),
        }
    }

    pub(crate) fn size_bytes(&self) -> usize {
        match self {
            Self::Coded { codes, distinct } => {
                codes.size_bytes()
                    + match distinct {
                        Distinct::Numbers(numbers) => numbers.capacity() * 8,
                        Distinct::Texts { texts, .. } => texts.allocated_bytes(),
                    }
            }
            Self::Plain { ordinals, valid, .. } => ordinals.len() * 8 + valid.as_ref().map_or(0, Vec::len),
        }
    }
}

/// Of texts. Those that are sorted have one code each; of the others those have several that the dictionary has several
/// times. `reservation` grows by what that takes; codes have their room, and the dictionary's own texts are the rows'.
///
/// # Errors
/// No memory.
fn texts(
    codes: &[u32],
    dictionary: &Arc<TextList>,
    valid: Option<&[bool]>,
    order: &[u32],
    reservation: &Reservation,
) -> Result<PayloadColumn, PipelineError> {
    let is_valid = |row: u32| valid.is_none_or(|valid| valid[row as usize]);
    let unused = u32::MAX;
    let most_used = dictionary.len().min(order.len());
    let scratch_bytes = ((dictionary.len() + most_used) * size_of::<u32>()) as u64;
    reservation.try_grow(scratch_bytes)?;
    let mut places = vec![unused; dictionary.len()];
    // The dictionary's codes of the texts that there are.
    let mut used: Vec<u32> = Vec::with_capacity(most_used);
    for row in order.iter().copied().filter(|row| is_valid(*row)) {
        let code = codes[row as usize];
        if places[code as usize] == unused {
            places[code as usize] = used.len() as u32;
            used.push(code);
        }
    }
    let are_sorted = used.len() <= FEW_TEXTS;
    if are_sorted {
        used.sort_unstable_by_key(|code| dictionary.get(*code as usize));
        let mut place = 0;
        let mut distinct = Vec::with_capacity(used.len());
        for code in used {
            let text = dictionary.get(code as usize);
            let is_new = distinct.last().is_none_or(|last: &u32| dictionary.get(*last as usize) != text);
            if is_new {
                place = distinct.len();
                distinct.push(code);
            }
            places[code as usize] = place as u32;
        }
        used = distinct;
    }
    if !are_sorted && 2 * used.len() > dictionary.len() {
        // They need not be copied.
        drop((places, used));
        reservation.shrink(scratch_bytes);
        let null = dictionary.len();
        let code = |row: &u32| if is_valid(*row) { codes[*row as usize] as usize } else { null };
        let (codes, texts) = (Codes::of(order.iter().map(code), null), Arc::clone(dictionary));
        return Ok(PayloadColumn::Coded { codes, distinct: Distinct::Texts { texts, are_sorted } });
    }
    let null = used.len();
    let code = |row: &u32| if is_valid(*row) { places[codes[*row as usize] as usize] as usize } else { null };
    let codes = Codes::of(order.iter().map(code), null);
    let kept = used.iter().filter_map(|code| dictionary.get(*code as usize));
    let text_bytes = kept.clone().map(str::len).sum();
    reservation.try_grow(TextList::bytes_of(used.len(), text_bytes) as u64)?;
    let texts = Arc::new(TextList::exactly(kept));
    drop((places, used));
    reservation.shrink(scratch_bytes);
    Ok(PayloadColumn::Coded { codes, distinct: Distinct::Texts { texts, are_sorted } })
}

/// Rows whose numbers are to be kept.
#[derive(Clone, Copy)]
struct Numbers {
    count: usize,
    threads: Threads,
}

impl Numbers {
    /// The rows' ordinals as codes or as they are.
    fn kept(self, valid: Option<Vec<bool>>, ordinal: impl Fn(usize) -> i64 + Sync) -> PayloadColumn {
        let Self { count, threads } = self;
        let is_valid = |row: usize| valid.as_ref().is_none_or(|valid| valid[row]);
        let value = |row: usize| is_valid(row).then(|| ordinal(row));
        if count <= FEW_ROWS {
            let mut distinct: Vec<i64> = (0..count).filter_map(value).collect();
            distinct.sort_unstable();
            distinct.dedup();
            let null = distinct.len();
            let code = |row: usize| value(row).and_then(|value| distinct.binary_search(&value).ok()).unwrap_or(null);
            let codes = Codes::of((0..count).map(code), null);
            return PayloadColumn::Coded { codes, distinct: Distinct::Numbers(distinct) };
        }
        let range = threads.range(count, value).unwrap_or((0, 0));
        if range.1.abs_diff(range.0) >= CODED_SPAN {
            let ordinals = threads.filled(count, |rows, ordinals: &mut [i64]| {
                ordinals.iter_mut().zip(rows).for_each(|(to, row)| *to = ordinal(row));
            });
            return PayloadColumn::Plain { ordinals, valid, range };
        }
        let place = |ordinal: i64| ordinal.wrapping_sub(range.0) as u64;
        let word_count = (place(range.1) / 64 + 1) as usize;
        let bits_of = |rows: Range<usize>| {
            let mut bits = vec![0u64; word_count];
            for place in rows.filter_map(value).map(place) {
                bits[(place / 64) as usize] |= 1 << (place % 64);
            }
            bits
        };
        let bits = threads.each(count, bits_of).into_iter().reduce(|mut bits, others| {
            bits.iter_mut().zip(others).for_each(|(word, other)| *word |= other);
            bits
        });
        let bits = bits.unwrap_or_default();
        let mut before = Vec::with_capacity(bits.len());
        let mut distinct = Vec::with_capacity(bits.iter().map(|word| word.count_ones() as usize).sum());
        for (at, word) in bits.iter().enumerate() {
            before.push(distinct.len() as u32);
            let set = (0..64).filter(|bit| word >> bit & 1 != 0);
            distinct.extend(set.map(|bit| range.0.wrapping_add(at as i64 * 64 + bit)));
        }
        let null = distinct.len();
        // Of some rows at a time, so that what lies between a number and its code stays in the processor's caches.
        let ranks_of = |rows: Range<usize>, code: &mut dyn FnMut(usize, usize)| {
            let (mut places, mut found) = (Vec::with_capacity(ROWS_AT_ONCE), Vec::with_capacity(ROWS_AT_ONCE));
            for start in rows.clone().step_by(ROWS_AT_ONCE) {
                let some = start..(start + ROWS_AT_ONCE).min(rows.end);
                places.clear();
                places.extend(some.clone().map(|row| place(ordinal(row))));
                found.clear();
                ranks(&places, &bits, &before, &mut found);
                for (row, rank) in some.zip(&found) {
                    code(row - rows.start, if is_valid(row) { *rank as usize } else { null });
                }
            }
        };
        macro_rules! codes {
            ($form:ident, $code:ty) => {
                Codes::$form(threads.filled(count, |rows, codes: &mut [$code]| {
                    ranks_of(rows, &mut |at, code| codes[at] = code as $code);
                }))
            };
        }
        let codes = match null {
            0..=0xff => codes!(U8, u8),
            0x100..=0xffff => codes!(U16, u16),
            _ => codes!(U32, u32),
        };
        PayloadColumn::Coded { codes, distinct: Distinct::Numbers(distinct) }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use thermocline_budget::{Budget, Purpose};
    use thermocline_seeded::Random;

    use super::*;
    use crate::ColumnShape;

    fn room() -> Reservation {
        Budget::new(1 << 30, None).account("payload", Purpose::Query).try_reserve(0).unwrap()
    }

    #[test]
    fn few_texts_have_one_code_each_though_they_are_listed_twice() {
        let room = room();
        let listed = Arc::new(TextList::exactly(["b", "a", "b", "c", "a"].into_iter()));
        let payload = texts(
            &[0, 1, 2, 3, 4, 2],
            &listed,
            Some(&[true, true, true, true, true, false]),
            &[0, 1, 2, 3, 4, 5],
            &room,
        );
        let payload = payload.unwrap();
        assert_eq!(payload.codes_of(&[0, 1, 2, 3, 4, 5]), [1, 0, 1, 2, 0, 3]);
        let Some(Distinct::Texts { texts, are_sorted: true }) = payload.distinct() else { panic!("{payload:?}") };
        assert!(texts.iter().eq(["a", "b", "c"]));
        let many = Arc::new(TextList::exactly((0..40).map(|number| ["x", "y"][number % 2])));
        let codes: Vec<u32> = (0..40).collect();
        let payload = super::texts(&codes, &many, None, &codes, &room).unwrap();
        for row in 0..40 {
            let expected = ["x", "y"][row as usize % 2];
            assert_eq!(payload.value(row, ValueType::Text), Value::Text(expected.into()));
        }
    }

    #[test]
    fn rows_carry_their_numbers_however_these_are_kept() {
        for seed in 0..60 {
            let mut random = Random::new(seed);
            let spread = *random.pick(&[1, 100, CODED_SPAN, CODED_SPAN + 1, u64::MAX]);
            let row_count = *random.pick(&[0, 1, FEW_ROWS, FEW_ROWS + 1, 3 * FEW_ROWS]);
            let start = random.next_u64() as i64;
            let values: Vec<i64> =
                (0..row_count).map(|_| start.saturating_add_unsigned(random.next_u64() % spread)).collect();
            let nulls = random.below(3);
            let valid: Option<Vec<bool>> =
                (nulls > 0).then(|| (0..row_count).map(|_| nulls == 1 && !random.one_in(5)).collect());
            let shape = ColumnShape { name: "n".to_owned(), value_type: ValueType::Int64, nullable: true };
            let column = RowsetColumn { shape, values: RowsetValues::Integers(values.clone()), valid: valid.clone() };
            let order: Vec<u32> = (0..row_count as u32).rev().collect();
            let payload = PayloadColumn::of(column, &order, Threads(1 + random.below(3)), &room()).unwrap();
            for (row, from) in order.iter().enumerate() {
                let is_valid = valid.as_ref().is_none_or(|valid| valid[*from as usize]);
                let expected = if is_valid { Value::Integer(values[*from as usize].into()) } else { Value::Null };
                assert_eq!(payload.value(row as u32, ValueType::Int64), expected, "seed {seed}, row {row}");
            }
            let (_, valid) = payload.ordinals_of(&[NO_RANK]);
            assert_eq!(valid, Some(vec![false]), "seed {seed}");
        }
    }
}

//! Built tables: what a pipeline ends in that others probe.
//!
//! **Owns**: rows by key (`keys`), what rows carry as codes of the column's distinct values.
//!
//! **Does not own**: which rows there are, who probes.
//!
//! **Invariants**: keys are not NULL. Payload is exact where keys are unique; where they repeat, the table only says which keys
//! there are, and a probe for payload is refused.
//!
//! **Concurrency**: a table does not change and is shared freely.
//!
//! Payload is codes and not values, so that groups can be made by them in arrays, a gather touches one to four bytes, and texts
//! are looked at only when results are shown.

mod keys;

pub(crate) use keys::KeyIndex;

use std::sync::Arc;

use thermocline_budget::{Account, Reservation};

use crate::{PipelineError, Rowset, RowsetColumn, RowsetValues, TableShape, Value};

/// A table that pipelines probe.
#[derive(Debug)]
pub struct BuiltTable {
    shape: TableShape,
    keys: KeyIndex,
    /// The least and greatest key; `None` without rows.
    key_range: Option<(i64, i64)>,
    row_count: usize,
    duplicate: Option<i64>,
    payload: Vec<PayloadColumn>,
    reservation: Reservation,
}

/// A column that rows carry.
#[derive(Debug)]
pub(crate) struct PayloadColumn {
    codes: Codes,
    distinct: Distinct,
}

/// The code of each row. The one behind the last distinct value stands for NULL.
#[derive(Debug)]
enum Codes {
    U8(Vec<u8>),
    U16(Vec<u16>),
    U32(Vec<u32>),
}

/// What codes stand for.
#[derive(Debug, Clone)]
pub(crate) enum Distinct {
    Numbers(Vec<i64>),
    Texts(Arc<[Arc<str>]>),
}

impl Distinct {
    /// How many values there are: also the code of NULL.
    pub(crate) fn count(&self) -> usize {
        match self {
            Self::Numbers(numbers) => numbers.len(),
            Self::Texts(texts) => texts.len(),
        }
    }
}

impl PayloadColumn {
    /// The code of a row.
    #[inline(always)]
    pub(crate) fn code(&self, row: u32) -> u32 {
        match &self.codes {
            Codes::U8(codes) => codes[row as usize].into(),
            Codes::U16(codes) => codes[row as usize].into(),
            Codes::U32(codes) => codes[row as usize],
        }
    }

    /// What codes stand for, sorted.
    pub(crate) fn distinct(&self) -> &Distinct {
        &self.distinct
    }

    fn size_bytes(&self) -> usize {
        let codes = match &self.codes {
            Codes::U8(codes) => codes.len(),
            Codes::U16(codes) => codes.len() * 2,
            Codes::U32(codes) => codes.len() * 4,
        };
        codes
            + match &self.distinct {
                Distinct::Numbers(numbers) => numbers.len() * 8,
                Distinct::Texts(texts) => texts.iter().map(|text| text.len() + 32).sum(),
            }
    }
}

impl BuiltTable {
    /// A table of rows whose first column is the key and whose others are what `shape` says. Memory is reserved from `account`
    /// as long as the table lives.
    ///
    /// # Errors
    /// No memory; more than 2^32 rows.
    pub(crate) fn new(shape: TableShape, rows: &Rowset, account: &Account) -> Result<Self, PipelineError> {
        let Some((key_column, payload)) = rows.columns.split_first() else {
            return Err(PipelineError::UnknownSlot { slot: 0, slot_count: 0 });
        };
        let RowsetValues::Integers(values) = &key_column.values else {
            let expected = "an integer, a date or a timestamp as key";
            return Err(PipelineError::Type { name: shape.name, value_type: key_column.shape.value_type, expected });
        };
        if u32::try_from(rows.row_count).is_err() {
            return Err(PipelineError::TooMany { what: format!("rows of table {}", shape.name) });
        }
        // Of each row its place in the order, its key, and for each column that it carries a code and a distinct value.
        let reservation = account.try_reserve((rows.row_count * (4 + 8 + payload.len() * (4 + 8))) as u64)?;
        let mut order: Vec<u32> = (0..rows.row_count as u32)
            .filter(|row| key_column.valid.as_ref().is_none_or(|valid| valid[*row as usize]))
            .collect();
        order.sort_unstable_by_key(|row| values[*row as usize]);
        let mut duplicate = None;
        order.dedup_by(|later, earlier| {
            let repeats = values[*later as usize] == values[*earlier as usize];
            if repeats {
                duplicate = duplicate.or(Some(values[*later as usize]));
            }
            repeats
        });
        let keys: Vec<i64> = order.iter().map(|row| values[*row as usize]).collect();
        reservation.try_grow(KeyIndex::size_bytes_of(&keys) as u64)?;
        let index = KeyIndex::of(&keys);
        let payload: Vec<PayloadColumn> =
            payload.iter().map(|column| coded(column, &order)).collect::<Result<_, _>>()?;
        let size_bytes = KeyIndex::size_bytes_of(&keys) + payload.iter().map(PayloadColumn::size_bytes).sum::<usize>();
        reservation.resize(size_bytes as u64)?;
        let key_range = keys.first().copied().zip(keys.last().copied());
        Ok(Self { shape, keys: index, key_range, row_count: keys.len(), duplicate, payload, reservation })
    }

    /// Name, key and payload.
    pub fn shape(&self) -> &TableShape {
        &self.shape
    }

    /// Rows with different keys.
    pub fn row_count(&self) -> usize {
        self.row_count
    }

    /// The least and greatest key; `None` without rows.
    pub fn key_range(&self) -> Option<(i64, i64)> {
        self.key_range
    }

    /// A key that several rows had, if there is one.
    pub fn duplicate_key(&self) -> Option<i64> {
        self.duplicate
    }

    /// Memory that the table takes.
    pub fn size_bytes(&self) -> u64 {
        self.reservation.size_bytes()
    }

    /// What the row with this key carries; `None` if there is none.
    pub fn payload(&self, key: i64) -> Option<Vec<Value>> {
        let row = self.keys.row(key)?;
        let value = |column: &PayloadColumn| {
            let code = column.code(row) as usize;
            match &column.distinct {
                Distinct::Numbers(numbers) => numbers.get(code).map_or(Value::Null, |n| Value::Integer((*n).into())),
                Distinct::Texts(texts) => texts.get(code).map_or(Value::Null, |text| Value::Text(Arc::clone(text))),
            }
        };
        Some(self.payload.iter().map(value).collect())
    }

    pub(crate) fn keys(&self) -> &KeyIndex {
        &self.keys
    }

    pub(crate) fn column(&self, payload: usize) -> &PayloadColumn {
        &self.payload[payload]
    }
}

/// The values of the rows in `order` as codes.
fn coded(column: &RowsetColumn, order: &[u32]) -> Result<PayloadColumn, PipelineError> {
    let is_valid = |row: u32| column.valid.as_ref().is_none_or(|valid| valid[row as usize]);
    let valid_rows = || order.iter().copied().filter(|row| is_valid(*row));
    let code_by = |code_of: &dyn Fn(u32) -> usize, null: usize| -> Codes {
        let codes = order.iter().map(|row| if is_valid(*row) { code_of(*row) } else { null });
        match null {
            0..=0xff => Codes::U8(codes.map(|code| code as u8).collect()),
            0x100..=0xffff => Codes::U16(codes.map(|code| code as u16).collect()),
            _ => Codes::U32(codes.map(|code| code as u32).collect()),
        }
    };
    // Codes are found by search in what is sorted, and are there.
    let place = |found: Result<usize, usize>| found.unwrap_or_else(|next| next);
    match &column.values {
        RowsetValues::Texts { codes, dictionary } => {
            let mut texts: Vec<Arc<str>> = Vec::new();
            let mut used = vec![false; dictionary.len()];
            for row in valid_rows() {
                let code = codes[row as usize] as usize;
                if !std::mem::replace(&mut used[code], true) {
                    texts.push(Arc::clone(&dictionary[code]));
                }
            }
            texts.sort_unstable();
            texts.dedup();
            let places: Vec<usize> = dictionary.iter().map(|text| place(texts.binary_search(text))).collect();
            let codes = code_by(&|row| places[codes[row as usize] as usize], texts.len());
            Ok(PayloadColumn { codes, distinct: Distinct::Texts(texts.into()) })
        }
        values => {
            if let RowsetValues::Wide(wide) = values
                && let Some(row) = valid_rows().find(|row| i64::try_from(wide[*row as usize]).is_err())
            {
                return Err(PipelineError::Digits { name: column.shape.name.clone(), value: wide[row as usize] });
            }
            let number = |row: u32| match values {
                RowsetValues::Integers(values) => values[row as usize],
                RowsetValues::Wide(values) => values[row as usize] as i64,
                RowsetValues::Texts { .. } => 0,
            };
            let mut numbers: Vec<i64> = valid_rows().map(number).collect();
            numbers.sort_unstable();
            numbers.dedup();
            let codes = code_by(&|row| place(numbers.binary_search(&number(row))), numbers.len());
            Ok(PayloadColumn { codes, distinct: Distinct::Numbers(numbers) })
        }
    }
}

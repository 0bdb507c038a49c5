//! Built tables: what a pipeline ends in that others probe.
//!
//! **Owns**: rows by key (`key_coding`, `keys`), what rows carry as codes of the column's distinct values.
//!
//! **Does not own**: which rows there are, who probes.
//!
//! **Invariants**: no column of a key is NULL. Rows with one key lie side by side; where each key has one row, that is
//! the row with the key's rank.
//!
//! **Concurrency**: a table does not change and is shared freely.
//!
//! Payload is codes and not values, so that groups can be made by them in arrays, a gather touches one to four bytes,
//! and texts are looked at only when results are shown.

mod key_coding;
mod keys;

pub(crate) use key_coding::{ABSENT, KeyCoding, KeyColumn};
pub(crate) use keys::KeyIndex;

use std::ops::Range;
use std::sync::Arc;

use thermocline_budget::{Account, Reservation};

use crate::ordinal;
use crate::{ColumnShape, PipelineError, Rowset, RowsetColumn, RowsetValues, TableShape, Value};

/// A table that pipelines probe.
#[derive(Debug)]
pub struct BuiltTable {
    shape: TableShape,
    coding: KeyCoding,
    keys: KeyIndex,
    /// The least and greatest code of a key; `None` without rows.
    code_range: Option<(i64, i64)>,
    row_count: usize,
    key_count: usize,
    /// Where the rows of each key start, and the last end; `None` if each key has one row.
    starts: Option<Vec<u32>>,
    has_null_key: bool,
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
    /// Ordinals.
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

    /// The codes of rows, NULL's for [`NO_RANK`](crate::kernels::NO_RANK).
    pub(crate) fn codes_of(&self, rows: &[u32]) -> Vec<i64> {
        let null = self.distinct.count() as i64;
        macro_rules! codes {
            ($codes:expr) => {
                rows.iter().map(|row| $codes.get(*row as usize).map_or(null, |code| i64::from(*code))).collect()
            };
        }
        match &self.codes {
            Codes::U8(codes) => codes!(codes),
            Codes::U16(codes) => codes!(codes),
            Codes::U32(codes) => codes!(codes),
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
    /// A table of rows whose first columns are the key and whose others are what `shape` says. Memory is reserved from
    /// `account` as long as the table lives.
    ///
    /// # Errors
    /// No memory; more than 2^32 rows.
    pub(crate) fn new(shape: TableShape, rows: &Rowset, account: &Account) -> Result<Self, PipelineError> {
        let (key_columns, payload) = rows.columns.split_at(shape.key_types.len().min(rows.columns.len()));
        if u32::try_from(rows.row_count).is_err() {
            return Err(PipelineError::TooMany { what: format!("rows of table {}", shape.name) });
        }
        // Of each row its place in the order, its key's digits and code (and half as many again while they are sorted),
        // twice the columns of a combination of digits that is hashed, and for each column that it carries a code and a
        // distinct value.
        let row_bytes = 4 + 24 + key_columns.len() * 8 * 3 + payload.len() * (4 + 8);
        let reservation = account.try_reserve((rows.row_count * row_bytes) as u64)?;
        let is_whole = |row: &u32| {
            let is_valid = |column: &RowsetColumn| column.valid.as_ref().is_none_or(|valid| valid[*row as usize]);
            key_columns.iter().all(is_valid)
        };
        let found: Vec<u32> = (0..rows.row_count as u32).filter(is_whole).collect();
        let has_null_key = found.len() < rows.row_count;
        let (coding, codes) = KeyCoding::of(key_columns, &found)?;
        let mut sorted: Vec<(i64, u32)> = codes.into_iter().zip(found).collect();
        // Stable: rows come in a few runs that are in order already, if their column is, and that sort finds them.
        sorted.sort();
        let order: Vec<u32> = sorted.iter().map(|(_, row)| *row).collect();
        let mut keys: Vec<i64> = sorted.into_iter().map(|(code, _)| code).collect();
        let starts = starts(&keys);
        keys.dedup();
        reservation.try_grow(KeyIndex::size_bytes_of(&keys) as u64)?;
        let index = KeyIndex::of(&keys);
        let payload: Vec<PayloadColumn> =
            payload.iter().map(|column| coded(column, &order)).collect::<Result<_, _>>()?;
        let size_bytes = KeyIndex::size_bytes_of(&keys)
            + coding.size_bytes()
            + starts.as_ref().map_or(0, |starts| starts.len() * 4)
            + payload.iter().map(PayloadColumn::size_bytes).sum::<usize>();
        reservation.resize(size_bytes as u64)?;
        let code_range = keys.first().copied().zip(keys.last().copied());
        let (row_count, key_count) = (order.len(), keys.len());
        Ok(Self {
            shape,
            coding,
            keys: index,
            code_range,
            row_count,
            key_count,
            starts,
            has_null_key,
            payload,
            reservation,
        })
    }

    /// Name, key and payload.
    pub fn shape(&self) -> &TableShape {
        &self.shape
    }

    /// Rows, all with a whole key.
    pub fn row_count(&self) -> usize {
        self.row_count
    }

    /// Different keys.
    pub fn key_count(&self) -> usize {
        self.key_count
    }

    /// Whether rows were left out because of a NULL in their key.
    pub fn has_null_key(&self) -> bool {
        self.has_null_key
    }

    /// Whether a probe for payload may find several rows for a key.
    pub fn multiplies(&self) -> bool {
        self.starts.is_some()
    }

    /// Memory that the table takes.
    pub fn size_bytes(&self) -> u64 {
        self.reservation.size_bytes()
    }

    /// What the rows with this key carry, in no order.
    pub fn payloads(&self, key: &[Value]) -> Vec<Vec<Value>> {
        let value = |(column, shape): (&PayloadColumn, &ColumnShape), row: u32| {
            let code = column.code(row) as usize;
            match &column.distinct {
                Distinct::Numbers(numbers) => {
                    numbers.get(code).map_or(Value::Null, |number| Value::of_ordinal(shape.value_type, *number))
                }
                Distinct::Texts(texts) => texts.get(code).map_or(Value::Null, |text| Value::Text(Arc::clone(text))),
            }
        };
        let rows = self.coding.code_of(key).map_or(0..0, |code| self.rows(code));
        let columns = || self.payload.iter().zip(&self.shape.payload);
        rows.map(|row| columns().map(|column| value(column, row)).collect()).collect()
    }

    /// What a key's code is.
    pub(crate) fn coding(&self) -> &KeyCoding {
        &self.coding
    }

    /// By the codes of keys.
    pub(crate) fn keys(&self) -> &KeyIndex {
        &self.keys
    }

    /// The least and greatest key, if they are numbers themselves and there are rows.
    pub(crate) fn key_range(&self) -> Option<(i64, i64)> {
        if let KeyCoding::Number = self.coding { self.code_range } else { None }
    }

    /// The rows with the key of this code.
    #[inline]
    pub(crate) fn rows(&self, code: i64) -> Range<u32> {
        match (self.keys.row(code), &self.starts) {
            (None, _) => 0..0,
            (Some(rank), None) => rank..rank + 1,
            (Some(rank), Some(starts)) => starts[rank as usize]..starts[rank as usize + 1],
        }
    }

    pub(crate) fn column(&self, payload: usize) -> &PayloadColumn {
        &self.payload[payload]
    }
}

/// Where the rows of each key start, of sorted keys; `None` if no two are the same.
fn starts(keys: &[i64]) -> Option<Vec<u32>> {
    let repeats = keys.windows(2).any(|pair| pair[0] == pair[1]);
    repeats.then(|| {
        let firsts = (0..keys.len()).filter(|at| *at == 0 || keys[at - 1] != keys[*at]);
        firsts.chain([keys.len()]).map(|at| at as u32).collect()
    })
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
                RowsetValues::Unsigned(values) => ordinal::of_unsigned(values[row as usize]),
                RowsetValues::Floats(values) => ordinal::of_float(values[row as usize]),
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

//! Built tables: what a pipeline ends in that others probe.
//!
//! **Owns**: rows by key (`key_coding`, `keys`), what rows carry as codes of the column's distinct values.
//!
//! **Does not own**: which rows there are, who probes.
//!
//! **Invariants**: no column of a key is NULL. Where a key has several rows, these lie side by side, in the order of
//! keys.
//!
//! **Concurrency**: a table does not change and is shared freely.
//!
//! Payload is codes where few values are different, so that groups can be made by them in arrays, a gather touches one to
//! four bytes, and texts are looked at only when results are shown.

mod key_coding;
mod keys;
mod ordered_keys;
mod payload;

pub(crate) use key_coding::{ABSENT, KeyCoding, KeyColumn};
pub(crate) use keys::KeyIndex;
pub(crate) use payload::{Distinct, PayloadColumn};

use std::ops::Range;

use thermocline_budget::Reservation;

use crate::threads::Threads;
#[cfg(test)]
use crate::{ColumnShape, Value};
use crate::{PipelineError, Rowset, RowsetColumn, TableShape};

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

impl BuiltTable {
    /// A table of rows whose first columns are the key and whose others are what `shape` says. `reservation` holds the
    /// rows, grows by what is made of them, and is the table's as long as that lives.
    ///
    /// # Errors
    /// No memory; more than 2^32 rows.
    pub(crate) fn new(
        shape: TableShape,
        rows: Rowset,
        reservation: Reservation,
        threads: Threads,
    ) -> Result<Self, PipelineError> {
        // While rows came, their vectors were to double.
        reservation.shrink(reservation.size_bytes().saturating_sub(rows.size_bytes()));
        let Rowset { columns: mut key_columns, row_count } = rows;
        let payload = key_columns.split_off(shape.key_types.len().min(key_columns.len()));
        if u32::try_from(row_count).is_err() {
            return Err(PipelineError::TooMany { what: format!("rows of table {}", shape.name) });
        }
        // Of each row its number and its key's code.
        reservation.try_grow((row_count * (4 + 8)) as u64)?;
        let is_whole = |row: &u32| {
            let is_valid = |column: &RowsetColumn| column.valid.as_ref().is_none_or(|valid| valid[*row as usize]);
            key_columns.iter().all(is_valid)
        };
        let all = 0..row_count as u32;
        let may_lack = key_columns.iter().any(|column| column.valid.is_some());
        let found: Vec<u32> = if may_lack { all.filter(is_whole).collect() } else { all.collect() };
        let has_null_key = found.len() < row_count;
        let (coding, codes) = KeyCoding::of(&key_columns, &found, threads, &reservation)?;
        drop(key_columns);
        let code_range = threads.range(codes.len(), |row| Some(codes[row]));
        // Of each row these, and what it takes to sort codes with their places and half as many again, or afterwards to
        // have codes, an order and where keys start.
        let payload_bytes: usize = payload.iter().map(RowsetColumn::size_bytes).sum();
        let index_bytes = KeyIndex::size_bytes_of(code_range, codes.len());
        reservation.resize((payload_bytes + coding.size_bytes() + index_bytes + row_count * (4 + 28)) as u64)?;
        let (keys, order, starts) = ordered(codes, code_range, threads);
        let order = match has_null_key {
            true => order.into_iter().map(|place| found[place as usize]).collect(),
            false => order,
        };
        drop(found);
        // What is made of keys is there, and what that took is gone.
        let key_bytes =
            keys.size_bytes() + coding.size_bytes() + starts.as_ref().map_or(0, |starts| starts.capacity() * 4);
        let carried_bytes: usize = payload.iter().map(PayloadColumn::row_bytes_of).sum();
        reservation.resize((key_bytes + order.capacity() * 4 + payload_bytes + order.len() * carried_bytes) as u64)?;
        let (row_count, key_count) = (order.len(), starts.as_ref().map_or(order.len(), |starts| starts.len() - 1));
        // Each column of the rows is gone when the next one's turn comes.
        let carried = |column| PayloadColumn::of(column, &order, threads, &reservation);
        let payload: Vec<PayloadColumn> = payload.into_iter().map(carried).collect::<Result<_, _>>()?;
        drop(order);
        reservation.resize((key_bytes + payload.iter().map(PayloadColumn::size_bytes).sum::<usize>()) as u64)?;
        Ok(Self { shape, coding, keys, code_range, row_count, key_count, starts, has_null_key, payload, reservation })
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
    #[cfg(test)]
    pub(crate) fn payloads(&self, key: &[Value]) -> Vec<Vec<Value>> {
        let value = |(column, shape): (&PayloadColumn, &ColumnShape), row: u32| column.value(row, shape.value_type);
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

/// Keys in no order that lie in `range`: which of them each row has, and, if some are the same, where the rows of each
/// start, and the last end.
fn ordered(keys: Vec<i64>, range: Option<(i64, i64)>, threads: Threads) -> (KeyIndex, Vec<u32>, Option<Vec<u32>>) {
    if let Some((keys, order)) = KeyIndex::of_distinct(&keys, range, threads) {
        return (keys, order, None);
    }
    match KeyIndex::of_repeated(&keys, range) {
        Some((keys, starts, order)) => (keys, order, Some(starts)),
        None => sorted(keys, threads),
    }
}

/// Keys in no order, of which some are the same, as [`KeyIndex::of_repeated`] has them, wherever they lie.
fn sorted(keys: Vec<i64>, threads: Threads) -> (KeyIndex, Vec<u32>, Option<Vec<u32>>) {
    let mut sorted: Vec<(i64, u32)> = keys.into_iter().zip(0..).collect();
    // Stable: rows come in a few runs that are in order already, if their column is, and that sort finds them.
    sorted.sort();
    let order: Vec<u32> = sorted.iter().map(|(_, place)| *place).collect();
    let mut keys: Vec<i64> = sorted.into_iter().map(|(key, _)| key).collect();
    let starts = starts(&keys);
    keys.dedup();
    (KeyIndex::of(&keys, threads), order, Some(starts))
}

/// Where the rows of each key start, and the last end, of sorted keys.
fn starts(keys: &[i64]) -> Vec<u32> {
    let firsts = (0..keys.len()).filter(|at| *at == 0 || keys[at - 1] != keys[*at]);
    firsts.chain([keys.len()]).map(|at| at as u32).collect()
}

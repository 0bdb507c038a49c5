//! Deterministic tables of the Star Schema Benchmark as Arrow batches.
//!
//! Owns the five tables: their columns, row counts, distributions, and how parts of one are produced apart. Does not
//! own files, threads or queries.
//!
//! Invariants: a row depends on scale factor, seed and its number (a line: its order's number) only, so the rows of a
//! table are the same in however many parts and batches they are asked for; nothing is NULL; every key that a line
//! refers to is there, once.
//!
//! Concurrency: a [`DataSet`] is a few numbers to copy; any thread may produce any part.
//!
//! After P. O'Neil, E. O'Neil, X. Chen: Star Schema Benchmark, revision 3 (2009), sections 2 and 3; where it leaves a
//! distribution open, after the authors' dbgen, which takes it from TPC-H. Deviations: the generator of random numbers
//! is another, so rows differ from dbgen's; its errors in the date table are left out (`date`); lines refer to all
//! parts, not to those of a table that grows by the natural logarithm; scale factors may be fractions, and below 1
//! parts shrink with them.
//!
//! ```
//! use thermocline_ssb::{DataSet, Table};
//!
//! let data = DataSet::new(0.001, 1)?;
//! let rows: usize = data.batches(Table::Lineorder, 0, 1, 1_000).map(|batch| batch.num_rows()).sum();
//! assert_eq!(rows as u64, data.row_count(Table::Lineorder));
//! # Ok::<(), thermocline_ssb::Error>(())
//! ```

mod calendar;
mod customer;
mod date;
mod draws;
mod lineorder;
mod part;
mod place;
mod supplier;
#[cfg(test)]
mod tests;
mod words;

use std::ops::Range;
use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use arrow::record_batch::RecordBatch;

use draws::Draws;
use lineorder::{DateKeys, Orders};

/// What a data set can't be made of.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The scale factor is no number, not positive or too large for the keys.
    #[error("scale factor: expected a number above 0 and at most {GREATEST_SCALE}, found {found}")]
    Scale {
        /// What was asked for.
        found: f64,
    },
}

/// The greatest scale factor: 300 million customers, 60 billion lines.
pub const GREATEST_SCALE: f64 = 10_000.0;

/// A table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Table {
    /// The facts: about 6,000,000 lines at scale factor 1.
    Lineorder,
    /// 30,000 at scale factor 1.
    Customer,
    /// 2,000 at scale factor 1.
    Supplier,
    /// 200,000 at scale factor 1, as many again with each doubling.
    Part,
    /// 2,556 days.
    Date,
}

impl Table {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Lineorder, Self::Customer, Self::Supplier, Self::Part, Self::Date];

    /// The name in queries, in small letters.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lineorder => "lineorder",
            Self::Customer => "customer",
            Self::Supplier => "supplier",
            Self::Part => "part",
            Self::Date => "date",
        }
    }

    /// The columns, none of them nullable: keys, days (as YYYYMMDD), counts, percents, flags (0 and 1) and money (in
    /// hundredths) are `Int32`, the order's key `Int64`, all else `Utf8`.
    pub fn schema(self) -> SchemaRef {
        let fields = match self {
            Self::Lineorder => lineorder::fields(),
            Self::Customer => customer::fields(),
            Self::Supplier => supplier::fields(),
            Self::Part => part::fields(),
            Self::Date => date::fields(),
        };
        Arc::new(Schema::new(fields))
    }

    /// Keeps the draws of tables apart, so that equal numbers in two tables mean nothing.
    fn stream(self) -> u64 {
        match self {
            Self::Lineorder => 1,
            Self::Customer => 2,
            Self::Supplier => 3,
            Self::Part => 4,
            Self::Date => 5,
        }
    }
}

/// One data set: a scale factor and a seed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DataSet {
    scale: f64,
    seed: u64,
}

impl DataSet {
    /// The data set of this scale factor and seed. Other seeds, other values, and another number of lines.
    ///
    /// # Errors
    /// [`Error::Scale`] unless the scale factor is above 0 and at most [`GREATEST_SCALE`].
    pub fn new(scale: f64, seed: u64) -> Result<Self, Error> {
        if scale > 0.0 && scale <= GREATEST_SCALE {
            Ok(Self { scale, seed })
        } else {
            Err(Error::Scale { found: scale })
        }
    }

    /// Rows of a table, at least one. Lines are counted by drawing the length of every order: some nanoseconds each.
    pub fn row_count(self, table: Table) -> u64 {
        match table {
            Table::Lineorder => self.orders().count_lines(0..self.unit_count(table)),
            _ => self.unit_count(table),
        }
    }

    /// The rows of part `part` of `part_count` equal parts, in batches of `batch_rows` rows, the last one shorter. The
    /// parts one after the other are the table. Orders are not divided: batches of lines may hold up to six more, and
    /// parts of them are equal in orders. There is no part beyond `part_count` - 1, and of 0 parts none: these are
    /// empty.
    pub fn batches(self, table: Table, part: usize, part_count: usize, batch_rows: usize) -> Batches {
        let unit_count = self.unit_count(table);
        let bound = |part: usize| {
            let before = u128::from(unit_count) * part.min(part_count) as u128 / (part_count as u128).max(1);
            before as u64
        };
        Batches {
            table,
            schema: table.schema(),
            units: bound(part)..bound(part.saturating_add(1)),
            batch_rows: batch_rows.max(1),
            draws_key: Draws::key_of(self.seed, table.stream()),
            orders: self.orders(),
            date_keys: DateKeys::new(),
        }
    }

    /// What a table is produced by: orders or rows.
    fn unit_count(self, table: Table) -> u64 {
        let at_least_one = |row_count: f64| row_count.round().max(1.0) as u64;
        match table {
            Table::Lineorder => at_least_one(self.scale * 1_500_000.0),
            Table::Customer => at_least_one(self.scale * 30_000.0),
            Table::Supplier => at_least_one(self.scale * 2_000.0),
            Table::Part if self.scale < 1.0 => at_least_one(self.scale * 200_000.0),
            Table::Part => 200_000 * (1 + self.scale.log2().floor() as u64),
            Table::Date => date::ROW_COUNT,
        }
    }

    fn orders(self) -> Orders {
        let count = |table| self.unit_count(table) as i32; // at most 300 million (GREATEST_SCALE)
        Orders {
            draws_key: Draws::key_of(self.seed, Table::Lineorder.stream()),
            customer_count: count(Table::Customer),
            supplier_count: count(Table::Supplier),
            part_count: count(Table::Part),
        }
    }
}

/// The batches of one part of a table; see [`DataSet::batches`].
#[derive(Debug, Clone)]
pub struct Batches {
    table: Table,
    schema: SchemaRef,
    /// Orders or rows that are left.
    units: Range<u64>,
    batch_rows: usize,
    draws_key: u64,
    orders: Orders,
    date_keys: DateKeys,
}

impl Iterator for Batches {
    type Item = RecordBatch;

    fn next(&mut self) -> Option<RecordBatch> {
        if self.units.is_empty() {
            return None;
        }
        let rows = self.units.start..self.units.end.min(self.units.start.saturating_add(self.batch_rows as u64));
        let next = rows.end;
        let (columns, next) = match self.table {
            Table::Lineorder => self.orders.columns(&self.date_keys, self.units.start, self.units.end, self.batch_rows),
            Table::Customer => (customer::columns(self.draws_key, rows), next),
            Table::Supplier => (supplier::columns(self.draws_key, rows), next),
            Table::Part => (part::columns(self.draws_key, rows), next),
            Table::Date => (date::columns(rows), next),
        };
        self.units.start = next;
        Some(RecordBatch::try_new(self.schema.clone(), columns).expect("columns follow their table's schema"))
    }
}

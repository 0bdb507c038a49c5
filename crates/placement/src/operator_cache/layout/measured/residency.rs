//! Which of an item's columns the processor's caches still hold of the queries before.
//!
//! A line that was read stays in the last cache until one that is missing takes its place, which happens at random,
//! more or less. So of a column the share `exp(−d / c)` is still there when `d` bytes have come from memory since it
//! was read, in a cache that keeps `c` bytes of the item; lines that are found make no other line go. All columns of a
//! query are read side by side, piece by piece: between two readings of a column lies half of what the first query
//! fetches, half of what the second fetches, and all of what those between them did.
//!
//! A layout that repeats records' values reads more bytes, and finds less of them again. So the bytes are counted
//! twice, as if the item had always had the one form or the other: each query tells what it would have read in either.
//!
//! Owns two counters an item and two a column. Not in it: what other items and the rest of the query read meanwhile;
//! that of columns of which few values are taken, not all lines are fetched; and row-wise layouts, whose columns share
//! lines. Pure.
//!
//! Beside the paper, which has no such thing: ReCache §4.2. On TPC-H's nested orders, where half of the queries ask for
//! records alone, a column of 12 MB that was read 30 MB ago took 0.7 of what it took when 300 MB were read since; that
//! was when each number took 8 bytes.

use crate::operator_cache::layout::row_or_column::{ColumnRead, RowsTouched};
use crate::operator_cache::layout::{ItemShape, Layout};

/// Of the bytes that a query reads of its columns, the share that comes from memory and not from the processor's
/// caches: from 0 to 1. By default all does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FromMemory {
    /// Of columns with a value for each record.
    pub records: f64,
    /// Of columns with a value for each element.
    pub elements: f64,
}

impl Default for FromMemory {
    fn default() -> Self {
        Self { records: 1.0, elements: 1.0 }
    }
}

/// How the values of records lie in a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Each once: nested and striped.
    Once,
    /// Once for each of the record's elements: flat and row-wise.
    Repeated,
}

impl Form {
    const ALL: [Self; 2] = [Self::Once, Self::Repeated];

    /// That of a layout.
    pub fn of(layout: Layout) -> Self {
        match layout {
            Layout::Nested | Layout::Striped => Self::Once,
            Layout::Flat | Layout::RowWise => Self::Repeated,
        }
    }

    /// Its place in what has one for each form.
    pub(super) fn index(self) -> usize {
        match self {
            Self::Once => 0,
            Self::Repeated => 1,
        }
    }
}

/// What the item's queries have fetched, and when. Starts at its default: nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Residency {
    /// By [`Form::index`]: bytes that came from memory.
    fetched_bytes: [f64; 2],
    /// By column: what had been fetched in the middle of the query that read it last.
    last_read: Vec<[f64; 2]>,
}

/// How often the middle of a query is moved to where half of its bytes are fetched, which depends on it in turn. Each
/// time it is off by a fraction of what it was off before; after three, by a few per cent of the query's bytes at most.
const MIDDLE_STEPS: usize = 3;

impl Residency {
    /// Takes in a query that read these columns of an item, in a cache that keeps `kept_bytes` of it. `columns` are all
    /// of the item's, in their order.
    pub fn observe(&mut self, shape: &ItemShape, columns: &[ColumnRead], kept_bytes: f64) {
        if self.last_read.len() < columns.len() {
            self.last_read.resize(columns.len(), [f64::NEG_INFINITY; 2]);
        }
        for form in Form::ALL {
            let at = form.index();
            let middle_bytes = self.middle_bytes(form, shape, columns, kept_bytes);
            for (_, last_read) in columns.iter().zip(&mut self.last_read).filter(|(column, _)| is_read(column)) {
                last_read[at] = middle_bytes;
            }
            self.fetched_bytes[at] += (middle_bytes - self.fetched_bytes[at]) * 2.0;
        }
    }

    /// How much of these columns comes from memory if a query reads them next, in a cache that keeps `kept_bytes` of
    /// the item.
    pub fn from_memory(&self, form: Form, shape: &ItemShape, columns: &[ColumnRead], kept_bytes: f64) -> FromMemory {
        let middle_bytes = self.middle_bytes(form, shape, columns, kept_bytes);
        let share = |of_elements: bool| {
            let (mut sum, mut count) = (0.0, 0.0);
            for (index, _) in read(columns).filter(|(_, column)| column.is_of_elements == of_elements) {
                sum += self.missing_share(form, index, middle_bytes, kept_bytes);
                count += 1.0;
            }
            if count > 0.0 { sum / count } else { 1.0 }
        };
        FromMemory { records: share(false), elements: share(true) }
    }

    /// What will have been fetched when half of a query's bytes are.
    fn middle_bytes(&self, form: Form, shape: &ItemShape, columns: &[ColumnRead], kept_bytes: f64) -> f64 {
        let fetched_bytes = self.fetched_bytes[form.index()];
        let of_query = |missing_share: &dyn Fn(usize) -> f64| -> f64 {
            read(columns).map(|(index, column)| column_bytes(form, shape, column) * missing_share(index)).sum()
        };
        let mut middle_bytes = fetched_bytes + of_query(&|_| 1.0) / 2.0;
        for _ in 0..MIDDLE_STEPS {
            let query_bytes = of_query(&|index| self.missing_share(form, index, middle_bytes, kept_bytes));
            middle_bytes = fetched_bytes + query_bytes / 2.0;
        }
        middle_bytes
    }

    /// Of a column, once so much has been fetched.
    fn missing_share(&self, form: Form, index: usize, fetched_bytes: f64, kept_bytes: f64) -> f64 {
        let last_read = self.last_read.get(index).map_or(f64::NEG_INFINITY, |last_read| last_read[form.index()]);
        1.0 - ((last_read - fetched_bytes) / kept_bytes).exp()
    }
}

fn is_read(column: &ColumnRead) -> bool {
    column.rows != RowsTouched::None
}

/// The columns that a query reads, with their places among the item's.
fn read(columns: &[ColumnRead]) -> impl Iterator<Item = (usize, &ColumnRead)> {
    columns.iter().enumerate().filter(|(_, column)| is_read(column))
}

fn column_bytes(form: Form, shape: &ItemShape, column: &ColumnRead) -> f64 {
    let is_repeated = column.is_of_elements || form == Form::Repeated;
    let values = if is_repeated { shape.flat_row_count } else { shape.record_count };
    f64::from(column.width_bytes.max(1)) * values as f64
}

#[cfg(test)]
mod tests {
    use thermocline_seeded::Random;

    use super::*;

    /// Two columns of records, of 8 MB or, repeated, 32 MB, and two of elements.
    const SHAPE: ItemShape = ItemShape {
        record_count: 1_000_000,
        flat_row_count: 4_000_000,
        record_columns: 2,
        element_columns: 2,
        size_bytes: [0; 4],
    };
    const KEPT_BYTES: f64 = 60e6;

    fn reading(read: [bool; 4]) -> [ColumnRead; 4] {
        let column = |index: usize| ColumnRead {
            width_bytes: 8,
            rows: if read[index] { RowsTouched::Every } else { RowsTouched::None },
            is_of_elements: index >= 2,
        };
        [0, 1, 2, 3].map(column)
    }

    fn from_memory(residency: &Residency, form: Form, read: [bool; 4]) -> FromMemory {
        residency.from_memory(form, &SHAPE, &reading(read), KEPT_BYTES)
    }

    fn observe(residency: &mut Residency, read: [bool; 4]) {
        residency.observe(&SHAPE, &reading(read), KEPT_BYTES);
    }

    #[test]
    fn what_was_never_read_comes_from_memory() {
        let mut residency = Residency::default();
        for form in Form::ALL {
            assert_eq!(from_memory(&residency, form, [true; 4]), FromMemory::default());
        }
        observe(&mut residency, [true, false, false, false]);
        assert_eq!(from_memory(&residency, Form::Once, [false, true, true, false]), FromMemory::default());
    }

    #[test]
    fn the_more_was_fetched_since_the_more_comes_from_memory() {
        let first = [true, false, false, false];
        let mut residency = Residency::default();
        observe(&mut residency, first);
        let mut shares = Vec::new();
        for other in [[false, true, false, false], [false, false, true, false], [false, false, false, true]] {
            shares.push(Form::ALL.map(|form| from_memory(&residency, form, first).records));
            observe(&mut residency, other);
        }
        // Read twice in a row: half of it was fetched after its first line, and some of it once more before its last
        // one.
        let [once, repeated] = shares[0];
        for (share, bytes) in [(once, 8e6), (repeated, 32e6)] {
            let since_bytes = bytes / 2.0 + share * bytes / 2.0;
            assert!((share - (1.0 - (-since_bytes / KEPT_BYTES).exp())).abs() < 0.01, "{share} of {bytes}");
        }
        for (before, after) in shares.iter().zip(&shares[1..]) {
            assert!(before[0] < after[0] && before[1] < after[1], "{shares:?}");
        }
        assert!(shares.iter().all(|[once, repeated]| once < repeated), "{shares:?}");
    }

    #[test]
    fn columns_that_fit_are_not_fetched_for_ever() {
        let mut residency = Residency::default();
        for _ in 0..50 {
            observe(&mut residency, [true, true, false, false]);
        }
        let FromMemory { records, .. } = from_memory(&residency, Form::Once, [true, true, false, false]);
        assert!(records < 0.05, "{records}");
    }

    /// Lines missed by queries on random columns, and how many of them were foreseen.
    fn misses(seed: u64, cache_lines: u64) -> (f64, f64) {
        const WARM_QUERIES: usize = 50;
        // A line is a kilobyte: columns of records have 50 of them, those of elements 200.
        let shape = ItemShape { record_count: 6_250, flat_row_count: 25_000, ..SHAPE };
        let lines = |column: usize| if column < 2 { 50 } else { 200 };
        let kept_bytes = cache_lines as f64 * 1e3;
        let mut random = Random::new(seed);
        let mut cache = vec![None; cache_lines as usize];
        let mut residency = Residency::default();
        let (mut foreseen, mut missed) = (0.0, 0.0);
        for query in 0..400 {
            let mut read = [false; 4];
            read[random.below_u64(4) as usize] = true;
            read[random.below_u64(4) as usize] = true;
            let from_memory = residency.from_memory(Form::Once, &shape, &reading(read), kept_bytes);
            residency.observe(&shape, &reading(read), kept_bytes);
            let mut query_missed = 0;
            // Side by side: a fiftieth of every column at a time.
            for step in 0..50 {
                for column in (0..4).filter(|column| read[*column]) {
                    for line in step * lines(column) / 50..(step + 1) * lines(column) / 50 {
                        if !cache.contains(&Some((column, line))) {
                            cache[random.below_u64(cache_lines) as usize] = Some((column, line));
                            query_missed += 1;
                        }
                    }
                }
            }
            if query >= WARM_QUERIES {
                let of = |column: usize| if column < 2 { from_memory.records } else { from_memory.elements };
                let columns = (0..4).filter(|column| read[*column]);
                foreseen += columns.map(|column| lines(column) as f64 * of(column)).sum::<f64>();
                missed += f64::from(query_missed);
            }
        }
        (foreseen, missed)
    }

    #[test]
    fn it_foresees_what_a_cache_misses_that_replaces_lines_at_random() {
        for seed in 0..5 {
            for cache_lines in [50, 100, 200, 300] {
                let (foreseen, missed) = misses(seed, cache_lines);
                let context = format!("seed {seed}, {cache_lines} lines: {foreseen} foreseen, {missed} missed");
                assert!((foreseen / missed - 1.0).abs() < 0.05, "{context}");
            }
        }
    }
}

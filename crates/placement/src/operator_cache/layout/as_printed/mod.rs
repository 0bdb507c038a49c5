//! Striped or flat, to the letter of the paper: a baseline.
//!
//! While the item is striped (equations 1 to 3), and while it is flat (4, 5, and 3 again), over the window's queries
//! `i`:
//!
//! ```text
//! Cost_striped = Σ (D_i + C_i)             Cost_flat    = Σ D_i
//! Cost_flat    = Σ D_i · R / r_i           Cost_striped = Σ (D_i + ComputeCost(r_i, c_i)) · r_i / R
//!                                    T = max (D_i + C_i) · R / r_i
//! ```
//!
//! The item is switched when the present cost exceeds the other plus `T`. The window is all queries since the last
//! switch. `ComputeCost` is `C` of that query in the item's whole history which read it striped and is nearest in rows
//! and columns.
//!
//! **Owns** these sums and the history; memory is bounded: the sums are running ones, and the history keeps the last
//! [`HISTORY_LENGTH`] pairs of rows and columns. Pure.
//!
//! Paper: ReCache §4.2, Figure 7. What the print leaves open, as it is read here:
//! - "Closest in terms of rows and columns": the sum of the two ratios' logarithms, so that neither's unit matters; of
//!   equal ones the later.
//! - A query that reads no row, or an item without rows, says nothing about layouts and is not observed.
//! - An item that was never striped has no `ComputeCost`, and stays flat: the paper starts all items striped.
//! - An observation in another layout is not of this rule's concern, and is passed over.
//!
//! What the print gets wrong and is kept: equation 5 scales `ComputeCost`, which is that of `r_i` rows already, by
//! `r_i / R` once more, and so favours striping for queries on records; and since no query leaves the window, an item
//! that was asked one way for long takes as long to be turned.

#[cfg(test)]
mod tests;

use super::{ItemShape, Layout, LayoutObservation, Switch};

/// How many pairs of rows and columns the history remembers. Rows take two values for an item that doesn't grow,
/// records or elements, so that this is room for sixteen numbers of columns each, in under a kilobyte.
pub const HISTORY_LENGTH: usize = 32;

/// A query that read the item striped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct StripedReading {
    rows_read: u64,
    columns_read: u32,
    compute_ns: u64,
}

impl StripedReading {
    /// How far it is from a query, in the sense of the module.
    fn distance(&self, rows_read: u64, columns_read: u32) -> f64 {
        let ratio = |a: f64, b: f64| (a.max(1.0) / b.max(1.0)).ln().abs();
        ratio(self.rows_read as f64, rows_read as f64) + ratio(self.columns_read.into(), columns_read.into())
    }
}

/// What the rule remembers of an item. Starts at its default, which is an item that nobody has read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LayoutWindow {
    /// Of the window's last query; the item's layout, unless it was switched since.
    present: Option<Layout>,
    /// Σ (D_i + C_i), equation 1.
    total_ns: f64,
    /// Σ D_i, equation 4.
    data_ns: f64,
    /// Σ D_i / r_i: equation 2 without R.
    data_ns_per_row: f64,
    /// Σ (D_i + ComputeCost(r_i, c_i)) · r_i: equation 5 without R.
    striped_ns_rows: f64,
    /// Whether each of the window's queries had a `ComputeCost`.
    lacks_compute_cost: bool,
    /// max (D_i + C_i) / r_i: equation 3 without R.
    greatest_ns_per_row: f64,
    /// Of the whole life of the item, oldest first; at most [`HISTORY_LENGTH`].
    history: Vec<StripedReading>,
}

impl LayoutWindow {
    /// Takes a query into the window. `shape` is that of the item when it was read.
    pub fn observe(&mut self, shape: &ItemShape, observation: &LayoutObservation) {
        let rows_read = observation.rows_read(shape);
        if rows_read == 0 || !matches!(observation.layout, Layout::Striped | Layout::Flat) {
            return;
        }
        if self.present.is_some_and(|present| present != observation.layout) {
            // Converted without a word: what was observed belongs to the layout before.
            self.switched();
        }
        self.present = Some(observation.layout);
        let columns_read = observation.columns_read();
        if observation.layout == Layout::Striped {
            self.remember(StripedReading { rows_read, columns_read, compute_ns: observation.compute_ns });
        }
        let (data_ns, total_ns) = (observation.data_ns as f64, observation.total_ns() as f64);
        let rows = rows_read as f64;
        self.total_ns += total_ns;
        self.data_ns += data_ns;
        self.data_ns_per_row += data_ns / rows;
        self.greatest_ns_per_row = self.greatest_ns_per_row.max(total_ns / rows);
        match self.compute_cost_ns(rows_read, columns_read) {
            Some(compute_ns) => self.striped_ns_rows += (data_ns + compute_ns as f64) * rows,
            None => self.lacks_compute_cost = true,
        }
    }

    /// Whether to switch, and to what. `shape` is that of the item now: a window that began before the item grew is
    /// scaled to the item as it is.
    pub fn decide(&self, shape: &ItemShape) -> Option<Switch> {
        let costs = self.costs(shape)?;
        (costs.present_cost > costs.other_cost + costs.conversion_cost).then_some(costs)
    }

    /// The numbers behind [`decide`](Self::decide), in nanoseconds, whether they say to switch or not. `None` while
    /// there is nothing to compare: no query in the window, no rows, or no `ComputeCost`.
    pub fn costs(&self, shape: &ItemShape) -> Option<Switch> {
        let flat_rows = shape.flat_row_count as f64;
        if flat_rows == 0.0 {
            return None;
        }
        let conversion_cost = self.greatest_ns_per_row * flat_rows;
        match self.present? {
            Layout::Striped => Some(Switch {
                to: Layout::Flat,
                present_cost: self.total_ns,
                other_cost: self.data_ns_per_row * flat_rows,
                conversion_cost,
            }),
            Layout::Flat if !self.lacks_compute_cost => Some(Switch {
                to: Layout::Striped,
                present_cost: self.data_ns,
                other_cost: self.striped_ns_rows / flat_rows,
                conversion_cost,
            }),
            _ => None,
        }
    }

    /// Begins a new window: the item has been converted. The history stays.
    pub fn switched(&mut self) {
        *self = Self { history: std::mem::take(&mut self.history), ..Self::default() };
    }

    /// `ComputeCost(rows, cols)`, or `None` if the item was never read striped.
    pub fn compute_cost_ns(&self, rows_read: u64, columns_read: u32) -> Option<u64> {
        // Later ones first: `min_by` keeps the first of equals.
        let later_first = self.history.iter().rev();
        let distance = |reading: &StripedReading| reading.distance(rows_read, columns_read);
        later_first.min_by(|a, b| distance(a).total_cmp(&distance(b))).map(|nearest| nearest.compute_ns)
    }

    fn remember(&mut self, reading: StripedReading) {
        let is_same =
            |old: &StripedReading| (old.rows_read, old.columns_read) == (reading.rows_read, reading.columns_read);
        if let Some(index) = self.history.iter().position(is_same) {
            self.history.remove(index);
        } else if self.history.len() == HISTORY_LENGTH {
            self.history.remove(0);
        }
        self.history.push(reading);
    }
}

//! Which of all four layouts: the rule of our own.
//!
//! A [model](UnitCosts) predicts what each query costs in each layout, and a [correction](Correction) makes it agree
//! with what the item has been measured to cost. For each other layout the rule keeps what the window's queries cost in
//! the present layout and would have cost in the other, both as the corrected model has it: one measured query is off by
//! some seven per cent, and a few in a row by as much while the machine is slow, which is no merit of other layouts. The
//! item is converted when the difference exceeds the cost of converting it, `T`; of several layouts to the one with the
//! most left over.
//!
//! The rule, derived: staying and converting is as renting and buying skis. When the regret reaches `T`, at most `T`
//! was lost by staying, and whoever had known the future would have paid `T` too if it was to go on so. A window that
//! reached back to the last switch for ever, as the paper's does, would break that: after a thousand queries on
//! elements the layout for elements has a credit, and queries on records have to work it off before the regret even
//! begins. So each other layout has a window of its own, which begins anew whenever that layout has been no better over
//! it: its sums are those of the run of queries over which it gained most.
//!
//! Considered: to ask for the cost of the way there and back again, as a work function does (Borodin, Linial and Saks,
//! JACM 1992), which loses less where the workload turns just when a conversion has paid; on the workloads of the
//! paper's Figure 9 it loses more by being late.
//!
//! **What a conversion costs**: it runs on one processor beside the queries, and costs them little while one would lie
//! idle. So `T` is its time less the part of a processor that is idle on average; but a part of it in any case
//! ([`LEAST_COST`]), since memory's bandwidth is shared and that processor may be wanted soon. Measured on two of them,
//! one of which was idle: the queries meanwhile took a tenth to a fifth of the conversion's time longer.
//!
//! **Chance.** Where queries of many kinds come in no order the sums go up and down, and what is gained now and then is
//! soon lost: so the difference must be clear too, [`CLEARLY`] times the root of the sum of the squares of its parts, by
//! which a sum of such parts without a direction strays from zero.
//!
//! **What was never tried**: what the model says of a form of which nothing was read is off by a tenth to a quarter, either
//! way, by the processor and the values; that of the present one is right to a per cent soon. Nobody learns better but by
//! trying, so such a layout is given the benefit of the doubt ([`UNTRIED`]), as bandits' rules do. If it proves dearer, its
//! readings say so from then on. On TPC-H's nested orders at random, where flat rows were foretold 15 to 27 % too dear, they
//! were tried after 226 queries without it.
//!
//! Memory counts too. While an item is converted both forms are held, so a layout is not considered unless it fits into
//! what is free. Of two that leave equally much over, the smaller wins, so that a larger one must earn its bytes.
//!
//! **Owns** the windows, the correction, and what the processor's caches still hold ([`Residency`]): some thirty
//! numbers an item and two for each of its columns, whatever it is asked. **Does not own** the
//! conversion, nor the order in which items are converted. Pure.
//!
//! Paper: ReCache §4.2, from which it takes `D`, `C`, `r`, `R`, and that `T` must be earned. Deviations: all of the
//! above; equations 1 to 5 extrapolate from the present layout's times alone, see [`super::as_printed`].

mod correction;
mod residency;
mod unit_costs;

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests;

pub use correction::{COMMON_READINGS, Correction, GREATEST_RATIO, OWN_READINGS, PRIOR_READINGS};
pub use residency::{Form, FromMemory, Residency};
pub use unit_costs::{QueryCost, UnitCosts};

use super::row_or_column::ColumnRead;
use super::{ItemShape, Layout, LayoutObservation, Spare, Switch};

/// A conversion costs the queries at least this share of its time.
pub const LEAST_COST: f64 = 0.25;

/// What is predicted for a layout is multiplied by this where nothing of its form was read yet.
pub const UNTRIED: f64 = 0.8;

/// How many standard deviations of a sum without a direction a difference must be.
pub const CLEARLY: f64 = 2.0;

/// One other layout against the present one, over the run of queries in which it gained most.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Rival {
    /// What the queries cost, as the corrected model has it.
    present_ns: f64,
    /// What they would have cost in the other layout.
    other_ns: f64,
    /// The sum of the squares of the differences.
    squares_ns2: f64,
}

impl Rival {
    fn add(&mut self, present_ns: f64, other_ns: f64) {
        self.present_ns += present_ns;
        self.other_ns += other_ns;
        self.squares_ns2 += (present_ns - other_ns).powi(2);
        if self.other_ns >= self.present_ns {
            *self = Self::default();
        }
    }

    /// Whether the difference is more than chance makes of differences of that size.
    fn is_clear(&self) -> bool {
        self.present_ns - self.other_ns >= CLEARLY * self.squares_ns2.sqrt()
    }
}

/// What the rule remembers of an item. Starts at its default, which is an item that nobody has read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MeasuredWindow {
    /// By [`Layout::index`]; the present layout's place is not used.
    rivals: [Rival; 4],
    /// Of the window's last query.
    present: Option<Layout>,
    correction: Correction,
    residency: Residency,
}

impl MeasuredWindow {
    /// Takes a query into the window. `shape` is that of the item when it was read, `columns` are all of its columns in
    /// their order; none if what they hold is not known. An item without rows is nothing to learn from.
    pub fn observe(
        &mut self,
        costs: &UnitCosts,
        shape: &ItemShape,
        observation: &LayoutObservation,
        columns: &[ColumnRead],
    ) {
        if shape.flat_row_count == 0 {
            return;
        }
        let present = observation.layout;
        if self.present != Some(present) {
            self.restart(present);
        }
        let predicted = self.model(costs, shape, present, observation, columns);
        // Where columns are lent no row or value was touched, and how long that took says nothing of those that will
        // be.
        if predicted.total_ns() > costs.opening_ns(observation) {
            self.correction.observe_query(&predicted, observation);
        }
        // Without lists a record is a row: Arrow's arrays are the flat columns, and so are striped ones, but for levels.
        let has_list = shape.element_columns > 0 || shape.flat_row_count != shape.record_count;
        let is_form = |layout: &Layout| has_list || matches!(layout, Layout::Flat | Layout::RowWise);
        let is_other = |layout: &Layout| *layout != present && is_form(layout);
        let present_ns = self.predict_ns(costs, shape, present, observation, columns);
        for layout in Layout::ALL.into_iter().filter(is_other) {
            let doubt = if self.correction.knows(layout, observation.reads_elements) { 1.0 } else { UNTRIED };
            let other_ns = doubt * self.predict_ns(costs, shape, layout, observation, columns);
            self.rivals[layout.index()].add(present_ns, other_ns);
        }
        self.residency.observe(shape, columns, costs.kept_bytes);
    }

    /// What the observed query would cost in `layout`, in nanoseconds, corrected by what the item has shown so far;
    /// `columns` as when it is [observed](Self::observe), which it must not be yet.
    pub fn predict_ns(
        &self,
        costs: &UnitCosts,
        shape: &ItemShape,
        layout: Layout,
        observation: &LayoutObservation,
        columns: &[ColumnRead],
    ) -> f64 {
        let ratio = self.correction.of_query(layout, observation.reads_elements);
        self.model(costs, shape, layout, observation, columns).total_ns() * ratio
    }

    /// The same before it is corrected.
    fn model(
        &self,
        costs: &UnitCosts,
        shape: &ItemShape,
        layout: Layout,
        observation: &LayoutObservation,
        columns: &[ColumnRead],
    ) -> QueryCost {
        let from_memory = self.residency.from_memory(Form::of(layout), shape, columns, costs.kept_bytes);
        costs.query_cost(layout, shape, observation, columns, from_memory)
    }

    /// Whether to convert, and into what, with what there is to spare beside the item; costs are nanoseconds.
    pub fn decide(&self, costs: &UnitCosts, shape: &ItemShape, spare: Spare) -> Option<Switch> {
        let present = self.present?;
        let cost_share = (1.0 - spare.processors).clamp(LEAST_COST, 1.0);
        let left_over = |switch: &Switch| switch.present_cost - switch.other_cost - switch.conversion_cost;
        let others = Layout::ALL.into_iter().filter(|layout| *layout != present);
        others
            .filter(|layout| shape.size_bytes(*layout) <= spare.bytes)
            .map(|to| {
                let Rival { present_ns, other_ns, .. } = self.rivals[to.index()];
                let conversion_ns = costs.conversion_ns(shape, present, to) * self.correction.of_conversion();
                let conversion_cost = conversion_ns * cost_share;
                Switch { to, present_cost: present_ns, other_cost: other_ns, conversion_cost }
            })
            .filter(|switch| left_over(switch) > 0.0 && self.rivals[switch.to.index()].is_clear())
            // The first of equals is kept: more left over, then fewer bytes, then the order of layouts.
            .min_by(|a, b| {
                let by_bytes = shape.size_bytes(a.to).cmp(&shape.size_bytes(b.to));
                left_over(b).total_cmp(&left_over(a)).then(by_bytes)
            })
    }

    /// Begins new windows: the item, of which `shape` is the present one, has been converted in `conversion_ns`. What
    /// is known of the layouts stays; what the processor's caches held of the columns does not.
    pub fn switched(&mut self, costs: &UnitCosts, shape: &ItemShape, to: Layout, conversion_ns: u64) {
        if let Some(from) = self.present {
            self.correction.observe_conversion(costs.conversion_ns(shape, from, to), conversion_ns as f64);
        }
        self.residency = Residency::default();
        self.restart(to);
    }

    fn restart(&mut self, present: Layout) {
        self.rivals = Default::default();
        self.present = Some(present);
    }
}

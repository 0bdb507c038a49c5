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
//! **Mirrors.** While an item is converted both forms are held, and as long as nobody needs that memory the old one is
//! kept beside the new one, as its mirror. Then each query reads the form in which it is foretold to cost less
//! ([`MeasuredWindow::choose`]), and a conversion is paid for once instead of at each turn of the workload: another
//! layout gains what it takes less than the forms that there are, and loses nothing where the item's own stays better.
//! How many rows will pass is not known before the query has read them; it is taken to be as many as of the latest
//! queries of its kind.
//!
//! Memory counts too. While an item is converted both forms are held, so a layout is not considered unless it fits into
//! what is free. Of two that leave equally much over, the smaller wins, so that a larger one must earn its bytes.
//!
//! **Owns** the windows, the correction, and what the processor's caches still hold ([`Residency`]): some thirty
//! numbers an item and two for each of its columns, whatever it is asked. **Does not own** the
//! conversion, nor the order in which items are converted. Pure.
//!
//! Paper: ReCache §4.2, from which it takes `D`, `C`, `r`, `R`, and that `T` must be earned; two copies in two layouts,
//! of which each query reads the one made for it, are those of Ramamurthy, DeWitt and Su, A Case for Fractured Mirrors
//! (VLDB 2002). Deviations: all of the above; equations 1 to 5 extrapolate from the present layout's times alone, see
//! [`super::as_printed`].

mod correction;
mod residency;
mod unit_costs;

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests;

pub use correction::{COMMON_READINGS, Correction, GREATEST_RATIO, OWN_READINGS, PRIOR_READINGS};
pub use residency::{Form, FromMemory, Residency};
pub use unit_costs::{QueryCost, UnitCosts};

use super::planned_query::PlannedQuery;
use super::row_or_column::ColumnRead;
use super::{Forms, ItemShape, Layout, LayoutObservation, Spare, Switch};

/// A conversion costs the queries at least this share of its time.
pub const LEAST_COST: f64 = 0.25;

/// What is predicted for a layout is multiplied by this where nothing of its form was read yet.
pub const UNTRIED: f64 = 0.8;

/// How many standard deviations of a sum without a direction a difference must be.
pub const CLEARLY: f64 = 2.0;

/// Queries whose mean share of passing rows the next ones are taken to have, before the oldest are forgotten.
const SHARE_READINGS: u32 = 16;

/// The share that is assumed before there were any.
const FIRST_SHARE: f64 = 0.5;

/// One other layout against the present one, over the run of queries in which it gained most.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Rival {
    /// What the queries cost in the form that serves each best, as the corrected model has it.
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

/// How many of the rows pass, on average.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct MeanShare {
    mean: f64,
    /// Queries it is made of, at most [`SHARE_READINGS`].
    count: u32,
}

impl MeanShare {
    fn add(&mut self, share: f64) {
        self.count = (self.count + 1).min(SHARE_READINGS);
        self.mean += (share - self.mean) / f64::from(self.count);
    }

    fn expected(self) -> f64 {
        if self.count == 0 { FIRST_SHARE } else { self.mean }
    }
}

/// What the rule remembers of an item. Starts at its default, which is an item that nobody has read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MeasuredWindow {
    /// By [`Layout::index`]; those of the present forms are not used.
    rivals: [Rival; 4],
    /// At the window's last query.
    present: Option<Forms>,
    /// Of the filtered queries on records, and on elements.
    shares: [MeanShare; 2],
    correction: Correction,
    residency: Residency,
}

impl MeasuredWindow {
    /// Takes a query into the window. `shape` and `forms` are those of the item, which keeps its own form when it is
    /// converted if it keeps mirrors; `columns` are all of its columns in their order, none if what they hold is not
    /// known. An item without rows is nothing to learn from.
    pub fn observe(
        &mut self,
        costs: &UnitCosts,
        shape: &ItemShape,
        (forms, keeps_mirrors): (Forms, bool),
        observation: &LayoutObservation,
        columns: &[ColumnRead],
    ) {
        if shape.flat_row_count == 0 {
            return;
        }
        if self.present != Some(forms) {
            self.restart(forms);
        }
        let counts = &observation.counts;
        if counts.columns_tested > 0 {
            let share = counts.selected_rows() as f64 / observation.rows_read(shape).max(1) as f64;
            self.shares[usize::from(observation.reads_elements)].add(share.min(1.0));
        }
        let predicted = self.model(costs, shape, observation.layout, observation, columns);
        // Where columns are lent no row or value was touched, and how long that took says nothing of those that will
        // be.
        if predicted.total_ns() > costs.opening_ns(observation) {
            self.correction.observe_query(&predicted, observation);
        }
        // Without lists a record is a row: Arrow's arrays are the flat columns, and so are striped ones, but for levels.
        let has_list = shape.element_columns > 0 || shape.flat_row_count != shape.record_count;
        let is_form = |layout: &Layout| has_list || matches!(layout, Layout::Flat | Layout::RowWise);
        let is_other = |layout: &Layout| !forms.contains(*layout) && is_form(layout);
        let predicted = Layout::ALL.map(|layout| self.predict_ns(costs, shape, layout, observation, columns));
        let predicted_ns = |layout: Layout| predicted[layout.index()];
        let present_ns = forms.layouts().map(predicted_ns).fold(f64::INFINITY, f64::min);
        for layout in Layout::ALL.into_iter().filter(is_other) {
            let doubt = if self.correction.knows(layout, observation.reads_elements) { 1.0 } else { UNTRIED };
            let other_ns = doubt * predicted_ns(layout);
            // Who is converted keeps its own form as its mirror.
            let other_ns = if keeps_mirrors { other_ns.min(predicted_ns(forms.own)) } else { other_ns };
            self.rivals[layout.index()].add(present_ns, other_ns);
        }
        self.residency.observe(shape, columns, costs.kept_bytes);
    }

    /// The form that the item is to be read in: where the query is foretold to cost less, its own where both are alike.
    pub fn choose(
        &self,
        costs: &UnitCosts,
        shape: &ItemShape,
        forms: Forms,
        query: &PlannedQuery,
        columns: &[ColumnRead],
    ) -> Layout {
        let Some(mirror) = forms.mirror else { return forms.own };
        let share = self.shares[usize::from(query.reads_elements)].expected();
        let foreseen = query.observation(shape, forms.own, share);
        let predict_ns = |layout| self.predict_ns(costs, shape, layout, &foreseen, columns);
        if predict_ns(mirror) < predict_ns(forms.own) { mirror } else { forms.own }
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
        let others = Layout::ALL.into_iter().filter(|layout| !present.contains(*layout));
        others
            .filter(|layout| shape.size_bytes(*layout) <= spare.bytes)
            .map(|to| {
                let Rival { present_ns, other_ns, .. } = self.rivals[to.index()];
                let conversion_ns = costs.conversion_ns(shape, present.own, to) * self.correction.of_conversion();
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
            self.correction.observe_conversion(costs.conversion_ns(shape, from.own, to), conversion_ns as f64);
        }
        self.residency = Residency::default();
        self.restart(Forms::only(to));
    }

    fn restart(&mut self, present: Forms) {
        self.rivals = Default::default();
        self.present = Some(present);
    }
}

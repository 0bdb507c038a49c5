//! The rules by name, and what each remembers of an item.
//!
//! **Owns** the choice between choosing and a fixed layout, and with which layout an item begins. **Does not own** the
//! rules themselves. Pure.
//!
//! Paper: ReCache §4.2 lets items of nested data begin striped, since that takes the fewest writes to memory.
//! Deviation: under the rule of our own they begin nested, which takes no more of them, and needs no levels.

use std::fmt;
use std::str::FromStr;

use super::as_printed::LayoutWindow;
use super::measured::{MeasuredWindow, UnitCosts};
use super::planned_query::PlannedQuery;
use super::row_or_column::{ColumnRead, MissWindow};
use super::{Forms, ItemShape, Layout, LayoutObservation, Spare, Switch};

/// What decides on the layout of items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LayoutRule {
    /// What queries cost as measured, among all layouts ([`super::measured`]), and two of them where there is room.
    #[default]
    Measured,
    /// The same, one layout at a time.
    Single,
    /// The paper's equations: striped or flat for items of lists, flat or row-wise for others.
    AsPrinted,
    /// Every item has this one.
    Fixed(Layout),
}

impl LayoutRule {
    /// The name users see: "auto", "single", "recache", or the layout's.
    pub fn name(self) -> &'static str {
        match self {
            Self::Measured => "auto",
            Self::Single => "single",
            Self::AsPrinted => "recache",
            Self::Fixed(layout) => layout.name(),
        }
    }

    /// The rule for items whose rows are elements of a list, if `has_list`, and for others: where there is no list,
    /// nested arrays are flat ones.
    pub fn for_items(self, has_list: bool) -> Self {
        match self {
            Self::Fixed(Layout::Nested) if !has_list => Self::Fixed(Layout::Flat),
            rule => rule,
        }
    }

    /// Whether an item's former layout is kept as its mirror as long as nobody needs the memory.
    pub fn keeps_mirrors(self) -> bool {
        self == Self::Measured
    }

    /// The layout that such items begin with.
    pub fn initial(self, has_list: bool) -> Layout {
        match self.for_items(has_list) {
            Self::Fixed(layout) => layout,
            Self::AsPrinted if has_list => Layout::Striped,
            Self::Measured | Self::Single if has_list => Layout::Nested,
            Self::AsPrinted | Self::Measured | Self::Single => Layout::Flat,
        }
    }
}

impl fmt::Display for LayoutRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// No rule has the name. Its text lists those there are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownRule {
    /// The name as it was given.
    pub name: String,
}

impl fmt::Display for UnknownRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let layouts = Layout::ALL.map(Layout::name).join(", ");
        write!(f, "'{}' is no layout; expected auto, single, recache, {layouts}", self.name)
    }
}

impl std::error::Error for UnknownRule {}

/// By the name that [`LayoutRule::name`] gives, in any case.
impl FromStr for LayoutRule {
    type Err = UnknownRule;

    fn from_str(text: &str) -> Result<Self, UnknownRule> {
        let wanted = text.trim().to_ascii_lowercase();
        match wanted.as_str() {
            "auto" => Ok(Self::Measured),
            "single" => Ok(Self::Single),
            "recache" => Ok(Self::AsPrinted),
            layout => layout.parse().map(Self::Fixed).map_err(|_| UnknownRule { name: text.to_string() }),
        }
    }
}

/// What the rules remember of an item. Starts at its default, which is an item that nobody has read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LayoutHistory {
    measured: MeasuredWindow,
    as_printed: LayoutWindow,
    misses: MissWindow,
}

impl LayoutHistory {
    /// Takes a query into the rule's window; into that of our own whatever the rule, since its costs are shown under
    /// each. `columns` are all of the item's, in their order.
    pub fn observe(
        &mut self,
        rule: LayoutRule,
        shape: &ItemShape,
        forms: Forms,
        observation: &LayoutObservation,
        columns: &[ColumnRead],
    ) {
        let forms_kept = (forms, rule.keeps_mirrors());
        self.measured.observe(&UnitCosts::default(), shape, forms_kept, observation, columns);
        if rule == LayoutRule::AsPrinted {
            self.as_printed.observe(shape, observation);
            if shape.element_columns == 0 {
                self.misses.observe(shape, columns, observation.counts.selected_rows());
            }
        }
    }

    /// The form that a query of an item should read; under a rule without mirrors the item's own.
    pub fn choose(
        &self,
        rule: LayoutRule,
        shape: &ItemShape,
        forms: Forms,
        query: &PlannedQuery,
        columns: &[ColumnRead],
    ) -> Layout {
        if !rule.keeps_mirrors() {
            return forms.own;
        }
        self.measured.choose(&UnitCosts::default(), shape, forms, query, columns)
    }

    /// Whether an item that has the layout `present` should have another, with what there is to spare beside it.
    pub fn decide(&self, rule: LayoutRule, shape: &ItemShape, present: Layout, spare: Spare) -> Option<Switch> {
        match rule {
            LayoutRule::Measured | LayoutRule::Single => self.measured.decide(&UnitCosts::default(), shape, spare),
            LayoutRule::AsPrinted if shape.element_columns == 0 => self.misses.decide(shape, present),
            LayoutRule::AsPrinted => self.as_printed.decide(shape),
            LayoutRule::Fixed(layout) => (layout != present).then_some(Switch {
                to: layout,
                present_cost: 0.0,
                other_cost: 0.0,
                conversion_cost: 0.0,
            }),
        }
    }

    /// What the observed query would cost in `layout`, in nanoseconds, by the rule of our own and by what it has seen
    /// so far. `columns` as when it is [observed](Self::observe).
    pub fn predict_ns(
        &self,
        shape: &ItemShape,
        layout: Layout,
        observation: &LayoutObservation,
        columns: &[ColumnRead],
    ) -> f64 {
        self.measured.predict_ns(&UnitCosts::default(), shape, layout, observation, columns)
    }

    /// Begins new windows: the item, of which `shape` is the present one, has been converted in `conversion_ns`.
    pub fn switched(&mut self, shape: &ItemShape, to: Layout, conversion_ns: u64) {
        self.measured.switched(&UnitCosts::default(), shape, to, conversion_ns);
        self.as_printed.switched();
        self.misses.switched();
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::operator_cache::layout::sample_query::{SampleQuery, evenly};

    #[test]
    fn every_rule_is_found_by_its_own_name() {
        let fixed = Layout::ALL.map(LayoutRule::Fixed);
        for rule in [LayoutRule::Measured, LayoutRule::Single, LayoutRule::AsPrinted].into_iter().chain(fixed) {
            assert_eq!(rule.to_string().to_uppercase().parse(), Ok(rule));
        }
        let message = "columnar".parse::<LayoutRule>().unwrap_err().to_string();
        assert_eq!(message, "'columnar' is no layout; expected auto, single, recache, nested, flat, striped, row");
    }

    #[test]
    fn a_fixed_rule_wants_its_layout_whatever_was_observed() {
        let shape =
            ItemShape { record_count: 1, flat_row_count: 4, record_columns: 1, element_columns: 1, size_bytes: [9; 4] };
        let history = LayoutHistory::default();
        let decide = |present| {
            history.decide(LayoutRule::Fixed(Layout::Flat), &shape, present, Spare { bytes: 0, processors: 0.0 })
        };
        assert_eq!(decide(Layout::Striped).unwrap().to, Layout::Flat);
        assert_eq!(decide(Layout::Flat), None);
    }

    #[test]
    fn each_rule_learns_from_queries_and_gives_its_own_answer() {
        let shape = ItemShape {
            record_count: 1000,
            flat_row_count: 4000,
            record_columns: 2,
            element_columns: 2,
            size_bytes: [64_000, 128_000, 70_000, 128_000],
        };
        // Elements with the columns of their records, read through levels.
        let query = LayoutObservation {
            layout: Layout::Striped,
            data_ns: 100_000,
            compute_ns: 400_000,
            ..evenly(&shape, SampleQuery { reads_elements: true, record_columns: 2, element_columns: 2, share: 0.75 })
        };
        // No room for flat columns, which the printed rule does not ask for.
        let spare = Spare { bytes: 100_000, processors: 0.0 };
        for (rule, expected) in [(LayoutRule::Measured, Layout::Nested), (LayoutRule::AsPrinted, Layout::Flat)] {
            let mut history = LayoutHistory::default();
            let mut query_count = 0;
            let switch = loop {
                history.observe(rule, &shape, Forms::only(Layout::Striped), &query, &[]);
                query_count += 1;
                if let Some(switch) = history.decide(rule, &shape, Layout::Striped, spare) {
                    break switch;
                }
                assert!(query_count < 100, "{rule} stays with what costs five times as much");
            };
            assert_eq!(switch.to, expected, "{rule}");
            history.switched(&shape, switch.to, 1_000_000);
            assert_eq!(history.decide(rule, &shape, switch.to, spare), None, "{rule} begins anew");
        }
    }
}

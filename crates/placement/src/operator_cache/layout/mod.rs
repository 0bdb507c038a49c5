//! Which layout an item should have: from what queries did with it to the layout that would serve them best.
//!
//! **Owns** the layouts by name, what is observed of a query's reading of an item ([`LayoutObservation`]), what is
//! fixed for the item ([`ItemShape`]), and the rules that choose. **Does not own** any row, nor the conversion, nor the
//! clock.
//!
//! **Invariants**: the rules are plain data and arithmetic. Each keeps a bounded number of numbers for an item,
//! whatever number of queries it has seen. None proposes the layout that the item has.
//!
//! **Concurrency**: a window belongs to its item and changes under the item's lock.
//!
//! Paper: ReCache §4. [`as_printed`] chooses between [striped](Layout::Striped) and [flat](Layout::Flat) by equations 1
//! to 5 (§4.2), [`row_or_column`] between flat and [row](Layout::RowWise) by cache misses (§4.3). [`measured`] is ours
//! and chooses among all four; the others are its baselines. How well predictions agree with what is measured
//! afterwards is for [`prediction_error`] to say (Figure 7).
//!
//! Deviation: what the paper calls Parquet is called striped here, and its relational columnar layout flat. Arrow's
//! nested arrays are a layout that the paper doesn't have.

pub mod as_printed;
pub mod measured;
pub mod planned_query;
pub mod prediction_error;
pub mod row_or_column;
pub mod rule;
#[cfg(test)]
mod sample_query;
#[cfg(test)]
mod simulation;

use std::fmt;
use std::str::FromStr;

/// How an item's rows lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Layout {
    /// Record columns once, elements once, and list offsets: Arrow's nested arrays.
    Nested,
    /// One row for each innermost element, column after column: the paper's relational columnar layout.
    Flat,
    /// Each column's values once, with repetition and definition levels: Dremel's, and the paper's Parquet.
    Striped,
    /// One row for each innermost element, row after row.
    RowWise,
}

impl Layout {
    /// Every layout, in the order of [`Layout::index`].
    pub const ALL: [Self; 4] = [Self::Nested, Self::Flat, Self::Striped, Self::RowWise];

    /// Its position in [`Layout::ALL`], and in whatever has a place for each layout.
    pub fn index(self) -> usize {
        match self {
            Self::Nested => 0,
            Self::Flat => 1,
            Self::Striped => 2,
            Self::RowWise => 3,
        }
    }

    /// The name users see.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nested => "nested",
            Self::Flat => "flat",
            Self::Striped => "striped",
            Self::RowWise => "row",
        }
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The layouts that an item can be read in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forms {
    /// The one that it has, and is converted from.
    pub own: Layout,
    /// That of its mirror: the same rows once more, kept while nobody needs the memory.
    pub mirror: Option<Layout>,
}

impl Forms {
    /// Those of an item without a mirror.
    pub const fn only(own: Layout) -> Self {
        Self { own, mirror: None }
    }

    /// One or both, its own first.
    pub fn layouts(self) -> impl Iterator<Item = Layout> {
        std::iter::once(self.own).chain(self.mirror)
    }

    /// Whether it lies in this one.
    pub fn contains(self, layout: Layout) -> bool {
        self.layouts().any(|form| form == layout)
    }
}

/// No layout has the name. Its text lists those there are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownLayout {
    /// The name as it was given.
    pub name: String,
}

impl fmt::Display for UnknownLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = Layout::ALL.map(Layout::name).join(", ");
        write!(f, "there is no layout '{}'; the layouts are {known}", self.name)
    }
}

impl std::error::Error for UnknownLayout {}

/// By the name that [`Layout::name`] gives, in any case.
impl FromStr for Layout {
    type Err = UnknownLayout;

    fn from_str(text: &str) -> Result<Self, UnknownLayout> {
        let wanted = text.trim();
        Self::ALL
            .into_iter()
            .find(|layout| layout.name().eq_ignore_ascii_case(wanted))
            .ok_or_else(|| UnknownLayout { name: text.to_string() })
    }
}

/// What a reading did with rows, in numbers that are about the same whichever layout the item has, so that a reading in
/// one layout tells what it would have cost in another. Sums over the pieces that the item was read in; a *row* is an
/// element where the query asks for elements, else a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadCounts {
    /// Pieces, whatever was selected of them. They have about as many rows each in every layout.
    pub piece_count: u64,
    /// Columns that were compared with what is asked of them, counted once for each piece.
    pub columns_tested: u64,
    /// Values of record columns that were compared with what is asked of them: one for each record and column, whatever
    /// number of rows the layout repeats it in. Columns that no row was left for are not compared.
    pub record_values_tested: u64,
    /// Values of element columns that were compared.
    pub element_values_tested: u64,
    /// Rows of the pieces that were selected as a whole.
    pub whole_rows: u64,
    /// Rows of the pieces that were cut: some of their rows were selected, and others were not.
    pub cut_rows: u64,
    /// Rows selected of those.
    pub cut_selected_rows: u64,
    /// Runs of neighbours in which these lie.
    pub cut_runs: u64,
    /// Where rows are elements: runs of neighbours among the records that pass, in the pieces where others do not.
    pub record_runs: u64,
}

impl ReadCounts {
    /// Rows that were selected.
    pub fn selected_rows(&self) -> u64 {
        self.whole_rows.saturating_add(self.cut_selected_rows)
    }

    /// Counts another part of the same reading.
    pub fn add(&mut self, other: &Self) {
        self.piece_count += other.piece_count;
        self.columns_tested += other.columns_tested;
        self.record_values_tested += other.record_values_tested;
        self.element_values_tested += other.element_values_tested;
        self.whole_rows += other.whole_rows;
        self.cut_rows += other.cut_rows;
        self.cut_selected_rows += other.cut_selected_rows;
        self.cut_runs += other.cut_runs;
        self.record_runs += other.record_runs;
    }
}

/// Columns of one kind that a query reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ColumnsRead {
    /// All of them, those of the residual filter included.
    pub read: u32,
    /// Those that selected rows have values of.
    pub output: u32,
    /// Those of the output that the filter does not look at: of them no more than the selected values is touched.
    pub untested: u32,
    /// Those of the output whose values vary in width: texts, lists.
    pub varying: u32,
}

impl ColumnsRead {
    /// Columns of both kinds.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            read: self.read.saturating_add(other.read),
            output: self.output.saturating_add(other.output),
            untested: self.untested.saturating_add(other.untested),
            varying: self.varying.saturating_add(other.varying),
        }
    }
}

/// One query's reading of an item: `Q_i` of the paper. Columns and counts are properties of the query, the same in
/// every layout; only the times belong to the layout it was read in. Two clock readings around the scan are enough:
/// where loading and computing are not told apart, all is `data_ns`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayoutObservation {
    /// The layout that the item had.
    pub layout: Layout,
    /// `D_i`: loading values from the item.
    pub data_ns: u64,
    /// `C_i`: everything else, such as branching on levels and putting records together.
    pub compute_ns: u64,
    /// Whether the query's rows are innermost elements; else they are records.
    pub reads_elements: bool,
    /// Columns read that have one value for each record.
    pub record_columns: ColumnsRead,
    /// Columns read that have one value for each innermost element.
    pub element_columns: ColumnsRead,
    /// Whether values are taken in the narrow forms that they are kept in, and rows that fail may be left among the others
    /// ([`is_marked`]).
    pub as_kept: bool,
    /// What was done with rows.
    pub counts: ReadCounts,
}

/// Of rows that may be left among those that fail, the part that must pass so that they are: copying fewer is cheaper
/// than passing over those that fail.
pub const MARKED_SHARE: f64 = 1.0 / 8.0;

/// Whether so many of some rows, which may be left among the others, are marked instead of copied.
pub fn is_marked(row_count: u64, selected_count: u64) -> bool {
    selected_count as f64 >= row_count as f64 * MARKED_SHARE
}

impl LayoutObservation {
    /// `c_i`: columns read.
    pub fn columns_read(&self) -> u32 {
        self.record_columns.read.saturating_add(self.element_columns.read)
    }

    /// `r_i`: the rows that the query needs to look at, whatever number of them the layout stores.
    pub fn rows_read(&self, shape: &ItemShape) -> u64 {
        if self.reads_elements { shape.flat_row_count } else { shape.record_count }
    }

    /// `D_i + C_i`.
    pub fn total_ns(&self) -> u64 {
        self.data_ns.saturating_add(self.compute_ns)
    }
}

/// What is fixed for an item while no rows or columns are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ItemShape {
    /// Records it holds, each of them at least one row in the flat layout.
    pub record_count: u64,
    /// `R`: rows it has in the flat layout.
    pub flat_row_count: u64,
    /// Columns that have one value for each record.
    pub record_columns: u32,
    /// Columns that have one value for each innermost element.
    pub element_columns: u32,
    /// Its size in each layout, by [`Layout::index`]: of the present one as counted, of the others as predicted.
    pub size_bytes: [u64; 4],
}

impl ItemShape {
    /// Makes it that of a part of the item's rows.
    pub fn scale(&mut self, share: f64) {
        let sizes = self.size_bytes.iter_mut();
        for count in [&mut self.record_count, &mut self.flat_row_count].into_iter().chain(sizes) {
            *count = (*count as f64 * share) as u64;
        }
    }

    /// Its size in a layout.
    pub fn size_bytes(&self, layout: Layout) -> u64 {
        self.size_bytes[layout.index()]
    }
}

/// What is there for a conversion beside the queries.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spare {
    /// Free memory.
    pub bytes: u64,
    /// Processors that queries leave idle, on average: 1 is one of them, however many there are.
    pub processors: f64,
}

/// To give an item another layout, with the numbers that say so. A decision, not yet done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Switch {
    /// The layout it should have.
    pub to: Layout,
    /// What the window's queries cost in the present layout.
    pub present_cost: f64,
    /// What they would have cost in the other one.
    pub other_cost: f64,
    /// `T`: what converting the item costs the queries. All three in the rule's own unit: nanoseconds, or cache misses.
    pub conversion_cost: f64,
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn every_layout_is_found_by_its_own_name_alone_and_has_its_own_place() {
        for (index, layout) in Layout::ALL.into_iter().enumerate() {
            assert_eq!(layout.index(), index);
            assert_eq!(layout.to_string().to_uppercase().parse(), Ok(layout));
            assert_eq!(Layout::ALL.iter().filter(|other| other.name() == layout.name()).count(), 1);
        }
        let message = "columnar".parse::<Layout>().unwrap_err().to_string();
        assert_eq!(message, "there is no layout 'columnar'; the layouts are nested, flat, striped, row");
    }
}

//! Aggregates of all groups, each as arrays by the groups' cells.
//!
//! **Invariants**: NULLs change nothing; merging accumulators gives what one would have had of all rows.

use thermocline_narrow::DecimalFloats;

use super::super::column::Block;
use super::super::numbers::{Lane, Numbers};
use super::super::texts::Texts;
use super::few_cells::{self, GroupedRows};
use super::text_extremes::TextExtremes;
use crate::ir::{Aggregate, ColumnShape, ValueType};
use crate::kernels::{Extreme, InstructionSet, Mask, count};
use crate::{PipelineError, RowsetColumn, RowsetValues, ordinal};

/// What an aggregate keeps for each cell.
#[derive(Debug)]
enum State {
    Count,
    /// Modulo 2^64.
    Sum(Vec<i64>),
    /// Modulo 2^128.
    WideSum(Vec<i128>),
    FloatSum(Vec<f64>),
    /// Ordinals.
    Least(Vec<i128>),
    Greatest(Vec<i128>),
    Text(TextExtremes),
}

/// An aggregate of each cell.
#[derive(Debug)]
pub(super) struct Accumulator {
    state: State,
    /// Values that are not NULL.
    counts: Vec<u64>,
    /// Whether a wide sum has left 128 bits.
    overflowed: bool,
    /// Whether that may be: not of what makes averages.
    wraps: bool,
}

/// Most bytes that a cell takes in an accumulator: a number of 128 bits, or a text's reference, code and number; and a
/// count.
pub(super) const CELL_BYTES: usize = 36;

/// Groups that are taken over from another thread between two looks at what is reserved.
pub(super) const MERGED_AT_ONCE: usize = 1024;

impl Accumulator {
    /// Of an aggregate over values of this type.
    pub(super) fn new(aggregate: Aggregate, value_type: Option<ValueType>) -> Self {
        let state = match aggregate {
            Aggregate::CountRows | Aggregate::Count(_) => State::Count,
            Aggregate::Sum(_) if value_type.is_some_and(ValueType::is_integer) => State::Sum(Vec::new()),
            Aggregate::Sum(_) if value_type.is_some_and(ValueType::is_float) => State::FloatSum(Vec::new()),
            Aggregate::Sum(_) | Aggregate::WideSum(_) => State::WideSum(Vec::new()),
            Aggregate::Minimum(_) | Aggregate::Maximum(_) if value_type == Some(ValueType::Text) => {
                State::Text(TextExtremes::new(matches!(aggregate, Aggregate::Maximum(_))))
            }
            Aggregate::Minimum(_) => State::Least(Vec::new()),
            Aggregate::Maximum(_) => State::Greatest(Vec::new()),
        };
        let wraps = !matches!(aggregate, Aggregate::WideSum(_));
        Self { state, counts: Vec::new(), overflowed: false, wraps }
    }

    /// Makes room for `cell_count` cells; never takes cells away.
    pub(super) fn resize(&mut self, cell_count: usize) {
        self.counts.resize(cell_count, 0);
        match &mut self.state {
            State::Count => {}
            State::Sum(sums) => sums.resize(cell_count, 0),
            State::WideSum(sums) => sums.resize(cell_count, 0),
            State::FloatSum(sums) => sums.resize(cell_count, 0.0),
            State::Least(values) => values.resize(cell_count, i128::MAX),
            State::Greatest(values) => values.resize(cell_count, i128::MIN),
            State::Text(texts) => texts.resize(cell_count),
        }
    }

    /// Values as this aggregate takes them: what is summed up are numbers, and not ordinals that are less.
    pub(super) fn prepared(&self, mut numbers: Numbers, value_type: ValueType) -> Numbers {
        if let (State::Sum(_) | State::WideSum(_), ValueType::UInt64, Lane::Narrow(ordinals)) =
            (&self.state, value_type, &numbers.lane)
        {
            numbers.lane = Lane::Wide(ordinals.iter().map(|ordinal| ordinal::to_unsigned(*ordinal).into()).collect());
        }
        numbers
    }

    /// Takes rows in, with their values if the aggregate has any.
    pub(super) fn add(&mut self, rows: &GroupedRows, values: Option<&Numbers>) {
        let cells = rows.cells.as_slice();
        let valid = values.and_then(|values| values.valid.as_deref());
        if let (None, [counted], Some(values)) = (valid, self.counts.as_mut_slice(), values) {
            *counted += cells.len() as u64;
            return self.add_to_one(values);
        }
        match (valid, rows.counts()) {
            (None, Some(counts)) => {
                self.counts.iter_mut().zip(counts).for_each(|(count, more)| *count += u64::from(*more));
            }
            (None, None) => cells.iter().for_each(|cell| self.counts[*cell as usize] += 1),
            (Some(valid), _) => {
                cells.iter().zip(valid).for_each(|(cell, valid)| self.counts[*cell as usize] += u64::from(*valid));
            }
        }
        let Some(values) = values else { return };
        match (&values.lane, &mut self.state) {
            (Lane::Narrow(numbers), State::Sum(sums)) if valid.is_none() && rows.are_few() => {
                let more = few_cells::sums(cells, numbers);
                sums.iter_mut().zip(more).for_each(|(sum, more)| *sum = sum.wrapping_add(more));
            }
            (Lane::Narrow(numbers), State::WideSum(sums))
                if valid.is_none() && rows.are_few() && few_cells::can_add_up(numbers) =>
            {
                let more = few_cells::sums(cells, numbers);
                let overflowed = &mut self.overflowed;
                sums.iter_mut().zip(more).for_each(|(sum, more)| *overflowed |= add_wide(sum, more.into()));
            }
            (Lane::Narrow(ordinals), State::FloatSum(sums)) if valid.is_none() && rows.are_few() => {
                let more = few_cells::sums_of_floats(cells, ordinals);
                sums.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
            }
            (Lane::Narrow(ordinals), State::FloatSum(sums)) => {
                each(sums, (cells, ordinals, valid), |sum, number: i64| *sum += ordinal::to_float(number));
            }
            (Lane::Narrow(numbers), _) => self.add_numbers(cells, numbers, valid),
            (Lane::Wide(numbers), _) => self.add_numbers(cells, numbers, valid),
        }
    }

    /// Takes in values of the only cell that there is, none of which is NULL: nothing is looked up, and a sum need not
    /// wait for the one before.
    fn add_to_one(&mut self, values: &Numbers) {
        match (&values.lane, &mut self.state) {
            (Lane::Narrow(ordinals), State::FloatSum(sums)) => sums[0] += sum_of_floats(ordinals),
            (Lane::Narrow(numbers), State::Sum(sums)) => {
                sums[0] = numbers.iter().fold(sums[0], |sum, number| sum.wrapping_add(*number));
            }
            (Lane::Narrow(numbers), State::WideSum(sums)) => {
                let more = numbers.iter().fold(0_i128, |sum, number| sum + i128::from(*number));
                self.overflowed |= add_wide(&mut sums[0], more);
            }
            (Lane::Narrow(numbers), State::Least(least)) => {
                let of_these = numbers.iter().copied().min().map_or(i128::MAX, i128::from);
                least[0] = least[0].min(of_these);
            }
            (Lane::Narrow(numbers), State::Greatest(greatest)) => {
                let of_these = numbers.iter().copied().max().map_or(i128::MIN, i128::from);
                greatest[0] = greatest[0].max(of_these);
            }
            (Lane::Wide(numbers), _) => self.add_numbers(&vec![0; numbers.len()], numbers, None),
            (Lane::Narrow(_), State::Count | State::Text(_)) => {}
        }
    }

    /// Takes the selected rows of a mini-block into the only cell that there is, by their values as they lie there if
    /// the aggregate has any, of which none that is selected is NULL: as whole numbers that stand for `floats`, if they
    /// do. Not of texts.
    pub(super) fn add_block(
        &mut self,
        selected: &Mask,
        values: Option<(Block<'_>, ValueType)>,
        floats: Option<DecimalFloats>,
        instructions: InstructionSet,
    ) {
        let row_count = count(selected);
        self.counts[0] += row_count as u64;
        let Some((Block { base, words }, value_type)) = values else { return };
        let sum = || {
            // Of numbers, and not of ordinals that are less.
            let bias = if value_type == ValueType::UInt64 { ordinal::UNSIGNED_BIAS } else { 0 };
            instructions.sum(words, base, selected) + bias * row_count as i128
        };
        match &mut self.state {
            State::Count | State::Text(_) => {}
            // The low 64 bits of a sum depend on those of its parts alone.
            State::Sum(sums) => sums[0] = sums[0].wrapping_add(sum() as i64),
            State::WideSum(sums) => self.overflowed |= add_wide(&mut sums[0], sum()),
            State::FloatSum(sums) => {
                sums[0] += match floats {
                    Some(floats) => floats.sum(instructions.sum(words, base, selected)),
                    None => instructions.sum_of_floats(words, base, selected),
                };
            }
            State::Least(least) => {
                let of_these = instructions.extreme(Extreme::Least, words, base, selected);
                least[0] = of_these.map_or(least[0], |of_these| least[0].min(ordinal_of(of_these, floats)));
            }
            State::Greatest(greatest) => {
                let of_these = instructions.extreme(Extreme::Greatest, words, base, selected);
                greatest[0] = of_these.map_or(greatest[0], |of_these| greatest[0].max(ordinal_of(of_these, floats)));
            }
        }
    }

    #[inline(always)]
    fn add_numbers<N: Copy + Into<i128>>(&mut self, cells: &[u32], numbers: &[N], valid: Option<&[bool]>) {
        let rows = (cells, numbers, valid);
        match &mut self.state {
            State::Count | State::FloatSum(_) | State::Text(_) => {}
            // The low 64 bits of a sum depend on those of its parts alone.
            State::Sum(sums) => each(sums, rows, |sum, number| *sum = sum.wrapping_add(number.into() as i64)),
            State::WideSum(sums) => {
                let overflowed = &mut self.overflowed;
                each(sums, rows, |sum, number| *overflowed |= add_wide(sum, number.into()));
            }
            State::Least(values) => each(values, rows, |least, number| *least = number.into().min(*least)),
            State::Greatest(values) => each(values, rows, |greatest, number| *greatest = number.into().max(*greatest)),
        }
    }

    /// Takes rows of texts in by their codes. `reserve` is told how many [`extra_bytes`](Self::extra_bytes) there will be.
    ///
    /// # Errors
    /// No memory; what `wrong` says of a code that stands for no UTF-8.
    pub(super) fn add_texts(
        &mut self,
        rows: &GroupedRows,
        (codes, texts): (&Numbers, &Texts<'_>),
        reserve: impl Fn(usize) -> Result<(), PipelineError>,
        wrong: impl Fn(u32) -> PipelineError,
    ) -> Result<(), PipelineError> {
        self.add(rows, Some(codes));
        match &mut self.state {
            State::Text(extremes) => extremes.add(&rows.cells, codes, texts, reserve, wrong),
            _ => Ok(()),
        }
    }

    /// Whether it keeps texts, and takes their codes with what they stand for.
    pub(super) fn takes_texts(&self) -> bool {
        matches!(self.state, State::Text(_))
    }

    /// Bytes that it takes besides those of cells.
    pub(super) fn extra_bytes(&self) -> usize {
        match &self.state {
            State::Text(texts) => texts.size_bytes(),
            _ => 0,
        }
    }

    /// Takes another's cells in: each pair is one of the other's and the one of this that it belongs to.
    pub(super) fn merge(&mut self, other: &Self, cells: &[(u32, u32)]) {
        for (from, to) in cells.iter().map(|(from, to)| (*from as usize, *to as usize)) {
            self.counts[to] += other.counts[from];
            match (&mut self.state, &other.state) {
                (State::Sum(sums), State::Sum(more)) => sums[to] = sums[to].wrapping_add(more[from]),
                (State::WideSum(sums), State::WideSum(more)) => {
                    self.overflowed |= other.overflowed | add_wide(&mut sums[to], more[from]);
                }
                (State::FloatSum(sums), State::FloatSum(more)) => sums[to] += more[from],
                (State::Least(values), State::Least(more)) => values[to] = values[to].min(more[from]),
                (State::Greatest(values), State::Greatest(more)) => values[to] = values[to].max(more[from]),
                (State::Text(texts), State::Text(more)) => texts.merge(more, from as u32, to as u32),
                // Counts are all there is; other pairs are of different aggregates, which are not merged.
                _ => {}
            }
        }
    }

    /// Bytes that the results of so many cells take, whatever their column says of them.
    pub(super) fn finish_bytes(&self, cell_count: usize) -> usize {
        match &self.state {
            State::Text(texts) => cell_count + texts.finish_bytes(cell_count),
            // A number of up to 128 bits, and whether it is one.
            _ => cell_count * 17,
        }
    }

    /// The results of some cells, for which [`finish_bytes`](Self::finish_bytes) are reserved.
    ///
    /// # Errors
    /// A sum for an average does not fit.
    pub(super) fn finish(&self, shape: &ColumnShape, cells: &[u32]) -> Result<RowsetColumn, PipelineError> {
        if self.overflowed && !self.wraps {
            return Err(PipelineError::SumOverflow { name: shape.name.clone() });
        }
        let wide = |value: &dyn Fn(usize) -> i128| -> RowsetValues {
            let values = cells.iter().map(|cell| value(*cell as usize));
            match shape.value_type {
                ValueType::Decimal { .. } => RowsetValues::Wide(values.collect()),
                value_type => RowsetValues::of_ordinals(value_type, values.map(|value| value as i64).collect()),
            }
        };
        let has_value = |cell: usize| self.counts[cell] > 0;
        let values = match &self.state {
            State::Text(texts) => texts.finish(cells),
            State::Count => wide(&|cell| self.counts[cell].into()),
            // The bits are the unsigned number's, whose ordinal is less by the highest.
            State::Sum(sums) if shape.value_type == ValueType::UInt64 => {
                wide(&|cell| ordinal::of_unsigned(sums[cell] as u64).into())
            }
            State::Sum(sums) => wide(&|cell| sums[cell].into()),
            State::FloatSum(sums) => wide(&|cell| ordinal::of_float(sums[cell]).into()),
            State::WideSum(sums) => wide(&|cell| sums[cell]),
            State::Least(values) | State::Greatest(values) => {
                wide(&|cell| if has_value(cell) { values[cell] } else { 0 })
            }
        };
        let valid: Option<Vec<bool>> =
            shape.nullable.then(|| cells.iter().map(|cell| has_value(*cell as usize)).collect());
        let valid = valid.filter(|valid| valid.contains(&false));
        Ok(RowsetColumn { shape: shape.clone(), values, valid })
    }
}

/// The ordinal of a value, or of the float that a whole number of 32 bits stands for.
fn ordinal_of(number: i64, floats: Option<DecimalFloats>) -> i128 {
    floats.map_or(number, |floats| ordinal::of_float(floats.float(number as i32))).into()
}

/// Adds to a sum modulo 2^128. Whether it wrapped around.
#[inline(always)]
fn add_wide(sum: &mut i128, number: i128) -> bool {
    let overflowed;
    (*sum, overflowed) = sum.overflowing_add(number);
    overflowed
}

/// The sum of floats by their ordinals: of every eighth one, and then of these sums.
fn sum_of_floats(ordinals: &[i64]) -> f64 {
    let (eights, rest) = ordinals.as_chunks::<8>();
    let mut sums = [0.0; 8];
    for eight in eights {
        for (sum, ordinal) in sums.iter_mut().zip(eight) {
            *sum += ordinal::to_float(*ordinal);
        }
    }
    rest.iter().map(|ordinal| ordinal::to_float(*ordinal)).sum::<f64>() + sums.iter().sum::<f64>()
}

/// Gives each row's number that is not NULL to what its cell keeps.
#[inline(always)]
fn each<N: Copy, T>(
    kept: &mut [T],
    (cells, numbers, valid): (&[u32], &[N], Option<&[bool]>),
    mut take: impl FnMut(&mut T, N),
) {
    match valid {
        None => {
            for (cell, number) in cells.iter().zip(numbers) {
                take(&mut kept[*cell as usize], *number);
            }
        }
        Some(valid) => {
            for ((cell, number), valid) in cells.iter().zip(numbers).zip(valid) {
                if *valid {
                    take(&mut kept[*cell as usize], *number);
                }
            }
        }
    }
}

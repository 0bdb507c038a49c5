//! Whether two answers are the same: as multisets of rows, whose floating point values may differ by rounding.
//!
//! A row is a text of its exact values and a list of its floating point ones, those inside lists and structs too. Rows
//! of the same text are told apart by their numbers: sorted by the first, they are cut where one is not close to the
//! one before; each part is cut by the second, and so on. What is not cut apart counts as equal, so that two rows whose
//! first numbers were rounded to the other order are compared with their own counterparts.

use std::collections::BTreeMap;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, OffsetSizeTrait};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Float64Type};
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};

use super::determined::Determined;

/// What may lie between two values that are a sum in another order, as a part of the greater: summands of some sixteen
/// digits, millions of them.
const ROUNDING: f64 = 1e-9;

/// The same for values that were rounded to 32 bits, of which the last may differ.
const ROUNDING_32: f64 = 1e-6;

/// The same for values that were rounded to 16 bits.
const ROUNDING_16: f64 = 1e-2;

/// What may lie between two sums whose summands cancel each other, whatever is left.
const CANCELLED: f64 = 1e-9;

/// A floating point value, and by what part of itself it may differ.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Number {
    value: f64,
    rounding: f64,
}

/// A row as the text of its exact values and its floating point values.
#[derive(Debug, Clone, Default)]
struct ComparableRow {
    text: String,
    numbers: Vec<Number>,
}

/// How close numbers have to be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Closeness {
    /// What may lie between two values whatever they are.
    absolute: f64,
}

impl Closeness {
    /// For answers of a query that sums, or does not.
    pub(super) fn new(sums: bool) -> Self {
        Self { absolute: if sums { CANCELLED } else { 0.0 } }
    }

    fn close(self, left: Number, right: Number) -> bool {
        let (rounding, left, right) = (left.rounding, left.value, right.value);
        if left.is_nan() || right.is_nan() {
            return left.is_nan() && right.is_nan();
        }
        if left.is_infinite() || right.is_infinite() {
            return left == right;
        }
        (left - right).abs() <= self.absolute.max(rounding * left.abs().max(right.abs()))
    }

    fn same(self, left: &ComparableRow, right: &ComparableRow) -> bool {
        // Rows of one text have as many numbers.
        left.text == right.text
            && left.numbers.iter().zip(&right.numbers).all(|(left, right)| self.close(*left, *right))
    }
}

/// The first difference between two answers, or between what is determined of them.
///
/// # Errors
/// Arrow cannot show a value.
pub(super) fn difference(
    determined: &Determined,
    closeness: Closeness,
    cached: &[RecordBatch],
    plain: &[RecordBatch],
) -> Result<Option<String>, ArrowError> {
    let (cached_rows, plain_rows) = (comparable(cached)?, comparable(plain)?);
    let Determined::SortedBy(columns) = determined else {
        return Ok(first_differing(closeness, cached_rows, plain_rows));
    };
    let keys = |batches: &[RecordBatch]| {
        let projected: Vec<RecordBatch> =
            batches.iter().map(|batch| batch.project(columns)).collect::<Result<_, _>>()?;
        comparable(&projected)
    };
    let (cached_keys, plain_keys) = (keys(cached)?, keys(plain)?);
    let cached_rows = between_the_ends(closeness, cached_rows, &cached_keys);
    let plain_rows = between_the_ends(closeness, plain_rows, &plain_keys);
    let keys_differ = first_differing(closeness, cached_keys, plain_keys);
    Ok(keys_differ.or_else(|| first_differing(closeness, cached_rows, plain_rows)))
}

/// The rows whose keys tie neither with those of the first row nor with those of the last one.
fn between_the_ends(closeness: Closeness, rows: Vec<ComparableRow>, keys: &[ComparableRow]) -> Vec<ComparableRow> {
    let (Some(first), Some(last)) = (keys.first(), keys.last()) else { return rows };
    let is_between = |key: &ComparableRow| !closeness.same(key, first) && !closeness.same(key, last);
    rows.into_iter().zip(keys).filter(|(_, key)| is_between(key)).map(|(row, _)| row).collect()
}

/// A row's numbers, and whether it is of the answer with caches.
type Candidate = (Vec<Number>, bool);

fn first_differing(closeness: Closeness, cached: Vec<ComparableRow>, plain: Vec<ComparableRow>) -> Option<String> {
    if cached.len() != plain.len() {
        return Some(format!("{} rows against {}", cached.len(), plain.len()));
    }
    let mut by_text: BTreeMap<String, Vec<Candidate>> = BTreeMap::new();
    for (rows, is_cached) in [(cached, true), (plain, false)] {
        for row in rows {
            by_text.entry(row.text).or_default().push((row.numbers, is_cached));
        }
    }
    // As many rows of either kind, so that if one has no counterpart, one of the other kind has none.
    let (mut only_cached, mut only_plain) = (None, None);
    for (text, candidates) in &mut by_text {
        match_up(closeness, candidates, &mut |numbers, is_cached| {
            let only = if is_cached { &mut only_cached } else { &mut only_plain };
            if only.is_none() {
                let values: Vec<f64> = numbers.iter().map(|number| number.value).collect();
                *only = Some(format!("({text} {values:?})"));
            }
        });
        if only_cached.is_some() && only_plain.is_some() {
            break;
        }
    }
    Some(format!("{} against {}", only_cached?, only_plain?))
}

/// Tells `lone` of one row of each part of the candidates that has more rows of one answer than of the other.
fn match_up(closeness: Closeness, candidates: &mut [Candidate], lone: &mut impl FnMut(&[Number], bool)) {
    let mut parts = vec![(candidates, 0)];
    while let Some((part, place)) = parts.pop() {
        let cached_count = part.iter().filter(|(_, is_cached)| *is_cached).count();
        let plain_count = part.len() - cached_count;
        let is_last = part.first().is_none_or(|(numbers, _)| numbers.len() == place);
        if is_last || cached_count == 0 || plain_count == 0 {
            let more_are_cached = cached_count > plain_count;
            let mut more = part.iter().filter(|(_, is_cached)| *is_cached == more_are_cached);
            if cached_count != plain_count
                && let Some((numbers, is_cached)) = more.next()
            {
                lone(numbers, *is_cached);
            }
            continue;
        }
        // NaNs of either sign stand together, at the end.
        let key =
            |(numbers, _): &Candidate| if numbers[place].value.is_nan() { f64::NAN } else { numbers[place].value };
        part.sort_by(|left, right| key(left).total_cmp(&key(right)));
        let is_close = |left: &Candidate, right: &Candidate| closeness.close(left.0[place], right.0[place]);
        parts.extend(part.chunk_by_mut(is_close).map(|part| (part, place + 1)));
    }
}

fn comparable(batches: &[RecordBatch]) -> Result<Vec<ComparableRow>, ArrowError> {
    let mut rows = Vec::new();
    for batch in batches {
        let first = rows.len();
        rows.resize(first + batch.num_rows(), ComparableRow::default());
        for column in batch.columns() {
            let column = Column::of(column.as_ref())?;
            for (index, row) in rows[first..].iter_mut().enumerate() {
                column.add(index, row);
            }
        }
    }
    Ok(rows)
}

/// Where the elements of each list begin and end.
fn ends<O: OffsetSizeTrait>(offsets: &OffsetBuffer<O>) -> Vec<usize> {
    offsets.iter().map(|offset| offset.as_usize()).collect()
}

/// The values of a column, or of what is inside one.
struct Column<'a> {
    nulls: Option<NullBuffer>,
    values: Values<'a>,
}

enum Values<'a> {
    Numbers {
        values: ArrayRef,
        rounding: f64,
    },
    Fields(Vec<Column<'a>>),
    /// Where the elements of each list begin and end.
    Lists(Vec<usize>, Box<Column<'a>>),
    Texts(ArrayFormatter<'a>),
}

impl<'a> Column<'a> {
    fn of(array: &'a dyn Array) -> Result<Self, ArrowError> {
        const OPTIONS: FormatOptions<'_> = FormatOptions::new();
        let numbers = |rounding| Ok(Values::Numbers { values: cast(array, &DataType::Float64)?, rounding });
        let lists = |ends, elements: &'a dyn Array| Ok(Values::Lists(ends, Box::new(Self::of(elements)?)));
        let values: Result<_, ArrowError> = match array.data_type() {
            DataType::Float64 => numbers(ROUNDING),
            DataType::Float32 => numbers(ROUNDING_32),
            DataType::Float16 => numbers(ROUNDING_16),
            DataType::Struct(_) => {
                let fields = array.as_struct().columns().iter().map(|field| Self::of(field.as_ref()));
                fields.collect::<Result<_, _>>().map(Values::Fields)
            }
            DataType::List(_) => lists(ends(array.as_list::<i32>().offsets()), array.as_list::<i32>().values()),
            DataType::LargeList(_) => lists(ends(array.as_list::<i64>().offsets()), array.as_list::<i64>().values()),
            DataType::Map(_, _) => lists(ends(array.as_map().offsets()), array.as_map().entries()),
            DataType::FixedSizeList(_, size) => {
                let ends = (0..=array.len()).map(|index| index * *size as usize).collect();
                lists(ends, array.as_fixed_size_list().values())
            }
            _ => Ok(Values::Texts(ArrayFormatter::try_new(array, &OPTIONS)?)),
        };
        Ok(Self { nulls: array.logical_nulls(), values: values? })
    }

    /// Adds a value to its row. Texts are quoted, so that none can look like NULL or reach into the next value.
    fn add(&self, index: usize, row: &mut ComparableRow) {
        if self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(index)) {
            row.text.push_str("NULL, ");
            return;
        }
        match &self.values {
            Values::Numbers { values, rounding } => {
                let value = values.as_primitive::<Float64Type>().value(index);
                row.numbers.push(Number { value, rounding: *rounding });
                row.text.push_str("~, ");
            }
            Values::Fields(fields) => {
                row.text.push_str("{ ");
                fields.iter().for_each(|field| field.add(index, row));
                row.text.push_str("}, ");
            }
            Values::Lists(ends, elements) => {
                row.text.push_str("[ ");
                (ends[index]..ends[index + 1]).for_each(|element| elements.add(element, row));
                row.text.push_str("], ");
            }
            Values::Texts(texts) => row.text.push_str(&format!("{:?}, ", texts.value(index).to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use datafusion::arrow::array::{Float32Array, Float64Array, Int64Array, ListArray, StringArray, StructArray};
    use datafusion::arrow::datatypes::{Field, Int64Type};

    use super::*;

    fn batch(ids: Vec<i64>, sums: Vec<Option<f64>>) -> RecordBatch {
        RecordBatch::try_from_iter([
            ("id", Arc::new(Int64Array::from(ids)) as _),
            ("sum", Arc::new(Float64Array::from(sums)) as _),
        ])
        .unwrap()
    }

    fn columns<const N: usize>(columns: [ArrayRef; N]) -> RecordBatch {
        RecordBatch::try_from_iter(columns.into_iter().enumerate().map(|(index, column)| (index.to_string(), column)))
            .unwrap()
    }

    fn floats(values: &[f64]) -> ArrayRef {
        Arc::new(Float64Array::from(values.to_vec()))
    }

    fn texts(values: &[Option<&str>]) -> ArrayRef {
        Arc::new(StringArray::from(values.to_vec()))
    }

    fn found(determined: &Determined, sums: bool, left: &RecordBatch, right: &RecordBatch) -> Option<String> {
        difference(determined, Closeness::new(sums), std::slice::from_ref(left), std::slice::from_ref(right)).unwrap()
    }

    fn differ(left: &RecordBatch, right: &RecordBatch) -> bool {
        let found_either_way =
            [(left, right), (right, left)].map(|(left, right)| found(&Determined::Rows, false, left, right));
        assert_eq!(found_either_way[0].is_some(), found_either_way[1].is_some(), "{found_either_way:?}");
        found_either_way[0].is_some()
    }

    #[test]
    fn order_and_rounding_do_not_count_as_a_difference() {
        let left = batch(vec![1, 2], vec![Some(0.1 + 0.2), None]);
        let right = batch(vec![2, 1], vec![None, Some(0.3)]);
        assert!(!differ(&left, &right));
    }

    #[test]
    fn another_value_count_or_null_is_a_difference() {
        let left = batch(vec![1, 2], vec![Some(0.3), None]);
        for right in [
            batch(vec![1, 3], vec![Some(0.3), None]),
            batch(vec![1, 2], vec![Some(0.3001), None]),
            batch(vec![1, 2], vec![Some(0.3), Some(0.0)]),
            batch(vec![1], vec![Some(0.3)]),
        ] {
            assert!(differ(&left, &right));
        }
        assert!(differ(&batch(vec![1, 1, 2], vec![None; 3]), &batch(vec![1, 2, 2], vec![None; 3])));
    }

    #[test]
    fn rows_that_tie_with_the_last_may_be_others_where_only_the_keys_are_determined() {
        let sorted_by_sum = Determined::SortedBy(vec![1]);
        let left = batch(vec![1, 2, 3], vec![Some(0.1), Some(0.2), Some(0.3)]);
        let others = |ids, sums| found(&sorted_by_sum, false, &left, &batch(ids, sums));
        assert_eq!(others(vec![1, 2, 4], vec![Some(0.1), Some(0.2), Some(0.1 + 0.2)]), None);
        assert!(others(vec![1, 4, 3], vec![Some(0.1), Some(0.2), Some(0.3)]).is_some());
        assert!(others(vec![1, 2, 3], vec![Some(0.1), Some(0.2), Some(0.4)]).is_some());
    }

    #[test]
    fn rows_that_rounding_sorts_otherwise_are_compared_with_their_own_counterparts() {
        let left = columns([floats(&[0.1 + 0.2, 0.3]), floats(&[1.0, 2.0])]);
        assert!(!differ(&left, &columns([floats(&[0.3, 0.1 + 0.2]), floats(&[1.0, 2.0])])));
        assert!(differ(&left, &columns([floats(&[0.3, 0.1 + 0.2]), floats(&[1.0, 3.0])])));
        assert!(differ(&left, &columns([floats(&[0.3, 0.4]), floats(&[1.0, 2.0])])));
    }

    #[test]
    fn what_is_left_of_a_sum_that_cancels_may_differ_and_small_values_of_no_sum_may_not() {
        let (left, right) = (columns([floats(&[1e-13])]), columns([floats(&[0.0])]));
        assert_eq!(found(&Determined::Rows, true, &left, &right), None);
        assert!(differ(&left, &right));
        assert!(found(&Determined::Rows, true, &left, &columns([floats(&[1e-6])])).is_some());
    }

    #[test]
    fn infinities_equal_themselves_alone_and_a_nan_any_other() {
        for (left, right) in
            [(f64::INFINITY, 5.0), (f64::INFINITY, f64::NEG_INFINITY), (f64::NAN, 5.0), (f64::NAN, f64::INFINITY)]
        {
            assert!(differ(&columns([floats(&[left])]), &columns([floats(&[right])])), "{left} {right}");
        }
        assert!(!differ(&columns([floats(&[f64::NAN, 1.0])]), &columns([floats(&[1.0, -f64::NAN])])));
        assert!(!differ(&columns([floats(&[f64::INFINITY])]), &columns([floats(&[f64::INFINITY])])));
    }

    #[test]
    fn texts_look_like_neither_null_nor_two_values() {
        assert!(differ(&columns([texts(&[Some("NULL")])]), &columns([texts(&[None])])));
        for (left, right) in [(["a|", "b"], ["a", "|b"]), (["a\", \"b", ""], ["a", "b\", \""])] {
            let [left, right] = [left, right].map(|row| columns(row.map(|value| texts(&[Some(value)]))));
            assert!(differ(&left, &right));
        }
        assert!(!differ(&columns([texts(&[Some("a"), None])]), &columns([texts(&[None, Some("a")])])));
    }

    #[test]
    fn numbers_inside_lists_and_structs_and_narrow_ones_may_be_rounded_otherwise_too() {
        let narrow = |value: f32| columns([Arc::new(Float32Array::from(vec![value])) as ArrayRef]);
        assert!(!differ(&narrow(0.3), &narrow(0.3_f32.next_up())));
        assert!(differ(&narrow(0.3), &narrow(0.3001)));
        let inside = |value: f64| {
            let field = Arc::new(Field::new("x", DataType::Float64, true));
            let list = ListArray::new(Arc::clone(&field), OffsetBuffer::from_lengths([1]), floats(&[value]), None);
            columns([Arc::new(list) as ArrayRef, Arc::new(StructArray::from(vec![(field, floats(&[value]))]))])
        };
        assert!(!differ(&inside(0.3), &inside(0.1 + 0.2)));
        assert!(differ(&inside(0.3), &inside(0.4)));
        let lists = |lists: Vec<Option<Vec<Option<i64>>>>| {
            columns([Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(lists)) as ArrayRef])
        };
        let left = lists(vec![Some(vec![Some(1), Some(2)]), Some(vec![]), None]);
        assert!(!differ(&left, &lists(vec![None, Some(vec![]), Some(vec![Some(1), Some(2)])])));
        assert!(differ(&left, &lists(vec![Some(vec![Some(1)]), Some(vec![Some(2)]), None])));
        assert!(differ(&left, &lists(vec![Some(vec![Some(1), Some(2)]), Some(vec![None]), None])));
    }
}

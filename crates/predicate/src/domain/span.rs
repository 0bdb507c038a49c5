//! Bounds of many values at once, by which it is seen that a domain holds none of them.
//!
//! **Owns**: finding the bounds of an array's values, and comparing them with a domain. **Does not own**: for how many
//! values together they are found, and how long they are kept.
//!
//! **Invariant**: bounds are never too narrow; they may be too wide. Texts are bounded by their first bytes.

use arrow::array::cast::AsArray;
use arrow::array::types::{Float16Type, Float32Type, Float64Type};
use arrow::array::{Array, ArrowPrimitiveType};
use arrow::compute;
use arrow::datatypes::DataType;
use thermocline_narrow::DecimalFloats;

use super::Domain;
use super::evaluate::{Integer, for_integers};
use super::shape::Shape;
use crate::interval::bound_value;
use crate::scalar::total_order_key;
use crate::{Interval, Scalar, ScalarKind};

/// Between what an array's values lie, and whether NULL is among them. See the module.
///
/// ```
/// use arrow::array::Int64Array;
/// use thermocline_predicate::{Domain, Scalar, ScalarKind, Span};
/// let span = Span::of(&Int64Array::from(vec![Some(30), None, Some(10)]), ScalarKind::Int);
/// let may_hold = |domain: Domain| span.is_some_and(|span| span.may_hold(&domain));
/// assert!(may_hold(Domain::point(Scalar::Int(20))) && may_hold(Domain::null()));
/// assert!(!may_hold(Domain::point(Scalar::Int(31))));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    kind: ScalarKind,
    /// The least key and the greatest, which are in the order of the values: integers, floats' places in totalOrder,
    /// texts' first bytes. Crossed where there is no value.
    keys: (i128, i128),
    has_null: bool,
}

impl Span {
    /// That of a column which is compared with bounds of a kind, in any of its narrow forms. `None` for truth values, and
    /// for columns that are not compared with this kind. Costs a pass over the values.
    pub fn of(array: &dyn Array, kind: ScalarKind) -> Option<Self> {
        let values: &dyn Array = array.as_any_dictionary_opt().map_or(array, |coded| coded.values());
        let keys = match kind {
            ScalarKind::Boolean => None,
            ScalarKind::Int => integer_keys(values),
            ScalarKind::Float => float_keys(values),
            ScalarKind::Utf8 => text_keys(values),
        }?;
        let has_null = array.logical_nulls().is_some_and(|nulls| nulls.null_count() > 0);
        Some(Self { kind, keys, has_null })
    }

    /// The same with NULL among the values, if `has_null`: for who keeps NULLs apart from the values.
    #[must_use]
    pub fn or_null(self, has_null: bool) -> Self {
        Self { has_null: self.has_null || has_null, ..self }
    }

    /// Whether one of the values may lie in the domain. If not, none does.
    pub fn may_hold(&self, domain: &Domain) -> bool {
        if domain.admits_null() && self.has_null {
            return true;
        }
        if self.keys == CROSSED {
            return false;
        }
        if domain.kind().is_some_and(|kind| kind != self.kind) {
            return true;
        }
        match &domain.shape {
            Shape::Nothing => false,
            Shape::Everything | Shape::Boolean(_) => true,
            Shape::Int(low, high) => self.meets(&[(*low, *high)], |range| *range),
            Shape::Ints(ranges) => self.meets(ranges, |range| *range),
            Shape::Float(low, high) => self.meets(&[(*low, *high)], float_range),
            Shape::Floats(ranges) => self.meets(ranges, float_range),
            Shape::Text | Shape::Texts => self.meets(domain.intervals(), text_range),
        }
    }

    /// Whether one of some ranges, sorted and disjoint, has a key that a value may have.
    fn meets<R>(&self, ranges: &[R], keys: impl Fn(&R) -> (i128, i128)) -> bool {
        let (least, greatest) = self.keys;
        // The first one that does not end before the values: if it begins behind them, so do all others.
        let nearest = ranges.get(ranges.partition_point(|range| keys(range).1 < least));
        nearest.is_some_and(|range| keys(range).0 <= greatest)
    }
}

/// Of no value.
const CROSSED: (i128, i128) = (i128::MAX, i128::MIN);

fn bounds(keys: impl Iterator<Item = i128>) -> (i128, i128) {
    keys.fold(CROSSED, |(least, greatest), key| (least.min(key), greatest.max(key)))
}

fn integer_keys(array: &dyn Array) -> Option<(i128, i128)> {
    fn keys<T: ArrowPrimitiveType<Native: Integer>>(array: &dyn Array) -> (i128, i128) {
        let array = array.as_primitive::<T>();
        let ends = compute::min(array).zip(compute::max(array));
        ends.map_or(CROSSED, |(least, greatest)| (least.widen(), greatest.widen()))
    }
    for_integers!(array.data_type(), keys(array))
}

fn float_keys(array: &dyn Array) -> Option<(i128, i128)> {
    let key = |value: f64| i128::from(total_order_key(value));
    // Widening as where they are compared.
    match array.data_type() {
        DataType::Float16 => {
            Some(bounds(array.as_primitive::<Float16Type>().iter().flatten().map(|value| key(value.to_f64()))))
        }
        DataType::Float32 => {
            Some(bounds(array.as_primitive::<Float32Type>().iter().flatten().map(|value| key(value.into()))))
        }
        DataType::Float64 => Some(bounds(array.as_primitive::<Float64Type>().iter().flatten().map(key))),
        form => {
            let meaning = DecimalFloats::of(form)?;
            match integer_keys(array)? {
                CROSSED => Some(CROSSED),
                (least, greatest) => {
                    let key = |number: i128| i32::try_from(number).ok().map(|number| key(meaning.float(number)));
                    key(least).zip(key(greatest))
                }
            }
        }
    }
}

fn text_keys(array: &dyn Array) -> Option<(i128, i128)> {
    match array.data_type() {
        DataType::Utf8 => Some(bounds(array.as_string::<i32>().iter().flatten().map(text_key))),
        DataType::LargeUtf8 => Some(bounds(array.as_string::<i64>().iter().flatten().map(text_key))),
        DataType::Utf8View => Some(bounds(array.as_string_view().iter().flatten().map(text_key))),
        _ => None,
    }
}

/// The first fifteen bytes, filled up with zeros: of two texts the greater one has no smaller key.
fn text_key(text: &str) -> i128 {
    let mut bytes = [0; 16];
    // The first byte stays zero, so that no key is negative.
    bytes[1..].iter_mut().zip(text.as_bytes()).for_each(|(to, from)| *to = *from);
    i128::from_be_bytes(bytes)
}

fn float_range((low, high): &(i64, i64)) -> (i128, i128) {
    (i128::from(*low), i128::from(*high))
}

fn text_range(interval: &Interval) -> (i128, i128) {
    let key = |bound| match bound_value(bound) {
        Some(Scalar::Utf8(text)) => Some(text_key(text)),
        _ => None,
    };
    (key(&interval.low).unwrap_or(i128::MIN), key(&interval.high).unwrap_or(i128::MAX))
}

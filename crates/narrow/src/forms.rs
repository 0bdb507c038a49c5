//! The forms, and the way there and back.

use std::sync::Arc;

use arrow::array::types::{
    Decimal32Type, Decimal64Type, Decimal128Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type,
    UInt16Type, UInt32Type,
};
use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use arrow::buffer::NullBuffer;
use arrow::compute;
use arrow::datatypes::DataType;
use arrow::error::ArrowError;

use crate::floats::{DecimalFloats, whole_numbers};
use crate::integers::{Integer, width};
use crate::texts;

/// Digits of a `Decimal32`, and of a `Decimal64`.
const DIGITS: (u8, u8) = (9, 18);

/// The array in the narrowest form that holds all of its values; `None` if it stays as it is, and for the types that
/// have no forms. The form has a buffer of its own, as large as it need be.
pub fn narrow(array: &dyn Array) -> Option<ArrayRef> {
    if array.is_empty() {
        return None;
    }
    match array.data_type() {
        DataType::Int16 => signed::<Int16Type>(array),
        DataType::Int32 => signed::<Int32Type>(array),
        DataType::Int64 => signed::<Int64Type>(array),
        DataType::UInt16 => unsigned::<UInt16Type>(array),
        DataType::UInt32 => unsigned::<UInt32Type>(array),
        DataType::Float64 => float(array),
        DataType::Decimal128(_, scale) => decimal(array, *scale),
        DataType::Utf8 => texts::code(array.as_string::<i32>()),
        _ => None,
    }
}

/// The array that a form of values of a type stands for; itself if it is of this type.
///
/// # Errors
/// If it is no form of it.
pub fn widen(array: &ArrayRef, data_type: &DataType) -> Result<ArrayRef, ArrowError> {
    use DataType::{Decimal32, Decimal64, Decimal128, Float64, Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, Utf8};
    match (array.data_type(), data_type) {
        (form, data_type) if form == data_type => Ok(Arc::clone(array)),
        (Int8, Int16 | Int32 | Int64) | (Int16, Int32 | Int64) | (Int32, Int64) => compute::cast(array, data_type),
        (UInt8, UInt16 | UInt32) | (UInt16, UInt32) => compute::cast(array, data_type),
        (Int8, Float64) => floats::<Int8Type>(array),
        (Int16, Float64) => floats::<Int16Type>(array),
        (Decimal32(..), Float64) => floats::<Decimal32Type>(array),
        (Decimal32(_, scale), Decimal64(_, of)) if scale == of => {
            let wide = array.as_primitive::<Decimal32Type>().unary::<_, Decimal64Type>(i64::from);
            Ok(Arc::new(wide.with_data_type(data_type.clone())))
        }
        (Decimal32(_, scale), Decimal128(_, of)) if scale == of => {
            let wide = array.as_primitive::<Decimal32Type>().unary::<_, Decimal128Type>(i128::from);
            Ok(Arc::new(wide.with_data_type(data_type.clone())))
        }
        (Decimal64(_, scale), Decimal128(_, of)) if scale == of => {
            let wide = array.as_primitive::<Decimal64Type>().unary::<_, Decimal128Type>(i128::from);
            Ok(Arc::new(wide.with_data_type(data_type.clone())))
        }
        (form, Utf8) if texts::is_coded(form) => texts::spell(array.as_any_dictionary()),
        (form, _) => Err(no_form(form, data_type)),
    }
}

/// Several arrays of values of one type, each in any of its forms or in none, one behind the other.
///
/// # Errors
/// Of no arrays; of arrays of several types; Arrow's limits.
pub fn concat(arrays: &[&ArrayRef]) -> Result<ArrayRef, ArrowError> {
    if arrays.iter().any(|array| texts::is_coded(array.data_type())) {
        return texts::concat(arrays);
    }
    let mut form = arrays.first().map_or(DataType::Null, |first| first.data_type().clone());
    for array in arrays {
        form = common(&form, array.data_type());
    }
    if arrays.iter().all(|array| *array.data_type() == form) {
        let arrays: Vec<&dyn Array> = arrays.iter().map(|array| array.as_ref()).collect();
        let joined = compute::concat(&arrays)?;
        // What was different in each may be the same in all.
        let coded = if form == DataType::Utf8 { narrow(&joined) } else { None };
        return Ok(coded.unwrap_or(joined));
    }
    let widened = arrays.iter().map(|array| widen(array, &form)).collect::<Result<Vec<_>, _>>()?;
    let widened: Vec<&dyn Array> = widened.iter().map(|array| array.as_ref()).collect();
    let joined = compute::concat(&widened)?;
    Ok(narrow(&joined).unwrap_or(joined))
}

fn no_form(form: &DataType, data_type: &DataType) -> ArrowError {
    ArrowError::CastError(format!("{form} is no narrow form of {data_type}"))
}

/// What values of two forms of one type can both be brought to.
fn common(one: &DataType, other: &DataType) -> DataType {
    use DataType::{Decimal32, Decimal64, Decimal128, Float64, Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32};
    match (one, other) {
        _ if one == other => one.clone(),
        (Decimal32(..), Decimal64(..) | Decimal128(..)) | (Decimal64(..), Decimal128(..)) => other.clone(),
        (Decimal64(..) | Decimal128(..), Decimal32(..)) | (Decimal128(..), Decimal64(..)) => one.clone(),
        // Of decimals all have the same scale.
        (Decimal32(..) | Float64, _) | (_, Decimal32(..) | Float64) => Float64,
        _ => {
            let by_width = [Int64, Int32, UInt32, Int16, UInt16, Int8, UInt8];
            by_width.into_iter().find(|wider| wider == one || wider == other).unwrap_or_else(|| one.clone())
        }
    }
}

fn array_of<T: ArrowPrimitiveType>(values: Vec<T::Native>, nulls: Option<&NullBuffer>) -> PrimitiveArray<T> {
    PrimitiveArray::new(values.into(), nulls.cloned())
}

/// Half as wide as `T`, or less.
fn signed<T: ArrowPrimitiveType<Native: Integer + Into<i64>>>(array: &dyn Array) -> Option<ArrayRef> {
    let array = array.as_primitive::<T>();
    let values = array.values();
    macro_rules! form {
        ($form:ty, $native:ty) => {{
            let short = values.iter().map(|value| (*value).into() as $native).collect();
            Arc::new(array_of::<$form>(short, array.nulls()))
        }};
    }
    Some(match width(values, 4 * size_of::<T::Native>() as u32)? {
        0..=8 => form!(Int8Type, i8),
        9..=16 => form!(Int16Type, i16),
        _ => form!(Int32Type, i32),
    })
}

fn unsigned<T: ArrowPrimitiveType<Native: Integer + Into<u32>>>(array: &dyn Array) -> Option<ArrayRef> {
    let array = array.as_primitive::<T>();
    let values = array.values();
    Some(match width(values, 4 * size_of::<T::Native>() as u32)? {
        0..=8 => {
            let short = values.iter().map(|value| (*value).into() as u8).collect();
            Arc::new(array_of::<UInt8Type>(short, array.nulls()))
        }
        _ => {
            let short = values.iter().map(|value| (*value).into() as u16).collect();
            Arc::new(array_of::<UInt16Type>(short, array.nulls()))
        }
    })
}

fn float(array: &dyn Array) -> Option<ArrayRef> {
    let array = array.as_primitive::<Float64Type>();
    let (numbers, scale) = whole_numbers(array.values())?;
    let short = if scale == 0 { width(&numbers, 16) } else { None };
    Some(match short {
        Some(0..=8) => {
            Arc::new(array_of::<Int8Type>(numbers.into_iter().map(|number| number as i8).collect(), array.nulls()))
        }
        Some(_) => {
            Arc::new(array_of::<Int16Type>(numbers.into_iter().map(|number| number as i16).collect(), array.nulls()))
        }
        None => {
            let decimals = array_of::<Decimal32Type>(numbers, array.nulls());
            Arc::new(decimals.with_data_type(DataType::Decimal32(DIGITS.0, scale as i8)))
        }
    })
}

/// The floats that whole numbers stand for.
fn floats<T: ArrowPrimitiveType<Native: Into<i32>>>(array: &dyn Array) -> Result<ArrayRef, ArrowError> {
    let form = array.data_type();
    let meaning = DecimalFloats::of(form).ok_or_else(|| no_form(form, &DataType::Float64))?;
    Ok(Arc::new(array.as_primitive::<T>().unary::<_, Float64Type>(|number| meaning.float(number.into()))))
}

fn decimal(array: &dyn Array, scale: i8) -> Option<ArrayRef> {
    let array = array.as_primitive::<Decimal128Type>();
    let values = array.values();
    let fits = |digits: u8| {
        let greatest = 10i128.pow(digits.into()) - 1;
        (0..=digits as i8).contains(&scale) && values.iter().all(|value| (-greatest..=greatest).contains(value))
    };
    if fits(DIGITS.0) {
        let decimals = array_of::<Decimal32Type>(values.iter().map(|value| *value as i32).collect(), array.nulls());
        return Some(Arc::new(decimals.with_data_type(DataType::Decimal32(DIGITS.0, scale))));
    }
    if fits(DIGITS.1) {
        let decimals = array_of::<Decimal64Type>(values.iter().map(|value| *value as i64).collect(), array.nulls());
        return Some(Arc::new(decimals.with_data_type(DataType::Decimal64(DIGITS.1, scale))));
    }
    None
}

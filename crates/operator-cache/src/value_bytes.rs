//! What the values of a column take, one by one: what it will take to repeat some of them.

use arrow::array::{AnyDictionaryArray, Array, ArrayRef, AsArray, StringArray};
use arrow::datatypes::DataType;

/// Adds what the column's values take, one by one; of texts that are codes the codes.
pub(crate) fn add_value_bytes(column: &ArrayRef, bytes: &mut [u64]) {
    match column.data_type() {
        DataType::Utf8 => {
            let offsets = column.as_string::<i32>().offsets().lengths();
            bytes.iter_mut().zip(offsets).for_each(|(bytes, length)| *bytes += (length + size_of::<i32>()) as u64);
        }
        DataType::Struct(_) => column.as_struct().columns().iter().for_each(|child| add_value_bytes(child, bytes)),
        DataType::List(_) => {
            let offsets = column.as_list::<i32>().offsets();
            let (first, end) = (offsets[0] as usize, offsets[offsets.len() - 1] as usize);
            let values = column.as_list::<i32>().values().slice(first, end - first);
            let mut of_values = vec![0; values.len()];
            add_value_bytes(&values, &mut of_values);
            let mut of_values = of_values.into_iter();
            for (bytes, length) in bytes.iter_mut().zip(offsets.lengths()) {
                *bytes += of_values.by_ref().take(length).sum::<u64>() + size_of::<i32>() as u64;
            }
        }
        DataType::Dictionary(key, _) => {
            let width = key.primitive_width().unwrap_or(1) as u64;
            bytes.iter_mut().for_each(|bytes| *bytes += width);
        }
        // What has no width of its own is a bit.
        other => {
            let width = other.primitive_width().unwrap_or(1) as u64;
            bytes.iter_mut().for_each(|bytes| *bytes += width);
        }
    }
}

/// Adds what the texts take that the codes of a column stand for.
pub(crate) fn add_spelt_bytes(column: &ArrayRef, bytes: &mut [u64]) {
    let Some((coded, texts)) = coded_texts(column) else { return };
    for (bytes, code) in bytes.iter_mut().zip(coded.normalized_keys()) {
        *bytes += texts.value_length(code) as u64 + size_of::<i32>() as u64;
    }
}

fn coded_texts(column: &ArrayRef) -> Option<(&dyn AnyDictionaryArray, &StringArray)> {
    let coded = column.as_any_dictionary_opt()?;
    Some((coded, coded.values().as_string_opt().filter(|texts| !texts.is_empty())?))
}

//! The different values of a chunk, in as few bytes as they need.
//!
//! **Concurrency**: plain values, shared.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, DictionaryArray, PrimitiveArray, StringArray};
use arrow::compute::take;
use arrow::datatypes::{ArrowDictionaryKeyType, ArrowNativeType, DataType, UInt16Type, UInt32Type};
use bytes::Bytes;

use crate::ChunkError;
use crate::hybrid::Code;
use crate::kind::{Kind, Stored};
use crate::plain::{Plain, Values};

/// Rows that each value of a dictionary must have for it to be handed on, on average: whoever gets it goes through it
/// once for every slice.
const FEWEST_ROWS_OF_ENTRY: usize = 4;

/// See the module.
#[derive(Debug)]
pub(crate) struct Dictionary {
    /// Of a form that takes few bytes.
    values: ArrayRef,
}

impl Dictionary {
    /// The dictionary of `count` values in `bytes`.
    pub(crate) fn read(kind: &Kind, bytes: Bytes, count: usize) -> Result<Self, ChunkError> {
        // Whatever the header says.
        if count > kind.stored.most_values(bytes.len()) {
            return Err(ChunkError::damaged(format!("a dictionary of {count} values in {} bytes", bytes.len())));
        }
        let mut values = Values::new(kind, count);
        Plain::new(kind.stored, bytes).read(count, count, None, &mut values)?;
        let values = values.into_array(kind, None)?;
        // Floats are looked up faster than they are divided.
        let may_be_narrow = !values.data_type().is_floating() && kind.stored != Stored::Texts;
        let narrow = if may_be_narrow { thermocline_narrow::narrow(&values) } else { None };
        Ok(Self { values: narrow.unwrap_or(values) })
    }

    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }

    /// Memory that it takes.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.values.get_array_memory_size()
    }

    /// The values of these codes: with the dictionary if they are texts, or if that is short and its values are cheap to
    /// look up; otherwise as they are.
    pub(crate) fn array_of<K: ArrowDictionaryKeyType<Native: Code>>(
        &self,
        codes: PrimitiveArray<K>,
        is_text: bool,
    ) -> Result<ArrayRef, ChunkError> {
        self.check(&codes)?;
        let is_short = self.values.len() <= codes.len() / FEWEST_ROWS_OF_ENTRY;
        let is_wide = matches!(self.values.data_type(), DataType::Decimal128(..));
        if !is_text && (is_wide || !is_short) {
            return Ok(take(&self.values, &codes, None)?);
        }
        // SAFETY: the codes that are not NULL are less than there are values, as was just checked.
        #[allow(unsafe_code, reason = "codes are checked here faster than where the array is made")]
        Ok(Arc::new(unsafe { DictionaryArray::new_unchecked(codes, Arc::clone(&self.values)) }))
    }

    /// Whether there is a value for each code.
    fn check<K: ArrowDictionaryKeyType<Native: Code>>(&self, codes: &PrimitiveArray<K>) -> Result<(), ChunkError> {
        let last = K::Native::of(self.values.len().saturating_sub(1) as u64);
        // Unlike a maximum, this takes one instruction for some values at a time whatever the processor.
        let beyond = codes.values().iter().fold(K::Native::default(), |beyond, code| beyond | code.beyond(last));
        if codes.null_count() == codes.len() || beyond == K::Native::default() && !self.values.is_empty() {
            return Ok(());
        }
        let known = self.values.len();
        Err(ChunkError::damaged(format!("a code of a dictionary of {known} values that it does not have")))
    }
}

/// The same values without a dictionary.
pub(crate) fn spelt_out(array: ArrayRef) -> Result<ArrayRef, ChunkError> {
    let Some(coded) = array.as_any_dictionary_opt() else { return Ok(array) };
    Ok(take(coded.values(), coded.keys(), None)?)
}

/// Bytes of the texts that [`spelt_out`] makes of codes; 0 of what has none.
pub(crate) fn spelt_text_bytes(array: &ArrayRef) -> usize {
    let Some(coded) = array.as_any_dictionary_opt() else { return 0 };
    let Some(texts) = coded.values().as_string_opt::<i32>() else { return 0 };
    match coded.keys().data_type() {
        DataType::UInt16 => text_bytes(texts, coded.keys().as_primitive::<UInt16Type>()),
        _ => text_bytes(texts, coded.keys().as_primitive::<UInt32Type>()),
    }
}

fn text_bytes<K: ArrowDictionaryKeyType>(texts: &StringArray, codes: &PrimitiveArray<K>) -> usize {
    let length = |code: K::Native| texts.value_length(code.as_usize()) as usize;
    codes.iter().flatten().map(length).sum()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_dictionary_has_no_more_values_than_its_bytes_have_room_for() {
        for (data_type, stored, most) in [
            (DataType::Int32, Stored::Int32, 20),
            (DataType::Float64, Stored::Double, 10),
            (DataType::Decimal128(38, 0), Stored::Fixed(16), 5),
            (DataType::Utf8, Stored::Texts, 20),
        ] {
            let kind = Kind { data_type, stored, has_levels: false };
            let read = |count| Dictionary::read(&kind, vec![0; 80].into(), count);
            assert_eq!(read(most).unwrap().len(), most, "{stored:?}");
            let error = read(most + 1).unwrap_err().to_string();
            assert_eq!(error, format!("a dictionary of {} values in 80 bytes", most + 1), "{stored:?}");
        }
    }
}

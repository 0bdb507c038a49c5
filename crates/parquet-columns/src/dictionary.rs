//! The different values of a chunk, in as few bytes as they need.
//!
//! **Concurrency**: plain values, shared.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, DictionaryArray, PrimitiveArray, StringArray};
use arrow::compute::take;
use arrow::datatypes::{ArrowDictionaryKeyType, ArrowNativeType};
use bytes::Bytes;

use crate::ChunkError;
use crate::kind::Kind;
use crate::plain::{Plain, Values};

/// See the module.
#[derive(Debug)]
pub(crate) struct Dictionary {
    /// Of a form that takes few bytes.
    values: ArrayRef,
}

impl Dictionary {
    /// The dictionary of `count` values in `bytes`.
    pub(crate) fn read(kind: &Kind, bytes: Bytes, count: usize) -> Result<Self, ChunkError> {
        // Whatever the header says, no value is shorter than a bit.
        if count > bytes.len().saturating_mul(8) {
            return Err(ChunkError::damaged(format!("a dictionary of {count} values in {} bytes", bytes.len())));
        }
        let mut values = Values::new(kind, count);
        Plain::new(kind.stored, bytes).read(count, count, None, &mut values)?;
        let values = values.into_array(kind, None)?;
        // Floats are looked up faster than they are divided.
        let narrow = if values.data_type().is_floating() { None } else { thermocline_narrow::narrow(&values) };
        Ok(Self { values: narrow.unwrap_or(values) })
    }

    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }

    /// The values of these codes.
    pub(crate) fn values_of<K: ArrowDictionaryKeyType<Native: Ord>>(
        &self,
        codes: PrimitiveArray<K>,
    ) -> Result<ArrayRef, ChunkError> {
        let codes = self.checked(codes)?;
        Ok(take(&self.values, &codes, None)?)
    }

    /// The texts of these codes, with the dictionary.
    pub(crate) fn texts_of<K: ArrowDictionaryKeyType<Native: Ord>>(
        &self,
        codes: PrimitiveArray<K>,
    ) -> Result<ArrayRef, ChunkError> {
        let codes = self.checked(codes)?;
        Ok(Arc::new(DictionaryArray::try_new(codes, Arc::clone(&self.values))?))
    }

    /// Codes that there are.
    fn checked<K: ArrowDictionaryKeyType<Native: Ord>>(
        &self,
        codes: PrimitiveArray<K>,
    ) -> Result<PrimitiveArray<K>, ChunkError> {
        let greatest = codes.values().iter().copied().fold(K::Native::default(), Ord::max).as_usize();
        match greatest < self.values.len() || codes.null_count() == codes.len() {
            true => Ok(codes),
            false => {
                let known = self.values.len();
                Err(ChunkError::damaged(format!("the code {greatest} of a dictionary of {known} values")))
            }
        }
    }
}

/// The same texts spelt out.
pub(crate) fn spelt_out(array: ArrayRef) -> Result<ArrayRef, ChunkError> {
    let Some(coded) = array.as_any_dictionary_opt() else { return Ok(array) };
    let texts: &StringArray = coded.values().as_string();
    Ok(take(texts, coded.keys(), None)?)
}

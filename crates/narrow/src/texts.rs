//! Texts that come again and again, as codes of a dictionary.
//!
//! **Invariants**: a dictionary names each text once, and none of them is NULL, so NULLs are those of the codes. It has
//! one text at least as it is made; Arrow makes an empty one of no rows. Texts are short: who spells out
//! some codes needs no more memory than [`MOST_TEXT_BYTES`] for each.
//!
//! **Concurrency**: plain functions.

use std::sync::Arc;

use ahash::RandomState;
use arrow::array::{
    AnyDictionaryArray, Array, ArrayRef, AsArray, BooleanBufferBuilder, DictionaryArray, PrimitiveArray, StringArray,
};
use arrow::buffer::{Buffer, NullBuffer, OffsetBuffer};
use arrow::compute;
use arrow::datatypes::{ArrowDictionaryKeyType, DataType, UInt8Type, UInt16Type, UInt32Type};
use arrow::error::ArrowError;
use hashbrown::HashTable;

/// Longer texts seldom come again, and are not worth comparing.
pub const MOST_TEXT_BYTES: usize = 256;

/// Of fewer values the dictionary takes more than it spares.
const FEWEST_VALUES: usize = 64;

/// Texts that may all be different before it is given up that they come again.
const SAMPLED_VALUES: usize = 1024;

/// Bytes of the arrays and buffers around a dictionary.
const STRUCTURE_BYTES: usize = 256;

/// The texts as codes, if that takes at most three quarters of their memory.
pub(crate) fn code(texts: &StringArray) -> Option<ArrayRef> {
    let count = texts.len();
    let offsets = texts.value_offsets();
    let text_bytes = (offsets[count] - offsets[0]) as usize;
    if count < FEWEST_VALUES || text_bytes > count * MOST_TEXT_BYTES || texts.null_count() == count {
        return None;
    }
    let mut coder = Coder::with_capacity(count);
    for row in 0..count {
        if texts.is_null(row) {
            coder.codes.push(0);
            continue;
        }
        let text = texts.value(row).as_bytes();
        // Half of them may be different, and of the first ones all.
        if text.len() > MOST_TEXT_BYTES || coder.text_count() > (count / 2).min(SAMPLED_VALUES + row / 2) {
            return None;
        }
        let code = coder.code(text);
        coder.codes.push(code);
    }
    let plain_bytes = text_bytes + count * size_of::<i32>();
    if coder.size_bytes() > plain_bytes / 4 * 3 {
        return None;
    }
    coder.finish(texts.nulls().filter(|nulls| nulls.null_count() > 0).cloned()).ok()
}

/// What codes stand for, if they are codes of texts.
///
/// # Errors
/// Texts of 2 GiB together.
pub(crate) fn spell(coded: &dyn AnyDictionaryArray) -> Result<ArrayRef, ArrowError> {
    let keys = coded.keys();
    // Of few keys most texts may be others'.
    let texts = coded.values().as_string_opt::<i32>().filter(|texts| texts.len() <= keys.len());
    let short = texts.and_then(ShortTexts::of);
    let spelt = match (short, keys.data_type()) {
        // Keys of NULLs say nothing.
        (Some(_), _) if keys.null_count() > 0 => None,
        (Some(short), DataType::UInt8) => short.spell(keys.as_primitive::<UInt8Type>().values()),
        (Some(short), DataType::UInt16) => short.spell(keys.as_primitive::<UInt16Type>().values()),
        (Some(short), DataType::UInt32) => short.spell(keys.as_primitive::<UInt32Type>().values()),
        _ => None,
    };
    match spelt {
        Some((bytes, ends)) => Ok(Arc::new(StringArray::try_new(OffsetBuffer::new(ends.into()), bytes.into(), None)?)),
        None => compute::take(coded.values().as_ref(), keys, None),
    }
}

/// Bytes that are copied at once, whatever the text's length.
const COPIED_BYTES: usize = 16;

/// A dictionary of texts that are copied by so many whole steps: the bytes behind a text are overwritten by the next.
struct ShortTexts {
    /// With room behind the last text for a step that begins in it.
    bytes: Vec<u8>,
    /// Where each text begins, and its length.
    places: Vec<(u32, u32)>,
    steps: usize,
}

impl ShortTexts {
    /// Longer ones are copied as well by their length.
    const MOST_STEPS: usize = 2;

    fn of(texts: &StringArray) -> Option<Self> {
        let offsets = texts.value_offsets();
        let places: Vec<(u32, u32)> =
            offsets.windows(2).map(|ends| ((ends[0] - offsets[0]) as u32, (ends[1] - ends[0]) as u32)).collect();
        let longest = places.iter().map(|(_, length)| *length as usize).max()?;
        let steps = longest.div_ceil(COPIED_BYTES).max(1);
        if steps > Self::MOST_STEPS {
            return None;
        }
        let mut bytes = texts.value_data()[offsets[0] as usize..offsets[offsets.len() - 1] as usize].to_vec();
        bytes.resize(bytes.len() + steps * COPIED_BYTES, 0);
        Some(Self { bytes, places, steps })
    }

    /// The texts of some keys one behind the other, and where each ends, from 0 on; none of 2 GiB and more.
    fn spell<K: Copy + Into<u32>>(&self, keys: &[K]) -> Option<(Vec<u8>, Vec<i32>)> {
        let length = |key: &K| self.places[(*key).into() as usize].1 as usize;
        let all_bytes: usize = keys.iter().map(length).sum();
        i32::try_from(all_bytes).ok()?;
        let mut bytes = vec![0; all_bytes + self.steps * COPIED_BYTES];
        let mut ends = Vec::with_capacity(keys.len() + 1);
        ends.push(0);
        let mut end = 0;
        for key in keys {
            let (from, length) = self.places[(*key).into() as usize];
            for step in 0..self.steps {
                let (from, to) = (from as usize + step * COPIED_BYTES, end + step * COPIED_BYTES);
                bytes[to..to + COPIED_BYTES].copy_from_slice(&self.bytes[from..from + COPIED_BYTES]);
            }
            end += length as usize;
            ends.push(end as i32);
        }
        bytes.truncate(all_bytes);
        Some((bytes, ends))
    }
}

/// Arrays of texts, spelt out or as codes, one behind the other: as codes if that takes at most three quarters of the
/// memory, and no text is too long.
///
/// # Errors
/// Arrays of other types; Arrow's limits.
pub(crate) fn concat(arrays: &[&ArrayRef]) -> Result<ArrayRef, ArrowError> {
    let count = arrays.iter().map(|array| array.len()).sum();
    let mut coder = Coder::with_capacity(count);
    let mut valid = BooleanBufferBuilder::new(count);
    let mut plain_bytes = 0;
    for array in arrays {
        match array.nulls() {
            Some(nulls) => valid.append_buffer(nulls.inner()),
            None => valid.append_n(array.len(), true),
        }
        plain_bytes += match array.as_any_dictionary_opt() {
            Some(coded) => coder.append_codes(coded)?,
            None => coder.append_texts(array)?,
        };
    }
    let is_short = coder.ends.windows(2).all(|ends| (ends[1] - ends[0]) as usize <= MOST_TEXT_BYTES);
    if !is_short || coder.size_bytes() > (plain_bytes + count * size_of::<i32>()) / 4 * 3 {
        let spelt = arrays.iter().map(|array| match array.as_any_dictionary_opt() {
            Some(coded) => spell(coded),
            None => Ok(Arc::clone(array)),
        });
        let spelt = spelt.collect::<Result<Vec<_>, _>>()?;
        return compute::concat(&spelt.iter().map(|array| array.as_ref()).collect::<Vec<_>>());
    }
    let nulls = NullBuffer::new(valid.finish());
    coder.finish(Some(nulls).filter(|nulls| nulls.null_count() > 0))
}

/// Whether an array is codes of texts.
pub(crate) fn is_coded(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Dictionary(_, values) if **values == DataType::Utf8)
}

/// An array of such keys, with the dictionary of another one, which may have been left without texts because none of its
/// keys was taken: then the keys are those of an empty text.
///
/// # Errors
/// Keys of another type than those of dictionaries of texts, or beyond the dictionary.
pub fn with_dictionary(keys: &ArrayRef, dictionary: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let one: ArrayRef;
    let dictionary = if dictionary.is_empty() {
        one = Arc::new(StringArray::from(vec![""]));
        &one
    } else {
        dictionary
    };
    fn of<K: ArrowDictionaryKeyType>(keys: &ArrayRef, dictionary: &ArrayRef) -> Result<ArrayRef, ArrowError> {
        Ok(Arc::new(DictionaryArray::try_new(keys.as_primitive::<K>().clone(), Arc::clone(dictionary))?))
    }
    match keys.data_type() {
        DataType::UInt8 => of::<UInt8Type>(keys, dictionary),
        DataType::UInt16 => of::<UInt16Type>(keys, dictionary),
        DataType::UInt32 => of::<UInt32Type>(keys, dictionary),
        other => Err(ArrowError::InvalidArgumentError(format!("{other} for the keys of a dictionary of texts"))),
    }
}

/// Texts on their way to codes.
struct Coder {
    hasher: RandomState,
    /// Of each text its code.
    numbers: HashTable<u32>,
    codes: Vec<u32>,
    bytes: Vec<u8>,
    ends: Vec<i32>,
}

impl Coder {
    fn with_capacity(count: usize) -> Self {
        Self {
            hasher: RandomState::new(),
            numbers: HashTable::new(),
            codes: Vec::with_capacity(count),
            bytes: Vec::new(),
            ends: vec![0],
        }
    }

    fn text_count(&self) -> usize {
        self.ends.len() - 1
    }

    /// What the codes take, and their dictionary.
    fn size_bytes(&self) -> usize {
        let width = match self.text_count() {
            0..=0x100 => 1,
            0x101..=0x1_0000 => 2,
            _ => 4,
        };
        self.codes.len() * width + self.bytes.len() + self.ends.len() * size_of::<i32>() + STRUCTURE_BYTES
    }

    fn code(&mut self, text: &[u8]) -> u32 {
        let Self { hasher, numbers, bytes, ends, .. } = self;
        let text_of = |code: u32| {
            let (start, end) = (ends[code as usize], ends[code as usize + 1]);
            &bytes[start as usize..end as usize]
        };
        let hash = hasher.hash_one(text);
        if let Some(code) = numbers.find(hash, |code| text_of(*code) == text) {
            return *code;
        }
        let next = (ends.len() - 1) as u32;
        numbers.insert_unique(hash, next, |code| hasher.hash_one(text_of(*code)));
        bytes.extend_from_slice(text);
        ends.push(bytes.len() as i32);
        next
    }

    /// Appends texts; their bytes.
    fn append_texts(&mut self, array: &ArrayRef) -> Result<usize, ArrowError> {
        let texts = array.as_string_opt::<i32>().ok_or_else(|| no_texts(array.data_type()))?;
        let mut text_bytes = 0;
        for text in texts {
            let code = text.map_or(Ok(0), |text| {
                text_bytes += text.len();
                self.code_within_limits(text.as_bytes())
            })?;
            self.codes.push(code);
        }
        Ok(text_bytes)
    }

    /// Appends codes of another dictionary; the bytes of their texts.
    fn append_codes(&mut self, array: &dyn AnyDictionaryArray) -> Result<usize, ArrowError> {
        /// A text that was not needed yet.
        const UNKNOWN: u32 = u32::MAX;
        let texts = array.values().as_string_opt::<i32>().ok_or_else(|| no_texts(array.values().data_type()))?;
        if texts.is_empty() {
            // All are NULL, or there are none.
            self.codes.resize(self.codes.len() + array.len(), 0);
            return Ok(0);
        }
        let mut known = vec![UNKNOWN; texts.len()];
        let mut text_bytes = 0;
        let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0);
        // Of a NULL the key says nothing.
        for (row, key) in array.normalized_keys().into_iter().enumerate() {
            if nulls.is_some_and(|nulls| nulls.is_null(row)) {
                self.codes.push(0);
                continue;
            }
            if known[key] == UNKNOWN {
                known[key] = self.code_within_limits(texts.value(key).as_bytes())?;
            }
            text_bytes += texts.value_length(key) as usize;
            self.codes.push(known[key]);
        }
        Ok(text_bytes)
    }

    fn code_within_limits(&mut self, text: &[u8]) -> Result<u32, ArrowError> {
        let all_bytes = self.bytes.len() + text.len();
        i32::try_from(all_bytes).map_err(|_| ArrowError::OffsetOverflowError(all_bytes))?;
        Ok(self.code(text))
    }

    /// Codes that are as narrow as can be, and the texts.
    fn finish(mut self, nulls: Option<NullBuffer>) -> Result<ArrayRef, ArrowError> {
        if self.text_count() == 0 {
            // All are NULL; their codes are of some text all the same.
            self.ends.push(0);
        }
        self.bytes.shrink_to_fit();
        self.ends.shrink_to_fit();
        let offsets = OffsetBuffer::new(self.ends.into());
        let count = offsets.len() - 1;
        let texts: ArrayRef = Arc::new(StringArray::try_new(offsets, Buffer::from_vec(self.bytes), None)?);
        macro_rules! coded {
            ($key:ty, $native:ty) => {{
                let codes: Vec<$native> = self.codes.into_iter().map(|code| code as $native).collect();
                let codes = PrimitiveArray::<$key>::new(codes.into(), nulls);
                Ok(Arc::new(DictionaryArray::try_new(codes, texts)?))
            }};
        }
        match count {
            0..=0x100 => coded!(UInt8Type, u8),
            0x101..=0x1_0000 => coded!(UInt16Type, u16),
            _ => coded!(UInt32Type, u32),
        }
    }
}

fn no_texts(data_type: &DataType) -> ArrowError {
    ArrowError::InvalidArgumentError(format!("{data_type} among texts"))
}

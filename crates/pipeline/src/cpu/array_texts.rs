//! Arrow arrays of texts as codes: those of programs' tables, and the dictionaries that files are stored with.
//!
//! **Owns**: that codes are ordered as the texts are, also of dictionaries that are unsorted or name a text twice.
//! **Does not own**: NULLs; a NULL has the code of some text.
//!
//! **Concurrency**: plain functions.

use std::collections::HashMap;
use std::sync::Arc;

use ahash::RandomState;
use arrow::array::{Array, ArrayRef, AsArray, StringViewArray};
use arrow::datatypes::DataType;

use super::coded::Coded;
use super::form::Form;
use super::page_texts::{PageTexts, TextCoding};
use super::texts::TextUse;

/// Rows for each text from which on it takes less to order the texts than to compare each row's.
const MANY_ROWS: usize = 16;

/// Texts up to this many bytes lie in their views.
const INLINE_BYTES: u32 = 12;

/// An array's texts as codes for some use, and the texts; `None` if it has none.
pub(super) fn of(array: &ArrayRef, text_use: TextUse) -> Option<(Form<'_>, PageTexts<'static>)> {
    match text_use {
        // Of the rows that are left each is looked up, of the others none.
        TextUse::Tested | TextUse::Kept => listed(array),
        // Each is looked up once: of texts that are spelt out that is done here, as many may be the same.
        TextUse::Taken | TextUse::Grouped if array.as_any_dictionary_opt().is_some() => listed(array),
        // To order a few is soon done; of many each is compared but once.
        TextUse::Extreme if !has_few_texts(array) => listed(array),
        TextUse::Taken | TextUse::Grouped | TextUse::Extreme | TextUse::Ordered => coded(array),
    }
}

/// Whether an array names each of its texts in a dictionary, and most of them for many rows.
fn has_few_texts(array: &ArrayRef) -> bool {
    array.as_any_dictionary_opt().is_some_and(|dictionary| dictionary.values().len() <= array.len() / MANY_ROWS)
}

/// An array's texts as codes that are ordered as they are, and the texts; `None` if it has none.
fn coded(array: &dyn Array) -> Option<(Form<'_>, PageTexts<'static>)> {
    let Some(dictionary) = array.as_any_dictionary_opt() else {
        let (codes, texts) = numbered(array)?;
        return Some((Form::Codes { codes, first_block: 0 }, texts));
    };
    let values = dictionary.values();
    if values.len() > array.len() {
        // Most of its texts may be other rows': what is there is taken out, and coded alone.
        let used = arrow::compute::take(values, dictionary.keys(), None).ok()?;
        let (codes, texts) = numbered(&used)?;
        return Some((Form::Codes { codes, first_block: 0 }, texts));
    }
    let (codes, texts) = numbered(values)?;
    let ordinals: Vec<i64> = codes.into_iter().map(i64::from).collect();
    Some((Form::Coded(Coded::new(dictionary, &ordinals)), texts))
}

/// An array's texts as codes in the order in which they come, where a text may have several; `None` if it has none.
fn listed(array: &ArrayRef) -> Option<(Form<'_>, PageTexts<'static>)> {
    if matches!(array.data_type(), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View) {
        return Some((Form::row_numbers(array.len(), 0), PageTexts::Listed(Arc::clone(array))));
    }
    let dictionary = array.as_any_dictionary_opt()?;
    let values = dictionary.values();
    let are_texts = matches!(values.data_type(), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    if !are_texts {
        return None;
    }
    if values.len() > array.len() {
        // Most of its texts may be other rows': what is there is spelt out.
        let used = arrow::compute::take(values, dictionary.keys(), None).ok()?;
        return Some((Form::row_numbers(used.len(), 0), PageTexts::Listed(used)));
    }
    let ordinals: Vec<i64> = (0..values.len() as i64).collect();
    Some((Form::Coded(Coded::new(dictionary, &ordinals)), PageTexts::Listed(Arc::clone(values))))
}

/// The code of each text of an array that spells them out, and the texts.
fn numbered(array: &dyn Array) -> Option<(Vec<u32>, PageTexts<'static>)> {
    let mut coding = TextCoding::default();
    macro_rules! push {
        ($texts:expr) => {
            $texts.iter().for_each(|text| coding.push(text.unwrap_or_default().as_bytes()))
        };
    }
    match array.data_type() {
        DataType::Utf8 => push!(array.as_string::<i32>()),
        DataType::LargeUtf8 => push!(array.as_string::<i64>()),
        DataType::Utf8View => push_views(array.as_string_view(), &mut coding),
        _ => return None,
    }
    Some(coding.finish())
}

/// Short texts are told apart by their views, without a look at their bytes.
fn push_views(texts: &StringViewArray, coding: &mut TextCoding) {
    let mut numbers: HashMap<u128, u32, RandomState> = HashMap::default();
    for (row, view) in texts.views().iter().enumerate() {
        let text = || if texts.is_null(row) { b"".as_slice() } else { texts.value(row).as_bytes() };
        // The length comes first.
        let number = if *view as u32 <= INLINE_BYTES && texts.is_valid(row) {
            *numbers.entry(*view).or_insert_with(|| coding.number(text()))
        } else {
            coding.number(text())
        };
        coding.push_number(number);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use arrow::array::{DictionaryArray, Int8Array, LargeStringArray, StringArray, UInt8Array, UInt16Array};
    use thermocline_column_store::MINI_BLOCK_VALUES;
    use thermocline_seeded::Random;

    use super::super::form::{Scratch, Unpacked};
    use super::*;

    fn texts_of(array: &dyn Array) -> Vec<Option<String>> {
        let (form, texts) = coded(array).expect("texts");
        let mut scratch = Scratch::new();
        let mut codes = Vec::new();
        for (index, start) in (0..array.len()).step_by(MINI_BLOCK_VALUES).enumerate() {
            let (base, unpacked) = scratch.fill(&form, index).unwrap();
            let word = |at: usize| match unpacked {
                Unpacked::U8 => scratch.bytes[at].into(),
                Unpacked::U32 => scratch.words[at],
                other => panic!("{other:?}"),
            };
            codes.extend((0..MINI_BLOCK_VALUES.min(array.len() - start)).map(|at| base as u32 + word(at)));
        }
        let entries: Vec<&[u8]> = (0..texts.entry_count()).map(|code| texts.entry(code).unwrap()).collect();
        assert!(entries.is_sorted_by(|one, next| one < next), "{entries:?}");
        let nulls = array.logical_nulls();
        assert_eq!(codes.len(), array.len());
        let text = |code: u32| String::from_utf8(entries[code as usize].to_vec()).unwrap();
        let is_valid = |row| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
        codes.iter().enumerate().map(|(row, code)| is_valid(row).then(|| text(*code))).collect()
    }

    #[test]
    fn texts_of_all_kinds_of_arrays_come_back() {
        for seed in 0..50 {
            let mut random = Random::new(seed);
            let any = |random: &mut Random| {
                let text = format!("{}{}", "long enough to lie elsewhere".repeat(random.below(2)), random.below(9));
                (random.below(5) > 0).then_some(text)
            };
            let texts: Vec<Option<String>> = (0..random.below(60)).map(|_| any(&mut random)).collect();
            let arrays: [ArrayRef; 3] = [
                Arc::new(StringArray::from(texts.clone())),
                Arc::new(LargeStringArray::from(texts.clone())),
                Arc::new(StringViewArray::from_iter(texts.iter().map(Option::as_ref))),
            ];
            for array in arrays {
                assert_eq!(texts_of(&array), texts, "seed {seed}, {}", array.data_type());
                if texts.is_empty() {
                    continue;
                }
                // As a dictionary with texts twice, NULL by key or by value, of more rows than texts or fewer.
                let keys: Vec<Option<u16>> = (0..random.below(100))
                    .map(|_| (random.below(6) > 0).then(|| random.below(texts.len()) as u16))
                    .collect();
                let expected: Vec<Option<String>> =
                    keys.iter().map(|key| key.and_then(|key| texts[usize::from(key)].clone())).collect();
                let short_keys: UInt8Array = keys.iter().map(|key| key.map(|key| key as u8)).collect();
                let dictionaries: [ArrayRef; 2] = [
                    Arc::new(DictionaryArray::try_new(UInt16Array::from(keys), Arc::clone(&array)).unwrap()),
                    Arc::new(DictionaryArray::try_new(short_keys, Arc::clone(&array)).unwrap()),
                ];
                for dictionary in dictionaries {
                    assert_eq!(texts_of(&dictionary), expected, "seed {seed}, {}", dictionary.data_type());
                }
            }
        }
    }

    #[test]
    fn dictionaries_without_texts_are_all_null() {
        let empty: ArrayRef = Arc::new(StringArray::from(Vec::<&str>::new()));
        let dictionary = DictionaryArray::try_new(Int8Array::from(vec![None, None]), empty).unwrap();
        assert_eq!(texts_of(&dictionary), [None, None]);
    }

    #[test]
    fn other_arrays_have_no_texts() {
        assert!(coded(&Int8Array::from(vec![1])).is_none());
        let numbers = DictionaryArray::try_new(Int8Array::from(vec![0]), Arc::new(Int8Array::from(vec![7]))).unwrap();
        assert!(coded(&numbers).is_none());
    }
}

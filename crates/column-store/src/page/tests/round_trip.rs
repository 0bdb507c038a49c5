use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Float64Array, Int64Array, ListArray, StringArray, StringViewBuilder};
use arrow::datatypes::{DataType, Int32Type};
use thermocline_seeded::Random;

use super::arrays::{Nulls, SHAPES, array, types};
use crate::{Body, Encoding, IntegerEncoding, MINI_BLOCK_VALUES, Page, PageError, PageSummary, encode, encode_as};

pub(super) const ENCODINGS: [Encoding; 15] = [
    Encoding::Constant,
    Encoding::Plain,
    Encoding::Integers(IntegerEncoding::FrameOfReference),
    Encoding::Integers(IntegerEncoding::Delta),
    Encoding::Integers(IntegerEncoding::RunLength),
    Encoding::Integers(IntegerEncoding::PackedRuns),
    Encoding::Dictionary(IntegerEncoding::FrameOfReference),
    Encoding::Dictionary(IntegerEncoding::Delta),
    Encoding::Dictionary(IntegerEncoding::RunLength),
    Encoding::Dictionary(IntegerEncoding::PackedRuns),
    Encoding::DecimalFloats(IntegerEncoding::FrameOfReference),
    Encoding::DecimalFloats(IntegerEncoding::Delta),
    Encoding::DecimalFloats(IntegerEncoding::RunLength),
    Encoding::DecimalFloats(IntegerEncoding::PackedRuns),
    Encoding::Symbols,
];

/// The page must say what was written, and decode to the array wholly and in any part.
fn check(random: &mut Random, values: &ArrayRef, page: &[u8], summary: &PageSummary, name: &str) {
    let data_type = values.data_type();
    let opened = Page::open(page).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(page.len() % 64, 0, "{name}");
    assert_eq!(summary.size_bytes, page.len(), "{name}");
    assert_eq!((summary.value_count, summary.null_count), (values.len(), values.null_count()), "{name}");
    assert_eq!((opened.value_count(), opened.null_count()), (values.len(), values.null_count()), "{name}");
    assert_eq!(opened.encoding(), summary.encoding, "{name}");
    // A NaN is unequal to itself, but never a bound.
    assert_eq!(opened.zone_map(), &summary.zone_map, "{name}");
    let decoded = opened.decode(data_type).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(decoded.to_data(), values.to_data(), "{name}");
    let mini_block_count = opened.mini_block_count();
    for _ in 0..4 {
        let start = random.below(mini_block_count + 1);
        let end = start + random.below(mini_block_count - start + 1);
        let decoded = opened.decode_range(start..end, data_type).unwrap();
        let first = (start * MINI_BLOCK_VALUES).min(values.len());
        let last = (end * MINI_BLOCK_VALUES).min(values.len());
        assert_eq!(
            decoded.to_data(),
            values.slice(first, last - first).to_data(),
            "{name}, mini-blocks {start}..{end}"
        );
    }
}

#[test]
fn values_of_every_type_and_shape_come_back_in_every_encoding_that_takes_them() {
    let mut written = std::collections::BTreeMap::new();
    for seed in 0..4 {
        let mut random = Random::new(seed);
        for data_type in types() {
            for shape in SHAPES {
                for nulls in [Nulls::None, Nulls::Some, Nulls::All] {
                    let count = *random.pick(&[1, 7, 1000, 1024, 1025, 3000, 5001]);
                    let values = array(&mut random, &data_type, shape, nulls, count);
                    let name = format!("seed {seed}, {data_type}, {shape:?}, NULLs {nulls:?}, {count} values");
                    let mut page = Vec::new();
                    let summary = encode(&values, &mut page).unwrap_or_else(|error| panic!("{name}: {error}"));
                    check(&mut random, &values, &page, &summary, &format!("{name}, chosen {:?}", summary.encoding));
                    for encoding in ENCODINGS {
                        page.clear();
                        let name = format!("{name}, {encoding:?}");
                        match encode_as(&values, encoding, &mut page) {
                            Ok(summary) => {
                                *written.entry(encoding).or_insert(0) += 1;
                                check(&mut random, &values, &page, &summary, &name);
                            }
                            Err(PageError::NotApplicable { .. }) => assert!(page.is_empty(), "{name}"),
                            Err(error) => panic!("{name}: {error}"),
                        }
                    }
                }
            }
        }
    }
    for encoding in ENCODINGS {
        assert!(written.get(&encoding).is_some_and(|count| *count > 20), "{encoding:?} was hardly tried: {written:?}");
    }
}

#[test]
fn a_page_is_appended_to_what_is_there_and_aligned_by_its_own_start() {
    let values: ArrayRef = Arc::new(Int64Array::from_iter_values(0..3000));
    let mut alone = Vec::new();
    encode(&values, &mut alone).unwrap();
    let mut behind = vec![9; 13];
    encode(&values, &mut behind).unwrap();
    assert_eq!(behind[13..], alone);
    assert_eq!(Page::open(&behind[13..]).unwrap().decode(&DataType::Int64).unwrap().to_data(), values.to_data());
}

#[test]
fn obvious_data_get_the_obvious_encoding() {
    let chosen = |values: ArrayRef| encode(&values, &mut Vec::new()).unwrap().encoding;
    let mut random = Random::new(5);
    let mut ints = |make: &mut dyn FnMut(&mut Random, i64) -> i64| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values((0..20_000).map(|index| make(&mut random, index))))
    };
    assert_eq!(chosen(ints(&mut |_, _| 5)), Encoding::Constant);
    let narrow = ints(&mut |random, _| 1_000_000 + random.below(50) as i64);
    assert_eq!(chosen(narrow), Encoding::Integers(IntegerEncoding::FrameOfReference));
    let rising = ints(&mut |random, index| index * 1_000_000 + random.below(100) as i64);
    assert_eq!(chosen(rising), Encoding::Integers(IntegerEncoding::Delta));
    let runs = ints(&mut |_, index| (index / 500).wrapping_mul(0x1234_5678_9abc_def1));
    assert_eq!(chosen(runs), Encoding::Integers(IntegerEncoding::RunLength));
    let lines_of_orders = ints(&mut |_, index| (index / 4).wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64) >> 44);
    assert_eq!(chosen(lines_of_orders), Encoding::Integers(IntegerEncoding::PackedRuns));
    assert_eq!(chosen(ints(&mut |random, _| random.next_u64() as i64)), Encoding::Plain);
    let prices = Float64Array::from_iter_values((0..20_000).map(|_| random.below(100_000) as f64 / 100.0));
    assert_eq!(chosen(Arc::new(prices)), Encoding::DecimalFloats(IntegerEncoding::FrameOfReference));
    let noise = Float64Array::from_iter_values((0..20_000).map(|_| f64::from_bits(random.next_u64())));
    assert_eq!(chosen(Arc::new(noise)), Encoding::Plain);
    let nations = ["GERMANY", "JAPAN", "FRANCE", "UNITED STATES"];
    let texts = StringArray::from_iter_values((0..20_000).map(|index| nations[index * 7919 % 4]));
    assert_eq!(chosen(Arc::new(texts)), Encoding::Dictionary(IntegerEncoding::FrameOfReference));
    let lines = StringArray::from_iter_values(
        (0..5000).map(|index| format!("GET /shop/item/{}?session={:x} HTTP/1.1", index % 700, index * 7919)),
    );
    assert_eq!(chosen(Arc::new(lines)), Encoding::Symbols);
}

#[test]
fn codes_of_a_dictionary_have_the_order_of_the_texts() {
    let mut random = Random::new(11);
    let words = ["b", "", "aa", "a", "ab", "zebra", "ä", "b\0"];
    let texts = StringArray::from_iter_values((0..4000).map(|_| *random.pick(&words)));
    let mut page = Vec::new();
    encode_as(&texts, Encoding::Dictionary(IntegerEncoding::FrameOfReference), &mut page).unwrap();
    let page = Page::open(&page).unwrap();
    let Body::Dictionary { dictionary, codes } = page.body() else { panic!("{:?}", page.body()) };
    let mut sorted = words.map(str::as_bytes);
    sorted.sort_unstable();
    assert_eq!(dictionary.entry_count(), sorted.len());
    for (code, word) in sorted.iter().enumerate() {
        assert_eq!(dictionary.entry(code), Some(*word));
        assert_eq!(dictionary.code_of(word), Ok(code));
    }
    assert_eq!(dictionary.entry(sorted.len()), None);
    assert_eq!(dictionary.code_of(b"aaa"), Err(3));
    assert_eq!(dictionary.code_of("ü".as_bytes()), Err(sorted.len()));
    let crate::Integers::FrameOfReference(frames) = codes else { panic!("{codes:?}") };
    assert_eq!(frames.mini_block_count(), 4);
    let frame = frames.frame(1).unwrap();
    let mut unpacked = [0u8; MINI_BLOCK_VALUES];
    frame.differences.unpack(&mut unpacked).unwrap();
    for (index, code) in unpacked.iter().enumerate() {
        let entry = dictionary.entry(frame.base as usize + usize::from(*code));
        assert_eq!(entry, Some(texts.value(MINI_BLOCK_VALUES + index).as_bytes()));
    }
}

#[test]
fn whatever_stands_in_the_place_of_nulls_costs_nothing() {
    let valid: Vec<bool> = (0..4000).map(|index| index % 3 != 0).collect();
    let clean = Int64Array::from_iter((0..4000).map(|index| valid[index].then_some(index as i64 % 16)));
    let noise = (0..4000).map(|index| if valid[index] { index as i64 % 16 } else { i64::MIN + index as i64 });
    let noisy = Int64Array::new(noise.collect(), Some(valid.clone().into()));
    let (mut clean_page, mut noisy_page) = (Vec::new(), Vec::new());
    encode(&clean, &mut clean_page).unwrap();
    encode(&noisy, &mut noisy_page).unwrap();
    assert_eq!(clean_page, noisy_page);
    assert_eq!(Page::open(&noisy_page).unwrap().zone_map(), &crate::ZoneMap::integers(0, 15));
}

#[test]
fn what_no_page_can_hold_is_refused() {
    let list: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>([Some([Some(1)])]));
    assert!(matches!(encode(&list, &mut Vec::new()), Err(PageError::Type { .. })));
    let none: ArrayRef = Arc::new(Int64Array::from(Vec::<i64>::new()));
    assert!(matches!(encode(&none, &mut Vec::new()), Err(PageError::ValueCount { found: 0, .. })));
    let many: ArrayRef = Arc::new(Int64Array::from(vec![0; crate::MAX_PAGE_VALUES + 1]));
    assert!(matches!(encode(&many, &mut Vec::new()), Err(PageError::ValueCount { .. })));
}

#[test]
fn a_page_is_not_read_as_another_type_nor_beyond_its_end() {
    let values: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1500));
    let mut page = Vec::new();
    encode(&values, &mut page).unwrap();
    let page = Page::open(&page).unwrap();
    assert!(matches!(page.decode(&DataType::Int32), Err(PageError::TypeMismatch { .. })));
    assert!(matches!(page.decode_range(1..3, &DataType::Int64), Err(PageError::Range { .. })));
    #[allow(clippy::reversed_empty_ranges)]
    let backwards = page.decode_range(2..1, &DataType::Int64);
    assert!(matches!(backwards, Err(PageError::Range { .. })));
    assert_eq!(page.decode_range(1..2, &DataType::Int64).unwrap().len(), 1500 - MINI_BLOCK_VALUES);
    assert_eq!(page.decode_range(2..2, &DataType::Int64).unwrap().len(), 0);
}

#[test]
fn texts_that_no_array_could_hold_again_are_refused() {
    let mut views = StringViewBuilder::new();
    let block = views.append_block("x".repeat(1 << 20).into_bytes().into());
    for _ in 0..2048 {
        views.try_append_view(block, 0, 1 << 20).unwrap();
    }
    let (all, mut page) = (views.finish(), Vec::new());
    let error = encode(&all, &mut page).unwrap_err().to_string();
    assert!(error.contains("its texts would take 2147483648 bytes, expected at most 2147483647"), "{error}");
    assert!(page.is_empty());
}

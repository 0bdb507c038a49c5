//! Values of fixed width: the ways they can be written, and writing them.

use arrow::array::{Array, ArrayData};
use arrow::buffer::NullBuffer;
use arrow::datatypes::ArrowNativeType;
use thermocline_placement::column_encoding::{Candidate, Encoding, IntegerEncoding};

use super::encode::{Draft, Values};
use super::{INTEGERS_SECTION, PhysicalType, VALUES_SECTION};
use crate::ZoneMap;
use crate::floats::{self, ScaledFloats};
use crate::integers::{self, IntegerStatistics};

/// The values with each NULL replaced by the value before it (the leading ones by the first), so that NULLs cost no
/// encoding anything. There is a value that is not NULL.
pub(super) fn filled<N: Copy, T: Copy>(values: &[N], nulls: Option<&NullBuffer>, to: impl Fn(N) -> T) -> Vec<T> {
    let Some(nulls) = nulls else { return values.iter().map(|value| to(*value)).collect() };
    let first = nulls.valid_indices().next().unwrap_or(0);
    let mut last = to(values[first]);
    values
        .iter()
        .zip(nulls.iter())
        .map(|(value, valid)| {
            if valid {
                last = to(*value);
            }
            last
        })
        .collect()
}

/// The values as 64-bit patterns, signed ones sign-extended; decimals that do not fit as they are.
pub(super) fn values_of(array: &dyn Array, physical_type: PhysicalType) -> Values<'static> {
    let data = array.to_data();
    let nulls = array.nulls();
    let patterns = match physical_type {
        PhysicalType::Int8 => patterns(&data, nulls, |value: i8| value as u64),
        PhysicalType::Int16 => patterns(&data, nulls, |value: i16| value as u64),
        PhysicalType::Int32 => patterns(&data, nulls, |value: i32| value as u64),
        PhysicalType::UInt8 => patterns(&data, nulls, |value: u8| u64::from(value)),
        PhysicalType::UInt16 => patterns(&data, nulls, |value: u16| u64::from(value)),
        PhysicalType::UInt32 | PhysicalType::Float32 => patterns(&data, nulls, |value: u32| u64::from(value)),
        PhysicalType::Decimal128 => {
            let wide = filled(data.buffer::<i128>(0), nulls, |value| value);
            if wide.iter().any(|value| i64::try_from(*value).is_err()) {
                return Values::Wide(wide);
            }
            wide.iter().map(|value| *value as u64).collect()
        }
        _ => patterns(&data, nulls, |value: u64| value),
    };
    let statistics = IntegerStatistics::of(&patterns, physical_type.is_signed());
    Values::Patterns { patterns, statistics }
}

fn patterns<N: ArrowNativeType>(data: &ArrayData, nulls: Option<&NullBuffer>, to: impl Fn(N) -> u64) -> Vec<u64> {
    filled(data.buffer::<N>(0), nulls, to)
}

/// What is known of integers' order.
pub(super) fn zone_map(statistics: &IntegerStatistics, physical_type: PhysicalType) -> ZoneMap {
    let number = |pattern: u64| {
        if physical_type.is_signed() { i128::from(pattern as i64) } else { i128::from(pattern) }
    };
    ZoneMap::integers(number(statistics.least), number(statistics.greatest))
}

/// The ways to write 64-bit patterns.
pub(super) fn candidates(statistics: &IntegerStatistics, value_count: usize, width: usize) -> Vec<Candidate> {
    let decoded_bytes = (value_count * width) as u64;
    let candidate = |encoding, size_bytes, run_count| Candidate { encoding, size_bytes, decoded_bytes, run_count };
    if statistics.is_constant() {
        return vec![candidate(Encoding::Constant, width as u64, 0)];
    }
    let mut all = vec![candidate(Encoding::Plain, decoded_bytes, 0)];
    all.extend(integer_candidates(statistics, decoded_bytes, 0, Encoding::Integers));
    all
}

/// The ways to write whole numbers, as part of an encoding that takes `more_bytes` besides.
pub(super) fn integer_candidates(
    statistics: &IntegerStatistics,
    decoded_bytes: u64,
    more_bytes: usize,
    encoding: impl Fn(IntegerEncoding) -> Encoding,
) -> impl Iterator<Item = Candidate> {
    IntegerEncoding::ALL.into_iter().map(move |integers| Candidate {
        encoding: encoding(integers),
        size_bytes: (statistics.size_bytes(integers) + more_bytes) as u64,
        decoded_bytes,
        run_count: if integers == IntegerEncoding::RunLength { statistics.run_count as u64 } else { 0 },
    })
}

/// Writes 64-bit patterns; `Err` with the reason if the encoding is none for them.
pub(super) fn write(
    patterns: &[u64],
    statistics: &IntegerStatistics,
    physical_type: PhysicalType,
    encoding: Encoding,
    draft: &mut Draft,
) -> Result<(), &'static str> {
    match encoding {
        Encoding::Constant if statistics.is_constant() => {
            write_plain(&patterns[..1], physical_type, &mut draft.sections[VALUES_SECTION]);
        }
        Encoding::Constant => return Err("they are not all the same"),
        Encoding::Plain => write_plain(patterns, physical_type, &mut draft.sections[VALUES_SECTION]),
        Encoding::Integers(encoding) => {
            integers::write(encoding, patterns, physical_type.is_signed(), draft.integer_sections());
        }
        _ => return Err("it is for other types"),
    }
    Ok(())
}

/// Writes as many bytes of each pattern as the type has.
fn write_plain(patterns: &[u64], physical_type: PhysicalType, bytes: &mut Vec<u8>) {
    match physical_type.width_bytes() {
        Some(1) => bytes.extend(patterns.iter().map(|pattern| *pattern as u8)),
        Some(2) => write_words(patterns, |pattern| (pattern as u16).to_le_bytes(), bytes),
        Some(4) => write_words(patterns, |pattern| (pattern as u32).to_le_bytes(), bytes),
        Some(16) => write_words(patterns, |pattern| i128::from(pattern as i64).to_le_bytes(), bytes),
        _ => write_words(patterns, u64::to_le_bytes, bytes),
    }
}

fn write_words<const N: usize>(patterns: &[u64], to_bytes: impl Fn(u64) -> [u8; N], bytes: &mut Vec<u8>) {
    bytes.resize(patterns.len() * N, 0);
    for (word, pattern) in bytes.as_chunks_mut::<N>().0.iter_mut().zip(patterns) {
        *word = to_bytes(*pattern);
    }
}

/// Floats as decimals, in the ways that their whole numbers can be written.
pub(super) struct DecimalPlan {
    floats: ScaledFloats,
    statistics: IntegerStatistics,
}

impl DecimalPlan {
    /// `None` if the values are no floats, or if a sample has a greater share of exceptions than this.
    pub(super) fn of(patterns: &[u64], physical_type: PhysicalType, most_exceptions: f64) -> Option<Self> {
        let floats = match physical_type {
            PhysicalType::Float32 => floats::scale::<f32>(patterns, most_exceptions)?,
            PhysicalType::Float64 => floats::scale::<f64>(patterns, most_exceptions)?,
            _ => return None,
        };
        let statistics = IntegerStatistics::of(&floats.numbers, true);
        Some(Self { floats, statistics })
    }

    pub(super) fn candidates(&self, decoded_bytes: u64) -> impl Iterator<Item = Candidate> {
        let more_bytes = self.floats.places.len() + self.floats.exceptions.len();
        integer_candidates(&self.statistics, decoded_bytes, more_bytes, Encoding::DecimalFloats)
    }

    pub(super) fn write(self, encoding: IntegerEncoding, draft: &mut Draft) {
        integers::write(encoding, &self.floats.numbers, true, draft.integer_sections());
        draft.exponent = self.floats.exponent;
        draft.sections[VALUES_SECTION] = self.floats.places;
        draft.sections[VALUES_SECTION + 1] = self.floats.exceptions;
    }
}

/// The ways to write decimals of more than 64 bits.
pub(super) fn wide_candidates(values: &[i128]) -> Vec<Candidate> {
    let decoded_bytes = size_of_val(values) as u64;
    let plain = Candidate { encoding: Encoding::Plain, size_bytes: decoded_bytes, decoded_bytes, run_count: 0 };
    if values.iter().all(|value| *value == values[0]) {
        return vec![Candidate { encoding: Encoding::Constant, size_bytes: 16, ..plain }];
    }
    vec![plain]
}

/// What is known of the order of decimals of more than 64 bits.
pub(super) fn wide_zone_map(values: &[i128]) -> ZoneMap {
    let bounds = values
        .iter()
        .fold((i128::MAX, i128::MIN), |(least, greatest), value| (least.min(*value), greatest.max(*value)));
    ZoneMap::integers(bounds.0, bounds.1)
}

/// Writes decimals of more than 64 bits; `Err` with the reason if the encoding is none for them.
pub(super) fn write_wide(values: &[i128], encoding: Encoding, draft: &mut Draft) -> Result<(), &'static str> {
    let written = match encoding {
        Encoding::Constant if values.iter().all(|value| *value == values[0]) => &values[..1],
        Encoding::Constant => return Err("they are not all the same"),
        Encoding::Plain => values,
        _ => return Err("some take more than 64 bits"),
    };
    draft.sections[VALUES_SECTION].extend(written.iter().flat_map(|value| value.to_le_bytes()));
    Ok(())
}

impl Draft {
    /// The sections of whole numbers.
    pub(super) fn integer_sections(&mut self) -> &mut [Vec<u8>; integers::INTEGER_SECTIONS] {
        let (_, sections) = self.sections.split_at_mut(INTEGERS_SECTION);
        sections.first_chunk_mut().expect("a page has more sections than whole numbers take")
    }
}

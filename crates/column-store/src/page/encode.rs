//! From an Arrow array to a page.

use arrow::array::{Array, AsArray, BooleanArray};
use thermocline_placement::column_encoding::{Candidate, Encoding, choose};

use super::fixed_width::DecimalPlan;
use super::header::{Header, SECTION_COUNT, ValidityKind, write_page};
use super::validity::bitmap_bytes;
use super::{PhysicalType, VALIDITY_SECTION, VALUES_SECTION, fixed_width, text_values};
use crate::integers::IntegerStatistics;
use crate::texts::TextValues;
use crate::{MAX_PAGE_VALUES, PageError, ZoneMap};

/// What was written.
#[derive(Debug, Clone, PartialEq)]
pub struct PageSummary {
    /// How.
    pub encoding: Encoding,
    /// Bytes of the page, a multiple of 64.
    pub size_bytes: usize,
    /// Values, NULLs included.
    pub value_count: usize,
    /// NULLs among them.
    pub null_count: usize,
    /// The least and greatest value.
    pub zone_map: ZoneMap,
    /// The checksum in the header, of everything behind it.
    pub checksum: u64,
}

/// A page that is being written: what the header needs beside the array, and the sections.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pub(super) sections: [Vec<u8>; SECTION_COUNT],
    pub(super) exponent: u8,
}

/// The values of a page with something in the place of NULLs.
pub(super) enum Values<'a> {
    AllNull,
    Booleans(&'a BooleanArray),
    Patterns { patterns: Vec<u64>, statistics: IntegerStatistics },
    Wide(Vec<i128>),
    Texts(TextValues<'a>),
}

/// Appends the values of `array` to `page` as one page, in the encoding that costs least (`placement`'s
/// `column_encoding`).
///
/// # Errors
/// A type that pages cannot hold, no values or more than [`MAX_PAGE_VALUES`], texts of 2 GiB or more, or a page of more
/// than 4 GiB. `page` is as it was.
pub fn encode(array: &dyn Array, page: &mut Vec<u8>) -> Result<PageSummary, PageError> {
    Source::of(array)?.write(None, page)
}

/// Like [`encode`], in a given encoding: for comparisons, and for who knows more than the values say.
///
/// # Errors
/// As [`encode`]; [`PageError::NotApplicable`] if the values cannot be written so. Those that are all NULL are always
/// constant.
pub fn encode_as(array: &dyn Array, encoding: Encoding, page: &mut Vec<u8>) -> Result<PageSummary, PageError> {
    Source::of(array)?.write(Some(encoding), page)
}

/// An array and what is known of it.
struct Source<'a> {
    array: &'a dyn Array,
    physical_type: PhysicalType,
    values: Values<'a>,
}

impl<'a> Source<'a> {
    fn of(array: &'a dyn Array) -> Result<Self, PageError> {
        let data_type = array.data_type();
        let Some(physical_type) = PhysicalType::of(data_type) else {
            return Err(PageError::Type { data_type: data_type.clone() });
        };
        if array.is_empty() || array.len() > MAX_PAGE_VALUES {
            return Err(PageError::ValueCount { found: array.len() as u64, limit: MAX_PAGE_VALUES as u64 });
        }
        let values = if array.null_count() == array.len() {
            Values::AllNull
        } else {
            match TextValues::of(array) {
                // Read again they are an array whose offsets are signed 32-bit numbers.
                Some(texts) if texts.text_bytes() > i32::MAX as usize => {
                    let (size_bytes, limit_bytes) = (texts.text_bytes() as u64, i32::MAX as u64);
                    return Err(PageError::TooLong { what: "its texts", size_bytes, limit_bytes });
                }
                Some(texts) => Values::Texts(texts),
                None if physical_type == PhysicalType::Boolean => Values::Booleans(array.as_boolean()),
                None => fixed_width::values_of(array, physical_type),
            }
        };
        Ok(Self { array, physical_type, values })
    }

    /// Of 64-bit patterns.
    fn zone_map(&self, patterns: &[u64], statistics: &IntegerStatistics) -> ZoneMap {
        match self.physical_type {
            PhysicalType::Float32 => {
                ZoneMap::floats(patterns.iter().map(|bits| f64::from(f32::from_bits(*bits as u32))))
            }
            PhysicalType::Float64 => ZoneMap::floats(patterns.iter().map(|bits| f64::from_bits(*bits))),
            _ => fixed_width::zone_map(statistics, self.physical_type),
        }
    }

    fn write(&self, forced: Option<Encoding>, page: &mut Vec<u8>) -> Result<PageSummary, PageError> {
        let value_count = self.array.len();
        let mut draft = Draft::default();
        let chosen = |candidates: &[Candidate]| {
            let best = choose(value_count as u64, candidates).map(|best| best.encoding);
            forced.or(best).unwrap_or(Encoding::Plain)
        };
        let (encoding, written, zone_map) = match &self.values {
            Values::AllNull => (Encoding::Constant, Ok(()), ZoneMap::default()),
            Values::Booleans(array) => {
                let trues = array.true_count();
                let (least, greatest) = (trues + array.null_count() == value_count, trues > 0);
                let constant = (least == greatest).then_some(least);
                let encoding = forced.unwrap_or(if constant.is_some() { Encoding::Constant } else { Encoding::Plain });
                let zone_map = ZoneMap::integers(least.into(), greatest.into());
                (encoding, write_booleans(array, constant, encoding, &mut draft), zone_map)
            }
            Values::Patterns { patterns, statistics } => {
                let width = self.physical_type.width_bytes().unwrap_or_default();
                let mut candidates = fixed_width::candidates(statistics, value_count, width);
                let decimals = match forced {
                    Some(Encoding::DecimalFloats(_)) => DecimalPlan::of(patterns, self.physical_type, 1.0),
                    // An exception takes more room than a plain value: with as many nothing is gained.
                    None if !statistics.is_constant() => DecimalPlan::of(patterns, self.physical_type, 0.5),
                    _ => None,
                };
                candidates.extend(decimals.iter().flat_map(|plan| plan.candidates((value_count * width) as u64)));
                let encoding = chosen(&candidates);
                let written = match (encoding, decimals) {
                    (Encoding::DecimalFloats(numbers), Some(plan)) => {
                        plan.write(numbers, &mut draft);
                        Ok(())
                    }
                    _ => fixed_width::write(patterns, statistics, self.physical_type, encoding, &mut draft),
                };
                (encoding, written, self.zone_map(patterns, statistics))
            }
            Values::Wide(values) => {
                let encoding = chosen(&fixed_width::wide_candidates(values));
                (encoding, fixed_width::write_wide(values, encoding, &mut draft), fixed_width::wide_zone_map(values))
            }
            Values::Texts(texts) => {
                let plan = text_values::Plan::of(texts, forced);
                let encoding = chosen(&plan.candidates());
                let zone_map = plan.zone_map();
                (encoding, plan.write(encoding, &mut draft), zone_map)
            }
        };
        written.map_err(|reason| PageError::NotApplicable {
            encoding: format!("{encoding:?}"),
            data_type: self.array.data_type().clone(),
            reason,
        })?;

        let null_count = self.array.null_count();
        let validity = match null_count {
            0 => ValidityKind::NoneNull,
            _ if null_count == value_count => ValidityKind::AllNull,
            _ => ValidityKind::Bitmap,
        };
        if let (ValidityKind::Bitmap, Some(nulls)) = (validity, self.array.nulls()) {
            draft.sections[VALIDITY_SECTION] = bitmap_bytes(nulls.inner());
        }
        let header = Header {
            checksum: 0,
            value_count,
            null_count,
            physical_type: self.physical_type,
            encoding,
            validity,
            exponent: draft.exponent,
            zone_map,
        };
        let start = page.len();
        let checksum = write_page(&header, &draft.sections, page)?;
        let size_bytes = page.len() - start;
        Ok(PageSummary { encoding, size_bytes, value_count, null_count, zone_map: header.zone_map, checksum })
    }
}

fn write_booleans(
    array: &BooleanArray,
    constant: Option<bool>,
    encoding: Encoding,
    draft: &mut Draft,
) -> Result<(), &'static str> {
    draft.sections[VALUES_SECTION] = match (encoding, constant) {
        (Encoding::Constant, Some(value)) => vec![u8::from(value)],
        (Encoding::Constant, None) => return Err("they are not all the same"),
        (Encoding::Plain, _) => bitmap_bytes(array.values()),
        _ => return Err("it is for other types"),
    };
    Ok(())
}

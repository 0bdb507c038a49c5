//! Floats that were decimals, as whole numbers over a power of ten.

use arrow::datatypes::DataType;

/// Decimals of more places stay floats: of numbers with so many, few have digits to spare.
pub const MAX_SCALE: usize = POWERS.len() - 1;
/// Exact, and so a quotient is the float that is nearest to the decimal: the one that its text is read as.
const POWERS: [f64; 9] = [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8];
/// Adding and subtracting this rounds a float of up to [`GREATEST`] to a whole number, which is then in its lowest bits.
const ROUNDING: f64 = 1.5 * (1u64 << 52) as f64;
/// What a `Decimal32` of nine digits holds.
const GREATEST: f64 = 999_999_999.0;
/// Values that are tried at once, before it is seen whether any failed.
const BLOCK_VALUES: usize = 1024;
/// Values by which the power is chosen.
const SAMPLE_VALUES: usize = 64;

/// What the whole numbers of an array stand for, if they stand for floats.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DecimalFloats {
    divisor: f64,
}

impl DecimalFloats {
    /// For arrays of a type; `None` if it is no form of floats.
    pub fn of(form: &DataType) -> Option<Self> {
        let scale = match form {
            DataType::Int8 | DataType::Int16 => 0,
            DataType::Decimal32(_, scale) => usize::try_from(*scale).ok()?,
            _ => return None,
        };
        POWERS.get(scale).map(|divisor| Self { divisor: *divisor })
    }

    /// Of floats that are whole.
    pub fn whole() -> Self {
        Self { divisor: POWERS[0] }
    }

    /// The float that a whole number stands for. Greater numbers stand for greater floats.
    #[inline(always)]
    pub fn float(self, number: i32) -> f64 {
        f64::from(number) / self.divisor
    }

    /// The sum of some such floats, by the sum of their whole numbers: nearer to the exact one than if they were added.
    pub fn sum(self, numbers: i128) -> f64 {
        numbers as f64 / self.divisor
    }
}

/// The whole numbers that stand for floats, and how many places they have; `None` if there are none.
pub(crate) fn whole_numbers(values: &[f64]) -> Option<(Vec<i32>, usize)> {
    let mut numbers = vec![0; values.len()];
    let step = values.len().div_ceil(SAMPLE_VALUES).max(1);
    let is_sample_whole = |scale: &usize| {
        let sample = values.iter().step_by(step);
        sample.copied().all(|value| scale_block(&[value], POWERS[*scale], &mut [0]))
    };
    let first = (0..=MAX_SCALE).find(is_sample_whole)?;
    // A sample seldom misses the values with most places, and if it does they need one or two more.
    let scale = (first..=MAX_SCALE).find(|scale| {
        let mut blocks = values.chunks(BLOCK_VALUES).zip(numbers.chunks_mut(BLOCK_VALUES));
        blocks.all(|(values, numbers)| scale_block(values, POWERS[*scale], numbers))
    });
    scale.map(|scale| (numbers, scale))
}

/// Whether all of some floats are whole numbers over a power of ten, which are written beside them.
fn scale_block(values: &[f64], power: f64, numbers: &mut [i32]) -> bool {
    let (mut differences, mut are_small) = (0, true);
    for (value, number) in values.iter().zip(numbers) {
        let rounded = value * power + ROUNDING;
        *number = rounded.to_bits() as i32;
        let whole = rounded - ROUNDING;
        // Not of NaNs either.
        are_small &= whole.abs() <= GREATEST;
        differences |= (whole / power).to_bits() ^ value.to_bits();
    }
    differences == 0 && are_small
}

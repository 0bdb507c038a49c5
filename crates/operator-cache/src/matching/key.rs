//! The coordinate of the R-trees: an exact order-preserving key of a bound.
//!
//! What is found is decided by comparing exact keys, never by a float. Beside it a key carries its distance from the
//! tree's origin as a float for the tree's own arithmetic (areas and perimeters, by which it decides where to put and
//! split): products of 128-bit keys would overflow, and a tree built on saturated areas is no better than a list. It is
//! a distance because keys of strings with a common beginning are large and close together.

use std::cmp::Ordering;
use std::ops::{Add, Div, Mul, Neg, Rem, Sub};

use num_traits::{Bounded, Num, One, Signed, Zero};
use rstar::RTreeNum;

/// Further from any origin than a key can be: 2¹²⁸.
const BEYOND: f64 = 340_282_366_920_938_463_463_374_607_431_768_211_456.0;

/// An exact key, or (the result of arithmetic) a measure that has no exact part.
///
/// Ordered by the float, then by the exact part. For keys of one origin that is the exact order, because distance and
/// rounding are monotone; for measures the exact parts are equal.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Key {
    approximate: f64,
    // Two halves: a 16-byte alignment would make every node a quarter larger.
    high: i64,
    low: u64,
}

impl Key {
    pub(crate) fn new(exact: i128, origin: i128) -> Self {
        Self { approximate: exact.saturating_sub(origin) as f64, high: (exact >> 64) as i64, low: exact as u64 }
    }

    pub(crate) fn exact(self) -> i128 {
        (i128::from(self.high) << 64) | i128::from(self.low)
    }

    fn measure(approximate: f64) -> Self {
        Self { approximate, high: 0, low: 0 }
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        self.approximate.total_cmp(&other.approximate).then_with(|| self.exact().cmp(&other.exact()))
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Key {}

impl RTreeNum for Key {
    type OrdType = Self;
    fn ord(self) -> Self {
        self
    }
}

impl Add for Key {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self::measure(self.approximate + other.approximate)
    }
}

impl Sub for Key {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self::measure(self.approximate - other.approximate)
    }
}

impl Mul for Key {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        Self::measure(self.approximate * other.approximate)
    }
}

impl Div for Key {
    type Output = Self;
    fn div(self, other: Self) -> Self {
        Self::measure(self.approximate / other.approximate)
    }
}

impl Rem for Key {
    type Output = Self;
    fn rem(self, other: Self) -> Self {
        Self::measure(self.approximate % other.approximate)
    }
}

impl Neg for Key {
    type Output = Self;
    fn neg(self) -> Self {
        Self::measure(-self.approximate)
    }
}

impl Zero for Key {
    fn zero() -> Self {
        Self::measure(0.0)
    }
    fn is_zero(&self) -> bool {
        self.approximate == 0.0
    }
}

impl One for Key {
    fn one() -> Self {
        Self::measure(1.0)
    }
}

impl Bounded for Key {
    fn min_value() -> Self {
        Self { approximate: -BEYOND, ..Self::new(i128::MIN, 0) }
    }
    fn max_value() -> Self {
        Self { approximate: BEYOND, ..Self::new(i128::MAX, 0) }
    }
}

impl Num for Key {
    type FromStrRadixErr = std::num::ParseIntError;
    fn from_str_radix(text: &str, radix: u32) -> Result<Self, Self::FromStrRadixErr> {
        i128::from_str_radix(text, radix).map(|exact| Self::new(exact, 0))
    }
}

impl Signed for Key {
    fn abs(&self) -> Self {
        Self::measure(self.approximate.abs())
    }
    fn abs_sub(&self, other: &Self) -> Self {
        Self::measure((self.approximate - other.approximate).max(0.0))
    }
    fn signum(&self) -> Self {
        Self::measure(self.approximate.signum())
    }
    fn is_positive(&self) -> bool {
        self.approximate > 0.0
    }
    fn is_negative(&self) -> bool {
        self.approximate < 0.0
    }
}

//! The coordinate of the R-trees: an exact order-preserving key of a bound.
//!
//! Keys are never rounded through a float. The tree's own arithmetic (areas, perimeters) only guides where it splits,
//! so it saturates instead of overflowing; comparisons, which decide what is found, are exact.

use num_traits::{Bounded, Num, One, Signed, Zero};
use rstar::RTreeNum;
use std::ops::{Add, Div, Mul, Neg, Rem, Sub};

/// See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key(pub(crate) i128);

impl Add for Key {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sub for Key {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Mul for Key {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        Self(self.0.saturating_mul(other.0))
    }
}

impl Div for Key {
    type Output = Self;
    fn div(self, other: Self) -> Self {
        Self(self.0.checked_div(other.0).unwrap_or(i128::MAX))
    }
}

impl Rem for Key {
    type Output = Self;
    fn rem(self, other: Self) -> Self {
        Self(self.0.checked_rem(other.0).unwrap_or(0))
    }
}

impl Neg for Key {
    type Output = Self;
    fn neg(self) -> Self {
        Self(self.0.saturating_neg())
    }
}

impl Zero for Key {
    fn zero() -> Self {
        Self(0)
    }
    fn is_zero(&self) -> bool {
        self.0 == 0
    }
}

impl One for Key {
    fn one() -> Self {
        Self(1)
    }
}

impl Bounded for Key {
    fn min_value() -> Self {
        Self(i128::MIN)
    }
    fn max_value() -> Self {
        Self(i128::MAX)
    }
}

impl Num for Key {
    type FromStrRadixErr = std::num::ParseIntError;
    fn from_str_radix(text: &str, radix: u32) -> Result<Self, Self::FromStrRadixErr> {
        i128::from_str_radix(text, radix).map(Self)
    }
}

impl Signed for Key {
    fn abs(&self) -> Self {
        Self(self.0.saturating_abs())
    }
    fn abs_sub(&self, other: &Self) -> Self {
        Self(self.0.saturating_sub(other.0).max(0))
    }
    fn signum(&self) -> Self {
        Self(self.0.signum())
    }
    fn is_positive(&self) -> bool {
        self.0 > 0
    }
    fn is_negative(&self) -> bool {
        self.0 < 0
    }
}

impl RTreeNum for Key {
    type OrdType = i128;
    fn ord(self) -> i128 {
        self.0
    }
}

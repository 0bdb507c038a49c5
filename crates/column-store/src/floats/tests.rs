use thermocline_seeded::Random;

use super::*;

#[test]
fn every_decimal_of_fifteen_digits_is_scaled_exactly() {
    let mut random = Random::new(3);
    for _ in 0..20_000 {
        let exponent = random.below(16);
        let digits = (random.next_u64() % 2_000_000_000_000_000) as i64 - 1_000_000_000_000_000;
        // The parser rounds correctly: the oracle.
        let value: f64 = format!("{digits}e-{exponent}").parse().unwrap();
        if digits != 0 {
            assert_eq!(scaled(value, POWERS[exponent]), Some(digits), "{digits}e-{exponent}");
        }
    }
}

#[test]
fn what_scaling_would_change_is_an_exception() {
    let odd = [-0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 5e-324, 1e300, 0.1 + 0.2, std::f64::consts::PI];
    for value in odd {
        assert_eq!(scaled(value, 100.0), None, "{value}");
    }
    assert_eq!(scaled(f64::from_bits(0x7ff8_0000_0000_0001), 1.0), None);
    assert_eq!(scaled(0.0, 100.0), Some(0));
    assert_eq!(scaled(-1.25f32, 100.0), Some(-125));
    assert_eq!(scaled(0.1f32, 10.0), Some(1), "the float nearest to a decimal of few digits");
}

#[test]
fn the_power_is_the_one_that_most_values_need() {
    let bits = |values: Vec<f64>| values.into_iter().map(f64::to_bits).collect::<Vec<_>>();
    let prices = bits((0..5000).map(|index| f64::from(index) / 100.0).collect());
    let scaled = scale::<f64>(&prices, 0.0).unwrap();
    assert_eq!((scaled.exponent, scaled.exceptions.len()), (2, 0));
    assert_eq!(scaled.numbers[4999], 4999);
    let whole = scale::<f64>(&bits(vec![1.0, 2.0, f64::NAN, 4.0]), 1.0).unwrap();
    assert_eq!(whole.exponent, 0);
    assert_eq!(whole.numbers, [1, 2, 2, 4]);
    assert_eq!(whole.exceptions, f64::NAN.to_bits().to_le_bytes());
    assert_eq!(whole.places, [0, 0, 0, 0, 1, 0, 0, 0, 2, 0], "no exception before, one in all, at place 2");
    assert!(scale::<f64>(&bits(vec![1.0, 2.0, f64::NAN, 4.0]), 0.2).is_none(), "a quarter are exceptions");
}

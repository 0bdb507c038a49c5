use thermocline_seeded::Random;

use super::*;

/// One bit after another, as the format document says it.
fn reference(packed: &[u8], width: u32) -> Vec<u64> {
    let word_bits = match width {
        0..=8 => 8,
        9..=16 => 16,
        17..=32 => 32,
        _ => 64,
    };
    let lane_count = 1024 / word_bits;
    let bit_of = |lane: usize, bit: usize| {
        let byte = bit / word_bits * 128 + lane * (word_bits / 8) + bit % word_bits / 8;
        u64::from(packed[byte] >> (bit % 8) & 1)
    };
    (0..1024)
        .map(|index| {
            let (row, lane) = (index / lane_count, index % lane_count);
            (0..width as usize).map(|bit| bit_of(lane, row * width as usize + bit) << bit).sum()
        })
        .collect()
}

#[test]
fn the_first_numbers_of_a_mini_block_that_is_cut_short_come_back() {
    for width in 0..=64 {
        let mut random = Random::new(u64::from(width) + 100);
        let mask = if width == 0 { 0 } else { u64::MAX >> (64 - width) };
        for count in [1, 8, 33, 128, 129, 260, 1000, 1023, 1024] {
            let mut values = [0; 1024];
            values[..count].fill_with(|| random.next_u64() & mask);
            let (mut whole, mut bytes) = (Vec::new(), vec![7]);
            pack(&values, width, &mut whole);
            pack_first(&values, count, width, &mut bytes);
            let bytes = &bytes[1..];
            let name = format!("{count} values of {width} bits");
            assert_eq!(bytes.len(), first_values_bytes(width, count), "{name}");
            assert_eq!(bytes, &whole[..bytes.len()], "{name}");
            assert!(bytes.len() < whole.len() || width == 0 || count > 800 || width < 8, "{name}: {}", bytes.len());
            let packed = PackedBits::of_first(width, bytes);
            let mut unpacked = [7u64; 1024];
            packed.unpack(&mut unpacked).unwrap();
            assert_eq!(unpacked[..count], values[..count], "{name}");
            assert!((0..count).all(|index| packed.get(index) == values[index]), "{name}");
        }
    }
}

#[test]
fn numbers_of_every_width_come_back_and_lie_as_the_format_says() {
    for width in 0..=64 {
        let mut random = Random::new(u64::from(width) + 1);
        let mask = if width == 0 { 0 } else { u64::MAX >> (64 - width) };
        let values: [u64; 1024] = std::array::from_fn(|_| random.next_u64() & mask);
        let mut bytes = Vec::new();
        pack(&values, width, &mut bytes);
        assert_eq!(bytes.len(), width as usize * BYTES_PER_WIDTH, "{width} bits");
        let packed = PackedBits::new(&bytes);
        assert_eq!(packed.width(), width);
        assert_eq!(packed.bytes(), bytes);
        assert_eq!(reference(&bytes, width), values, "{width} bits");
        let mut unpacked = [7u64; 1024];
        packed.unpack(&mut unpacked).unwrap();
        assert_eq!(unpacked, values, "{width} bits");
        macro_rules! with_common_registers {
            ($kernels:ident, $word:ty) => {{
                let mut values = [7 as $word; 1024];
                lanes::$kernels::unpack_any(packed.groups, width, &mut values);
                values.map(u64::from)
            }};
        }
        let common = match width {
            0..=8 => with_common_registers!(bytes, u8),
            9..=16 => with_common_registers!(halves, u16),
            17..=32 => with_common_registers!(words, u32),
            _ => with_common_registers!(longs, u64),
        };
        assert_eq!(common, values, "{width} bits");
        let places = [1023, 0, 7, 7, 512];
        let mut taken = Vec::new();
        packed.for_each_of(&places, |place, value| taken.push((place, value)));
        assert_eq!(taken, places.map(|place| (place, values[usize::from(place)])), "{width} bits");
        for (index, value) in values.iter().enumerate() {
            assert_eq!(packed.get(index), *value, "value {index} of {width} bits");
        }
    }
}

#[test]
fn a_word_takes_all_widths_up_to_its_own_and_refuses_wider_ones() {
    fn check<W: Word>(width: u32) {
        let mut random = Random::new(u64::from(width) + 99);
        let mask = if width == 0 { 0 } else { u64::MAX >> (64 - width) };
        let values: [u64; 1024] = std::array::from_fn(|_| random.next_u64() & mask);
        let mut bytes = Vec::new();
        pack(&values, width, &mut bytes);
        let mut unpacked = [W::default(); 1024];
        match PackedBits::new(&bytes).unpack(&mut unpacked) {
            Ok(()) => assert_eq!(unpacked.map(Into::into), values, "{width} bits in {}", W::BITS),
            Err(error) => {
                assert!(width > W::BITS, "{width} bits in {}: {error}", W::BITS);
                assert!(matches!(error, PageError::TooWide { .. }), "{error}");
            }
        }
    }
    for width in 0..=64 {
        check::<u8>(width);
        check::<u16>(width);
        check::<u32>(width);
        check::<u64>(width);
    }
}

#[test]
fn a_width_is_the_least_that_holds_the_number() {
    assert_eq!([0, 1, 2, 255, 256, u64::MAX].map(width_of), [0, 1, 2, 8, 9, 64]);
}

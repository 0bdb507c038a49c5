//! Curves against the points that they are made of, and who is taken from.

use thermocline_seeded::Random;

use super::*;

fn random_points(random: &mut Random) -> Vec<(u64, f64)> {
    (0..random.below_u64(6)).map(|_| (random.below_u64(15), random.unit() * 10.0)).collect()
}

#[test]
fn a_curve_is_the_least_concave_one_above_its_points() {
    for seed in 0..1000 {
        let mut random = Random::new(seed);
        let points = random_points(&mut random);
        let curve = BenefitCurve::new(points.clone());
        for &(bytes, seconds) in points.iter().filter(|(bytes, _)| *bytes > 0) {
            assert!(curve.seconds(bytes) >= seconds - 1e-9, "seed {seed}: {points:?}");
        }
        let segments: Vec<(u64, f64)> = curve.segments().collect();
        assert!(segments.windows(2).all(|pair| pair[0].1 > pair[1].1), "seed {seed}: {segments:?}");
        assert!(segments.iter().all(|(bytes, slope)| *bytes > 0 && *slope > 0.0), "seed {seed}: {segments:?}");
        let mut corner_bytes = 0;
        for (bytes, _) in segments {
            corner_bytes += bytes;
            let touches = |&(at, seconds): &(u64, f64)| {
                at == corner_bytes && (curve.seconds(corner_bytes) - seconds).abs() < 1e-9
            };
            assert!(points.iter().any(touches), "seed {seed}: corners are given points, {points:?}");
        }
    }
}

#[test]
fn points_that_save_no_more_than_fewer_bytes_count_for_nothing() {
    let curve = BenefitCurve::new([(10, 5.0), (20, 5.0), (30, f64::NAN), (40, 4.0)]);
    assert_eq!(curve.segments().collect::<Vec<_>>(), [(10, 0.5)]);
}

#[test]
fn a_step_is_bridged_so_that_what_comes_before_it_does_not_hide_it() {
    let step = BenefitCurve::new([(10, 0.1), (100, 100.0)]);
    assert_eq!(step.segments().collect::<Vec<_>>(), [(100, 1.0)]);
}

#[test]
fn the_cache_that_loses_least_is_asked_first_and_for_no_more_than_it_holds() {
    let caches = [(100, 3.0), (50, 1.0), (0, 0.0), (70, f64::INFINITY), (80, 1.0)];
    assert_eq!(shrink_order(60, &caches), [(4, 60)]);
    assert_eq!(shrink_order(200, &caches), [(4, 80), (1, 50), (0, 70)]);
    assert_eq!(shrink_order(1000, &caches), [(4, 80), (1, 50), (0, 100), (3, 70)]);
    assert_eq!(shrink_order(0, &caches), []);
}

#[test]
fn the_cache_whose_bytes_save_clearly_least_yields_a_step_at_a_time() {
    let others = [(1000, 5.0), (500, 1.0), (0, 0.0)];
    // A sixteenth of the memory is wanted free; what is free already is not asked for.
    assert_eq!(yielding(0, 1600, Some(9.0), &others), Some((1, 100)));
    assert_eq!(yielding(40, 1600, Some(9.0), &others), Some((1, 60)));
    assert_eq!(yielding(100, 1600, Some(9.0), &others), None);
    assert_eq!((missing_of_step(40, 1600), missing_of_step(100, 1600)), (Some(60), None));
    // Nobody gives more than it holds, and not to one that saves hardly more.
    assert_eq!(yielding(0, 1600, Some(9.0), &[(30, 1.0)]), Some((0, 30)));
    assert_eq!(yielding(0, 1600, Some(2.0), &others), None);
    // Who has nothing yet gets a first step, but not of what nobody can spare.
    assert_eq!(yielding(0, 1600, None, &others), Some((1, 100)));
    assert_eq!(yielding(0, 1600, None, &[(1000, f64::INFINITY)]), None);
    assert_eq!(yielding(0, 1600, None, &[]), None);
}

#[test]
fn a_cache_that_can_not_tell_what_more_would_save_takes_nothing_from_one_that_can() {
    assert_eq!(yielding(0, 1600, Some(f64::INFINITY), &[(1000, 1e-9)]), None);
}

#[test]
fn a_curve_tells_what_bytes_above_and_below_what_is_held_are_worth() {
    let curve = BenefitCurve::new([(10, 100.0), (30, 140.0)]);
    assert_eq!((curve.lost_s_per_byte(30, 10), curve.gained_s_per_byte(30, 10)), (2.0, 0.0));
    assert_eq!((curve.lost_s_per_byte(10, 10), curve.gained_s_per_byte(10, 10)), (10.0, 2.0));
    assert_eq!(curve.lost_s_per_byte(20, 20), 6.0);
    assert_eq!(curve.lost_s_per_byte(50, 20), 0.0, "what is above the last point is worth nothing");
    // No more can go than is held.
    assert_eq!((curve.lost_s_per_byte(5, 20), curve.lost_s_per_byte(0, 20)), (10.0, 0.0));
    assert_eq!(curve.lost_s_per_byte(30, 0), 2.0, "nothing is priced as one byte");
}

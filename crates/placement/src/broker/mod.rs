//! One memory budget among caches of different kinds.
//!
//! Caches differ in all but one thing: each can say how many seconds of query time more bytes would save it. Seconds
//! are best used where the next byte saves most, so the benefit is greatest when all marginal benefits are equal, or
//! nothing is left to give. Nobody computes that point, since curves change as caches do: [`shrink_order`] takes one step
//! towards it when a query needs memory now, and [`yielding`] one when a cache wants room. Pure; carrying it out is the
//! budget's part.
//!
//! Seconds are those that pass, and over about as many queries for each cache.
//!
//! Paper: design of this project; equal marginal benefit is the optimality condition of separable concave resource
//! allocation.

mod curve;
#[cfg(test)]
mod tests;

pub use curve::BenefitCurve;

/// Whom to ask for `bytes_needed`, and for how much: `(index, bytes)` in order, the least marginal benefit first.
///
/// `caches` are `(held_bytes, marginal benefit in seconds per byte)`. Nobody is asked for more than it holds, or for
/// nothing; the sum is less than needed only if all of them hold less. Of equal benefits the larger holder is asked
/// first, so that fewer are disturbed.
pub fn shrink_order(bytes_needed: u64, caches: &[(u64, f64)]) -> Vec<(usize, u64)> {
    let mut order: Vec<usize> = (0..caches.len()).filter(|&index| caches[index].0 > 0).collect();
    order.sort_by(|&a, &b| caches[a].1.total_cmp(&caches[b].1).then(caches[b].0.cmp(&caches[a].0)));
    let mut missing_bytes = bytes_needed;
    let mut requests = Vec::new();
    for index in order {
        if missing_bytes == 0 {
            break;
        }
        let bytes = caches[index].0.min(missing_bytes);
        missing_bytes -= bytes;
        requests.push((index, bytes));
    }
    requests
}

/// Parts of the memory that pass from one cache to another at a time.
const STEP_PART: u64 = 16;
/// A cache yields to another if its bytes save less than one in so many of the seconds that the other's do:
/// measurements are not better than that, and what is given up must be made anew.
const CLEARLY_LESS: f64 = 2.0;

/// What passes from one cache to another at a time where caches may have `limit_bytes` together.
pub fn step_bytes(limit_bytes: u64) -> u64 {
    limit_bytes / STEP_PART
}

/// What is missing for a step to be free; `None` if nothing is, so that nobody need yield.
pub fn missing_of_step(room_bytes: u64, limit_bytes: u64) -> Option<u64> {
    step_bytes(limit_bytes).checked_sub(room_bytes).filter(|&bytes| bytes > 0)
}

/// Which of the `others` yields room to a cache that wants some, and how many bytes, when caches may have `limit_bytes`
/// together and `room_bytes` are free. One step at a time, since curves change as caches do.
///
/// `asking_s_per_byte` is what a step more would save the asking cache: `None` if it has nothing yet to tell that by,
/// and it gets its first step from whoever loses least. Infinity says that all it has is in use, not what more of it
/// would save, and counts as nothing. `others` are `(held_bytes, marginal benefit in seconds per byte)`.
pub fn yielding(
    room_bytes: u64,
    limit_bytes: u64,
    asking_s_per_byte: Option<f64>,
    others: &[(u64, f64)],
) -> Option<(usize, u64)> {
    let wanted_bytes = missing_of_step(room_bytes, limit_bytes)?;
    let (index, &(held_bytes, benefit)) = others
        .iter()
        .enumerate()
        .filter(|(_, (held_bytes, _))| *held_bytes > 0)
        .min_by(|(_, left), (_, right)| left.1.total_cmp(&right.1).then(right.0.cmp(&left.0)))?;
    let worth = asking_s_per_byte.map_or(f64::INFINITY, |worth| if worth.is_finite() { worth } else { 0.0 });
    (benefit * CLEARLY_LESS < worth).then_some((index, wanted_bytes.min(held_bytes)))
}

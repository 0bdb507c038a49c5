//! Tests against a slow, obvious CSV parser (`oracle`).
#![allow(clippy::unwrap_used, clippy::panic)]

mod decoding;
mod errors;
mod inference;
mod oracle;
mod structure;

use thermocline_seeded::Random;

/// Prints the seed of a failing round.
pub(super) fn for_seeds(rounds: u64, test: impl Fn(&mut Random)) {
    for seed in 0..rounds {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| test(&mut Random::new(seed))));
        if let Err(panic) = outcome {
            #[allow(clippy::print_stderr)]
            {
                eprintln!("failed with seed {seed}");
            }
            std::panic::resume_unwind(panic);
        }
    }
}

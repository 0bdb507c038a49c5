//! How a page of a column is written: the encoding that costs least.
//!
//! **Owns**: the names of the encodings and the price of each. **Does not own** the encodings themselves or the
//! counting of values: `column-store` says how many bytes each would take.
//!
//! **Invariants**: the order of the candidates decides only between equal costs, for the first.
//!
//! A page's cost is what its bytes cost plus what decoding them costs, in nanoseconds. Bytes are counted twice, once
//! for reading them from a device and once for the memory that they take from other pages, which must then be read
//! instead: [`BYTE_NS`]. That is what makes a slower encoding pay: it must save a nanosecond's byte for each nanosecond
//! of decoding.

#[cfg(test)]
mod tests;

/// Price of a byte: read at 2 GB/s (one NVMe drive), and again for the room it takes in memory.
pub const BYTE_NS: f64 = 1.0;

/// How a run of whole numbers is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum IntegerEncoding {
    /// In each mini-block the difference to the least value, in as many bits as the largest takes.
    FrameOfReference,
    /// In each mini-block the differences between neighbours, less the least of them, likewise.
    Delta,
    /// Each run of equal values once, with its end.
    RunLength,
    /// Each run once, packed as in a frame of reference, and for each value a bit: whether a run starts there.
    PackedRuns,
}

impl IntegerEncoding {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::FrameOfReference, Self::Delta, Self::RunLength, Self::PackedRuns];
}

/// How a page is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Encoding {
    /// All values that are not NULL are the same; it is there once.
    Constant,
    /// Values one after another; booleans as bits; texts and binaries with where each starts.
    Plain,
    /// As whole numbers: integers, dates, times, decimals; of floating-point numbers the bits.
    Integers(IntegerEncoding),
    /// Texts or binaries by their place in a sorted dictionary.
    Dictionary(IntegerEncoding),
    /// Floating-point numbers as whole numbers that are divided by a power of ten, with exceptions.
    DecimalFloats(IntegerEncoding),
    /// Texts or binaries in which frequent pieces of up to eight bytes are one (FSST).
    Symbols,
}

/// One way to write a page.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Candidate {
    /// The way.
    pub encoding: Encoding,
    /// Bytes of the whole page, known or estimated.
    pub size_bytes: u64,
    /// Bytes of the values, decoded.
    pub decoded_bytes: u64,
    /// Runs, where the encoding is by runs; else 0.
    pub run_count: u64,
}

impl Candidate {
    /// What reading, keeping and decoding the page of `value_count` values cost, in nanoseconds.
    pub fn cost_ns(&self, value_count: u64) -> f64 {
        self.size_bytes as f64 * BYTE_NS + self.decode_ns(value_count)
    }

    /// What decoding takes, by the unit costs that `column-store`'s bench `decoding` prints (rounded; one core, no
    /// vector instructions beyond the target's base).
    fn decode_ns(&self, value_count: u64) -> f64 {
        let values = value_count as f64;
        let copied = self.decoded_bytes as f64 * 0.025;
        let integers = |encoding| match encoding {
            // Wide values are unpacked fewer at a time.
            IntegerEncoding::FrameOfReference => values * 0.35 + self.size_bytes as f64 * 0.03,
            // The sum of the differences is a chain: one value a cycle or two.
            IntegerEncoding::Delta => values * 0.55 + self.size_bytes as f64 * 0.08,
            // A run's end is a branch that is not foreseen.
            IntegerEncoding::RunLength => values * 0.1 + self.run_count as f64 * 6.0,
            // No branch at all: each value is looked up by how many runs have started.
            IntegerEncoding::PackedRuns => values * 0.8 + self.size_bytes as f64 * 0.03,
        };
        match self.encoding {
            Encoding::Constant => 0.0,
            Encoding::Plain => copied,
            Encoding::Integers(encoding) => integers(encoding),
            // Filters and groups work on the codes; the texts are looked up for what is left.
            Encoding::Dictionary(encoding) => integers(encoding) + copied,
            // A division.
            Encoding::DecimalFloats(encoding) => integers(encoding) + values * 0.8,
            Encoding::Symbols => values * 3.0 + self.decoded_bytes as f64 * 0.35,
        }
    }
}

/// The candidate that costs least, the first of equals; `None` if there are none.
pub fn choose(value_count: u64, candidates: &[Candidate]) -> Option<Candidate> {
    candidates.iter().copied().reduce(
        |best, next| {
            if next.cost_ns(value_count) < best.cost_ns(value_count) { next } else { best }
        },
    )
}

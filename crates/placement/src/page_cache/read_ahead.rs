//! How much to read ahead.

/// Enough for a fast disk to have always something to do.
const MOST_BYTES: u64 = 8 << 20;
/// Two of its longest reads.
const LEAST_BYTES: u64 = 2 << 20;
/// What is read ahead can't go, and what has passed goes soon after it: of memory it is one byte in so many.
const MEMORY_PART: u64 = 128;

/// Bytes that a pipeline reads ahead, all its threads together, where `memory_bytes` are for pages.
pub fn read_ahead_bytes(memory_bytes: u64) -> u64 {
    (memory_bytes / MEMORY_PART).clamp(LEAST_BYTES, MOST_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_part_of_memory_and_no_more_than_a_disk_needs() {
        assert_eq!(read_ahead_bytes(0), 2 << 20);
        assert_eq!(read_ahead_bytes(512 << 20), 4 << 20);
        assert_eq!(read_ahead_bytes(64 << 30), 8 << 20);
    }
}

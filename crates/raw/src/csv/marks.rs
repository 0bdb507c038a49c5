//! The bytes that give a CSV file its structure, and which of them count.
//!
//! Owns: the bit masks of 64 bytes ([`BlockMasks`]) and the state that decides which delimiters and newlines end a
//! field ([`QuoteState`]). Does not own: where the bits go (`index`, `splitter`).
//!
//! Invariants: a quote opens only as the first byte of a field; inside quotes a doubled quote (or a byte after the
//! escape byte) is data; delimiters and newlines inside quotes are data; a quote elsewhere is data. The state after a
//! block depends only on the bytes seen since the last record boundary, so blocks can be cut anywhere.
//!
//! Concurrency: plain values; each thread has its own.
//!
//! The usual trick (simdjson, Langdale and Lemire 2019, §3.1.1) takes each quote as a toggle: a prefix XOR of the quote
//! mask gives the bytes inside quotes. That is wrong for a lone quote in the middle of a field (`5" pipe`), so the
//! outcome is checked: every opening toggle must stand at the start of a field or directly after a closing one (a
//! doubled quote). Blocks that fail the check, and files with an escape byte, are walked bit by bit.

/// The structural bytes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Marks {
    /// Ends a field.
    pub(crate) delimiter: u8,
    /// Opens and closes a quoted field.
    pub(crate) quote: Option<u8>,
    /// Inside quotes makes the next byte data. `None`: a doubled quote stands for one.
    pub(crate) escape: Option<u8>,
}

/// One bit per byte of a 64-byte block, the first byte in the lowest bit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct BlockMasks {
    pub(crate) delimiters: u64,
    pub(crate) newlines: u64,
    pub(crate) quotes: u64,
    pub(crate) escapes: u64,
}

impl BlockMasks {
    /// Keeps the first `len` bytes of the block.
    #[inline(always)]
    pub(crate) fn truncated(self, len: usize) -> Self {
        let keep = if len >= 64 { !0 } else { (1_u64 << len) - 1 };
        Self {
            delimiters: self.delimiters & keep,
            newlines: self.newlines & keep,
            quotes: self.quotes & keep,
            escapes: self.escapes & keep,
        }
    }
}

/// How a block's masks are computed: an instruction set, or plain Rust.
pub(crate) trait MaskSource: Copy {
    /// The masks of one block.
    fn masks(self, block: &[u8; 64]) -> BlockMasks;
}

/// A loop over blocks that is compiled once per instruction set.
pub(crate) trait BlockLoop {
    /// What the loop yields.
    type Output;
    /// The loop; must be `#[inline(always)]`.
    fn run<M: MaskSource>(self, source: M) -> Self::Output;
}

/// Runs a loop with the best instruction set of this processor.
pub(crate) fn run_blocks<T: BlockLoop>(task: T, marks: Marks) -> T::Output {
    #[cfg(target_arch = "x86_64")]
    if let Some(avx2) = super::avx2::Avx2::detect() {
        return avx2.run(task, marks);
    }
    task.run(WordMasks(marks))
}

/// The safe reference: eight bytes at a time within a 64-bit word.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WordMasks(pub(crate) Marks);

const LOW_BITS: u64 = 0x7f7f_7f7f_7f7f_7f7f;

/// Bit i is set when byte i of `word` (little-endian) equals the byte repeated in `pattern`. Exact: no carries
/// between bytes, unlike the shorter subtraction trick.
#[inline(always)]
fn equal_bytes(word: u64, pattern: u64) -> u64 {
    let x = word ^ pattern;
    // The high bit of each byte is set when any bit of that byte of x is.
    let nonzero = ((x & LOW_BITS) + LOW_BITS) | x;
    let zero = !(nonzero | LOW_BITS);
    // Gathers the eight high bits into the low byte.
    (zero >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56
}

#[inline(always)]
fn repeat(byte: u8) -> u64 {
    u64::from(byte) * 0x0101_0101_0101_0101
}

impl MaskSource for WordMasks {
    #[inline(always)]
    fn masks(self, block: &[u8; 64]) -> BlockMasks {
        let marks = self.0;
        let mut masks = BlockMasks::default();
        for (index, bytes) in block.as_chunks::<8>().0.iter().enumerate() {
            let word = u64::from_le_bytes(*bytes);
            let shift = index * 8;
            masks.delimiters |= equal_bytes(word, repeat(marks.delimiter)) << shift;
            masks.newlines |= equal_bytes(word, repeat(b'\n')) << shift;
            if let Some(quote) = marks.quote {
                masks.quotes |= equal_bytes(word, repeat(quote)) << shift;
            }
            if let Some(escape) = marks.escape {
                masks.escapes |= equal_bytes(word, repeat(escape)) << shift;
            }
        }
        masks
    }
}

/// What has been seen up to a byte, as far as it decides about the bytes after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QuoteState {
    /// All ones inside quotes, else zero.
    inside: u64,
    /// 1 when a quote as the next byte opens (or, after a closing quote, is a doubled one).
    may_open: u64,
    /// 1 when the next byte is data because the last one was an escape inside quotes.
    escaped: u64,
}

impl Default for QuoteState {
    /// At the start of a record.
    fn default() -> Self {
        Self { inside: 0, may_open: 1, escaped: 0 }
    }
}

impl QuoteState {
    /// The state after unquoted bytes of which the last one is `last`.
    pub(crate) fn after_unquoted(last: u8, marks: Marks) -> Self {
        Self { inside: 0, may_open: u64::from(last == b'\n' || last == marks.delimiter), escaped: 0 }
    }

    /// Whether the next byte is inside quotes.
    #[inline(always)]
    pub(crate) fn is_inside(self) -> bool {
        self.inside != 0
    }

    /// The delimiters and newlines of a block that end a field; moves the state past the block.
    #[inline(always)]
    pub(crate) fn field_ends(&mut self, masks: BlockMasks) -> u64 {
        let ends = masks.delimiters | masks.newlines;
        if masks.quotes == 0 && self.inside == 0 {
            self.may_open = ends >> 63;
            return ends;
        }
        self.quoted_field_ends(masks)
    }

    fn quoted_field_ends(&mut self, masks: BlockMasks) -> u64 {
        if masks.escapes != 0 || self.escaped != 0 {
            return self.walk(masks, 64);
        }
        let inside = prefix_xor(masks.quotes) ^ self.inside;
        let ends = (masks.delimiters | masks.newlines) & !inside;
        let opens = masks.quotes & inside;
        let closes = masks.quotes & !inside;
        let boundary = ends | closes;
        if opens & !((boundary << 1) | self.may_open) != 0 {
            return self.walk(masks, 64);
        }
        // Sign extension spreads the last bit over the word.
        self.inside = ((inside as i64) >> 63) as u64;
        self.may_open = boundary >> 63;
        ends
    }

    /// The same for the first `len` bytes of a block, whose masks have no bits beyond; `len` is 1 to 64.
    #[inline(always)]
    pub(crate) fn partial_field_ends(&mut self, masks: BlockMasks, len: usize) -> u64 {
        self.walk(masks, len as u32)
    }

    /// The same bit by bit, for whatever the toggles cannot express.
    #[cold]
    #[inline(never)]
    fn walk(&mut self, masks: BlockMasks, len: u32) -> u64 {
        let mut left = masks.delimiters | masks.newlines | masks.quotes | masks.escapes;
        let mut ends = 0_u64;
        let mut inside = self.inside != 0;
        let mut opens_at = if self.may_open != 0 { 0 } else { u32::MAX };
        let mut data_at = if self.escaped != 0 { 0 } else { u32::MAX };
        while left != 0 {
            let at = left.trailing_zeros();
            let bit = 1_u64 << at;
            left &= left - 1;
            if inside {
                if at == data_at {
                    continue;
                }
                if masks.escapes & bit != 0 {
                    data_at = at + 1;
                } else if masks.quotes & bit != 0 {
                    inside = false;
                    opens_at = at + 1;
                }
            } else if masks.quotes & bit != 0 {
                inside = at == opens_at;
            } else if (masks.delimiters | masks.newlines) & bit != 0 {
                ends |= bit;
                opens_at = at + 1;
            }
        }
        self.inside = if inside { !0 } else { 0 };
        self.may_open = u64::from(!inside && opens_at == len);
        self.escaped = u64::from(inside && data_at == len);
        ends
    }
}

/// Bit i is the XOR of bits 0 to i.
#[inline(always)]
fn prefix_xor(mut bits: u64) -> u64 {
    bits ^= bits << 1;
    bits ^= bits << 2;
    bits ^= bits << 4;
    bits ^= bits << 8;
    bits ^= bits << 16;
    bits ^ (bits << 32)
}

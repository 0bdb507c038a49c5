//! The choice of symbols: from a sample, in rounds, each by how the one before wrote it.

use super::{MAX_LENGTH, MAX_SYMBOLS, Symbol, SymbolTable};

/// Bytes of the sample: enough for a page's frequent pieces, little enough to be read five times (the paper's §4.2).
const SAMPLE_BYTES: usize = 16 << 10;
/// Bytes of the sample that follow each other: whole texts mostly, or much of a long one, from many places.
const PIECE_BYTES: usize = 512;
/// Rounds after which tables hardly get better; symbols may double their length in each.
const ROUNDS: usize = 5;
/// Single bytes count this many times: without them there are escapes, which cost a byte more each.
const SINGLE_WEIGHT: u32 = 8;
/// Bytes and symbols that can be counted: 256 bytes as they are, then symbols.
const COUNTED: usize = 256 + MAX_SYMBOLS;

/// A table for texts of `text_bytes` together, and the share of bytes that it leaves of them. `None` if there are none.
pub(crate) fn build<'t>(text_bytes: usize, texts: impl Iterator<Item = &'t [u8]>) -> Option<(SymbolTable, f64)> {
    let sample = sample(text_bytes, texts);
    let sample_bytes: usize = sample.iter().map(|text| text.len()).sum();
    if sample_bytes == 0 {
        return None;
    }
    let mut table = SymbolTable::new(Vec::new());
    for round in 0..ROUNDS {
        let counts = Counts::of(&table, &sample);
        // Pairs are wanted in every round but the last, whose table should rather hold what is proven.
        table = SymbolTable::new(counts.best(&table, round + 1 < ROUNDS));
    }
    let mut encoded = Vec::with_capacity(sample_bytes);
    for text in &sample {
        table.encode(text, &mut encoded);
    }
    Some((table, encoded.len() as f64 / sample_bytes as f64))
}

/// Pieces from all over the texts, at equal distances by bytes: of long texts several each, and of NULLs and empty ones
/// none, however many lie together.
fn sample<'t>(text_bytes: usize, texts: impl Iterator<Item = &'t [u8]>) -> Vec<&'t [u8]> {
    let distance = (text_bytes / (SAMPLE_BYTES / PIECE_BYTES)).max(PIECE_BYTES);
    let mut sample = Vec::new();
    // Where the text starts and the next piece does, of all texts laid together.
    let (mut start, mut piece) = (0, 0);
    for text in texts.filter(|text| !text.is_empty()) {
        let end = start + text.len();
        while piece < end {
            let piece_end = piece + PIECE_BYTES;
            sample.push(&text[piece.max(start) - start..piece_end.min(end) - start]);
            if piece_end > end {
                // The rest of it is in the next texts.
                break;
            }
            piece += distance;
        }
        start = end;
    }
    sample
}

/// How often bytes and symbols, and pairs of them, were written.
struct Counts {
    single: Vec<u32>,
    pairs: Vec<u16>,
}

impl Counts {
    fn of(table: &SymbolTable, sample: &[&[u8]]) -> Self {
        let mut counts = Self { single: vec![0; COUNTED], pairs: vec![0; COUNTED * COUNTED] };
        for text in sample {
            let mut last = None;
            table.walk(text, |code, first| {
                let counted = code.map_or(usize::from(first), |code| 256 + usize::from(code));
                counts.count(last, counted);
                if code.is_some_and(|code| table.symbols[usize::from(code)].length > 1) {
                    // Its first byte alone is a candidate too, and so is the one before made longer by it.
                    counts.count(last, usize::from(first));
                }
                last = Some(counted);
            });
        }
        counts
    }

    fn count(&mut self, last: Option<usize>, counted: usize) {
        self.single[counted] += 1;
        if let Some(last) = last {
            let pair = &mut self.pairs[last * COUNTED + counted];
            *pair = pair.saturating_add(1);
        }
    }

    /// The symbols that save most.
    fn best(&self, table: &SymbolTable, with_pairs: bool) -> Vec<Symbol> {
        let symbol = |counted: usize| match counted {
            0..256 => Symbol::byte(counted as u8),
            _ => table.symbols[counted - 256],
        };
        let mut candidates: Vec<(Symbol, u32)> = Vec::new();
        for (left, count) in self.single.iter().enumerate().filter(|(_, count)| **count > 0) {
            let first = symbol(left);
            let weight = if first.length == 1 { SINGLE_WEIGHT } else { first.length as u32 };
            candidates.push((first, count * weight));
            if !with_pairs || first.length == MAX_LENGTH {
                continue;
            }
            for (right, count) in self.pairs[left * COUNTED..][..COUNTED].iter().enumerate() {
                // What was seen once is chance.
                if *count > 1 {
                    let joined = first.joined(symbol(right));
                    candidates.push((joined, u32::from(*count) * joined.length as u32));
                }
            }
        }
        // The same piece may be found in several ways.
        candidates.sort_unstable_by_key(|(symbol, _)| *symbol);
        candidates.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                kept.1 = kept.1.saturating_add(next.1);
            }
            same
        });
        candidates.sort_unstable_by_key(|(symbol, gain)| (std::cmp::Reverse(*gain), *symbol));
        candidates.into_iter().take(MAX_SYMBOLS).map(|(symbol, _)| symbol).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_sampled_of_empty_texts_among_others_of_which_some_is() {
        // A piece of the sample goes from the first text to the last.
        let texts: Vec<&[u8]> =
            [vec![&b"one"[..]], vec![&b""[..]; 1000], vec![&b"two"[..]], vec![&b""[..]; 1000]].concat();
        assert_eq!(sample(6, texts.into_iter()), [b"one", b"two"]);
    }
}

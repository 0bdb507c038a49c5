//! From the name of a field to what is wanted of it.
//!
//! **Owns**: the wanted names of one object, and the prediction of which name comes next.
//!
//! **Invariants**: a prediction is the bytes of a key as they stood in an earlier record, from behind its opening quote
//! to behind its colon and one space; since they include the closing quote, equal bytes are the same name. Predictions
//! only ever save time: a miss looks the name up and replaces the prediction. Their number and length are bounded.
//!
//! Records of one file mostly have the same fields in the same order (Mison, PVLDB 2017, §4.2, builds on the same
//! observation): one comparison of sixteen bytes then replaces finding the key's end, hashing and comparing.

use super::bad::{Bad, What};
use super::byte_scan::{byte, skip_space, string_end};
use super::token::unescape;
use super::walk::Walk;

/// What [`FieldTable::next`] gives for names that nobody asked for.
pub(super) const UNWANTED: u32 = u32::MAX;

/// Positions with a prediction of their own; later fields are looked up. Objects used as maps with ever new keys
/// would otherwise grow the list without end.
const MAX_PREDICTIONS: usize = 1024;

/// Longer keys are looked up.
const MAX_TOKEN_BYTES: usize = 256;

/// How many optional fields in a row may be missing before a key is looked up.
const LOOK_AHEAD: usize = 4;

/// Names of an object, numbered.
#[derive(Debug, Default, Clone)]
pub(super) struct FieldTable {
    /// Sorted by name, for binary search.
    names: Vec<(Box<[u8]>, u32)>,
    predictions: Vec<Prediction>,
}

/// A key expected at some position in an object.
#[derive(Debug, Clone)]
struct Prediction {
    /// The token's first sixteen bytes, zero-padded, and ones where it has bytes.
    head: u128,
    mask: u128,
    /// The token whole.
    token: Box<[u8]>,
    field: u32,
}

impl Prediction {
    fn new(token: &[u8], field: u32) -> Self {
        let mut head = [0; 16];
        let mut mask = [0; 16];
        for ((head, mask), byte) in head.iter_mut().zip(&mut mask).zip(token) {
            *head = *byte;
            *mask = 0xff;
        }
        Self { head: u128::from_le_bytes(head), mask: u128::from_le_bytes(mask), token: Box::from(token), field }
    }

    /// Whether the token stands at `pos`. False within sixteen bytes of the buffer's end, where it is looked up.
    #[inline(always)]
    fn is_at(&self, buf: &[u8], pos: usize) -> bool {
        let Some(chunk) = buf.get(pos..).and_then(|rest| rest.first_chunk::<16>()) else { return false };
        (u128::from_le_bytes(*chunk) ^ self.head) & self.mask == 0
            && (self.token.len() <= 16 || buf.get(pos + 16..pos + self.token.len()) == self.token.get(16..))
    }
}

impl FieldTable {
    /// Names numbered from zero in this order; no name twice.
    pub(super) fn new<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let mut names: Vec<(Box<[u8]>, u32)> =
            names.into_iter().zip(0..).map(|(name, field)| (Box::from(name.as_bytes()), field)).collect();
        names.sort();
        Self { names, predictions: Vec::new() }
    }

    /// Number of names.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.names.len()
    }

    /// Reads the key whose first byte (behind the quote) is at `pos`: the field's number, or [`UNWANTED`], and the
    /// position behind the colon. `guess` is the position among the predictions, zero at an object's start.
    #[inline(always)]
    pub(super) fn next(&mut self, walk: &mut Walk<'_>, pos: usize, guess: &mut usize) -> Result<(u32, usize), Bad> {
        if let Some(prediction) = self.predictions.get(*guess)
            && prediction.is_at(walk.buf, pos)
        {
            *guess += 1;
            return Ok((prediction.field, pos + prediction.token.len()));
        }
        self.next_unpredicted(walk, pos, guess)
    }

    #[inline(never)]
    fn next_unpredicted(&mut self, walk: &mut Walk<'_>, pos: usize, guess: &mut usize) -> Result<(u32, usize), Bad> {
        for ahead in 1..=LOOK_AHEAD {
            if let Some(prediction) = self.predictions.get(*guess + ahead)
                && prediction.is_at(walk.buf, pos)
            {
                *guess += ahead + 1;
                return Ok((prediction.field, pos + prediction.token.len()));
            }
        }
        let (quote, has_escape) = string_end(walk.buf, pos, walk.end)?;
        let key = &walk.buf[pos..quote];
        let field = if has_escape {
            unescape(key, walk.scratch).map_err(|bad| Bad::new(pos + bad.at(), bad.what()))?;
            self.find(walk.scratch.as_bytes())
        } else {
            self.find(key)
        };
        let colon = skip_space(walk.buf, quote + 1);
        if byte(walk.buf, colon) != b':' {
            return Err(Bad::new(colon, What::Colon));
        }
        let value = colon + 1 + usize::from(byte(walk.buf, colon + 1) == b' ');
        let token = &walk.buf[pos..value];
        if *guess < MAX_PREDICTIONS && token.len() <= MAX_TOKEN_BYTES {
            let prediction = Prediction::new(token, field);
            match self.predictions.get_mut(*guess) {
                Some(old) => *old = prediction,
                None => self.predictions.push(prediction),
            }
            *guess += 1;
        }
        Ok((field, value))
    }

    fn find(&self, name: &[u8]) -> u32 {
        match self.names.binary_search_by(|(known, _)| known.as_ref().cmp(name)) {
            Ok(at) => self.names[at].1,
            Err(_) => UNWANTED,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::*;

    fn keys(table: &mut FieldTable, record: &str) -> Vec<u32> {
        let mut scratch = String::new();
        let mut walk = Walk { buf: record.as_bytes(), end: record.len(), scratch: &mut scratch, culprit: None };
        let mut guess = 0;
        let mut found = Vec::new();
        let mut pos = 1;
        while byte(walk.buf, pos) == b'"' {
            let (field, value) = table.next(&mut walk, pos + 1, &mut guess).unwrap();
            found.push(field);
            pos = super::super::skip::skip_value(walk.buf, value, walk.end, 0).unwrap() + 1;
        }
        found
    }

    #[test]
    fn names_are_found_in_any_order_and_spelling() {
        let mut table = FieldTable::new(["a", "a_name_longer_than_sixteen_bytes", "ü", "b\"c"]);
        let u = UNWANTED;
        for _ in 0..2 {
            for (record, expected) in [
                (
                    r#"{"a":1,"x":2,"a_name_longer_than_sixteen_bytes":3,"ü":4,"b\"c":5}                "#,
                    vec![0, u, 1, 2, 3],
                ),
                (
                    r#"{"x":2,"a_name_longer_than_sixteen_bytez":3,"\u00fc":4,"\u0061":1}               "#,
                    vec![u, u, 2, 0],
                ),
                (r#"{"aa":2,"a" : 3,"":4,"b\u0022c":  1}"#, vec![u, 0, u, 3]),
                (r#"{"a":1}"#, vec![0]),
            ] {
                assert_eq!(keys(&mut table, record), expected, "{record}");
            }
        }
    }

    #[test]
    fn predictions_stay_bounded_when_keys_never_repeat() {
        let mut table = FieldTable::new(["k5"]);
        let record: String = (0..3000).map(|at| format!("\"k{at}\":0,")).collect();
        let found = keys(&mut table, &format!("{{{record}}}"));
        assert_eq!(found.iter().filter(|&&field| field == 0).count(), 1);
        assert_eq!(table.predictions.len(), MAX_PREDICTIONS);
    }
}

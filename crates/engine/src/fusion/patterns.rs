//! Patterns of `LIKE` that ask for several pieces in a row, such as `%special%requests%`. Arrow makes a regular expression of
//! them; to look for one piece after the other takes less time than to start that for each text.

use datafusion::arrow::array::{Array, ArrayAccessor, ArrayRef, AsArray, BooleanArray};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::datatypes::DataType;
use datafusion::logical_expr::{Expr, Like};
use memchr::memmem::Finder;

/// A pattern whose only wildcards are `%`, between pieces that are not empty.
#[derive(Debug)]
pub(super) struct Pieces {
    /// What a text has to begin with. An empty piece would do, but to compare nothing with masked loads from where nothing
    /// is takes a processor with AVX-512 longer than all else here.
    first: Option<Vec<u8>>,
    inner: Vec<Finder<'static>>,
    /// What it has to end with.
    last: Option<Vec<u8>>,
    is_negated: bool,
}

impl Pieces {
    /// Of a condition that is such a pattern of the column that it is about. `None` too for patterns of one piece: Arrow
    /// looks for these as fast.
    pub(super) fn of(condition: &Expr) -> Option<Self> {
        let Expr::Like(Like { negated, expr, pattern, escape_char: None, case_insensitive: false }) = condition else {
            return None;
        };
        let (Expr::Column(_), Expr::Literal(pattern, _)) = (expr.as_ref(), pattern.as_ref()) else { return None };
        let pieces = Self::of_pattern(pattern.try_as_str()??)?;
        Some(Self { is_negated: *negated, ..pieces })
    }

    fn of_pattern(pattern: &str) -> Option<Self> {
        if pattern.contains(['_', '\\']) || !pattern.contains('%') {
            return None;
        }
        let parts: Vec<&str> = pattern.split('%').collect();
        let [first, inner @ .., last] = parts.as_slice() else { return None };
        if parts.iter().filter(|part| !part.is_empty()).count() < 2 {
            return None;
        }
        let inner = inner.iter().filter(|part| !part.is_empty()).map(|part| Finder::new(*part).into_owned());
        let end = |piece: &str| (!piece.is_empty()).then(|| piece.as_bytes().to_vec());
        Some(Self { first: end(first), inner: inner.collect(), last: end(last), is_negated: false })
    }

    /// Of which texts it is true.
    pub(super) fn answers(&self, texts: &ArrayRef) -> Option<BooleanArray> {
        match texts.data_type() {
            DataType::Utf8 => Some(self.answers_of(texts.as_string::<i32>())),
            DataType::LargeUtf8 => Some(self.answers_of(texts.as_string::<i64>())),
            DataType::Utf8View => Some(self.answers_of(texts.as_string_view())),
            _ => None,
        }
    }

    fn answers_of<'t>(&self, texts: impl ArrayAccessor<Item = &'t str>) -> BooleanArray {
        // What lies where there is a NULL is a text too.
        let passed = BooleanBuffer::collect_bool(texts.len(), |at| {
            self.match_text(texts.value(at).as_bytes()) != self.is_negated
        });
        BooleanArray::new(passed, texts.nulls().cloned())
    }

    fn match_text(&self, text: &[u8]) -> bool {
        let without_first = self.first.as_ref().map_or(Some(text), |first| text.strip_prefix(first.as_slice()));
        let Some(rest) = without_first else { return false };
        let without_last = self.last.as_ref().map_or(Some(rest), |last| rest.strip_suffix(last.as_slice()));
        let Some(mut rest) = without_last else { return false };
        for piece in &self.inner {
            match piece.find(rest) {
                Some(at) => rest = &rest[at + piece.needle().len()..],
                None => return false,
            }
        }
        true
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{Scalar, StringArray, StringViewArray};
    use datafusion::arrow::compute::{cast, like};
    use thermocline_seeded::Random;

    use super::*;

    #[test]
    fn patterns_of_several_pieces_match_what_arrow_says() {
        let mut random = Random::new(7);
        let mut text = |most: u64, letters: &[&str]| -> String {
            (0..random.below(most as usize + 1)).map(|_| *random.pick(letters)).collect()
        };
        let texts: Vec<Option<String>> =
            (0..400).map(|at| (at % 17 != 3).then(|| text(9, &["a", "b", "ab", "ö", "\n"]))).collect();
        let texts: ArrayRef = Arc::new(texts.into_iter().collect::<StringArray>());
        let mut compared = 0;
        for _ in 0..2000 {
            let pattern = text(7, &["a", "b", "%", "%", "ö"]);
            let Some(mut pieces) = Pieces::of_pattern(&pattern) else { continue };
            compared += 1;
            let expected =
                like(&texts.as_string::<i32>(), &Scalar::new(StringArray::from(vec![pattern.clone()]))).unwrap();
            for data_type in [DataType::Utf8, DataType::LargeUtf8, DataType::Utf8View] {
                let texts = cast(&texts, &data_type).unwrap();
                assert_eq!(pieces.answers(&texts).unwrap(), expected, "{pattern} of {data_type}");
            }
            pieces.is_negated = true;
            let negated = datafusion::arrow::compute::not(&expected).unwrap();
            assert_eq!(pieces.answers(&texts).unwrap(), negated, "not {pattern}");
        }
        assert!(compared > 500, "{compared} patterns");
        let empty: ArrayRef = Arc::new(StringViewArray::from(Vec::<&str>::new()));
        assert_eq!(Pieces::of_pattern("%a%b").unwrap().answers(&empty).unwrap().len(), 0);
    }

    #[test]
    fn patterns_of_one_piece_and_with_other_wildcards_are_left_to_arrow() {
        for pattern in ["", "abc", "%", "%%", "abc%", "%abc", "%abc%", "%a_c%d%", r"%a\%%b%"] {
            assert!(Pieces::of_pattern(pattern).is_none(), "{pattern}");
        }
        // One that begins and ends with the same letters must have them twice.
        let twice = Pieces::of_pattern("ab%ab").unwrap();
        assert!(twice.match_text(b"abab") && twice.match_text(b"ab-ab") && !twice.match_text(b"ab"));
    }
}

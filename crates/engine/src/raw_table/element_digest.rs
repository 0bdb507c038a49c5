//! What is asked of the elements of a list, in short: part of what tells two tables apart where bad records are left out.
//!
//! A digest and not the predicate: it is part of the key of everything that is remembered of a file, and a list of ten
//! thousand values would be there as a megabyte of text.

use std::hash::Hash;

use thermocline_predicate::{Conjunction, FieldPath};
use xxhash_rust::xxh3::Xxh3;

/// A digest of the part of `predicate` that is about fields of `list`, or the list itself; None if there is none. Equal
/// for equal parts, however they were written; for others with a chance of 2⁻¹²⁸.
pub(super) fn element_digest(list: &FieldPath, predicate: &Conjunction) -> Option<u128> {
    let mut of_elements = predicate.fields().filter(|(path, _)| path.starts_with(list)).peekable();
    of_elements.peek()?;
    let mut hasher = Xxh3::new();
    of_elements.for_each(|field| field.hash(&mut hasher));
    Some(hasher.digest128())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use thermocline_predicate::{Domain, Scalar};

    use super::*;

    fn digest(path: &str, domain: Domain) -> Option<u128> {
        let predicate = Conjunction::all().and(FieldPath::root("id"), Domain::point(Scalar::Int(1)));
        element_digest(&FieldPath::root("items"), &predicate.and(FieldPath::new(path.split('.')), domain))
    }

    #[test]
    fn other_questions_of_the_elements_have_other_digests() {
        let list = |step: i128| Domain::points((0..1000).map(|value| Scalar::Int(value * step)));
        let texts = |text: &str| Domain::point(Scalar::from(text));
        let digests = [
            digest("items.x", list(2)),
            digest("items.x", list(3)),
            digest("items.x", list(2).union(&Domain::null())),
            digest("items.y", list(2)),
            digest("items", Domain::not_null()),
            digest("items.x", Domain::not_null()),
            digest("items.x", texts("a")),
            digest("items.x", texts("b")),
            digest("items.x", Domain::prefix("a")),
        ];
        assert_eq!(digests.iter().flatten().collect::<HashSet<_>>().len(), digests.len());
    }

    #[test]
    fn the_same_question_has_one_digest_and_no_question_none() {
        let range = |low, high| {
            Domain::interval(std::ops::Bound::Included(Scalar::Int(low)), std::ops::Bound::Excluded(Scalar::Int(high)))
        };
        let written_otherwise = range(0, 50).union(&range(40, 90));
        assert_eq!(digest("items.x", range(0, 90)), digest("items.x", written_otherwise));
        assert_eq!(digest("other", range(0, 90)), None);
        assert_eq!(digest("itemsx", range(0, 90)), None);
    }
}

//! The items registered under one field.

use thermocline_predicate::Domain;

use super::bounds::Digest;
use super::hull::hull;
use super::interval_tree::{IntervalTree, Place};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct FieldIndex {
    /// By the hull of domains that do not admit NULL.
    strict: IntervalTree,
    /// By the hull of domains that do.
    nullable: IntervalTree,
    /// Domains of NULL alone.
    null_only: Vec<Place>,
}

impl FieldIndex {
    pub(crate) fn is_empty(&self) -> bool {
        self.strict.is_empty() && self.nullable.is_empty() && self.null_only.is_empty()
    }

    pub(crate) fn insert(&mut self, domain: &Domain, place: Place) {
        match hull(domain) {
            Some(keys) if domain.admits_null() => self.nullable.insert(keys, Digest::of(domain), place),
            Some(keys) => self.strict.insert(keys, Digest::of(domain), place),
            None => self.null_only.push(place),
        }
    }

    pub(crate) fn remove(&mut self, domain: &Domain, place: Place) {
        match hull(domain) {
            Some(keys) if domain.admits_null() => _ = self.nullable.remove(keys, Digest::of(domain), place),
            Some(keys) => _ = self.strict.remove(keys, Digest::of(domain), place),
            None => self.null_only.retain(|&other| other != place),
        }
    }

    /// Items whose domain may cover `wanted`, the tightest of each kind first.
    pub(crate) fn candidates(&self, wanted: &Domain) -> impl Iterator<Item = Place> + '_ {
        // Every hull covers nothing: NULL alone is asked for.
        let keys = hull(wanted).unwrap_or((i128::MAX, i128::MIN));
        let digest = Digest::of(wanted);
        let strict = (!wanted.admits_null()).then(|| self.strict.covering(keys, digest)).into_iter().flatten();
        let null_only: &[Place] = if wanted.intervals().is_empty() { &self.null_only } else { &[] };
        null_only.iter().rev().copied().chain(strict).chain(self.nullable.covering(keys, digest))
    }

    /// Items whose hull overlaps `wanted`'s, and those of NULL alone where that is wanted: the most overlap of each
    /// kind first.
    pub(crate) fn overlapping(&self, wanted: &Domain) -> impl Iterator<Item = Place> + '_ {
        let keys = hull(wanted);
        let of = move |tree| keys.map(|keys| IntervalTree::overlapping(tree, keys)).into_iter().flatten();
        let null_only: &[Place] = if wanted.admits_null() { &self.null_only } else { &[] };
        null_only.iter().rev().copied().chain(of(&self.nullable)).chain(of(&self.strict))
    }
}

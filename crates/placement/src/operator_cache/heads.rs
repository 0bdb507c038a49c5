//! How much of an item to keep where all of it finds no room, or is not worth what it would displace: its head, which
//! has the rows of the first part of the file. Queries read those, and scan the rest.
//!
//! An item of all rows is worth to each query the scan that it spares; its head, as much of that as it has of the rows.
//! So worth goes with size, and the best use of memory is that of the fractional knapsack (Dantzig, Operations Research
//! 1957): what is worth most for a byte as a whole, and of one item the part that still fits. Items that stay or go as a
//! whole leave room unused, and where the largest of them are read most often they leave most of it.
//!
//! Both ends are parts then: a newcomer may be admitted in part ([`admit_head`]), and an item that is there may give up
//! its last rows alone ([`tail_parts`]). Each part is an item to the policy, which was used as often as the whole.
//!
//! Owns these two; not which items can be divided, nor where a file can be parted. Pure.
//!
//! Paper: beyond ReCache, whose items are kept or not. Of each column the proportion that buys the most time is what
//! HPCache keeps (PVLDB 2024, §4); here all columns of an item are cut at one row, since text is passed over as a whole.

use super::admission::{Admission, admit};
use super::{Eviction, EvictionPolicy, ItemMeasurements, PolicyState};

/// Parts that an item is divided into at most, and steps in which heads are tried.
pub const PART_COUNT: usize = 16;

/// The part of a newcomer that is admitted.
#[derive(Clone, Debug, PartialEq)]
pub struct AdmittedPart {
    /// Of the newcomer's bytes, above 0 and below 1.
    pub share: f64,
    /// What makes room for it.
    pub eviction: Eviction,
}

/// The largest part of `newcomer` that [`admit`] would admit, after it refused the whole; `None` where that is less than
/// one in [`PART_COUNT`], or where the policy does not divide items. The arguments are those of [`admit`].
pub fn admit_head(
    policy: &dyn EvictionPolicy,
    state: PolicyState,
    items: &[ItemMeasurements],
    newcomer: &ItemMeasurements,
    free_bytes: u64,
    limit_bytes: u64,
) -> Option<AdmittedPart> {
    if !policy.divides_items() {
        return None;
    }
    (1..PART_COUNT).rev().find_map(|count| {
        let share = count as f64 / PART_COUNT as f64;
        let head = part_of(newcomer, share);
        match admit(policy, state, items, &head, free_bytes, limit_bytes) {
            Admission::Admit { eviction } => Some(AdmittedPart { share, eviction }),
            Admission::Refuse { .. } => None,
        }
    })
}

/// Whether a head of columns that answer this share of the latest queries is worth making: columns are not added to it,
/// and queries that need another scan the whole file.
pub fn is_mostly_asked(answered_share: f64) -> bool {
    answered_share >= 0.5
}

/// Scans of what a query asks for that it takes at most to make a head: one of all columns.
const MAKING_SCANS: f64 = 5.0;

/// Whether to try to make a head that has `share` of the rows anew, now that so much could be kept. The scan that tries
/// may be refused, so it is tried at uses that get rarer: for half as much again, or for what pays if as many uses follow.
pub fn is_outgrown(use_count: u64, share: f64, possible_share: f64) -> bool {
    let is_much = possible_share >= (share * 1.5).min(1.0);
    use_count.is_power_of_two() && (is_much || (possible_share - share) * use_count as f64 >= MAKING_SCANS)
}

/// Whether an item of all rows of columns that answer this share of the latest queries may give up its last rows for a
/// newcomer: not where it has yet to be given further columns, which a head can't be. Where `may_hold_all` is false it never
/// will have all.
pub fn is_full_grown(answered_share: f64, may_hold_all: bool) -> bool {
    !may_hold_all || answered_share >= 0.95
}

/// Whether the head of all columns that are asked for, of `head_share` of the rows, is to take the place of all rows of
/// some columns, which answer `answered_share` of the latest queries and can't be given the others for lack of room. The
/// scan that makes it may keep less than is hoped for, so it is made for clearly more. Not where `head_share` is all.
pub fn is_better_in_part(head_share: f64, answered_share: f64) -> bool {
    head_share < 1.0 && head_share * 0.9 > answered_share
}

/// Whether the scan after so many others is to look for that: it may be refused what it hoped for, so one in four does.
pub fn looks_for_better_part(scan_count: u32) -> bool {
    scan_count.is_multiple_of(4)
}

/// The parts that an item can give up one by one, as items of their own; `sizes_bytes` are theirs, the last rows' first,
/// and `id` gives each its number.
pub fn tail_parts<'a>(
    item: &'a ItemMeasurements,
    sizes_bytes: &'a [u64],
    id: impl Fn(usize) -> u64 + 'a,
) -> impl Iterator<Item = ItemMeasurements> + 'a {
    sizes_bytes.iter().enumerate().map(move |(index, &size_bytes)| {
        let part = part_of(item, size_bytes as f64 / item.size_bytes.max(1) as f64);
        ItemMeasurements { id: id(index), size_bytes, ..part }
    })
}

/// So much of an item, which was used as often and as lately.
fn part_of(item: &ItemMeasurements, share: f64) -> ItemMeasurements {
    let part = |whole: u64| (whole as f64 * share).ceil() as u64;
    ItemMeasurements {
        execute_ns: part(item.execute_ns),
        cache_ns: part(item.cache_ns),
        reuse_scan_ns: part(item.reuse_scan_ns),
        size_bytes: part(item.size_bytes),
        ..*item
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::operator_cache::SourceKind;
    use crate::operator_cache::lru::Lru;
    use crate::operator_cache::recache::ReCache;

    fn item(id: u64, size_bytes: u64, execute_ns: u64, use_count: u64) -> ItemMeasurements {
        ItemMeasurements {
            id,
            kind: SourceKind::Json,
            use_count,
            execute_ns,
            cache_ns: 0,
            reuse_scan_ns: 0,
            lookup_ns: 0,
            size_bytes,
            baseline: 0.0,
            last_use: id,
        }
    }

    fn head_of(items: &[ItemMeasurements], newcomer: &ItemMeasurements, free_bytes: u64) -> Option<AdmittedPart> {
        admit_head(&ReCache, PolicyState::default(), items, newcomer, free_bytes, 1 << 20)
    }

    #[test]
    fn as_much_is_kept_as_fits() {
        let newcomer = item(9, 4 << 20, 1_000_000, 1);
        let head = head_of(&[], &newcomer, 1 << 20).unwrap();
        assert_eq!((head.share, head.eviction.victims.len()), (0.25, 0));
        assert_eq!(head_of(&[], &newcomer, (1 << 20) - 1).unwrap().share, 3.0 / 16.0);
        assert_eq!(head_of(&[], &newcomer, (256 << 10) - 1), None, "less than a sixteenth");
        let lru = admit_head(&Lru, PolicyState::default(), &[], &newcomer, 1 << 20, 1 << 20);
        assert_eq!(lru, None, "its items are kept or not");
    }

    #[test]
    fn a_head_is_made_anew_at_rarer_and_rarer_uses_if_there_is_room_for_half_as_much_again_or_all() {
        let uses: Vec<u64> = (1..100).filter(|&use_count| is_outgrown(use_count, 0.25, 0.375)).collect();
        assert_eq!(uses, [1, 2, 4, 8, 16, 32, 64]);
        assert!(!is_outgrown(4, 0.25, 0.37) && is_outgrown(4, 0.9, 1.0) && !is_outgrown(4, 0.9, 0.95));
        // A tenth of a scan each time, until that makes up for the scan that makes it.
        let uses: Vec<u64> = (1..300).filter(|&use_count| is_outgrown(use_count, 0.5, 0.6)).collect();
        assert_eq!(uses, [64, 128, 256]);
        assert!(is_mostly_asked(0.5) && !is_mostly_asked(0.49));
    }

    #[test]
    fn a_head_of_all_columns_takes_the_place_of_all_rows_of_some_where_it_answers_clearly_more() {
        assert!(is_better_in_part(0.75, 0.6));
        assert!(!is_better_in_part(0.75, 0.7) && !is_better_in_part(0.5, 0.5));
        assert!(!is_better_in_part(1.0, 0.5), "the item itself can grow");
        assert_eq!((0..12).filter(|&scan_count| looks_for_better_part(scan_count)).count(), 3);
        assert!(is_full_grown(1.0, true) && !is_full_grown(0.9, true) && is_full_grown(0.1, false));
    }

    #[test]
    fn a_head_displaces_no_more_than_it_is_worth() {
        // Of each byte it saves twice what the first newcomer does.
        let kept = item(1, 1 << 20, 20_000_000, 1);
        let sizes_bytes = [(1 << 20) / 8; 8];
        let parts: Vec<_> = tail_parts(&kept, &sizes_bytes, |index| index as u64).collect();
        assert_eq!(parts.iter().map(|part| part.execute_ns).collect::<Vec<_>>(), [2_500_000; 8]);
        let half_as_dense = item(9, 1 << 20, 10_000_000, 1);
        assert_eq!(head_of(&parts, &half_as_dense, 0), None);
        let denser = item(9, 1 << 20, 21_000_000, 1);
        let head = head_of(&parts, &denser, 0).unwrap();
        let freed_bytes: u64 = head.eviction.victims.iter().map(|victim| victim.size_bytes).sum();
        assert!(freed_bytes as f64 >= head.share * f64::from(1 << 20), "{head:?}");
        assert!(head.eviction.victims.len() < 8, "a part of it stays: {head:?}");
    }
}

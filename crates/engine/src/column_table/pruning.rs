//! Which row groups of a column table can have a row that a query wants, by the least and greatest values of their pages.
//!
//! A row group that is left out is never read. What stays may still have no such row: the filter above the scan decides.

use std::ops::Bound;

use thermocline_column_store::{RowGroup, ZoneMap, ZoneValue};
use thermocline_predicate::{Conjunction, Domain, Scalar};

use super::scan_run::GroupPlace;
use super::store::OpenTable;

/// The row groups of a table that can have rows which pass `predicate`.
pub(super) fn row_groups(table: &OpenTable, predicate: &Conjunction) -> Vec<GroupPlace> {
    let column_of = |name: &str| table.schema.index_of(name).ok();
    let mut places = Vec::new();
    for (segment, open) in table.segments.iter().enumerate() {
        for (row_group, group) in open.segment.row_groups().iter().enumerate() {
            if may_pass(predicate, group, column_of) {
                places.push(GroupPlace { segment, row_group });
            }
        }
    }
    places
}

/// Whether a row group can have a row that passes `predicate`, of whose fields `column_of` knows the columns' indexes.
fn may_pass(predicate: &Conjunction, row_group: &RowGroup, mut column_of: impl FnMut(&str) -> Option<usize>) -> bool {
    predicate.fields().all(|(path, domain)| {
        let [column] = path.parts() else { return true };
        let Some(page) = column_of(column).and_then(|index| row_group.pages().get(index)) else { return true };
        has_value_of(domain, page.zone_map(), page.null_count(), row_group.row_count())
    })
}

fn has_value_of(domain: &Domain, zone_map: &ZoneMap, null_count: usize, row_count: usize) -> bool {
    if domain.admits_null() && null_count > 0 {
        return true;
    }
    null_count < row_count
        && domain.intervals().iter().any(|interval| {
            let (low, high) = (zone_bound(&interval.low), zone_bound(&interval.high));
            zone_map.may_contain(low.as_ref(), high.as_ref())
        })
}

fn zone_bound(bound: &Bound<Scalar>) -> Bound<ZoneValue> {
    bound.as_ref().map(|value| match value {
        Scalar::Boolean(value) => ZoneValue::Integer(i128::from(*value)),
        Scalar::Int(value) => ZoneValue::Integer(*value),
        Scalar::Float(value) => ZoneValue::Float(*value),
        Scalar::Utf8(value) => ZoneValue::Bytes(value.as_bytes().to_vec()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone_map(least: i128, greatest: i128) -> ZoneMap {
        ZoneMap {
            least: Some(ZoneValue::Integer(least)),
            greatest: Some(ZoneValue::Integer(greatest)),
            ..ZoneMap::default()
        }
    }

    fn between(low: i128, high: i128) -> Domain {
        Domain::interval(Bound::Included(Scalar::Int(low)), Bound::Included(Scalar::Int(high)))
    }

    #[test]
    fn a_group_stays_exactly_if_one_of_the_ranges_reaches_its_values() {
        let map = zone_map(10, 20);
        for (domain, expected) in [
            (between(0, 9), false),
            (between(0, 10), true),
            (between(20, 30), true),
            (between(21, 30), false),
            (between(0, 5).union(&between(25, 30)), false),
            (between(0, 5).union(&between(15, 15)), true),
            (Domain::not_null(), true),
            (Domain::null(), false),
            (Domain::none(), false),
        ] {
            assert_eq!(has_value_of(&domain, &map, 0, 100), expected, "{domain:?}");
        }
    }

    #[test]
    fn nulls_are_found_where_there_are_some_and_nothing_else_where_all_are() {
        assert!(has_value_of(&Domain::null(), &zone_map(1, 2), 1, 100));
        assert!(!has_value_of(&Domain::not_null(), &ZoneMap::default(), 100, 100));
        assert!(has_value_of(&Domain::null().union(&between(50, 60)), &zone_map(1, 2), 3, 100));
    }
}

//! Orders with lists of one length, their numbers uniform: the data of ReCache's figures 5 and 6 (PVLDB 2017, §4.1).
//!
//! The fields are those of TPC-H orders with their lineitems, in the format of `lab generate nested`, free text and
//! words left out: they are not read by any of the queries, and the paper says that its data types are numeric (§6).

use super::draws::Draws;
use super::json::object;

/// One order with `element_count` lineitems, without the line's end.
pub(super) fn push_order(out: &mut Vec<u8>, draws: &mut Draws, id: u64, element_count: u64) {
    let key = id as i64 + 1;
    object(out, |order| {
        order.integer("o_orderkey", key);
        order.integer("o_custkey", draws.between(1, 150_000));
        order.hundredths("o_totalprice", draws.between(85_700, 55_528_500));
        order.integer("o_shippriority", 0);
        order.list("lineitems", element_count, |out, index| {
            object(out, |lineitem| {
                lineitem.integer("l_orderkey", key);
                lineitem.integer("l_partkey", draws.between(1, 200_000));
                lineitem.integer("l_suppkey", draws.between(1, 10_000));
                lineitem.integer("l_linenumber", index as i64 + 1);
                lineitem.integer("l_quantity", draws.between(1, 50));
                lineitem.hundredths("l_extendedprice", draws.between(90_100, 10_495_000));
                lineitem.hundredths("l_discount", draws.between(0, 10));
                lineitem.hundredths("l_tax", draws.between(0, 8));
            });
        });
    });
}

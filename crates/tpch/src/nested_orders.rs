//! Orders with their lineitems, one JSON object a line: the nested data set of ReCache's evaluation (§6,
//! "orderLineitems").
//!
//! `{"o_orderkey":1, … all nine order fields …, "lineitems":[{"l_orderkey":1, … all sixteen …}, …]}`, without the
//! spaces. Every order has one to seven lineitems. At scale 1: 1,500,000 lines, about 2.58 GB.

use std::io::{self, Write};

use tpchgen::distribution::Distributions;
use tpchgen::generators::{LineItemGenerator, OrderGenerator};

use super::DataSet;
use super::fields::JsonObject;
use super::ordered_parts::write_parts;
use super::tables::TpchRow;
use super::tpch::TpchTable;

/// Writes all orders, nested, and returns the bytes written.
///
/// # Errors
/// The first error of `out`.
pub fn write_nested_orders(data: DataSet<'_>, out: &mut impl Write) -> io::Result<u64> {
    let part_count = TpchTable::Orders.part_count(data.scale);
    write_parts(out, part_count, data.thread_count, |index, buffer| {
        let (scale, text, words) = (data.scale, data.text, Distributions::static_default());
        let (part, parts) = (index as i32 + 1, part_count as i32);
        let orders = OrderGenerator::new_with_distributions_and_text_pool(scale, part, parts, words, text);
        let lineitems = LineItemGenerator::new_with_distributions_and_text_pool(scale, part, parts, words, text);
        // Both generators walk the same orders in the same sequence, so one look ahead joins them.
        let mut lineitems = lineitems.iter().peekable();
        for order in orders.iter() {
            let mut object = JsonObject::begin(buffer);
            order.fields(&mut object);
            let list = object.name("lineitems");
            list.push(b'[');
            let mut first = true;
            while let Some(lineitem) = lineitems.next_if(|lineitem| lineitem.l_orderkey == order.o_orderkey) {
                if !first {
                    list.push(b',');
                }
                first = false;
                let mut element = JsonObject::begin(list);
                lineitem.fields(&mut element);
                element.end();
            }
            list.push(b']');
            object.end();
            buffer.push(b'\n');
        }
        debug_assert!(lineitems.next().is_none(), "every lineitem belongs to an order of its part");
    })
}

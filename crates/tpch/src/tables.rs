//! The fields of the eight TPC-H tables, each listed once for every format.
//!
//! `l_quantity` is a whole number, as in `tpchgen`'s own CSV; prices, rates and balances have two decimals.

use tpchgen::generators::{Customer, LineItem, Nation, Order, Part, PartSupp, Region, Supplier};

use super::fields::FieldSink;

/// A row that can name and hand over its fields.
pub(super) trait TpchRow {
    fn fields(&self, sink: &mut impl FieldSink);
}

impl TpchRow for Nation<'_> {
    fn fields(&self, sink: &mut impl FieldSink) {
        sink.integer("n_nationkey", self.n_nationkey);
        sink.known_word("n_name", self.n_name);
        sink.integer("n_regionkey", self.n_regionkey);
        sink.text("n_comment", self.n_comment);
    }
}

impl TpchRow for Region<'_> {
    fn fields(&self, sink: &mut impl FieldSink) {
        sink.integer("r_regionkey", self.r_regionkey);
        sink.known_word("r_name", self.r_name);
        sink.text("r_comment", self.r_comment);
    }
}

impl TpchRow for Part<'_> {
    fn fields(&self, sink: &mut impl FieldSink) {
        sink.integer("p_partkey", self.p_partkey);
        sink.word("p_name", &self.p_name);
        sink.word("p_mfgr", self.p_mfgr);
        sink.word("p_brand", self.p_brand);
        sink.known_word("p_type", self.p_type);
        sink.integer("p_size", self.p_size.into());
        sink.known_word("p_container", self.p_container);
        sink.decimal("p_retailprice", self.p_retailprice.into_inner());
        sink.text("p_comment", self.p_comment);
    }
}

impl TpchRow for Supplier {
    fn fields(&self, sink: &mut impl FieldSink) {
        sink.integer("s_suppkey", self.s_suppkey);
        sink.word("s_name", self.s_name);
        sink.text("s_address", &self.s_address.to_string());
        sink.integer("s_nationkey", self.s_nationkey);
        sink.word("s_phone", &self.s_phone);
        sink.decimal("s_acctbal", self.s_acctbal.into_inner());
        sink.text("s_comment", &self.s_comment);
    }
}

impl TpchRow for Customer<'_> {
    fn fields(&self, sink: &mut impl FieldSink) {
        sink.integer("c_custkey", self.c_custkey);
        sink.word("c_name", self.c_name);
        sink.text("c_address", &self.c_address.to_string());
        sink.integer("c_nationkey", self.c_nationkey);
        sink.word("c_phone", &self.c_phone);
        sink.decimal("c_acctbal", self.c_acctbal.into_inner());
        sink.known_word("c_mktsegment", self.c_mktsegment);
        sink.text("c_comment", self.c_comment);
    }
}

impl TpchRow for PartSupp<'_> {
    fn fields(&self, sink: &mut impl FieldSink) {
        sink.integer("ps_partkey", self.ps_partkey);
        sink.integer("ps_suppkey", self.ps_suppkey);
        sink.integer("ps_availqty", self.ps_availqty.into());
        sink.decimal("ps_supplycost", self.ps_supplycost.into_inner());
        sink.text("ps_comment", self.ps_comment);
    }
}

impl TpchRow for Order<'_> {
    fn fields(&self, sink: &mut impl FieldSink) {
        sink.integer("o_orderkey", self.o_orderkey);
        sink.integer("o_custkey", self.o_custkey);
        sink.known_word("o_orderstatus", self.o_orderstatus.as_str());
        sink.decimal("o_totalprice", self.o_totalprice.into_inner());
        sink.date("o_orderdate", self.o_orderdate);
        sink.known_word("o_orderpriority", self.o_orderpriority);
        sink.word("o_clerk", self.o_clerk);
        sink.integer("o_shippriority", self.o_shippriority.into());
        sink.text("o_comment", self.o_comment);
    }
}

impl TpchRow for LineItem<'_> {
    fn fields(&self, sink: &mut impl FieldSink) {
        sink.integer("l_orderkey", self.l_orderkey);
        sink.integer("l_partkey", self.l_partkey);
        sink.integer("l_suppkey", self.l_suppkey);
        sink.integer("l_linenumber", self.l_linenumber.into());
        sink.integer("l_quantity", self.l_quantity);
        sink.decimal("l_extendedprice", self.l_extendedprice.into_inner());
        sink.decimal("l_discount", self.l_discount.into_inner());
        sink.decimal("l_tax", self.l_tax.into_inner());
        sink.known_word("l_returnflag", self.l_returnflag);
        sink.known_word("l_linestatus", self.l_linestatus);
        sink.date("l_shipdate", self.l_shipdate);
        sink.date("l_commitdate", self.l_commitdate);
        sink.date("l_receiptdate", self.l_receiptdate);
        sink.known_word("l_shipinstruct", self.l_shipinstruct);
        sink.known_word("l_shipmode", self.l_shipmode);
        sink.text("l_comment", self.l_comment);
    }
}

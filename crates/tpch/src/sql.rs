//! TPC-H in SQL: the tables' columns with their types, and the 22 queries with the parameters that the specification
//! validates answers with.
//!
//! The queries stand in files, `queries/q01.sql` to `q22.sql`, for other programs to read. Beside the specification's
//! text they name columns of views as common tables (Q15), and order rows wholly where it leaves ties (Q10, Q11).

use super::TpchTable;

macro_rules! queries {
    ($($name:literal)*) => {
        [$(($name, include_str!(concat!("../queries/", $name, ".sql")))),*]
    };
}

/// The queries with their names, `q01` to `q22`.
pub const QUERIES: [(&str, &str); 22] = queries!(
    "q01" "q02" "q03" "q04" "q05" "q06" "q07" "q08" "q09" "q10" "q11"
    "q12" "q13" "q14" "q15" "q16" "q17" "q18" "q19" "q20" "q21" "q22"
);

impl TpchTable {
    /// The columns as `CREATE TABLE` declares them.
    pub fn columns_sql(self) -> &'static str {
        match self {
            Self::Customer => {
                "c_custkey BIGINT, c_name VARCHAR, c_address VARCHAR, c_nationkey BIGINT, c_phone VARCHAR, \
                 c_acctbal DECIMAL(15, 2), c_mktsegment VARCHAR, c_comment VARCHAR"
            }
            Self::Lineitem => {
                "l_orderkey BIGINT, l_partkey BIGINT, l_suppkey BIGINT, l_linenumber BIGINT, \
                 l_quantity DECIMAL(15, 2), l_extendedprice DECIMAL(15, 2), l_discount DECIMAL(15, 2), \
                 l_tax DECIMAL(15, 2), l_returnflag VARCHAR, l_linestatus VARCHAR, l_shipdate DATE, l_commitdate DATE, \
                 l_receiptdate DATE, l_shipinstruct VARCHAR, l_shipmode VARCHAR, l_comment VARCHAR"
            }
            Self::Nation => "n_nationkey BIGINT, n_name VARCHAR, n_regionkey BIGINT, n_comment VARCHAR",
            Self::Orders => {
                "o_orderkey BIGINT, o_custkey BIGINT, o_orderstatus VARCHAR, o_totalprice DECIMAL(15, 2), \
                 o_orderdate DATE, o_orderpriority VARCHAR, o_clerk VARCHAR, o_shippriority BIGINT, o_comment VARCHAR"
            }
            Self::Part => {
                "p_partkey BIGINT, p_name VARCHAR, p_mfgr VARCHAR, p_brand VARCHAR, p_type VARCHAR, p_size BIGINT, \
                 p_container VARCHAR, p_retailprice DECIMAL(15, 2), p_comment VARCHAR"
            }
            Self::Partsupp => {
                "ps_partkey BIGINT, ps_suppkey BIGINT, ps_availqty BIGINT, ps_supplycost DECIMAL(15, 2), \
                 ps_comment VARCHAR"
            }
            Self::Region => "r_regionkey BIGINT, r_name VARCHAR, r_comment VARCHAR",
            Self::Supplier => {
                "s_suppkey BIGINT, s_name VARCHAR, s_address VARCHAR, s_nationkey BIGINT, s_phone VARCHAR, \
                 s_acctbal DECIMAL(15, 2), s_comment VARCHAR"
            }
        }
    }
}

//! TPC-H in SQL: the tables' columns with their types, and the 22 queries with the parameters that the specification
//! validates answers with.
//!
//! Both stand in files, `columns/customer.sql` to `supplier.sql` and `queries/q01.sql` to `q22.sql`, for other programs
//! to read. Where the specification makes a view (Q15) there is a common table, and rows are ordered wholly where it
//! leaves ties (Q10, Q11, Q16).

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
            Self::Customer => include_str!("../columns/customer.sql"),
            Self::Lineitem => include_str!("../columns/lineitem.sql"),
            Self::Nation => include_str!("../columns/nation.sql"),
            Self::Orders => include_str!("../columns/orders.sql"),
            Self::Part => include_str!("../columns/part.sql"),
            Self::Partsupp => include_str!("../columns/partsupp.sql"),
            Self::Region => include_str!("../columns/region.sql"),
            Self::Supplier => include_str!("../columns/supplier.sql"),
        }
    }
}

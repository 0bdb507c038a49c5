"""ClickHouse's tables for the Star Schema Benchmark, as its documentation of this benchmark makes them.

Owns types, partitions and orders; asks nothing. After https://clickhouse.com/docs/get-started/sample-datasets/star-schema.
Columns are named and ordered as in `lab generate ssb`'s files. The page also joins all tables into one beforehand, which
nobody does here. The files have dates as numbers, YYYYMMDD, and the only flag that is a text; here they are `Date` and
`UInt8` as there: queries do no more with dates than join by them.
"""

from __future__ import annotations

TYPES = {
    "lineorder": """lo_orderkey UInt32, lo_linenumber UInt8, lo_custkey UInt32, lo_partkey UInt32, lo_suppkey UInt32,
        lo_orderdate Date, lo_orderpriority LowCardinality(String), lo_shippriority UInt8, lo_quantity UInt8,
        lo_extendedprice UInt32, lo_ordtotalprice UInt32, lo_discount UInt8, lo_revenue UInt32, lo_supplycost UInt32,
        lo_tax UInt8, lo_commitdate Date, lo_shipmode LowCardinality(String)""",
    "customer": """c_custkey UInt32, c_name String, c_address String, c_city LowCardinality(String),
        c_nation LowCardinality(String), c_region LowCardinality(String), c_phone String,
        c_mktsegment LowCardinality(String)""",
    "supplier": """s_suppkey UInt32, s_name String, s_address String, s_city LowCardinality(String),
        s_nation LowCardinality(String), s_region LowCardinality(String), s_phone String""",
    "part": """p_partkey UInt32, p_name String, p_mfgr LowCardinality(String), p_category LowCardinality(String),
        p_brand1 LowCardinality(String), p_color LowCardinality(String), p_type LowCardinality(String), p_size UInt8,
        p_container LowCardinality(String)""",
    "date": """d_datekey Date, d_date FixedString(18), d_dayofweek LowCardinality(String), d_month LowCardinality(String),
        d_year UInt16, d_yearmonthnum UInt32, d_yearmonth LowCardinality(FixedString(7)), d_daynuminweek UInt8,
        d_daynuminmonth UInt8, d_daynuminyear UInt16, d_monthnuminyear UInt8, d_weeknuminyear UInt8,
        d_sellingseason String, d_lastdayinweekfl UInt8, d_lastdayinmonthfl UInt8, d_holidayfl UInt8, d_weekdayfl UInt8""",
}
LAYOUTS = {
    "lineorder": "PARTITION BY toYear(lo_orderdate) ORDER BY (lo_orderdate, lo_orderkey)",
    "customer": "ORDER BY c_custkey",
    "supplier": "ORDER BY s_suppkey",
    "part": "ORDER BY p_partkey",
    "date": "ORDER BY d_datekey",
}


def statements(table: str, source: str) -> list[str]:
    """What makes a table of what `source` gives, and merges its parts."""
    types = [column.split(maxsplit=1) for column in TYPES[table].split(",")]
    values = [f"YYYYMMDDToDate({name})" if of_column == "Date" else name for name, of_column in types]
    return [
        f"CREATE TABLE `{table}` ({TYPES[table]}) ENGINE = MergeTree {LAYOUTS[table]}",
        f"INSERT INTO `{table}` SELECT {', '.join(values)} FROM {source}",
        f"OPTIMIZE TABLE `{table}` FINAL",
    ]

#!/usr/bin/env python3
"""Writes random select-project-join queries over TPC-H, one a line: the template of ReCache (PVLDB 2017), §6.

    lab/recache/spj_queries.py [--count 100] [--seed 1] [--scale 1] > queries.sql

Each of the five tables is taken with a probability of one half; draws whose tables are not all linked by keys are made
again. Of each table taken: one random numeric attribute is aggregated, and a random range is asked for of one drawn apart
from it, which may be the same; the range's width and place are uniform. Tables are joined on their common keys.
"""

import argparse
import random

# Numeric attributes with their least and greatest value at scale factor 1; those that grow with the scale are marked.
ATTRIBUTES = {
    "lineitem": [
        ("l_orderkey", 1, 6_000_000, True),
        ("l_partkey", 1, 200_000, True),
        ("l_suppkey", 1, 10_000, True),
        ("l_linenumber", 1, 7, False),
        ("l_quantity", 1, 50, False),
        ("l_extendedprice", 901, 104_950, False),
        ("l_discount", 0, 0.1, False),
        ("l_tax", 0, 0.08, False),
    ],
    "orders": [
        ("o_orderkey", 1, 6_000_000, True),
        ("o_custkey", 1, 150_000, True),
        ("o_totalprice", 857, 555_285, False),
        ("o_shippriority", 0, 0, False),
    ],
    "customer": [("c_custkey", 1, 150_000, True), ("c_nationkey", 0, 24, False), ("c_acctbal", -1000, 10_000, False)],
    "partsupp": [
        ("ps_partkey", 1, 200_000, True),
        ("ps_suppkey", 1, 10_000, True),
        ("ps_availqty", 1, 9_999, False),
        ("ps_supplycost", 1, 1_000, False),
    ],
    "part": [("p_partkey", 1, 200_000, True), ("p_size", 1, 50, False), ("p_retailprice", 901, 2_099, False)],
}
KEYS = {
    ("lineitem", "orders"): [("l_orderkey", "o_orderkey")],
    ("orders", "customer"): [("o_custkey", "c_custkey")],
    ("lineitem", "partsupp"): [("l_partkey", "ps_partkey"), ("l_suppkey", "ps_suppkey")],
    ("lineitem", "part"): [("l_partkey", "p_partkey")],
    ("partsupp", "part"): [("ps_partkey", "p_partkey")],
}
AGGREGATES = ["sum", "avg", "min", "max", "count"]


def are_linked(tables: list[str]) -> bool:
    """Whether keys lead from any of the tables to all others."""
    reached, todo = set(), [tables[0]]
    while todo:
        table = todo.pop()
        reached.add(table)
        todo += [other for pair in KEYS if table in pair for other in pair if other in tables and other not in reached]
    return len(reached) == len(tables)


def query(draw: random.Random, scale: float) -> str:
    """One query over tables named as in TPC-H, their attributes' ranges those of that scale factor."""
    tables = []
    while not tables or not are_linked(tables):
        tables = [table for table in ATTRIBUTES if draw.random() < 0.5]
    aggregates, conditions = [], []
    for pair, keys in KEYS.items():
        if set(pair) <= set(tables):
            conditions += [f"{left} = {right}" for left, right in keys]
    for table in tables:
        aggregates.append(f"{draw.choice(AGGREGATES)}({draw.choice(ATTRIBUTES[table])[0]})")
        name, low, high, grows = draw.choice(ATTRIBUTES[table])
        high = high * scale if grows else high
        share = draw.random()
        start = low + draw.random() * (1 - share) * (high - low)
        digits = 2 if isinstance(high, float) and not grows else 0
        conditions.append(f"{name} BETWEEN {start:.{digits}f} AND {start + share * (high - low):.{digits}f}")
    return f"SELECT {', '.join(aggregates)} FROM {', '.join(tables)} WHERE {' AND '.join(conditions)}"


def main() -> None:
    """Prints queries."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--scale", type=float, default=1)
    arguments = parser.parse_args()
    draw = random.Random(arguments.seed)
    for _ in range(arguments.count):
        print(query(draw, arguments.scale))


if __name__ == "__main__":
    main()

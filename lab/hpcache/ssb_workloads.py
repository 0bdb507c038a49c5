"""What is asked, in which order: questions with their names.

Owns the workloads. `ssb`: the thirteen queries of the Star Schema Benchmark in order, in three rounds; its first round
from a cold cache is the paper's figure 9. `two`: the paper's figure 8, two queries with disjoint columns in turn, each
three times; which ones they were the paper does not say. A query's name: that query alone.
"""

from __future__ import annotations

from ssb.queries import NAMES, queries

Question = tuple[str, str]
"""A query's name and its text."""

TABLES = ["lineorder", "customer", "supplier", "part", "date"]
ROUNDS = 3
TWO = {
    "first": "SELECT sum(lo_extendedprice), sum(lo_discount), count(lo_orderdate) FROM lineorder WHERE lo_quantity < 25",
    "second": "SELECT sum(lo_revenue), sum(lo_supplycost), count(lo_partkey) FROM lineorder WHERE lo_tax < 5",
}
"""Both do little but read."""


def questions(workload: str) -> list[Question]:
    """The workload's questions in order."""
    if workload == "ssb":
        return [question for number in range(ROUNDS) for question in queries(number).items()]
    if workload == "two":
        return list(TWO.items()) * ROUNDS
    return [(workload, queries(0)[workload])]


ONE_ROUND = {"ssb": len(NAMES), "two": len(TWO)}
"""Questions of a round."""

#!/usr/bin/env python3
"""Compares page policies on the Star Schema Benchmark: the same questions, in the same order, with the same memory.

    lab generate ssb --scale 1 --out DATA
    .venv/bin/python lab/hpcache/policies.py --data DATA --db /dev/shm/ssb.db --out results/policies.json

The database is made of DATA if it is not there; in a folder of /dev/shm its medium is memory. Reads are then slowed down to a
simulated bandwidth, given as multiples of the workload's median P (the pace of its pipelines with all pages in memory, which
is measured first), and the caches are given a share of the bytes that the workload reads. `--real` leaves reads as they are.
Each configuration runs in a process of its own, from a cold pool. Answers are compared between all of them.

Two workloads: `ssb`, the thirteen queries in order, three rounds; `two`, the paper's figure 8: two queries with disjoint columns,
each three times, in turn.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from queries import queries

TABLES = ["lineorder", "customer", "supplier", "part", "date"]
POLICIES = ["proportional", "lru", "mru", "2q", "lfu", "os"]
# Disjoint columns, both limited by their input.
TWO = {
    "first": "SELECT sum(lo_extendedprice), sum(lo_discount), count(lo_orderdate) FROM lineorder WHERE lo_quantity < 25",
    "second": "SELECT sum(lo_revenue), sum(lo_supplycost), count(lo_partkey) FROM lineorder WHERE lo_tax < 5",
}


def workload(name: str) -> list[tuple[str, str]]:
    """The questions in order, with their names."""
    if name == "two":
        return [(query, sql) for query, sql in TWO.items() for _ in range(3)]
    return [(query, sql) for number in range(3) for query, sql in queries(number).items()]


def connect(arguments: argparse.Namespace, **options: Any) -> Any:
    """The database, its tables made if need be."""
    import thermocline

    db = thermocline.connect(arguments.db, **options)
    have = {row[0] for row in db.sql("SELECT table_name FROM thermocline.tables").fetchall()}
    for table in TABLES:
        if table not in have:
            db.sql(f"CREATE TABLE {table} AS SELECT * FROM '{arguments.data}/{table}.parquet'")
    return db


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """One configuration, in this process."""
    db = connect(arguments, memory="8GB")
    db.sql(f"SET thermocline.page_policy = '{arguments.policy}'")
    if arguments.bandwidth:
        db.sql(f"SET thermocline.simulated_bandwidth = '{arguments.bandwidth // 1000}KB'")
    if arguments.cache_memory:
        db.sql(f"SET thermocline.cache_memory = '{arguments.cache_memory // 1000}KB'")
    seconds, answers = [], []
    for _, sql in workload(arguments.workload):
        began = time.perf_counter()
        rows = db.sql(sql).fetchall()
        seconds.append(time.perf_counter() - began)
        answers.append(sorted(str(row) for row in rows))
    pipelines = db.sql(
        "SELECT pipeline, size_bytes, read_bytes, throughput_bytes_per_s, predicted_s, in_memory_s, took_s FROM thermocline.pipelines"
    ).fetchall()
    used = db.sql("SELECT sum(size_bytes) FROM thermocline.columns WHERE hit_count + miss_count > 0").fetchall()[0][0]
    return {"seconds": seconds, "answers": answers, "pipelines": pipelines, "used_bytes": int(used)}


def child(arguments: argparse.Namespace, policy: str, bandwidth: int, cache_memory: int) -> dict[str, Any]:
    """One configuration, in a process of its own."""
    command = [sys.executable, __file__, "--data", arguments.data, "--db", arguments.db, "--workload", arguments.workload]
    command += ["--policy", policy, "--bandwidth", str(bandwidth), "--cache-memory", str(cache_memory)]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--db", required=True)
    parser.add_argument("--workload", choices=["ssb", "two"], default="ssb")
    parser.add_argument("--policies", default=",".join(POLICIES))
    parser.add_argument("--budgets", default="0.1,0.2,0.4,0.6,0.8,1.0", help="shares of the bytes that the workload reads")
    parser.add_argument("--bandwidths", default="0.5,1,2,4", help="multiples of the median P")
    parser.add_argument("--real", action="store_true", help="the medium as it is, not slowed down")
    parser.add_argument("--runs", type=int, default=1, help="of each configuration; the median counts")
    parser.add_argument("--out")
    parser.add_argument("--policy", help=argparse.SUPPRESS)
    parser.add_argument("--bandwidth", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--cache-memory", type=int, default=0, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.policy:
        json.dump(measure(arguments), sys.stdout)
        return
    connect(arguments).close()
    free = child(arguments, "proportional", 0, 0)
    paces = sorted(pipeline[3] for pipeline in free["pipelines"] if pipeline[1] > 1 << 20)
    pace = statistics.median(paces)
    used = free["used_bytes"]
    print(f"P from {paces[0] / 1e9:.2f} to {paces[-1] / 1e9:.2f} GB/s, median {pace / 1e9:.2f}; {used / 1e6:.0f} MB read")
    print(f"all in memory, nothing slowed down: {sum(free['seconds']):.2f} s, the first round cold")
    results = []
    bandwidths = [0.0] if arguments.real else [float(part) for part in arguments.bandwidths.split(",")]
    for factor in bandwidths:
        for share in (float(part) for part in arguments.budgets.split(",")):
            for policy in arguments.policies.split(","):
                runs = [child(arguments, policy, int(factor * pace), int(share * used)) for _ in range(arguments.runs)]
                if any(run["answers"] != free["answers"] for run in runs):
                    sys.exit(f"{policy} at {share}: answers differ")
                totals = [sum(run["seconds"]) for run in runs]
                middle = sorted(range(len(runs)), key=totals.__getitem__)[len(runs) // 2]
                errors = [
                    abs(predicted - took) / took
                    for _, size, _, _, predicted, _, took in runs[middle]["pipelines"]
                    if predicted is not None and size > 1 << 20
                ]
                within = sum(error <= 0.1 for error in errors) / max(len(errors), 1)
                results.append(
                    {"policy": policy, "share": share, "bandwidth": factor, "seconds": totals, "within_tenth": within}
                )
                print(f"{factor:4g} x P {share:5.0%} {policy:13} {totals[middle]:7.3f} s, predicted within 10 %: {within:.0%}", flush=True)
    if arguments.out:
        Path(arguments.out).write_text(
            json.dumps({"workload": arguments.workload, "pace": pace, "used_bytes": used, "results": results}, indent=1)
        )


if __name__ == "__main__":
    main()

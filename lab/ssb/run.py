#!/usr/bin/env python3
"""The thirteen queries of the Star Schema Benchmark, asked of several engines in turn: are the answers the same, and what
does each query take?

    make build
    .venv/bin/pip install duckdb datafusion chdb
    .venv/bin/python lab/ssb/run.py --data DATA [--scale 10] [--engines thermocline duckdb …] [--rounds 4] [--turns 3]
                                    [--memory 1000M --budget 850MB]

Makes DATA (the tables as Parquet files, each engine's own store) where it is not there; the package must have been built
from these sources. Each engine is asked `--rounds` rounds in a process of its own, `--turns` times, the engines in turn.
Every round has other constants, the same for all engines (`queries.py`). What is printed, as a Markdown table, is of each
query the median of all rounds but each process's first, in milliseconds, from its text to its rows in Python. With
`--memory` each process, its page cache included, is in a memory control group of that size, which takes root. Ends with 1
if an answer differs.

Engines: `thermocline` (column tables), `thermocline-parquet`; `duckdb` (tables in memory), `duckdb-disk`, `duckdb-parquet`;
`clickhouse` (MergeTree tables with the types and orders that its documentation gives this benchmark), `clickhouse-parquet`;
`datafusion` (tables in memory), `datafusion-parquet` (filters pushed down).
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import itertools
import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from ssb.queries import NAMES, queries

TABLES = ["lineorder", "customer", "supplier", "part", "date"]
FEW_TEXTS = """lo_orderpriority lo_shipmode c_city c_nation c_region c_mktsegment s_city s_nation s_region p_mfgr p_category
p_brand1 p_color p_type p_container d_dayofweek d_month d_yearmonth d_sellingseason""".split()
"""Columns of few different texts: ClickHouse's documentation makes them `LowCardinality`."""
CLICKHOUSE_ORDER = {
    "lineorder": "lo_orderdate, lo_orderkey",
    "customer": "c_custkey",
    "supplier": "s_suppkey",
    "part": "p_partkey",
    "date": "d_datekey",
}
Ask = Callable[[str], list[tuple[Any, ...]]]


def parquet(data: Path, table: str) -> str:
    """The table's file as SQL names it."""
    return f"'{data / table}.parquet'"


def thermocline_engine(data: Path, kind: str, budget: str | None) -> Ask:
    """Column tables in DATA/ssb.db, or Parquet files."""
    thermocline = importlib.import_module("thermocline")
    if kind == "parquet":
        db = thermocline.connect(memory=budget)
        for table in TABLES:
            db.sql(f'CREATE EXTERNAL TABLE "{table}" STORED AS parquet LOCATION {parquet(data, table)}')
    else:
        store = data / "ssb.db"
        with thermocline.connect(store) as db:
            there = {name for (name,) in db.sql("SELECT table_name FROM thermocline.tables").fetchall()}
            for table in TABLES:
                if table not in there:
                    db.sql(f'CREATE TABLE "{table}" AS SELECT * FROM {parquet(data, table)}')
        db = thermocline.connect(store, memory=budget, read_only=True)
    return lambda sql: db.sql(sql).fetchall()


def duckdb_engine(data: Path, kind: str) -> Ask:
    """Tables in memory or in DATA/ssb.duckdb, or Parquet files."""
    duckdb = importlib.import_module("duckdb")
    store = data / "ssb.duckdb"
    if kind == "disk" and not store.exists():
        with duckdb.connect(str(store)) as db:
            for table in TABLES:
                db.execute(f"CREATE TABLE {table} AS FROM {parquet(data, table)}")
    db = duckdb.connect(str(store), read_only=True) if kind == "disk" else duckdb.connect()
    for table in TABLES if kind != "disk" else []:
        made = "VIEW" if kind == "parquet" else "TABLE"
        db.execute(f"CREATE {made} {table} AS FROM {parquet(data, table)}")
    return lambda sql: db.execute(sql).fetchall()


def clickhouse_engine(data: Path, kind: str) -> Ask:
    """MergeTree tables, or views of Parquet files, in folders of their own in DATA."""
    session = importlib.import_module("chdb").session.Session(str(data / f"ssb.clickhouse-{kind or 'tables'}"))
    session.query("CREATE DATABASE IF NOT EXISTS ssb")
    session.query("USE ssb")
    there = str(session.query("SHOW TABLES", "TSV")).split()
    for table in TABLES:
        if table in there:
            continue
        source = f"file({parquet(data, table)})"
        if kind == "parquet":
            session.query(f"CREATE VIEW `{table}` AS SELECT * FROM {source}")
            continue
        described = str(session.query(f"DESCRIBE {source}", "TSV")).splitlines()
        types = dict(line.split("\t")[:2] for line in described)
        # Nothing is NULL in these tables.
        types = {name: re.sub(r"^Nullable\((.*)\)$", r"\1", of_file) for name, of_file in types.items()}
        columns = ", ".join(
            f"{name} {'LowCardinality(String)' if name in FEW_TEXTS else of_file}" for name, of_file in types.items()
        )
        session.query(f"CREATE TABLE `{table}` ({columns}) ENGINE = MergeTree ORDER BY ({CLICKHOUSE_ORDER[table]})")
        session.query(f"INSERT INTO `{table}` SELECT * FROM {source}")
        session.query(f"OPTIMIZE TABLE `{table}` FINAL")
    return lambda sql: [tuple(line.split("\t")) for line in str(session.query(sql, "TSV")).splitlines()]


def datafusion_engine(data: Path, kind: str) -> Ask:
    """Tables in memory, or Parquet files."""
    datafusion = importlib.import_module("datafusion")
    settings = datafusion.SessionConfig().set("datafusion.execution.parquet.pushdown_filters", "true")
    context = datafusion.SessionContext(settings)
    for table in TABLES:
        name = table if kind == "parquet" else f"{table}_file"
        context.register_parquet(name, data / f"{table}.parquet")
        if kind != "parquet":
            context.sql(f'CREATE TABLE "{table}" AS SELECT * FROM {name}').collect()
    return lambda sql: [tuple(row.values()) for batch in context.sql(sql).collect() for row in batch.to_pylist()]


def open_engine(name: str, data: Path, budget: str | None) -> Ask:
    """An engine of the ones above that has its tables."""
    engine, _, kind = name.partition("-")
    if engine == "thermocline":
        return thermocline_engine(data, kind, budget)
    return {"duckdb": duckdb_engine, "clickhouse": clickhouse_engine, "datafusion": datafusion_engine}[engine](data, kind)


ENGINES = [
    "thermocline",
    "thermocline-parquet",
    "duckdb",
    "duckdb-disk",
    "duckdb-parquet",
    "clickhouse",
    "clickhouse-parquet",
    "datafusion",
    "datafusion-parquet",
]


def plain(value: Any) -> str:
    """A value as text, the same whichever engine it is from: all numbers of these answers are whole."""
    return str(int(value)) if isinstance(value, (int, Decimal)) else str(value)


def join_group(memory: str) -> None:
    """Moves this process into a new memory control group."""
    first, second = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")
    root, limit, members = (
        (first, "memory.limit_in_bytes", "cgroup.procs") if first.is_dir() else (second, "memory.max", "cgroup.procs")
    )
    if root == second:
        (root / "cgroup.subtree_control").write_text("+memory")
    for left_behind in root.glob("lab-ssb-*"):
        with contextlib.suppress(OSError):  # One that has processes stays.
            left_behind.rmdir()
    group = root / f"lab-ssb-{os.getpid()}"
    group.mkdir()
    (group / limit).write_text(memory)
    (group / members).write_text(str(os.getpid()))


def ask_rounds(arguments: argparse.Namespace) -> None:
    """Asks one engine all rounds, in this process; prints times and answers as JSON."""
    if arguments.memory:
        join_group(arguments.memory)
    ask = open_engine(arguments.ask, arguments.data, arguments.budget)
    asked = []
    for number in range(arguments.rounds):
        for name, sql in queries(number).items():
            began = time.perf_counter()
            rows = ask(sql)
            took_s = time.perf_counter() - began
            asked.append((number, name, took_s, [[plain(value) for value in row] for row in rows]))
    json.dump(asked, sys.stdout)


def make_data(arguments: argparse.Namespace) -> None:
    """Generates the files, once, and lets each engine that has a store make it, outside of any group."""
    data: Path = arguments.data
    if not all((data / f"{table}.parquet").exists() for table in TABLES):
        subprocess.run([arguments.lab, "generate", "ssb", "--scale", f"{arguments.scale:g}", "--out", data], check=True)
    for engine in arguments.engines:
        if engine in ("thermocline", "duckdb-disk", "clickhouse", "clickhouse-parquet"):
            command = [sys.executable, __file__, "--data", data, "--ask", engine, "--rounds", "0"]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def measure(arguments: argparse.Namespace) -> bool:
    """Prints the table of times; whether all answers were the same."""
    times: dict[tuple[str, str], list[float]] = {}
    answers: dict[tuple[int, str], list[list[str]]] = {}
    differing = set()
    for _, engine in itertools.product(range(arguments.turns), arguments.engines):
        command = [sys.executable, __file__, "--data", arguments.data, "--ask", engine, "--rounds", str(arguments.rounds)]
        for option in ("memory", "budget"):
            if getattr(arguments, option):
                command += [f"--{option}", getattr(arguments, option)]
        if arguments.memory:
            # A group counts the pages of files that its own processes brought in.
            os.sync()
            Path("/proc/sys/vm/drop_caches").write_text("3")
        for number, name, took_s, rows in json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout):
            if number > 0:
                times.setdefault((engine, name), []).append(1000 * took_s)
            if answers.setdefault((number, name), rows) != rows:
                differing.add(f"{engine} {name}")
    medians = {key: statistics.median(taken) for key, taken in times.items()}
    print(f"| query | {' | '.join(arguments.engines)} |\n|---|{'---:|' * len(arguments.engines)}")
    for name in NAMES:
        print(f"| {name} | {' | '.join(f'{medians[engine, name]:.1f}' for engine in arguments.engines)} |")
    sums = [sum(medians[engine, name] for name in NAMES) for engine in arguments.engines]
    print(f"| all | {' | '.join(f'{ms:,.0f}' for ms in sums)} |")
    print(f"| {arguments.engines[0]}'s of it | {' | '.join(f'{sums[0] / ms:.2f}' for ms in sums)} |", flush=True)
    if differing:
        print(f"answers differ: {', '.join(sorted(differing))}")
    return not differing


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--scale", type=float, default=10)
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=["thermocline", "duckdb"])
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--memory", help="of the control group, as the system takes it: 1000M")
    parser.add_argument("--budget", help="Thermocline's")
    parser.add_argument("--lab", default="target/release/lab")
    parser.add_argument("--ask", choices=ENGINES, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.data = arguments.data.resolve()
    if arguments.ask:
        ask_rounds(arguments)
        return 0
    make_data(arguments)
    return 0 if measure(arguments) else 1


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""The thirteen queries of the Star Schema Benchmark, asked of several engines in turn: are the answers the same, and what
does each query take?

    make build
    .venv/bin/pip install duckdb datafusion chdb
    .venv/bin/python lab/ssb/run.py --data DATA [--scale 10] [--engines thermocline duckdb …] [--rounds 4] [--turns 3]
                                    [--memory 1000MB --budget 850MB --duckdb-memory 700MB]

Makes DATA (the tables as Parquet files, each engine's own store) where it is not there, and refuses one of another scale;
the package must have been built from these sources. Each engine is asked `--rounds` rounds in a process of its own,
`--turns` times, the engines in turn. Every round has other constants, the same for all engines (`queries.py`). What is
printed, as a Markdown table, is of each query the median of all rounds but each process's first, in milliseconds, from its
text to its rows in Python. With `--memory` each process, its page cache included, is in a memory control group of that
size, which takes root. There Thermocline has the budget that it is given, and DuckDB 80 % of the group unless it is given a
limit too. Ends with 1 if an answer differs.

Engines: `thermocline` (column tables), `thermocline-parquet`; `duckdb` (tables in memory), `duckdb-disk`, `duckdb-parquet`;
`clickhouse` (MergeTree tables with the types, partitions and orders that its documentation gives this benchmark,
`clickhouse_tables.py`), `clickhouse-parquet`; `datafusion` (tables in memory), `datafusion-parquet` (filters pushed down).
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from ssb import clickhouse_tables, memory_group
from ssb.queries import NAMES, queries

TABLES = ["lineorder", "customer", "supplier", "part", "date"]
LINES_PER_SCALE = 6_000_000
"""Lines at scale factor 1, about: orders have one to seven."""
Ask = Callable[[str], list[tuple[Any, ...]]]


def parquet(data: Path, table: str) -> str:
    """The table's file as SQL names it."""
    return f"'{data / table}.parquet'"


def make_whole(store: Path, make: Callable[[Path], None]) -> None:
    """Has a store made where there is none. It gets its name when it is whole: one that was interrupted is made again."""
    if store.exists():
        return
    partial = store.with_name(f"{store.name}.partial")
    for left_behind in store.parent.glob(f"{partial.name}*"):
        if left_behind.is_dir():
            shutil.rmtree(left_behind)
        else:
            left_behind.unlink()
    make(partial)
    partial.rename(store)


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


def duckdb_engine(data: Path, kind: str, memory_limit: str | None) -> Ask:
    """Tables in memory or in DATA/ssb.duckdb, or Parquet files."""
    duckdb = importlib.import_module("duckdb")
    store = data / "ssb.duckdb"
    settings = {"memory_limit": memory_limit} if memory_limit else {}

    def make(partial: Path) -> None:
        with duckdb.connect(str(partial)) as db:
            for table in TABLES:
                db.execute(f"CREATE TABLE {table} AS FROM {parquet(data, table)}")

    if kind == "disk":
        make_whole(store, make)
        db = duckdb.connect(str(store), read_only=True, config=settings)
    else:
        db = duckdb.connect(config=settings)
        for table in TABLES:
            made = "VIEW" if kind == "parquet" else "TABLE"
            db.execute(f"CREATE {made} {table} AS FROM {parquet(data, table)}")
    return lambda sql: db.execute(sql).fetchall()


def clickhouse_engine(data: Path, kind: str) -> Ask:
    """MergeTree tables, or views of Parquet files, in folders of their own in DATA."""
    open_session = importlib.import_module("chdb").session.Session
    # Not `ssb.clickhouse-tables`: stores of that name have numbers as wide as the files' and may be half made.
    store = data / ("ssb.clickhouse-views" if kind == "parquet" else "ssb.clickhouse-mergetree")

    def make(partial: Path) -> None:
        session = open_session(str(partial))
        session.query("CREATE DATABASE ssb")
        session.query("USE ssb")
        for table in TABLES:
            source = f"file({parquet(data, table)})"
            made = [f"CREATE VIEW `{table}` AS SELECT * FROM {source}"]
            for statement in made if kind == "parquet" else clickhouse_tables.statements(table, source):
                session.query(statement)
        session.close()

    make_whole(store, make)
    session = open_session(str(store))
    session.query("USE ssb")
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


def open_engine(arguments: argparse.Namespace) -> Ask:
    """An engine of the ones above that has its tables."""
    engine, _, kind = arguments.ask.partition("-")
    if engine == "thermocline":
        return thermocline_engine(arguments.data, kind, arguments.budget)
    if engine == "duckdb":
        return duckdb_engine(arguments.data, kind, arguments.duckdb_memory)
    return {"clickhouse": clickhouse_engine, "datafusion": datafusion_engine}[engine](arguments.data, kind)


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


def line_count(data: Path) -> int:
    """How many lines the files have, by what they say of themselves."""
    with importlib.import_module("thermocline").connect() as db:
        [(count,)] = db.sql(f"SELECT count(*) FROM {parquet(data, 'lineorder')}").fetchall()
    return count


def check_scale(data: Path, lines: int, scale: float) -> None:
    """Refuses files of another scale than is asked for."""
    expected = scale * LINES_PER_SCALE
    if abs(lines / expected - 1) > 0.05:
        raise SystemExit(f"{data} has {lines} lines, expected about {expected:.0f} at --scale {scale:g}")


def check_store(arguments: argparse.Namespace, ask: Ask) -> None:
    """Refuses an engine's store that was made of other files."""
    [(count,)] = ask("SELECT count(*) FROM lineorder")
    lines = line_count(arguments.data)
    if int(count) != lines:
        raise SystemExit(f"{arguments.ask} has {count} lines in {arguments.data}, its files {lines}: remove its store there")


def ask_rounds(arguments: argparse.Namespace) -> None:
    """Asks one engine all rounds, in this process; prints times and answers as JSON."""
    if arguments.memory:
        memory_group.join(arguments.memory)
    ask = open_engine(arguments)
    if arguments.rounds == 0:
        check_store(arguments, ask)
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
    check_scale(data, line_count(data), arguments.scale)
    for engine in arguments.engines:
        if engine in ("thermocline", "duckdb-disk", "clickhouse", "clickhouse-parquet"):
            command = [sys.executable, __file__, "--data", data, "--ask", engine, "--rounds", "0"]
            if subprocess.run(command, check=False, stdout=subprocess.DEVNULL).returncode != 0:
                raise SystemExit(f"{engine} has no store to measure")


def measure(arguments: argparse.Namespace) -> bool:
    """Prints the table of times; whether all answers were the same."""
    times: dict[tuple[str, str], list[float]] = {}
    answers: dict[tuple[int, str], list[list[str]]] = {}
    differing = set()
    for _, engine in itertools.product(range(arguments.turns), arguments.engines):
        command = [sys.executable, __file__, "--data", arguments.data, "--ask", engine, "--rounds", str(arguments.rounds)]
        for option in ("memory", "budget", "duckdb_memory"):
            if getattr(arguments, option):
                command += [f"--{option.replace('_', '-')}", str(getattr(arguments, option))]
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
    parser.add_argument("--memory", type=memory_group.size_bytes, help="of the control group: 1000MB, or 1000MiB")
    parser.add_argument("--budget", help="Thermocline's")
    parser.add_argument("--duckdb-memory", help="DuckDB's memory_limit; its own choice when absent")
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

#!/usr/bin/env python3
"""The 22 queries of TPC-H, or joins of its tables whose rows are wanted, with fused pipelines and without, beside DuckDB: are
the answers the same, and what does each query take?

    cargo build --release -p thermocline-lab
    .venv/bin/python lab/tpch/run.py --data DATA [--scale 1] [--tables columns parquet csv] [--rounds 5] [--only q05]
                                     [--queries rows]

The rows (`joined_rows.sql`) are taken as Arrow tables, of which the number of rows and each column's least and greatest value
and its sum are compared; answers of TPC-H's queries are compared value by value.

Makes DATA (TPC-H's tables as CSV, Parquet files of them, a database) where it is not there, and refuses one of another
scale. The package must have been built from these sources; DuckDB's is compared with if it is installed. Queries are asked in turn by all engines, in
changing order, so that a slow spell of the machine meets all of them; what is printed, as a Markdown table, are medians of the rounds
after the first, in milliseconds. Ends with 1 if an answer differs.
"""

from __future__ import annotations

import argparse
import importlib
import math
import re
import statistics
import subprocess
import sys
import time
from decimal import Decimal
from pathlib import Path
from typing import Any, Callable

import thermocline

ROOT = Path(__file__).resolve().parents[2]
QUERIES = {path.stem: path.read_text() for path in sorted((ROOT / "crates/tpch/queries").glob("*.sql"))}
COLUMNS = {path.stem: path.read_text() for path in sorted((ROOT / "crates/tpch/columns").glob("*.sql"))}
"""Of each table, as SQL declares them: text files do not tell which numbers are decimals."""
JOINED_ROWS = {
    name: sql.strip()
    for name, sql in re.findall(r"^-- (.+)\n((?:[^-\n].*\n)+)", (Path(__file__).parent / "joined_rows.sql").read_text(), re.M)
}
Rows = list[tuple[Any, ...]]
Ask = Callable[[str], Any]
"""Answers with rows, or with an Arrow table."""


LINES_PER_SCALE = 6_000_000
"""Lineitems at scale factor 1, about: orders have one to seven."""


def make_data(arguments: argparse.Namespace) -> None:
    """Generates the files, once. Each has its name when it is whole: what was interrupted is made again."""
    data: Path = arguments.data
    if not all((data / f"{table}.csv").exists() for table in COLUMNS):
        partial = data / "partial"
        command = [arguments.lab, "generate", "tpch", "--scale", f"{arguments.scale:g}", "--out", partial]
        subprocess.run(command, check=True)
        for table in COLUMNS:
            (partial / f"{table}.csv").rename(data / f"{table}.csv")
        partial.rmdir()
    db = thermocline_tables(data, "csv")
    for table in COLUMNS:
        target = data / f"{table}.parquet"
        if not target.exists():
            partial = data / f"{table}.partial.parquet"
            partial.unlink(missing_ok=True)
            db.sql(f"COPY {table} TO '{partial}'")
            partial.rename(target)
    check_scale(data, line_count(thermocline_tables(data, "parquet")), arguments.scale)
    with thermocline.connect(data / "tpch.db") as db:
        there = {name for (name,) in db.sql("SELECT table_name FROM information_schema.tables").fetchall()}
        for table in sorted(set(COLUMNS) - there):
            db.sql(f"CREATE TABLE {table} AS SELECT * FROM '{data / table}.parquet'")
        check_scale(data / "tpch.db", line_count(db), arguments.scale)


def line_count(db: thermocline.Connection) -> int:
    """How many lineitems a database has."""
    [(count,)] = db.sql("SELECT count(*) FROM lineitem").fetchall()
    return count


def check_scale(data: Path, lines: int, scale: float) -> None:
    """Refuses data of another scale than is asked for."""
    expected = scale * LINES_PER_SCALE
    if abs(lines / expected - 1) > 0.05:
        raise SystemExit(f"{data} has {lines} lineitems, expected about {expected:.0f} at --scale {scale:g}")


def thermocline_tables(data: Path, kind: str) -> thermocline.Connection:
    """A database with the tables."""
    if kind == "columns":
        return thermocline.connect(data / "tpch.db", read_only=True)
    db = thermocline.connect()
    for table, columns in COLUMNS.items():
        declared = f" ({columns})" if kind == "csv" else ""
        db.sql(f"CREATE EXTERNAL TABLE {table}{declared} STORED AS {kind} LOCATION '{data / table}.{kind}'")
    return db


def duckdb_tables(data: Path, kind: str, as_arrow: bool) -> Ask | None:
    """The same for DuckDB: columns are tables in memory."""
    try:
        duckdb = importlib.import_module("duckdb")
    except ImportError:
        return None
    db = duckdb.connect()
    for table, columns in COLUMNS.items():
        if kind == "csv":
            types = dict(line.rstrip(",").split(" ", 1) for line in columns.splitlines())
            db.execute(f"CREATE VIEW {table} AS FROM read_csv('{data / table}.csv', columns = {types})")
        else:
            made = "TABLE" if kind == "columns" else "VIEW"
            db.execute(f"CREATE {made} {table} AS FROM '{data / table}.parquet'")
    return lambda sql: db.execute(sql).to_arrow_table() if as_arrow else db.execute(sql).fetchall()


def engines(data: Path, kind: str, as_arrow: bool) -> dict[str, Ask]:
    """What answers queries, by its name: databases of their own, as what one query keeps in memory is another's gain."""

    def asking(pipelines: str) -> Ask:
        db = thermocline_tables(data, kind)
        db.sql(f"SET thermocline.fused_pipelines = '{pipelines}'")
        return lambda sql: db.sql(sql).arrow() if as_arrow else db.sql(sql).fetchall()

    found = {"pipelines": asking("on"), "operators": asking("off"), "DuckDB": duckdb_tables(data, kind, as_arrow)}
    return {name: ask for name, ask in found.items() if ask}


def told(answer: Any) -> Rows:
    """What is compared of an answer."""
    if isinstance(answer, list):
        return answer
    compute = importlib.import_module("pyarrow.compute")

    def of_column(column: Any) -> tuple[Any, ...]:
        if "string" in str(column.type):
            column = column.cast("string")
        ends = compute.min_max(column).as_py()
        total = compute.sum(column.cast("float64")).as_py() if is_number(column.type) else None
        return (ends["min"], ends["max"], total, column.null_count)

    return [(answer.num_rows,), *map(of_column, answer.columns)]


def is_number(arrow_type: Any) -> bool:
    """Whether values of a type are added up."""
    return any(name in str(arrow_type) for name in ("int", "decimal", "float", "double"))


def same(one: Any, other: Any) -> bool:
    """Whether two values agree in the digits that all types of them have: averages of decimals have six."""
    if isinstance(one, (int, float, Decimal)) and isinstance(other, (int, float, Decimal)):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-6)
    return one == other


def same_rows(one: Rows, other: Rows) -> bool:
    """Whether two answers agree."""
    return len(one) == len(other) and all(
        len(left) == len(right) and all(map(same, left, right)) for left, right in zip(one, other)
    )


def measure(arguments: argparse.Namespace, kind: str) -> bool:
    """Prints a table of times; whether all answers were the same."""
    asked = JOINED_ROWS if arguments.queries == "rows" else QUERIES
    asking = engines(arguments.data, kind, as_arrow=asked is JOINED_ROWS)
    queries = {name: sql for name, sql in asked.items() if not arguments.only or name in arguments.only}
    times: dict[tuple[str, str], list[float]] = {}
    differing = set()
    in_turn = list(asking.items())
    for _ in range(1 + arguments.rounds):
        for name, sql in queries.items():
            answers = []
            for engine, ask in in_turn:
                # First to have its data and memory at hand again, which idle engines give back meanwhile.
                ask(sql)
                began = time.perf_counter()
                answer = ask(sql)
                times.setdefault((name, engine), []).append((time.perf_counter() - began) * 1000)
                answers.append(told(answer))
            if not all(same_rows(answers[0], other) for other in answers[1:]):
                differing.add(name)
        # Caches are as the one before has left them.
        in_turn.append(in_turn.pop(0))
    print(f"\n{kind}, ms\n\n| query | {' | '.join(asking)} | of operators |\n|---|{'---:|' * (len(asking) + 1)}")
    medians = {key: statistics.median(taken[1:]) for key, taken in times.items()}
    for name in queries:
        row = [medians[name, engine] for engine in asking]
        print(f"| {name} | {' | '.join(f'{ms:.1f}' for ms in row)} | {row[0] / row[1]:.2f} |")
    sums = [sum(medians[name, engine] for name in queries) for engine in asking]
    print(f"| all | {' | '.join(f'{ms:.0f}' for ms in sums)} | {sums[0] / sums[1]:.2f} |", flush=True)
    if differing:
        print(f"answers differ: {', '.join(sorted(differing))}")
    return not differing


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--tables", nargs="+", choices=["columns", "parquet", "csv"], default=["columns", "parquet", "csv"])
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--queries", choices=["tpch", "rows"], default="tpch")
    parser.add_argument("--only", nargs="+", choices=[*QUERIES, *JOINED_ROWS])
    parser.add_argument("--lab", default="target/release/lab")
    arguments = parser.parse_args()
    make_data(arguments)
    return 0 if all([measure(arguments, kind) for kind in arguments.tables]) else 1


if __name__ == "__main__":
    sys.exit(main())

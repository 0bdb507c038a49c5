#!/usr/bin/env python3
"""Queries whose tables or results are larger than the memory that the process has, beside DuckDB: which have an answer, is it
the same, what does it take?

    make build && .venv/bin/pip install duckdb pyarrow
    .venv/bin/python lab/tpch/beyond_memory.py --data DATA [--scale 10] [--memory 1000MB 500MB] [--queries larger tpch] [--only NAME …]

Each engine has its own database on disk in DATA, made where it is not there, and is in a memory control group of the size
given, page cache included, which takes root; its own limit is four fifths of that, as is DuckDB's default. `larger` are
the queries of `beyond_memory.sql`, `tpch` the 22 of the specification. A query is asked twice and the second time counts,
until its rows are there as Arrow batches, of which none is kept. What is printed, as a Markdown table, are seconds, or why
there is no answer; below it the greatest resident size that a process had. Ends with 1 if answers differ.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from ssb import memory_group
from tpch.run import COLUMNS, QUERIES, make_data, same_rows

LARGER = {
    name: sql.strip()
    for name, sql in re.findall(
        r"^-- (.+)\n((?:[^-\n].*\n)+)", (Path(__file__).parent / "beyond_memory.sql").read_text(), re.MULTILINE
    )
}
ASKED = {"larger": LARGER, "tpch": QUERIES}
ENGINES = ["thermocline", "duckdb"]
OWN_SHARE = 0.8
"""Of the group's memory, what an engine is told to get along with."""


def thermocline_engine(data: Path, limit: str) -> Callable[[str], Any]:
    """Column tables in DATA/tpch.db."""
    db = importlib.import_module("thermocline").connect(data / "tpch.db", memory=limit, read_only=True)
    return lambda sql: db.sql(sql).arrow_reader()


def duckdb_engine(data: Path, limit: str) -> Callable[[str], Any]:
    """Tables in DATA/tpch.duckdb."""
    db = importlib.import_module("duckdb").connect(
        str(data / "tpch.duckdb"), read_only=True, config={"memory_limit": limit}
    )
    return lambda sql: db.sql(sql).to_arrow_reader(65_536)


def make_duckdb(data: Path) -> None:
    """DuckDB's database, once; it gets its name when it is whole."""
    store, partial = data / "tpch.duckdb", data / "tpch.duckdb.partial"
    if store.exists():
        return
    partial.unlink(missing_ok=True)
    with importlib.import_module("duckdb").connect(str(partial)) as db:
        for table in COLUMNS:
            db.execute(f"CREATE TABLE {table} AS FROM '{data / table}.parquet'")
    partial.rename(store)


def digest(batches: Any) -> list[list[Any]]:
    """What is compared of an answer: how many rows, the first and the last of them, and of each batch's columns of numbers
    the sums, added up."""
    rows, sums, first, last = 0, None, None, None
    compute = importlib.import_module("pyarrow.compute")
    for batch in batches:
        if batch.num_rows == 0:
            continue
        first = first or batch.slice(0, 1).to_pylist()
        last = batch.slice(batch.num_rows - 1, 1).to_pylist()
        rows += batch.num_rows
        of_batch = [compute.sum(column.cast("float64")).as_py() or 0.0 for column in batch.columns if adds_up(column.type)]
        sums = of_batch if sums is None else [one + other for one, other in zip(sums, of_batch)]
    ends = [[plain(value) for value in row.values()] for row in (first or []) + (last or [])]
    return [[rows], sums or [], *ends]


def plain(value: Any) -> Any:
    """A value as JSON has it, the same whichever engine it is from."""
    return float(value) if isinstance(value, (int, float, Decimal)) else str(value)


def adds_up(arrow_type: Any) -> bool:
    """Whether values of a type are numbers."""
    return any(name in str(arrow_type) for name in ("int", "decimal", "float", "double"))


def peak_bytes() -> int:
    """The process's greatest resident size so far."""
    [kib] = re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(kib) * 1024


def ask_in_group(arguments: argparse.Namespace) -> None:
    """Asks one engine, in this process; prints a line of JSON when a query begins and when it ends."""
    [memory] = arguments.memory
    memory_group.join(memory)
    limit = f"{memory * OWN_SHARE / 1e6:.0f}MB"
    ask = {"thermocline": thermocline_engine, "duckdb": duckdb_engine}[arguments.ask](arguments.data, limit)
    [queries] = arguments.queries
    for name in arguments.only:
        print(json.dumps({"begun": name}), flush=True)
        told_of: dict[str, Any] = {"ended": name}
        # Without a handler: the process ends, wherever it is.
        signal.alarm(arguments.limit_s)
        try:
            for _ in range(2):
                began = time.perf_counter()
                answer = digest(ask(ASKED[queries][name]))
                told_of["took_s"] = time.perf_counter() - began
            told_of["answer"] = answer
        except Exception as error:  # noqa: BLE001: whatever an engine says
            told_of["failed"] = str(error)
        signal.alarm(0)
        told_of["peak_bytes"] = peak_bytes()
        print(json.dumps(told_of), flush=True)


def ended(arguments: argparse.Namespace, engine: str, memory: int, queries: str, names: list[str]) -> Iterator[dict[str, Any]]:
    """What came of each query. After one that took the process along, the next ones are asked of another."""
    left = list(names)
    while left:
        command = [sys.executable, __file__, "--data", arguments.data, "--ask", engine, "--memory", str(memory)]
        command += ["--queries", queries, "--limit-s", str(arguments.limit_s), "--only", *left]
        os.sync()
        Path("/proc/sys/vm/drop_caches").write_text("3")
        begun = None
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            for line in process.stdout or []:
                said = json.loads(line)
                begun = said.get("begun", begun)
                if "ended" in said:
                    left.remove(said["ended"])
                    begun = None
                    yield said
        if process.returncode == 0:
            return
        if begun is None:
            raise SystemExit(f"{engine} ended with {process.returncode} before it was asked")
        left.remove(begun)
        late = process.returncode == -signal.SIGALRM
        yield {"ended": begun, "failed": f"over {arguments.limit_s} s" if late else f"killed ({process.returncode})"}


def in_words(said: dict[str, Any]) -> str:
    """Seconds, or in a word or two why there is no answer."""
    if "failed" not in said:
        return f"{said['took_s']:.2f}"
    failed = said["failed"]
    return "no memory" if re.search("memory", failed, re.IGNORECASE) else failed.splitlines()[0][:60]


def measure(arguments: argparse.Namespace, queries: str, memory: int) -> bool:
    """Prints a table; whether all answers were the same."""
    names = [name for name in ASKED[queries] if not arguments.only or name in arguments.only]
    outcomes: dict[tuple[str, str], dict[str, Any]] = {}
    for engine in arguments.engines:
        for said in ended(arguments, engine, memory, queries, names):
            outcomes[engine, said["ended"]] = said
            if "failed" in said:
                print(f"{engine}, {said['ended']}: {said['failed']}", file=sys.stderr, flush=True)
    print(f"\n{queries}, {memory / 1e6:.0f} MB, s\n\n| query | {' | '.join(arguments.engines)} |")
    print(f"|---|{'---:|' * len(arguments.engines)}")
    differing = []
    for name in names:
        said = [outcomes[engine, name] for engine in arguments.engines]
        print(f"| {name} | {' | '.join(map(in_words, said))} |")
        answers = [one["answer"] for one in said if "answer" in one]
        if not all(same_rows(answers[0], other) for other in answers[1:]):
            differing.append(name)
    common = [name for name in names if all("answer" in outcomes[engine, name] for engine in arguments.engines)]
    sums = [sum(outcomes[engine, name]["took_s"] for name in common) for engine in arguments.engines]
    print(f"| the {len(common)} that all answer | {' | '.join(f'{seconds:.1f}' for seconds in sums)} |")
    peaks = [max(outcomes[engine, name].get("peak_bytes", 0) for name in names) for engine in arguments.engines]
    print(f"| greatest resident size, MB | {' | '.join(f'{peak / 1e6:.0f}' for peak in peaks)} |", flush=True)
    if differing:
        print(f"answers differ: {', '.join(differing)}")
    return not differing


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--scale", type=float, default=10)
    parser.add_argument("--memory", nargs="+", type=memory_group.size_bytes, default=[1_000_000_000, 500_000_000])
    parser.add_argument("--queries", nargs="+", choices=list(ASKED), default=["larger", "tpch"])
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=ENGINES)
    parser.add_argument("--only", nargs="+", choices=[*LARGER, *QUERIES])
    parser.add_argument("--limit-s", type=int, default=300, help="a query that takes longer has no answer")
    parser.add_argument("--lab", default="target/release/lab")
    parser.add_argument("--ask", choices=ENGINES, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.data = arguments.data.resolve()
    if arguments.ask:
        ask_in_group(arguments)
        return 0
    make_data(arguments)
    make_duckdb(arguments.data)
    same = [measure(arguments, queries, memory) for queries in arguments.queries for memory in arguments.memory]
    return 0 if all(same) else 1


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Many sessions on one database at once: is every answer right, and how many more queries are answered than by one
session?

    .venv/bin/python lab/recache/throughput.py --data DIR [--sessions 32] [--queries 640] [--out results/throughput.json]

The same queries, drawn from all data sets that `data.py` wrote, are shared out to one session and then to many, each
time in a fresh database with an empty cache. Sessions are cursors, each in a thread of its own. Every answer is held
against the one that a session without a cache gave before.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import threading
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import thermocline
import workloads
from data import TPCH_TABLES
from dataset import discover
from experiment.conditions import commit, machine, now
from run import same
from workloads import Query

YELP_TABLES = ["business", "user", "review"]


class Session(threading.Thread):
    """Asks its queries one after the other. Keeps answers and times; an error ends it and is kept too."""

    def __init__(self, cursor: thermocline.Connection, queries: list[Query], start_line: threading.Barrier) -> None:
        super().__init__()
        self.cursor, self.queries, self.start_line = cursor, queries, start_line
        self.answers: list[list[tuple[Any, ...]]] = []
        self.times_s: list[float] = []
        self.error: Exception | None = None

    def run(self) -> None:
        """The thread's work."""
        self.start_line.wait()
        try:
            for query in self.queries:
                began = time.perf_counter()
                self.answers.append(self.cursor.sql(query.text).fetchall())
                self.times_s.append(time.perf_counter() - began)
        except thermocline.Error as error:
            self.error = error


def tables(data: Path) -> dict[str, Path]:
    """Every table of the mixed workload and its file."""
    files = {table: data / f"{table}.csv" for table in [*TPCH_TABLES, "verdicts"]}
    return files | {table: data / f"{table}.ndjson" for table in ["order_lineitems", "mails", *YELP_TABLES]}


def mixed(data: Path, seed: int, count: int, tpch_scale: float) -> list[Query]:
    """A quarter each: nested orders, spam with joins, Yelp, TPC-H joins; shuffled."""
    quarter = -(-count // 4)
    orders = discover("order_lineitems", data / "order_lineitems.ndjson")
    mails, verdicts = discover("mails", data / "mails.ndjson"), discover("verdicts", data / "verdicts.csv")
    queries = [
        *workloads.alternating(orders, seed, "c", quarter),
        *workloads.spam(mails, verdicts, seed, quarter, 50, json_percent=50, join_percent=10),
        *workloads.yelp(seed, quarter, 50),
        *workloads.joins(seed, quarter, tpch_scale),
    ]
    random.Random(seed).shuffle(queries)
    return queries[:count]


def opened(files: dict[str, Path], memory: str | None) -> thermocline.Connection:
    """A fresh database whose schemas are inferred."""
    connection = thermocline.connect(memory=memory)
    for table, path in files.items():
        kind = "CSV" if path.suffix == ".csv" else "NDJSON"
        connection.sql(f"CREATE EXTERNAL TABLE {table} STORED AS {kind} LOCATION '{path}'")
        connection.sql(f"SELECT * FROM {table} LIMIT 0").fetchall()
    return connection


def measure(connection: thermocline.Connection, queries: list[Query], session_count: int) -> tuple[list[Session], float]:
    """Shares the queries out in turn and waits for all sessions; the seconds run from the first start to the last
    end."""
    start_line = threading.Barrier(session_count + 1)
    sessions = [Session(connection.cursor(), queries[at::session_count], start_line) for at in range(session_count)]
    for session in sessions:
        session.start()
    start_line.wait()
    began = time.perf_counter()
    for session in sessions:
        session.join()
    return sessions, time.perf_counter() - began


def check(sessions: list[Session], expected: list[list[tuple[Any, ...]]]) -> None:
    """Ends the program at the first error or wrong answer."""
    for at, session in enumerate(sessions):
        if session.error:
            raise SystemExit(f"session {at}: {session.error}\n{session.queries[len(session.answers)].text}")
        for query, answer, wanted in zip(session.queries, session.answers, expected[at :: len(sessions)], strict=True):
            if not same(answer, wanted):
                raise SystemExit(f"session {at} answers\n{answer}\nnot\n{wanted}\n{query.text}")


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder that data.py filled")
    parser.add_argument("--out", type=Path, help="file of the results")
    parser.add_argument("--sessions", type=int, default=32)
    parser.add_argument("--queries", type=int, default=640, help="of all sessions together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--memory", help="of the database; half of the machine's when absent")
    arguments = parser.parse_args()
    data = arguments.data.resolve()
    files = tables(data)
    generated = json.loads((data / "data.json").read_text())
    queries = mixed(data, arguments.seed, arguments.queries, generated["tpch_scale"])
    with opened(files, arguments.memory) as plain:
        plain.sql("SET thermocline.cache = 'off'")
        began = time.perf_counter()
        expected = [plain.sql(query.text).fetchall() for query in queries]
        uncached_s = time.perf_counter() - began
    print(f"one session, no cache: {len(queries) / uncached_s:.1f} queries a second")
    result: dict[str, Any] = {"commit": commit(), "machine": machine(), "began": now(), "data": generated}
    result |= {"seed": arguments.seed, "queries": len(queries), "uncached_s": uncached_s, "runs": []}
    for session_count in (1, arguments.sessions):
        with opened(files, arguments.memory) as connection:
            sessions, wall_s = measure(connection, queries, session_count)
            check(sessions, expected)
            [(kept_bytes,)] = connection.sql("SELECT coalesce(sum(size_bytes), 0) FROM thermocline.cache_items").fetchall()
        times_s = sorted(time_s for session in sessions for time_s in session.times_s)
        run = {"sessions": session_count, "wall_s": wall_s, "queries_per_s": len(queries) / wall_s, "kept_bytes": kept_bytes}
        run |= {"median_s": statistics.median(times_s), "p99_s": times_s[len(times_s) * 99 // 100], "slowest_s": times_s[-1]}
        result["runs"].append(run)
        print(
            f"{session_count} sessions: {run['queries_per_s']:.1f} queries a second, all answers right; a query takes "
            f"{1e3 * run['median_s']:.1f} ms (median), {1e3 * run['p99_s']:.1f} ms (1 in 100 longer); "
            f"{kept_bytes / 1e6:.0f} MB kept"
        )
    one, many = (run["queries_per_s"] for run in result["runs"])
    print(f"{arguments.sessions} sessions answer {many / one:.2f} times as many queries as one")
    if arguments.out:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()

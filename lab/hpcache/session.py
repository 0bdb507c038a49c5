#!/usr/bin/env python3
"""Runs one plan in this process: a plan as JSON on standard input, what was measured as JSON on standard output.
`run.py` starts one for each configuration, so that each begins with a cold pool.

A plan names how much memory to bring in, the database's folder, Parquet files of tables that it must have, settings,
questions to warm up with, and questions to measure. Of each of these it is told: seconds of wall time from its text to
its last row in Python, a digest of its answer, and its largest pipeline (of the Star Schema Benchmark's queries the one
that reads the lines) with what was in memory of its columns before. Reading the system tables in between is in none of
the times.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import json
import mmap
import re
import sys
import time
from collections.abc import Iterator
from typing import Any

from sampling import Watch

Pipeline = dict[str, Any]
Rows = list[tuple[Any, ...]]


def new_pipelines(before: list[Pipeline], after: list[Pipeline]) -> list[Pipeline]:
    """What came to a table that forgets its oldest rows: what follows the longest end of `before` that `after` begins
    with."""
    for count in range(min(len(before), len(after)), 0, -1):
        if before[len(before) - count :] == after[:count]:
            return after[count:]
    return after


def columns_of(label: str) -> list[str]:
    """The columns that a pipeline's label names, `schema.table (one, other)`, each with its table."""
    found = re.fullmatch(r"(.+?) \((.*)\)", label)
    if not found:
        raise ValueError(f"a pipeline is called {label!r}, expected 'table (column, …)'")
    return [f"{found[1]}.{name}" for name in found[2].split(", ")]


def digest(rows: Rows) -> str:
    """The same for the same rows in the same order; all numbers here are whole or decimal."""
    return hashlib.sha256("\n".join(map(str, rows)).encode()).hexdigest()[:16]


@contextlib.contextmanager
def brought_in(size_bytes: int) -> Iterator[None]:
    """Has the machine back so much memory, and holds it meanwhile. Memory that nobody has used for a while is slow to come on
    virtual machines: what comes first would pay for it, whichever policy that is. It is to be held until the first
    question, since the host takes free memory within seconds, and a question that finds it gone takes up to twice as
    long."""
    with mmap.mmap(-1, max(size_bytes, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        if hasattr(mmap, "MADV_HUGEPAGE"):
            # As the pool's pages are.
            memory.madvise(mmap.MADV_HUGEPAGE)
        start = ctypes.c_char.from_buffer(memory)
        ctypes.memset(ctypes.addressof(start), 1, len(memory))
        del start
        yield


class Session:
    """A database with the plan's settings and tables."""

    def __init__(self, plan: dict[str, Any]) -> None:
        import thermocline

        self.connection = thermocline.connect(plan["db"], memory=plan["memory"])
        have = {name for (name,) in self.rows("SELECT table_name FROM thermocline.tables")}
        for table, path in plan["tables"].items():
            if table not in have:
                self.connection.sql(f"CREATE TABLE {table} AS SELECT * FROM '{path}'")
        for name, value in plan["set"].items():
            self.connection.sql(f"SET {name} = '{value}'")

    def rows(self, text: str) -> Rows:
        """All rows of an answer."""
        return self.connection.sql(text).fetchall()

    def pipelines(self) -> list[Pipeline]:
        """The last ones that ended, the oldest first."""
        result = self.connection.sql("SELECT * FROM thermocline.pipelines WHERE NOT is_running")
        return [dict(zip(result.columns, row, strict=True)) for row in result.fetchall()]

    def held(self) -> dict[str, tuple[int, int]]:
        """Size and bytes in memory of every column."""
        name = "table_schema || '.' || table_name || '.' || column_name"
        rows = self.rows(f"SELECT {name}, size_bytes, held_bytes FROM thermocline.columns")
        return {column: (size_bytes, held_bytes) for column, size_bytes, held_bytes in rows}

    def ask(self, query: str, text: str, is_sampled: bool) -> dict[str, Any]:
        """One question, measured."""
        before, held = self.pipelines(), self.held()
        watch = Watch(self.connection.cursor()) if is_sampled else None
        if watch:
            watch.start()
        began = time.perf_counter()
        rows = self.rows(text)
        seconds = time.perf_counter() - began
        measured = {"query": query, "seconds": seconds, "answer": digest(rows), "row_count": len(rows)}
        samples = watch.samples() if watch else []
        largest = max(new_pipelines(before, self.pipelines()), key=lambda pipeline: pipeline["size_bytes"], default=None)
        if largest:
            columns = {name: held[name] for name in columns_of(largest["pipeline"])}
            measured["pipeline"] = {**largest, "columns": columns}
            if is_sampled:
                measured["samples"] = [sample for sample in samples if sample["pipeline"] == largest["pipeline"]]
        return measured


def run(plan: dict[str, Any]) -> dict[str, Any]:
    """Everything that a plan asks for."""
    with brought_in(plan["bring_in_bytes"]):
        session = Session(plan)
    for _, text in plan["warm"]:
        session.rows(text)
    asked = [session.ask(query, text, plan["is_sampled"]) for query, text in plan["questions"]]
    [(used_bytes,)] = session.rows(
        "SELECT coalesce(sum(size_bytes), 0) FROM thermocline.columns WHERE hit_count + miss_count > 0"
    )
    tables = session.rows("SELECT table_name, row_count, size_bytes FROM thermocline.tables ORDER BY table_name")
    session.connection.close()
    return {"asked": asked, "used_bytes": used_bytes, "tables": tables}


if __name__ == "__main__":
    json.dump(run(json.load(sys.stdin)), sys.stdout, default=str)

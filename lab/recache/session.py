#!/usr/bin/env python3
"""Runs one plan in this process: a plan as JSON on standard input, what was measured as JSON on standard output. A plan
is a sequence of queries under one configuration, for each of which `run.py` starts a process, so that none meets another's
caches; or queries each of which is asked alone, in databases of its own, under several configurations in turn.

Times are seconds of wall time from the text of a query to its last row in Python. Before them, and in none of them:
opening the database, inferring the schemas, and the plan's `warm` queries.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from typing import Any

Rows = list[tuple[Any, ...]]


class Thermocline:
    """A database of its own, with the plan's settings and tables."""

    def __init__(self, plan: dict[str, Any]) -> None:
        import thermocline

        self.connection = thermocline.connect(**plan["connect"])
        for name, value in plan["set"].items():
            try:
                self.connection.sql(f"SET {name} = '{value}'")
            except thermocline.Error as error:
                raise SystemExit(f"this build refuses SET {name} = '{value}': {error}") from error
        for name, path in plan["tables"].items():
            kind = "CSV" if path.endswith(".csv") else "NDJSON"
            self.connection.sql(f"CREATE EXTERNAL TABLE {name} STORED AS {kind} LOCATION '{path}'")
            self.rows(f"SELECT * FROM {name} LIMIT 0")
        self.last_tick = -1

    def rows(self, text: str) -> Rows:
        """All rows of an answer."""
        result = self.connection.sql(text)
        return result.fetchall() if result is not None else []

    def close(self) -> None:
        """Ends the database."""
        self.connection.close()

    def kept(self) -> dict[str, int]:
        """What the cache holds now, and how long keeping it took."""
        [(item_count, size_bytes, cache_ns)] = self.rows(
            "SELECT count(*), coalesce(sum(size_bytes), 0), coalesce(sum(cache_ns), 0) FROM thermocline.cache_items"
        )
        return {"item_count": item_count, "size_bytes": size_bytes, "cache_ns": cache_ns}

    def layouts(self) -> dict[str, int]:
        """Items by layout; empty where the table does not tell."""
        if "layout" not in self.connection.sql("SELECT * FROM thermocline.cache_items").columns:
            return {}
        held = "thermocline.cache_items WHERE layout IS NOT NULL"
        return dict(self.rows(f"SELECT layout, count(*) FROM {held} GROUP BY layout"))

    def new_decisions(self) -> list[dict[str, Any]]:
        """What was decided since the last call, each with its numbers."""
        found = self.rows(
            "SELECT tick, decision, item, reason, numbers FROM thermocline.decisions "
            f"WHERE tick > {self.last_tick} ORDER BY tick"
        )
        decisions = []
        for tick, decision, item, reason, numbers in found:
            self.last_tick = max(self.last_tick, tick)
            values = dict(part.split("=", 1) for part in (numbers or "").split() if "=" in part)
            decisions.append({"decision": decision, "item": item, "reason": reason, **values})
        return decisions


class DuckDB:
    """The peer, from the same files."""

    def __init__(self, plan: dict[str, Any]) -> None:
        import duckdb

        self.connection = duckdb.connect(config={"threads": plan["connect"].get("threads") or 1})
        for name, path in plan["tables"].items():
            self.connection.sql(f"CREATE VIEW {name} AS SELECT * FROM '{path}'")

    def rows(self, text: str) -> Rows:
        """All rows of an answer."""
        return self.connection.sql(text).fetchall()

    def close(self) -> None:
        """Ends the database."""
        self.connection.close()

    def kept(self) -> dict[str, int]:
        """Nothing: DuckDB keeps no results."""
        return {"item_count": 0, "size_bytes": 0, "cache_ns": 0}

    def layouts(self) -> dict[str, int]:
        """None."""
        return {}

    def new_decisions(self) -> list[dict[str, Any]]:
        """None."""
        return []


def timed(database: Thermocline | DuckDB, text: str) -> tuple[float, Rows]:
    """Seconds and answer of one query."""
    began = time.perf_counter()
    rows = database.rows(text)
    return time.perf_counter() - began, rows


def in_sequence(engine: type[Thermocline] | type[DuckDB], plan: dict[str, Any]) -> dict[str, Any]:
    """All queries in one database. What was decided is counted after every query: the table forgets."""
    database = engine(plan)
    warm_s = [timed(database, text)[0] for text in plan["warm"]]
    warm_kept = database.kept()
    database.new_decisions()
    times_s, answers, counts, scans, most_bytes = [], [], {}, [], 0
    for text in plan["queries"]:
        time_s, rows = timed(database, text)
        times_s.append(time_s)
        answers.append(rows)
        decisions = database.new_decisions()
        for decision in decisions:
            counts[decision["decision"]] = counts.get(decision["decision"], 0) + 1
        scans.append([decision for decision in decisions if "data_ns" in decision])
        most_bytes = max(most_bytes, database.kept()["size_bytes"])
    return {
        "warm_s": warm_s,
        "warm_kept": warm_kept,
        "times_s": times_s,
        "answers": answers,
        "decisions": counts,
        "scans": scans if any(scans) else [],
        "kept": {**database.kept(), "most_bytes": most_bytes},
        "layouts": database.layouts(),
    }


def each_alone(plan: dict[str, Any]) -> list[dict[str, Any]]:
    """Each query in databases of its own, one for every configuration and round; the rounds of a query follow one another,
    and each begins with another configuration. What was measured of each configuration: medians, and the first round's
    answers and decisions."""
    configurations = plan["configurations"]
    measured: list[dict[str, Any]] = [
        {"times_s": [], "answers": [], "cache_ns": [], "decisions": {}, "rounds": plan["rounds"]} for _ in configurations
    ]
    for text in plan["queries"]:
        times_s: list[list[float]] = [[] for _ in configurations]
        for number in range(plan["rounds"]):
            for place in range(len(configurations)):
                at = (number + place) % len(configurations)
                database = Thermocline({**configurations[at], "tables": plan["tables"]})
                time_s, rows = timed(database, text)
                times_s[at].append(time_s)
                if number == 0:
                    measured[at]["answers"].append(rows)
                    measured[at]["cache_ns"].append(database.kept()["cache_ns"])
                    counts = measured[at]["decisions"]
                    for decision in database.new_decisions():
                        counts[decision["decision"]] = counts.get(decision["decision"], 0) + 1
                database.close()
        for one, times in zip(measured, times_s, strict=True):
            one["times_s"].append(statistics.median(times))
    return measured


def main() -> None:
    """Plan in, measurements out."""
    plan = json.load(sys.stdin)
    engine = DuckDB if plan.get("engine") == "duckdb" else Thermocline
    measured = each_alone(plan) if "configurations" in plan else in_sequence(engine, plan)
    json.dump(measured, sys.stdout, default=str)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Measures a figure of the ReCache paper (PVLDB 2017): each configuration in a fresh process, answers compared between
them.

    lab/recache/data.py --data DIR
    .venv/bin/python lab/recache/run.py 9 --data DIR --out results/9.json
    .venv/bin/python lab/recache/run.py all --data DIR --out results
    lab/recache/draw.py results --out docs/results

Needs a Python with `thermocline`. `--peer` adds DuckDB, from the same files, by another Python that has it: a check of
the answers, and a line to compare with. `--queries-share 0.1` asks a tenth of the queries. Figure 1 comes with 9.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from dataset import DataSet, discover
from experiment.conditions import commit, machine, now
from figures import FIGURES, Configuration
from replayed import replay
from rounds import middle, middle_process
from workloads import Query

DUCKDB = Configuration("duckdb", engine="duckdb")


class Runs:
    """The runs of one figure. Keeps what was measured, and the first answers of every part to hold the others
    against."""

    def __init__(self, arguments: argparse.Namespace, trace_path: Path) -> None:
        self.arguments = arguments
        self.data: Path = arguments.data.resolve()
        self.generated = json.loads((self.data / "data.json").read_text())
        self.seed: int = arguments.seed
        self.tpch_scale: float = self.generated["tpch_scale"]
        self.trace_path = trace_path.resolve()
        self.replayed: dict[str, Any] | None = None
        self.runs: list[dict[str, Any]] = []
        self.size_bytes: dict[str, int] = {}
        self.answers: dict[tuple[str, float | None], list[Any]] = {}
        self.data_sets: dict[str, DataSet] = {}

    def file(self, name: str) -> str:
        """The path of a data file, which is in the system's page cache from then on; its size goes into the results."""
        path = self.data / name
        if name not in self.size_bytes:
            read_once(path)
            self.size_bytes[name] = path.stat().st_size
        return str(path)

    def discover(self, table: str, name: str) -> DataSet:
        """The file's attributes, sampled once."""
        if name not in self.data_sets:
            self.data_sets[name] = discover(table, self.data / name)
        return self.data_sets[name]

    def count(self, full: int) -> int:
        """That many queries, or the share asked for."""
        return max(6, round(full * self.arguments.queries_share))

    def run_in_turn(
        self,
        part: str,
        configurations: list[Configuration],
        tables: dict[str, str],
        queries: list[Query],
        *,
        rounds: int,
        warm: Callable[[Configuration], list[str]] | None = None,
        whole: bool = False,
        x: float | None = None,
    ) -> None:
        """Measures configurations in turn, several times, and keeps each query's median: they are compared to the
        percent, and the machine must not have been busier with one than with another; every round begins with another
        one. `whole`: keeps the process that took the median of all time instead, since what an engine decides in one
        process it may decide at another query in the next. The peer comes once before, if these are the first ones of
        their part and place."""
        is_first = not any((run["part"], run["x"]) == (part, x) for run in self.runs)
        if self.arguments.peer and is_first:
            self.keep(part, DUCKDB, x, queries, self.ask(part, DUCKDB, tables, queries, x=x))
        measured: dict[str, list[dict[str, Any]]] = {}
        for number in range(rounds):
            first = number % len(configurations)
            for configuration in configurations[first:] + configurations[:first]:
                before = warm(configuration) if warm else []
                process = self.ask(part, configuration, tables, queries, x=x, warm=before)
                measured.setdefault(configuration.name, []).append(process)
        for configuration in configurations:
            of_one = measured[configuration.name]
            self.keep(part, configuration, x, queries, middle_process(of_one) if whole else middle(of_one))

    def run_alone(
        self,
        part: str,
        configurations: list[Configuration],
        tables: dict[str, str],
        queries: list[Query],
        *,
        rounds: int,
        x: float | None = None,
    ) -> None:
        """Measures every query in databases of its own, under all configurations in turn in one process, several times,
        and keeps medians: what they differ by is less than what two processes do."""
        plan = {
            "configurations": [{"connect": self.connect(one), "set": one.settings} for one in configurations],
            "rounds": rounds,
            "tables": tables,
            "queries": [query.text for query in queries],
        }
        measured = self.session(part, sys.executable, plan)
        for configuration, of_one in zip(configurations, measured, strict=True):
            self.compare(part, configuration, x, queries, of_one.pop("answers"))
            self.keep(part, configuration, x, queries, of_one)

    def trace(self) -> str:
        """A file for the trace of a run, beside the results; what it held is gone."""
        self.trace_path.parent.mkdir(parents=True, exist_ok=True)
        self.trace_path.unlink(missing_ok=True)
        return str(self.trace_path)

    def replay(self, limits_bytes: list[int]) -> None:
        """Adds what every policy would have made of the trace under these limits."""
        self.replayed = {"limits_bytes": limits_bytes, "seconds": replay(self.arguments.lab, self.trace_path, limits_bytes)}

    def connect(self, configuration: Configuration) -> dict[str, Any]:
        """The arguments of `connect`."""
        return {"threads": self.arguments.threads, "memory": self.arguments.memory, **configuration.connect}

    def ask(
        self,
        part: str,
        configuration: Configuration,
        tables: dict[str, str],
        queries: list[Query],
        *,
        x: float | None = None,
        warm: list[str] | None = None,
    ) -> dict[str, Any]:
        """What a fresh process measured; its answers were those of the part's first one."""
        is_peer = configuration.engine == "duckdb"
        plan = {
            "engine": configuration.engine,
            "connect": self.connect(configuration),
            "set": configuration.settings,
            "tables": tables,
            "queries": [query.duckdb if is_peer else query.text for query in queries],
            "warm": warm or [],
        }
        measured = self.session(f"{part}, {configuration.name}", self.arguments.peer if is_peer else sys.executable, plan)
        self.compare(part, configuration, x, queries, measured.pop("answers"))
        return measured

    def session(self, what: str, python: str, plan: dict[str, Any]) -> Any:
        """What a fresh process measured of a plan."""
        process = subprocess.run(
            [python, str(HERE / "session.py")], input=json.dumps(plan), stdout=subprocess.PIPE, text=True, check=False
        )
        if process.returncode != 0:
            raise SystemExit(f"{what}: the session ended with {process.returncode}")
        return json.loads(process.stdout)

    def compare(
        self, part: str, configuration: Configuration, x: float | None, queries: list[Query], answers: list[Any]
    ) -> None:
        """Holds answers against the first ones of their part and place."""
        expected = self.answers.setdefault((part, x), answers)
        for query, answer, wanted in zip(queries, answers, expected, strict=True):
            if not same(answer, wanted):
                raise SystemExit(f"{configuration.name} answers\n{answer}\nwhere before came\n{wanted}\n{query.text}")

    def keep(
        self, part: str, configuration: Configuration, x: float | None, queries: list[Query], measured: dict[str, Any]
    ) -> dict[str, Any]:
        """Adds a run to the results."""
        run = {
            "part": part,
            "configuration": configuration.name,
            "connect": self.connect(configuration),
            "settings": configuration.settings,
            "x": x,
            "nested": [int(query.nested) for query in queries],
            **measured,
        }
        self.runs.append(run)
        where = part if x is None else f"{part} at {x:g}"
        print(f"{where:16} {configuration.name:20} {sum(run['times_s']):8.2f} s for {len(queries)} queries", flush=True)
        return run


def read_once(path: Path) -> None:
    """Has the system read a file, so that no query waits for the disk."""
    with path.open("rb", buffering=0) as file:
        while file.read(1 << 20):
            pass


def same(left: Any, right: Any) -> bool:
    """Rows are equal but for the order in which doubles were added."""
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, (int, float)) and isinstance(right, (int, float)):
        return abs(left - right) <= 1e-9 * max(abs(left), abs(right)) + 1e-7
    return left == right


def measure_figure(figure: str, arguments: argparse.Namespace, path: Path) -> None:
    """Runs one figure and writes its results."""
    runs = Runs(arguments, path.with_suffix(".trace"))
    options = [f"--seed {arguments.seed}", f"--threads {arguments.threads}"]
    if arguments.queries_share != 1:
        options.append(f"--queries-share {arguments.queries_share:g}")
    if arguments.memory:
        options.append(f"--memory {arguments.memory}")
    result = {
        "figure": figure,
        "command": f"lab/recache/run.py {figure} {' '.join(options)}",
        "commit": commit(),
        "machine": machine(),
        "began": now(),
        "seed": arguments.seed,
        "threads": arguments.threads,
        "data": runs.generated,
    }
    print(f"figure {figure}", flush=True)
    FIGURES[figure](runs)
    result |= {"ended": now(), "size_bytes": runs.size_bytes, "replayed": runs.replayed, "runs": runs.runs}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result) + "\n")


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figure", choices=[*FIGURES, "all"])
    parser.add_argument("--data", type=Path, required=True, help="folder that data.py filled")
    parser.add_argument("--out", type=Path, required=True, help="file of the results, or a folder for them; for `all`, a folder")
    parser.add_argument("--seed", type=int, default=1, help="of the queries")
    parser.add_argument("--threads", type=int, default=1, help="of a query; the paper ran on one")
    parser.add_argument("--memory", help="of the database; half of the machine's when absent")
    parser.add_argument("--queries-share", type=float, default=1.0)
    parser.add_argument("--lab", type=Path, default=Path("target/release/lab"), help="the lab command, for figure 14")
    parser.add_argument("--peer", metavar="PYTHON", help="a Python that has duckdb")
    arguments = parser.parse_args()
    if arguments.figure in ("14", "all") and not arguments.lab.is_file():
        # Found out now rather than after the runs, which take hours.
        parser.error(f"--lab: there is no {arguments.lab}; `make build` makes it")
    if arguments.figure == "all":
        for figure in FIGURES:
            measure_figure(figure, arguments, arguments.out / f"{figure}.json")
    else:
        path = arguments.out / f"{arguments.figure}.json" if arguments.out.is_dir() else arguments.out
        measure_figure(arguments.figure, arguments, path)


if __name__ == "__main__":
    main()

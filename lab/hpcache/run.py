#!/usr/bin/env python3
"""Measures figures of the HPCache paper (DaMoN 2022): each configuration in a fresh process from a cold pool, answers
compared.

    make build
    .venv/bin/python lab/hpcache/run.py all --data DATA --scale 10 --db /dev/shm/ssb.db --disk ssb.db --out results
    lab/hpcache/draw.py results --out docs/results

Makes DATA (the Star Schema Benchmark's files) and the two databases if they are not there. `--db` should be a folder
whose medium is memory: reads of it are slowed down to simulated bandwidths. `--disk` is read as it is, where that is
given. Each figure has a file, `OUT/FIGURE.jsonl`, to which every finished run is added; a later process goes on where
an earlier one stopped. `--quick` measures fewer configurations, to try things out, `--media` and `--policies` those
alone that are named. Figure 4 comes with 5, the comparison of all policies with 8 and 9.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from experiment.conditions import commit, machine, now
from experiments import EXPERIMENTS, POLICIES, SOURCE, Configuration, Experiment, configurations, quick, restricted
from media import BY_NAME, DISK
from results_file import Record, ResultsFile
from ssb_workloads import TABLES, Question, questions

LINES_PER_SCALE = 6_000_000
"""Lines at scale factor 1, about: orders have one to seven."""

PACE_QUESTIONS = 15
"""P is the median of at least so many: everything simulated is a multiple of it."""

BROUGHT_IN_BYTES = 250_000_000
"""What a session takes beside pages. Much more than it takes goes back to the host while questions run."""


class Lab:
    """Asks sessions, on what the command line names."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.data: Path = arguments.data.resolve()

    def make_data(self) -> None:
        """Generates the files, once."""
        if (self.data / f"{TABLES[-1]}.parquet").exists():
            return
        command = [self.arguments.lab, "generate", "ssb", "--scale", f"{self.arguments.scale:g}", "--out", self.data]
        try:
            subprocess.run(command, check=True)
        except FileNotFoundError as error:
            raise SystemExit(f"{self.arguments.lab} is not there: make build") from error

    def make_databases(self) -> dict[str, Any]:
        """Makes their tables, once, and tells what is in them."""
        described = [self.ask(folder, [], tables=True)["tables"] for folder in self.folders()]
        if any(tables != described[0] for tables in described):
            raise SystemExit(
                f"{self.arguments.db} holds {described[0]}, {self.arguments.disk} {described[-1]}: remove one of them"
            )
        [line_count] = [row_count for name, row_count, _ in described[0] if name == "lineorder"]
        expected = self.arguments.scale * LINES_PER_SCALE
        if abs(line_count / expected - 1) > 0.05:
            scale = f"--scale {self.arguments.scale:g}"
            raise SystemExit(f"{self.arguments.db} has {line_count} lines, expected about {expected:.0f} at {scale}")
        return {"tables": described[0]}

    @staticmethod
    def size_bytes(folder: Path) -> int:
        """Of the files in a folder, if it is there."""
        return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())

    def folders(self) -> list[Path]:
        """The databases."""
        return [self.arguments.db] + ([self.arguments.disk] if self.arguments.disk else [])

    def ask(
        self,
        folder: Path,
        asked: list[Question],
        warm: list[Question] | None = None,
        settings: dict[str, str] | None = None,
        is_sampled: bool = False,
        tables: bool = False,
        cache_bytes: int | None = None,
    ) -> dict[str, Any]:
        """What a fresh process measured; `cache_bytes` is what its pages may take, else all of them find room."""
        plan = {
            "bring_in_bytes": BROUGHT_IN_BYTES + (self.size_bytes(folder) if cache_bytes is None else cache_bytes),
            "db": str(folder.resolve()),
            "memory": self.arguments.memory,
            "tables": {name: str(self.data / f"{name}.parquet") for name in TABLES} if tables else {},
            "set": {f"thermocline.{name}": value for name, value in (settings or {}).items()},
            "warm": warm or [],
            "questions": asked,
            "is_sampled": is_sampled,
        }
        process = subprocess.run(
            [sys.executable, str(HERE / "session.py")],
            input=json.dumps(plan),
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        if process.returncode != 0:
            raise SystemExit(f"the session ended with {process.returncode}; its plan was {json.dumps(plan)}")
        return json.loads(process.stdout)

    def pace(self, workload: str) -> Record:
        """The workload with all its pages in memory and nothing slowed down."""
        once = questions(workload)
        measured = self.ask(self.arguments.db, once * -(-PACE_QUESTIONS // len(once)), warm=once)
        return pace_record(workload, measured, len(once))

    def measure(self, experiment: Experiment, configuration: Configuration, paces: dict[str, Record]) -> Record:
        """One configuration; its answers were those with all pages in memory."""
        workload, medium = configuration.workload, configuration.medium
        reference = paces[workload]
        pace = paces[experiment.pace_workload(workload)]["bytes_per_s"]
        once = questions(workload)
        folder = self.arguments.disk if medium == DISK else self.arguments.db
        forget_pages(folder)
        measured = self.ask(
            folder,
            once * experiment.timed_rounds,
            warm=once * experiment.warm_rounds,
            settings=settings(configuration, reference["used_bytes"], medium.bytes_per_s(pace)),
            is_sampled=experiment.is_sampled,
            cache_bytes=round(configuration.share * reference["used_bytes"]),
        )
        check_answers(configuration, measured["asked"], reference["answers"])
        return {
            "kind": "run",
            "workload": workload,
            "medium": medium.name,
            "share": configuration.share,
            "policy": configuration.policy,
            "repetition": configuration.repetition,
            "began": now(),
            "asked": measured["asked"],
        }


def forget_pages(folder: Path) -> None:
    """Has the system drop what it caches of the folder's files, so that the policy `os` begins cold as the others do.
    Files whose medium is memory stay there."""
    for path in folder.rglob("*"):
        if path.is_file():
            file = os.open(path, os.O_RDONLY)
            try:
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(file)


def settings(configuration: Configuration, used_bytes: int, bytes_per_s: float | None) -> dict[str, str]:
    """What is set for a configuration of a workload that reads so much."""
    chosen = {
        "page_policy": configuration.policy,
        "cache_memory": f"{round(configuration.share * used_bytes / 1000)}KB",
    }
    if bytes_per_s is not None:
        chosen["simulated_bandwidth"] = f"{round(bytes_per_s / 1000)}KB"
    return chosen


def pace_record(workload: str, measured: dict[str, Any], question_count: int) -> Record:
    """P, the median of the questions' largest pipelines, and what to hold later answers against."""
    asked = measured["asked"]
    paces = [one["pipeline"]["throughput_bytes_per_s"] for one in asked if "pipeline" in one]
    return {
        "kind": "pace",
        "workload": workload,
        "bytes_per_s": statistics.median(paces),
        "each_bytes_per_s": paces,
        "used_bytes": measured["used_bytes"],
        "seconds": [one["seconds"] for one in asked],
        "answers": [one["answer"] for one in asked[:question_count]],
    }


def check_answers(configuration: Configuration, asked: list[dict[str, Any]], expected: list[str]) -> None:
    """Ends the program at the first answer that differs."""
    for at, one in enumerate(asked):
        if one["answer"] != expected[at % len(expected)]:
            question = f"question {at + 1} ({one['query']})"
            raise SystemExit(f"{configuration.key}: {question} is answered otherwise than from memory")


def measure_figure(figure: str, lab: Lab, database: dict[str, Any]) -> None:
    """Runs what is missing of one figure."""
    arguments = lab.arguments
    experiment = quick(EXPERIMENTS[figure]) if arguments.quick else EXPERIMENTS[figure]
    experiment = restricted(experiment, arguments.media, arguments.policies)
    options = f"--scale {arguments.scale:g} --repetitions {arguments.repetitions} --memory {arguments.memory}"
    for name, chosen in (("media", arguments.media), ("policies", arguments.policies)):
        options += f" --{name} {shlex.join(chosen)}" if chosen else ""
    header = {
        "kind": "header",
        "figure": figure,
        "command": f"lab/hpcache/run.py {figure} {options}{' --quick' if arguments.quick else ''}",
        "commit": commit(),
        "machine": machine(),
        "began": now(),
        "scale": arguments.scale,
        "memory": arguments.memory,
        "quick": arguments.quick,
        "database": database,
    }
    results = ResultsFile(arguments.out / f"{figure}.jsonl", json.loads(json.dumps(header)))
    for workload in dict.fromkeys([*experiment.workloads, *map(experiment.pace_workload, experiment.workloads)]):
        if workload not in results.paces:
            results.append(lab.pace(workload))
        pace = results.paces[workload]
        read = f"{pace['used_bytes'] / 1e6:.0f} MB read"
        print(f"figure {figure}, {workload}: P {pace['bytes_per_s'] / 1e9:.2f} GB/s, {read}", flush=True)
    wanted = list(configurations(experiment, arguments.repetitions, bool(arguments.disk)))
    for number, configuration in enumerate(wanted, 1):
        if configuration.key in results.done:
            continue
        run = lab.measure(experiment, configuration, results.paces)
        results.append(run)
        took = f"{sum(one['seconds'] for one in run['asked']):8.3f} s"
        where = f"{configuration.medium.name:10} {configuration.share:5.0%} {configuration.policy:13}"
        print(f"{number:4} of {len(wanted)}  {configuration.workload:4} {where} {took}", flush=True)


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figures", nargs="+", choices=[*EXPERIMENTS, *SOURCE, "all"], metavar="figure")
    parser.add_argument("--data", type=Path, required=True, help="folder of the benchmark's Parquet files")
    parser.add_argument("--scale", type=float, default=1, help="the benchmark's scale factor")
    parser.add_argument("--db", type=Path, required=True, help="folder of a database in memory, such as one in /dev/shm")
    parser.add_argument("--disk", type=Path, help="folder of the same database on the disk")
    parser.add_argument("--out", type=Path, required=True, help="folder of the results")
    parser.add_argument("--repetitions", type=int, default=3, help="of each configuration; medians count")
    parser.add_argument("--memory", default="8GB", help="of the database; caches are capped by each configuration")
    parser.add_argument("--lab", type=Path, default=Path("target/release/lab"), help="the lab command, for the data")
    parser.add_argument("--media", nargs="*", default=[], choices=BY_NAME, metavar="MEDIUM", help=", ".join(BY_NAME))
    parser.add_argument("--policies", nargs="*", default=[], choices=POLICIES, help="these alone")
    parser.add_argument("--quick", action="store_true", help="few configurations")
    arguments = parser.parse_args()
    lab = Lab(arguments)
    lab.make_data()
    database = lab.make_databases()
    named = dict.fromkeys(SOURCE.get(name, name) for name in arguments.figures)
    for figure in EXPERIMENTS if "all" in named else named:
        measure_figure(figure, lab, database)


if __name__ == "__main__":
    main()

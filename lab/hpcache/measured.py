"""What was measured for one figure, and medians of it.

Owns the choice among repetitions. Times are seconds, sizes bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import results_file
from experiments import POLICIES
from media import BY_NAME, Medium

Asked = dict[str, Any]
"""One question of a run, as `session.py` tells of it."""


@dataclass(frozen=True)
class Run:
    """What one process measured."""

    workload: str
    medium: str
    share: float
    policy: str
    repetition: int
    asked: list[Asked]

    def seconds(self, count: int | None = None) -> float:
        """All questions together, or the first ones."""
        return sum(one["seconds"] for one in self.asked[:count])

    def question_s(self) -> float:
        """The median of the questions, where all are the same."""
        return median(one["seconds"] for one in self.asked)

    def share_held(self) -> float:
        """What did not come from storage of the largest pipeline's bytes, of all questions together."""
        pipelines = [one["pipeline"] for one in self.asked if "pipeline" in one]
        size_bytes = sum(pipeline["size_bytes"] for pipeline in pipelines)
        return 1 - sum(pipeline["read_bytes"] for pipeline in pipelines) / size_bytes if size_bytes else 1.0


class Measured:
    """Everything in one file of results."""

    def __init__(self, header: dict[str, Any], records: list[dict[str, Any]]) -> None:
        self.header = header
        self.paces = {record["workload"]: record for record in records if record["kind"] == "pace"}
        fields = list(Run.__dataclass_fields__)
        self.runs = [Run(**{name: record[name] for name in fields}) for record in records if record["kind"] == "run"]

    @classmethod
    def read(cls, path: Path) -> Measured:
        """What the file holds, also before all is finished."""
        return cls(*results_file.read(path))

    def media(self) -> list[Medium]:
        """In the order of the runs."""
        return [BY_NAME[name] for name in dict.fromkeys(run.medium for run in self.runs)]

    def workloads(self) -> list[str]:
        """In the order of the runs."""
        return list(dict.fromkeys(run.workload for run in self.runs))

    def shares(self) -> list[float]:
        """Budgets, ascending."""
        return sorted({run.share for run in self.runs})

    def policies(self) -> list[str]:
        """In the order of the experiments."""
        found = {run.policy for run in self.runs}
        return [policy for policy in POLICIES if policy in found]

    def of(self, **chosen: Any) -> list[Run]:
        """Runs with these fields, by repetition."""
        runs = [run for run in self.runs if all(getattr(run, name) == value for name, value in chosen.items())]
        return sorted(runs, key=lambda run: run.repetition)

    def pace(self, workload: str) -> float:
        """P in bytes a second."""
        return self.paces[workload]["bytes_per_s"]

    def repetition_count(self) -> int:
        """How often the least measured configuration was measured."""
        counts: dict[tuple[Any, ...], int] = {}
        for run in self.runs:
            key = (run.workload, run.medium, run.share, run.policy)
            counts[key] = counts.get(key, 0) + 1
        return min(counts.values(), default=0)

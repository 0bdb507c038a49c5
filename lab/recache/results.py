"""Results that `run.py` wrote, and the numbers that figures and texts are made of.

Owns the arithmetic on times; draws nothing. Times are seconds.
"""

from __future__ import annotations

import json
import math
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass
class Run:
    """One configuration of one part."""

    fields: dict[str, Any]

    @property
    def name(self) -> str:
        """The configuration's."""
        return self.fields["configuration"]

    @property
    def times_s(self) -> list[float]:
        """One for each query."""
        return self.fields["times_s"]

    @property
    def expected_s(self) -> list[float]:
        """What each query is expected to take: the median of all processes, where there were several."""
        return self.fields.get("medians_s", self.times_s)

    @property
    def total_s(self) -> float:
        """All queries together."""
        return sum(self.times_s)

    @property
    def x(self) -> float:
        """Where on the figure's axis it stands."""
        return self.fields["x"]


class Results:
    """All runs of one figure."""

    def __init__(self, path: Path) -> None:
        self.fields: dict[str, Any] = json.loads(path.read_text())
        self.runs = [Run(fields) for fields in self.fields["runs"]]

    def part(self, part: str) -> dict[str, Run]:
        """Runs of a part without an axis, by configuration."""
        return {run.name: run for run in self.runs if run.fields["part"] == part and run.fields["x"] is None}

    def series(self, part: str) -> dict[str, dict[float, Run]]:
        """Runs of a part along its axis: configuration, then place."""
        series: dict[str, dict[float, Run]] = {}
        for run in self.runs:
            if run.fields["part"] == part and run.fields["x"] is not None:
                series.setdefault(run.name, {})[run.x] = run
        return series


def cumulative(times_s: list[float]) -> list[float]:
    """How long the first n queries took, for every n."""
    sums, total = [], 0.0
    for time_s in times_s:
        total += time_s
        sums.append(total)
    return sums


def smoothed(times_s: list[float], width: int = 9) -> list[float]:
    """The median of each query and its neighbours: single queries differ too much to see their trend."""
    half = width // 2
    return [statistics.median(times_s[max(0, index - half) : index + half + 1]) for index in range(len(times_s))]


def optimal_s(first: Run, second: Run) -> float:
    """What always having the better of two layouts would have taken: of each query the time in the one that is expected
    to be faster. The lesser of two times that were measured once each would be less than either is to be expected."""
    rows = zip(first.expected_s, second.expected_s, first.times_s, second.times_s, strict=True)
    return sum(in_first if first_s <= second_s else in_second for first_s, second_s, in_first, in_second in rows)


def closer_percent(run: Run, other: Run, best_s: float) -> float:
    """By how much of `other`'s distance from the optimum `run` is closer to it."""
    distance_s = other.total_s - best_s
    return 100 * (other.total_s - run.total_s) / distance_s if distance_s > 0 else math.nan


def less_percent(run: Run, other: Run) -> float:
    """How much less time than `other` it took; negative if more."""
    return 100 * (1 - run.total_s / other.total_s)


def more_percent(run: Run, other: Run) -> float:
    """How much more time than `other` it took; negative if less."""
    return 100 * (run.total_s / other.total_s - 1)


def overheads_percent(run: Run, off: Run) -> list[float]:
    """What caching added to each query asked alone, in ascending order."""
    return sorted(100 * (cached / plain - 1) for cached, plain in zip(run.times_s, off.times_s, strict=True))

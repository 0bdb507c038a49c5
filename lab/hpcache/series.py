"""The numbers that figures 3 to 7 are drawn from and that the page tells of them. Draws nothing; needs no
matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from experiments import AMPLE
from measured import Measured, Run
from media import Medium
from model import seconds

NEAR = 0.05
"""A time is as good as the least if it is at most so much longer."""


def placements(measured: Measured, medium: str) -> dict[str, dict[float, float]]:
    """Figure 3: the time of each query by the share of its input that finds room."""
    found: dict[str, dict[float, float]] = {}
    for workload in measured.workloads():
        for share in measured.shares():
            runs = measured.of(workload=workload, medium=medium, share=share)
            if runs:
                found.setdefault(workload, {})[share] = median(run.question_s() for run in runs)
    return found


@dataclass(frozen=True)
class Point:
    """A query with a share of its input in memory."""

    share_held: float
    seconds: float


def by_share(measured: Measured, workload: str, medium: str) -> list[Point]:
    """Figures 4 and 5, in the order of what was held."""
    points = []
    for share in measured.shares():
        runs = measured.of(workload=workload, medium=medium, share=share)
        if runs:
            points.append(Point(median(run.share_held() for run in runs), median(run.question_s() for run in runs)))
    return sorted(points, key=lambda point: point.share_held)


def share_enough(points: Sequence[Point]) -> float:
    """The least share from which on the query takes hardly longer than at best."""
    least_s = min(point.seconds for point in points)
    enough = 1.0
    for point in reversed(points):
        if point.seconds > (1 + NEAR) * least_s:
            break
        enough = point.share_held
    return enough


def expected(measured: Measured, workload: str, medium: Medium, shares: Sequence[float]) -> list[float] | None:
    """The times by equation 1, for the largest pipeline; `None` for a disk, of which no bandwidth is known."""
    pace = measured.pace(workload)
    storage_bytes_per_s = medium.bytes_per_s(pace)
    sizes = [one["pipeline"]["size_bytes"] for run in measured.of(workload=workload) for one in run.asked if "pipeline" in one]
    if storage_bytes_per_s is None or not sizes:
        return None
    return [seconds(median(sizes), share, storage_bytes_per_s, pace) for share in shares]


@dataclass(frozen=True)
class Moments:
    """Figures 6 and 7: what was predicted of a pipeline while it ran, and what it took; `at_s` is how long it had
    run."""

    at_s: list[float]
    predicted_s: list[float]
    in_memory_s: list[float]
    took_s: float
    took_in_memory_s: float


def moments(measured: Measured, workload: str, medium: str) -> Moments | None:
    """Of the repetition in the middle; `None` while a budget's runs are missing."""
    runs = [run for run in measured.of(workload=workload, medium=medium) if "pipeline" in run.asked[0]]
    limited = sorted((run for run in runs if run.share < AMPLE), key=took_s)
    free = [took_s(run) for run in runs if run.share == AMPLE]
    if not limited or not free:
        return None
    middle = limited[len(limited) // 2]
    samples = [one for one in middle.asked[0]["samples"] if one["predicted_s"] is not None]
    return Moments(
        at_s=[one["took_s"] for one in samples],
        predicted_s=[one["predicted_s"] for one in samples],
        in_memory_s=[one["in_memory_s"] for one in samples],
        took_s=took_s(middle),
        took_in_memory_s=median(free),
    )


def took_s(run: Run) -> float:
    """The only pipeline's time."""
    return run.asked[0]["pipeline"]["took_s"]

"""Predicted times of pipelines beside what they took.

Owns which predictions are compared: those of each question's largest pipeline, by the engine when it began, and by the
readings of the equations (`model.py`), fed with the P that the same query's pipeline had in the round before, with what
was in memory of its columns, and with the bandwidth. That of a disk is not known: taken is what its fastest pipelines
read, a high percentile of them. Beside them what the very same question took in the other repetitions: no prediction
can be expected to be better.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from statistics import median
from typing import Any

from measured import Measured, Run
from media import BY_NAME
from model import Column, max_over_columns, slowest_column, sum_over_device

WITHIN = 0.1
"""An error below this is a good prediction."""


@dataclass(frozen=True)
class Prediction:
    """Of one pipeline."""

    medium: str
    share: float
    policy: str
    took_s: float
    engine_s: float
    sum_s: float
    max_s: float
    slowest_s: float
    repeated_s: float | None


def columns(pipeline: dict[str, Any]) -> list[Column]:
    """What it reads of each column. What it skips of them it is taken to skip of all alike."""
    whole_bytes = sum(size_bytes for size_bytes, _ in pipeline["columns"].values())
    part = pipeline["size_bytes"] / whole_bytes if whole_bytes else 0.0
    return [
        Column(part * size_bytes, min(held_bytes / size_bytes, 1.0) if size_bytes else 1.0)
        for size_bytes, held_bytes in pipeline["columns"].values()
    ]


def disk_bytes_per_s(runs: Iterable[Run]) -> float | None:
    """What the device gave the fastest twentieth of the pipelines that came from it for the most part."""
    rates = sorted(
        one["pipeline"]["read_bytes"] / one["pipeline"]["took_s"]
        for run in runs
        for one in run.asked
        if "pipeline" in one and one["pipeline"]["read_bytes"] > one["pipeline"]["size_bytes"] / 2
    )
    return rates[len(rates) * 19 // 20] if rates else None


def predictions(measured: Measured, workload: str) -> Iterator[Prediction]:
    """All that can be compared: of pipelines whose query ran before in the same process."""
    by_disk = disk_bytes_per_s(run for run in measured.of(workload=workload) if not BY_NAME[run.medium].is_simulated)
    for run in measured.of(workload=workload):
        storage_bytes_per_s = BY_NAME[run.medium].bytes_per_s(measured.pace(workload)) or by_disk
        if storage_bytes_per_s is None or run.policy == "os":
            # Nothing is said of what the system holds.
            continue
        repetitions = measured.of(workload=workload, medium=run.medium, share=run.share, policy=run.policy)
        others = [other for other in repetitions if other is not run]
        paces: dict[tuple[str, str], float] = {}
        for number, one in enumerate(run.asked):
            pipeline = one.get("pipeline")
            if pipeline is None:
                continue
            plan = (one["query"], pipeline["pipeline"])
            pace = paces.get(plan)
            paces[plan] = pipeline["throughput_bytes_per_s"]
            if pace is not None and pipeline["predicted_s"] is not None:
                read = columns(pipeline)
                yield Prediction(
                    run.medium,
                    run.share,
                    run.policy,
                    pipeline["took_s"],
                    pipeline["predicted_s"],
                    sum_over_device(read, storage_bytes_per_s, pace),
                    max_over_columns(read, storage_bytes_per_s, pace),
                    slowest_column(read, storage_bytes_per_s, pace),
                    repeated_s(others, number),
                )


def repeated_s(others: list[Run], number: int) -> float | None:
    """What a question's pipeline took in other runs of the same configuration, in the middle."""
    pipelines = [other.asked[number].get("pipeline") for other in others]
    return median(pipeline["took_s"] for pipeline in pipelines if pipeline) if any(pipelines) else None


def error(predicted_s: float, took_s: float) -> float:
    """0.1 is an error of 10 %."""
    return abs(predicted_s - took_s) / took_s


def errors_of(compared: Iterable[Prediction], by: str) -> list[float]:
    """Of those that were predicted so; `by` is the name of their seconds."""
    predicted = [(getattr(one, by), one.took_s) for one in compared]
    return [error(predicted_s, took_s) for predicted_s, took_s in predicted if predicted_s is not None]


def within(compared: Iterable[Prediction], by: str) -> float | None:
    """The share of good predictions."""
    errors = errors_of(compared, by)
    return sum(one <= WITHIN for one in errors) / len(errors) if errors else None


def median_error(compared: Iterable[Prediction], by: str) -> float | None:
    """The middle one."""
    errors = errors_of(compared, by)
    return median(errors) if errors else None

"""One measurement made of several of the same: each query stands for its middle one.

Owns which of them that is. A query takes up to a sixth more or less in another process, or while the machine's
neighbours are busy; what it takes in the middle one of five processes comes out again within some per cent.
"""

from __future__ import annotations

import statistics
from typing import Any


def middle(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """The first round, with each query's median time, and the scans of the round in which reading the cache took its
    median: all numbers of a scan are of one and the same round, and what was predicted was predicted there."""
    times_s = zip(*(one["times_s"] for one in rounds), strict=True)
    merged = {**rounds[0], "times_s": [statistics.median(times) for times in times_s], "rounds": len(rounds)}
    if all(one.get("scans") for one in rounds):
        merged["scans"] = [
            sorted(scans, key=cost_ns)[(len(scans) - 1) // 2]
            for scans in zip(*(one["scans"] for one in rounds), strict=True)
        ]
    return merged


def middle_process(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """The round that took the median of all time, as it was, with each query's median of all rounds beside it."""
    by_total = sorted(rounds, key=lambda one: sum(one["times_s"]))
    medians_s = [statistics.median(times) for times in zip(*(one["times_s"] for one in rounds), strict=True)]
    return {**by_total[(len(by_total) - 1) // 2], "rounds": len(rounds), "medians_s": medians_s}


def cost_ns(scans: list[dict[str, Any]]) -> float:
    """What a query's scans of the cache took; those that are told as text too."""
    return sum(float(scan["data_ns"]) + float(scan["compute_ns"]) for scan in scans)

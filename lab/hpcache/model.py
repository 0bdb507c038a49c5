"""Equation 1 of HPCache (DaMoN 2022, §4.1), and three readings of how a pipeline's columns go together.

Owns the equations as printed, to hold the engine's choice between them against what was measured. One deviation is the
engine's too: memory gives P where that is more than M, since work on encoded pages need not touch all of their bytes.

What else the engine predicts with is left out, as nothing that is recorded here tells it: a byte that is read costs a
pipeline some work beside the device's time; storage and work make the cube root of the sum of their cubes instead of the
longer one, since each is now and then the slower; of what is in memory when a pipeline begins only a part is still there
when it is used; and the whole is multiplied by how many times as long as expected runs of its plan took (between half and
twice). The last two are medians over the plan's last runs.

Sizes are bytes, rates bytes a second of all threads.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

MEMORY_BYTES_PER_S = 20e9
"""M, where P is not known to be more."""


@dataclass(frozen=True)
class Column:
    """What a pipeline reads of one column, and the share of it in memory."""

    size_bytes: float
    share_held: float


def memory_bytes_per_s(pace: float) -> float:
    """M, or P if that is known to be more."""
    return max(MEMORY_BYTES_PER_S, pace) if math.isfinite(pace) else MEMORY_BYTES_PER_S


def seconds(size_bytes: float, share_held: float, storage_bytes_per_s: float, pace: float) -> float:
    """Equation 1: the longest of reading storage, reading memory, and working."""
    return max(
        (1 - share_held) * size_bytes / storage_bytes_per_s,
        share_held * size_bytes / memory_bytes_per_s(pace),
        size_bytes / pace,
    )


def sum_over_device(columns: Iterable[Column], storage_bytes_per_s: float, pace: float) -> float:
    """Columns share the device: what is left to read adds up."""
    columns = list(columns)
    size_bytes = sum(column.size_bytes for column in columns)
    held_bytes = sum(column.size_bytes * column.share_held for column in columns)
    return seconds(size_bytes, held_bytes / size_bytes, storage_bytes_per_s, pace) if size_bytes else 0.0


def max_over_columns(columns: Iterable[Column], storage_bytes_per_s: float, pace: float) -> float:
    """Equations 2 and 3 as printed: each column has a time of its own, for its own bytes, and the longest counts."""
    return max((seconds(column.size_bytes, column.share_held, storage_bytes_per_s, pace) for column in columns), default=0.0)


def slowest_column(columns: Iterable[Column], storage_bytes_per_s: float, pace: float) -> float:
    """Equation 3 with whole times: the pipeline goes at the pace it would have if all its columns were held as little
    as the least held one."""
    columns = [column for column in columns if column.size_bytes]
    size_bytes = sum(column.size_bytes for column in columns)
    least = min((column.share_held for column in columns), default=1.0)
    return seconds(size_bytes, least, storage_bytes_per_s, pace)


def share_needed(storage_bytes_per_s: float, pace: float) -> float:
    """The share in memory from which storage is no longer what is waited for."""
    return max(0.0, 1 - storage_bytes_per_s / pace)
